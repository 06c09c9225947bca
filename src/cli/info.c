/* info.c: `cresset info`: what a program takes, gives and is made of, without touching its weights.
 *
 * The facts are gathered once (struct facts) and shown either as text or as JSON. */
#include "cli/model.h"

#include "archive/json.h"

#include <stdlib.h>

static const cli_option options[] = {
    { .name = "graph", .kind = CLI_FLAG, .help = "print the graph instead" },
    { .name = "json", .kind = CLI_FLAG, .help = "print JSON: inputs, outputs, dynamic, state, ops, unsupported, ..." },
    { .name = "name", .kind = CLI_TEXT, .value = "NAME", .help = "which program, where the archive holds several" },
    { .name = "check", .kind = CLI_FLAG, .help = "verify every checksum, those of the weights too" },
    { .name = NULL },
};

/* ---- facts ---- */

typedef struct op_count { const char *name; size_t count; } op_count;
typedef struct missing_op { const char *name, *source; size_t count; } missing_op; /* source: NULL when unknown */
typedef struct tally { size_t count; int64_t elements, bytes; } tally;
typedef struct facts {
    const char *path;
    model m;
    const char *const *programs;
    size_t nprograms;
    cr_map op_index;               /* name -> index in ops */
    CR_VEC(op_count) ops;          /* most frequent first */
    CR_VEC(missing_op) unsupported;
    CR_VEC(const char *) extra, aot; /* paths below extra/, package names below data/aotinductor/ */
    tally parameters, buffers, constants;
} facts;

static bool is_unsupported(const cr_program *p, const char *name) {
    for (size_t i = 0; i < p->nunsupported; i++)
        if (!strcmp(p->unsupported[i], name)) return true;
    return false;
}

static cr_status count_missing(facts *f, const char *name, const cr_node *node) {
    for (size_t i = 0; i < f->unsupported.n; i++)
        if (!strcmp(f->unsupported.at[i].name, name)) return f->unsupported.at[i].count++, CR_OK;
    cr_str source;
    cr_str_init(&source);
    const char *kept = NULL;
    bool known = model_source(node, &source);
    cr_status status = cr_str_status(&source);
    if (known && !status && !(kept = cr_arena_strdup(&f->m.arena, cr_str_get(&source)))) status = CR_ENOMEM;
    cr_str_dispose(&source);
    CR_TRY(status);
    return cr_vec_push(&f->unsupported, (missing_op){ name, kept, 1 });
}

static cr_status count_ops(facts *f, const cr_graph *g) {
    for (uint32_t n = cr_graph_first(g); n != CR_NO_NODE; n = cr_graph_next(g, n)) {
        const cr_node *node = cr_graph_node(g, n);
        if (node->kind != CR_NODE_CALL) continue;
        const char *name = model_op_name(node);
        uint64_t at;
        if (cr_map_find_str(&f->op_index, name, &at)) {
            f->ops.at[at].count++;
        } else {
            CR_TRY(cr_map_put_str(&f->op_index, name, f->ops.n));
            CR_TRY(cr_vec_push(&f->ops, (op_count){ name, 1 }));
        }
        if (is_unsupported(f->m.program, name)) CR_TRY(count_missing(f, name, node));
    }
    for (size_t i = 0; i < cr_graph_subgraph_count(g); i++) CR_TRY(count_ops(f, cr_graph_subgraph(g, i)));
    return CR_OK;
}

static int by_count(const void *a, const void *b) {
    const op_count *x = a, *y = b;
    if (x->count != y->count) return x->count < y->count ? 1 : -1;
    return strcmp(x->name, y->name);
}

static void count_state(tally *t, const cr_tensor *tensor) {
    int64_t elements = 1;
    for (int i = 0; i < tensor->meta.rank; i++)
        if (cr_mul_overflow(elements, tensor->meta.size[i], &elements)) elements = 0;
    t->count++;
    t->elements += elements;
    t->bytes += elements * rt_itemsize(tensor->meta.dtype);
}

/* The archive's members that are no part of a program. A package is a folder below data/aotinductor. */
static cr_status list_members(facts *f) {
    cr_zip *zip = f->m.program->archive;
    for (size_t i = 0; zip && i < cr_zip_count(zip); i++) {
        const char *name = cr_zip_at(zip, i)->name, *slash = strchr(name, '/');
        const char *below = slash && strncmp(name, "extra_files/", 12) ? slash + 1 : name;
        if (!strncmp(below, "extra/", 6)) CR_TRY(cr_vec_push(&f->extra, below + 6));
        if (!strncmp(below, "extra_files/", 12)) CR_TRY(cr_vec_push(&f->extra, below + 12));
        if (strncmp(below, "data/aotinductor/", 17)) continue;
        size_t n = strcspn(below + 17, "/");
        char *package = cr_arena_strndup(&f->m.arena, below + 17, n);
        if (!package) return CR_ENOMEM;
        bool known = false;
        for (size_t k = 0; k < f->aot.n; k++) known |= !strcmp(f->aot.at[k], package);
        if (!known) CR_TRY(cr_vec_push(&f->aot, package));
    }
    return CR_OK;
}

static cr_status gather(facts *f) {
    const cr_program *p = f->m.program;
    CR_TRY(count_ops(f, p->graph));
    if (f->ops.n) qsort(f->ops.at, f->ops.n, sizeof *f->ops.at, by_count);
    for (size_t i = 0; i < p->nstate; i++) count_state(p->state[i].is_parameter ? &f->parameters : &f->buffers, p->state[i].tensor);
    for (size_t i = 0; i < p->nconstants; i++) count_state(&f->constants, p->constants[i].tensor);
    if (p->archive) CR_TRY(cr_program_list(p->archive, &f->m.arena, &f->programs, &f->nprograms));
    return list_members(f);
}

/* ---- text ---- */

/* 1234567 -> "1 234 567" */
static void add_grouped(cr_str *out, uint64_t n) {
    char digits[24];
    int length = 0;
    do digits[length++] = (char)('0' + n % 10), n /= 10;
    while (n);
    while (length) {
        cr_str_addc(out, digits[--length]);
        if (length && length % 3 == 0) cr_str_addc(out, ' ');
    }
}

static void add_constant(const facts *f, const model_slot *s, cr_str *out) {
    if (s->constant.kind == CR_ARG_NONE) cr_str_add(out, "None");
    else cr_arg_print(f->m.env, &s->constant, out);
}

static int longest(const model_slot *slots, size_t n) {
    size_t most = 4;
    for (size_t i = 0; i < n; i++) most = CR_MAX(most, strlen(slots[i].key));
    return (int)CR_MIN(most, (size_t)40);
}

static void add_slots(const facts *f, const char *title, const model_slot *slots, size_t n, bool outputs, cr_str *out) {
    int width = longest(slots, n);
    cr_str_addf(out, "\n%s\n", title);
    if (!n) cr_str_add(out, "  none\n");
    for (size_t i = 0; i < n; i++) {
        const model_slot *s = &slots[i];
        cr_str_addf(out, "  %-*s  %s", width, s->key, slot_type(s));
        if (s->type == CR_T_TENSOR && s->meta) cr_str_addc(out, ' '), slot_add_shape(&f->m, s, out);
        else if (s->is_constant && s->type != CR_T_ANY) cr_str_add(out, " = "), add_constant(f, s, out);
        else if (s->expr) cr_str_addc(out, ' '), cr_sym_print(s->expr, out);
        if (s->is_constant && !outputs) cr_str_add(out, " (fixed by the export)");
        if (strcmp(s->name, s->key)) cr_str_addf(out, "  %%%s", s->name);
        cr_str_addc(out, '\n');
    }
}

static void add_tally(const char *title, const tally *t, cr_str *out) {
    if (!t->count) return;
    cr_str_addf(out, "%-12s%zu tensor%s, ", title, t->count, t->count == 1 ? "" : "s");
    add_grouped(out, (uint64_t)t->elements);
    cr_str_add(out, " elements, ");
    cli_add_bytes(out, (uint64_t)t->bytes);
    cr_str_addc(out, '\n');
}

static void add_names(const char *title, const char *const *names, size_t n, cr_str *out) {
    if (!n) return;
    cr_str_addf(out, "%-12s", title);
    for (size_t i = 0; i < n; i++) cr_str_addf(out, "%s%s", i ? ", " : "", names[i]);
    cr_str_addc(out, '\n');
}

static void print_text(const facts *f, cr_str *out) {
    const cr_program *p = f->m.program;
    size_t calls = 0;
    for (size_t i = 0; i < f->ops.n; i++) calls += f->ops.at[i].count;
    cr_str_addf(out, "%s: ", f->path);
    if (p->archive) cli_add_bytes(out, cr_zip_size(p->archive)), cr_str_add(out, ", ");
    cr_str_addf(out, "PyTorch %s, schema %d.%d, dialect %s\n", p->torch_version ? p->torch_version : "?", p->schema_major, p->schema_minor, p->dialect ? p->dialect : "?");
    cr_str_addf(out, "program '%s': %zu calls of %zu ops\n", p->name, calls, f->ops.n);
    if (f->nprograms > 1) add_names("programs", f->programs, f->nprograms, out);
    add_slots(f, "inputs", f->m.inputs, f->m.ninputs, false, out);
    add_slots(f, "outputs", f->m.outputs, f->m.noutputs, true, out);
    if (p->nranges) cr_str_add(out, "\ndynamic\n");
    for (size_t i = 0; i < p->nranges; i++) {
        cr_str_addf(out, "  %-10s  ", p->ranges[i].symbol);
        model_add_range(p->ranges[i].range, out);
        cr_str_addc(out, '\n');
    }
    cr_str_addc(out, '\n');
    add_tally("parameters", &f->parameters, out);
    add_tally("buffers", &f->buffers, out);
    add_tally("constants", &f->constants, out);
    add_names("extra files", f->extra.at, f->extra.n, out);
    if (f->aot.n) add_names("AOTInductor", f->aot.at, f->aot.n, out), cr_str_add(out, "            (compiled packages; they are not run here)\n");
    cr_str_add(out, "\nops\n");
    for (size_t i = 0; i < f->ops.n; i++) cr_str_addf(out, "  %5zu  %s\n", f->ops.at[i].count, f->ops.at[i].name);
    if (f->unsupported.n) cr_str_add(out, "\nunsupported\n");
    for (size_t i = 0; i < f->unsupported.n; i++) {
        const missing_op *u = &f->unsupported.at[i];
        cr_str_addf(out, "  %s", u->name);
        if (u->count > 1) cr_str_addf(out, " (%zu times)", u->count);
        if (u->source) cr_str_addf(out, ", first at %s", u->source);
        cr_str_addc(out, '\n');
    }
}

/* ---- JSON ---- */

static void json_text(cr_json_writer *w, const char *s) {
    if (s) cr_json_string(w, s, strlen(s));
    else cr_json_null(w);
}

static void json_pair(cr_json_writer *w, const char *key, const char *s) {
    cr_json_key(w, key);
    json_text(w, s);
}

static void json_sizes(cr_json_writer *w, cr_env *env, const cr_meta *meta) {
    cr_json_open(w, '[');
    for (int i = 0; meta && i < meta->rank; i++) {
        cr_str text;
        cr_str_init(&text);
        cr_dim_print(env, meta->size[i], &text);
        if (cr_dim_is_plain(meta->size[i])) cr_json_int(w, meta->size[i]);
        else cr_json_string(w, cr_str_get(&text), text.n);
        cli_str_done(&text, w->out);
    }
    cr_json_close(w, ']');
}

static void json_constant(cr_json_writer *w, const facts *f, const cr_arg *a) {
    switch (a->kind) {
    case CR_ARG_NONE: cr_json_null(w); break;
    case CR_ARG_INT: cr_json_int(w, a->u.i); break;
    case CR_ARG_BOOL: cr_json_bool(w, a->u.i != 0); break;
    case CR_ARG_FLOAT: cr_json_float(w, a->u.f); break;
    case CR_ARG_STR: cr_json_string(w, a->u.s, a->n); break;
    default: {
        cr_str text;
        cr_str_init(&text);
        cr_arg_print(f->m.env, a, &text);
        cr_json_string(w, cr_str_get(&text), text.n);
        cli_str_done(&text, w->out);
    }
    }
}

static void json_slots(cr_json_writer *w, const facts *f, const char *key, const model_slot *slots, size_t n, bool outputs) {
    cr_json_key(w, key);
    cr_json_open(w, '[');
    for (size_t i = 0; i < n; i++) {
        const model_slot *s = &slots[i];
        cr_json_open(w, '{');
        json_pair(w, "name", s->name);
        if (outputs) json_pair(w, "key", s->left_out ? NULL : s->key);
        json_pair(w, "dtype", slot_type(s));
        cr_json_key(w, "shape");
        json_sizes(w, f->m.env, s->meta);
        if (s->is_constant) cr_json_key(w, "value"), json_constant(w, f, &s->constant);
        cr_str path;
        cr_str_init(&path);
        model_add_path(&f->m, outputs, i, &path);
        json_pair(w, "path", cr_str_get(&path));
        cli_str_done(&path, w->out);
        cr_json_close(w, '}');
    }
    cr_json_close(w, ']');
}

static void json_tally(cr_json_writer *w, const char *key, const tally *t) {
    cr_json_key(w, key);
    cr_json_open(w, '{');
    cr_json_key(w, "count"), cr_json_int(w, (int64_t)t->count);
    cr_json_key(w, "elements"), cr_json_int(w, t->elements);
    cr_json_key(w, "bytes"), cr_json_int(w, t->bytes);
    cr_json_close(w, '}');
}

static void json_state(cr_json_writer *w, const facts *f) {
    const cr_program *p = f->m.program;
    cr_json_key(w, "state");
    cr_json_open(w, '[');
    for (size_t i = 0; i < p->nstate + p->nconstants; i++) {
        const cr_named_tensor *t = i < p->nstate ? &p->state[i] : &p->constants[i - p->nstate];
        cr_json_open(w, '{');
        json_pair(w, "name", t->name);
        json_pair(w, "kind", t->is_parameter ? "parameter" : i < p->nstate ? "buffer" : "constant");
        json_pair(w, "dtype", cr_dtype_name(t->tensor->meta.dtype));
        cr_json_key(w, "shape");
        json_sizes(w, f->m.env, &t->tensor->meta);
        cr_json_close(w, '}');
    }
    cr_json_close(w, ']');
}

static void json_names(cr_json_writer *w, const char *key, const char *const *names, size_t n) {
    cr_json_key(w, key);
    cr_json_open(w, '[');
    for (size_t i = 0; i < n; i++) json_text(w, names[i]);
    cr_json_close(w, ']');
}

static void json_bound(cr_json_writer *w, const char *key, int64_t value, int64_t infinite) {
    cr_json_key(w, key);
    if (value == infinite) cr_json_null(w);
    else cr_json_int(w, value);
}

static void print_json(const facts *f, cr_str *out) {
    const cr_program *p = f->m.program;
    cr_json_writer writer, *w = &writer;
    cr_json_writer_init(w, out, 2);
    cr_json_open(w, '{');
    json_pair(w, "file", f->path);
    if (p->archive) cr_json_key(w, "bytes"), cr_json_int(w, (int64_t)cr_zip_size(p->archive));
    json_pair(w, "program", p->name);
    json_names(w, "programs", f->programs, f->nprograms);
    json_pair(w, "torch_version", p->torch_version);
    cr_json_key(w, "schema_version");
    cr_json_open(w, '[');
    cr_json_int(w, p->schema_major);
    cr_json_int(w, p->schema_minor);
    cr_json_close(w, ']');
    json_pair(w, "dialect", p->dialect);
    json_slots(w, f, "inputs", f->m.inputs, f->m.ninputs, false);
    json_slots(w, f, "outputs", f->m.outputs, f->m.noutputs, true);
    cr_json_key(w, "dynamic");
    cr_json_open(w, '[');
    for (size_t i = 0; i < p->nranges; i++) {
        cr_json_open(w, '{');
        json_pair(w, "symbol", p->ranges[i].symbol);
        json_bound(w, "min", p->ranges[i].range.lo, INT64_MIN);
        json_bound(w, "max", p->ranges[i].range.hi, INT64_MAX);
        cr_json_close(w, '}');
    }
    cr_json_close(w, ']');
    json_names(w, "guards", p->guards, p->nguards);
    json_tally(w, "parameters", &f->parameters);
    json_tally(w, "buffers", &f->buffers);
    json_tally(w, "constants", &f->constants);
    json_state(w, f);
    cr_json_key(w, "ops");
    cr_json_open(w, '{');
    for (size_t i = 0; i < f->ops.n; i++) cr_json_key(w, f->ops.at[i].name), cr_json_int(w, (int64_t)f->ops.at[i].count);
    cr_json_close(w, '}');
    cr_json_key(w, "unsupported");
    cr_json_open(w, '[');
    for (size_t i = 0; i < f->unsupported.n; i++) {
        cr_json_open(w, '{');
        json_pair(w, "name", f->unsupported.at[i].name);
        cr_json_key(w, "count"), cr_json_int(w, (int64_t)f->unsupported.at[i].count);
        json_pair(w, "source", f->unsupported.at[i].source);
        cr_json_close(w, '}');
    }
    cr_json_close(w, ']');
    json_names(w, "extra_files", f->extra.at, f->extra.n);
    json_names(w, "aotinductor", f->aot.at, f->aot.n);
    cr_json_close(w, '}');
    cr_str_addc(out, '\n');
}

/* ---- the command ---- */

static cr_status run(const cli_call *call) {
    facts f = { .path = cli_operand(call, 0) };
    cr_str out;
    cr_str_init(&out);
    cr_map_init(&f.op_index);
    bool graph = cli_flag(call, "graph"), json = cli_flag(call, "json");
    if (graph && json) return cli_misuse("--graph and --json exclude each other");
    cr_status status = model_open(&f.m, f.path, cli_text(call, "name"), CR_LOAD_META | (cli_flag(call, "check") ? CR_LOAD_CHECK : 0));
    if (status) goto out;
    CR_TRY_OUT(gather(&f));
    if (graph) cr_graph_print(f.m.program->graph, CR_PRINT_PLAIN, &out);
    else if (json) print_json(&f, &out);
    else print_text(&f, &out);
    status = cli_print(&out);
out:
    cr_str_dispose(&out);
    cr_map_dispose(&f.op_index);
    cr_vec_dispose(&f.ops);
    cr_vec_dispose(&f.unsupported);
    cr_vec_dispose(&f.extra);
    cr_vec_dispose(&f.aot);
    model_dispose(&f.m);
    return status;
}

const cli_command cli_info = {
    .name = "info",
    .summary = "shows inputs, outputs, sizes and ops of a program",
    .operands = "FILE",
    .least = 1,
    .most = 1,
    .files = "pt2",
    .options = options,
    .text = "Shows what a program takes and gives, its dynamic sizes and their ranges, how large its\n"
            "weights are, which ops it calls how often, and which of them cannot be run here.\n"
            "Weights are not read: a large archive takes no longer than a small one.",
    .examples = "  cresset info model.pt2\n  cresset info model.pt2 --json | jq .inputs\n",
    .run = run,
};
