/* library.c: custom operators from C (cresset/library.h): arguments as the public structs have them, results made by their shape function.
 *
 * Dtypes have the same numbers here and in the public header. A size that is symbolic is passed as the number that stands for it; the header asks
 * functions to treat sizes as opaque, so the same shape function serves both. */
#include "cresset/library.h"
#include "ops/custom.h"

#include <stdio.h>

_Static_assert((int)CRESSET_U8 == (int)CR_U8 && (int)CRESSET_F8E8M0FNU == (int)CR_F8E8M0FNU && (int)CRESSET_BOOL == (int)CR_BOOL, "dtypes have the same numbers");

typedef struct c_op { cr_custom custom; cresset_op_info info; } c_op;

/* ---- sizes ---- */

static cr_env *env_of(cresset_op_call *call) { return call->owner; }
static int64_t add(cresset_op_call *call, int64_t a, int64_t b) { return cr_dim_add(env_of(call), a, b); }
static int64_t subtract(cresset_op_call *call, int64_t a, int64_t b) { return cr_dim_sub(env_of(call), a, b); }
static int64_t multiply(cresset_op_call *call, int64_t a, int64_t b) { return cr_dim_mul(env_of(call), a, b); }
static int64_t divide(cresset_op_call *call, int64_t a, int64_t b) { return cr_dim_floordiv(env_of(call), a, b); }

/* ---- arguments ---- */

static cr_status give(const cr_op *op, const cr_arg *a, uint16_t i, bool data, cresset_value *out) {
    *out = (cresset_value){ .struct_size = sizeof *out, .kind = CRESSET_NONE };
    switch ((cr_arg_kind)a->kind) {
    case CR_ARG_NONE: return CR_OK;
    case CR_ARG_TENSOR: {
        const cr_meta *m = &a->u.t->meta;
        out->kind = CRESSET_TENSOR, out->dtype = m->dtype, out->rank = m->rank, out->size = m->size, out->stride = m->stride;
        if (data) out->data = cr_tensor_view(a->u.t).p;
        return CR_OK;
    }
    case CR_ARG_INT: out->kind = CRESSET_INT, out->integer = a->u.i; return CR_OK;
    case CR_ARG_BOOL: out->kind = CRESSET_BOOLEAN, out->integer = a->u.i; return CR_OK;
    case CR_ARG_FLOAT: out->kind = CRESSET_FLOAT, out->number = a->u.f; return CR_OK;
    case CR_ARG_STR: out->kind = CRESSET_STRING, out->data = (void *)(uintptr_t)a->u.s; return CR_OK;
    default: return CR_FAIL(CR_EUNSUPPORTED, "%s: argument '%s' is of a kind that C operators do not take", op->name, op->schema.params[i].name);
    }
}

typedef struct prepared { cresset_op_call call; cresset_value args[CRESSET_OP_MAX_ARGS]; cresset_op_result results[CRESSET_OP_MAX_RESULTS]; char message[256]; } prepared;

static cr_status prepare(c_op *o, const cr_op *op, cr_env *env, const cr_arg *args, bool data, prepared *p) {
    memset(p->results, 0, sizeof p->results);
    p->message[0] = 0;
    for (uint16_t i = 0; i < op->schema.nparams; i++) CR_TRY(give(op, &args[i], i, data, &p->args[i]));
    p->call = (cresset_op_call){ .struct_size = sizeof p->call, .op = op->name, .args = p->args, .nargs = op->schema.nparams, .results = p->results, .nresults = op->schema.nreturns,
                                 .user = o->info.user, .message = p->message, .room = sizeof p->message, .add = add, .subtract = subtract, .multiply = multiply, .divide = divide, .owner = env };
    return CR_OK;
}

static cr_status failed(const cr_op *op, const prepared *p, const char *what, int code) {
    return CR_FAIL(code == CRESSET_OUT_OF_MEMORY ? CR_ENOMEM : CR_ERUNTIME, "%s: its %s function failed: %s", op->name, what, *p->message ? p->message : "no message");
}

static cr_status shapes(c_op *o, const cr_op *op, prepared *p) {
    int code = o->info.shape(&p->call);
    if (code) return failed(op, p, "shape", code);
    for (uint16_t i = 0; i < op->schema.nreturns; i++) {
        const cresset_op_result *r = &p->results[i];
        if (r->rank < 0 || r->rank > CR_MAX_RANK || r->dtype < 0 || r->dtype >= CR_DTYPE_COUNT)
            return CR_FAIL(CR_ERUNTIME, "%s: its shape function gave result %u %d dims and dtype %d", op->name, i, r->rank, r->dtype);
        for (int d = 0; d < r->rank; d++)
            if (cr_dim_is_plain(r->size[d]) && r->size[d] < 0) return CR_FAIL(CR_ERUNTIME, "%s: its shape function gave result %u the size %lld", op->name, i, (long long)r->size[d]);
    }
    return CR_OK;
}

static cr_status make_results(const cr_op *op, cr_env *env, bool fake, prepared *p, cr_arg *results) {
    for (uint16_t i = 0; i < op->schema.nreturns; i++) {
        cr_tensor *t = NULL;
        cr_meta m;
        cr_meta_init(&m, p->results[i].dtype, (cr_device){ CR_CPU, -1 });
        cr_status status = cr_meta_set_dense(env, &m, p->results[i].rank, p->results[i].size, CR_CONTIGUOUS);
        if (!status) status = fake ? cr_tensor_create_fake(env, &m, &t) : cr_tensor_create(&m, &t);
        if (status) return cr_results_release(results, i), status;
        results[i] = cr_arg_tensor(t);
        if (!fake) p->results[i].data = cr_tensor_view(t).p;
    }
    return CR_OK;
}

static cr_status run_c(void *user, const cr_op *op, const cr_arg *args, cr_arg *results) {
    c_op *o = user;
    prepared p;
    CR_TRY(prepare(o, op, NULL, args, false, &p));
    CR_TRY(shapes(o, op, &p));
    for (uint16_t i = 0; i < op->schema.nparams; i++) CR_TRY(give(op, &args[i], i, true, &p.args[i]));
    CR_TRY(make_results(op, NULL, false, &p, results));
    int code = o->info.run(&p.call);
    if (!code) return CR_OK;
    cr_results_release(results, op->schema.nreturns);
    return failed(op, &p, "run", code);
}

static cr_status fake_c(void *user, const cr_op *op, cr_env *env, const cr_arg *args, cr_arg *results) {
    c_op *o = user;
    prepared p;
    CR_TRY(prepare(o, op, env, args, false, &p));
    CR_TRY(shapes(o, op, &p));
    return make_results(op, env, true, &p, results);
}

/* ---- registering ---- */

static cr_status check_schema(const char *text) {
    cr_arena arena;
    cr_schema s;
    cr_arena_init(&arena);
    cr_status status = cr_schema_parse(&arena, text, &s);
    if (!status && (s.nparams > CRESSET_OP_MAX_ARGS || s.nreturns > CRESSET_OP_MAX_RESULTS))
        status = CR_FAIL(CR_EVALUE, "more than %d arguments or %d results", CRESSET_OP_MAX_ARGS, CRESSET_OP_MAX_RESULTS);
    for (uint16_t i = 0; !status && i < s.nparams; i++) {
        uint8_t t = s.params[i].type;
        bool good = !s.params[i].list && (t == CR_T_TENSOR || t == CR_T_INT || t == CR_T_FLOAT || t == CR_T_BOOL || t == CR_T_STR || t == CR_T_SCALAR);
        if (!good) status = CR_FAIL(CR_EVALUE, "argument '%s' is of a type that C operators do not take: expected Tensor, Tensor?, int, float, bool or str", s.params[i].name);
    }
    for (uint16_t i = 0; !status && i < s.nreturns; i++)
        if (s.returns[i].list || s.returns[i].type != CR_T_TENSOR) status = CR_FAIL(CR_EVALUE, "result %u is no tensor", i);
    cr_arena_dispose(&arena);
    return status;
}

static cr_status register_op(const cresset_op_info *info) {
    CR_TRY(check_schema(info->schema));
    size_t n = strlen(info->schema) + 1;
    c_op *o = cr_calloc(1, sizeof *o + n); /* lives as long as the process: graphs may name it */
    if (!o) return CR_ENOMEM;
    char *schema = (char *)(o + 1);
    memcpy(schema, info->schema, n);
    o->info = *info;
    o->info.schema = schema;
    o->custom = (cr_custom){ .row.schema = schema, .run = run_c, .fake = fake_c, .user = o };
    cr_status status = cr_custom_register(&o->custom, NULL);
    if (status) cr_free(o);
    return status;
}

int cresset_register_op(const cresset_op_info *info, char *message, size_t room) {
    const char *problem = NULL;
    if (!info || info->struct_size < sizeof *info) problem = "info is NULL or of another version";
    else if (!info->schema || !info->shape || !info->run) problem = "schema, shape and run must be given";
    cr_status status = problem ? CR_EVALUE : register_op(info);
    if (!status) return CRESSET_OK;
    if (message && room) snprintf(message, room, "%s", problem ? problem : cr_error_message());
    return status == CR_ENOMEM ? CRESSET_OUT_OF_MEMORY : CRESSET_BAD_ARGUMENT;
}
