/* suspended.c: generators of a compiled generator function: what their bodies compute between two yields is captured.
 *
 * CPython alone makes, suspends and clears a generator's frame. So the function is called as it is, and what the caller
 * gets stands before the generator that it gave: each time it is asked for a value the hook is set, which is shown the
 * generator's frame where it goes on. From there the frame is carried on as any other (resume.c), up to the next yield,
 * which CPython carries out. What is thrown into it, and what it does inside of a handler, runs plain. */
#define Py_BUILD_CORE 1
#include "capture/hook.h"

#include "capture/dispatch.h"
#include "capture/suspended.h"

typedef struct suspended {
    PyObject_HEAD
    PyObject *generator, *owner; /* owned; owner: the callable whose dispatcher it is */
    cr_dispatcher *d;
    PyObject *weakrefs;
} suspended;

static PyTypeObject suspended_type;

bool cr_is_generator_code(const PyCodeObject *code) {
    return CR_CARRIES_GENERATORS && code->co_flags & CO_GENERATOR && !(code->co_flags & CO_ITERABLE_COROUTINE);
}

/* ---- going on ---- */

typedef struct turn {
    const suspended *s;
    bool taken;
} turn;

static bool see(cr_activation *a, PyThreadState *thread, cr_frame *frame, int throwflag, PyObject **result) {
    turn *t = a->user;
    if (t->taken || throwflag || frame->owner != FRAME_OWNED_BY_GENERATOR ||
        (PyObject *)_PyFrame_GetGenerator(frame) != t->s->generator)
        return false;
    t->taken = true;
    cr_hook_end(a);
    PyObject *reason = NULL;
    bool carried = cr_carry_frame(t->s->d, thread, frame, result, &reason);
    Py_XDECREF(reason);
    if (!carried) *result = cr_hook_pass(a->outer, thread, frame, 0);
    return true;
}

/* NULL without an exception: it has ended, and gave None. */
static PyObject *ask(suspended *s, PyObject *value) {
    cr_activation activation;
    turn t = { s, false };
    PyObject *result = NULL;
    cr_hook_begin(&activation, see, &t);
    PySendResult how = PyIter_Send(s->generator, value, &result);
    if (!t.taken) cr_hook_end(&activation); /* it runs already, or has ended */
    if (how != PYGEN_RETURN) return result;
    if (result != Py_None) _PyGen_SetStopIterationValue(result);
    Py_DECREF(result);
    return NULL;
}

static PyObject *next_item(PyObject *self) { return ask((suspended *)self, Py_None); }

static PyObject *send_value(PyObject *self, PyObject *value) {
    PyObject *item = ask((suspended *)self, value);
    if (!item && !PyErr_Occurred()) PyErr_SetNone(PyExc_StopIteration);
    return item;
}

static PyObject *throw_into(PyObject *self, PyObject *args) {
    PyObject *method = PyObject_GetAttrString(((suspended *)self)->generator, "throw");
    PyObject *item = method ? PyObject_CallObject(method, args) : NULL;
    Py_XDECREF(method);
    return item;
}

static PyObject *close_it(PyObject *self, PyObject *unused) {
    (void)unused;
    return PyObject_CallMethod(((suspended *)self)->generator, "close", NULL);
}

/* ---- looking like it ---- */

static PyObject *get_attribute(PyObject *self, PyObject *name) {
    PyObject *own = PyObject_GenericGetAttr(self, name);
    if (own || !PyErr_ExceptionMatches(PyExc_AttributeError)) return own;
    PyErr_Clear();
    return PyObject_GetAttr(((suspended *)self)->generator, name);
}

static int set_attribute(PyObject *self, PyObject *name, PyObject *value) {
    return PyObject_SetAttr(((suspended *)self)->generator, name, value);
}

static PyObject *show(PyObject *self) { return PyObject_Repr(((suspended *)self)->generator); }

static PyObject *get_class(PyObject *self, void *unused) {
    (void)self, (void)unused;
    return Py_NewRef((PyObject *)&PyGen_Type);
}

static int traverse(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(((suspended *)self)->generator);
    Py_VISIT(((suspended *)self)->owner);
    return 0;
}

static int clear(PyObject *self) {
    Py_CLEAR(((suspended *)self)->generator);
    return 0; /* the owner stays: its dispatcher may be asked while the generator is closed */
}

static void dealloc(PyObject *self) {
    suspended *s = (suspended *)self;
    PyObject_GC_UnTrack(self);
    if (s->weakrefs) PyObject_ClearWeakRefs(self);
    clear(self);
    Py_XDECREF(s->owner);
    PyObject_GC_Del(self);
}

static PyMethodDef methods[] = {
    { "send", send_value, METH_O, NULL },
    { "throw", throw_into, METH_VARARGS, NULL },
    { "close", close_it, METH_NOARGS, NULL },
    { NULL, NULL, 0, NULL },
};
static PyGetSetDef attributes[] = {
    { "__class__", get_class, NULL, NULL, NULL },
    { NULL, NULL, NULL, NULL, NULL },
};

static PyTypeObject suspended_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "cresset._C._CompiledGenerator",
    .tp_basicsize = sizeof(suspended),
    .tp_dealloc = dealloc,
    .tp_traverse = traverse,
    .tp_clear = clear,
    .tp_repr = show,
    .tp_getattro = get_attribute,
    .tp_setattro = set_attribute,
    .tp_iter = PyObject_SelfIter,
    .tp_iternext = next_item,
    .tp_methods = methods,
    .tp_getset = attributes,
    .tp_weaklistoffset = offsetof(suspended, weakrefs),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
};

PyObject *cr_suspended_new(cr_dispatcher *d, PyObject *generator) {
    if (!generator || !PyGen_CheckExact(generator) || !d->owner) return generator;
    suspended *s = PyType_Ready(&suspended_type) ? NULL : PyObject_GC_New(suspended, &suspended_type);
    if (!s) return Py_DECREF(generator), NULL;
    s->generator = generator;
    s->owner = Py_NewRef(d->owner);
    s->d = d;
    s->weakrefs = NULL;
    PyObject_GC_Track((PyObject *)s);
    return (PyObject *)s;
}
