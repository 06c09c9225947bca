/* eval_exceptions.c: exceptions that the program raises and handles, and `with`.
 *
 * An exception is a value: a token of its object, whose arguments are values. What functions in C raise becomes one
 * where it is surely the program's; what a fake raises, or capture itself, ends the capture. While the program raises,
 * c->raised is the value and PyErr is cr_raised_error: C code between two frames of the evaluator is left by that. An
 * exception that nobody handles ends the capture, too: the call runs plain and raises it at its own line. */
#include "capture/evaluate.h"

#include "python/py.h"

#include <stdarg.h>
#include <string.h>

#define HANDLER(name) int cr_do_##name(cr_capture *c, cr_call_frame *f, const cr_instruction *i)

enum { FOUND = 1, MISSING = 2 };

/* ---- values ---- */

PyObject *cr_exception_value(cr_capture *c, PyObject *real) {
    if (c->plain || !real) return real;
    return cr_token_made((PyObject *)Py_TYPE(real), real, NULL);
}

bool cr_is_exception(PyObject *value) {
    return cr_is_token(value) ? cr_is_made(value) && PyExceptionInstance_Check(cr_real(value))
                              : PyExceptionInstance_Check(value);
}

bool cr_exception_takes(const cr_capture *c, PyObject *type, PyObject *const *args, Py_ssize_t n) {
    PyObject *const particular[] = { PyExc_OSError, PyExc_BaseExceptionGroup, PyExc_SyntaxError, PyExc_UnicodeError };
    bool looks = false, constant = true;
    for (size_t k = 0; k < CR_COUNT(particular); k++) looks |= PyErr_GivenExceptionMatches(type, particular[k]) != 0;
    for (Py_ssize_t k = 0; k < n && looks && constant; k++) constant = cr_is_constant(args[k]);
    return c->plain || !looks || constant;
}

static PyObject *part(cr_capture *c, PyObject *exception, const char *name) { /* borrowed; NULL: none */
    if (c->plain) return NULL;
    const cr_token *t = (cr_token *)exception;
    return t->slots ? PyDict_GetItemString(t->slots, name) : NULL;
}

static int set_part(cr_capture *c, PyObject *exception, const char *name, PyObject *value) {
    if (c->plain) {
        if (!strcmp(name, "__context__")) PyException_SetContext(exception, Py_XNewRef(value));
        else PyException_SetCause(exception, value == Py_None ? NULL : Py_NewRef(value));
        return 0;
    }
    cr_token *t = (cr_token *)exception;
    if (!t->slots && !(t->slots = PyDict_New())) return -1;
    return PyDict_SetItemString(t->slots, name, value ? value : Py_None);
}

/* Which exception is handled here: a generator has its own. */
static PyObject **handled_slot(cr_capture *c) {
    for (cr_call_frame *f = c->frame; f; f = f->back)
        if (f->generator) return &f->handled;
    return &c->handled;
}

static PyObject *find_handled(cr_capture *c) { /* borrowed; NULL: none */
    for (cr_call_frame *f = c->frame; f; f = f->back)
        if (f->generator && f->handled) return f->handled;
    return c->handled;
}

bool cr_handles(cr_capture *c) { return find_handled(c) != NULL; }

/* The one that is being handled becomes the context, and no circle is made of contexts. */
static int set_context(cr_capture *c, PyObject *exception) {
    PyObject *handled = find_handled(c);
    if (!handled || handled == exception) return 0;
    if (c->plain) return PyException_SetContext(exception, Py_NewRef(handled)), 0;
    PyObject *slow = handled; /* the program may have made a circle itself: then it is met again */
    bool turn = false;
    for (PyObject *o = handled, *next; (next = part(c, o, "__context__")) && next != Py_None; o = next, turn = !turn) {
        if (next == exception && set_part(c, o, "__context__", NULL)) return -1;
        if (next == exception || next == slow) break;
        if (turn) slow = part(c, slow, "__context__");
    }
    return set_part(c, exception, "__context__", handled);
}

/* ---- raising ---- */

static int raise_as_it_is(cr_capture *c, PyObject *value) {
    c->own = true;
    if (c->plain) return PyErr_Restore(Py_NewRef((PyObject *)Py_TYPE(value)), Py_NewRef(value), NULL), -1;
    Py_XSETREF(c->raised, Py_NewRef(value));
    return PyErr_SetNone(cr_raised_error), -1;
}

int cr_raise(cr_capture *c, PyObject *value) {
    return set_context(c, value) ? -1 : raise_as_it_is(c, value);
}

int cr_raise_new(cr_capture *c, PyObject *type, const char *format, ...) {
    va_list args;
    va_start(args, format);
    PyObject *text = PyUnicode_FromFormatV(format, args);
    va_end(args);
    PyObject *value = text ? cr_exception_value(c, PyObject_CallOneArg(type, text)) : NULL;
    if (value) cr_raise(c, value);
    Py_XDECREF(text);
    Py_XDECREF(value);
    return -1;
}

PyObject *cr_take_raised(cr_capture *c) {
    if (!c->raised || !PyErr_ExceptionMatches(cr_raised_error)) return NULL;
    PyErr_Clear();
    PyObject *value = c->raised;
    c->raised = NULL;
    return value;
}

bool cr_catch(cr_capture *c, PyObject *type) {
    if (c->reason || !PyErr_Occurred()) return false;
    if (!c->raised) { /* of C code, perhaps just now */
        if (c->on_tensors || !PyErr_ExceptionMatches(type)) return false;
        return PyErr_Clear(), true;
    }
    if (!PyType_IsSubtype(Py_TYPE(cr_real(c->raised)), (PyTypeObject *)type)) return false;
    Py_XDECREF(cr_take_raised(c));
    Py_CLEAR(c->where); /* where capture ends is elsewhere */
    return true;
}

/* Classes that functions in C raise for the program's mistakes, never for capture's. */
static bool is_programs(PyObject *type) {
    PyObject *const classes[] = { PyExc_LookupError,    PyExc_ArithmeticError, PyExc_ValueError, PyExc_TypeError,
                                  PyExc_AttributeError, PyExc_StopIteration,   PyExc_NameError,  PyExc_AssertionError };
    for (size_t i = 0; i < CR_COUNT(classes); i++)
        if (PyErr_GivenExceptionMatches(type, classes[i])) return true;
    return false;
}

/* A text that names our own classes is not what plain Python says. */
static bool shows_us(PyObject *exception) {
    PyObject *text = PyObject_Str(exception);
    bool shows = !text || strstr(PyUnicode_AsUTF8(text) ? PyUnicode_AsUTF8(text) : "_C._", "cresset.");
    Py_XDECREF(text);
    return PyErr_Clear(), shows;
}

/* What an instruction has failed with, as the program's exception. New reference; NULL: it is not, and stays set. */
static PyObject *fetch(cr_capture *c) {
    PyObject *type, *value, *trace, *raised = cr_take_raised(c);
    if (raised) return raised;
    if (c->reason || !PyErr_Occurred() || c->on_tensors) return NULL;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    bool theirs = c->plain ? PyErr_GivenExceptionMatches(type, PyExc_BaseException)
                           : is_programs(type) && !cr_is_python_class((PyTypeObject *)type) &&
                                 !shows_us(value);
    if (!theirs) return PyErr_Restore(type, value, trace), NULL;
    Py_DECREF(type);
    Py_XDECREF(trace);
    if (c->plain && c->own) return value;
    if (!c->plain) PyException_SetContext(value, NULL); /* what the caller handles is none of ours */
    value = cr_exception_value(c, value);
    if (value && set_context(c, value)) Py_CLEAR(value);
    return value;
}

static int enter_handler(cr_call_frame *f, const cr_handler_range *to, PyObject *exception) {
    while (f->top > to->depth) Py_XDECREF(cr_pop(f));
    if (to->lasti) {
        PyObject *unit = PyLong_FromLong(f->instructions->at[f->current].own);
        if (!unit) return -1;
        cr_push(f, unit);
    }
    if (cr_is_token(exception)) ((cr_token *)exception)->caught = true;
    cr_push(f, Py_NewRef(exception));
    f->next = to->to;
    return 0;
}

int cr_unwind(cr_capture *c, const cr_call_frame *base) {
    PyObject *exception = fetch(c);
    if (!exception) return -1;
    while (c->frame && c->frame != base) {
        cr_call_frame *f = c->frame;
        const cr_handler_range *to = cr_code_handler(f->instructions, f->instructions->at[f->current].own);
        if (to) {
            Py_CLEAR(c->where);
            int failed = enter_handler(f, to, exception);
            Py_DECREF(exception);
            return failed;
        }
        if (f->generator && PyType_IsSubtype(Py_TYPE(c->plain ? exception : cr_real(exception)),
                                             (PyTypeObject *)PyExc_StopIteration)) {
            Py_DECREF(exception);
            return cr_break(c, "a generator raises StopIteration");
        }
        if (!f->back && !base) break; /* the outermost: what is said of the place is said of it */
        cr_pop_frame(c);
    }
    raise_as_it_is(c, exception);
    Py_DECREF(exception);
    return -1;
}

/* ---- instructions ---- */

/* A class is called for its object. New reference. */
static PyObject *as_exception(cr_capture *c, cr_call_frame *f, PyObject *value) {
    PyObject *real = cr_is_token(value) ? cr_real(value) : value;
    if (PyExceptionClass_Check(real)) {
        PyObject *made = cr_call_now(c, f, value, NULL, 0, NULL);
        if (!made || cr_is_exception(made)) return made;
        Py_DECREF(made);
    } else if (cr_is_exception(value)) {
        return Py_NewRef(value);
    } else if (cr_is_token(value) && PyExceptionInstance_Check(real)) {
        return cr_break(c, "an exception from outside is raised"), NULL;
    }
    return cr_raise_new(c, PyExc_TypeError, "exceptions must derive from BaseException"), NULL;
}

static int set_cause(cr_capture *c, cr_call_frame *f, PyObject *exception, PyObject *cause) {
    if (cause == Py_None) return set_part(c, exception, "__cause__", NULL);
    PyObject *value = as_exception(c, f, cause);
    int failed = value ? set_part(c, exception, "__cause__", value) : -1;
    Py_XDECREF(value);
    return failed;
}

HANDLER(RAISE_VARARGS) {
    if (i->arg == 0) {
        PyObject *handled = find_handled(c);
        return handled ? raise_as_it_is(c, handled) : cr_break(c, "an exception of the caller's is raised again");
    }
    PyObject *cause = i->arg == 2 ? cr_pop(f) : NULL, *given = cr_pop(f), *exception = as_exception(c, f, given);
    if (exception && (!cause || !set_cause(c, f, exception, cause))) cr_raise(c, exception);
    Py_XDECREF(exception);
    Py_DECREF(given);
    Py_XDECREF(cause);
    return -1;
}

HANDLER(RERAISE) {
    (void)i;
    PyObject *exception = cr_pop(f);
    raise_as_it_is(c, exception);
    Py_DECREF(exception);
    return -1;
}

HANDLER(PUSH_EXC_INFO) {
    (void)i;
    PyObject *exception = cr_pop(f), **slot = handled_slot(c);
    cr_push(f, *slot ? *slot : Py_NewRef(Py_None));
    *slot = Py_NewRef(exception);
    cr_push(f, exception);
    return 0;
}

HANDLER(POP_EXCEPT) {
    (void)i;
    PyObject *before = cr_pop(f), **slot = handled_slot(c);
    if (before == Py_None) Py_CLEAR(before);
    Py_XSETREF(*slot, before);
    return 0;
}

HANDLER(CHECK_EXC_MATCH) {
    (void)i;
    PyObject *of = cr_pop(f), *exception = cr_peek(f, 1);
    int is = c->plain ? PyErr_GivenExceptionMatches(exception, of)
                      : cr_is_subclass(c, Py_TYPE(cr_real(exception)), of);
    Py_DECREF(of);
    return is < 0 ? -1 : (cr_push(f, PyBool_FromLong(is)), 0);
}

/* ---- attributes ---- */

int cr_exception_attribute(cr_capture *c, PyObject *token, PyObject *name, PyObject **out) {
    static const char *const linked[] = { "__context__", "__cause__" };
    PyObject *real = cr_real(token);
    for (size_t i = 0; i < CR_COUNT(linked); i++)
        if (!PyUnicode_CompareWithASCIIString(name, linked[i])) {
            PyObject *value = part(c, token, linked[i]);
            return *out = Py_NewRef(value ? value : Py_None), FOUND;
        }
    if (!PyUnicode_CompareWithASCIIString(name, "__suppress_context__"))
        return *out = PyBool_FromLong(part(c, token, "__cause__") != NULL), FOUND;
    bool own = !PyUnicode_CompareWithASCIIString(name, "args") ||
               (PyErr_GivenExceptionMatches(real, PyExc_StopIteration) &&
                !PyUnicode_CompareWithASCIIString(name, "value"));
    if (own) return (*out = PyObject_GetAttr(real, name)) ? FOUND : -1;
    return MISSING;
}

int cr_set_exception_attribute(cr_capture *c, PyObject *token, PyObject *name, PyObject *value) {
    bool is_trace = value && (value == Py_None || (cr_is_token(value) && PyTraceBack_Check(cr_real(value))));
    if (!PyUnicode_CompareWithASCIIString(name, "__traceback__") && is_trace) return 0; /* nobody can read it */
    if (!value) return MISSING;
    if (!PyUnicode_CompareWithASCIIString(name, "__cause__") || !PyUnicode_CompareWithASCIIString(name, "__context__"))
        return value == Py_None || cr_is_exception(value) ? set_part(c, token, PyUnicode_AsUTF8(name), value)
                                                          : cr_break(c, "the cause of an exception is set");
    return MISSING;
}

/* ---- with ---- */

static int bind_special(cr_capture *c, PyObject *manager, const char *name, PyObject **out) {
    PyObject *function = NULL;
    int found = cr_class_special(c, manager, name, &function);
    if (found < 1)
        return found < 0 ? -1 : cr_break(c, "a context manager of class %s has no %s() in Python",
                                         Py_TYPE(cr_is_token(manager) ? cr_real(manager) : manager)->tp_name, name);
    *out = PyMethod_New(function, manager);
    Py_DECREF(function);
    return *out ? 0 : -1;
}

/* A method in C of a constant of another library's (a device), for which something stands in. */
static bool bind_foreign(PyObject *manager, const char *name, PyObject **out) {
    PyObject *text = PyUnicode_InternFromString(name), *object = NULL;
    PyObject *raw = text ? _PyType_Lookup(Py_TYPE(manager), text) : NULL;
    const cr_frontend *fe;
    bool known = false;
    Py_XDECREF(text);
    for (size_t i = 0; raw && (fe = cr_frontend_at(i)); i++)
        known |= fe->row && Py_IS_TYPE(raw, &PyMethodDescr_Type) && fe->row(raw, &object) == CR_ROW_STANDS_IN;
    if (known) *out = PyMethod_New(raw, manager);
    PyErr_Clear();
    return known && *out;
}

HANDLER(BEFORE_WITH) {
    (void)i;
    PyObject *manager = cr_pop(f), *enter = NULL, *leave = NULL;
    int r = -1;
    if (c->plain) {
        enter = PyObject_GetAttrString(manager, "__enter__");
        leave = enter ? PyObject_GetAttrString(manager, "__exit__") : NULL;
    } else if (!cr_is_token(manager)) {
        if (!bind_foreign(manager, "__enter__", &enter) || !bind_foreign(manager, "__exit__", &leave))
            cr_break(c, "a context manager of class %s is entered", Py_TYPE(manager)->tp_name);
    } else if (!bind_special(c, manager, "__enter__", &enter)) {
        bind_special(c, manager, "__exit__", &leave);
    }
    if (enter && leave) {
        cr_push(f, Py_NewRef(leave));
        r = cr_call_value(c, f, enter, NULL, 0, NULL);
    }
    Py_XDECREF(enter);
    Py_XDECREF(leave);
    Py_DECREF(manager);
    return r;
}

/* There is no traceback yet: an object of its class stands for it, whose attributes nobody can read. */
static PyObject *no_traceback(cr_capture *c) {
    PyObject *frame = (PyObject *)PyEval_GetFrame();
    if (c->plain || !frame) return Py_NewRef(Py_None);
    PyObject *real = PyObject_CallFunction((PyObject *)&PyTraceBack_Type, "OOii", Py_None, frame, 0, 1);
    return cr_token_made((PyObject *)&PyTraceBack_Type, real, NULL);
}

/* Stack: what leaves the block, the unit, the exception handled before, the exception. */
HANDLER(WITH_EXCEPT_START) {
    (void)i;
    PyObject *exception = cr_peek(f, 1), *leave = cr_peek(f, 4), *trace = no_traceback(c);
    PyObject *type = c->plain ? Py_NewRef((PyObject *)Py_TYPE(exception)) : cr_type_value(c, exception);
    PyObject *args[] = { type, exception, trace };
    int r = type && trace ? cr_call_value(c, f, leave, args, 3, NULL) : -1;
    Py_XDECREF(type);
    Py_XDECREF(trace);
    return r;
}
