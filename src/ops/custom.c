/* custom.c: how a custom op is called: with data or without, and what its results may be. */
#include "ops/custom.h"

#include "ops/call.h"
#include "ops/formula.h"

bool cr_args_have_fake(const cr_arg *args, size_t n, cr_env **env) {
    bool found = false;
    for (size_t i = 0; i < n; i++) {
        if (args[i].kind == CR_ARG_LIST) found |= cr_args_have_fake(args[i].u.list, args[i].n, env);
        if (args[i].kind != CR_ARG_TENSOR || !cr_tensor_is_fake(args[i].u.t)) continue;
        found = true;
        if (args[i].u.t->env) *env = args[i].u.t->env;
    }
    return found;
}

/* ---- results ---- */

static const char *kind_name(const cr_arg *a) {
    static const char *const names[CR_ARG_KIND_COUNT] = {
        [CR_ARG_NONE] = "nothing",  [CR_ARG_TENSOR] = "a tensor",      [CR_ARG_INT] = "an int",
        [CR_ARG_FLOAT] = "a float", [CR_ARG_BOOL] = "a bool",          [CR_ARG_STR] = "a text",
        [CR_ARG_LIST] = "a list",   [CR_ARG_SYM] = "a symbolic number"
    };
    return a->kind < CR_ARG_KIND_COUNT && names[a->kind] ? names[a->kind] : "something else";
}

static cr_status check_result(const cr_op *op, uint16_t i, const cr_arg *a) {
    const cr_param *r = &op->schema.returns[i];
    if (r->type != CR_T_TENSOR)
        return a->kind == CR_ARG_NONE && !r->optional ? CR_FAIL(CR_ERUNTIME, "%s: result %u is missing", op->name, i)
                                                      : CR_OK;
    bool good = r->list ? a->kind == CR_ARG_LIST : a->kind == CR_ARG_TENSOR || (r->optional && a->kind == CR_ARG_NONE);
    for (uint32_t k = 0; good && r->list && k < a->n; k++) good = a->u.list[k].kind == CR_ARG_TENSOR;
    return good ? CR_OK
                : CR_FAIL(CR_ERUNTIME, "%s: result %u must be a %s by its schema, the implementation gave %s", op->name,
                          i, r->list ? "list of tensors" : "tensor", kind_name(a));
}

const cr_tensor *cr_args_find_shared(const cr_arg *args, size_t n, const cr_tensor *t) {
    for (size_t i = 0; i < n; i++) {
        if (args[i].kind == CR_ARG_LIST) {
            const cr_tensor *found = cr_args_find_shared(args[i].u.list, args[i].n, t);
            if (found) return found;
        }
        if (args[i].kind == CR_ARG_TENSOR && args[i].u.t->storage == t->storage && t->storage) return args[i].u.t;
    }
    return NULL;
}

/* Graphs and their passes trust that a result is memory of its own. */
static cr_status check_fresh(const cr_op *op, const cr_arg *args, const cr_arg *results, uint16_t i, const cr_arg *a) {
    for (uint32_t k = 0; a->kind == CR_ARG_LIST && k < a->n; k++)
        CR_TRY(check_fresh(op, args, results, i, &a->u.list[k]));
    if (a->kind != CR_ARG_TENSOR || op->schema.returns[i].alias) return CR_OK;
    bool shared = cr_args_find_shared(args, op->schema.nparams, a->u.t) || cr_args_find_shared(results, i, a->u.t);
    return shared ? CR_FAIL(CR_ERUNTIME,
                            "%s: result %u shares memory with an argument or another result, which a custom operator's "
                            "must not; return a copy: y.clone()",
                            op->name, i)
                  : CR_OK;
}

static cr_status check_results(const cr_op *op, const cr_arg *args, const cr_arg *results) {
    for (uint16_t i = 0; i < op->schema.nreturns; i++) CR_TRY(check_result(op, i, &results[i]));
    for (uint16_t i = 0; i < op->schema.nreturns; i++) CR_TRY(check_fresh(op, args, results, i, &results[i]));
    return CR_OK;
}

/* ---- calls ---- */

static cr_status call_custom(cr_emitter *e, const cr_op *op, const cr_arg *args, cr_arg *results) {
    cr_custom *c = cr_custom_get(op);
    cr_call_mode *mode = &cr_ambient_get()->mode, saved = *mode;
    cr_env *env = e->env ? e->env : mode->env;
    bool fake = cr_args_have_fake(args, op->schema.nparams, &env) || mode->fake;
    cr_status status;
    for (uint16_t i = 0; i < op->schema.nreturns; i++) results[i] = cr_arg_none();
    if (fake) {
        mode->fake = true;
        mode->env = env;
        mode->recorder = NULL;
        status = c->fake ? c->fake(c->user, op, env, args, results)
                         : CR_FAIL(CR_ERUNTIME,
                                   "%s has no fake rule: recording and export need one that gives its results' dtypes "
                                   "and sizes",
                                   op->name);
        mode->fake = saved.fake;
        mode->env = saved.env;
        mode->recorder = saved.recorder;
    } else {
        status = c->run ? c->run(c->user, op, args, results)
                        : CR_FAIL(CR_ENOTIMPL, "%s has no implementation for the CPU", op->name);
    }
    if (status) return status;
    cr__bump_written(&op->schema, args);
    status = check_results(op, args, results);
    if (status) cr_results_release(results, op->schema.nreturns);
    return status;
}

cr_status cr_custom_derive(const cr_op *op, const cr_arg *args, cr_arg *results, bool *done) {
    cr_custom *c = cr_custom_get(op);
    *done = false;
    if (!c->derive) return CR_OK;
    for (uint16_t i = 0; i < op->schema.nreturns; i++) results[i] = cr_arg_none();
    CR_TRY(c->derive(c->user, op, args, results, done));
    if (!*done) return CR_OK;
    cr_status status = check_results(op, args, results);
    if (status) cr_results_release(results, op->schema.nreturns);
    return status;
}

cr_custom *cr_custom_get(const cr_op *op) { return op->row->decomp_fn == call_custom ? (cr_custom *)op->row : NULL; }

/* ---- registering ---- */

static bool is_reserved(const char *schema) {
    static const char *const names[] = { "aten",         "prim",      "prims", "cresset",
                                         "higher_order", "_operator", "torch", "math" };
    size_t n = strcspn(schema, ":");
    for (size_t i = 0; i < CR_COUNT(names); i++)
        if (strlen(names[i]) == n && !strncmp(schema, names[i], n)) return true;
    return false;
}

cr_status cr_custom_register(cr_custom *custom, const cr_op **out) {
    const char *schema = custom->row.schema;
    if (!strstr(schema, "::"))
        return CR_FAIL(CR_EVALUE,
                       "a custom operator's schema begins with its namespace: \"mylib::name(Tensor x) -> Tensor\", not "
                       "\"%s\"",
                       schema);
    if (is_reserved(schema))
        return CR_FAIL(CR_EVALUE, "the namespace '%.*s' is Cresset's own; choose another for custom operators",
                       (int)strcspn(schema, ":"), schema);
    custom->row.tags = CR_TAG_CUSTOM;
    custom->row.decomp_fn = call_custom;
    return cr_op_register(&custom->row, out);
}
