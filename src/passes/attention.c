/* attention.c: softmax(q k' * scale + mask) v is one op.
 *
 * The matrix of scores is the one buffer of a transformer that grows with the square of the sequence; the fused kernel
 * never makes it. Archives that were decomposed, and models that write attention out, have it in pieces: two batched
 * products with a softmax between them, views around both, scales on either side, and (where PyTorch decomposed its own
 * op) a guard that turns rows without any key into zeros. The fused op has that guard, too. Without it such rows are
 * NaN; so a mask is taken over from an unguarded softmax only when it is known that every row sees a key.
 *
 * What attention is told, whoever made it: a constant mask that excludes nothing is none; one that excludes what lies
 * ahead is `is_causal`, which halves the work; keys and values repeated for groups of heads are not repeated
 * (enable_gqa). */
#include "passes/internal.h"

#include <math.h>

typedef struct attention {
    cr_rewriter *w;
    cr_arg q, k, v, mask; /* k: transposed, as the product has it */
    double scale;
    bool guarded;
} attention;

static const cr_meta *meta_of(const attention *a, const cr_arg *x) { return cr_rewrite_meta(a->w, x); }

static bool is_reshape(const cr_op *op) { return cr_op_view(op) == CR_VIEW_RESHAPE; }

static bool is_bmm(const cr_op *op) {
    const cr_product *p = &cr_op_facts(op)->product;
    return p->left && p->batched && !p->addend;
}

static bool is_last(const cr_arg *dim, int rank) {
    return dim->kind == CR_ARG_INT && (dim->u.i == -1 || dim->u.i == rank - 1);
}

/* A number, or a constant or filled tensor without dimensions. */
static bool number_of(const attention *a, const cr_arg *arg, double *out) {
    rt_scalar s;
    if (arg->kind == CR_ARG_FLOAT) return *out = arg->u.f, true;
    if (arg->kind == CR_ARG_INT && cr_dim_is_plain(arg->u.i)) return *out = (double)arg->u.i, true;
    const cr_tensor *t = cr_rewrite_constant(a->w, arg);
    if (t) return !t->meta.rank && !cr_tensor_item(t, NULL, &s) && s.kind == RT_ARG_FLOAT ? (*out = s.f, true) : false;
    const cr_node *fill = cr_rewrite_producer(a->w, arg, NULL);
    int from = fill ? cr_op_facts(fill->op)->fill - CR_FILL_FROM : -1;
    return from >= 0 && number_of(a, &fill->args[from], out);
}

/* x * number or x / number around what is left in *x. */
static void strip_scale(attention *a, cr_arg *x) {
    for (;;) {
        const cr_node *node = cr_rewrite_producer(a->w, x, NULL);
        double number;
        if (!node) return;
        bool mul = cr_op_facts(node->op)->role == CR_ROLE_MUL;
        if (!mul && cr_op_facts(node->op)->role != CR_ROLE_DIV) return;
        const cr_meta *from = cr_rewrite_meta(a->w, &node->args[0]), *to = cr_rewrite_meta(a->w, x);
        if (!from || from->dtype != to->dtype || from->rank != to->rank || !number_of(a, &node->args[1], &number) ||
            !isfinite(number) || number == 0)
            return;
        a->scale *= mul ? number : 1 / number;
        *x = node->args[0];
    }
}

/* What a reshape to three dimensions was made of, if that has the leading dimensions of `like`. */
static void unfold(const attention *a, cr_arg *x, const cr_meta *like) {
    const cr_node *node = cr_rewrite_producer(a->w, x, NULL);
    const cr_meta *now = meta_of(a, x);
    if (now->rank != like->rank) {
        const cr_meta *from = node && is_reshape(node->op) ? meta_of(a, &node->args[0]) : NULL;
        if (!from || from->rank != like->rank || from->size[from->rank - 1] != now->size[now->rank - 1] ||
            from->size[from->rank - 2] != now->size[now->rank - 2])
            return;
        for (int d = 0; d < like->rank - 2; d++)
            if (from->size[d] != like->size[d]) return;
        *x = node->args[0];
    }
    const cr_node *copy = cr_rewrite_producer(a->w, x, "aten::clone");
    if (copy) *x = copy->args[0]; /* it only changed the layout */
}

/* Where that did not find one: a dimension can always be taken apart by a view. */
static cr_status split_heads(attention *a, cr_arg *x, const cr_meta *like) {
    const cr_meta *m = meta_of(a, x);
    cr_arg sizes[CR_MAX_RANK];
    if (m->rank == like->rank) return CR_OK;
    for (int d = 0; d < like->rank; d++)
        sizes[d] = cr_arg_int(d < like->rank - 2 ? like->size[d] : m->size[m->rank - (like->rank - d)]);
    return cr_rewrite_call(a->w, "aten::view", (cr_arg[]){ *x, cr_arg_list(sizes, like->rank) }, 2, x);
}

/* ---- the pieces ---- */

/* where(no key at all, 0, softmax(s)): the guard of rows that see nothing. */
static const cr_node *guarded_softmax(const attention *a, const cr_node *where) {
    double zero;
    const cr_node *softmax = cr_rewrite_producer(a->w, &where->args[2], "aten::_softmax");
    const cr_node *none = cr_rewrite_producer(a->w, &where->args[0], "aten::logical_not");
    const cr_node *any = none ? cr_rewrite_producer(a->w, &none->args[0], "aten::any.dim") : NULL;
    const cr_node *seen = any ? cr_rewrite_producer(a->w, &any->args[0], "aten::logical_not") : NULL;
    const cr_node *hidden = seen ? cr_rewrite_producer(a->w, &seen->args[0], "aten::eq.Scalar") : NULL;
    if (!softmax || !hidden || !number_of(a, &where->args[1], &zero) || zero != 0) return NULL;
    int rank = cr_rewrite_meta(a->w, &where->args[2])->rank;
    if (!is_last(&any->args[1], rank) || any->args[2].kind != CR_ARG_BOOL || !any->args[2].u.i) return NULL;
    if (hidden->args[1].kind != CR_ARG_FLOAT || hidden->args[1].u.f != -INFINITY ||
        hidden->args[0].u.i != softmax->args[0].u.i)
        return NULL;
    return softmax;
}

static const cr_node *find_softmax(attention *a, const cr_arg *p) {
    const cr_node *node = cr_rewrite_producer(a->w, p, NULL);
    if (!node || !cr_rewrite_single(a->w, p)) return NULL; /* somebody wants to see the weights */
    const cr_node *softmax = cr_op_facts(node->op)->reduce.kind == CR_REDUCE_SOFTMAX ? node : NULL;
    const cr_node *where = cr_rewrite_producer(a->w, p, "aten::where.self");
    if (where) {
        softmax = guarded_softmax(a, where);
        a->guarded = softmax;
    }
    return softmax && is_last(&softmax->args[1], meta_of(a, p)->rank) && softmax->args[2].kind == CR_ARG_BOOL &&
                   !softmax->args[2].u.i
               ? softmax
               : NULL;
}

/* where(keep, 0, -inf) says as much as `keep`. */
static void simplify_mask(attention *a) {
    const cr_node *where = cr_rewrite_producer(a->w, &a->mask, "aten::where.self");
    double kept, hidden;
    if (!where || !number_of(a, &where->args[1], &kept) || !number_of(a, &where->args[2], &hidden) || kept != 0 ||
        hidden != -INFINITY)
        return;
    const cr_meta *keep = meta_of(a, &where->args[0]);
    if (keep && keep->dtype == CR_BOOL && keep->rank >= 2) a->mask = where->args[0];
}

/* Is it the product of queries and keys, or the view of it? */
static bool is_product(const attention *a, const cr_arg *x) {
    const cr_node *made = cr_rewrite_producer(a->w, x, NULL);
    if (made && is_reshape(made->op)) made = cr_rewrite_producer(a->w, &made->args[0], NULL);
    return made && is_bmm(made->op);
}

/* The mask turned round: what was hidden is kept. A constant stays one. */
static cr_status invert(attention *a, const cr_arg *hidden, cr_arg *out) {
    cr_tensor *t = cr_rewrite_constant(a->w, hidden);
    cr_arg result = cr_arg_none(), args[] = { cr_arg_tensor(t) };
    if (!t) return cr_rewrite_call(a->w, "aten::logical_not", hidden, 1, out);
    CR_TRY(cr__evaluate(cr_op_find("aten::logical_not"), args, &result));
    cr_status status = cr_rewrite_add_constant(a->w, "keep", result.u.t, out);
    cr_results_release(&result, 1);
    return status;
}

/* masked_fill(scores, hidden, -inf), where(hidden, -inf, scores) or where(keep, scores, -inf). In f32, where the kernel
 * overwrites hidden scores, too, rather than adding to them: a NaN among them stays hidden. */
static cr_status take_filled(attention *a, const cr_arg *scores, cr_arg *product) {
    const cr_node *fill = cr_rewrite_producer(a->w, scores, "aten::masked_fill.Scalar");
    const cr_node *where = cr_rewrite_producer(a->w, scores, "aten::where.self"), *node = fill ? fill : where;
    if (!node) return CR_OK;
    double number;
    bool keeps = where && number_of(a, &node->args[2], &number);
    if (!keeps && !number_of(a, fill ? &node->args[2] : &node->args[1], &number)) return CR_OK;
    const cr_arg *mask = &node->args[fill ? 1 : 0], *inner = &node->args[fill ? 0 : keeps ? 1 : 2];
    const cr_meta *m = meta_of(a, mask), *to = meta_of(a, scores), *from = meta_of(a, inner);
    if (number != -INFINITY || to->dtype != CR_F32 || !m || m->dtype != CR_BOOL || m->rank < 2 || !from ||
        from->rank != to->rank || from->dtype != to->dtype)
        return CR_OK;
    for (int d = 0; d < to->rank; d++)
        if (from->size[d] != to->size[d]) return CR_OK;
    cr_arg stripped = *inner;
    attention without = *a;
    strip_scale(&without, &stripped);
    if (!is_product(a, &stripped) || (!a->guarded && !cr_rewrite_constant(a->w, mask))) return CR_OK;
    a->mask = *mask;
    if (!keeps) CR_TRY(invert(a, mask, &a->mask));
    a->scale = without.scale;
    *product = stripped;
    return CR_OK;
}

/* scores = product * scale + mask; *product is the batched product or the view of it. */
static bool take_scores(attention *a, const cr_arg *scores, cr_arg *product) {
    const cr_meta *meta = meta_of(a, scores);
    const cr_node *add = cr_rewrite_producer(a->w, scores, "aten::add.Tensor");
    *product = *scores;
    for (int i = 0; add && i < 2; i++) {
        const cr_meta *part = meta_of(a, &add->args[i]), *mask = meta_of(a, &add->args[1 - i]);
        cr_arg inner = add->args[i];
        attention without = *a;
        if (!part || !mask || part->rank != meta->rank || mask->rank < 2 || mask->rank > meta->rank ||
            mask->dtype != meta->dtype || !cr_arg_is_int(&add->args[2], 1))
            continue;
        strip_scale(&without, &inner);
        if (!is_product(a, &inner)) continue;
        for (int d = 0; d < meta->rank; d++)
            if (part->size[d] != meta->size[d]) return false;
        a->mask = add->args[1 - i];
        a->scale = without.scale;
        *product = inner;
        return true;
    }
    strip_scale(a, product);
    return true;
}

/* ---- masks that are constants ---- */

/* row, key: strides in elements */
typedef struct mask_view { const char *p; bool floats; int64_t rows, keys, row, key; } mask_view;

/* One matrix, whatever the batch; NULL: it differs, or it is no constant. */
static bool read_mask(const cr_rewriter *w, const cr_arg *a, mask_view *out) {
    const cr_tensor *t = cr_rewrite_constant(w, a);
    if (!t || t->meta.rank < 2 || (t->meta.dtype != CR_BOOL && t->meta.dtype != CR_F32)) return false;
    for (int d = 0; d < t->meta.rank - 2; d++)
        if (t->meta.size[d] != 1 && t->meta.stride[d] != 0) return false;
    rt_view v = cr_tensor_view(t);
    *out = (mask_view){
        v.p, v.dtype == RT_F32, v.size[v.rank - 2], v.size[v.rank - 1], v.stride[v.rank - 2], v.stride[v.rank - 1]
    };
    return out->rows > 0 && out->keys > 0;
}

enum { MASK_KEEPS, MASK_HIDES, MASK_OTHER };
static inline int mask_at(const mask_view *m, int64_t i, int64_t j) {
    int64_t at = i * m->row + j * m->key;
    if (!m->floats) return m->p[at] ? MASK_KEEPS : MASK_HIDES;
    float f;
    memcpy(&f, m->p + at * (int64_t)sizeof f, sizeof f);
    return f == 0 ? MASK_KEEPS : f == -INFINITY ? MASK_HIDES : MASK_OTHER;
}

static bool every_row_sees(const mask_view *m) {
    for (int64_t i = 0; i < m->rows; i++) {
        int64_t j = 0;
        while (j < m->keys && mask_at(m, i, j) == MASK_HIDES) j++;
        if (j == m->keys) return false;
    }
    return true;
}

/* Key j is hidden from query i exactly if j > i + ahead (ahead: keys, for none at all). */
static bool hides_after(const mask_view *m, int64_t ahead) {
    for (int64_t i = 0; i < m->rows; i++)
        for (int64_t j = 0; j < m->keys; j++)
            if (mask_at(m, i, j) != (j > i + ahead ? MASK_HIDES : MASK_KEEPS)) return false;
    return true;
}

/* ---- finding it ---- */

static cr_status emit(attention *a, const cr_node *node, const cr_meta *like, bool *done) {
    cr_arg k, results[2] = { { 0 } };
    const cr_op *op = cr_op_find("aten::scaled_dot_product_attention");
    int rank = like->rank;
    CR_TRY(split_heads(a, &a->q, like));
    CR_TRY(split_heads(a, &a->k, like));
    CR_TRY(split_heads(a, &a->v, like));
    CR_TRY(cr_rewrite_call(a->w, "aten::transpose.int", (cr_arg[]){ a->k, cr_arg_int(rank - 2), cr_arg_int(rank - 1) },
                           3, &k));
    cr_arg scale = cr_arg_float(a->scale);
    scale.given = CR_GIVEN_KEYWORD;
    cr_arg args[] = { a->q, k, a->v, a->mask, cr_arg_float(0), cr_arg_bool(false), scale, cr_arg_bool(false) };
    for (int i = 3; i < 6; i++) args[i].given = args[i].kind == CR_ARG_VALUE ? CR_GIVEN_POSITIONAL : CR_GIVEN_DEFAULT;
    args[7].given = CR_GIVEN_DEFAULT;
    CR_TRY(cr_rewrite_op(a->w, op, args, results));
    *done = true;
    return cr_rewrite_result(a->w, node, 0, results[0]);
}

/* `weights` @ `values`, both as the batched product has them, with `like` the sizes of the result. */
static cr_status match(attention *a, const cr_node *node, const cr_arg *weights, const cr_arg *values,
                       const cr_meta *like, bool *done) {
    cr_arg p = *weights, product;
    if (!like || like->rank < 3 || (like->dtype != CR_F32 && like->dtype != CR_F64)) return CR_OK;
    if (!cr_rewrite_single(a->w, &p)) return CR_OK;
    unfold(a, &p, like);
    const cr_node *softmax = meta_of(a, &p)->rank == like->rank ? find_softmax(a, &p) : NULL;
    if (!softmax || meta_of(a, &p)->dtype != like->dtype || !take_scores(a, &softmax->args[0], &product)) return CR_OK;
    if (a->mask.kind == CR_ARG_NONE) CR_TRY(take_filled(a, &product, &product));
    const cr_node *bmm = cr_rewrite_producer(a->w, &product, NULL);
    if (bmm && is_reshape(bmm->op)) bmm = cr_rewrite_producer(a->w, &bmm->args[0], NULL);
    if (!bmm || !is_bmm(bmm->op)) return CR_OK;
    const cr_meta *s = meta_of(a, &softmax->args[0]), *q = meta_of(a, &bmm->args[0]), *k = meta_of(a, &bmm->args[1]),
                  *v = meta_of(a, values);
    int r = like->rank;
    if (s->rank != r || s->size[r - 2] != q->size[1] || s->size[r - 1] != k->size[2] || q->size[2] != k->size[1] ||
        v->size[1] != k->size[2])
        return CR_OK;
    for (int d = 0; d < r - 2; d++)
        if (s->size[d] != like->size[d]) return CR_OK;
    a->q = bmm->args[0], a->k = bmm->args[1], a->v = *values;
    unfold(a, &a->q, like);
    unfold(a, &a->k, like);
    unfold(a, &a->v, like);
    strip_scale(a, &a->q);
    strip_scale(a, &a->k);
    mask_view mask;
    if (!a->guarded && a->mask.kind != CR_ARG_NONE && !(read_mask(a->w, &a->mask, &mask) && every_row_sees(&mask)))
        return CR_OK;
    simplify_mask(a);
    return emit(a, node, like, done);
}

/* The product of softmax and values in three dimensions; four are put together by the view that follows. */
static cr_status from_bmm(attention *a, const cr_node *node, const cr_arg *args, bool *done) {
    const cr_node *view = cr_rewrite_producer(a->w, &args[0], NULL);
    if (view && is_reshape(view->op)) return CR_OK;
    return match(a, node, &args[0], &args[1], cr_graph_value(cr_rewrite_source(a->w), node->first)->meta, done);
}

static cr_status from_view(attention *a, const cr_node *node, const cr_arg *args, bool *done) {
    const cr_node *bmm = cr_rewrite_single(a->w, &args[0]) ? cr_rewrite_producer(a->w, &args[0], "aten::bmm") : NULL;
    const cr_meta *to = cr_graph_value(cr_rewrite_source(a->w), node->first)->meta, *from = meta_of(a, &args[0]);
    if (!bmm || !to || to->rank != 4 || from->rank != 3 || to->size[2] != from->size[1] || to->size[3] != from->size[2])
        return CR_OK;
    return match(a, node, &bmm->args[0], &bmm->args[1], to, done);
}

/* ---- what attention is told ---- */

/* Heads that were repeated `times` times for their group of queries, with a copy or without: *one is what was repeated,
 * with a dimension of size 1 between heads and length: reshape(expand(unsqueeze(x, 2))). */
static bool repeated_heads(const attention *a, const cr_arg *heads, cr_arg *one, cr_dim *times) {
    const cr_node *node = cr_rewrite_producer(a->w, heads, NULL);
    const cr_meta *to = meta_of(a, heads);
    if (!node || !is_reshape(node->op) || to->rank != 4) return false;
    cr_arg wide = node->args[0];
    while ((node = cr_rewrite_producer(a->w, &wide, NULL)) && is_reshape(node->op)) wide = node->args[0];
    if (node && cr_op_facts(node->op)->copy == CR_COPY_PLAIN) wide = node->args[0];
    const cr_node *expand = cr_rewrite_producer(a->w, &wide, "aten::expand");
    if (!expand) return false;
    const cr_meta *m = meta_of(a, &wide), *x = meta_of(a, &expand->args[0]);
    if (m->rank != 5 || x->rank != 5 || x->size[2] != 1 || m->size[0] != x->size[0] || m->size[1] != x->size[1] ||
        m->size[3] != x->size[3] || m->size[4] != x->size[4])
        return false;
    if (to->size[0] != m->size[0] || to->size[2] != m->size[3] || to->size[3] != m->size[4] ||
        !cr_dim_is_plain(m->size[2]) || !cr_dim_is_plain(m->size[1]))
        return false;
    if (to->size[1] != m->size[1] * m->size[2]) return false;
    *one = expand->args[0];
    *times = m->size[2];
    return true;
}

/* Without that dimension. */
static cr_status drop_group(const attention *a, cr_arg *heads) {
    const cr_node *unsqueeze = cr_rewrite_producer(a->w, heads, "aten::unsqueeze");
    if (unsqueeze && cr_arg_is_int(&unsqueeze->args[1], 2)) return *heads = unsqueeze->args[0], CR_OK;
    return cr_rewrite_call(a->w, "aten::squeeze.dim", (cr_arg[]){ *heads, cr_arg_int(2) }, 2, heads);
}

static cr_status tell(attention *a, const cr_node *node, const cr_arg *args, bool *done) {
    cr_arg better[8], results[2] = { { 0 } }, k, v;
    cr_dim times, other;
    mask_view mask;
    bool any = false;
    for (int i = 0; i < 8; i++) better[i] = args[i];
    bool plain = args[5].kind == CR_ARG_BOOL && !args[5].u.i && args[7].kind == CR_ARG_BOOL && !args[7].u.i;
    if (!plain) return CR_OK;
    if (args[3].kind == CR_ARG_VALUE) {
        a->mask = args[3];
        simplify_mask(a);
        any = a->mask.u.i != args[3].u.i;
        better[3] = a->mask;
    }
    if (args[3].kind == CR_ARG_VALUE && read_mask(a->w, &better[3], &mask)) {
        bool nothing = hides_after(&mask, mask.keys), causal = !nothing && hides_after(&mask, 0);
        const cr_meta *q = meta_of(a, &args[0]), *kk = meta_of(a, &args[1]);
        causal &= q->size[q->rank - 2] == mask.rows && kk->size[kk->rank - 2] == mask.keys;
        if (nothing || causal) better[3] = (cr_arg){ .kind = CR_ARG_NONE, .given = causal };
        if (causal) better[4].given = CR_GIVEN_POSITIONAL, better[5] = cr_arg_bool(true);
        any |= nothing || causal;
    }
    if (repeated_heads(a, &args[1], &k, &times) && repeated_heads(a, &args[2], &v, &other) && times == other &&
        times > 1) {
        CR_TRY(drop_group(a, &k));
        CR_TRY(drop_group(a, &v));
        better[1] = k, better[2] = v, better[7] = cr_arg_bool(true);
        better[7].given = CR_GIVEN_KEYWORD;
        any = true;
    }
    if (!any) return CR_OK;
    CR_TRY(cr_rewrite_op(a->w, node->op, better, results));
    *done = true;
    return cr_rewrite_result(a->w, node, 0, results[0]);
}

static cr_status rule(cr_rewriter *w, const cr_node *node, const cr_arg *args, bool *done) {
    attention a = { .w = w, .mask = cr_arg_none(), .scale = 1 };
    if (is_bmm(node->op)) return from_bmm(&a, node, args, done);
    if (is_reshape(node->op)) return from_view(&a, node, args, done);
    return cr_op_is(node->op, "aten::scaled_dot_product_attention") ? tell(&a, node, args, done) : CR_OK;
}

cr_status cr_pass_attention(const cr_graph *g, cr_graph **out) {
    return cr_rewrite(g, rule, NULL, out);
}
