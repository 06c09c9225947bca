/* eval_regions.c: cond(), while_loop(), map(), scan(), associative_scan() in a captured program.
 *
 * CPython runs them on the fakes, which records their bodies; those are the program's functions, evaluated. A body is
 * evaluated once, whether and however often it is run: so it may change nothing that was there before it. */
#include "capture/evaluate.h"

#include "python/py.h"

typedef struct walk {
    cr_map seen;
    uint64_t print; /* of all that was seen */
    int depth;
    bool unknown;   /* something cannot be looked into */
} walk;

static void look_at(walk *w, PyObject *value);

static void note(walk *w, const void *address, size_t n) {
    uint64_t step[3] = { w->print, (uint64_t)(uintptr_t)address, (uint64_t)n };
    w->print = cr_hash(step, sizeof step, 0);
}

static void look_into_all(walk *w, PyObject *const *values, Py_ssize_t n) {
    for (Py_ssize_t i = 0; i < n; i++) look_at(w, values[i]);
}

static void look_into_dict(walk *w, PyObject *dict) {
    PyObject *key, *value;
    for (Py_ssize_t at = 0; dict && PyDict_Next(dict, &at, &key, &value);) look_at(w, key), look_at(w, value);
}

static void look_into_set(walk *w, PyObject *set) {
    const PySetObject *s = (PySetObject *)set;
    note(w, set, (size_t)PySet_GET_SIZE(set));
    for (Py_ssize_t i = 0; i <= s->mask; i++)
        if (s->table[i].key && s->table[i].hash != -1) note(w, s->table[i].key, 0);
}

static void look_into_function(walk *w, PyObject *function) {
    const PyFunctionObject *f = (PyFunctionObject *)function;
    look_at(w, f->func_closure);
    look_at(w, f->func_defaults);
    look_at(w, f->func_kwdefaults);
    look_at(w, f->func_dict);
}

/* What the program has made is looked into; what is outside has its own journal. */
static void look_at(walk *w, PyObject *value) {
    note(w, value, 0);
    if (!value || w->unknown || (cr_is_token(value) && !cr_is_made(value)) || cr_is_tensor_value(value) ||
        cr_is_open(value) || cr_is_plain_constant(value) || cr_is_held_constant(value) || PyRange_Check(value) ||
        cr_map_find(&w->seen, &value, sizeof value, NULL))
        return;
    if (++w->depth > CR_MAX_NESTING || cr_map_put(&w->seen, &value, sizeof value, 0)) w->unknown = true;
    else if (cr_is_made(value)) {
        const cr_token *t = (cr_token *)value;
        look_into_dict(w, t->attributes);
        look_into_dict(w, t->slots);
        look_at(w, t->payload);
    } else if (PyTuple_Check(value) || PyList_CheckExact(value)) {
        note(w, value, (size_t)PySequence_Fast_GET_SIZE(value));
        look_into_all(w, PySequence_Fast_ITEMS(value), PySequence_Fast_GET_SIZE(value));
    } else if (PyDict_Check(value)) look_into_dict(w, value);
    else if (PyAnySet_Check(value)) look_into_set(w, value);
    else if (PySlice_Check(value)) look_into_all(w, &((PySliceObject *)value)->start, 3);
    else if (PyCell_Check(value)) look_at(w, PyCell_GET(value));
    else if (PyFunction_Check(value)) look_into_function(w, value);
    else if (PyMethod_Check(value)) look_at(w, PyMethod_GET_FUNCTION(value)), look_at(w, PyMethod_GET_SELF(value));
    else w->unknown = true; /* an iterator, a generator: what it has given already is not seen */
    w->depth--;
}

/* Of all that the functions may reach and change. False: it cannot be told. */
static bool fingerprint(const cr_capture *c, const cr_arguments *a, uint64_t *print) {
    walk w = { .depth = 0 };
    Py_ssize_t total = a->n + (a->kwnames ? PyTuple_GET_SIZE(a->kwnames) : 0);
    cr_map_init(&w.seen);
    look_into_all(&w, a->at, total);
    for (size_t i = 0; i < c->reordered.n; i++) note(&w, c->reordered.at[i].call, i);
    for (size_t i = 0; i < c->stores.n; i++) note(&w, c->stores.at[i].value, i);
    for (size_t i = 0; i < c->known.n && !w.unknown; i++)
        if (c->known.at[i].before && !cr_is_unchanged(&c->known.at[i])) look_at(&w, c->known.at[i].value);
    cr_map_dispose(&w.seen);
    *print = w.print;
    return !w.unknown;
}

static int call_region(cr_capture *c, cr_call_frame *f, PyObject *token, const cr_arguments *a) {
    PyFunctionObject *function = (PyFunctionObject *)cr_real(token);
    uint64_t before, after;
    if (cr_guard_object(&c->guards, cr_source_of(token), CR_HOLDS_IS, (PyObject *)function)) return -1;
    if (!fingerprint(c, a, &before))
        return cr_break(c, "functions given to %U() use something that is no tensor, number or container: give them "
                           "what it holds instead", function->func_qualname);
    if (cr_call_run(c, f, (PyObject *)function, a)) return -1;
    if (!cr_is_known_value(cr_peek(f, 1)))
        return cr_break(c, "%U() gives something else than tensors and numbers in tuples, lists and dicts",
                        function->func_qualname);
    if (fingerprint(c, a, &after) && before == after) return 0;
    return cr_break(c, "a function given to %U() changes something that was there before: return the new value instead",
                    function->func_qualname);
}

/* What fullgraph raises for a region that cannot be. */
static void set_error(cr_capture *c) {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyObject *module = PyImport_ImportModule("cresset._dynamo.exc");
    PyObject *theirs = module ? PyObject_GetAttrString(module, "TorchRuntimeError") : NULL;
    bool differ = theirs && type && PyErr_GivenExceptionMatches(type, theirs);
    const char *name = differ ? "BranchesDifferError" : "UncapturedHigherOrderOpError";
    PyObject *error = theirs ? PyObject_GetAttrString(module, name) : NULL;
    Py_XSETREF(c->error, error);
    Py_XDECREF(theirs);
    Py_XDECREF(module);
    PyErr_Restore(type, value, traceback);
}

int cr_call_region(cr_capture *c, cr_call_frame *f, PyObject *token, const cr_arguments *a) {
    if (c->tracer) return cr_call_run(c, f, cr_real(token), a);
    int r = call_region(c, f, token, a);
    if (r && !c->error) set_error(c);
    return r;
}
