/* inputs.h: what inputs.c and inputs_random.c share. */
#ifndef CR_API_INPUTS_H
#define CR_API_INPUTS_H

#include "api/api.h"
#include "archive/npy.h"

/* What was given for one input. Arrays are bound when all are there: one message then says all that is missing. */
typedef struct cr__given {
    enum { CR__ABSENT, CR__VALUE, CR__ARRAY } kind;
    cr_arg value;           /* a tensor is retained */
    cr_npy array;           /* borrowed from the file */
    cr_npz *npz;            /* retained; or */
    cr_mapping mapping;     /* open, when mapped */
    bool mapped, unchecked; /* unchecked: an example or random, of which the run itself says whether it fits */
    const char *file;       /* named in messages before the input; NULL: not */
} cr__given;

struct cr_inputs {
    cr_signature *signature; /* retained */
    cr_arena arena;
    cr__given *given; /* one per input */
    cr_arg *args;     /* what cr_inputs_args gives; tensors are retained */
};
/* Takes the value over: a tensor's reference is the inputs' now. */
void cr__inputs_put(cr_inputs *in, size_t i, cr_arg value, bool unchecked);
/* The program's example for input i, or NULL. */
const cr_arg *cr__example_of(const cr_inputs *in, const cr_program *p, size_t i);

#endif
