/* train.c: the programs of a training library. See train.h.
 *
 * The loss program is made functional and differentiated; what the joint graph gives goes to the table's fused update
 * ops, which write parameters and moments where they lie. The programs are graphs with signatures like any other:
 * lowering shares their state by name and knows nothing of training. */
#include "export/train.h"

#include "autograd/joint.h"
#include "export/internal.h"
#include "export/update.h"

#include <math.h>

const char *const cr_train_method_names[CR_TRAIN_METHODS] = { "step", "backward", "update" };

static const char counter_name[] = "@step", norm_name[] = "@grad_norm";

/* What all three are made from. */
typedef struct maker {
    cr_training *t;
    cr_program *from;
    cr__update update;
    cr_graph *functional;
    uint32_t *mutated; /* placeholders whose new values are its last results */
    size_t nmutated;
    bool *wrt;        /* per input: is it to be trained? */
    uint32_t loss;    /* among the graph's results */
    uint32_t *inputs; /* per trained parameter: its place among the program's inputs */
    CR_VEC(cr_named_tensor)
    state; /* what training adds; owned. Per parameter its gradient, then its moments; then the
                                    * counter, and the norm where there is one */
} maker;

/* One program on its way: a graph, and the signature beside it. */
typedef struct draft {
    maker *m;
    cr_graph *g;
    cr_emitter *emit;
    CR_VEC(cr_input_spec) inputs;
    CR_VEC(cr_output_spec) outputs;
    CR_VEC(cr_arg) results;
    CR_VEC(cr_named_tensor) state; /* borrowed */
    bool rated;                    /* the last input is the learning rate */
} draft;

/* ---- what is trained ---- */

static bool is_row_major(const cr_tensor *t) {
    int64_t stride = 1;
    for (int d = t->meta.rank; d-- > 0; stride *= t->meta.size[d])
        if (t->meta.size[d] > 1 && t->meta.stride[d] != stride) return false;
    return !t->meta.offset && t->storage->bytes == stride * rt_itemsize(t->meta.dtype);
}

/* Files of weights and a caller's get_state see each name's bytes as a row-major tensor. */
static cr_status check_state(const cr_program *p) {
    for (size_t i = 0; i < p->ninputs; i++) {
        const cr_input_spec *in = &p->inputs[i];
        const cr_tensor *t = in->kind == CR_INPUT_PARAMETER || in->kind == CR_INPUT_BUFFER
                                 ? cr_program_tensor(p, in->target)
                                 : NULL;
        if (t && !is_row_major(t))
            return CR_FAIL(CR_EVALUE,
                           "'%s' is not row-major in memory of its own, which libraries that train need; make it so "
                           "(.contiguous().clone()) and export again",
                           in->target);
    }
    return CR_OK;
}

static cr_status find_wrt(maker *m) {
    const cr_program *p = m->from;
    m->wrt = cr_arena_calloc(&m->t->arena, p->ninputs + 1, sizeof *m->wrt);
    if (!m->wrt) return CR_ENOMEM;
    for (size_t i = 0; i < p->ninputs; i++) {
        const cr_tensor *t = p->inputs[i].kind == CR_INPUT_PARAMETER ? cr_program_tensor(p, p->inputs[i].target) : NULL;
        m->wrt[i] = t && (t->meta.flags & CR_META_REQUIRES_GRAD) && !cr_dtype_is_integral(t->meta.dtype);
    }
    return CR_OK;
}

/* Tied weights are read by one name. Two that are read would be two tensors from the first update on. */
static cr_status check_tied(maker *m) {
    const cr_program *p = m->from;
    uint32_t *uses = cr_arena_calloc(&m->t->arena, cr_graph_value_count(m->functional) + 1, sizeof *uses);
    const cr_tensor **read = cr_arena_calloc(&m->t->arena, p->ninputs + 1, sizeof *read);
    size_t i = 0;
    if (!uses || !read) return CR_ENOMEM;
    cr_graph_count_uses(m->functional, uses);
    for (uint32_t n = cr_graph_first(m->functional); i < p->ninputs; n = cr_graph_next(m->functional, n), i++) {
        const cr_input_spec *in = &p->inputs[i];
        if (in->kind == CR_INPUT_USER || !in->target || !uses[cr_graph_node(m->functional, n)->first]) continue;
        read[i] = cr_program_tensor(p, in->target);
        for (size_t k = 0; k < i && read[i]; k++)
            if (read[k] && (m->wrt[k] || m->wrt[i]) && cr_tensor_is_tied(read[k], read[i]))
                return CR_FAIL(CR_EVALUE,
                               "'%s' and '%s' share memory and are both read, so that they could not be trained as "
                               "one; "
                               "make them one Parameter, and export again",
                               p->inputs[k].target, in->target);
    }
    return CR_OK;
}

/* ---- the loss ---- */

static cr_status find_loss(maker *m) {
    const cr_program *p = m->from;
    const cr_node *output = cr_graph_node(m->functional, cr_graph_output(m->functional));
    int32_t seen = 0;
    for (uint32_t i = 0; i < p->noutputs; i++) {
        bool user = p->outputs[i].kind == CR_OUTPUT_USER || p->outputs[i].kind == CR_OUTPUT_LOSS;
        if (!user || seen++ != m->update.loss) continue;
        const cr_arg *a = &output->args[i];
        const cr_meta *meta = a->kind == CR_ARG_VALUE ? cr_graph_value(m->functional, (uint32_t)a->u.i)->meta : NULL;
        bool one = meta && cr_dtype_is_floating(meta->dtype);
        for (int d = 0; one && d < meta->rank; d++) one = meta->size[d] == 1;
        if (!one)
            return CR_FAIL(CR_EVALUE,
                           "result %d of the program is no loss: a loss is one floating point number; return it first, "
                           "or say which result it is (loss=1)",
                           m->update.loss);
        return m->loss = i, CR_OK;
    }
    return CR_FAIL(CR_EVALUE, "the loss is to be result %d, but the program gives %d", m->update.loss, seen);
}

/* Functional, in ops that kernels compute: what they write is known, and seen by the derivative. */
static cr_status make_functional(maker *m) {
    const cr_decomposition how = { .stop = cr_stop_at_kernels };
    m->mutated = cr_arena_calloc(&m->t->arena, m->from->ninputs + 1, sizeof *m->mutated);
    if (!m->mutated) return CR_ENOMEM;
    cr_functionalize_options writes = { .mutated = m->mutated, .replay = true };
    CR_TRY(cr_pass_core(m->from->graph, &how, &writes, &m->functional));
    m->nmutated = writes.nmutated;
    return CR_OK;
}

static cr_status differentiate(maker *m, cr_joint *out) {
    uint32_t n = cr_graph_node(m->functional, cr_graph_output(m->functional))->nargs;
    bool *through = cr_arena_calloc(&m->t->arena, n + 1, sizeof *through);
    if (!through) return CR_ENOMEM;
    through[m->loss] = true;
    CR_TRY(cr_differentiate(m->functional, &(cr_differentiation){ .wrt = m->wrt, .through = through }, out));
    if (out->ntangents) return CR_OK;
    cr_joint_dispose(out);
    return CR_FAIL(CR_EVALUE, "the loss depends on no parameter that requires grad: nothing can be trained");
}

/* ---- what training adds to the state ---- */

static cr_status add_state(maker *m, const char *owner, const char *what, const cr_meta *like, const char **name) {
    cr_meta meta;
    cr_tensor *t;
    cr_str text;
    cr_str_init(&text);
    cr_str_addf(&text, "%s%s", owner, what);
    const char *kept = cr_str_status(&text) ? NULL : cr_arena_strdup(&m->t->arena, cr_str_get(&text));
    cr_str_dispose(&text);
    if (!kept) return CR_ENOMEM;
    cr_meta_init(&meta, like ? like->dtype : CR_F32, (cr_device){ CR_CPU, -1 });
    CR_TRY(cr_meta_set_dense(NULL, &meta, like ? like->rank : 0, like ? like->size : NULL, CR_CONTIGUOUS));
    CR_TRY(cr_vec_reserve(&m->state, m->state.n + 1));
    CR_TRY(cr_tensor_create(&meta, &t));
    if (t->storage->bytes) memset(t->storage->data, 0, (size_t)t->storage->bytes);
    m->state.at[m->state.n++] = (cr_named_tensor){ .name = *name = kept, .tensor = t, .persistent = true };
    return CR_OK;
}

static cr_status add_trained(maker *m, uint32_t input, cr_trained *out) {
    const char *moments[CR__UPDATE_MOMENTS], *owner = m->from->inputs[input].target;
    const cr_meta *like = &cr_program_tensor(m->from, owner)->meta;
    out->nmoments = cr__update_moments(&m->update, moments);
    if (!(out->name = cr_arena_strdup(&m->t->arena, owner))) return CR_ENOMEM;
    CR_TRY(add_state(m, owner, "@grad", like, &out->gradient));
    for (int32_t i = 0; i < out->nmoments; i++) {
        char what[64] = "@";
        strncat(what, moments[i], sizeof what - 2);
        CR_TRY(add_state(m, owner, what, like, &out->moments[i]));
    }
    return CR_OK;
}

static cr_status add_all_state(maker *m, const cr_joint *j) {
    cr_training *t = m->t;
    const cr_node *output = cr_graph_node(j->graph, cr_graph_output(j->graph));
    t->parameters = cr_arena_calloc(&t->arena, j->nprimals + 1u, sizeof *t->parameters);
    m->inputs = cr_arena_calloc(&t->arena, j->nprimals + 1u, sizeof *m->inputs);
    if (!t->parameters || !m->inputs) return CR_ENOMEM;
    for (uint32_t i = 0; i < j->nprimals; i++) {
        if (!m->wrt[i] || output->args[j->nforward + i].kind != CR_ARG_VALUE) continue;
        CR_TRY(add_trained(m, i, &t->parameters[t->nparameters]));
        m->inputs[t->nparameters++] = i;
    }
    CR_TRY(add_state(m, "", counter_name, NULL, &t->counter));
    return m->update.clip_norm > 0 ? add_state(m, "", norm_name, NULL, &(const char *){ NULL }) : CR_OK;
}

static cr_tensor *state_tensor(const maker *m, const char *name) {
    for (size_t i = 0; i < m->state.n; i++)
        if (!strcmp(m->state.at[i].name, name)) return m->state.at[i].tensor;
    return NULL;
}

/* ---- drafting a program ---- */

static cr_arg value(const draft *d, uint32_t v) {
    return (cr_arg){ .kind = CR_ARG_VALUE, .given = 1, .type = cr_graph_value(d->g, v)->type, .u.i = v };
}

/* A placeholder for state, with its row of the signature. */
static cr_status take_state(draft *d, uint8_t kind, const char *name, cr_tensor *t, cr_arg *out) {
    cr_meta meta;
    uint32_t v;
    cr_meta_copy(&meta, &t->meta);
    meta.flags = 0;
    CR_TRY(cr_graph_placeholder(d->g, name, &meta, &v));
    CR_TRY(cr_vec_push(&d->inputs,
                       (cr_input_spec){
                           .kind = kind, .persistent = true, .name = cr_graph_value(d->g, v)->name, .target = name }));
    *out = value(d, v);
    return cr_vec_push(&d->state,
                       (cr_named_tensor){
                           .name = name, .tensor = t, .is_parameter = kind == CR_INPUT_PARAMETER, .persistent = true });
}

static cr_status take_added(draft *d, const char *name, cr_arg *out) {
    return take_state(d, CR_INPUT_BUFFER, name, state_tensor(d->m, name), out);
}

/* A rate that would spoil every weight is refused before anything is computed. */
static cr_status check_rate(draft *d, uint32_t v) {
    static const char message[] = "lr must be a finite number that is not negative";
    static const char *const ops[] = { "_operator::ge", "_operator::lt" };
    const double bounds[] = { 0, INFINITY };
    uint32_t first = cr_graph_first(d->g);
    while (first != CR_NO_NODE && cr_graph_node(d->g, first)->kind == CR_NODE_PLACEHOLDER)
        first = cr_graph_next(d->g, first);
    cr_graph_insert_before(d->g, first);
    cr_status status = CR_OK;
    for (size_t i = 0; i < CR_COUNT(ops) && !status; i++) {
        cr_arg holds, nothing;
        status = cr_emit_call(d->emit, ops[i], (cr_arg[]){ value(d, v), cr_arg_float(bounds[i]) }, 2, &holds);
        if (!status)
            status = cr_emit_call(d->emit, "aten::_assert_scalar", (cr_arg[]){ holds, cr_arg_str(message) }, 2,
                                  &nothing);
    }
    cr_graph_insert_before(d->g, CR_NO_NODE);
    return status;
}

static cr_status take_rate(draft *d, cr_arg *out) {
    uint32_t v;
    CR_TRY(cr_graph_placeholder_number(d->g, "lr", CR_T_FLOAT, NULL, &v));
    *out = value(d, v);
    d->rated = true;
    CR_TRY(check_rate(d, v));
    return cr_vec_push(&d->inputs, (cr_input_spec){ .kind = CR_INPUT_USER, .name = cr_graph_value(d->g, v)->name });
}

static cr_status give(draft *d, uint8_t kind, const char *target, cr_arg result) {
    CR_TRY(cr_vec_push(&d->outputs, (cr_output_spec){ .kind = kind, .target = target }));
    return cr_vec_push(&d->results, result);
}

static cr_arg *list(draft *d) { return cr_arena_calloc(&d->m->t->arena, d->m->t->nparameters + 1, sizeof(cr_arg)); }

/* Per parameter: has it no weight decay? NULL: all have. */
static cr_status find_spared(const maker *m, const bool **out) {
    const cr__update *u = &m->update;
    uint32_t matched = 0;
    bool *spared = cr_arena_calloc(&m->t->arena, m->t->nparameters + 1, sizeof *spared);
    if (!spared) return CR_ENOMEM;
    for (size_t i = 0; i < m->t->nparameters; i++) {
        uint32_t patterns = cr__update_spares(u, m->t->parameters[i].name);
        spared[i] = patterns != 0;
        matched |= patterns;
    }
    for (int32_t k = 0; k < u->nno_decay; k++)
        if (!(matched >> k & 1))
            return CR_FAIL(CR_EVALUE, "no_decay=%s names no parameter that is trained; the first of those is '%s'",
                           u->no_decay[k].text, m->t->nparameters ? m->t->parameters[0].name : "");
    *out = u->nno_decay ? spared : NULL;
    return CR_OK;
}

/* Moments, counter and rate come in; parameters are written. */
static cr_status emit_update(draft *d, const cr_arg *parameters, const cr_arg *gradients) {
    cr_training *t = d->m->t;
    size_t n = t->nparameters;
    cr__update_call call = { .parameters = cr_arg_list(parameters, n), .gradients = cr_arg_list(gradients, n) };
    CR_TRY(find_spared(d->m, &call.spared));
    cr_arg *steps = list(d), counter, norm;
    if (!steps) return CR_ENOMEM;
    for (int32_t k = 0; n && k < t->parameters[0].nmoments; k++) {
        cr_arg *moments = list(d);
        if (!moments) return CR_ENOMEM;
        for (size_t i = 0; i < n; i++) CR_TRY(take_added(d, t->parameters[i].moments[k], &moments[i]));
        call.moments[k] = cr_arg_list(moments, n);
    }
    CR_TRY(take_added(d, t->counter, &counter));
    if (d->m->update.clip_norm > 0) CR_TRY(take_added(d, norm_name, &norm));
    CR_TRY(take_rate(d, &call.lr));
    CR_TRY(cr_emit_call(d->emit, "aten::add.Scalar", (cr_arg[]){ counter, cr_arg_int(1) }, 2, &counter));
    for (size_t i = 0; i < n; i++) steps[i] = counter;
    call.steps = cr_arg_list(steps, n);
    CR_TRY(cr__update_emit(&d->m->update, d->emit, &call, &norm));
    CR_TRY(give(d, CR_OUTPUT_BUFFER_MUTATION, t->counter, counter));
    return norm.kind == CR_ARG_VALUE ? give(d, CR_OUTPUT_BUFFER_MUTATION, norm_name, norm) : CR_OK;
}

/* The call structure is the loss program's, with the rate where one is needed. */
static cr_status finish(draft *d, const cr_tree *in_spec, const cr_tree *out_spec, cr_program **out) {
    const cr_program *p = d->m->from;
    bool derived = in_spec == p->in_spec;
    cr_module_call root = { .fqn = "", .in_spec = (cr_tree *)in_spec, .out_spec = (cr_tree *)out_spec };
    cr_program_parts parts = { .graph = d->g,
                               .inputs = d->inputs.at,
                               .ninputs = d->inputs.n,
                               .outputs = d->outputs.at,
                               .noutputs = d->outputs.n,
                               .state = d->state.at,
                               .nstate = d->state.n,
                               .calls = &root,
                               .ncalls = 1,
                               .torch_version = p->torch_version,
                               .flags = CR_BUILD_KEEP_NAMES };
    if (derived) {
        parts.constants = p->constants, parts.nconstants = p->nconstants;
        parts.ranges = p->ranges, parts.nranges = p->nranges;
        parts.guards = p->guards, parts.nguards = p->nguards;
    }
    CR_TRY(cr_graph_set_output(d->g, d->results.at, d->results.n));
    cr_tree *with = NULL;
    if (d->rated) CR_TRY(cr_tree_with_keyword(in_spec, "lr", &with));
    if (with) root.in_spec = with;
    cr_status status = cr_program_build(&parts, out);
    cr_tree_release(with);
    return status;
}

static void draft_dispose(draft *d) {
    cr_vec_dispose(&d->inputs);
    cr_vec_dispose(&d->outputs);
    cr_vec_dispose(&d->results);
    cr_vec_dispose(&d->state);
}

/* ---- step and backward ---- */

/* The loss's own gradient is 1. */
static cr_status settle_tangent(draft *d, const cr_joint *j) {
    uint32_t n = cr_graph_first(d->g);
    for (uint32_t i = 0; i < j->nprimals; i++) n = cr_graph_next(d->g, n);
    uint32_t tangent = cr_graph_node(d->g, n)->first, first = cr_graph_next(d->g, n);
    const cr_meta *meta = cr_graph_value(d->g, tangent)->meta;
    cr_arg size[CR_MAX_RANK], one;
    for (int k = 0; k < meta->rank; k++) size[k] = cr_arg_int(1);
    cr_graph_insert_before(d->g, first);
    cr_status status = cr_emit_call(d->emit, "aten::full",
                                    (cr_arg[]){ cr_arg_list(size, meta->rank), cr_arg_float(1),
                                                cr_arg_dtype(meta->dtype) },
                                    3, &one);
    cr_graph_insert_before(d->g, CR_NO_NODE);
    if (!status) status = cr_graph_replace(d->g, tangent, one, CR_NO_NODE);
    return status ? status : cr_graph_erase(d->g, n);
}

/* A result that is a parameter's own memory is what it was before the update. */
static cr_status detach_result(draft *d, cr_arg *result) {
    const cr_meta *meta = result->kind == CR_ARG_VALUE ? cr_graph_value(d->g, (uint32_t)result->u.i)->meta : NULL;
    for (uint32_t n = cr_graph_first(d->g); meta && n != CR_NO_NODE; n = cr_graph_next(d->g, n)) {
        const cr_node *node = cr_graph_node(d->g, n);
        if (node->kind != CR_NODE_PLACEHOLDER) break;
        const cr_meta *from = cr_graph_value(d->g, node->first)->meta;
        if (from && meta->storage && from->storage == meta->storage)
            return cr_emit_call(d->emit, "aten::clone", result, 1, result);
    }
    return CR_OK;
}

/* What the loss program takes and gives. */
static cr_status begin_derived(draft *d, const cr_joint *j) {
    const cr_program *p = d->m->from;
    const cr_node *output = cr_graph_node(d->g, cr_graph_output(d->g));
    for (size_t i = 0; i < p->ninputs; i++) CR_TRY(cr_vec_push(&d->inputs, p->inputs[i]));
    for (size_t i = 0; i < p->nstate; i++) CR_TRY(cr_vec_push(&d->state, p->state[i]));
    for (uint32_t i = 0; i < j->nforward; i++) {
        cr_output_spec spec = i < p->noutputs ? p->outputs[i]
                                              : cr__mutation_of(&p->inputs[d->m->mutated[i - p->noutputs]]);
        cr_arg result = output->args[i];
        if (spec.kind == CR_OUTPUT_USER || spec.kind == CR_OUTPUT_LOSS) CR_TRY(detach_result(d, &result));
        CR_TRY(give(d, spec.kind, spec.target, result));
    }
    return settle_tangent(d, j);
}

static cr_status find_pairs(draft *d, const cr_joint *j, cr_arg *parameters, cr_arg *gradients) {
    const cr_node *output = cr_graph_node(d->g, cr_graph_output(d->g));
    uint32_t n = cr_graph_first(d->g), at = 0;
    for (size_t i = 0; i < d->m->t->nparameters; i++) {
        for (; at < d->m->inputs[i]; at++) n = cr_graph_next(d->g, n);
        parameters[i] = value(d, cr_graph_node(d->g, n)->first);
        gradients[i] = output->args[j->nforward + d->m->inputs[i]];
    }
    return CR_OK;
}

static cr_status draft_step(draft *d, const cr_joint *j, bool applies) {
    cr_arg *parameters = list(d), *gradients = list(d), added, ignored;
    if (!parameters || !gradients) return CR_ENOMEM;
    CR_TRY(find_pairs(d, j, parameters, gradients));
    CR_TRY(begin_derived(d, j));
    if (applies) return emit_update(d, parameters, gradients);
    for (size_t i = 0; i < d->m->t->nparameters; i++) {
        CR_TRY(take_added(d, d->m->t->parameters[i].gradient, &added));
        CR_TRY(cr_emit_call(d->emit, "aten::add_.Tensor", (cr_arg[]){ added, gradients[i] }, 2, &ignored));
    }
    return CR_OK;
}

static cr_status make_derived(maker *m, const cr_joint *j, bool applies, cr_program **out) {
    draft d = { .m = m, .g = j->graph, .emit = cr_graph_emitter(j->graph) };
    cr_status status = draft_step(&d, j, applies);
    if (!status) status = finish(&d, m->from->in_spec, m->from->out_spec, out);
    draft_dispose(&d);
    return status;
}

/* ---- update ---- */

static cr_status draft_update(draft *d) {
    const maker *m = d->m;
    cr_arg *parameters = list(d), *gradients = list(d), ignored;
    if (!parameters || !gradients) return CR_ENOMEM;
    for (size_t i = 0; i < m->t->nparameters; i++) {
        const cr_trained *p = &m->t->parameters[i];
        CR_TRY(take_state(d, CR_INPUT_PARAMETER, p->name, cr_program_tensor(m->from, p->name), &parameters[i]));
    }
    for (size_t i = 0; i < m->t->nparameters; i++) CR_TRY(take_added(d, m->t->parameters[i].gradient, &gradients[i]));
    CR_TRY(emit_update(d, parameters, gradients));
    for (size_t i = 0; i < m->t->nparameters; i++)
        CR_TRY(cr_emit_call(d->emit, "aten::zero_", &gradients[i], 1, &ignored));
    return CR_OK;
}

static cr_status make_update(maker *m, cr_program **out) {
    static const char nothing[] = "[1, {\"type\": \"builtins.tuple\", \"context\": \"null\", \"children_spec\": []}]";
    cr_graph *g;
    cr_tree *none;
    CR_TRY(cr_tree_parse(nothing, sizeof nothing - 1, &none));
    cr_status status = cr_graph_create(NULL, &g);
    if (!status) {
        draft d = { .m = m, .g = g, .emit = cr_graph_emitter(g) };
        status = draft_update(&d);
        if (!status) status = finish(&d, NULL, none, out);
        draft_dispose(&d);
        cr_graph_release(g);
    }
    cr_tree_release(none);
    return status;
}

/* ---- the whole ---- */

static cr_status make_all(maker *m) {
    cr_joint j;
    CR_TRY(check_state(m->from));
    CR_TRY(find_wrt(m));
    CR_TRY(make_functional(m));
    CR_TRY(find_loss(m));
    CR_TRY(check_tied(m));
    for (int method = CR_TRAIN_STEP; method <= CR_TRAIN_BACKWARD; method++) {
        CR_TRY(differentiate(m, &j));
        cr_status status = method == CR_TRAIN_STEP ? add_all_state(m, &j) : CR_OK;
        if (!status) status = make_derived(m, &j, method == CR_TRAIN_STEP, &m->t->programs[method]);
        cr_joint_dispose(&j);
        CR_TRY(status);
    }
    return make_update(m, &m->t->programs[CR_TRAIN_UPDATE]);
}

cr_status cr_training_create(cr_program *loss, const char *optimizer, cr_training **out) {
    maker m = { .from = loss };
    CR_TRY(cr__update_parse(optimizer, &m.update));
    if (loss->nunsupported)
        return CR_FAIL(CR_EUNSUPPORTED, "%s has no row here, so the program cannot be differentiated",
                       loss->unsupported[0]);
    if (!(m.t = cr_calloc(1, sizeof *m.t))) return CR_ENOMEM;
    cr_arena_init(&m.t->arena);
    m.t->optimizer = cr__update_name(&m.update);
    m.t->loss = m.update.loss;
    cr_env *env = cr_graph_env(loss->graph); /* one program for every size: hints decide nothing */
    bool general = cr_env_set_general(env, true), all_sizes = cr_env_set_all_sizes(env, true);
    cr_status status = make_all(&m);
    cr_env_set_general(env, general);
    cr_env_set_all_sizes(env, all_sizes);
    cr_graph_release(m.functional);
    for (size_t i = 0; i < m.state.n; i++) cr_tensor_release(m.state.at[i].tensor);
    cr_vec_dispose(&m.state);
    if (status) cr_training_release(m.t);
    else *out = m.t;
    return status;
}

void cr_training_release(cr_training *t) {
    if (!t) return;
    for (int i = 0; i < CR_TRAIN_METHODS; i++) cr_program_release(t->programs[i]);
    cr_arena_dispose(&t->arena);
    cr_free(t);
}
