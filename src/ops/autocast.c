/* autocast.c: mixed precision on the CPU: PyTorch's policies by op, and the calls that follow them.
 *
 * While a thread has autocast on, the floating-point arguments of some ops are cast before the call, to the lower
 * dtype, to float32, or to the widest among them; an op without a policy is called as it is, and what it consists of is
 * cast inside. A region of mixed precision in an archive has no code of its own either: the reader (src/export) writes
 * the casts down as nodes, by the same policies, and so does a recording: the casts are calls like any other. */
#include "ops/autocast.h"

typedef enum policy { LOWER, FLOAT32, WIDEST } policy;

static const struct { const char *name; policy policy; } rows[] = {
#define X(name) { #name, LOWER },
    X(conv1d) X(conv2d) X(conv3d) X(conv_tbc) X(conv_transpose1d) X(conv_transpose2d) X(conv_transpose3d)
        X(_convolution) X(linear) X(matmul) X(mm) X(bmm) X(addmm) X(addbmm) X(baddbmm) X(_addmm_activation)
            X(linalg_vecdot) X(prelu) X(scaled_dot_product_attention) X(_native_multi_head_attention)
#undef X
#define X(name) { #name, FLOAT32 },
                X(adaptive_avg_pool3d) X(adaptive_max_pool3d) X(avg_pool3d) X(binary_cross_entropy)
                    X(binary_cross_entropy_with_logits) X(cdist) X(cholesky) X(cholesky_inverse) X(cholesky_solve) X(
                        cosine_embedding_loss) X(cross_entropy_loss) X(ctc_loss) X(fft_fft) X(fft_fft2) X(fft_fftn)
                        X(fft_hfft) X(fft_ifft) X(fft_ifft2) X(fft_ifftn) X(fft_ihfft) X(fft_irfft) X(fft_irfft2) X(
                            fft_irfftn) X(fft_rfft) X(fft_rfft2) X(fft_rfftn) X(fractional_max_pool2d)
                            X(fractional_max_pool3d) X(geqrf) X(grid_sampler) X(grid_sampler_2d) X(grid_sampler_3d) X(
                                hinge_embedding_loss) X(huber_loss) X(inverse) X(kl_div) X(l1_loss) X(linalg_cholesky)
                                X(linalg_cholesky_ex) X(linalg_cond) X(linalg_eig) X(linalg_eigh) X(linalg_eigvals)
                                    X(linalg_eigvalsh) X(linalg_householder_product) X(linalg_inv) X(linalg_inv_ex)
                                        X(linalg_lstsq) X(linalg_matrix_rank) X(linalg_qr) X(linalg_solve) X(linalg_svd)
                                            X(linalg_svdvals) X(linalg_tensorinv) X(linalg_tensorsolve) X(lu_solve)
                                                X(margin_ranking_loss) X(max_pool3d) X(max_unpool2d) X(max_unpool3d)
                                                    X(mse_loss) X(multi_margin_loss) X(multilabel_margin_loss)
                                                        X(nanquantile) X(nll_loss) X(nll_loss2d) X(orgqr) X(ormqr)
                                                            X(pinverse) X(poisson_nll_loss) X(polar) X(prod) X(qr)
                                                                X(quantile) X(reflection_pad1d) X(reflection_pad2d)
                                                                    X(replication_pad1d) X(replication_pad2d)
                                                                        X(replication_pad3d) X(smooth_l1_loss)
                                                                            X(soft_margin_loss) X(stft) X(svd) X(trace)
                                                                                X(triangular_solve)
                                                                                    X(triplet_margin_loss)
                                                                                        X(view_as_complex)
#undef X
                                                                                            { "cat", WIDEST },
    { "stack", WIDEST },
    { "index_copy", WIDEST },
};

int cr_autocast_dtype(const cr_op *op, int lower, int widest) {
    if (op->variant != CR_FUNCTIONAL || strcmp(op->schema.ns, "aten")) return -1;
    for (size_t i = 0; i < CR_COUNT(rows); i++)
        if (!strcmp(rows[i].name, op->schema.name))
            return rows[i].policy == LOWER     ? lower
                   : rows[i].policy == FLOAT32 ? CR_F32
                                               : cr_promote_types(lower, widest);
    return -1;
}

/* ---- calls ---- */

typedef struct casts {
    const cr_op *op;
    int to;
    cr_arena arena;
    CR_VEC(cr_tensor *) made;
} casts;

static bool is_eligible(const cr_arg *a) {
    return a->kind == CR_ARG_TENSOR && a->u.t->meta.device.type == CR_CPU && cr_autocast_eligible(a->u.t->meta.dtype);
}

static void see_widest(const cr_arg *a, int *widest) {
    for (uint32_t i = 0; a->kind == CR_ARG_LIST && i < a->n; i++) see_widest(&a->u.list[i], widest);
    if (!is_eligible(a)) return;
    int dtype = a->u.t->meta.dtype;
    *widest = *widest < 0 ? dtype : cr_promote_types(*widest, dtype);
}

static cr_status cast_tensor(casts *c, cr_arg *a) {
    const cr_call_mode *mode = &cr_ambient_get()->mode;
    /* the node that is recorded would be the whole op, and its run would cast nothing */
    if (mode->recorder && mode->depth)
        return CR_FAIL(CR_ENOTIMPL,
                       "autocast casts an argument of '%s' inside of another op, which cannot be recorded: cast its "
                       "arguments with .to(dtype) and call it under autocast(enabled=False)",
                       c->op->name);
    const cr_op *to = cr_op_find("aten::to.dtype");
    cr_arg args[] = { *a, cr_arg_dtype(c->to), cr_arg_bool(false), cr_arg_bool(false), cr_arg_none() },
           made = cr_arg_none();
    if (!to) return CR_FAIL(CR_ENOTIMPL, "there is no op 'aten::to.dtype'");
    CR_TRY(cr_vec_reserve(&c->made, c->made.n + 1));
    CR_TRY(cr_call(to, args, &made));
    c->made.at[c->made.n++] = made.u.t;
    a->u.t = made.u.t;
    return CR_OK;
}

static cr_status cast_arg(casts *c, cr_arg *a) {
    if (is_eligible(a)) return a->u.t->meta.dtype == c->to ? CR_OK : cast_tensor(c, a);
    if (a->kind != CR_ARG_LIST) return CR_OK;
    cr_arg *items = cr_arena_copy(&c->arena, a->u.list, a->n * sizeof *items);
    if (!items) return CR_ENOMEM;
    for (uint32_t i = 0; i < a->n; i++) CR_TRY(cast_arg(c, &items[i]));
    a->u.list = items;
    return CR_OK;
}

/* An eager LSTM is one call of a library in PyTorch, which takes the lower dtype; a region of an archive says float32
 * of it. */
static int policy_of(const cr_op *op, int lower, int widest) {
    bool lstm = op->variant == CR_FUNCTIONAL && !strcmp(op->schema.ns, "aten") && !strcmp(op->schema.name, "lstm");
    return widest < 0 ? -1 : lstm ? lower : cr_autocast_dtype(op, lower, widest);
}

cr_status cr__autocast_call(const cr_op *op, const cr_arg *args, cr_arg *results, bool *done) {
    cr_autocast *autocast = &cr_ambient_get()->mode.autocast, before = *autocast;
    int widest = -1;
    for (uint16_t i = 0; i < op->schema.nparams; i++) see_widest(&args[i], &widest);
    casts c = { .op = op, .to = policy_of(op, before.dtype, widest) };
    *done = c.to >= 0;
    if (!*done) return CR_OK;
    cr_arg given[CR_MAX_PARAMS];
    memcpy(given, args, op->schema.nparams * sizeof *given);
    cr_arena_init(&c.arena);
    autocast->enabled = false;
    cr_status status = CR_OK;
    for (uint16_t i = 0; i < op->schema.nparams && !status; i++) status = cast_arg(&c, &given[i]);
    if (!status) status = cr_call(op, given, results);
    *autocast = before;
    for (size_t i = 0; i < c.made.n; i++) cr_tensor_release(c.made.at[i]);
    cr_vec_dispose(&c.made);
    cr_arena_dispose(&c.arena);
    return status;
}
