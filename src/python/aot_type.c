/* aot_type.c: cresset._C._Aot: a function of tensors, recorded and compiled with its gradients, called in its place.
 * What compilers are to Python: callables that take a role and a Graph, and give a callable over tensors. */
#include "python/py.h"
#include "python/walk_graphs.h"

#include "autograd/aot.h"
#include "trace/trace.h"

typedef struct py_aot { PyObject_HEAD cr_aot *aot; cr_graph *recorded; bool fails; } py_aot;

static PyTypeObject aot_type;

/* ---- code in Python ---- */

/* A tuple or list of n results. */
static cr_status take_results(PyObject *made, cr_arg *results, size_t n) {
    PyObject *items = PyTuple_Check(made) || PyList_Check(made) ? PySequence_Fast(made, "") : NULL;
    cr_status status = CR_OK;
    size_t done = 0;
    if (!items || (size_t)PySequence_Fast_GET_SIZE(items) != n) {
        Py_XDECREF(items);
        if (n == 1 && !items) return cr_py_take("a compiled graph", made, "a tensor or a number", &results[0]);
        return CR_FAIL(CR_EVALUE, "compiled code gave %s where the graph has %zu results; give a tuple or list of them",
                       Py_TYPE(made)->tp_name, n);
    }
    for (; done < n && !status; done++)
        status = cr_py_take("a compiled graph", PySequence_Fast_GET_ITEM(items, (Py_ssize_t)done),
                            "a tensor or a number", &results[done]);
    if (status) cr_results_release(results, done - 1);
    Py_DECREF(items);
    return status;
}

static PyObject *call_code(PyObject *fn, const cr_arg *inputs, size_t n) {
    PyObject *list = PyList_New((Py_ssize_t)n), *boxed = NULL, *made = NULL;
    for (size_t i = 0; list && i < n; i++) {
        PyObject *item = cr_py_borrowed(&cr_frontend_cresset, NULL, &inputs[i]);
        if (!item) Py_CLEAR(list);
        else PyList_SET_ITEM(list, (Py_ssize_t)i, item);
    }
    if (!list) return NULL;
    boxed = PyObject_GetAttrString(fn, "_boxed_call");
    if (!boxed) PyErr_Clear();
    if (boxed && PyObject_IsTrue(boxed) == 1) {
        made = PyObject_CallOneArg(fn, list);
    } else {
        PyObject *args = PyList_AsTuple(list);
        if (args) made = PyObject_CallObject(fn, args);
        Py_XDECREF(args);
    }
    Py_XDECREF(boxed);
    Py_DECREF(list);
    return made;
}

static cr_status run_code(void *code, const cr_arg *inputs, size_t n, cr_arg *results, size_t nresults) {
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *made = call_code(code, inputs, n);
    cr_status status = made ? take_results(made, results, nresults) : CR_EPYTHON;
    Py_XDECREF(made);
    PyGILState_Release(gil);
    return status;
}

static void release_object(void *o) {
    PyGILState_STATE gil = PyGILState_Ensure();
    Py_DECREF((PyObject *)o);
    PyGILState_Release(gil);
}

cr_status cr_py_code(PyObject *made, cr_aot_code *out) {
    if (!PyCallable_Check(made))
        return CR_FAIL(CR_ETYPE, "a compiler gave a %s; it must give something that can be called on the graph's "
                                 "inputs",
                       Py_TYPE(made)->tp_name);
    *out = (cr_aot_code){ run_code, release_object, Py_NewRef(made) };
    return CR_OK;
}

/* `user`: compile(role, graph) -> callable, or None for the interpreter. */
static cr_status compile(void *user, cr_aot_role role, cr_graph *g, cr_aot_code *out) {
    static const char *const roles[] = { "forward", "backward", "inference" };
    PyGILState_STATE gil = PyGILState_Ensure();
    cr_graph_retain(g);
    PyObject *graph = cr_py_graph_new(g);
    PyObject *made = graph ? PyObject_CallFunction(user, "sN", roles[role], graph) : NULL;
    cr_status status = made == Py_None ? cr_aot_interpret(g, out) : made ? cr_py_code(made, out) : CR_EPYTHON;
    Py_XDECREF(made);
    PyGILState_Release(gil);
    return status;
}

/* ---- recording ---- */

typedef struct recording {
    cr_trace *trace;
    cr_fakes fakes;
    cr_py_frame frame;
    PyObject *fakes_list;   /* what the function is called on */
    cr_py_ahead ahead;      /* per placeholder: the tensor and its fake */
} recording;

/* A symbolic size for each dimension of two or more elements. */
static uint32_t dynamic_dims(const cr_meta *m) {
    uint32_t mask = 0;
    for (int d = 0; d < m->rank; d++)
        if (m->size[d] > 1) mask |= 1u << d;
    return mask;
}

static int add_input(recording *r, PyObject *o, const char *name, bool dynamic) {
    cr_tensor *t = cr_frontend_need(&r->frame, o, "an input must be a Tensor, not %s"), *fake = NULL;
    if (!t) return -1;
    cr_status status = cr_fake_from(&r->fakes, t, dynamic ? dynamic_dims(&t->meta) : 0, NULL, &fake);
    if (!status) status = cr_trace_input(r->trace, name, fake);
    if (status) return cr_tensor_release(fake), cr_py_fail(status);
    if (cr_tensor_requires_grad(t)) fake->meta.flags |= CR_META_REQUIRES_GRAD; /* what the program may ask */
    r->ahead.inputs[r->ahead.n] = t;
    r->ahead.stand_ins[r->ahead.n++] = fake;
    PyObject *shown = cr_frontend_of(o)->stand_in(o, fake);
    int failed = !shown || PyList_Append(r->fakes_list, shown);
    Py_XDECREF(shown);
    return failed ? -1 : 0;
}

static int add_inputs(recording *r, PyObject *inputs, PyObject *names, Py_ssize_t fixed, bool dynamic) {
    Py_ssize_t n = PyList_GET_SIZE(inputs);
    r->ahead.inputs = PyMem_Calloc((size_t)n + 1, sizeof *r->ahead.inputs);
    r->ahead.stand_ins = PyMem_Calloc((size_t)n + 1, sizeof *r->ahead.stand_ins);
    r->fakes_list = PyList_New(0);
    if (!r->ahead.inputs || !r->ahead.stand_ins || !r->fakes_list) return PyErr_NoMemory(), -1;
    for (Py_ssize_t i = 0; i < n; i++) {
        const char *name = PyUnicode_AsUTF8(PyList_GET_ITEM(names, i));
        if (!name || add_input(r, PyList_GET_ITEM(inputs, i), name, dynamic && i >= fixed)) return -1;
    }
    return 0;
}

/* The results as the graph's outputs; is_input: which of the inputs each is. */
static cr_graph *finish(recording *r, PyObject *results, int32_t **is_input) {
    PyObject *items = PySequence_Fast(results, "the function must give a list of tensors");
    Py_ssize_t n = items ? PySequence_Fast_GET_SIZE(items) : 0;
    cr_arg *args = PyMem_Calloc((size_t)n + 1, sizeof *args);
    cr_graph *g = NULL;
    cr_py_frame f;
    *is_input = PyMem_Calloc((size_t)n + 1, sizeof **is_input);
    cr_py_frame_init(&f);
    bool good = items && args && *is_input;
    for (Py_ssize_t i = 0; good && i < n; i++) {
        good = !cr_py_convert(&f, PySequence_Fast_GET_ITEM(items, i), &args[i]);
        (*is_input)[i] = -1;
        for (size_t k = 0; good && k < r->ahead.n; k++)
            if (args[i].kind == CR_ARG_TENSOR && args[i].u.t == r->ahead.stand_ins[k]) (*is_input)[i] = (int32_t)k;
    }
    if (good) {
        cr_status status = cr_trace_finish(r->trace, args, (size_t)n, &g);
        if (status) cr_py_raise(status);
    }
    cr_py_frame_dispose(&f);
    PyMem_Free(args);
    Py_XDECREF(items);
    return g;
}

/* ---- the object ---- */

static PyObject *make(recording *r, PyObject *results, PyObject *compiler, const cr_partition_options *partition) {
    int32_t *is_input = NULL;
    cr_graph *g = finish(r, results, &is_input);
    py_aot *o = g ? PyObject_New(py_aot, &aot_type) : NULL;
    if (o) {
        cr_aot_compiler c = { .compile = compile, .partition = *partition, .release = release_object,
                              .user = Py_NewRef(compiler) };
        o->aot = NULL;
        o->recorded = g;
        cr_recorded recorded = { g, r->ahead.inputs, is_input, false };
        cr_status status = cr_aot_create(&recorded, &c, &o->aot);
        /* no code can stand for it, or it fails: then what it does before that is done, too */
        o->fails = status == CR_ERUNTIME;
        if (status == CR_EUNSUPPORTED || status == CR_ERUNTIME)
            status = cr_aot_replay(&recorded, cr_error_message(), &o->aot);
        if (status) {
            Py_CLEAR(o);
            cr_py_raise(status);
        }
    } else {
        cr_graph_release(g);
    }
    PyMem_Free(is_input);
    return (PyObject *)o;
}

static void recording_close(recording *r) {
    Py_XDECREF(r->fakes_list);
    PyMem_Free(r->ahead.inputs);
    PyMem_Free(r->ahead.stand_ins);
    cr_trace_release(r->trace);
    cr_fakes_dispose(&r->fakes);
    cr_py_frame_dispose(&r->frame);
}

/* fn takes a list of tensors and gives a list of tensors and symbolic numbers; what it gives. */
static PyObject *record(recording *r, PyObject *fn, PyObject *inputs, PyObject *names, Py_ssize_t fixed, bool dynamic) {
    cr_env *env = NULL;
    PyObject *results = NULL;
    if (PyList_GET_SIZE(names) != PyList_GET_SIZE(inputs))
        return PyErr_Format(PyExc_ValueError, "there are %zd names for %zd inputs", PyList_GET_SIZE(names),
                            PyList_GET_SIZE(inputs));
    cr_status status = cr_env_create(&env);
    if (!status) status = cr_trace_create(env, &r->trace);
    if (status) {
        cr_env_release(env);
        return cr_py_raise(status);
    }
    cr_fakes_init(&r->fakes, env);
    r->fakes.zero_one = true;
    cr_env_release(env);
    if (add_inputs(r, inputs, names, fixed, dynamic)) return NULL;
    cr_ambient *ambient = cr_ambient_get();
    cr_py_ahead *ahead = ambient->ahead;
    bool grad = ambient->grad, refused = ambient->refused;
    ambient->ahead = &r->ahead;
    ambient->refused = false;
    cr_trace_begin(r->trace, true);
    results = PyObject_CallOneArg(fn, r->fakes_list);
    cr_trace_end(r->trace);
    ambient->ahead = ahead;
    ambient->grad = grad;
    if (ambient->refused && results) {
        Py_CLEAR(results);
        cr_py_raise(CR_FAIL(CR_EUNSUPPORTED, "the function has caught an UnsupportedError and goes on: what it did not "
                                             "get, it would get from eager code; call it without compiling it"));
    }
    ambient->refused = refused;
    return results;
}

static cr_status run_recorded(const recording *r) {
    cr_graph *g = NULL;
    cr_arg *inputs = cr_calloc(r->ahead.n + 1, sizeof *inputs);
    cr_status status = inputs ? cr_trace_finish(r->trace, NULL, 0, &g) : CR_ENOMEM;
    for (size_t i = 0; i < r->ahead.n && !status; i++) inputs[i] = cr_arg_tensor(r->ahead.inputs[i]);
    if (!status) status = cr_graph_run(g, inputs, r->ahead.n, NULL, 0);
    cr_graph_release(g);
    cr_free(inputs);
    return status;
}

/* The program fails on fakes as it would have failed on the inputs: what it did to them before that is done, or fails
 * before. What fails because it is recorded leaves nothing behind. */
static void do_recorded(const recording *r) {
    PyObject *type, *value, *traceback;
    bool recording = PyErr_ExceptionMatches(cr_py_unsupported_error) ||
                     PyErr_ExceptionMatches(cr_py_data_dependent_error) || !PyErr_ExceptionMatches(PyExc_Exception);
    if (!r->trace || recording) return;
    PyErr_Fetch(&type, &value, &traceback);
    cr_status status = run_recorded(r);
    if (!status) {
        PyErr_Restore(type, value, traceback);
        return;
    }
    Py_XDECREF(type), Py_XDECREF(value), Py_XDECREF(traceback);
    cr_py_raise(status);
}

static PyObject *aot(PyObject *module, PyObject *args, PyObject *kwargs) {
    static char *keywords[] = { "fn", "inputs", "names", "compile", "fixed", "dynamic", "min_cut", "budget", "called",
                                NULL };
    PyObject *fn, *inputs, *names, *compiler;
    Py_ssize_t fixed = 0;
    int dynamic = 0, min_cut = 0, called = 0;
    cr_partition_options partition = { .budget = 1 };
    recording r = { .trace = NULL };
    (void)module;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO!O!O|nppdp:_aot", keywords, &fn, &PyList_Type, &inputs,
                                     &PyList_Type, &names, &compiler, &fixed, &dynamic, &min_cut, &partition.budget,
                                     &called))
        return NULL;
    partition.kind = min_cut ? CR_PARTITION_MIN_CUT : CR_PARTITION_DEFAULT;
    cr_py_frame_init(&r.frame);
    PyObject *results = record(&r, fn, inputs, names, fixed, dynamic);
    PyObject *o = results ? make(&r, results, compiler, &partition) : NULL;
    if (!results && called) do_recorded(&r);
    Py_XDECREF(results);
    recording_close(&r);
    return o;
}

/* What the program does to its inputs and what its results are, by the names of cr_aot_kind. */
static PyObject *described(cr_graph *g, const cr_recorded *recorded) {
    static const char *const kinds[] = {
        [CR_AOT_FRESH] = "fresh",           [CR_AOT_IS_INPUT] = "is_input",
        [CR_AOT_IS_OUTPUT] = "is_output",   [CR_AOT_OF_INPUT] = "of_input",
        [CR_AOT_OF_OUTPUT] = "of_output",   [CR_AOT_OF_INTERMEDIATE] = "of_intermediate",
        [CR_AOT_CONSTANT] = "constant",     [CR_AOT_NUMBER] = "number",
    };
    cr_metadata m;
    cr_status status = cr_metadata_find(recorded, &m);
    if (status) return cr_py_raise(status);
    cr_str text;
    cr_str_init(&text);
    cr_metadata_print(&m, &text);
    PyObject *writes = PyTuple_New(m.ninputs), *outputs = PyTuple_New(m.noutputs), *said = cr_py_text(&text), *o = NULL;
    for (uint32_t i = 0; writes && i < m.ninputs; i++)
        PyTuple_SET_ITEM(writes, i, PyLong_FromLong(m.inputs[i].writes));
    for (uint32_t i = 0; outputs && i < m.noutputs; i++)
        PyTuple_SET_ITEM(outputs, i, PyUnicode_FromString(kinds[m.outputs[i].kind]));
    cr_metadata_dispose(&m);
    cr_graph_retain(g);
    PyObject *graph = cr_py_graph_new(g);
    if (graph && writes && outputs && said) o = PyTuple_Pack(4, graph, writes, outputs, said);
    Py_XDECREF(graph);
    Py_XDECREF(writes);
    Py_XDECREF(outputs);
    Py_XDECREF(said);
    return o;
}

static PyObject *aot_record(PyObject *module, PyObject *args, PyObject *kwargs) {
    static char *keywords[] = { "fn", "inputs", "names", "fixed", "dynamic", NULL };
    PyObject *fn, *inputs, *names, *o = NULL;
    Py_ssize_t fixed = 0;
    int dynamic = 0;
    int32_t *is_input = NULL;
    recording r = { .trace = NULL };
    (void)module;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO!O!|np:_aot_record", keywords, &fn, &PyList_Type, &inputs,
                                     &PyList_Type, &names, &fixed, &dynamic))
        return NULL;
    cr_py_frame_init(&r.frame);
    PyObject *results = record(&r, fn, inputs, names, fixed, dynamic);
    cr_graph *g = results ? finish(&r, results, &is_input) : NULL;
    cr_graph *settled = NULL;
    cr_status status = g ? cr_settle_memory(g, r.ahead.inputs, &settled) : CR_OK;
    if (settled) {
        cr_graph_release(g);
        g = settled;
    }
    if (status) cr_py_raise(status);
    else if (g) o = described(g, &(cr_recorded){ .graph = g, .inputs = r.ahead.inputs, .is_input = is_input });
    cr_graph_release(g);
    PyMem_Free(is_input);
    Py_XDECREF(results);
    recording_close(&r);
    return o;
}

static void aot_dealloc(PyObject *self) {
    cr_aot_release(((py_aot *)self)->aot);
    cr_graph_release(((py_aot *)self)->recorded);
    PyObject_Free(self);
}

static cr_status call(cr_aot *a, const cr_arg *inputs, size_t n, cr_arg *results) {
    PyThreadState *thread = PyEval_SaveThread();
    cr_status status = cr_aot_call(a, inputs, n, results, NULL);
    PyEval_RestoreThread(thread);
    return status;
}

static PyObject *aot_call(PyObject *self, PyObject *inputs) {
    cr_aot *a = ((py_aot *)self)->aot;
    const cr_metadata *m = cr_aot_metadata(a);
    cr_py_frame f;
    PyObject *list = NULL, *items = PySequence_Fast(inputs, "call() takes a list of tensors");
    if (!items) return NULL;
    Py_ssize_t n = PySequence_Fast_GET_SIZE(items), done = 0;
    cr_arg *args = PyMem_Calloc((size_t)n + m->noutputs + 1, sizeof *args), *results = args + n;
    cr_py_frame_init(&f);
    for (; args && done < n; done++)
        if (cr_py_convert(&f, PySequence_Fast_GET_ITEM(items, done), &args[done])) break;
    if (args && done == n) {
        cr_status status = call(a, args, (size_t)n, results);
        if (status) cr_py_raise(status);
        else if ((list = PyList_New(m->noutputs)))
            for (uint32_t i = 0; list && i < m->noutputs; i++) {
                PyObject *o = cr_py_from_arg_of(NULL, &results[i], true);
                if (!o) Py_CLEAR(list);
                else PyList_SET_ITEM(list, i, o);
            }
    } else if (!PyErr_Occurred()) {
        PyErr_Format(PyExc_TypeError, "call(): input %zd is no tensor", done);
    }
    cr_py_frame_dispose(&f);
    PyMem_Free(args);
    Py_DECREF(items);
    return list;
}

static PyObject *graph_or_none(cr_graph *g) {
    if (!g) Py_RETURN_NONE;
    cr_graph_retain(g);
    return cr_py_graph_new(g);
}

static PyObject *get_recorded(PyObject *self, void *unused) {
    (void)unused;
    return graph_or_none(((py_aot *)self)->recorded);
}
static PyObject *get_functional(PyObject *self, void *unused) {
    (void)unused;
    return graph_or_none(cr_aot_functional(((py_aot *)self)->aot));
}
static PyObject *get_joint(PyObject *self, void *unused) {
    const cr_joint *j = cr_aot_joint(((py_aot *)self)->aot);
    (void)unused;
    return graph_or_none(j ? j->graph : NULL);
}
static PyObject *get_metadata(PyObject *self, void *unused) {
    cr_str text;
    (void)unused;
    cr_str_init(&text);
    cr_metadata_print(cr_aot_metadata(((py_aot *)self)->aot), &text);
    return cr_py_text(&text);
}

static PyObject *get_fails(PyObject *self, void *unused) {
    (void)unused;
    return PyBool_FromLong(((py_aot *)self)->fails);
}

static PyMethodDef methods[] = {
    { "call", aot_call, METH_O, "call(inputs): the results, as a list." },
    { NULL, NULL, 0, NULL },
};
static PyGetSetDef attributes[] = {
    { "recorded", get_recorded, NULL, "The program as it ran.", NULL },
    { "functional", get_functional, NULL, "The same without writes: new values of inputs first.", NULL },
    { "joint", get_joint, NULL, "With its derivative; None: nothing requires grad.", NULL },
    { "metadata", get_metadata, NULL, "What it does to its inputs and what its results are, as text.", NULL },
    { "fails", get_fails, NULL, "Does the call that it was recorded for fail?", NULL },
    { NULL, NULL, NULL, NULL, NULL },
};
static PyTypeObject aot_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "cresset._C._Aot",
    .tp_basicsize = sizeof(py_aot),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "A program that was recorded and compiled with its gradients.",
    .tp_dealloc = aot_dealloc,
    .tp_methods = methods,
    .tp_getset = attributes,
};
/* ---- what compiled code depends on ---- */

typedef CR_VEC(int64_t) words;

static cr_status add_numbers(words *key, const cr_dim *numbers, int n) {
    for (int i = 0; i < n; i++) CR_TRY(cr_vec_push(key, (int64_t)numbers[i]));
    return CR_OK;
}

static cr_status add_place(words *key, const cr_meta *m) {
    CR_TRY(cr_vec_push(key, (int64_t)m->offset));
    CR_TRY(add_numbers(key, m->size, m->rank));
    return add_numbers(key, m->stride, m->rank);
}

static cr_tensor *root_of(cr_tensor *t) { return t->base ? t->base : t; }

static bool shares_memory(cr_tensor *const *at, Py_ssize_t n, const cr_tensor *t) {
    for (Py_ssize_t i = 0; i < n; i++)
        if (at[i] != t && at[i]->storage == t->storage) return true;
    return false;
}

/* Its dtype and rank, whether it requires grad, how it lies, and the first tensors that it is, whose memory and whose
 * root it has; where memory is shared, its place in it, too, and its root's: the code has those places as numbers. */
static cr_status add_tensor(words *key, cr_tensor *const *at, Py_ssize_t n, cr_tensor *t, bool *shared) {
    const cr_meta *m = &t->meta;
    Py_ssize_t same = 0, memory = 0, root = 0;
    while (at[same] != t) same++;
    while (at[memory]->storage != t->storage) memory++;
    while (root_of(at[root]) != root_of(t)) root++;
    int64_t kind = cr_tensor_requires_grad(t) | (int64_t)m->dtype << 1 | (int64_t)m->rank << 9 |
                   (int64_t)(m->flags & (CR_META_CONJ | CR_META_NEG)) << 16 |
                   (int64_t)cr_tensor_requires_grad(root_of(t)) << 24;
    bool plain = cr_meta_is_contiguous(NULL, m, CR_CONTIGUOUS) == CR_YES, shares = shares_memory(at, n, t);
    const int64_t all[] = { same, memory, root, kind, plain, shares };
    for (size_t i = 0; i < CR_COUNT(all); i++) CR_TRY(cr_vec_push(key, all[i]));
    *shared |= shares;
    if (shares) CR_TRY(add_place(key, &root_of(t)->meta));
    return shares ? add_place(key, m) : plain ? CR_OK : add_numbers(key, m->stride, m->rank);
}

static PyObject *aot_key(PyObject *module, PyObject *tensors) {
    (void)module;
    if (!PyList_Check(tensors)) return PyErr_Format(PyExc_TypeError, "_aot_key() takes a list of tensors");
    Py_ssize_t n = PyList_GET_SIZE(tensors), done = 0;
    cr_tensor **at = PyMem_Calloc((size_t)n + 1, sizeof *at);
    words key = { 0 };
    cr_py_frame f;
    PyObject *o = NULL;
    bool shared = false;
    cr_py_frame_init(&f);
    for (; at && done < n; done++)
        if (!(at[done] = cr_frontend_need(&f, PyList_GET_ITEM(tensors, done), "expected a Tensor, not %s"))) break;
    cr_status status = at ? CR_OK : CR_ENOMEM;
    for (Py_ssize_t i = 0; i < n && done == n && !status; i++) status = add_tensor(&key, at, n, at[i], &shared);
    if (status) cr_py_raise(status);
    else if (done == n)
        o = Py_BuildValue("(y#OO)", (const char *)key.at, (Py_ssize_t)(key.n * sizeof *key.at),
                          cr_ambient_get()->grad ? Py_True : Py_False, shared ? Py_True : Py_False);
    cr_py_frame_dispose(&f);
    cr_vec_dispose(&key);
    PyMem_Free(at);
    return o;
}

static PyMethodDef functions[] = {
    { "_aot_key", aot_key, METH_O,
      "_aot_key(tensors): (what compiled code depends on, beside their sizes; grad mode; do different ones share "
      "memory?)." },
    { "_aot", (PyCFunction)(void (*)(void))aot, METH_VARARGS | METH_KEYWORDS,
      "_aot(fn, inputs, names, compile, fixed=0, dynamic=False, min_cut=False, budget=1.0, called=False): records "
      "fn(inputs) and compiles it; the first `fixed` inputs have sizes that stay. compile(role, graph): a callable, or "
      "None for the interpreter. called: where fn fails, what it did to the inputs before is done." },
    { "_aot_record", (PyCFunction)(void (*)(void))aot_record, METH_VARARGS | METH_KEYWORDS,
      "_aot_record(fn, inputs, names, fixed=0, dynamic=False): (the graph of fn(inputs), what is written of each "
      "input: 1 data, 2 sizes and strides; what each result is, the same as text)." },
    { NULL, NULL, 0, NULL },
};

int cr_py_aot_type_init(PyObject *module) {
    return PyType_Ready(&aot_type) || PyModule_AddFunctions(module, functions) ? -1 : 0;
}
