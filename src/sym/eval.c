/* Evaluation at given values of the symbols, and substitution.
 *
 * Canonical forms are sums of products, whose parts may be larger than the value itself; evaluation therefore runs in
 * 128 bits and checks that the result fits in 64. AND and OR are decided by one operand where another is undefined:
 * their operands have no order that would say which is looked at first. */
#include "sym/internal.h"

#include <math.h>

typedef __int128 wide;
typedef struct { wide i; double f; } value; /* which one: the node's type */
typedef struct {
    bool (*lookup)(void *user, cr_sym symbol, cr_sym_value *out);
    void *user;
    const char *why;
    cr_sym culprit;
} context;

static const char overflow[] = "overflow";

static bool undefined(context *c, const char *why, cr_sym culprit) {
    c->why = why;
    c->culprit = culprit;
    return false;
}

static bool eval(context *c, cr_sym e, value *out);

static wide wide_floordiv(wide a, wide b) {
    wide q = a / b;
    return a % b != 0 && (a % b < 0) != (b < 0) ? q - 1 : q;
}

static bool wide_power(context *c, wide base, wide n, wide *out) {
    wide result = 1;
    if (n < 0) return undefined(c, "negative exponent of an integer power", NULL);
    if (base == 0 || base == 1 || base == -1) {
        *out = n == 0 ? 1 : base == -1 && n % 2 == 0 ? 1 : base;
        return true;
    }
    for (; n > 0; n--)
        if (cr_mul_overflow(result, base, &result)) return undefined(c, overflow, NULL);
    *out = result;
    return true;
}

static bool eval_symbol(context *c, cr_sym e, value *out) {
    cr_sym_value v;
    if (!c->lookup(c->user, e, &v)) return undefined(c, "no value", e);
    out->i = v.type == CR_TYPE_FLOAT ? 0 : v.i;
    out->f = v.type == CR_TYPE_FLOAT ? v.f : (double)v.i;
    if (e->type == CR_TYPE_FLOAT) return true;
    if (v.type == CR_TYPE_FLOAT) return undefined(c, "a float value for an integer or boolean symbol", e);
    if (e->type == CR_TYPE_BOOL) out->i = v.i != 0;
    return true;
}

static bool eval_sum(context *c, cr_sym e, value *out) {
    wide sum = e->constant, part;
    for (size_t i = 0; i < e->n; i++) {
        value v;
        if (!eval(c, e->operand[i], &v)) return false;
        if (cr_mul_overflow(v.i, (wide)e->u.coefficients[i], &part) || cr_add_overflow(sum, part, &sum))
            return undefined(c, overflow, NULL);
    }
    out->i = sum;
    return true;
}

/* A factor that is merely too large does not matter beside a zero. */
static bool eval_product(context *c, cr_sym e, value *out) {
    wide product = 1;
    bool large = false;
    for (size_t i = 0; i < e->n; i++) {
        value v = {1, 0};
        bool defined = eval(c, e->operand[i], &v);
        if (!defined && c->why != overflow) return false;
        if (v.i == 0) product = 0, large = false;
        else if (product != 0) large |= !defined || cr_mul_overflow(product, v.i, &product);
        if (large) product = 1; /* only a zero can still change the outcome */
    }
    out->i = product;
    return !large || undefined(c, overflow, NULL);
}

static bool eval_minmax(context *c, cr_sym e, value *out) {
    for (size_t i = 0; i < e->n; i++) {
        value v;
        if (!eval(c, e->operand[i], &v)) return false;
        if (i == 0 || (e->kind == CR_SYM_MAX ? v.i > out->i : v.i < out->i)) *out = v;
    }
    return true;
}

static bool eval_junction(context *c, cr_sym e, value *out) {
    bool all_defined = true, decisive = e->kind == CR_SYM_OR;
    out->i = !decisive;
    for (size_t i = 0; i < e->n; i++) {
        value v;
        if (!eval(c, e->operand[i], &v)) all_defined = false;
        else if ((v.i != 0) == decisive) {
            out->i = decisive;
            return true;
        }
    }
    return all_defined;
}

static bool eval_compare(context *c, cr_sym e, value *out) {
    value a, b;
    if (!eval(c, e->operand[0], &a) || !eval(c, e->operand[1], &b)) return false;
    bool real = e->operand[0]->type == CR_TYPE_FLOAT;
    bool equal = real ? a.f == b.f : a.i == b.i, less = real ? a.f < b.f : a.i < b.i;
    out->i = e->kind == CR_SYM_EQ ? equal : e->kind == CR_SYM_NE ? !equal : e->kind == CR_SYM_LT ? less : less || equal;
    return true;
}

static bool eval_float(context *c, cr_sym e, value *out) {
    value a, b = {0};
    if (!eval(c, e->operand[0], &a) || (e->n > 1 && !eval(c, e->operand[1], &b))) return false;
    if (e->kind == CR_SYM_TRUEDIV && e->operand[0]->type == CR_TYPE_INT) {
        if (b.i == 0) return undefined(c, "division by zero", NULL);
        if (a.i != (int64_t)a.i || b.i != (int64_t)b.i) return undefined(c, overflow, NULL);
        out->f = cr__int_truediv((int64_t)a.i, (int64_t)b.i);
        return true;
    }
    if (e->kind == CR_SYM_TOFLOAT) {
        out->f = (double)a.i;
        return true;
    }
    return cr__float_apply((cr_sym_kind)e->kind, a.f, b.f, &out->f) || undefined(c, "undefined float arithmetic", NULL);
}

static bool eval_int_binary(context *c, cr_sym e, value *out) {
    value a, b;
    if (!eval(c, e->operand[0], &a) || !eval(c, e->operand[1], &b)) return false;
    if (e->kind == CR_SYM_POW) return wide_power(c, a.i, b.i, &out->i);
    if (e->kind == CR_SYM_BITAND || e->kind == CR_SYM_BITOR) {
        out->i = e->kind == CR_SYM_BITAND ? a.i & b.i : a.i | b.i;
        return true;
    }
    if (b.i == 0) return undefined(c, "division by zero", NULL);
    if (b.i == -1) { /* the lowest 128-bit number has no negation */
        if (e->kind == CR_SYM_MOD || e->kind == CR_SYM_CMOD) out->i = 0;
        else if (cr_mul_overflow(a.i, (wide)-1, &out->i)) return undefined(c, overflow, NULL);
        return true;
    }
    wide q = wide_floordiv(a.i, b.i);
    out->i = e->kind == CR_SYM_FLOORDIV   ? q
             : e->kind == CR_SYM_MOD      ? a.i - b.i * q
             : e->kind == CR_SYM_TRUNCDIV ? a.i / b.i
                                          : a.i % b.i;
    return true;
}

static bool eval(context *c, cr_sym e, value *out) {
    value a;
    int64_t rounded;
    bool real = e->type == CR_TYPE_FLOAT;
    switch ((cr_sym_kind)e->kind) {
    case CR_SYM_INTEGER:
    case CR_SYM_TRUTH: out->i = e->constant; return true;
    case CR_SYM_REAL: out->f = e->u.real; return true;
    case CR_SYM_SYMBOL: return eval_symbol(c, e, out);
    case CR_SYM_OPAQUE: return undefined(c, "it left the 64-bit integers (or grew too large) when it was made", NULL);
    case CR_SYM_ADD: return real ? eval_float(c, e, out) : eval_sum(c, e, out);
    case CR_SYM_MUL: return real ? eval_float(c, e, out) : eval_product(c, e, out);
    case CR_SYM_MIN:
    case CR_SYM_MAX: return real ? eval_float(c, e, out) : eval_minmax(c, e, out);
    case CR_SYM_BITAND:
    case CR_SYM_BITOR:
    case CR_SYM_POW:
    case CR_SYM_FLOORDIV:
    case CR_SYM_MOD:
    case CR_SYM_CEILDIV:
    case CR_SYM_TRUNCDIV:
    case CR_SYM_CMOD: return real ? eval_float(c, e, out) : eval_int_binary(c, e, out);
    case CR_SYM_ABS:
        if (real) return eval_float(c, e, out);
        if (!eval(c, e->operand[0], &a)) return false;
        out->i = a.i < 0 ? -a.i : a.i;
        return true;
    case CR_SYM_TRUEDIV:
    case CR_SYM_TOFLOAT:
    case CR_SYM_SQRT: return eval_float(c, e, out);
    case CR_SYM_FLOOR:
    case CR_SYM_CEIL:
    case CR_SYM_TRUNC:
    case CR_SYM_ROUND:
        if (!eval(c, e->operand[0], &a)) return false;
        if (!cr__round_apply((cr_sym_kind)e->kind, a.f, &rounded))
            return undefined(c, "a float that is no 64-bit integer", NULL);
        out->i = rounded;
        return true;
    case CR_SYM_WHERE: return eval(c, e->operand[0], &a) && eval(c, e->operand[a.i ? 1 : 2], out);
    case CR_SYM_EQ:
    case CR_SYM_NE:
    case CR_SYM_LT:
    case CR_SYM_LE: return eval_compare(c, e, out);
    case CR_SYM_AND:
    case CR_SYM_OR: return eval_junction(c, e, out);
    case CR_SYM_NOT:
        if (!eval(c, e->operand[0], &a)) return false;
        out->i = !a.i;
        return true;
    }
    return undefined(c, "unknown operator", NULL);
}

bool cr__eval(cr_sym e, bool (*lookup)(void *user, cr_sym symbol, cr_sym_value *out), void *user, cr_sym_value *out,
              const char **why, cr_sym *culprit) {
    context c = {.lookup = lookup, .user = user};
    value v = {0};
    bool ok = eval(&c, e, &v);
    if (ok && e->type != CR_TYPE_FLOAT && v.i != (int64_t)v.i) ok = undefined(&c, overflow, NULL);
    if (why) *why = c.why;
    if (culprit) *culprit = c.culprit;
    if (ok)
        *out = (cr_sym_value){.type = (cr_sym_type)e->type, .i = e->type == CR_TYPE_FLOAT ? 0 : (int64_t)v.i, .f = v.f};
    return ok;
}

cr_status cr_sym_eval(cr_sym e, bool (*lookup)(void *user, cr_sym symbol, cr_sym_value *out), void *user,
                      cr_sym_value *out) {
    const char *why;
    cr_sym culprit;
    if (!e) return CR_FAIL(CR_ENOMEM, "expression");
    if (cr__eval(e, lookup, user, out, &why, &culprit)) return CR_OK;
    cr_str text = {0};
    cr_sym_print(e, &text);
    cr_status status = cr_str_status(&text);
    if (!status && culprit)
        status = CR_FAIL(CR_EVALUE, "'%s' has no value: symbol '%s': %s", cr_str_get(&text), cr_sym_name(culprit), why);
    else if (!status) status = CR_FAIL(CR_EVALUE, "'%s' has no value: %s", cr_str_get(&text), why);
    cr_str_dispose(&text);
    return status;
}

/* A symbol of another environment is made anew here, as it was declared there. */
static cr_sym own_symbol(cr_env *env, cr_sym e) {
    const cr__symbol *s = e->u.symbol;
    return s->env == env ? e : cr_sym_symbol(env, s->name, (cr_sym_type)e->type, s->declared_lo, s->declared_hi);
}

static cr_sym own_constant(cr_env *env, cr_sym e) {
    if (e->kind == CR_SYM_REAL) return cr_sym_float(env, e->u.real);
    return cr__intern(env, (cr_sym_kind)e->kind, (cr_sym_type)e->type, e->constant, NULL, NULL, 0);
}

cr_sym cr_sym_substitute(cr_env *env, cr_sym e, cr_sym (*replace)(void *user, cr_sym symbol), void *user) {
    if (!e) return NULL;
    if (e->kind == CR_SYM_SYMBOL) {
        cr_sym put = replace(user, e);
        return put ? put : own_symbol(env, e);
    }
    if (e->n == 0) return own_constant(env, e);
    cr_sym small[8], *operands = e->n <= 8 ? small : cr_alloc(e->n * sizeof *operands), result;
    if (!operands) return cr__fail(env);
    for (size_t i = 0; i < e->n; i++) operands[i] = cr_sym_substitute(env, e->operand[i], replace, user);
    result = cr__rebuild(env, e, operands);
    if (operands != small) cr_free(operands);
    return result;
}
