/* The ATen schema parser: what it reads, that it prints the text back, and where it finds faults. That it agrees with
 * PyTorch's own list is checked from Python (tests/py/test_schema.py). */
#include "ops/op.h"

#include "check.h"

static void round_trips(void) {
    static const char *const texts[] = {
        "aten::relu(Tensor self) -> Tensor",
        "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
        "aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)",
        "aten::max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
        "aten::split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]",
        "aten::index.Tensor(Tensor self, Tensor?[] indices) -> Tensor",
        "aten::conv2d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1], SymInt[2] padding=[0, "
        "0], SymInt[2] dilation=[1, 1], SymInt groups=1) -> Tensor",
        "aten::max_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] dilation=1, bool "
        "ceil_mode=False) -> Tensor",
        "aten::max_pool1d(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=[0], int[1] dilation=[1], "
        "bool ceil_mode=False) -> Tensor",
        "aten::sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
        "aten::empty_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? "
        "pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
        "aten::contiguous(Tensor(a) self, *, MemoryFormat memory_format=0) -> Tensor(a)",
        "aten::as_tensor(Tensor(a) data, *, ScalarType? dtype=None) -> Tensor(b|a)",
        "aten::strip(str self, str chars=\" \\n\\t\\f\\v\") -> str",
        "aten::quoted(str a=\"\\\"\\'\\\\\") -> ()",
        "aten::bernoulli.p(Tensor self, float p, *, Generator? generator=None) -> Tensor",
        "aten::norm(Scalar p=2., float eps=1.0000000000000001e-05, float low=-inf) -> Tensor",
        "higher_order::cond(Any pred, Graph true_fn, Graph false_fn, Any[] operands=[]) -> ...",
        "aten::_assert_async(Tensor self) -> ()",
    };
    for (size_t i = 0; i < CR_COUNT(texts); i++) {
        cr_arena arena;
        cr_schema s;
        cr_arena_init(&arena);
        CHECK_OK(cr_schema_parse(&arena, texts[i], &s));
        if (!cr_schema_parse(&arena, texts[i], &s)) CHECK_STR(s.text, texts[i]);
        cr_arena_dispose(&arena);
    }
}

static void parts(void) {
    cr_arena arena;
    cr_schema s;
    cr_arena_init(&arena);
    CHECK_OK(cr_schema_parse(&arena,
                             "aten::f.over(Tensor(a!) self, int[2] k=3, Tensor?[] l, *, SymInt? n=None, str "
                             "mode='sum') -> (Tensor(a!), Tensor[] rest)",
                             &s));
    CHECK_STR(s.ns, "aten");
    CHECK_STR(s.name, "f");
    CHECK_STR(s.overload, "over");
    CHECK_EQ(s.nparams, 5);
    CHECK_EQ(s.npositional, 3);
    CHECK_EQ(s.nreturns, 2);
    CHECK(s.params[0].writes && s.params[0].alias == 'a' && s.params[0].type == CR_T_TENSOR);
    CHECK_EQ(s.params[1].fallback.kind, CR_ARG_LIST); /* one number is given to each place */
    CHECK_EQ(s.params[1].fallback.n, 2);
    CHECK_EQ(s.params[1].fallback.u.list[1].u.i, 3);
    CHECK(s.params[2].list && s.params[2].item_optional && !s.params[2].optional);
    CHECK(s.params[3].keyword_only && s.params[3].symbolic && s.params[3].optional && s.params[3].has_default);
    CHECK_STR(s.params[4].fallback.u.s, "sum");
    CHECK(s.returns[1].list);
    CHECK_STR(s.returns[1].name, "rest");
    cr_arena_dispose(&arena);
}

static void faults(void) {
    static const struct { const char *text, *message; } cases[] = {
        { "", "1:1: expected a name" },
        { "aten", "1:5: expected '::'" },
        { "aten::f", "1:8: expected '('" },
        { "aten::f(Tensor)", "1:15: expected a name" },
        { "aten::f(Tenser x) -> Tensor", "1:9: unknown type" },
        { "aten::f(Tensor x -> Tensor", "1:18: expected ','" },
        { "aten::f(Tensor x)", "1:18: expected '->'" },
        { "aten::f(int x=) -> Tensor", "1:15: expected a default value" },
        { "aten::f(int x=1.5) -> Tensor", "1:15: expected an integer" },
        { "aten::f(str x=\"a) -> Tensor", "1:16: unterminated string" },
        { "aten::f(str x=\"\\q\") -> Tensor", "unknown escape" },
        { "aten::f(int[0] x) -> Tensor", "a fixed size from 1 to 64" },
        { "aten::f(int[99999999999] x=1) -> Tensor", "a fixed size from 1 to 64" },
        { "aten::f(Tensor(1) x) -> Tensor", "1:16: expected an alias set letter" },
        { "aten::f(Tensor(a -> b) x) -> Tensor", "1:21: expected '*'" },
        { "aten::f(\n  Tensor x) -> Tensor,", "2:22: unexpected text after the schema" },
    };
    for (size_t i = 0; i < CR_COUNT(cases); i++) {
        cr_arena arena;
        cr_schema s;
        cr_arena_init(&arena);
        CHECK_ERROR(cr_schema_parse(&arena, cases[i].text, &s), CR_EFORMAT, cases[i].message);
        cr_arena_dispose(&arena);
    }
}

static cr_status parse_once(void *text) {
    cr_arena arena;
    cr_schema s;
    cr_arena_init(&arena);
    cr_status status = cr_schema_parse(&arena, text, &s);
    cr_arena_dispose(&arena);
    return status;
}

static void out_of_memory(void) {
    static char text[] = "aten::f.over(Tensor(a|b!) self, int[2] k=3, Tensor?[] l, *, str mode='sum', float[] w=[1.0, "
                         "2]) -> (Tensor, Tensor[] rest)";
    CHECK_OK(parse_once(text));
    cr_error_release(cr_error_take());
    CHECK_OOM_SWEEP(parse_once, text);
}

int main(void) {
    RUN(round_trips);
    RUN(parts);
    RUN(faults);
    RUN(out_of_memory);
    return check_summary();
}
