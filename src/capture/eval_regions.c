/* eval_regions.c: cond(), while_loop(), map(), scan(), associative_scan(), checkpoint() in a captured program, and the
 * transforms of func (grad and its like, vmap).
 *
 * CPython runs them on the fakes, which records their bodies; those are the program's functions, evaluated. A body is
 * evaluated once, whether and however often it is run: so it may change nothing that was there before it. What a
 * transform runs has tensors that are another's outside of it: it must not leave one anywhere either. */
#include "capture/evaluate.h"

#include "graph/writes.h"
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
        Py_IS_TYPE(value, &cr_py_held_type) ||
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
    else if (cr_is_partial_type(Py_TYPE(value)))
        for (int k = 0; k < 3; k++) look_at(w, cr_part_of_partial(value, k));
    else w->unknown = true; /* an iterator, a generator: what it has given already is not seen */
    w->depth--;
}

static Py_ssize_t count(const cr_arguments *a) { return a->n + (a->kwnames ? PyTuple_GET_SIZE(a->kwnames) : 0); }

/* Of all that the functions may reach and change: what the region was called with, and what it is `given` in its place.
 * False: it cannot be told. */
static bool fingerprint(const cr_capture *c, const cr_arguments *a, PyObject *const *given, uint64_t *print) {
    walk w = { .depth = 0 };
    cr_map_init(&w.seen);
    look_into_all(&w, a->at, count(a));
    look_into_all(&w, given, count(a));
    for (size_t i = 0; i < c->reordered.n; i++) note(&w, c->reordered.at[i].call, i);
    for (size_t i = 0; i < c->stores.n; i++) { /* what is found once, and is what it always is: cached results, ops */
        const cr_store *s = &c->stores.at[i];
        if (s->read != CR_READ_CALLED && !Py_IS_TYPE(s->value, &cr_py_packet_type)) note(&w, s->value, i);
    }
    for (size_t i = 0; i < c->known.n && !w.unknown; i++)
        if (c->known.at[i].before && !cr_is_unchanged(&c->known.at[i])) look_at(&w, c->known.at[i].value);
    cr_map_dispose(&w.seen);
    *print = w.print;
    return !w.unknown;
}

/* ---- tensors that are written to ---- */

typedef struct writing { const cr_graph *g; uint32_t nodes, values; /* that were there before */ bool found; } writing;

static cr_status see_write(void *user, const cr_node *node, uint32_t value, int kinds) {
    writing *w = user;
    const cr_meta *m = cr_graph_value(w->g, value)->meta;
    (void)node, (void)kinds;
    for (uint32_t v = 0; m && v < cr_graph_value_count(w->g) && !w->found; v++) {
        const cr_value *other = cr_graph_value(w->g, v);
        if (other->node == CR_NO_NODE) continue;
        bool outside = v < w->values || cr_graph_node(w->g, other->node)->kind != CR_NODE_CALL;
        w->found = outside && other->meta && other->meta->storage == m->storage;
    }
    return CR_OK;
}

/* Does a call recorded since write to memory that was there before? */
static bool writes_outside(writing *w) {
    for (uint32_t n = cr_graph_first(w->g); n != CR_NO_NODE && !w->found; n = cr_graph_next(w->g, n)) {
        const cr_node *node = cr_graph_node(w->g, n);
        if (n < w->nodes || node->kind != CR_NODE_CALL) continue;
        if (cr_node_visit_writes(w->g, node, CR_SHARING_KNOWN, see_write, w)) return true;
    }
    return w->found;
}

/* ---- calls ---- */

static PyObject *opened(cr_capture *c, PyObject *value, int depth);

static PyObject *opened_dict(cr_capture *c, PyObject *dict, int depth) {
    PyObject *made = PyDict_New(), *key, *item;
    for (Py_ssize_t at = 0; made && PyDict_Next(dict, &at, &key, &item);) {
        PyObject *operand = opened(c, item, depth);
        if (!operand || PyDict_SetItem(made, key, operand)) Py_CLEAR(made);
        Py_XDECREF(operand);
    }
    return made;
}

/* Arguments as CPython may look into them: containers from outside unfolded, in each other, too. New reference. */
static PyObject *opened(cr_capture *c, PyObject *value, int depth) {
    PyObject *from = ++depth > CR_MAX_NESTING ? NULL : cr_operand(c, value), *made = NULL;
    if (!from) return depth > CR_MAX_NESTING ? cr_break(c, "containers lie too deep in each other"), NULL : NULL;
    bool list = PyList_CheckExact(from);
    if (PyDict_CheckExact(from)) made = opened_dict(c, from, depth);
    else if (!list && !PyTuple_CheckExact(from)) made = Py_NewRef(from);
    else {
        Py_ssize_t n = PySequence_Fast_GET_SIZE(from);
        made = list ? PyList_New(n) : PyTuple_New(n);
        for (Py_ssize_t i = 0; made && i < n; i++) {
            PyObject *operand = opened(c, PySequence_Fast_GET_ITEM(from, i), depth);
            if (!operand) Py_CLEAR(made);
            else if (list) PyList_SET_ITEM(made, i, operand);
            else PyTuple_SET_ITEM(made, i, operand);
        }
    }
    Py_DECREF(from);
    return made;
}

static int run(cr_capture *c, cr_call_frame *f, PyObject *region, const cr_arguments *a, PyObject *const *given) {
    PyFunctionObject *function = (PyFunctionObject *)region;
    uint64_t before, after;
    if (!fingerprint(c, a, given, &before))
        return cr_break(c, "functions given to %U() use something that is no tensor, number or container: give them "
                           "what it holds instead", function->func_qualname);
    const cr_graph *g = cr_trace_graph(cr_trace_current());
    writing w = { g, cr_graph_node_limit(g), cr_graph_value_count(g), false };
    if (cr_call_run(c, f, region, &(cr_arguments){ given, a->n, a->kwnames })) return -1;
    if (!cr_is_known_value(cr_peek(f, 1)))
        return cr_break(c, "%U() gives something else than tensors and numbers in tuples, lists and dicts",
                        function->func_qualname);
    if (writes_outside(&w))
        return cr_break(c, "a function given to %U() writes to a tensor that was there before: use the functional "
                           "form, and return the new value", function->func_qualname);
    if (fingerprint(c, a, given, &after) && before == after) return 0;
    return cr_break(c, "a function given to %U() changes something that was there before: return the new value instead",
                    function->func_qualname);
}

static int call_region(cr_capture *c, cr_call_frame *f, PyObject *region, const cr_arguments *a) {
    Py_ssize_t total = count(a), k = 0;
    PyObject **given = PyMem_Calloc((size_t)total + 1, sizeof *given);
    if (!given) return PyErr_NoMemory(), -1;
    while (k < total && (given[k] = opened(c, a->at[k], 0))) k++;
    int r = k == total ? run(c, f, region, a, given) : -1;
    while (k--) Py_DECREF(given[k]);
    PyMem_Free(given);
    return r;
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

int cr_call_region(cr_capture *c, cr_call_frame *f, PyObject *region, const cr_arguments *a) {
    if (c->tracer) return cr_call_run(c, f, region, a);
    int r = call_region(c, f, region, a);
    if (r && !c->error) set_error(c);
    return r;
}
