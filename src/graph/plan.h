/* plan.h: what plan.c prepares and run.c executes. Nothing here changes after cr_plan_create, so that any number of
 * threads may run one plan, each with its own frame. */
#ifndef CR_PLAN_H
#define CR_PLAN_H

#include "graph/internal.h"
#include "ops/prepared.h"

typedef struct plan_step { uint32_t node, dead_end; } plan_step; /* dead[previous end .. dead_end) die after it */
/* One number of an input: size `dim` of a tensor, or the number itself (dim < 0). */
typedef struct plan_check {
    uint32_t input;
    int dim;
    cr_dim plain;   /* expected, when expr is NULL */
    cr_sym expr;
    int32_t symbol; /* expr is this symbol alone; -1: a compound expression */
} plan_check;
typedef struct plan_symbol { cr_sym symbol; cr_range range; } plan_symbol;

struct cr_plan {
    int64_t refs; /* atomic */
    cr_graph *graph;
    cr_arena arena;
    uint32_t *inputs;  /* values of the placeholders */
    size_t ninputs;
    plan_step *steps;
    uint32_t *dead;
    size_t nsteps;
    CR_VEC(plan_check) checks;
    CR_VEC(plan_symbol) symbols;
    CR_VEC(cr_cond) conds;   /* of the environment when the plan was made; none in the plan of a subgraph */
    CR_VEC(cr_plan *) children; /* one per subgraph, in order */
    cr_arg *direct;             /* arguments of the one call that the plan is; NULL: it is more than that */
    cr_prepared prepared;       /* ... on inputs as the graph has them */
    const char *const *labels;  /* of the inputs, for messages; NULL: the placeholders' names */
    cr_status (*check)(void *user, const cr_arg *inputs); /* may be NULL */
    void *check_user;
};

/* The symbols' values in one run. Plain numbers in a real run; sizes of the run's environment in a symbolic one. */
typedef struct plan_binding {
    const cr_plan *plan;
    cr_env *env;      /* of the fake inputs; NULL in a real run */
    cr_sym_value *at; /* one per plan symbol; ints are a cr_dim */
    bool *bound, symbolic;
} plan_binding;
/* Checks the inputs against the placeholders and binds the symbols. */
cr_status cr__plan_bind(plan_binding *b, const cr_arg *inputs);

#endif
