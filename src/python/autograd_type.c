/* autograd_type.c: hooks on tensors, and the walk that cresset.autograd calls. Nodes are in node_type.c.
 *
 * A walk runs without the GIL; a hook takes it. Hooks are kept by the tensor or node that they look at, and handles
 * know those weakly enough that nothing lives longer because of a handle to a leaf. */
#include "python/autograd_type.h"
#include "python/tensor.h"
#include "python/walk_graphs.h"

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

/* Of a leaf whose .grad was just added to; what it returns does not matter. */
static cr_status call_hook_after(void *user, cr_tensor *leaf, cr_tensor **out) {
    (void)out;
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *fn = Py_NewRef((PyObject *)user);
    cr_tensor_retain(leaf);
    PyObject *o = cr_py_wrap(leaf), *result = o ? PyObject_CallOneArg(fn, o) : NULL;
    cr_status status = result ? CR_OK : CR_FAIL(CR_EPYTHON, "a hook of a leaf raised an exception");
    Py_XDECREF(result);
    Py_XDECREF(o);
    Py_DECREF(fn);
    PyGILState_Release(state);
    return status;
}

void cr_py_release_user(void *user) {
    PyGILState_STATE state = PyGILState_Ensure();
    Py_DECREF((PyObject *)user);
    PyGILState_Release(state);
}

int cr_py_traverse_user(void *user, cr_visit *visit, void *arg) { return visit(user, arg); }

typedef struct py_handle {
    PyObject_HEAD PyObject *tensor /* weak reference; NULL: the node has it */;
    cr_grad_node *node;
    uint64_t id;
} py_handle;
static PyTypeObject handle_type;

static PyObject *handle_remove(PyObject *self, PyObject *unused) {
    py_handle *h = (py_handle *)self;
    (void)unused;
    PyObject *tensor = h->tensor ? cr_py_weak_target(h->tensor) : NULL;
    if (h->node) cr_autograd_unhook(NULL, h->node, h->id);
    else if (tensor) cr_autograd_unhook(cr_py_tensor_of(tensor), NULL, h->id);
    Py_XDECREF(tensor);
    Py_RETURN_NONE;
}
static PyObject *handle_enter(PyObject *self, PyObject *unused) { return (void)unused, Py_NewRef(self); }
static PyObject *handle_exit(PyObject *self, PyObject *args) { return (void)args, handle_remove(self, NULL); }
PyObject *cr_py_handle_new(cr_grad_node *node, PyObject *tensor) {
    static uint64_t last; /* process: numbers of hooks, under the GIL */
    py_handle *h = PyObject_New(py_handle, &handle_type);
    if (!h) return NULL;
    h->id = ++last;
    h->node = node;
    if (node) cr_grad_node_retain(node);
    h->tensor = tensor ? PyWeakref_NewRef(tensor, NULL) : NULL;
    if (tensor && !h->tensor) Py_CLEAR(h);
    return (PyObject *)h;
}

uint64_t cr_py_handle_id(PyObject *handle) { return ((py_handle *)handle)->id; }

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
    if (!PyCallable_Check(fn))
        return PyErr_Format(PyExc_TypeError, "register_hook() takes a function of the gradient, not %s",
                            Py_TYPE(fn)->tp_name);
    if (cr_py_is_ahead(cr_py_tensor_of(self))) return cr_py_refuse_ahead("register_hook()"), NULL;
    py_handle *h = (py_handle *)cr_py_handle_new(NULL, NULL);
    if (!h) return NULL;
    cr_grad_hook hook = { call_hook, cr_py_release_user, Py_NewRef(fn), h->id, cr_py_traverse_user };
    cr_status status = cr_autograd_hook(cr_py_tensor_of(self), &hook, &h->node);
    if (!status && !h->node && !(h->tensor = PyWeakref_NewRef(self, NULL))) status = CR_EPYTHON;
    if (!status) return (PyObject *)h;
    Py_DECREF(h);
    return cr_py_raise(status);
}

PyObject *cr_py_register_hook_after(PyObject *self, PyObject *fn) {
    if (!PyCallable_Check(fn))
        return PyErr_Format(PyExc_TypeError, "register_post_accumulate_grad_hook() takes a function of the tensor, not "
                                             "%s",
                            Py_TYPE(fn)->tp_name);
    if (cr_py_is_ahead(cr_py_tensor_of(self)))
        return cr_py_refuse_ahead("register_post_accumulate_grad_hook()"), NULL;
    PyObject *h = cr_py_handle_new(NULL, self);
    if (!h) return NULL;
    cr_grad_hook hook = { call_hook_after, cr_py_release_user, Py_NewRef(fn), cr_py_handle_id(h), cr_py_traverse_user };
    cr_status status = cr_autograd_hook_after(cr_py_tensor_of(self), &hook);
    if (!status) return h;
    Py_DECREF(h);
    return cr_py_raise(status);
}

PyObject *cr_py_retain_grad(PyObject *self, PyObject *unused) {
    (void)unused;
    cr_tensor *t = cr_py_tensor_of(self);
    if (cr_py_is_ahead(t) && cr_tensor_requires_grad(t) && !cr_py_is_ahead_leaf(t))
        return cr_py_refuse_ahead("retain_grad()"), NULL;
    cr_status status = cr_autograd_retain_grad(t);
    if (status) return cr_py_raise(status);
    Py_RETURN_NONE;
}

/* ---- the walk ---- */

/* What a walk starts from or ends at: tensors, and edges (node, result) in tuples. */
typedef struct ends { cr_tensor **tensors; cr_grad_edge *edges; Py_ssize_t n; } ends;

static void ends_dispose(ends *e) {
    PyMem_Free(e->tensors);
    PyMem_Free(e->edges);
}

static int read_edge(PyObject *o, cr_grad_edge *out) {
    if (!PyTuple_Check(o) || PyTuple_GET_SIZE(o) < 2) return 1;
    cr_grad_node *node = cr_py_node_of(PyTuple_GET_ITEM(o, 0));
    if (!node) return PyErr_Occurred() ? -1 : 1;
    long result = PyLong_AsLong(PyTuple_GET_ITEM(o, 1));
    if (result == -1 && PyErr_Occurred()) return -1;
    if (result < 0 || (unsigned long)result >= cr_grad_node_results(node)) {
        PyErr_Format(PyExc_RuntimeError, "a gradient edge names result %ld of a node that has %u", result,
                     cr_grad_node_results(node));
        return -1;
    }
    *out = (cr_grad_edge){ node, (uint32_t)result };
    return 0;
}

/* The tensors of a list, None being NULL, and with `edges` edges, too. -1: exception. */
static int read_list(PyObject *list, const char *what, bool edges, ends *out) {
    Py_ssize_t n = PyList_GET_SIZE(list);
    *out = (ends){ PyMem_Calloc((size_t)n + 1, sizeof(cr_tensor *)), PyMem_Calloc((size_t)n + 1, sizeof(cr_grad_edge)),
                   n };
    if (!out->tensors || !out->edges) return PyErr_NoMemory(), -1;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *o = PyList_GET_ITEM(list, i);
        if (cr_py_is_tensor(o)) {
            out->tensors[i] = cr_py_tensor_of(o);
            continue;
        }
        if (o == Py_None && !edges) continue;
        int none = edges ? read_edge(o, &out->edges[i]) : 1;
        if (none > 0)
            PyErr_Format(PyExc_TypeError, "%s %zd is a %s, not a Tensor%s", what, i, Py_TYPE(o)->tp_name,
                         edges ? " or a GradientEdge" : "");
        if (none) return -1;
    }
    return 0;
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
    ends r = { 0 }, g = { 0 }, in = { 0 };
    bool some = PyList_Check(inputs);
    if (read_list(roots, "root", true, &r) || read_list(grads, "gradient", false, &g) ||
        (some && read_list(inputs, "input", true, &in)))
        goto out;
    for (Py_ssize_t i = 0; i < r.n; i++)
        if (r.tensors[i] && cr_py_is_ahead(r.tensors[i])) {
            cr_py_refuse_ahead("a walk back (backward() or grad())");
            goto out;
        }
    cr_tensor **found = PyMem_Calloc((size_t)in.n + 1, sizeof *found);
    if (!found) goto out;
    cr_backward b = { .roots = r.tensors,
                      .from = r.edges,
                      .grads = g.tensors,
                      .nroots = (size_t)r.n,
                      .inputs = in.tensors,
                      .to = in.edges,
                      .ninputs = (size_t)in.n,
                      .found = find ? found : NULL,
                      .keep = keep,
                      .graph = graph };
    bool recorded = cr_ambient_get()->mode.recorder; /* who records a call asks Python where it comes from */
    PyThreadState *thread = recorded ? NULL : PyEval_SaveThread();
    cr_status status = cr_autograd_backward(&b);
    if (thread) PyEval_RestoreThread(thread);
    o = status ? cr_py_raise(status) : find ? take_found(found, in.n) : Py_NewRef(Py_None);
    PyMem_Free(found);
out:
    ends_dispose(&r);
    ends_dispose(&g);
    ends_dispose(&in);
    return o;
}

static PyObject *walk_number(PyObject *module, PyObject *unused) {
    (void)module;
    (void)unused;
    return PyLong_FromUnsignedLongLong(cr_autograd_walk());
}

static PyObject *walk_has_inputs(PyObject *module, PyObject *unused) {
    (void)module;
    (void)unused;
    return PyBool_FromLong(cr_autograd_walk_has_inputs());
}

static PyMethodDef functions[] = {
    { "_backward", backward, METH_VARARGS,
      "_backward(roots, grads, inputs, find, keep, graph): walks back; with `find`, the gradients of the inputs." },
    { "_walk_has_inputs", walk_has_inputs, METH_NOARGS, "Is it one that only some gradients are asked of?" },
    { "_walk_number", walk_number, METH_NOARGS, "The number of the backward that runs on this thread; 0: none." },
    { NULL, NULL, 0, NULL },
};

int cr_py_autograd_init(PyObject *module) {
    cr_status status = cr_autograd_init();
    if (status) return cr_py_fail(status);
    if (PyType_Ready(&handle_type) || cr_py_nodes_init(module) || cr_py_saved_init(module) ||
        cr_py_watch_init(module) || cr_py_anomaly_init(module) || cr_py_walk_graphs_init(module))
        return -1;
    return PyModule_AddFunctions(module, functions);
}
