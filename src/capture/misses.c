/* misses.c: why nothing captured fits a call, in words: for those who watch, for stances and at the limits. See
 * dispatch.h. */
#include "capture/callable.h"
#include "capture/dispatch.h"

enum { TOLD = 16 }; /* entries that are named at most: limits may be large */

/* What does not hold of an entry. New reference. */
static PyObject *miss_of(const cr_request *r, cr_entry *e) {
    PyObject **slots = PyMem_Calloc(e->guards.slots + 1, sizeof *slots);
    if (!slots) return PyErr_NoMemory();
    int32_t row = cr_guards_check(&e->guards, r->args, r->function, slots);
    PyMem_Free(slots);
    return row < 0 ? PyUnicode_FromString("the surroundings (gradient mode, dtypes, ...) changed")
                   : cr_guard_text(&e->guards, (size_t)row);
}

PyObject *cr_misses(const cr_request *r, const cr_place *p, bool all) {
    PyObject *list = PyList_New(0);
    size_t n = all ? CR_MIN(p->entries.n, (size_t)TOLD) : CR_MIN(p->entries.n, (size_t)1);
    for (size_t i = 0; list && (i < n || (!i && !n)); i++) {
        PyObject *text = n ? miss_of(r, p->entries.at[i])
                           : PyUnicode_FromString(r->cache->captures ? "calls have ever other numbers of arguments"
                                                                     : "nothing was captured yet");
        if (!text || PyList_Append(list, text)) Py_CLEAR(list);
        Py_XDECREF(text);
    }
    return list;
}

/* ... as one text, of the first made first. New reference. */
static PyObject *misses_text(const cr_request *r, const cr_place *p, bool all) {
    PyObject *list = cr_misses(r, p, all), *text = NULL;
    PyObject *comma = list && !PyList_Reverse(list) ? PyUnicode_FromString("; ") : NULL;
    if (comma) text = PyUnicode_Join(comma, list);
    Py_XDECREF(comma);
    Py_XDECREF(list);
    return text;
}

bool cr_is_full(const cr_request *r) {
    return r->d->all && cr_code_count((PyCodeObject *)r->cache->code, 0) >= r->d->all;
}

/* The function, or the place in it. New reference. */
static PyObject *place_name(const cr_request *r) {
    if (r->at < 0) return PyUnicode_FromFormat("%R", r->function);
    const cr_code *code = cr_code_get((PyCodeObject *)r->cache->code);
    int line = code ? PyCode_Addr2Line((PyCodeObject *)r->cache->code, code->at[r->at].own * 2) : 0;
    return PyUnicode_FromFormat("%R, from line %d on,", r->function, line);
}

/* A class of cresset._dynamo.exc. New reference. */
static PyObject *error_class(const char *name) {
    PyObject *module = PyImport_ImportModule("cresset._dynamo.exc");
    PyObject *found = module ? PyObject_GetAttrString(module, name) : NULL;
    Py_XDECREF(module);
    return found;
}

int cr_tell_limit(const cr_request *r, const cr_place *p) {
    bool whole = r->d->unsupported != Py_None, full = cr_is_full(r);
    if (!whole && (r->cache->told || r->d->quiet)) return 0;
    r->cache->told = true;
    PyObject *why = misses_text(r, p, true), *name = why ? place_name(r) : NULL;
    PyObject *kind = name ? (whole ? error_class("FailOnRecompileLimitHit") : Py_NewRef(PyExc_RuntimeWarning)) : NULL;
    PyObject *text = !kind ? NULL : PyUnicode_FromFormat(
        "%U was captured %zd times, the limit%s, and %s; what did not hold of each: %U\n  compute what changes with "
        "tensors, so that one capture serves, or raise cresset._dynamo.config.%s",
        name, full ? r->d->all : r->at < 0 ? r->cache->captures : (Py_ssize_t)p->entries.n,
        full ? " of its code by all who compiled it (accumulated_recompile_limit)" : "",
        whole ? "fullgraph=True asks for a graph of every call, which none of them is"
              : "runs plain from now on for calls that fit none",
        why, full ? "accumulated_recompile_limit" : "recompile_limit");
    int failed = !text;
    if (text && whole) PyErr_SetObject(kind, text), failed = 1;
    else if (text) failed = PyErr_WarnFormat(kind, 1, "%U", text);
    Py_XDECREF(text);
    Py_XDECREF(kind);
    Py_XDECREF(name);
    Py_XDECREF(why);
    return failed ? -1 : 0;
}

int cr_tell_stance(const cr_request *r, const cr_place *p) {
    PyObject *why = misses_text(r, p, true);
    if (why)
        PyErr_Format(PyExc_RuntimeError, "%R would have to be captured, and the stance is fail_on_recompile; what did "
                                         "not hold: %U", r->function, why);
    Py_XDECREF(why);
    return -1;
}

int cr_tell_skipped(const cr_request *r) {
    PyErr_Format(PyExc_RuntimeError, "compile(fullgraph=True) has compiled nothing: %R is skipped, since its code was "
                                     "given to skip_code()\n  leave fullgraph out: then it runs as it is", r->function);
    return -1;
}
