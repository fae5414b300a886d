# Set-up, a run on the shipped structures, and the tests: each in one command.
PYTHON ?= python3
BIN := .venv/bin
GPUS := $(shell nvidia-smi -L 2>/dev/null | grep -c '^GPU' || true)
GPU := $(if $(filter-out 0,$(GPUS)),$(GPUS),1)

.PHONY: run test lint clean

# Snakemake prints the summary itself, except when there is nothing to be done.
run: .venv/installed
	@touch .venv/started
	$(BIN)/snakemake --cores all --resources gpu=$(GPU)
	@test results/run.json -nt .venv/started || $(BIN)/python -m tmol_plugin summary results

test: .venv/installed
	$(BIN)/python -m pytest

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/snakefmt --check Snakefile workflow
	$(BIN)/snakemake --lint

# torch comes first and alone: what it resolves to decides what everything after it gets.
.venv/installed: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet "torch>=2.11,<2.14"
	$(BIN)/pip install --quiet --editable ".[test]"
	touch $@

clean:
	rm -rf .venv .snakemake results
