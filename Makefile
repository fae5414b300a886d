# Set-up, a run on the shipped structures, and the tests: each in one command.
PYTHON ?= python3
BIN := .venv/bin
GPUS := $(shell nvidia-smi -L 2>/dev/null | grep -c '^GPU' || true)
GPU := $(if $(filter-out 0,$(GPUS)),$(GPUS),1)

# The compiled library and its tests: one build tree, which pip fills and `native` keeps fresh.
BUILD := build/native
DEFINE := TMOL_PLUGIN_TESTS=ON CMAKE_COMPILE_WARNING_AS_ERROR=ON
CXX_FILES := $(wildcard csrc/*/*.h csrc/*/*.cpp)
CXX_FILES := $(filter-out csrc/third_party/%,$(CXX_FILES))
# What `test-sanitized` runs of the Python tests.
SANITIZED_TESTS ?= $(addprefix tests/,test_native.py test_native_tables.py test_mutations.py \
    test_score_bits.py)

.PHONY: run native test test-native test-sanitized lint format clean

# Snakemake prints the summary itself, except when there is nothing to be done.
run: native
	@touch .venv/started
	$(BIN)/snakemake --cores all --resources gpu=$(GPU)
	@test results/run.json -nt .venv/started || $(BIN)/python -m tmol_plugin summary results

# Instant where no source was changed.
native: .venv/installed
	@$(BIN)/cmake -S csrc -B $(BUILD) -G Ninja $(DEFINE:%=-D%) >/dev/null
	$(BIN)/cmake --build $(BUILD)
	@$(BIN)/cmake --install $(BUILD) --prefix "$$($(BIN)/python -c \
	    'import sysconfig; print(sysconfig.get_path("platlib"))')" >/dev/null

test: test-native
	$(BIN)/python -m pytest

test-native: native
	$(BIN)/ctest --test-dir $(BUILD) --output-on-failure

# The run-time libraries must be there before Python, which has none of them (libstdc++ for
# the exceptions that AddressSanitizer intercepts); Python itself leaks at its end. A report
# goes to the real stderr, and would be lost with the process where pytest captured that.
SANITIZED_PYTHON = TMOL_PLUGIN_LIBRARY="$(CURDIR)/build/$(1)/libtmol_plugin_cpu.so" \
    LD_PRELOAD="$(foreach library,$(2) libstdc++.so.6,$(shell $(CXX) -print-file-name=$(library)))" \
    PYTHONMALLOC=malloc $(BIN)/python -m pytest --capture=sys

test-sanitized: export ASAN_OPTIONS = detect_leaks=0
test-sanitized: export UBSAN_OPTIONS = print_stacktrace=1
test-sanitized: .venv/installed
	@$(BIN)/cmake -S csrc -B build/sanitized -G Ninja $(DEFINE:%=-D%) \
	    -DTMOL_PLUGIN_SANITIZE=address,undefined >/dev/null
	@$(BIN)/cmake -S csrc -B build/threads -G Ninja $(DEFINE:%=-D%) \
	    -DTMOL_PLUGIN_SANITIZE=thread >/dev/null
	$(BIN)/cmake --build build/sanitized
	$(BIN)/cmake --build build/threads
	$(BIN)/ctest --test-dir build/sanitized --output-on-failure
	$(call SANITIZED_PYTHON,sanitized,libasan.so libubsan.so) $(SANITIZED_TESTS)
	$(call SANITIZED_PYTHON,threads,libtsan.so) tests/test_score_bits.py

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run --Werror $(CXX_FILES)
	$(BIN)/snakefmt --check Snakefile workflow
	$(BIN)/snakemake --lint

format: .venv/installed
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(CXX_FILES)
	$(BIN)/snakefmt Snakefile workflow

# torch comes first and alone: what it resolves to decides what everything after it gets.
# The package is built with the environment's CMake, not one that pip makes and removes, so
# that its build tree can be built again.
.venv/installed: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet "torch>=2.11,<2.14"
	$(BIN)/pip install --quiet "scikit-build-core>=1.0" "cmake>=3.24" "ninja>=1.10"
	$(BIN)/pip install --quiet --no-build-isolation --editable ".[test]" \
	    --config-settings=build-dir=$(BUILD) $(DEFINE:%=--config-settings=cmake.define.%)
	touch $@

clean:
	rm -rf .venv .snakemake build results
