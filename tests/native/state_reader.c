/* A program without Python that reads a named State: state_reader PATH LAST. Every 8-byte word of a record is its
 * number.
 *
 * The comments say what a reader must do; docs/sharing.md shows this file. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "sharing/state/latch.h"
#include "sharing/segment/platform.h"

int main(int argc, char **argv) {
    uint64_t record[512], last = 0, number = 0, time_ns, retries = 0, reads = 0, k;
    mv_segment header; /* a copy that no peer can change between check and use */
    mv_latch_ref latch;
    int64_t size;
    void *base;
    /* a regular file of this user that not everyone may write to */
    int fd = argc == 3 ? mv_os_open_plain(argv[1], geteuid()) : -EINVAL;
    if (fd < 0)
        return 2;
    size = mv_os_size(fd);
    if (pread(fd, &header, sizeof header, 0) != sizeof header ||
        mv_segment_check(&header, sizeof header, (uint64_t)size) != MV_SEGMENT_OK)
        return 3;
    base = mmap(NULL, header.segment_bytes, PROT_READ, MAP_SHARED, fd, 0); /* a reader needs no write access */
    if (base == MAP_FAILED || mv_latch_of_segment(base, header.segment_bytes, &latch) != 0)
        return 4;
    puts("ready");
    fflush(stdout);
    while (last < strtoull(argv[2], NULL, 10)) {
        if (mv_latch_read(&latch, record, &number, &time_ns, &retries) != MV_LATCH_READ) {
            sched_yield(); /* nothing yet, or lapped by the writer */
            continue;
        }
        for (k = 0; k < latch.bytes / 8; k++)
            if (record[k] != number)
                return 5;
        if (number < last)
            return 6;
        last = number;
        reads++;
    }
    printf("%llu\n", (unsigned long long)reads);
    return 0;
}
