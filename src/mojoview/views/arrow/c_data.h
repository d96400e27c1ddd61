/* The structures of the Arrow C data, stream and device interfaces, declared from their specifications
 * (arrow.apache.org/docs/format). Layouts are fixed by the protocol: the asserts below hold them. */
#ifndef MOJOVIEW_C_DATA_H
#define MOJOVIEW_C_DATA_H

#include "../../memory/abi.h"

#define MV_ARROW_ORDERED 1
#define MV_ARROW_NULLABLE 2
#define MV_ARROW_CPU 1 /* device types are DLPack's */

/* A structure whose `release` is NULL is released or was moved: nothing else of it may be read. */
typedef struct mv_arrow_schema {
    const char *format, *name, *metadata;
    int64_t flags;
    int64_t n_children;
    struct mv_arrow_schema **children;
    struct mv_arrow_schema *dictionary;
    void (*release)(struct mv_arrow_schema *);
    void *private_data;
} mv_arrow_schema;

typedef struct mv_arrow_array {
    int64_t length, null_count, offset; /* null_count -1: not counted; offset in elements, for every buffer */
    int64_t n_buffers, n_children;
    const void **buffers;
    struct mv_arrow_array **children;
    struct mv_arrow_array *dictionary;
    /* of the base structure only: it releases the children that were not moved */
    void (*release)(struct mv_arrow_array *);
    void *private_data;
} mv_arrow_array;

typedef struct mv_arrow_stream {
    int (*get_schema)(struct mv_arrow_stream *, mv_arrow_schema *out); /* 0 or an errno */
    int (*get_next)(struct mv_arrow_stream *, mv_arrow_array *out);    /* a released array ends the stream */
    const char *(*get_last_error)(struct mv_arrow_stream *);
    void (*release)(struct mv_arrow_stream *);
    void *private_data;
} mv_arrow_stream;

typedef struct mv_arrow_device_array {
    mv_arrow_array array;
    int64_t device_id;
    int32_t device_type;
    void *sync_event;
    int64_t reserved[3];
} mv_arrow_device_array;

typedef struct mv_arrow_device_stream {
    int32_t device_type;
    int (*get_schema)(struct mv_arrow_device_stream *, mv_arrow_schema *out);
    int (*get_next)(struct mv_arrow_device_stream *, mv_arrow_device_array *out);
    const char *(*get_last_error)(struct mv_arrow_device_stream *);
    void (*release)(struct mv_arrow_device_stream *);
    void *private_data;
} mv_arrow_device_stream;

MV_STATIC_ASSERT(sizeof(mv_arrow_schema) == 72, "ArrowSchema");
MV_STATIC_ASSERT(sizeof(mv_arrow_array) == 80, "ArrowArray");
MV_STATIC_ASSERT(sizeof(mv_arrow_stream) == 40, "ArrowArrayStream");
MV_STATIC_ASSERT(sizeof(mv_arrow_device_array) == 128, "ArrowDeviceArray");
MV_STATIC_ASSERT(offsetof(mv_arrow_device_array, sync_event) == 96, "ArrowDeviceArray.sync_event");
MV_STATIC_ASSERT(sizeof(mv_arrow_device_stream) == 48, "ArrowDeviceArrayStream");

#endif
