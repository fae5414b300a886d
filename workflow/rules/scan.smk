# Size and chemistry of every structure, many structures a job; no GPU.
rule scan:
    output:
        f"{RESULTS}/index/{{shard}}.parquet",
    log:
        f"{RESULTS}/logs/scan/{{shard}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/scan/{{shard}}.tsv"
    retries: attempts(1)
    conda:
        "../../envs/cpu.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 1500 * attempt,
        runtime=lambda wildcards, attempt: 60 * attempt,
    params:
        manifest=lambda wildcards: INPUTS.shards[wildcards.shard],
        models=CONFIG["models"],
        on_unrecognized=CONFIG["on_unrecognized"],
        missing_side_chains=CONFIG["missing_side_chains"],
        ligand_params=option("ligand-params", CONFIG["ligand_params"]),
        files=configuration.content_ids(CONFIG["ligand_params"]),
        prepare_ligands="--prepare-ligands" if CONFIG["prepare_ligands"] else "",
        version=provenance.versions()["tmol_plugin"],
    message:
        "Scan shard {wildcards.shard} of the structures"
    shell:
        "python -m tmol_plugin scan --manifest {params.manifest:q} --output {output:q}"
        " --models {params.models} --on-unrecognized {params.on_unrecognized}"
        " --missing-side-chains {params.missing_side_chains}"
        " {params.prepare_ligands} {params.ligand_params} > {log:q} 2>&1"
