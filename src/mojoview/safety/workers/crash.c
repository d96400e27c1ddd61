/* The signal handler of a worker process (crash.h). backtrace() and dladdr() are not async-signal-safe and may wait
 * for a lock that the faulting code holds, so an alarm ends the process if they do not return. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "crash.h"

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>
#if defined(__has_include)
#if __has_include(<execinfo.h>)
#include <execinfo.h>
#define MV_HAS_BACKTRACE 1
#endif
#endif

static mv_crash *crash_record;
static char alternate_stack[1 << 16]; /* after a stack overflow the handler has no other */
static void *jump_source;             /* return address of a jump to an invalid address */

static void record_registers(mv_crash *c, const void *context) {
    const ucontext_t *u = context;
#if defined(__x86_64__) && defined(__linux__)
    c->pc = (uint64_t)u->uc_mcontext.gregs[REG_RIP];
    if (c->pc == c->address && c->code > 0) /* a jump to an invalid address: the call has pushed where it came from */
        jump_source = *(void **)u->uc_mcontext.gregs[REG_RSP];
    if (u->uc_mcontext.gregs[REG_TRAPNO] == 14) /* page fault: bit 1 of the error code is set for a write */
        c->access = u->uc_mcontext.gregs[REG_ERR] & 2 ? MV_ACCESS_WRITE : MV_ACCESS_READ;
#elif defined(__aarch64__) && defined(__linux__)
    c->pc = u->uc_mcontext.pc;
    if (c->pc == c->address && c->code > 0)
        jump_source = (void *)u->uc_mcontext.regs[30];
#else
    (void)u;
#endif
}

static void record_stack(mv_crash *c) {
#ifdef MV_HAS_BACKTRACE
    void *pcs[MV_CRASH_FRAMES];
    int n = backtrace(pcs, MV_CRASH_FRAMES);
    if (jump_source && n < MV_CRASH_FRAMES)
        pcs[n++] = jump_source; /* backtrace() cannot unwind through the invalid address */
    for (int k = 0; k < n; k++) {
        mv_crash_frame *f = &c->frame[k];
        Dl_info info;
        f->pc = (uint64_t)(uintptr_t)pcs[k];
        if (!dladdr(pcs[k], &info))
            continue;
        f->base = (uint64_t)(uintptr_t)info.dli_fbase;
        f->symbol = (uint64_t)(uintptr_t)info.dli_saddr;
        if (info.dli_fname)
            strncpy(f->module, info.dli_fname, sizeof f->module - 1);
        if (info.dli_sname)
            strncpy(f->name, info.dli_sname, sizeof f->name - 1);
    }
    c->frames = (uint32_t)n;
#endif
    c->state = MV_CRASH_STACK;
}

static void on_fatal_signal(int number, siginfo_t *info, void *context) {
    mv_crash *c = crash_record;
    if (c->state == MV_CRASH_NONE) {
        alarm(2);
        c->signal = number;
        c->code = info->si_code;
        if (info->si_code > 0) /* otherwise sent by a process: there is no address */
            c->address = (uint64_t)(uintptr_t)info->si_addr;
        record_registers(c, context);
        c->state = MV_CRASH_SIGNAL;
        record_stack(c);
    }
    raise(number); /* SA_RESETHAND: the default action ends the process */
}

int mv_crash_install(int fd) {
    static const int fatal[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS};
    struct sigaction action;
    stack_t stack = {.ss_sp = alternate_stack, .ss_size = sizeof alternate_stack};
    void *at = mmap(NULL, sizeof(mv_crash), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        return -errno;
    crash_record = at;
#ifdef MV_HAS_BACKTRACE
    void *first[1];
    backtrace(first, 1); /* the first call loads libgcc, which allocates: not possible in the handler */
#endif
    volatile uint64_t **failed_alloc = dlsym(RTLD_DEFAULT, "mv_failed_alloc"); /* NULL without malloc_shim.c */
    if (failed_alloc)
        *failed_alloc = crash_record->failed_alloc;
    if (sigaltstack(&stack, NULL) < 0)
        return -errno;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_fatal_signal;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESETHAND | SA_NODEFER;
    for (unsigned k = 0; k < sizeof fatal / sizeof *fatal; k++)
        if (sigaction(fatal[k], &action, NULL) < 0)
            return -errno;
    return 0;
}
