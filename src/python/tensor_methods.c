/* tensor_methods.c: the methods of a tensor that are not simply an op: questions about its meta, conversions to Python
 * objects, to() in its Python forms, copying and pickling. Written as C vectorcalls; a name here hides an op's. */
#include "python/autograd_type.h"
#include "python/tensor.h"

#include "trace/trace.h"

#define TENSOR(self) cr_py_tensor_of(self)
#define NOARGS(name) static PyObject *name(PyObject *self, PyObject *unused)
#define FAST(name) static PyObject *name(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)

/* Up to `max` arguments by position or name into out[]; missing ones stay NULL. */
static int arguments(const char *function, const char *const *names, int max, PyObject *const *args, Py_ssize_t nargs,
                     PyObject *kwnames, PyObject **out) {
    if (nargs > max) {
        PyErr_Format(PyExc_TypeError, "%s() takes at most %d arguments (%zd given)", function, max, nargs);
        return -1;
    }
    for (int i = 0; i < max; i++) out[i] = i < nargs ? args[i] : NULL;
    for (Py_ssize_t k = 0; kwnames && k < PyTuple_GET_SIZE(kwnames); k++) {
        PyObject *name = PyTuple_GET_ITEM(kwnames, k);
        int i = 0;
        while (i < max && PyUnicode_CompareWithASCIIString(name, names[i])) i++;
        if (i == max || out[i]) {
            PyErr_Format(PyExc_TypeError, "%s() got %s keyword argument '%U'", function,
                         i == max ? "an unexpected" : "a repeated", name);
            return -1;
        }
        out[i] = args[nargs + k];
    }
    return 0;
}

/* ---- the meta ---- */

/* size() and stride(): everything, or one dimension. */
static PyObject *dims(PyObject *self, const char *function, bool strides, PyObject *const *args, Py_ssize_t nargs,
                      PyObject *kwnames) {
    static const char *const names[] = { "dim" };
    PyObject *dim;
    if (arguments(function, names, 1, args, nargs, kwnames, &dim)) return NULL;
    const cr_tensor *t = TENSOR(self);
    const cr_dim *values = strides ? t->meta.stride : t->meta.size;
    bool dense = !strides || cr_meta_is_contiguous(t->env, &t->meta, CR_CONTIGUOUS) == CR_YES;
    cr_status assumed = cr_meta_assume_large(t->env, &t->meta, dense ? CR_YES : CR_UNKNOWN);
    if (assumed) return cr_py_raise(assumed);
    if (!dim || dim == Py_None) {
        PyObject *all = cr_py_size_new(t->env, t->meta.rank, values);
        if (!all || !strides) return all;
        PyObject *plain = PyTuple_GetSlice(all, 0, PyTuple_GET_SIZE(all)); /* strides are a plain tuple */
        Py_DECREF(all);
        return plain;
    }
    int64_t d;
    int wrapped;
    if (cr_py_int64(dim, function, &d)) return NULL;
    if (!t->meta.rank)
        return PyErr_Format(PyExc_IndexError, "%s(): dimension %lld of a 0-d tensor", function, (long long)d);
    cr_status status = cr_wrap_dim(d, t->meta.rank, &wrapped);
    return status ? cr_py_raise(status) : cr_py_dim(t->env, values[wrapped]);
}
FAST(size) { return dims(self, "size", false, args, nargs, kwnames); }
FAST(stride) { return dims(self, "stride", true, args, nargs, kwnames); }

NOARGS(dim) {
    (void)unused;
    return PyLong_FromLong(TENSOR(self)->meta.rank);
}
NOARGS(numel) {
    (void)unused;
    const cr_tensor *t = TENSOR(self);
    return cr_py_dim(t->env, cr_meta_numel(t->env, &t->meta));
}
NOARGS(element_size) {
    (void)unused;
    return PyLong_FromLongLong(rt_itemsize(TENSOR(self)->meta.dtype));
}
NOARGS(storage_offset) {
    (void)unused;
    return cr_py_dim(TENSOR(self)->env, TENSOR(self)->meta.offset);
}
NOARGS(data_ptr) {
    (void)unused;
    const cr_tensor *t = TENSOR(self);
    if (t->storage->fake) {
        PyErr_SetString(PyExc_RuntimeError, "data_ptr(): a fake tensor has no memory");
        return NULL;
    }
    if (!cr_py_numel(t)) return PyLong_FromLong(0);
    return PyLong_FromVoidPtr((char *)t->storage->data + t->meta.offset * rt_itemsize(t->meta.dtype));
}
NOARGS(is_floating_point) {
    (void)unused;
    return PyBool_FromLong(cr_dtype_is_floating(TENSOR(self)->meta.dtype));
}
NOARGS(is_complex) {
    (void)unused;
    return PyBool_FromLong(cr_dtype_is_complex(TENSOR(self)->meta.dtype));
}
NOARGS(is_signed) {
    (void)unused;
    int d = TENSOR(self)->meta.dtype;
    return PyBool_FromLong(!rt_is_unsigned(d) && d != CR_BOOL);
}
NOARGS(is_conj) {
    (void)unused;
    return PyBool_FromLong(TENSOR(self)->meta.flags & CR_META_CONJ);
}
NOARGS(is_neg) {
    (void)unused;
    return PyBool_FromLong(TENSOR(self)->meta.flags & CR_META_NEG);
}
NOARGS(is_inference) {
    (void)unused;
    return PyBool_FromLong(TENSOR(self)->inference);
}
NOARGS(get_device) {
    (void)unused;
    cr_device d = TENSOR(self)->meta.device;
    return PyLong_FromLong(d.type == CR_CPU ? -1 : CR_MAX(d.index, 0));
}
NOARGS(is_view) {
    (void)unused;
    cr_tensor *t = cr_py_tensor_of(self);
    if (cr_py_is_ahead(t) && cr_py_is_input_view(t)) Py_RETURN_TRUE;
    return PyBool_FromLong(TENSOR(self)->base != NULL);
}
NOARGS(untyped_storage) {
    (void)unused;
    return cr_py_storage_wrap(TENSOR(self)->storage);
}
NOARGS(is_fake) {
    (void)unused;
    return PyBool_FromLong(cr_tensor_is_fake(TENSOR(self)));
}
/* Equal numbers: the tensors share memory. */
NOARGS(storage_id) {
    (void)unused;
    return PyLong_FromUnsignedLongLong(TENSOR(self)->storage->id);
}
FAST(is_contiguous) {
    static const char *const names[] = { "memory_format" };
    PyObject *format;
    int value = CR_CONTIGUOUS;
    if (arguments("is_contiguous", names, 1, args, nargs, kwnames, &format)) return NULL;
    if (format && format != Py_None && !cr_py_format_read(format, &value))
        return PyErr_Format(PyExc_TypeError, "is_contiguous(): memory_format must be a memory format, not %s",
                            Py_TYPE(format)->tp_name);
    const cr_tensor *t = TENSOR(self);
    cr_tri known = cr_meta_is_contiguous(t->env, &t->meta, (cr_memory_format)value);
    cr_status status = cr_meta_assume_large(t->env, &t->meta, known);
    if (status) return cr_py_raise(status);
    return PyBool_FromLong(cr_meta_is_contiguous(t->env, &t->meta, (cr_memory_format)value) == CR_YES);
}
/* A tensor that is contiguous already is its own answer: no op, so that a recording has no node for it. */
FAST(contiguous) {
    static const char *const names[] = { "memory_format" };
    static const cr_op *op;
    PyObject *format;
    int value = CR_CONTIGUOUS;
    if (arguments("contiguous", names, 1, args, nargs, kwnames, &format)) return NULL;
    if (format && format != Py_None && !cr_py_format_read(format, &value))
        return PyErr_Format(PyExc_TypeError, "contiguous(): memory_format must be a memory format, not %s",
                            Py_TYPE(format)->tp_name);
    cr_tensor *t = TENSOR(self);
    if (value != CR_PRESERVE && cr_meta_is_contiguous(t->env, &t->meta, (cr_memory_format)value) == CR_YES)
        return Py_NewRef(self);
    if (!op && !(op = cr_op_find("aten::contiguous")))
        return PyErr_Format(PyExc_NotImplementedError, "there is no op 'aten::contiguous'");
    cr_py_frame f;
    cr_py_frame_init(&f);
    f.work = cr_py_numel(t);
    cr_arg a = cr_arg_tensor(t);
    cr_keyword k = { "memory_format", { .kind = CR_ARG_FORMAT, .given = CR_GIVEN_KEYWORD, .u.i = value } };
    cr_binding binding;
    cr_status status = cr_bind(op, true, &a, 1, &k, format ? 1 : 0, &f.arena, &binding);
    PyObject *result = status ? cr_py_raise(status) : cr_py_run(&f, op, binding.args, CR_PY_METHOD);
    cr_py_frame_dispose(&f);
    return result;
}
FAST(requires_grad_) {
    static const char *const names[] = { "requires_grad" };
    PyObject *yes;
    if (arguments("requires_grad_", names, 1, args, nargs, kwnames, &yes)) return NULL;
    if ((!yes || yes == Py_True) && !cr_autograd_is_leaf(TENSOR(self))) { /* it has a gradient already */
        cr_status status = cr_autograd_require(TENSOR(self), true);
        return status ? cr_py_raise(status) : Py_NewRef(self);
    }
    return PyObject_SetAttrString(self, "requires_grad", yes ? yes : Py_True) ? NULL : Py_NewRef(self);
}

/* ---- elements as Python objects ---- */

PyObject *cr_py_scalar(rt_scalar value, bool is_bool) {
    switch (value.kind) {
    case RT_ARG_FLOAT: return PyFloat_FromDouble(value.f);
    case RT_ARG_COMPLEX: return PyComplex_FromDoubles(value.f, value.im);
    default: return is_bool ? PyBool_FromLong(value.i != 0) : PyLong_FromLongLong(value.i);
    }
}

PyObject *cr_py_element(int dtype, const void *p) {
    switch (dtype) {
    case CR_F32: return PyFloat_FromDouble(*(const float *)p);
    case CR_F64: return PyFloat_FromDouble(*(const double *)p);
    case CR_I64: return PyLong_FromLongLong(*(const int64_t *)p);
    case CR_U64: return PyLong_FromUnsignedLongLong(*(const uint64_t *)p);
    case CR_BOOL: return PyBool_FromLong(*(const uint8_t *)p != 0);
    default: break;
    }
    if (cr_dtype_is_complex(dtype)) {
        double parts[2];
        rt_convert(CR_C128, parts, 1, dtype, p, 1, 1);
        return PyComplex_FromDoubles(parts[0], parts[1]);
    }
    if (cr_dtype_is_floating(dtype)) {
        double value;
        rt_convert(CR_F64, &value, 1, dtype, p, 1, 1);
        return PyFloat_FromDouble(value);
    }
    int64_t value;
    rt_convert(CR_I64, &value, 1, dtype, p, 1, 1);
    return PyLong_FromLongLong(value);
}

cr_status cr_py_item(cr_tensor *t, cr_arg *out) {
    static const cr_op *item;
    /* the op knows what to do with a value that is not there */
    if ((cr_tensor_is_fake(t) || cr_ambient_get()->mode.recorder) && !cr_py_is_settled(t)) {
        if (!item && !(item = cr_op_find("aten::item"))) return CR_FAIL(CR_ENOTIMPL, "there is no op 'aten::item'");
        cr_arg arg = cr_arg_tensor(t);
        if (t->meta.dtype == CR_U64 && cr_env_is_exact(t->env))
            return CR_FAIL(CR_EDATADEP, "item(): a number of 64 bits without a sign is no number of a graph");
        if (cr_trace_current() && cr_trace_known_item(cr_trace_current(), t, out)) return CR_OK;
        return cr_call(item, &arg, out);
    }
    int64_t n = cr_py_numel(t), index[CR_MAX_RANK] = { 0 };
    if (n != 1)
        return CR_FAIL(CR_ERUNTIME,
                       "a Tensor with %lld elements cannot be converted to a number; use .tolist() or reduce it first",
                       (long long)n);
    rt_scalar s;
    CR_TRY(cr_tensor_item(t, index, &s));
    if (s.kind == RT_ARG_COMPLEX) {
        double *parts = cr_alloc(2 * sizeof *parts);
        if (!parts) return CR_ENOMEM;
        parts[0] = s.f;
        parts[1] = s.im;
        *out = (cr_arg){ .kind = CR_ARG_COMPLEX, .given = CR_GIVEN_POSITIONAL, .u.c = parts };
    } else {
        *out = s.kind == RT_ARG_FLOAT     ? cr_arg_float(s.f)
               : t->meta.dtype == CR_BOOL ? cr_arg_bool(s.i)
                                          : cr_arg_int(s.i);
    }
    return CR_OK;
}

/* A real tensor whose memory can be read as it is: conjugation and negation that were put off are carried out. */
static cr_tensor *readable(cr_tensor *t, const char *function) {
    if (t->mapped) {
        PyErr_Format(PyExc_RuntimeError, "%s(): a tensor of a function under vmap stands for any of the examples, and "
                                         "has no elements of its own; return it from the function", function);
        return NULL;
    }
    if (cr_tensor_is_fake(t)) {
        PyErr_Format(cr_py_data_dependent_error, "%s(): a fake tensor has no elements", function);
        return NULL;
    }
    if (!(t->meta.flags & (CR_META_CONJ | CR_META_NEG))) {
        cr_tensor_retain(t);
        return t;
    }
    static const cr_op *resolve_conj, *resolve_neg;
    cr_arg a = cr_arg_tensor(t);
    cr_tensor *once = NULL, *twice = NULL;
    cr_status status = cr_py_call_tensor(&resolve_conj, "aten::resolve_conj", &a, 1, &once);
    if (!status) {
        a = cr_arg_tensor(once);
        status = cr_py_call_tensor(&resolve_neg, "aten::resolve_neg", &a, 1, &twice);
        cr_tensor_release(once);
    }
    if (status) cr_py_raise(status);
    return twice;
}

NOARGS(item) {
    (void)unused;
    cr_tensor *t = TENSOR(self);
    if (t->meta.dtype == CR_U64 && !cr_tensor_is_fake(t) && cr_py_numel(t) == 1)
        return cr_py_element(CR_U64, cr_tensor_view(t).p);
    cr_arg a;
    cr_status status = cr_py_item(t, &a);
    if (!status && a.kind == CR_ARG_INT && !t->env) return PyLong_FromLongLong(a.u.i); /* also one as low as a tag */
    return status ? cr_py_raise(status) : cr_py_from_arg_of(t->env, &a, false);
}

static PyObject *nested_list(const rt_view *v, int d, const char *p) {
    if (d == v->rank) return cr_py_element(v->dtype, p);
    PyObject *list = PyList_New((Py_ssize_t)v->size[d]);
    int64_t step = v->stride[d] * rt_itemsize(v->dtype);
    for (int64_t i = 0; list && i < v->size[d]; i++) {
        PyObject *item = nested_list(v, d + 1, p + i * step);
        if (!item) Py_CLEAR(list);
        else PyList_SET_ITEM(list, (Py_ssize_t)i, item);
    }
    return list;
}

/* Elements that are not there: numbers of the program, one by one. */
static PyObject *unknown_list(PyObject *self) {
    if (!TENSOR(self)->meta.rank) return item(self, NULL);
    PyObject *parts = PyObject_CallMethod(self, "unbind", NULL),
             *list = parts ? PyList_New(PySequence_Size(parts)) : NULL;
    for (Py_ssize_t i = 0; list && i < PyList_GET_SIZE(list); i++) {
        PyObject *part = PySequence_GetItem(parts, i), *inner = part ? unknown_list(part) : NULL;
        Py_XDECREF(part);
        if (inner) PyList_SET_ITEM(list, i, inner);
        else Py_CLEAR(list);
    }
    Py_XDECREF(parts);
    return list;
}

NOARGS(tolist) {
    (void)unused;
    if (cr_tensor_is_fake(TENSOR(self))) return unknown_list(self);
    cr_tensor *t = readable(TENSOR(self), "tolist");
    if (!t) return NULL;
    rt_view v = cr_tensor_view(t);
    PyObject *list = nested_list(&v, 0, v.p);
    cr_tensor_release(t);
    return list;
}

NOARGS(as_complex) {
    (void)unused;
    cr_tensor *t = TENSOR(self);
    if (!cr_tensor_is_fake(t) && cr_py_numel(t) != 1) {
        PyErr_SetString(PyExc_ValueError, "only one element tensors can be converted to Python scalars");
        return NULL;
    }
    cr_arg a;
    cr_status status = cr_py_item(t, &a);
    if (status) return cr_py_raise(status);
    if (a.kind == CR_ARG_SYM || (a.kind == CR_ARG_INT && !cr_dim_is_plain(a.u.i)))
        return cr_py_raise(CR_FAIL(CR_EDATADEP, "complex(): the value of a fake tensor is not known before the program "
                                                "runs"));
    Py_complex c = { a.kind == CR_ARG_FLOAT     ? a.u.f
                     : a.kind == CR_ARG_COMPLEX ? a.u.c[0]
                                                : (double)a.u.i,
                     a.kind == CR_ARG_COMPLEX ? a.u.c[1] : 0 };
    cr_results_release(&a, 1);
    return PyComplex_FromCComplex(c);
}

/* A 0-d tensor formats as its number: f"{loss:.3f}". */
static PyObject *format(PyObject *self, PyObject *spec) {
    cr_tensor *t = TENSOR(self);
    if (t->meta.rank || cr_tensor_is_fake(t)) {
        PyObject *base = PyObject_GetAttrString((PyObject *)&PyBaseObject_Type, "__format__");
        PyObject *text = base ? PyObject_CallFunctionObjArgs(base, self, spec, NULL) : NULL;
        Py_XDECREF(base);
        return text;
    }
    PyObject *number = item(self, NULL), *text = number ? PyObject_Format(number, spec) : NULL;
    Py_XDECREF(number);
    return text;
}

/* A function of a Python module as a method. */
static PyObject *function_of(const char *from, const char *name, PyObject *self, PyObject *const *args,
                             Py_ssize_t nargs, PyObject *kwnames) {
    PyObject *module = PyImport_ImportModule(from),
             *f = module ? PyObject_GetAttrString(module, name) : NULL;
    Py_XDECREF(module);
    if (!f) return NULL;
    Py_ssize_t nkw = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
    PyObject **all = PyMem_New(PyObject *, nargs + nkw + 1), *result = NULL;
    if (!all) PyErr_NoMemory();
    else {
        all[0] = self;
        for (Py_ssize_t i = 0; i < nargs + nkw; i++) all[i + 1] = args[i];
        result = PyObject_Vectorcall(f, all, (size_t)nargs + 1, kwnames);
    }
    PyMem_Free(all);
    Py_DECREF(f);
    return result;
}
/* Methods whose Python form differs from the op's schema: they are functions of cresset.functional. */
static PyObject *functional(const char *name, PyObject *self, PyObject *const *args, Py_ssize_t nargs,
                            PyObject *kwnames) {
    return function_of("cresset.functional", name, self, args, nargs, kwnames);
}
FAST(method_backward) { return function_of("cresset.autograd", "_backward_method", self, args, nargs, kwnames); }
FAST(method_norm) { return functional("norm", self, args, nargs, kwnames); }
FAST(method_unique) { return functional("unique", self, args, nargs, kwnames); }
FAST(method_unique_consecutive) { return functional("unique_consecutive", self, args, nargs, kwnames); }
FAST(method_split) { return functional("_split_method", self, args, nargs, kwnames); }
FAST(method_nonzero) { return functional("nonzero", self, args, nargs, kwnames); }
FAST(method_stft) { return functional("stft", self, args, nargs, kwnames); }

/* ---- NumPy ---- */

static PyObject *numpy_array(PyObject *self, const char *function) {
    const cr_tensor *t = TENSOR(self);
    if (t->meta.flags & CR_META_REQUIRES_GRAD)
        return PyErr_Format(PyExc_RuntimeError, "%s() on a tensor that requires grad; use .detach() first", function);
    if (t->meta.flags & CR_META_CONJ)
        return PyErr_Format(PyExc_RuntimeError, "%s() on a conjugated tensor; use .resolve_conj() first", function);
    if (t->meta.flags & CR_META_NEG)
        return PyErr_Format(PyExc_RuntimeError, "%s() on a negated tensor; use .resolve_neg() first", function);
    PyObject *view = PyMemoryView_FromObject(self), *numpy = view ? PyImport_ImportModule("numpy") : NULL;
    PyObject *array = numpy ? PyObject_CallMethod(numpy, "asarray", "O", view) : NULL;
    Py_XDECREF(numpy);
    Py_XDECREF(view);
    return array;
}

FAST(numpy) {
    static const char *const names[] = { "force" };
    PyObject *force;
    if (arguments("numpy", names, 1, args, nargs, kwnames, &force)) return NULL;
    int forced = force ? PyObject_IsTrue(force) : 0;
    if (forced < 0) return NULL;
    if (!forced) return numpy_array(self, "numpy");
    static const cr_op *detach;
    cr_tensor *t = readable(TENSOR(self), "numpy"), *plain = NULL;
    if (!t) return NULL;
    cr_arg a = cr_arg_tensor(t);
    cr_status status = cr_py_call_tensor(&detach, "aten::detach", &a, 1, &plain);
    cr_tensor_release(t);
    PyObject *o = status ? cr_py_raise(status) : cr_py_wrap(plain), *array = o ? numpy_array(o, "numpy") : NULL;
    Py_XDECREF(o);
    return array;
}

/* What NumPy's functions give of a tensor becomes one again. */
FAST(array_wrap) {
    static const char *const names[] = { "array", "context", "return_scalar" };
    PyObject *given[3];
    (void)self;
    if (arguments("__array_wrap__", names, 3, args, nargs, kwnames, given)) return NULL;
    if (!given[0] || !cr_py_is_ndarray(given[0]))
        return PyErr_Format(PyExc_TypeError, "__array_wrap__(): expected np.ndarray");
    cr_tensor *t = cr_py_buffer_import(given[0]);
    return t ? cr_py_wrap(t) : NULL;
}

FAST(array) {
    static const char *const names[] = { "dtype", "copy" };
    PyObject *given[2];
    if (arguments("__array__", names, 2, args, nargs, kwnames, given)) return NULL;
    PyObject *a = numpy_array(self, "__array__");
    if (!a) return NULL;
    bool copy = given[1] && given[1] == Py_True;
    PyObject *result = NULL;
    if (given[0] && given[0] != Py_None) {
        PyObject *kwargs = Py_BuildValue("{s:O}", "copy", copy ? Py_True : Py_False), *one = PyTuple_Pack(1, given[0]);
        PyObject *astype = PyObject_GetAttrString(a, "astype");
        if (kwargs && one && astype) result = PyObject_Call(astype, one, kwargs);
        Py_XDECREF(kwargs);
        Py_XDECREF(one);
        Py_XDECREF(astype);
    } else {
        result = copy ? PyObject_CallMethod(a, "copy", NULL) : Py_NewRef(a);
    }
    Py_DECREF(a);
    return result;
}

/* ---- to() and its short forms ---- */

static PyObject *to_dtype(PyObject *self, int dtype) {
    static const cr_op *op;
    cr_arg a[] = { cr_arg_tensor(TENSOR(self)), cr_arg_dtype(dtype) };
    return cr_py_call(&op, "aten::to.dtype", a, 2);
}

#define SHORT(name, dtype)                                                                                             \
    NOARGS(name) {                                                                                                     \
        (void)unused;                                                                                                  \
        return to_dtype(self, dtype);                                                                                  \
    }
SHORT(to_float, CR_F32)
SHORT(to_double, CR_F64)
SHORT(to_half, CR_F16)
SHORT(to_bfloat16, CR_BF16)
SHORT(to_long, CR_I64)
SHORT(to_int, CR_I32)
SHORT(to_short, CR_I16)
SHORT(to_char, CR_I8)
SHORT(to_byte, CR_U8)
SHORT(to_bool, CR_BOOL)
SHORT(to_cfloat, CR_C64)
SHORT(to_cdouble, CR_C128)
SHORT(to_chalf, CR_C32)

typedef struct to_request {
    cr_arg device, dtype, other, format;
    bool non_blocking, copy;
} to_request;

static PyObject *to_run(cr_tensor *t, const to_request *r) {
    static const cr_op *op_device, *op_dtype, *op_other, *op_layout;
    cr_arg self = cr_arg_tensor(t), nb = cr_arg_bool(r->non_blocking), copy = cr_arg_bool(r->copy);
    if (r->other.kind) {
        cr_arg a[] = { self, r->other, nb, copy, r->format };
        return cr_py_call(&op_other, "aten::to.other", a, 5);
    }
    if (r->device.kind && r->dtype.kind) {
        cr_arg a[] = { self, r->device, r->dtype, nb, copy, r->format };
        return cr_py_call(&op_device, "aten::to.device", a, 6);
    }
    if (r->dtype.kind) {
        cr_arg a[] = { self, r->dtype, nb, copy, r->format };
        return cr_py_call(&op_dtype, "aten::to.dtype", a, 5);
    }
    if (!r->device.kind && !r->copy && !r->format.kind) {
        cr_tensor_retain(t);
        return cr_py_wrap(t);
    }
    if (!op_layout && !(op_layout = cr_op_find("aten::to.dtype_layout"))) {
        PyErr_SetString(PyExc_NotImplementedError, "there is no op 'aten::to.dtype_layout'");
        return NULL;
    }
    cr_py_frame f;
    cr_py_frame_init(&f);
    f.work = cr_py_numel(t);
    cr_binding binding;
    cr_keyword keywords[] = {
        { "device", r->device }, { "non_blocking", nb }, { "copy", copy }, { "memory_format", r->format }
    };
    cr_status status = cr_bind(op_layout, true, &self, 1, keywords, 4, &f.arena, &binding);
    PyObject *result = status ? cr_py_raise(status) : cr_py_run(&f, op_layout, binding.args, CR_PY_METHOD);
    cr_py_frame_dispose(&f);
    return result;
}

/* to(dtype), to(device, dtype), to(other), each with non_blocking, copy and memory_format; any of them by name. */
FAST(to) {
    to_request r = { 0 };
    cr_py_frame f; /* texts and numbers are all it could hold, so it needs no dispose */
    cr_py_frame_init(&f);
    int flags = 0;
    Py_ssize_t nkw = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
    for (Py_ssize_t i = 0; i < nargs + nkw; i++) {
        PyObject *o = args[i];
        const char *name = i < nargs ? NULL : PyUnicode_AsUTF8(PyTuple_GET_ITEM(kwnames, i - nargs));
        cr_arg a;
        int kind = cr_py_convert(&f, o, &a);
        if (kind < 0) return NULL;
        if (kind > 0) goto refuse;
        if (a.kind == CR_ARG_STR) {
            cr_status status = cr_device_parse(a.u.s, &a.u.device);
            if (status) return cr_py_raise(status);
            a.kind = CR_ARG_DEVICE;
        }
        if (!a.kind) {
            if (!name && i == 0) flags = 0; /* to(None, dtype): no device */
            continue;
        }
        cr_arg *slot = NULL;
        if (name ? !strcmp(name, "device") : a.kind == CR_ARG_DEVICE && i == 0) slot = &r.device;
        else if (name ? !strcmp(name, "dtype") : a.kind == CR_ARG_DTYPE && i <= 1) slot = &r.dtype;
        else if (name ? !strcmp(name, "other") : a.kind == CR_ARG_TENSOR && i == 0) slot = &r.other;
        else if (name && !strcmp(name, "memory_format")) slot = &r.format;
        if (slot) {
            static const uint8_t kinds[] = { CR_ARG_DEVICE, CR_ARG_DTYPE, CR_ARG_TENSOR, CR_ARG_FORMAT };
            if (slot->kind || a.kind != kinds[slot == &r.device ? 0 : slot == &r.dtype ? 1 : slot == &r.other ? 2 : 3])
                goto refuse;
            *slot = a;
        } else if (a.kind == CR_ARG_BOOL &&
                   (name ? !strcmp(name, "non_blocking") || !strcmp(name, "copy") : i > 0 && flags < 2)) {
            bool is_copy = name ? !strcmp(name, "copy") : flags == 1;
            if (is_copy) r.copy = a.u.i;
            else r.non_blocking = a.u.i;
            flags++;
        } else {
            goto refuse;
        }
        continue;
    refuse:
        return PyErr_Format(PyExc_TypeError,
                            "to(): argument %s%zd is a %s and does not fit; the forms are to(dtype), to(device, dtype) "
                            "and to(other), each with non_blocking, copy and memory_format",
                            name ? name : "", i + 1, Py_TYPE(o)->tp_name);
    }
    return to_run(TENSOR(self), &r);
}

FAST(cpu) {
    static const char *const names[] = { "memory_format" };
    PyObject *format;
    int value;
    if (arguments("cpu", names, 1, args, nargs, kwnames, &format)) return NULL;
    if (TENSOR(self)->meta.device.type == CR_CPU && (!format || format == Py_None)) return Py_NewRef(self);
    to_request r = { .device = { .kind = CR_ARG_DEVICE, .given = CR_GIVEN_POSITIONAL, .u.device = { CR_CPU, -1 } } };
    if (format && format != Py_None) {
        if (!cr_py_format_read(format, &value))
            return PyErr_Format(PyExc_TypeError, "cpu(): memory_format must be a memory format, not %s",
                                Py_TYPE(format)->tp_name);
        r.format = (cr_arg){ .kind = CR_ARG_FORMAT, .given = CR_GIVEN_KEYWORD, .u.i = value };
    }
    return to_run(TENSOR(self), &r);
}

/* type() is the old-style name; type(dtype or name) converts. */
FAST(type) {
    static const char *const names[] = { "dtype", "non_blocking" };
    PyObject *given[2];
    if (arguments("type", names, 2, args, nargs, kwnames, given)) return NULL;
    const cr_meta *m = &TENSOR(self)->meta;
    if (!given[0] || given[0] == Py_None) return PyUnicode_FromFormat("cresset.%sTensor", cr_dtype_aten(m->dtype));
    cr_py_frame f; /* a text is all it could hold, so it needs no dispose */
    cr_py_frame_init(&f);
    cr_arg a;
    int kind = cr_py_convert(&f, given[0], &a);
    if (kind < 0) return NULL;
    if (!kind && a.kind == CR_ARG_DTYPE) return to_dtype(self, (int)a.u.i);
    const char *text = PyUnicode_Check(given[0]) ? PyUnicode_AsUTF8(given[0]) : NULL, *last = text;
    if (text && !strncmp(text, "torch.", 6)) last = text + 6;
    if (text && !strncmp(text, "cresset.", 8)) last = text + 8;
    size_t n = last ? strlen(last) : 0;
    for (int d = 0; n > 6 && d < CR_DTYPE_COUNT; d++) {
        const char *aten = cr_dtype_aten(d);
        if (strlen(aten) == n - 6 && !strncmp(aten, last, n - 6) && !strcmp(last + n - 6, "Tensor"))
            return to_dtype(self, d);
    }
    if (PyErr_Occurred()) return NULL;
    return PyErr_Format(text ? PyExc_ValueError : PyExc_TypeError,
                        "type(): expected a dtype or a name such as 'FloatTensor', got %R", given[0]);
}

/* ---- making tensors like this one ---- */

FAST(new_tensor) {
    static const char *const names[] = { "data", "dtype", "device", "requires_grad" };
    PyObject *given[4];
    if (arguments("new_tensor", names, 4, args, nargs, kwnames, given)) return NULL;
    if (!given[0]) {
        PyErr_SetString(PyExc_TypeError, "new_tensor() needs data");
        return NULL;
    }
    int dtype = TENSOR(self)->meta.dtype;
    if (given[1] && given[1] != Py_None && !cr_py_dtype_read(given[1], &dtype))
        return PyErr_Format(PyExc_TypeError, "new_tensor(): dtype must be a dtype, not %s", Py_TYPE(given[1])->tp_name);
    cr_tensor *t = cr_py_data_tensor(given[0], dtype);
    PyObject *o = t ? cr_py_wrap(t) : NULL;
    if (o && given[3] && PyObject_SetAttrString(o, "requires_grad", given[3])) Py_CLEAR(o);
    return o;
}

/* Tensor._make_subclass(cls, data, require_grad=False): the same elements as an object of a subclass. */
static PyObject *make_subclass(PyObject *unused, PyObject *args) {
    (void)unused;
    PyTypeObject *type;
    PyObject *data;
    int require_grad = 0;
    if (!PyArg_ParseTuple(args, "O!O!|p", &PyType_Type, &type, cr_py_tensor_type, &data, &require_grad)) return NULL;
    if (!PyType_IsSubtype(type, cr_py_tensor_type))
        return PyErr_Format(PyExc_TypeError, "_make_subclass: %s is no subclass of Tensor", type->tp_name);
    static const cr_op *detach;
    cr_arg a = cr_arg_tensor(cr_py_tensor_of(data));
    cr_tensor *t = NULL;
    cr_status status = cr_py_call_tensor(&detach, "aten::detach", &a, 1, &t);
    if (status) return cr_py_raise(status);
    PyObject *o = cr_py_wrap_as(type, t);
    if (o && require_grad && PyObject_SetAttrString(o, "requires_grad", Py_True)) Py_CLEAR(o);
    return o;
}

/* ---- copying and pickling: by the storage, so that strides and shared memory survive. A subclass comes back as a
 * Tensor. ---- */

static PyObject *ints(const cr_dim *values, int n) {
    PyObject *t = PyTuple_New(n);
    for (int i = 0; t && i < n; i++) {
        PyObject *v = PyLong_FromLongLong(values[i]);
        if (!v) Py_CLEAR(t);
        else PyTuple_SET_ITEM(t, i, v);
    }
    return t;
}

NOARGS(reduce) {
    (void)unused;
    cr_tensor *t = readable(TENSOR(self), "pickle");
    if (!t) return NULL;
    const cr_meta *m = &t->meta;
    PyObject *module = PyImport_ImportModule("cresset._C"),
             *rebuild = module ? PyObject_GetAttrString(module, "_rebuild_tensor") : NULL;
    Py_XDECREF(module);
    bool grad = TENSOR(self)->meta.flags & CR_META_REQUIRES_GRAD;
    PyObject *storage = rebuild ? cr_py_storage_wrap(t->storage) : NULL, *result = NULL;
    PyObject *dict = ((cr_py_tensor *)self)->dict; /* attributes that somebody has set */
    if (storage)
        result = Py_BuildValue("O(sOLNNO)O", rebuild, cr_dtype_name(m->dtype), storage, (long long)m->offset,
                               ints(m->size, m->rank), ints(m->stride, m->rank), grad ? Py_True : Py_False,
                               dict && PyDict_Size(dict) > 0 ? dict : Py_None);
    Py_XDECREF(storage);
    Py_XDECREF(rebuild);
    cr_tensor_release(t);
    return result;
}

static PyObject *copy_deep(PyObject *o, PyObject *memo) {
    PyObject *module = PyImport_ImportModule("copy"),
             *made = module ? PyObject_CallMethod(module, "deepcopy", "OO", o, memo) : NULL;
    Py_XDECREF(module);
    return made;
}

/* A copy of the storage, made once per deepcopy: `memo` maps the old storage to a tensor on the new one. */
static PyObject *deepcopy(PyObject *self, PyObject *memo) {
    cr_tensor *t = TENSOR(self);
    if (cr_tensor_is_fake(t)) {
        PyErr_SetString(PyExc_RuntimeError, "deepcopy: a fake tensor has no elements");
        return NULL;
    }
    if (!cr_autograd_is_leaf(t)) {
        PyErr_SetString(PyExc_RuntimeError, "Only Tensors created explicitly by the user (graph leaves) support the "
                                            "deepcopy protocol: "
                                            "this one was computed; deepcopy its detach(), or clone() it to keep its "
                                            "history");
        return NULL;
    }
    PyObject *self_key = PyLong_FromVoidPtr(self), *key = PyLong_FromVoidPtr(t->storage), *holder = NULL, *copy = NULL;
    cr_tensor *made = NULL;
    cr_storage *storage = NULL;
    cr_status status = CR_OK;
    if (!self_key || !key) goto out;
    copy = Py_XNewRef(PyDict_Check(memo) ? PyDict_GetItemWithError(memo, self_key) : NULL);
    if (copy || PyErr_Occurred()) goto out;
    holder = Py_XNewRef(PyDict_Check(memo) ? PyDict_GetItemWithError(memo, key) : NULL);
    if (PyErr_Occurred()) goto out;
    if (holder && cr_py_is_tensor(holder)) {
        storage = cr_py_tensor_of(holder)->storage;
        cr_storage_retain(storage);
    } else {
        status = cr_storage_create(t->storage->bytes, &storage);
        if (!status && t->storage->bytes) memcpy(storage->data, t->storage->data, (size_t)t->storage->bytes);
    }
    if (!status) status = cr_tensor_on(storage, &t->meta, NULL, NULL, &made);
    cr_storage_release(storage);
    if (status) {
        cr_py_raise(status);
        goto out;
    }
    copy = cr_py_wrap_as(Py_TYPE(self), made);
    PyObject *dict = ((cr_py_tensor *)self)->dict;
    if (copy && dict) {
        PyObject *attributes = copy_deep(dict, memo);
        if (!attributes) Py_CLEAR(copy);
        else Py_XSETREF(((cr_py_tensor *)copy)->dict, attributes);
    }
    if (copy && cr_autograd_grad(t)) {
        cr_tensor_retain(cr_autograd_grad(t));
        PyObject *grad = cr_py_wrap(cr_autograd_grad(t)), *grad_copy = grad ? copy_deep(grad, memo) : NULL;
        if (!grad_copy || PyObject_SetAttrString(copy, "grad", grad_copy)) Py_CLEAR(copy);
        Py_XDECREF(grad);
        Py_XDECREF(grad_copy);
    }
    if (copy && PyDict_Check(memo) &&
        (PyDict_SetItem(memo, self_key, copy) || (!holder && PyDict_SetItem(memo, key, copy))))
        Py_CLEAR(copy);
out:
    Py_XDECREF(self_key);
    Py_XDECREF(key);
    Py_XDECREF(holder);
    return copy;
}

NOARGS(shallow_copy) {
    (void)unused;
    cr_tensor *t = TENSOR(self), *made = NULL;
    cr_status status = cr_tensor_on(t->storage, &t->meta, t->base, t->env, &made);
    return status ? cr_py_raise(status) : cr_py_wrap_as(Py_TYPE(self), made);
}

#define FASTCALL(f) (PyCFunction)(void (*)(void))f, METH_FASTCALL | METH_KEYWORDS
PyMethodDef cr_py_tensor_methods[] = {
    { "size", FASTCALL(size), "size(dim=None): one size, or all of them as a Size." },
    { "stride", FASTCALL(stride), "stride(dim=None): steps in elements." },
    { "dim", dim, METH_NOARGS, "The number of dimensions." },
    { "ndimension", dim, METH_NOARGS, "The number of dimensions." },
    { "numel", numel, METH_NOARGS, "The number of elements." },
    { "nelement", numel, METH_NOARGS, "The number of elements." },
    { "element_size", element_size, METH_NOARGS, "Bytes of one element." },
    { "storage_offset", storage_offset, METH_NOARGS, "Elements before the first one in the storage." },
    { "data_ptr", data_ptr, METH_NOARGS, "The address of the first element; 0 without elements." },
    { "is_contiguous", FASTCALL(is_contiguous), "is_contiguous(memory_format=contiguous_format)" },
    { "contiguous", FASTCALL(contiguous),
      "contiguous(memory_format=contiguous_format): the tensor itself, or a copy laid out so" },
    { "is_floating_point", is_floating_point, METH_NOARGS, NULL },
    { "is_complex", is_complex, METH_NOARGS, NULL },
    { "is_signed", is_signed, METH_NOARGS, NULL },
    { "is_conj", is_conj, METH_NOARGS, NULL },
    { "is_neg", is_neg, METH_NOARGS, NULL },
    { "is_inference", is_inference, METH_NOARGS, NULL },
    { "get_device", get_device, METH_NOARGS, "The device's number, -1 for the CPU." },
    { "_is_view", is_view, METH_NOARGS, NULL },
    { "untyped_storage", untyped_storage, METH_NOARGS, "The memory behind the tensor." },
    { "_is_fake", is_fake, METH_NOARGS, "Has it sizes but no memory?" },
    { "_storage_id", storage_id, METH_NOARGS, "Equal for tensors that share memory." },
    { "backward", FASTCALL(method_backward),
      "backward(gradient=None, retain_graph=None, create_graph=False, inputs=None): adds to the .grad of leaves." },
    { "register_hook", cr_py_register_hook, METH_O,
      "register_hook(hook): hook(grad) sees, and may replace, the gradient in every backward()." },
    { "register_post_accumulate_grad_hook", cr_py_register_hook_after, METH_O,
      "register_post_accumulate_grad_hook(hook): hook(tensor) runs when the .grad of a leaf was added to." },
    { "retain_grad", cr_py_retain_grad, METH_NOARGS, "retain_grad(): a result keeps its .grad, too." },
    { "requires_grad_", FASTCALL(requires_grad_),
      "requires_grad_(requires_grad=True): sets the flag, returns the tensor." },
    { "item", item, METH_NOARGS, "The only element as a Python number." },
    { "tolist", tolist, METH_NOARGS, "The elements as nested lists of Python numbers." },
    { "__format__", format, METH_O, NULL },
    { "norm", FASTCALL(method_norm), "norm(p='fro', dim=None, keepdim=False, dtype=None)" },
    { "unique", FASTCALL(method_unique), "unique(sorted=True, return_inverse=False, return_counts=False, dim=None)" },
    { "unique_consecutive", FASTCALL(method_unique_consecutive),
      "unique_consecutive(return_inverse=False, return_counts=False, dim=None)" },
    { "split", FASTCALL(method_split), "split(split_size, dim=0): parts of one size, or of the sizes in a list" },
    { "nonzero", FASTCALL(method_nonzero), "nonzero(*, as_tuple=False)" },
    { "stft", FASTCALL(method_stft),
      "stft(n_fft, hop_length=None, win_length=None, window=None, center=True, pad_mode='reflect', ...)" },
    { "numpy", FASTCALL(numpy), "numpy(*, force=False): a NumPy array on the same memory." },
    { "__array__", FASTCALL(array), NULL },
    { "__array_wrap__", FASTCALL(array_wrap), NULL },
    { "__complex__", as_complex, METH_NOARGS, NULL },
    { "__dlpack__", FASTCALL(cr_py_tensor_dlpack), "A DLPack capsule on the same memory." },
    { "__dlpack_device__", cr_py_tensor_dlpack_device, METH_NOARGS, NULL },
    { "to", FASTCALL(to), "to(dtype) / to(device, dtype) / to(other), with non_blocking, copy, memory_format" },
    { "cpu", FASTCALL(cpu), "cpu(memory_format=preserve_format)" },
    { "type", FASTCALL(type), "type(): the old-style type name; type(dtype): converted" },
    { "float", to_float, METH_NOARGS, NULL },
    { "double", to_double, METH_NOARGS, NULL },
    { "half", to_half, METH_NOARGS, NULL },
    { "bfloat16", to_bfloat16, METH_NOARGS, NULL },
    { "long", to_long, METH_NOARGS, NULL },
    { "int", to_int, METH_NOARGS, NULL },
    { "short", to_short, METH_NOARGS, NULL },
    { "char", to_char, METH_NOARGS, NULL },
    { "byte", to_byte, METH_NOARGS, NULL },
    { "bool", to_bool, METH_NOARGS, NULL },
    { "cfloat", to_cfloat, METH_NOARGS, NULL },
    { "cdouble", to_cdouble, METH_NOARGS, NULL },
    { "chalf", to_chalf, METH_NOARGS, NULL },
    { "new_tensor", FASTCALL(new_tensor), "new_tensor(data, dtype=None, device=None, requires_grad=False)" },
    { "_make_subclass", make_subclass, METH_VARARGS | METH_STATIC, NULL },
    { "__reduce_ex__", reduce, METH_O, NULL },
    { "__deepcopy__", deepcopy, METH_O, NULL },
    { "__copy__", shallow_copy, METH_NOARGS, NULL },
    { NULL, NULL, 0, NULL },
};
