/* Kernels that do what a kernel must not. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "abi.h"

#define E_VALUE 64
#define E_MEMORY 12

static double *at(const mv_desc *d) { return (double *)d->data; }

int32_t doubled(const mv_desc *x, const mv_desc *y) {
    for (int64_t i = 0; i < x->size; i++)
        at(y)[i * y->stride[0]] = 2 * at(x)[i * x->stride[0]];
    return 0;
}

int32_t spin(const mv_desc *y) {
    at(y)[0] = -1;
    for (volatile int64_t k = 0;; k++)
        ;
}

int32_t naps(const mv_desc *y, int64_t milliseconds) {
    usleep((useconds_t)milliseconds * 1000);
    at(y)[0] += 1;
    return 0;
}

int32_t waits(const mv_desc *y) { /* marks its start in y[1], and ends once the test sets y[0] */
    volatile double *gate = at(y);
    gate[1] = 1;
    for (int k = 0; k < 120000 && gate[0] == 0; k++)
        usleep(500);
    return gate[0] == 0 ? E_VALUE : 0;
}

int32_t aborts(const mv_desc *y) {
    at(y)[0] = -1;
    puts("ABORT: kernel.mojo:7:5: no such luck");
    fflush(stdout);
    abort();
}

static __attribute__((noinline)) double inner(const double *p) { return p[3]; }

double null_read(const mv_desc *x) { return inner(at(x) - (uintptr_t)at(x) / 8) + 1; }

int32_t calls_null(const mv_desc *y) {
    int32_t (*volatile nothing)(void) = 0;
    at(y)[0] = -1;
    return nothing();
}

static __attribute__((noinline)) int64_t deeper(int64_t n) {
    volatile char frame[4096];
    frame[n % 4096] = (char)n;
    return n < 0 ? 0 : deeper(n + 1) + frame[0];
}

int64_t overflows_stack(int64_t n) { return deeper(n); }

int32_t exits(int64_t status) { _exit((int)status); }

int32_t writes_at(const mv_desc *x, const mv_desc *y, int64_t index) {
    at(y)[0] = at(x)[0];
    at(y)[index] = 7;
    return 0;
}

double reads_at(const mv_desc *x, int64_t index) { return at(x)[index]; }

int32_t writes_input(const mv_desc *x, const mv_desc *y) {
    at(y)[0] = 5;
    at(x)[1] = 7;
    return 0;
}

int32_t fails_midway(const mv_desc *y) {
    at(y)[0] = -1;
    return E_VALUE;
}

int32_t hoards(const mv_desc *y, int64_t bytes) { /* does not check malloc */
    char *p = malloc((size_t)bytes);
    at(y)[0] = -1;
    memset(p, 1, (size_t)bytes);
    at(y)[0] = p[bytes / 2];
    free(p);
    return 0;
}

int32_t gobbles(const mv_desc *y) { /* allocates without end */
    at(y)[0] = -1;
    for (;;)
        memset(malloc(1 << 20), 1, 1 << 20);
}

int32_t asks(const mv_desc *y, int64_t bytes) { /* checks malloc */
    void *p = malloc((size_t)bytes);
    at(y)[0] = -1;
    if (!p)
        return E_MEMORY;
    free(p);
    return 0;
}

int32_t divides(const mv_desc *y, double by) {
    for (int64_t i = 0; i < y->size; i++)
        at(y)[i] /= by;
    return 0;
}

int64_t process(int64_t unused) { return getpid(); }

int32_t talks(const mv_desc *y) {
    at(y)[0] = 1;
    puts("a word from the kernel");
    fflush(stdout);
    return 0;
}
