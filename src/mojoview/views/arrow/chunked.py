"""ChunkedView: one column in several pieces of memory, combined only on request."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from mojoview.memory.errors import ArgumentError, DTypeError, ZeroCopyError
from mojoview.memory.extension_points import TO_SERIES, resolve
from mojoview.views._construct import from_array, with_mask
from mojoview.views._view import View
from mojoview.views.arrow import _to_arrow
from mojoview.views.arrow.arrays import ArrowView, BooleanView, StructView, open_node
from mojoview.views.arrow.elements import NotComparable, element_index, slice_bounds
from mojoview.views.arrow.format import ArrowChunks, ArrowNode, ArrowType, fixed_dtype, format_of

__all__ = ["ChunkedView", "in_place", "open_import", "type_of"]


class ChunkedView(NotComparable):
    """A sequence of views of one type, read as one column.

    Parameters
    ----------
    chunks : sequence of View or ArrowView
        One-dimensional and of one type; empty chunks are kept.
    arrow_type : ArrowType, optional
        Needed if there are no chunks.
    owner : object, optional
        The object that owns the memory.

    Attributes
    ----------
    chunks : tuple of View or ArrowView
    size : int
        Elements of all chunks.
    nbytes : int
        Bytes of all chunks' values.
    arrow_format : str
        Arrow's format string of the type.

    Raises
    ------
    ArgumentError, DTypeError
        No chunks and no type; chunks of different types.

    Notes
    -----
    There is no address, no buffer and no array interface: `single()` returns the only chunk if there is just one,
    `combine()` copies. Thread safety: any thread.
    """

    __slots__ = ("__weakref__", "_chunks", "_ends", "_type", "owner")
    readonly = True

    def __init__(self, chunks: Sequence[Any], arrow_type: ArrowType | None = None, *, owner: Any = None):
        self._chunks = tuple(chunks)
        for chunk in self._chunks:
            if not isinstance(chunk, View | ArrowView) or (isinstance(chunk, View) and chunk.ndim != 1):
                raise ArgumentError(f"ChunkedView: expected views of one dimension, got {chunk!r}")
        if arrow_type is None:
            if not self._chunks:
                raise ArgumentError("ChunkedView: no chunks, so arrow_type is required")
            arrow_type = type_of(self._chunks[0])
        self._type = arrow_type
        for chunk in self._chunks:
            if type_of(chunk)._replace(name="", metadata=None, flags=0) != arrow_type._replace(
                name="", metadata=None, flags=0
            ):
                raise DTypeError(
                    f"ChunkedView: chunks of Arrow type {arrow_type.format!r} and {type_of(chunk).format!r}"
                )
        self._ends = list(accumulate(len(chunk) for chunk in self._chunks))
        self.owner = owner

    @property
    def chunks(self) -> tuple[Any, ...]:
        return self._chunks

    @property
    def size(self) -> int:
        return self._ends[-1] if self._ends else 0

    @property
    def nbytes(self) -> int:
        return sum(int(chunk.nbytes) for chunk in self._chunks)

    @property
    def arrow_format(self) -> str:
        return self._type.format

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy dtype of the items; `DTypeError` if they do not have their bytes in place."""
        known = fixed_dtype(self._type.format) if self._type.dictionary is None else None
        if known is None:
            raise DTypeError(f"ChunkedView: items of Arrow type {self._type.format!r} have no NumPy dtype")
        return known[0]

    @property
    def masked(self) -> bool:
        return any(chunk.masked for chunk in self._chunks)

    @property
    def data(self) -> ChunkedView:
        """The same chunks without their validity."""
        return ChunkedView([chunk.data for chunk in self._chunks], self._type, owner=self.owner)

    @property
    def ptr(self) -> int:
        raise ZeroCopyError(
            f"ChunkedView.ptr: {len(self._chunks)} chunks have no common address; use the chunks, single() or combine()"
        )

    def single(self) -> Any:
        """Return the only chunk.

        Raises
        ------
        ZeroCopyError
            There is not exactly one.
        """
        if len(self._chunks) != 1:
            raise ZeroCopyError(
                f"ChunkedView.single(): {len(self._chunks)} chunks; use them one by one, or combine(), which copies"
            )
        return self._chunks[0]

    def combine(self) -> View:
        """Copy all items into one array.

        Returns
        -------
        View
            Owns its memory: a copy, with a byte mask if elements are missing.

        Raises
        ------
        DTypeError
            The items do not have their bytes in place (booleans are unpacked).
        """
        parts = [chunk.unpack() if isinstance(chunk, BooleanView) else chunk for chunk in self._chunks]
        dtype = np.dtype(bool) if self._type.format == "b" else self.dtype
        values = from_array(np.concatenate([np.asarray(part.data) for part in parts] or [np.empty(0, dtype)]), False)
        if not self.masked:
            return values
        masks = [np.asarray(part.mask) if part.masked else np.zeros(len(part), bool) for part in parts]
        return with_mask(values, from_array(np.concatenate(masks), False))

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            return self._field(key)
        if isinstance(key, slice):
            start, count = slice_bounds(key, self.size)
            return ChunkedView(self._window(start, start + count), self._type, owner=self.owner)
        index = element_index(key, self.size)
        place = bisect_right(self._ends, index)
        return self._chunks[place][index - (self._ends[place - 1] if place else 0)]

    def __iter__(self) -> Iterator[Any]:
        return (element for chunk in self._chunks for element in chunk)

    def _window(self, start: int, stop: int) -> list[Any]:
        begin, kept = 0, []
        for chunk, end in zip(self._chunks, self._ends, strict=True):
            if start < end and stop > begin:
                kept.append(chunk[max(start - begin, 0) : stop - begin])
            begin = end
        return kept

    def _field(self, name: str) -> ChunkedView:
        fields = [field for field in self._type.children if field.name == name]
        if self._type.format != "+s" or len(fields) != 1:
            raise DTypeError(
                f"field {name!r}: expected one of {tuple(field.name for field in self._type.children)}, each once"
            )
        return ChunkedView(
            [chunk[name] for chunk in self._chunks if isinstance(chunk, StructView)], fields[0], owner=self.owner
        )

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        if copy and not self.masked:
            array = np.asarray(self.combine())
            return array if dtype is None else array.astype(dtype)
        raise ZeroCopyError(
            f"ChunkedView: no array can share {len(self._chunks)} chunks; use them one by one, or combine()"
        )

    def to_series(self, *, index: Any = None, name: Any = None) -> Any:
        """Make a pandas Series over the same memory, without a copy; see `mojoview.frames.to_series`."""
        return resolve(TO_SERIES)(self, index=index, name=name)

    def __arrow_c_schema__(self) -> Any:
        return _to_arrow.export_type(self._type)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Export the chunks as a capsule of the same buffers, alive until the consumer releases them. Never casts."""
        return _to_arrow.export_stream(self._type, self._parts())

    def __arrow_c_device_stream__(self, requested_schema: Any = None, **kwargs: Any) -> Any:
        return _to_arrow.export_device_stream(self._type, self._parts(), kwargs)

    def _parts(self) -> list[Any]:
        return [chunk if isinstance(chunk, View) else chunk._node for chunk in self._chunks]

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise ArgumentError("a ChunkedView cannot be pickled or copied: its memory belongs to another object")

    def __repr__(self) -> str:
        masked = ", masked" if self.masked else ""
        return f"<ChunkedView {self.size} of Arrow type {self.arrow_format!r} in {len(self._chunks)} chunks{masked}>"


def open_import(found: ArrowNode | ArrowChunks, owner: Any) -> Any:
    """Open an import: one array as a `View` or `ArrowView`, a stream as a `ChunkedView`."""
    if isinstance(found, ArrowNode):
        return open_node(found)
    return ChunkedView([open_node(node) for node in found.chunks], found.type, owner=owner)


def in_place(shared: Any) -> View:
    """Return a plain `View` of an Arrow import; a copy if its items are bits or in chunks.

    Raises
    ------
    ZeroCopyError
        No copy would put the items in place either.
    """
    if isinstance(shared, View):
        return shared
    if isinstance(shared, ChunkedView):
        return shared.combine()
    if isinstance(shared, BooleanView):
        return shared.unpack()
    raise ZeroCopyError(
        f"view({type(shared).__name__}, copy=...): elements of Arrow type {shared.arrow_format!r} have no fixed width; "
        "take its parts"
    )


def type_of(chunk: Any) -> ArrowType:
    """Return the Arrow type of a view."""
    if isinstance(chunk, ArrowView):
        return chunk._node.type
    return ArrowType(chunk.arrow_format or format_of(chunk.dtype))
