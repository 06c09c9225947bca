/* guard.c: guards_code, which PyTorch writes as Python expressions over the arguments of forward:
 *
 *     L['d']['y'].size()[0] == (2*L['d']['x'].size()[0])
 *
 * An argument's place becomes a symbol, a few functions get the names of src/sym, and the rest is the infix language
 * that src/sym reads. A text that is not of this kind (strides, types, identities) is left out: sizes and constants are
 * checked by the plan in any case. */
#include "export/guard.h"
#include "export/internal.h"

#include <stdio.h>
#include <stdlib.h>

void cr__input_path(const cr_program *p, uint32_t leaf, cr_str *out) {
    cr_str path;
    cr_str_init(&path);
    cr_tree_leaf_path(p->in_spec, "", leaf, &path);
    const char *text = cr_str_get(&path);
    if (!strncmp(text, "[0]", 3) || !strncmp(text, "[1]", 3))
        cr_str_addf(out, "%s%s", text[1] == '0' ? "args" : "kwargs", text + 3);
    else cr_str_add(out, text);
    out->failed |= path.failed;
    cr_str_dispose(&path);
}

/* The same leaf as guards name it: L['d']['x']. Empty when forward's names are not known. */
static void local_path(const cr_program *p, uint32_t leaf, cr_str *out) {
    const cr_module_call *root = &p->calls[0];
    cr_str path;
    char *end;
    cr_str_init(&path);
    cr__input_path(p, leaf, &path);
    const char *text = cr_str_get(&path);
    if (!strncmp(text, "kwargs[", 7)) cr_str_addf(out, "L%s", text + 6);
    else if (!strncmp(text, "args[", 5)) {
        unsigned long i = strtoul(text + 5, &end, 10);
        if (*end == ']' && i < root->nnames) cr_str_addf(out, "L['%s']%s", root->forward_arg_names[i], end + 1);
    }
    out->failed |= path.failed;
    cr_str_dispose(&path);
}

/* ---- translation ---- */

typedef struct translator { cr__guards *g; char **leaves; size_t nleaves; } translator; /* leaves: owned texts */

/* The leaf whose text is the longest one at `at`. */
static bool find_leaf(const translator *t, const char *at, uint32_t *leaf, size_t *length) {
    *length = 0;
    for (size_t i = 0; i < t->nleaves; i++) {
        size_t n = strlen(t->leaves[i]);
        if (n <= *length || strncmp(at, t->leaves[i], n)) continue;
        *leaf = (uint32_t)i;
        *length = n;
    }
    return *length > 0;
}

static cr_status symbol_for(translator *t, uint32_t leaf, int dim, cr_str *out) {
    size_t k = 0;
    while (k < t->g->inputs.n && (t->g->inputs.at[k].input != leaf || t->g->inputs.at[k].dim != dim)) k++;
    if (k == t->g->inputs.n) CR_TRY(cr_vec_push(&t->g->inputs, (cr__guard_input){ leaf, dim }));
    cr_str_addf(out, "g%zu", k);
    return CR_OK;
}

static const struct { const char *python, *ours; } functions[] = {
    { "torch.sym_float(", "ToFloat(" },
    { "torch.sym_int(", "TruncToInt(" },
    { "torch.sym_max(", "Max(" },
    { "torch.sym_min(", "Min(" },
    { "torch.sym_not(", "Not(" },
    { "math.ceil(", "CeilToInt(" },
    { "math.floor(", "FloorToInt(" },
    { "math.trunc(", "TruncToInt(" },
    { "max(", "Max(" },
    { "min(", "Min(" },
};

/* *known = false: the text says something that has no translation. */
static cr_status translate(translator *t, const char *text, cr_str *out, bool *known) {
    static const char size[] = ".size()[";
    *known = false;
    for (const char *at = text; *at;) {
        uint32_t leaf;
        size_t n, f = 0;
        char *end;
        if (!strncmp(at, "L[", 2)) {
            if (!find_leaf(t, at, &leaf, &n)) return CR_OK;
            at += n;
            int dim = -1;
            if (!strncmp(at, size, sizeof size - 1)) {
                unsigned long d = strtoul(at + sizeof size - 1, &end, 10);
                if (*end != ']' || d >= CR_MAX_RANK) return CR_OK;
                dim = (int)d;
                at = end + 1;
            }
            if (*at == '.' || *at == '[') return CR_OK;
            CR_TRY(symbol_for(t, leaf, dim, out));
            continue;
        }
        while (f < CR_COUNT(functions) && strncmp(at, functions[f].python, strlen(functions[f].python))) f++;
        if (f < CR_COUNT(functions)) {
            cr_str_add(out, functions[f].ours);
            at += strlen(functions[f].python);
        } else if (*at == '\'' || *at == '"') {
            return CR_OK;
        } else {
            cr_str_addc(out, *at++);
        }
    }
    *known = true;
    return cr_str_status(out);
}

static cr_status read_guard(translator *t, const char *text) {
    cr_str ours;
    bool known;
    cr_sym e = NULL;
    cr_str_init(&ours);
    cr_status status = translate(t, text, &ours, &known);
    for (size_t k = 0; !status && known && k < t->g->inputs.n; k++) {
        char name[32];
        snprintf(name, sizeof name, "g%zu", k);
        if (!cr_sym_symbol(t->g->env, name, CR_TYPE_INT, INT64_MIN, INT64_MAX))
            status = CR_FAIL(CR_ENOMEM, "out of memory");
    }
    if (!status && known) {
        status = cr_sym_parse(t->g->env, cr_str_get(&ours), true, &e);
        if (status == CR_EFORMAT) status = CR_OK, e = NULL;
    }
    if (!status && e && cr_sym_type_of(e) == CR_TYPE_BOOL)
        status = cr_vec_push(&t->g->conds, (cr_cond){ CR_COND_GUARD, e, text });
    cr_str_dispose(&ours);
    return status;
}

cr_status cr__guards_init(cr__guards *g, const cr_program *p) {
    *g = (cr__guards){ 0 };
    if (!p->nguards) return CR_OK;
    CR_TRY(cr_env_create(&g->env));
    uint32_t n = cr_tree_root(p->in_spec)->nleaves;
    translator t = { .g = g, .leaves = cr_calloc(n + 1u, sizeof *t.leaves) };
    cr_status status = t.leaves ? CR_OK : CR_ENOMEM;
    for (uint32_t i = 0; i < n && !status; i++) {
        cr_str path;
        cr_str_init(&path);
        local_path(p, i, &path);
        status = cr_str_take(&path, &t.leaves[i]);
        if (!status) t.nleaves++;
        cr_str_dispose(&path);
    }
    for (size_t i = 0; i < p->nguards && !status; i++) status = read_guard(&t, p->guards[i]);
    for (size_t i = 0; i < t.nleaves; i++) cr_free(t.leaves[i]);
    cr_free(t.leaves);
    if (status) cr__guards_dispose(g);
    return status;
}

void cr__guards_dispose(cr__guards *g) {
    cr_vec_dispose(&g->inputs);
    cr_vec_dispose(&g->conds);
    cr_env_release(g->env);
    g->env = NULL;
}

/* ---- as conditions of the graph ---- */

typedef struct place { const cr__guards *g; const cr_program *p; bool known; } place;

/* The size or number of an input as the graph has it. */
static cr_sym as_in_graph(void *user, cr_sym symbol) {
    place *at = user;
    const cr__guard_input *in = &at->g->inputs.at[strtoul(cr_sym_name(symbol) + 1, NULL, 10)];
    cr_env *env = cr_graph_env(at->p->graph);
    uint32_t leaf = 0, i = 0;
    for (uint32_t n = cr_graph_first(at->p->graph); i < at->p->ninputs && n != CR_NO_NODE;
         n = cr_graph_next(at->p->graph, n), i++) {
        const cr_value *v = cr_graph_value(at->p->graph, cr_graph_node(at->p->graph, n)->first);
        if (at->p->inputs[i].kind != CR_INPUT_USER || leaf++ != in->input) continue;
        if (in->dim >= 0 && v->meta && in->dim < v->meta->rank) return cr_dim_sym(env, v->meta->size[in->dim]);
        if (in->dim < 0 && v->expr) return v->expr;
    }
    at->known = false;
    return cr_sym_int(env, 0);
}

cr_status cr_program_state_guards(const cr_program *p) {
    cr__guards g;
    CR_TRY(cr__guards_init(&g, p));
    cr_status status = CR_OK;
    for (size_t i = 0; i < g.conds.n && !status; i++) {
        place at = { &g, p, true };
        cr_sym e = cr_sym_substitute(cr_graph_env(p->graph), g.conds.at[i].condition, as_in_graph, &at);
        if (!e) status = CR_FAIL(CR_ENOMEM, "out of memory");
        else if (at.known) status = cr_env_add_cond(cr_graph_env(p->graph), CR_COND_GUARD, e, g.conds.at[i].message);
    }
    cr__guards_dispose(&g);
    return status;
}

/* ---- checking ---- */

typedef struct call { const cr__guards *g; const cr_arg *user; size_t n; } call;

static bool lookup(void *user, cr_sym symbol, cr_sym_value *out) {
    const call *c = user;
    const cr__guard_input *in = &c->g->inputs.at[strtoul(cr_sym_name(symbol) + 1, NULL, 10)];
    const cr_arg *a = in->input < c->n ? &c->user[in->input] : NULL;
    if (!a) return false;
    if (in->dim >= 0) {
        if (a->kind != CR_ARG_TENSOR || in->dim >= a->u.t->meta.rank || !cr_dim_is_plain(a->u.t->meta.size[in->dim]))
            return false;
        *out = (cr_sym_value){ CR_TYPE_INT, a->u.t->meta.size[in->dim], 0 };
        return true;
    }
    if ((a->kind != CR_ARG_INT && a->kind != CR_ARG_BOOL) || !cr_dim_is_plain(a->u.i)) return false;
    *out = (cr_sym_value){ CR_TYPE_INT, a->u.i, (double)a->u.i };
    return true;
}

cr_status cr__guards_check(const cr__guards *g, const cr_arg *user, size_t n) {
    call c = { g, user, n };
    for (size_t i = 0; i < g->conds.n; i++) {
        cr_sym_value holds;
        /* no value: it says nothing here */
        if (cr_sym_eval(g->conds.at[i].condition, lookup, &c, &holds) || holds.i) continue;
        return CR_FAIL(CR_EGUARD, "the program was exported for inputs with %s, which these do not have",
                       g->conds.at[i].message);
    }
    return CR_OK;
}
