/* torch_parts.c: graphs made of captured ones: with further outputs, or a run of their nodes alone; and of text. */
#include "python/torch_tensor.h"

#include "emit/tier.h"
#include "export/program.h"
#include "graph/graph.h"

static uint32_t find_value(const cr_graph *g, PyObject *name) {
    const char *text = PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : NULL;
    uint32_t value = text ? cr_graph_find(g, text) : CR_NO_VALUE;
    if (value == CR_NO_VALUE && !PyErr_Occurred()) PyErr_Format(PyExc_KeyError, "the graph has no value %R", name);
    return value;
}

static cr_arg value_arg(const cr_graph *g, uint32_t v) {
    return (cr_arg){ .kind = CR_ARG_VALUE, .given = CR_GIVEN_POSITIONAL, .type = cr_graph_value(g, v)->type, .u.i = v };
}

/* The outputs become the first `old` ones that there are, and the values named. */
static int set_outputs(cr_graph *g, size_t old, PyObject *names) {
    size_t more = (size_t)PyTuple_GET_SIZE(names);
    cr_arg *outputs = cr_graph_alloc(g, (old + more + 1) * sizeof *outputs);
    if (!outputs) return PyErr_NoMemory(), -1;
    for (size_t i = 0; i < old; i++) outputs[i] = cr_graph_node(g, cr_graph_output(g))->args[i];
    for (size_t i = 0; i < more; i++) {
        uint32_t value = find_value(g, PyTuple_GET_ITEM(names, (Py_ssize_t)i));
        if (value == CR_NO_VALUE) return -1;
        outputs[old + i] = value_arg(g, value);
    }
    cr_status status = cr_graph_set_output(g, outputs, old + more);
    return status ? cr_py_fail(status) : 0;
}

static PyObject *graph_giving(PyObject *module, PyObject *args) {
    PyObject *graph, *names;
    cr_arg a;
    cr_graph *g = NULL;
    (void)module;
    if (!PyArg_ParseTuple(args, "OO!:_graph_giving", &graph, &PyTuple_Type, &names)) return NULL;
    if (!cr_py_graph_read(graph, &a)) return PyErr_Format(PyExc_TypeError, "_graph_giving() takes a Graph");
    cr_status status = cr_graph_copy(a.u.graph, &g);
    if (status) return cr_py_raise(status);
    if (!set_outputs(g, cr_graph_node(g, cr_graph_output(g))->nargs, names)) return cr_py_graph_new(g);
    cr_graph_release(g);
    return NULL;
}

/* ---- a run of nodes ---- */

/* The values named become inputs, in order, before everything else. */
static int put_inputs(cr_graph *g, PyObject *names) {
    cr_graph_insert_before(g, cr_graph_first(g));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); i++) {
        uint32_t from = find_value(g, PyTuple_GET_ITEM(names, i)), made;
        if (from == CR_NO_VALUE) return -1;
        const cr_value *v = cr_graph_value(g, from);
        cr_status status = v->type == CR_T_TENSOR
                               ? cr_graph_placeholder(g, v->name, v->meta, &made)
                               : cr_graph_placeholder_number(g, v->name, (cr_type)v->type, v->expr, &made);
        if (!status) status = cr_graph_replace(g, from, value_arg(g, made), CR_NO_NODE);
        if (status) return cr_py_fail(status);
    }
    cr_graph_insert_before(g, CR_NO_NODE);
    return 0;
}

typedef CR_VEC(uint32_t) nodes;

/* Those that go: all but nodes [first, last) and the output. */
static int find_others(const cr_graph *g, size_t first, size_t last, nodes *others) {
    size_t at = 0;
    for (uint32_t n = cr_graph_first(g); n != CR_NO_NODE; n = cr_graph_next(g, n), at++)
        if ((at < first || at >= last) && n != cr_graph_output(g) && cr_vec_push(others, n))
            return PyErr_NoMemory(), -1;
    return 0;
}

static int take_out(cr_graph *g, const nodes *others) {
    for (size_t i = others->n; i-- > 0;) {
        cr_status status = cr_graph_erase(g, others->at[i]);
        if (status) return cr_py_fail(status);
    }
    return 0;
}

static PyObject *graph_part(PyObject *module, PyObject *args) {
    PyObject *graph, *inputs, *outputs;
    Py_ssize_t first, last;
    cr_arg a;
    cr_graph *g = NULL;
    (void)module;
    if (!PyArg_ParseTuple(args, "OnnO!O!:_graph_part", &graph, &first, &last, &PyTuple_Type, &inputs, &PyTuple_Type,
                          &outputs))
        return NULL;
    if (!cr_py_graph_read(graph, &a)) return PyErr_Format(PyExc_TypeError, "_graph_part() takes a Graph");
    if (first < 0 || last < first) return PyErr_Format(PyExc_ValueError, "no nodes from %zd to %zd", first, last);
    cr_status status = cr_graph_copy(a.u.graph, &g);
    if (status) return cr_py_raise(status);
    nodes others = { 0 };
    int failed = set_outputs(g, 0, outputs) || find_others(g, (size_t)first, (size_t)last, &others) ||
                 put_inputs(g, inputs) || take_out(g, &others);
    cr_vec_dispose(&others);
    if (!failed) return cr_py_graph_new(g);
    cr_graph_release(g);
    return NULL;
}

/* ---- graphs by themselves ---- */

/* _graph_from_json(text): a graph and the ranges of its symbols, written as archives have them. */
static PyObject *graph_from_json(PyObject *module, PyObject *text) {
    Py_ssize_t n;
    const char *utf8 = PyUnicode_AsUTF8AndSize(text, &n);
    cr_graph *g = NULL;
    (void)module;
    if (!utf8) return NULL;
    cr_status status = cr_graph_from_json(utf8, (size_t)n, &g);
    return status ? cr_py_raise(status) : cr_py_graph_new(g);
}

/* _graph_draws(graph): does some op of it draw random numbers? */
static PyObject *graph_draws(PyObject *module, PyObject *graph) {
    cr_arg a;
    (void)module;
    if (!cr_py_graph_read(graph, &a)) return PyErr_Format(PyExc_TypeError, "_graph_draws() takes a Graph");
    return PyBool_FromLong(cr_tier_draws(a.u.graph));
}

static PyMethodDef functions[] = {
    { "_graph_draws", graph_draws, METH_O, "_graph_draws(graph): does some op of it draw random numbers?" },
    { "_graph_from_json", graph_from_json, METH_O,
      "_graph_from_json(text): a graph written with the words of archives." },
    { "_graph_giving", graph_giving, METH_VARARGS,
      "_graph_giving(graph, names): the same graph with these values as further outputs." },
    { "_graph_part", graph_part, METH_VARARGS,
      "_graph_part(graph, first, last, inputs, outputs): nodes first to before last alone, as a graph of these "
      "values." },
    { NULL, NULL, 0, NULL },
};

int cr_py_torch_parts_init(PyObject *module) { return PyModule_AddFunctions(module, functions); }
