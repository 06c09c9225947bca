/* table.c: the op table shown to tests, stubs and the docs page: names, schemas, rows. */
#include "python/tensor.h"
#include "runtime/kernels.h"

static const cr_op *find(PyObject *name) {
    const char *text = PyUnicode_AsUTF8(name);
    if (!text) return NULL;
    cr_status status = cr_ops_init();
    if (status) {
        cr_py_raise(status);
        return NULL;
    }
    const cr_op *op = cr_op_find(text);
    if (!op) PyErr_Format(PyExc_KeyError, "there is no op '%s'", text);
    return op;
}

static PyObject *op_names(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    cr_status status = cr_ops_init();
    if (status) return cr_py_raise(status);
    PyObject *list = PyList_New((Py_ssize_t)cr_op_count());
    for (size_t i = 0; list && i < cr_op_count(); i++) {
        PyObject *name = PyUnicode_FromString(cr_op_at(i)->name);
        if (!name) Py_CLEAR(list);
        else PyList_SET_ITEM(list, (Py_ssize_t)i, name);
    }
    return list;
}

static PyObject *schema(PyObject *module, PyObject *name) {
    (void)module;
    const cr_op *op = find(name);
    return op ? PyUnicode_FromString(op->schema.text) : NULL;
}

typedef struct named_bit {
    uint32_t bit;
    const char *name;
} named_bit;
static const named_bit tag_names[] = {
    { CR_TAG_CORE, "core" },           { CR_TAG_POINTWISE, "pointwise" }, { CR_TAG_VIEW, "view" },
    { CR_TAG_UPDATES, "updates" },     { CR_TAG_DATA_DEPENDENT, "data_dependent" }, { CR_TAG_RANDOM, "random" },
    { CR_TAG_REDUCTION, "reduction" }, { CR_TAG_COMPOSITE, "composite" }, { CR_TAG_INPLACE_VIEW, "inplace_view" },
    { CR_TAG_INTERNAL, "internal" },
    { CR_TAG_ASSERT, "assert" },       { CR_TAG_HIGHER_ORDER, "higher_order" }, { CR_TAG_ANY_CAST, "any_cast" },
    { CR_TAG_NUMBERS, "numbers" },     { CR_TAG_METADATA, "metadata" }, { CR_TAG_SHARES, "shares" },
    { CR_TAG_STATISTICS, "statistics" },
};
static const named_bit variant_names[] = {
    { CR_VARIANT_INPLACE, "inplace" }, { CR_VARIANT_OUT, "out" }, { CR_VARIANT_METHOD, "method" },
    { CR_VARIANT_FUNCTION, "function" },
};

static PyObject *bits(uint32_t value, size_t n, bool tags) {
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < n; i++) {
        if (!(value & (tags ? tag_names[i].bit : variant_names[i].bit))) continue;
        PyObject *name = PyUnicode_FromString(tags ? tag_names[i].name : variant_names[i].name);
        if (!name || PyList_Append(list, name)) Py_CLEAR(list);
        Py_XDECREF(name);
    }
    return list;
}

/* Everything a row says; the texts are the row's own. */
static PyObject *row(PyObject *module, PyObject *name) {
    (void)module;
    const cr_op *op = find(name);
    if (!op) return NULL;
    const cr_row *r = op->base->row;
    static const char *const variants[] = { "functional", "inplace", "out" };
#define FLAG(x) ((x) ? Py_True : Py_False)
#define NAME(x) ((x) ? (x)->name : NULL)
    return Py_BuildValue(
        "{s:s,s:s,s:s,s:N,s:N,s:z,s:z,s:z,s:z,s:z,s:z,s:O,s:O,s:O,s:O,s:O,s:O,s:O}", /* z: text or None */
        "name", op->name, "schema", op->schema.text, "variant", variants[op->variant], "tags",
        bits(op->tags, CR_COUNT(tag_names), true), "variants", bits(r->variants, CR_COUNT(variant_names), false),
        "scalar", r->scalar, "decomp", r->decomp, "grad", r->grad, "sample", r->sample, "inplace", NAME(op->inplace),
        "out", NAME(op->out), "has_kernel", FLAG(r->kernel), "has_decomp_fn", FLAG(r->decomp_fn), "has_grad_fn",
        FLAG(r->grad_fn), "has_shape", FLAG(r->shape), "derived", FLAG(op->base != op), "reduces", FLAG(r->reduce.kind),
        "only_shape", FLAG(r->kernel == rt_k_nothing));
}

static const char *const type_names[CR_T_COUNT] = {
    [CR_T_TENSOR] = "Tensor",
    [CR_T_SCALAR] = "Scalar",
    [CR_T_INT] = "int",
    [CR_T_FLOAT] = "float",
    [CR_T_BOOL] = "bool",
    [CR_T_STR] = "str",
    [CR_T_DTYPE] = "ScalarType",
    [CR_T_LAYOUT] = "Layout",
    [CR_T_DEVICE] = "Device",
    [CR_T_FORMAT] = "MemoryFormat",
    [CR_T_GENERATOR] = "Generator",
    [CR_T_GRAPH] = "Graph",
    [CR_T_ANY] = "Any",
};

static PyObject *parameters_of(const cr_param *params, uint16_t n) {
    PyObject *list = PyList_New(n);
    for (uint16_t i = 0; list && i < n; i++) {
        const cr_param *p = &params[i];
        cr_str text;
        cr_str_init(&text);
        if (p->has_default) cr_arg_print(NULL, &p->fallback, &text);
        PyObject *item = Py_BuildValue("{s:s,s:s,s:O,s:O,s:O,s:O,s:O,s:i,s:z}", "name", p->name, "type",
                                       type_names[p->type], "list", FLAG(p->list), "optional", FLAG(p->optional),
                                       "item_optional", FLAG(p->item_optional), "keyword_only", FLAG(p->keyword_only),
                                       "writes", FLAG(p->writes), "size", (int)p->list_size, "default",
                                       p->has_default ? cr_str_get(&text) : NULL);
        cr_str_dispose(&text);
        if (!item) Py_CLEAR(list);
        else PyList_SET_ITEM(list, i, item);
    }
    return list;
}

/* The schema in parts: (parameters, results), a dict each. */
static PyObject *signature(PyObject *module, PyObject *name) {
    (void)module;
    const cr_op *op = find(name);
    if (!op) return NULL;
    PyObject *params = parameters_of(op->schema.params, op->schema.nparams),
             *returns = parameters_of(op->schema.returns, op->schema.nreturns);
    return params && returns ? Py_BuildValue("(NN)", params, returns) : (Py_XDECREF(params), Py_XDECREF(returns), NULL);
}

static PyObject *accepts(PyObject *module, PyObject *name) {
    (void)module;
    const cr_op *op = find(name);
    PyObject *list = op ? PyList_New(0) : NULL;
    for (int d = 0; list && d < CR_DTYPE_COUNT; d++) {
        if (!(op->accepts & (UINT32_C(1) << d))) continue;
        PyObject *dtype = cr_py_dtype_get(d);
        if (PyList_Append(list, dtype)) Py_CLEAR(list);
        Py_DECREF(dtype);
    }
    return list;
}

static PyObject *shown(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *name;
    const char *form;
    if (!PyArg_ParseTuple(args, "Us", &name, &form)) return NULL;
    const cr_op *op = find(name);
    return op ? PyBool_FromLong(cr_py_op_shown(op, !strcmp(form, "method") ? CR_PY_METHOD : CR_PY_FUNCTION)) : NULL;
}

static PyObject *populate(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    return cr_py_tensor_populate() ? NULL : Py_NewRef((PyObject *)cr_py_tensor_type);
}

static PyMethodDef functions[] = {
    { "_op_names", op_names, METH_NOARGS, "Full names of all ops, in table order." },
    { "_schema", schema, METH_O, "_schema(name): the schema's text." },
    { "_signature", signature, METH_O, "_signature(name): the schema in parts, (parameters, results)." },
    { "_row", row, METH_O, "_row(name): what the row says, as a dict." },
    { "_accepts", accepts, METH_O, "_accepts(name): dtypes that PyTorch's CPU kernels accept." },
    { "_shown", shown, METH_VARARGS, "_shown(name, 'method' | 'function'): does Python show the op there?" },
    { "_populated_tensor_type", populate, METH_NOARGS, "Tensor with its methods in place." },
    { NULL, NULL, 0, NULL },
};

int cr_py_table_init(PyObject *module) { return PyModule_AddFunctions(module, functions); }
