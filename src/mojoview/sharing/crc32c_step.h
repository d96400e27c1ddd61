/* crc32c_step.h: the processor's CRC-32C instruction, eight bytes and one byte at a time; whether it has one. */
#ifndef MOJOVIEW_CRC32C_STEP_H
#define MOJOVIEW_CRC32C_STEP_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

static inline uint64_t mv_load64(const uint8_t *p) {
    uint64_t word;
    memcpy(&word, p, 8);
    return word;
}
static inline void mv_store64(uint8_t *p, uint64_t word) { memcpy(p, &word, 8); }

/* As assembly, not as an intrinsic: the instruction may then be used behind a
   run-time test without compiling the caller for a newer processor. */
#if defined(__x86_64__)
static inline uint32_t mv_crc_step8(uint32_t crc, uint64_t word) {
    uint64_t wide = crc;
    __asm__("crc32q %1, %0" : "+r"(wide) : "r"(word));
    return (uint32_t)wide;
}
static inline uint32_t mv_crc_step1(uint32_t crc, uint8_t byte) {
    __asm__("crc32b %1, %0" : "+r"(crc) : "q"(byte));
    return crc;
}
static int mv_crc_detect(void) { return __builtin_cpu_supports("sse4.2") != 0; }
#elif defined(__aarch64__)
static inline uint32_t mv_crc_step8(uint32_t crc, uint64_t word) {
    __asm__(".arch_extension crc\n\tcrc32cx %w0, %w0, %x1" : "+r"(crc) : "r"(word));
    return crc;
}
static inline uint32_t mv_crc_step1(uint32_t crc, uint8_t byte) {
    __asm__(".arch_extension crc\n\tcrc32cb %w0, %w0, %w1" : "+r"(crc) : "r"((uint32_t)byte));
    return crc;
}
#if defined(__linux__)
static int mv_crc_detect(void) { return (getauxval(AT_HWCAP) & (1UL << 7)) != 0; } /* HWCAP_CRC32 */
#else
static int mv_crc_detect(void) { return 1; } /* every Apple processor has it */
#endif
#else
static inline uint32_t mv_crc_step8(uint32_t crc, uint64_t word) {
    (void)word;
    return crc;
}
static inline uint32_t mv_crc_step1(uint32_t crc, uint8_t byte) {
    (void)byte;
    return crc;
}
static int mv_crc_detect(void) { return 0; }
#endif

#endif
