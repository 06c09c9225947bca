/* index.c: Python's x[...] as a list of index items; the lowering itself is src/ops/indexing.c.
 *
 * Lists, ranges and NumPy arrays become tensors. A list that holds slices, None, Ellipsis, sequences or tensors is read
 * as if it were a tuple, with the warning that PyTorch gives. */
#include "python/tensor.h"

#include "ops/indexing.h"

typedef struct index_list {
    cr_index items[CR_MAX_INDEX];
    cr_tensor *made[CR_MAX_INDEX]; /* tensors that conversion made, released at the end */
    size_t n, nmade;
} index_list;

static void dispose(index_list *list) {
    for (size_t i = 0; i < list->nmade; i++) cr_tensor_release(list->made[i]);
}

/* Numbers below the limit are symbols; no tensor is that long. */
static cr_dim slice_end(Py_ssize_t at) { return at < CR_DIM_TAG_LIMIT ? CR_DIM_TAG_LIMIT : at; }

static int add_made(index_list *list, cr_tensor *t) {
    if (!t) return -1;
    list->made[list->nmade++] = t;
    list->items[list->n++] = cr_index_tensor(cr_arg_tensor(t));
    return 0;
}

/* A tensor whose element is a number of the program that is being recorded. */
static bool is_unknown(PyObject *o) {
    return cr_py_is_tensor(o) && (cr_tensor_is_fake(cr_py_tensor_of(o)) || cr_ambient_get()->mode.recorder);
}

/* A part of a slice that may be symbolic. */
static int slice_part(PyObject *o, cr_dim absent, cr_dim *out) {
    cr_arg symbolic;
    Py_ssize_t start, stop, step;
    if (o == Py_None) return *out = absent, 0;
    if (cr_py_sym_read(o, &symbolic) && symbolic.kind == CR_ARG_INT) return *out = symbolic.u.i, 0;
    if (is_unknown(o)) {
        cr_status status = cr_py_item(cr_py_tensor_of(o), &symbolic);
        if (status) return cr_py_fail(status);
        if (symbolic.kind == CR_ARG_INT) return *out = symbolic.u.i, 0;
        PyErr_Format(PyExc_TypeError, "a part of a slice must be an integer; this tensor has another dtype");
        return -1;
    }
    PyObject *alone = PySlice_New(o, NULL, NULL); /* the same conversion as for a slice of plain numbers */
    int r = alone ? PySlice_Unpack(alone, &start, &stop, &step) : -1;
    Py_XDECREF(alone);
    *out = r ? 0 : slice_end(start);
    return r;
}

static int add_slice(cr_index *item, PyObject *o) {
    const PySliceObject *s = (PySliceObject *)o;
    Py_ssize_t start, stop, step;
    cr_arg unused;
    cr_dim from, to, by;
    if (cr_py_sym_read(s->start, &unused) || cr_py_sym_read(s->stop, &unused) || cr_py_sym_read(s->step, &unused) ||
        is_unknown(s->start) || is_unknown(s->stop) || is_unknown(s->step)) {
        if (slice_part(s->start, 0, &from) || slice_part(s->stop, INT64_MAX, &to) || slice_part(s->step, 1, &by))
            return -1;
        *item = cr_index_slice(from, to, by);
        return 0;
    }
    if (PySlice_Unpack(o, &start, &stop, &step)) return -1;
    if (step <= 0) {
        PyErr_SetString(PyExc_ValueError, "the step of a slice must be greater than zero; use flip() for a reversed "
                                          "tensor");
        return -1;
    }
    *item = cr_index_slice(slice_end(start), slice_end(stop), step);
    return 0;
}

static int add_item(index_list *list, PyObject *o) {
    cr_arg symbolic;
    if (list->n == CR_MAX_INDEX) {
        PyErr_Format(PyExc_IndexError, "too many indices: at most %d are supported", CR_MAX_INDEX);
        return -1;
    }
    cr_index *item = &list->items[list->n];
    if (PyLong_CheckExact(o)) {
        int64_t at;
        if (cr_py_int64(o, "index", &at)) {
            if (PyErr_ExceptionMatches(PyExc_OverflowError))
                PyErr_Format(PyExc_ValueError, "the index %R does not fit in 64 bits", o);
            return -1;
        }
        if (!cr_dim_is_plain(at)) {
            PyErr_Format(PyExc_IndexError, "index %R is out of bounds", o);
            return -1;
        }
        *item = cr_index_int(at);
    } else if (PySlice_Check(o)) {
        if (add_slice(item, o)) return -1;
    } else if (cr_py_sym_read(o, &symbolic) && symbolic.kind == CR_ARG_INT) {
        *item = cr_index_int(symbolic.u.i);
    } else if (o == Py_None) {
        *item = cr_index_newaxis();
    } else if (o == Py_Ellipsis) {
        *item = cr_index_ellipsis();
    } else if (PyBool_Check(o)) {
        *item = cr_index_bool(o == Py_True);
    } else if (cr_py_is_tensor(o)) {
        *item = cr_index_tensor(cr_arg_tensor(cr_py_tensor_of(o)));
    } else if (cr_py_is_ndarray(o) || (PySequence_Check(o) && !PyUnicode_Check(o) && !PyBytes_Check(o))) {
        bool empty = !cr_py_is_ndarray(o) && PySequence_Size(o) == 0; /* x[[]]: no element says that these are ints */
        return add_made(list, cr_py_data_tensor(o, empty ? CR_I64 : -1));
    } else if (PyIndex_Check(o)) {
        PyObject *number = PyNumber_Index(o);
        int r = number ? add_item(list, number) : -1;
        Py_XDECREF(number);
        return r;
    } else {
        PyErr_Format(PyUnicode_Check(o) ? PyExc_TypeError : PyExc_IndexError,
                     "a tensor can be indexed with ints, slices, None, ..., bools and integer or bool tensors and "
                     "sequences, not with a %s",
                     Py_TYPE(o)->tp_name);
        return -1;
    }
    list->n++;
    return 0;
}

static bool holds_indices(PyObject *list) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); i++) {
        PyObject *o = PyList_GET_ITEM(list, i);
        if (cr_py_is_tensor(o) || PySlice_Check(o) || o == Py_None || o == Py_Ellipsis ||
            (PySequence_Check(o) && !PyUnicode_Check(o)))
            return true;
    }
    return false;
}

static int read_index(PyObject *index, index_list *list) {
    list->n = list->nmade = 0;
    bool as_tuple = PyTuple_Check(index);
    if (PyList_Check(index) && PyList_GET_SIZE(index) < 32 && holds_indices(index)) {
        if (PyErr_WarnEx(PyExc_UserWarning, "a list of several indices is read as a tuple; write x[tuple(list)]", 1))
            return -1;
        as_tuple = true;
    }
    if (!as_tuple) return add_item(list, index);
    PyObject *items = PySequence_Tuple(index);
    if (!items) return -1;
    int r = 0;
    for (Py_ssize_t i = 0; !r && i < PyTuple_GET_SIZE(items); i++) r = add_item(list, PyTuple_GET_ITEM(items, i));
    if (PyTuple_Check(index)) Py_DECREF(items); /* the caller's tuple holds the items; a list may change meanwhile */
    else if (r) Py_DECREF(items);
    else {
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items); i++) {
            PyObject *o = PyTuple_GET_ITEM(items, i);
            if (!cr_py_is_tensor(o) || list->nmade == CR_MAX_INDEX) continue;
            cr_tensor_retain(cr_py_tensor_of(o));
            list->made[list->nmade++] = cr_py_tensor_of(o);
        }
        Py_DECREF(items);
    }
    return r;
}

PyObject *cr_py_tensor_getitem(PyObject *self, PyObject *index) {
    index_list list;
    PyObject *o = NULL;
    if (!read_index(index, &list)) {
        cr_arg x = cr_arg_tensor(cr_py_tensor_of(self)), result;
        cr_status status = cr_index_get(cr_exec_emitter(), &x, list.items, list.n, &result);
        o = status ? cr_py_raise(status) : cr_py_from_arg(&result, false);
    }
    dispose(&list);
    return o;
}

/* An exported program has a number that is assigned as a 0-d tensor. */
static cr_status number_tensor(const cr_tensor *self, cr_arg *number, cr_tensor **made) {
    if (!cr_py_is_exporting() ||
        (number->kind != CR_ARG_INT && number->kind != CR_ARG_FLOAT && number->kind != CR_ARG_BOOL))
        return CR_OK;
    if (number->kind == CR_ARG_INT && !cr_dim_is_plain(number->u.i)) return CR_OK;
    rt_scalar value = { .kind = number->kind == CR_ARG_FLOAT ? RT_ARG_FLOAT : RT_ARG_INT };
    if (number->kind == CR_ARG_FLOAT) value.f = number->u.f;
    else value.i = number->u.i;
    CR_TRY(cr_tensor_scalar(self->meta.dtype, value, made));
    CR_TRY(cr_py_fresh(*made, false));
    *number = cr_arg_tensor(*made);
    return CR_OK;
}

int cr_py_tensor_setitem(PyObject *self, PyObject *index, PyObject *value) {
    if (!value) {
        PyErr_SetString(PyExc_TypeError, "elements of a Tensor cannot be deleted");
        return -1;
    }
    cr_py_frame f;
    cr_py_frame_init(&f);
    index_list list = { .n = 0 };
    cr_arg source;
    int r = cr_py_convert(&f, value, &source);
    if (r > 0 || (!r && source.kind != CR_ARG_TENSOR && !cr_arg_is_number(&source))) {
        PyErr_Format(PyExc_TypeError, "can't assign a %s to elements of a Tensor; use cresset.tensor(value)",
                     Py_TYPE(value)->tp_name);
        r = -1;
    }
    if (!r) r = read_index(index, &list);
    if (!r) {
        cr_arg x = cr_arg_tensor(cr_py_tensor_of(self));
        cr_tensor *made = NULL;
        cr_status status = number_tensor(x.u.t, &source, &made);
        if (!status) status = cr_index_set(cr_exec_emitter(), &x, list.items, list.n, &source);
        cr_tensor_release(made);
        if (status) r = cr_py_fail(status);
    }
    dispose(&list);
    cr_py_frame_dispose(&f);
    return r;
}
