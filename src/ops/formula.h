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
enum {
    CR_FORMULA_TERNARY_PRECEDENCE = 1,
    CR_FORMULA_COMPARE_PRECEDENCE = 4,
    CR_FORMULA_UNARY_PRECEDENCE = 10,
    CR_FORMULA_POSTFIX_PRECEDENCE = 12
};

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
static inline bool cr_fkind_is_compare(int kind) {
    return kind == CR_F_EQ || kind == CR_F_NE || kind == CR_F_LE || kind == CR_F_GE || kind == CR_F_LT ||
           kind == CR_F_GT;
}
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
    /* What resolution found in a row's .decomp or .grad (zero before): */
    uint8_t space;          /* NAME: cr_fspace */
    uint16_t slot;          /* NAME: which one there; FOR: the loop variable's slot */
    uint8_t special;        /* CALL: cr_fspecial */
    const struct cr__helper *helper; /* CALL: a helper of that name, or NULL */
    const cr_op *op;        /* CALL: first overload, or the one that is written; NULL: no such op */
} cr_fnode;
typedef enum cr_fspecial { CR_FSPECIAL_NONE, CR_FSPECIAL_NEEDS, CR_FSPECIAL_GIVEN, CR_FSPECIAL_WHERE } cr_fspecial;
typedef enum cr_fspace {
    CR_FSPACE_NONE, CR_FSPACE_PARAM, CR_FSPACE_RESULT, CR_FSPACE_GRAD, CR_FSPACE_LET, /* LET: loop variables, too */
    CR_FSPACE_NEEDS, CR_FSPACE_ZERO, CR_FSPACE_DTYPE, CR_FSPACE_FORMAT,
} cr_fspace;

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
    int8_t *targets;        /* CLAUSE, after resolution: the parameters that the names are */
} cr_fstatement;

typedef enum cr_formula_column { CR_FORMULA_SCALAR, CR_FORMULA_DECOMP, CR_FORMULA_GRAD } cr_formula_column;
typedef struct cr_formula {
    cr_formula_column column;
    const char *text;
    cr_fstatement *statements;
    uint16_t n;
    uint16_t nslots;        /* after resolution: names that `let` and `for` bind ... */
    uint16_t *let_of;       /* ... and the statement that binds each; UINT16_MAX: a loop variable */
    uint32_t constants;     /* .grad, after resolution: a bit per result that is declared not_differentiable ... */
    uint64_t targets;       /* ... a bit per argument that a gradient is given for ... */
    bool settled;           /* ... and: there is no condition and no loop, so that what it reads depends on no value */
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
CR_NODISCARD cr_status cr_formula_fail(const char *what, const char *text, uint32_t at, const char *format, ...)
    CR_PRINTF(4, 5);

/* ---- a row's texts (formula_check.c) ---- */
/* What a backward reads of a call: a bit per parameter and per return; data, or only dtype and sizes. */
typedef struct cr_saved { uint64_t args, results, arg_metas, result_metas; } cr_saved;
/* Those that were asked for, by wanted gradients and given ones. */
typedef struct cr_saved_sets {
    int n, busy; /* atomic */
    struct { uint64_t key; cr_saved saved; } at[8];
} cr_saved_sets;
typedef struct cr_op_formulas {
    cr_formula decomp, core, train, batch, grad;
    bool has_decomp, has_core, has_train, has_batch, has_grad;
    bool direct; /* cr_grad_is_direct */
    bool plain; /* direct, writes nothing, the table's own: the tape makes one node of a call of the functional op */
    cr_saved_sets sets;
} cr_op_formulas;
/* Parsed and resolved on first use, kept for the life of the process; thread-safe. In-place and out variants give their
 * functional op's. CR_EFORMAT "aten::x .grad 1:7: ..." when a text is malformed or a name means nothing. */
CR_NODISCARD cr_status cr__op_formulas_build(const cr_op *op, const cr_op_formulas **out);
CR_NODISCARD static inline cr_status cr_op_formulas_get(const cr_op *op, const cr_op_formulas **out) {
    *out = __atomic_load_n(&op->base->formulas, __ATOMIC_ACQUIRE);
    return *out ? CR_OK : cr__op_formulas_build(op, out);
}
/* Does a gradient of the results reach one of these arguments? Those that .grad does not name (the `other` of type_as)
 * get none, and do not make the results require grad either. */
static inline bool cr_formulas_reach(const cr_op_formulas *f, uint64_t needs) {
    return !f->has_grad || needs & f->grad.targets;
}
/* What cr_grad_saved remembers of these wanted and given gradients; NULL: nothing yet, or it depends on the call. */
static inline const cr_saved *cr_saved_known(const cr_op_formulas *f, uint64_t needs, uint32_t flows) {
    uint64_t key = (uint64_t)flows << 48 | needs;
    int n = __atomic_load_n(&f->sets.n, __ATOMIC_ACQUIRE);
    for (int i = 0; i < n; i++)
        if (f->sets.at[i].key == key) return &f->sets.at[i].saved;
    return NULL;
}
/* What cannot be seen while parsing one text: every op that is called exists and writes nothing, result counts fit,
 * every target is an argument with tensors, and a floating resultN (N > 0) is used only where gradN is handled or
 * declared not_differentiable. CR_EFORMAT with op, column and position. `.scalar` texts are only parsed. */
CR_NODISCARD cr_status cr_formula_check(const cr_op *op);

/* ---- expansion (formula_expand.c): the same texts for real tensors, fake tensors and graphs ---- */
/* Symbolic sizes among `args` are CR_ARG_INT with a cr_dim (never a graph value), so that helpers can compute with
 * them. Results own references (and list memory) whatever the emitter: release them with cr_results_release. */
/* Computes the op's results by other ops. In-place and out variants: their functional form's results (the caller writes
 * them where they belong). CR_ENOTIMPL when the row has no decomposition. */
CR_NODISCARD cr_status cr_decomp_expand(cr_emitter *e, const cr_op *op, const cr_arg *args, cr_arg *results);
/* The same as PyTorch's core_aten_decompositions() do it: by .core or .core_fn, else as above. */
CR_NODISCARD cr_status cr_core_expand(cr_emitter *e, const cr_op *op, const cr_arg *args, cr_arg *results);
/* The op on a gradient path, by ops that have derivatives: by .train, else .decomp. needs[i]: does parameter i lead to
 * something whose gradient is wanted? CR_ENOTIMPL as above. */
CR_NODISCARD cr_status cr_train_expand(cr_emitter *e, const cr_op *op, const cr_arg *args, const bool *needs,
                                       cr_arg *results);
/* The op under vmap, where its class does not serve: by .batch.as, else .decomp, else .core. CR_ENOTIMPL: by none. */
CR_NODISCARD cr_status cr_batch_expand(cr_emitter *e, const cr_op *op, const cr_arg *args, cr_arg *results);
/* Is it part of the core dialect's graphs: in the core set, marked "keep", or without any decomposition? */
bool cr_op_stays_in_core(const cr_op *op);
/* Gradients of all arguments. `results`: of the forward call (metas suffice where cr_formula_saved says so). `grads`:
 * one per return, NONE = undefined (zero); a LIST with NONE entries for Tensor[] returns. needs[i]: wanted for
 * parameter i. grad_out[i]: of the argument's shape and dtype; NONE when not wanted or zero; a LIST for Tensor[]
 * parameters. By .grad, else .grad_fn, else the derivative of the decomposition. CR_ENOTIMPL naming the op when there
 * is no way. */
CR_NODISCARD cr_status cr_grad_expand(cr_emitter *e, const cr_op *op, const cr_arg *args, const cr_arg *results,
                                      const cr_arg *grads, const bool *needs, cr_arg *grad_out);
/* Does cr_grad_expand have a formula or C function for it (as opposed to going through its decomposition)? */
CR_NODISCARD cr_status cr_grad_is_direct(const cr_op *op, bool *yes);
/* cr_formulas_reach of its texts. */
CR_NODISCARD cr_status cr_grad_reaches(const cr_op *op, uint64_t needs, bool *yes);
/* Can a gradient flow through result i? No: integers, and what .grad declares not_differentiable. `result` gives the
 * dtype. */
CR_NODISCARD cr_status cr_grad_flows(const cr_op *op, int i, const cr_meta *result, bool *yes);
/* The same, and the constants that the derivative itself computes with: a gradient that comes back to one is the
 * derivative's, which must not be dropped (cr_grad_expand refuses it). */
CR_NODISCARD cr_status cr_grad_comes_back(const cr_op *op, int i, const cr_meta *result, bool *yes);
/* Does the text of the derivative compute with result i? Then the result must not be written over. */
CR_NODISCARD cr_status cr_grad_uses_result(const cr_op *op, int i, bool *yes);

/* What the backward of one call reads. Conditions are settled from `args`, `needs` and `given` (per return: will its
 * gradient be defined?). `e` gives metas; NULL: exec's. */
CR_NODISCARD cr_status cr_formula_saved(cr_emitter *e, const cr_op *op, const cr_arg *args, const cr_arg *results,
                                        const bool *needs, const bool *given, cr_saved *out);
/* The same for any backward that may come: with the gradients of all results of the mask `flows`, or of one of them.
 * Remembered by the op where the text has no conditions. */
CR_NODISCARD cr_status cr_grad_saved(const cr_op *op, const cr_arg *args, const cr_arg *results, uint64_t needs,
                                     uint32_t flows, cr_saved *out);

/* A .grad_fn gets its inputs in one array: parameters, results, gradients of results, and a BOOL per parameter: is its
 * gradient wanted? It writes one result per parameter (NONE: zero); shape, dtype and real part are fitted
 * afterwards. */
static inline const cr_arg *cr_grad_fn_result(const cr_op *op, const cr_arg *args, int i) {
    return &args[op->schema.nparams + i];
}
static inline const cr_arg *cr_grad_fn_grad(const cr_op *op, const cr_arg *args, int i) {
    return &args[op->schema.nparams + op->schema.nreturns + i];
}
static inline bool cr_grad_fn_needs(const cr_op *op, const cr_arg *args, int i) {
    return args[op->schema.nparams + 2 * op->schema.nreturns + i].u.i != 0;
}

#endif
