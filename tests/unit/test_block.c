/* Block programs: every layout gives what element-by-element evaluation gives; rounding at load, in-place runs, several
 * outputs, constants, failures, threads. The instructions' numbers are compared with PyTorch's in tests/ops. */
#include "check.h"
#include "every_isa.h"

#include "runtime/rt_block.h"
#include "runtime/rt_math.h"

#include <stdlib.h>

static uint64_t random_state = 88172645463325252u;
static uint64_t random_next(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}
static int64_t below(int64_t n) { return (int64_t)(random_next() % (uint64_t)n); }

static int run(const rt_ctx *ctx, const rt_program *program, const rt_view *const *in, const rt_scalar *constants,
               const rt_view *const *out) {
    rt_operand operands[RT_BLOCK_MAX_PORTS];
    for (int i = 0; i < program->nin; i++) operands[i] = rt_operand_of(in[i]);
    for (int i = 0; i < program->nout; i++) operands[program->nin + i] = rt_operand_of(out[i]);
    return rt_block_run(ctx, program, operands, constants);
}

static char message[256];
static rt_ctx plain(rt_pool *pool) { return rt_ctx_plain(pool, message, sizeof message); }

/* ---- a program that multiplies and adds in f32: out = (a * b + c) ---- */

enum { CLS = RT_CLASS_F32 };
static rt_instr fused_code[2];
static const rt_port fused_in[] = { { 0, CLS, RT_F32, 0 }, { 1, CLS, RT_F32, 0 }, { 2, CLS, RT_F32, 0 } };
static const rt_port fused_out[] = { { 3, CLS, RT_F32, 0 } };
static rt_program fused(void) {
    fused_code[0] = (rt_instr){ (uint16_t)rt_block_find("mul", CLS), 3, { 0, 1, 0 } };
    fused_code[1] = (rt_instr){ (uint16_t)rt_block_find("add", CLS), 3, { 3, 2, 0 } };
    return (rt_program){ .nin = 3,
                         .nout = 1,
                         .nslots = 4,
                         .width = 4,
                         .ninstr = 2,
                         .cost = 2,
                         .code = fused_code,
                         .in = fused_in,
                         .out = fused_out };
}

/* A view of `shape` on fresh memory: dims permuted, gaps left, and (where allowed) some dims or all broadcast. */
typedef struct made { rt_view view; char *memory; } made;
static made make_view(int dtype, int rank, const int64_t *shape, bool broadcast) {
    made m = { .view = { .rank = rank, .dtype = dtype } };
    int order[RT_MAX_RANK];
    for (int d = 0; d < rank; d++) order[d] = d;
    bool permute = below(2), gap = below(3) == 0, fixed = broadcast && below(6) == 0;
    for (int d = rank - 1; permute && d > 0; d--) {
        int k = (int)below(d + 1), t = order[d];
        order[d] = order[k], order[k] = t;
    }
    int64_t n = gap ? 1 + below(3) : 1;
    for (int i = rank - 1; i >= 0; i--) {
        int d = order[i];
        bool one = broadcast && (fixed || below(5) == 0);
        m.view.size[d] = one && below(2) ? 1 : shape[d];
        m.view.stride[d] = one ? 0 : n;
        if (!one) n *= shape[d] + (gap ? below(3) : 0);
    }
    if (broadcast && rank && below(4) == 0) { /* fewer dims: the leading ones are broadcast */
        int drop = (int)below(rank + 1);
        for (int d = drop; d < rank; d++)
            m.view.size[d - drop] = m.view.size[d], m.view.stride[d - drop] = m.view.stride[d];
        m.view.rank -= drop;
    }
    n = 1;
    for (int d = 0; d < m.view.rank; d++) n += (m.view.size[d] > 0 ? m.view.size[d] - 1 : 0) * m.view.stride[d];
    m.memory = calloc((size_t)n, 16);
    for (int64_t i = 0; i < n; i++) {
        float value = (float)(below(201) - 100) / 8;
        rt_convert(dtype, m.memory + i * rt_itemsize(dtype), 1, RT_F32, &value, 1, 1);
    }
    m.view.p = m.memory;
    return m;
}

static void *address(const rt_view *v, int rank, const int64_t *index) {
    int64_t offset = 0;
    for (int d = 0; d < v->rank; d++) {
        int64_t i = index[d + rank - v->rank];
        offset += (v->size[d] == 1 ? 0 : i) * v->stride[d];
    }
    return (char *)v->p + offset * rt_itemsize(v->dtype);
}
static float element(const rt_view *v, int rank, const int64_t *index) {
    float value;
    rt_convert(RT_F32, &value, 1, v->dtype, address(v, rank, index), 1, 1);
    return value;
}

static void layouts_agree(rt_pool *pool, int64_t max_elements) {
    static const int dtypes[] = { RT_F32, RT_F32, RT_F32, RT_F16, RT_BF16, RT_F64, RT_I32, RT_BOOL, RT_U8 };
    rt_program program = fused();
    rt_ctx ctx = plain(pool);
    for (int round = 0; round < 400; round++) {
        int rank = (int)below(5);
        int64_t shape[8], n = 1;
        for (int d = 0; d < rank; d++) {
            static const int64_t sizes[] = { 1, 2, 3, 5, 17, 130, 600, 1100 };
            shape[d] = sizes[below(8)];
            if (n * shape[d] > max_elements) shape[d] = 2;
            n *= shape[d];
        }
        if (rank && below(30) == 0) shape[below(rank)] = 0;
        made in[3], out = make_view(dtypes[below(9)], rank, shape, false);
        for (int i = 0; i < 3; i++) in[i] = make_view(dtypes[below(9)], rank, shape, true);
        const rt_view *ins[] = { &in[0].view, &in[1].view, &in[2].view }, *outs[] = { &out.view };
        CHECK_EQ(run(&ctx, &program, ins, NULL, outs), RT_OK);
        int64_t index[8] = { 0 }, total = rt_numel(&out.view), wrong = 0;
        for (int64_t i = 0; i < total; i++) {
            float want = element(ins[0], rank, index) * element(ins[1], rank, index) + element(ins[2], rank, index);
            char stored[16], *got = address(&out.view, rank, index);
            rt_convert(out.view.dtype, stored, 1, RT_F32, &want, 1, 1);
            wrong += memcmp(stored, got, (size_t)rt_itemsize(out.view.dtype)) != 0;
            for (int d = rank - 1; d >= 0 && ++index[d] == shape[d]; d--) index[d] = 0;
        }
        CHECK_EQ(wrong, 0);
        free(out.memory);
        for (int i = 0; i < 3; i++) free(in[i].memory);
    }
}
static void layouts(void) { layouts_agree(NULL, 4000); }
static void layouts_with_threads(void) {
    rt_pool *pool = rt_pool_create(3);
    layouts_agree(pool, 100000);
    rt_pool_release(pool);
}

/* ---- single properties ---- */

static rt_program binary(const char *name, int class, int round, rt_instr *code, rt_port *ports) {
    int op = rt_block_find(name, class);
    CHECK(op >= 0);
    *code = (rt_instr){ (uint16_t)op, 2, { 0, 1, 0 } };
    ports[0] = (rt_port){ 0, (uint8_t)class, (uint8_t)round, 0 };
    ports[1] = (rt_port){ 1, (uint8_t)class, (uint8_t)round, 0 };
    ports[2] = (rt_port){ 2, (uint8_t)rt_block_out_class(op), (uint8_t)round, 0 };
    return (rt_program){ .nin = 2,
                         .nout = 1,
                         .nslots = 3,
                         .width = 16,
                         .ninstr = 1,
                         .cost = 1,
                         .code = code,
                         .in = ports,
                         .out = ports + 2 };
}
static int run_binary(const rt_program *program, rt_view a, rt_view b, rt_view out) {
    rt_ctx ctx = plain(NULL);
    const rt_view *in[] = { &a, &b }, *outs[] = { &out };
    return run(&ctx, program, in, NULL, outs);
}

static void inputs_are_rounded_to_the_common_dtype(void) {
    rt_instr code;
    rt_port ports[3];
    int32_t a[3] = { 2049, 2051, -2049 };
    uint16_t b = rt_f32_to_f16(1), out[3];
    int64_t three = 3;
    rt_program p = binary("add", RT_CLASS_F32, RT_F16, &code, ports);
    rt_view va = rt_view_contiguous(a, RT_I32, 1, &three), vb = rt_view_contiguous(&b, RT_F16, 0, NULL),
            vo = rt_view_contiguous(out, RT_F16, 1, &three);
    CHECK_EQ(run_binary(&p, va, vb, vo), RT_OK);
    CHECK_FLOAT(rt_f16_to_f32(out[0]), 2048); /* not 2050: 2049 is no half */
    CHECK_FLOAT(rt_f16_to_f32(out[1]), 2052);
    CHECK_FLOAT(rt_f16_to_f32(out[2]), -2047);

    /* A wide port keeps a lone number as it is. */
    float scale = 1.0004f, rounded = rt_f16_to_f32(rt_f32_to_f16(scale));
    uint16_t x[3] = { rt_f32_to_f16(1000), rt_f32_to_f16(3), rt_f32_to_f16(-777) };
    p = binary("mul", RT_CLASS_F32, RT_F16, &code, ports);
    rt_view vx = rt_view_contiguous(x, RT_F16, 1, &three), vs = rt_view_contiguous(&scale, RT_F32, 0, NULL);
    CHECK_EQ(run_binary(&p, vx, vs, vo), RT_OK);
    CHECK_EQ(out[0], rt_f32_to_f16(1000 * rounded));
    ports[1].flags = RT_PORT_WIDE;
    CHECK_EQ(run_binary(&p, vx, vs, vo), RT_OK);
    CHECK_EQ(out[0], rt_f32_to_f16(1000 * scale));
    CHECK(rt_f32_to_f16(1000 * scale) != rt_f32_to_f16(1000 * rounded));
}

static void an_output_may_be_an_input(void) {
    enum { N = 5000 };
    float *x = malloc(N * sizeof *x), *y = malloc(N * sizeof *y);
    rt_program program = fused();
    rt_ctx ctx = plain(NULL);
    for (int which = 0; which < 3; which++) {
        for (int layout = 0; layout < 2; layout++) {
            for (int i = 0; i < N; i++) x[i] = (float)i, y[i] = (float)(i % 7);
            rt_view vx, vy;
            if (layout) { /* transposed and with gaps */
                vx = (rt_view){ .p = x, .rank = 2, .dtype = RT_F32, .size = { 40, 20 }, .stride = { 1, 50 } };
                vy = (rt_view){ .p = y, .rank = 2, .dtype = RT_F32, .size = { 40, 20 }, .stride = { 20, 1 } };
            } else {
                int64_t n = N;
                vx = rt_view_contiguous(x, RT_F32, 1, &n), vy = rt_view_contiguous(y, RT_F32, 1, &n);
            }
            const rt_view *in[] = { &vy, &vy, &vy }, *out[] = { &vx };
            in[which] = &vx;
            CHECK_EQ(run(&ctx, &program, in, NULL, out), RT_OK);
            int64_t wrong = 0;
            for (int i = 0; i < (layout ? 800 : N); i++) {
                int at = layout ? i / 20 + i % 20 * 50 : i;
                float yv = (float)(i % 7), v[3] = { yv, yv, yv };
                v[which] = (float)at;
                wrong += x[at] != v[0] * v[1] + v[2];
            }
            CHECK_EQ(wrong, 0);
        }
    }
    free(x);
    free(y);
}

/* sum and difference of two inputs, the first input itself, with a constant and a literal computed once. */
static void several_outputs_constants_and_prologue(void) {
    int add = rt_block_find("add", RT_CLASS_F64), sub = rt_block_find("sub", RT_CLASS_F64),
        mul = rt_block_find("mul", RT_CLASS_F64);
    rt_port in[] = { { 0, RT_CLASS_F64, RT_F64, 0 } },
            constant[] = { { 1, RT_CLASS_F64, RT_DTYPE_COUNT, 0 }, { 7, RT_CLASS_F64, RT_F16, 0 } };
    rt_literal literal[] = { { 2, RT_CLASS_F64, 0, 0.5, 0 } };
    rt_instr code[] = { { (uint16_t)mul, 3, { 1, 2, 0 } },
                        { (uint16_t)add, 4, { 0, 3, 0 } },
                        { (uint16_t)sub, 5, { 0, 3, 0 } },
                        { (uint16_t)add, 6, { 4, 7, 0 } } };
    rt_port out[] = {
        { 4, RT_CLASS_F64, 0, 0 }, { 5, RT_CLASS_F64, 0, 0 }, { 0, RT_CLASS_F64, 0, 0 }, { 6, RT_CLASS_F64, 0, 0 }
    };
    rt_program program = { .nin = 1,
                           .nout = 4,
                           .nconstants = 2,
                           .nliterals = 1,
                           .nslots = 8,
                           .width = 8,
                           .ninstr = 4,
                           .nprologue = 1,
                           .cost = 4,
                           .code = code,
                           .in = in,
                           .out = out,
                           .constant = constant,
                           .literal = literal };
    enum { N = 1300 };
    static double x[N], sum[N], last[N];
    static float difference[N];
    int64_t n = N;
    for (int i = 0; i < N; i++) x[i] = i;
    rt_view vx = rt_view_contiguous(x, RT_F64, 1, &n), vs = rt_view_contiguous(sum, RT_F64, 1, &n),
            vd = rt_view_contiguous(difference, RT_F32, 1, &n), vl = rt_view_contiguous(last, RT_F64, 1, &n);
    rt_scalar constants[] = { { .kind = RT_ARG_INT, .i = 7 }, { .kind = RT_ARG_FLOAT, .f = 0.1 } };
    rt_ctx ctx = plain(NULL);
    const rt_view *ins[] = { &vx }, *outs[] = { &vs, &vd, &vx, &vl };
    CHECK_EQ(run(&ctx, &program, ins, constants, outs), RT_OK);
    double tenth = (double)rt_f16_to_f32(rt_f32_to_f16(0.1f));
    int64_t wrong = 0;
    for (int i = 0; i < N; i++)
        wrong += sum[i] != i + 3.5 || difference[i] != (float)(i - 3.5) || x[i] != i || last[i] != i + 3.5 + tenth;
    CHECK_EQ(wrong, 0);
}

static void integer_division(void) {
    rt_instr code;
    rt_port ports[3];
    int64_t a[] = { 7, -7, 7, -7, INT64_MIN, INT64_MIN }, b[] = { 2, 2, -2, -2, -1, 1 }, out[6], n = 6,
            zero[6] = { 1, 1, 0, 1, 1, 1 };
    rt_view va = rt_view_contiguous(a, RT_I64, 1, &n), vb = rt_view_contiguous(b, RT_I64, 1, &n),
            vz = rt_view_contiguous(zero, RT_I64, 1, &n), vo = rt_view_contiguous(out, RT_I64, 1, &n);
    static const struct { const char *name; int64_t want[6]; } cases[] = {
        { "floordiv", { 3, -4, -4, 3, INT64_MIN, INT64_MIN } },
        { "truncdiv", { 3, -3, -3, 3, INT64_MIN, INT64_MIN } },
        { "remainder", { 1, 1, -1, -1, 0, 0 } },
        { "fmod", { 1, -1, 1, -1, 0, 0 } },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rt_program p = binary(cases[i].name, RT_CLASS_I64, RT_I64, &code, ports);
        CHECK_EQ(run_binary(&p, va, vb, vo), RT_OK);
        for (int k = 0; k < 6; k++) CHECK_EQ(out[k], cases[i].want[k]);
        CHECK_EQ(run_binary(&p, va, vz, vo), RT_ERUNTIME);
        CHECK_CONTAINS(message, "ZeroDivisionError");
    }
}

static void narrow_integers_wrap(void) {
    rt_instr code;
    rt_port ports[3];
    int8_t a[] = { 100, -128, -128, 1 }, b[] = { 100, 1, -1, 7 }, out[4];
    int64_t n = 4;
    rt_view va = rt_view_contiguous(a, RT_I8, 1, &n), vb = rt_view_contiguous(b, RT_I8, 1, &n),
            vo = rt_view_contiguous(out, RT_I8, 1, &n);
    static const struct { const char *name; int8_t want[4]; } cases[] = {
        { "add", { -56, -127, 127, 8 } }, { "mul", { 16, -128, -128, 7 } }, { "truncdiv", { 1, -128, -128, 0 } },
        { "shl", { 0, 0, 0, -128 } },     { "shr", { 0, -64, -1, 0 } },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rt_program p = binary(cases[i].name, RT_CLASS_I64, RT_I8, &code, ports);
        CHECK_EQ(run_binary(&p, va, vb, vo), RT_OK);
        for (int k = 0; k < 4; k++) CHECK_EQ(out[k], cases[i].want[k]);
    }
}

/* The same bits whatever the instruction set: these were computed once and written down. */
static void functions(void) {
    static const struct { const char *name; float x; uint32_t bits; } cases[] = {
        { "exp", 0.7f, 0x4000e153 },
        { "exp", 3.3f, 0x41d8e6af },
        { "exp2", 0.7f, 0x3fcfefc6 },
        { "exp2", 3.3f, 0x411d9624 },
        { "expm1", 0.7f, 0x3f81c2a6 },
        { "expm1", 3.3f, 0x41d0e6af },
        { "log", 0.7f, 0xbeb69e1a },
        { "log", 3.3f, 0x3f98d274 },
        { "log2", 0.7f, 0xbf03bb12 },
        { "log2", 3.3f, 0x3fdc79c4 },
        { "log10", 0.7f, 0xbe1e9e9f },
        { "log10", 3.3f, 0x3f04bd54 },
        { "log1p", 0.7f, 0x3f07d741 },
        { "log1p", 3.3f, 0x3fbab3e6 },
        { "tanh", 0.7f, 0x3f1ab7d9 },
        { "tanh", 3.3f, 0x3f7f4df0 },
        { "erf", 0.7f, 0x3f2d8461 },
        { "erf", 3.3f, 0x3f7fffcd },
        { "sigmoid", 0.7f, 0x3f2b0e5a },
        { "sigmoid", 3.3f, 0x3f76e4cf },
        { "log_sigmoid", 0.7f, 0xbece6e67 },
        { "log_sigmoid", 3.3f, 0xbd145aa5 },
        { "sin", 0.7f, 0x3f24eb73 },
        { "sin", 3.3f, 0xbe218813 },
        { "cos", 0.7f, 0x3f43ccb3 },
        { "cos", 3.3f, 0xbf7ccb7a },
        { "sqrt", 0.7f, 0x3f562f5a },
        { "sqrt", 3.3f, 0x3fe88607 },
        { "rsqrt", 0.7f, 0x3f98fd40 },
        { "rsqrt", 3.3f, 0x3f0cec62 },
        { "exp", -20.5f, 0x30abd1d8 },
        { "tanh", -0.01f, 0xbc23d5a4 },
        { "erf", -1.7f, 0xbf7bd9b1 },
        { "sin", -12345.6f, 0x3f41ed69 },
        { "sin", 3000000000.0f, 0x3f7cac5a },
        { "cos", 100000.0f, 0xbf7fd61c },
        { "log1p", -0.4f, 0xbf02c578 },
        { "exp", -100.0f, 0x0000001b },
    };
    rt_instr code;
    rt_port ports[3];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        float x[40], out[40];
        int64_t n = 40;
        for (int k = 0; k < 40; k++) x[k] = cases[i].x;
        rt_program p = binary(cases[i].name, RT_CLASS_F32, RT_F32, &code, ports);
        CHECK_EQ(run_binary(&p, rt_view_contiguous(x, RT_F32, 1, &n), rt_view_contiguous(x, RT_F32, 1, &n),
                            rt_view_contiguous(out, RT_F32, 1, &n)),
                 RT_OK);
        for (int k = 0; k < 40; k += 39) { /* of the vector loop and of its tail */
            uint32_t bits;
            memcpy(&bits, &out[k], 4);
            CHECK_EQ(bits, cases[i].bits);
        }
    }
}

/* Rows much shorter than a block, apart from each other in every operand: blocks begin and end inside of them. */
static void short_rows(void) {
    enum { ROWS = 301, COLS = 5, PLANES = 2 };
    static float x[PLANES * ROWS * 8], y[PLANES * ROWS * 8], out[PLANES * ROWS * 8];
    for (int i = 0; i < PLANES * ROWS * 8; i++) x[i] = (float)i, y[i] = (float)(i % 97), out[i] = -1;
    rt_instr code;
    rt_port ports[3];
    rt_program p = binary("add", RT_CLASS_F32, RT_F32, &code, ports);
    rt_view a = { .p = x, .dtype = RT_F32, .rank = 3, .size = { PLANES, ROWS, COLS }, .stride = { ROWS * 8, 8, 1 } };
    rt_view b = { .p = y, .dtype = RT_F32, .rank = 3, .size = { PLANES, ROWS, COLS }, .stride = { ROWS * 7, 1, ROWS } };
    rt_view o = { .p = out, .dtype = RT_F32, .rank = 3, .size = { PLANES, ROWS, COLS }, .stride = { ROWS * 8, 8, 1 } };
    CHECK_EQ(run_binary(&p, a, b, o), RT_OK);
    int wrong = 0;
    for (int plane = 0; plane < PLANES; plane++)
        for (int r = 0; r < ROWS; r++)
            for (int k = 0; k < 8; k++) {
                int at = (plane * ROWS + r) * 8 + k;
                wrong += out[at] != (k < COLS ? x[at] + y[plane * ROWS * 7 + r + k * ROWS] : -1);
            }
    CHECK_EQ(wrong, 0);
}

static void names(void) {
    CHECK_EQ(rt_block_find("no_such_instruction", RT_CLASS_F32), -1);
    CHECK_EQ(rt_block_find("sub", RT_CLASS_B), -1);
    int lt = rt_block_find("lt", RT_CLASS_F64);
    CHECK_STR(rt_block_op_name(lt), "lt");
    CHECK_EQ(rt_block_arity(lt), 2);
    CHECK_EQ(rt_block_out_class(lt), RT_CLASS_B);
    CHECK_EQ(rt_block_out_class(rt_block_find("abs", RT_CLASS_C64)), RT_CLASS_F32);
    CHECK_EQ(rt_class_of(RT_BF16), RT_CLASS_F32);
    CHECK_EQ(rt_class_of(RT_U8), RT_CLASS_I64);
    CHECK_EQ(rt_class_of(RT_U64), RT_CLASS_U64);
    CHECK_STR(rt_class_name(RT_CLASS_C128), "c128");
}

int main(int argc, char **argv) {
    (void)argc;
    if (every_isa(argv)) return every_isa_result();
    RUN(short_rows);
    RUN(names);
    RUN(layouts);
    RUN(layouts_with_threads);
    RUN(inputs_are_rounded_to_the_common_dtype);
    RUN(an_output_may_be_an_input);
    RUN(several_outputs_constants_and_prologue);
    RUN(integer_division);
    RUN(narrow_integers_wrap);
    RUN(functions);
    return check_summary();
}
