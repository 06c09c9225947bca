/* watch.c: Python functions that see every op that is carried out on this thread, below the tape and composite ops:
 * what selective checkpoints rest on (python/cresset/utils/checkpoint.py). */
#include "python/autograd_type.h"

#include "autograd/partition.h"
#include "graph/writes.h"

typedef struct py_watch {
    cr_watch watch; /* first */
    PyObject *before, *after;
} py_watch;

/* ---- arguments as Python has them ---- */

static bool is_default(const cr_param *p, const cr_arg *a) {
    const cr_arg *d = &p->fallback;
    if (a->kind != d->kind || a->kind == CR_ARG_TENSOR) return false;
    if (a->kind == CR_ARG_LIST) {
        bool same = a->n == d->n;
        for (uint32_t i = 0; same && i < a->n; i++) same = a->u.list[i].u.i == d->u.list[i].u.i;
        return same;
    }
    return a->kind == CR_ARG_NONE || (a->kind == CR_ARG_STR ? !strcmp(a->u.s, d->u.s) : a->u.i == d->u.i);
}

/* (args, kwargs) without what has its default at the end. */
static int read_args(const cr_op *op, const cr_arg *args, PyObject **positional, PyObject **named) {
    const cr_schema *s = &op->schema;
    uint16_t n = 0;
    for (uint16_t i = 0; i < s->nparams; i++)
        if (!s->params[i].keyword_only && !is_default(&s->params[i], &args[i])) n = (uint16_t)(i + 1);
    *positional = PyTuple_New(n);
    *named = PyDict_New();
    for (uint16_t i = 0; i < s->nparams && *positional && *named; i++) {
        if (i >= n && (!s->params[i].keyword_only || is_default(&s->params[i], &args[i]))) continue;
        PyObject *o = cr_py_borrowed(&cr_frontend_cresset, NULL, &args[i]);
        if (!o) return -1;
        if (i < n) PyTuple_SET_ITEM(*positional, i, o);
        else if (PyDict_SetItemString(*named, s->params[i].name, o)) return Py_DECREF(o), -1;
        else Py_DECREF(o);
    }
    return *positional && *named ? 0 : -1;
}

static PyObject *read_results(const cr_op *op, const cr_arg *results) {
    uint32_t n = cr_result_count(op);
    if (n == 1) return cr_py_borrowed(&cr_frontend_cresset, NULL, &results[0]);
    PyObject *all = PyTuple_New(n);
    for (uint32_t i = 0; all && i < n; i++) {
        PyObject *o = cr_py_borrowed(&cr_frontend_cresset, NULL, &results[i]);
        if (!o) Py_CLEAR(all);
        else PyTuple_SET_ITEM(all, i, o);
    }
    return all;
}

/* fn(op, results or nothing, args, kwargs) */
static PyObject *ask(PyObject *fn, const cr_op *op, const cr_arg *args, const cr_arg *results) {
    PyObject *positional = NULL, *named = NULL, *answer = NULL;
    PyObject *overload = cr_py_overload_get(op), *made = results ? read_results(op, results) : Py_NewRef(Py_None);
    if (overload && made && !read_args(op, args, &positional, &named))
        answer = PyObject_CallFunctionObjArgs(fn, overload, made, positional, named, NULL);
    Py_XDECREF(overload);
    Py_XDECREF(made);
    Py_XDECREF(positional);
    Py_XDECREF(named);
    return answer;
}

/* ---- the two questions ---- */

static cr_status take(const cr_op *op, PyObject *answer, cr_arg *results) {
    uint32_t n = cr_result_count(op);
    for (uint32_t i = 0; i < n; i++) results[i] = cr_arg_none();
    if (n == 1) return cr_py_take(op->name, answer, "its result", &results[0]);
    if (!PyTuple_Check(answer) || (uint32_t)PyTuple_GET_SIZE(answer) != n)
        return CR_FAIL(CR_ERUNTIME, "%s has %u results: give a tuple of them", op->name, n);
    cr_status status = CR_OK;
    for (uint32_t i = 0; i < n && !status; i++)
        status = cr_py_take(op->name, PyTuple_GET_ITEM(answer, i), "its result", &results[i]);
    if (status) cr_results_release(results, n);
    return status;
}

static cr_status before(cr_watch *w, const cr_op *op, const cr_arg *args, cr_arg *results, bool *done) {
    py_watch *p = (py_watch *)w;
    *done = false;
    if (p->before == Py_None || cr_op_writes(op)) return CR_OK; /* a write happens again */
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *answer = ask(p->before, op, args, NULL);
    *done = answer && answer != Py_None;
    cr_status status = !answer ? CR_FAIL(CR_EPYTHON, "what watches %s raised an exception", op->name)
                       : *done ? take(op, answer, results)
                               : CR_OK;
    Py_XDECREF(answer);
    PyGILState_Release(state);
    return status;
}

/* Its answer is what a partitioner is to do with the call: None, False (compute again) or True (save). */
static cr_status after(cr_watch *w, const cr_op *op, const cr_arg *args, const cr_arg *results) {
    py_watch *p = (py_watch *)w;
    cr_ambient *ambient = cr_ambient_get();
    ambient->policy = CR_POLICY_FREE;
    if (p->after == Py_None || cr_op_writes(op)) return CR_OK;
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *answer = ask(p->after, op, args, results);
    if (answer == Py_True) ambient->policy = CR_POLICY_SAVE;
    if (answer == Py_False) ambient->policy = CR_POLICY_RECOMPUTE;
    cr_status status = answer ? CR_OK : CR_FAIL(CR_EPYTHON, "what watches %s raised an exception", op->name);
    Py_XDECREF(answer);
    PyGILState_Release(state);
    return status;
}

/* ---- the stack of them ---- */

static PyObject *push(PyObject *module, PyObject *args) {
    PyObject *first, *then;
    cr_ambient *ambient = cr_ambient_get();
    (void)module;
    if (!PyArg_ParseTuple(args, "OO:_push_watch", &first, &then)) return NULL;
    py_watch *p = PyMem_Calloc(1, sizeof *p);
    if (!p) return PyErr_NoMemory();
    *p = (py_watch){ { before, after, ambient->watch }, Py_NewRef(first), Py_NewRef(then) };
    ambient->watch = &p->watch;
    Py_RETURN_NONE;
}

static PyObject *pop(PyObject *module, PyObject *unused) {
    cr_ambient *ambient = cr_ambient_get();
    py_watch *p = (py_watch *)ambient->watch;
    (void)module, (void)unused;
    if (!p) return PyErr_Format(PyExc_RuntimeError, "nothing watches the calls of this thread");
    ambient->watch = p->watch.outer;
    Py_DECREF(p->before);
    Py_DECREF(p->after);
    PyMem_Free(p);
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    { "_push_watch", push, METH_VARARGS,
      "_push_watch(before, after): each None, or called with (op, results, args, kwargs) of every op that is carried "
      "out. before() may give results instead." },
    { "_pop_watch", pop, METH_NOARGS, "The innermost watch ends." },
    { NULL, NULL, 0, NULL },
};

int cr_py_watch_init(PyObject *module) { return PyModule_AddFunctions(module, functions); }
