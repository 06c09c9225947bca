/* number.c: ops on numbers: Python's operators, torch.sym_*, math.*.
 *
 * One function serves the interpreter, fake runs and graph building: constants are computed as Python computes them,
 * and as soon as one operand is symbolic the result is an expression of the environment. The rows have no rule and no
 * kernel; they hand out their results directly, as decompositions may. */
#include "graph/internal.h"

#include <math.h>

typedef enum number_op {
    ADD, SUB, MUL, FLOORDIV, TRUEDIV, MOD, POW, NEG, EQ, NE, LT, LE, GT, GE, AND, OR, NOT, MIN, MAX, INT, FLOAT, SQRT,
    CEIL, FLOOR, TRUNC, ITE, POS, LSHIFT, RSHIFT,
} number_op;

/* Name, arguments, what it does. */
#define NUMBER_OPS(X)                                                                                                  \
    X("_operator::add(Scalar a, Scalar b) -> Scalar", ADD)                                                             \
    X("_operator::sub(Scalar a, Scalar b) -> Scalar", SUB) X("_operator::mul(Scalar a, Scalar b) -> Scalar", MUL)      \
        X("_operator::floordiv(Scalar a, Scalar b) -> Scalar",                                                         \
          FLOORDIV) X("_operator::truediv(Scalar a, Scalar b) -> Scalar",                                              \
                      TRUEDIV) X("_operator::mod(Scalar a, Scalar b) -> Scalar",                                       \
                                 MOD) X("_operator::pow(Scalar a, Scalar b) -> Scalar",                                \
                                        POW) X("_operator::neg(Scalar a) -> Scalar",                                   \
                                               NEG) X("_operator::eq(Scalar a, Scalar b) -> Scalar",                   \
                                                      EQ) X("_operator::ne(Scalar a, Scalar b) -> Scalar",             \
                                                            NE) X("_operator::lt(Scalar a, Scalar b) -> Scalar", LT)   \
            X("_operator::le(Scalar a, Scalar b) -> Scalar", LE) X("_operator::gt(Scalar a, Scalar b) -> Scalar", GT)  \
                X("_operator::ge(Scalar a, Scalar b) -> Scalar",                                                       \
                  GE) X("_operator::and_(Scalar a, Scalar b) -> Scalar", AND)                                          \
                    X("_operator::or_(Scalar a, Scalar b) -> Scalar", OR) X("_operator::pos(Scalar a) -> Scalar", POS) \
                        X("_operator::lshift(Scalar a, Scalar b) -> Scalar", LSHIFT)                                   \
                            X("_operator::rshift(Scalar a, Scalar b) -> Scalar", RSHIFT)                               \
                                X("torch::sym_min(Scalar a, Scalar b) -> Scalar", MIN)                                 \
                                    X("torch::sym_max(Scalar a, Scalar b) -> Scalar", MAX)                             \
                                        X("torch::sym_int(Scalar a) -> Scalar", INT)                                   \
                                            X("torch::sym_float(Scalar a) -> Scalar", FLOAT)                           \
                                                X("torch::sym_not(Scalar a) -> Scalar", NOT)                           \
                                                    X("torch::sym_ite(Scalar b, Scalar t, Scalar f) -> Scalar", ITE)   \
                                                        X("torch::sym_sqrt(Scalar a) -> Scalar", SQRT)                 \
                                                            X("torch::_sym_sqrt(Scalar a) -> Scalar", SQRT)            \
                                                                X("math::ceil(Scalar x) -> Scalar", CEIL)              \
                                                                    X("math::floor(Scalar x) -> Scalar", FLOOR)        \
                                                                        X("math::trunc(Scalar x) -> Scalar", TRUNC)

static const uint8_t number_ops[] = {
#define X(schema, op) op,
    NUMBER_OPS(X)
#undef X
};

/* ---- constants: Python's arithmetic, integers checked ---- */

typedef struct number { bool real; int64_t i; double f; bool truth; } number; /* truth: a bool, held in i */

static number number_of(const cr_arg *a) {
    if (a->kind == CR_ARG_FLOAT) return (number){ .real = true, .f = a->u.f };
    return (number){ .i = a->u.i, .f = (double)a->u.i, .truth = a->kind == CR_ARG_BOOL };
}

/* Messages need no op: the call puts its name before them. */
static cr_status overflow(void) { return CR_FAIL(CR_EOVERFLOW, "the result does not fit in 64 bits"); }
static cr_status no_bits(void) { return CR_FAIL(CR_ETYPE, "a float has no bits"); }
static cr_status zero_division(void) { return CR_FAIL(CR_EVALUE, "division by zero"); }

static cr_status int_power(int64_t base, int64_t n, int64_t *out) {
    int64_t result = 1;
    for (; n > 0; n >>= 1) { /* squares only as far as the exponent still needs them */
        if ((n & 1) && cr_mul_overflow(result, base, &result)) return overflow();
        if (n > 1 && cr_mul_overflow(base, base, &base)) return overflow();
    }
    *out = result;
    return CR_OK;
}

static cr_status int_arithmetic(number_op what, int64_t a, int64_t b, cr_arg *out) {
    int64_t r = 0;
    bool bad = false;
    if ((what == FLOORDIV || what == MOD) && !b) return zero_division();
    switch ((int)what) {
    case ADD: bad = cr_add_overflow(a, b, &r); break;
    case SUB: bad = cr_sub_overflow(a, b, &r); break;
    case MUL: bad = cr_mul_overflow(a, b, &r); break;
    case NEG: bad = cr_sub_overflow((int64_t)0, a, &r); break;
    case FLOORDIV:
        if (b == -1) bad = cr_sub_overflow((int64_t)0, a, &r);
        else r = a / b - (a % b != 0 && (a % b < 0) != (b < 0));
        break;
    case MOD: r = b == -1 ? 0 : a % b + ((a % b != 0 && (a % b < 0) != (b < 0)) ? b : 0); break;
    case POW: CR_TRY(int_power(a, b, &r)); break;
    case MIN: r = b < a ? b : a; break;
    case MAX: r = b > a ? b : a; break;
    case AND: r = a & b; break;
    case OR: r = a | b; break;
    case LSHIFT:
        if (b < 0) return CR_FAIL(CR_EVALUE, "negative shift count");
        bad = a && (b > 62 || cr_mul_overflow(a, (int64_t)1 << b, &r));
        break;
    case RSHIFT:
        if (b < 0) return CR_FAIL(CR_EVALUE, "negative shift count");
        r = b > 62 ? -(a < 0) : a / ((int64_t)1 << b) - (a % ((int64_t)1 << b) < 0);
        break;
    default: r = a; break; /* INT, CEIL, FLOOR, TRUNC of an integer */
    }
    if (bad || !cr_dim_is_plain(r)) return overflow();
    *out = cr_arg_int(r);
    return CR_OK;
}

static cr_status float_arithmetic(number_op what, double a, double b, cr_arg *out) {
    double r = a, rest;
    if ((what == FLOORDIV || what == TRUEDIV || what == MOD) && b == 0) return zero_division();
    switch ((int)what) {
    case ADD: r = a + b; break;
    case SUB: r = a - b; break;
    case MUL: r = a * b; break;
    case NEG: r = -a; break;
    case TRUEDIV: r = a / b; break;
    case FLOORDIV: /* exact: the remainder is taken off first */
    case MOD:
        rest = fmod(a, b);
        if (rest != 0 && (rest < 0) != (b < 0)) rest += b;
        if (rest == 0) rest = copysign(0.0, b);
        r = what == MOD ? rest : rint((a - rest) / b);
        break;
    case POW: r = pow(a, b); break;
    case MIN: r = b < a ? b : a; break;
    case MAX: r = b > a ? b : a; break;
    case SQRT:
        if (a < 0) return CR_FAIL(CR_EVALUE, "%g has no real square root", a);
        r = sqrt(a);
        break;
    case AND:
    case LSHIFT:
    case RSHIFT:
    case OR: return no_bits();
    default: break; /* FLOAT */
    }
    *out = cr_arg_float(r);
    return CR_OK;
}

static cr_status round_to_int(number_op what, double a, cr_arg *out) {
    double r = what == CEIL ? ceil(a) : what == FLOOR ? floor(a) : trunc(a);
    if (!(r >= (double)CR_DIM_TAG_LIMIT && r < 0x1p63)) return overflow();
    *out = cr_arg_int((int64_t)r);
    return CR_OK;
}

static bool compares(number_op what, number a, number b) {
    bool real = a.real || b.real, equal = real ? a.f == b.f : a.i == b.i, less = real ? a.f < b.f : a.i < b.i,
         more = real ? a.f > b.f : a.i > b.i;
    switch ((int)what) {
    case EQ: return equal;
    case NE: return !equal;
    case LT: return less;
    case LE: return less || equal;
    case GT: return more;
    default: return more || equal;
    }
}

static cr_status compute(const cr_op *op, number_op what, const cr_arg *args, cr_arg *out) {
    number a = number_of(&args[0]), b = op->schema.nparams > 1 ? number_of(&args[1]) : (number){ 0 };
    bool real = a.real || b.real;
    if (what >= EQ && what <= GE) return *out = cr_arg_bool(compares(what, a, b)), CR_OK;
    switch ((int)what) {
    case AND:
    case OR:
        if (a.truth && b.truth) return *out = cr_arg_bool(what == AND ? a.i && b.i : a.i || b.i), CR_OK;
        break;
    case NOT: return *out = cr_arg_bool(!(a.real ? a.f != 0 : a.i != 0)), CR_OK;
    case ITE: return *out = args[(a.real ? a.f != 0 : a.i != 0) ? 1 : 2], CR_OK;
    case FLOAT: return *out = cr_arg_float(a.f), CR_OK;
    case TRUEDIV:
        /* large integers are not doubles */
        if (!real && b.i) return *out = cr_arg_float((double)((long double)a.i / (long double)b.i)), CR_OK;
        real = true;
        break;
    case SQRT: real = true; break;
    case POW: real |= !real && b.i < 0; break;
    case MIN:
    case MAX:
        if (a.truth && b.truth) return *out = cr_arg_bool(what == MIN ? a.i && b.i : a.i || b.i), CR_OK;
        break;
    case INT:
    case CEIL:
    case FLOOR:
    case TRUNC:
        if (a.real) return round_to_int(what, a.f, out);
        break;
    default: break;
    }
    return real ? float_arithmetic(what, a.f, b.f, out) : int_arithmetic(what, a.i, b.i, out);
}

/* ---- symbols ---- */

static bool is_symbolic(const cr_arg *a) {
    return a->kind == CR_ARG_SYM || (a->kind == CR_ARG_INT && !cr_dim_is_plain(a->u.i));
}

static cr_sym sym_of(cr_env *env, const cr_arg *a) {
    switch ((cr_arg_kind)a->kind) {
    case CR_ARG_SYM: return a->u.sym;
    case CR_ARG_INT: return cr_dim_sym(env, a->u.i);
    case CR_ARG_BOOL: return cr_sym_bool(env, a->u.i != 0);
    default: return cr_sym_float(env, a->u.f);
    }
}

static cr_sym build(cr_env *env, number_op what, cr_sym a, cr_sym b, cr_sym c) {
    static const cr_sym_kind kinds[] = {
        [MUL] = CR_SYM_MUL,   [FLOORDIV] = CR_SYM_FLOORDIV, [TRUEDIV] = CR_SYM_TRUEDIV, [MOD] = CR_SYM_MOD,
        [POW] = CR_SYM_POW,   [AND] = CR_SYM_AND,           [OR] = CR_SYM_OR,           [NOT] = CR_SYM_NOT,
        [MIN] = CR_SYM_MIN,   [MAX] = CR_SYM_MAX,           [INT] = CR_SYM_TRUNC,       [FLOAT] = CR_SYM_TOFLOAT,
        [SQRT] = CR_SYM_SQRT, [CEIL] = CR_SYM_CEIL,         [FLOOR] = CR_SYM_FLOOR,     [TRUNC] = CR_SYM_TRUNC,
        [ITE] = CR_SYM_WHERE
    };
    static const cr_cmp comparisons[] = {
        [EQ] = CR_EQ, [NE] = CR_NE, [LT] = CR_LT, [LE] = CR_LE, [GT] = CR_GT, [GE] = CR_GE
    };
    switch ((int)what) {
    case ADD: return cr_sym_add(env, a, b);
    case SUB: return cr_sym_sub(env, a, b);
    case NEG: return cr_sym_neg(env, a);
    case POS: return a;
    case LSHIFT: return cr_sym_mul(env, a, cr_sym_make(env, CR_SYM_POW, cr_sym_int(env, 2), b, NULL));
    case RSHIFT: return cr_sym_floordiv(env, a, cr_sym_make(env, CR_SYM_POW, cr_sym_int(env, 2), b, NULL));
    case AND:
    case OR: /* of bools logic, of anything else bits */
        if (cr_sym_type_of(a) == CR_TYPE_BOOL && cr_sym_type_of(b) == CR_TYPE_BOOL)
            return cr_sym_make(env, kinds[what], a, b, NULL);
        return cr_sym_make(env, what == AND ? CR_SYM_BITAND : CR_SYM_BITOR, a, b, NULL);
    case EQ:
    case NE:
    case LT:
    case LE:
    case GT:
    case GE: return cr_sym_compare(env, a, comparisons[what], b);
    default: return cr_sym_make(env, kinds[what], a, b, c);
    }
}

/* An expression as an argument: integers are sizes, constants are plain. */
static cr_status as_result(cr_env *env, cr_sym e, cr_arg *out) {
    bool truth;
    if (!e) return cr__env_status(env) ? CR_ENOMEM : CR_FAIL(CR_ENOMEM, "out of memory");
    if (cr_sym_type_of(e) == CR_TYPE_INT) {
        cr_dim d = cr_dim_of(env, e);
        if (d == CR_DIM_OVERFLOW) return cr_env_failed(env) ? cr__env_status(env) : overflow();
        *out = cr_arg_int(d);
    } else if (cr_sym_is_bool(e, &truth)) *out = cr_arg_bool(truth);
    else if (cr_sym_kind_of(e) == CR_SYM_REAL) *out = cr_arg_float(cr_sym_real(e));
    else *out = (cr_arg){ .kind = CR_ARG_SYM, .given = 1, .u.sym = e };
    return CR_OK;
}

static const cr_row number_rows[CR_COUNT(number_ops)];

static cr_status need_env(cr_emitter *e, cr_env **out) {
    *out = e->env ? e->env : cr_ambient_get()->mode.env;
    return *out ? CR_OK : CR_FAIL(CR_EVALUE, "a symbolic number outside of any environment of symbols");
}

static cr_status expand_number(cr_emitter *e, const cr_op *op, const cr_arg *args, cr_arg *results) {
    number_op what = (number_op)number_ops[op->row - number_rows];
    bool symbolic = false;
    for (uint16_t i = 0; i < op->schema.nparams; i++) {
        symbolic |= is_symbolic(&args[i]);
        if (args[i].kind == CR_ARG_COMPLEX)
            return CR_FAIL(CR_ETYPE, "argument '%s' is complex; an int, float or bool is needed",
                           op->schema.params[i].name);
    }
    if (!symbolic) return compute(op, what, args, &results[0]);
    cr_env *env = NULL;
    CR_TRY(need_env(e, &env));
    cr_sym operand[3] = { NULL, NULL, NULL };
    for (uint16_t i = 0; i < op->schema.nparams; i++)
        if (!(operand[i] = sym_of(env, &args[i]))) return as_result(env, NULL, &results[0]);
    bool bitwise = what == AND || what == OR || what == LSHIFT || what == RSHIFT;
    for (uint16_t i = 0; bitwise && i < op->schema.nparams; i++)
        if (cr_sym_type_of(operand[i]) == CR_TYPE_FLOAT) return no_bits();
    return as_result(env, build(env, what, operand[0], operand[1], operand[2]), &results[0]);
}

static const cr_row number_rows[CR_COUNT(number_ops)] = {
#define X(text, op) { .schema = text, .decomp_fn = expand_number },
    NUMBER_OPS(X)
#undef X
};

static cr_status expand_sum(cr_emitter *e, const cr_op *op, const cr_arg *args, cr_arg *results) {
    cr_arg sum = cr_arg_int(0), pair[2];
    const cr_op *add = cr_op_find("_operator::add");
    (void)op;
    for (uint32_t i = 0; i < args[0].n; i++) {
        pair[0] = sum;
        pair[1] = args[0].u.list[i];
        CR_TRY(expand_number(e, add, pair, &sum));
    }
    results[0] = sum;
    return CR_OK;
}

static const cr_row list_rows[] = {
    { .schema = "torch::sym_sum(Scalar[] args) -> Scalar", .decomp_fn = expand_sum },
};

cr_status cr__number_ops_init(void) {
    CR_TRY(cr__register_rows(number_rows, CR_COUNT(number_rows)));
    return cr__register_rows(list_rows, CR_COUNT(list_rows));
}
