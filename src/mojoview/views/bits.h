/* Runs of bits, least significant first, as in Arrow and the descriptor's bitmaps. `start` counts bits. */
#ifndef MOJOVIEW_BITS_H
#define MOJOVIEW_BITS_H

#include <string.h>

#include "../memory/abi.h"

static inline int mv_bit(const uint8_t *bits, int64_t at) { return bits[at >> 3] >> (at & 7) & 1; }

/* Copy each bit to a byte; `flip` is 0 or 1. */
static inline void mv_bits_unpack(const uint8_t *bits, int64_t start, int64_t n, int flip, uint8_t *out) {
    int64_t i = 0;
    for (; i < n && ((start + i) & 7); i++)
        out[i] = (uint8_t)(mv_bit(bits, start + i) ^ flip);
    for (; i + 8 <= n; i += 8) {
        unsigned byte = bits[(start + i) >> 3] ^ (flip ? 0xffu : 0u);
        for (int k = 0; k < 8; k++)
            out[i + k] = (uint8_t)(byte >> k & 1);
    }
    for (; i < n; i++)
        out[i] = (uint8_t)(mv_bit(bits, start + i) ^ flip);
}

/* Count the ones among n bits. */
static inline int64_t mv_bits_count(const uint8_t *bits, int64_t start, int64_t n) {
    int64_t i = 0, count = 0;
    for (; i < n && ((start + i) & 7); i++)
        count += mv_bit(bits, start + i);
    for (; i + 64 <= n; i += 64) {
        uint64_t word;
        memcpy(&word, bits + ((start + i) >> 3), 8);
        count += __builtin_popcountll(word);
    }
    for (; i < n; i++)
        count += mv_bit(bits, start + i);
    return count;
}

/* Pack n bytes, `step` apart, from bit 0; a bit is set if (byte != 0) != flip. Returns the number of ones. */
static inline int64_t mv_bits_pack(const uint8_t *bytes, int64_t step, int64_t n, int flip, uint8_t *out) {
    int64_t count = 0;
    memset(out, 0, (size_t)((n + 7) / 8));
    for (int64_t i = 0; i < n; i++) {
        unsigned one = (unsigned)((bytes[i * step] != 0) ^ flip);
        out[i >> 3] = (uint8_t)(out[i >> 3] | one << (i & 7));
        count += one;
    }
    return count;
}

/* NaT is the smallest value of a datetime; the address need not be aligned. */
static inline int mv_is_nat(const char *values, int64_t at) {
    int64_t value;
    memcpy(&value, values + 8 * at, 8);
    return value == INT64_MIN;
}

/* Write the validity of a 1-D mask, contiguous datetimes (`nat`), or both as a bitmap. Returns the valid count. */
static inline int64_t mv_validity(const mv_desc *d, int nat, uint8_t *out) {
    int64_t count = 0;
    const uint8_t *mask = d->flags & MV_MASK_BITS ? d->mask : d->mask + d->mask_offset / 8;
    memset(out, 0, (size_t)((d->size + 7) / 8));
    for (int64_t i = 0; i < d->size; i++) {
        unsigned one = !nat || !mv_is_nat((const char *)d->data, i);
        if (d->flags & MV_HAS_MASK)
            one &= (unsigned)(d->flags & MV_MASK_BITS ? mv_bit(mask, d->mask_offset + i)
                                                      : mask[i * d->mask_stride[0]] == 0);
        out[i >> 3] = (uint8_t)(out[i >> 3] | one << (i & 7));
        count += one;
    }
    return count;
}

static inline int mv_has_nat(const char *values, int64_t n) {
    int found = 0;
    for (int64_t i = 0; i < n; i++)
        found |= mv_is_nat(values, i);
    return found;
}

#endif
