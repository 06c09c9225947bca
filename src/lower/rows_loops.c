/* rows_loops.c: from a region's body to loop IR.
 *
 * Norms and softmax are decomposed first, so that what is left is pointwise programs, sums and maxima, casts and
 * renamed dimensions. The axes of the domain come from passes/rows.h; here they are put in order: the one with the most
 * neighbouring elements carries the lanes. */
#include "lower/rows.h"
#include "passes/passes.h"

enum { MAX_NODES = 3 * CR_ROWS_MAX_NODES };

typedef struct builder {
    const cr_graph *g;      /* the body, decomposed */
    cr_env *env;
    cr_arena *arena;
    cr_row_kernel *k;
    cr_rows_domain d;
    uint32_t nodes[MAX_NODES];
    int nnodes;
    int16_t *local;         /* per graph value: its place in the domain, -1 */
    int16_t *made;          /* per graph value: its loop value, -1 */
    int8_t order[CR_ROWS_MAX_AXES]; /* axes of the domain, outermost first */
    uint32_t row;           /* axes of a row */
    int lane;
} builder;

static cr_status refuse(const char *what) { return CR_FAIL(CR_EUNSUPPORTED, "no row kernel: %s", what); }

static const cr_meta *meta_of(const builder *b, uint32_t v) { return cr_graph_value(b->g, v)->meta; }

/* ---- values ---- */

static cr_status add(builder *b, cr_row_value v, int16_t *out) {
    cr_row_kernel *k = b->k;
    for (int i = 0; i < k->nvalues; i++) {
        const cr_row_value *o = &k->value[i];
        bool same = o->kind == v.kind && o->class == v.class && o->dtype == v.dtype && o->op == v.op &&
                    o->port == v.port && o->i == v.i;
        if (same && !memcmp(o->in, v.in, sizeof v.in) && !memcmp(&o->f, &v.f, sizeof v.f))
            return *out = (int16_t)i, CR_OK;
    }
    if (k->nvalues == CR_ROW_MAX_VALUES) return refuse("too many values");
    k->value[k->nvalues] = v;
    *out = (int16_t)k->nvalues++;
    return CR_OK;
}

static cr_row_value plain(int kind, int class) {
    return (cr_row_value){ .kind = (uint8_t)kind, .class = (uint8_t) class, .in = { -1, -1, -1 }, .port = -1 };
}

static cr_status add_op(builder *b, int op, const int16_t *in, int n, int16_t *out) {
    cr_row_value v = plain(CR_ROW_OP, rt_block_out_class(op));
    v.op = (int16_t)op;
    for (int i = 0; i < n; i++) v.in[i] = in[i], v.varies |= b->k->value[in[i]].varies;
    return add(b, v, out);
}

static cr_status add_named(builder *b, const char *name, int class, const int16_t *in, int n, int16_t *out) {
    int op = rt_block_find(name, class);
    if (op < 0 || !cr_rows_has(op)) return refuse(name);
    return add_op(b, op, in, n, out);
}

static cr_status convert(builder *b, int16_t from, int class, int16_t *out) {
    char name[16] = "to_";
    if (b->k->value[from].class == class) return *out = from, CR_OK;
    strcat(name, rt_class_name(class));
    return add_named(b, name, b->k->value[from].class, &from, 1, out);
}

/* A node's result, as what its dtype holds. */
static cr_status finish(builder *b, int16_t from, int dtype, int16_t *out) {
    CR_TRY(convert(b, from, rt_class_of(dtype), out));
    if (dtype == rt_class_dtype(rt_class_of(dtype))) return CR_OK;
    cr_row_value v = plain(CR_ROW_ROUND, b->k->value[*out].class);
    v.dtype = (uint8_t)dtype;
    v.in[0] = *out;
    v.varies = b->k->value[*out].varies;
    return add(b, v, out);
}

static cr_status literal(builder *b, int class, const rt_scalar *s, int16_t *out) {
    cr_row_value v = plain(CR_ROW_LITERAL, class);
    bool whole = s->kind == RT_ARG_INT;
    if (class == RT_CLASS_F32) v.f = whole ? (double)(float)s->i : (double)(float)s->f;
    else if (class == RT_CLASS_F64) v.f = whole ? (double)s->i : s->f;
    else if (class == RT_CLASS_I64) v.i = whole ? s->i : (int64_t)s->f;
    else if (class == RT_CLASS_B) v.i = whole ? s->i != 0 : s->f != 0;
    else return refuse("a literal of this kind");
    return add(b, v, out);
}

/* ---- ports ---- */

static cr_row_access access_of(const builder *b, const cr_meta *meta, const int8_t *dim) {
    int at = b->k->naxes - 1 - (b->k->column ? b->k->nrow : 0); /* where the lanes' axis stands */
    if (dim[at] < 0) return CR_ACCESS_SAME;
    return cr_dim_known(b->env, meta->stride[dim[at]], CR_EQ, 1) == CR_YES ? CR_ACCESS_UNIT : CR_ACCESS_STRIDED;
}

/* `meta`: of the memory; a result's strides are those of the body, which decomposing may have changed. */
static cr_status add_port(builder *b, uint32_t v, const cr_meta *meta, int16_t stored, int index, int16_t *out) {
    cr_row_kernel *k = b->k;
    if (k->nports == RT_ROWS_PORTS) return refuse("too many streams");
    cr_row_port *p = &k->port[k->nports];
    *p = (cr_row_port){ .dtype = meta->dtype, .value = stored, .index = (int16_t)index };
    memset(p->dim, -1, sizeof p->dim);
    uint32_t seen = 0;
    for (int d = 0; d < meta->rank; d++) {
        int axis = b->d.axis[b->local[v]][d];
        if (axis < 0) continue;
        seen |= 1u << axis;
        for (int a = 0; a < b->d.naxes; a++)
            if (b->order[a] == axis) p->dim[a] = (int8_t)d;
    }
    p->varies = seen & b->row;
    p->access = (uint8_t)access_of(b, meta, p->dim);
    *out = (int16_t)k->nports++;
    return CR_OK;
}

/* An operand of a node: computed before, or loaded. */
static cr_status operand(builder *b, uint32_t v, int16_t *out) {
    if (b->made[v] >= 0) return *out = b->made[v], CR_OK;
    const cr_node *node = cr_graph_node(b->g, cr_graph_value(b->g, v)->node);
    if (node->kind != CR_NODE_PLACEHOLDER) return refuse("an operand that is no input");
    int index = 0;
    for (uint32_t n = cr_graph_first(b->g); n != CR_NO_NODE && cr_graph_node(b->g, n) != node;
         n = cr_graph_next(b->g, n))
        index++;
    cr_row_value load = plain(CR_ROW_LOAD, rt_class_of(meta_of(b, v)->dtype));
    CR_TRY(add_port(b, v, meta_of(b, v), -1, index, &load.port));
    load.varies = b->k->port[load.port].varies;
    CR_TRY(add(b, load, out));
    b->made[v] = *out;
    return CR_OK;
}

/* ---- nodes ---- */

static rt_scalar number(const builder *b, const cr_arg *a) {
    cr_arg plain_number = *a;
    if (a->kind == CR_ARG_VALUE) plain_number = cr_number_arg(b->env, cr_graph_value(b->g, (uint32_t)a->u.i)->expr);
    return cr_arg_scalar(&plain_number);
}

static cr_status build_pointwise(builder *b, const cr_node *node, int16_t *out) {
    const cr_scalar_program *s;
    int16_t slot[RT_BLOCK_MAX_SLOTS];
    CR_TRY(cr_rows_program(b->g, node, &s));
    const rt_program *p = &s->program;
    for (int i = 0; i < p->nin; i++) {
        const cr_arg *a = &node->args[s->input[i]];
        int16_t v;
        if (a->kind == CR_ARG_VALUE && cr_graph_value(b->g, (uint32_t)a->u.i)->type == CR_T_TENSOR) {
            CR_TRY(operand(b, (uint32_t)a->u.i, &v));
            CR_TRY(convert(b, v, p->in[i].class, &slot[p->in[i].slot]));
        } else {
            rt_scalar value = number(b, a);
            CR_TRY(literal(b, p->in[i].class, &value, &v));
            CR_TRY(p->in[i].class == rt_class_of(p->in[i].round) && !(p->in[i].flags & RT_PORT_WIDE)
                       ? finish(b, v, p->in[i].round, &slot[p->in[i].slot])
                       : (slot[p->in[i].slot] = v, CR_OK));
        }
    }
    for (int i = 0; i < p->nconstants; i++) {
        rt_scalar value = number(b, &node->args[s->constant[i]]);
        int16_t v;
        CR_TRY(literal(b, p->constant[i].class, &value, &v));
        CR_TRY(p->constant[i].round != RT_DTYPE_COUNT ? finish(b, v, p->constant[i].round, &slot[p->constant[i].slot])
                                                      : (slot[p->constant[i].slot] = v, CR_OK));
    }
    for (int i = 0; i < p->nliterals; i++) {
        const rt_literal *l = &p->literal[i];
        rt_scalar value = { l->class == RT_CLASS_I64 ? RT_ARG_INT : RT_ARG_FLOAT, l->i, l->re, 0 };
        CR_TRY(literal(b, l->class, &value, &slot[l->slot]));
    }
    for (int i = 0; i < p->ninstr; i++) {
        int16_t in[3];
        int n = rt_block_arity(p->code[i].op);
        for (int j = 0; j < n; j++) in[j] = slot[p->code[i].in[j]];
        CR_TRY(add_op(b, p->code[i].op, in, n, &slot[p->code[i].out]));
    }
    return finish(b, slot[p->out[0].slot], meta_of(b, node->first)->dtype, out);
}

static cr_status fold(builder *b, cr_row_fold how, int16_t in, int16_t *out) {
    cr_row_value v = plain(CR_ROW_REDUCE, RT_CLASS_F32);
    *out = in;
    if (!b->k->reduces) return CR_OK; /* all reduced dimensions have one element */
    if (b->k->value[in].class != RT_CLASS_F32) return refuse("a reduction of another class than f32");
    if (!b->k->value[in].varies) return refuse("a reduction of what does not vary");
    v.op = (int16_t)how;
    v.in[0] = in;
    return add(b, v, out);
}

static cr_status f32(builder *b, const char *name, int16_t x, int16_t y, int16_t *out) {
    int16_t in[2] = { x, y };
    return add_named(b, name, RT_CLASS_F32, in, y < 0 ? 1 : 2, out);
}

static cr_status f32_literal(builder *b, double f, int16_t *out) {
    rt_scalar s = { RT_ARG_FLOAT, 0, f, 0 };
    return literal(b, RT_CLASS_F32, &s, out);
}

static cr_status count(builder *b, int16_t *out) {
    return b->k->reduces ? add(b, plain(CR_ROW_COUNT, RT_CLASS_F32), out) : f32_literal(b, 1, out);
}

static cr_status build_reduce(builder *b, const cr_node *node, int16_t *out) {
    cr_reduce_kind how = (cr_reduce_kind)cr_op_facts(node->op)->reduce.kind;
    int16_t in, n;
    CR_TRY(operand(b, (uint32_t)node->args[0].u.i, &in));
    cr_row_fold by = how == CR_REDUCE_MAX ? CR_FOLD_MAX : how == CR_REDUCE_MIN ? CR_FOLD_MIN : CR_FOLD_SUM;
    CR_TRY(fold(b, by, in, out));
    if (how == CR_REDUCE_MEAN) {
        CR_TRY(count(b, &n));
        CR_TRY(f32(b, "div", *out, n, out));
    }
    return finish(b, *out, meta_of(b, node->first)->dtype, out);
}

/* var = sum((x - mean)^2) / max(0, n - correction), std its root, var_mean both results. */
static cr_status build_variance(builder *b, const cr_node *node) {
    int16_t in, n, mean, d, var, correction, zero;
    CR_TRY(operand(b, (uint32_t)node->args[0].u.i, &in));
    rt_scalar less = node->args[2].kind == CR_ARG_NONE ? (rt_scalar){ RT_ARG_FLOAT, 0, 1, 0 }
                                                       : number(b, &node->args[2]);
    CR_TRY(count(b, &n));
    CR_TRY(fold(b, CR_FOLD_SUM, in, &mean));
    CR_TRY(f32(b, "div", mean, n, &mean));
    CR_TRY(f32(b, "sub", in, mean, &d));
    CR_TRY(f32(b, "mul", d, d, &d));
    CR_TRY(fold(b, CR_FOLD_SUM, d, &var));
    CR_TRY(literal(b, RT_CLASS_F32, &less, &correction));
    CR_TRY(f32_literal(b, 0, &zero));
    CR_TRY(f32(b, "sub", n, correction, &n));
    CR_TRY(f32(b, "max", n, zero, &n));
    CR_TRY(f32(b, "div", var, n, &var));
    if (cr_op_facts(node->op)->reduce.kind == CR_REDUCE_STD) CR_TRY(f32(b, "sqrt", var, -1, &var));
    b->made[node->first] = var;
    if (node->nvalues > 1) b->made[node->first + 1] = mean;
    return CR_OK;
}

static cr_status build_rotate(builder *b, const cr_node *node, int16_t *out) {
    uint32_t parts[3], x = cr_rows_rotated(b->g, node, parts);
    int16_t load;
    CR_TRY(operand(b, x, &load));
    const cr_row_value *l = &b->k->value[load];
    if (l->kind != CR_ROW_LOAD || b->k->port[l->port].access != CR_ACCESS_UNIT || !l->varies)
        return refuse("halves of what is computed");
    cr_row_value v = plain(CR_ROW_ROTATE, RT_CLASS_F32);
    v.port = l->port;
    v.varies = true;
    return add(b, v, out);
}

/* Norms that are decomposed before their loops are built: all but variances. */
static bool is_expanded(const cr_op *op) {
    cr_reduce_kind how = (cr_reduce_kind)cr_op_facts(op)->reduce.kind;
    return how == CR_REDUCE_SOFTMAX || how == CR_REDUCE_LOG_SOFTMAX || how == CR_REDUCE_LAYER_NORM;
}

static cr_status build_node(builder *b, const cr_node *node) {
    int16_t made = -1;
    switch (cr_rows_kind_of(b->g, node)) {
    case CR_ROWS_POINTWISE: CR_TRY(build_pointwise(b, node, &made)); break;
    case CR_ROWS_REDUCE: CR_TRY(build_reduce(b, node, &made)); break;
    case CR_ROWS_COPY:
        CR_TRY(operand(b, (uint32_t)node->args[0].u.i, &made));
        CR_TRY(finish(b, made, meta_of(b, node->first)->dtype, &made));
        break;
    case CR_ROWS_NORM: return is_expanded(node->op) ? refuse(node->op->name) : build_variance(b, node);
    case CR_ROWS_ROTATE: CR_TRY(build_rotate(b, node, &made)); break;
    case CR_ROWS_VIEW: CR_TRY(operand(b, (uint32_t)node->args[0].u.i, &made)); break;
    default: return refuse(node->op->name);
    }
    b->made[node->first] = made;
    return CR_OK;
}

/* ---- order of the axes ---- */

/* How many elements next to each other the axis has: ports in which its stride is 1, results twice. */
static int score(const builder *b, int axis) {
    int total = 0;
    const cr_node *output = cr_graph_node(b->g, cr_graph_output(b->g));
    for (int v = 0; v < b->d.nvalues; v++) {
        uint32_t id = b->d.value[v];
        int weight = cr_graph_node(b->g, cr_graph_value(b->g, id)->node)->kind == CR_NODE_PLACEHOLDER;
        for (uint16_t i = 0; i < output->nargs; i++)
            weight += output->args[i].kind == CR_ARG_VALUE && output->args[i].u.i == id ? 2 : 0;
        const cr_meta *meta = meta_of(b, id);
        uint32_t axes = 0;
        bool unit = false;
        for (int d = 0; d < meta->rank; d++) {
            if (b->d.axis[v][d] < 0) continue;
            axes |= 1u << b->d.axis[v][d];
            unit |= b->d.axis[v][d] == axis && cr_dim_known(b->env, meta->stride[d], CR_EQ, 1) == CR_YES;
        }
        if (unit) total += weight * (axes == (1u << b->d.naxes) - 1 ? 4 : 1); /* small operands hardly count */
    }
    return total;
}

/* Outermost first: by stride in the first full-sized operand or result. */
static int64_t rank_of(const builder *b, int axis) {
    for (int v = 0; v < b->d.nvalues; v++) {
        const cr_meta *meta = meta_of(b, b->d.value[v]);
        int n = 0, at = -1;
        for (int d = 0; d < meta->rank; d++) {
            if (b->d.axis[v][d] < 0) continue;
            n++;
            if (b->d.axis[v][d] == axis) at = d;
        }
        int64_t stride;
        if (n == b->d.naxes && at >= 0)
            return cr_dim_hint(b->env, meta->stride[at], &stride) ? stride : 1 + 1000 * (meta->rank - at);
    }
    return 0;
}

static void sort_axes(builder *b, int from, int to) {
    for (int i = from + 1; i < to; i++)
        for (int k = i; k > from && rank_of(b, b->order[k - 1]) < rank_of(b, b->order[k]); k--) {
            int8_t t = b->order[k];
            b->order[k] = b->order[k - 1], b->order[k - 1] = t;
        }
}

static cr_status order_axes(builder *b) {
    cr_row_kernel *k = b->k;
    int n = b->d.naxes, best = -1, best_row = -1;
    k->reduces = b->d.reduced != 0;
    for (int a = 0; a < n; a++) {
        int s = score(b, a);
        if (best < 0 || s > score(b, best) || (s == score(b, best) && rank_of(b, a) <= rank_of(b, best))) best = a;
        if ((b->d.reduced >> a & 1) && (best_row < 0 || s > score(b, best_row) ||
                                        (s == score(b, best_row) && rank_of(b, a) <= rank_of(b, best_row))))
            best_row = a;
    }
    b->lane = best;
    for (int i = 0; i < b->nnodes; i++) { /* halves of a row are exchanged along the lanes */
        const cr_node *node = cr_graph_node(b->g, b->nodes[i]);
        if (b->local[node->first] < 0 || cr_rows_kind_of(b->g, node) != CR_ROWS_ROTATE) continue;
        best = b->lane = b->d.axis[b->local[node->first]][meta_of(b, node->first)->rank - 1];
        k->whole = true;
        if (best < 0 || (k->reduces && b->d.reduced != 1u << best)) return refuse("halves of another axis");
    }
    if (k->reduces && !(b->d.reduced >> best & 1)) {
        k->column = score(b, best) > score(b, best_row);
        if (!k->column) b->lane = best_row;
    }
    b->row = k->reduces ? b->d.reduced : n ? 1u << b->lane : 0;
    int at = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int a = 0; a < n; a++)
            if ((b->row >> a & 1) == (uint32_t)pass) b->order[at++] = (int8_t)a;
    k->nrow = __builtin_popcount(b->row);
    if (k->nrow > RT_ROWS_LEVELS) return refuse("rows of too many axes");
    int outer = n - k->nrow, lane_at = (k->column ? outer : n) - 1;
    for (int i = 0; i < n; i++) /* the lanes' axis to its place, the others by their strides */
        if (b->order[i] == b->lane) {
            int8_t t = b->order[lane_at];
            b->order[lane_at] = b->order[i], b->order[i] = t;
            break;
        }
    sort_axes(b, 0, outer - (k->column ? 1 : 0));
    sort_axes(b, outer, n - (k->column ? 0 : 1));
    k->naxes = n;
    for (int i = 0; i < n; i++) k->size[i] = b->d.size[b->order[i]];
    if (!n) { /* tensors of one element: a row of one */
        k->naxes = k->nrow = 1;
        k->size[0] = 1;
    }
    return CR_OK;
}

/* ---- the kernel ---- */

static cr_status build_stores(builder *b, const cr_graph *body) {
    const cr_node *output = cr_graph_node(b->g, cr_graph_output(b->g)),
                  *promised = cr_graph_node(body, cr_graph_output(body));
    cr_row_kernel *k = b->k;
    uint32_t outer = ((1u << b->d.naxes) - 1) & ~b->row;
    for (uint16_t i = 0; i < output->nargs; i++) {
        if (output->args[i].kind != CR_ARG_VALUE) return refuse("a result that is no tensor");
        uint32_t v = (uint32_t)output->args[i].u.i;
        int16_t port;
        if (b->made[v] < 0 || b->local[v] < 0) return refuse("a result that is not computed");
        CR_TRY(add_port(b, v, cr_graph_value(body, (uint32_t)promised->args[i].u.i)->meta, b->made[v], i, &port));
        cr_row_port *p = &k->port[port];
        uint32_t axes = 0;
        for (int a = 0; a < b->d.naxes; a++)
            if (p->dim[a] >= 0) axes |= 1u << b->order[a];
        if ((axes & outer) != outer) return refuse("a result without an outer axis");
        if (p->varies && (axes & b->row) != b->row) return refuse("a result over a part of the row");
        if (!p->varies && k->value[p->value].varies) return refuse("a result that varies");
    }
    return CR_OK;
}

void cr__comment_text(cr_str *out, const char *text) {
    for (; *text; text++) {
        bool plain_char = (*text >= 'a' && *text <= 'z') || (*text >= 'A' && *text <= 'Z') ||
                          (*text >= '0' && *text <= '9') || strchr("_.:, ()[]=+-%<>/", *text);
        cr_str_addc(out, plain_char ? *text : '_');
    }
}

/* k_add_layer_norm_gelu, and a line per node of the body. */
static cr_status describe(builder *b, const cr_graph *body) {
    cr_str name, comment, line;
    cr_str_init(&name);
    cr_str_init(&comment);
    cr_str_init(&line);
    for (uint32_t n = cr_graph_first(body); n != CR_NO_NODE; n = cr_graph_next(body, n)) {
        const cr_node *node = cr_graph_node(body, n);
        if (node->kind != CR_NODE_CALL) continue;
        const char *word = node->op->schema.name;
        while (*word == '_') word++;
        if (!strncmp(word, "native_", 7)) word += 7;
        bool view = cr_rows_kind_of(body, node) == CR_ROWS_VIEW;
        if (!view && name.n + strlen(word) < 40) cr_str_addf(&name, "%s%s", name.n ? "_" : "", word);
        line.n = 0;
        cr_str_addf(&line, "%s = %s(", cr_graph_value(body, node->first)->name, node->op->name);
        for (uint16_t i = 0; i < node->nargs; i++) {
            if (!node->args[i].given && node->args[i].kind != CR_ARG_VALUE) continue;
            cr_str_add(&line, i ? ", " : "");
            if (node->args[i].kind == CR_ARG_VALUE)
                cr_str_add(&line, cr_graph_value(body, (uint32_t)node->args[i].u.i)->name);
            else cr_arg_print(b->env, &node->args[i], &line);
        }
        cr_str_add(&line, ")");
        cr_str_add(&comment, comment.n ? "\n * " : "");
        cr__comment_text(&comment, cr_str_get(&line));
    }
    cr_status status = cr_str_status(&name);
    if (!status) status = cr_str_status(&comment);
    if (!status) status = cr_str_status(&line);
    if (!status) {
        b->k->name = cr_arena_strdup(b->arena, name.n ? cr_str_get(&name) : "rows");
        b->k->comment = cr_arena_strdup(b->arena, cr_str_get(&comment));
        if (!b->k->name || !b->k->comment) status = CR_ENOMEM;
    }
    cr_str_dispose(&name);
    cr_str_dispose(&comment);
    cr_str_dispose(&line);
    return status;
}

static cr_status build(builder *b, const cr_graph *body) {
    cr_row_kernel *k = b->k;
    for (uint32_t n = cr_graph_first(b->g); n != CR_NO_NODE; n = cr_graph_next(b->g, n)) {
        if (cr_graph_node(b->g, n)->kind != CR_NODE_CALL) continue;
        const cr_node *node = cr_graph_node(b->g, n);
        bool number_only = true;
        for (uint32_t i = 0; i < node->nvalues; i++)
            number_only &= cr_graph_value(b->g, node->first + i)->type != CR_T_TENSOR;
        if (number_only) continue; /* sizes: known to the metas */
        if (b->nnodes == CR_ROWS_MAX_NODES) return refuse("too many nodes");
        b->nodes[b->nnodes++] = n;
    }
    if (!b->nnodes) return refuse("no node");
    if (!cr_rows_analyse(b->g, b->nodes, b->nnodes, b->local, &b->d)) return refuse("its axes do not fit together");
    for (int i = 0; i < b->d.nvalues; i++) b->local[b->d.value[i]] = (int16_t)i;
    CR_TRY(order_axes(b));
    for (int i = 0; i < b->nnodes; i++)
        if (b->local[cr_graph_node(b->g, b->nodes[i])->first] >= 0)
            CR_TRY(build_node(b, cr_graph_node(b->g, b->nodes[i])));
    k->nin = k->nports;
    CR_TRY(build_stores(b, body));
    CR_TRY(cr__row_schedule(k));
    return describe(b, body);
}

static bool stop(const cr_op *op, void *user) { return !is_expanded(op) && cr_stop_at_kernels(op, user); }

cr_status cr_row_build(cr_graph *body, cr_arena *arena, cr_row_kernel **out) {
    cr_graph *g = NULL;
    builder *b = cr_calloc(1, sizeof *b);
    if (!b) return CR_ENOMEM;
    cr_status status = CR_OK;
    size_t before = cr_env_cond_count(cr_graph_env(body));
    CR_TRY_OUT(cr_pass_decompose(body, stop, NULL, &g));
    if (cr_env_cond_count(cr_graph_env(body)) != before) CR_TRY_OUT(refuse("its sizes would have to be checked"));
    uint32_t n = cr_graph_value_count(g);
    b->g = g, b->env = cr_graph_env(g), b->arena = arena;
    b->local = cr_alloc(2 * (n + 1) * sizeof *b->local);
    b->k = cr_arena_calloc(arena, 1, sizeof *b->k);
    cr_row_value *values = cr_alloc(CR_ROW_MAX_VALUES * sizeof *values);
    if (b->k) b->k->value = values;
    if (!b->local || !b->k || !values) status = CR_ENOMEM;
    if (!status) {
        b->made = b->local + n;
        memset(b->local, -1, 2 * n * sizeof *b->local);
        status = build(b, body);
    }
    if (!status) {
        b->k->value = cr_arena_copy(arena, values, (size_t)b->k->nvalues * sizeof *values);
        if (!b->k->value) status = CR_ENOMEM;
        *out = b->k;
    }
    cr_free(values);
out:
    cr_graph_release(g);
    cr_free(b->local);
    cr_free(b);
    return status;
}
