/* aot_internal.h: a compiled program, shared by aot.c and epilogue.c. */
#ifndef CR_AOT_INTERNAL_H
#define CR_AOT_INTERNAL_H

#include "autograd/aot.h"
#include "autograd/autograd.h"
#include "autograd/cut.h"

/* An input of the code: an input of the program, or the root of one. */
typedef struct cr__source { uint32_t input; bool root, tensor; } cr__source;
/* A new value of an input of the code: its first results. */
typedef struct cr__update { uint32_t source; bool hidden; uint16_t bumps; } cr__update;
/* A value that a call has kept, a result of that call, both of the joint graph; the value of the
 * recorded graph that stands for its memory. */
typedef struct cr__stale { uint32_t value, by, memory; } cr__stale;
typedef CR_VEC(cr__stale) cr__stales;
/* The gradients as a compiled program of their own, for one set of its inputs that require grad. */
typedef struct cr__twice { bool *required; cr_aot *aot; } cr__twice;
/* The backward part for one set of tangents that are defined. */
typedef struct cr__backward {
    bool *defined;
    cr_aot_code code;
    cr_graph *graph;   /* what the code was made of: for walks that are one graph */
    const char *stale; /* a value that it reads and that the program wrote over later: there is no backward then */
    cr_graph *again;   /* (primals that `again` names, tangents) -> gradients; NULL: nobody has asked, or it draws */
    int32_t *place;    /* per primal: which of its results is the gradient; -1: none */
    bool looked;       /* somebody has asked */
    CR_VEC(cr__twice) twices;
} cr__backward;

struct cr_aot {
    int64_t refs; /* atomic */
    cr_metadata meta;
    cr_aot_compiler compiler;
    cr_graph *functional;        /* what is differentiated */
    bool *wrt, *through;         /* of it */
    cr_joint joint;              /* graph NULL: nothing is */
    bool *again;                 /* per primal: gradients are made of it, or have its symbols */
    bool *saved;                 /* per value of the joint graph */
    bool *drawn;                 /* per node of it: backward parts draw its numbers again */
    cr__stales stale;            /* of its forward part */
    cr_cut cut;
    cr_aot_code forward;
    CR_VEC(cr__source) sources;
    CR_VEC(uint32_t) edges;      /* the sources that are tensors, in the order of their gradients in eager code */
    CR_VEC(cr__update) updates;
    CR_VEC(cr__backward *) backwards; /* each a block of its own: calls hold them while others are added */
    int lock;                    /* atomic: of backwards */
    cr_plan *epilogue;
    cr_plan *replay;             /* the program as recorded; then there is no code. NULL: there is */
    int32_t *is_input;           /* per result of the replay: the input that it is; -1: none */
};

/* The code of the backward part for these tangents; made when first met. twice: with its graph, too. */
CR_NODISCARD cr_status cr__aot_backward(cr_aot *a, const bool *defined, bool twice, cr__backward **out);
/* The tensor that is the code's i-th input in this call; NULL: a number. */
cr_tensor *cr__aot_source(const cr_aot *a, const cr_arg *inputs, size_t i);
/* Will the epilogue write to the memory of this tensor? */
bool cr__aot_is_updated(const cr_aot *a, const cr_arg *inputs, const cr_tensor *t);
/* An eager call with one result; grad: recorded by the tape, if that records. */
CR_NODISCARD cr_status cr__aot_call_1(const char *name, const cr_arg *args, size_t n, bool grad, cr_tensor **out);
/* ---- what is kept and then written over (stale.c) ---- */
/* The joint graph is made of what was recorded and has the same names. stale: what is written after it was kept;
 * final: what is kept as it is in the end, of programs that write something; NULL: nobody asks. */
CR_NODISCARD cr_status cr__stale_find(cr_graph *recorded, const cr_joint *j, cr__stales *stale, cr__stales *final);
/* CR_EUNSUPPORTED: there is some, and the program writes by x.data. */
CR_NODISCARD cr_status cr__stale_check(const cr_graph *recorded, const cr__stales *stale);
/* whole: of which values `stale` is; j: the same forward part, with the gradients of these tangents. */
CR_NODISCARD cr_status cr__stale_read(const cr__stales *stale, const cr_joint *whole, const cr_joint *j,
                                      const bool *defined, const char **out);
/* ---- derivatives of gradients (twice.c) ---- */
/* The inputs of one call, as they were then. */
typedef struct cr__primals { cr_arg *at; uint64_t *versions; } cr__primals;
CR_NODISCARD cr_status cr__twice_find(cr_aot *a); /* a->again */
CR_NODISCARD cr_status cr__twice_graph(const cr_aot *a, const cr_joint *j, cr__backward *part);
CR_NODISCARD cr_status cr__twice_keep(const cr_aot *a, const cr_arg *inputs, cr__primals *out);
void cr__twice_remember(const cr_aot *a, cr__primals *p); /* what is written from here on is found */
void cr__twice_release(const cr_aot *a, cr__primals *p);
void cr__twice_dispose(cr__backward *part);
/* Gradients with their histories. node: that of the call; out: per edge, owned. */
CR_NODISCARD cr_status cr__twice_run(cr_aot *a, cr__backward *part, const cr__primals *p, const cr_grad_node *node,
                                     cr_tensor *const *grads, cr_tensor **out);
/* cr_aot_call, of a program that is replayed. */
CR_NODISCARD cr_status cr__aot_run_replay(cr_aot *a, const cr_arg *inputs, size_t n, cr_arg *results);
/* Norms that write statistics without saying so become those that do. */
CR_NODISCARD cr_status cr__show_statistics(cr_graph **g);

#endif
