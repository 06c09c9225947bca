/* Expansion of .decomp and .grad texts, seen through an emitter that writes down every call. Shapes of results are made
 * by a few lines here, not by the op table's rules, so that this test is about formulas alone. */
#include "check.h"
#include "ops/formula.h"
#include "ops/reverse.h"

enum { MAX_VALUES = 256 };
typedef struct trace {
    cr_emitter e;
    cr_str text;
    cr_meta meta[MAX_VALUES];
    char name[MAX_VALUES][32];
    int n, calls;
    int64_t lists; /* list results handed out and not yet given back */
} trace;
static trace t;

static void trace_arg(const cr_arg *a) {
    if (a->kind == CR_ARG_VALUE) cr_str_add(&t.text, t.name[a->u.i]);
    else if (a->kind == CR_ARG_LIST) {
        cr_str_addc(&t.text, '[');
        for (uint32_t i = 0; i < a->n; i++) {
            if (i) cr_str_add(&t.text, ", ");
            trace_arg(&a->u.list[i]);
        }
        cr_str_addc(&t.text, ']');
    } else cr_arg_print(NULL, a, &t.text);
}

static cr_arg new_value(const char *name, int dtype, int rank, const cr_dim *size) {
    int id = t.n++;
    snprintf(t.name[id], sizeof t.name[id], "%s", name);
    cr_meta_init(&t.meta[id], dtype, (cr_device){ CR_CPU, -1 });
    CHECK_OK(cr_meta_set_dense(NULL, &t.meta[id], rank, size, CR_CONTIGUOUS));
    return (cr_arg){ .kind = CR_ARG_VALUE, .given = 1, .type = CR_T_TENSOR, .u.i = id };
}
#define VALUE(name, dtype, ...) \
    new_value(name, dtype, (int)CR_COUNT(((cr_dim[]){ 0, __VA_ARGS__ })) - 1, (cr_dim[]){ 0, __VA_ARGS__ } + 1)

/* What the ops of this test return: sizes after the list argument named, else the broadcast of all tensors. */
static void shape_of(const cr_op *op, const cr_arg *args, int *dtype, int *rank, cr_dim *size) {
    *dtype = -1;
    *rank = 0;
    for (int i = 0; i < op->schema.nparams; i++) {
        const cr_arg *a = args[i].kind == CR_ARG_LIST && args[i].n ? &args[i].u.list[0] : &args[i];
        if (a->kind == CR_ARG_VALUE) {
            const cr_meta *m = &t.meta[a->u.i];
            *dtype = *dtype < 0 ? m->dtype : cr_promote_types(*dtype, m->dtype);
            CHECK_OK(cr_broadcast(NULL, rank, size, m->rank, m->size));
        }
    }
    const char *name = op->schema.name;
    for (int i = 0; i < op->schema.nparams; i++) {
        if (args[i].kind == CR_ARG_DTYPE) *dtype = (int)args[i].u.i;
        bool sizes = !strcmp(op->schema.params[i].name, "size") && args[i].kind == CR_ARG_LIST;
        if (sizes && args[i].n && args[i].u.list[0].kind == CR_ARG_INT) {
            *rank = (int)args[i].n;
            for (int k = 0; k < *rank; k++) size[k] = args[i].u.list[k].u.i;
        }
    }
    if (!strcmp(name, "sum")) {
        bool keep = args[2].u.i;
        int to = 0;
        for (int d = 0; d < *rank; d++) {
            bool in = false;
            for (uint32_t k = 0; k < args[1].n; k++) in |= args[1].u.list[k].u.i == d;
            if (!in) size[to++] = size[d];
            else if (keep) size[to++] = 1;
        }
        *rank = to;
    }
    if (!strcmp(name, "unsqueeze")) {
        int d = (int)args[1].u.i;
        memmove(size + d + 1, size + d, (size_t)(*rank - d) * sizeof *size);
        size[d] = 1;
        ++*rank;
    }
    if (!strcmp(name, "real")) *dtype = cr_dtype_to_real(*dtype);
    if (!strcmp(name, "ge") || !strcmp(name, "le") || !strcmp(name, "gt")) *dtype = CR_BOOL;
}

static cr_status trace_call(cr_emitter *e, const cr_op *op, const cr_arg *args, cr_arg *results) {
    (void)e;
    int dtype, rank;
    cr_dim size[CR_MAX_RANK];
    shape_of(op, args, &dtype, &rank, size);
    int nlist = !strcmp(op->schema.name, "split_with_sizes") ? (int)args[1].n : 2;
    char prefix[64] = "";
    for (int i = 0; i < op->schema.nreturns; i++) {
        char name[32];
        snprintf(name, sizeof name, "%%%d", t.calls++);
        strcat(strcat(prefix, i ? ", " : ""), name);
        if (!op->schema.returns[i].list) {
            results[i] = new_value(name, dtype < 0 ? CR_F32 : dtype, rank, size);
            continue;
        }
        cr_arg *items = cr_alloc((size_t)nlist * sizeof *items);
        if (!items) return CR_ENOMEM;
        t.lists++;
        for (int k = 0; k < nlist; k++) {
            char item[64];
            snprintf(item, sizeof item, "%s.%d", name, k);
            items[k] = new_value(item, dtype, rank, size);
            if (!strcmp(op->schema.name, "split_with_sizes")) t.meta[items[k].u.i].size[0] = args[1].u.list[k].u.i;
        }
        results[i] = cr_arg_list(items, (size_t)nlist);
    }
    cr_str_addf(&t.text, "%s = %s%s%s(", prefix, op->schema.name, *op->schema.overload ? "." : "", op->schema.overload);
    bool first = true;
    for (int i = 0; i < op->schema.nparams; i++) {
        if (args[i].given == CR_GIVEN_DEFAULT) continue;
        if (!first) cr_str_add(&t.text, ", ");
        first = false;
        if (args[i].given == CR_GIVEN_KEYWORD) cr_str_addf(&t.text, "%s=", op->schema.params[i].name);
        trace_arg(&args[i]);
    }
    cr_str_add(&t.text, ")\n");
    return CR_OK;
}

static cr_status trace_meta(cr_emitter *e, const cr_arg *a, const cr_meta **out) {
    (void)e;
    *out = a->kind == CR_ARG_VALUE ? &t.meta[a->u.i] : cr_arg_meta(a);
    return CR_OK;
}
static void trace_release(cr_emitter *e, cr_arg *results, size_t n) {
    (void)e;
    for (size_t i = 0; i < n; i++)
        if (results[i].kind == CR_ARG_LIST) {
            cr_free((void *)results[i].u.list);
            t.lists--;
        }
}

static void begin(void) {
    cr_str_dispose(&t.text);
    t.e = (cr_emitter){ trace_call, trace_meta, trace_release, NULL };
    cr_str_init(&t.text);
    t.n = t.calls = 0;
    t.lists = 0;
}

/* Ops that texts of this test call, where the table does not have them (yet). */
static const cr_row called[] = {
    { .schema = "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
      .grad = "self: grad; other: grad * alpha" },
    { .schema = "aten::sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor" },
    { .schema = "aten::mul.Tensor(Tensor self, Tensor other) -> Tensor" },
    { .schema = "aten::div.Tensor(Tensor self, Tensor other) -> Tensor" },
    { .schema = "aten::neg(Tensor self) -> Tensor" },
    { .schema = "aten::pow.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor" },
    { .schema = "aten::ge.Scalar(Tensor self, Scalar other) -> Tensor" },
    { .schema = "aten::le.Scalar(Tensor self, Scalar other) -> Tensor" },
    { .schema = "aten::gt.Scalar(Tensor self, Scalar other) -> Tensor" },
    { .schema = "aten::bitwise_and.Tensor(Tensor self, Tensor other) -> Tensor" },
    { .schema = "aten::where.self(Tensor condition, Tensor self, Tensor other) -> Tensor" },
    { .schema = "aten::sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> "
                "Tensor" },
    { .schema = "aten::view(Tensor(a) self, SymInt[] size) -> Tensor(a)" },
    { .schema = "aten::expand(Tensor(a) self, SymInt[] size, *, bool implicit=False) -> Tensor(a)" },
    { .schema = "aten::unsqueeze(Tensor(a) self, int dim) -> Tensor(a)" },
    { .schema = "aten::real(Tensor(a) self) -> Tensor(a)" },
    { .schema = "aten::conj_physical(Tensor self) -> Tensor" },
    { .schema = "aten::_to_copy(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
                "bool? pin_memory=None, bool non_blocking=False, MemoryFormat? memory_format=None) -> Tensor" },
    { .schema = "aten::zeros(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? "
                "pin_memory=None) -> Tensor" },
    { .schema = "aten::zeros_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
                "bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor" },
    { .schema = "aten::exp(Tensor self) -> Tensor" },
    { .schema = "aten::cat(Tensor[] tensors, int dim=0) -> Tensor" },
    { .schema = "aten::split_with_sizes(Tensor(a -> *) self, SymInt[] split_sizes, int dim=0) -> Tensor(a)[]" },
    { .schema = "aten::index.Tensor(Tensor self, Tensor?[] indices) -> Tensor" },
    { .schema = "aten::index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor" },
    { .schema = "aten::convolution_backward(Tensor grad_output, Tensor input, Tensor weight, SymInt[]? bias_sizes, "
                "SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, "
                "SymInt groups, bool[3] output_mask) -> (Tensor, Tensor, Tensor)" },
    { .schema = "aten::native_layer_norm_backward(Tensor grad_out, Tensor input, SymInt[] normalized_shape, Tensor "
                "mean, Tensor rstd, Tensor? weight, Tensor? bias, bool[3] output_mask) -> (Tensor, Tensor, Tensor)" },
    { .schema = "aten::value_selecting_reduction_backward(Tensor grad, int dim, Tensor indices, SymInt[] sizes, bool "
                "keepdim) -> Tensor" },
};

static cr_status linear_grad(cr_emitter *e, const cr_op *op, const cr_arg *args, cr_arg *results) {
    for (int i = 0; i < op->schema.nparams; i++) results[i] = cr_arg_none();
    if (!cr_grad_fn_needs(op, args, 0)) return CR_OK;
    cr_arg call[] = { *cr_grad_fn_grad(op, args, 0) };
    return e->call(e, cr_op_find("aten::neg"), call, results);
}
static cr_status twice_decomp(cr_emitter *e, const cr_op *op, const cr_arg *args, cr_arg *results) {
    (void)op;
    cr_arg call[] = { args[0], args[0], cr_arg_int(1) };
    call[2].given = CR_GIVEN_DEFAULT;
    return e->call(e, cr_op_find("aten::add.Tensor"), call, results);
}

/* The probe ops, with the texts that the language was made for. */
static const cr_row probes[] = {
    { .schema = "probe::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
      .variants = CR_VARIANT_INPLACE | CR_VARIANT_OUT,
      .grad = "self: grad; other: grad * conj(alpha)" },
    { .schema = "probe::mul(Tensor self, Tensor other) -> Tensor",
      .grad = "self: grad * conj(other); other: grad * conj(self)" },
    { .schema = "probe::where.self(Tensor condition, Tensor self, Tensor other) -> Tensor",
      .grad = "self: where.self(condition, grad, 0); other: where.self(condition, 0, grad)" },
    { .schema = "probe::sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False) -> Tensor",
      .grad = "self: unreduce(grad, dim, keepdim, rank(self))" },
    { .schema = "probe::max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
      .grad = "not_differentiable: result1; self: value_selecting_reduction_backward(grad, dim, result1, sizes(self), "
              "keepdim)" },
    { .schema = "probe::split_with_sizes(Tensor self, SymInt[] split_sizes, int dim=0) -> Tensor[]",
      .grad = "self: cat(grad, dim)" },
    { .schema = "probe::index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor",
      .grad = "self: accumulate ? grad : index_put(grad, indices, zeros_like(values)); values: index(grad, indices)" },
    { .schema = "probe::native_layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, float "
                "eps) -> (Tensor, Tensor, Tensor)",
      .grad = "let n = prod(normalized_shape);input, weight, bias: native_layer_norm_backward(grad0, input, "
              "normalized_shape, result1, result2, weight, bias, needs);input: grad1 / n; input: -grad2 * result2^3 * "
              "(input - result1) / n" },
    { .schema = "probe::convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, "
                "SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups) -> Tensor",
      .grad = "input, weight, bias: convolution_backward(grad, input, weight, bias is none ? none : sizes(bias), "
              "stride, padding, dilation, transposed, output_padding, groups, needs)" },
    { .schema = "probe::cat(Tensor[] tensors, int dim=0) -> Tensor",
      .grad = "tensors: split_with_sizes(grad, [size(t, dim) for t in tensors], dim)" },
    { .schema = "probe::clamp(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor",
      .grad = "self: where.self((min is none ? true : self >= min) & (max is none ? true : self <= max), grad, 0)" },
    { .schema = "probe::floor(Tensor self) -> Tensor", .grad = "self: zero" },
    { .schema = "probe::sign(Tensor self) -> Tensor", .grad = "not_differentiable" },
    { .schema = "probe::abs2(Tensor self) -> Tensor", .decomp = "let e = exp(self); -e * e + 2 - 1 / e" },
    { .schema = "probe::composite(Tensor self, Tensor other) -> Tensor",
      .decomp = "probe::add(probe::mul(self, other), other, alpha=3)" },
    { .schema = "probe::outer(Tensor self, Tensor other) -> Tensor", .decomp = "probe::composite(other, self)" },
    { .schema = "probe::noise(Tensor self) -> Tensor", .tags = CR_TAG_RANDOM, .grad = "self: grad" },
    { .schema = "probe::noisy(Tensor self) -> Tensor", .decomp = "probe::mul(self, probe::noise(self))" },
    { .schema = "probe::pair(Tensor self, int n) -> (Tensor, Tensor)",
      .decomp = "n > 2 ? self : exp(self), self / (1.0 / n)" },
    { .schema = "probe::negated(Tensor self) -> Tensor", .grad_fn = linear_grad },
    { .schema = "probe::twice(Tensor self) -> Tensor", .decomp_fn = twice_decomp },
    { .schema = "probe::none(Tensor self) -> Tensor" },
    { .schema = "probe::self_reference(Tensor self) -> Tensor", .decomp = "probe::self_reference(self)" },
    { .schema = "probe::two(Tensor self) -> (Tensor, Tensor)",
      .grad = "self: grad0 * 2 - exp(grad1); self: given(grad0) and given(grad1) ? grad1 : none" },
    { .schema = "probe::lists(Tensor self, int[] dims) -> Tensor",
      .decomp = "expand(self, reversed([d * 2 for d in dims[1:]]) + [len(dims)] * 2 + [max(dims), min(7, dims[-1]) ^ "
                "2, 7 // 2 % 2 | 4])" },
    { .schema = "probe::looped(Tensor[] tensors, int n) -> (Tensor, Tensor)",
      .grad = "tensors: [rank(t) == n ? grad0 * 2 : grad1 for t in tensors]" },
    { .schema = "aten::mul2(Tensor self, Tensor other) -> Tensor",
      .grad = "self: mul2(grad, other); other: mul2(grad, self)" },
};

static const cr_op *op_named(const char *name) {
    const cr_op *op = cr_op_find(name);
    if (!op) CHECK_FAILED("no op %s", name);
    return op;
}

static void setup(void) {
    CHECK_OK(cr_ops_init());
    for (size_t i = 0; i < CR_COUNT(called); i++) {
        char name[128];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(called[i].schema, "("), called[i].schema);
        if (!cr_op_find(name)) CHECK_OK(cr_op_register(&called[i], NULL));
    }
    for (size_t i = 0; i < CR_COUNT(probes); i++) CHECK_OK(cr_op_register(&probes[i], NULL));
}

/* Names the results of a gradient expansion at the end of the trace, compares and releases. */
static void expect_grads(const char *name, const cr_arg *args, const cr_arg *results, const cr_arg *grads,
                         const bool *needs, const char *want) {
    const cr_op *op = op_named(name);
    cr_arg out[CR_MAX_PARAMS];
    cr_status status = cr_grad_expand(&t.e, op, args, results, grads, needs, out);
    CHECK_OK(status);
    if (!status) {
        for (int i = 0; i < op->schema.nparams; i++) {
            if (out[i].kind == CR_ARG_NONE) continue;
            cr_str_addf(&t.text, "%s: ", op->schema.params[i].name);
            trace_arg(&out[i]);
            cr_str_addc(&t.text, '\n');
        }
        cr_results_release(out, op->schema.nparams);
    }
    CHECK_STR(cr_str_get(&t.text), want);
    CHECK_EQ(t.lists, 0);
}
#define NEEDS(...) ((const bool[CR_MAX_PARAMS]){ __VA_ARGS__ })

static void pointwise(void) {
    begin();
    cr_arg args[3] = { VALUE("self", CR_F32, 2, 3), VALUE("other", CR_F32, 3), cr_arg_int(2) },
           grad = VALUE("grad", CR_F32, 2, 3), result = VALUE("result", CR_F32, 2, 3);
    expect_grads("probe::add.Tensor", args, &result, &grad, NEEDS(true, true),
                 "%0 = mul.Tensor(grad, 2)\n%1 = sum.dim_IntList(%0, [0], false)\nself: grad\nother: %1\n");
    begin();
    args[0] = VALUE("self", CR_F32, 2, 3), args[1] = VALUE("other", CR_F64, 2, 1), grad = VALUE("grad", CR_F64, 2, 3);
    expect_grads("probe::mul", args, NULL, &grad, NEEDS(true, true),
                 "%0 = mul.Tensor(grad, other)\n%1 = _to_copy(%0, dtype=f32)\n%2 = mul.Tensor(grad, self)\n"
                 "%3 = sum.dim_IntList(%2, [1], true)\nself: %1\nother: %3\n");
    begin();
    args[0] = VALUE("self", CR_F32, 2), args[1] = VALUE("other", CR_C64, 4, 2), grad = VALUE("grad", CR_C64, 4, 2);
    expect_grads("probe::mul", args, NULL, &grad, NEEDS(true, false),
                 "%0 = conj_physical(other)\n%1 = mul.Tensor(grad, %0)\n%2 = sum.dim_IntList(%1, [0], false)\n%3 = "
                 "real(%2)\nself: %3\n");
    begin();
    args[0] = VALUE("condition", CR_BOOL, 4), args[1] = VALUE("self", CR_F32), args[2] = VALUE("other", CR_F32, 1),
    grad = VALUE("grad", CR_F32, 4);
    expect_grads("probe::where.self", args, NULL, &grad, NEEDS(true, true, true),
                 "%0 = where.self(condition, grad, 0)\n%1 = sum.dim_IntList(%0, [0], false)\n%2 = "
                 "where.self(condition, 0, grad)\n%3 = sum.dim_IntList(%2, [0], true)\nself: %1\nother: %3\n");
    begin();
    args[0] = VALUE("self", CR_F32, 4), args[1] = cr_arg_none(), args[2] = cr_arg_int(3),
    grad = VALUE("grad", CR_F32, 4);
    expect_grads("probe::clamp", args, NULL, &grad, NEEDS(true),
                 "%0 = le.Scalar(self, 3)\n%1 = where.self(%0, grad, 0)\nself: %1\n");
    begin();
    args[0] = VALUE("self", CR_F32, 4), args[1] = cr_arg_int(1), args[2] = cr_arg_int(3),
    grad = VALUE("grad", CR_F32, 4);
    expect_grads("probe::clamp", args, NULL, &grad, NEEDS(true),
                 "%0 = ge.Scalar(self, 1)\n%1 = le.Scalar(self, 3)\n%2 = bitwise_and.Tensor(%0, %1)\n%3 = "
                 "where.self(%2, grad, 0)\nself: %3\n");
    begin();
    args[0] = VALUE("self", CR_F32, 4), args[1] = args[2] = cr_arg_none(), grad = VALUE("grad", CR_F32, 4);
    expect_grads("probe::clamp", args, NULL, &grad, NEEDS(true), "self: grad\n");
}

static void shapes(void) {
    begin();
    cr_arg dims[] = { cr_arg_int(-1), cr_arg_int(0) }, grad, result;
    cr_arg args[9] = { VALUE("self", CR_F32, 2, 3, 4), cr_arg_list(dims, 2), cr_arg_bool(false) };
    grad = VALUE("grad", CR_F32, 3);
    expect_grads("probe::sum.dim_IntList", args, NULL, &grad, NEEDS(true),
                 "%0 = unsqueeze(grad, 0)\n%1 = unsqueeze(%0, 2)\n%2 = expand(%1, [2, 3, 4])\nself: %2\n");
    begin();
    args[0] = VALUE("self", CR_F32, 2, 3), args[1] = cr_arg_none(), grad = VALUE("grad", CR_F32);
    expect_grads("probe::sum.dim_IntList", args, NULL, &grad, NEEDS(true), "%0 = expand(grad, [2, 3])\nself: %0\n");

    begin();
    cr_arg results[3] = { VALUE("values", CR_F32, 2), VALUE("indices", CR_I64, 2) },
           grads[3] = { VALUE("grad", CR_F32, 2), cr_arg_none() };
    args[0] = VALUE("self", CR_F32, 2, 3), args[1] = cr_arg_int(1), args[2] = cr_arg_bool(false);
    /* the shape made here for this op is the broadcast one: what counts is the call */
    begin();
    results[1] = VALUE("indices", CR_I64, 3), grads[0] = VALUE("grad", CR_F32, 3), args[0] = VALUE("self", CR_F32, 3);
    expect_grads("probe::max.dim", args, results, grads, NEEDS(true),
                 "%0 = value_selecting_reduction_backward(grad, 1, indices, [3], false)\nself: %0\n");

    begin();
    cr_arg parts[] = { VALUE("p0", CR_F32, 1, 3), VALUE("p1", CR_F32, 1, 3) },
           gparts[] = { cr_arg_none(), VALUE("g1", CR_F32, 1, 3) };
    cr_arg sizes[] = { cr_arg_int(1), cr_arg_int(1) };
    args[0] = VALUE("self", CR_F32, 1, 3), args[1] = cr_arg_list(sizes, 2), args[2] = cr_arg_int(0);
    result = cr_arg_list(parts, 2), grad = cr_arg_list(gparts, 2);
    expect_grads("probe::split_with_sizes", args, &result, &grad, NEEDS(true),
                 "%0 = zeros([1, 3], dtype=f32, device=cpu)\n%1 = cat([%0, g1], 0)\nself: %1\n");

    begin();
    cr_arg tensors[] = { VALUE("a", CR_F32, 2, 3), VALUE("b", CR_F64, 5, 3) };
    args[0] = cr_arg_list(tensors, 2), args[1] = cr_arg_int(0), grad = VALUE("grad", CR_F64, 7, 3);
    expect_grads("probe::cat", args, NULL, &grad, NEEDS(true),
                 "%0 = split_with_sizes(grad, [2, 5], 0)\n%1 = _to_copy(%0.0, dtype=f32)\ntensors: [%1, %0.1]\n");
}

static void indexing(void) {
    begin();
    cr_arg indices[] = { VALUE("i", CR_I64, 3) }, grad = VALUE("grad", CR_F32, 3);
    cr_arg args[4] = { VALUE("self", CR_F32, 3), cr_arg_list(indices, 1), VALUE("values", CR_F32, 3),
                       cr_arg_bool(false) };
    expect_grads("probe::index_put", args, NULL, &grad, NEEDS(true, false, true),
                 "%0 = zeros_like(values)\n%1 = index_put(grad, [i], %0)\n%2 = index.Tensor(grad, [i])\nself: "
                 "%1\nvalues: %2\n");
    begin();
    indices[0] = VALUE("i", CR_I64, 3), grad = VALUE("grad", CR_F32, 3), args[0] = VALUE("self", CR_F32, 3),
    args[2] = VALUE("values", CR_F32, 3);
    args[3] = cr_arg_bool(true);
    expect_grads("probe::index_put", args, NULL, &grad, NEEDS(true), "self: grad\n");
}

static void norms(void) {
    cr_arg shape[] = { cr_arg_int(4) }, args[9], grads[3], results[3];
    for (int which = 0; which < 3; which++) {
        begin();
        args[0] = VALUE("input", CR_F32, 2, 4), args[1] = cr_arg_list(shape, 1), args[2] = VALUE("weight", CR_F32, 4),
        args[3] = cr_arg_none(), args[4] = cr_arg_float(1e-5);
        results[0] = VALUE("out", CR_F32, 2, 4), results[1] = VALUE("mean", CR_F32, 2, 1),
        results[2] = VALUE("rstd", CR_F32, 2, 1);
        grads[0] = which == 1 ? cr_arg_none() : VALUE("g0", CR_F32, 2, 4);
        grads[1] = which == 0 ? cr_arg_none() : VALUE("g1", CR_F32, 2, 1);
        grads[2] = which == 2 ? VALUE("g2", CR_F32, 2, 1) : cr_arg_none();
        static const char *const want[] = {
            "%0, %1, %2 = native_layer_norm_backward(g0, input, [4], mean, rstd, weight, none, [true, false, "
            "false])\ninput: %0\n",
            "%0 = div.Tensor(g1, 4)\n%1 = expand(%0, [2, 4])\ninput: %1\n",
            "%0, %1, %2 = native_layer_norm_backward(g0, input, [4], mean, rstd, weight, none, [true, false, "
            "false])\n%3 = div.Tensor(g1, 4)\n%4 = expand(%3, [2, 4])\n%5 = add.Tensor(%0, %4)\n%6 = neg(g2)\n%7 = "
            "pow.Tensor_Scalar(rstd, 3)\n%8 = mul.Tensor(%6, %7)\n%9 = sub.Tensor(input, mean)\n%10 = mul.Tensor(%8, "
            "%9)\n%11 = div.Tensor(%10, 4)\n%12 = add.Tensor(%5, %11)\ninput: %12\n",
        };
        expect_grads("probe::native_layer_norm", args, results, grads, NEEDS(true), want[which]);
    }
    begin();
    cr_arg two[] = { cr_arg_int(1), cr_arg_int(1) }, grad = VALUE("grad", CR_F32, 8, 8);
    cr_arg list = cr_arg_list(two, 2);
    cr_arg conv[9] = { VALUE("input", CR_F32, 8, 8),
                       VALUE("weight", CR_F32, 8, 8),
                       VALUE("bias", CR_F32, 8, 8),
                       list,
                       list,
                       list,
                       cr_arg_bool(false),
                       list,
                       cr_arg_int(1) };
    expect_grads("probe::convolution", conv, NULL, &grad, NEEDS(true, false, true),
                 "%0, %1, %2 = convolution_backward(grad, input, weight, [8, 8], [1, 1], [1, 1], [1, 1], false, [1, "
                 "1], 1, [true, false, true])\ninput: %0\nbias: %2\n");
    begin();
    conv[0] = VALUE("input", CR_F32, 8), conv[1] = VALUE("weight", CR_F32, 8), conv[2] = cr_arg_none(),
    grad = VALUE("grad", CR_F32, 8);
    expect_grads("probe::convolution", conv, NULL, &grad, NEEDS(true, true, true),
                 "%0, %1, %2 = convolution_backward(grad, input, weight, none, [1, 1], [1, 1], [1, 1], false, [1, 1], "
                 "1, [true, true, true])\ninput: %0\nweight: %1\n");
}

static void special(void) {
    begin();
    cr_arg args[2] = { VALUE("self", CR_F32, 2) }, grad = VALUE("grad", CR_F32, 2), grads[2];
    expect_grads("probe::floor", args, NULL, &grad, NEEDS(true), "%0 = zeros([2], dtype=f32, device=cpu)\nself: %0\n");
    begin();
    args[0] = VALUE("self", CR_F32, 2), grad = VALUE("grad", CR_F32, 2);
    expect_grads("probe::sign", args, NULL, &grad, NEEDS(true), "");
    begin();
    args[0] = VALUE("self", CR_F32, 2), grad = VALUE("grad", CR_F32, 2);
    expect_grads("probe::negated", args, NULL, &grad, NEEDS(true), "%0 = neg(grad)\nself: %0\n");
    begin();
    args[0] = VALUE("self", CR_I64, 2), grad = VALUE("grad", CR_F32, 2);
    expect_grads("probe::floor", args, NULL, &grad, NEEDS(true), "");
    begin();
    args[0] = VALUE("self", CR_F32, 2), grads[0] = cr_arg_none(), grads[1] = VALUE("g1", CR_F32, 2);
    expect_grads("probe::two", args, NULL, grads, NEEDS(true), "%0 = exp(g1)\n%1 = neg(%0)\nself: %1\n");
    begin();
    args[0] = VALUE("self", CR_F32, 2), grads[0] = VALUE("g0", CR_F32, 2), grads[1] = cr_arg_none();
    expect_grads("probe::two", args, NULL, grads, NEEDS(true), "%0 = mul.Tensor(g0, 2)\nself: %0\n");
    begin(); /* a condition on the loop variable: settled item by item, zeros where a gradient is missing */
    cr_arg pair[] = { VALUE("a", CR_F32, 2), VALUE("b", CR_F32, 1, 2) },
           looped[] = { cr_arg_list(pair, 2), cr_arg_int(1) };
    cr_arg results[] = { VALUE("r0", CR_F32, 2), VALUE("r1", CR_F32, 2) };
    grads[0] = VALUE("g0", CR_F32, 2), grads[1] = cr_arg_none();
    expect_grads("probe::looped", looped, results, grads, NEEDS(true),
                 "%0 = mul.Tensor(g0, 2)\n%1 = zeros([2], dtype=f32, device=cpu)\n%2 = expand(%1, [1, 2])\ntensors: "
                 "[%0, %2]\n");
    begin();
    grads[0] = grads[1] = cr_arg_none();
    expect_grads("probe::two", args, NULL, grads, NEEDS(true), "");
    begin();
    args[0] = VALUE("self", CR_F32, 2), grad = VALUE("grad", CR_F32, 2);
    cr_arg out[2];
    CHECK_ERROR(cr_grad_expand(&t.e, op_named("probe::none"), args, NULL, &grad, NEEDS(true), out), CR_ENOTIMPL,
                "probe::none has no derivative");
    CHECK_ERROR(cr_decomp_expand(&t.e, op_named("probe::none"), args, out), CR_ENOTIMPL,
                "probe::none has no decomposition");
    /* a shape that fits neither way */
    grad = VALUE("grad", CR_F32, 3), args[1] = VALUE("other", CR_F32, 3);
    CHECK_ERROR(cr_grad_expand(&t.e, op_named("probe::add.Tensor"), (cr_arg[]){ args[0], args[1], cr_arg_int(1) }, NULL,
                               &grad, NEEDS(true), out),
                CR_ERUNTIME, "probe::add.Tensor .grad 1:7: a gradient of shape [3] does not fit the argument's [2]");
}

static void expect_decomp(const char *name, const cr_arg *args, const char *want) {
    const cr_op *op = op_named(name);
    cr_arg out[16];
    cr_status status = cr_decomp_expand(&t.e, op, args, out);
    CHECK_OK(status);
    if (!status) {
        for (int i = 0; i < op->schema.nreturns; i++) {
            cr_str_add(&t.text, i ? ", " : "-> ");
            trace_arg(&out[i]);
        }
        cr_results_release(out, op->schema.nreturns);
    }
    CHECK_STR(cr_str_get(&t.text), want);
}

static void decompositions(void) {
    begin();
    cr_arg args[3] = { VALUE("self", CR_F32, 2) };
    expect_decomp("probe::abs2", args,
                  "%0 = exp(self)\n%1 = neg(%0)\n%2 = mul.Tensor(%1, %0)\n%3 = add.Tensor(%2, 2)\n%4 = div.Tensor(1, "
                  "%0)\n%5 = sub.Tensor(%3, %4)\n-> %5");
    begin();
    args[0] = VALUE("self", CR_F32, 2), args[1] = cr_arg_int(2);
    expect_decomp("probe::pair", args, "%0 = exp(self)\n%1 = div.Tensor(self, 0.5)\n-> %0, %1");
    begin();
    args[0] = VALUE("self", CR_F32, 2), args[1] = cr_arg_int(4);
    expect_decomp("probe::pair", args, "%0 = div.Tensor(self, 0.25)\n-> self, %0");
    begin();
    args[0] = VALUE("self", CR_F32, 2);
    expect_decomp("probe::twice", args, "%0 = add.Tensor(self, self)\n-> %0");
    begin();
    cr_arg dims[] = { cr_arg_int(9), cr_arg_int(2), cr_arg_int(5) };
    args[0] = VALUE("self", CR_F32, 1), args[1] = cr_arg_list(dims, 3);
    expect_decomp("probe::lists", args, "%0 = expand(self, [10, 4, 3, 3, 9, 25, 5])\n-> %0");
}

/* A row without .grad: its decomposition is run again and walked back. */
static void derivative_of_decomposition(void) {
    begin();
    cr_arg args[2] = { VALUE("self", CR_F32, 2), VALUE("other", CR_F32, 2) }, grad = VALUE("grad", CR_F32, 2), out[2];
    expect_grads("probe::composite", args, NULL, &grad, NEEDS(true, true),
                 "%0 = mul(self, other)\n%1 = add.Tensor(%0, other, alpha=3)\n%2 = mul.Tensor(grad, 3)\n%3 = "
                 "mul.Tensor(grad, other)\n%4 = mul.Tensor(grad, self)\n%5 = add.Tensor(%2, %4)\nself: %3\nother: "
                 "%5\n");
    begin();
    args[0] = VALUE("self", CR_F32, 2), args[1] = VALUE("other", CR_F32, 2), grad = VALUE("grad", CR_F32, 2);
    expect_grads("probe::outer", args, NULL, &grad, NEEDS(false, true), /* through two levels, one side only */
                 "%0 = mul(other, self)\n%1 = add.Tensor(%0, self, alpha=3)\n%2 = mul.Tensor(grad, self)\nother: %2\n");
    CHECK_ERROR(cr_grad_expand(&t.e, op_named("probe::noisy"), args, NULL, &grad, NEEDS(true), out), CR_EUNSUPPORTED,
                "probe::noise draws random numbers");
    CHECK_ERROR(cr_grad_expand(&t.e, op_named("probe::self_reference"), args, NULL, &grad, NEEDS(true), out),
                CR_ERUNTIME, "comes back to itself");
}

/* A derivative emitted into the tape that recorded the forward pass can be differentiated again: x * x at x. */
static void second_order(void) {
    begin();
    cr_tape tape;
    cr_tape_init(&tape, &t.e);
    cr_arg x = VALUE("x", CR_F32, 2), seed = VALUE("seed", CR_F32, 2), weight = VALUE("weight", CR_F32, 2),
           args[] = { x, x }, y, first, second;
    CHECK_OK(cr_tape_watch(&tape, &x));
    CHECK_OK(tape.emitter.call(&tape.emitter, op_named("aten::mul2"), args, &y));
    CHECK_OK(cr_tape_backward(&tape, &tape.emitter, &y, &seed, 1, &x, 1, &first));
    CHECK_EQ(tape.records.n, 4);
    CHECK_STR(cr_str_get(&t.text), "%0 = mul2(x, x)\n%1 = mul2(seed, x)\n%2 = mul2(seed, x)\n%3 = add.Tensor(%1, "
                                   "%2)\n");
    CHECK_OK(cr_tape_backward(&tape, &t.e, &first, &weight, 1, &x, 1, &second));
    CHECK_CONTAINS(cr_str_get(&t.text), "= mul2(weight, seed)\n");
    CHECK_EQ(second.kind, CR_ARG_VALUE);
    CHECK_EQ(tape.records.n, 4); /* the second walk went elsewhere */
    cr_results_release(&first, 1);
    cr_results_release(&second, 1);
    cr_results_release(&y, 1);
    cr_tape_dispose(&tape);
}

static void errors(void) {
    begin();
    cr_arg args[1] = { VALUE("self", CR_F32, 2) }, out[2];
    static const cr_row bad[] = {
        { .schema = "bad::name(Tensor self) -> Tensor", .decomp = "self + othr" },
        { .schema = "bad::parse(Tensor self) -> Tensor", .grad = "self: grad *\n)" },
        { .schema = "bad::target(Tensor self, int n) -> Tensor", .grad = "n: grad" },
        { .schema = "bad::hides(Tensor self) -> Tensor", .decomp = "let self = 1; self" },
        { .schema = "bad::condition(Tensor self) -> Tensor", .decomp = "self > 0 ? self : 0" },
        { .schema = "bad::count(Tensor self) -> (Tensor, Tensor)", .decomp = "self" },
        { .schema = "bad::number(Tensor self) -> Tensor", .decomp = "1 + 2" },
        { .schema = "bad::missing(Tensor self) -> Tensor", .decomp = "frobnicate(self)" },
        { .schema = "bad::overload(Tensor self) -> Tensor", .decomp = "add.Nope(self, self)" },
        { .schema = "bad::binding(Tensor self) -> Tensor", .decomp = "exp(self, 'x')" },
        { .schema = "bad::unused(Tensor self) -> Tensor", .decomp = "let a = exp(self); self" },
        { .schema = "bad::ignored(Tensor self) -> (Tensor, Tensor)", .grad = "self: grad0 * result1" },
        { .schema = "bad::constant(Tensor self) -> Tensor", .grad = "not_differentiable: result3" },
        { .schema = "bad::needs(Tensor self) -> Tensor", .grad = "let n = needs; self: n[0] ? grad : none" },
        { .schema = "bad::arity(Tensor self) -> Tensor", .decomp = "expand(self, sizes(self, 1))" },
        { .schema = "bad::keyword(Tensor self) -> Tensor", .decomp = "add(self, self, beta=2)" },
        { .schema = "bad::scalar(Tensor self) -> Tensor", .scalar = "self +" },
        { .schema = "bad::index(Tensor self) -> Tensor", .decomp = "expand(self, [1, 2][2])" },
        { .schema = "bad::divide(Tensor self) -> Tensor", .decomp = "self * (1 // 0)" },
    };
    for (size_t i = 0; i < CR_COUNT(bad); i++) CHECK_OK(cr_op_register(&bad[i], NULL));
    CHECK_ERROR(cr_formula_check(op_named("bad::name")), CR_EFORMAT,
                "bad::name .decomp 1:8: 'othr' is no argument, let or dtype");
    CHECK_ERROR(cr_decomp_expand(&t.e, op_named("bad::name"), args, out), CR_EFORMAT, "bad::name .decomp 1:8");
    CHECK_ERROR(cr_formula_check(op_named("bad::parse")), CR_EFORMAT,
                "bad::parse .grad: formula 2:1: expected an expression, found ')'");
    CHECK_ERROR(cr_formula_check(op_named("bad::target")), CR_EFORMAT,
                "bad::target .grad 1:1: 'n' is no tensor argument");
    CHECK_ERROR(cr_formula_check(op_named("bad::hides")), CR_EFORMAT, "let self hides an argument");
    CHECK_ERROR(cr_decomp_expand(&t.e, op_named("bad::condition"), args, out), CR_EFORMAT,
                "bad::condition .decomp 1:6: this condition is a tensor");
    CHECK_ERROR(cr_decomp_expand(&t.e, op_named("bad::count"), args, out), CR_EFORMAT,
                "1 results where the schema has 2");
    CHECK_ERROR(cr_decomp_expand(&t.e, op_named("bad::number"), args, out), CR_EFORMAT, "result 0 must be a tensor");
    CHECK_ERROR(cr_formula_check(op_named("bad::missing")), CR_EFORMAT, "1:1: there is no op or helper 'frobnicate'");
    CHECK_ERROR(cr_decomp_expand(&t.e, op_named("bad::missing"), args, out), CR_ENOTFOUND,
                "there is no op 'frobnicate'");
    CHECK_ERROR(cr_formula_check(op_named("bad::overload")), CR_EFORMAT, "there is no op or helper 'add.Nope'");
    CHECK_ERROR(cr_decomp_expand(&t.e, op_named("bad::binding"), args, out), CR_ETYPE,
                "bad::binding .decomp 1:1: exp()");
    CHECK_ERROR(cr_formula_check(op_named("bad::unused")), CR_EFORMAT, "let a is never used");
    CHECK_ERROR(cr_formula_check(op_named("bad::ignored")), CR_EFORMAT,
                "result1 may be floating and its gradient is ignored");
    CHECK_ERROR(cr_formula_check(op_named("bad::constant")), CR_EFORMAT, "'result3' is no result");
    CHECK_ERROR(cr_formula_check(op_named("bad::needs")), CR_EFORMAT, "1:9: 'needs' means the targets of a clause");
    CHECK_ERROR(cr_formula_check(op_named("bad::arity")), CR_EFORMAT, "sizes() takes 1 to 1 arguments, not 2");
    CHECK_ERROR(cr_formula_check(op_named("bad::keyword")), CR_EFORMAT, "has no argument 'beta'");
    CHECK_ERROR(cr_formula_check(op_named("bad::scalar")), CR_EFORMAT, "bad::scalar .scalar: formula 1:7");
    CHECK_ERROR(cr_decomp_expand(&t.e, op_named("bad::index"), args, out), CR_EINDEX,
                "index 2 of a list with 2 entries");
    CHECK_ERROR(cr_decomp_expand(&t.e, op_named("bad::divide"), args, out), CR_EOVERFLOW, "divides by zero");
    CHECK_ERROR(cr_decomp_expand(&(cr_emitter){ trace_call, trace_meta, trace_release, NULL }, op_named("probe::none"),
                                 args, out),
                CR_ENOTIMPL, "");
    for (size_t i = 0; i < CR_COUNT(probes); i++) {
        char name[128];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(probes[i].schema, "("), probes[i].schema);
        CHECK_OK(cr_formula_check(op_named(name)));
    }
}

static void saved(void) {
    begin();
    cr_arg shape[] = { cr_arg_int(4) }, args[9], results[3];
    cr_saved s;
    args[0] = VALUE("input", CR_F32, 2, 4), args[1] = cr_arg_list(shape, 1), args[2] = VALUE("weight", CR_F32, 4),
    args[3] = VALUE("bias", CR_F32, 4), args[4] = cr_arg_float(1e-5);
    results[0] = VALUE("out", CR_F32, 2, 4), results[1] = VALUE("mean", CR_F32, 2, 1),
    results[2] = VALUE("rstd", CR_F32, 2, 1);
    const cr_op *norm = op_named("probe::native_layer_norm");
    CHECK_OK(cr_formula_saved(&t.e, norm, args, results, NEEDS(true, false, true, true), (bool[]){ true, false, false },
                              &s));
    CHECK_EQ(s.args, 1 | 2 | 4 | 8 | 0);
    CHECK_EQ(s.results, 2 | 4);
    CHECK_OK(cr_formula_saved(&t.e, norm, args, results, NEEDS(true), (bool[]){ false, true, false }, &s));
    CHECK_EQ(s.args & (1 | 4 | 8), 0); /* grad1 / n reads no tensor ... */
    CHECK_EQ(s.arg_metas, 1);          /* ... but the input's shape */
    CHECK_EQ(s.results | s.result_metas, 0);

    args[0] = VALUE("self", CR_F32, 2), args[1] = VALUE("other", CR_F32, 2);
    CHECK_OK(cr_formula_saved(&t.e, op_named("probe::mul"), args, results, NEEDS(true), (bool[]){ true }, &s));
    CHECK_EQ(s.args, 2);
    CHECK_EQ(s.arg_metas, 1);
    CHECK_OK(cr_formula_saved(&t.e, op_named("probe::mul"), args, results, NEEDS(true, true), (bool[]){ true }, &s));
    CHECK_EQ(s.args, 3);
    CHECK_OK(cr_formula_saved(&t.e, op_named("probe::mul"), args, results, NEEDS(false, false), (bool[]){ true }, &s));
    CHECK_EQ(s.args | s.arg_metas, 0);

    cr_arg tensors[] = { VALUE("a", CR_F32, 2, 3), VALUE("b", CR_F64, 5, 3) };
    args[0] = cr_arg_list(tensors, 2), args[1] = cr_arg_int(0);
    CHECK_OK(cr_formula_saved(&t.e, op_named("probe::cat"), args, results, NEEDS(true), (bool[]){ true }, &s));
    CHECK_EQ(s.args & 1, 0); /* only sizes */
    CHECK_EQ(s.arg_metas, 1);

    cr_arg indices[] = { VALUE("i", CR_I64, 3) };
    args[0] = VALUE("self", CR_F32, 3), args[1] = cr_arg_list(indices, 1), args[2] = VALUE("values", CR_F32, 3),
    args[3] = cr_arg_bool(true);
    CHECK_OK(cr_formula_saved(&t.e, op_named("probe::index_put"), args, results, NEEDS(true), (bool[]){ true }, &s));
    CHECK_EQ(s.args, 0); /* accumulate: the gradient passes through */
    args[3] = cr_arg_bool(false);
    CHECK_OK(cr_formula_saved(&t.e, op_named("probe::index_put"), args, results, NEEDS(true), (bool[]){ true }, &s));
    CHECK_EQ(s.args, 2 | 4);
    CHECK_EQ(t.calls, 0);
}

static cr_status expand_once(const char *name) {
    cr_arg shape[] = { cr_arg_int(4) }, args[5], grads[3], results[3], out[CR_MAX_PARAMS];
    (void)name;
    t.n = t.calls = 0;
    args[0] = VALUE("input", CR_F32, 2, 4), args[1] = cr_arg_list(shape, 1), args[2] = VALUE("weight", CR_F32, 4),
    args[3] = cr_arg_none(), args[4] = cr_arg_float(1e-5);
    for (int i = 0; i < 3; i++) results[i] = grads[i] = VALUE("r", CR_F32, 2, 4);
    CR_TRY(cr_grad_expand(&t.e, op_named("probe::native_layer_norm"), args, results, grads, NEEDS(true), out));
    cr_results_release(out, 5);
    cr_arg tensors[] = { VALUE("a", CR_F32, 2, 3), VALUE("b", CR_F64, 5, 3) },
           cat[] = { cr_arg_list(tensors, 2), cr_arg_int(0) }, grad = VALUE("grad", CR_F64, 7, 3);
    CR_TRY(cr_grad_expand(&t.e, op_named("probe::cat"), cat, NULL, &grad, NEEDS(true), out));
    cr_results_release(out, 2);
    cr_arg lists[] = { VALUE("self", CR_F32, 1),
                       cr_arg_list((cr_arg[]){ cr_arg_int(9), cr_arg_int(2), cr_arg_int(5) }, 3) };
    CR_TRY(cr_decomp_expand(&t.e, op_named("probe::lists"), lists, out));
    cr_results_release(out, 1);
    return cr_str_status(&t.text);
}
static void out_of_memory(void) {
    begin();
    CHECK_OK(expand_once("")); /* parsed texts stay: get them first */
    begin();
    for (int i = 0; i < 1 << 14; i++) cr_str_addc(&t.text, ' '); /* the trace's own text must not be what fails */
    t.text.n = 0;
    cr_error_release(cr_error_take());
    CHECK_OOM_SWEEP(expand_once, "");
}

int main(void) {
    setup();
    RUN(pointwise);
    RUN(shapes);
    RUN(indexing);
    RUN(norms);
    RUN(special);
    RUN(decompositions);
    RUN(derivative_of_decomposition);
    RUN(second_order);
    RUN(errors);
    RUN(saved);
    RUN(out_of_memory);
    cr_str_dispose(&t.text);
    return check_summary();
}
