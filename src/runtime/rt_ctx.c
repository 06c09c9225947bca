/* rt_ctx.c: the context a kernel runs in: scratch memory, the message of a failure, scalar arguments.
 *
 * Several threads of one rt_parallel_for may fail at once but there is room for one message; rt__pool_claims_failure
 * lets only the first of them write, so that the message a caller reads always belongs to the code it got. */
#include "runtime/rt_pool.h"
#include "runtime/rt_recycle.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

int64_t rt_itemsize(int dtype) {
    static const uint8_t bytes_of[RT_DTYPE_COUNT] = {
#define X(ID, id, bytes, name) bytes,
        RT_DTYPES(X)
#undef X
    };
    return dtype >= 0 && dtype < RT_DTYPE_COUNT ? bytes_of[dtype] : 0;
}

const char *rt_dtype_name(int dtype) {
    static const char *const name_of[RT_DTYPE_COUNT] = {
#define X(ID, id, bytes, name) #name,
        RT_DTYPES(X)
#undef X
    };
    return dtype >= 0 && dtype < RT_DTYPE_COUNT ? name_of[dtype] : "?";
}

int rt_fail(const rt_ctx *ctx, int code, const char *format, ...) {
    if (!rt__pool_claims_failure(ctx->pool, ctx->error, code)) return code;
    if (ctx->error && ctx->error_size) {
        va_list args;
        va_start(args, format);
        vsnprintf(ctx->error, ctx->error_size, format, args);
        va_end(args);
    }
    return code;
}

/* Before every block: its size. 64 bytes, so that what follows stays aligned. */
typedef struct header { size_t size; } header;
enum { HEADER = 64, KEPT_LEAST = RT_LIMIT(64 * 1024, 128) };

/* Fresh memory costs more than most work on it (the system clears it page by page), so the pool keeps large blocks of
 * allocators that do not do so themselves. */
static bool pool_keeps(const rt_ctx *ctx, size_t whole) {
    return whole >= KEPT_LEAST && ctx->alloc != rt_recycler_alloc;
}

void *rt_scratch(const rt_ctx *ctx, size_t size) {
    if (size > (size_t)PTRDIFF_MAX - KEPT_LEAST - HEADER) return NULL;
    size_t unit = size < KEPT_LEAST ? 64 : KEPT_LEAST, whole = (size + HEADER + unit - 1) / unit * unit;
    header *h = pool_keeps(ctx, whole) ? rt__pool_take_block(ctx, whole) : NULL;
    if (!h) {
        h = ctx->alloc(ctx->user, whole);
        if (!h) return NULL;
        h->size = whole;
    }
    return (char *)h + HEADER;
}

void rt_scratch_free(const rt_ctx *ctx, void *p) {
    if (!p) return;
    header *h = (header *)(void *)((char *)p - HEADER);
    if (pool_keeps(ctx, h->size) && rt__pool_keep_block(ctx, h, h->size)) return;
    ctx->free(ctx->user, h);
}

static void *plain_alloc(void *user, size_t size) {
    (void)user;
    return aligned_alloc(64, size);
}

static void plain_free(void *user, void *p) {
    (void)user;
    free(p);
}

rt_ctx rt_ctx_plain(rt_pool *pool, char *error, size_t error_size) {
    return (rt_ctx){ .alloc = plain_alloc, .free = plain_free, .pool = pool, .error = error, .error_size = error_size };
}

rt_scalar rt_arg_scalar(const rt_call *c, int i) {
    const rt_arg *a = &c->arg[i];
    if (a->kind != RT_ARG_FLOAT && a->kind != RT_ARG_COMPLEX)
        return (rt_scalar){ RT_ARG_INT, a->u.i, (double)a->u.i, 0 };
    bool complex = a->kind == RT_ARG_COMPLEX;
    double f = complex ? a->u.c[0] : a->u.f;
    int64_t whole = f > -0x1p63 && f < 0x1p63 ? (int64_t)f : 0;
    return (rt_scalar){ (int)a->kind, whole, f, complex ? a->u.c[1] : 0 };
}
