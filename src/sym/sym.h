/* sym.h: symbolic integers, floats and bools, and the sizes (cr_dim) that rules compute with.
 *
 * An expression is an interned node of one environment: equal construction gives the same pointer, and the same
 * pointer means equal values (the reverse is not promised). Construction uses axioms only, never facts, so a pointer
 * never depends on what was known when it was made. Facts (ranges, equalities) live in the environment;
 * cr_sym_simplify and the comparison functions use them. Integers are mathematical integers checked in int64:
 * arithmetic that overflows gives the opaque "unknown" term, which compares with nothing.
 *
 *     cr_env *env; CR_TRY(cr_env_create(&env));
 *     cr_sym s0 = cr_sym_symbol(env, "s0", CR_TYPE_INT, 2, INT64_MAX);
 *     cr_sym e  = cr_sym_floordiv(env, cr_sym_mul(env, cr_sym_int(env, 2), s0), cr_sym_int(env, 2));   -- s0 itself
 *
 * Constructors return NULL only when memory ran out; NULL operands give NULL, so that a chain is checked once at its
 * end (cr_env_failed tells too). Single-owner: an environment and its expressions belong to one thread at a time. */
#ifndef CR_SYM_H
#define CR_SYM_H

#include "base/base.h"

typedef struct cr_env cr_env;               /* refcounted */
typedef const struct cr_expr *cr_sym;       /* arena of its environment */

typedef enum cr_sym_type { CR_TYPE_INT, CR_TYPE_FLOAT, CR_TYPE_BOOL } cr_sym_type;
typedef enum cr_tri { CR_NO = 0, CR_YES = 1, CR_UNKNOWN = 2 } cr_tri;
typedef enum cr_cmp { CR_EQ, CR_NE, CR_LT, CR_LE, CR_GT, CR_GE } cr_cmp;

typedef enum cr_sym_kind {
    CR_SYM_INTEGER, CR_SYM_REAL, CR_SYM_TRUTH,     /* constants */
    CR_SYM_SYMBOL, CR_SYM_OPAQUE,                  /* OPAQUE: arithmetic that left int64 */
    /* ADD: constant + sum coeff*term, terms ordered; MUL: product of terms */
    CR_SYM_ADD, CR_SYM_MUL, CR_SYM_POW,
    CR_SYM_FLOORDIV, CR_SYM_MOD,                   /* Python's // and % */
    CR_SYM_CEILDIV, CR_SYM_TRUNCDIV, CR_SYM_CMOD,  /* CMOD: sign of the dividend (C's %) */
    CR_SYM_MIN, CR_SYM_MAX, CR_SYM_ABS,
    CR_SYM_BITAND, CR_SYM_BITOR,                   /* Python's & and | of integers, as if with endless sign bits */
    CR_SYM_TRUEDIV, CR_SYM_TOFLOAT, CR_SYM_FLOOR, CR_SYM_CEIL, CR_SYM_TRUNC, CR_SYM_ROUND, /* to and from floats */
    CR_SYM_SQRT, CR_SYM_WHERE,
    CR_SYM_EQ, CR_SYM_NE, CR_SYM_LT, CR_SYM_LE,    /* GT and GE are LT and LE swapped */
    CR_SYM_AND, CR_SYM_OR, CR_SYM_NOT,
} cr_sym_kind;

/* ---- environment ---- */
CR_NODISCARD cr_status cr_env_create(cr_env **out);
void cr_env_retain(cr_env *env);
void cr_env_release(cr_env *env); /* NULL is legal */
bool cr_env_failed(const cr_env *env); /* memory ran out in some constructor since the last call of cr_env_recover */
void cr_env_recover(cr_env *env);

/* ---- constructors ---- */
cr_sym cr_sym_int(cr_env *env, int64_t value);
cr_sym cr_sym_float(cr_env *env, double value);
cr_sym cr_sym_bool(cr_env *env, bool value);
/* Finds or makes the symbol. For a new one the range is [lo, hi] (INT64_MIN / INT64_MAX: unbounded). Bools: ignored. */
cr_sym cr_sym_symbol(cr_env *env, const char *name, cr_sym_type type, int64_t lo, int64_t hi);
cr_sym cr_sym_find_symbol(cr_env *env, const char *name); /* NULL: absent; not an error */
/* A fresh unbacked integer u0, u1, ... in [lo, hi]. */
cr_sym cr_sym_unbacked(cr_env *env, int64_t lo, int64_t hi);
cr_sym cr_sym_add(cr_env *env, cr_sym a, cr_sym b);
cr_sym cr_sym_sub(cr_env *env, cr_sym a, cr_sym b);
cr_sym cr_sym_neg(cr_env *env, cr_sym a);
cr_sym cr_sym_mul(cr_env *env, cr_sym a, cr_sym b);
/* Every other operator by kind: 1 operand (b = c = NULL), 2, or 3 (WHERE). ADD, MUL, ... are accepted too. */
cr_sym cr_sym_make(cr_env *env, cr_sym_kind kind, cr_sym a, cr_sym b, cr_sym c);
cr_sym cr_sym_compare(cr_env *env, cr_sym a, cr_cmp cmp, cr_sym b);
static inline cr_sym cr_sym_floordiv(cr_env *env, cr_sym a, cr_sym b) {
    return cr_sym_make(env, CR_SYM_FLOORDIV, a, b, NULL);
}
static inline cr_sym cr_sym_mod(cr_env *env, cr_sym a, cr_sym b) { return cr_sym_make(env, CR_SYM_MOD, a, b, NULL); }
static inline cr_sym cr_sym_min(cr_env *env, cr_sym a, cr_sym b) { return cr_sym_make(env, CR_SYM_MIN, a, b, NULL); }
static inline cr_sym cr_sym_max(cr_env *env, cr_sym a, cr_sym b) { return cr_sym_make(env, CR_SYM_MAX, a, b, NULL); }

/* ---- reading ---- */
cr_sym_kind cr_sym_kind_of(cr_sym e);
cr_sym_type cr_sym_type_of(cr_sym e);
bool cr_sym_is_int(cr_sym e, int64_t *value); /* an integer constant? */
bool cr_sym_is_bool(cr_sym e, bool *value);
double cr_sym_real(cr_sym e);                 /* of CR_SYM_REAL */
const char *cr_sym_name(cr_sym e);            /* of a symbol, else NULL */
uint32_t cr_sym_ordinal(cr_sym e);            /* expressions are numbered as their environment makes them */
/* Operands; ADD's are its terms in order, each with a coefficient, plus a constant. */
size_t cr_sym_operand_count(cr_sym e);
cr_sym cr_sym_operand(cr_sym e, size_t i);
int64_t cr_sym_coefficient(cr_sym e, size_t i); /* ADD; 1 elsewhere */
int64_t cr_sym_constant(cr_sym e);              /* ADD; 0 elsewhere */

/* ---- evaluation ---- */
typedef struct cr_sym_value { cr_sym_type type; int64_t i; double f; } cr_sym_value; /* i: ints and bools */
/* lookup: gives a symbol's value, false = unbound. CR_EVALUE: unbound symbol, division by zero, overflow; message says
 * which. */
CR_NODISCARD cr_status cr_sym_eval(cr_sym e, bool (*lookup)(void *user, cr_sym symbol, cr_sym_value *out), void *user,
                                   cr_sym_value *out);
/* Replaces symbols: replace returns the new expression or NULL to keep the symbol. Result belongs to `env`. */
cr_sym cr_sym_substitute(cr_env *env, cr_sym e, cr_sym (*replace)(void *user, cr_sym symbol), void *user);

/* ---- facts: ranges, equalities ---- */
typedef struct cr_range { int64_t lo, hi; } cr_range; /* INT64_MIN / INT64_MAX stand for minus and plus infinity */
cr_range cr_sym_range(cr_env *env, cr_sym e);    /* sound for every assignment the facts allow */
/* Narrows a symbol's range. CR_EVALUE when nothing remains. */
CR_NODISCARD cr_status cr_env_narrow(cr_env *env, cr_sym symbol, int64_t lo, int64_t hi);
/* The symbol may be anything from lo to hi again, whatever was taken as known about its range so far: what a program is
 * declared for. Equalities and conditions stay. */
void cr_env_declare(cr_env *env, cr_sym symbol, int64_t lo, int64_t hi);
/* Adds the fact a == b (union-find on terms). CR_EVALUE when the facts exclude it. */
CR_NODISCARD cr_status cr_env_equate(cr_env *env, cr_sym a, cr_sym b);
/* A hint is an example value of a symbol (a backed one); it scores, it never decides facts. */
CR_NODISCARD cr_status cr_env_set_hint(cr_env *env, cr_sym symbol, int64_t value);
CR_NODISCARD cr_status cr_env_set_hint_float(cr_env *env, cr_sym symbol, double value);
bool cr_sym_is_backed(cr_sym symbol); /* has it a hint of its own? (an unbacked one may equal a backed one) */
bool cr_env_hint(cr_env *env, cr_sym e, int64_t *value); /* e evaluated at the hints; false: some symbol is unbacked */
bool cr_env_hint_float(cr_env *env, cr_sym e, double *value); /* the same of a float */
/* Rewrites with the facts of now; memoised per epoch of the environment. */
cr_sym cr_sym_simplify(cr_env *env, cr_sym e);
/* Facts only: never a guess. */
cr_tri cr_sym_known(cr_env *env, cr_sym a, cr_cmp cmp, cr_sym b);
cr_tri cr_sym_truth(cr_env *env, cr_sym condition);

/* Conditions the program depended on, in order: guards (semantics depended on them at the hint) and deferred asserts
 * (must hold; could not be proved). Shape environments (sources, user lines, solving) extend this with export. */
/* A traced condition is true of every size that is traced (2 and more), but not of 0 and 1, with which the program may
 * be run. */
typedef enum cr_cond_kind { CR_COND_GUARD, CR_COND_ASSERT, CR_COND_ASSUMED, CR_COND_TRACED } cr_cond_kind;
typedef struct cr_cond { cr_cond_kind kind; cr_sym condition; const char *message; } cr_cond;
size_t cr_env_cond_count(const cr_env *env);
cr_cond cr_env_cond(const cr_env *env, size_t i);
/* duplicates are dropped */
CR_NODISCARD cr_status cr_env_add_cond(cr_env *env, cr_cond_kind kind, cr_sym condition, const char *message);

/* Questions asked in between leave nothing behind: conditions and facts learned since the trial began are taken back.
 * What only looks at a program (the verifier) asks like this, or the program would run for fewer sizes after it was
 * looked at. Trials nest. */
typedef struct cr_env_trial { size_t log, replaced, nonnegative, conds; } cr_env_trial;
cr_env_trial cr_env_begin_trial(cr_env *env);
void cr_env_end_trial(cr_env *env, cr_env_trial trial);

/* While set, a question that only chooses between equal results (is this reshape a view or a copy?) is answered by
 * facts alone, so that one program serves every size. Off, hints decide and are guarded, as where aliasing is observed.
 * Returns what it was. NULL is legal. */
bool cr_env_set_general(cr_env *env, bool general);
bool cr_env_is_general(const cr_env *env);
/* While set, a question whose answers can be one expression (where does this slice end?) is answered by that. Off, as
 * while a program is traced, hints decide and are guarded, which gives sizes the names that PyTorch gives them. */
bool cr_env_set_all_sizes(cr_env *env, bool all_sizes);
bool cr_env_serves_all_sizes(const cr_env *env);

/* While set, what Python refuses to compute (a division by zero, the integer of a NaN) is excluded by a condition where
 * only data tell: who never runs the number itself, as nothing uses it, is told as well. */
void cr_env_set_exact(cr_env *env, bool exact);
bool cr_env_is_exact(const cr_env *env);

/* ---- text ---- */
void cr_sym_print(cr_sym e, cr_str *out);       /* infix: 2*s0 + 1, (s0 + 1)//2, Mod(s0, 2), Max(1, u0) ... */
void cr_sym_print_srepr(cr_sym e, cr_str *out); /* SymPy's srepr, as PyTorch's archives hold it */
/* Both read what the printers write and what PyTorch writes. A symbol that is unknown is made, as an integer with the
 * assumptions in the text (positive=True: [1, inf), nonnegative=True: [0, inf)), unless `known_only` is set.
 * CR_EFORMAT with line and column. Depth is bounded. */
CR_NODISCARD cr_status cr_sym_parse(cr_env *env, const char *text, bool known_only, cr_sym *out);
CR_NODISCARD cr_status cr_sym_parse_srepr(cr_env *env, const char *text, bool known_only, cr_sym *out);

/* ---- cr_dim: a size, stride or offset in a rule. A plain int64, or a tag below -2^62 that names an expression of the
 * environment. Plain arithmetic costs an overflow check; an overflow gives CR_DIM_OVERFLOW, which spreads and is
 * refused when a tensor is made of it. `env` may be NULL when everything is concrete. ---- */
typedef int64_t cr_dim;
#define CR_DIM_OVERFLOW INT64_MIN
#define CR_DIM_TAG_LIMIT (-((int64_t)1 << 62))
static inline bool cr_dim_is_plain(cr_dim d) { return d >= CR_DIM_TAG_LIMIT; }
cr_dim cr_dim_of(cr_env *env, cr_sym e);   /* plain when e is a constant; CR_DIM_OVERFLOW for NULL or opaque */
cr_sym cr_dim_sym(cr_env *env, cr_dim d);
/* The value, or the hint's value; false when neither exists. For scoring and messages only. */
bool cr_dim_hint(cr_env *env, cr_dim d, int64_t *value);
void cr_dim_print(cr_env *env, cr_dim d, cr_str *out);

cr_dim cr__dim_op(cr_env *env, cr_sym_kind kind, cr_dim a, cr_dim b);
#define CR__DIM_ARITH(name, kind, builtin)                                         \
    static inline cr_dim name(cr_env *env, cr_dim a, cr_dim b) {                   \
        int64_t r;                                                                 \
        if (cr_dim_is_plain(a) && cr_dim_is_plain(b))                              \
            return builtin(a, b, &r) || !cr_dim_is_plain(r) ? CR_DIM_OVERFLOW : r; \
        return cr__dim_op(env, kind, a, b);                                        \
    }
CR__DIM_ARITH(cr_dim_add, CR_SYM_ADD, cr_add_overflow)
CR__DIM_ARITH(cr_dim_mul, CR_SYM_MUL, cr_mul_overflow)
static inline cr_dim cr_dim_neg(cr_env *env, cr_dim a) {
    return cr_dim_is_plain(a) && cr_dim_is_plain(-a) ? -a : cr__dim_op(env, CR_SYM_MUL, a, -1);
}
static inline cr_dim cr_dim_sub(cr_env *env, cr_dim a, cr_dim b) { return cr_dim_add(env, a, cr_dim_neg(env, b)); }
/* b = 0: CR_DIM_OVERFLOW */
static inline cr_dim cr_dim_floordiv(cr_env *env, cr_dim a, cr_dim b) { return cr__dim_op(env, CR_SYM_FLOORDIV, a, b); }
static inline cr_dim cr_dim_mod(cr_env *env, cr_dim a, cr_dim b) { return cr__dim_op(env, CR_SYM_MOD, a, b); }
static inline cr_dim cr_dim_ceildiv(cr_env *env, cr_dim a, cr_dim b) { return cr__dim_op(env, CR_SYM_CEILDIV, a, b); }
static inline cr_dim cr_dim_min(cr_env *env, cr_dim a, cr_dim b) { return cr__dim_op(env, CR_SYM_MIN, a, b); }
static inline cr_dim cr_dim_max(cr_env *env, cr_dim a, cr_dim b) { return cr__dim_op(env, CR_SYM_MAX, a, b); }

/* The three ways a rule may compare sizes. There is no fourth: `==` on cr_dim is refused by lint in rule files. */
cr_tri cr__dim_known_slow(cr_env *env, cr_dim a, cr_cmp cmp, cr_dim b);
/* Facts only; never guards, never fails. For layout and fast paths: the unknown branch must take the general path. */
static inline cr_tri cr_dim_known(cr_env *env, cr_dim a, cr_cmp cmp, cr_dim b) {
    if (!cr_dim_is_plain(a) || !cr_dim_is_plain(b)) return cr__dim_known_slow(env, a, cmp, b);
    switch (cmp) {
    case CR_EQ: return a == b ? CR_YES : CR_NO;
    case CR_NE: return a != b ? CR_YES : CR_NO;
    case CR_LT: return a < b ? CR_YES : CR_NO;
    case CR_LE: return a <= b ? CR_YES : CR_NO;
    case CR_GT: return a > b ? CR_YES : CR_NO;
    default: return a >= b ? CR_YES : CR_NO;
    }
}
/* A condition of any kind that the program depends on: decided by facts, else by the hints with a guard recorded;
 * CR_EDATADEP when there are none. */
CR_NODISCARD cr_status cr_sym_decide(cr_env *env, cr_sym condition, bool *yes);
/* Semantics depend on it: decided by facts, else by the hint with a guard recorded; CR_EDATADEP when unbacked. */
CR_NODISCARD cr_status cr_dim_decide(cr_env *env, cr_dim a, cr_cmp cmp, cr_dim b, bool *yes);
/* Must hold: CR_ERUNTIME "what: ..." when facts (or hints) exclude it, a guard or deferred assert when unknown. */
CR_NODISCARD cr_status cr_dim_require(cr_env *env, cr_dim a, cr_cmp cmp, cr_dim b, const char *what);
/* Unknown at unbacked sizes: takes `general` and records the opposite as excluded by a runtime assert. Otherwise as
 * decide. */
CR_NODISCARD cr_status cr_dim_assume(cr_env *env, cr_dim a, cr_cmp cmp, cr_dim b, bool general, bool *yes);
/* `have` is to be repeated to, or to equal, `want`: is it a 1 that is repeated? Sizes that are equal at the hints, or
 * that only data tell, are to be equal, which leaves open whether both are 1; others are not 1 at the hints. The caller
 * requires equality. */
CR_NODISCARD cr_status cr_dim_repeats(cr_env *env, cr_dim have, cr_dim want, bool *repeats);

#endif
