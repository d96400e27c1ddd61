"""Results of `kernels.describe`: the statistics of one array, or of every column of a frame."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mojoview.calls.signature import Param, Signature
from mojoview.compute._builtin import describe_arrays
from mojoview.memory.errors import ArgumentError

__all__ = ["DESCRIBE", "Description", "FrameDescription", "describe"]

_STATISTICS = ("count", "mean", "std", "min", "max", "argmin", "argmax")


@dataclass(frozen=True, slots=True)
class Description:
    """Statistics of the elements that are not missing (masked, NaN or NaT).

    Attributes
    ----------
    count : int
    mean, var, std : float
        `var` and `std` with ddof 1, as in pandas; NaN if there are too few elements. Of datetimes and timedeltas
        `mean` is one of them (truncated to the unit), `std` a timedelta64 and `var` counts squared units.
    min, max : int, float, bool, datetime64, timedelta64 or None
        Exact, also for 64-bit integers; None if there is no element.
    argmin, argmax : int
        First position of the extremes, in C order; -1 if there is no element.
    """

    count: int
    mean: Any
    var: float
    std: Any
    min: Any
    max: Any
    argmin: int
    argmax: int

    def __repr__(self) -> str:
        return "Description(" + ", ".join(f"{name}={getattr(self, name)!r}" for name in _STATISTICS) + ")"


class FrameDescription:
    """Statistics of every column of a frame, in the frame's order; labels may repeat.

    Attributes
    ----------
    labels : tuple
    columns : tuple of Description
    count, argmin, argmax : ndarray of int64
    mean, var, std : ndarray
    min, max : ndarray
        float64 if every column is floating; otherwise of dtype object, so that integers stay exact.

    Notes
    -----
    Thread safety: immutable.

    Examples
    --------
    >>> import numpy as np
    >>> from mojoview import kernels
    >>> d = kernels.describe({"a": np.array([1, 3]), "b": np.array([0.5, np.nan])})
    >>> d.count.tolist(), d["a"].max, d["b"].mean
    ([2, 1], 3, 0.5)
    """

    __slots__ = ("_first", "columns", "labels")

    def __init__(self, labels: tuple[Hashable, ...], columns: tuple[Description, ...]):
        self.labels, self.columns = labels, columns
        self._first = {label: k for k, label in reversed(list(enumerate(labels)))}

    def __len__(self) -> int:
        return len(self.columns)

    def __iter__(self) -> Iterator[tuple[Hashable, Description]]:
        return iter(zip(self.labels, self.columns, strict=True))

    def __getitem__(self, label: Hashable) -> Description:
        """Return the first column of that label."""
        return self.columns[self._first[label]]

    def _gather(self, name: str, dtype: type | None) -> npt.NDArray[Any]:
        values = [getattr(column, name) for column in self.columns]
        if dtype is None:
            dtype = float if all(isinstance(value, float) for value in values) else object
        out: npt.NDArray[Any] = np.empty(len(values), dtype)
        out[:] = values
        return out

    @property
    def count(self) -> npt.NDArray[np.int64]:
        return self._gather("count", np.int64)

    @property
    def argmin(self) -> npt.NDArray[np.int64]:
        return self._gather("argmin", np.int64)

    @property
    def argmax(self) -> npt.NDArray[np.int64]:
        return self._gather("argmax", np.int64)

    @property
    def mean(self) -> npt.NDArray[Any]:
        return self._gather("mean", None)

    @property
    def var(self) -> npt.NDArray[np.float64]:
        return self._gather("var", float)

    @property
    def std(self) -> npt.NDArray[Any]:
        return self._gather("std", None)

    @property
    def min(self) -> npt.NDArray[Any]:
        return self._gather("min", None)

    @property
    def max(self) -> npt.NDArray[Any]:
        return self._gather("max", None)

    def __repr__(self) -> str:
        head = ["", *_STATISTICS]
        rows = [[str(label), *(_text(getattr(column, name)) for name in _STATISTICS)] for label, column in self]
        widths = [max(len(row[k]) for row in [head, *rows]) for k in range(len(head))]
        return "\n".join(
            "  ".join(
                cell.rjust(width) if k else cell.ljust(width)
                for k, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
            for row in [head, *rows]
        )


def _text(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _description(values: tuple[Any, ...]) -> Description:
    count, mean, var, low, high, argmin, argmax, truncated = values
    std: Any = math.sqrt(var) if var >= 0 else math.nan
    if isinstance(low, np.datetime64 | np.timedelta64):
        unit = low.dtype
        span = np.dtype(unit.str.replace("M8", "m8"))
        mean = np.int64(truncated).view(unit)
        std = np.int64(round(std)).view(span) if std == std else np.array("NaT", span)[()]
    return Description(count, mean, var, std, low, high, argmin, argmax)


def describe(x: Any, threads: int | None = None) -> Description | FrameDescription:
    if hasattr(x, "items") and getattr(x, "ndim", 2) == 2:  # a Series has items, and is one array
        labels, arrays = [], []
        for pair in x.items():
            if not isinstance(pair, tuple) or len(pair) != 2:
                raise ArgumentError(f"describe(): items(): expected (label, array) pairs, got {type(pair).__name__}")
            labels.append(pair[0])
            arrays.append(pair[1])
        names = [f"column {label!r}" for label in labels]
        return FrameDescription(
            tuple(labels), tuple(map(_description, describe_arrays(DESCRIBE, arrays, names, threads)))
        )
    return _description(describe_arrays(DESCRIBE, [x], ["argument 'x'"], threads)[0])


DESCRIBE = Signature(
    "describe",
    (Param("x", "in", "T", None),),
    result="T",
    masks=True,
    doc="""describe(x, threads=None)

    Count, mean, variance, smallest and largest element and their positions, in one pass over memory. Missing elements
    (masked, NaN, NaT) are skipped.

    Parameters
    ----------
    x : array_like or frame
        An array of any shape: bool, integer, float16 to float64, datetime64, timedelta64. Or a frame: anything whose
        ``items()`` gives (label, array) pairs, such as a FrameView. Borrowed for the call.
    threads : int, optional
        Maximum number of threads, the caller included. The columns of a frame and their chunks are one batch. The
        result has the same bits for every number of threads.

    Returns
    -------
    Description or FrameDescription
        Owned by the caller.

    Raises
    ------
    DTypeError
        Statistics are not defined for a dtype or byte order; the message names the column.
    MaskError
        A mask has more than two dimensions.

    Notes
    -----
    Blocks of 2048 elements are read once from memory and twice from the cache, for the sums and extremes and for the
    squares about the block's mean; blocks are merged as in Chan, Golub and LeVeque (Stanford CS-TR-79-773, 1979).

    Thread safety: any thread; releases the GIL for 4096 elements and more. Ctrl-C takes effect within 0.5 s.

    Examples
    --------
    >>> import numpy as np
    >>> from mojoview import kernels
    >>> kernels.describe(np.array([1.0, np.nan, 3.0]))
    Description(count=2, mean=2.0, std=1.4142135623730951, min=1.0, max=3.0, argmin=0, argmax=2)
    """,
)
