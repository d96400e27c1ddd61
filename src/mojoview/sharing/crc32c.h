/* crc32c.h: CRC-32C (Castagnoli; RFC 3720 appendix B.4) by hardware, with a table fall-back. Long runs are folded if
 * the processor can multiply wide enough (crc32c_fold.h), else they go through the crc32 instruction in three streams.
 * The instruction has a latency of three cycles and a throughput of one, so one stream uses a third of it. Three
 * streams of equal length run side by side; their sums are joined by multiplying with x^(8 len), a linear map kept as
 * four tables of 256 words (method of M. Adler's crc32c.c). Which way is taken is decided at run time, once. */
#ifndef MOJOVIEW_CRC32C_H
#define MOJOVIEW_CRC32C_H

#include "crc32c_step.h"
#if defined(__x86_64__)
#include "crc32c_fold.h"
#endif

enum { MV_CRC_LONG = 8192, MV_CRC_SHORT = 256 }; /* three long streams stay in L1 */

static uint32_t mv_crc_table[8][256]; /* slicing by eight */
static uint32_t mv_crc_long[4][256], mv_crc_short[4][256];
static int mv_crc_hardware;

static inline uint32_t mv_crc_map(const uint32_t table[4][256], uint32_t x) {
    return table[0][x & 255] ^ table[1][x >> 8 & 255] ^ table[2][x >> 16 & 255] ^ table[3][x >> 24];
}

static uint32_t mv_gf2_apply(const uint32_t *matrix, uint32_t vector) {
    uint32_t sum = 0;
    for (; vector; vector >>= 1, matrix++)
        if (vector & 1)
            sum ^= *matrix;
    return sum;
}

static void mv_crc_map_init(uint32_t table[4][256], const uint32_t *matrix) {
    for (int byte = 0; byte < 4; byte++)
        for (uint32_t n = 0; n < 256; n++)
            table[byte][n] = mv_gf2_apply(matrix, n << 8 * byte);
}

/* A constructor, so that no caller can forget it: runs when the library or program is loaded, before any thread. */
__attribute__((constructor)) static void mv_crc32c_init(void) {
    for (uint32_t n = 0; n < 256; n++) {
        uint32_t crc = n;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
        mv_crc_table[0][n] = crc;
    }
    for (uint32_t n = 0; n < 256; n++)
        for (int k = 1; k < 8; k++)
            mv_crc_table[k][n] = mv_crc_table[k - 1][n] >> 8 ^ mv_crc_table[0][mv_crc_table[k - 1][n] & 255];
    uint32_t matrix[32], square[32];
    for (int bit = 0; bit < 32; bit++) /* one byte of zeros */
        matrix[bit] = (1u << bit) >> 8 ^ mv_crc_table[0][(1u << bit) & 255];
    for (int bytes = 2; bytes <= MV_CRC_LONG; bytes *= 2) {
        for (int bit = 0; bit < 32; bit++)
            square[bit] = mv_gf2_apply(matrix, matrix[bit]);
        memcpy(matrix, square, sizeof matrix);
        if (bytes == MV_CRC_SHORT)
            mv_crc_map_init(mv_crc_short, matrix);
    }
    mv_crc_map_init(mv_crc_long, matrix);
    mv_crc_hardware = mv_crc_detect();
#if defined(__x86_64__)
    mv_crc_fold_init();
#endif
}

static inline uint32_t mv_crc_table8(uint32_t crc, uint64_t word) { /* little-endian byte order, as the format is */
    word ^= crc;
    return mv_crc_table[7][word & 255] ^ mv_crc_table[6][word >> 8 & 255] ^ mv_crc_table[5][word >> 16 & 255] ^
           mv_crc_table[4][word >> 24 & 255] ^ mv_crc_table[3][word >> 32 & 255] ^ mv_crc_table[2][word >> 40 & 255] ^
           mv_crc_table[1][word >> 48 & 255] ^ mv_crc_table[0][word >> 56];
}

/* Three streams of `len` bytes each, copied to `dst` on the way if it is not NULL (a constant at every call). */
__attribute__((always_inline)) static inline uint32_t mv_crc_three(uint32_t crc, uint8_t *dst, const uint8_t *src,
                                                                   size_t len, const uint32_t join[4][256]) {
    uint32_t second = 0, third = 0;
    for (size_t i = 0; i < len; i += 8) {
        uint64_t a = mv_load64(src + i), b = mv_load64(src + len + i), c = mv_load64(src + 2 * len + i);
        if (dst) {
            mv_store64(dst + i, a);
            mv_store64(dst + len + i, b);
            mv_store64(dst + 2 * len + i, c);
        }
        crc = mv_crc_step8(crc, a);
        second = mv_crc_step8(second, b);
        third = mv_crc_step8(third, c);
    }
    return mv_crc_map(join, mv_crc_map(join, crc) ^ second) ^ third;
}

/* One stream. */
__attribute__((always_inline)) static inline uint32_t mv_crc_one(uint32_t crc, uint8_t *dst, const uint8_t *src,
                                                                 size_t n) {
    size_t i = 0;
    for (; n - i >= 8; i += 8) {
        uint64_t word = mv_load64(src + i);
        if (dst)
            mv_store64(dst + i, word);
        crc = mv_crc_hardware ? mv_crc_step8(crc, word) : mv_crc_table8(crc, word);
    }
    for (; i < n; i++) {
        uint8_t byte = src[i];
        if (dst)
            dst[i] = byte;
        crc = mv_crc_hardware ? mv_crc_step1(crc, byte) : crc >> 8 ^ mv_crc_table[0][(crc ^ byte) & 255];
    }
    return crc;
}

__attribute__((always_inline)) static inline uint32_t mv_crc_run(uint32_t crc, uint8_t *dst, const uint8_t *src,
                                                                 size_t n) {
    size_t i = 0;
#if defined(__x86_64__)
    if (n >= MV_CRC_FOLD_FROM && mv_crc_hardware && mv_crc_folds) {
        uint64_t last[8];
        size_t lead = -(uintptr_t)(dst ? dst : src) & 63, folded = (n - lead) & ~(size_t)(MV_CRC_FOLD - 1);
        crc = mv_crc_one(crc, dst, src, lead);
        mv_crc_fold(crc, dst ? dst + lead : NULL, src + lead, folded, last);
        crc = 0;
        for (int k = 0; k < 8; k++)
            crc = mv_crc_step8(crc, last[k]);
        i = lead + folded;
    }
#endif
    if (mv_crc_hardware) {
        for (; n - i >= 3 * MV_CRC_LONG; i += 3 * MV_CRC_LONG)
            crc = mv_crc_three(crc, dst ? dst + i : NULL, src + i, MV_CRC_LONG, mv_crc_long);
        for (; n - i >= 3 * MV_CRC_SHORT; i += 3 * MV_CRC_SHORT)
            crc = mv_crc_three(crc, dst ? dst + i : NULL, src + i, MV_CRC_SHORT, mv_crc_short);
    }
    return mv_crc_one(crc, dst ? dst + i : NULL, src + i, n - i);
}

/* CRC-32C of `n` bytes, continuing `crc` (0 to begin). `mv_crc32c_copy` also copies them, at 64 KiB at no cost. */
static uint32_t mv_crc32c(uint32_t crc, const void *src, size_t n) { return ~mv_crc_run(~crc, NULL, src, n); }
static uint32_t mv_crc32c_copy(uint32_t crc, void *dst, const void *src, size_t n) {
    return ~mv_crc_run(~crc, dst, src, n);
}

/* The same over whole words, for headers. */
static inline uint32_t mv_crc32c_words(const uint64_t *words, int n) {
    uint32_t crc = ~0u;
    if (mv_crc_hardware)
        for (int i = 0; i < n; i++)
            crc = mv_crc_step8(crc, words[i]);
    else
        for (int i = 0; i < n; i++)
            crc = mv_crc_table8(crc, words[i]);
    return ~crc;
}

#endif
