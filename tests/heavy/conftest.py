"""Round trips with libraries too heavy for the default run: ``python -m pytest tests/heavy``.

Whoever is not installed is skipped, and the summary says how many tests that were.
"""

from __future__ import annotations

import importlib.util

import pytest

SKIPPED = pytest.StashKey[dict[str, int]]()


def pytest_collection_modifyitems(config, items):
    waiting: dict[str, int] = {}
    for item in items:
        library = item.path.stem.removeprefix("test_")
        if item.path.parent.name == "heavy" and importlib.util.find_spec(library) is None:
            item.add_marker(pytest.mark.skip(reason=f"{library} is not installed"))
            waiting[library] = waiting.get(library, 0) + 1
    config.stash[SKIPPED] = waiting


def pytest_terminal_summary(terminalreporter, config):
    for library, count in config.stash.get(SKIPPED, {}).items():
        terminalreporter.write_line(f"{count} tests skipped: {library} is not installed", yellow=True)
