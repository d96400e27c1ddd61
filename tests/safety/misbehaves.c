/* Kernels that leave their process in a bad state, for test_misbehaviour.py. */
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

double count(size_t n, const double *x) { return (void)x, (double)n; }

double forks_and_crashes(size_t n, const double *x) { /* the child keeps every descriptor open */
    (void)n, (void)x;
    if (fork() == 0) {
        sleep(60);
        _exit(0);
    }
    raise(SIGSEGV);
    return 0;
}

double writes_to_descriptors(size_t n, const double *x) {
    (void)x;
    for (int fd = 3; fd < 64; fd++)
        if (write(fd, "strays", 6) < 0)
            continue;
    return (double)n;
}

double closes_descriptors(size_t n, const double *x) {
    (void)x;
    for (int fd = 3; fd < 64; fd++)
        close(fd);
    return (double)n;
}

double limits_descriptors(size_t n, const double *x) {
    struct rlimit none = {0, 0};
    (void)x;
    return setrlimit(RLIMIT_NOFILE, &none) ? -1 : (double)n;
}

double unmaps_its_array(size_t n, const double *x) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    return munmap((void *)((uintptr_t)x & ~(page - 1)), page) ? -1 : (double)n;
}

double overwrites_and_crashes(size_t n, const double *x) { /* everything shared that is mapped writable, near or far */
    volatile double *near = (volatile double *)x;
    (void)n;
    for (ptrdiff_t i = 0; i < (1 << 22); i++)
        near[i] = 7.0;
    return 0;
}
