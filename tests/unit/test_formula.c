/* The formula language: texts to trees and back, and where errors point. */
#include "check.h"
#include "ops/formula.h"

/* Parses, prints, compares with `want`, parses that again and compares the trees. */
static void round_trip(cr_formula_column column, const char *text, const char *want) {
    cr_arena arena;
    cr_arena_init(&arena);
    cr_formula f, g;
    cr_str printed;
    cr_str_init(&printed);
    cr_status status = cr_formula_parse(&arena, text, column, &f);
    CHECK_OK(status);
    if (!status) {
        cr_formula_print(&f, &printed);
        CHECK_STR(cr_str_get(&printed), want);
        status = cr_formula_parse(&arena, cr_str_get(&printed), column, &g);
        CHECK_OK(status);
        if (!status) CHECK(cr_formula_equal(&f, &g));
    }
    cr_str_dispose(&printed);
    cr_arena_dispose(&arena);
}

static void bad(cr_formula_column column, const char *text, const char *part) {
    cr_arena arena;
    cr_arena_init(&arena);
    cr_formula f;
    CHECK_ERROR(cr_formula_parse(&arena, text, column, &f), CR_EFORMAT, part);
    cr_arena_dispose(&arena);
}

static void precedence(void) {
    static const char *const texts[][2] = {
        { "a+b*c", "a + b * c" },
        { "(a+b)*c", "(a + b) * c" },
        { "a-(b-c)", "a - (b - c)" },
        { "(a-b)-c", "a - b - c" },
        { "-x^2", "-x^2" },
        { "(-x)^2", "(-x)^2" },
        { "2^-x", "2^-x" },
        { "a^b^c", "a^b^c" },
        { "(a^b)^c", "(a^b)^c" },
        { "--x", "--x" },
        { "!a and b or c", "!a and b or c" },
        { "!(a and b)", "!(a and b)" },
        { "a and (b or c)", "a and (b or c)" },
        { "a<b&c", "a < b & c" },
        { "(a<b)&c", "(a < b) & c" },
        { "(a < b) == c", "(a < b) == c" },
        { "a|b&c<<1", "a | b & c << 1" },
        { "c ? a : d ? b : e", "c ? a : d ? b : e" },
        { "(c ? a : b) + 1", "(c ? a : b) + 1" },
        { "c ? d ? a : b : e", "c ? d ? a : b : e" },
        { "(c ? a : b) ? d : e", "(c ? a : b) ? d : e" },
        { "x is none or y is not none", "x is none or y is not none" },
        { "(x is none) + 1", "(x is none) + 1" },
        { "a // b % c / d", "a // b % c / d" },
        { "a // (b % c)", "a // (b % c)" },
        { "~a", "~a" },
        { "-(a+b)", "-(a + b)" },
        { "(a + b)[0]", "(a + b)[0]" },
        { "f(x)[1][2]", "f(x)[1][2]" },
        { "sizes(x)[1:]", "sizes(x)[1:]" },
        { "s[:n]", "s[:n]" },
        { "s[:]", "s[:]" },
        { "s[c ? a : b : d]", "s[c ? a : b:d]" },
    };
    for (size_t i = 0; i < CR_COUNT(texts); i++) round_trip(CR_FORMULA_DECOMP, texts[i][0], texts[i][1]);
}

static void leaves(void) {
    round_trip(CR_FORMULA_SCALAR, "[1, 2.5, .5, 1e-5, 10., inf, nan, none, true, false, 'mean', \"it's\", []]",
               "[1, 2.5, 0.5, 1e-05, 10.0, inf, nan, none, true, false, 'mean', \"it's\", []]");
    round_trip(CR_FORMULA_SCALAR, "9223372036854775807", "9223372036854775807");
    round_trip(CR_FORMULA_SCALAR, "pi", "3.141592653589793");
    round_trip(CR_FORMULA_DECOMP, "aten::add.Tensor(self,other,alpha = 2 , )",
               "aten::add.Tensor(self, other, alpha=2)");
    round_trip(CR_FORMULA_DECOMP, "f()", "f()");
    round_trip(CR_FORMULA_DECOMP, "[size(t, dim)\n for t in tensors]", "[size(t, dim) for t in tensors]");
    round_trip(CR_FORMULA_DECOMP, "let m = mean(self, dim, true);\nlet a, b = f(m); self - m, a;",
               "let m = mean(self, dim, true); let a, b = f(m); self - m, a");
}

/* The examples that the language was designed for. */
static void gradients(void) {
    static const char *const texts[] = {
        "self: grad; other: grad * alpha",
        "input, weight, bias: convolution_backward(grad, input, weight, bias is none ? none : sizes(bias), stride, "
        "padding, dilation, transposed, output_padding, groups, needs)",
        "let n = prod(normalized_shape); input, weight, bias: native_layer_norm_backward(grad0, input, "
        "normalized_shape, result1, result2, weight, bias, needs); input: grad1 / n; input: -grad2 * result2^3 * "
        "(input - result1) / n",
        "self: accumulate ? grad : index_put(grad, indices, zeros_like(values)); values: index(grad, indices)",
        "tensors: split_with_sizes(grad, [size(t, dim) for t in tensors], dim)",
        "self: where((min is none ? true : self >= min) & (max is none ? true : self <= max), grad, 0)",
        "self, other: grad, -grad",
        "self: zero",
        "not_differentiable",
        "not_differentiable: result1, result2; self: grad0",
        "",
    };
    for (size_t i = 0; i < CR_COUNT(texts); i++) round_trip(CR_FORMULA_GRAD, texts[i], texts[i]);
}

static void errors(void) {
    bad(CR_FORMULA_DECOMP, "", "1:1: expected the result's expression");
    bad(CR_FORMULA_DECOMP, "let x = 1;", "1:11: expected the result's expression, found the end");
    bad(CR_FORMULA_DECOMP, "a +\n  * b", "2:3: expected an expression, found '*'");
    bad(CR_FORMULA_DECOMP, "a b", "1:3: expected the end after the result, found 'b'");
    bad(CR_FORMULA_DECOMP, "f(a, x=1, b)", "1:11: expected a keyword argument");
    bad(CR_FORMULA_DECOMP, "f(x=1, x=2)", "1:8: argument 'x' is given twice");
    bad(CR_FORMULA_DECOMP, "f(a", "1:4: expected ',' or ')', found the end");
    bad(CR_FORMULA_DECOMP, "[a, b", "expected ',' or ']'");
    bad(CR_FORMULA_DECOMP, "a < b < c", "1:7: comparisons do not chain");
    bad(CR_FORMULA_DECOMP, "x is none + 1", "1:11: expected parentheses");
    bad(CR_FORMULA_DECOMP, "x is 3", "1:6: expected 'none' or 'not none'");
    bad(CR_FORMULA_DECOMP, "'abc", "1:1: this string does not end");
    bad(CR_FORMULA_DECOMP, "a ? b", "1:6: expected ':'");
    bad(CR_FORMULA_DECOMP, "a @ b", "1:3: expected the end after the result, found '@'");
    bad(CR_FORMULA_DECOMP, "a + \xff", "1:5: expected an expression, found the byte 0xff");
    bad(CR_FORMULA_DECOMP, "12ab", "found '12a'");
    bad(CR_FORMULA_DECOMP, "99999999999999999999", "1:1: this number is too large");
    bad(CR_FORMULA_DECOMP, "1e999", "1:1: this number is too large");
    bad(CR_FORMULA_DECOMP, "let let = 1; 2", "1:5: expected a name after 'let', found 'let'");
    bad(CR_FORMULA_DECOMP, "aten::add.Tensor", "expected '(' after an op's name, found the end");
    bad(CR_FORMULA_GRAD, "grad * 2", "1:6: expected ':'");
    bad(CR_FORMULA_GRAD, "self, self: grad", "1:7: 'self' is named twice");
    bad(CR_FORMULA_GRAD, "a, b, c: x, y", "1:1: 3 names get 2 values");
    bad(CR_FORMULA_GRAD, "self: grad other: grad", "1:12: expected ';' or an operator, found 'other'");
    static const char *const deep[] = { "(", "-", "[", "f(", "a ? ", "a^", "x[" };
    for (size_t i = 0; i < CR_COUNT(deep); i++) {
        char text[2000] = "";
        for (int k = 0; k < 400; k++) strcat(text, deep[i]);
        bad(CR_FORMULA_DECOMP, text, "nested");
    }
    char chain[2000] = "a";
    for (int k = 0; k < 400; k++) strcat(chain, "+a");
    bad(CR_FORMULA_DECOMP, chain, "nested more than 96 deep");
}

static cr_status parse_once(const char *text) {
    cr_arena arena;
    cr_arena_init(&arena);
    cr_formula f;
    cr_str out;
    cr_str_init(&out);
    cr_status status = cr_formula_parse(&arena, text, CR_FORMULA_GRAD, &f);
    if (!status) {
        cr_formula_print(&f, &out);
        status = cr_str_status(&out);
    }
    cr_str_dispose(&out);
    cr_arena_dispose(&arena);
    return status;
}
static void out_of_memory(void) {
    cr_error_release(cr_error_take()); /* the last error is a block of its own */
    CHECK_OOM_SWEEP(parse_once, "let a, b = g([x for x in y], k='s'); self, other: a[1:2] ? -b : 2.5 is none, f(x)");
}

int main(void) {
    RUN(precedence);
    RUN(leaves);
    RUN(gradients);
    RUN(errors);
    RUN(out_of_memory);
    return check_summary();
}
