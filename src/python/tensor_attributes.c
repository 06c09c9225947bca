/* tensor_attributes.c: x.shape, x.dtype, x.T, x.requires_grad and the other attributes of a tensor. */
#include "ops/batch.h"
#include "python/autograd_type.h"
#include "python/tensor.h"

#define GETTER(name) static PyObject *name(PyObject *self, void *closure)
#define META(self) (&cr_py_tensor_of(self)->meta)

GETTER(get_shape) {
    (void)closure;
    const cr_tensor *t = cr_py_tensor_of(self);
    return cr_py_size_new(t->env, t->meta.rank, t->meta.size);
}
GETTER(get_dtype) {
    (void)closure;
    return cr_py_dtype_get(META(self)->dtype);
}
GETTER(get_device) {
    (void)closure;
    return cr_py_device_wrap(META(self)->device);
}
GETTER(get_layout) {
    (void)self, (void)closure;
    return cr_py_layout_get(0);
}
GETTER(get_ndim) {
    (void)closure;
    return PyLong_FromLong(META(self)->rank);
}
GETTER(get_itemsize) {
    (void)closure;
    return PyLong_FromLongLong(rt_itemsize(META(self)->dtype));
}
GETTER(get_nbytes) {
    (void)closure;
    const cr_tensor *t = cr_py_tensor_of(self);
    return cr_py_dim(t->env, cr_dim_mul(t->env, cr_meta_numel(t->env, &t->meta), rt_itemsize(t->meta.dtype)));
}
GETTER(get_version) {
    const cr_tensor *t = cr_py_tensor_of(self);
    (void)closure;
    if (cr_py_is_ahead(t)) return cr_py_refuse_ahead("_version of a tensor is asked for"), NULL;
    if (t->inference)
        return PyErr_Format(PyExc_RuntimeError, "inference tensors do not track version counter; .clone() it outside "
                                                "of "
                                                "inference_mode() for one that does");
    return PyLong_FromUnsignedLongLong(cr_tensor_version(t));
}
/* A constant answer: the closure is the object. */
GETTER(get_false) {
    (void)self, (void)closure;
    Py_RETURN_FALSE;
}
GETTER(get_is_cpu) {
    (void)closure;
    return PyBool_FromLong(META(self)->device.type == CR_CPU);
}
GETTER(get_is_cuda) {
    (void)closure;
    return PyBool_FromLong(META(self)->device.type == CR_CUDA);
}
GETTER(get_is_meta) {
    (void)closure;
    return PyBool_FromLong(META(self)->device.type == CR_META_DEVICE);
}
GETTER(get_is_leaf) {
    (void)closure;
    cr_grad_node *node;
    uint32_t result;
    cr_tensor *t = cr_vmap_value(cr_py_tensor_of(self));
    bool plain = t->meta.flags & CR_META_REQUIRES_GRAD || !cr_tensor_requires_grad(t);
    if (cr_py_is_ahead(t) && !plain) /* made without gradients, of what has them: until that is written */
        return cr_py_refuse_ahead("is_leaf of a view that was made in no_grad is asked for"), NULL;
    if (cr_py_is_ahead(t)) return PyBool_FromLong(cr_py_is_ahead_leaf(t));
    cr_status status = cr_autograd_fn(t, &node, &result); /* a view may have lost its history */
    if (status) return cr_py_raise(status);
    bool leaf = !node;
    cr_grad_node_release(node);
    return PyBool_FromLong(leaf);
}
GETTER(get_retains_grad) {
    (void)closure;
    cr_tensor *t = cr_py_tensor_of(self), *real = cr_py_is_ahead(t) ? cr_py_stands_for(t) : NULL;
    return PyBool_FromLong(cr_autograd_retains_grad(real ? real : t));
}
GETTER(get_base) {
    (void)closure;
    cr_tensor *t = cr_py_tensor_of(self), *base = t->base;
    if (cr_py_is_ahead(t) && cr_py_is_input_view(t)) return cr_py_refuse_ahead("_base of an input is asked for"), NULL;
    if (!base) Py_RETURN_NONE;
    cr_tensor_retain(base);
    return cr_py_wrap(base);
}
GETTER(get_requires_grad) {
    (void)closure;
    return PyBool_FromLong(cr_tensor_requires_grad(cr_vmap_value(cr_py_tensor_of(self))));
}

static int set_requires_grad(PyObject *self, PyObject *value, void *closure) {
    (void)closure;
    if (!value || !PyBool_Check(value)) {
        PyErr_Format(PyExc_RuntimeError, "requires_grad must be a bool, not %s",
                     value ? Py_TYPE(value)->tp_name : "deleted");
        return -1;
    }
    cr_tensor *t = cr_py_tensor_of(self);
    if (cr_py_is_ahead(t) && cr_tensor_requires_grad(t) != (value == Py_True))
        return cr_py_refuse(CR_FAIL(CR_EUNSUPPORTED, "requires_grad of a tensor cannot be changed inside of a compiled "
                                                     "function, whose gradients are settled when it is compiled; set "
                                                     "it before the call, or detach()"));
    cr_status status = cr_autograd_is_leaf(t) || value == Py_False
                           ? cr_autograd_require(t, value == Py_True)
                           : CR_FAIL(CR_ERUNTIME, "you can only change requires_grad flags of leaf tensors; "
                                                  "requires_grad_() leaves a result that requires grad as it is");
    return status ? cr_py_fail(status) : 0;
}

GETTER(get_grad) {
    (void)closure;
    cr_tensor *t = cr_py_tensor_of(self), *real = cr_py_is_ahead(t) ? cr_py_stands_for(t) : NULL;
    if (real && cr_autograd_grad(real)) return cr_py_refuse_ahead("grad of an input is asked for"), NULL;
    cr_tensor *grad = cr_autograd_grad(t);
    if (!grad && !real && !cr_py_is_ahead(t) && !cr_autograd_is_leaf(t) && !cr_autograd_retains_grad(t) &&
        PyErr_WarnEx(PyExc_UserWarning,
                     "the .grad of a Tensor that is not a leaf is not filled by backward(): call retain_grad() on it "
                     "before, or read the .grad of the leaf",
                     1))
        return NULL;
    if (!grad) Py_RETURN_NONE;
    cr_tensor_retain(grad);
    return cr_py_wrap(grad);
}

static int set_grad(PyObject *self, PyObject *value, void *closure) {
    (void)closure;
    bool clear = !value || value == Py_None;
    if (!clear && (!cr_py_is_tensor(value) || value == self)) {
        PyErr_Format(value == self ? PyExc_RuntimeError : PyExc_TypeError,
                     "grad must be set to another Tensor or None, not %s",
                     value == self ? "to the tensor itself" : Py_TYPE(value)->tp_name);
        return -1;
    }
    if (cr_py_is_ahead(cr_py_tensor_of(self))) return cr_py_refuse_ahead("grad of a tensor is set");
    cr_tensor *grad = clear ? NULL : cr_py_tensor_of(value);
    if (grad) cr_tensor_retain(grad);
    cr_status status = cr_autograd_set_grad(cr_py_tensor_of(self), grad);
    return status ? cr_py_fail(status) : 0;
}

/* Attributes that are ops: the closure names the op and the dtypes it makes sense for. */
typedef struct op_attribute { const char *name; const cr_op *cache; } op_attribute;
static op_attribute op_T = { "aten::numpy_T", NULL }, op_mT = { "aten::mT", NULL }, op_H = { "aten::matrix_H", NULL },
                    op_mH = { "aten::mH", NULL }, op_real = { "aten::real", NULL }, op_imag = { "aten::imag", NULL };
GETTER(get_op) {
    op_attribute *a = closure;
    cr_arg arg = cr_arg_tensor(cr_py_tensor_of(self));
    return cr_py_call(&a->cache, a->name, &arg, 1);
}

/* The same elements, with a version of their own: writes to them are not seen by what was saved for gradients. */
GETTER(get_data) {
    static const cr_op *detach;
    cr_arg arg = cr_arg_tensor(cr_py_tensor_of(self));
    cr_tensor *t = NULL, *plain = NULL;
    (void)closure;
    cr_ambient_get()->data = true;
    cr_status status = cr_py_call_tensor(&detach, "aten::detach", &arg, 1, &t);
    cr_ambient_get()->data = false;
    if (status) return cr_py_raise(status);
    if (cr_tensor_is_fake(t) || cr_ambient_get()->mode.recorder) return cr_py_wrap(t); /* a recorded call's result */
    status = cr_tensor_apart(t, &plain);
    cr_tensor_release(t);
    return status ? cr_py_raise(status) : cr_py_wrap(plain);
}

/* x.data = y: x shows y's elements from now on. */
static int set_data(PyObject *self, PyObject *value, void *closure) {
    (void)closure;
    if (!value || !cr_py_is_tensor(value)) {
        PyErr_Format(PyExc_TypeError, "data must be set to a Tensor, not %s",
                     value ? Py_TYPE(value)->tp_name : "deleted");
        return -1;
    }
    cr_tensor *to = cr_py_tensor_of(self), *from = cr_py_tensor_of(value);
    if (to == from) return 0;
    if (cr_py_is_ahead(from) || cr_py_is_ahead(to))
        return cr_py_refuse(CR_FAIL(CR_EUNSUPPORTED, "data of a tensor is set inside of a compiled function, which "
                                                     "cannot give tensors other memory; copy_() to it"));
    if (from->env || to->env) {
        PyErr_SetString(PyExc_NotImplementedError, "data of a tensor with symbolic sizes cannot be set");
        return -1;
    }
    uint8_t flags = (uint8_t)((from->meta.flags & ~CR_META_REQUIRES_GRAD) | (to->meta.flags & CR_META_REQUIRES_GRAD));
    cr_storage_retain(from->storage);
    cr_storage_release(to->storage);
    to->storage = from->storage;
    cr_meta_copy(&to->meta, &from->meta);
    to->meta.flags = flags;
    cr_tensor_changed(to);
    return 0;
}

static int set_part(PyObject *self, PyObject *value, void *closure) {
    if (!value) {
        PyErr_SetString(PyExc_RuntimeError, "an attribute of a Tensor cannot be deleted");
        return -1;
    }
    PyObject *part = get_op(self, closure);
    int r = part ? cr_py_tensor_setitem(part, Py_Ellipsis, value) : -1;
    Py_XDECREF(part);
    return r;
}

PyGetSetDef cr_py_tensor_attributes[] = {
    { "shape", get_shape, NULL, "The size of every dimension.", NULL },
    { "dtype", get_dtype, NULL, "The type of the elements.", NULL },
    { "device", get_device, NULL, "Where the elements are.", NULL },
    { "layout", get_layout, NULL, NULL, NULL },
    { "ndim", get_ndim, NULL, "The number of dimensions.", NULL },
    { "itemsize", get_itemsize, NULL, "Bytes of one element.", NULL },
    { "nbytes", get_nbytes, NULL, "Bytes of all elements.", NULL },
    { "T", get_op, NULL, "The transpose.", &op_T },
    { "mT", get_op, NULL, "The last two dimensions swapped.", &op_mT },
    { "H", get_op, NULL, "The conjugate transpose of a matrix.", &op_H },
    { "mH", get_op, NULL, "mT, conjugated.", &op_mH },
    { "real", get_op, set_part, "The real part (a view).", &op_real },
    { "imag", get_op, set_part, "The imaginary part (a view).", &op_imag },
    { "data", get_data, set_data, "The same elements, outside of gradients.", NULL },
    { "requires_grad", get_requires_grad, set_requires_grad, "Are gradients wanted?", NULL },
    { "grad", get_grad, set_grad, "The gradient that backward() has added up here, or None.", NULL },
    { "__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL },
    { "grad_fn", cr_py_grad_fn, NULL, "The call that made it, for its derivative; None for leaves.", NULL },
    { "is_leaf", get_is_leaf, NULL, NULL, NULL },
    { "output_nr", cr_py_output_nr, NULL, NULL, NULL },
    { "retains_grad", get_retains_grad, NULL, NULL, NULL },
    { "_version", get_version, NULL, "How often it was written to, views and detached tensors included.", NULL },
    { "_base", get_base, NULL, "The tensor this one is a view of.", NULL },
    { "is_cpu", get_is_cpu, NULL, NULL, NULL },
    { "is_cuda", get_is_cuda, NULL, NULL, NULL },
    { "is_meta", get_is_meta, NULL, NULL, NULL },
    { "is_sparse", get_false, NULL, NULL, NULL },
    { "is_quantized", get_false, NULL, NULL, NULL },
    { "is_nested", get_false, NULL, NULL, NULL },
    { NULL, NULL, NULL, NULL, NULL },
};
