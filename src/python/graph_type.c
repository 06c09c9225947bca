/* graph_type.c: cresset.Graph: a graph to read, print, verify and run. It cannot be edited from Python, so that its
 * plan, made by the first run, stays true. `_data()` gives everything in it as plain lists and dicts (see
 * cresset/_json.py). */
#include "python/py.h"

#include "graph/graph.h"

typedef struct py_graph { PyObject_HEAD cr_graph *graph; cr_plan *plan; } py_graph;

static PyTypeObject graph_type;

PyObject *cr_py_graph_new(cr_graph *g) {
    py_graph *o = PyObject_New(py_graph, &graph_type);
    if (!o) {
        cr_graph_release(g);
        return NULL;
    }
    o->graph = g;
    o->plan = NULL;
    return (PyObject *)o;
}

bool cr_py_graph_read(PyObject *o, cr_arg *out) {
    if (!Py_IS_TYPE(o, &graph_type)) return false;
    *out = (cr_arg){ .kind = CR_ARG_GRAPH, .given = CR_GIVEN_POSITIONAL, .u.graph = ((py_graph *)o)->graph };
    return true;
}

static cr_graph *graph_of(PyObject *o) { return ((py_graph *)o)->graph; }

static void graph_dealloc(PyObject *self) {
    cr_plan_release(((py_graph *)self)->plan);
    cr_graph_release(graph_of(self));
    PyObject_Free(self);
}

static PyObject *take_text(cr_str *text) {
    PyObject *o = text->failed ? PyErr_NoMemory() : PyUnicode_FromStringAndSize(cr_str_get(text), (Py_ssize_t)text->n);
    cr_str_dispose(text);
    return o;
}

static PyObject *print(PyObject *self, int flags) {
    cr_str text;
    cr_str_init(&text);
    cr_graph_print(graph_of(self), flags, &text);
    return take_text(&text);
}

static PyObject *graph_str(PyObject *self) { return print(self, CR_PRINT_PLAIN); }

static PyObject *graph_text(PyObject *self, PyObject *args, PyObject *kwargs) {
    static char *names[] = { "origins", NULL };
    int origins = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|p:text", names, &origins)) return NULL;
    return print(self, origins ? CR_PRINT_ORIGINS : CR_PRINT_PLAIN);
}

static PyObject *graph_parse(PyObject *type, PyObject *text) {
    (void)type;
    const char *utf8 = PyUnicode_AsUTF8(text);
    cr_graph *g = NULL;
    if (!utf8) return NULL;
    cr_status status = cr_graph_parse(NULL, utf8, &g);
    return status ? cr_py_raise(status) : cr_py_graph_new(g);
}

static PyObject *graph_copy(PyObject *self, PyObject *unused) {
    cr_graph *g = NULL;
    (void)unused;
    cr_status status = cr_graph_copy(graph_of(self), &g);
    return status ? cr_py_raise(status) : cr_py_graph_new(g);
}

static PyObject *graph_compare(PyObject *a, PyObject *b, int op) {
    if ((op != Py_EQ && op != Py_NE) || !Py_IS_TYPE(a, &graph_type) || !Py_IS_TYPE(b, &graph_type))
        Py_RETURN_NOTIMPLEMENTED;
    return PyBool_FromLong(cr_graph_equal(graph_of(a), graph_of(b), NULL) == (op == Py_EQ));
}

static PyObject *graph_difference(PyObject *self, PyObject *other) {
    if (!Py_IS_TYPE(other, &graph_type))
        return PyErr_Format(PyExc_TypeError, "difference() takes a Graph, not %s", Py_TYPE(other)->tp_name);
    cr_str where;
    cr_str_init(&where);
    bool same = cr_graph_equal(graph_of(self), graph_of(other), &where);
    if (!same) return take_text(&where);
    cr_str_dispose(&where);
    Py_RETURN_NONE;
}

static PyObject *graph_verify(PyObject *self, PyObject *args) {
    static const struct {
        const char *name;
        uint32_t property;
    } known[] = { { "metas", CR_VERIFY_METAS }, { "functional", CR_VERIFY_FUNCTIONAL }, { "core", CR_VERIFY_CORE } };
    uint32_t properties = CR_VERIFY_SHAPE;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); i++) {
        const char *name = PyUnicode_AsUTF8(PyTuple_GET_ITEM(args, i));
        size_t k = 0;
        if (!name) return NULL;
        while (k < CR_COUNT(known) && strcmp(known[k].name, name)) k++;
        if (k == CR_COUNT(known))
            return PyErr_Format(PyExc_ValueError,
                                "verify(): there is no property '%s'; there are metas, functional and core", name);
        properties |= known[k].property;
    }
    cr_status status = cr_graph_verify(graph_of(self), properties);
    if (status) return cr_py_raise(status);
    Py_RETURN_NONE;
}

/* ---- running ---- */

/* env: whose symbols the numbers among them are. */
static PyObject *results_object(cr_env *env, cr_arg *results, size_t n) {
    if (n == 1) return cr_py_from_arg_of(env, &results[0], true);
    PyObject *o = PyTuple_New((Py_ssize_t)n);
    for (size_t i = 0; o && i < n; i++) {
        PyObject *item = cr_py_from_arg_of(env, &results[i], true);
        if (!item) Py_CLEAR(o);
        else PyTuple_SET_ITEM(o, (Py_ssize_t)i, item);
    }
    if (!o) cr_results_release(results, n);
    return o;
}

static cr_status run_plan(cr_plan *plan, const cr_arg *inputs, size_t n, cr_arg *results, size_t nresults) {
    PyThreadState *thread = PyEval_SaveThread();
    cr_status status = cr_plan_run(plan, inputs, n, results, nresults);
    PyEval_RestoreThread(thread);
    return status;
}

static PyObject *graph_run(PyObject *self, PyObject *const *args, Py_ssize_t n) {
    py_graph *g = (py_graph *)self;
    cr_py_frame f;
    cr_status status = g->plan ? CR_OK : cr_plan_create(g->graph, &g->plan);
    if (status) return cr_py_raise(status);
    size_t nresults = cr_plan_result_count(g->plan);
    cr_arg *inputs = PyMem_Calloc((size_t)n + nresults + 1, sizeof *inputs), *results = inputs + n;
    cr_env *env = NULL;
    PyObject *o = NULL;
    if (!inputs) return PyErr_NoMemory();
    cr_py_frame_init(&f);
    for (Py_ssize_t i = 0; i < n; i++) {
        int r = cr_py_convert(&f, args[i], &inputs[i]);
        if (r > 0)
            PyErr_Format(PyExc_TypeError, "run(): input %zd is a %s, which a graph cannot take", i,
                         Py_TYPE(args[i])->tp_name);
        if (r) goto out;
        if (inputs[i].kind == CR_ARG_TENSOR && inputs[i].u.t->env) env = inputs[i].u.t->env;
    }
    status = run_plan(g->plan, inputs, (size_t)n, results, nresults);
    if (status) {
        cr_py_raise(status);
        goto out;
    }
    o = results_object(env, results, nresults);
out:
    cr_py_frame_dispose(&f);
    PyMem_Free(inputs);
    return o;
}

/* ---- everything as plain data ---- */

/* owners: storage -> name of the first value on it */
typedef struct view { const cr_graph *g; PyObject *owners; } view;

static PyObject *dim_data(cr_env *env, cr_dim d) {
    if (cr_dim_is_plain(d)) return PyLong_FromLongLong(d);
    cr_str text;
    cr_str_init(&text);
    cr_dim_print(env, d, &text);
    return take_text(&text);
}

static PyObject *dims_data(cr_env *env, const cr_dim *dims, int n) {
    PyObject *list = PyList_New(n);
    for (int i = 0; list && i < n; i++) {
        PyObject *d = dim_data(env, dims[i]);
        if (!d) Py_CLEAR(list);
        else PyList_SET_ITEM(list, i, d);
    }
    return list;
}

static PyObject *device_data(cr_device device) {
    cr_str text;
    cr_str_init(&text);
    cr_device_print(device, &text);
    return take_text(&text);
}

static PyObject *meta_data(cr_env *env, const cr_meta *m) {
    return Py_BuildValue("{s:s,s:N,s:N,s:N,s:N,s:O,s:O}", "dtype", cr_dtype_name(m->dtype), "sizes",
                         dims_data(env, m->size, m->rank), "strides", dims_data(env, m->stride, m->rank), "offset",
                         dim_data(env, m->offset), "device", device_data(m->device), "conj",
                         m->flags & CR_META_CONJ ? Py_True : Py_False, "neg",
                         m->flags & CR_META_NEG ? Py_True : Py_False);
}

/* The earlier value whose storage this one shares, or None; remembers the first value on each storage. */
static PyObject *owner_data(view *v, const cr_value *value) {
    PyObject *key = PyLong_FromUnsignedLongLong(value->meta->storage), *name = NULL;
    if (!key) return NULL;
    PyObject *found = PyDict_GetItemWithError(v->owners, key);
    if (found) name = Py_NewRef(found);
    else if (!PyErr_Occurred()) {
        PyObject *own = PyUnicode_FromString(value->name);
        if (own && !PyDict_SetItem(v->owners, key, own)) name = Py_NewRef(Py_None);
        Py_XDECREF(own);
    }
    Py_DECREF(key);
    return name;
}

static int put(PyObject *dict, const char *key, PyObject *value) { /* consumes value */
    int r = value ? PyDict_SetItemString(dict, key, value) : -1;
    Py_XDECREF(value);
    return r;
}

static PyObject *value_data(view *v, const cr_value *value) {
    static const char *const types[CR_T_COUNT] = {
        [CR_T_TENSOR] = "tensor", [CR_T_INT] = "int",       [CR_T_FLOAT] = "float",
        [CR_T_BOOL] = "bool",     [CR_T_SCALAR] = "number", [CR_T_STR] = "str"
    };
    const char *type = types[value->type] ? types[value->type] : "any";
    PyObject *d = Py_BuildValue("{s:s,s:s,s:O}", "name", value->name, "type", type, "hidden",
                                value->hidden ? Py_True : Py_False);
    if (!d) return NULL;
    if (value->expr) {
        cr_str text;
        cr_str_init(&text);
        cr_sym_print(value->expr, &text);
        if (put(d, "expr", take_text(&text))) goto failed;
    }
    if (!value->meta) return d;
    if (put(d, "meta", meta_data(cr_graph_env(v->g), value->meta)) || put(d, "of", owner_data(v, value))) goto failed;
    return d;
failed:
    Py_DECREF(d);
    return NULL;
}

static PyObject *args_data(view *v, const cr_arg *args, size_t n);

static PyObject *arg_data(view *v, const cr_arg *a) {
    static const char *const formats[] = { "contiguous_format", "preserve_format", "channels_last",
                                           "channels_last_3d" };
    switch ((cr_arg_kind)a->kind) {
    case CR_ARG_NONE: return Py_BuildValue("{s:O}", "as_none", Py_True);
    case CR_ARG_VALUE: return Py_BuildValue("{s:s}", "as_value", cr_graph_value(v->g, (uint32_t)a->u.i)->name);
    case CR_ARG_INT: return Py_BuildValue("{s:L}", "as_int", (long long)a->u.i);
    case CR_ARG_FLOAT: return Py_BuildValue("{s:d}", "as_float", a->u.f);
    case CR_ARG_BOOL: return Py_BuildValue("{s:O}", "as_bool", a->u.i ? Py_True : Py_False);
    case CR_ARG_COMPLEX: return Py_BuildValue("{s:[dd]}", "as_complex", a->u.c[0], a->u.c[1]);
    case CR_ARG_STR: return Py_BuildValue("{s:s#}", "as_string", a->u.s, (Py_ssize_t)a->n);
    case CR_ARG_DTYPE: return Py_BuildValue("{s:s}", "as_scalar_type", cr_dtype_name((int)a->u.i));
    case CR_ARG_LAYOUT: return Py_BuildValue("{s:s}", "as_layout", "strided");
    case CR_ARG_FORMAT: return Py_BuildValue("{s:s}", "as_memory_format", formats[a->u.i & 3]);
    case CR_ARG_DEVICE: return Py_BuildValue("{s:N}", "as_device", device_data(a->u.device));
    case CR_ARG_GRAPH: return Py_BuildValue("{s:s}", "as_graph", cr_graph_name(a->u.graph));
    case CR_ARG_LIST: return Py_BuildValue("{s:N}", "as_list", args_data(v, a->u.list, a->n));
    default: return PyErr_Format(PyExc_RuntimeError, "an argument of kind %d in a graph", a->kind);
    }
}

static PyObject *args_data(view *v, const cr_arg *args, size_t n) {
    PyObject *list = PyList_New((Py_ssize_t)n);
    for (size_t i = 0; list && i < n; i++) {
        PyObject *a = arg_data(v, &args[i]);
        if (!a) Py_CLEAR(list);
        else PyList_SET_ITEM(list, (Py_ssize_t)i, a);
    }
    return list;
}

static PyObject *given_data(view *v, const cr_node *node) {
    PyObject *list = PyList_New(0);
    for (uint16_t i = 0; list && i < node->nargs; i++) {
        const cr_arg *a = &node->args[i];
        if (a->given == CR_GIVEN_DEFAULT) continue;
        PyObject *item = Py_BuildValue("{s:s,s:s,s:N}", "name", node->op->schema.params[i].name, "kind",
                                       a->given == CR_GIVEN_KEYWORD ? "keyword" : "positional", "arg", arg_data(v, a));
        if (!item || PyList_Append(list, item)) Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

static PyObject *node_results(view *v, const cr_node *node) {
    PyObject *list = PyList_New(0);
    for (uint32_t i = 0; list && i < node->nvalues; i++) {
        const cr_value *value = cr_graph_value(v->g, node->first + i);
        PyObject *item = value_data(v, value);
        bool listed = node->op && !value->hidden && value->ret < node->op->schema.nreturns &&
                      node->op->schema.returns[value->ret].list;
        if (item && PyDict_SetItemString(item, "listed", listed ? Py_True : Py_False)) Py_CLEAR(item);
        if (item && value->hidden && node->op &&
            put(item, "writes", PyUnicode_FromString(node->op->schema.params[value->ret].name)))
            Py_CLEAR(item);
        if (!item || PyList_Append(list, item)) Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

static PyObject *node_data(view *v, const cr_node *node) {
    static const char *const kinds[] = { [CR_NODE_PLACEHOLDER] = "placeholder",
                                         [CR_NODE_CALL] = "call",
                                         [CR_NODE_GET_ATTR] = "get_attr",
                                         [CR_NODE_OUTPUT] = "output" };
    PyObject *target = node->op       ? PyUnicode_FromFormat("%s.%s%s%s", node->op->schema.ns, node->op->schema.name,
                                                       *node->op->schema.overload ? "." : "", node->op->schema.overload)
                       : node->target ? PyUnicode_FromString(node->target)
                                      : Py_NewRef(Py_None);
    PyObject *args = node->kind == CR_NODE_CALL ? given_data(v, node) : args_data(v, node->args, node->nargs);
    return Py_BuildValue("{s:s,s:N,s:z,s:N,s:N,s:[zzz],s:N,s:N}", "kind", kinds[node->kind], "target", target, "name",
                         node->kind == CR_NODE_CALL ? node->target : NULL, "args", args, "results",
                         node_results(v, node), "origin", node->origin.stack_trace, node->origin.module_stack,
                         node->origin.source_fn, "no_grad", PyBool_FromLong(node->origin.no_grad), "data",
                         PyBool_FromLong(node->origin.data));
}

static PyObject *nodes_data(view *v) {
    PyObject *list = PyList_New(0);
    for (uint32_t n = cr_graph_first(v->g); list && n != CR_NO_NODE; n = cr_graph_next(v->g, n)) {
        PyObject *item = node_data(v, cr_graph_node(v->g, n));
        if (!item || PyList_Append(list, item)) Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

static PyObject *graph_data(const cr_graph *g) {
    view v = { g, PyDict_New() };
    PyObject *nodes = v.owners ? nodes_data(&v) : NULL, *constants = PyList_New(0), *subgraphs = PyList_New(0),
             *d = NULL;
    cr_tensor *t;
    const char *target;
    for (size_t i = 0; constants && (target = cr_graph_constant_at(g, i, &t)); i++) {
        cr_tensor_retain(t);
        PyObject *item = Py_BuildValue("{s:s,s:N,s:N}", "name", target, "meta", meta_data(cr_graph_env(g), &t->meta),
                                       "tensor", cr_frontend_wrap(t));
        if (!item || PyList_Append(constants, item)) Py_CLEAR(constants);
        Py_XDECREF(item);
    }
    for (size_t i = 0; subgraphs && i < cr_graph_subgraph_count(g); i++) {
        PyObject *item = graph_data(cr_graph_subgraph(g, i));
        if (!item || PyList_Append(subgraphs, item)) Py_CLEAR(subgraphs);
        Py_XDECREF(item);
    }
    if (nodes && constants && subgraphs)
        d = Py_BuildValue("{s:s,s:O,s:O,s:O}", "name", cr_graph_name(g), "nodes", nodes, "constants", constants,
                          "subgraphs", subgraphs);
    Py_XDECREF(v.owners);
    Py_XDECREF(nodes);
    Py_XDECREF(constants);
    Py_XDECREF(subgraphs);
    return d;
}

static PyObject *graph_get_data(PyObject *self, PyObject *unused) {
    (void)unused;
    return graph_data(graph_of(self));
}

/* What a value is without running: a fake tensor, a number that may be symbolic, or None when nothing is known. */
static PyObject *graph_value(PyObject *self, PyObject *name) {
    cr_graph *g = graph_of(self);
    const char *utf8 = PyUnicode_AsUTF8(name);
    if (!utf8) return NULL;
    uint32_t id = cr_graph_find(g, utf8);
    if (id == CR_NO_VALUE) return PyErr_Format(PyExc_KeyError, "the graph has no value '%s'", utf8);
    const cr_value *v = cr_graph_value(g, id);
    cr_env *env = cr_graph_env(g);
    if (v->meta) {
        cr_tensor *fake = NULL;
        cr_status status = cr_tensor_create_fake(env, v->meta, &fake);
        return status ? cr_py_raise(status) : cr_frontend_wrap(fake);
    }
    if (!v->expr) Py_RETURN_NONE;
    if (cr_sym_type_of(v->expr) == CR_TYPE_INT) return cr_py_dim(env, cr_dim_of(env, v->expr));
    return cr_py_sym_new(env, (cr_arg){ .kind = CR_ARG_SYM, .u.sym = v->expr });
}

/* (name, graph) of each subgraph. */
static PyObject *graph_subgraphs(PyObject *self, PyObject *unused) {
    cr_graph *g = graph_of(self);
    PyObject *list = PyList_New(0);
    (void)unused;
    for (size_t i = 0; list && i < cr_graph_subgraph_count(g); i++) {
        cr_graph *sub = cr_graph_subgraph(g, i);
        cr_graph_retain(sub);
        PyObject *item = Py_BuildValue("(sN)", cr_graph_name(sub), cr_py_graph_new(sub));
        if (!item || PyList_Append(list, item)) Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

static PyObject *get_nodes(PyObject *self, void *unused) {
    (void)unused;
    view v = { graph_of(self), PyDict_New() };
    PyObject *nodes = v.owners ? nodes_data(&v) : NULL;
    Py_XDECREF(v.owners);
    return nodes;
}

static PyObject *get_name(PyObject *self, void *unused) {
    (void)unused;
    return PyUnicode_FromString(cr_graph_name(graph_of(self)));
}

static PyMethodDef methods[] = {
    { "parse", graph_parse, METH_O | METH_STATIC, "parse(text): the graph that str() of it gives back." },
    { "text", (PyCFunction)(void (*)(void))graph_text, METH_VARARGS | METH_KEYWORDS,
      "text(origins=False): the text, with where each node came from." },
    { "run", (PyCFunction)(void (*)(void))graph_run, METH_FASTCALL,
      "run(*inputs): the output, a tuple when there are several." },
    { "verify", graph_verify, METH_VARARGS,
      "verify(*properties): raises ValueError when the graph is not well-formed, or not 'metas', 'functional', "
      "'core'." },
    { "copy", graph_copy, METH_NOARGS, "A graph of its own, with the same constants." },
    { "difference", graph_difference, METH_O, "difference(other): where they first differ; None when they are equal." },
    { "_data", graph_get_data, METH_NOARGS, "Everything in the graph as lists and dicts." },
    { "_value", graph_value, METH_O, "_value(name): a fake tensor or a number, possibly symbolic, like the value." },
    { "_subgraphs", graph_subgraphs, METH_NOARGS, "[(name, Graph)]: those that nodes of this graph name." },
    { NULL, NULL, 0, NULL },
};
static PyGetSetDef attributes[] = {
    { "nodes", get_nodes, NULL, "The nodes in order, as dicts.", NULL },
    { "name", get_name, NULL, NULL, NULL },
    { NULL, NULL, NULL, NULL, NULL },
};
static PyTypeObject graph_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "cresset.Graph",
    .tp_basicsize = sizeof(py_graph),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "A recorded or parsed program: placeholders, calls of ops, outputs.",
    .tp_dealloc = graph_dealloc,
    .tp_repr = graph_str,
    .tp_str = graph_str,
    .tp_hash = PyObject_HashNotImplemented,
    .tp_richcompare = graph_compare,
    .tp_methods = methods,
    .tp_getset = attributes,
};

/* A schema's text as the table would hold it. */
static PyObject *schema_text(PyObject *module, PyObject *text) {
    const char *utf8 = PyUnicode_AsUTF8(text);
    (void)module;
    if (!utf8) return NULL;
    cr_arena arena;
    cr_schema schema;
    cr_arena_init(&arena);
    cr_status status = cr_schema_parse(&arena, utf8, &schema);
    PyObject *o = status ? cr_py_raise(status) : PyUnicode_FromString(schema.text);
    cr_arena_dispose(&arena);
    return o;
}

static PyMethodDef functions[] = {
    { "_schema_text", schema_text, METH_O,
      "_schema_text(text): parses a schema and prints it. ValueError with line and column." },
    { NULL, NULL, 0, NULL },
};

int cr_py_graph_init(PyObject *module) {
    if (PyType_Ready(&graph_type) || PyModule_AddFunctions(module, functions)) return -1;
    return PyModule_AddObjectRef(module, "Graph", (PyObject *)&graph_type);
}
