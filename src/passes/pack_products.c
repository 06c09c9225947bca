/* pack_products.c: products with constant weights become cresset::linear_packed, and what follows them moves into them.
 *
 * linear, addmm and mm whose right factor is a constant get that factor packed into panels now (docs/products.md).
 * Walking on, an activation, a factor or an addend whose other operand is such a product, and its only user, becomes
 * part of it:
 *
 *     act(x w' + bias) * scale + residual
 *
 * in this order, each at most once. A view that only regroups the rows of a product moves to its input, so that a
 * program in the core dialect (view, addmm, view) and one that says linear end up alike. A table that is also an
 * embedding is stored once: the embedding then reads the panels. */
#include "passes/internal.h"

enum { WIDTH = 16, SLACK_BYTES = 64 << 10 };
enum { INPUT, PANELS, COLUMNS, BIAS, ACT, SCALE, RESIDUAL, OPERANDS }; /* of linear_packed */

/* Weights by where they lie: folded views of one parameter are different tensors. */
typedef struct packed {
    const cr_storage *storage;
    int64_t offset, n, k, n_stride, k_stride;
    cr_tensor *panels;
} packed;
typedef struct packing { CR_VEC(packed) known; } packing;

static cr_env *env_of(const cr_rewriter *w) { return cr_graph_env(cr_rewrite_graph(w)); }
static bool equal(const cr_rewriter *w, cr_dim a, cr_dim b) { return cr_dim_known(env_of(w), a, CR_EQ, b) == CR_YES; }
static bool is_one(const cr_arg *a) {
    return (a->kind == CR_ARG_INT && a->u.i == 1) || (a->kind == CR_ARG_FLOAT && a->u.f == 1);
}
static bool is_f32(const cr_meta *m) { return m && m->dtype == CR_F32; }
static bool is_plain_tensor(const cr_tensor *t) { return t->meta.rank == 2 && t->meta.dtype == CR_F32; }

/* `n`: which dimension of the weight is the result's. */
static packed packed_key(const cr_tensor *t, int n) {
    const cr_meta *m = &t->meta;
    return (packed){ t->storage, m->offset, m->size[n], m->size[!n], m->stride[n], m->stride[!n], NULL };
}

static packed *packed_find(packing *p, const packed *key) {
    for (size_t i = 0; i < p->known.n; i++) {
        packed *k = &p->known.at[i];
        if (k->storage == key->storage && k->offset == key->offset && k->n == key->n && k->k == key->k &&
            k->n_stride == key->n_stride && k->k_stride == key->k_stride)
            return k;
    }
    return NULL;
}

/* Panels are no smaller than the weight; much larger only where that is little. */
static bool worth_packing(const packed *key) {
    int64_t columns = (key->n + WIDTH - 1) / WIDTH * WIDTH, extra = (columns - key->n) * key->k * 4;
    return key->n > 0 && key->k > 0 && (extra <= SLACK_BYTES || extra <= key->n * key->k);
}

static cr_status evaluate_panels(cr_tensor *t, int n, int64_t groups, cr_tensor **out) {
    cr_arg args[3] = { cr_arg_tensor(t), cr_arg_bool(n == 1), cr_arg_int(groups) }, result = cr_arg_none();
    CR_TRY(cr__evaluate(cr_op_find("cresset::pack_panels"), args, &result));
    *out = result.u.t;
    return CR_OK;
}

static cr_status add_panels(cr_rewriter *w, const cr_arg *weight, cr_tensor *panels, cr_arg *out) {
    const cr_graph *g = cr_rewrite_graph(w);
    cr_str name;
    cr_str_init(&name);
    cr_str_addf(&name, "%s_panels", cr_graph_node(g, cr_graph_value(g, (uint32_t)weight->u.i)->node)->target);
    cr_status status = cr_str_status(&name);
    if (!status) status = cr_rewrite_add_constant(w, cr_str_get(&name), panels, out);
    cr_str_dispose(&name);
    return status;
}

/* The constant `weight`, whose dimension `n` is the result's, as panels; NONE: it is none that the scan saw. */
static cr_status pack(cr_rewriter *w, const cr_arg *weight, int n, cr_arg *out) {
    cr_tensor *t = cr_rewrite_constant(w, weight);
    *out = cr_arg_none();
    if (!t || !is_plain_tensor(t)) return CR_OK;
    packed key = packed_key(t, n), *found = packed_find(cr_rewrite_user(w), &key);
    if (!found) return CR_OK;
    if (!found->panels) CR_TRY(evaluate_panels(t, n, 1, &found->panels));
    return add_panels(w, weight, found->panels, out);
}

/* ---- products ---- */

static cr_status product(cr_rewriter *w, const cr_node *node, const cr_arg *input, const cr_arg *weight, int n,
                         const cr_arg *bias, const cr_arg *residual, bool *done) {
    const cr_meta *x = cr_rewrite_meta(w, input), *b = cr_rewrite_meta(w, bias), *m = cr_rewrite_meta(w, weight);
    if (!is_f32(x) || !is_f32(m) || m->rank != 2 || x->rank < 1 || !cr_dim_is_plain(m->size[n])) return CR_OK;
    if (bias->kind != CR_ARG_NONE && (!is_f32(b) || b->rank != 1 || !equal(w, b->size[0], m->size[n]))) return CR_OK;
    if (residual->kind != CR_ARG_NONE && !is_f32(cr_rewrite_meta(w, residual))) return CR_OK;
    int64_t columns = m->size[n];
    cr_arg args[OPERANDS] = { *input,        cr_arg_none(), cr_arg_int(columns), *bias, cr_arg_str("none"),
                              cr_arg_none(), *residual },
           out;
    CR_TRY(pack(w, weight, n, &args[PANELS]));
    if (args[PANELS].kind == CR_ARG_NONE) return CR_OK;
    CR_TRY(cr_rewrite_call(w, "cresset::linear_packed", args, OPERANDS, &out));
    *done = true;
    return cr_rewrite_result(w, node, 0, out);
}

/* The addend of a linear is its bias, that of others a bias or one for every element. */
static cr_status rule_product(cr_rewriter *w, const cr_node *node, const cr_arg *args, bool *done) {
    const cr_product *p = &cr_op_facts(node->op)->product;
    cr_arg none = cr_arg_none();
    const cr_arg *addend = p->addend ? &args[p->addend - 1] : &none;
    const cr_meta *m = cr_rewrite_meta(w, addend);
    if (p->batched || (p->beta && (!m || !is_one(&args[p->beta - 1]) || !is_one(&args[p->beta])))) return CR_OK;
    bool bias = !p->beta || m->rank == 1;
    return product(w, node, &args[p->left - 1], &args[p->right - 1], !p->transposed, bias ? addend : &none,
                   bias ? &none : addend, done);
}

/* pack_panels(weight, transposed, groups) of a constant: packing is always done now, whatever its size. */
static cr_status rule_pack(cr_rewriter *w, const cr_node *node, const cr_arg *args, bool *done) {
    cr_tensor *t = cr_rewrite_constant(w, &args[0]), *panels = NULL;
    cr_arg out;
    if (!t) return CR_OK;
    CR_TRY(evaluate_panels(t, args[1].u.i ? 1 : 0, args[2].u.i, &panels));
    cr_status status = add_panels(w, &args[0], panels, &out);
    cr_tensor_release(panels);
    if (status) return status;
    *done = true;
    return cr_rewrite_result(w, node, 0, out);
}

/* embedding(weight, indices, ...): of a table that a product has packed. */
static cr_status rule_embedding(cr_rewriter *w, const cr_node *node, const cr_arg *args, bool *done) {
    cr_tensor *t = cr_rewrite_constant(w, &args[0]);
    if (!t || !is_plain_tensor(t)) return CR_OK;
    packed key = packed_key(t, 0);
    if (!packed_find(cr_rewrite_user(w), &key)) return CR_OK;
    cr_arg call[3] = { cr_arg_none(), args[1], cr_arg_int(key.n) }, out;
    CR_TRY(pack(w, &args[0], 0, &call[0]));
    CR_TRY(cr_rewrite_call(w, "cresset::embedding_packed", call, 3, &out));
    *done = true;
    return cr_rewrite_result(w, node, 0, out);
}

/* ---- what follows ---- */

/* The product that makes `a` and nothing else uses; NULL: there is none. */
static const cr_node *product_of(const cr_rewriter *w, const cr_arg *a) {
    const cr_node *made = cr_rewrite_producer(w, a, "cresset::linear_packed");
    return made && cr_rewrite_single(w, a) ? made : NULL;
}

static bool has(const cr_node *made, int operand) { return made->args[operand].kind != CR_ARG_NONE; }
static bool has_act(const cr_node *made) { return strcmp(made->args[ACT].u.s, "none") != 0; }

/* The product of these operands again, with one of them set, is the result of `node`. (Not of the product's node: nodes
 * move when a call is made.) */
static cr_status put(cr_rewriter *w, const cr_node *node, const cr_arg *made, int operand, cr_arg value, bool *done) {
    cr_arg args[OPERANDS], out;
    memcpy(args, made, sizeof args);
    args[operand] = value;
    CR_TRY(cr_rewrite_call(w, "cresset::linear_packed", args, OPERANDS, &out));
    *done = true;
    return cr_rewrite_result(w, node, 0, out);
}

const char *cr__activation(const cr_op *op, const cr_arg *args) {
    const char *act = cr_op_facts(op)->act;
    bool tanh = act && op->schema.nparams > 1 && args[1].kind == CR_ARG_STR && !strcmp(args[1].u.s, "tanh");
    return tanh ? "gelu_tanh" : act;
}

static cr_status rule_act(cr_rewriter *w, const cr_node *node, const cr_arg *args, bool *done) {
    const cr_node *made = product_of(w, &args[0]);
    if (!made || has_act(made) || has(made, SCALE) || has(made, RESIDUAL)) return CR_OK;
    return put(w, node, made->args, ACT, cr_arg_str(cr__activation(node->op, args)), done);
}

/* Does `a` broadcast to the product without making it larger? Its last size counts along the columns. */
static bool fits(const cr_rewriter *w, const cr_arg *a, const cr_arg *result) {
    const cr_meta *m = cr_rewrite_meta(w, a), *out = cr_rewrite_meta(w, result);
    if (!is_f32(m) || m->rank < 1 || m->rank > out->rank || !equal(w, m->size[m->rank - 1], out->size[out->rank - 1]))
        return false;
    bool vector = true, whole = m->rank == out->rank;
    for (int d = 0; d + 1 < m->rank; d++) {
        vector = vector && equal(w, m->size[d], 1);
        whole = whole && equal(w, m->size[d], out->size[d]);
    }
    return vector || whole;
}

static cr_status rule_mul(cr_rewriter *w, const cr_node *node, const cr_arg *args, bool *done) {
    for (int i = 0; i < 2 && !*done; i++) {
        const cr_node *made = product_of(w, &args[i]);
        if (made && !has(made, SCALE) && !has(made, RESIDUAL) && fits(w, &args[!i], &args[i]))
            CR_TRY(put(w, node, made->args, SCALE, args[!i], done));
    }
    return CR_OK;
}

/* add(self, other, alpha) */
static cr_status rule_add(cr_rewriter *w, const cr_node *node, const cr_arg *args, bool *done) {
    if (!is_one(&args[2])) return CR_OK;
    for (int i = 1; i >= 0 && !*done; i--) { /* x + f(x): the newer is usually on the right */
        const cr_node *made = product_of(w, &args[i]);
        if (!made || has(made, RESIDUAL) || !fits(w, &args[!i], &args[i])) continue;
        bool bias = !has(made, BIAS) && !has_act(made) && !has(made, SCALE) && cr_rewrite_meta(w, &args[!i])->rank == 1;
        CR_TRY(put(w, node, made->args, bias ? BIAS : RESIDUAL, args[!i], done));
    }
    return CR_OK;
}

/* A view of a product that keeps its last size: rows regrouped, which can as well be done to the input. */
static cr_status rule_view(cr_rewriter *w, const cr_node *node, const cr_arg *args, bool *done) {
    const cr_node *made = product_of(w, &args[0]);
    const cr_meta *to = cr_graph_value(cr_rewrite_source(w), node->first)->meta, *from = cr_rewrite_meta(w, &args[0]);
    if (!made || !to || to->rank < 1 || !equal(w, to->size[to->rank - 1], from->size[from->rank - 1])) return CR_OK;
    if (has(made, RESIDUAL) || (has(made, SCALE) && cr_rewrite_meta(w, &made->args[SCALE])->rank != 1)) return CR_OK;
    const cr_meta *x = cr_rewrite_meta(w, &made->args[INPUT]);
    const cr_arg *operands = made->args;
    cr_arg input = operands[INPUT], sizes[CR_MAX_RANK];
    /* The input often is such a view itself. */
    const cr_node *view = cr_rewrite_producer(w, &input, NULL);
    bool reshaped = view && cr_op_view(view->op) == CR_VIEW_RESHAPE;
    const cr_meta *before = reshaped ? cr_rewrite_meta(w, &view->args[0]) : NULL;
    bool same = before && before->rank == to->rank && equal(w, before->size[to->rank - 1], x->size[x->rank - 1]);
    for (int d = 0; same && d + 1 < to->rank; d++) same = equal(w, before->size[d], to->size[d]);
    if (same) {
        input = view->args[0];
    } else {
        for (int d = 0; d < to->rank; d++) {
            if (!cr_dim_is_plain(to->size[d])) return CR_OK;
            sizes[d] = cr_arg_int(to->size[d]);
        }
        sizes[to->rank - 1] = cr_arg_int(x->size[x->rank - 1]);
        cr_arg call[2] = { input, cr_arg_list(sizes, (size_t)to->rank) };
        if (!cr_dim_is_plain(x->size[x->rank - 1])) return CR_OK;
        CR_TRY(cr_rewrite_call(w, "aten::reshape", call, 2, &input));
    }
    return put(w, node, operands, INPUT, input, done);
}

static const struct { const char *op; cr_rewrite_fn *rule; } named[] = {
    { "cresset::pack_panels", rule_pack },
    { "aten::embedding", rule_embedding },
};

static cr_status rule(cr_rewriter *w, const cr_node *node, const cr_arg *args, bool *done) {
    const cr_row *facts = cr_op_facts(node->op);
    if (facts->product.left) return rule_product(w, node, args, done);
    if (facts->view == CR_VIEW_RESHAPE) return rule_view(w, node, args, done);
    if (facts->role == CR_ROLE_MUL) return rule_mul(w, node, args, done);
    if (facts->role == CR_ROLE_ADD) return rule_add(w, node, args, done);
    if (facts->act) return rule_act(w, node, args, done);
    for (size_t i = 0; i < CR_COUNT(named); i++)
        if (cr_op_is(node->op, named[i].op)) return named[i].rule(w, node, args, done);
    return CR_OK;
}

/* ---- the scan: which constants products multiply with, so that an embedding of the same table, which comes first,
 * knows ---- */

static cr_status scan(packing *p, const cr_graph *g) {
    for (uint32_t id = cr_graph_first(g); id != CR_NO_NODE; id = cr_graph_next(g, id)) {
        const cr_node *node = cr_graph_node(g, id);
        const cr_product *product = node->kind == CR_NODE_CALL ? &cr_op_facts(node->op)->product : NULL;
        if (!product || !product->left || product->batched) continue;
        const cr_arg *a = &node->args[product->right - 1];
        if (a->kind != CR_ARG_VALUE) continue;
        const cr_node *maker = cr_graph_node(g, cr_graph_value(g, (uint32_t)a->u.i)->node);
        cr_tensor *t = maker->kind == CR_NODE_GET_ATTR ? cr_graph_constant(g, maker->target) : NULL;
        if (!t || cr_tensor_is_fake(t) || !is_plain_tensor(t)) continue;
        packed key = packed_key(t, !product->transposed);
        if (!worth_packing(&key) || packed_find(p, &key)) continue;
        CR_TRY(cr_vec_reserve(&p->known, p->known.n + 1));
        p->known.at[p->known.n++] = key;
    }
    for (size_t i = 0; i < cr_graph_subgraph_count(g); i++) CR_TRY(scan(p, cr_graph_subgraph(g, i)));
    return CR_OK;
}

cr_status cr_pass_pack_products(const cr_graph *g, cr_graph **out) {
    packing p = { 0 };
    cr_status status = scan(&p, g);
    if (!status) status = cr_rewrite(g, rule, &p, out);
    for (size_t i = 0; i < p.known.n; i++) cr_tensor_release(p.known.at[i].panels);
    cr_vec_dispose(&p.known);
    return status;
}
