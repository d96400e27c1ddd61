"""Statistics in Mojo."""

from pathlib import Path

import mojoview

_stats = mojoview.load_library(Path(__file__).parent / "stats.so")

running_total = _stats.running_total
