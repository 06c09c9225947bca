/* formula.h: the little language of the op table, used by three columns of a row.
 *
 *     .scalar  pointwise text, compiled to a block program       "self * sigmoid(self)"
 *     .decomp  the op as calls of other ops, through an emitter  "let m = mean(self, dim, true); self - m"
 *     .grad    derivatives                                       "self: grad * other; other: grad * self"
 *
 * One parser and one tree serve all three; what a name or call means is up to the column. The language is static: no
 * loops, recursion or user functions, and every condition of `.decomp` and `.grad` is settled while expanding. The
 * grammar and the meaning of every helper are in docs/formulas.md. Trees live in an arena; depth is bounded, so that
 * every walk may recurse. Parsed trees are never written to: any number of threads may read one.
 *
 *     cr_formula f;
 *     CR_TRY(cr_formula_parse(&arena, "let y = exp(self); y / (1 + y)", CR_FORMULA_SCALAR, &f));
 *     f.statements[1].values[0]->kind == CR_F_DIV */
#ifndef CR_FORMULA_H
#define CR_FORMULA_H

#include "ops/op.h"

enum { CR_FORMULA_MAX_DEPTH = 96, CR_FORMULA_MAX_TEXT = 1 << 16 };

/* Binary operators: id, text, precedence (higher binds tighter; all left-associative but POW). */
#define CR_FORMULA_BINARY(X)                                                                                           \
    X(OR, "or", 2) X(AND, "and", 3)                                                                                    \
    X(EQ, "==", 4) X(NE, "!=", 4) X(LE, "<=", 4) X(GE, ">=", 4)                                                        \
    X(BITOR, "|", 5) X(BITAND, "&", 6) X(SHL, "<<", 7) X(SHR, ">>", 7) X(LT, "<", 4) X(GT, ">", 4)                     \
    X(ADD, "+", 8) X(SUB, "-", 8) X(MUL, "*", 9) X(FLOORDIV, "//", 9) X(DIV, "/", 9) X(MOD, "%", 9)                    \
    X(POW, "^", 11)
/* Prefix operators bind between MUL and POW: -x^2 is -(x^2), 2^-x is 2^(-x). */
#define CR_FORMULA_UNARY(X) X(NEG, "-") X(NOT, "!") X(BITNOT, "~")
enum { CR_FORMULA_TERNARY_PRECEDENCE = 1, CR_FORMULA_COMPARE_PRECEDENCE = 4, CR_FORMULA_UNARY_PRECEDENCE = 10, CR_FORMULA_POSTFIX_PRECEDENCE = 12 };

typedef enum cr_fkind {
    CR_F_NAME,    /* name */
    CR_F_INT,     /* i, never negative as parsed: -1 is NEG(1) */
    CR_F_FLOAT,   /* f; `inf`, `nan` and `pi` give one, too */
    CR_F_BOOL,    /* i */
    CR_F_STR,     /* name */
    CR_F_NONE,
    CR_F_LIST,    /* [kids...] */
    CR_F_FOR,     /* [kids[0] for name in kids[1]] */
    CR_F_CALL,    /* ns::name.overload(kids...); keywords[i] != NULL for kids given by name */
    CR_F_INDEX,   /* kids[0][kids[1]] */
    CR_F_SLICE,   /* kids[0][kids[1]:kids[2]]; kids 1 and 2 may be NULL */
    CR_F_TERNARY, /* kids[0] ? kids[1] : kids[2] */
    CR_F_IS_NONE, CR_F_IS_NOT_NONE, /* kids[0] */
#define X(id, text) CR_F_##id,
    CR_FORMULA_UNARY(X)
#undef X
#define X(id, text, precedence) CR_F_##id,
    CR_FORMULA_BINARY(X)
#undef X
    CR_F_KIND_COUNT
} cr_fkind;
static inline bool cr_fkind_is_unary(int kind) { return kind >= CR_F_NEG && kind <= CR_F_BITNOT; }
static inline bool cr_fkind_is_binary(int kind) { return kind >= CR_F_OR && kind <= CR_F_POW; }
static inline bool cr_fkind_is_compare(int kind) { return kind == CR_F_EQ || kind == CR_F_NE || kind == CR_F_LE || kind == CR_F_GE || kind == CR_F_LT || kind == CR_F_GT; }
const char *cr_fkind_text(int kind);    /* an operator's text, else a word for messages; never NULL */
int cr_fkind_precedence(int kind);      /* CR_FORMULA_POSTFIX_PRECEDENCE for everything that needs no parentheses */

typedef struct cr_fnode {
    uint8_t kind;
    uint8_t depth;          /* 1 for a leaf */
    uint16_t nkids;
    uint32_t at;            /* byte offset in the text, for messages */
    union { int64_t i; double f; } u;
    const char *name, *ns, *overload; /* ns and overload: CALL, NULL when not written */
    const struct cr_fnode **kids;
    const char **keywords;  /* CALL: one per kid, NULL entries are positional (which come first) */
} cr_fnode;

typedef enum cr_fstatement_kind {
    CR_FS_LET,      /* let names = value;  several names take the results of one call */
    CR_FS_RESULT,   /* values, last statement of .scalar and .decomp */
    CR_FS_CLAUSE,   /* names: values       .grad; one value for several names is one call with several results */
    CR_FS_CONSTANT, /* not_differentiable: names (results), or no names: the whole op */
} cr_fstatement_kind;
typedef struct cr_fstatement {
    uint8_t kind;
    uint16_t nnames, nvalues;
    uint32_t at;
    const char **names;
    const cr_fnode **values;
} cr_fstatement;

typedef enum cr_formula_column { CR_FORMULA_SCALAR, CR_FORMULA_DECOMP, CR_FORMULA_GRAD } cr_formula_column;
typedef struct cr_formula {
    cr_formula_column column;
    const char *text;
    cr_fstatement *statements;
    uint16_t n;
} cr_formula;

/* Everything in the arena, the text too (copied). CR_EFORMAT "line:column: expected ..., found ...". */
CR_NODISCARD cr_status cr_formula_parse(cr_arena *arena, const char *text, cr_formula_column column, cr_formula *out);
/* The fewest parentheses and one space around operators; parses back to an equal tree. */
void cr_formula_print(const cr_formula *f, cr_str *out);
void cr_fnode_print(const cr_fnode *node, cr_str *out);
/* Same trees, positions aside. */
bool cr_formula_equal(const cr_formula *a, const cr_formula *b);
bool cr_fnode_equal(const cr_fnode *a, const cr_fnode *b);
/* A CR_EFORMAT about the text at offset `at`: "NAME .grad 1:7: ...". `what` may be NULL. */
CR_NODISCARD cr_status cr_formula_fail(const char *what, const char *text, uint32_t at, const char *format, ...) CR_PRINTF(4, 5);

#endif
