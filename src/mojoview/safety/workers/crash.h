/* What a worker process leaves behind when a kernel kills it: signal, address, native stack. Written by the signal handler
 * of the dying process into memory that its parent maps too; read in Python (`autopsy.py`), which knows these offsets. */
#ifndef MOJOVIEW_CRASH_H
#define MOJOVIEW_CRASH_H

#include <stdint.h>

#define MV_CRASH_FRAMES 40
#define MV_CRASH_MODULE 256
#define MV_CRASH_NAME 120

typedef struct mv_crash_frame {
    uint64_t pc, base, symbol; /* the addresses of the code, of its module, and of the symbol before it (or 0) */
    char module[MV_CRASH_MODULE], name[MV_CRASH_NAME];
} mv_crash_frame;

typedef struct mv_crash {
    uint64_t begun;   /* calls that the worker has begun */
    uint64_t refused; /* bytes of the last allocation that the system refused, or 0 */
    uint64_t arena;   /* where it has mapped the arrays of its calls */
    uint32_t state;   /* 0: alive; 1: the fault is known; 2: the stack is known too */
    int32_t signal, code, access; /* access: 0 unknown, 1 read, 2 write */
    uint64_t address, pc;
    uint32_t frames, unused;
    mv_crash_frame frame[MV_CRASH_FRAMES];
} mv_crash;

_Static_assert(sizeof(mv_crash_frame) == 400 && sizeof(mv_crash) == 64 + 400 * MV_CRASH_FRAMES, "autopsy.py counts on it");

/* Set by mv_crash_watch(); NULL in every process that is no worker. */
extern mv_crash *mv_crash_record;

/* Maps the file and installs the handlers; 0 or -errno. For the life of the process. */
int mv_crash_watch(int fd);

#endif
