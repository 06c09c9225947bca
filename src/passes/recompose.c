/* recompose.c: what archives have in pieces becomes one op again.
 *
 * Programs that went through run_decompositions() have linear as views around addmm with a permuted weight, and
 * activations as arithmetic. Kernels and later passes know linear, silu and gelu; both dialects must come out alike.
 *
 *     mm(x, w), addmm(b, x, w), bmm(x, expand(w)), w constant   ->  linear(x, w', b)
 *     linear(view(x, [-1, k]), w, b)                            ->  view(linear(x, w, b), [-1, n])
 *     x * sigmoid(x)                                            ->  silu(x)
 *     0.5 x (1 + erf(x / sqrt 2)), 0.5 x (1 + tanh(...))        ->  gelu(x)
 *     bmm(contiguous(x), ...)                                   ->  bmm(x, ...): products read any strides */
#include "passes/internal.h"

#include <math.h>

static bool is_one(const cr_arg *a) {
    return (a->kind == CR_ARG_INT && a->u.i == 1) || (a->kind == CR_ARG_FLOAT && a->u.f == 1);
}

static bool is_f32_or_f64(const cr_meta *m) { return m && (m->dtype == CR_F32 || m->dtype == CR_F64); }

/* ---- linear ---- */

/* linear's weight for the constant right operand of a product, in whose memory it stays. */
static cr_status transposed(cr_rewriter *w, const cr_arg *operand, cr_tensor *t, cr_arg *out) {
    cr_meta meta;
    cr_meta_copy(&meta, &t->meta);
    int n = meta.rank;
    meta.rank = 2; /* of a batch of equal matrices the first */
    meta.size[0] = t->meta.size[n - 1], meta.size[1] = t->meta.size[n - 2];
    meta.stride[0] = t->meta.stride[n - 1], meta.stride[1] = t->meta.stride[n - 2];
    const cr_graph *g = cr_rewrite_graph(w);
    cr_tensor *view = NULL;
    CR_TRY(cr_tensor_on(t->storage, &meta, NULL, NULL, &view));
    cr_status status =
        cr_rewrite_add_constant(w, cr_graph_node(g, cr_graph_value(g, (uint32_t)operand->u.i)->node)->target, view,
                                out);
    cr_tensor_release(view);
    return status;
}

/* linear(x, weight, bias). Rows that were put into one dimension for the product are taken as they were before; what
 * follows sees a view, of which views that take them apart again are part. */
static cr_status emit_linear(cr_rewriter *w, const cr_node *node, cr_arg x, cr_arg weight, cr_arg bias) {
    const cr_node *view = cr_rewrite_producer(w, &x, NULL);
    const cr_meta *rows = cr_rewrite_meta(w, &x), *result = cr_graph_value(cr_rewrite_source(w), node->first)->meta;
    cr_arg made, sizes[CR_MAX_RANK];
    bool merged = view && cr_op_view(view->op) == CR_VIEW_RESHAPE;
    const cr_meta *from = merged ? cr_rewrite_meta(w, &view->args[0]) : NULL;
    merged = from && rows->rank == 2 && from->rank > 2 && from->size[from->rank - 1] == rows->size[1];
    CR_TRY(cr_rewrite_call(w, "aten::linear", (cr_arg[]){ merged ? view->args[0] : x, weight, bias },
                           bias.kind == CR_ARG_NONE ? 2 : 3, &made));
    for (int d = 0; d < result->rank; d++) sizes[d] = cr_arg_int(result->size[d]);
    if (merged)
        CR_TRY(cr_rewrite_call(w, "aten::view", (cr_arg[]){ made, cr_arg_list(sizes, result->rank) }, 2, &made));
    return cr_rewrite_result(w, node, 0, made);
}

static cr_status make_linear(cr_rewriter *w, const cr_node *node, const cr_arg *x, const cr_arg *right,
                             const cr_arg *bias, bool *done) {
    cr_tensor *t = cr_rewrite_constant(w, right);
    const cr_meta *m = cr_rewrite_meta(w, x);
    if (!t || !m || t->meta.rank < 2 || !cr_dtype_is_floating(m->dtype) || m->dtype != t->meta.dtype) return CR_OK;
    for (int d = 0; d < t->meta.rank - 2; d++)
        if (t->meta.size[d] != 1 && t->meta.stride[d] != 0) return CR_OK; /* matrices that differ */
    if (bias) {
        const cr_meta *b = cr_rewrite_meta(w, bias);
        if (!b || b->rank != 1 || b->dtype != m->dtype || b->size[0] != t->meta.size[t->meta.rank - 1]) return CR_OK;
    }
    cr_arg weight;
    CR_TRY(transposed(w, right, t, &weight));
    *done = true;
    return emit_linear(w, node, *x, weight, bias ? *bias : cr_arg_none());
}

/* A linear whose rows were merged before it. */
static cr_status linear(cr_rewriter *w, const cr_node *node, const cr_arg *args, bool *done) {
    const cr_node *view = cr_rewrite_producer(w, &args[0], "aten::view");
    const cr_meta *from = view ? cr_rewrite_meta(w, &view->args[0]) : NULL, *rows = cr_rewrite_meta(w, &args[0]),
                  *weight = cr_rewrite_meta(w, &args[1]);
    if (!from || rows->rank != 2 || from->rank <= 2 || !weight || weight->rank != 2 ||
        from->size[from->rank - 1] != rows->size[1])
        return CR_OK;
    *done = true;
    return emit_linear(w, node, args[0], args[1], args[2]);
}

/* A copy that only changed the layout; the product reads what was copied. */
static cr_status product_of_copy(cr_rewriter *w, const cr_node *node, const cr_arg *args, bool *done) {
    cr_arg better[CR_MAX_PARAMS], results[2] = { { 0 } };
    bool any = false;
    for (uint16_t i = 0; i < node->nargs; i++) {
        better[i] = args[i];
        const cr_node *copy = cr_rewrite_producer(w, &args[i], "aten::clone");
        const cr_meta *from = copy ? cr_rewrite_meta(w, &copy->args[0]) : NULL;
        bool rows = from && from->rank >= 2 && (from->stride[from->rank - 1] == 1 || from->stride[from->rank - 2] == 1);
        if (!rows || !cr_rewrite_single(w, &args[i]) || (from->flags & (CR_META_CONJ | CR_META_NEG))) continue;
        better[i] = copy->args[0];
        any = true;
    }
    if (!any) return CR_OK;
    CR_TRY(cr_rewrite_op(w, node->op, better, results));
    *done = true;
    return cr_rewrite_result(w, node, 0, results[0]);
}

/* Any product but linear itself. */
static cr_status product(cr_rewriter *w, const cr_node *node, const cr_arg *args, bool *done) {
    const cr_product *p = &cr_op_facts(node->op)->product;
    bool plain = !p->beta || (is_one(&args[p->beta - 1]) && is_one(&args[p->beta]));
    const cr_arg *bias = p->addend ? &args[p->addend - 1] : NULL;
    if (plain) CR_TRY(make_linear(w, node, &args[p->left - 1], &args[p->right - 1], bias, done));
    return *done ? CR_OK : product_of_copy(w, node, args, done);
}

/* ---- activations ---- */

/* The number of a call such as mul(x, 0.5), and x. The number may stand on either side. */
static bool with_number(const cr_rewriter *w, const cr_arg *a, cr_role role, double *number, cr_arg *x) {
    const cr_node *node = cr_rewrite_producer(w, a, NULL);
    if (!node || cr_op_facts(node->op)->role != role || (node->nargs > 2 && !is_one(&node->args[2]))) return false;
    for (int i = 0; i < 2; i++) {
        const cr_arg *n = &node->args[i];
        const cr_tensor *t = cr_rewrite_constant(w, n);
        rt_scalar s = { .kind = -1 };
        if (n->kind == CR_ARG_FLOAT) s = (rt_scalar){ .kind = RT_ARG_FLOAT, .f = n->u.f };
        else if (n->kind == CR_ARG_INT && cr_dim_is_plain(n->u.i))
            s = (rt_scalar){ .kind = RT_ARG_FLOAT, .f = (double)n->u.i };
        else if (t && !t->meta.rank && cr_tensor_item(t, NULL, &s)) continue;
        if (s.kind != RT_ARG_FLOAT) continue;
        *number = s.f;
        *x = node->args[1 - i];
        return x->kind == CR_ARG_VALUE;
    }
    return false;
}

static bool is_near(double a, double b) { return fabs(a - b) <= 1e-6 * fabs(b); }
static bool same_value(const cr_arg *a, const cr_arg *b) {
    return a->kind == CR_ARG_VALUE && b->kind == CR_ARG_VALUE && a->u.i == b->u.i;
}

/* x^3, as pow or as products. */
static bool is_cube(const cr_rewriter *w, const cr_arg *a, const cr_arg *x) {
    const cr_node *pow = cr_rewrite_producer(w, a, "aten::pow.Tensor_Scalar");
    if (pow)
        return same_value(&pow->args[0], x) && ((pow->args[1].kind == CR_ARG_INT && pow->args[1].u.i == 3) ||
                                                (pow->args[1].kind == CR_ARG_FLOAT && pow->args[1].u.f == 3));
    const cr_node *mul = cr_rewrite_producer(w, a, "aten::mul.Tensor");
    for (int i = 0; mul && i < 2; i++) {
        const cr_node *square = cr_rewrite_producer(w, &mul->args[i], "aten::mul.Tensor");
        if (square && same_value(&mul->args[1 - i], x) && same_value(&square->args[0], x) &&
            same_value(&square->args[1], x))
            return true;
    }
    return false;
}

/* sqrt(2 / pi) (x + 0.044715 x^3) */
static bool is_tanh_argument(const cr_rewriter *w, const cr_arg *a, const cr_arg *x) {
    double factor;
    cr_arg sum, cube;
    if (!with_number(w, a, CR_ROLE_MUL, &factor, &sum) || !is_near(factor, 0.7978845608028654)) return false;
    const cr_node *add = cr_rewrite_producer(w, &sum, "aten::add.Tensor");
    if (!add || !is_one(&add->args[2])) return false;
    for (int i = 0; i < 2; i++)
        if (same_value(&add->args[i], x) && with_number(w, &add->args[1 - i], CR_ROLE_MUL, &factor, &cube) &&
            is_near(factor, 0.044715))
            return is_cube(w, &cube, x);
    return false;
}

static cr_status gelu(cr_rewriter *w, const cr_node *node, const cr_arg *args, bool *done) {
    for (int i = 0; i < 2; i++) {
        double half, one, factor;
        cr_arg x, inner, scaled;
        if (!with_number(w, &args[i], CR_ROLE_MUL, &half, &x) || half != 0.5 ||
            !with_number(w, &args[1 - i], CR_ROLE_ADD, &one, &inner) || one != 1)
            continue;
        if (!is_f32_or_f64(cr_rewrite_meta(w, &x))) continue;
        const cr_node *erf = cr_rewrite_producer(w, &inner, "aten::erf"),
                      *tanh = cr_rewrite_producer(w, &inner, "aten::tanh");
        bool exact = erf && with_number(w, &erf->args[0], CR_ROLE_MUL, &factor, &scaled) &&
                     is_near(factor, 0.7071067811865476) && same_value(&scaled, &x);
        if (!exact && !(tanh && is_tanh_argument(w, &tanh->args[0], &x))) continue;
        cr_arg made, call[] = { x, cr_arg_str(exact ? "none" : "tanh") };
        CR_TRY(cr_rewrite_call(w, "aten::gelu", call, exact ? 1 : 2, &made));
        *done = true;
        return cr_rewrite_result(w, node, 0, made);
    }
    return CR_OK;
}

static cr_status silu(cr_rewriter *w, const cr_node *node, const cr_arg *args, bool *done) {
    for (int i = 0; i < 2; i++) {
        const cr_node *sigmoid = cr_rewrite_producer(w, &args[i], "aten::sigmoid");
        if (!sigmoid || !same_value(&sigmoid->args[0], &args[1 - i]) ||
            !is_f32_or_f64(cr_rewrite_meta(w, &args[1 - i])) || !cr_rewrite_single(w, &args[i]))
            continue;
        cr_arg made;
        CR_TRY(cr_rewrite_call(w, "aten::silu", &args[1 - i], 1, &made));
        *done = true;
        return cr_rewrite_result(w, node, 0, made);
    }
    return CR_OK;
}

static cr_status rule(cr_rewriter *w, const cr_node *node, const cr_arg *args, bool *done) {
    const cr_row *facts = cr_op_facts(node->op);
    if (facts->product.transposed) return linear(w, node, args, done);
    if (facts->product.left) return product(w, node, args, done);
    if (facts->role != CR_ROLE_MUL) return CR_OK;
    CR_TRY(silu(w, node, args, done));
    return *done ? CR_OK : gelu(w, node, args, done);
}

cr_status cr_pass_recompose(const cr_graph *g, cr_graph **out) {
    return cr_rewrite(g, rule, NULL, out);
}
