/* verify.c: compiled code against the interpreter, on the same inputs.
 *
 * Both sides run on copies of one set of inputs, twice where the program keeps state. When an output differs,
 * prefixes of the program (cr_program_prefix) are compiled and compared in turn, halving the stretch in which the
 * first wrong node lies. An error counts as too large in relation to the largest value of its output, because sums
 * are taken in another order. */
#include "api/api.h"

#include <math.h>

/* ---- one output ---- */

/* kind: NULL, or what differs besides numbers. */
typedef struct difference {
    double error, scale, allowed;
    bool large;
    const char *kind;
} difference;

static double allowance(int dtype) {
    switch (dtype) {
    case RT_F64:
    case RT_C128: return 1e-9;
    case RT_F32:
    case RT_C64: return 1e-4;
    case RT_F16:
    case RT_C32: return 2e-2;
    case RT_BF16: return 5e-2;
    default: return rt_is_float(dtype) ? 0.25 : 0; /* float8; integers and bools are exact */
    }
}

/* The elements as doubles (two each when complex), row-major. Free with cr_free. */
static cr_status to_doubles(const cr_tensor *t, double **out, int64_t *n) {
    bool complex = rt_is_complex(t->meta.dtype);
    *n = cr_tensor_numel(t) * (complex ? 2 : 1);
    *out = cr_alloc(((size_t)*n + 1) * sizeof **out);
    if (!*out) return CR_ENOMEM;
    cr_status status = cr_tensor_read(t, complex ? CR_C128 : CR_F64, *out, (size_t)*n * sizeof **out);
    if (status) cr_free(*out), *out = NULL;
    return status;
}

static cr_status compare_tensors(const cr_tensor *have, const cr_tensor *want, difference *d) {
    double *a = NULL, *b = NULL;
    int64_t n, other;
    if (!cr__same_shape(&have->meta, &want->meta))
        return *d = (difference){ .large = true, .kind = "its dtype or shape" }, CR_OK;
    CR_TRY(to_doubles(have, &a, &other));
    cr_status status = to_doubles(want, &b, &n);
    *d = (difference){ .allowed = 0 };
    for (int64_t i = 0; i < n && !status; i++) {
        if (isfinite(b[i])) d->scale = fmax(d->scale, fabs(b[i]));
        if (a[i] == b[i] || (isnan(a[i]) && isnan(b[i]))) continue;
        if (!isfinite(a[i]) || !isfinite(b[i])) d->large = true, d->kind = "where it is NaN or infinite";
        else d->error = fmax(d->error, fabs(a[i] - b[i]));
    }
    d->allowed = allowance(want->meta.dtype) * d->scale;
    d->large |= d->error > d->allowed;
    cr_free(a);
    cr_free(b);
    return status;
}

static double number_of(const cr_arg *a) {
    rt_scalar x = cr_arg_scalar(a);
    return x.kind == RT_ARG_INT ? (double)x.i : x.f;
}

static bool is_real_number(const cr_arg *a) { return cr_arg_is_number(a) && a->kind != CR_ARG_COMPLEX; }

static cr_status compare(const cr_arg *have, const cr_arg *want, difference *d) {
    *d = (difference){ .allowed = 0 };
    if (have->kind == CR_ARG_TENSOR && want->kind == CR_ARG_TENSOR) return compare_tensors(have->u.t, want->u.t, d);
    if (is_real_number(have) && is_real_number(want)) {
        double a = number_of(have), b = number_of(want);
        bool same = a == b || (isnan(a) && isnan(b));
        d->scale = fabs(b);
        d->error = same ? 0 : fabs(a - b);
        d->allowed = want->kind == CR_ARG_FLOAT ? 1e-9 * fabs(b) : 0;
        d->large = !same && !(d->error <= d->allowed);
    } else if (have->kind != want->kind) {
        d->large = true, d->kind = "its kind";
    }
    return CR_OK;
}

/* ---- one program, both ways ---- */

typedef struct set {
    const cr_arg *args;
    size_t n;
} set;
typedef struct trial {
    cr_program *program;
    cr_native *native;
    int32_t method;
    cr_module *module;
    difference *found; /* one per output: the worst of all calls */
    size_t n;
    bool large;
} trial;

static void trial_dispose(trial *t) {
    cr_module_release(t->module);
    cr_native_release(t->native);
    cr_free(t->found);
}

static cr_status trial_init(trial *t, cr_program *p, cr_library *library, int32_t method) {
    *t = (trial){ .program = p, .method = method };
    cr_status status = cr_native_create(library, cr_num_threads(), NULL, &t->native);
    if (!status) status = cr_module_create(p, CR_MODULE_OWN_STATE, &t->module);
    if (!status) {
        t->n = cr_module_result_count(t->module);
        t->found = cr_calloc(t->n + 1, sizeof *t->found);
        if (!t->found) status = CR_ENOMEM;
    }
    if (status) trial_dispose(t);
    return status;
}

/* Tensors are copied; release with cr_results_release. */
static cr_status copy_args(const set *from, cr_arg *out) {
    for (size_t i = 0; i < from->n; i++) {
        cr_arg args[] = { from->args[i], cr_arg_none() };
        if (args[0].kind != CR_ARG_TENSOR) out[i] = args[0];
        else CR_TRY(cr_op_call("aten::clone", args, 1, NULL, 0, CR_CALL_REAL, &out[i], 1));
    }
    return CR_OK;
}

static void keep_worst(trial *t, size_t i, const difference *d) {
    const difference *old = &t->found[i];
    if (d->large > old->large || (d->large == old->large && d->error >= old->error)) t->found[i] = *d;
    t->large |= d->large;
}

static cr_status compare_all(trial *t, const cr_arg *have, const cr_arg *want) {
    for (size_t i = 0; i < t->n; i++) {
        difference d;
        CR_TRY(compare(&have[i], &want[i], &d));
        keep_worst(t, i, &d);
    }
    return CR_OK;
}

/* Copies are released as results are: numbers, texts and constants of the inputs are nobody's. */
static void release_args(cr_arg *args, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (args[i].kind == CR_ARG_TENSOR) cr_tensor_release(args[i].u.t);
}

static cr_status call_once(trial *t, const set *inputs, uint64_t seed) {
    size_t n = inputs->n;
    cr_arg *all = cr_calloc(2 * (t->n + n) + 1, sizeof *all), *have = all, *want = have + t->n, *a = want + t->n,
           *b = a + n;
    if (!all) return CR_ENOMEM;
    cr_status status = copy_args(inputs, a);
    if (!status) status = copy_args(inputs, b);
    cr_native_seed(t->native, seed);
    cr_manual_seed(seed);
    if (!status) status = cr_module_run(t->module, b, n, want, t->n);
    if (!status) {
        status = cr_native_run(t->native, t->method, a, n, have, t->n);
        if (!status) {
            status = compare_all(t, have, want);
            cr_results_release(have, t->n);
        }
        cr_results_release(want, t->n);
    }
    release_args(a, 2 * n);
    cr_free(all);
    return status;
}

static cr_status trial_run(trial *t, const set *inputs) {
    int calls = cr_module_is_stateful(t->module) ? 2 : 1;
    cr_status status = CR_OK;
    for (int i = 0; i < calls && !status; i++) status = call_once(t, inputs, 20 + (uint64_t)i);
    return status;
}

/* ---- where ---- */

typedef struct search {
    cr_program *program;
    const set *inputs;
    cr_compile_options options; /* of the prefixes; nobody watches their passes */
    const cr_compile_options *given;
    CR_VEC(uint32_t) nodes;
} search;

/* Does the program that ends at the node differ? */
static cr_status try_prefix(const search *s, uint32_t node, bool *differs) {
    cr_program *part = NULL;
    cr_library *library = NULL;
    trial t;
    CR_TRY(cr_program_prefix(s->program, node, &part));
    cr_status status = cr_compile_load(&part, 1, &s->options, &library);
    if (!status && !(status = trial_init(&t, part, library, 0))) {
        status = trial_run(&t, s->inputs);
        *differs = t.large;
        trial_dispose(&t);
    }
    cr_library_release(library);
    cr_program_release(part);
    return status;
}

static cr_status tell_search(const search *s, size_t left) {
    cr_progress p = {
        .struct_size = sizeof p, .stage = CR_STAGE_SEARCH, .what = "", .left = left, .total = s->nodes.n
    };
    return s->given->progress ? s->given->progress(s->given->user, &p) : CR_OK;
}

/* The first node that differs, found by halving; CR_NO_NODE: none does by itself. */
static cr_status find_node(search *s, uint32_t *out) {
    const cr_graph *g = s->program->graph;
    for (uint32_t n = cr_graph_first(g); n != CR_NO_NODE; n = cr_graph_next(g, n))
        if (cr_program_can_end_at(s->program, n)) CR_TRY(cr_vec_push(&s->nodes, n));
    size_t low = 0, high = s->nodes.n; /* all before `low` agree; `high` differs, or is the end */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        bool differs = false;
        CR_TRY(tell_search(s, high - low));
        CR_TRY(try_prefix(s, s->nodes.at[middle], &differs));
        if (differs) high = middle;
        else low = middle + 1;
    }
    *out = high < s->nodes.n ? s->nodes.at[high] : CR_NO_NODE;
    return CR_OK;
}

static void add_node(const cr_program *p, uint32_t id, cr_str *out) {
    if (id == CR_NO_NODE) {
        cr_str_add(out, "no node differs by itself, so it arises where steps are combined");
        return;
    }
    const cr_node *node = cr_graph_node(p->graph, id);
    cr_str_addf(out, "the first node that differs is %%%s = %s", cr_graph_value(p->graph, node->first)->name,
                cr__node_op_name(node));
    cr_str source;
    cr_str_init(&source);
    if (cr__node_source(node, &source)) cr_str_addf(out, " at %s", cr_str_get(&source));
    out->failed |= source.failed;
    cr_str_dispose(&source);
}

static cr_status refuse(const trial *t, const set *inputs, const cr_compile_options *options) {
    search s = { .program = t->program, .inputs = inputs, .options = *options, .given = options };
    uint32_t node = CR_NO_NODE;
    size_t i = 0;
    while (i + 1 < t->n && !t->found[i].large) i++;
    const difference *d = &t->found[i];
    s.options.struct_size = sizeof s.options;
    s.options.progress = NULL;
    s.options.methods = NULL;
    cr_status status = find_node(&s, &node);
    cr_vec_dispose(&s.nodes);
    CR_TRY(status);
    cr_str where;
    cr_str_init(&where);
    add_node(t->program, node, &where);
    const char *text = cr_str_get(&where);
    if (d->kind)
        status = CR_FAIL(CR_ERUNTIME,
                         "out%zu of the library differs from the interpreter's in %s: %s; please report it with "
                         "the archive",
                         i, d->kind, text);
    else
        status = CR_FAIL(CR_ERUNTIME,
                         "out%zu of the library differs from the interpreter's by %.3g, and at most %.3g is "
                         "expected: %s; please report it with the archive",
                         i, d->error, d->allowed, text);
    cr_str_dispose(&where);
    return status;
}

/* ---- the whole ---- */

static void add_outputs(const trial *t, const cr_signature *sig, cr_str *out) {
    for (size_t i = 0; i < t->n; i++) {
        const difference *d = &t->found[i];
        const cr_slot *slot = cr_signature_output(sig, i);
        cr_str_addf(out, "  out%zu  ", i);
        if (d->kind) cr_str_addf(out, "differs in %s", d->kind);
        else
            cr_str_addf(out, "largest error %.3g, values up to %.3g%s", d->error, d->scale,
                        d->large ? ": too large" : "");
        cr_str_addf(out, "  %%%s\n", slot ? slot->name : "");
    }
}

static cr_status verify(cr_program *p, cr_library *lib, int32_t method, const cr_compile_options *o, cr_signature *sig,
                        cr_inputs *in, cr_str *report) {
    set inputs;
    trial t;
    bool example = cr_program_has_example(p);
    CR_TRY(example ? cr_inputs_set_example(in, p) : cr_inputs_set_random(in, p, 0));
    CR_TRY(cr_inputs_args(in, &inputs.args, &inputs.n));
    cr_progress now = { .struct_size = sizeof now, .stage = CR_STAGE_COMPARE, .what = "" };
    if (o->progress) CR_TRY(o->progress(o->user, &now));
    CR_TRY(trial_init(&t, p, lib, method));
    cr_status status = trial_run(&t, &inputs);
    if (!status) {
        cr_str_addf(report, "against the interpreter, on %s inputs:\n", example ? "the example" : "random");
        add_outputs(&t, sig, report);
        if (t.large) status = refuse(&t, &inputs, o);
    }
    trial_dispose(&t);
    return status;
}

cr_status cr_compile_verify(cr_program *p, cr_library *lib, int32_t method, const cr_compile_options *options,
                            cr_str *report) {
    cr_compile_options o;
    cr_signature *sig = NULL;
    cr_inputs *in = NULL;
    CR_TRY(cr_options_read("cr_compile_options", options, &o, sizeof o));
    cr_status status = cr_program_signature(p, &sig);
    if (!status) status = cr_inputs_create(sig, &in);
    if (!status) status = verify(p, lib, method, &o, sig, in, report);
    cr_inputs_release(in);
    cr_signature_release(sig);
    return status;
}
