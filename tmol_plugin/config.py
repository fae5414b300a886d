"""The configuration: defaults, validation, and the part of it that decides energies."""

import copy
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from tmol_plugin.errors import RunError

# What decides a score, besides the structure and the versions of the programs. A change
# of any other key (chunk sizes, threads, device) leaves finished chunks valid.
SCORING_KEYS = (
    *("score_function", "ligand_params", "prepare_ligands", "ligand_seed", "hydrogens"),
    *("packer_seed", "engine", "on_unrecognized", "missing_side_chains"),
)


def complete(config: Mapping, defaults: Mapping, schema: str | Path) -> dict:
    """`config` with absent keys from `defaults`, checked against the JSON schema.

    Raises:
        RunError: naming every key at fault, its value and what is allowed.
    """
    import jsonschema

    schema = json.loads(Path(schema).read_text(encoding="utf-8"))
    validator = jsonschema.Draft202012Validator(schema)
    errors = sorted(validator.iter_errors(dict(config)), key=lambda error: list(error.path))
    if errors:
        raise RunError("config: " + "; ".join(_explain(error) for error in errors))
    return _merged(defaults, config)


def _merged(defaults: Mapping, config: Mapping) -> dict:
    merged = copy.deepcopy(dict(defaults))
    for key, value in config.items():
        if isinstance(value, Mapping):
            merged[key] = _merged(merged.get(key, {}), value)
        else:
            merged[key] = value
    return merged


_TYPES = {
    "boolean": "true or false (True or False with --config)",
    "string": "a text",
    "integer": "a whole number",
    "object": "a mapping of keys",
    "array": "a list",
}


def _explain(error) -> str:
    key = ".".join(map(str, error.path)) or "top level"
    value = json.dumps(error.instance, default=str)
    rule, allowed = error.validator, error.validator_value
    if rule == "additionalProperties":
        known = error.schema["properties"]
        unknown = sorted(set(error.instance) - set(known))
        return f"{key}: unknown key {', '.join(unknown)}; allowed: {', '.join(sorted(known))}"
    words = {
        "enum": "one of " + ", ".join(map(str, allowed)) if rule == "enum" else "",
        "type": _TYPES.get(allowed, f"a value of type {allowed}"),
        "minimum": f"at least {allowed}",
        "maximum": f"at most {allowed}",
        "exclusiveMinimum": f"more than {allowed}",
        "minLength": "not empty",
        "uniqueItems": "without repeated items",
    }
    return f"{key}: is {value}, must be {words.get(rule, f'valid ({rule}: {allowed})')}"


def scoring_settings(config: Mapping) -> dict:
    """The keys that decide energies, as they stand in run.json."""
    return {key: config[key] for key in SCORING_KEYS}


def content_ids(paths: list[str]) -> list[str]:
    """A hash of each file that is there, so that its change makes a rule run again."""
    return [
        hashlib.sha256(Path(path).read_bytes()).hexdigest()[:16] if Path(path).is_file() else ""
        for path in paths
    ]
