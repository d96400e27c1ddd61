/* Calls of C-ABI functions whose parameters are known only at run time.
 *
 * The System V x86-64 and the AAPCS64 conventions hand out integer registers and floating-point registers
 * independently of each other, so one prototype with all of both serves every mix of arguments: registers that the
 * callee does not expect hold values that it ignores. What does not fit goes to the stack in argument order, one
 * eight-byte slot each. A float32 is passed in the low half of its register or slot; narrower integers are passed
 * sign- or zero-extended, which is more than either convention requires. Apple's arm64 packs stack arguments and
 * Windows counts registers by position: the callers refuse those platforms.
 *
 * Calling through a prototype that is not the callee's is undefined in C and defined by these two conventions. */
#ifndef MOJOVIEW_REGISTERS_H
#define MOJOVIEW_REGISTERS_H

#include <stdint.h>
#include <string.h>

#include "../../memory/abi.h"

#if defined(__x86_64__) && !defined(_WIN32)
#define MV_INT_REGISTERS 6
#elif defined(__aarch64__) && !defined(__APPLE__) && !defined(_WIN32)
#define MV_INT_REGISTERS 8
#else
#define MV_INT_REGISTERS 0 /* not supported */
#endif
#define MV_FLOAT_REGISTERS 8
#define MV_STACK_SLOTS 8

enum { MV_RETURN_NOTHING, MV_RETURN_INT, MV_RETURN_F64, MV_RETURN_F32 };

typedef struct mv_registers {
    int64_t i[8];
    double f[MV_FLOAT_REGISTERS];
    int64_t stack[MV_STACK_SLOTS];
    int ints, floats, slots;
} mv_registers;

static inline int mv_push_int(mv_registers *r, int64_t v) {
    if (r->ints < MV_INT_REGISTERS)
        r->i[r->ints++] = v;
    else if (r->slots < MV_STACK_SLOTS)
        r->stack[r->slots++] = v;
    else
        return -1;
    return 0;
}

static inline int mv_push_f64(mv_registers *r, double v) {
    if (r->floats < MV_FLOAT_REGISTERS)
        r->f[r->floats++] = v;
    else if (r->slots < MV_STACK_SLOTS)
        memcpy(&r->stack[r->slots++], &v, sizeof v);
    else
        return -1;
    return 0;
}

static inline int mv_push_f32(mv_registers *r, float v) {
    double carrier = 0;
    memcpy(&carrier, &v, sizeof v); /* both architectures are little-endian here: the low half */
    return mv_push_f64(r, carrier);
}

#define MV_I int64_t
#define MV_D double
#if MV_INT_REGISTERS == 8
#define MV_INT_TYPES MV_I, MV_I, MV_I, MV_I, MV_I, MV_I, MV_I, MV_I
#define MV_INTS(r) (r)->i[0], (r)->i[1], (r)->i[2], (r)->i[3], (r)->i[4], (r)->i[5], (r)->i[6], (r)->i[7]
#else
#define MV_INT_TYPES MV_I, MV_I, MV_I, MV_I, MV_I, MV_I
#define MV_INTS(r) (r)->i[0], (r)->i[1], (r)->i[2], (r)->i[3], (r)->i[4], (r)->i[5]
#endif
#define MV_FLOAT_TYPES MV_D, MV_D, MV_D, MV_D, MV_D, MV_D, MV_D, MV_D
#define MV_FLOATS(r) (r)->f[0], (r)->f[1], (r)->f[2], (r)->f[3], (r)->f[4], (r)->f[5], (r)->f[6], (r)->f[7]
#define MV_STACK(r)                                                                                                    \
    (r)->stack[0], (r)->stack[1], (r)->stack[2], (r)->stack[3], (r)->stack[4], (r)->stack[5], (r)->stack[6],           \
        (r)->stack[7]

/* Only as much as is needed is loaded: most kernels take a few pointers. */
#define MV_INVOKE(R, at, r)                                                                                            \
    ((r)->slots        ? ((R (*)(MV_INT_TYPES, MV_FLOAT_TYPES, MV_I, MV_I, MV_I, MV_I, MV_I, MV_I, MV_I, MV_I))(at))(  \
                             MV_INTS(r), MV_FLOATS(r), MV_STACK(r))                                                    \
     : (r)->floats > 2 ? ((R (*)(MV_INT_TYPES, MV_FLOAT_TYPES))(at))(MV_INTS(r), MV_FLOATS(r))                         \
     : (r)->floats     ? ((R (*)(MV_INT_TYPES, MV_D, MV_D))(at))(MV_INTS(r), (r)->f[0], (r)->f[1])                     \
     : (r)->ints > 2   ? ((R (*)(MV_INT_TYPES))(at))(MV_INTS(r))                                                       \
                       : ((R (*)(MV_I, MV_I))(at))((r)->i[0], (r)->i[1]))

static inline mv_value mv_call_registers(uintptr_t address, const mv_registers *r, int returns) {
    mv_value result = {0};
    switch (returns) {
    case MV_RETURN_F64: result.f64 = MV_INVOKE(double, address, r); break;
    case MV_RETURN_F32: result.f64 = (double)MV_INVOKE(float, address, r); break;
    case MV_RETURN_INT: result.i64 = MV_INVOKE(int64_t, address, r); break;
    default: MV_INVOKE(void, address, r); break;
    }
    return result;
}

#endif
