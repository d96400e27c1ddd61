/* crc32c_fold.h: CRC-32C by carry-less multiplication, 256 bytes per step, for processors with AVX-512 and VPCLMULQDQ.

   A checksum is the message, read as a polynomial over GF(2), modulo P. A block that lies d bits before another may be
   replaced by its product with x^d mod P added to the other (Intel, "Fast CRC Computation for Generic Polynomials Using
   PCLMULQDQ", 2009). Sixteen lanes of 128 bits run in parallel; the last 64 bytes go through the crc32 instruction.
   About four times the rate of three streams of that instruction: a copy with its checksum costs little more than the
   copy.

   Included by crc32c.h, x86-64 only. */
#ifndef MOJOVIEW_CRC32C_FOLD_H
#define MOJOVIEW_CRC32C_FOLD_H

#include <immintrin.h>

enum {
    MV_CRC_FOLD = 256,
    MV_CRC_FOLD_FROM = 1024
}; /* bytes per step; bytes from which lining up and the last 64 pay */

#define MV_CRC_FOLD_TARGET __attribute__((target("avx512f,vpclmulqdq")))

static int mv_crc_folds; /* whether this processor can; decided once */
/* x^(d + 32) and x^(d - 32) mod P: for a lane's low and high half */
static uint64_t mv_crc_by_2048[2], mv_crc_by_512[2];

/* x^n mod P, bits reversed, at the place where the product of two reversed factors needs it. */
static uint64_t mv_crc_power(int n) {
    uint32_t v = 0x80000000u;
    for (; n; n--)
        v = v >> 1 ^ (v & 1 ? 0x82f63b78u : 0);
    return (uint64_t)v << 1;
}

static void mv_crc_fold_init(void) {
    mv_crc_by_2048[0] = mv_crc_power(2048 + 32), mv_crc_by_2048[1] = mv_crc_power(2048 - 32);
    mv_crc_by_512[0] = mv_crc_power(512 + 32), mv_crc_by_512[1] = mv_crc_power(512 - 32);
    mv_crc_folds =
        __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("vpclmulqdq");
}

MV_CRC_FOLD_TARGET static inline __m512i mv_crc_lanes(const uint64_t constant[2]) {
    return _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(const void *)constant));
}
/* three-way exclusive or */
MV_CRC_FOLD_TARGET static inline __m512i mv_crc_onto(__m512i lanes, __m512i by, __m512i next) {
    return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(lanes, by, 0x00),
                                     _mm512_clmulepi64_epi128(lanes, by, 0x11), next, 0x96);
}
MV_CRC_FOLD_TARGET static inline __m512i mv_crc_fetch(uint8_t *dst, const uint8_t *src, size_t at) {
    __m512i lanes = _mm512_loadu_si512(src + at);
    if (dst)
        _mm512_storeu_si512(dst + at, lanes);
    return lanes;
}

/* `n` is a positive multiple of MV_CRC_FOLD; `last` receives 64 bytes whose checksum, begun with 0, is that of all.
 * Copies to `dst` if it is not NULL; a multiple of 64 there spares stores across lines. */
MV_CRC_FOLD_TARGET static void mv_crc_fold(uint32_t crc, uint8_t *dst, const uint8_t *src, size_t n, uint64_t last[8]) {
    __m512i by = mv_crc_lanes(mv_crc_by_2048);
    __m512i a = _mm512_xor_si512(mv_crc_fetch(dst, src, 0), _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)crc)));
    __m512i b = mv_crc_fetch(dst, src, 64), c = mv_crc_fetch(dst, src, 128), d = mv_crc_fetch(dst, src, 192);
    for (size_t i = MV_CRC_FOLD; i < n; i += MV_CRC_FOLD) {
        a = mv_crc_onto(a, by, mv_crc_fetch(dst, src, i));
        b = mv_crc_onto(b, by, mv_crc_fetch(dst, src, i + 64));
        c = mv_crc_onto(c, by, mv_crc_fetch(dst, src, i + 128));
        d = mv_crc_onto(d, by, mv_crc_fetch(dst, src, i + 192));
    }
    by = mv_crc_lanes(mv_crc_by_512);
    _mm512_storeu_si512(last, mv_crc_onto(mv_crc_onto(mv_crc_onto(a, by, b), by, c), by, d));
}

#endif
