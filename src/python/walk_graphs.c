/* walk_graphs.c: cresset._C._WalkGraphs: walks back that are captured and compiled (autograd/walk_graphs.h), with a
 * compiler in Python. */
#include "python/walk_graphs.h"
#include "python/frontend.h"

#include "autograd/walk_graphs.h"
#include "emit/tier.h"

typedef struct py_graphs { PyObject_HEAD cr_walk_graphs *graphs; } py_graphs;
static PyTypeObject graphs_type;

/* `user` of the table: what Python brings. */
typedef struct callbacks { PyObject *compile, *captured, *plain; } callbacks;

static void callbacks_release(void *user) {
    callbacks *c = user;
    PyGILState_STATE gil = PyGILState_Ensure();
    Py_XDECREF(c->compile);
    Py_XDECREF(c->captured);
    Py_XDECREF(c->plain);
    PyMem_Free(c);
    PyGILState_Release(gil);
}

/* ---- code ---- */

typedef struct native { cr_graph *graph; cr_plan *plan; cr_tier *tier; } native;

static cr_status run_native(void *code, const cr_arg *inputs, size_t n, cr_arg *results, size_t nresults) {
    const native *c = code;
    return cr_tier_run(c->tier, c->graph, c->plan, inputs, n, results, nresults);
}

static void release_native(void *code) {
    native *c = code;
    cr_tier_release(c->tier);
    cr_plan_release(c->plan);
    cr_graph_release(c->graph);
    cr_free(c);
}

/* Interpreted at once, native as soon as that is built. */
static cr_status make_native(cr_graph *g, cr_aot_code *out) {
    native *c = cr_calloc(1, sizeof *c);
    if (!c) return CR_ENOMEM;
    cr_graph_retain(c->graph = g);
    cr_status status = cr_plan_create(g, &c->plan);
    if (!status && !cr_tier_draws(g)) status = cr_tier_start(g, CR_TIER_NATIVE, &c->tier);
    if (status) return release_native(c), status;
    *out = (cr_aot_code){ run_native, release_native, c };
    return CR_OK;
}

/* compile(graph, inputs): None for the interpreter, "native", or a function of the inputs. */
static cr_status compile(void *user, cr_graph *g, const cr_arg *inputs, size_t n, cr_aot_code *out) {
    const callbacks *c = user;
    PyGILState_STATE gil = PyGILState_Ensure();
    cr_status status = CR_EPYTHON;
    cr_graph_retain(g);
    PyObject *graph = cr_py_graph_new(g), *list = graph ? PyList_New((Py_ssize_t)n) : NULL, *made = NULL;
    for (size_t i = 0; list && i < n; i++) {
        PyObject *item = cr_py_borrowed(&cr_frontend_cresset, NULL, &inputs[i]);
        if (item) PyList_SET_ITEM(list, (Py_ssize_t)i, item);
        else Py_CLEAR(list);
    }
    if (list) made = PyObject_CallFunctionObjArgs(c->compile, graph, list, NULL);
    if (made == Py_None) status = cr_aot_interpret(g, out);
    else if (made && PyUnicode_Check(made)) status = make_native(g, out);
    else if (made) status = cr_py_code(made, out);
    Py_XDECREF(made);
    Py_XDECREF(list);
    Py_XDECREF(graph);
    PyGILState_Release(gil);
    return status;
}

static void tell(PyObject *fn, const char *why) {
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *told = fn == Py_None ? NULL : why ? PyObject_CallFunction(fn, "s", why) : PyObject_CallNoArgs(fn);
    if (!told && PyErr_Occurred()) PyErr_WriteUnraisable(fn); /* counting is no reason to fail */
    Py_XDECREF(told);
    PyGILState_Release(gil);
}

static void tell_captured(void *user) { tell(((callbacks *)user)->captured, NULL); }
static void tell_plain(void *user, const char *why) { tell(((callbacks *)user)->plain, why); }

/* ---- the object ---- */

static PyObject *graphs_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = { "compile", "captured", "plain", "dynamic", "limit", NULL };
    static const cr_walk_table table = { compile, tell_captured, tell_plain, callbacks_release };
    PyObject *compiler, *captured, *plain;
    int dynamic;
    unsigned limit;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOOpI:_WalkGraphs", names, &compiler, &captured, &plain, &dynamic,
                                     &limit))
        return NULL;
    callbacks *c = PyMem_Calloc(1, sizeof *c);
    if (!c) return PyErr_NoMemory();
    *c = (callbacks){ Py_NewRef(compiler), Py_NewRef(captured), Py_NewRef(plain) };
    cr_walk_graphs *graphs;
    cr_status status = cr_walk_graphs_create(&table, c, dynamic, limit, &graphs);
    if (status) return cr_py_raise(status);
    py_graphs *o = (py_graphs *)type->tp_alloc(type, 0);
    if (o) o->graphs = graphs;
    else cr_walk_graphs_release(graphs);
    return (PyObject *)o;
}

static void graphs_dealloc(PyObject *self) {
    cr_walk_graphs_release(((py_graphs *)self)->graphs);
    Py_TYPE(self)->tp_free(self);
}

static PyObject *graphs_forget(PyObject *self, PyObject *unused) {
    (void)unused;
    cr_walk_graphs_forget(((py_graphs *)self)->graphs);
    Py_RETURN_NONE;
}

static PyMethodDef graphs_methods[] = {
    { "forget", graphs_forget, METH_NOARGS, "Forgets all that was captured." },
    { NULL, NULL, 0, NULL },
};
static PyTypeObject graphs_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "cresset._C._WalkGraphs",
    .tp_basicsize = sizeof(py_graphs),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "_WalkGraphs(compile, captured, plain, dynamic, limit): backward graphs that were captured.",
    .tp_new = graphs_new,
    .tp_dealloc = graphs_dealloc,
    .tp_methods = graphs_methods,
};

cr_walk_graphs *cr_py_walk_graphs(PyObject *o) {
    return Py_IS_TYPE(o, &graphs_type) ? ((py_graphs *)o)->graphs : NULL;
}

/* _use_walk_graphs(graphs or None): what was in use on this thread before. */
static PyObject *use(PyObject *module, PyObject *o) {
    cr_walk_graphs *graphs = cr_py_walk_graphs(o);
    (void)module;
    if (o != Py_None && !graphs)
        return PyErr_Format(PyExc_TypeError, "_use_walk_graphs() takes a _WalkGraphs or None, not a %s",
                            Py_TYPE(o)->tp_name);
    py_graphs *before = (py_graphs *)graphs_type.tp_alloc(&graphs_type, 0);
    if (!before) return NULL;
    if (graphs) cr_walk_graphs_retain(graphs);
    before->graphs = cr_walk_graphs_use(graphs);
    if (before->graphs) return (PyObject *)before;
    Py_DECREF(before);
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    { "_use_walk_graphs", use, METH_O, "Walks back of this thread are captured by these from now on; those before." },
    { NULL, NULL, 0, NULL },
};

int cr_py_walk_graphs_init(PyObject *module) {
    if (PyType_Ready(&graphs_type)) return -1;
    if (PyModule_AddObjectRef(module, "_WalkGraphs", (PyObject *)&graphs_type)) return -1;
    return PyModule_AddFunctions(module, functions);
}
