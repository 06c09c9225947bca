/* node_type.c: nodes of the tape as Python objects: grad_fn, their hooks, and functions written in Python.
 *
 * A Node holds its node, which knows it weakly: one object as long as somebody looks at it. The context of an
 * autograd.Function is the other way round: the node holds the context, and y.grad_fn is the context itself, which
 * knows its node only while that lives. Python's collector goes through both (cr_grad_node_traverse). */
#include "ops/batch.h"
#include "python/autograd_type.h"
#include "python/tensor.h"

#include <structmember.h>

typedef struct py_node {
    PyObject_HEAD cr_grad_node *node; /* owned, but by a context; NULL: a context whose node is gone, or never was */
    bool context;
} py_node;
static PyTypeObject node_type, context_type;
#define SELF(o) ((py_node *)(o))

cr_grad_node *cr_py_node_of(PyObject *o) {
    if (!PyObject_TypeCheck(o, &node_type)) return NULL;
    if (!SELF(o)->node)
        PyErr_Format(PyExc_RuntimeError,
                     "the %s recorded nothing, or its results are gone: only a grad_fn that a tensor still has can be "
                     "asked",
                     Py_TYPE(o)->tp_name);
    return SELF(o)->node;
}

static cr_status call_function(void *user, cr_tensor *const *grads, cr_tensor **out);
static void forget_function(void *user);
static void release_function(void *user);
static const char *function_name(const void *user) { return Py_TYPE((PyObject *)user)->tp_name; }
static const cr_node_vtable function_table = { function_name, call_function, forget_function, release_function,
                                               cr_py_traverse_user };

PyObject *cr_py_node_wrap(cr_grad_node *node) {
    void *user;
    void **shown = cr_grad_node_shown(node);
    PyObject *known = cr_grad_node_table(node, &user) == &function_table ? user : *shown;
    if (known) {
        Py_INCREF(known);
        cr_grad_node_release(node);
        return known;
    }
    py_node *o = PyObject_GC_New(py_node, &node_type);
    if (!o) {
        cr_grad_node_release(node);
        return NULL;
    }
    o->node = node;
    o->context = false;
    *shown = o;
    PyObject_GC_Track(o);
    return (PyObject *)o;
}

/* ---- life ---- */

typedef struct visitor { visitproc visit; void *arg; } visitor;
static int visit_object(void *object, void *arg) {
    const visitor *v = arg;
    return v->visit(object, v->arg);
}

static int node_traverse(PyObject *self, visitproc visit, void *arg) {
    if (SELF(self)->context || !SELF(self)->node) return 0;
    return cr_grad_node_traverse(SELF(self)->node, visit_object, &(visitor){ visit, arg });
}

static void node_dealloc(PyObject *self) {
    cr_grad_node *node = SELF(self)->context ? NULL : SELF(self)->node;
    PyObject_GC_UnTrack(self);
    if (node) {
        *cr_grad_node_shown(node) = NULL;
        SELF(self)->node = NULL;
        cr_grad_node_release(node);
    }
    Py_TYPE(self)->tp_free(self);
}

/* ---- what it is ---- */

static PyObject *node_name(PyObject *self, PyObject *unused) {
    (void)unused;
    cr_str text;
    if (SELF(self)->context) return PyUnicode_FromString(Py_TYPE(self)->tp_name);
    cr_str_init(&text);
    cr_grad_node_name(SELF(self)->node, &text);
    return cr_py_text(&text);
}

static PyObject *node_next(PyObject *self, void *unused) {
    (void)unused;
    cr_grad_node *n = cr_py_node_of(self);
    if (!n) return NULL;
    uint32_t count = cr_grad_node_edges(n), result;
    PyObject *edges = PyTuple_New(count);
    for (uint32_t i = 0; edges && i < count; i++) {
        cr_grad_node *next = cr_grad_node_edge(n, i, &result);
        if (next) cr_grad_node_retain(next);
        PyObject *edge = Py_BuildValue("(NI)", next ? cr_py_node_wrap(next) : Py_NewRef(Py_None), (unsigned)result);
        if (!edge) Py_CLEAR(edges);
        else PyTuple_SET_ITEM(edges, i, edge);
    }
    return edges;
}

static PyObject *node_variable(PyObject *self, void *unused) {
    (void)unused;
    cr_grad_node *n = cr_py_node_of(self);
    cr_tensor *leaf = n ? cr_grad_node_leaf(n) : NULL;
    if (!n) return NULL;
    if (!leaf) return PyErr_Format(PyExc_AttributeError, "only the node of a leaf has a variable");
    cr_tensor_retain(leaf);
    return cr_py_wrap(leaf);
}

static PyObject *node_order(PyObject *self, PyObject *unused) {
    (void)unused;
    cr_grad_node *n = cr_py_node_of(self);
    return n ? PyLong_FromUnsignedLongLong(cr_grad_node_order(n)) : NULL;
}

static PyObject *node_repr(PyObject *self) {
    PyObject *name = node_name(self, NULL);
    PyObject *text = name ? PyUnicode_FromFormat("<%U object at %p>", name, self) : NULL;
    Py_XDECREF(name);
    return text;
}

/* The dict that the node keeps for users, whoever looks at it. */
static PyObject *node_metadata(PyObject *self, void *unused) {
    (void)unused;
    cr_grad_node *n = cr_py_node_of(self);
    if (!n) return NULL;
    if (!cr_grad_node_kept(n)) {
        PyObject *dict = PyDict_New();
        if (!dict) return NULL;
        cr_status status = cr_grad_node_keep(n, &(cr_node_note){ dict, cr_py_release_user, cr_py_traverse_user });
        if (status) return cr_py_raise(status);
    }
    return Py_NewRef((PyObject *)cr_grad_node_kept(n));
}

/* ---- hooks ---- */

static PyObject *show_grads(cr_tensor *const *grads, uint32_t n) {
    PyObject *tuple = PyTuple_New(n);
    for (uint32_t i = 0; tuple && i < n; i++) {
        if (grads[i]) cr_tensor_retain(grads[i]);
        PyObject *o = grads[i] ? cr_py_wrap(grads[i]) : Py_NewRef(Py_None);
        if (o) PyTuple_SET_ITEM(tuple, i, o);
        else Py_CLEAR(tuple);
    }
    return tuple;
}

/* What a hook returned instead: a tuple with one for each. -1: exception. */
static int take_grads(PyObject *items, cr_tensor **grads, uint32_t n) {
    int status = 0;
    if (!PyTuple_Check(items)) {
        PyErr_Format(PyExc_TypeError,
                     "expected tuple, but a hook of a node returned a %s; it returns None, or a tuple "
                     "with as many gradients as it was given: %u",
                     Py_TYPE(items)->tp_name, n);
        return -1;
    }
    if (PyTuple_GET_SIZE(items) != n) {
        PyErr_Format(PyExc_RuntimeError, "a hook of a node returned %zd gradients; it returns None, or as many as it "
                                         "was given: %u",
                     PyTuple_GET_SIZE(items), n);
        status = -1;
    }
    for (uint32_t i = 0; !status && i < n; i++) {
        PyObject *o = PyTuple_GET_ITEM(items, i);
        if (o != Py_None && !cr_py_is_tensor(o)) {
            PyErr_Format(PyExc_TypeError, "a hook of a node returned a %s; return Tensors, or None",
                         Py_TYPE(o)->tp_name);
            status = -1;
            break;
        }
        cr_tensor *old = grads[i];
        grads[i] = o == Py_None ? NULL : cr_py_tensor_of(o);
        if (grads[i]) cr_tensor_retain(grads[i]);
        cr_tensor_release(old);
    }
    return status;
}

static cr_status call_node_hook(void *user, cr_tensor **made, uint32_t nmade, cr_tensor **grads, uint32_t ngrads,
                                bool before) {
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *fn = Py_NewRef((PyObject *)user); /* it may remove itself */
    PyObject *in = show_grads(grads, ngrads), *out = before ? NULL : show_grads(made, nmade), *result = NULL;
    if (in && (before || out)) result = PyObject_CallFunctionObjArgs(fn, before ? in : out, before ? NULL : in, NULL);
    bool failed = !result;
    if (result && result != Py_None) failed = take_grads(result, before ? grads : made, before ? ngrads : nmade) < 0;
    Py_XDECREF(result);
    Py_XDECREF(in);
    Py_XDECREF(out);
    Py_DECREF(fn);
    PyGILState_Release(state);
    return failed ? CR_FAIL(CR_EPYTHON, "a hook of a node raised an exception") : CR_OK;
}
static cr_status call_before(void *user, cr_tensor **made, uint32_t nmade, cr_tensor **grads, uint32_t ngrads) {
    return call_node_hook(user, made, nmade, grads, ngrads, true);
}
static cr_status call_after(void *user, cr_tensor **made, uint32_t nmade, cr_tensor **grads, uint32_t ngrads) {
    return call_node_hook(user, made, nmade, grads, ngrads, false);
}

static PyObject *add_hook(PyObject *self, PyObject *fn, bool before) {
    cr_grad_node *n = cr_py_node_of(self);
    if (!n) return NULL;
    if (!PyCallable_Check(fn))
        return PyErr_Format(PyExc_TypeError, "a hook of a node is a function, not a %s", Py_TYPE(fn)->tp_name);
    PyObject *handle = cr_py_handle_new(n, NULL);
    if (!handle) return NULL;
    cr_status status = cr_grad_node_hook(n, before,
                                         &(cr_node_hook){ before ? call_before : call_after, cr_py_release_user,
                                                          Py_NewRef(fn), cr_py_handle_id(handle),
                                                          cr_py_traverse_user });
    if (!status) return handle;
    Py_DECREF(handle);
    return cr_py_raise(status);
}
static PyObject *node_register_hook(PyObject *self, PyObject *fn) { return add_hook(self, fn, false); }
static PyObject *node_register_prehook(PyObject *self, PyObject *fn) { return add_hook(self, fn, true); }

/* ---- what it saved ---- */

/* _saved_self, _saved_dim, _saved_result: what the op's derivative reads of its parameters and results. */
static PyObject *node_getattr(PyObject *self, PyObject *name) {
    PyObject *o = PyObject_GenericGetAttr(self, name);
    const char *text = PyUnicode_AsUTF8(name);
    if (o || !text || strncmp(text, "_saved_", 7) || SELF(self)->context ||
        !PyErr_ExceptionMatches(PyExc_AttributeError))
        return o;
    PyErr_Clear();
    cr_arg value;
    cr_status status = cr_grad_node_saved(SELF(self)->node, text + 7, &value);
    if (status == CR_ENOTFOUND) return PyErr_Format(PyExc_AttributeError, "%s", cr_error_message());
    return status ? cr_py_raise(status) : cr_py_from_arg(&value, false);
}

static PyMethodDef node_methods[] = {
    { "name", node_name, METH_NOARGS, "The op's name, as 'AddBackward0'." },
    { "register_hook", node_register_hook, METH_O,
      "register_hook(hook): hook(grad_inputs, grad_outputs) runs after the node; it may return other grad_inputs." },
    { "register_prehook", node_register_prehook, METH_O,
      "register_prehook(hook): hook(grad_outputs) runs before the node; it may return others." },
    { "_sequence_nr", node_order, METH_NOARGS, "Later nodes have more." },
    { NULL, NULL, 0, NULL },
};
static PyGetSetDef node_attributes[] = {
    { "next_functions", node_next, NULL, "((node, result), ...) of the tensor arguments; None: no gradient is wanted.",
      NULL },
    { "variable", node_variable, NULL, "The leaf whose gradient this node puts into place.", NULL },
    { "metadata", node_metadata, NULL, "A dict that belongs to the node.", NULL },
    { NULL, NULL, NULL, NULL, NULL },
};
static PyTypeObject node_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "cresset.autograd.graph.Node",
    .tp_basicsize = sizeof(py_node),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE,
    .tp_doc = "The call that made a tensor, for its derivative.",
    .tp_dealloc = node_dealloc,
    .tp_traverse = node_traverse,
    .tp_free = PyObject_GC_Del,
    .tp_repr = node_repr,
    .tp_getattro = node_getattr,
    .tp_methods = node_methods,
    .tp_getset = node_attributes,
};

PyObject *cr_py_grad_fn(PyObject *self, void *unused) {
    cr_grad_node *node;
    uint32_t result;
    (void)unused;
    cr_tensor *t = cr_py_tensor_of(self);
    if (cr_py_is_ahead(t) && !cr_py_is_ahead_leaf(t)) return cr_py_refuse_ahead("grad_fn is asked for"), NULL;
    cr_status status = cr_autograd_fn(t, &node, &result);
    return status ? cr_py_raise(status) : node ? cr_py_node_wrap(node) : Py_NewRef(Py_None);
}

PyObject *cr_py_output_nr(PyObject *self, void *unused) {
    cr_grad_node *node;
    uint32_t result;
    (void)unused;
    cr_tensor *t = cr_py_tensor_of(self);
    if (cr_py_is_ahead(t) && !cr_py_is_ahead_leaf(t)) return cr_py_refuse_ahead("output_nr is asked for"), NULL;
    cr_status status = cr_autograd_fn(t, &node, &result);
    cr_grad_node_release(node);
    return status ? cr_py_raise(status) : PyLong_FromUnsignedLong(result);
}

/* ---- functions in Python ---- */

static PyObject *context_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    (void)args;
    (void)kwargs;
    py_node *o = (py_node *)type->tp_alloc(type, 0);
    if (o) o->context = true;
    return (PyObject *)o;
}

static PyTypeObject context_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "cresset._C._FunctionBase",
    .tp_basicsize = sizeof(py_node),
    .tp_base = &node_type,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE,
    .tp_doc = "The context of an autograd.Function, which is the grad_fn of its results.",
    .tp_new = context_new,
    .tp_dealloc = node_dealloc,
    .tp_traverse = node_traverse,
    .tp_free = PyObject_GC_Del,
};

/* The context's _call(grads) gives a tuple with a tensor or None for each tensor argument. */
static cr_status call_function(void *user, cr_tensor *const *grads, cr_tensor **out) {
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *context = Py_NewRef((PyObject *)user);
    cr_grad_node *n = SELF(context)->node;
    PyObject *given = show_grads(grads, cr_grad_node_results(n));
    PyObject *made = given ? PyObject_CallMethod(context, "_call", "(O)", given) : NULL;
    bool failed = !made || take_grads(made, out, cr_grad_node_edges(n)) < 0;
    Py_XDECREF(made);
    Py_XDECREF(given);
    Py_DECREF(context);
    PyGILState_Release(state);
    return failed ? CR_FAIL(CR_EPYTHON, "a backward raised an exception") : CR_OK;
}

static void forget_function(void *user) {
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *done = PyObject_CallMethod((PyObject *)user, "_forget", NULL);
    if (!done) PyErr_WriteUnraisable((PyObject *)user);
    Py_XDECREF(done);
    PyGILState_Release(state);
}

static void release_function(void *user) {
    PyGILState_STATE state = PyGILState_Ensure();
    SELF(user)->node = NULL;
    Py_DECREF((PyObject *)user);
    PyGILState_Release(state);
}

static void drop_node(PyObject *capsule) { cr_grad_node_release(PyCapsule_GetPointer(capsule, "node")); }

/* _function_begin(context, tensors): a capsule that holds the node until there are results; None: nothing is
 * recorded. */
static PyObject *function_begin(PyObject *module, PyObject *args) {
    PyObject *context, *tensors;
    cr_grad_node *node;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!O!:_function_begin", &context_type, &context, &PyList_Type, &tensors)) return NULL;
    Py_ssize_t n = PyList_GET_SIZE(tensors);
    cr_tensor **inputs = PyMem_Calloc((size_t)n + 1, sizeof *inputs);
    if (!inputs) return PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < n; i++) inputs[i] = cr_py_tensor_of(PyList_GET_ITEM(tensors, i));
    cr_status status = cr_autograd_function(&function_table, context, inputs, (uint32_t)n, &node);
    PyMem_Free(inputs);
    if (status) return cr_py_raise(status);
    if (!node) Py_RETURN_NONE;
    Py_INCREF(context);
    SELF(context)->node = node;
    PyObject *capsule = PyCapsule_New(node, "node", drop_node);
    if (!capsule) cr_grad_node_release(node);
    return capsule;
}

/* _function_results(context, count) */
static PyObject *function_results(PyObject *module, PyObject *args) {
    PyObject *context;
    unsigned count;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!I:_function_results", &context_type, &context, &count)) return NULL;
    cr_grad_node *n = cr_py_node_of(context);
    if (!n) return NULL;
    cr_status status = cr_autograd_results(n, count);
    if (status) return cr_py_raise(status);
    Py_RETURN_NONE;
}

/* _function_result(context, i, tensor, written) */
static PyObject *function_result(PyObject *module, PyObject *args) {
    PyObject *context, *tensor;
    unsigned i;
    int written;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!IO!p:_function_result", &context_type, &context, &i, cr_py_tensor_type, &tensor,
                          &written))
        return NULL;
    cr_grad_node *n = cr_py_node_of(context);
    if (!n) return NULL;
    cr_status status = cr_autograd_result(n, i, cr_py_tensor_of(tensor), written);
    if (status) return cr_py_raise(status);
    Py_RETURN_NONE;
}

/* _as_result(tensor, node, i): the same memory and version count, as that result of the node: what a function that
 * saved its own result finds. */
static PyObject *as_result(PyObject *module, PyObject *args) {
    PyObject *tensor, *node;
    unsigned i;
    cr_tensor *made;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!O!I:_as_result", cr_py_tensor_type, &tensor, &node_type, &node, &i)) return NULL;
    cr_grad_node *n = cr_py_node_of(node);
    if (!n) return NULL;
    cr_status status = cr_autograd_alias(cr_py_tensor_of(tensor), (cr_grad_edge){ n, i }, &made);
    return status ? cr_py_raise(status) : cr_py_wrap(made);
}

/* _edge(tensor): (node, result) of its gradient, as the tape knows it: a function's node, too, is held by it. */
static PyObject *edge_of(PyObject *module, PyObject *tensor) {
    cr_grad_edge e;
    (void)module;
    if (!cr_py_is_tensor(tensor))
        return PyErr_Format(PyExc_TypeError, "a gradient edge belongs to a Tensor, not a %s", Py_TYPE(tensor)->tp_name);
    cr_status status = cr_autograd_edge(cr_py_tensor_of(tensor), &e);
    if (status) return cr_py_raise(status);
    if (!e.node) Py_RETURN_NONE;
    cr_grad_node_retain(e.node);
    PyObject *holder = PyCapsule_New(e.node, "node", drop_node);
    if (!holder) {
        cr_grad_node_release(e.node);
        cr_grad_node_release(e.node);
        return NULL;
    }
    return Py_BuildValue("(NIN)", cr_py_node_wrap(e.node), (unsigned)e.result, holder);
}

/* _depends(tensor, tensors): does it depend on a leaf by another way than through these tensors? */
static PyObject *depends(PyObject *module, PyObject *args) {
    PyObject *tensor, *list;
    bool yes = false;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!O!:_depends", cr_py_tensor_type, &tensor, &PyList_Type, &list)) return NULL;
    size_t n = (size_t)PyList_GET_SIZE(list), found = 0;
    cr_grad_node **nodes = PyMem_Calloc(n + 1, sizeof *nodes);
    if (!nodes) return PyErr_NoMemory();
    cr_status status = CR_OK;
    for (size_t i = 0; i < n && !status; i++) {
        cr_grad_edge e;
        status = cr_autograd_edge(cr_vmap_value(cr_py_tensor_of(PyList_GET_ITEM(list, (Py_ssize_t)i))), &e);
        if (!status && e.node) nodes[found++] = e.node;
    }
    if (!status) status = cr_autograd_depends(cr_vmap_value(cr_py_tensor_of(tensor)), nodes, found, &yes);
    for (size_t i = 0; i < found; i++) cr_grad_node_release(nodes[i]);
    PyMem_Free(nodes);
    return status ? cr_py_raise(status) : PyBool_FromLong(yes);
}

/* _will_run(node): does the backward that runs on this thread come to it? */
static PyObject *will_run(PyObject *module, PyObject *node) {
    bool yes;
    (void)module;
    cr_grad_node *n = cr_py_node_of(node);
    if (!n) return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "_will_run() takes a Node");
    cr_status status = cr_autograd_will_run(n, &yes);
    return status ? cr_py_raise(status) : PyBool_FromLong(yes);
}

/* _increment_version(tensor): as if it had been written to. */
static PyObject *increment_version(PyObject *module, PyObject *tensor) {
    (void)module;
    if (!cr_py_is_tensor(tensor))
        return PyErr_Format(PyExc_TypeError, "increment_version expects each element of the iterable to be a Tensor, "
                                             "not a %s",
                            Py_TYPE(tensor)->tp_name);
    cr_tensor_bump(cr_py_tensor_of(tensor));
    Py_RETURN_NONE;
}

/* _quiet_grad(mode): as _set_grad_enabled, for library code: a program that is recorded does not note it. */
static PyObject *quiet_grad(PyObject *module, PyObject *value) {
    (void)module;
    bool *grad = &cr_ambient_get()->grad, before = *grad;
    *grad = value == Py_True;
    return PyBool_FromLong(before);
}

/* _Held(value): an object of ours that captures carry along and never look into. */
typedef struct held { PyObject_HEAD PyObject *value; } held;

static PyObject *held_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    PyObject *value;
    if (!PyArg_ParseTuple(args, "O:_Held", &value) || (kwargs && PyDict_GET_SIZE(kwargs))) return NULL;
    held *h = PyObject_GC_New(held, type);
    if (!h) return NULL;
    h->value = Py_NewRef(value);
    PyObject_GC_Track(h);
    return (PyObject *)h;
}

static int held_traverse(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(((held *)self)->value);
    return 0;
}

static int held_clear(PyObject *self) {
    Py_CLEAR(((held *)self)->value);
    return 0;
}

static void held_dealloc(PyObject *self) {
    PyObject_GC_UnTrack(self);
    held_clear(self);
    PyObject_GC_Del(self);
}

static PyMemberDef held_members[] = {
    { "value", T_OBJECT_EX, offsetof(held, value), READONLY, NULL },
    { NULL, 0, 0, 0, NULL },
};

PyTypeObject cr_py_held_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "cresset._C._Held",
    .tp_basicsize = sizeof(held),
    .tp_new = held_new,
    .tp_dealloc = held_dealloc,
    .tp_traverse = held_traverse,
    .tp_clear = held_clear,
    .tp_members = held_members,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
};

/* _transform(begins): one of func.grad and its like begins or ends that is recorded. */
static PyObject *transform(PyObject *module, PyObject *begins) {
    (void)module;
    if (begins == Py_True) cr_ambient_get()->transforms++;
    else cr_ambient_get()->transforms--;
    Py_RETURN_NONE;
}

/* _forwards(begins): the same of a function that is differentiated forwards. */
static PyObject *forwards(PyObject *module, PyObject *begins) {
    (void)module;
    if (begins == Py_True) cr_ambient_get()->forwards++;
    else cr_ambient_get()->forwards--;
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    { "_function_begin", function_begin, METH_VARARGS, NULL },
    { "_function_results", function_results, METH_VARARGS, NULL },
    { "_function_result", function_result, METH_VARARGS, NULL },
    { "_as_result", as_result, METH_VARARGS, NULL },
    { "_edge", edge_of, METH_O, NULL },
    { "_depends", depends, METH_VARARGS, NULL },
    { "_will_run", will_run, METH_O, NULL },
    { "_increment_version", increment_version, METH_O, NULL },
    { "_quiet_grad", quiet_grad, METH_O, NULL },
    { "_transform", transform, METH_O, NULL },
    { "_forwards", forwards, METH_O, NULL },
    { NULL, NULL, 0, NULL },
};

int cr_py_nodes_init(PyObject *module) {
    if (PyType_Ready(&node_type) || PyType_Ready(&context_type)) return -1;
    if (PyModule_AddObjectRef(module, "_Node", (PyObject *)&node_type)) return -1;
    if (PyModule_AddObjectRef(module, "_FunctionBase", (PyObject *)&context_type)) return -1;
    if (PyModule_AddType(module, &cr_py_held_type)) return -1;
    return PyModule_AddFunctions(module, functions);
}
