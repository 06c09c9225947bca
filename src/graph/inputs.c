/* inputs.c: inputs that shared memory when a program was recorded, each in a memory of its own.
 *
 * What callers give later need not lie together, nor at those places: code that takes one memory for both would read
 * and write beside what it was given. */
#include "graph/internal.h"

typedef struct parter {
    const cr_graph *from; /* as it was: which memory values lie in */
    cr_graph *to;
    const bool *which;
    uint64_t *fresh;      /* per value: the memory that it lies in now; 0: where it did */
} parter;

static uint64_t storage_of(const cr_graph *g, uint32_t v) {
    return g->values.at[v]->meta ? g->values.at[v]->meta->storage : 0;
}

static cr_status move(parter *p, uint32_t v, uint64_t storage) {
    cr_meta meta;
    cr_meta_copy(&meta, p->from->values.at[v]->meta);
    meta.storage = p->fresh[v] = storage;
    return cr_graph_set_meta(p->to, v, &meta);
}

/* Does another placeholder lie there: one that stays, or an earlier one? */
static bool is_shared(const parter *p, uint32_t node, uint64_t storage) {
    bool before = true;
    size_t i = 0;
    for (uint32_t n = cr_graph_first(p->from); n != CR_NO_NODE; n = cr_graph_next(p->from, n)) {
        const cr_node *other = cr_graph_node(p->from, n);
        if (other->kind != CR_NODE_PLACEHOLDER) return false;
        bool stays = !p->which[i++];
        before &= n != node;
        if (n != node && storage_of(p->from, other->first) == storage && (stays || before)) return true;
    }
    return false;
}

typedef struct search { const parter *p; uint64_t storage, found; } search;
static void see(void *user, uint32_t v) {
    search *s = user;
    if (!s->found && storage_of(s->p->from, v) == s->storage) s->found = s->p->fresh[v] ? s->p->fresh[v] : s->storage;
}

/* A value lies where the argument does that is written for it, or else that it is a view of. */
static cr_status follow(parter *p, const cr_node *node, uint32_t v) {
    search s = { p, storage_of(p->from, v), 0 };
    for (uint16_t i = 0; i < node->nargs; i++)
        if (node->op->schema.params[i].writes) cr_args_visit_values(&node->args[i], 1, see, &s);
    for (uint16_t i = 0; i < node->nargs; i++) cr_args_visit_values(&node->args[i], 1, see, &s);
    return s.storage && s.found && s.found != s.storage ? move(p, v, s.found) : CR_OK;
}

static cr_status part_all(parter *p) {
    size_t i = 0;
    for (uint32_t n = cr_graph_first(p->from); n != CR_NO_NODE; n = cr_graph_next(p->from, n)) {
        const cr_node *node = cr_graph_node(p->from, n);
        if (node->kind == CR_NODE_PLACEHOLDER) {
            uint64_t storage = storage_of(p->from, node->first);
            if (p->which[i++] && storage && is_shared(p, n, storage))
                CR_TRY(move(p, node->first, cr__fresh_storage()));
        }
        for (uint32_t k = 0; node->kind == CR_NODE_CALL && k < node->nvalues; k++)
            CR_TRY(follow(p, node, node->first + k));
    }
    return CR_OK;
}

cr_status cr_graph_part_inputs(const cr_graph *g, const bool *which, cr_graph **out) {
    parter p = { .from = g, .which = which };
    bool any = false;
    size_t i = 0;
    *out = NULL;
    for (uint32_t n = cr_graph_first(g); n != CR_NO_NODE && !any; n = cr_graph_next(g, n)) {
        const cr_node *node = cr_graph_node(g, n);
        if (node->kind != CR_NODE_PLACEHOLDER) return CR_OK;
        uint64_t storage = storage_of(g, node->first);
        any = which[i++] && storage && is_shared(&p, n, storage);
    }
    if (!any) return CR_OK;
    p.fresh = cr_calloc(cr_graph_value_count(g) + 1u, sizeof *p.fresh);
    cr_status status = p.fresh ? cr_graph_copy(g, &p.to) : CR_ENOMEM;
    if (!status) status = part_all(&p);
    cr_free(p.fresh);
    if (status) return cr_graph_release(p.to), status;
    *out = p.to;
    return CR_OK;
}
