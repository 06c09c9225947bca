/* vmap.c: levels of vmap, and tensors in and out of them, for cresset.func (ops/batch.h). Functions that take no level
 * are about the innermost one. */
#include "autograd/autograd.h"
#include "ops/batch.h"
#include "python/tensor.h"

static cr_vmap *innermost(void) {
    cr_vmap *v = cr_ambient_get()->vmap;
    if (!v) PyErr_SetString(PyExc_RuntimeError, "no vmap is running on this thread");
    return v;
}

/* _vmap_begin(size, randomness): the size may be a SymInt; randomness is 0 error, 1 different, 2 same. */
static PyObject *begin(PyObject *module, PyObject *args) {
    PyObject *examples;
    int randomness;
    (void)module;
    if (!PyArg_ParseTuple(args, "Oi:_vmap_begin", &examples, &randomness)) return NULL;
    cr_arg read = cr_arg_none();
    bool open = cr_py_sym_read(examples, &read) && read.kind == CR_ARG_INT;
    cr_dim size = open ? read.u.i : PyLong_AsLongLong(examples);
    if (PyErr_Occurred()) return NULL;
    cr_vmap *v = PyMem_Malloc(sizeof *v);
    if (!v) return PyErr_NoMemory();
    cr_vmap_begin(v, size, (cr_randomness)randomness);
    Py_RETURN_NONE;
}

static PyObject *end(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    cr_vmap *v = innermost();
    if (!v) return NULL;
    cr_vmap_end(v);
    PyMem_Free(v);
    Py_RETURN_NONE;
}

static PyObject *depth(PyObject *module, PyObject *unused) {
    long n = 0;
    (void)module, (void)unused;
    for (const cr_vmap *v = cr_ambient_get()->vmap; v; v = v->outer) n++;
    return PyLong_FromLong(n);
}

static PyObject *wrapped(cr_status status, cr_tensor *t) { return status ? cr_py_raise(status) : cr_py_wrap(t); }

/* _vmap_lower(tensor, dim): one example of it. */
static PyObject *lower(PyObject *module, PyObject *args) {
    PyObject *o;
    int dim;
    (void)module;
    cr_vmap *v = innermost();
    if (!v || !PyArg_ParseTuple(args, "O!i:_vmap_lower", cr_py_tensor_type, &o, &dim)) return NULL;
    cr_tensor *t = cr_py_tensor_of(o), *out = NULL;
    if (dim < 0 || dim >= t->meta.rank) return PyErr_Format(PyExc_IndexError, "there is no dimension %d", dim);
    cr_status status = cr_vmap_lower(v, t, dim, &out);
    return wrapped(status, out);
}

/* _vmap_lift(tensor, dim): all examples, along a new dimension; repeated where it is not mapped. */
static PyObject *lift(PyObject *module, PyObject *args) {
    PyObject *o;
    int dim;
    (void)module;
    cr_vmap *v = innermost();
    if (!v || !PyArg_ParseTuple(args, "O!i:_vmap_lift", cr_py_tensor_type, &o, &dim)) return NULL;
    cr_tensor *t = cr_py_tensor_of(o), *out = NULL;
    if (dim < 0 || dim > t->meta.rank) return PyErr_Format(PyExc_IndexError, "there is no dimension %d", dim);
    cr_status status = cr_vmap_lift(v, t, dim, &out);
    return wrapped(status, out);
}

static PyObject *maps(PyObject *module, PyObject *o) {
    (void)module;
    const cr_vmap *v = innermost();
    if (!v) return NULL;
    return PyBool_FromLong(cr_py_is_tensor(o) && cr_vmap_maps(v, cr_py_tensor_of(o)));
}

/* _vmap_lower_all(tensor): mapped at every level, so that each example has a gradient of its own. */
static PyObject *lower_all(PyObject *module, PyObject *o) {
    (void)module;
    if (!cr_py_is_tensor(o)) return PyErr_Format(PyExc_TypeError, "_vmap_lower_all() takes a Tensor");
    cr_tensor *out = NULL;
    cr_status status = cr_vmap_lower_all(cr_py_tensor_of(o), &out);
    return wrapped(status, out);
}

/* _vmap_value(tensor): all examples, as they lie; None: no level maps it. */
static PyObject *value(PyObject *module, PyObject *o) {
    (void)module;
    if (!cr_py_is_tensor(o)) return PyErr_Format(PyExc_TypeError, "_vmap_value() takes a Tensor");
    cr_tensor *t = cr_vmap_value(cr_py_tensor_of(o));
    if (t == cr_py_tensor_of(o)) Py_RETURN_NONE;
    cr_tensor_retain(t);
    return cr_py_wrap(t);
}

/* _vmap_require(tensor): requires_grad_() of its value, which must be nobody else's. */
static PyObject *require(PyObject *module, PyObject *o) {
    (void)module;
    if (!cr_py_is_tensor(o)) return PyErr_Format(PyExc_TypeError, "_vmap_require() takes a Tensor");
    cr_status status = cr_autograd_require(cr_vmap_value(cr_py_tensor_of(o)), true);
    return status ? cr_py_raise(status) : Py_NewRef(o);
}

/* _vmap_outside(f): f() as if the level were not there. */
static PyObject *outside(PyObject *module, PyObject *f) {
    (void)module;
    cr_vmap *v = innermost();
    if (!v) return NULL;
    cr_ambient_get()->vmap = v->outer;
    PyObject *result = PyObject_CallNoArgs(f);
    cr_ambient_get()->vmap = v;
    return result;
}

/* _vmap_info(): (examples, randomness). */
static PyObject *info(PyObject *module, PyObject *unused) {
    static const char *const names[] = { "error", "different", "same" };
    (void)module, (void)unused;
    const cr_vmap *v = innermost();
    PyObject *size = v ? cr_py_dim(cr_ambient_get()->mode.env, v->size) : NULL;
    return size ? Py_BuildValue("(Ns)", size, names[v->randomness]) : NULL;
}

/* _vmap_counts(): (loops over examples, loops because a class did not fit, the last op looped over) of this thread. */
static PyObject *counts(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    const cr_vmap_counts *c = &cr_ambient_get()->looped;
    return Py_BuildValue("(KKz)", c->loops, c->misfits, c->last ? c->last->name : NULL);
}

static PyMethodDef functions[] = {
    { "_vmap_begin", begin, METH_VARARGS, NULL },
    { "_vmap_end", end, METH_NOARGS, NULL },
    { "_vmap_depth", depth, METH_NOARGS, NULL },
    { "_vmap_lower", lower, METH_VARARGS, NULL },
    { "_vmap_lift", lift, METH_VARARGS, NULL },
    { "_vmap_maps", maps, METH_O, NULL },
    { "_vmap_lower_all", lower_all, METH_O, NULL },
    { "_vmap_value", value, METH_O, NULL },
    { "_vmap_outside", outside, METH_O, NULL },
    { "_vmap_info", info, METH_NOARGS, NULL },
    { "_vmap_require", require, METH_O, NULL },
    { "_vmap_counts", counts, METH_NOARGS, NULL },
    { NULL, NULL, 0, NULL },
};

int cr_py_vmap_init(PyObject *module) { return PyModule_AddFunctions(module, functions); }
