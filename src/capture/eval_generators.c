/* eval_generators.c: generators that the program makes.
 *
 * A generator is a frame of the evaluator's, suspended: an object whose next item is found by evaluating on. Whoever
 * iterates over it, a loop of the program or a function in C (sum, tuple, zip), asks for items in the same way; send(),
 * throw() and close() resume it, too. It lives no longer than the capture. One that waits inside of `try` or `with` and
 * is dropped ends the capture: CPython would run what is in there, unless that is nothing (`except IndexError:`). */
#include "capture/evaluate.h"

#include "python/py.h"

#define HANDLER(name) int cr_do_##name(cr_capture *c, cr_call_frame *f, const cr_instruction *i)

typedef struct generator {
    PyObject_HEAD
    cr_capture *capture;
    cr_call_frame *frame; /* owned while suspended; NULL: it has ended, or runs */
    PyObject *item;       /* what it has just yielded */
    PyObject *result;     /* what it has returned */
    bool started, waits;  /* waits: inside of try or with */
} generator;

static PyTypeObject generator_type;

static void set_waits(generator *g, bool waits) {
    g->capture->unfinished += (int)waits - (int)g->waits;
    g->waits = waits;
}

static void generator_dealloc(PyObject *self) {
    generator *g = (generator *)self;
    if (g->waits && !g->capture->disposing) {
        set_waits(g, false);
        cr_break(g->capture, "a generator is dropped inside of try or with");
    }
    if (g->frame) cr_free_frame(g->frame);
    Py_XDECREF(g->item);
    Py_XDECREF(g->result);
    PyObject_Free(self);
}

void cr_generator_ends(PyObject *self, PyObject *result) { Py_XSETREF(((generator *)self)->result, result); }

/* Its frame becomes the innermost. */
static cr_call_frame *resume(generator *g) {
    cr_call_frame *f = g->frame;
    g->frame = NULL;
    g->started = true;
    set_waits(g, false);
    f->back = g->capture->frame;
    f->depth = f->back ? f->back->depth + 1 : 0;
    f->generator = (PyObject *)g;
    g->capture->frame = f;
    return f;
}

/* Runs on until it yields or ends. NULL without an exception: it has ended, g->result is what it returned. */
static PyObject *run_on(generator *g, cr_call_frame *outer) {
    if (cr_run_until(g->capture, outer)) return cr_fail_in_c(g->capture);
    PyObject *item = g->item;
    g->item = NULL;
    return item;
}

static bool is_running(const generator *g) {
    for (const cr_call_frame *f = g->capture->frame; f; f = f->back)
        if (f->generator == (PyObject *)g) return true;
    return false;
}

/* `value`: what it is sent; borrowed. */
static PyObject *send_to(generator *g, PyObject *value) {
    cr_call_frame *outer = g->capture->frame;
    if (!g->frame) {
        if (!is_running(g)) return NULL;
        PyErr_SetString(PyExc_ValueError, "generator already executing");
        return NULL;
    }
    if (!g->started && value != Py_None) {
        PyErr_SetString(PyExc_TypeError, "can't send non-None value to a just-started generator");
        return NULL;
    }
    Py_CLEAR(g->result);
    cr_push(resume(g), Py_NewRef(value));
    return run_on(g, outer);
}

static PyObject *next_item(PyObject *self) { return send_to((generator *)self, Py_None); }

/* Does it wait for another one in `yield from`? */
static bool delegates(const cr_call_frame *f) {
    return f->current > 0 && f->instructions->at[f->current - 1].id == CR_I_SEND;
}

/* Resumes it by raising a value (borrowed). */
static PyObject *throw_into(generator *g, PyObject *exception) {
    cr_capture *c = g->capture;
    cr_call_frame *outer = c->frame;
    if (!g->frame || !g->started) {
        if (g->frame) cr_free_frame(g->frame), g->frame = NULL;
        return cr_raise(c, exception), NULL;
    }
    if (delegates(g->frame))
        return cr_break(c, "something is thrown into a generator that waits in yield from"), cr_fail_in_c(c);
    Py_CLEAR(g->result);
    resume(g);
    cr_raise(c, exception);
    return cr_unwind(c, outer) ? cr_fail_in_c(c) : run_on(g, outer);
}

/* ---- methods ---- */

/* An end is StopIteration, to whom asks by a method. */
static PyObject *or_stop(generator *g, PyObject *item) {
    if (item || PyErr_Occurred()) return item;
    PyObject *value = g->result && g->result != Py_None ? g->result : NULL;
    PyObject *real = value ? PyObject_CallOneArg(PyExc_StopIteration, value) : PyObject_CallNoArgs(PyExc_StopIteration);
    PyObject *exception = cr_exception_value(g->capture, real);
    if (exception) cr_raise(g->capture, exception);
    Py_XDECREF(exception);
    Py_CLEAR(g->result);
    return NULL;
}

static PyObject *method_send(PyObject *self, PyObject *value) {
    return or_stop((generator *)self, send_to((generator *)self, value));
}

static PyObject *method_next(PyObject *self, PyObject *unused) {
    (void)unused;
    return or_stop((generator *)self, next_item(self));
}

/* throw(exception), throw(class), or the three that a context manager is given: class, exception, traceback. */
static PyObject *method_throw(PyObject *self, PyObject *const *args, Py_ssize_t n) {
    generator *g = (generator *)self;
    cr_capture *c = g->capture;
    PyObject *given = n >= 2 && args[1] != Py_None ? args[1] : n ? args[0] : NULL, *exception = NULL;
    if (given && cr_is_exception(given)) exception = Py_NewRef(given);
    else if (given && n == 1 && !cr_is_token(given) && PyExceptionClass_Check(given))
        exception = cr_exception_value(c, PyObject_CallNoArgs(given));
    else cr_break(c, "throw() with such arguments");
    PyObject *item = exception ? throw_into(g, exception) : cr_fail_in_c(c);
    Py_XDECREF(exception);
    return exception ? or_stop(g, item) : NULL;
}

static PyObject *method_close(PyObject *self, PyObject *unused) {
    generator *g = (generator *)self;
    cr_capture *c = g->capture;
    (void)unused;
    if (!g->frame && is_running(g)) return cr_break(c, "a generator closes itself"), cr_fail_in_c(c);
    if (!g->frame || !g->started) {
        if (g->frame) cr_free_frame(g->frame), g->frame = NULL;
        Py_RETURN_NONE;
    }
    PyObject *exception = cr_exception_value(c, PyObject_CallNoArgs(PyExc_GeneratorExit));
    PyObject *item = exception ? throw_into(g, exception) : NULL;
    Py_XDECREF(exception);
    if (item) {
        Py_DECREF(item);
        return cr_break(c, "a generator ignores GeneratorExit"), cr_fail_in_c(c);
    }
    Py_CLEAR(g->result);
    if (PyErr_Occurred() && !cr_catch(c, PyExc_GeneratorExit) && !cr_catch(c, PyExc_StopIteration)) return NULL;
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    { "send", method_send, METH_O, NULL },
    { "throw", (PyCFunction)(void (*)(void))method_throw, METH_FASTCALL, NULL },
    { "close", method_close, METH_NOARGS, NULL },
    { "__next__", method_next, METH_NOARGS, NULL },
    { NULL, NULL, 0, NULL },
};

static PyTypeObject generator_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "cresset._C._Generator",
    .tp_basicsize = sizeof(generator),
    .tp_dealloc = generator_dealloc,
    .tp_iter = PyObject_SelfIter,
    .tp_iternext = next_item,
    .tp_methods = methods,
    .tp_flags = Py_TPFLAGS_DEFAULT,
};

int cr_generators_init(void) { return PyType_Ready(&generator_type); }

bool cr_is_generator(PyObject *value) { return Py_IS_TYPE(value, &generator_type); }

int cr_next_of_generator(cr_capture *c, PyObject *value, PyObject **out) {
    (void)c;
    return (*out = method_next(value, NULL)) ? 1 : -1;
}

/* ---- instructions ---- */

/* Has the program a handler there? From 3.12 on every generator has one of CPython's own, which renames StopIteration,
 * and every `yield from` has one, for what is thrown. */
static bool is_handled(const cr_code *code, int32_t unit) {
    const cr_handler_range *range = cr_code_handler(code, unit);
    if (range && code->at[range->to].id == CR_I_CLEANUP_THROW)
        range = cr_code_handler(code, code->at[range->to].own);
    return range && code->at[range->to].id != CR_I_STOPITERATION_ERROR;
}

/* `except IndexError:`, of a builtin class: not for GeneratorExit. What the name stands for is guarded. 1: it is such,
 * *at behind it; 0: something else; -1. */
static int passes_exit(cr_capture *c, cr_call_frame *f, int32_t *at) {
    const cr_instruction *i = &f->instructions->at[*at];
    if (i[0].id != CR_I_LOAD_GLOBAL || i[0].arg & 1 || i[1].id != CR_I_CHECK_EXC_MATCH ||
        i[2].id != CR_I_POP_JUMP_IF_FALSE)
        return 0;
    PyObject *name = PyTuple_GET_ITEM(f->code->co_names, i[0].arg >> 1), *real = PyDict_GetItem(f->globals, name);
    if (!real) real = PyDict_GetItem(f->builtins, name);
    if (!real || !PyExceptionClass_Check(real) || cr_is_python_class((PyTypeObject *)real)) return 0;
    if (cr_do_LOAD_GLOBAL(c, f, &i[0])) return -1;
    PyObject *value = cr_pop(f);
    bool passes = !cr_is_token(value) && PyExceptionClass_Check(value) &&
                  !PyErr_GivenExceptionMatches(PyExc_GeneratorExit, value);
    Py_DECREF(value);
    if (passes) *at = i[2].arg;
    return passes;
}

/* Would CPython run something of the program's that is there, if it closed the generator at this unit? -1: exception or
 * break. */
static int has_to_close(cr_capture *c, cr_call_frame *f, int32_t unit) {
    const cr_code *code = f->instructions;
    while (is_handled(code, unit)) {
        int32_t at = cr_code_handler(code, unit)->to;
        if (code->at[at++].id != CR_I_PUSH_EXC_INFO) return 1;
        int passes;
        while ((passes = passes_exit(c, f, &at)) == 1) {}
        if (passes < 0) return -1;
        if (code->at[at].id != CR_I_RERAISE) return 1;
        const cr_handler_range *range = cr_code_handler(code, code->at[at].own);
        if (!range) return 0;
        const cr_instruction *i = &code->at[range->to]; /* takes the exception that is handled away, and raises again */
        if (i[0].id != CR_I_COPY || i[1].id != CR_I_POP_EXCEPT || i[2].id != CR_I_RERAISE) return 1;
        unit = i[2].own;
    }
    return 0;
}

/* The frame leaves the stack of frames and becomes an object. */
HANDLER(RETURN_GENERATOR) {
    (void)i;
    if (!f->back) return cr_break(c, "a generator is made");
    generator *g = PyObject_New(generator, &generator_type);
    if (!g) return -1;
    *g = (generator){ .ob_base = g->ob_base, .capture = c, .frame = f };
    c->frame = f->back;
    PyObject *instead = f->instead;
    f->instead = NULL;
    if (instead || (f->gives != CR_GIVES_ANYTHING && f->gives != CR_GIVES_ITERATOR && f->gives != CR_GIVES_ITSELF)) {
        Py_DECREF(g); /* __init__, __setattr__ or __len__ that is a generator */
        return cr_break(c, "a special method is a generator");
    }
    f->gives = CR_GIVES_ANYTHING; /* that was about the generator, not about what it returns in the end */
    cr_push(f->back, (PyObject *)g);
    return 0;
}

HANDLER(YIELD_VALUE) {
    generator *g = (generator *)f->generator;
    if (!g) return cr_break(c, "the generator yields, and goes on when it is asked again");
    PyObject *item = cr_pop(f);
    int waits = has_to_close(c, f, i->own);
    if (waits < 0) return Py_DECREF(item), -1;
    g->item = item;
    g->frame = f;
    c->frame = f->back;
    set_waits(g, waits);
    return 0;
}

HANDLER(GET_YIELD_FROM_ITER) {
    if (cr_is_generator(cr_peek(f, 1))) return 0;
    return cr_do_GET_ITER(c, f, i);
}

/* Stack: the one asked, what it is sent. Its item goes on top; when it has ended, its result in the place of both, from
 * 3.12 on by END_SEND. */
HANDLER(SEND) {
    PyObject *value = cr_pop(f), *from = cr_peek(f, 1), *item = NULL, *result = NULL;
    if (cr_is_generator(from)) {
        item = send_to((generator *)from, value);
        result = ((generator *)from)->result;
    } else if (value != Py_None) {
        cr_break(c, "something is sent to an iterator that is no generator");
    } else if (Py_TYPE(from)->tp_iternext && !Py_IS_TYPE(from, &cr_iterator_type)) {
        item = Py_TYPE(from)->tp_iternext(from);
        if (!item && PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_StopIteration)) PyErr_Clear();
    } else {
        cr_break(c, "an iterator in Python is asked by yield from"); /* which may end with a value */
    }
    Py_DECREF(value);
    if (item) return cr_push(f, item), 0;
    if (PyErr_Occurred() || c->reason) return -1;
    result = Py_NewRef(result ? result : Py_None);
    if (PY_VERSION_HEX < 0x030C0000) Py_DECREF(cr_pop(f));
    cr_push(f, result);
    f->next = i->arg;
    return 0;
}

HANDLER(END_SEND) {
    (void)c, (void)i;
    PyObject *result = cr_pop(f);
    Py_DECREF(cr_pop(f));
    return cr_push(f, result), 0;
}

/* An exception leaves the generator. */
HANDLER(STOPITERATION_ERROR) {
    (void)i;
    PyObject *exception = cr_peek(f, 1);
    PyObject *type = (PyObject *)Py_TYPE(cr_is_token(exception) ? cr_real(exception) : exception);
    return PyErr_GivenExceptionMatches(type, PyExc_StopIteration) ? cr_break(c, "a generator raises StopIteration") : 0;
}
