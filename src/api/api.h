/* api.h: what the files of src/api share. */
#ifndef CR_API_H
#define CR_API_H

#include "cresset/cresset.h"
#include "emit/emit.h"
#include "cresset/compile.h"
#include "export/program.h"

/* A slot, and what checks and random inputs need of it beyond what is told. */
typedef struct cr__slot {
    cr_slot shown;
    uint8_t type;        /* cr_type; CR_T_ANY for None */
    const cr_meta *meta; /* of a tensor; NULL when the archive does not say */
    cr_sym expr;         /* of a number; NULL for constants */
} cr__slot;

struct cr_signature {
    int64_t refs; /* atomic */
    cr_program *program; /* whose texts these are, retained; NULL: of a library */
    cr_library *library; /* the same; else NULL */
    cr_env *env;         /* retained */
    cr_arena arena;
    cr__slot *inputs, *outputs;
    size_t ninputs, noutputs;
    cr_symbol *symbols;
    size_t nsymbols;
    pthread_mutex_t lock; /* of the environment, where it is not a program's */
};
/* Held while the environment is worked with: threads share signatures, and programs their graphs' symbols. */
static inline pthread_mutex_t *cr__signature_lock(cr_signature *s) {
    return s->program ? cr_program_lock(s->program) : &s->lock;
}
/* An empty one; the caller fills it, and releases it on failure. */
CR_NODISCARD cr_status cr__signature_create(cr_signature **out);
/* Fills in, from meta, expr and the constant, what slots show: once all of them are there. The trees (NULL: not
 * known) say where they sit in the call. */
CR_NODISCARD cr_status cr__signature_finish(cr_signature *s, const cr_tree *in_spec, const cr_tree *out_spec);
/* "2 to 64", "at least 2" */
void cr__range_print(cr_range range, cr_str *out);

/* An op's name, also where it has no row here. */
const char *cr__node_op_name(const cr_node *node);
/* Which line of the user's program a node comes from, "model.py:12: y = f(x)"; false: the archive does not say. */
bool cr__node_source(const cr_node *node, cr_str *out);

/* Do two tensors have one dtype and the same sizes? */
static inline bool cr__same_shape(const cr_meta *a, const cr_meta *b) {
    bool same = a->dtype == b->dtype && a->rank == b->rank;
    for (int i = 0; same && i < a->rank; i++) same = a->size[i] == b->size[i];
    return same;
}

#endif
