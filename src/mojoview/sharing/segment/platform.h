/* System calls used by segments: files in memory, locks that the operating system owns, process identity.
 *
 * Linux is the main branch. The portable branch (macOS; -DMV_OS_PORTABLE builds it on Linux for the tests) replaces a
 * memfd by an unlinked file and has no open-file-description locks: there a process is identified by pid and start time
 * alone. Functions return -errno on failure. */
#ifndef MOJOVIEW_PLATFORM_H
#define MOJOVIEW_PLATFORM_H

#include "../../memory/futex.h" /* first: it enables the system's extensions */

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>

#ifdef __APPLE__
#include <sys/sysctl.h>
#include <sys/types.h>
#endif

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

/* -- files
 * ------------------------------------------------------------------------------------------------------------- */

/* Open a temporary file that has no name any more. */
static inline int mv_os_temporary(const char *directory, int mode) {
    char path[4096];
    int fd;
    if (snprintf(path, sizeof path, "%s/.mojoview-XXXXXX", directory) >= (int)sizeof path)
        return -ENAMETOOLONG;
    fd = mkstemp(path);
    if (fd < 0)
        return -errno;
    if (unlink(path) < 0 || fchmod(fd, (mode_t)mode) < 0 || fcntl(fd, F_SETFD, FD_CLOEXEC) < 0) {
        int error = errno;
        close(fd);
        return -error;
    }
    return fd;
}

/* Allocate memory that other processes reach only through this descriptor. */
static inline int mv_os_anonymous(const char *label, const char *directory) {
#if MV_OS_LINUX
    int fd = memfd_create(label, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    (void)directory;
    if (fd < 0)
        return -errno;
    (void)fchmod(fd, 0600); /* the default is 0777, and /proc makes it reachable */
    return fd;
#else
    (void)label;
    return mv_os_temporary(directory, 0600);
#endif
}

/* Create a file without a name: a process that dies before mv_os_link() leaves nothing behind. `path` is its future
 * name; `hidden` receives a provisional one if the file system cannot hold nameless files, else "". */
static inline int mv_os_nameless(const char *directory, const char *path, int mode, char *hidden, size_t hidden_bytes) {
    int fd, attempt;
    hidden[0] = 0;
    (void)directory;
#if MV_OS_LINUX
    fd = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, mode);
    if (fd >= 0) {
        (void)fchmod(fd, (mode_t)mode); /* not reduced by the umask */
        return fd;
    }
    if (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT)
        return -errno;
#endif
    for (attempt = 0; attempt < 100; attempt++) { /* not supported here: mv_os_link() replaces the hidden name */
        if (snprintf(hidden, hidden_bytes, "%s.%ld.%llx", path, (long)getpid(),
                     (unsigned long long)mv_monotonic_ns()) >= (int)hidden_bytes)
            return -ENAMETOOLONG;
        fd = open(hidden, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
        if (fd >= 0) {
            (void)fchmod(fd, (mode_t)mode);
            return fd;
        }
        if (errno != EEXIST)
            break;
    }
    hidden[0] = 0;
    return -errno;
}

/* Give the file its name; -EEXIST if the name is taken. */
static inline int mv_os_link(int fd, const char *path, const char *hidden) {
    char self[64];
    if (hidden[0]) {
        int rc = link(hidden, path) < 0 ? -errno : 0;
        (void)unlink(hidden);
        return rc;
    }
    snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
    return linkat(AT_FDCWD, self, AT_FDCWD, path, AT_SYMLINK_FOLLOW) < 0 ? -errno : 0;
}

/* Open for reading a regular file that user `uid` owns and not everyone may write to; -EPERM for anything else. Links
 * are not followed. */
static inline int mv_os_open_plain(const char *path, int64_t uid) {
    struct stat status;
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && (int64_t)status.st_uid == uid &&
        !(status.st_mode & S_IWOTH))
        return fd;
    close(fd);
    return -EPERM;
}

static inline int64_t mv_os_size(int fd) {
    struct stat status;
    return fstat(fd, &status) < 0 ? -errno : (int64_t)status.st_size;
}

/* Open another description of the same file: locks of one description never conflict with each other. */
static inline int mv_os_reopen(int fd, int writable) {
#if MV_OS_LINUX
    char self[64];
    int own;
    snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
    own = open(self, (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC);
#else
    int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    (void)writable;
#endif
    return own < 0 ? -errno : own;
}

/* Allocate the blocks, so that a full disk is an error here and not a bus error later. A signal undoes the step that it
 * interrupts, hence small steps: after -EINTR the caller handles its signals and calls again. */
static inline int mv_os_allocate(int fd, int64_t *done, int64_t end) {
    const int64_t step = INT64_C(64) << 20;
    while (*done < end) {
        int64_t n = end - *done < step ? end - *done : step;
#ifdef __APPLE__
        fstore_t store = {F_ALLOCATEALL, F_PEOFPOSMODE, 0, n, 0};
        int rc = fcntl(fd, F_PREALLOCATE, &store) < 0 ? errno : 0;
#else
        int rc = posix_fallocate(fd, *done, n);
#endif
        if (rc)
            return -rc;
        *done += n;
    }
    return 0;
}

/* Make the size final, and the contents: FUTURE = writable only through existing mappings, NOW = through none. */
enum { MV_SEAL_SIZE = 0, MV_SEAL_FUTURE = 1, MV_SEAL_NOW = 2 };
static inline int mv_os_seal(int fd, int contents) {
#if MV_OS_LINUX
    int seals = F_SEAL_SHRINK | F_SEAL_GROW;
    if (contents == MV_SEAL_FUTURE)
        seals |= F_SEAL_FUTURE_WRITE;
    if (contents == MV_SEAL_NOW)
        seals |= F_SEAL_WRITE;
    return fcntl(fd, F_ADD_SEALS, seals) < 0 ? -errno : 0;
#else
    (void)fd, (void)contents;
    return 0;
#endif
}

/* Whether the size can never shrink: 0 for a file that has no seals. Without seals in the system: 1. */
static inline int mv_os_size_is_sealed(int fd) {
#if MV_OS_LINUX
    int seals = fcntl(fd, F_GET_SEALS);
    return seals >= 0 && (seals & F_SEAL_SHRINK) != 0;
#else
    (void)fd;
    return 1;
#endif
}

/* Populate the pages now instead of one fault at a time; best effort. */
static inline void mv_os_prefault(void *address, size_t bytes) {
#if MV_OS_LINUX
    (void)madvise(address, bytes, MADV_POPULATE_WRITE);
#else
    (void)address, (void)bytes;
#endif
}

/* -- locks of the operating system
 * ------------------------------------------------------------------------------------------------- */

/* Usable only if mv_os_reopen() opens another description: a duplicate shares the locks of its source, and a query by
 * the holder would report "free". macOS has such locks, but no way to reopen an unlinked file. */
#define MV_OS_LOCKS MV_OS_LINUX

/* Lock a byte: 1 = granted, 0 = another description holds it. Held as long as any descriptor or mapping of this
 * description. */
static inline int mv_os_lock(int fd, int64_t byte, int exclusive) {
#if MV_OS_LOCKS
    struct flock lock;
    memset(&lock, 0, sizeof lock);
    lock.l_type = exclusive ? F_WRLCK : F_RDLCK;
    lock.l_whence = SEEK_SET;
    lock.l_start = byte;
    lock.l_len = 1;
    if (fcntl(fd, F_OFD_SETLK, &lock) == 0)
        return 1;
    return errno == EAGAIN || errno == EACCES ? 0 : -errno;
#else
    (void)fd, (void)byte, (void)exclusive;
    return 1;
#endif
}

static inline int mv_os_unlock(int fd, int64_t byte) {
#if MV_OS_LOCKS
    struct flock lock;
    memset(&lock, 0, sizeof lock);
    lock.l_type = F_UNLCK;
    lock.l_whence = SEEK_SET;
    lock.l_start = byte;
    lock.l_len = 1;
    return fcntl(fd, F_OFD_SETLK, &lock) < 0 ? -errno : 0;
#else
    (void)fd, (void)byte;
    return 0;
#endif
}

/* Query whether another description holds the byte: 1 yes, 0 no, -ENOTSUP without such locks. */
static inline int mv_os_locked(int fd, int64_t byte) {
#if MV_OS_LOCKS
    struct flock lock;
    memset(&lock, 0, sizeof lock);
    lock.l_type = F_WRLCK; /* allowed for a query on a read-only descriptor too */
    lock.l_whence = SEEK_SET;
    lock.l_start = byte;
    lock.l_len = 1;
    if (fcntl(fd, F_OFD_GETLK, &lock) < 0)
        return -errno;
    return lock.l_type != F_UNLCK;
#else
    (void)fd, (void)byte;
    return -ENOTSUP;
#endif
}

/* Open another description of the file behind `any` that holds the lock on `byte`: its descriptor, or -EBUSY. */
static inline int mv_os_claim(int any, int64_t byte) {
    int fd = mv_os_reopen(any, 1), rc;
    if (fd < 0)
        return fd;
    rc = mv_os_lock(fd, byte, 1);
    if (rc == 1)
        return fd;
    close(fd);
    return rc == 0 ? -EBUSY : rc;
}

/* -- process identity
 * ---------------------------------------------------------------------------------------------------- */

/* Start time of a process; -ESRCH if it has exited. A pid alone is not an identity: pids are reused. */
static inline int mv_os_start_time(int64_t pid, uint64_t *start) {
#if MV_OS_LINUX
    char path[64], text[1024], *p;
    ssize_t n;
    int fd, field;
    snprintf(path, sizeof path, "/proc/%lld/stat", (long long)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? -ESRCH : -errno;
    n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n <= 0)
        return -ESRCH;
    text[n] = 0;
    p = strrchr(text, ')'); /* the command may hold spaces and brackets */
    if (!p || p[1] != ' ')
        return -ESRCH;
    p += 2;
    if (*p == 'Z' || *p == 'X')
        return -ESRCH;
    for (field = 3; field < 22; field++) {
        p = strchr(p, ' ');
        if (!p)
            return -ESRCH;
        p++;
    }
    *start = strtoull(p, NULL, 10);
    return 0;
#elif defined(__APPLE__)
    struct kinfo_proc info;
    size_t bytes = sizeof info;
    int query[4] = {CTL_KERN, KERN_PROC, KERN_PROC_PID, (int)pid};
    if (sysctl(query, 4, &info, &bytes, NULL, 0) < 0)
        return -errno;
    if (bytes == 0 || info.kp_proc.p_stat == SZOMB)
        return -ESRCH;
    *start = (uint64_t)info.kp_proc.p_starttime.tv_sec * 1000000u + (uint64_t)info.kp_proc.p_starttime.tv_usec;
    return 0;
#else
    *start = 0;
    return kill((pid_t)pid, 0) == 0 || errno == EPERM ? 0 : -errno;
#endif
}

/* Boot ID; all zeros if unavailable. */
static inline void mv_os_boot_id(uint8_t id[16]) {
    memset(id, 0, 16);
#if MV_OS_LINUX
    {
        char text[64];
        ssize_t n, k;
        int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC), digits = 0;
        if (fd < 0)
            return;
        n = read(fd, text, sizeof text);
        close(fd);
        for (k = 0; k < n && digits < 32; k++) {
            int c = text[k], value = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
            if (value < 0)
                continue;
            id[digits / 2] = (uint8_t)(id[digits / 2] << 4 | value);
            digits++;
        }
    }
#elif defined(__APPLE__)
    struct timeval boot;
    size_t bytes = sizeof boot;
    if (sysctlbyname("kern.boottime", &boot, &bytes, NULL, 0) == 0)
        memcpy(id, &boot.tv_sec, sizeof boot.tv_sec);
#endif
}

#endif
