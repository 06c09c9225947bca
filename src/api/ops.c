/* ops.c: operators by name. */
#include "cresset/ops.h"

#include "ops/op.h"

const char *cr_op_name(const cr_op *op) { return op->name; }

const char *cr_op_schema(const cr_op *op) { return op->schema.text; }

size_t cr_op_result_count(const cr_op *op) { return cr_result_count(op); }

/* The op of that full name, or the first of all overloads where the name is theirs ("aten::add"). */
static cr_status find(const char *name, const cr_op **out, bool *only) {
    CR_TRY(cr_ops_init());
    const char *colons = strstr(name, "::");
    char ns[64];
    if (colons && !strchr(colons, '.') && (size_t)(colons - name) < sizeof ns) {
        memcpy(ns, name, (size_t)(colons - name));
        ns[colons - name] = 0;
        *only = false;
        if ((*out = cr_op_find_name(ns, colons + 2))) return CR_OK;
    }
    *only = true;
    *out = cr_op_find(name);
    if (*out) return CR_OK;
    return CR_FAIL(CR_ENOTFOUND, "there is no op '%s'; names are written aten::add or aten::add.Tensor", name);
}

static bool any_fake(const cr_arg *args, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (args[i].kind == CR_ARG_TENSOR && cr_tensor_is_fake(args[i].u.t)) return true;
        if (args[i].kind == CR_ARG_LIST && any_fake(args[i].u.list, args[i].n)) return true;
    }
    return false;
}

/* Sizes that depend on data are symbols of an environment that fake results keep; a number has nothing to keep it. */
static cr_status check_numbers(const cr_binding *b, const cr_arg *results, size_t n) {
    for (size_t i = 0; i < n; i++) {
        bool symbolic = results[i].kind == CR_ARG_SYM ||
                        (results[i].kind == CR_ARG_INT && (results[i].type || !cr_dim_is_plain(results[i].u.i)));
        if (symbolic)
            return CR_FAIL(CR_EDATADEP, "%s gives a number that depends on data, which a fake call does not have",
                           b->op->name);
    }
    return CR_OK;
}

static cr_status call_fake(const cr_binding *b, cr_arg *results, size_t n) {
    cr_call_mode *mode = &cr_ambient_get()->mode, saved = *mode;
    cr_env *made = NULL;
    if (!mode->env) CR_TRY(cr_env_create(&made));
    mode->fake = true;
    if (made) mode->env = made;
    cr_status status = cr_call(b->op, b->args, results);
    *mode = saved;
    if (!status && (status = check_numbers(b, results, n))) cr_results_release(results, n);
    cr_env_release(made);
    return status;
}

static cr_status call(const cr_binding *b, int flags, cr_arg *results, size_t n) {
    if (n != cr_result_count(b->op))
        return CR_FAIL(CR_EVALUE, "%s gives %u results, and there is room for %zu", b->op->name,
                       (unsigned)cr_result_count(b->op), n);
    for (size_t i = 0; i < n; i++) results[i] = cr_arg_none();
    bool fake = (flags & CR_CALL_FAKE) || any_fake(b->args, b->op->schema.nparams);
    return fake ? call_fake(b, results, n) : cr_call(b->op, b->args, results);
}

cr_status cr_op_call(const char *name, const cr_arg *args, size_t nargs, const cr_keyword *keywords, size_t nkeywords,
                     int flags, cr_arg *results, size_t nresults) {
    const cr_op *op;
    bool only;
    cr_arena arena;
    cr_binding binding;
    CR_TRY(find(name, &op, &only));
    cr_arena_init(&arena);
    cr_status status = cr_bind(op, only, args, nargs, keywords, nkeywords, &arena, &binding);
    if (!status) status = call(&binding, flags, results, nresults);
    cr_arena_dispose(&arena);
    return status;
}

void cr_arg_describe(const cr_arg *a, cr_str *out) { cr_arg_print(NULL, a, out); }
