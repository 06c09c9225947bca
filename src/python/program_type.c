/* program_type.c: exported programs for Python: cresset._C._Program (what is in an archive, as plain data) and
 * cresset._C._ProgramModule (one running instance, flat inputs to flat results). The objects users see, and the call
 * structure around the flat lists, are written in Python: cresset/export. */
#include "python/program.h"
#include "python/tree.h"

typedef struct py_program { PyObject_HEAD cr_program *program; } py_program;
typedef struct py_module { PyObject_HEAD cr_module *module; } py_module;

static PyTypeObject program_type, module_type;

static cr_program *program_of(PyObject *o) { return ((py_program *)o)->program; }

cr_program *cr_py_program_get(PyObject *o) { return Py_IS_TYPE(o, &program_type) ? program_of(o) : NULL; }
cr_module *cr_py_module_get(PyObject *o) { return Py_IS_TYPE(o, &module_type) ? ((py_module *)o)->module : NULL; }

/* ---- plain data ---- */

static const char *const input_kinds[] = { [CR_INPUT_USER] = "USER_INPUT",
                                           [CR_INPUT_PARAMETER] = "PARAMETER",
                                           [CR_INPUT_BUFFER] = "BUFFER",
                                           [CR_INPUT_TENSOR_CONSTANT] = "CONSTANT_TENSOR",
                                           [CR_INPUT_CUSTOM_OBJECT] = "CUSTOM_OBJ",
                                           [CR_INPUT_TOKEN] = "TOKEN" };
static const char *const output_kinds[] = { [CR_OUTPUT_USER] = "USER_OUTPUT",
                                            [CR_OUTPUT_LOSS] = "LOSS_OUTPUT",
                                            [CR_OUTPUT_BUFFER_MUTATION] = "BUFFER_MUTATION",
                                            [CR_OUTPUT_PARAMETER_MUTATION] = "PARAMETER_MUTATION",
                                            [CR_OUTPUT_INPUT_MUTATION] = "USER_INPUT_MUTATION",
                                            [CR_OUTPUT_GRADIENT_TO_PARAMETER] = "GRADIENT_TO_PARAMETER",
                                            [CR_OUTPUT_GRADIENT_TO_INPUT] = "GRADIENT_TO_USER_INPUT",
                                            [CR_OUTPUT_TOKEN] = "TOKEN" };

static int find_kind(const char *const *kinds, size_t n, const char *name) {
    for (size_t i = 0; i < n; i++)
        if (!strcmp(kinds[i], name)) return (int)i;
    return -1;
}

int cr_py_input_kind(const char *name) { return find_kind(input_kinds, CR_COUNT(input_kinds), name); }
int cr_py_output_kind(const char *name) { return find_kind(output_kinds, CR_COUNT(output_kinds), name); }

typedef PyObject *(*item_fn)(const cr_program *p, size_t i);

static PyObject *list_of(const cr_program *p, size_t n, item_fn item) {
    PyObject *list = PyList_New((Py_ssize_t)n);
    for (size_t i = 0; list && i < n; i++) {
        PyObject *o = item(p, i);
        if (!o) Py_CLEAR(list);
        else PyList_SET_ITEM(list, (Py_ssize_t)i, o);
    }
    return list;
}

/* A constant of the program's. */
static PyObject *shown(const cr_program *p, const cr_arg *a) {
    return cr_py_borrowed(&cr_frontend_cresset, cr_graph_env(p->graph), a);
}

static PyObject *input_item(const cr_program *p, size_t i) {
    const cr_input_spec *s = &p->inputs[i];
    return Py_BuildValue("(szzOON)", input_kinds[s->kind], s->name, s->target,
                         s->kind == CR_INPUT_BUFFER ? (s->persistent ? Py_True : Py_False) : Py_None,
                         s->is_constant ? Py_True : Py_False,
                         s->is_constant ? shown(p, &s->constant) : Py_NewRef(Py_None));
}

static PyObject *output_item(const cr_program *p, size_t i) {
    return Py_BuildValue("(szz)", output_kinds[p->outputs[i].kind], p->outputs[i].name, p->outputs[i].target);
}

static PyObject *bound(int64_t value) {
    if (value == INT64_MIN || value == INT64_MAX) return PyFloat_FromDouble(value < 0 ? -Py_HUGE_VAL : Py_HUGE_VAL);
    return PyLong_FromLongLong(value);
}

static PyObject *range_item(const cr_program *p, size_t i) {
    return Py_BuildValue("(sNN)", p->ranges[i].symbol, bound(p->ranges[i].range.lo), bound(p->ranges[i].range.hi));
}

static PyObject *guard_item(const cr_program *p, size_t i) { return PyUnicode_FromString(p->guards[i]); }
static PyObject *unsupported_item(const cr_program *p, size_t i) { return PyUnicode_FromString(p->unsupported[i]); }
static PyObject *example_item(const cr_program *p, size_t i) { return shown(p, &p->example[i]); }

static PyObject *call_item(const cr_program *p, size_t i) {
    const cr_module_call *c = &p->calls[i];
    PyObject *names = c->forward_arg_names ? PyList_New((Py_ssize_t)c->nnames) : Py_NewRef(Py_None);
    for (size_t k = 0; names && c->forward_arg_names && k < c->nnames; k++) {
        PyObject *name = PyUnicode_FromString(c->forward_arg_names[k]);
        if (!name) Py_CLEAR(names);
        else PyList_SET_ITEM(names, (Py_ssize_t)k, name);
    }
    return Py_BuildValue("(sNNN)", c->fqn, cr_py_tree_wrap(c->in_spec), cr_py_tree_wrap(c->out_spec), names);
}

static PyObject *call_values(const cr_program *p, const cr_call_value *values, size_t n) {
    static const char *const types[CR_T_COUNT] = {
        [CR_T_TENSOR] = "tensor", [CR_T_INT] = "int", [CR_T_FLOAT] = "float", [CR_T_BOOL] = "bool"
    };
    PyObject *list = PyList_New((Py_ssize_t)n);
    for (size_t i = 0; list && i < n; i++) {
        const char *type = values[i].name && types[values[i].type] ? types[values[i].type] : "any";
        PyObject *o = Py_BuildValue("(zsN)", values[i].name, type,
                                    values[i].name ? Py_NewRef(Py_None) : shown(p, &values[i].constant));
        if (!o) Py_CLEAR(list);
        else PyList_SET_ITEM(list, (Py_ssize_t)i, o);
    }
    return list;
}

static PyObject *call_values_item(const cr_program *p, size_t i) {
    const cr_module_call *c = &p->calls[i];
    return Py_BuildValue("(NN)", call_values(p, c->inputs, c->ninputs), call_values(p, c->outputs, c->noutputs));
}

static PyObject *program_call_values(PyObject *self, PyObject *unused) {
    (void)unused;
    return list_of(program_of(self), program_of(self)->ncalls, call_values_item);
}

static PyObject *named_item(const cr_named_tensor *t) {
    cr_tensor_retain(t->tensor);
    return Py_BuildValue("(sNOO)", t->name, cr_frontend_wrap(t->tensor), t->is_parameter ? Py_True : Py_False,
                         t->persistent ? Py_True : Py_False);
}
static PyObject *state_item(const cr_program *p, size_t i) { return named_item(&p->state[i]); }
static PyObject *constant_item(const cr_program *p, size_t i) { return named_item(&p->constants[i]); }

/* Everything but the graph and the tensors. */
static PyObject *program_data(PyObject *self, PyObject *unused) {
    const cr_program *p = program_of(self);
    (void)unused;
    return Py_BuildValue("{s:z,s:z,s:z,s:(ii),s:L,s:N,s:N,s:N,s:N,s:N,s:N,s:N,s:N}", "name", p->name, "torch_version",
                         p->torch_version, "dialect", p->dialect, "schema_version", p->schema_major, p->schema_minor,
                         "opset", (long long)p->opset, "unsupported", list_of(p, p->nunsupported, unsupported_item),
                         "inputs", list_of(p, p->ninputs, input_item), "outputs", list_of(p, p->noutputs, output_item),
                         "ranges", list_of(p, p->nranges, range_item), "guards", list_of(p, p->nguards, guard_item),
                         "calls", list_of(p, p->ncalls, call_item), "in_spec", cr_py_tree_wrap(p->in_spec), "out_spec",
                         cr_py_tree_wrap(p->out_spec));
}

static PyObject *program_state(PyObject *self, PyObject *unused) {
    (void)unused;
    return list_of(program_of(self), program_of(self)->nstate, state_item);
}

static PyObject *program_constants(PyObject *self, PyObject *unused) {
    (void)unused;
    return list_of(program_of(self), program_of(self)->nconstants, constant_item);
}

static PyObject *program_example(PyObject *self, PyObject *unused) {
    const cr_program *p = program_of(self);
    (void)unused;
    if (!p->nexample && p->in_spec && cr_tree_root(p->in_spec)->nleaves) Py_RETURN_NONE;
    return list_of(p, p->nexample, example_item);
}

static PyObject *program_extra(PyObject *self, PyObject *name) {
    const cr_program *p = program_of(self);
    const char *utf8 = PyUnicode_AsUTF8(name);
    const cr_zip_member *m = utf8 && p->archive ? cr_pt2_find(p->archive, utf8) : NULL;
    char *bytes = NULL;
    if (!utf8) return NULL;
    if (!m) Py_RETURN_NONE;
    cr_status status = cr_zip_read(p->archive, m, UINT64_MAX >> 2, &bytes);
    if (status) return cr_py_raise(status);
    PyObject *o = PyBytes_FromStringAndSize(bytes, (Py_ssize_t)m->size);
    cr_free(bytes);
    return o;
}

PyObject *cr_py_program_new(cr_program *p) {
    py_program *o = PyObject_New(py_program, &program_type);
    if (!o) {
        cr_program_release(p);
        return NULL;
    }
    o->program = p;
    return (PyObject *)o;
}

/* {name: tensor} as C has it; tensors stay the dictionary's, or the frame's. */
static int read_tensors(cr_py_frame *f, PyObject *dict, cr_named_tensor *out) {
    PyObject *key, *value;
    Py_ssize_t at = 0;
    for (size_t i = 0; PyDict_Next(dict, &at, &key, &value); i++) {
        cr_tensor *t = cr_frontend_tensor(f, value);
        if (!t && !PyErr_Occurred())
            PyErr_Format(PyExc_TypeError, "%R is a %s, not a Tensor", key, Py_TYPE(value)->tp_name);
        out[i] = (cr_named_tensor){ .name = PyUnicode_AsUTF8(key), .tensor = t };
        if (!t || !out[i].name) return -1;
    }
    return 0;
}

static PyObject *program_with_tensors(PyObject *self, PyObject *dict) {
    if (!PyDict_Check(dict))
        return PyErr_Format(PyExc_TypeError, "expected a dictionary, not %s", Py_TYPE(dict)->tp_name);
    size_t n = (size_t)PyDict_Size(dict);
    cr_named_tensor *others = PyMem_Calloc(n + 1, sizeof *others);
    cr_program *made = NULL;
    if (!others) return PyErr_NoMemory();
    cr_py_frame f;
    cr_py_frame_init(&f);
    int bad = read_tensors(&f, dict, others);
    cr_status status = bad ? CR_OK : cr_program_with_tensors(program_of(self), others, n, &made);
    cr_py_frame_dispose(&f);
    PyMem_Free(others);
    if (bad) return NULL;
    return status ? cr_py_raise(status) : cr_py_program_new(made);
}

static PyObject *program_decompose(PyObject *self, PyObject *args) {
    cr_program *made = NULL;
    PyObject *done = cr_py_decompose(program_of(self), args, &made);
    if (!done) return NULL;
    Py_DECREF(done);
    return cr_py_program_new(made);
}

/* A build in another thread may hold the program's lock and wait for the GIL, to call an operator of Python's: so the
 * lock is waited for without it, here and below. */
static PyObject *program_verify(PyObject *self, PyObject *unused) {
    (void)unused;
    PyThreadState *thread = PyEval_SaveThread();
    cr_status status = cr_program_verify(program_of(self));
    PyEval_RestoreThread(thread);
    if (status) return cr_py_raise(status);
    Py_RETURN_NONE;
}

static PyObject *program_check(PyObject *self, PyObject *unused) {
    (void)unused;
    cr_status status = cr_program_check(program_of(self));
    if (status) return cr_py_raise(status);
    Py_RETURN_NONE;
}

static PyObject *program_str(PyObject *self) {
    cr_str text;
    cr_str_init(&text);
    PyThreadState *thread = PyEval_SaveThread();
    cr_program_print(program_of(self), &text);
    PyEval_RestoreThread(thread);
    return cr_py_text(&text);
}

static PyObject *get_graph(PyObject *self, void *unused) {
    (void)unused;
    cr_graph_retain(program_of(self)->graph);
    return cr_py_graph_new(program_of(self)->graph);
}

static void program_dealloc(PyObject *self) {
    cr_program_release(program_of(self));
    PyObject_Free(self);
}

static PyMethodDef program_methods[] = {
    { "_data", program_data, METH_NOARGS, "Signature, ranges, guards, call structure and versions, as plain data." },
    { "_state", program_state, METH_NOARGS,
      "[(name, tensor, is_parameter, persistent)]: parameters and persistent buffers." },
    { "_constants", program_constants, METH_NOARGS, "The same for lifted constants and buffers that are not saved." },
    { "_example", program_example, METH_NOARGS, "The flat example inputs, or None." },
    { "_extra", program_extra, METH_O, "_extra(path): the bytes of a member below the archive's top folder, or None." },
    { "_decompose", program_decompose, METH_VARARGS,
      "_decompose(table, record): the program in the core dialect, or in the ops that the table leaves." },
    { "_with_tensors", program_with_tensors, METH_O,
      "_with_tensors({name: tensor}): the program with these parameters, buffers and constants." },
    { "verify", program_verify, METH_NOARGS,
      "Raises ValueError when graph, signature and state do not fit each other." },
    { "_call_values", program_call_values, METH_NOARGS,
      "[(inputs, outputs)] of each module call, as (name, type, constant)." },
    { "check", program_check, METH_NOARGS, "The same, and what exporters promise; the message names the node." },
    { NULL, NULL, 0, NULL },
};
static PyGetSetDef program_attributes[] = { { "graph", get_graph, NULL, "The lifted graph.", NULL },
                                            { NULL, NULL, NULL, NULL, NULL } };
static PyTypeObject program_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "cresset._C._Program",
    .tp_basicsize = sizeof(py_program),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "An exported program. Use it through cresset.export.",
    .tp_dealloc = program_dealloc,
    .tp_str = program_str,
    .tp_methods = program_methods,
    .tp_getset = program_attributes,
};

/* ---- running ---- */

static PyObject *module_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = { "program", "own_state", NULL };
    PyObject *program;
    int own = 0;
    cr_module *m = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!|p:_ProgramModule", names, &program_type, &program, &own))
        return NULL;
    PyThreadState *thread = PyEval_SaveThread();
    cr_status status = cr_module_create(program_of(program), own ? CR_MODULE_OWN_STATE : CR_MODULE_SHARED, &m);
    PyEval_RestoreThread(thread);
    if (status) return cr_py_raise(status);
    py_module *o = PyObject_New(py_module, type);
    if (!o) {
        cr_module_release(m);
        return NULL;
    }
    o->module = m;
    return (PyObject *)o;
}

int cr_py_leaf(cr_py_frame *f, PyObject *o, cr_arg *out) {
    if (!cr_frontend_is_array(o)) {
        int r = cr_py_convert(f, o, out);
        if (r > 0)
            PyErr_Format(PyExc_TypeError, "an argument is a %s: expected tensors, numbers, texts or None",
                         Py_TYPE(o)->tp_name);
        return r ? -1 : 0;
    }
    cr_tensor *t = cr_py_dlpack_import(o, Py_None, Py_None);
    PyObject *wrapped = t ? cr_frontend_wrap(t) : NULL;
    int r = wrapped && !cr_py_frame_keep(f, wrapped) ? cr_py_convert(f, wrapped, out) : -1;
    Py_XDECREF(wrapped);
    return r;
}

PyObject *cr_py_results_list(cr_env *env, cr_arg *results, size_t n) {
    PyObject *list = PyList_New((Py_ssize_t)n);
    for (size_t i = 0; list && i < n; i++) {
        PyObject *o = cr_py_from_arg_of(env, &results[i], true);
        if (!o) Py_CLEAR(list);
        else PyList_SET_ITEM(list, (Py_ssize_t)i, o);
    }
    if (!list) cr_results_release(results, n);
    return list;
}

/* The tensors of a list, which holds them, or the frame does. */
static cr_tensor **read_state(cr_py_frame *f, PyObject *list) {
    size_t n = (size_t)PyList_GET_SIZE(list);
    cr_tensor **state = PyMem_Calloc(n + 1, sizeof *state);
    if (!state) PyErr_NoMemory();
    for (size_t i = 0; state && i < n; i++) {
        PyObject *o = PyList_GET_ITEM(list, (Py_ssize_t)i);
        if ((state[i] = cr_frontend_tensor(f, o))) continue;
        if (!PyErr_Occurred())
            PyErr_Format(PyExc_TypeError, "run(): parameter, buffer or constant %zu is a %s, not a Tensor", i,
                         Py_TYPE(o)->tp_name);
        PyMem_Free(state);
        state = NULL;
    }
    return state;
}

static PyObject *module_run(PyObject *self, PyObject *args) {
    cr_module *m = ((py_module *)self)->module;
    PyObject *leaves, *given = NULL;
    if (!PyArg_ParseTuple(args, "O|O!:run", &leaves, &PyList_Type, &given)) return NULL;
    PyObject *items = PySequence_Fast(leaves, "run() takes the list of the flat inputs"), *o = NULL;
    size_t n = items ? (size_t)PySequence_Fast_GET_SIZE(items) : 0, nresults = cr_module_result_count(m);
    cr_arg *inputs = PyMem_Calloc(n + nresults + 1, sizeof *inputs), *results = inputs + n;
    cr_py_frame f;
    cr_py_frame_init(&f);
    cr_tensor **state = given ? read_state(&f, given) : NULL;
    if (!inputs) PyErr_NoMemory();
    if (!items || !inputs || (given && !state)) goto out;
    for (size_t i = 0; i < n; i++)
        if (cr_py_leaf(&f, PySequence_Fast_GET_ITEM(items, (Py_ssize_t)i), &inputs[i])) goto out;
    PyThreadState *thread = PyEval_SaveThread();
    cr_status status = cr_module_run_on(m, state, given ? (size_t)PyList_GET_SIZE(given) : 0, inputs, n, results,
                                        nresults);
    PyEval_RestoreThread(thread);
    o = status ? cr_py_raise(status) : cr_py_results_list(cr_graph_env(cr_module_program(m)->graph), results, nresults);
out:
    cr_py_frame_dispose(&f);
    PyMem_Free(inputs);
    PyMem_Free(state);
    Py_XDECREF(items);
    return o;
}

/* Are these tensors of the dtypes that the program was exported with? What else does not fit, a run says. */
static PyObject *module_fits(PyObject *self, PyObject *list) {
    const cr_program *p = cr_module_program(((py_module *)self)->module);
    Py_ssize_t at = 0;
    if (!PyList_Check(list)) return PyErr_Format(PyExc_TypeError, "fits() takes a list of tensors");
    uint32_t n = cr_graph_first(p->graph);
    for (size_t i = 0; i < p->ninputs && n != CR_NO_NODE && at < PyList_GET_SIZE(list);
         i++, n = cr_graph_next(p->graph, n)) {
        if (p->inputs[i].kind == CR_INPUT_USER || p->inputs[i].kind == CR_INPUT_TOKEN) continue;
        const cr_meta *m = cr_graph_value(p->graph, cr_graph_node(p->graph, n)->first)->meta;
        PyObject *o = PyList_GET_ITEM(list, at++);
        cr_py_frame f;
        cr_py_frame_init(&f);
        const cr_tensor *t = cr_frontend_tensor(&f, o);
        bool fits = t && (!m || t->meta.dtype == m->dtype);
        cr_py_frame_dispose(&f);
        if (PyErr_Occurred()) return NULL;
        if (!fits) Py_RETURN_FALSE;
    }
    Py_RETURN_TRUE;
}

static PyObject *module_tensor(PyObject *self, PyObject *name) {
    const char *text = PyUnicode_AsUTF8(name);
    cr_tensor *t = text ? cr_module_tensor(((py_module *)self)->module, text) : NULL;
    if (!t) return text ? Py_NewRef(Py_None) : NULL;
    cr_tensor_retain(t);
    return cr_frontend_wrap(t);
}

static void module_dealloc(PyObject *self) {
    cr_module_release(((py_module *)self)->module);
    PyObject_Free(self);
}

static PyObject *module_is_stateful(PyObject *self, void *unused) {
    (void)unused;
    return PyBool_FromLong(cr_module_is_stateful(((py_module *)self)->module));
}

static PyGetSetDef module_attributes[] = { { "is_stateful", module_is_stateful, NULL,
                                             "Do calls change parameters or buffers?", NULL },
                                           { NULL, NULL, NULL, NULL, NULL } };
static PyMethodDef module_methods[] = {
    { "run", module_run, METH_VARARGS,
      "run(inputs, state=): flat user inputs to flat user outputs, both lists; on these parameters, buffers and "
      "constants." },
    { "fits", module_fits, METH_O, "fits(state): are they of the dtypes that the program has?" },
    { "tensor", module_tensor, METH_O, "tensor(name): this instance's parameter, buffer or constant, or None." },
    { NULL, NULL, 0, NULL },
};
static PyTypeObject module_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "cresset._C._ProgramModule",
    .tp_basicsize = sizeof(py_module),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "One running instance of an exported program. Use it through ExportedProgram.module().",
    .tp_new = module_new,
    .tp_dealloc = module_dealloc,
    .tp_methods = module_methods,
    .tp_getset = module_attributes,
};

/* ---- loading ---- */

static PyObject *load(PyObject *unused, PyObject *args, PyObject *kwargs) {
    static char *names[] = { "path", "name", "check", "meta", NULL };
    PyObject *path = NULL;
    const char *name = NULL;
    int check = 0, meta = 0;
    cr_program *p = NULL;
    (void)unused;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&|zpp:_load_program", names, PyUnicode_FSConverter, &path, &name,
                                     &check, &meta))
        return NULL;
    const char *text = PyBytes_AS_STRING(path);
    PyThreadState *thread = PyEval_SaveThread();
    cr_status status = cr_program_load(text, name, (check ? CR_LOAD_CHECK : 0) | (meta ? CR_LOAD_META : 0), &p);
    PyEval_RestoreThread(thread);
    Py_DECREF(path);
    return status ? cr_py_raise(status) : cr_py_program_new(p);
}

static PyMethodDef functions[] = {
    { "_load_program", (PyCFunction)(void (*)(void))load, METH_VARARGS | METH_KEYWORDS,
      "_load_program(path, name=None, check=False, meta=False): reads a .pt2 archive." },
    { NULL, NULL, 0, NULL },
};

int cr_py_program_init(PyObject *module) {
    if (PyType_Ready(&program_type) || PyType_Ready(&module_type) || PyModule_AddFunctions(module, functions))
        return -1;
    return PyModule_AddObjectRef(module, "_ProgramModule", (PyObject *)&module_type);
}
