/* ahead.c: captured graphs through AOT autograd, their parts interpreted at once and native when that is built. */
#include "capture/ahead.h"

#include "autograd/aot.h"

struct cr_ahead { cr_aot *aot; cr_tier *tier; };

/* One part: forward, backward or inference. */
typedef struct part { cr_graph *graph; cr_plan *plan; cr_tier *tier; } part;

static cr_status run_part(void *code, const cr_arg *inputs, size_t n, cr_arg *results, size_t nresults) {
    const part *p = code;
    return cr_tier_run(p->tier, p->graph, p->plan, inputs, n, results, nresults);
}

static void release_part(void *code) {
    part *p = code;
    cr_tier_release(p->tier);
    cr_plan_release(p->plan);
    cr_graph_release(p->graph);
    cr_free(p);
}

/* `user`: where the first part's tier goes; it outlives the call that makes the first part, not later ones. */
typedef struct shop { cr_tier_ways ways; cr_tier *first; } shop;

static cr_status make_part(void *user, cr_aot_role role, cr_graph *g, cr_aot_code *out) {
    shop *s = user;
    part *p = cr_calloc(1, sizeof *p);
    if (!p) return CR_ENOMEM;
    cr_graph_retain(p->graph = g);
    cr_status status = cr_plan_create(g, &p->plan);
    if (!status && s->ways && !cr_tier_draws(g)) status = cr_tier_start(g, s->ways, &p->tier);
    if (status) return release_part(p), status;
    if (role != CR_AOT_BACKWARD && p->tier) cr_tier_retain(s->first = p->tier);
    *out = (cr_aot_code){ run_part, release_part, p };
    return CR_OK;
}

static void release_shop(void *user) {
    cr_tier_release(((shop *)user)->first);
    cr_free(user);
}

cr_status cr_ahead_create(cr_graph *g, const cr_arg *inputs, size_t n, bool records, cr_tier_ways ways,
                          cr_ahead **out) {
    size_t nresults = cr_graph_result_count(g);
    cr_ahead *a = cr_calloc(1, sizeof *a);
    shop *s = cr_calloc(1, sizeof *s);
    cr_tensor **tensors = cr_calloc(n + 1, sizeof *tensors);
    int32_t *is_input = cr_calloc(nresults + 1, sizeof *is_input);
    cr_status status = a && s && tensors && is_input ? CR_OK : CR_ENOMEM;
    for (size_t i = 0; !status && i < n; i++) tensors[i] = inputs[i].kind == CR_ARG_TENSOR ? inputs[i].u.t : NULL;
    for (size_t i = 0; !status && i < nresults; i++) is_input[i] = -1; /* capture hands inputs out by itself */
    if (!status) {
        cr_recorded recorded = { g, tensors, is_input, !records };
        cr_aot_compiler compiler = { .compile = make_part, .release = release_shop, .user = s,
                                     .partition = { .kind = CR_PARTITION_MIN_CUT, .budget = 1 } };
        s->ways = ways;
        status = cr_aot_create(&recorded, &compiler, &a->aot); /* which has taken over the shop */
        if (!status && s->first) cr_tier_retain(a->tier = s->first);
    } else {
        cr_free(s);
    }
    cr_free(tensors);
    cr_free(is_input);
    if (status) return cr_free(a), status;
    *out = a;
    return CR_OK;
}

void cr_ahead_release(cr_ahead *a) {
    if (!a) return;
    cr_tier_release(a->tier);
    cr_aot_release(a->aot);
    cr_free(a);
}

cr_status cr_ahead_run(cr_ahead *a, const cr_arg *inputs, size_t n, cr_arg *results, bool *wrote) {
    return cr_aot_call(a->aot, inputs, n, results, wrote);
}

cr_tier *cr_ahead_tier(const cr_ahead *a) { return a->tier; }
