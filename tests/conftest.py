"""Configuration of the whole suite: tiers of tests, and live leases counted around each test."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from support import install
from support.process import heed_interrupts

from mojoview.memory._lease import live_leases

pytest_plugins = ["support.mojo", "support.segments"]

# A shared machine stalls at times; what a test takes is pytest-timeout's business.
settings.register_profile("mojoview", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("mojoview")

SMOKE = ("test_house.py", "test_minimal.py")
# The files that take more than a few seconds, the longest first: of two processes none then ends with a long one.
LONGEST = (
    "test_mojo_reductions.py",
    "test_ring_native.py",
    "test_load_mojo.py",
    "test_latch.py",
    "test_reductions.py",
    "test_load_forms.py",
    "test_load_processes.py",
    "test_minimal.py",
    "test_native.py",
    "test_arrays.py",
    "test_mojo_page.py",
    "test_state.py",
    "test_snapshot.py",
    "test_workers.py",
    "test_ring_model.py",
    "test_slots.py",
    "test_cache_limit.py",
    "test_segments.py",
    "test_aot.py",
    "test_load_cache.py",
    "test_examples.py",
    "test_threads.py",
    "test_ring_command.py",
    "test_hostile.py",
)


def pytest_configure(config: pytest.Config) -> None:
    heed_interrupts()
    if hasattr(config.option, "loadscopereorder"):  # pytest-xdist: files in our order, not by their number of tests
        config.option.loadscopereorder = False


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the smoke tests; skip the slow ones in a plain run: `pytest -m slow` or MOJOVIEW_LONG=1 runs them.

    Long files come first.
    """
    slow = os.environ.get("MOJOVIEW_LONG") or "slow" in config.getoption("markexpr")
    for item in items:
        if item.path.name in SMOKE and not any(item.get_closest_marker(name) for name in ("build", "mojo")):
            item.add_marker(pytest.mark.smoke)
    left_out = [] if slow else [item for item in items if item.get_closest_marker("slow")]
    if left_out:
        items[:] = [item for item in items if not item.get_closest_marker("slow")]
        config.hook.pytest_deselected(items=left_out)
    rank = {name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: rank.get(item.path.name, len(LONGEST)))


@pytest.fixture(scope="module", autouse=True)
def settled_objects() -> None:
    """Take what exists before a file's first test (modules, test items) out of later collections.

    Many tests collect garbage, which takes 0.1 s where it visits all of pandas and pytest. What a test makes is
    collected as before.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def leases() -> Iterator[None]:
    before = live_leases()
    yield
    if live_leases() > before:
        gc.collect()
    assert live_leases() <= before, "the test left leases behind"


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the installed package: the present one, or where that is editable a wheel of the tree."""
    directory = install.installed()
    if directory is not None:
        return directory
    tool = install.missing_build_tool()
    if tool is not None:
        pytest.skip(f"the install is editable, and {tool}, which would build a wheel of it, is not installed")
    directory = tmp_path_factory.mktemp("site")
    install.build_and_install(tmp_path_factory.mktemp("wheels"), directory)
    return directory
