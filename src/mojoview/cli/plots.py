"""Plots of measurements, by matplotlib of the plot extra."""

from __future__ import annotations

from typing import Any

import numpy as np

from mojoview.memory.errors import ArgumentError

__all__ = ["plot_histogram"]


def plot_histogram(path: str, values: np.ndarray[Any, Any], label: str, title: str) -> None:
    """Write a histogram on logarithmic axes, which show the long tail of latencies."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg  # type: ignore[import-not-found, unused-ignore]
        from matplotlib.figure import Figure  # type: ignore[import-not-found, unused-ignore]
    except ImportError as error:
        raise ArgumentError("a plot needs matplotlib: pip install 'mojoview[plot]'") from error
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    low, high = max(values[values > 0].min(), 1e-3), values.max()
    axes.hist(values, bins=np.geomspace(low, max(high, low * 1.01), 80).tolist(), log=True)
    axes.set(xscale="log", xlabel=label, ylabel="count", title=title)
    for share, colour in ((50, "tab:green"), (99, "tab:orange"), (99.9, "tab:red")):
        value = float(np.percentile(values, share))
        axes.axvline(value, color=colour, label=f"p{share:g} = {value:.3g}")
    axes.legend()
    figure.savefig(path)
