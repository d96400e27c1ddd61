"""Claim, commit and unblock of the many-producer ring: every interleaving, and the need for each step."""

import importlib.util
from pathlib import Path

import pytest

_spec = importlib.util.spec_from_file_location("ring_model", Path(__file__).with_name("ring_model.py"))
assert _spec is not None
assert _spec.loader is not None
ring_model = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(ring_model)


SMALL = [
    (((1,), (2,)), {"deaths": 1}),
    (((2,), (2,)), {"deaths": 1, "heirs": (2,)}),
    (((2,), (1,)), {"deaths": 2, "heirs": ()}),
    (((1, 2), (1,)), {"deaths": 0, "consumer_deaths": 1}),
    (((2,), (1,)), {"deaths": 1, "consumer_deaths": 1, "heirs": ()}),
]
LARGE = [
    (((1, 2), (2,)), {"deaths": 1}),
    (((1,), (1,)), {"deaths": 2}),
    (((1, 2), (2,)), {"deaths": 1, "consumer_deaths": 1, "heirs": ()}),
]


@pytest.mark.parametrize(
    ("jobs", "settings"), [*SMALL, *(pytest.param(*case, marks=pytest.mark.slow) for case in LARGE)]
)
def test_every_interleaving_keeps_the_invariants(jobs, settings):
    assert ring_model.explore(jobs, **settings) > 1000


@pytest.mark.parametrize("mutant", ring_model.MUTANTS)
def test_each_step_is_needed(mutant):
    """Explore the cases with the fewest deaths first, the larger ones only if the smaller do not fail."""
    cases = [SMALL[1], SMALL[3], SMALL[0], SMALL[4], (((1, 2), (2, 1)), {"deaths": 0, "consumer_deaths": 1})]
    for jobs, settings in cases:
        try:
            ring_model.explore(jobs, mutant=mutant, **settings)
        except ring_model.Violation:
            return
    pytest.fail(f"{mutant}: no violation found, so the model does not check this step")
