/* numbers.h: numbers of a call that a capture leaves open: sizes and strides of tensors, ints and floats.
 *
 * Each is a symbol of the capture's environment and has a place in the call: dimension `dim` of the tensor in a slot,
 * or the number in it. What the program asked about the symbols while it was captured are conditions; they are checked
 * before every call, and numbers of the results are computed from the call's own. The environment is only read here. */
#ifndef CR_NUMBERS_H
#define CR_NUMBERS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "python/frontend.h"
#include "sym/sym.h"

enum { CR_ITSELF = -1 }; /* in place of a dimension: the int or float in the slot */
typedef struct cr_open_symbol {
    cr_sym symbol;
    int32_t slot;
    int dim;
    const cr_frontend *frontend; /* of the tensor */
    cr_range range;              /* ints: what it may be */
} cr_open_symbol;
/* A further size, or a stride, that is an expression of symbols. */
typedef struct cr_extent {
    cr_sym expr;
    int32_t slot;
    int dim;
    bool stride;
    const cr_frontend *frontend;
} cr_extent;
/* What mark_dynamic() promises: the size stays open, for all of [lo, hi]. */
typedef struct cr_promise {
    cr_sym symbol;
    int32_t slot;
    int dim;
    bool bounded;
    cr_range range;
    int64_t size; /* in the call at hand */
} cr_promise;

typedef struct cr_numbers {
    cr_env *env; /* owned */
    CR_VEC(cr_open_symbol) symbols;
    CR_VEC(cr_extent) extents;
    CR_VEC(cr_sym) conditions;
    CR_VEC(cr_promise) promises;
    size_t failed; /* what did not hold last, counted through symbols, extents and conditions; all: none yet */
} cr_numbers;
void cr_numbers_free(cr_numbers *n); /* NULL is legal */
/* Is this symbol one of them? */
bool cr_numbers_has(const cr_numbers *n, cr_sym symbol);
/* Takes over what was recorded so far: after every step that may have asked something. Conditions about other symbols
 * are the graph's to check. -1: exception. */
int cr_numbers_seal(cr_numbers *n);
/* Do the ranges, extents and conditions hold of what is in the slots? Runs no Python code. */
bool cr_numbers_hold(cr_numbers *n, PyObject *const *slots);
/* Values of all symbols (n->symbols.n of them), of slots that passed the check. */
void cr_numbers_load(const cr_numbers *n, PyObject *const *slots, cr_sym_value *values);
/* An expression at these values. New reference; NULL without an exception: it leaves 64 bits, or divides by zero. */
PyObject *cr_numbers_object(const cr_numbers *n, const cr_sym_value *values, cr_sym e);

/* ---- how sizes were before: which of them change ---- */
enum { CR_SEEN_TENSOR, CR_SEEN_NUMBER };
typedef struct cr_seen { size_t first; int rank; uint32_t sizes, strides; } cr_seen; /* bits: those that changed */
typedef struct cr_history {
    cr_map known;         /* (place, kind, path of the source) -> seen */
    CR_VEC(cr_seen) seen;
    CR_VEC(int64_t) numbers;
} cr_history;
void cr_history_init(cr_history *h);
void cr_history_dispose(cr_history *h);

/* What compile(dynamic=) and the configuration say, as bits. */
enum { CR_DYNAMIC_AUTOMATIC = 1, /* what changed since an earlier capture is left open */
       CR_DYNAMIC_ALL = 2,       /* everything is, at once */
       CR_DYNAMIC_DUCK = 4,      /* of ALL: equal sizes are one symbol */
       CR_DYNAMIC_INTS = 8, CR_DYNAMIC_FLOATS = 16,
       CR_DYNAMIC_NUMBERS = 31,  /* all of these */
       CR_DYNAMIC_SCALARS = 32,  /* numbers read from the data of tensors are part of graphs (unbacked.c) */
       CR_DYNAMIC_SHAPES = 64 }; /* ... so are sizes of results that depend on data */

#endif
