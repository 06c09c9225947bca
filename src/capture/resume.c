/* resume.c: going on with a call in the middle of its function.
 *
 * The function is called under the hook with the call's own arguments; the frame that CPython makes for it gets locals
 * and stack. From there on the frame is carried on by turns: the instruction at which a capture ended (step.c), then
 * what was captured of what comes behind it. Where neither goes, CPython goes on in that frame, for good. The hook is
 * taken away as soon as the frame is there: what the function calls runs as it always does.
 *
 * Where single instructions are not carried out (CR_FRAME_STEPS), CPython goes on after the first capture. */
#define Py_BUILD_CORE 1
#include "capture/hook.h"

#include "capture/dispatch.h"

/* Entries in a row that compute and change nothing: from then on the call is CPython's. */
enum { IDLE = 24 };

typedef struct resumption {
    cr_dispatcher *d;
    cr_cache *cache;
    PyCodeObject *code;
    cr_state state;
    int32_t at; /* the instruction that is carried out next */
    int idle;
    bool taken, collects;
} resumption;

bool cr_is_traced(void) { return cr_thread_is_traced(PyThreadState_Get()); }

/* CPython goes on before instruction `at`; or raises what is set, at that instruction. */
static PyObject *enter(const resumption *r, PyThreadState *thread, cr_frame *frame, bool raises) {
    const cr_code *code = cr_code_get(r->code);
    if (!code) return NULL;
    const cr_instruction *i = &code->at[r->at];
    cr_frame_set_at(frame, raises ? i->own + 1 : i->at); /* 3.11: an exception is the last instruction's */
    return _PyEval_EvalFrameDefault(thread, frame, raises);
}

#if CR_FRAME_STEPS
static PyObject *call(void *user, PyObject *callable, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames) {
    return cr_dispatch_callee(user, callable, args, nargs, kwnames);
}

/* Others get their turn where a loop goes back: signals, pending calls, threads. -1: exception. */
static int give_way(PyThreadState *thread) {
    if (!cr_thread_is_asked(thread)) return 0;
    if (Py_MakePendingCalls() || PyErr_CheckSignals()) return -1;
    Py_BEGIN_ALLOW_THREADS;
    Py_END_ALLOW_THREADS;
    return 0;
}

/* Runs what was captured behind the instruction. 1: *result; 0: it ended before another; -1: run plain; -2: raise. */
static int run_entry(resumption *r, PyThreadState *thread, cr_frame *frame, PyObject **result) {
    PyObject *small[CR_SMALL_SLOTS], **slots = NULL, **state = NULL;
    PyObject *function = cr_frame_function(frame);
    int depth = cr_frame_top(frame) - cr_frame_slot_count(frame), how = -1;
    cr_entry *e = cr_find_at(r->d, r->cache, function, cr_frame_slots(frame), depth, r->at, small, &slots);
    if (!e) return PyErr_Occurred() ? -2 : -1;
    if (e->reason && !e->resumes) goto out;
    if (e->resumes && !(state = PyMem_Calloc(e->state.n + 1, sizeof *state))) PyErr_NoMemory();
    int done = e->resumes && !state ? -1 : cr_run_entry(e, slots, result, state);
    if (done < 0) how = -2;
    else if (!done) r->d->failed++;
    else if (!e->resumes) how = 1;
    else {
        cr_state now = { .slots = state, .count = (int)e->locals, .depth = (int)e->state.n - (int)e->locals };
        state = NULL;
        r->idle = e->ops || e->effects.n ? 0 : r->idle + 1;
        how = cr_state_put(&now, thread, frame) ? (cr_state_dispose(&now), -2) : 0;
        if (!how && e->next <= r->at && give_way(thread)) how = -2;
        r->at = e->next;
    }
out:
    PyMem_Free(state);
    if (slots != small) PyMem_Free(slots);
    cr_entry_release(e);
    return how;
}

static PyObject *go_on(resumption *r, PyThreadState *thread, cr_frame *frame) {
    for (;;) {
        int32_t before = r->at;
        PyObject *result = NULL;
        if (cr_is_traced()) return enter(r, thread, frame, false);
        r->d->breaks++;
        cr_stepped stepped = cr_step(thread, frame, &r->at, call, r->d);
        bool anywhere = stepped == CR_STEP_NOT && cr_capture_switches.every; /* a test ends captures where it likes */
        if (stepped != CR_STEPPED && !anywhere) return enter(r, thread, frame, stepped == CR_STEP_RAISED);
        if (r->at <= before && give_way(thread)) return enter(r, thread, frame, true);
        if (cr_is_traced() || (r->idle > IDLE && !cr_capture_switches.every)) return enter(r, thread, frame, false);
        int how = run_entry(r, thread, frame, &result);
        if (how == 1) return result;
        if (anywhere && r->at == before) how = -1; /* neither goes */
        if (how < 0) return enter(r, thread, frame, how == -2);
    }
}

#else
static PyObject *go_on(resumption *r, PyThreadState *thread, cr_frame *frame) { return enter(r, thread, frame, false); }
#endif

static bool see(cr_activation *a, PyThreadState *thread, cr_frame *frame, int throwflag, PyObject **result) {
    resumption *r = a->user;
    if (r->taken || cr_frame_code(frame) != r->code || throwflag) return false;
    r->taken = true;
    cr_hook_end(a);
    if (r->collects) PyGC_Enable();
    *result = cr_state_put(&r->state, thread, frame) ? _PyEval_EvalFrameDefault(thread, frame, 1)
                                                     : go_on(r, thread, frame);
    return true;
}

PyObject *cr_resume(cr_dispatcher *d, cr_cache *cache, cr_entry *e, PyObject *function, PyObject *const *args,
                    Py_ssize_t nargs, PyObject *kwnames, PyObject **state) {
    resumption r = { .d = d,
                     .cache = cache,
                     .code = (PyCodeObject *)PyFunction_GET_CODE(function),
                     .at = e->next,
                     .state = { .slots = state, .count = (int)e->locals, .depth = (int)e->state.n - (int)e->locals } };
    cr_activation activation;
    r.collects = PyGC_Disable(); /* until the frame is there: a finalizer might call the same function */
    cr_hook_begin(&activation, see, &r);
    PyObject *result = PyObject_Vectorcall(function, args, (size_t)nargs, kwnames);
    if (!r.taken) { /* it did not get as far as a frame */
        cr_hook_end(&activation);
        if (r.collects) PyGC_Enable();
    }
    cr_state_dispose(&r.state);
    return result;
}
