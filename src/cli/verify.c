/* verify.c: `cresset compile --verify`.
 *
 * Both sides run on copies of one set of inputs, twice where the program keeps state. When an output differs, prefixes
 * of the program (cr_program_prefix) are compiled and compared in turn, halving the stretch in which the first wrong
 * node lies. An error counts as too large in relation to the largest value of its output, because sums are taken in
 * another order. */
#include "cli/verify.h"

#include "runtime/rt_random.h"

#include <math.h>

/* ---- one output ---- */

/* kind: NULL, or what differs besides numbers */
typedef struct difference { double error, scale, allowed; bool large; const char *kind; } difference;

static double allowance(int dtype) {
    switch (dtype) {
    case RT_F64: case RT_C128: return 1e-9;
    case RT_F32: case RT_C64: return 1e-4;
    case RT_F16: case RT_C32: return 2e-2;
    case RT_BF16: return 5e-2;
    default: return rt_is_float(dtype) ? 0.25 : 0; /* float8; integers and bools are exact */
    }
}

/* The elements as doubles (two each when complex), row-major. Free with cr_free. */
static cr_status to_doubles(const cr_tensor *t, double **out, int64_t *n) {
    char error[256] = "";
    rt_ctx ctx = cr_kernel_ctx(error, sizeof error);
    rt_view from = cr_tensor_view(t);
    bool complex = rt_is_complex(from.dtype);
    *n = rt_numel(&from) * (complex ? 2 : 1);
    *out = cr_alloc(((size_t)*n + 1) * sizeof **out);
    if (!*out) return CR_ENOMEM;
    rt_view to = rt_view_contiguous(*out, complex ? RT_C128 : RT_F64, from.rank, from.size);
    if (!*n || !rt_copy(&ctx, &to, &from)) return CR_OK;
    cr_free(*out);
    return CR_FAIL(CR_ERUNTIME, "%s", error);
}

static bool same_shape(const cr_tensor *a, const cr_tensor *b) {
    bool same = a->meta.dtype == b->meta.dtype && a->meta.rank == b->meta.rank;
    for (int d = 0; same && d < a->meta.rank; d++) same = a->meta.size[d] == b->meta.size[d];
    return same;
}

static cr_status compare_tensors(const cr_tensor *have, const cr_tensor *want, difference *d) {
    double *a = NULL, *b = NULL;
    int64_t n, other;
    if (!same_shape(have, want)) return *d = (difference){ .large = true, .kind = "its dtype or shape" }, CR_OK;
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

static cr_status compare(const cr_arg *have, const cr_arg *want, difference *d) {
    *d = (difference){ .allowed = 0 };
    if (have->kind == CR_ARG_TENSOR && want->kind == CR_ARG_TENSOR) return compare_tensors(have->u.t, want->u.t, d);
    if (cr_arg_is_number(have) && cr_arg_is_number(want) && have->kind != CR_ARG_COMPLEX &&
        want->kind != CR_ARG_COMPLEX) {
        rt_scalar x = cr_arg_scalar(have), y = cr_arg_scalar(want);
        double a = x.kind == RT_ARG_INT ? (double)x.i : x.f, b = y.kind == RT_ARG_INT ? (double)y.i : y.f;
        bool same = a == b || (isnan(a) && isnan(b));
        d->scale = fabs(b), d->error = same ? 0 : fabs(a - b),
        d->allowed = want->kind == CR_ARG_FLOAT ? 1e-9 * fabs(b) : 0;
        d->large = !same && !(d->error <= d->allowed);
    } else if (have->kind != want->kind) {
        d->large = true, d->kind = "its kind";
    }
    return CR_OK;
}

/* ---- one program, both ways ---- */

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

static cr_status copy_set(const input_set *from, input_set *out) {
    static const cr_op *clone;
    *out = (input_set){ cr_calloc(from->n + 1, sizeof *out->args), 0 };
    if (!out->args) return CR_ENOMEM;
    if (!clone) clone = cr_op_find("aten::clone");
    for (; out->n < from->n; out->n++) {
        cr_arg *to = &out->args[out->n];
        const cr_arg *a = &from->args[out->n];
        *to = *a;
        if (a->kind != CR_ARG_TENSOR) continue;
        cr_arg args[] = { *a, cr_arg_none() };
        CR_TRY(cr_call(clone, args, to));
    }
    return CR_OK;
}

static cr_status call_once(trial *t, const input_set *inputs, uint64_t seed) {
    input_set a = { 0 }, b = { 0 };
    cr_arg *have = cr_calloc(2 * t->n + 1, sizeof *have), *want = have + t->n;
    cr_status status = have ? copy_set(inputs, &a) : CR_ENOMEM;
    if (!status) status = copy_set(inputs, &b);
    cr_native_seed(t->native, seed);
    rt_generator_manual_seed(cr_default_generator(), seed);
    if (!status) status = cr_module_run(t->module, b.args, b.n, want, t->n);
    if (!status) {
        status = cr_native_run(t->native, t->method, a.args, a.n, have, t->n);
        for (size_t i = 0; i < t->n && !status; i++) {
            difference d;
            status = compare(&have[i], &want[i], &d);
            if (d.large > t->found[i].large || (d.large == t->found[i].large && d.error >= t->found[i].error))
                t->found[i] = d;
            t->large |= d.large;
        }
        cr_results_release(have, t->n);
        cr_results_release(want, t->n);
    }
    cr_free(have);
    input_set_dispose(&a);
    input_set_dispose(&b);
    return status;
}

static cr_status trial_run(trial *t, const input_set *inputs) {
    int calls = cr_module_is_stateful(t->module) ? 2 : 1;
    cr_status status = CR_OK;
    for (int i = 0; i < calls && !status; i++) status = call_once(t, inputs, 20 + (uint64_t)i);
    return status;
}

/* ---- where ---- */

typedef CR_VEC(uint32_t) nodes;

static cr_status list_nodes(const cr_program *p, nodes *out) {
    for (uint32_t n = cr_graph_first(p->graph); n != CR_NO_NODE; n = cr_graph_next(p->graph, n))
        if (cr_program_can_end_at(p, n)) CR_TRY(cr_vec_push(out, n));
    return CR_OK;
}

/* Does the program that ends at the node differ? */
static cr_status try_prefix(cr_program *p, uint32_t node, const input_set *inputs, const cr_emit_options *options,
                            bool *differs) {
    cr_program *part = NULL;
    cr_library *library = NULL;
    trial t;
    CR_TRY(cr_program_prefix(p, node, &part));
    cr_status status = scratch_library(&part, 1, options, NULL, &library);
    if (!status && !(status = trial_init(&t, part, library, 0))) {
        status = trial_run(&t, inputs);
        *differs = t.large;
        trial_dispose(&t);
    }
    cr_library_release(library);
    cr_program_release(part);
    return status;
}

/* The first node that differs, found by halving; CR_NO_NODE: none does by itself. */
static cr_status find_node(cr_program *p, const input_set *inputs, const cr_emit_options *options, uint32_t *out) {
    nodes all = { 0 };
    cr_status status = list_nodes(p, &all);
    size_t low = 0, high = all.n; /* all before `low` agree; `high` differs, or is the end */
    while (low < high && !status) {
        size_t middle = low + (high - low) / 2;
        bool differs = false;
        cli_stage("looking for the first node that differs: %zu of %zu left", high - low, all.n);
        status = try_prefix(p, all.at[middle], inputs, options, &differs);
        if (differs) high = middle;
        else low = middle + 1;
    }
    *out = high < all.n ? all.at[high] : CR_NO_NODE;
    cr_vec_dispose(&all);
    return status;
}

static void add_node(const cr_program *p, uint32_t id, cr_str *out) {
    if (id == CR_NO_NODE) {
        cr_str_add(out, "no node differs by itself, so it arises where steps are combined");
        return;
    }
    const cr_node *node = cr_graph_node(p->graph, id);
    cr_str_addf(out, "the first node that differs is %%%s = %s", cr_graph_value(p->graph, node->first)->name,
                model_op_name(node));
    cr_str source;
    cr_str_init(&source);
    if (model_source(node, &source)) cr_str_addf(out, " at %s", cr_str_get(&source));
    cli_str_done(&source, out);
}

/* ---- the command's part ---- */

static void add_outputs(const trial *t, const model *m, cr_str *out) {
    for (size_t i = 0; i < t->n; i++) {
        const difference *d = &t->found[i];
        const char *name = i < m->noutputs ? m->outputs[i].name : "";
        cr_str_addf(out, "  out%zu  ", i);
        if (d->kind) cr_str_addf(out, "differs in %s", d->kind);
        else
            cr_str_addf(out, "largest error %.3g, values up to %.3g%s", d->error, d->scale,
                        d->large ? ": too large" : "");
        cr_str_addf(out, "  %%%s\n", name);
    }
}

static cr_status refuse(const trial *t, const input_set *inputs, const cr_emit_options *options) {
    uint32_t node = CR_NO_NODE;
    size_t i = 0;
    while (i + 1 < t->n && !t->found[i].large) i++;
    const difference *d = &t->found[i];
    CR_TRY(find_node(t->program, inputs, options, &node));
    cr_str where;
    cr_str_init(&where);
    add_node(t->program, node, &where);
    cr_status status = d->kind ? CR_FAIL(CR_ERUNTIME, "out%zu of the library differs from the interpreter's in %s: %s",
                                         i, d->kind, cr_str_get(&where))
                               : CR_FAIL(CR_ERUNTIME,
                                         "out%zu of the library differs from the interpreter's by %.3g, and at most "
                                         "%.3g is expected: %s",
                                         i, d->error, d->allowed, cr_str_get(&where));
    cr_str_dispose(&where);
    cli_hint("please report it with the archive");
    return status;
}

cr_status verify_method(model *m, const char *path, int32_t method, const cr_emit_options *options, cr_str *out) {
    input_set inputs = { 0 };
    trial t;
    bool example = m->program->nexample == m->ninputs && (m->program->nexample || !m->ninputs);
    CR_TRY(example ? inputs_example(m, &inputs) : inputs_random(m, 0, &inputs));
    cli_stage("comparing with the interpreter");
    cr_library *library = NULL;
    cr_status status = cr_library_open(path, &library);
    if (!status) status = trial_init(&t, m->program, library, method);
    if (status) goto out;
    status = trial_run(&t, &inputs);
    if (status && !example) cli_hint("random numbers do not suit every program: save the archive with example inputs");
    if (!status) {
        cr_str_addf(out, "against the interpreter, on %s inputs:\n", example ? "the example" : "random");
        add_outputs(&t, m, out);
        if (t.large) status = refuse(&t, &inputs, options);
    }
    trial_dispose(&t);
out:
    cr_library_release(library);
    input_set_dispose(&inputs);
    return status;
}
