/* Pointwise texts: every row compiles for every dtype and every static choice; what is particular about single rows. */
#include "check.h"

#include "ops/rules.h"
#include "ops/scalar.h"

static cr_tensor *tensor(int dtype, int rank, const int64_t *size, const double *values) {
    int64_t n = 1;
    cr_tensor *t = NULL;
    for (int d = 0; d < rank; d++) n *= size[d];
    char bytes[4096];
    for (int64_t i = 0; i < n; i++) rt_convert(dtype, bytes + i * rt_itemsize(dtype), 1, RT_F64, &values[i], 1, 1);
    CHECK_OK(cr_tensor_from(dtype, rank, size, bytes, &t));
    return t;
}
static cr_tensor *vector(int dtype, int64_t n, const double *values) { return tensor(dtype, 1, &n, values); }
static double item(const cr_tensor *t, int64_t i) {
    double value;
    rt_convert(RT_F64, &value, 1, t->meta.dtype,
               (char *)t->storage->data + (t->meta.offset + i) * rt_itemsize(t->meta.dtype), 1, 1);
    return value;
}

/* ---- the table ---- */

/* Arguments that fit the schema; `variant` turns options on and changes texts. */
static void make_args(const cr_op *op, int variant, cr_tensor *t, cr_arg *args) {
    static const char *const texts[] = { "none", "tanh", "trunc", "floor" };
    for (int i = 0; i < op->schema.nparams; i++) {
        const cr_param *p = &op->schema.params[i];
        bool given = !p->optional || (variant >> (i % 3) & 1);
        args[i] = cr_arg_none();
        if (!given) continue;
        switch (p->type) {
        case CR_T_TENSOR: args[i] = cr_arg_tensor(t); break;
        case CR_T_SCALAR:
            args[i] = variant & 4                                         ? cr_arg_int(2)
                      : p->has_default && p->fallback.kind != CR_ARG_NONE ? p->fallback
                                                                          : cr_arg_float(1.5);
            break;
        case CR_T_FLOAT: args[i] = cr_arg_float(0.25); break;
        case CR_T_INT: args[i] = cr_arg_int(variant - 3); break;
        case CR_T_BOOL: args[i] = cr_arg_bool(variant & 1); break;
        case CR_T_STR: args[i] = cr_arg_str(texts[variant & 3]); break;
        default: break;
        }
    }
}

static void every_row_compiles(void) {
    int rows = 0, programs = 0, refused = 0;
    CHECK_OK(cr_ops_init());
    for (size_t k = 0; k < cr_op_count(); k++) {
        const cr_op *op = cr_op_at(k);
        if (!op->row->scalar || op->base != op) continue;
        rows++;
        for (int dtype = 0; dtype <= CR_BF16; dtype++) {
            double one = 1;
            cr_tensor *t = vector(dtype, 1, &one);
            for (int variant = 0; variant < 8; variant++) {
                cr_arg args[CR_MAX_PARAMS];
                cr_rule rule;
                make_args(op, variant, t, args);
                cr_status status = cr_rule_run(&rule, op, NULL, args, NULL);
                if (!status) {
                    const cr_scalar_program *program = NULL;
                    status = cr_scalar_get(op, rule.common, args, &program);
                    if (!status) {
                        programs++;
                        CHECK_EQ(program->program.nout, op->schema.nreturns);
                    }
                }
                cr_rule_dispose(&rule);
                if (status && status != CR_ENOTIMPL && status != CR_ERUNTIME)
                    CHECK_FAILED("%s for %s: %s", op->name, cr_dtype_name(dtype), cr_error_message());
                refused += status != CR_OK;
            }
            cr_tensor_release(t);
        }
    }
    printf("%d pointwise rows, %d programs, %d refused\n", rows, programs, refused);
    CHECK(rows > 200);
    CHECK(programs > 10000);
}

/* ---- single rows ---- */

static cr_tensor *call2(const char *name, cr_arg a, cr_arg b) {
    cr_arg args[] = { a, b };
    cr_tensor *out = NULL;
    CHECK_OK(cr_call_1(name, args, 2, &out));
    return out;
}

static void promotion_and_rounding(void) {
    double x[] = { 2049, 2, -2049 }, one = 1;
    cr_tensor *i = vector(CR_I32, 3, x), *h = tensor(CR_F16, 0, NULL, &one);
    cr_tensor *sum = call2("aten::add.Tensor", cr_arg_tensor(i), cr_arg_tensor(h));
    CHECK_EQ(sum->meta.dtype, CR_F16);
    CHECK_FLOAT(item(sum, 0), 2048);
    CHECK_FLOAT(item(sum, 2), -2047);
    cr_tensor *half = call2("aten::div.Tensor", cr_arg_tensor(i), cr_arg_int(2));
    CHECK_EQ(half->meta.dtype, CR_F32);
    CHECK_FLOAT(item(half, 0), 1024.5);
    cr_tensor *less = call2("aten::lt.Scalar", cr_arg_tensor(i), cr_arg_float(2.5));
    CHECK_EQ(less->meta.dtype, CR_BOOL);
    CHECK_FLOAT(item(less, 1), 1);
    CHECK_FLOAT(item(less, 0), 0);
    cr_tensor_release(i), cr_tensor_release(h), cr_tensor_release(sum), cr_tensor_release(half),
        cr_tensor_release(less);
}

static void conditions_are_not_promoted(void) {
    double c[] = { 1, 0, 2 }, x[] = { 1.5, 2.5, 3.5 };
    cr_tensor *condition = vector(CR_U8, 3, c), *self = vector(CR_F64, 3, x), *out = NULL;
    cr_arg args[] = { cr_arg_tensor(condition), cr_arg_tensor(self), cr_arg_int(7) };
    CHECK_OK(cr_call_1("aten::where.ScalarOther", args, 3, &out));
    CHECK_EQ(out->meta.dtype, CR_F64);
    CHECK_FLOAT(item(out, 0), 1.5);
    CHECK_FLOAT(item(out, 1), 7);
    CHECK_FLOAT(item(out, 2), 3.5);
    cr_tensor_release(out);
    args[0] = cr_arg_tensor(self);
    CHECK_ERROR(cr_call_1("aten::where.ScalarOther", args, 3, &out), CR_ERUNTIME, "boolean");
    cr_tensor_release(condition), cr_tensor_release(self);
}

static void lazy_conjugation_is_carried_out(void) {
    double x[] = { 3, -2 };
    cr_tensor *z = vector(CR_C128, 2, x), *out;
    ((double *)z->storage->data)[1] = 4;
    z->meta.flags |= CR_META_CONJ;
    out = call2("aten::mul.Tensor", cr_arg_tensor(z), cr_arg_int(2));
    CHECK_FLOAT(((double *)out->storage->data)[0], 6);
    CHECK_FLOAT(((double *)out->storage->data)[1], -8);
    cr_tensor_release(out);
    z->meta.flags = 0;
    out = call2("aten::mul.Tensor", cr_arg_tensor(z), cr_arg_int(2));
    CHECK_FLOAT(((double *)out->storage->data)[1], 8);
    cr_tensor_release(out), cr_tensor_release(z);
}

static void errors(void) {
    double x[] = { 1, 0 };
    cr_tensor *b = vector(CR_BOOL, 2, x), *i = vector(CR_I8, 2, x), *out = NULL;
    cr_arg bools[] = { cr_arg_tensor(b), cr_arg_tensor(b) }, zero[] = { cr_arg_tensor(i), cr_arg_tensor(i) },
           big[] = { cr_arg_tensor(i), cr_arg_int(300) };
    CHECK_ERROR(cr_call_1("aten::sub.Tensor", bools, 2, &out), CR_ERUNTIME, "two bool tensors");
    CHECK_ERROR(cr_call_1("aten::neg", bools, 1, &out), CR_ERUNTIME, "bool");
    CHECK_ERROR(cr_call_1("aten::remainder.Tensor", zero, 2, &out), CR_ERUNTIME, "ZeroDivisionError");
    CHECK_ERROR(cr_call_1("aten::clamp_min", big, 2, &out), CR_ERUNTIME, "int8_t without overflow");
    cr_arg negative[] = { cr_arg_tensor(i), cr_arg_int(-1) };
    CHECK_ERROR(cr_call_1("aten::pow.Tensor_Scalar", negative, 2, &out), CR_ERUNTIME, "negative integer powers");
    cr_tensor_release(b), cr_tensor_release(i);
}

static void in_place(void) {
    double x[] = { 1, 2, 3 }, y[] = { 10, 20, 30 };
    cr_tensor *a = vector(CR_F32, 3, x), *b = vector(CR_F64, 3, y), *out = NULL;
    cr_arg args[] = { cr_arg_tensor(a), cr_arg_tensor(b) };
    CHECK_OK(cr_call_1("aten::add_.Tensor", args, 2, &out));
    CHECK(out == a);
    CHECK_FLOAT(item(a, 2), 33);
    cr_tensor_release(out);
    args[1] = cr_arg_tensor(a);
    CHECK_OK(cr_call_1("aten::mul_.Tensor", args, 2, &out));
    CHECK_FLOAT(item(a, 2), 1089);
    cr_tensor_release(out), cr_tensor_release(a), cr_tensor_release(b);
}

static cr_status run_once(void *arg) {
    cr_tensor *out = NULL;
    cr_arg args[] = { cr_arg_tensor(arg), cr_arg_float(0.5) };
    CR_TRY(cr_call_1("aten::mul.Scalar", args, 2, &out));
    cr_tensor_release(out);
    return CR_OK;
}
static void out_of_memory(void) {
    double x[] = { 1, 2, 3 };
    cr_tensor *a = vector(CR_F32, 3, x);
    CHECK_OK(run_once(a)); /* programs are kept for good */
    CHECK_OOM_SWEEP(run_once, a);
    cr_tensor_release(a);
}

int main(void) {
    RUN(every_row_compiles);
    RUN(promotion_and_rounding);
    RUN(conditions_are_not_promoted);
    RUN(lazy_conjugation_is_carried_out);
    RUN(errors);
    RUN(in_place);
    RUN(out_of_memory);
    return check_summary();
}
