"""Arrow C structures, and a producer that hands out what it is told to, counts releases and poisons the rest."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from producers import capsules


class Schema(ctypes.Structure):
    pass


class Array(ctypes.Structure):
    pass


class Stream(ctypes.Structure):
    pass


RELEASE_SCHEMA = ctypes.CFUNCTYPE(None, ctypes.POINTER(Schema))
RELEASE_ARRAY = ctypes.CFUNCTYPE(None, ctypes.POINTER(Array))
RELEASE_STREAM = ctypes.CFUNCTYPE(None, ctypes.POINTER(Stream))
GET_SCHEMA = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(Stream), ctypes.POINTER(Schema))
GET_NEXT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(Stream), ctypes.POINTER(Array))
GET_ERROR = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(Stream))
Schema._fields_ = [
    ("format", ctypes.c_char_p),
    ("name", ctypes.c_char_p),
    ("metadata", ctypes.c_void_p),
    ("flags", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("children", ctypes.POINTER(ctypes.POINTER(Schema))),
    ("dictionary", ctypes.POINTER(Schema)),
    ("release", RELEASE_SCHEMA),
    ("private", ctypes.c_void_p),
]
Array._fields_ = [
    ("length", ctypes.c_int64),
    ("null_count", ctypes.c_int64),
    ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(Array))),
    ("dictionary", ctypes.POINTER(Array)),
    ("release", RELEASE_ARRAY),
    ("private", ctypes.c_void_p),
]
Stream._fields_ = [
    ("get_schema", GET_SCHEMA),
    ("get_next", GET_NEXT),
    ("get_last_error", GET_ERROR),
    ("release", RELEASE_STREAM),
    ("private", ctypes.c_void_p),
]


_alive: list[
    Any
] = []  # callbacks of ctypes are Python objects; a real library's are code, which no garbage collector takes away


class DeviceArray(ctypes.Structure):
    _fields_ = [
        ("array", Array),
        ("device_id", ctypes.c_int64),
        ("device_type", ctypes.c_int32),
        ("sync_event", ctypes.c_void_p),
        ("reserved", ctypes.c_int64 * 3),
    ]


class Producer:
    """One array of any shape. Base structures count their releases and are then overwritten with 0xAA, as are children.

    Parameters are those of the two structures; `buffers` are ctypes arrays, addresses or None, `children` and
    `dictionary` producers.
    `lists` False leaves the pointers to buffers and children NULL whatever the counts say.
    """

    def __init__(
        self,
        format: str | None,
        length: int,
        buffers: Sequence[Any] = (),
        *,
        null_count: int = 0,
        offset: int = 0,
        name: str = "",
        children: Sequence[Producer] = (),
        dictionary: Producer | None = None,
        metadata: bytes | None = None,
        flags: int = 2,
        n_buffers: int | None = None,
        n_children: int | None = None,
        schema_children: int | None = None,
        lists: bool = True,
    ):
        self.released = {"schema": 0, "array": 0}
        self.kept = (buffers, children, dictionary, metadata)
        addresses = [item if isinstance(item, int) or item is None else ctypes.addressof(item) for item in buffers]
        self.buffers = (ctypes.c_void_p * max(len(addresses), 1))(*addresses)
        self.schema_list = (ctypes.POINTER(Schema) * max(len(children), 1))(
            *[ctypes.pointer(child.schema) for child in children]
        )
        self.array_list = (ctypes.POINTER(Array) * max(len(children), 1))(
            *[ctypes.pointer(child.array) for child in children]
        )
        self.metadata = None if metadata is None else ctypes.create_string_buffer(metadata, len(metadata))
        self.schema = Schema(
            None if format is None else format.encode(),
            name.encode(),
            None if metadata is None else ctypes.addressof(self.metadata),
            flags,
            len(children) if schema_children is None else schema_children,
            self.schema_list if lists else None,
            ctypes.pointer(dictionary.schema) if dictionary else None,
            RELEASE_SCHEMA(self._release_schema),
            None,
        )
        self.array = Array(
            length,
            null_count,
            offset,
            len(buffers) if n_buffers is None else n_buffers,
            len(children) if n_children is None else n_children,
            self.buffers if lists else None,
            self.array_list if lists else None,
            ctypes.pointer(dictionary.array) if dictionary else None,
            RELEASE_ARRAY(self._release_array),
            None,
        )
        _alive.append(self)

    def _release_schema(self, schema: Any) -> None:
        self.released["schema"] += 1
        self._poison("schema")
        schema.contents.release = RELEASE_SCHEMA()

    def _release_array(self, array: Any) -> None:
        self.released["array"] += 1
        self._poison("array")
        array.contents.release = RELEASE_ARRAY()

    def _poison(self, which: str) -> None:
        """What nobody may read any more, in this structure's lists and in the children's own structures."""
        buffers, children, dictionary, _ = self.kept
        for child in (*children, *([dictionary] if dictionary else [])):
            child._poison(which)
            part = getattr(child, which)
            ctypes.memset(ctypes.addressof(part), 0xAA, ctypes.sizeof(part))
        if which == "schema":
            ctypes.memset(self.schema_list, 0xAA, ctypes.sizeof(self.schema_list))
        else:
            ctypes.memset(self.array_list, 0xAA, ctypes.sizeof(self.array_list))
            ctypes.memset(self.buffers, 0xAA, ctypes.sizeof(self.buffers))
            for buffer in buffers:
                if isinstance(buffer, ctypes.Array):
                    ctypes.memset(buffer, 0xAA, ctypes.sizeof(buffer))

    def __arrow_c_array__(self, requested_schema: Any = None) -> tuple[object, object]:
        """Capsules without destructors: a schema that the consumer leaves alone stays with the producer."""
        return capsules.new(ctypes.addressof(self.schema), "arrow_schema"), capsules.new(
            ctypes.addressof(self.array), "arrow_array"
        )


class StreamProducer:
    """A stream of producers; `fail_at` makes that call of get_next fail with EIO and a message."""

    def __init__(
        self,
        first: Producer,
        chunks: Sequence[Producer],
        *,
        fail_at: int | None = None,
        fail_schema: bool = False,
        message: bytes | None = b"the disk is gone",
    ):
        self.released, self.at = 0, 0
        self.message = ctypes.create_string_buffer(message) if message is not None else None

        def get_schema(_: Any, out: Any) -> int:
            if fail_schema:
                return 5
            ctypes.memmove(out, ctypes.addressof(first.schema), ctypes.sizeof(Schema))
            return 0

        def get_next(_: Any, out: Any) -> int:
            if self.at == fail_at:
                return 5
            if self.at == len(chunks):
                out.contents.release = RELEASE_ARRAY()
            else:
                ctypes.memmove(out, ctypes.addressof(chunks[self.at].array), ctypes.sizeof(Array))
            self.at += 1
            return 0

        def release(stream: Any) -> None:
            self.released += 1
            stream.contents.release = RELEASE_STREAM()

        self.kept = first, chunks
        self.stream = Stream(
            GET_SCHEMA(get_schema),
            GET_NEXT(get_next),
            GET_ERROR(lambda _: ctypes.addressof(self.message) if self.message is not None else None),
            RELEASE_STREAM(release),
            None,
        )
        _alive.append(self)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> object:
        return capsules.new(ctypes.addressof(self.stream), "arrow_array_stream")


def schema_of(capsule: object) -> Schema:
    return Schema.from_address(capsules.pointer(capsule, "arrow_schema"))


def array_of(capsule: object) -> Array:
    return Array.from_address(capsules.pointer(capsule, "arrow_array"))
