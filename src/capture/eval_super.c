/* eval_super.c: super() without arguments: the class of the method (a cell) and its first argument, then what the
 * classes behind that one have.
 *
 * The object's class is guarded by its version, which changes with any of its bases: the order of classes stays. */
#include "capture/evaluate.h"

#include "python/py.h"

#define HANDLER(name) int cr_do_##name(cr_capture *c, cr_call_frame *f, const cr_instruction *i)

/* first: in the order of the classes of `type` */
typedef struct super_value { PyObject_HEAD PyObject *self; PyTypeObject *type; Py_ssize_t first; } super_value;

static void super_dealloc(PyObject *o) {
    Py_XDECREF(((super_value *)o)->self);
    PyObject_Free(o);
}

PyTypeObject cr_super_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "cresset._C._Super",
    .tp_basicsize = sizeof(super_value),
    .tp_dealloc = super_dealloc,
    .tp_flags = Py_TPFLAGS_DEFAULT,
};

/* The free variable __class__ of the method that runs. New reference. */
static PyObject *find_class(cr_capture *c, cr_call_frame *f) {
    for (int k = 0; k < f->code->co_nlocalsplus; k++) {
        PyObject *name = PyTuple_GET_ITEM(f->code->co_localsplusnames, k), *cell = f->locals[k];
        if (PyUnicode_CompareWithASCIIString(name, "__class__") || !cell || !cr_is_token(cell)) continue;
        if (!PyCell_Check(cr_real(cell)) || !PyCell_GET(cr_real(cell))) return NULL;
        return cr_wrap_read(c, CR_READ_CONTENTS, cr_source_of(cell), cr_real(cell), NULL, 0);
    }
    return NULL;
}

static Py_ssize_t behind(PyTypeObject *type, PyObject *of) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); i++)
        if (PyTuple_GET_ITEM(type->tp_mro, i) == of) return i + 1;
    return -1;
}

/* The class whose order of bases is gone through: the object's, or (in __new__ and class methods) itself. */
static PyTypeObject *class_asked(PyObject *self, PyObject *of) {
    PyObject *real = cr_real(self);
    bool itself = PyType_Check(real) && PyType_IsSubtype((PyTypeObject *)real, (PyTypeObject *)of);
    return itself ? (PyTypeObject *)real : Py_TYPE(real);
}

static PyObject *super_new(cr_capture *c, PyObject *type, PyObject *self) {
    super_value *made = NULL;
    if (type && self && cr_is_token(self) && cr_is_token(type) && PyType_Check(cr_real(type))) {
        PyTypeObject *asked = class_asked(self, cr_real(type));
        Py_ssize_t first = behind(asked, cr_real(type));
        if (first >= 0 && (made = PyObject_New(super_value, &cr_super_type))) {
            made->self = Py_NewRef(self);
            made->first = first;
            made->type = asked; /* which self keeps */
        }
    }
    if (!made && !PyErr_Occurred() && !c->reason) cr_break(c, "super() is called on something else than self");
    return (PyObject *)made;
}

int cr_call_super(cr_capture *c, cr_call_frame *f, const cr_arguments *a, PyObject **out) {
    if (a->n == 2) return (*out = super_new(c, a->at[0], a->at[1])) ? 1 : -1;
    if (a->n || !f->code->co_argcount) return cr_break(c, "super() is called with one argument");
    PyObject *self = f->locals[0] ? cr_look_at(c, &f->locals[0]) : NULL;
    if (self && PyCell_Check(self)) Py_SETREF(self, Py_XNewRef(PyCell_GET(self)));
    PyObject *type = self ? find_class(c, f) : NULL;
    *out = super_new(c, type, self);
    Py_XDECREF(type);
    Py_XDECREF(self);
    return *out ? 1 : -1;
}

/* super().name in one instruction, from 3.12 on. Stack: super itself, the class, self. */
HANDLER(LOAD_SUPER_ATTR) {
    PyObject *self = cr_pop(f), *type = cr_pop(f), *callable = cr_pop(f), *super = NULL;
    int r = -1;
    if (c->plain) {
        PyObject *const args[] = { type, self };
        super = PyObject_Vectorcall(callable, args, i->arg & 2 || callable == (PyObject *)&PySuper_Type ? 2 : 0, NULL);
    } else if (callable != (PyObject *)&PySuper_Type) {
        cr_break(c, "super is another function here");
    } else {
        super = super_new(c, type, self);
    }
    if (super) {
        cr_push(f, super);
        const cr_instruction load = { .id = i->arg & 1 ? CR_I_LOAD_METHOD : CR_I_LOAD_ATTR, .arg = i->arg >> 2 };
        r = i->arg & 1 ? cr_do_LOAD_METHOD(c, f, &load) : cr_do_LOAD_ATTR(c, f, &load);
    }
    Py_DECREF(self);
    Py_DECREF(type);
    Py_DECREF(callable);
    return r;
}

/* Of a class: functions as they are, static methods' functions, class methods bound to it. */
static int bind_to_class(cr_capture *c, PyObject *type, PyObject *raw, int32_t source, PyObject **out) {
    bool is_static = Py_IS_TYPE(raw, &PyStaticMethod_Type);
    if (!is_static && !Py_IS_TYPE(raw, &PyClassMethod_Type)) {
        if (Py_TYPE(raw)->tp_descr_get && !PyFunction_Check(raw) && !Py_IS_TYPE(raw, &PyWrapperDescr_Type) &&
            !Py_IS_TYPE(raw, &PyMethodDescr_Type) && !PyCFunction_CheckExact(raw))
            return cr_break(c, "a descriptor of class %s is used", Py_TYPE(raw)->tp_name);
        return (*out = cr_wrap(c, raw, source)) ? 1 : -1;
    }
    if (cr_guard_type(&c->guards, source, Py_TYPE(raw))) return -1;
    PyObject *inner = cr_wrap_read(c, CR_READ_INNER, source, raw, NULL, 0);
    *out = inner && !is_static ? PyMethod_New(inner, type) : Py_XNewRef(inner);
    Py_XDECREF(inner);
    return *out ? 1 : -1;
}

int cr_super_attribute(cr_capture *c, PyObject *value, PyObject *name, PyObject **out) {
    const super_value *s = (super_value *)value;
    PyTypeObject *type = s->type;
    bool of_class = cr_real(s->self) == (PyObject *)type;
    int32_t at = of_class ? cr_source_of(s->self) : cr_type_source(c, s->self);
    if (at < 0) return -1;
    for (Py_ssize_t i = s->first; i < PyTuple_GET_SIZE(type->tp_mro); i++) {
        PyObject *raw = cr_read_now(CR_READ_BASE, (PyObject *)type, name, (int32_t)i);
        if (!raw) continue;
        int32_t source = cr_source(&c->guards, CR_READ_BASE, at, name, (int32_t)i);
        if (source < 0) return -1;
        if (of_class) return bind_to_class(c, s->self, raw, source, out);
        if (Py_TYPE(raw)->tp_descr_set) return cr_break(c, "a property is read through super()");
        return cr_bind_class_attribute(c, s->self, raw, source, out);
    }
    return cr_break(c, "super() finds no attribute '%U'", name);
}
