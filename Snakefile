# Scores structures with TMol's beta_nov2016 energy function: scan, plan, score, merge.
# The configuration is described in config/config.yaml and config/README.md.
from pathlib import Path

from snakemake.utils import min_version

min_version("9.0")


if Path("config/config.yaml").is_file():

    configfile: "config/config.yaml"


include: "workflow/rules/common.smk"
include: "workflow/rules/scan.smk"
include: "workflow/rules/parameters.smk"
include: "workflow/rules/plan.smk"
include: "workflow/rules/score_chunk.smk"
include: "workflow/rules/merge.smk"


localrules:
    all,


rule all:
    default_target: True
    input:
        rules.merge.output,


onsuccess:
    if Path(rules.merge.output.run).is_file():
        print(provenance.summary(Path(rules.merge.output.run).parent))
