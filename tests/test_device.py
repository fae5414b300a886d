"""Which devices a process may use, against what CUDA says of CUDA_VISIBLE_DEVICES."""

import importlib.util
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from tmol_plugin import device, lease
from tmol_plugin.cli import main
from tmol_plugin.errors import RunError

GIB = 2**30


class FakeNVML:
    """NVML of a machine whose GPUs are dicts of what is asked of them."""

    NVML_COMPUTEMODE_PROHIBITED = 2
    NVML_DEVICE_MIG_ENABLE = 1

    class NVMLError(Exception):
        pass

    def __init__(self, gpus, init_fails=None):
        self.gpus, self.init_fails, self.is_open = gpus, init_fails, 0

    def nvmlInit(self):  # noqa: N802
        if self.init_fails:
            raise self.NVMLError(self.init_fails)
        self.is_open += 1

    def nvmlShutdown(self):  # noqa: N802
        self.is_open -= 1

    def nvmlDeviceGetCount(self):  # noqa: N802
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index):  # noqa: N802
        if "lost" in self.gpus[index]:
            raise self.NVMLError("GPU is lost")
        return self.gpus[index]

    def nvmlDeviceGetUUID(self, handle):  # noqa: N802
        return handle["uuid"]

    def nvmlDeviceGetName(self, handle):  # noqa: N802
        return handle.get("name", "H200")

    def nvmlDeviceGetMemoryInfo(self, handle):  # noqa: N802
        return SimpleNamespace(total=handle.get("gib", 80) * GIB)

    def nvmlDeviceGetComputeMode(self, handle):  # noqa: N802
        return handle.get("mode", 0)

    def nvmlDeviceGetMigMode(self, handle):  # noqa: N802
        if "instances" not in handle:
            raise self.NVMLError("Not Supported")
        return [1, 1]

    def nvmlDeviceGetMaxMigDeviceCount(self, handle):  # noqa: N802
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle, place):  # noqa: N802
        if place not in handle["instances"]:
            raise self.NVMLError("Not Found")
        return handle["instances"][place]


ABC, ABD, FOUR = "GPU-abc0", "GPU-abd1", "GPU-4444"
THREE = [{"uuid": ABC}, {"uuid": ABD}, {"uuid": FOUR, "gib": 24}]
# The second GPU is divided; places 1 and 3 to 6 hold no instance.
INSTANCES = {0: {"uuid": "MIG-a1", "gib": 40}, 2: {"uuid": "MIG-a2", "gib": 10}}
DIVIDED = [{"uuid": ABC}, {"uuid": ABD, "instances": INSTANCES}]
OLD = {0: {"uuid": "MIG-GPU-abd1/1/0"}, 1: {"uuid": "MIG-GPU-abd1/1/01"}}


@pytest.fixture(autouse=True)
def fresh(tmp_path, monkeypatch):
    """Nothing set from outside, nothing known of the machine."""
    for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "TMOL_PLUGIN_PRETEND_GPUS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TMOL_PLUGIN_LEASES", str(tmp_path / "leases"))
    device._ask_nvml.cache_clear()
    yield
    device._ask_nvml.cache_clear()


@pytest.fixture
def machine(monkeypatch):
    """A function that gives this machine GPUs, and torch and TMol for CUDA."""

    def machine(gpus, **how):
        nvml = FakeNVML(gpus, **how)
        monkeypatch.setitem(sys.modules, "pynvml", nvml)
        monkeypatch.setattr(device, "_why_no_operators", lambda: None)
        return nvml

    return machine


def uuids():
    return [one.uuid for one in device.visible_devices()]


# What CUDA does with the value, by NVIDIA's documents.
VISIBLE = [
    (THREE, None, [ABC, ABD, FOUR]),
    (THREE, "", []),
    (THREE, "-1", []),
    (THREE, "NoDevFiles", []),
    (THREE, "none", []),
    (THREE, "0", [ABC]),
    (THREE, "2,0", [FOUR, ABC]),  # in the order named
    (THREE, " 1 , 2", [ABD, FOUR]),
    (THREE, "3", []),
    (THREE, "0,3,1", [ABC]),  # ends at the first that is none
    (THREE, "0,-1,1", [ABC]),
    (THREE, "1,,0", [ABD]),
    (THREE, "1,", [ABD]),
    (THREE, "1,1a", [ABD]),
    (THREE, "²", []),
    (THREE, "99999999999999999999999", []),
    (THREE, ABD, [ABD]),
    (THREE, "GPU-4", [FOUR]),
    (THREE, "GPU-abc,0x1", [ABC]),
    (THREE, "GPU-ab", []),  # of two
    (THREE, "GPU-4,GPU-ab,0", [FOUR]),
    (THREE, "4444", []),
    (THREE, "gpu-4444", []),
    (THREE, f"2,{ABC}", [FOUR, ABC]),
    ([{"uuid": ABC}, {"uuid": ABC + "0"}], ABC, [ABC]),  # whole before beginning
    (THREE[:1], "2", []),  # one assigned by device cgroups is number 0
    (THREE[:1], "0", [ABC]),
    (DIVIDED, None, [ABC, "MIG-a1", "MIG-a2"]),
    (DIVIDED, "MIG-a2", ["MIG-a2"]),
    (DIVIDED, "MIG-a2,MIG-a1", ["MIG-a2", "MIG-a1"]),
    (DIVIDED, "MIG-a", []),
    (DIVIDED, "1", ["MIG-a1"]),  # the first of the GPU's
    (DIVIDED, ABD, ["MIG-a1"]),
    (DIVIDED, "0,MIG-a2", [ABC, "MIG-a2"]),
    ([{"uuid": ABD, "instances": OLD}], "MIG-GPU-abd1/1/0", ["MIG-GPU-abd1/1/0"]),
    ([{"uuid": ABD, "instances": {}}], None, []),
    ([{"uuid": ABD, "instances": {}}, {"uuid": ABC}], "0,1", [ABC]),
    ([{"uuid": ABC, "mode": 2}, {"uuid": ABD, "mode": 3}], None, [ABD]),
    ([{"uuid": ABC, "mode": 2}, {"uuid": ABD}], "1,0", [ABD]),
    ([{"lost": True}, {"uuid": ABD}], "1", [ABD]),  # the others keep their numbers
    ([{"lost": True}, {"uuid": ABD}], None, [ABD]),
    ([], None, []),
    ([], "0", []),
]


@pytest.mark.parametrize(("gpus", "value", "expected"), VISIBLE)
def test_what_is_visible_is_what_cuda_shows(machine, monkeypatch, gpus, value, expected):
    nvml = machine(gpus)
    if value is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
    assert uuids() == expected
    assert nvml.is_open == 0
    # Whatever it is, a reason is given exactly where nothing can be used.
    assert (device.why_no_cuda() is None) == bool(expected)


@pytest.mark.parametrize("value", ["0,0", "0,1,0", f"1,{ABD}", f"{FOUR},GPU-4", "2,02"])
def test_a_device_named_twice_is_an_error(machine, monkeypatch, value):
    machine(THREE)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
    with pytest.raises(RunError, match=rf"{value}' names GPU \d twice"):
        uuids()
    with pytest.raises(RunError, match="twice"):
        lease.lease_for(device.normalized("auto"), "me")


def test_a_device_named_twice_after_the_lists_end_is_not_read(machine, monkeypatch):
    machine(THREE)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,-1,0")
    assert uuids() == [ABC]


def test_indices_of_an_order_that_only_cuda_knows_are_refused(machine, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "FASTEST_FIRST")
    machine(THREE)
    assert uuids() == [ABD]  # all of one model
    device._ask_nvml.cache_clear()
    machine([*THREE, {"uuid": "GPU-5", "name": "L4"}])
    with pytest.raises(RunError, match=r"FASTEST_FIRST and GPUs of several models.*give UUIDs"):
        uuids()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-5")
    assert uuids() == ["GPU-5"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    assert uuids() == [ABD]


def test_what_is_told_of_a_device(machine):
    machine(DIVIDED)
    assert device.visible_devices() == [
        device.Device(ABC, "H200", 0, 80 * GIB, False),
        device.Device("MIG-a1", "H200", 1, 40 * GIB, False),
        device.Device("MIG-a2", "H200", 1, 10 * GIB, False),
    ]


@pytest.mark.parametrize(
    ("value", "warned"),
    [("0,7", "'0,7': '7' names no one GPU"), ("GPU-ab", "'GPU-ab' names no one GPU"), ("0,-1", "")],
)
def test_a_list_that_ends_early_is_told(machine, monkeypatch, caplog, value, warned):
    machine(THREE)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
    device.visible_devices()
    assert warned in caplog.text
    assert bool(caplog.records) == bool(warned)


@pytest.mark.parametrize(
    ("gpus", "value", "reason"),
    [
        (THREE, "", "CUDA_VISIBLE_DEVICES='' allows none of 3 GPUs"),
        (THREE, "-1", "CUDA_VISIBLE_DEVICES='-1' allows none of 3 GPUs"),
        (THREE, "8", "CUDA_VISIBLE_DEVICES='8': '8' names no one GPU"),
        ([{"uuid": ABC, "mode": 2}], "0", "GPU 0: its compute mode is prohibited"),
        ([{"lost": True}], None, "GPU 0: NVML says GPU is lost"),
        ([{"uuid": ABC, "instances": {}}], None, "GPU 0: MIG divides it, and it has no instance"),
        ([], None, "the driver lists no GPU"),
    ],
)
def test_why_there_is_no_device(machine, monkeypatch, caplog, gpus, value, reason):
    machine(gpus)
    if value is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
    assert device.why_no_cuda() == reason
    with pytest.raises(RunError, match=r"^device: cuda cannot be used: ") as error:
        lease.lease_for(device.normalized("cuda"), "me")
    assert str(error.value).endswith(reason)
    caplog.clear()
    with caplog.at_level("INFO"):
        assert lease.lease_for(device.normalized("auto"), "me") is None
    told = [(one.levelname, one.getMessage()) for one in caplog.records]
    assert told == [("WARNING" if gpus else "INFO", f"device: auto is the CPU: {reason}")]


def test_why_there_is_no_driver(machine, monkeypatch):
    machine(THREE, init_fails="Driver Not Loaded")
    assert device.why_no_cuda() == "no GPU driver: NVML says Driver Not Loaded"
    assert uuids() == []
    device._ask_nvml.cache_clear()
    monkeypatch.setitem(sys.modules, "pynvml", None)  # importing it raises ImportError
    assert device.why_no_cuda().endswith("nvidia-ml-py is not installed")


@pytest.mark.parametrize(
    ("version", "packages", "source_build", "reason"),
    [
        ("cuda: Optional[str] = None", ["tmol_ops_cu13"], False, "torch is a build without CUDA; "),
        ("cuda: Optional[str] = '13.0'", ["tmol_ops_cu13"], False, None),
        ("cuda = '12.8'\nhip = None", ["tmol_ops_cu12"], False, None),
        (
            "cuda: str | None = '12.8'",
            ["tmol_ops_cu13"],
            False,
            "CUDA 12.8; install the extra cu12",
        ),
        ("cuda = '13.0'", [], False, "TMol has no operators for torch's CUDA 13.0; install the "),
        ("cuda = '13.0'", [], True, None),
        (None, [], False, "torch is not installed"),
    ],
)
def test_what_is_installed_is_told_without_import(
    monkeypatch, tmp_path, version, packages, source_build, reason
):
    monkeypatch.setitem(sys.modules, "pynvml", FakeNVML(THREE))
    for name in ("torch", "tmol", *packages):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise ImportError('not to be imported')")
    (tmp_path / "torch" / "version.py").write_text(f"__version__ = '2'\n{version}\nxpu = None\n")
    library = b"\x7fELF libcudart.so.13" if source_build else b"\x7fELF libc.so.6"
    (tmp_path / "tmol" / "_C.cpython-311-x86_64-linux-gnu.so").write_bytes(library)

    def find_spec(name):
        path = tmp_path / name / "__init__.py"
        is_there = path.exists() and not (name == "torch" and version is None)
        return importlib.util.spec_from_file_location(name, path) if is_there else None

    monkeypatch.setattr(device.importlib.util, "find_spec", find_spec)
    found = device.why_no_cuda()
    assert found is None if reason is None else reason in found


def test_this_torch_is_read_as_it_says_itself():
    import torch

    assert (device._why_no_operators() is None) <= (torch.version.cuda is not None)
    if torch.version.cuda is None:
        assert device._why_no_operators().startswith("torch is a build without CUDA")


def test_what_a_scoring_process_computes_on(machine, monkeypatch, caplog):
    machine([], init_fails="Driver Not Loaded")
    assert device.resolve("cpu").type == "cpu"
    assert not caplog.records
    assert device.resolve("auto").type == "cpu"
    assert "scoring on the CPU: no GPU driver" in caplog.text
    with pytest.raises(RunError, match="device: cuda cannot be used: no GPU driver"):
        device.resolve("cuda")
    # What torch finds only when it starts CUDA is a reason like the others.
    monkeypatch.setattr(device, "why_no_cuda", lambda: None)
    monkeypatch.setattr(
        device, "visible_devices", lambda: [device.Device(ABC, "H200", 0, 1, False)]
    )
    monkeypatch.setattr(device, "_why_torch_cannot", lambda: "torch cannot start CUDA: no")
    with pytest.raises(RunError, match="device: cuda cannot be used: torch cannot start CUDA: no"):
        device.resolve("cuda")
    monkeypatch.setattr(device, "_why_torch_cannot", lambda: None)
    assert str(device.resolve("auto")) == "cuda:0"


def test_no_heavy_import_before_the_lease():
    """What takes the lease starts at once, and before torch looks at the environment."""
    code = "import sys; from tmol_plugin import lease; lease.take('me', 1, 0);"
    code += "print(*({'torch', 'tmol', 'numpy', 'pandas', 'pynvml'} & set(sys.modules)))"
    environment = os.environ | {"TMOL_PLUGIN_PRETEND_GPUS": "1"}
    found = subprocess.check_output([sys.executable, "-c", code], env=environment, text=True)
    assert found == "\n"


# Pretend devices


def test_pretend_devices_are_listed_and_selected_as_real_ones(machine, monkeypatch):
    machine(THREE)
    monkeypatch.setenv("TMOL_PLUGIN_PRETEND_GPUS", "4")
    every = device.visible_devices()
    assert [one.index for one in every] == [0, 1, 2, 3]
    assert all(one.is_pretend and one.uuid.startswith("GPU-pretend-") for one in every)
    assert len({one.uuid for one in every}) == 4
    assert every == device.visible_devices()
    main_memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert 0 < sum(one.total_bytes for one in every) <= main_memory / 2
    for value, expected in [("2", [2]), ("3,1,9", [3, 1]), (every[1].uuid, [1]), ("", [])]:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
        assert [one.index for one in device.visible_devices()] == expected
        assert (device.why_no_cuda() is None) == bool(expected)


def test_without_cuda_pretend_devices_can_be_used(monkeypatch):
    monkeypatch.setenv("TMOL_PLUGIN_PRETEND_GPUS", "1")
    taken = lease.lease_for(device.normalized({"use": "cuda", "wait_minutes": 0}), "me")
    assert taken.device.is_pretend
    for name, value in taken.environment.items():
        monkeypatch.setenv(name, value)
    assert device.resolve("cuda").type == "cpu"
    # One that is taken is waited for, also by `auto`: the CPU would be another result's place.
    with pytest.raises(RunError, match=r"no GPU became free within 0 minutes: .*, me, since"):
        lease.lease_for(device.normalized({"wait_minutes": 0}), "other")
    taken.release()
    assert lease.lease_for(device.normalized("cpu"), "me") is None


@pytest.mark.parametrize("value", ["four", "0", "-1", "1.5", " 4", "65", "4,", "²", "1" * 5000])
def test_a_malformed_number_of_pretend_devices_is_an_error(monkeypatch, value):
    monkeypatch.setenv("TMOL_PLUGIN_PRETEND_GPUS", value)
    with pytest.raises(RunError, match=r"TMOL_PLUGIN_PRETEND_GPUS=.*: give a number from 1 to 64"):
        device.visible_devices()


def test_an_empty_number_of_pretend_devices_is_none(machine, monkeypatch):
    machine(THREE)
    monkeypatch.setenv("TMOL_PLUGIN_PRETEND_GPUS", "")
    assert uuids() == [ABC, ABD, FOUR]


# `python -m tmol_plugin devices`


def test_the_table_of_devices(machine, monkeypatch, capsys):
    machine([*THREE[:2], {"lost": True}])
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    taken = lease.take("chunk 0a", 2, 0)
    assert main(["devices"]) == 0
    header, *rows = capsys.readouterr().out.splitlines()
    assert header.split() == ["index", "name", "UUID", "GiB", "visible", "lease"]
    assert rows[0].split() == ["0", "H200", ABC, "80.0", "no", "free"]
    assert rows[1].split()[:5] == ["1", "H200", ABD, "80.0", "yes"]
    assert f"held by pid {os.getpid()} of " in rows[1]
    assert ", chunk 0a, share 2, since 20" in rows[1]
    assert "NVML says GPU is lost" in rows[2]
    assert len(rows) == 3
    taken.release()


def test_the_table_without_devices_says_why(machine, tmp_path, capsys):
    machine([], init_fails="Driver Not Loaded")
    assert main(["devices"]) == 0
    expected = "CUDA cannot be used: no GPU driver: NVML says Driver Not Loaded\n"
    assert capsys.readouterr().out == expected
    assert not (tmp_path / "leases").exists()  # who only looks makes nothing
