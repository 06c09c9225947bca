/* eval_numpy.c: numbers of NumPy's that the program computes of constants.
 *
 * np.sqrt(64) gives an object of NumPy's own class of numbers, which a program uses as a float or int. Such functions
 * are called while capturing, where all of their arguments are numbers that are known; what they give is a constant.
 * They must not raise, nor warn, whatever NumPy is told to do about overflow and its like: a later call would have to
 * do so again. On the left of a tensor NumPy decides what is computed: that is not captured. */
#include "capture/evaluate.h"

#include "python/py.h"

#include <string.h>

static bool is_numpy(const PyTypeObject *type, const char *name) {
    return !strncmp(type->tp_name, "numpy.", 6) && !strcmp(type->tp_name + 6, name) && !cr_is_python_class(type);
}

bool cr_is_numpy_number(PyObject *o) {
    const PyTypeObject *type = Py_TYPE(o);
    return is_numpy(type, "float64") || is_numpy(type, "int64") || is_numpy(type, "bool") || is_numpy(type, "bool_");
}

bool cr_has_numpy_number(PyObject *o) {
    if (cr_is_numpy_number(o)) return true;
    for (Py_ssize_t i = 0; (PyTuple_CheckExact(o) || PyList_CheckExact(o)) && i < PySequence_Fast_GET_SIZE(o); i++)
        if (cr_is_numpy_number(PySequence_Fast_GET_ITEM(o, i))) return true;
    return false;
}

/* Of a number: float(), int() or bool(). */
static PyObject *plain_number(PyObject *o) {
    if (PyFloat_Check(o)) return PyFloat_FromDouble(PyFloat_AS_DOUBLE(o));
    if (is_numpy(Py_TYPE(o), "int64")) return PyNumber_Index(o);
    int truth = PyObject_IsTrue(o);
    return truth < 0 ? NULL : PyBool_FromLong(truth);
}

/* With all that NumPy may warn of raised. New reference; NULL: exception. */
static PyObject *strict_state(void) {
    PyObject *numpy = PyImport_ImportModule("numpy"), *state = NULL;
    PyObject *make = numpy ? PyObject_GetAttrString(numpy, "errstate") : NULL, *none = make ? PyTuple_New(0) : NULL;
    PyObject *how = none ? Py_BuildValue("{s:s}", "all", "raise") : NULL;
    if (how) state = PyObject_Call(make, none, how);
    PyObject *entered = state ? PyObject_CallMethod(state, "__enter__", NULL) : NULL;
    if (state && !entered) Py_CLEAR(state);
    Py_XDECREF(entered), Py_XDECREF(how), Py_XDECREF(none), Py_XDECREF(make), Py_XDECREF(numpy);
    return state;
}

static void leave(PyObject *state) {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyObject *left = PyObject_CallMethod(state, "__exit__", "OOO", Py_None, Py_None, Py_None);
    Py_XDECREF(left);
    PyErr_Clear();
    PyErr_Restore(type, value, traceback);
    Py_DECREF(state);
}

/* What was computed, if it is a number of ours or NumPy's; else a break. */
static PyObject *checked(cr_capture *c, PyObject *result) {
    if (result && (cr_is_numpy_number(result) || cr_is_plain_constant(result))) return result;
    bool own = !PyErr_Occurred() || PyErr_ExceptionMatches(PyExc_Exception);
    if (own) PyErr_Clear(), cr_break(c, "NumPy computes something that is no number, or warns");
    Py_XDECREF(result);
    return NULL;
}

int cr_operate_on_numpy(cr_capture *c, binaryfunc function, PyObject *a, PyObject *b, PyObject **out) {
    bool left = cr_is_numpy_number(a), right = cr_is_numpy_number(b);
    if (!left && !right) return 0;
    if (!left && cr_is_tensor_value(a)) {
        PyObject *number = plain_number(b);
        *out = number ? function(a, number) : NULL;
        Py_XDECREF(number);
        return *out ? 1 : -1;
    }
    if (!cr_is_constant(a) || !cr_is_constant(b) || PyUnicode_Check(a) || PyBytes_Check(a)) {
        if (cr_is_constant(a) && cr_is_constant(b)) return 0; /* a text of it */
        return cr_break(c, "a number of NumPy's is on the left of something that is no constant");
    }
    PyObject *state = strict_state();
    PyObject *result = state ? function(a, b) : NULL;
    if (state) leave(state);
    return (*out = checked(c, result)) ? 1 : -1;
}

/* Functions that compute one number of several. */
static bool reduces(PyObject *function) {
    static const char *const names[] = { "prod", "sum", "mean", "max", "min", "amax", "amin" };
    PyObject *name = strcmp(Py_TYPE(function)->tp_name, "numpy._ArrayFunctionDispatcher")
                         ? NULL
                         : PyObject_GetAttrString(function, "__name__");
    bool is = false;
    for (size_t i = 0; name && PyUnicode_Check(name) && i < CR_COUNT(names); i++)
        is |= PyUnicode_CompareWithASCIIString(name, names[i]) == 0;
    PyErr_Clear();
    Py_XDECREF(name);
    return is;
}

static bool is_known_number(PyObject *o) {
    return PyFloat_CheckExact(o) || PyLong_CheckExact(o) || PyBool_Check(o) || cr_is_numpy_number(o);
}

static bool are_known_numbers(PyObject *o) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); i++)
        if (!is_known_number(PySequence_Fast_GET_ITEM(o, i))) return false;
    return true;
}

bool cr_is_numpy_function(PyObject *real) { return is_numpy(Py_TYPE(real), "ufunc") || reduces(real); }

int cr_call_numpy(cr_capture *c, cr_call_frame *f, PyObject *token, const cr_arguments *a) {
    PyObject *function = cr_real(token), *args = PyTuple_New(a->n);
    bool many = reduces(function), known = args && a->n && !a->kwnames;
    for (Py_ssize_t k = 0; args && k < a->n; k++) {
        PyObject *value = cr_settled(c, a->at[k]);
        if (!value) return Py_DECREF(args), -1;
        PyTuple_SET_ITEM(args, k, value);
        bool list = many && !k && (PyTuple_CheckExact(value) || PyList_CheckExact(value));
        known = known && (list ? are_known_numbers(value) : !many && is_known_number(value));
    }
    if (!args) return -1;
    if (!known) {
        Py_DECREF(args);
        return cr_break(c, "a function of NumPy's is called on something else than numbers that are known");
    }
    int failed = cr_guard_object(&c->guards, cr_source_of(token), CR_HOLDS_IS, function);
    PyObject *state = failed ? NULL : strict_state(), *result = state ? PyObject_Call(function, args, NULL) : NULL;
    if (state) leave(state);
    Py_DECREF(args);
    if (failed || !(result = checked(c, result))) return -1;
    return cr_push(f, result), 0;
}
