"""The examples in the docstrings run, including those of the extension modules."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import numpy as np
import pytest

import mojoview

ROOMS = ("memory", "views", "calls", "sharing", "compute", "loading", "safety", "flow", "frames")
MODULES = [
    name
    for room in ROOMS
    for _, name, _ in pkgutil.walk_packages(importlib.import_module(f"mojoview.{room}").__path__, f"mojoview.{room}.")
    if not name.endswith("_malloc_shim")  # a library to preload, not a module
]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    module = importlib.import_module(name)
    failed, _ = doctest.testmod(module, extraglobs={"np": np}, optionflags=doctest.ELLIPSIS)
    assert failed == 0


def test_the_public_functions_have_examples():
    view = mojoview.View
    for function in (mojoview.view, mojoview.from_ptr, view, view.cast, view.reshape, view.release):
        assert ">>>" in function.__doc__, function
        assert "Thread safety:" in function.__doc__, function
