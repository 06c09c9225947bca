/* rt_fft_set.h: all loops of transforms for one instruction set. A file that includes it names the set: FFT_SET(name)
 * gives a function its name, FFT_BYTES is the size of its vectors. */
#include "runtime/rt_fft.h"

#include <string.h>

#if defined(__clang__)
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#define SHUFFLE8(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#define SHUFFLE8(a, b, ...) __builtin_shuffle(a, b, (V_INDEX){ __VA_ARGS__ })
#endif

enum { TILE = 8, FETCHED_AT_ONCE = 4 };

/* Memory that is needed next comes while numbers are worked on: a few of its cache lines at every step, because a
 * processor waits when too many are on their way. */
typedef struct fft_ahead { const char *next, *end; } fft_ahead;
static inline __attribute__((always_inline)) void fetch_ahead(fft_ahead *a) {
    for (int i = 0; i < FETCHED_AT_ONCE && a->next < a->end; i++, a->next += 64) __builtin_prefetch(a->next);
}

/* Where lines begin, in numbers of which a complex one is two. */
static void fft_offsets(const fft_axis *a, const rt_view *v, int64_t first, int64_t batch, int64_t *offset) {
    int parts = rt_is_complex(v->dtype) ? 2 : 1;
    for (int64_t b = 0; b < batch; b++) {
        int64_t at = 0, line = first + b;
        for (int i = a->norder - 1; i >= 0; i--) {
            int d = a->order[i];
            at += line % a->out->size[d] * v->stride[d];
            line /= a->out->size[d];
        }
        offset[b] = at * parts;
    }
}

typedef float fft_f32x8 __attribute__((vector_size(32), aligned(4), may_alias));
typedef float fft_f32w __attribute__((vector_size(FFT_BYTES), aligned(4), may_alias));
typedef int32_t fft_i32x8 __attribute__((vector_size(32)));
#define T float
#define FN(name) FFT_SET(name##_f32)
#define V fft_f32x8
#define V_INDEX fft_i32x8
#define W fft_f32w
#define WIDE (FFT_BYTES / 4)
#include "runtime/rt_fft_passes.h"

#include "runtime/rt_fft_lines.h"
#undef T
#undef FN
#undef V
#undef V_INDEX
#undef W
#undef WIDE

typedef double fft_f64x8 __attribute__((vector_size(64), aligned(8), may_alias));
typedef double fft_f64w __attribute__((vector_size(FFT_BYTES), aligned(8), may_alias));
typedef int64_t fft_i64x8 __attribute__((vector_size(64)));
#define T double
#define FN(name) FFT_SET(name##_f64)
#define V fft_f64x8
#define V_INDEX fft_i64x8
#define W fft_f64w
#define WIDE (FFT_BYTES / 8)
#include "runtime/rt_fft_passes.h"

#include "runtime/rt_fft_lines.h"
