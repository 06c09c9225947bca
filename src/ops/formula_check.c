/* formula_check.c: from a row's texts to trees whose names are resolved, and the checks that a whole table must pass.
 *
 * Resolution happens once per row, on first use, and writes into the fresh trees; afterwards they are read-only. A name
 * that means nothing is an error then; a missing op only when it is called (or checked), because a row may mention in
 * one branch what another build leaves out. */
#include "ops/formula_eval.h"

#include <math.h>

#include <pthread.h>
#include <stdio.h>

typedef struct resolver {
    const cr_op *op;
    cr_formula *f;
    cr_arena *arena;
    const char *column;
    CR_VEC(const char *) names; /* per slot; NULL: a loop variable out of scope */
    CR_VEC(uint16_t) let_of;
    bool in_let;
} resolver;

static cr_status fail_at(const resolver *r, uint32_t at, const char *format, const char *name) {
    char what[256], message[256];
    snprintf(what, sizeof what, "%s .%s", r->op->name, r->column);
    snprintf(message, sizeof message, format, name);
    return cr_formula_fail(what, r->f->text, at, "%s", message);
}

/* "grad", "grad0", "grad12": the number, or -1. */
static int numbered(const char *name, const char *stem, int count) {
    size_t n = strlen(stem);
    if (strncmp(name, stem, n)) return -1;
    if (!name[n]) return count ? 0 : -1;
    int value = 0;
    for (const char *p = name + n; *p; p++) {
        if (*p < '0' || *p > '9' || value > 99) return -1;
        value = value * 10 + (*p - '0');
    }
    return value < count ? value : -1;
}

static const struct { const char *name; int format; } formats[] = {
    { "contiguous_format", CR_CONTIGUOUS }, { "preserve_format", CR_PRESERVE },
    { "channels_last", CR_CHANNELS_LAST }, { "channels_last_3d", CR_CHANNELS_LAST_3D },
};

static cr_status resolve_name(resolver *r, cr_fnode *node) {
    const char *name = node->name;
    bool grad = r->f->column == CR_FORMULA_GRAD;
    int i, dtype;
    for (size_t k = r->names.n; k-- > 0;)
        if (r->names.at[k] && !strcmp(r->names.at[k], name)) {
            node->space = CR_FSPACE_LET;
            node->slot = (uint16_t)k;
            return CR_OK;
        }
    if ((i = cr__find_param(r->op, name)) >= 0) {
        node->space = CR_FSPACE_PARAM;
    } else if (grad && (i = numbered(name, "grad", r->op->schema.nreturns)) >= 0) {
        node->space = CR_FSPACE_GRAD;
    } else if (grad && (i = numbered(name, "result", r->op->schema.nreturns)) >= 0) {
        node->space = CR_FSPACE_RESULT;
    } else if (grad && !strcmp(name, "needs")) {
        if (r->in_let)
            return fail_at(r, node->at, "'%s' means the targets of a clause; in a let write needs(argument)", name);
        node->space = CR_FSPACE_NEEDS;
        i = 0;
    } else if (grad && !strcmp(name, "zero")) {
        node->space = CR_FSPACE_ZERO;
        i = 0;
    } else if (cr_dtype_find(name, &dtype)) {
        node->space = CR_FSPACE_DTYPE;
        i = dtype;
    } else {
        for (size_t k = 0; k < CR_COUNT(formats); k++)
            if (!strcmp(formats[k].name, name)) {
                node->space = CR_FSPACE_FORMAT;
                node->slot = (uint16_t)formats[k].format;
                return CR_OK;
            }
        return fail_at(r, node->at,
                       grad ? "'%s' is no argument, gradN, resultN, let or dtype" : "'%s' is no argument, let or dtype",
                       name);
    }
    node->slot = (uint16_t)i;
    return CR_OK;
}

const cr_op *cr__called_op(const cr_fnode *node) {
    static const char *const spaces[] = { "aten", "cresset", "prims" };
    const cr_op *op = node->ns ? cr_op_find_name(node->ns, node->name) : NULL;
    for (size_t i = 0; !op && !node->ns && i < CR_COUNT(spaces); i++) op = cr_op_find_name(spaces[i], node->name);
    if (!node->overload) return op;
    const char *overload = strcmp(node->overload, "default") ? node->overload : "";
    while (op && strcmp(op->schema.overload, overload)) op = op->next;
    return op;
}

static cr_status resolve(resolver *r, const cr_fnode *tree) {
    cr_fnode *node = (cr_fnode *)tree; /* fresh from the parser, not yet shared */
    /* nan_to_num: the argument, not the number */
    if (node->kind == CR_F_FLOAT && isnan(node->u.f) && cr__find_param(r->op, "nan") >= 0)
        node->kind = CR_F_NAME, node->name = "nan";
    if (node->kind == CR_F_NAME) return resolve_name(r, node);
    if (node->kind == CR_F_FOR) {
        CR_TRY(resolve(r, node->kids[1]));
        if (r->names.n >= UINT16_MAX) return fail_at(r, node->at, "%s", "too many names");
        node->slot = (uint16_t)r->names.n;
        CR_TRY(cr_vec_push(&r->names, node->name));
        CR_TRY(cr_vec_push(&r->let_of, UINT16_MAX));
        CR_TRY(resolve(r, node->kids[0]));
        r->names.at[node->slot] = NULL;
        return CR_OK;
    }
    if (node->kind == CR_F_CALL) {
        node->helper = cr__helper_find(node->name);
        node->op = cr__called_op(node);
        node->special = !strcmp(node->name, "needs")   ? CR_FSPECIAL_NEEDS
                        : !strcmp(node->name, "given") ? CR_FSPECIAL_GIVEN
                        : !strcmp(node->name, "where") ? CR_FSPECIAL_WHERE
                                                       : CR_FSPECIAL_NONE;
    }
    for (int i = 0; i < node->nkids; i++)
        if (node->kids[i]) CR_TRY(resolve(r, node->kids[i]));
    return CR_OK;
}

static bool is_tensor(const cr_op *op, const cr_fnode *node) {
    if (node->kind != CR_F_NAME) return false;
    if (node->space == CR_FSPACE_PARAM)
        return op->schema.params[node->slot].type == CR_T_TENSOR && !op->schema.params[node->slot].optional;
    return node->space == CR_FSPACE_RESULT || node->space == CR_FSPACE_GRAD;
}

/* Is something in it that could be saved? */
static bool may_save(const cr_op *op, const cr_fnode *node) {
    if (node->kind == CR_F_NAME)
        return node->space == CR_FSPACE_RESULT || node->space == CR_FSPACE_LET ||
               (node->space == CR_FSPACE_PARAM && op->schema.params[node->slot].type == CR_T_TENSOR);
    for (int i = 0; i < node->nkids; i++)
        if (node->kids[i] && may_save(op, node->kids[i])) return true;
    return false;
}

/* Does what it reads depend on no value? A comparison of a tensor is a tensor, which decides nothing here. */
static bool is_settled(const cr_op *op, const cr_fnode *node) {
    int k = node->kind;
    if (k == CR_F_TERNARY && !may_save(op, node)) return true; /* alpha == 1 ? grad : grad * alpha */
    if (k == CR_F_TERNARY || k == CR_F_FOR || k == CR_F_AND || k == CR_F_OR) return false;
    if (node->special == CR_FSPECIAL_WHERE) {
        const cr_fnode *test = node->nkids ? node->kids[0] : node;
        if (!cr_fkind_is_compare(test->kind) || !(is_tensor(op, test->kids[0]) || is_tensor(op, test->kids[1])))
            return false;
    } else if (node->special) {
        return false;
    }
    for (int i = 0; i < node->nkids; i++)
        if (node->kids[i] && !is_settled(op, node->kids[i])) return false;
    return true;
}

static cr_status resolve_statement(resolver *r, int index) {
    cr_fstatement *s = &r->f->statements[index];
    if (s->kind == CR_FS_CLAUSE && !(s->targets = cr_arena_calloc(r->arena, s->nnames + 1u, sizeof *s->targets)))
        return CR_ENOMEM;
    if (s->kind == CR_FS_CONSTANT && !s->nnames) r->f->constants = UINT32_MAX;
    r->in_let = s->kind == CR_FS_LET;
    for (int i = 0; i < s->nvalues; i++) {
        CR_TRY(resolve(r, s->values[i]));
        r->f->settled &= is_settled(r->op, s->values[i]);
    }
    for (int i = 0; i < s->nnames; i++) {
        const char *name = s->names[i];
        int param = cr__find_param(r->op, name);
        if (s->kind == CR_FS_CLAUSE && (param < 0 || r->op->schema.params[param].type != CR_T_TENSOR))
            return fail_at(r, s->at, "'%s' is no tensor argument, so it has no derivative", name);
        if (s->kind == CR_FS_CLAUSE) {
            s->targets[i] = (int8_t)param;
            r->f->targets |= (uint64_t)1 << param;
        }
        int result = s->kind == CR_FS_CONSTANT ? numbered(name, "result", r->op->schema.nreturns) : 0;
        if (result < 0) return fail_at(r, s->at, "'%s' is no result (result0, result1, ...)", name);
        if (s->kind == CR_FS_CONSTANT) r->f->constants |= 1u << result;
        if (s->kind != CR_FS_LET) continue;
        for (size_t k = 0; k < r->names.n; k++)
            if (r->names.at[k] && !strcmp(r->names.at[k], name)) param = 0;
        if (param >= 0) return fail_at(r, s->at, "let %s hides an argument or an earlier let", name);
        CR_TRY(cr_vec_push(&r->names, name));
        CR_TRY(cr_vec_push(&r->let_of, (uint16_t)index));
    }
    return CR_OK;
}

static cr_status parse_column(cr_arena *arena, const cr_op *op, const char *text, cr_formula_column column,
                              cr_formula *out) {
    resolver r = { .op = op, .f = out, .arena = arena, .column = column == CR_FORMULA_GRAD ? "grad" : "decomp" };
    cr_status status = cr_formula_parse(arena, text, column, out);
    if (status) return status == CR_ENOMEM ? status : cr_error_context(status, "%s .%s", op->name, r.column);
    out->settled = true;
    out->constants = out->n ? 0 : UINT32_MAX; /* .grad = "" */
    for (int i = 0; i < out->n; i++) CR_TRY_OUT(resolve_statement(&r, i));
    out->nslots = (uint16_t)r.let_of.n;
    if (r.let_of.n && !(out->let_of = cr_arena_copy(arena, r.let_of.at, r.let_of.n * sizeof *r.let_of.at)))
        status = CR_ENOMEM;
out:
    cr_vec_dispose(&r.names);
    cr_vec_dispose(&r.let_of);
    return status;
}

static struct { pthread_mutex_t lock; cr_arena arena; } cache = { .lock = PTHREAD_MUTEX_INITIALIZER };

static cr_status build(cr_op *op) {
    cr_op_formulas *formulas = cr_arena_calloc(&cache.arena, 1, sizeof *formulas);
    if (!formulas) return CR_ENOMEM;
    if (op->row->decomp) {
        CR_TRY(parse_column(&cache.arena, op, op->row->decomp, CR_FORMULA_DECOMP, &formulas->decomp));
        formulas->has_decomp = true;
    }
    if (op->row->core && strcmp(op->row->core, "keep")) {
        CR_TRY(parse_column(&cache.arena, op, op->row->core, CR_FORMULA_DECOMP, &formulas->core));
        formulas->has_core = true;
    }
    if (op->row->train) {
        CR_TRY(parse_column(&cache.arena, op, op->row->train, CR_FORMULA_DECOMP, &formulas->train));
        formulas->has_train = true;
    }
    if (op->row->batch.as) {
        CR_TRY(parse_column(&cache.arena, op, op->row->batch.as, CR_FORMULA_DECOMP, &formulas->batch));
        formulas->has_batch = true;
    }
    if (op->row->grad) {
        CR_TRY(parse_column(&cache.arena, op, op->row->grad, CR_FORMULA_GRAD, &formulas->grad));
        formulas->has_grad = true;
    }
    formulas->direct = formulas->has_grad || op->row->grad_fn;
    formulas->plain = formulas->direct && op->variant == CR_FUNCTIONAL &&
                      !(op->tags & (CR_TAG_CUSTOM | CR_TAG_METADATA)) && op->schema.nreturns <= CR__MAX_RESULTS;
    for (uint16_t i = 0; i < op->schema.nparams; i++) formulas->plain &= !op->schema.params[i].writes;
    __atomic_store_n(&op->formulas, formulas, __ATOMIC_RELEASE);
    return CR_OK;
}

cr_status cr__op_formulas_build(const cr_op *op, const cr_op_formulas **out) {
    cr_op *base = (cr_op *)op->base; /* ops are made by the table, in writable memory */
    pthread_mutex_lock(&cache.lock);
    cr_status status = base->formulas ? CR_OK : build(base);
    pthread_mutex_unlock(&cache.lock);
    *out = base->formulas;
    return status;
}

/* ---- checks over a row ---- */

typedef struct checker {
    const cr_op *op;
    const cr_formula *f;
    const char *column;
    uint64_t grads;       /* mentioned */
    uint8_t *used;        /* per slot */
} checker;

static cr_status complain(const checker *c, uint32_t at, const char *format, ...) CR_PRINTF(3, 4);
static cr_status complain(const checker *c, uint32_t at, const char *format, ...) {
    char what[256], message[256];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    snprintf(what, sizeof what, "%s .%s", c->op->name, c->column);
    return cr_formula_fail(what, c->f->text, at, "%s", message);
}

static cr_status check_call(const checker *c, const cr_fnode *node) {
    if (!node->ns && !node->overload && (!strcmp(node->name, "needs") || !strcmp(node->name, "given"))) {
        const char *stem = *node->name == 'n' ? "needs(argument)" : "given(gradN)";
        int space = *node->name == 'n' ? CR_FSPACE_PARAM : CR_FSPACE_GRAD;
        bool here = c->f->column == CR_FORMULA_GRAD || (space == CR_FSPACE_PARAM && !strcmp(c->column, "train"));
        if (node->nkids != 1 || node->kids[0]->space != space || !here)
            return complain(c, node->at, "write %s, in a .grad only", stem);
        return CR_OK;
    }
    bool keywords = false;
    for (int i = 0; i < node->nkids; i++) keywords |= node->keywords[i] != NULL;
    const cr__helper *helper = keywords || node->ns || node->overload ? NULL : node->helper;
    if (!helper && !node->op)
        return complain(c, node->at, "there is no op or helper '%s%s%s%s%s'", node->ns ? node->ns : "",
                        node->ns ? "::" : "", node->name, node->overload ? "." : "",
                        node->overload ? node->overload : "");
    bool is_op_too = helper && helper->numbers_only && node->op;
    if (helper && !is_op_too && (node->nkids < helper->least || node->nkids > helper->most))
        return complain(c, node->at, "%s() takes %d to %d arguments, not %d", helper->name, helper->least, helper->most,
                        node->nkids);
    if (!helper && (node->op->variant != CR_FUNCTIONAL))
        return complain(c, node->at, "%s writes to its arguments; a formula calls the functional form", node->op->name);
    if (helper) return CR_OK;
    for (int i = 0; i < node->nkids; i++) { /* some overload must know the keyword and have the places */
        bool fits = false;
        for (const cr_op *op = node->op; op && !fits; op = node->overload ? NULL : op->next)
            fits = node->keywords[i] ? cr__find_param(op, node->keywords[i]) >= 0
                                     : i < op->schema.npositional || op->schema.nparams > i;
        if (!fits && node->keywords[i])
            return complain(c, node->at, "%s has no argument '%s'", node->op->name, node->keywords[i]);
        if (!fits) return complain(c, node->at, "%s does not take %d arguments", node->op->name, i + 1);
    }
    return CR_OK;
}

static cr_status check_node(checker *c, const cr_fnode *node) {
    if (node->kind == CR_F_NAME && node->space == CR_FSPACE_GRAD) c->grads |= (uint64_t)1 << node->slot;
    if (node->kind == CR_F_NAME && node->space == CR_FSPACE_LET) c->used[node->slot] = 1;
    if (node->kind == CR_F_CALL) CR_TRY(check_call(c, node));
    for (int i = 0; i < node->nkids; i++)
        if (node->kids[i]) CR_TRY(check_node(c, node->kids[i]));
    return CR_OK;
}

static cr_status check_column(checker *c) {
    const cr_formula *f = c->f;
    for (int i = 0; i < f->n; i++)
        for (int k = 0; k < f->statements[i].nvalues; k++) CR_TRY(check_node(c, f->statements[i].values[k]));
    for (int slot = 0; slot < f->nslots; slot++) {
        if (f->let_of[slot] == UINT16_MAX) continue;
        const cr_fstatement *s = &f->statements[f->let_of[slot]];
        bool any = false; /* one used name of a statement is enough */
        for (int k = 0; k < f->nslots; k++) any |= f->let_of[k] == f->let_of[slot] && c->used[k];
        if (!any) return complain(c, s->at, "let %s is never used", s->names[0]);
    }
    return CR_OK;
}

/* By ATen's habit, results with these names are integers or truth values. */
static bool is_integral_name(const char *name) {
    static const char *const names[] = { "indices", "inverse_indices", "counts", "mask", "pivots", "info", "infos" };
    for (size_t i = 0; i < CR_COUNT(names); i++)
        if (!strcmp(names[i], name)) return true;
    return false;
}

/* A gradient that nobody handles would vanish without a word. */
static cr_status check_gradients(const checker *c) {
    const cr_formula *f = c->f;
    bool all = !f->n;
    uint64_t constant = 0;
    for (int i = 0; i < f->n; i++) {
        const cr_fstatement *s = &f->statements[i];
        if (s->kind != CR_FS_CONSTANT) continue;
        all |= !s->nnames;
        for (int k = 0; k < s->nnames; k++)
            constant |= (uint64_t)1 << numbered(s->names[k], "result", c->op->schema.nreturns);
    }
    for (int i = 1; i < c->op->schema.nreturns && !all; i++)
        if (!((c->grads | constant) >> i & 1) && !is_integral_name(c->op->schema.returns[i].name))
            return complain(c, 0,
                            "result%d may be floating and its gradient is ignored; use grad%d, or declare "
                            "`not_differentiable: result%d`",
                            i, i, i);
    return CR_OK;
}

cr_status cr_formula_check(const cr_op *op) {
    const cr_op_formulas *formulas;
    CR_TRY(cr_op_formulas_get(op, &formulas));
    op = op->base;
    cr_arena arena;
    cr_arena_init(&arena);
    cr_status status = CR_OK;
    if (op->row->scalar) {
        cr_formula scalar;
        status = cr_formula_parse(&arena, op->row->scalar, CR_FORMULA_SCALAR, &scalar);
        if (status) {
            status = status == CR_ENOMEM ? status : cr_error_context(status, "%s .scalar", op->name);
            goto out;
        }
    }
    const struct {
        const char *name;
        bool has;
        const cr_formula *f;
    } columns[] = { { "decomp", formulas->has_decomp, &formulas->decomp },
                    { "core", formulas->has_core, &formulas->core },
                    { "train", formulas->has_train, &formulas->train },
                    { "batch", formulas->has_batch, &formulas->batch },
                    { "grad", formulas->has_grad, &formulas->grad } };
    for (size_t column = 0; column < CR_COUNT(columns); column++) {
        if (!columns[column].has) continue;
        const cr_formula *f = columns[column].f;
        checker c = { .op = op, .f = f, .column = columns[column].name };
        if (!(c.used = cr_arena_calloc(&arena, f->nslots + 1u, 1))) {
            status = CR_ENOMEM;
            goto out;
        }
        CR_TRY_OUT(check_column(&c));
        if (f == &formulas->grad) CR_TRY_OUT(check_gradients(&c));
    }
out:
    cr_arena_dispose(&arena);
    return status;
}
