/* hook.h: the frame hook (PEP 523), on only around calls that need it.
 *
 *     cr_activation a;
 *     cr_hook_begin(&a, see_frame, user);     -- from here on this thread's new frames are shown to see_frame
 *     ... call Python ...
 *     cr_hook_end(&a);
 *
 * Activations nest and belong to one thread; other threads fall through. Whoever had set a hook before goes on seeing
 * every frame that the activation does not take. All of it under the GIL. */
#ifndef CR_HOOK_H
#define CR_HOOK_H

#include "capture/frame.h"

typedef struct cr_activation cr_activation;
/* Shown a frame that is about to run: true when it was run, *result being what the evaluator returns; false: not taken,
 * nothing was done to it. */
typedef bool (*cr_see_frame)(cr_activation *a, PyThreadState *thread, cr_frame *frame, int throwflag,
                             PyObject **result);
struct cr_activation {
    cr_activation *outer;
    _PyFrameEvalFunction previous; /* what was set when it began */
    cr_see_frame see;
    void *user;
    char *stack;                   /* an address of its C stack frame */
};
void cr_hook_begin(cr_activation *a, cr_see_frame see, void *user);
void cr_hook_end(cr_activation *a);
/* The same for one that ends in any order, wherever it is kept: the C stack is counted from where it begins. */
void cr_hook_begin_block(cr_activation *a, cr_see_frame see, void *user);
void cr_hook_end_block(cr_activation *a);
bool cr_hook_is_set(void); /* ours, on top of others or alone */
/* Lets whoever is beneath the activation run the frame, in the end CPython. */
PyObject *cr_hook_pass(cr_activation *a, PyThreadState *thread, cr_frame *frame, int throwflag);

bool cr_stack_is_short(void); /* is more than half of the thread's C stack in use? */

/* What a frame holds at one of its instructions. References are owned; NULL is an unbound local. */
typedef struct cr_state {
    PyObject **slots;   /* locals, cells, free variables, then the stack */
    int count, depth;   /* slots before the stack, stack entries */
    int at;             /* the unit that runs next: never inside a group (KW_NAMES .. CALL, EXTENDED_ARG ..) */
    PyObject *handled;  /* the exception being handled there; NULL: none */
} cr_state;
/* Moves the state out of a frame between two instructions, `depth` entries on its stack: it is left without locals, its
 * stack all NULL. -1: exception. */
int cr_state_take(cr_state *s, PyThreadState *thread, cr_frame *frame, int depth);
void cr_state_dispose(cr_state *s);
/* Writes the state into the frame (consuming it). -1: exception, and the frame is as it was. */
int cr_state_put(cr_state *s, PyThreadState *thread, cr_frame *frame);
/* The same, and lets CPython go on from there; throwflag 1: by raising the
 * exception that is set, at that instruction. Returns what the evaluator returns. */
PyObject *cr_state_enter(cr_state *s, PyThreadState *thread, cr_frame *frame, int throwflag);

/* ---- one instruction, carried out as CPython does (step.c) ---- */
typedef enum cr_stepped {
    CR_STEPPED,    /* *at is the instruction that comes next */
    CR_STEP_NOT,   /* nothing was done: CPython carries it out */
    CR_STEP_RAISED /* an exception is set: the frame is to be entered by raising it */
} cr_stepped;
typedef PyObject *(*cr_step_call)(void *user, PyObject *callable, PyObject *const *args, Py_ssize_t nargs,
                                  PyObject *kwnames);
/* Carries out instruction *at of a frame that is not running; `call` calls what a CALL calls. */
cr_stepped cr_step(PyThreadState *thread, cr_frame *frame, int32_t *at, cr_step_call call, void *user);

#endif
