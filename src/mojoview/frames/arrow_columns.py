"""Arrow-backed columns: which view an Arrow array of pandas gets, and how it is copied when that is asked for.

Arrow memory is immutable: pandas never writes to it, it puts another array in its place. A view therefore needs no pin
to keep what it saw, also with Copy-on-Write off.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from mojoview.memory.errors import MaskError, ZeroCopyError
from mojoview.views import View, view
from mojoview.views.arrow.format import ArrowNode
from mojoview.views.arrow.arrays import ArrowView, BooleanView, open_node
from mojoview.views.arrow.chunked import ChunkedView

__all__ = [
    "ArrowColumn",
    "ArrowOrigin",
    "again",
    "kind_of",
    "memory_of",
    "places",
    "read",
    "refuse_missing",
    "shape_up",
]


class ArrowColumn(NamedTuple):
    """One column held by Arrow."""

    array: Any  #: pandas' extension array
    chunks: Any  #: pyarrow's ChunkedArray that it held when this was read
    shared: Any  #: View, ArrowView or ChunkedView of it

    @property
    def moved(self) -> bool:
        """Whether pandas has put other memory in its place since."""
        return self.array.__arrow_array__() is not self.chunks

    def missing(self) -> int:
        return int(self.chunks.null_count)


def read(array: Any) -> ArrowColumn:
    """The column in place: one chunk is a view, several are a `ChunkedView`.

    Raises
    ------
    ZeroCopyError, InterfaceError
        Arrow has the type and mojoview has no view of it.
    """
    chunks = array.__arrow_array__()
    if chunks.num_chunks > 1:
        return ArrowColumn(array, chunks, view(chunks))
    return ArrowColumn(array, chunks, view(chunks.chunk(0) if chunks.num_chunks else chunks.combine_chunks()))


def refuse_missing(column: ArrowColumn, what: object) -> None:
    if missing := column.missing():
        raise MaskError(
            f"view: {what} has {missing} missing value(s), and na='error'; use na='mask' to carry the validity bitmap, "
            "or na='ignore' for the values alone, arbitrary where missing"
        )


def shape_up(column: ArrowColumn, what: object, copy: str, layout: str) -> tuple[Any, bool]:
    """What `copy` and `layout` ask for, and whether it is a copy: chunks are put together, booleans become bytes."""
    many = isinstance(column.shared, ChunkedView)
    if copy == "never":
        if many and layout != "any":
            raise ZeroCopyError(
                f"view: {what} cannot be shared with layout={layout!r}: it lies in {column.chunks.num_chunks} chunks; "
                "use copy='if_needed' to put them together, or layout='any' for a ChunkedView"
            )
        return column.shared, False
    if copy == "if_needed" and not many and not isinstance(column.shared, BooleanView):
        return column.shared, False
    import pyarrow as pa

    pieces = column.chunks.chunks or [column.chunks.combine_chunks()]
    gathered = pa.concat_arrays(pieces)
    if copy == "always":  # dictionaries and the texts of string views are shared until now
        gathered = gathered.copy_to(pa.default_cpu_memory_manager())
    together = view(gathered)
    return (together.unpack() if isinstance(together, BooleanView) else together), True


def again(shared: Any) -> Any:
    """The same window once more, so that each holder can release its own. A ChunkedView has nothing to release."""
    return open_node(shared._node) if isinstance(shared, ArrowView) else shared


def kind_of(shared: Any) -> str:
    """The class of view that the column gets."""
    return "ColumnView" if isinstance(shared, View) else type(shared).__name__


def memory_of(shared: Any) -> int:
    """Where the values begin, or what stands for them (offsets, codes, bits); 0 where there is no one such place."""
    if isinstance(shared, View):
        return shared.ptr
    return _first_buffer(shared._node) if isinstance(shared, ArrowView) else 0


def _first_buffer(node: ArrowNode) -> int:
    """After the validity; of what has none itself, the first child's."""
    if len(node.buffers) > 1:
        return node.buffers[1]
    return _first_buffer(node.children[0]) if node.children else 0


def places(array: Any) -> tuple[Any, ...]:
    """Every buffer of an Arrow-backed array, with offsets: equal where two arrays are the same memory."""
    return tuple(
        (chunk.offset, len(chunk), *(buffer and buffer.address for buffer in chunk.buffers()))
        for chunk in array.__arrow_array__().chunks
    )


class ArrowOrigin:
    """Where an Arrow column came from. `origin` pins nothing that matters; it knows whether the block is still used."""

    __slots__ = ("_column", "_origin")

    frozen = True

    def __init__(self, origin: Any, column: ArrowColumn) -> None:
        self._origin, self._column = origin, column

    @property
    def stale(self) -> bool:
        return self._column.moved or bool(self._origin.stale)
