/* eval_context.c: contextvars.ContextVar: get(), set() and reset().
 *
 * What the program sets is known here alone: nobody else sees it until the captured call ends, and by then it must be
 * as it was outside. Where a variable stays set, or a capture would end while one is, it ends before the variable was
 * set. What a variable has outside is read at every call, and guarded. */
#include "capture/evaluate.h"

#include "python/py.h"

#include <string.h>

PyObject *cr_context_value(PyObject *variable) {
    PyObject *value = NULL;
    if (!PyContextVar_CheckExact(variable)) return NULL;
    if (PyContextVar_Get(variable, NULL, &value)) PyErr_Clear();
    Py_XDECREF(value); /* the context, or the variable, has it */
    return value;
}

bool cr_sets_context(const cr_capture *c) {
    for (size_t i = 0; i < c->contexts.n; i++)
        if (c->contexts.at[i].value) return true;
    return false;
}

void cr_contexts_dispose(cr_capture *c) {
    for (size_t i = 0; i < c->contexts.n; i++) {
        Py_DECREF(c->contexts.at[i].variable);
        Py_XDECREF(c->contexts.at[i].value);
    }
    for (size_t i = 0; i < c->resets.n; i++) {
        Py_DECREF(c->resets.at[i].token);
        Py_XDECREF(c->resets.at[i].before);
    }
    cr_vec_dispose(&c->contexts);
    cr_vec_dispose(&c->resets);
}

static cr_context *find(cr_capture *c, PyObject *variable) {
    for (size_t i = 0; i < c->contexts.n; i++)
        if (c->contexts.at[i].variable == variable) return &c->contexts.at[i];
    return NULL;
}

static int get(cr_capture *c, PyObject *token, const cr_arguments *a, PyObject **out) {
    const cr_context *set = find(c, cr_real(token));
    if (set && set->value) return *out = Py_NewRef(set->value), 0;
    if (!cr_context_value(cr_real(token)) || a->n > 2) return cr_break(c, "a ContextVar is read that has no value");
    return (*out = cr_wrap_read(c, CR_READ_CONTEXT, cr_source_of(token), cr_real(token), NULL, 0)) ? 0 : -1;
}

/* A token of CPython's that nobody can use: the variable is as it was again. */
static PyObject *used_token(PyObject *variable) {
    PyObject *token = PyContextVar_Set(variable, Py_None);
    if (token && PyContextVar_Reset(variable, token)) Py_CLEAR(token);
    return token;
}

static int set(cr_capture *c, PyObject *token, PyObject *value, PyObject **out) {
    PyObject *variable = cr_real(token), *real;
    cr_context *now = find(c, variable);
    if (!now) {
        if (cr_vec_push(&c->contexts, ((cr_context){ variable, NULL }))) return PyErr_NoMemory(), -1;
        Py_INCREF(variable);
        now = &c->contexts.at[c->contexts.n - 1];
    }
    if (!(real = used_token(variable)) || !(*out = cr_token_made((PyObject *)&PyContextToken_Type, real, NULL)))
        return -1;
    cr_reset reset = { *out, variable, now->value, false };
    if (cr_vec_push(&c->resets, reset)) {
        Py_CLEAR(*out);
        return PyErr_NoMemory(), -1;
    }
    Py_INCREF(reset.token); /* and what was there before belongs to it */
    now->value = Py_NewRef(value);
    return 0;
}

static int reset(cr_capture *c, PyObject *token, PyObject *by) {
    for (size_t i = 0; i < c->resets.n; i++) {
        cr_reset *r = &c->resets.at[i];
        if (r->token != by || r->variable != cr_real(token) || r->used) continue;
        r->used = true;
        Py_XSETREF(find(c, r->variable)->value, r->before);
        r->before = NULL;
        return 0;
    }
    return cr_break(c, "ContextVar.reset() is called with a token that was not made here, or is used");
}

int cr_call_context(cr_capture *c, PyObject *callable, const cr_arguments *a, PyObject **out) {
    PyObject *variable = a->n && cr_is_token(a->at[0]) && !cr_is_made(a->at[0]) ? a->at[0] : NULL;
    if (!Py_IS_TYPE(callable, &PyMethodDescr_Type) || PyDescr_TYPE(callable) != &PyContextVar_Type || a->kwnames ||
        !variable || !PyContextVar_CheckExact(cr_real(variable)) || c->tracer)
        return 0;
    const char *name = ((PyMethodDescrObject *)callable)->d_method->ml_name;
    /* which of them it is decides what is set */
    if (cr_guard_object(&c->guards, cr_source_of(variable), CR_HOLDS_IS, cr_real(variable))) return -1;
    if (!strcmp(name, "get") && a->n <= 2) return get(c, variable, a, out) ? -1 : 1;
    if (!strcmp(name, "set") && a->n == 2) return set(c, variable, a->at[1], out) ? -1 : 1;
    if (!strcmp(name, "reset") && a->n == 2) return reset(c, variable, a->at[1]) ? -1 : (*out = Py_NewRef(Py_None), 1);
    return 0;
}
