/* rt_method.c: runs one method of a compiled model: checks and binds the inputs, lays out memory, walks the steps.
 *
 * A run has one frame: the slots of its numbers and an address per buffer. Scratch buffers whose sizes follow from the
 * inputs share one arena, laid out when the sizes are bound (and remembered: rt_layouts); those whose sizes depend on
 * data are allocated by the step that fills them. Nothing of the caller's is written before all inputs are checked. */
#include "runtime/rt_model.h"
#include "runtime/rt_random.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* What few runs come to is compiled to be small: every library carries it. */
#define SELDOM __attribute__((cold))

enum { ALIGNMENT = 64, KEPT_LAYOUTS = RT_LIMIT(8, 1) };

typedef struct frame {
    const rt_ctx *ctx;
    const rt_method *m;
    const rt_host *host;
    int64_t *slots;
    char **at;         /* per buffer */
    void **copied;     /* per input: scratch that holds it in the expected layout, or NULL */
    char *arena;
    bool *late;        /* per buffer: allocated alone */
} frame;

/* ---- layouts: where scratch buffers lie in the arena ---- */

typedef struct layout { uint64_t used; int64_t bytes, *offset, *key; } layout;
struct rt_layouts {
    pthread_mutex_t lock;
    uint64_t clock;
    int32_t nmethods;
    struct {
        const rt_method *method;
        layout kept[KEPT_LAYOUTS];
    } of[];
};

SELDOM rt_layouts *rt_layouts_create(const rt_ctx *ctx, int32_t nmethods) {
    size_t size = sizeof(rt_layouts) + (size_t)nmethods * sizeof ((rt_layouts *)0)->of[0];
    rt_layouts *l = ctx->alloc(ctx->user, size);
    if (!l) return NULL;
    memset(l, 0, size);
    l->nmethods = nmethods;
    pthread_mutex_init(&l->lock, NULL);
    return l;
}

void rt_layouts_after_fork(rt_layouts *l) { pthread_mutex_init(&l->lock, NULL); }

SELDOM void rt_layouts_release(const rt_ctx *ctx, rt_layouts *l) {
    if (!l) return;
    for (int32_t i = 0; i < l->nmethods; i++)
        for (int k = 0; k < KEPT_LAYOUTS; k++)
            if (l->of[i].kept[k].key) ctx->free(ctx->user, l->of[i].kept[k].key);
    pthread_mutex_destroy(&l->lock);
    ctx->free(ctx->user, l);
}

static bool in_arena(const rt_buffer *b) { return b->kind == RT_BUFFER_SCRATCH && !b->late; }

/* More than any machine addresses: sums of such sizes need no further care. */
static const int64_t most_bytes = (int64_t)1 << 56;

static int64_t aligned_bytes(int64_t bytes) {
    return bytes > most_bytes ? most_bytes : (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* Each buffer goes to the lowest gap among those that live at the same time. INT64_MAX: there is no such memory. */
static int64_t lay_out(const frame *f, int64_t *offset) {
    const rt_method *m = f->m;
    int64_t total = 0;
    for (int32_t i = 0; i < m->nbuffers; i++) {
        const rt_buffer *b = &m->buffers[i];
        if (!in_arena(b)) continue;
        int64_t size = aligned_bytes(f->slots[b->bytes]), at = 0;
        for (bool moved = true; moved;) {
            moved = false;
            for (int32_t k = 0; k < i; k++) {
                const rt_buffer *o = &m->buffers[k];
                if (!in_arena(o) || o->last < b->first || b->last < o->first) continue;
                int64_t end = offset[k] + aligned_bytes(f->slots[o->bytes]);
                if (offset[k] < at + size && at < end) at = end, moved = true;
            }
        }
        offset[i] = at;
        if (at + size >= most_bytes) return INT64_MAX;
        if (at + size > total) total = at + size;
    }
    return total;
}

static bool known(const layout *l, const frame *f) {
    if (!l->key) return false;
    for (int32_t i = 0; i < f->m->nbinds; i++)
        if (l->key[i] != f->slots[f->m->binds[i].slot]) return false;
    return true;
}

/* offset: room for nbuffers numbers. */
static int64_t find_layout(const frame *f, int64_t *offset) {
    rt_layouts *l = f->host->layouts;
    const rt_method *m = f->m;
    int32_t at = -1, oldest = 0;
    if (!l) return lay_out(f, offset);
    pthread_mutex_lock(&l->lock);
    for (int32_t i = 0; i < l->nmethods && at < 0; i++) {
        if (!l->of[i].method) l->of[i].method = m;
        if (l->of[i].method == m) at = i;
    }
    if (at < 0) {
        pthread_mutex_unlock(&l->lock);
        return lay_out(f, offset);
    }
    layout *kept = l->of[at].kept;
    for (int32_t k = 0; k < KEPT_LAYOUTS; k++) {
        if (known(&kept[k], f)) {
            kept[k].used = ++l->clock;
            memcpy(offset, kept[k].offset, (size_t)m->nbuffers * sizeof *offset);
            int64_t bytes = kept[k].bytes;
            pthread_mutex_unlock(&l->lock);
            return bytes;
        }
        if (kept[k].used < kept[oldest].used) oldest = k;
    }
    pthread_mutex_unlock(&l->lock);
    int64_t bytes = lay_out(f, offset);
    int64_t *key = bytes == INT64_MAX
                       ? NULL
                       : f->ctx->alloc(f->ctx->user, ((size_t)m->nbinds + (size_t)m->nbuffers) * sizeof *key + 1);
    if (!key) return bytes; /* not remembered */
    for (int32_t i = 0; i < m->nbinds; i++) key[i] = f->slots[m->binds[i].slot];
    memcpy(key + m->nbinds, offset, (size_t)m->nbuffers * sizeof *offset);
    pthread_mutex_lock(&l->lock);
    if (kept[oldest].key) f->ctx->free(f->ctx->user, kept[oldest].key);
    kept[oldest] = (layout){ ++l->clock, bytes, key + m->nbinds, key };
    pthread_mutex_unlock(&l->lock);
    return bytes;
}

/* ---- windows ---- */

__attribute__((noinline)) static void set_view(const frame *f, int32_t window, rt_view *v) {
    const rt_window *w = &f->m->windows[window];
    const int32_t *dims = f->m->dims + w->dims;
    v->rank = w->rank, v->dtype = w->dtype;
    for (int d = 0; d < w->rank; d++) { /* the others, of sixteen, are not written */
        v->size[d] = f->slots[dims[d]];
        v->stride[d] = f->slots[dims[w->rank + d]];
    }
    char *base = f->at[w->buffer];
    v->p = base ? base + f->slots[w->offset] * rt_itemsize(w->dtype) : NULL;
}

static rt_view view_of(const frame *f, int32_t window) {
    rt_view v;
    set_view(f, window, &v);
    return v;
}

/* Memory for a buffer whose size was not known at the start. */
static int need(frame *f, int32_t window) {
    int32_t i = f->m->windows[window].buffer;
    const rt_buffer *b = &f->m->buffers[i];
    if (f->at[i] || !b->late) return RT_OK;
    f->at[i] = b->kind == RT_BUFFER_RESULT ? f->ctx->alloc(f->ctx->user, (size_t)f->slots[b->bytes] + 1)
                                           : rt_scratch(f->ctx, (size_t)f->slots[b->bytes]);
    f->late[i] = true;
    return f->at[i] ? RT_OK : rt_fail(f->ctx, RT_ENOMEM, "out of memory");
}

static void drop_late(frame *f, int32_t step) {
    for (int32_t i = 0; i < f->m->nbuffers; i++) {
        const rt_buffer *b = &f->m->buffers[i];
        if (!f->late[i] || b->kind != RT_BUFFER_SCRATCH || b->last > step) continue;
        rt_scratch_free(f->ctx, f->at[i]);
        f->at[i] = NULL;
        f->late[i] = false;
    }
}

/* ---- steps ---- */

/* Arguments of one step, unpacked: on the stack, or in scratch for a step of many (cat of a hundred tensors). */
typedef struct room {
    rt_arg *arg;
    rt_view *view, *out;
    const rt_view **list;
    int64_t *ints;
    double *floats;
    int nview, nlist, nints, nfloats;
} room;

static double real(int64_t bits) { double f; memcpy(&f, &bits, sizeof f); return f; }

/* Bytes of the room of a step. */
static size_t measure(const frame *f, const rt_step *s, room *r) {
    *r = (room){ 0 };
    for (int i = 0; i < s->nargs; i++) {
        const rt_operand_ref *a = &f->m->args[s->args + i];
        if (a->kind == RT_A_WINDOW) r->nview++;
        else if (a->kind == RT_A_WINDOWS) r->nview += (int)a->n, r->nlist += (int)a->n;
        else if (a->kind == RT_A_INTS) r->nints += (int)a->n;
        else if (a->kind == RT_A_FLOATS || a->kind == RT_A_COMPLEX) r->nfloats += (int)a->n;
    }
    return s->nargs * sizeof *r->arg + ((size_t)r->nview + s->nout) * sizeof *r->view +
           (size_t)r->nlist * sizeof *r->list + (size_t)r->nints * sizeof *r->ints +
           (size_t)r->nfloats * sizeof *r->floats;
}

static void divide(const rt_step *s, room *r, char *memory) {
    r->view = (rt_view *)(void *)memory;
    r->out = r->view + r->nview;
    r->arg = (rt_arg *)(void *)(r->out + s->nout);
    r->list = (const rt_view **)(void *)(r->arg + s->nargs);
    r->ints = (int64_t *)(void *)(r->list + r->nlist);
    r->floats = (double *)(void *)(r->ints + r->nints);
    r->nview = r->nlist = r->nints = r->nfloats = 0;
}

static void argument(const frame *f, const rt_operand_ref *from, room *r, rt_arg *to) {
    const int32_t *list = f->m->lists + from->at;
    *to = (rt_arg){ .kind = RT_ARG_NONE, .n = from->n };
    switch (from->kind) {
    case RT_A_NONE: return;
    case RT_A_WINDOW:
        set_view(f, from->at, &r->view[r->nview]);
        to->kind = RT_ARG_VIEW, to->u.view = &r->view[r->nview++];
        return;
    case RT_A_WINDOWS:
        to->kind = RT_ARG_VIEWS, to->u.views = &r->list[r->nlist];
        for (uint32_t i = 0; i < from->n; i++) {
            r->list[r->nlist++] = list[i] < 0 ? NULL : &r->view[r->nview];
            if (list[i] >= 0) set_view(f, list[i], &r->view[r->nview++]);
        }
        return;
    case RT_A_INT: to->kind = RT_ARG_INT, to->u.i = f->slots[from->at]; return;
    case RT_A_FLOAT: to->kind = RT_ARG_FLOAT, to->u.f = real(f->slots[from->at]); return;
    case RT_A_INTS:
        to->kind = RT_ARG_INTS, to->u.ints = &r->ints[r->nints];
        for (uint32_t i = 0; i < from->n; i++) r->ints[r->nints++] = f->slots[list[i]];
        return;
    case RT_A_FLOATS:
    case RT_A_COMPLEX:
        to->kind = from->kind == RT_A_FLOATS ? RT_ARG_FLOATS : RT_ARG_COMPLEX;
        to->u.floats = &r->floats[r->nfloats];
        for (uint32_t i = 0; i < from->n; i++) r->floats[r->nfloats++] = real(f->slots[list[i]]);
        return;
    case RT_A_STR: to->kind = RT_ARG_STR, to->u.str = f->m->texts[from->at]; return;
    default: to->kind = RT_ARG_GENERATOR, to->u.generator = f->host->generator; return;
    }
}

static int call_kernel(frame *f, const rt_step *s, room *r) {
    const int32_t *outs = f->m->lists + s->outs;
    int nout = s->kind == RT_STEP_KERNEL ? s->nout : 0;
    for (int i = 0; i < s->nargs; i++) argument(f, &f->m->args[s->args + i], r, &r->arg[i]);
    for (int i = 0; i < nout; i++) {
        if (outs[i] < 0) { /* an undefined result */
            r->out[i] = (rt_view){ .p = NULL };
            continue;
        }
        int code = need(f, outs[i]);
        if (code) return code;
        set_view(f, outs[i], &r->out[i]);
    }
    rt_scalar number = { .kind = RT_ARG_NONE };
    int64_t count[RT_MAX_RANK] = { 0 };
    rt_call call = { r->arg, r->out, s->nargs, nout, s->kind == RT_STEP_COUNT ? RT_COUNT : RT_FILL, count, &number };
    int code = s->u.kernel(f->ctx, &call);
    if (code) return code;
    if (s->kind == RT_STEP_COUNT)
        for (int i = 0; i < s->nout; i++) f->slots[outs[i]] = count[i];
    if (s->kind == RT_STEP_NUMBER) {
        f->slots[outs[0]] = number.i;
        if (number.kind == RT_ARG_FLOAT) memcpy(&f->slots[outs[0]], &number.f, sizeof number.f);
    }
    return RT_OK;
}

static int run_kernel(frame *f, const rt_step *s) {
    _Alignas(16) char small[RT_LIMIT(8192, 64)];
    room r;
    size_t size = measure(f, s, &r);
    char *memory = size <= sizeof small ? small : rt_scratch(f->ctx, size);
    if (!memory) return rt_fail(f->ctx, RT_ENOMEM, "out of memory");
    divide(s, &r, memory);
    int code = call_kernel(f, s, &r);
    if (memory != small) rt_scratch_free(f->ctx, memory);
    return code;
}

static int run_block(frame *f, const rt_step *s) {
    rt_view view[RT_BLOCK_MAX_PORTS];
    rt_operand operand[RT_BLOCK_MAX_PORTS];
    rt_scalar constant[RT_BLOCK_MAX_PORTS];
    const rt_program *p = s->u.program;
    for (int i = 0; i < p->nin; i++) set_view(f, f->m->args[s->args + i].at, &view[i]);
    for (int i = 0; i < p->nout; i++) {
        int32_t w = f->m->lists[s->outs + i];
        int code = need(f, w);
        if (code) return code;
        set_view(f, w, &view[p->nin + i]);
    }
    for (int i = 0; i < p->nin + p->nout; i++) operand[i] = rt_operand_of(&view[i]);
    for (int i = 0; i < p->nconstants; i++) {
        const rt_operand_ref *a = &f->m->args[s->args + p->nin + i];
        constant[i] = (rt_scalar){ .kind = RT_ARG_INT };
        if (a->kind == RT_A_INT) constant[i].i = f->slots[a->at], constant[i].f = (double)constant[i].i;
        else if (a->kind == RT_A_FLOAT) constant[i] = (rt_scalar){ .kind = RT_ARG_FLOAT, .f = real(f->slots[a->at]) };
        else if (a->kind == RT_A_COMPLEX)
            constant[i] = (rt_scalar){ .kind = RT_ARG_COMPLEX,
                                       .f = real(f->slots[f->m->lists[a->at]]),
                                       .im = real(f->slots[f->m->lists[a->at + 1]]) };
    }
    return rt_block_run(f->ctx, p, operand, constant);
}

static int run_copy(frame *f, const rt_step *s) {
    int32_t to = f->m->lists[s->outs];
    int code = need(f, to);
    if (code) return code;
    rt_view dst = view_of(f, to), src = view_of(f, f->m->args[s->args].at);
    return dst.p == src.p ? RT_OK : rt_copy(f->ctx, &dst, &src);
}

static int run_fill(frame *f, const rt_step *s) {
    int32_t to = f->m->lists[s->outs];
    const rt_operand_ref *a = &f->m->args[s->args];
    int code = need(f, to);
    if (code) return code;
    rt_view dst = view_of(f, to);
    rt_scalar value = { .kind = RT_ARG_INT, .i = f->slots[a->at] };
    if (a->kind == RT_A_FLOAT) value = (rt_scalar){ .kind = RT_ARG_FLOAT, .f = real(f->slots[a->at]) };
    return rt_fill(f->ctx, &dst, value);
}

static int run_body(frame *f, const rt_method *body, const cresset_value *inputs, int32_t ninputs,
                    cresset_value *outputs, int32_t noutputs) {
    rt_host host = *f->host;
    host.profile = NULL; /* a body is part of its step */
    host.layouts = NULL;
    return rt_method_run(f->ctx, body, &host, inputs, ninputs, outputs, noutputs);
}

/* An operand of a body as the value that rt_method_run takes; sizes and strides lie in *view. */
static cresset_value operand_value(const frame *f, const rt_operand_ref *a, rt_view *view) {
    cresset_value v = { .struct_size = sizeof v, .kind = CRESSET_NONE };
    if (a->kind == RT_A_WINDOW) {
        *view = view_of(f, a->at);
        v.kind = CRESSET_TENSOR, v.dtype = view->dtype, v.rank = view->rank, v.data = view->p, v.size = view->size,
        v.stride = view->stride;
    } else if (a->kind == RT_A_INT) v.kind = CRESSET_INT, v.integer = f->slots[a->at];
    else if (a->kind == RT_A_FLOAT) v.kind = CRESSET_FLOAT, v.number = real(f->slots[a->at]);
    return v;
}

static rt_view value_view(const cresset_value *v) {
    rt_view view = { .p = v->data, .rank = v->rank, .dtype = v->dtype };
    memcpy(view.size, v->size, (size_t)v->rank * sizeof *view.size);
    memcpy(view.stride, v->stride, (size_t)v->rank * sizeof *view.stride);
    return view;
}

/* A body's result goes where the step says: a window of the same shape, or a slot. */
static int take_result(frame *f, const rt_operand_ref *to, const cresset_value *v) {
    if (to->kind == RT_A_INT) return f->slots[to->at] = v->integer, RT_OK;
    if (to->kind == RT_A_FLOAT) return memcpy(&f->slots[to->at], &v->number, sizeof v->number), RT_OK;
    if (to->kind != RT_A_WINDOW) return RT_OK;
    int code = need(f, to->at);
    if (code) return code;
    rt_view dst = view_of(f, to->at), src = value_view(v);
    for (int d = 0; d < dst.rank; d++)
        if (dst.rank != src.rank || dst.size[d] != src.size[d])
            return rt_fail(f->ctx, RT_ERUNTIME,
                           "a branch gave a result of another shape than the exported program has");
    return rt_copy(f->ctx, &dst, &src);
}

/* The sizes that a result has become known with it, and what follows from them. */
static int take_sizes(frame *f, const rt_step *s, const rt_operand_ref *outs, const cresset_value *v) {
    for (int i = 0; i < s->nout; i++) {
        const rt_window *w = outs[i].kind == RT_A_WINDOW && outs[i].n ? &f->m->windows[outs[i].at] : NULL;
        if (w && v[i].rank != w->rank)
            return rt_fail(f->ctx, RT_ERUNTIME,
                           "a branch gave a result of another shape than the exported program has");
        for (int d = 0; w && d < w->rank; d++)
            if (outs[i].n >> d & 1) f->slots[f->m->dims[w->dims + d]] = v[i].size[d];
    }
    return s->nafter ? rt_numbers_run(f->ctx, s->after, s->nafter, f->slots) : RT_OK;
}

static bool truth(const cresset_value *v) {
    if (v->kind != CRESSET_TENSOR) return v->integer;
    const unsigned char *p = v->data;
    for (int64_t i = 0; i < rt_itemsize(v->dtype); i++)
        if (p[i]) return true;
    return false;
}

/* Operands and results of a step with bodies, as many as it has: in scratch, because a loop may carry hundreds. */
typedef struct crowd { cresset_value *in, *out, *held; rt_view *views, *parts; void *memory; } crowd;

static int gather(const frame *f, const rt_step *s, crowd *c) {
    size_t nin = (size_t)s->nargs + s->nslices, nout = s->nout;
    c->memory = rt_scratch(f->ctx, (nin + 2 * nout) * sizeof *c->in + 2 * nin * sizeof *c->views);
    if (!c->memory) return rt_fail(f->ctx, RT_ENOMEM, "out of memory");
    c->views = c->memory;
    c->parts = c->views + nin;
    c->in = (cresset_value *)(void *)(c->parts + nin);
    c->out = c->in + nin;
    c->held = c->out + nout;
    for (size_t i = 0; i < nout; i++) c->out[i] = c->held[i] = (cresset_value){ .struct_size = sizeof *c->out };
    int first = s->kind == RT_STEP_FOLD ? s->nslices : 0; /* before them: what has been folded so far */
    for (int i = 0; i < s->nargs; i++) c->in[first + i] = operand_value(f, &f->m->args[s->args + i], &c->views[i]);
    return RT_OK;
}

static int run_cond_in(frame *f, const rt_step *s, const crowd *c) {
    const rt_operand_ref *outs = f->m->args + s->outs;
    int code = run_body(f, s->u.bodies[truth(&c->in[0]) ? 0 : 1], c->in + 1, s->nargs - 1, c->out, s->nout);
    if (code) return code;
    code = take_sizes(f, s, outs, c->out);
    for (int i = 0; i < s->nout && !code; i++) code = take_result(f, &outs[i], &c->out[i]);
    for (int i = 0; i < s->nout; i++) rt_value_release(f->ctx, &c->out[i]);
    return code;
}

/* What a body gave is what the next one takes. */
static void carry(const frame *f, const crowd *c, int n) {
    for (int i = 0; i < n; i++) {
        rt_value_release(f->ctx, &c->held[i]);
        c->in[i] = c->held[i] = c->out[i];
        c->in[i].owner = NULL;
    }
}

static int run_while_in(frame *f, const rt_step *s, const crowd *c) {
    const rt_operand_ref *outs = f->m->args + s->outs;
    int code;
    for (;;) {
        cresset_value go = { .struct_size = sizeof go };
        code = run_body(f, s->u.bodies[0], c->in, s->nargs, &go, 1);
        bool again = !code && truth(&go);
        if (!code) rt_value_release(f->ctx, &go);
        if (code || !again) break;
        for (int i = 0; i < s->nout; i++) c->out[i] = (cresset_value){ .struct_size = sizeof *c->out };
        code = run_body(f, s->u.bodies[1], c->in, s->nargs, c->out, s->nout);
        if (code) break;
        carry(f, c, s->nout);
    }
    for (int i = 0; i < s->nout && !code; i++) code = take_result(f, &outs[i], &c->in[i]);
    for (int i = 0; i < s->nout; i++) rt_value_release(f->ctx, &c->held[i]);
    return code;
}

/* Slice i of dimension 0. */
static rt_view slice_of(const rt_view *v, int64_t i) {
    rt_view part = { .p = v->p ? (char *)v->p + i * v->stride[0] * rt_itemsize(v->dtype) : NULL,
                     .rank = v->rank - 1,
                     .dtype = v->dtype };
    memcpy(part.size, v->size + 1, (size_t)part.rank * sizeof *part.size);
    memcpy(part.stride, v->stride + 1, (size_t)part.rank * sizeof *part.stride);
    return part;
}

static int store_slice(frame *f, const rt_operand_ref *to, int64_t i, const cresset_value *v) {
    if (to->kind != RT_A_WINDOW) return RT_OK;
    int code = need(f, to->at);
    if (code) return code;
    rt_view whole = view_of(f, to->at), dst = slice_of(&whole, i), src = value_view(v);
    return rt_copy(f->ctx, &dst, &src);
}

static void cut(cresset_value *v, rt_view *part, const rt_view *whole, int64_t i) {
    *part = slice_of(whole, i);
    v->rank = part->rank, v->data = part->p, v->size = part->size, v->stride = part->stride;
}

static int run_scan_in(frame *f, const rt_step *s, const crowd *c) {
    const rt_operand_ref *outs = f->m->args + s->outs;
    int code = RT_OK;
    int64_t n = c->views[s->ncarried].size[0];
    for (int64_t i = 0; i < n && !code; i++) {
        for (int k = s->ncarried; k < s->ncarried + s->nslices; k++) cut(&c->in[k], &c->parts[k], &c->views[k], i);
        for (int k = 0; k < s->nout; k++) c->out[k] = (cresset_value){ .struct_size = sizeof *c->out };
        code = run_body(f, s->u.bodies[0], c->in, s->nargs, c->out, s->nout);
        if (code) break;
        for (int k = s->ncarried; k < s->nout; k++) {
            if (!code) code = store_slice(f, &outs[k], i, &c->out[k]);
            rt_value_release(f->ctx, &c->out[k]);
        }
        carry(f, c, s->ncarried);
    }
    for (int k = 0; k < s->ncarried && !code; k++) code = take_result(f, &outs[k], &c->in[k]);
    for (int k = s->ncarried; k < s->nout && !code; k++) /* without slices nothing has asked for them */
        if (outs[k].kind == RT_A_WINDOW) code = need(f, outs[k].at);
    for (int k = 0; k < s->ncarried; k++) rt_value_release(f->ctx, &c->held[k]);
    return code;
}

static int run_fold_in(frame *f, const rt_step *s, const crowd *c) {
    int n = s->nslices, code = RT_OK;
    const rt_operand_ref *outs = f->m->args + s->outs;
    for (int k = 0; k < n; k++) c->in[k] = c->in[n + k];
    for (int64_t i = 0; i < c->views[0].size[0] && !code; i++) {
        for (int k = 0; k < n; k++) {
            cut(&c->in[i ? n + k : k], &c->parts[i ? n + k : k], &c->views[k], i);
            c->out[k] = (cresset_value){ .struct_size = sizeof *c->out };
        }
        if (i) code = run_body(f, s->u.bodies[0], c->in, n + s->nargs, c->out, n);
        if (i && !code) carry(f, c, n);
        for (int k = 0; k < n && !code; k++) code = store_slice(f, &outs[k], i, &c->in[k]);
    }
    for (int k = 0; k < n; k++) {
        /* without slices nothing has asked for it */
        if (!code && outs[k].kind == RT_A_WINDOW) code = need(f, outs[k].at);
        rt_value_release(f->ctx, &c->held[k]);
    }
    return code;
}

static int run_region(frame *f, const rt_step *s, int (*run)(frame *, const rt_step *, const crowd *)) {
    crowd c;
    int code = gather(f, s, &c);
    if (code) return code;
    code = run(f, s, &c);
    rt_scratch_free(f->ctx, c.memory);
    return code;
}

/* A region that has not been emitted: its body as steps. */
static int run_rows_body(frame *f, const rt_rows *rows) {
    cresset_value in[RT_ROWS_PORTS], out[RT_ROWS_PORTS];
    rt_view views[RT_ROWS_PORTS];
    for (int32_t i = 0; i < rows->noperands; i++) in[i] = operand_value(f, &f->m->args[rows->operands + i], &views[i]);
    for (int32_t i = 0; i < rows->nresults; i++) out[i] = (cresset_value){ .struct_size = sizeof out[i] };
    int code = run_body(f, rows->body, in, rows->noperands, out, rows->nresults);
    if (code) return code;
    for (int32_t i = 0; i < rows->nresults; i++) {
        rt_operand_ref to = { .kind = RT_A_WINDOW, .at = f->m->lists[rows->results + i] };
        if (!code) code = take_result(f, &to, &out[i]);
        rt_value_release(f->ctx, &out[i]);
    }
    return code;
}

static int run_rows(frame *f, const rt_step *s) {
    const rt_rows *rows = s->u.rows;
    rt_view port[RT_ROWS_PORTS];
    int n = 0;
    for (int i = 0; i < s->nout; i++) {
        int code = need(f, f->m->lists[s->outs + i]);
        if (code) return code;
    }
    if (rows->body) return run_rows_body(f, rows);
    for (int i = 0; i < s->nargs; i++) set_view(f, f->m->args[s->args + i].at, &port[n++]);
    for (int i = 0; i < s->nout; i++) set_view(f, f->m->lists[s->outs + i], &port[n++]);
    return rt_rows_run(f->ctx, rows, port);
}

/* ---- operators of the host's ---- */

static int64_t size_add(cresset_op_call *c, int64_t a, int64_t b) {
    return (void)c, (int64_t)((uint64_t)a + (uint64_t)b);
}
static int64_t size_subtract(cresset_op_call *c, int64_t a, int64_t b) {
    return (void)c, (int64_t)((uint64_t)a - (uint64_t)b);
}
static int64_t size_multiply(cresset_op_call *c, int64_t a, int64_t b) {
    return (void)c, (int64_t)((uint64_t)a * (uint64_t)b);
}
static int64_t size_divide(cresset_op_call *c, int64_t a, int64_t b) {
    (void)c;
    if (!b || (a == INT64_MIN && b == -1)) return 0;
    return a / b - (a % b && (a < 0) != (b < 0));
}

static cresset_value custom_value(const frame *f, const rt_operand_ref *a, rt_view *view) {
    cresset_value v = operand_value(f, a, view);
    if (a->kind == RT_A_INT && a->n) v.kind = CRESSET_BOOLEAN;
    if (a->kind == RT_A_STR) v.kind = CRESSET_STRING, v.data = (void *)(uintptr_t)f->m->texts[a->at];
    return v;
}

static int run_custom(frame *f, const rt_step *s) {
    const cresset_op_function *function = &f->host->ops[s->ncarried];
    cresset_value args[CRESSET_OP_MAX_ARGS];
    rt_view views[CRESSET_OP_MAX_ARGS];
    cresset_op_result results[CRESSET_OP_MAX_RESULTS];
    char message[160] = "";
    for (int i = 0; i < s->nargs; i++) args[i] = custom_value(f, &f->m->args[s->args + i], &views[i]);
    for (int i = 0; i < s->nout; i++) {
        int code = need(f, f->m->lists[s->outs + i]);
        if (code) return code;
        rt_view out = view_of(f, f->m->lists[s->outs + i]);
        results[i] = (cresset_op_result){ .dtype = out.dtype, .rank = out.rank, .data = out.p };
        memcpy(results[i].size, out.size, (size_t)out.rank * sizeof *out.size);
    }
    cresset_op_call call = { .struct_size = sizeof call,
                             .op = function->op,
                             .args = args,
                             .nargs = s->nargs,
                             .results = results,
                             .nresults = s->nout,
                             .user = function->user,
                             .message = message,
                             .room = sizeof message,
                             .add = size_add,
                             .subtract = size_subtract,
                             .multiply = size_multiply,
                             .divide = size_divide };
    int code = function->run(&call);
    message[sizeof message - 1] = 0;
    if (code == CRESSET_OUT_OF_MEMORY) return rt_fail(f->ctx, RT_ENOMEM, "out of memory");
    return code ? rt_fail(f->ctx, RT_ERUNTIME, "%s failed: %s", function->op,
                          *message ? message : "its function gives no message")
                : RT_OK;
}

static int run_step(frame *f, const rt_step *s) {
    switch (s->kind) {
    case RT_STEP_KERNEL:
    case RT_STEP_COUNT:
    case RT_STEP_NUMBER: return run_kernel(f, s);
    case RT_STEP_BLOCK: return run_block(f, s);
    case RT_STEP_COPY: return run_copy(f, s);
    case RT_STEP_NUMBERS: return rt_numbers_run(f->ctx, s->u.numbers, s->nargs, f->slots);
    case RT_STEP_FILL: return run_fill(f, s);
    case RT_STEP_CHECK:
        return f->slots[f->m->args[s->args].at]
                   ? RT_OK
                   : rt_fail(f->ctx, RT_ERUNTIME, "%s", f->m->texts[f->m->args[s->args + 1].at]);
    case RT_STEP_ROWS: return run_rows(f, s);
    case RT_STEP_CUSTOM: return run_custom(f, s);
    case RT_STEP_COND: return run_region(f, s, run_cond_in);
    case RT_STEP_WHILE: return run_region(f, s, run_while_in);
    case RT_STEP_SCAN: return run_region(f, s, run_scan_in);
    default: return run_region(f, s, run_fold_in);
    }
}

static double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static int run_watched(frame *f, int32_t i) {
    const rt_step *s = &f->m->steps[i];
    double begin = seconds_now();
    int code = run_step(f, s);
    f->host->profile(f->host->profile_user, f->host->method, i, f->m->origins[s->origin], seconds_now() - begin);
    return code;
}

/* "aten::embedding -> embedding (net.py:7): index 9 is out of bounds ...": a failure names the node that the step is
 * of. Steps of bodies have named theirs, checks and custom ops say it themselves. */
SELDOM static int failed(const frame *f, const rt_step *s, int code) {
    static const uint8_t plain[] = { RT_STEP_KERNEL, RT_STEP_COUNT, RT_STEP_NUMBER, RT_STEP_BLOCK, RT_STEP_ROWS };
    const char *origin = f->m->origins[s->origin];
    char *error = f->ctx->error;
    size_t n = strlen(origin), length = error ? strlen(error) : 0;
    bool fits = error && n + length + 2 < f->ctx->error_size;
    if (!fits || code == RT_ENOMEM || !memchr(plain, s->kind, sizeof plain)) return code;
    memmove(error + n + 2, error, length + 1);
    memcpy(error, origin, n);
    memcpy(error + n, ": ", 2);
    return code;
}

static int run_steps(frame *f) {
    bool some_late = false;
    for (int32_t i = 0; i < f->m->nbuffers; i++) some_late |= f->m->buffers[i].late;
    for (int32_t i = 0; i < f->m->nsteps; i++) {
        int code = f->host->profile ? run_watched(f, i) : run_step(f, &f->m->steps[i]);
        if (code) return failed(f, &f->m->steps[i], code);
        if (some_late) drop_late(f, i);
    }
    return RT_OK;
}

/* ---- inputs ---- */

static const char *input_name(const frame *f, int32_t i) {
    return f->m->info ? f->m->info->inputs[i].name : "an operand";
}

static const char *const kind_names[] = { "None", "a tensor", "an integer", "a float", "a bool", "a string" };

SELDOM static int wrong(const frame *f, int32_t i, const char *expected, const char *came) {
    return rt_fail(f->ctx, RT_EVALUE, "input '%s' must be %s, not %s", input_name(f, i), expected, came);
}

/* Is it beyond doubt what rt_value_check_memory looks for? Nearly every input is, and a call may have hundreds. */
static bool is_ordinary(const cresset_value *v) {
    const int64_t most = 1 << 24;
    int64_t last = 0;
    if (!v->data || !v->size || !v->stride || (uintptr_t)v->data >> 48 || (uintptr_t)v->data % 16) return false;
    for (int d = 0; d < v->rank; d++) {
        int64_t n = v->size[d], step = v->stride[d];
        if (n <= 0 || n > most || step < 0 || step > most) return false;
        last += (n - 1) * step;
    }
    return last < (int64_t)1 << 48;
}

static int check_kind(const frame *f, int32_t i, const cresset_value *v) {
    const rt_input *in = &f->m->inputs[i];
    if (v->struct_size != sizeof *v) return rt_value_check_struct(f->ctx, "input", input_name(f, i), v);
    if (v->kind < CRESSET_NONE || v->kind > CRESSET_STRING)
        return rt_fail(f->ctx, RT_EVALUE, "input '%s': %d is no kind of value", input_name(f, i), v->kind);
    if (v->kind != in->kind && !(in->kind == CRESSET_FLOAT && v->kind == CRESSET_INT))
        return wrong(f, i, kind_names[in->kind], kind_names[v->kind]);
    if (v->kind != CRESSET_TENSOR) return RT_OK;
    const rt_window *w = &f->m->windows[in->window];
    if (v->dtype != w->dtype)
        return rt_fail(f->ctx, RT_EVALUE, "input '%s' must be %s, not %s", input_name(f, i), rt_dtype_name(w->dtype),
                       rt_dtype_name(v->dtype));
    if (v->rank != w->rank)
        return rt_fail(f->ctx, RT_EVALUE, "input '%s' must have %d dimensions, not %d", input_name(f, i), w->rank,
                       v->rank);
    return is_ordinary(v) ? RT_OK : rt_value_check_memory(f->ctx, input_name(f, i), v);
}

static int64_t number_of(const cresset_value *v, uint8_t kind) {
    if (kind != CRESSET_FLOAT) return v->integer;
    double number = v->kind == CRESSET_INT ? (double)v->integer : v->number;
    int64_t bits;
    memcpy(&bits, &number, sizeof bits);
    return bits;
}

SELDOM static int wrong_number(const frame *f, int32_t i, int64_t want, int64_t came) {
    const char *name = input_name(f, i);
    switch (f->m->inputs[i].kind) {
    case CRESSET_FLOAT:
        return rt_fail(f->ctx, RT_EVALUE, "input '%s' must be %g, not %g: the model was exported for that value", name,
                       real(want), real(came));
    case CRESSET_BOOLEAN:
        return rt_fail(f->ctx, RT_EVALUE, "input '%s' must be %s, not %s: the model was exported for that value", name,
                       want ? "true" : "false", came ? "true" : "false");
    default:
        return rt_fail(f->ctx, RT_EVALUE, "input '%s' must be %lld, not %lld: the model was exported for that value",
                       name, (long long)want, (long long)came);
    }
}

static int bind_one(frame *f, const rt_bind *b, const cresset_value *inputs) {
    const cresset_value *v = &inputs[b->input];
    int64_t n = b->dim < 0 ? number_of(v, f->m->inputs[b->input].kind) : v->size[b->dim];
    if (b->check && f->slots[b->slot] != n) {
        if (b->dim < 0) return wrong_number(f, b->input, f->slots[b->slot], n);
        return rt_fail(f->ctx, RT_EVALUE, "input '%s': dimension %d must be %lld, not %lld", input_name(f, b->input),
                       b->dim, (long long)f->slots[b->slot], (long long)n);
    }
    if (!b->check && (n < b->min || n > b->max)) {
        char what[32] = "";
        if (b->dim >= 0) snprintf(what, sizeof what, ": dimension %d", b->dim);
        if (b->max == INT64_MAX)
            return rt_fail(f->ctx, RT_EVALUE, "input '%s'%s must be at least %lld, not %lld", input_name(f, b->input),
                           what, (long long)b->min, (long long)n);
        if (b->max == b->min)
            return rt_fail(f->ctx, RT_EVALUE, "input '%s'%s must be %lld, not %lld", input_name(f, b->input), what,
                           (long long)b->min, (long long)n);
        return rt_fail(f->ctx, RT_EVALUE, "input '%s'%s must be between %lld and %lld, not %lld",
                       input_name(f, b->input), what, (long long)b->min, (long long)b->max, (long long)n);
    }
    f->slots[b->slot] = n;
    return RT_OK;
}

/* Symbols first: an expression such as 2*s0 is checked against what the symbols give. */
static int bind_inputs(frame *f, const cresset_value *inputs, int32_t ninputs) {
    const rt_method *m = f->m;
    if (ninputs != m->ninputs)
        return rt_fail(f->ctx, RT_EVALUE, "the method takes %d inputs, not %d", m->ninputs, ninputs);
    if (ninputs && !inputs) return rt_fail(f->ctx, RT_EVALUE, "inputs is NULL");
    for (int32_t i = 0; i < ninputs; i++) {
        int code = check_kind(f, i, &inputs[i]);
        if (code) return code;
    }
    for (int32_t i = 0; i < m->nbinds; i++) {
        if (m->binds[i].check) continue;
        int code = bind_one(f, &m->binds[i], inputs);
        if (code) return code;
    }
    int code = rt_numbers_run(f->ctx, m->entry, m->nentry, f->slots);
    for (int32_t i = 0; i < m->nbinds && !code; i++)
        if (m->binds[i].check) code = bind_one(f, &m->binds[i], inputs);
    for (int32_t i = 0; i < ninputs && !code; i++) {
        const rt_input *in = &m->inputs[i];
        if (in->kind == CRESSET_STRING && in->is_constant &&
            (!inputs[i].data || strcmp(inputs[i].data, m->texts[in->text])))
            code = rt_fail(f->ctx, RT_EVALUE, "input '%s' must be '%s', not '%s': the model was exported for that text",
                           input_name(f, i), m->texts[in->text], inputs[i].data ? (const char *)inputs[i].data : "");
    }
    return code;
}

/* The caller's memory as it says; checked by rt_value_check_memory. */
static rt_view input_view(const cresset_value *v) {
    rt_view view;
    view.p = v->data, view.rank = v->rank, view.dtype = v->dtype;
    int64_t stride = 1;
    for (int d = v->rank; d--;) {
        view.size[d] = v->size[d];
        view.stride[d] = v->stride ? v->stride[d] : stride;
        stride *= v->size[d];
    }
    return view;
}

/* Is it laid out as the window, or has no elements? Sizes are the same. */
static bool is_laid_out(const frame *f, const rt_window *w, const cresset_value *v) {
    const int32_t *strides = f->m->dims + w->dims + w->rank;
    bool same = true;
    int64_t dense = 1;
    for (int d = w->rank; d--;) {
        if (!v->size[d]) return true;
        int64_t stride = v->stride ? v->stride[d] : dense;
        same = same && (v->size[d] == 1 || stride == f->slots[strides[d]]);
        dense *= v->size[d];
    }
    return same;
}

/* Points the input's buffer at the caller's memory, or at a copy in the layout that the steps were made for. */
static int place_input(frame *f, int32_t i, const cresset_value *v) {
    const rt_input *in = &f->m->inputs[i];
    if (in->kind != CRESSET_TENSOR) return RT_OK;
    const rt_window *w = &f->m->windows[in->window];
    int64_t offset;
    bool far = __builtin_mul_overflow(f->slots[w->offset], rt_itemsize(w->dtype), &offset) || offset < 0;
    if (far || (uint64_t)offset > (uintptr_t)v->data) /* its buffer would begin before memory does */
        return rt_fail(f->ctx, RT_EVALUE,
                       "input '%s': the model was exported for an offset in memory that no tensor can have",
                       input_name(f, i));
    if (is_laid_out(f, w, v)) return f->at[w->buffer] = (char *)v->data - offset, RT_OK;
    rt_view given = input_view(v), want = view_of(f, in->window);
    int64_t bytes;
    bool fits = rt_bytes_reached(w->dtype, want.rank, want.size, want.stride, &bytes) &&
                !__builtin_add_overflow(bytes, offset, &bytes);
    char *copy = fits ? rt_scratch(f->ctx, (size_t)bytes) : NULL;
    if (!copy) return rt_fail(f->ctx, RT_ENOMEM, "out of memory");
    f->copied[i] = f->at[w->buffer] = copy;
    want = view_of(f, in->window);
    return rt_copy(f->ctx, &want, &given);
}

/* ---- outputs ---- */

/* What a result carries besides its elements. */
typedef struct owned { int64_t size[RT_MAX_RANK], stride[RT_MAX_RANK]; void *data, *home; } owned;

void rt_value_release(const rt_ctx *ctx, cresset_value *v) {
    owned *o = v->struct_size == sizeof *v ? v->owner : NULL;
    if (!o || o->home != ctx->user) return; /* another instance's: that one has to give it back */
    if (o->data) {
        ctx->free(ctx->user, o->data);
        v->data = NULL;
    }
    ctx->free(ctx->user, o);
    v->owner = NULL;
    v->size = v->stride = NULL;
}

static const char *output_name(const frame *f, int32_t i) {
    return f->m->info ? f->m->info->outputs[i].name : "a result";
}

SELDOM static int too_small(const frame *f, int32_t i, int64_t bytes, size_t capacity) {
    return rt_fail(f->ctx, RT_EVALUE,
                   "output '%s' needs %lld bytes, but there is room for %zu: make room, or leave data NULL and the "
                   "library allocates",
                   output_name(f, i), (long long)bytes, capacity);
}

/* Whether a run changes anything besides its outputs: what it changed would stay when an output does not fit after
 * it. */
static bool leaves_traces(const rt_method *m) {
    bool traces = m->writes_state;
    for (int32_t i = 0; i < m->ninputs; i++) traces |= m->inputs[i].written;
    return traces;
}

/* Sizes that inputs decide are known before the run. Of one that data decides only the largest is, if that. */
SELDOM static int check_room(const frame *f, int32_t i, const cresset_value *wish) {
    const rt_window *w = &f->m->windows[f->m->outputs[i].at];
    int code = rt_value_check_alignment(f->ctx, "output", output_name(f, i), w->dtype, wish->data);
    if (code) return code;
    if (!f->m->buffers[w->buffer].late) {
        rt_view v = view_of(f, f->m->outputs[i].at);
        int64_t bytes = rt_numel(&v) * rt_itemsize(v.dtype);
        return (uint64_t)bytes > wish->capacity ? too_small(f, i, bytes, wish->capacity) : RT_OK;
    }
    int64_t most = rt_itemsize(w->dtype);
    for (int d = 0; d < w->rank; d++)
        if (__builtin_mul_overflow(most, f->m->info->outputs[i].dims[d].max, &most)) most = INT64_MAX;
    if ((uint64_t)most <= wish->capacity || !leaves_traces(f->m)) return RT_OK;
    return rt_fail(f->ctx, RT_EVALUE,
                   "output '%s': how large it is depends on data, and the method changes its state or inputs: leave "
                   "data NULL, the library allocates",
                   output_name(f, i));
}

static int check_outputs(const frame *f, const cresset_value *outputs, int32_t noutputs) {
    if (noutputs != f->m->noutputs)
        return rt_fail(f->ctx, RT_EVALUE, "the method gives %d outputs, not %d", f->m->noutputs, noutputs);
    if (noutputs && !outputs) return rt_fail(f->ctx, RT_EVALUE, "outputs is NULL");
    for (int32_t i = 0; i < noutputs; i++) {
        int code = rt_value_check_struct(f->ctx, "output", output_name(f, i), &outputs[i]);
        if (!code && f->m->outputs[i].kind == CRESSET_TENSOR && outputs[i].data) code = check_room(f, i, &outputs[i]);
        if (code) return code;
    }
    return RT_OK;
}

/* Everything of a result but its elements. */
static int describe(const frame *f, int32_t i, const cresset_value *wish, cresset_value *made) {
    const rt_output *from = &f->m->outputs[i];
    *made = (cresset_value){ .struct_size = wish->struct_size, .kind = from->kind };
    if (from->kind == CRESSET_FLOAT) made->number = real(f->slots[from->at]);
    else if (from->kind == CRESSET_STRING) made->data = (void *)(uintptr_t)f->m->texts[from->at];
    else if (from->kind != CRESSET_NONE && from->kind != CRESSET_TENSOR) made->integer = f->slots[from->at];
    if (from->kind != CRESSET_TENSOR) return RT_OK;
    rt_view v = view_of(f, from->at);
    int64_t bytes = rt_numel(&v) * rt_itemsize(v.dtype);
    if (wish->data && (uint64_t)bytes > wish->capacity) return too_small(f, i, bytes, wish->capacity);
    owned *o = f->ctx->alloc(f->ctx->user, sizeof *o);
    if (!o) return rt_fail(f->ctx, RT_ENOMEM, "out of memory");
    int64_t dense = 1;
    for (int d = v.rank; d--;) { /* the others, of sixteen, are not written */
        o->size[d] = v.size[d];
        o->stride[d] = wish->data ? dense : v.stride[d];
        dense *= v.size[d] > 1 ? v.size[d] : 1;
    }
    o->data = NULL;
    o->home = f->ctx->user;
    made->dtype = v.dtype, made->rank = v.rank, made->size = o->size, made->stride = o->stride, made->owner = o;
    made->data = wish->data ? wish->data : v.p;
    made->capacity = wish->data ? wish->capacity : 0;
    return RT_OK;
}

/* The elements, into the caller's room. */
static int fill_room(const frame *f, int32_t i, const cresset_value *made) {
    rt_view v = view_of(f, f->m->outputs[i].at), dst = rt_view_contiguous(made->data, v.dtype, v.rank, v.size);
    return rt_copy(f->ctx, &dst, &v);
}

/* All are described, then all filled, and only then given: a failure before that leaves the caller's structs as they
 * were. */
static int give_outputs(frame *f, cresset_value *outputs, int32_t noutputs) {
    enum { FEW = RT_LIMIT(8, 1) };
    cresset_value few[FEW], *made = noutputs <= FEW ? few : rt_scratch(f->ctx, (size_t)noutputs * sizeof *made);
    if (!made) return rt_fail(f->ctx, RT_ENOMEM, "out of memory");
    int code = RT_OK;
    int32_t done = 0;
    for (; done < noutputs; done++)
        if ((code = describe(f, done, &outputs[done], &made[done]))) break;
    for (int32_t i = 0; i < noutputs && !code; i++)
        if (made[i].kind == CRESSET_TENSOR && outputs[i].data) code = fill_room(f, i, &made[i]);
    for (int32_t i = 0; i < noutputs && !code; i++) {
        /* the buffer is this output's alone, and becomes the caller's */
        if (made[i].kind == CRESSET_TENSOR && !outputs[i].data) {
            char **at = &f->at[f->m->windows[f->m->outputs[i].at].buffer];
            ((owned *)made[i].owner)->data = *at;
            *at = NULL;
        }
        outputs[i] = made[i];
    }
    for (int32_t i = 0; i < done && code; i++) rt_value_release(f->ctx, &made[i]);
    if (made != few) rt_scratch_free(f->ctx, made);
    return code;
}

/* ---- a run ---- */

static int place_buffers(frame *f) {
    enum { FEW = RT_LIMIT(32, 1) };
    const rt_method *m = f->m;
    bool shared = false;
    for (int32_t i = 0; i < m->nbuffers; i++) shared |= in_arena(&m->buffers[i]);
    int64_t few[FEW], *offset = m->nbuffers <= FEW ? few : rt_scratch(f->ctx, (size_t)m->nbuffers * sizeof *offset);
    if (!offset) return rt_fail(f->ctx, RT_ENOMEM, "out of memory");
    int64_t bytes = shared ? find_layout(f, offset) : 0;
    f->arena = bytes ? rt_scratch(f->ctx, (size_t)bytes) : NULL;
    int code = bytes && !f->arena
                   ? rt_fail(f->ctx, RT_ENOMEM, "out of memory: the model needs %lld bytes to run", (long long)bytes)
                   : RT_OK;
    for (int32_t i = 0; i < m->nbuffers && !code; i++) {
        const rt_buffer *b = &m->buffers[i];
        if (b->kind == RT_BUFFER_WEIGHT) f->at[i] = (char *)(uintptr_t)(f->host->weights + b->offset);
        else if (b->kind == RT_BUFFER_STATE) f->at[i] = (char *)f->host->state[b->index];
        else if (in_arena(b)) f->at[i] = f->arena ? f->arena + offset[i] : NULL;
        else if (b->kind == RT_BUFFER_RESULT && !b->late) {
            f->at[i] = f->ctx->alloc(f->ctx->user, (size_t)f->slots[b->bytes] + 1);
            if (!f->at[i]) code = rt_fail(f->ctx, RT_ENOMEM, "out of memory");
        }
    }
    if (offset != few) rt_scratch_free(f->ctx, offset);
    return code;
}

static int run_frame(frame *f, const cresset_value *inputs, int32_t ninputs, cresset_value *outputs, int32_t noutputs) {
    int code = bind_inputs(f, inputs, ninputs);
    if (!code) code = check_outputs(f, outputs, noutputs);
    if (!code) code = place_buffers(f);
    for (int32_t i = 0; i < ninputs && !code; i++) code = place_input(f, i, &inputs[i]);
    if (!code) code = run_steps(f);
    for (int32_t i = 0; i < ninputs && !code; i++) {
        if (!f->copied[i] || !f->m->inputs[i].written) continue;
        rt_view to = input_view(&inputs[i]), from = view_of(f, f->m->inputs[i].window);
        code = rt_copy(f->ctx, &to, &from);
    }
    return code ? code : give_outputs(f, outputs, noutputs);
}

int rt_method_run(const rt_ctx *ctx, const rt_method *m, const rt_host *host, const cresset_value *inputs,
                  int32_t ninputs, cresset_value *outputs, int32_t noutputs) {
    size_t slots = (size_t)m->nslots * sizeof(int64_t), at = (size_t)m->nbuffers * sizeof(char *),
           copied = (size_t)m->ninputs * sizeof(void *), whole = slots + at + copied + (size_t)m->nbuffers;
    _Alignas(16) char small[RT_LIMIT(1024, 16)];
    char *memory = whole <= sizeof small ? small : rt_scratch(ctx, whole);
    if (!memory) return rt_fail(ctx, RT_ENOMEM, "out of memory");
    memset(memory, 0, whole);
    frame f = { .ctx = ctx,
                .m = m,
                .host = host,
                .slots = (int64_t *)(void *)memory,
                .at = (char **)(void *)(memory + slots),
                .copied = (void **)(void *)(memory + slots + at),
                .late = (bool *)(memory + slots + at + copied) };
    memcpy(f.slots, m->constants, (size_t)m->nconstants * sizeof *f.slots);
    int code = run_frame(&f, inputs, ninputs, outputs, noutputs);
    for (int32_t i = 0; i < m->nbuffers; i++) {
        /* NULL when it was given away */
        if (m->buffers[i].kind == RT_BUFFER_RESULT && f.at[i]) ctx->free(ctx->user, f.at[i]);
        else if (f.late[i]) rt_scratch_free(ctx, f.at[i]);
    }
    for (int32_t i = 0; i < m->ninputs; i++)
        if (f.copied[i]) rt_scratch_free(ctx, f.copied[i]);
    rt_scratch_free(ctx, f.arena);
    if (memory != small) rt_scratch_free(ctx, memory);
    return code;
}
