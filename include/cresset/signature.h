/* signature.h: what a program or a compiled method takes and gives: flat, named inputs and outputs, sizes and their
 * ranges.
 *
 *     cr_program *program;
 *     cr_signature *s;
 *     if (cr_program_load("model.pt2", NULL, CR_LOAD_META, &program)) return fail(cr_error_message());
 *     if (cr_program_signature(program, &s)) return fail(cr_error_message());
 *     for (size_t i = 0; i < cr_signature_input_count(s); i++)
 *         printf("%s: %s\n", cr_signature_input(s, i)->name, cr_signature_input(s, i)->type);
 *     cr_signature_release(s);
 *     cr_program_release(program);
 *
 * Inputs go by the names of their placeholders, in the order of the Python call's leaves; outputs are out0, out1, ...
 * in that order. Refcounted; what it points to lives as long as it does. Readable from many threads.
 *
 * Stable: fields are added at the ends of cr_slot and cr_symbol. Read them through the pointers that the functions
 * give. */
#ifndef CRESSET_SIGNATURE_H
#define CRESSET_SIGNATURE_H

#include "cresset/arg.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cr_signature cr_signature;

/* One input or output. */
typedef struct cr_slot {
    const char *name;        /* of the placeholder or the value */
    const char *key;         /* in array files: an input's name; an output's "out0" */
    const char *path;        /* where it sits in the Python call: "args[0]['image']", "result[1]"; "": not known */
    const char *type;        /* in words: "float32", "int", "str", "none" */
    int32_t kind;            /* CRESSET_TENSOR, CRESSET_INT, ... of abi.h; CRESSET_NONE: also what has no kind there */
    int32_t dtype, rank;     /* of a tensor; dtype -1: the archive does not say, or it is none */
    const cresset_dim *dims; /* of a tensor: `rank` of them. min == max: fixed */
    const cresset_dim *number; /* of a number that may vary: its expression, an int's range; else NULL */
    bool is_array;           /* a tensor or number: array files hold it */
    bool is_constant;        /* a number, text or None that the export fixed: an input must have this value */
    cr_arg constant;
} cr_slot;

CR_API size_t cr_signature_input_count(const cr_signature *s);
CR_API size_t cr_signature_output_count(const cr_signature *s);
CR_API const cr_slot *cr_signature_input(const cr_signature *s, size_t i);  /* NULL past the last */
CR_API const cr_slot *cr_signature_output(const cr_signature *s, size_t i);
/* The input of that name; false: there is none. */
CR_API bool cr_signature_find(const cr_signature *s, const char *name, size_t *out);

/* A size that varies, and from where to where it is taken: INT64_MIN and INT64_MAX stand for no bound. */
typedef struct cr_symbol { const char *name; int64_t min, max; } cr_symbol;
CR_API size_t cr_signature_symbol_count(const cr_signature *s);
CR_API const cr_symbol *cr_signature_symbol(const cr_signature *s, size_t i);

/* "[s77, 3]" of a tensor; "" of others. */
CR_API void cr_slot_print_shape(const cr_slot *slot, cr_str *out);

CR_API void cr_signature_retain(cr_signature *s);
CR_API void cr_signature_release(cr_signature *s); /* NULL is legal */

#ifdef __cplusplus
}
#endif
#endif
