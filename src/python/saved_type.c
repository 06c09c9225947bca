/* saved_type.c: hooks on saved tensors as Python has them: a stack of (pack, unpack) for each thread, whose top is what
 * nodes save through. What a node keeps is a pair: what pack() gave, and the unpack() that belongs to it. */
#include "python/autograd_type.h"
#include "python/tensor.h"

static PyObject *error_of(const char *which, PyObject *given) {
    return PyErr_Format(PyExc_TypeError,
                        "Output of saved tensor %s expected to be a Tensor but got result of type %s; return what the "
                        "derivative is to read",
                        which, Py_TYPE(given)->tp_name);
}

static cr_status pack(void *user, cr_tensor *t, void **packed) {
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *hooks = user;
    cr_tensor_retain(t);
    PyObject *o = cr_py_wrap(t);
    uint64_t version = o ? cr_tensor_version(t) : 0;
    PyObject *given = o ? PyObject_CallOneArg(PyTuple_GET_ITEM(hooks, 0), o) : NULL;
    if (given && cr_tensor_version(t) != version) {
        PyErr_SetString(PyExc_RuntimeError, "A saved tensor pack hook is modifying its input in place. Tensors "
                                            "provided as input to pack hook can not be modified by in-place operations "
                                            "as this can lead to unexpected side-effects. Write to a clone() of it.");
        Py_CLEAR(given);
    }
    *packed = given ? PyTuple_Pack(2, given, PyTuple_GET_ITEM(hooks, 1)) : NULL;
    Py_XDECREF(given);
    Py_XDECREF(o);
    PyGILState_Release(state);
    return *packed ? CR_OK : CR_FAIL(CR_EPYTHON, "a saved tensor pack hook raised an exception");
}

static cr_status unpack(void *packed, cr_tensor **out) {
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *pair = packed;
    PyObject *o = PyObject_CallOneArg(PyTuple_GET_ITEM(pair, 1), PyTuple_GET_ITEM(pair, 0));
    bool tensor = o && cr_py_is_tensor(o);
    if (tensor) cr_tensor_retain(*out = cr_py_tensor_of(o));
    else if (o) error_of("unpack_hook", o);
    Py_XDECREF(o);
    PyGILState_Release(state);
    return tensor ? CR_OK : CR_FAIL(CR_EPYTHON, "a saved tensor unpack hook raised an exception");
}

static const cr_saved_table table = { pack, unpack, cr_py_release_user, cr_py_traverse_user };

/* _push_saved_hooks(pack, unpack) */
static PyObject *push(PyObject *module, PyObject *args) {
    PyObject *both[2];
    cr_ambient *ambient = cr_ambient_get();
    (void)module;
    if (!PyArg_ParseTuple(args, "OO:_push_saved_hooks", &both[0], &both[1])) return NULL;
    for (int i = 0; i < 2; i++)
        if (!PyCallable_Check(both[i]))
            return PyErr_Format(PyExc_TypeError, "saved tensor hooks are two functions, pack and unpack; %s is a %s",
                                i ? "unpack" : "pack", Py_TYPE(both[i])->tp_name);
    cr_saved_hooks *hooks = PyMem_Calloc(1, sizeof *hooks);
    if (!hooks) return PyErr_NoMemory();
    *hooks = (cr_saved_hooks){ &table, PyTuple_Pack(2, both[0], both[1]), ambient->saved };
    if (!hooks->user) {
        PyMem_Free(hooks);
        return NULL;
    }
    ambient->saved = hooks;
    Py_RETURN_NONE;
}

static PyObject *pop(PyObject *module, PyObject *unused) {
    cr_ambient *ambient = cr_ambient_get();
    cr_saved_hooks *hooks = ambient->saved;
    (void)module;
    (void)unused;
    if (!hooks) return PyErr_Format(PyExc_RuntimeError, "there are no saved tensor hooks to take off");
    ambient->saved = hooks->outer;
    Py_DECREF((PyObject *)hooks->user);
    PyMem_Free(hooks);
    Py_RETURN_NONE;
}

/* _top_saved_hooks(): (pack, unpack) in force on this thread; None: none. */
static PyObject *top(PyObject *module, PyObject *unused) {
    (void)module;
    (void)unused;
    const cr_saved_hooks *hooks = cr_ambient_get()->saved;
    return Py_NewRef(hooks ? (PyObject *)hooks->user : Py_None);
}

static PyMethodDef functions[] = {
    { "_push_saved_hooks", push, METH_VARARGS, NULL },
    { "_pop_saved_hooks", pop, METH_NOARGS, NULL },
    { "_top_saved_hooks", top, METH_NOARGS, NULL },
    { NULL, NULL, 0, NULL },
};

int cr_py_saved_init(PyObject *module) { return PyModule_AddFunctions(module, functions); }
