"""Where pandas keeps a column, and how it is pinned there: the only file that touches pandas' internals.

pandas stores columns in blocks, in no particular order: `mgr.blknos[i]` is the block of column i, `mgr.blklocs[i]` its
row there, and `block.mgr_locs` the same seen from the block. Under Copy-on-Write pandas writes in place only while
`block.refs` knows of one living user of the memory; an object of ours registered there makes it copy first.

All of that is private, so a self-test at import compares it with what public calls say. Where it fails,
`PublicSnapshot` does the same work through shallow copies and addresses: slower, and without leases.
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
    "Origin",
    "Snapshot",
    "assemble",
    "cow_enabled",
    "exclusive",
    "index_values",
    "inspect_column",
    "locate_block",
    "masked_parts",
    "pin_new",
    "self_test",
    "take_column",
    "take_snapshot",
    "zoned_array",
]

_PANDAS_MAJOR = int(pd.__version__.split(".")[0])

# dtypes that kernels take as they lie in memory. Equality of dtypes includes the byte order.
PLAIN = frozenset(np.dtype(code) for code in "?bhilqBHILQefdFD")


def cow_enabled() -> bool:
    """Whether pandas copies shared memory before it writes: always in pandas 3, an option before."""
    return _PANDAS_MAJOR >= 3 or pd.get_option("mode.copy_on_write") is True


class Cell(NamedTuple):
    """One column's memory."""

    values: Any  #: 1-D ndarray or extension array on pandas' own memory
    number: int  #: of the block; -1 where only public routes are open
    home: Any  #: what `Origin` needs to pin the memory and to ask whether it is still the column's own


# -- the internal route -----------------------------------------------------------------------------------------------

# Blocks that are leased for writing, by identity. Reading them would need a pin, and a pin would end the lease.
_leased: dict[int, Any] = {}
_lease_lock = threading.Lock()


class Snapshot:
    """The blocks of a frame or Series at one moment. While it lives, the blocks it names are pinned."""

    __slots__ = ("__weakref__", "_placements", "_where", "axes", "blocks", "odd", "owner")

    def __init__(self, obj: Any, positions: Sequence[int] | None = None) -> None:
        # The time of df.mojo.view() is spent here, for each block, and independent of rows and columns.
        self.owner = ref(obj)
        manager = obj._mgr
        blocks = manager.blocks
        #: Labels of the columns (of a frame) and of the rows; pandas replaces them in its own list.
        self.axes = [*manager.axes]
        self._where: list[tuple[int, int]] | None = None
        if positions is not None:
            blocks = self._select(manager, positions)
        self.blocks = blocks
        placements: list[Any] = []
        odd: list[Any] = []
        self._placements = placements
        #: Blocks that are not plain numbers as kernels take them.
        self.odd = odd
        if _leased:
            refuse_leased(blocks)
        for block in blocks:
            block.refs.add_index_reference(self)
            # Immutable: when columns move, pandas gives the block another one. Keeping it is all that has to be done
            # now.
            placements.append(block._mgr_locs)
            values = block.values
            if type(values) is not ndarray or values.dtype not in PLAIN or not values.flags.aligned:
                odd.append(block)
        if _leased:  # again: a lease may have begun in another thread just before the pin was there to be seen
            refuse_leased(blocks)

    def _select(self, manager: Any, positions: Sequence[int]) -> tuple[Any, ...]:
        numbers, rows = manager.blknos, manager.blklocs
        wanted = [(int(numbers[i]), int(rows[i])) for i in positions]
        used = sorted({number for number, _ in wanted})
        self._where = [(used.index(number), row) for number, row in wanted]
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

    def odd_positions(self) -> list[int]:
        """Of the columns in the odd blocks; work for those only."""
        if self._where is None and self.blocks[0].ndim == 2:
            pairs = zip(self.blocks, self._placements, strict=True)
            return sorted(position for block, placement in pairs if block in self.odd for position in placement)
        return [position for position, (number, _) in enumerate(self.where) if self.blocks[number] in self.odd]

    def cell(self, position: int) -> Cell:
        number, row = self.where[position]
        block = self.blocks[number]
        values = block.values
        return Cell(values[row] if values.ndim == 2 else values, number, block)

    def origin(self, cell: Cell) -> Origin:
        return Origin(self.owner, cell.home)

    def arrays(self) -> list[tuple[Any, list[int]]]:
        """The 2-D (or extension) array of each block, with the positions of its columns in the order of its rows."""
        rows: list[dict[int, int]] = [{} for _ in self.blocks]
        for position, (number, row) in enumerate(self.where):
            rows[number][row] = position
        return [
            (block.values, [row_of[row] for row in sorted(row_of)])
            for block, row_of in zip(self.blocks, rows, strict=True)
        ]

    def cell_of_block(self, number: int) -> Cell:
        block = self.blocks[number]
        return Cell(block.values, number, block)

    @property
    def rows(self) -> int:
        if self.blocks:
            return int(self.blocks[0].shape[-1])
        obj = self.owner()
        return 0 if obj is None else len(obj.index)

    @property
    def stale(self) -> bool:
        obj = self.owner()
        if obj is None:
            return False
        current = obj._mgr.blocks
        return current is not self.blocks and not all(block in current for block in self.blocks)


class Origin:
    """Pins one block, and knows whether the frame still uses it."""

    __slots__ = ("__weakref__", "_block", "_owner")

    def __init__(self, owner: Any, block: Any) -> None:
        if _leased:
            refuse_leased((block,))
        self._owner, self._block = owner, block
        block.refs.add_index_reference(self)
        if _leased:
            refuse_leased((block,))

    @property
    def stale(self) -> bool:
        obj = self._owner()
        return obj is not None and not uses(obj, self._block)

    @property
    def frozen(self) -> bool:
        return cow_enabled()


def refuse_leased(blocks: Sequence[Any]) -> None:
    for block in blocks:
        if id(block) in _leased:
            raise SharedError(
                f"view: the memory of dtype {block.dtype} is leased for writing, and a view would share it; take views "
                "before the lease (then lease with detach=True) or after it"
            )


def locate_block(obj: Any, position: int) -> tuple[Any, Any]:
    """The block of a column, and its 1-D values, writable where the block is. No pin."""
    _require_internals("lease")
    manager = obj._mgr
    if obj.ndim == 1:
        block = manager.blocks[0]
        return block, block.values
    block = manager.blocks[manager.blknos[position]]
    values = block.values
    return block, values[manager.blklocs[position]] if values.ndim == 2 else values


def uses(obj: Any, block: Any) -> bool:
    """Whether the block is still one of the frame's or Series'."""
    return block in obj._mgr.blocks


def has_other_user(block: Any) -> bool:
    """Whether pandas knows a second user of the block's memory; a view of ours is one."""
    return bool(block.refs.has_reference())


def inspect_column(obj: Any, position: int) -> tuple[int, Any, bool | None]:
    """Block number, values, and whether pandas knows another user of them; -1 and None where it cannot say."""
    if not INTERNALS or not hasattr(obj._mgr, "blocks"):
        return -1, public_values(_column(obj, position)), None
    block, values = locate_block(obj, position)
    return int(obj._mgr.blknos[position]) if obj.ndim == 2 else 0, values, has_other_user(block)


@contextmanager
def exclusive(obj: Any, position: int, what: str) -> Iterator[tuple[Any, Any]]:
    """Marks a column's block as leased, so that no view pins it; gives block and 1-D values."""
    with _lease_lock:
        block, values = locate_block(obj, position)
        key, holders = id(block), _leased.get(id(block), (block, set()))[1]
        if position in holders:
            raise SharedError(f"{what}: the column is leased already")
        # Marked before the question is asked: a view taken meanwhile in another thread sees the mark, or we see its
        # pin.
        holders.add(position)
        _leased[key] = (block, holders)
    try:
        if has_other_user(block):
            raise SharedError(
                f"{what}: expected memory that only this object uses, but other pandas objects or views share its "
                "block; "
                "drop them, or ask for detach=True, which copies the column first"
            )
        yield block, values
    finally:
        with _lease_lock:
            holders.discard(position)
            if not holders:
                del _leased[key]


# -- the public route -------------------------------------------------------------------------------------------------


class PublicSnapshot:
    """The same through public calls: a shallow copy pins the memory, addresses say whether it is shared and current."""

    __slots__ = ("_positions", "_shallow", "axes", "odd", "owner")

    def __init__(self, obj: Any, positions: Sequence[int] | None = None) -> None:
        self.owner = ref(obj)
        self.axes = [*reversed(obj.axes)]
        self._shallow = obj.copy(deep=False)
        self._positions = list(range(obj.shape[1] if obj.ndim == 2 else 1)) if positions is None else list(positions)
        self.odd = [self]

    def odd_positions(self) -> list[int]:
        return list(range(len(self._positions)))  # blocks being unknown, each is looked at

    def cell(self, position: int) -> Cell:
        column = self._positions[position]
        series = _column(self._shallow, column)
        return Cell(public_values(series), -1, (series, column))

    def origin(self, cell: Cell) -> PublicOrigin:
        return PublicOrigin(self.owner, *cell.home)

    def arrays(self) -> list[tuple[Any, list[int]]]:
        """One array when a single block holds everything, else one a column: public calls know no blocks."""
        positions = list(range(len(self._positions)))
        if self._shallow.ndim == 2 and self._positions == list(range(self._shallow.shape[1])) and positions:
            first, second = self._shallow.to_numpy(), self._shallow.to_numpy()
            if _address(first) == _address(second) and first.size:
                return [(first.T, positions)]
        return [(self.cell(position).values, [position]) for position in positions]

    def cell_of_block(self, number: int) -> Cell:
        values, positions = self.arrays()[number]
        return Cell(
            values, number, (_column(self._shallow, self._positions[positions[0]]), self._positions[positions[0]])
        )

    @property
    def rows(self) -> int:
        return len(self._shallow.index)

    @property
    def stale(self) -> bool:
        return any(self.origin(self.cell(i)).stale for i in range(len(self._positions)))


class PublicOrigin:
    """Pins one column by a shallow copy of it."""

    __slots__ = ("_owner", "_position", "_series")

    def __init__(self, owner: Any, series: Any, position: int) -> None:
        self._owner, self._series, self._position = owner, series, position

    @property
    def stale(self) -> bool:
        obj = self._owner()
        if obj is None:
            return False
        ours, count = memory_place(self._series), obj.shape[1] if obj.ndim == 2 else 1
        # Where it was, most likely; else anywhere, for columns move when others come and go.
        return not any(
            memory_place(_column(obj, position)) == ours
            for position in (*range(self._position, count), *range(min(self._position, count)))
        )

    @property
    def frozen(self) -> bool:
        return cow_enabled()


def _column(obj: Any, position: int) -> Any:
    return obj if obj.ndim == 1 else obj.iloc[:, position]


def _address(array: np.ndarray[Any, Any]) -> int:
    return int(array.__array_interface__["data"][0])


def public_values(series: Any) -> Any:
    """A Series' memory by public calls: two results at one address, while both live, are no copies."""
    if isinstance(series.dtype, np.dtype):
        first, second = series.to_numpy(), series.to_numpy()
        if _address(first) != _address(second):
            raise FrameError(f"view: pandas {pd.__version__} copies a column of dtype {series.dtype} in to_numpy()")
        return first
    return series.array


def memory_place(series: Any) -> Any:
    """Where a Series lies: the address of its numbers, or all of Arrow's buffers; 0 where it has neither."""
    from mojoview.frames.arrow_columns import places
    from mojoview.frames.column_data import storage

    kept = storage(public_values(series))
    if kept.arrow is not None:
        return places(kept.arrow.array)
    return 0 if kept.data is None else _address(kept.data)


# -- both -------------------------------------------------------------------------------------------------------------


def take_snapshot(obj: Any, positions: Sequence[int] | None = None) -> Any:
    """A pinned `Snapshot` of a frame or Series, by whichever route is open."""
    if INTERNALS:
        try:
            return Snapshot(obj, positions)
        except AttributeError:  # pandas 2 can still be switched to a manager without blocks
            if hasattr(obj._mgr, "blocks"):
                raise
    return PublicSnapshot(obj, positions)


def assemble(pieces: Sequence[tuple[Any, Any, Sequence[int]]], index: pd.Index, columns: pd.Index) -> pd.DataFrame:
    """A DataFrame over arrays as they lie: of each the array (its rows are columns, or 1-D), what pins it, its columns.

    Where pandas can be told, it copies such a block before it writes to it; the arrays are read-only in any case.
    """
    if _PANDAS_MAJOR >= 3 and INTERNALS:
        from pandas.api.internals import create_dataframe_from_blocks  # type: ignore[import-not-found]

        frame: pd.DataFrame = create_dataframe_from_blocks(
            [(array, np.asarray(places, np.intp)) for array, _, places in pieces], index=index, columns=columns)
        for block, (_, pin, _) in zip(frame._mgr.blocks, pieces, strict=True):
            if pin is not None:
                block.refs.add_index_reference(pin)
        return frame
    cells = {place: array[row] if getattr(array, "ndim", 1) == 2 else array
             for array, _, places in pieces for row, place in enumerate(places)}
    frame = pd.DataFrame({place: cells[place] for place in range(len(columns))}, index=index, copy=False)
    frame.columns = columns
    return frame


def zoned_array(values: np.ndarray[Any, Any], dtype: pd.DatetimeTZDtype) -> Any:
    """Instants in UTC as an array with a time zone, on the same memory: public calls copy, or read them as local."""
    return dtype.construct_array_type()._simple_new(values, dtype=dtype)  # type: ignore[attr-defined]


def index_values(index: Any) -> Any:
    """The memory behind an Index: ndarray or extension array."""
    return index.to_numpy() if isinstance(index.dtype, np.dtype) and index.dtype.kind not in "mM" else index.array


def take_column(obj: Any, position: int) -> tuple[Any, Any]:
    """One column's values, and the origin that pins them."""
    if INTERNALS and hasattr(obj._mgr, "blocks"):
        block, values = locate_block(obj, position)
        return values, Origin(ref(obj), block)
    snapshot = PublicSnapshot(obj, (position,))
    cell = snapshot.cell(0)
    return cell.values, snapshot.origin(cell)


def masked_parts(array: Any) -> tuple[Any, Any] | None:
    """Values and byte mask of a masked array, pandas' own memory; None where this pandas keeps them elsewhere."""
    return (array._data, array._mask) if MASKED else None


def pin_new(obj: Any, keepers: Sequence[Sequence[Any]]) -> None:
    """Makes pandas copy the columns of a new object before it writes to them, as long as their keepers live."""
    if INTERNALS and hasattr(obj._mgr, "blocks"):
        for position, column in enumerate(keepers):
            block = locate_block(obj, position)[0]
            for keeper in column:
                block.refs.add_index_reference(keeper)
        return
    # A second user that public calls know of; it lives as long as the object, and not quite as long as the memory.
    finalize(obj, _forget, obj.copy(deep=False)).atexit = False


def _forget(shallow: Any) -> None:
    """Nothing to do: what matters is that `shallow` was held until now."""


def _require_internals(what: str) -> None:
    if not INTERNALS:
        raise FrameError(
            f"{what}: the internals of pandas {pd.__version__} are not those mojoview knows, so it cannot tell who "
            "shares "
            "a column; use df.mojo.assign(), or report the output of 'python -m mojoview doctor'"
        )


def _test_internals() -> str | None:
    """What differs from our picture of the block manager; None when nothing does."""
    try:
        frame = pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0], "c": [5.0, 6.0]})
        manager = frame._mgr
        block = manager.blocks[manager.blknos[1]]
        values = block.values[manager.blklocs[1]]
        if _address(values) != _address(frame["b"].to_numpy()) or list(block.mgr_locs) != [0, 1, 2]:
            return "a column is not at the address that its block says"
        pin = Snapshot(frame)
        if not block.refs.has_reference():
            return "a registered pin does not count as a user of the block"
        if cow_enabled():
            frame.iloc[0, 1] = 99.0
            if values[0] != 3.0 or not pin.stale:
                return "pandas wrote in place although the block was pinned"
        del pin
        frame.iloc[0, 0] = 7.0
        current = frame._mgr.blocks[frame._mgr.blknos[0]]
        if current.refs.has_reference():
            return "a dropped pin still counts as a user of the block"
    except Exception as error:  # whatever a future pandas raises here means the same: use the public routes
        return f"{type(error).__name__}: {error}"
    return None


def _test_masked() -> bool:
    try:
        array: Any = pd.array([1, None], dtype="Int64")
        return bool(array._data.dtype == np.int64 and array._data[0] == 1 and array._mask.tolist() == [False, True])
    except Exception:  # as above
        return False


MASKED = _test_masked()
INTERNALS_ERROR = _test_internals()
INTERNALS = INTERNALS_ERROR is None


def self_test() -> dict[str, Any]:
    """What mojoview found out about this pandas when it was imported.

    Returns
    -------
    dict
        `ok`; `version`; `copy_on_write`; `block_manager` and `masked_arrays`: "as expected" or what differs.

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
