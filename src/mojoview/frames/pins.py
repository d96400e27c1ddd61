"""Pins of whole frames and of single columns, through pandas' blocks or, if those differ, through public calls.

A pin keeps memory unchanged while a view of it exists, and reports whether the pandas object still uses that memory.
`pin_frame` and `pin_column` choose the way; `BlockPins` and `PublicPins` offer the same methods (`Pins`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol
from weakref import ref

import numpy as np
import pandas as pd

from mojoview.frames import blocks
from mojoview.frames.arrow_columns import buffer_addresses
from mojoview.frames.blocks import BlockPin, BlockPins, ColumnRef, cow_enabled, has_blocks, locate_block, locate_column
from mojoview.frames.column_data import ColumnData, read_column
from mojoview.memory.errors import FrameError

__all__ = ["PartPins", "Pin", "Pins", "PublicPin", "PublicPins", "inspect_column", "pin_column", "pin_frame"]


class Pin(Protocol):
    """A pin of one column or block."""

    @property
    def stale(self) -> bool:
        """True if the pandas object uses other memory for the column by now."""

    @property
    def frozen(self) -> bool:
        """True if writes through pandas cannot reach the memory."""


class Pins(Protocol):
    """The pinned columns of a frame."""

    def column(self, position: int) -> ColumnRef:
        """Return the memory of one column."""

    def pin(self, column: ColumnRef) -> Pin:
        """Pin one column on its own, so that its view outlives this object."""

    def arrays(self) -> list[tuple[Any, list[int]]]:
        """Return each array of columns and the positions of its columns, in the order of its rows."""

    @property
    def rows(self) -> int: ...

    @property
    def stale(self) -> bool: ...


class PublicPins:
    """The columns of a DataFrame or Series, pinned by a shallow copy; addresses show what is shared and current."""

    __slots__ = ("_positions", "_shallow", "axes", "nonplain", "owner")

    def __init__(self, obj: Any, positions: Sequence[int] | None = None) -> None:
        self.owner = ref(obj)
        self.axes = [*reversed(obj.axes)]
        self._shallow = obj.copy(deep=False)
        self._positions = list(range(obj.shape[1] if obj.ndim == 2 else 1)) if positions is None else list(positions)
        self.nonplain = [self]

    def nonplain_positions(self) -> list[int]:
        """Return all positions: since the blocks are unknown, each column is examined."""
        return list(range(len(self._positions)))

    def column(self, position: int) -> ColumnRef:
        position = self._positions[position]
        series = column_of(self._shallow, position)
        return ColumnRef(public_values(series), -1, (series, position))

    def pin(self, column: ColumnRef) -> PublicPin:
        return PublicPin(self.owner, *column.source)

    def arrays(self) -> list[tuple[Any, list[int]]]:
        """Return one array if a single block holds everything, else one per column: public calls do not show blocks."""
        positions = list(range(len(self._positions)))
        if self._shallow.ndim == 2 and self._positions == list(range(self._shallow.shape[1])) and positions:
            first, second = self._shallow.to_numpy(), self._shallow.to_numpy()
            if _address(first) == _address(second) and first.size:
                return [(first.T, positions)]
        return [(self.column(position).values, [position]) for position in positions]

    def block(self, number: int) -> ColumnRef:
        values, positions = self.arrays()[number]
        column = self._positions[positions[0]]
        return ColumnRef(values, number, (column_of(self._shallow, column), column))

    @property
    def rows(self) -> int:
        return len(self._shallow.index)

    @property
    def stale(self) -> bool:
        return any(self.pin(self.column(i)).stale for i in range(len(self._positions)))


class PublicPin:
    """A pin of one column, made by a shallow copy of it."""

    __slots__ = ("_owner", "_position", "_series")

    def __init__(self, owner: Any, series: Any, position: int) -> None:
        self._owner, self._series, self._position = owner, series, position

    @property
    def stale(self) -> bool:
        obj = self._owner()
        if obj is None:
            return False
        pinned, count = memory_place(self._series), obj.shape[1] if obj.ndim == 2 else 1
        # Look where the column was first, then everywhere: columns move when others are inserted or dropped.
        return not any(
            memory_place(column_of(obj, position)) == pinned
            for position in (*range(self._position, count), *range(min(self._position, count)))
        )

    @property
    def frozen(self) -> bool:
        return cow_enabled()


class PartPins:
    """One pinned column that consists of several arrays, each of which is offered as a column."""

    __slots__ = ("_pin", "parts")

    def __init__(self, pin: Pin, whole: ColumnData) -> None:
        self._pin, self.parts = pin, whole.parts

    def column(self, position: int) -> ColumnRef:
        return ColumnRef(list(self.parts.values())[position].values, position, None)

    def pin(self, column: ColumnRef) -> Pin:
        return self._pin

    def arrays(self) -> list[tuple[Any, list[int]]]:
        return [(part.values, [position]) for position, part in enumerate(self.parts.values())]

    @property
    def rows(self) -> int:
        return len(self.column(0).values)

    @property
    def stale(self) -> bool:
        return self._pin.stale


# -- memory through public calls ---------------------------------------------------------------------------------------


def column_of(obj: Any, position: int) -> Any:
    """Return a Series itself, or a column of a frame as a Series."""
    return obj if obj.ndim == 1 else obj.iloc[:, position]


def _address(array: np.ndarray[Any, Any]) -> int:
    return int(array.__array_interface__["data"][0])


def public_values(series: Any) -> Any:
    """Return a Series' memory by public calls: two results at one address, both alive, cannot be copies."""
    if isinstance(series.dtype, np.dtype):
        first, second = series.to_numpy(), series.to_numpy()
        if _address(first) != _address(second):
            raise FrameError(f"view: pandas {pd.__version__} copies a column of dtype {series.dtype} in to_numpy()")
        return first
    return series.array


def memory_place(series: Any) -> Any:
    """Return the address of a Series' numbers, or of all its Arrow buffers; 0 if it has neither."""
    data = read_column(public_values(series))
    if data.arrow is not None:
        return buffer_addresses(data.arrow.array)
    return 0 if data.values is None else _address(data.values)


# -- the choice --------------------------------------------------------------------------------------------------------


def pin_frame(obj: Any, positions: Sequence[int] | None = None) -> Any:
    """Pin a DataFrame or Series, all of it or some columns; returns `BlockPins` or `PublicPins`."""
    if not (blocks.INTERNALS and (blocks.PANDAS_MAJOR >= 3 or has_blocks(obj))):  # a call would cost 4 % of view()
        return PublicPins(obj, positions)
    return BlockPins(obj, positions)


def pin_column(obj: Any, position: int) -> tuple[Any, Pin]:
    """Pin one column; returns its values and the pin."""
    if not has_blocks(obj):
        pins = PublicPins(obj, (position,))
        column = pins.column(0)
        return column.values, pins.pin(column)
    block, values = locate_block(obj, position)
    return values, BlockPin(ref(obj), block)


def inspect_column(obj: Any, position: int) -> tuple[int, Any, bool | None]:
    """Return a column's block number, its values, and whether pandas knows another user of them; nothing is pinned.

    Block number and other user are -1 and None if pandas' blocks cannot be reached.
    """
    if not has_blocks(obj):
        return -1, public_values(column_of(obj, position)), None
    return locate_column(obj, position)
