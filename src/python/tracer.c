/* tracer.c: what cresset.export traces with: cresset._C._Tracer. program_new.c makes a program of what it recorded.
 *
 * A tracer records a module's forward on fakes. State and user inputs are placeholders from the beginning; real tensors
 * that the program meets on its way become further ones, put between state and user inputs, by the name they have in
 * the module or as lifted_tensor_N. It is also the object that modules tell when they are called (enter, leave). */
#include "python/program.h"
#include "python/tracer.h"

#include "runtime/rt_random.h"

typedef struct lifted_version { const cr_tensor *tensor; uint64_t version; } lifted_version; /* kept by the list */
typedef struct cr_py_tracer {
    PyObject_HEAD
    PyObject *mode;       /* the FakeTensorMode */
    cr_trace *trace;
    cr_py_origins origins;
    PyObject *names;      /* {id(cr_tensor): name} of the module's tensor attributes */
    PyObject *lifted;     /* [(name, tensor)] */
    PyObject *problems;   /* [(kind, message, location)] that were passed over */
    bool reports;         /* are problems noted, where one can go on? */
    uint32_t first_user;  /* node of the first user input; CR_NO_NODE: none yet */
    uint32_t first_lifted; /* nodes before it are state */
    unsigned unnamed;
    cr_names *fx_names;   /* after finish() */
    cr_graph *graph;      /* likewise */
    CR_VEC(cr_grad_mark) marks; /* where forward set the gradient mode */
    bool grad;            /* the mode it began with */
    const char *root;     /* the module stack of the outermost module */
    CR_VEC(lifted_version) versions; /* when they were lifted */
    const cr_frontend *frontend; /* whose module it is */
    uint8_t *generator;   /* the default generator's state before forward let it start over; NULL: it did not */
} py_tracer;

static PyTypeObject tracer_type;

/* ---- hooks ---- */

static cr_status find_origin(void *user, const cr_op *op, cr_origin *out) {
    return cr_py_origins_find(&((py_tracer *)user)->origins, op, out);
}

static PyObject *lifted_name(py_tracer *t, cr_tensor *tensor) {
    PyObject *key = PyLong_FromVoidPtr(tensor), *name = key ? PyDict_GetItemWithError(t->names, key) : NULL;
    Py_XDECREF(key);
    if (name || PyErr_Occurred()) return Py_XNewRef(name);
    return PyUnicode_FromFormat("lifted_tensor_%u", t->unnamed++);
}

static cr_status lift(void *user, cr_trace *trace, cr_tensor *tensor, uint32_t *value) {
    py_tracer *t = user;
    cr_graph *g = cr_trace_graph(trace);
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *name = lifted_name(t, tensor);
    const char *text = name ? PyUnicode_AsUTF8(name) : NULL;
    cr_tensor_retain(tensor);
    PyObject *item = text ? Py_BuildValue("(ON)", name, t->frontend->wrap(tensor)) : (cr_tensor_release(tensor), NULL);
    cr_status status = item && !PyList_Append(t->lifted, item) ? CR_OK : CR_FAIL(CR_ENOMEM, "out of memory");
    if (!status) status = cr_graph_placeholder(g, text, &tensor->meta, value);
    if (!status) status = cr_vec_push(&t->versions, ((lifted_version){ tensor, cr_storage_writes(tensor->storage) }));
    if (!status && t->first_user != CR_NO_NODE) cr_graph_move(g, cr_graph_value(g, *value)->node, t->first_user);
    Py_XDECREF(item);
    Py_XDECREF(name);
    PyErr_Clear();
    PyGILState_Release(gil);
    return status;
}

/* ---- literals ---- */

cr_status cr_py_fresh(cr_tensor *tensor, bool detach) {
    static const cr_op *lift_fresh, *detach_;
    cr_arg arg = cr_arg_tensor(tensor), copy = cr_arg_none(), detached = cr_arg_none();
    const py_tracer *active = cr_ambient_get()->tracer;
    if (!active || cr_tensor_is_fake(tensor) || cr_ambient_get()->mode.depth) return CR_OK;
    if (!lift_fresh) lift_fresh = cr_op_find("aten::lift_fresh_copy"), detach_ = cr_op_find("aten::detach_");
    if (!lift_fresh || !detach_)
        return CR_FAIL(CR_ENOTIMPL, "there is no op 'aten::lift_fresh_copy' or 'aten::detach_'");
    CR_TRY(cr_call(lift_fresh, &arg, &copy));
    cr_status status = detach ? cr_call(detach_, &copy, &detached) : CR_OK;
    uint32_t value;
    if (!status && cr_trace_find(active->trace, copy.u.t, &value)) status = cr_trace_bind(active->trace, tensor, value);
    cr_results_release(&copy, 1);
    cr_results_release(&detached, 1);
    return status;
}

cr_status cr_py_visit_frames(cr_py_visit visit, void *to) {
    const py_tracer *t = cr_ambient_get()->tracer;
    return t && t->origins.walk ? t->origins.walk(t->origins.user, visit, to) : cr_py_visit_own_frames(visit, to);
}

static PyObject *user_location(void) {
    PyObject *o = cr_py_user_text();
    if (!o) PyErr_Clear();
    return o ? o : Py_NewRef(Py_None);
}

bool cr_py_pass_over(const char *kind) {
    const py_tracer *active = cr_ambient_get()->tracer;
    if (!active || !active->reports) return false;
    PyObject *item = Py_BuildValue("(ssN)", kind, cr_error_message(), user_location());
    int known = item ? PySequence_Contains(active->problems, item) : -1;
    if (known == 0) known = PyList_Append(active->problems, item);
    Py_XDECREF(item);
    PyErr_Clear();
    return known >= 0;
}

int cr_py_note_grad_mode(bool enabled) {
    py_tracer *active = cr_ambient_get()->tracer;
    if (!active || cr_ambient_get()->mode.recorder == NULL) return 0;
    int noted = cr_py_body_note_grad_mode(enabled);
    if (noted) return noted < 0 ? -1 : 0;
    const cr_graph *g = cr_trace_graph(active->trace);
    uint32_t next = 0;
    for (uint32_t n = cr_graph_first(g); n != CR_NO_NODE; n = cr_graph_next(g, n)) next = CR_MAX(next, n + 1);
    return cr_vec_push(&active->marks, ((cr_grad_mark){ next, enabled })) ? (PyErr_NoMemory(), -1) : 0;
}

bool cr_py_is_exporting(void) { return cr_ambient_get()->tracer != NULL; }

bool cr_py_is_settled(const cr_tensor *tensor) {
    const py_tracer *active = cr_ambient_get()->tracer;
    if (!active || cr_tensor_is_fake(tensor)) return false;
    for (size_t i = 0; i < active->versions.n; i++) {
        const lifted_version *known = &active->versions.at[i];
        if (known->tensor == tensor) return known->version == cr_storage_writes(tensor->storage);
    }
    return true;
}

/* ---- life ---- */

static PyObject *tracer_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = { "mode", "modules", "attributes", "reports", NULL };
    PyObject *mode, *modules, *attributes, *key, *value;
    int reports = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO!O!|p:_Tracer", names, &mode, &PyDict_Type, &modules,
                                     &PyDict_Type, &attributes, &reports))
        return NULL;
    cr_fakes *fakes = cr_py_mode_fakes(mode);
    if (!fakes) return NULL;
    py_tracer *t = (py_tracer *)type->tp_alloc(type, 0);
    if (!t) return NULL;
    cr_py_origins_init(&t->origins);
    t->mode = Py_NewRef(mode);
    t->origins.modules = Py_NewRef(modules);
    t->first_user = CR_NO_NODE;
    t->names = PyDict_New();
    t->lifted = PyList_New(0);
    t->problems = PyList_New(0);
    t->reports = reports;
    t->frontend = &cr_frontend_cresset; /* until a module is run */
    if (!t->names || !t->lifted || !t->problems) goto failed;
    for (Py_ssize_t at = 0; PyDict_Next(attributes, &at, &key, &value);) { /* name -> tensor; the first name wins */
        cr_py_frame f;
        cr_py_frame_init(&f);
        cr_tensor *tensor = cr_frontend_tensor(&f, value);
        PyObject *id = tensor ? PyLong_FromVoidPtr(tensor) : NULL;
        bool known = !id || PyDict_SetDefault(t->names, id, key);
        Py_XDECREF(id);
        cr_py_frame_dispose(&f);
        if (!known || PyErr_Occurred()) goto failed;
    }
    cr_status status = cr_trace_create(fakes->env, &t->trace);
    if (status) {
        cr_py_raise(status);
        goto failed;
    }
    cr_trace_export(t->trace, &(cr_trace_hooks){ .origin = find_origin, .lift = lift, .user = t });
    return (PyObject *)t;
failed:
    Py_DECREF(t);
    return NULL;
}

static void tracer_dealloc(PyObject *self) {
    py_tracer *t = (py_tracer *)self;
    cr_trace_release(t->trace);
    cr_names_free(t->fx_names);
    cr_graph_release(t->graph);
    cr_vec_dispose(&t->versions);
    cr_vec_dispose(&t->marks);
    cr_py_origins_dispose(&t->origins);
    Py_XDECREF(t->mode);
    Py_XDECREF(t->names);
    Py_XDECREF(t->lifted);
    Py_XDECREF(t->problems);
    Py_TYPE(self)->tp_free(self);
}

/* ---- inputs ---- */

/* A fake of a tensor with all sizes as they are, of the same Python class. */
static PyObject *tracer_fake(PyObject *self, PyObject *tensor) {
    cr_tensor *fake = NULL;
    cr_py_frame f;
    cr_py_frame_init(&f);
    PyObject *o = NULL;
    const cr_tensor *t = cr_frontend_need(&f, tensor, "fake() takes a Tensor, not %s");
    if (t) {
        cr_status status = cr_fake_from(cr_py_mode_fakes(((py_tracer *)self)->mode), t, 0, NULL, &fake);
        o = status ? cr_py_raise(status) : cr_frontend_of(tensor)->stand_in(tensor, fake);
    }
    cr_py_frame_dispose(&f);
    return o;
}

/* A number's expression; NULL for what is no symbolic number. */
static cr_sym read_expr(PyObject *o, cr_env *env) {
    cr_arg number;
    if (!cr_py_sym_read(o, &number)) return NULL;
    return number.kind == CR_ARG_SYM ? number.u.sym : cr_dim_sym(env, number.u.i);
}

static cr_status add_number(cr_trace *trace, const char *name, cr_sym e) {
    static const cr_type types[] = {
        [CR_TYPE_INT] = CR_T_INT, [CR_TYPE_FLOAT] = CR_T_FLOAT, [CR_TYPE_BOOL] = CR_T_BOOL
    };
    return cr_trace_input_number(trace, name, types[cr_sym_type_of(e)], e);
}

/* A placeholder for a number or text that is settled: it has a value, which nobody uses. */
static cr_status add_constant(cr_trace *trace, const char *name, PyObject *o) {
    cr_env *env = cr_graph_env(cr_trace_graph(trace));
    cr_sym e = NULL;
    int overflow = 0;
    if (PyBool_Check(o)) e = cr_sym_bool(env, o == Py_True);
    else if (PyFloat_Check(o)) e = cr_sym_float(env, PyFloat_AS_DOUBLE(o));
    else if (PyLong_Check(o)) {
        long long value = PyLong_AsLongLongAndOverflow(o, &overflow);
        if (overflow) return CR_FAIL(CR_EOVERFLOW, "input '%s' is too large an integer", name);
        e = cr_sym_int(env, value);
    } else if (PyUnicode_Check(o)) {
        return cr_trace_input_number(trace, name, CR_T_STR, NULL);
    } else if (o == Py_None) {
        return cr_trace_input_number(trace, name, CR_T_ANY, NULL);
    } else {
        return CR_FAIL(CR_ETYPE, "input '%s' is a %s", name, Py_TYPE(o)->tp_name);
    }
    return e ? add_number(trace, name, e) : CR_FAIL(CR_ENOMEM, "out of memory");
}

static PyObject *tracer_input(PyObject *self, PyObject *args) {
    py_tracer *t = (py_tracer *)self;
    cr_graph *g = cr_trace_graph(t->trace);
    const char *name;
    PyObject *o;
    PyObject *real = NULL;
    int user;
    uint32_t value;
    cr_status status;
    if (!PyArg_ParseTuple(args, "sOp|O:input", &name, &o, &user, &real)) return NULL;
    uint32_t before = cr_graph_value_count(g);
    cr_sym e = read_expr(o, cr_graph_env(g));
    cr_py_frame f;
    cr_py_frame_init(&f);
    cr_tensor *fake = cr_frontend_tensor(&f, o), *meant = fake && real ? cr_frontend_tensor(&f, real) : NULL;
    if (PyErr_Occurred()) {
        status = CR_EPYTHON;
    } else if (fake) {
        /* one tensor under several names is known by the last of them */
        status = cr_graph_placeholder(g, name, &fake->meta, &value);
        if (!status) status = cr_trace_bind(t->trace, fake, value);
        if (!status && meant) status = cr_trace_bind(t->trace, meant, value); /* forward may hold the tensor itself */
    } else {
        status = e ? add_number(t->trace, name, e) : add_constant(t->trace, name, o);
    }
    cr_py_frame_dispose(&f);
    if (status) return cr_py_raise(status);
    if (user && t->first_user == CR_NO_NODE) t->first_user = cr_graph_value(g, before)->node;
    if (!user) t->first_lifted = cr_graph_value(g, before)->node + 1;
    Py_RETURN_NONE;
}

/* ---- running ---- */

/* A fake run draws no numbers: the generator, which all threads share, changes only where forward says so. */
void cr_py_keep_generator(void) {
    py_tracer *t = cr_ambient_get()->tracer;
    if (!t || t->generator || !(t->generator = PyMem_Malloc(RT_GENERATOR_STATE_BYTES))) return;
    rt_generator_get_state(cr_default_generator(), t->generator);
}

static void restore_generator(py_tracer *t) {
    char message[256] = "";
    rt_ctx ctx = cr_kernel_ctx(message, sizeof message);
    if (t->generator)
        (void)rt_generator_set_state(&ctx, cr_default_generator(), t->generator, RT_GENERATOR_STATE_BYTES);
    PyMem_Free(t->generator);
    t->generator = NULL;
}

cr_py_recording cr_py_tracer_begin(PyObject *tracer, PyObject *fn) {
    py_tracer *t = (py_tracer *)tracer;
    const cr_frontend *owner = cr_frontend_of(fn);
    if (owner) t->frontend = owner;
    cr_ambient *ambient = cr_ambient_get();
    cr_py_recording before = { ambient->tracer, t->frontend->ambient() };
    cr_trace_begin(t->trace, true);
    ambient->tracer = t;
    t->grad = before.ambient & CR_AMBIENT_GRAD;
    return before;
}

void cr_py_tracer_end(PyObject *tracer, cr_py_recording before) {
    py_tracer *t = (py_tracer *)tracer;
    cr_ambient_get()->tracer = before.outer;
    cr_trace_end(t->trace);
    t->frontend->set_ambient(before.ambient); /* what forward sets ends with it */
    restore_generator(t);
}

static PyObject *tracer_run(PyObject *self, PyObject *args) {
    PyObject *fn, *given, *keywords;
    if (!PyArg_ParseTuple(args, "OO!O!:run", &fn, &PyTuple_Type, &given, &PyDict_Type, &keywords)) return NULL;
    cr_py_recording before = cr_py_tracer_begin(self, fn);
    PyObject *result = PyObject_Call(fn, given, keywords);
    cr_py_tracer_end(self, before);
    return result;
}

static int enter(py_tracer *t, PyObject *module) {
    if (cr_py_origins_enter(&t->origins, module)) return -1;
    if (!t->root) t->root = t->origins.stack.at[0];
    return 0;
}

static PyObject *tracer_enter(PyObject *self, PyObject *module) {
    if (enter((py_tracer *)self, module)) return NULL;
    Py_RETURN_NONE;
}

static PyObject *tracer_leave(PyObject *self, PyObject *module) {
    (void)module;
    cr_py_origins_leave(&((py_tracer *)self)->origins);
    Py_RETURN_NONE;
}

/* replay(stack_trace, function): until the next, calls come from these lines and this function, as a program says of
 * them. */
static PyObject *tracer_replay(PyObject *self, PyObject *args) {
    cr_py_origins *o = &((py_tracer *)self)->origins;
    const char *lines, *call, *function;
    if (!PyArg_ParseTuple(args, "zzz:replay", &lines, &call, &function)) return NULL;
    if (cr_py_origins_replay(o, lines, call, function)) return PyErr_NoMemory();
    Py_RETURN_NONE;
}

static PyObject *tracer_value_of(PyObject *self, PyObject *leaf) {
    py_tracer *t = (py_tracer *)self;
    cr_py_frame f;
    cr_arg from, to;
    cr_py_frame_init(&f);
    int kind = cr_py_convert(&f, leaf, &from);
    cr_status status = kind ? CR_ETYPE : CR_OK;
    bool is_value = !kind && (from.kind == CR_ARG_TENSOR || from.kind == CR_ARG_SYM ||
                              (from.kind == CR_ARG_INT && !cr_dim_is_plain(from.u.i)));
    if (is_value) status = cr_trace_arg(t->trace, &from, &to);
    cr_py_frame_dispose(&f);
    if (kind < 0) return NULL;
    if (kind || !is_value) Py_RETURN_NONE;
    if (status) return cr_py_raise(status);
    if (to.kind != CR_ARG_VALUE) Py_RETURN_NONE;
    return PyLong_FromLongLong(to.u.i);
}

/* What writes have left of a tensor. */
static uint32_t last_written(const cr_graph *g, uint32_t value) {
    for (uint32_t v = value + 1; v < cr_graph_value_count(g); v++) {
        const cr_value *after = cr_graph_value(g, v);
        if (after->node == CR_NO_NODE || !after->hidden) continue;
        const cr_arg *written = &cr_graph_node(g, after->node)->args[after->ret];
        if (written->kind == CR_ARG_VALUE && written->u.i == value) value = v;
    }
    return value;
}

/* copy_back(name, value): a buffer was assigned a value, which is written to it at the end. */
static PyObject *tracer_copy_back(PyObject *self, PyObject *args) {
    py_tracer *t = (py_tracer *)self;
    cr_graph *g = cr_trace_graph(t->trace);
    const char *name;
    PyObject *value;
    cr_py_frame f;
    cr_arg from, inputs[3];
    uint32_t node;
    if (!PyArg_ParseTuple(args, "sO:copy_back", &name, &value)) return NULL;
    if (!cr_frontend_is_tensor(value))
        return PyErr_Format(PyExc_TypeError, "'%s' was assigned a %s, not a Tensor", name, Py_TYPE(value)->tp_name);
    uint32_t buffer = cr_graph_find(g, name);
    if (buffer == CR_NO_VALUE) return PyErr_Format(PyExc_KeyError, "the program has no input '%s'", name);
    buffer = last_written(g, buffer);
    cr_py_frame_init(&f);
    cr_status status = cr_py_convert(&f, value, &from) ? CR_ETYPE : cr_trace_arg(t->trace, &from, &inputs[1]);
    cr_py_frame_dispose(&f);
    if (status) return cr_py_raise(status);
    inputs[0] = (cr_arg){ .kind = CR_ARG_VALUE, .type = CR_T_TENSOR, .u.i = buffer };
    inputs[2] = cr_arg_bool(false);
    for (size_t i = 0; i < CR_COUNT(inputs); i++) inputs[i].given = CR_GIVEN_DEFAULT;
    const cr_node *made = inputs[1].kind == CR_ARG_VALUE
                              ? cr_graph_node(g, cr_graph_value(g, (uint32_t)inputs[1].u.i)->node)
                              : NULL;
    cr_origin origin = made ? made->origin : (cr_origin){ 0 };
    if (!origin.module_stack) origin.module_stack = t->root;
    status = cr_graph_set_origin(g, &origin);
    if (!status) status = cr_graph_call(g, cr_op_find("aten::copy_"), inputs, &node);
    if (!status) status = cr_graph_set_target(g, node, "copy__default");
    if (!status) status = cr_graph_set_origin(g, NULL);
    if (status) return cr_py_raise(status);
    Py_RETURN_NONE;
}

static PyObject *tracer_finish(PyObject *self, PyObject *leaves) {
    py_tracer *t = (py_tracer *)self;
    cr_py_frame f;
    PyObject *items = PySequence_Fast(leaves, "finish() takes the list of the flat outputs"), *done = NULL;
    if (!items) return NULL;
    size_t n = (size_t)PySequence_Fast_GET_SIZE(items);
    cr_arg *outputs = PyMem_Calloc(n + 1, sizeof *outputs);
    cr_py_frame_init(&f);
    int kind = outputs ? 0 : (PyErr_NoMemory(), -1);
    for (size_t i = 0; i < n && !kind; i++) {
        PyObject *o = PySequence_Fast_GET_ITEM(items, (Py_ssize_t)i);
        kind = cr_py_convert(&f, o, &outputs[i]);
        if (kind > 0) PyErr_Format(PyExc_TypeError, "output %zu is a %s", i, Py_TYPE(o)->tp_name);
    }
    if (!kind) {
        cr_arg ignored;
        cr_status status = cr_trace_set_origin(t->trace, &(cr_origin){ .module_stack = t->root });
        /* numbers that only results need */
        for (size_t i = 0; i < n && !status; i++) status = cr_trace_arg(t->trace, &outputs[i], &ignored);
        if (!status) status = cr_trace_set_origin(t->trace, NULL);
        if (!status) status = cr_trace_finish(t->trace, outputs, n, &t->graph);
        if (!status) status = cr_names_create(t->graph, &t->fx_names);
        done = status ? cr_py_raise(status) : Py_NewRef(Py_None);
    }
    cr_py_frame_dispose(&f);
    PyMem_Free(outputs);
    Py_DECREF(items);
    return done;
}

/* Lifted tensors that nobody uses are no inputs; unnamed ones are numbered without gaps. */
static int drop_unused_lifted(py_tracer *t) {
    uint32_t *uses = PyMem_Calloc(cr_graph_value_count(t->graph) + 1u, sizeof *uses);
    PyObject *kept = PyList_New(0);
    unsigned unnamed = 0;
    Py_ssize_t i = 0;
    if (!uses || !kept) goto failed;
    cr_graph_count_uses(t->graph, uses);
    uint32_t n = cr_graph_first(t->graph), next;
    for (; n != CR_NO_NODE && cr_graph_node(t->graph, n)->kind == CR_NODE_PLACEHOLDER && n != t->first_user; n = next) {
        next = cr_graph_next(t->graph, n);
        if (n < t->first_lifted) continue;
        PyObject *item = PyList_GET_ITEM(t->lifted, i++), *name = PyTuple_GET_ITEM(item, 0);
        if (!uses[cr_graph_node(t->graph, n)->first]) {
            cr_status status = cr_graph_erase(t->graph, n);
            if (status) return PyMem_Free(uses), Py_DECREF(kept), cr_py_fail(status);
            continue;
        }
        const char *text = PyUnicode_AsUTF8(name);
        PyObject *fresh = text && !strncmp(text, "lifted_tensor_", 14)
                              ? Py_BuildValue("(NO)", PyUnicode_FromFormat("lifted_tensor_%u", unnamed++),
                                              PyTuple_GET_ITEM(item, 1))
                              : Py_NewRef(item);
        int r = fresh ? PyList_Append(kept, fresh) : -1;
        Py_XDECREF(fresh);
        if (r) goto failed;
    }
    Py_SETREF(t->lifted, kept);
    PyMem_Free(uses);
    return 0;
failed:
    PyMem_Free(uses);
    Py_XDECREF(kept);
    return PyErr_Occurred() ? -1 : (PyErr_NoMemory(), -1);
}

static cr_status wrap_grad_modes(py_tracer *t) {
    return cr_program_wrap_grad_modes(t->graph, t->fx_names, t->marks.at, t->marks.n, t->grad, t->root);
}

static PyObject *tracer_arrange(PyObject *self, PyObject *asserts) {
    py_tracer *t = (py_tracer *)self;
    int guards = PyObject_IsTrue(asserts);
    if (guards < 0) return NULL;
    if (!t->graph) return PyErr_Format(PyExc_RuntimeError, "arrange(): finish() comes first");
    cr_status status = t->marks.n ? wrap_grad_modes(t) : CR_OK;
    if (!status) status = cr_program_arrange(t->graph, t->fx_names, t->root, asserts != Py_None, guards);
    if (status) return cr_py_raise(status);
    if (drop_unused_lifted(t)) return NULL;
    cr_graph_retain(t->graph);
    return cr_py_graph_new(t->graph);
}

static PyObject *get_lifted(PyObject *self, void *unused) {
    (void)unused;
    return Py_NewRef(((py_tracer *)self)->lifted);
}

static PyObject *get_problems(PyObject *self, void *unused) {
    (void)unused;
    return Py_NewRef(((py_tracer *)self)->problems);
}

static PyMethodDef tracer_methods[] = {
    { "fake", tracer_fake, METH_O, "fake(tensor): a fake with the same sizes, of the same class." },
    { "input", tracer_input, METH_VARARGS,
      "input(name, value, user, tensor=None): the next placeholder; a fake (of tensor), a symbolic number, or a "
      "settled value." },
    { "run", tracer_run, METH_VARARGS, "run(fn, args, kwargs): fn(*args, **kwargs), recorded." },
    { "enter", tracer_enter, METH_O, "enter(module): its call begins." },
    { "leave", tracer_leave, METH_O, "leave(module): its call ends." },
    { "replay", tracer_replay, METH_VARARGS,
      "replay(lines, call, function): where the calls that follow come from; None, None, None: from where they are "
      "made." },
    { "copy_back", tracer_copy_back, METH_VARARGS,
      "copy_back(name, value): writes the value to the input of that name." },
    { "finish", tracer_finish, METH_O, "finish(outputs): the flat outputs; nothing is recorded any more." },
    { "arrange", tracer_arrange, METH_O,
      "arrange(asserts): the graph, in the order that programs have; asserts: None: no assertions; True: conditions on "
      "sizes become some, too." },
    { "value_of", tracer_value_of, METH_O,
      "value_of(leaf): which value of the graph a tensor or symbolic number is; None when it is settled." },
    { NULL, NULL, 0, NULL },
};
static PyGetSetDef tracer_attributes[] = {
    { "lifted", get_lifted, NULL, "[(name, tensor)]: real tensors that the program met, in order.", NULL },
    { "problems", get_problems, NULL, "[(kind, message, location)]: what was passed over.", NULL },
    { NULL, NULL, NULL, NULL, NULL },
};
static PyTypeObject tracer_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "cresset._C._Tracer",
    .tp_basicsize = sizeof(py_tracer),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "_Tracer(mode, modules, attributes): records a module's forward for export.",
    .tp_new = tracer_new,
    .tp_dealloc = tracer_dealloc,
    .tp_methods = tracer_methods,
    .tp_getset = tracer_attributes,
};

cr_names *cr_py_tracer_names(PyObject *o) {
    return Py_IS_TYPE(o, &tracer_type) ? ((py_tracer *)o)->fx_names : NULL;
}

bool cr_py_tracer_check(PyObject *o) { return Py_IS_TYPE(o, &tracer_type); }
cr_trace *cr_py_tracer_trace(PyObject *tracer) { return ((py_tracer *)tracer)->trace; }
cr_py_origins *cr_py_tracer_origins(PyObject *tracer) { return &((py_tracer *)tracer)->origins; }

int cr_py_tracer_enter(PyObject *tracer, PyObject *module) { return enter((py_tracer *)tracer, module); }

static PyObject *exporting(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    py_tracer *t = cr_ambient_get()->tracer;
    return Py_NewRef(t && !t->origins.walk ? (PyObject *)t : Py_None);
}

static PyObject *is_exporting(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    return PyBool_FromLong(cr_py_is_exporting());
}

static PyMethodDef functions[] = {
    { "_exporting", exporting, METH_NOARGS,
      "_exporting(): the tracer of the export that runs on this thread, or None; None to a program that is captured." },
    { "_is_exporting", is_exporting, METH_NOARGS, "_is_exporting(): does an export record this thread?" },
    { NULL, NULL, 0, NULL },
};

int cr_py_tracer_init(PyObject *module) {
    if (PyType_Ready(&tracer_type) || PyModule_AddObjectRef(module, "_Tracer", (PyObject *)&tracer_type)) return -1;
    return PyModule_AddFunctions(module, functions);
}
