/* expand_stft.c: short-time Fourier transforms: a window moved along the signal, and a transform of each frame; and
 * back, by adding the frames where they overlap and dividing by what the windows add up to. */
#include "ops/expand.h"
#include "ops/rules.h"

static int find(const cr_op *op, const char *name) {
    for (int i = 0; i < op->schema.nparams; i++)
        if (!strcmp(op->schema.params[i].name, name)) return i;
    return -1;
}

static const cr_arg *named(const cr_op *op, const cr_arg *args, const char *name) {
    static const cr_arg none;
    int i = find(op, name);
    return i < 0 ? &none : &args[i];
}

static int64_t int_or(const cr_arg *a, int64_t fallback) { return a->kind == CR_ARG_NONE ? fallback : a->u.i; }
static bool bool_or(const cr_arg *a, bool fallback) { return a->kind == CR_ARG_NONE ? fallback : a->u.i != 0; }

typedef struct setup {
    int64_t n_fft, hop, win;
    cr_arg window;      /* NONE: ones */
    bool normalized, complex_window;
} setup;

static cr_status read_setup(cr__run *r, const cr_op *op, const cr_arg *args, setup *s) {
    *s = (setup){ .n_fft = named(op, args, "n_fft")->u.i,
                  .window = *named(op, args, "window"),
                  .normalized = named(op, args, "normalized")->u.i != 0 };
    s->hop = int_or(named(op, args, "hop_length"), s->n_fft / 4);
    s->win = int_or(named(op, args, "win_length"), s->n_fft);
    if (s->n_fft <= 0)
        return CR_FAIL(CR_ERUNTIME, "%s: n_fft must be positive, got %lld", op->schema.name, (long long)s->n_fft);
    if (s->hop <= 0)
        return CR_FAIL(CR_ERUNTIME, "%s: hop_length must be positive, got %lld", op->schema.name, (long long)s->hop);
    if (s->win <= 0 || s->win > s->n_fft)
        return CR_FAIL(CR_ERUNTIME, "%s: win_length must be in [1, n_fft], got %lld", op->schema.name,
                       (long long)s->win);
    if (s->window.kind == CR_ARG_NONE) return CR_OK;
    const cr_meta *w = cr__run_meta(r, &s->window);
    s->complex_window = cr_dtype_is_complex(w->dtype);
    if (w->rank != 1 || cr_dim_known(r->e->env, w->size[0], CR_EQ, s->win) == CR_NO)
        return CR_FAIL(CR_ERUNTIME, "%s: the window must have one dim of win_length = %lld numbers", op->schema.name,
                       (long long)s->win);
    return CR_OK;
}

/* The window in the middle of n_fft numbers. NONE stays NONE where it is all ones. */
static cr_arg whole_window(cr__run *r, const setup *s, cr_arg like, bool always) {
    int64_t left = (s->n_fft - s->win) / 2;
    cr_arg w = s->window, size = cr_arg_int(s->win),
           pad[2] = { cr_arg_int(left), cr_arg_int(s->n_fft - s->win - left) };
    if (w.kind == CR_ARG_NONE) {
        if (s->win == s->n_fft && !always) return w;
        w = CR_RUN(r, "new_ones", like, cr_arg_list(&size, 1));
    }
    return s->win == s->n_fft ? w : CR_RUN(r, "constant_pad_nd", w, cr_arg_list(pad, 2));
}

static cr_arg dims1(cr_arg *item, int64_t d) {
    *item = cr_arg_int(d);
    return cr_arg_list(item, 1);
}

cr_status expand_stft(cr_emitter *e, const cr_op *op, const cr_arg *args, cr_arg *results) {
    cr__run r = { .e = e };
    const cr_meta *m = cr__run_meta(&r, &args[0]);
    setup s;
    if (r.status) return r.status;
    int rank = m->rank;
    bool complex = cr_dtype_is_complex(m->dtype), center = bool_or(named(op, args, "center"), false);
    CR_TRY(read_setup(&r, op, args, &s));
    const cr_arg *return_complex = named(op, args, "return_complex");
    bool as_complex = bool_or(return_complex, complex || s.complex_window);
    if (!as_complex && return_complex->kind == CR_ARG_NONE)
        return CR_FAIL(CR_ERUNTIME, "stft: return_complex must be given for real inputs");
    if (bool_or(named(op, args, "align_to_window"), false)) {
        if (center) return CR_FAIL(CR_ERUNTIME, "stft: align_to_window goes with center=False only");
        return CR_FAIL(CR_ENOTIMPL, "stft: align_to_window is not supported");
    }
    if (!complex && !cr_dtype_is_floating(m->dtype))
        return CR_FAIL(CR_ERUNTIME, "stft: expected a floating point or complex tensor, got %s",
                       cr_dtype_aten(m->dtype));
    if (rank < 1 || rank > 2)
        return CR_FAIL(CR_ERUNTIME, "stft: expected a signal or a batch of them (1 or 2 dims), got %d dims", rank);
    cr_arg x = args[0], item;
    if (rank == 1) x = CR_RUN(&r, "unsqueeze", x, cr_arg_int(0));
    if (center) { /* pad takes a channel dim, too */
        cr_arg pad[2] = { cr_arg_int(s.n_fft / 2), cr_arg_int(s.n_fft / 2) };
        x = CR_RUN(&r, "pad", CR_RUN(&r, "unsqueeze", x, cr_arg_int(0)), cr_arg_list(pad, 2),
                   *named(op, args, "pad_mode"));
        x = CR_RUN(&r, "squeeze.dim", x, cr_arg_int(0));
    }
    if (!r.status && cr_dim_known(e->env, cr__run_meta(&r, &x)->size[1], CR_LT, s.n_fft) == CR_YES)
        r.status = CR_FAIL(CR_ERUNTIME, "stft: n_fft = %lld is longer than the signal", (long long)s.n_fft);
    x = CR_RUN(&r, "unfold", x, cr_arg_int(-1), cr_arg_int(s.n_fft), cr_arg_int(s.hop)); /* (batch, frames, n_fft) */
    cr_arg w = whole_window(&r, &s, args[0], false);
    if (w.kind != CR_ARG_NONE) x = CR_RUN(&r, "mul.Tensor", x, w);
    bool complex_frames = complex || s.complex_window, onesided = bool_or(named(op, args, "onesided"), !complex_frames);
    if (!r.status && complex_frames && onesided)
        r.status = CR_FAIL(CR_ERUNTIME, "stft: the transform of complex frames has no redundant half; pass "
                                        "onesided=False");
    cr_arg mode = cr_arg_int(s.normalized ? 1 : 0), y;
    y = complex_frames ? CR_RUN(&r, "_fft_c2c", x, dims1(&item, 2), mode, cr_arg_bool(true))
                       : CR_RUN(&r, "_fft_r2c", x, dims1(&item, 2), mode, cr_arg_bool(onesided));
    y = CR_RUN(&r, "transpose.int", y, cr_arg_int(1), cr_arg_int(2));
    if (rank == 1) y = CR_RUN(&r, "squeeze.dim", y, cr_arg_int(0));
    if (!as_complex) y = CR_RUN(&r, "view_as_real", y);
    return cr__run_finish(&r, 1, &y, results);
}

/* Does the sum of the squared windows vanish somewhere? Known for data that is there only. */
static void require_overlap(cr__run *r, cr_arg envelope) {
    cr_arg least = CR_RUN(r, "min", CR_RUN(r, "abs", envelope));
    double x;
    if (r->status || least.kind != CR_ARG_TENSOR || cr_tensor_is_fake(least.u.t)) return;
    rt_view v = cr_tensor_view(least.u.t);
    rt_convert(RT_F64, &x, 1, v.dtype, v.p, 1, 1);
    if (!(x > 1e-11))
        r->status = CR_FAIL(CR_ERUNTIME, "istft: the windows leave gaps: their squares add up to %g somewhere", x);
}

cr_status expand_istft(cr_emitter *e, const cr_op *op, const cr_arg *args, cr_arg *results) {
    cr__run r = { .e = e };
    cr_env *env = e->env;
    const cr_meta *m = cr__run_meta(&r, &args[0]);
    setup s;
    if (r.status) return r.status;
    int rank = m->rank;
    if (!cr_dtype_is_complex(m->dtype))
        return CR_FAIL(CR_ERUNTIME, "istft: expected a complex tensor, got %s; see view_as_complex",
                       cr_dtype_aten(m->dtype));
    if (rank < 2 || rank > 3)
        return CR_FAIL(CR_ERUNTIME, "istft: expected (frequency, frame) or a batch of them, got %d dims", rank);
    if (cr_dim_known(env, cr_meta_numel(env, m), CR_EQ, 0) == CR_YES)
        return CR_FAIL(CR_ERUNTIME, "istft: the input has no elements");
    CR_TRY(read_setup(&r, op, args, &s));
    cr_dim bins = m->size[rank - 2], frames = m->size[rank - 1], total;
    bool onesided = bool_or(named(op, args, "onesided"), cr_dim_known(env, bins, CR_EQ, s.n_fft) != CR_YES),
         as_complex = named(op, args, "return_complex")->u.i != 0;
    bool center = named(op, args, "center")->u.i != 0;
    CR_TRY(cr_dim_require(env, bins, CR_EQ, onesided ? s.n_fft / 2 + 1 : s.n_fft, "number of frequencies"));
    if (as_complex && onesided)
        return CR_FAIL(CR_ERUNTIME, "istft: a complex signal has no redundant half; pass onesided=False");
    if (!as_complex && s.complex_window)
        return CR_FAIL(CR_ERUNTIME, "istft: a complex window gives a complex signal; pass return_complex=True");
    if (s.hop > s.win) return CR_FAIL(CR_ERUNTIME, "istft: hop_length must not exceed win_length");
    total = cr_dim_add(env, cr_dim_mul(env, cr_dim_sub(env, frames, 1), s.hop), s.n_fft);
    cr_arg x = args[0], item, mode = cr_arg_int(s.normalized ? 1 : 2);
    if (rank == 2) x = CR_RUN(&r, "unsqueeze", x, cr_arg_int(0));
    x = CR_RUN(&r, "transpose.int", x, cr_arg_int(1), cr_arg_int(2)); /* (batch, frames, bins) */
    if (as_complex) {
        x = CR_RUN(&r, "_fft_c2c", x, dims1(&item, 2), mode, cr_arg_bool(false));
    } else {
        if (!onesided) x = CR_RUN(&r, "slice.Tensor", x, cr_arg_int(-1), cr_arg_int(0), cr_arg_int(s.n_fft / 2 + 1));
        x = CR_RUN(&r, "_fft_c2r", x, dims1(&item, 2), mode, cr_arg_int(s.n_fft));
    }
    cr_arg w = whole_window(&r, &s, x, true), square = CR_RUN(&r, "mul.Tensor", w, w);
    x = CR_RUN(&r, "mul.Tensor", x, w);
    cr_arg spread[3] = { cr_arg_int(1), cr_arg_int(frames), cr_arg_int(s.n_fft) };
    cr_arg long_one[2] = { cr_arg_int(1), cr_arg_int(total) },
           long_all[2] = { cr_arg_int(cr__run_meta(&r, &x)->size[0]), cr_arg_int(total) };
    cr_arg n = cr_arg_int(s.n_fft), hop = cr_arg_int(s.hop), one = cr_arg_int(1);
    cr_arg y = CR_RUN(&r, "unfold_backward", x, cr_arg_list(long_all, 2), one, n, hop);
    cr_arg envelope = CR_RUN(&r, "unfold_backward", CR_RUN(&r, "expand", square, cr_arg_list(spread, 3)),
                             cr_arg_list(long_one, 2), one, n, hop);
    const cr_arg *length = named(op, args, "length");
    int64_t start = center ? s.n_fft / 2 : 0;
    cr_dim end = length->kind != CR_ARG_NONE ? cr_dim_add(env, length->u.i, start)
                 : center                    ? cr_dim_sub(env, total, start)
                                             : total;
    y = CR_RUN(&r, "slice.Tensor", y, one, cr_arg_int(start), cr_arg_int(end));
    envelope = CR_RUN(&r, "slice.Tensor", envelope, one, cr_arg_int(start), cr_arg_int(end));
    if (!r.status && cr_dim_known(env, cr__run_meta(&r, &y)->size[1], CR_EQ, 0) == CR_YES)
        r.status = CR_FAIL(CR_ERUNTIME, "istft: nothing is left of the signal");
    require_overlap(&r, envelope);
    y = CR_RUN(&r, "div.Tensor", y, envelope);
    if (rank == 2) y = CR_RUN(&r, "squeeze.dim", y, cr_arg_int(0));
    /* a longer signal may have been asked for: the rest is zeros */
    if (length->kind != CR_ARG_NONE && cr_dim_known(env, end, CR_LE, total) != CR_YES) {
        cr_arg pad[2] = { cr_arg_int(0), cr_arg_int(cr_dim_max(env, cr_dim_sub(env, end, total), 0)) };
        y = CR_RUN(&r, "constant_pad_nd", y, cr_arg_list(pad, 2));
    }
    return cr__run_finish(&r, 1, &y, results);
}
