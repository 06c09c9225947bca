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
                                           &PySlice_Type, &PyODict_Type };
    for (size_t i = 0; i < CR_COUNT(types); i++)
        if (Py_IS_TYPE(o, types[i])) return true;
    return !strcmp(Py_TYPE(o)->tp_name, "collections.deque") || cr_is_defaultdict(Py_TYPE(o));
}

/* Methods that give numbers, or sizes, of a tensor's data: symbols, in an export. */
static bool reads_data(PyObject *name) {
    static const char *const names[] = { "item", "tolist", "nonzero", "unique" };
    for (size_t i = 0; i < CR_COUNT(names); i++)
        if (PyUnicode_CompareWithASCIIString(name, names[i]) == 0) return true;
    return false;
}

static int tensor_attribute(cr_capture *c, PyObject *value, PyObject *name, PyObject **out) {
    const cr_frontend *fe = c->frontend ? c->frontend : cr_frontend_of(value);
    size_t at;
    int part = fe->part && !c->tracer ? cr_part_of_tensor(c, value, name, out) : 2;
    if (part != 2) return part;
    if (!c->tracer && fe->has_row && fe->has_row(name)) { /* a method in C, called as such */
        PyObject *raw = _PyType_Lookup(cr_class_of(c, value), name);
        if (raw && Py_IS_TYPE(raw, &PyMethodDescr_Type)) return found(PyMethod_New(raw, value), out);
    }
    if (PyUnicode_CompareWithASCIIString(name, "requires_grad") == 0 && fe->borrow && !c->grad)
        return cr_break(c, "requires_grad is asked for while gradients are off");
    if (PyUnicode_CompareWithASCIIString(name, "__class__") == 0 && fe->borrow)
        return found(cr_find_known(c, value, &at) ? cr_wrap_read(c, CR_READ_TYPE, c->known.at[at].source,
                                                                 c->known.at[at].real, NULL, 0)
                                                  : cr_class_of_result(c), out);
    if (PyUnicode_CompareWithASCIIString(name, "requires_grad") == 0 && cr_find_known(c, value, &at))
        return found(PyObject_GetAttr(c->known.at[at].real, name), out); /* an input's: its stamp has it */
    if (fe->borrow && !_PyType_Lookup(cr_class_of(c, value), name)) {
        if (!cr_find_known(c, value, &at)) return MISSING;
        PyObject *dict = cr_read_now(CR_READ_DICT, c->known.at[at].real, NULL, 0);
        int32_t source = c->known.at[at].source;
        if (!dict || !PyDict_Check(dict) || PyDict_GET_SIZE(dict) == 0)
            return cr_guard_no(&c->guards, source, CR_HOLDS_NO_ATTRIBUTE, name) ? -1 : MISSING;
        if (cr_read_now(CR_READ_KEY, dict, name, 0) && !cr_unfolded(c, dict) && !cr_has_stores(c, dict)) {
            if ((source = cr_source(&c->guards, CR_READ_DICT, source, NULL, 0)) < 0) return -1;
            return found(cr_wrap_read(c, CR_READ_KEY, source, dict, name, 0), out);
        }
    }
    bool exported = c->tracer ? !fe->borrow || reads_data(name) /* an exporter's fakes know what to answer */
                              : c->follows && reads_data(name);
    if (!exported && !fe->is_captured(name))
        return cr_break(c, "the attribute '%U' of a tensor is read, which capture does not follow", name);
    if (found(PyObject_GetAttr(value, name), out) < 0 || !(*out = cr_translate(c, *out))) return -1;
    if (!cr_check_result(c, *out)) return FOUND;
    Py_CLEAR(*out);
    return -1;
}

/* Of a class in C: what is a function in C. */
static int builtin_type_attribute(cr_capture *c, PyObject *type, PyObject *name, PyObject **out) {
    PyObject *raw = _PyType_Lookup((PyTypeObject *)type, name);
    bool method = raw && (Py_IS_TYPE(raw, &PyMethodDescr_Type) || Py_IS_TYPE(raw, &PyClassMethodDescr_Type) ||
                          Py_IS_TYPE(raw, &PyWrapperDescr_Type) || Py_IS_TYPE(raw, &PyStaticMethod_Type) ||
                          (PyCFunction_CheckExact(raw) && PyUnicode_CompareWithASCIIString(name, "__new__") == 0));
    if (method || PyUnicode_CompareWithASCIIString(name, "__name__") == 0)
        return found(PyObject_GetAttr(type, name), out);
    return cr_break(c, "the attribute '%U' of class %s is read", name, ((PyTypeObject *)type)->tp_name);
}

/* Of a function that the program made: its texts, and what was put into its __dict__. */
static int made_function_attribute(cr_capture *c, PyObject *value, PyObject *name, PyObject **out) {
    if (cr_is_text_of_function(name) || !PyUnicode_CompareWithASCIIString(name, "__dict__") ||
        !PyUnicode_CompareWithASCIIString(name, "__code__"))
        return found(PyObject_GetAttr(value, name), out);
    if (_PyType_Lookup(&PyFunction_Type, name))
        return cr_break(c, "the attribute '%U' of a function is read", name);
    PyObject *dict = ((PyFunctionObject *)value)->func_dict;
    PyObject *own = dict ? PyDict_GetItemWithError(dict, name) : NULL;
    return own ? found(Py_NewRef(own), out) : PyErr_Occurred() ? -1 : MISSING;
}

static int own_attribute(cr_capture *c, PyObject *value, PyObject *name, PyObject **out) {
    if (cr_is_open(value)) {
        PyObject *settled = cr_settled(c, value);
        int r = settled ? own_attribute(c, settled, name, out) : -1;
        Py_XDECREF(settled);
        return r;
    }
    if (cr_is_tensor_value(value)) return c->on_tensors = true, tensor_attribute(c, value, name, out);
    if (cr_is_generator(value)) {
        if (!_PyType_Lookup(Py_TYPE(value), name))
            return cr_break(c, "the attribute '%U' of a generator is read", name);
        return found(PyObject_GetAttr(value, name), out);
    }
    if (PyMethod_Check(value) && PyUnicode_CompareWithASCIIString(name, "__self__") == 0)
        return found(Py_NewRef(PyMethod_GET_SELF(value)), out);
    if (PyMethod_Check(value) && PyUnicode_CompareWithASCIIString(name, "__func__") == 0)
        return found(Py_NewRef(PyMethod_GET_FUNCTION(value)), out);
    if (is_builtin_value(value)) {
        if (!_PyType_Lookup(Py_TYPE(value), name)) return MISSING;
        if (PyUnicode_CompareWithASCIIString(name, "__class__") == 0)
            return found(Py_NewRef((PyObject *)Py_TYPE(value)), out);
        return found(PyObject_GetAttr(value, name), out);
    }
    if (PyType_Check(value)) return builtin_type_attribute(c, value, name, out);
    if (PyCFunction_CheckExact(value) && /* what functools.wraps() asks for */
        (cr_is_text_of_function(name) || !PyUnicode_CompareWithASCIIString(name, "__dict__"))) {
        if ((*out = PyObject_GetAttr(value, name))) return FOUND;
        return PyErr_Clear(), MISSING;
    }
    if (PyFunction_Check(value)) return made_function_attribute(c, value, name, out);
    if (PyCFunction_Check(value) && !_PyType_Lookup(Py_TYPE(value), name)) return MISSING;
    if (PyCFunction_Check(value) && cr_is_text_of_function(name)) return found(PyObject_GetAttr(value, name), out);
    if (!cr_is_python_class(Py_TYPE(value)) && cr_is_held_constant(value) && !PyCFunction_Check(value))
        return found(PyObject_GetAttr(value, name), out); /* a dtype's, a device's */
    if (PyTuple_Check(value) && !cr_is_python_class(Py_TYPE(value))) /* a size */
        return found(PyObject_GetAttr(value, name), out);
    if (PyTuple_Check(value) && _PyType_Lookup(Py_TYPE(value), name) &&
        Py_IS_TYPE(_PyType_Lookup(Py_TYPE(value), name), &PyMemberDescr_Type))
        return found(PyObject_GetAttr(value, name), out); /* max(x, 0).values: a structure that an op gave */
    return cr_break(c, "the attribute '%U' of an object of class %s is read", name, Py_TYPE(value)->tp_name);
}

/* ---- of tokens ---- */

/* A descriptor whose __get__ is written in Python. */
static int get_by_descriptor(cr_capture *c, PyObject *self, PyObject *raw, int32_t source, PyObject **out) {
    PyObject *descriptor = cr_is_python_class(Py_TYPE(raw)) ? cr_wrap(c, raw, source) : NULL, *get = NULL;
    PyObject *type = descriptor && cr_is_token(descriptor) ? cr_type_value(c, self) : NULL;
    int r = type ? cr_class_special(c, descriptor, "__get__", &get) : 0;
    PyObject *args[3] = { descriptor, self, type };
    if (r == 1) r = cr_push_call(c, get, args, 3, NULL) ? -1 : PUSHED;
    else if (PyErr_Occurred() || c->reason) r = -1;
    else r = cr_break(c, "a descriptor of class %s is used", Py_TYPE(raw)->tp_name);
    (void)out;
    Py_XDECREF(get);
    Py_XDECREF(type);
    Py_XDECREF(descriptor);
    return r;
}

int cr_bind_class_attribute(cr_capture *c, PyObject *self, PyObject *raw, int32_t source, PyObject **out) {
    PyTypeObject *kind = Py_TYPE(raw);
    PyObject *value, *payload = NULL;
    if (kind == &PyFunction_Type || kind == &PyMethodDescr_Type || kind == &PyWrapperDescr_Type ||
        cr_is_cached_type(kind)) {
        if (!(value = cr_wrap(c, raw, source))) return -1;
        if (kind == &PyMethodDescr_Type && !(payload = cr_payload(c, self)) && (PyErr_Occurred() || c->reason))
            return Py_DECREF(value), -1;
        int r = found(PyMethod_New(value, payload ? payload : self), out);
        Py_XDECREF(payload);
        Py_DECREF(value);
        return r;
    }
    if (kind == &PyStaticMethod_Type || kind == &PyClassMethod_Type) {
        if (cr_guard_type(&c->guards, source, kind)) return -1;
        if (!(value = cr_wrap_read(c, CR_READ_INNER, source, raw, NULL, 0))) return -1;
        if (kind == &PyStaticMethod_Type) return found(value, out);
        PyObject *type = cr_type_value(c, self);
        int r = type ? found(PyMethod_New(value, type), out) : -1;
        Py_XDECREF(type);
        Py_DECREF(value);
        return r;
    }
    if (kind->tp_descr_get) return get_by_descriptor(c, self, raw, source, out);
    return found(cr_wrap(c, raw, source), out);
}

/* Where something of the object's class is read; CR_NO_SLOT: the class is in C. -2: exception. */
static int32_t class_source(cr_capture *c, PyObject *token, PyObject *name) {
    int32_t type = cr_type_source(c, token);
    if (type < 0) return type;
    int32_t source = cr_source(&c->guards, CR_READ_CLASS, type, name, 0);
    return source < 0 ? -2 : source;
}

int cr_class_special(cr_capture *c, PyObject *token, const char *name, PyObject **out) {
    PyObject *key = PyUnicode_InternFromString(name);
    PyObject *raw = key ? _PyType_Lookup(Py_TYPE(cr_real(token)), key) : NULL;
    int r = key ? 0 : -1;
    if (raw && PyFunction_Check(raw)) {
        int32_t source = class_source(c, token, key);
        *out = source < -1 ? NULL : cr_wrap(c, raw, source);
        r = *out ? 1 : -1;
    } else if (raw && !Py_IS_TYPE(raw, &PyWrapperDescr_Type) && !Py_IS_TYPE(raw, &PyMethodDescr_Type)) {
        r = cr_break(c, "class %s has a %s as its %s", Py_TYPE(cr_real(token))->tp_name, Py_TYPE(raw)->tp_name, name);
    }
    Py_XDECREF(key);
    return r;
}

bool cr_has_special_of_object(PyObject *token, const char *name) {
    PyObject *key = PyUnicode_InternFromString(name);
    bool is = key && _PyType_Lookup(Py_TYPE(cr_real(token)), key) == _PyType_Lookup(&PyBaseObject_Type, key);
    Py_XDECREF(key);
    return is;
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

/* Classes in C have one, too, that does what object's does. */
static bool has_own_getattribute(PyTypeObject *type) {
    static PyObject *name; /* once */
    if (!name && !(name = PyUnicode_InternFromString("__getattribute__"))) return PyErr_Clear(), true;
    PyObject *raw = _PyType_Lookup(type, name);
    return !raw || !Py_IS_TYPE(raw, &PyWrapperDescr_Type) ||
           (((PyWrapperDescrObject *)raw)->d_wrapped != (void *)PyObject_GenericGetAttr &&
            /* of a module: the same, and then a __getattr__ among its variables */
            ((PyWrapperDescrObject *)raw)->d_wrapped != (void *)PyModule_Type.tp_getattro);
}

static PyObject *find_getattr(PyTypeObject *type, PyObject **name) {
    static PyObject *text; /* once */
    if (!text && !(text = PyUnicode_InternFromString("__getattr__"))) return PyErr_Clear(), NULL;
    *name = text;
    return _PyType_Lookup(type, text);
}

/* The two data descriptors in C that programs read. 2: another. */
static int special_attribute(cr_capture *c, PyObject *token, PyObject *name, PyObject **out) {
    PyObject *real = cr_real(token), *dict;
    if (PyUnicode_CompareWithASCIIString(name, "__class__") == 0) return found(cr_type_value(c, token), out);
    if (PyUnicode_CompareWithASCIIString(name, "__dict__")) return MISSING;
    if (cr_is_made(token)) {
        dict = ((cr_token *)token)->attributes;
        if (PyList_Append(c->kept, token) || cr_map_put(&c->owners, &dict, sizeof dict, (uint64_t)(uintptr_t)token))
            return -1;
        return found(Py_NewRef(dict), out);
    }
    if (!(dict = cr_read_now(CR_READ_DICT, real, NULL, 1))) return MISSING;
    if (cr_map_put(&c->owners, &dict, sizeof dict, (uint64_t)(uintptr_t)real)) return PyErr_NoMemory(), -1;
    return found(cr_wrap_read(c, CR_READ_DICT, cr_source_of(token), real, NULL, 1), out);
}

/* What an object has in one of its __slots__. */
static int slot_attribute(cr_capture *c, PyObject *token, PyObject *name, int offset, PyObject **out) {
    const cr_token *t = (cr_token *)token;
    PyObject *set = t->slots ? PyDict_GetItemWithError(t->slots, name) : NULL;
    if (!t->type) set = cr_find_store(c, t->real, name);
    if (set) return found(Py_NewRef(set), out);
    if (!t->type && cr_read_now(CR_READ_FIELD, t->real, NULL, offset))
        return found(cr_wrap_read(c, CR_READ_FIELD, t->source, t->real, NULL, offset), out);
    return t->type ? MISSING : cr_break(c, "the attribute '%U' in __slots__ has no value", name);
}

/* A field of a named tuple: its descriptor begins with the number of the item. */
static int field_attribute(cr_capture *c, PyObject *token, PyObject *raw, PyObject **out) {
    Py_ssize_t index = *(Py_ssize_t *)((char *)raw + sizeof(PyObject));
    PyObject *items = cr_payload(c, token);
    if (!items) return -1;
    int r = PyTuple_Check(items) && index < PyTuple_GET_SIZE(items)
                ? found(Py_NewRef(PyTuple_GET_ITEM(items, index)), out)
                : cr_break(c, "a named tuple has no such item");
    Py_DECREF(items);
    return r;
}

/* What a class says of an attribute that stands before the object's own. */
static int data_attribute(cr_capture *c, PyObject *token, PyObject *raw, PyObject *name, PyObject **out) {
    PyTypeObject *type = Py_TYPE(cr_real(token));
    int special = special_attribute(c, token, name, out), offset = cr_member_offset(raw, type);
    if (special != MISSING) return special;
    if (offset >= 0) return slot_attribute(c, token, name, offset, out);
    if (PyTuple_Check(cr_real(token)) && strstr(Py_TYPE(raw)->tp_name, "._tuplegetter"))
        return field_attribute(c, token, raw, out);
    int32_t source = class_source(c, token, name);
    if (source < -1) return -1;
    bool is_property = cr_is_property(Py_TYPE(raw));
    if (source == CR_NO_SLOT || !(cr_is_python_class(Py_TYPE(raw)) || is_property))
        return cr_break(c, "the attribute '%U' of class %s is a descriptor", name, type->tp_name);
    if (!is_property) return get_by_descriptor(c, token, raw, source, out);
    if (cr_guard_type(&c->guards, source, Py_TYPE(raw))) return -1;
    PyObject *getter = cr_read_now(CR_READ_INNER, raw, NULL, 0);
    int32_t inner = getter ? cr_source(&c->guards, CR_READ_INNER, source, NULL, 0) : -1;
    if (!getter) return cr_break(c, "the property '%U' cannot be read", name);
    return inner < 0 ? -1 : call_getter(c, token, getter, inner, NULL);
}

int cr_object_attribute(cr_capture *c, PyObject *token, PyObject *name, PyObject **out) {
    PyObject *real = cr_real(token), *getattr_name = NULL;
    PyTypeObject *type = Py_TYPE(real);
    if (cr_is_made(token) && PyExceptionInstance_Check(real)) {
        int r = cr_exception_attribute(c, token, name, out);
        if (r != MISSING) return r;
    }
    PyObject *raw = _PyType_Lookup(type, name);
    if (raw && Py_TYPE(raw)->tp_descr_set) return data_attribute(c, token, raw, name, out);
    int own = cr_own_attribute(c, token, name, out);
    if (own) return own < 0 ? -1 : FOUND;
    if (raw) {
        int32_t source = class_source(c, token, name);
        return source < -1 ? -1 : cr_bind_class_attribute(c, token, raw, source, out);
    }
    PyObject *getattr = find_getattr(type, &getattr_name);
    if (PyModule_Check(real) && getattr_name && cr_read_now(CR_READ_KEY, PyModule_GetDict(real), getattr_name, 0))
        return cr_break(c, "a module computes its attribute '%U'", name);
    if (!getattr) return MISSING;
    int32_t source = class_source(c, token, getattr_name);
    return source < -1 ? -1 : call_getter(c, token, getattr, source, name);
}

/* Of threading.local, in an export: what is there now. */
static int thread_attribute(cr_capture *c, PyObject *token, PyObject *name, PyObject **out) {
    PyObject *value = PyObject_GetAttr(cr_real(token), name);
    if (value && !cr_is_constant(value)) {
        cr_break(c, "an object of class %s is read from a thread's own variables", Py_TYPE(value)->tp_name);
        Py_CLEAR(value);
    }
    return (*out = value) ? 1 : -1;
}

static int object_attribute(cr_capture *c, PyObject *token, PyObject *name, PyObject **out) {
    PyObject *function = NULL, *args[2] = { token, name };
    if (c->tracer && !strcmp(cr_class_in_c(Py_TYPE(cr_real(token)))->tp_name, "_thread._local"))
        return thread_attribute(c, token, name, out);
    if (!has_own_getattribute(Py_TYPE(cr_real(token)))) return cr_object_attribute(c, token, name, out);
    int r = cr_class_special(c, token, "__getattribute__", &function);
    PyObject *unused, *second = find_getattr(Py_TYPE(cr_real(token)), &unused);
    if (r == 1 && !second) r = cr_push_call(c, function, args, 2, NULL) ? -1 : PUSHED;
    else if (r >= 0)
        r = cr_break(c, "class %s has its own __getattribute__", Py_TYPE(cr_real(token))->tp_name);
    Py_XDECREF(function);
    return r;
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
    cr_call_mode paused = cr_pause(c);
    PyObject *made = PyObject_GetAttr(real, name);
    cr_go_on(paused);
    if (!made) return -1;
    Py_DECREF(made);
    if (cr_read_now(CR_READ_KEY, dict, name, 0)) return found(cr_wrap_read(c, CR_READ_KEY, at, dict, name, 0), out);
    return cr_break(c, "module attribute '%U' is computed when it is read", name);
}

/* A member of an enumeration: what its class has in _member_map_. */
static int enum_member(cr_capture *c, PyObject *token, PyObject *name, PyObject **out) {
    PyObject *key = PyUnicode_InternFromString("_member_map_");
    PyObject *map = key ? cr_wrap_read(c, CR_READ_CLASS, cr_source_of(token), cr_real(token), key, 0) : NULL;
    Py_XDECREF(key);
    if (!map) return -1;
    int r = cr_is_token(map) && PyDict_CheckExact(cr_real(map)) && cr_read_now(CR_READ_KEY, cr_real(map), name, 0)
                ? found(cr_wrap_read(c, CR_READ_KEY, cr_source_of(map), cr_real(map), name, 0), out)
                : cr_break(c, "the attribute '%U' of an enumeration is read", name);
    Py_DECREF(map);
    return r;
}

static int class_attribute(cr_capture *c, PyObject *token, PyObject *name, PyObject **out) {
    PyTypeObject *type = (PyTypeObject *)cr_real(token);
    PyObject *raw = _PyType_Lookup(type, name);
    if (PyUnicode_CompareWithASCIIString(name, "__name__") == 0)
        return found(cr_wrap_read(c, CR_READ_NAME, cr_source_of(token), (PyObject *)type, NULL, 0), out);
    PyObject *meta = _PyType_Lookup(Py_TYPE(type), name);
    bool is_own = !PyUnicode_CompareWithASCIIString(name, "__doc__") ||
                  !PyUnicode_CompareWithASCIIString(name, "__module__");
    PyObject *text = is_own ? cr_read_now(CR_READ_BASE, (PyObject *)type, name, 0) : NULL;
    if (text && !Py_TYPE(text)->tp_descr_get)
        return found(cr_wrap_read(c, CR_READ_BASE, cr_source_of(token), (PyObject *)type, name, 0), out);
    if (!raw && cr_is_enumeration(type)) return enum_member(c, token, name, out);
    bool decides = (meta && (Py_TYPE(meta)->tp_descr_set || !raw)) ||
                   (Py_TYPE(type)->tp_getattro != PyType_Type.tp_getattro && !cr_is_enumeration(type));
    if (decides) return cr_break(c, "the attribute '%U' of class %s itself is read", name, type->tp_name);
    if (!raw) return MISSING;
    int32_t source = cr_source(&c->guards, CR_READ_CLASS, cr_source_of(token), name, 0);
    if (source < 0) return -1;
    if (Py_IS_TYPE(raw, &PyFunction_Type) || Py_IS_TYPE(raw, &PyWrapperDescr_Type) ||
        Py_IS_TYPE(raw, &PyMethodDescr_Type) || !Py_TYPE(raw)->tp_descr_get || cr_is_cached_type(Py_TYPE(raw)) ||
        cr_is_property(Py_TYPE(raw)))
        return found(cr_wrap(c, raw, source), out);
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

/* A function without type parameters answers with an empty tuple, which nobody sees being put there. */
static int give_parameters(PyObject *function) {
#ifdef CR_HAS_TYPE_PARAMETERS
    PyObject **parameters = &((PyFunctionObject *)function)->func_typeparams;
    if (!*parameters) return (*parameters = PyTuple_New(0)) ? 0 : -1;
#endif
    (void)function;
    return 0;
}

/* What a function carries: its texts, and what was put into its __dict__. */
static int function_attribute(cr_capture *c, PyObject *token, PyObject *name, PyObject **out) {
    static const struct { const char *name; int offset; } fields[] = {
        { "__name__", offsetof(PyFunctionObject, func_name) },
        { "__qualname__", offsetof(PyFunctionObject, func_qualname) },
        { "__doc__", offsetof(PyFunctionObject, func_doc) },
        { "__module__", offsetof(PyFunctionObject, func_module) },
        { "__defaults__", offsetof(PyFunctionObject, func_defaults) },
        { "__code__", offsetof(PyFunctionObject, func_code) },
#ifdef CR_HAS_TYPE_PARAMETERS
        { "__type_params__", offsetof(PyFunctionObject, func_typeparams) },
#endif
    };
    PyObject *real = cr_real(token);
    int32_t at = cr_source_of(token);
    for (size_t i = 0; i < CR_COUNT(fields); i++) {
        if (PyUnicode_CompareWithASCIIString(name, fields[i].name)) continue;
        if (give_parameters(real)) return -1;
        return found(cr_wrap_read(c, CR_READ_FIELD, at, real, NULL, fields[i].offset), out);
    }
    if (!PyUnicode_CompareWithASCIIString(name, "__class__")) return found(cr_type_value(c, token), out);
    bool annotations = !PyUnicode_CompareWithASCIIString(name, "__annotations__");
    bool whole = !PyUnicode_CompareWithASCIIString(name, "__dict__");
    if (!annotations && !whole && _PyType_Lookup(&PyFunction_Type, name))
        return cr_break(c, "the attribute '%U' of a function is read", name);
    int offset = annotations ? offsetof(PyFunctionObject, func_annotations) : offsetof(PyFunctionObject, func_dict);
    /* asked for once, it is there: an empty dict that nobody sees */
    PyObject *there = annotations ? PyObject_GetAttr(real, name) : PyObject_GenericGetDict(real, NULL);
    PyObject *dict = cr_read_now(CR_READ_FIELD, real, NULL, offset);
    Py_XDECREF(there);
    if (!there || !dict) return there ? cr_break(c, "the attribute '%U' of a function is read", name) : -1;
    if (annotations || whole) return found(cr_wrap_read(c, CR_READ_FIELD, at, real, NULL, offset), out);
    int32_t source = cr_source(&c->guards, CR_READ_FIELD, at, NULL, offset);
    if (source < 0) return -1;
    if (cr_has_stores(c, dict) || cr_unfolded(c, dict)) return cr_break(c, "a function's __dict__ is changed and read");
    if (cr_read_now(CR_READ_KEY, dict, name, 0)) return found(cr_wrap_read(c, CR_READ_KEY, source, dict, name, 0), out);
    return cr_guard_no(&c->guards, source, CR_HOLDS_NO_KEY, name) ? -1 : MISSING;
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
    if (cr_is_signature(value)) return cr_signature_attribute(c, value, name, out);
    if (!cr_is_token(value)) return own_attribute(c, value, name, out);
    PyObject *real = cr_real(value);
    if (PyModule_CheckExact(real)) return module_attribute(c, value, name, out);
    if (PyDict_CheckExact(real)) return dict_attribute(c, value, name, out);
    if (PyType_Check(real)) return class_attribute(c, value, name, out);
    if (PyMethod_Check(real)) return method_attribute(c, value, name, out);
    if (PyFunction_Check(real)) return function_attribute(c, value, name, out);
    return object_attribute(c, value, name, out);
}

/* ---- instructions ---- */

int cr_missing(cr_capture *c, PyObject *value, PyObject *name) {
    PyObject *real = cr_is_token(value) ? cr_real(value) : value;
    if (PyType_Check(real))
        return cr_raise_new(c, PyExc_AttributeError, "type object '%.50s' has no attribute '%U'",
                            ((PyTypeObject *)real)->tp_name, name);
    return cr_raise_new(c, PyExc_AttributeError, "'%.50s' object has no attribute '%U'", Py_TYPE(real)->tp_name, name);
}

HANDLER(LOAD_ATTR) {
    PyObject *value = cr_pop(f), *name = PyTuple_GET_ITEM(f->code->co_names, i->arg), *out;
    int r = cr_get_attribute(c, value, name, &out);
    if (r == MISSING) r = cr_missing(c, value, name);
    if (r == FOUND) cr_push(f, out);
    Py_DECREF(value);
    return r < 0 ? -1 : 0;
}

/* A method is pushed as (function, self), anything else as (NULL, it). */
HANDLER(LOAD_METHOD) {
    PyObject *value = cr_pop(f), *name = PyTuple_GET_ITEM(f->code->co_names, i->arg), *out;
    int r = cr_get_attribute(c, value, name, &out);
    if (r == MISSING) r = cr_missing(c, value, name);
    cr_call_frame *pushed = r == PUSHED ? c->frame : NULL;
    Py_DECREF(value);
    if (r < 0) return -1;
    if (!pushed) cr_push_callable(f, out);
    else if (CR_CALLABLE_FIRST) pushed->gives = CR_GIVES_CALLABLE;
    else cr_push(f, NULL); /* beneath the result of the frame that was pushed */
    return 0;
}
