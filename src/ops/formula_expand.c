/* formula_expand.c: the evaluator behind .decomp and .grad.
 *
 * Walks a row's tree and calls ops through an emitter, so one text serves eager runs, fake runs and graphs. Numbers,
 * sizes and conditions are folded on the way (formula_fold.c, formula_helpers.c); operators on tensors become ATen
 * calls.
 *
 * Ownership: results of calls lie on the `owned` stack. A call releases what its arguments left there as soon as it has
 * returned, so that an eager chain holds no more than its live values; what a `let` computed moves to `kept`. Whatever
 * leaves an expansion is retained first, then both are emptied, on success and on failure alike.
 *
 * Undefined gradients: formulas are linear in the gradients together, so a part that mentions only undefined ones is
 * zero and is never evaluated. A `let` is evaluated when first used: what no live clause needs costs nothing. */
#include "ops/formula_eval.h"

#include <stddef.h>
#include <stdio.h>

enum { MENTIONS_GIVEN = 1, MENTIONS_UNDEFINED = 2, MASK_KNOWN = 4 };

cr_status cr__fx_fail(const fx *x, const cr_fnode *node, cr_status code, const char *format, ...) {
    char message[512];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    int line = 1, column = 1;
    if (node && x->f) cr_text_position(x->f->text, x->f->text + node->at, &line, &column);
    return CR_FAIL(code, "%s .%s %d:%d: %s", x->op->name, x->f && x->f->column == CR_FORMULA_DECOMP ? "decomp" : "grad",
                   line, column, message);
}

static cr_status with_place(const fx *x, const cr_fnode *node, cr_status status) {
    int line = 1, column = 1;
    if (status == CR_ENOMEM) return status;
    if (node && x->f) cr_text_position(x->f->text, x->f->text + node->at, &line, &column);
    return cr_error_context(status, "%s .%s %d:%d", x->op->name,
                            x->f && x->f->column == CR_FORMULA_DECOMP ? "decomp" : "grad", line, column);
}

cr_arg *cr__fx_list(fx *x, size_t n) { return cr_arena_calloc(&x->arena, n ? n : 1, sizeof(cr_arg)); }

bool cr__arg_is_tensor(const cr_arg *a) {
    return a->kind == CR_ARG_TENSOR || a->kind == CR_ARG_META || (a->kind == CR_ARG_VALUE && a->type == CR_T_TENSOR);
}
bool cr__fval_is_tensor(const fval *v) { return v->opaque || cr__arg_is_tensor(&v->a); }

cr_status cr__fx_meta(fx *x, const fval *v, const cr_meta **out) {
    *out = NULL;
    if (v->opaque || !cr__arg_is_tensor(&v->a)) return CR_OK;
    return x->e->meta(x->e, &v->a, out);
}

/* ---- the saved set: where a value came from is noted when its data or its meta is used ---- */

void cr__fx_note(fx *x, const fval *v, bool data) {
    if (!x->saved || v->slot >= 64) return;
    uint64_t bit = (uint64_t)1 << v->slot;
    if (v->space == CR_FSPACE_PARAM) *(data ? &x->saved->args : &x->saved->arg_metas) |= bit;
    if (v->space == CR_FSPACE_RESULT) *(data ? &x->saved->results : &x->saved->result_metas) |= bit;
}

/* ---- calls ---- */

static void release_from(fx *x, size_t mark, size_t end) {
    if (end == mark) return;
    x->e->release(x->e, x->owned.at + mark, end - mark);
    memmove(x->owned.at + mark, x->owned.at + end, (x->owned.n - end) * sizeof *x->owned.at);
    x->owned.n -= end - mark;
}

/* What lies on the stack above `mark` stays until the expansion ends. */
cr_status cr__fx_keep(fx *x, size_t mark) {
    CR_TRY(cr_vec_reserve(&x->kept, x->kept.n + x->owned.n - mark));
    while (x->owned.n > mark) x->kept.at[x->kept.n++] = x->owned.at[--x->owned.n];
    return CR_OK;
}

cr_status cr__fx_reserve(fx *x, size_t more) {
    size_t want = x->owned.n + more;
    if (x->owned.at != x->room || want <= x->owned.cap) return cr_vec_reserve(&x->owned, want);
    cr_arg *at = cr_alloc(want * sizeof *at);
    if (!at) return CR_ENOMEM;
    memcpy(at, x->room, x->owned.n * sizeof *at);
    x->owned.at = at;
    x->owned.cap = want;
    return CR_OK;
}

/* One tensor for each parameter: nothing is left to bind. */
static bool is_bound(const cr_schema *s, const cr_arg *args, size_t n) {
    if (n != s->nparams) return false;
    for (size_t i = 0; i < n; i++)
        if (args[i].kind != CR_ARG_TENSOR || s->params[i].type != CR_T_TENSOR || s->params[i].list) return false;
    return true;
}

cr_status cr__fx_call(fx *x, const cr_fnode *node, const cr_op *op, bool only, const fval *args, size_t n,
                      const cr_keyword *keywords, size_t nkeywords, fval *out) {
    if (n > CR_MAX_PARAMS) return cr__fx_fail(x, node, CR_EFORMAT, "more than %d arguments", CR_MAX_PARAMS);
    cr_arg plain[CR_MAX_PARAMS];
    for (size_t i = 0; i < n; i++) {
        if (args[i].zero)
            return cr__fx_fail(x, node, CR_EFORMAT,
                               "'zero' can only be the whole derivative; write 0 or zeros_like(...)");
        cr__fx_note(x, &args[i], true);
        plain[i] = args[i].a;
    }
    if (x->saved) {
        *out = (fval){ .opaque = true };
        return CR_OK;
    }
    cr_binding binding;
    const cr_arg *bound = plain;
    if (!only || nkeywords || !is_bound(&op->schema, plain, n)) {
        cr_status status = cr_bind(op, only, plain, n, keywords, nkeywords, &x->arena, &binding);
        if (status) return with_place(x, node, status);
        op = binding.op;
        bound = binding.args;
    }
    size_t nreturns = op->schema.nreturns;
    if (!nreturns || nreturns > CR__MAX_RESULTS)
        return cr__fx_fail(x, node, CR_EFORMAT, "%s has %zu results", op->name, nreturns);
    CR_TRY(cr__fx_reserve(x, nreturns));
    cr_arg results[CR__MAX_RESULTS];
    CR_TRY(x->e->call(x->e, op, bound, results));
    memcpy(x->owned.at + x->owned.n, results, nreturns * sizeof *results);
    x->owned.n += nreturns;
    if (nreturns == 1) {
        *out = cr__fval(results[0]);
        return CR_OK;
    }
    cr_arg *list = cr__fx_list(x, nreturns);
    if (!list) return CR_ENOMEM;
    memcpy(list, results, nreturns * sizeof *list);
    *out = cr__fval(cr_arg_list(list, nreturns));
    out->tuple = true;
    return CR_OK;
}

cr_status cr__fx_call_name(fx *x, const cr_fnode *node, const char *name, const fval *args, size_t n, fval *out) {
    const cr_op *op = cr_op_find(name);
    if (!op) return cr__fx_fail(x, node, CR_ENOTFOUND, "there is no op '%s'", name);
    return cr__fx_call(x, node, op, true, args, n, NULL, 0, out);
}

/* ---- gradients that are not there ---- */

bool cr__fx_given(const fx *x, int i) {
    if (x->given) return x->given[i];
    const cr_arg *g = &x->grads[i];
    if (g->kind != CR_ARG_LIST) return g->kind != CR_ARG_NONE;
    for (uint32_t k = 0; k < g->n; k++)
        if (g->u.list[k].kind != CR_ARG_NONE) return true;
    return false;
}

static cr_status settle(fx *x, const cr_fnode *condition, bool *known, bool *yes) {
    size_t mark = x->owned.n;
    fval v;
    CR_TRY(cr__fx_eval(x, condition, &v));
    *known = !v.opaque;
    if (*known) CR_TRY(cr__fold_truth(x, condition, &v, yes));
    release_from(x, mark, x->owned.n);
    return CR_OK;
}

/* Which gradients does this part depend on: given ones, undefined ones? */
static cr_status mentions(fx *x, const cr_fnode *node, bool in_loop, uint8_t *mask) {
    if (node->kind == CR_F_NAME) {
        if (node->space == CR_FSPACE_GRAD) *mask |= cr__fx_given(x, node->slot) ? MENTIONS_GIVEN : MENTIONS_UNDEFINED;
        if (node->space == CR_FSPACE_LET && x->f->let_of[node->slot] != UINT16_MAX) {
            uint8_t *known = &x->slot_mask[node->slot]; /* lets build on lets: ask each once */
            if (!*known) {
                uint8_t own = 0;
                CR_TRY(mentions(x, x->f->statements[x->f->let_of[node->slot]].values[0], false, &own));
                *known = own | MASK_KNOWN;
            }
            *mask |= *known & (MENTIONS_GIVEN | MENTIONS_UNDEFINED);
            return CR_OK;
        }
        return CR_OK;
    }
    if (node->special == CR_FSPECIAL_GIVEN || node->special == CR_FSPECIAL_NEEDS) return CR_OK;
    if (node->kind == CR_F_TERNARY) {
        bool known = false, yes = false;
        /* in a loop it may ask about the loop variable: either */
        if (!in_loop) CR_TRY(settle(x, node->kids[0], &known, &yes));
        if (known) return mentions(x, node->kids[yes ? 1 : 2], in_loop, mask);
    }
    in_loop |= node->kind == CR_F_FOR;
    for (int i = 0; i < node->nkids && *mask != (MENTIONS_GIVEN | MENTIONS_UNDEFINED); i++)
        if (node->kids[i]) CR_TRY(mentions(x, node->kids[i], in_loop, mask));
    return CR_OK;
}

cr_status cr__fx_undefined(fx *x, const cr_fnode *node, bool *undefined) {
    uint8_t mask = 0;
    *undefined = false;
    if (!x->some_undefined) return CR_OK;
    CR_TRY(mentions(x, node, false, &mask));
    *undefined = mask == MENTIONS_UNDEFINED;
    return CR_OK;
}

cr_status cr__fx_zeros(fx *x, const cr_fnode *node, const cr_meta *m, fval *out) {
    cr_arg *size = cr__fx_list(x, m->rank);
    const cr_op *op = cr_op_find("aten::zeros");
    if (!size) return CR_ENOMEM;
    if (!op) return cr__fx_fail(x, node, CR_ENOTFOUND, "there is no op 'aten::zeros'");
    for (int i = 0; i < m->rank; i++) size[i] = cr_arg_int(m->size[i]);
    cr_keyword keywords[2] = { { "dtype", cr_arg_dtype(m->dtype) },
                               { "device", { .kind = CR_ARG_DEVICE, .given = 1, .u.device = m->device } } };
    fval sizes = cr__fval(cr_arg_list(size, m->rank));
    return cr__fx_call(x, node, op, true, &sizes, 1, keywords, 2, out);
}

/* Zeros in the shape of result `slot` (or of item k of it). */
static cr_status zero_grad(fx *x, const cr_fnode *node, int slot, int64_t item, fval *out) {
    fval like = { .space = CR_FSPACE_RESULT, .slot = (uint16_t)slot };
    const cr_meta *m = NULL;
    cr__fx_note(x, &like, false);
    if (x->saved) {
        *out = (fval){ .opaque = true };
        return CR_OK;
    }
    if (x->results) like.a = item >= 0 ? x->results[slot].u.list[item] : x->results[slot];
    CR_TRY(cr__fx_meta(x, &like, &m));
    if (!m)
        return cr__fx_fail(x, node, CR_EVALUE,
                           "the gradient of result %d is undefined and the result's shape is not known", slot);
    return cr__fx_zeros(x, node, m, out);
}

static cr_status eval_grad(fx *x, const cr_fnode *node, fval *out) {
    int slot = node->slot;
    if (x->saved && cr__fx_given(x, slot)) {
        *out = (fval){ .opaque = true };
        return CR_OK;
    }
    if (!cr__fx_given(x, slot)) return zero_grad(x, node, slot, -1, out);
    const cr_arg *g = &x->grads[slot];
    *out = cr__fval(*g);
    if (g->kind != CR_ARG_LIST) return CR_OK;
    cr_arg *items = cr__fx_list(x, g->n);
    if (!items) return CR_ENOMEM;
    for (uint32_t k = 0; k < g->n; k++) {
        items[k] = g->u.list[k];
        if (items[k].kind != CR_ARG_NONE) continue;
        fval zeros;
        if (!x->results || x->results[slot].kind != CR_ARG_LIST || x->results[slot].n != g->n)
            return cr__fx_fail(x, node, CR_EVALUE,
                               "some gradients of this list are undefined and the results' shapes are not known");
        CR_TRY(zero_grad(x, node, slot, k, &zeros));
        items[k] = zeros.a;
    }
    out->a.u.list = items;
    return CR_OK;
}

/* ---- names ---- */

static cr_status eval_let(fx *x, const cr_fnode *node, fval *out) {
    uint16_t statement = x->f->let_of[node->slot];
    if (x->slot_state[node->slot]) {
        *out = x->slots[node->slot];
        return CR_OK;
    }
    if (statement == UINT16_MAX)
        return cr__fx_fail(x, node, CR_EFORMAT, "'%s' has no value outside its loop", node->name);
    const cr_fstatement *let = &x->f->statements[statement];
    size_t mark = x->owned.n;
    fval v;
    CR_TRY(cr__fx_eval(x, let->values[0], &v));
    CR_TRY(cr__fx_keep(x, mark));
    if (let->nnames > 1 && !v.opaque && (v.a.kind != CR_ARG_LIST || v.a.n != let->nnames))
        return cr__fx_fail(x, let->values[0], CR_EFORMAT, "%d names are bound to a value that has not as many parts",
                           let->nnames);
    uint16_t first = node->slot; /* the slots of one statement are neighbours */
    while (first && x->f->let_of[first - 1] == statement) first--;
    for (int i = 0; i < let->nnames; i++) {
        x->slots[first + i] = let->nnames == 1 || v.opaque
                                  ? v
                                  : (fval){ .a = v.a.u.list[i], .space = v.space, .slot = v.slot };
        x->slot_state[first + i] = 1;
    }
    *out = x->slots[node->slot];
    return CR_OK;
}

int cr__find_param(const cr_op *op, const char *name) {
    for (int i = 0; i < op->schema.nparams; i++)
        if (!strcmp(op->schema.params[i].name, name)) return i;
    return -1;
}

static cr_status eval_needs(fx *x, const cr_fnode *node, fval *out) {
    if (!x->clause)
        return cr__fx_fail(x, node, CR_EFORMAT,
                           "'needs' means the targets of a clause; in a let write needs(argument)");
    cr_arg *items = cr__fx_list(x, x->clause->nnames);
    if (!items) return CR_ENOMEM;
    for (int i = 0; i < x->clause->nnames; i++) {
        int p = cr__find_param(x->op, x->clause->names[i]);
        items[i] = cr_arg_bool(p >= 0 && x->needs[p]);
    }
    *out = cr__fval(cr_arg_list(items, x->clause->nnames));
    return CR_OK;
}

static cr_status eval_name(fx *x, const cr_fnode *node, fval *out) {
    switch ((cr_fspace)node->space) {
    case CR_FSPACE_PARAM:
        *out = (fval){ .a = x->args[node->slot], .space = CR_FSPACE_PARAM, .slot = node->slot };
        return CR_OK;
    case CR_FSPACE_RESULT:
        *out = (fval){ .space = CR_FSPACE_RESULT, .slot = node->slot };
        if (x->results) out->a = x->results[node->slot];
        else out->opaque = true;
        return CR_OK;
    case CR_FSPACE_GRAD: return eval_grad(x, node, out);
    case CR_FSPACE_LET: return eval_let(x, node, out);
    case CR_FSPACE_NEEDS: return eval_needs(x, node, out);
    case CR_FSPACE_ZERO: *out = (fval){ .zero = true }; return CR_OK;
    case CR_FSPACE_DTYPE: *out = cr__fval(cr_arg_dtype(node->slot)); return CR_OK;
    case CR_FSPACE_FORMAT:
        *out = cr__fval((cr_arg){ .kind = CR_ARG_FORMAT, .given = 1, .u.i = node->slot });
        return CR_OK;
    case CR_FSPACE_NONE: break;
    }
    return cr__fx_fail(x, node, CR_EFORMAT, "'%s' is no argument, result or let", node->name);
}

/* ---- operators on tensors ---- */

/* The op that an operator becomes, by what its operands are. `flip`: a number on the left is moved to the right. */
enum { TENSORS, NUMBER_RIGHT, NUMBER_LEFT, WAYS };
static const struct { uint8_t kind, flip; const char *names[WAYS]; } operators[] = {
    { CR_F_ADD, 1, { "aten::add.Tensor", "aten::add.Tensor", NULL } },
    { CR_F_SUB, 0, { "aten::sub.Tensor", "aten::sub.Tensor", "aten::sub.Tensor" } },
    { CR_F_MUL, 1, { "aten::mul.Tensor", "aten::mul.Tensor", NULL } },
    { CR_F_DIV, 0, { "aten::div.Tensor", "aten::div.Tensor", "aten::div.Tensor" } },
    { CR_F_FLOORDIV, 0, { "aten::floor_divide", "aten::floor_divide", "aten::floor_divide" } },
    { CR_F_MOD, 0, { "aten::remainder.Tensor", "aten::remainder.Scalar", "aten::remainder.Scalar_Tensor" } },
    { CR_F_POW, 0, { "aten::pow.Tensor_Tensor", "aten::pow.Tensor_Scalar", "aten::pow.Scalar" } },
    { CR_F_EQ, 1, { "aten::eq.Tensor", "aten::eq.Scalar", NULL } },
    { CR_F_NE, 1, { "aten::ne.Tensor", "aten::ne.Scalar", NULL } },
    { CR_F_LT, CR_F_GT, { "aten::lt.Tensor", "aten::lt.Scalar", NULL } },
    { CR_F_LE, CR_F_GE, { "aten::le.Tensor", "aten::le.Scalar", NULL } },
    { CR_F_GT, CR_F_LT, { "aten::gt.Tensor", "aten::gt.Scalar", NULL } },
    { CR_F_GE, CR_F_LE, { "aten::ge.Tensor", "aten::ge.Scalar", NULL } },
    { CR_F_BITAND, 1, { "aten::bitwise_and.Tensor", "aten::bitwise_and.Scalar", NULL } },
    { CR_F_BITOR, 1, { "aten::bitwise_or.Tensor", "aten::bitwise_or.Scalar", NULL } },
    { CR_F_SHL, 0, { "aten::bitwise_left_shift.Tensor", "aten::bitwise_left_shift.Tensor_Scalar",
      "aten::bitwise_left_shift.Scalar_Tensor" } },
    { CR_F_SHR, 0, { "aten::bitwise_right_shift.Tensor", "aten::bitwise_right_shift.Tensor_Scalar",
      "aten::bitwise_right_shift.Scalar_Tensor" } },
    { CR_F_AND, 0, { "aten::logical_and", NULL, NULL } },
    { CR_F_OR, 0, { "aten::logical_or", NULL, NULL } },
};

/* By name once. */
static cr_status call_known(fx *x, const cr_fnode *node, const cr_op **known, const char *name, const fval *args,
                            size_t n, fval *out) {
    const cr_op *op = __atomic_load_n(known, __ATOMIC_RELAXED);
    if (!op) __atomic_store_n(known, op = cr_op_find(name), __ATOMIC_RELAXED);
    if (!op) return cr__fx_fail(x, node, CR_ENOTFOUND, "there is no op '%s'", name);
    return cr__fx_call(x, node, op, true, args, n, NULL, 0, out);
}

static cr_status call_operator(fx *x, const cr_fnode *node, int kind, const fval *a, const fval *b, fval *out) {
    static const cr_op *known[CR_COUNT(operators)][WAYS];
    for (size_t i = 0; i < CR_COUNT(operators); i++) {
        if (operators[i].kind != kind) continue;
        bool left = cr__fval_is_tensor(a), right = cr__fval_is_tensor(b);
        fval pair[2] = { *a, *b };
        int way = left && right ? TENSORS : left ? NUMBER_RIGHT : NUMBER_LEFT;
        if (!left && operators[i].flip > 1) return call_operator(x, node, operators[i].flip, b, a, out);
        if (!left && operators[i].flip) {
            pair[0] = *b, pair[1] = *a;
            way = NUMBER_RIGHT;
        }
        const char *name = operators[i].names[way];
        if (name) return call_known(x, node, &known[i][way], name, pair, 2, out);
    }
    return cr__fx_fail(x, node, CR_EFORMAT, "'%s' has no meaning for these operands", cr_fkind_text(kind));
}

static cr_status eval_unary(fx *x, const cr_fnode *node, fval *out) {
    size_t mark = x->owned.n;
    fval v;
    CR_TRY(cr__fx_eval(x, node->kids[0], &v));
    if (!cr__fval_is_tensor(&v)) return cr__fold_unary(x, node, &v, out);
    const char *name = node->kind == CR_F_NEG   ? "aten::neg"
                       : node->kind == CR_F_NOT ? "aten::logical_not"
                                                : "aten::bitwise_not";
    size_t args_end = x->owned.n;
    CR_TRY(cr__fx_call_name(x, node, name, &v, 1, out));
    release_from(x, mark, args_end);
    return CR_OK;
}

/* A truth value beside a tensor decides or drops out: true & t is t, true | t is true. */
static bool fold_half(int kind, const fval *constant, const fval *other, fval *out) {
    if (constant->a.kind != CR_ARG_BOOL || constant->opaque ||
        (kind != CR_F_BITAND && kind != CR_F_BITOR && kind != CR_F_AND && kind != CR_F_OR))
        return false;
    bool decides = (kind == CR_F_BITOR || kind == CR_F_OR) == (constant->a.u.i != 0);
    *out = decides ? *constant : *other;
    return true;
}

/* x * 1 and x / 1 in a derivative (alpha is mostly 1): the floating tensor itself. Not in a decomposition, whose
 * results must not alias arguments by accident. */
static cr_status times_one(fx *x, int kind, const fval *a, const fval *b, const fval **same) {
    const fval *tensor = cr__fval_is_tensor(a) ? a : b, *number = tensor == a ? b : a;
    const cr_meta *m;
    *same = NULL;
    if (x->f->column != CR_FORMULA_GRAD || !(kind == CR_F_MUL || (kind == CR_F_DIV && tensor == a))) return CR_OK;
    if (number->a.kind != CR_ARG_INT || number->a.u.i != 1) return CR_OK;
    CR_TRY(cr__fx_meta(x, tensor, &m));
    if (m && !cr_dtype_is_integral(m->dtype)) *same = tensor;
    return CR_OK;
}

static cr_status eval_binary(fx *x, const cr_fnode *node, fval *out) {
    size_t mark = x->owned.n;
    int kind = node->kind;
    bool left_undefined = false, right_undefined = false;
    if (x->some_undefined && (kind == CR_F_ADD || kind == CR_F_SUB)) {
        CR_TRY(cr__fx_undefined(x, node->kids[0], &left_undefined));
        CR_TRY(cr__fx_undefined(x, node->kids[1], &right_undefined));
        if (right_undefined) return cr__fx_eval(x, node->kids[0], out);
        if (left_undefined && kind == CR_F_ADD) return cr__fx_eval(x, node->kids[1], out);
    }
    fval a, b;
    if (left_undefined) {
        CR_TRY(cr__fx_eval(x, node->kids[1], &b));
        size_t args_end = x->owned.n;
        CR_TRY(cr__fx_call_name(x, node, "aten::neg", &b, 1, out));
        release_from(x, mark, args_end);
        return CR_OK;
    }
    CR_TRY(cr__fx_eval(x, node->kids[0], &a));
    if ((kind == CR_F_AND || kind == CR_F_OR) && !cr__fval_is_tensor(&a)) { /* settled by the left side alone, maybe */
        bool yes;
        CR_TRY(cr__fold_truth(x, node->kids[0], &a, &yes));
        if (yes == (kind == CR_F_OR)) {
            *out = cr__fval(cr_arg_bool(yes));
            return CR_OK;
        }
        return cr__fx_eval(x, node->kids[1], out);
    }
    CR_TRY(cr__fx_eval(x, node->kids[1], &b));
    if (a.zero || b.zero) return cr__fx_fail(x, node, CR_EFORMAT, "'zero' can only be the whole derivative; write 0");
    bool left = cr__fval_is_tensor(&a), right = cr__fval_is_tensor(&b);
    if (!left && !right) return cr__fold_binary(x, node, &a, &b, out);
    if (left != right) {
        const fval *same;
        if (left ? fold_half(kind, &b, &a, out) : fold_half(kind, &a, &b, out)) return CR_OK;
        CR_TRY(times_one(x, kind, &a, &b, &same));
        if (same) {
            *out = *same;
            return CR_OK;
        }
    }
    size_t args_end = x->owned.n;
    CR_TRY(call_operator(x, node, kind, &a, &b, out));
    release_from(x, mark, args_end);
    return CR_OK;
}

/* ---- calls by name, lists, conditions ---- */

/* An undefined gradient as an argument: left out where the op allows it, zeros where its shape is known. */
static cr_status eval_undefined(fx *x, const cr_fnode *call, int i, fval *out) {
    const cr_fnode *kid = call->kids[i];
    const cr_param *p = NULL;
    for (int k = 0; call->op && k < call->op->schema.nparams; k++)
        if (call->keywords[i] ? !strcmp(call->op->schema.params[k].name, call->keywords[i]) : k == i)
            p = &call->op->schema.params[k];
    if (p && p->optional) {
        *out = cr__fval(cr_arg_none());
        return CR_OK;
    }
    if (kid->kind == CR_F_NAME && kid->space == CR_FSPACE_GRAD) return eval_grad(x, kid, out);
    return cr__fx_fail(x, kid, CR_EUNSUPPORTED,
                       "this argument depends on an undefined gradient while others do not; write given(gradN) ? ... : "
                       "...");
}

static cr_status eval_special(fx *x, const cr_fnode *node, bool *done, fval *out) {
    *done = node->special == CR_FSPECIAL_NEEDS || node->special == CR_FSPECIAL_GIVEN;
    if (!*done) return CR_OK;
    const cr_fnode *kid = node->nkids == 1 && !node->keywords[0] ? node->kids[0] : NULL;
    if (node->special == CR_FSPECIAL_NEEDS && kid && kid->space == CR_FSPACE_PARAM && x->needs) {
        *out = cr__fval(cr_arg_bool(x->needs[kid->slot]));
        return CR_OK;
    }
    if (node->special == CR_FSPECIAL_GIVEN && kid && kid->space == CR_FSPACE_GRAD) {
        *out = cr__fval(cr_arg_bool(cr__fx_given(x, kid->slot)));
        return CR_OK;
    }
    return cr__fx_fail(x, node, CR_EFORMAT, "write needs(argument) in a .grad or .train, given(gradN) in a .grad");
}

static cr_status eval_call(fx *x, const cr_fnode *node, fval *out) {
    size_t mark = x->owned.n;
    bool done;
    CR_TRY(eval_special(x, node, &done, out));
    if (done) return CR_OK;
    if (node->nkids > CR_MAX_PARAMS) return cr__fx_fail(x, node, CR_EFORMAT, "more than %d arguments", CR_MAX_PARAMS);
    fval values[CR_MAX_PARAMS];
    cr_keyword keywords[CR_MAX_PARAMS];
    int n = 0, nkeywords = 0;
    bool tensors = false, opaque = false;
    for (int i = 0; i < node->nkids; i++) {
        bool undefined;
        CR_TRY(cr__fx_undefined(x, node->kids[i], &undefined));
        CR_TRY(undefined ? eval_undefined(x, node, i, &values[i]) : cr__fx_eval(x, node->kids[i], &values[i]));
        tensors |= cr__fval_is_tensor(&values[i]);
        opaque |= values[i].opaque;
        if (node->keywords[i]) {
            cr__fx_note(x, &values[i], true);
            keywords[nkeywords++] = (cr_keyword){ node->keywords[i], values[i].a };
        } else {
            n++;
        }
        if (!i && node->special == CR_FSPECIAL_WHERE && node->nkids == 3 && values[0].a.kind == CR_ARG_BOOL &&
            !values[0].opaque)
            return cr__fx_eval(x, node->kids[values[0].a.u.i ? 1 : 2], out); /* a settled condition */
    }
    const cr__helper *helper = nkeywords || node->ns || node->overload ? NULL : node->helper;
    if (helper && !(helper->numbers_only && tensors)) {
        if (n < helper->least || n > helper->most)
            return cr__fx_fail(x, node, CR_EFORMAT, "%s() takes %d to %d arguments, not %d", helper->name,
                               helper->least, helper->most, n);
        if (helper->metas)
            for (int i = 0; i < n; i++) cr__fx_note(x, &values[i], false);
        /* nothing to compute with: the answer is unknown, and an op might have read the data */
        if (x->saved && opaque) {
            for (int i = 0; i < n && !helper->metas; i++) cr__fx_note(x, &values[i], true);
            *out = (fval){ .opaque = true };
            return CR_OK;
        }
        return helper->run(x, node, values, n, out);
    }
    const cr_op *op = node->op ? node->op : cr__called_op(node); /* registered since the text was read, maybe */
    if (!op)
        return cr__fx_fail(x, node, CR_ENOTFOUND, "there is no op '%s%s%s'", node->name, node->overload ? "." : "",
                           node->overload ? node->overload : "");
    size_t args_end = x->owned.n;
    CR_TRY(cr__fx_call(x, node, op, node->overload != NULL, values, (size_t)n, keywords, (size_t)nkeywords, out));
    release_from(x, mark, args_end);
    return CR_OK;
}

static cr_status eval_list(fx *x, const cr_fnode *node, fval *out) {
    cr_arg *items = cr__fx_list(x, node->nkids);
    bool opaque = false;
    if (!items) return CR_ENOMEM;
    for (int i = 0; i < node->nkids; i++) {
        fval v;
        CR_TRY(cr__fx_eval(x, node->kids[i], &v));
        cr__fx_note(x, &v, true);
        opaque |= v.opaque;
        items[i] = v.a;
    }
    *out = cr__fval(cr_arg_list(items, node->nkids));
    if (opaque) *out = (fval){ .opaque = true };
    return CR_OK;
}

static cr_status eval_for(fx *x, const cr_fnode *node, fval *out) {
    fval list;
    CR_TRY(cr__fx_eval(x, node->kids[1], &list));
    bool opaque = list.opaque;
    if (!opaque && list.a.kind != CR_ARG_LIST)
        return cr__fx_fail(x, node->kids[1], CR_EFORMAT, "'for' goes through a list");
    uint32_t n = opaque ? 1 : list.a.n;
    cr_arg *items = cr__fx_list(x, n);
    if (!items) return CR_ENOMEM;
    for (uint32_t i = 0; i < n; i++) {
        fval v;
        x->slots[node->slot] = (fval){ .space = list.space, .slot = list.slot, .opaque = list.opaque };
        if (!list.opaque) x->slots[node->slot].a = list.a.u.list[i];
        x->slot_state[node->slot] = 1;
        CR_TRY(cr__fx_eval(x, node->kids[0], &v));
        cr__fx_note(x, &v, true);
        opaque |= v.opaque;
        items[i] = v.a;
    }
    *out = cr__fval(cr_arg_list(items, n));
    if (opaque) *out = (fval){ .opaque = true };
    return CR_OK;
}

static cr_status index_of(fx *x, const cr_fnode *node, int64_t fallback, int64_t n, bool *known, int64_t *out) {
    fval v;
    *known = true;
    *out = fallback;
    if (!node) return CR_OK;
    CR_TRY(cr__fx_eval(x, node, &v));
    if (v.opaque) return *known = false, CR_OK;
    if (v.a.kind != CR_ARG_INT || !cr_dim_is_plain(v.a.u.i))
        return cr__fx_fail(x, node, CR_EFORMAT, "a list is indexed by a plain integer");
    *out = v.a.u.i < 0 ? v.a.u.i + n : v.a.u.i;
    return CR_OK;
}

static cr_status eval_index(fx *x, const cr_fnode *node, fval *out) {
    fval list;
    CR_TRY(cr__fx_eval(x, node->kids[0], &list));
    if (list.opaque) {
        *out = list;
        return CR_OK;
    }
    if (list.a.kind != CR_ARG_LIST)
        return cr__fx_fail(x, node, CR_EFORMAT, "[] takes parts of lists; of a tensor write select(...) or slice(...)");
    int64_t n = list.a.n, begin, end = n;
    bool known, known_end = true;
    CR_TRY(index_of(x, node->kids[1], 0, n, &known, &begin));
    if (node->kind == CR_F_SLICE) CR_TRY(index_of(x, node->kids[2], n, n, &known_end, &end));
    if (!known || !known_end) {
        cr__fx_note(x, &list, true);
        *out = (fval){ .opaque = true };
        return CR_OK;
    }
    if (node->kind == CR_F_INDEX) {
        if (begin < 0 || begin >= n)
            return cr__fx_fail(x, node, CR_EINDEX, "index %lld of a list with %lld entries", (long long)begin,
                               (long long)n);
        *out = (fval){ .a = list.a.u.list[begin], .space = list.space, .slot = list.slot };
        return CR_OK;
    }
    begin = CR_MIN(CR_MAX(begin, 0), n);
    end = CR_MAX(CR_MIN(end, n), begin);
    *out = (fval){ .a = cr_arg_list(list.a.u.list + begin, (size_t)(end - begin)),
                   .space = list.space,
                   .slot = list.slot };
    return CR_OK;
}

static cr_status eval_ternary(fx *x, const cr_fnode *node, fval *out) {
    bool known, yes = false;
    CR_TRY(settle(x, node->kids[0], &known, &yes));
    if (known) return cr__fx_eval(x, node->kids[yes ? 1 : 2], out);
    fval v; /* only while the saved set is asked: either may be needed */
    for (int i = 1; i < 3; i++) {
        CR_TRY(cr__fx_eval(x, node->kids[i], &v));
        cr__fx_note(x, &v, true);
    }
    *out = (fval){ .opaque = true };
    return CR_OK;
}

cr_status cr__fx_eval(fx *x, const cr_fnode *node, fval *out) {
    fval v;
    switch (node->kind) {
    case CR_F_NAME: return eval_name(x, node, out);
    case CR_F_INT: *out = cr__fval(cr_arg_int(node->u.i)); return CR_OK;
    case CR_F_FLOAT: *out = cr__fval(cr_arg_float(node->u.f)); return CR_OK;
    case CR_F_BOOL: *out = cr__fval(cr_arg_bool(node->u.i != 0)); return CR_OK;
    case CR_F_STR: *out = cr__fval(cr_arg_str(node->name)); return CR_OK;
    case CR_F_NONE: *out = cr__fval(cr_arg_none()); return CR_OK;
    case CR_F_LIST: return eval_list(x, node, out);
    case CR_F_FOR: return eval_for(x, node, out);
    case CR_F_CALL: return eval_call(x, node, out);
    case CR_F_INDEX: case CR_F_SLICE: return eval_index(x, node, out);
    case CR_F_TERNARY: return eval_ternary(x, node, out);
    case CR_F_IS_NONE: case CR_F_IS_NOT_NONE:
        CR_TRY(cr__fx_eval(x, node->kids[0], &v));
        *out = cr__fval(cr_arg_bool((!v.opaque && v.a.kind == CR_ARG_NONE) == (node->kind == CR_F_IS_NONE)));
        return CR_OK;
    default: return cr_fkind_is_unary(node->kind) ? eval_unary(x, node, out) : eval_binary(x, node, out);
    }
}

/* ---- beginning and end of an expansion ---- */

cr_status cr__fx_begin(fx *x, cr_emitter *e, const cr_op *op, const cr_formula *f, const cr_arg *args) {
    memset(x, 0, offsetof(fx, room));
    x->e = e;
    x->op = op;
    x->f = f;
    x->args = args;
    x->owned.at = x->room;
    x->owned.cap = CR_COUNT(x->room);
    cr_arena_init(&x->arena);
    if (!f || !f->nslots) return CR_OK;
    x->slots = cr_arena_calloc(&x->arena, f->nslots, sizeof *x->slots);
    x->slot_state = cr_arena_calloc(&x->arena, f->nslots, 1);
    x->slot_mask = cr_arena_calloc(&x->arena, f->nslots, 1);
    return x->slots && x->slot_state && x->slot_mask ? CR_OK : CR_ENOMEM;
}

void cr__fx_end(fx *x) {
    if (x->owned.n) x->e->release(x->e, x->owned.at, x->owned.n);
    if (x->kept.n) x->e->release(x->e, x->kept.at, x->kept.n);
    if (x->owned.at != x->room) cr_vec_dispose(&x->owned);
    cr_vec_dispose(&x->kept);
    cr_arena_dispose(&x->arena);
}

/* A value that outlives the expansion: tensors retained, lists and complex numbers copied. */
cr_status cr__copy_out(const cr_arg *from, cr_arg *to) {
    *to = *from;
    if (from->kind == CR_ARG_TENSOR) {
        cr_tensor_retain(from->u.t);
    } else if (from->kind == CR_ARG_COMPLEX) {
        double *c = cr_alloc(2 * sizeof *c);
        if (!c) return *to = cr_arg_none(), CR_ENOMEM;
        memcpy(c, from->u.c, 2 * sizeof *c);
        to->u.c = c;
    } else if (from->kind == CR_ARG_LIST) {
        cr_arg *items = cr_alloc(from->n * sizeof *items);
        if (!items) return *to = cr_arg_none(), CR_ENOMEM;
        for (uint32_t i = 0; i < from->n; i++) {
            items[i] = from->u.list[i];
            if (items[i].kind == CR_ARG_TENSOR) cr_tensor_retain(items[i].u.t);
        }
        to->u.list = items;
    }
    return CR_OK;
}

/* Arguments of the functional op out of a variant's: out forms lack factory options, and have outputs at the end. */
void cr__functional_args(const cr_op *op, const cr_arg *args, cr_arg *out) {
    const cr_schema *s = &op->base->schema;
    for (int i = 0; i < s->nparams; i++) {
        int at = op == op->base || op->variant == CR_INPLACE ? i : cr__find_param(op, s->params[i].name);
        out[i] = at >= 0 ? args[at] : s->params[i].fallback;
    }
}

_Thread_local int cr__expansion_depth;

static cr_status check_result(const fx *x, int i, const cr_fnode *node, const cr_arg *a) {
    const cr_param *r = &x->op->schema.returns[i];
    bool ok = r->list ? a->kind == CR_ARG_LIST
                      : r->type != CR_T_TENSOR || cr__arg_is_tensor(a) || a->kind == CR_ARG_NONE;
    return ok ? CR_OK : cr__fx_fail(x, node, CR_EFORMAT, "result %d must be a %s", i, r->list ? "list" : "tensor");
}

static cr_status run_decomp(fx *x, cr_arg *results) {
    const cr_schema *s = &x->op->schema;
    const cr_fstatement *last = &x->f->statements[x->f->n - 1];
    fval values[CR__MAX_RESULTS];
    int n = last->nvalues;
    if (s->nreturns > CR__MAX_RESULTS || n > CR__MAX_RESULTS)
        return cr__fx_fail(x, last->values[0], CR_EFORMAT, "more than %d results", CR__MAX_RESULTS);
    for (int i = 0; i < n; i++) CR_TRY(cr__fx_eval(x, last->values[i], &values[i]));
    if (n == 1 && s->nreturns != 1 && values[0].tuple && values[0].a.n == s->nreturns) {
        const cr_arg *items = values[0].a.u.list;
        for (n = 0; n < s->nreturns; n++) values[n] = cr__fval(items[n]);
    }
    if (n != s->nreturns)
        return cr__fx_fail(x, last->values[0], CR_EFORMAT, "%d results where the schema has %d", n, s->nreturns);
    for (int i = 0; i < n; i++) CR_TRY(check_result(x, i, last->values[CR_MIN(i, last->nvalues - 1)], &values[i].a));
    for (int i = 0; i < n; i++) {
        cr_status status = cr__copy_out(&values[i].a, &results[i]);
        if (status) {
            cr_results_release(results, (size_t)i);
            return status;
        }
    }
    return CR_OK;
}

/* What a C function hands out is as its emitter gave it: lists become the caller's own. */
static cr_status own_lists(cr_emitter *e, const cr_op *op, cr_arg *results) {
    cr_status status = CR_OK;
    for (uint16_t i = 0; i < cr_result_count(op); i++) {
        cr_arg given = results[i];
        if (given.kind != CR_ARG_LIST) continue;
        if (status) results[i] = cr_arg_none();
        else status = cr__copy_out(&given, &results[i]);
        e->release(e, &given, 1);
    }
    if (status) cr_results_release(results, cr_result_count(op));
    return status;
}

/* C functions trust that tensors are tensors; a graph from a file may hold anything there. */
static cr_status require_tensors(cr_emitter *e, const cr_op *op, const cr_arg *args) {
    for (int i = 0; i < op->schema.nparams; i++) {
        const cr_param *p = &op->schema.params[i];
        const cr_arg *a = &args[i];
        if (p->type != CR_T_TENSOR || (p->optional && a->kind == CR_ARG_NONE)) continue;
        const char *want = p->list ? "a list of tensors" : "a tensor";
        if (p->list && a->kind != CR_ARG_LIST)
            return CR_FAIL(CR_ETYPE, "%s: argument '%s' must be %s", op->name, p->name, want);
        for (uint32_t k = 0; k < (p->list ? a->n : 1); k++) {
            const cr_arg *item = p->list ? &a->u.list[k] : a;
            const cr_meta *m = NULL;
            if (p->item_optional && item->kind == CR_ARG_NONE) continue;
            CR_TRY(e->meta(e, item, &m));
            if (!m) return CR_FAIL(CR_ETYPE, "%s: argument '%s' must be %s", op->name, p->name, want);
        }
    }
    return CR_OK;
}

/* `needs`: of a .train, else NULL. */
static cr_status expand(cr_emitter *e, const cr_op *op, const cr_formula *f, cr_expand_fn *fn, const cr_arg *args,
                        const bool *needs, cr_arg *results) {
    const cr_op *base = op->base;
    if (!f && !fn) return CR_FAIL(CR_ENOTIMPL, "%s has no decomposition", op->name);
    if (cr__expansion_depth >= CR__MAX_EXPANSION_DEPTH)
        return CR_FAIL(CR_ERUNTIME, "the decomposition of %s does not end (it comes back to itself)", op->name);
    cr_arg local[CR_MAX_PARAMS];
    if (op != base) cr__functional_args(op, args, local);
    const cr_arg *actual = op != base ? local : args;
    cr__expansion_depth++;
    cr_status status;
    if (f) {
        fx x;
        status = cr__fx_begin(&x, e, base, f, actual);
        x.needs = needs;
        if (!status) status = run_decomp(&x, results);
        cr__fx_end(&x);
    } else {
        status = require_tensors(e, base, actual);
        if (!status) status = fn(e, base, actual, results);
        if (!status) status = own_lists(e, base, results);
    }
    cr__expansion_depth--;
    return status;
}

cr_status cr_decomp_expand(cr_emitter *e, const cr_op *op, const cr_arg *args, cr_arg *results) {
    const cr_op_formulas *formulas;
    CR_TRY(cr_op_formulas_get(op, &formulas));
    return expand(e, op, formulas->has_decomp ? &formulas->decomp : NULL, op->base->row->decomp_fn, args, NULL,
                  results);
}

cr_status cr_train_expand(cr_emitter *e, const cr_op *op, const cr_arg *args, const bool *needs, cr_arg *results) {
    const cr_op_formulas *formulas;
    CR_TRY(cr_op_formulas_get(op, &formulas));
    if (formulas->has_train) {
        CR_TRY(expand(e, op, &formulas->train, NULL, args, needs, results));
        if (results[0].kind != CR_ARG_NONE) return CR_OK; /* none: not for these arguments */
    }
    return cr_decomp_expand(e, op, args, results);
}

cr_status cr_core_expand(cr_emitter *e, const cr_op *op, const cr_arg *args, cr_arg *results) {
    const cr_op_formulas *formulas;
    const cr_row *row = op->base->row;
    CR_TRY(cr_op_formulas_get(op, &formulas));
    if (formulas->has_core || row->core_fn)
        return expand(e, op, formulas->has_core ? &formulas->core : NULL, row->core_fn, args, NULL, results);
    return expand(e, op, formulas->has_decomp ? &formulas->decomp : NULL, row->decomp_fn, args, NULL, results);
}

cr_status cr_batch_expand(cr_emitter *e, const cr_op *op, const cr_arg *args, cr_arg *results) {
    const cr_op_formulas *formulas;
    CR_TRY(cr_op_formulas_get(op, &formulas));
    if (formulas->has_batch) return expand(e, op, &formulas->batch, NULL, args, NULL, results);
    if (formulas->has_decomp || op->base->row->decomp_fn) return cr_decomp_expand(e, op, args, results);
    return cr_core_expand(e, op, args, results);
}

bool cr_op_stays_in_core(const cr_op *op) {
    const cr_row *row = op->base->row;
    if (row->core_fn || (row->core && strcmp(row->core, "keep"))) return false;
    return row->core || (op->base->tags & (CR_TAG_CORE | CR_TAG_HIGHER_ORDER)) || (!row->decomp && !row->decomp_fn);
}
