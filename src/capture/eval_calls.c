/* eval_calls.c: calls. Python functions are inlined: arguments bound as CPython binds them, a frame pushed. */
#include "capture/evaluate.h"

#include "capture/callable.h"
#include "python/py.h"

#include <string.h>

#define HANDLER(name) int cr_do_##name(cr_capture *c, cr_call_frame *f, const cr_instruction *i)

/* ---- binding ---- */

typedef struct binding {
    cr_capture *c;
    PyFunctionObject *function;
    PyCodeObject *code;
    int32_t source; /* of the function; CR_NO_SLOT: made here */
    cr_call_frame *frame;
} binding;

static int bad_call(const binding *b, const char *what, PyObject *name) {
    if (!b->c->plain) return cr_break(b->c, "the call of %U() does not fit: %s", b->code->co_qualname, what);
    if (name) PyErr_Format(PyExc_TypeError, "%U() got %s '%U'", b->code->co_qualname, what, name);
    else PyErr_Format(PyExc_TypeError, "%U(): %s", b->code->co_qualname, what);
    return -1;
}

static PyObject *name_of(const binding *b, int slot) { return PyTuple_GET_ITEM(b->code->co_localsplusnames, slot); }

/* What goes into a container is looked at: nobody asks later. New reference. */
static PyObject *looked_at(cr_capture *c, PyObject *value) {
    PyObject *slot = Py_NewRef(value), *seen = cr_look_at(c, &slot);
    Py_DECREF(slot);
    return seen;
}

/* Keywords into the slots of their names, what is left into **kwargs. */
static int bind_keywords(binding *b, PyObject *const *values, PyObject *kwnames, PyObject *rest) {
    int named = b->code->co_argcount + b->code->co_kwonlyargcount;
    for (Py_ssize_t k = 0; kwnames && k < PyTuple_GET_SIZE(kwnames); k++) {
        PyObject *name = PyTuple_GET_ITEM(kwnames, k);
        int slot = b->code->co_posonlyargcount;
        while (slot < named && !cr_texts_equal(name_of(b, slot), name)) slot++;
        if (slot < named) {
            if (b->frame->locals[slot]) return bad_call(b, "multiple values for argument", name);
            b->frame->locals[slot] = Py_NewRef(values[k]);
        } else if (!rest) {
            return bad_call(b, "an unexpected keyword argument", name);
        } else {
            PyObject *value = looked_at(b->c, values[k]);
            int failed = value ? PyDict_SetItem(rest, name, value) : -1;
            Py_XDECREF(value);
            if (failed) return -1;
        }
    }
    return 0;
}

/* A default: of a function from outside it has a source, of one made here it is a value. */
static PyObject *get_default(binding *b, int slot) {
    PyFunctionObject *fn = b->function;
    bool made_here = b->source == CR_NO_SLOT;
    PyObject *value = NULL, *key = NULL;
    int from_end = 0;
    if (slot < b->code->co_argcount) {
        from_end = b->code->co_argcount - slot;
        value = cr_read_now(CR_READ_DEFAULTS, (PyObject *)fn, NULL, from_end);
    } else {
        key = name_of(b, slot);
        value = cr_read_now(CR_READ_KWDEFAULTS, (PyObject *)fn, key, 0);
    }
    if (!value || made_here || b->c->plain) return Py_XNewRef(value);
    int32_t source = cr_source(&b->c->guards, key ? CR_READ_KWDEFAULTS : CR_READ_DEFAULTS, b->source, key, from_end);
    return source < 0 ? NULL : cr_pending(b->c, value, source);
}

static int bind_defaults(binding *b) {
    int named = b->code->co_argcount + b->code->co_kwonlyargcount;
    for (int slot = 0; slot < named; slot++) {
        if (b->frame->locals[slot]) continue;
        if (!(b->frame->locals[slot] = get_default(b, slot)))
            return PyErr_Occurred() ? -1 : bad_call(b, "missing argument", name_of(b, slot));
    }
    return 0;
}

static int bind_arguments(binding *b, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames) {
    const PyCodeObject *code = b->code;
    int named = code->co_argcount + code->co_kwonlyargcount;
    Py_ssize_t positional = CR_MIN(nargs, code->co_argcount);
    PyObject *rest = NULL;
    for (Py_ssize_t k = 0; k < positional; k++) b->frame->locals[k] = Py_NewRef(args[k]);
    if (code->co_flags & CO_VARARGS) {
        PyObject *more = PyTuple_New(nargs - positional);
        if (!more) return -1;
        b->frame->locals[named++] = more;
        for (Py_ssize_t k = positional; k < nargs; k++) {
            PyObject *value = looked_at(b->c, args[k]);
            if (!value) return -1;
            PyTuple_SET_ITEM(more, k - positional, value);
        }
    } else if (nargs > code->co_argcount) {
        return bad_call(b, "too many positional arguments", NULL);
    }
    if (code->co_flags & CO_VARKEYWORDS && !(rest = b->frame->locals[named] = PyDict_New())) return -1;
    return bind_keywords(b, args + nargs, kwnames, rest) || bind_defaults(b) ? -1 : 0;
}

/* ---- frames ---- */

static cr_call_frame *frame_new(cr_capture *c, PyObject *function, PyFunctionObject *real) {
    PyCodeObject *code = (PyCodeObject *)real->func_code;
    const cr_code *instructions = cr_code_get(code);
    int depth = c->frame ? c->frame->depth + 1 : 0;
    if (!instructions) return NULL;
    if (depth >= c->room && !c->plain)
        return cr_break(c, "calls lie in each other as deep as the recursion limit"), NULL;
    size_t slots = (size_t)code->co_nlocalsplus, room = slots + (size_t)code->co_stacksize + 1;
    cr_call_frame *f = PyMem_Calloc(1, sizeof *f + room * sizeof *f->locals);
    if (!f) return (cr_call_frame *)PyErr_NoMemory();
    f->code = (PyCodeObject *)Py_NewRef((PyObject *)code);
    f->instructions = instructions;
    f->function = Py_NewRef(function);
    f->globals = real->func_globals;
    f->builtins = real->func_builtins;
    f->stack = f->locals + slots;
    f->back = c->frame;
    f->depth = depth;
    c->frame = f;
    return f;
}

static int refuse_code(cr_capture *c, const PyCodeObject *code) {
    if (code->co_flags & (CO_COROUTINE | CO_ASYNC_GENERATOR | CO_ITERABLE_COROUTINE))
        return cr_break(c, "the coroutine %U() is called", code->co_qualname);
    if ((code->co_flags & (CO_OPTIMIZED | CO_NEWLOCALS)) != (CO_OPTIMIZED | CO_NEWLOCALS))
        return cr_break(c, "code that is no function's is run");
    return 0;
}

int cr_push_call(cr_capture *c, PyObject *function, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames) {
    PyFunctionObject *real = (PyFunctionObject *)(cr_is_token(function) ? cr_real(function) : function);
    binding b = { c, real, (PyCodeObject *)real->func_code, CR_NO_SLOT, NULL };
    uint64_t owner = 0;
    if (refuse_code(c, b.code)) return -1;
    if (cr_is_token(function)) {
        b.source = cr_source_of(function);
        owner = (uint64_t)b.source;
        if (cr_guard_object(&c->guards, b.source, CR_HOLDS_CODE, real->func_code)) return -1;
    } else if (!c->plain && !cr_map_find(&c->made, &function, sizeof function, &owner)) {
        return cr_break(c, "a function of unknown origin is called");
    }
    if (!(b.frame = frame_new(c, function, real))) return -1;
    b.frame->source = b.source;
    b.frame->owner = (int32_t)owner;
    /* A call that does not fit is reported where it is made. */
    cr_call_frame *made = b.frame;
    int failed = bind_arguments(&b, args, nargs, kwnames);
    if (!failed && c->tracer) failed = cr_strict_enter(c, made);
    if (failed && made->back) cr_pop_frame(c);
    return failed;
}

cr_call_frame *cr_push_frame(cr_capture *c, PyObject *function, int32_t next) {
    PyFunctionObject *real = (PyFunctionObject *)cr_real(function);
    if (cr_guard_object(&c->guards, cr_source_of(function), CR_HOLDS_CODE, real->func_code)) return NULL;
    cr_call_frame *f = frame_new(c, function, real);
    if (!f) return NULL;
    f->source = f->owner = cr_source_of(function);
    f->next = next;
    f->resumed = next > 0;
    return f;
}

/* ---- what is called? ---- */

static int call_with_self(cr_capture *c, cr_call_frame *f, PyObject *callable, PyObject *self, PyObject *const *args,
                          Py_ssize_t nargs, PyObject *kwnames) {
    Py_ssize_t total = nargs + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0);
    PyObject **all = PyMem_Malloc(((size_t)total + 1) * sizeof *all);
    if (!all) return PyErr_NoMemory(), -1;
    all[0] = self;
    for (Py_ssize_t k = 0; k < total; k++) all[k + 1] = args[k];
    int r = cr_call_value(c, f, callable, all, nargs + 1, kwnames);
    PyMem_Free(all);
    return r;
}

/* A method from outside: its function and its object, each with a source. */
static int call_method_token(cr_capture *c, cr_call_frame *f, PyObject *token, PyObject *const *args, Py_ssize_t nargs,
                             PyObject *kwnames) {
    int32_t at = cr_source_of(token);
    PyObject *function = cr_wrap_read(c, CR_READ_METHOD_FUNCTION, at, cr_real(token), NULL, 0);
    PyObject *self = function ? cr_wrap_read(c, CR_READ_METHOD_SELF, at, cr_real(token), NULL, 0) : NULL;
    int r = self ? call_with_self(c, f, function, self, args, nargs, kwnames) : -1;
    Py_XDECREF(function);
    Py_XDECREF(self);
    return r;
}

static int call_special(cr_capture *c, cr_call_frame *f, PyObject *token, const char *name, PyObject *const *args,
                        Py_ssize_t nargs, PyObject *kwnames) {
    PyObject *function = NULL;
    int r = cr_class_special(c, token, name, &function);
    if (r < 1) return r < 0 ? -1 : 1;
    r = call_with_self(c, f, function, token, args, nargs, kwnames);
    Py_DECREF(function);
    return r;
}

int cr_call_special(cr_capture *c, cr_call_frame *f, PyObject *token, const char *name, PyObject *const *args,
                    Py_ssize_t nargs) {
    if (!cr_is_token(token)) return 1;
    int r = call_special(c, f, token, name, args, nargs, NULL);
    if (r == 0 && c->frame != f)
        c->frame->gives = !strcmp(name, "__len__")    ? CR_GIVES_LENGTH
                          : !strcmp(name, "__iter__") ? CR_GIVES_ITERATOR
                                                      : CR_GIVES_ANYTHING;
    return r;
}

int cr_call_special_now(cr_capture *c, cr_call_frame *f, PyObject *token, const char *name, PyObject *const *args,
                        Py_ssize_t nargs, PyObject **out) {
    int top = f->top, r = cr_call_special(c, f, token, name, args, nargs);
    if (r) return r;
    if ((c->frame != f && cr_run_until(c, f)) || f->top != top + 1) return -1;
    *out = cr_pop(f);
    return 0;
}

/* A function that torch.jit.script() or trace() compiled carries the one that it was made of. */
static int call_scripted(cr_capture *c, cr_call_frame *f, PyObject *token, PyObject *const *args, Py_ssize_t nargs,
                         PyObject *kwnames) {
    PyObject *name = PyUnicode_InternFromString("_torchdynamo_inline"), *function = NULL;
    int r = name ? cr_own_attribute(c, token, name, &function) : -1;
    if (r == 1) r = cr_call_value(c, f, function, args, nargs, kwnames);
    else if (!r) r = cr_break(c, "a function of torch.jit is called that is not known in Python");
    Py_XDECREF(name);
    Py_XDECREF(function);
    return r;
}

/* Is something gone from a container from outside that may hold others? */
static bool has_lost(const cr_known *k) {
    if (!k->before || cr_is_unchanged(k)) return false;
    PyObject *items = PyDict_Check(k->before) ? PyDict_Values(k->before) : Py_NewRef(k->before);
    PyObject *now = PyDict_Check(k->value) ? PyDict_Values(k->value) : PySequence_List(k->value);
    bool lost = !items || !now;
    for (Py_ssize_t i = 0; !lost && i < PySequence_Fast_GET_SIZE(items); i++) {
        PyObject *item = PySequence_Fast_GET_ITEM(items, i);
        lost = !cr_is_constant(item);
        for (Py_ssize_t j = 0; lost && j < PyList_GET_SIZE(now); j++) lost = PyList_GET_ITEM(now, j) != item;
    }
    Py_XDECREF(items);
    Py_XDECREF(now);
    PyErr_Clear();
    return lost;
}

/* May what was set so far drop this object? What an old value holds goes with it; a number or a text holds nothing.
 * One that the program has by another way, too (`had`), is held there. */
static bool may_drop(const cr_capture *c, PyObject *referent, bool had) {
    for (size_t i = 0; i < c->stores.n; i++) {
        const cr_store *s = &c->stores.at[i];
        PyObject *old = cr_read_now((cr_read)s->read, s->real, s->key, 0);
        if (old && !cr_is_constant(old) && (old == referent || !had || !cr_is_tensor_value(old))) return true;
    }
    for (size_t i = 0; i < c->known.n; i++)
        if (has_lost(&c->known.at[i])) return true;
    return c->midway;
}

static int call_weak_reference(cr_capture *c, cr_call_frame *f, PyObject *token) {
    PyObject *real = cr_real(token), *now = cr_read_now(CR_READ_REFERENT, real, NULL, 0);
    if (may_drop(c, now, now && now != Py_None && cr_is_known_object(c, now)))
        return cr_break(c, "a weak reference is read behind a break, or behind a change");
    PyObject *referent = cr_wrap_read(c, CR_READ_REFERENT, cr_source_of(token), real, NULL, 0);
    return referent ? cr_push(f, referent), 0 : -1;
}

/* A function that its library hides from another compiler, by the one inside. 1: it is none. */
static int call_hidden(cr_capture *c, cr_call_frame *f, PyObject *token, PyObject *const *args, Py_ssize_t nargs,
                       PyObject *kwnames) {
    const cr_frontend *fe;
    PyObject *name = NULL, *inner = NULL, *real = cr_real(token);
    for (size_t i = 0; !name && (fe = cr_frontend_at(i)); i++) name = fe->hides ? fe->hides(real) : NULL;
    if (!name) return PyErr_Occurred() ? -1 : 1;
    int r = cr_get_attribute(c, token, name, &inner);
    Py_DECREF(name);
    if (r != 1) return r < 0 ? -1 : cr_break(c, "a function is called that another compiler is kept from");
    r = cr_guard_object(&c->guards, cr_source_of(token), CR_HOLDS_CODE, PyFunction_GET_CODE(real)) ||
                cr_call_value(c, f, inner, args, nargs, kwnames)
            ? -1
            : 0;
    Py_DECREF(inner);
    return r;
}

static int call_token(cr_capture *c, cr_call_frame *f, PyObject *token, PyObject *const *args, Py_ssize_t nargs,
                      PyObject *kwnames) {
    PyObject *real = cr_real(token);
    int ruled = cr_call_by_rule(c, f, token, args, nargs, kwnames);
    if (ruled != 1) return ruled;
    int reordered = cr_call_reordered(c, f, token, &(cr_arguments){ args, nargs, kwnames });
    if (reordered != 1) return reordered;
    if (PyFunction_Check(real)) {
        int signature = cr_call_signature(c, f, token, &(cr_arguments){ args, nargs, kwnames });
        if (signature != 1) return signature;
        int copied = cr_call_deepcopy(c, f, token, &(cr_arguments){ args, nargs, kwnames });
        if (copied != 1) return copied;
        int foreign = cr_call_foreign(c, f, real, &(cr_arguments){ args, nargs, kwnames });
        if (foreign == 1 && c->tracer && cr_strict_drops(real)) return cr_push(f, Py_NewRef(Py_None)), 0;
        if (foreign == 1) foreign = cr_call_closure(c, f, token, &(cr_arguments){ args, nargs, kwnames });
        int hidden = foreign == 1 ? call_hidden(c, f, token, args, nargs, kwnames) : 1;
        if (hidden != 1) return hidden;
        if (foreign == 1) return cr_push_call(c, token, args, nargs, kwnames);
        PyObject *code = PyFunction_GET_CODE(real); /* that of a stand-in's is guarded, too */
        return foreign || cr_guard_object(&c->guards, cr_source_of(token), CR_HOLDS_CODE, code) ? -1 : 0;
    }
    if (PyMethod_Check(real)) return call_method_token(c, f, token, args, nargs, kwnames);
    if (cr_is_callable(real)) { /* compiled itself: as if it were not */
        PyObject *inner = cr_wrap_read(c, CR_READ_WRAPPED, cr_source_of(token), real, NULL, 0);
        int r = inner ? cr_call_value(c, f, inner, args, nargs, kwnames) : -1;
        Py_XDECREF(inner);
        return r;
    }
    if (PyWeakref_CheckRefExact(real) && !nargs && !kwnames) return call_weak_reference(c, f, token);
    if (!strcmp(Py_TYPE(real)->tp_name, "ScriptFunction"))
        return call_scripted(c, f, token, args, nargs, kwnames);
    if (cr_is_partial_type(Py_TYPE(real)))
        return cr_call_partial(c, f, token, &(cr_arguments){ args, nargs, kwnames });
    if (cr_is_getter_type(Py_TYPE(real)))
        return cr_call_getter(c, f, token, &(cr_arguments){ args, nargs, kwnames });
    if (cr_is_cached_type(Py_TYPE(real)))
        return cr_call_cached(c, f, token, &(cr_arguments){ args, nargs, kwnames });
    if (PyType_Check(real)) return cr_construct(c, f, token, args, nargs, kwnames);
    if (cr_is_numpy_function(real)) return cr_call_numpy(c, f, token, &(cr_arguments){ args, nargs, kwnames });
    int r = call_special(c, f, token, "__call__", args, nargs, kwnames);
    return r > 0 ? cr_break(c, "an object of class %s is called", Py_TYPE(real)->tp_name) : r;
}

static int call_plainly(cr_capture *c, cr_call_frame *f, PyObject *callable, PyObject *const *args, Py_ssize_t nargs,
                        PyObject *kwnames) {
    (void)c;
    PyObject *result = PyObject_Vectorcall(callable, args, (size_t)nargs, kwnames);
    return result ? cr_push(f, result), 0 : -1;
}

int cr_call_value(cr_capture *c, cr_call_frame *f, PyObject *callable, PyObject *const *args, Py_ssize_t nargs,
                  PyObject *kwnames) {
    if (cr_is_token(callable)) return call_token(c, f, callable, args, nargs, kwnames);
    if (PyMethod_Check(callable))
        return call_with_self(c, f, PyMethod_GET_FUNCTION(callable), PyMethod_GET_SELF(callable), args, nargs, kwnames);
    if (PyFunction_Check(callable)) {
        int flags = ((PyCodeObject *)PyFunction_GET_CODE(callable))->co_flags;
        bool suspends = flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR);
        int closed = c->plain ? 1 : cr_call_closure(c, f, callable, &(cr_arguments){ args, nargs, kwnames });
        if (closed != 1) return closed;
        if (!c->plain || !suspends) return cr_push_call(c, callable, args, nargs, kwnames);
    }
    if (!c->plain && PyType_Check(callable) && cr_is_partial_type((PyTypeObject *)callable))
        return cr_make_partial(f, (PyTypeObject *)callable, &(cr_arguments){ args, nargs, kwnames });
    if (!c->plain && cr_is_partial_type(Py_TYPE(callable)))
        return cr_call_partial(c, f, callable, &(cr_arguments){ args, nargs, kwnames });
    if (c->plain) return call_plainly(c, f, callable, args, nargs, kwnames);
    if (PyType_Check(callable) && cr_is_getter_type((PyTypeObject *)callable))
        return cr_make_getter(c, f, (PyTypeObject *)callable, &(cr_arguments){ args, nargs, kwnames });
    if (cr_is_getter_type(Py_TYPE(callable)))
        return cr_call_getter(c, f, callable, &(cr_arguments){ args, nargs, kwnames });
    int instead = cr_call_substituted(c, f, callable, args, nargs, kwnames);
    return instead == 1 ? cr_call_builtin(c, f, callable, args, nargs, kwnames) : instead;
}

/* ---- instructions ---- */

/* Takes `n` values off the stack and drops them. */
static void drop(PyObject **values, int n) {
    for (int k = 0; k < n; k++) Py_XDECREF(values[k]);
}

/* Stack: CR_CALLABLE_FIRST, then arguments. The result must not be pushed before these are off, and an inlined call
 * runs later: they move into an array of their own first. */
static int call(cr_capture *c, cr_call_frame *f, int total, PyObject *kwnames) {
    int with_null = total + 2;
    PyObject **base = &f->stack[f->top - with_null];
    int nkw = kwnames ? (int)PyTuple_GET_SIZE(kwnames) : 0;
    PyObject **values = PyMem_Malloc((size_t)with_null * sizeof *values);
    if (!values) return PyErr_NoMemory(), -1;
    for (int k = 0; k < with_null; k++) values[k] = base[k];
    f->top -= with_null;
    bool is_method = values[CR_CALLABLE_FIRST] != NULL;
    PyObject *callable = is_method || CR_CALLABLE_FIRST ? values[0] : values[1];
    int r = cr_call_value(c, f, callable, values + (is_method ? 1 : 2), total + is_method - nkw, kwnames);
    drop(values, with_null);
    PyMem_Free(values);
    return r;
}

HANDLER(CALL) {
    return call(c, f, i->arg, i->kwnames >= 0 ? PyTuple_GET_ITEM(f->code->co_consts, i->kwnames) : NULL);
}

HANDLER(CALL_KW) {
    PyObject *kwnames = cr_pop(f);
    int r = call(c, f, i->arg, kwnames);
    Py_DECREF(kwnames);
    return r;
}

HANDLER(CALL_FUNCTION_EX) {
    PyObject *given_kwargs = i->arg & 1 ? cr_pop(f) : NULL, *given = cr_pop(f);
    PyObject *upper = cr_pop(f), *lower = cr_pop(f), *callable = CR_CALLABLE_FIRST ? lower : upper;
    PyObject *kwargs = given_kwargs ? cr_operand(c, given_kwargs) : NULL;
    PyObject *operand = cr_operand(c, given), *names = NULL, *key;
    PyObject *args = operand && !cr_refuse_order(c, operand) ? PySequence_Tuple(operand) : NULL;
    PyObject **values = NULL, *value;
    int r = -1;
    Py_ssize_t n = args ? PyTuple_GET_SIZE(args) : 0, k = 0;
    if (!args || (given_kwargs && !kwargs)) goto out;
    if (kwargs && !PyDict_CheckExact(kwargs)) {
        r = cr_break(c, "keyword arguments come from an object of class %s", Py_TYPE(kwargs)->tp_name);
        goto out;
    }
    Py_ssize_t nkw = kwargs ? PyDict_GET_SIZE(kwargs) : 0;
    values = PyMem_Malloc(((size_t)(n + nkw) + 1) * sizeof *values);
    names = nkw ? PyTuple_New(nkw) : NULL;
    if (!values || (nkw && !names)) goto out;
    for (; k < n; k++) values[k] = PyTuple_GET_ITEM(args, k);
    for (Py_ssize_t at = 0; kwargs && PyDict_Next(kwargs, &at, &key, &value); k++) {
        if (!PyUnicode_CheckExact(key)) {
            PyErr_SetString(PyExc_TypeError, "keywords must be strings");
            goto out;
        }
        PyTuple_SET_ITEM(names, k - n, Py_NewRef(key));
        values[k] = value;
    }
    r = cr_call_value(c, f, callable, values, n, names);
out:
    PyMem_Free(values);
    Py_XDECREF(names);
    Py_XDECREF(args);
    Py_XDECREF(operand);
    Py_XDECREF(kwargs);
    Py_XDECREF(given_kwargs);
    Py_DECREF(given);
    Py_XDECREF(upper);
    Py_XDECREF(lower);
    return r;
}

HANDLER(MAKE_FUNCTION) {
    PyObject *code = cr_pop(f), *function = PyFunction_NewWithQualName(code, f->globals, NULL);
    PyFunctionObject *fn = (PyFunctionObject *)function;
    PyObject *closure = i->arg & 8 ? cr_pop(f) : NULL, *annotations = i->arg & 4 ? cr_pop(f) : NULL;
    PyObject *kwdefaults = i->arg & 2 ? cr_pop(f) : NULL, *defaults = i->arg & 1 ? cr_pop(f) : NULL;
    Py_DECREF(code);
    if (!function) {
        Py_XDECREF(closure), Py_XDECREF(annotations), Py_XDECREF(kwdefaults), Py_XDECREF(defaults);
        return -1;
    }
    fn->func_closure = closure; /* cells from outside are tokens: nobody but us may ever call it */
    fn->func_kwdefaults = kwdefaults;
    fn->func_defaults = defaults;
    fn->func_annotations = annotations;
    if (!c->plain && (PyList_Append(c->kept, function) ||
                      cr_map_put(&c->made, &function, sizeof function, (uint64_t)f->owner)))
        return Py_DECREF(function), -1;
    return cr_push(f, function), 0;
}

HANDLER(SET_FUNCTION_ATTRIBUTE) {
    if (cr_is_token(cr_peek(f, 1))) return cr_break(c, "a function that was begun before is finished");
    PyFunctionObject *fn = (PyFunctionObject *)cr_pop(f);
    PyObject *value = cr_pop(f);
    PyObject **to = i->arg == 8   ? &fn->func_closure
                    : i->arg == 4 ? &fn->func_annotations
                    : i->arg == 2 ? &fn->func_kwdefaults
                                  : &fn->func_defaults;
    Py_XSETREF(*to, value);
    return cr_push(f, (PyObject *)fn), 0;
}
