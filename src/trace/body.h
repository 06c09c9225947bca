/* body.h: what record.c and body.c share. Internal to src/trace. */
#ifndef CR_TRACE_BODY_H
#define CR_TRACE_BODY_H

#include "trace/trace.h"

/* What the body of a region uses from outside: each once, in order of first use. */
/* outer: a tensor (retained) or a symbolic number */
typedef struct cr__free { cr_arg outer; uint32_t value; } cr__free;
typedef struct cr__body {
    cr_trace *outer;          /* borrowed; NULL: nothing is recorded around the body */
    CR_VEC(cr__free) free;
    CR_VEC(cr_tensor *) given; /* operands that the body may use: retained */
    size_t first_cond;        /* conditions of the environment from here on come from the body */
    unsigned placeholders;
    bool numbered;            /* inputs are called arg0_1, arg1_1, ... */
} cr__body;

/* The trace's body; NULL: it records a whole program. */
cr__body *cr__trace_body(const cr_trace *t);
void cr__trace_set_body(cr_trace *t, cr__body *body); /* owned by the trace from here on */
/* Nodes made from here on come from nowhere, or from the call being recorded. */
CR_NODISCARD cr_status cr__trace_origin(cr_trace *t, bool none);
void cr__body_dispose(cr__body *b);
/* Is it a free variable already? */
bool cr__body_find(const cr__body *b, const cr_arg *outer, uint32_t *value);
/* It is another value of the body from here on; false: it is no free variable. */
bool cr__body_rebind(cr__body *b, const cr_tensor *outer, uint32_t value);
/* Makes the number a free variable where nothing in the body gives it. */
cr_status cr__body_need(cr_trace *t, cr_sym expr);

#endif
