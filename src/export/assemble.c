/* assemble.c: a program from a graph and what is known about it.
 *
 * The builder copies: texts and arrays go to the program's arena, tensors, specs and the graph are retained. What it
 * makes has passed the same checks as a program from an archive, so that nothing later asks where a program came
 * from. */
#include "export/internal.h"

#include <stdio.h>

static cr_status keep(cr_program *p, const char *text, const char **out) {
    *out = text ? cr_arena_strdup(&p->arena, text) : NULL;
    return text && !*out ? CR_ENOMEM : CR_OK;
}

/* Texts and lists are the program's own; tensors get a reference. */
static cr_status keep_arg(cr_program *p, const cr_arg *from, cr_arg *to) {
    *to = *from;
    if (from->kind == CR_ARG_TENSOR) cr_tensor_retain(from->u.t);
    if (from->kind == CR_ARG_STR && !(to->u.s = cr_arena_strndup(&p->arena, from->u.s, from->n))) return CR_ENOMEM;
    if (from->kind == CR_ARG_COMPLEX) {
        double *parts = cr_arena_alloc(&p->arena, 2 * sizeof *parts);
        if (!parts) return CR_ENOMEM;
        memcpy(parts, from->u.c, 2 * sizeof *parts);
        to->u.c = parts;
    }
    return from->kind == CR_ARG_LIST ? CR_FAIL(CR_ETYPE, "an input that is a list must be flattened first") : CR_OK;
}

/* ---- signature ---- */

/* Whoever has an input's name now steps aside; calls get their names afterwards. */
static cr_status free_name(cr_graph *g, const char *name, uint32_t owner) {
    char aside[32];
    uint32_t holder = cr_graph_find(g, name);
    if (holder == CR_NO_VALUE || holder == owner) return CR_OK;
    snprintf(aside, sizeof aside, "__aside_%u", holder);
    return cr_graph_rename(g, holder, aside);
}

/* Is the value an input in front of the node? */
static bool is_done(const cr_graph *g, uint32_t value, uint32_t node) {
    for (uint32_t n = cr_graph_first(g); n != node; n = cr_graph_next(g, n))
        if (cr_graph_node(g, n)->first == value) return true;
    return false;
}

static cr_status build_inputs(cr_program *p, const cr_program_parts *parts) {
    cr_input_spec *specs = cr_arena_calloc(&p->arena, parts->ninputs + 1, sizeof *specs);
    if (!specs) return CR_ENOMEM;
    size_t i = 0;
    for (uint32_t n = cr_graph_first(p->graph);
         n != CR_NO_NODE && cr_graph_node(p->graph, n)->kind == CR_NODE_PLACEHOLDER;
         n = cr_graph_next(p->graph, n), i++) {
        if (i == parts->ninputs)
            return CR_FAIL(CR_EVALUE, "the graph has more inputs than the %zu of the signature", parts->ninputs);
        const cr_input_spec *from = &parts->inputs[i];
        uint32_t value = cr_graph_node(p->graph, n)->first;
        specs[i] = *from;
        uint32_t holder = from->name ? cr_graph_find(p->graph, from->name) : CR_NO_VALUE;
        if (holder != CR_NO_VALUE && holder != value && is_done(p->graph, holder, n))
            return CR_FAIL(CR_EVALUE, "two inputs of the program are named '%s'", from->name);
        if (from->name) {
            CR_TRY(free_name(p->graph, from->name, value));
            CR_TRY(cr_graph_rename(p->graph, value, from->name));
            CR_TRY(cr_graph_set_target(p->graph, n, from->name));
        }
        CR_TRY(keep(p, cr_graph_value(p->graph, value)->name, &specs[i].name));
        CR_TRY(keep(p, from->target, &specs[i].target));
        if (from->is_constant) CR_TRY(keep_arg(p, &from->constant, &specs[i].constant));
    }
    if (i != parts->ninputs)
        return CR_FAIL(CR_EVALUE, "the signature has %zu inputs, the graph has %zu", parts->ninputs, i);
    p->inputs = specs;
    p->ninputs = i;
    return CR_OK;
}

static cr_status build_outputs(cr_program *p, const cr_program_parts *parts) {
    uint32_t at = cr_graph_output(p->graph);
    if (at == CR_NO_NODE) return CR_FAIL(CR_EVALUE, "the graph has no outputs yet");
    const cr_node *output = cr_graph_node(p->graph, at);
    if (output->nargs != parts->noutputs)
        return CR_FAIL(CR_EVALUE, "the signature has %zu outputs, the graph has %d", parts->noutputs, output->nargs);
    cr_output_spec *specs = cr_arena_calloc(&p->arena, parts->noutputs + 1, sizeof *specs);
    if (!specs) return CR_ENOMEM;
    for (size_t i = 0; i < parts->noutputs; i++) {
        const cr_arg *a = &output->args[i];
        specs[i].kind = parts->outputs[i].kind;
        if (a->kind == CR_ARG_VALUE) CR_TRY(keep(p, cr__shown_name(p->graph, (uint32_t)a->u.i), &specs[i].name));
        CR_TRY(keep(p, parts->outputs[i].target, &specs[i].target));
    }
    p->outputs = specs;
    p->noutputs = parts->noutputs;
    return CR_OK;
}

/* ---- the rest ---- */

/* *n counts up with the tensors that are retained, for the release of a program that was not finished. */
static cr_status build_tensors(cr_program *p, const cr_named_tensor *from, size_t count, const cr_named_tensor **out,
                               size_t *n) {
    cr_named_tensor *list = cr_arena_calloc(&p->arena, count + 1, sizeof *list);
    if (!list) return CR_ENOMEM;
    *out = list;
    for (size_t i = 0; i < count; i++) {
        list[i] = from[i];
        CR_TRY(keep(p, from[i].name, &list[i].name));
        cr_tensor_retain(from[i].tensor);
        ++*n;
        if (cr_map_find_str(&p->names, list[i].name, NULL))
            return CR_FAIL(CR_EVALUE, "two tensors of the program are named '%s'", list[i].name);
        CR_TRY(cr_map_put_str(&p->names, list[i].name, (uint64_t)(uintptr_t)&list[i]));
    }
    return CR_OK;
}

static cr_status build_ranges(cr_program *p, const cr_program_parts *parts) {
    cr_symbol_range *ranges = cr_arena_calloc(&p->arena, parts->nranges + 1, sizeof *ranges);
    const char **guards = cr_arena_calloc(&p->arena, parts->nguards + 1, sizeof *guards);
    if (!ranges || !guards) return CR_ENOMEM;
    for (size_t i = 0; i < parts->nranges; i++) {
        ranges[i] = parts->ranges[i];
        CR_TRY(keep(p, parts->ranges[i].symbol, &ranges[i].symbol));
        /* A size that was 2 or more while it was recorded may be 1 when the user said so. */
        cr_env_declare(cr_graph_env(p->graph), cr_sym_find_symbol(cr_graph_env(p->graph), ranges[i].symbol),
                       ranges[i].range.lo, ranges[i].range.hi);
    }
    for (size_t i = 0; i < parts->nguards; i++) CR_TRY(keep(p, parts->guards[i], &guards[i]));
    p->ranges = ranges;
    p->nranges = parts->nranges;
    p->guards = guards;
    p->nguards = parts->nguards;
    return cr__open_sizes(p);
}

/* A constant that is a value of the graph becomes its name. */
static cr_status build_call_values(cr_program *p, const cr_call_value *from, size_t n, const cr_call_value **out,
                                   size_t *count) {
    if (!n) return CR_OK;
    cr_call_value *values = cr_arena_calloc(&p->arena, n, sizeof *values);
    if (!values) return CR_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        const cr_arg *a = &from[i].constant;
        values[i] = from[i];
        if (!from[i].name && a->kind == CR_ARG_VALUE) {
            const cr_value *v = cr_graph_value(p->graph, cr__shown_value(p->graph, (uint32_t)a->u.i));
            CR_TRY(keep(p, v->name, &values[i].name));
            values[i].type = v->type;
            values[i].constant = cr_arg_none();
        } else if (from[i].name) {
            CR_TRY(keep(p, from[i].name, &values[i].name));
        } else {
            CR_TRY(keep_arg(p, a, &values[i].constant));
        }
    }
    *out = values;
    *count = n;
    return CR_OK;
}

static cr_status build_call(cr_program *p, const cr_module_call *from, cr_module_call *to) {
    const char **names = cr_arena_calloc(&p->arena, from->nnames + 1, sizeof *names);
    if (!names) return CR_ENOMEM;
    CR_TRY(keep(p, from->fqn, &to->fqn));
    for (size_t i = 0; i < from->nnames; i++) CR_TRY(keep(p, from->forward_arg_names[i], &names[i]));
    CR_TRY(build_call_values(p, from->inputs, from->ninputs, &to->inputs, &to->ninputs));
    CR_TRY(build_call_values(p, from->outputs, from->noutputs, &to->outputs, &to->noutputs));
    to->forward_arg_names = from->forward_arg_names ? names : NULL;
    to->nnames = from->nnames;
    if (from->in_spec) cr_tree_retain(to->in_spec = from->in_spec);
    if (from->out_spec) cr_tree_retain(to->out_spec = from->out_spec);
    return CR_OK;
}

static cr_status build_calls(cr_program *p, const cr_program_parts *parts) {
    cr_module_call *calls = cr_arena_calloc(&p->arena, parts->ncalls + 1, sizeof *calls);
    if (!calls) return CR_ENOMEM;
    p->calls = calls;
    for (size_t i = 0; i < parts->ncalls; i++) {
        p->ncalls = i + 1;
        CR_TRY(build_call(p, &parts->calls[i], &calls[i]));
    }
    CR_TRY(cr__check_calls(p));
    p->in_spec = calls[0].in_spec;
    p->out_spec = calls[0].out_spec;
    return CR_OK;
}

static cr_status build_example(cr_program *p, const cr_program_parts *parts) {
    cr_arg *example = cr_arena_calloc(&p->arena, parts->nexample + 1, sizeof *example);
    if (!example) return CR_ENOMEM;
    p->example = example;
    for (size_t i = 0; i < parts->nexample; i++) {
        CR_TRY(keep_arg(p, &parts->example[i], &example[i]));
        p->nexample = i + 1;
    }
    return CR_OK;
}

static cr_status build(cr_program *p, const cr_program_parts *parts) {
    cr_graph_release(p->graph);
    cr_graph_retain(p->graph = parts->graph);
    CR_TRY(keep(p, parts->name ? parts->name : "model", &p->name));
    CR_TRY(keep(p, parts->dialect ? parts->dialect : "TRAINING", &p->dialect));
    CR_TRY(keep(p, parts->torch_version ? parts->torch_version : "", &p->torch_version));
    p->schema_major = 8, p->schema_minor = 20, p->opset = 10;
    CR_TRY(build_inputs(p, parts));
    if (!(parts->flags & CR_BUILD_KEEP_NAMES)) CR_TRY(cr__name_values(p->graph, parts->names));
    CR_TRY(build_outputs(p, parts));
    CR_TRY(build_tensors(p, parts->state, parts->nstate, &p->state, &p->nstate));
    CR_TRY(build_tensors(p, parts->constants, parts->nconstants, &p->constants, &p->nconstants));
    CR_TRY(build_ranges(p, parts));
    CR_TRY(build_calls(p, parts));
    CR_TRY(build_example(p, parts));
    CR_TRY(cr__check_signature(p));
    return cr__check_state(p);
}

cr_status cr_program_build(const cr_program_parts *parts, cr_program **out) {
    cr_program *p;
    CR_TRY(cr__program_create(&p));
    cr_status status = build(p, parts);
    if (status) cr_program_release(p);
    else *out = p;
    return status;
}
