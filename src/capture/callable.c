/* callable.c: the object that cresset.compile returns.
 *
 * It stands for the function: it has its attributes, binds as a method where it is put into a class, and says that it
 * is a function (`inspect` agrees). A call finds the *shape* of the call (how many arguments, which keywords: binding
 * was decided when that was seen first), then the first entry whose guards hold. On a miss the call is captured; where
 * that does not succeed, the entry says so and the function is called as it is. */
#include "capture/capture.h"
#include "capture/callable.h"

#include "python/py.h"

#include <structmember.h>

/* Calls that look alike. Their entries, most recently made first. */
typedef struct shape { Py_ssize_t nargs; PyObject *kwnames; CR_VEC(cr_entry *) entries; } shape;
typedef struct callable {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *wrapped;          /* what was compiled: a function, or a method */
    PyObject *function, *self;  /* its parts; self NULL: no method. Borrowed from `wrapped` */
    /* Python's: called with (graph, example inputs); None: graphs run as they are; a str: they become native code */
    PyObject *backend;
    PyObject *unsupported;      /* exception class: what fullgraph raises; None: calls run plain */
    PyObject *dict, *weakrefs;
    CR_VEC(shape) shapes;
    Py_ssize_t limit, captures; /* entries at most; entries made */
    bool capturing, told;
    uint64_t hits, misses, plain, failed;
} callable;

static PyTypeObject callable_type;
static struct { bool miss_once, fail_graphs; } switches; /* process: for tests */

bool cr_is_callable(PyObject *o) { return Py_IS_TYPE(o, &callable_type); }
PyObject *cr_callable_wrapped(PyObject *o) { return ((callable *)o)->wrapped; }

/* ---- capturing ---- */

static int begin(cr_capture *c, const callable *k, const shape *s, PyObject *const *args) {
    Py_ssize_t total = s->nargs + (s->kwnames ? PyTuple_GET_SIZE(s->kwnames) : 0);
    int32_t at = cr_source(&c->guards, CR_READ_FUNCTION, 0, NULL, 0);
    PyObject *function = at < 0 ? NULL : cr_wrap(c, k->function, at);
    PyObject **values = PyMem_Calloc((size_t)total + 1, sizeof *values);
    int failed = !function || !values;
    for (Py_ssize_t i = 0; !failed && i < total; i++) {
        int32_t source = cr_source(&c->guards, CR_READ_ARGUMENT, 0, NULL, (int32_t)i);
        failed = source < 0 || !(values[i] = cr_pending(c, args[i], source));
    }
    if (!failed) failed = cr_push_call(c, function, values, s->nargs, s->kwnames);
    for (Py_ssize_t i = 0; values && i < total; i++) Py_XDECREF(values[i]);
    PyMem_Free(values);
    Py_XDECREF(function);
    return failed ? -1 : 0;
}

/* Gives the graph to the backend. */
static int compile_graph(const callable *k, cr_entry *e, PyObject *const *slots) {
    if (!e->graph) return 0;
    if (k->backend == Py_None || PyUnicode_Check(k->backend)) return cr_entry_build(e, slots, k->backend != Py_None);
    cr_graph_retain(e->graph);
    PyObject *graph = cr_py_graph_new(e->graph), *examples = graph ? PyList_New(0) : NULL;
    for (uint32_t i = 0; examples && i < e->ninputs; i++)
        if (PyList_Append(examples, slots[e->inputs[i]])) Py_CLEAR(examples);
    PyObject *made = examples ? PyObject_CallFunctionObjArgs(k->backend, graph, examples, NULL) : NULL;
    Py_XDECREF(graph);
    Py_XDECREF(examples);
    if (made && !PyCallable_Check(made)) {
        PyErr_Format(PyExc_TypeError, "the backend returned a %s, which cannot be called", Py_TYPE(made)->tp_name);
        Py_CLEAR(made);
    }
    e->compiled = made;
    return made ? 0 : -1;
}

/* The entry of a call that has none. NULL: exception. */
static cr_entry *capture(callable *k, const shape *s, PyObject *const *args, uint64_t ambient) {
    cr_capture c;
    cr_entry *e = NULL;
    if (cr_capture_begin(&c, false)) return cr_capture_dispose(&c), NULL;
    k->capturing = true;
    bool collects = PyGC_Disable(); /* a finalizer's ops would be recorded */
    cr_trace_begin(c.trace, true);
    int failed = begin(&c, k, s, args) || cr_evaluate(&c);
    cr_trace_end(c.trace);
    if (failed && !c.reason && !PyErr_Occurred()) cr_break(&c, "it cannot be captured");
    if (failed && c.reason) PyErr_Clear();
    if (!PyErr_Occurred()) e = cr_entry_new(&c, (PyCodeObject *)PyFunction_GET_CODE(k->function), ambient);
    cr_capture_dispose(&c);
    if (collects) PyGC_Enable();
    k->capturing = false;
    return e;
}

/* ---- finding ---- */

static bool names_equal(PyObject *a, PyObject *b) {
    if (a == b) return true;
    if (!a || !b || PyTuple_GET_SIZE(a) != PyTuple_GET_SIZE(b)) return false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(a); i++)
        if (PyTuple_GET_ITEM(a, i) != PyTuple_GET_ITEM(b, i) &&
            !cr_texts_equal(PyTuple_GET_ITEM(a, i), PyTuple_GET_ITEM(b, i)))
            return false;
    return true;
}

static shape *find_shape(callable *k, Py_ssize_t nargs, PyObject *kwnames) {
    if (kwnames && !PyTuple_GET_SIZE(kwnames)) kwnames = NULL;
    for (size_t i = 0; i < k->shapes.n; i++)
        if (k->shapes.at[i].nargs == nargs && names_equal(k->shapes.at[i].kwnames, kwnames)) return &k->shapes.at[i];
    shape made = { .nargs = nargs, .kwnames = Py_XNewRef(kwnames) };
    if (cr_vec_push(&k->shapes, made)) return Py_XDECREF(kwnames), (shape *)PyErr_NoMemory();
    return &k->shapes.at[k->shapes.n - 1];
}

static int add_entry(callable *k, shape *s, cr_entry *e) {
    if (cr_vec_reserve(&s->entries, s->entries.n + 1)) return PyErr_NoMemory(), -1;
    memmove(s->entries.at + 1, s->entries.at, s->entries.n * sizeof *s->entries.at);
    s->entries.at[0] = cr_entry_retain(e);
    s->entries.n++;
    k->captures++;
    return 0;
}

/* One warning, naming what did not hold. */
static int tell_limit(callable *k, const shape *s, PyObject *const *args, PyObject **slots) {
    if (k->told) return 0;
    k->told = true;
    PyObject *why = NULL;
    if (s->entries.n) {
        int32_t row = cr_guards_check(&s->entries.at[0]->guards, args, k->function, slots);
        why = row < 0 ? PyUnicode_FromString("the surroundings (gradient mode, dtypes, ...) changed")
                      : cr_guard_text(&s->entries.at[0]->guards, (size_t)row);
    } else {
        why = PyUnicode_FromString("calls have ever other numbers of arguments");
    }
    int failed = !why || PyErr_WarnFormat(PyExc_RuntimeWarning, 1,
                                          "%R was captured %zd times, the limit, and runs plain from now on for calls "
                                          "that fit none; what last did not hold: %U",
                                          k->wrapped, k->captures, why);
    Py_XDECREF(why);
    return failed ? -1 : 0;
}

/* ---- calling ---- */

static PyObject *call_plain(callable *k, PyObject *const *args, size_t nargs, PyObject *kwnames) {
    k->plain++;
    return PyObject_Vectorcall(k->function, args, nargs, kwnames);
}

static PyObject *raise_unsupported(const callable *k, const cr_entry *e) {
    return PyErr_Format(k->unsupported, "%U\n  fullgraph=True asks for one graph of the whole call; without it, such "
                                        "calls run plain", e->reason);
}

/* Runs the entry; what it cannot do is done plain. */
static PyObject *run(callable *k, cr_entry *e, PyObject *const *slots, PyObject *const *args, Py_ssize_t nargs,
                     PyObject *kwnames) {
    PyObject *result = NULL, **state = NULL;
    if (e->reason && k->unsupported != Py_None) return raise_unsupported(k, e);
    if (e->reason && (!e->resumes || cr_is_traced())) return call_plain(k, args, (size_t)nargs, kwnames);
    if (e->resumes && !(state = PyMem_Calloc(e->state.n + 1, sizeof *state))) return PyErr_NoMemory();
    cr_entry_retain(e); /* it may be removed while it runs */
    int done = switches.fail_graphs && e->graph ? 0 : cr_entry_run(e, slots, &result, state);
    if (done == 1 && e->resumes) {
        k->plain++;
        int locals = (int)e->locals, depth = (int)e->state.n - locals;
        result = cr_resume(k->function, args, nargs, kwnames, state, locals, depth, e->at);
        state = NULL;
    }
    PyMem_Free(state);
    cr_entry_release(e);
    if (done) return result;
    k->failed++;
    return call_plain(k, args, (size_t)nargs, kwnames);
}

enum { SMALL = 64 };

/* What was read a moment ago must hold now: an entry for which it does not would never be used. 0: slots are filled. */
static int check_fresh(const callable *k, cr_entry *e, PyObject *const *args, PyObject **slots) {
    int32_t row = cr_guards_check(&e->guards, args, k->function, slots);
    if (row < 0 || (e->reason && !e->resumes)) return 0;
    e->resumes = false; /* it runs plain, whatever it was */
    if (e->reason) return 0;
    PyObject *text = cr_guard_text(&e->guards, (size_t)row);
    if (text) e->reason = PyUnicode_FromFormat("a guard does not hold right after capture: %U", text);
    Py_XDECREF(text);
    return e->reason ? 0 : -1;
}

/* Captures, compiles, keeps and runs. `found` may move while Python code runs: it is not used after that. */
static PyObject *miss(callable *k, const shape *found, PyObject *const *args, uint64_t ambient) {
    shape s = { .nargs = found->nargs, .kwnames = Py_XNewRef(found->kwnames) };
    PyObject **slots = NULL, *result = NULL;
    cr_entry *e = capture(k, &s, args, ambient);
    if (!e || !(slots = PyMem_Calloc(e->guards.slots + 1, sizeof *slots))) goto out;
    if (check_fresh(k, e, args, slots)) goto out;
    if (!e->reason || e->resumes) {
        k->misses += !e->reason;
        /* a backend may change anything: what the slots hold is read again */
        if (compile_graph(k, e, slots) || check_fresh(k, e, args, slots)) goto out;
    }
    shape *now = find_shape(k, s.nargs, s.kwnames);
    if (now && !add_entry(k, now, e)) result = run(k, e, slots, args, s.nargs, s.kwnames);
out:
    if (!result && !PyErr_Occurred()) PyErr_NoMemory();
    PyMem_Free(slots);
    cr_entry_release(e);
    Py_XDECREF(s.kwnames);
    return result;
}

static PyObject *dispatch(callable *k, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames) {
    const cr_ambient *a = cr_ambient_get();
    if (k->capturing || a->mode.recorder || a->mode.fake || a->tracer)
        return call_plain(k, args, (size_t)nargs, kwnames); /* somebody records: they want what is inside */
    uint64_t ambient = cr_frontend_cresset.ambient();
    PyObject *small[SMALL], **slots = small;
    shape *s = find_shape(k, nargs, kwnames);
    if (!s) return NULL;
    for (size_t i = 0; i < s->entries.n; i++) {
        cr_entry *e = s->entries.at[i];
        if (e->ambient != ambient) continue;
        if (e->guards.slots > SMALL && !(slots = PyMem_Malloc(e->guards.slots * sizeof *slots)))
            return PyErr_NoMemory();
        bool missed = switches.miss_once && !e->missed;
        e->missed = true;
        if (!missed && cr_guards_check(&e->guards, args, k->function, slots) < 0) {
            k->hits++;
            PyObject *result = run(k, e, slots, args, nargs, kwnames);
            if (slots != small) PyMem_Free(slots);
            return result;
        }
        if (slots != small) PyMem_Free(slots);
        slots = small;
    }
    if (k->captures < k->limit) return miss(k, s, args, ambient);
    size_t most = s->entries.n ? s->entries.at[0]->guards.slots : 0;
    if (!(slots = PyMem_Calloc(most + 1, sizeof *slots))) return PyErr_NoMemory();
    int failed = tell_limit(k, s, args, slots);
    PyMem_Free(slots);
    return failed ? NULL : call_plain(k, args, (size_t)nargs, kwnames);
}

/* A method's object goes before the arguments. */
static PyObject *dispatch_method(callable *k, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames) {
    Py_ssize_t total = nargs + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0);
    PyObject *small[SMALL], **all = total < SMALL ? small : PyMem_Malloc(((size_t)total + 1) * sizeof *all);
    if (!all) return PyErr_NoMemory();
    all[0] = k->self;
    for (Py_ssize_t i = 0; i < total; i++) all[i + 1] = args[i];
    PyObject *result = dispatch(k, all, nargs + 1, kwnames);
    if (all != small) PyMem_Free(all);
    return result;
}

static PyObject *call(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
    callable *k = (callable *)self;
    Py_ssize_t n = PyVectorcall_NARGS(nargsf);
    return k->self ? dispatch_method(k, args, n, kwnames) : dispatch(k, args, n, kwnames);
}

/* ---- life ---- */

static PyObject *callable_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = { "wrapped", "backend", "unsupported", "limit", NULL };
    PyObject *wrapped, *backend = Py_None, *unsupported = Py_None;
    Py_ssize_t limit = 8;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|OOn:_Compiled", names, &wrapped, &backend, &unsupported, &limit))
        return NULL;
    bool method = PyMethod_Check(wrapped);
    PyObject *function = method ? PyMethod_GET_FUNCTION(wrapped) : wrapped;
    if (!PyFunction_Check(function))
        return PyErr_Format(PyExc_TypeError, "expected a function or method written in Python, not %s",
                            Py_TYPE(wrapped)->tp_name);
    callable *k = (callable *)type->tp_alloc(type, 0);
    if (!k) return NULL;
    k->vectorcall = call;
    k->wrapped = Py_NewRef(wrapped);
    k->function = function;
    k->self = method ? PyMethod_GET_SELF(wrapped) : NULL;
    k->backend = Py_NewRef(backend);
    k->unsupported = Py_NewRef(unsupported);
    k->limit = limit;
    return (PyObject *)k;
}

static void drop_entries(callable *k) {
    CR_VEC(shape) shapes = { k->shapes.at, k->shapes.n, k->shapes.cap };
    k->shapes.at = NULL, k->shapes.n = k->shapes.cap = 0;
    k->captures = 0;
    for (size_t i = 0; i < shapes.n; i++) {
        shape *s = &shapes.at[i];
        for (size_t j = 0; j < s->entries.n; j++) cr_entry_release(s->entries.at[j]);
        cr_vec_dispose(&s->entries);
        Py_XDECREF(s->kwnames);
    }
    cr_vec_dispose(&shapes);
}

static int callable_traverse(PyObject *self, visitproc visit, void *arg) {
    callable *k = (callable *)self;
    Py_VISIT(k->wrapped);
    Py_VISIT(k->backend);
    Py_VISIT(k->unsupported);
    Py_VISIT(k->dict);
    for (size_t i = 0; i < k->shapes.n; i++)
        for (size_t j = 0; j < k->shapes.at[i].entries.n; j++) Py_VISIT(k->shapes.at[i].entries.at[j]->compiled);
    return 0;
}

static int callable_clear(PyObject *self) {
    callable *k = (callable *)self;
    drop_entries(k);
    Py_CLEAR(k->backend);
    Py_CLEAR(k->unsupported);
    Py_CLEAR(k->dict);
    return 0;
}

static void callable_dealloc(PyObject *self) {
    callable *k = (callable *)self;
    PyObject_GC_UnTrack(self);
    if (k->weakrefs) PyObject_ClearWeakRefs(self);
    callable_clear(self);
    Py_CLEAR(k->wrapped);
    Py_TYPE(self)->tp_free(self);
}

/* ---- looking like the function ---- */

static PyObject *bind_to(PyObject *self, PyObject *instance, PyObject *owner) {
    (void)owner;
    bool bound = ((callable *)self)->self != NULL; /* a method is bound already */
    return instance && instance != Py_None && !bound ? PyMethod_New(self, instance) : Py_NewRef(self);
}

static PyObject *get_attribute(PyObject *self, PyObject *name) {
    PyObject *own = PyObject_GenericGetAttr(self, name);
    if (own || !PyErr_ExceptionMatches(PyExc_AttributeError)) return own;
    PyErr_Clear();
    return PyObject_GetAttr(((callable *)self)->wrapped, name);
}

static PyObject *show(PyObject *self) { return PyUnicode_FromFormat("<compiled %R>", ((callable *)self)->wrapped); }

static PyObject *get_class(PyObject *self, void *unused) {
    (void)unused;
    return Py_NewRef((PyObject *)Py_TYPE(((callable *)self)->wrapped));
}
static PyObject *get_wrapped(PyObject *self, void *unused) {
    (void)unused;
    return Py_NewRef(((callable *)self)->wrapped);
}
/* Whatever of the function's is asked of the type by its name: __doc__ and such. */
static PyObject *get_of_wrapped(PyObject *self, void *name) {
    PyObject *dict = ((callable *)self)->dict, *own = dict ? PyDict_GetItemString(dict, name) : NULL;
    return own ? Py_NewRef(own) : PyObject_GetAttrString(((callable *)self)->wrapped, name);
}
static int set_own(PyObject *self, PyObject *value, void *name) {
    callable *k = (callable *)self;
    if (!k->dict && !(k->dict = PyDict_New())) return -1;
    return value ? PyDict_SetItemString(k->dict, name, value) : PyDict_DelItemString(k->dict, name);
}

static PyObject *rebuilt(callable *k, PyObject *wrapped) {
    return Py_BuildValue("O(OOOn)", &callable_type, wrapped, k->backend, k->unsupported, k->limit);
}
static PyObject *reduce(PyObject *self, PyObject *unused) {
    (void)unused;
    return rebuilt((callable *)self, ((callable *)self)->wrapped);
}
/* A function is its own copy; a method's object is copied, and what was captured of the old one is not taken along. */
static PyObject *deepcopy(PyObject *self, PyObject *memo) {
    callable *k = (callable *)self;
    PyObject *copy = PyImport_ImportModule("copy");
    PyObject *wrapped = copy ? PyObject_CallMethod(copy, "deepcopy", "OO", k->wrapped, memo) : NULL;
    Py_XDECREF(copy);
    PyObject *made = wrapped ? PyObject_CallFunction((PyObject *)&callable_type, "OOOn", wrapped, k->backend,
                                                     k->unsupported, k->limit)
                             : NULL;
    Py_XDECREF(wrapped);
    return made;
}

/* ---- what was captured, for logs and tests ---- */

static PyObject *entry_data(const cr_entry *e) {
    PyObject *guards = PyList_New(0), *graph = NULL;
    for (size_t i = 0; guards && i < e->guards.rows.n; i++) {
        PyObject *text = cr_guard_text(&e->guards, i);
        if (!text || PyList_Append(guards, text)) Py_CLEAR(guards);
        Py_XDECREF(text);
    }
    if (e->graph) cr_graph_retain(e->graph);
    graph = e->graph ? cr_py_graph_new(e->graph) : Py_NewRef(Py_None);
    if (!guards || !graph) return Py_XDECREF(guards), Py_XDECREF(graph), NULL;
    return Py_BuildValue("{s:O,s:O,s:N,s:n,s:N,s:n,s:z}", "reason", e->reason ? e->reason : Py_None, "resumes",
                         e->resumes ? Py_True : Py_False, "graph", graph, "ops", (Py_ssize_t)e->ops, "guards", guards,
                         "effects", (Py_ssize_t)e->effects.n, "tier", cr_entry_tier(e));
}

static PyObject *entries(PyObject *self, PyObject *unused) {
    callable *k = (callable *)self;
    PyObject *list = PyList_New(0);
    (void)unused;
    for (size_t i = 0; list && i < k->shapes.n; i++)
        for (size_t j = 0; list && j < k->shapes.at[i].entries.n; j++) {
            PyObject *row = entry_data(k->shapes.at[i].entries.at[j]);
            if (!row || PyList_Append(list, row)) Py_CLEAR(list);
            Py_XDECREF(row);
        }
    return list;
}

static PyObject *counts(PyObject *self, PyObject *unused) {
    callable *k = (callable *)self;
    (void)unused;
    return Py_BuildValue("{s:n,s:K,s:K,s:K,s:K}", "captures", k->captures, "hits", k->hits, "misses", k->misses,
                         "plain", k->plain, "failed", k->failed);
}

/* Until no native code is being built any more. */
static PyObject *wait_for_tiers(PyObject *self, PyObject *unused) {
    callable *k = (callable *)self;
    (void)unused;
    for (size_t i = 0; i < k->shapes.n; i++)
        for (size_t j = 0; i < k->shapes.n && j < k->shapes.at[i].entries.n; j++) {
            cr_entry *e = cr_entry_retain(k->shapes.at[i].entries.at[j]);
            Py_BEGIN_ALLOW_THREADS;
            cr_entry_wait(e);
            Py_END_ALLOW_THREADS;
            cr_entry_release(e);
        }
    Py_RETURN_NONE;
}

static PyObject *reset(PyObject *self, PyObject *unused) {
    (void)unused;
    ((callable *)self)->told = false;
    drop_entries((callable *)self);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    { "_entries", entries, METH_NOARGS, "What was captured: [{reason, resumes, graph, ops, guards, effects, tier}]." },
    { "_counts", counts, METH_NOARGS, "How calls went: {captures, hits, misses, plain, failed}." },
    { "_wait", wait_for_tiers, METH_NOARGS, "Waits until native code that is being built is there." },
    { "_reset", reset, METH_NOARGS, "Forgets everything captured." },
    { "__deepcopy__", deepcopy, METH_O, NULL },
    { "__reduce__", reduce, METH_NOARGS, NULL },
    { NULL, NULL, 0, NULL },
};
static PyGetSetDef attributes[] = {
    { "__class__", get_class, NULL, NULL, NULL },
    { "__wrapped__", get_wrapped, NULL, "The function or method that was compiled.", NULL },
    { "__doc__", get_of_wrapped, set_own, NULL, "__doc__" },
    { "__module__", get_of_wrapped, set_own, NULL, "__module__" },
    { "__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL },
    { NULL, NULL, NULL, NULL, NULL },
};
static PyMemberDef members[] = {
    { "__dictoffset__", T_PYSSIZET, offsetof(callable, dict), READONLY, NULL },
    { NULL, 0, 0, 0, NULL },
};

static PyTypeObject callable_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "cresset._C._Compiled",
    .tp_basicsize = sizeof(callable),
    .tp_new = callable_new,
    .tp_dealloc = callable_dealloc,
    .tp_traverse = callable_traverse,
    .tp_clear = callable_clear,
    .tp_repr = show,
    .tp_getattro = get_attribute,
    .tp_descr_get = bind_to,
    .tp_methods = methods,
    .tp_getset = attributes,
    .tp_members = members,
    .tp_dictoffset = offsetof(callable, dict),
    .tp_weaklistoffset = offsetof(callable, weakrefs),
    .tp_vectorcall_offset = offsetof(callable, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR,
};

/* ---- for tests ---- */

static PyObject *set_switches(PyObject *module, PyObject *args, PyObject *kwargs) {
    static char *names[] = { "miss_once", "fail_graphs", NULL };
    int once = 0, fail = 0;
    (void)module;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$pp:_capture_switches", names, &once, &fail)) return NULL;
    switches.miss_once = once, switches.fail_graphs = fail;
    Py_RETURN_NONE;
}

/* A function evaluated plainly: what an interpreter does. */
static PyObject *evaluate(PyObject *module, PyObject *const *args, Py_ssize_t n) {
    cr_capture c;
    PyObject *result = NULL;
    (void)module;
    if (n < 1 || !PyFunction_Check(args[0])) return PyErr_Format(PyExc_TypeError, "_evaluate() takes a function");
    if (!cr_capture_begin(&c, true) && !cr_push_call(&c, args[0], args + 1, n - 1, NULL) && !cr_evaluate(&c))
        result = Py_NewRef(c.result);
    else if (c.reason && !PyErr_Occurred()) PyErr_Format(PyExc_NotImplementedError, "%U", c.reason);
    cr_capture_dispose(&c);
    return result;
}

static PyMethodDef functions[] = {
    { "_capture_switches", (PyCFunction)(void (*)(void))set_switches, METH_VARARGS | METH_KEYWORDS,
      "_capture_switches(*, miss_once, fail_graphs): every guard misses once; every graph fails. For tests." },
    { "_evaluate", (PyCFunction)(void (*)(void))evaluate, METH_FASTCALL,
      "_evaluate(fn, *args): fn(*args) by capture's evaluator, on real objects." },
    { NULL, NULL, 0, NULL },
};

int cr_callable_init(PyObject *module) {
    if (PyType_Ready(&callable_type) || PyType_Ready(&cr_token_type) || PyType_Ready(&cr_super_type) ||
        PyType_Ready(&cr_callback_type) || cr_generators_init())
        return -1;
    if (!(cr_break_error = PyErr_NewException("cresset._C._Break", PyExc_Exception, NULL))) return -1;
    if (!(cr_raised_error = PyErr_NewException("cresset._C._Raised", PyExc_BaseException, NULL))) return -1;
    if (PyModule_AddObjectRef(module, "_Compiled", (PyObject *)&callable_type)) return -1;
    return PyModule_AddFunctions(module, functions);
}
