/* segment.c: which of a walk's next nodes can be one graph, what that graph depends on, and running it in their place.
 * See walk_graphs.h. */
#include "autograd/segment.h"

enum { MOST_NODES = CR_LIMIT(1 << 14, 3) }; /* of one graph */

static _Thread_local cr_walk_graphs *used; /* owned */

cr_walk_graphs *cr_walk_graphs_use(cr_walk_graphs *g) {
    cr_walk_graphs *before = used;
    used = g;
    return before;
}

/* ---- which nodes ---- */

/* Is there anything that cannot be written down as a constant of the structure? */
static bool is_opaque(const cr_arg *args, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (args[i].kind == CR_ARG_LIST && is_opaque(args[i].u.list, args[i].n)) return true;
        if (args[i].kind == CR_ARG_GRAPH || args[i].kind == CR_ARG_GENERATOR || args[i].kind == CR_ARG_SYM) return true;
        if (args[i].kind == CR_ARG_TENSOR && args[i].u.t && args[i].u.t->mapped) return true;
    }
    return false;
}

/* hooked: those of its results do not count. */
static bool has_hooks(const cr_grad_node *n, bool hooked) {
    const cr__autograd *leaf = n->leaf ? cr__autograd_get(n->leaf) : NULL;
    if (leaf && (leaf->hooks.n || leaf->after.n)) return true;
    return (n->hooks.n && !hooked) || (n->extra && (n->extra->before.n || n->extra->after.n || n->extra->packed));
}

/* Does the walk have to come to it by itself? */
static bool is_barrier(const cr_grad_node *n, bool hooked) {
    cr__inlined program;
    if (has_hooks(n, hooked)) return true;
    if (n->leaf) return false;
    if (!n->op) return !cr__aot_inlined(n, &program);
    return n->underived || n->walked || (n->op->tags & (CR_TAG_CUSTOM | CR_TAG_HIGHER_ORDER)) ||
           is_opaque(n->args, n->nargs) || is_opaque(n->results, n->nresults);
}

bool cr__segment_waits(const cr__pending *p) {
    return !p->hooked && p->node->hooks.n && !p->node->leaf && !is_barrier(p->node, true);
}

typedef struct scan { cr__segment *s; CR_VEC(size_t) heap; } scan;

static uint64_t order_at(const scan *c, size_t i) { return c->s->w->all.at[c->heap.at[i]].order; }

static void swap(scan *c, size_t i, size_t k) {
    size_t place = c->heap.at[i];
    c->heap.at[i] = c->heap.at[k];
    c->heap.at[k] = place;
}

/* Once each: a member number beyond all marks what waits. */
static cr_status scan_push(scan *c, size_t place) {
    cr__pending *p = &c->s->w->all.at[place];
    if (p->member) return CR_OK;
    if (p->node->leaf && !has_hooks(p->node, false)) return CR_OK; /* filled when the walk comes to it */
    CR_TRY(cr_vec_push(&c->heap, place));
    p->member = UINT32_MAX;
    for (size_t i = c->heap.n - 1; i && order_at(c, (i - 1) / 2) < order_at(c, i); i = (i - 1) / 2)
        swap(c, i, (i - 1) / 2);
    return CR_OK;
}

static size_t scan_pop(scan *c) {
    size_t top = c->heap.at[0], i = 0;
    c->heap.at[0] = c->heap.at[--c->heap.n];
    for (;;) {
        size_t most = i;
        for (size_t k = 2 * i + 1; k < 2 * i + 3 && k < c->heap.n; k++)
            if (order_at(c, k) > order_at(c, most)) most = k;
        if (most == i) return top;
        swap(c, i, most);
        i = most;
    }
}

static cr_status add_member(cr__segment *s, size_t place) {
    cr_grad_node *n = s->w->all.at[place].node;
    CR_TRY(cr_vec_push(&s->members, (cr__member){ .place = place, .node = n, .grad = s->ngrads }));
    s->w->all.at[place].member = (uint32_t)s->members.n;
    s->ngrads += n->nouts;
    return CR_OK;
}

static bool leads_on(const cr__walk *w, const cr_grad_node *n) {
    for (uint32_t i = 0; i < n->nslots; i++)
        if (cr__walk_wants(w, &n->slots[i].edge)) return true;
    return false;
}

static cr_status scan_nodes(cr__segment *s, scan *c) {
    cr__walk *w = s->w;
    for (size_t i = 0; i < w->heap.n; i++)
        if (!w->captures || w->all.at[w->heap.at[i]].needed) CR_TRY(scan_push(c, w->heap.at[i]));
    while (c->heap.n && s->members.n < MOST_NODES) {
        size_t place = scan_pop(c);
        cr_grad_node *n = w->all.at[place].node;
        w->all.at[place].member = 0;
        if (is_barrier(n, w->all.at[place].hooked)) break;
        if (!leads_on(w, n)) continue; /* it was asked for its own gradient */
        CR_TRY(add_member(s, place));
        for (uint32_t i = 0; i < n->nslots; i++) {
            size_t to;
            if (!cr__walk_wants(w, &n->slots[i].edge)) continue;
            CR_TRY(cr__walk_place(w, n->slots[i].edge.node, &to));
            CR_TRY(scan_push(c, to));
        }
    }
    return CR_OK;
}

static cr_status find_nodes(cr__segment *s) {
    scan c = { .s = s };
    cr_status status = scan_nodes(s, &c);
    for (size_t i = 0; i < c.heap.n; i++) s->w->all.at[c.heap.at[i]].member = 0; /* waits, but not for this */
    cr_vec_dispose(&c.heap);
    s->run = s->members.n;
    return status;
}

/* ---- the structure ---- */

static cr_status put(cr__segment *s, const void *bytes, size_t n) {
    CR_TRY(cr_vec_reserve(&s->key, s->key.n + n));
    memcpy(s->key.at + s->key.n, bytes, n);
    s->key.n += n;
    return CR_OK;
}

static cr_status put_word(cr__segment *s, uint64_t word) { return put(s, &word, sizeof word); }

static cr_status put_number(cr__segment *s, int64_t number, cr__number_kind kind) {
    s->strange |= !cr_dim_is_plain(number);
    CR_TRY(cr_vec_push(&s->numbers, number));
    return cr_vec_push(&s->kinds, (uint8_t)kind);
}

static cr_status put_numbers(cr__segment *s, const cr_dim *at, int n, cr__number_kind kind) {
    for (int d = 0; d < n; d++) CR_TRY(put_number(s, at[d], kind));
    return CR_OK;
}

static cr_status put_meta(cr__segment *s, uint8_t dtype, uint8_t rank, uint8_t flags, cr_device device) {
    uint8_t bytes[] = { dtype, rank, (uint8_t)(flags & ~CR_META_REQUIRES_GRAD), (uint8_t)device.type,
                        (uint8_t)device.index };
    return put(s, bytes, sizeof bytes);
}

static cr_status put_tensor(cr__segment *s, const cr_meta *m) {
    CR_TRY(put_meta(s, m->dtype, m->rank, m->flags, m->device));
    CR_TRY(put_numbers(s, m->size, m->rank, CR__NUMBER_SIZE));
    return put_numbers(s, m->stride, m->rank, CR__NUMBER_STRIDE);
}

/* Texts of derivatives cannot ask where in its memory a tensor begins; those in C do (as_strided). */
bool cr__segment_reads_offsets(const cr_grad_node *n) { return n->op && n->op->base->row->grad_fn; }

/* Of a tensor that is not kept there may be its shape alone. */
static cr_status put_slot(cr__segment *s, const cr_grad_node *n, const cr__slot *slot, const cr_tensor *t) {
    uint8_t known = (uint8_t)(slot->kept | (t != NULL) << 1 | (slot->shape != 0) << 2);
    CR_TRY(put(s, &known, 1));
    const cr__shape *m = slot->shape ? (const cr__shape *)((const uint64_t *)n + slot->shape) : NULL;
    if (cr__segment_reads_offsets(n) && (t || m)) CR_TRY(put_word(s, (uint64_t)(t ? t->meta.offset : m->offset)));
    if (t) return put_tensor(s, &t->meta);
    if (!m) return CR_OK;
    CR_TRY(put_meta(s, m->dtype, m->rank, m->flags, m->device));
    CR_TRY(put_numbers(s, m->dims, m->rank, CR__NUMBER_SIZE));
    return put_numbers(s, m->dims + m->rank, m->rank, CR__NUMBER_STRIDE);
}

static cr_status put_args(cr__segment *s, const cr_grad_node *n, const cr__slot *slots, uint32_t *at,
                          const cr_arg *args, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const cr_arg *a = &args[i];
        CR_TRY(put(s, &a->kind, 1));
        switch ((cr_arg_kind)a->kind) {
        case CR_ARG_TENSOR:
            CR_TRY(put_slot(s, n, &slots[*at], a->u.t));
            ++*at;
            break;
        case CR_ARG_LIST:
            CR_TRY(put_word(s, a->n));
            CR_TRY(put_args(s, n, slots, at, a->u.list, a->n));
            break;
        case CR_ARG_INT: CR_TRY(put_number(s, a->u.i, CR__NUMBER_INT)); break;
        case CR_ARG_FLOAT: CR_TRY(put(s, &a->u.f, sizeof a->u.f)); break;
        case CR_ARG_COMPLEX: CR_TRY(put(s, a->u.c, 2 * sizeof *a->u.c)); break;
        case CR_ARG_STR:
            CR_TRY(put_word(s, a->n));
            CR_TRY(put(s, a->u.s, a->n));
            break;
        case CR_ARG_DEVICE: {
            uint8_t device[] = { (uint8_t)a->u.device.type, (uint8_t)a->u.device.index };
            CR_TRY(put(s, device, sizeof device));
            break;
        }
        case CR_ARG_NONE: break;
        default: CR_TRY(put_word(s, (uint64_t)a->u.i)); break;
        }
    }
    return CR_OK;
}

static cr_status put_program(cr__segment *s, const cr__inlined *p) {
    CR_TRY(put_word(s, (uintptr_t)p->aot));
    uint32_t unused = 0;
    CR_TRY(put_args(s, NULL, NULL, &unused, p->numbers, p->aot->cut.nnumbers));
    for (uint32_t i = 0; i < p->aot->cut.nsaved; i++) CR_TRY(put_tensor(s, &p->saved[i]->meta));
    for (uint32_t i = 0; i < p->aot->joint.ntangents; i++) CR_TRY(put_tensor(s, &p->tangents[i]));
    return CR_OK;
}

static bool is_observed(const cr__walk *w, const cr_grad_node *n) {
    for (size_t i = 0; w->captures && i < w->b->ninputs; i++)
        if (w->captures[i].edge.node == n) return true;
    return n->keepers.n != 0;
}

static cr_status put_edges(cr__segment *s, const cr_grad_node *n) {
    for (uint32_t i = 0; i < n->nslots; i++) {
        const cr__edge *e = &n->slots[i].edge;
        size_t to;
        if (!cr__walk_wants(s->w, e)) {
            CR_TRY(put_word(s, 0));
            continue;
        }
        CR_TRY(cr__walk_place(s->w, e->node, &to));
        if (!s->w->all.at[to].member) CR_TRY(add_member(s, to));
        CR_TRY(put_word(s, (uint64_t)s->w->all.at[to].member << 32 | e->result));
    }
    return CR_OK;
}

static cr_status put_node(cr__segment *s, size_t at) {
    const cr_grad_node *n = s->members.at[at].node;
    cr__inlined program;
    uint32_t slot = 0, out = 0;
    s->members.at[at].number = s->numbers.n;
    s->members.at[at].observed = is_observed(s->w, n);
    CR_TRY(put_word(s, (uintptr_t)n->op));
    CR_TRY(put_word(s, (uint64_t)s->members.at[at].observed << 32 | n->nouts));
    CR_TRY(put_word(s, n->nslots));
    if (!n->op && cr__aot_inlined(n, &program)) {
        CR_TRY(put_program(s, &program));
    } else {
        CR_TRY(put_args(s, n, n->slots, &slot, n->args, n->nargs));
        for (uint16_t i = 0; i < n->nresults; i++) {
            bool unread = cr__saved_is_unread(n, i);
            CR_TRY(put(s, &(uint8_t){ unread }, 1));
            if (unread) out++;
            else CR_TRY(put_args(s, n, n->outs, &out, &n->results[i], 1));
        }
    }
    return put_edges(s, n);
}

static cr_status put_structure(cr__segment *s) {
    int dtype = cr_default_dtype();
    CR_TRY(put_word(s, s->run));
    CR_TRY(put(s, &dtype, sizeof dtype));
    for (size_t i = 0; i < s->run; i++) CR_TRY(put_node(s, i));
    s->came = s->numbers.n;
    for (size_t i = 0; i < s->members.n; i++) {
        const cr__pending *p = &s->w->all.at[s->members.at[i].place];
        for (uint32_t k = 0; k < p->node->nouts; k++) {
            CR_TRY(put(s, &(uint8_t){ p->grads[k] != NULL }, 1));
            if (p->grads[k]) CR_TRY(put_tensor(s, &p->grads[k]->meta));
        }
    }
    return CR_OK;
}

/* ---- running one ---- */

typedef struct held { CR_VEC(cr_tensor *) at; } held;

/* Tensors that are kept, in order; each retained. */
static cr_status hold_args(held *h, const cr__slot *slots, uint32_t *at, const cr_arg *args, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (args[i].kind == CR_ARG_LIST) CR_TRY(hold_args(h, slots, at, args[i].u.list, args[i].n));
        if (args[i].kind != CR_ARG_TENSOR || !slots[(*at)++].kept) continue;
        CR_TRY(cr_vec_push(&h->at, args[i].u.t));
        cr_tensor_retain(args[i].u.t);
    }
    return CR_OK;
}

static cr_status hold_op(held *h, cr_grad_node *n, bool forget) {
    cr_arg args[CR_MAX_PARAMS] = { { 0 } }, results[CR__MAX_RESULTS] = { { 0 } };
    uint64_t lent;
    uint32_t slot = 0, out = 0;
    cr_status status = cr__saved_open(n, false, forget, args, &lent, results);
    if (!status) status = hold_args(h, n->slots, &slot, args, n->nargs);
    for (uint16_t i = 0; i < n->nresults && !status; i++) {
        if (results[i].kind == CR_ARG_NONE && n->singles >> i & 1) out++; /* nobody reads it */
        else status = hold_args(h, n->outs, &out, &results[i], 1);
    }
    cr__args_drop(args, lent);
    cr_results_release(args, n->nargs);
    cr_results_release(results, n->nresults);
    return status;
}

static cr_status hold_program(held *h, cr_grad_node *n, const cr__inlined *p, bool forget) {
    CR_TRY(cr__aot_check_saved(n));
    for (uint32_t i = 0; i < p->aot->cut.nsaved; i++) {
        CR_TRY(cr_vec_push(&h->at, p->saved[i]));
        cr_tensor_retain(p->saved[i]);
    }
    if (forget) n->table->forget(n->user);
    return CR_OK;
}

/* Everything that the graph takes, as it was recorded: numbers are the caller's. */
static cr_status hold_all(const cr__segment *s, const cr__entry *e, bool forget, held *h) {
    for (size_t i = 0; i < s->members.n; i++) {
        const cr__pending *p = &s->w->all.at[s->members.at[i].place];
        for (uint32_t k = 0; k < p->node->nouts; k++) {
            if (!p->grads[k]) continue;
            CR_TRY(cr_vec_push(&h->at, p->grads[k]));
            cr_tensor_retain(p->grads[k]);
        }
    }
    for (size_t i = 0; i < s->run; i++) {
        cr_grad_node *n = s->members.at[i].node;
        cr__inlined program;
        if (!e->visited[i]) continue;
        CR_TRY(!n->op && cr__aot_inlined(n, &program) ? hold_program(h, n, &program, forget) : hold_op(h, n, forget));
    }
    return CR_OK;
}

/* What the graph gave, to where it goes; takes the results over. */
static cr_status place_results(cr__segment *s, const cr__entry *e, cr_arg *results) {
    cr__walk *w = s->w;
    cr_status status = CR_OK;
    for (size_t i = 0; i < s->run; i++) { /* they have run */
        cr__pending *p = &w->all.at[s->members.at[i].place];
        p->queued = false;
        for (uint32_t k = 0; k < p->node->nouts; k++) {
            cr_tensor_release(p->grads[k]);
            p->grads[k] = NULL;
        }
    }
    cr__walk_drop(w);
    for (size_t i = 0; i < e->results.n; i++) {
        const cr__result r = e->results.at[i];
        size_t place = s->members.at[r.member].place;
        cr_tensor *given = results[i].kind == CR_ARG_TENSOR ? results[i].u.t : NULL;
        cr_tensor **grad = &w->all.at[place].grads[r.result];
        results[i] = cr_arg_none();
        cr_tensor_release(*grad);
        *grad = given;
        if (r.member >= s->run && !status) status = cr__walk_push(w, place);
    }
    for (size_t i = 0; i < s->run; i++) { /* those that somebody sees */
        const cr__pending p = w->all.at[s->members.at[i].place];
        if (s->members.at[i].observed && !status) status = cr__walk_show(w, &p);
        for (uint32_t k = 0; k < p.node->nouts; k++) {
            cr_tensor_release(p.grads[k]);
            p.grads[k] = NULL;
        }
    }
    return status;
}

static bool look_up(void *user, cr_sym symbol, cr_sym_value *out) {
    const cr__bound *b = user;
    for (size_t i = 0; i < b->entry->symbols.n; i++)
        if (b->entry->symbols.at[i] == symbol) return *out = b->values[i], true;
    return false;
}

/* Do the numbers fit the entry? The values of its symbols. */
bool cr__segment_fits(const cr__segment *s, const cr__entry *e, cr_sym_value *values) {
    const cr__bound b = { e, values };
    bool known[CR__MOST_SYMBOLS] = { false };
    if (e->nnumbers != s->numbers.n) return false;
    for (size_t i = 0; i < e->nnumbers; i++) {
        cr_sym expr = cr_dim_is_plain(e->dims[i]) ? NULL : cr_dim_sym(e->env, e->dims[i]);
        if (!expr && e->dims[i] != s->numbers.at[i]) return false;
        if (!expr || cr_sym_kind_of(expr) != CR_SYM_SYMBOL) continue;
        for (size_t k = 0; k < e->symbols.n; k++) {
            if (e->symbols.at[k] != expr) continue;
            if (known[k] && values[k].i != s->numbers.at[i]) return false;
            known[k] = true;
            values[k] = (cr_sym_value){ CR_TYPE_INT, s->numbers.at[i], 0 };
            if (values[k].i < e->ranges[k].lo || values[k].i > e->ranges[k].hi) return false;
        }
    }
    for (size_t i = 0; e->symbols.n && i < e->nnumbers; i++) {
        cr_sym_value is;
        if (cr_dim_is_plain(e->dims[i])) continue;
        if (cr_sym_eval(cr_dim_sym(e->env, e->dims[i]), look_up, (void *)&b, &is) || is.i != s->numbers.at[i])
            return false;
    }
    for (size_t i = 0; e->symbols.n && i < cr_env_cond_count(e->env); i++) {
        cr_sym_value truth;
        if (cr_sym_eval(cr_env_cond(e->env, i).condition, look_up, (void *)&b, &truth) || !truth.i) return false;
    }
    return true;
}

static cr_status inputs_of(const cr__entry *e, const cr_sym_value *values, const held *h, cr_arg **out) {
    size_t n = e->symbols.n;
    if (n + h->at.n != e->ninputs)
        return CR_FAIL(CR_ERUNTIME, "a backward graph takes %zu inputs and gets %zu", e->ninputs, n + h->at.n);
    if (!(*out = cr_calloc(e->ninputs + 1, sizeof **out))) return CR_ENOMEM;
    for (size_t i = 0; i < n; i++) (*out)[i] = cr_arg_int(values[i].i);
    for (size_t i = 0; i < h->at.n; i++) (*out)[n + i] = cr_arg_tensor(h->at.at[i]);
    return CR_OK;
}

static void held_dispose(held *h) {
    for (size_t i = 0; i < h->at.n; i++) cr_tensor_release(h->at.at[i]);
    cr_vec_dispose(&h->at);
}

static cr_status run_entry(cr__segment *s, const cr__entry *e, const cr_sym_value *values) {
    held h = { 0 };
    cr_arg *inputs = NULL, *results = cr_calloc(e->results.n + 1, sizeof *results);
    cr_status status = results ? hold_all(s, e, !s->w->b->keep, &h) : CR_ENOMEM;
    if (!status) status = inputs_of(e, values, &h, &inputs);
    if (!status) status = e->code.run(e->code.code, inputs, e->ninputs, results, e->results.n);
    held_dispose(&h);
    if (!status) status = place_results(s, e, results);
    cr_free(inputs);
    cr_free(results);
    return status;
}

/* The inputs of a graph that is new, for its compiler. */
static cr_status compile(const cr__segment *s, cr__entry *e, cr_graph *g, const cr_sym_value *values,
                         const cr_walk_table *table, void *user) {
    held h = { 0 };
    cr_arg *inputs = NULL;
    cr_status status = hold_all(s, e, false, &h);
    if (!status) status = inputs_of(e, values, &h, &inputs);
    if (!status) status = table->compile(user, g, inputs, e->ninputs, &e->code);
    held_dispose(&h);
    cr_free(inputs);
    return status;
}

/* ---- finding and keeping them ---- */

typedef struct family { CR_VEC(cr__entry *) entries; bool full; } family; /* of one structure */
struct cr_walk_graphs {
    int64_t refs; /* atomic */
    cr_walk_table table;
    void *user;
    bool dynamic;
    uint32_t limit;
    int lock;     /* atomic: of what follows */
    cr_map index; /* structure -> place in `families` */
    CR_VEC(family *) families;
};

cr_status cr_walk_graphs_create(const cr_walk_table *table, void *user, bool dynamic, uint32_t limit,
                                cr_walk_graphs **out) {
    cr_walk_graphs *g = cr_calloc(1, sizeof *g);
    if (!g) {
        if (table->release) table->release(user);
        return CR_ENOMEM;
    }
    *g = (cr_walk_graphs){ .refs = 1, .table = *table, .user = user, .dynamic = dynamic, .limit = limit };
    cr_map_init(&g->index);
    *out = g;
    return CR_OK;
}

void cr_walk_graphs_retain(cr_walk_graphs *g) { __atomic_add_fetch(&g->refs, 1, __ATOMIC_RELAXED); }

void cr_walk_graphs_forget(cr_walk_graphs *g) {
    cr__lock(&g->lock);
    struct cr_walk_graphs old = *g;
    cr_map_init(&g->index);
    memset(&g->families, 0, sizeof g->families);
    cr__unlock(&g->lock);
    for (size_t i = 0; i < old.families.n; i++) { /* releasing code may run anything */
        for (size_t k = 0; k < old.families.at[i]->entries.n; k++)
            cr__entry_release(old.families.at[i]->entries.at[k]);
        cr_vec_dispose(&old.families.at[i]->entries);
        cr_free(old.families.at[i]);
    }
    cr_vec_dispose(&old.families);
    cr_map_dispose(&old.index);
}

void cr_walk_graphs_release(cr_walk_graphs *g) {
    if (!g || __atomic_sub_fetch(&g->refs, 1, __ATOMIC_ACQ_REL)) return;
    cr_walk_graphs_forget(g);
    if (g->table.release) g->table.release(g->user);
    cr_free(g);
}

/* Made when absent; under the lock. */
static cr_status family_of(cr_walk_graphs *g, const cr__segment *s, family **out) {
    uint64_t at;
    if (cr_map_find(&g->index, s->key.at, s->key.n, &at)) return *out = g->families.at[at], CR_OK;
    family *f = cr_calloc(1, sizeof *f);
    cr_status status = f ? cr_vec_reserve(&g->families, g->families.n + 1) : CR_ENOMEM;
    if (!status) status = cr_map_put(&g->index, s->key.at, s->key.n, g->families.n);
    if (status) return cr_free(f), status;
    *out = g->families.at[g->families.n++] = f;
    return CR_OK;
}

/* What is open in a new entry: what is in the last one, and what differs from it. NULL: nothing, or it is the first. */
static cr_status find_open(const cr__segment *s, const cr__entry *last, bool **open, int64_t **from) {
    bool any = false;
    *open = NULL;
    *from = NULL;
    if (!last || last->nnumbers != s->numbers.n) return CR_OK;
    *open = cr_calloc(s->numbers.n + 1, sizeof **open);
    *from = cr_calloc(s->numbers.n + 1, sizeof **from);
    if (!*open || !*from) return CR_ENOMEM;
    for (size_t i = 0; i < s->numbers.n; i++) {
        int64_t before = last->dims[i];
        bool symbolic = !cr_dim_is_plain(before);
        if (symbolic && !cr_dim_hint(last->env, before, &before)) continue;
        (*from)[i] = before;
        (*open)[i] = s->kinds.at[i] != CR__NUMBER_STRIDE && (symbolic || before != s->numbers.at[i]) &&
                     s->numbers.at[i] > 1 && before > 1;
        any |= (*open)[i];
    }
    if (any) return CR_OK;
    cr_free(*open);
    *open = NULL;
    return CR_OK;
}

/* One with open sizes where that can be, else one for these sizes alone. */
static cr_status capture(cr__segment *s, cr_walk_graphs *g, const cr__entry *last, cr__entry **out) {
    bool *open = NULL;
    int64_t *from = NULL;
    cr_graph *graph = NULL;
    cr_sym_value values[CR__MOST_SYMBOLS];
    cr_status status = g->dynamic ? find_open(s, last, &open, &from) : CR_OK;
    if (!status && open) {
        status = cr__segment_capture(s, open, from, out, &graph);
        if (status && status != CR_ENOMEM) {
            cr_free(open);
            open = NULL;
            status = CR_OK;
        }
    }
    if (!status && !open) status = cr__segment_capture(s, NULL, NULL, out, &graph);
    cr_free(open);
    cr_free(from);
    if (status) return status;
    if (!cr__segment_fits(s, *out, values)) status = CR_FAIL(CR_EUNSUPPORTED, "its sizes do not fit its own graph");
    if (!status) status = compile(s, *out, graph, values, &g->table, g->user);
    cr_graph_release(graph);
    if (status) cr__entry_release(*out);
    return status;
}

/* Owned; NULL: none fits. *full: no more may be made. *last: the newest of the structure, owned. */
static cr_status find_entry(cr_walk_graphs *g, const cr__segment *s, cr_sym_value *values, cr__entry **out, bool *full,
                            cr__entry **last) {
    family *f;
    *out = *last = NULL;
    cr__lock(&g->lock);
    cr_status status = family_of(g, s, &f);
    for (size_t i = status ? 0 : f->entries.n; i-- && !*out;)
        if (cr__segment_fits(s, f->entries.at[i], values)) *out = f->entries.at[i];
    if (!status && !*out && f->entries.n) *last = f->entries.at[f->entries.n - 1];
    *full = !status && f->entries.n >= g->limit;
    if (*out) __atomic_add_fetch(&(*out)->refs, 1, __ATOMIC_RELAXED);
    if (*last) __atomic_add_fetch(&(*last)->refs, 1, __ATOMIC_RELAXED);
    cr__unlock(&g->lock);
    return status;
}

static cr_status keep_entry(cr_walk_graphs *g, const cr__segment *s, cr__entry *e) {
    family *f;
    cr__lock(&g->lock);
    cr_status status = family_of(g, s, &f);
    if (!status) status = cr_vec_push(&f->entries, e);
    if (!status) __atomic_add_fetch(&e->refs, 1, __ATOMIC_RELAXED);
    cr__unlock(&g->lock);
    return status;
}

/* The rest of the walk goes node by node. */
static void go_plain(cr__walk *w, const char *why) {
    cr_walk_graphs *g = w->graphs;
    w->graphs = NULL;
    if (g->table.plain) g->table.plain(g->user, why);
}

/* A new entry, owned; NULL: there cannot be one, which is kept, too. */
static cr_status make_entry(cr__segment *s, const cr__entry *last, cr__entry **out) {
    cr_walk_graphs *g = s->w->graphs;
    cr__entry *made = NULL;
    *out = NULL;
    cr_status status = capture(s, g, last, &made);
    if (status == CR_ENOMEM || status == CR_EPYTHON) return status;
    if (status) { /* what is really wrong, the walk itself says */
        go_plain(s->w, cr_error_message());
        CR_TRY(cr__entry_create(s, &made));
        status = keep_entry(g, s, made);
        cr__entry_release(made);
        return status;
    }
    if (!s->w->told && g->table.captured) g->table.captured(g->user);
    s->w->told = true;
    status = keep_entry(g, s, made);
    if (status) cr__entry_release(made);
    else *out = made;
    return status;
}

static cr_status run_segment(cr__segment *s, bool *taken) {
    cr_walk_graphs *g = s->w->graphs;
    cr__entry *e = NULL, *last = NULL;
    cr_sym_value values[CR__MOST_SYMBOLS];
    bool full;
    if (s->strange) return go_plain(s->w, "sizes of its tensors are symbols"), CR_OK;
    cr_status status = find_entry(g, s, values, &e, &full, &last);
    if (!status && !e && full) go_plain(s->w, "it was captured with as many sizes as config.recompile_limit allows");
    else if (!status && !e) {
        cr_walk_graphs *before = used;
        used = NULL; /* compilers may walk back themselves */
        status = make_entry(s, last, &e);
        used = before;
        if (e && !cr__segment_fits(s, e, values)) status = CR_FAIL(CR_ERUNTIME, "a new backward graph does not fit");
    }
    cr__entry_release(last);
    if (e && !e->code.run) {
        s->w->graphs = NULL; /* the reason was told */
    } else if (!status && e) {
        *taken = true;
        status = run_entry(s, e, values);
    }
    cr__entry_release(e);
    return status;
}

cr_status cr__segment_run(cr__walk *w, bool *taken) {
    cr__segment s = { .w = w };
    *taken = false;
    cr_status status = find_nodes(&s);
    if (!status && s.run) status = put_structure(&s);
    if (!status && s.run) status = run_segment(&s, taken);
    for (size_t i = 0; i < s.members.n; i++) w->all.at[s.members.at[i].place].member = 0;
    cr_vec_dispose(&s.members);
    cr_vec_dispose(&s.key);
    cr_vec_dispose(&s.numbers);
    cr_vec_dispose(&s.kinds);
    return status;
}

void cr__segment_choose(cr__walk *w) {
    const cr_ambient *a = cr_ambient_get();
    if (!used || w->b->graph || a->mode.recorder || a->mode.fake || a->vmap || a->watch || a->transforms) return;
    cr_walk_graphs_retain(w->graphs = w->held = used);
    if (__atomic_load_n(&cr__anomaly_on, __ATOMIC_RELAXED)) go_plain(w, "detect_anomaly() is on");
}

void cr__segment_leave(cr__walk *w) { cr_walk_graphs_release(w->held); }
