"""What the tests on a real GPU share; without one they are skipped, with the reason."""

import pytest

from tmol_plugin import device, lease


def pytest_collection_modifyitems(items):
    found = [one for one in device.listed_devices() if not one.device.is_pretend]
    why_not = device.why_no_cuda() if found else device.why_no_cuda() or "all GPUs are pretended"
    if why_not:
        for item in items:
            if "gpu" in item.path.parts:
                item.add_marker(pytest.mark.skip(reason=f"needs a GPU: {why_not}"))


@pytest.fixture
def gpu(tmp_path, monkeypatch):
    """A lease on one GPU, among leases of the test's own."""
    monkeypatch.setenv("TMOL_PLUGIN_LEASES", str(tmp_path / "leases"))
    taken = lease.take("tests/gpu", share=1, wait_seconds=0)
    yield taken
    taken.release()
