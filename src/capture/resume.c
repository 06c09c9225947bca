/* resume.c: going on with a call in the middle of its function.
 *
 * The function is called under the hook with the call's own arguments; the frame that CPython makes for it gets locals
 * and stack. From there on the frame is carried on by turns: the instruction at which a capture ended (step.c), then
 * what was captured of what comes behind it. Where neither goes, CPython goes on in that frame, for good. The hook is
 * taken away as soon as the frame is there: what the function calls runs as it always does. */
#define Py_BUILD_CORE 1
#include "capture/hook.h"

#include "capture/dispatch.h"

/* Entries in a row that compute and change nothing: from then on the call is CPython's. */
enum { IDLE = 24 };

typedef struct resumption {
    cr_dispatcher *d;
    cr_cache *cache;
    PyCodeObject *code;
    const cr_code *instructions;
    cr_state state;
    int32_t at; /* the instruction that is carried out next */
    int idle;
    bool taken, collects;
    PyObject **why; /* the reason of what runs plain goes here; NULL: nobody asks */
} resumption;

/* Python levels that CPython itself needs to go on in a frame, and to say that there are too many. */
enum { ROOM = 8 };

bool cr_is_watched(PyCodeObject *code) {
    const PyThreadState *thread = PyThreadState_Get();
    return cr_thread_is_traced(thread) || cr_code_is_watched(thread, code);
}

bool cr_is_near_limit(void) {
    PyThreadState *thread = PyThreadState_Get();
    return *cr_thread_room(thread) < ROOM || cr_thread_is_deep(thread) || cr_stack_is_short();
}

/* Where a frame is entered to raise at an instruction. CPython 3.13 looks for a handler one unit before that, and goes
 * by the very unit for the line: the unit behind will do where it belongs to the instruction, too. *exact: it does. */
static int raising_unit(const cr_code *code, int32_t at, bool *exact) {
    int own = code->at[at].own, end = at + 1 < code->count ? code->at[at + 1].at : own + 1;
    *exact = true;
#if PY_VERSION_HEX >= 0x030D0000
    if (own && cr_code_handler(code, own - 1) == cr_code_handler(code, own)) return own;
    *exact = end > own + 1;
#else
    (void)end;
#endif
    return own + 1;
}

/* CPython goes on before instruction `at`; or raises what is set, at that instruction. */
static PyObject *enter(const resumption *r, PyThreadState *thread, cr_frame *frame, bool raises) {
    bool exact;
    cr_frame_set_at(frame, raises ? raising_unit(r->instructions, r->at, &exact) : r->instructions->at[r->at].at);
    return _PyEval_EvalFrameDefault(thread, frame, raises);
}

/* The frame returns, its stack empty: by CPython's own instruction where that is to clear it. */
static PyObject *leave(const resumption *r, PyThreadState *thread, cr_frame *frame, PyObject *result) {
    const cr_instruction *i = &r->instructions->at[r->at];
    PyObject **base = cr_frame_slots(frame) + cr_frame_slot_count(frame);
    int top = cr_frame_top(frame);
    while (top > cr_frame_slot_count(frame)) { /* what is dropped may look at the frame */
        PyObject *dropped = cr_frame_slots(frame)[--top];
        cr_frame_set_top(frame, top);
        Py_XDECREF(dropped);
    }
    if (!CR_FRAME_CLEARS && frame->owner != FRAME_OWNED_BY_GENERATOR) return result;
    if (i->id == CR_I_RETURN_CONST) Py_DECREF(result);
    else *base = result, cr_frame_set_top(frame, top + 1);
    cr_frame_set_at(frame, i->at);
    return _PyEval_EvalFrameDefault(thread, frame, 0);
}

static PyObject *call(void *user, PyObject *callable, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames) {
    return cr_dispatch_callee(user, callable, args, nargs, kwnames);
}

/* A call of Python code: that is where CPython collects garbage. */
static int call_nothing(void) {
    static PyObject *nothing; /* once */
    if (!nothing) {
        PyObject *names = Py_BuildValue("{sO}", "__builtins__", PyEval_GetBuiltins());
        nothing = names ? PyRun_String("lambda: None", Py_eval_input, names, names) : NULL;
        Py_XDECREF(names);
    }
    PyObject *result = nothing ? PyObject_CallNoArgs(nothing) : NULL;
    Py_XDECREF(result);
    return result ? 0 : -1;
}

/* Others get their turn where a loop goes back: signals, pending calls, threads, the collector. -1: exception. */
static int give_way(const resumption *r, PyThreadState *thread, cr_frame *frame) {
    if (!cr_thread_is_asked(thread)) return 0;
    int top = cr_frame_top(frame);
    cr_frame_link(frame, thread, r->instructions->at[r->at].own);
    int failed = PyErr_CheckSignals() || Py_MakePendingCalls();
    if (!failed) {
        Py_BEGIN_ALLOW_THREADS;
        Py_END_ALLOW_THREADS;
        failed = cr_thread_is_asked(thread) && call_nothing();
    }
    cr_frame_unlink(frame, thread, top);
    return failed ? -1 : 0;
}

/* Runs what was captured behind the instruction. 1: *result; 0: it ended before another; -1: run plain; -2: raise. */
static int run_entry(resumption *r, PyThreadState *thread, cr_frame *frame, PyObject **result) {
    PyObject *small[CR_SMALL_SLOTS], **slots = NULL, **state = NULL;
    PyObject *function = cr_frame_function(frame);
    int depth = cr_frame_top(frame) - cr_frame_slot_count(frame), how = -1;
    cr_entry *e = cr_find_at(r->d, r->cache, function, cr_frame_slots(frame), depth, r->at, small, &slots);
    if (!e) return PyErr_Occurred() ? -2 : -1;
    if (e->reason ? !e->resumes : cr_frame_is_kept(frame)) {
        if (r->why) *r->why = Py_XNewRef(e->reason);
        goto out;
    }
    if (e->resumes && !(state = PyMem_Calloc(e->state.n + 1, sizeof *state))) PyErr_NoMemory();
    int done = e->resumes && !state ? -1 : cr_run_entry(e, slots, result, state);
    if (done < 0) how = -2;
    else if (!done) r->d->failed++;
    else if (!e->resumes) how = 1, r->at = e->next;
    else {
        cr_state now = { .slots = state, .count = (int)e->locals, .depth = (int)e->state.n - (int)e->locals };
        state = NULL;
        r->idle = e->ops || e->effects.n ? 0 : r->idle + 1;
        how = cr_state_put(&now, thread, frame) ? (cr_state_dispose(&now), -2) : 0;
        /* one that waits for another goes back to asking it, and what comes meanwhile is the other's */
        bool waits = r->instructions->at[r->at].id == CR_I_RESUME && r->instructions->at[e->next].id == CR_I_SEND;
        bool goes_back = e->next <= r->at && !waits;
        r->at = e->next;
        if (!how && goes_back && give_way(r, thread, frame)) how = -2;
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
        bool exact;
        if (cr_is_watched(r->code) || cr_is_near_limit()) return enter(r, thread, frame, false);
        r->d->breaks++;
        (void)raising_unit(r->instructions, r->at, &exact);
        cr_stepped stepped = exact ? cr_step(thread, frame, &r->at, call, r->d) : CR_STEP_NOT;
        bool anywhere = stepped == CR_STEP_NOT && cr_capture_switches.every; /* a test ends captures where it likes */
        if (stepped != CR_STEPPED && !anywhere) return enter(r, thread, frame, stepped == CR_STEP_RAISED);
        if (r->at <= before && give_way(r, thread, frame)) return enter(r, thread, frame, true);
        bool idle = r->idle > IDLE && !cr_capture_switches.every;
        if (cr_is_watched(r->code) || idle) return enter(r, thread, frame, false);
        int how = run_entry(r, thread, frame, &result);
        if (how == 1) return leave(r, thread, frame, result);
        if (anywhere && r->at == before) how = -1; /* neither goes */
        if (how < 0) return enter(r, thread, frame, how == -2);
    }
}

/* Is it a generator that was suspended while it handled an exception, or goes on while a signal waits? Where that is
 * served CPython knows. */
static bool is_delicate(PyThreadState *thread, const cr_frame *frame) {
    PyObject *handled = *cr_thread_handled(thread);
    return frame->owner == FRAME_OWNED_BY_GENERATOR &&
           ((handled && handled != Py_None) || cr_thread_is_asked(thread));
}

bool cr_carry_frame(cr_dispatcher *d, PyThreadState *thread, cr_frame *frame, PyObject **result, PyObject **reason) {
    resumption r = { .d = d, .code = cr_frame_code(frame), .why = reason };
    *reason = NULL;
    if (cr_is_watched(r.code) || cr_is_near_limit() || is_delicate(thread, frame)) return false;
    if (!(r.instructions = cr_code_get(r.code))) return PyErr_Clear(), false;
    while (r.at < r.instructions->count && r.instructions->at[r.at].at < cr_frame_at(frame)) r.at++;
    if (r.at == r.instructions->count || r.instructions->at[r.at].at != cr_frame_at(frame)) return false;
    cr_cache *cache = cr_cache_of(d, (PyObject *)r.code);
    if (!cache) return PyErr_Clear(), false;
    r.cache = cr_cache_retain(cache);
    int how = run_entry(&r, thread, frame, result);
    r.why = NULL;
    if (how == 1) *result = leave(&r, thread, frame, *result);
    if (how == 0) *result = go_on(&r, thread, frame);
    if (how == -2) *result = enter(&r, thread, frame, true);
    cr_cache_release(r.cache);
    return how != -1;
}

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
    if (!(r.instructions = cr_code_get(r.code))) return cr_state_dispose(&r.state), NULL;
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
