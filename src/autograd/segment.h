/* segment.h: a part of a walk that is one graph: what segment.c finds and runs and segment_capture.c records. */
#ifndef CR_SEGMENT_H
#define CR_SEGMENT_H

#include "autograd/aot_internal.h"
#include "autograd/walk.h"
#include "autograd/walk_graphs.h"

/* A node of the segment, or one behind it that it sends gradients to: its place in the walk. */
typedef struct cr__member {
    size_t place;
    cr_grad_node *node; /* borrowed from the walk */
    size_t number;      /* where its numbers begin */
    uint32_t grad;      /* where its gradients begin, among those of all members */
    bool observed;      /* somebody sees its gradients: they are results */
} cr__member;
typedef enum cr__number_kind { CR__NUMBER_SIZE, CR__NUMBER_STRIDE, CR__NUMBER_INT } cr__number_kind;
typedef struct cr__segment {
    cr__walk *w;
    CR_VEC(cr__member) members; /* those that run, latest first; then those behind */
    size_t run;                 /* how many run */
    uint32_t ngrads;
    CR_VEC(uint8_t) key;        /* the structure */
    CR_VEC(int64_t) numbers;    /* all that may differ where the structure is the same */
    CR_VEC(uint8_t) kinds;      /* per number */
    size_t came;                /* where the numbers of gradients that have come begin */
    bool strange;               /* there are symbols in it already: nothing to capture */
} cr__segment;

typedef struct cr__result { uint32_t member, result; } cr__result;
typedef struct cr__entry {
    int64_t refs; /* atomic */
    cr_env *env;
    cr_dim *dims;        /* per number: what it must be, in terms of the symbols */
    size_t nnumbers;
    CR_VEC(cr_sym) symbols;
    cr_range *ranges;    /* per symbol */
    bool *visited;       /* per member that runs: does a gradient come to it? */
    size_t ninputs;
    CR_VEC(cr__result) results;
    CR_VEC(cr_aot *) programs; /* whose backward parts are in the graph: the structure has their addresses */
    cr_aot_code code;    /* run NULL: it cannot be one graph */
} cr__entry;
void cr__entry_release(cr__entry *e); /* NULL is legal */
enum { CR__MOST_SYMBOLS = CR_LIMIT(16, 2) };
typedef struct cr__bound { const cr__entry *entry; const cr_sym_value *values; } cr__bound; /* per symbol */
/* Do the numbers fit the entry? values: of its symbols. */
bool cr__segment_fits(const cr__segment *s, const cr__entry *e, cr_sym_value *values);

bool cr__segment_reads_offsets(const cr_grad_node *n);
/* For these numbers, without code: it cannot be one graph. */
CR_NODISCARD cr_status cr__entry_create(const cr__segment *s, cr__entry **out);
/* Records the segment. open: per number, is it a symbol? NULL: none is. `from`: the numbers of the entry before. */
CR_NODISCARD cr_status cr__segment_capture(cr__segment *s, const bool *open, const int64_t *from, cr__entry **out,
                                           cr_graph **graph);

/* ---- compiled programs on a walk (epilogue.c) ---- */
typedef struct cr__inlined {
    cr_aot *aot;
    const cr_arg *numbers;
    cr_tensor *const *saved;
    const cr_meta *tangents;
} cr__inlined;
/* Is the node a call of a compiled program? Its parts, borrowed. */
bool cr__aot_inlined(const cr_grad_node *n, cr__inlined *out);
CR_NODISCARD cr_status cr__aot_check_saved(const cr_grad_node *n);

#endif
