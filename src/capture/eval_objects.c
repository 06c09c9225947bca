/* eval_objects.c: objects that the program makes, and attributes that it sets.
 *
 * An object made here is a token with its class, its attributes and what a class in C holds of it (the items of a list,
 * dict or tuple) as values; its `real` is an empty object of the class, there to be asked for the class alone. It is
 * made for real when the captured call ends, if anybody still has it (entry.c). Attributes of objects from outside go
 * into the journal. Python code on the way (__new__, __init__, __setattr__, properties) is inlined. */
#include "capture/evaluate.h"

#include "python/py.h"

#include <string.h>
#include <structmember.h>

#define HANDLER(name) int cr_do_##name(cr_capture *c, cr_call_frame *f, const cr_instruction *i)

static PyObject *type_lookup(PyTypeObject *type, const char *name) { /* borrowed */
    PyObject *key = PyUnicode_InternFromString(name);
    PyObject *raw = key ? _PyType_Lookup(type, key) : NULL;
    Py_XDECREF(key);
    return raw;
}

/* ---- classes ---- */

int32_t cr_type_source(cr_capture *c, PyObject *token) {
    const cr_token *t = (cr_token *)token;
    if (!t->type) {
        int32_t source = cr_source(&c->guards, CR_READ_TYPE, t->source, NULL, 0);
        return source < 0 ? -2 : source;
    }
    return cr_is_token(t->type) ? cr_source_of(t->type) : CR_NO_SLOT;
}

PyObject *cr_type_value(cr_capture *c, PyObject *token) {
    const cr_token *t = (cr_token *)token;
    return t->type ? Py_NewRef(t->type) : cr_wrap_read(c, CR_READ_TYPE, t->source, t->real, NULL, 0);
}

/* ---- making ---- */

/* Classes in C that objects made here may be of: an empty one has an empty payload. */
static PyObject *empty_payload(PyTypeObject *base) {
    if (base == &PyDict_Type) return PyDict_New();
    if (base == &PyODict_Type) return PyODict_New();
    if (base == &PyList_Type) return PyList_New(0);
    if (base == &PySet_Type) return PySet_New(NULL);
    return NULL;
}

static bool is_makeable(PyTypeObject *base) {
    return base == &PyBaseObject_Type || base == &PyDict_Type || base == &PyList_Type || base == &PyTuple_Type ||
           base == &PySet_Type || base == &PyODict_Type || PyExceptionClass_Check((PyObject *)base);
}

int cr_make_object(cr_capture *c, cr_call_frame *f, PyObject *type, PyTypeObject *base, const PyObject *args,
                   PyObject **out) {
    PyTypeObject *real_type = (PyTypeObject *)(cr_is_token(type) ? cr_real(type) : type);
    PyObject *payload = NULL, *real = NULL, *empty = NULL;
    (void)f;
    *out = NULL;
    if (!is_makeable(base) || base != cr_class_in_c(real_type))
        return cr_break(c, "an object of class %s is made, which is written in C", real_type->tp_name);
    if (real_type->tp_flags & Py_TPFLAGS_IS_ABSTRACT)
        return cr_break(c, "an object of the abstract class %s is made", real_type->tp_name);
    if (base == &PyBaseObject_Type && PyTuple_GET_SIZE(args) &&
        (type_lookup(real_type, "__new__") != type_lookup(base, "__new__") ||
         type_lookup(real_type, "__init__") == type_lookup(base, "__init__")))
        return cr_break(c, "object.__new__() is given arguments");
    if (real_type->tp_finalize || real_type->tp_del)
        return cr_break(c, "an object of class %s is made, which has __del__", real_type->tp_name);
    if (!cr_exception_takes(c, (PyObject *)base, ((PyTupleObject *)args)->ob_item, PyTuple_GET_SIZE(args)))
        return cr_break(c, "an object of class %s is made of something that is no constant", real_type->tp_name);
    if (base == &PyTuple_Type) {
        Py_ssize_t n = PyTuple_GET_SIZE(args);
        PyObject *items = n == 1 ? cr_operand(c, PyTuple_GET_ITEM(args, 0)) : n ? NULL : PyTuple_New(0);
        payload = items ? PySequence_Tuple(items) : NULL;
        Py_XDECREF(items);
        if (!payload) return PyErr_Occurred() || c->reason ? -1 : cr_break(c, "a tuple is made of many arguments");
    } else if (base != &PyBaseObject_Type && !PyExceptionClass_Check((PyObject *)base)) {
        if (!(payload = empty_payload(base))) return -1;
    }
    if ((empty = PyTuple_New(0)))
        real = base->tp_new(real_type, PyExceptionClass_Check((PyObject *)base) ? (PyObject *)args : empty, NULL);
    *out = cr_token_made(type, real, payload);
    Py_XDECREF(payload);
    Py_XDECREF(empty);
    return *out ? 1 : -1;
}

/* __init__ of a class in C: what it takes goes into the payload, an exception's arguments. 0: done; -1. */
static int init_in_c(cr_capture *c, PyObject *object, const cr_arguments *a) {
    cr_token *t = (cr_token *)object;
    PyTypeObject *type = Py_TYPE(t->real), *base = cr_class_in_c(type);
    if (base == &PyBaseObject_Type) {
        if (!a->n && !a->kwnames) return 0;
        PyObject *made_by = type_lookup(type, "__new__");
        bool may_have = made_by && Py_IS_TYPE(made_by, &PyStaticMethod_Type) &&
                        type_lookup(type, "__init__") == type_lookup(base, "__init__");
        return may_have ? 0 : cr_break(c, "object.__init__() is given arguments");
    }
    if (base == &PyTuple_Type) return 0;
    if (!cr_exception_takes(c, (PyObject *)base, a->at, a->n))
        return cr_break(c, "__init__() of %s is given something that is no constant", base->tp_name);
    PyObject *args = PyTuple_New(a->n), *kwargs = a->kwnames ? PyDict_New() : NULL;
    int failed = !args || (a->kwnames && !kwargs);
    for (Py_ssize_t k = 0; !failed && k < a->n; k++) {
        PyObject *operand = t->payload ? cr_operand(c, a->at[k]) : Py_NewRef(a->at[k]);
        if (operand) PyTuple_SET_ITEM(args, k, operand);
        failed = !operand;
    }
    for (Py_ssize_t k = 0; !failed && a->kwnames && k < PyTuple_GET_SIZE(a->kwnames); k++)
        failed = PyDict_SetItem(kwargs, PyTuple_GET_ITEM(a->kwnames, k), a->at[a->n + k]);
    if (!failed) failed = base->tp_init(t->payload ? t->payload : t->real, args, kwargs);
    Py_XDECREF(args);
    Py_XDECREF(kwargs);
    return failed ? -1 : 0;
}

static PyObject *as_tuple(PyObject *const *args, Py_ssize_t n) {
    PyObject *tuple = PyTuple_New(n);
    for (Py_ssize_t k = 0; tuple && k < n; k++) PyTuple_SET_ITEM(tuple, k, Py_NewRef(args[k]));
    return tuple;
}

/* __new__ in Python: a static method, called with the class before everything else. */
static PyObject *call_new(cr_capture *c, cr_call_frame *f, PyObject *type, const cr_arguments *a) {
    PyObject *name = PyUnicode_InternFromString("__new__"), *function = NULL, *made = NULL;
    Py_ssize_t total = a->n + (a->kwnames ? PyTuple_GET_SIZE(a->kwnames) : 0);
    PyObject **all = PyMem_Malloc(((size_t)total + 1) * sizeof *all);
    if (name && all && cr_get_attribute(c, type, name, &function) == 1) {
        all[0] = type;
        for (Py_ssize_t k = 0; k < total; k++) all[k + 1] = a->at[k];
        made = cr_call_now(c, f, function, all, a->n + 1, a->kwnames);
    }
    PyMem_Free(all);
    Py_XDECREF(name);
    Py_XDECREF(function);
    return made;
}

static int call_init(cr_capture *c, cr_call_frame *f, PyObject *object, const cr_arguments *a) {
    PyObject *function = NULL;
    int found = cr_class_special(c, object, "__init__", &function);
    if (found < 0) return -1;
    if (!found) return init_in_c(c, object, a) ? -1 : (cr_push(f, Py_NewRef(object)), 0);
    PyObject *bound = PyMethod_New(function, object);
    int failed = bound ? cr_call_value(c, f, bound, a->at, a->n, a->kwnames) : -1;
    Py_XDECREF(bound);
    Py_DECREF(function);
    if (failed || c->frame == f) return failed ? -1 : cr_break(c, "__init__() is no function");
    c->frame->gives = CR_GIVES_NONE;
    c->frame->instead = Py_NewRef(object);
    return 0;
}

/* A class whose own class has __call__ in Python: an enumeration, which looks its members up. */
static int call_metaclass(cr_capture *c, cr_call_frame *f, PyObject *type, const cr_arguments *a) {
    PyObject *function = NULL;
    int found = cr_class_special(c, type, "__call__", &function);
    if (found < 1)
        return found < 0 ? -1 : cr_break(c, "the class of class %s decides what a call of it does",
                                         ((PyTypeObject *)cr_real(type))->tp_name);
    PyObject *bound = PyMethod_New(function, type);
    int failed = bound ? cr_call_value(c, f, bound, a->at, a->n, a->kwnames) : -1;
    Py_XDECREF(bound);
    Py_DECREF(function);
    return failed;
}

int cr_construct(cr_capture *c, cr_call_frame *f, PyObject *type, PyObject *const *args, Py_ssize_t nargs,
                 PyObject *kwnames) {
    PyTypeObject *real = (PyTypeObject *)cr_real(type), *base = cr_class_in_c(real);
    cr_arguments a = { args, nargs, kwnames };
    PyObject *made_by = type_lookup(real, "__new__"), *object = NULL, *tuple;
    if (Py_TYPE(real)->tp_call != PyType_Type.tp_call) return call_metaclass(c, f, type, &a);
    if (made_by && Py_IS_TYPE(made_by, &PyStaticMethod_Type)) {
        if (!(object = call_new(c, f, type, &a))) return -1;
        bool inits = cr_is_token(object) && PyType_IsSubtype(Py_TYPE(cr_real(object)), real);
        if (!inits) return cr_push(f, object), 0;
    } else {
        if (real->tp_new != base->tp_new) return cr_break(c, "class %s had a __new__() once", real->tp_name);
        if (!(tuple = as_tuple(args, nargs))) return -1;
        int made = cr_make_object(c, f, type, base, tuple, &object);
        Py_DECREF(tuple);
        if (made < 0) return -1;
    }
    int failed = call_init(c, f, object, &a);
    Py_DECREF(object);
    return failed;
}

/* ---- an object's own attributes ---- */

/* The dict of an object from outside, where the program has looked into it as a dict. Borrowed; NULL: it has not. */
static PyObject *seen_dict(const cr_capture *c, PyObject *token) {
    PyObject *dict = cr_read_now(CR_READ_DICT, cr_real(token), NULL, 0);
    return dict ? cr_unfolded(c, dict) : NULL;
}

int cr_own_attribute(cr_capture *c, PyObject *token, PyObject *name, PyObject **out) {
    const cr_token *t = (cr_token *)token;
    PyObject *dict = t->type ? t->attributes : seen_dict(c, token);
    *out = NULL;
    if (dict) {
        *out = Py_XNewRef(PyDict_GetItemWithError(dict, name));
        return *out ? 1 : PyErr_Occurred() ? -1 : 0;
    }
    PyObject *set = cr_find_store(c, t->real, name);
    if (set) return set == CR_DELETED ? 0 : (*out = Py_NewRef(set), 1);
    if (cr_read_now(CR_READ_ATTRIBUTE, t->real, name, 0))
        return (*out = cr_wrap_read(c, CR_READ_ATTRIBUTE, t->source, t->real, name, 0)) ? 1 : -1;
    return cr_guard_no(&c->guards, t->source, CR_HOLDS_NO_ATTRIBUTE, name) ? -1 : 0;
}

static int no_attribute(cr_capture *c, PyObject *token, PyObject *name) {
    return cr_raise_new(c, PyExc_AttributeError, "'%.100s' object has no attribute '%U'",
                        Py_TYPE(cr_real(token))->tp_name, name);
}

/* Sets in the object's own __dict__; value NULL: deletes. */
static int set_own(cr_capture *c, PyObject *token, PyObject *name, PyObject *value) {
    cr_token *t = (cr_token *)token;
    PyTypeObject *type = Py_TYPE(t->real);
    bool has_dict = (type->tp_flags & Py_TPFLAGS_MANAGED_DICT) || type->tp_dictoffset;
    PyObject *dict = t->type ? t->attributes : seen_dict(c, token), *before;
    if (PyType_Check(t->real) || PyModule_Check(t->real) || PyFunction_Check(t->real) || PyMethod_Check(t->real))
        return cr_break(c, "an attribute of a %s is set", type->tp_name);
    if (!has_dict && !value) return no_attribute(c, token, name);
    if (!has_dict) return cr_break(c, "an object of class %s has no room for attribute '%U'", type->tp_name, name);
    if (!value) {
        int found = cr_own_attribute(c, token, name, &before);
        Py_XDECREF(before);
        if (found < 1) return found < 0 ? -1 : no_attribute(c, token, name);
    }
    if (dict) return value ? PyDict_SetItem(dict, name, value) : PyDict_DelItem(dict, name);
    if (t->source == CR_NO_SLOT) return cr_break(c, "an object whose origin is not known is changed");
    return cr_add_store(c, CR_READ_ATTRIBUTE, t->real, t->source, name, value ? value : CR_DELETED);
}

/* ---- __slots__ ---- */

int cr_member_offset(PyObject *descriptor, PyTypeObject *type) {
    if (!Py_IS_TYPE(descriptor, &PyMemberDescr_Type)) return -1;
    const PyMemberDef *m = ((PyMemberDescrObject *)descriptor)->d_member;
    PyTypeObject *owner = PyDescr_TYPE(descriptor);
    bool fits = m->type == T_OBJECT_EX && !m->flags && PyType_IsSubtype(type, owner) &&
                cr_is_python_class(owner);
    return fits ? (int)m->offset : -1;
}

static int set_slot(cr_capture *c, PyObject *token, PyObject *name, PyObject *value) {
    cr_token *t = (cr_token *)token;
    if (!t->type && !value) return cr_break(c, "an attribute in __slots__ is deleted");
    if (!t->type) return cr_add_store(c, CR_READ_ATTRIBUTE, t->real, t->source, name, value);
    if (!t->slots && !(t->slots = PyDict_New())) return -1;
    if (value) return PyDict_SetItem(t->slots, name, value);
    return PyDict_Contains(t->slots, name) == 1 ? PyDict_DelItem(t->slots, name) : no_attribute(c, token, name);
}

/* ---- setting by CPython's algorithm ---- */

/* Calls a function whose result nobody wants. */
static int call_for_nothing(cr_capture *c, PyObject *function, PyObject *const *args, Py_ssize_t n) {
    cr_call_frame *f = c->frame;
    int failed = cr_call_value(c, f, function, args, n, NULL);
    if (failed) return -1;
    if (c->frame == f) return Py_DECREF(cr_pop(f)), 0;
    c->frame->instead = CR_DELETED;
    return 0;
}

/* The function that a property sets (1) or deletes (2) with. */
static int call_property(cr_capture *c, PyObject *token, PyObject *raw, PyObject *name, PyObject *value) {
    int offset = (int)sizeof(PyObject) + (value ? 1 : 2) * (int)sizeof(PyObject *);
    int32_t at = cr_type_source(c, token);
    PyObject *setter = cr_read_now(CR_READ_FIELD, raw, NULL, offset), *args[2] = { token, value };
    if (at < 0 || (at = cr_source(&c->guards, CR_READ_CLASS, at, name, 0)) < 0) return -1;
    if (cr_guard_type(&c->guards, at, Py_TYPE(raw))) return -1;
    if (!setter)
        return cr_break(c, "the property '%U' of class %s cannot be %s", name, Py_TYPE(cr_real(token))->tp_name,
                        value ? "set" : "deleted");
    PyObject *function = cr_wrap_read(c, CR_READ_FIELD, at, raw, NULL, offset);
    int failed = function ? call_for_nothing(c, function, args, value ? 2 : 1) : -1;
    Py_XDECREF(function);
    return failed;
}

/* A descriptor written in Python: its __set__ or __delete__. */
static int call_descriptor(cr_capture *c, PyObject *token, PyObject *raw, PyObject *name, PyObject *value) {
    int32_t at = cr_type_source(c, token);
    if (at < 0 || (at = cr_source(&c->guards, CR_READ_CLASS, at, name, 0)) < 0) return -1;
    PyObject *descriptor = cr_wrap(c, raw, at), *function = NULL;
    int r = descriptor && cr_is_token(descriptor)
                ? cr_class_special(c, descriptor, value ? "__set__" : "__delete__", &function)
                : -1;
    PyObject *args[3] = { descriptor, token, value };
    if (r == 1) r = call_for_nothing(c, function, args, value ? 3 : 2);
    else if (!c->reason && !PyErr_Occurred()) r = cr_break(c, "the attribute '%U' is a descriptor", name);
    Py_XDECREF(function);
    Py_XDECREF(descriptor);
    return r;
}

static int set_generic(cr_capture *c, PyObject *token, PyObject *name, PyObject *value) {
    PyTypeObject *type = Py_TYPE(cr_real(token));
    PyObject *raw = _PyType_Lookup(type, name);
    if (cr_is_made(token) && PyExceptionInstance_Check(cr_real(token))) {
        int r = cr_set_exception_attribute(c, token, name, value);
        if (r != 2) return r;
    }
    if (!raw || !Py_TYPE(raw)->tp_descr_set) return set_own(c, token, name, value);
    if (cr_is_property(Py_TYPE(raw))) return call_property(c, token, raw, name, value);
    if (cr_member_offset(raw, type) >= 0) return set_slot(c, token, name, value);
    if (cr_is_python_class(Py_TYPE(raw))) return call_descriptor(c, token, raw, name, value);
    return cr_break(c, "setting the attribute '%U' of an object of class %s runs code", name, type->tp_name);
}

bool cr_is_text_of_function(PyObject *name) {
    static const char *const names[] = {
        "__name__", "__qualname__", "__doc__", "__module__", "__annotations__",
#ifdef CR_HAS_TYPE_PARAMETERS
        "__type_params__",
#endif
    };
    for (size_t i = 0; i < CR_COUNT(names); i++)
        if (!PyUnicode_CompareWithASCIIString(name, names[i])) return true;
    return false;
}

/* A function that the program made is a real one, which nobody else has. */
static int set_of_function(cr_capture *c, PyObject *function, PyObject *name, PyObject *given) {
    bool is_text = cr_is_text_of_function(name);
    if (!given || (!is_text && _PyType_Lookup(&PyFunction_Type, name)) ||
        !cr_map_find(&c->made, &function, sizeof function, NULL))
        return cr_break(c, "the attribute '%U' of a function is %s", name, given ? "set" : "deleted");
    PyObject *value = is_text ? cr_operand(c, given) : Py_NewRef(given);
    if (!value) return -1;
    int failed = is_text && cr_is_token(value) ? cr_break(c, "the attribute '%U' of a function is set", name)
                                               : PyObject_GenericSetAttr(function, name, value);
    Py_DECREF(value);
    return failed;
}

int cr_set_attribute(cr_capture *c, PyObject *token, PyObject *name, PyObject *value, bool plain) {
    if (PyFunction_Check(token)) return set_of_function(c, token, name, value);
    int part = !c->tracer && value && cr_is_tensor_value(token) ? cr_set_part_of_tensor(c, token, name, value) : 0;
    if (part) return part < 0 ? -1 : 0;
    if (!cr_is_token(token))
        return cr_break(c, "an attribute of an object of class %s is set", Py_TYPE(token)->tp_name);
    const char *special = value ? "__setattr__" : "__delattr__";
    PyTypeObject *type = Py_TYPE(cr_real(token));
    PyObject *raw = type_lookup(type, special);
    if (plain || (raw && Py_IS_TYPE(raw, &PyWrapperDescr_Type) &&
                  ((PyWrapperDescrObject *)raw)->d_wrapped == (void *)PyObject_GenericSetAttr)) {
        if (PyType_Check(cr_real(token)) || PyModule_Check(cr_real(token)))
            return cr_break(c, "an attribute of a %s is set", type->tp_name);
        return set_generic(c, token, name, value);
    }
    PyObject *function = NULL, *args[3] = { token, name, value };
    int found = cr_class_special(c, token, special, &function);
    if (found < 1)
        return found < 0 ? -1 : cr_break(c, "setting the attribute '%U' of an object of class %s runs code", name,
                                         type->tp_name);
    int failed = call_for_nothing(c, function, args, value ? 3 : 2);
    Py_DECREF(function);
    return failed;
}

HANDLER(STORE_ATTR) {
    PyObject *name = PyTuple_GET_ITEM(f->code->co_names, i->arg), *owner = cr_pop(f), *value = cr_pop(f);
    int failed = c->plain ? PyObject_SetAttr(owner, name, value) : cr_set_attribute(c, owner, name, value, false);
    Py_DECREF(owner);
    Py_DECREF(value);
    return failed;
}

HANDLER(DELETE_ATTR) {
    PyObject *name = PyTuple_GET_ITEM(f->code->co_names, i->arg), *owner = cr_pop(f);
    int failed = c->plain ? PyObject_SetAttr(owner, name, NULL) : cr_set_attribute(c, owner, name, NULL, false);
    Py_DECREF(owner);
    return failed;
}

/* ---- what classes in C have under special names ---- */

/* Those that only look into the items, or change them. */
static bool is_of_items(const char *name) {
    static const char *const names[] = { "__getitem__", "__setitem__", "__delitem__", "__len__", "__contains__",
                                         "__iter__",    "__eq__",      "__ne__",      "__add__", "__mul__",
                                         "__or__",      "__and__",     "__sub__",     "__xor__", "__lt__",
                                         "__le__",      "__gt__",      "__ge__",      "__reversed__" };
    for (size_t i = 0; i < CR_COUNT(names); i++)
        if (!strcmp(name, names[i])) return true;
    return false;
}

static int call_on_items(cr_capture *c, PyObject *wrapper, const cr_arguments *a, PyObject **out) {
    PyObject *self = cr_payload(c, a->at[0]), *args[4] = { self };
    Py_ssize_t n = CR_MIN(a->n, 4), k = 1;
    if (!self || a->kwnames || a->n > 4 || !Py_IS_TYPE(self, PyDescr_TYPE(wrapper))) {
        Py_XDECREF(self);
        return PyErr_Occurred() || c->reason ? -1 : cr_break(c, "a method of class %s is called on something else",
                                                             PyDescr_TYPE(wrapper)->tp_name);
    }
    const char *name = PyUnicode_AsUTF8(((PyDescrObject *)wrapper)->d_name);
    bool stores = strstr(name, "item__") || !strcmp(name, "__contains__"); /* what is stored stays what it is */
    while (k < n && (args[k] = stores ? Py_NewRef(a->at[k]) : cr_operand(c, a->at[k]))) k++;
    *out = k == n ? PyObject_Vectorcall(wrapper, args, (size_t)n, NULL) : NULL;
    while (k--) Py_DECREF(args[k]);
    return *out && !cr_check_result(c, *out) ? 1 : -1;
}

/* object.__setattr__ and __delattr__ (value NULL), called by name. */
static int set_by_wrapper(cr_capture *c, PyObject *self, PyObject *given, PyObject *value, PyObject **out) {
    cr_call_frame *before = c->frame;
    PyObject *name = Py_NewRef(given);
    PyUnicode_InternInPlace(&name);
    int failed = cr_set_attribute(c, self, name, value, true);
    Py_DECREF(name);
    if (failed) return -1;
    if (c->frame == before) return *out = Py_NewRef(Py_None), 1;
    c->frame->instead = Py_NewRef(Py_None);
    return 0;
}

int cr_call_wrapper(cr_capture *c, cr_call_frame *f, PyObject *wrapper, const cr_arguments *a, PyObject **out) {
    const char *name = ((PyDescrObject *)wrapper)->d_name ? PyUnicode_AsUTF8(((PyDescrObject *)wrapper)->d_name) : "";
    PyObject *self = a->n ? a->at[0] : NULL;
    bool of_object = PyDescr_TYPE(wrapper) == &PyBaseObject_Type;
    (void)f;
    if (!self || !cr_is_token(self) || !name)
        return cr_break(c, "%s.%s() is called", PyDescr_TYPE(wrapper)->tp_name, name ? name : "?");
    if (!strcmp(name, "__init__") && cr_is_made(self)) {
        cr_arguments rest = { a->at + 1, a->n - 1, a->kwnames };
        if (!of_object && PyDescr_TYPE(wrapper)->tp_init != cr_class_in_c(Py_TYPE(cr_real(self)))->tp_init)
            return cr_break(c, "__init__() of another class in C is called");
        if (of_object && (rest.n || rest.kwnames)) return cr_break(c, "object.__init__() is given arguments");
        if (!of_object && init_in_c(c, self, &rest)) return -1;
        return *out = Py_NewRef(Py_None), 1;
    }
    bool named = !a->kwnames && a->n > 1 && PyUnicode_CheckExact(a->at[1]);
    bool generic = ((PyWrapperDescrObject *)wrapper)->d_wrapped == (void *)PyObject_GenericSetAttr;
    if (generic && named && a->n == 3 && !strcmp(name, "__setattr__"))
        return set_by_wrapper(c, self, a->at[1], a->at[2], out);
    if (generic && named && a->n == 2 && !strcmp(name, "__delattr__"))
        return set_by_wrapper(c, self, a->at[1], NULL, out);
    if (of_object && named && a->n == 2 && !strcmp(name, "__getattribute__")) {
        int r = cr_object_attribute(c, self, a->at[1], out);
        return r == 2 ? no_attribute(c, self, a->at[1]) : r;
    }
    if (is_of_items(name) && !of_object) return call_on_items(c, wrapper, a, out);
    return cr_break(c, "%s.%s() is called", PyDescr_TYPE(wrapper)->tp_name, name);
}
