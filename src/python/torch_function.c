/* torch_function.c: the two calls between a captured program that trains and the code of its forward half.
 *
 * Gradients go through a torch.autograd.Function (cresset/_torch/running.py): its apply() takes the inputs that
 * gradients are wanted of, which torch's engine reads, and calls forward. Both sides are Python callables by
 * nature; written in C no frame lies between a call and its code.
 *
 *     inputs -> _TorchApply -> apply(others, *wanted) -> _TorchForward(ctx, others, *wanted) -> code(*inputs) */
#include "python/torch_tensor.h"

#include <structmember.h>

enum { FEW = 64 };

typedef struct py_torch_apply {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *apply;  /* of the Function, bound to it */
    PyObject *codes;  /* list: forward, backward */
    uint32_t ninputs, nwanted, *wanted;
    uint8_t *is_wanted;
} py_torch_apply;

typedef struct py_torch_forward {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *code;
    uint32_t ninputs, nwanted, nsaved, nresults, numbers_at;
    int32_t *from;    /* of each input: which of the wanted, or ~which of the others */
    int32_t *saved;   /* a result of the code, or ~an input */
    PyObject *to_save, *materialize, *numbers; /* names */
} py_torch_forward;

/* ---- apply ---- */

/* What gradients are not wanted of: a tuple, or None. */
static PyObject *others_of(const py_torch_apply *a, PyObject *const *args) {
    if (a->nwanted == a->ninputs) Py_RETURN_NONE;
    PyObject *others = PyTuple_New(a->ninputs - a->nwanted);
    for (uint32_t i = 0, n = 0; others && i < a->ninputs; i++)
        if (!a->is_wanted[i]) PyTuple_SET_ITEM(others, n++, Py_NewRef(args[i]));
    return others;
}

static PyObject *apply_call(PyObject *self, PyObject *const *args, size_t nargs, PyObject *names) {
    const py_torch_apply *a = (py_torch_apply *)self;
    if (PyVectorcall_NARGS(nargs) != a->ninputs || names)
        return PyErr_Format(PyExc_TypeError, "it takes its %u inputs", a->ninputs);
    PyObject *given = PyTuple_New(a->nwanted + 1), *others = given ? others_of(a, args) : NULL, *results = NULL;
    if (others) {
        PyTuple_SET_ITEM(given, 0, others);
        for (uint32_t i = 0; i < a->nwanted; i++) PyTuple_SET_ITEM(given, i + 1, Py_NewRef(args[a->wanted[i]]));
        results = PyObject_Call(a->apply, given, NULL);
    }
    Py_XDECREF(given);
    return results;
}

static PyObject *apply_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = { "apply", "ninputs", "wanted", "codes", NULL };
    PyObject *apply, *wanted, *codes;
    unsigned ninputs;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OIO!O!:_TorchApply", names, &apply, &ninputs, &PyTuple_Type,
                                     &wanted, &PyList_Type, &codes))
        return NULL;
    py_torch_apply *a = (py_torch_apply *)type->tp_alloc(type, 0);
    if (!a) return NULL;
    a->vectorcall = apply_call;
    a->apply = Py_NewRef(apply);
    a->codes = Py_NewRef(codes);
    a->ninputs = ninputs;
    a->nwanted = (uint32_t)PyTuple_GET_SIZE(wanted);
    a->wanted = PyMem_Calloc(a->nwanted + 1u, sizeof *a->wanted);
    a->is_wanted = PyMem_Calloc(ninputs + 1u, 1);
    if (!a->wanted || !a->is_wanted) PyErr_NoMemory();
    for (uint32_t i = 0; !PyErr_Occurred() && i < a->nwanted; i++) {
        unsigned long at = PyLong_AsUnsignedLong(PyTuple_GET_ITEM(wanted, i));
        if (!PyErr_Occurred() && (at >= ninputs || a->is_wanted[at]))
            PyErr_Format(PyExc_ValueError, "input %lu of %u cannot be wanted", at, ninputs);
        if (!PyErr_Occurred()) a->wanted[i] = (uint32_t)at, a->is_wanted[at] = 1;
    }
    if (PyErr_Occurred()) Py_CLEAR(a);
    return (PyObject *)a;
}

static int apply_traverse(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(((py_torch_apply *)self)->apply);
    Py_VISIT(((py_torch_apply *)self)->codes);
    return 0;
}

static int apply_clear(PyObject *self) {
    Py_CLEAR(((py_torch_apply *)self)->apply);
    Py_CLEAR(((py_torch_apply *)self)->codes);
    return 0;
}

static void apply_dealloc(PyObject *self) {
    PyObject_GC_UnTrack(self);
    apply_clear(self);
    PyMem_Free(((py_torch_apply *)self)->wanted);
    PyMem_Free(((py_torch_apply *)self)->is_wanted);
    Py_TYPE(self)->tp_free(self);
}

/* ---- forward ---- */

/* Tells torch what backward needs: tensors that users can reach, too, so that it sees when they are written. */
static int save(const py_torch_forward *f, PyObject *ctx, PyObject *const *inputs, PyObject *given) {
    if (!f->nsaved) return 0;
    PyObject *saved = PyTuple_New(f->nsaved);
    for (uint32_t i = 0; saved && i < f->nsaved; i++) {
        int32_t at = f->saved[i];
        PyTuple_SET_ITEM(saved, i, Py_NewRef(at < 0 ? inputs[~at] : PyList_GET_ITEM(given, at)));
    }
    int failed = saved ? PyObject_SetAttr(ctx, f->to_save, saved) : -1;
    Py_XDECREF(saved);
    return failed;
}

static int save_numbers(const py_torch_forward *f, PyObject *ctx, PyObject *given) {
    if (PyList_GET_SIZE(given) <= (Py_ssize_t)f->numbers_at) return 0;
    PyObject *numbers = PyList_GetSlice(given, f->numbers_at, PY_SSIZE_T_MAX);
    int failed = numbers ? PyObject_SetAttr(ctx, f->numbers, numbers) : -1;
    Py_XDECREF(numbers);
    return failed;
}

static PyObject *run(const py_torch_forward *f, PyObject *ctx, PyObject *const *inputs) {
    PyObject *given = PyObject_Vectorcall(f->code, inputs, f->ninputs, NULL), *results = NULL;
    if (!given || !PyList_Check(given) || PyList_GET_SIZE(given) < (Py_ssize_t)f->nresults) {
        if (given) PyErr_SetString(PyExc_RuntimeError, "the forward half gave too few results");
    } else if (!save(f, ctx, inputs, given) && !save_numbers(f, ctx, given) &&
               !PyObject_SetAttr(ctx, f->materialize, Py_False)) {
        results = PyTuple_New(f->nresults);
        for (uint32_t i = 0; results && i < f->nresults; i++)
            PyTuple_SET_ITEM(results, i, Py_NewRef(PyList_GET_ITEM(given, i)));
    }
    Py_XDECREF(given);
    return results;
}

static PyObject *forward_call(PyObject *self, PyObject *const *args, size_t nargs, PyObject *names) {
    const py_torch_forward *f = (py_torch_forward *)self;
    uint32_t nothers = f->ninputs - f->nwanted;
    bool fits = PyVectorcall_NARGS(nargs) == (Py_ssize_t)f->nwanted + 2 && !names &&
                (!nothers || (PyTuple_Check(args[1]) && PyTuple_GET_SIZE(args[1]) == nothers));
    if (!fits) return PyErr_Format(PyExc_TypeError, "it takes a context, %u others and %u inputs", nothers, f->nwanted);
    PyObject *few[FEW], **inputs = f->ninputs > FEW ? PyMem_Malloc(f->ninputs * sizeof *inputs) : few;
    if (!inputs) return PyErr_NoMemory();
    for (uint32_t i = 0; i < f->ninputs; i++)
        inputs[i] = f->from[i] >= 0 ? args[f->from[i] + 2] : PyTuple_GET_ITEM(args[1], ~f->from[i]);
    PyObject *results = run(f, args[0], inputs);
    if (inputs != few) PyMem_Free(inputs);
    return results;
}

static int32_t *read_numbers(PyObject *tuple) {
    Py_ssize_t n = PyTuple_GET_SIZE(tuple);
    int32_t *numbers = PyMem_Calloc((size_t)n + 1, sizeof *numbers);
    if (!numbers) PyErr_NoMemory();
    for (Py_ssize_t i = 0; numbers && i < n && !PyErr_Occurred(); i++)
        numbers[i] = (int32_t)PyLong_AsLong(PyTuple_GET_ITEM(tuple, i));
    return numbers;
}

/* Every number that a call indexes with. */
static int check_places(const py_torch_forward *f) {
    uint32_t nothers = f->ninputs - f->nwanted;
    for (uint32_t i = 0; i < f->ninputs; i++)
        if (f->from[i] >= (int32_t)f->nwanted || ~f->from[i] >= (int32_t)nothers)
            return PyErr_Format(PyExc_ValueError, "input %u comes from nowhere", i), -1;
    for (uint32_t i = 0; i < f->nsaved; i++)
        if (f->saved[i] >= (int32_t)f->numbers_at || ~f->saved[i] >= (int32_t)f->ninputs)
            return PyErr_Format(PyExc_ValueError, "saved tensor %u comes from nowhere", i), -1;
    if (f->nresults <= f->numbers_at) return 0;
    return PyErr_SetString(PyExc_ValueError, "numbers come behind the results"), -1;
}

static PyObject *forward_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = { "code", "inputs", "saved", "nresults", "numbers_at", NULL };
    PyObject *code, *from, *saved;
    unsigned nresults, numbers_at;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO!O!II:_TorchForward", names, &code, &PyTuple_Type, &from,
                                     &PyTuple_Type, &saved, &nresults, &numbers_at))
        return NULL;
    py_torch_forward *f = (py_torch_forward *)type->tp_alloc(type, 0);
    if (!f) return NULL;
    f->vectorcall = forward_call;
    f->code = Py_NewRef(code);
    f->nresults = nresults;
    f->numbers_at = numbers_at;
    f->ninputs = (uint32_t)PyTuple_GET_SIZE(from);
    f->nsaved = (uint32_t)PyTuple_GET_SIZE(saved);
    f->from = read_numbers(from);
    f->saved = f->from && !PyErr_Occurred() ? read_numbers(saved) : NULL;
    for (uint32_t i = 0; f->saved && i < f->ninputs; i++) f->nwanted += f->from[i] >= 0;
    f->to_save = PyUnicode_InternFromString("to_save");
    f->materialize = PyUnicode_InternFromString("materialize_grads");
    f->numbers = PyUnicode_InternFromString("numbers");
    if (PyErr_Occurred() || check_places(f)) Py_CLEAR(f);
    return (PyObject *)f;
}

static int forward_traverse(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(((py_torch_forward *)self)->code);
    return 0;
}

static int forward_clear(PyObject *self) {
    Py_CLEAR(((py_torch_forward *)self)->code);
    return 0;
}

static void forward_dealloc(PyObject *self) {
    py_torch_forward *f = (py_torch_forward *)self;
    PyObject_GC_UnTrack(self);
    forward_clear(self);
    Py_XDECREF(f->to_save);
    Py_XDECREF(f->materialize);
    Py_XDECREF(f->numbers);
    PyMem_Free(f->from);
    PyMem_Free(f->saved);
    Py_TYPE(self)->tp_free(self);
}

/* ---- types ---- */

static PyMemberDef apply_members[] = {
    { "__vectorcalloffset__", T_PYSSIZET, offsetof(py_torch_apply, vectorcall), READONLY, NULL },
    { "_codes", T_OBJECT, offsetof(py_torch_apply, codes), READONLY, "The halves: forward, backward." },
    { NULL, 0, 0, 0, NULL },
};
static PyTypeObject apply_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "cresset._C._TorchApply",
    .tp_basicsize = sizeof(py_torch_apply),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_HAVE_GC,
    .tp_doc = "_TorchApply(apply, ninputs, wanted, codes): called with the inputs, it calls apply(others, *wanted).",
    .tp_new = apply_new,
    .tp_dealloc = apply_dealloc,
    .tp_traverse = apply_traverse,
    .tp_clear = apply_clear,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(py_torch_apply, vectorcall),
    .tp_members = apply_members,
};
static PyTypeObject forward_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "cresset._C._TorchForward",
    .tp_basicsize = sizeof(py_torch_forward),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_HAVE_GC,
    .tp_doc = "_TorchForward(code, inputs, saved, nresults, numbers_at): the forward of an autograd.Function.",
    .tp_new = forward_new,
    .tp_dealloc = forward_dealloc,
    .tp_traverse = forward_traverse,
    .tp_clear = forward_clear,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(py_torch_forward, vectorcall),
};

int cr_py_torch_function_init(PyObject *module) {
    if (PyType_Ready(&apply_type) || PyType_Ready(&forward_type)) return -1;
    if (PyModule_AddObjectRef(module, "_TorchApply", (PyObject *)&apply_type)) return -1;
    return PyModule_AddObjectRef(module, "_TorchForward", (PyObject *)&forward_type);
}
