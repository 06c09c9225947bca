/* entry.h: what was captured of one call: guards, a graph, how to run it, and what to make of its results.
 *
 * Entries are made once and then only run; refcounted, so that one that runs outlives its removal. One whose `reason`
 * is set says that such a call runs plain, and why: from its beginning, or (`resumes`) from the middle, after the graph
 * and with the locals and the stack that were described. */
#ifndef CR_ENTRY_H
#define CR_ENTRY_H

#include "capture/evaluate.h"
#include "capture/ahead.h"

/* How a result is made: rows in order, each from earlier ones. */
enum { CR_NO_ROW = UINT32_MAX };
typedef enum cr_make_kind { CR_MAKE_CONSTANT, CR_MAKE_OUTPUT, CR_MAKE_SLOT, CR_MAKE_TUPLE, CR_MAKE_LIST, CR_MAKE_DICT,
                            CR_MAKE_SLICE, CR_MAKE_CELL,
                            CR_MAKE_NUMBER, /* formula `index`, at the call's own sizes and numbers */
                            CR_MAKE_OBJECT, /* parts: the class, and for a tuple's the items; empty but for those */
                            CR_MAKE_CALL,   /* parts: a class in C, its arguments */
                            CR_MAKE_FILL,   /* parts: a cell, what it holds */
                            CR_MAKE_FUNCTION, /* parts: globals, cells; `object`: (code, defaults, ...) */
                            CR_MAKE_ITEMS,  /* parts: an object of a class made of list, dict or set; what it holds */
                            CR_MAKE_ATTRIBUTE, /* parts: an object, the value; `object`: the name */
                            CR_MAKE_NAMESPACE, /* parts: an object whose __dict__ it is */
                            CR_MAKE_METHOD, /* parts: a function, its object */
                            CR_MAKE_BOUND,  /* parts: an object whose class is in C; `object`: the method's name */
                            CR_MAKE_ITERATOR, /* parts: arguments of `object`, and the state */
                            CR_MAKE_DICT_ITERATOR /* part: the dict; `object`: of which view, how far */ } cr_make_kind;
typedef struct cr_make {
    uint8_t kind;
    uint32_t index;   /* OUTPUT: of the graph; SLOT: of the guards; else first of `parts` */
    uint32_t n;       /* parts */
    PyObject *object; /* CONSTANT, ATTRIBUTE, FUNCTION, BOUND, ITERATOR; owned */
} cr_make;
/* A change of an object from outside, in slot `slot`. read NONE: the list or dict gets the contents of row `made`; else
 * what is read so (attribute or item `key`, a cell's contents) becomes row `made`. */
/* made NO_ROW: it is deleted. */
/* key: owned; by: of LOOKUP, the slot of the key */
typedef struct cr_effect { uint8_t read; int32_t slot; uint32_t made; PyObject *key; int32_t by; } cr_effect;

typedef struct cr_entry {
    int64_t refs;
    bool resumes;         /* the call goes on at instruction `next`, with `state`: `locals` rows, then the stack */
    bool grad;            /* ... and with this gradient mode */
    int32_t next;         /* or it returns, at this instruction */
    uint32_t locals;
    CR_VEC(uint32_t) state; /* rows; CR_NO_ROW: NULL */
    const cr_frontend *frontend; /* whose tensors it works on */
    uint64_t ambient;     /* its word when it was captured */
    uint64_t casts;       /* the same of mixed precision, where the program asks about it (frontend.h) */
    bool asks_casts;
    cr_guards guards;
    PyObject *reason;     /* str: why the call runs plain; NULL: it is captured */
    PyObject *error;      /* the class that fullgraph raises for it; NULL: Unsupported */
    PyObject *callers;    /* str or NULL: from where the code was called that the reason names */
    cr_graph *graph;      /* NULL: nothing is computed */
    cr_plan *plan;
    cr_tier_ways ways;    /* of native code with weights: how it is made anew */
    cr_tier *tier;        /* native code in its place, when there is some; NULL: none is wanted */
    uint8_t *weights;     /* of each input, whether native code is made with it: a module's; NULL: none is */
    cr_ahead *ahead;      /* the graph without its writes, with its gradients; run in its place. NULL: none needed */
    PyObject *compiled;   /* what a Python backend, or the front end, made of the graph; NULL: the plan is run */
    bool own;             /* ... the front end: where it fails nothing has happened, and the call runs plain */
    PyObject *finish;     /* what the front end does then, and writes: whatever it raises is the caller's; NULL: none */
    size_t ops;           /* calls in the graph */
    bool draws;           /* some op draws random numbers */
    bool writes;          /* ... writes to an input */
    bool shares;          /* some result shares memory with an input or another */
    bool records;         /* gradients are recorded */
    bool data;            /* numbers or sizes in it depend on data */
    uint32_t ninputs, noutputs;
    int32_t *inputs;      /* slots of the graph's inputs */
    CR_VEC(cr_make) makes;
    CR_VEC(cr_sym) formulas; /* of numbers in the result, of the open ones that the guards read */
    uint32_t result;      /* row */
    CR_VEC(uint32_t) parts;
    CR_VEC(cr_effect) effects;
    uint64_t hits;        /* how often its guards held */
    double capture_seconds, compile_seconds; /* what making it took */
    double run_seconds;   /* what its runs took, while cr_capture_timed */
    bool missed;          /* a test switch lets every entry miss once */
} cr_entry;
/* Makes an entry of a capture of `code` that ended; takes what it needs out of it. A result that cannot be made again
 * turns it into one that runs plain. NULL: exception. */
cr_entry *cr_entry_new(cr_capture *c, PyCodeObject *code);
cr_entry *cr_entry_retain(cr_entry *e);
void cr_entry_release(cr_entry *e);
/* Makes code for the graph: native (`ways`) where that may stand for it, else for the interpreter. A graph that writes
 * to its inputs becomes one that does not (ahead.h), and where that cannot be the entry runs plain. `slots`: as its
 * guards filled them. -1: exception. */
int cr_entry_build(cr_entry *e, PyObject *const *slots, cr_tier_ways ways);
/* Weights (weights.c), with CR_TIER_FREEZE: finds them among the inputs, RuntimeError where gradients are recorded;
 * those, as a list of numbers; starts native code that is made with them; the code for a run on these inputs, held:
 * *tier NULL where it is not there or was made with others. -1, NULL: exception. */
int cr_entry_freeze(cr_entry *e, PyObject *const *slots);
PyObject *cr_entry_weights(const cr_entry *e);
int cr_entry_start_frozen(cr_entry *e, PyObject *const *slots, cr_tier_ways ways);
int cr_entry_find_tier(cr_entry *e, const cr_arg *inputs, cr_tier **tier);
/* NotImplementedError, raised while code was made: it is why the entry runs plain. -1: another exception. */
int cr_entry_refuse(cr_entry *e);
/* Of each slot of its guards, whether running it reads that: to be freed; NULL: out of memory, no exception. */
uint8_t *cr_entry_needed(const cr_entry *e);
const char *cr_entry_tier(const cr_entry *e); /* who runs the graph, or why it is not native; NULL: there is none */
void cr_entry_wait(cr_entry *e);              /* until native code that is being built is there */
/* Runs it on slots that its guards filled. 1: *result, or where it resumes `state`: e->state.n owned references; 0: the
 * graph failed, nothing has happened: run plain; -1: exception (a signal; or something has happened). */
int cr_entry_run(cr_entry *e, PyObject *const *slots, PyObject **result, PyObject **state);
#endif
