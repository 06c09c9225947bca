/* check.c: what the tests ask of the op table beyond calling ops: the same call on fake tensors (static or symbolic),
 * by its decomposition instead of its kernel, and its derivative. Everything works on one bound call: (op name, args,
 * kwargs). */
#include "python/py.h"

#include "ops/formula.h"
#include "ops/reverse.h"

typedef struct bound {
    cr_py_frame frame;
    const cr_op *op;
    cr_binding binding;
} bound;

/* Binds Python arguments to one op. On failure an exception is set; dispose in any case. */
static int bind_call(bound *b, const char *name, PyObject *args, PyObject *kwargs) {
    cr_py_frame_init(&b->frame);
    b->op = cr_op_find(name);
    if (!b->op) {
        PyErr_Format(PyExc_AttributeError, "there is no op '%s'", name);
        return -1;
    }
    cr_arg given[CR_MAX_PARAMS];
    cr_keyword keywords[CR_MAX_PARAMS];
    Py_ssize_t n = PyTuple_GET_SIZE(args), m = 0, at = 0;
    PyObject *key, *value;
    if (n > CR_MAX_PARAMS || PyDict_GET_SIZE(kwargs) > CR_MAX_PARAMS) {
        PyErr_SetString(PyExc_TypeError, "too many arguments");
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        int kind = cr_py_convert(&b->frame, PyTuple_GET_ITEM(args, i), &given[i]);
        if (kind > 0) PyErr_Format(PyExc_TypeError, "%s: argument %zd is of no kind that ops take", name, i);
        if (kind) return -1;
    }
    while (PyDict_Next(kwargs, &at, &key, &value)) {
        keywords[m].name = PyUnicode_AsUTF8(key);
        int kind = keywords[m].name ? cr_py_convert(&b->frame, value, &keywords[m].value) : -1;
        if (kind > 0) PyErr_Format(PyExc_TypeError, "%s: argument '%U' is of no kind that ops take", name, key);
        if (kind) return -1;
        m++;
    }
    cr_status status = cr_bind(b->op, true, given, (size_t)n, keywords, (size_t)m, &b->frame.arena, &b->binding);
    return status ? cr_py_fail(status) : 0;
}

/* ---- fake ---- */

/* One symbol per size: equal sizes share it, 0 and 1 stay plain. */
static cr_dim symbol_for(cr_env *env, int64_t size) {
    char name[32];
    if (size < 2) return size;
    snprintf(name, sizeof name, "s%lld", (long long)size);
    cr_sym s = cr_sym_symbol(env, name, CR_TYPE_INT, 2, INT64_MAX);
    return s && !cr_env_set_hint(env, s, size) ? cr_dim_of(env, s) : CR_DIM_OVERFLOW;
}

/* The meta with symbolic sizes. Strides that are products of the sizes inside them stay so. */
static cr_status symbolic_meta(cr_env *env, const cr_meta *from, cr_meta *to) {
    cr_meta_copy(to, from);
    for (int d = 0; d < from->rank; d++) to->size[d] = symbol_for(env, from->size[d]);
    for (int d = 0; d < from->rank; d++) {
        for (int inner = 0; inner < from->rank; inner++) { /* stride[d] = stride[inner] * size[inner]? */
            if (inner == d || from->size[inner] < 2 || from->stride[inner] * from->size[inner] != from->stride[d] ||
                from->stride[inner] >= from->stride[d])
                continue;
            to->stride[d] = cr_dim_mul(env, to->stride[inner], to->size[inner]);
        }
    }
    /* outer strides follow inner ones that were set later */
    for (int pass = 0; pass < from->rank; pass++)
        for (int d = 0; d < from->rank; d++)
            for (int inner = 0; inner < from->rank; inner++)
                if (inner != d && from->size[inner] >= 2 && from->stride[inner] < from->stride[d] &&
                    from->stride[inner] * from->size[inner] == from->stride[d])
                    to->stride[d] = cr_dim_mul(env, to->stride[inner], to->size[inner]);
    return cr_env_failed(env) ? CR_ENOMEM : CR_OK;
}

typedef struct fakes { cr_env *env; cr_tensor *real[64], *fake[64]; int n; bool symbolic; } fakes;

static cr_status fake_arg(fakes *f, cr_arena *arena, cr_arg *a) {
    if (a->kind == CR_ARG_LIST) {
        cr_arg *items = cr_arena_copy(arena, a->u.list, a->n * sizeof *items);
        if (!items) return CR_ENOMEM;
        for (uint32_t i = 0; i < a->n; i++) CR_TRY(fake_arg(f, arena, &items[i]));
        a->u.list = items;
        return CR_OK;
    }
    if (a->kind != CR_ARG_TENSOR) return CR_OK;
    for (int i = 0; i < f->n; i++)
        if (f->real[i] == a->u.t) return a->u.t = f->fake[i], CR_OK;
    if (f->n == (int)CR_COUNT(f->real)) return CR_FAIL(CR_EVALUE, "too many tensors");
    cr_meta meta;
    if (f->symbolic) CR_TRY(symbolic_meta(f->env, &a->u.t->meta, &meta));
    else cr_meta_copy(&meta, &a->u.t->meta);
    cr_tensor *fake = NULL;
    CR_TRY(cr_tensor_create_fake(f->env, &meta, &fake));
    fake->meta.flags = a->u.t->meta.flags;
    f->real[f->n] = a->u.t;
    f->fake[f->n++] = fake;
    a->u.t = fake;
    return CR_OK;
}

/* A size for comparison with the real run: the number, or None when it depends on data. */
static PyObject *hint(cr_env *env, cr_dim d) {
    int64_t value;
    if (cr_dim_hint(env, d, &value)) return PyLong_FromLongLong(value);
    Py_RETURN_NONE;
}

static PyObject *hints(cr_env *env, int n, const cr_dim *dims) {
    PyObject *list = PyList_New(n);
    for (int i = 0; list && i < n; i++) {
        PyObject *item = hint(env, dims[i]);
        if (!item) Py_CLEAR(list);
        else PyList_SET_ITEM(list, i, item);
    }
    return list;
}

/* (dtype, size, stride, offset, index of the argument tensor whose storage it shares or -1) */
static PyObject *describe(const fakes *f, const cr_arg *a) {
    if (a->kind == CR_ARG_LIST) {
        PyObject *list = PyList_New(a->n);
        for (uint32_t i = 0; list && i < a->n; i++) {
            PyObject *item = describe(f, &a->u.list[i]);
            if (!item) Py_CLEAR(list);
            else PyList_SET_ITEM(list, i, item);
        }
        return list;
    }
    if (a->kind != CR_ARG_TENSOR) Py_RETURN_NONE;
    const cr_meta *m = &a->u.t->meta;
    int alias = -1;
    for (int i = 0; i < f->n && alias < 0; i++)
        if (f->fake[i]->storage == a->u.t->storage) alias = i;
    return Py_BuildValue("(NNNNi)", cr_py_dtype_get(m->dtype), hints(f->env, m->rank, m->size),
                         hints(f->env, m->rank, m->stride), hint(f->env, m->offset), alias);
}

static PyObject *fake_call(PyObject *module, PyObject *all) {
    (void)module;
    const char *name;
    PyObject *args, *kwargs, *out = NULL;
    int symbolic;
    bound b;
    if (!PyArg_ParseTuple(all, "sO!O!p", &name, &PyTuple_Type, &args, &PyDict_Type, &kwargs, &symbolic)) return NULL;
    fakes f = { .symbolic = symbolic };
    cr_arg results[16] = { { 0 } };
    cr_status status = CR_OK;
    if (bind_call(&b, name, args, kwargs)) goto done;
    status = cr_env_create(&f.env);
    for (uint16_t i = 0; i < b.op->schema.nparams && !status; i++)
        status = fake_arg(&f, &b.frame.arena, &b.binding.args[i]);
    cr_call_mode *mode = &cr_ambient_get()->mode, saved = *mode;
    *mode = (cr_call_mode){ .fake = true, .env = f.env };
    if (!status) status = cr_call(b.op, b.binding.args, results);
    *mode = saved;
    if (status) cr_py_raise(status);
    else {
        out = PyList_New(b.op->schema.nreturns);
        for (uint16_t i = 0; out && i < b.op->schema.nreturns; i++) {
            PyObject *item = describe(&f, &results[i]);
            if (!item) Py_CLEAR(out);
            else PyList_SET_ITEM(out, i, item);
        }
        cr_results_release(results, b.op->schema.nreturns);
    }
done:
    for (int i = 0; i < f.n; i++) cr_tensor_release(f.fake[i]);
    cr_env_release(f.env);
    cr_py_frame_dispose(&b.frame);
    return out;
}

/* ---- decomposition ---- */

static PyObject *decompose(PyObject *module, PyObject *all) {
    (void)module;
    const char *name;
    PyObject *args, *kwargs, *out = NULL;
    bound b;
    if (!PyArg_ParseTuple(all, "sO!O!", &name, &PyTuple_Type, &args, &PyDict_Type, &kwargs)) return NULL;
    if (!bind_call(&b, name, args, kwargs)) {
        cr_arg results[16] = { { 0 } };
        cr_status status = cr_decomp_expand(cr_exec_emitter(), b.op, b.binding.args, results);
        out = status ? cr_py_raise(status) : cr_py_results(b.op, results, CR_PY_OVERLOAD);
    }
    cr_py_frame_dispose(&b.frame);
    return out;
}

/* ---- derivatives: gradients of all tensor arguments ---- */

static int convert_list(bound *b, PyObject *list, size_t n, cr_arg *out) {
    for (size_t i = 0; i < n; i++) {
        int kind = cr_py_convert(&b->frame,
                                 i < (size_t)PyList_GET_SIZE(list) ? PyList_GET_ITEM(list, (Py_ssize_t)i) : Py_None,
                                 &out[i]);
        if (kind > 0) PyErr_SetString(PyExc_TypeError, "a gradient must be a tensor, a list of tensors or None");
        if (kind) return -1;
    }
    return 0;
}

/* Consumes the arguments. */
static PyObject *to_list(cr_arg *args, size_t n) {
    PyObject *out = PyList_New((Py_ssize_t)n);
    for (size_t i = 0; out && i < n; i++) {
        PyObject *item = cr_py_from_arg(&args[i], true);
        if (!item) Py_CLEAR(out);
        else PyList_SET_ITEM(out, (Py_ssize_t)i, item);
    }
    cr_results_release(args, n);
    return out;
}

/* (name, args, kwargs, grads) for the gradients, of the parameters in the list `wanted` only when it is given; and
 * `weights` too for the gradients of sum <gradient, weight>. */
static PyObject *derive(PyObject *all, bool twice) {
    const char *name;
    PyObject *args, *kwargs, *gradients, *factors = NULL, *wanted = NULL, *out = NULL;
    bound b;
    if (twice ? !PyArg_ParseTuple(all, "sO!O!O!O!|O!", &name, &PyTuple_Type, &args, &PyDict_Type, &kwargs, &PyList_Type,
                                  &gradients, &PyList_Type, &factors, &PyList_Type, &wanted)
              : !PyArg_ParseTuple(all, "sO!O!O!|O!", &name, &PyTuple_Type, &args, &PyDict_Type, &kwargs, &PyList_Type,
                                  &gradients, &PyList_Type, &wanted))
        return NULL;
    cr_arg results[16] = { { 0 } }, grads[16], weights[CR_MAX_PARAMS], grad_out[CR_MAX_PARAMS] = { { 0 } };
    bool needs[CR_MAX_PARAMS];
    if (bind_call(&b, name, args, kwargs)) goto done;
    uint16_t nreturns = b.op->schema.nreturns, nparams = b.op->schema.nparams;
    if (convert_list(&b, gradients, nreturns, grads) || (twice && convert_list(&b, factors, nparams, weights)))
        goto done;
    for (uint16_t i = 0; i < nparams; i++) { /* floating tensors only */
        const cr_arg *a = &b.binding.args[i], *first = a->kind == CR_ARG_LIST && a->n ? &a->u.list[0] : a;
        const cr_meta *m = cr_arg_meta(first);
        needs[i] = m && !cr_dtype_is_integral(m->dtype);
        if (needs[i] && wanted) {
            PyObject *parameter = PyUnicode_FromString(b.op->schema.params[i].name);
            int found = parameter ? PySequence_Contains(wanted, parameter) : -1;
            Py_XDECREF(parameter);
            if (found < 0) goto done;
            needs[i] = found;
        }
    }
    cr_status status = twice ? cr_reverse_twice(b.op, b.binding.args, grads, needs, weights, grad_out, results)
                             : cr_reverse_call(b.op, b.binding.args, grads, needs, results, grad_out);
    if (status) cr_py_raise(status);
    else {
        out = to_list(grad_out, nparams);
        cr_results_release(results, nreturns);
    }
done:
    cr_py_frame_dispose(&b.frame);
    return out;
}

static PyObject *derivative(PyObject *module, PyObject *all) {
    (void)module;
    return derive(all, false);
}
static PyObject *second_derivative(PyObject *module, PyObject *all) {
    (void)module;
    return derive(all, true);
}

static PyMethodDef methods[] = {
    { "_fake_call", fake_call, METH_VARARGS,
      "_fake_call(name, args, kwargs, symbolic): the results' (dtype, size, stride, offset, alias), without data." },
    { "_decompose", decompose, METH_VARARGS,
      "_decompose(name, args, kwargs): the call by its decomposition instead of its kernel." },
    { "_derivative", derivative, METH_VARARGS,
      "_derivative(name, args, kwargs, grads, wanted=None): gradients of the arguments, or of those named." },
    { "_second_derivative", second_derivative, METH_VARARGS,
      "_second_derivative(name, args, kwargs, grads, weights, wanted=None): gradients of the sum of <gradient, "
      "weight>." },
    { NULL, NULL, 0, NULL },
};

int cr_py_check_init(PyObject *module) { return PyModule_AddFunctions(module, methods); }
