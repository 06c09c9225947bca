/* module.c: a program that runs.
 *
 * A module holds the plan and one argument per placeholder: state tensors stand there for good, user inputs are filled
 * in for each run. Writes reach the state in two ways: ops of the training dialect write the tensors themselves, and in
 * a functional program results named by mutation specs are copied back after the run. Runs that write hold a lock. */
#include "export/guard.h"
#include "export/internal.h"
#include "export/source.h"
#include "graph/host.h"
#include "graph/writes.h"

typedef struct mutation { uint32_t result, input; } mutation; /* output `result` is copied to placeholder `input` */

struct cr_module {
    int64_t refs; /* atomic */
    cr_program *program;
    cr_plan *plan;
    cr_arena arena;
    cr_arg *inputs;          /* one per placeholder */
    bool *written;           /* by placeholder: does a run write it? */
    uint32_t *user;          /* placeholders of the user inputs */
    uint32_t *user_results;  /* outputs that the caller gets */
    /* by user result: the placeholder that the value is written to, which is what the caller gets; or CR_NO_VALUE */
    uint32_t *same_as;
    const char **labels;     /* by placeholder, for messages */
    mutation *mutations;
    size_t ninputs, nuser, nresults, nuser_results, nmutations;
    CR_VEC(cr_tensor *) own; /* CR_MODULE_OWN_STATE: copies */
    cr__guards guards;
    const cr_op *copy;
    pthread_mutex_t own_lock, *lock; /* lock NULL: runs write no state */
};

/* ---- what a run writes ---- */

static cr_status find_writes(cr_module *m) {
    const cr_graph *g = m->program->graph;
    cr_writes writes;
    size_t i = 0;
    CR_TRY(cr_writes_find(g, CR_SHARING_POSSIBLE, &writes));
    for (uint32_t n = cr_graph_first(g); n != CR_NO_NODE && i < m->ninputs; n = cr_graph_next(g, n))
        if (cr_graph_node(g, n)->kind == CR_NODE_PLACEHOLDER)
            m->written[i++] |= cr_writes_to(&writes, cr_graph_node(g, n)->first) != 0;
    cr_writes_dispose(&writes);
    return CR_OK;
}

/* ---- creation ---- */

/* "aten::foo (model.py:12, in forward: return torch.foo(x))" for each op without a row that the host does not have. */
static cr_status refuse_unsupported(const cr_program *p) {
    cr_str text;
    size_t n = 0;
    cr_str_init(&text);
    for (size_t i = 0; i < p->nunsupported; i++) {
        if (cr_host_has(p->unsupported[i])) continue;
        cr__frame f;
        const cr_origin *origin = cr_program_origin(p, p->unsupported[i]);
        cr_str_addf(&text, "%s%s", n++ ? ", " : "", p->unsupported[i]);
        if (origin && cr__source_frame(origin, true, &f))
            cr_str_addf(&text, " (%.*s:%.*s: %.*s)", f.path_length, f.path, f.line_length, f.line, f.code_length,
                        f.code);
    }
    cr_status status = !n ? CR_OK
                          : CR_FAIL(CR_EUNSUPPORTED, "the program uses %zu op%s no implementation here: %s", n,
                                    n == 1 ? " that has" : "s that have", cr_str_get(&text));
    cr_str_dispose(&text);
    return status;
}

static const cr_origin *find_opaque(const cr_graph *g, const char *name) {
    for (uint32_t n = cr_graph_first(g); n != CR_NO_NODE; n = cr_graph_next(g, n)) {
        const cr_node *node = cr_graph_node(g, n);
        if (node->kind == CR_NODE_CALL && !strcmp(node->op->name, "cresset::opaque") &&
            !strcmp(node->args[0].u.s, name))
            return &node->origin;
    }
    const cr_origin *found = NULL;
    for (size_t i = 0; i < cr_graph_subgraph_count(g) && !found; i++)
        found = find_opaque(cr_graph_subgraph(g, i), name);
    return found;
}

const cr_origin *cr_program_origin(const cr_program *p, const char *unsupported) {
    return find_opaque(p->graph, unsupported);
}

static cr_status make_labels(cr_module *m) {
    const cr_program *p = m->program;
    cr_str path;
    uint32_t leaf = 0;
    for (size_t i = 0; i < m->ninputs; i++) {
        const cr_input_spec *spec = &p->inputs[i];
        if (spec->kind != CR_INPUT_USER) {
            m->labels[i] = cr_arena_printf(&m->arena, "state '%s'", spec->target ? spec->target : spec->name);
        } else {
            cr_str_init(&path);
            cr__input_path(p, leaf++, &path);
            m->labels[i] = spec->name ? cr_arena_printf(&m->arena, "input '%s' (%s)", spec->name, cr_str_get(&path))
                                      : cr_arena_printf(&m->arena, "input %s", cr_str_get(&path));
            cr_status status = cr_str_status(&path);
            cr_str_dispose(&path);
            CR_TRY(status);
        }
        if (!m->labels[i]) return CR_ENOMEM;
    }
    return CR_OK;
}

static cr_status take_own(cr_module *m, cr_tensor *t, const cr_storage *from, cr_storage *copy, size_t i) {
    cr_meta meta = t->meta;
    cr_tensor *own = NULL;
    if (t->storage != from) return CR_OK;
    meta.storage = copy->id;
    CR_TRY(cr_vec_reserve(&m->own, m->own.n + 1));
    CR_TRY(cr_tensor_on(copy, &meta, NULL, NULL, &own));
    m->own.at[m->own.n++] = own;
    m->inputs[i].u.t = own;
    return CR_OK;
}

/* What shares memory with a written tensor moves with it. */
static cr_status copy_written(cr_module *m) {
    for (size_t i = 0; i < m->ninputs; i++) {
        if (!m->written[i] || m->program->inputs[i].kind == CR_INPUT_USER) continue;
        cr_storage *from = m->inputs[i].u.t->storage, *copy = NULL;
        bool done = false;
        for (size_t k = 0; k < m->own.n; k++) done |= m->own.at[k]->storage == from;
        if (done) continue;
        CR_TRY(cr_storage_create(from->bytes, &copy));
        if (from->bytes) memcpy(copy->data, from->data, (size_t)from->bytes);
        cr_status status = CR_OK;
        for (size_t k = 0; k < m->ninputs && !status; k++)
            if (m->program->inputs[k].kind != CR_INPUT_USER) status = take_own(m, m->inputs[k].u.t, from, copy, k);
        cr_storage_release(copy);
        CR_TRY(status);
    }
    return CR_OK;
}

/* Orders effects and holds nothing. */
static cr_status make_token(cr_module *m, size_t i) {
    cr_tensor *t = NULL;
    CR_TRY(cr_vec_reserve(&m->own, m->own.n + 1));
    CR_TRY(cr_tensor_from(CR_F32, 1, &(int64_t){ 0 }, "", &t));
    m->own.at[m->own.n++] = t;
    m->inputs[i] = cr_arg_tensor(t);
    return CR_OK;
}

static cr_status fill_state(cr_module *m) {
    const cr_program *p = m->program;
    for (size_t i = 0; i < m->ninputs; i++) {
        const cr_input_spec *spec = &p->inputs[i];
        if (spec->kind == CR_INPUT_USER) {
            m->user[m->nuser++] = (uint32_t)i;
            continue;
        }
        if (spec->kind == CR_INPUT_TOKEN) {
            CR_TRY(make_token(m, i));
            continue;
        }
        cr_tensor *t = cr_program_tensor(p, spec->target);
        if (!t) return CR_FAIL(CR_EVALUE, "the program has no tensor '%s'", spec->target);
        if (cr_tensor_is_fake(t))
            return CR_FAIL(CR_EVALUE, "the program was loaded without its weights (CR_LOAD_META); load it again to run "
                                      "it");
        m->inputs[i] = cr_arg_tensor(t);
    }
    return CR_OK;
}

static uint32_t find_input(const cr_program *p, const cr_output_spec *out) {
    bool user = out->kind == CR_OUTPUT_INPUT_MUTATION;
    for (size_t i = 0; i < p->ninputs; i++) {
        const char *name = user ? p->inputs[i].name : p->inputs[i].target;
        if ((p->inputs[i].kind == CR_INPUT_USER) == user && name && !strcmp(name, out->target)) return (uint32_t)i;
    }
    return UINT32_MAX;
}

static cr_status read_outputs(cr_module *m) {
    const cr_program *p = m->program;
    for (size_t i = 0; i < m->nresults; i++) {
        const cr_output_spec *spec = &p->outputs[i];
        bool mutates = spec->kind == CR_OUTPUT_BUFFER_MUTATION || spec->kind == CR_OUTPUT_PARAMETER_MUTATION ||
                       spec->kind == CR_OUTPUT_INPUT_MUTATION;
        if (spec->kind == CR_OUTPUT_USER || spec->kind == CR_OUTPUT_LOSS)
            m->user_results[m->nuser_results++] = (uint32_t)i;
        if (!mutates) continue;
        uint32_t at = find_input(p, spec);
        if (at == UINT32_MAX) return CR_FAIL(CR_EVALUE, "output %zu writes '%s', which is no input", i, spec->target);
        m->written[at] = true;
        m->mutations[m->nmutations++] = (mutation){ (uint32_t)i, at };
    }
    return CR_OK;
}

/* A value that is written to state or to an input and returned, too: the caller gets the tensor that was written, as in
 * PyTorch, where the copy is what is returned. */
static void find_returned_state(cr_module *m) {
    const cr_node *output = cr_graph_node(m->program->graph, cr_graph_output(m->program->graph));
    for (size_t i = 0; i < m->nuser_results; i++) {
        const cr_arg *a = &output->args[m->user_results[i]];
        m->same_as[i] = CR_NO_VALUE;
        for (size_t k = 0; k < m->nmutations && a->kind == CR_ARG_VALUE; k++) {
            const cr_arg *b = &output->args[m->mutations[k].result];
            if (b->kind == CR_ARG_VALUE && b->u.i == a->u.i) m->same_as[i] = m->mutations[k].input;
        }
    }
}

static cr_status check_inputs(void *user, const cr_arg *inputs) {
    const cr_module *m = user;
    if (!m->guards.conds.n) return CR_OK;
    cr_arg local[16] = { { 0 } }, *given = m->nuser <= CR_COUNT(local) ? local : cr_alloc(m->nuser * sizeof *given);
    if (!given) return CR_ENOMEM;
    for (size_t i = 0; i < m->nuser; i++) given[i] = inputs[m->user[i]];
    cr_status status = cr__guards_check(&m->guards, given, m->nuser);
    if (given != local) cr_free(given);
    return status;
}

static cr_status check_devices(const cr_program *p) {
    for (uint32_t n = cr_graph_first(p->graph);
         n != CR_NO_NODE && cr_graph_node(p->graph, n)->kind == CR_NODE_PLACEHOLDER; n = cr_graph_next(p->graph, n)) {
        const cr_value *v = cr_graph_value(p->graph, cr_graph_node(p->graph, n)->first);
        if (!v->meta || v->meta->device.type == CR_CPU) continue;
        cr_str device;
        cr_str_init(&device);
        cr_device_print(v->meta->device, &device);
        cr_status status = CR_FAIL(CR_EUNSUPPORTED,
                                   "'%s' is on device '%s': programs run on the CPU here; export the model on the CPU",
                                   v->name, cr_str_get(&device));
        cr_str_dispose(&device);
        return status;
    }
    return CR_OK;
}

static cr_status module_init(cr_module *m, int flags) {
    cr_program *p = m->program;
    m->ninputs = p->ninputs;
    m->nresults = p->noutputs;
    m->inputs = cr_arena_calloc(&m->arena, m->ninputs + 1, sizeof *m->inputs);
    m->written = cr_arena_calloc(&m->arena, m->ninputs + 1, sizeof *m->written);
    m->user = cr_arena_calloc(&m->arena, m->ninputs + 1, sizeof *m->user);
    m->labels = cr_arena_calloc(&m->arena, m->ninputs + 1, sizeof *m->labels);
    m->user_results = cr_arena_calloc(&m->arena, m->nresults + 1, sizeof *m->user_results);
    m->same_as = cr_arena_calloc(&m->arena, m->nresults + 1, sizeof *m->same_as);
    m->mutations = cr_arena_calloc(&m->arena, m->nresults + 1, sizeof *m->mutations);
    if (!m->same_as || !m->inputs || !m->written || !m->user || !m->labels || !m->user_results || !m->mutations)
        return CR_ENOMEM;
    CR_TRY(check_devices(p));
    CR_TRY(fill_state(m));
    CR_TRY(read_outputs(m));
    find_returned_state(m);
    CR_TRY(find_writes(m));
    if (flags & CR_MODULE_OWN_STATE) CR_TRY(copy_written(m));
    bool writes = false;
    for (size_t i = 0; i < m->ninputs; i++) writes |= m->written[i] && p->inputs[i].kind != CR_INPUT_USER;
    if (writes) m->lock = flags & CR_MODULE_OWN_STATE ? &m->own_lock : cr_program_lock(p);
    m->copy = cr_op_find("aten::copy_");
    CR_TRY(make_labels(m));
    CR_TRY(cr__guards_init(&m->guards, p));
    pthread_mutex_lock(cr_program_lock(p)); /* planning makes expressions of the graph's environment */
    cr_status status = cr_plan_create(p->graph, &m->plan);
    pthread_mutex_unlock(cr_program_lock(p));
    CR_TRY(status);
    cr_plan_set_inputs(m->plan, m->labels, check_inputs, m);
    return CR_OK;
}

cr_status cr_module_create(cr_program *p, int flags, cr_module **out) {
    CR_TRY(refuse_unsupported(p));
    cr_module *m = cr_calloc(1, sizeof *m);
    if (!m) return CR_ENOMEM;
    m->refs = 1;
    cr_program_retain(m->program = p);
    cr_arena_init(&m->arena);
    pthread_mutex_init(&m->own_lock, NULL);
    cr_status status = module_init(m, flags);
    if (status) cr_module_release(m);
    else *out = m;
    return status;
}

void cr_module_retain(cr_module *m) { __atomic_add_fetch(&m->refs, 1, __ATOMIC_RELAXED); }

void cr_module_release(cr_module *m) {
    if (!m || __atomic_sub_fetch(&m->refs, 1, __ATOMIC_ACQ_REL)) return;
    cr_plan_release(m->plan);
    for (size_t i = 0; i < m->own.n; i++) cr_tensor_release(m->own.at[i]);
    cr_vec_dispose(&m->own);
    cr__guards_dispose(&m->guards);
    cr_arena_dispose(&m->arena);
    pthread_mutex_destroy(&m->own_lock);
    cr_program_release(m->program);
    cr_free(m);
}

cr_program *cr_module_program(const cr_module *m) { return m->program; }
bool cr_module_is_stateful(const cr_module *m) { return m->lock != NULL; }
size_t cr_module_input_count(const cr_module *m) { return m->nuser; }
size_t cr_module_result_count(const cr_module *m) { return m->nuser_results; }

cr_tensor *cr_module_tensor(const cr_module *m, const char *target) {
    for (size_t i = 0; i < m->ninputs; i++)
        if (m->program->inputs[i].target && !strcmp(m->program->inputs[i].target, target)) return m->inputs[i].u.t;
    return cr_program_tensor(m->program, target);
}

/* ---- running ---- */

/* As Python's == has it: 3 == 3.0, True == 1. */
static bool same_constant(const cr_arg *a, const cr_arg *b) {
    if (a->kind == CR_ARG_STR) return b->kind == CR_ARG_STR && a->n == b->n && !memcmp(a->u.s, b->u.s, a->n);
    if (!cr_arg_is_number(a)) return a->kind == b->kind;
    if (!cr_arg_is_number(b) || b->kind == CR_ARG_COMPLEX) return false;
    if (a->kind != CR_ARG_FLOAT && b->kind != CR_ARG_FLOAT) return a->u.i == b->u.i;
    double x = a->kind == CR_ARG_FLOAT ? a->u.f : (double)a->u.i, y = b->kind == CR_ARG_FLOAT ? b->u.f : (double)b->u.i;
    return x == y || (x != x && y != y);
}

static cr_status refuse_constant(const cr_module *m, uint32_t at, const cr_arg *given) {
    cr_str want, have;
    cr_str_init(&want);
    cr_str_init(&have);
    cr_arg_print(NULL, &m->program->inputs[at].constant, &want);
    if (given->kind == CR_ARG_TENSOR) cr_str_add(&have, "a tensor");
    else cr_arg_print(NULL, given, &have);
    cr_status status = CR_FAIL(CR_EGUARD, "%s: it is %s; the program was exported for %s alone", m->labels[at],
                               cr_str_get(&have), cr_str_get(&want));
    cr_str_dispose(&want);
    cr_str_dispose(&have);
    return status;
}

static bool is_state(const cr_input_spec *spec) { return spec->kind != CR_INPUT_USER && spec->kind != CR_INPUT_TOKEN; }

static cr_status fill_inputs(const cr_module *m, cr_tensor *const *state, size_t nstate, const cr_arg *given,
                             cr_arg *inputs) {
    size_t used = 0;
    memcpy(inputs, m->inputs, m->ninputs * sizeof *inputs);
    for (size_t i = 0; state && i < m->ninputs; i++)
        if (is_state(&m->program->inputs[i]) && used++ < nstate) inputs[i].u.t = state[used - 1];
    if (state && used != nstate)
        return CR_FAIL(CR_EVALUE, "the program has %zu parameters, buffers and constants, not %zu", used, nstate);
    for (size_t i = 0; i < m->nuser; i++) {
        uint32_t at = m->user[i];
        const cr_input_spec *spec = &m->program->inputs[at];
        if (spec->is_constant && !same_constant(&spec->constant, &given[i])) return refuse_constant(m, at, &given[i]);
        inputs[at] = spec->is_constant ? spec->constant : given[i];
    }
    return CR_OK;
}

/* Copies what the signature says is written, in order. */
static cr_status apply_mutations(const cr_module *m, const cr_arg *inputs, const cr_arg *results) {
    for (size_t i = 0; i < m->nmutations; i++) {
        const mutation *mut = &m->mutations[i];
        cr_arg ignored[1] = { { 0 } };
        const cr_arg *to = &inputs[mut->input];
        if (to->kind != CR_ARG_TENSOR || results[mut->result].kind != CR_ARG_TENSOR)
            return CR_FAIL(CR_ERUNTIME, "%s: only tensors can be written", m->labels[mut->input]);
        cr_arg args[] = { *to, results[mut->result], cr_arg_bool(false) };
        bool *grad = &cr_ambient_get()->grad, before = *grad;
        /* state has no history: it would grow with every run */
        if (m->program->inputs[mut->input].kind != CR_INPUT_USER) *grad = false;
        cr_status status = cr_call(m->copy, args, ignored);
        *grad = before;
        if (status) return cr_error_context(status, "%s", m->labels[mut->input]);
        cr_results_release(ignored, 1);
    }
    return CR_OK;
}

static cr_status run(cr_module *m, const cr_arg *inputs, cr_arg *all) {
    if (m->lock) pthread_mutex_lock(m->lock);
    cr_status status = cr_plan_run(m->plan, inputs, m->ninputs, all, m->nresults);
    if (!status) {
        status = apply_mutations(m, inputs, all);
        if (status) cr_results_release(all, m->nresults);
    }
    if (m->lock) pthread_mutex_unlock(m->lock);
    return status;
}

cr_status cr_module_run(cr_module *m, const cr_arg *given, size_t ngiven, cr_arg *results, size_t nresults) {
    return cr_module_run_on(m, NULL, 0, given, ngiven, results, nresults);
}

cr_status cr_module_run_on(cr_module *m, cr_tensor *const *state, size_t nstate, const cr_arg *given, size_t ngiven,
                           cr_arg *results, size_t nresults) {
    if (ngiven != m->nuser) return CR_FAIL(CR_ETYPE, "the program takes %zu inputs, not %zu", m->nuser, ngiven);
    if (nresults != m->nuser_results)
        return CR_FAIL(CR_EVALUE, "the program gives %zu results, not %zu", m->nuser_results, nresults);
    cr_arg local[96], *inputs = local;
    size_t n = m->ninputs + m->nresults;
    if (n > CR_COUNT(local) && !(inputs = cr_alloc(n * sizeof *inputs))) return CR_ENOMEM;
    cr_arg *all = inputs + m->ninputs;
    cr_status status = fill_inputs(m, state, nstate, given, inputs);
    if (!status) status = run(m, inputs, all);
    if (!status) {
        for (size_t i = 0; i < nresults; i++) {
            if (m->same_as[i] != CR_NO_VALUE) {
                results[i] = inputs[m->same_as[i]];
                cr_tensor_retain(results[i].u.t);
                continue;
            }
            results[i] = all[m->user_results[i]];
            all[m->user_results[i]] = cr_arg_none();
        }
        cr_results_release(all, m->nresults);
    }
    if (inputs != local) cr_free(inputs);
    return status;
}
