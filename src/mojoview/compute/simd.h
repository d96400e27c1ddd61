/* Compiler attributes of the loops: clones for several CPUs, independent iterations. */
#ifndef MOJOVIEW_SIMD_H
#define MOJOVIEW_SIMD_H

/* One body compiled for several CPUs; the loader chooses. Not with sanitizers: they instrument the resolver, which
 * runs before their start-up. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(undefined_behavior_sanitizer)
#define MV_SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(__SANITIZE_UNDEFINED__)
#define MV_SANITIZED 1
#endif
#if defined(__x86_64__) && defined(__GLIBC__) && !defined(MV_SANITIZED) && !defined(MV_NO_CLONES) &&                   \
    ((defined(__clang__) && __clang_major__ >= 14) || (!defined(__clang__) && defined(__GNUC__) && __GNUC__ >= 12))
#define MV_CLONES __attribute__((target_clones("default", "arch=x86-64-v3")))
#else
#define MV_CLONES
#endif

/* The iterations of the next loop are independent, even if input and output are the same memory. */
#if defined(__clang__)
#define MV_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define MV_INDEPENDENT _Pragma("GCC ivdep")
#else
#define MV_INDEPENDENT
#endif

#endif
