/* decompose.c: run_decompositions() from Python. The table is a dict {"aten::op.overload": None or a function}: None
 * stands for the built-in decomposition. A function is recorded, on fakes of the arguments, by cresset._decomp; the
 * graph that comes back takes the call's place. */
#include "python/program.h"

#include "ops/formula.h"
#include "passes/passes.h"

typedef struct chosen { PyObject *table, *record; } chosen; /* borrowed */

static bool stops(const cr_op *op, void *user) {
    const chosen *c = user;
    /* nothing to do it with */
    if (cr_stop_at_core(op, NULL) && !op->base->row->decomp && !op->base->row->decomp_fn) return true;
    PyGILState_STATE state = PyGILState_Ensure();
    bool listed = PyDict_GetItemString(c->table, op->base->name);
    PyGILState_Release(state);
    return !listed;
}

/* A fake tensor, a number, or a list of such: what an argument is while the function is recorded. */
static PyObject *argument(const cr_graph *g, const cr_arg *a) {
    cr_env *env = cr_graph_env(g);
    if (a->kind == CR_ARG_LIST) {
        PyObject *list = PyList_New(a->n);
        for (uint32_t i = 0; list && i < a->n; i++) {
            PyObject *item = argument(g, &a->u.list[i]);
            if (!item) Py_CLEAR(list);
            else PyList_SET_ITEM(list, i, item);
        }
        return list;
    }
    if (a->kind == CR_ARG_STR) return PyUnicode_FromStringAndSize(a->u.s, a->n);
    if (a->kind == CR_ARG_VALUE) {
        const cr_value *v = cr_graph_value(g, (uint32_t)a->u.i);
        cr_tensor *fake = NULL;
        if (v->meta) {
            cr_status status = cr_tensor_create_fake(env, v->meta, &fake);
            return status ? cr_py_raise(status) : cr_frontend_wrap(fake);
        }
        if (v->expr && cr_sym_type_of(v->expr) == CR_TYPE_INT) return cr_py_dim(env, cr_dim_of(env, v->expr));
        if (v->expr) return cr_py_sym_new(env, (cr_arg){ .kind = CR_ARG_SYM, .u.sym = v->expr });
        Py_RETURN_NONE;
    }
    cr_arg copy = *a;
    return cr_py_from_arg_of(env, &copy, true);
}

/* record(function, op, args, kwargs, several results?) -> Graph */
static PyObject *record(const chosen *c, PyObject *function, const cr_op *op, const cr_graph *g, const cr_arg *args) {
    const cr_schema *s = &op->schema;
    uint16_t npositional = s->npositional;
    PyObject *list = PyTuple_New(npositional), *kwargs = PyDict_New(), *overload = cr_py_overload_get(op),
             *result = NULL;
    for (uint16_t i = 0; list && kwargs && i < s->nparams; i++) {
        PyObject *o = argument(g, &args[i]);
        if (!o) goto out;
        if (i < npositional) PyTuple_SET_ITEM(list, i, o);
        else {
            int bad = PyDict_SetItemString(kwargs, s->params[i].name, o);
            Py_DECREF(o);
            if (bad) goto out;
        }
    }
    if (list && kwargs && overload)
        result = PyObject_CallFunctionObjArgs(c->record, function, overload, list, kwargs,
                                              s->nreturns > 1 ? Py_True : Py_False, NULL);
out:
    Py_XDECREF(list);
    Py_XDECREF(kwargs);
    Py_XDECREF(overload);
    return result;
}

static cr_status body_of(const chosen *c, const cr_op *op, const cr_graph *g, const cr_arg *args, cr_graph **out) {
    PyObject *function = PyDict_GetItemString(c->table, op->name);
    if (!function || function == Py_None) return CR_OK;
    cr_call_mode *mode = &cr_ambient_get()->mode, before = *mode;
    mode->env = cr_graph_env(g);
    PyObject *recorded = record(c, function, op, g, args);
    mode->env = before.env;
    cr_arg graph = { 0 };
    if (recorded && recorded != Py_None && cr_py_graph_read(recorded, &graph)) cr_graph_retain(*out = graph.u.graph);
    bool failed = !recorded;
    Py_XDECREF(recorded);
    return failed ? CR_FAIL(CR_EPYTHON, "the decomposition of %s failed", op->name) : CR_OK;
}

static cr_status body(void *user, const cr_op *op, const cr_graph *g, const cr_arg *args, cr_graph **out) {
    PyGILState_STATE state = PyGILState_Ensure();
    cr_status status = body_of(user, op, g, args, out);
    PyGILState_Release(state);
    return status;
}

PyObject *cr_py_decompose(cr_program *p, PyObject *args, cr_program **out) {
    PyObject *table, *recorder;
    if (!PyArg_ParseTuple(args, "OO:_decompose", &table, &recorder)) return NULL;
    if (table != Py_None && !PyDict_Check(table))
        return PyErr_Format(PyExc_TypeError, "a decomposition table is a dict, not %s", Py_TYPE(table)->tp_name);
    chosen c = { table, recorder };
    cr_decomposition how = { .stop = cr_stop_at_core, .core = true };
    if (table != Py_None) how = (cr_decomposition){ .stop = stops, .user = &c, .core = true, .body = body };
    PyThreadState *thread = PyEval_SaveThread(); /* program_verify says why */
    cr_status status = cr_program_decompose(p, &how, out);
    PyEval_RestoreThread(thread);
    return status ? cr_py_raise(status) : Py_NewRef(Py_None);
}

/* _decompose_graph(graph, table, record): a functional graph in the ops that the table leaves. */
static PyObject *decompose_graph(PyObject *module, PyObject *args) {
    PyObject *graph, *table, *recorder;
    cr_arg a;
    cr_graph *all = NULL, *live = NULL;
    (void)module;
    if (!PyArg_ParseTuple(args, "OO!O:_decompose_graph", &graph, &PyDict_Type, &table, &recorder)) return NULL;
    if (!cr_py_graph_read(graph, &a))
        return PyErr_Format(PyExc_TypeError, "_decompose_graph() takes a Graph, not %s", Py_TYPE(graph)->tp_name);
    chosen c = { table, recorder };
    cr_decomposition how = { .stop = stops, .user = &c, .core = true, .body = body };
    cr_status status = cr_pass_decompose_as(a.u.graph, &how, &all);
    if (!status) status = cr_pass_dce(all, &live);
    cr_graph_release(all);
    return status ? cr_py_raise(status) : cr_py_graph_new(live);
}

/* The names of all ops that the core dialect decomposes here. */
static PyObject *names(PyObject *module, PyObject *unused) {
    PyObject *list = PyList_New(0);
    (void)module, (void)unused;
    for (size_t i = 0; list && i < cr_op_count(); i++) {
        const cr_op *op = cr_op_at(i);
        if (op->variant != CR_FUNCTIONAL || cr_stop_at_core(op, NULL)) continue;
        PyObject *name = PyUnicode_FromString(op->name);
        if (!name || PyList_Append(list, name)) Py_CLEAR(list);
        Py_XDECREF(name);
    }
    return list;
}

/* Has the op a decomposition here, of whatever kind? */
static PyObject *can_decompose(PyObject *module, PyObject *name) {
    const char *utf8 = PyUnicode_AsUTF8(name);
    (void)module;
    if (!utf8) return NULL;
    const cr_op *op = cr_op_find(utf8);
    const cr_row *row = op ? op->base->row : NULL;
    return PyBool_FromLong(row &&
                           (row->decomp || row->decomp_fn || row->core_fn || (row->core && strcmp(row->core, "keep"))));
}

static PyMethodDef functions[] = {
    { "_decomposed_names", names, METH_NOARGS, "The names of the ops that the core dialect decomposes." },
    { "_decompose_graph", decompose_graph, METH_VARARGS,
      "_decompose_graph(graph, table, record): the graph in the ops that the table leaves." },
    { "_can_decompose", can_decompose, METH_O, "_can_decompose(name): has that op a built-in decomposition?" },
    { NULL, NULL, 0, NULL },
};

int cr_py_decompose_init(PyObject *module) { return PyModule_AddFunctions(module, functions); }
