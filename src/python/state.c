/* state.c: process-wide and per-thread settings (default dtype, threads, grad mode), and questions about dtypes. */
#include "python/tensor.h"

static int dtype_argument(PyObject *o, const char *function, int *out) {
    if (cr_py_dtype_read(o, out)) return 0;
    PyErr_Format(PyExc_TypeError, "%s(): expected a dtype, not %s", function, Py_TYPE(o)->tp_name);
    return -1;
}

static PyObject *set_default_dtype(PyObject *module, PyObject *o) {
    (void)module;
    int dtype;
    if (dtype_argument(o, "set_default_dtype", &dtype)) return NULL;
    if (!cr_dtype_is_floating(dtype))
        return PyErr_Format(PyExc_TypeError,
                            "set_default_dtype(): only floating-point dtypes can be the default, not %s",
                            cr_dtype_name(dtype));
    cr_status status = cr_set_default_dtype(dtype);
    if (status) return cr_py_raise(status);
    Py_RETURN_NONE;
}

static PyObject *get_default_dtype(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    return cr_py_dtype_get(cr_default_dtype());
}

static PyObject *set_num_threads(PyObject *module, PyObject *o) {
    (void)module;
    int64_t n;
    if (cr_py_int64(o, "set_num_threads()", &n)) return NULL;
    if (n < 1 || n > 4096)
        return PyErr_Format(PyExc_RuntimeError, "set_num_threads() expects a positive number, not %lld", (long long)n);
    cr_status status = cr_set_num_threads((int)n);
    if (status) return cr_py_raise(status);
    Py_RETURN_NONE;
}

static PyObject *get_num_threads(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    return PyLong_FromLong(cr_num_threads());
}

static PyObject *promote_types(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *a, *b;
    int x, y;
    if (!PyArg_ParseTuple(args, "OO:promote_types", &a, &b) || dtype_argument(a, "promote_types", &x) ||
        dtype_argument(b, "promote_types", &y))
        return NULL;
    int both = cr_promote_types(x, y);
    if (both < 0)
        return PyErr_Format(PyExc_RuntimeError, "promotion of %s and %s is not supported", cr_dtype_name(x),
                            cr_dtype_name(y));
    return cr_py_dtype_get(both);
}

static PyObject *can_cast(PyObject *module, PyObject *args, PyObject *kwargs) {
    (void)module;
    static char *names[] = { "from_", "to", NULL };
    PyObject *a, *b;
    int x, y;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO:can_cast", names, &a, &b) || dtype_argument(a, "can_cast", &x) ||
        dtype_argument(b, "can_cast", &y))
        return NULL;
    return PyBool_FromLong(cr_can_cast(x, y));
}

static PyObject *result_type(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *operand[2];
    if (!PyArg_ParseTuple(args, "OO:result_type", &operand[0], &operand[1])) return NULL;
    cr_promotion p = CR_PROMOTION_INIT;
    cr_status status = CR_OK;
    cr_py_frame f;
    cr_py_frame_init(&f);
    for (int i = 0; i < 2 && !status; i++) {
        cr_arg a;
        int r = cr_py_convert(&f, operand[i], &a);
        if (r > 0 || (!r && a.kind != CR_ARG_TENSOR && !cr_arg_is_number(&a)))
            PyErr_Format(PyExc_TypeError, "result_type(): expected a Tensor or a number, not %s",
                         Py_TYPE(operand[i])->tp_name);
        if (PyErr_Occurred()) break;
        if (a.kind == CR_ARG_TENSOR) status = cr_promotion_add(&p, &a.u.t->meta);
        else cr_promotion_add_dtype(&p, cr_arg_number_dtype(&a), true);
    }
    int dtype = -1;
    if (!status && !PyErr_Occurred()) status = cr_promotion_result(&p, &dtype);
    cr_py_frame_dispose(&f);
    if (PyErr_Occurred()) return NULL;
    return status ? cr_py_raise(status) : cr_py_dtype_get(dtype);
}

static PyObject *is_tensor(PyObject *module, PyObject *o) {
    (void)module;
    return PyBool_FromLong(cr_py_is_tensor(o));
}

/* The method of the same name, as a function. */
#define FORWARD(name)                                                                                 \
    static PyObject *name(PyObject *module, PyObject *o) {                                            \
        (void)module;                                                                                 \
        if (!cr_py_is_tensor(o))                                                                      \
            return PyErr_Format(PyExc_TypeError, #name "(): argument 'input' must be Tensor, not %s", \
                                Py_TYPE(o)->tp_name);                                                 \
        return PyObject_CallMethod(o, #name, NULL);                                                   \
    }
FORWARD(is_floating_point)
FORWARD(is_complex)
FORWARD(is_conj)
FORWARD(is_neg)
FORWARD(numel)

static PyObject *is_grad_enabled(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    return PyBool_FromLong(cr_ambient_get()->grad);
}
static PyObject *is_inference_mode_enabled(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    return PyBool_FromLong(cr_ambient_get()->inference);
}

/* The setters return what was there before, so that a context manager needs one call each way. */
static PyObject *exchange(bool *flag, PyObject *value) {
    int yes = PyObject_IsTrue(value);
    if (yes < 0) return NULL;
    bool before = *flag;
    *flag = yes;
    return PyBool_FromLong(before);
}
static PyObject *set_grad(PyObject *module, PyObject *value) {
    (void)module;
    PyObject *before = exchange(&cr_ambient_get()->grad, value);
    if (before && cr_py_is_exporting() && cr_py_note_grad_mode(cr_ambient_get()->grad)) Py_CLEAR(before);
    return before;
}
static PyObject *set_inference(PyObject *module, PyObject *value) {
    (void)module;
    return exchange(&cr_ambient_get()->inference, value);
}

/* (enabled, dtype, cache enabled) */
static PyObject *get_autocast(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    const cr_autocast *a = &cr_ambient_get()->mode.autocast;
    return Py_BuildValue("(NNN)", PyBool_FromLong(a->enabled), cr_py_dtype_get(a->dtype),
                         PyBool_FromLong(!a->no_cache));
}
static PyObject *set_autocast(PyObject *module, PyObject *args) {
    (void)module;
    int enabled, cache, dtype;
    PyObject *o;
    if (!PyArg_ParseTuple(args, "pOp:_set_autocast", &enabled, &o, &cache) ||
        dtype_argument(o, "set_autocast_dtype", &dtype))
        return NULL;
    cr_ambient_get()->mode.autocast = (cr_autocast){ enabled, !cache, dtype };
    Py_RETURN_NONE;
}

static PyObject *dtype_aten_name(PyObject *module, PyObject *o) {
    (void)module;
    int dtype;
    if (dtype_argument(o, "_dtype_aten_name", &dtype)) return NULL;
    return PyUnicode_FromString(cr_dtype_aten(dtype));
}

/* For tests: the library's blocks that are alive, and the nth request from now made to fail (0: none). */
static PyObject *alloc_live(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    return PyLong_FromLongLong(cr_alloc_live());
}
static PyObject *alloc_fail_at(PyObject *module, PyObject *n) {
    (void)module;
    int64_t value;
    if (cr_py_int64(n, "_alloc_fail_at()", &value)) return NULL;
    cr_alloc_fail_at(value);
    return PyLong_FromLongLong(cr_alloc_count());
}

static PyMethodDef functions[] = {
    { "set_default_dtype", set_default_dtype, METH_O, "set_default_dtype(dtype): what floats become." },
    { "get_default_dtype", get_default_dtype, METH_NOARGS, NULL },
    { "set_num_threads", set_num_threads, METH_O, "set_num_threads(n): threads that one op may use." },
    { "get_num_threads", get_num_threads, METH_NOARGS, NULL },
    { "promote_types", promote_types, METH_VARARGS, "promote_types(a, b): the smallest dtype that holds both." },
    { "can_cast", (PyCFunction)(void (*)(void))can_cast, METH_VARARGS | METH_KEYWORDS,
      "can_cast(from_, to): may results of one dtype be stored in the other?" },
    { "result_type", result_type, METH_VARARGS, "result_type(a, b): the dtype that an operation on both has." },
    { "is_tensor", is_tensor, METH_O, NULL },
    { "is_floating_point", is_floating_point, METH_O, NULL },
    { "is_complex", is_complex, METH_O, NULL },
    { "is_conj", is_conj, METH_O, NULL },
    { "is_neg", is_neg, METH_O, NULL },
    { "numel", numel, METH_O, NULL },
    { "is_grad_enabled", is_grad_enabled, METH_NOARGS, NULL },
    { "is_inference_mode_enabled", is_inference_mode_enabled, METH_NOARGS, NULL },
    { "_set_grad_enabled", set_grad, METH_O, NULL },
    { "_set_inference_mode", set_inference, METH_O, NULL },
    { "_autocast", get_autocast, METH_NOARGS,
      "_autocast(): (enabled, dtype, cache enabled) of mixed precision on this thread." },
    { "_set_autocast", set_autocast, METH_VARARGS, "_set_autocast(enabled, dtype, cache)" },
    { "_alloc_live", alloc_live, METH_NOARGS, NULL },
    { "_alloc_fail_at", alloc_fail_at, METH_O, NULL },
    { "_dtype_aten_name", dtype_aten_name, METH_O, NULL },
    { NULL, NULL, 0, NULL },
};

int cr_py_state_init(PyObject *module) { return PyModule_AddFunctions(module, functions); }
