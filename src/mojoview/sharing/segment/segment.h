/* The header of a segment, its first page: creator, contents and owner.
 *
 * Written once, then read-only, except for the words marked "changes". The magic is stored last, with release: a reader
 * that sees it sees everything before it. Little-endian hosts only; another byte order is detected and rejected. */
#ifndef MOJOVIEW_SEGMENT_H
#define MOJOVIEW_SEGMENT_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "../crc32c_step.h"

#define MV_SEGMENT_MAGIC UINT64_C(0x574549564f4a4f4d)   /* the bytes "MOJOVIEW" */
#define MV_SEGMENT_SWAPPED UINT64_C(0x4d4f4a4f56494557) /* the same from a host of the other byte order */
#define MV_SEGMENT_MAJOR 1
#define MV_SEGMENT_MINOR 0
#define MV_SEGMENT_HEADER 4096
#define MV_SEGMENT_LINE 128 /* two cache lines: adjacent-line prefetch pairs them */
#define MV_SEGMENT_ORDER UINT32_C(0x01020304)
#define MV_SEGMENT_TEXT 3072
#define MV_SEGMENT_NAME 560
#define MV_SEGMENT_PARAMS 8

enum {
    MV_KIND_STATE = 1,
    MV_KIND_SNAPSHOT,
    MV_KIND_RING_SPSC,
    MV_KIND_RING_MPSC,
    MV_KIND_RING_BROADCAST,
    MV_KIND_ARRAY,
    MV_KIND_FRAME
};

/* flags */
#define MV_SEGMENT_CRC (UINT32_C(1) << 0)       /* ring: frames carry a checksum of their payload */
#define MV_SEGMENT_OVERWRITE (UINT32_C(1) << 1) /* ring: the writer never waits */
#define MV_SEGMENT_SEALED (UINT32_C(1) << 2)    /* contents never change after the magic */
#define MV_SEGMENT_FILE (UINT32_C(1) << 3)      /* has a name in a directory; without it: anonymous */
#define MV_SEGMENT_FORTRAN (UINT32_C(1) << 4)   /* array: first index varies fastest */

/* owner_state */
enum { MV_OWNER_NONE = 0, MV_OWNER_ACTIVE = 1, MV_OWNER_CLOSED = 2 };

/* Bytes of the file that locks are on; the operating system owns them, and they do not restrict reading or writing. */
enum { MV_LOCK_OWNER = 0, MV_LOCK_ATTACHED = 1, MV_LOCK_ROW = 16 };

typedef struct mv_segment {
    _Atomic uint64_t magic; /* 0 while the segment is being made */
    uint16_t abi_major, abi_minor;
    uint32_t header_bytes;
    uint32_t kind, flags;
    uint32_t byte_order;
    uint16_t word_bytes, line_bytes;
    uint64_t segment_bytes;
    uint64_t payload_off, payload_bytes;
    uint64_t schema_hash; /* of kind, dtype, shape, order and the user's tag */
    uint8_t uuid[16];     /* identity of the segment */
    uint8_t boot_id[16];
    uint32_t creator_pid, creator_uid;
    uint64_t creator_start; /* start time of the process, in the system's unit: distinguishes a reused pid */
    uint64_t created_ns;    /* since 1970 */
    uint32_t header_crc;    /* CRC-32C of bytes 8 to 119 and 256 to the end of the text */
    uint32_t zero;
    _Atomic uint64_t owner_epoch; /* changes: +1 at each takeover */
    _Atomic uint32_t owner_pid;   /* changes */
    _Atomic uint32_t owner_state; /* changes */
    _Atomic uint64_t owner_start; /* changes */
    uint8_t unused[40];
    _Atomic uint32_t closed;     /* changes: 1 once the owner has closed the segment */
    _Atomic uint32_t generation; /* reserved */
    uint8_t unused2[56];
    uint32_t ndim, itemsize;
    uint32_t dtype_bytes, tag_bytes; /* lengths in `text`: the dtype, then the user's tag */
    int64_t shape[8];
    int64_t strides[8];                /* bytes */
    int64_t params[MV_SEGMENT_PARAMS]; /* positions and sizes of the parts of each kind */
    char name[MV_SEGMENT_NAME];        /* zero-terminated UTF-8 */
    char text[MV_SEGMENT_TEXT];
} mv_segment;

_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2 && ATOMIC_INT_LOCK_FREE == 2, "words must be lock-free to be shared");
_Static_assert(sizeof(mv_segment) == MV_SEGMENT_HEADER, "header");
_Static_assert(offsetof(mv_segment, abi_major) == 8, "abi_major");
_Static_assert(offsetof(mv_segment, kind) == 16, "kind");
_Static_assert(offsetof(mv_segment, byte_order) == 24, "byte_order");
_Static_assert(offsetof(mv_segment, segment_bytes) == 32, "segment_bytes");
_Static_assert(offsetof(mv_segment, schema_hash) == 56, "schema_hash");
_Static_assert(offsetof(mv_segment, uuid) == 64, "uuid");
_Static_assert(offsetof(mv_segment, boot_id) == 80, "boot_id");
_Static_assert(offsetof(mv_segment, creator_pid) == 96, "creator_pid");
_Static_assert(offsetof(mv_segment, created_ns) == 112, "created_ns");
_Static_assert(offsetof(mv_segment, header_crc) == 120, "header_crc");
_Static_assert(offsetof(mv_segment, owner_epoch) == 128, "owner_epoch");
_Static_assert(offsetof(mv_segment, owner_pid) == 136, "owner_pid");
_Static_assert(offsetof(mv_segment, owner_start) == 144, "owner_start");
_Static_assert(offsetof(mv_segment, closed) == 192, "closed");
_Static_assert(offsetof(mv_segment, ndim) == 256, "ndim");
_Static_assert(offsetof(mv_segment, shape) == 272, "shape");
_Static_assert(offsetof(mv_segment, params) == 400, "params");
_Static_assert(offsetof(mv_segment, name) == 464, "name");
_Static_assert(offsetof(mv_segment, text) == 1024, "text");

/* A lock on one byte of the file, held by a descriptor of its own (byte_lock.h). */
typedef struct mv_byte_lock {
    int fd;     /* -1: not held */
    int forked; /* held by the process that forked this one */
    struct mv_byte_lock *prev, *next;
} mv_byte_lock;

/* Faults of a header, in the order of the checks. */
enum mv_segment_fault {
    MV_SEGMENT_OK = 0,
    MV_SEGMENT_FOREIGN, /* not a segment: do not change it */
    MV_SEGMENT_UNFINISHED,
    MV_SEGMENT_BYTE_ORDER,
    MV_SEGMENT_VERSION,
    MV_SEGMENT_CORRUPT,
    MV_SEGMENT_TRUNCATED
};

/* CRC-32C (Castagnoli, reflected 0x82F63B78), by processor instructions or four bits per step. */
static inline uint32_t mv_segment_crc(uint32_t crc, const void *data, size_t n) {
    static const uint32_t table[16] = {0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3,
                                       0x61c69362, 0x7198540d, 0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9,
                                       0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75};
    const uint8_t *p = (const uint8_t *)data;
    crc = ~crc;
    if (mv_crc_detect()) {
        for (; n >= 8; n -= 8, p += 8)
            crc = mv_crc_step8(crc, mv_load64(p));
        for (; n; n--, p++)
            crc = mv_crc_step1(crc, *p);
    }
    for (; n; n--, p++) {
        crc ^= *p;
        crc = crc >> 4 ^ table[crc & 15];
        crc = crc >> 4 ^ table[crc & 15];
    }
    return ~crc;
}

static inline uint32_t mv_segment_header_crc(const mv_segment *h) {
    const uint8_t *bytes = (const uint8_t *)h;
    uint64_t text = (uint64_t)h->dtype_bytes + h->tag_bytes;
    if (text > MV_SEGMENT_TEXT)
        text = MV_SEGMENT_TEXT; /* inconsistent: the checksum or a later check rejects it */
    return mv_segment_crc(mv_segment_crc(0, bytes + 8, 112), bytes + 256, 1024 - 256 + (size_t)text);
}

/* Validate a private copy of the header, which no peer can change between check and use. `available` is how much of the
 * page the file has, `file_bytes` the size of the file. */
static inline int mv_segment_check(const mv_segment *h, size_t available, uint64_t file_bytes) {
    uint64_t magic = 0;
    if (available < 8)
        return MV_SEGMENT_FOREIGN;
    memcpy(&magic, h, 8);
    if (magic == MV_SEGMENT_SWAPPED)
        return MV_SEGMENT_BYTE_ORDER;
    if (magic == 0)
        return available < MV_SEGMENT_HEADER ? MV_SEGMENT_FOREIGN : MV_SEGMENT_UNFINISHED;
    if (magic != MV_SEGMENT_MAGIC)
        return MV_SEGMENT_FOREIGN;
    if (available < MV_SEGMENT_HEADER)
        return MV_SEGMENT_TRUNCATED;
    if (h->abi_major != MV_SEGMENT_MAJOR)
        return MV_SEGMENT_VERSION;
    if (h->header_crc != mv_segment_header_crc(h))
        return MV_SEGMENT_CORRUPT;
    if (h->byte_order != MV_SEGMENT_ORDER)
        return MV_SEGMENT_BYTE_ORDER;
    /* The checksum is right: a fault below was written on purpose or by a defect. */
    if (h->header_bytes != MV_SEGMENT_HEADER || h->word_bytes != 8 || h->line_bytes != MV_SEGMENT_LINE)
        return MV_SEGMENT_CORRUPT;
    if (h->payload_off < MV_SEGMENT_HEADER || h->payload_off > h->segment_bytes ||
        h->payload_bytes > h->segment_bytes - h->payload_off || h->segment_bytes > INT64_MAX)
        return MV_SEGMENT_CORRUPT;
    if (h->ndim > 8 || h->dtype_bytes > MV_SEGMENT_TEXT || h->tag_bytes > MV_SEGMENT_TEXT - h->dtype_bytes ||
        h->name[MV_SEGMENT_NAME - 1] != 0)
        return MV_SEGMENT_CORRUPT;
    if (h->segment_bytes > file_bytes)
        return MV_SEGMENT_TRUNCATED;
    return MV_SEGMENT_OK;
}

/* Finish creation. REL: a reader of the magic with ACQ sees the header and the first payload. */
static inline void mv_segment_commit(mv_segment *h) {
    h->header_crc = mv_segment_header_crc(h);
    atomic_store_explicit(&h->magic, MV_SEGMENT_MAGIC, memory_order_release);
}

/* Called by the holder of the owner's lock. REL on the state: a peer that sees "active" sees the owner. */
static inline void mv_segment_set_owner(mv_segment *h, uint32_t pid, uint64_t start) {
    atomic_store_explicit(&h->owner_pid, pid, memory_order_relaxed);     /* RLX: the release of the state orders it */
    atomic_store_explicit(&h->owner_start, start, memory_order_relaxed); /* RLX: as above */
    atomic_store_explicit(&h->owner_state, MV_OWNER_ACTIVE, memory_order_release);
}

/* Begin a takeover, which mv_segment_set_owner() finishes: the epoch tells readers that the owner has changed. */
static inline void mv_segment_take_over(mv_segment *h) {
    atomic_fetch_add_explicit(&h->owner_epoch, 1, memory_order_relaxed); /* RLX: the release of the state orders it */
    atomic_store_explicit(&h->closed, 0, memory_order_relaxed);          /* as above */
}

/* Mark the segment as closed. REL: a reader that sees it sees the last publication. */
static inline void mv_segment_close(mv_segment *h) {
    atomic_store_explicit(&h->owner_state, MV_OWNER_CLOSED, memory_order_release);
    atomic_store_explicit(&h->closed, 1, memory_order_release);
}

/* Load the words that change. ACQ: pairs with the releases above. */
#define MV_SEGMENT_READ(type, name, field)                                                                             \
    static inline type name(const mv_segment *h) { return atomic_load_explicit(&h->field, memory_order_acquire); }
MV_SEGMENT_READ(uint32_t, mv_segment_closed, closed)
MV_SEGMENT_READ(uint32_t, mv_segment_owner_state, owner_state)
MV_SEGMENT_READ(uint32_t, mv_segment_owner_pid, owner_pid)
MV_SEGMENT_READ(uint64_t, mv_segment_owner_start, owner_start)
MV_SEGMENT_READ(uint64_t, mv_segment_epoch, owner_epoch)
#undef MV_SEGMENT_READ
/* readers may sleep on it */
static inline _Atomic uint32_t *mv_segment_closed_word(mv_segment *h) { return &h->closed; }

#endif
