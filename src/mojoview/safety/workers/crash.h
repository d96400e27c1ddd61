/* The record that a worker process leaves when a kernel kills it: signal, address and native stack. The signal
 * handler of the dying process writes it into memory that the parent maps too; `Channel.crash_record()` decodes it. */
#ifndef MOJOVIEW_CRASH_H
#define MOJOVIEW_CRASH_H

#include <stdint.h>

enum { MV_CRASH_FRAMES = 40, MV_CRASH_MODULE = 256, MV_CRASH_NAME = 120 };
#define MV_ALLOC_CHECK UINT64_C(0x9e3779b97f4a7c15)          /* as in malloc_shim.c, which includes nothing of ours */
enum { MV_CRASH_NONE = 0, MV_CRASH_SIGNAL, MV_CRASH_STACK }; /* recorded: nothing, the signal, the stack as well */
enum { MV_ACCESS_UNKNOWN = 0, MV_ACCESS_READ, MV_ACCESS_WRITE };

typedef struct mv_crash_frame {
    uint64_t pc, base, symbol; /* addresses of the code, of its module, and of the symbol before it (or 0) */
    char module[MV_CRASH_MODULE], name[MV_CRASH_NAME];
} mv_crash_frame;

typedef struct mv_crash {
    uint64_t calls_started;   /* by the worker, since it started */
    uint64_t failed_alloc[2]; /* bytes of the last allocation that failed, and the same XOR MV_ALLOC_CHECK, by which
                                 a stray write of the kernel does not pass for one */
    uint64_t arena;           /* address at which the worker maps the arrays of its calls */
    uint32_t state;
    int32_t signal, code, access;
    uint64_t address, pc;
    uint32_t frames, unused;
    mv_crash_frame frame[MV_CRASH_FRAMES];
} mv_crash;

/* Map the file as the process's record and install the handlers, for the life of the process. 0 or -errno. */
int mv_crash_install(int fd);

#endif
