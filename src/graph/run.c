/* run.c: the interpreter.
 *
 * One frame per run: a slot for each value, filled by its step and emptied after its last use, so that memory is freed
 * as early as the graph allows. A hidden value ("x after") is the tensor that was written, the same object. Every call
 * goes through cr_call, real or fake, so that a run under a recorder is recorded like any other program. */
#include "graph/plan.h"

typedef struct frame {
    cr_plan *plan;
    cr_arg *slots;   /* one per value; tensors hold a reference */
    cr_arena arena;  /* lists of arguments */
    bool fake;
} frame;

enum { FEW_VALUES = 16 }; /* their slots are on the stack: small graphs run without memory of their own */

static _Thread_local const cr_plan *running; /* the innermost plan on this thread: where region ops find their bodies */

cr_status cr__plan_of(cr_graph *sub, cr_plan **out) {
    for (size_t i = 0; running && i < running->children.n; i++)
        if (running->children.at[i]->graph == sub) {
            cr_plan_retain(*out = running->children.at[i]);
            return CR_OK;
        }
    return cr_plan_create(sub, out);
}

static void slot_clear(cr_arg *slot) {
    cr_results_release(slot, 1);
}

/* A copy that owns what it holds. */
static cr_status slot_set(cr_arg *slot, const cr_arg *from) {
    if (from->kind == CR_ARG_COMPLEX) {
        double *c = cr_alloc(2 * sizeof *c);
        if (!c) return CR_ENOMEM;
        memcpy(c, from->u.c, 2 * sizeof *c);
        *slot = *from;
        slot->u.c = c;
        return CR_OK;
    }
    if (from->kind == CR_ARG_TENSOR) cr_tensor_retain(from->u.t);
    *slot = *from;
    return CR_OK;
}

static cr_status resolve(frame *f, const cr_arg *from, cr_arg *to) {
    *to = *from;
    if (from->kind == CR_ARG_VALUE) {
        *to = f->slots[from->u.i];
        to->given = from->given;
    } else if (from->kind == CR_ARG_LIST) {
        cr_arg *items = cr_arena_alloc(&f->arena, from->n * sizeof *items);
        if (!items) return CR_ENOMEM;
        for (uint32_t i = 0; i < from->n; i++) CR_TRY(resolve(f, &from->u.list[i], &items[i]));
        to->u.list = items;
    }
    return CR_OK;
}

/* ---- steps ---- */

static cr_status run_get_attr(frame *f, const cr_node *node) {
    cr_tensor *t = cr_graph_constant(f->plan->graph, node->target);
    if (cr_tensor_is_fake(t) && !f->fake && t->meta.device.type != CR_META_DEVICE)
        return CR_FAIL(CR_EVALUE,
                       "constant '%s' has no data, only a shape (its text was shortened); give the graph the tensor",
                       node->target);
    cr_arg a = cr_arg_tensor(t);
    return slot_set(&f->slots[node->first], &a);
}

/* Moves the results into the slots of the node's visible values; their number was fixed when the graph was made. */
static cr_status store_results(frame *f, const cr_node *node, cr_arg *results) {
    uint32_t at = node->first, visible = 0, have = 0;
    uint16_t n = cr_result_count(node->op);
    for (uint32_t v = node->first; v < node->first + node->nvalues; v++)
        visible += !f->plan->graph->values.at[v]->hidden;
    for (uint16_t i = 0; i < n; i++) have += results[i].kind == CR_ARG_LIST ? results[i].n : 1;
    if (have != visible)
        return CR_FAIL(CR_ERUNTIME, "%s gives %u results here, the graph was made for %u", node->op->name, have,
                       visible);
    for (uint16_t i = 0; i < n; i++) {
        if (results[i].kind != CR_ARG_LIST) {
            f->slots[at++] = results[i];
            results[i] = cr_arg_none();
            continue;
        }
        cr_arg *items = (cr_arg *)results[i].u.list; /* results own their lists */
        for (uint32_t k = 0; k < results[i].n; k++) {
            f->slots[at++] = items[k];
            items[k] = cr_arg_none();
        }
    }
    return CR_OK;
}

static cr_status store_written(frame *f, const cr_arg *a, uint32_t *at) {
    if (a->kind == CR_ARG_TENSOR) return slot_set(&f->slots[(*at)++], a);
    for (uint32_t i = 0; a->kind == CR_ARG_LIST && i < a->n; i++) CR_TRY(store_written(f, &a->u.list[i], at));
    return CR_OK;
}

/* x.data has a version count of its own: what is written to it is no write of x. */
static cr_status part_data(frame *f, const cr_node *node) {
    cr_arg *slot = &f->slots[node->first];
    cr_tensor *own;
    if (strcmp(node->op->base->name, "aten::detach") || f->fake || cr_ambient_get()->mode.recorder) return CR_OK;
    CR_TRY(cr_tensor_apart(slot->u.t, &own));
    slot_clear(slot);
    *slot = cr_arg_tensor(own);
    return CR_OK;
}

static cr_status run_call(frame *f, const cr_node *node) {
    const cr_schema *s = &node->op->schema;
    const cr_graph *g = f->plan->graph;
    cr_arg args[CR_MAX_PARAMS], results[16];
    memset(results, 0, cr_result_count(node->op) * sizeof *results);
    for (uint16_t i = 0; i < node->nargs; i++) CR_TRY(resolve(f, &node->args[i], &args[i]));
    cr_ambient *ambient = cr_ambient_get();
    bool grad = ambient->grad;
    ambient->grad = grad && !node->origin.no_grad;
    cr_status status = cr_call(node->op, args, results);
    ambient->grad = grad;
    CR_TRY(status);
    status = store_results(f, node, results);
    if (!status && node->origin.data) status = part_data(f, node);
    cr_results_release(results, cr_result_count(node->op));
    uint32_t hidden = node->first;
    while (hidden < node->first + node->nvalues && !g->values.at[hidden]->hidden) hidden++;
    for (uint16_t i = 0; i < s->nparams && !status; i++)
        if (s->params[i].writes) status = store_written(f, &args[i], &hidden);
    return status;
}

/* Which node it was: by its first value; a call without results has its op's name in the message already. */
static cr_status explain(const cr_graph *g, const cr_node *node, cr_status status) {
    if (node->nvalues) status = cr_error_context(status, "%%%s", g->values.at[node->first]->name);
    return *g->name ? cr_error_context(status, "graph '%s'", g->name) : status;
}

static cr_status run_steps(frame *f) {
    const cr_plan *p = f->plan;
    const cr_graph *g = p->graph;
    for (size_t i = 0, dead = 0; i < p->nsteps; i++) {
        const cr_node *node = g->nodes.at[p->steps[i].node];
        cr_status status = node->kind == CR_NODE_GET_ATTR ? run_get_attr(f, node) : run_call(f, node);
        if (status) return explain(g, node, status);
        for (; dead < p->steps[i].dead_end; dead++) slot_clear(&f->slots[p->dead[dead]]);
    }
    return CR_OK;
}

/* ---- results ---- */

static cr_status give_result(frame *f, const cr_arg *from, cr_arg *to) {
    *to = cr_arg_none();
    if (from->kind == CR_ARG_VALUE) return slot_set(to, &f->slots[from->u.i]);
    if (from->kind != CR_ARG_LIST) return slot_set(to, from);
    cr_arg *items = cr_calloc(from->n + 1u, sizeof *items);
    if (!items) return CR_ENOMEM;
    *to = cr_arg_list(items, from->n);
    for (uint32_t i = 0; i < from->n; i++) CR_TRY(give_result(f, &from->u.list[i], &items[i]));
    return CR_OK;
}

static cr_status give_results(frame *f, cr_arg *results) {
    const cr_node *output = f->plan->graph->nodes.at[f->plan->graph->output];
    for (uint16_t i = 0; i < output->nargs; i++) results[i] = cr_arg_none();
    cr_status status = CR_OK;
    if (output->nargs == 1 && output->args[0].kind == CR_ARG_VALUE) { /* nobody else gets it */
        cr_arg *slot = &f->slots[output->args[0].u.i];
        results[0] = *slot;
        *slot = cr_arg_none();
        return CR_OK;
    }
    for (uint16_t i = 0; i < output->nargs && !status; i++) status = give_result(f, &output->args[i], &results[i]);
    if (status) cr_results_release(results, output->nargs);
    return status;
}

/* ---- runs ---- */

static void see_fakes(const cr_arg *inputs, size_t n, bool *fake, cr_env **env) {
    for (size_t i = 0; i < n; i++) {
        if (inputs[i].kind != CR_ARG_TENSOR || !cr_tensor_is_fake(inputs[i].u.t)) continue;
        *fake = true;
        if (!*env) *env = inputs[i].u.t->env;
    }
}

static cr_status run_bound(frame *f, const cr_arg *inputs, plan_binding *b, cr_arg *results) {
    const cr_plan *p = f->plan;
    cr_arg few[FEW_VALUES];
    size_t nvalues = p->graph->values.n;
    b->plan = p;
    if (p->symbols.n) {
        b->at = cr_arena_calloc(&f->arena, p->symbols.n, sizeof *b->at);
        b->bound = cr_arena_calloc(&f->arena, p->symbols.n, sizeof *b->bound);
        if (!b->at || !b->bound) return CR_ENOMEM;
    }
    f->slots = nvalues <= FEW_VALUES ? memset(few, 0, nvalues * sizeof *few)
                                     : cr_arena_calloc(&f->arena, nvalues, sizeof *f->slots);
    if (!f->slots) return CR_ENOMEM;
    CR_TRY(cr__plan_bind(b, inputs));
    cr_status status = CR_OK;
    for (size_t i = 0; i < p->ninputs && !status; i++) status = slot_set(&f->slots[p->inputs[i]], &inputs[i]);
    if (!status) status = run_steps(f);
    if (!status) status = give_results(f, results);
    for (size_t v = 0; v < nvalues; v++) slot_clear(&f->slots[v]);
    return status;
}

/* ---- plans of one call ---- */

/* Does the call run kernels and nothing else: nobody watches, records, maps, casts? */
static bool is_calm(const cr_ambient *a) {
    return !a->mode.recorder && !a->mode.fake && !a->mode.autocast.enabled && !a->vmap && !a->watch;
}

typedef enum fit { FITS_NOT, FITS, FITS_EXACTLY } fit; /* exactly: strides and all */

/* Are the inputs real ones as the graph has them, of which no gradient is wanted? What is wrong with others, binding
 * says. */
static fit fit_directly(const cr_plan *p, const cr_arg *inputs) {
    bool exactly = true;
    for (size_t i = 0; i < p->ninputs; i++) {
        const cr_tensor *t = inputs[i].kind == CR_ARG_TENSOR ? inputs[i].u.t : NULL;
        if (!t || cr_tensor_is_fake(t) || cr_tensor_requires_grad(t)) return FITS_NOT;
        const cr_meta *want = p->graph->values.at[i]->meta, *have = &t->meta;
        if (want->dtype != have->dtype || want->rank != have->rank || want->device.type != have->device.type)
            return FITS_NOT;
        exactly &= want->flags == have->flags && want->device.index == have->device.index;
        for (int d = 0; d < want->rank; d++) {
            if (want->size[d] != have->size[d]) return FITS_NOT;
            exactly &= want->stride[d] == have->stride[d];
        }
    }
    return p->check ? FITS_NOT : exactly ? FITS_EXACTLY : FITS;
}

/* Only kernels run meanwhile: nobody lets go of the plan or of the inputs, which the caller holds. */
static cr_status run_direct(const cr_plan *p, const cr_arg *inputs, fit fit, cr_arg *results) {
    const cr_node *node = p->graph->nodes.at[p->steps[0].node];
    cr_arg args[CR_MAX_PARAMS];
    for (uint16_t i = 0; i < node->nargs; i++) {
        const cr_arg *a = &p->direct[i];
        args[i] = a->kind == CR_ARG_VALUE ? inputs[a->u.i] : *a;
        args[i].given = a->given;
    }
    bool prepared = fit == FITS_EXACTLY && cr_is_prepared(&p->prepared);
    cr_status status = prepared ? cr_prepared_run(&p->prepared, args, results) : cr_call(node->op, args, results);
    return status ? explain(p->graph, node, status) : CR_OK;
}

cr_status cr_plan_run(cr_plan *p, const cr_arg *inputs, size_t ninputs, cr_arg *results, size_t nresults) {
    if (ninputs != p->ninputs) return CR_FAIL(CR_ETYPE, "the graph takes %zu inputs, not %zu", p->ninputs, ninputs);
    if (nresults != cr_plan_result_count(p))
        return CR_FAIL(CR_EVALUE, "the graph gives %zu results, not %zu", cr_plan_result_count(p), nresults);
    cr_ambient *ambient = cr_ambient_get();
    if (p->direct && is_calm(ambient)) {
        fit fit = fit_directly(p, inputs);
        if (fit != FITS_NOT) return run_direct(p, inputs, fit, results);
    }
    cr_call_mode *mode = &ambient->mode, saved = *mode;
    frame f = { .plan = p, .fake = saved.fake };
    cr_env *env = NULL, *made = NULL;
    see_fakes(inputs, ninputs, &f.fake, &env);
    if (f.fake && !env) env = saved.env;
    if (f.fake && !env) CR_TRY(cr_env_create(&made)); /* for sizes that depend on data */
    const cr_plan *outer = running;
    running = p;
    cr_plan_retain(p); /* the caller's reference may go away during the run */
    if (f.fake) {
        mode->fake = true;
        mode->env = env ? env : made;
    }
    cr_arena_init(&f.arena);
    cr_status status = run_bound(&f, inputs, &(plan_binding){ .env = f.fake ? mode->env : NULL }, results);
    cr_arena_dispose(&f.arena);
    mode->fake = saved.fake;
    mode->env = saved.env;
    running = outer;
    cr_plan_release(p);
    cr_env_release(made);
    return status;
}

cr_status cr_graph_run(cr_graph *g, const cr_arg *inputs, size_t n, cr_arg *results, size_t nresults) {
    cr_plan *p = NULL;
    CR_TRY(cr_plan_create(g, &p));
    cr_status status = cr_plan_run(p, inputs, n, results, nresults);
    cr_plan_release(p);
    return status;
}
