/* aot.c: graphs that are differentiated ahead of time, for cresset._functorch. */
#include "python/py.h"

#include "autograd/aot.h"
#include "emit/cache.h"
#include "emit/emit.h"
#include "emit/tier.h"
#include "lower/lower.h"
#include "passes/passes.h"

static cr_graph *graph_arg(PyObject *o, const char *what) {
    cr_arg a;
    if (cr_py_graph_read(o, &a)) return a.u.graph;
    PyErr_Format(PyExc_TypeError, "%s takes a Graph, not %s", what, Py_TYPE(o)->tp_name);
    return NULL;
}

/* None: NULL. A sequence of n truths otherwise; PyMem_Free. */
static int read_truths(PyObject *o, size_t n, const char *what, bool **out) {
    *out = NULL;
    if (o == Py_None) return 0;
    PyObject *items = PySequence_Fast(o, "expected a sequence of bools");
    if (!items) return -1;
    if ((size_t)PySequence_Fast_GET_SIZE(items) != n)
        PyErr_Format(PyExc_ValueError, "%s has %zd entries, the graph %zu", what, PySequence_Fast_GET_SIZE(items), n);
    else if (!(*out = PyMem_Calloc(n + 1, sizeof **out))) PyErr_NoMemory();
    for (size_t i = 0; *out && i < n; i++) {
        int truth = PyObject_IsTrue(PySequence_Fast_GET_ITEM(items, (Py_ssize_t)i));
        if (truth < 0) break;
        (*out)[i] = truth;
    }
    Py_DECREF(items);
    if (!PyErr_Occurred()) return 0;
    PyMem_Free(*out);
    *out = NULL;
    return -1;
}

static PyObject *indices(const uint32_t *at, size_t n) {
    PyObject *o = PyTuple_New((Py_ssize_t)n);
    for (size_t i = 0; o && i < n; i++) {
        PyObject *item = PyLong_FromUnsignedLong(at[i]);
        if (!item) Py_CLEAR(o);
        else PyTuple_SET_ITEM(o, (Py_ssize_t)i, item);
    }
    return o;
}

static PyObject *functionalize(PyObject *module, PyObject *graph) {
    cr_graph *g = graph_arg(graph, "_functionalize()"), *made = NULL;
    (void)module;
    if (!g) return NULL;
    uint32_t *mutated = PyMem_Calloc(cr_graph_input_count(g) + 1, sizeof *mutated);
    if (!mutated) return PyErr_NoMemory();
    cr_functionalize_options o = { .mutated = mutated };
    cr_status status = cr_pass_functionalize(g, &o, &made);
    PyObject *which = status ? cr_py_raise(status) : indices(mutated, o.nmutated), *result = NULL;
    PyMem_Free(mutated);
    if (which) result = Py_BuildValue("(NN)", cr_py_graph_new(made), which);
    else if (!status) cr_graph_release(made);
    return result;
}

/* _functional_form(graph, histories): as _functionalize, statistics of batch norm among what is written; None: the
 * graph writes nothing. */
static PyObject *functional_form(PyObject *module, PyObject *args) {
    PyObject *graph;
    int histories;
    size_t n;
    cr_graph *made = NULL;
    (void)module;
    if (!PyArg_ParseTuple(args, "Op:_functional_form", &graph, &histories)) return NULL;
    cr_graph *g = graph_arg(graph, "_functional_form()");
    uint32_t *mutated = g ? PyMem_Calloc(cr_graph_input_count(g) + 1, sizeof *mutated) : NULL;
    if (!mutated) return g ? PyErr_NoMemory() : NULL;
    cr_status status = cr_aot_functional_form(g, histories, mutated, &n, &made);
    PyObject *which = status ? cr_py_raise(status) : indices(mutated, n);
    PyMem_Free(mutated);
    if (which && made) return Py_BuildValue("(NN)", cr_py_graph_new(made), which);
    cr_graph_release(made);
    Py_XDECREF(which);
    return which ? Py_NewRef(Py_None) : NULL;
}

static PyObject *joint_object(cr_joint *j) {
    PyObject *of = indices(j->tangent_of, j->ntangents);
    if (!of) return cr_joint_dispose(j), NULL;
    cr_graph_retain(j->graph);
    PyObject *graph = cr_py_graph_new(j->graph);
    PyObject *o = graph ? Py_BuildValue("(NIIN)", graph, j->nprimals, j->nforward, of) : (Py_DECREF(of), NULL);
    cr_joint_dispose(j);
    return o;
}

static PyObject *differentiate(PyObject *module, PyObject *args, PyObject *kwargs) {
    static char *names[] = { "graph", "wrt", "through", NULL };
    PyObject *graph, *wrt = Py_None, *through = Py_None;
    bool *inputs = NULL, *results = NULL;
    cr_joint joint;
    (void)module;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|OO:_differentiate", names, &graph, &wrt, &through)) return NULL;
    cr_graph *g = graph_arg(graph, "_differentiate()");
    if (!g || read_truths(wrt, cr_graph_input_count(g), "wrt", &inputs)) return NULL;
    if (read_truths(through, cr_graph_result_count(g), "through", &results)) {
        PyMem_Free(inputs);
        return NULL;
    }
    cr_status status = cr_differentiate(g, &(cr_differentiation){ .wrt = inputs, .through = results }, &joint);
    PyMem_Free(inputs);
    PyMem_Free(results);
    return status ? cr_py_raise(status) : joint_object(&joint);
}

static PyObject *truths(const bool *at, size_t n) {
    PyObject *o = PyTuple_New((Py_ssize_t)n);
    for (size_t i = 0; o && i < n; i++) PyTuple_SET_ITEM(o, (Py_ssize_t)i, PyBool_FromLong(at[i]));
    return o;
}

static PyObject *overwritten_object(cr_graph *recorded, const cr_joint *joint) {
    size_t n = cr_graph_input_count(recorded);
    bool *kept = PyMem_Calloc(n + 1, sizeof *kept);
    const char *name;
    if (!kept) return PyErr_NoMemory();
    cr_status status = cr_find_overwritten(recorded, joint, &name, kept);
    PyObject *o = status ? cr_py_raise(status) : Py_BuildValue("(zN)", name, truths(kept, n));
    PyMem_Free(kept);
    return o;
}

static PyObject *find_overwritten(PyObject *module, PyObject *args) {
    PyObject *recorded, *graph, *wrt, *through, *found = NULL;
    bool *inputs = NULL, *results = NULL;
    cr_joint joint;
    (void)module;
    if (!PyArg_ParseTuple(args, "OOOO:_find_overwritten", &recorded, &graph, &wrt, &through)) return NULL;
    cr_graph *r = graph_arg(recorded, "_find_overwritten()"), *g = r ? graph_arg(graph, "_find_overwritten()") : NULL;
    if (!g || read_truths(wrt, cr_graph_input_count(g), "wrt", &inputs)) return NULL;
    if (!read_truths(through, cr_graph_result_count(g), "through", &results)) {
        cr_status status = cr_differentiate(g, &(cr_differentiation){ .wrt = inputs, .through = results }, &joint);
        if (status) cr_py_raise(status);
        else found = overwritten_object(r, &joint), cr_joint_dispose(&joint);
    }
    PyMem_Free(inputs);
    PyMem_Free(results);
    return found;
}

/* ((first, end), ...): node ids of what checkpoint regions held. PyMem_Free. */
static int read_ranges(PyObject *o, cr_joint *joint) {
    PyObject *items = PySequence_Fast(o, "recompute takes pairs of node ids");
    if (!items) return -1;
    size_t n = (size_t)PySequence_Fast_GET_SIZE(items);
    joint->checkpoints.at = PyMem_Calloc(n + 1, sizeof *joint->checkpoints.at);
    if (!joint->checkpoints.at) PyErr_NoMemory();
    for (size_t i = 0; joint->checkpoints.at && i < n; i++) {
        cr_checkpoint *c = &joint->checkpoints.at[joint->checkpoints.n++];
        if (!PyArg_ParseTuple(PySequence_Fast_GET_ITEM(items, (Py_ssize_t)i), "II", &c->first, &c->end)) break;
    }
    Py_DECREF(items);
    return PyErr_Occurred() ? -1 : 0;
}

static PyObject *parts_object(cr_parts *p) {
    cr_str report;
    cr_str_init(&report);
    cr_parts_report_json(p, &report);
    cr_graph_retain(p->forward);
    cr_graph_retain(p->backward);
    PyObject *forward = cr_py_graph_new(p->forward), *backward = cr_py_graph_new(p->backward), *o = NULL;
    if (forward && backward && !cr_str_status(&report))
        o = Py_BuildValue("(OOIIs)", forward, backward, p->nsaved, p->nnumbers, cr_str_get(&report));
    else if (!PyErr_Occurred()) PyErr_NoMemory();
    Py_XDECREF(forward);
    Py_XDECREF(backward);
    cr_str_dispose(&report);
    cr_parts_dispose(p);
    return o;
}

static PyObject *partition(PyObject *module, PyObject *args, PyObject *kwargs) {
    static char *names[] = { "joint", "primals", "results", "kind", "budget", "recompute", "inputs_change", NULL };
    PyObject *graph, *recompute = NULL;
    const char *kind = "min_cut";
    cr_partition_options o = { .budget = 1 };
    cr_joint joint = { 0 };
    cr_parts parts;
    int inputs_change = 0;
    (void)module;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OII|sdOp:_partition", names, &graph, &joint.nprimals,
                                     &joint.nforward, &kind, &o.budget, &recompute, &inputs_change))
        return NULL;
    o.inputs_change = inputs_change;
    joint.graph = graph_arg(graph, "_partition()");
    if (!joint.graph) return NULL;
    size_t inputs = cr_graph_input_count(joint.graph), results = cr_graph_result_count(joint.graph);
    if (joint.nprimals > inputs || joint.nforward > results)
        return PyErr_Format(PyExc_ValueError, "the graph has %zu inputs and %zu results", inputs, results);
    if (!strcmp(kind, "default")) o.kind = CR_PARTITION_DEFAULT;
    else if (strcmp(kind, "min_cut"))
        return PyErr_Format(PyExc_ValueError, "kind is 'min_cut' or 'default', not '%s'", kind);
    joint.ntangents = (uint32_t)inputs - joint.nprimals;
    int failed = recompute ? read_ranges(recompute, &joint) : 0;
    cr_status status = failed ? CR_OK : cr_partition(&joint, &o, &parts);
    PyMem_Free(joint.checkpoints.at);
    if (failed) return NULL;
    return status ? cr_py_raise(status) : parts_object(&parts);
}

static PyObject *export_graph(PyObject *module, PyObject *args) {
    PyObject *graph, *wrt;
    Py_ssize_t loss;
    bool *inputs = NULL;
    cr_aot_export e;
    (void)module;
    if (!PyArg_ParseTuple(args, "OOn:_aot_export", &graph, &wrt, &loss)) return NULL;
    cr_graph *g = graph_arg(graph, "_aot_export()");
    if (!g || read_truths(wrt, cr_graph_input_count(g), "wrt", &inputs)) return NULL;
    cr_status status = cr_aot_export_graph(g, inputs, loss, &e);
    PyMem_Free(inputs);
    if (status) return cr_py_raise(status);
    cr_graph_retain(e.graph);
    PyObject *made = cr_py_graph_new(e.graph), *mutated = indices(e.mutated, e.nmutated);
    PyObject *due = truths(e.due, cr_graph_input_count(g)), *live = truths(e.live, cr_graph_result_count(g));
    PyObject *o = made && mutated && due && live ? PyTuple_Pack(4, made, mutated, due, live) : NULL;
    Py_XDECREF(made);
    Py_XDECREF(mutated);
    Py_XDECREF(due);
    Py_XDECREF(live);
    cr_aot_export_dispose(&e);
    return o;
}

/* _compile_graph(graph, path): the graph as a library of one method, for this machine; weights are inputs. */
static PyObject *compile_graph(PyObject *module, PyObject *args) {
    PyObject *graph, *path = NULL;
    (void)module;
    if (!PyArg_ParseTuple(args, "OO&:_compile_graph", &graph, PyUnicode_FSConverter, &path)) return NULL;
    cr_graph *g = graph_arg(graph, "_compile_graph()");
    if (!g) return Py_DECREF(path), NULL;
    cr_lowered *l = NULL;
    PyThreadState *thread = PyEval_SaveThread();
    cr_status status = cr_lower_graphs(&(cr_lower_graph){ .graph = g, .name = "forward" }, 1, NULL, &l);
    cr_emit_options o = { .weights = CR_WEIGHTS_INSIDE, .target = "native", .random = cr_tier_draws(g) };
    if (!status) status = cr_emit(l, PyBytes_AS_STRING(path), &o);
    cr_lowered_release(l);
    PyEval_RestoreThread(thread);
    Py_DECREF(path);
    if (status) return cr_py_raise(status);
    Py_RETURN_NONE;
}

static PyObject *cache_counts(PyObject *module, PyObject *unused) {
    uint64_t hits, misses;
    bool off;
    (void)module, (void)unused;
    cr_cache_counts(&hits, &misses, &off);
    return Py_BuildValue("(KKO)", (unsigned long long)hits, (unsigned long long)misses, off ? Py_True : Py_False);
}

static PyObject *cache_pack(PyObject *module, PyObject *unused) {
    cr_str packed;
    size_t count;
    (void)module, (void)unused;
    cr_str_init(&packed);
    cr_status status = cr_cache_pack(&packed, &count);
    PyObject *result = status ? cr_py_raise(status)
                              : Py_BuildValue("(y#n)", cr_str_get(&packed), (Py_ssize_t)packed.n, (Py_ssize_t)count);
    cr_str_dispose(&packed);
    return result;
}

static PyObject *cache_unpack(PyObject *module, PyObject *bytes) {
    size_t count;
    (void)module;
    if (!PyBytes_Check(bytes))
        return PyErr_Format(PyExc_TypeError, "cache artifacts are bytes, not %s", Py_TYPE(bytes)->tp_name);
    cr_status status = cr_cache_unpack(PyBytes_AS_STRING(bytes), (size_t)PyBytes_GET_SIZE(bytes), &count);
    return status ? cr_py_raise(status) : PyLong_FromSize_t(count);
}

static PyMethodDef functions[] = {
    { "_cache_pack", cache_pack, METH_NOARGS, "_cache_pack(): (bytes, count): entries that this process used." },
    { "_cache_unpack", cache_unpack, METH_O, "_cache_unpack(bytes): puts them into the cache; how many." },
    { "_cache_counts", cache_counts, METH_NOARGS,
      "_cache_counts(): (hits, misses, is it off?) of the disk cache of compiled code, in this process." },
    { "_aot_export", export_graph, METH_VARARGS,
      "_aot_export(recorded, wrt, loss): (functional graph, the inputs whose new values come first, per input whether "
      "its gradient is given, per result whether it can bring one); loss: which result, -1 for none." },
    { "_compile_graph", compile_graph, METH_VARARGS,
      "_compile_graph(graph, path): the graph as a library with one method, for this machine." },
    { "_partition", (PyCFunction)(void (*)(void))partition, METH_VARARGS | METH_KEYWORDS,
      "_partition(joint, primals, results, kind='min_cut', budget=1.0, recompute=(), inputs_change=False): (forward "
      "graph, backward graph, saved tensors, saved numbers, report as JSON). inputs_change: the caller may write to "
      "inputs before the backward graph runs." },
    { "_functionalize", functionalize, METH_O,
      "_functionalize(graph): (graph, the placeholders whose new values are its last outputs)." },
    { "_functional_form", functional_form, METH_VARARGS,
      "_functional_form(graph, histories): (graph, the placeholders whose new values are its last outputs); None: it "
      "writes nothing. histories: it will be differentiated." },
    { "_find_overwritten", find_overwritten, METH_VARARGS,
      "_find_overwritten(recorded, functional, wrt, through): the name of a value that gradients are computed from "
      "although the program writes over it later, or None; per input: do they need what is written to it?" },
    { "_differentiate", (PyCFunction)(void (*)(void))differentiate, METH_VARARGS | METH_KEYWORDS,
      "_differentiate(graph, wrt=None, through=None): (joint graph, primals, results, the result each tangent is "
      "of)." },
    { NULL, NULL, 0, NULL },
};

int cr_py_aot_init(PyObject *module) { return PyModule_AddFunctions(module, functions); }
