/* pt2_write_signature.c: specs of inputs and outputs and the call structure, as the PT2 schema writes them; the other
 * half of signature.c. */
#include "export/pt2_write.h"

/* ---- specs ---- */

static const struct { const char *key, *target; } input_rows[] = {
    [CR_INPUT_USER] = { "user_input", NULL },
    [CR_INPUT_PARAMETER] = { "parameter", "parameter_name" },
    [CR_INPUT_BUFFER] = { "buffer", "buffer_name" },
    [CR_INPUT_TENSOR_CONSTANT] = { "tensor_constant", "tensor_constant_name" },
    [CR_INPUT_CUSTOM_OBJECT] = { "custom_obj", "custom_obj_name" },
    [CR_INPUT_TOKEN] = { "token", NULL },
};
static const struct { const char *key, *target; } output_rows[] = {
    [CR_OUTPUT_USER] = { "user_output", NULL },
    [CR_OUTPUT_LOSS] = { "loss_output", NULL },
    [CR_OUTPUT_BUFFER_MUTATION] = { "buffer_mutation", "buffer_name" },
    [CR_OUTPUT_PARAMETER_MUTATION] = { "parameter_mutation", "parameter_name" },
    [CR_OUTPUT_INPUT_MUTATION] = { "user_input_mutation", "user_input_name" },
    [CR_OUTPUT_GRADIENT_TO_PARAMETER] = { "gradient_to_parameter", "parameter_name" },
    [CR_OUTPUT_GRADIENT_TO_INPUT] = { "gradient_to_user_input", "user_input_name" },
    [CR_OUTPUT_TOKEN] = { "token", NULL },
};

static void write_plain_arg(cr_json_writer *j, const char *name) {
    cr_json_open(j, '{');
    cr__put_text(j, "name", name ? name : "");
    cr_json_close(j, '}');
}

static void write_constant_input(cr__pt2_writer *w, const cr_input_spec *spec) {
    cr_json_writer *j = &w->j;
    cr_json_key(j, "constant_input");
    cr_json_open(j, '{');
    cr__put_text(j, "name", spec->name ? spec->name : "");
    cr_json_key(j, "value");
    cr__write_constant(w, &spec->constant);
    cr_json_close(j, '}');
}

static void write_input_spec(cr__pt2_writer *w, const cr_input_spec *spec, const cr_value *value) {
    cr_json_writer *j = &w->j;
    const char *target = input_rows[spec->kind].target;
    cr_json_open(j, '{');
    if (spec->is_constant) {
        write_constant_input(w, spec);
    } else {
        cr_json_key(j, input_rows[spec->kind].key);
        cr_json_open(j, '{');
        cr_json_key(j, "arg");
        if (spec->kind == CR_INPUT_USER) cr__write_named(w, (cr_type)value->type, value->name);
        else write_plain_arg(j, spec->name);
        if (target) cr__put_text(j, target, spec->target ? spec->target : "");
        if (spec->kind == CR_INPUT_BUFFER) cr__put_bool(j, "persistent", spec->persistent);
        cr_json_close(j, '}');
    }
    cr_json_close(j, '}');
}

/* PyTorch's reader knows no bools in signatures; it takes the name alone from there, and a bool is an int. */
static void write_signed(cr__pt2_writer *w, cr_type type, const char *name) {
    cr__write_named(w, type == CR_T_BOOL ? CR_T_INT : type, name);
}

static void write_output_spec(cr__pt2_writer *w, const cr_output_spec *spec, const cr_arg *arg) {
    cr_json_writer *j = &w->j;
    const char *target = output_rows[spec->kind].target;
    cr_json_open(j, '{');
    cr_json_key(j, output_rows[spec->kind].key);
    cr_json_open(j, '{');
    cr_json_key(j, "arg");
    if (spec->kind != CR_OUTPUT_USER) write_plain_arg(j, spec->name);
    else if (arg->kind != CR_ARG_VALUE) cr__write_constant(w, arg);
    else
        write_signed(w, (cr_type)cr_graph_value(w->p->graph, (uint32_t)arg->u.i)->type,
                     cr__archive_name(w->p->graph, (uint32_t)arg->u.i));
    if (target) cr__put_text(j, target, spec->target ? spec->target : "");
    cr_json_close(j, '}');
    cr_json_close(j, '}');
}

void cr__write_signature(cr__pt2_writer *w) {
    const cr_program *p = w->p;
    const cr_graph *g = p->graph;
    cr_json_writer *j = &w->j;
    size_t i = 0;
    cr_json_open(j, '{');
    cr_json_key(j, "input_specs");
    cr_json_open(j, '[');
    for (uint32_t n = cr_graph_first(g);
         n != CR_NO_NODE && i < p->ninputs && cr_graph_node(g, n)->kind == CR_NODE_PLACEHOLDER;
         n = cr_graph_next(g, n), i++)
        write_input_spec(w, &p->inputs[i], cr_graph_value(g, cr_graph_node(g, n)->first));
    cr_json_close(j, ']');
    cr_json_key(j, "output_specs");
    cr_json_open(j, '[');
    const cr_node *output = cr_graph_node(g, cr_graph_output(g));
    for (i = 0; i < p->noutputs && i < output->nargs; i++) write_output_spec(w, &p->outputs[i], &output->args[i]);
    cr_json_close(j, ']');
    cr_json_close(j, '}');
}

/* ---- calls ---- */

static void write_tree(cr__pt2_writer *w, const char *key, const cr_tree *t) {
    cr_str text;
    cr_str_init(&text);
    cr_tree_print(t, &text);
    if (cr_str_status(&text)) cr__writer_fail(w, cr_str_status(&text));
    cr__put_text(&w->j, key, cr_str_get(&text));
    cr_str_dispose(&text);
}

static void write_call_values(cr__pt2_writer *w, const char *key, const cr_call_value *at, size_t n) {
    cr_json_key(&w->j, key);
    cr_json_open(&w->j, '[');
    for (size_t i = 0; i < n; i++) {
        if (at[i].name) write_signed(w, (cr_type)at[i].type, at[i].name);
        else cr__write_constant(w, &at[i].constant);
    }
    cr_json_close(&w->j, ']');
}

static void write_call(cr__pt2_writer *w, const cr_module_call *call) {
    cr_json_writer *j = &w->j;
    cr_json_open(j, '{');
    cr__put_text(j, "fqn", call->fqn);
    cr_json_key(j, "signature");
    if (!call->in_spec || !call->out_spec) {
        cr_json_null(j);
    } else {
        cr_json_open(j, '{');
        write_call_values(w, "inputs", call->inputs, call->ninputs);
        write_call_values(w, "outputs", call->outputs, call->noutputs);
        write_tree(w, "in_spec", call->in_spec);
        write_tree(w, "out_spec", call->out_spec);
        cr_json_key(j, "forward_arg_names");
        if (!call->forward_arg_names) {
            cr_json_null(j);
        } else {
            cr_json_open(j, '[');
            for (size_t i = 0; i < call->nnames; i++)
                cr_json_string(j, call->forward_arg_names[i], strlen(call->forward_arg_names[i]));
            cr_json_close(j, ']');
        }
        cr_json_close(j, '}');
    }
    cr_json_close(j, '}');
}

void cr__write_calls(cr__pt2_writer *w) {
    cr_json_open(&w->j, '[');
    for (size_t i = 0; i < w->p->ncalls; i++) write_call(w, &w->p->calls[i]);
    cr_json_close(&w->j, ']');
}

/* ---- named tuples ---- */

static void write_fields(cr__pt2_writer *w, const cr_tree_node *node, cr_map *seen) {
    cr_json_writer *j = &w->j;
    if (node->kind == CR_TREE_NAMEDTUPLE && node->keys && node->name && !cr_map_find_str(seen, node->name, NULL)) {
        cr_status status = cr_map_put_str(seen, node->name, 1);
        if (status) cr__writer_fail(w, status);
        cr_json_key(j, node->name);
        cr_json_open(j, '{');
        cr_json_key(j, "field_names");
        cr_json_open(j, '[');
        for (uint32_t i = 0; i < node->nchildren; i++)
            if (node->keys[i].s) cr_json_string(j, node->keys[i].s, strlen(node->keys[i].s));
        cr_json_close(j, ']');
        cr_json_close(j, '}');
    }
    for (uint32_t i = 0; i < node->nchildren; i++) write_fields(w, &node->children[i], seen);
}

void cr__write_tuple_fields(cr__pt2_writer *w) {
    cr_map seen;
    cr_map_init(&seen);
    cr_json_open(&w->j, '{');
    for (size_t i = 0; i < w->p->ncalls; i++) {
        if (w->p->calls[i].in_spec) write_fields(w, cr_tree_root(w->p->calls[i].in_spec), &seen);
        if (w->p->calls[i].out_spec) write_fields(w, cr_tree_root(w->p->calls[i].out_spec), &seen);
    }
    cr_json_close(&w->j, '}');
    cr_map_dispose(&seen);
}
