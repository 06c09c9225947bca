/* rt_stack.h: stacks of matrices as kernels of linear algebra work on them: copied row by row into scratch, one matrix
 * after the other, and the results copied into whatever strides and dtype they have. Scratch is f64 (or complex f64);
 * large matrices of f32 stay in f32, as LAPACK has them: there time counts more than the last digit. */
#ifndef CRESSET_RT_STACK_H
#define CRESSET_RT_STACK_H

#include "runtime/rt.h"

#include <complex.h>

typedef double _Complex zdouble;

enum { ROOMS = 16 };
typedef struct stack {
    const rt_ctx *ctx;
    void *room[ROOMS];
    int rooms, dtype; /* RT_F32, RT_F64 or RT_C128 */
    int64_t item;
} stack;

static inline stack open_stack(const rt_ctx *ctx, int dtype) {
    bool pairs = rt_is_complex(dtype);
    return (stack){ .ctx = ctx, .dtype = pairs ? RT_C128 : RT_F64, .item = pairs ? 16 : 8 };
}
/* ... for matrices like those of v. */
static inline stack open_stack_of(const rt_ctx *ctx, const rt_view *v) {
    enum { LARGE = 64 * 64 }; /* elements of a matrix */
    stack s = open_stack(ctx, v->dtype);
    if (v->dtype == RT_F32 && v->size[v->rank - 1] && v->size[v->rank - 2] >= LARGE / v->size[v->rank - 1])
        s.dtype = RT_F32, s.item = 4;
    return s;
}
/* The transposes of a view's matrices. */
static inline rt_view turned_view(const rt_view *v) {
    rt_view t = *v;
    t.size[t.rank - 1] = v->size[v->rank - 2], t.size[t.rank - 2] = v->size[v->rank - 1];
    t.stride[t.rank - 1] = v->stride[v->rank - 2], t.stride[t.rank - 2] = v->stride[v->rank - 1];
    return t;
}
static inline int close_stack(stack *s, int code) {
    for (int i = 0; i < s->rooms; i++) rt_scratch_free(s->ctx, s->room[i]);
    return code;
}
static inline void *take_room(stack *s, int64_t items, int64_t item) {
    void *p = rt_scratch(s->ctx, (size_t)(items * item));
    if (p) s->room[s->rooms++] = p; /* no kernel takes more than ROOMS */
    return p;
}
/* The view's elements, dense and the caller's to change. `like`: batch sizes to repeat it for, or NULL. */
static inline int load_stack(stack *s, const rt_view *v, const rt_view *like, int matrix_dims, int dtype, char **p) {
    rt_view from = *v;
    if (like) {
        int lead = like->rank;
        from.rank = lead + matrix_dims;
        for (int d = 0; d < from.rank; d++) {
            int own = d - (from.rank - v->rank);
            from.size[d] = d < lead ? like->size[d] : v->size[own];
            from.stride[d] = own < 0 || (d < lead && v->size[own] == 1) ? 0 : v->stride[own];
        }
    }
    *p = take_room(s, rt_numel(&from), rt_itemsize(dtype));
    if (!*p) return RT_ENOMEM;
    rt_view to = rt_view_contiguous(*p, dtype, from.rank, from.size);
    return rt_copy(s->ctx, &to, &from);
}
static inline int store_stack(stack *s, const rt_view *out, void *p, int dtype) {
    rt_view from = rt_view_contiguous(p, dtype, out->rank, out->size);
    return rt_copy(s->ctx, out, &from);
}
static inline int64_t batches(const rt_view *v, int matrix_dims) {
    int64_t n = 1;
    for (int d = 0; d < v->rank - matrix_dims; d++) n *= v->size[d];
    return n;
}
/* ... to compute: a batch of matrices without elements may be immense. */
static inline int64_t full_batches(const rt_view *v, int matrix_dims) {
    return rt_numel(v) ? batches(v, matrix_dims) : 0;
}
/* Only the batch dimensions of a result. */
static inline rt_view batch_of(const rt_view *v, int matrix_dims) {
    rt_view lead = *v;
    lead.rank = v->rank - matrix_dims;
    return lead;
}

/* Matrices of a stack are shared by threads: body(work, i) for each. A result below 0 is -code of an error. */
typedef struct each_matrix {
    int (*body)(const void *work, int64_t i);
    const void *work;
} each_matrix;

static inline int run_matrices(void *arg, int64_t begin, int64_t end) {
    const each_matrix *e = arg;
    int code = RT_OK;
    for (int64_t i = begin; i < end && !code; i++) code = e->body(e->work, i);
    return code;
}

/* elements: of one matrix. */
static inline int for_matrices(const stack *s, int64_t count, int64_t elements, int (*body)(const void *, int64_t),
                               const void *work) {
    each_matrix e = { body, work };
    return rt_parallel_work(s->ctx, count, 8 * elements, 16384, run_matrices, &e);
}

#endif
