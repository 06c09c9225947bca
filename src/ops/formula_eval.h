/* formula_eval.h: the working state of one expansion, shared by formula_*.c. Internal to src/ops.
 *
 * A value is a cr_arg: what a formula computes with is what ops take. Tensors that calls return are owned by the
 * expansion; a call's temporaries are given back as soon as the call that used them has returned. */
#ifndef CR_FORMULA_EVAL_H
#define CR_FORMULA_EVAL_H

#include "ops/formula.h"

typedef struct cr__fval {
    cr_arg a;
    bool tuple;     /* the results of one call with several, as a LIST */
    bool opaque;    /* stands for a result while only the saved set is asked */
    bool zero;      /* the word `zero` */
    uint8_t space;  /* PARAM or RESULT: (an item of) that argument, for the saved set */
    uint16_t slot;
} fval;

typedef struct cr__expansion {
    cr_emitter *e;
    const cr_op *op;             /* functional */
    const cr_formula *f;
    const cr_arg *args, *results, *grads; /* results and grads: .grad only */
    const bool *needs;
    const bool *given;           /* instead of grads, when only the saved set is asked */
    const cr_fstatement *clause; /* whose targets `needs` means */
    fval *slots;
    uint8_t *slot_state;         /* 0: not yet computed */
    uint8_t *slot_mask;          /* which gradients it depends on; 0: not yet asked */
    bool some_undefined;         /* some but not all gradients are given */
    cr_saved *saved;             /* not NULL: nothing is emitted, uses are noted here */
    cr_arena arena;
    CR_VEC(cr_arg) owned;        /* a stack: see the top of formula_expand.c */
    CR_VEC(cr_arg) kept;
    cr_arg room[CR_LIMIT(8, 1)]; /* where `owned` begins; last, and not initialised */
} fx;

typedef struct cr__helper {
    const char *name;
    uint8_t least, most;
    bool numbers_only; /* with a tensor among its arguments it is the op of that name */
    bool metas;        /* reads dtypes and sizes only */
    cr_status (*run)(fx *x, const cr_fnode *node, const fval *args, int n, fval *out);
} cr__helper;

/* ---- formula_expand.c ---- */
enum { CR__MAX_RESULTS = 16, CR__MAX_EXPANSION_DEPTH = 64 };
/* expansions inside expansions: a row that comes back to itself is refused */
extern _Thread_local int cr__expansion_depth;
cr_status cr__fx_begin(fx *x, cr_emitter *e, const cr_op *op, const cr_formula *f, const cr_arg *args);
void cr__fx_end(fx *x);
cr_status cr__fx_reserve(fx *x, size_t more); /* room on the `owned` stack */
cr_status cr__fx_eval(fx *x, const cr_fnode *node, fval *out);
/* Does this part depend on undefined gradients only? Then it is zero. */
cr_status cr__fx_undefined(fx *x, const cr_fnode *node, bool *undefined);
bool cr__fx_given(const fx *x, int grad);
cr_status cr__fx_zeros(fx *x, const cr_fnode *node, const cr_meta *like, fval *out);
/* For the saved set: the value's data, or only its meta, is used. */
void cr__fx_note(fx *x, const fval *v, bool data);
/* What lies on the `owned` stack above `mark` stays until the expansion ends. */
cr_status cr__fx_keep(fx *x, size_t mark);
/* A value that outlives the expansion: tensors retained, lists and complex numbers copied. */
cr_status cr__copy_out(const cr_arg *from, cr_arg *to);
/* Arguments of the functional op out of a variant's: out forms lack factory options, and have outputs at the end. */
void cr__functional_args(const cr_op *op, const cr_arg *args, cr_arg *out);
int cr__find_param(const cr_op *op, const char *name); /* -1: absent */
bool cr__arg_is_tensor(const cr_arg *a);
cr_status cr__fx_fail(const fx *x, const cr_fnode *node, cr_status code, const char *format, ...) CR_PRINTF(4, 5);
/* Calls an op: binds (`only`: this overload), emits, owns the results. Several results give a tuple. */
cr_status cr__fx_call(fx *x, const cr_fnode *node, const cr_op *op, bool only, const fval *args, size_t n,
                      const cr_keyword *keywords, size_t nkeywords, fval *out);
/* As above by name, positional arguments only: cr__fx_call_name(x, node, "aten::unsqueeze", args, 2, &out). */
cr_status cr__fx_call_name(fx *x, const cr_fnode *node, const char *name, const fval *args, size_t n, fval *out);
/* NULL when the value is no tensor (or an opaque one). Numbers have none. */
cr_status cr__fx_meta(fx *x, const fval *v, const cr_meta **out);
cr_arg *cr__fx_list(fx *x, size_t n); /* in the arena; NULL: out of memory */
bool cr__fval_is_tensor(const fval *v);
static inline fval cr__fval(cr_arg a) { return (fval){ .a = a }; }
static inline bool cr__fval_is_number(const fval *v) { return cr_arg_is_number(&v->a) || v->a.kind == CR_ARG_SYM; }

/* ---- formula_check.c ---- */
/* The op a CALL node means: its first overload, or the one written; NULL: there is none (yet). */
const cr_op *cr__called_op(const cr_fnode *node);

/* ---- formula_fold.c: operators on numbers, strings, dtypes and lists ---- */
cr_status cr__fold_unary(fx *x, const cr_fnode *node, const fval *a, fval *out);
cr_status cr__fold_binary(fx *x, const cr_fnode *node, const fval *a, const fval *b, fval *out);
cr_status cr__fold_truth(fx *x, const cr_fnode *node, const fval *v, bool *out);

/* ---- formula_helpers.c ---- */
const cr__helper *cr__helper_find(const char *name);

/* ---- reverse.c ---- */
cr_status cr__reverse_decomp(cr_emitter *e, const cr_op *op, const cr_arg *args, const cr_arg *grads, const bool *needs,
                             cr_arg *grad_out);

#endif
