/* model.c: opens a program and lists its inputs and outputs flat; see model.h. */
#include "cli/model.h"

#include "cresset/library.h"
#include "export/source.h"

cr_status cli_load_ops(const cli_call *call) {
    const char *path = cli_text(call, "op-library");
    char message[512] = "";
    if (!path || !cresset_load_ops(path, message, sizeof message)) return CR_OK;
    return CR_FAIL(CR_EVALUE, "%s", message);
}

static uint8_t constant_type(const cr_arg *a) {
    switch (a->kind) {
    case CR_ARG_INT: return CR_T_INT;
    case CR_ARG_FLOAT: return CR_T_FLOAT;
    case CR_ARG_BOOL: return CR_T_BOOL;
    case CR_ARG_COMPLEX: return CR_T_SCALAR;
    case CR_ARG_STR: return CR_T_STR;
    case CR_ARG_DTYPE: return CR_T_DTYPE;
    case CR_ARG_DEVICE: return CR_T_DEVICE;
    case CR_ARG_LAYOUT: return CR_T_LAYOUT;
    case CR_ARG_FORMAT: return CR_T_FORMAT;
    default: return CR_T_ANY;
    }
}

static void take_value(model_slot *s, const cr_graph *g, uint32_t id) {
    const cr_value *v = cr_graph_value(g, id);
    s->type = v->type;
    s->meta = v->meta;
    s->expr = v->expr;
    if (!s->name) s->name = v->name;
}

static cr_status list_inputs(model *m) {
    const cr_program *p = m->program;
    m->inputs = cr_arena_calloc(&m->arena, p->ninputs + 1, sizeof *m->inputs);
    if (!m->inputs) return CR_ENOMEM;
    for (size_t i = 0; i < p->ninputs; i++) {
        const cr_input_spec *spec = &p->inputs[i];
        if (spec->kind != CR_INPUT_USER) continue;
        model_slot *s = &m->inputs[m->ninputs++];
        s->name = s->key = spec->name;
        s->is_constant = spec->is_constant;
        s->constant = spec->constant;
        uint32_t value = cr_graph_find(p->graph, spec->name);
        if (spec->is_constant) s->type = constant_type(&spec->constant);
        else if (value != CR_NO_VALUE) take_value(s, p->graph, value);
    }
    return CR_OK;
}

static cr_status list_outputs(model *m) {
    const cr_program *p = m->program;
    const cr_node *node = cr_graph_node(p->graph, cr_graph_output(p->graph));
    m->outputs = cr_arena_calloc(&m->arena, p->noutputs + 1, sizeof *m->outputs);
    if (!m->outputs) return CR_ENOMEM;
    for (size_t i = 0; i < p->noutputs && i < node->nargs; i++) {
        const cr_output_spec *spec = &p->outputs[i];
        if (spec->kind != CR_OUTPUT_USER && spec->kind != CR_OUTPUT_LOSS) continue;
        model_slot *s = &m->outputs[m->noutputs++];
        const cr_arg *a = &node->args[i];
        s->name = spec->name;
        if (a->kind == CR_ARG_VALUE) take_value(s, p->graph, (uint32_t)a->u.i);
        else s->is_constant = true, s->constant = *a, s->type = constant_type(a);
        s->left_out = s->is_constant && !cr_arg_is_number(a);
        s->key = cr_arena_printf(&m->arena, "out%zu", m->noutputs - 1);
        if (!s->key) return CR_ENOMEM;
        if (!s->name) s->name = s->key;
    }
    return CR_OK;
}

cr_status model_open(model *m, const char *path, const char *name, int flags) {
    *m = (model){ 0 };
    cr_arena_init(&m->arena);
    bool library = cr_library_is(path);
    cr_status status = library ? model_open_library(m, path, name) : cr_program_load(path, name, flags, &m->program);
    if (status) {
        if (status == CR_ENOTFOUND) cli_hint("choose one with --name");
        goto out;
    }
    if (library) return CR_OK;
    cr_env_retain(m->env = cr_graph_env(m->program->graph));
    if (m->program->in_spec) cr_tree_retain(m->in_spec = m->program->in_spec);
    if (m->program->out_spec) cr_tree_retain(m->out_spec = m->program->out_spec);
    m->ranges = m->program->ranges;
    m->nranges = m->program->nranges;
    CR_TRY_OUT(list_inputs(m));
    CR_TRY_OUT(list_outputs(m));
out:
    if (status) model_dispose(m);
    return status;
}

void model_dispose(model *m) {
    cr_env_release(m->env);
    cr_tree_release(m->in_spec);
    cr_tree_release(m->out_spec);
    cr_library_release(m->library);
    cr_program_release(m->program);
    cr_arena_dispose(&m->arena);
    *m = (model){ 0 };
}

const char *slot_type(const model_slot *s) {
    static const char *const names[CR_T_COUNT] = {
        [CR_T_TENSOR] = "tensor",
        [CR_T_SCALAR] = "number",
        [CR_T_INT] = "int",
        [CR_T_FLOAT] = "float",
        [CR_T_BOOL] = "bool",
        [CR_T_STR] = "str",
        [CR_T_DTYPE] = "dtype",
        [CR_T_LAYOUT] = "layout",
        [CR_T_DEVICE] = "device",
        [CR_T_FORMAT] = "memory_format",
        [CR_T_GENERATOR] = "generator",
        [CR_T_GRAPH] = "graph",
        [CR_T_ANY] = "none",
    };
    if (s->type == CR_T_TENSOR && s->meta) return cr_dtype_name(s->meta->dtype);
    return names[s->type];
}

void slot_add_shape(const model *m, const model_slot *s, cr_str *out) {
    if (s->type == CR_T_TENSOR && s->meta) cr_shape_print(m->env, s->meta->rank, s->meta->size, out);
}

void model_add_range(cr_range range, cr_str *out) {
    bool lo = range.lo > INT64_MIN, hi = range.hi < INT64_MAX;
    if (lo && hi) cr_str_addf(out, "%lld to %lld", (long long)range.lo, (long long)range.hi);
    else if (lo) cr_str_addf(out, "at least %lld", (long long)range.lo);
    else if (hi) cr_str_addf(out, "at most %lld", (long long)range.hi);
    else cr_str_add(out, "any");
}

const char *model_op_name(const cr_node *node) {
    return strcmp(node->op->name, "cresset::opaque") || !node->nargs || node->args[0].kind != CR_ARG_STR
               ? node->op->name
               : node->args[0].u.s;
}

bool model_source(const cr_node *node, cr_str *out) {
    cr__frame f;
    if (!cr__source_frame(&node->origin, true, &f)) return false;
    cr_str_addf(out, "%.*s:%.*s", f.path_length, f.path, f.line_length, f.line);
    if (f.code_length > 120) cr_str_addf(out, ": %.120s...", f.code);
    else if (f.code_length) cr_str_addf(out, ": %.*s", f.code_length, f.code);
    return true;
}

void model_add_path(const model *m, bool output, size_t i, cr_str *out) {
    const cr_tree *spec = output ? m->out_spec : m->in_spec;
    if (!spec || i >= cr_tree_root(spec)->nleaves) return;
    if (output) {
        cr_tree_leaf_path(spec, "result", (uint32_t)i, out);
        return;
    }
    cr_str path;
    cr_str_init(&path);
    cr_tree_leaf_path(spec, "", (uint32_t)i, &path); /* of (args, kwargs) */
    const char *text = cr_str_get(&path);
    if (!strncmp(text, "[0]", 3)) cr_str_addf(out, "args%s", text + 3);
    else if (!strncmp(text, "[1]", 3)) cr_str_addf(out, "kwargs%s", text + 3);
    else cr_str_add(out, text);
    cli_str_done(&path, out);
}
