"""Every test gives back what it took: live leases are counted around each one."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from mojoview.memory._lease import live_leases

# A shared machine stalls at times; what a test takes is pytest-timeout's business.
settings.register_profile("mojoview", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("mojoview")


@pytest.fixture(autouse=True)
def leases() -> Iterator[None]:
    before = live_leases()
    yield
    if live_leases() > before:
        gc.collect()
    assert live_leases() <= before, "the test left leases behind"
