/* pt2_write_graph.c: the IR as the graph of an archive; the other half of pt2_graph.c.
 *
 * Values are written by their archive's names: what a write left behind is the tensor that was written, and casts that
 * reading put in front of a node of a mixed-precision region are left out again. Which member of the argument union a
 * value goes to follows from its kind and the op's schema, as PyTorch chooses it; for ops without a row, from what was
 * read. */
#include "export/internal.h"
#include "export/pt2_write.h"
#include "export/source.h"

#include <stdio.h>

typedef struct scope {
    cr__pt2_writer *w;
    const cr_graph *g;
    cr_map taken; /* names of nodes that were made up here */
} scope;

/* ---- names ---- */

/* The k-th tensor among the values in `a`. */
static bool nth_tensor(const cr_arg *a, uint32_t *k, uint32_t *value) {
    if (a->kind == CR_ARG_VALUE && a->type == CR_T_TENSOR && !(*k)--) return *value = (uint32_t)a->u.i, true;
    for (uint32_t i = 0; a->kind == CR_ARG_LIST && i < a->n; i++)
        if (nth_tensor(&a->u.list[i], k, value)) return true;
    return false;
}

/* The value whose name `value` has in an archive. */
static uint32_t named_value(const cr_graph *g, uint32_t value) {
    for (;;) {
        const cr_value *v = cr_graph_value(g, value);
        const cr_node *node = cr_graph_node(g, v->node);
        if (node->archived && node->archived->implied && node->nargs && node->args[0].kind == CR_ARG_VALUE) {
            value = (uint32_t)node->args[0].u.i;
            continue;
        }
        if (!v->hidden || v->ret >= node->nargs) return value;
        uint32_t k = 0;
        for (uint32_t i = value;
             i-- > node->first && cr_graph_value(g, i)->hidden && cr_graph_value(g, i)->ret == v->ret;)
            k++;
        if (!nth_tensor(&node->args[v->ret], &k, &value)) return value;
    }
}

const char *cr__archive_name(const cr_graph *g, uint32_t value) {
    return cr_graph_value(g, named_value(g, value))->name;
}

static bool is_opaque(const cr_node *node) { return !strcmp(node->op->name, "cresset::opaque"); }
static bool is_python(const cr_schema *s) {
    return !strcmp(s->ns, "_operator") || !strcmp(s->ns, "math") || !strcmp(s->ns, "torch");
}

static void add_target(scope *s, const cr_node *node, cr_str *out) {
    const cr_schema *schema = &node->op->schema;
    if (node->archived && node->archived->target) {
        cr_str_add(out, node->archived->target);
    } else if (is_opaque(node)) { /* "ns::name.overload" */
        const char *name = node->args[0].u.s, *colons = strstr(name, "::");
        if (!colons) cr_str_add(out, name);
        else
            cr_str_addf(out, "torch.ops.%.*s.%s%s", (int)(colons - name), name, colons + 2,
                        strchr(colons, '.') || !strncmp(name, "higher_order", 12) ? "" : ".default");
    } else if (!strcmp(schema->ns, "cresset")) {
        cr__writer_fail(s->w, CR_FAIL(CR_EUNSUPPORTED,
                                      "'%s' exists here alone, PyTorch has no such op: save the program as it was "
                                      "before it was prepared for running",
                                      node->op->name));
    } else if (is_python(schema)) {
        cr_str_addf(out, "%s.%s", schema->ns, schema->name);
    } else if (!strcmp(schema->ns, "higher_order")) {
        cr_str_addf(out, "torch.ops.higher_order.%s", schema->name);
    } else {
        cr_str_addf(out, "torch.ops.%s.%s.%s", schema->ns, schema->name,
                    *schema->overload ? schema->overload : "default");
    }
}

/* ---- arguments ---- */

static void write_argument(scope *s, const cr_param *param, const cr_arg *a);

static void open_union(scope *s, const char *key) {
    cr_json_open(&s->w->j, '{');
    cr_json_key(&s->w->j, key);
}
static void close_union(scope *s) { cr_json_close(&s->w->j, '}'); }

/* An element of a list, without the key of the union around it. */
static void write_item(scope *s, const char *key, const cr_arg *a) {
    cr_json_writer *j = &s->w->j;
    if (a->kind == CR_ARG_LIST) {
        cr_json_open(j, '[');
        for (uint32_t i = 0; i < a->n; i++) write_item(s, key, &a->u.list[i]);
        cr_json_close(j, ']');
        return;
    }
    bool sym = !strncmp(key, "as_sym_", 7), optional = !strcmp(key, "as_optional_tensors");
    if (a->kind == CR_ARG_VALUE) {
        const char *name = cr__archive_name(s->g, (uint32_t)a->u.i);
        if (optional) open_union(s, "as_tensor");
        cr_json_open(j, '{');
        cr__put_text(j, sym ? "as_name" : "name", name);
        cr_json_close(j, '}');
        if (optional) close_union(s);
    } else if (a->kind == CR_ARG_NONE && optional) {
        cr_json_open(j, '{');
        cr__put_bool(j, "as_none", true);
        cr_json_close(j, '}');
    } else if (!strcmp(key, "as_tensors")) {
        cr__writer_fail(s->w, CR_FAIL(CR_EUNSUPPORTED, "a number stands among the tensors of a list, which archives "
                                                       "cannot hold; carry it as a tensor (cresset.tensor(0))"));
    } else if (sym) {
        cr__write_constant(s->w, a);
    } else if (a->kind == CR_ARG_INT) {
        if (!strncmp(key, "as_float", 8)) cr__write_float(s->w, (double)a->u.i);
        else cr_json_int(j, a->u.i);
    } else if (a->kind == CR_ARG_FLOAT) {
        cr__write_float(s->w, a->u.f);
    } else if (a->kind == CR_ARG_BOOL) {
        cr_json_bool(j, a->u.i != 0);
    } else if (a->kind == CR_ARG_STR) {
        cr_json_string(j, a->u.s, a->n);
    } else {
        cr__writer_fail(s->w, CR_FAIL(CR_EUNSUPPORTED, "a list holds something that archives cannot hold in lists"));
    }
}

typedef struct contents { bool tensors, syms, none, ints, floats, bools, texts, nested; uint8_t sym; } contents;

static void look_into(const cr_arg *list, contents *c) {
    for (uint32_t i = 0; i < list->n; i++) {
        const cr_arg *a = &list->u.list[i];
        if (a->kind == CR_ARG_LIST) {
            c->nested = true;
            look_into(a, c);
        }
        bool value = a->kind == CR_ARG_VALUE;
        c->tensors |= value && a->type == CR_T_TENSOR;
        c->syms |= value && a->type != CR_T_TENSOR;
        if (value && a->type != CR_T_TENSOR) c->sym = (uint8_t)a->type;
        c->none |= a->kind == CR_ARG_NONE;
        c->ints |= a->kind == CR_ARG_INT;
        c->floats |= a->kind == CR_ARG_FLOAT;
        c->bools |= a->kind == CR_ARG_BOOL;
        c->texts |= a->kind == CR_ARG_STR;
    }
}

/* The union's member for a list. An empty list of unknown type is one of tensors, as PyTorch decides. */
static const char *list_key(const cr_param *param, const cr_arg *a) {
    contents c = { .sym = CR_T_INT };
    look_into(a, &c);
    uint8_t type = param ? param->type : CR_T_ANY;
    if (c.tensors && c.syms) return "as_tensors"; /* operands of regions */
    if (c.syms) return c.sym == CR_T_FLOAT ? "as_sym_floats" : c.sym == CR_T_BOOL ? "as_sym_bools" : "as_sym_ints";
    if (c.tensors || type == CR_T_TENSOR)
        return c.nested ? "as_nested_tensors" : c.none ? "as_optional_tensors" : "as_tensors";
    if (c.texts || type == CR_T_STR) return "as_strings";
    if (c.bools || type == CR_T_BOOL) return "as_bools";
    if (c.floats || type == CR_T_FLOAT) return c.nested ? "as_float_lists" : "as_floats";
    if (c.ints || type == CR_T_INT || type == CR_T_SCALAR) return c.nested ? "as_int_lists" : "as_ints";
    return c.none ? "as_optional_tensors" : "as_tensors";
}

static void write_dict(scope *s, const cr_arg *a) {
    open_union(s, "as_string_to_argument");
    cr_json_open(&s->w->j, '{');
    for (uint32_t i = 0; i + 1 < a->n; i += 2) {
        cr_json_key(&s->w->j, a->u.list[i].u.s);
        write_argument(s, NULL, &a->u.list[i + 1]);
    }
    cr_json_close(&s->w->j, '}');
    close_union(s);
}

static void write_list(scope *s, const cr_param *param, const cr_arg *a) {
    const char *key = cr__argument_key(a->type);
    if (!strcmp(key, "as_string_to_argument")) {
        write_dict(s, a);
        return;
    }
    if (!*key || param) key = list_key(param, a);
    open_union(s, key);
    cr_json_open(&s->w->j, '[');
    for (uint32_t i = 0; i < a->n; i++) write_item(s, key, &a->u.list[i]);
    cr_json_close(&s->w->j, ']');
    close_union(s);
}

static void write_subgraph(scope *s, const cr_graph *g) {
    open_union(s, "as_graph");
    cr_json_open(&s->w->j, '{');
    cr__put_text(&s->w->j, "name", cr_graph_name(g));
    cr_json_key(&s->w->j, "graph");
    cr__write_graph(s->w, g, false);
    cr_json_close(&s->w->j, '}');
    close_union(s);
}

static void write_complex(scope *s, const double *c) {
    cr_json_writer *j = &s->w->j;
    cr_json_open(j, '{');
    cr_json_key(j, "real"), cr__write_float(s->w, c[0]);
    cr_json_key(j, "imag"), cr__write_float(s->w, c[1]);
    cr_json_close(j, '}');
}

/* `param` is NULL for arguments of ops without a row. */
static void write_argument(scope *s, const cr_param *param, const cr_arg *a) {
    enum { STRIDED = 7 };
    cr_json_writer *j = &s->w->j;
    switch ((cr_arg_kind)a->kind) {
    case CR_ARG_VALUE: {
        const cr_value *v = cr_graph_value(s->g, (uint32_t)a->u.i);
        cr__write_named(s->w, (cr_type)v->type, cr__archive_name(s->g, (uint32_t)a->u.i));
        return;
    }
    case CR_ARG_LIST: write_list(s, param, a); return;
    case CR_ARG_GRAPH: write_subgraph(s, a->u.graph); return;
    case CR_ARG_STR:
        open_union(s, !strcmp(cr__argument_key(a->type), "as_operator") ? "as_operator" : "as_string");
        cr_json_string(j, a->u.s, a->n);
        break;
    case CR_ARG_DTYPE: open_union(s, "as_scalar_type"), cr_json_int(j, cr__schema_dtype((int)a->u.i)); break;
    case CR_ARG_LAYOUT: open_union(s, "as_layout"), cr_json_int(j, STRIDED); break;
    case CR_ARG_FORMAT: open_union(s, "as_memory_format"), cr_json_int(j, cr__schema_format((int)a->u.i)); break;
    case CR_ARG_DEVICE: open_union(s, "as_device"), cr__write_device(s->w, a->u.device); break;
    case CR_ARG_COMPLEX: open_union(s, "as_complex"), write_complex(s, a->u.c); break;
    case CR_ARG_NONE: case CR_ARG_INT: case CR_ARG_FLOAT: case CR_ARG_BOOL: cr__write_constant(s->w, a); return;
    default:
        open_union(s, "as_none"), cr_json_bool(j, true);
        cr__writer_fail(s->w, CR_FAIL(CR_EUNSUPPORTED, "an argument that is no value of the graph cannot be written"));
    }
    close_union(s);
}

static void write_input(scope *s, const char *name, const cr_param *param, const cr_arg *a, int kind) {
    cr_json_open(&s->w->j, '{');
    cr__put_text(&s->w->j, "name", name);
    cr_json_key(&s->w->j, "arg");
    write_argument(s, param, a);
    cr__put_int(&s->w->j, "kind", kind);
    cr_json_close(&s->w->j, '}');
}

/* The name of the i-th argument that is written; inside with_effects, as for all region ops, positional ones have
 * none. */
static const char *argument_name(const cr_node *node, uint32_t i, const char *own, bool keyword) {
    const cr_archived *v = node->archived;
    if (v && v->arg_names && i < v->nargs) return v->arg_names[i];
    bool nameless = (node->op->tags & CR_TAG_HIGHER_ORDER) || (v && v->token);
    return nameless && !keyword ? "" : own;
}

static void write_opaque_inputs(scope *s, const cr_node *node) {
    const cr_arg *names = &node->args[1], *args = &node->args[2];
    for (uint32_t i = 0; i < args->n; i++) {
        const char *own = i < names->n ? names->u.list[i].u.s : "";
        bool keyword = *own;
        write_input(s, argument_name(node, i, own, keyword), NULL, &args->u.list[i],
                    keyword ? CR_GIVEN_KEYWORD : CR_GIVEN_POSITIONAL);
    }
}

static void write_inputs(scope *s, const cr_node *node) {
    const cr_schema *schema = &node->op->schema;
    if (node->archived && node->archived->token) {
        cr_str target;
        cr_str_init(&target);
        add_target(s, node, &target);
        if (cr_str_status(&target)) cr__writer_fail(s->w, cr_str_status(&target));
        cr_json_writer *j = &s->w->j;
        cr_json_open(j, '{');
        cr__put_text(j, "name", "");
        cr_json_key(j, "arg");
        cr__write_named(s->w, CR_T_TENSOR, node->archived->token);
        cr__put_int(j, "kind", CR_GIVEN_POSITIONAL);
        cr_json_close(j, '}');
        cr_json_open(j, '{');
        cr__put_text(j, "name", "");
        cr_json_key(j, "arg");
        open_union(s, "as_operator");
        cr_json_string(j, cr_str_get(&target), target.n);
        close_union(s);
        cr__put_int(j, "kind", CR_GIVEN_POSITIONAL);
        cr_json_close(j, '}');
        cr_str_dispose(&target);
    }
    if (is_opaque(node)) {
        write_opaque_inputs(s, node);
        return;
    }
    uint32_t at = 0;
    for (uint16_t k = 0; k < node->nargs; k++) {
        const cr_arg *a = &node->args[k];
        const cr_param *param = &schema->params[k];
        bool left = a->given == CR_GIVEN_DEFAULT, keyword = left ? param->keyword_only : a->given == CR_GIVEN_KEYWORD;
        if (left && (param->has_default || !param->keyword_only))
            continue; /* randn(generator=None): it has no default */
        /* "f(*args)": each by itself */
        bool spread = (node->op->tags & CR_TAG_HIGHER_ORDER) && a->kind == CR_ARG_LIST && !strcmp(param->name, "args");
        for (uint32_t i = 0; spread && i < a->n; i++)
            write_input(s, argument_name(node, at++, "", false), NULL, &a->u.list[i], CR_GIVEN_POSITIONAL);
        if (!spread)
            write_input(s, argument_name(node, at++, param->name, keyword), param, a,
                        keyword ? CR_GIVEN_KEYWORD : CR_GIVEN_POSITIONAL);
    }
}

/* ---- results ---- */

static bool is_shown(const cr_value *v) { return v->type != CR_T_TENSOR || v->meta; }

static void write_result(scope *s, const cr_value *v) {
    if (is_shown(v)) {
        cr__write_named(s->w, (cr_type)v->type, v->name);
        return;
    }
    cr_arg none = cr_arg_none();
    cr__write_constant(s->w, &none);
}

static void write_result_list(scope *s, const cr_node *node, uint16_t ret, uint32_t *at) {
    cr_json_writer *j = &s->w->j;
    uint32_t end = *at;
    bool optional = false;
    while (end < node->nvalues && !cr_graph_value(s->g, node->first + end)->hidden &&
           cr_graph_value(s->g, node->first + end)->ret == ret)
        optional |= !is_shown(cr_graph_value(s->g, node->first + end++));
    open_union(s, optional ? "as_optional_tensors" : "as_tensors");
    cr_json_open(j, '[');
    for (; *at < end; ++*at) {
        const cr_value *v = cr_graph_value(s->g, node->first + *at);
        if (optional) {
            write_result(s, v);
            continue;
        }
        cr_json_open(j, '{');
        cr__put_text(j, "name", v->name);
        cr_json_close(j, '}');
    }
    cr_json_close(j, ']');
    close_union(s);
}

static void write_results(scope *s, const cr_node *node) {
    const cr_schema *schema = &node->op->schema;
    uint32_t at = 0;
    if (node->archived && node->archived->next_token) cr__write_named(s->w, CR_T_TENSOR, node->archived->next_token);
    if (node->archived && node->archived->none) cr__write_constant(s->w, &(cr_arg){ .kind = CR_ARG_NONE });
    for (uint16_t r = 0; r < schema->nreturns; r++) {
        if (schema->returns[r].list) write_result_list(s, node, r, &at);
        else if (at < node->nvalues) write_result(s, cr_graph_value(s->g, node->first + at++));
    }
    if (!schema->varargs_returns) return;
    for (; at < node->nvalues && !cr_graph_value(s->g, node->first + at)->hidden; at++)
        write_result(s, cr_graph_value(s->g, node->first + at));
}

/* ---- nodes ---- */

static void write_metadata(scope *s, const cr_node *node) {
    cr_json_writer *j = &s->w->j;
    cr_json_open(j, '{');
    if (node->origin.stack_trace && s->w->folder) {
        cr_str shown;
        cr_str_init(&shown);
        cr__show_trace(s->w->folder, node->origin.stack_trace, &shown);
        if (cr_str_status(&shown)) cr__writer_fail(s->w, CR_ENOMEM);
        cr__put_text(j, "stack_trace", cr_str_get(&shown));
        cr_str_dispose(&shown);
    } else if (node->origin.stack_trace) cr__put_text(j, "stack_trace", node->origin.stack_trace);
    if (node->origin.module_stack) cr__put_text(j, "nn_module_stack", node->origin.module_stack);
    if (node->origin.source_fn) cr__put_text(j, "torch_fn", node->origin.source_fn);
    if (node->archived && node->archived->metadata) cr_json_members(j, node->archived->metadata);
    cr_json_close(j, '}');
}

static bool is_taken(const scope *s, const char *name) {
    return cr_graph_find(s->g, name) != CR_NO_VALUE || cr_map_find_str(&s->taken, name, NULL);
}

/* A node with several results, or none, whose name nobody has kept: the op's, numbered. */
static void write_made_name(scope *s, const cr_node *node) {
    char name[160];
    snprintf(name, sizeof name, "%.128s", node->op->schema.name);
    for (unsigned k = 1; is_taken(s, name); k++) snprintf(name, sizeof name, "%.128s_%u", node->op->schema.name, k);
    cr_status status = cr_map_put_str(&s->taken, name, 1);
    if (status) cr__writer_fail(s->w, status);
    cr__put_text(&s->w->j, "name", name);
}

static void write_name(scope *s, const cr_node *node) {
    uint32_t n = 0;
    while (n < node->nvalues && !cr_graph_value(s->g, node->first + n)->hidden) n++;
    bool parts = n != 1 || (node->op->schema.nreturns && node->op->schema.returns[0].list) ||
                 (node->op->tags & CR_TAG_HIGHER_ORDER && !(node->archived && node->archived->single));
    if (node->target) cr__put_text(&s->w->j, "name", node->target);
    else if (!parts) cr__put_text(&s->w->j, "name", cr_graph_value(s->g, node->first)->name);
    else write_made_name(s, node);
}

static void write_node(scope *s, const cr_node *node) {
    cr_json_writer *j = &s->w->j;
    bool effects = node->archived && node->archived->token;
    cr_str target;
    cr_str_init(&target);
    if (effects) cr_str_add(&target, "torch.ops.higher_order.with_effects");
    else add_target(s, node, &target);
    if (cr_str_status(&target)) cr__writer_fail(s->w, cr_str_status(&target));
    bool higher = !strncmp(cr_str_get(&target), "torch.ops.higher_order.", 23);
    cr_json_open(j, '{');
    cr_json_key(j, "target"), cr_json_string(j, cr_str_get(&target), target.n);
    cr_json_key(j, "inputs");
    cr_json_open(j, '[');
    write_inputs(s, node);
    cr_json_close(j, ']');
    cr_json_key(j, "outputs");
    cr_json_open(j, '[');
    write_results(s, node);
    cr_json_close(j, ']');
    cr_json_key(j, "metadata");
    write_metadata(s, node);
    cr_json_key(j, "is_hop_single_tensor_return");
    if (higher) cr_json_bool(j, node->archived && node->archived->single);
    else cr_json_null(j);
    write_name(s, node);
    cr_json_close(j, '}');
    cr_str_dispose(&target);
}

/* ---- graphs ---- */

/* An input that was specialised has its value in the signature, and that is the graph's input. */
static void write_graph_inputs(scope *s, bool main) {
    size_t i = 0;
    for (uint32_t n = cr_graph_first(s->g); n != CR_NO_NODE && cr_graph_node(s->g, n)->kind == CR_NODE_PLACEHOLDER;
         n = cr_graph_next(s->g, n), i++) {
        const cr_value *v = cr_graph_value(s->g, cr_graph_node(s->g, n)->first);
        if (main && i < s->w->p->ninputs && s->w->p->inputs[i].is_constant)
            cr__write_constant(s->w, &s->w->p->inputs[i].constant);
        else if (v->type == CR_T_ANY) cr__write_constant(s->w, &(cr_arg){ .kind = CR_ARG_NONE });
        else write_result(s, v);
    }
}

static void write_graph_outputs(scope *s, bool main) {
    const cr_node *output = cr_graph_node(s->g, cr_graph_output(s->g));
    for (uint16_t i = 0; i < output->nargs; i++) {
        bool token = main && i < s->w->p->noutputs && s->w->p->outputs[i].kind == CR_OUTPUT_TOKEN &&
                     s->w->p->outputs[i].name;
        /* the last one; here it is the first */
        if (token) cr__write_named(s->w, CR_T_TENSOR, s->w->p->outputs[i].name);
        else write_argument(s, NULL, &output->args[i]);
    }
}

static bool is_written(const cr_graph *g, uint32_t value) {
    const cr_value *v = cr_graph_value(g, value);
    if (v->node == CR_NO_NODE || v->hidden) return false;
    const cr_node *node = cr_graph_node(g, v->node);
    return !node->dead && !(node->archived && node->archived->implied);
}

/* The next input of the graph was specialised: it has no entry. `at` counts inputs. */
static bool is_constant_input(const scope *s, bool main, const cr_node *node, size_t *at) {
    if (node->kind != CR_NODE_PLACEHOLDER) return false;
    size_t i = (*at)++;
    return main && i < s->w->p->ninputs && s->w->p->inputs[i].is_constant;
}

static void write_token(scope *s, const cr_node *node) {
    cr_meta meta;
    uint32_t token = cr_graph_find(s->g, node->archived->token);
    const cr_meta *m = token == CR_NO_VALUE ? NULL : cr_graph_value(s->g, token)->meta;
    if (!m) {
        cr_meta_init(&meta, CR_F32, (cr_device){ CR_CPU, -1 }); /* float32[0] */
        meta.rank = 1;
        meta.size[0] = 0;
        meta.stride[0] = 1;
        m = &meta;
    }
    cr_json_key(&s->w->j, node->archived->next_token);
    cr__write_meta(s->w, m);
}

static void write_tensors(scope *s, bool main) {
    size_t at = 0;
    for (uint32_t n = cr_graph_first(s->g); n != CR_NO_NODE; n = cr_graph_next(s->g, n)) {
        const cr_node *node = cr_graph_node(s->g, n);
        if (is_constant_input(s, main, node, &at)) continue;
        if (node->archived && node->archived->next_token) write_token(s, node);
        for (uint32_t i = 0; i < node->nvalues; i++) {
            const cr_value *v = cr_graph_value(s->g, node->first + i);
            if (!is_written(s->g, node->first + i) || v->type != CR_T_TENSOR || !v->meta) continue;
            cr_json_key(&s->w->j, v->name);
            s->w->value = v->name;
            cr__write_meta(s->w, v->meta);
            s->w->value = NULL;
        }
    }
}

static void write_numbers(scope *s, bool main, cr_type type) {
    size_t at = 0;
    for (uint32_t n = cr_graph_first(s->g); n != CR_NO_NODE; n = cr_graph_next(s->g, n)) {
        const cr_node *node = cr_graph_node(s->g, n);
        if (is_constant_input(s, main, node, &at)) continue;
        for (uint32_t i = 0; i < node->nvalues; i++) {
            const cr_value *v = cr_graph_value(s->g, node->first + i);
            if (!is_written(s->g, node->first + i) || v->type != type) continue;
            cr_json_key(&s->w->j, v->name);
            cr__write_sym(s->w, v->expr, type);
        }
    }
}

static void write_parts(scope *s, bool main) {
    cr_json_writer *j = &s->w->j;
    const cr_node *output = cr_graph_node(s->g, cr_graph_output(s->g));
    cr_json_open(j, '{');
    cr_json_key(j, "inputs"), cr_json_open(j, '[');
    write_graph_inputs(s, main);
    cr_json_close(j, ']');
    cr_json_key(j, "outputs"), cr_json_open(j, '[');
    write_graph_outputs(s, main);
    cr_json_close(j, ']');
    cr_json_key(j, "nodes"), cr_json_open(j, '[');
    for (uint32_t n = cr_graph_first(s->g); n != CR_NO_NODE; n = cr_graph_next(s->g, n)) {
        const cr_node *node = cr_graph_node(s->g, n);
        if (node->kind == CR_NODE_GET_ATTR)
            cr__writer_fail(s->w, CR_FAIL(CR_EUNSUPPORTED,
                                          "the graph holds constant '%s' itself; in an archive constants are inputs of "
                                          "the graph: lift it",
                                          node->target));
        if (node->kind == CR_NODE_CALL && !(node->archived && node->archived->implied)) write_node(s, node);
    }
    cr_json_close(j, ']');
    cr_json_key(j, "tensor_values"), cr_json_open(j, '{');
    write_tensors(s, main);
    cr_json_close(j, '}');
    cr_json_key(j, "sym_int_values"), cr_json_open(j, '{');
    write_numbers(s, main, CR_T_INT);
    cr_json_close(j, '}');
    cr_json_key(j, "sym_bool_values"), cr_json_open(j, '{');
    write_numbers(s, main, CR_T_BOOL);
    cr_json_close(j, '}');
    cr__put_bool(j, "is_single_tensor_return", output->archived && output->archived->single);
    cr_json_key(j, "custom_obj_values"), cr_json_open(j, '{'), cr_json_close(j, '}');
    cr_json_key(j, "sym_float_values"), cr_json_open(j, '{');
    write_numbers(s, main, CR_T_FLOAT);
    cr_json_close(j, '}');
    cr_json_close(j, '}');
}

void cr__write_graph(cr__pt2_writer *w, const cr_graph *g, bool main) {
    scope s = { .w = w, .g = g };
    if (w->status) return;
    if (cr_graph_output(g) == CR_NO_NODE) {
        cr__writer_fail(w, CR_FAIL(CR_EVALUE, "the graph has no outputs yet"));
        return;
    }
    cr_map_init(&s.taken);
    write_parts(&s, main);
    cr_map_dispose(&s.taken);
}
