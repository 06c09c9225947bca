/* program_new.c: _build_program: the parts that cresset.export has put together in Python, lists of tuples, become a
 * program. */
#include "python/program.h"
#include "python/tree.h"

typedef struct builder {
    cr_program_parts parts;
    cr_arena arena;
    cr_py_frame frame;
    CR_VEC(cr_tree *) trees;
} builder;

static int item_count(PyObject *list, size_t *n) {
    if (!PyList_Check(list))
        return PyErr_Format(PyExc_TypeError, "_build_program(): expected a list, not %s", Py_TYPE(list)->tp_name), -1;
    *n = (size_t)PyList_GET_SIZE(list);
    return 0;
}

static void *allocate(builder *b, size_t n, size_t size) {
    void *p = cr_arena_calloc(&b->arena, n + 1, size);
    if (!p) PyErr_NoMemory();
    return p;
}

static int read_inputs(builder *b, PyObject *list) {
    if (item_count(list, &b->parts.ninputs)) return -1;
    cr_input_spec *specs = allocate(b, b->parts.ninputs, sizeof *specs);
    for (size_t i = 0; specs && i < b->parts.ninputs; i++) {
        const char *kind;
        PyObject *constant;
        int persistent, is_constant;
        if (!PyArg_ParseTuple(PyList_GET_ITEM(list, (Py_ssize_t)i), "szzppO", &kind, &specs[i].name, &specs[i].target,
                              &persistent, &is_constant, &constant))
            return -1;
        int k = cr_py_input_kind(kind);
        if (k < 0) return PyErr_Format(PyExc_ValueError, "'%s' is no kind of input", kind), -1;
        specs[i].kind = (uint8_t)k;
        specs[i].persistent = persistent;
        specs[i].is_constant = is_constant;
        specs[i].constant = cr_arg_none();
        if (is_constant && cr_py_leaf(&b->frame, constant, &specs[i].constant)) return -1;
    }
    b->parts.inputs = specs;
    return specs ? 0 : -1;
}

static int read_outputs(builder *b, PyObject *list) {
    if (item_count(list, &b->parts.noutputs)) return -1;
    cr_output_spec *specs = allocate(b, b->parts.noutputs, sizeof *specs);
    for (size_t i = 0; specs && i < b->parts.noutputs; i++) {
        const char *kind;
        if (!PyArg_ParseTuple(PyList_GET_ITEM(list, (Py_ssize_t)i), "sz", &kind, &specs[i].target)) return -1;
        int k = cr_py_output_kind(kind);
        if (k < 0) return PyErr_Format(PyExc_ValueError, "'%s' is no kind of output", kind), -1;
        specs[i].kind = (uint8_t)k;
    }
    b->parts.outputs = specs;
    return specs ? 0 : -1;
}

static int read_tensors(builder *b, PyObject *list, const cr_named_tensor **out, size_t *n) {
    if (item_count(list, n)) return -1;
    cr_named_tensor *tensors = allocate(b, *n, sizeof *tensors);
    for (size_t i = 0; tensors && i < *n; i++) {
        PyObject *tensor;
        int is_parameter, persistent;
        if (!PyArg_ParseTuple(PyList_GET_ITEM(list, (Py_ssize_t)i), "sOpp", &tensors[i].name, &tensor, &is_parameter,
                              &persistent))
            return -1;
        tensors[i].tensor = cr_frontend_tensor(&b->frame, tensor);
        if (!tensors[i].tensor && !PyErr_Occurred())
            PyErr_Format(PyExc_TypeError, "'%s' is a %s, not a Tensor", tensors[i].name, Py_TYPE(tensor)->tp_name);
        if (!tensors[i].tensor) return -1;
        tensors[i].is_parameter = is_parameter;
        tensors[i].persistent = persistent;
    }
    *out = tensors;
    return tensors ? 0 : -1;
}

static int64_t read_bound(PyObject *o, bool upper) {
    int overflow = 0;
    long long value = PyLong_Check(o) ? PyLong_AsLongLongAndOverflow(o, &overflow) : 0;
    if (!PyLong_Check(o) || overflow) return upper ? INT64_MAX : INT64_MIN;
    return value;
}

static int read_ranges(builder *b, PyObject *list) {
    if (item_count(list, &b->parts.nranges)) return -1;
    cr_symbol_range *ranges = allocate(b, b->parts.nranges, sizeof *ranges);
    for (size_t i = 0; ranges && i < b->parts.nranges; i++) {
        PyObject *low, *high;
        if (!PyArg_ParseTuple(PyList_GET_ITEM(list, (Py_ssize_t)i), "sOO", &ranges[i].symbol, &low, &high)) return -1;
        ranges[i].range = (cr_range){ read_bound(low, false), read_bound(high, true) };
    }
    b->parts.ranges = ranges;
    return ranges ? 0 : -1;
}

static int read_texts(builder *b, PyObject *list, const char *const **out, size_t *n) {
    if (item_count(list, n)) return -1;
    const char **texts = allocate(b, *n, sizeof *texts);
    for (size_t i = 0; texts && i < *n; i++)
        if (!(texts[i] = PyUnicode_AsUTF8(PyList_GET_ITEM(list, (Py_ssize_t)i)))) return -1;
    *out = texts;
    return texts ? 0 : -1;
}

static int read_tree(builder *b, const char *text, cr_tree **out) {
    if (!text) return 0;
    cr_status status = cr_vec_reserve(&b->trees, b->trees.n + 1);
    if (!status) status = cr_tree_parse(text, strlen(text), out);
    if (status) return cr_py_fail(status);
    b->trees.at[b->trees.n++] = *out;
    return 0;
}

/* [(value, constant)]: the number of a value of the graph, or None and a constant. */
static int read_call_values(builder *b, PyObject *list, const cr_call_value **out, size_t *n) {
    if (list == Py_None) return 0;
    if (item_count(list, n)) return -1;
    cr_call_value *values = allocate(b, *n, sizeof *values);
    for (size_t i = 0; values && i < *n; i++) {
        PyObject *value, *constant;
        if (!PyArg_ParseTuple(PyList_GET_ITEM(list, (Py_ssize_t)i), "OO", &value, &constant)) return -1;
        if (value != Py_None) values[i].constant = (cr_arg){ .kind = CR_ARG_VALUE, .u.i = PyLong_AsLongLong(value) };
        else if (cr_py_leaf(&b->frame, constant, &values[i].constant)) return -1;
    }
    *out = values;
    return PyErr_Occurred() || !values ? -1 : 0;
}

static int read_calls(builder *b, PyObject *list) {
    if (item_count(list, &b->parts.ncalls)) return -1;
    cr_module_call *calls = allocate(b, b->parts.ncalls, sizeof *calls);
    for (size_t i = 0; calls && i < b->parts.ncalls; i++) {
        const char *in, *out;
        PyObject *names;
        PyObject *inputs = Py_None, *outputs = Py_None;
        if (!PyArg_ParseTuple(PyList_GET_ITEM(list, (Py_ssize_t)i), "szzO|OO", &calls[i].fqn, &in, &out, &names,
                              &inputs, &outputs))
            return -1;
        if (read_call_values(b, inputs, &calls[i].inputs, &calls[i].ninputs) ||
            read_call_values(b, outputs, &calls[i].outputs, &calls[i].noutputs))
            return -1;
        if (read_tree(b, in, &calls[i].in_spec) || read_tree(b, out, &calls[i].out_spec)) return -1;
        if (names != Py_None && read_texts(b, names, &calls[i].forward_arg_names, &calls[i].nnames)) return -1;
    }
    b->parts.calls = calls;
    return calls ? 0 : -1;
}

static int read_example(builder *b, PyObject *list) {
    if (item_count(list, &b->parts.nexample)) return -1;
    cr_arg *example = allocate(b, b->parts.nexample, sizeof *example);
    for (size_t i = 0; example && i < b->parts.nexample; i++)
        if (cr_py_leaf(&b->frame, PyList_GET_ITEM(list, (Py_ssize_t)i), &example[i])) return -1;
    b->parts.example = example;
    return example ? 0 : -1;
}

static PyObject *build_program(PyObject *module, PyObject *args, PyObject *kwargs) {
    static char *names[] = { "graph", "inputs",  "outputs", "state",   "constants",  "ranges", "guards",
                             "calls", "example", "tracer",  "dialect", "keep_names", NULL };
    PyObject *graph, *inputs, *outputs, *state, *constants, *ranges, *guards, *calls, *example, *tracer = Py_None,
                                                                                                *o = NULL;
    const char *dialect = NULL;
    int keep = 0;
    cr_program *p = NULL;
    cr_arg g;
    (void)module;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOOOOOOOO|Ozp:_build_program", names, &graph, &inputs, &outputs,
                                     &state, &constants, &ranges, &guards, &calls, &example, &tracer, &dialect, &keep))
        return NULL;
    if (!cr_py_graph_read(graph, &g))
        return PyErr_Format(PyExc_TypeError, "_build_program() takes a Graph, not %s", Py_TYPE(graph)->tp_name);
    builder b = { .parts = { .graph = g.u.graph, .dialect = dialect, .flags = keep ? CR_BUILD_KEEP_NAMES : 0,
                             .names = cr_py_tracer_names(tracer) } };
    cr_arena_init(&b.arena);
    cr_py_frame_init(&b.frame);
    if (!read_inputs(&b, inputs) && !read_outputs(&b, outputs) &&
        !read_tensors(&b, state, &b.parts.state, &b.parts.nstate) &&
        !read_tensors(&b, constants, &b.parts.constants, &b.parts.nconstants) && !read_ranges(&b, ranges) &&
        !read_texts(&b, guards, &b.parts.guards, &b.parts.nguards) && !read_calls(&b, calls) &&
        !read_example(&b, example)) {
        cr_status status = cr_program_build(&b.parts, &p);
        o = status ? cr_py_raise(status) : cr_py_program_new(p);
    }
    for (size_t i = 0; i < b.trees.n; i++) cr_tree_release(b.trees.at[i]);
    cr_vec_dispose(&b.trees);
    cr_py_frame_dispose(&b.frame);
    cr_arena_dispose(&b.arena);
    return o;
}

static PyMethodDef functions[] = {
    { "_build_program", (PyCFunction)(void (*)(void))build_program, METH_VARARGS | METH_KEYWORDS,
      "_build_program(graph, inputs, outputs, state, constants, ranges, guards, calls, example, tracer=None, "
      "dialect=None, keep_names=False)" },
    { NULL, NULL, 0, NULL },
};

int cr_py_program_new_init(PyObject *module) { return PyModule_AddFunctions(module, functions); }
