/* eval_builtins.c: functions in C, called for real: which may be, and on what.
 *
 * Nothing is called that is not in a table here. ANY: on fakes and containers of values too; a token among the
 * arguments refuses whatever is done to it. CONSTANTS: all arguments are constants, however deep (texts, hashes,
 * mathematics). A few look at tokens and are written out: isinstance, getattr, type. Ops of a front end are called on
 * fakes, which records them. Python functions among the arguments are refused: C code would run them outside of the
 * capture. */
#include "capture/evaluate.h"

#include "ops/custom.h"
#include "python/py.h"

#include <string.h>

typedef cr_arguments arguments;
/* Written out: 1: *out; 0: a frame was pushed; -1. */
typedef int (*special)(cr_capture *c, cr_call_frame *f, const arguments *a, PyObject **out);
typedef struct rule { const char *name; enum { ANY, CONSTANTS, SPECIAL } on; special call; } rule;

/* ---- those that look at tokens ---- */

/* Of an abstract class of the standard library: what classes are counted among it is asked of it, and guarded by the
 * number that changes when any class is registered; a class in Python that is asked about is guarded, too. 2: it is no
 * such class. */
static int is_registered(cr_capture *c, PyTypeObject *type, PyObject *of) {
    if (strcmp(Py_TYPE(of)->tp_name, "ABCMeta") || Py_TYPE(of) == &PyType_Type) return 2;
    PyObject *module = PyObject_GetAttrString(of, "__module__");
    bool known = module && PyUnicode_Check(module) &&
                 (!PyUnicode_CompareWithASCIIString(module, "collections.abc") ||
                  !PyUnicode_CompareWithASCIIString(module, "numbers"));
    Py_XDECREF(module);
    if (!known) return PyErr_Clear(), 2;
    int is = PyObject_IsSubclass((PyObject *)type, of);
    return is < 0 || cr_guard_registrations(&c->guards) ? -1 : is;
}

/* 1, 0: is a subclass of; -1: break. Only where the class's metaclass leaves the answer to CPython. */
int cr_is_subclass(cr_capture *c, PyTypeObject *type, PyObject *of) {
    static PyObject *names[2]; /* once */
    if (PyTuple_CheckExact(of)) {
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(of); i++) {
            int is = cr_is_subclass(c, type, PyTuple_GET_ITEM(of, i));
            if (is) return is;
        }
        return 0;
    }
    PyObject *real = cr_is_token(of) ? cr_real(of) : of;
    if (!PyType_Check(real)) return cr_break(c, "isinstance() is asked about something that is no class");
    if (PyType_IsSubtype(type, (PyTypeObject *)real)) return 1;
    int registered = is_registered(c, type, real);
    if (registered != 2) return registered;
    for (int i = 0; i < 2; i++) {
        if (!names[i] && !(names[i] = PyUnicode_InternFromString(i ? "__subclasscheck__" : "__instancecheck__")))
            return -1;
        if (_PyType_Lookup(Py_TYPE(real), names[i]) != _PyType_Lookup(&PyType_Type, names[i]))
            return cr_break(c, "class %s decides itself what its instances are", ((PyTypeObject *)real)->tp_name);
    }
    return 0;
}

/* The mark of a tensor: its own, which may come and go between calls, or its class's. What is recorded has none. */
static int find_mark(cr_capture *c, cr_call_frame *f, PyObject *value, PyObject *mark, PyObject **out) {
    size_t at;
    if (cr_is_token(value)) return cr_look_up(c, f, value, mark, out); /* of a subclass that is not recorded */
    if (!cr_find_known(c, value, &at)) return 0;
    PyObject *real = c->known.at[at].real, *set = cr_find_store(c, real, mark);
    int32_t source = c->known.at[at].source;
    if (set) return set == CR_DELETED ? 0 : (*out = Py_NewRef(set), 1);
    if (cr_read_now(CR_READ_ATTRIBUTE, real, mark, 0))
        return (*out = cr_wrap_read(c, CR_READ_ATTRIBUTE, source, real, mark, 0)) ? 1 : -1;
    if (cr_guard_no(&c->guards, source, CR_HOLDS_NO_ATTRIBUTE, mark)) return -1;
    return (*out = Py_XNewRef(_PyType_Lookup(Py_TYPE(real), mark))) ? 1 : 0;
}

/* Parameter and Buffer count tensors with a mark among theirs. 1, 0: it is one, or not; -1: break; 2: another class is
 * asked about. */
static int is_marked(cr_capture *c, cr_call_frame *f, PyObject *value, PyObject *of) {
    if (!cr_is_token(of) || !PyType_Check(cr_real(of))) return 2;
    PyTypeObject *asked = (PyTypeObject *)cr_real(of), *type = cr_class_of(c, value);
    bool buffer = !strcmp(Py_TYPE(asked)->tp_name, "_BufferMeta");
    if (!buffer && strcmp(Py_TYPE(asked)->tp_name, "_ParameterMeta")) return 2;
    if (PyType_IsSubtype(type, asked)) return 1;
    bool below = Py_IS_TYPE(asked->tp_base, Py_TYPE(asked)); /* classes below the two know no marks */
    if (below || !PyType_IsSubtype(type, asked->tp_base)) return 0;
    PyObject *mark = PyUnicode_InternFromString(buffer ? "_is_buffer" : "_is_param"), *found = NULL;
    int r = mark ? find_mark(c, f, value, mark, &found) : -1;
    if (r == 1 && !PyBool_Check(found)) r = cr_break(c, "the mark '%U' of a tensor is no bool", mark);
    else if (r == 1) r = found == Py_True;
    Py_XDECREF(found);
    Py_XDECREF(mark);
    return r;
}

static int call_isinstance(cr_capture *c, cr_call_frame *f, const arguments *a, PyObject **out) {
    if (a->n != 2) return cr_break(c, "isinstance() has %zd arguments", a->n);
    int is = is_marked(c, f, a->at[0], a->at[1]);
    if (is == 2) is = cr_is_subclass(c, cr_class_of(c, a->at[0]), a->at[1]);
    return is < 0 ? -1 : (*out = PyBool_FromLong(is), 1);
}

static int call_issubclass(cr_capture *c, cr_call_frame *f, const arguments *a, PyObject **out) {
    (void)f;
    PyObject *type = a->n != 2 ? NULL : cr_is_token(a->at[0]) ? cr_real(a->at[0]) : a->at[0];
    if (!type || !PyType_Check(type)) return cr_break(c, "issubclass() with such arguments");
    int is = cr_is_subclass(c, (PyTypeObject *)type, a->at[1]);
    return is < 0 ? -1 : (*out = PyBool_FromLong(is), 1);
}

static int call_type(cr_capture *c, cr_call_frame *f, const arguments *a, PyObject **out) {
    (void)f;
    if (a->n != 1) return cr_break(c, "a class is made");
    PyObject *value = a->at[0];
    size_t at;
    if (cr_is_made(value)) return *out = cr_type_value(c, value), 1;
    if (cr_is_token(value) || cr_find_known(c, value, &at)) {
        PyObject *real = cr_is_token(value) ? cr_real(value) : c->known.at[at].real;
        int32_t source = cr_is_token(value) ? cr_source_of(value) : c->known.at[at].source;
        *out = cr_wrap_read(c, CR_READ_TYPE, source, real, NULL, 0);
        return *out ? 1 : -1;
    }
    if (cr_is_python_class(Py_TYPE(value)) && !cr_is_tensor_value(value))
        return cr_break(c, "the class of an object that was made here is asked for");
    if (cr_is_tensor_value(value)) return (*out = cr_class_of_result(c)) ? 1 : -1;
    return *out = Py_NewRef((PyObject *)cr_class_of(c, value)), 1;
}

static PyObject *interned(PyObject *name) {
    Py_INCREF(name);
    PyUnicode_InternInPlace(&name);
    return name;
}

int cr_look_up(cr_capture *c, cr_call_frame *f, PyObject *value, PyObject *name, PyObject **out) {
    int r = cr_get_attribute(c, value, name, out);
    if (r == 2) return 0;
    if (r == 1) return 1;
    if (r == 0) {
        if (!cr_run_until(c, f)) return *out = cr_pop(f), 1;
        r = -1;
    }
    return cr_catch(c, PyExc_AttributeError) ? 0 : -1;
}

static int call_getattr(cr_capture *c, cr_call_frame *f, const arguments *a, PyObject **out) {
    if (a->n < 2 || a->n > 3 || !PyUnicode_CheckExact(a->at[1])) return cr_break(c, "getattr() with such arguments");
    PyObject *name = interned(a->at[1]);
    int r;
    if (a->n == 3) {
        r = cr_look_up(c, f, a->at[0], name, out);
        if (!r) *out = Py_NewRef(a->at[2]), r = 1;
    } else if ((r = cr_get_attribute(c, a->at[0], name, out)) == 2) {
        r = cr_missing(c, a->at[0], name);
    }
    Py_DECREF(name);
    return r;
}

static int call_hasattr(cr_capture *c, cr_call_frame *f, const arguments *a, PyObject **out) {
    if (a->n != 2 || !PyUnicode_CheckExact(a->at[1])) return cr_break(c, "hasattr() with such arguments");
    PyObject *name = interned(a->at[1]), *value = NULL;
    int r = cr_look_up(c, f, a->at[0], name, &value);
    Py_XDECREF(value);
    Py_DECREF(name);
    return r < 0 ? -1 : (*out = PyBool_FromLong(r), 1);
}

/* setattr() and delattr(); `value` NULL: the latter. */
static int set(cr_capture *c, const arguments *a, PyObject *value, PyObject **out) {
    cr_call_frame *before = c->frame;
    if (!PyUnicode_CheckExact(a->at[1])) return cr_break(c, "setattr() with such arguments");
    PyObject *name = interned(a->at[1]);
    int failed = cr_set_attribute(c, a->at[0], name, value, false);
    Py_DECREF(name);
    if (failed) return -1;
    if (c->frame == before) return *out = Py_NewRef(Py_None), 1;
    c->frame->instead = Py_NewRef(Py_None);
    return 0;
}

static int call_setattr(cr_capture *c, cr_call_frame *f, const arguments *a, PyObject **out) {
    (void)f;
    return a->n == 3 ? set(c, a, a->at[2], out) : cr_break(c, "setattr() with such arguments");
}

static int call_delattr(cr_capture *c, cr_call_frame *f, const arguments *a, PyObject **out) {
    (void)f;
    return a->n == 2 ? set(c, a, NULL, out) : cr_break(c, "delattr() with such arguments");
}

/* next() of a generator knows what it returned; of an object its __next__ in Python is called. */
static int call_next(cr_capture *c, cr_call_frame *f, const arguments *a, PyObject **out) {
    if (a->n < 1 || a->n > 2) return cr_break(c, "next() with such arguments");
    PyObject *from = a->at[0], *next = Py_TYPE(from)->tp_iternext ? from : NULL;
    if (cr_is_token(from)) {
        int r = a->n == 1 ? cr_call_special(c, f, from, "__next__", NULL, 0)
                          : cr_call_special_now(c, f, from, "__next__", NULL, 0, out);
        if (r == 1) return cr_break(c, "next() of an object of class %s is asked for", Py_TYPE(cr_real(from))->tp_name);
        if (a->n == 1) return r;
        if (!r) return 1;
    } else if (!next) {
        return cr_break(c, "next() of something that is no iterator is asked for");
    } else if (cr_is_generator(from)) {
        if (cr_next_of_generator(c, from, out) == 1) return 1;
    } else {
        *out = Py_TYPE(from)->tp_iternext(from);
        if (*out && cr_check_result(c, *out)) return Py_DECREF(*out), -1;
        if (*out) return 1;
        if (!PyErr_Occurred() && a->n == 1) PyErr_SetNone(PyExc_StopIteration);
        if (!PyErr_Occurred()) return *out = Py_NewRef(a->at[1]), 1;
    }
    if (a->n == 2 && cr_catch(c, PyExc_StopIteration)) return *out = Py_NewRef(a->at[1]), 1;
    return -1;
}

static int call_repr(cr_capture *c, cr_call_frame *f, const arguments *a, PyObject **out) {
    if (a->n != 1) return cr_break(c, "repr() has %zd arguments", a->n);
    PyObject *value = cr_settled(c, a->at[0]);
    *out = value ? cr_text(c, f, value, true) : NULL;
    Py_XDECREF(value);
    return *out ? 1 : -1;
}

static int call_str(cr_capture *c, cr_call_frame *f, const arguments *a, PyObject **out) {
    if (a->n != 1) return cr_break(c, "str() has %zd arguments", a->n);
    PyObject *value = cr_settled(c, a->at[0]);
    *out = value ? cr_text(c, f, value, false) : NULL;
    Py_XDECREF(value);
    return *out ? 1 : -1;
}

static int call_method_type(cr_capture *c, cr_call_frame *f, const arguments *a, PyObject **out) {
    (void)f;
    if (a->n != 2 || a->at[1] == Py_None) return cr_break(c, "MethodType() with such arguments");
    return (*out = PyMethod_New(a->at[0], a->at[1])) ? 1 : -1;
}

static int call_vars(cr_capture *c, cr_call_frame *f, const arguments *a, PyObject **out) {
    (void)f;
    PyObject *name = a->n == 1 && cr_is_token(a->at[0]) ? PyUnicode_InternFromString("__dict__") : NULL;
    int r = name ? cr_get_attribute(c, a->at[0], name, out) : cr_break(c, "vars() with such arguments");
    Py_XDECREF(name);
    return r == 2 ? cr_break(c, "vars() of an object without __dict__ is asked for") : r;
}

static int call_callable(cr_capture *c, cr_call_frame *f, const arguments *a, PyObject **out) {
    (void)f;
    if (a->n != 1) return cr_break(c, "callable() has %zd arguments", a->n);
    PyObject *value = cr_is_token(a->at[0]) ? cr_real(a->at[0]) : a->at[0];
    return *out = PyBool_FromLong(PyCallable_Check(value)), 1;
}

/* len() and iter() of an object whose class answers in Python; else the real ones. */
static int call_protocol(cr_capture *c, cr_call_frame *f, const arguments *a, const char *name, PyObject **out,
                         PyObject *(*real)(PyObject *)) {
    if (a->n != 1) return cr_break(c, "a builtin is called with %zd arguments", a->n);
    int r = cr_call_special(c, f, a->at[0], name, NULL, 0);
    if (r < 1) return r;
    PyObject *operand = cr_operand(c, a->at[0]);
    bool ordered = real == PyObject_GetIter;
    *out = operand && !(ordered && cr_refuse_order(c, operand)) ? real(operand) : NULL;
    Py_XDECREF(operand);
    return *out ? 1 : -1;
}

static int call_len(cr_capture *c, cr_call_frame *f, const arguments *a, PyObject **out) {
    return call_protocol(c, f, a, "__len__", out, cr_length);
}
static int call_iter(cr_capture *c, cr_call_frame *f, const arguments *a, PyObject **out) {
    cr_call_frame *before = c->frame;
    int r = call_protocol(c, f, a, "__iter__", out, PyObject_GetIter);
    if (!r && c->frame != before) c->frame->gives = CR_GIVES_ITSELF;
    return r;
}

/* Recorded ops carry the mode in which they were recorded. In a function that is called without gradients they can be
 * switched on only where no tensor from outside is used while they are: nothing else could require grad. */
static _Thread_local bool keeps_grad;

bool cr_set_keeps_grad(bool on) {
    bool before = keeps_grad;
    return keeps_grad = on, before;
}

typedef struct outsiders {
    const cr_graph *g;
    bool used;
} outsiders;

static void see_outsider(void *user, uint32_t value) {
    outsiders *o = user;
    const cr_meta *m = cr_graph_value(o->g, value)->meta;
    for (uint32_t id = cr_graph_first(o->g); id != CR_NO_NODE && m && !o->used; id = cr_graph_next(o->g, id)) {
        const cr_node *node = cr_graph_node(o->g, id);
        const cr_meta *of = node->kind == CR_NODE_PLACEHOLDER ? cr_graph_value(o->g, node->first)->meta : NULL;
        o->used = of && of->storage == m->storage;
    }
}

bool cr_grad_came_too_late(const cr_capture *c) {
    if (!c->switched_on) return false;
    outsiders o = { cr_trace_graph(c->trace), false };
    for (uint32_t id = cr_graph_first(o.g); id != CR_NO_NODE; id = cr_graph_next(o.g, id)) {
        const cr_node *node = cr_graph_node(o.g, id);
        if (node->kind == CR_NODE_CALL && !node->origin.no_grad)
            cr_args_visit_values(node->args, node->nargs, see_outsider, &o);
    }
    return o.used;
}

int cr_switch_grad(cr_capture *c, const cr_arguments *a, bool *before) {
    int on = a->n == 1 && cr_is_constant(a->at[0]) ? PyObject_IsTrue(a->at[0]) : -1;
    if (on < 0) return cr_break(c, "the gradient mode is set to something that is no constant");
    c->switched_on |= on && !c->grad && !c->tracer;
    if (c->switched_on && keeps_grad)
        return cr_break(c, "gradients are switched on in a function that is called without them");
    *before = cr_ambient_get()->grad;
    cr_ambient_get()->grad = on;
    return c->tracer ? cr_py_note_grad_mode(on) : 0;
}

static int set_grad(cr_capture *c, cr_call_frame *f, const arguments *a, PyObject **out) {
    bool before;
    (void)f;
    return cr_switch_grad(c, a, &before) ? -1 : (*out = PyBool_FromLong(before), 1);
}

/* requires_grad_() of a tensor that was made here, in a call without gradients: nobody sees it, unless the tensor, or
 * one on its memory, is a result (entry.c). False: it is another case. */
static int note_leaf(cr_capture *c, cr_call_frame *f, const arguments *a, PyObject **out) {
    PyObject *tensor = a->n == 2 ? a->at[0] : NULL, *floats = NULL;
    size_t at;
    (void)f;
    bool here = tensor && cr_is_tensor_value(tensor) && !cr_find_known(c, tensor, &at) && PyBool_Check(a->at[1]);
    bool off = here && !c->grad && !c->tracer && c->frontend && !(c->frontend->ambient() & CR_AMBIENT_INFERENCE);
    if (off && a->at[1] == Py_True) {
        if (!(floats = PyObject_CallMethod(tensor, "is_floating_point", NULL))) return -1;
        off = floats == Py_True;
        Py_DECREF(floats);
        if (off && !c->leaves && !(c->leaves = PyList_New(0))) return -1;
        if (off && PyList_Append(c->leaves, tensor)) return -1;
    } else if (off && c->leaves) {
        off = false;
    }
    return *out = PyBool_FromLong(off), 1;
}

/* The exception that is handled: the program's own is not told; that nobody around the call handles one is guarded. */
static int handles_nothing(cr_capture *c) {
    PyObject *handled = PyErr_GetHandledException();
    bool none = !handled || handled == Py_None;
    Py_XDECREF(handled);
    if (cr_handles(c) || !none) return cr_break(c, "the exception that is handled is asked for");
    return cr_guard_nothing_handled(&c->guards);
}

static int call_exc_info(cr_capture *c, cr_call_frame *f, const arguments *a, PyObject **out) {
    (void)f;
    if (a->n || handles_nothing(c)) return a->n ? cr_break(c, "sys.exc_info() has arguments") : -1;
    return (*out = PyTuple_Pack(3, Py_None, Py_None, Py_None)) ? 1 : -1;
}

static int call_exception(cr_capture *c, cr_call_frame *f, const arguments *a, PyObject **out) {
    (void)f;
    if (a->n || handles_nothing(c)) return a->n ? cr_break(c, "sys.exception() has arguments") : -1;
    return *out = Py_NewRef(Py_None), 1;
}

static PyObject *iterable(cr_capture *c, cr_call_frame *f, PyObject *value);

static bool is_dict_method(PyObject *token, const char *name) {
    PyObject *text = PyUnicode_InternFromString(name);
    bool same = text && _PyType_Lookup(Py_TYPE(cr_real(token)), text) == _PyType_Lookup(&PyDict_Type, text);
    Py_XDECREF(text);
    return same;
}

/* What Counter counts with, as CPython does where get() and __setitem__() are dict's own. */
static int count_elements(cr_capture *c, cr_call_frame *f, const arguments *a, PyObject **out) {
    PyObject *counter = a->n == 2 && cr_is_made(a->at[0]) ? a->at[0] : NULL;
    if (!counter || !PyDict_Check(cr_real(counter)) || !is_dict_method(counter, "get") ||
        !is_dict_method(counter, "__setitem__"))
        return cr_break(c, "something is counted in a dict that was not made here");
    PyObject *counts = cr_payload(c, counter), *items = counts ? iterable(c, f, a->at[1]) : NULL;
    PyObject *list = items ? PySequence_List(items) : NULL, *one = PyLong_FromLong(1);
    int failed = !list || !one;
    for (Py_ssize_t i = 0; !failed && i < PyList_GET_SIZE(list); i++) {
        PyObject *item = cr_settled(c, PyList_GET_ITEM(list, i));
        if (item && !cr_is_constant(item)) failed = cr_break(c, "something is counted that is no constant");
        PyObject *old = item && !failed ? PyDict_GetItemWithError(counts, item) : NULL;
        PyObject *now = !item || failed || PyErr_Occurred() ? NULL : old ? PyNumber_Add(old, one) : Py_NewRef(one);
        failed = failed || !now || PyDict_SetItem(counts, item, now);
        Py_XDECREF(item);
        Py_XDECREF(now);
    }
    Py_XDECREF(counts), Py_XDECREF(items), Py_XDECREF(list), Py_XDECREF(one);
    return failed ? -1 : (*out = Py_NewRef(Py_None), 1);
}

/* ---- the tables ---- */

static const rule builtins[] = {
    { "abs", ANY, NULL },      { "all", ANY, NULL },       { "any", ANY, NULL },      { "ascii", CONSTANTS, NULL },
    { "bin", CONSTANTS, NULL }, { "chr", CONSTANTS, NULL }, { "divmod", ANY, NULL },  { "format", CONSTANTS, NULL },
    { "hash", CONSTANTS, NULL }, { "hex", CONSTANTS, NULL }, { "iter", SPECIAL, call_iter },
    { "len", SPECIAL, call_len },
    { "max", ANY, NULL },      { "min", ANY, NULL },       { "next", SPECIAL, call_next },   { "oct", CONSTANTS, NULL },
    { "ord", CONSTANTS, NULL }, { "pow", ANY, NULL },      { "repr", SPECIAL, call_repr }, { "round", ANY, NULL },
    { "sorted", ANY, NULL },   { "sum", ANY, NULL },       { "isinstance", SPECIAL, call_isinstance },
    { "getattr", SPECIAL, call_getattr }, { "hasattr", SPECIAL, call_hasattr },
    { "setattr", SPECIAL, call_setattr }, { "delattr", SPECIAL, call_delattr },
    { "issubclass", SPECIAL, call_issubclass }, { "vars", SPECIAL, call_vars },
    { "callable", SPECIAL, call_callable },
};

static const rule own[] = {
    /* _exporting(): None wherever a capture is; _function, _packet: the same op for ever */
    { "_exporting", ANY, NULL },
    { "_is_exporting", ANY, NULL },
    { "_populated_tensor_type", ANY, NULL },
    { "is_grad_enabled", ANY, NULL },
    { "get_default_dtype", ANY, NULL }, /* of the surroundings, which an entry is for */
    { "_set_grad_enabled", SPECIAL, set_grad },
    { "_note_leaf", SPECIAL, note_leaf },
    { "_push_mode", SPECIAL, cr_push_mode },
    { "_pop_mode", SPECIAL, cr_pop_mode },
    { "_count_modes", SPECIAL, cr_count_modes },
    { "_mode_at", SPECIAL, cr_mode_at },
    { "_autocast", ANY, NULL }, /* ops are recorded with their casts; what surrounds the call is put back at its end */
    { "_set_autocast", CONSTANTS, NULL },
    { "_function", CONSTANTS, NULL },
    { "_is_capturing", ANY, NULL }, /* who captures answers (dispatch.c) */
    { "_packet", CONSTANTS, NULL },
};

static const rule functools[] = { { "reduce", ANY, NULL } };
static const rule collections[] = { { "_count_elements", SPECIAL, count_elements } };
static const rule sys[] = { { "exc_info", SPECIAL, call_exc_info }, { "exception", SPECIAL, call_exception } };

/* Functions of modules in C that compute, by the module's name. */
static const struct { const char *module; const rule *rules; size_t n; int on; } modules[] = {
    { "builtins", builtins, CR_COUNT(builtins), ANY },
    { "cresset._C", own, CR_COUNT(own), ANY },
    { "math", NULL, 0, CONSTANTS },
    { "_operator", NULL, 0, ANY },
    { "itertools", NULL, 0, ANY },
    { "_functools", functools, CR_COUNT(functools), ANY },
    { "_collections", collections, CR_COUNT(collections), ANY },
    { "sys", sys, CR_COUNT(sys), ANY },
};

static const struct { PyTypeObject *type; int on; } made_types[] = {
    { &PyList_Type, ANY },      { &PyTuple_Type, ANY },   { &PyDict_Type, ANY },      { &PyRange_Type, CONSTANTS },
    { &PyEnum_Type, ANY },      { &PyZip_Type, ANY },     { &PyReversed_Type, ANY },  { &PySlice_Type, ANY },
    { &PyLong_Type, ANY },      { &PyFloat_Type, ANY },   { &PyComplex_Type, ANY },   { &PyUnicode_Type, CONSTANTS },
    { &PySet_Type, CONSTANTS }, { &PyFrozenSet_Type, CONSTANTS }, { &PyBytes_Type, CONSTANTS },
    { &PyMap_Type, ANY },       { &PyFilter_Type, ANY },     { &PyODict_Type, ANY },
    { &cr_py_device_type, CONSTANTS }, { &cr_py_size_type, ANY },
};

/* Methods of these types, on their exact objects. */
static const struct { PyTypeObject *type; int on; } method_types[] = {
    { &PyList_Type, ANY },          { &PyTuple_Type, ANY },         { &PyDict_Type, ANY },
    { &PySet_Type, CONSTANTS },     { &PyFrozenSet_Type, CONSTANTS }, { &PyUnicode_Type, CONSTANTS },
    { &PyBytes_Type, CONSTANTS },   { &PyLong_Type, CONSTANTS },    { &PyFloat_Type, CONSTANTS },
    { &PyComplex_Type, CONSTANTS }, { &PyRange_Type, CONSTANTS },   { &PySlice_Type, CONSTANTS },
    { &PyBool_Type, CONSTANTS },    { &PyODict_Type, ANY },         { &cr_py_size_type, ANY },
};

static bool is_deque(const PyTypeObject *type) { return !strcmp(type->tp_name, "collections.deque"); }
bool cr_is_defaultdict(const PyTypeObject *type) { return !strcmp(type->tp_name, "collections.defaultdict"); }

/* A class in C whose call, without arguments, gives a new empty object: a defaultdict calls it by itself. */
static bool is_factory(PyObject *value) {
    static PyTypeObject *const types[] = { &PyList_Type, &PyDict_Type,  &PySet_Type,     &PyLong_Type, &PyFloat_Type,
                                           &PyBool_Type, &PyTuple_Type, &PyUnicode_Type, &PyODict_Type };
    for (size_t i = 0; i < CR_COUNT(types); i++)
        if (value == (PyObject *)types[i]) return true;
    return value == Py_None;
}
static bool is_of_itertools(const PyTypeObject *type) { return !strncmp(type->tp_name, "itertools.", 10); }

/* The class of x.shape of another library: sizes that are known are its own objects. */
static bool is_sizes(const PyTypeObject *type) {
    const cr_frontend *fe;
    for (size_t i = 0; (fe = cr_frontend_at(i)); i++)
        if (fe->class_of_sizes && fe->class_of_sizes() == type) return true;
    return false;
}

static int on_methods_of(PyTypeObject *type) {
    for (size_t i = 0; i < CR_COUNT(method_types); i++)
        if (method_types[i].type == type) return method_types[i].on;
    return is_deque(type) || cr_is_defaultdict(type) ? ANY : is_sizes(type) ? CONSTANTS : -1;
}

/* By what rule a function in C may be called: ANY, CONSTANTS; SPECIAL: *written*; -1: not at all. */
static int rule_of(PyObject *callable, const arguments *a, special *written) {
    if (callable == (PyObject *)&PyType_Type) return *written = call_type, SPECIAL;
    if (callable == (PyObject *)&PySuper_Type) return *written = cr_call_super, SPECIAL;
    if (callable == (PyObject *)&PyMethod_Type) return *written = call_method_type, SPECIAL;
    if (PyType_Check(callable) && is_deque((PyTypeObject *)callable)) return ANY;
    if (PyType_Check(callable) && cr_is_defaultdict((PyTypeObject *)callable))
        return !a->n || is_factory(a->at[0]) ? ANY : -1;
    if (callable == (PyObject *)&PyBool_Type) return ANY;
    if (callable == (PyObject *)&PyUnicode_Type && a->n == 1 && !a->kwnames) return *written = call_str, SPECIAL;
    if (PyType_Check(callable) && is_of_itertools((PyTypeObject *)callable)) return ANY;
    for (size_t i = 0; PyType_Check(callable) && i < CR_COUNT(made_types); i++)
        if (callable == (PyObject *)made_types[i].type) return made_types[i].on;
    if (Py_IS_TYPE(callable, &PyMethodDescr_Type)) {
        if (!strncmp(((PyMethodDescrObject *)callable)->d_method->ml_name, "__", 2)) return -1;
        bool fits = a->n && (Py_IS_TYPE(a->at[0], PyDescr_TYPE(callable)) ||
                             ((PyODict_CheckExact(a->at[0]) || cr_is_defaultdict(Py_TYPE(a->at[0]))) &&
                              PyDescr_TYPE(callable) == &PyDict_Type) ||
                             (Py_IS_TYPE(a->at[0], &cr_py_size_type) && PyDescr_TYPE(callable) == &PyTuple_Type));
        return fits ? on_methods_of(PyDescr_TYPE(callable)) : -1;
    }
    if (!PyCFunction_CheckExact(callable)) return -1;
    const PyCFunctionObject *function = (PyCFunctionObject *)callable;
    if (function->m_self && !PyModule_CheckExact(function->m_self)) {
        PyObject *self = function->m_self;
        if (cr_is_generator(self)) return ANY;
        if (PyType_Check(self) && is_of_itertools((PyTypeObject *)self)) return ANY;
        if (!strncmp(function->m_ml->ml_name, "__", 2)) return -1; /* __format__, __reduce__: texts and the like */
        return on_methods_of(PyType_Check(self) ? (PyTypeObject *)self : Py_TYPE(self));
    }
    const char *module = function->m_module && PyUnicode_Check(function->m_module)
                             ? PyUnicode_AsUTF8(function->m_module)
                             : "";
    const char *name = function->m_ml->ml_name;
    if (!strcmp(module ? module : "", "_operator") && strstr(" is_ is_not mod imod call ", name)) return -1;
    for (size_t m = 0; module && m < CR_COUNT(modules); m++) {
        if (strcmp(module, modules[m].module)) continue;
        if (!modules[m].rules) return modules[m].on;
        for (size_t i = 0; i < modules[m].n; i++)
            if (!strcmp(name, modules[m].rules[i].name))
                return *written = modules[m].rules[i].call, modules[m].rules[i].on;
    }
    return -1;
}

/* ---- on open numbers ---- */

static PyObject *by_name(const char *name, PyObject *a, PyObject *b) {
    static PyObject *function; /* once */
    PyObject *module = function ? NULL : PyImport_ImportModule("cresset._C");
    if (module) function = PyObject_GetAttrString(module, "_sym_call");
    Py_XDECREF(module);
    if (!function) return NULL;
    return b ? PyObject_CallFunction(function, "sOO", name, a, b) : PyObject_CallFunction(function, "sO", name, a);
}

static bool is_number(PyObject *value) {
    PyTypeObject *type = cr_class_of_open(value);
    return type == &PyLong_Type || type == &PyFloat_Type;
}

/* int(), float(): another expression, not another number. */
static PyObject *convert(PyObject *type, PyObject *value) {
    bool is_float = cr_class_of_open(value) == &PyFloat_Type;
    if (is_float == (type == (PyObject *)&PyFloat_Type)) return PyNumber_Positive(value);
    return is_float ? by_name("math::trunc", value, NULL) : by_name("torch::sym_float", value, NULL);
}

/* max(a, b, ...) and min(): without a decision where all are numbers of one kind. */
static PyObject *extreme(const char *name, const arguments *a) {
    PyObject *best = Py_NewRef(a->at[0]);
    for (Py_ssize_t k = 1; best && k < a->n; k++) Py_SETREF(best, by_name(name, best, a->at[k]));
    return best;
}

/* 1: *out; 0: as any other call; -1. */
static int call_on_open(cr_capture *c, PyObject *callable, const arguments *a, PyObject **out) {
    bool any = false, alike = a->n > 0 && !a->kwnames;
    for (Py_ssize_t k = 0; k < a->n; k++) {
        any |= cr_is_open(a->at[k]);
        alike &= is_number(a->at[k]) && cr_class_of_open(a->at[k]) == cr_class_of_open(a->at[0]);
    }
    if (!any || !alike) return 0;
    const char *name = PyCFunction_CheckExact(callable) ? ((PyCFunctionObject *)callable)->m_ml->ml_name : "";
    if (a->n == 1 && (callable == (PyObject *)&PyLong_Type || callable == (PyObject *)&PyFloat_Type))
        *out = convert(callable, a->at[0]);
    else if (a->n > 1 && !strcmp(name, "max")) *out = extreme("torch::sym_max", a);
    else if (a->n > 1 && !strcmp(name, "min")) *out = extreme("torch::sym_min", a);
    else if (a->n == 1 && !strcmp(name, "floor")) *out = PyObject_CallMethod(a->at[0], "__floor__", NULL);
    else if (a->n == 1 && !strcmp(name, "ceil")) *out = PyObject_CallMethod(a->at[0], "__ceil__", NULL);
    else if (a->n == 1 && !strcmp(name, "trunc")) *out = PyObject_CallMethod(a->at[0], "__trunc__", NULL);
    else return 0;
    c->on_tensors = true;
    return *out ? 1 : -1;
}

/* Methods of dicts look for their first argument. */
static bool looks_for(PyObject *callable, const arguments *a, Py_ssize_t k) {
    if (Py_IS_TYPE(callable, &PyMethodDescr_Type)) return k == 1 && PyDict_Check(a->at[0]);
    return k == 0 && PyCFunction_CheckExact(callable) && PyCFunction_GET_SELF(callable) &&
           PyDict_Check(PyCFunction_GET_SELF(callable));
}

/* What needs plain numbers gets them. 0: called so; 1: it does not, or there is none; -1. */
static int call_settled(cr_capture *c, cr_call_frame *f, PyObject *callable, const arguments *a, bool all) {
    Py_ssize_t total = a->n + (a->kwnames ? PyTuple_GET_SIZE(a->kwnames) : 0);
    PyObject *settled = PyTuple_New(total);
    bool changed = false;
    for (Py_ssize_t k = 0; settled && k < total; k++) {
        PyObject *value = all || looks_for(callable, a, k) ? cr_settled(c, a->at[k]) : Py_NewRef(a->at[k]);
        changed |= value != a->at[k];
        if (value) PyTuple_SET_ITEM(settled, k, value);
        else Py_CLEAR(settled);
    }
    int r = !settled ? -1
            : changed ? cr_call_builtin(c, f, callable, ((PyTupleObject *)settled)->ob_item, a->n, a->kwnames)
                      : 1;
    Py_XDECREF(settled);
    return r;
}

/* ---- calling ---- */

/* "max", "dict.update": for messages. New reference. */
static PyObject *shown(PyObject *callable) {
    PyObject *name = PyObject_GetAttrString(callable, "__qualname__");
    if (name && PyUnicode_Check(name)) return name;
    PyErr_Clear();
    Py_XDECREF(name);
    return PyUnicode_FromString(Py_TYPE(callable)->tp_name);
}

static int refuse(cr_capture *c, PyObject *callable, const char *why) {
    PyObject *name = shown(callable);
    if (name) cr_break(c, "%U() is called%s", name, why);
    Py_XDECREF(name);
    return -1;
}

static bool is_python(PyObject *value) {
    return PyFunction_Check(value) || PyMethod_Check(value);
}

/* Does it call what it is given? Then that is evaluated, be it in Python or not. */
static bool calls_back(PyObject *callable) {
    static const char *const names[] = { "sorted", "min", "max", "sort", "reduce" };
    if (PyType_Check(callable))
        return callable == (PyObject *)&PyMap_Type || callable == (PyObject *)&PyFilter_Type ||
               is_of_itertools((PyTypeObject *)callable);
    const char *name = "";
    if (PyCFunction_CheckExact(callable)) name = ((PyCFunctionObject *)callable)->m_ml->ml_name;
    if (Py_IS_TYPE(callable, &PyMethodDescr_Type)) name = ((PyMethodDescrObject *)callable)->d_method->ml_name;
    for (size_t i = 0; i < CR_COUNT(names); i++)
        if (!strcmp(name, names[i])) return true;
    return false;
}

/* Dicts from outside are unfolded, objects that iterate in Python are asked for their iterator. */
static PyObject *iterable(cr_capture *c, cr_call_frame *f, PyObject *value) {
    PyObject *iterator = NULL;
    int r = cr_call_special_now(c, f, value, "__iter__", NULL, 0, &iterator);
    PyObject *operand = r == 1 ? cr_operand(c, value) : iterator;
    if (operand && cr_refuse_order(c, operand)) Py_CLEAR(operand);
    return operand;
}

/* Does it go through its positional argument number k of n? What it stores or gives back, it must get as it is. */
static bool iterates_over(PyObject *callable, Py_ssize_t k, Py_ssize_t n) {
    static const struct { const char *name; int first, last; } names[] = {
        { "sorted", 0, 0 },  { "sum", 0, 0 },    { "any", 0, 0 },  { "all", 0, 0 },      { "extend", 0, 0 },
        { "join", 0, 0 },    { "reduce", 1, 1 }, { "update", 0, 0 }, { "fromkeys", 0, 0 }, { "from_iterable", 0, 0 },
        { "itertools.repeat", 1, 0 }, { "itertools.islice", 0, 0 }, { "itertools.count", 1, 0 }, { "slice", 1, 0 },
        { "enumerate", 0, 0 }, { "collections.defaultdict", 1, 1 },
    };
    const char *name = PyType_Check(callable)             ? ((PyTypeObject *)callable)->tp_name
                       : PyCFunction_CheckExact(callable) ? ((PyCFunctionObject *)callable)->m_ml->ml_name
                                                          : "";
    if (!strcmp(name, "min") || !strcmp(name, "max")) return n == 1;
    for (size_t i = 0; i < CR_COUNT(names); i++)
        if (!strcmp(name, names[i].name)) return names[i].first <= k && k <= names[i].last;
    return PyType_Check(callable); /* list(), zip(), chain(), ... */
}

/* What C code gets for an argument. */
static PyObject *operand_of(cr_capture *c, cr_call_frame *f, PyObject *callable, const arguments *a, Py_ssize_t k,
                            bool is_op) {
    PyObject *value = a->at[k];
    if (!is_op && calls_back(callable) && cr_may_be_called(value)) return cr_callback_new(c, value);
    if (is_op && cr_has_numpy_number(value) && !PyFloat_Check(value))
        return cr_break(c, "an op is called on a number of NumPy's"), NULL;
    if (is_op) return cr_operand(c, value);
    if (k < a->n && iterates_over(callable, k, a->n)) return iterable(c, f, value);
    return cr_is_token(value) && PyDict_CheckExact(cr_real(value)) ? cr_operand(c, value) : Py_NewRef(value);
}

/* Calls it with what it may look into ready to be looked into. */
/* What only the library of the tensors makes: leaves that want gradients, and gradients that are sparse. */
static const char *of_library(cr_capture *c, const arguments *a) {
    static const char *const names[] = { "requires_grad", "sparse_grad" };
    if (c->tracer || !c->frontend || !c->frontend->borrow || !a->kwnames) return NULL;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(a->kwnames); k++)
        for (size_t i = 0; i < CR_COUNT(names); i++)
            if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(a->kwnames, k), names[i]) == 0 &&
                a->at[a->n + k] != Py_False && a->at[a->n + k] != Py_None)
                return names[i];
    return NULL;
}

/* out= of a tensor: where it is among the keywords, or -1. Where gradients are recorded the library refuses it. */
static Py_ssize_t where_out_is(const cr_capture *c, const arguments *a) {
    if (!c->frontend || !c->frontend->borrow || !a->kwnames || cr_ambient_get()->grad) return -1;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(a->kwnames); k++)
        if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(a->kwnames, k), "out") == 0)
            return cr_is_tensor_value(a->at[a->n + k]) ? k : -1;
    return -1;
}

static int has_same(PyObject *a, PyObject *b, const char *name) {
    PyObject *x = PyObject_GetAttrString(a, name), *y = x ? PyObject_GetAttrString(b, name) : NULL;
    int same = y ? PyObject_RichCompareBool(x, y, Py_EQ) : -1;
    Py_XDECREF(x);
    Py_XDECREF(y);
    return same;
}

/* op(..., out=t) is t.copy_(op(...)) where sizes and dtype are t's: that has a functional form. 1: they are others. */
static int call_into(PyObject *callable, PyObject **operands, const arguments *a, Py_ssize_t at, PyObject **result) {
    Py_ssize_t named = PyTuple_GET_SIZE(a->kwnames);
    PyObject *out = operands[a->n + at], *value = NULL, *names = PyTuple_New(named - 1);
    if (!names) return -1;
    for (Py_ssize_t k = 0, n = 0; k < named; k++)
        if (k != at) PyTuple_SET_ITEM(names, n++, Py_NewRef(PyTuple_GET_ITEM(a->kwnames, k)));
    for (Py_ssize_t k = at; k + 1 < named; k++) operands[a->n + k] = operands[a->n + k + 1];
    value = PyObject_Vectorcall(callable, operands, (size_t)a->n, names);
    for (Py_ssize_t k = named - 1; k > at; k--) operands[a->n + k] = operands[a->n + k - 1];
    operands[a->n + at] = out;
    Py_DECREF(names);
    int same = !value ? -1 : !cr_is_tensor_value(value) ? 0 : has_same(value, out, "dtype");
    if (same == 1) same = has_same(value, out, "shape");
    if (same == 1) *result = PyObject_CallMethod(out, "copy_", "O", value);
    Py_XDECREF(value);
    return same < 0 || (same && !*result) ? -1 : !same;
}

PyObject *cr_call_for_real(cr_capture *c, cr_call_frame *f, PyObject *callable, const arguments *a, bool is_op) {
    const char *refused = of_library(c, a);
    if (refused) return cr_break(c, "a tensor is made, or an op called, with %s=True", refused), NULL;
    Py_ssize_t total = a->n + (a->kwnames ? PyTuple_GET_SIZE(a->kwnames) : 0), k = 0;
    PyObject *result = NULL, **operands = PyMem_Malloc(((size_t)total + 1) * sizeof *operands);
    if (!operands) return PyErr_NoMemory();
    while (k < total && (operands[k] = operand_of(c, f, callable, a, k, is_op))) k++;
    Py_ssize_t out = is_op ? where_out_is(c, a) : -1;
    if (k == total && (out < 0 || call_into(callable, operands, a, out, &result) == 1))
        result = PyObject_Vectorcall(callable, operands, (size_t)a->n, a->kwnames);
    while (k--) Py_DECREF(operands[k]);
    PyMem_Free(operands);
    return result;
}

/* The name of the op that it is. New reference; NULL, without an exception: it is none. */
static PyObject *op_name(PyObject *callable) {
    const cr_frontend *fe;
    for (size_t i = 0; (fe = cr_frontend_at(i)); i++) {
        PyObject *name = fe->resolve(callable);
        if (name) return name;
        PyErr_Clear();
    }
    return NULL;
}

/* Is it an op? A custom one that nobody has said to be fit for captures ends this one, where the program asks for
 * that. -1: break. */
static int is_op(cr_capture *c, PyObject *callable) {
    PyObject *name = op_name(callable);
    if (!name) return 0;
    const cr_op *op = cr_only_compliant && PyUnicode_Check(name) ? cr_op_find(PyUnicode_AsUTF8(name)) : NULL;
    const cr_custom *custom = op ? cr_custom_get(op) : NULL;
    int is = 1;
    if (custom && !custom->compliant)
        is = cr_break(c, "%U is called, a custom operator without the tag pt2_compliant_tag "
                         "(config.only_allow_pt2_compliant_ops): make it with custom_op(), or with "
                         "define(..., tags=Tag.pt2_compliant_tag)", name);
    Py_DECREF(name);
    return is;
}

/* A method of a tensor, bound or not: the attribute was let through before. */
static bool is_tensor_method(PyObject *callable, const arguments *a) {
    if (Py_IS_TYPE(callable, &PyMethodDescr_Type))
        return a->n && cr_is_tensor_value(a->at[0]) && PyObject_TypeCheck(a->at[0], PyDescr_TYPE(callable));
    return PyCFunction_CheckExact(callable) && PyCFunction_GET_SELF(callable) &&
           cr_is_tensor_value(PyCFunction_GET_SELF(callable));
}

/* object.__new__, tuple.__new__, ... */
static bool is_new(PyObject *callable) {
    return PyCFunction_CheckExact(callable) && PyCFunction_GET_SELF(callable) &&
           PyType_Check(PyCFunction_GET_SELF(callable)) &&
           !strcmp(((PyCFunctionObject *)callable)->m_ml->ml_name, "__new__");
}

static int call_new(cr_capture *c, cr_call_frame *f, PyObject *callable, const arguments *a) {
    PyObject *of = PyCFunction_GET_SELF(callable), *type = a->n ? a->at[0] : NULL, *out = NULL;
    bool fits = type && cr_is_token(type) && PyType_Check(cr_real(type)) && !a->kwnames;
    PyObject *rest = fits ? PyTuple_New(a->n - 1) : NULL;
    for (Py_ssize_t k = 1; rest && k < a->n; k++) PyTuple_SET_ITEM(rest, k - 1, Py_NewRef(a->at[k]));
    if (!rest) return PyErr_Occurred() ? -1 : cr_break(c, "__new__() is called with such arguments");
    int r = cr_make_object(c, f, type, (PyTypeObject *)of, rest, &out);
    Py_DECREF(rest);
    return r < 0 ? -1 : (cr_push(f, out), 0);
}

static int make_exception(cr_capture *c, cr_call_frame *f, PyObject *type, const arguments *a) {
    if (!cr_exception_takes(c, type, a->at, a->n)) return refuse(c, type, " on something that is no constant");
    PyObject *made = cr_exception_value(c, PyObject_Vectorcall(type, a->at, (size_t)a->n, NULL));
    for (Py_ssize_t k = 0; made && a->kwnames && k < PyTuple_GET_SIZE(a->kwnames); k++) { /* not made again: noted */
        PyObject *attributes = ((cr_token *)made)->attributes;
        if (PyDict_SetItem(attributes, PyTuple_GET_ITEM(a->kwnames, k), a->at[a->n + k])) Py_CLEAR(made);
    }
    return made ? cr_push(f, made), 0 : -1;
}

/* AttributeError(text, name=..., obj=...): what tells a traceback more. */
static bool takes_keywords(PyObject *type, PyObject *names) {
    for (Py_ssize_t k = 0; names && k < PyTuple_GET_SIZE(names); k++) {
        PyObject *name = PyTuple_GET_ITEM(names, k);
        if (type != PyExc_AttributeError || (PyUnicode_CompareWithASCIIString(name, "name") &&
                                             PyUnicode_CompareWithASCIIString(name, "obj")))
            return false;
    }
    return true;
}

/* tensor([1, 2]): made now, a constant of the graph; every call gets a copy of it. */
static bool makes_tensor(PyObject *callable) {
    if (!PyCFunction_CheckExact(callable)) return false;
    const PyCFunctionObject *function = (PyCFunctionObject *)callable;
    return !strcmp(function->m_ml->ml_name, "tensor") && function->m_module && PyUnicode_Check(function->m_module) &&
           !PyUnicode_CompareWithASCIIString(function->m_module, "cresset._C");
}

static int make_tensor(cr_capture *c, cr_call_frame *f, PyObject *callable, const arguments *a) {
    Py_ssize_t total = a->n + (a->kwnames ? PyTuple_GET_SIZE(a->kwnames) : 0);
    bool computed = a->n && cr_lacks_example(c, a->at[0]); /* tensor(x.item()) */
    for (Py_ssize_t k = computed; k < total; k++)
        if (!cr_is_constant(a->at[k])) return refuse(c, callable, " on something that is no constant");
    for (Py_ssize_t k = 0; a->kwnames && k < PyTuple_GET_SIZE(a->kwnames); k++)
        if (!PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(a->kwnames, k), "requires_grad"))
            return refuse(c, callable, " with requires_grad");
    if (c->tracer || computed) return cr_give(c, f, PyObject_Vectorcall(callable, a->at, (size_t)a->n, a->kwnames));
    cr_call_mode paused = cr_pause(c);
    PyObject *made = PyObject_Vectorcall(callable, a->at, (size_t)a->n, a->kwnames);
    cr_go_on(paused);
    PyObject *copy = made ? PyObject_CallMethod(made, "clone", NULL) : NULL;
    Py_XDECREF(made);
    return cr_give(c, f, copy);
}

/* ", ".join(f(x) for x in xs), set(map(...)): the items first, which may be constants. */
static int call_on_list(cr_capture *c, cr_call_frame *f, PyObject *callable, PyObject *value) {
    PyObject *items = iterable(c, f, value), *list = items ? PySequence_List(items) : NULL;
    int r = list ? cr_call_builtin(c, f, callable, &list, 1, NULL) : -1;
    Py_XDECREF(items);
    Py_XDECREF(list);
    return r;
}

/* dict.__getitem__(object, text), of an object from outside whose class is made of dict: what its own __getitem__ asks
 * super() for. */
static bool is_item_of_dict(const cr_capture *c, PyObject *callable, const arguments *a) {
    if (!Py_IS_TYPE(callable, &PyMethodDescr_Type) || PyDescr_TYPE(callable) != &PyDict_Type || a->n != 2 ||
        a->kwnames || strcmp(((PyMethodDescrObject *)callable)->d_method->ml_name, "__getitem__"))
        return false;
    PyObject *dict = cr_is_token(a->at[0]) && !cr_is_made(a->at[0]) ? cr_real(a->at[0]) : NULL;
    return dict && PyDict_Check(dict) && PyUnicode_CheckExact(a->at[1]) && !cr_unfolded(c, dict) &&
           !cr_has_stores(c, dict) && cr_read_now(CR_READ_KEY, dict, a->at[1], 0);
}

/* set.discard() of something that is not in the set. */
static bool discards_nothing(PyObject *callable, const arguments *a) {
    PyObject *set = a->n == 2 && cr_is_token(a->at[0]) ? cr_real(a->at[0]) : NULL;
    if (!Py_IS_TYPE(callable, &PyMethodDescr_Type) || !set || !PySet_CheckExact(set) || !cr_is_constant(a->at[1]))
        return false;
    const char *name = ((PyMethodDescrObject *)callable)->d_method->ml_name;
    return !strcmp(name, "discard") && PySet_Contains(set, a->at[1]) == 0;
}

int cr_call_builtin(cr_capture *c, cr_call_frame *f, PyObject *callable, PyObject *const *args, Py_ssize_t nargs,
                    PyObject *kwnames) {
    arguments a = { args, nargs, kwnames };
    Py_ssize_t total = nargs + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0);
    special written = NULL;
    PyObject *out = NULL;
    if (Py_IS_TYPE(callable, &PyWrapperDescr_Type)) {
        int r = cr_call_wrapper(c, f, callable, &a, &out);
        return r < 0 ? -1 : r ? (cr_push(f, out), 0) : 0;
    }
    int foreign = cr_call_foreign(c, f, callable, &a);
    if (foreign < 1) return foreign;
    if (is_new(callable)) return call_new(c, f, callable, &a);
    if (PyExceptionClass_Check(callable) && takes_keywords(callable, kwnames))
        return make_exception(c, f, callable, &a);
    int op = is_op(c, callable);
    if (op < 0) return -1;
    if (op || is_tensor_method(callable, &a)) {
        c->on_tensors = true;
        if (!(out = cr_call_for_real(c, f, callable, &a, true))) return -1;
        if (cr_check_numbers(c, out)) return Py_DECREF(out), -1;
        if (!PyUnicode_Check(out) || !c->frontend || !c->frontend->borrow) return cr_give(c, f, out);
        Py_DECREF(out); /* x.type(): ours would name another library */
        return refuse(c, callable, ", which gives a text about a tensor");
    }
    if (makes_tensor(callable)) return make_tensor(c, f, callable, &a);
    if (is_item_of_dict(c, callable, &a))
        return cr_give(c, f, cr_wrap_read(c, CR_READ_KEY, cr_source_of(args[0]), cr_real(args[0]), args[1], 0));
    int keyed = cr_call_with_key(c, callable, &a, &out);
    if (keyed) return keyed < 0 ? -1 : cr_give(c, f, out);
    int context = cr_call_context(c, callable, &a, &out);
    if (context) return context < 0 ? -1 : (cr_push(f, out), 0);
    int on = rule_of(callable, &a, &written);
    if (on < 0 && c->tracer && (cr_strict_drops(callable) || discards_nothing(callable, &a)))
        return cr_give(c, f, Py_NewRef(Py_None));
    int reordered = on < 0 ? cr_call_reordered(c, f, callable, &a) : 1;
    if (reordered != 1) return reordered;
    if (on < 0) return cr_break_as_asked(c, callable, args, nargs) ? -1 : refuse(c, callable, "");
    if (on == SPECIAL) {
        if (kwnames) return refuse(c, callable, " with keywords");
        int r = written(c, f, &a, &out);
        return r < 0 ? -1 : r ? (cr_push(f, out), 0) : 0;
    }
    int read = c->follows || c->data || c->unbacked ? cr_read_number(c, callable, &a, &out) : 0;
    if (read) return read < 0 ? -1 : cr_give(c, f, out);
    if (c->numbers) {
        int r = call_on_open(c, callable, &a, &out);
        if (r) return r < 0 ? -1 : cr_give(c, f, out);
        if ((r = call_settled(c, f, callable, &a, on == CONSTANTS)) < 1) return r;
    }
    bool goes_through = on == CONSTANTS && nargs == 1 && !kwnames && iterates_over(callable, 0, 1);
    if (goes_through && !PyList_CheckExact(args[0]) && !cr_is_constant(args[0]))
        return call_on_list(c, f, callable, args[0]);
    bool of_container = !PyType_Check(callable) && PyCFunction_CheckExact(callable) &&
                        PyCFunction_GET_SELF(callable) && !PyModule_Check(PyCFunction_GET_SELF(callable));
    for (Py_ssize_t k = 0; k < total; k++) {
        c->on_tensors |= cr_is_tensor_value(args[k]) || cr_is_open(args[k]) ||
                         (!of_container && PyList_Check(args[k]) && !cr_is_constant(args[k]));
        if (is_python(args[k]) && !of_container && !calls_back(callable))
            return refuse(c, callable, " with a Python function");
        if (k < nargs && iterates_over(callable, k, nargs) && cr_refuse_order(c, args[k])) return -1;
        if (PyDict_Check(args[k]) && iterates_over(callable, k, nargs) && of_container && cr_has_objects(c, args[k]))
            return refuse(c, callable, " with objects as keys");
        if (on == CONSTANTS && !cr_is_constant(args[k]))
            return refuse(c, callable, " on something that is no constant");
    }
    if (callable == (PyObject *)&PyBool_Type && nargs == 1 && !kwnames) {
        int truth = cr_truth(c, args[0]);
        return truth < 0 ? -1 : (cr_push(f, PyBool_FromLong(truth)), 0);
    }
    return cr_give(c, f, cr_call_for_real(c, f, callable, &a, false));
}
