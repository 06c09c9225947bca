/* rt.h: what every kernel sees. The lowest floor: libc, libm and threads only, nothing of Cresset above it,
 * because compiled models link these same kernels.
 *
 * A kernel is `int rt_k_NAME(const rt_ctx *, const rt_call *)`. The caller has checked dtypes, ranks and sizes against
 * the op's rule and has allocated (or made views for) every output: a kernel only fills. Arguments come in the order of
 * the op's schema, defaults filled in, so that neither the interpreter nor a compiled model's step table needs glue
 * per op. A kernel returns RT_OK or rt_fail(...). It must cope with any strides, zero sizes and rank 0. */
#ifndef CRESSET_RT_H
#define CRESSET_RT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RT_MAX_RANK = 16 };

/* What is kept and how much is done at a time; the tiny build takes the second number (base/base.h, CR_LIMIT). */
#ifdef CR_TINY
#define RT_LIMIT(usual, tiny) (tiny)
#else
#define RT_LIMIT(usual, tiny) (usual)
#endif

/* Element types, in the order of PyTorch's ScalarType. One X-macro: enumerator, short name, bytes, PyTorch's name. */
#define RT_DTYPES(X)                                                                                                   \
    X(U8, u8, 1, uint8) X(I8, i8, 1, int8) X(I16, i16, 2, int16) X(I32, i32, 4, int32) X(I64, i64, 8, int64)           \
    X(F16, f16, 2, float16) X(F32, f32, 4, float32) X(F64, f64, 8, float64)                                            \
    X(C32, c32, 4, complex32) X(C64, c64, 8, complex64) X(C128, c128, 16, complex128)                                  \
    X(BOOL, b8, 1, bool) X(BF16, bf16, 2, bfloat16)                                                                    \
    X(U16, u16, 2, uint16) X(U32, u32, 4, uint32) X(U64, u64, 8, uint64)                                               \
    X(F8E4M3FN, f8e4m3fn, 1, float8_e4m3fn) X(F8E5M2, f8e5m2, 1, float8_e5m2)                                          \
    X(F8E4M3FNUZ, f8e4m3fnuz, 1, float8_e4m3fnuz) X(F8E5M2FNUZ, f8e5m2fnuz, 1, float8_e5m2fnuz)                        \
    X(F8E8M0FNU, f8e8m0fnu, 1, float8_e8m0fnu)
typedef enum rt_dtype {
#define X(ID, id, bytes, name) RT_##ID,
    RT_DTYPES(X)
#undef X
    RT_DTYPE_COUNT
} rt_dtype;
/* Bytes of one element; 0 for a number that is no dtype. */
int64_t rt_itemsize(int dtype);
/* PyTorch's name ("float32"), for messages; "?" for a number that is no dtype. */
const char *rt_dtype_name(int dtype);
static inline bool rt_is_complex(int d) { return d == RT_C32 || d == RT_C64 || d == RT_C128; }
static inline bool rt_is_float(int d) {
    return d == RT_F16 || d == RT_F32 || d == RT_F64 || d == RT_BF16 || (d >= RT_F8E4M3FN && d <= RT_F8E8M0FNU);
}
static inline bool rt_is_unsigned(int d) { return d == RT_U8 || d == RT_U16 || d == RT_U32 || d == RT_U64; }
static inline bool rt_is_integer(int d) { return d <= RT_I64 || (d >= RT_U16 && d <= RT_U64); } /* without bool */

/* A strided window on memory. `p` is the address of element [0,...,0]; strides are in elements, >= 0, and may be 0.
 * A pointer may be NULL when the view has no elements. */
typedef struct rt_view { void *p; int64_t size[RT_MAX_RANK], stride[RT_MAX_RANK]; int32_t rank, dtype; } rt_view;

/* ---- errors ---- */
enum { RT_OK = 0, RT_ENOMEM, RT_EVALUE, RT_EINDEX, RT_ERUNTIME, RT_ENOTIMPL, RT_EDTYPE };

/* ---- context of a run: allocator for scratch, thread pool, room for one message. Read-only to kernels but for *error.
 * ---- */
typedef struct rt_pool rt_pool;
typedef struct rt_ctx {
    void *(*alloc)(void *user, size_t size); /* 64-byte aligned or NULL */
    void (*free)(void *user, void *p);
    void *user;
    rt_pool *pool; /* NULL: everything on the caller's thread */
    char *error;   /* message of a failure goes here, NUL-terminated */
    size_t error_size;
} rt_ctx;
/* Writes the message and returns `code`. */
int rt_fail(const rt_ctx *ctx, int code, const char *format, ...) __attribute__((cold, format(printf, 3, 4)));
/* Scratch memory: 64-byte aligned, NULL when there is none (return RT_ENOMEM then). rt_scratch(ctx, 0) is not NULL. The
 * pool keeps large blocks for the next call with the same allocator and gives them back when it is released. */
void *rt_scratch(const rt_ctx *ctx, size_t size);
void rt_scratch_free(const rt_ctx *ctx, void *p);
/* A context over malloc with the given pool and message buffer. */
rt_ctx rt_ctx_plain(rt_pool *pool, char *error, size_t error_size);

/* ---- arguments of a call ---- */
enum {
    RT_ARG_NONE, RT_ARG_VIEW, RT_ARG_VIEWS, RT_ARG_INT, RT_ARG_FLOAT, RT_ARG_COMPLEX, RT_ARG_INTS, RT_ARG_FLOATS,
    RT_ARG_STR, RT_ARG_GENERATOR
};
typedef struct rt_generator rt_generator; /* rt_random.h */
typedef struct rt_arg {
    uint32_t kind, n; /* n: entries of VIEWS, INTS, FLOATS; bytes of STR */
    union {
        int64_t i; /* INT: also bools (0/1), dtypes (rt_dtype), other enums */
        double f;
        const double *c;             /* COMPLEX: real, imaginary */
        const rt_view *view;
        const rt_view *const *views; /* an entry may be NULL (Tensor?[]) */
        const int64_t *ints;
        const double *floats;
        const char *str;             /* NUL-terminated */
        rt_generator *generator;     /* never NULL: the default generator was filled in */
    } u;
} rt_arg;

typedef struct rt_scalar { int kind; int64_t i; double f, im; } rt_scalar; /* kind: RT_ARG_INT / FLOAT / COMPLEX */

/* Kernels with outputs whose sizes depend on data run twice: RT_COUNT (outputs absent; write the sizes to count[]),
 * then RT_FILL. All others only see RT_FILL. */
enum { RT_FILL, RT_COUNT };
typedef struct rt_call {
    const rt_arg *arg; /* schema order */
    const rt_view *out; /* Tensor and Tensor[] results, flattened in schema order */
    int32_t nargs, nout, phase;
    int64_t *count;    /* RT_COUNT: room for RT_MAX_RANK numbers */
    rt_scalar *result; /* for ops that return a number (item) */
} rt_call;
typedef int rt_kernel(const rt_ctx *, const rt_call *);

/* ---- threads (rt_pool.c) ---- */
enum { RT_POOL_MOST = 4096 };
/* A pool of `threads` - 1 workers (the caller is the last one). NULL when threads <= 1 or none could be started. */
rt_pool *rt_pool_create(int threads);
/* The same with no more workers than there is room for on `cores` cores. rt_pool_threads says what was asked for. */
rt_pool *rt_pool_create_within(int threads, int cores);
void rt_pool_release(rt_pool *pool);
int rt_pool_threads(const rt_pool *pool); /* 1 for NULL */
/* Around a sequence of parallel loops: in between, the workers stay awake. NULL is legal. */
void rt_pool_enter(rt_pool *pool);
void rt_pool_leave(rt_pool *pool);
/* Threads that this process may run at a time: affinity and the control group's quota. At least 1. */
int rt_usable_threads(void);
/* Runs body(arg, begin, end) over [0, n) in chunks of at least `grain`, which should take about a microsecond: the
 * fewer grains there are, the fewer threads are called. Returns the first non-zero code. How the range is split depends
 * on n, grain and the thread count alone. Nested or concurrent calls run on the caller's thread. */
int rt_parallel_for(const rt_ctx *ctx, int64_t n, int64_t grain, int (*body)(void *arg, int64_t begin, int64_t end),
                    void *arg);
/* The same where one element is `each` units of work, a microsecond's worth of which is `grain`: an element may be much
 * more than that. */
int rt_parallel_work(const rt_ctx *ctx, int64_t n, int64_t each, int64_t grain,
                     int (*body)(void *arg, int64_t begin, int64_t end), void *arg);

/* ---- instruction sets (rt_cpu.c): the processor's, no more than CRESSET_ISA allows ---- */
enum { RT_CPU_AVX2 = 1 /* with FMA and F16C */, RT_CPU_AVX512 = 2 /* F, BW, DQ, VL */ };
uint32_t rt_cpu(void);
/* False when CRESSET_ISA says something else than portable, avx2 or avx512; rt_cpu then says that there is nothing. */
bool rt_cpu_limit_is_known(void);
/* A function or table that says which loops are used: a compiled model may bring its own, which names fewer, so that
 * the linker leaves the others out (src/emit/choices.c), as src/emit/prune.c does in one unit with the model. */
#define RT_CHOICE __attribute__((weak))

/* ---- helpers on views (rt_view.c, rt_copy.c) ---- */
int64_t rt_numel(const rt_view *v);
bool rt_is_contiguous(const rt_view *v);
/* A contiguous view of the given shape on `p`. */
rt_view rt_view_contiguous(void *p, int dtype, int rank, const int64_t *size);
/* Copies src (broadcast to dst's shape) into dst, converting dtypes as PyTorch's copy_ does. Any strides; no
 * overlap. */
int rt_copy(const rt_ctx *ctx, const rt_view *dst, const rt_view *src);
/* Sets every element. The value's class follows dst's dtype rules of a C cast (complex to real drops the imaginary
 * part). */
int rt_fill(const rt_ctx *ctx, const rt_view *dst, rt_scalar value);
/* The same for a number that a user gave: RT_ERUNTIME when it does not fit in dst's dtype (fractions may be cut). */
int rt_fill_number(const rt_ctx *ctx, const rt_view *dst, rt_scalar value);
/* `out` becomes a contiguous view of v's elements in `dtype`: v itself when it already is that (then *scratch = NULL),
 * else a converted copy in *scratch, which the caller frees with rt_scratch_free. */
int rt_contiguous(const rt_ctx *ctx, const rt_view *v, int dtype, rt_view *out, void **scratch);
/* Converts n elements between dtypes; element strides are in elements of each side. */
void rt_convert(int dst_dtype, void *dst, int64_t dst_stride, int src_dtype, const void *src, int64_t src_stride,
                int64_t n);

/* ---- low-precision numbers: round to nearest even ---- */
float rt_f16_to_f32(uint16_t h);
uint16_t rt_f32_to_f16(float f);
static inline float rt_bf16_to_f32(uint16_t h) { union { uint32_t u; float f; } x = { (uint32_t)h << 16 }; return x.f; }
uint16_t rt_f32_to_bf16(float f);

/* ---- arguments, for kernels ---- */
static inline const rt_view *rt_arg_view(const rt_call *c, int i) {
    return c->arg[i].kind == RT_ARG_VIEW ? c->arg[i].u.view : NULL;
}
static inline int64_t rt_arg_int(const rt_call *c, int i) {
    return c->arg[i].kind == RT_ARG_FLOAT ? (int64_t)c->arg[i].u.f : c->arg[i].u.i;
}
static inline double rt_arg_float(const rt_call *c, int i) {
    return c->arg[i].kind == RT_ARG_FLOAT     ? c->arg[i].u.f
           : c->arg[i].kind == RT_ARG_COMPLEX ? c->arg[i].u.c[0]
                                              : (double)c->arg[i].u.i;
}
static inline bool rt_arg_is_none(const rt_call *c, int i) { return c->arg[i].kind == RT_ARG_NONE; }
/* A dimension argument made non-negative for `rank` (rank 0 counts as 1). */
static inline int rt_arg_dim(const rt_call *c, int i, int rank) {
    int64_t d = c->arg[i].u.i;
    return (int)(d < 0 ? d + (rank ? rank : 1) : d);
}
rt_scalar rt_arg_scalar(const rt_call *c, int i);

#endif
