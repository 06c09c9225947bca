/* record.c: appends every call of a running program to a graph.
 *
 * A tensor's `trace` slot says which value of which trace it is; a tensor of another trace, or of none, is not ours.
 * Real tensors from outside may be used by several traces at once, on other threads too: which value they are, the
 * trace itself remembers. After a call its results are values, and each written argument is the value "after", by the
 * schema: a later use of the same tensor finds the new value without anybody looking for it. Numbers need no slot: a
 * symbolic one is found by its expression. */
#include "trace/body.h"

#include "graph/writes.h"
#include "ops/formula.h"

#include <stdio.h>

struct cr_trace {
    cr_recorder recorder; /* first: the recorder is the trace */
    int64_t refs;
    cr_graph *graph;
    uint32_t id;
    unsigned constants;
    cr__body *body;       /* of a region; NULL: a whole program */
    cr_call_mode outer;     /* what begin replaced */
    bool exports;         /* cr_trace_export */
    cr_trace_hooks hooks;
    cr_origin origin;     /* of the call being recorded */
    cr_str texts[3];      /* its texts, while a body is recorded inside of it (keep_origin) */
    CR_VEC(cr_value) values; /* of the call being recorded; kept for its memory */
    cr_map outside;          /* real tensor from outside -> value */
    CR_VEC(cr_tensor *) held; /* its keys: retained, so that no other tensor has the address */
};

static cr_status record(cr_recorder *r, const cr_op *op, const cr_arg *args, const cr_arg *results);

cr_status cr_trace_create(cr_env *env, cr_trace **out) {
    static uint32_t last; /* process: atomic */
    cr_trace *t = cr_calloc(1, sizeof *t);
    if (!t) return CR_ENOMEM;
    cr_status status = cr_graph_create(env, &t->graph);
    if (status) return cr_free(t), status;
    t->recorder.record = record;
    t->refs = 1;
    cr_map_init(&t->outside);
    t->id = __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
    *out = t;
    return CR_OK;
}

void cr_trace_release(cr_trace *t) {
    if (!t || --t->refs) return;
    cr_graph_release(t->graph);
    cr__body_dispose(t->body);
    cr_vec_dispose(&t->values);
    for (size_t i = 0; i < t->held.n; i++) cr_tensor_release(t->held.at[i]);
    cr_vec_dispose(&t->held);
    cr_map_dispose(&t->outside);
    for (size_t i = 0; i < CR_COUNT(t->texts); i++) cr_str_dispose(&t->texts[i]);
    cr_free(t);
}

cr_graph *cr_trace_graph(const cr_trace *t) { return t->graph; }

cr_trace *cr_trace_current(void) {
    cr_recorder *r = cr_ambient_get()->mode.recorder;
    return r && r->record == record ? (cr_trace *)r : NULL;
}

cr__body *cr__trace_body(const cr_trace *t) { return t->body; }

/* Texts of origins are the finder's until it is asked again, which the calls of a body do. */
static void keep_origin(cr_trace *t) {
    const char **const texts[] = { &t->origin.stack_trace, &t->origin.module_stack, &t->origin.source_fn };
    for (size_t i = 0; i < CR_COUNT(texts); i++) {
        cr_str *kept = &t->texts[i];
        if (!*texts[i] || *texts[i] == kept->at) continue;
        cr_str_dispose(kept);
        cr_str_add(kept, *texts[i]);
        *texts[i] = cr_str_status(kept) ? NULL : kept->at;
    }
}

void cr__trace_set_body(cr_trace *t, cr__body *body) {
    t->body = body;
    if (!body->outer) return;
    keep_origin(body->outer);
    t->exports = body->outer->exports;
    t->hooks = body->outer->hooks;
    t->hooks.lift = NULL; /* the body's own way is to ask the trace around it */
}

cr_status cr__trace_origin(cr_trace *t, bool none) { return cr_graph_set_origin(t->graph, none ? NULL : &t->origin); }

/* ---- which value is it? ---- */

static bool is_outside(const cr_trace *t, const cr_tensor *tensor, uint64_t *value) {
    return t->held.n && !cr_tensor_is_fake(tensor) && cr_map_find(&t->outside, &tensor, sizeof tensor, value);
}

static bool find_value(const cr_trace *t, const cr_tensor *tensor, uint32_t *value) {
    uint64_t known, slot = __atomic_load_n(&tensor->trace, __ATOMIC_RELAXED);
    if (is_outside(t, tensor, &known)) return *value = (uint32_t)known, true;
    if (slot >> 32 != t->id)
        return t->body && cr__body_find(t->body, &(cr_arg){ .kind = CR_ARG_TENSOR, .u.t = (cr_tensor *)tensor }, value);
    *value = (uint32_t)slot - 1;
    return true;
}

/* A free variable of a body stays what it is in the trace around it. */
static void set_value(cr_trace *t, cr_tensor *tensor, uint32_t value) {
    if (t->body && cr__body_rebind(t->body, tensor, value)) return;
    /* replacing needs no memory */
    if (is_outside(t, tensor, NULL) && !cr_map_put(&t->outside, &tensor, sizeof tensor, value)) return;
    __atomic_store_n(&tensor->trace, (uint64_t)t->id << 32 | (value + 1), __ATOMIC_RELAXED);
}

bool cr_trace_find(const cr_trace *t, const cr_tensor *tensor, uint32_t *value) { return find_value(t, tensor, value); }

cr_status cr_trace_bind(cr_trace *t, cr_tensor *tensor, uint32_t value) {
    if (!cr_tensor_is_fake(tensor) && !is_outside(t, tensor, NULL)) {
        CR_TRY(cr_vec_reserve(&t->held, t->held.n + 1));
        CR_TRY(cr_map_put(&t->outside, &tensor, sizeof tensor, value));
        t->held.at[t->held.n++] = tensor;
        cr_tensor_retain(tensor);
    }
    set_value(t, tensor, value);
    return CR_OK;
}

void cr_trace_set_hooks(cr_trace *t, const cr_trace_hooks *hooks) { t->hooks = *hooks; }

void cr_trace_export(cr_trace *t, const cr_trace_hooks *hooks) {
    t->exports = true;
    cr_trace_set_hooks(t, hooks);
}

cr_status cr_trace_input(cr_trace *t, const char *name, cr_tensor *tensor) {
    uint32_t value;
    if (find_value(t, tensor, &value))
        return CR_FAIL(CR_EVALUE, "the tensor for input '%s' is known as %%%s already", name,
                       cr_graph_value(t->graph, value)->name);
    CR_TRY(cr_graph_placeholder(t->graph, name, &tensor->meta, &value));
    return cr_trace_bind(t, tensor, value);
}

cr_status cr_trace_input_number(cr_trace *t, const char *name, cr_type type, cr_sym expr) {
    uint32_t value;
    return cr_graph_placeholder_number(t->graph, name, type, expr, &value);
}

typedef struct written { const cr_graph *g; uint64_t storage; bool found; } written;

static cr_status see_write(void *user, const cr_node *node, uint32_t value, int kinds) {
    written *w = user;
    const cr_meta *m = cr_graph_value(w->g, value)->meta;
    (void)node, (void)kinds;
    w->found |= m && m->storage == w->storage;
    return CR_OK;
}

bool cr_trace_known_item(const cr_trace *t, const cr_tensor *tensor, cr_arg *out) {
    uint32_t value, id = CR_NO_NODE;
    if (!find_value(t, tensor, &value)) return false;
    for (uint32_t n = cr_graph_first(t->graph); n != CR_NO_NODE; n = cr_graph_next(t->graph, n)) id = n;
    for (; id != CR_NO_NODE; id = cr_graph_node(t->graph, id)->prev) {
        const cr_node *node = cr_graph_node(t->graph, id);
        if (node->kind != CR_NODE_CALL) continue;
        if (!strcmp(node->op->name, "aten::item") && node->args[0].kind == CR_ARG_VALUE &&
            (uint32_t)node->args[0].u.i == value) {
            *out = cr_number_arg(cr_graph_env(t->graph), cr_graph_value(t->graph, node->first)->expr);
            return true;
        }
        written w = { t->graph, tensor->meta.storage, false };
        if (cr_node_visit_writes(t->graph, node, CR_SHARING_KNOWN, see_write, &w) || w.found) return false;
    }
    return false;
}

/* A real tensor from outside: the graph holds it. */
static cr_status lift(cr_trace *t, cr_tensor *tensor, uint32_t *value) {
    char name[40];
    if (t->body) return cr_trace_lift(t, &(cr_arg){ .kind = CR_ARG_TENSOR, .given = 1, .u.t = tensor }, value);
    if (t->hooks.lift && !cr_tensor_is_fake(tensor)) {
        CR_TRY(cr_graph_set_origin(t->graph, NULL)); /* inputs come from nowhere */
        CR_TRY(t->hooks.lift(t->hooks.user, t, tensor, value));
        CR_TRY(cr_trace_bind(t, tensor, *value));
        return cr_graph_set_origin(t->graph, &t->origin);
    }
    if (cr_tensor_is_fake(tensor) && tensor->meta.device.type != CR_META_DEVICE)
        return CR_FAIL(CR_EVALUE, "a fake tensor that is neither an input of the trace nor a result in it; make it an "
                                  "input");
    snprintf(name, sizeof name, "_tensor_constant%u", t->constants++);
    CR_TRY(cr_graph_add_constant(t->graph, name, tensor));
    CR_TRY(cr_graph_get_attr(t->graph, name, value));
    return cr_trace_bind(t, tensor, *value);
}

static cr_arg value_arg(const cr_trace *t, uint32_t v, uint8_t given) {
    return (cr_arg){ .kind = CR_ARG_VALUE, .given = given, .type = cr_graph_value(t->graph, v)->type, .u.i = v };
}

static cr_status know_subgraph(cr_trace *t, cr_graph *sub) {
    for (size_t i = 0; i < cr_graph_subgraph_count(t->graph); i++)
        if (cr_graph_subgraph(t->graph, i) == sub) return CR_OK;
    return cr_graph_add_subgraph(t->graph, sub);
}

cr_status cr_trace_arg(cr_trace *t, const cr_arg *from, cr_arg *to) {
    uint32_t value;
    uint8_t given = from->given;
    cr_arg *items;
    *to = *from;
    switch ((cr_arg_kind)from->kind) {
    case CR_ARG_TENSOR:
        if (!find_value(t, from->u.t, &value)) CR_TRY(lift(t, from->u.t, &value));
        *to = value_arg(t, value, given);
        return CR_OK;
    case CR_ARG_INT:
        if (cr_dim_is_plain(from->u.i)) return CR_OK;
        if (from->u.i == CR_DIM_OVERFLOW)
            return CR_FAIL(CR_EOVERFLOW, "an integer below -2^62 cannot be part of a graph");
        if (t->body) CR_TRY(cr__body_need(t, cr_dim_sym(cr_graph_env(t->graph), from->u.i)));
        CR_TRY(cr_graph_value_for(t->graph, cr_dim_sym(cr_graph_env(t->graph), from->u.i), to));
        to->given = given;
        return CR_OK;
    case CR_ARG_SYM:
        if (t->body) CR_TRY(cr__body_need(t, from->u.sym));
        CR_TRY(cr_graph_value_for(t->graph, from->u.sym, to));
        to->given = given;
        return CR_OK;
    case CR_ARG_GRAPH: return know_subgraph(t, from->u.graph);
    case CR_ARG_LIST:
        items = cr_graph_alloc(t->graph, from->n * sizeof *items);
        if (!items) return CR_ENOMEM;
        for (uint32_t i = 0; i < from->n; i++) CR_TRY(cr_trace_arg(t, &from->u.list[i], &items[i]));
        to->u.list = items;
        return CR_OK;
    default: return CR_OK;
    }
}

cr_status cr_trace_set_origin(cr_trace *t, const cr_origin *origin) {
    t->origin = origin ? *origin : (cr_origin){ 0 };
    return cr_graph_set_origin(t->graph, origin);
}

/* ---- one call ---- */

/* A number that a real run took from data would be baked into the graph as if it were always so. */
static cr_status refuse_number(const cr_op *op) {
    if (strcmp(op->schema.ns, "aten") || !strncmp(op->schema.name, "sym_", 4)) return CR_OK;
    return CR_FAIL(CR_EDATADEP,
                   "%s: recording a run on real tensors would keep this number for ever; record on fake tensors",
                   op->name);
}

static cr_status add_result(cr_trace *t, const cr_op *op, const cr_arg *a, uint16_t ret) {
    cr_env *env = cr_graph_env(t->graph);
    cr_value v = { .name = op->schema.name, .ret = ret };
    switch ((cr_arg_kind)a->kind) {
    case CR_ARG_TENSOR: v.type = CR_T_TENSOR, v.meta = &a->u.t->meta; break;
    case CR_ARG_NONE: v.type = CR_T_TENSOR; break;
    case CR_ARG_INT:
        if (cr_dim_is_plain(a->u.i)) CR_TRY(refuse_number(op));
        v.type = CR_T_INT, v.expr = cr_dim_sym(env, a->u.i);
        break;
    case CR_ARG_BOOL:
        CR_TRY(refuse_number(op));
        v.type = CR_T_BOOL, v.expr = cr_sym_bool(env, a->u.i != 0);
        break;
    case CR_ARG_FLOAT:
        CR_TRY(refuse_number(op));
        v.type = CR_T_FLOAT, v.expr = cr_sym_float(env, a->u.f);
        break;
    case CR_ARG_SYM:
        v.expr = a->u.sym;
        v.type = cr_sym_type_of(v.expr) == CR_TYPE_BOOL    ? CR_T_BOOL
                 : cr_sym_type_of(v.expr) == CR_TYPE_FLOAT ? CR_T_FLOAT
                                                           : CR_T_INT;
        break;
    default: return CR_FAIL(CR_EUNSUPPORTED, "%s: a result of this kind cannot be recorded", op->name);
    }
    return cr_vec_push(&t->values, v);
}

static cr_status add_results(cr_trace *t, const cr_op *op, const cr_arg *results) {
    for (uint16_t i = 0; i < cr_result_count(op); i++) {
        if (results[i].kind != CR_ARG_LIST) CR_TRY(add_result(t, op, &results[i], i));
        for (uint32_t k = 0; results[i].kind == CR_ARG_LIST && k < results[i].n; k++)
            CR_TRY(add_result(t, op, &results[i].u.list[k], op->schema.varargs_returns ? (uint16_t)k : i));
    }
    return CR_OK;
}

static cr_status add_written(cr_trace *t, const cr_arg *a, uint16_t param) {
    for (uint32_t i = 0; a->kind == CR_ARG_LIST && i < a->n; i++) CR_TRY(add_written(t, &a->u.list[i], param));
    uint32_t before;
    if (a->kind != CR_ARG_TENSOR || !find_value(t, a->u.t, &before)) return CR_OK;
    return cr_vec_push(&t->values, (cr_value){ .name = cr_graph_value(t->graph, before)->name,
                                               .ret = param,
                                               .type = CR_T_TENSOR,
                                               .hidden = true,
                                               .meta = &a->u.t->meta });
}

/* Tensors in the order of the values. */
static void rebind(cr_trace *t, const cr_arg *a, uint32_t *value) {
    if (a->kind == CR_ARG_LIST)
        for (uint32_t i = 0; i < a->n; i++) rebind(t, &a->u.list[i], value);
    else if (a->kind == CR_ARG_TENSOR) set_value(t, a->u.t, (*value)++);
    else ++*value;
}

static void rebind_written(cr_trace *t, const cr_arg *a, uint32_t *value) {
    if (a->kind == CR_ARG_TENSOR) set_value(t, a->u.t, (*value)++);
    for (uint32_t i = 0; a->kind == CR_ARG_LIST && i < a->n; i++) rebind_written(t, &a->u.list[i], value);
}

/* PyTorch's functions name the device of a tensor that is made from nothing, and say that it is not pinned. */
static void complete_factory(const cr_schema *s, cr_arg *args) {
    bool from_tensor = false;
    for (uint16_t i = 0; i < s->nparams; i++) from_tensor |= s->params[i].type == CR_T_TENSOR;
    for (uint16_t i = 0; i < s->nparams; i++) {
        const cr_param *p = &s->params[i];
        if (args[i].kind != CR_ARG_NONE || !p->keyword_only) continue;
        if (!strcmp(p->name, "pin_memory")) args[i] = cr_arg_bool(false);
        if (!from_tensor && !strcmp(p->name, "device"))
            args[i] = (cr_arg){ .kind = CR_ARG_DEVICE, .u.device = { CR_CPU, -1 } };
    }
}

/* Overloads that PyTorch's functions do not call themselves; the parameters are the same. */
static const cr_op *known_as(const cr_op *op) {
    static const struct { const char *op, *as; } rows[] = { { "aten::split.sizes", "aten::split_with_sizes" } };
    for (size_t i = 0; i < CR_COUNT(rows); i++) {
        const cr_op *other = strcmp(op->name, rows[i].op) ? NULL : cr_op_find(rows[i].as);
        if (other) return other;
    }
    return op;
}

static bool is_same(const cr_arg *a, const cr_arg *b) {
    return a->kind == CR_ARG_TENSOR && b->kind == CR_ARG_TENSOR && a->u.t == b->u.t;
}

/* Python does not call these where they change nothing. */
static bool answers_itself(const cr_op *op) { return !strcmp(op->name, "aten::contiguous"); }

/* x.to(device) and x.to(memory_format=...) say all that the result is. */
static void complete_conversion(const cr_op *op, const cr_meta *m, cr_arg *inputs) {
    if (strcmp(op->name, "aten::to.dtype_layout")) return;
    for (uint16_t i = 1; i < op->schema.nparams; i++) {
        const char *name = op->schema.params[i].name;
        if (inputs[i].kind != CR_ARG_NONE) continue;
        if (!strcmp(name, "dtype")) inputs[i] = (cr_arg){ .kind = CR_ARG_DTYPE, .u.i = m->dtype };
        if (!strcmp(name, "layout")) inputs[i] = (cr_arg){ .kind = CR_ARG_LAYOUT };
        if (!strcmp(name, "device")) inputs[i] = (cr_arg){ .kind = CR_ARG_DEVICE, .u.device = m->device };
    }
}

/* PyTorch's exporter has conversions check what they convert. */
static cr_status assert_metadata(cr_trace *t, const cr_op *op, const cr_arg *args, const cr_arg *self) {
    if (strcmp(op->schema.name, "to") || strcmp(op->schema.ns, "aten") || args[0].kind != CR_ARG_TENSOR) return CR_OK;
    static const cr_op *check;
    if (!check && !(check = cr_op_find("aten::_assert_tensor_metadata"))) return CR_OK;
    const cr_meta *m = &args[0].u.t->meta;
    cr_arg inputs[CR_MAX_PARAMS] = { *self, cr_arg_none(), cr_arg_none(), { .kind = CR_ARG_DTYPE, .u.i = m->dtype },
                                     { .kind = CR_ARG_DEVICE, .u.device = m->device }, { .kind = CR_ARG_LAYOUT } };
    inputs[3].given = CR_GIVEN_KEYWORD;
    uint32_t node;
    return cr_graph_call_with(t->graph, check, inputs, NULL, 0, &node);
}

static cr_status find_origin(cr_trace *t, const cr_op *op) {
    t->origin = (cr_origin){ 0 };
    t->origin.no_grad = !t->exports && !cr_ambient_get()->grad;
    t->origin.data = !t->exports && cr_ambient_get()->data;
    t->origin.policy = cr_ambient_get()->watch ? cr_ambient_get()->policy : 0;
    if (t->hooks.origin) CR_TRY(t->hooks.origin(t->hooks.user, op, &t->origin));
    return cr_graph_set_origin(t->graph, &t->origin);
}

static cr_status mark_required(const cr_op *op, uint16_t ret, const cr_arg *a) {
    for (uint32_t i = 0; a->kind == CR_ARG_LIST && i < a->n; i++) CR_TRY(mark_required(op, ret, &a->u.list[i]));
    if (a->kind != CR_ARG_TENSOR) return CR_OK;
    cr_meta *m = &a->u.t->meta;
    bool flows = cr_dtype_is_floating(m->dtype) || cr_dtype_is_complex(m->dtype);
    if (flows) CR_TRY(cr_grad_flows(op->base, ret, m, &flows));
    if (flows) m->flags |= CR_META_REQUIRES_GRAD;
    cr_tensor_changed(a->u.t);
    return CR_OK;
}

/* A program that is differentiated ahead of time may ask its tensors whether they require grad, and go another way. */
static cr_status require_results(const cr_op *op, const cr_arg *args, const cr_arg *results) {
    bool needs = false;
    if (!cr_ambient_get()->ahead || !cr_ambient_get()->grad) return CR_OK;
    for (uint16_t i = 0; i < op->schema.nparams; i++) needs |= cr_arg_requires_grad(&args[i]);
    for (uint16_t i = 0; i < cr_result_count(op) && needs; i++) CR_TRY(mark_required(op, i, &results[i]));
    return CR_OK;
}

static cr_status record(cr_recorder *r, const cr_op *op, const cr_arg *args, const cr_arg *results) {
    cr_trace *t = (cr_trace *)r;
    cr_arg converted[6];
    if (t->exports) {
        op = known_as(op);
        if (!strcmp(op->name, "aten::to.other") && args[1].kind == CR_ARG_TENSOR) { /* what it converts to is known */
            const cr_meta *other = &args[1].u.t->meta;
            cr_arg to[] = { args[0],
                            { .kind = CR_ARG_DEVICE, .u.device = other->device },
                            { .kind = CR_ARG_DTYPE, .u.i = other->dtype },
                            args[2],
                            args[3],
                            args[4] };
            memcpy(converted, to, sizeof to);
            const cr_op *by_device = cr_op_find("aten::to.device");
            if (by_device) op = by_device, args = converted;
        }
    }
    const cr_schema *s = &op->schema;
    cr_arg inputs[CR_MAX_PARAMS];
    /* what the graph calls to find symbols is no part of the program */
    cr_call_mode *mode = &cr_ambient_get()->mode, saved = *mode;
    mode->recorder = NULL;
    cr_status status = CR_OK;
    uint32_t node;
    if (t->exports && answers_itself(op) && is_same(&args[0], &results[0])) goto out;
    CR_TRY_OUT(find_origin(t, op));
    for (uint16_t i = 0; i < s->nparams; i++) CR_TRY_OUT(cr_trace_arg(t, &args[i], &inputs[i]));
    if (t->exports) {
        if (args[0].kind == CR_ARG_TENSOR && !strcmp(s->name, "to"))
            complete_conversion(op, &args[0].u.t->meta, inputs);
        else complete_factory(s, inputs);
        CR_TRY_OUT(assert_metadata(t, op, args, &inputs[0]));
        /* the graph finds out which are not */
        for (uint16_t i = 0; i < s->nparams; i++)
            inputs[i].given = op->tags & CR_TAG_HIGHER_ORDER ? CR_GIVEN_POSITIONAL : CR_GIVEN_DEFAULT;
    }
    t->values.n = 0;
    CR_TRY_OUT(add_results(t, op, results));
    for (uint16_t i = 0; i < s->nparams; i++)
        if (s->params[i].writes) CR_TRY_OUT(add_written(t, &args[i], i));
    CR_TRY_OUT(cr_graph_call_with(t->graph, op, inputs, t->values.at, t->values.n, &node));
    uint32_t value = cr_graph_node(t->graph, node)->first;
    uint32_t shown = value;
    for (uint16_t i = 0; i < cr_result_count(op); i++) rebind(t, &results[i], &value);
    for (uint16_t i = 0; i < s->nparams; i++)
        if (s->params[i].writes) rebind_written(t, &args[i], &value);
    if (t->exports)
        for (uint16_t i = 0; i < cr_result_count(op); i++) rebind(t, &results[i], &shown);
    status = require_results(op, args, results);
out:
    *mode = saved;
    return status;
}

cr_status cr_trace_number(cr_recorder *r, const cr_op *op, const cr_arg *args, const cr_arg *result) {
    if (!r || r->record != record || !((cr_trace *)r)->exports) return CR_OK;
    cr_trace *t = (cr_trace *)r;
    cr_sym e = result->kind == CR_ARG_SYM ? result->u.sym
               : result->kind == CR_ARG_INT && !cr_dim_is_plain(result->u.i)
                   ? cr_dim_sym(cr_graph_env(t->graph), result->u.i)
                   : NULL;
    if (!e || cr_sym_type_of(e) == CR_TYPE_BOOL) return CR_OK; /* decided, or made when something uses it */
    for (uint32_t v = 0; v < cr_graph_value_count(t->graph); v++)
        if (cr_graph_value(t->graph, v)->expr == e) return CR_OK;
    return record(r, op, args, result);
}

/* ---- begin, end ---- */

void cr_trace_begin(cr_trace *t, bool fake) {
    cr_call_mode *mode = &cr_ambient_get()->mode;
    t->outer = *mode;
    *mode = (cr_call_mode){
        .recorder = &t->recorder, .fake = fake, .env = cr_graph_env(t->graph), .autocast = t->outer.autocast
    };
}

void cr_trace_end(cr_trace *t) { cr_ambient_get()->mode = t->outer; }

cr_status cr_trace_finish(cr_trace *t, const cr_arg *outputs, size_t n, cr_graph **out) {
    cr_arg *values = cr_graph_alloc(t->graph, n * sizeof *values);
    if (!values) return CR_ENOMEM;
    for (size_t i = 0; i < n; i++) CR_TRY(cr_trace_arg(t, &outputs[i], &values[i]));
    CR_TRY(cr_graph_set_origin(t->graph, NULL)); /* the line of the last call is not the outputs' */
    CR_TRY(cr_graph_set_output(t->graph, values, n));
    cr_graph_retain(t->graph);
    *out = t->graph;
    return CR_OK;
}
