/* aot_internal.h: a compiled program, shared by aot.c and epilogue.c. */
#ifndef CR_AOT_INTERNAL_H
#define CR_AOT_INTERNAL_H

#include "autograd/aot.h"
#include "autograd/cut.h"

/* An input of the code: an input of the program, or the root of one. */
typedef struct cr__source { uint32_t input; bool root, tensor; } cr__source;
/* A new value of an input of the code: its first results. */
typedef struct cr__update { uint32_t source; bool hidden; uint16_t bumps; } cr__update;
/* A value that the program writes over after a call has kept it, and a result of that call. */
typedef struct cr__stale { uint32_t value, by; } cr__stale;
/* The backward part for one set of tangents that are defined. */
typedef struct cr__backward {
    bool *defined;
    cr_aot_code code;
    const char *stale; /* a value that it reads and that the program wrote over later: there is no backward then */
} cr__backward;

struct cr_aot {
    int64_t refs; /* atomic */
    cr_metadata meta;
    cr_aot_compiler compiler;
    cr_graph *functional;        /* what is differentiated */
    bool *wrt, *through;         /* of it */
    cr_joint joint;              /* graph NULL: nothing is */
    bool *saved;                 /* per value of the joint graph */
    bool *drawn;                 /* per node of it: backward parts draw its numbers again */
    CR_VEC(cr__stale) stale;     /* of its forward part */
    cr_cut cut;
    cr_aot_code forward;
    CR_VEC(cr__source) sources;
    CR_VEC(uint32_t) edges;      /* the sources that are tensors, in the order of their gradients in eager code */
    CR_VEC(cr__update) updates;
    CR_VEC(cr__backward) backwards;
    int lock;                    /* atomic: of backwards */
    cr_plan *epilogue;
};

/* The code of the backward part for these tangents; made when first met. */
CR_NODISCARD cr_status cr__aot_backward(cr_aot *a, const bool *defined, const cr__backward **out);
/* The tensor that is the code's i-th input in this call; NULL: a number. */
cr_tensor *cr__aot_source(const cr_aot *a, const cr_arg *inputs, size_t i);
/* Norms that write statistics without saying so become those that do. */
CR_NODISCARD cr_status cr__show_statistics(cr_graph **g);

#endif
