/* guard.h: where values come from, and what must still hold of them.
 *
 * A *source* says how an object is reached: from an argument or the function itself, by steps (an item, an attribute, a
 * default, ...). Each source is a slot of a guard program; a row reads a slot from its parent's and checks what was
 * found. Rows are in the order in which capture read things, so a parent is checked before its child is read, and the
 * first row that fails ends the program. It calls no Python code and releases nothing: what it compares, it compares
 * at one moment.
 *
 * Nothing of the user's is kept alive: rows hold constants, code objects and functions written in C; objects are known
 * by type, version and what was read of them. */
#ifndef CR_GUARD_H
#define CR_GUARD_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "base/base.h"
#include "capture/numbers.h"
#include "python/frontend.h"

/* How a slot is read from its parent. */
typedef enum cr_read {
    CR_READ_NONE,      /* nothing new: a further check of the slot */
    CR_READ_ARGUMENT,  /* root: argument `index` of the call */
    CR_READ_FUNCTION,  /* root: the compiled function */
    CR_READ_MODULE,    /* root: the imported module named `key` */
    CR_READ_TYPE,      /* its class */
    CR_READ_ATTRIBUTE, /* an instance's own attribute `key` */
    CR_READ_DICT,      /* an instance's __dict__; `index` 1: made where its attributes are kept without one */
    CR_READ_CLASS,     /* what a class has under `key`, bases included */
    CR_READ_BASE,      /* what class number `index` of its mro has under `key` itself */
    CR_READ_NAME,      /* the name of a class written in Python */
    CR_READ_KEY,       /* a dict's item, `key` an exact str */
    CR_READ_ITEM,      /* item `index` of a tuple or list */
    CR_READ_ENTRY,     /* value number `index` of a dict whose keys are guarded (CR_HOLDS_KEYS) */
    CR_READ_MEMBER,    /* item `index` of a set, in its order */
    CR_READ_GLOBALS,
    CR_READ_BUILTINS,   /* of a function */
    CR_READ_DEFAULTS,   /* the default that is `index` before the end */
    CR_READ_KWDEFAULTS, /* the default of keyword `key` */
    CR_READ_CELL,       /* cell `index` of a function's closure */
    CR_READ_CONTENTS,   /* of a cell */
    CR_READ_INNER,      /* the function in a property, static or class method */
    CR_READ_FIELD,      /* the object `index` bytes behind its beginning: __slots__, fields of classes in C */
    CR_READ_METHOD_FUNCTION,
    CR_READ_METHOD_SELF,
    CR_READ_NAMESPACE, /* a module's dict */
    CR_READ_WRAPPED,   /* what a compiled callable was made of */
    CR_READ_PART,      /* of a tensor: its gradient, ...; `index`: cr_part */
    CR_READ_LOOKUP,    /* a dict's item, its key the object in a slot, which is hashed by its address: CR_BY_OBJECT */
    CR_READ_REFERENT,  /* what a weak reference refers to; None when it is gone */
    CR_READ_CONTEXT,   /* what a ContextVar has in the context of the call */
    CR_READ_CALLED,    /* no guard's: of effects, what is called with the arguments in a tuple */
    CR_READ_TOLD       /* no guard's: of effects, a tuple of a callable and its arguments, `key` their keywords */
} cr_read;

typedef enum cr_holds {
    CR_HOLDS_NONE,
    CR_HOLDS_IS,       /* this very object, which the row holds: None, True, functions in C, dtypes */
    CR_HOLDS_CONSTANT, /* exact type and bits */
    CR_HOLDS_TYPE,     /* class and its version */
    CR_HOLDS_CLASS,    /* it is a class, of this version (versions are never used twice) */
    CR_HOLDS_TENSOR,   /* its stamp */
    CR_HOLDS_LENGTH,   /* exact type, `number` items */
    CR_HOLDS_COUNT,    /* a dict (or subclass) of `number` items */
    CR_HOLDS_KEYS,     /* a dict with these keys in this order */
    CR_HOLDS_MEMBERS,  /* a set of this exact type, `number` items */
    CR_HOLDS_CODE,     /* a function with this code */
    CR_HOLDS_CACHED,   /* the dict of an lru_cache that has this: cr_cache_holds() */
    CR_HOLDS_NO_KEY, CR_HOLDS_NO_ATTRIBUTE,
    CR_HOLDS_ABSENT,   /* the read gives nothing (no defaults, an empty cell) */
    CR_HOLDS_NOTHING_HANDLED, /* no exception is handled around the call */
    CR_HOLDS_REGISTRATIONS, /* no class was registered with an abstract one since */
    CR_HOLDS_SAME, CR_HOLDS_DIFFERENT, /* as the object in slot `number` */
    CR_HOLDS_APART,    /* the objects in several slots, numbers in bytes, are as many objects */
    CR_HOLDS_NUMBERS,  /* of open sizes and numbers in several slots: what was asked about them */
    CR_HOLDS_SHARING   /* of tensors in several slots: which of them share memory */
} cr_holds;

typedef struct cr_guard {
    uint8_t read, check;
    uint16_t slot, parent;
    int32_t index;      /* of the read */
    int32_t number;     /* of the check */
    PyObject *key;      /* of the read or of NO_KEY, NO_ATTRIBUTE; owned, interned */
    union {
        PyObject *object; /* owned: IS, CONSTANT, CODE, KEYS, CACHED, APART */
        PyTypeObject *type; /* TYPE, LENGTH, MEMBERS: compared only */
        cr_stamp *stamp;  /* owned */
        struct cr_sharers *sharers; /* owned */
        cr_numbers *numbers; /* owned */
    } u;
    const cr_frontend *frontend; /* TENSOR */
    unsigned version;   /* TYPE, CLASS, REGISTRATIONS; 0: a class that never changes */
    uint32_t misses;    /* how often it was the one that did not hold, when a call looked for an entry */
    const void *keys;   /* where the key was last: cr_place */
    Py_ssize_t at;
} cr_guard;

typedef struct cr_guards {
    CR_VEC(cr_guard) rows;
    uint32_t slots;
    cr_map known; /* capture: source -> slot */
    CR_VEC(uint64_t) paths; /* capture: how a slot is reached, the same in every capture of a place */
    PyObject *names; /* of the arguments, a tuple; owned; NULL: they have none */
    /* by words (stamps.h) */
    struct cr_stamps *stamps; /* owned; NULL: not yet, or not any more */
    uint8_t *needed;          /* owned: of each slot, whether who runs the entry reads it; NULL: nobody has said */
    uint8_t *changes;         /* owned: of each slot, how often words of its object had changed */
    uint32_t passes;          /* by rows */
} cr_guards;
void cr_guards_init(cr_guards *g);
void cr_guards_dispose(cr_guards *g);

enum { CR_NO_SLOT = -1, CR_MAX_SLOTS = 1 << 15 };
/* The slot of a source: an old one where it was read before, else a new one with a row that reads it. `key`: an exact
 * str (interned by this) or NULL. CR_NO_SLOT: exception. */
int32_t cr_source(cr_guards *g, cr_read read, int32_t parent, PyObject *key, int32_t index);
/* Adds a check of a slot; one that is there already is not added twice. -1: exception. References are taken. */
int cr_guard_object(cr_guards *g, int32_t slot, cr_holds check, PyObject *object);
int cr_guard_type(cr_guards *g, int32_t slot, PyTypeObject *type);
int cr_guard_class(cr_guards *g, int32_t slot, PyTypeObject *type);
int cr_guard_number(cr_guards *g, int32_t slot, cr_holds check, PyTypeObject *type, int32_t number);
int cr_guard_no(cr_guards *g, int32_t slot, cr_holds check, PyObject *key);
int cr_guard_tensor(cr_guards *g, int32_t slot, const cr_frontend *frontend, PyObject *tensor,
                    const cr_open_sizes *open);
int cr_guard_numbers(cr_guards *g, cr_numbers *numbers); /* takes them over */
cr_numbers *cr_guards_numbers(const cr_guards *g);       /* borrowed; NULL: none */
/* "x.size(0)": a slot, or a dimension of what is in it. New reference. */
PyObject *cr_place_text(const cr_guards *g, int32_t slot, int dim, bool stride);
PyObject *cr_expr_text(const cr_guards *g, cr_sym e); /* of its open numbers, by these names. New reference */
/* The index of a LOOKUP: the slot of the key, and how its class makes a hash of its address. */
#define CR_BY_OBJECT(slot, rotated) ((slot) << 1 | (rotated))
static inline int32_t cr_key_slot(int32_t index) { return index >> 1; }
/* What a dict has under an object. Borrowed; NULL: nothing. */
PyObject *cr_dict_item_of(PyObject *dict, PyObject *object, bool rotated);
/* Is this how its class hashes an object, whatever else it holds? *rotated: as object does it, or its bare address. */
bool cr_hashes_address(PyObject *object, bool *rotated);
int cr_guard_apart(cr_guards *g, const uint16_t *slots, size_t n);
int cr_guard_registrations(cr_guards *g);
int cr_guard_nothing_handled(cr_guards *g);
/* Of tensors in these slots, each guarded as one already: which of them lie in one memory, where, and of what they are
 * views. What those that share none are views of does not count. 1: it cannot be told. (sharing.c) */
int cr_guard_sharing(cr_guards *g, const int32_t *at, size_t n, PyObject *const *slots);
bool cr_sharing_holds(const struct cr_sharers *s, PyObject *const *slots);
void cr_sharing_free(struct cr_sharers *s);
/* A class's version, giving it one where it has none; 0: it has none, *never changes* set when it needs none. */
unsigned cr_type_version(PyTypeObject *type, bool *never_changes);

/* One step, for capture: what the source gives now, by the same code. Borrowed; NULL: nothing there. */
PyObject *cr_read_now(cr_read read, PyObject *parent, PyObject *key, int32_t index);
/* Checks move into the rows that read their slots: fewer rows. Once, when all are made. */
void cr_guards_compact(cr_guards *g);
bool cr_holds_keys(PyObject *dict, PyObject *keys); /* a dict or OrderedDict: these, in this order? */
bool cr_cache_holds(PyObject *cache, PyObject *found); /* (eval_cached.c) */
PyObject *cr_context_value(PyObject *variable); /* of a ContextVar now, borrowed; NULL: nothing (eval_context.c) */
bool cr_dict_is_plain(PyObject *dict); /* are all of its keys exact strings, and can their absence be told? */
/* Do all rows hold? Fills `slots` (g->slots of them; borrowed). -1: all; else the row that failed. */
int32_t cr_guards_check(cr_guards *g, PyObject *const *args, PyObject *function, PyObject **slots);
/* The same for these rows alone. `reads` false: the slot is filled already, and only checked. */
typedef struct cr_row_left { uint32_t row; bool reads; } cr_row_left;
int32_t cr_guards_check_some(cr_guards *g, const cr_row_left *steps, size_t n, PyObject *const *args,
                             PyObject *function, PyObject **slots);
/* "args[0].shape ... ": a row in words, for recompilation logs. New reference. */
PyObject *cr_guard_text(const cr_guards *g, size_t row);
/* Constants that are compared by type and bits, and (is) objects that are compared by identity and may be held. */
bool cr_is_plain_constant(PyObject *o);
bool cr_constants_equal(PyObject *a, PyObject *b);
static inline bool cr_texts_equal(PyObject *a, PyObject *b) { /* both str */
    return PyUnicode_GET_LENGTH(a) == PyUnicode_GET_LENGTH(b) && PyUnicode_KIND(a) == PyUnicode_KIND(b) &&
           !memcmp(PyUnicode_DATA(a), PyUnicode_DATA(b), (size_t)PyUnicode_GET_LENGTH(a) * PyUnicode_KIND(a));
}

#endif
