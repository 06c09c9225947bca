/* body_type.c: _C._Body, the body of a region while it is recorded. python/cresset/_higher_order.py drives it:
 *
 *     body = _C._Body(operands, numbered)      inside the trace around it
 *     x = body.input(tensor)                   what stands for it in the body (optional: free variables need none)
 *     result = body.run(fn, args)
 *     graph = body.finish(flat_results, "true_graph_0")
 *     body.lifted                              what it uses from outside: the region's operands */
#include "python/py.h"

#include "export/program.h"
#include "trace/trace.h"

typedef struct cr_py_body {
    PyObject_HEAD
    cr_trace *trace;
    PyObject *graph, *problem;
    CR_VEC(cr_grad_mark) marks; /* where an exported body set the gradient mode */
    bool grad;                  /* the mode it began with */
} py_body;

static cr_env *env_of(PyObject *body) { return cr_graph_env(cr_trace_graph(((py_body *)body)->trace)); }

static PyObject *body_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = { "operands", "numbered", NULL };
    PyObject *operands;
    int numbered = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!|p:_Body", names, &PyTuple_Type, &operands, &numbered))
        return NULL;
    cr_trace *trace = NULL;
    cr_env *env = cr_ambient_get()->mode.env; /* of the fake mode around us, else of a symbolic operand */
    cr_py_frame f;
    cr_py_frame_init(&f);
    cr_status status = cr_region_ops_init();
    if (!status) status = cr_trace_create_body(env ? env : cr_frontend_env(operands), numbered, &trace);
    for (Py_ssize_t i = 0; !status && !numbered && i < PyTuple_GET_SIZE(operands); i++) {
        PyObject *o = PyTuple_GET_ITEM(operands, i);
        cr_tensor *t = cr_frontend_tensor(&f, o);
        if (t) status = cr_trace_body_may_use(trace, t);
        else if (PyErr_Occurred()) status = CR_EPYTHON;
    }
    cr_py_frame_dispose(&f);
    if (status) cr_trace_release(trace);
    if (status) return cr_py_raise(status);
    py_body *b = (py_body *)type->tp_alloc(type, 0);
    if (!b) return cr_trace_release(trace), NULL;
    b->trace = trace;
    return (PyObject *)b;
}

static void body_dealloc(PyObject *self) {
    cr_trace_release(((py_body *)self)->trace);
    cr_vec_dispose(&((py_body *)self)->marks);
    Py_XDECREF(((py_body *)self)->graph);
    Py_XDECREF(((py_body *)self)->problem);
    Py_TYPE(self)->tp_free(self);
}

/* ---- inputs ---- */

static PyObject *tensor_input(py_body *b, cr_tensor *outer, bool sliced) {
    const cr_meta *given = &outer->meta;
    cr_meta meta;
    cr_tensor *t = NULL;
    cr_meta_copy(&meta, given);
    if (sliced && !meta.rank) return PyErr_Format(PyExc_IndexError, "a tensor without dimensions has no slices");
    if (sliced) {
        meta.rank--;
        memmove(meta.size, given->size + 1, meta.rank * sizeof *meta.size);
        memmove(meta.stride, given->stride + 1, meta.rank * sizeof *meta.stride);
    }
    meta.offset = 0;
    cr_status status = cr_tensor_create_fake(env_of((PyObject *)b), &meta, &t);
    if (!status) status = cr_trace_body_input(b->trace, outer, t);
    if (status) {
        cr_tensor_release(t);
        return cr_py_raise(status);
    }
    return cr_frontend_wrap(t);
}

/* A number that may be another one in each run of the body; `same`: one that another body of the region was given. */
static PyObject *number_input(py_body *b, PyObject *o, bool same) {
    static const cr_type types[] = {
        [CR_TYPE_INT] = CR_T_INT, [CR_TYPE_FLOAT] = CR_T_FLOAT, [CR_TYPE_BOOL] = CR_T_BOOL
    };
    cr_env *env = env_of((PyObject *)b);
    cr_arg a;
    cr_type type = PyBool_Check(o) ? CR_T_BOOL : PyFloat_Check(o) ? CR_T_FLOAT : CR_T_INT;
    cr_sym e = NULL;
    if (cr_py_sym_read(o, &a)) {
        e = a.kind == CR_ARG_SYM ? a.u.sym : cr_dim_sym(env, a.u.i);
        if (e) type = types[cr_sym_type_of(e)];
    } else if (!PyLong_Check(o) && !PyFloat_Check(o)) {
        return PyErr_Format(PyExc_TypeError, "the input of a body must be a tensor or a number, not a %s",
                            Py_TYPE(o)->tp_name);
    }
    if (!same) e = cr_unknown_number(env, type);
    cr_status status = e ? cr_trace_body_number(b->trace, type, e) : CR_FAIL(CR_ENOMEM, "out of memory");
    if (status) return cr_py_raise(status);
    a = type == CR_T_INT ? cr_arg_int(cr_dim_of(env, e)) : (cr_arg){ .kind = CR_ARG_SYM, .given = 1, .u.sym = e };
    return cr_py_sym_new(env, a);
}

static PyObject *body_input(PyObject *self, PyObject *args, PyObject *kwargs) {
    static char *names[] = { "value", "sliced", "same", NULL };
    PyObject *o;
    int sliced = 0, same = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|pp:input", names, &o, &sliced, &same)) return NULL;
    cr_py_frame f;
    cr_py_frame_init(&f);
    cr_tensor *t = cr_frontend_tensor(&f, o);
    PyObject *input = t ? tensor_input((py_body *)self, t, sliced) : NULL;
    if (!t && !PyErr_Occurred()) input = number_input((py_body *)self, o, same);
    cr_py_frame_dispose(&f);
    return input;
}

/* ---- running ---- */

static PyObject *body_run(PyObject *self, PyObject *args) {
    PyObject *fn, *given;
    if (!PyArg_ParseTuple(args, "OO!:run", &fn, &PyTuple_Type, &given)) return NULL;
    py_body *b = (py_body *)self;
    cr_ambient *ambient = cr_ambient_get();
    py_body *outer = ambient->body;
    ambient->body = b;
    uint64_t before = cr_frontend_cresset.ambient(); /* bodies run on fakes, which are Cresset's */
    b->grad = before & CR_AMBIENT_GRAD;
    cr_trace_begin(b->trace, true);
    PyObject *result = PyObject_CallObject(fn, given);
    cr_trace_end(b->trace);
    cr_frontend_cresset.set_ambient(before); /* as for a whole program: what forward sets ends with it */
    ambient->body = outer;
    return result;
}

int cr_py_body_note_grad_mode(bool enabled) {
    py_body *b = cr_ambient_get()->body;
    if (!b || cr_trace_current() != b->trace) return 0;
    cr_grad_mark mark = { cr_graph_node_limit(cr_trace_graph(b->trace)), enabled };
    return cr_vec_push(&b->marks, mark) ? (PyErr_NoMemory(), -1) : 1;
}

static cr_status wrap_grad_modes(py_body *b, cr_graph *g) {
    cr_names *names = NULL;
    CR_TRY(cr_names_create(g, &names));
    cr_status status = cr_program_wrap_grad_modes(g, names, b->marks.at, b->marks.n, b->grad, NULL);
    cr_names_free(names);
    return status;
}

static PyObject *body_lift(PyObject *self, PyObject *objects) {
    PyObject *items = PySequence_Fast(objects, "lift() takes a sequence");
    int r = items ? 0 : -1;
    cr_py_frame f;
    cr_py_frame_init(&f);
    for (Py_ssize_t i = 0; !r && i < PySequence_Fast_GET_SIZE(items); i++) {
        PyObject *o = PySequence_Fast_GET_ITEM(items, i);
        cr_arg a;
        uint32_t value;
        cr_tensor *t = cr_frontend_tensor(&f, o);
        if (t) a = cr_arg_tensor(t);
        else if (!cr_py_sym_read(o, &a)) {
            PyErr_Format(PyExc_TypeError, "lift(): expected tensors and symbolic numbers, not a %s",
                         Py_TYPE(o)->tp_name);
            r = -1;
            break;
        }
        cr_status status = cr_trace_lift(((py_body *)self)->trace, &a, &value);
        if (status) r = cr_py_fail(status);
    }
    cr_py_frame_dispose(&f);
    Py_XDECREF(items);
    if (r) return NULL;
    Py_RETURN_NONE;
}

static PyObject *get_lifted(PyObject *self, void *unused) {
    const cr_trace *t = ((py_body *)self)->trace;
    cr_env *env = env_of(self);
    (void)unused;
    PyObject *list = PyTuple_New((Py_ssize_t)cr_trace_lifted_count(t));
    for (size_t i = 0; list && i < cr_trace_lifted_count(t); i++) {
        cr_arg a = cr_trace_lifted(t, i);
        if (a.kind == CR_ARG_TENSOR) cr_tensor_retain(a.u.t);
        else if (cr_sym_type_of(a.u.sym) == CR_TYPE_INT) a = cr_arg_int(cr_dim_of(env, a.u.sym));
        PyObject *o = a.kind == CR_ARG_TENSOR ? cr_frontend_wrap(a.u.t) : cr_py_sym_new(env, a);
        if (o) PyTuple_SET_ITEM(list, (Py_ssize_t)i, o);
        else Py_CLEAR(list);
    }
    return list;
}

/* The first name STEM_0, STEM_1, ... that no subgraph of the trace around has: its number. */
static unsigned free_number(const char *stem) {
    cr_trace *outer = cr_trace_current();
    const cr_graph *g = outer ? cr_trace_graph(outer) : NULL;
    for (unsigned k = 0;; k++) {
        char name[80];
        bool taken = false;
        PyOS_snprintf(name, sizeof name, "%s_%u", stem, k);
        for (size_t i = 0; g && i < cr_graph_subgraph_count(g) && !taken; i++)
            taken = !strcmp(cr_graph_name(cr_graph_subgraph(g, i)), name);
        if (!taken) return k;
    }
}

/* ---- what no body may do ---- */

/* ('writes', op, input), ('aliases', result, input or other result), or None; before parts of it are wrapped. */
static PyObject *find_problem(const cr_graph *g) {
    const cr_op *op;
    const char *input;
    uint32_t result, other;
    cr_status status = cr_body_writes(g, &op, &input);
    if (status) return cr_py_raise(status);
    if (input) return Py_BuildValue("sss", "writes", op->schema.name, input);
    if (!cr_body_aliases(g, &result, &input, &other)) Py_RETURN_NONE;
    if (input) return Py_BuildValue("sIs", "aliases", result, input);
    return Py_BuildValue("sII", "aliases", result, other);
}

static PyObject *body_finish(PyObject *self, PyObject *args) {
    py_body *b = (py_body *)self;
    PyObject *results;
    const char *stem;
    cr_py_frame f;
    cr_arg outputs;
    cr_graph *g = NULL;
    char name[80];
    int alone = 0;
    if (!PyArg_ParseTuple(args, "O!s|p:finish", &PyTuple_Type, &results, &stem, &alone)) return NULL;
    cr_py_frame_init(&f);
    int kind = cr_py_convert(&f, results, &outputs);
    if (kind > 0) PyErr_Format(PyExc_TypeError, "a body returns tensors and numbers only");
    if (!kind) {
        PyOS_snprintf(name, sizeof name, "%s_%u", stem, free_number(stem));
        cr_status status = cr_trace_body_finish(b->trace, outputs.u.list, outputs.n, &g);
        if (!status && !(b->problem = find_problem(g))) goto out;
        if (!status && b->marks.n) status = wrap_grad_modes(b, g);
        if (!status) status = cr_graph_set_name(g, name);
        if (!status && alone) status = cr_graph_set_archived(g, cr_graph_output(g), &(cr_archived){ .single = true });
        if (status) cr_graph_release(g), cr_py_raise(status);
        else b->graph = cr_py_graph_new(g);
    }
out:
    cr_py_frame_dispose(&f);
    return Py_XNewRef(b->graph);
}

static PyObject *get_problem(PyObject *self, void *unused) {
    (void)unused;
    return Py_XNewRef(((py_body *)self)->problem ? ((py_body *)self)->problem : Py_None);
}

static PyMethodDef methods[] = {
    { "input", (PyCFunction)(void (*)(void))body_input, METH_VARARGS | METH_KEYWORDS,
      "input(value, sliced=False, same=False): the body's next input, like the value (or slice 0 of it)." },
    { "run", body_run, METH_VARARGS, "run(fn, args): fn(*args), recorded." },
    { "lift", body_lift, METH_O, "lift(values): makes them free variables." },
    { "finish", body_finish, METH_VARARGS,
      "finish(results, stem, alone=False): the graph; alone: it returns its result, not a tuple of one." },
    { NULL, NULL, 0, NULL },
};
static PyGetSetDef attributes[] = {
    { "problem", get_problem, NULL,
      "After finish(): ('writes', op, input), ('aliases', result, input or other result), or None.", NULL },
    { "lifted", get_lifted, NULL, "What the body uses from outside, in order of first use.", NULL },
    { NULL, NULL, NULL, NULL, NULL },
};
static PyTypeObject body_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "cresset._Body",
    .tp_basicsize = sizeof(py_body),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "_Body(operands, numbered=False): records the body of a region.",
    .tp_new = body_new,
    .tp_dealloc = body_dealloc,
    .tp_methods = methods,
    .tp_getset = attributes,
};

int cr_py_body_init(PyObject *module) {
    return PyType_Ready(&body_type) || PyModule_AddObjectRef(module, "_Body", (PyObject *)&body_type) ? -1 : 0;
}
