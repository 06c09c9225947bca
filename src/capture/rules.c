/* rules.c: functions about which the program has said what captures do with them (cresset._dynamo.rules).
 *
 * A Python function carries its rule in its __dict__, so a function without one costs a look at a NULL pointer.
 * Functions in C that something stands in for are found by name in a dict of that module. Marks are set once, where
 * functions are defined; who changes one later calls reset(). */
#include "capture/evaluate.h"

#include "python/py.h"

#include <string.h>

bool cr_has_substitutes, cr_only_compliant;

static PyObject *rule_of(PyObject *function) {
    static PyObject *name, *theirs, *constant; /* once; theirs: what assume_constant_result() of PyTorch leaves */
    PyObject *dict = PyFunction_Check(function) ? ((PyFunctionObject *)function)->func_dict : NULL;
    if (!dict || (!name && !(name = PyUnicode_InternFromString("_cresset_rule"))) ||
        (!theirs && !(theirs = PyUnicode_InternFromString("_dynamo_marked_constant"))) ||
        (!constant && !(constant = PyUnicode_InternFromString("constant"))))
        return NULL;
    PyObject *rule = PyDict_GetItemWithError(dict, name);
    if (rule || PyErr_Occurred()) return rule && PyUnicode_Check(rule) ? rule : NULL;
    return PyDict_GetItemWithError(dict, theirs) == Py_True ? constant : NULL;
}

bool cr_is_left_alone(PyObject *function) {
    PyObject *rule = rule_of(function);
    if (!rule) PyErr_Clear();
    return rule && (!PyUnicode_CompareWithASCIIString(rule, "leave") ||
                    !PyUnicode_CompareWithASCIIString(rule, "transform")); /* run whole, or not at all */
}

/* What the program says about it; NULL: nothing. Borrowed. */
static PyObject *words(PyObject *const *args, Py_ssize_t nargs, Py_ssize_t k) {
    PyObject *text = k < nargs ? args[k] : NULL;
    if (text && cr_is_token(text)) text = cr_real(text);
    return text && PyUnicode_CheckExact(text) && PyUnicode_GET_LENGTH(text) ? text : NULL;
}

bool cr_break_as_asked(cr_capture *c, PyObject *callable, PyObject *const *args, Py_ssize_t nargs) {
    if (!PyCFunction_CheckExact(callable)) return false;
    const char *name = ((PyCFunctionObject *)callable)->m_ml->ml_name;
    if (!strcmp(name, "_graph_break")) {
        PyObject *why = words(args, nargs, 0);
        cr_break(c, "graph_break() is called%s%V", why ? ": " : "", why, "");
        return true;
    }
    if (strcmp(name, "_call_plain") || !nargs) return false;
    PyObject *function = cr_is_token(args[0]) ? cr_real(args[0]) : args[0], *why = words(args, nargs, 4);
    PyObject *shown = PyFunction_Check(function) ? ((PyFunctionObject *)function)->func_qualname : NULL;
    cr_break(c, "%V() is called, which disable() keeps out of captures%s%V", shown, "something", why ? ": " : "", why,
             "");
    return true;
}

/* Values that a function which ran by itself may leave behind. */
static bool is_known_value(PyObject *value, int depth) {
    if (cr_is_tensor_value(value) || cr_is_constant(value) || Py_IS_TYPE(value, &cr_py_held_type)) return true;
    if (!depth) return false;
    if ((PyTuple_Check(value) && !cr_is_python_class(Py_TYPE(value))) || PyList_CheckExact(value)) {
        for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); i++)
            if (!is_known_value(PySequence_Fast_GET_ITEM(value, i), depth - 1)) return false;
        return true;
    }
    PyObject *key, *item;
    if (!PyDict_CheckExact(value)) return false;
    for (Py_ssize_t at = 0; PyDict_Next(value, &at, &key, &item);)
        if (!cr_is_constant(key) || !is_known_value(item, depth - 1)) return false;
    return true;
}

bool cr_is_known_value(PyObject *value) { return is_known_value(value, 8); }

static int push_known(cr_capture *c, cr_call_frame *f, PyObject *function, PyObject *result) {
    if (!result) return -1;
    if (is_known_value(result, 8)) return cr_push(f, result), 0;
    cr_break(c, "%U() returns an object of class %s, which a graph cannot hold",
             ((PyFunctionObject *)function)->func_qualname, Py_TYPE(result)->tp_name);
    Py_DECREF(result);
    return -1;
}

/* allow_in_graph: CPython runs it on the fakes, and the ops that it calls are recorded. */
static int call_recorded(cr_capture *c, cr_call_frame *f, PyObject *function, PyObject *const *args, Py_ssize_t nargs,
                         PyObject *kwnames) {
    Py_ssize_t total = nargs + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0);
    for (Py_ssize_t i = 0; i < total; i++)
        if (!is_known_value(args[i], 8))
            return cr_break(c,
                            "%U(), which is allowed in graphs, is called with an object of class %s: give it tensors, "
                            "numbers and containers of those",
                            ((PyFunctionObject *)function)->func_qualname, Py_TYPE(cr_real(args[i]))->tp_name);
    return push_known(c, f, function, PyObject_Vectorcall(function, args, (size_t)nargs, kwnames));
}

/* cond(), _check() and the like, whose numbers are symbolic: CPython runs it, and what it calls of the program's is
 * evaluated. `checks`: that is only asked for the text of an error, which the call raises when it runs plain. */
static int run_on_symbols(cr_capture *c, cr_call_frame *f, PyObject *function, const cr_arguments *a, bool checks) {
    Py_ssize_t total = a->n + (a->kwnames ? PyTuple_GET_SIZE(a->kwnames) : 0), k = 0;
    PyObject **given = PyMem_Calloc((size_t)total + 1, sizeof *given);
    if (!given) return PyErr_NoMemory(), -1;
    for (; k < total; k++) {
        bool calls = (PyCFunction_Check(a->at[k]) || !is_known_value(a->at[k], 8)) && !cr_is_open(a->at[k]) &&
                     cr_may_be_called(a->at[k]);
        if (calls && checks) given[k] = Py_NewRef((PyObject *)&PyUnicode_Type); /* str() is "" */
        else if (!(given[k] = calls ? cr_callback_new(c, a->at[k]) : cr_operand(c, a->at[k]))) break;
    }
    c->on_tensors = true;
    PyObject *result = k == total ? PyObject_Vectorcall(function, given, (size_t)a->n, a->kwnames) : NULL;
    while (k--) Py_DECREF(given[k]);
    PyMem_Free(given);
    return result ? cr_push(f, result), 0 : -1;
}

int cr_call_run(cr_capture *c, cr_call_frame *f, PyObject *function, const cr_arguments *a) {
    return run_on_symbols(c, f, function, a, false);
}

static bool lack_examples(const cr_capture *c, const cr_arguments *a) {
    bool any = false;
    for (Py_ssize_t i = 0; i < a->n; i++) any |= cr_lacks_example(c, a->at[i]);
    return any;
}

int cr_call_symbolic(cr_capture *c, cr_call_frame *f, PyObject *function, const cr_arguments *a) {
    bool any = lack_examples(c, a);
    return c->tracer || any ? run_on_symbols(c, f, function, a, any) : 1;
}

/* assume_constant_result: called now, for real; what it gives is a constant of the capture. */
static int call_once(cr_capture *c, cr_call_frame *f, PyObject *function, PyObject *const *args, Py_ssize_t nargs,
                     PyObject *kwnames) {
    Py_ssize_t total = nargs + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0);
    PyObject **real = PyMem_Malloc(((size_t)total + 1) * sizeof *real);
    if (!real) return PyErr_NoMemory(), -1;
    for (Py_ssize_t i = 0; i < total; i++) {
        real[i] = cr_is_token(args[i]) ? cr_real(args[i]) : args[i];
        if (cr_is_token(args[i]) || cr_is_constant(args[i])) continue;
        PyMem_Free(real);
        return cr_break(c, "%U(), whose result is said to be constant, is called with a %s that the program computes",
                        ((PyFunctionObject *)function)->func_qualname, Py_TYPE(args[i])->tp_name);
    }
    cr_call_mode paused = cr_pause(c);
    PyObject *result = PyObject_Vectorcall(function, real, (size_t)nargs, kwnames);
    cr_go_on(paused);
    PyMem_Free(real);
    if (result && !cr_is_constant(result)) {
        cr_break(c,
                 "%U(), whose result is said to be constant, returns an object of class %s: only numbers, texts and "
                 "containers of those can be",
                 ((PyFunctionObject *)function)->func_qualname, Py_TYPE(result)->tp_name);
        Py_CLEAR(result);
    }
    return result ? cr_push(f, result), 0 : -1;
}

/* What stands in for `name`, as a value that guards know. NULL: nothing, or an exception or break. */
static PyObject *substitute(cr_capture *c, PyObject *name) {
    static const char module_name[] = "cresset._dynamo.rules";
    PyObject *modules = PyImport_GetModuleDict(), *module = PyDict_GetItemString(modules, module_name);
    PyObject *dict = module ? PyDict_GetItemString(PyModule_GetDict(module), "_substitutes") : NULL;
    PyObject *found = dict ? PyDict_GetItemWithError(dict, name) : NULL;
    if (!found) return NULL;
    PyObject *key = PyUnicode_InternFromString(module_name), *attribute = PyUnicode_InternFromString("_substitutes");
    int32_t at = key && attribute ? cr_source(&c->guards, CR_READ_MODULE, 0, key, 0) : CR_NO_SLOT;
    if (at >= 0) at = cr_source(&c->guards, CR_READ_NAMESPACE, at, NULL, 0);
    if (at >= 0) at = cr_source(&c->guards, CR_READ_KEY, at, attribute, 0);
    PyObject *value = at >= 0 ? cr_wrap_read(c, CR_READ_KEY, at, dict, name, 0) : NULL;
    Py_XDECREF(key);
    Py_XDECREF(attribute);
    return value;
}

static int call_substitute(cr_capture *c, cr_call_frame *f, PyObject *name, PyObject *const *args, Py_ssize_t nargs,
                           PyObject *kwnames) {
    PyObject *instead = name ? substitute(c, name) : NULL;
    if (!instead) return PyErr_Occurred() || c->reason ? -1 : 1;
    int r = cr_call_value(c, f, instead, args, nargs, kwnames);
    Py_DECREF(instead);
    return r;
}

static PyObject *full_name(PyObject *module, PyObject *name) {
    return module && PyUnicode_Check(module) ? PyUnicode_FromFormat("%U.%U", module, name) : NULL;
}

int cr_call_by_rule(cr_capture *c, cr_call_frame *f, PyObject *token, PyObject *const *args, Py_ssize_t nargs,
                    PyObject *kwnames) {
    PyObject *function = cr_real(token), *rule = c->plain ? NULL : rule_of(function), *name;
    if (!rule) return PyErr_Occurred() ? -1 : 1;
    if (!PyUnicode_CompareWithASCIIString(rule, "region") || !PyUnicode_CompareWithASCIIString(rule, "transform")) {
        bool held = c->tracer || !cr_guard_object(&c->guards, cr_source_of(token), CR_HOLDS_IS, function);
        return held ? cr_call_region(c, f, function, &(cr_arguments){ args, nargs, kwnames }) : -1;
    }
    if (!PyUnicode_CompareWithASCIIString(rule, "run")) {
        cr_arguments a = { args, nargs, kwnames };
        if (lack_examples(c, &a) && cr_guard_object(&c->guards, cr_source_of(token), CR_HOLDS_IS, function)) return -1;
        return cr_call_symbolic(c, f, function, &a);
    }
    if (cr_sets_context(c)) return cr_break(c, "a function runs by itself while the program sets a ContextVar");
    /* nobody looks into it, so all of it is guarded: closure and defaults, too. The entry holds it */
    if (cr_guard_object(&c->guards, cr_source_of(token), CR_HOLDS_IS, function)) return -1;
    if (!PyUnicode_CompareWithASCIIString(rule, "record")) return call_recorded(c, f, function, args, nargs, kwnames);
    if (!PyUnicode_CompareWithASCIIString(rule, "constant")) return call_once(c, f, function, args, nargs, kwnames);
    if (!PyUnicode_CompareWithASCIIString(rule, "leave"))
        return cr_break(c, "%U() is called, which is not allowed in graphs (disallow_in_graph)",
                        ((PyFunctionObject *)function)->func_qualname);
    name = full_name(((PyFunctionObject *)function)->func_module, ((PyFunctionObject *)function)->func_qualname);
    int r = call_substitute(c, f, name, args, nargs, kwnames);
    Py_XDECREF(name);
    return r;
}

int cr_call_cached(cr_capture *c, cr_call_frame *f, PyObject *token, const cr_arguments *a) {
    PyObject *name = PyUnicode_InternFromString("__wrapped__"), *inner = NULL;
    int r = name ? cr_get_attribute(c, token, name, &inner) : -1;
    Py_XDECREF(name);
    bool ruled = r == 1 && cr_is_token(inner) && rule_of(cr_real(inner));
    if (ruled) r = cr_call_by_rule(c, f, inner, a->at, a->n, a->kwnames);
    else if (r >= 0 && !PyErr_Occurred()) r = cr_call_by_cache(c, f, token, inner, a);
    Py_XDECREF(inner);
    return PyErr_Occurred() ? -1 : r;
}

int cr_call_substituted(cr_capture *c, cr_call_frame *f, PyObject *builtin, PyObject *const *args, Py_ssize_t nargs,
                        PyObject *kwnames) {
    if (!cr_has_substitutes || !PyCFunction_Check(builtin)) return 1;
    const PyCFunctionObject *function = (PyCFunctionObject *)builtin;
    PyObject *name = PyUnicode_FromString(function->m_ml->ml_name), *full = name ? full_name(function->m_module, name)
                                                                                 : NULL;
    int r = call_substitute(c, f, full, args, nargs, kwnames);
    Py_XDECREF(name);
    Py_XDECREF(full);
    return r;
}
