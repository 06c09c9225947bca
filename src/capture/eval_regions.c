/* eval_regions.c: cond(), while_loop(), map(), scan(), associative_scan(), checkpoint() in a captured program, and the
 * transforms of func (grad and its like, vmap).
 *
 * CPython runs them on the fakes, which records their bodies; those are the program's functions, evaluated. A body is
 * evaluated once, whether and however often it is run: so it may change nothing that was there before it. What a
 * transform runs has tensors that are another's outside of it: it must not leave one anywhere either. */
#include "capture/evaluate.h"

#include "graph/writes.h"
#include "python/py.h"

#include <string.h>

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

/* ---- layouts ---- */

/* Ops whose results are laid out by their arguments and dimensions alone, however a library computes them for many
 * examples at once. A product of matrices is none: it may be computed transposed. */
static bool has_one_layout(const cr_graph *g, const cr_node *node) {
    static const char *const names[] = { "aten::to.dtype", "aten::_to_copy",  "aten::clone",      "aten::contiguous",
                                         "aten::copy_",    "aten::full",      "aten::arange",     "aten::zeros",
                                         "aten::ones",     "aten::ones_like", "aten::zeros_like", "aten::full_like",
                                         "aten::new_ones", "aten::new_zeros", "aten::new_full",   "aten::cumsum",
                                         "aten::_softmax" };
    if (node->op->tags & (CR_TAG_POINTWISE | CR_TAG_REDUCTION | CR_TAG_VIEW)) return true;
    for (size_t i = 0; i < CR_COUNT(names); i++)
        if (!strcmp(node->op->name, names[i])) return true;
    const cr_arg *indices = &node->args[1]; /* of an index: of all dimensions, else it asks whose sizes come first */
    if (strcmp(node->op->name, "aten::index.Tensor") || indices->kind != CR_ARG_LIST) return false;
    const cr_meta *self = cr_graph_value(g, (uint32_t)node->args[0].u.i)->meta;
    bool all = self && indices->n == self->rank;
    for (uint32_t i = 0; all && i < indices->n; i++) all = indices->u.list[i].kind == CR_ARG_VALUE;
    return all;
}

/* Is the region one of another library's transforms that may lay its results out in its own way (`_lays_out`), and has
 * it called, since node `first`, an op of which that matters? */
static const cr_op *find_laid_out(const cr_graph *g, uint32_t first, const PyFunctionObject *region) {
    if (!region->func_dict || !PyDict_GetItemString(region->func_dict, "_lays_out")) return NULL;
    for (uint32_t n = cr_graph_first(g); n != CR_NO_NODE; n = cr_graph_next(g, n)) {
        const cr_node *node = cr_graph_node(g, n);
        if (n >= first && node->kind == CR_NODE_CALL && !has_one_layout(g, node)) return node->op;
    }
    return NULL;
}

/* ---- calls ---- */

/* Arguments in a tuple, or by name in a dict, as CPython may look into them: dicts from outside unfolded. New
 * reference. */
static PyObject *opened(cr_capture *c, PyObject *value) {
    if (PyDict_CheckExact(value)) {
        PyObject *made = PyDict_New(), *key, *item;
        for (Py_ssize_t at = 0; made && PyDict_Next(value, &at, &key, &item);) {
            PyObject *operand = cr_operand(c, item);
            if (!operand || PyDict_SetItem(made, key, operand)) Py_CLEAR(made);
            Py_XDECREF(operand);
        }
        return made;
    }
    if (!PyTuple_CheckExact(value)) return Py_NewRef(value);
    PyObject *made = PyTuple_New(PyTuple_GET_SIZE(value));
    for (Py_ssize_t i = 0; made && i < PyTuple_GET_SIZE(value); i++) {
        PyObject *operand = cr_operand(c, PyTuple_GET_ITEM(value, i));
        if (operand) PyTuple_SET_ITEM(made, i, operand);
        else Py_CLEAR(made);
    }
    return made;
}

static int run(cr_capture *c, cr_call_frame *f, PyObject *function, const cr_arguments *a) {
    Py_ssize_t total = a->n + (a->kwnames ? PyTuple_GET_SIZE(a->kwnames) : 0), k = 0;
    PyObject **given = PyMem_Calloc((size_t)total + 1, sizeof *given);
    if (!given) return PyErr_NoMemory(), -1;
    while (k < total && (given[k] = opened(c, a->at[k]))) k++;
    int r = k == total ? cr_call_run(c, f, function, &(cr_arguments){ given, a->n, a->kwnames }) : -1;
    while (k--) Py_DECREF(given[k]);
    PyMem_Free(given);
    return r;
}

static int call_region(cr_capture *c, cr_call_frame *f, PyObject *region, const cr_arguments *a) {
    PyFunctionObject *function = (PyFunctionObject *)region;
    uint64_t before, after;
    if (!fingerprint(c, a, &before))
        return cr_break(c, "functions given to %U() use something that is no tensor, number or container: give them "
                           "what it holds instead", function->func_qualname);
    const cr_graph *g = cr_trace_graph(cr_trace_current());
    writing w = { g, cr_graph_node_limit(g), cr_graph_value_count(g), false };
    if (run(c, f, region, a)) return -1;
    if (!cr_is_known_value(cr_peek(f, 1)))
        return cr_break(c, "%U() gives something else than tensors and numbers in tuples, lists and dicts",
                        function->func_qualname);
    const cr_op *laid_out = find_laid_out(g, w.nodes, function);
    if (laid_out)
        return cr_break(c,
                        "%s is called under a transform of another library, which may lay its result out in another "
                        "way",
                        laid_out->name);
    if (writes_outside(&w))
        return cr_break(c, "a function given to %U() writes to a tensor that was there before: use the functional "
                           "form, and return the new value", function->func_qualname);
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

int cr_call_region(cr_capture *c, cr_call_frame *f, PyObject *region, const cr_arguments *a) {
    if (c->tracer) return cr_call_run(c, f, region, a);
    int r = call_region(c, f, region, a);
    if (r && !c->error) set_error(c);
    return r;
}
