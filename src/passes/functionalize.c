/* functionalize.c: writes become values.
 *
 * Memory that the graph writes to is a *family*: the value that made it (its root) and all views of it, each known by
 * the call that took it from its parent. A write computes the new contents of the written view; undoing the view's call
 * puts them into its parent (slice -> slice_scatter, permute -> the inverse, view -> reshape), and so on up to the
 * root. From there on the other members are what their calls give on the new root. "x after" and the result of an
 * in-place op are the view itself.
 *
 * A family stays in place, with everything that writes to it, where that cannot be done: an op that writes several
 * arguments or changes metas in ways of its own, a view that cannot be undone (overlapping, another dtype), constants,
 * regions that write, and placeholders unless the caller wants their new values as outputs.
 *
 * With `replay` the calls are those that PyTorch's functionalisation makes: a view of memory that was written is
 * taken anew from the root, step by step, each time for itself, the written one included; copy_ stays a call of
 * copy. */
#include "graph/writes.h"
#include "ops/formula.h"
#include "ops/view.h"
#include "passes/internal.h"

typedef struct member {
    uint32_t value, parent;  /* of the old graph; parent CR_NO_VALUE: the root */
    const cr_node *node;     /* the call that takes it from its parent; NULL: it is its parent */
    const cr_op *op;         /* that call's functional op */
    uint32_t result;         /* which of its results */
    uint32_t stamp;          /* of the write that last gave its contents directly */
} member;
typedef struct family { uint64_t storage; bool stays; bool is_input; CR_VEC(uint32_t) members; } family;
typedef struct functions {
    const cr_graph *g;
    CR_VEC(family) families;
    CR_VEC(member) members;
    uint32_t *member_of;     /* per old value: member + 1 */
    uint32_t *family_of;     /* per old value: family + 1 */
    cr_arena arena;
    uint32_t stamp;
    bool any, replay;
    cr_functionalize_options *options;
} functions;

static const cr_meta *meta_of(const functions *f, uint32_t v) { return cr_graph_value(f->g, v)->meta; }

/* ---- families ---- */

static family *family_of(functions *f, uint64_t storage) {
    for (size_t i = 0; i < f->families.n; i++)
        if (f->families.at[i].storage == storage) return &f->families.at[i];
    return NULL;
}

static bool is_inplace_view(const cr_op *op) {
    return op->variant == CR_INPLACE && (op->base->tags & CR_TAG_INPLACE_VIEW);
}

/* Can this call's writes be written otherwise? */
static bool is_functional_inplace(const cr_op *op) {
    if (op->variant != CR_INPLACE || op->schema.nreturns != 1 ||
        ((op->tags | op->base->tags) & (CR_TAG_METADATA | CR_TAG_HIGHER_ORDER)))
        return false;
    for (uint16_t i = 1; i < op->schema.nparams; i++)
        if (op->schema.params[i].writes) return false;
    return op->schema.params[0].writes && !op->schema.params[0].list && op->base != op &&
           op->base->schema.nreturns == 1 && op->base->schema.nparams == op->schema.nparams;
}

/* A custom operator that writes tensors: in a replay it gets copies of its own to write. */
static bool is_custom_write(const functions *f, const cr_op *op) {
    if (!f->replay || !(op->tags & CR_TAG_CUSTOM)) return false;
    for (uint16_t i = 0; i < op->schema.nparams; i++)
        if (op->schema.params[i].writes && op->schema.params[i].list) return false;
    return true;
}

/* An op that gives what another one writes as further results (batch norm and its running statistics). */
static const cr_op *functional_of(const cr_op *op) {
    const char *name = cr_op_facts(op)->functional;
    return name ? cr_op_find(name) : NULL;
}

/* The call that takes the member from its parent, as old metas say; its arguments are not the new graph's. */
static cr_view_step step_of(const functions *f, const member *m) {
    const cr_meta *from = meta_of(f, m->parent), *to = meta_of(f, m->value);
    return (cr_view_step){ .op = m->op, .args = m->node->args, .from = from, .to = to, .result = m->result };
}

static bool can_undo(const functions *f, const member *m) {
    cr_view_step step = step_of(f, m);
    /* places in memory: only where inputs that share some become parts of a whole */
    if (cr_op_view(m->op) == CR_VIEW_STRIDED && !(f->options && f->options->histories)) return false;
    return cr_view_can_undo(cr_graph_env(f->g), &step);
}

static bool can_write(const functions *f, uint32_t v) {
    while (f->member_of[v]) {
        const member *m = &f->members.at[f->member_of[v] - 1];
        if (m->parent == CR_NO_VALUE) return true;
        if (m->node && !can_undo(f, m)) return false;
        v = m->parent;
    }
    return false;
}

static cr_status add_member(functions *f, uint32_t v, uint32_t parent, const cr_node *node, const cr_op *op,
                            uint32_t result) {
    family *home = family_of(f, meta_of(f, v)->storage);
    CR_TRY(cr_vec_push(&f->members, (member){ v, parent, node, op, result, 0 }));
    CR_TRY(cr_vec_push(&home->members, (uint32_t)f->members.n - 1));
    f->member_of[v] = (uint32_t)f->members.n;
    f->family_of[v] = (uint32_t)(home - f->families.at) + 1;
    return CR_OK;
}

/* A write that cannot be written otherwise. */
static cr_status stay(void *user, const cr_node *node, uint32_t value, int kinds) {
    functions *f = user;
    const cr_meta *meta = meta_of(f, value);
    family *home = meta ? family_of(f, meta->storage) : NULL;
    (void)node, (void)kinds;
    if (home) home->stays = true;
    return CR_OK;
}

/* One family for each storage that some call writes. */
static cr_status find_families(functions *f) {
    cr_writes writes;
    CR_TRY(cr_writes_find(f->g, CR_SHARING_KNOWN, &writes));
    cr_status status = CR_OK;
    for (size_t i = 0; i < writes.all.n && !status; i++) {
        const cr_meta *meta = meta_of(f, writes.all.at[i].value);
        if (meta && !family_of(f, meta->storage))
            status = cr_vec_push(&f->families, (family){ .storage = meta->storage });
    }
    cr_writes_dispose(&writes);
    f->any = f->families.n;
    return status;
}

/* The members that a call makes: a root, views of an argument, or the argument itself after it was written. */
static cr_status find_members(functions *f, const cr_node *node) {
    for (uint32_t k = 0; k < node->nvalues; k++) {
        const cr_value *v = cr_graph_value(f->g, node->first + k);
        family *home = v->meta ? family_of(f, v->meta->storage) : NULL;
        if (!home) continue;
        uint32_t parent = CR_NO_VALUE;
        for (uint16_t i = 0; node->kind == CR_NODE_CALL && i < node->nargs && parent == CR_NO_VALUE; i++) {
            bool one = node->args[i].kind == CR_ARG_VALUE && meta_of(f, (uint32_t)node->args[i].u.i);
            if (one && meta_of(f, (uint32_t)node->args[i].u.i)->storage == home->storage)
                parent = (uint32_t)node->args[i].u.i;
        }
        if (node->kind == CR_NODE_PLACEHOLDER) home->is_input = true;
        if (node->kind == CR_NODE_GET_ATTR) home->stays = true;
        /* two roots: memory that callers or constants share */
        if (parent == CR_NO_VALUE && home->members.n) home->stays = true;
        if (parent != CR_NO_VALUE && (node->op->tags & CR_TAG_HIGHER_ORDER)) home->stays = true;
        bool written = node->kind == CR_NODE_CALL &&
                       (v->hidden || node->op->variant != CR_FUNCTIONAL || functional_of(node->op));
        if (parent == CR_NO_VALUE || (written && !is_inplace_view(node->op)))
            CR_TRY(add_member(f, node->first + k, parent, NULL, NULL, 0));
        else CR_TRY(add_member(f, node->first + k, parent, node, node->op->base, v->hidden ? 0 : k));
    }
    return CR_OK;
}

/* Which families can go; a call that writes one which stays keeps all that it writes. */
static cr_status judge(functions *f, bool *again) {
    *again = false;
    for (uint32_t n = cr_graph_first(f->g); n != CR_NO_NODE; n = cr_graph_next(f->g, n)) {
        const cr_node *node = cr_graph_node(f->g, n);
        if (node->kind != CR_NODE_CALL) continue;
        bool good = is_functional_inplace(node->op) || functional_of(node->op) || is_custom_write(f, node->op),
             writes = false;
        for (uint16_t i = 0; i < node->nargs; i++) {
            if (!node->op->schema.params[i].writes) continue;
            if (node->args[i].kind == CR_ARG_NONE) continue;
            writes = true;
            uint32_t v = node->args[i].kind == CR_ARG_VALUE ? (uint32_t)node->args[i].u.i : CR_NO_VALUE;
            good = good && v != CR_NO_VALUE && f->family_of[v] && !f->families.at[f->family_of[v] - 1].stays &&
                   (is_inplace_view(node->op) || can_write(f, v));
        }
        if ((writes && good) || !cr_node_writes(node)) continue;
        size_t before = 0, after = 0;
        for (size_t i = 0; i < f->families.n; i++) before += f->families.at[i].stays;
        CR_TRY(cr_node_visit_writes(f->g, node, CR_SHARING_KNOWN, stay, f));
        for (size_t i = 0; i < f->families.n; i++) after += f->families.at[i].stays;
        if (after != before) return *again = true, CR_OK;
    }
    return CR_OK;
}

static bool is_going(const functions *f, uint32_t v) {
    return f->family_of[v] && !f->families.at[f->family_of[v] - 1].stays;
}

/* ---- writing ---- */

static cr_status sizes_of(functions *f, uint32_t v, cr_arg *items, cr_arg *out) {
    const cr_meta *m = meta_of(f, v);
    for (int d = 0; d < m->rank; d++) items[d] = cr_arg_int(m->size[d]);
    *out = cr_arg_list(items, m->rank);
    return CR_OK;
}

/* An old call's argument in the new graph; lists in the pass's own memory. */
static cr_status mapped_arg(cr_rewriter *w, functions *f, const cr_arg *from, cr_arg *to) {
    *to = from->kind == CR_ARG_VALUE ? cr__rewrite_mapped(w, (uint32_t)from->u.i) : *from;
    to->given = from->given;
    if (from->kind != CR_ARG_LIST) return CR_OK;
    cr_arg *items = cr_arena_alloc(&f->arena, (from->n + 1) * sizeof *items);
    if (!items) return CR_ENOMEM;
    for (uint32_t i = 0; i < from->n; i++) CR_TRY(mapped_arg(w, f, &from->u.list[i], &items[i]));
    to->u.list = items;
    return CR_OK;
}

static cr_status take_again(cr_rewriter *w, functions *f, const member *m, cr_arg *out);

/* What the value's memory holds now: in a replay taken from the root, whatever is known of the steps between. */
static cr_status present(cr_rewriter *w, functions *f, uint32_t v, cr_arg *out) {
    const member *m = f->member_of[v] ? &f->members.at[f->member_of[v] - 1] : NULL;
    if (!f->replay || !m || m->parent == CR_NO_VALUE) return *out = cr__rewrite_mapped(w, v), CR_OK;
    return m->node ? take_again(w, f, m, out) : present(w, f, m->parent, out);
}

/* The step in terms of the new graph. */
static cr_status new_step(cr_rewriter *w, functions *f, const member *m, cr_view_step *out) {
    cr_arg *args = cr_arena_alloc(&f->arena, (m->node->nargs + 1u) * sizeof *args);
    const cr_meta **parts = cr_arena_alloc(&f->arena, (m->result + 1u) * sizeof *parts);
    if (!args || !parts) return CR_ENOMEM;
    for (uint16_t i = 0; i < m->node->nargs; i++) CR_TRY(mapped_arg(w, f, &m->node->args[i], &args[i]));
    for (uint32_t i = 0; i < m->result; i++) parts[i] = meta_of(f, m->node->first + i);
    *out = step_of(f, m);
    out->args = args;
    out->parts = parts;
    return CR_OK;
}

/* The parent with `contents` where the view lies. */
static cr_status put_back(cr_rewriter *w, functions *f, const member *m, cr_arg contents, cr_arg *out) {
    cr_view_step step;
    cr_arg parent = cr_arg_none();
    int flags = f->replay ? CR_UNDO_NAMED : 0;
    CR_TRY(new_step(w, f, m, &step));
    if (cr_view_undo_reads(&step, flags)) CR_TRY(present(w, f, m->parent, &parent));
    return cr_view_undo(cr_rewrite_emitter(w), &step, flags, &parent, &contents, out);
}

/* The view's call again, on what its parent is now. */
static cr_status take_again(cr_rewriter *w, functions *f, const member *m, cr_arg *out) {
    cr_view_step step;
    cr_arg parent;
    CR_TRY(new_step(w, f, m, &step));
    CR_TRY(present(w, f, m->parent, &parent));
    return cr_view_take(cr_rewrite_emitter(w), &step, &parent, out);
}

/* The value as it was, with other data: what a write does that its history does not see. */
static cr_status hide(cr_rewriter *w, functions *f, uint32_t v, cr_arg *contents) {
    cr_arg before = cr__rewrite_mapped(w, v);
    if (!f->options->histories || cr_dtype_is_integral(meta_of(f, v)->dtype)) return CR_OK;
    if (before.u.i == contents->u.i) return CR_OK;
    return cr_rewrite_call(w, "cresset::with_data", (cr_arg[]){ *contents, before }, 2, contents);
}

/* Is it a view that no gradient goes through, whatever the dtype? */
static cr_status stops_gradients(const cr_op *op, bool *yes) {
    CR_TRY(cr_grad_flows(op, 0, &(cr_meta){ .dtype = CR_F32 }, yes));
    *yes = !*yes;
    return CR_OK;
}

/* The member's memory has these contents now, by this call, and all others what follows from it. */
static cr_status assign(cr_rewriter *w, functions *f, uint32_t v, cr_arg contents, const cr_node *by) {
    family *home = &f->families.at[f->family_of[v] - 1];
    bool hidden = by->origin.no_grad;
    cr_origin origin = by->origin;
    origin.no_grad = false; /* what others are from here on, they are with their histories */
    CR_TRY(cr_graph_set_origin(cr_rewrite_graph(w), &origin));
    f->stamp++;
    for (;;) {
        member *m = &f->members.at[f->member_of[v] - 1];
        if (hidden) CR_TRY(hide(w, f, v, &contents));
        cr_arg up = contents;
        if (m->parent != CR_NO_VALUE && m->node) {
            bool stops;
            CR_TRY(put_back(w, f, m, contents, &up));
            CR_TRY(stops_gradients(m->op, &stops));
            hidden |= stops || m->node->origin.no_grad;
        }
        /* a part of an input is read off it again: it lies there */
        bool again = m->parent != CR_NO_VALUE && m->node && cr_op_view(m->op) == CR_VIEW_STRIDED;
        if ((!f->replay && !again) || m->parent == CR_NO_VALUE || !m->node) cr__rewrite_bind(w, v, contents);
        if ((!f->replay && !again) || m->parent == CR_NO_VALUE) m->stamp = f->stamp;
        if (m->parent == CR_NO_VALUE) break;
        v = m->parent;
        contents = up;
    }
    for (size_t i = 0; i < home->members.n; i++) {
        member *m = &f->members.at[home->members.at[i]];
        cr_arg now = cr__rewrite_mapped(w, m->value);
        if (m->stamp == f->stamp || now.kind == CR_ARG_NONE) continue; /* known already; not made yet */
        if (m->node) CR_TRY(take_again(w, f, m, &now));
        else now = cr__rewrite_mapped(w, m->parent);
        cr__rewrite_bind(w, m->value, now);
    }
    return CR_OK;
}

/* Contents of `target`'s dtype and sizes. */
static cr_status fit(cr_rewriter *w, functions *f, uint32_t target, cr_arg *contents) {
    const cr_meta *want = meta_of(f, target), *have = cr_rewrite_meta(w, contents);
    cr_arg items[CR_MAX_RANK], sizes;
    if (have && have->dtype != want->dtype) {
        const cr_op *op = cr_op_find("aten::_to_copy");
        cr_arg args[CR_MAX_PARAMS], results[1] = { { 0 } };
        for (uint16_t i = 0; i < op->schema.nparams; i++)
            args[i] = op->schema.params[i].fallback, args[i].given = CR_GIVEN_DEFAULT;
        args[0] = *contents;
        args[1] = cr_arg_dtype(want->dtype);
        args[1].given = CR_GIVEN_KEYWORD;
        CR_TRY(cr_rewrite_op(w, op, args, results));
        *contents = results[0];
        have = cr_rewrite_meta(w, contents);
    }
    bool same = have && have->rank == want->rank;
    for (int d = 0; same && d < want->rank; d++) same = have->size[d] == want->size[d];
    if (same) return CR_OK;
    CR_TRY(sizes_of(f, target, items, &sizes));
    return cr_rewrite_call(w, "aten::expand", (cr_arg[]){ *contents, sizes }, 2, contents);
}

/* ---- calls ---- */

/* copy_: the source, of the target's dtype and sizes; one that is written in place later is kept as it is now. */
static cr_status copied(cr_rewriter *w, functions *f, const cr_node *node, const cr_arg *args, cr_arg *out) {
    const cr_arg *source = &node->args[1];
    bool moves = source->kind == CR_ARG_VALUE && cr__rewrite_writes(w, (uint32_t)source->u.i) &&
                 !is_going(f, (uint32_t)source->u.i);
    *out = args[1];
    if (!cr_rewrite_meta(w, &args[1]))
        CR_TRY(cr_rewrite_call(w, "aten::full_like", (cr_arg[]){ args[0], args[1] }, 2, out));
    else if (moves) CR_TRY(cr_rewrite_call(w, "aten::clone", &args[1], 1, out));
    return fit(w, f, (uint32_t)node->args[0].u.i, out);
}

/* What an in-place op writes, as a value. */
static cr_status new_contents(cr_rewriter *w, functions *f, const cr_node *node, const cr_arg *args, cr_arg *out) {
    cr_arg results[16] = { { 0 } };
    const cr_op *op = node->op->base;
    bool copy = cr_op_is(op, "aten::copy");
    /* what is differentiated keeps its layout, by which later results are laid out */
    if (copy && !f->replay && !f->options->histories) return copied(w, f, node, args, out);
    bool onto_itself = copy && args[0].kind == args[1].kind && args[0].u.i == args[1].u.i;
    if (onto_itself) return *out = args[0], CR_OK;
    /* what is differentiated owes its old contents nothing, but knows that: zeros flow back, and it requires grad */
    if (cr_op_facts(op)->fill && !f->options->histories) {
        int from = cr_op_facts(op)->fill - CR_FILL_FROM;
        cr_arg value = from < 0 ? cr_arg_int(cr_op_facts(op)->fill == CR_FILL_ONES) : args[from];
        if (cr_arg_is_number(&value))
            return cr_rewrite_call(w, "aten::full_like", (cr_arg[]){ args[0], value }, 2, out);
    }
    bool drawn = cr_op_draws(op, args) && !f->replay;
    CR_TRY(drawn ? cr__layout_draw(w, op, args, results) : cr_rewrite_op(w, op, args, results));
    *out = results[0];
    return copy ? CR_OK : fit(w, f, (uint32_t)node->args[0].u.i, out);
}

static cr_status write_inplace(cr_rewriter *w, functions *f, const cr_node *node, const cr_arg *args) {
    uint32_t self = (uint32_t)node->args[0].u.i;
    if (!is_inplace_view(node->op)) {
        cr_arg contents;
        CR_TRY(new_contents(w, f, node, args, &contents));
        CR_TRY(assign(w, f, self, contents, node));
    }
    for (uint32_t k = 0; k < node->nvalues; k++) {
        const member *m = &f->members.at[f->member_of[node->first + k] - 1];
        cr_arg now = cr__rewrite_mapped(w, self);
        if (m->node) CR_TRY(take_again(w, f, m, &now));
        CR_TRY(cr_rewrite_result(w, node, k, now));
    }
    return CR_OK;
}

/* The functional op's further results are what the written arguments become, in order. */
static cr_status write_functional(cr_rewriter *w, functions *f, const cr_node *node, const cr_arg *args) {
    cr_arg results[16] = { { 0 } };
    uint32_t k = node->op->schema.nreturns, at = k, hidden = k;
    CR_TRY(cr_rewrite_op(w, functional_of(node->op), args, results));
    for (uint32_t i = 0; i < k; i++) CR_TRY(cr_rewrite_result(w, node, i, results[i]));
    for (uint16_t i = 0; i < node->nargs; i++)
        if (node->op->schema.params[i].writes) CR_TRY(assign(w, f, (uint32_t)node->args[i].u.i, results[at++], node));
    for (uint16_t i = 0; i < node->nargs && hidden < node->nvalues; i++) {
        if (!node->op->schema.params[i].writes) continue;
        CR_TRY(cr_rewrite_result(w, node, hidden++, cr__rewrite_mapped(w, (uint32_t)node->args[i].u.i)));
    }
    return CR_OK;
}

/* What it writes is a copy; the copy after the call is what the memory holds from then on. */
static cr_status write_custom(cr_rewriter *w, functions *f, const cr_node *node, const cr_arg *args) {
    cr_arg given[CR_MAX_PARAMS], results[16] = { { 0 } };
    for (uint16_t i = 0; i < node->nargs; i++) {
        given[i] = args[i];
        if (node->op->schema.params[i].writes && args[i].kind == CR_ARG_VALUE)
            CR_TRY(cr_rewrite_call(w, "aten::clone", &args[i], 1, &given[i]));
        given[i].given = args[i].given;
    }
    uint32_t before = cr_graph_value_count(cr_rewrite_graph(w));
    CR_TRY(cr_rewrite_op(w, node->op, given, results));
    const cr_graph *g = cr_rewrite_graph(w);
    uint32_t made = cr_graph_value_count(g) - node->nvalues, seen = 0; /* its values are the last ones */
    if (made < before) return CR_FAIL(CR_EVALUE, "%s gives fewer results here than its node has", node->op->name);
    for (uint32_t k = 0; k < node->nvalues; k++) {
        cr_arg value = { .kind = CR_ARG_VALUE, .given = 1, .type = cr_graph_value(g, made + k)->type, .u.i = made + k };
        if (!cr_graph_value(g, made + k)->hidden) {
            CR_TRY(cr_rewrite_result(w, node, k, value));
            continue;
        }
        while (seen < node->nargs && (!node->op->schema.params[seen].writes || node->args[seen].kind != CR_ARG_VALUE))
            seen++;
        CR_TRY(assign(w, f, (uint32_t)node->args[seen].u.i, value, node));
        CR_TRY(cr_rewrite_result(w, node, k, cr__rewrite_mapped(w, (uint32_t)node->args[seen].u.i)));
        seen++;
    }
    return CR_OK;
}

/* Views of what goes are taken by their functional ops, so that they may become copies. */
static cr_status take_views(cr_rewriter *w, functions *f, const cr_node *node, bool *done) {
    for (uint32_t k = 0; k < node->nvalues; k++) {
        uint32_t v = node->first + k;
        const member *m = f->member_of[v] ? &f->members.at[f->member_of[v] - 1] : NULL;
        if (!m || !m->node || !is_going(f, v) || node->nvalues != 1) return CR_OK;
        cr_arg now;
        CR_TRY(take_again(w, f, m, &now));
        *done = true;
        CR_TRY(cr_rewrite_result(w, node, k, now));
    }
    return CR_OK;
}

static cr_status rule(cr_rewriter *w, const cr_node *node, const cr_arg *args, bool *done) {
    functions *f = cr_rewrite_user(w);
    bool writes = false, going = true;
    for (uint16_t i = 0; i < node->nargs; i++) {
        if (!node->op->schema.params[i].writes) continue;
        if (node->args[i].kind == CR_ARG_NONE) continue;
        writes = true;
        going = going && node->args[i].kind == CR_ARG_VALUE && is_going(f, (uint32_t)node->args[i].u.i);
    }
    if (!writes) return take_views(w, f, node, done);
    if (!going) return CR_OK;
    *done = true;
    if (is_custom_write(f, node->op)) return write_custom(w, f, node, args);
    return functional_of(node->op) ? write_functional(w, f, node, args) : write_inplace(w, f, node, args);
}

/* The new values of placeholders that were written. */
static cr_status finish(cr_rewriter *w, cr_arg *more, size_t *n) {
    functions *f = cr_rewrite_user(w);
    cr_functionalize_options *o = f->options;
    uint32_t index = 0;
    o->nmutated = 0;
    for (uint32_t id = cr_graph_first(f->g); id != CR_NO_NODE; id = cr_graph_next(f->g, id)) {
        const cr_node *node = cr_graph_node(f->g, id);
        if (node->kind != CR_NODE_PLACEHOLDER) continue;
        if (is_going(f, node->first)) {
            more[(*n)++] = cr__rewrite_mapped(w, node->first);
            o->mutated[o->nmutated++] = index;
        }
        index++;
    }
    return CR_OK;
}

/* ---- the pass ---- */

static cr_status prepare(functions *f, bool inputs_too) {
    uint32_t n = cr_graph_value_count(f->g);
    f->member_of = cr_arena_calloc(&f->arena, n + 1, sizeof *f->member_of);
    f->family_of = cr_arena_calloc(&f->arena, n + 1, sizeof *f->family_of);
    if (!f->member_of || !f->family_of) return CR_ENOMEM;
    CR_TRY(find_families(f));
    for (uint32_t id = cr_graph_first(f->g); id != CR_NO_NODE; id = cr_graph_next(f->g, id))
        CR_TRY(find_members(f, cr_graph_node(f->g, id)));
    for (size_t i = 0; i < f->families.n; i++) f->families.at[i].stays |= f->families.at[i].is_input && !inputs_too;
    for (bool again = f->any; again;) CR_TRY(judge(f, &again));
    return CR_OK;
}

static void dispose(functions *f) {
    for (size_t i = 0; i < f->families.n; i++) cr_vec_dispose(&f->families.at[i].members);
    cr_vec_dispose(&f->families);
    cr_vec_dispose(&f->members);
    cr_arena_dispose(&f->arena);
}

/* Placeholders of a body are the region's business. */
static cr_status body(void *user, const cr_graph *g, cr_graph **out) {
    cr_functionalize_options o = { .replay = ((functions *)user)->replay };
    return cr_pass_functionalize(g, &o, out);
}

cr_status cr_pass_functionalize(const cr_graph *g, cr_functionalize_options *o, cr_graph **out) {
    functions f = { .g = g, .options = o, .replay = o->replay };
    cr__walk walk = { .rule = rule, .user = &f, .all = true, .named = o->histories, .body = body,
                      .finish = o->mutated ? finish : NULL };
    cr_arena_init(&f.arena);
    cr_status status = prepare(&f, o->mutated);
    if (!status) status = cr__rewrite_walk(g, &walk, out);
    dispose(&f);
    return status;
}

cr_status cr__check_settled(const cr_graph *g) {
    functions f = { .g = g };
    cr_arena_init(&f.arena);
    cr_status status = prepare(&f, false);
    for (size_t i = 0; i < f.families.n && !status; i++) {
        const family *x = &f.families.at[i];
        const char *name = x->members.n ? cr_graph_value(g, f.members.at[x->members.at[0]].value)->name : "";
        if (!x->stays) status = CR_FAIL(CR_EVALUE, "%%%s is written, which could be a value", name);
    }
    dispose(&f);
    return status;
}
