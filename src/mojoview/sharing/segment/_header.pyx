"""Headers of segments: written once, validated in a private copy, converted to a dict."""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset
from posix.types cimport off_t
from posix.unistd cimport getpid, getuid

import os

from mojoview.memory.errors import SegmentError


cdef extern from "sharing/segment/segment.h" nogil:
    int mv_segment_check(const mv_segment *h, size_t available, uint64_t file_bytes)

cdef extern from "sharing/segment/platform.h" nogil:
    enum:
        MV_SEAL_SIZE
        MV_SEAL_FUTURE
        MV_SEAL_NOW
        MV_OS_LOCKS
    int mv_os_anonymous(const char *label, const char *directory)
    int mv_os_seal(int fd, int contents)
    int mv_os_size_is_sealed(int fd)
    int mv_os_locked(int fd, int64_t byte)
    int mv_os_start_time(int64_t pid, uint64_t *start)
    void mv_os_boot_id(uint8_t *id)
    uint64_t mv_realtime_ns()

    int mv_os_open_plain(const char *path, int64_t uid)
    int64_t mv_os_size(int fd)

cdef extern from "<unistd.h>" nogil:
    ssize_t pread(int fd, void *buffer, size_t bytes, off_t offset)

FAULTS = ("ok", "foreign", "unfinished", "byte order", "version", "corrupt", "truncated")
KINDS = {MV_KIND_STATE: "state", MV_KIND_SNAPSHOT: "snapshot", MV_KIND_RING_SPSC: "ring", MV_KIND_RING_MPSC: "ring",
         MV_KIND_RING_BROADCAST: "ring", MV_KIND_ARRAY: "array", MV_KIND_FRAME: "frame"}
STATE, SNAPSHOT, ARRAY, FRAME = MV_KIND_STATE, MV_KIND_SNAPSHOT, MV_KIND_ARRAY, MV_KIND_FRAME
RING_SPSC, RING_MPSC, RING_BROADCAST = MV_KIND_RING_SPSC, MV_KIND_RING_MPSC, MV_KIND_RING_BROADCAST
SEALED, FILE, FORTRAN = MV_SEGMENT_SEALED, MV_SEGMENT_FILE, MV_SEGMENT_FORTRAN
HEADER_BYTES, TEXT_BYTES, NAME_BYTES = MV_SEGMENT_HEADER, MV_SEGMENT_TEXT, MV_SEGMENT_NAME - 1
HAS_LOCKS = bool(MV_OS_LOCKS)
VERSION = (MV_SEGMENT_MAJOR, MV_SEGMENT_MINOR)
SEAL_SIZE, SEAL_FUTURE, SEAL_NOW = MV_SEAL_SIZE, MV_SEAL_FUTURE, MV_SEAL_NOW


cdef uint64_t process_start() except? 0:
    """Return the start time of this process, which with its pid is its identity."""
    cdef uint64_t start = 0
    cdef int rc = mv_os_start_time(getpid(), &start)
    if rc < 0:
        raise SegmentError(-rc, f"start time of this process: {os.strerror(-rc)}")
    return start


cdef int fill_header(
    mv_segment *h, int kind, uint32_t flags, int64_t total, int64_t payload_off, int64_t payload_bytes,
    uint64_t schema_hash, bytes uuid, uint32_t itemsize, tuple shape, tuple strides, tuple params, bytes name,
    bytes dtype_text, bytes tag,
) except -1:
    """Fill a zeroed header, except for magic, checksum and owner. The caller has checked the sizes."""
    cdef int k
    cdef bytes boot = this_boot()
    text = dtype_text + tag
    h.abi_major, h.abi_minor = MV_SEGMENT_MAJOR, MV_SEGMENT_MINOR
    h.header_bytes, h.kind, h.flags, h.byte_order = MV_SEGMENT_HEADER, kind, flags, MV_SEGMENT_ORDER
    h.word_bytes, h.line_bytes = 8, MV_SEGMENT_LINE
    h.segment_bytes, h.payload_off, h.payload_bytes, h.schema_hash = total, payload_off, payload_bytes, schema_hash
    memcpy(h.uuid, <const char *>uuid, 16)
    memcpy(h.boot_id, <const char *>boot, 16)
    h.creator_pid, h.creator_uid, h.creator_start, h.created_ns = getpid(), getuid(), process_start(), mv_realtime_ns()
    h.ndim, h.itemsize, h.dtype_bytes, h.tag_bytes = len(shape), itemsize, len(dtype_text), len(tag)
    for k in range(len(shape)):
        h.shape[k] = shape[k]
        h.strides[k] = strides[k]
    for k in range(len(params)):
        h.params[k] = params[k]
    memcpy(h.name, <const char *>name, len(name))
    memcpy(h.text, <const char *>text, len(text))
    return 0


cdef dict header_facts(const mv_segment *h):
    """Return a checked header as a dict."""
    cdef int k
    return {
        "kind": h.kind, "flags": h.flags, "segment_bytes": h.segment_bytes, "payload_off": h.payload_off,
        "payload_bytes": h.payload_bytes, "schema_hash": h.schema_hash, "uuid": bytes((<const char *>h.uuid)[:16]),
        "boot_id": bytes((<const char *>h.boot_id)[:16]), "creator_pid": h.creator_pid, "creator_uid": h.creator_uid,
        "created_ns": h.created_ns, "itemsize": h.itemsize, "shape": tuple([h.shape[k] for k in range(<int>h.ndim)]),
        "params": tuple([h.params[k] for k in range(MV_SEGMENT_PARAMS)]),
        "name": (<const char *>h.name).decode("utf-8", "replace"), "dtype_text": bytes(h.text[:h.dtype_bytes]),
        "tag": bytes(h.text[h.dtype_bytes:h.dtype_bytes + h.tag_bytes]), "version": (h.abi_major, h.abi_minor),
    }


def inspect(int fd):
    """inspect(fd)

    Read and validate the header of an open file, without mapping it.

    Returns
    -------
    fault : str
        One of `FAULTS`.
    facts : dict
        Constants and owner fields of the header; only `version` unless the fault is "ok" or "truncated".
    """
    cdef mv_segment h
    cdef ssize_t n, got = 0
    cdef int64_t size
    cdef int status
    while got < <ssize_t>sizeof(h):
        n = pread(fd, (<char *>&h) + got, sizeof(h) - got, got)
        if n <= 0:
            memset((<char *>&h) + got, 0, sizeof(h) - got)
            break
        got += n
    size = mv_os_size(fd)
    if size < 0:
        raise SegmentError(-size, f"size of a segment's file: {os.strerror(-size)}")
    status = mv_segment_check(&h, got, size)
    fault = FAULTS[status]
    if status not in (MV_SEGMENT_OK, MV_SEGMENT_TRUNCATED) or got < <ssize_t>sizeof(h):
        return fault, {"version": (h.abi_major, h.abi_minor)}
    facts = header_facts(&h)
    facts["owner_pid"] = mv_segment_owner_pid(&h)
    facts["owner_state"] = mv_segment_owner_state(&h)
    facts["epoch"] = mv_segment_epoch(&h)
    facts["owner_start"] = mv_segment_owner_start(&h)
    return fault, facts


def open_plain(str path, int64_t uid):
    """open_plain(path, uid)

    Open for reading a regular file that user `uid` owns and not everyone may write to. Return -1 for anything else:
    `naming.open_file` finds out why. The caller closes the descriptor.
    """
    return max(mv_os_open_plain(os.fsencode(path), uid), -1)


def sealable_memory(str directory):
    """sealable_memory(directory)

    Return a descriptor of new, empty memory, which the caller closes.
    """
    cdef int fd = mv_os_anonymous(b"mojoview", os.fsencode(directory))
    if fd < 0:
        raise SegmentError(-fd, f"allocating memory: {os.strerror(-fd)}")
    return fd


def seal_size(int fd):
    """seal_size(fd)

    Make the size of anonymous memory final.
    """
    cdef int rc = mv_os_seal(fd, MV_SEAL_SIZE)
    if rc < 0:
        raise SegmentError(-rc, f"sealing memory: {os.strerror(-rc)}")


def size_is_sealed(int fd):
    """size_is_sealed(fd)

    Return whether no process can truncate the memory; always true on systems without seals.
    """
    return mv_os_size_is_sealed(fd) != 0


cdef bint alive(int fd, uint32_t state, uint32_t pid, uint64_t start, bytes boot_id) except -1:
    """Return whether an owner holds its lock, or its process exists and has not closed the segment."""
    cdef uint64_t actual = 0
    cdef int rc = mv_os_locked(fd, MV_LOCK_OWNER)
    if rc == 1:
        return True
    if state != MV_OWNER_ACTIVE or boot_id != this_boot() or pid == 0:
        return False
    # The lock is free, or the system has none: check the process itself.
    return mv_os_start_time(pid, &actual) == 0 and actual == start


def owner_alive(int fd, dict facts):
    """owner_alive(fd, facts)

    Return whether the owner in an inspected header is alive.
    """
    return alive(fd, facts["owner_state"], facts["owner_pid"], facts["owner_start"], facts["boot_id"])


cdef bytes read_boot_id():
    """Return the boot ID as bytes."""
    cdef uint8_t id[16]
    mv_os_boot_id(id)
    return bytes(id[:16])


cdef bytes _boot = read_boot_id()  # constant during the life of a process


def this_boot():
    """this_boot()

    Return the boot ID, 16 bytes.
    """
    return _boot
