/* shape.h: shape environments: what the symbols of an environment stand for, why its conditions hold, and whether what
 * the user promised about the sizes (dynamic_shapes) is what the program needs.
 *
 * A *size* is a dimension of an input (or an integer input) that may vary. The front end adds each with its source, as
 * guards name it (`L['x'].size()[0]`), and the user's promise: found out (AUTO), must vary (DYNAMIC), or a Dim: `scale
 * * root + shift` of a named root with bounds. Sizes of one root are equated by the front end when it makes the
 * symbols. After the program ran, cr_shape_solve compares the recorded conditions with the promises:
 *
 *     CR_TRY(cr_shape_add(env, &(cr_size){ .source = "L['x'].size()[0]", .promise = CR_SIZE_NAMED, .name = "batch",
 *                                          .root = "batch", .scale = 1, .symbol = s77, .lo = 0, .hi = 9, ... }));
 *     ... the program runs, conditions are recorded ...
 *     cr_verdict verdict;
 *     CR_TRY(cr_shape_solve(env, 0, &verdict));       -- verdict.reasons is empty: everything promised holds
 *
 * The rules of the verdict:
 *   - A size that has become a number is an error unless it is AUTO.
 *   - Named roots that are not independent (b == 2*a + 1) are an error that names the relation, where the language of
 *     Dim can say it; where it cannot (c == a*b, 2*a == 3*b) the condition stays one of the program's guards.
 *   - A named root whose bounds are wider than what the conditions leave is an error. 0 and 1 are never part of a size
 *     that varies: they broadcast and they are empty, so that a lower bound below 2 promises nothing about them.
 *   - Any other condition on one named root alone (b % 2 == 0) is an error, or stays a runtime assert on request.
 * A suggested fix is found by trying values and kept only where it is proved, so that pasting it works. */
#ifndef CR_SHAPE_H
#define CR_SHAPE_H

#include "sym/sym.h"

/* ---- sizes 0 and 1 ----
 * Sizes of inputs are traced as 2 and more, and run as 0 and 1, too. */
/* The condition (or its negation) follows from the facts, and the program took a way because of it: unless it holds for
 * sizes of 0 and 1 as well, it becomes one that runs check. */
CR_NODISCARD cr_status cr_shape_rely(cr_env *env, cr_sym condition, bool holds);
/* From the first size that is added on, until tracing is over: sizes of inputs may be 0 and 1 from there on. */
bool cr_shape_is_tracing(const cr_env *env);
CR_NODISCARD cr_status cr_shape_open(cr_env *env);
/* One size that a program's range lets begin at 0, 1 or 2, for programs that were traced elsewhere. */
CR_NODISCARD cr_status cr_shape_open_size(cr_env *env, cr_sym symbol);
/* What is derived from a trace (another dialect) is derived as it was traced: these sizes are 2 and more again while
 * `traced`. */
void cr_shape_set_traced(cr_env *env, bool traced);

/* ---- the user's line ---- */
typedef struct cr_user_line { const char *file, *text; int line; } cr_user_line; /* file NULL: not known */
/* Says which line of the user's program runs now; the texts are made in the arena. *out is empty before: not known. */
typedef cr_status (*cr_user_line_fn)(void *user, cr_arena *arena, cr_user_line *out);
void cr_env_set_user_line(cr_env *env, cr_user_line_fn find, void *user); /* find NULL: none */
/* Of condition i: where it was recorded first. Texts belong to the environment. */
cr_user_line cr_env_cond_line(const cr_env *env, size_t i);

/* Where an unbacked symbol was made; file NULL: not known. */
cr_user_line cr_sym_line(cr_sym symbol);

/* ---- sizes that depend on data ---- */
/* An unbacked symbol is a size: at least 0, and taken as at least 2 by size-oblivious questions. */
CR_NODISCARD cr_status cr_env_mark_size(cr_env *env, cr_sym symbol);
bool cr_env_is_size(cr_sym symbol);
cr_sym cr_sym_unbacked_size(cr_env *env, int64_t hi); /* a fresh one in 0..hi, counted by an op */
bool cr_env_is_counted(cr_sym symbol);
cr_range cr_sym_declared(cr_sym symbol); /* the range that it was made with, before anything was known of it */
size_t cr_env_unbacked_count(const cr_env *env); /* unbacked symbols, in the order they were made */
cr_sym cr_env_unbacked(const cr_env *env, size_t i);
/* The answer for all values but 0 and 1 of unbacked sizes; CR_UNKNOWN where it is not one answer. Records nothing. */
cr_tri cr_sym_truth_oblivious(cr_env *env, cr_sym condition);
/* The program states that the condition holds (_check). CR_ERUNTIME with the message when it is known not to, at the
 * examples included; a guard, or a deferred assert where it depends on data. */
CR_NODISCARD cr_status cr_env_check(cr_env *env, cr_sym condition, const char *message);
/* CR_EDATADEP: the condition (or the value of a number) cannot be decided; names the expression, the user's line, where
 * its symbols come from, and the _check that would decide it. */
CR_NODISCARD cr_status cr_env_undecided(cr_env *env, cr_sym e);

/* ---- sizes ---- */
/* ROOT: of derived sizes alone, no input */
typedef enum cr_size_promise { CR_SIZE_AUTO, CR_SIZE_DYNAMIC, CR_SIZE_NAMED, CR_SIZE_ROOT } cr_size_promise;
typedef struct cr_size {
    cr_size_promise promise;
    const char *source;      /* L['x'].size()[0] */
    const char *name, *root; /* NAMED, ROOT: the Dim ("2*b + 1") and what it is made of ("b") */
    int64_t scale, shift;
    int64_t lo, hi;          /* NAMED, ROOT: the root's bounds; others: theirs. INT64_MAX: none */
    int64_t value;           /* in the example */
    cr_sym symbol;           /* NULL: a number (the example is 0 or 1) */
} cr_size;
CR_NODISCARD cr_status cr_shape_add(cr_env *env, const cr_size *size); /* texts are copied */
size_t cr_shape_count(const cr_env *env);
const cr_size *cr_shape_get(const cr_env *env, size_t i);

/* ---- solving ---- */
enum { CR_SOLVE_DEFER = 1 }; /* conditions that bounds and relations cannot say stay runtime asserts */
/* Caller-owned: cr_verdict_dispose. `names`: the dimensions in question, comma-separated; `reasons`: one line each;
 * `fixes`: one line each, in Python. All are empty when the promises hold. `deferred`: by condition, is it a runtime
 * assert? */
typedef struct cr_verdict { cr_str names, reasons, fixes; CR_VEC(bool) deferred; } cr_verdict;
CR_NODISCARD cr_status cr_shape_solve(cr_env *env, unsigned options, cr_verdict *out);
void cr_verdict_dispose(cr_verdict *verdict);

/* A condition or a number in Python, symbols written as their sources; unbacked ones by name. */
void cr_shape_text(cr_env *env, cr_sym e, cr_str *out);

#endif
