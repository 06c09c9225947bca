/* tensor_type.c: the type cresset.Tensor: making, finding and freeing its objects, and the container protocols.
 *
 * Invariant: a tensor whose `python` field is set has exactly one live object, and that object holds one of the
 * tensor's references. Methods for the table's ops enter the type's dict when the first object is made
 * (cr_py_tensor_populate), so that importing the package does not build the table and a call still finds its method
 * without a detour. */
#include "python/autograd_type.h"
#include "python/tensor.h"

#include <structmember.h>

PyTypeObject *cr_py_tensor_type; /* once */
static bool populated; /* once */

/* ---- life ---- */

PyObject *cr_py_wrap_as(PyTypeObject *type, cr_tensor *t) {
    if (!populated && cr_py_tensor_populate()) {
        cr_tensor_release(t);
        return NULL;
    }
    cr_py_tensor *o = (cr_py_tensor *)type->tp_alloc(type, 0);
    if (o && t->python) { /* another thread was faster, while garbage was collected */
        Py_DECREF(o);
        PyObject *other = Py_NewRef((PyObject *)t->python);
        cr_tensor_release(t);
        return other;
    }
    if (!o) {
        cr_tensor_release(t);
        return NULL;
    }
    o->tensor = t;
    t->python = o;
    return (PyObject *)o;
}

PyObject *cr_py_wrap(cr_tensor *t) {
    if (t->python) {
        PyObject *o = Py_NewRef((PyObject *)t->python);
        cr_tensor_release(t);
        return o;
    }
    return cr_py_wrap_as(cr_py_tensor_type, t);
}

typedef struct visitor { visitproc visit; void *arg; } visitor;
static int visit_object(void *object, void *arg) {
    const visitor *v = arg;
    return v->visit(object, v->arg);
}

static int tensor_traverse(PyObject *self, visitproc visit, void *arg) {
    cr_tensor *t = ((cr_py_tensor *)self)->tensor;
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((cr_py_tensor *)self)->dict);
    return t ? cr_autograd_traverse(t, visit_object, &(visitor){ visit, arg }) : 0;
}

static int tensor_clear(PyObject *self) {
    cr_tensor *t = ((cr_py_tensor *)self)->tensor;
    Py_CLEAR(((cr_py_tensor *)self)->dict);
    if (t) cr_autograd_clear(t);
    return 0;
}

static void tensor_dealloc(PyObject *self) {
    cr_py_tensor *o = (cr_py_tensor *)self;
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    /* first: what follows may run Python, on other threads too */
    if (o->tensor && o->tensor->python == o) o->tensor->python = NULL;
    if (o->weakrefs) PyObject_ClearWeakRefs(self);
    Py_XDECREF(o->dict);
    if (o->tensor) cr_tensor_release(o->tensor);
    type->tp_free(self);
    Py_DECREF(type);
}

/* Tensor(), Tensor(2, 3), Tensor(size), Tensor(data), Tensor(tensor): the constructor of old. */
static PyObject *tensor_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    if (kwargs && PyDict_GET_SIZE(kwargs)) {
        PyErr_SetString(PyExc_TypeError, "Tensor() takes no keyword arguments; use cresset.tensor(data, dtype=..., "
                                         "device=...)");
        return NULL;
    }
    Py_ssize_t n = PyTuple_GET_SIZE(args);
    PyObject *first = n ? PyTuple_GET_ITEM(args, 0) : NULL;
    cr_tensor *t = NULL;
    if (n == 1 && cr_py_is_tensor(first)) {
        static const cr_op *detach;
        cr_arg a = cr_arg_tensor(cr_py_tensor_of(first));
        cr_status status = cr_py_call_tensor(&detach, "aten::detach", &a, 1, &t);
        if (status) return cr_py_raise(status);
        return cr_py_wrap_as(type, t);
    }
    bool sizes = !n || Py_IS_TYPE(first, &cr_py_size_type);
    if (n && !sizes) {
        sizes = true;
        for (Py_ssize_t i = 0; i < n; i++)
            sizes &= PyIndex_Check(PyTuple_GET_ITEM(args, i)) && !cr_py_is_tensor(PyTuple_GET_ITEM(args, i)) &&
                     !PySequence_Check(PyTuple_GET_ITEM(args, i)); /* NumPy's arrays are indices, too */
    }
    if (sizes) {
        PyObject *shape = n && Py_IS_TYPE(first, &cr_py_size_type) ? first : args;
        cr_meta m;
        cr_meta_init(&m, cr_default_dtype(), (cr_device){ CR_CPU, -1 });
        cr_dim size[CR_MAX_RANK] = { 0 };
        Py_ssize_t rank = n ? PyTuple_GET_SIZE(shape) : 1;
        if (rank > CR_MAX_RANK)
            return PyErr_Format(PyExc_RuntimeError, "Tensor(): %zd dimensions, but at most %d are supported", rank,
                                CR_MAX_RANK);
        for (Py_ssize_t i = 0; n && i < rank; i++)
            if (cr_py_int64(PyTuple_GET_ITEM(shape, i), "Tensor()", &size[i])) return NULL;
        cr_status status = cr_meta_set_dense(NULL, &m, (int)rank, size, CR_CONTIGUOUS);
        if (!status) status = cr_tensor_create(&m, &t);
        if (status) return cr_py_raise(status);
        return cr_py_wrap_as(type, t);
    }
    if (n != 1) {
        PyErr_SetString(PyExc_TypeError, "Tensor(): expected sizes, a sequence of data or a tensor; use cresset.tensor "
                                         "for numbers");
        return NULL;
    }
    if (!PySequence_Check(first))
        return PyErr_Format(PyExc_TypeError, "Tensor(): data must be a sequence (got %s)", Py_TYPE(first)->tp_name);
    t = cr_py_data_tensor(first, cr_default_dtype());
    return t ? cr_py_wrap_as(type, t) : NULL;
}

/* ---- methods from the table ---- */

int cr_py_tensor_populate(void) {
    if (populated) return 0;
    cr_status status = cr_ops_init();
    if (status) return cr_py_fail(status);
    PyObject *dict = cr_py_tensor_type->tp_dict;
    for (size_t i = 0; i < cr_op_count(); i++) {
        const cr_op *op = cr_op_at(i);
        if (strcmp(op->schema.ns, "aten") || !cr_py_op_shown(op, CR_PY_METHOD)) continue;
        PyObject *name = PyUnicode_InternFromString(op->schema.name);
        if (!name) return -1;
        int known = PyDict_Contains(dict, name); /* the hand-written ones and an earlier overload win */
        PyObject *method = known ? NULL : cr_py_op_new(cr_op_find_name("aten", op->schema.name), CR_PY_METHOD);
        int failed = known < 0 || (!known && (!method || PyDict_SetItem(dict, name, method)));
        Py_XDECREF(method);
        Py_DECREF(name);
        if (failed) return -1;
    }
    PyType_Modified(cr_py_tensor_type);
    populated = true;
    return 0;
}

/* ---- containers ---- */

static Py_ssize_t tensor_length(PyObject *self) {
    const cr_tensor *t = cr_py_tensor_of(self);
    if (!t->meta.rank) {
        PyErr_SetString(PyExc_TypeError, "len() of a 0-d tensor");
        return -1;
    }
    PyObject *n = cr_py_dim(t->env, t->meta.size[0]);
    /* Python needs a number: a symbolic size is settled */
    Py_ssize_t length = n ? PyNumber_AsSsize_t(n, PyExc_OverflowError) : -1;
    Py_XDECREF(n);
    return length;
}

static PyObject *tensor_iter(PyObject *self) {
    cr_tensor *t = cr_py_tensor_of(self);
    if (!t->meta.rank) {
        PyErr_SetString(PyExc_TypeError, "iteration over a 0-d tensor");
        return NULL;
    }
    static const cr_op *unbind;
    cr_arg a = cr_arg_tensor(t);
    PyObject *rows = cr_py_call(&unbind, "aten::unbind.int", &a, 1);
    if (!rows) return NULL;
    PyObject *iterator = PyObject_GetIter(rows);
    Py_DECREF(rows);
    return iterator;
}

static int tensor_contains(PyObject *self, PyObject *value) {
    bool number = PyLong_Check(value) || PyFloat_Check(value) || PyComplex_Check(value) || cr_py_is_numpy_scalar(value);
    if (!number && !cr_py_is_tensor(value)) {
        PyErr_Format(PyExc_RuntimeError, "'in' on a Tensor takes a Tensor or a number, not %s",
                     Py_TYPE(value)->tp_name);
        return -1;
    }
    PyObject *equal = PyObject_RichCompare(self, value, Py_EQ);
    if (!equal || !cr_py_is_tensor(equal)) {
        Py_XDECREF(equal);
        return equal ? 0 : -1;
    }
    static const cr_op *any;
    cr_arg a = cr_arg_tensor(cr_py_tensor_of(equal));
    PyObject *found = cr_py_call(&any, "aten::any", &a, 1);
    Py_DECREF(equal);
    int truth = found ? PyObject_IsTrue(found) : -1;
    Py_XDECREF(found);
    return truth;
}

static Py_hash_t tensor_hash(PyObject *self) { return _Py_HashPointer(self); }

/* Printing is Python's (python/cresset/_print.py), imported when first needed. */
static PyObject *tensor_repr(PyObject *self) {
    static PyObject *print; /* once */
    if (!print) {
        PyObject *module = PyImport_ImportModule("cresset._print");
        if (!module) return NULL;
        print = PyObject_GetAttrString(module, "tensor_text");
        Py_DECREF(module);
        if (!print) return NULL;
    }
    return PyObject_CallOneArg(print, self);
}

static PyMemberDef members[] = {
    { "__dictoffset__", T_PYSSIZET, offsetof(cr_py_tensor, dict), READONLY, NULL },
    { "__weaklistoffset__", T_PYSSIZET, offsetof(cr_py_tensor, weakrefs), READONLY, NULL },
    { NULL, 0, 0, 0, NULL },
};

int cr_py_tensor_init(PyObject *module) {
    const PyNumberMethods *n = &cr_py_tensor_number;
    PyType_Slot slots[] = {
        { Py_tp_doc, "A strided array of one dtype. Make one with cresset.tensor(data), zeros, randn, from_numpy, "
                     "..." },
        { Py_tp_new, tensor_new },
        { Py_tp_dealloc, tensor_dealloc },
        { Py_tp_traverse, tensor_traverse },
        { Py_tp_clear, tensor_clear },
        { Py_tp_repr, tensor_repr },
        { Py_tp_hash, tensor_hash },
        { Py_tp_iter, tensor_iter },
        { Py_tp_richcompare, cr_py_tensor_richcompare },
        { Py_tp_methods, cr_py_tensor_methods },
        { Py_tp_getset, cr_py_tensor_attributes },
        { Py_tp_members, members },
        { Py_sq_contains, tensor_contains },
        { Py_mp_length, tensor_length },
        { Py_mp_subscript, cr_py_tensor_getitem },
        { Py_mp_ass_subscript, cr_py_tensor_setitem },
        { Py_bf_getbuffer, cr_py_tensor_buffer.bf_getbuffer },
        { Py_bf_releasebuffer, cr_py_tensor_buffer.bf_releasebuffer },
#define N(slot) { Py_##slot, n->slot }
        N(nb_add),
        N(nb_subtract),
        N(nb_multiply),
        N(nb_remainder),
        N(nb_power),
        N(nb_negative),
        N(nb_positive),
        N(nb_absolute),
        N(nb_bool),
        N(nb_invert),
        N(nb_lshift),
        N(nb_rshift),
        N(nb_and),
        N(nb_xor),
        N(nb_or),
        N(nb_int),
        N(nb_float),
        N(nb_index),
        N(nb_floor_divide),
        N(nb_true_divide),
        N(nb_matrix_multiply),
        N(nb_inplace_add),
        N(nb_inplace_subtract),
        N(nb_inplace_multiply),
        N(nb_inplace_remainder),
        N(nb_inplace_power),
        N(nb_inplace_lshift),
        N(nb_inplace_rshift),
        N(nb_inplace_and),
        N(nb_inplace_xor),
        N(nb_inplace_or),
        N(nb_inplace_floor_divide),
        N(nb_inplace_true_divide),
#undef N
        { 0, NULL },
    };
    PyType_Spec spec = {
        .name = "cresset.Tensor",
        .basicsize = sizeof(cr_py_tensor),
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
        .slots = slots,
    };
    cr_frontend_cresset.tensor_type = cr_py_tensor_type = (PyTypeObject *)PyType_FromSpec(&spec);
    if (!cr_py_tensor_type) return -1;
    PyObject *priority = PyLong_FromLong(1000); /* NumPy's operators give way to ours */
    int failed = !priority || PyDict_SetItemString(cr_py_tensor_type->tp_dict, "__array_priority__", priority);
    Py_XDECREF(priority);
    return failed ? -1 : PyModule_AddObjectRef(module, "Tensor", (PyObject *)cr_py_tensor_type);
}
