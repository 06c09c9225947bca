/* evaluate.c: the evaluator's loop, its frames, and the instructions that only move values.
 *
 * Frames are on the heap and the loop is one: an inlined call pushes a frame and returns to the loop, so recursion in
 * the program is no recursion here, and dropping a capture drops everything. */
#include "capture/evaluate.h"

#include "python/py.h"

#include <string.h>

#define HANDLER(name) int cr_do_##name(cr_capture *c, cr_call_frame *f, const cr_instruction *i)
#define UNUSED (void)c, (void)f, (void)i

static const cr_handler handlers[] = {
#define EVALUATED(name) [CR_I_##name] = cr_do_##name,
#define PLAIN(name, reason) [CR_I_##name] = NULL,
#include "capture/instructions.def"
#undef EVALUATED
#undef PLAIN
};

/* ---- the loop ---- */

PyObject *cr_fail_in_c(const cr_capture *c) {
    if (!PyErr_Occurred()) PyErr_Format(cr_break_error, "%S", c->reason ? c->reason : Py_None);
    return NULL;
}

/* What the program would raise here, it raises when the call runs plain. Ctrl-C and the like are the caller's. */
static int end_by_exception(cr_capture *c) {
    PyObject *type, *value, *trace, *raised = cr_take_raised(c);
    if (c->tracer && !PyErr_ExceptionMatches(cr_break_error)) { /* an exporter's caller sees it */
        if (raised) PyErr_SetObject((PyObject *)Py_TYPE(cr_real(raised)), cr_real(raised));
        Py_XDECREF(raised);
        return -1;
    }
    if (raised) {
        PyObject *text = PyObject_Str(cr_real(raised));
        PyErr_Clear();
        c->raises = true;
        cr_break(c, "%s is raised: %S", Py_TYPE(cr_real(raised))->tp_name, text ? text : Py_None);
        Py_XDECREF(text);
        Py_DECREF(raised);
        return -1;
    }
    if (c->plain || !PyErr_ExceptionMatches(PyExc_Exception)) return -1;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    PyObject *text = PyObject_Str(value);
    if (!text) PyErr_Clear();
    else if (PyErr_GivenExceptionMatches(type, cr_break_error)) cr_break(c, "%U", text);
    else if (PyErr_GivenExceptionMatches(type, cr_py_data_dependent_error)) cr_break_on_data(c, value);
    else c->raises = true, cr_break(c, "%s is raised: %U", ((PyTypeObject *)type)->tp_name, text);
    Py_XDECREF(text);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
    return -1;
}

/* A signal's handler is no part of the program: what it computes is not recorded. */
static int look_for_signals(cr_capture *c) {
    if (c->plain) return PyErr_CheckSignals();
    cr_call_mode paused = cr_pause(c);
    int raised = PyErr_CheckSignals();
    cr_go_on(paused);
    return raised;
}

/* Has the program changed more of them than the gradient mode? */
static bool has_other_surroundings(const cr_capture *c) {
    return (cr_frontend_cresset.ambient() ^ c->inside) & ~(uint64_t)CR_AMBIENT_GRAD;
}

static int step(cr_capture *c) {
    cr_call_frame *f = c->frame;
    const cr_instruction *i = &f->instructions->at[f->next];
    if (!f->back && c->steps++ == c->stop) {
        c->stopped_grad = cr_ambient_get()->grad;
        c->stopped_inside = has_other_surroundings(c);
        return cr_break(c, "here CPython goes on");
    }
    f->current = f->next++;
    c->own = c->on_tensors = false;
    if (!handlers[i->id]) return cr_break(c, "%s (%s)", cr_instruction_reason(i->id), cr_instruction_name(i->id));
    if (--c->left <= 0) return cr_break(c, "too many instructions are evaluated: a loop is unrolled for very long");
    if ((c->left & 255) == 0 && look_for_signals(c)) return -1;
    return handlers[i->id](c, f, i);
}

/* One instruction, and what it raises. A generator that is dropped may end the capture, too. */
static int advance(cr_capture *c, const cr_call_frame *base) {
    if (!step(c)) return c->reason ? -1 : 0;
    if (!c->reason && PyErr_Occurred()) cr_note_place(c);
    if (cr_unwind(c, base)) return -1;
    Py_CLEAR(c->where); /* it was handled: where capture ends is elsewhere */
    return 0;
}

int cr_run_until(cr_capture *c, cr_call_frame *f) {
    if (Py_EnterRecursiveCall(" while a function is captured")) return -1;
    int failed = 0;
    while (!failed && c->frame != f) failed = advance(c, f);
    Py_LeaveRecursiveCall();
    return failed;
}

static int evaluate(cr_capture *c) {
    while (c->frame) {
        if (!advance(c, NULL)) continue;
        cr_note_place(c);
        return PyErr_Occurred() ? c->reason ? (PyErr_Clear(), -1) : end_by_exception(c) : -1;
    }
    if (c->modes.n) return cr_break(c, "a function mode stays on at the end of the function");
    if (cr_sets_context(c)) return cr_break(c, "a ContextVar stays set at the end of the function");
    if (!c->unfinished) return 0;
    return cr_break(c, "a generator with try or with in it is left half way");
}

/* The program switches the gradient mode for real, so that ops are recorded in theirs; afterwards it is put back. */
int cr_evaluate(cr_capture *c) {
    int failed = evaluate(c);
    bool changed = cr_ambient_get()->grad != c->grad, others = has_other_surroundings(c);
    cr_frontend_cresset.set_ambient(c->outer);
    if (failed || !(changed || others) || c->plain || c->tracer) return failed; /* an exporter puts them back */
    return cr_break(c, "the %s another one at the end of the function", changed ? "gradient mode is" :
                    "mode of mixed precision is");
}

PyObject *cr_call_now(cr_capture *c, cr_call_frame *f, PyObject *callable, PyObject *const *args, Py_ssize_t nargs,
                      PyObject *kwnames) {
    int top = f->top;
    if (cr_call_value(c, f, callable, args, nargs, kwnames) || (c->frame != f && cr_run_until(c, f))) return NULL;
    return f->top == top + 1 ? cr_pop(f) : NULL;
}

void cr_pop_frame(cr_capture *c) {
    cr_call_frame *f = c->frame;
    if (f->enters) cr_strict_leave(c);
    c->frame = f->back;
    cr_free_frame(f);
}

void cr_free_frame(cr_call_frame *f) {
    while (f->top) Py_XDECREF(cr_pop(f));
    for (PyObject **local = f->locals; local < f->stack; local++) Py_XDECREF(*local);
    Py_XDECREF(f->function);
    Py_XDECREF(f->code);
    Py_XDECREF(f->handled);
    if (f->instead != CR_DELETED) Py_XDECREF(f->instead);
    PyMem_Free(f);
}

static bool is_length(PyObject *o) {
    int overflow = 1;
    long value = PyLong_CheckExact(o) ? PyLong_AsLongAndOverflow(o, &overflow) : -1;
    return !overflow && value >= 0 && value < 1 << 30;
}

/* What __iter__() returns: an iterator in C, or an object whose __next__ is in Python; iter() gives that itself. */
static int give_iterator(cr_capture *c, cr_call_frame *f) {
    PyObject *value = cr_peek(f, 1), *next = NULL;
    if (!cr_is_token(value) && PyIter_Check(value)) return 0;
    int has = cr_is_token(value) ? cr_class_special(c, value, "__next__", &next) : 0;
    Py_XDECREF(next);
    if (has < 1) return has < 0 ? -1 : cr_break(c, "__iter__() gives an object that is not captured");
    if (f->gives == CR_GIVES_ITSELF) return 0;
    PyObject *iterator = cr_iterator_new(c, value);
    if (!iterator) return -1;
    Py_DECREF(cr_pop(f));
    return cr_push(f, iterator), 0;
}

HANDLER(RETURN_VALUE) {
    UNUSED;
    if (f->gives == CR_GIVES_LENGTH && cr_settle_in(c, &f->stack[f->top - 1])) return -1;
    if (f->gives == CR_GIVES_LENGTH && !is_length(cr_peek(f, 1))) return cr_break(c, "__len__() gives no small number");
    if ((f->gives == CR_GIVES_ITERATOR || f->gives == CR_GIVES_ITSELF) && give_iterator(c, f)) return -1;
    if (f->gives == CR_GIVES_NONE && cr_peek(f, 1) != Py_None) return cr_break(c, "__init__() returns something");
    PyObject *result = cr_pop(f), *instead = f->instead;
    cr_call_frame *back = f->back;
    int32_t current = f->current;
    bool is_callable = f->gives == CR_GIVES_CALLABLE;
    f->instead = NULL;
    if (f->generator) {
        cr_generator_ends(f->generator, result);
        return cr_pop_frame(c), 0;
    }
    cr_pop_frame(c);
    if (instead) Py_SETREF(result, instead == CR_DELETED ? NULL : instead);
    if (back && result) cr_push(back, result);
    else if (!back) c->result = result, c->returned = current;
    if (is_callable) cr_push(back, NULL);
    return 0;
}

HANDLER(RETURN_CONST) { return cr_do_LOAD_CONST(c, f, i) ? -1 : cr_do_RETURN_VALUE(c, f, i); }

/* ---- moving values ---- */

HANDLER(NOP) { return UNUSED, 0; }
HANDLER(RESUME) { return UNUSED, f->resumed = true, 0; }
HANDLER(POP_TOP) { return UNUSED, Py_XDECREF(cr_pop(f)), 0; }
HANDLER(PUSH_NULL) { return UNUSED, cr_push(f, NULL), 0; }
HANDLER(COPY) { return UNUSED, cr_push(f, Py_XNewRef(cr_peek(f, i->arg))), 0; }

HANDLER(SWAP) {
    UNUSED;
    PyObject **a = &f->stack[f->top - 1], **b = &f->stack[f->top - i->arg], *value = *a;
    *a = *b;
    *b = value;
    return 0;
}

HANDLER(LOAD_CONST) {
    PyObject *value = PyTuple_GET_ITEM(f->code->co_consts, i->arg);
    if (!c->plain && (PyTuple_CheckExact(value) || PyFrozenSet_CheckExact(value)) &&
        (PyList_Append(c->kept, value) || cr_map_put(&c->constants, &value, sizeof value, 1)))
        return -1;
    return cr_push(f, Py_NewRef(value)), 0;
}

static PyObject *unbound(const cr_call_frame *f, int slot) {
    PyObject *name = PyTuple_GET_ITEM(f->code->co_localsplusnames, slot);
    return PyErr_Format(PyExc_UnboundLocalError,
                        "cannot access local variable '%U' where it is not associated with a value", name);
}

/* An argument is guarded when it is looked at first. */
PyObject *cr_look_at(cr_capture *c, PyObject **slot) {
    if (*slot && cr_is_token(*slot) && ((cr_token *)*slot)->pending) {
        PyObject *value = cr_wrap(c, cr_real(*slot), cr_source_of(*slot));
        if (!value) return NULL;
        Py_SETREF(*slot, value);
    }
    return Py_XNewRef(*slot);
}

HANDLER(LOAD_FAST) {
    PyObject *value = f->locals[i->arg] ? cr_look_at(c, &f->locals[i->arg]) : unbound(f, i->arg);
    return value ? cr_push(f, value), 0 : -1;
}
HANDLER(LOAD_FAST_AND_CLEAR) { /* a comprehension's variable: what it hides comes back behind it */
    PyObject *value = cr_look_at(c, &f->locals[i->arg]);
    if (!value && PyErr_Occurred()) return -1;
    Py_CLEAR(f->locals[i->arg]);
    return cr_push(f, value), 0;
}

/* Two in one: nothing can end between them but by an unbound variable, which ends before both. */
static int load(cr_capture *c, cr_call_frame *f, int slot) {
    return cr_do_LOAD_FAST(c, f, &(cr_instruction){ .arg = slot });
}
/* A variable gets another value, or none. What it held nobody has looked at, and it may go with that: whether its class
 * has a finalizer is guarded. */
static int drop_local(cr_capture *c, const cr_call_frame *f, int slot) {
    PyObject *value = f->locals[slot];
    if (!c->midway || f->back || !value || !cr_is_token(value) || !((cr_token *)value)->pending) return 0;
    c->finalizes |= cr_has_finalizer(Py_TYPE(cr_real(value)));
    return cr_guard_type(&c->guards, cr_source_of(value), Py_TYPE(cr_real(value)));
}
static int store(cr_capture *c, cr_call_frame *f, int slot) {
    if (drop_local(c, f, slot)) return -1;
    Py_XSETREF(f->locals[slot], cr_pop(f));
    return 0;
}
HANDLER(LOAD_FAST_LOAD_FAST) { return load(c, f, i->arg >> 4) || load(c, f, i->arg & 15) ? -1 : 0; }
HANDLER(STORE_FAST_LOAD_FAST) { return store(c, f, i->arg >> 4) || load(c, f, i->arg & 15) ? -1 : 0; }
HANDLER(STORE_FAST_STORE_FAST) { return store(c, f, i->arg >> 4) || store(c, f, i->arg & 15) ? -1 : 0; }

HANDLER(LOAD_CLOSURE) { return cr_do_LOAD_FAST(c, f, i); }

HANDLER(STORE_FAST) { return store(c, f, i->arg); }

HANDLER(DELETE_FAST) {
    if (!f->locals[i->arg]) return unbound(f, i->arg), -1;
    if (drop_local(c, f, i->arg)) return -1;
    Py_CLEAR(f->locals[i->arg]);
    return 0;
}

/* ---- cells: those made here are real, those of a function from outside are tokens ---- */

HANDLER(MAKE_CELL) {
    PyObject *value = f->locals[i->arg] ? cr_look_at(c, &f->locals[i->arg]) : NULL;
    if (f->locals[i->arg] && !value) return -1;
    PyObject *cell = PyCell_New(value);
    Py_XDECREF(value);
    if (!cell) return -1;
    Py_XSETREF(f->locals[i->arg], cell);
    return 0;
}

HANDLER(COPY_FREE_VARS) {
    int first = f->code->co_nlocalsplus - i->arg;
    PyObject *function = cr_is_token(f->function) ? cr_real(f->function) : f->function;
    for (int k = 0; k < i->arg; k++) {
        PyObject *cell = f->source == CR_NO_SLOT || c->plain
                             ? Py_NewRef(PyTuple_GET_ITEM(PyFunction_GET_CLOSURE(function), k))
                             : cr_wrap_read(c, CR_READ_CELL, f->source, function, NULL, k);
        if (!cell) return -1;
        Py_XSETREF(f->locals[first + k], cell);
    }
    return 0;
}

HANDLER(LOAD_DEREF) {
    PyObject *cell = f->locals[i->arg], *value;
    if (!cr_is_token(cell)) value = Py_XNewRef(PyCell_GET(cell));
    else if (cr_find_store(c, cr_real(cell), NULL) == CR_DELETED) value = NULL;
    else if (cr_find_store(c, cr_real(cell), NULL)) value = Py_NewRef(cr_find_store(c, cr_real(cell), NULL));
    else if (!PyCell_GET(cr_real(cell))) return cr_break(c, "a variable of a closure has no value yet");
    else value = cr_wrap_read(c, CR_READ_CONTENTS, cr_source_of(cell), cr_real(cell), NULL, 0);
    if (!value && !PyErr_Occurred() && !c->reason) {
        bool free = i->arg >= f->code->co_nlocalsplus - f->code->co_nfreevars;
        if (!free) unbound(f, i->arg);
        else
            PyErr_Format(PyExc_NameError,
                         "cannot access free variable '%U' where it is not associated with a value in enclosing scope",
                         PyTuple_GET_ITEM(f->code->co_localsplusnames, i->arg));
    }
    return value ? cr_push(f, value), 0 : -1;
}

HANDLER(DELETE_DEREF) {
    PyObject *cell = f->locals[i->arg];
    bool is_token = cr_is_token(cell);
    PyObject *set = is_token ? cr_find_store(c, cr_real(cell), NULL) : PyCell_GET(cell);
    if (is_token && !set) set = PyCell_GET(cr_real(cell));
    if (!set || set == CR_DELETED) return cr_break(c, "a variable without a value is deleted");
    if (!is_token) return PyCell_Set(cell, NULL);
    return cr_add_store(c, CR_READ_CONTENTS, cr_real(cell), cr_source_of(cell), NULL, CR_DELETED);
}

HANDLER(STORE_DEREF) {
    PyObject *cell = f->locals[i->arg];
    PyObject *value = cr_pop(f);
    int failed = cr_is_token(cell)
                     ? cr_add_store(c, CR_READ_CONTENTS, cr_real(cell), cr_source_of(cell), NULL, value)
                     : PyCell_Set(cell, value);
    Py_DECREF(value);
    return failed;
}

/* ---- globals ---- */

/* The slot of a frame's globals, remembered with the dict. */
static int32_t globals_source(cr_capture *c, const cr_call_frame *f) {
    int32_t source = cr_source(&c->guards, CR_READ_GLOBALS, f->owner, NULL, 0);
    for (size_t i = 0; source >= 0 && i < c->globals.n; i++)
        if (c->globals.at[i].source == source) return source;
    if (source >= 0 && cr_vec_push(&c->globals, (cr_globals){ source, f->globals }))
        return PyErr_NoMemory(), CR_NO_SLOT;
    return source;
}

/* A name of the globals, else of the builtins: found there, and absent here. */
static PyObject *load_global(cr_capture *c, const cr_call_frame *f, PyObject *name) {
    int32_t globals = CR_NO_SLOT, builtins = CR_NO_SLOT;
    if (!PyDict_CheckExact(f->globals) || !PyDict_CheckExact(f->builtins))
        return cr_break(c, "the globals are no plain dict"), NULL;
    if (!c->plain && (globals = globals_source(c, f)) < 0) return NULL;
    PyObject *set = cr_find_store(c, f->globals, name);
    if (set && set != CR_DELETED) return Py_NewRef(set);
    if (set) return cr_break(c, "a global variable that was deleted is read"), NULL;
    if (cr_read_now(CR_READ_KEY, f->globals, name, 0))
        return cr_wrap_read(c, CR_READ_KEY, globals, f->globals, name, 0);
    if (!c->plain && (cr_guard_no(&c->guards, globals, CR_HOLDS_NO_KEY, name) ||
                      (builtins = cr_source(&c->guards, CR_READ_BUILTINS, f->owner, NULL, 0)) < 0))
        return NULL;
    if (cr_read_now(CR_READ_KEY, f->builtins, name, 0))
        return cr_wrap_read(c, CR_READ_KEY, builtins, f->builtins, name, 0);
    if (!c->plain && cr_guard_no(&c->guards, builtins, CR_HOLDS_NO_KEY, name)) return NULL;
    return PyErr_Format(PyExc_NameError, "name '%U' is not defined", name);
}

HANDLER(LOAD_GLOBAL) {
    PyObject *value = load_global(c, f, PyTuple_GET_ITEM(f->code->co_names, i->arg >> 1));
    if (!value) return -1;
    return i->arg & 1 ? cr_push_callable(f, value) : cr_push(f, value), 0;
}

HANDLER(STORE_GLOBAL) {
    PyObject *name = PyTuple_GET_ITEM(f->code->co_names, i->arg), *value = cr_pop(f);
    int32_t source = c->plain ? 0 : globals_source(c, f);
    int failed = -1;
    if (c->plain) failed = PyDict_SetItem(f->globals, name, value);
    else if (cr_is_known_object(c, f->globals)) cr_break(c, "variables are set and read as a dict");
    else if (source >= 0) failed = cr_add_store(c, CR_READ_KEY, f->globals, source, name, value);
    Py_DECREF(value);
    return failed;
}

HANDLER(DELETE_GLOBAL) {
    PyObject *name = PyTuple_GET_ITEM(f->code->co_names, i->arg);
    if (c->plain) return PyDict_DelItem(f->globals, name);
    int32_t source = globals_source(c, f);
    PyObject *set = cr_find_store(c, f->globals, name), *there = cr_read_now(CR_READ_KEY, f->globals, name, 0);
    if (source < 0) return -1;
    if (cr_is_known_object(c, f->globals)) return cr_break(c, "variables are set and read as a dict");
    if (set == CR_DELETED || (!set && !there)) return cr_break(c, "a variable without a value is deleted");
    if (there && cr_source(&c->guards, CR_READ_KEY, source, name, 0) < 0) return -1; /* it must be there */
    return cr_add_store(c, CR_READ_KEY, f->globals, source, name, CR_DELETED);
}

/* ---- import: of modules that are there already ---- */

/* An exported program is evaluated instead of run, and the modules that it imports are there afterwards, as if it had
 * run. */
static int import_now(const cr_capture *c, PyObject *name) {
    cr_call_mode paused = cr_pause(c);
    PyObject *module = PyImport_Import(name);
    cr_go_on(paused);
    Py_XDECREF(module);
    return module ? 0 : -1;
}

static PyObject *module_named(cr_capture *c, PyObject *name) {
    int32_t source = cr_source(&c->guards, CR_READ_MODULE, 0, name, 0);
    PyObject *real = source < 0 ? NULL : cr_read_now(CR_READ_MODULE, NULL, name, 0);
    if (source >= 0 && !real && c->tracer) {
        if (import_now(c, name)) return NULL;
        real = cr_read_now(CR_READ_MODULE, NULL, name, 0);
    }
    if (source >= 0 && (!real || !PyModule_Check(real)))
        return cr_break(c, "the module '%U' is imported for the first time", name), NULL;
    return real ? cr_wrap(c, real, source) : NULL;
}

/* Is __import__ the one of CPython? Guarded. */
static bool imports_plainly(cr_capture *c, const cr_call_frame *f) {
    PyObject *name = PyUnicode_InternFromString("__import__");
    int32_t builtins = cr_source(&c->guards, CR_READ_BUILTINS, f->owner, NULL, 0);
    PyObject *value = name && builtins >= 0 ? cr_wrap_read(c, CR_READ_KEY, builtins, f->builtins, name, 0) : NULL;
    bool plain = value && PyCFunction_CheckExact(value);
    Py_XDECREF(value);
    Py_XDECREF(name);
    return plain;
}

/* The package that `level` dots mean in the function's module, and the name behind it. Guarded. New reference. */
static PyObject *absolute_name(cr_capture *c, const cr_call_frame *f, PyObject *name, long level) {
    PyObject *key = PyUnicode_InternFromString("__package__");
    int32_t globals = cr_source(&c->guards, CR_READ_GLOBALS, f->owner, NULL, 0);
    bool has = key && globals >= 0 && cr_read_now(CR_READ_KEY, f->globals, key, 0);
    PyObject *package = has ? cr_wrap_read(c, CR_READ_KEY, globals, f->globals, key, 0) : NULL, *whole = NULL;
    Py_XDECREF(key);
    if (package && PyUnicode_CheckExact(package)) {
        Py_ssize_t end = PyUnicode_GET_LENGTH(package);
        while (end > 0 && --level > 0) end = PyUnicode_FindChar(package, '.', 0, end, -1);
        PyObject *base = end > 0 ? PyUnicode_Substring(package, 0, end) : NULL;
        if (base) whole = PyUnicode_GET_LENGTH(name) ? PyUnicode_FromFormat("%U.%U", base, name) : Py_NewRef(base);
        Py_XDECREF(base);
    }
    Py_XDECREF(package);
    if (whole) PyUnicode_InternInPlace(&whole);
    else if (!PyErr_Occurred()) cr_break(c, "a module of the same package is imported, and which one that is, is not "
                                            "known: import it at the top of the file");
    return whole;
}

/* Does the module have the names? A package's may be modules that are imported with it. */
static int check_names(cr_capture *c, PyObject *module, PyObject *wanted) {
    PyObject *dict = PyModule_GetDict(cr_real(module));
    if (!PyTuple_CheckExact(wanted) || !PyDict_GetItemString(dict, "__path__")) return 0;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(wanted); k++)
        if (!PyDict_GetItemWithError(dict, PyTuple_GET_ITEM(wanted, k)))
            return PyErr_Occurred() ? -1 : cr_break(c, "'%U' is imported for the first time",
                                                    PyTuple_GET_ITEM(wanted, k));
    return 0;
}

/* Stack: level, names wanted of it. `import a.b` gives a; `from a.b import c` gives a.b. */
HANDLER(IMPORT_NAME) {
    PyObject *wanted = cr_pop(f), *level = cr_pop(f), *module = NULL;
    PyObject *name = PyTuple_GET_ITEM(f->code->co_names, i->arg);
    if (c->plain) {
        long n = PyLong_AsLong(level);
        module = PyImport_ImportModuleLevelObject(name, f->globals, NULL, wanted, (int)n);
    } else if (imports_plainly(c, f)) {
        long n = PyLong_AsLong(level);
        PyObject *whole = n > 0 ? absolute_name(c, f, name, n) : Py_NewRef(name);
        module = whole ? module_named(c, whole) : NULL;
        Py_XDECREF(whole);
        if (module && check_names(c, module, wanted)) Py_CLEAR(module);
        Py_ssize_t dot = PyUnicode_FindChar(name, '.', 0, PyUnicode_GET_LENGTH(name), 1);
        if (module && wanted == Py_None && dot > 0) {
            PyObject *top = PyUnicode_Substring(name, 0, dot);
            Py_SETREF(module, top ? module_named(c, top) : NULL);
            Py_XDECREF(top);
        }
    } else if (!c->reason && !PyErr_Occurred()) {
        cr_break(c, "__import__ is another function here");
    }
    Py_DECREF(wanted);
    Py_DECREF(level);
    return module ? cr_push(f, module), 0 : -1;
}

HANDLER(IMPORT_FROM) {
    PyObject *name = PyTuple_GET_ITEM(f->code->co_names, i->arg), *value = NULL;
    int found = cr_get_attribute(c, cr_peek(f, 1), name, &value);
    if (found == 1) return cr_push(f, value), 0;
    return found < 0 ? -1 : cr_break(c, "the module has no '%U' yet", name);
}

HANDLER(LOAD_ASSERTION_ERROR) {
    UNUSED;
    return cr_push(f, Py_NewRef(PyExc_AssertionError)), 0;
}

/* ---- jumps ---- */

HANDLER(JUMP) { return UNUSED, f->next = i->arg, 0; }

static int jump_if(cr_capture *c, cr_call_frame *f, const cr_instruction *i, bool wanted) {
    PyObject *value = cr_pop(f);
    int truth = cr_truth(c, value);
    Py_DECREF(value);
    if (truth < 0) return -1;
    if ((truth != 0) == wanted) f->next = i->arg;
    return 0;
}
HANDLER(POP_JUMP_IF_FALSE) { return jump_if(c, f, i, false); }
HANDLER(POP_JUMP_IF_TRUE) { return jump_if(c, f, i, true); }

HANDLER(TO_BOOL) {
    UNUSED;
    PyObject *value = cr_pop(f);
    int truth = cr_truth(c, value);
    Py_DECREF(value);
    return truth < 0 ? -1 : (cr_push(f, PyBool_FromLong(truth)), 0);
}

static int jump_if_none(cr_call_frame *f, const cr_instruction *i, bool wanted) {
    PyObject *value = cr_pop(f);
    if ((value == Py_None) == wanted) f->next = i->arg;
    Py_DECREF(value);
    return 0;
}
HANDLER(POP_JUMP_IF_NONE) { return UNUSED, jump_if_none(f, i, true); }
HANDLER(POP_JUMP_IF_NOT_NONE) { return UNUSED, jump_if_none(f, i, false); }

static int jump_or_pop(cr_capture *c, cr_call_frame *f, const cr_instruction *i, bool wanted) {
    int truth = cr_truth(c, cr_peek(f, 1));
    if (truth < 0) return -1;
    if ((truth != 0) == wanted) f->next = i->arg;
    else Py_DECREF(cr_pop(f));
    return 0;
}
HANDLER(JUMP_IF_FALSE_OR_POP) { return jump_or_pop(c, f, i, false); }
HANDLER(JUMP_IF_TRUE_OR_POP) { return jump_or_pop(c, f, i, true); }

/* The truth by a method in Python: __bool__, else __len__. 2: there is none. */
static int truth_by_method(cr_capture *c, PyObject *value) {
    static const char *const names[] = { "__bool__", "__len__" };
    for (size_t i = 0; i < CR_COUNT(names); i++) {
        PyObject *answer = NULL;
        int r = cr_call_special_now(c, c->frame, value, names[i], NULL, 0, &answer);
        if (r < 0) return -1;
        if (r == 1) continue;
        if (cr_settle_in(c, &answer)) return Py_DECREF(answer), -1;
        bool fits = i ? is_length(answer) : PyBool_Check(answer);
        int truth = fits && PyObject_IsTrue(answer);
        Py_DECREF(answer);
        return fits ? truth : cr_break(c, "%s() gives something else than it should", names[i]);
    }
    return 2;
}

/* A token stands for an object that has a truth of its own; what can be told from its class or its length is. */
int cr_truth(cr_capture *c, PyObject *value) {
    if (!cr_is_token(value)) return PyObject_IsTrue(value);
    PyObject *real = cr_real(value);
    PyTypeObject *type = Py_TYPE(real);
    int by_method = truth_by_method(c, value);
    if (by_method != 2) return by_method;
    PyObject *operand = cr_operand(c, value); /* the program may have changed its own view of it */
    if (!operand) return -1;
    if (!cr_is_token(operand)) {
        int truth = PyObject_IsTrue(operand);
        Py_DECREF(operand);
        return truth;
    }
    Py_DECREF(operand);
    if (PyDict_Check(real) && type->tp_as_mapping->mp_length == PyDict_Type.tp_as_mapping->mp_length &&
        !cr_is_made(value)) {
        Py_ssize_t n = PyDict_GET_SIZE(real);
        if (cr_has_stores(c, real)) return cr_break(c, "the truth of a dict is asked for that was changed");
        if (n > INT32_MAX || cr_guard_number(&c->guards, cr_source_of(value), CR_HOLDS_COUNT, NULL, (int32_t)n))
            return -1;
        return n != 0;
    }
    bool has_length = (type->tp_as_mapping && type->tp_as_mapping->mp_length) ||
                      (type->tp_as_sequence && type->tp_as_sequence->sq_length);
    bool has_truth = type->tp_as_number && type->tp_as_number->nb_bool;
    if (!has_length && !has_truth) return 1;
    return cr_break(c, "the truth of an object of class %s is asked for", type->tp_name);
}
