/* internal.h: the node, the environment and what the files of src/sym share.
 *
 * A node is never changed after interning except for its memos (range, simplified form) and the facts about it; both
 * belong to the environment's single owner. Every constructor takes canonical operands and returns a canonical node. */
#ifndef CR_SYM_INTERNAL_H
#define CR_SYM_INTERNAL_H

#include "sym/shape.h"
#include "sym/sym.h"

/* Expressions deeper or larger than this become opaque, so that no recursion overflows the stack and no printed or
 * evaluated tree explodes (shared operands make a tree exponentially larger than its nodes). */
enum { CR__MAX_DEPTH = 200, CR__MAX_TREE = 1 << 14, CR__MAX_EXPAND = 64 };

typedef struct cr__symbol {
    const char *name;
    cr_env *env;
    int64_t declared_lo, declared_hi; /* what the text forms state; facts narrow `now` */
    cr_range now;
    int64_t hint;
    double real_hint; /* of a float */
    bool has_hint, unbacked;
    bool counted;      /* unbacked: the size of a result of an op */
    bool size_like;    /* unbacked: 0 and 1 do not count in size-oblivious questions */
    cr_user_line line; /* unbacked: where it was made */
} cr__symbol;

struct cr_expr {
    uint8_t kind, type;
    uint8_t fact;                  /* bools: cr_tri that facts state of it; CR_UNKNOWN = none */
    uint16_t depth;
    uint32_t n, id, hash, size, degree;
    uint32_t range_epoch, simple_epoch;
    int64_t constant;              /* INTEGER, TRUTH, ADD */
    union { double real; cr__symbol *symbol; const int64_t *coefficients; } u;
    cr_range range;                /* memo of range_epoch */
    cr_sym simple;                 /* memo of simple_epoch */
    cr_sym equal;                  /* the expression that facts state it equals; NULL = none */
    cr_sym operand[];
};

struct cr_env {
    int references;
    bool failed, general, all_sizes, exact;
    bool opened;                   /* tracing is over: shape.c */
    cr_arena arena;
    struct cr_expr **table;        /* interning: open addressing by hash */
    size_t table_cap;
    CR_VEC(struct cr_expr *) nodes; /* by id */
    cr_map symbols;                /* name -> id */
    uint32_t epoch;                /* grows with every fact */
    int unbacked;                  /* next number of u0, u1, ... */
    int depth;                     /* of rewriting a rewritten expression, see simplify.c */
    CR_VEC(cr_cond) conds;
    CR_VEC(cr_user_line) lines;     /* of the conditions, same order */
    CR_VEC(cr_size) sizes;
    CR_VEC(cr_sym) small;          /* sizes that may be 0 and 1, though they were traced as 2 and more */
    CR_VEC(cr_sym) data;           /* the unbacked symbols */
    cr_user_line_fn find_line;
    void *line_user;
    CR_VEC(cr_sym) nonnegative;    /* facts f >= 0 that no range holds */
    CR_VEC(cr_sym) replaced;       /* terms with `equal` set */
    CR_VEC(struct cr__change) log; /* facts of the statement being learned, to take them back: facts.c */
    int learning;                  /* depth of statements being learned */
    bool renewing, joining;        /* these do not nest: facts.c, poly.c */
    cr_sym opaque[3];              /* by type */
    cr_sym zero, one, truth[2];
};

/* One fact as it was before: exactly one of the pointers says which kind. */
typedef struct cr__change {
    cr__symbol *range_of;
    struct cr_expr *fact_of, *equal_of;
    cr_range range;
    uint8_t fact;
} cr__change;

/* ---- env.c ---- */
cr_sym cr__fail(cr_env *env); /* marks the environment failed; NULL */
/* Finds or makes the node; operands are canonical. `coefficients` and `constant` matter for the kinds that have
 * them. */
cr_sym cr__intern(cr_env *env, cr_sym_kind kind, cr_sym_type type, int64_t constant, const int64_t *coefficients,
                  const cr_sym *operands, size_t n);
cr_sym cr__opaque(cr_env *env, cr_sym_type type);
static inline bool cr__is_opaque(cr_sym e) { return e->kind == CR_SYM_OPAQUE; }
static inline bool cr__is_const(cr_sym e, int64_t value) { return e->kind == CR_SYM_INTEGER && e->constant == value; }
/* b**k with a constant k >= 2; other powers are terms nothing is known about. */
static inline bool cr__is_power(cr_sym e) {
    return e->kind == CR_SYM_POW && e->type == CR_TYPE_INT && e->operand[1]->kind == CR_SYM_INTEGER &&
           e->operand[1]->constant >= 2;
}
static inline struct cr_expr *cr__mutable(cr_sym e) { return (struct cr_expr *)e; }

/* ---- shape.c ---- */
CR_NODISCARD cr_status cr__line_find(cr_env *env, cr_user_line *out);
/* remembers the user's line for the condition that is about to be added */
CR_NODISCARD cr_status cr__line_note(cr_env *env);

/* ---- order.c: a total order on structure, the same in every environment ---- */
int cr__order(cr_sym a, cr_sym b);

/* ---- poly.c: sums under construction ---- */
typedef struct cr__term { cr_sym t; int64_t c; } cr__term;
typedef struct cr__poly {
    int64_t constant;
    size_t n, cap;
    cr__term *at;
    bool overflow, failed;
    cr__term room[CR_LIMIT(12, 1)];
} cr__poly;
void cr__poly_init(cr__poly *p);
void cr__poly_dispose(cr__poly *p);
void cr__poly_constant(cr__poly *p, int64_t value);
void cr__poly_term(cr__poly *p, cr_sym term, int64_t coefficient); /* term: no ADD, no constant */
void cr__poly_add(cr__poly *p, cr_sym e, int64_t factor);          /* p += factor * e */
cr_sym cr__poly_take(cr_env *env, cr__poly *p);                    /* the sum; disposes p */
/* Coefficient and term of operand i when e is read as a sum (a term is a sum of one). */
static inline size_t cr__term_count(cr_sym e) { return e->kind == CR_SYM_ADD ? e->n : e->kind != CR_SYM_INTEGER; }
static inline cr_sym cr__term_at(cr_sym e, size_t i) { return e->kind == CR_SYM_ADD ? e->operand[i] : e; }
static inline int64_t cr__coef_at(cr_sym e, size_t i) { return e->kind == CR_SYM_ADD ? e->u.coefficients[i] : 1; }
static inline int64_t cr__constant_of(cr_sym e) {
    return e->kind == CR_SYM_ADD || e->kind == CR_SYM_INTEGER ? e->constant : 0;
}
uint64_t cr__gcd(uint64_t a, uint64_t b);
static inline uint64_t cr__magnitude(int64_t a) { return a < 0 ? 0 - (uint64_t)a : (uint64_t)a; }
uint64_t cr__content(cr_sym e, bool with_constant); /* gcd of the coefficients (and the constant) */
cr_sym cr__linear(cr_env *env, cr_sym a, int64_t factor, int64_t constant); /* factor * a + constant */
cr_sym cr__combine(cr_env *env, cr_sym a, int64_t fa, cr_sym b, int64_t fb); /* fa * a + fb * b */
/* e / by, where every coefficient is a multiple; the constant of e (of -e when by < 0) is divided towards minus
 * infinity. */
cr_sym cr__scale_down(cr_env *env, cr_sym e, int64_t by);
bool cr__same_terms(cr_sym a, cr_sym b); /* a - b is a constant */

/* ---- mul.c: monomials, products, powers ---- */
cr_sym cr__mono_divide(cr_env *env, cr_sym term, cr_sym by, bool *divides); /* NULL and !divides: not a multiple */
cr_sym cr__mono_common(cr_env *env, cr_sym a, cr_sym b);                    /* common monomial factor; one when none */
cr_sym cr__product(cr_env *env, const cr_sym *factors, size_t n); /* of integers, whatever their order */
cr_sym cr__pow(cr_env *env, cr_sym a, cr_sym b);
/* How often a factor of a product is written: a power of a sum that is small enough to be multiplied out where it
 * stands alone, but not in this product, is written as the factors it is made of. */
int64_t cr__times_written(cr_sym factor);

/* ---- div.c, select.c, float.c, compare.c: the constructors behind cr_sym_make ---- */
cr_sym cr__floordiv(cr_env *env, cr_sym a, cr_sym b);
cr_sym cr__mod(cr_env *env, cr_sym a, cr_sym b);
cr_sym cr__ceildiv(cr_env *env, cr_sym a, cr_sym b);
cr_sym cr__truncdiv(cr_env *env, cr_sym a, cr_sym b);
cr_sym cr__cmod(cr_env *env, cr_sym a, cr_sym b);
cr_sym cr__minmax(cr_env *env, cr_sym_kind kind, const cr_sym *operands, size_t n);
cr_sym cr__abs(cr_env *env, cr_sym a);
cr_sym cr__bits(cr_env *env, cr_sym_kind kind, cr_sym a, cr_sym b); /* BITAND, BITOR */
cr_sym cr__bits_differ(cr_env *env, cr_sym a, cr_sym b);           /* ^ : the bits of a | b that a & b has not */
cr_sym cr__where(cr_env *env, cr_sym c, cr_sym a, cr_sym b);
cr_sym cr__float_binary(cr_env *env, cr_sym_kind kind, cr_sym a, cr_sym b); /* operands: floats */
cr_sym cr__truediv(cr_env *env, cr_sym a, cr_sym b);
cr_sym cr__round(cr_env *env, cr_sym_kind kind, cr_sym a); /* FLOOR CEIL TRUNC ROUND */
cr_sym cr__sqrt(cr_env *env, cr_sym a);
cr_sym cr__as_int(cr_env *env, cr_sym e);   /* bools count as 0 and 1; floats stay */
cr_sym cr__as_float(cr_env *env, cr_sym e);
cr_sym cr__as_bool(cr_env *env, cr_sym e);
cr_sym cr__not(cr_env *env, cr_sym a);
cr_sym cr__junction(cr_env *env, cr_sym_kind kind, const cr_sym *operands, size_t n); /* AND, OR */
/* The same operator on other operands: substitution and simplification rebuild with it. */
cr_sym cr__rebuild(cr_env *env, cr_sym e, const cr_sym *operands);

/* ---- eval.c: arithmetic on values, shared with constant folding ---- */
/* cr_sym_eval without an error record; `why` (may be NULL) gets a reason, and `culprit` the unbound symbol or NULL. */
bool cr__eval(cr_sym e, bool (*lookup)(void *user, cr_sym symbol, cr_sym_value *out), void *user, cr_sym_value *out,
              const char **why, cr_sym *culprit);
double cr__int_truediv(int64_t a, int64_t b); /* correctly rounded; b != 0 */
/* False: undefined (division by zero, not finite, ...). */
bool cr__float_apply(cr_sym_kind kind, double a, double b, double *out);
bool cr__round_apply(cr_sym_kind kind, double a, int64_t *out);
int64_t cr__floordiv64(int64_t a, int64_t b); /* b != 0, and not INT64_MIN / -1 */
int64_t cr__mod64(int64_t a, int64_t b);

/* ---- range.c ---- */
#define CR__MINF INT64_MIN
#define CR__PINF INT64_MAX
static inline bool cr__range_single(cr_range r) { return r.lo == r.hi && r.lo != CR__MINF && r.lo != CR__PINF; }
/* e = residue + modulus * k for some integer k. modulus 0: e is the residue; 1: nothing is known. */
typedef struct cr__congruence { int64_t modulus, residue; } cr__congruence;
cr__congruence cr__sym_congruence(cr_env *env, cr_sym e);

/* ---- simplify.c, facts.c ---- */
cr_tri cr__decide(cr_env *env, cr_sym condition);     /* facts about a condition as it stands */
cr_tri cr__decide_nonnegative(cr_env *env, cr_sym e); /* facts about e >= 0 */
/* Makes `condition` a fact. CR_EVALUE when the facts exclude it. */
CR_NODISCARD cr_status cr__env_learn(cr_env *env, cr_sym condition);

#endif
