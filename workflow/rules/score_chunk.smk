# One chunk, one process, one GPU where it is scored on one.
#
# A chunk's id comes from its content, the settings and the parameters, so a finished chunk
# stays valid when the plan is made anew: hence `ancient`. (It marks the object it is given:
# `rules.plan.output` would be ancient for every other rule too.)
rule score_chunk:
    input:
        members=ancient(f"{RESULTS}/plan/members/{{chunk}}.tsv"),
        plan=ancient(f"{RESULTS}/plan/run.json"),
        parameters=ancient(f"{RESULTS}/parameters/parameters.safetensors"),
    output:
        scores=f"{RESULTS}/chunks/{{chunk}}/scores.parquet",
        scores_unweighted=f"{RESULTS}/chunks/{{chunk}}/scores_unweighted.parquet",
        failures=f"{RESULTS}/chunks/{{chunk}}/failures.parquet",
        memory=f"{RESULTS}/chunks/{{chunk}}/memory.parquet",
        timing=f"{RESULTS}/chunks/{{chunk}}/timing.parquet",
        per_residue=if_per_residue(f"{RESULTS}/chunks/{{chunk}}/per_residue.parquet"),
        done=f"{RESULTS}/chunks/{{chunk}}/done.json",
    log:
        f"{RESULTS}/logs/score_chunk/{{chunk}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/score_chunk/{{chunk}}.tsv"
    retries: attempts(2)
    conda:
        "../../envs/cpu.yaml"
    threads: CONFIG["threads"]
    resources:
        gpu=lambda wildcards, input: device.gpus_of_chunk(input.members, CONFIG["device"]["use"]),
        mem_mb=lambda wildcards, attempt: 4000 * attempt,
        runtime=lambda wildcards, attempt: int(30 + 3 * attempt * CONFIG["chunk"]["target_minutes"]),
    params:
        folder=subpath(output.done, parent=True),
    message:
        "Score chunk {wildcards.chunk}"
    shell:
        "python -m tmol_plugin score_chunk --members {input.members:q} --plan {input.plan:q}"
        " --parameters {input.parameters:q} --output {params.folder:q}"
        " --threads {threads} > {log:q} 2>&1"
