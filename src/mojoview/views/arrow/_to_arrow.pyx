"""Export to Arrow: structures that hold their views and nodes until the consumer releases them.

Source: Apache Arrow, "The Arrow C data interface", "The Arrow C stream interface", "The Arrow PyCapsule Interface".
"""

cimport cython
from cpython.object cimport PyObject
from cpython.pycapsule cimport PyCapsule_Destructor, PyCapsule_GetPointer, PyCapsule_IsValid, PyCapsule_New
from cpython.ref cimport Py_INCREF
from libc.errno cimport EIO
from libc.stdint cimport int64_t, uint8_t, uintptr_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset, strlen

from mojoview.memory.abi cimport (
    MV_C_CONTIGUOUS, MV_DATETIME, MV_DEVICE_MASK, MV_HAS_MASK, MV_MASK_BITS, MV_OPAQUE, MV_TIMEDELTA, mv_desc,
)
from mojoview.views._view cimport View, view_enter, view_leave
from mojoview.views.arrow.c_data cimport (
    MV_ARROW_CPU, MV_ARROW_NULLABLE, mv_arrow_array, mv_arrow_device_array, mv_arrow_device_stream, mv_arrow_schema,
    mv_arrow_stream,
)
from mojoview.views.bits cimport mv_bits_pack, mv_has_nat, mv_validity
from mojoview.views.dlpack.dlpack cimport mv_decref_any_thread

import numpy as np

from mojoview.memory.errors import (
    AllocationError, ArgumentError, DeviceError, LayoutError, MaskError, OptionError, ShapeError, ZeroCopyError,
)
from mojoview.views.arrow.format import ArrowCoded, ArrowRecord, format_of


# -- memory of exported structures. A structure is only as large as its children; each can be moved away alone. --------

cdef struct ArrayBlock:
    PyObject *holder       # a view or a lease
    void *consumers        # the view's count of consumers, or NULL
    PyObject *extra        # a bitmap made for this export, or NULL
    mv_arrow_array dictionary
    void *slots[1]         # buffers, then pointers to the children, then (aligned alike) the children


cdef struct SchemaBlock:
    mv_arrow_schema dictionary
    void *slots[1]         # pointers to the children, the children, then the text


cdef ArrayBlock *new_array(mv_arrow_array *out, int64_t n_buffers, int64_t n_children, holder, Py_ssize_t *consumers,
                           extra) except NULL:
    """Make `out` releasable; its buffers and children are still zero."""
    cdef int64_t k
    cdef ArrayBlock *block = <ArrayBlock *>calloc(
        1, sizeof(ArrayBlock) + (n_buffers + n_children) * sizeof(void *) + n_children * sizeof(mv_arrow_array))
    if block is NULL:
        raise AllocationError("Arrow export: no memory for its structures")
    memset(out, 0, sizeof(mv_arrow_array))
    out.n_buffers = n_buffers
    out.buffers = <const void **>block.slots
    out.n_children = n_children
    if n_children:
        out.children = <mv_arrow_array **>(block.slots + n_buffers)
        for k in range(n_children):
            out.children[k] = <mv_arrow_array *>(block.slots + n_buffers + n_children) + k
    Py_INCREF(holder)
    block.holder = <PyObject *>holder
    if consumers is not NULL:
        consumers[0] += 1
        block.consumers = consumers
    if extra is not None:
        Py_INCREF(extra)
        block.extra = <PyObject *>extra
    out.private_data = block
    out.release = release_array
    return block


# Called on any thread, with or without the GIL, also after the interpreter has ended.
cdef void release_array(mv_arrow_array *array) noexcept nogil:
    cdef int64_t k
    cdef ArrayBlock *block = <ArrayBlock *>array.private_data
    cdef PyObject *holder = block.holder
    cdef PyObject *extra = block.extra
    cdef void *consumers = block.consumers
    for k in range(array.n_children):
        if array.children[k].release is not NULL:
            array.children[k].release(array.children[k])
    if array.dictionary is not NULL and array.dictionary.release is not NULL:
        array.dictionary.release(array.dictionary)
    array.release = NULL
    free(block)
    if extra is not NULL:
        mv_decref_any_thread(extra, NULL)
    mv_decref_any_thread(holder, consumers)


cdef SchemaBlock *new_schema(mv_arrow_schema *out, int64_t n_children, bytes format, bytes name, bytes metadata,
                             int64_t flags) except NULL:
    cdef int64_t k
    cdef size_t text = len(format) + 1 + len(name) + 1
    cdef size_t head = sizeof(SchemaBlock) + n_children * (sizeof(void *) + sizeof(mv_arrow_schema))
    cdef SchemaBlock *block = <SchemaBlock *>calloc(1, head + text + (len(metadata) if metadata is not None else 0))
    cdef char *at = <char *>block + head
    if block is NULL:
        raise AllocationError("Arrow export: no memory for its structures")
    memset(out, 0, sizeof(mv_arrow_schema))
    out.n_children = n_children
    if n_children:
        out.children = <mv_arrow_schema **>block.slots
        for k in range(n_children):
            out.children[k] = <mv_arrow_schema *>(block.slots + n_children) + k
    memcpy(at, <const char *>format, len(format) + 1)
    memcpy(at + len(format) + 1, <const char *>name, len(name) + 1)
    out.format = at
    out.name = at + len(format) + 1
    if metadata is not None:
        memcpy(at + text, <const char *>metadata, len(metadata))
        out.metadata = at + text
    out.flags = flags
    out.private_data = block
    out.release = release_schema
    return block


cdef void release_schema(mv_arrow_schema *schema) noexcept nogil:
    cdef int64_t k
    for k in range(schema.n_children):
        if schema.children[k].release is not NULL:
            schema.children[k].release(schema.children[k])
    if schema.dictionary is not NULL and schema.dictionary.release is not NULL:
        schema.dictionary.release(schema.dictionary)
    free(schema.private_data)
    schema.release = NULL


# -- capsules: created with an empty structure, which is safe to drop, and filled afterwards ---------------------------

cdef object new_capsule(size_t size, const char *name, PyCapsule_Destructor destructor):
    cdef void *memory = calloc(1, size)
    if memory is NULL:
        raise AllocationError("Arrow export: no memory for its structures")
    try:
        return PyCapsule_New(memory, name, destructor)
    except MemoryError:
        free(memory)
        raise


cdef void drop_schema_capsule(object capsule) noexcept:
    cdef mv_arrow_schema *schema = <mv_arrow_schema *>PyCapsule_GetPointer(capsule, "arrow_schema")
    if schema.release is not NULL:
        schema.release(schema)
    free(schema)


cdef void drop_array_capsule(object capsule) noexcept:
    cdef mv_arrow_array *array = <mv_arrow_array *>PyCapsule_GetPointer(capsule, "arrow_array")
    if array.release is not NULL:
        array.release(array)
    free(array)


cdef void drop_device_array_capsule(object capsule) noexcept:
    cdef mv_arrow_device_array *device = <mv_arrow_device_array *>PyCapsule_GetPointer(capsule, "arrow_device_array")
    if device.array.release is not NULL:
        device.array.release(&device.array)
    free(device)


cdef void drop_stream_capsule(object capsule) noexcept:
    cdef mv_arrow_stream *stream = <mv_arrow_stream *>PyCapsule_GetPointer(capsule, "arrow_array_stream")
    if stream.release is not NULL:
        stream.release(stream)
    free(stream)


cdef void drop_device_stream_capsule(object capsule) noexcept:
    cdef mv_arrow_device_stream *stream
    stream = <mv_arrow_device_stream *>PyCapsule_GetPointer(capsule, "arrow_device_array_stream")
    if stream.release is not NULL:
        stream.release(stream)
    free(stream)


cdef object schema_capsule(mv_arrow_schema **out):
    capsule = new_capsule(sizeof(mv_arrow_schema), "arrow_schema", drop_schema_capsule)
    out[0] = <mv_arrow_schema *>PyCapsule_GetPointer(capsule, "arrow_schema")
    return capsule


cdef object array_capsule(mv_arrow_array **out):
    capsule = new_capsule(sizeof(mv_arrow_array), "arrow_array", drop_array_capsule)
    out[0] = <mv_arrow_array *>PyCapsule_GetPointer(capsule, "arrow_array")
    return capsule


# -- types -------------------------------------------------------------------------------------------------------------

cdef int fill_schema(mv_arrow_schema *out, kind) except -1:
    cdef int64_t k
    cdef SchemaBlock *block = new_schema(out, len(kind.children), kind.format.encode("utf-8", "surrogateescape"),
                                         kind.name.encode("utf-8", "surrogateescape"), kind.metadata, kind.flags)
    for k in range(out.n_children):
        fill_schema(out.children[k], kind.children[k])
    if kind.dictionary is not None:
        fill_schema(&block.dictionary, kind.dictionary)
        out.dictionary = &block.dictionary
    return 0


cdef dict PLAIN = {}  # dtype -> Arrow format as bytes


cdef bytes item_format(View view, bint as_bits):
    """Return the Arrow format of a view's items."""
    if as_bits:
        return b"b"
    if view._arrow is not None:
        return view._arrow.encode("utf-8", "surrogateescape")
    found = PLAIN.get(view._dtype)
    if found is None:
        found = format_of(view._dtype).encode()
        if len(PLAIN) < 1024:
            PLAIN[view._dtype] = found
    if found[:1] == b"w" and view.desc.dtype_code != MV_OPAQUE:
        raise ZeroCopyError(f"Arrow export: Arrow has no items of type code {view.desc.dtype_code} with "
                            f"{view.desc.dtype_bits} bits")
    return found


cdef int fill_view_schema(mv_arrow_schema *out, View view, bytes format) except -1:
    """Fill the type of the items, inside one fixed-size list for each dimension after the first."""
    cdef int k
    cdef mv_desc *d = view.desc
    for k in range(1, d.ndim):
        new_schema(out, 1, f"+w:{d.shape[k]}".encode(), b"" if k == 1 else b"item", None, MV_ARROW_NULLABLE)
        out = out.children[0]
    new_schema(out, 0, format, b"" if d.ndim == 1 else b"item", None, MV_ARROW_NULLABLE)
    return 0


# -- arrays ------------------------------------------------------------------------------------------------------------

cdef int check_view(View view) except -1:
    cdef mv_desc *d = view.desc
    if d.flags & MV_DEVICE_MASK:
        raise DeviceError(f"Arrow export: expected host memory, got memory on {view.device}")
    if d.ndim == 0:
        raise ShapeError("Arrow export: an array has a length, got a view of 0 dimensions; use view.reshape(1)")
    if not d.flags & MV_C_CONTIGUOUS:
        raise LayoutError(f"Arrow export: expected contiguous items in C order, got strides {view.strides} of "
                          f"shape {view.shape}; "
                          "copy it first")
    if d.ndim > 1 and d.flags & MV_HAS_MASK:
        raise MaskError(f"Arrow export: a mask needs one dimension, got {d.ndim}; export view.data and view.mask")
    return 0


cdef int fill_view(mv_arrow_array *out, View view, bint as_bits) except -1:
    """Fill the items, and one fixed-size list for each dimension after the first. All checks come before."""
    cdef mv_desc *d = view.desc
    cdef int k
    cdef int64_t offset = 0, nulls = 0, length = d.size
    cdef const uint8_t *bits = NULL
    cdef char *data = <char *>d.data
    validity = values = None
    cdef bint nat = (d.logical & 0xFF) in (MV_DATETIME, MV_TIMEDELTA) and mv_has_nat(data, length)
    if nat or (d.flags & (MV_HAS_MASK | MV_MASK_BITS)) == MV_HAS_MASK or (as_bits and d.flags & MV_HAS_MASK):
        validity = bytearray((length + 7) // 8)
        bits = <const uint8_t *><char *>validity
        nulls = length - mv_validity(d, nat, <uint8_t *>bits)
    elif d.flags & MV_HAS_MASK:
        bits = d.mask + d.mask_offset // 8
        offset = d.mask_offset % 8
        nulls = -1
        # Arrow has one offset for both. The items before the first exist, since the bitmap covers them.
        data -= offset * <int64_t>d.itemsize
    if as_bits:
        values = bytearray((length + 7) // 8)
        mv_bits_pack(<const uint8_t *>data, 1, length, False, <uint8_t *><char *>values)
        data = <char *>values
    extra = None if validity is None and values is None else (validity, values)
    for k in range(1, d.ndim):
        new_array(out, 1, 1, view, NULL, None)
        out.length = lists_above(d, k)
        out = out.children[0]
    new_array(out, 2, 0, view, &view._exports, extra)
    out.length = length
    out.null_count = nulls
    out.offset = offset
    out.buffers[0] = bits
    out.buffers[1] = data
    return 0


cdef int64_t lists_above(const mv_desc *d, int axis) noexcept:
    """Number of lists at this level: the product of the sizes before it."""
    cdef int64_t count = 1
    cdef int k
    for k in range(axis):
        count *= d.shape[k]
    return count


cdef int fill_node(mv_arrow_array *out, node) except -1:
    """Fill `out` with the buffers of an imported array of any type (strings, lists, structs, …), without a copy."""
    cdef int64_t k
    cdef ArrayBlock *block = new_array(out, len(node.buffers), len(node.children), node.lease, NULL, None)
    out.length = node.length
    out.null_count = node.null_count
    out.offset = node.offset
    for k in range(out.n_buffers):
        out.buffers[k] = <const void *><uintptr_t>node.buffers[k]
    for k in range(out.n_children):
        fill_node(out.children[k], node.children[k])
    if node.dictionary is not None:
        fill_node(&block.dictionary, node.dictionary)
        out.dictionary = &block.dictionary
    return 0


# -- entry points ------------------------------------------------------------------------------------------------------

def export_schema(View view not None):
    """export_schema(view)

    Export the type of a view as a capsule 'arrow_schema'.
    """
    cdef mv_arrow_schema *schema
    view_enter(view)
    try:
        check_view(view)
        format = item_format(view, False)
        capsule = schema_capsule(&schema)
        fill_view_schema(schema, view, format)
        return capsule
    finally:
        view_leave(view)


def export_view(View view not None, requested):
    """export_view(view, requested)

    Export a view as capsules ('arrow_schema', 'arrow_array').
    """
    cdef mv_arrow_schema *schema
    cdef mv_arrow_array *array
    cdef bint as_bits
    view_enter(view)
    try:
        check_view(view)
        as_bits = requested is not None and wants_bits(view, requested)
        format = item_format(view, as_bits)
        first = schema_capsule(&schema)
        fill_view_schema(schema, view, format)
        second = array_capsule(&array)
        fill_view(array, view, as_bits)
        return first, second
    finally:
        view_leave(view)


def export_node(node):
    """export_node(node)

    Export an imported array as capsules ('arrow_schema', 'arrow_array') of its own buffers.
    """
    cdef mv_arrow_array *array
    first = export_type(node.type)
    second = array_capsule(&array)
    fill_node(array, node)
    return first, second


def export_part(kind, part, options):
    """export_part(kind, part, options)

    Export a view, node, record or coded array with a type of the caller's, as capsules ('arrow_schema', 'arrow_array');
    in the structure that names the device if `options` of that protocol are given.
    """
    cdef mv_arrow_array *array
    if options is not None:
        refuse_options("__arrow_c_device_array__", options)
    first = export_type(kind)
    second = array_capsule(&array)
    fill_any(array, kind, part)
    return first, second if options is None else on_cpu(second)


def export_type(kind):
    """export_type(kind)

    Export a type as a capsule 'arrow_schema'.
    """
    cdef mv_arrow_schema *schema
    capsule = schema_capsule(&schema)
    fill_schema(schema, kind)
    return capsule


def export_device_view(View view not None, requested, dict options):
    """export_device_view(view, requested, options)

    Export as `export_view` does, in the structure that names the device.
    """
    refuse_options("__arrow_c_device_array__", options)
    schema, array = export_view(view, requested)
    return schema, on_cpu(array)


def export_device_node(node, dict options):
    """export_device_node(node, options)

    Export as `export_node` does, in the structure that names the device.
    """
    refuse_options("__arrow_c_device_array__", options)
    schema, array = export_node(node)
    return schema, on_cpu(array)


cdef object on_cpu(array):
    capsule = new_capsule(sizeof(mv_arrow_device_array), "arrow_device_array", drop_device_array_capsule)
    cdef mv_arrow_device_array *device = <mv_arrow_device_array *>PyCapsule_GetPointer(capsule, "arrow_device_array")
    cdef mv_arrow_array *source = <mv_arrow_array *>PyCapsule_GetPointer(array, "arrow_array")
    memcpy(&device.array, source, sizeof(mv_arrow_array))
    source.release = NULL
    device.device_type = MV_ARROW_CPU
    device.device_id = -1
    return capsule


cdef int refuse_options(str what, dict options) except -1:
    """Refuse unknown options unless they are None, as the protocol requires."""
    for name, value in options.items():
        if value is not None:
            raise OptionError(f"{what}({name}={value!r}): expected no options that this version does not know")
    return 0


cdef bint wants_bits(View view, requested) except -1:
    cdef mv_arrow_schema *schema
    if not PyCapsule_IsValid(requested, "arrow_schema"):
        raise ArgumentError(f"requested_schema: expected a capsule 'arrow_schema', got {requested!r}")
    schema = <mv_arrow_schema *>PyCapsule_GetPointer(requested, "arrow_schema")
    return (view.desc.ndim == 1 and view._dtype == np.bool_ and schema.release is not NULL and schema.format is not NULL
            and strlen(schema.format) == 1 and schema.format[0] == b"b")


# -- streams -----------------------------------------------------------------------------------------------------------

@cython.final
cdef class StreamSource:
    """The chunks of an exported stream and the position of its consumer."""
    cdef object kind
    cdef list chunks
    cdef Py_ssize_t at
    cdef bytes error


def export_stream(kind, chunks):
    """export_stream(kind, chunks)

    Export views, nodes and records of one type as a capsule 'arrow_array_stream'.
    """
    capsule = new_capsule(sizeof(mv_arrow_stream), "arrow_array_stream", drop_stream_capsule)
    cdef mv_arrow_stream *stream = <mv_arrow_stream *>PyCapsule_GetPointer(capsule, "arrow_array_stream")
    stream.get_schema = stream_schema
    stream.get_next = stream_next
    stream.get_last_error = stream_error
    stream.private_data = new_source(kind, chunks)
    stream.release = stream_release
    return capsule


def export_device_stream(kind, chunks, dict options):
    """export_device_stream(kind, chunks, options)

    Export as `export_stream` does, in the structure that names the device.
    """
    refuse_options("__arrow_c_device_stream__", options)
    capsule = new_capsule(sizeof(mv_arrow_device_stream), "arrow_device_array_stream", drop_device_stream_capsule)
    cdef mv_arrow_device_stream *stream
    stream = <mv_arrow_device_stream *>PyCapsule_GetPointer(capsule, "arrow_device_array_stream")
    stream.device_type = MV_ARROW_CPU
    stream.get_schema = device_stream_schema
    stream.get_next = device_stream_next
    stream.get_last_error = device_stream_error
    stream.private_data = new_source(kind, chunks)
    stream.release = device_stream_release
    return capsule


cdef void *new_source(kind, chunks) except NULL:
    cdef StreamSource source = StreamSource.__new__(StreamSource)
    source.kind = kind
    source.chunks = list(chunks)
    Py_INCREF(source)
    return <PyObject *>source


cdef int give_schema(void *held, mv_arrow_schema *out) noexcept with gil:
    cdef StreamSource source = <StreamSource>held
    memset(out, 0, sizeof(mv_arrow_schema))
    try:
        fill_schema(out, source.kind)
        return 0
    except Exception as error:
        if out.release is not NULL:
            out.release(out)
        source.error = str(error).encode()
        return EIO


cdef int give_next(void *held, mv_arrow_array *out) noexcept with gil:
    cdef StreamSource source = <StreamSource>held
    memset(out, 0, sizeof(mv_arrow_array))
    try:
        if source.at < len(source.chunks):
            fill_any(out, source.kind, source.chunks[source.at])
            source.at += 1
        return 0
    except Exception as error:
        if out.release is not NULL:
            out.release(out)
        source.error = str(error).encode()
        return EIO


cdef int fill_any(mv_arrow_array *out, kind, chunk) except -1:
    cdef ArrayBlock *block
    cdef int64_t k
    if isinstance(chunk, View):
        return fill_checked(out, <View>chunk, kind.format == "b")
    if isinstance(chunk, ArrowRecord):
        new_array(out, 1, len(chunk.parts), chunk, NULL, None)
        out.length = chunk.length
        for k in range(out.n_children):
            fill_any(out.children[k], kind.children[k], chunk.parts[k])
        return 0
    if isinstance(chunk, ArrowCoded):
        fill_checked(out, <View?>chunk.codes, False)
        block = <ArrayBlock *>out.private_data
        out.dictionary = &block.dictionary
        return fill_any(out.dictionary, kind.dictionary, chunk.values)
    return fill_node(out, chunk)


cdef int fill_checked(mv_arrow_array *out, View view, bint as_bits) except -1:
    view_enter(view)
    try:
        check_view(view)
        return fill_view(out, view, as_bits and view._dtype == np.bool_)
    finally:
        view_leave(view)


cdef const char *give_error(void *held) noexcept with gil:
    cdef StreamSource source = <StreamSource>held
    return <const char *>source.error if source.error is not None else NULL


cdef int stream_schema(mv_arrow_stream *stream, mv_arrow_schema *out) noexcept nogil:
    return give_schema(stream.private_data, out)


cdef int stream_next(mv_arrow_stream *stream, mv_arrow_array *out) noexcept nogil:
    return give_next(stream.private_data, out)


cdef const char *stream_error(mv_arrow_stream *stream) noexcept nogil:
    return give_error(stream.private_data)


cdef void stream_release(mv_arrow_stream *stream) noexcept nogil:
    stream.release = NULL
    mv_decref_any_thread(stream.private_data, NULL)


cdef int device_stream_schema(mv_arrow_device_stream *stream, mv_arrow_schema *out) noexcept nogil:
    return give_schema(stream.private_data, out)


cdef int device_stream_next(mv_arrow_device_stream *stream, mv_arrow_device_array *out) noexcept nogil:
    memset(out, 0, sizeof(mv_arrow_device_array))
    out.device_type = MV_ARROW_CPU
    out.device_id = -1
    return give_next(stream.private_data, &out.array)


cdef const char *device_stream_error(mv_arrow_device_stream *stream) noexcept nogil:
    return give_error(stream.private_data)


cdef void device_stream_release(mv_arrow_device_stream *stream) noexcept nogil:
    stream.release = NULL
    mv_decref_any_thread(stream.private_data, NULL)
