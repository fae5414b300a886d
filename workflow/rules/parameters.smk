# One parameter database for the run, compiled into a file that every chunk loads; with
# `prepare_ligands`, extended by what the scan found.
rule parameters:
    input:
        INDEX if CONFIG["prepare_ligands"] else [],
    output:
        f"{RESULTS}/parameters/parameters.safetensors",
    log:
        f"{RESULTS}/logs/parameters.log",
    benchmark:
        f"{RESULTS}/benchmarks/parameters.tsv"
    retries: attempts(1)
    conda:
        "../../envs/cpu.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 4000 * attempt,
        runtime=lambda wildcards, attempt: 120 * attempt,
    params:
        score_function=CONFIG["score_function"],
        ligand_params=option("ligand-params", CONFIG["ligand_params"]),
        ligand_seed=CONFIG["ligand_seed"],
        prepare_from=lambda wildcards, input: option("prepare-from", list(input)),
        files=configuration.content_ids([CONFIG["score_function"], *CONFIG["ligand_params"]]),
        version=provenance.versions()["tmol"],
    message:
        "Parameters of {params.score_function}"
    shell:
        "python -m tmol_plugin parameters --output {output:q}"
        " --score-function {params.score_function:q} --ligand-seed {params.ligand_seed}"
        " {params.ligand_params} {params.prepare_from} > {log:q} 2>&1"
