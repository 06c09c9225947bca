/* shape_type.c: what the export front end needs of a shape environment: symbols of its own making, facts about them,
 * fakes of chosen sizes, and the conditions a program turned out to depend on. */
#include "python/py.h"

#include "trace/trace.h"

static PyObject *bound(int64_t value) {
    if (value == INT64_MIN || value == INT64_MAX) Py_RETURN_NONE;
    return PyLong_FromLongLong(value);
}

static int read_bound(PyObject *o, int64_t unbounded, int64_t *out) {
    *out = unbounded;
    return o == Py_None ? 0 : cr_py_int64(o, "bound", out);
}

static PyObject *number(cr_env *env, cr_sym e) {
    if (!e) return PyErr_NoMemory();
    int64_t value;
    bool truth;
    if (cr_sym_is_int(e, &value)) return PyLong_FromLongLong(value);
    if (cr_sym_is_bool(e, &truth)) return PyBool_FromLong(truth);
    cr_arg a = { .kind = CR_ARG_SYM, .u.sym = e };
    if (cr_sym_type_of(e) == CR_TYPE_INT) a = (cr_arg){ .kind = CR_ARG_INT, .u.i = cr_dim_of(env, e) };
    return cr_py_sym_new(env, a);
}

/* The expression of a SymInt, SymFloat or SymBool; NULL: exception. */
static cr_sym expression(PyObject *o, cr_env **env) {
    cr_arg a;
    if (!cr_py_sym_read(o, &a)) {
        PyErr_Format(PyExc_TypeError, "expected a symbolic number, not %s", Py_TYPE(o)->tp_name);
        return NULL;
    }
    *env = cr_py_sym_env(o);
    return a.kind == CR_ARG_SYM ? a.u.sym : cr_dim_sym(*env, a.u.i);
}

static PyObject *shape_symbol(PyObject *module, PyObject *args) {
    PyObject *mode, *hint, *lo, *hi;
    const char *name;
    int64_t value = 0, low, high;
    (void)module;
    if (!PyArg_ParseTuple(args, "OsOOO:_shape_symbol", &mode, &name, &hint, &lo, &hi)) return NULL;
    cr_fakes *fakes = cr_py_mode_fakes(mode);
    if (!fakes || read_bound(lo, INT64_MIN, &low) || read_bound(hi, INT64_MAX, &high) || read_bound(hint, 0, &value)) return NULL;
    if (cr_sym_find_symbol(fakes->env, name)) return PyErr_Format(PyExc_ValueError, "there is a symbol '%s' already", name);
    cr_sym symbol = cr_sym_symbol(fakes->env, name, CR_TYPE_INT, low, high);
    if (!symbol) return cr_env_recover(fakes->env), PyErr_NoMemory();
    cr_status status = hint == Py_None ? CR_OK : cr_env_set_hint(fakes->env, symbol, value);
    return status ? cr_py_raise(status) : number(fakes->env, symbol);
}

static PyObject *shape_simplify(PyObject *module, PyObject *o) {
    cr_env *env;
    (void)module;
    if (PyLong_Check(o)) return Py_NewRef(o);
    cr_sym e = expression(o, &env);
    return e ? number(env, cr_sym_simplify(env, e)) : NULL;
}

static PyObject *shape_range(PyObject *module, PyObject *o) {
    cr_env *env;
    (void)module;
    cr_sym e = expression(o, &env);
    if (!e) return NULL;
    if (!(e = cr_sym_simplify(env, e))) return PyErr_NoMemory();
    cr_range r = cr_sym_range(env, e);
    return Py_BuildValue("NN", bound(r.lo), bound(r.hi));
}

static PyObject *shape_fake(PyObject *module, PyObject *args) {
    PyObject *mode, *tensor, *sizes;
    cr_dim size[CR_MAX_RANK];
    cr_tensor *fake = NULL;
    (void)module;
    if (!PyArg_ParseTuple(args, "OOO!:_shape_fake", &mode, &tensor, &PyTuple_Type, &sizes)) return NULL;
    cr_fakes *fakes = cr_py_mode_fakes(mode);
    if (!fakes) return NULL;
    if (!cr_py_is_tensor(tensor)) return PyErr_Format(PyExc_TypeError, "_shape_fake() takes a Tensor, not %s", Py_TYPE(tensor)->tp_name);
    cr_tensor *t = cr_py_tensor_of(tensor);
    if (PyTuple_GET_SIZE(sizes) != t->meta.rank) return PyErr_Format(PyExc_ValueError, "%zd sizes for a tensor of %d dimensions", PyTuple_GET_SIZE(sizes), t->meta.rank);
    for (int d = 0; d < t->meta.rank; d++) {
        PyObject *item = PyTuple_GET_ITEM(sizes, d);
        cr_arg a;
        if (!cr_py_sym_read(item, &a)) {
            if (cr_py_int64(item, "size", &size[d])) return NULL;
        } else {
            size[d] = a.kind == CR_ARG_INT ? a.u.i : cr_dim_of(fakes->env, a.u.sym);
        }
    }
    cr_status status = cr_fake_sized(fakes, t, size, &fake);
    return status ? cr_py_raise(status) : cr_py_wrap(fake);
}

static PyObject *shape_equate(PyObject *module, PyObject *args) {
    PyObject *condition;
    cr_env *env;
    (void)module;
    if (!PyArg_ParseTuple(args, "O:_shape_learn", &condition)) return NULL;
    if (PyBool_Check(condition)) return Py_NewRef(condition);
    cr_sym e = expression(condition, &env);
    if (!e) return NULL;
    cr_status status = cr_env_add_cond(env, CR_COND_GUARD, e, "");
    return status ? cr_py_raise(status) : PyBool_FromLong(1);
}

static PyObject *shape_conditions(PyObject *module, PyObject *mode) {
    cr_fakes *fakes = cr_py_mode_fakes(mode);
    (void)module;
    if (!fakes) return NULL;
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < cr_env_cond_count(fakes->env); i++) {
        cr_cond cond = cr_env_cond(fakes->env, i);
        PyObject *item = Py_BuildValue("iNs", (int)cond.kind, number(fakes->env, cond.condition), cond.message);
        if (!item || PyList_Append(list, item)) Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

static PyMethodDef functions[] = {
    { "_shape_symbol", shape_symbol, METH_VARARGS, "_shape_symbol(mode, name, hint, lo, hi): a new symbol; None: no hint, no bound." },
    { "_shape_simplify", shape_simplify, METH_O, "_shape_simplify(number): the number by the facts of now." },
    { "_shape_range", shape_range, METH_O, "_shape_range(number): (lowest, highest); None: unbounded." },
    { "_shape_fake", shape_fake, METH_VARARGS, "_shape_fake(mode, tensor, sizes): a fake of the tensor with these sizes." },
    { "_shape_learn", shape_equate, METH_VARARGS, "_shape_learn(condition): the condition holds from here on." },
    { "_shape_conditions", shape_conditions, METH_O, "_shape_conditions(mode): [(kind, condition, message)] in order." },
    { NULL, NULL, 0, NULL },
};

int cr_py_shape_init(PyObject *module) { return PyModule_AddFunctions(module, functions); }
