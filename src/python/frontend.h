/* frontend.h: a tensor library as Python sees it, as one struct.
 *
 * Conversion of arguments, the tracer, bodies of regions, pytrees, programs and cresset.export ask every question about
 * "a tensor", "a module", "a dtype" here and know no type of any library. Cresset's own tensors are one implementation
 * (frontend_cresset.c), the one that shows results where nobody says otherwise; PyTorch's, which are foreign memory,
 * are another (frontend_torch.c), for programs that are captured. A front end answers in *names* of ops, never in rows:
 * which overload is meant is known only when all arguments are.
 *
 *     const cr_frontend *fe = cr_frontend_of(o);      -- whose object is it? NULL: nobody's
 *     if (fe && cr_kind_is_tensor(fe->kind(o))) ...
 *
 * All of it runs under the GIL. Structs live as long as the process and never change once the module is imported. */
#ifndef CR_PY_FRONTEND_H
#define CR_PY_FRONTEND_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "ops/op.h"

struct cr_py_frame; /* py.h: the memory of one call */
struct cr_graph;

/* What an object is to a library. PARAMETER: a tensor that modules train. */
typedef enum cr_kind { CR_KIND_OTHER, CR_KIND_TENSOR, CR_KIND_PARAMETER, CR_KIND_MODULE } cr_kind;
static inline bool cr_kind_is_tensor(cr_kind kind) { return kind == CR_KIND_TENSOR || kind == CR_KIND_PARAMETER; }

/* Bits of the ambient word that everybody understands; the others are the front end's own. */
enum { CR_AMBIENT_GRAD = 1, CR_AMBIENT_INFERENCE = 2,
       CR_AMBIENT_PLAIN = 4, /* something is at work of which nobody knows what it does: nothing is captured */
       CR_AMBIENT_AUTOCAST = 8, CR_AMBIENT_NO_CACHE = 16, CR_AMBIENT_CAST_DTYPE = 8 /* shift: mixed precision */ };
static inline cr_autocast cr_ambient_casts(uint64_t word) {
    return (cr_autocast){ .enabled = word & CR_AMBIENT_AUTOCAST, .no_cache = word & CR_AMBIENT_NO_CACHE,
                          .dtype = (uint8_t)(word >> CR_AMBIENT_CAST_DTYPE) };
}

/* What a function in C of a library with foreign tensors is to a program that is captured. */
typedef enum cr_row_kind {
    CR_ROW_NONE,         /* nobody knows */
    CR_ROW_OP,           /* an op: `object`, of ours, is called on the fakes */
    CR_ROW_UNMAPPED,     /* the same, but not under vmap or forwards: the library refuses it there */
    CR_ROW_GIVES,        /* it gives `object`, whatever it is called with */
    CR_ROW_COMPILES,     /* it asks whether a program is captured */
    CR_ROW_CONSTANTS,    /* it is called as it is, on constants */
    CR_ROW_ASKS,         /* the same, for a state that the ambient word covers */
    CR_ROW_OVERRIDES,    /* do its arguments bring their own behaviour? Tensors do not. */
    CR_ROW_GET_GRAD, CR_ROW_SET_GRAD,
    CR_ROW_CASTS,        /* it asks for or sets `object` of mixed precision: "enabled", "dtype", "cpu cache", ... */
    CR_ROW_EXPORTS,      /* in an export, `object`, a function of ours, is run in its place; else nobody knows */
    CR_ROW_SYMBOLIC,     /* the same also where a number among its arguments has no example: it depends on data */
    CR_ROW_REGION,       /* `object`, a function of ours, records it with its bodies: cond() and its like */
    CR_ROW_STANDS_IN,    /* a Python function stands in for it, `object` its name */
    CR_ROW_UNRECORDED,   /* the same where no gradients are recorded */
    CR_ROW_CLOSURE,      /* the code of a closure: `object` names what stands in for it, which takes what the closure
                            holds, in the order of its names, and then the arguments */
    CR_ROW_COUNT
} cr_row_kind;

/* What a tensor has beside its memory: its gradient, a tensor or None; the node that made it, which is told only where
 * it is None; whether it is a leaf, and wants gradients. */
typedef enum cr_part { CR_PART_GRAD, CR_PART_GRAD_FN, CR_PART_IS_LEAF, CR_PART_REQUIRES_GRAD, CR_PART_COUNT } cr_part;

/* What a guard remembers of a tensor: made by `stamp`, freed with PyMem_Free. */
typedef struct cr_stamp cr_stamp;
typedef struct cr_open_sizes { uint32_t sizes, strides; } cr_open_sizes; /* a bit for each dimension */

typedef struct cr_frontend {
    const char *name; /* for messages: "cresset" */
    /* Plain tensors are objects of exactly this type, with their cr_tensor at this offset: what a call asks first,
     * without a function in between. A library whose objects hold no cr_tensor leaves the type NULL; `read` is asked
     * then. */
    PyTypeObject *tensor_type;
    size_t tensor_at;
    /* Never fails, runs no Python code of the user's. Subclasses are what their base is. */
    cr_kind (*kind)(PyObject *o);
    /* An object of the library's that ops take, as an argument: tensor, dtype, device, layout, memory format,
     * generator. 0: read; 1: none of these, no exception; -1: exception (a tensor that cannot cross: sparse,
     * conjugated, ...). *out borrows from the object, or from what the front end gave to cr_py_frame_keep(): it holds
     * as long as the frame. */
    int (*read)(struct cr_py_frame *f, PyObject *o, cr_arg *out);
    /* The way back: the library's object for a tensor (consumes the reference, also on failure; a tensor that already
     * has an object gives that one), and for a DTYPE, LAYOUT, FORMAT or DEVICE argument. NULL: exception. */
    PyObject *(*wrap)(cr_tensor *t);
    PyObject *(*show)(const cr_arg *a);
    /* Wraps a fake that stands for `tensor` while a program is traced: it is of the same class and has the attributes
     * that users gave the tensor, so that the program cannot tell. Consumes `fake`. */
    PyObject *(*stand_in)(PyObject *tensor, cr_tensor *fake);
    /* Everything about a tensor that a program can ask without its elements, and that changes what ops on it do: class,
     * dtype, device, sizes, strides, whether gradients are wanted. NULL: exception. `check`: is it still so, of this
     * object? Any object may be asked about; runs no Python code, never fails. Sizes and strides whose bits are set in
     * `open` may be any; `size` and `stride` give them, of a tensor that passed the check. NULL: none can be left open.
     */
    cr_stamp *(*stamp)(PyObject *tensor, const cr_open_sizes *open);
    bool (*check)(const cr_stamp *stamp, PyObject *o);
    /* From `watch` on *epoch is another number whenever what `check` looks at in a tensor has changed, but the object's
     * class, its attributes (marks are some) and which tensor it shows. NULL: the library does not say so. */
    void (*watch)(PyObject *tensor);
    const uint64_t *epoch;
    int64_t (*size)(PyObject *tensor, int dim);
    int64_t (*stride)(PyObject *tensor, int dim);
    /* What of a tensor is written in its class and may be read while a program is captured: attributes that `stamp`
     * covers, methods that are ops or answer from what it covers. */
    bool (*is_captured)(PyObject *name);
    /* What surrounds a call, in one word: equal words, equal behaviour. CR_AMBIENT_GRAD, CR_AMBIENT_INFERENCE, and
     * whatever else of the thread's changes what ops do (mixed precision, modes). set_ambient puts back a word that
     * ambient gave. */
    uint64_t (*ambient)(void);
    void (*set_ambient)(uint64_t word);
    /* The bits CR_AMBIENT_CAST_DTYPE and CR_AMBIENT_NO_CACHE, where the ambient word has them only while mixed
     * precision is on: guarded for programs that ask. NULL: it always has. */
    uint64_t (*casts)(void);
    /* The op that a callable of the library's stands for: "aten::add.Tensor" when it is one overload, "aten::add" when
     * the arguments decide. A new str; NULL without an exception: it stands for none. */
    PyObject *(*resolve)(PyObject *callable);
    /* The way back: a callable that carries out the op of that full name, on tensors with data and on fakes. What
     * `cresset::opaque` calls. A new reference; NULL without an exception: the library has no such op. */
    PyObject *(*find)(const char *name);
    /* The tables of tensors and modules in a module's __dict__, by name; NULL ends them. The first two hold parameters
     * and buffers, the third submodules. */
    const char *tables[5];

    /* ---- of a library whose tensors are foreign memory; NULL where they are ours ---- */
    /* Borrowed: as long as the tensor has it. NULL: it cannot be told of this one (the gradient of what is no leaf), or
     * not without code of somebody's. Any object may be asked about; never fails. */
    PyObject *(*part)(PyObject *tensor, cr_part which);
    /* The tensor on the object's memory, as long as the frame lives. NULL: exception. */
    cr_tensor *(*borrow)(struct cr_py_frame *f, PyObject *tensor);
    cr_row_kind (*row)(PyObject *callable, PyObject **object); /* borrowed; never fails */
    /* A function of the library's own that it hides from its own compiler: the attribute that has the function inside.
     * New reference; NULL without an exception: it is none. */
    PyObject *(*hides)(PyObject *function);
    bool (*has_row)(PyObject *name); /* is a method of its tensors looked up by `row`, not in the class of ours? */
    /* Something that ops of ours gave to a program (a dtype, sizes), as the library shows it. Consumes it; NULL:
     * exception. */
    PyObject *(*translate)(PyObject *value);
    /* An object that never changes and may be held: compared by identity, its attributes read as they are. */
    bool (*is_constant)(PyObject *o);
    PyTypeObject *(*class_of_results)(void);
    PyTypeObject *(*class_of_sizes)(void); /* of x.shape */
    const char *stand_ins; /* the module of the functions that stand in for others */
    const char *const *machinery; /* parts of the names of files whose functions no break captures; NULL ends them */
    /* Code for a captured graph: a pair (run, finish). run takes the objects of its inputs, gives a list of its
     * outputs', and leaves everything else as it is, also where it fails. finish, of graphs that write (else None),
     * gets what run gave and the inputs, writes, and gives that list.
     * `weights`: a list of the inputs' numbers that native code may be made with, as long as they are what they are.
     * `records`: gradients go through it; `ways`: as emit/tier.h has it, 0: it is interpreted. NULL: exception;
     * NotImplementedError says why it runs plain. */
    PyObject *(*build)(struct cr_graph *g, PyObject *examples, PyObject *weights, bool records,
                       unsigned ways);
    /* The exception that run raised: is it the code's own, so that the call runs plain? Else it stays raised: 0, -1. */
    int (*is_failure)(void);
} cr_frontend;

extern cr_frontend cr_frontend_cresset;
extern const cr_frontend cr_frontend_torch; /* frontend_torch.c: there once torch is */
/* Whether torch has been imported since, and is told of. Where programs are captured; never fails. */
void cr_frontends_look(void);
/* Shown by the first front end; consumes the reference. */
static inline PyObject *cr_frontend_wrap(cr_tensor *t) { return cr_frontend_cresset.wrap(t); }

/* Is it written in Python? Of classes in C some are made at run time, too, and cannot be changed. */
static inline bool cr_is_python_class(const PyTypeObject *type) {
    return (type->tp_flags & Py_TPFLAGS_HEAPTYPE) && !(type->tp_flags & Py_TPFLAGS_IMMUTABLETYPE);
}

/* The front end that an object belongs to: tensors, parameters and modules. NULL: nobody's. */
const cr_frontend *cr_frontend_of(PyObject *o);
/* All of them, first the one that shows results. NULL when i is past the last. */
const cr_frontend *cr_frontend_at(size_t i);
/* The tensor that an object is, borrowed from the object or the frame; NULL: it is none (no exception), or it cannot be
 * read (exception). A tensor of a front end that borrows (PyTorch's) is none: it is an array of others. */
cr_tensor *cr_frontend_tensor(struct cr_py_frame *f, PyObject *o);
/* The same where it must be one: TypeError, `format` having a %s for the type that it is instead. */
cr_tensor *cr_frontend_need(struct cr_py_frame *f, PyObject *o, const char *format);
/* What a mark of cresset._dynamo (mark_dynamic, ...) left on a tensor, borrowed; NULL: nothing. And its dimensions, as
 * bits. Neither fails. */
PyObject *cr_find_mark(PyObject *tensor, const char *name);
uint32_t cr_marked_sizes(PyObject *tensor, const char *name);
/* Is it a tensor of some front end? Never fails. */
bool cr_frontend_is_tensor(PyObject *o);
/* Is it an array of others, whose memory DLPack reaches? Asked before __index__ is: PyTorch's tensors have both. */
bool cr_frontend_is_array(PyObject *o);
/* The symbols of the first symbolic tensor among the items of a tuple; NULL: there is none. */
cr_env *cr_frontend_env(PyObject *tuple);

int cr_py_frontend_init(PyObject *module);
/* opaque.c: lets calls of ops without a row (src/graph/host.h) go to the front ends. */
int cr_py_opaque_init(PyObject *module);

#endif
