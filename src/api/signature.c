/* signature.c: a program's inputs and outputs, flat and by name.
 *
 * Inputs go by the names of their placeholders, in the order of the call structure's leaves; outputs are out0, out1,
 * ... in that order. A None or a text keeps its number, but array files do not get it. signature_library.c makes the
 * same of a compiled method's descriptions. */
#include "api/api.h"

#include "trace/tree.h"

static const struct {
    const char *word;
    int32_t kind;
} types[CR_T_COUNT] = {
    [CR_T_TENSOR] = { "tensor", CRESSET_TENSOR },
    [CR_T_SCALAR] = { "number", CRESSET_FLOAT },
    [CR_T_INT] = { "int", CRESSET_INT },
    [CR_T_FLOAT] = { "float", CRESSET_FLOAT },
    [CR_T_BOOL] = { "bool", CRESSET_BOOLEAN },
    [CR_T_STR] = { "str", CRESSET_STRING },
    [CR_T_DTYPE] = { "dtype", CRESSET_NONE },
    [CR_T_LAYOUT] = { "layout", CRESSET_NONE },
    [CR_T_DEVICE] = { "device", CRESSET_NONE },
    [CR_T_FORMAT] = { "memory_format", CRESSET_NONE },
    [CR_T_GENERATOR] = { "generator", CRESSET_NONE },
    [CR_T_GRAPH] = { "graph", CRESSET_NONE },
    [CR_T_ANY] = { "none", CRESSET_NONE },
};

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

/* ---- of a program ---- */

static void take_value(cr__slot *s, const cr_graph *g, uint32_t id) {
    const cr_value *v = cr_graph_value(g, id);
    s->type = v->type;
    s->meta = v->meta;
    s->expr = v->expr;
    if (!s->shown.name) s->shown.name = v->name;
}

static void take_constant(cr__slot *s, const cr_arg *a) {
    s->shown.is_constant = true;
    s->shown.constant = *a;
    s->type = constant_type(a);
}

static cr_status list_inputs(cr_signature *s, const cr_program *p) {
    s->inputs = cr_arena_calloc(&s->arena, p->ninputs + 1, sizeof *s->inputs);
    if (!s->inputs) return CR_ENOMEM;
    for (size_t i = 0; i < p->ninputs; i++) {
        const cr_input_spec *spec = &p->inputs[i];
        if (spec->kind != CR_INPUT_USER) continue;
        cr__slot *slot = &s->inputs[s->ninputs++];
        slot->shown.name = spec->name;
        uint32_t value = cr_graph_find(p->graph, spec->name);
        if (spec->is_constant) take_constant(slot, &spec->constant);
        else if (value != CR_NO_VALUE) take_value(slot, p->graph, value);
    }
    return CR_OK;
}

static cr_status list_outputs(cr_signature *s, const cr_program *p) {
    const cr_node *node = cr_graph_node(p->graph, cr_graph_output(p->graph));
    s->outputs = cr_arena_calloc(&s->arena, p->noutputs + 1, sizeof *s->outputs);
    if (!s->outputs) return CR_ENOMEM;
    for (size_t i = 0; i < p->noutputs && i < node->nargs; i++) {
        const cr_output_spec *spec = &p->outputs[i];
        if (spec->kind != CR_OUTPUT_USER && spec->kind != CR_OUTPUT_LOSS) continue;
        cr__slot *slot = &s->outputs[s->noutputs++];
        slot->shown.name = spec->name;
        if (node->args[i].kind == CR_ARG_VALUE) take_value(slot, p->graph, (uint32_t)node->args[i].u.i);
        else take_constant(slot, &node->args[i]);
    }
    return CR_OK;
}

/* What is taken: sizes that the archive says to be 1 or 2 and more, because they were traced so, serve 0 and 1, too. */
static cr_status list_symbols(cr_signature *s, const cr_program *p) {
    s->symbols = cr_arena_calloc(&s->arena, p->nranges + 1, sizeof *s->symbols);
    if (!s->symbols) return CR_ENOMEM;
    for (; s->nsymbols < p->nranges; s->nsymbols++) {
        const cr_symbol_range *r = &p->ranges[s->nsymbols];
        cr_sym symbol = cr_sym_find_symbol(s->env, r->symbol);
        cr_range range = symbol ? cr_sym_range(s->env, symbol) : r->range;
        s->symbols[s->nsymbols] = (cr_symbol){ r->symbol, range.lo, range.hi };
    }
    return CR_OK;
}

cr_status cr_program_signature(const cr_program *p, cr_signature **out) {
    cr_signature *s;
    CR_TRY(cr__signature_create(&s));
    cr_program_retain(s->program = (cr_program *)(uintptr_t)p);
    cr_env_retain(s->env = cr_graph_env(p->graph));
    cr_status status = list_inputs(s, p);
    if (!status) status = list_outputs(s, p);
    pthread_mutex_lock(cr__signature_lock(s));
    if (!status) status = list_symbols(s, p);
    if (!status) status = cr__signature_finish(s, p->in_spec, p->out_spec);
    pthread_mutex_unlock(cr__signature_lock(s));
    if (status) cr_signature_release(s);
    else *out = s;
    return status;
}

/* ---- of anything ---- */

cr_status cr__signature_create(cr_signature **out) {
    cr_signature *s = cr_calloc(1, sizeof *s);
    if (!s) return CR_ENOMEM;
    s->refs = 1;
    pthread_mutex_init(&s->lock, NULL);
    cr_arena_init(&s->arena);
    *out = s;
    return CR_OK;
}

/* A text as it was printed, kept. NULL: out of memory. */
static const char *keep(cr_signature *s, cr_str *text) {
    char *copy = text->failed ? NULL : cr_arena_strdup(&s->arena, cr_str_get(text));
    cr_str_dispose(text);
    return copy;
}

static cr_status show_dim(cr_signature *s, cr_sym e, cresset_dim *out) {
    cr_range r = { INT64_MIN, INT64_MAX };
    if (cr_sym_type_of(e) == CR_TYPE_INT) r = cr_sym_range(s->env, e);
    cr_str text;
    cr_str_init(&text);
    cr_sym_print(e, &text);
    *out = (cresset_dim){ keep(s, &text), r.lo, r.hi };
    return out->text ? CR_OK : CR_ENOMEM;
}

static cr_status show_dims(cr_signature *s, cr__slot *slot) {
    const cr_meta *m = slot->meta;
    cresset_dim *dims = cr_arena_calloc(&s->arena, m->rank + 1u, sizeof *dims);
    if (!dims) return CR_ENOMEM;
    slot->shown.dims = dims;
    slot->shown.dtype = m->dtype;
    slot->shown.rank = m->rank;
    slot->shown.type = cr_dtype_name(m->dtype);
    for (int i = 0; i < m->rank; i++) {
        cr_sym e = cr_dim_sym(s->env, m->size[i]);
        if (!e) return CR_ENOMEM;
        CR_TRY(show_dim(s, e, &dims[i]));
    }
    return CR_OK;
}

static cr_status show(cr_signature *s, cr__slot *slot) {
    cr_slot *shown = &slot->shown;
    shown->type = types[slot->type].word;
    shown->kind = types[slot->type].kind;
    shown->dtype = -1;
    shown->is_array = shown->is_constant ? cr_arg_is_number(&shown->constant)
                                         : slot->type != CR_T_ANY && slot->type != CR_T_STR;
    if (slot->type == CR_T_TENSOR && slot->meta) return show_dims(s, slot);
    if (!slot->expr) return CR_OK;
    cresset_dim *number = cr_arena_calloc(&s->arena, 1, sizeof *number);
    if (!number) return CR_ENOMEM;
    shown->number = number;
    return show_dim(s, slot->expr, number);
}

/* Where input or output i sits in the call, as Python reads it. */
static void add_path(const cr_tree *spec, bool output, size_t i, cr_str *out) {
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
    out->failed |= path.failed;
    cr_str_dispose(&path);
}

static cr_status finish_slots(cr_signature *s, cr__slot *slots, size_t n, bool outputs, const cr_tree *spec) {
    for (size_t i = 0; i < n; i++) {
        cr_slot *shown = &slots[i].shown;
        cr_str path;
        cr_str_init(&path);
        add_path(spec, outputs, i, &path);
        shown->path = keep(s, &path);
        shown->key = outputs ? cr_arena_printf(&s->arena, "out%zu", i) : shown->name;
        if (!shown->path || !shown->key) return CR_ENOMEM;
        if (!shown->name) shown->name = shown->key;
        CR_TRY(show(s, &slots[i]));
    }
    return CR_OK;
}

cr_status cr__signature_finish(cr_signature *s, const cr_tree *in_spec, const cr_tree *out_spec) {
    CR_TRY(finish_slots(s, s->inputs, s->ninputs, false, in_spec));
    return finish_slots(s, s->outputs, s->noutputs, true, out_spec);
}

void cr_signature_retain(cr_signature *s) { __atomic_add_fetch(&s->refs, 1, __ATOMIC_RELAXED); }

void cr_signature_release(cr_signature *s) {
    if (!s || __atomic_sub_fetch(&s->refs, 1, __ATOMIC_ACQ_REL)) return;
    cr_env_release(s->env);
    cr_program_release(s->program);
    cr_library_release(s->library);
    pthread_mutex_destroy(&s->lock);
    cr_arena_dispose(&s->arena);
    cr_free(s);
}

size_t cr_signature_input_count(const cr_signature *s) { return s->ninputs; }

size_t cr_signature_output_count(const cr_signature *s) { return s->noutputs; }

const cr_slot *cr_signature_input(const cr_signature *s, size_t i) {
    return i < s->ninputs ? &s->inputs[i].shown : NULL;
}

const cr_slot *cr_signature_output(const cr_signature *s, size_t i) {
    return i < s->noutputs ? &s->outputs[i].shown : NULL;
}

bool cr_signature_find(const cr_signature *s, const char *name, size_t *out) {
    for (size_t i = 0; i < s->ninputs; i++)
        if (!strcmp(s->inputs[i].shown.name, name)) return *out = i, true;
    return false;
}

size_t cr_signature_symbol_count(const cr_signature *s) { return s->nsymbols; }

const cr_symbol *cr_signature_symbol(const cr_signature *s, size_t i) {
    return i < s->nsymbols ? &s->symbols[i] : NULL;
}

void cr_slot_print_shape(const cr_slot *slot, cr_str *out) {
    if (!slot->dims) return;
    cr_str_addc(out, '[');
    for (int i = 0; i < slot->rank; i++) cr_str_addf(out, "%s%s", i ? ", " : "", slot->dims[i].text);
    cr_str_addc(out, ']');
}

void cr__range_print(cr_range range, cr_str *out) {
    bool lo = range.lo > INT64_MIN, hi = range.hi < INT64_MAX;
    if (lo && hi) cr_str_addf(out, "%lld to %lld", (long long)range.lo, (long long)range.hi);
    else if (lo) cr_str_addf(out, "at least %lld", (long long)range.lo);
    else if (hi) cr_str_addf(out, "at most %lld", (long long)range.hi);
    else cr_str_add(out, "any");
}
