/* program.c: what a program says of itself. */
#include "api/api.h"

#include "export/source.h"

#include <stdlib.h>

const char *cr_program_name(const cr_program *p) { return p->name; }

const char *cr_program_torch_version(const cr_program *p) { return p->torch_version; }

const char *cr_program_dialect(const cr_program *p) { return p->dialect; }

const char *cr_program_metadata(const cr_program *p) { return p->metadata; }

void cr_program_schema_version(const cr_program *p, int *major, int *minor) {
    *major = p->schema_major;
    *minor = p->schema_minor;
}

size_t cr_program_guard_count(const cr_program *p) { return p->nguards; }

const char *cr_program_guard(const cr_program *p, size_t i) { return i < p->nguards ? p->guards[i] : NULL; }

bool cr_program_has_example(const cr_program *p) {
    size_t inputs = 0;
    for (size_t i = 0; i < p->ninputs; i++) inputs += p->inputs[i].kind == CR_INPUT_USER;
    return p->nexample == inputs;
}

const char *cr_program_example_problem(const cr_program *p) { return p->example_problem; }

cr_graph *cr_program_graph(const cr_program *p) { return p->graph; }

size_t cr_program_state_count(const cr_program *p) { return p->nstate; }

const cr_named_tensor *cr_program_state(const cr_program *p, size_t i) { return i < p->nstate ? &p->state[i] : NULL; }

size_t cr_program_constant_count(const cr_program *p) { return p->nconstants; }

const cr_named_tensor *cr_program_constant(const cr_program *p, size_t i) {
    return i < p->nconstants ? &p->constants[i] : NULL;
}

/* ---- ops ---- */

struct cr_op_uses {
    cr_arena arena;
    cr_map index; /* name -> index in `all` */
    CR_VEC(cr_op_use) all;
};

const char *cr__node_op_name(const cr_node *node) {
    bool opaque = !strcmp(node->op->name, "cresset::opaque") && node->nargs && node->args[0].kind == CR_ARG_STR;
    return opaque ? node->args[0].u.s : node->op->name;
}

bool cr__node_source(const cr_node *node, cr_str *out) {
    cr__frame f;
    if (!cr__source_frame(&node->origin, true, &f)) return false;
    cr_str_addf(out, "%.*s:%.*s", f.path_length, f.path, f.line_length, f.line);
    if (f.code_length > 120) cr_str_addf(out, ": %.120s...", f.code);
    else if (f.code_length) cr_str_addf(out, ": %.*s", f.code_length, f.code);
    return true;
}

static bool is_known(const cr_program *p, const char *name) {
    for (size_t i = 0; i < p->nunsupported; i++)
        if (!strcmp(p->unsupported[i], name)) return false;
    return true;
}

static cr_status add_op(cr_op_uses *u, const cr_program *p, const char *name, const cr_node *node) {
    cr_op_use use = { .name = name, .count = 1, .order = u->all.n, .is_known = is_known(p, name) };
    cr_str source;
    cr_str_init(&source);
    bool told = !use.is_known && cr__node_source(node, &source);
    cr_status status = cr_str_status(&source);
    if (told && !status && !(use.source = cr_arena_strdup(&u->arena, cr_str_get(&source)))) status = CR_ENOMEM;
    cr_str_dispose(&source);
    CR_TRY(status);
    CR_TRY(cr_map_put_str(&u->index, name, u->all.n));
    return cr_vec_push(&u->all, use);
}

static cr_status count_ops(cr_op_uses *u, const cr_program *p, const cr_graph *g) {
    for (uint32_t n = cr_graph_first(g); n != CR_NO_NODE; n = cr_graph_next(g, n)) {
        const cr_node *node = cr_graph_node(g, n);
        uint64_t at;
        if (node->kind != CR_NODE_CALL) continue;
        const char *name = cr__node_op_name(node);
        if (cr_map_find_str(&u->index, name, &at)) u->all.at[at].count++;
        else CR_TRY(add_op(u, p, name, node));
    }
    for (size_t i = 0; i < cr_graph_subgraph_count(g); i++) CR_TRY(count_ops(u, p, cr_graph_subgraph(g, i)));
    return CR_OK;
}

static int by_count(const void *a, const void *b) {
    const cr_op_use *x = a, *y = b;
    if (x->count != y->count) return x->count < y->count ? 1 : -1;
    return strcmp(x->name, y->name);
}

cr_status cr_program_ops(const cr_program *p, cr_op_uses **out) {
    cr_op_uses *u = cr_calloc(1, sizeof *u);
    if (!u) return CR_ENOMEM;
    cr_arena_init(&u->arena);
    cr_map_init(&u->index);
    cr_status status = count_ops(u, p, p->graph);
    if (status) return cr_op_uses_free(u), status;
    if (u->all.n) qsort(u->all.at, u->all.n, sizeof *u->all.at, by_count);
    *out = u;
    return CR_OK;
}

size_t cr_op_uses_count(const cr_op_uses *u) { return u->all.n; }

const cr_op_use *cr_op_uses_at(const cr_op_uses *u, size_t i) { return i < u->all.n ? &u->all.at[i] : NULL; }

void cr_op_uses_free(cr_op_uses *u) {
    if (!u) return;
    cr_vec_dispose(&u->all);
    cr_map_dispose(&u->index);
    cr_arena_dispose(&u->arena);
    cr_free(u);
}
