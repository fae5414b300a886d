"""The configuration: the shipped files agree, and what is wrong is named with its remedy."""

import copy
import json
import math
import re
from pathlib import Path

import pytest
import yaml

from tmol_plugin import config as configuration
from tmol_plugin import device
from tmol_plugin.errors import RunError

ROOT = Path(__file__).parents[1]
SHIPPED = ROOT / "config" / "config.yaml"
SCHEMA = ROOT / "workflow" / "schemas" / "config.schema.json"


@pytest.fixture
def defaults():
    return yaml.safe_load(SHIPPED.read_text(encoding="utf-8"))


def complete(config, defaults):
    return configuration.complete(config, defaults, SCHEMA)


def schema_keys(schema, prefix=""):
    """Dotted names of all keys, those of mappings with the mapping's; closed ones only."""
    assert schema["additionalProperties"] is False, prefix
    keys = set()
    for name, part in schema["properties"].items():
        part = part.get("then", part)  # the mapping, where a word can stand for one
        inner = schema_keys(part, f"{prefix}{name}.") if part.get("type") == "object" else set()
        keys |= inner or {prefix + name}
    return keys


def commented_keys(text):
    """(dotted name, whether a comment stands right above it) of each key with a value.

    Keys of one section that stand together may share the comment above the first.
    """
    section, above, found = "", "", []
    for line in text.splitlines():
        indent, key, value = re.match(r"( *)(?:(\w+): *(.*))?", line).groups()
        if key and not value:
            section = key
        elif key:
            name = f"{section}.{key}" if indent else key
            commented = above.startswith(f"{indent}# ")
            found.append((name, commented))
        # A commented key of a section hands its comment on to the key below it.
        above = above if key and value and indent and commented else line
    return found


def test_the_shipped_config_is_valid_and_complete(defaults):
    assert complete(defaults, {}) == defaults
    keys = commented_keys(SHIPPED.read_text(encoding="utf-8"))
    assert {name for name, _ in keys} == schema_keys(json.loads(SCHEMA.read_text()))
    assert len(keys) == len(dict(keys))
    assert [name for name, commented in keys if not commented] == []


def test_commented_keys_sees_what_lacks_a_comment():
    text = "# a\na: 1\nz: 1\n\n# far\n\nb: 2\nc:\n  # d, e\n  d: 1\n  e: []\n# for f\n  f: 1\n"
    expected = {"a": True, "z": False, "b": False, "c.d": True, "c.e": True, "c.f": False}
    assert dict(commented_keys(text)) == expected


def test_every_key_is_known_to_decide_energies_or_not_to(defaults):
    """A new key must be put on one side: on the wrong one, finished chunks go stale or lie."""
    no_matter = {"structures", "results", "models", "device", "scan", "bucket", "chunk", "memory"}
    assert set(defaults) - set(configuration.SCORING_KEYS) == no_matter | {"threads", "outputs"}
    settings = configuration.scoring_settings(defaults)
    assert settings == {key: defaults[key] for key in configuration.SCORING_KEYS}


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"hydrogns": "keep"}, ["top level", "hydrogns", "allowed: ", "hydrogens, ", "threads"]),
        ({"chunk": {"max_structure": 1}}, ["chunk: ", "max_structure;", "allowed: max_structures"]),
        ({"threads": "4"}, ["threads: ", '"4"', "whole number"]),
        ({"threads": True}, ["threads: ", "true", "whole number"]),
        ({"threads": None}, ["threads: ", "null", "whole number"]),
        ({"prepare_ligands": "yes"}, ["prepare_ligands: ", '"yes"', "true or false"]),
        ({"ligand_params": "a.tmol"}, ["ligand_params: ", '"a.tmol"', "list"]),
        ({"ligand_params": ["a", 7]}, ["ligand_params.1: ", "7", "text"]),
        ({"ligand_params": ["a", "a"]}, ["ligand_params: ", '["a", "a"]', "without repeated"]),
        ({"chunk": None}, ["chunk: ", "null", "mapping"]),
        ({"chunk": 7}, ["chunk: ", "7", "mapping"]),
        ({"structures": ""}, ["structures: ", '""', "not empty"]),
        ({"threads": 0}, ["threads: ", "0", "at least 1"]),
        ({"packer_seed": 2**31}, ["packer_seed: ", "2147483648", "at most 2147483647"]),
        ({"memory": {"fraction": 1.5}}, ["memory.fraction: ", "1.5", "at most 1"]),
        ({"memory": {"fraction": 0}}, ["memory.fraction: ", "0", "more than 0"]),
        ({"memory": {"device_gib": -1}}, ["memory.device_gib: ", "-1", "at least 0"]),
        ({"bucket": {"ratio": 1}}, ["bucket.ratio: ", "1", "more than 1"]),
        ({"chunk": {"max_structures": 1.5}}, ["chunk.max_structures: ", "1.5", "whole number"]),
        ({"hydrogens": "kep"}, ["hydrogens: ", '"kep"', "one of keep, optimize"]),
        ({"device": "gpu"}, ["device: ", '"gpu"', "one of auto, cpu, cuda"]),
        ({"device": None}, ["device: ", "null", "one of auto, cpu, cuda"]),
        ({"device": {"use": "gpu"}}, ["device.use: ", '"gpu"', "one of auto, cpu, cuda"]),
        ({"device": {"wait": 1}}, ["device: ", "wait;", "allowed: share, use, wait_minutes"]),
        ({"device": {"share": 0}}, ["device.share: ", "0", "at least 1"]),
        ({"device": {"share": 1.5}}, ["device.share: ", "1.5", "whole number"]),
        ({"device": {"wait_minutes": -1}}, ["device.wait_minutes: ", "-1", "at least 0"]),
        ({"engine": "native"}, ["engine: ", '"native"', "one of auto, tmol"]),
        ({"models": 1}, ["models: ", "1", "one of first, all"]),
    ],
)
def test_what_is_wrong_is_named(defaults, config, words):
    with pytest.raises(RunError) as error:
        complete(config, defaults)
    for word in words:
        assert word in str(error.value)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"memory": {"fraction": math.nan}}, ["fraction", "nan", "finite"]),
        ({"chunk": {"target_minutes": math.inf}}, ["target_minutes", "inf", "finite"]),
        ({"device": {"wait_minutes": math.inf}}, ["wait_minutes", "inf", "finite"]),
        ({"ligand_params": ["no/such.tmol"]}, ["'no/such.tmol'", "not a file", "ligand_params"]),
        ({"score_function": "beta2017"}, ["'beta2017'", "score_function", "beta2016, beta_soft"]),
    ],
)
def test_what_a_schema_cannot_say_is_named(defaults, config, words):
    with pytest.raises(RunError, match=r"^config: ") as error:
        complete(config, defaults)
    for word in words:
        assert word in str(error.value)


def test_all_that_is_wrong_is_named_at_once(defaults):
    config = {"treads": 1, "hydrogens": 1, "memory": {"fraction": 2, "gib": 1}, "models": "all"}
    with pytest.raises(RunError) as error:
        complete(config, defaults)
    explained = str(error.value).removeprefix("config: ").split("; ")
    places = [part.partition(":")[0] for part in explained if not part.startswith("allowed")]
    assert sorted(places) == ["hydrogens", "memory", "memory.fraction", "top level"]
    assert "treads" in str(error.value)
    assert "models" not in str(error.value).replace(", models,", "")


def test_defaults_fill_what_is_absent_at_any_depth(defaults, tmp_path):
    before = copy.deepcopy(defaults)
    file = tmp_path / "a.tmol"
    file.touch()
    config = {"chunk": {"max_structures": 7}, "ligand_params": [str(file)], "memory": {}}
    found = complete(config, defaults)
    expected = copy.deepcopy(before)
    expected["chunk"]["max_structures"] = 7
    expected["ligand_params"] = [str(file)]
    assert found == expected
    found["chunk"]["max_structures"] = 8
    found["bucket"]["ratio"] = 9
    found["ligand_params"].append("b")
    assert defaults == before
    assert complete({}, defaults) == before


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("cuda", {"use": "cuda", "share": 1, "wait_minutes": 720}),
        ({}, {"use": "auto", "share": 1, "wait_minutes": 720}),
        ({"share": 2}, {"use": "auto", "share": 2, "wait_minutes": 720}),
        (
            {"use": "cpu", "share": 3, "wait_minutes": 0.5},
            {"use": "cpu", "share": 3, "wait_minutes": 0.5},
        ),
    ],
)
def test_a_device_is_a_mapping_whatever_was_given(defaults, given, expected):
    assert defaults["device"] == device.DEFAULTS
    assert device.normalized(given) == expected
    assert complete({"device": given}, defaults)["device"] == expected
    # What a changed config.yaml says counts, also where only a word is given.
    defaults["device"]["wait_minutes"] = 7
    expected = expected if "wait_minutes" in given else expected | {"wait_minutes": 7}
    assert complete({"device": given}, defaults)["device"] == expected


def test_content_ids_follow_the_content(tmp_path):
    first, second = tmp_path / "a", tmp_path / "b"
    first.write_bytes(b"x")
    second.write_bytes(b"x")
    paths = [str(first), "beta2016", str(second), str(tmp_path)]
    before = configuration.content_ids(paths)
    assert before[0] == before[2] != ""
    assert before[1] == before[3] == ""  # what is no file has no content
    second.write_bytes(b"y")
    after = configuration.content_ids(paths)
    assert (after[0], after[2] == before[2]) == (before[0], False)
    assert configuration.content_ids([]) == []
