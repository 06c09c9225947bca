/* fuse.c: groups of ops that one row kernel computes become regions, cresset::rows(body, operands).
 *
 * Groups grow in graph order: a node joins the groups of its producers where the whole still has one set of loops
 * (passes/rows.h). A group is made where its first member stands after everything it reads from outside; whoever reads
 * it from outside must stand behind that. So nothing is reordered but a group's own members, and no group can wait for
 * itself.
 *
 * Views of what a group computes are renamings inside it; one that is needed outside is taken there again, of the
 * group's result. Nodes that touch written memory take no part. */
#include "passes/internal.h"
#include "passes/rows.h"
#include "runtime/rt_rows_call.h"

const cr_fuse_limits cr_fuse_processor = {
    .streams = 16,
    .results = 8,
    .ports = 20,
    .work = 60,
    .small = 32,
    .one_row = 32768,
};
typedef struct group { int n; uint32_t node[CR_ROWS_MAX_NODES]; bool made, dead; } group; /* positions, ascending */
typedef struct state {
    const cr_graph *g;
    const cr_fuse_limits *limits;
    struct state *next;
    uint32_t n;              /* nodes */
    uint32_t *id;            /* by position */
    uint32_t *position;      /* by node id */
    uint8_t *kind;           /* by position: cr_rows_kind */
    int32_t *of;             /* by position: group, -1 */
    uint32_t *use_at, *use;  /* by value: positions of its users, use[use_at[v] .. use_at[v + 1]) */
    int16_t *local;          /* by value: for the analysis */
    CR_VEC(group) groups;
} state;
typedef struct fusion {
    state *states;
    const cr_fuse_limits *limits;
} fusion;

/* ---- facts about the graph ---- */

static void count_one(void *user, uint32_t v) { ((uint32_t *)user)[v + 1]++; }
typedef struct filler { state *s; uint32_t *at, position; } filler;
static void fill_one(void *user, uint32_t v) {
    filler *f = user;
    f->s->use[f->at[v]++] = f->position;
}

static cr_status read_graph(cr_rewriter *w, state *s) {
    const cr_graph *g = s->g;
    uint32_t values = cr_graph_value_count(g), most = 0;
    for (uint32_t n = cr_graph_first(g); n != CR_NO_NODE; n = cr_graph_next(g, n)) s->n++, most = CR_MAX(most, n);
    s->id = cr_calloc(s->n + 1, sizeof *s->id);
    s->position = cr_calloc(most + 2u, sizeof *s->position);
    s->kind = cr_calloc(s->n + 1, sizeof *s->kind);
    s->of = cr_calloc(s->n + 1, sizeof *s->of);
    s->use_at = cr_calloc(values + 2u, sizeof *s->use_at);
    s->local = cr_alloc((values + 1) * sizeof *s->local);
    if (!s->id || !s->position || !s->kind || !s->of || !s->use_at || !s->local) return CR_ENOMEM;
    memset(s->local, -1, (values + 1) * sizeof *s->local);
    uint32_t at = 0;
    for (uint32_t n = cr_graph_first(g); n != CR_NO_NODE; n = cr_graph_next(g, n), at++) {
        const cr_node *node = cr_graph_node(g, n);
        s->id[at] = n, s->position[n] = at, s->of[at] = -1;
        cr_args_visit_values(node->args, node->nargs, count_one, s->use_at);
        s->kind[at] = (uint8_t)cr_rows_kind_of(g, node);
        bool written = false;
        for (uint32_t i = 0; i < node->nvalues; i++) written |= cr__rewrite_writes(w, node->first + i);
        for (uint16_t i = 0; i < node->nargs; i++)
            written |= node->args[i].kind == CR_ARG_VALUE && cr__rewrite_writes(w, (uint32_t)node->args[i].u.i);
        if (written) s->kind[at] = CR_ROWS_NONE;
    }
    for (uint32_t v = 0; v < values; v++) s->use_at[v + 1] += s->use_at[v];
    s->use = cr_calloc(s->use_at[values] + 1u, sizeof *s->use);
    uint32_t *next = cr_alloc((values + 1) * sizeof *next);
    if (!s->use || !next) return cr_free(next), CR_ENOMEM;
    memcpy(next, s->use_at, (values + 1) * sizeof *next);
    for (at = 0; at < s->n; at++) {
        const cr_node *node = cr_graph_node(g, s->id[at]);
        filler f = { s, next, at };
        cr_args_visit_values(node->args, node->nargs, fill_one, &f);
    }
    cr_free(next);
    return CR_OK;
}

static bool contains(const group *k, uint32_t position) {
    for (int i = 0; i < k->n; i++)
        if (k->node[i] == position) return true;
    return false;
}

static const cr_node *node_at(const state *s, uint32_t position) { return cr_graph_node(s->g, s->id[position]); }
static bool is_tensor(const state *s, const cr_arg *a) {
    return a->kind == CR_ARG_VALUE && cr_graph_value(s->g, (uint32_t)a->u.i)->type == CR_T_TENSOR;
}
static uint32_t maker(const state *s, uint32_t v) { return s->position[cr_graph_value(s->g, v)->node]; }

/* Is the value needed by a node that is not of the group? */
static bool is_used_outside(const state *s, const group *k, uint32_t v) {
    for (uint32_t i = s->use_at[v]; i < s->use_at[v + 1]; i++)
        if (!contains(k, s->use[i])) return true;
    return false;
}

/* The parts of a rotation must be nobody else's; then they join where it joins. */
static void claim_parts(state *s, uint32_t position) {
    uint32_t part[3], at[3];
    group all = { .n = 4, .node = { position } };
    cr_rows_rotated(s->g, node_at(s, position), part);
    for (int i = 0; i < 3; i++) all.node[i + 1] = at[i] = s->position[part[i]];
    for (int i = 0; i < 3; i++)
        if (is_used_outside(s, &all, node_at(s, at[i])->first) || s->of[at[i]] >= 0) s->kind[position] = CR_ROWS_NONE;
    for (int i = 0; i < 3 && s->kind[position] == CR_ROWS_ROTATE; i++) s->kind[at[i]] = CR_ROWS_PART;
}

/* ---- groups ---- */

/* The position where the group can be made: its first member behind all that it reads. */
static uint32_t place_of(const state *s, const group *k) {
    uint32_t last = 0;
    for (int i = 0; i < k->n; i++) {
        const cr_node *node = node_at(s, k->node[i]);
        for (uint16_t a = 0; a < node->nargs; a++)
            if (is_tensor(s, &node->args[a]) && !contains(k, maker(s, (uint32_t)node->args[a].u.i)))
                last = CR_MAX(last, maker(s, (uint32_t)node->args[a].u.i));
    }
    for (int i = 0; i < k->n; i++)
        if (k->node[i] > last) return k->node[i];
    return UINT32_MAX;
}

/* Is the expression, or for a symbol something linear in it, a size of the tensor? */
static bool has_size(const state *s, const cr_value *v, cr_sym expr) {
    cr_env *env = cr_graph_env(s->g);
    for (int d = 0; v->meta && d < v->meta->rank; d++) {
        if (cr_dim_is_plain(v->meta->size[d])) continue;
        cr_sym size = cr_dim_sym(env, v->meta->size[d]);
        if (size == expr) return true;
        if (cr_sym_kind_of(size) == CR_SYM_ADD && cr_sym_operand_count(size) == 1 && cr_sym_operand(size, 0) == expr)
            return true;
    }
    return false;
}

/* Can the group's body compute a number that the node at `position` needs? A body knows only the sizes of its operands
 * and of what it has made before: two sizes may be required to be equal, and only one of them be there
 * (cr_graph_value_for then finds no value). */
static bool gives(const state *s, const group *k, uint32_t position, cr_sym expr) {
    size_t n = cr_sym_operand_count(expr), had = 0;
    cr_sym_kind kind = cr_sym_kind_of(expr);
    for (int i = 0; i < k->n; i++) {
        const cr_node *node = node_at(s, k->node[i]);
        for (uint16_t a = 0; a < node->nargs; a++) {
            if (!is_tensor(s, &node->args[a])) continue;
            uint32_t at = maker(s, (uint32_t)node->args[a].u.i);
            if ((at < position || !contains(k, at)) &&
                has_size(s, cr_graph_value(s->g, (uint32_t)node->args[a].u.i), expr))
                return true;
        }
    }
    while (had < n && gives(s, k, position, cr_sym_operand(expr, had))) had++;
    return had == n && (n || kind != CR_SYM_SYMBOL);
}

static bool gives_all(const state *s, const group *k, uint32_t position, const cr_arg *args, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (args[i].kind == CR_ARG_LIST && !gives_all(s, k, position, args[i].u.list, args[i].n)) return false;
        if (args[i].kind != CR_ARG_VALUE || is_tensor(s, &args[i])) continue;
        cr_sym expr = cr_graph_value(s->g, (uint32_t)args[i].u.i)->expr;
        if (!expr || !gives(s, k, position, expr)) return false;
    }
    return true;
}

/* Streams, work, numbers, users that would come too early. */
static bool holds(const state *s, const group *k) {
    uint32_t place = place_of(s, k), outside[RT_ROWS_PORTS];
    int streams = 0, results = 0, work = 0;
    if (place == UINT32_MAX) return false;
    for (int i = 0; i < k->n; i++) {
        const cr_node *node = node_at(s, k->node[i]);
        work += s->kind[k->node[i]] == CR_ROWS_NORM ? 9 : 1;
        if (!gives_all(s, k, k->node[i], node->args, node->nargs)) return false;
        for (uint16_t a = 0; a < node->nargs; a++) {
            if (!is_tensor(s, &node->args[a])) continue;
            uint32_t v = (uint32_t)node->args[a].u.i;
            int seen = 0;
            if (contains(k, maker(s, v))) continue;
            while (seen < streams && outside[seen] != v) seen++;
            if (seen < streams) continue;
            if (streams == s->limits->streams || streams == RT_ROWS_PORTS) return false;
            outside[streams++] = v;
        }
        for (uint32_t r = 0; r < node->nvalues; r++) {
            uint32_t v = node->first + r;
            for (uint32_t u = s->use_at[v]; u < s->use_at[v + 1]; u++) {
                if (contains(k, s->use[u])) continue;
                if (s->use[u] <= place) return false;
                results++;
                break;
            }
        }
    }
    return streams + results <= s->limits->ports && results <= s->limits->results && work <= s->limits->work;
}

static bool fits(const state *s, const group *k) {
    cr_rows_domain d;
    uint32_t id[CR_ROWS_MAX_NODES];
    if (k->n > CR_ROWS_MAX_NODES || !holds(s, k)) return false;
    for (int i = 0; i < k->n; i++) id[i] = s->id[k->node[i]];
    if (!cr_rows_analyse(s->g, id, k->n, s->local, &d)) return false;
    if (__builtin_popcount(d.reduced) > RT_ROWS_LEVELS) return false;
    if (!d.reduced || d.reduced != (1u << d.naxes) - 1) return true;
    cr_dim n = 1; /* one row is one thread's work: the kernels of the runtime share a long one */
    for (int a = 0; a < d.naxes; a++) n = cr_dim_mul(cr_graph_env(s->g), n, d.size[a]);
    return cr_dim_is_plain(n) && n <= s->limits->one_row;
}

/* `to` with the members of `from`, in order; false: too many. */
static bool unite(group *to, const group *from) {
    group both = { .n = 0 };
    if (to->n + from->n > CR_ROWS_MAX_NODES) return false;
    for (int i = 0, j = 0; i < to->n || j < from->n;)
        both.node[both.n++] = j == from->n || (i < to->n && to->node[i] < from->node[j]) ? to->node[i++]
                                                                                         : from->node[j++];
    *to = both;
    return true;
}

/* The groups of a node's producers, the last one first. */
static int producers(const state *s, uint32_t position, int32_t *out, int most) {
    const cr_node *node = node_at(s, position);
    int n = 0;
    for (uint16_t a = 0; a < node->nargs; a++) {
        if (!is_tensor(s, &node->args[a])) continue;
        int32_t k = s->of[maker(s, (uint32_t)node->args[a].u.i)];
        bool seen = k < 0 || n == most;
        for (int i = 0; i < n; i++) seen |= out[i] == k;
        if (!seen) out[n++] = k;
    }
    for (int i = 1; i < n; i++)
        for (int j = i; j > 0 && out[j - 1] < out[j]; j--) {
            int32_t t = out[j];
            out[j] = out[j - 1], out[j - 1] = t;
        }
    return n;
}

static void adopt(state *s, int32_t to, const group *members) {
    s->groups.at[to] = *members;
    for (int i = 0; i < members->n; i++) s->of[members->node[i]] = to;
}

static cr_status place_node(state *s, uint32_t position) {
    int32_t candidate[8];
    int n = producers(s, position, candidate, 8);
    group alone = { .n = 1, .node = { position } };
    if (s->kind[position] == CR_ROWS_ROTATE) {
        uint32_t part[3];
        cr_rows_rotated(s->g, node_at(s, position), part);
        for (int i = 0; i < 3; i++) {
            group one = { .n = 1, .node = { s->position[part[i]] } };
            if (!unite(&alone, &one)) return CR_OK;
        }
    }
    int32_t home = -1;
    group now = alone;
    for (int i = 0; i < n; i++) { /* with as many of them as fit together */
        group more = now;
        if (!unite(&more, &s->groups.at[candidate[i]]) || !fits(s, &more)) continue;
        if (home >= 0) s->groups.at[candidate[i]].dead = true;
        else home = candidate[i];
        now = more;
        adopt(s, home, &now);
    }
    if (home >= 0 || s->kind[position] == CR_ROWS_VIEW || !fits(s, &alone)) return CR_OK;
    CR_TRY(cr_vec_push(&s->groups, alone));
    adopt(s, (int32_t)s->groups.n - 1, &alone);
    return CR_OK;
}

static bool is_used_inside(const state *s, const group *k, const cr_node *node) {
    for (uint32_t r = 0; r < node->nvalues; r++)
        for (uint32_t u = s->use_at[node->first + r]; u < s->use_at[node->first + r + 1]; u++)
            if (contains(k, s->use[u])) return true;
    return false;
}

/* Views that only others look through are none of the group's business; but one that stands before the group's place
 * can be taken only there, behind it. */
static void drop_views(state *s, group *k) {
    for (int i = k->n; i-- > 0;) {
        if (s->kind[k->node[i]] != CR_ROWS_VIEW || is_used_inside(s, k, node_at(s, k->node[i]))) continue;
        group less = *k;
        memmove(&less.node[i], &less.node[i + 1], (size_t)(--less.n - i) * sizeof *less.node);
        if (!holds(s, &less)) continue;
        s->of[k->node[i]] = -1;
        *k = less;
    }
}

/* A row or column for every element of the result: block programs walk such short runs slowly. */
static bool repeats(const state *s, const cr_node *node) {
    cr_env *env = cr_graph_env(s->g);
    const cr_meta *out = cr_graph_value(s->g, node->first)->meta;
    for (uint16_t a = 0; a < node->nargs; a++) {
        if (!is_tensor(s, &node->args[a])) continue;
        const cr_meta *in = cr_graph_value(s->g, (uint32_t)node->args[a].u.i)->meta;
        cr_dim n = cr_meta_numel(env, in);
        if (cr_dim_known(env, n, CR_EQ, 1) != CR_YES && cr_dim_known(env, n, CR_EQ, cr_meta_numel(env, out)) != CR_YES)
            return true;
    }
    return false;
}

/* Does a kernel of its own pay? Copies and lone simple ops have good loops already. */
static bool pays(const state *s, const group *k) {
    int work = 0;
    bool real = false, large = false;
    for (int i = 0; i < k->n; i++) {
        const cr_node *node = node_at(s, k->node[i]);
        const cr_meta *meta = cr_graph_value(s->g, node->first)->meta;
        cr_dim n = cr_meta_numel(cr_graph_env(s->g), meta);
        const cr_scalar_program *p = NULL;
        real |= cr_dtype_is_floating(meta->dtype);
        large |= !cr_dim_is_plain(n) || n > s->limits->small;
        for (uint16_t a = 0; a < node->nargs && !large; a++) {
            if (!is_tensor(s, &node->args[a])) continue;
            n = cr_meta_numel(cr_graph_env(s->g), cr_graph_value(s->g, (uint32_t)node->args[a].u.i)->meta);
            large |= !cr_dim_is_plain(n) || n > s->limits->small;
        }
        switch (s->kind[k->node[i]]) {
        case CR_ROWS_NORM: case CR_ROWS_REDUCE: work += 3; break;
        case CR_ROWS_POINTWISE:
            if (cr_rows_program(s->g, node, &p)) cr_error_release(cr_error_take());
            work += p ? 1 + (p->program.ninstr > 2) + repeats(s, node) : 1;
            break;
        case CR_ROWS_ROTATE: work += 2; break;
        case CR_ROWS_COPY: work += k->n > 1; break;
        default: break;
        }
    }
    return real && large && work >= 2;
}

static cr_status form_groups(cr_rewriter *w, state *s) {
    CR_TRY(read_graph(w, s));
    for (uint32_t i = 0; i < s->n; i++)
        if (s->kind[i] == CR_ROWS_ROTATE) claim_parts(s, i);
    for (uint32_t i = 0; i < s->n; i++)
        if (s->kind[i] != CR_ROWS_NONE && s->kind[i] != CR_ROWS_PART) CR_TRY(place_node(s, i));
    for (size_t k = 0; k < s->groups.n; k++) {
        group *x = &s->groups.at[k];
        if (!x->dead) drop_views(s, x);
        if (!x->dead && pays(s, x)) continue;
        for (int i = 0; i < x->n && !x->dead; i++) s->of[x->node[i]] = -1;
        x->dead = true;
    }
    return CR_OK;
}

/* ---- outlining ---- */

typedef struct outline {
    cr_rewriter *w;
    const state *s;
    const group *k;
    cr_graph *body;
    cr_arg *inside;          /* by old value: the body's */
    cr_arg operand[RT_BLOCK_MAX_PORTS * 4];
    int noperands;
    uint32_t result[RT_BLOCK_MAX_PORTS * 4]; /* old values */
    int nresults;
} outline;

static cr_arg value_arg(const cr_graph *g, uint32_t v) {
    return (cr_arg){ .kind = CR_ARG_VALUE, .given = 1, .type = cr_graph_value(g, v)->type, .u.i = v };
}

static cr_status body_arg(outline *o, const cr_arg *from, cr_arg *to) {
    *to = *from;
    if (from->kind == CR_ARG_LIST) {
        cr_arg *items = cr_graph_alloc(o->body, (from->n + 1) * sizeof *items);
        if (!items) return CR_ENOMEM;
        for (uint32_t i = 0; i < from->n; i++) CR_TRY(body_arg(o, &from->u.list[i], &items[i]));
        to->u.list = items;
    }
    if (from->kind != CR_ARG_VALUE) return CR_OK;
    const cr_value *v = cr_graph_value(o->s->g, (uint32_t)from->u.i);
    if (v->type != CR_T_TENSOR) {
        CR_TRY(cr_graph_value_for(o->body, v->expr, to));
    } else {
        cr_arg *known = &o->inside[from->u.i];
        if (known->kind != CR_ARG_VALUE) { /* an operand */
            cr_arg outer = cr__rewrite_mapped(o->w, (uint32_t)from->u.i);
            uint32_t made;
            CR_TRY(cr_graph_placeholder(o->body, v->name, cr_rewrite_meta(o->w, &outer), &made));
            o->operand[o->noperands++] = outer;
            *known = value_arg(o->body, made);
        }
        *to = *known;
    }
    to->given = from->given;
    return CR_OK;
}

/* What a view is a view of, inside the group. */
static uint32_t root_of(const outline *o, uint32_t v) {
    for (;;) {
        uint32_t at = maker(o->s, v);
        if (!contains(o->k, at) || o->s->kind[at] != CR_ROWS_VIEW) return v;
        v = (uint32_t)node_at(o->s, at)->args[0].u.i;
    }
}

static void want(outline *o, uint32_t v) {
    for (int i = 0; i < o->nresults; i++)
        if (o->result[i] == v) return;
    o->result[o->nresults++] = v;
}

static cr_status make_body(outline *o) {
    cr_arg results[RT_BLOCK_MAX_PORTS * 4];
    CR_TRY(cr_graph_set_name(o->body, "rows"));
    for (int pass = 0; pass < 2; pass++) /* placeholders come first */
        for (int i = 0; i < o->k->n; i++) {
            const cr_node *node = node_at(o->s, o->k->node[i]);
            cr_arg args[CR_MAX_PARAMS];
            uint32_t made;
            if (!pass) {
                for (uint16_t a = 0; a < node->nargs; a++)
                    if (is_tensor(o->s, &node->args[a]) && !contains(o->k, maker(o->s, (uint32_t)node->args[a].u.i)))
                        CR_TRY(body_arg(o, &node->args[a], &args[0]));
                continue;
            }
            for (uint16_t a = 0; a < node->nargs; a++) CR_TRY(body_arg(o, &node->args[a], &args[a]));
            CR_TRY(cr_graph_set_origin(o->body, &node->origin));
            CR_TRY(cr_graph_call(o->body, node->op, args, &made));
            for (uint32_t r = 0; r < node->nvalues; r++) {
                uint32_t v = cr_graph_node(o->body, made)->first + r;
                o->inside[node->first + r] = value_arg(o->body, v);
                CR_TRY(cr_graph_rename(o->body, v, cr_graph_value(o->s->g, node->first + r)->name));
                if (is_used_outside(o->s, o->k, node->first + r)) want(o, root_of(o, node->first + r));
            }
        }
    for (int i = 0; i < o->nresults; i++) results[i] = o->inside[o->result[i]];
    return cr_graph_set_output(o->body, results, (size_t)o->nresults);
}

/* Is the result of a view needed outside, perhaps through another view? */
static bool is_seen_outside(const outline *o, const cr_node *node) {
    if (is_used_outside(o->s, o->k, node->first)) return true;
    for (uint32_t u = o->s->use_at[node->first]; u < o->s->use_at[node->first + 1]; u++)
        if (o->s->kind[o->s->use[u]] == CR_ROWS_VIEW && is_seen_outside(o, node_at(o->s, o->s->use[u]))) return true;
    return false;
}

/* Numbers of the old graph as expressions, which the new one has its own values for. */
static cr_status plain_numbers(outline *o, const cr_arg *from, size_t n, cr_arg *to) {
    for (size_t i = 0; i < n; i++) {
        to[i] = from[i];
        if (from[i].kind == CR_ARG_VALUE && !is_tensor(o->s, &from[i])) {
            to[i] = cr_number_arg(cr_graph_env(o->s->g), cr_graph_value(o->s->g, (uint32_t)from[i].u.i)->expr);
            to[i].given = from[i].given;
        }
        if (from[i].kind != CR_ARG_LIST) continue;
        cr_arg *items = cr_graph_alloc(cr_rewrite_graph(o->w), (from[i].n + 1) * sizeof *items);
        if (!items) return CR_ENOMEM;
        CR_TRY(plain_numbers(o, from[i].u.list, from[i].n, items));
        to[i].u.list = items;
    }
    return CR_OK;
}

/* Views that are needed outside, taken of the results. */
static cr_status make_views(outline *o) {
    for (int i = 0; i < o->k->n; i++) {
        const cr_node *node = node_at(o->s, o->k->node[i]);
        if (o->s->kind[o->k->node[i]] != CR_ROWS_VIEW || !is_seen_outside(o, node)) continue;
        cr_arg args[CR_MAX_PARAMS], made[16] = { { 0 } };
        CR_TRY(plain_numbers(o, node->args, node->nargs, args));
        args[0] = cr__rewrite_mapped(o->w, (uint32_t)node->args[0].u.i);
        CR_TRY(cr_rewrite_op(o->w, node->op, args, made));
        CR_TRY(cr_rewrite_result(o->w, node, 0, made[0]));
    }
    return CR_OK;
}

static cr_status make_region(outline *o) {
    cr_arg args[2], results[1] = { { 0 } };
    CR_TRY(make_body(o));
    CR_TRY(cr_graph_add_subgraph(cr_rewrite_graph(o->w), o->body));
    args[0] = (cr_arg){ .kind = CR_ARG_GRAPH, .given = 1, .u.graph = o->body };
    args[1] = cr_arg_list(o->operand, (size_t)o->noperands);
    CR_TRY(cr_rewrite_op(o->w, cr_op_find("cresset::rows"), args, results));
    if (results[0].kind != CR_ARG_LIST || results[0].n != (uint32_t)o->nresults)
        return CR_FAIL(CR_EVALUE, "a region gives %u results, not %d", results[0].n, o->nresults);
    for (int i = 0; i < o->nresults; i++) {
        uint32_t v = o->result[i];
        const cr_node *node = node_at(o->s, maker(o->s, v));
        CR_TRY(cr_rewrite_result(o->w, node, v - node->first, results[0].u.list[i]));
    }
    return make_views(o);
}

static cr_status outline_group(cr_rewriter *w, const state *s, const group *k) {
    outline o = { .w = w, .s = s, .k = k };
    CR_TRY(cr_graph_create(cr_graph_env(s->g), &o.body));
    o.inside = cr_calloc(cr_graph_value_count(s->g) + 1u, sizeof *o.inside);
    cr_status status = o.inside ? make_region(&o) : CR_ENOMEM;
    cr_graph_release(o.body);
    cr_free(o.inside);
    return status;
}

/* ---- the rule ---- */

static void state_release(state *s) {
    cr_vec_dispose(&s->groups);
    cr_free(s->id);
    cr_free(s->position);
    cr_free(s->kind);
    cr_free(s->of);
    cr_free(s->use_at);
    cr_free(s->use);
    cr_free(s->local);
    cr_free(s);
}

static cr_status state_of(cr_rewriter *w, fusion *f, state **out) {
    const cr_graph *g = cr_rewrite_source(w);
    for (state *s = f->states; s; s = s->next)
        if (s->g == g) return *out = s, CR_OK;
    state *s = cr_calloc(1, sizeof *s);
    if (!s) return CR_ENOMEM;
    s->g = g;
    s->limits = f->limits;
    s->next = f->states;
    f->states = *out = s;
    return form_groups(w, s);
}

static cr_status fuse(cr_rewriter *w, const cr_node *node, const cr_arg *args, bool *done) {
    (void)args;
    state *s;
    if (!node->nvalues) return CR_OK;
    CR_TRY(state_of(w, cr_rewrite_user(w), &s));
    uint32_t position = s->position[cr_graph_value(s->g, node->first)->node];
    if (s->of[position] < 0) return CR_OK;
    group *k = &s->groups.at[s->of[position]];
    *done = true;
    if (k->made || place_of(s, k) != position) return CR_OK;
    k->made = true;
    return outline_group(w, s, k);
}

cr_status cr_pass_fuse(const cr_graph *g, const cr_fuse_limits *limits, cr_graph **out) {
    fusion f = { .limits = limits ? limits : &cr_fuse_processor };
    CR_TRY(cr_region_ops_init());
    cr_status status = cr_rewrite(g, fuse, &f, out);
    while (f.states) {
        state *s = f.states;
        f.states = s->next;
        state_release(s);
    }
    return status;
}
