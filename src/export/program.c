/* program.c: life of a program, its state by name, and whether its parts agree. */
#include "export/internal.h"
#include "sym/shape.h"

cr_status cr__program_create(cr_program **out) {
    cr_program *p = cr_calloc(1, sizeof *p);
    if (!p) return CR_ENOMEM;
    p->refs = 1;
    p->name = p->torch_version = p->dialect = "";
    cr_arena_init(&p->arena);
    cr_map_init(&p->names);
    cr_map_init(&p->exprs);
    cr_status status = cr_graph_create(NULL, &p->graph);
    if (status) {
        cr_free(p);
        return status;
    }
    pthread_mutex_init(&p->lock, NULL);
    *out = p;
    return CR_OK;
}

cr_status cr__program_create_on(cr_program *base, cr_program **out) {
    cr_program *q;
    CR_TRY(cr__program_create(&q));
    cr_program_retain(q->base = base);
    q->inputs = base->inputs, q->ninputs = base->ninputs;
    q->state = base->state, q->nstate = base->nstate;
    q->constants = base->constants, q->nconstants = base->nconstants;
    q->ranges = base->ranges, q->nranges = base->nranges;
    q->guards = base->guards, q->nguards = base->nguards;
    q->example = base->example, q->nexample = base->nexample;
    q->in_spec = base->in_spec;
    q->name = base->name, q->torch_version = base->torch_version, q->dialect = base->dialect;
    *out = q;
    return CR_OK;
}

pthread_mutex_t *cr_program_lock(const cr_program *p) {
    while (p->base) p = p->base;
    return &((cr_program *)p)->lock;
}

void cr_program_retain(cr_program *p) { __atomic_add_fetch(&p->refs, 1, __ATOMIC_RELAXED); }

void cr_program_release(cr_program *p) {
    if (!p || __atomic_sub_fetch(&p->refs, 1, __ATOMIC_ACQ_REL)) return;
    for (size_t i = 0; i < p->nstate && !p->base; i++) cr_tensor_release(p->state[i].tensor);
    for (size_t i = 0; i < p->nconstants && !p->base; i++) cr_tensor_release(p->constants[i].tensor);
    for (size_t i = 0; i < p->nexample && !p->base; i++)
        if (p->example[i].kind == CR_ARG_TENSOR) cr_tensor_release(p->example[i].u.t); /* other kinds are the arena's */
    for (size_t i = 0; i < p->ncalls; i++) {
        cr_tree_release(p->calls[i].in_spec);
        cr_tree_release(p->calls[i].out_spec);
    }
    cr_graph_release(p->graph);
    for (size_t i = 0; i < p->replaced.n; i++) cr_tensor_release(p->replaced.at[i]);
    cr_vec_dispose(&p->replaced);
    cr_map_dispose(&p->names);
    cr_map_dispose(&p->exprs);
    cr_arena_dispose(&p->arena);
    cr_zip_release(p->archive);
    cr_program_release(p->base);
    pthread_mutex_destroy(&p->lock);
    cr_free(p);
}

cr_tensor *cr_program_tensor(const cr_program *p, const char *target) {
    uint64_t found;
    if (cr_map_find_str(&p->names, target, &found)) return ((const cr_named_tensor *)(uintptr_t)found)->tensor;
    return p->base ? cr_program_tensor(p->base, target) : NULL;
}

/* ---- checks ---- */

static const char *const state_kinds[] = {
    [CR_INPUT_PARAMETER] = "parameter", [CR_INPUT_BUFFER] = "buffer", [CR_INPUT_TENSOR_CONSTANT] = "constant"
};

static bool same_sizes(const cr_meta *a, const cr_meta *b) {
    bool same = a->dtype == b->dtype && a->rank == b->rank;
    for (int d = 0; same && d < a->rank; d++) same = a->size[d] == b->size[d];
    return same;
}

static cr_status check_tensor(const cr_program *p, const cr_input_spec *spec, const cr_value *v) {
    const cr_tensor *t = cr_program_tensor(p, spec->target);
    if (!t) return CR_FAIL(CR_EFORMAT, "the archive has no tensor for %s '%s'", state_kinds[spec->kind], spec->target);
    if (!v->meta || same_sizes(v->meta, &t->meta)) return CR_OK;
    cr_str have, want;
    cr_str_init(&have);
    cr_str_init(&want);
    cr_meta_print(NULL, &t->meta, &have);
    cr_meta_print(cr_graph_env(p->graph), v->meta, &want);
    cr_status status = CR_FAIL(CR_EFORMAT, "%s '%s' is %s, the graph's input '%s' is %s", state_kinds[spec->kind],
                               spec->target, cr_str_get(&have), v->name, cr_str_get(&want));
    cr_str_dispose(&have);
    cr_str_dispose(&want);
    return status;
}

cr_status cr__check_state(const cr_program *p) {
    size_t i = 0;
    for (uint32_t n = cr_graph_first(p->graph); i < p->ninputs && n != CR_NO_NODE; n = cr_graph_next(p->graph, n), i++)
        if (p->inputs[i].target)
            CR_TRY(check_tensor(p, &p->inputs[i], cr_graph_value(p->graph, cr_graph_node(p->graph, n)->first)));
    return CR_OK;
}

/* ---- the sizes that a program serves ---- */

const cr_symbol_range *cr__range_of(const cr_program *p, const char *symbol) {
    for (size_t i = 0; i < p->nranges; i++)
        if (!strcmp(p->ranges[i].symbol, symbol)) return &p->ranges[i];
    return NULL;
}

static cr_status open_symbols(const cr_program *p, cr_sym e) {
    const cr_symbol_range *r = cr_sym_kind_of(e) == CR_SYM_SYMBOL ? cr__range_of(p, cr_sym_name(e)) : NULL;
    for (size_t i = 0; i < cr_sym_operand_count(e); i++) CR_TRY(open_symbols(p, cr_sym_operand(e, i)));
    return r && r->range.lo >= 0 && r->range.lo <= 2 ? cr_shape_open_size(cr_graph_env(p->graph), e) : CR_OK;
}

cr_status cr__open_sizes(const cr_program *p) {
    size_t i = 0;
    for (uint32_t n = cr_graph_first(p->graph); i < p->ninputs && n != CR_NO_NODE;
         n = cr_graph_next(p->graph, n), i++) {
        const cr_value *v = cr_graph_value(p->graph, cr_graph_node(p->graph, n)->first);
        if (p->inputs[i].kind != CR_INPUT_USER) continue;
        if (v->expr) CR_TRY(open_symbols(p, v->expr));
        for (int d = 0; v->meta && d < v->meta->rank; d++)
            if (!cr_dim_is_plain(v->meta->size[d]))
                CR_TRY(open_symbols(p, cr_dim_sym(cr_graph_env(p->graph), v->meta->size[d])));
    }
    return CR_OK;
}

cr_status cr_program_verify(const cr_program *p) {
    CR_TRY(cr__check_signature(p));
    CR_TRY(cr__check_state(p));
    pthread_mutex_t *lock = cr_program_lock(p); /* inference makes expressions of the graph's environment */
    pthread_mutex_lock(lock);
    cr_status status = cr_graph_verify(p->graph, CR_VERIFY_SIZES);
    pthread_mutex_unlock(lock);
    return status;
}
