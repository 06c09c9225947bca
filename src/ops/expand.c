/* expand.c: calls by name, and runs of them. Every value is owned once, in `made`; what a caller keeps is moved out
 * of it. */
#include "ops/expand.h"

cr_status cr_emit_call(cr_emitter *e, const char *name, const cr_arg *args, size_t n, cr_arg *out) {
    const cr_op *op = cr_op_find(name);
    cr_arg all[CR_MAX_PARAMS], results[16] = { { 0 } };
    if (!op) return CR_FAIL(CR_ENOTFOUND, "there is no op '%s'", name);
    if (n > op->schema.nparams)
        return CR_FAIL(CR_EVALUE, "%s takes %u arguments, not %zu", name, op->schema.nparams, n);
    for (uint16_t i = 0; i < op->schema.nparams; i++) {
        all[i] = i < n ? args[i] : op->schema.params[i].fallback;
        if (i >= n) all[i].given = CR_GIVEN_DEFAULT;
    }
    CR_TRY(e->call(e, op, all, results));
    *out = results[0];
    if (cr_result_count(op) > 1) e->release(e, results + 1, cr_result_count(op) - 1u);
    return CR_OK;
}

const cr_arg *cr__run_call(cr__run *r, const char *name, int n, const cr_arg *given) {
    static const cr_arg none[16];
    const cr_op *op = r->status ? NULL : cr_op_find(name);
    cr_arg args[CR_MAX_PARAMS];
    if (r->status) return none;
    if (!op) r->status = CR_FAIL(CR_ENOTFOUND, "there is no op '%s'", name);
    else r->status = cr_vec_reserve(&r->made, r->made.n + op->schema.nreturns);
    if (r->status) return none;
    for (int i = 0; i < op->schema.nparams; i++) args[i] = i < n ? given[i] : op->schema.params[i].fallback;
    r->status = r->e->call(r->e, op, args, r->made.at + r->made.n);
    if (r->status) return none;
    r->made.n += op->schema.nreturns;
    return &r->made.at[r->made.n - op->schema.nreturns];
}

static bool is_same(const cr_arg *a, const cr_arg *b) { return a->kind == b->kind && a->u.i == b->u.i; }

void cr__run_trim(cr__run *r, size_t mark, int nkept, const cr_arg *kept) {
    size_t n = mark;
    for (size_t i = mark; i < r->made.n; i++) {
        bool stays = false;
        for (int k = 0; k < nkept; k++) stays |= is_same(&r->made.at[i], &kept[k]);
        if (stays) r->made.at[n++] = r->made.at[i];
        else r->e->release(r->e, &r->made.at[i], 1);
    }
    r->made.n = n;
}

static bool is_made(const cr__run *r, const cr_arg *value) {
    for (size_t i = 0; i < r->made.n; i++)
        if (is_same(&r->made.at[i], value)) return true;
    return false;
}

cr_status cr__run_finish(cr__run *r, int n, const cr_arg *values, cr_arg *results) {
    cr_arg kept[16] = { { 0 } };
    for (int i = 0; i < n; i++)
        kept[i] = r->status || values[i].kind == CR_ARG_NONE || is_made(r, &values[i]) ? values[i]
                                                                                       : CR_RUN(r, "alias", values[i]);
    if (r->status) n = 0;
    cr__run_trim(r, 0, n, kept);
    for (int i = 0; i < n; i++) results[i] = kept[i];
    cr_vec_dispose(&r->made);
    return r->status;
}

const cr_meta *cr__run_meta(cr__run *r, const cr_arg *a) {
    static const cr_meta none;
    const cr_meta *m = NULL;
    if (!r->status) r->status = r->e->meta(r->e, a, &m);
    return m ? m : &none;
}

cr_arg cr__run_item(cr__run *r, const cr_arg *list, uint32_t i) {
    if (!r->status && (list->kind != CR_ARG_LIST || i >= list->n))
        r->status = CR_FAIL(CR_ERUNTIME, "expected a list of at least %u tensors", i + 1);
    return r->status ? cr_arg_none() : list->u.list[i];
}
