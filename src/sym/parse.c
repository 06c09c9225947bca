/* Both text forms, one parser: srepr is the part of the infix language that is calls only.
 *
 * Precedence climbing over Python's operators. SymPy writes exact rationals (s0/2, Rational(1, 3), Pow(s0, -1)), which
 * are no value of ours; while parsing, a number is therefore a numerator and a denominator, and becomes a float
 * quotient only where nothing rounds or compares it first. Depth and length are bounded, so hostile text costs an
 * error. */
#include "sym/internal.h"
#include "sym/names.h"

#include <math.h>
#include <stdlib.h>

enum { MAX_DEPTH = 500, MAX_TEXT = 1 << 20 };
enum { OR = 1, AND, NOT, COMPARE, BIT_OR, BIT_AND, SUM, PRODUCT, UNARY, POWER };

typedef struct {
    cr_env *env;
    const char *text, *at;
    bool known_only, srepr;
    int depth;
} parser;
typedef struct { cr_sym num, den; } number; /* den NULL: 1 */
typedef CR_VEC(number) numbers;

static cr_status expression(parser *p, int least, number *out);

static cr_status fail(parser *p, const char *at, const char *expected) {
    int line, column;
    cr_text_position(p->text, at, &line, &column);
    int shown = (int)strcspn(at, "\n");
    if (shown > 24) shown = 24;
    if (!*at)
        return CR_FAIL(CR_EFORMAT, "expression, line %d, column %d: %s; the text ends here", line, column, expected);
    return CR_FAIL(CR_EFORMAT, "expression, line %d, column %d: %s; found '%.*s'", line, column, expected, shown, at);
}

static cr_status made(cr_sym e, number *out) {
    if (!e) return CR_FAIL(CR_ENOMEM, "expression");
    *out = (number){e, NULL};
    return CR_OK;
}

static void skip_space(parser *p) { p->at += strspn(p->at, " \t\r\n"); }

static bool accept(parser *p, const char *token) {
    skip_space(p);
    size_t n = strlen(token);
    if (strncmp(p->at, token, n) != 0) return false;
    p->at += n;
    return true;
}

static cr_status expect(parser *p, char c) {
    char token[2] = {c, 0};
    if (accept(p, token)) return CR_OK;
    char text[16] = {'e', 'x', 'p', 'e', 'c', 't', 'e', 'd', ' ', '\'', c, '\'', 0};
    return fail(p, p->at, text);
}

/* ---- rationals ---- */

static cr_sym whole(cr_env *env, number n) { return n.den ? cr__truediv(env, n.num, n.den) : n.num; }

static cr_status reduced(cr_env *env, cr_sym num, cr_sym den, number *out) {
    if (!num || !den) return CR_FAIL(CR_ENOMEM, "expression");
    if (num->type != CR_TYPE_INT || den->type != CR_TYPE_INT) return made(cr__truediv(env, num, den), out);
    if (cr__is_const(den, 1)) return made(num, out);
    *out = (number){num, den};
    if (cr__is_const(den, 0)) return CR_OK;
    cr_sym quotient = cr__floordiv(env, num, den), back = cr_sym_mul(env, quotient, den);
    if (!back) return CR_FAIL(CR_ENOMEM, "expression");
    if (back == num && !cr__is_opaque(back)) *out = (number){quotient, NULL};
    return CR_OK;
}

static bool exact(number n) { return n.num->type != CR_TYPE_FLOAT; }

static cr_status add(cr_env *env, number a, number b, bool subtract, number *out) {
    if ((!a.den && !b.den) || !exact(a) || !exact(b)) {
        cr_sym x = whole(env, a), y = whole(env, b);
        return made(subtract ? cr_sym_sub(env, x, y) : cr_sym_add(env, x, y), out);
    }
    cr_sym one = env->one, da = a.den ? a.den : one, db = b.den ? b.den : one;
    cr_sym x = cr_sym_mul(env, a.num, db), y = cr_sym_mul(env, b.num, da);
    return reduced(env, subtract ? cr_sym_sub(env, x, y) : cr_sym_add(env, x, y), cr_sym_mul(env, da, db), out);
}

static cr_status multiply(cr_env *env, number a, number b, number *out) {
    if ((!a.den && !b.den) || !exact(a) || !exact(b)) return made(cr_sym_mul(env, whole(env, a), whole(env, b)), out);
    cr_sym den = a.den && b.den ? cr_sym_mul(env, a.den, b.den) : a.den ? a.den : b.den;
    return reduced(env, cr_sym_mul(env, a.num, b.num), den, out);
}

static cr_status divide(cr_env *env, number a, number b, number *out) {
    if (!exact(a) || !exact(b)) return made(cr__truediv(env, whole(env, a), whole(env, b)), out);
    cr_sym num = b.den ? cr_sym_mul(env, a.num, b.den) : cr__as_int(env, a.num);
    cr_sym den = a.den ? cr_sym_mul(env, b.num, a.den) : cr__as_int(env, b.num);
    return reduced(env, num, den, out);
}

static cr_status raise(cr_env *env, number a, number b, number *out) {
    int64_t n;
    if (b.den && cr__is_const(b.num, 1) && cr__is_const(b.den, 2)) return made(cr__sqrt(env, whole(env, a)), out);
    if (!b.den && exact(a) && cr_sym_is_int(b.num, &n) && n < 0 && n != INT64_MIN) {
        number inverse = {a.den ? a.den : env->one, a.num};
        if (n < -1) {
            cr_sym power = cr_sym_int(env, -n);
            inverse = (number){cr__pow(env, inverse.num, power), cr__pow(env, inverse.den, power)};
        }
        return reduced(env, inverse.num, cr__as_int(env, inverse.den), out);
    }
    if (!b.den && a.den && cr_sym_is_int(b.num, &n) && n >= 0)
        return reduced(env, cr__pow(env, a.num, b.num), cr__pow(env, a.den, b.num), out);
    return made(cr__pow(env, whole(env, a), whole(env, b)), out);
}

static bool positive_constant(cr_sym e) { return !e || (e->kind == CR_SYM_INTEGER && e->constant > 0); }

static cr_status compare(cr_env *env, number a, cr_cmp cmp, number b, number *out) {
    if (exact(a) && exact(b) && positive_constant(a.den) && positive_constant(b.den)) { /* a/c < b/d is a*d < b*c */
        cr_sym x = b.den ? cr_sym_mul(env, a.num, b.den) : a.num, y = a.den ? cr_sym_mul(env, b.num, a.den) : b.num;
        return made(cr_sym_compare(env, x, cmp, y), out);
    }
    return made(cr_sym_compare(env, whole(env, a), cmp, whole(env, b)), out);
}

static cr_status rounded(cr_env *env, number a, bool up, number *out) {
    if (a.den) return made(up ? cr__ceildiv(env, a.num, a.den) : cr__floordiv(env, a.num, a.den), out);
    return made(cr__round(env, up ? CR_SYM_CEIL : CR_SYM_FLOOR, a.num), out);
}

/* ---- leaves ---- */

/* An unsigned literal at p->at; `negative` gives it its sign, so that the lowest integer can be read. */
static cr_status literal(parser *p, bool negative, number *out) {
    const char *start = p->at;
    size_t digits = strspn(start, "0123456789"), n = digits;
    if (start[n] == '.') n += 1 + strspn(start + n + 1, "0123456789");
    bool real = n != digits;
    if (n == 0 || (real && n == 1)) return fail(p, start, "expected a number");
    if (start[n] == 'e' || start[n] == 'E') {
        size_t sign = start[n + 1] == '+' || start[n + 1] == '-', more = strspn(start + n + 1 + sign, "0123456789");
        if (more) n += 1 + sign + more, real = true;
    }
    if (cr__name_byte(start[n])) return fail(p, start, "expected a number");
    p->at = start + n;
    if (real) {
        double value = cr_strtod(start, NULL);
        return made(cr_sym_float(p->env, negative ? -value : value), out);
    }
    int64_t value = 0;
    for (size_t i = 0; i < n; i++) {
        if (cr_mul_overflow(value, (int64_t)10, &value) || cr_sub_overflow(value, (int64_t)(start[i] - '0'), &value))
            return fail(p, start, "expected an integer of 64 bits");
    }
    if (!negative && cr_sub_overflow((int64_t)0, value, &value))
        return fail(p, start, "expected an integer of 64 bits");
    return made(cr_sym_int(p->env, value), out);
}

static bool starts_literal(const parser *p) {
    return (*p->at >= '0' && *p->at <= '9') || (*p->at == '.' && p->at[1] >= '0' && p->at[1] <= '9');
}

static cr_status signed_integer(parser *p, number *out) {
    bool negative = accept(p, "-");
    skip_space(p);
    const char *start = p->at;
    CR_TRY(literal(p, negative, out));
    return out->num->kind == CR_SYM_INTEGER ? CR_OK : fail(p, start, "expected an integer");
}

static int hex_digit(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* A quoted Python string. *out: cr_free. */
static cr_status string(parser *p, char **out) {
    skip_space(p);
    char quote = *p->at;
    const char *start = p->at;
    if (quote != '\'' && quote != '"') return fail(p, start, "expected a quoted name");
    cr_str s = {0};
    cr_status status = CR_OK;
    for (p->at++; *p->at && *p->at != quote; p->at++) {
        char c = *p->at;
        if (c == '\\') {
            static const char escapes[] = "n\nt\tr\r\\\\''\"\"";
            c = *++p->at;
            const char *found = c ? strchr(escapes, c) : NULL;
            if (c == 'x' && hex_digit(p->at[1]) >= 0 && hex_digit(p->at[2]) >= 0) {
                c = (char)(hex_digit(p->at[1]) * 16 + hex_digit(p->at[2]));
                p->at += 2;
            } else if (found && (found - escapes) % 2 == 0) {
                c = found[1];
            } else {
                c = 0;
            }
            if (!c) break;
        }
        cr_str_addc(&s, c);
    }
    if (*p->at != quote) status = fail(p, start, "expected a quoted name with simple escapes");
    else p->at++;
    if (!status) status = cr_str_take(&s, out);
    cr_str_dispose(&s);
    return status;
}

static size_t word_length(const char *at) {
    size_t n = 0;
    while (cr__name_byte(at[n])) n++;
    return n;
}

static bool word_is(const char *at, size_t n, const char *word) {
    return strlen(word) == n && memcmp(at, word, n) == 0;
}

static cr_status symbol(parser *p, const char *at, const char *name, cr_sym_type type, int64_t lo, int64_t hi,
                        number *out) {
    cr_sym found = cr_sym_find_symbol(p->env, name);
    if (found) return made(found, out);
    if (p->known_only) return fail(p, at, "expected a symbol that is known here");
    return made(cr_sym_symbol(p->env, name, type, lo, hi), out);
}

/* After "Symbol(": 's0', positive=True, integer=True) */
static cr_status symbol_call(parser *p, const char *start, number *out) {
    char *name = NULL;
    cr_status status = CR_OK;
    int64_t lo = CR__MINF, hi = CR__PINF;
    bool integer = false, real = false;
    CR_TRY(string(p, &name));
    while (accept(p, ",")) {
        skip_space(p);
        const char *key = p->at;
        size_t n = word_length(key);
        p->at += n;
        if (n == 0 || !accept(p, "=")) {
            status = fail(p, key, "expected an assumption such as integer=True");
            goto out;
        }
        skip_space(p);
        bool holds = word_is(p->at, word_length(p->at), "True");
        if (!holds && !word_is(p->at, word_length(p->at), "False") && !word_is(p->at, word_length(p->at), "None")) {
            status = fail(p, p->at, "expected True, False or None");
            goto out;
        }
        p->at += word_length(p->at);
        if (!holds) continue;
        if (word_is(key, n, "integer")) integer = true;
        else if (word_is(key, n, "real")) real = true;
        else if (word_is(key, n, "positive")) lo = CR_MAX(lo, (int64_t)1);
        else if (word_is(key, n, "nonnegative")) lo = CR_MAX(lo, (int64_t)0);
        else if (word_is(key, n, "negative")) hi = CR_MIN(hi, (int64_t)-1);
        else if (word_is(key, n, "nonpositive")) hi = CR_MIN(hi, (int64_t)0);
    }
    CR_TRY_OUT(expect(p, ')'));
    CR_TRY_OUT(symbol(p, start, name, real && !integer ? CR_TYPE_FLOAT : CR_TYPE_INT, lo, hi, out));
out:
    cr_free(name);
    return status;
}

/* After "Float(": '2.5', precision=53) */
static cr_status float_call(parser *p, number *out) {
    skip_space(p);
    if (*p->at == '\'' || *p->at == '"') {
        char *text = NULL, *end;
        const char *start = p->at;
        CR_TRY(string(p, &text));
        double value = cr_strtod(text, &end);
        bool good = *text && !*end;
        cr_free(text);
        if (!good) return fail(p, start, "expected a float in quotes");
        CR_TRY(made(cr_sym_float(p->env, value), out));
    } else {
        bool negative = accept(p, "-");
        skip_space(p);
        CR_TRY(literal(p, negative, out));
        CR_TRY(made(cr__as_float(p->env, out->num), out));
    }
    if (accept(p, ",")) { /* the precision: doubles have one */
        number ignored;
        if (!accept(p, "precision") && !accept(p, "dps")) return fail(p, p->at, "expected precision=53");
        CR_TRY(expect(p, '='));
        CR_TRY(signed_integer(p, &ignored));
    }
    return expect(p, ')');
}

static cr_status opaque_call(parser *p, number *out) {
    char *name = NULL;
    const char *start = p->at;
    int type = 0;
    CR_TRY(string(p, &name));
    while (type < 3 && strcmp(name, cr__type_name((cr_sym_type)type)) != 0) type++;
    cr_free(name);
    if (type == 3) return fail(p, start, "expected 'int', 'float' or 'bool'");
    CR_TRY(made(cr__opaque(p->env, (cr_sym_type)type), out));
    return expect(p, ')');
}

static cr_status rational_call(parser *p, number *out) {
    number a, b;
    CR_TRY(signed_integer(p, &a));
    CR_TRY(expect(p, ','));
    const char *start = p->at;
    CR_TRY(signed_integer(p, &b));
    if (b.num->constant <= 0) return fail(p, start, "expected a positive denominator");
    CR_TRY(reduced(p->env, a.num, b.num, out));
    return expect(p, ')');
}

/* ---- calls ---- */

static cr_status special(cr_env *env, int which, const number *a, number *out) {
    cr_sym x = whole(env, a[0]), two;
    switch (which) {
    case CR__NEGATIVE_POW: return raise(env, a[0], a[1], out);
    case CR__FLOOR_OF: return rounded(env, a[0], false, out);
    case CR__CEILING_OF: return rounded(env, a[0], true, out);
    case CR__IDENTITY: *out = a[0]; return CR_OK;
    case CR__TRUNC_TO_FLOAT: return made(cr__as_float(env, cr__round(env, CR_SYM_TRUNC, x)), out);
    case CR__INT_DIV: return made(cr__truediv(env, x, whole(env, a[1])), out);
    case CR__FLOAT_DIV: return made(cr__truediv(env, cr__as_float(env, x), cr__as_float(env, whole(env, a[1]))), out);
    case CR__FLOAT_POW: return made(cr__pow(env, cr__as_float(env, x), cr__as_float(env, whole(env, a[1]))), out);
    case CR__XOR: return made(cr__bits_differ(env, x, whole(env, a[1])), out);
    case CR__CLEAN_DIV: return made(cr__floordiv(env, x, whole(env, a[1])), out); /* a division that leaves nothing */
    case CR__MODULAR_INDEXING:
        return made(cr__mod(env, cr__floordiv(env, x, whole(env, a[1])), whole(env, a[2])), out);
    default:
        two = cr__pow(env, cr_sym_int(env, 2), whole(env, a[1]));
        return made(which == CR__LSHIFT ? cr_sym_mul(env, x, two) : cr__floordiv(env, x, two), out);
    }
}

static cr_status apply(cr_env *env, const cr__function *f, numbers *args, number *out) {
    cr_status status = CR_OK;
    number result = args->at[0];
    if (f->shape == CR__SPECIAL) return special(env, f->kind, args->at, out);
    if (f->shape == CR__COMPARE) return compare(env, args->at[0], (cr_cmp)f->kind, args->at[1], out);
    bool integers = true;
    for (size_t i = 0; i < args->n; i++) integers &= !args->at[i].den && args->at[i].num->type == CR_TYPE_INT;
    if (f->shape == CR__PRODUCT && !integers) {
        for (size_t i = 1; i < args->n; i++) CR_TRY(multiply(env, result, args->at[i], &result));
        *out = result;
        return CR_OK;
    }
    if (f->shape == CR__SUM && integers) { /* at once: adding one by one would make a node for every prefix */
        cr__poly sum;
        cr__poly_init(&sum);
        for (size_t i = 0; i < args->n; i++) cr__poly_add(&sum, args->at[i].num, 1);
        return made(cr__poly_take(env, &sum), out);
    }
    if (f->shape == CR__SUM) {
        for (size_t i = 1; i < args->n; i++) CR_TRY(add(env, result, args->at[i], false, &result));
        *out = result;
        return CR_OK;
    }
    cr_sym *operands = cr_alloc(args->n * sizeof *operands), e;
    if (!operands) return CR_ENOMEM;
    for (size_t i = 0; i < args->n; i++) operands[i] = whole(env, args->at[i]);
    if (f->shape == CR__PRODUCT) e = cr__product(env, operands, args->n);
    else if (f->shape == CR__LIST) e = cr__minmax(env, (cr_sym_kind)f->kind, operands, args->n);
    else if (f->shape == CR__JUNCTION) e = cr__junction(env, (cr_sym_kind)f->kind, operands, args->n);
    else
        e = cr_sym_make(env, (cr_sym_kind)f->kind, operands[0], args->n > 1 ? operands[1] : NULL,
                        args->n > 2 ? operands[2] : NULL);
    cr_free(operands);
    status = made(e, out);
    return status;
}

/* After "Piecewise(": ExprCondPair(value, condition), ..., ExprCondPair(value, true)): the first whose condition
 * holds. */
static cr_status piecewise_call(parser *p, number *out) {
    numbers parts = {0};
    cr_status status = CR_OK;
    const char *start = p->at;
    do {
        number part;
        bool pair = accept(p, "ExprCondPair");
        CR_TRY_OUT(expect(p, '('));
        for (int i = 0; i < 2; i++) {
            CR_TRY_OUT(expression(p, OR, &part));
            CR_TRY_OUT(cr_vec_push(&parts, part));
            CR_TRY_OUT(expect(p, i ? ')' : ','));
        }
        if (p->srepr && !pair) status = fail(p, start, "expected ExprCondPair(value, condition)");
        if (status) goto out;
    } while (accept(p, ","));
    CR_TRY_OUT(expect(p, ')'));
    if (parts.at[parts.n - 1].num != p->env->truth[1]) {
        status = fail(p, start, "expected a last part whose condition is true");
        goto out;
    }
    *out = parts.at[parts.n - 2];
    for (size_t i = parts.n - 2; !status && i > 0; i -= 2)
        status = made(cr__where(p->env, whole(p->env, parts.at[i - 1]), whole(p->env, parts.at[i - 2]),
                                whole(p->env, *out)),
                      out);
out:
    cr_vec_dispose(&parts);
    return status;
}

static cr_status call(parser *p, const char *name, size_t n, number *out) {
    if (word_is(name, n, "Symbol") || word_is(name, n, "Dummy")) return symbol_call(p, name, out);
    if (word_is(name, n, "Float")) return float_call(p, out);
    if (word_is(name, n, "Rational")) return rational_call(p, out);
    if (word_is(name, n, "Opaque")) return opaque_call(p, out);
    if (word_is(name, n, "Piecewise")) return piecewise_call(p, out);
    if (word_is(name, n, "Integer")) {
        CR_TRY(signed_integer(p, out));
        return expect(p, ')');
    }
    const cr__function *f = cr__function_find(name, n);
    if (!f) return fail(p, name, "expected a function that is known here");
    numbers args = {0};
    cr_status status = CR_OK;
    do {
        number arg;
        CR_TRY_OUT(expression(p, OR, &arg));
        CR_TRY_OUT(cr_vec_push(&args, arg));
    } while (accept(p, ","));
    CR_TRY_OUT(expect(p, ')'));
    if (f->arguments > 0 && args.n != (size_t)f->arguments)
        status = fail(p, name, "expected another number of arguments for the function");
    else status = apply(p->env, f, &args, out);
out:
    cr_vec_dispose(&args);
    return status;
}

static cr_status primary(parser *p, number *out) {
    skip_space(p);
    const char *start = p->at;
    if (!p->srepr && starts_literal(p)) return literal(p, false, out);
    if (!p->srepr && accept(p, "(")) {
        CR_TRY(expression(p, OR, out));
        return expect(p, ')');
    }
    size_t n = word_length(start);
    if (n == 0 || (*start >= '0' && *start <= '9')) return fail(p, start, "expected an expression");
    p->at += n;
    if (accept(p, "(")) return call(p, start, n, out);
    p->at = start + n;
    if (word_is(start, n, "True") || word_is(start, n, "true")) return made(p->env->truth[1], out);
    if (word_is(start, n, "False") || word_is(start, n, "false")) return made(p->env->truth[0], out);
    if (word_is(start, n, "oo")) return made(cr_sym_float(p->env, INFINITY), out);
    if (word_is(start, n, "nan")) return made(cr_sym_float(p->env, NAN), out);
    if (p->srepr || word_is(start, n, "and") || word_is(start, n, "or") || word_is(start, n, "not"))
        return fail(p, start, "expected an expression");
    char *name = cr_strndup(start, n);
    if (!name) return CR_ENOMEM;
    cr_status status = symbol(p, start, name, CR_TYPE_INT, CR__MINF, CR__PINF, out);
    cr_free(name);
    return status;
}

/* ---- operators ---- */

static bool next_word(parser *p, const char *word) {
    skip_space(p);
    if (!word_is(p->at, word_length(p->at), word)) return false;
    p->at += strlen(word);
    return true;
}

static cr_status negate(parser *p, number a, number *out) {
    *out = (number){cr_sym_neg(p->env, a.num), a.den};
    return out->num ? CR_OK : CR_FAIL(CR_ENOMEM, "expression");
}

static cr_status unary(parser *p, int least, number *out) {
    number a;
    skip_space(p);
    if (accept(p, "-")) {
        skip_space(p);
        const char *start = p->at;
        if (starts_literal(p)) { /* the sign is the literal's own, unless a power comes first: -2**2 */
            CR_TRY(literal(p, true, out));
            if (!accept(p, "**")) return CR_OK;
            p->at = start;
        }
        CR_TRY(expression(p, UNARY, &a));
        return negate(p, a, out);
    }
    if (p->srepr) return primary(p, out);
    if (accept(p, "+")) return expression(p, UNARY, out);
    if (accept(p, "~") || (least <= NOT && next_word(p, "not"))) {
        bool loose = p->at[-1] != '~';
        CR_TRY(expression(p, loose ? NOT : UNARY, &a));
        return made(cr__not(p->env, whole(p->env, a)), out);
    }
    CR_TRY(primary(p, out));
    if (!accept(p, "**")) return CR_OK;
    CR_TRY(expression(p, UNARY, &a)); /* groups from the right, and the exponent may have a sign */
    return raise(p->env, *out, a, out);
}

static const struct {
    const char *text;
    int level;
    int code;
} operators[] = {
    /* longer texts before their beginnings */
    {"==", COMPARE, CR_EQ}, {"!=", COMPARE, CR_NE}, {"<=", COMPARE, CR_LE},   {">=", COMPARE, CR_GE},
    {"<", COMPARE, CR_LT},  {">", COMPARE, CR_GT},  {"|", BIT_OR, CR_SYM_OR}, {"&", BIT_AND, CR_SYM_AND},
    {"+", SUM, '+'},        {"-", SUM, '-'},        {"//", PRODUCT, 'f'},     {"/", PRODUCT, '/'},
    {"%", PRODUCT, '%'},    {"*", PRODUCT, '*'},
};

/* The operator at p->at if it binds at least as tightly as `least`; consumed. */
static int next_operator(parser *p, int least, int *code) {
    skip_space(p);
    if (p->srepr) return 0;
    if (least <= OR && next_word(p, "or")) return *code = CR_SYM_OR, OR;
    if (least <= AND && next_word(p, "and")) return *code = CR_SYM_AND, AND;
    for (size_t i = 0; i < CR_COUNT(operators); i++) {
        if (strncmp(p->at, operators[i].text, strlen(operators[i].text)) != 0) continue;
        if (operators[i].level < least) return 0;
        p->at += strlen(operators[i].text);
        *code = operators[i].code;
        return operators[i].level;
    }
    return 0;
}

/* first op second op ... on one level that joins a list: + and -, *, and, or. */
static cr_status list(parser *p, int level, int code, number first, number *out) {
    static const cr__function sum = {"", CR__SUM, CR_SYM_ADD, -1}, product = {"", CR__PRODUCT, CR_SYM_MUL, -1},
                              both = {"", CR__JUNCTION, CR_SYM_AND, -1}, either = {"", CR__JUNCTION, CR_SYM_OR, -1};
    const cr__function *f = level == SUM ? &sum : level == PRODUCT ? &product : code == CR_SYM_AND ? &both : &either;
    numbers args = {0};
    cr_status status = CR_OK;
    const char *start = p->at, *back;
    bool more;
    CR_TRY_OUT(cr_vec_push(&args, first));
    do {
        number next;
        CR_TRY_OUT(expression(p, level + 1, &next));
        if (code == '-') CR_TRY_OUT(negate(p, next, &next));
        CR_TRY_OUT(cr_vec_push(&args, next));
        back = p->at;
        more = next_operator(p, level, &code) != 0;
        if (more && level == PRODUCT && code != '*') p->at = back, more = false; /* / // % take what is left of them */
    } while (more);
    for (size_t i = 0; (level == BIT_OR || level == BIT_AND) && i < args.n; i++) {
        if (args.at[i].num->type == CR_TYPE_BOOL) continue;
        status =
            fail(p, start, "expected conditions on both sides of & and |, which are not supported between integers");
        goto out;
    }
    status = apply(p->env, f, &args, out);
out:
    cr_vec_dispose(&args);
    return status;
}

/* a < b < c is a < b and b < c. */
static cr_status comparisons(parser *p, int code, number left, number *out) {
    number right, one;
    cr_sym all = NULL;
    do {
        CR_TRY(expression(p, COMPARE + 1, &right));
        CR_TRY(compare(p->env, left, (cr_cmp)code, right, &one));
        all = all ? cr_sym_make(p->env, CR_SYM_AND, all, one.num, NULL) : one.num;
        left = right;
    } while (next_operator(p, COMPARE, &code));
    return made(all, out);
}

static cr_status binary(parser *p, int level, int code, number left, number *out) {
    number right;
    if (level == COMPARE) return comparisons(p, code, left, out);
    if (level != PRODUCT || code == '*') return list(p, level, code, left, out);
    CR_TRY(expression(p, PRODUCT + 1, &right));
    if (code == '/') return divide(p->env, left, right, out);
    if (code == '%') return made(cr__mod(p->env, whole(p->env, left), whole(p->env, right)), out);
    if (left.den || right.den) { /* (a/b) // c is the floor of an exact quotient */
        number quotient;
        CR_TRY(divide(p->env, left, right, &quotient));
        return rounded(p->env, quotient, false, out);
    }
    return made(cr__floordiv(p->env, left.num, right.num), out);
}

static cr_status expression(parser *p, int least, number *out) {
    int code, level;
    number left;
    if (++p->depth > MAX_DEPTH) return fail(p, p->at, "expected less nesting");
    CR_TRY(unary(p, least, &left));
    while ((level = next_operator(p, least, &code)) != 0) CR_TRY(binary(p, level, code, left, &left));
    p->depth--;
    *out = left;
    return CR_OK;
}

static cr_status parse(cr_env *env, const char *text, bool known_only, bool srepr, cr_sym *out) {
    parser p = {.env = env, .text = text, .at = text, .known_only = known_only, .srepr = srepr};
    number n;
    if (strnlen(text, MAX_TEXT + 1) > MAX_TEXT)
        return CR_FAIL(CR_EFORMAT, "expression: the text is longer than %d bytes", MAX_TEXT);
    CR_TRY(expression(&p, OR, &n));
    skip_space(&p);
    if (*p.at) return fail(&p, p.at, "expected the end of the expression");
    CR_TRY(made(whole(env, n), &n));
    *out = n.num;
    return CR_OK;
}

cr_status cr_sym_parse(cr_env *env, const char *text, bool known_only, cr_sym *out) {
    return parse(env, text, known_only, false, out);
}

cr_status cr_sym_parse_srepr(cr_env *env, const char *text, bool known_only, cr_sym *out) {
    return parse(env, text, known_only, true, out);
}
