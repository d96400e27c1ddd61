from libc.stdint cimport int64_t, uint8_t

from mojoview.memory.abi cimport mv_desc


cdef extern from "views/bits.h" nogil:
    bint mv_bit(const uint8_t *bits, int64_t at)
    void mv_bits_unpack(const uint8_t *bits, int64_t start, int64_t n, bint flip, uint8_t *out)
    int64_t mv_bits_count(const uint8_t *bits, int64_t start, int64_t n)
    int64_t mv_bits_pack(const uint8_t *bytes, int64_t step, int64_t n, bint flip, uint8_t *out)
    int64_t mv_validity(const mv_desc *d, bint nat, uint8_t *out)
    bint mv_has_nat(const char *values, int64_t n)
