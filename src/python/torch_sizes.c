/* torch_sizes.c: sizes and strides of results that differ from call to call, computed from those of the inputs.
 *
 * A graph's symbols each have a place among its inputs: a size that is the symbol, a number that is, or a size such as
 * 2*s0 + 1; those that depend on data have one among its results. Expressions are read once, from their text, and
 * computed at every call. */
#include "python/torch_sizes.h"

#include "trace/trace.h"

static int no_memory(void) { return PyErr_NoMemory(), -1; }

static bool knows(const cr_torch_sizes *s, cr_sym symbol) {
    for (size_t i = 0; i < s->symbols.n; i++)
        if (s->symbols.at[i].symbol == symbol) return true;
    return false;
}

/* `compound`: sizes c*s + k; else those that are one symbol. */
static int note(cr_torch_sizes *s, cr_sym e, cr_torch_symbol at, bool compound) {
    at.symbol = e, at.scale = 1;
    if (!e || (cr_sym_kind_of(e) == CR_SYM_SYMBOL) == compound) return 0;
    if (compound) {
        if (cr_sym_kind_of(e) != CR_SYM_ADD || cr_sym_operand_count(e) != 1) return 0;
        at.symbol = cr_sym_operand(e, 0), at.scale = cr_sym_coefficient(e, 0), at.shift = cr_sym_constant(e);
        if (cr_sym_kind_of(at.symbol) != CR_SYM_SYMBOL) return 0;
    }
    if (knows(s, at.symbol)) return 0;
    return cr_vec_push(&s->symbols, at) ? no_memory() : 0;
}

/* Input, or result, number i. */
static int note_value(cr_torch_sizes *s, const cr_value *v, uint32_t i, bool of_result, bool compound) {
    cr_torch_symbol at = { .input = i, .of_result = of_result, .dim = CR_TORCH_ITSELF };
    if (!v->meta && v->expr && note(s, v->expr, at, compound)) return -1;
    for (at.dim = 0; v->meta && at.dim < v->meta->rank; at.dim++) {
        cr_dim size = v->meta->size[at.dim];
        if (!cr_dim_is_plain(size) && note(s, cr_dim_sym(s->env, size), at, compound)) return -1;
    }
    return 0;
}

int cr_torch_sizes_init(cr_torch_sizes *s, const cr_graph *g) {
    *s = (cr_torch_sizes){ .env = cr_graph_env(g) };
    if (!s->env) return 0;
    cr_env_retain(s->env);
    for (int compound = 0; compound < 2; compound++) {
        uint32_t i = 0;
        for (uint32_t n = cr_graph_first(g); i < cr_graph_input_count(g); n = cr_graph_next(g, n), i++)
            if (note_value(s, cr_graph_value(g, cr_graph_node(g, n)->first), i, false, compound)) return -1;
    }
    const cr_node *output = cr_graph_node(g, cr_graph_output(g));
    for (int compound = 0; compound < 2; compound++)
        for (uint32_t i = 0; i < output->nargs; i++)
            if (output->args[i].kind == CR_ARG_VALUE &&
                note_value(s, cr_graph_value(g, (uint32_t)output->args[i].u.i), i, true, compound))
                return -1;
    return 0;
}

void cr_torch_sizes_dispose(cr_torch_sizes *s) {
    cr_vec_dispose(&s->symbols);
    if (s->env) cr_env_release(s->env);
}

static bool all_known(const cr_torch_sizes *s, cr_sym e) {
    if (cr_sym_kind_of(e) == CR_SYM_SYMBOL) return knows(s, e);
    for (size_t i = 0; i < cr_sym_operand_count(e); i++)
        if (!all_known(s, cr_sym_operand(e, i))) return false;
    return true;
}

int cr_torch_size_read(const cr_torch_sizes *s, PyObject *o, cr_sym *expr, int64_t *plain) {
    *expr = NULL;
    if (PyLong_Check(o)) return *plain = PyLong_AsLongLong(o), PyErr_Occurred() ? -1 : 0;
    const char *text = PyUnicode_Check(o) ? PyUnicode_AsUTF8(o) : NULL;
    if (!text) return PyErr_Occurred() ? -1 : (PyErr_SetString(PyExc_TypeError, "a size is an int or a text"), -1);
    cr_status status = s->env ? cr_sym_parse(s->env, text, true, expr) : CR_EVALUE;
    if (!status && all_known(s, *expr)) return 0;
    PyErr_Format(PyExc_NotImplementedError, "the size %s of a result is not given by the inputs of its graph", text);
    return -1;
}

typedef struct lookup { const cr_torch_sizes *s; const cr_torch_call *call; } lookup;

static bool find(void *user, cr_sym symbol, cr_sym_value *out) {
    const lookup *l = user;
    for (size_t i = 0; i < l->s->symbols.n; i++) {
        const cr_torch_symbol *at = &l->s->symbols.at[i];
        if (at->symbol != symbol) continue;
        cresset_value given;
        if (at->of_result && !(l->call->result && l->call->result(l->call->user, at->input, &given))) return false;
        const cresset_value *v = at->of_result ? &given : &l->call->inputs[at->input];
        int64_t found = at->dim == CR_TORCH_ITSELF ? v->integer : v->size[at->dim];
        *out = cr_sym_type_of(symbol) == CR_TYPE_FLOAT
                   ? (cr_sym_value){ CR_TYPE_FLOAT, 0, v->number }
                   : (cr_sym_value){ CR_TYPE_INT, (found - at->shift) / at->scale, 0 };
        return true;
    }
    return false;
}

int cr_torch_size_compute(const cr_torch_sizes *s, const cr_torch_call *call, cr_sym expr, int64_t *out) {
    lookup l = { s, call };
    cr_sym_value value = { 0 };
    cr_status status = cr_sym_eval(expr, find, &l, &value);
    if (status) return cr_py_raise(status), -1;
    return *out = value.i, 0;
}

/* ---- are they what ops give? ---- */

/* What decides about strides is not always known of symbols (is it channels-last?), and a recorded layout may be
 * another than that of these very sizes: the graph is gone through again with them, on fakes. */
typedef struct trial {
    cr_torch_sizes sizes;
    cr_fakes fakes;
    cr_plan *plan;
    PyObject *kept;      /* list: what the values borrow from */
    cresset_value *values;
    cr_arg *inputs, *results;
    size_t ninputs, nresults;
} trial;

static int read_example(trial *t, size_t i, PyObject *o, cr_type type) {
    cresset_value *v = &t->values[i];
    PyObject *kept = NULL;
    cr_tensor *real = NULL, *fake = NULL;
    if (type != CR_T_TENSOR) {
        bool is_float = type == CR_T_FLOAT;
        *v = (cresset_value){ .number = is_float ? PyFloat_AsDouble(o) : 0,
                              .integer = is_float ? 0 : PyLong_AsLongLong(o) };
        t->inputs[i] = is_float ? cr_arg_float(v->number) : cr_arg_int(v->integer);
        return PyErr_Occurred() ? -1 : 0;
    }
    if (cr_torch_read(o, v, &kept)) return -1;
    int failed = kept ? PyList_Append(t->kept, kept) : 0;
    Py_XDECREF(kept);
    if (!v->data) v->data = v; /* of no elements */
    cr_status status = failed ? CR_OK : cr_torch_tensor(v, &real);
    if (!failed && !status) status = cr_fake_from(&t->fakes, real, 0, NULL, &fake);
    cr_tensor_release(real);
    if (fake) t->inputs[i] = cr_arg_tensor(fake);
    return status ? cr_py_fail(status) : failed;
}

static bool is_now(const trial *t, cr_dim recorded, int64_t now) {
    int64_t then;
    if (cr_dim_is_plain(recorded)) return recorded == now;
    cr_torch_call call = { .inputs = t->values };
    if (!cr_torch_size_compute(&t->sizes, &call, cr_dim_sym(t->sizes.env, recorded), &then)) return then == now;
    return PyErr_Clear(), false;
}

static bool has_dense_strides(cr_env *env, const cr_meta *m) {
    cr_dim dense[CR_MAX_RANK];
    cr_strides_contiguous(env, m->rank, m->size, dense);
    return !memcmp(dense, m->stride, m->rank * sizeof *dense); /* the same terms */
}

/* Has it a symbol that no input gives? */
static bool depends_on_data(const cr_torch_sizes *s, cr_sym e) {
    if (cr_sym_kind_of(e) == CR_SYM_SYMBOL) {
        for (size_t i = 0; i < s->symbols.n; i++)
            if (s->symbols.at[i].symbol == e) return s->symbols.at[i].of_result;
        return true;
    }
    for (size_t i = 0; i < cr_sym_operand_count(e); i++)
        if (depends_on_data(s, cr_sym_operand(e, i))) return true;
    return false;
}

static bool is_sized_by_data(const cr_torch_sizes *s, const cr_meta *m) {
    for (int d = 0; d < m->rank; d++)
        if (!cr_dim_is_plain(m->size[d]) && depends_on_data(s, cr_dim_sym(s->env, m->size[d]))) return true;
    return false;
}

static bool is_laid_out(const trial *t, const cr_meta *recorded, const cr_meta *now) {
    bool same = recorded->rank == now->rank, empty = false;
    if (same && is_sized_by_data(&t->sizes, recorded))
        return has_dense_strides(t->sizes.env, recorded) && has_dense_strides(t->fakes.env, now);
    for (int d = 0; same && d < now->rank; d++) {
        same = is_now(t, recorded->size[d], now->size[d]);
        empty |= !now->size[d];
    }
    for (int d = 0; same && !empty && d < now->rank; d++) same = is_now(t, recorded->stride[d], now->stride[d]);
    return same;
}

static int try_sizes(trial *t, cr_graph *g, PyObject *examples) {
    cr_ambient *ambient = cr_ambient_get();
    cr_ambient before = *ambient;
    uint32_t n = cr_graph_first(g);
    for (size_t i = 0; i < t->ninputs; n = cr_graph_next(g, n), i++) {
        const cr_value *v = cr_graph_value(g, cr_graph_node(g, n)->first);
        if (read_example(t, i, PyTuple_GET_ITEM(examples, (Py_ssize_t)i), (cr_type)v->type)) return -1;
    }
    ambient->grad = false;
    ambient->mode.fake = true;
    cr_status status = cr_plan_run(t->plan, t->inputs, t->ninputs, t->results, t->nresults);
    ambient->grad = before.grad;
    ambient->mode.fake = before.mode.fake;
    if (status) return cr_py_fail(status);
    const cr_node *output = cr_graph_node(g, cr_graph_output(g));
    bool same = true;
    for (size_t i = 0; i < t->nresults; i++) {
        const cr_value *v =
            output->args[i].kind == CR_ARG_VALUE ? cr_graph_value(g, (uint32_t)output->args[i].u.i) : NULL;
        if (v && v->meta && t->results[i].kind == CR_ARG_TENSOR)
            same = same && is_laid_out(t, v->meta, &t->results[i].u.t->meta);
    }
    cr_results_release(t->results, t->nresults);
    if (!same) PyErr_SetString(PyExc_NotImplementedError, "how a result is laid out is not known for all sizes");
    return same ? 0 : -1;
}

/* Ops lay results out by what their arguments are. Of one that is not row by row, and of whose sizes nobody has an
 * example, that is not always decided when it is recorded, and what is then recorded may be another layout than the ops
 * would give: `x.nonzero() + 1` is laid out by columns. */
static bool lacks_example(cr_sym e) {
    if (cr_sym_kind_of(e) == CR_SYM_SYMBOL) return !cr_sym_is_backed(e);
    for (size_t i = 0; i < cr_sym_operand_count(e); i++)
        if (lacks_example(cr_sym_operand(e, i))) return true;
    return false;
}

static const cr_meta *matrix_without_example(const cr_graph *g, const cr_arg *a) {
    const cr_meta *m = a->kind == CR_ARG_VALUE ? cr_graph_value(g, (uint32_t)a->u.i)->meta : NULL;
    for (int d = 0; m && m->rank > 1 && d < m->rank; d++)
        if (!cr_dim_is_plain(m->size[d]) && lacks_example(cr_dim_sym(cr_graph_env(g), m->size[d]))) return m;
    return NULL;
}

/* Dimensions that are expanded, or of size 1, decide nothing. */
static bool is_by_rows(cr_env *env, const cr_meta *m) {
    cr_meta rest = { .rank = 0 };
    for (int d = 0; d < m->rank; d++)
        if (m->stride[d] && m->size[d] != 1) rest.size[rest.rank] = m->size[d], rest.stride[rest.rank++] = m->stride[d];
    return has_dense_strides(env, &rest);
}

static bool takes_columns(const cr_graph *g, const cr_arg *a, size_t n) {
    for (size_t k = 0; k < n; k++) {
        const cr_meta *m = matrix_without_example(g, &a[k]);
        if (m && !is_by_rows(cr_graph_env(g), m)) return true;
        if (a[k].kind == CR_ARG_LIST && takes_columns(g, a[k].u.list, a[k].n)) return true;
    }
    return false;
}

/* Is there such an op, and a result that may be laid out after it? */
static bool is_layout_undecided(const cr_graph *g) {
    const cr_node *output = cr_graph_node(g, cr_graph_output(g));
    bool given = false;
    for (uint32_t i = 0; i < output->nargs; i++) given |= matrix_without_example(g, &output->args[i]) != NULL;
    for (uint32_t n = cr_graph_first(g); given && n != CR_NO_NODE; n = cr_graph_next(g, n)) {
        const cr_node *node = cr_graph_node(g, n);
        if (node->kind != CR_NODE_CALL || !strcmp(node->op->name, "aten::contiguous")) continue;
        bool by_rows = false;
        for (uint32_t k = 0; k < node->nvalues; k++) {
            const cr_meta *m = matrix_without_example(g, &(cr_arg){ .kind = CR_ARG_VALUE, .u.i = node->first + k });
            by_rows |= m && has_dense_strides(cr_graph_env(g), m);
        }
        if (by_rows && takes_columns(g, node->args, node->nargs)) return true;
    }
    return false;
}

static bool has_open_inputs(const cr_graph *g) {
    uint32_t n = cr_graph_first(g);
    for (size_t i = 0; i < cr_graph_input_count(g); n = cr_graph_next(g, n), i++) {
        const cr_value *v = cr_graph_value(g, cr_graph_node(g, n)->first);
        if (!v->meta) return true;
        for (int d = 0; d < v->meta->rank; d++)
            if (!cr_dim_is_plain(v->meta->size[d])) return true;
    }
    return false;
}

static PyObject *check_layouts(PyObject *module, PyObject *args) {
    PyObject *graph, *examples;
    cr_arg a;
    trial t = { .ninputs = 0 };
    (void)module;
    if (!PyArg_ParseTuple(args, "OO!:_check_layouts", &graph, &PyTuple_Type, &examples)) return NULL;
    if (!cr_py_graph_read(graph, &a) || cr_graph_input_count(a.u.graph) != (size_t)PyTuple_GET_SIZE(examples))
        return PyErr_Format(PyExc_TypeError, "_check_layouts() takes a Graph and an example of each input");
    cr_fakes_init(&t.fakes, cr_graph_env(a.u.graph));
    t.ninputs = cr_graph_input_count(a.u.graph);
    int failed = cr_torch_sizes_init(&t.sizes, a.u.graph);
    cr_status status = failed ? CR_OK : cr_plan_create(a.u.graph, &t.plan);
    t.nresults = t.plan ? cr_plan_result_count(t.plan) : 0;
    t.kept = PyList_New(0);
    t.values = PyMem_Calloc(t.ninputs + 1, sizeof *t.values);
    t.inputs = PyMem_Calloc(t.ninputs + t.nresults + 1, sizeof *t.inputs);
    t.results = t.inputs ? t.inputs + t.ninputs : NULL;
    if (!failed && !status && is_layout_undecided(a.u.graph)) {
        PyErr_SetString(PyExc_NotImplementedError, "how a result is laid out depends on data");
        failed = -1;
    }
    if (status) failed = cr_py_fail(status);
    else if (!failed && has_open_inputs(a.u.graph))
        failed = t.kept && t.values && t.inputs ? try_sizes(&t, a.u.graph, examples) : no_memory();
    if (t.inputs) cr_results_release(t.inputs, t.ninputs);
    PyMem_Free(t.inputs);
    PyMem_Free(t.values);
    Py_XDECREF(t.kept);
    cr_plan_release(t.plan);
    cr_fakes_dispose(&t.fakes);
    cr_torch_sizes_dispose(&t.sizes);
    if (failed) return NULL;
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    { "_check_layouts", check_layouts, METH_VARARGS,
      "_check_layouts(graph, examples): raises NotImplementedError where a result of the graph would be laid out "
      "otherwise than it says." },
    { NULL, NULL, 0, NULL },
};

int cr_py_torch_sizes_init(PyObject *module) { return PyModule_AddFunctions(module, functions); }
