"""Every test of this folder leaves shared memory as it found it."""

import pytest


@pytest.fixture(autouse=True)
def segments_released(nothing_left_behind):
    """Apply `support.segments.nothing_left_behind` to every test."""
