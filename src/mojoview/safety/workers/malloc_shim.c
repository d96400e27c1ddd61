/* Record allocations that fail, so that a crash caused by one can be distinguished from other crashes.
 *
 * A separate library that only worker processes preload. Its functions forward to glibc's and store the size of a
 * failed allocation in mv_failed_alloc[2], which crash.c sets. */
#undef _FILE_OFFSET_BITS /* mmap and mmap64 are distinct functions here */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#ifdef __GLIBC__
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MV_PRELOADED __attribute__((visibility("default")))

MV_PRELOADED volatile uint64_t *mv_failed_alloc;

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

static void note(size_t bytes) {
    if (mv_failed_alloc) {
        mv_failed_alloc[0] = bytes;
        mv_failed_alloc[1] = bytes ^ UINT64_C(0x9e3779b97f4a7c15); /* MV_ALLOC_CHECK */
    }
}

static void *record_failure(void *p, size_t bytes) {
    if (!p && bytes)
        note(bytes);
    return p;
}

MV_PRELOADED void *malloc(size_t bytes) { return record_failure(__libc_malloc(bytes), bytes); }

MV_PRELOADED void *calloc(size_t count, size_t bytes) {
    size_t all;
    return record_failure(__libc_calloc(count, bytes), __builtin_mul_overflow(count, bytes, &all) ? SIZE_MAX : all);
}

MV_PRELOADED void *realloc(void *p, size_t bytes) { return record_failure(__libc_realloc(p, bytes), bytes); }

MV_PRELOADED void *memalign(size_t alignment, size_t bytes) {
    return record_failure(__libc_memalign(alignment, bytes), bytes);
}

MV_PRELOADED void *aligned_alloc(size_t alignment, size_t bytes) { return memalign(alignment, bytes); }

MV_PRELOADED int posix_memalign(void **out, size_t alignment, size_t bytes) {
    if (alignment % sizeof(void *) || alignment == 0 || alignment & (alignment - 1))
        return EINVAL;
    void *p = memalign(alignment, bytes);
    if (!p)
        return ENOMEM;
    *out = p;
    return 0;
}

static void *map(void *address, size_t bytes, int protection, int flags, int fd, int64_t offset) {
    void *p = (void *)syscall(SYS_mmap, address, bytes, protection, flags, fd, offset);
    if (p == MAP_FAILED && errno == ENOMEM)
        note(bytes);
    return p;
}

MV_PRELOADED void *mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset) {
    return map(address, bytes, protection, flags, fd, offset);
}

MV_PRELOADED void *mmap64(void *address, size_t bytes, int protection, int flags, int fd, int64_t offset) {
    return map(address, bytes, protection, flags, fd, offset);
}
#endif
