/* step.c: training steps of archives, for tests and benchmarks.
 *
 *     step partition ARCHIVE [BUDGET | default]...   -- a JSON line for the joint graph, one for each partition
 *     step check ARCHIVE [BUDGET | default]...       -- do the parts compute what the joint graph does?
 *     step library ARCHIVE FILE.so [TARGET]          -- the whole step as one method, compiled
 *     step flow < NETWORKS                           -- the largest flow of each: nodes, edges, then FROM TO CAPACITY
 *
 * The program's first result of its own is the loss. The step takes what the program does (parameters, buffers,
 * inputs), all of them live, and gives what it does (new buffers, loss), then the gradient of each parameter: those of
 * a loss whose own gradient is 1. */
#include "autograd/partition.h"
#include "emit/emit.h"
#include "export/program.h"
#include "lower/lower.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- from an archive to its joint graph ---- */

static bool keeps(const cr_op *op, void *user) {
    (void)user;
    return !(op->tags & CR_TAG_STATISTICS);
}

/* The graph without writes: new buffers are its last results. */
static cr_status functional(const cr_program *p, cr_graph **out) {
    cr_graph *plain = NULL;
    uint32_t *mutated = cr_calloc(p->ninputs + 1, sizeof *mutated);
    if (!mutated) return CR_ENOMEM;
    cr_functionalize_options writes = { .mutated = mutated };
    cr_status status = cr_pass_decompose_as(p->graph, &(cr_decomposition){ .stop = keeps, .keep_writes = true },
                                            &plain);
    if (!status) status = cr_pass_functionalize(plain, &writes, out);
    cr_graph_release(plain);
    cr_free(mutated);
    return status;
}

static size_t find_loss(const cr_program *p) {
    size_t i = 0;
    while (i < p->noutputs && p->outputs[i].kind != CR_OUTPUT_USER) i++;
    return i;
}

static cr_status differentiate(const cr_program *p, cr_joint *out, double *seconds) {
    cr_graph *g = NULL;
    CR_TRY(functional(p, &g));
    bool *wrt = cr_calloc(p->ninputs + 1, 1), *through = cr_calloc(cr_graph_result_count(g) + 1, 1);
    cr_status status = wrt && through ? CR_OK : CR_ENOMEM;
    for (size_t i = 0; !status && i < p->ninputs; i++) wrt[i] = p->inputs[i].kind == CR_INPUT_PARAMETER;
    if (!status) through[find_loss(p)] = true;
    double begin = now();
    if (!status) status = cr_differentiate(g, &(cr_differentiation){ .wrt = wrt, .through = through }, out);
    *seconds = now() - begin;
    cr_free(wrt);
    cr_free(through);
    cr_graph_release(g);
    return status;
}

static cr_status open_joint(const char *path, cr_program **program, cr_joint *joint, double *seconds) {
    CR_TRY(cr_program_load(path, NULL, 0, program));
    cr_status status = differentiate(*program, joint, seconds);
    if (status) cr_program_release(*program);
    return status;
}

/* ---- partitions ---- */

static cr_status partition(const cr_joint *joint, const char *how, cr_parts *out) {
    bool plain = !strcmp(how, "default");
    cr_partition_options o = { .kind = plain ? CR_PARTITION_DEFAULT : CR_PARTITION_MIN_CUT,
                               .budget = plain ? 1 : strtod(how, NULL) };
    return cr_partition(joint, &o, out);
}

static cr_status print_partition(const cr_joint *joint, const char *how) {
    cr_parts parts;
    cr_str text;
    cr_str_init(&text);
    double begin = now();
    CR_TRY(partition(joint, how, &parts));
    double seconds = now() - begin;
    cr_parts_report_json(&parts, &text);
    printf("{\"how\": \"%s\", \"seconds\": %.6f, \"report\": %s}\n", how, seconds, cr_str_get(&text));
    cr_str_dispose(&text);
    cr_parts_dispose(&parts);
    return CR_OK;
}

static cr_status do_partition(int argc, char **argv) {
    cr_program *p = NULL;
    cr_joint joint;
    double seconds;
    CR_TRY(open_joint(argv[0], &p, &joint, &seconds));
    printf("{\"nodes\": %u, \"seconds\": %.6f}\n", cr_graph_node_count(joint.graph), seconds);
    cr_status status = CR_OK;
    for (int i = 1; i < argc && !status; i++) status = print_partition(&joint, argv[i]);
    cr_joint_dispose(&joint);
    cr_program_release(p);
    return status;
}

/* ---- numbers ---- */

typedef struct args {
    cr_arg *at;
    size_t n;
} args;

static void args_dispose(args *a) {
    cr_results_release(a->at, a->n);
    cr_free(a->at);
}

static cr_status args_make(size_t n, args *out) {
    *out = (args){ cr_calloc(n + 1, sizeof *out->at), n };
    return out->at ? CR_OK : CR_ENOMEM;
}

static cr_status run(cr_graph *g, const args *in, args *out) {
    CR_TRY(args_make(cr_graph_result_count(g), out));
    return cr_graph_run(g, in->at, in->n, out->at, out->n);
}

/* The program's tensors and example inputs, and 1 for the loss. */
static cr_status inputs_of(const cr_program *p, const cr_joint *joint, args *out) {
    size_t example = 0;
    CR_TRY(args_make(joint->nprimals + joint->ntangents, out));
    for (size_t i = 0; i < p->ninputs; i++) {
        cr_tensor *t = p->inputs[i].target ? cr_program_tensor(p, p->inputs[i].target) : NULL;
        if (!t && example < p->nexample) t = p->example[example++].u.t;
        if (!t) return CR_FAIL(CR_EVALUE, "there is no tensor for '%s'", p->inputs[i].name);
        cr_tensor_retain(t);
        out->at[i] = cr_arg_tensor(t);
    }
    cr_arg one[] = { (cr_arg){ .kind = CR_ARG_LIST }, cr_arg_float(1) };
    cr_tensor *t;
    CR_TRY(cr_call_1("aten::full", one, 2, &t));
    out->at[joint->nprimals] = cr_arg_tensor(t);
    return CR_OK;
}

static cr_status check_equal(const args *got, const args *want, size_t offset, size_t n) {
    for (size_t i = 0; i < n; i++) {
        cr_arg same = cr_arg_none(), pair[] = { got->at[i], want->at[offset + i] };
        if (pair[0].kind != pair[1].kind) return CR_FAIL(CR_EVALUE, "result %zu is of another kind", offset + i);
        if (pair[0].kind != CR_ARG_TENSOR) continue;
        CR_TRY(cr_call(cr_op_find("aten::equal"), pair, &same));
        if (!same.u.i) return CR_FAIL(CR_EVALUE, "result %zu differs from the joint graph's", offset + i);
    }
    return CR_OK;
}

static cr_status check_parts(const cr_joint *joint, const cr_parts *parts, const args *inputs, const args *want) {
    args primals = { inputs->at, joint->nprimals }, mid = { 0 }, given = { 0 }, got = { 0 };
    cr_status status = run(parts->forward, &primals, &mid);
    size_t k = 0;
    if (!status) status = args_make(parts->nnumbers + parts->nsaved + joint->ntangents, &given);
    for (uint32_t i = 0; !status && i < parts->nnumbers; i++)
        given.at[k++] = mid.at[parts->nresults + parts->nsaved + i];
    for (uint32_t i = 0; !status && i < parts->nsaved; i++) given.at[k++] = mid.at[parts->nresults + i];
    for (uint32_t i = 0; !status && i < joint->ntangents; i++) given.at[k++] = inputs->at[joint->nprimals + i];
    if (!status) status = run(parts->backward, &given, &got);
    if (!status) status = check_equal(&mid, want, 0, joint->nforward);
    if (!status) status = check_equal(&got, want, joint->nforward, got.n);
    cr_free(given.at); /* others own what is in it */
    args_dispose(&mid);
    args_dispose(&got);
    return status;
}

static cr_status check_partition(const cr_joint *joint, const char *how, const args *inputs, const args *want) {
    cr_parts parts;
    CR_TRY(partition(joint, how, &parts));
    cr_status status = cr_graph_verify(parts.forward, CR_VERIFY_METAS | CR_VERIFY_FUNCTIONAL);
    if (!status) status = cr_graph_verify(parts.backward, CR_VERIFY_METAS | CR_VERIFY_FUNCTIONAL);
    if (!status) status = check_parts(joint, &parts, inputs, want);
    if (!status) printf("%s: %zu results are equal\n", how, want->n);
    cr_parts_dispose(&parts);
    return status ? cr_error_context(status, "budget %s", how) : CR_OK;
}

static cr_status do_check(int argc, char **argv) {
    cr_program *p = NULL;
    cr_joint joint;
    double seconds;
    args inputs = { 0 }, want = { 0 };
    CR_TRY(open_joint(argv[0], &p, &joint, &seconds));
    cr_status status = inputs_of(p, &joint, &inputs);
    if (!status) status = run(joint.graph, &inputs, &want);
    for (int i = 1; i < argc && !status; i++) status = check_partition(&joint, argv[i], &inputs, &want);
    args_dispose(&inputs);
    args_dispose(&want);
    cr_joint_dispose(&joint);
    cr_program_release(p);
    return status;
}

/* ---- compiled steps ---- */

/* The joint graph with 1 for the tangent, and without gradients that are not due. */
static cr_status close_step(const cr_joint *joint, cr_graph *g) {
    const cr_node *output = cr_graph_node(g, cr_graph_output(g));
    CR_VEC(cr_arg) results = { 0 };
    cr_status status = CR_OK;
    uint32_t id = cr_graph_first(g), one, last = 0;
    for (uint32_t i = 0; i < joint->nprimals; i++) id = cr_graph_next(g, last = id);
    cr_arg full[] = { (cr_arg){ .kind = CR_ARG_LIST }, cr_arg_float(1) };
    cr_arg value;
    cr_graph_insert_before(g, cr_graph_next(g, id));
    CR_TRY(cr_emit_call(cr_graph_emitter(g), "aten::full", full, 2, &value));
    one = cr_graph_node(g, id)->first;
    CR_TRY(cr_graph_replace(g, one, value, CR_NO_NODE));
    CR_TRY(cr_graph_erase(g, id));
    for (uint16_t i = 0; i < output->nargs && !status; i++)
        if (output->args[i].kind != CR_ARG_NONE) status = cr_vec_push(&results, output->args[i]);
    if (!status) status = cr_graph_set_output(g, results.at, results.n);
    cr_vec_dispose(&results);
    return status;
}

static cr_status compile(const cr_joint *joint, const char *path, const char *target) {
    cr_graph *g = NULL;
    cr_lowered *l = NULL;
    CR_TRY(cr_graph_copy(joint->graph, &g));
    cr_status status = close_step(joint, g);
    if (!status) status = cr_lower_graphs(&(cr_lower_graph){ .graph = g, .name = "step" }, 1, NULL, &l);
    if (!status) status = cr_emit(l, path, &(cr_emit_options){ .weights = CR_WEIGHTS_INSIDE, .target = target });
    cr_lowered_release(l);
    cr_graph_release(g);
    return status;
}

static cr_status do_library(int argc, char **argv) {
    cr_program *p = NULL;
    cr_joint joint;
    double seconds, begin;
    CR_TRY(open_joint(argv[0], &p, &joint, &seconds));
    begin = now();
    cr_status status = compile(&joint, argv[1], argc > 2 ? argv[2] : "native");
    printf("{\"nodes\": %u, \"joint_seconds\": %.6f, \"compile_seconds\": %.6f}\n", cr_graph_node_count(joint.graph),
           seconds, now() - begin);
    cr_joint_dispose(&joint);
    cr_program_release(p);
    return status;
}

static cr_status do_flow(int argc, char **argv) {
    unsigned nodes, edges, from, to;
    long long capacity;
    (void)argc, (void)argv;
    while (scanf("%u %u", &nodes, &edges) == 2) {
        cr_flow f;
        CR_TRY(cr_flow_init(&f, nodes));
        for (unsigned i = 0; i < edges && scanf("%u %u %lld", &from, &to, &capacity) == 3; i++)
            CR_TRY(cr_flow_edge(&f, from, to, capacity));
        printf("%lld\n", (long long)cr_flow_run(&f, 0, nodes - 1));
        cr_flow_dispose(&f);
    }
    return CR_OK;
}

static const struct {
    const char *name;
    cr_status (*run)(int argc, char **argv);
    int least;
} commands[] = {
    { "partition", do_partition, 1 },
    { "check", do_check, 1 },
    { "library", do_library, 2 },
    { "flow", do_flow, 0 },
};

int main(int argc, char **argv) {
    cr_status status = cr_ops_init();
    if (!status) status = cr_region_ops_init();
    for (size_t i = 0; i < CR_COUNT(commands) && !status; i++) {
        if (argc < 2 + commands[i].least || strcmp(argv[1], commands[i].name)) continue;
        status = commands[i].run(argc - 2, argv + 2);
        if (status) fprintf(stderr, "step: %s\n", cr_error_message());
        return status != CR_OK;
    }
    fprintf(stderr, "step: see the top of tests/step.c\n");
    return 2;
}
