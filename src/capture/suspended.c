/* suspended.c: generators and coroutines of a compiled function: what their bodies compute between two yields or awaits
 * is captured.
 *
 * CPython alone makes, suspends and clears a generator's frame. So the function is called as it is, and what the caller
 * gets stands before the generator that it gave: each time it is asked for a value the hook is set, which is shown the
 * generator's frame where it goes on. From there the frame is carried on as any other (resume.c), up to the next yield,
 * which CPython carries out. What is thrown into it, and what it does inside of a handler, runs plain.
 *
 * CPython has ways of its own for what is exactly a generator or coroutine. Where such a way shows, this one does the
 * same: `await` alone goes through a coroutine, which is no iterator to anybody else, and whoever waits in `yield from`
 * or `await` is beneath it on the stack of frames while something is thrown in. */
#define Py_BUILD_CORE 1
#include "capture/hook.h"

#include "capture/decode.h"
#include "capture/dispatch.h"
#include "capture/suspended.h"
#include "base/base.h"

typedef struct suspended {
    PyObject_HEAD
    PyObject *generator, *owner; /* owned; owner: the callable whose dispatcher it is */
    PyObject *asker;             /* weak reference to the generator that last asked, and may wait; NULL: none did */
    cr_dispatcher *d;
    PyObject *weakrefs;
} suspended;

static PyTypeObject generator_type, coroutine_type;

bool cr_is_suspended_code(const PyCodeObject *code) {
    return code->co_flags & (CO_GENERATOR | CO_COROUTINE) && !(code->co_flags & CO_ITERABLE_COROUTINE);
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

/* The generator or coroutine whose frame runs; NULL: the innermost frame is none's. */
static PyObject *asker_now(void) {
    cr_frame *f = cr_thread_frame(PyThreadState_Get());
    return f && f->owner == FRAME_OWNED_BY_GENERATOR ? (PyObject *)_PyFrame_GetGenerator(f) : NULL;
}

static bool is_asked_by(const suspended *s, const PyObject *asker) {
    return s->asker && ((PyWeakReference *)s->asker)->wr_object == asker;
}

static void note_asker(suspended *s) {
    PyObject *asker = asker_now();
    if (!asker || is_asked_by(s, asker)) return;
    Py_XSETREF(s->asker, PyWeakref_NewRef(asker, NULL));
    if (!s->asker) PyErr_Clear();
}

static PySendResult turn_on(PyObject *self, PyObject *value, PyObject **result) {
    suspended *s = (suspended *)self;
    cr_activation activation;
    turn t = { s, false };
    if (Py_IS_TYPE(self, &generator_type)) note_asker(s); /* a coroutine knows who awaits it */
    Py_INCREF(self); /* its body may let go of it */
    cr_hook_begin(&activation, see, &t);
    PySendResult how = PyIter_Send(s->generator, value, result);
    if (!t.taken) cr_hook_end(&activation); /* it runs already, or has ended */
    Py_DECREF(self);
    return how;
}

/* NULL without an exception: it has ended, and gave None. */
static PyObject *ask(PyObject *self, PyObject *value) {
    PyObject *result = NULL;
    if (turn_on(self, value, &result) != PYGEN_RETURN) return result;
    if (result != Py_None) _PyGen_SetStopIterationValue(result);
    Py_DECREF(result);
    return NULL;
}

static PyObject *next_item(PyObject *self) { return ask(self, Py_None); }

static PyObject *send_value(PyObject *self, PyObject *value) {
    PyObject *item = ask(self, value);
    if (!item && !PyErr_Occurred()) PyErr_SetNone(PyExc_StopIteration);
    return item;
}

/* The frame that waits for it, while CPython throws something into that: it links the frame only where it knows exactly
 * what is waited for. NULL: nobody's. */
static cr_frame *waiting_frame(const suspended *s) {
    PyObject *asker = s->asker ? ((PyWeakReference *)s->asker)->wr_object : Py_None;
    if (asker == Py_None || ((PyGenObject *)asker)->gi_frame_state != FRAME_EXECUTING) return NULL;
    cr_frame *f = (cr_frame *)((PyGenObject *)asker)->gi_iframe;
    int top = cr_frame_top(f);
    bool waits = !f->previous && top > cr_frame_slot_count(f) && cr_frame_slots(f)[top - 1] == (const PyObject *)s;
    return waits ? f : NULL;
}

/* Class, value and traceback as one exception: CPython warns of three, and has done so where they were first given. */
static PyObject *as_one(PyObject *args) {
    Py_ssize_t n = PyTuple_GET_SIZE(args);
    PyObject *type = n ? PyTuple_GET_ITEM(args, 0) : NULL, *value = n > 1 ? PyTuple_GET_ITEM(args, 1) : NULL;
    PyObject *traceback = n > 2 && PyTuple_GET_ITEM(args, 2) != Py_None ? PyTuple_GET_ITEM(args, 2) : NULL;
    if (!value || !PyExceptionClass_Check(type) || (traceback && !PyTraceBack_Check(traceback))) return Py_NewRef(args);
    Py_INCREF(type);
    Py_INCREF(value);
    Py_XINCREF(traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    PyObject *one = traceback && PyException_SetTraceback(value, traceback) ? NULL : PyTuple_Pack(1, value);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
    return one;
}

static PyObject *throw_into(PyObject *self, PyObject *args) {
    cr_frame *waits = waiting_frame((suspended *)self);
    PyThreadState *thread = PyThreadState_Get();
    PyObject *given = waits ? as_one(args) : Py_NewRef(args);
    PyObject *method = given ? PyObject_GetAttrString(((suspended *)self)->generator, "throw") : NULL;
    if (waits) {
        waits->previous = cr_thread_frame(thread);
        cr_thread_set_frame(thread, waits);
    }
    PyObject *item = method ? PyObject_CallObject(method, given) : NULL;
    if (waits) {
        cr_thread_set_frame(thread, waits->previous);
        waits->previous = NULL;
    }
    Py_XDECREF(given);
    Py_XDECREF(method);
    return item;
}

static PyObject *close_it(PyObject *self, PyObject *unused) {
    (void)unused;
    return PyObject_CallMethod(((suspended *)self)->generator, "close", NULL);
}

/* ---- coroutines ---- */

/* What the innermost frame carries out: an instruction, and the flags of its code. */
static int running_instruction(int *flags) {
    cr_frame *f = cr_thread_frame(PyThreadState_Get());
    const cr_code *code = f ? cr_code_get(cr_frame_code(f)) : NULL;
    if (!code) return PyErr_Clear(), CR_I_COUNT;
    int32_t low = 0, high = code->count, own = cr_frame_running(f);
    while (low < high) {
        int32_t middle = (low + high) / 2;
        if (code->at[middle].own < own) low = middle + 1;
        else high = middle;
    }
    *flags = cr_frame_code(f)->co_flags;
    return low < code->count && code->at[low].own == own ? code->at[low].id : CR_I_COUNT;
}

/* `await` asks for what it goes through: itself, as CPython takes a coroutine. Whoever else asks gets an iterator that
 * runs plain. */
static PyObject *await_it(PyObject *self) {
    suspended *s = (suspended *)self;
    int flags = 0, asks = running_instruction(&flags);
    if (asks != CR_I_GET_AWAITABLE && asks != CR_I_GET_ANEXT)
        return PyObject_CallMethod(s->generator, "__await__", NULL);
    PyObject *waits = asks == CR_I_GET_AWAITABLE ? PyObject_GetAttrString(s->generator, "cr_await")
                                                 : Py_NewRef(Py_None);
    Py_XDECREF(waits);
    if (!waits) return NULL;
    if (waits != Py_None) return PyErr_Format(PyExc_RuntimeError, "coroutine is being awaited already");
    note_asker(s);
    return Py_NewRef(self);
}

static PyObject *iterate_coroutine(PyObject *self) {
    int flags = 0;
    if (running_instruction(&flags) != CR_I_GET_YIELD_FROM_ITER)
        return PyErr_Format(PyExc_TypeError, "'coroutine' object is not iterable");
    if (!(flags & (CO_COROUTINE | CO_ITERABLE_COROUTINE)))
        return PyErr_Format(PyExc_TypeError, "cannot 'yield from' a coroutine object in a non-coroutine generator");
    note_asker((suspended *)self);
    return Py_NewRef(self);
}

/* Does a frame ask it that has not got it from await_it(), but by the __await__ of another object? */
static bool is_smuggled(PyObject *self) {
    if (is_asked_by((suspended *)self, asker_now())) return false;
    return PyErr_SetString(PyExc_TypeError, "__await__() returned a coroutine"), true;
}

static PyObject *next_of_coroutine(PyObject *self) {
    int flags = 0;
    if (running_instruction(&flags) != CR_I_SEND)
        return PyErr_Format(PyExc_TypeError, "'coroutine' object is not an iterator");
    return is_smuggled(self) ? NULL : next_item(self);
}

/* C code asks by this, an event loop's; on 3.11 frames do, too. */
static PySendResult send_to_coroutine(PyObject *self, PyObject *value, PyObject **result) {
    int flags = 0;
    bool by_frame = PY_VERSION_HEX < 0x030C0000 && running_instruction(&flags) == CR_I_SEND;
    *result = NULL;
    return by_frame && is_smuggled(self) ? PYGEN_ERROR : turn_on(self, value, result);
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
    (void)unused;
    return Py_NewRef((PyObject *)(Py_IS_TYPE(self, &coroutine_type) ? &PyCoro_Type : &PyGen_Type));
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
    Py_XDECREF(s->asker);
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

/* Texts of errors name the type. */
#define AS_PYTHON(name)                                                                                              \
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = name, .tp_basicsize = sizeof(suspended), .tp_dealloc = dealloc,          \
    .tp_traverse = traverse, .tp_clear = clear, .tp_repr = show, .tp_getattro = get_attribute,                        \
    .tp_setattro = set_attribute, .tp_methods = methods, .tp_getset = attributes,                                     \
    .tp_weaklistoffset = offsetof(suspended, weakrefs), .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC
static PyTypeObject generator_type = { AS_PYTHON("generator"), .tp_iter = PyObject_SelfIter, .tp_iternext = next_item };
static PyAsyncMethods awaited = { .am_await = await_it, .am_send = send_to_coroutine };
static PyTypeObject coroutine_type = { AS_PYTHON("coroutine"), .tp_as_async = &awaited, .tp_iter = iterate_coroutine,
                                       .tp_iternext = next_of_coroutine };
#undef AS_PYTHON

/* What only instructions ask a coroutine for has no name: __await__() is the coroutine's own. */
static int ready(void) {
    static const char *const hidden[] = { "__await__", "__iter__", "__next__" };
    if (coroutine_type.tp_flags & Py_TPFLAGS_READY) return 0;
    if (PyType_Ready(&generator_type) || PyType_Ready(&coroutine_type)) return -1;
    for (size_t i = 0; i < CR_COUNT(hidden); i++)
        if (PyDict_DelItemString(coroutine_type.tp_dict, hidden[i])) return -1;
    PyType_Modified(&coroutine_type);
    return 0;
}

bool cr_is_suspended_coroutine(const PyObject *o) { return Py_IS_TYPE(o, &coroutine_type); }

PyObject *cr_suspended_new(cr_dispatcher *d, PyObject *generator) {
    bool awaits = generator && PyCoro_CheckExact(generator);
    if (!generator || !d->owner || (!awaits && !PyGen_CheckExact(generator))) return generator;
    suspended *s = ready() ? NULL : PyObject_GC_New(suspended, awaits ? &coroutine_type : &generator_type);
    if (!s) return Py_DECREF(generator), NULL;
    s->generator = generator;
    s->owner = Py_NewRef(d->owner);
    s->d = d;
    s->asker = s->weakrefs = NULL;
    PyObject_GC_Track((PyObject *)s);
    return (PyObject *)s;
}
