/* stale.c: what a program writes over after a call has kept it for its derivative.
 *
 * A functional graph has the old value and the new one, so its gradients are right; eager code has one memory, and
 * complains when a walk comes by such a call. Errors are part of what a program does: callers of this file refuse what
 * eager code would. */
#include "autograd/aot_internal.h"

#include "autograd/internal.h"
#include "autograd/partition.h"
#include "autograd/path.h"
#include "graph/writes.h"
#include "ops/formula.h"

/* A call that writes gives the tensor that it wrote in two values, which a functional graph has as one: by the name of
 * either. */
static uint32_t find_in_joint(const cr_joint *j, const cr_graph *recorded, uint32_t v) {
    const cr_value *old = cr_graph_value(recorded, v);
    const cr_node *maker = cr_graph_node(recorded, old->node);
    for (uint32_t k = 0; k <= maker->nvalues; k++) {
        const cr_value *same = k ? cr_graph_value(recorded, maker->first + k - 1) : old;
        bool shared = old->meta && same->meta && old->meta->storage == same->meta->storage;
        if (same != old && (!shared || old->hidden == same->hidden)) continue;
        uint32_t found = cr_graph_find(j->graph, same->name);
        /* erased ones have no node of the forward part */
        if (found != CR_NO_VALUE && cr_graph_value(j->graph, found)->node < j->forward_nodes) return found;
    }
    return CR_NO_VALUE;
}

typedef struct keeping {
    cr__stales *stale;   /* written later */
    cr__stales *final;   /* kept as it is in the end; NULL: nobody asks */
    const cr_joint *joint;
    const cr_graph *recorded;
    const cr_writes *writes;
    const cr_node *node; /* that keeps it */
    uint32_t place;
    uint32_t value;      /* what it is in the joint graph; CR_NO_VALUE: its name says */
    cr_status status;
} keeping;

/* A value that the call keeps, with each result of the call. */
static void see_kept(void *user, uint32_t v) {
    keeping *k = user;
    uint32_t memory = k->writes->memory[v];
    cr__stales *list = k->writes->last[memory] > k->place ? k->stale : k->final;
    if (k->status || !list) return;
    uint32_t value = k->value != CR_NO_VALUE ? k->value : find_in_joint(k->joint, k->recorded, v);
    for (uint32_t i = 0; i < k->node->nvalues && value != CR_NO_VALUE && !k->status; i++) {
        uint32_t by = find_in_joint(k->joint, k->recorded, k->node->first + i);
        if (by != CR_NO_VALUE) k->status = cr_vec_push(list, (cr__stale){ value, by, memory });
    }
}

/* What an argument is in the joint graph: that of the same call there. Of memory that was written through a view the
 * name stays. */
static uint32_t find_argument(const cr_graph *recorded, const cr_joint *j, const cr_node *node, uint16_t i) {
    uint32_t by = node->nvalues ? find_in_joint(j, recorded, node->first) : CR_NO_VALUE;
    if (by == CR_NO_VALUE || node->args[i].kind != CR_ARG_VALUE) return CR_NO_VALUE;
    const cr_node *same = cr_graph_node(j->graph, cr_graph_value(j->graph, by)->node);
    if (same->kind != CR_NODE_CALL || same->op != node->op || same->args[i].kind != CR_ARG_VALUE) return CR_NO_VALUE;
    return (uint32_t)same->args[i].u.i;
}

typedef struct leading {
    const bool *live; /* per value of the joint graph: does it lead back to a primal whose gradient is due? */
    bool any;
} leading;

static void see_live(void *user, uint32_t v) {
    leading *l = user;
    l->any |= l->live[v];
}

static bool has_live_history(const cr_joint *j, const bool *live, uint32_t v) {
    for (size_t i = 0; i < j->histories.n; i++)
        if (j->histories.at[i].data == v && live[j->histories.at[i].history]) return true;
    return false;
}

static bool is_quiet(const cr_node *node) { return node->origin.no_grad && !cr__is_history(node->op); }

/* What a gradient flows through: not what was made in no_grad(), by detach(), or of integers, unless it has the history
 * of another value. */
static cr_status mark_live(const cr_joint *j, bool *live) {
    const cr_node *output = cr_graph_node(j->graph, cr_graph_output(j->graph));
    uint32_t primal = 0;
    for (uint32_t n = cr_graph_first(j->graph); n != CR_NO_NODE; n = cr_graph_next(j->graph, n)) {
        const cr_node *node = cr_graph_node(j->graph, n);
        leading l = { live, false };
        if (n >= j->forward_nodes) continue;
        if (node->kind == CR_NODE_PLACEHOLDER && primal < j->nprimals)
            live[node->first] = output->args[j->nforward + primal++].kind != CR_ARG_NONE;
        if (node->kind == CR_NODE_CALL && !is_quiet(node)) cr_args_visit_values(node->args, node->nargs, see_live, &l);
        for (uint32_t v = node->first; v < node->first + node->nvalues; v++) {
            const cr_value *value = cr_graph_value(j->graph, v);
            if (l.any) CR_TRY(cr_grad_comes_back(node->op, value->ret, value->meta, &live[v]));
            live[v] |= has_live_history(j, live, v);
        }
    }
    return CR_OK;
}

static void see_any(void *user, uint32_t v) { *(bool *)user = true, (void)v; }

/* Which gradients of the call are asked for: of arguments that are live, or not known in the joint graph. false: none
 * of a tensor. */
static bool find_needs(const cr_graph *recorded, const cr_joint *j, const bool *live, const cr_node *node,
                       bool *needs) {
    bool any = false;
    for (uint16_t i = 0; i < node->nargs; i++) {
        uint32_t v = find_argument(recorded, j, node, i);
        needs[i] = v == CR_NO_VALUE || live[v];
        if (needs[i]) cr_args_visit_values(&node->args[i], 1, see_any, &any);
    }
    return any;
}

/* What the derivative of a call of either graph keeps, by its formula; *known: it has one. */
static cr_status find_saved(cr_graph *g, const cr_node *node, const bool *needs, cr_saved *out, bool *known) {
    const cr_schema *s = &node->op->schema;
    cr_arg args[CR_MAX_PARAMS], results[16];
    bool given[16];
    CR_TRY(cr_grad_is_direct(node->op, known));
    *known = *known && !s->varargs_returns && s->nreturns <= CR_COUNT(results);
    if (!*known) return CR_OK;
    CR_TRY(cr_graph_plain_args(g, node->args, node->nargs, args));
    for (uint16_t i = 0; i < s->nreturns; i++) given[i] = true, results[i] = cr_arg_none();
    for (uint32_t v = node->first; v < node->first + node->nvalues; v++) {
        const cr_value *value = cr_graph_value(g, v);
        if (!value->hidden && !s->returns[value->ret].list) results[value->ret] = cr__value_arg(g, v);
    }
    cr_status status = cr_formula_saved(cr_graph_emitter(g), node->op, args, results, needs, given, out);
    if (!status || status == CR_ENOMEM) return status;
    cr_error_release(cr_error_take()); /* the walk says so */
    *known = false;
    return CR_OK;
}

/* ---- calls that only have a derivative in parts: those that the joint graph has in their place ---- */

typedef struct in_parts {
    const cr_graph *recorded;
    const cr_joint *joint;
    const cr_node *node; /* of the recorded graph */
    bool *seen, *kept;   /* per value of the joint graph; kept: the memory that it shows */
    bool any;            /* what is being looked at is kept, or nobody knows */
    CR_VEC(uint32_t) waiting;
    cr_status status;
} in_parts;

static uint32_t memory_of(const cr_graph *g, uint32_t v) {
    for (uint32_t of = v; of != CR_NO_VALUE; of = cr__value_shows(g, of)) v = of;
    return v;
}

static void keep_value(void *user, uint32_t v) {
    in_parts *p = user;
    p->kept[memory_of(p->joint->graph, v)] = true;
}

static void wait_for(void *user, uint32_t v) {
    in_parts *p = user;
    if (!p->status && !p->seen[v]) p->status = cr_vec_push(&p->waiting, v);
    p->seen[v] = true;
}

static void ask_kept(void *user, uint32_t v) {
    in_parts *p = user;
    uint32_t value = find_in_joint(p->joint, p->recorded, v);
    p->any |= value == CR_NO_VALUE || p->kept[memory_of(p->joint->graph, value)];
}

/* A part, or something from before the call? Parts have names that the recorded graph has not, or the call's own. */
static bool is_part(const in_parts *p, uint32_t v) {
    uint32_t same = cr_graph_find(p->recorded, cr_graph_value(p->joint->graph, v)->name);
    const cr_node *part = cr_graph_node(p->joint->graph, cr_graph_value(p->joint->graph, v)->node);
    return part->kind == CR_NODE_CALL &&
           (same == CR_NO_VALUE || cr_graph_node(p->recorded, cr_graph_value(p->recorded, same)->node) == p->node);
}

static cr_status see_part(in_parts *p, const bool *live, const cr_node *part) {
    bool needs[CR_MAX_PARAMS], known;
    cr_saved saved = { 0 };
    for (uint16_t i = 0; i < part->nargs; i++) {
        leading l = { live, false };
        cr_args_visit_values(&part->args[i], 1, see_live, &l);
        needs[i] = l.any;
    }
    CR_TRY(find_saved(p->joint->graph, part, needs, &saved, &known));
    if (!known) saved.args = UINT64_MAX;
    for (uint16_t i = 0; i < part->nargs; i++)
        if (saved.args >> CR_MIN(i, 63) & 1) cr_args_visit_values(&part->args[i], 1, keep_value, p);
    cr_args_visit_values(part->args, part->nargs, wait_for, p);
    return p->status;
}

static cr_status see_parts(in_parts *p, const bool *live, cr_saved *out) {
    for (uint32_t i = 0; i < p->node->nvalues; i++) {
        uint32_t v = find_in_joint(p->joint, p->recorded, p->node->first + i);
        if (v != CR_NO_VALUE) wait_for(p, v);
    }
    if (!p->waiting.n) return p->status; /* it is not there: everything */
    while (p->waiting.n && !p->status) {
        uint32_t v = p->waiting.at[--p->waiting.n];
        const cr_node *part = cr_graph_node(p->joint->graph, cr_graph_value(p->joint->graph, v)->node);
        if (is_part(p, v) && live[v]) CR_TRY(see_part(p, live, part));
    }
    out->args = 0;
    for (uint16_t i = 0; i < p->node->nargs && !p->status; i++) {
        p->any = false;
        cr_args_visit_values(&p->node->args[i], 1, ask_kept, p);
        out->args |= (uint64_t)p->any << CR_MIN(i, 63);
    }
    return p->status;
}

/* What a derivative of the call keeps: nothing, where none is asked for; what its parts keep, where only those have
 * one; everything, where nobody knows. */
static cr_status find_kept(cr_graph *g, const cr_joint *j, const bool *live, const cr_node *node, cr_saved *out) {
    bool needs[CR_MAX_PARAMS], known;
    *out = (cr_saved){ 0 };
    if (!find_needs(g, j, live, node, needs)) return CR_OK;
    out->args = UINT64_MAX;
    CR_TRY(find_saved(g, node, needs, out, &known));
    if (known || node->op->tags & CR_TAG_HIGHER_ORDER) return CR_OK;
    in_parts p = { .recorded = g, .joint = j, .node = node };
    uint32_t n = cr_graph_value_count(j->graph);
    p.seen = cr_calloc(2 * (size_t)n + 1, sizeof *p.seen);
    p.kept = p.seen + n;
    cr_status status = p.seen ? see_parts(&p, live, out) : CR_ENOMEM;
    cr_vec_dispose(&p.waiting);
    cr_free(p.seen);
    return status;
}

/* Which calls keep what the program writes later: as an argument, but for those that the call writes over (their old
 * contents are copied), or as a result. Eager code would complain of it in a walk that comes by such a call. Values
 * keep their names on the way to the joint graph. */
static cr_status see_calls(cr_graph *g, const cr_joint *j, const cr_writes *w, const bool *live, cr__stales *stale,
                           cr__stales *final) {
    for (uint32_t n = cr_graph_first(g); n != CR_NO_NODE; n = cr_graph_next(g, n)) {
        const cr_node *node = cr_graph_node(g, n);
        keeping k = { stale, final, j, g, w, node, w->place[n], CR_NO_VALUE, CR_OK };
        cr_saved kept;
        if (node->kind != CR_NODE_CALL || node->origin.no_grad) continue;
        CR_TRY(find_kept(g, j, live, node, &kept));
        for (uint16_t i = 0; i < node->nargs; i++) {
            if (node->op->schema.params[i].writes || !(kept.args >> CR_MIN(i, 63) & 1)) continue;
            k.value = find_argument(g, j, node, i);
            cr_args_visit_values(&node->args[i], 1, see_kept, &k);
        }
        k.value = CR_NO_VALUE;
        for (uint32_t v = node->first; v < node->first + node->nvalues; v++)
            if (kept.results >> (cr_graph_value(g, v)->hidden ? 0 : cr_graph_value(g, v)->ret) & 1) see_kept(&k, v);
        CR_TRY(k.status);
    }
    return CR_OK;
}

/* The input that has the memory stands for it. */
static void name_inputs(const cr_graph *g, const cr_writes *w, cr__stales *list) {
    for (uint32_t n = cr_graph_first(g); n != CR_NO_NODE; n = cr_graph_next(g, n)) {
        const cr_node *node = cr_graph_node(g, n);
        for (size_t i = 0; node->kind == CR_NODE_PLACEHOLDER && i < list->n; i++)
            if (list->at[i].memory == w->memory[node->first]) list->at[i].memory = node->first;
    }
}

cr_status cr__stale_find(cr_graph *recorded, const cr_joint *j, cr__stales *stale, cr__stales *final) {
    cr_writes writes;
    CR_TRY(cr_writes_find(recorded, CR_SHARING_KNOWN, &writes));
    bool *live = writes.all.n ? cr_calloc(cr_graph_value_count(j->graph) + 1u, sizeof *live) : NULL;
    cr_status status = writes.all.n && !live ? CR_ENOMEM : CR_OK;
    if (live) status = mark_live(j, live);
    if (live && !status) status = see_calls(recorded, j, &writes, live, stale, final);
    if (live && !status && final) name_inputs(recorded, &writes, final);
    cr_free(live);
    cr_writes_dispose(&writes);
    return status;
}

/* What x.data writes is counted by nobody: eager code walks back with what is there then. */
cr_status cr__stale_check(const cr_graph *g, const cr__stales *stale) {
    for (uint32_t n = cr_graph_first(g); stale->n && n != CR_NO_NODE; n = cr_graph_next(g, n))
        if (cr_graph_node(g, n)->origin.data)
            return CR_FAIL(CR_EUNSUPPORTED, "the program writes by x.data to what gradients are computed from; write "
                                            "to a clone()");
    return CR_OK;
}

static void mark_value(void *user, uint32_t v) { ((bool *)user)[v] = true; }

/* What a walk from these results comes by: the values of the forward part that they are made of, through what is
 * live. */
static cr_status mark_walked(const cr_joint *j, const bool *defined, const bool *live, bool *walked) {
    const cr_node *output = cr_graph_node(j->graph, cr_graph_output(j->graph));
    CR_VEC(uint32_t) order = { 0 };
    cr_status status = CR_OK;
    for (uint32_t i = 0; i < j->ntangents; i++)
        if (defined[i]) cr_args_visit_values(&output->args[j->tangent_of[i]], 1, mark_value, walked);
    for (uint32_t n = cr_graph_first(j->graph); n != CR_NO_NODE && !status; n = cr_graph_next(j->graph, n))
        if (n < j->forward_nodes) status = cr_vec_push(&order, n);
    for (size_t i = order.n; i-- > 0 && !status;) {
        const cr_node *node = cr_graph_node(j->graph, order.at[i]);
        bool any = false;
        for (uint32_t k = node->first; k < node->first + node->nvalues; k++) {
            any |= walked[k] && live[k];
            for (size_t h = 0; h < j->histories.n && walked[k]; h++)
                if (j->histories.at[h].data == k) walked[j->histories.at[h].history] = true;
        }
        if (any && !(node->kind == CR_NODE_CALL && is_quiet(node)))
            cr_args_visit_values(node->args, node->nargs, mark_value, walked);
    }
    cr_vec_dispose(&order);
    return status;
}

/* Which of them a walk reads, of calls that it comes by. */
static cr_status mark_read(const cr__stales *list, const cr_joint *whole, const cr_joint *j, const bool *defined,
                           bool *read) {
    uint32_t all = CR_MAX(cr_graph_value_count(j->graph), cr_graph_value_count(whole->graph));
    bool *reads = cr_calloc(3 * (size_t)all + 1, sizeof *reads), *walked = reads + all, *live = walked + all;
    cr_status status = reads ? cr__cut_reads(j, false, reads) : CR_ENOMEM;
    if (!status) status = mark_live(whole, live);
    if (!status) status = mark_walked(whole, defined, live, walked);
    for (size_t i = 0; i < list->n && !status; i++) read[i] = reads[list->at[i].value] && walked[list->at[i].by];
    cr_free(reads);
    return status;
}

/* The name of a value that the backward part reads although the program wrote over it after a call on the walk had kept
 * it; NULL: there is none. */
cr_status cr__stale_read(const cr__stales *stale, const cr_joint *whole, const cr_joint *j, const bool *defined,
                         const char **out) {
    bool *read = cr_calloc(stale->n + 1, sizeof *read);
    cr_status status = read ? mark_read(stale, whole, j, defined, read) : CR_ENOMEM;
    for (size_t i = 0; i < stale->n && !status && !*out; i++)
        if (read[i]) *out = cr_graph_value(whole->graph, stale->at[i].value)->name;
    cr_free(read);
    return status;
}

/* The placeholders among the memories of what is read. */
static cr_status mark_inputs(const cr_graph *recorded, const cr__stales *final, const cr_joint *j, const bool *defined,
                             bool *kept) {
    bool *read = cr_calloc(final->n + 1, sizeof *read);
    cr_status status = read ? mark_read(final, j, j, defined, read) : CR_ENOMEM;
    for (uint32_t n = cr_graph_first(recorded), k = 0; n != CR_NO_NODE; n = cr_graph_next(recorded, n)) {
        const cr_node *node = cr_graph_node(recorded, n);
        if (node->kind != CR_NODE_PLACEHOLDER) continue;
        for (size_t i = 0; i < final->n && !status; i++)
            kept[k] |= read[i] && final->at[i].memory == node->first;
        k++;
    }
    cr_free(read);
    return status;
}

cr_status cr_find_overwritten(cr_graph *recorded, const cr_joint *j, const char **out, bool *kept) {
    cr__stales stale = { 0 }, final = { 0 };
    bool *all = cr_calloc(j->ntangents + 1u, sizeof *all);
    *out = NULL;
    if (!all) return CR_ENOMEM;
    for (uint32_t i = 0; i < j->ntangents; i++) all[i] = true;
    cr_status status = cr__stale_find(recorded, j, &stale, &final);
    if (!status) status = cr__stale_check(recorded, &stale);
    if (!status) status = cr__stale_read(&stale, j, j, all, out);
    if (!status) status = mark_inputs(recorded, &final, j, all, kept);
    cr_vec_dispose(&stale);
    cr_vec_dispose(&final);
    cr_free(all);
    return status;
}
