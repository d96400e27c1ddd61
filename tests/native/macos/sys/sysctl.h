/* What platform.h uses of macOS's <sys/sysctl.h> and <fcntl.h>, with their names and types: for a look by a compiler elsewhere. */
#ifndef STAND_IN_SYSCTL_H
#define STAND_IN_SYSCTL_H

#include <stddef.h>
#include <sys/time.h>
#include <sys/types.h>

enum {
    CTL_KERN = 1,
    KERN_PROC = 14,
    KERN_PROC_PID = 1,
    SZOMB = 5,
    F_PREALLOCATE = 42,
    F_ALLOCATEALL = 4,
    F_PEOFPOSMODE = 3
};

typedef struct fstore {
    unsigned int fst_flags;
    int fst_posmode;
    off_t fst_offset, fst_length, fst_bytesalloc;
} fstore_t;

struct extern_proc {
    struct timeval p_starttime;
    char p_stat;
};
struct kinfo_proc {
    struct extern_proc kp_proc;
};

int sysctl(int *name, unsigned int count, void *old, size_t *old_bytes, void *fresh, size_t fresh_bytes);
int sysctlbyname(const char *name, void *old, size_t *old_bytes, void *fresh, size_t fresh_bytes);

#endif
