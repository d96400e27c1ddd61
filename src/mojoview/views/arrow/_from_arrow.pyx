"""Import of Arrow: structures from capsules are checked, moved into leases and turned into views or nodes.

Source: Apache Arrow, "The Arrow C data interface", "The Arrow C stream interface", "The Arrow PyCapsule Interface".
"""

cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid
from libc.stdint cimport int32_t, int64_t, uint8_t, uintptr_t
from libc.string cimport memcpy, memset, strlen, strerror

from mojoview.memory._lease cimport Lease
from mojoview.views._window cimport make_bits
from mojoview.views._construct cimport with_bits
from mojoview.views._view cimport View, make_view
from mojoview.views.arrow.c_data cimport (
    MV_ARROW_CPU, mv_arrow_array, mv_arrow_device_array, mv_arrow_device_stream, mv_arrow_schema, mv_arrow_stream,
)

from mojoview.memory.errors import DeviceError, InterfaceError, MojoViewError, ReadOnlyError, ZeroCopyError
from mojoview.views.arrow.format import ArrowChunks, ArrowNode, ArrowType, buffer_count, child_count, fixed_dtype

cdef enum:
    MAX_DEPTH = 64  # of nested types, as in Arrow's own implementations


@cython.final
@cython.no_gc_clear
cdef class ArrayLease(Lease):
    """Keep a moved array, and release it once, with the GIL held."""
    cdef mv_arrow_array array

    def __dealloc__(self):
        if self.array.release is not NULL:
            self.array.release(&self.array)


def from_arrow(obj, bint writable):
    """from_arrow(obj, writable)

    Read what an object exports by Arrow's PyCapsule interface.

    Parameters
    ----------
    obj : object
        With `__arrow_c_array__` or `__arrow_c_stream__`, or their device variants on the host.
    writable : bool
        Must be False: Arrow memory is immutable.

    Returns
    -------
    View, ArrowNode or ArrowChunks
        A `View` of items that have their bytes in place, an `ArrowNode` for all other types, `ArrowChunks` for a
        stream, which is read to its end; `open_import()` of `chunked.py` makes views of the last two. All borrow the
        memory and hold the producer's structures until the last view is deallocated.

    Raises
    ------
    ReadOnlyError
        ``writable=True``.
    InterfaceError
        The structures contradict themselves or each other, or are released already.
    ZeroCopyError
        The producer refuses, or the type is one that mojoview does not view.
    DeviceError
        The memory is on a device.

    Notes
    -----
    Thread safety: any thread. A stream is read without the GIL.
    """
    cdef str what = f"view({type(obj).__name__})"
    if writable:
        raise ReadOnlyError(f"{what}, writable=True: Arrow memory is immutable; copy='always' makes a writable copy")
    kind = type(obj)
    try:
        if hasattr(kind, "__arrow_c_array__"):
            schema, array = obj.__arrow_c_array__()
            stream = None
        elif hasattr(kind, "__arrow_c_stream__"):
            stream = obj.__arrow_c_stream__()
        elif hasattr(kind, "__arrow_c_device_array__"):
            schema, array = obj.__arrow_c_device_array__()
            stream = None
        else:
            stream = obj.__arrow_c_device_stream__()
    except MojoViewError:
        raise
    except (TypeError, ValueError, NotImplementedError, BufferError, RuntimeError) as error:
        raise ZeroCopyError(f"{what}: its Arrow export refuses: {error}") from error
    if stream is not None:
        return import_stream(what, obj, stream)
    return import_pair(what, obj, schema, array)


cdef object import_pair(str what, obj, schema_capsule, array_capsule):
    cdef mv_arrow_schema *schema
    cdef mv_arrow_array *array
    cdef mv_arrow_device_array *device
    if not PyCapsule_IsValid(schema_capsule, "arrow_schema"):
        raise InterfaceError(f"{what}: expected a capsule 'arrow_schema', got {schema_capsule!r}")
    schema = <mv_arrow_schema *>PyCapsule_GetPointer(schema_capsule, "arrow_schema")
    if PyCapsule_IsValid(array_capsule, "arrow_array"):
        array = <mv_arrow_array *>PyCapsule_GetPointer(array_capsule, "arrow_array")
    elif PyCapsule_IsValid(array_capsule, "arrow_device_array"):
        device = <mv_arrow_device_array *>PyCapsule_GetPointer(array_capsule, "arrow_device_array")
        check_device(what, device.device_type)
        array = &device.array
    else:
        raise InterfaceError(f"{what}: expected a capsule 'arrow_array', got {array_capsule!r}")
    if schema.release is NULL or array.release is NULL:
        raise InterfaceError(f"{what}: its Arrow structures are released or were consumed before")
    plain = plain_format(schema)
    # The schema is only read: its capsule releases it. The array is moved.
    kind = read_schema(what, schema, 0) if plain is None else None
    cdef ArrayLease lease = move_array(obj, array)
    if plain is not None:
        return plain_view(what, plain, lease)
    return read_array(what, &lease.array, kind, lease)


cdef int check_device(str what, int32_t device_type) except -1:
    if device_type != MV_ARROW_CPU:
        raise DeviceError(f"{what}: Arrow data on device type {device_type}, which the host cannot read")
    return 0


cdef ArrayLease move_array(owner, mv_arrow_array *array):
    cdef ArrayLease lease = ArrayLease.__new__(ArrayLease)
    lease.owner = owner
    memcpy(&lease.array, array, sizeof(mv_arrow_array))
    array.release = NULL
    return lease


# -- fast path: items that have their bytes in place -------------------------------------------------------------------

cdef dict PLAIN = {}  # format as bytes -> (dtype, format if the dtype loses detail)


cdef tuple plain_format(const mv_arrow_schema *schema):
    if schema.dictionary is not NULL or schema.n_children or schema.format is NULL or schema.metadata is not NULL:
        return None
    cdef bytes format = schema.format
    found = PLAIN.get(format)
    if found is None and format not in PLAIN:
        text = decode(schema.format)
        known = fixed_dtype(text)
        found = None if known is None else (known[0], text if known[1] else None)
        if len(PLAIN) < 1024:
            PLAIN[format] = found
    return found


cdef object plain_view(str what, tuple plain, ArrayLease lease):
    cdef mv_arrow_array *a = &lease.array
    check_counts(what, a, True)
    if a.n_buffers != 2 or a.n_children or a.dictionary is not NULL:
        raise InterfaceError(f"{what}: expected 2 buffers and no children for {plain[0]}, got {a.n_buffers} and "
                             f"{a.n_children}")
    return fixed_view(what, lease, <const char *>a.buffers[1], a.offset, a.length, <const uint8_t *>a.buffers[0],
                      a.null_count, plain)


cdef View fixed_view(str what, Lease lease, const char *data, int64_t offset, int64_t length, const uint8_t *bits,
                     int64_t nulls, tuple plain):
    """Open a 1-D view of `length` items from item `offset`, with their validity."""
    dtype, keeps = plain
    cdef int64_t item = dtype.itemsize
    if length and item and (offset + length) > (2**63 - 1) // item:
        raise InterfaceError(f"{what}: {offset} + {length} items of {dtype} overflow")
    if data is NULL and length and item:
        raise InterfaceError(f"{what}: no data buffer for {length} items")
    cdef const char *first = data + offset * item if length else data
    cdef View view = make_view(lease, <void *>first, 1, &length, &item, dtype, True)
    view._arrow = keeps
    if bits is not NULL and nulls and length:
        return with_bits(view, lease, bits, offset)
    return view


cdef int check_counts(str what, const mv_arrow_array *a, bint bitmap) except -1:
    if a.length < 0 or a.offset < 0 or a.length > 2**62 or a.offset > 2**62:
        raise InterfaceError(f"{what}: length {a.length} and offset {a.offset}")
    if a.null_count < -1 or a.null_count > a.length:
        raise InterfaceError(f"{what}: {a.null_count} nulls among {a.length} elements")
    if a.n_buffers < 0 or (a.n_buffers and a.buffers is NULL):
        raise InterfaceError(f"{what}: {a.n_buffers} buffers, and no list of them")
    if a.null_count > 0 and bitmap and a.n_buffers and a.buffers[0] is NULL:
        raise InterfaceError(f"{what}: {a.null_count} nulls without a validity bitmap")
    return 0


# -- general path: every type ------------------------------------------------------------------------------------------

cdef object read_schema(str what, const mv_arrow_schema *s, int depth):
    cdef int64_t k
    if depth > MAX_DEPTH:
        raise InterfaceError(f"{what}: types nested more than {MAX_DEPTH} deep")
    if s is NULL or s.release is NULL or s.format is NULL:
        raise InterfaceError(f"{what}: a released or incomplete ArrowSchema")
    format = decode(s.format)
    expected = child_count(format)
    if s.n_children < 0 or (s.n_children and s.children is NULL) or (expected >= 0 and s.n_children != expected):
        raise InterfaceError(f"{what}: {s.n_children} children for Arrow type {format!r}")
    return ArrowType(
        format, decode(s.name) if s.name is not NULL else "", read_metadata(what, s.metadata), s.flags,
        tuple([read_schema(what, s.children[k], depth + 1) for k in range(s.n_children)]),
        read_schema(what, s.dictionary, depth + 1) if s.dictionary is not NULL else None)


cdef object read_array(str what, const mv_arrow_array *a, kind, Lease lease):
    """Check an array against its type and return its node. Children are released by the base structure."""
    cdef int64_t k, expected, count
    if a is NULL or a.release is NULL:
        raise InterfaceError(f"{what}: a released or missing child array of type {kind.format!r}")
    count = a.n_buffers
    if kind.format == "n" and count == 1 and a.buffers is not NULL and a.buffers[0] is NULL:
        count = 0  # polars exports the validity bitmap that the type does not have
    check_counts(what, a, count != 0)
    expected = buffer_count(kind.format)
    if (count != expected if expected >= 0 else count < 3):
        raise InterfaceError(f"{what}: {a.n_buffers} buffers for Arrow type {kind.format!r}, expected "
                             + (str(expected) if expected >= 0 else "3 or more"))
    if a.n_children != len(kind.children) or (a.n_children and a.children is NULL):
        raise InterfaceError(f"{what}: {a.n_children} child arrays for {len(kind.children)} of type {kind.format!r}")
    if (a.dictionary is NULL) != (kind.dictionary is None):
        raise InterfaceError(f"{what}: type and array disagree on a dictionary")
    return ArrowNode(
        kind, a.length, a.null_count, a.offset, tuple([<uintptr_t>a.buffers[k] for k in range(count)]),
        tuple([read_array(what, a.children[k], kind.children[k], lease) for k in range(a.n_children)]),
        read_array(what, a.dictionary, kind.dictionary, lease) if a.dictionary is not NULL else None, lease)


cdef str decode(const char *text):
    return text[:strlen(text)].decode("utf-8", "surrogateescape")


cdef bytes read_metadata(str what, const char *metadata):
    """Copy the encoded pairs: int32 count, then for each key and value an int32 length and its bytes."""
    cdef int32_t count, length
    cdef int64_t at = 4
    if metadata is NULL:
        return None
    memcpy(&count, metadata, 4)
    if count < 0 or count > 1 << 20:
        raise InterfaceError(f"{what}: metadata of {count} pairs")
    for _ in range(2 * count):
        memcpy(&length, metadata + at, 4)
        if length < 0:
            raise InterfaceError(f"{what}: metadata of negative length")
        at += 4 + length
    return PyBytes_FromStringAndSize(metadata, at)


# -- parts for the classes of `arrays`. Addresses come from nodes, whose lease keeps them alive. -----------------------

def view_of_node(node, dtype, keeps):
    """view_of_node(node, dtype, keeps)

    Open the items of a fixed-width node, with their validity.
    """
    return fixed_view("view", node.lease, <const char *><uintptr_t>node.buffers[1], node.offset, node.length,
                      <const uint8_t *><uintptr_t>node.buffers[0], node.null_count, (dtype, keeps))


def items_at(Lease lease not None, uintptr_t address, int64_t offset, int64_t length, dtype):
    """items_at(lease, address, offset, length, dtype)

    Open `length` items without validity, from item `offset` after the address.
    """
    return fixed_view("view", lease, <const char *>address, offset, length, NULL, 0, (dtype, None))


def bits_at(Lease lease not None, uintptr_t address, int64_t offset, int64_t length):
    """bits_at(lease, address, offset, length)

    Open `length` bits from bit `offset` after the address.
    """
    if address == 0 and length:
        raise InterfaceError(f"view: no data buffer for {length} bits")
    return make_bits(lease, <const uint8_t *>address, offset, length)


def masked_by(View values not None, Lease lease not None, uintptr_t address, int64_t offset):
    """masked_by(values, lease, address, offset)

    Return `values` with a bitmap as their validity.
    """
    return with_bits(values, lease, <const uint8_t *>address, offset)


# -- streams -----------------------------------------------------------------------------------------------------------

@cython.final
@cython.no_gc_clear
cdef class StreamLease:
    """A moved stream, released after reading."""
    cdef mv_arrow_stream stream
    cdef mv_arrow_device_stream device

    def __dealloc__(self):
        if self.stream.release is not NULL:
            with nogil:
                self.stream.release(&self.stream)
        if self.device.release is not NULL:
            with nogil:
                self.device.release(&self.device)


cdef object import_stream(str what, obj, capsule):
    cdef StreamLease held = StreamLease.__new__(StreamLease)
    cdef mv_arrow_stream *stream
    cdef mv_arrow_device_stream *device
    if PyCapsule_IsValid(capsule, "arrow_array_stream"):
        stream = <mv_arrow_stream *>PyCapsule_GetPointer(capsule, "arrow_array_stream")
        memcpy(&held.stream, stream, sizeof(mv_arrow_stream))
        stream.release = NULL
    elif PyCapsule_IsValid(capsule, "arrow_device_array_stream"):
        device = <mv_arrow_device_stream *>PyCapsule_GetPointer(capsule, "arrow_device_array_stream")
        check_device(what, device.device_type)
        memcpy(&held.device, device, sizeof(mv_arrow_device_stream))
        device.release = NULL
    else:
        raise InterfaceError(f"{what}: expected a capsule 'arrow_array_stream', got {capsule!r}")
    if held.stream.release is NULL and held.device.release is NULL:
        raise InterfaceError(f"{what}: its Arrow stream is released or was consumed before")
    kind = read_stream_type(what, held)
    chunks = []
    while (lease := next_chunk(what, held, obj)) is not None:
        chunks.append(read_array(what, &(<ArrayLease>lease).array, kind, <ArrayLease>lease))
    return ArrowChunks(kind, tuple(chunks))


cdef object read_stream_type(str what, StreamLease held):
    cdef mv_arrow_schema schema
    cdef int status
    memset(&schema, 0, sizeof(mv_arrow_schema))
    with nogil:  # the producer may wait for threads that need the GIL
        if held.stream.release is not NULL:
            status = held.stream.get_schema(&held.stream, &schema)
        else:
            status = held.device.get_schema(&held.device, &schema)
    if status:
        raise_stream(what, held, status)
    if schema.release is NULL:
        raise InterfaceError(f"{what}: its Arrow stream gave no schema")
    try:
        return read_schema(what, &schema, 0)
    finally:
        schema.release(&schema)


cdef object next_chunk(str what, StreamLease held, owner):
    """Read the next array, moved into a lease; None at the end."""
    cdef ArrayLease lease = ArrayLease.__new__(ArrayLease)
    cdef mv_arrow_device_array device
    cdef int status
    lease.owner = owner
    memset(&device, 0, sizeof(mv_arrow_device_array))
    device.device_type = MV_ARROW_CPU
    with nogil:
        if held.stream.release is not NULL:
            status = held.stream.get_next(&held.stream, &lease.array)
        else:
            status = held.device.get_next(&held.device, &device)
    if status:
        lease.array.release = NULL  # nothing was handed out
        raise_stream(what, held, status)
    if held.device.release is not NULL:
        memcpy(&lease.array, &device.array, sizeof(mv_arrow_array))
        if device.array.release is not NULL:
            check_device(what, device.device_type)
    return lease if lease.array.release is not NULL else None


cdef int raise_stream(str what, StreamLease held, int status) except -1:
    cdef const char *text
    if held.stream.release is not NULL:
        text = held.stream.get_last_error(&held.stream)
    else:
        text = held.device.get_last_error(&held.device)
    reason = decode(text) if text is not NULL else strerror(status).decode()
    raise InterfaceError(f"{what}: its Arrow stream failed with {reason} (errno {status})")
