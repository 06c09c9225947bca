/* page.c: a program's graph as data for page.html, and that page around data.
 *
 * page.html is part of the library (CMake makes page_html.inc of it). Data go into it as JSON in which no '<', '>' or
 * '&' is left, so that nothing an archive says can end the script element; the page's script shows them as text. */
#include "api/api.h"

#include "cresset/page.h"
#include "export/source.h"

#include <string.h>

static const char page_html[] = {
#include "page_html.inc"
    , 0
};

/* ---- the page ---- */

static void add_html(const char *text, cr_str *out) {
    for (; *text; text++) {
        if (*text == '<') cr_str_add(out, "&lt;");
        else if (*text == '>') cr_str_add(out, "&gt;");
        else if (*text == '&') cr_str_add(out, "&amp;");
        else cr_str_addc(out, *text);
    }
}

/* They stand only inside of JSON's strings. U+2028 and U+2029 are fine there for JSON.parse. */
static void add_json(const char *json, cr_str *out) {
    for (const char *at = json; *at; at++) {
        if (strchr("<>&", *at)) cr_str_addf(out, "\\u%04x", (unsigned)*at);
        else cr_str_addc(out, *at);
    }
}

cr_status cr_page_write(const char *title, const char *json, cr_str *out) {
    static const char title_mark[] = "@TITLE@", data_mark[] = "@DATA@";
    const char *at = strstr(page_html, title_mark), *data = strstr(at, data_mark);
    cr_str_addn(out, page_html, (size_t)(at - page_html));
    add_html(title, out);
    at += sizeof title_mark - 1;
    cr_str_addn(out, at, (size_t)(data - at));
    add_json(json, out);
    cr_str_add(out, data + sizeof data_mark - 1);
    return cr_str_status(out);
}

/* ---- a program's data ---- */

typedef struct writer {
    cr_json_writer w;
    const cr_program *p;
    const cr_page_time *times;
    size_t ntimes;
    cr_map by_node;        /* name of a value -> index of `times` */
    bool *shown;           /* of `times`: a node has it */
    size_t placeholders;   /* of the main graph, so far: they are in the order of the program's inputs */
    cr_str text;           /* scratch */
} writer;

static void add_text(writer *w, const char *key, const char *text) {
    cr_json_key(&w->w, key);
    cr_json_string(&w->w, text, strlen(text));
}

/* What was put into the scratch text since it was begun. */
static void begin_text(writer *w) {
    cr_str_dispose(&w->text);
    cr_str_init(&w->text);
}
static void end_text(writer *w, const char *key) {
    w->w.out->failed |= w->text.failed;
    add_text(w, key, cr_str_get(&w->text));
}

/* "aten::add -> add_3 (net.py:3, layer)": add_3 */
static bool node_of(const char *origin, const char **name, size_t *n) {
    const char *arrow = strstr(origin, " -> ");
    if (!arrow) return false;
    *name = arrow + 4;
    *n = strcspn(*name, " ");
    return *n > 0;
}

static cr_status index_times(writer *w) {
    const char *name;
    size_t n;
    for (size_t i = 0; i < w->ntimes; i++)
        if (node_of(w->times[i].origin, &name, &n)) CR_TRY(cr_map_put(&w->by_node, name, n, i));
    return CR_OK;
}

static void add_type(writer *w, const cr_graph *g, const cr_value *v) {
    if (v->meta) {
        cr_str_addf(&w->text, "%s[", cr_dtype_name(v->meta->dtype));
        for (int d = 0; d < v->meta->rank; d++) {
            if (d) cr_str_add(&w->text, ", ");
            cr_dim_print(cr_graph_env(g), v->meta->size[d], &w->text);
        }
        cr_str_addc(&w->text, ']');
    } else if (v->expr) cr_sym_print(v->expr, &w->text);
}

static void json_values(writer *w, const cr_graph *g, const cr_node *node) {
    begin_text(w);
    for (uint32_t i = 0; i < node->nvalues; i++) {
        if (i) cr_str_add(&w->text, ", ");
        add_type(w, g, cr_graph_value(g, node->first + i));
    }
    end_text(w, "type");
    cr_json_key(&w->w, "names");
    cr_json_open(&w->w, '[');
    for (uint32_t i = 0; i < node->nvalues; i++) {
        const char *name = cr_graph_value(g, node->first + i)->name;
        cr_json_string(&w->w, name, strlen(name));
    }
    cr_json_close(&w->w, ']');
}

typedef struct inputs { writer *w; const cr_graph *g; } inputs;

static void json_input(void *user, uint32_t value) {
    const inputs *in = user;
    const char *name = cr_graph_value(in->g, value)->name;
    cr_json_string(&in->w->w, name, strlen(name));
}

static void json_call(writer *w, const cr_graph *g, const cr_node *node) {
    begin_text(w);
    cr_graph_print_node(g, node, &w->text);
    end_text(w, "text");
    cr_json_key(&w->w, "inputs");
    cr_json_open(&w->w, '[');
    cr_args_visit_values(node->args, node->nargs, json_input, &(inputs){ w, g });
    cr_json_close(&w->w, ']');
}

static int64_t bytes_of(const cr_tensor *t) {
    int64_t bytes;
    return cr_meta_bytes(&t->meta, &bytes) ? 0 : bytes;
}

/* A weight's module is what stands before the last point of its name. */
static void json_weight(writer *w, const char *target) {
    const char *point = strrchr(target, '.');
    const cr_tensor *t = cr_program_tensor(w->p, target);
    begin_text(w);
    cr_str_addn(&w->text, target, point ? (size_t)(point - target) : 0);
    end_text(w, "module");
    add_text(w, "target", target);
    int64_t bytes = t ? bytes_of(t) : 0;
    if (bytes) cr_json_key(&w->w, "bytes"), cr_json_int(&w->w, bytes);
}

static void json_placeholder(writer *w, const cr_graph *g) {
    bool main = g == w->p->graph;
    const cr_input_spec *spec = main && w->placeholders < w->p->ninputs ? &w->p->inputs[w->placeholders++] : NULL;
    add_text(w, "op", "input");
    add_text(w, "group", !main ? cr_graph_name(g) : spec && spec->target ? "weights" : "inputs");
    if (spec && spec->target) json_weight(w, spec->target);
}

static void json_origin(writer *w, const cr_node *node) {
    int length;
    const char *module = cr__source_module(&node->origin, &length);
    begin_text(w);
    cr_str_addn(&w->text, module, (size_t)length);
    end_text(w, "module");
    begin_text(w);
    if (cr__node_source(node, &w->text)) end_text(w, "source");
}

static void json_time(writer *w, const cr_graph *g, const cr_node *node) {
    uint64_t at;
    for (uint32_t i = 0; i < node->nvalues; i++) {
        const char *name = cr_graph_value(g, node->first + i)->name;
        if (!cr_map_find(&w->by_node, name, strlen(name), &at)) continue;
        cr_json_key(&w->w, "seconds"), cr_json_float(&w->w, w->times[at].seconds);
        w->shown[at] = true;
        return;
    }
}

static void json_node(writer *w, const cr_graph *g, const cr_node *node) {
    bool main = g == w->p->graph;
    const char *group = main ? "calls" : cr_graph_name(g);
    cr_json_open(&w->w, '{');
    add_text(w, "name", node->nvalues ? cr_graph_value(g, node->first)->name : node->target ? node->target : "");
    json_values(w, g, node);
    json_call(w, g, node);
    if (node->kind == CR_NODE_PLACEHOLDER) json_placeholder(w, g);
    else {
        add_text(w, "op", node->op ? cr__node_op_name(node) : node->kind == CR_NODE_OUTPUT ? "output" : "constant");
        add_text(w, "group", node->kind == CR_NODE_OUTPUT && main ? "outputs" : group);
        json_origin(w, node);
        if (main) json_time(w, g, node);
    }
    cr_json_close(&w->w, '}');
}

static void json_nodes(writer *w, const cr_graph *g) {
    for (uint32_t n = cr_graph_first(g); n != CR_NO_NODE; n = cr_graph_next(g, n))
        json_node(w, g, cr_graph_node(g, n));
    for (size_t i = 0; i < cr_graph_subgraph_count(g); i++) json_nodes(w, cr_graph_subgraph(g, i));
}

/* Passes make nodes that the program does not have; their time is not lost. */
static void json_other_steps(writer *w) {
    for (size_t i = 0; i < w->ntimes; i++) {
        if (w->shown[i]) continue;
        cr_json_open(&w->w, '{');
        add_text(w, "name", w->times[i].origin);
        add_text(w, "op", "step");
        add_text(w, "type", "");
        add_text(w, "group", "steps that passes made");
        cr_json_key(&w->w, "names"), cr_json_open(&w->w, '['), cr_json_close(&w->w, ']');
        cr_json_key(&w->w, "seconds"), cr_json_float(&w->w, w->times[i].seconds);
        cr_json_close(&w->w, '}');
    }
}

/* The scratch text as one fact. */
static void end_fact(writer *w) {
    cr_json_string(&w->w, cr_str_get(&w->text), w->text.n);
    begin_text(w);
}

static void json_facts(writer *w) {
    const cr_program *p = w->p;
    int64_t bytes = 0;
    for (size_t i = 0; i < p->nstate; i++) bytes += bytes_of(p->state[i].tensor);
    begin_text(w);
    cr_json_key(&w->w, "facts");
    cr_json_open(&w->w, '[');
    cr_str_addf(&w->text, "program '%s'", p->name), end_fact(w);
    cr_str_addf(&w->text, "%u nodes", cr_graph_node_count(p->graph)), end_fact(w);
    cr_str_addf(&w->text, "%zu weights, ", p->nstate), cr_str_add_bytes(&w->text, (uint64_t)bytes), end_fact(w);
    if (p->torch_version && *p->torch_version) cr_str_addf(&w->text, "PyTorch %s", p->torch_version), end_fact(w);
    if (p->nunsupported) cr_str_addf(&w->text, "%zu ops cannot be run here", p->nunsupported), end_fact(w);
    if (!w->ntimes) cr_str_add(&w->text, "not profiled"), end_fact(w);
    cr_json_close(&w->w, ']');
}

static cr_status write_data(writer *w, const char *title, cr_str *out) {
    double seconds = 0;
    for (size_t i = 0; i < w->ntimes; i++) seconds += w->times[i].seconds;
    CR_TRY(index_times(w));
    cr_json_writer_init(&w->w, out, 0);
    cr_json_open(&w->w, '{');
    add_text(w, "kind", "view");
    add_text(w, "title", title);
    json_facts(w);
    cr_json_key(&w->w, "seconds"), cr_json_float(&w->w, seconds);
    cr_json_key(&w->w, "nodes");
    cr_json_open(&w->w, '[');
    json_nodes(w, w->p->graph);
    json_other_steps(w);
    cr_json_close(&w->w, ']');
    cr_json_close(&w->w, '}');
    return cr_str_status(out);
}

cr_status cr_program_page(const cr_program *p, const char *title, const cr_page_time *times, size_t ntimes,
                          cr_str *out) {
    writer w = { .p = p, .times = times, .ntimes = ntimes, .shown = cr_calloc(ntimes + 1, sizeof *w.shown) };
    if (!w.shown) return CR_ENOMEM;
    cr_str json;
    cr_str_init(&json);
    cr_str_init(&w.text);
    cr_map_init(&w.by_node);
    pthread_mutex_lock(cr_program_lock(p));
    cr_status status = write_data(&w, title, &json);
    pthread_mutex_unlock(cr_program_lock(p));
    if (!status) status = cr_page_write(title, cr_str_get(&json), out);
    cr_map_dispose(&w.by_node);
    cr_free(w.shown);
    cr_str_dispose(&w.text);
    cr_str_dispose(&json);
    return status;
}
