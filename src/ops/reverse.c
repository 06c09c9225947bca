/* reverse.c: the tape of reverse.h. Every record owns copies of its arguments and results, so that a value stays alive,
 * and its address means it alone, as long as the tape exists. Ops without a derivative of their own are expanded while
 * they are recorded: only what cr_grad_expand knows directly is ever on the tape. */
#include "ops/reverse.h"

#include "ops/formula_eval.h"

/* Identity of a tensor value: kind and pointer or id. */
typedef struct value_key { uint64_t kind, id; } value_key;
static value_key key_of(const cr_arg *a) {
    return (value_key){ a->kind, a->kind == CR_ARG_TENSOR ? (uint64_t)(uintptr_t)a->u.t : (uint64_t)a->u.i };
}

static bool is_live(const cr_tape *tape, const cr_arg *a) {
    if (a->kind == CR_ARG_LIST) {
        for (uint32_t i = 0; i < a->n; i++)
            if (is_live(tape, &a->u.list[i])) return true;
        return false;
    }
    value_key key = key_of(a);
    return cr__arg_is_tensor(a) && cr_map_find(&tape->live, &key, sizeof key, NULL);
}

static cr_status make_live(cr_tape *tape, const cr_arg *a) {
    if (a->kind == CR_ARG_LIST) {
        for (uint32_t i = 0; i < a->n; i++) CR_TRY(make_live(tape, &a->u.list[i]));
        return CR_OK;
    }
    value_key key = key_of(a);
    return cr__arg_is_tensor(a) ? cr_map_put(&tape->live, &key, sizeof key, 1) : CR_OK;
}

static cr_status copy_all(const cr_arg *from, size_t n, cr_arg *to) {
    for (size_t i = 0; i < n; i++) {
        cr_status status = cr__copy_out(&from[i], &to[i]);
        if (status) {
            cr_results_release(to, i);
            return status;
        }
    }
    return CR_OK;
}

static cr_status add_record(cr_tape *tape, const cr_op *op, const cr_arg *args, const cr_arg *results) {
    size_t nargs = op->schema.nparams, nresults = op->schema.nreturns;
    CR_TRY(cr_vec_reserve(&tape->records, tape->records.n + 1));
    cr_arg *block = cr_calloc(nargs + nresults + 1, sizeof *block);
    if (!block) return CR_ENOMEM;
    cr_status status = copy_all(args, nargs, block);
    if (!status) {
        status = copy_all(results, nresults, block + nargs);
        if (status) cr_results_release(block, nargs);
    }
    if (status) {
        cr_free(block);
        return status;
    }
    tape->records.at[tape->records.n++] = (cr_tape_record){ op, block, block + nargs };
    for (size_t i = 0; i < nresults; i++) {
        const cr_arg *first = results[i].kind == CR_ARG_LIST && results[i].n ? &results[i].u.list[0] : &results[i];
        const cr_meta *m;
        bool flows;
        CR_TRY(tape->inner->meta(tape->inner, first, &m));
        CR_TRY(cr_grad_comes_back(op, (int)i, m, &flows));
        if (flows) CR_TRY(make_live(tape, &results[i]));
    }
    return CR_OK;
}

static cr_status tape_call(cr_emitter *e, const cr_op *op, const cr_arg *args, cr_arg *results) {
    cr_tape *tape = (cr_tape *)e;
    size_t nresults = op->schema.nreturns;
    bool live = false, direct = false;
    if (nresults > CR__MAX_RESULTS)
        return CR_FAIL(CR_EUNSUPPORTED, "%s has more than %d results", op->name, CR__MAX_RESULTS);
    if (tape->recomputes && cr_op_draws(op, args))
        return CR_FAIL(CR_EUNSUPPORTED,
                       "%s draws random numbers, and its caller's derivative would draw others; give the caller a "
                       ".grad",
                       op->name);
    uint64_t needs = 0;
    for (int i = 0; i < op->schema.nparams; i++) needs |= (uint64_t)is_live(tape, &args[i]) << i;
    if (needs) CR_TRY(cr_grad_reaches(op, needs, &live));
    if (live) {
        if (op->variant != CR_FUNCTIONAL)
            return CR_FAIL(CR_EUNSUPPORTED, "%s writes to a tensor that is differentiated; use the functional form",
                           op->name);
        CR_TRY(cr_grad_is_direct(op, &direct));
        if (!direct && (op->row->decomp || op->row->decomp_fn)) return cr_decomp_expand(e, op, args, results);
    }
    cr_arg made[CR__MAX_RESULTS];
    CR_TRY(tape->inner->call(tape->inner, op, args, made));
    cr_status status = copy_all(made, nresults, results);
    tape->inner->release(tape->inner, made, nresults);
    if (!status && live) {
        status = add_record(tape, op, args, results);
        if (status) cr_results_release(results, nresults);
    }
    return status;
}

static cr_status tape_meta(cr_emitter *e, const cr_arg *arg, const cr_meta **out) {
    cr_emitter *inner = ((cr_tape *)e)->inner;
    return inner->meta(inner, arg, out);
}

static void tape_release(cr_emitter *e, cr_arg *results, size_t n) {
    (void)e;
    cr_results_release(results, n);
}

void cr_tape_init(cr_tape *tape, cr_emitter *inner) {
    *tape = (cr_tape){ .emitter = { tape_call, tape_meta, tape_release, inner->env }, .inner = inner };
    cr_map_init(&tape->live);
}

void cr_tape_dispose(cr_tape *tape) {
    for (size_t i = 0; i < tape->records.n; i++) {
        const cr_tape_record *r = &tape->records.at[i];
        cr_results_release(r->args, r->op->schema.nparams + (size_t)r->op->schema.nreturns);
        cr_free(r->args);
    }
    cr_results_release(tape->watched.at, tape->watched.n);
    cr_vec_dispose(&tape->records);
    cr_vec_dispose(&tape->watched);
    cr_map_dispose(&tape->live);
}

cr_status cr_tape_watch(cr_tape *tape, const cr_arg *value) {
    CR_TRY(cr_vec_reserve(&tape->watched, tape->watched.n + 1));
    CR_TRY(make_live(tape, value));
    CR_TRY(cr__copy_out(value, &tape->watched.at[tape->watched.n]));
    tape->watched.n++;
    return CR_OK;
}

/* ---- the walk ---- */

typedef struct sums {
    cr_emitter *into;
    const cr_op *add;
    cr_map index;         /* value_key -> place in `at` */
    CR_VEC(cr_arg) at;    /* owned as cr_results_release wants; NONE when taken */
} sums;

static cr_arg *find_sum(sums *s, const cr_arg *value) {
    value_key key = key_of(value);
    uint64_t at;
    return cr__arg_is_tensor(value) && cr_map_find(&s->index, &key, sizeof key, &at) ? &s->at.at[at] : NULL;
}

/* Adds `grad` (borrowed) to the gradient of `value`. */
static cr_status add_to(sums *s, const cr_arg *value, const cr_arg *grad) {
    if (grad->kind == CR_ARG_NONE) return CR_OK;
    if (value->kind == CR_ARG_LIST) {
        if (grad->kind != CR_ARG_LIST || grad->n != value->n)
            return CR_FAIL(CR_EVALUE, "the gradient of a list must be a list of as many tensors");
        for (uint32_t i = 0; i < value->n; i++) CR_TRY(add_to(s, &value->u.list[i], &grad->u.list[i]));
        return CR_OK;
    }
    if (!cr__arg_is_tensor(value)) return CR_OK;
    cr_arg *sum = find_sum(s, value);
    if (!sum) {
        value_key key = key_of(value);
        CR_TRY(cr_vec_push(&s->at, cr_arg_none()));
        CR_TRY(cr_map_put(&s->index, &key, sizeof key, s->at.n - 1));
        sum = &s->at.at[s->at.n - 1];
    }
    if (sum->kind == CR_ARG_NONE) return cr__copy_out(grad, sum);
    if (!s->add && !(s->add = cr_op_find("aten::add.Tensor")))
        return CR_FAIL(CR_ENOTFOUND, "there is no op 'aten::add.Tensor'");
    cr_arg args[3] = { *sum, *grad, cr_arg_int(1) }, total, copy;
    args[2].given = CR_GIVEN_DEFAULT;
    CR_TRY(s->into->call(s->into, s->add, args, &total));
    cr_status status = cr__copy_out(&total, &copy);
    s->into->release(s->into, &total, 1);
    if (status) return status;
    cr_results_release(sum, 1);
    *sum = copy;
    return CR_OK;
}

/* Moves the gradient of `value` into *out (a LIST for a list, with NONE entries); NONE when there is none. */
static cr_status take(sums *s, const cr_arg *value, cr_arg *out, bool *any) {
    *out = cr_arg_none();
    if (value->kind != CR_ARG_LIST) {
        cr_arg *sum = find_sum(s, value);
        if (!sum) return CR_OK;
        *out = *sum;
        *sum = cr_arg_none();
        *any |= out->kind != CR_ARG_NONE;
        return CR_OK;
    }
    cr_arg *items = cr_calloc(value->n ? value->n : 1, sizeof *items);
    if (!items) return CR_ENOMEM;
    bool some = false;
    /* items of lists are no lists */
    for (uint32_t i = 0; i < value->n; i++) CR_TRY(take(s, &value->u.list[i], &items[i], &some));
    if (some) *out = cr_arg_list(items, value->n);
    else cr_free(items);
    *any |= some;
    return CR_OK;
}

static cr_status walk_record(const cr_tape *tape, sums *s, const cr_tape_record *r) {
    const cr_schema *schema = &r->op->schema;
    cr_arg grads[CR__MAX_RESULTS], made[CR_MAX_PARAMS];
    bool any = false, needs[CR_MAX_PARAMS];
    int ngrads = 0;
    cr_status status = CR_OK;
    for (int i = 0; i < schema->nparams; i++) made[i] = cr_arg_none();
    for (; ngrads < schema->nreturns; ngrads++) CR_TRY_OUT(take(s, &r->results[ngrads], &grads[ngrads], &any));
    if (!any) goto out;
    for (int i = 0; i < schema->nparams; i++) needs[i] = is_live(tape, &r->args[i]);
    CR_TRY_OUT(cr_grad_expand(s->into, r->op, r->args, r->results, grads, needs, made));
    for (int i = 0; i < schema->nparams; i++)
        if (needs[i]) CR_TRY_OUT(add_to(s, &r->args[i], &made[i]));
out:
    cr_results_release(grads, (size_t)ngrads);
    cr_results_release(made, schema->nparams);
    return status;
}

cr_status cr_tape_backward(cr_tape *tape, cr_emitter *into, const cr_arg *outs, const cr_arg *grads, size_t nouts,
                           const cr_arg *wrt, size_t nwrt, cr_arg *grad_out) {
    sums s = { .into = into };
    cr_map_init(&s.index);
    cr_status status = CR_OK;
    size_t given = 0;
    for (size_t i = 0; i < nouts; i++)
        if (is_live(tape, &outs[i])) CR_TRY_OUT(add_to(&s, &outs[i], &grads[i]));
    for (size_t i = tape->records.n; i-- > 0;) { /* `into` may append to this tape: the record is copied out */
        cr_tape_record record = tape->records.at[i];
        CR_TRY_OUT(walk_record(tape, &s, &record));
    }
    for (; given < nwrt; given++) {
        bool any = false;
        CR_TRY_OUT(take(&s, &wrt[given], &grad_out[given], &any));
    }
out:
    if (status) cr_results_release(grad_out, given);
    cr_results_release(s.at.at, s.at.n);
    cr_vec_dispose(&s.at);
    cr_map_dispose(&s.index);
    return status;
}

/* ---- one op ---- */

cr_status cr__reverse_decomp(cr_emitter *e, const cr_op *op, const cr_arg *args, const cr_arg *grads, const bool *needs,
                             cr_arg *grad_out) {
    cr_tape tape;
    cr_tape_init(&tape, e);
    tape.recomputes = true;
    cr_arg results[CR__MAX_RESULTS], wrt[CR_MAX_PARAMS];
    cr_status status = CR_OK;
    bool ran = false;
    for (int i = 0; i < op->schema.nparams; i++) {
        wrt[i] = needs[i] ? args[i] : cr_arg_none();
        CR_TRY_OUT(cr_tape_watch(&tape, &wrt[i]));
    }
    CR_TRY_OUT(cr_decomp_expand(&tape.emitter, op, args, results));
    ran = true;
    CR_TRY_OUT(cr_tape_backward(&tape, e, results, grads, op->schema.nreturns, wrt, op->schema.nparams, grad_out));
out:
    if (ran) cr_results_release(results, op->schema.nreturns);
    cr_tape_dispose(&tape);
    return status;
}

/* The exec emitter with the symbols of these tensors. */
static cr_emitter exec_for(const cr_arg *args, size_t n) {
    cr_emitter exec = *cr_exec_emitter();
    for (size_t i = 0; i < n; i++) {
        const cr_arg *items = args[i].kind == CR_ARG_LIST ? args[i].u.list : &args[i];
        for (uint32_t k = 0; k < (args[i].kind == CR_ARG_LIST ? args[i].n : 1); k++)
            if (items[k].kind == CR_ARG_TENSOR && items[k].u.t->env) exec.env = items[k].u.t->env;
    }
    return exec;
}

cr_status cr_reverse(const cr_op *op, const cr_arg *args, const cr_arg *results, const cr_arg *grads, const bool *needs,
                     cr_arg *grad_out) {
    cr_emitter exec = exec_for(args, op->schema.nparams);
    return cr_grad_expand(&exec, op, args, results, grads, needs, grad_out);
}

cr_status cr_reverse_call(const cr_op *op, const cr_arg *args, const cr_arg *grads, const bool *needs, cr_arg *results,
                          cr_arg *grad_out) {
    cr_emitter exec = exec_for(args, op->schema.nparams);
    cr_tape tape;
    cr_tape_init(&tape, &exec);
    cr_arg wrt[CR_MAX_PARAMS];
    cr_status status = CR_OK;
    for (int i = 0; i < op->schema.nparams; i++) {
        wrt[i] = needs[i] ? args[i] : cr_arg_none();
        CR_TRY_OUT(cr_tape_watch(&tape, &wrt[i]));
    }
    CR_TRY_OUT(tape.emitter.call(&tape.emitter, op, args, results));
    status = cr_tape_backward(&tape, &exec, results, grads, op->schema.nreturns, wrt, op->schema.nparams, grad_out);
    if (status) cr_results_release(results, op->schema.nreturns);
out:
    cr_tape_dispose(&tape);
    return status;
}

cr_status cr_reverse_twice(const cr_op *op, const cr_arg *args, const cr_arg *grads, const bool *needs,
                           const cr_arg *weights, cr_arg *grad_args, cr_arg *grad_seeds) {
    size_t nparams = op->schema.nparams, nreturns = op->schema.nreturns;
    if (nreturns > CR__MAX_RESULTS)
        return CR_FAIL(CR_EUNSUPPORTED, "%s has more than %d results", op->name, CR__MAX_RESULTS);
    cr_emitter exec = exec_for(args, nparams);
    cr_tape tape;
    cr_tape_init(&tape, &exec);
    cr_arg results[CR__MAX_RESULTS], wrt[CR_MAX_PARAMS + CR__MAX_RESULTS], first[CR_MAX_PARAMS],
        second[CR_MAX_PARAMS + CR__MAX_RESULTS];
    cr_status status = CR_OK;
    bool ran = false, walked = false;
    for (size_t i = 0; i < nparams; i++) wrt[i] = needs[i] ? args[i] : cr_arg_none();
    for (size_t i = 0; i < nreturns; i++) wrt[nparams + i] = grads[i];
    for (size_t i = 0; i < nparams + nreturns; i++) CR_TRY_OUT(cr_tape_watch(&tape, &wrt[i]));
    CR_TRY_OUT(tape.emitter.call(&tape.emitter, op, args, results));
    ran = true;
    CR_TRY_OUT(cr_tape_backward(&tape, &tape.emitter, results, grads, nreturns, wrt, nparams, first));
    walked = true;
    CR_TRY_OUT(cr_tape_backward(&tape, &exec, first, weights, nparams, wrt, nparams + nreturns, second));
    memcpy(grad_args, second, nparams * sizeof *second);
    memcpy(grad_seeds, second + nparams, nreturns * sizeof *second);
out:
    if (walked) cr_results_release(first, nparams);
    if (ran) cr_results_release(results, nreturns);
    cr_tape_dispose(&tape);
    return status;
}
