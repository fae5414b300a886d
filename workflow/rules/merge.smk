# The final tables, from the chunks that the plan names and from nothing else.
rule merge:
    input:
        chunks=planned_chunks,
        index=INDEX,
        plan=rules.plan.output.run,
    output:
        scores=multiext(f"{RESULTS}/scores", ".tsv", ".parquet"),
        scores_unweighted=multiext(f"{RESULTS}/scores_unweighted", ".tsv", ".parquet"),
        failures=multiext(f"{RESULTS}/failures", ".tsv", ".parquet"),
        memory=multiext(f"{RESULTS}/memory", ".tsv", ".parquet"),
        timing=multiext(f"{RESULTS}/timing", ".tsv", ".parquet"),
        per_residue=if_per_residue(f"{RESULTS}/per_residue.parquet"),
        run=f"{RESULTS}/run.json",
    log:
        f"{RESULTS}/logs/merge.log",
    benchmark:
        f"{RESULTS}/benchmarks/merge.tsv"
    retries: attempts(1)
    conda:
        "../../envs/cpu.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 4000 * attempt,
        runtime=lambda wildcards, attempt: 60 * attempt,
    params:
        manifest=INPUTS.all,
        plan=subpath(input.plan, parent=True),
        chunks=subpath(input.plan, ancestor=2),
        folder=subpath(output.run, parent=True),
    message:
        "Merge {input.plan}"
    shell:
        "python -m tmol_plugin merge --manifest {params.manifest:q} --index {input.index:q}"
        " --plan {params.plan:q} --chunks {params.chunks:q}/chunks --output {params.folder:q}"
        " > {log:q} 2>&1"
