/* print.c: a program as PyTorch's print(ep) shows it: the graph as a Python class, the signature, the ranges.
 *
 * The IR has values where FX has nodes: a node with several results is shown as a call whose parts are taken by index,
 * and a tensor keeps its name after a write. Values are set to None after their last use, as FX writes it. */
#include "export/internal.h"
#include "export/source.h"

#include <math.h>

typedef struct printer {
    const cr_graph *g;
    cr_str *out;
    const char **names;  /* by value: what it is shown as */
    uint32_t *last;      /* by value: the node after which nobody uses it; CR_NO_NODE: never used */
    cr_arena arena;
    cr_map renamed;      /* names given out by free_name */
    cr_map taken;        /* names of calls with several results -> the last number given to it */
    int indent;
    uint32_t node;       /* being looked at by visitors */
    CR_VEC(const char *) dead;
    bool failed;
} printer;

/* ---- preparing ---- */

static void see_use(void *user, uint32_t value) {
    printer *p = user;
    p->last[value] = p->node;
}

static void keep_name(printer *p, const cr_arg *a, uint32_t *hidden) {
    if (a->kind == CR_ARG_VALUE && a->type == CR_T_TENSOR) p->names[(*hidden)++] = p->names[a->u.i];
    for (uint32_t i = 0; a->kind == CR_ARG_LIST && i < a->n; i++) keep_name(p, &a->u.list[i], hidden);
}

/* Code must not hide Python's own names: an input of such a name gets another one in the first line, and what had that
 * name moves on. */
static const char *free_name(printer *p, const char *name) {
    const char *stem = name;
    for (unsigned k = 1; name && (cr__is_reserved(name) || cr_map_find_str(&p->renamed, name, NULL)); k++) {
        size_t n = strlen(stem), digits = n;
        while (digits && stem[digits - 1] >= '0' && stem[digits - 1] <= '9') digits--;
        if (digits < n && digits && stem[digits - 1] == '_') n = digits - 1;
        name = cr_arena_printf(&p->arena, "%.*s_%u", (int)n, stem, k);
    }
    if (!name || cr_map_put_str(&p->renamed, name, 1)) p->failed = true;
    return name ? name : "";
}

static void avoid_reserved(printer *p) {
    const cr_graph *g = p->g;
    bool any = false;
    for (uint32_t n = cr_graph_first(g); n != CR_NO_NODE && cr_graph_node(g, n)->kind == CR_NODE_PLACEHOLDER;
         n = cr_graph_next(g, n))
        any |= cr__is_reserved(cr_graph_value(g, cr_graph_node(g, n)->first)->name);
    if (!any || p->failed) return;
    for (uint32_t v = 0; v < cr_graph_value_count(g); v++)
        if (cr_graph_value(g, v)->node != CR_NO_NODE && !cr_graph_value(g, v)->hidden)
            p->names[v] = free_name(p, p->names[v]);
}

static void prepare(printer *p) {
    const cr_graph *g = p->g;
    uint32_t n = cr_graph_value_count(g);
    p->names = cr_arena_calloc(&p->arena, n + 1u, sizeof *p->names);
    p->last = cr_arena_alloc(&p->arena, (n + 1u) * sizeof *p->last);
    if (!p->names || !p->last) {
        p->failed = true;
        return;
    }
    memset(p->last, 0xff, (n + 1u) * sizeof *p->last);
    for (uint32_t v = 0; v < n; v++) p->names[v] = cr_graph_value(g, v)->name;
    avoid_reserved(p);
    for (p->node = cr_graph_first(g); p->node != CR_NO_NODE; p->node = cr_graph_next(g, p->node)) {
        const cr_node *node = cr_graph_node(g, p->node);
        cr_args_visit_values(node->args, node->nargs, see_use, p);
        uint32_t hidden = node->first;
        while (hidden < node->first + node->nvalues && !cr_graph_value(g, hidden)->hidden) hidden++;
        for (uint16_t k = 0; node->op && k < node->nargs; k++)
            if (node->op->schema.params[k].writes) keep_name(p, &node->args[k], &hidden);
    }
    /* a name dies where the last value that is shown by it does: earlier ones go on */
    cr_map later;
    cr_map_init(&later);
    for (uint32_t v = n; v-- > 0;) {
        if (cr_map_find(&later, &p->names[v], sizeof p->names[v], NULL)) p->last[v] = CR_NO_NODE - 1;
        else if (cr_graph_value(g, v)->hidden && p->last[v] != CR_NO_NODE &&
                 cr_map_put(&later, &p->names[v], sizeof p->names[v], 1))
            p->failed = true;
    }
    cr_map_dispose(&later);
}

/* ---- pieces ---- */

static void start_line(printer *p) { cr_str_addf(p->out, "%*s", p->indent, ""); }

static void print_dims(printer *p, const cr_meta *m) {
    cr_str_addc(p->out, '[');
    for (int d = 0; d < m->rank; d++) {
        if (d) cr_str_add(p->out, ", ");
        cr_dim_print(cr_graph_env(p->g), m->size[d], p->out);
    }
    cr_str_addc(p->out, ']');
}

/* : "f32[2, s0]" */
static void print_annotation(printer *p, const cr_value *v) {
    if (v->meta) {
        cr_str_addf(p->out, ": \"%s", v->meta->dtype == CR_BOOL ? "b8" : cr_dtype_short(v->meta->dtype));
        print_dims(p, v->meta);
        cr_str_addc(p->out, '"');
    } else if (v->expr) {
        cr_str_add(p->out, ": \"Sym(");
        cr_sym_print(v->expr, p->out);
        cr_str_add(p->out, ")\"");
    }
}

static void print_string(printer *p, const char *s, uint32_t n) {
    char quote = memchr(s, '\'', n) && !memchr(s, '"', n) ? '"' : '\'';
    cr_str_addc(p->out, quote);
    for (uint32_t i = 0; i < n; i++) {
        if (s[i] == '\\' || s[i] == quote) cr_str_addc(p->out, '\\');
        if (s[i] == '\n') cr_str_add(p->out, "\\n");
        else if ((unsigned char)s[i] < 0x20 || s[i] == 0x7f) cr_str_addf(p->out, "\\x%02x", (unsigned char)s[i]);
        else cr_str_addc(p->out, s[i]);
    }
    cr_str_addc(p->out, quote);
}

/* As Python's repr: 2j, (1+2j), (1.5-0.5j). */
static void print_part(printer *p, double value) {
    size_t before = p->out->n;
    cr_str_add_double(p->out, value);
    const char *text = cr_str_get(p->out);
    if (p->out->n > before + 2 && !strcmp(text + p->out->n - 2, ".0")) p->out->at[p->out->n -= 2] = 0;
}

static void print_complex(printer *p, const double *c) {
    bool both = c[0] != 0 || signbit(c[0]);
    if (both) {
        cr_str_addc(p->out, '(');
        print_part(p, c[0]);
        if (!signbit(c[1])) cr_str_addc(p->out, '+');
    }
    print_part(p, c[1]);
    cr_str_add(p->out, both ? "j)" : "j");
}

static void print_arg(printer *p, const cr_arg *a) {
    static const char *const formats[] = { [CR_CONTIGUOUS] = "contiguous_format",
                                           [CR_PRESERVE] = "preserve_format",
                                           [CR_CHANNELS_LAST] = "channels_last",
                                           [CR_CHANNELS_LAST_3D] = "channels_last_3d" };
    cr_str *out = p->out;
    switch ((cr_arg_kind)a->kind) {
    case CR_ARG_NONE: cr_str_add(out, "None"); break;
    case CR_ARG_VALUE: cr_str_add(out, p->names[a->u.i]); break;
    case CR_ARG_BOOL: cr_str_add(out, a->u.i ? "True" : "False"); break;
    case CR_ARG_STR: print_string(p, a->u.s, a->n); break;
    case CR_ARG_COMPLEX: print_complex(p, a->u.c); break;
    case CR_ARG_DTYPE: cr_str_addf(out, "torch.%s", cr_dtype_name((int)a->u.i)); break;
    case CR_ARG_LAYOUT: cr_str_add(out, "torch.strided"); break;
    case CR_ARG_FORMAT: cr_str_addf(out, "torch.%s", (size_t)a->u.i < CR_COUNT(formats) ? formats[a->u.i] : "?"); break;
    case CR_ARG_GRAPH: cr_str_add(out, cr_graph_name(a->u.graph)); break;
    case CR_ARG_DEVICE:
        cr_str_add(out, "device(type='");
        cr_device_print((cr_device){ a->u.device.type, -1 }, out);
        if (a->u.device.index >= 0) cr_str_addf(out, "', index=%d)", a->u.device.index);
        else cr_str_add(out, "')");
        break;
    case CR_ARG_LIST:
        cr_str_addc(out, '[');
        for (uint32_t i = 0; i < a->n; i++) {
            if (i) cr_str_add(out, ", ");
            print_arg(p, &a->u.list[i]);
        }
        cr_str_addc(out, ']');
        break;
    default: cr_arg_print(cr_graph_env(p->g), a, out); break;
    }
}

static void print_args(printer *p, const cr_node *node) {
    bool any = false;
    cr_str_addc(p->out, '(');
    for (uint16_t k = 0; k < node->nargs; k++) {
        if (node->args[k].given == CR_GIVEN_DEFAULT) continue;
        if (any) cr_str_add(p->out, ", ");
        any = true;
        bool spread = (node->op->tags & CR_TAG_HIGHER_ORDER) && node->args[k].kind == CR_ARG_LIST &&
                      !strcmp(node->op->schema.params[k].name, "args");
        if (node->args[k].given == CR_GIVEN_KEYWORD) cr_str_addf(p->out, "%s = ", node->op->schema.params[k].name);
        if (!spread) print_arg(p, &node->args[k]);
        for (uint32_t i = 0; spread && i < node->args[k].n; i++) {
            if (i) cr_str_add(p->out, ", ");
            print_arg(p, &node->args[k].u.list[i]);
        }
    }
    cr_str_addc(p->out, ')');
}

/* Ops without a row show the call they stand for. */
static void print_opaque(printer *p, const cr_node *node) {
    const char *target = node->args[0].u.s, *colons = strstr(target, "::");
    const cr_arg *names = &node->args[1], *args = &node->args[2];
    if (colons)
        cr_str_addf(p->out, "torch.ops.%.*s.%s%s(", (int)(colons - target), target, colons + 2,
                    strchr(colons, '.') ? "" : ".default");
    else cr_str_addf(p->out, "%s(", target);
    for (uint32_t i = 0; i < args->n; i++) {
        if (i) cr_str_add(p->out, ", ");
        if (i < names->n && names->u.list[i].n) cr_str_addf(p->out, "%s = ", names->u.list[i].u.s);
        print_arg(p, &args->u.list[i]);
    }
    cr_str_addc(p->out, ')');
}

static bool print_operator(printer *p, const cr_node *node) {
    static const struct { const char *name, *sign; } signs[] = {
        { "add", "+" },  { "sub", "-" },  { "mul", "*" }, { "truediv", "/" }, { "floordiv", "//" }, { "mod", "%" },
        { "pow", "**" }, { "eq", "==" },  { "ne", "!=" }, { "lt", "<" },      { "le", "<=" },       { "gt", ">" },
        { "ge", ">=" },  { "and_", "&" }, { "or_", "|" }, { "neg", "-" },
    };
    const cr_schema *s = &node->op->schema;
    size_t i = 0;
    if (strcmp(s->ns, "_operator")) return false;
    while (i < CR_COUNT(signs) && strcmp(signs[i].name, s->name)) i++;
    if (i == CR_COUNT(signs)) return false;
    if (node->nargs == 2) {
        print_arg(p, &node->args[0]);
        cr_str_addf(p->out, " %s ", signs[i].sign);
        print_arg(p, &node->args[1]);
    } else {
        cr_str_add(p->out, signs[i].sign);
        print_arg(p, &node->args[0]);
    }
    return true;
}

static void print_call(printer *p, const cr_node *node) {
    const cr_schema *s = &node->op->schema;
    if (!strcmp(node->op->name, "cresset::opaque")) {
        print_opaque(p, node);
        return;
    }
    if (print_operator(p, node)) return;
    bool python = !strcmp(s->ns, "_operator") || !strcmp(s->ns, "math") || !strcmp(s->ns, "torch"),
         higher = !strcmp(s->ns, "higher_order");
    cr_str_addf(p->out, "%s%s.%s", python ? "" : "torch.ops.", s->ns, s->name);
    if (!python && !higher) cr_str_addf(p->out, ".%s", *s->overload ? s->overload : "default");
    print_args(p, node);
}

/* ---- lines ---- */

static void add_dead(printer *p, const char *name) {
    for (size_t i = 0; i < p->dead.n; i++)
        if (p->dead.at[i] == name) return;
    if (cr_vec_push(&p->dead, name)) p->failed = true;
}

/* Values that the line was the last to need, and bodies, in the order of the arguments. */
static void see_dead(printer *p, const cr_arg *a) {
    if (a->kind == CR_ARG_GRAPH) add_dead(p, cr_graph_name(a->u.graph));
    if (a->kind == CR_ARG_VALUE && p->last[a->u.i] == p->node) add_dead(p, p->names[a->u.i]);
    for (uint32_t i = 0; a->kind == CR_ARG_LIST && i < a->n; i++) see_dead(p, &a->u.list[i]);
}

/* ";  x = y = None": what the line was the last to need, and `unused`, which nobody needs. */
static void end_line(printer *p, const cr_node *args, const char *holder, const char *unused) {
    p->dead.n = 0;
    for (uint16_t k = 0; args && k < args->nargs; k++) see_dead(p, &args->args[k]);
    if (p->dead.n || holder || unused) {
        cr_str_add(p->out, ";  ");
        for (size_t i = 0; i < p->dead.n; i++) cr_str_addf(p->out, "%s = ", p->dead.at[i]);
        if (holder) cr_str_addf(p->out, "%s = ", holder);
        if (unused) cr_str_addf(p->out, "%s = ", unused);
        cr_str_add(p->out, "None");
    }
    cr_str_addc(p->out, '\n');
}

static const char *call_name(printer *p, const char *stem) {
    const char *name = stem;
    uint64_t k = 0;
    cr_map_find_str(&p->taken, stem, &k);
    while (name && (cr_graph_find(p->g, name) != CR_NO_VALUE || cr_map_find_str(&p->taken, name, NULL)))
        name = cr_arena_printf(&p->arena, "%s_%llu", stem, (unsigned long long)++k);
    if (!name || cr_map_put_str(&p->taken, name, 0) || cr_map_put_str(&p->taken, stem, k)) {
        p->failed = true;
        return "";
    }
    return name;
}

/* Results that the exporter named itself because nobody uses them are not shown. */
static bool is_shown(const printer *p, uint32_t v) {
    const cr_value *value = cr_graph_value(p->g, v);
    return !value->hidden && !(p->last[v] == CR_NO_NODE && (strstr(value->name, "_unused_") || !value->meta));
}

static void print_parts(printer *p, const cr_node *node, const char *holder) {
    uint32_t end = node->first + node->nvalues, last = CR_NO_VALUE;
    for (uint32_t v = node->first; v < end; v++)
        if (is_shown(p, v)) last = v;
    for (uint32_t v = node->first; v < end; v++) {
        if (!is_shown(p, v)) continue;
        start_line(p);
        cr_str_add(p->out, p->names[v]);
        print_annotation(p, cr_graph_value(p->g, v));
        cr_str_addf(p->out, " = %s[%u]", holder, v - node->first);
        end_line(p, NULL, v == last ? holder : NULL, p->last[v] == CR_NO_NODE ? p->names[v] : NULL);
    }
}

/* "mylib::split.default" is called split. */
static const char *opaque_stem(printer *p, const char *target) {
    const char *colons = strstr(target, "::"), *name = colons ? colons + 2 : target;
    char *stem = cr_arena_strndup(&p->arena, name, strcspn(name, "."));
    p->failed |= !stem;
    return stem ? stem : "";
}

static void print_node(printer *p, const cr_node *node) {
    const cr_schema *s = &node->op->schema;
    uint32_t visible = 0;
    for (uint32_t v = node->first; v < node->first + node->nvalues; v++) visible += !cr_graph_value(p->g, v)->hidden;
    bool opaque = !strcmp(node->op->name, "cresset::opaque");
    bool parts = opaque ? visible != 1
                        : s->varargs_returns || s->nreturns > 1 || (s->nreturns == 1 && s->returns[0].list);
    for (uint16_t k = 0; k < node->nargs; k++)
        if (node->args[k].kind == CR_ARG_GRAPH) {
            start_line(p);
            cr_str_addf(p->out, "%s = self.%s\n", cr_graph_name(node->args[k].u.graph),
                        cr_graph_name(node->args[k].u.graph));
        }
    const char *holder = parts || !visible ? node->target
                                                 ? node->target
                                                 : call_name(p, opaque ? opaque_stem(p, node->args[0].u.s) : s->name)
                                           : p->names[node->first];
    start_line(p);
    cr_str_add(p->out, holder);
    if (!parts && visible) print_annotation(p, cr_graph_value(p->g, node->first));
    cr_str_add(p->out, " = ");
    print_call(p, node);
    bool shown = false;
    for (uint32_t v = node->first; v < node->first + node->nvalues; v++) shown |= is_shown(p, v);
    bool unused = parts ? !shown : !visible || p->last[node->first] == CR_NO_NODE;
    end_line(p, node, NULL, unused ? holder : NULL);
    if (parts) print_parts(p, node, holder);
}

/* # File: PATH:LINE in NAME, code: TEXT, where it differs from the line before. */
static void print_source(printer *p, const cr_node *node, cr__frame *before, bool *first) {
    cr__frame f;
    if (!cr__source_frame(&node->origin, false, &f)) return;
    bool same = before->path && f.path_length == before->path_length &&
                !memcmp(f.path, before->path, (size_t)f.path_length) && f.line_length == before->line_length &&
                !memcmp(f.line, before->line, (size_t)f.line_length) && f.code_length == before->code_length &&
                !memcmp(f.code, before->code, (size_t)f.code_length);
    if (same) return;
    if (!*first) cr_str_addf(p->out, "%*s\n", 4, "");
    *first = false;
    *before = f;
    start_line(p);
    cr_str_addf(p->out, "# File: %.*s:%.*s", f.path_length, f.path, f.line_length, f.line);
    if (f.function_length) cr_str_addf(p->out, " in %.*s", f.function_length, f.function);
    cr_str_addf(p->out, ", code: %.*s\n", f.code_length, f.code);
}

static void print_graph(const cr_graph *g, const char *name, const cr_program *program, int indent, cr_str *out);

static void print_body(printer *p, const cr_program *program) {
    const cr_graph *g = p->g;
    uint32_t n = cr_graph_first(g);
    cr__frame before = { 0 };
    bool first = true;
    start_line(p);
    cr_str_add(p->out, "def forward(self");
    for (size_t i = 0; n != CR_NO_NODE && cr_graph_node(g, n)->kind == CR_NODE_PLACEHOLDER;
         n = cr_graph_next(g, n), i++) {
        const cr_value *v = cr_graph_value(g, cr_graph_node(g, n)->first);
        cr_str_addf(p->out, ", %s", v->name);
        if (!program || i >= program->ninputs || !program->inputs[i].is_constant) print_annotation(p, v);
    }
    cr_str_add(p->out, "):\n");
    p->indent += 4;
    for (uint32_t k = cr_graph_first(g); k != n; k = cr_graph_next(g, k)) {
        uint32_t v = cr_graph_node(g, k)->first;
        if (p->names[v] == cr_graph_value(g, v)->name || !strcmp(p->names[v], cr_graph_value(g, v)->name)) continue;
        start_line(p);
        cr_str_addf(p->out, "%s = %s\n", p->names[v], cr_graph_value(g, v)->name);
    }
    for (; n != CR_NO_NODE; n = cr_graph_next(g, n)) {
        const cr_node *node = cr_graph_node(g, n);
        p->node = n;
        if (node->kind == CR_NODE_CALL) {
            print_source(p, node, &before, &first);
            print_node(p, node);
        } else if (node->kind == CR_NODE_OUTPUT) {
            start_line(p);
            cr_str_add(p->out, "return (");
            for (uint16_t k = 0; k < node->nargs; k++) {
                if (k) cr_str_add(p->out, ", ");
                print_arg(p, &node->args[k]);
            }
            cr_str_add(p->out, node->nargs == 1 ? ",)\n" : ")\n");
        }
    }
}

static void print_graph(const cr_graph *g, const char *name, const cr_program *program, int indent, cr_str *out) {
    printer p = { .g = g, .out = out, .indent = indent + 4 };
    cr_arena_init(&p.arena);
    cr_map_init(&p.taken);
    cr_map_init(&p.renamed);
    prepare(&p);
    cr_str_addf(out, "%*sclass %s(torch.nn.Module):\n", indent, "", name);
    if (!p.failed) print_body(&p, program);
    for (size_t i = 0; i < cr_graph_subgraph_count(g); i++) {
        cr_str_addf(out, "%*s\n", indent, "");
        print_graph(cr_graph_subgraph(g, i), cr_graph_name(cr_graph_subgraph(g, i)), NULL, indent + 4, out);
    }
    out->failed |= p.failed;
    cr_vec_dispose(&p.dead);
    cr_map_dispose(&p.taken);
    cr_map_dispose(&p.renamed);
    cr_arena_dispose(&p.arena);
}

/* ---- signature and ranges ---- */

static void print_specs(const cr_program *p, cr_str *out) {
    static const char *const inputs[] = {
        "USER_INPUT", "PARAMETER", "BUFFER", "CONSTANT_TENSOR", "CUSTOM_OBJ", "TOKEN"
    };
    static const char *const outputs[] = {
        "USER_OUTPUT",         "LOSS_OUTPUT",           "BUFFER_MUTATION",        "PARAMETER_MUTATION",
        "USER_INPUT_MUTATION", "GRADIENT_TO_PARAMETER", "GRADIENT_TO_USER_INPUT", "TOKEN"
    };
    cr_str_add(out, "Graph signature: \n    # inputs\n");
    for (size_t i = 0; i < p->ninputs; i++) {
        const cr_input_spec *s = &p->inputs[i];
        cr_str_addf(out, "    %s: %s", s->name ? s->name : "", inputs[s->kind]);
        if (s->target) cr_str_addf(out, " target='%s'", s->target);
        if (s->kind == CR_INPUT_BUFFER) cr_str_addf(out, " persistent=%s", s->persistent ? "True" : "False");
        cr_str_addc(out, '\n');
    }
    cr_str_add(out, "    \n    # outputs\n");
    for (size_t i = 0; i < p->noutputs; i++) {
        const cr_output_spec *s = &p->outputs[i];
        cr_str_addf(out, "    %s: %s", s->name ? s->name : "", outputs[s->kind]);
        if (s->target) cr_str_addf(out, " target='%s'", s->target);
        cr_str_addc(out, '\n');
    }
    cr_str_add(out, "    \n");
}

static void print_ranges(const cr_program *p, cr_str *out) {
    cr_str_add(out, "Range constraints: {");
    for (size_t i = 0; i < p->nranges; i++) {
        cr_range range = p->ranges[i].range;
        cr_str_addf(out, "%s%s: VR[", i ? ", " : "", p->ranges[i].symbol);
        if (range.lo == INT64_MIN) cr_str_add(out, "-int_oo, ");
        else cr_str_addf(out, "%lld, ", (long long)range.lo);
        if (range.hi == INT64_MAX) cr_str_add(out, "int_oo]");
        else cr_str_addf(out, "%lld]", (long long)range.hi);
    }
    cr_str_add(out, "}\n");
}

void cr_program_print(const cr_program *p, cr_str *out) {
    pthread_mutex_t *lock = cr_program_lock(p); /* sizes are expressions of the graph's environment */
    cr_str_add(out, "ExportedProgram:\n");
    pthread_mutex_lock(lock);
    print_graph(p->graph, "GraphModule", p, 4, out);
    pthread_mutex_unlock(lock);
    cr_str_add(out, "    \n");
    print_specs(p, out);
    print_ranges(p, out);
}
