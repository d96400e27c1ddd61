"""Views of Arrow arrays whose items do not have their bytes in place: small classes over `View`s of the same memory.

Strings are offsets and bytes, lists are offsets and values, dictionaries are codes and values: each part is a `View`
(or one of these classes again) that kernels can take. Nothing is decoded or copied until a single element is read.

Source: Apache Arrow, "Arrow Columnar Format", sections "Physical Memory Layout" and "Variable-size Binary View Layout".
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from mojoview.memory.errors import ArgumentError, FieldError, InterfaceError, MaskError, ReleasedError, ZeroCopyError
from mojoview.memory.extension_points import TO_SERIES, resolve
from mojoview.views._construct import from_array
from mojoview.views._view import View
from mojoview.views._window import Bits
from mojoview.views.arrow import _from_arrow, _to_arrow
from mojoview.views.arrow.elements import NotComparable, decode, element_index, slice_bounds
from mojoview.views.arrow.format import ArrowNode, fixed_dtype

__all__ = [
    "ArrowView",
    "BooleanView",
    "DictionaryView",
    "FixedListView",
    "InlineStringView",
    "ListView",
    "NullView",
    "StringView",
    "StructView",
    "open_node",
]


class ArrowView(NotComparable):
    """A read-only view of an Arrow array; made by `mojoview.view()`.

    Attributes
    ----------
    size : int
        Elements.
    nbytes : int
        Bytes of the elements in all buffers but the validity. Data that elements refer to counts whole.
    arrow_format : str
        Arrow's format string of the type.
    masked : bool
        Whether elements may be missing.
    validity : Bits or None
        The validity bitmap itself; None if nothing is missing.
    mask : View or None
        bool, True for missing elements: a copy, made each time.
    null_count : int
        Counted if the producer has not.
    data : ArrowView
        The same elements without validity: the values of missing elements are arbitrary.
    owner : object
        The object that owns the memory.

    Notes
    -----
    Indexing gives one element as a Python object (None if it is missing); slices in steps of 1 are views. Exports
    Arrow's capsules, in the same buffers. Thread safety: any thread; `release()` must not run concurrently with other
    uses.
    """

    kind: ClassVar[str] = "Arrow"
    readonly: ClassVar[bool] = True
    device: ClassVar[str] = "cpu"
    __slots__ = ("__weakref__", "_held")

    def __init__(self, node: ArrowNode):
        if not isinstance(node, ArrowNode):
            raise ArgumentError(f"{type(self).__name__}() is not called by hand: use mojoview.view(obj)")
        self._held: ArrowNode | None = node
        self._check()

    def _check(self) -> None:
        """Refuse contradictions that can be seen without reading elements."""

    @property
    def _node(self) -> ArrowNode:
        if self._held is None:
            raise ReleasedError("the view was released: take a new one from the array")
        return self._held

    @property
    def size(self) -> int:
        return self._node.length

    @property
    @abstractmethod
    def nbytes(self) -> int: ...

    @property
    def arrow_format(self) -> str:
        return self._node.type.format

    @property
    def owner(self) -> Any:
        return self._node.lease.owner

    @property
    def closed(self) -> bool:
        return self._held is None

    @property
    def masked(self) -> bool:
        node = self._node
        return bool(node.buffers and node.buffers[0] and node.null_count)

    @property
    def validity(self) -> Bits | None:
        node = self._node
        return _from_arrow.bits_at(node.lease, node.buffers[0], node.offset, node.length) if self.masked else None

    @property
    def mask(self) -> View | None:
        bits = self.validity
        return None if bits is None else from_array(bits.unpack(invert=True), False)

    @property
    def null_count(self) -> int:
        bits = self.validity
        return 0 if bits is None else len(bits) - bits.count()

    @property
    def data(self) -> Any:
        node = self._node
        return open_node(node._replace(null_count=0, buffers=(0, *node.buffers[1:])) if node.buffers else node)

    def __len__(self) -> int:
        return self._node.length

    def __getitem__(self, key: Any) -> Any:
        node = self._node
        if isinstance(key, slice):
            start, count = slice_bounds(key, node.length)
            return open_node(node.slice(start, count))
        index = element_index(key, node.length)
        bits = self.validity
        return self._element(index) if bits is None or bits[index] else None

    def __iter__(self) -> Iterator[Any]:
        return (self[index] for index in range(len(self)))

    @abstractmethod
    def _element(self, index: int) -> Any: ...

    def release(self) -> None:
        """Release the memory now; parts of this view remain open. Using it afterwards raises `ReleasedError`."""
        self._held = None

    def __enter__(self) -> ArrowView:
        self._node  # noqa: B018  raises if it was released
        return self

    def __exit__(self, *exc: object) -> None:
        self.release()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        raise ZeroCopyError(
            f"{type(self).__name__}: its elements are not contiguous, so no array can share them; take its parts "
            "(offsets, bytes, values, codes), or list(view) for Python objects"
        )

    def to_series(self, *, index: Any = None, name: Any = None) -> Any:
        """Make a pandas Series over the same memory, without a copy; see `mojoview.frames.to_series`."""
        return resolve(TO_SERIES)(self, index=index, name=name)

    def __arrow_c_schema__(self) -> Any:
        return _to_arrow.export_type(self._node.type)

    def __arrow_c_array__(self, requested_schema: Any = None) -> tuple[Any, Any]:
        """Export capsules (schema, array) of the same buffers, alive until the consumer releases them. Never casts."""
        return _to_arrow.export_node(self._node)

    def __arrow_c_device_array__(self, requested_schema: Any = None, **kwargs: Any) -> tuple[Any, Any]:
        return _to_arrow.export_device_node(self._node, kwargs)

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise ArgumentError(
            f"a {type(self).__name__} cannot be pickled or copied: its memory belongs to another object"
        )

    def __repr__(self) -> str:
        if self._held is None:
            return f"<{type(self).__name__} released>"
        nulls = ", masked" if self.masked else ""
        name, owner = type(self).__name__, type(self.owner).__name__
        return f"<{name} {self.size} of Arrow type {self.arrow_format!r}{nulls}, owner {owner}>"

    def _part(self, buffer: int, dtype: str, offset: int, length: int) -> View:
        """Open a plain view of items in one of the buffers."""
        node = self._node
        return _from_arrow.items_at(node.lease, node.buffers[buffer], offset, length, np.dtype(dtype))


class NullView(ArrowView):
    """An array of missing values only; it has no memory."""

    kind = "null"
    __slots__ = ()

    @property
    def masked(self) -> bool:
        return self.size > 0

    @property
    def nbytes(self) -> int:
        self._node  # noqa: B018  raises if it was released
        return 0

    @property
    def validity(self) -> None:
        return None

    @property
    def mask(self) -> View:
        return from_array(np.ones(self.size, bool), False)

    @property
    def null_count(self) -> int:
        return self.size

    @property
    def data(self) -> Any:
        raise MaskError("NullView.data: there are no values, only missing ones")

    def _element(self, index: int) -> None:
        return None


class BooleanView(ArrowView):
    """Booleans kept as bits. `bits` are the values in place; `unpack()` copies them to one byte each."""

    kind = "boolean"
    __slots__ = ()

    def _check(self) -> None:
        self.bits  # noqa: B018  refuses a missing buffer

    @property
    def nbytes(self) -> int:
        return (self.size + 7) // 8

    @property
    def bits(self) -> Bits:
        node = self._node
        return _from_arrow.bits_at(node.lease, node.buffers[1], node.offset, node.length)

    def unpack(self) -> View:
        """Copy the values to bytes.

        Returns
        -------
        View
            bool, shape (size,). Owns its memory: a copy. The validity bitmap is shared.
        """
        node = self._node
        values = from_array(self.bits.unpack(), False)
        return _from_arrow.masked_by(values, node.lease, node.buffers[0], node.offset) if self.masked else values

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        if copy and not self.masked:
            return self.bits.unpack().astype(bool if dtype is None else dtype, copy=False)
        raise ZeroCopyError(
            "BooleanView: bits are not bytes, so no array can share them; use view.unpack(), which copies"
        )

    def _element(self, index: int) -> bool:
        return self.bits[index]


class StringView(ArrowView):
    """Strings or byte strings kept as offsets into one run of bytes."""

    kind = "string"
    __slots__ = ()

    def _check(self) -> None:
        self.bytes  # noqa: B018  the last offset and the buffers must agree

    @property
    def nbytes(self) -> int:
        offsets = self.offsets
        return int(offsets.nbytes + (int(offsets[-1]) - int(offsets[0]) if offsets.size else 0))

    @property
    def text(self) -> bool:
        """True if the bytes are UTF-8 text."""
        return self.arrow_format in ("u", "U")

    @property
    def offsets(self) -> View:
        """int32 or int64, shape (size + 1,): element k is bytes[offsets[k]:offsets[k + 1]]. Empty if there is none."""
        node = self._node
        return self._part(
            1, "i4" if node.type.format in "uz" else "i8", node.offset, node.length + 1 if node.length else 0
        )

    @property
    def bytes(self) -> View:
        """uint8: everything up to the end of the last element."""
        offsets = self.offsets
        end = int(offsets[-1]) if offsets.size else 0
        if end < 0:
            raise InterfaceError(f"{type(self).__name__}: the last offset is {end}")
        return self._part(2, "u1", 0, end)

    def at(self, index: int) -> View:
        """Return a view of the bytes of one element.

        Returns
        -------
        View
            uint8, shape (length,). Borrows the memory.

        Raises
        ------
        InterfaceError
            The element's offsets are out of bounds.
        """
        offsets, data = self.offsets, self.bytes
        index = element_index(index, self.size)
        start, stop = int(offsets[index]), int(offsets[index + 1])
        if not 0 <= start <= stop <= data.size:
            raise InterfaceError(
                f"{type(self).__name__}: element {index} covers bytes {start} to {stop} of {data.size}"
            )
        found: View = data[start:stop]
        return found

    def _element(self, index: int) -> Any:
        return decode(self.at(index), self.text, index)


class InlineStringView(ArrowView):
    """Strings or byte strings in Arrow's view layout: 16 bytes per element, which hold short strings whole."""

    kind = "string view"
    __slots__ = ()

    @property
    def nbytes(self) -> int:
        return int(self.views.nbytes + sum(buffer.nbytes for buffer in self.buffers))

    @property
    def text(self) -> bool:
        """True if the bytes are UTF-8 text."""
        return self.arrow_format == "vu"

    @property
    def views(self) -> View:
        """16 raw bytes each: int32 length, then 12 bytes of text, or 4 of a prefix, int32 buffer and int32 offset."""
        node = self._node
        return self._part(1, "V16", node.offset, node.length)

    @property
    def buffers(self) -> tuple[View, ...]:
        """uint8: the runs of bytes that hold longer strings."""
        count = len(self._node.buffers) - 3
        sizes = self._part(-1, "i8", 0, count)
        if any(int(size) < 0 for size in sizes):
            raise InterfaceError("InlineStringView: a data buffer of negative size")
        return tuple(self._part(2 + k, "u1", 0, int(sizes[k])) for k in range(count))

    def at(self, index: int) -> View:
        """Return a view of the bytes of one element (uint8); `InterfaceError` if it is out of bounds."""
        index = element_index(index, self.size)
        words = self.views[index : index + 1].cast("i4")
        size = int(words[0])
        if 0 <= size <= 12:
            inline: View = words.cast("u1")[4 : 4 + size]
            return inline
        buffer, start, count = int(words[2]), int(words[3]), len(self._node.buffers) - 3
        if size < 0 or not 0 <= buffer < count:
            raise InterfaceError(f"InlineStringView: element {index} has {size} bytes in buffer {buffer} of {count}")
        total = int(self._part(-1, "i8", buffer, 1)[0])
        if not 0 <= start <= total - size:
            raise InterfaceError(f"InlineStringView: element {index} covers bytes {start} to {start + size} of {total}")
        return self._part(2 + buffer, "u1", start, size)

    def _element(self, index: int) -> Any:
        return decode(self.at(index), self.text, index)


class ListView(ArrowView):
    """Lists kept as offsets into one array of values; maps are lists of key and value pairs."""

    kind = "list"
    __slots__ = ()

    def _check(self) -> None:
        node = self._node
        if node.length and not all(node.buffers[1:]):
            raise InterfaceError(f"ListView: no offsets for {node.length} lists")

    @property
    def nbytes(self) -> int:
        offsets, sizes, values = self.offsets, self.sizes, self.values
        if sizes is not None:
            return int(offsets.nbytes + sizes.nbytes + values.nbytes)
        inside = values[int(offsets[0]) : int(offsets[-1])] if offsets.size else values[:0]
        return int(offsets.nbytes + inside.nbytes)

    @property
    def _word(self) -> str:
        return "i8" if self._node.type.format in ("+L", "+vL") else "i4"

    @property
    def offsets(self) -> View:
        """int32 or int64: the begin of each list; plain lists have one more, the end of the last."""
        node = self._node
        more = 0 if self.sizes is not None or node.length == 0 else 1
        return self._part(1, self._word, node.offset, node.length + more)

    @property
    def sizes(self) -> View | None:
        """int32 or int64: the length of each list in Arrow's list-view layout; else None."""
        node = self._node
        return self._part(2, self._word, node.offset, node.length) if node.type.format[:2] == "+v" else None

    @property
    def values(self) -> Any:
        """All values of all lists, also those outside this view."""
        return open_node(self._node.children[0])

    def _element(self, index: int) -> Any:
        offsets, sizes, child = self.offsets, self.sizes, self._node.children[0]
        start = int(offsets[index])
        stop = int(offsets[index + 1]) if sizes is None else start + int(sizes[index])
        if not 0 <= start <= stop <= child.length:
            raise InterfaceError(f"ListView: list {index} covers values {start} to {stop} of {child.length}")
        return open_node(child.slice(start, stop - start))


class FixedListView(ArrowView):
    """Lists of one length, kept as one array of values."""

    kind = "fixed-size list"
    __slots__ = ()

    def _check(self) -> None:
        node = self._node
        if (node.offset + node.length) * self.width > node.children[0].length:
            raise InterfaceError(
                f"FixedListView: {node.offset} + {node.length} lists of {self.width} need more than the "
                f"{node.children[0].length} values there are"
            )

    @property
    def nbytes(self) -> int:
        return int(self.values.nbytes)

    @property
    def width(self) -> int:
        """Values a list."""
        text = self._node.type.format[3:]
        if not text.isdecimal():
            raise InterfaceError(f"Arrow format {self._node.type.format!r}: {text!r} is not a number")
        return int(text)

    @property
    def values(self) -> Any:
        """The values of this view's lists in order; plain numbers take ``reshape(size, width)``."""
        node, width = self._node, self.width
        return open_node(node.children[0].slice(node.offset * width, node.length * width))

    def _element(self, index: int) -> Any:
        return self.values[index * self.width : (index + 1) * self.width]


class StructView(ArrowView):
    """Records kept by field. ``view["name"]`` is a field; the fields of missing records have arbitrary values."""

    kind = "struct"
    __slots__ = ()

    def _check(self) -> None:
        node = self._node
        for child in node.children:
            if child.length < node.offset + node.length:
                raise InterfaceError(
                    f"StructView: field {child.type.name!r} has {child.length} values for {node.offset} + {node.length}"
                )

    @property
    def nbytes(self) -> int:
        return sum(int(child.nbytes) for child in self.children)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the fields, in order; they may repeat."""
        return tuple(child.name for child in self._node.type.children)

    @property
    def children(self) -> tuple[Any, ...]:
        """The fields, in order."""
        node = self._node
        return tuple(open_node(child.slice(node.offset, node.length)) for child in node.children)

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, str):
            return super().__getitem__(key)
        names = self.names
        if names.count(key) != 1:
            raise FieldError(
                f"field {key!r}: expected one of {names}, once"
                if key in names
                else f"field {key!r}: expected one of {names}"
            )
        node = self._node
        return open_node(node.children[names.index(key)].slice(node.offset, node.length))

    def _element(self, index: int) -> dict[str, Any]:
        return {name: child[index] for name, child in zip(self.names, self.children, strict=True)}


class DictionaryView(ArrowView):
    """Values kept as codes into a dictionary."""

    kind = "dictionary"
    __slots__ = ()

    @property
    def nbytes(self) -> int:
        return int(self.codes.nbytes + self.dictionary.nbytes)

    @property
    def codes(self) -> View:
        """Integers, with the validity of the elements as mask."""
        node = self._node
        known = fixed_dtype(node.type.format)
        if known is None or known[0].kind not in "iu":
            raise InterfaceError(f"DictionaryView: expected integer codes, got Arrow type {node.type.format!r}")
        return _from_arrow.view_of_node(node, known[0], None)

    @property
    def dictionary(self) -> Any:
        """The values, each once; themselves a view of any type."""
        node = self._node.dictionary
        assert node is not None  # true of every DictionaryView
        return open_node(node)

    @property
    def ordered(self) -> bool:
        """True if the order of the dictionary is significant."""
        return bool(self._node.type.flags & 1)

    def _element(self, index: int) -> Any:
        code, values = int(self.codes[index]), self.dictionary
        if not 0 <= code < len(values):
            raise InterfaceError(f"DictionaryView: element {index} has code {code}, the dictionary holds {len(values)}")
        return values[code]


_CLASSES: dict[str, type[ArrowView]] = {
    "n": NullView,
    "b": BooleanView,
    "u": StringView,
    "U": StringView,
    "z": StringView,
    "Z": StringView,
    "vu": InlineStringView,
    "vz": InlineStringView,
    "+l": ListView,
    "+L": ListView,
    "+m": ListView,
    "+vl": ListView,
    "+vL": ListView,
    "+s": StructView,
}


def open_node(node: ArrowNode) -> Any:
    """Open the view of a node: `View` if items have their bytes in place, else a class of this module.

    Raises
    ------
    ZeroCopyError
        A type that mojoview does not view, by name.
    InterfaceError
        The node contradicts its type.
    """
    format = node.type.format
    if node.dictionary is not None:
        return DictionaryView(node)
    known = fixed_dtype(format)
    if known is not None:
        return _from_arrow.view_of_node(node, known[0], format if known[1] else None)
    found = FixedListView if format[:3] == "+w:" else _CLASSES.get(format)
    if found is None:
        raise ZeroCopyError(f"Arrow type {format!r}: mojoview has no view of it")
    return found(node)
