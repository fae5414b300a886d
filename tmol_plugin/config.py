"""The configuration: defaults, validation, and the part of it that decides energies."""

import copy
import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import Path

from tmol_plugin.device import normalized
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

    Returns:
        The configuration in one form: `device` is a mapping, also where it was a word.
    """
    import jsonschema

    schema = json.loads(Path(schema).read_text(encoding="utf-8"))
    validator = jsonschema.Draft202012Validator(schema)
    errors = sorted(validator.iter_errors(dict(config)), key=lambda error: list(error.path))
    if errors:
        raise RunError("config: " + "; ".join(_explain(error) for error in errors))
    if "device" in config:
        config = {**config, "device": normalized(config["device"], defaults.get("device", {}))}
    merged = _merged(defaults, config)
    _check_values(merged)
    return merged


def _merged(defaults: Mapping, config: Mapping) -> dict:
    merged = copy.deepcopy(dict(defaults))
    for key, value in config.items():
        if isinstance(value, Mapping):
            merged[key] = _merged(merged.get(key, {}), value)
        else:
            merged[key] = value
    return merged


SCORE_FUNCTIONS = ("beta2016", "beta_soft")  # TMol's own

_RULES = {
    "minimum": "at least",
    "maximum": "at most",
    "exclusiveMinimum": "more than",
    "uniqueItems": "without repeated items:",
    "pattern": "a text that matches",
}
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
        unknown = sorted(str(name) for name in error.instance if name not in known)
        return f"{key}: unknown key {', '.join(unknown)}; allowed: {', '.join(sorted(known))}"
    if rule == "enum":
        must = "one of " + ", ".join(map(str, allowed))
    elif rule == "type":
        must = _TYPES.get(allowed, f"a value of type {allowed}")
    elif rule == "minLength":
        must = "not empty"
    else:
        must = f"{_RULES.get(rule, rule)} {allowed}"
    return f"{key}: is {value}, must be {must}"


def _check_values(config: Mapping) -> None:
    """What a JSON schema cannot say: numbers are finite, files are there."""
    for key, value in config.items():
        if isinstance(value, Mapping):
            _check_values(value)
        elif isinstance(value, float) and not math.isfinite(value):
            raise RunError(f"config: {key}: is {value}, must be a finite number")
    files = list(config.get("ligand_params", ()))
    if config.get("score_function") not in (None, *SCORE_FUNCTIONS):
        files.append(config["score_function"])
    for path in files:
        if not Path(path).is_file():
            raise RunError(
                f"config: {path!r} is not a file; ligand_params are TMol parameter files, and"
                f" score_function is {', '.join(SCORE_FUNCTIONS)} or a .sfxn file"
            )


def scoring_settings(config: Mapping) -> dict:
    """The keys that decide energies, as they stand in run.json."""
    return {key: config[key] for key in SCORING_KEYS}


def content_ids(paths: list[str]) -> list[str]:
    """A hash of each file that is there, so that its change makes a rule run again."""
    return [
        hashlib.sha256(Path(path).read_bytes()).hexdigest()[:16] if Path(path).is_file() else ""
        for path in paths
    ]
