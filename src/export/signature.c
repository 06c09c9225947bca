/* signature.c: what each placeholder and output of the graph is, and how the program is called.
 *
 * A spec is a one-key union; the tables below say for each key which kind it is and which field names its target. The
 * graph is read between inputs and checks: it takes the names of constant inputs from here, and every name of a spec
 * must be its placeholder's or its output's. */
#include "export/internal.h"

/* ---- specs ---- */

static const struct { const char *key; uint8_t kind; const char *target; } input_rows[] = {
    { "user_input", CR_INPUT_USER, NULL },
    { "parameter", CR_INPUT_PARAMETER, "parameter_name" },
    { "buffer", CR_INPUT_BUFFER, "buffer_name" },
    { "tensor_constant", CR_INPUT_TENSOR_CONSTANT, "tensor_constant_name" },
    { "custom_obj", CR_INPUT_CUSTOM_OBJECT, "custom_obj_name" },
    { "token", CR_INPUT_TOKEN, NULL },
    { "constant_input", CR_INPUT_USER, NULL },
};
static const struct { const char *key; uint8_t kind; const char *target; } output_rows[] = {
    { "user_output", CR_OUTPUT_USER, NULL },
    { "loss_output", CR_OUTPUT_LOSS, NULL },
    { "buffer_mutation", CR_OUTPUT_BUFFER_MUTATION, "buffer_name" },
    { "parameter_mutation", CR_OUTPUT_PARAMETER_MUTATION, "parameter_name" },
    { "user_input_mutation", CR_OUTPUT_INPUT_MUTATION, "user_input_name" },
    { "gradient_to_parameter", CR_OUTPUT_GRADIENT_TO_PARAMETER, "parameter_name" },
    { "gradient_to_user_input", CR_OUTPUT_GRADIENT_TO_INPUT, "user_input_name" },
    { "token", CR_OUTPUT_TOKEN, NULL },
};

/* The name in {"as_tensor": {"name": ..}}, {"as_sym_int": {"as_name": ..}}; NULL: a constant, put into *constant. */
static cr_status read_named(cr__reader *r, const cr_json *arg, const char **name, cr_arg *constant) {
    static const char *const syms[] = { "as_sym_int", "as_sym_float", "as_sym_bool" };
    const cr_json_member *m, *inner;
    bool found;
    *name = NULL;
    CR_TRY(cr_json_union(arg, &m));
    if (!strcmp(m->key, "as_tensor")) return cr_json_get_string(&m->value, "name", name);
    if (!strcmp(m->key, "as_custom_obj")) {
        CR_TRY(cr_json_get_string(&m->value, "name", name));
        return CR_FAIL(CR_EUNSUPPORTED, "'%s' is a script object; programs with such objects cannot run here", *name);
    }
    for (size_t i = 0; i < CR_COUNT(syms); i++) {
        if (strcmp(m->key, syms[i])) continue;
        CR_TRY(cr_json_union(&m->value, &inner));
        if (!strcmp(inner->key, "as_name")) return cr_json_get_string(&m->value, "as_name", name);
        m = inner;
        break;
    }
    CR_TRY(cr__read_constant(r, m, &found, constant));
    return found ? CR_OK : CR_FAIL(CR_EFORMAT, "'%s' is no kind of input or output", m->key);
}

static cr_status read_constant_input(cr__reader *r, const cr_json *body, cr_input_spec *spec) {
    const cr_json *value;
    const cr_json_member *m;
    const char *name;
    bool found;
    CR_TRY(cr_json_get_string(body, "name", &name));
    CR_TRY(cr_json_get(body, "value", CR_JSON_OBJECT, &value));
    CR_TRY(cr_json_union(value, &m));
    CR_TRY(cr__read_constant(r, m, &found, &spec->constant));
    if (!found) return CR_FAIL(CR_EFORMAT, "'%s' is no constant", m->key);
    spec->is_constant = true;
    return cr__keep_text(r, name, &spec->name);
}

static cr_status read_input_spec(cr__reader *r, const cr_json *value, cr_input_spec *spec) {
    const cr_json_member *m;
    const cr_json *arg;
    const char *name = NULL, *target = NULL;
    size_t row = 0;
    CR_TRY(cr_json_union(value, &m));
    while (row < CR_COUNT(input_rows) && strcmp(m->key, input_rows[row].key)) row++;
    if (row == CR_COUNT(input_rows)) return CR_FAIL(CR_EFORMAT, "'%s' is no kind of input", m->key);
    spec->kind = input_rows[row].kind;
    spec->constant = cr_arg_none();
    if (!strcmp(m->key, "constant_input")) return read_constant_input(r, &m->value, spec);
    CR_TRY(cr_json_get(&m->value, "arg", CR_JSON_OBJECT, &arg));
    if (spec->kind == CR_INPUT_USER) {
        CR_TRY(read_named(r, arg, &name, &spec->constant));
        spec->is_constant = !name;
    } else {
        CR_TRY(cr_json_get_string(arg, "name", &name));
    }
    if (input_rows[row].target) CR_TRY(cr_json_get_string(&m->value, input_rows[row].target, &target));
    if (spec->kind == CR_INPUT_CUSTOM_OBJECT)
        return CR_FAIL(CR_EUNSUPPORTED, "'%s' is a script object; programs with such objects cannot run here", target);
    if (spec->kind == CR_INPUT_BUFFER) CR_TRY(cr_json_get_bool_or(&m->value, "persistent", true, &spec->persistent));
    if (name) CR_TRY(cr__keep_text(r, name, &spec->name));
    if (target) CR_TRY(cr__keep_text(r, target, &spec->target));
    return CR_OK;
}

static cr_status read_output_spec(cr__reader *r, const cr_json *value, cr_output_spec *spec) {
    const cr_json_member *m;
    const cr_json *arg;
    const char *name = NULL, *target = NULL;
    cr_arg ignored;
    size_t row = 0;
    CR_TRY(cr_json_union(value, &m));
    while (row < CR_COUNT(output_rows) && strcmp(m->key, output_rows[row].key)) row++;
    if (row == CR_COUNT(output_rows)) return CR_FAIL(CR_EFORMAT, "'%s' is no kind of output", m->key);
    spec->kind = output_rows[row].kind;
    CR_TRY(cr_json_get(&m->value, "arg", CR_JSON_OBJECT, &arg));
    if (spec->kind == CR_OUTPUT_USER) CR_TRY(read_named(r, arg, &name, &ignored));
    else CR_TRY(cr_json_get_string(arg, "name", &name));
    if (output_rows[row].target) CR_TRY(cr_json_get_string(&m->value, output_rows[row].target, &target));
    if (name) CR_TRY(cr__keep_text(r, name, &spec->name));
    if (target) CR_TRY(cr__keep_text(r, target, &spec->target));
    return CR_OK;
}

cr_status cr__read_signature(cr__reader *r, const cr_json *signature) {
    const cr_json *inputs, *outputs;
    CR_TRY(cr_json_get(signature, "input_specs", CR_JSON_ARRAY, &inputs));
    CR_TRY(cr_json_get(signature, "output_specs", CR_JSON_ARRAY, &outputs));
    cr_input_spec *in = cr_arena_calloc(&r->p->arena, inputs->n + 1u, sizeof *in);
    cr_output_spec *out = cr_arena_calloc(&r->p->arena, outputs->n + 1u, sizeof *out);
    if (!in || !out) return CR_ENOMEM;
    for (uint32_t i = 0; i < inputs->n; i++) {
        cr_status status = read_input_spec(r, &inputs->u.items[i], &in[i]);
        if (status) return cr_error_context(status, "signature.input_specs[%u]", i);
    }
    for (uint32_t i = 0; i < outputs->n; i++) {
        cr_status status = read_output_spec(r, &outputs->u.items[i], &out[i]);
        if (status) return cr_error_context(status, "signature.output_specs[%u]", i);
    }
    r->p->inputs = in;
    r->p->ninputs = inputs->n;
    r->p->outputs = out;
    r->p->noutputs = outputs->n;
    return CR_OK;
}

/* ---- against the graph ---- */

/* The graph's input of a specialised argument is the same kind of constant, or says nothing. */
static cr_status check_constant(const cr_input_spec *spec, const cr_value *v) {
    static const uint8_t types[CR_ARG_KIND_COUNT] = {
        [CR_ARG_INT] = CR_T_INT, [CR_ARG_FLOAT] = CR_T_FLOAT, [CR_ARG_BOOL] = CR_T_BOOL, [CR_ARG_STR] = CR_T_STR
    };
    bool number = v->type == CR_T_INT || v->type == CR_T_FLOAT || v->type == CR_T_BOOL || v->type == CR_T_STR;
    if (v->type == CR_T_TENSOR && v->meta)
        return CR_FAIL(CR_EFORMAT, "it is a constant, the graph's input there is the tensor '%s'", v->name);
    if (number && types[spec->constant.kind] != v->type)
        return CR_FAIL(CR_EFORMAT, "it is another kind of constant than the graph's input there, '%s'", v->name);
    return CR_OK;
}

static cr_status check_input(const cr_program *p, size_t i, uint32_t node, cr_map *targets) {
    const cr_input_spec *spec = &p->inputs[i];
    const cr_value *v = cr_graph_value(p->graph, cr_graph_node(p->graph, node)->first);
    if (spec->is_constant) return check_constant(spec, v);
    uint32_t named = spec->name ? cr_graph_find(p->graph, spec->name) : CR_NO_VALUE;
    if (named != cr_graph_node(p->graph, node)->first)
        return CR_FAIL(CR_EFORMAT, "it names '%s', the graph's input there is '%s'", spec->name ? spec->name : "",
                       v->name);
    if (spec->kind != CR_INPUT_USER && v->type != CR_T_TENSOR)
        return CR_FAIL(CR_EFORMAT, "'%s' is state, but no tensor", v->name);
    if (!spec->target) return CR_OK;
    return cr_map_put_str(targets, spec->target, spec->kind + 1u);
}

static cr_status check_output(const cr_program *p, size_t i, const cr_arg *output, const cr_map *targets) {
    static const uint8_t needed[] = { [CR_OUTPUT_BUFFER_MUTATION] = CR_INPUT_BUFFER + 1,
                                      [CR_OUTPUT_PARAMETER_MUTATION] = CR_INPUT_PARAMETER + 1,
                                      [CR_OUTPUT_GRADIENT_TO_PARAMETER] = CR_INPUT_PARAMETER + 1,
                                      [CR_OUTPUT_TOKEN] = 0 };
    const cr_output_spec *spec = &p->outputs[i];
    uint64_t kind = 0;
    if (spec->kind == CR_OUTPUT_TOKEN) return CR_OK; /* the one token has the name of its input here */
    if (spec->name) {
        const char *have = output->kind == CR_ARG_VALUE ? cr_graph_value(p->graph, (uint32_t)output->u.i)->name : NULL;
        /* the name of a tensor that was written */
        bool hidden = have && cr_graph_value(p->graph, (uint32_t)output->u.i)->hidden;
        if (!have || (!hidden && strcmp(have, spec->name)))
            return CR_FAIL(CR_EFORMAT, "it names '%s', the graph's output there is '%s'", spec->name,
                           have ? have : "a constant");
    } else if (output->kind == CR_ARG_VALUE) {
        return CR_FAIL(CR_EFORMAT, "it is a constant, the graph's output there is '%s'",
                       cr_graph_value(p->graph, (uint32_t)output->u.i)->name);
    }
    if (spec->kind >= CR_COUNT(needed) || !needed[spec->kind]) {
        if (spec->kind != CR_OUTPUT_INPUT_MUTATION) return CR_OK;
        for (size_t k = 0; k < p->ninputs; k++)
            if (p->inputs[k].kind == CR_INPUT_USER && p->inputs[k].name && !strcmp(p->inputs[k].name, spec->target))
                return CR_OK;
        return CR_FAIL(CR_EFORMAT, "no user input is named '%s'", spec->target);
    }
    if (cr_map_find_str(targets, spec->target, &kind) && kind == needed[spec->kind]) return CR_OK;
    return CR_FAIL(CR_EFORMAT, "no %s is named '%s'",
                   needed[spec->kind] == CR_INPUT_BUFFER + 1 ? "buffer" : "parameter", spec->target);
}

static cr_status check_specs(const cr_program *p, cr_map *targets) {
    const cr_node *output = cr_graph_node(p->graph, cr_graph_output(p->graph));
    size_t i = 0, count = 0;
    for (uint32_t n = cr_graph_first(p->graph);
         n != CR_NO_NODE && cr_graph_node(p->graph, n)->kind == CR_NODE_PLACEHOLDER; n = cr_graph_next(p->graph, n))
        count++;
    if (count != p->ninputs)
        return CR_FAIL(CR_EFORMAT, "signature.input_specs: %zu specs for %zu inputs of the graph", p->ninputs, count);
    for (uint32_t n = cr_graph_first(p->graph); i < count; n = cr_graph_next(p->graph, n), i++) {
        cr_status status = check_input(p, i, n, targets);
        if (status) return cr_error_context(status, "signature.input_specs[%zu]", i);
    }
    if (output->nargs != p->noutputs)
        return CR_FAIL(CR_EFORMAT, "signature.output_specs: %zu specs for %d outputs of the graph", p->noutputs,
                       output->nargs);
    for (i = 0; i < p->noutputs; i++) {
        cr_status status = check_output(p, i, &output->args[i], targets);
        if (status) return cr_error_context(status, "signature.output_specs[%zu]", i);
    }
    return CR_OK;
}

cr_status cr__check_signature(const cr_program *p) {
    cr_map targets; /* name of state -> kind + 1 */
    cr_map_init(&targets);
    cr_status status = check_specs(p, &targets);
    cr_map_dispose(&targets);
    return status;
}

/* ---- call structure ---- */

static const char *field_name(void *user, const char *type, size_t i) {
    const cr_json *def = user ? cr_json_find(user, type) : NULL, *names = def ? cr_json_find(def, "field_names") : NULL;
    if (!names || names->kind != CR_JSON_ARRAY || i >= names->n || names->u.items[i].kind != CR_JSON_STRING)
        return NULL;
    return names->u.items[i].u.s;
}

static cr_status read_spec(const cr_json *signature, const char *field, const cr_json *tuples, cr_tree **out) {
    const cr_json *text;
    CR_TRY(cr_json_get(signature, field, CR_JSON_STRING, &text));
    cr_status status = cr_tree_parse_with(text->u.s, text->n, field_name, (void *)tuples, out);
    return status ? cr_error_context(status, "%s", field) : CR_OK;
}

static cr_status read_arg_names(cr__reader *r, const cr_json *signature, cr_module_call *call) {
    const cr_json *names = cr_json_find(signature, "forward_arg_names");
    if (!names || names->kind == CR_JSON_NULL) return CR_OK;
    CR_TRY(cr_json_get(signature, "forward_arg_names", CR_JSON_ARRAY, &names));
    const char **list = cr_arena_calloc(&r->p->arena, names->n + 1u, sizeof *list);
    if (!list) return CR_ENOMEM;
    for (uint32_t i = 0; i < names->n; i++) {
        if (names->u.items[i].kind != CR_JSON_STRING)
            return CR_FAIL(CR_EFORMAT, "forward_arg_names[%u] is %s, expected a string", i,
                           cr_json_kind_name(names->u.items[i].kind));
        CR_TRY(cr__keep_text(r, names->u.items[i].u.s, &list[i]));
    }
    call->forward_arg_names = list;
    call->nnames = names->n;
    return CR_OK;
}

static cr_status read_call_value(cr__reader *r, const cr_json *value, cr_call_value *out) {
    static const struct {
        const char *key;
        uint8_t type;
    } syms[] = { { "as_sym_int", CR_T_INT }, { "as_sym_float", CR_T_FLOAT }, { "as_sym_bool", CR_T_BOOL } };
    const char *name;
    const cr_json_member *m;
    CR_TRY(cr_json_union(value, &m));
    CR_TRY(read_named(r, value, &name, &out->constant));
    out->type = CR_T_TENSOR;
    for (size_t i = 0; i < CR_COUNT(syms); i++)
        if (!strcmp(m->key, syms[i].key)) out->type = syms[i].type;
    return name ? cr__keep_text(r, name, &out->name) : CR_OK;
}

static cr_status read_call_values(cr__reader *r, const cr_json *signature, const char *field, const cr_call_value **out,
                                  size_t *n) {
    const cr_json *list = cr_json_find(signature, field);
    if (!list || list->kind == CR_JSON_NULL) return CR_OK;
    CR_TRY(cr_json_get(signature, field, CR_JSON_ARRAY, &list));
    cr_call_value *values = cr_arena_calloc(&r->p->arena, list->n + 1u, sizeof *values);
    if (!values) return CR_ENOMEM;
    for (uint32_t i = 0; i < list->n; i++) {
        cr_status status = read_call_value(r, &list->u.items[i], &values[i]);
        if (status) return cr_error_context(status, "%s[%u]", field, i);
    }
    *out = values;
    *n = list->n;
    return CR_OK;
}

static cr_status read_call_entry(cr__reader *r, const cr_json *value, const cr_json *tuples, cr_module_call *call) {
    const cr_json *signature = cr_json_find(value, "signature");
    const char *fqn;
    CR_TRY(cr_json_get_string(value, "fqn", &fqn));
    CR_TRY(cr__keep_text(r, fqn, &call->fqn));
    if (!signature || signature->kind == CR_JSON_NULL) return CR_OK;
    CR_TRY(cr_json_get(value, "signature", CR_JSON_OBJECT, &signature));
    CR_TRY(read_spec(signature, "in_spec", tuples, &call->in_spec));
    CR_TRY(read_spec(signature, "out_spec", tuples, &call->out_spec));
    CR_TRY(read_call_values(r, signature, "inputs", &call->inputs, &call->ninputs));
    CR_TRY(read_call_values(r, signature, "outputs", &call->outputs, &call->noutputs));
    return read_arg_names(r, signature, call);
}

/* The root's specs have one leaf per user input and user output. */
cr_status cr__check_calls(const cr_program *p) {
    const cr_module_call *root = p->ncalls ? &p->calls[0] : NULL;
    size_t inputs = 0, outputs = 0;
    if (!root || !root->in_spec)
        return CR_FAIL(CR_EFORMAT, "module_call_graph: the first entry, of the program itself, has no signature");
    for (size_t i = 0; i < p->ninputs; i++) inputs += p->inputs[i].kind == CR_INPUT_USER;
    for (size_t i = 0; i < p->noutputs; i++)
        outputs += p->outputs[i].kind == CR_OUTPUT_USER || p->outputs[i].kind == CR_OUTPUT_LOSS;
    const cr_tree_node *in = cr_tree_root(root->in_spec);
    if (in->kind != CR_TREE_TUPLE || in->nchildren != 2)
        return CR_FAIL(CR_EFORMAT, "module_call_graph[0].signature.in_spec: it must describe (args, kwargs)");
    if (in->nleaves != inputs)
        return CR_FAIL(CR_EFORMAT, "module_call_graph[0].signature.in_spec: %u leaves for %zu user inputs", in->nleaves,
                       inputs);
    if (cr_tree_root(root->out_spec)->nleaves != outputs)
        return CR_FAIL(CR_EFORMAT, "module_call_graph[0].signature.out_spec: %u leaves for %zu user outputs",
                       cr_tree_root(root->out_spec)->nleaves, outputs);
    return CR_OK;
}

cr_status cr__read_calls(cr__reader *r, const cr_json *module) {
    const cr_json *calls, *tuples = cr_json_find(module, "treespec_namedtuple_fields");
    CR_TRY(cr_json_get(module, "module_call_graph", CR_JSON_ARRAY, &calls));
    cr_module_call *list = cr_arena_calloc(&r->p->arena, calls->n + 1u, sizeof *list);
    if (!list) return CR_ENOMEM;
    r->p->calls = list; /* specs read so far are released with the program */
    for (uint32_t i = 0; i < calls->n; i++) {
        r->p->ncalls = i + 1u;
        cr_status status = read_call_entry(r, &calls->u.items[i], tuples, &list[i]);
        if (status) return cr_error_context(status, "module_call_graph[%u]", i);
    }
    CR_TRY(cr__check_calls(r->p));
    r->p->in_spec = list[0].in_spec;
    r->p->out_spec = list[0].out_spec;
    return CR_OK;
}
