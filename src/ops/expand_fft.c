/* expand_fft.c: the fft_* ops as paddings and the three core transforms.
 *
 * They differ in a few answers only: how many dims, real or complex on either side, which way, whether the result is
 * conjugated. `forms` has a row for each name; the rest is shared: promotion, lengths, padding or cutting,
 * normalisation. */
#include "ops/expand.h"
#include "ops/rules.h"

typedef enum kind { C2C, R2C, C2R } kind;
enum { MANY = 1, FORWARD = 2 }; /* MANY: over several dims (fft2, fftn) */
static const struct { const char *name; kind kind; int flags; } forms[] = {
    { "fft_fft", C2C, FORWARD },          { "fft_ifft", C2C, 0 },
    { "fft_rfft", R2C, FORWARD },         { "fft_irfft", C2R, 0 },
    { "fft_hfft", C2R, FORWARD },         { "fft_ihfft", R2C, 0 },
    { "fft_fftn", C2C, MANY | FORWARD },  { "fft_ifftn", C2C, MANY },
    { "fft_rfftn", R2C, MANY | FORWARD }, { "fft_irfftn", C2R, MANY },
    { "fft_hfftn", C2R, MANY | FORWARD }, { "fft_ihfftn", R2C, MANY },
    { "fft_fft2", C2C, MANY | FORWARD },  { "fft_ifft2", C2C, MANY },
    { "fft_rfft2", R2C, MANY | FORWARD }, { "fft_irfft2", C2R, MANY },
    { "fft_hfft2", C2R, MANY | FORWARD }, { "fft_ihfft2", R2C, MANY },
};
enum { NORM_NONE, NORM_ROOT, NORM_FULL };

/* Which dims, and how long each is after padding (for C2R: the length of the input's half in the last one). */
typedef struct shape {
    int rank, n, dim[CR_MAX_RANK];
    cr_dim size[CR_MAX_RANK], last; /* last: the result's length (C2R) */
} shape;

static cr_status read_norm(const cr_op *op, const cr_arg *norm, bool forward, int *out) {
    const char *text = norm->kind == CR_ARG_STR ? norm->u.s : "backward";
    if (!strcmp(text, "backward")) *out = forward ? NORM_NONE : NORM_FULL;
    else if (!strcmp(text, "forward")) *out = forward ? NORM_FULL : NORM_NONE;
    else if (!strcmp(text, "ortho")) *out = NORM_ROOT;
    else
        return CR_FAIL(CR_ERUNTIME, "%s: norm must be 'forward', 'backward' or 'ortho', not '%s'", op->schema.name,
                       text);
    return CR_OK;
}

static cr_status require_points(const cr_op *op, cr_env *env, cr_dim n) {
    if (cr_dim_known(env, n, CR_LT, 1) == CR_YES)
        return CR_FAIL(CR_ERUNTIME, "%s: a transform needs at least one number, got a length below 1", op->schema.name);
    return cr_dim_require(env, n, CR_GE, 1, "length of the transform");
}

/* (self, n, dim, norm) */
static cr_status read_one(const cr_op *op, cr_env *env, const cr_meta *m, const cr_arg *args, kind k, shape *s) {
    if (!m->rank) return CR_FAIL(CR_EINDEX, "%s: a 0-d tensor has no dim to transform", op->schema.name);
    CR_TRY(cr_wrap_dim(args[2].u.i, m->rank, &s->dim[0]));
    s->n = 1;
    cr_dim have = m->size[s->dim[0]];
    bool given = args[1].kind != CR_ARG_NONE;
    s->last = given ? args[1].u.i : k == C2R ? cr_dim_mul(env, cr_dim_sub(env, have, 1), 2) : have;
    CR_TRY(require_points(op, env, s->last));
    s->size[0] = k == C2R ? cr_dim_add(env, cr_dim_floordiv(env, s->last, 2), 1) : s->last;
    return CR_OK;
}

/* (self, s, dim, norm) */
static cr_status read_many(const cr_op *op, cr_env *env, const cr_meta *m, const cr_arg *args, kind k, shape *s) {
    const cr_arg *sizes = args[1].kind == CR_ARG_LIST ? &args[1] : NULL,
                 *dims = args[2].kind == CR_ARG_LIST ? &args[2] : NULL;
    uint32_t seen = 0;
    s->n = dims ? (int)dims->n : sizes ? (int)sizes->n : m->rank;
    if (sizes && dims && sizes->n != dims->n)
        return CR_FAIL(CR_ERUNTIME, "%s: %u sizes for %u dims; give as many", op->schema.name, sizes->n, dims->n);
    if (!dims && s->n > m->rank)
        return CR_FAIL(CR_ERUNTIME, "%s: %d dims to transform, but the tensor has %d", op->schema.name, s->n, m->rank);
    if (!s->n && k != C2C) return CR_FAIL(CR_ERUNTIME, "%s: at least one dim must be transformed", op->schema.name);
    for (int i = 0; i < s->n; i++) {
        int d = m->rank - s->n + i;
        if (dims) CR_TRY(cr_wrap_dim(dims->u.list[i].u.i, m->rank, &d));
        if (seen >> d & 1) return CR_FAIL(CR_ERUNTIME, "%s: dim %d appears more than once", op->schema.name, d);
        seen |= 1u << d;
        s->dim[i] = d;
        cr_dim want = sizes ? sizes->u.list[i].u.i : -1;
        bool last = i == s->n - 1 && k == C2R, given = cr_dim_known(env, want, CR_EQ, -1) != CR_YES;
        cr_dim have = m->size[d];
        if (!given) want = last ? cr_dim_mul(env, cr_dim_sub(env, have, 1), 2) : have;
        CR_TRY(require_points(op, env, want));
        if (i == s->n - 1) s->last = want;
        s->size[i] = last ? cr_dim_add(env, cr_dim_floordiv(env, want, 2), 1) : want;
    }
    return CR_OK;
}

/* Cuts or pads with zeros at the end of each dim. */
static cr_arg resize(cr__run *r, cr_arg x, const shape *s) {
    cr_env *env = r->e->env;
    cr_arg pad[2 * CR_MAX_RANK];
    const cr_meta *m = cr__run_meta(r, &x);
    int rank = m->rank;
    bool padded = false;
    for (int i = 0; i < 2 * rank; i++) pad[i] = cr_arg_int(0);
    for (int i = 0; i < s->n && !r->status; i++) {
        int d = s->dim[i];
        bool longer = false, shorter = false;
        cr_dim have = cr__run_meta(r, &x)->size[d];
        r->status = cr_dim_decide(env, s->size[i], CR_GT, have, &longer);
        if (!r->status && !longer) r->status = cr_dim_decide(env, s->size[i], CR_LT, have, &shorter);
        if (longer) pad[2 * (rank - 1 - d) + 1] = cr_arg_int(cr_dim_sub(env, s->size[i], have)), padded = true;
        if (shorter) x = CR_RUN(r, "slice.Tensor", x, cr_arg_int(d), cr_arg_int(0), cr_arg_int(s->size[i]));
    }
    return padded ? CR_RUN(r, "constant_pad_nd", x, cr_arg_list(pad, (size_t)(2 * rank))) : x;
}

/* Integers become the default float; half precision has no transform on the CPU. */
static cr_status check_dtype(const cr_op *op, int dtype) {
    int real = cr_dtype_is_integral(dtype) ? cr_default_dtype() : cr_dtype_to_real(dtype);
    if (real == CR_F32 || real == CR_F64) return CR_OK;
    return CR_FAIL(CR_ERUNTIME, "%s: transforms are computed in float32 and float64, not %s; convert with .to(dtype)",
                   op->schema.name, cr_dtype_aten(dtype));
}

static cr_arg promote(cr__run *r, cr_arg x, bool complex) {
    int dtype = cr__run_meta(r, &x)->dtype, to = cr_dtype_is_integral(dtype) ? cr_default_dtype() : dtype;
    if (complex && !cr_dtype_is_complex(to)) to = cr_dtype_to_complex(to);
    return to == dtype || r->status ? x : CR_RUN(r, "to.dtype", x, cr_arg_dtype(to));
}

static cr_arg dim_list(cr_arg *items, const shape *s, int first, int n) {
    for (int i = 0; i < n; i++) items[i] = cr_arg_int(s->dim[first + i]);
    return cr_arg_list(items, (size_t)n);
}

cr_status expand_fft(cr_emitter *e, const cr_op *op, const cr_arg *args, cr_arg *results) {
    cr__run r = { .e = e };
    size_t at = 0;
    while (at < CR_COUNT(forms) - 1 && strcmp(forms[at].name, op->schema.name)) at++;
    kind k = forms[at].kind;
    bool forward = forms[at].flags & FORWARD, many = forms[at].flags & MANY;
    const cr_meta *m = cr__run_meta(&r, &args[0]);
    if (r.status) return r.status;
    bool complex = cr_dtype_is_complex(m->dtype);
    shape s = { .rank = m->rank };
    int norm = 0;
    if (k == R2C && complex)
        return CR_FAIL(CR_ERUNTIME, "%s: expected a real tensor, got %s", op->schema.name, cr_dtype_aten(m->dtype));
    CR_TRY(check_dtype(op, m->dtype));
    CR_TRY((many ? read_many : read_one)(op, e->env, m, args, k, &s));
    CR_TRY(read_norm(op, &args[3], forward, &norm));
    cr_arg items[CR_MAX_RANK], others[CR_MAX_RANK], x = promote(&r, args[0], k == C2R || (k == C2C && many));
    x = resize(&r, x, &s);
    cr_arg all = dim_list(items, &s, 0, s.n), last = dim_list(others, &s, s.n - (s.n > 0), s.n > 0),
           mode = cr_arg_int(norm), y;
    if (k == C2C && (complex || many)) {
        y = CR_RUN(&r, "_fft_c2c", x, all, mode, cr_arg_bool(forward));
    } else if (k == C2C) { /* a real input: both halves of a real transform */
        y = CR_RUN(&r, "_fft_r2c", x, all, mode, cr_arg_bool(false));
        if (!forward) y = CR_RUN(&r, "conj_physical", y);
    } else if (k == R2C && forward) {
        y = CR_RUN(&r, "_fft_r2c", x, all, mode, cr_arg_bool(true));
    } else if (k == R2C) { /* ihfft: the conjugate of the transform, then the other dims backwards */
        y = CR_RUN(&r, "conj_physical", CR_RUN(&r, "_fft_r2c", x, last, mode, cr_arg_bool(true)));
        if (s.n > 1) y = CR_RUN(&r, "_fft_c2c", y, dim_list(items, &s, 0, s.n - 1), mode, cr_arg_bool(false));
    } else if (!forward) {
        y = CR_RUN(&r, "_fft_c2r", x, all, mode, cr_arg_int(s.last));
    } else { /* hfft: the other dims forwards, then backwards from the conjugate */
        if (s.n > 1) x = CR_RUN(&r, "_fft_c2c", x, dim_list(items, &s, 0, s.n - 1), mode, cr_arg_bool(true));
        y = CR_RUN(&r, "_fft_c2r", CR_RUN(&r, "conj_physical", x), last, mode, cr_arg_int(s.last));
    }
    return cr__run_finish(&r, 1, &y, results);
}
