/* The signal handler of a worker process (crash.h). It uses what glibc allows in handlers, and little more: backtrace() and
 * dladdr() may meet a lock that the fault itself holds, so an alarm ends the process whatever happens. */
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

mv_crash *mv_crash_record;
static char alternate[1 << 16]; /* a stack that has overflowed cannot run the handler */

static void *caller;

static void where(mv_crash *c, const void *context) {
    const ucontext_t *u = context;
#if defined(__x86_64__) && defined(__linux__)
    c->pc = (uint64_t)u->uc_mcontext.gregs[REG_RIP];
    if (c->pc == c->address && c->code > 0) /* a jump to nowhere: the stack tells from where */
        caller = *(void **)u->uc_mcontext.gregs[REG_RSP];
    if (u->uc_mcontext.gregs[REG_TRAPNO] == 14) /* a page fault says which way */
        c->access = u->uc_mcontext.gregs[REG_ERR] & 2 ? 2 : 1;
#elif defined(__aarch64__) && defined(__linux__)
    c->pc = u->uc_mcontext.pc;
    if (c->pc == c->address && c->code > 0)
        caller = (void *)u->uc_mcontext.regs[30];
#else
    (void)u;
#endif
}

static void stack(mv_crash *c) {
#ifdef MV_HAS_BACKTRACE
    void *pcs[MV_CRASH_FRAMES];
    int n = backtrace(pcs, MV_CRASH_FRAMES);
    if (caller && n < MV_CRASH_FRAMES)
        pcs[n++] = caller; /* backtrace() cannot pass such a frame */
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
    c->state = 2;
}

static void on_fault(int number, siginfo_t *info, void *context) {
    mv_crash *c = mv_crash_record;
    if (c->state == 0) {
        alarm(2);
        c->signal = number;
        c->code = info->si_code;
        c->address = (uint64_t)(uintptr_t)info->si_addr;
        if (info->si_code <= 0) /* sent by somebody: there is no address */
            c->address = 0;
        where(c, context);
        c->state = 1;
        stack(c);
    }
    raise(number); /* SA_RESETHAND: now it ends the process */
}

int mv_crash_watch(int fd) {
    static const int deadly[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS};
    struct sigaction action;
    stack_t own = {.ss_sp = alternate, .ss_size = sizeof alternate};
    void *at = mmap(NULL, sizeof(mv_crash), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        return -errno;
    mv_crash_record = at;
#ifdef MV_HAS_BACKTRACE
    void *first[1];
    backtrace(first, 1); /* loads what it needs now: in the handler it must not allocate */
#endif
    volatile uint64_t **refused = dlsym(RTLD_DEFAULT, "mv_refused_at"); /* there if malloc_shim.c was preloaded */
    if (refused)
        *refused = &mv_crash_record->refused;
    if (sigaltstack(&own, NULL) < 0)
        return -errno;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESETHAND | SA_NODEFER;
    for (unsigned k = 0; k < sizeof deadly / sizeof *deadly; k++)
        if (sigaction(deadly[k], &action, NULL) < 0)
            return -errno;
    return 0;
}
