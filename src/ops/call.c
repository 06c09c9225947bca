/* call.c: the one path every op call takes.
 *
 *     prepare arguments -> rule -> [fake: done] -> allocate or make views -> compute -> bump versions -> [recorder]
 *
 * The rule decides all outputs; this file makes them and hands plain views to the runtime. In-place and out variants
 * are the same call with the results directed into given tensors, so they need no code per op. */
#include "ops/call.h"

#include "ops/autocast.h"
#include "ops/batch.h"
#include "ops/formula.h"
#include "ops/rules.h"
#include "ops/way.h"

static _Thread_local cr_ambient ambient = { .mode.autocast.dtype = CR_BF16, .grad = true };
cr_ambient *cr_ambient_get(void) { return &ambient; }

/* ---- memory of one call: small things on the stack, the rest in an arena ---- */

/* Under AddressSanitizer everything is a block of its own, so that the end of each list is seen. */
#if defined(__SANITIZE_ADDRESS__) && !defined(CR_TINY)
enum { ON_STACK = 0 };
#else
enum { ON_STACK = 1 };
#endif

static void *frame_alloc(cr_call_frame *f, size_t size) {
    if (!ON_STACK) return cr_arena_alloc(&f->arena, size);
    size = (size + 15) & ~(size_t)15;
    if (f->used + size <= sizeof f->bytes) {
        void *p = f->bytes + f->used;
        f->used += size;
        return p;
    }
    return cr_arena_alloc(&f->arena, size);
}

/* ---- arguments for kernels ---- */

static cr_status view_arg(cr_call_frame *f, const cr_arg *a, const rt_view **out) {
    rt_view *v = frame_alloc(f, sizeof *v);
    if (!v) return CR_ENOMEM;
    cr_tensor_show(a->u.t, v);
    *out = v;
    return CR_OK;
}

static cr_status list_arg(cr_call_frame *f, const cr_param *p, const cr_arg *a, rt_arg *out) {
    size_t n = a->n;
    out->n = a->n;
    if (p->type == CR_T_TENSOR) {
        const rt_view **views = frame_alloc(f, n * sizeof *views);
        if (!views) return CR_ENOMEM;
        for (size_t i = 0; i < n; i++) {
            views[i] = NULL;
            if (a->u.list[i].kind == CR_ARG_TENSOR) CR_TRY(view_arg(f, &a->u.list[i], &views[i]));
        }
        out->kind = RT_ARG_VIEWS;
        out->u.views = views;
    } else if (p->type == CR_T_FLOAT || p->type == CR_T_SCALAR) {
        double *floats = frame_alloc(f, n * sizeof *floats);
        if (!floats) return CR_ENOMEM;
        for (size_t i = 0; i < n; i++) {
            const cr_arg *item = &a->u.list[i];
            floats[i] = item->kind == CR_ARG_FLOAT ? item->u.f : (double)item->u.i;
        }
        out->kind = RT_ARG_FLOATS;
        out->u.floats = floats;
    } else {
        int64_t *ints = frame_alloc(f, n * sizeof *ints);
        if (!ints) return CR_ENOMEM;
        for (size_t i = 0; i < n; i++) ints[i] = a->u.list[i].u.i;
        out->kind = RT_ARG_INTS;
        out->u.ints = ints;
    }
    return CR_OK;
}

static cr_status kernel_arg(cr_call_frame *f, const cr_param *p, const cr_arg *a, rt_arg *out) {
    *out = (rt_arg){ .kind = RT_ARG_NONE };
    switch ((cr_arg_kind)a->kind) {
    case CR_ARG_TENSOR: out->kind = RT_ARG_VIEW; return view_arg(f, a, &out->u.view);
    case CR_ARG_FLOAT: out->kind = RT_ARG_FLOAT; out->u.f = a->u.f; return CR_OK;
    case CR_ARG_COMPLEX: out->kind = RT_ARG_COMPLEX; out->u.c = a->u.c; return CR_OK;
    case CR_ARG_STR: out->kind = RT_ARG_STR; out->n = a->n; out->u.str = a->u.s; return CR_OK;
    case CR_ARG_GENERATOR: out->kind = RT_ARG_GENERATOR; out->u.generator = a->u.generator; return CR_OK;
    case CR_ARG_LIST: return list_arg(f, p, a, out);
    case CR_ARG_NONE:
        if (p->type == CR_T_GENERATOR) {
            out->kind = RT_ARG_GENERATOR;
            out->u.generator = cr_default_generator();
            if (!out->u.generator) return CR_ENOMEM;
        }
        return CR_OK;
    default: out->kind = RT_ARG_INT; out->u.i = a->u.i; return CR_OK;
    }
}

cr_status cr__kernel_status(int code, const char *op, const char *message) {
    static const cr_status map[] = { CR_OK, CR_ENOMEM, CR_EVALUE, CR_EINDEX, CR_ERUNTIME, CR_ENOTIMPL, CR_ERUNTIME };
    if (!code) return CR_OK;
    if (code == RT_ENOMEM) return CR_FAIL(CR_ENOMEM, "out of memory");
    return CR_FAIL(code > 0 && code < (int)CR_COUNT(map) ? map[code] : CR_ERUNTIME, "%s: %s", op, message);
}

/* Runs the row's kernel in one phase. `out` are the result views. */
static cr_status run_kernel(cr_call_frame *f, int phase, const rt_view *out, int nout, int64_t *count,
                            rt_scalar *result) {
    const cr_schema *s = &f->base->schema;
    if (!f->kernel_args) {
        rt_arg *args = frame_alloc(f, s->nparams * sizeof *args);
        if (!args) return CR_ENOMEM;
        for (uint16_t i = 0; i < s->nparams; i++) CR_TRY(kernel_arg(f, &s->params[i], &f->args[i], &args[i]));
        f->kernel_args = args;
    }
    char message[256] = "";
    rt_ctx ctx = cr_kernel_ctx(message, sizeof message);
    rt_call call = { f->kernel_args, out, s->nparams, nout, phase, count, result };
    return cr__kernel_status(f->base->row->kernel(&ctx, &call), s->name, message);
}

cr_status cr__copy_tensor(cr_tensor *to, const cr_tensor *from) {
    char message[256] = "";
    rt_ctx ctx = cr_kernel_ctx(message, sizeof message);
    rt_view dst = cr_tensor_view(to), src = cr_tensor_view(from);
    return cr__kernel_status(rt_copy(&ctx, &dst, &src), "copy", message);
}

/* ---- preparing arguments ---- */

/* Looks at one tensor argument: is it fake, and whose symbols does it use? */
static cr_status see_tensor(cr_call_frame *f, const cr_tensor *t) {
    if (!cr_tensor_is_fake(t)) return CR_OK;
    if (t->mapped)
        return CR_FAIL(CR_ERUNTIME,
                       "%s: a tensor of a function under vmap is used outside of that call; return it from the "
                       "function instead",
                       f->op->schema.name);
    f->fake = true;
    if (t->env) f->env = t->env;
    return CR_OK;
}

static cr_status wrap_number(cr_call_frame *f, cr_arg *a) {
    if (f->ntemps == (int)CR_COUNT(f->temps))
        return CR_FAIL(CR_ETYPE, "%s: too many numbers in tensor arguments", f->base->schema.name);
    cr_tensor *t = NULL;
    cr_env *env = f->env ? f->env : ambient.mode.env;
    /* only its dtype is known */
    if (a->kind == CR_ARG_SYM || (env && a->kind == CR_ARG_INT && !cr_dim_is_plain(a->u.i))) {
        cr_meta meta;
        cr_meta_init(&meta, cr_arg_number_dtype(a), (cr_device){ CR_CPU, -1 });
        CR_TRY(cr_tensor_create_fake(env, &meta, &t));
        f->fake = true;
    } else {
        CR_TRY(cr_tensor_scalar(cr_arg_number_dtype(a), cr_arg_scalar(a), &t));
    }
    t->meta.flags |= CR_META_WRAPPED;
    f->temps[f->ntemps++] = t;
    a->kind = CR_ARG_TENSOR;
    a->u.t = t;
    return CR_OK;
}

static const cr_arg *find_by_name(const cr_op *op, const cr_arg *args, const char *name) {
    for (uint16_t i = 0; i < op->schema.nparams; i++)
        if (!strcmp(op->schema.params[i].name, name)) return &args[i];
    return NULL;
}

static cr_arg out_dtype(const cr_op *op, const cr_arg *args) {
    const cr_arg *out = &args[op->schema.nparams - op->schema.nreturns];
    /* a mean of integers is refused, also where it would fit */
    if (op->base->row->dtype == dtype_mean && args[0].kind == CR_ARG_TENSOR &&
        !cr_dtype_is_floating(args[0].u.t->meta.dtype) && !cr_dtype_is_complex(args[0].u.t->meta.dtype))
        return cr_arg_none();
    return out->kind == CR_ARG_TENSOR ? cr_arg_dtype(out->u.t->meta.dtype) : cr_arg_none();
}

bool cr_op_draws(const cr_op *op, const cr_arg *args) {
    const cr_schema *s = &op->base->schema;
    const cr_row *row = op->base->row;
    bool drops = row && row->role == CR_ROLE_DROPOUT; /* (input, p, train): one that drops nothing draws nothing */
    uint8_t p = drops ? 2 : row ? row->draws_arg : 0;
    if (!drops && ((op->tags | op->base->tags) & CR_TAG_RANDOM)) return true;
    if (!p) return false;
    const cr_arg *share = &args[p - 1];
    bool nothing = share->kind == CR_ARG_FLOAT ? share->u.f == 0 : share->kind == CR_ARG_INT && !share->u.i;
    bool asks = p < s->nparams && !strcmp(s->params[p].name, "train");
    bool trains = !asks || args[p].kind != CR_ARG_BOOL || args[p].u.i;
    return !nothing && trains;
}

bool cr_out_decides(const cr_op *op, uint16_t param, const cr_arg *given) {
    static const char *const sums[] = { "sum", "nansum", "prod", "cumsum", "cumprod", "mean", "nanmean" };
    if (op->variant != CR_OUT || op->base->schema.params[param].type != CR_T_DTYPE) return false;
    bool found = !given;
    for (size_t i = 0; !found && i < CR_COUNT(sums); i++)
        found = given->kind == CR_ARG_NONE && !strcmp(op->base->schema.name, sums[i]);
    return found;
}

/* Without an environment an integer stands for itself; the numbers that would name an expression are none for a
 * size. */
static cr_status check_plain(const cr_call_frame *f, const cr_param *p, const cr_arg *a) {
    if (a->kind == CR_ARG_LIST) {
        for (uint32_t i = 0; i < a->n; i++) CR_TRY(check_plain(f, p, &a->u.list[i]));
        return CR_OK;
    }
    if (a->kind != CR_ARG_INT || cr_dim_is_plain(a->u.i)) return CR_OK;
    return CR_FAIL(CR_ERUNTIME, "%s: argument '%s' is %lld; -2^62 is the least that it may be", f->op->schema.name,
                   p->name, (long long)a->u.i);
}

static cr_status check_target(const cr_call_frame *f, const cr_param *p, const cr_arg *a) {
    for (uint32_t i = 0; a->kind == CR_ARG_LIST && i < a->n; i++) CR_TRY(check_target(f, p, &a->u.list[i]));
    if (a->kind == CR_ARG_TENSOR && a->u.t->inference && !ambient.inference && f->base->row->shape != shape_detach)
        return CR_FAIL(CR_ERUNTIME,
                       "%s: '%s' was made in inference mode, outside of which such tensors are not written to; "
                       ".clone() it first, or write inside of inference_mode()",
                       f->op->schema.name, p->name);
    if (a->kind != CR_ARG_TENSOR || cr_tensor_is_fake(a->u.t) == f->fake || ambient.mode.fake) return CR_OK;
    return CR_FAIL(CR_ERUNTIME,
                   "%s: '%s' must be on the device of the other tensors: one of them is on 'meta', which has no memory",
                   f->op->schema.name, p->name);
}

/* What is written lies where the call computes: a tensor without memory cannot take numbers, nor a real one fake
 * sizes. */
static cr_status check_targets(const cr_call_frame *f, const cr_arg *args) {
    const cr_schema *s = &f->op->schema;
    for (uint16_t i = 0; i < s->nparams; i++)
        if (s->params[i].writes) CR_TRY(check_target(f, &s->params[i], &args[i]));
    return CR_OK;
}

/* The functional op's arguments out of the variant's: the same for in-place; by name for out forms. */
static cr_status prepare(cr_call_frame *f, const cr_op *op, const cr_arg *args) {
    const cr_schema *s = &f->base->schema;
    for (uint16_t i = 0; i < s->nparams; i++) {
        cr_arg *a = &f->args[i];
        const cr_arg *given = op->variant == CR_OUT ? find_by_name(op, args, s->params[i].name) : &args[i];
        *a = given ? *given : s->params[i].fallback;
        if (cr_out_decides(op, i, given)) *a = out_dtype(op, args);
        if (a->kind == CR_ARG_TENSOR) CR_TRY(see_tensor(f, a->u.t));
        else if (a->kind == CR_ARG_LIST && s->params[i].type == CR_T_TENSOR) {
            for (uint32_t k = 0; k < a->n; k++)
                if (a->u.list[k].kind == CR_ARG_TENSOR) CR_TRY(see_tensor(f, a->u.list[k].u.t));
        }
    }
    f->fake |= ambient.mode.fake;
    if (f->fake && !f->env) f->env = ambient.mode.env;
    CR_TRY(check_targets(f, args));
    for (uint16_t i = 0; !f->env && i < s->nparams; i++)
        if (s->params[i].symbolic) CR_TRY(check_plain(f, &s->params[i], &f->args[i]));
    for (uint16_t i = 0; i < s->nparams; i++)
        if (s->params[i].type == CR_T_TENSOR && !s->params[i].list &&
            (cr_arg_is_number(&f->args[i]) || f->args[i].kind == CR_ARG_SYM))
            CR_TRY(wrap_number(f, &f->args[i]));
    return CR_OK;
}

/* ---- targets of in-place and out variants ---- */

/* Expanded for sure: also where other sizes are symbols. */
static bool repeats_elements(const cr_call_frame *f, const cr_meta *m) {
    cr_tri known = cr_meta_self_overlap(m);
    bool repeats = known == CR_YES;
    for (int d = 0; d < m->rank; d++)
        if (m->size[d] == 0) return false;
    for (int d = 0; d < m->rank && known == CR_UNKNOWN && !repeats; d++)
        repeats = m->stride[d] == 0 && cr_dim_known(f->env, m->size[d], CR_GT, 1) == CR_YES;
    return repeats;
}

static cr_status check_writable(const cr_call_frame *f, const cr_tensor *t) {
    if (t->storage->readonly)
        return CR_FAIL(CR_ERUNTIME, "%s: the tensor to write to is read-only memory; .clone() it first",
                       f->op->schema.name);
    if ((f->base->tags & CR_TAG_KEEPS_REAL) && f->op->variant == CR_INPLACE && !cr_dtype_is_complex(t->meta.dtype))
        return CR_OK;
    if (!(f->base->tags & CR_TAG_SAME_VALUE) && repeats_elements(f, &t->meta))
        return CR_FAIL(CR_ERUNTIME,
                       "%s: more than one element of the written-to tensor refers to a single memory location (an "
                       "expanded tensor?); .clone() it before writing",
                       f->op->schema.name);
    return CR_OK;
}

static cr_status check_cast(const cr_call_frame *f, int from, const cr_tensor *to) {
    if ((f->base->tags & CR_TAG_ANY_CAST) || cr_can_cast(from, to->meta.dtype)) return CR_OK;
    bool nothing = !to->meta.rank || cr_dim_known(f->env, cr_meta_numel(f->env, &to->meta), CR_EQ, 0) == CR_YES;
    if ((f->base->tags & CR_TAG_EMPTY_CAST) && nothing) return CR_OK;
    return CR_FAIL(CR_ERUNTIME, "%s: result type %s can't be cast to the desired output type %s", f->op->schema.name,
                   cr_dtype_aten(from), cr_dtype_aten(to->meta.dtype));
}

static cr_status same_shape(const cr_call_frame *f, const cr_meta *want, const cr_meta *have, bool *same) {
    *same = want->rank == have->rank;
    for (int d = 0; *same && d < want->rank; d++)
        CR_TRY(cr_dim_decide(f->env, want->size[d], CR_EQ, have->size[d], same));
    return CR_OK;
}

/* abs, angle: real results of complex inputs. */
static bool drops_imaginary(const cr_call_frame *f, const cr_meta *result) {
    return f->rule.common >= 0 && cr_dtype_is_complex(f->rule.common) && cr_dtype_is_floating(result->dtype);
}

static cr_status check_inplace(const cr_call_frame *f, const cr_meta *result, const cr_tensor *self) {
    if (drops_imaginary(f, result) && cr_dtype_is_complex(self->meta.dtype))
        return CR_FAIL(CR_ERUNTIME, "%s: not supported in place for complex tensors: the result is real",
                       f->op->schema.name);
    if ((f->base->tags & CR_TAG_SAME_DTYPE) && result->dtype != self->meta.dtype)
        return CR_FAIL(CR_ERUNTIME, "%s: the result is %s, which a %s tensor cannot take in place; convert it first",
                       f->op->schema.name, cr_dtype_aten(result->dtype), cr_dtype_aten(self->meta.dtype));
    CR_TRY(check_cast(f, result->dtype, self));
    bool other = result->dtype != self->meta.dtype;
    const cr_arg *dtype = other ? find_by_name(f->base, f->args, "dtype") : NULL;
    if (dtype && dtype->kind == CR_ARG_DTYPE)
        return CR_FAIL(CR_ERUNTIME, "%s: dtype=%s differs from the tensor's own %s; use the functional form",
                       f->op->schema.name, cr_dtype_name(result->dtype), cr_dtype_name(self->meta.dtype));
    CR_TRY(check_writable(f, self));
    bool same;
    CR_TRY(same_shape(f, result, &self->meta, &same));
    if (same) return CR_OK;
    cr_str have, want;
    cr_str_init(&have);
    cr_str_init(&want);
    cr_shape_print(f->env, self->meta.rank, self->meta.size, &have);
    cr_shape_print(f->env, result->rank, result->size, &want);
    cr_status status = CR_FAIL(CR_ERUNTIME, "%s: output with shape %s doesn't match the broadcast shape %s",
                               f->op->schema.name, cr_str_get(&have), cr_str_get(&want));
    cr_str_dispose(&have);
    cr_str_dispose(&want);
    return status;
}

/* As a pointwise op over the inputs of the result's shape would. */
static cr_status layout_like_inputs(const cr_call_frame *f, cr_meta *meta) {
    const cr_meta *inputs[CR_MAX_PARAMS];
    int n = 0;
    for (uint16_t i = 0; i < f->base->schema.nparams; i++) {
        bool same = false;
        if (f->args[i].kind != CR_ARG_TENSOR) continue;
        CR_TRY(same_shape(f, meta, &f->args[i].u.t->meta, &same));
        if (same) inputs[n++] = &f->args[i].u.t->meta;
    }
    cr_layout_pointwise(f->env, inputs, n, meta);
    return CR_OK;
}

/* Inputs are read where they lie: their memory must not move, nor their sizes change, under an out tensor that is
 * resized. */
static cr_status check_apart(const cr_call_frame *f, const cr_tensor *out) {
    for (uint16_t i = 0; i < f->base->schema.nparams; i++) {
        const cr_arg *a = &f->args[i], *item = a->kind == CR_ARG_LIST ? a->u.list : a;
        for (uint32_t k = 0; k < (a->kind == CR_ARG_LIST ? a->n : 1); k++)
            if (item[k].kind == CR_ARG_TENSOR && item[k].u.t->storage == out->storage)
                return CR_FAIL(CR_ERUNTIME,
                               "%s: 'out' shares memory with '%s' and has other sizes than the result; pass another "
                               "tensor",
                               f->op->schema.name, f->base->schema.params[i].name);
    }
    return CR_OK;
}

/* Gives an out tensor the rule's sizes, as PyTorch's resize_output does. */
static cr_status fit_out(const cr_call_frame *f, const cr_meta *result, cr_tensor *out) {
    CR_TRY(check_cast(f, result->dtype, out));
    bool same;
    CR_TRY(same_shape(f, result, &out->meta, &same));
    if (!same) {
        cr_meta meta;
        cr_meta_copy(&meta, result);
        bool dense = (f->base->tags & (CR_TAG_UPDATES | CR_TAG_DENSE_OUT)) || drops_imaginary(f, result);
        dense |= (f->base->tags & CR_TAG_COMPLEX_DENSE_OUT) && f->args[0].kind == CR_ARG_TENSOR &&
                 cr_dtype_is_complex(f->args[0].u.t->meta.dtype);
        dense |= (f->base->tags & CR_TAG_KEEPS_INTEGERS) && !cr_dtype_is_floating(result->dtype) &&
                 !cr_dtype_is_complex(result->dtype);
        const cr_meta *source = result;
        if (f->rule.nout && f->rule.out[0].same) cr_layout_pointwise(f->env, &source, 1, &meta);
        if (f->base->tags & CR_TAG_POINTWISE_OUT) CR_TRY(layout_like_inputs(f, &meta));
        if (dense) cr_strides_contiguous(f->env, meta.rank, meta.size, meta.stride);
        meta.dtype = out->meta.dtype;
        meta.device = out->meta.device;
        meta.offset = out->meta.offset;
        meta.storage = out->meta.storage;
        meta.flags = out->meta.flags;
        if (!f->fake) {
            int64_t bytes;
            CR_TRY(check_apart(f, out));
            CR_TRY(cr_meta_bytes(&meta, &bytes));
            if (bytes > out->storage->bytes) CR_TRY(cr_storage_resize(out->storage, bytes));
        }
        cr_meta_copy(&out->meta, &meta);
        cr_tensor_changed(out);
    }
    return check_writable(f, out);
}

/* ---- making outputs ---- */

static cr_status make_output(cr_call_frame *f, cr_out *out, cr_tensor **result) {
    *result = NULL;
    if (out->none) return CR_OK;
    if (out->alias < 0) {
        CR_TRY(f->fake ? cr_tensor_create_fake(f->env, &out->meta, result) : cr_tensor_create(&out->meta, result));
        (*result)->inference = ambient.inference;
        return CR_OK;
    }
    cr_tensor *arg = f->args[out->alias].u.t;
    if (out->same) {
        cr_tensor_retain(arg);
        *result = arg;
        return CR_OK;
    }
    /* what has no derivative is no view to the tape: bytes as another dtype, and what is detached */
    bool apart = f->base->row->shape == shape_detach || f->base->row->shape == shape_view_dtype;
    if (apart || arg->inference) {
        CR_TRY(cr_tensor_on(arg->storage, &out->meta, NULL, f->env, result));
        (*result)->inference = arg->inference;
        return arg->inference ? CR_OK : cr_tensor_share_version(*result, arg);
    }
    CR_TRY(cr_tensor_on(arg->storage, &out->meta, arg->base ? arg->base : arg, f->env, result));
    (*result)->view = arg->view |
                      (ambient.inference ? CR_VIEW_INFERENCE
                       : ambient.grad    ? 0
                                         : CR_VIEW_NO_GRAD) |
                      (f->base->schema.returns[0].list ? CR_VIEW_ONE_OF_MANY : 0);
    return CR_OK;
}

/* Directs result i into the given tensor, or into a temporary that is copied there afterwards. */
static cr_status make_target(cr_call_frame *f, int i, cr_tensor *given) {
    cr_out *out = &f->rule.out[i];
    cr_place place = f->fake ? CR_PLACE_TARGET : cr_way_place(&f->rule, f->op, i, &given->meta);
    if (place == CR_PLACE_REFUSED) return cr_way_refuse(f->op);
    f->targets[i] = given;
    if (place == CR_PLACE_TARGET) {
        cr_tensor_retain(given);
        f->outs[i] = given;
        return CR_OK;
    }
    if (out->alias >= 0) { /* a view's out form */
        return make_output(f, out, &f->outs[i]);
    }
    return cr_tensor_create(&out->meta, &f->outs[i]);
}

static cr_status make_outputs(cr_call_frame *f) {
    cr_rule *r = &f->rule;
    f->outs = frame_alloc(f, (size_t)r->nout * sizeof *f->outs);
    f->targets = frame_alloc(f, (size_t)r->nout * sizeof *f->targets);
    if (!f->outs || !f->targets) return CR_ENOMEM;
    memset(f->outs, 0, (size_t)r->nout * sizeof *f->outs);
    memset(f->targets, 0, (size_t)r->nout * sizeof *f->targets);
    f->nouts = r->nout;
    for (int i = 0; i < r->nout; i++) {
        cr_out *out = &r->out[i];
        if (out->scalar) continue;
        if (f->op->variant == CR_INPLACE && !i) {
            CR_TRY(check_inplace(f, &out->meta, f->args[0].u.t));
            CR_TRY(make_target(f, 0, f->args[0].u.t));
        } else if (f->op->variant == CR_OUT) {
            const cr_arg *given = &f->given[f->op->schema.nparams - f->op->schema.nreturns + i];
            if (given->kind != CR_ARG_TENSOR)
                return CR_FAIL(CR_ETYPE, "%s: 'out' must be a Tensor", f->op->schema.name);
            CR_TRY(fit_out(f, &out->meta, given->u.t));
            CR_TRY(make_target(f, i, given->u.t));
        } else {
            CR_TRY(make_output(f, out, &f->outs[i]));
        }
    }
    return CR_OK;
}

/* ---- computing ---- */

static cr_status compute_idle(cr_call_frame *f, const rt_view *views) {
    char message[256] = "";
    rt_ctx ctx = cr_kernel_ctx(message, sizeof message);
    rt_scalar zero = { RT_ARG_INT, 0, 0, 0 };
    for (int i = 0; i < f->nouts; i++) {
        if (!f->outs[i]) continue;
        if (cr_way_idle_copies(&f->rule, i)) CR_TRY(cr__copy_tensor(f->outs[i], f->args[0].u.t));
        else CR_TRY(cr__kernel_status(rt_fill(&ctx, &views[i], zero), f->base->schema.name, message));
    }
    return CR_OK;
}

static cr_status compute(cr_call_frame *f, rt_scalar *number) {
    rt_view small[CR_INLINE_OUTS], *views = small;
    if (f->nouts > CR_INLINE_OUTS && !(views = frame_alloc(f, (size_t)f->nouts * sizeof *views))) return CR_ENOMEM;
    for (int i = 0; i < f->nouts; i++) {
        if (f->outs[i]) cr_tensor_show(f->outs[i], &views[i]);
        else views[i] = (rt_view){ .p = NULL };
    }
    switch (cr_way_of(&f->rule, f->op)) {
    case CR_WAY_NOTHING: return CR_OK;
    case CR_WAY_IDLE: return compute_idle(f, views);
    case CR_WAY_TEXT: return cr_scalar_run(f->base, f->rule.common, f->args, views, f->nouts);
    case CR_WAY_ABSENT: return CR_FAIL(CR_ENOTIMPL, "%s has no kernel", f->base->name);
    case CR_WAY_KERNEL: break;
    }
    if (cr_way_copies_first(f->base) && f->outs[0] != f->args[0].u.t)
        CR_TRY(cr__copy_tensor(f->outs[0], f->args[0].u.t));
    return run_kernel(f, RT_FILL, views, f->nouts, NULL, number);
}

static cr_status count_sizes(cr_call_frame *f) {
    /* one broadcasts with everything */
    static const int64_t ones[RT_MAX_RANK] = { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 };
    CR_TRY(cr_rule_run(&f->rule, f->base, f->env, f->args, ones)); /* checks dtypes and ranks before the kernel looks */
    cr_rule_dispose(&f->rule);
    return run_kernel(f, RT_COUNT, NULL, 0, f->count, NULL);
}

static void bump(const cr_arg *a) {
    for (uint32_t i = 0; a->kind == CR_ARG_LIST && i < a->n; i++) bump(&a->u.list[i]);
    if (a->kind == CR_ARG_TENSOR) cr_tensor_bump(a->u.t);
}

void cr__bump_written(const cr_schema *s, const cr_arg *args) {
    for (uint16_t i = 0; i < s->nparams; i++)
        if (s->params[i].writes) bump(&args[i]);
}

static void bump_written(cr_call_frame *f) {
    for (int i = 0; i < f->nouts; i++)
        if (f->targets[i]) cr_tensor_bump(f->targets[i]);
    cr__bump_written(&f->base->schema, f->args);
}

/* Puts copies into their targets and replaces the temporaries by them. */
static cr_status settle(cr_call_frame *f) {
    for (int i = 0; i < f->nouts; i++) {
        cr_tensor *target = f->targets[i];
        if (!target || f->outs[i] == target) continue;
        if (!f->fake) CR_TRY(cr__copy_tensor(target, f->outs[i]));
        cr_tensor_release(f->outs[i]);
        cr_tensor_retain(target);
        f->outs[i] = target;
    }
    return CR_OK;
}

/* A number that depends on data, in a fake run. */
static cr_status unknown_result(const cr_call_frame *f, const cr_out *out, cr_arg *a) {
    if (!f->env || out->scalar == CR_ARG_COMPLEX)
        return CR_FAIL(CR_EDATADEP, "%s: the result depends on data that is not known before the program runs",
                       f->op->schema.name);
    cr_sym fresh = cr_unknown_number(f->env, out->scalar == CR_ARG_INT    ? CR_T_INT
                                             : out->scalar == CR_ARG_BOOL ? CR_T_BOOL
                                                                          : CR_T_FLOAT);
    if (!fresh) {
        cr_env_recover(f->env);
        return CR_FAIL(CR_ENOMEM, "out of memory");
    }
    *a = out->scalar == CR_ARG_INT ? cr_arg_int(cr_dim_of(f->env, fresh))
                                   : (cr_arg){ .kind = CR_ARG_SYM, .given = 1, .u.sym = fresh };
    return CR_OK;
}

static cr_status number_result(const cr_call_frame *f, const cr_out *out, const rt_scalar *number, cr_arg *a) {
    *a = (cr_arg){ .kind = out->scalar, .u.i = out->number };
    if (f->fake && out->data) return unknown_result(f, out, a);
    if (f->fake || number->kind == RT_ARG_NONE) return CR_OK;
    if (number->kind == RT_ARG_FLOAT) *a = cr_arg_float(number->f);
    else if (number->kind == RT_ARG_INT)
        a->kind = out->scalar == CR_ARG_BOOL ? CR_ARG_BOOL : CR_ARG_INT, a->u.i = number->i;
    if (number->kind != RT_ARG_COMPLEX) return CR_OK;
    double *c = cr_alloc(2 * sizeof *c);
    if (!c) return *a = cr_arg_none(), CR_ENOMEM;
    c[0] = number->f, c[1] = number->im;
    *a = (cr_arg){ .kind = CR_ARG_COMPLEX, .given = 1, .u.c = c };
    return CR_OK;
}

static cr_status pack_results(cr_call_frame *f, const rt_scalar *number, cr_arg *results) {
    const cr_schema *s = &f->op->schema;
    int at = 0;
    for (uint16_t i = 0; i < s->nreturns; i++) results[i] = cr_arg_none();
    for (uint16_t i = 0; i < s->nreturns; i++) {
        if (s->returns[i].list && f->op->variant == CR_FUNCTIONAL) {
            int n = f->nouts - at - (s->nreturns - 1 - i);
            cr_arg *list = cr_alloc((size_t)n * sizeof *list);
            if (!list) return CR_ENOMEM;
            for (int k = 0; k < n; k++) {
                list[k] = cr_arg_tensor(f->outs[at + k]);
                f->outs[at + k] = NULL;
            }
            results[i] = cr_arg_list(list, (size_t)n);
            at += n;
        } else {
            if (at >= f->nouts) continue;
            const cr_out *out = &f->rule.out[at];
            if (out->scalar) {
                CR_TRY(number_result(f, out, number, &results[i]));
            } else {
                results[i] = cr_arg_tensor(f->outs[at]);
                f->outs[at] = NULL;
            }
            at++;
        }
    }
    return CR_OK;
}

/* t_(), squeeze_(), resize_(): the rule's view becomes the tensor's own meta. */
static cr_status change_meta(cr_call_frame *f, cr_arg *results) {
    CR_TRY(cr_rule_run(&f->rule, f->base, f->env, f->args, NULL));
    cr_tensor *self = f->args[0].u.t;
    if (f->base->row->shape == shape_detach && self->base)
        return CR_FAIL(CR_ERUNTIME, "detach_: a view cannot be detached in place; use detach()");
    cr_meta meta;
    cr_meta_copy(&meta, &f->rule.out[0].meta);
    cr_tensor *source = f->rule.out[0].alias > 0 ? f->args[f->rule.out[0].alias].u.t : NULL;
    if (source) { /* set_: adopts another tensor's storage */
        cr_storage_retain(source->storage);
        cr_storage_release(self->storage);
        self->storage = source->storage;
    } else if (!f->fake) {
        int64_t bytes;
        CR_TRY(cr_meta_bytes(&meta, &bytes));
        if (bytes > self->storage->bytes) CR_TRY(cr_storage_resize(self->storage, bytes));
    }
    meta.storage = self->storage->id;
    meta.flags = self->meta.flags;
    if (f->base->row->shape == shape_detach) meta.flags &= (uint8_t)~CR_META_REQUIRES_GRAD; /* detach_ */
    cr_meta_copy(&self->meta, &meta);
    cr_tensor_changed(self);
    if (f->base->row->shape != shape_detach) cr_tensor_bump(self);
    cr_tensor_retain(self);
    results[0] = cr_arg_tensor(self);
    return CR_OK;
}

/* ---- composite ops: other ops at one level deeper ---- */

static cr_status deliver_composite(cr_call_frame *f, cr_arg *made, cr_arg *results) {
    const cr_schema *s = &f->op->schema;
    for (uint16_t i = 0; i < s->nreturns; i++) {
        cr_tensor *target = f->op->variant == CR_INPLACE ? f->args[0].u.t : f->given[s->nparams - s->nreturns + i].u.t;
        if (made[i].kind != CR_ARG_TENSOR)
            return CR_FAIL(CR_ENOTIMPL, "%s: this result has no in-place or out form", f->op->name);
        const cr_tensor *from = made[i].u.t;
        CR_TRY(f->op->variant == CR_INPLACE ? check_inplace(f, &from->meta, target) : fit_out(f, &from->meta, target));
        if (!f->fake && from != target) CR_TRY(cr__copy_tensor(target, from));
        cr_tensor_bump(target);
        cr_tensor_retain(target);
        results[i] = cr_arg_tensor(target);
    }
    return CR_OK;
}

/* A composite row's dtype rule, where it has one, only checks; its parts decide the result. */
static cr_status check_composite(cr_call_frame *f) {
    if (!f->base->row->dtype && f->base->accepts == UINT32_MAX) return CR_OK;
    CR_TRY(cr_rule_begin(&f->rule, f->base, f->env, f->args, NULL));
    return CR_OK;
}

static cr_status call_composite(cr_call_frame *f, cr_arg *results) {
    CR_TRY(check_composite(f));
    ambient.mode.depth++;
    cr_emitter exec = *cr_exec_emitter();
    exec.env = f->env;
    cr_status status;
    if (f->op->variant == CR_FUNCTIONAL) {
        status = cr_decomp_expand(&exec, f->base, f->args, results);
    } else {
        cr_arg made[16];
        status = cr_decomp_expand(&exec, f->base, f->args, made);
        if (!status) {
            for (uint16_t i = 0; i < f->op->schema.nreturns; i++) results[i] = cr_arg_none();
            status = deliver_composite(f, made, results);
            if (status) cr_results_release(results, f->op->schema.nreturns);
            cr_results_release(made, f->base->schema.nreturns);
        }
    }
    ambient.mode.depth--;
    return status ? cr_error_context(status, "%s", f->op->schema.name) : CR_OK;
}

static bool is_composite(const cr_call_frame *f) {
    const cr_row *row = f->base->row;
    if (!row->decomp && !row->decomp_fn) return false;
    if (row->kernel && row->draws_arg && cr_op_draws(f->base, f->args)) return !f->fake;
    if (row->kernel || row->scalar) return false;
    /* what it consists of decides its dtype where arguments are cast */
    return !(f->fake && row->shape && f->op->variant == CR_FUNCTIONAL) || ambient.mode.autocast.enabled;
}

static cr_status call_primitive(cr_call_frame *f, cr_arg *results) {
    if (f->op->variant == CR_INPLACE && (f->base->tags & CR_TAG_INPLACE_VIEW)) return change_meta(f, results);
    if (f->base->tags & CR_TAG_METADATA) return change_meta(f, results);
    bool counted = cr_way_counts(f->base) && !f->fake;
    if (counted) CR_TRY(count_sizes(f));
    CR_TRY(cr_rule_run(&f->rule, f->op, f->env, f->args, counted ? f->count : NULL));
    for (int i = 0; i < f->rule.nout; i++)
        f->fake |= !f->rule.out[i].scalar && f->rule.out[i].meta.device.type == CR_META_DEVICE;
    CR_TRY(make_outputs(f));
    rt_scalar number = { .kind = RT_ARG_NONE };
    if (!f->fake) CR_TRY(compute(f, &number));
    CR_TRY(settle(f));
    bump_written(f);
    cr_status status = pack_results(f, &number, results);
    if (status) cr_results_release(results, f->op->schema.nreturns);
    return status;
}

static cr_status carry_out(const cr_op *op, const cr_arg *args, cr_arg *results) {
    cr_call_frame f;
    f.op = op;
    f.base = op->base;
    f.given = args;
    f.used = 0;
    f.ntemps = f.nouts = 0;
    f.outs = f.targets = NULL;
    f.kernel_args = NULL;
    f.fake = false;
    f.env = NULL;
    f.rule.out = f.rule.inline_out;
    f.rule.nout = 0;
    f.rule.common = -1;
    memset(f.count, 0, sizeof f.count);
    cr_arena_init(&f.arena);
    cr_status status = prepare(&f, op, args);
    if (!status) status = is_composite(&f) ? call_composite(&f, results) : call_primitive(&f, results);
    for (int i = 0; i < f.nouts; i++) cr_tensor_release(f.outs[i]);
    for (int i = 0; i < f.ntemps; i++) cr_tensor_release(f.temps[i]);
    cr_rule_dispose(&f.rule);
    cr_arena_dispose(&f.arena);
    return status;
}

/* ---- who watches ---- */

/* Whole here for speed, but composite in PyTorch, as all that are tagged so. */
static const char *const whole[] = { "aten::linear", "aten::scaled_dot_product_attention", "aten::max_pool1d" };

static cr_status try_parts(const cr_op *op, const cr_arg *args, cr_arg *results, bool *done) {
    const cr_row *row = op->base->row;
    bool needs[CR_MAX_PARAMS], composite = op->base->tags & CR_TAG_COMPOSITE, linear = !strcmp(op->name, whole[0]);
    for (size_t i = 0; i < CR_COUNT(whole); i++) composite |= !strcmp(op->name, whole[i]);
    *done = composite && op->variant == CR_FUNCTIONAL && (row->decomp || row->decomp_fn);
    if (!*done) return CR_OK;
    for (uint16_t i = 0; i < op->schema.nparams; i++) needs[i] = cr_arg_requires_grad(&args[i]);
    cr_status status = linear ? cr_core_expand(cr_exec_emitter(), op, args, results) /* addmm, as there */
                              : cr_train_expand(cr_exec_emitter(), op, args, needs, results);
    return status ? cr_error_context(status, "%s", op->schema.name) : CR_OK;
}

static cr_status call_unrecorded(cr_ambient *at, const cr_op *op, const cr_arg *args, cr_arg *results) {
    cr_watch *w = at->watch;
    bool done = false;
    if (!w) return carry_out(op, args, results);
    at->watch = NULL;
    cr_status status = w->before(w, op, args, results, &done);
    at->watch = w->outer;
    if (!status && !done) status = call_unrecorded(at, op, args, results);
    at->watch = NULL;
    if (!status) {
        status = w->after(w, op, args, results);
        if (status) cr_results_release(results, cr_result_count(op));
    }
    at->watch = w;
    return status;
}

/* ---- the tape ---- */

static cr_tape_call *tape; /* set once */

void cr_tape_set(cr_tape_call *call) { __atomic_store_n(&tape, call, __ATOMIC_RELEASE); }

bool cr_arg_requires_grad(const cr_arg *a) {
    if (a->kind == CR_ARG_TENSOR) return cr_tensor_requires_grad(a->u.t);
    for (uint32_t i = 0; a->kind == CR_ARG_LIST && i < a->n; i++)
        if (cr_arg_requires_grad(&a->u.list[i])) return true;
    return false;
}

static bool any_requires_grad(const cr_op *op, const cr_arg *args) {
    for (uint16_t i = 0; i < op->schema.nparams; i++) {
        if (args[i].kind == CR_ARG_TENSOR ? cr_tensor_requires_grad(args[i].u.t)
                                          : args[i].kind == CR_ARG_LIST && cr_arg_requires_grad(&args[i]))
            return true;
    }
    return false;
}

static cr_status call_and_record(cr_ambient *at, const cr_op *op, const cr_arg *args, cr_arg *results) {
    CR_TRY(call_unrecorded(at, op, args, results));
    cr_recorder *recorder = at->mode.recorder;
    if (!recorder || at->mode.depth) return CR_OK;
    cr_status status = recorder->record(recorder, op, args, results);
    if (status) cr_results_release(results, cr_result_count(op));
    return status;
}

cr_status cr_call_untaped(cr_ambient *at, const cr_op *op, const cr_arg *args, cr_arg *results) {
    bool before = at->untaped;
    at->untaped = true;
    cr_status status = call_and_record(at, op, args, results);
    at->untaped = before;
    return status;
}

static bool tape_is_on(const cr_ambient *at) {
    return at->grad && !at->inference && !at->untaped && (at->transforms || (!at->mode.recorder && !at->mode.fake));
}

bool cr_tape_is_on(void) { return tape_is_on(&ambient); }

cr_status cr_call(const cr_op *op, const cr_arg *args, cr_arg *results) {
    cr_ambient *at = &ambient; /* found once: a thread's own is a call away in a shared library */
    if (at->mode.autocast.enabled) {
        bool done;
        cr_status status = cr__autocast_call(op, args, results, &done);
        if (done) return status;
    }
    if (at->vmap) {
        bool done;
        cr_status status = cr__vmap_call(op, args, results, &done);
        if (done || status) return status;
    }
    if (at->watch) {
        bool done;
        cr_status status = try_parts(op, args, results, &done);
        if (done || status) return status;
    }
    if (tape_is_on(at) && any_requires_grad(op, args)) {
        cr_tape_call *differentiates = __atomic_load_n(&tape, __ATOMIC_ACQUIRE);
        if (differentiates) return differentiates(at, op, args, results);
    }
    return call_and_record(at, op, args, results);
}

void cr_results_release(cr_arg *results, size_t n) {
    for (size_t i = 0; i < n; i++) {
        cr_arg *a = &results[i];
        if (a->kind == CR_ARG_TENSOR) cr_tensor_release(a->u.t);
        else if (a->kind == CR_ARG_LIST) {
            cr_results_release((cr_arg *)a->u.list, a->n); /* results own their lists */
            cr_free((void *)a->u.list);
        } else if (a->kind == CR_ARG_COMPLEX) cr_free((void *)a->u.c);
        *a = cr_arg_none();
    }
}

cr_status cr_call_1(const char *name, const cr_arg *args, size_t n, cr_tensor **out) {
    const cr_op *op = cr_op_find(name);
    return op ? cr_call_op_1(op, args, n, out) : CR_FAIL(CR_ENOTFOUND, "there is no op '%s'", name);
}

cr_status cr_call_op_1(const cr_op *op, const cr_arg *args, size_t n, cr_tensor **out) {
    cr_arena arena;
    cr_arena_init(&arena);
    cr_binding binding;
    cr_arg results[16] = { { 0 } };
    cr_status status = cr_bind(op, true, args, n, NULL, 0, &arena, &binding);
    if (!status) status = cr_call(op, binding.args, results);
    if (!status && (op->schema.nreturns != 1 || results[0].kind != CR_ARG_TENSOR)) {
        cr_results_release(results, op->schema.nreturns);
        status = CR_FAIL(CR_ETYPE, "%s does not return one tensor; use cr_call", op->name);
    }
    if (!status) *out = results[0].u.t;
    cr_arena_dispose(&arena);
    return status;
}

/* ---- the emitter over this path ---- */

static cr_status exec_call(cr_emitter *e, const cr_op *op, const cr_arg *args, cr_arg *results) {
    (void)e;
    return cr_call(op, args, results);
}

static cr_status exec_meta(cr_emitter *e, const cr_arg *arg, const cr_meta **out) {
    (void)e;
    *out = cr_arg_meta(arg);
    return CR_OK;
}

static void exec_release(cr_emitter *e, cr_arg *results, size_t n) {
    (void)e;
    cr_results_release(results, n);
}

cr_emitter *cr_exec_emitter(void) {
    static _Thread_local cr_emitter exec;
    exec = (cr_emitter){ exec_call, exec_meta, exec_release, ambient.mode.env };
    return &exec;
}
