/* callable.c: the object that cresset.compile returns.
 *
 * It stands for the function: it has its attributes, binds as a method where it is put into a class, and says that it
 * is a function (`inspect` agrees). What a call does is in dispatch.c. */
#include "capture/capture.h"
#include "capture/callable.h"
#include "capture/dispatch.h"
#include "capture/stamps.h"

#include "python/py.h"
#include "python/walk_graphs.h"

#include <structmember.h>

typedef struct callable {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *wrapped;          /* what was compiled: a function, or a method */
    PyObject *function, *self;  /* its parts; self NULL: no method. Borrowed from `wrapped` */
    PyObject *dict, *weakrefs;
    cr_walk_graphs *walks;      /* what captures walks back inside of its calls; owned; NULL: nothing */
    cr_dispatcher d;
} callable;

static PyTypeObject callable_type;

bool cr_is_callable(PyObject *o) { return Py_IS_TYPE(o, &callable_type); }
PyObject *cr_callable_wrapped(PyObject *o) { return ((callable *)o)->wrapped; }

/* ---- calling ---- */

enum { SMALL = 64 };

/* A method's object goes before the arguments. */
static PyObject *call_method(callable *k, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames) {
    Py_ssize_t total = nargs + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0);
    PyObject *small[SMALL], **all = total < SMALL ? small : PyMem_Malloc(((size_t)total + 1) * sizeof *all);
    if (!all) return PyErr_NoMemory();
    all[0] = k->self;
    for (Py_ssize_t i = 0; i < total; i++) all[i + 1] = args[i];
    PyObject *result = cr_dispatch(&k->d, k->function, all, nargs + 1, kwnames);
    if (all != small) PyMem_Free(all);
    return result;
}

static PyObject *call(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
    callable *k = (callable *)self;
    Py_ssize_t n = PyVectorcall_NARGS(nargsf);
    return k->self ? call_method(k, args, n, kwnames) : cr_dispatch(&k->d, k->function, args, n, kwnames);
}

/* config.compiled_autograd: the thread's own are back when the call ends, however it does. */
static PyObject *call_capturing_walks(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
    cr_walk_graphs *own = ((callable *)self)->walks, *before;
    cr_walk_graphs_retain(own);
    before = cr_walk_graphs_use(own);
    PyObject *result = call(self, args, nargsf, kwnames), *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback); /* giving up references may run anything */
    cr_walk_graphs_release(cr_walk_graphs_use(before));
    PyErr_Restore(type, value, traceback);
    return result;
}

static PyObject *capture_walks(PyObject *self, PyObject *o) {
    callable *k = (callable *)self;
    cr_walk_graphs *graphs = cr_py_walk_graphs(o);
    if (!graphs)
        return PyErr_Format(PyExc_TypeError, "_capture_walks() takes a _WalkGraphs, not a %s", Py_TYPE(o)->tp_name);
    cr_walk_graphs_retain(graphs);
    cr_walk_graphs_release(k->walks);
    k->walks = graphs;
    k->vectorcall = call_capturing_walks;
    Py_RETURN_NONE;
}

/* ---- life ---- */

static PyObject *callable_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = { "wrapped", "backend", "unsupported", "limit", "dynamic", "all", "ways", NULL };
    PyObject *wrapped, *backend = Py_None, *unsupported = Py_None;
    Py_ssize_t limit = 8, all = 0;
    unsigned dynamic = 0, ways = CR_TIER_NATIVE;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|OOnInI:_Compiled", names, &wrapped, &backend, &unsupported,
                                     &limit, &dynamic, &all, &ways))
        return NULL;
    bool method = PyMethod_Check(wrapped);
    PyObject *function = method ? PyMethod_GET_FUNCTION(wrapped) : wrapped;
    if (!PyFunction_Check(function))
        return PyErr_Format(PyExc_TypeError, "expected a function or method written in Python, not %s",
                            Py_TYPE(wrapped)->tp_name);
    if (cr_stamps_probe()) return NULL;
    callable *k = (callable *)type->tp_alloc(type, 0);
    if (!k) return NULL;
    k->vectorcall = call;
    k->wrapped = Py_NewRef(wrapped);
    k->function = function;
    k->self = method ? PyMethod_GET_SELF(wrapped) : NULL;
    k->d.backend = Py_NewRef(backend);
    k->d.unsupported = Py_NewRef(unsupported);
    k->d.limit = limit;
    k->d.owner = (PyObject *)k;
    k->d.dynamic = dynamic;
    k->d.all = all;
    k->d.ways = ways;
    return (PyObject *)k;
}

/* All entries: of the function itself first. Stops at what is not 0. Runs no Python code but what `see` runs. */
static int each_entry(const cr_dispatcher *d, int (*see)(cr_entry *e, const cr_cache *c, int32_t at, void *user),
                      void *user) {
    for (size_t i = 0; i < d->caches.n; i++)
        for (size_t j = 0; i < d->caches.n && j < d->caches.at[i]->places.n; j++)
            for (size_t k = 0; i < d->caches.n && k < d->caches.at[i]->places.at[j].entries.n; k++) {
                const cr_place *p = &d->caches.at[i]->places.at[j];
                int seen = see(p->entries.at[k], d->caches.at[i], p->at, user);
                if (seen) return seen;
            }
    return 0;
}

typedef struct visitor {
    visitproc visit;
    void *arg;
} visitor;

static int visit_entry(cr_entry *e, const cr_cache *c, int32_t at, void *user) {
    const visitor *v = user;
    visitproc visit = v->visit;
    void *arg = v->arg;
    (void)c, (void)at;
    Py_VISIT(e->compiled);
    Py_VISIT(e->finish);
    return 0;
}

static int callable_traverse(PyObject *self, visitproc visit, void *arg) {
    callable *k = (callable *)self;
    Py_VISIT(k->wrapped);
    Py_VISIT(k->d.backend);
    Py_VISIT(k->d.unsupported);
    Py_VISIT(k->dict);
    return each_entry(&k->d, visit_entry, &(visitor){ visit, arg });
}

static int callable_clear(PyObject *self) {
    callable *k = (callable *)self;
    cr_dispatcher_forget(&k->d);
    Py_CLEAR(k->d.backend);
    Py_CLEAR(k->d.unsupported);
    Py_CLEAR(k->dict);
    return 0;
}

static void callable_dealloc(PyObject *self) {
    callable *k = (callable *)self;
    PyObject_GC_UnTrack(self);
    if (k->weakrefs) PyObject_ClearWeakRefs(self);
    callable_clear(self);
    cr_walk_graphs_release(k->walks);
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

/* What calls go by is the function's: whoever sets it means that (types.coroutine marks the code). */
static int set_of_wrapped(PyObject *self, PyObject *value, void *name) {
    PyObject *wrapped = ((callable *)self)->wrapped;
    return value ? PyObject_SetAttrString(wrapped, name, value) : PyObject_DelAttrString(wrapped, name);
}

static PyObject *rebuilt(callable *k, PyObject *wrapped) {
    return Py_BuildValue("O(OOOnInI)", &callable_type, wrapped, k->d.backend, k->d.unsupported, k->d.limit,
                         k->d.dynamic, k->d.all, k->d.ways);
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
    PyObject *made = wrapped ? PyObject_CallFunction((PyObject *)&callable_type, "OOOnInI", wrapped, k->d.backend,
                                                     k->d.unsupported, k->d.limit, k->d.dynamic, k->d.all, k->d.ways)
                             : NULL;
    Py_XDECREF(wrapped);
    return made;
}

/* ---- what was captured, for logs and tests ---- */

/* What a front end's code consists of: a list. New reference; NULL, without an exception: there is none. */
static PyObject *codes_of(const cr_entry *e) {
    if (!e->frontend->build || !e->compiled) return NULL;
    PyObject *codes = PyObject_GetAttrString(e->compiled, "_codes");
    if (!codes) PyErr_Clear();
    return codes ? codes : Py_BuildValue("[O]", e->compiled);
}

static PyObject *tier_of(const cr_entry *e) {
    PyObject *codes = codes_of(e), *first = codes ? PySequence_GetItem(codes, 0) : NULL;
    PyObject *tier = first ? PyObject_GetAttrString(first, "tier") : NULL;
    Py_XDECREF(codes);
    Py_XDECREF(first);
    PyErr_Clear();
    return tier ? tier : Py_BuildValue("z", cr_entry_tier(e));
}

static PyObject *guards_data(const cr_entry *e, PyObject *misses) {
    PyObject *guards = PyList_New(0);
    for (size_t i = 0; guards && i < e->guards.rows.n; i++) {
        PyObject *text = cr_guard_text(&e->guards, i), *missed = PyLong_FromUnsignedLong(e->guards.rows.at[i].misses);
        if (!text || !missed || PyList_Append(guards, text) || PyList_Append(misses, missed)) Py_CLEAR(guards);
        Py_XDECREF(text);
        Py_XDECREF(missed);
    }
    return guards;
}

/* `whole`: with the graph and the guards, whose texts take their time. */
static PyObject *entry_data(const cr_entry *e, const cr_cache *c, int32_t at, bool whole) {
    PyCodeObject *code = (PyCodeObject *)c->code;
    const cr_code *instructions = cr_code_get(code);
    if (!instructions) return NULL;
    int line = at < 0 ? code->co_firstlineno : PyCode_Addr2Line(code, instructions->at[at].own * 2);
    PyObject *row = Py_BuildValue("{s:O,s:O,s:O,s:i,s:i,s:O,s:O,s:n,s:n,s:N,s:K,s:d,s:d,s:d}", "function",
                                  code->co_qualname, "file", code->co_filename, "code", code, "at", at, "line", line,
                                  "reason", e->reason ? e->reason : Py_None, "resumes",
                                  e->resumes ? Py_True : Py_False, "ops", (Py_ssize_t)e->ops, "effects",
                                  (Py_ssize_t)e->effects.n, "tier", tier_of(e), "hits",
                                  (unsigned long long)e->hits, "capture_seconds", e->capture_seconds,
                                  "compile_seconds", e->compile_seconds, "run_seconds", e->run_seconds);
    if (!row || !whole) return row;
    if (e->graph) cr_graph_retain(e->graph);
    PyObject *graph = e->graph ? cr_py_graph_new(e->graph) : Py_NewRef(Py_None), *misses = PyList_New(0);
    PyObject *guards = misses ? guards_data(e, misses) : NULL, *stamps = guards ? cr_stamps_shown(&e->guards) : NULL;
    if (!graph || !stamps || PyDict_SetItemString(row, "graph", graph) || PyDict_SetItemString(row, "stamps", stamps) ||
        PyDict_SetItemString(row, "guards", guards) || PyDict_SetItemString(row, "misses", misses))
        Py_CLEAR(row);
    Py_XDECREF(stamps);
    Py_XDECREF(graph);
    Py_XDECREF(guards);
    Py_XDECREF(misses);
    return row;
}

static int add_data(cr_entry *e, const cr_cache *c, int32_t at, void *list) {
    PyObject *row = entry_data(e, c, at, true);
    int failed = row ? PyList_Append(list, row) : -1;
    Py_XDECREF(row);
    return failed;
}

/* ---- who wants to know ---- */

static PyObject *observer; /* (compiled, entry, missed) -> what is to be raised, or None; NULL: nobody */
static bool observes_all;  /* entries with graph and guards */

bool cr_is_observed(void) { return observer != NULL; }

int cr_observe(cr_dispatcher *d, cr_entry *e, const cr_cache *c, int32_t at, PyObject *missed) {
    PyObject *self = d->owner ? d->owner : Py_None, *seen = Py_XNewRef(observer);
    PyObject *data = seen ? entry_data(e, c, at, observes_all) : NULL;
    PyObject *done = data ? PyObject_CallFunctionObjArgs(seen, self, data, missed ? missed : Py_None, NULL) : NULL;
    if (!done && seen && PyErr_ExceptionMatches(PyExc_Exception)) PyErr_WriteUnraisable(seen);
    if (done && PyExceptionInstance_Check(done)) PyErr_SetObject((PyObject *)Py_TYPE(done), done);
    Py_XDECREF(done);
    Py_XDECREF(data);
    Py_XDECREF(seen);
    return PyErr_Occurred() ? -1 : 0; /* Ctrl-C is the caller's, wherever it comes */
}

static PyObject *set_observer(PyObject *module, PyObject *args) {
    PyObject *function;
    int all;
    (void)module;
    if (!PyArg_ParseTuple(args, "Op:_set_observer", &function, &all)) return NULL;
    observes_all = all;
    Py_XSETREF(observer, function == Py_None ? NULL : Py_NewRef(function));
    Py_RETURN_NONE;
}

static PyObject *entries(PyObject *self, PyObject *unused) {
    PyObject *list = PyList_New(0);
    (void)unused;
    if (list && each_entry(&((callable *)self)->d, add_data, list)) Py_CLEAR(list);
    return list;
}

static PyObject *counts(PyObject *self, PyObject *unused) {
    const cr_dispatcher *d = &((callable *)self)->d;
    Py_ssize_t captures = 0;
    (void)unused;
    for (size_t i = 0; i < d->caches.n; i++)
        for (size_t j = 0; j < d->caches.at[i]->places.n; j++)
            captures += (Py_ssize_t)d->caches.at[i]->places.at[j].entries.n;
    return Py_BuildValue("{s:n,s:K,s:K,s:K,s:K,s:K}", "captures", captures, "hits", d->hits, "misses", d->misses,
                         "plain", d->plain, "failed", d->failed, "breaks", d->breaks);
}

void cr_wait_for_code(cr_entry *e) {
    cr_entry_retain(e);
    PyObject *codes = codes_of(e);
    for (Py_ssize_t i = 0; codes && i < PyList_Size(codes); i++) {
        PyObject *done = PyObject_CallMethod(PyList_GET_ITEM(codes, i), "_wait", NULL);
        Py_XDECREF(done);
        PyErr_Clear();
    }
    Py_XDECREF(codes);
    cr_entry_wait(e);
    cr_entry_release(e);
}

static int wait_for(cr_entry *e, const cr_cache *c, int32_t at, void *user) {
    (void)c, (void)at, (void)user;
    cr_wait_for_code(e);
    return 0;
}

/* Until no native code is being built any more. */
static PyObject *wait_for_tiers(PyObject *self, PyObject *unused) {
    (void)unused;
    each_entry(&((callable *)self)->d, wait_for, NULL);
    Py_RETURN_NONE;
}

static PyObject *reset(PyObject *self, PyObject *unused) {
    (void)unused;
    cr_dispatcher_forget(&((callable *)self)->d);
    Py_RETURN_NONE;
}

/* Everything captured of one code object, wherever it was reached. */
static PyObject *forget(PyObject *self, PyObject *code) {
    cr_dispatcher *d = &((callable *)self)->d;
    Py_ssize_t dropped = 0;
    for (size_t i = d->caches.n; i-- > 0;) {
        cr_cache *c = d->caches.at[i];
        if (c->code != code) continue;
        memmove(d->caches.at + i, d->caches.at + i + 1, (d->caches.n - i - 1) * sizeof *d->caches.at);
        d->caches.n--;
        dropped++;
        cr_cache_release(c);
        if (i > d->caches.n) i = d->caches.n; /* releasing may have run Python code */
    }
    return PyLong_FromSsize_t(dropped);
}

static PyObject *get_compiler_config(PyObject *self, PyObject *unused) {
    PyObject *backend = ((callable *)self)->d.backend;
    (void)unused;
    if (backend == Py_None || PyUnicode_Check(backend)) Py_RETURN_NONE;
    return PyObject_CallMethod(backend, "get_compiler_config", NULL);
}

static PyMethodDef methods[] = {
    { "_entries", entries, METH_NOARGS,
      "What was captured: [{function, file, code, at, line, reason, resumes, graph, ops, guards, misses (of each "
      "guard), effects, tier, hits, capture_seconds, compile_seconds, run_seconds}]." },
    { "_counts", counts, METH_NOARGS, "How calls went: {captures, hits, misses, plain, failed, breaks}." },
    { "_capture_walks", capture_walks, METH_O, "Walks back inside of its calls are captured by a _WalkGraphs." },
    { "_wait", wait_for_tiers, METH_NOARGS, "Waits until native code that is being built is there." },
    { "get_compiler_config", get_compiler_config, METH_NOARGS, "What the backend's own get_compiler_config() says." },
    { "_forget", forget, METH_O, "_forget(code): forgets what was captured of it; how many places knew it." },
    { "_reset", reset, METH_NOARGS, "Forgets everything captured." },
    { "__deepcopy__", deepcopy, METH_O, NULL },
    { "__reduce__", reduce, METH_NOARGS, NULL },
    { NULL, NULL, 0, NULL },
};
static PyGetSetDef attributes[] = {
    { "__class__", get_class, NULL, NULL, NULL },
    { "__wrapped__", get_wrapped, NULL, "The function or method that was compiled.", NULL },
    { "_torchdynamo_orig_callable", get_wrapped, NULL, "The same, by PyTorch's name.", NULL },
    { "__doc__", get_of_wrapped, set_own, NULL, "__doc__" },
    { "__module__", get_of_wrapped, set_own, NULL, "__module__" },
    { "__code__", get_of_wrapped, set_of_wrapped, NULL, "__code__" },
    { "__defaults__", get_of_wrapped, set_of_wrapped, NULL, "__defaults__" },
    { "__kwdefaults__", get_of_wrapped, set_of_wrapped, NULL, "__kwdefaults__" },
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

/* ---- switches ---- */

static PyObject *set_switches(PyObject *module, PyObject *args, PyObject *kwargs) {
    static char *names[] = { "miss_once", "fail_graphs", "every", "stamps", NULL };
    static const char *const modes[] = { "used", "lie", "compare", "off" };
    int once = 0, fail = 0;
    long every = 0;
    const char *stamps = "used";
    size_t mode = 0;
    (void)module;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$ppls:_capture_switches", names, &once, &fail, &every, &stamps))
        return NULL;
    while (mode < CR_COUNT(modes) && strcmp(modes[mode], stamps)) mode++;
    if (mode == CR_COUNT(modes))
        return PyErr_Format(PyExc_ValueError, "stamps is '%s'; it can be used, lie, compare or off", stamps);
    cr_capture_switches = (cr_switches){ once, fail, every };
    cr_capture_stamp_mode = (cr_stamp_mode)mode;
    Py_RETURN_NONE;
}

static PyObject *count_stale(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    return PyLong_FromUnsignedLongLong(cr_capture_stale);
}

static PyObject *time_entries(PyObject *module, PyObject *on) {
    bool before = cr_capture_timed;
    int now = PyObject_IsTrue(on);
    (void)module;
    if (now < 0) return NULL;
    cr_capture_timed = now;
    return PyBool_FromLong(before);
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

static PyObject *is_capturing(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    return PyBool_FromLong(cr_is_capturing());
}

static PyObject *follows_opaque(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    return PyBool_FromLong(cr_follows_opaque());
}

/* Nothing; captures end before it, since no table has it. */
static PyObject *captured_alone(PyObject *module, PyObject *args) { /* captures answer: eval_builtins.c */
    (void)module, (void)args;
    Py_RETURN_FALSE;
}

static PyObject *graph_break(PyObject *module, PyObject *why) {
    (void)module, (void)why;
    Py_RETURN_NONE;
}

static PyObject *call_cached(PyObject *module, PyObject *args) {
    PyObject *function, *given, *keywords;
    (void)module;
    if (!PyArg_ParseTuple(args, "OO!O!:_call_cached", &function, &PyTuple_Type, &given, &PyDict_Type, &keywords))
        return NULL;
    cr_run_only_begin();
    PyObject *result = PyObject_Call(function, given, keywords);
    cr_run_only_end();
    return result;
}

static PyObject *use_substitutes(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    cr_has_substitutes = true;
    Py_RETURN_NONE;
}

static PyObject *only_compliant(PyObject *module, PyObject *on) {
    (void)module;
    cr_only_compliant = on == Py_True;
    Py_RETURN_NONE;
}

static PyObject *skip_code(PyObject *module, PyObject *code) {
    (void)module;
    if (!PyCode_Check(code))
        return PyErr_Format(PyExc_TypeError, "skip_code() takes a code object, not a %s: give f.__code__",
                            Py_TYPE(code)->tp_name);
    if (cr_code_skip((PyCodeObject *)code)) return NULL;
    Py_RETURN_NONE;
}

static PyObject *set_stance(PyObject *module, PyObject *number) {
    long stance = PyLong_AsLong(number), before = cr_capture_stance;
    (void)module;
    if (PyErr_Occurred()) return NULL;
    if (stance < 0 || stance >= CR_STANCE_COUNT)
        return PyErr_Format(PyExc_ValueError, "there is no stance %ld", stance);
    cr_capture_stance = (cr_stance)stance;
    return PyLong_FromLong(before);
}

static PyMethodDef functions[] = {
    { "_is_capturing", is_capturing, METH_NOARGS, "Is this thread capturing a call?" },
    { "_graph_break", graph_break, METH_O, "_graph_break(why): nothing; captures end before it, and say why." },
    { "_note_leaf", captured_alone, METH_VARARGS,
      "_note_leaf(tensor, requires_grad): False; while a call is captured, whether nothing changes that it could "
      "tell." },
    { "_push_mode", captured_alone, METH_VARARGS, "_push_mode(mode): a captured call enters a function mode." },
    { "_pop_mode", captured_alone, METH_VARARGS, "_pop_mode(): ... and leaves it." },
    { "_count_modes", captured_alone, METH_VARARGS, "_count_modes(): of those that it has entered." },
    { "_mode_at", captured_alone, METH_VARARGS, "_mode_at(i): one of them." },
    { "_call_cached", call_cached, METH_VARARGS,
      "_call_cached(fn, args, kwargs): fn(*args, **kwargs); compiled functions capture nothing inside of it." },
    { "_set_observer", set_observer, METH_VARARGS,
      "_set_observer(fn, all): fn(compiled, entry, missed) is told of entries that are made; all: with graph and "
      "guards. fn None: nobody is." },
    { "_use_substitutes", use_substitutes, METH_NOARGS,
      "Captures look for functions that stand in for those in C (cresset._dynamo.rules)." },
    { "_only_compliant", only_compliant, METH_O,
      "_only_compliant(on): do custom operators without the tag pt2_compliant_tag end captures?" },
    { "_skip_code", skip_code, METH_O, "_skip_code(code): its frames run plain from now on." },
    { "_set_stance", set_stance, METH_O, "_set_stance(n): what compiled functions do; gives what they did before." },
    { "_capture_switches", (PyCFunction)(void (*)(void))set_switches, METH_VARARGS | METH_KEYWORDS,
      "_capture_switches(*, miss_once, fail_graphs, every, stamps): every guard misses once; every graph fails; "
      "captures end after so many instructions of the function's own; stamps of guards are 'used', 'lie' (say that "
      "everything changed), are made at once and 'compare'd with the guards themselves, or 'off'. For tests." },
    { "_stale_stamps", count_stale, METH_NOARGS, "How often a comparison found stamps that were wrong." },
    { "_follows_opaque", follows_opaque, METH_NOARGS,
      "_follows_opaque(): may an op that only another library has be part of the graph that is captured?" },
    { "_time_entries", time_entries, METH_O, "_time_entries(on): are runs of entries timed? Gives what was before." },
    { "_evaluate", (PyCFunction)(void (*)(void))evaluate, METH_FASTCALL,
      "_evaluate(fn, *args): fn(*args) by capture's evaluator, on real objects." },
    { NULL, NULL, 0, NULL },
};

int cr_callable_init(PyObject *module) {
    if (PyType_Ready(&callable_type) || PyType_Ready(&cr_token_type) || PyType_Ready(&cr_super_type) ||
        PyType_Ready(&cr_callback_type) || PyType_Ready(&cr_iterator_type) || cr_generators_init())
        return -1;
    if (!(cr_break_error = PyErr_NewException("cresset._C._Break", PyExc_Exception, NULL))) return -1;
    if (!(cr_raised_error = PyErr_NewException("cresset._C._Raised", PyExc_BaseException, NULL))) return -1;
    if (PyModule_AddObjectRef(module, "_Compiled", (PyObject *)&callable_type)) return -1;
    return PyModule_AddFunctions(module, functions);
}
