/* trace_type.c: fake tensors and recording from Python: FakeTensorMode, record(). */
#include "python/py.h"

#include "trace/trace.h"

typedef struct py_mode { PyObject_HEAD cr_fakes fakes; cr_call_mode saved; bool active; } py_mode;

static PyTypeObject mode_type;

cr_fakes *cr_py_mode_fakes(PyObject *o) {
    if (Py_IS_TYPE(o, &mode_type)) return &((py_mode *)o)->fakes;
    PyErr_Format(PyExc_TypeError, "expected a FakeTensorMode, not %s", Py_TYPE(o)->tp_name);
    return NULL;
}

/* ---- which dimensions are symbolic ---- */

/* names: borrowed from Python texts */
typedef struct dynamic { uint32_t mask; const char *names[CR_MAX_RANK]; } dynamic;

static int add_dim(dynamic *d, PyObject *dim, PyObject *name, int rank) {
    int64_t i;
    int at;
    if (cr_py_int64(dim, "dynamic", &i)) return -1;
    cr_status status = cr_wrap_dim(i, rank, &at);
    if (status) return cr_py_fail(status);
    d->mask |= 1u << at;
    d->names[at] = NULL;
    return name && name != Py_None && !(d->names[at] = PyUnicode_AsUTF8(name)) ? -1 : 0;
}

/* None, True (all but those of size 0 or 1, which mean something of their own), a dimension, several dimensions, or
 * {dimension: name}. */
static int read_dynamic(PyObject *o, const cr_meta *m, dynamic *d) {
    int rank = m->rank;
    *d = (dynamic){ 0 };
    if (o == NULL || o == Py_None || o == Py_False) return 0;
    for (int i = 0; o == Py_True && i < rank; i++)
        if (cr_dim_known(NULL, m->size[i], CR_GE, 2) == CR_YES) d->mask |= 1u << i;
    if (o == Py_True) return 0;
    if (PyLong_Check(o)) return add_dim(d, o, NULL, rank);
    if (PyDict_Check(o)) {
        PyObject *key, *value;
        for (Py_ssize_t at = 0; PyDict_Next(o, &at, &key, &value);)
            if (add_dim(d, key, value, rank)) return -1;
        return 0;
    }
    PyObject *items = PySequence_Fast(o, "dynamic: expected None, True, a dimension, dimensions or a dict of names");
    int r = items ? 0 : -1;
    for (Py_ssize_t i = 0; items && i < PySequence_Fast_GET_SIZE(items) && !r; i++)
        r = add_dim(d, PySequence_Fast_GET_ITEM(items, i), NULL, rank);
    Py_XDECREF(items);
    return r;
}

/* ---- FakeTensorMode ---- */

static PyObject *mode_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = { "duck_sizes", "specialize_zero_one", NULL };
    int duck = 0, zero_one = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$pp:FakeTensorMode", names, &duck, &zero_one)) return NULL;
    cr_env *env = NULL;
    cr_status status = cr_region_ops_init();
    if (!status) status = cr_env_create(&env);
    if (status) return cr_py_raise(status);
    py_mode *m = (py_mode *)type->tp_alloc(type, 0);
    if (m) {
        cr_fakes_init(&m->fakes, env);
        m->fakes.duck = duck;
        m->fakes.zero_one = zero_one;
    }
    cr_env_release(env);
    return (PyObject *)m;
}

static void mode_dealloc(PyObject *self) {
    cr_fakes_dispose(&((py_mode *)self)->fakes);
    Py_TYPE(self)->tp_free(self);
}

static PyObject *mode_from_tensor(PyObject *self, PyObject *args, PyObject *kwargs) {
    static char *names[] = { "tensor", "dynamic", NULL };
    PyObject *tensor, *spec = NULL;
    dynamic d;
    cr_tensor *fake = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|O:from_tensor", names, &tensor, &spec)) return NULL;
    cr_py_frame f;
    cr_py_frame_init(&f);
    PyObject *o = NULL;
    const cr_tensor *t = cr_frontend_need(&f, tensor, "from_tensor() takes a Tensor, not %s");
    if (t && !read_dynamic(spec, &t->meta, &d)) {
        cr_status status = cr_fake_from(&((py_mode *)self)->fakes, t, d.mask, d.names, &fake);
        o = status ? cr_py_raise(status) : cr_frontend_wrap(fake);
    }
    cr_py_frame_dispose(&f);
    return o;
}

static PyObject *mode_enter(PyObject *self, PyObject *unused) {
    py_mode *m = (py_mode *)self;
    (void)unused;
    if (m->active) return PyErr_Format(PyExc_RuntimeError, "this FakeTensorMode is entered already");
    cr_call_mode *mode = &cr_ambient_get()->mode;
    m->saved = *mode;
    m->active = true;
    mode->fake = true;
    mode->env = m->fakes.env;
    return Py_NewRef(self);
}

static PyObject *mode_exit(PyObject *self, PyObject *args) {
    py_mode *m = (py_mode *)self;
    (void)args;
    if (m->active) {
        cr_call_mode *mode = &cr_ambient_get()->mode;
        mode->fake = m->saved.fake;
        mode->env = m->saved.env;
        m->active = false;
    }
    Py_RETURN_NONE;
}

/* The conditions that were found to be needed, as texts. */
static PyObject *mode_guards(PyObject *self, void *unused) {
    cr_env *env = ((py_mode *)self)->fakes.env;
    PyObject *list = PyList_New(0);
    (void)unused;
    for (size_t i = 0; list && i < cr_env_cond_count(env); i++) {
        cr_str text;
        cr_str_init(&text);
        cr_sym_print(cr_env_cond(env, i).condition, &text);
        PyObject *item = text.failed ? PyErr_NoMemory() : PyUnicode_FromString(cr_str_get(&text));
        cr_str_dispose(&text);
        if (!item || PyList_Append(list, item)) Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

static PyMethodDef mode_methods[] = {
    { "from_tensor", (PyCFunction)(void (*)(void))mode_from_tensor, METH_VARARGS | METH_KEYWORDS,
      "from_tensor(tensor, dynamic=None): a fake of it. dynamic: None, True (all of size 2 or more), dimensions, or "
      "{dimension: name}." },
    { "__enter__", mode_enter, METH_NOARGS, NULL },
    { "__exit__", mode_exit, METH_VARARGS, NULL },
    { NULL, NULL, 0, NULL },
};
static PyGetSetDef mode_attributes[] = {
    { "guards", mode_guards, NULL, "The conditions on sizes that the program depended on, as texts.", NULL },
    { NULL, NULL, NULL, NULL, NULL },
};
static PyTypeObject mode_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "cresset.FakeTensorMode",
    .tp_basicsize = sizeof(py_mode),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "FakeTensorMode(*, duck_sizes=False, specialize_zero_one=False): fake tensors with a set of symbols; "
              "inside `with`, every op gives fake tensors. duck_sizes: equal sizes without a name share a symbol. "
              "specialize_zero_one: sizes 0 and 1 without a name stay numbers.",
    .tp_new = mode_new,
    .tp_dealloc = mode_dealloc,
    .tp_methods = mode_methods,
    .tp_getset = mode_attributes,
};

/* ---- fake(tensor, dynamic, mode), is_fake(tensor) ---- */

static PyObject *fake(PyObject *module, PyObject *args, PyObject *kwargs) {
    static char *names[] = { "tensor", "dynamic", "mode", NULL };
    PyObject *tensor, *spec = Py_None, *mode = Py_None;
    (void)module;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|OO:fake", names, &tensor, &spec, &mode)) return NULL;
    PyObject *own = mode == Py_None ? PyObject_CallNoArgs((PyObject *)&mode_type) : Py_NewRef(mode);
    PyObject *result = own ? PyObject_CallMethod(own, "from_tensor", "OO", tensor, spec) : NULL;
    Py_XDECREF(own);
    return result;
}

static PyObject *is_fake(PyObject *module, PyObject *o) {
    (void)module;
    cr_py_frame f;
    cr_py_frame_init(&f);
    const cr_tensor *t = cr_frontend_tensor(&f, o);
    bool fake = t && cr_tensor_is_fake(t);
    cr_py_frame_dispose(&f);
    return PyErr_Occurred() ? NULL : PyBool_FromLong(fake);
}

/* ---- record ---- */

typedef struct recording { cr_trace *trace; cr_fakes fakes; cr_py_frame frame; PyObject *inputs; bool fake; } recording;

/* What the function gets for argument i, made an input of the trace when it is a tensor or a symbolic number. */
static PyObject *make_input(recording *r, PyObject *o, PyObject *name, PyObject *spec) {
    const char *text = PyUnicode_AsUTF8(name);
    cr_arg number;
    cr_tensor *t = NULL;
    cr_status status = CR_OK;
    if (!text) return NULL;
    if (cr_py_sym_read(o, &number)) {
        cr_sym e = number.kind == CR_ARG_SYM ? number.u.sym : cr_dim_sym(r->fakes.env, number.u.i);
        static const cr_type types[] = {
            [CR_TYPE_INT] = CR_T_INT, [CR_TYPE_FLOAT] = CR_T_FLOAT, [CR_TYPE_BOOL] = CR_T_BOOL
        };
        status = e ? cr_trace_input_number(r->trace, text, types[cr_sym_type_of(e)], e)
                   : CR_FAIL(CR_ENOMEM, "out of memory");
        return status ? cr_py_raise(status) : Py_NewRef(o);
    }
    if (cr_frontend_is_array(o))
        return PyErr_Format(PyExc_TypeError,
                            "the input %s is of %R, not a Tensor of Cresset: give cresset.from_dlpack() of it", text,
                            (PyObject *)Py_TYPE(o));
    cr_tensor *given = cr_frontend_tensor(&r->frame, o);
    if (!given) return PyErr_Occurred() ? NULL : Py_NewRef(o);
    if (!r->fake) {
        status = cr_trace_input(r->trace, text, given);
        return status ? cr_py_raise(status) : Py_NewRef(o);
    }
    dynamic d;
    if (read_dynamic(spec, &given->meta, &d)) return NULL;
    /* a fake stands for itself in another trace: the input is a tensor of its own */
    status = cr_tensor_is_fake(given) ? cr_tensor_create_fake(r->fakes.env, &given->meta, &t)
                                      : cr_fake_from(&r->fakes, given, d.mask, d.names, &t);
    if (!status) status = cr_trace_input(r->trace, text, t);
    if (status) {
        cr_tensor_release(t);
        return cr_py_raise(status);
    }
    return cr_frontend_wrap(t);
}

/* The name of parameter i of a Python function, or argI; a new reference. */
static PyObject *parameter_name(PyObject *fn, Py_ssize_t i) {
    PyObject *code = PyObject_GetAttrString(fn, "__code__"),
             *names = code ? PyObject_GetAttrString(code, "co_varnames") : NULL,
             *count = code ? PyObject_GetAttrString(code, "co_argcount") : NULL;
    PyObject *name = names && count && PyTuple_Check(names) && i < PyLong_AsSsize_t(count) &&
                             i < PyTuple_GET_SIZE(names)
                         ? Py_NewRef(PyTuple_GET_ITEM(names, i))
                         : NULL;
    PyErr_Clear();
    Py_XDECREF(code);
    Py_XDECREF(names);
    Py_XDECREF(count);
    return name ? name : PyUnicode_FromFormat("arg%zd", i);
}

static int make_inputs(recording *r, PyObject *fn, PyObject *args, PyObject *names, PyObject *specs) {
    Py_ssize_t n = PyTuple_GET_SIZE(args);
    r->inputs = PyTuple_New(n);
    for (Py_ssize_t i = 0; r->inputs && i < n; i++) {
        PyObject *spec = PyTuple_Check(specs) && i < PyTuple_GET_SIZE(specs) ? PyTuple_GET_ITEM(specs, i) : Py_None;
        PyObject *name = PyTuple_Check(names) && i < PyTuple_GET_SIZE(names) ? Py_NewRef(PyTuple_GET_ITEM(names, i))
                                                                             : parameter_name(fn, i);
        PyObject *input = name ? make_input(r, PyTuple_GET_ITEM(args, i), name, spec) : NULL;
        Py_XDECREF(name);
        if (!input) return -1;
        PyTuple_SET_ITEM(r->inputs, i, input);
    }
    return r->inputs ? 0 : -1;
}

static PyObject *finish(recording *r, PyObject *result) {
    cr_py_frame f;
    cr_arg output;
    cr_graph *g = NULL;
    cr_py_frame_init(&f);
    int kind = cr_py_convert(&f, result, &output);
    if (kind > 0)
        PyErr_Format(PyExc_TypeError,
                     "record(): the function returns a %s; return tensors, numbers, and tuples or lists of them",
                     Py_TYPE(result)->tp_name);
    PyObject *graph = NULL;
    if (!kind) {
        bool several = output.kind == CR_ARG_LIST && PyTuple_Check(result);
        cr_status status = cr_trace_finish(r->trace, several ? output.u.list : &output, several ? output.n : 1, &g);
        graph = status ? cr_py_raise(status) : cr_py_graph_new(g);
    }
    cr_py_frame_dispose(&f);
    return graph;
}

static PyObject *record(PyObject *module, PyObject *args, PyObject *kwargs) {
    static char *keywords[] = { "fn", "args", "dynamic", "names", "fake", NULL };
    PyObject *fn, *given, *names = Py_None, *specs = Py_None, *result = NULL, *graph = NULL;
    int on_fakes = 1;
    cr_env *env = NULL;
    recording r = { .trace = NULL };
    (void)module;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO!|OOp:record", keywords, &fn, &PyTuple_Type, &given, &specs,
                                     &names, &on_fakes))
        return NULL;
    r.fake = on_fakes;
    cr_py_frame_init(&r.frame);
    cr_status status = CR_OK;
    if ((env = cr_frontend_env(given)) || (env = cr_ambient_get()->mode.env)) cr_env_retain(env);
    else status = cr_env_create(&env);
    if (!status) status = cr_trace_create(env, &r.trace);
    if (status) {
        cr_env_release(env);
        return cr_py_raise(status);
    }
    cr_fakes_init(&r.fakes, env);
    cr_env_release(env);
    if (!make_inputs(&r, fn, given, names, specs)) {
        cr_trace_begin(r.trace, r.fake);
        result = PyObject_CallObject(fn, r.inputs);
        cr_trace_end(r.trace);
    }
    if (result) graph = finish(&r, result);
    Py_XDECREF(result);
    Py_XDECREF(r.inputs);
    cr_trace_release(r.trace);
    cr_fakes_dispose(&r.fakes);
    cr_py_frame_dispose(&r.frame);
    return graph;
}

static PyObject *is_recording(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    return PyBool_FromLong(cr_ambient_get()->mode.recorder || cr_ambient_get()->mode.fake);
}

static int add_call(PyObject *list, const char *name, bool draws, bool dense) {
    PyObject *call = Py_BuildValue("(sOO)", name, draws ? Py_True : Py_False, dense ? Py_True : Py_False);
    int r = call ? PyList_Append(list, call) : -1;
    Py_XDECREF(call);
    return r;
}

/* _recorded_calls(): all that were recorded so far, as (name, does it draw random numbers?, is its first argument no
 * tensor, or one that is known to be contiguous?). Empty: nothing is recorded. */
static PyObject *recorded_calls(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    cr_trace *trace = cr_trace_current();
    const cr_graph *g = trace ? cr_trace_graph(trace) : NULL;
    PyObject *list = PyList_New(0);
    for (uint32_t at = g ? cr_graph_first(g) : CR_NO_NODE; list && at != CR_NO_NODE; at = cr_graph_next(g, at)) {
        const cr_node *node = cr_graph_node(g, at);
        if (node->kind != CR_NODE_CALL) continue;
        const cr_arg *first = &node->args[0];
        const cr_meta *m = first->kind == CR_ARG_VALUE ? cr_graph_value(g, (uint32_t)first->u.i)->meta : NULL;
        bool dense = !m || cr_meta_is_contiguous(cr_graph_env(g), m, CR_CONTIGUOUS) == CR_YES;
        if (add_call(list, node->op->name, cr_op_draws(node->op, node->args), dense)) Py_CLEAR(list);
    }
    return list;
}

static PyMethodDef functions[] = {
    { "fake", (PyCFunction)(void (*)(void))fake, METH_VARARGS | METH_KEYWORDS,
      "fake(tensor, dynamic=None, mode=None): a fake of a tensor." },
    { "is_fake", is_fake, METH_O, "is_fake(tensor): has it a shape and no data?" },
    { "record", (PyCFunction)(void (*)(void))record, METH_VARARGS | METH_KEYWORDS,
      "record(fn, args, dynamic=None, names=None, fake=True): the graph of the ops that fn(*args) calls. dynamic: per "
      "argument, as for fake()." },
    { "_is_recording", is_recording, METH_NOARGS, "Is a trace or a fake mode active here?" },
    { "_recorded_calls", recorded_calls, METH_NOARGS, NULL },
    { NULL, NULL, 0, NULL },
};

int cr_py_trace_init(PyObject *module) {
    if (PyType_Ready(&mode_type) || PyModule_AddObjectRef(module, "FakeTensorMode", (PyObject *)&mode_type)) return -1;
    return PyModule_AddFunctions(module, functions);
}
