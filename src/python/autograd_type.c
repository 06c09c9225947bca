/* autograd_type.c: the tape (src/autograd) as Python sees it: x.grad_fn, hooks, and the walk that cresset.autograd
 * calls.
 *
 * A walk runs without the GIL; a hook takes it. Hooks are kept by the tensor or node that they look at, and handles
 * know those weakly enough that nothing lives longer because of a handle to a leaf. */
#include "python/autograd_type.h"
#include "python/tensor.h"

/* ---- grad_fn ---- */

typedef struct py_node {
    PyObject_HEAD cr_grad_node *node;
} py_node;
static PyTypeObject node_type;
#define NODE(self) (((py_node *)(self))->node)

/* One object for a node would need a way back from it; two objects of one node are equal. Takes over the reference. */
static PyObject *node_wrap(cr_grad_node *node) {
    py_node *o = PyObject_New(py_node, &node_type);
    if (!o) cr_grad_node_release(node);
    else o->node = node;
    return (PyObject *)o;
}

static void node_dealloc(PyObject *self) {
    cr_grad_node_release(NODE(self));
    PyObject_Free(self);
}

/* "add_" -> "AddBackward0". */
static PyObject *node_name(PyObject *self, PyObject *unused) {
    (void)unused;
    const cr_op *op = cr_grad_node_op(NODE(self));
    cr_str text;
    bool upper = true;
    if (!op) return PyUnicode_FromString("AccumulateGrad");
    cr_str_init(&text);
    for (const char *c = op->schema.name; *c; c++) {
        if (*c == '_' && c != op->schema.name) {
            upper = true;
            continue;
        }
        cr_str_addc(&text, upper && *c >= 'a' && *c <= 'z' ? (char)(*c - 'a' + 'A') : *c);
        upper = *c == '_';
    }
    cr_str_add(&text, "Backward0");
    return cr_py_text(&text);
}

static PyObject *node_next(PyObject *self, void *unused) {
    (void)unused;
    uint32_t n = cr_grad_node_edges(NODE(self)), result;
    PyObject *edges = PyTuple_New(n);
    for (uint32_t i = 0; edges && i < n; i++) {
        cr_grad_node *next = cr_grad_node_edge(NODE(self), i, &result);
        if (next) cr_grad_node_retain(next);
        PyObject *edge = Py_BuildValue("(NI)", next ? node_wrap(next) : Py_NewRef(Py_None), (unsigned)result);
        if (!edge) Py_CLEAR(edges);
        else PyTuple_SET_ITEM(edges, i, edge);
    }
    return edges;
}

static PyObject *node_variable(PyObject *self, void *unused) {
    (void)unused;
    cr_tensor *leaf = cr_grad_node_leaf(NODE(self));
    if (!leaf) return PyErr_Format(PyExc_AttributeError, "only the node of a leaf has a variable");
    cr_tensor_retain(leaf);
    return cr_py_wrap(leaf);
}

static PyObject *node_repr(PyObject *self) {
    PyObject *name = node_name(self, NULL);
    PyObject *text = name ? PyUnicode_FromFormat("<%U object at %p>", name, NODE(self)) : NULL;
    Py_XDECREF(name);
    return text;
}

static PyObject *node_compare(PyObject *a, PyObject *b, int op) {
    if (!Py_IS_TYPE(b, &node_type) || (op != Py_EQ && op != Py_NE)) Py_RETURN_NOTIMPLEMENTED;
    return PyBool_FromLong((NODE(a) == NODE(b)) == (op == Py_EQ));
}
static Py_hash_t node_hash(PyObject *self) { return _Py_HashPointer(NODE(self)); }

static PyMethodDef node_methods[] = {
    { "name", node_name, METH_NOARGS, "The op's name, as 'AddBackward0'." },
    { NULL, NULL, 0, NULL },
};
static PyGetSetDef node_attributes[] = {
    { "next_functions", node_next, NULL, "((node, result), ...) of the tensor arguments; None: no gradient is wanted.",
      NULL },
    { "variable", node_variable, NULL, "The leaf whose gradient this node puts into place.", NULL },
    { NULL, NULL, NULL, NULL, NULL },
};
static PyTypeObject node_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "cresset.autograd.Node",
    .tp_basicsize = sizeof(py_node),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "The call that made a tensor, for its derivative.",
    .tp_dealloc = node_dealloc,
    .tp_repr = node_repr,
    .tp_richcompare = node_compare,
    .tp_hash = node_hash,
    .tp_methods = node_methods,
    .tp_getset = node_attributes,
};

PyObject *cr_py_grad_fn(PyObject *self, void *unused) {
    cr_grad_node *node;
    uint32_t result;
    (void)unused;
    cr_status status = cr_autograd_fn(cr_py_tensor_of(self), &node, &result);
    return status ? cr_py_raise(status) : node ? node_wrap(node) : Py_NewRef(Py_None);
}

PyObject *cr_py_output_nr(PyObject *self, void *unused) {
    cr_grad_node *node;
    uint32_t result;
    (void)unused;
    cr_status status = cr_autograd_fn(cr_py_tensor_of(self), &node, &result);
    cr_grad_node_release(node);
    return status ? cr_py_raise(status) : PyLong_FromUnsignedLong(result);
}

/* ---- hooks ---- */

static cr_status call_hook(void *user, cr_tensor *grad, cr_tensor **out) {
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *fn = Py_NewRef((PyObject *)user); /* it may remove itself */
    cr_tensor_retain(grad);
    PyObject *o = cr_py_wrap(grad), *result = o ? PyObject_CallOneArg(fn, o) : NULL;
    cr_status status = result ? CR_OK : CR_FAIL(CR_EPYTHON, "a gradient hook raised an exception");
    if (result && result != Py_None) {
        if (cr_py_is_tensor(result)) cr_tensor_retain(*out = cr_py_tensor_of(result));
        else {
            PyErr_Format(PyExc_TypeError, "a gradient hook returned a %s; return a Tensor, or None",
                         Py_TYPE(result)->tp_name);
            status = CR_FAIL(CR_EPYTHON, "a gradient hook returned no tensor");
        }
    }
    Py_XDECREF(result);
    Py_XDECREF(o);
    Py_DECREF(fn);
    PyGILState_Release(state);
    return status;
}

static void release_hook(void *user) {
    PyGILState_STATE state = PyGILState_Ensure();
    Py_DECREF((PyObject *)user);
    PyGILState_Release(state);
}

typedef struct py_handle {
    PyObject_HEAD PyObject *tensor /* weak reference; NULL: the node has it */;
    cr_grad_node *node;
    uint64_t id;
} py_handle;

static PyObject *handle_remove(PyObject *self, PyObject *unused) {
    py_handle *h = (py_handle *)self;
    (void)unused;
    PyObject *tensor = h->tensor ? PyWeakref_GetObject(h->tensor) : NULL;
    if (h->node) cr_autograd_unhook(NULL, h->node, h->id);
    else if (tensor && tensor != Py_None) cr_autograd_unhook(cr_py_tensor_of(tensor), NULL, h->id);
    Py_RETURN_NONE;
}
static PyObject *handle_enter(PyObject *self, PyObject *unused) { return (void)unused, Py_NewRef(self); }
static PyObject *handle_exit(PyObject *self, PyObject *args) { return (void)args, handle_remove(self, NULL); }
static void handle_dealloc(PyObject *self) {
    Py_XDECREF(((py_handle *)self)->tensor);
    cr_grad_node_release(((py_handle *)self)->node);
    PyObject_Free(self);
}
static PyMethodDef handle_methods[] = {
    { "remove", handle_remove, METH_NOARGS, "Takes the hook out; nothing when it is gone." },
    { "__enter__", handle_enter, METH_NOARGS, NULL },
    { "__exit__", handle_exit, METH_VARARGS, NULL },
    { NULL, NULL, 0, NULL },
};
static PyTypeObject handle_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "cresset.autograd.RemovableHandle",
    .tp_basicsize = sizeof(py_handle),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "What register_hook() gives: remove(), or the end of a with block, takes the hook out.",
    .tp_dealloc = handle_dealloc,
    .tp_methods = handle_methods,
};

PyObject *cr_py_register_hook(PyObject *self, PyObject *fn) {
    static uint64_t last; /* process: numbers of hooks, under the GIL */
    if (!PyCallable_Check(fn))
        return PyErr_Format(PyExc_TypeError, "register_hook() takes a function of the gradient, not %s",
                            Py_TYPE(fn)->tp_name);
    py_handle *h = PyObject_New(py_handle, &handle_type);
    if (!h) return NULL;
    h->tensor = NULL;
    h->node = NULL;
    h->id = ++last;
    cr_status status = cr_autograd_hook(cr_py_tensor_of(self),
                                        &(cr_grad_hook){ call_hook, release_hook, Py_NewRef(fn), h->id }, &h->node);
    if (!status && !h->node && !(h->tensor = PyWeakref_NewRef(self, NULL))) status = CR_EPYTHON;
    if (!status) return (PyObject *)h;
    Py_DECREF(h);
    return cr_py_raise(status);
}

PyObject *cr_py_retain_grad(PyObject *self, PyObject *unused) {
    (void)unused;
    cr_status status = cr_autograd_retain_grad(cr_py_tensor_of(self));
    if (status) return cr_py_raise(status);
    Py_RETURN_NONE;
}

/* ---- the walk ---- */

/* The tensors of a list, None being NULL; NULL: exception. */
static cr_tensor **read_list(PyObject *list, const char *what) {
    Py_ssize_t n = PyList_GET_SIZE(list);
    cr_tensor **tensors = PyMem_Calloc((size_t)n + 1, sizeof *tensors);
    if (!tensors) return (cr_tensor **)PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *o = PyList_GET_ITEM(list, i);
        if (cr_py_is_tensor(o)) tensors[i] = cr_py_tensor_of(o);
        else if (o != Py_None) {
            PyErr_Format(PyExc_TypeError, "%s %zd is a %s, not a Tensor", what, i, Py_TYPE(o)->tp_name);
            PyMem_Free(tensors);
            return NULL;
        }
    }
    return tensors;
}

static PyObject *take_found(cr_tensor **found, Py_ssize_t n) {
    PyObject *list = PyList_New(n);
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *o = !list      ? (cr_tensor_release(found[i]), NULL)
                      : found[i] ? cr_py_wrap(found[i])
                                 : Py_NewRef(Py_None);
        if (o) PyList_SET_ITEM(list, i, o);
        else Py_CLEAR(list);
    }
    return list;
}

/* _backward(roots, grads, inputs or None, find, keep, graph): None, or with `find` the gradients of the inputs. */
static PyObject *backward(PyObject *module, PyObject *args) {
    PyObject *roots, *grads, *inputs, *o = NULL;
    int find, keep, graph;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!O!Oppp:_backward", &PyList_Type, &roots, &PyList_Type, &grads, &inputs, &find, &keep,
                          &graph))
        return NULL;
    bool some = PyList_Check(inputs);
    Py_ssize_t ninputs = some ? PyList_GET_SIZE(inputs) : 0;
    cr_tensor **r = read_list(roots, "root"), **g = r ? read_list(grads, "gradient") : NULL;
    cr_tensor **in = g && some ? read_list(inputs, "input") : NULL;
    cr_tensor **found = PyMem_Calloc((size_t)ninputs + 1, sizeof *found);
    if (r && g && found && (in || !some)) {
        cr_backward b = { .roots = r,
                          .grads = g,
                          .nroots = (size_t)PyList_GET_SIZE(roots),
                          .inputs = in,
                          .ninputs = (size_t)ninputs,
                          .found = find ? found : NULL,
                          .keep = keep,
                          .graph = graph };
        PyThreadState *thread = PyEval_SaveThread();
        cr_status status = cr_autograd_backward(&b);
        PyEval_RestoreThread(thread);
        o = status ? cr_py_raise(status) : find ? take_found(found, ninputs) : Py_NewRef(Py_None);
    }
    PyMem_Free(r);
    PyMem_Free(g);
    PyMem_Free(in);
    PyMem_Free(found);
    return o;
}

static PyMethodDef functions[] = {
    { "_backward", backward, METH_VARARGS,
      "_backward(roots, grads, inputs, find, keep, graph): walks back; with `find`, the gradients of the inputs." },
    { NULL, NULL, 0, NULL },
};

int cr_py_autograd_init(PyObject *module) {
    cr_status status = cr_autograd_init();
    if (status) return cr_py_fail(status);
    if (PyType_Ready(&node_type) || PyType_Ready(&handle_type)) return -1;
    if (PyModule_AddObjectRef(module, "_Node", (PyObject *)&node_type)) return -1;
    return PyModule_AddFunctions(module, functions);
}
