/* scalar_compile.c: from a `.scalar` tree to a block program.
 *
 * Walking the tree gives values. Some stay symbolic until a use says which class they are needed in: literals, number
 * arguments, input tensors (a tensor used as a truth value is loaded as one). The others are steps: loads, constants
 * and instructions in single-assignment form, equal steps made once. Then steps that depend on constants alone move to
 * the front and slots are given out by last use. Inputs, constants and what is computed once keep a slot of their
 * own. */
#include "ops/scalar_internal.h"

#include <float.h>
#include <math.h>
#include <stdio.h>

enum { MAX_STEPS = 200, MAX_LETS = 24 };
typedef enum step_kind { STEP_INPUT, STEP_CONSTANT, STEP_LITERAL, STEP_OP } step_kind;
typedef struct step {
    uint8_t kind, class;
    uint8_t param, flags, round; /* INPUT, CONSTANT */
    bool once;                   /* depends on constants and literals alone */
    int16_t op, in[3];           /* OP */
    int64_t i;                   /* LITERAL */
    double f;
    int16_t last;                /* OP that uses it last; ninstr: an output */
    uint8_t slot;
} step;
typedef enum value_kind { VALUE_STEP, VALUE_NUMBER, VALUE_CONSTANT, VALUE_INPUT, VALUE_TRUTH } value_kind;
typedef struct value {
    uint8_t kind;
    uint8_t param, flags; /* CONSTANT, INPUT; flags of a port, NARROW */
    bool whole;           /* NUMBER: i is exact */
    int16_t step;
    int64_t i;
    double f;
} value;
enum { NARROW = 128 };

typedef struct compiler {
    const cr_op *op;
    const cr_formula *f;
    const cr_arg *args;
    int common, class; /* of the computation */
    bool missing;      /* the class lacks an instruction */
    step steps[MAX_STEPS];
    int nsteps;
    struct { const char *name; value v; } lets[MAX_LETS];
    int nlets;
} compiler;

static cr_status fail(const compiler *c, const cr_fnode *node, const char *what) {
    char name[160];
    snprintf(name, sizeof name, "%s .scalar", c->op->name);
    return cr_formula_fail(name, c->f->text, node->at, "%s", what);
}

/* ---- steps ---- */

static cr_status add_step(compiler *c, const cr_fnode *node, const step *s, int16_t *out) {
    for (int i = 0; i < c->nsteps; i++) {
        const step *t = &c->steps[i];
        if (t->kind == s->kind && t->class == s->class && t->param == s->param && t->flags == s->flags &&
            t->round == s->round && t->op == s->op && !memcmp(t->in, s->in, sizeof t->in) && t->i == s->i &&
            !memcmp(&t->f, &s->f, sizeof t->f))
            return *out = (int16_t)i, CR_OK;
    }
    if (c->nsteps == MAX_STEPS) return fail(c, node, "the text is too long for one program");
    c->steps[c->nsteps] = *s;
    *out = (int16_t)c->nsteps++;
    return CR_OK;
}

static cr_status not_implemented(compiler *c, const char *what) {
    c->missing = true;
    return CR_FAIL(CR_ENOTIMPL, "%s: \"%s\" is not implemented for '%s'", c->op->name, what, cr_dtype_aten(c->common));
}

static cr_status add_op(compiler *c, const cr_fnode *node, const char *name, int class, const int16_t *in, int n,
                        value *out) {
    int op = rt_block_find(name, class);
    if (op < 0) return not_implemented(c, name);
    if (rt_block_arity(op) != n) return fail(c, node, "wrong number of operands");
    step s = {
        .kind = STEP_OP, .class = (uint8_t)rt_block_out_class(op), .op = (int16_t)op, .once = true, .in = { -1, -1, -1 }
    };
    for (int i = 0; i < n; i++) s.in[i] = in[i], s.once = s.once && c->steps[in[i]].once;
    *out = (value){ .kind = VALUE_STEP };
    return add_step(c, node, &s, &out->step);
}

static cr_status convert(compiler *c, const cr_fnode *node, int16_t from, int class, int16_t *out) {
    char name[16];
    value v;
    if (c->steps[from].class == class) return *out = from, CR_OK;
    snprintf(name, sizeof name, "to_%s", rt_class_name(class));
    if (rt_block_find(name, c->steps[from].class) < 0) return fail(c, node, "the operands' kinds do not fit together");
    CR_TRY(add_op(c, node, name, c->steps[from].class, &from, 1, &v));
    *out = v.step;
    return CR_OK;
}

/* An input in the class of the computation, lazy conjugation and negation carried out. */
static cr_status load_input(compiler *c, const cr_fnode *node, const value *v, int16_t *out) {
    step s = { .kind = STEP_INPUT,
               .class = (uint8_t)c->class,
               .param = v->param,
               .flags = v->flags,
               .round = (uint8_t)c->common,
               .in = { -1, -1, -1 } };
    CR_TRY(add_step(c, node, &s, out));
    uint8_t lazy = cr_arg_meta(&c->args[v->param])->flags;
    value made;
    if ((lazy & CR_META_CONJ) && rt_block_find("conj", c->class) >= 0) {
        CR_TRY(add_op(c, node, "conj", c->class, out, 1, &made));
        *out = made.step;
    }
    if (lazy & CR_META_NEG) {
        CR_TRY(add_op(c, node, "neg", c->class, out, 1, &made));
        *out = made.step;
    }
    return CR_OK;
}

static cr_status as_class(compiler *c, const cr_fnode *node, const value *v, int class, int16_t *out) {
    switch ((value_kind)v->kind) {
    case VALUE_STEP: return convert(c, node, v->step, class, out);
    case VALUE_NUMBER: case VALUE_TRUTH: {
        bool integers = class == RT_CLASS_I64 || class == RT_CLASS_U64;
        if (integers && !v->whole && !(v->f == floor(v->f) && fabs(v->f) < 0x1p63))
            return not_implemented(c, "a fraction");
        step s = { .kind = STEP_LITERAL,
                   .class = (uint8_t) class,
                   .once = true,
                   .i = v->whole   ? v->i
                        : integers ? (int64_t)v->f
                                   : 0,
                   .f = v->f,
                   .in = { -1, -1, -1 } };
        return add_step(c, node, &s, out);
    }
    case VALUE_CONSTANT: {
        step s = { .kind = STEP_CONSTANT,
                   .class = (uint8_t) class,
                   .param = v->param,
                   .once = true,
                   .in = { -1, -1, -1 },
                   .round = (uint8_t)(v->flags & NARROW && class == c->class ? c->common : CR_DTYPE_COUNT) };
        return add_step(c, node, &s, out);
    }
    case VALUE_INPUT: {
        if (class == RT_CLASS_B) {
            step s = {
                .kind = STEP_INPUT, .class = RT_CLASS_B, .param = v->param, .round = CR_BOOL, .in = { -1, -1, -1 }
            };
            return add_step(c, node, &s, out);
        }
        int16_t loaded;
        CR_TRY(load_input(c, node, v, &loaded));
        return convert(c, node, loaded, class, out);
    }
    }
    return fail(c, node, "not a value");
}

/* ---- classes ---- */

static bool is_complex_class(int class) { return class == RT_CLASS_C64 || class == RT_CLASS_C128; }

/* -1: fits any class. */
static int class_of(const compiler *c, const value *v) {
    return v->kind == VALUE_STEP    ? c->steps[v->step].class
           : v->kind == VALUE_INPUT ? c->class
           : v->kind == VALUE_TRUTH ? RT_CLASS_B
                                    : -1;
}

/* Truth values rise to anything, real numbers to complex ones. */
static int common_class(const compiler *c, const value *v, int n) {
    int class = -1;
    for (int i = 0; i < n; i++) {
        int k = class_of(c, &v[i]);
        if (k >= 0 && (class < 0 || class == RT_CLASS_B || is_complex_class(k))) class = k;
    }
    bool symbolic = false;
    for (int i = 0; i < n; i++) symbolic = symbolic || v[i].kind == VALUE_NUMBER || v[i].kind == VALUE_CONSTANT;
    return class < 0 || (class == RT_CLASS_B && symbolic) ? c->class : class;
}

static cr_status apply(compiler *c, const cr_fnode *node, const char *name, const value *v, int n, int class,
                       value *out) {
    int16_t in[3];
    if (n > 3) return fail(c, node, "too many operands");
    if (class < 0) class = common_class(c, v, n);
    for (int i = 0; i < n; i++) CR_TRY(as_class(c, node, &v[i], class, &in[i]));
    return add_op(c, node, name, class, in, n, out);
}

/* ---- the tree ---- */

static cr_status eval(compiler *c, const cr_fnode *node, value *out);

static value truth(bool b) { return (value){ .kind = VALUE_TRUTH, .whole = true, .i = b, .f = b }; }

static cr_status eval_name(compiler *c, const cr_fnode *node, value *out) {
    for (int i = c->nlets; i-- > 0;)
        if (!strcmp(c->lets[i].name, node->name)) return *out = c->lets[i].v, CR_OK;
    const cr_schema *s = &c->op->schema;
    for (int i = 0; i < s->nparams; i++) {
        if (strcmp(s->params[i].name, node->name)) continue;
        if (c->args[i].kind == CR_ARG_NONE) return fail(c, node, "this argument is none here; ask `is none` first");
        if (s->params[i].list) return fail(c, node, "a list is no operand");
        switch (s->params[i].type) {
        case CR_T_TENSOR: *out = (value){ .kind = VALUE_INPUT, .param = (uint8_t)i }; return CR_OK;
        case CR_T_SCALAR:
        case CR_T_FLOAT:
        case CR_T_INT: *out = (value){ .kind = VALUE_CONSTANT, .param = (uint8_t)i }; return CR_OK;
        case CR_T_BOOL: *out = truth(c->args[i].u.i != 0); return CR_OK;
        default: return fail(c, node, "an argument of this type is no operand");
        }
    }
    return fail(c, node, "neither an argument nor a `let` name");
}

/* Arithmetic on literals, so that 2 * pi is one literal. */
static bool fold_numbers(int kind, const value *a, const value *b, value *out) {
    if (a->kind != VALUE_NUMBER || b->kind != VALUE_NUMBER) return false;
    double r;
    bool whole = a->whole && b->whole;
    switch (kind) {
    case CR_F_ADD: r = a->f + b->f; break;
    case CR_F_SUB: r = a->f - b->f; break;
    case CR_F_MUL: r = a->f * b->f; break;
    case CR_F_DIV: r = a->f / b->f; whole = false; break;
    case CR_F_POW: r = pow(a->f, b->f); whole = whole && b->f >= 0; break;
    default: return false;
    }
    if (whole && fabs(r) > 0x1p53) return false;
    *out = (value){ .kind = VALUE_NUMBER, .whole = whole, .i = whole ? (int64_t)r : 0, .f = r };
    return true;
}

static const char *instruction_of(int kind) {
    static const char *const names[CR_F_KIND_COUNT] = {
        [CR_F_NEG] = "neg",  [CR_F_BITNOT] = "not",    [CR_F_EQ] = "eq",   [CR_F_NE] = "ne",
        [CR_F_LT] = "lt",    [CR_F_LE] = "le",         [CR_F_GT] = "gt",   [CR_F_GE] = "ge",
        [CR_F_BITOR] = "or", [CR_F_BITAND] = "and",    [CR_F_SHL] = "shl", [CR_F_SHR] = "shr",
        [CR_F_ADD] = "add",  [CR_F_SUB] = "sub",       [CR_F_MUL] = "mul", [CR_F_FLOORDIV] = "floordiv",
        [CR_F_DIV] = "div",  [CR_F_MOD] = "remainder", [CR_F_POW] = "pow",
    };
    return names[kind];
}

static cr_status eval_logic(compiler *c, const cr_fnode *node, value *out) {
    value v[2];
    for (int i = 0; i < node->nkids; i++) {
        CR_TRY(eval(c, node->kids[i], &v[i]));
        if (v[i].kind != VALUE_TRUTH) continue;
        if (node->kind == CR_F_NOT) return *out = truth(!v[i].i), CR_OK;
        if ((node->kind == CR_F_AND) != (v[i].i != 0)) return *out = v[i], CR_OK; /* decides alone */
        if (i == 1) return *out = v[0], CR_OK;
        return eval(c, node->kids[1], out);
    }
    return apply(c, node,
                 node->kind == CR_F_NOT   ? "not"
                 : node->kind == CR_F_AND ? "and"
                                          : "or",
                 v, node->nkids, RT_CLASS_B, out);
}

static cr_status eval_ternary(compiler *c, const cr_fnode *node, value *out) {
    value v[3];
    CR_TRY(eval(c, node->kids[0], &v[0]));
    if (v[0].kind == VALUE_TRUTH) return eval(c, node->kids[v[0].i ? 1 : 2], out);
    CR_TRY(eval(c, node->kids[1], &v[1]));
    CR_TRY(eval(c, node->kids[2], &v[2]));
    int class = common_class(c, v + 1, 2);
    int16_t in[3];
    CR_TRY(as_class(c, node->kids[0], &v[0], RT_CLASS_B, &in[0]));
    CR_TRY(as_class(c, node->kids[1], &v[1], class, &in[1]));
    CR_TRY(as_class(c, node->kids[2], &v[2], class, &in[2]));
    return add_op(c, node, "select", class, in, 3, out);
}

static cr_status eval_call(compiler *c, const cr_fnode *node, value *out) {
    static const char *const kinds[] = { "is_complex", "is_float", "is_integral", "is_bool", "is_bf16", "is_f16" };
    value v[3];
    if (node->nkids < 1 || node->nkids > 3) return fail(c, node, "instructions take one to three operands");
    for (int i = 0; i < node->nkids; i++) CR_TRY(eval(c, node->kids[i], &v[i]));
    const char *name = node->name;
    for (size_t k = 0; k < CR_COUNT(kinds); k++) { /* of a tensor: the dtype it was promoted to */
        if (strcmp(kinds[k], name)) continue;
        bool yes[] = { cr_dtype_is_complex(c->common),
                       cr_dtype_is_floating(c->common),
                       cr_dtype_is_integral(c->common),
                       c->common == CR_BOOL,
                       c->common == CR_BF16,
                       c->common == CR_F16 };
        return *out = truth(yes[k]), CR_OK;
    }
    if (!strcmp(name, "wide") || !strcmp(name, "narrow")) {
        *out = v[0];
        bool low = c->common == CR_F16 || c->common == CR_BF16;
        if (*name == 'w' && v[0].kind == VALUE_INPUT && low) out->flags |= RT_PORT_WIDE;
        if (*name == 'n' && v[0].kind == VALUE_CONSTANT) out->flags |= NARROW;
        if (*name == 'n' && v[0].kind == VALUE_STEP && low)
            return apply(c, node, c->common == CR_F16 ? "narrow_f16" : "narrow_bf16", v, 1, RT_CLASS_F32, out);
        return CR_OK;
    }
    if (!strcmp(name, "largest")) { /* finite number of the (real part's) dtype */
        double f = c->common == CR_F16 || c->common == CR_C32      ? 65504
                   : c->common == CR_BF16                          ? 0x1.fep127
                   : rt_itemsize(cr_dtype_to_real(c->common)) == 8 ? DBL_MAX
                                                                   : FLT_MAX;
        return *out = (value){ .kind = VALUE_NUMBER, .f = f }, CR_OK;
    }
    if (!strcmp(name, "truth")) {
        int16_t step;
        CR_TRY(as_class(c, node, &v[0], RT_CLASS_B, &step));
        return *out = (value){ .kind = VALUE_STEP, .step = step }, CR_OK;
    }
    int class = common_class(c, v, node->nkids);
    if (!is_complex_class(class) && node->nkids == 1) {
        if (!strcmp(name, "real") || !strcmp(name, "conj")) return *out = v[0], CR_OK;
        if (!strcmp(name, "imag")) return *out = (value){ .kind = VALUE_NUMBER, .whole = true }, CR_OK;
        if (!strcmp(name, "sgn")) name = "sign";
    }
    return apply(c, node, name, v, node->nkids, class, out);
}

static cr_status eval(compiler *c, const cr_fnode *node, value *out) {
    cr__test test;
    if (cr__test_make(c->op, node, &test)) return *out = truth(cr__test_run(&test, c->args)), CR_OK;
    switch (node->kind) {
    case CR_F_NAME: return eval_name(c, node, out);
    case CR_F_INT:
        *out = (value){ .kind = VALUE_NUMBER, .whole = true, .i = node->u.i, .f = (double)node->u.i };
        return CR_OK;
    case CR_F_FLOAT:
        if (cr__number_param(c->op, node) >= 0)
            return *out = (value){ .kind = VALUE_CONSTANT, .param = (uint8_t)cr__number_param(c->op, node) }, CR_OK;
        *out = (value){ .kind = VALUE_NUMBER, .f = node->u.f };
        return CR_OK;
    case CR_F_BOOL: *out = truth(node->u.i != 0); return CR_OK;
    case CR_F_TERNARY: return eval_ternary(c, node, out);
    case CR_F_CALL: return eval_call(c, node, out);
    case CR_F_AND: case CR_F_OR: case CR_F_NOT: return eval_logic(c, node, out);
    default: break;
    }
    const char *name = instruction_of(node->kind);
    if (!name) return fail(c, node, "this has no meaning in pointwise text");
    value v[2];
    for (int i = 0; i < node->nkids; i++) CR_TRY(eval(c, node->kids[i], &v[i]));
    if (node->kind == CR_F_NEG && v[0].kind == VALUE_NUMBER) {
        *out = v[0];
        out->i = -out->i, out->f = -out->f;
        return CR_OK;
    }
    if (node->nkids == 2 && fold_numbers(node->kind, &v[0], &v[1], out)) return CR_OK;
    return apply(c, node, name, v, node->nkids, -1, out);
}

/* Every result as a step; a lone number takes the class of the computation. */
static cr_status eval_text(compiler *c, int16_t *results, int *n) {
    *n = 0;
    for (int i = 0; i < c->f->n; i++) {
        const cr_fstatement *s = &c->f->statements[i];
        if (s->kind == CR_FS_LET) {
            if (s->nnames != 1 || c->nlets == MAX_LETS)
                return fail(c, s->values[0], "`let` binds one name here, and at most a few");
            value v;
            CR_TRY(eval(c, s->values[0], &v));
            c->lets[c->nlets].name = s->names[0];
            c->lets[c->nlets++].v = v;
            continue;
        }
        for (int k = 0; k < s->nvalues; k++) {
            if (*n == 4) return fail(c, s->values[k], "more than four results");
            value v;
            CR_TRY(eval(c, s->values[k], &v));
            int class = class_of(c, &v);
            CR_TRY(as_class(c, s->values[k], &v, class < 0 ? c->class : class, &results[(*n)++]));
        }
    }
    return CR_OK;
}

/* ---- layout ---- */

/* A `let` may serve another outcome of the text's conditions: steps that no result needs go. Operands come before. */
static void drop_unused(compiler *c, int16_t *results, int nresults) {
    bool used[MAX_STEPS] = { false };
    int16_t place[MAX_STEPS];
    int kept = 0;
    for (int i = 0; i < nresults; i++) used[results[i]] = true;
    for (int i = c->nsteps; i-- > 0;)
        for (int k = 0; used[i] && k < 3; k++)
            if (c->steps[i].in[k] >= 0) used[c->steps[i].in[k]] = true;
    for (int i = 0; i < c->nsteps; i++) {
        if (!used[i]) continue;
        step *s = &c->steps[kept];
        *s = c->steps[i];
        for (int k = 0; k < 3; k++)
            if (s->in[k] >= 0) s->in[k] = place[s->in[k]];
        place[i] = (int16_t)kept++;
    }
    c->nsteps = kept;
    for (int i = 0; i < nresults; i++) results[i] = place[results[i]];
}

typedef struct order { uint8_t at[MAX_STEPS]; int n, once; } order;

/* Instructions: those that run once, then the others, each in the order they were made. */
static void order_steps(compiler *c, const int16_t *results, int nresults, order *o) {
    o->n = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < c->nsteps; i++)
            if (c->steps[i].kind == STEP_OP && c->steps[i].once == !pass) o->at[o->n++] = (uint8_t)i;
        if (!pass) o->once = o->n;
    }
    for (int i = 0; i < c->nsteps; i++) c->steps[i].last = -1;
    for (int i = 0; i < o->n; i++)
        for (int k = 0; k < 3; k++) {
            int16_t in = c->steps[o->at[i]].in[k];
            if (in >= 0 && c->steps[in].last < i) c->steps[in].last = (int16_t)i;
        }
    for (int i = 0; i < nresults; i++) c->steps[results[i]].last = (int16_t)o->n;
}

static cr_status give_slots(compiler *c, const order *o, int *nslots) {
    bool busy[256] = { false };
    int n = 0;
    for (int i = 0; i < c->nsteps; i++) /* kept for the whole run */
        if (c->steps[i].kind != STEP_OP || c->steps[i].once) c->steps[i].slot = (uint8_t)n, busy[n++] = true;
    if (n > RT_BLOCK_MAX_SLOTS)
        return CR_FAIL(CR_EFORMAT, "%s .scalar: needs more than %d slots", c->op->name, RT_BLOCK_MAX_SLOTS);
    for (int i = o->once; i < o->n; i++) {
        step *s = &c->steps[o->at[i]];
        /* An operand of the same width that ends here gives its slot to the result: the loops allow it. */
        int slot = -1;
        for (int k = 0; k < 3; k++) {
            step *in = s->in[k] >= 0 ? &c->steps[s->in[k]] : NULL;
            bool ends = in && in->kind == STEP_OP && !in->once && in->last == i;
            if (ends && slot < 0 && rt_itemsize(rt_class_dtype(in->class)) == rt_itemsize(rt_class_dtype(s->class)))
                slot = in->slot;
        }
        if (slot < 0) {
            for (slot = 0; slot < n && busy[slot];) slot++;
            if (slot == n) n++;
        }
        for (int k = 0; k < 3; k++) {
            step *in = s->in[k] >= 0 ? &c->steps[s->in[k]] : NULL;
            if (in && in->kind == STEP_OP && !in->once && in->last == i) busy[in->slot] = false;
        }
        if (n > RT_BLOCK_MAX_SLOTS)
            return CR_FAIL(CR_EFORMAT, "%s .scalar: needs more than %d slots", c->op->name, RT_BLOCK_MAX_SLOTS);
        busy[slot] = true;
        s->slot = (uint8_t)slot;
    }
    *nslots = n;
    return CR_OK;
}

/* One allocation: the program and all it points to. */
static cr_scalar_program *new_program(const compiler *c, const order *o, int nresults) {
    int count[STEP_OP + 1] = { 0 };
    for (int i = 0; i < c->nsteps; i++) count[c->steps[i].kind]++;
    int nin = count[STEP_INPUT], nconstants = count[STEP_CONSTANT], nliterals = count[STEP_LITERAL];
    size_t ports = (size_t)(nin + nconstants + nresults) * sizeof(rt_port),
           bytes = sizeof(cr_scalar_program) + (size_t)nliterals * sizeof(rt_literal);
    char *at = cr_calloc(1, bytes + (size_t)o->n * sizeof(rt_instr) + ports + (size_t)(nin + nconstants));
    if (!at) return NULL;
    cr_scalar_program *p = (cr_scalar_program *)at;
    p->program.literal = (rt_literal *)(at + sizeof *p);
    p->program.code = (rt_instr *)(at + bytes);
    p->program.in = (rt_port *)(p->program.code + o->n);
    p->program.constant = p->program.in + nin;
    p->program.out = p->program.constant + nconstants;
    p->input = (const uint8_t *)(p->program.out + nresults);
    p->constant = p->input + nin;
    return p;
}

static cr_status write_program(compiler *c, int16_t *results, int nresults, cr_scalar_program **out) {
    order o;
    int nslots = 0, inputs = 0, constants = 0;
    drop_unused(c, results, nresults);
    order_steps(c, results, nresults, &o);
    CR_TRY(give_slots(c, &o, &nslots));
    for (int i = 0; i < c->nsteps; i++)
        inputs += c->steps[i].kind == STEP_INPUT, constants += c->steps[i].kind == STEP_CONSTANT;
    if (inputs + nresults > RT_BLOCK_MAX_PORTS || constants > RT_BLOCK_MAX_PORTS)
        return CR_FAIL(CR_EFORMAT, "%s .scalar: more than %d operands", c->op->name, RT_BLOCK_MAX_PORTS);
    cr_scalar_program *made = new_program(c, &o, nresults);
    if (!made) return CR_ENOMEM;
    rt_program *p = &made->program;
    p->nslots = (uint8_t)nslots;
    p->nout = (uint8_t)nresults;
    p->ninstr = (uint16_t)o.n;
    p->nprologue = (uint16_t)o.once;
    p->width = 1;
    for (int i = 0; i < c->nsteps; i++) {
        const step *s = &c->steps[i];
        p->width = (uint8_t)CR_MAX(p->width, rt_itemsize(rt_class_dtype(s->class)));
        if (s->kind == STEP_INPUT) {
            ((uint8_t *)made->input)[p->nin] = s->param;
            ((rt_port *)p->in)[p->nin++] = (rt_port){ s->slot, s->class, s->round, s->flags };
        } else if (s->kind == STEP_CONSTANT) {
            ((uint8_t *)made->constant)[p->nconstants] = s->param;
            ((rt_port *)p->constant)[p->nconstants++] = (rt_port){ s->slot, s->class, s->round, 0 };
        } else if (s->kind == STEP_LITERAL) {
            ((rt_literal *)p->literal)[p->nliterals++] = (rt_literal){ s->slot, s->class, s->i, s->f, 0 };
        }
    }
    for (int i = 0; i < o.n; i++) {
        const step *s = &c->steps[o.at[i]];
        rt_instr *at = (rt_instr *)&p->code[i];
        *at = (rt_instr){ .op = (uint16_t)s->op, .out = s->slot };
        for (int k = 0; k < 3; k++) at->in[k] = s->in[k] >= 0 ? c->steps[s->in[k]].slot : s->slot;
        if (i >= o.once) p->cost = (uint16_t)(p->cost + rt_block_cost(s->op));
    }
    for (int i = 0; i < nresults; i++)
        ((rt_port *)p->out)[i] = (rt_port){ c->steps[results[i]].slot, c->steps[results[i]].class, 0, 0 };
    *out = made;
    return CR_OK;
}

cr_status cr__scalar_compile(const cr_op *op, const cr_formula *f, int common, const cr_arg *args,
                             cr_scalar_program **out) {
    compiler *c = cr_alloc(sizeof *c);
    if (!c) return CR_ENOMEM;
    int16_t results[4];
    int n;
    c->op = op, c->f = f, c->args = args, c->common = common;
    c->class = rt_class_of(common);
    c->missing = false;
    c->nsteps = c->nlets = 0;
    cr_status status = eval_text(c, results, &n);
    if (status && c->missing && c->class == RT_CLASS_B) { /* truth values have few instructions: compute with 0 and 1 */
        c->class = RT_CLASS_I64;
        c->nsteps = c->nlets = 0;
        status = eval_text(c, results, &n);
    }
    if (!status) status = write_program(c, results, n, out);
    cr_free(c);
    return status;
}
