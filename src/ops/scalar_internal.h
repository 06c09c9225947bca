/* scalar_internal.h: what scalar.c (cache, calls) and scalar_compile.c share. */
#ifndef CR_SCALAR_INTERNAL_H
#define CR_SCALAR_INTERNAL_H

#include "ops/formula.h"
#include "ops/scalar.h"

/* A static condition on arguments, in a form that is cheap to ask at every call. */
typedef enum cr__test_kind {
    TEST_NONE, TEST_TRUE, TEST_TEXT, TEST_NUMBER, TEST_PAIR, TEST_COMPLEX, TEST_FLOAT, TEST_INTEGRAL, TEST_BOOL,
    TEST_ZERO_DIM, TEST_HOLDS_INTEGERS
} cr__test_kind;
typedef struct cr__test {
    uint8_t kind, compare; /* compare: CR_F_EQ ... */
    uint8_t a, b;          /* parameters */
    double number;
    const char *text;
} cr__test;

/* Recognises a condition that only depends on arguments that are no tensors. False: it is something else. */
bool cr__test_make(const cr_op *op, const cr_fnode *node, cr__test *out);
/* The number parameter that a node names, or -1. */
int cr__number_param(const cr_op *op, const cr_fnode *node);
bool cr__test_run(const cr__test *test, const cr_arg *args);

/* One allocation (cr_free). CR_ENOTIMPL when the dtype has no such instruction. */
CR_NODISCARD cr_status cr__scalar_compile(const cr_op *op, const cr_formula *f, int common, const cr_arg *args,
                                          cr_scalar_program **out);

#endif
