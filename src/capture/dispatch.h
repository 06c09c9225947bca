/* dispatch.h: finding what was captured for a call, capturing where there is nothing, and going on where it ends.
 *
 * What is captured of a function is kept by *place*: its beginning, for each form of call (how many arguments, which
 * keywords), and every instruction at which a call went on after a break. A place has entries, most recently made
 * first, at most `limit` of them. A function that a break calls has places of its own (its cache), as if it had been
 * compiled by itself.
 *
 * All under the GIL. A place or cache may move while Python code runs: nobody keeps a pointer to a place over that;
 * caches and entries are retained. */
#ifndef CR_DISPATCH_H
#define CR_DISPATCH_H

#include "capture/entry.h"

typedef struct cr_place {
    int32_t at; /* the instruction; -1: the beginning, for calls like this: */
    Py_ssize_t nargs;
    PyObject *kwnames; /* owned; NULL: none */
    CR_VEC(cr_entry *) entries;
} cr_place;
typedef struct cr_cache {
    int64_t refs;
    PyObject *code; /* owned */
    const void *of; /* class of the first argument of a callee, compared only: Module.__call__ serves every
                                 * module, and each class has entries of its own */
    CR_VEC(cr_place) places;
    cr_history history;  /* of what its captures read */
    Py_ssize_t captures; /* entries made for its beginning */
    bool capturing, told;
} cr_cache;
typedef struct cr_dispatcher {
    /* Python's: called with (graph, example inputs); None: graphs run as they are; a str: they become native code */
    PyObject *backend;
    PyObject *unsupported;     /* exception class: what fullgraph raises; None: calls break */
    Py_ssize_t limit;          /* entries of a place at most */
    Py_ssize_t all;            /* ... of a code object, by all who compiled it; 0: any number */
    cr_tier_ways ways;         /* how native code is made */
    unsigned dynamic;          /* what is left open: CR_DYNAMIC_* */
    CR_VEC(cr_cache *) caches; /* the first: of the function itself */
    PyObject *owner;           /* borrowed: the callable whose it is; NULL: nobody's */
    bool quiet;                /* no warning at the limit */
    uint64_t hits, misses, plain, failed, breaks;
} cr_dispatcher;

/* What is captured: a call, or a frame before one of its instructions. */
typedef struct cr_request {
    cr_dispatcher *d;
    cr_cache *cache;
    PyObject *function;
    int32_t at;
    PyObject *const *args; /* the call's, or locals and stack of the frame */
    Py_ssize_t nargs;
    PyObject *kwnames;
    int depth; /* of the frame's stack */
} cr_request;

PyObject *cr_dispatch(cr_dispatcher *d, PyObject *function, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);
/* Calls what a break calls: a Python function of the program's by its own cache, anything else as it is. */
PyObject *cr_dispatch_callee(cr_dispatcher *d, PyObject *callable, PyObject *const *args, Py_ssize_t nargs,
                             PyObject *kwnames);
void cr_dispatcher_forget(cr_dispatcher *d); /* everything captured */
/* That of this code, whoever calls it: made where there is none. Borrowed; NULL: exception. */
cr_cache *cr_cache_of(cr_dispatcher *d, PyObject *code);

/* The entry for a frame before instruction `at`, its guards checked: *slots (SMALL or PyMem_Free) are filled. NULL:
 * run plain from there; or an exception. A new reference. */
enum { CR_SMALL_SLOTS = 64 };
cr_entry *cr_find_at(cr_dispatcher *d, cr_cache *cache, PyObject *function, PyObject *const *state, int depth,
                     int32_t at, PyObject **small, PyObject ***slots);
/* Goes on with a call that ended before e->next: a frame is made by calling the function, gets `state` (taken over) and
 * is carried on from there. (resume.c) */
PyObject *cr_resume(cr_dispatcher *d, cr_cache *cache, cr_entry *e, PyObject *function, PyObject *const *args,
                    Py_ssize_t nargs, PyObject *kwnames, PyObject **state);
/* A frame that is about to run, from its beginning or where a generator goes on: runs what is captured of it. false:
 * nothing was done, and *reason (new reference, or NULL) says why. */
struct _PyInterpreterFrame;
bool cr_carry_frame(cr_dispatcher *d, PyThreadState *thread, struct _PyInterpreterFrame *frame, PyObject **result,
                    PyObject **reason);
/* Runs an entry; a test switch may let its graph fail. As cr_entry_run. */
/* Then no frame is entered in the middle: somebody watches this thread's frames or those of the code; the thread is
 * about to run out of stack or of levels of Python. (resume.c) */
bool cr_is_watched(PyCodeObject *code);
bool cr_is_near_limit(void);
int cr_run_entry(cr_entry *e, PyObject *const *slots, PyObject **result, PyObject **state);
cr_cache *cr_cache_retain(cr_cache *c);
void cr_cache_release(cr_cache *c);

/* every: captures end after so many instructions of the function's own; 0: they do not. */
typedef struct cr_switches {
    bool miss_once, fail_graphs;
    long every;
} cr_switches;
extern cr_switches cr_capture_switches; /* process: for tests */
extern bool cr_capture_timed;           /* process: what runs of entries take is added up */

/* What compiled functions do when nothing captured fits (compiler.set_stance). Of the process. */
typedef enum cr_stance { CR_STANCE_DEFAULT, CR_STANCE_PLAIN, CR_STANCE_PLAIN_ON_MISS, CR_STANCE_FAIL_ON_MISS,
                         CR_STANCE_COUNT } cr_stance;
extern cr_stance cr_capture_stance;
/* Tells whoever asked (Python: _set_observer) of an entry that was made: `missed` (cr_misses) says what did not hold of
 * those before, NULL: it is the first of its place. What goes wrong in there is nobody's failure; -1: Ctrl-C
 * and the like, which is the caller's. (callable.c) */
int cr_observe(cr_dispatcher *d, cr_entry *e, const cr_cache *c, int32_t at, PyObject *missed);
bool cr_is_observed(void);
/* What does not hold for the call of the entries of a place, in words, of the one made last first: a list of texts, of
 * that one alone unless `all`. New reference. (misses.c) */
PyObject *cr_misses(const cr_request *r, const cr_place *p, bool all);
/* Has the code object been captured as often as may be, by all who compiled it together? */
bool cr_is_full(const cr_request *r);
/* Nothing more is captured: one warning for a function, naming what did not hold of each entry; where it must be a
 * graph, an exception. -1: exception. */
int cr_tell_limit(const cr_request *r, const cr_place *p);
/* These raise, and return -1: fail_on_recompile; a function that skip_code() keeps out and that must be a graph. */
int cr_tell_stance(const cr_request *r, const cr_place *p);
int cr_tell_skipped(const cr_request *r);
/* Until native code that is being built is there, Cresset's or a front end's. (callable.c) */
void cr_wait_for_code(cr_entry *e);
/* Between begin and end compiled functions of this thread use what was captured and capture nothing. */
void cr_run_only_begin(void);
void cr_run_only_end(void);
/* Is it code of the program's, not of the standard library, and has nobody said that it runs as it is? */
bool cr_is_program_frame(PyCodeObject *code, PyObject *function);
/* Is it a call of what disable(recursive=False) gave, made at a break of d's function? It runs as it is, and what it
 * calls is captured (disabled.c). */
bool cr_is_disabled_call(PyObject *callable, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);
PyObject *cr_call_disabled(cr_dispatcher *d, PyObject *const *args, Py_ssize_t nargs);
/* Between begin and end compiled functions run plain on this thread. */
void cr_plain_begin(void);
void cr_plain_end(void);

#endif
