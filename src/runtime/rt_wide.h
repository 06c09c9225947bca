/* rt_wide.h: the body of a parallel loop, compiled for every processor and once more for AVX2.
 *
 *     RT_INLINE int scale_rows_body(void *arg, int64_t begin, int64_t end) { ... }
 *     RT_WIDE(scale_rows)
 *     ... rt_parallel_work(ctx, rows, each, grain, RT_WIDEST(scale_rows), &work);
 *
 * For plain C that the compiler turns into vectors: what the body calls is RT_INLINE, too, or stays as it is. The order
 * of additions is the text's, so both have the same bits. Files that use it are compiled with -O3 (flags.inc). */
#ifndef CRESSET_RT_WIDE_H
#define CRESSET_RT_WIDE_H

#include "runtime/rt.h"

#define RT_INLINE static inline __attribute__((always_inline))
#define RT__BODY(name, body, attribute) \
    attribute static int name(void *arg, int64_t begin, int64_t end) { return body(arg, begin, end); }
#if defined(__x86_64__)
#define RT_WIDE(name)             \
    RT__BODY(name, name##_body, ) \
    RT__BODY(name##_avx2, name##_body, __attribute__((target("avx2"))))
#define RT_WIDEST(name) (rt_cpu() & RT_CPU_AVX2 ? name##_avx2 : name)
#else
#define RT_WIDE(name) RT__BODY(name, name##_body, )
#define RT_WIDEST(name) name
#endif

#endif
