/* everything.c: a switch for tests: every Python function that is called is captured, the standard library's too.
 *
 * The frame hook shows each new frame, and what was captured of its code runs in place of it: at its first instruction,
 * its arguments being the locals. Each code object has a dispatcher of its own, as if it had been compiled. So programs
 * that know nothing of us (CPython's own tests) say whether compiled functions do what plain ones do. How frames went
 * is counted, with reasons. */
#include "capture/everything.h"

#include "capture/capture.h"
#include "capture/suspended.h"

typedef struct everything {
    cr_dispatchers by_code;
    PyObject *reasons; /* dict: why frames ran plain -> how many; owned */
    uint64_t frames, whole, broken;
} everything;

cr_dispatcher *cr_dispatchers_get(cr_dispatchers *all, PyCodeObject *code) {
    uint64_t at;
    if (cr_map_find(&all->by_code, &code, sizeof code, &at)) return all->all.at[at];
    cr_dispatcher *d = PyMem_Calloc(1, sizeof *d);
    if (!d || cr_vec_push(&all->all, d)) return PyMem_Free(d), (cr_dispatcher *)PyErr_NoMemory();
    *d = all->like;
    if (!cr_cache_of(d, (PyObject *)code) || cr_map_put(&all->by_code, &code, sizeof code, all->all.n - 1)) {
        all->all.n--;
        cr_dispatcher_forget(d);
        return PyMem_Free(d), (cr_dispatcher *)PyErr_NoMemory();
    }
    return d;
}

void cr_dispatchers_dispose(cr_dispatchers *d) {
    for (size_t i = 0; i < d->all.n; i++) {
        cr_dispatcher_forget(d->all.at[i]);
        PyMem_Free(d->all.at[i]);
    }
    cr_vec_dispose(&d->all);
    cr_map_dispose(&d->by_code);
}

static void count_reason(everything *all, const char *text, PyObject *reason) {
    PyObject *key = reason ? Py_NewRef(reason) : PyUnicode_FromString(text);
    PyObject *known = key ? PyDict_GetItemWithError(all->reasons, key) : NULL;
    PyObject *more = PyLong_FromLong(known ? PyLong_AsLong(known) + 1 : 1);
    if (!key || !more || PyDict_SetItem(all->reasons, key, more)) PyErr_Clear();
    Py_XDECREF(key);
    Py_XDECREF(more);
}

const char *cr_frame_why_not(const cr_frame *frame, int throwflag) {
    int flags = cr_frame_code(frame)->co_flags, function = CO_OPTIMIZED | CO_NEWLOCALS;
    if (throwflag) return "something is thrown into the frame";
    if (flags & CO_ASYNC_GENERATOR) return "the frame of an asynchronous generator";
    if (flags & CO_ITERABLE_COROUTINE) return "the frame of a generator that is marked as a coroutine";
    if ((flags & function) != function) return "the body of a class or module";
    return cr_frame_at(frame) && frame->owner != FRAME_OWNED_BY_GENERATOR ? "a frame in the middle" : NULL;
}

static bool see(cr_activation *a, PyThreadState *thread, cr_frame *frame, int throwflag, PyObject **result) {
    everything *all = a->user;
    PyObject *reason = NULL;
    all->frames++;
    const char *not = cr_frame_why_not(frame, throwflag);
    if (not) return count_reason(all, not, NULL), false;
    cr_dispatcher *d = cr_dispatchers_get(&all->by_code, cr_frame_code(frame));
    if (!d) return PyErr_Clear(), false;
    uint64_t breaks = d->breaks;
    if (!cr_carry_frame(d, thread, frame, result, &reason)) {
        count_reason(all, "captured as often as may be, or while something else is", reason);
        Py_XDECREF(reason);
        return false;
    }
    *(d->breaks == breaks ? &all->whole : &all->broken) += 1;
    return true;
}

static PyObject *capture_all(PyObject *module, PyObject *const *args, Py_ssize_t n) {
    everything all = { .by_code.like = { .backend = Py_None, .unsupported = Py_None, .limit = 8, .quiet = true } };
    cr_activation activation;
    (void)module;
    if (n < 1) return PyErr_Format(PyExc_TypeError, "_capture_all() takes a function and its arguments");
    cr_map_init(&all.by_code.by_code);
    if (!(all.reasons = PyDict_New())) return NULL;
    cr_hook_begin(&activation, see, &all);
    PyObject *result = PyObject_Vectorcall(args[0], args + 1, (size_t)n - 1, NULL);
    cr_hook_end(&activation);
    PyObject *counts = !result ? NULL
                               : Py_BuildValue("{s:K,s:K,s:K,s:O}", "frames", all.frames, "whole", all.whole, "broken",
                                               all.broken, "plain", all.reasons);
    cr_dispatchers_dispose(&all.by_code);
    Py_CLEAR(all.reasons);
    return counts ? Py_BuildValue("NN", result, counts) : (Py_XDECREF(result), NULL);
}

static PyMethodDef functions[] = {
    { "_capture_all", (PyCFunction)(void (*)(void))capture_all, METH_FASTCALL,
      "_capture_all(fn, *args): (fn(*args), counts), every function that it calls on this thread being captured. For "
      "tests. counts: {frames, whole, broken, plain: {reason: how many}}." },
    { NULL, NULL, 0, NULL },
};

int cr_everything_init(PyObject *module) { return PyModule_AddFunctions(module, functions); }
