/* library.c: custom operators from Python. An op is registered with one Python function, dispatch(op, how, args,
 * kwargs), which cresset.library provides; it finds the implementation, the fake rule or the derivative. Arguments are
 * handed over as Python objects, results are taken back as the schema says. */
#include "cresset/library.h"
#include "ops/custom.h"
#include "python/py.h"

typedef struct py_custom { cr_custom custom; PyObject *dispatch; } py_custom;

static PyObject *call(const py_custom *p, const cr_op *op, cr_env *env, const char *how, const cr_arg *args) {
    const cr_schema *s = &op->schema;
    PyObject *list = PyTuple_New(s->npositional), *kwargs = PyDict_New(), *result = NULL;
    for (uint16_t i = 0; list && kwargs && i < s->nparams; i++) {
        PyObject *o = cr_py_borrowed(&cr_frontend_cresset, env, &args[i]);
        if (!o) goto out;
        if (i < s->npositional) PyTuple_SET_ITEM(list, i, o);
        else {
            int bad = PyDict_SetItemString(kwargs, s->params[i].name, o);
            Py_DECREF(o);
            if (bad) goto out;
        }
    }
    if (list && kwargs)
        result = PyObject_CallFunction(p->dispatch, "ssOO", op->name, how, list, kwargs);
out:
    Py_XDECREF(list);
    Py_XDECREF(kwargs);
    return result;
}

/* ---- results ---- */

static cr_status own(const cr_arg *from, cr_arg *to) {
    *to = *from;
    if (from->kind == CR_ARG_TENSOR) cr_tensor_retain(from->u.t);
    if (from->kind == CR_ARG_STR || from->kind == CR_ARG_COMPLEX)
        return *to = cr_arg_none(), CR_FAIL(CR_EUNSUPPORTED, "a text or complex number as a result of a custom "
                                                             "operator");
    if (from->kind != CR_ARG_LIST) return CR_OK;
    cr_arg *items = cr_calloc(from->n + 1, sizeof *items);
    if (!items) return *to = cr_arg_none(), CR_ENOMEM;
    to->u.list = items;
    for (uint32_t i = 0; i < from->n; i++) {
        cr_status status = own(&from->u.list[i], &items[i]);
        if (status) return cr_results_release(to, 1), status;
    }
    return CR_OK;
}

cr_status cr_py_take(const char *name, PyObject *o, const char *expected, cr_arg *out) {
    cr_py_frame f;
    cr_arg given;
    cr_py_frame_init(&f);
    int r = cr_py_convert(&f, o, &given);
    cr_status status = r < 0 ? CR_EPYTHON : CR_OK;
    if (r > 0)
        status = CR_FAIL(CR_ERUNTIME, "%s: the implementation returned a %s; expected %s", name, Py_TYPE(o)->tp_name,
                         expected);
    if (!status) status = own(&given, out);
    cr_py_frame_dispose(&f);
    return status;
}

static cr_status take(const cr_op *op, PyObject *o, cr_arg *to) {
    char expected[512];
    PyOS_snprintf(expected, sizeof expected, "what its schema says: %s", op->schema.text);
    return cr_py_take(op->name, o, expected, to);
}

static cr_status take_results(const cr_op *op, PyObject *o, cr_arg *results) {
    uint16_t n = op->schema.nreturns;
    if (n == 0)
        return o == Py_None
                   ? CR_OK
                   : CR_FAIL(CR_ERUNTIME, "%s: the implementation returned a %s, its schema has no result; return None",
                             op->name, Py_TYPE(o)->tp_name);
    if (n == 1) return take(op, o, &results[0]);
    if ((!PyTuple_Check(o) && !PyList_Check(o)) || PySequence_Fast_GET_SIZE(o) != n)
        return CR_FAIL(CR_ERUNTIME, "%s: the implementation must return a tuple of %u results, not a %s", op->name, n,
                       Py_TYPE(o)->tp_name);
    for (uint16_t i = 0; i < n; i++) {
        cr_status status = take(op, PySequence_Fast_GET_ITEM(o, i), &results[i]);
        if (status) return cr_results_release(results, i), status;
    }
    return CR_OK;
}

/* Called with or without the GIL: the interpreter of programs runs without. */
static cr_status dispatch(void *user, const cr_op *op, cr_env *env, const char *how, const cr_arg *args,
                          cr_arg *results, bool *done) {
    const py_custom *p = user;
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *o = call(p, op, env, how, args);
    *done = o != Py_NotImplemented;
    cr_status status = !*done ? CR_OK
                       : o    ? take_results(op, o, results)
                              : CR_FAIL(CR_EPYTHON, "the implementation of %s raised an exception", op->name);
    Py_XDECREF(o);
    PyGILState_Release(state);
    return status;
}

static cr_status run(void *user, const cr_op *op, const cr_arg *args, cr_arg *results) {
    bool done;
    return dispatch(user, op, NULL, "run", args, results, &done);
}
static cr_status run_fake(void *user, const cr_op *op, cr_env *env, const cr_arg *args, cr_arg *results) {
    bool done;
    return dispatch(user, op, env, "fake", args, results, &done);
}
static cr_status derive(void *user, const cr_op *op, const cr_arg *args, cr_arg *results, bool *done) {
    return dispatch(user, op, NULL, "derive", args, results, done);
}

/* ---- _define_op(schema, dispatch) ---- */

static PyObject *define(PyObject *module, PyObject *args) {
    const char *schema;
    PyObject *function;
    const cr_op *op;
    int compliant;
    (void)module;
    if (!PyArg_ParseTuple(args, "sOp:_define_op", &schema, &function, &compliant)) return NULL;
    size_t n = strlen(schema) + 1;
    py_custom *p = cr_calloc(1, sizeof *p + n); /* graphs may name the op for as long as the process lives */
    if (!p) return PyErr_NoMemory();
    memcpy(p + 1, schema, n);
    p->custom = (cr_custom){
        .row.schema = (const char *)(p + 1), .run = run, .fake = run_fake, .derive = derive, .user = p,
        .compliant = compliant,
    };
    p->dispatch = Py_NewRef(function);
    cr_status status = cr_custom_register(&p->custom, &op);
    if (!status) return PyUnicode_FromString(op->name);
    Py_DECREF(function);
    cr_free(p);
    return cr_py_raise(status);
}

static PyObject *is_custom(PyObject *module, PyObject *name) {
    const char *utf8 = PyUnicode_AsUTF8(name);
    (void)module;
    if (!utf8) return NULL;
    const cr_op *op = cr_op_find(utf8);
    return PyBool_FromLong(op && cr_custom_get(op));
}

static PyObject *load_ops(PyObject *module, PyObject *path) {
    PyObject *bytes;
    char message[512] = "";
    (void)module;
    if (!PyUnicode_FSConverter(path, &bytes)) return NULL;
    int code = cresset_load_ops(PyBytes_AS_STRING(bytes), message, sizeof message);
    Py_DECREF(bytes);
    if (code) return PyErr_Format(PyExc_OSError, "load_library(): %s", message);
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    { "_load_ops", load_ops, METH_O,
      "_load_ops(path): registers the operators of a shared library (cresset/library.h)." },
    { "_define_op", define, METH_VARARGS,
      "_define_op(schema, dispatch, compliant): registers a custom operator and gives its name. dispatch(name, how, "
      "args, kwargs) computes it; compliant: it has the tag pt2_compliant_tag." },
    { "_is_custom_op", is_custom, METH_O, "_is_custom_op(name): is there a custom operator of that name?" },
    { NULL, NULL, 0, NULL },
};

int cr_py_library_init(PyObject *module) { return PyModule_AddFunctions(module, functions); }
