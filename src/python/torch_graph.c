/* torch_graph.c: cresset._C._TorchGraph: a graph that is called with PyTorch's tensors and gives such.
 *
 * What torch.compile calls (cresset/_torch/backend.py makes it): a list of arguments, which is emptied, to a list of
 * results. Every argument is read at every call and nothing is kept of one: weights may have changed in ways that leave
 * no trace. Results that users get are memory of torch's own; what only the backward pass gets is handed over. */
#include "python/torch_sizes.h"
#include "python/torch_weights.h"

#include "emit/emit.h"
#include "graph/graph.h"
#include "runtime/rt_random.h"

#include <structmember.h>

enum { GIL_WORK = 8192, FEW = 48 };

/* What an entry of the result is. */
typedef enum result_kind { RESULT_NEW, RESULT_GIVEN, RESULT_ARGUMENT, RESULT_OBJECT, RESULT_NUMBER,
                           RESULT_SIZE, /* computed from the inputs' sizes, or the results' */
                           RESULT_INTO /* written into argument `to`, an input, when all others are there */
} result_kind;
typedef struct result {
    uint8_t kind;
    int8_t dtype;
    uint8_t rank;
    uint8_t order[CR_MAX_RANK];          /* of NEW: the dimensions, the outermost in memory first */
    bool fixed;                          /* of NEW: sizes and strides are the same in every call */
    cr_sym *exprs;                       /* of NEW: rank sizes, rank strides, those that are computed; or NULL */
    cr_sym expr;                         /* of SIZE */
    uint32_t at;                         /* result of the graph, or argument */
    uint32_t to;                         /* of INTO */
    PyObject *object;                    /* of OBJECT */
    PyObject *sizes, *strides;           /* of NEW: tuples of the last call */
    int64_t size[CR_MAX_RANK], stride[CR_MAX_RANK];
} result;

typedef struct py_torch_graph {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    cr_plan *plan;
    cr_tier *tier;                       /* NULL: it is interpreted */
    PyObject *constants, *generator;     /* tuple; torch's, of graphs that draw, or NULL */
    PyObject *fallback;                  /* list to list: what torch does instead, where a run fails */
    uint32_t nargs, ninputs, nvalues, nresults, nwritten;
    uint32_t *written;                   /* inputs whose new values are copied into them afterwards */
    int32_t *from;                       /* input -> argument, or ~constant */
    uint8_t *types;                      /* of the inputs: cr_type */
    result *results;
    cr_torch_sizes sizes;
    cr_torch_weights weights;            /* which native code is made with */
    PyObject *weak;
    int64_t calls, fallbacks;
    char boxed;
} py_torch_graph;

/* ---- making ---- */

/* Sizes and strides: ints where they are the same in every call, else texts. */
static int read_layout(const cr_torch_sizes *all, result *r, PyObject *sizes, PyObject *strides) {
    if (PyTuple_GET_SIZE(sizes) != r->rank || PyTuple_GET_SIZE(strides) != r->rank)
        return PyErr_SetString(PyExc_ValueError, "sizes and strides of another number of dimensions"), -1;
    r->exprs = PyMem_Calloc(2u * r->rank + 1u, sizeof *r->exprs);
    if (!r->exprs) return PyErr_NoMemory(), -1;
    r->fixed = true;
    for (int d = 0; d < r->rank; d++) {
        cr_sym *size = &r->exprs[d], *stride = &r->exprs[r->rank + d];
        if (cr_torch_size_read(all, PyTuple_GET_ITEM(sizes, d), size, &r->size[d]) ||
            cr_torch_size_read(all, PyTuple_GET_ITEM(strides, d), stride, &r->stride[d]))
            return -1;
        r->fixed = r->fixed && !*size && !*stride;
    }
    if (!r->fixed) return 0;
    PyMem_Free(r->exprs);
    r->exprs = NULL;
    r->sizes = Py_NewRef(sizes);
    r->strides = Py_NewRef(strides);
    return 0;
}

static int read_result(const cr_torch_sizes *all, PyObject *o, result *r) {
    const char *kind;
    PyObject *what, *order = NULL, *sizes = NULL, *strides = NULL;
    int dtype = -1;
    static const char *const kinds[] = { "new", "given", "argument", "object", "number", "size", "into" };
    if (!PyArg_ParseTuple(o, "sO|OO!O!:_TorchGraph", &kind, &what, &order, &PyTuple_Type, &sizes, &PyTuple_Type,
                          &strides))
        return -1;
    for (r->kind = 0; r->kind < CR_COUNT(kinds) && strcmp(kinds[r->kind], kind);) r->kind++;
    if (r->kind == CR_COUNT(kinds)) return PyErr_Format(PyExc_ValueError, "'%s' is no kind of result", kind), -1;
    if (r->kind == RESULT_OBJECT) return r->object = Py_NewRef(what), 0;
    if (r->kind == RESULT_SIZE) return cr_torch_size_read(all, what, &r->expr, &r->size[0]);
    r->at = (uint32_t)PyLong_AsUnsignedLong(what);
    if (PyErr_Occurred()) return -1;
    if (r->kind == RESULT_INTO) return r->to = order ? (uint32_t)PyLong_AsUnsignedLong(order) : UINT32_MAX,
                                       PyErr_Occurred() ? -1 : 0;
    if (r->kind != RESULT_NEW) return 0;
    if (!order || !PyTuple_Check(order) || !PyTuple_GET_SIZE(order) || PyTuple_GET_SIZE(order) > CR_MAX_RANK + 1 ||
        !cr_py_dtype_read(PyTuple_GET_ITEM(order, 0), &dtype))
        return PyErr_SetString(PyExc_ValueError, "a new tensor needs (dtype, dimension, ...)"), -1;
    r->dtype = (int8_t)dtype;
    r->rank = (uint8_t)(PyTuple_GET_SIZE(order) - 1);
    for (int d = 0; d < r->rank; d++) {
        long at = PyLong_AsLong(PyTuple_GET_ITEM(order, d + 1));
        if (at < 0 || at >= r->rank) return PyErr_SetString(PyExc_ValueError, "no order of dimensions"), -1;
        r->order[d] = (uint8_t)at;
        r->size[d] = -1;
    }
    return strides ? read_layout(all, r, sizes, strides) : 0;
}

static int read_inputs(py_torch_graph *g, PyObject *inputs, const cr_graph *graph) {
    g->ninputs = (uint32_t)PyTuple_GET_SIZE(inputs);
    if (g->ninputs != cr_graph_input_count(graph))
        return PyErr_Format(PyExc_ValueError, "%u inputs for a graph of %zu", g->ninputs, cr_graph_input_count(graph)),
               -1;
    g->from = PyMem_Calloc(g->ninputs + 1u, sizeof *g->from);
    g->types = PyMem_Calloc(g->ninputs + 1u, 1);
    if (!g->from || !g->types) return PyErr_NoMemory(), -1;
    uint32_t i = 0;
    for (uint32_t n = cr_graph_first(graph); i < g->ninputs; n = cr_graph_next(graph, n), i++) {
        long at = PyLong_AsLong(PyTuple_GET_ITEM(inputs, i));
        if (PyErr_Occurred()) return -1;
        if (at >= (long)g->nargs || ~at >= (long)PyTuple_GET_SIZE(g->constants))
            return PyErr_Format(PyExc_ValueError, "input %u has no argument", i), -1;
        g->from[i] = (int32_t)at;
        g->types[i] = cr_graph_value(graph, cr_graph_node(graph, n)->first)->type;
    }
    return 0;
}

static int read_results(py_torch_graph *g, PyObject *results) {
    g->nvalues = (uint32_t)cr_plan_result_count(g->plan);
    g->nresults = (uint32_t)PyTuple_GET_SIZE(results);
    g->results = PyMem_Calloc(g->nresults + 1u, sizeof *g->results);
    if (!g->results) return PyErr_NoMemory(), -1;
    for (uint32_t i = 0; i < g->nresults; i++) {
        result *r = &g->results[i];
        if (read_result(&g->sizes, PyTuple_GET_ITEM(results, i), r)) return -1;
        uint32_t limit = r->kind == RESULT_ARGUMENT ? g->nargs : g->nvalues;
        if (r->kind != RESULT_OBJECT && r->kind != RESULT_SIZE && r->at >= limit)
            return PyErr_Format(PyExc_ValueError, "result %u is number %u of %u", i, r->at, limit), -1;
        if (r->kind == RESULT_INTO && (r->to >= g->ninputs || g->from[r->to] != (int32_t)r->to))
            return PyErr_Format(PyExc_ValueError, "result %u goes into argument %u of %u", i, r->to, g->nargs), -1;
    }
    return 0;
}

static int compare_numbers(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* In order. */
static int read_written(py_torch_graph *g, PyObject *written) {
    g->nwritten = written ? (uint32_t)PyTuple_GET_SIZE(written) : 0;
    g->written = PyMem_Calloc(g->nwritten + 1u, sizeof *g->written);
    if (!g->written) return PyErr_NoMemory(), -1;
    for (uint32_t i = 0; i < g->nwritten; i++) {
        g->written[i] = (uint32_t)PyLong_AsUnsignedLong(PyTuple_GET_ITEM(written, i));
        if (PyErr_Occurred()) return -1;
        if (g->written[i] >= g->ninputs)
            return PyErr_Format(PyExc_ValueError, "there is no input %u", g->written[i]), -1;
    }
    qsort(g->written, g->nwritten, sizeof *g->written, compare_numbers);
    return 0;
}

static PyObject *call(PyObject *self, PyObject *const *args, size_t nargs, PyObject *names);

static PyObject *graph_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = { "graph", "nargs", "inputs", "constants", "results", "generator", "fallback", "written",
                             NULL };
    PyObject *graph, *inputs, *constants, *results, *generator = Py_None, *fallback = Py_None, *written = NULL;
    cr_arg a;
    unsigned int nargs;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OIO!O!O!|OOO!:_TorchGraph", names, &graph, &nargs, &PyTuple_Type,
                                     &inputs, &PyTuple_Type, &constants, &PyTuple_Type, &results, &generator,
                                     &fallback, &PyTuple_Type, &written))
        return NULL;
    if (!cr_py_graph_read(graph, &a))
        return PyErr_Format(PyExc_TypeError, "expected a Graph, not %s", Py_TYPE(graph)->tp_name);
    py_torch_graph *g = (py_torch_graph *)type->tp_alloc(type, 0);
    if (!g) return NULL;
    g->vectorcall = call;
    g->boxed = 1;
    g->nargs = nargs;
    g->constants = Py_NewRef(constants);
    g->generator = generator == Py_None ? NULL : Py_NewRef(generator);
    g->fallback = fallback == Py_None ? NULL : Py_NewRef(fallback);
    cr_status status = cr_plan_create(a.u.graph, &g->plan);
    if (status) cr_py_raise(status);
    if (status || cr_torch_sizes_init(&g->sizes, a.u.graph) || read_inputs(g, inputs, a.u.graph) ||
        read_results(g, results) || read_written(g, written)) {
        Py_DECREF(g);
        return NULL;
    }
    return (PyObject *)g;
}

static int graph_traverse(PyObject *self, visitproc visit, void *arg) {
    py_torch_graph *g = (py_torch_graph *)self;
    Py_VISIT(g->constants);
    Py_VISIT(g->generator);
    Py_VISIT(g->fallback);
    Py_VISIT(g->weights.held);
    for (uint32_t i = 0; g->results && i < g->nresults; i++) Py_VISIT(g->results[i].object);
    return 0;
}

static void graph_dealloc(PyObject *self) {
    py_torch_graph *g = (py_torch_graph *)self;
    PyObject_GC_UnTrack(self);
    if (g->weak) PyObject_ClearWeakRefs(self);
    for (uint32_t i = 0; g->results && i < g->nresults; i++) {
        Py_XDECREF(g->results[i].object);
        Py_XDECREF(g->results[i].sizes);
        Py_XDECREF(g->results[i].strides);
        PyMem_Free(g->results[i].exprs);
    }
    cr_torch_sizes_dispose(&g->sizes);
    cr_torch_weights_dispose(&g->weights);
    PyMem_Free(g->results);
    PyMem_Free(g->from);
    PyMem_Free(g->types);
    PyMem_Free(g->written);
    Py_XDECREF(g->constants);
    Py_XDECREF(g->generator);
    Py_XDECREF(g->fallback);
    PyThreadState *thread = PyEval_SaveThread(); /* native code waits for its threads */
    cr_plan_release(g->plan);
    cr_tier_release(g->tier);
    PyEval_RestoreThread(thread);
    Py_TYPE(self)->tp_free(self);
}

/* ---- inputs ---- */

typedef struct frame {
    py_torch_graph *g;
    PyObject **args;                     /* of the call, held */
    cresset_value *values;               /* the graph's inputs */
    PyObject **kept;                     /* of each input: what its value borrows from, or NULL */
    cr_arg *made;                        /* the graph's results, none of those that are still in `raw` */
    cresset_value *raw;                  /* as native code gave them */
    bool is_raw;
    int64_t work;
    cr_tier *tier;                       /* held while it runs; NULL: it is interpreted */
    cr_native *native;                   /* of the tier; NULL: not yet */
} frame;

static int read_number(PyObject *o, cr_type type, cresset_value *out) {
    *out = (cresset_value){ .struct_size = sizeof *out };
    if (type == CR_T_FLOAT) {
        out->kind = CRESSET_FLOAT;
        out->number = PyFloat_AsDouble(o);
    } else if (type == CR_T_ANY) {
        out->kind = CRESSET_NONE;
    } else {
        out->kind = type == CR_T_BOOL ? CRESSET_BOOLEAN : CRESSET_INT;
        out->integer = PyLong_AsLongLong(o);
    }
    return PyErr_Occurred() ? -1 : 0;
}

static int read_values(frame *f) {
    py_torch_graph *g = f->g;
    for (uint32_t i = 0; i < g->ninputs; i++) {
        PyObject *o = g->from[i] < 0 ? PyTuple_GET_ITEM(g->constants, ~g->from[i]) : f->args[g->from[i]];
        cresset_value *v = &f->values[i];
        if (g->types[i] != CR_T_TENSOR) {
            if (read_number(o, (cr_type)g->types[i], v)) return -1;
            continue;
        }
        if (cr_torch_read(o, v, &f->kept[i])) return -1;
        int64_t n = 1;
        for (int d = 0; d < v->rank; d++) n *= v->size[d];
        if (n > f->work) f->work = n;
        if (!v->data) v->data = v; /* of no elements */
    }
    return 0;
}

/* From the first byte to behind the last; none: equal. */
static void range_of(const cresset_value *v, uintptr_t *first, uintptr_t *end) {
    int64_t low = 0, high = 1;
    bool empty = false;
    for (int d = 0; d < v->rank; d++) {
        int64_t reach = (v->size[d] - 1) * v->stride[d];
        empty |= !v->size[d];
        if (reach < 0) low += reach;
        else high += reach;
    }
    int64_t bytes = rt_itemsize(v->dtype);
    *first = (uintptr_t)v->data + (uintptr_t)(empty ? 0 : low * bytes);
    *end = (uintptr_t)v->data + (uintptr_t)(empty ? 0 : high * bytes);
}

/* Inputs that are written lie in no other input's memory: the graph was recorded so. */
typedef struct extent { uintptr_t first, end; bool written; } extent;

static int compare_extents(const void *a, const void *b) {
    const extent *x = a, *y = b;
    return x->first < y->first ? -1 : x->first > y->first;
}

/* In the order of memory: whatever begins before the end of one before it overlaps it. */
static bool are_apart(extent *at, size_t n) {
    uintptr_t end = 0, end_of_written = 0;
    qsort(at, n, sizeof *at, compare_extents);
    for (size_t i = 0; i < n; i++) {
        if (at[i].first < (at[i].written ? end : end_of_written)) return false;
        end = CR_MAX(end, at[i].end);
        if (at[i].written) end_of_written = CR_MAX(end_of_written, at[i].end);
    }
    return true;
}

static int check_apart(const frame *f) {
    const py_torch_graph *g = f->g;
    extent few[FEW * 2], *all = g->ninputs > CR_COUNT(few) ? PyMem_Malloc(g->ninputs * sizeof *all) : few;
    size_t n = 0;
    uint32_t next = 0; /* of the written, which are in order */
    if (!all) return PyErr_NoMemory(), -1;
    for (uint32_t i = 0; i < g->ninputs; i++) {
        bool written = next < g->nwritten && g->written[next] == i;
        next += written;
        if (f->values[i].kind != CRESSET_TENSOR) continue;
        all[n].written = written;
        range_of(&f->values[i], &all[n].first, &all[n].end);
        n += all[n].first != all[n].end;
    }
    bool apart = are_apart(all, n);
    if (all != few) PyMem_Free(all);
    if (apart) return 0;
    PyErr_SetString(PyExc_RuntimeError, "an input that is written shares memory with another");
    return -1;
}

/* ---- running ---- */

static cr_status arg_of(const cresset_value *v, cr_arg *out) {
    *out = v->kind == CRESSET_FLOAT     ? cr_arg_float(v->number)
           : v->kind == CRESSET_BOOLEAN ? cr_arg_bool(v->integer != 0)
           : v->kind == CRESSET_INT     ? cr_arg_int(v->integer)
                                        : cr_arg_none();
    cr_tensor *t = NULL;
    if (v->kind != CRESSET_TENSOR) return CR_OK;
    CR_TRY(cr_torch_tensor(v, &t));
    *out = cr_arg_tensor(t);
    return CR_OK;
}

/* Results on an argument's memory live no longer than that: they are copied. */
static cr_status own_results(const frame *f) {
    static const cr_op *clone;
    for (uint32_t i = 0; i < f->g->nvalues; i++) {
        if (f->made[i].kind != CR_ARG_TENSOR || !cr_torch_is_borrowed(f->made[i].u.t)) continue;
        cr_arg copy[1] = { { 0 } }, args[2] = { f->made[i], cr_arg_none() };
        if (!clone) clone = cr_op_find("aten::clone");
        if (!clone) return CR_FAIL(CR_ENOMEM, "out of memory");
        CR_TRY(cr_call(clone, args, copy));
        cr_results_release(&f->made[i], 1);
        f->made[i] = copy[0];
    }
    return CR_OK;
}

static cr_status run_plan(frame *f) {
    py_torch_graph *g = f->g;
    cr_arg *inputs = cr_calloc(g->ninputs + 1u, sizeof *inputs);
    cr_ambient *ambient = cr_ambient_get();
    bool grad = ambient->grad;
    uint32_t n = 0;
    cr_status status = inputs ? CR_OK : CR_ENOMEM;
    while (!status && n < g->ninputs) {
        status = arg_of(&f->values[n], &inputs[n]);
        n += !status;
    }
    ambient->grad = false;
    if (!status) status = cr_plan_run(g->plan, inputs, g->ninputs, f->made, g->nvalues);
    if (!status && (status = own_results(f))) cr_results_release(f->made, g->nvalues);
    ambient->grad = grad;
    if (inputs) cr_results_release(inputs, n);
    cr_free(inputs);
    return status;
}

/* Native code, if it is there, and made with what the weights are: others may have been put in their places. */
static int find_native(frame *f) {
    py_torch_graph *g = f->g;
    f->native = cr_tier_get(g->tier);
    if (f->native && g->weights.graph && !cr_torch_weights_hold(&g->weights, g->tier, f->args, f->values)) {
        f->native = NULL;
        if (cr_torch_weights_start(&g->weights, f->args, &g->tier)) return -1;
    }
    cr_tier_retain(f->tier = g->tier);
    return 0;
}

static cr_status run_native(frame *f, const cresset_value *inputs, size_t n) {
    CR_TRY(cr_native_run_values(f->native, 0, inputs, n, f->raw, f->g->nvalues));
    for (uint32_t i = 0; i < f->g->nvalues; i++) f->made[i] = cr_arg_none();
    f->is_raw = true;
    return CR_OK;
}

static void release_results(frame *f) {
    if (f->is_raw) cr_native_give_back(f->native, f->raw, f->g->nvalues);
    cr_results_release(f->made, f->g->nvalues);
}

/* Weights are no inputs of code that was made with them. */
static cr_status run_frozen(frame *f, const cr_frozen *frozen) {
    cresset_value few[FEW], *others = few;
    if (f->g->ninputs > FEW && !(others = cr_alloc(f->g->ninputs * sizeof *others))) return CR_ENOMEM;
    size_t n = cr_frozen_leave(frozen, f->values, sizeof *others, others);
    cr_status status = run_native(f, others, n);
    if (others != few) cr_free(others);
    return status;
}

static cr_status run_tiers(frame *f) {
    const cr_frozen *frozen = f->native ? cr_tier_frozen(f->tier) : NULL;
    if (!f->native) return run_plan(f);
    if (frozen) return run_frozen(f, frozen);
    return run_native(f, f->values, f->g->ninputs);
}

static int run(frame *f) {
    cr_status status;
    if (f->work < GIL_WORK) {
        status = run_tiers(f);
    } else {
        PyThreadState *thread = PyEval_SaveThread();
        status = run_tiers(f);
        PyEval_RestoreThread(thread);
    }
    if (status && !PyErr_Occurred()) cr_py_raise(status);
    return status ? -1 : 0;
}

/* `state` is torch's, in and out. */
static cr_status run_native_drawing(frame *f, cr_native *native, void *state) {
    CR_TRY(cr_native_set_random(native, state, RT_GENERATOR_STATE_BYTES));
    CR_TRY(run_tiers(f));
    cr_status status = cr_native_get_random(native, state, RT_GENERATOR_STATE_BYTES);
    if (status) release_results(f);
    return status;
}

/* A graph that draws goes on where torch's generator is, and torch's goes on where the graph ended. */
static int run_drawing(frame *f) {
    unsigned char own[RT_GENERATOR_STATE_BYTES];
    char message[256] = "";
    rt_ctx ctx = cr_kernel_ctx(message, sizeof message);
    rt_generator *ours = cr_default_generator();
    cresset_value v;
    PyObject *state = PyObject_CallMethod(f->g->generator, "get_state", NULL), *kept = NULL, *done = NULL;
    if (!state || !ours || cr_torch_read(state, &v, &kept)) goto out;
    rt_generator_get_state(ours, own);
    if (rt_generator_set_state(&ctx, ours, v.data, (size_t)v.size[0])) {
        PyErr_Format(PyExc_RuntimeError, "torch's generator has a state that is not understood: %s", message);
        goto out;
    }
    cr_native *native = f->native;
    /* with the GIL: nobody else draws meanwhile */
    cr_status status = native ? run_native_drawing(f, native, v.data) : run_plan(f);
    if (status && !PyErr_Occurred()) cr_py_raise(status);
    if (!status && !native) rt_generator_get_state(ours, v.data);
    (void)rt_generator_set_state(&ctx, ours, own, sizeof own);
    if (!status) done = PyObject_CallMethod(f->g->generator, "set_state", "O", state);
    if (!status && !done) release_results(f);
out:
    Py_XDECREF(kept);
    Py_XDECREF(state);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

/* ---- results ---- */

/* A tensor or number that the run gave. */
static bool find_value(const void *user, uint32_t at, cresset_value *out) {
    const frame *f = user;
    const cr_arg *made = &f->made[at];
    *out = (cresset_value){ .kind = CRESSET_NONE };
    if (made->kind == CR_ARG_TENSOR)
        *out = (cresset_value){ .kind = CRESSET_TENSOR, .dtype = made->u.t->meta.dtype, .rank = made->u.t->meta.rank,
                                .data = cr_tensor_view(made->u.t).p, .size = made->u.t->meta.size,
                                .stride = made->u.t->meta.stride };
    else if (made->kind == CR_ARG_FLOAT) *out = (cresset_value){ .kind = CRESSET_FLOAT, .number = made->u.f };
    else if (made->kind == CR_ARG_INT || made->kind == CR_ARG_BOOL)
        *out = (cresset_value){ .kind = CRESSET_INT, .integer = made->u.i };
    else if (f->is_raw) *out = f->raw[at];
    return out->kind != CRESSET_NONE;
}

static int compute(const frame *f, cr_sym expr, int64_t *out) {
    cr_torch_call call = { f->values, find_value, f };
    return cr_torch_size_compute(&f->g->sizes, &call, expr, out);
}

static int set_tuples(result *r) {
    Py_XSETREF(r->sizes, cr_torch_numbers(r->size, r->rank));
    Py_XSETREF(r->strides, cr_torch_numbers(r->stride, r->rank));
    if (r->sizes && r->strides) return 0;
    Py_CLEAR(r->sizes);
    return -1;
}

/* As the graph says, at the inputs of this call. */
static int compute_layout(const frame *f, result *r) {
    bool same = r->sizes != NULL;
    for (int d = 0; d < 2 * r->rank; d++) {
        int64_t *at = d < r->rank ? &r->size[d] : &r->stride[d - r->rank], now = *at;
        if (r->exprs[d] && compute(f, r->exprs[d], &now)) return -1;
        same = same && now == *at;
        *at = now;
    }
    return same ? 0 : set_tuples(r);
}

/* Sizes and strides as tuples: those of the last call, when they are the same. */
static int set_sizes(const frame *f, result *r, const int64_t *size) {
    if (r->exprs && compute_layout(f, r)) return -1;
    bool same = r->sizes != NULL;
    for (int d = 0; same && d < r->rank; d++) same = r->size[d] == size[d];
    if (same) return 0;
    if (r->fixed || r->exprs) {
        PyErr_SetString(PyExc_RuntimeError, "a result has other sizes than torch expects; this is a bug of cresset");
        return -1;
    }
    int64_t stride = 1;
    for (int k = r->rank - 1; k >= 0; k--) {
        int d = r->order[k];
        r->size[d] = size[d];
        r->stride[d] = stride;
        stride *= size[d] > 1 ? size[d] : 1;
    }
    return set_tuples(r);
}

static PyObject *size_object(const frame *f, const result *r) {
    int64_t value = r->size[0];
    if (r->expr && compute(f, r->expr, &value)) return NULL;
    return PyLong_FromLongLong(value);
}

static rt_view view_of(const cresset_value *v) {
    rt_view view = { .p = v->data, .dtype = v->dtype, .rank = v->rank };
    memcpy(view.size, v->size, (size_t)v->rank * sizeof *view.size);
    memcpy(view.stride, v->stride, (size_t)v->rank * sizeof *view.stride);
    return view;
}

static int copy(const cresset_value *to, const cresset_value *from) {
    char message[256] = "";
    rt_ctx ctx = cr_kernel_ctx(message, sizeof message);
    rt_view there = view_of(to), here = view_of(from);
    if (!rt_copy(&ctx, &there, &here)) return 0;
    return PyErr_SetString(PyExc_RuntimeError, message), -1;
}

/* `from`: strides are given. */
static PyObject *new_tensor(const frame *f, result *r, const cresset_value *from) {
    cresset_value v;
    PyObject *kept = NULL;
    if (from->dtype != r->dtype || from->rank != r->rank)
        return PyErr_Format(PyExc_RuntimeError,
                            "a result is %s with %d dimensions, and torch expects %s with %d; this is a bug of cresset",
                            cr_dtype_name(from->dtype), from->rank, cr_dtype_name(r->dtype), r->rank);
    if (set_sizes(f, r, from->size)) return NULL;
    PyObject *o = cr_torch_empty(r->sizes, r->strides, r->dtype);
    if (!o) return NULL;
    if (cr_torch_read(o, &v, &kept)) return Py_DECREF(o), NULL;
    Py_XDECREF(kept);
    bool same = true, any = true;
    int64_t extent = 1; /* elements from the first to the last */
    for (int d = 0; d < r->rank; d++) {
        same = same && (from->stride[d] == r->stride[d] || r->size[d] < 2);
        any = any && r->size[d];
        extent += (r->size[d] - 1) * r->stride[d];
    }
    if (!any) return o;
    if (same) return memcpy(v.data, from->data, (size_t)(extent * rt_itemsize(r->dtype))), o;
    return copy(&v, from) ? Py_DECREF(o), NULL : o;
}

static PyObject *new_of(const frame *f, result *r) {
    const cresset_value *raw = f->is_raw ? &f->raw[r->at] : NULL;
    if (raw && raw->kind == CRESSET_TENSOR) return new_tensor(f, r, raw);
    const cr_tensor *t = f->made[r->at].u.t;
    rt_view view = cr_tensor_view(t);
    return new_tensor(f, r, &(cresset_value){ .dtype = t->meta.dtype, .rank = t->meta.rank, .data = view.p,
                                              .size = t->meta.size, .stride = t->meta.stride });
}

/* What native code gave becomes a result of the graph; tensors that torch's memory is made for stay as they are. */
static int settle(const frame *f, const result *r) {
    cresset_value *raw = &f->raw[r->at];
    bool stays = (r->kind == RESULT_NEW || r->kind == RESULT_INTO) && raw->kind == CRESSET_TENSOR;
    if (!f->is_raw || f->made[r->at].kind != CR_ARG_NONE || stays) return 0;
    cr_status status = cr_native_take(f->native, raw, &f->made[r->at]);
    return status ? cr_py_fail(status) : 0;
}

static PyObject *object_of(frame *f, result *r) {
    if (r->kind == RESULT_SIZE) return size_object(f, r);
    if (r->kind == RESULT_ARGUMENT) return Py_NewRef(f->args[r->at]);
    if (r->kind == RESULT_OBJECT) return Py_NewRef(r->object);
    const cr_arg *made = &f->made[r->at];
    if (settle(f, r)) return NULL;
    if (r->kind == RESULT_NEW && (made->kind == CR_ARG_TENSOR || (f->is_raw && f->raw[r->at].kind == CRESSET_TENSOR)))
        return new_of(f, r);
    if (made->kind == CR_ARG_NONE) Py_RETURN_NONE;
    if (r->kind == RESULT_NUMBER)
        return made->kind == CR_ARG_FLOAT  ? PyFloat_FromDouble(made->u.f)
               : made->kind == CR_ARG_BOOL ? PyBool_FromLong(made->u.i != 0)
               : made->kind == CR_ARG_INT  ? PyLong_FromLongLong(made->u.i)
                                           : PyErr_Format(PyExc_RuntimeError, "a result is no number");
    if (made->kind != CR_ARG_TENSOR) return PyErr_Format(PyExc_RuntimeError, "a result is no tensor");
    return cr_torch_give(made->u.t);
}

/* Where a result lies. false: it is no tensor. */
static bool find_result(const frame *f, uint32_t at, cresset_value *out) {
    return find_value(f, at, out) && out->kind == CRESSET_TENSOR;
}

/* Does it fit there? Looked at before anything is written. */
static int check_into(const frame *f, const result *r) {
    const cresset_value *to = &f->values[r->to];
    cresset_value from;
    if (settle(f, r)) return -1;
    bool fits = cr_torch_is_plain(f->args[r->to]) && to->kind == CRESSET_TENSOR && find_result(f, r->at, &from) &&
                from.dtype == to->dtype && from.rank == to->rank;
    for (int d = 0; fits && d < to->rank; d++) fits = from.size[d] == to->size[d];
    if (fits) return 0;
    PyErr_SetString(PyExc_RuntimeError, "a new value has another shape than what is written; this is a bug of cresset");
    return -1;
}

static int write_into(const frame *f, const result *r) {
    const cresset_value *to = &f->values[r->to];
    cresset_value from;
    find_result(f, r->at, &from);
    int64_t n = 1;
    bool dense = true; /* row by row, both: one piece of memory */
    for (int d = to->rank; d-- > 0; n *= to->size[d])
        dense = dense && (to->size[d] == 1 || (to->stride[d] == n && from.stride[d] == n));
    if (!n) return 0;
    if (dense) return memcpy(to->data, from.data, (size_t)(n * rt_itemsize(to->dtype))), 0;
    return copy(to, &from);
}

static PyObject *give_results(frame *f) {
    py_torch_graph *g = f->g;
    PyObject *list = PyList_New(g->nresults);
    for (uint32_t i = 0; list && i < g->nresults; i++) {
        const bool into = g->results[i].kind == RESULT_INTO;
        PyObject *o = !into ? object_of(f, &g->results[i]) : check_into(f, &g->results[i]) ? NULL : Py_NewRef(Py_None);
        if (o) PyList_SET_ITEM(list, i, o);
        else Py_CLEAR(list);
    }
    for (uint32_t i = 0; list && i < g->nresults; i++)
        if (g->results[i].kind == RESULT_INTO && write_into(f, &g->results[i])) {
            PyErr_SetString(PyExc_SystemError, "new values were written in part; this is a bug of cresset");
            Py_CLEAR(list); /* nothing runs again (frontend_torch.c) */
        }
    release_results(f);
    return list;
}

/* ---- calls ---- */

/* What went wrong here goes right in torch, or wrong as it does there. */
static PyObject *fall_back(frame *f) {
    PyObject *list = PyList_New(f->g->nargs), *results = NULL;
    if (!PyErr_ExceptionMatches(PyExc_Exception)) return Py_XDECREF(list), NULL;
    PyErr_Clear();
    f->g->fallbacks++;
    for (uint32_t i = 0; list && i < f->g->nargs; i++) PyList_SET_ITEM(list, i, Py_NewRef(f->args[i]));
    if (list) results = PyObject_CallOneArg(f->g->fallback, list);
    Py_XDECREF(list);
    return results;
}

static PyObject *run_frame(frame *f) {
    int failed = read_values(f) || (f->g->nwritten && check_apart(f)) || (f->g->tier && find_native(f));
    if (!failed) failed = f->g->generator ? run_drawing(f) : run(f);
    PyObject *results = failed ? NULL : give_results(f);
    cr_tier_release(f->tier);
    for (uint32_t i = 0; i < f->g->ninputs; i++) Py_XDECREF(f->kept[i]);
    bool again = failed || !f->g->generator; /* what was drawn is not drawn twice */
    return !results && again && f->g->fallback ? fall_back(f) : results;
}

/* `list`: where the arguments are, and then no more; NULL: they are somebody else's. */
static PyObject *call_with(py_torch_graph *g, PyObject *const *args, PyObject *list) {
    PyObject *few_objects[FEW * 2];
    cresset_value few_values[FEW], few_raw[FEW];
    cr_arg few_args[FEW];
    bool few = g->nargs <= FEW && g->ninputs <= FEW && g->nvalues <= FEW;
    frame f = { .g = g, .args = few_objects, .kept = few_objects + FEW, .values = few_values, .made = few_args,
                .raw = few_raw };
    if (!few) {
        f.args = PyMem_Malloc((g->nargs + g->ninputs + 1u) * sizeof *f.args);
        f.values = PyMem_Malloc((g->ninputs + g->nvalues + 1u) * sizeof *f.values);
        f.raw = f.values ? f.values + g->ninputs : NULL;
        f.made = PyMem_Malloc((g->nvalues + 1u) * sizeof *f.made);
        f.kept = f.args ? f.args + g->nargs : NULL;
    }
    PyObject *results = NULL;
    if (f.args && f.values && f.made) {
        memset(f.kept, 0, g->ninputs * sizeof *f.kept);
        for (uint32_t i = 0; i < g->nargs; i++) f.args[i] = Py_NewRef(args[i]);
        if (list) PyList_SetSlice(list, 0, PY_SSIZE_T_MAX, NULL); /* nobody holds them: memory goes when used up */
        g->calls++;
        results = run_frame(&f);
        for (uint32_t i = 0; i < g->nargs; i++) Py_DECREF(f.args[i]);
    } else {
        PyErr_NoMemory();
    }
    if (!few) {
        PyMem_Free(f.args);
        PyMem_Free(f.values);
        PyMem_Free(f.made);
    }
    return results;
}

static PyObject *call(PyObject *self, PyObject *const *args, size_t nargs, PyObject *names) {
    py_torch_graph *g = (py_torch_graph *)self;
    Py_ssize_t n = PyVectorcall_NARGS(nargs);
    if (n == 1 && !names && PyList_CheckExact(args[0])) {
        if (PyList_GET_SIZE(args[0]) != g->nargs)
            return PyErr_Format(PyExc_TypeError, "the graph takes %u arguments, not %zd", g->nargs,
                                PyList_GET_SIZE(args[0]));
        return call_with(g, PySequence_Fast_ITEMS(args[0]), args[0]);
    }
    if (n == g->nargs && !names) return call_with(g, args, NULL);
    return PyErr_Format(PyExc_TypeError, "call it with its %u arguments, or with one list of them, which is emptied",
                        g->nargs);
}

/* ---- native code ---- */

/* Code that is made with these inputs, as the examples are. */
static int freeze(py_torch_graph *g, cr_graph *graph, unsigned ways, PyObject *which, PyObject *examples) {
    if (PyTuple_GET_SIZE(examples) != g->nargs || g->nargs != g->ninputs)
        return PyErr_Format(PyExc_ValueError, "weights of %zd arguments, of %u inputs", PyTuple_GET_SIZE(examples),
                            g->ninputs), -1;
    if (cr_torch_weights_init(&g->weights, graph, ways, which)) return -1;
    return cr_torch_weights_start(&g->weights, PySequence_Fast_ITEMS(examples), &g->tier);
}

static PyObject *build(PyObject *self, PyObject *args) {
    py_torch_graph *g = (py_torch_graph *)self;
    PyObject *graph, *which = NULL, *examples = NULL;
    int wait;
    unsigned ways = CR_TIER_NATIVE;
    cr_arg a;
    if (!PyArg_ParseTuple(args, "Op|IO!O!:_build", &graph, &wait, &ways, &PyTuple_Type, &which, &PyTuple_Type,
                          &examples))
        return NULL;
    if (!cr_py_graph_read(graph, &a)) return PyErr_Format(PyExc_TypeError, "_build() takes a Graph");
    if (!g->tier && examples && PyTuple_GET_SIZE(which)) {
        if (freeze(g, a.u.graph, ways, which, examples)) return NULL;
    } else if (!g->tier) {
        cr_status status = cr_tier_start(a.u.graph, ways, &g->tier);
        if (status) return cr_py_raise(status);
    }
    PyThreadState *thread = PyEval_SaveThread();
    if (wait) cr_tier_wait(g->tier);
    PyEval_RestoreThread(thread);
    Py_RETURN_NONE;
}

static PyObject *get_tier(PyObject *self, void *unused) {
    const cr_tier *tier = ((py_torch_graph *)self)->tier;
    (void)unused;
    return PyUnicode_FromString(tier ? cr_tier_state(tier) : "interpreter");
}

static PyObject *wait_for(PyObject *self, PyObject *unused) {
    cr_tier *tier = ((py_torch_graph *)self)->tier;
    (void)unused;
    if (!tier) Py_RETURN_NONE;
    cr_tier_retain(tier);
    PyThreadState *thread = PyEval_SaveThread();
    cr_tier_wait(tier);
    PyEval_RestoreThread(thread);
    cr_tier_release(tier);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    { "_wait", wait_for, METH_NOARGS, "Waits until native code that is being built is there." },
    { "_build", build, METH_VARARGS,
      "_build(graph, wait, ways=1, weights=(), examples=()): native code of it, which calls use once it is there, made "
      "with these inputs as the examples are; ways: as emit/tier.h has it." },
    { NULL, NULL, 0, NULL },
};
static PyMemberDef members[] = {
    { "__vectorcalloffset__", T_PYSSIZET, offsetof(py_torch_graph, vectorcall), READONLY, NULL },
    { "_boxed_call", T_BOOL, offsetof(py_torch_graph, boxed), READONLY, "It takes one list, and empties it." },
    { "fallbacks", T_LONGLONG, offsetof(py_torch_graph, fallbacks), READONLY,
      "How often torch was called instead, because it failed." },
    { "calls", T_LONGLONG, offsetof(py_torch_graph, calls), READONLY, "How often it was called." },
    { NULL, 0, 0, 0, NULL },
};
static PyGetSetDef attributes[] = {
    { "tier", get_tier, NULL, "'interpreter', 'building', 'native', or why there is no native code.", NULL },
    { NULL, NULL, NULL, NULL, NULL },
};
static PyTypeObject graph_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "cresset._C._TorchGraph",
    .tp_basicsize = sizeof(py_torch_graph),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_HAVE_GC,
    .tp_doc = "_TorchGraph(graph, nargs, inputs, constants, results, generator=None): a graph for torch's tensors.",
    .tp_new = graph_new,
    .tp_dealloc = graph_dealloc,
    .tp_traverse = graph_traverse,
    .tp_weaklistoffset = offsetof(py_torch_graph, weak),
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(py_torch_graph, vectorcall),
    .tp_methods = methods,
    .tp_members = members,
    .tp_getset = attributes,
};

int cr_py_torch_graph_init(PyObject *module) {
    if (PyType_Ready(&graph_type)) return -1;
    return PyModule_AddObjectRef(module, "_TorchGraph", (PyObject *)&graph_type);
}
