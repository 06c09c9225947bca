/* program.c: exported programs as the methods of one model.
 *
 * A parameter or buffer that no run of any method changes is a constant of the graph: passes may fold or pack it, and
 * it can be read by name afterwards only if its memory is stored as it was. One that runs change is state, copied per
 * instance. User outputs that share memory with an input, a weight or state are copied before mutations are written
 * back, so that they are what the functional program says. */
#include "graph/writes.h"
#include "lower/tables.h"

#include <stdio.h>

typedef struct lowering {
    cr_lowered *l;
    const cr_lower_options *options;
    cr__weights weights;
    cr_map changing;  /* names of what some method changes */
    const char *name; /* of the method being lowered; NULL: its program's */
    CR_VEC(rt_state) states;
    CR_VEC(cresset_state_info) infos;
} lowering;

/* A program on its way through the passes: what is left of its signature. */
typedef struct method_program {
    const cr_program *p;
    cr_tensor **frozen;           /* per input of the program: the constant it became, or NULL */
    const cr_input_spec **inputs; /* of the graph's placeholders, in order */
    size_t ninputs;
} method_program;

/* ---- what is written ---- */

static bool is_mutation(const cr_output_spec *o) {
    return o->kind == CR_OUTPUT_BUFFER_MUTATION || o->kind == CR_OUTPUT_PARAMETER_MUTATION;
}

static bool is_mutated(const cr_program *p, const cr_input_spec *in) {
    for (size_t i = 0; i < p->noutputs; i++)
        if (is_mutation(&p->outputs[i]) && p->outputs[i].target && in->target &&
            !strcmp(p->outputs[i].target, in->target))
            return true;
    return false;
}

static bool is_state(const cr_input_spec *in) {
    return in->kind == CR_INPUT_PARAMETER || in->kind == CR_INPUT_BUFFER || in->kind == CR_INPUT_TENSOR_CONSTANT;
}

/* Names of state that this graph of the program changes, by itself or by its signature. Its metas say what shares
 * memory. */
static cr_status add_changing(lowering *w, const cr_program *p, const cr_graph *g) {
    cr_writes writes;
    size_t i = 0;
    CR_TRY(cr_writes_find(g, CR_SHARING_KNOWN, &writes));
    cr_status status = CR_OK;
    for (uint32_t n = cr_graph_first(g); n != CR_NO_NODE && !status && i < p->ninputs; n = cr_graph_next(g, n)) {
        const cr_node *node = cr_graph_node(g, n);
        if (node->kind != CR_NODE_PLACEHOLDER) continue;
        const cr_input_spec *in = &p->inputs[i++];
        bool changes = is_mutated(p, in) || cr_writes_to(&writes, node->first);
        if (changes && is_state(in) && in->target) status = cr_map_put_str(&w->changing, in->target, 1);
    }
    cr_writes_dispose(&writes);
    return status;
}

/* An archive does not say what shares memory, and composite ops not what they write: both are known once they are taken
 * apart. A single method's own passes find that out; several must know it of each other before the first is lowered. */
static cr_status find_changing(lowering *w, const cr_program *p, bool alone) {
    cr_graph *parts = NULL;
    if (alone || p->nunsupported || !cr_graph_writes(p->graph)) return add_changing(w, p, p->graph);
    bool general = cr_env_set_general(cr_graph_env(p->graph), true); /* as in the pipeline: conditions are asked once */
    cr_status status = cr_pass_decompose(p->graph, cr_stop_at_kernels, NULL, &parts);
    cr_env_set_general(cr_graph_env(p->graph), general);
    if (!status) status = add_changing(w, p, parts);
    cr_graph_release(parts);
    return status;
}

static bool is_changing(const lowering *w, const cr_input_spec *in) {
    return in->target && cr_map_find_str(&w->changing, in->target, NULL);
}

/* What may become a constant: state that nobody changes and that shares no memory with what somebody does. */
static void find_frozen(const lowering *w, method_program *mp) {
    const cr_program *p = mp->p;
    for (size_t i = 0; i < p->ninputs; i++)
        if (is_state(&p->inputs[i]) && !is_changing(w, &p->inputs[i]))
            mp->frozen[i] = cr_program_tensor(p, p->inputs[i].target);
    for (size_t i = 0; i < p->ninputs; i++) {
        const cr_tensor *t = is_state(&p->inputs[i]) && is_changing(w, &p->inputs[i])
                                 ? cr_program_tensor(p, p->inputs[i].target)
                                 : NULL;
        for (size_t k = 0; t && k < p->ninputs; k++)
            if (mp->frozen[k] && mp->frozen[k]->storage == t->storage) mp->frozen[k] = NULL;
    }
}

/* ---- state ---- */

static bool is_zero(const cr_tensor *t) {
    const uint8_t *bytes = t->storage->data;
    size_t n = (size_t)t->storage->bytes;
    return !n || (!bytes[0] && !memcmp(bytes, bytes + 1, n - 1));
}

static bool starts_as(const lowering *w, uint64_t offset, const cr_tensor *t) {
    if (offset == RT_STATE_ZERO) return is_zero(t);
    for (size_t i = 0; i < w->weights.all.n; i++) {
        const cr_weight *first = &w->weights.all.at[i];
        if (first->offset == offset)
            return !t->storage->bytes || !memcmp(first->data, t->storage->data, (size_t)t->storage->bytes);
    }
    return false;
}

static rt_state *find_state(const lowering *w, const char *name) {
    for (size_t i = 0; i < w->states.n; i++)
        if (!strcmp(w->states.at[i].name, name)) return &w->states.at[i];
    return NULL;
}

static cr_status add_state(lowering *w, const char *name, const cr_tensor *t, bool changes, int32_t *index) {
    rt_state *known = find_state(w, name);
    if (known) {
        if (known->bytes != (uint64_t)t->storage->bytes || known->dtype != t->meta.dtype)
            return CR_FAIL(CR_EVALUE,
                           "two methods have a parameter or buffer '%s' of different dtypes or sizes; programs "
                           "of one library are those of one model",
                           name);
        if (changes && !starts_as(w, known->offset, t))
            return CR_FAIL(CR_EVALUE,
                           "the methods share the buffer '%s', but it starts otherwise in one than in the other; "
                           "export them from the same module",
                           name);
        *index = (int32_t)(known - w->states.at);
        known->is_mutable |= changes;
        w->infos.at[*index].is_mutable |= changes;
        return CR_OK;
    }
    rt_state s = { .name = cr_arena_strdup(&w->l->arena, name),
                   .bytes = (uint64_t)t->storage->bytes,
                   .dtype = t->meta.dtype,
                   .is_mutable = changes };
    int64_t *size = cr_arena_copy(&w->l->arena, t->meta.size, (t->meta.rank + 1u) * sizeof *size);
    if (!s.name || !size) return CR_ENOMEM;
    if (changes && is_zero(t)) s.offset = RT_STATE_ZERO;
    else CR_TRY(cr__weight_add(&w->weights, t, &s.offset));
    CR_TRY(cr_vec_push(&w->states, s));
    *index = (int32_t)w->states.n - 1;
    return cr_vec_push(&w->infos, (cresset_state_info){ s.name, t->meta.dtype, t->meta.rank, size, changes });
}

static cr_status same_layout(const cr_meta *graph, const cr_meta *real, const char *name) {
    bool same = graph->rank == real->rank && graph->dtype == real->dtype && graph->offset == real->offset;
    for (int d = 0; same && d < real->rank; d++)
        same = graph->size[d] == real->size[d] && (real->size[d] < 2 || graph->stride[d] == real->stride[d]);
    return same ? CR_OK : CR_FAIL(CR_EVALUE, "'%s' is laid out otherwise than its graph says", name);
}

static cr_status lower_state(lowering *w, cr__method *m, const cr_program *p, const cr_input_spec *in, uint32_t v,
                             const cr_writes *writes) {
    const cr_tensor *t = cr_program_tensor(p, in->target);
    const cr_meta *meta = cr_graph_value(m->g, v)->meta;
    if (!t) return CR_FAIL(CR_EVALUE, "the program has no '%s'", in->target);
    if (!meta) return CR_FAIL(CR_EVALUE, "'%s' has no shape in the graph", in->target);
    if (t->meta.rank || cr_dim_is_plain(meta->offset)) CR_TRY(same_layout(meta, &t->meta, in->target));
    bool changes = is_changing(w, in) || is_mutated(p, in) || cr_writes_to(writes, v);
    m->writes_state |= changes; /* also what only reads it must not meet a method that writes */
    int32_t state = -1, buffer = -1;
    uint64_t found;
    CR_TRY(add_state(w, in->target, t, changes, &state));
    /* tied */
    if (meta->storage && cr_map_find(&m->storages, &meta->storage, sizeof meta->storage, &found))
        buffer = (int32_t)found - 1;
    else if (changes)
        CR_TRY(cr__buffer_add(m, (rt_buffer){ .kind = RT_BUFFER_STATE, .index = state }, meta->storage,
                              t->storage->bytes, &buffer));
    else {
        CR_TRY(cr__buffer_weight(m, t, &buffer));
        if (meta->storage) CR_TRY(cr_map_put(&m->storages, &meta->storage, sizeof meta->storage, (uint64_t)buffer + 1));
    }
    return cr__window(m, buffer, meta, &m->window[v]);
}

/* ---- inputs ---- */

static int kind_of_arg(const cr_arg *a) {
    switch ((cr_arg_kind)a->kind) {
    case CR_ARG_INT: return CRESSET_INT;
    case CR_ARG_FLOAT: return CRESSET_FLOAT;
    case CR_ARG_BOOL: return CRESSET_BOOLEAN;
    case CR_ARG_STR: return CRESSET_STRING;
    default: return CRESSET_NONE;
    }
}

static cr_status lower_input(cr__method *m, const cr_input_spec *spec, uint32_t v) {
    const cr_value *value = cr_graph_value(m->g, v);
    int32_t index = (int32_t)m->inputs.n;
    rt_input in = { .kind = CRESSET_TENSOR };
    if (spec->is_constant || (value->type == CR_T_TENSOR && !value->meta)) {
        const cr_arg *c = &spec->constant;
        in.kind = (uint8_t)kind_of_arg(c);
        in.is_constant = true;
        int64_t bits = c->u.i;
        if (c->kind == CR_ARG_FLOAT) memcpy(&bits, &c->u.f, sizeof bits);
        if (c->kind == CR_ARG_STR) CR_TRY(cr__text(m, c->u.s, &in.text));
        else if (c->kind != CR_ARG_NONE) {
            CR_TRY(cr__slot_bits(m, c->kind == CR_ARG_FLOAT ? CR_TYPE_FLOAT : CR_TYPE_INT, bits, &in.slot));
            CR_TRY(cr_vec_push(&m->binds, (rt_bind){ .input = index, .dim = -1, .slot = in.slot, .check = true }));
        }
    } else if (value->type == CR_T_TENSOR) {
        int32_t buffer;
        CR_TRY(cr__bind_sizes(m, index, value->meta));
        CR_TRY(cr__buffer_add(m, (rt_buffer){ .kind = RT_BUFFER_INPUT, .index = index }, value->meta->storage,
                              cr__bytes_of(m, value->meta), &buffer));
    } else {
        in.kind = value->type == CR_T_FLOAT ? CRESSET_FLOAT : value->type == CR_T_BOOL ? CRESSET_BOOLEAN : CRESSET_INT;
        cr_range r = { INT64_MIN, INT64_MAX };
        if (value->expr && in.kind == CRESSET_INT) r = cr_sym_range(m->env, value->expr);
        if (value->expr && cr_sym_kind_of(value->expr) == CR_SYM_SYMBOL && cr__slot_find(m, value->expr) < 0) {
            CR_TRY(cr__slot_define(m, value->expr, CR__SLOT_ENTRY, &in.slot));
            CR_TRY(cr_vec_push(&m->binds,
                               (rt_bind){ .input = index, .dim = -1, .slot = in.slot, .min = r.lo, .max = r.hi }));
        } /* expressions: cr__check_all_numbers */
    }
    return cr_vec_push(&m->inputs, in);
}

static cr_status lower_inputs(lowering *w, cr__method *m, const method_program *mp, uint32_t *values) {
    cr_writes writes;
    cr_status status = cr_writes_find(m->g, CR_SHARING_KNOWN, &writes);
    size_t i = 0;
    for (uint32_t n = cr_graph_first(m->g); n != CR_NO_NODE && !status; n = cr_graph_next(m->g, n)) {
        const cr_node *node = cr_graph_node(m->g, n);
        if (node->kind != CR_NODE_PLACEHOLDER) continue;
        if (i >= mp->ninputs) {
            status = CR_FAIL(CR_EVALUE, "the graph has more inputs than the signature");
            break;
        }
        const cr_input_spec *in = mp->inputs[i++];
        if (in->kind == CR_INPUT_USER) {
            values[m->inputs.n] = node->first;
            status = lower_input(m, in, node->first);
        } else if (is_state(in)) {
            status = lower_state(w, m, mp->p, in, node->first, &writes);
        } else if (in->kind != CR_INPUT_TOKEN) {
            status = CR_FAIL(CR_EUNSUPPORTED, "input '%s' is a script object", in->name);
        }
    }
    cr_writes_dispose(&writes);
    return status;
}

/* ---- outputs ---- */

static cr_status input_window(cr__method *m, const cr_program *p, const uint32_t *values, const cr_output_spec *o,
                              int32_t *out) {
    for (size_t i = 0; i < m->inputs.n; i++)
        if (m->inputs.at[i].kind == CRESSET_TENSOR && !strcmp(cr_graph_value(m->g, values[i])->name, o->target)) {
            m->inputs.at[i].written = true;
            return *out = m->inputs.at[i].window, CR_OK;
        }
    (void)p;
    return CR_FAIL(CR_EVALUE, "an output mutates the input '%s', which there is not", o->target);
}

static cr_status state_window(cr__method *m, const method_program *mp, const cr_output_spec *o, int32_t *out) {
    size_t i = 0;
    for (uint32_t n = cr_graph_first(m->g); n != CR_NO_NODE; n = cr_graph_next(m->g, n)) {
        const cr_node *node = cr_graph_node(m->g, n);
        if (node->kind != CR_NODE_PLACEHOLDER) continue;
        const cr_input_spec *in = mp->inputs[i++];
        if (in->target && in->kind != CR_INPUT_USER && !strcmp(in->target, o->target))
            return *out = m->window[node->first], CR_OK;
    }
    return CR_FAIL(CR_EVALUE, "an output mutates '%s', which there is not", o->target);
}

static cr_status write_back(cr__method *m, const cr_arg *a, int32_t to) {
    if (a->kind != CR_ARG_VALUE) return CR_FAIL(CR_EVALUE, "a mutation that is no tensor");
    int32_t from;
    CR_TRY(cr__window_of(m, (uint32_t)a->u.i, &from));
    if (from == to) return CR_OK;
    m->writes_state |= m->buffers.at[m->windows.at[to].buffer].kind == RT_BUFFER_STATE;
    return cr__copy_step(m, from, to);
}

/* New values that lie in memory which another mutation overwrites are saved first. */
static cr_status save_sources(cr__method *m, const cr_program *p, const cr_node *output) {
    for (size_t i = 0; i < p->noutputs; i++) {
        const cr_arg *a = &output->args[i];
        bool mutates = is_mutation(&p->outputs[i]) || p->outputs[i].kind == CR_OUTPUT_INPUT_MUTATION;
        int32_t from;
        if (!mutates || a->kind != CR_ARG_VALUE) continue;
        CR_TRY(cr__window_of(m, (uint32_t)a->u.i, &from));
        int kind = m->buffers.at[m->windows.at[from].buffer].kind;
        if (kind != RT_BUFFER_STATE && kind != RT_BUFFER_INPUT) continue;
        int32_t copy;
        CR_TRY(cr__scratch(m, cr_graph_value(m->g, (uint32_t)a->u.i)->meta, &copy));
        CR_TRY(cr__copy_step(m, from, copy));
        m->window[a->u.i] = copy;
    }
    return CR_OK;
}

static cr_status lower_outputs(cr__method *m, const method_program *mp, const uint32_t *values) {
    const cr_program *p = mp->p;
    const cr_node *output = cr_graph_node(m->g, cr_graph_output(m->g));
    if (output->nargs != p->noutputs)
        return CR_FAIL(CR_EVALUE, "the graph has %u outputs, the signature %zu", output->nargs, p->noutputs);
    for (size_t i = 0; i < p->noutputs; i++)
        if (p->outputs[i].kind == CR_OUTPUT_USER || p->outputs[i].kind == CR_OUTPUT_LOSS)
            CR_TRY(cr__output(m, &output->args[i]));
    CR_TRY(save_sources(m, p, output));
    for (size_t i = 0; i < p->noutputs; i++) {
        int32_t to = -1;
        if (is_mutation(&p->outputs[i])) CR_TRY(state_window(m, mp, &p->outputs[i], &to));
        else if (p->outputs[i].kind == CR_OUTPUT_INPUT_MUTATION)
            CR_TRY(input_window(m, p, values, &p->outputs[i], &to));
        else continue;
        CR_TRY(write_back(m, &output->args[i], to));
    }
    cr__outputs_finish(m);
    return CR_OK;
}

/* ---- descriptions ---- */

static cr_status describe_dims(lowering *w, const cr__method *m, const cr_meta *meta, const cresset_dim **out) {
    cresset_dim *dims = cr_arena_calloc(&w->l->arena, meta->rank + 1u, sizeof *dims);
    if (!dims) return CR_ENOMEM;
    for (int d = 0; d < meta->rank; d++) {
        cr_str text;
        cr_str_init(&text);
        cr_dim_print(m->env, meta->size[d], &text);
        dims[d].text = cr_arena_strdup(&w->l->arena, cr_str_get(&text));
        cr_str_dispose(&text);
        if (!dims[d].text) return CR_ENOMEM;
        cr_range r = { meta->size[d], meta->size[d] };
        if (!cr_dim_is_plain(meta->size[d])) r = cr_sym_range(m->env, cr_dim_sym(m->env, meta->size[d]));
        dims[d].min = r.lo, dims[d].max = r.hi;
    }
    *out = dims;
    return CR_OK;
}

static cr_status describe_value(lowering *w, const cr__method *m, const char *name, int kind, const cr_meta *meta,
                                cresset_value_info *out) {
    *out = (cresset_value_info){ .name = cr_arena_strdup(&w->l->arena, name), .kind = kind };
    if (!out->name) return CR_ENOMEM;
    if (kind != CRESSET_TENSOR || !meta) return CR_OK;
    out->dtype = meta->dtype;
    out->rank = meta->rank;
    return describe_dims(w, m, meta, &out->dims);
}

static cr_status describe_constant(lowering *w, const cr_arg *value, cresset_value_info *out) {
    cr_str text;
    cr_str_init(&text);
    cr_arg_print(NULL, value, &text);
    out->constant = cr_arena_strdup(&w->l->arena, value->kind == CR_ARG_NONE ? "None" : cr_str_get(&text));
    cr_str_dispose(&text);
    return out->constant ? CR_OK : CR_ENOMEM;
}

static cr_status spec_text(lowering *w, const cr_tree *tree, const char **out) {
    *out = "";
    if (!tree) return CR_OK;
    cr_str text;
    cr_str_init(&text);
    cr_tree_print(tree, &text);
    *out = cr_arena_strdup(&w->l->arena, cr_str_get(&text));
    cr_str_dispose(&text);
    return *out ? CR_OK : CR_ENOMEM;
}

static const char *method_name(const lowering *w, const cr_program *p) {
    if (w->name) return w->name;
    return p->name && strcmp(p->name, "model") ? p->name : "forward";
}

static cr_status describe(lowering *w, const cr__method *m, const cr_program *p, const uint32_t *values,
                          cresset_method_info *out) {
    cresset_value_info *in = cr_arena_calloc(&w->l->arena, m->inputs.n + 1, sizeof *in),
                       *results = cr_arena_calloc(&w->l->arena, m->outputs.n + 1, sizeof *results);
    if (!in || !results) return CR_ENOMEM;
    size_t k = 0;
    for (size_t i = 0; i < p->ninputs; i++) {
        if (p->inputs[i].kind != CR_INPUT_USER || k >= m->inputs.n) continue;
        CR_TRY(describe_value(w, m, p->inputs[i].name, m->inputs.at[k].kind, cr_graph_value(m->g, values[k])->meta,
                              &in[k]));
        if (p->inputs[i].is_constant) CR_TRY(describe_constant(w, &p->inputs[i].constant, &in[k]));
        k++;
    }
    const cr_node *output = cr_graph_node(m->g, cr_graph_output(m->g));
    size_t o = 0;
    for (size_t i = 0; i < p->noutputs; i++) {
        if (p->outputs[i].kind != CR_OUTPUT_USER && p->outputs[i].kind != CR_OUTPUT_LOSS) continue;
        const cr_arg *a = &output->args[i];
        char name[32];
        snprintf(name, sizeof name, "out%zu", o);
        const char *given = p->outputs[i].name && *p->outputs[i].name ? p->outputs[i].name : name;
        CR_TRY(describe_value(w, m, given, m->outputs.at[o].kind,
                              a->kind == CR_ARG_VALUE ? cr_graph_value(m->g, (uint32_t)a->u.i)->meta : NULL,
                              &results[o]));
        if (a->kind != CR_ARG_VALUE) CR_TRY(describe_constant(w, a, &results[o]));
        o++;
    }
    *out = (cresset_method_info){ .name = cr_arena_strdup(&w->l->arena, method_name(w, p)),
                                  .inputs = in,
                                  .outputs = results,
                                  .ninputs = (int32_t)m->inputs.n,
                                  .noutputs = (int32_t)m->outputs.n };
    if (!out->name) return CR_ENOMEM;
    CR_TRY(spec_text(w, p->in_spec, &out->in_spec));
    return spec_text(w, p->out_spec, &out->out_spec);
}

/* ---- methods ---- */

static cr_status lower_method(lowering *w, cr__method *m, const method_program *mp, cresset_method_info *info,
                              rt_method **out) {
    const cr_program *p = mp->p;
    uint32_t *values = cr_arena_alloc(&w->l->arena, (p->ninputs + 1) * sizeof *values);
    if (!values) return CR_ENOMEM;
    CR_TRY(lower_inputs(w, m, mp, values));
    CR_TRY(cr__find_coming(m));
    CR_TRY(cr__check_all_sizes(m, values));
    CR_TRY(cr__check_all_numbers(m, values));
    for (size_t i = 0; i < m->inputs.n; i++) {
        if (m->inputs.at[i].kind != CRESSET_TENSOR) continue;
        const cr_meta *meta = cr_graph_value(m->g, values[i])->meta;
        int32_t buffer;
        CR_TRY(cr__buffer_of(m, meta, &buffer));
        CR_TRY(cr__window(m, buffer, meta, &m->window[values[i]]));
        m->inputs.at[i].window = m->window[values[i]];
    }
    CR_TRY(cr__check_conditions(m));
    m->first_cond = cr_env_cond_count(m->env);
    CR_TRY(cr__lower_nodes(m));
    /* what lowering itself depended on; as a rule nothing, as the passes asked everything */
    CR_TRY(cr__check_conditions(m));
    CR_TRY(lower_outputs(m, mp, values));
    CR_TRY(describe(w, m, p, values, info));
    return cr__method_finish(m, out);
}

/* The program's graph after all passes; its constants live as long as what is lowered. */
static cr_status run_passes(lowering *w, method_program *mp, cr_graph **out) {
    const cr_program *p = mp->p;
    const char **names = cr_arena_calloc(&w->l->arena, p->ninputs + 1, sizeof *names);
    mp->frozen = cr_arena_calloc(&w->l->arena, p->ninputs + 1, sizeof *mp->frozen);
    mp->inputs = cr_arena_calloc(&w->l->arena, p->ninputs + 1, sizeof *mp->inputs);
    bool *given = cr_arena_calloc(&w->l->arena, p->ninputs + 1, sizeof *given);
    cr_graph *parted;
    if (!names || !mp->frozen || !mp->inputs || !given) return CR_ENOMEM;
    for (size_t i = 0; i < p->ninputs; i++) {
        names[i] = p->inputs[i].target;
        given[i] = p->inputs[i].kind == CR_INPUT_USER;
    }
    find_frozen(w, mp);
    cr_freeze_options freeze = { .tensors = mp->frozen, .names = names, .n = p->ninputs };
    struct cr_pass_option told[] = { { "freeze", &freeze }, { "fuse", w->options ? (void *)w->options->fuse : NULL } };
    cr_pipeline_options o = { .options = told, .noptions = CR_COUNT(told) };
    if (w->options) o.after = w->options->after, o.user = w->options->user;
    CR_TRY(cr_vec_reserve(&w->l->graphs, w->l->graphs.n + 1));
    CR_TRY(cr_graph_part_inputs(p->graph, given, &parted));
    cr_status status = cr_pipeline_native(&o, parted ? parted : p->graph, out);
    cr_graph_release(parted);
    CR_TRY(status);
    w->l->graphs.at[w->l->graphs.n++] = *out;
    for (size_t i = 0; i < p->ninputs; i++)
        if (!mp->frozen[i]) mp->inputs[mp->ninputs++] = &p->inputs[i];
    return CR_OK;
}

static cr_status lower_program(lowering *w, method_program *mp, cresset_method_info *info, const rt_method **out) {
    const cr_program *p = mp->p;
    cr_graph *g = NULL;
    cr__method m;
    rt_method *method = NULL;
    if (p->nunsupported)
        return CR_FAIL(CR_EUNSUPPORTED, "%s has no row in the op table (%zu such ops: see `cresset info`)",
                       p->unsupported[0], p->nunsupported);
    cr_env *env = cr_graph_env(p->graph);
    cr_env_trial trial = cr_env_begin_trial(env); /* what compiled code depends on, the program itself does not */
    cr_status status = p->nguards ? cr_program_state_guards(p) : CR_OK;
    if (!status) status = run_passes(w, mp, &g);
    bool general = cr_env_set_general(env, true), all_sizes = cr_env_set_all_sizes(env, true), begun = !status;
    if (!status) status = cr__method_init(&m, w->l, &w->weights, g);
    if (!status) status = lower_method(w, &m, mp, info, &method);
    cr_env_set_general(env, general);
    cr_env_set_all_sizes(env, all_sizes);
    if (begun) cr__method_dispose(&m);
    cr_env_end_trial(env, trial);
    if (status) return status;
    method->info = info;
    *out = method;
    return CR_OK;
}

/* Constants whose memory is stored as it was can be read by name; those that were folded into others are gone. */
static cr_status name_constants(lowering *w, const method_program *mp) {
    const cr_program *p = mp->p;
    for (size_t i = 0; i < p->ninputs; i++) {
        const cr_tensor *t = mp->frozen[i];
        int32_t index;
        if (!t) continue;
        const rt_state *known = find_state(w, p->inputs[i].target);
        if (known && known->is_mutable)
            return CR_FAIL(CR_EUNSUPPORTED,
                           "one method changes '%s' in a way that the others could not know of; compile it alone",
                           p->inputs[i].target);
        uint64_t id = t->storage->id;
        if (cr_map_find(&w->weights.by_storage, &id, sizeof id, NULL))
            CR_TRY(add_state(w, p->inputs[i].target, t, false, &index));
    }
    return CR_OK;
}

/* ---- training ---- */

/* Tied weights are one memory with several names, of which the graph reads one: that is the one that learns. */
static const char *known_name(const lowering *w, const cr_program *p, const cr_named_tensor *s) {
    const rt_state *own = find_state(w, s->name);
    for (size_t i = 0; i < p->nstate && !(own && own->is_mutable); i++) {
        const rt_state *other = find_state(w, p->state[i].name);
        if (other && other->is_mutable && cr_tensor_is_tied(p->state[i].tensor, s->tensor)) return p->state[i].name;
    }
    return s->name;
}

/* What a file of weights holds: every parameter and persistent buffer of the loss program, by all of its names. Those
 * that no method reads any more as they are can be read by name all the same. */
static cr_status list_weights(lowering *w, const cr_program *p, cresset_train_info *out) {
    cresset_weight_info *all = cr_arena_calloc(&w->l->arena, p->nstate + 1, sizeof *all);
    if (!all) return CR_ENOMEM;
    for (size_t i = 0; i < p->nstate; i++) {
        const cr_named_tensor *s = &p->state[i];
        const char *name = known_name(w, p, s);
        int32_t index;
        if (strchr(s->name, '@')) continue; /* training's own */
        if (!find_state(w, name)) CR_TRY(add_state(w, name, s->tensor, false, &index));
        const char *kept = cr_arena_strdup(&w->l->arena, s->name);
        if (!kept) return CR_ENOMEM;
        all[out->nweights++] = (cresset_weight_info){ kept, find_state(w, name)->name };
    }
    out->weights = all;
    return CR_OK;
}

static cr_status describe_training(lowering *w) {
    const cr_training *t = w->options ? w->options->train : NULL;
    if (!t) return CR_OK;
    cr_arena *arena = &w->l->arena;
    cresset_train_info *out = cr_arena_calloc(arena, 1, sizeof *out);
    cresset_parameter_info *all = cr_arena_calloc(arena, t->nparameters + 1, sizeof *all);
    if (!out || !all) return CR_ENOMEM;
    *out = (cresset_train_info){ .struct_size = sizeof *out,
                                 .optimizer = t->optimizer,
                                 .step = CR_TRAIN_STEP,
                                 .backward = CR_TRAIN_BACKWARD,
                                 .update = CR_TRAIN_UPDATE,
                                 .loss = t->loss,
                                 .counter = find_state(w, t->counter)->name,
                                 .parameters = all,
                                 .nparameters = (int32_t)t->nparameters };
    for (size_t i = 0; i < t->nparameters; i++) {
        const cr_trained *p = &t->parameters[i];
        const char **moments = cr_arena_calloc(arena, CR_TRAIN_MOMENTS, sizeof *moments);
        if (!moments) return CR_ENOMEM;
        for (int32_t k = 0; k < p->nmoments; k++) moments[k] = find_state(w, p->moments[k])->name;
        all[i] = (cresset_parameter_info){ find_state(w, p->name)->name, find_state(w, p->gradient)->name, moments,
                                           p->nmoments };
    }
    CR_TRY(list_weights(w, t->programs[CR_TRAIN_STEP], out));
    w->l->library.api.train = out;
    return CR_OK;
}

static cr_status lower_all(lowering *w, cr_program *const *programs, size_t n) {
    cr_lowered *l = w->l;
    cresset_method_info *infos = cr_arena_calloc(&l->arena, n + 1, sizeof *infos);
    const rt_method **methods = cr_arena_calloc(&l->arena, n + 1, sizeof *methods);
    method_program *all = cr_arena_calloc(&l->arena, n + 1, sizeof *all);
    if (!infos || !methods || !all) return CR_ENOMEM;
    const char *const *names = w->options ? w->options->names : NULL;
    for (size_t i = 0; i < n; i++) CR_TRY(find_changing(w, programs[i], n == 1));
    for (size_t i = 0; i < n; i++) {
        all[i].p = programs[i];
        w->name = names ? names[i] : NULL;
        CR_TRY(lower_program(w, &all[i], &infos[i], &methods[i]));
    }
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < i; k++)
            if (!strcmp(infos[i].name, infos[k].name))
                return CR_FAIL(CR_EVALUE, "two methods are called '%s'; give them names apart", infos[i].name);
    for (size_t i = 0; i < n; i++) CR_TRY(name_constants(w, &all[i]));
    CR_TRY(describe_training(w));
    l->weights = cr_arena_copy(&l->arena, w->weights.all.at ? (const void *)w->weights.all.at : "",
                               w->weights.all.n * sizeof *l->weights);
    l->nweights = w->weights.all.n;
    rt_state *states = cr_arena_copy(&l->arena, w->states.at ? (const void *)w->states.at : "",
                                     w->states.n * sizeof *states);
    cresset_state_info *state_infos = cr_arena_copy(&l->arena, w->infos.at ? (const void *)w->infos.at : "",
                                                    w->infos.n * sizeof *state_infos);
    if (!l->weights || !states || !state_infos) return CR_ENOMEM;
    l->model = (rt_model){ .methods = methods,
                           .nmethods = (int32_t)n,
                           .states = states,
                           .nstates = (int32_t)w->states.n,
                           .weight_bytes = w->weights.bytes,
                           .id = "" };
    l->library.model = &l->model;
    l->model.ops = l->needs.at, l->model.nops = (int32_t)l->needs.n;
    l->library.api = (cresset_api){ RT_API_FUNCTIONS,
                                    .name = infos[0].name,
                                    .id = "",
                                    .methods = infos,
                                    .nmethods = (int32_t)n,
                                    .state = state_infos,
                                    .nstate = (int32_t)w->infos.n,
                                    .target = "",
                                    .ops = l->needs.at,
                                    .nops = (int32_t)l->needs.n,
                                    .train = l->library.api.train };
    return CR_OK;
}

cr_status cr__lowered_create(cr_lowered **out) {
    cr_lowered *l = cr_calloc(1, sizeof *l);
    if (!l) return CR_ENOMEM;
    cr_arena_init(&l->arena);
    *out = l;
    return CR_OK;
}

cr_status cr__lower(cr_lowered *l, cr_program *const *programs, size_t n, const cr_lower_options *options) {
    lowering w = { .l = l, .options = options, .weights = { .l = l } };
    cr_map_init(&w.weights.by_storage);
    cr_map_init(&w.changing);
    cr_status status = lower_all(&w, programs, n);
    cr_map_dispose(&w.weights.by_storage);
    cr_map_dispose(&w.changing);
    cr_vec_dispose(&w.weights.all);
    cr_vec_dispose(&w.states);
    cr_vec_dispose(&w.infos);
    return status;
}

cr_status cr_lower(cr_program *const *programs, size_t n, const cr_lower_options *options, cr_lowered **out) {
    cr_lowered *l;
    if (!n) return CR_FAIL(CR_EVALUE, "there is no program to lower");
    CR_TRY(cr__lowered_create(&l));
    l->programs = cr_arena_calloc(&l->arena, n, sizeof *l->programs);
    for (size_t i = 0; l->programs && i < n; i++) cr_program_retain(l->programs[l->nprograms++] = programs[i]);
    cr_status status = l->programs ? cr__lower(l, programs, n, options) : CR_ENOMEM;
    if (status) return cr_lowered_release(l), status;
    *out = l;
    return CR_OK;
}

void cr_lowered_release(cr_lowered *l) {
    if (!l) return;
    for (size_t i = 0; i < l->nprograms; i++) cr_program_release(l->programs[i]);
    for (size_t i = 0; i < l->made.n; i++) cr_tensor_release(l->made.at[i]);
    for (size_t i = 0; i < l->graphs.n; i++) cr_graph_release(l->graphs.at[i]);
    for (size_t i = 0; i < l->live.n; i++) cr_tensor_release(l->live.at[i].tensor);
    cr_vec_dispose(&l->live);
    cr_vec_dispose(&l->graphs);
    cr_vec_dispose(&l->made);
    cr_vec_dispose(&l->kernels);
    cr_vec_dispose(&l->needs);
    cr_arena_dispose(&l->arena);
    cr_free(l);
}

cr_status cr_lowered_weights(const cr_lowered *l, uint8_t **out) {
    uint8_t *bytes = cr_calloc(l->model.weight_bytes + 1, 1);
    if (!bytes) return CR_ENOMEM;
    for (size_t i = 0; i < l->nweights; i++)
        if (l->weights[i].bytes) memcpy(bytes + l->weights[i].offset, l->weights[i].data, l->weights[i].bytes);
    *out = bytes;
    return CR_OK;
}
