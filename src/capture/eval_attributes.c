/* eval_attributes.c: attributes of values.
 *
 * For tokens this is CPython's algorithm over the real object's class: data descriptors, the object's own attributes,
 * other things of the class, __getattr__; each step guarded, Python code (properties, __getattr__) inlined. A class is
 * guarded by its version when its object is first seen, so what is looked up in it stays. */
#include "capture/evaluate.h"

#include "python/py.h"

#include <string.h>

#define HANDLER(name) int cr_do_##name(cr_capture *c, cr_call_frame *f, const cr_instruction *i)

enum { PUSHED = 0, FOUND = 1, MISSING = 2 };

static int found(PyObject *value, PyObject **out) { return (*out = value) ? FOUND : -1; }

/* ---- of what is itself ---- */

/* Types whose attributes are methods in C and numbers. */
static bool is_builtin_value(PyObject *o) {
    static PyTypeObject *const types[] = { &PyLong_Type,  &PyFloat_Type, &PyComplex_Type, &PyUnicode_Type,
                                           &PyBytes_Type, &PyBool_Type,  &PyTuple_Type,   &PyList_Type,
                                           &PyDict_Type,  &PySet_Type,   &PyFrozenSet_Type, &PyRange_Type,
                                           &PySlice_Type };
    for (size_t i = 0; i < CR_COUNT(types); i++)
        if (Py_IS_TYPE(o, types[i])) return true;
    return false;
}

static int tensor_attribute(cr_capture *c, PyObject *value, PyObject *name, PyObject **out) {
    const cr_frontend *fe = cr_frontend_of(value);
    size_t at;
    if (PyUnicode_CompareWithASCIIString(name, "requires_grad") == 0 && cr_find_known(c, value, &at))
        return found(PyObject_GetAttr(c->known.at[at].real, name), out); /* an input's: its stamp has it */
    if (!fe->is_captured(name))
        return cr_break(c, "the attribute '%U' of a tensor is read, which capture does not follow", name);
    if (found(PyObject_GetAttr(value, name), out) < 0) return -1;
    if (!cr_check_result(c, *out)) return FOUND;
    Py_CLEAR(*out);
    return -1;
}

/* Of a class in C: what is a function in C. */
static int builtin_type_attribute(cr_capture *c, PyObject *type, PyObject *name, PyObject **out) {
    PyObject *raw = _PyType_Lookup((PyTypeObject *)type, name);
    bool method = raw && (Py_IS_TYPE(raw, &PyMethodDescr_Type) || Py_IS_TYPE(raw, &PyClassMethodDescr_Type));
    if (method || PyUnicode_CompareWithASCIIString(name, "__name__") == 0)
        return found(PyObject_GetAttr(type, name), out);
    return cr_break(c, "the attribute '%U' of class %s is read", name, ((PyTypeObject *)type)->tp_name);
}

static int own_attribute(cr_capture *c, PyObject *value, PyObject *name, PyObject **out) {
    if (cr_is_tensor_value(value)) return tensor_attribute(c, value, name, out);
    if (is_builtin_value(value)) {
        if (!_PyType_Lookup(Py_TYPE(value), name)) return MISSING;
        if (PyUnicode_CompareWithASCIIString(name, "__class__") == 0)
            return found(Py_NewRef((PyObject *)Py_TYPE(value)), out);
        return found(PyObject_GetAttr(value, name), out);
    }
    if (PyType_Check(value)) return builtin_type_attribute(c, value, name, out);
    if (!(Py_TYPE(value)->tp_flags & Py_TPFLAGS_HEAPTYPE) && cr_is_held_constant(value) && !PyCFunction_Check(value))
        return found(PyObject_GetAttr(value, name), out); /* a dtype's, a device's */
    if (PyTuple_Check(value) && !(Py_TYPE(value)->tp_flags & Py_TPFLAGS_HEAPTYPE)) /* a size */
        return found(PyObject_GetAttr(value, name), out);
    if (PyTuple_Check(value) && _PyType_Lookup(Py_TYPE(value), name) &&
        Py_IS_TYPE(_PyType_Lookup(Py_TYPE(value), name), &PyMemberDescr_Type))
        return found(PyObject_GetAttr(value, name), out); /* max(x, 0).values: a structure that an op gave */
    return cr_break(c, "the attribute '%U' of an object of class %s is read", name, Py_TYPE(value)->tp_name);
}

/* ---- of tokens ---- */

int cr_bind_class_attribute(cr_capture *c, PyObject *self, PyObject *raw, int32_t source, PyObject **out) {
    PyTypeObject *kind = Py_TYPE(raw);
    PyObject *value;
    if (kind == &PyFunction_Type || kind == &PyMethodDescr_Type) {
        if (!(value = cr_wrap(c, raw, source))) return -1;
        int r = found(PyMethod_New(value, self), out);
        Py_DECREF(value);
        return r;
    }
    if (kind == &PyStaticMethod_Type || kind == &PyClassMethod_Type) {
        if (cr_guard_type(&c->guards, source, kind)) return -1;
        if (!(value = cr_wrap_read(c, CR_READ_INNER, source, raw, NULL, 0))) return -1;
        if (kind == &PyStaticMethod_Type) return found(value, out);
        PyObject *type = cr_wrap_read(c, CR_READ_TYPE, cr_source_of(self), cr_real(self), NULL, 0);
        int r = type ? found(PyMethod_New(value, type), out) : -1;
        Py_XDECREF(type);
        Py_DECREF(value);
        return r;
    }
    if (kind->tp_descr_get) return cr_break(c, "a descriptor of class %s is used", kind->tp_name);
    return found(cr_wrap(c, raw, source), out);
}

static int32_t class_source(cr_capture *c, PyObject *token, PyObject *name) {
    int32_t type = cr_source(&c->guards, CR_READ_TYPE, cr_source_of(token), NULL, 0);
    return type < 0 ? type : cr_source(&c->guards, CR_READ_CLASS, type, name, 0);
}

static int call_getter(cr_capture *c, PyObject *token, PyObject *getter, int32_t source, PyObject *name) {
    PyObject *function = cr_wrap(c, getter, source), *args[2] = { token, name };
    if (!function) return -1;
    if (!cr_is_token(function) || !PyFunction_Check(getter)) {
        Py_DECREF(function);
        return cr_break(c, "a getter that is no Python function is called");
    }
    int failed = cr_push_call(c, function, args, name ? 2 : 1, NULL);
    Py_DECREF(function);
    return failed ? -1 : PUSHED;
}

static bool has_own_getattribute(PyTypeObject *type) {
    static PyObject *name; /* once */
    if (!name && !(name = PyUnicode_InternFromString("__getattribute__"))) return PyErr_Clear(), true;
    return _PyType_Lookup(type, name) != _PyType_Lookup(&PyBaseObject_Type, name);
}

static PyObject *find_getattr(PyTypeObject *type, PyObject **name) {
    static PyObject *text; /* once */
    if (!text && !(text = PyUnicode_InternFromString("__getattr__"))) return PyErr_Clear(), NULL;
    *name = text;
    return _PyType_Lookup(type, text);
}

/* The two data descriptors in C that programs read. 2: another. */
static int special_attribute(cr_capture *c, PyObject *token, PyObject *name, PyObject **out) {
    PyObject *real = cr_real(token);
    if (PyUnicode_CompareWithASCIIString(name, "__class__") == 0)
        return found(cr_wrap_read(c, CR_READ_TYPE, cr_source_of(token), real, NULL, 0), out);
    if (cr_has_stores(c, real)) return cr_break(c, "an object's attributes are set and read as a dict");
    if (PyUnicode_CompareWithASCIIString(name, "__dict__") == 0 && cr_read_now(CR_READ_DICT, real, NULL, 0))
        return found(cr_wrap_read(c, CR_READ_DICT, cr_source_of(token), real, NULL, 0), out);
    return MISSING;
}

static int object_attribute(cr_capture *c, PyObject *token, PyObject *name, PyObject **out) {
    PyObject *real = cr_real(token), *getattr_name = NULL;
    PyTypeObject *type = Py_TYPE(real);
    int32_t at = cr_source_of(token);
    if (has_own_getattribute(type)) return cr_break(c, "class %s has its own __getattribute__", type->tp_name);
    PyObject *raw = _PyType_Lookup(type, name);
    if (raw && Py_TYPE(raw)->tp_descr_set) {
        int special = special_attribute(c, token, name, out);
        if (special != MISSING) return special;
        if (!Py_IS_TYPE(raw, &PyProperty_Type))
            return cr_break(c, "the attribute '%U' of class %s is a descriptor", name, type->tp_name);
        int32_t source = class_source(c, token, name);
        if (source < 0 || cr_guard_type(&c->guards, source, &PyProperty_Type)) return -1;
        PyObject *getter = cr_read_now(CR_READ_INNER, raw, NULL, 0);
        int32_t inner = getter ? cr_source(&c->guards, CR_READ_INNER, source, NULL, 0) : -1;
        if (!getter) return cr_break(c, "the property '%U' cannot be read", name);
        return inner < 0 ? -1 : call_getter(c, token, getter, inner, NULL);
    }
    PyObject *set = cr_find_store(c, real, name), *own = cr_read_now(CR_READ_ATTRIBUTE, real, name, 0);
    if (set) return found(Py_NewRef(set), out);
    if (own) return found(cr_wrap_read(c, CR_READ_ATTRIBUTE, at, real, name, 0), out);
    if (cr_guard_no(&c->guards, at, CR_HOLDS_NO_ATTRIBUTE, name)) return -1;
    if (raw) {
        int32_t source = class_source(c, token, name);
        return source < 0 ? -1 : cr_bind_class_attribute(c, token, raw, source, out);
    }
    PyObject *getattr = find_getattr(type, &getattr_name);
    if (!getattr) return MISSING;
    int32_t source = class_source(c, token, getattr_name);
    return source < 0 ? -1 : call_getter(c, token, getattr, source, name);
}

static int module_attribute(cr_capture *c, PyObject *token, PyObject *name, PyObject **out) {
    PyObject *real = cr_real(token), *dict = PyModule_GetDict(real);
    int32_t at = cr_source(&c->guards, CR_READ_NAMESPACE, cr_source_of(token), NULL, 0);
    if (at < 0) return -1;
    if (cr_has_stores(c, dict)) return cr_break(c, "variables of a module are set and read");
    if (cr_read_now(CR_READ_KEY, dict, name, 0)) return found(cr_wrap_read(c, CR_READ_KEY, at, dict, name, 0), out);
    /* Our package makes names when they are asked for, and keeps them: asked once, they are there. What runs for that
     * is no part of the program. Other modules' code is not run. */
    const char *module = PyModule_GetName(real);
    if (!module) return -1;
    if (strcmp(module, "cresset") && strncmp(module, "cresset.", 8))
        return cr_break(c, "module '%s' has no '%U' of its own", module, name);
    cr_trace_end(c->trace);
    PyObject *made = PyObject_GetAttr(real, name);
    cr_trace_begin(c->trace, true);
    if (!made) return -1;
    Py_DECREF(made);
    if (cr_read_now(CR_READ_KEY, dict, name, 0)) return found(cr_wrap_read(c, CR_READ_KEY, at, dict, name, 0), out);
    return cr_break(c, "module attribute '%U' is computed when it is read", name);
}

static int class_attribute(cr_capture *c, PyObject *token, PyObject *name, PyObject **out) {
    PyTypeObject *type = (PyTypeObject *)cr_real(token);
    PyObject *raw = _PyType_Lookup(type, name);
    if (PyUnicode_CompareWithASCIIString(name, "__name__") == 0)
        return found(cr_wrap_read(c, CR_READ_NAME, cr_source_of(token), (PyObject *)type, NULL, 0), out);
    if (_PyType_Lookup(Py_TYPE(type), name) || Py_TYPE(type)->tp_getattro != PyType_Type.tp_getattro)
        return cr_break(c, "the attribute '%U' of class %s itself is read", name, type->tp_name);
    if (!raw) return MISSING;
    int32_t source = cr_source(&c->guards, CR_READ_CLASS, cr_source_of(token), name, 0);
    if (source < 0) return -1;
    if (Py_IS_TYPE(raw, &PyFunction_Type) || !Py_TYPE(raw)->tp_descr_get) return found(cr_wrap(c, raw, source), out);
    if (Py_IS_TYPE(raw, &PyStaticMethod_Type) || Py_IS_TYPE(raw, &PyClassMethod_Type)) {
        if (cr_guard_type(&c->guards, source, Py_TYPE(raw))) return -1;
        PyObject *inner = cr_wrap_read(c, CR_READ_INNER, source, raw, NULL, 0);
        if (!inner || Py_IS_TYPE(raw, &PyStaticMethod_Type)) return found(inner, out);
        int r = found(PyMethod_New(inner, token), out);
        Py_DECREF(inner);
        return r;
    }
    return cr_break(c, "a descriptor of class %s is used", Py_TYPE(raw)->tp_name);
}

static int method_attribute(cr_capture *c, PyObject *token, PyObject *name, PyObject **out) {
    PyObject *real = cr_real(token);
    if (PyUnicode_CompareWithASCIIString(name, "__self__") == 0)
        return found(cr_wrap_read(c, CR_READ_METHOD_SELF, cr_source_of(token), real, NULL, 0), out);
    if (PyUnicode_CompareWithASCIIString(name, "__func__") == 0)
        return found(cr_wrap_read(c, CR_READ_METHOD_FUNCTION, cr_source_of(token), real, NULL, 0), out);
    return cr_break(c, "the attribute '%U' of a method is read", name);
}

/* A dict from outside: its methods are those of what it unfolds to. */
static int dict_attribute(cr_capture *c, PyObject *token, PyObject *name, PyObject **out) {
    PyObject *dict = cr_unfold(c, token);
    int r = dict ? own_attribute(c, dict, name, out) : -1;
    Py_XDECREF(dict);
    return r;
}

int cr_get_attribute(cr_capture *c, PyObject *value, PyObject *name, PyObject **out) {
    *out = NULL;
    if (c->plain) return found(PyObject_GetAttr(value, name), out);
    if (Py_IS_TYPE(value, &cr_super_type)) return cr_super_attribute(c, value, name, out);
    if (!cr_is_token(value)) return own_attribute(c, value, name, out);
    PyObject *real = cr_real(value);
    if (PyModule_CheckExact(real)) return module_attribute(c, value, name, out);
    if (PyDict_CheckExact(real)) return dict_attribute(c, value, name, out);
    if (PyType_Check(real)) return class_attribute(c, value, name, out);
    if (PyMethod_Check(real)) return method_attribute(c, value, name, out);
    if (PyFunction_Check(real)) return cr_break(c, "the attribute '%U' of a function is read", name);
    return object_attribute(c, value, name, out);
}

/* ---- instructions ---- */

static int missing(cr_capture *c, PyObject *value, PyObject *name) {
    PyObject *real = cr_is_token(value) ? cr_real(value) : value;
    return cr_break(c, "an object of class %s has no attribute '%U'", Py_TYPE(real)->tp_name, name);
}

HANDLER(LOAD_ATTR) {
    PyObject *value = cr_pop(f), *name = PyTuple_GET_ITEM(f->code->co_names, i->arg), *out;
    c->clean = true; /* reading changes nothing */
    int r = cr_get_attribute(c, value, name, &out);
    if (r == MISSING) r = missing(c, value, name);
    if (r == FOUND) cr_push(f, out);
    Py_DECREF(value);
    return r < 0 ? -1 : 0;
}

/* Only where setting is no more than putting into the object's own __dict__. */
static int set_attribute(cr_capture *c, PyObject *token, PyObject *name, PyObject *value) {
    if (!cr_is_token(token))
        return cr_break(c, "an attribute of an object of class %s is set", Py_TYPE(token)->tp_name);
    PyObject *real = cr_real(token);
    PyTypeObject *type = Py_TYPE(real);
    PyObject *raw = _PyType_Lookup(type, name), *dict = cr_read_now(CR_READ_DICT, real, NULL, 0);
    bool has_dict = (type->tp_flags & Py_TPFLAGS_MANAGED_DICT) || type->tp_dictoffset > 0;
    bool plain = type->tp_setattro == PyObject_GenericSetAttr && has_dict && !PyType_Check(real) &&
                 !PyModule_Check(real) && !PyFunction_Check(real) && !(raw && Py_TYPE(raw)->tp_descr_set);
    if (!plain)
        return cr_break(c, "setting the attribute '%U' of an object of class %s runs code", name, type->tp_name);
    if (dict && cr_is_known_object(c, dict)) return cr_break(c, "an object's attributes are set and read as a dict");
    return cr_add_store(c, CR_READ_ATTRIBUTE, real, cr_source_of(token), name, value);
}

HANDLER(STORE_ATTR) {
    PyObject *name = PyTuple_GET_ITEM(f->code->co_names, i->arg), *owner = cr_pop(f), *value = cr_pop(f);
    int failed = c->plain ? PyObject_SetAttr(owner, name, value) : set_attribute(c, owner, name, value);
    Py_DECREF(owner);
    Py_DECREF(value);
    return failed;
}

/* A method is pushed as (function, self), anything else as (NULL, it). */
HANDLER(LOAD_METHOD) {
    PyObject *value = cr_pop(f), *name = PyTuple_GET_ITEM(f->code->co_names, i->arg), *out;
    c->clean = true;
    int r = cr_get_attribute(c, value, name, &out);
    if (r == MISSING) r = missing(c, value, name);
    cr_call_frame *pushed = r == PUSHED ? c->frame : NULL;
    Py_DECREF(value);
    if (r < 0) return -1;
    if (!pushed) cr_push_callable(f, out);
    else if (CR_CALLABLE_FIRST) pushed->gives = CR_GIVES_CALLABLE;
    else cr_push(f, NULL); /* beneath the result of the frame that was pushed */
    return 0;
}
