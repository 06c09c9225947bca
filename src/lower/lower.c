/* lower.c: nodes to steps.
 *
 * The graph has been decomposed, so every node is a view (no step), pointwise text (a block program), a kernel, a
 * number (no step: its expression is computed where it is needed), an assertion, or a region. How a call is carried out
 * (in place or through a temporary, copy first, count first, idle) is asked of ops/way.h, as the interpreter does. */
#include "export/source.h"
#include "lower/rows.h"
#include "ops/rules.h"
#include "ops/scalar.h"
#include "ops/way.h"
#include "runtime/kernels.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct call {
    const cr_node *node;
    const cr_op *op, *base;
    cr_arg args[CR_MAX_PARAMS]; /* of the functional op: tensors as metas, numbers as numbers */
    int32_t window[CR_MAX_PARAMS]; /* of tensor arguments, -1 */
    cr_meta wrapped[CR_MAX_PARAMS];
    cr_rule rule;
} call;

static const cr_value *value(const cr__method *m, uint32_t v) { return cr_graph_value(m->g, v); }

cr_status cr__window_of(cr__method *m, uint32_t v, int32_t *out) {
    if (m->window[v] < 0) {
        int32_t buffer;
        const cr_meta *meta = value(m, v)->meta;
        if (!meta) return CR_FAIL(CR_EUNSUPPORTED, "'%%%s' has no known shape", value(m, v)->name);
        CR_TRY(cr__buffer_of(m, meta, &buffer));
        CR_TRY(cr__window(m, buffer, meta, &m->window[v]));
    }
    *out = m->window[v];
    return CR_OK;
}

static bool is_symbolic(const cr_arg *a) {
    return a->kind == CR_ARG_SYM || (a->kind == CR_ARG_INT && !cr_dim_is_plain(a->u.i));
}

/* A number value as a plain or symbolic number. */
static cr_arg number_of(const cr__method *m, const cr_arg *a) {
    if (a->kind != CR_ARG_VALUE) return *a;
    const cr_value *v = value(m, (uint32_t)a->u.i);
    return v->type == CR_T_TENSOR || !v->expr ? *a : cr_number_arg(m->env, v->expr);
}

static cr_status number_slot(cr__method *m, const cr_arg *a, int32_t *slot, uint8_t *kind) {
    *kind = RT_A_INT;
    if (a->kind == CR_ARG_FLOAT) {
        int64_t bits;
        memcpy(&bits, &a->u.f, sizeof bits);
        *kind = RT_A_FLOAT;
        return cr__slot_bits(m, CR_TYPE_FLOAT, bits, slot);
    }
    if (a->kind == CR_ARG_SYM) {
        if (cr_sym_type_of(a->u.sym) == CR_TYPE_FLOAT) *kind = RT_A_FLOAT;
        return cr__slot(m, a->u.sym, slot);
    }
    if (a->kind == CR_ARG_INT) return cr__slot_dim(m, a->u.i, slot);
    return cr__slot_bits(m, CR_TYPE_INT, a->u.i, slot);
}

/* ---- arguments ---- */

/* The weight that is this number; equal numbers are one. Borrowed. */
static cr_status scalar_weight(cr__method *m, int dtype, const cr_arg *number, cr_tensor **out) {
    CR_TRY(cr_tensor_scalar(dtype, cr_arg_scalar(number), out));
    for (size_t i = 0; i < m->l->made.n; i++) {
        cr_tensor *t = m->l->made.at[i];
        if (t->meta.rank || t->meta.dtype != dtype ||
            memcmp(t->storage->data, (*out)->storage->data, (size_t)rt_itemsize(dtype)))
            continue;
        cr_tensor_release(*out);
        return *out = t, CR_OK;
    }
    cr_status status = cr_vec_push(&m->l->made, *out);
    if (status) cr_tensor_release(*out);
    return status;
}

/* A number in a tensor's place: a 0-d tensor, constant or filled by a step. */
static cr_status wrap_number(cr__method *m, call *c, int i) {
    const cr_arg number = c->args[i];
    cr_meta *meta = &c->wrapped[i];
    cr_meta_init(meta, cr_arg_number_dtype(&number), (cr_device){ CR_CPU, -1 });
    c->args[i] = (cr_arg){ .kind = CR_ARG_META, .given = 1, .u.meta = meta };
    if (is_symbolic(&number)) {
        rt_step s = { .kind = RT_STEP_FILL, .nargs = 1, .nout = 1, .outs = (int32_t)m->lists.n };
        int32_t slot;
        uint8_t kind;
        CR_TRY(number_slot(m, &number, &slot, &kind));
        meta->storage = 0;
        CR_TRY(cr__scratch(m, meta, &c->window[i]));
        s.args = (int32_t)m->args.n;
        CR_TRY(cr__arg_add(m, (rt_operand_ref){ .kind = kind, .at = slot }));
        CR_TRY(cr__list_add(m, c->window[i]));
        CR_TRY(cr__step_add(m, s));
    } else {
        cr_tensor *t = NULL;
        int32_t buffer;
        CR_TRY(scalar_weight(m, meta->dtype, &number, &t));
        CR_TRY(cr__buffer_weight(m, t, &buffer));
        CR_TRY(cr__window(m, buffer, &t->meta, &c->window[i]));
    }
    meta->flags |= CR_META_WRAPPED;
    return CR_OK;
}

static cr_status list_metas(cr__method *m, const cr_arg *from, cr_arg *to) {
    cr_arg *items = cr_arena_alloc(&m->l->arena, from->n * sizeof *items);
    if (!items) return CR_ENOMEM;
    *to = *from;
    to->u.list = items;
    for (uint32_t i = 0; i < from->n; i++) {
        items[i] = number_of(m, &from->u.list[i]);
        if (items[i].kind != CR_ARG_VALUE) continue;
        const cr_meta *meta = value(m, (uint32_t)items[i].u.i)->meta;
        items[i] = meta ? (cr_arg){ .kind = CR_ARG_META, .given = 1, .u.meta = meta } : cr_arg_none();
    }
    return CR_OK;
}

static cr_status prepare(cr__method *m, call *c) {
    const cr_schema *s = &c->base->schema;
    for (uint16_t i = 0; i < s->nparams; i++) {
        const cr_arg *given = &c->node->args[i];
        c->window[i] = -1;
        if (given->kind == CR_ARG_LIST) {
            CR_TRY(list_metas(m, given, &c->args[i]));
            continue;
        }
        c->args[i] = number_of(m, given);
        if (c->args[i].kind == CR_ARG_VALUE) {
            uint32_t v = (uint32_t)given->u.i;
            CR_TRY(cr__window_of(m, v, &c->window[i]));
            c->args[i] = (cr_arg){ .kind = CR_ARG_META, .given = given->given, .u.meta = value(m, v)->meta };
        } else if (s->params[i].type == CR_T_TENSOR && !s->params[i].list &&
                   (cr_arg_is_number(&c->args[i]) || c->args[i].kind == CR_ARG_SYM)) {
            CR_TRY(wrap_number(m, c, i));
        }
    }
    return CR_OK;
}

/* One argument of a kernel, from the node's own (lists name values, not metas). */
static cr_status kernel_arg(cr__method *m, const call *c, int i) {
    const cr_param *p = &c->base->schema.params[i];
    const cr_arg *a = &c->args[i], *given = &c->node->args[i];
    rt_operand_ref ref = { .kind = RT_A_NONE };
    if (c->window[i] >= 0) ref = (rt_operand_ref){ .kind = RT_A_WINDOW, .at = c->window[i] };
    else if (a->kind == CR_ARG_LIST) {
        int32_t *items = cr_arena_alloc(&m->l->arena, (a->n + 1) * sizeof *items);
        if (!items) return CR_ENOMEM;
        uint8_t kind = p->type == CR_T_TENSOR                            ? RT_A_WINDOWS
                       : p->type == CR_T_FLOAT || p->type == CR_T_SCALAR ? RT_A_FLOATS
                                                                         : RT_A_INTS,
                unused;
        for (uint32_t k = 0; k < a->n; k++) {
            const cr_arg *item = &given->u.list[k];
            cr_arg number = a->u.list[k];
            if (kind == RT_A_WINDOWS) {
                items[k] = -1;
                if (item->kind == CR_ARG_VALUE) CR_TRY(cr__window_of(m, (uint32_t)item->u.i, &items[k]));
            } else {
                if (kind == RT_A_FLOATS && (number.kind == CR_ARG_INT || number.kind == CR_ARG_BOOL) &&
                    !is_symbolic(&number))
                    number = cr_arg_float((double)number.u.i);
                CR_TRY(number_slot(m, &number, &items[k], &unused));
            }
        }
        ref = (rt_operand_ref){ .kind = kind, .n = a->n, .at = (int32_t)m->lists.n };
        for (uint32_t k = 0; k < a->n; k++) CR_TRY(cr__list_add(m, items[k]));
    } else if (a->kind == CR_ARG_STR) {
        ref.kind = RT_A_STR, ref.n = a->n;
        CR_TRY(cr__text(m, a->u.s, &ref.at));
    } else if (a->kind == CR_ARG_COMPLEX) {
        int32_t parts[2];
        uint8_t unused;
        for (int k = 0; k < 2; k++) {
            cr_arg part = cr_arg_float(a->u.c[k]);
            CR_TRY(number_slot(m, &part, &parts[k], &unused));
        }
        ref = (rt_operand_ref){ .kind = RT_A_COMPLEX, .n = 2, .at = (int32_t)m->lists.n };
        CR_TRY(cr__list_add(m, parts[0]));
        CR_TRY(cr__list_add(m, parts[1]));
    } else if (a->kind == CR_ARG_NONE) {
        if (p->type == CR_T_GENERATOR) ref.kind = RT_A_GENERATOR;
    } else {
        CR_TRY(number_slot(m, a, &ref.at, &ref.kind));
    }
    return cr__arg_add(m, ref);
}

static cr_status kernel_args(cr__method *m, const call *c, rt_step *s) {
    /* Lists and texts of arguments are added first by kernel_arg, so the references of one step must be contiguous:
     * collect. */
    CR_VEC(rt_operand_ref) refs = { 0 };
    cr_status status = CR_OK;
    bool generator = false;
    for (uint16_t i = 0; i < c->base->schema.nparams; i++) {
        size_t before = m->args.n;
        CR_TRY_OUT(kernel_arg(m, c, i));
        CR_TRY_OUT(cr_vec_push(&refs, m->args.at[before]));
        m->args.n = before;
        generator |= refs.at[refs.n - 1].kind == RT_A_GENERATOR;
    }
    if ((c->base->tags & CR_TAG_RANDOM) && !generator)
        CR_TRY_OUT(cr_vec_push(&refs, (rt_operand_ref){ .kind = RT_A_GENERATOR }));
    s->args = (int32_t)m->args.n;
    s->nargs = (uint16_t)refs.n;
    for (size_t i = 0; i < refs.n; i++) CR_TRY_OUT(cr__arg_add(m, refs.at[i]));
out:
    cr_vec_dispose(&refs);
    return status;
}

/* ---- results ---- */

/* The node's visible value that holds result `i` of the rule (flattened), CR_NO_VALUE when undefined. */
static uint32_t result_value(const cr__method *m, const call *c, int i) {
    uint32_t v = c->node->first + (uint32_t)i;
    if (v >= c->node->first + c->node->nvalues || value(m, v)->hidden) return CR_NO_VALUE;
    return value(m, v)->type == CR_T_TENSOR && !value(m, v)->meta ? CR_NO_VALUE : v;
}

static void note_write(cr__method *m, int32_t window) {
    rt_buffer *b = &m->buffers.at[m->windows.at[window].buffer];
    if (b->kind == RT_BUFFER_STATE) m->writes_state = true;
    if (b->kind == RT_BUFFER_INPUT) m->inputs.at[b->index].written = true;
}

/* Where result i is computed, and where it is copied to afterwards (-1: it is there already). */
static cr_status target_of(cr__method *m, call *c, int i, int32_t *window, int32_t *after) {
    *after = -1;
    const cr_out *out = &c->rule.out[i];
    uint32_t v = result_value(m, c, i);
    if (c->op->variant == CR_INPLACE && !i) {
        int32_t self = c->window[0];
        note_write(m, self);
        cr_place place = cr_way_place(&c->rule, c->op, i, c->args[0].u.meta);
        if (place == CR_PLACE_REFUSED) return cr_way_refuse(c->op);
        if (place == CR_PLACE_TARGET) return *window = self, CR_OK;
        *after = self;
        cr_meta meta;
        cr_meta_copy(&meta, &out->meta);
        meta.storage = 0;
        return cr__scratch(m, &meta, window);
    }
    if (v == CR_NO_VALUE) return *window = -1, CR_OK;
    return cr__window_of(m, v, window);
}

static cr_status lower_block(cr__method *m, call *c) {
    const cr_scalar_program *p;
    CR_TRY(cr_scalar_get(c->base, c->rule.common, c->args, &p));
    int32_t outs[RT_BLOCK_MAX_PORTS], after[RT_BLOCK_MAX_PORTS];
    for (int i = 0; i < p->program.nout; i++) CR_TRY(target_of(m, c, i, &outs[i], &after[i]));
    rt_operand_ref refs[2 * RT_BLOCK_MAX_PORTS];
    int n = 0;
    for (int i = 0; i < p->program.nin; i++)
        refs[n++] = (rt_operand_ref){ .kind = RT_A_WINDOW, .at = c->window[p->input[i]] };
    for (int i = 0; i < p->program.nconstants; i++) {
        size_t before = m->args.n;
        CR_TRY(kernel_arg(m, c, p->constant[i]));
        refs[n++] = m->args.at[before];
        m->args.n = before;
    }
    rt_step s = { .kind = RT_STEP_BLOCK,
                  .nargs = (uint16_t)n,
                  .nout = p->program.nout,
                  .args = (int32_t)m->args.n,
                  .outs = (int32_t)m->lists.n,
                  .u.program = &p->program };
    for (int i = 0; i < n; i++) CR_TRY(cr__arg_add(m, refs[i]));
    for (int i = 0; i < p->program.nout; i++) CR_TRY(cr__list_add(m, outs[i]));
    return cr__step_add(m, s);
}

/* ---- kernels ---- */

static int compare_symbols(const void *a, const void *b) {
    uint32_t x = cr_sym_ordinal(*(const cr_sym *)a), y = cr_sym_ordinal(*(const cr_sym *)b);
    return x < y ? -1 : x > y;
}

/* The sizes that the kernel's count phase finds. The rule was run without counts, so count k is the k-th symbol it
 * made; where that symbol stands in a result, the node's own value has the symbol that later nodes use. */
static cr_status lower_count(cr__method *m, call *c) {
    cr_sym made[RT_MAX_RANK], mine[RT_MAX_RANK];
    int n = 0;
    for (int i = 0; i < c->rule.nout; i++) {
        uint32_t v = result_value(m, c, i);
        const cr_meta *fresh = &c->rule.out[i].meta, *known = v == CR_NO_VALUE ? NULL : value(m, v)->meta;
        for (int d = 0; known && d < fresh->rank; d++) {
            cr_sym e = cr_dim_sym(m->env, fresh->size[d]), k = cr_dim_sym(m->env, known->size[d]);
            if (!e || !k) return CR_FAIL(CR_ENOMEM, "out of memory");
            bool seen = cr_sym_kind_of(e) != CR_SYM_SYMBOL || cr__slot_find(m, e) >= 0;
            for (int j = 0; j < n; j++) seen |= made[j] == e;
            if (seen || n == RT_MAX_RANK) continue;
            made[n] = e;
            mine[n++] = k;
        }
    }
    cr_sym sorted[RT_MAX_RANK];
    memcpy(sorted, made, sizeof *made * (size_t)n);
    qsort(sorted, (size_t)n, sizeof *sorted, compare_symbols);
    rt_step s = { .kind = RT_STEP_COUNT, .nout = (uint16_t)n, .u.kernel = c->base->row->kernel };
    CR_TRY(kernel_args(m, c, &s));
    s.outs = (int32_t)m->lists.n;
    int32_t slots[RT_MAX_RANK];
    for (int k = 0; k < n; k++) {
        CR_TRY(cr__slot_define(m, sorted[k], CR__SLOT_LATE, &slots[k]));
        CR_TRY(cr__list_add(m, slots[k]));
    }
    CR_TRY(cr__step_add(m, s));
    for (int k = 0; k < n; k++) {
        if (mine[k] == made[k]) continue;
        int32_t slot = cr__slot_find(m, made[k]);
        if (cr_sym_kind_of(mine[k]) == CR_SYM_SYMBOL && cr__slot_find(m, mine[k]) < 0)
            CR_TRY(cr_map_put(&m->slots, &mine[k], sizeof mine[k], (uint64_t)slot));
        else /* the room for it is as large as the program says: no larger count is filled in */
            CR_TRY(cr__check_step(m, cr_sym_compare(m->env, made[k], CR_EQ, mine[k]),
                                  "a size that depends on data is another than the model says"));
    }
    return CR_OK;
}

/* The symbol that a number is, or that it is 1 where the number is true: Eq(u0, 1). NULL: neither. */
static cr_sym symbol_of(cr_sym e) {
    if (!e || cr_sym_kind_of(e) == CR_SYM_SYMBOL) return e;
    if (cr_sym_kind_of(e) != CR_SYM_EQ) return NULL;
    for (size_t i = 0; i < 2; i++) {
        int64_t one = 0;
        if (cr_sym_kind_of(cr_sym_operand(e, i)) == CR_SYM_SYMBOL && cr_sym_is_int(cr_sym_operand(e, 1 - i), &one) &&
            one == 1)
            return cr_sym_operand(e, i);
    }
    return NULL;
}

static cr_status note_coming(cr__method *m, cr_sym symbol) {
    if (!symbol || cr_sym_kind_of(symbol) != CR_SYM_SYMBOL || cr__slot_find(m, symbol) >= 0) return CR_OK;
    return cr_map_put(&m->coming, &symbol, sizeof symbol, 1);
}

cr_status cr__find_coming(cr__method *m) {
    for (uint32_t n = cr_graph_first(m->g); n != CR_NO_NODE; n = cr_graph_next(m->g, n)) {
        const cr_node *node = cr_graph_node(m->g, n);
        const cr_op *base = node->kind == CR_NODE_CALL ? node->op->base : NULL;
        bool region = base && base->tags & CR_TAG_HIGHER_ORDER, counts = base && cr_way_counts(base);
        bool numbers = region || (base && base->row && base->row->kernel);
        for (uint32_t v = node->first; base && v < node->first + node->nvalues; v++) {
            const cr_value *x = value(m, v);
            if (numbers && x->expr) CR_TRY(note_coming(m, symbol_of(x->expr)));
            for (int d = 0; (counts || region) && x->meta && d < x->meta->rank; d++)
                if (!cr_dim_is_plain(x->meta->size[d]))
                    CR_TRY(note_coming(m, cr_dim_sym(m->env, x->meta->size[d])));
        }
    }
    return CR_OK;
}

/* item() and the like: the kernel gives a number, which is the value's symbol from here on. */
static cr_status lower_number(cr__method *m, call *c) {
    const cr_value *v = value(m, c->node->first);
    rt_step s = { .kind = RT_STEP_NUMBER, .nout = 1, .u.kernel = c->base->row->kernel };
    if (!v->expr) return CR_FAIL(CR_EUNSUPPORTED, "%s: a complex number as a result has no native form", c->op->name);
    cr_sym symbol = symbol_of(v->expr);
    if (!symbol || cr__slot_find(m, symbol) >= 0) return CR_OK; /* the rule knew it */
    CR_TRY(kernel_args(m, c, &s));
    int32_t slot;
    CR_TRY(cr__slot_define(m, symbol, CR__SLOT_LATE, &slot));
    s.outs = (int32_t)m->lists.n;
    CR_TRY(cr__list_add(m, slot));
    return cr__step_add(m, s);
}

static cr_status lower_kernel(cr__method *m, call *c) {
    if (c->rule.nout == 1 && c->rule.out[0].scalar) return lower_number(m, c);
    if (c->rule.nout > UINT16_MAX)
        return CR_FAIL(CR_EUNSUPPORTED, "%s: %d results, and a step of native code gives at most %d", c->op->name,
                       c->rule.nout, UINT16_MAX);
    if (cr_way_counts(c->base)) CR_TRY(lower_count(m, c));
    int32_t *outs = cr_arena_alloc(&m->l->arena, 2 * (c->rule.nout + (size_t)1) * sizeof *outs),
            *after = outs + c->rule.nout;
    if (!outs) return CR_ENOMEM;
    for (int i = 0; i < c->rule.nout; i++) CR_TRY(target_of(m, c, i, &outs[i], &after[i]));
    if (cr_way_copies_first(c->base) && outs[0] != c->window[0]) CR_TRY(cr__copy_step(m, c->window[0], outs[0]));
    for (uint16_t i = 0; i < c->base->schema.nparams; i++)
        if (c->base->schema.params[i].writes && c->window[i] >= 0) note_write(m, c->window[i]);
    rt_step s = { .kind = RT_STEP_KERNEL, .nout = (uint16_t)c->rule.nout, .u.kernel = c->base->row->kernel };
    CR_TRY(kernel_args(m, c, &s));
    s.outs = (int32_t)m->lists.n;
    for (int i = 0; i < c->rule.nout; i++) CR_TRY(cr__list_add(m, outs[i]));
    CR_TRY(cr__step_add(m, s));
    for (int i = 0; i < c->rule.nout; i++)
        if (after[i] >= 0) CR_TRY(cr__copy_step(m, outs[i], after[i]));
    return CR_OK;
}

/* Nothing is computed: zeros, and copies of the first argument. */
static cr_status lower_idle(cr__method *m, call *c) {
    for (int i = 0; i < c->rule.nout; i++) {
        int32_t out, after;
        CR_TRY(target_of(m, c, i, &out, &after));
        if (out < 0) continue;
        if (cr_way_idle_copies(&c->rule, i)) CR_TRY(cr__copy_step(m, c->window[0], out));
        else CR_TRY(cr__zero_step(m, out));
        if (after >= 0) CR_TRY(cr__copy_step(m, out, after));
    }
    return CR_OK;
}

static cr_status lower_way(cr__method *m, call *c) {
    switch (cr_way_of(&c->rule, c->op)) {
    case CR_WAY_NOTHING:
        return cr_op_view(c->base) == CR_VIEW_STRIDED ? cr__check_reach(m, value(m, c->node->first)->meta) : CR_OK;
    case CR_WAY_IDLE: return lower_idle(m, c);
    case CR_WAY_TEXT: return lower_block(m, c);
    case CR_WAY_KERNEL: return lower_kernel(m, c);
    case CR_WAY_ABSENT: break;
    }
    return CR_FAIL(CR_EUNSUPPORTED, "%s has no kernel", c->base->name);
}

/* ---- custom operators ---- */

/* The place of the op among those that the model calls. */
static cr_status need_op(cr_lowered *l, const cr_op *op, uint16_t *out) {
    for (size_t i = 0; i < l->needs.n; i++)
        if (!strcmp(l->needs.at[i].op, op->name)) return *out = (uint16_t)i, CR_OK;
    if (l->needs.n == UINT16_MAX) return CR_FAIL(CR_EUNSUPPORTED, "more than %d custom operators", UINT16_MAX);
    cresset_op_need need = { cr_arena_strdup(&l->arena, op->name), cr_arena_strdup(&l->arena, op->schema.text) };
    if (!need.op || !need.schema) return CR_ENOMEM;
    *out = (uint16_t)l->needs.n;
    return cr_vec_push(&l->needs, need);
}

static cr_status check_custom(const cr_op *op) {
    const cr_schema *s = &op->schema;
    const char *what = s->nparams > CRESSET_OP_MAX_ARGS || s->nreturns > CRESSET_OP_MAX_RESULTS ? "too many arguments "
                                                                                                  "or results"
                                                                                                : NULL;
    for (uint16_t i = 0; i < s->nparams && !what; i++) {
        uint8_t t = s->params[i].type;
        bool plain = t == CR_T_TENSOR || t == CR_T_INT || t == CR_T_FLOAT || t == CR_T_BOOL || t == CR_T_STR ||
                     t == CR_T_SCALAR;
        if (s->params[i].list || !plain) what = s->params[i].name;
    }
    for (uint16_t i = 0; i < s->nreturns && !what; i++)
        if (s->returns[i].list || s->returns[i].type != CR_T_TENSOR) what = "a result that is no single tensor";
    if (!what) return CR_OK;
    return CR_FAIL(CR_EUNSUPPORTED,
                   "%s: native code calls custom operators that take tensors, ints, floats, bools and texts and give "
                   "tensors; this one has %s. Run the program interpreted, or replace the op: run_decompositions({op: "
                   "function})",
                   op->name, what);
}

static cr_status custom_arg(cr__method *m, const call *c, int i, rt_operand_ref *out) {
    const cr_arg *a = &c->args[i];
    *out = (rt_operand_ref){ .kind = RT_A_NONE };
    if (c->window[i] >= 0) *out = (rt_operand_ref){ .kind = RT_A_WINDOW, .at = c->window[i] };
    else if (a->kind == CR_ARG_STR) {
        out->kind = RT_A_STR;
        return cr__text(m, a->u.s, &out->at);
    } else if (a->kind == CR_ARG_COMPLEX)
        return CR_FAIL(CR_EUNSUPPORTED, "%s: a complex number as an argument", c->op->name);
    else if (a->kind != CR_ARG_NONE) {
        out->n = a->kind == CR_ARG_BOOL || (a->kind == CR_ARG_SYM && cr_sym_type_of(a->u.sym) == CR_TYPE_BOOL);
        return number_slot(m, a, &out->at, &out->kind);
    }
    if (c->base->schema.params[i].writes && c->window[i] >= 0) note_write(m, c->window[i]);
    return CR_OK;
}

/* Functions fill row-major memory; where the value is laid out otherwise it is copied from there. */
static cr_status custom_result(cr__method *m, const call *c, int i, int32_t *window, int32_t *after) {
    const cr_meta *meta = value(m, c->node->first + (uint32_t)i)->meta;
    int32_t own, buffer;
    *after = -1;
    CR_TRY(cr__window_of(m, c->node->first + (uint32_t)i, &own));
    *window = own;
    if (cr_meta_is_contiguous(m->env, meta, CR_CONTIGUOUS) == CR_YES) return CR_OK;
    cr_meta dense;
    cr_meta_copy(&dense, meta);
    dense.offset = 0;
    dense.storage = 0;
    cr_strides_contiguous(m->env, dense.rank, dense.size, dense.stride);
    CR_TRY(cr__buffer_of(m, &dense, &buffer));
    *after = own;
    return cr__window(m, buffer, &dense, window);
}

/* The host gives the function when an instance is made; here its name and schema are noted. */
static cr_status lower_custom(cr__method *m, call *c) {
    const cr_schema *s = &c->base->schema;
    rt_operand_ref refs[CRESSET_OP_MAX_ARGS];
    int32_t outs[CRESSET_OP_MAX_RESULTS], after[CRESSET_OP_MAX_RESULTS];
    rt_step step = { .kind = RT_STEP_CUSTOM, .nargs = s->nparams, .nout = s->nreturns };
    CR_TRY(check_custom(c->base));
    CR_TRY(need_op(m->l, c->base, &step.ncarried));
    for (int i = 0; i < s->nparams; i++) CR_TRY(custom_arg(m, c, i, &refs[i]));
    for (int i = 0; i < s->nreturns; i++) CR_TRY(custom_result(m, c, i, &outs[i], &after[i]));
    step.args = (int32_t)m->args.n;
    for (int i = 0; i < s->nparams; i++) CR_TRY(cr__arg_add(m, refs[i]));
    step.outs = (int32_t)m->lists.n;
    for (int i = 0; i < s->nreturns; i++) CR_TRY(cr__list_add(m, outs[i]));
    CR_TRY(cr__step_add(m, step));
    for (int i = 0; i < s->nreturns; i++)
        if (after[i] >= 0) CR_TRY(cr__copy_step(m, outs[i], after[i]));
    return CR_OK;
}

/* ---- assertions ---- */

static cr_status lower_assert(cr__method *m, call *c, bool *done) {
    *done = true;
    cr_arg a = c->args[0];
    cr_sym e = a.kind == CR_ARG_SYM ? a.u.sym : a.kind == CR_ARG_INT ? cr_dim_sym(m->env, a.u.i) : NULL;
    cr_check check = (cr_check)cr_op_facts(c->base)->check;
    if (check == CR_CHECK_TRUTH) {
        if (a.kind == CR_ARG_BOOL && a.u.i) return CR_OK;
        if (a.kind == CR_ARG_BOOL) e = cr_sym_bool(m->env, false);
        if (e && cr_sym_type_of(e) == CR_TYPE_INT) e = cr_sym_compare(m->env, e, CR_NE, cr_sym_int(m->env, 0));
        if (!e) return CR_FAIL(CR_EUNSUPPORTED, "_assert_scalar on a float has no native form");
        return cr__check_step(m, e,
                              c->args[1].kind == CR_ARG_STR ? c->args[1].u.s : "an assertion of the model failed");
    }
    if (check == CR_CHECK_RANGE) {
        for (int i = 1; i <= 2 && e; i++) {
            if (c->args[i].kind != CR_ARG_INT) continue;
            cr_sym bound = cr_sym_compare(m->env, e, i == 1 ? CR_GE : CR_LE, cr_sym_int(m->env, c->args[i].u.i));
            if (cr_sym_truth(m->env, bound) == CR_YES && cr_sym_kind_of(e) != CR_SYM_SYMBOL) continue;
            char text[128];
            snprintf(text, sizeof text, "a size that depends on data is %s %lld, which the model excludes",
                     i == 1 ? "below" : "above", (long long)c->args[i].u.i);
            CR_TRY(cr__check_step(m, bound, text));
        }
        return CR_OK;
    }
    *done = check == CR_CHECK_METAS; /* held when the program was lowered */
    return CR_OK;
}

/* ---- regions ---- */

static cr_status collect_symbols(cr__method *m, cr__symbols *all, cr_sym e) {
    if (!e) return CR_OK;
    if (cr_sym_kind_of(e) == CR_SYM_SYMBOL) {
        for (size_t i = 0; i < all->n; i++)
            if (all->at[i] == e) return CR_OK;
        return cr__slot_find(m, e) >= 0 ? cr_vec_push(all, e) : CR_OK;
    }
    for (size_t i = 0; i < cr_sym_operand_count(e); i++) CR_TRY(collect_symbols(m, all, cr_sym_operand(e, i)));
    return CR_OK;
}

cr_status cr__outer_symbols(cr__method *m, const cr_graph *body, cr__symbols *all) {
    for (uint32_t v = 0; v < cr_graph_value_count(body); v++) {
        const cr_value *x = cr_graph_value(body, v);
        if (x->node == CR_NO_NODE) continue;
        CR_TRY(collect_symbols(m, all, x->expr));
        if (x->meta && !cr_dim_is_plain(x->meta->offset))
            CR_TRY(collect_symbols(m, all, cr_dim_sym(m->env, x->meta->offset)));
        for (int d = 0; x->meta && d < x->meta->rank; d++) {
            if (!cr_dim_is_plain(x->meta->size[d]))
                CR_TRY(collect_symbols(m, all, cr_dim_sym(m->env, x->meta->size[d])));
            if (!cr_dim_is_plain(x->meta->stride[d]))
                CR_TRY(collect_symbols(m, all, cr_dim_sym(m->env, x->meta->stride[d])));
        }
    }
    return CR_OK;
}

static cr_status region_operand(cr__method *m, const cr_arg *given, rt_operand_ref *out) {
    cr_arg a = number_of(m, given);
    *out = (rt_operand_ref){ .kind = RT_A_NONE };
    if (a.kind == CR_ARG_VALUE) {
        out->kind = RT_A_WINDOW;
        return cr__window_of(m, (uint32_t)a.u.i, &out->at);
    }
    if (a.kind == CR_ARG_NONE) return CR_OK;
    return number_slot(m, &a, &out->at, &out->kind);
}

/* Sizes of a result that only the branch which runs gives: slots of their own, and which dimensions they are. */
static cr_status find_sizes(cr__method *m, const cr_meta *meta, uint32_t *dims) {
    for (int d = 0; d < meta->rank; d++) {
        cr_sym e = cr_dim_is_plain(meta->size[d]) ? NULL : cr_dim_sym(m->env, meta->size[d]);
        int32_t slot;
        if (!e || cr_sym_kind_of(e) != CR_SYM_SYMBOL || cr__slot_find(m, e) >= 0) continue;
        CR_TRY(cr__slot_define(m, e, CR__SLOT_LATE, &slot));
        *dims |= 1u << d;
    }
    return CR_OK;
}

static cr_status region_results(cr__method *m, const cr_node *node, bool sizes, rt_operand_ref *outs) {
    for (uint32_t i = 0; i < node->nvalues; i++) {
        const cr_value *v = value(m, node->first + i);
        outs[i] = (rt_operand_ref){ .kind = RT_A_NONE };
        if (v->type == CR_T_TENSOR && v->meta) {
            outs[i].kind = RT_A_WINDOW;
            if (sizes) CR_TRY(find_sizes(m, v->meta, &outs[i].n));
            CR_TRY(cr__window_of(m, node->first + i, &outs[i].at));
        } else if (symbol_of(v->expr) && cr__slot_find(m, symbol_of(v->expr)) < 0) {
            outs[i].kind = cr_sym_type_of(v->expr) == CR_TYPE_FLOAT ? RT_A_FLOAT : RT_A_INT;
            CR_TRY(cr__slot_define(m, symbol_of(v->expr), CR__SLOT_LATE, &outs[i].at));
        }
    }
    return CR_OK;
}

static const uint8_t region_steps[] = {
    [CR_REGION_COND] = RT_STEP_COND, [CR_REGION_WHILE] = RT_STEP_WHILE, [CR_REGION_SCAN] = RT_STEP_SCAN,
    [CR_REGION_FOLD] = RT_STEP_FOLD,
};

static uint16_t list_length(const cr_arg *a) { return a->kind == CR_ARG_LIST ? (uint16_t)a->n : 0; }

typedef CR_VEC(rt_operand_ref) operand_refs;

/* The condition, the operands, then the outer numbers that the bodies need. */
static cr_status region_operands(cr__method *m, const cr_node *node, const cr_region *r, const cr__symbols *symbols,
                                 operand_refs *out) {
    rt_operand_ref one;
    if (r->condition) {
        CR_TRY(region_operand(m, &node->args[0], &one));
        CR_TRY(cr_vec_push(out, one));
    }
    for (int k = r->lists; k < node->nargs; k++)
        for (uint32_t i = 0; i < list_length(&node->args[k]); i++) {
            CR_TRY(region_operand(m, &node->args[k].u.list[i], &one));
            CR_TRY(cr_vec_push(out, one));
        }
    for (size_t i = 0; i < symbols->n; i++) {
        one = (rt_operand_ref){ .kind = cr_sym_type_of(symbols->at[i]) == CR_TYPE_FLOAT ? RT_A_FLOAT : RT_A_INT,
                                .at = cr__slot_find(m, symbols->at[i]) };
        CR_TRY(cr_vec_push(out, one));
    }
    return CR_OK;
}

static cr_status lower_region(cr__method *m, const cr_node *node) {
    const cr_region *r = &cr_op_facts(node->op)->region;
    if (r->kind == CR_REGION_ROWS) return cr__lower_rows(m, node);
    uint8_t step = r->kind < CR_COUNT(region_steps) ? region_steps[r->kind] : 0;
    if (!step) return CR_FAIL(CR_EUNSUPPORTED, "%s has no native form yet", node->op->name);
    const rt_method **bodies = cr_arena_calloc(&m->l->arena, 2, sizeof *bodies);
    rt_operand_ref *outs = cr_arena_calloc(&m->l->arena, node->nvalues + 1, sizeof *outs);
    if (!bodies || !outs) return CR_ENOMEM;
    cr__symbols symbols = { 0 };
    operand_refs refs = { 0 };
    cr_status status = CR_OK;
    for (int k = 0; k < r->ngraphs; k++) CR_TRY_OUT(cr__outer_symbols(m, node->args[r->graphs + k].u.graph, &symbols));
    CR_TRY_OUT(region_operands(m, node, r, &symbols, &refs));
    for (int k = 0; k < r->ngraphs; k++) {
        rt_method *body = NULL;
        CR_TRY_OUT(cr__lower_body(m, node->args[r->graphs + k].u.graph, &symbols, &body));
        bodies[k] = body;
        m->writes_state |= body->writes_state;
    }
    CR_TRY_OUT(cr__flush_numbers(m)); /* what is pending from here on follows from the results */
    CR_TRY_OUT(region_results(m, node, step == RT_STEP_COND, outs));
    rt_step s = { .kind = step,
                  .nargs = (uint16_t)refs.n,
                  .nout = (uint16_t)node->nvalues,
                  .args = (int32_t)m->args.n,
                  .u.bodies = bodies };
    if (step == RT_STEP_COND && m->pending.n) {
        rt_number *after = cr_arena_copy(&m->l->arena, m->pending.at, m->pending.n * sizeof *after);
        if (!after) CR_TRY_OUT(CR_ENOMEM);
        s.after = after;
        s.nafter = (int32_t)m->pending.n;
        m->pending.n = 0;
    }
    if (step == RT_STEP_FOLD) s.nslices = list_length(&node->args[1]);
    if (step == RT_STEP_SCAN) {
        s.ncarried = r->carried ? list_length(&node->args[1]) : 0;
        s.nslices = list_length(&node->args[r->carried ? 2 : 1]);
    }
    for (size_t i = 0; i < refs.n; i++) CR_TRY_OUT(cr__arg_add(m, refs.at[i]));
    s.outs = (int32_t)m->args.n;
    for (uint32_t i = 0; i < node->nvalues; i++) CR_TRY_OUT(cr__arg_add(m, outs[i]));
    CR_TRY_OUT(cr__step_add(m, s));
out:
    cr_vec_dispose(&symbols);
    cr_vec_dispose(&refs);
    return status;
}

/* ---- nodes ---- */

/* Did the passes find the call's first result to be in its first argument's memory? Where a reshape is a view for some
 * sizes only they may have chosen a copy, also when facts learned since would allow the view: the graph's metas
 * decide. */
static bool shares_memory(cr__method *m, const call *c) {
    if (!c->node->nvalues || !c->node->nargs || c->node->args[0].kind != CR_ARG_VALUE) return true;
    const cr_meta *result = value(m, c->node->first)->meta, *argument = value(m, (uint32_t)c->node->args[0].u.i)->meta;
    return !result || !argument || result->storage == argument->storage;
}

/* The rule in the graph's terms: whether a result is a view was decided when the graph was made. */
static cr_status run_rule(cr__method *m, call *c) {
    bool shared = shares_memory(m, c), general = cr_env_set_general(m->env, !shared);
    cr_status status = cr_rule_run(&c->rule, c->op, m->env, c->args, NULL);
    cr_env_set_general(m->env, general);
    for (int i = 0; !status && !shared && c->base->row->kernel != rt_k_nothing && i < c->rule.nout; i++) {
        c->rule.out[i].alias = -1;
        c->rule.out[i].same = false;
    }
    return status;
}

static bool is_number_node(const cr__method *m, const cr_node *node) {
    if (node->op->row->kernel || (node->op->tags & CR_TAG_HIGHER_ORDER) || !node->nvalues) return false;
    for (uint32_t i = 0; i < node->nvalues; i++)
        if (value(m, node->first + i)->type == CR_T_TENSOR) return false;
    return true;
}

/* Is it a tensor of the caller's, as it is or after a write? */
static bool is_placeholder(const cr__method *m, uint32_t v) {
    for (;;) {
        const cr_value *now = value(m, v);
        const cr_node *node = cr_graph_node(m->g, now->node);
        if (node->kind != CR_NODE_CALL) return node->kind == CR_NODE_PLACEHOLDER;
        bool itself = now->hidden || node->op->variant == CR_INPLACE || (node->op->tags & CR_TAG_METADATA);
        const cr_arg *from = itself ? &node->args[now->hidden ? now->ret : 0] : NULL;
        if (!from || from->kind != CR_ARG_VALUE) return false;
        v = (uint32_t)from->u.i;
    }
}

static bool same_geometry(const cr_meta *a, const cr_meta *b) {
    bool same = a->rank == b->rank && a->offset == b->offset;
    for (int d = 0; same && d < a->rank; d++) same = a->size[d] == b->size[d] && a->stride[d] == b->stride[d];
    return same;
}

/* t_(), resize_(), set_(): no step, as the values' metas say it all, where they say it of memory that is there. */
static cr_status lower_metadata(cr__method *m, const cr_node *node) {
    const char *name = node->op->name;
    uint32_t self = (uint32_t)node->args[0].u.i;
    const cr_meta *before = value(m, self)->meta, *after = value(m, node->first)->meta;
    bool adopts = node->op->base->row->shape == shape_set;
    if (!adopts && same_geometry(before, after)) return CR_OK;
    if (is_placeholder(m, self))
        return CR_FAIL(CR_EUNSUPPORTED,
                       "%s changes the shape of an input or buffer itself, which native code cannot pass on; call it "
                       "on a .clone(), or use the form that returns a new tensor",
                       name);
    if (!(node->op->base->tags & CR_TAG_METADATA)) return CR_OK;
    cr_dim had = cr_meta_numel(m->env, before), has = cr_meta_numel(m->env, after);
    bool dense = cr_meta_is_dense(m->env, before) == CR_YES;
    if (!adopts && dense && cr_dim_known(m->env, has, CR_LE, had) == CR_YES) return CR_OK;
    return CR_FAIL(CR_EUNSUPPORTED,
                   "%s gives a tensor other memory than it was made with, which has no native form; make a new tensor "
                   "instead",
                   name);
}

static cr_status lower_call(cr__method *m, const cr_node *node) {
    call c;
    c.node = node;
    c.op = node->op;
    c.base = node->op->base;
    if (node->op->tags & CR_TAG_HIGHER_ORDER) return lower_region(m, node);
    if (is_number_node(m, node)) return CR_OK;
    if (c.op->variant == CR_OUT) /* others were taken apart */
        return CR_FAIL(CR_EUNSUPPORTED,
                       "%s: 'out' has other sizes than the result, or is a list, which has no native form; make it "
                       "with the result's sizes, or export the functional form",
                       c.op->name);
    if ((c.op->variant == CR_INPLACE && (c.base->tags & CR_TAG_INPLACE_VIEW)) || (c.base->tags & CR_TAG_METADATA))
        return lower_metadata(m, node);
    CR_TRY(prepare(m, &c));
    if (c.base->tags & CR_TAG_ASSERT) {
        bool done;
        CR_TRY(lower_assert(m, &c, &done));
        if (done) return CR_OK;
    }
    if (c.base->tags & CR_TAG_CUSTOM) return lower_custom(m, &c);
    cr_status status = run_rule(m, &c);
    if (!status) status = lower_way(m, &c);
    cr_rule_dispose(&c.rule);
    return status;
}

/* Graph node, source line and module, for profiles, errors and whoever reads the C text. */
static cr_status note_origin(cr__method *m, const cr_node *node) {
    cr_str text;
    cr_str_init(&text);
    cr_str_addf(&text, "%s", node->op ? node->op->name : "");
    if (node->nvalues) cr_str_addf(&text, " -> %s", value(m, node->first)->name);
    cr__frame f;
    bool known = cr__source_frame(&node->origin, true, &f);
    int length;
    const char *module = cr__source_module(&node->origin, &length);
    if (known) { /* the file's name: the text is the same wherever it is made, and libraries are small */
        const char *path = cr__shown_path("", f.path, &f.path_length);
        int slashes = 0, from = f.path_length;
        while (from > 0 && (slashes += path[from - 1] == '/') < 2) from--;
        cr_str_addf(&text, " (%.*s:%.*s", f.path_length - from, path + from, f.line_length, f.line);
    }
    if (length) cr_str_addf(&text, "%s%.*s", known ? ", " : " (", length, module);
    if (known || length) cr_str_addc(&text, ')');
    char *copy = cr_arena_strdup(&m->l->arena, cr_str_get(&text));
    cr_str_dispose(&text);
    if (!copy) return CR_ENOMEM;
    m->origin = (int32_t)m->origins.n;
    return cr_vec_push(&m->origins, copy);
}

cr_status cr__lower_nodes(cr__method *m) {
    for (uint32_t n = cr_graph_first(m->g); n != CR_NO_NODE; n = cr_graph_next(m->g, n)) {
        const cr_node *node = cr_graph_node(m->g, n);
        cr_status status = CR_OK;
        if (node->kind == CR_NODE_GET_ATTR) {
            const cr_tensor *t = cr_graph_constant(m->g, node->target);
            int32_t buffer;
            CR_TRY(cr__buffer_weight(m, t, &buffer));
            uint64_t storage = value(m, node->first)->meta->storage;
            if (storage) CR_TRY(cr_map_put(&m->storages, &storage, sizeof storage, (uint64_t)buffer + 1));
            CR_TRY(cr__window(m, buffer, &t->meta, &m->window[node->first]));
        } else if (node->kind == CR_NODE_CALL) {
            CR_TRY(note_origin(m, node));
            status = lower_call(m, node);
        }
        if (status) return node->nvalues ? cr_error_context(status, "%%%s", value(m, node->first)->name) : status;
    }
    return CR_OK;
}

/* ---- inputs and outputs ---- */

/* size = a*s + b with one unknown symbol: s = (size - b) // a, and the whole is checked afterwards. */
static cr_status solve(cr__method *m, int32_t index, int dim, cr_sym e, bool *done) {
    *done = false;
    if (cr_sym_kind_of(e) != CR_SYM_ADD || cr_sym_operand_count(e) != 1) return CR_OK;
    cr_sym s = cr_sym_operand(e, 0);
    if (cr_sym_kind_of(s) != CR_SYM_SYMBOL || cr__slot_find(m, s) >= 0) return CR_OK;
    int32_t whole, constant, factor, slot;
    CR_TRY(cr__slot_define(m, e, CR__SLOT_ENTRY, &whole)); /* the size itself */
    CR_TRY(cr_vec_push(&m->binds,
                       (rt_bind){ .input = index, .dim = dim, .slot = whole, .min = INT64_MIN, .max = INT64_MAX }));
    CR_TRY(cr__slot_bits(m, CR_TYPE_INT, cr_sym_constant(e), &constant));
    CR_TRY(cr__slot_bits(m, CR_TYPE_INT, cr_sym_coefficient(e, 0), &factor));
    CR_TRY(cr__slot_define(m, s, CR__SLOT_ENTRY, &slot));
    int32_t rest, back;
    CR_TRY(cr__slot_new(m, CR__SLOT_ENTRY, 0, &rest));
    CR_TRY(cr_vec_push(&m->entry, (rt_number){ RT_N_SUB, rest, whole, constant, 0 }));
    CR_TRY(cr_vec_push(&m->entry, (rt_number){ RT_N_FLOORDIV, slot, rest, factor, 0 }));
    CR_TRY(cr__slot_new(m, CR__SLOT_ENTRY, 0, &back));
    CR_TRY(cr_vec_push(&m->entry, (rt_number){ RT_N_MUL, back, slot, factor, 0 }));
    CR_TRY(cr_vec_push(&m->entry, (rt_number){ RT_N_ADD, back, back, constant, 0 }));
    CR_TRY(cr_vec_push(&m->binds, (rt_bind){ .input = index, .dim = dim, .slot = back, .check = true }));
    *done = true;
    return CR_OK;
}

cr_status cr__bind_sizes(cr__method *m, int32_t index, const cr_meta *meta) {
    for (int d = 0; d < meta->rank; d++) {
        cr_sym e = cr_dim_sym(m->env, meta->size[d]);
        int32_t slot;
        if (!e) return CR_FAIL(CR_ENOMEM, "out of memory");
        if (cr_sym_kind_of(e) == CR_SYM_SYMBOL && cr__slot_find(m, e) < 0) {
            cr_range r = cr_sym_range(m->env, e);
            CR_TRY(cr__slot_define(m, e, CR__SLOT_ENTRY, &slot));
            CR_TRY(
                cr_vec_push(&m->binds, (rt_bind){ .input = index, .dim = d, .slot = slot, .min = r.lo, .max = r.hi }));
        }
    }
    return CR_OK;
}

/* What is left after all lone symbols are bound: constants and expressions are checked, or give the one symbol in
 * them. */
static cr_status check_sizes(cr__method *m, int32_t index, const cr_meta *meta) {
    for (int d = 0; d < meta->rank; d++) {
        cr_sym e = cr_dim_sym(m->env, meta->size[d]);
        bool done = false, bound = false;
        for (size_t i = 0; i < m->binds.n; i++) bound |= m->binds.at[i].input == index && m->binds.at[i].dim == d;
        if (bound) continue;
        int32_t slot;
        CR_TRY(solve(m, index, d, e, &done));
        if (done) continue;
        CR_TRY(cr__slot(m, e, &slot));
        CR_TRY(cr_vec_push(&m->binds, (rt_bind){ .input = index, .dim = d, .slot = slot, .check = true }));
    }
    return CR_OK;
}

/* A number that is given as an expression, which may come before the inputs that give its symbols. */
static cr_status check_number(cr__method *m, int32_t index, cr_sym e) {
    bool done = false;
    for (size_t i = 0; i < m->binds.n && !done; i++) done = m->binds.at[i].input == index;
    if (done) return CR_OK;
    CR_TRY(solve(m, index, -1, e, &done));
    rt_input *in = &m->inputs.at[index];
    CR_TRY(cr__slot(m, e, &in->slot));
    if (done) return CR_OK;
    return cr_vec_push(&m->binds, (rt_bind){ .input = index, .dim = -1, .slot = in->slot, .check = true });
}

cr_status cr__check_all_sizes(cr__method *m, const uint32_t *values) {
    for (size_t i = 0; i < m->inputs.n; i++)
        if (m->inputs.at[i].kind == CRESSET_TENSOR) CR_TRY(check_sizes(m, (int32_t)i, value(m, values[i])->meta));
    return CR_OK;
}

cr_status cr__check_all_numbers(cr__method *m, const uint32_t *values) {
    for (size_t i = 0; i < m->inputs.n; i++) {
        const cr_value *v = value(m, values[i]);
        if (!m->inputs.at[i].is_constant && v->type != CR_T_TENSOR && v->expr)
            CR_TRY(check_number(m, (int32_t)i, v->expr));
    }
    return CR_OK;
}

static bool taken(const cr__method *m, int32_t buffer) {
    for (size_t i = 0; i < m->outputs.n; i++)
        if (m->outputs.at[i].kind == CRESSET_TENSOR && m->windows.at[m->outputs.at[i].at].buffer == buffer) return true;
    return false;
}

cr_status cr__output(cr__method *m, const cr_arg *given) {
    cr_arg a = number_of(m, given);
    rt_output out = { .kind = CRESSET_NONE };
    if (a.kind == CR_ARG_VALUE) {
        out.kind = CRESSET_TENSOR;
        CR_TRY(cr__window_of(m, (uint32_t)a.u.i, &out.at));
        int32_t buffer = m->windows.at[out.at].buffer;
        if (m->buffers.at[buffer].kind != RT_BUFFER_SCRATCH || taken(m, buffer)) {
            int32_t copy;
            CR_TRY(cr__scratch(m, value(m, (uint32_t)a.u.i)->meta, &copy));
            CR_TRY(cr__copy_step(m, out.at, copy));
            out.at = copy;
        }
        m->buffers.at[m->windows.at[out.at].buffer].index = (int32_t)m->outputs.n;
    } else if (a.kind == CR_ARG_STR) {
        out.kind = CRESSET_STRING;
        CR_TRY(cr__text(m, a.u.s, &out.at));
    } else if (a.kind != CR_ARG_NONE) {
        uint8_t kind;
        CR_TRY(number_slot(m, &a, &out.at, &kind));
        bool truth = a.kind == CR_ARG_BOOL || (a.kind == CR_ARG_SYM && cr_sym_type_of(a.u.sym) == CR_TYPE_BOOL);
        out.kind = kind == RT_A_FLOAT ? CRESSET_FLOAT : truth ? CRESSET_BOOLEAN : CRESSET_INT;
        CR_TRY(cr__flush_numbers(m));
    }
    return cr_vec_push(&m->outputs, out);
}

/* Outputs stay until the end; they are allocated for the caller. */
void cr__outputs_finish(cr__method *m) {
    for (size_t i = 0; i < m->outputs.n; i++)
        if (m->outputs.at[i].kind == CRESSET_TENSOR)
            m->buffers.at[m->windows.at[m->outputs.at[i].at].buffer].kind = RT_BUFFER_RESULT;
}

/* *known = false: it has a symbol that no step before gives. */
static cr_status check_condition(cr__method *m, size_t i, bool *known) {
    cr_cond cond = cr_env_cond(m->env, i);
    cr_str text;
    cr_str_init(&text);
    /* as the interpreter says it */
    if (cond.message && *cond.message) cr_str_addf(&text, "%s: expected ", cond.message);
    else cr_str_add(&text, "the sizes must fulfil ");
    cr_sym_print(cond.condition, &text);
    size_t steps = m->steps.n;
    cr_status status = cr__check_step(m, cond.condition, cr_str_get(&text));
    cr_str_dispose(&text);
    *known = status != CR_EUNSUPPORTED;
    if (*known) return status;
    m->steps.n = steps;
    return CR_OK;
}

/* Conditions under which the program was lowered: checked first where inputs give them, else once they are known. */
cr_status cr__check_conditions(cr__method *m) {
    size_t kept = 0;
    bool known;
    for (size_t k = 0; k < m->waiting.n; k++) {
        CR_TRY(check_condition(m, m->waiting.at[k], &known));
        if (!known) m->waiting.at[kept++] = m->waiting.at[k];
    }
    m->waiting.n = kept;
    for (size_t i = m->first_cond; i < cr_env_cond_count(m->env); i++) {
        CR_TRY(check_condition(m, i, &known));
        if (!known) CR_TRY(cr_vec_push(&m->waiting, i));
    }
    return CR_OK;
}

/* ---- bodies ---- */

static cr_status body_inputs(cr__method *m, const cr__symbols *symbols, uint32_t *values) {
    for (uint32_t n = cr_graph_first(m->g); n != CR_NO_NODE; n = cr_graph_next(m->g, n)) {
        const cr_node *node = cr_graph_node(m->g, n);
        if (node->kind != CR_NODE_PLACEHOLDER) continue;
        const cr_value *v = value(m, node->first);
        int32_t index = (int32_t)m->inputs.n;
        rt_input in = { .kind = CRESSET_INT };
        values[index] = node->first;
        if (v->type == CR_T_TENSOR) {
            int32_t buffer;
            in.kind = CRESSET_TENSOR;
            CR_TRY(cr__bind_sizes(m, index, v->meta));
            CR_TRY(cr__buffer_add(m, (rt_buffer){ .kind = RT_BUFFER_INPUT, .index = index }, v->meta->storage,
                                  cr__bytes_of(m, v->meta), &buffer));
        } else {
            in.kind = v->type == CR_T_FLOAT ? CRESSET_FLOAT : CRESSET_INT;
            if (v->expr && cr_sym_kind_of(v->expr) == CR_SYM_SYMBOL && cr__slot_find(m, v->expr) < 0) {
                CR_TRY(cr__slot_define(m, v->expr, CR__SLOT_ENTRY, &in.slot));
                CR_TRY(
                    cr_vec_push(&m->binds,
                                (rt_bind){
                                    .input = index, .dim = -1, .slot = in.slot, .min = INT64_MIN, .max = INT64_MAX }));
            }
        }
        CR_TRY(cr_vec_push(&m->inputs, in));
    }
    for (size_t i = 0; i < symbols->n; i++) {
        int32_t index = (int32_t)m->inputs.n, slot = cr__slot_find(m, symbols->at[i]);
        values[index] = CR_NO_VALUE;
        if (slot < 0) {
            CR_TRY(cr__slot_define(m, symbols->at[i], CR__SLOT_ENTRY, &slot));
            CR_TRY(
                cr_vec_push(&m->binds,
                            (rt_bind){ .input = index, .dim = -1, .slot = slot, .min = INT64_MIN, .max = INT64_MAX }));
        }
        CR_TRY(
            cr_vec_push(&m->inputs, (rt_input){ .kind = cr_sym_type_of(symbols->at[i]) == CR_TYPE_FLOAT ? CRESSET_FLOAT
                                                                                                        : CRESSET_INT,
                                                .slot = slot }));
    }
    return CR_OK;
}

static cr_status lower_body(cr__method *m, const cr__symbols *symbols, rt_method **out) {
    uint32_t *values = cr_arena_alloc(&m->l->arena, (cr_graph_node_count(m->g) + symbols->n + 1) * sizeof *values);
    if (!values) return CR_ENOMEM;
    CR_TRY(body_inputs(m, symbols, values));
    CR_TRY(cr__find_coming(m));
    CR_TRY(cr__check_all_sizes(m, values));
    for (size_t i = 0; i < m->inputs.n; i++)
        if (m->inputs.at[i].kind == CRESSET_TENSOR) CR_TRY(cr__window_of(m, values[i], &m->inputs.at[i].window));
    CR_TRY(cr__lower_nodes(m));
    const cr_node *output = cr_graph_node(m->g, cr_graph_output(m->g));
    for (uint16_t i = 0; i < output->nargs; i++) CR_TRY(cr__output(m, &output->args[i]));
    cr__outputs_finish(m);
    return cr__method_finish(m, out);
}

cr_status cr__lower_body(cr__method *outer, cr_graph *body, const cr__symbols *symbols, rt_method **out) {
    cr__method m;
    cr_status status = cr__method_init(&m, outer->l, outer->weights, body);
    if (!status) status = lower_body(&m, symbols, out);
    cr__method_dispose(&m);
    return status ? cr_error_context(status, "graph '%s'", cr_graph_name(body)) : CR_OK;
}
