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
TWICE = (((1, 2), (2, 1)), {"deaths": 0, "consumer_deaths": 1})
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


# For each step the case of the fewest states in which leaving it out is noticed.
NEEDED = {
    "no announcement": SMALL[2],
    "no withdrawal": SMALL[1],
    "alive first": SMALL[1],
    "no second look": SMALL[3],
    "all dead": SMALL[2],
    "no zeros": TWICE,
    "head first": TWICE,
    "no consumed": SMALL[3],
    "no epoch": SMALL[1],
}


@pytest.mark.parametrize("mutant", ring_model.MUTANTS)
def test_each_step_is_needed(mutant):
    jobs, settings = NEEDED[mutant]
    with pytest.raises(ring_model.Violation):
        ring_model.explore(jobs, mutant=mutant, **settings)
