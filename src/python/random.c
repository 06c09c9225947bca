/* random.c: cresset.Generator, and the default generator's functions (manual_seed, get_rng_state, ...). */
#include "python/tensor.h"

#include "runtime/rt_random.h"

#include <sys/random.h>

static PyObject *default_generator; /* once */

/* A seed as PyTorch takes it: any int of 64 bits, negative ones wrapped. */
static int read_seed(PyObject *o, uint64_t *out) {
    PyObject *number = PyNumber_Long(o);
    if (!number) return -1;
    int over;
    long long value = PyLong_AsLongLongAndOverflow(number, &over);
    *out = over > 0 ? PyLong_AsUnsignedLongLong(number) : (uint64_t)value;
    Py_DECREF(number);
    if (over < 0 || PyErr_Occurred()) {
        PyErr_Clear();
        PyErr_Format(PyExc_ValueError, "the seed %R does not fit in 64 bits", o);
        return -1;
    }
    return 0;
}

static rt_generator *of(PyObject *self) { return ((cr_py_generator *)self)->generator; }

static PyObject *generator_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = { "device", NULL };
    PyObject *device = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:Generator", names, &device)) return NULL;
    if (device != Py_None) {
        cr_device d;
        int r = cr_py_device_read(device, &d);
        if (r > 0)
            PyErr_Format(PyExc_TypeError, "Generator(): device must be a device or its name, not %s",
                         Py_TYPE(device)->tp_name);
        if (r) return NULL;
        if (d.type != CR_CPU) return PyErr_Format(PyExc_RuntimeError, "Generator(): only CPU generators exist");
    }
    rt_generator *g = cr_alloc(sizeof *g);
    if (!g) return cr_py_raise(CR_ENOMEM);
    cr_py_generator *o = (cr_py_generator *)type->tp_alloc(type, 0);
    if (!o) {
        cr_free(g);
        return NULL;
    }
    rt_generator_init(g, RT_GENERATOR_DEFAULT_SEED);
    o->generator = g;
    o->owned = true;
    return (PyObject *)o;
}

static void generator_dealloc(PyObject *self) {
    cr_py_generator *o = (cr_py_generator *)self;
    if (o->owned) {
        rt_generator_dispose(o->generator);
        cr_free(o->generator);
    }
    Py_TYPE(self)->tp_free(self);
}

cr_py_seeding cr_py_last_seeding; /* process: the default generator is everybody's */

static void start_over(PyObject *self, uint64_t value) {
    if (of(self) == cr_default_generator()) cr_py_keep_generator();
    rt_generator_manual_seed(of(self), value);
    if (of(self) == cr_default_generator()) cr_py_last_seeding = (cr_py_seeding){ cr_py_last_seeding.count + 1, value };
}

static PyObject *manual_seed(PyObject *self, PyObject *seed) {
    uint64_t value;
    if (read_seed(seed, &value)) return NULL;
    start_over(self, value);
    return Py_NewRef(self);
}

static PyObject *initial_seed(PyObject *self, PyObject *unused) {
    (void)unused;
    return PyLong_FromUnsignedLongLong(rt_generator_initial_seed(of(self)));
}

static PyObject *seed(PyObject *self, PyObject *unused) {
    (void)unused;
    uint64_t value;
    if (getrandom(&value, sizeof value, 0) != sizeof value) return PyErr_SetFromErrno(PyExc_OSError);
    value &= (UINT64_C(1) << 53) - 1; /* a number that every language reads exactly */
    start_over(self, value);
    return PyLong_FromUnsignedLongLong(value);
}

static PyObject *get_state(PyObject *self, PyObject *unused) {
    (void)unused;
    cr_meta m;
    cr_meta_init(&m, CR_U8, (cr_device){ CR_CPU, -1 });
    cr_dim size = RT_GENERATOR_STATE_BYTES;
    cr_tensor *t = NULL;
    cr_status status = cr_meta_set_dense(NULL, &m, 1, &size, CR_CONTIGUOUS);
    if (!status) status = cr_tensor_create(&m, &t);
    if (status) return cr_py_raise(status);
    rt_generator_get_state(of(self), t->storage->data);
    return cr_py_wrap(t);
}

static PyObject *set_state(PyObject *self, PyObject *state) {
    if (!cr_py_is_tensor(state))
        return PyErr_Format(PyExc_TypeError, "set_state(): expected a uint8 Tensor, not %s", Py_TYPE(state)->tp_name);
    cr_tensor *t = cr_py_tensor_of(state);
    if (t->meta.dtype != CR_U8 || t->storage->fake || cr_meta_is_contiguous(NULL, &t->meta, CR_CONTIGUOUS) != CR_YES)
        return PyErr_Format(PyExc_TypeError, "set_state(): the state must be a contiguous uint8 tensor on the CPU, as "
                                             "get_state() gives it");
    char message[256] = "";
    rt_ctx ctx = cr_kernel_ctx(message, sizeof message);
    if (of(self) == cr_default_generator()) cr_py_keep_generator();
    if (rt_generator_set_state(&ctx, of(self), cr_tensor_view(t).p, (size_t)cr_py_numel(t)))
        return PyErr_Format(PyExc_RuntimeError, "%s", message);
    return Py_NewRef(self);
}

static PyObject *get_device(PyObject *self, void *unused) {
    (void)self, (void)unused;
    return cr_py_device_wrap((cr_device){ CR_CPU, -1 });
}

static PyMethodDef methods[] = {
    { "manual_seed", manual_seed, METH_O, "manual_seed(seed): starts over from a seed." },
    { "initial_seed", initial_seed, METH_NOARGS, "The last seed." },
    { "seed", seed, METH_NOARGS, "Starts over from a random seed and returns it." },
    { "get_state", get_state, METH_NOARGS, "The state as a uint8 tensor." },
    { "set_state", set_state, METH_O, "set_state(state): continues from a state." },
    { NULL, NULL, 0, NULL },
};
static PyGetSetDef attributes[] = { { "device", get_device, NULL, NULL, NULL }, { NULL, NULL, NULL, NULL, NULL } };

PyTypeObject cr_py_generator_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "cresset.Generator",
    .tp_basicsize = sizeof(cr_py_generator),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_doc = "Generator(device='cpu'): a stream of random numbers.",
    .tp_new = generator_new,
    .tp_dealloc = generator_dealloc,
    .tp_methods = methods,
    .tp_getset = attributes,
};

static PyObject *module_manual_seed(PyObject *module, PyObject *value) {
    (void)module;
    return manual_seed(default_generator, value);
}
static PyObject *module_initial_seed(PyObject *module, PyObject *unused) {
    (void)module;
    return initial_seed(default_generator, unused);
}
static PyObject *module_seed(PyObject *module, PyObject *unused) {
    (void)module;
    return seed(default_generator, unused);
}
static PyObject *module_get_state(PyObject *module, PyObject *unused) {
    (void)module;
    return get_state(default_generator, unused);
}
static PyObject *module_set_state(PyObject *module, PyObject *state) {
    (void)module;
    PyObject *o = set_state(default_generator, state);
    if (!o) return NULL;
    Py_DECREF(o);
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    { "manual_seed", module_manual_seed, METH_O, "manual_seed(seed): seeds the default generator and returns it." },
    { "initial_seed", module_initial_seed, METH_NOARGS, "The default generator's last seed." },
    { "seed", module_seed, METH_NOARGS, "Seeds the default generator from a random number and returns that." },
    { "get_rng_state", module_get_state, METH_NOARGS, "The default generator's state." },
    { "set_rng_state", module_set_state, METH_O, "set_rng_state(state): sets the default generator's state." },
    { NULL, NULL, 0, NULL },
};

int cr_py_random_init(PyObject *module) {
    if (PyType_Ready(&cr_py_generator_type)) return -1;
    cr_py_generator *o = PyObject_New(cr_py_generator, &cr_py_generator_type);
    if (!o) return -1;
    o->generator = cr_default_generator();
    o->owned = false;
    default_generator = (PyObject *)o;
    if (!o->generator) return cr_py_fail(CR_ENOMEM);
    if (PyModule_AddObjectRef(module, "Generator", (PyObject *)&cr_py_generator_type)) return -1;
    if (PyModule_AddObjectRef(module, "default_generator", default_generator)) return -1;
    return PyModule_AddFunctions(module, functions);
}
