"""Arrow-backed columns: the view of an Arrow array of pandas, and its copies.

Arrow memory is immutable: pandas never writes to it, it replaces the array. A view therefore needs no
pin to keep its values, with Copy-on-Write off too.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from mojoview.memory.errors import MaskError, ZeroCopyError
from mojoview.views import View, view
from mojoview.views.arrow.arrays import ArrowView, BooleanView, open_node
from mojoview.views.arrow.chunked import ChunkedView
from mojoview.views.arrow.format import ArrowNode

__all__ = [
    "ArrowColumn",
    "ArrowPin",
    "buffer_addresses",
    "check_no_missing",
    "copy_as_asked",
    "kind_of",
    "memory_of",
    "read",
    "reopen",
]


class ArrowColumn(NamedTuple):
    """One column that Arrow holds."""

    array: Any  #: pandas' extension array
    chunks: Any  #: pyarrow's ChunkedArray that it held when this was read
    shared: Any  #: View, ArrowView or ChunkedView of it

    @property
    def moved(self) -> bool:
        """True if pandas has replaced the memory since."""
        return self.array.__arrow_array__() is not self.chunks

    def missing(self) -> int:
        return int(self.chunks.null_count)


def read(array: Any) -> ArrowColumn:
    """Open the column in place: one chunk as a view, several as a `ChunkedView`.

    Raises
    ------
    ZeroCopyError, InterfaceError
        mojoview has no view of this Arrow type.
    """
    chunks = array.__arrow_array__()
    if chunks.num_chunks > 1:
        return ArrowColumn(array, chunks, view(chunks))
    return ArrowColumn(array, chunks, view(chunks.chunk(0) if chunks.num_chunks else chunks.combine_chunks()))


def check_no_missing(column: ArrowColumn, what: object) -> None:
    """Raise MaskError if the column has missing values."""
    if missing := column.missing():
        raise MaskError(
            f"view: {what} has {missing} missing value(s), and na='error'; use na='mask' to carry the validity bitmap, "
            "or na='ignore' for the values alone, arbitrary where missing"
        )


def copy_as_asked(column: ArrowColumn, what: object, copy: str, layout: str) -> tuple[Any, bool]:
    """Return the view that `copy` and `layout` request, and whether it is a copy.

    A copy joins the chunks and stores booleans as bytes.
    """
    many = isinstance(column.shared, ChunkedView)
    if copy == "never":
        if many and layout != "any":
            raise ZeroCopyError(
                f"view: {what} cannot be shared with layout={layout!r}: it lies in {column.chunks.num_chunks} chunks; "
                "use copy='if_needed' to join them, or layout='any' for a ChunkedView"
            )
        return column.shared, False
    if copy == "if_needed" and not many and not isinstance(column.shared, BooleanView):
        return column.shared, False
    import pyarrow as pa

    pieces = column.chunks.chunks or [column.chunks.combine_chunks()]
    gathered = pa.concat_arrays(pieces)
    if copy == "always":  # concatenation shares dictionaries and the buffers of string views
        gathered = gathered.copy_to(pa.default_cpu_memory_manager())
    together = view(gathered)
    return (together.unpack() if isinstance(together, BooleanView) else together), True


def reopen(shared: Any) -> Any:
    """Return another view of the same memory, so that each holder can release its own; a ChunkedView has no release."""
    return open_node(shared._node) if isinstance(shared, ArrowView) else shared


def kind_of(shared: Any) -> str:
    """Return the class name of the column's view."""
    return "ColumnView" if isinstance(shared, View) else type(shared).__name__


def memory_of(shared: Any) -> int:
    """Return the address of the values, or of their offsets, codes or bits; 0 if there is no single address."""
    if isinstance(shared, View):
        return shared.ptr
    return _first_buffer(shared._node) if isinstance(shared, ArrowView) else 0


def _first_buffer(node: ArrowNode) -> int:
    """Return the buffer after the validity; the first child's if the node has none of its own."""
    if len(node.buffers) > 1:
        return node.buffers[1]
    return _first_buffer(node.children[0]) if node.children else 0


def buffer_addresses(array: Any) -> tuple[Any, ...]:
    """Return the offset, length and buffers of every chunk: equal if two arrays share the same memory."""
    return tuple(
        (chunk.offset, len(chunk), *(buffer and buffer.address for buffer in chunk.buffers()))
        for chunk in array.__arrow_array__().chunks
    )


class ArrowPin:
    """A pin of an Arrow column, whose memory is immutable: it only knows whether the column is current."""

    __slots__ = ("_column", "_pin")

    frozen = True

    def __init__(self, pin: Any, column: ArrowColumn) -> None:
        self._pin, self._column = pin, column

    @property
    def stale(self) -> bool:
        return self._column.moved or bool(self._pin.stale)
