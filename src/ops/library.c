/* library.c: custom operators from C (cresset/library.h): arguments as the public structs have them, results made by
 * their shape function.
 *
 * Dtypes have the same numbers here and in the public header. A size that is symbolic is passed as the number that
 * stands for it; the header asks functions to treat sizes as opaque, so the same shape function serves both. */
#include "cresset/library.h"
#include "ops/call.h"
#include "ops/custom.h"

#include <dlfcn.h>
#include <stdio.h>

_Static_assert((int)CRESSET_U8 == (int)CR_U8 && (int)CRESSET_F8E8M0FNU == (int)CR_F8E8M0FNU &&
                   (int)CRESSET_BOOL == (int)CR_BOOL,
               "dtypes have the same numbers");

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
        out->kind = CRESSET_TENSOR, out->dtype = m->dtype, out->rank = m->rank, out->size = m->size,
        out->stride = m->stride;
        if (data) out->data = cr_tensor_view(a->u.t).p;
        return CR_OK;
    }
    case CR_ARG_INT: out->kind = CRESSET_INT, out->integer = a->u.i; return CR_OK;
    case CR_ARG_BOOL: out->kind = CRESSET_BOOLEAN, out->integer = a->u.i; return CR_OK;
    case CR_ARG_FLOAT: out->kind = CRESSET_FLOAT, out->number = a->u.f; return CR_OK;
    case CR_ARG_STR: out->kind = CRESSET_STRING, out->data = (void *)(uintptr_t)a->u.s; return CR_OK;
    default:
        return CR_FAIL(CR_EUNSUPPORTED, "%s: argument '%s' is of a kind that C operators do not take", op->name,
                       op->schema.params[i].name);
    }
}

typedef struct prepared {
    cresset_op_call call;
    cresset_value args[CRESSET_OP_MAX_ARGS];
    cresset_op_result results[CRESSET_OP_MAX_RESULTS];
    char message[256];
} prepared;

static cr_status prepare(c_op *o, const cr_op *op, cr_env *env, const cr_arg *args, bool data, prepared *p) {
    memset(p->results, 0, sizeof p->results);
    p->message[0] = 0;
    for (uint16_t i = 0; i < op->schema.nparams; i++) CR_TRY(give(op, &args[i], i, data, &p->args[i]));
    p->call = (cresset_op_call){ .struct_size = sizeof p->call,
                                 .op = op->name,
                                 .args = p->args,
                                 .nargs = op->schema.nparams,
                                 .results = p->results,
                                 .nresults = op->schema.nreturns,
                                 .user = o->info.user,
                                 .message = p->message,
                                 .room = sizeof p->message,
                                 .add = add,
                                 .subtract = subtract,
                                 .multiply = multiply,
                                 .divide = divide,
                                 .owner = env };
    return CR_OK;
}

static cr_status failed(const cr_op *op, const prepared *p, const char *what, int code) {
    return CR_FAIL(code == CRESSET_OUT_OF_MEMORY ? CR_ENOMEM : CR_ERUNTIME, "%s: its %s function failed: %s", op->name,
                   what, *p->message ? p->message : "no message");
}

static cr_status shapes(c_op *o, const cr_op *op, prepared *p) {
    int code = o->info.shape(&p->call);
    if (code) return failed(op, p, "shape", code);
    for (uint16_t i = 0; i < op->schema.nreturns; i++) {
        const cresset_op_result *r = &p->results[i];
        if (r->rank < 0 || r->rank > CR_MAX_RANK || r->dtype < 0 || r->dtype >= CR_DTYPE_COUNT)
            return CR_FAIL(CR_ERUNTIME, "%s: its shape function gave result %u %d dims and dtype %d", op->name, i,
                           r->rank, r->dtype);
        for (int d = 0; d < r->rank; d++)
            if (cr_dim_is_plain(r->size[d]) && r->size[d] < 0)
                return CR_FAIL(CR_ERUNTIME, "%s: its shape function gave result %u the size %lld", op->name, i,
                               (long long)r->size[d]);
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

/* ---- from compiled models ---- */

/* A tensor of its own with the value's elements: who gets it may keep it. */
static cr_status take_value(const cresset_value *v, cr_arg *out) {
    switch (v->kind) {
    case CRESSET_INT: *out = cr_arg_int(v->integer); return CR_OK;
    case CRESSET_BOOLEAN: *out = cr_arg_bool(v->integer); return CR_OK;
    case CRESSET_FLOAT: *out = cr_arg_float(v->number); return CR_OK;
    case CRESSET_STRING: *out = cr_arg_str(v->data); return CR_OK;
    case CRESSET_NONE: *out = cr_arg_none(); return CR_OK;
    default: break;
    }
    cr_meta m;
    cr_tensor *t = NULL;
    cr_meta_init(&m, v->dtype, (cr_device){ CR_CPU, -1 });
    CR_TRY(cr_meta_set_dense(NULL, &m, v->rank, v->size, CR_CONTIGUOUS));
    CR_TRY(cr_tensor_create(&m, &t));
    *out = cr_arg_tensor(t);
    return CR_OK;
}

static rt_view value_view(const cresset_value *v) {
    rt_view view = { .p = v->data, .dtype = (uint8_t)v->dtype, .rank = (uint8_t)v->rank };
    memcpy(view.size, v->size, (size_t)v->rank * sizeof *view.size);
    memcpy(view.stride, v->stride, (size_t)v->rank * sizeof *view.stride);
    return view;
}

static cr_status copy_view(const rt_view *to, const rt_view *from) {
    char message[256] = "";
    rt_ctx ctx = cr_kernel_ctx(message, sizeof message);
    return cr__kernel_status(rt_copy(&ctx, to, from), "copy", message);
}

static cr_status take_values(const cr_op *op, const cresset_op_call *call, cr_arg *args) {
    for (int32_t i = 0; i < call->nargs; i++) {
        CR_TRY(take_value(&call->args[i], &args[i]));
        if (op->schema.params[i].type == CR_T_FLOAT && args[i].kind == CR_ARG_INT)
            args[i] = cr_arg_float((double)args[i].u.i);
        if (args[i].kind != CR_ARG_TENSOR) continue;
        rt_view from = value_view(&call->args[i]), to = cr_tensor_view(args[i].u.t);
        CR_TRY(copy_view(&to, &from));
    }
    return CR_OK;
}

static cr_status give_results(const cr_op *op, const cresset_op_call *call, const cr_arg *args, const cr_arg *results) {
    for (int32_t i = 0; i < call->nresults; i++) {
        const cresset_op_result *r = &call->results[i];
        cresset_value v = {
            .kind = CRESSET_TENSOR, .data = r->data, .dtype = r->dtype, .rank = r->rank, .size = r->size
        };
        int64_t stride[CRESSET_OP_MAX_RANK];
        cr_strides_contiguous(NULL, r->rank, r->size, stride);
        v.stride = stride;
        const cr_meta *m = &results[i].u.t->meta;
        bool same = m->dtype == r->dtype && m->rank == r->rank;
        for (int d = 0; same && d < r->rank; d++) same = m->size[d] == r->size[d];
        if (!same)
            return CR_FAIL(CR_ERUNTIME,
                           "%s: result %d has another dtype or other sizes than its fake rule said when the model was "
                           "compiled",
                           op->name, i);
        rt_view to = value_view(&v), from = cr_tensor_view(results[i].u.t);
        CR_TRY(copy_view(&to, &from));
    }
    for (int32_t i = 0; i < call->nargs; i++) {
        if (!op->schema.params[i].writes || args[i].kind != CR_ARG_TENSOR) continue;
        rt_view to = value_view(&call->args[i]), from = cr_tensor_view(args[i].u.t);
        CR_TRY(copy_view(&to, &from));
    }
    return CR_OK;
}

static int run_registered(cresset_op_call *call) {
    const cr_op *op = call->user;
    cr_arg args[CRESSET_OP_MAX_ARGS] = { { 0 } }, results[CRESSET_OP_MAX_RESULTS] = { { 0 } };
    bool fits = call->nargs == op->schema.nparams && call->nresults == op->schema.nreturns &&
                call->nargs <= CRESSET_OP_MAX_ARGS && call->nresults <= CRESSET_OP_MAX_RESULTS;
    cr_status status = fits
                           ? take_values(op, call, args)
                           : CR_FAIL(CR_ERUNTIME,
                                     "%s is registered with another schema than the model was compiled with", op->name);
    cr_call_mode *mode = &cr_ambient_get()->mode, saved = *mode;
    *mode = (cr_call_mode){ 0 }; /* whatever surrounds the caller, this runs on data */
    if (!status) status = cr_call(op, args, results);
    *mode = saved;
    if (!status) status = give_results(op, call, args, results);
    if (status && call->message && call->room) snprintf(call->message, call->room, "%s", cr_error_message());
    cr_results_release(results, CRESSET_OP_MAX_RESULTS);
    for (int32_t i = 0; i < CRESSET_OP_MAX_ARGS; i++)
        if (args[i].kind == CR_ARG_TENSOR) cr_tensor_release(args[i].u.t);
    return !status ? CRESSET_OK : status == CR_ENOMEM ? CRESSET_OUT_OF_MEMORY : CRESSET_RUN_FAILED;
}

bool cr_custom_function(const char *name, cresset_op_function *out) {
    const cr_op *op = cr_op_find(name);
    const cr_custom *c = op ? cr_custom_get(op) : NULL;
    if (!c) return false;
    *out = (cresset_op_function){ op->name, run_registered, (void *)(uintptr_t)op };
    if (c->run == run_c)
        *out = (cresset_op_function){ op->name, ((c_op *)c->user)->info.run, ((c_op *)c->user)->info.user };
    return true;
}

/* ---- registering ---- */

static cr_status check_schema(const char *text) {
    cr_arena arena;
    cr_schema s;
    cr_arena_init(&arena);
    cr_status status = cr_schema_parse(&arena, text, &s);
    if (!status && (s.nparams > CRESSET_OP_MAX_ARGS || s.nreturns > CRESSET_OP_MAX_RESULTS))
        status = CR_FAIL(CR_EVALUE, "more than %d arguments or %d results", CRESSET_OP_MAX_ARGS,
                         CRESSET_OP_MAX_RESULTS);
    for (uint16_t i = 0; !status && i < s.nparams; i++) {
        uint8_t t = s.params[i].type;
        bool good = !s.params[i].list && (t == CR_T_TENSOR || t == CR_T_INT || t == CR_T_FLOAT || t == CR_T_BOOL ||
                                          t == CR_T_STR || t == CR_T_SCALAR);
        if (!good)
            status = CR_FAIL(CR_EVALUE,
                             "argument '%s' is of a type that C operators do not take: expected Tensor, Tensor?, int, "
                             "float, bool or str",
                             s.params[i].name);
    }
    for (uint16_t i = 0; !status && i < s.nreturns; i++)
        if (s.returns[i].list || s.returns[i].type != CR_T_TENSOR)
            status = CR_FAIL(CR_EVALUE, "result %u is no tensor", i);
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

/* ---- libraries of operators ---- */

typedef const cresset_op_info *ops_fn(uint32_t major);

static bool is_registered(const cresset_op_info *info) {
    char name[256];
    size_t n = strcspn(info->schema, "(");
    const cr_op *op = NULL;
    if (n < sizeof name) {
        memcpy(name, info->schema, n);
        name[n] = 0;
        op = cr_op_find(name);
    }
    const cr_custom *c = op ? cr_custom_get(op) : NULL;
    return c && c->run == run_c && ((c_op *)c->user)->info.run == info->run;
}

static cr_status load_ops(const char *path) {
    ops_fn *table;
    if (!path) return CR_FAIL(CR_EVALUE, "path is NULL");
    CR_TRY(cr_ops_init());
    char beside[4096]; /* with a folder, so that the linker does not search */
    if (!strchr(path, '/')) {
        if (snprintf(beside, sizeof beside, "./%s", path) >= (int)sizeof beside)
            return CR_FAIL(CR_EVALUE, "the path is too long");
        path = beside;
    }
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL); /* for good: graphs and models may name its functions */
    if (!handle) return CR_FAIL(CR_EIO, "the library of operators cannot be loaded: %s", dlerror());
    void *symbol = dlsym(handle, "cresset_ops");
    if (!symbol)
        return CR_FAIL(CR_EFORMAT,
                       "%s is no library of operators: it has no symbol 'cresset_ops' (cresset/library.h says what it "
                       "must be)",
                       path);
    memcpy(&table, &symbol, sizeof table); /* ISO C has no cast for it */
    const cresset_op_info *info = table(CRESSET_ABI_MAJOR);
    if (!info)
        return CR_FAIL(CR_EUNSUPPORTED, "%s was made for another version of the interface, this is %d; build it again",
                       path, CRESSET_ABI_MAJOR);
    for (; info->schema; info++) {
        char message[256] = "";
        if (info->struct_size != sizeof *info)
            return CR_FAIL(CR_EFORMAT, "%s: struct_size of '%s' is %zu, not sizeof(cresset_op_info)", path,
                           info->schema, info->struct_size);
        if (!is_registered(info) && cresset_register_op(info, message, sizeof message))
            return CR_FAIL(CR_EVALUE, "%s: %s", path, message);
    }
    return CR_OK;
}

int cresset_load_ops(const char *path, char *message, size_t room) {
    cr_status status = load_ops(path);
    if (!status) return CRESSET_OK;
    if (message && room) snprintf(message, room, "%s", cr_error_message());
    return status == CR_ENOMEM ? CRESSET_OUT_OF_MEMORY : CRESSET_BAD_ARGUMENT;
}
