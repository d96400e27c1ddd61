"""Pinned blocks of pandas objects: the only file that touches pandas' internals.

pandas stores columns in blocks, in no particular order: `mgr.blknos[i]` is the block of column i, `mgr.blklocs[i]` its
row there, and `block.mgr_locs` lists the positions of a block's rows. Under Copy-on-Write pandas writes in place only
while `block.refs` holds one living user of the memory; a pin is an object registered there, so pandas copies first.

All of that is private, so a self-test at import compares it with the results of public calls. If it fails,
`public_pins` does the same work through shallow copies and addresses: slower, and without leases.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple
from weakref import finalize, ref

import numpy as np
import pandas as pd
from numpy import ndarray

from mojoview.memory.errors import FrameError, SharedError

__all__ = [
    "BlockPin",
    "BlockPins",
    "ColumnRef",
    "assemble",
    "cow_enabled",
    "exclusive",
    "has_blocks",
    "has_other_user",
    "index_values",
    "locate_block",
    "locate_column",
    "masked_parts",
    "pin_new",
    "self_test",
    "uses",
    "zoned_array",
]

PANDAS_MAJOR = int(pd.__version__.split(".")[0])

# dtypes that kernels take as they lie in memory. Equality of dtypes includes the byte order.
PLAIN = frozenset(np.dtype(code) for code in "?bhilqBHILQefdFD")


def cow_enabled() -> bool:
    """Return whether pandas copies shared memory before it writes: always in pandas 3, an option before."""
    return PANDAS_MAJOR >= 3 or pd.get_option("mode.copy_on_write") is True


def has_blocks(obj: Any) -> bool:
    """Return whether the object's blocks can be reached: pandas 2 can still be switched to a manager without blocks."""
    return INTERNALS and hasattr(obj._mgr, "blocks")


# -- pins --------------------------------------------------------------------------------------------------------------

# Blocks that are leased for writing, by identity. Reading them would need a pin, and a pin would end the lease.
_leased: dict[int, Any] = {}
_lease_lock = threading.Lock()


class ColumnRef(NamedTuple):
    """One column's memory in pinned blocks."""

    values: Any  #: 1-D ndarray or extension array on pandas' own memory
    number: int  #: of the block; -1 if pandas' blocks cannot be reached
    source: Any  #: argument of the pin: the block, or the Series and its position


class BlockPins:
    """The blocks of a DataFrame or Series at one moment, pinned while this object exists."""

    __slots__ = ("__weakref__", "_placements", "_where", "axes", "blocks", "nonplain", "owner")

    def __init__(self, obj: Any, positions: Sequence[int] | None = None) -> None:
        # Most of the time of df.mojo.view() is spent here; it grows with the number of blocks, not of rows or columns.
        self.owner = ref(obj)
        manager = obj._mgr
        blocks = manager.blocks
        #: Labels of the columns (of a frame) and of the rows; a copy, since pandas replaces the items of its own list.
        self.axes = [*manager.axes]
        self._where: list[tuple[int, int]] | None = None
        if positions is not None:
            blocks = self._select(manager, positions)
        self.blocks = blocks
        placements: list[Any] = []
        nonplain: list[Any] = []
        self._placements = placements
        #: Blocks whose values kernels cannot take as they lie in memory.
        self.nonplain = nonplain
        if _leased:
            check_not_leased(blocks)
        for block in blocks:
            block.refs.add_index_reference(self)
            # Immutable: when columns move, pandas gives the block another placement. Keeping a reference suffices.
            placements.append(block._mgr_locs)
            values = block.values
            if type(values) is not ndarray or values.dtype not in PLAIN or not values.flags.aligned:
                nonplain.append(block)
        if _leased:  # check again: another thread may have begun a lease just before the pin was registered
            check_not_leased(blocks)

    def _select(self, manager: Any, positions: Sequence[int]) -> tuple[Any, ...]:
        numbers, rows = manager.blknos, manager.blklocs
        where = [(int(numbers[position]), int(rows[position])) for position in positions]
        used = sorted({number for number, _ in where})
        self._where = [(used.index(number), row) for number, row in where]
        return tuple(manager.blocks[number] for number in used)

    @property
    def where(self) -> list[tuple[int, int]]:
        """Block number and row of each column."""
        if self._where is None:
            if self.blocks and self.blocks[0].ndim == 1:
                self._where = [(0, 0)]
            else:
                found: list[Any] = [None] * sum(len(placement) for placement in self._placements)
                for number, placement in enumerate(self._placements):
                    for row, position in enumerate(placement):
                        found[position] = (number, row)
                self._where = found
        return self._where

    def nonplain_positions(self) -> list[int]:
        """Return the positions of columns stored in non-plain blocks; the cost does not depend on the plain ones."""
        if self._where is None and self.blocks[0].ndim == 2:
            pairs = zip(self.blocks, self._placements, strict=True)
            return sorted(position for block, placement in pairs if block in self.nonplain for position in placement)
        return [position for position, (number, _) in enumerate(self.where) if self.blocks[number] in self.nonplain]

    def column(self, position: int) -> ColumnRef:
        """Return the memory of one column."""
        number, row = self.where[position]
        block = self.blocks[number]
        values = block.values
        return ColumnRef(values[row] if values.ndim == 2 else values, number, block)

    def pin(self, column: ColumnRef) -> BlockPin:
        """Pin one column on its own, so that its view outlives this object."""
        return BlockPin(self.owner, column.source)

    def arrays(self) -> list[tuple[Any, list[int]]]:
        """Return the 2-D (or extension) array of each block and its columns' positions, in the order of its rows."""
        rows: list[dict[int, int]] = [{} for _ in self.blocks]
        for position, (number, row) in enumerate(self.where):
            rows[number][row] = position
        return [
            (block.values, [row_of[row] for row in sorted(row_of)])
            for block, row_of in zip(self.blocks, rows, strict=True)
        ]

    def block(self, number: int) -> ColumnRef:
        """Return the memory of a whole block."""
        block = self.blocks[number]
        return ColumnRef(block.values, number, block)

    @property
    def rows(self) -> int:
        if self.blocks:
            return int(self.blocks[0].shape[-1])
        obj = self.owner()
        return 0 if obj is None else len(obj.index)

    @property
    def stale(self) -> bool:
        """True if the object no longer uses one of the blocks; false if the object was deallocated."""
        obj = self.owner()
        if obj is None:
            return False
        current = obj._mgr.blocks
        return current is not self.blocks and not all(block in current for block in self.blocks)


class BlockPin:
    """A pin of one block, which also knows whether the object still uses that block."""

    __slots__ = ("__weakref__", "_block", "_owner")

    def __init__(self, owner: Any, block: Any) -> None:
        if _leased:
            check_not_leased((block,))
        self._owner, self._block = owner, block
        block.refs.add_index_reference(self)
        if _leased:
            check_not_leased((block,))

    @property
    def stale(self) -> bool:
        obj = self._owner()
        return obj is not None and not uses(obj, self._block)

    @property
    def frozen(self) -> bool:
        return cow_enabled()


def pin_new(obj: Any, keepers: Sequence[Sequence[Any]]) -> None:
    """Make pandas copy the columns of a new object before it writes to them, as long as their keepers live."""
    if has_blocks(obj):
        for position, column in enumerate(keepers):
            block = locate_block(obj, position)[0]
            for keeper in column:
                block.refs.add_index_reference(keeper)
        return
    # A second user made by public calls. It exists as long as the object, which may be shorter than the memory does.
    finalize(obj, _drop, obj.copy(deep=False)).atexit = False


def _drop(shallow: Any) -> None:
    """Do nothing: the finalizer's argument kept `shallow` alive until now."""


# -- single columns ----------------------------------------------------------------------------------------------------


def locate_block(obj: Any, position: int) -> tuple[Any, Any]:
    """Return the block of a column and its 1-D values, writable if the block is; nothing is pinned."""
    _require_internals("lease")
    manager = obj._mgr
    if obj.ndim == 1:
        block = manager.blocks[0]
        return block, block.values
    block = manager.blocks[manager.blknos[position]]
    values = block.values
    return block, values[manager.blklocs[position]] if values.ndim == 2 else values


def locate_column(obj: Any, position: int) -> tuple[int, Any, bool]:
    """Return the block number of a column, its values, and whether pandas knows another user of them."""
    block, values = locate_block(obj, position)
    return int(obj._mgr.blknos[position]) if obj.ndim == 2 else 0, values, has_other_user(block)


def uses(obj: Any, block: Any) -> bool:
    """Return whether the block is still one of the object's."""
    return block in obj._mgr.blocks


def has_other_user(block: Any) -> bool:
    """Return whether pandas knows a second user of the block's memory; pins of mojoview count."""
    return bool(block.refs.has_reference())


# -- leases ------------------------------------------------------------------------------------------------------------


def check_not_leased(blocks: Sequence[Any]) -> None:
    """Raise SharedError if one of the blocks is leased for writing."""
    for block in blocks:
        if id(block) in _leased:
            raise SharedError(
                f"view: the memory of dtype {block.dtype} is leased for writing, and a view would share it; take views "
                "before the lease (then lease with detach=True) or after it"
            )


@contextmanager
def exclusive(obj: Any, position: int, what: str) -> Iterator[tuple[Any, Any]]:
    """Mark a column's block as leased, so that no view pins it; yields the block and its 1-D values."""
    with _lease_lock:
        block, values = locate_block(obj, position)
        key, holders = id(block), _leased.get(id(block), (block, set()))[1]
        if position in holders:
            raise SharedError(f"{what}: the column is leased already")
        # Marked before the check below: a view that another thread takes between the two either sees the mark, or its
        # pin is seen by the check.
        holders.add(position)
        _leased[key] = (block, holders)
    try:
        if has_other_user(block):
            raise SharedError(
                f"{what}: expected memory that only this object uses, but other pandas objects or views share its "
                "block; drop them, or ask for detach=True, which copies the column first"
            )
        yield block, values
    finally:
        with _lease_lock:
            holders.discard(position)
            if not holders:
                del _leased[key]


# -- pandas objects over given memory ----------------------------------------------------------------------------------


def assemble(pieces: Sequence[tuple[Any, Any, Sequence[int]]], index: pd.Index, columns: pd.Index) -> pd.DataFrame:
    """Make a DataFrame over arrays without copying them.

    Each piece is an array (2-D with one row per column, or 1-D), the object that pins it or None, and the positions of
    its columns. From pandas 3 on the pin makes pandas copy the block before it writes; before, writing fails, since the
    arrays are read-only.
    """
    if PANDAS_MAJOR >= 3 and INTERNALS:
        from pandas.api.internals import create_dataframe_from_blocks  # type: ignore[import-not-found]

        frame: pd.DataFrame = create_dataframe_from_blocks(
            [(array, np.asarray(places, np.intp)) for array, _, places in pieces], index=index, columns=columns
        )
        for block, (_, pin, _) in zip(frame._mgr.blocks, pieces, strict=True):
            if pin is not None:
                block.refs.add_index_reference(pin)
        return frame
    values = {
        place: array[row] if getattr(array, "ndim", 1) == 2 else array
        for array, _, places in pieces
        for row, place in enumerate(places)
    }
    frame = pd.DataFrame({place: values[place] for place in range(len(columns))}, index=index, copy=False)
    frame.columns = columns
    return frame


def zoned_array(values: np.ndarray[Any, Any], dtype: pd.DatetimeTZDtype) -> Any:
    """Return instants in UTC as an array with a time zone, on the same memory.

    Public calls either copy or read the instants as local times.
    """
    return dtype.construct_array_type()._simple_new(values, dtype=dtype)  # type: ignore[attr-defined]


def index_values(index: Any) -> Any:
    """Return the memory of an Index: an ndarray or extension array."""
    return index.to_numpy() if isinstance(index.dtype, np.dtype) and index.dtype.kind not in "mM" else index.array


def masked_parts(array: Any) -> tuple[Any, Any] | None:
    """Return values and byte mask of a masked array, pandas' own memory; None if this pandas keeps them elsewhere."""
    return (array._data, array._mask) if MASKED else None


# -- self-test ---------------------------------------------------------------------------------------------------------


def _require_internals(what: str) -> None:
    if not INTERNALS:
        raise FrameError(
            f"{what}: the internals of pandas {pd.__version__} are not those that mojoview supports, so it cannot "
            "determine who shares a column; use df.mojo.assign(), or report the output of 'python -m mojoview doctor'"
        )


def _address(array: np.ndarray[Any, Any]) -> int:
    return int(array.__array_interface__["data"][0])


def _test_internals() -> str | None:
    """Return the first difference between this pandas and the block manager described above; None if there is none."""
    try:
        # Labels that are not strings: of strings pandas makes an array of pyarrow, which waits for a lock that pyarrow
        # holds while it imports pandas.
        frame = pd.DataFrame({0: [1.0, 2.0], 1: [3.0, 4.0], 2: [5.0, 6.0]})
        manager = frame._mgr
        block = manager.blocks[manager.blknos[1]]
        values = block.values[manager.blklocs[1]]
        if _address(values) != _address(frame[1].to_numpy()) or list(block.mgr_locs) != [0, 1, 2]:
            return "a column is not at the address of its row in the block"
        pins = BlockPins(frame)
        if not block.refs.has_reference():
            return "a registered pin does not count as a user of the block"
        if cow_enabled():
            frame.iloc[0, 1] = 99.0
            if values[0] != 3.0 or not pins.stale:
                return "pandas wrote in place although the block was pinned"
        del pins
        frame.iloc[0, 0] = 7.0
        current = frame._mgr.blocks[frame._mgr.blknos[0]]
        if current.refs.has_reference():
            return "a dropped pin still counts as a user of the block"
    except Exception as error:  # whatever a future pandas raises here, the conclusion is the same: use public calls
        return f"{type(error).__name__}: {error}"
    return None


def _test_masked() -> bool:
    try:
        array: Any = pd.array([1, None], dtype="Int64")
        return bool(array._data.dtype == np.int64 and array._data[0] == 1 and array._mask.tolist() == [False, True])
    except Exception:  # as in _test_internals()
        return False


MASKED = _test_masked()
INTERNALS_ERROR = _test_internals()
INTERNALS = INTERNALS_ERROR is None


def self_test() -> dict[str, Any]:
    """Return the results of the checks that mojoview made of this pandas when it was imported.

    Returns
    -------
    dict
        `ok`; `version`; `copy_on_write`; `block_manager` and `masked_arrays`: "as expected" or the difference.

    Examples
    --------
    >>> from mojoview.frames import self_test
    >>> self_test()["ok"]
    True
    """
    return {
        "ok": INTERNALS and MASKED,
        "version": pd.__version__,
        "copy_on_write": cow_enabled(),
        "block_manager": INTERNALS_ERROR or "as expected",
        "masked_arrays": "as expected" if MASKED else "values and mask are not where mojoview looks",
    }
