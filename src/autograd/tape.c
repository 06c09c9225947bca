/* tape.c: what cr_call asks when an argument requires grad: the op runs untaped, and its results get a node.
 *
 * An op with a derivative of its own is one node; any other is the calls of its decomposition, each of which comes back
 * here. A write to a tensor gives it another node; a write to a view gives one to its root, too. */
#include "autograd/internal.h"

#include "ops/custom.h"
#include "ops/rules.h"

static cr_status call_named(const char *name, const cr_arg *args, size_t n, cr_tensor **out) {
    cr_ambient *ambient = cr_ambient_get();
    ambient->untaped = true;
    cr_status status = cr_call_1(name, args, n, out);
    ambient->untaped = false;
    return status;
}

/* ---- what may be written ---- */

cr_status cr__refuse_leaf(const cr_op *op, bool view) {
    return CR_FAIL(CR_ERUNTIME,
                   "%s: a %sleaf Variable that requires grad is being used in an in-place operation; write inside of "
                   "no_grad()",
                   op->schema.name, view ? "view of a " : "");
}

cr_status cr__refuse_resize(const cr_op *op) {
    return CR_FAIL(CR_ERUNTIME, "%s: cannot resize variables that require grad; use reshape() or indexing",
                   op->schema.name);
}

cr_status cr__refuse_out(const cr_op *op) {
    return CR_FAIL(CR_ERUNTIME,
                   "%s(): functions with out=... arguments don't support automatic differentiation, but one of the "
                   "arguments requires grad",
                   op->schema.name);
}

static cr_status check_write(const cr_op *op, cr_tensor *t) {
    if (t->base) CR_TRY(cr__check_view(op->schema.name, t, false));
    if (!cr_tensor_requires_grad(t)) return CR_OK;
    bool view = t->base && cr_autograd_is_leaf(t->base);
    return view || cr_autograd_is_leaf(t) ? cr__refuse_leaf(op, view) : CR_OK;
}

/* set_ gives a tensor other memory; resize_ and resize_as_, the other ops of its tag, have no place among gradients. */
bool cr__is_set(const cr_op *op) { return op->base->row->shape == shape_set; }

static cr_status check_writes(const cr_op *op, const cr_arg *args) {
    for (uint16_t i = 0; i < op->schema.nparams; i++) {
        if (!op->schema.params[i].writes) continue;
        bool self = !i && (op->variant == CR_INPLACE || cr__is_set(op)) && args[0].kind == CR_ARG_TENSOR;
        if (self) CR_TRY(check_write(op, args[0].u.t));
        else if (op->base->tags & CR_TAG_METADATA) return cr__refuse_resize(op);
        else if (cr_arg_requires_grad(&args[i]))
            return CR_FAIL(CR_ENOTIMPL, "%s writes to '%s', which requires grad: there is no derivative for that",
                           op->schema.name, op->schema.params[i].name);
    }
    return CR_OK;
}

/* ---- one node ---- */

/* What one look at the arguments tells: which require grad (a bit for each), and is a fake among them? */
typedef struct look { uint64_t needs; bool fake; } look;

static inline void look_at(const cr_arg *a, uint64_t bit, look *seen);
static void look_into(const cr_arg *list, uint64_t bit, look *seen) {
    for (uint32_t i = 0; i < list->n; i++) look_at(&list->u.list[i], bit, seen);
}
static inline void look_at(const cr_arg *a, uint64_t bit, look *seen) {
    if (a->kind == CR_ARG_TENSOR) {
        if (cr_tensor_requires_grad(a->u.t)) seen->needs |= bit;
        seen->fake |= cr_tensor_is_fake(a->u.t);
    } else if (a->kind == CR_ARG_LIST) {
        look_into(a, bit, seen);
    }
}

/* A bit per result that a gradient can flow through. */
static inline uint32_t find_flows(const cr_op *op, const cr_op_formulas *formulas, const cr_arg *results) {
    uint32_t flows = 0;
    for (uint16_t i = 0; i < op->schema.nreturns; i++) {
        const cr_arg *first = results[i].kind == CR_ARG_LIST && results[i].n ? results[i].u.list : &results[i];
        if (first->kind == CR_ARG_TENSOR && !cr_dtype_is_integral(first->u.t->meta.dtype)) flows |= 1u << i;
    }
    return formulas->has_grad ? flows & ~formulas->grad.constants : flows;
}

static bool is_argument(const cr_arg *args, size_t n, const cr_tensor *t) {
    for (size_t i = 0; i < n; i++) {
        if (args[i].kind == CR_ARG_TENSOR && args[i].u.t == t) return true;
        if (args[i].kind == CR_ARG_LIST && is_argument(args[i].u.list, args[i].n, t)) return true;
    }
    return false;
}

/* Has nobody seen it yet, and is it nobody's view? */
static inline bool is_fresh(const cr_tensor *t) {
    return __atomic_load_n(&t->refs, __ATOMIC_RELAXED) == 1 && !t->base && !t->autograd && !t->fn;
}

/* cr__autograd_set_fn of a fresh one. */
static inline void set_fresh(cr_tensor *t, cr_grad_node *node, uint32_t result) {
    t->fn = node;
    t->result = result;
    cr__require_grad(t);
}

/* The results are the node's from now on, where a gradient can flow through them, as it can through one of them.
 * *handed: the caller's reference is the first one's. */
static cr_status attach(const cr_op *op, const cr_arg *args, const cr_arg *results, uint32_t flowing,
                        cr_grad_node *node, bool *handed) {
    uint32_t at = 0;
    cr_tensor *only = op->schema.nreturns == 1 && results->kind == CR_ARG_TENSOR ? results->u.t : NULL;
    if (only && is_fresh(only)) { /* most calls */
        set_fresh(only, node, 0);
        *handed = true;
        return CR_OK;
    }
    for (uint16_t i = 0; i < op->schema.nreturns; i++) {
        const cr_arg *items = results[i].kind == CR_ARG_LIST ? results[i].u.list : &results[i];
        uint32_t n = results[i].kind == CR_ARG_LIST ? results[i].n : 1;
        for (uint32_t k = 0; k < n; k++) {
            if (items[k].kind != CR_ARG_TENSOR) continue;
            cr_tensor *t = items[k].u.t;
            uint32_t result = at++;
            bool flows = flowing >> i & 1;
            if (n > 1) CR_TRY(cr_grad_flows(op->base, i, &t->meta, &flows)); /* the mask says it of the first */
            bool shared = __atomic_load_n(&t->refs, __ATOMIC_RELAXED) != 1; /* else it is new */
            bool given = shared && op->variant != CR_INPLACE && is_argument(args, op->schema.nparams, t);
            if (!flows || given) continue;
            if (*handed) cr_grad_node_retain(node);
            *handed = true;
            if (is_fresh(t)) set_fresh(t, node, result);
            else CR_TRY(cr__autograd_set_fn(t, node, result));
        }
    }
    return CR_OK;
}

cr_status cr__attach_view(cr_tensor *v, cr_grad_node *node) {
    cr_grad_node *root;
    CR_TRY(cr__node_of_root(v, node, &root));
    CR_TRY(cr__autograd_set_fn(v->base, root, 0));
    __atomic_store_n(&v->written, UINT64_MAX, __ATOMIC_RELAXED); /* not the root's: it is read off before it is used */
    cr__require_grad(v);
    return CR_OK;
}

/* The first argument as it is before the call: its elements where the derivative reads them, else its shape. */
static cr_status keep_self(cr_tensor *self, bool elements, cr_tensor **out) {
    cr_arg a = cr_arg_tensor(self);
    if (elements) return call_named("aten::clone", &a, 1, out);
    cr_meta meta;
    cr_meta_copy(&meta, &self->meta);
    meta.flags &= (uint8_t)~CR_META_REQUIRES_GRAD;
    return cr_tensor_create_fake(NULL, &meta, out);
}

static cr_status record(const cr_ambient *at, const cr_op *op, const cr_arg *args, const cr_arg *results,
                        uint32_t flows, const cr_saved *saved, bool underived, cr_tensor *before) {
    cr_grad_node *node;
    bool inplace = op->variant == CR_INPLACE, handed = false;
    CR_TRY(cr__node_create(op->base, args, results, saved, before, &node));
    node->underived = underived;
    bool view = inplace && args[0].u.t->base;
    cr_status status = view ? cr__attach_view(args[0].u.t, node) : attach(op, args, results, flows, node, &handed);
    if (!status && at->saved) status = cr__saved_pack(at->saved, node, args, results, before);
    if (!handed) cr_grad_node_release(node);
    return status;
}

/* A formulas->plain one. */
static cr_status call_plain(cr_ambient *at, const cr_op *op, const cr_op_formulas *formulas, const cr_arg *args,
                            uint64_t needs, cr_arg *results) {
    CR_TRY(cr_call_untaped(at, op, args, results));
    uint32_t flows = find_flows(op, formulas, results);
    if (!flows || !cr_formulas_reach(formulas, needs)) return CR_OK;
    cr_saved other;
    const cr_saved *saved = cr_saved_known(formulas, needs, flows);
    cr_status status = saved ? CR_OK : cr_grad_saved(op, args, results, needs, flows, &other);
    if (!status) status = record(at, op, args, results, flows, saved ? saved : &other, false, NULL);
    if (status) cr_results_release(results, cr_result_count(op));
    return status;
}

static cr_status call_recorded(cr_ambient *at, const cr_op *op, const cr_op_formulas *formulas, const cr_arg *args,
                               uint64_t needs, bool underived, cr_arg *results) {
    bool inplace = op->variant == CR_INPLACE;
    uint32_t flows;
    cr_tensor *before = NULL;
    cr_saved saved = { 0 };
    if (op->schema.nreturns > CR__MAX_RESULTS)
        return CR_FAIL(CR_EUNSUPPORTED, "%s has more than %d results", op->name, CR__MAX_RESULTS);
    if (inplace) {
        flows = find_flows(op, formulas, args);
        if (!underived) CR_TRY(cr_grad_saved(op, args, args, needs, flows, &saved));
        for (uint16_t i = 1; i < op->schema.nparams; i++) /* before anything is written */
            if (saved.args >> i & 1 && args[i].kind == CR_ARG_TENSOR) CR_TRY(cr__check_saved(args[i].u.t));
        CR_TRY(keep_self(args[0].u.t, saved.args & 1, &before));
    }
    cr_status status = cr_call_untaped(at, op, args, results);
    if (status) {
        cr_tensor_release(before);
        return status;
    }
    flows = find_flows(op, formulas, results);
    if (!flows && inplace && cr_tensor_requires_grad(args[0].u.t))
        CR_TRY_OUT(CR_FAIL(CR_ENOTIMPL,
                           "%s has no derivative, and its result was written to a tensor that requires grad",
                           op->name));
    if (!flows) goto out;
    if (!inplace && !underived) CR_TRY_OUT(cr_grad_saved(op, args, results, needs, flows, &saved));
    CR_TRY_OUT(record(at, op, args, results, flows, &saved, underived, before));
out:
    cr_tensor_release(before);
    if (status) cr_results_release(results, cr_result_count(op));
    return status;
}

/* ---- by its parts ---- */

static cr_status call_parts(const cr_op *op, const cr_arg *args, uint64_t mask, cr_arg *results) {
    bool needs[CR_MAX_PARAMS];
    for (uint16_t i = 0; i < op->schema.nparams; i++) needs[i] = mask >> i & 1;
    cr_ambient *ambient = cr_ambient_get();
    bool hidden = !ambient->transforms; /* derivatives are of the parts: a recorder is to know those */
    ambient->mode.depth += hidden;
    cr_status status;
    if (op->variant == CR_FUNCTIONAL) {
        status = cr_train_expand(cr_exec_emitter(), op, args, needs, results);
    } else {
        cr_arg made[CR__MAX_RESULTS] = { { 0 } };
        status = cr_train_expand(cr_exec_emitter(), op->base, args, needs, made);
        if (!status && made[0].kind != CR_ARG_TENSOR)
            status = CR_FAIL(CR_ENOTIMPL, "%s: there is no derivative of its in-place form; use the functional one",
                             op->name);
        if (!status) {
            cr_arg copy[2] = { args[0], made[0] };
            status = cr_call_1("aten::copy_", copy, 2, &results[0].u.t);
            if (!status) results[0] = cr_arg_tensor(results[0].u.t);
        }
        cr_results_release(made, op->base->schema.nreturns);
    }
    ambient->mode.depth -= hidden;
    return status ? cr_error_context(status, "%s", op->schema.name) : CR_OK;
}

/* ---- detach_() ---- */

static cr_status detach_self(cr_ambient *at, const cr_op *op, const cr_arg *args, cr_arg *results) {
    CR_TRY(cr_call_untaped(at, op, args, results)); /* takes the flag */
    cr_status status = cr_autograd_require(args[0].u.t, false);
    if (status) cr_results_release(results, 1);
    return status;
}

/* ---- set_() ---- */

/* From here on its history is one that no gradient passes. */
static cr_status call_set(cr_ambient *at, const cr_op *op, const cr_arg *args, cr_arg *results) {
    cr_grad_node *node;
    CR_TRY(cr_call_untaped(at, op, args, results));
    cr_status status = cr__node_create(op, args, results, &(cr_saved){ 0 }, NULL, &node);
    if (!status) {
        node->underived = true;
        cr_tensor *self = args[0].u.t;
        if (self->base) status = cr__attach_view(self, node);
        else cr_grad_node_retain(node), status = cr__autograd_set_fn(self, node, 0);
        cr_grad_node_release(node);
    }
    if (status) cr_results_release(results, 1);
    return status;
}

static cr_status tape_call(cr_ambient *at, const cr_op *op, const cr_arg *args, cr_arg *results) {
    look seen = { 0, false };
    for (uint16_t i = 0; i < op->schema.nparams; i++) look_at(&args[i], (uint64_t)1 << i, &seen);
    if (seen.fake && !at->transforms) return cr_call_untaped(at, op, args, results);
    const cr_op_formulas *formulas;
    CR_TRY(cr_op_formulas_get(op, &formulas));
    if (formulas->plain && op->variant == CR_FUNCTIONAL) return call_plain(at, op, formulas, args, seen.needs, results);
    if (op->variant == CR_OUT) return cr__refuse_out(op);
    if (op->variant == CR_INPLACE && op->base->row->shape == shape_detach) return detach_self(at, op, args, results);
    CR_TRY(check_writes(op, args));
    if (cr__is_set(op)) return call_set(at, op, args, results);
    bool custom = op->tags & CR_TAG_CUSTOM, parts = op->base->row->decomp || op->base->row->decomp_fn;
    if (custom) {
        bool done;
        cr_status status = cr_custom_derive(op, args, results, &done);
        if (status || done) return status;
    }
    if (op->variant == CR_INPLACE && args[0].u.t->base && (op->base->tags & CR_TAG_INPLACE_VIEW)) {
        CR_TRY(cr_call_untaped(at, op, args, results)); /* the view's geometry alone: it is read off its root again */
        return CR_OK;
    }
    if (formulas->direct && !custom) return call_recorded(at, op, formulas, args, seen.needs, false, results);
    if (!custom && parts) return call_parts(op, args, seen.needs, results);
    return call_recorded(at, op, formulas, args, seen.needs, true, results);
}

cr_status cr_autograd_init(void) {
    cr__autograd_dispose = cr__autograd_free;
    cr_tape_set(tape_call);
    return CR_OK;
}
