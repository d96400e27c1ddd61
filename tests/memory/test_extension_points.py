"""Extension points: declared once, filled by the package, resolved when first used."""

from __future__ import annotations

import pytest

import mojoview as mv
from mojoview.memory import extension_points as points

DECLARED = {name: value for name, value in vars(points).items() if isinstance(value, points.ExtensionPoint)}


@pytest.mark.parametrize("name", sorted(DECLARED))
def test_every_declared_point_is_filled(name):
    assert callable(points.resolve(DECLARED[name]))
    assert points.resolve(DECLARED[name]) is points.resolve(DECLARED[name])


def test_nothing_else_is_registered():
    assert set(points._targets) == set(DECLARED.values())


def test_an_unfilled_point_says_what_to_import():
    point = points.ExtensionPoint("canary()", "calls", "() -> None")
    with pytest.raises(mv.KernelError, match=r"canary\(\): no function is registered .*; import mojoview first"):
        points.resolve(point)


def test_the_last_registration_counts():
    point = points.ExtensionPoint("a point of this test", "tests", "() -> None")
    try:
        for target in ("math:sqrt", "math:floor"):
            points.register(point, target)
            assert points.resolve(point).__name__ == target.partition(":")[2]
    finally:
        points._targets.pop(point)
        points.resolve.cache_clear()
