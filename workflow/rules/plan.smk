# Buckets, chunks and batches: how many jobs there are is known only after this.
checkpoint plan:
    input:
        index=INDEX,
        parameters=rules.parameters.output,
    output:
        chunks=f"{RESULTS}/plan/chunks.tsv",
        failures=f"{RESULTS}/plan/failures.parquet",
        run=f"{RESULTS}/plan/run.json",
        members=directory(f"{RESULTS}/plan/members"),
    log:
        f"{RESULTS}/logs/plan.log",
    benchmark:
        f"{RESULTS}/benchmarks/plan.tsv"
    retries: attempts(1)
    conda:
        "../../envs/cpu.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 3000 * attempt,
        runtime=lambda wildcards, attempt: 30 * attempt,
    params:
        config=json.dumps(CONFIG, sort_keys=True),
        folder=subpath(output.chunks, parent=True),
        versions=provenance.versions(),
    message:
        "Plan chunks"
    shell:
        "python -m tmol_plugin plan --index {input.index:q} --parameters {input.parameters:q}"
        " --config {params.config:q} --output {params.folder:q} > {log:q} 2>&1"
