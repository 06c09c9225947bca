/* numbers.c: checking and computing the open numbers of a call. See numbers.h. */
#include "capture/numbers.h"

#include "python/py.h"

#include <math.h>

enum { SMALL = 32 };

void cr_numbers_free(cr_numbers *n) {
    if (!n) return;
    cr_vec_dispose(&n->symbols);
    cr_vec_dispose(&n->extents);
    cr_vec_dispose(&n->conditions);
    cr_vec_dispose(&n->promises);
    cr_env_release(n->env);
    PyMem_Free(n);
}

/* Does the range of a symbol, which is checked anyway, say it? */
static bool is_range(const cr_numbers *n, cr_sym condition) {
    cr_sym_kind kind = cr_sym_kind_of(condition);
    int64_t limit;
    if (kind != CR_SYM_LE && kind != CR_SYM_LT && kind != CR_SYM_EQ) return false;
    for (int k = 0; k < 2; k++) {
        cr_sym symbol = cr_sym_operand(condition, (size_t)k);
        if (!cr_sym_is_int(cr_sym_operand(condition, (size_t)!k), &limit)) continue;
        for (size_t i = 0; i < n->symbols.n; i++) {
            const cr_range r = n->symbols.at[i].range;
            if (n->symbols.at[i].symbol != symbol) continue;
            if (kind == CR_SYM_EQ) return r.lo == limit && r.hi == limit;
            if (k == 0) return kind == CR_SYM_LE ? r.hi <= limit : r.hi < limit;
            return kind == CR_SYM_LE ? r.lo >= limit : r.lo > limit;
        }
    }
    return false;
}

bool cr_numbers_has(const cr_numbers *n, cr_sym symbol) {
    for (size_t i = 0; i < n->symbols.n; i++)
        if (n->symbols.at[i].symbol == symbol) return true;
    return false;
}

static bool has_all(const cr_numbers *n, cr_sym e) {
    if (cr_sym_kind_of(e) == CR_SYM_SYMBOL) return cr_numbers_has(n, e);
    for (size_t i = 0; i < cr_sym_operand_count(e); i++)
        if (!has_all(n, cr_sym_operand(e, i))) return false;
    return true;
}

int cr_numbers_seal(cr_numbers *n) {
    n->conditions.n = 0;
    for (size_t i = 0; i < n->symbols.n; i++) {
        cr_open_symbol *s = &n->symbols.at[i];
        if (cr_sym_type_of(s->symbol) == CR_TYPE_INT) s->range = cr_sym_range(n->env, s->symbol);
    }
    for (size_t i = 0; i < cr_env_cond_count(n->env); i++) {
        cr_sym condition = cr_env_cond(n->env, i).condition;
        if (is_range(n, condition) || !has_all(n, condition)) continue;
        if (cr_vec_push(&n->conditions, condition)) return PyErr_NoMemory(), -1;
    }
    n->failed = SIZE_MAX;
    return 0;
}

/* ---- reading a call ---- */

/* False: an int of more than 64 bits. */
static bool read_symbol(const cr_open_symbol *s, PyObject *o, cr_sym_value *out) {
    out->type = cr_sym_type_of(s->symbol);
    int overflow = 0;
    if (s->dim != CR_ITSELF) out->i = s->frontend->size(o, s->dim);
    else if (out->type == CR_TYPE_FLOAT) out->f = PyFloat_AS_DOUBLE(o);
    else out->i = PyLong_AsLongLongAndOverflow(o, &overflow);
    return !overflow;
}

void cr_numbers_load(const cr_numbers *n, PyObject *const *slots, cr_sym_value *values) {
    for (size_t i = 0; i < n->symbols.n; i++) read_symbol(&n->symbols.at[i], slots[n->symbols.at[i].slot], &values[i]);
}

typedef struct call { const cr_numbers *n; const cr_sym_value *values; } call;

static bool look_up(void *user, cr_sym symbol, cr_sym_value *out) {
    const call *c = user;
    for (size_t i = 0; i < c->n->symbols.n; i++)
        if (c->n->symbols.at[i].symbol == symbol) return *out = c->values[i], true;
    return false;
}

static bool extent_holds(const call *c, const cr_extent *x, PyObject *o) {
    int64_t now = (x->stride ? x->frontend->stride : x->frontend->size)(o, x->dim);
    cr_sym_value value;
    if (cr_sym_kind_of(x->expr) == CR_SYM_SYMBOL) return look_up((void *)c, x->expr, &value) && value.i == now;
    return !cr_sym_eval(x->expr, look_up, (void *)c, &value) && value.i == now;
}

/* NaN and infinity have no place in conditions: a float that is one was never left open. */
static bool in_range(const cr_open_symbol *s, const cr_sym_value *v) {
    if (v->type == CR_TYPE_FLOAT) return isfinite(v->f);
    return s->range.lo <= v->i && v->i <= s->range.hi;
}

static bool hold(cr_numbers *n, PyObject *const *slots, cr_sym_value *values) {
    const call c = { n, values };
    size_t at = 0;
    for (size_t i = 0; i < n->symbols.n; i++, at++) {
        const cr_open_symbol *s = &n->symbols.at[i];
        if (!read_symbol(s, slots[s->slot], &values[i]) || !in_range(s, &values[i])) return n->failed = at, false;
    }
    for (size_t i = 0; i < n->extents.n; i++, at++)
        if (!extent_holds(&c, &n->extents.at[i], slots[n->extents.at[i].slot])) return n->failed = at, false;
    for (size_t i = 0; i < n->conditions.n; i++, at++) {
        cr_sym_value truth;
        if (cr_sym_eval(n->conditions.at[i], look_up, (void *)&c, &truth) || !truth.i) return n->failed = at, false;
    }
    return true;
}

bool cr_numbers_hold(cr_numbers *n, PyObject *const *slots) {
    cr_sym_value small[SMALL], *values = small;
    if (n->symbols.n > SMALL && !(values = PyMem_Malloc(n->symbols.n * sizeof *values))) return false;
    bool all = hold(n, slots, values);
    if (values != small) PyMem_Free(values);
    return all;
}

PyObject *cr_numbers_object(const cr_numbers *n, const cr_sym_value *values, cr_sym e) {
    cr_sym_value value;
    if (cr_sym_eval(e, look_up, (void *)&(call){ n, values }, &value)) return NULL;
    switch (value.type) {
    case CR_TYPE_INT: return PyLong_FromLongLong(value.i);
    case CR_TYPE_FLOAT: return PyFloat_FromDouble(value.f);
    default: return PyBool_FromLong(value.i != 0);
    }
}
