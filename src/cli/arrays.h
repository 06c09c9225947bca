/* arrays.h: inputs of a run out of array files, and its results into them (inputs.c, outputs.c). */
#ifndef CR_CLI_ARRAYS_H
#define CR_CLI_ARRAYS_H

#include "cli/model.h"
#include "cresset/arrays.h"
#include "cresset/inputs.h"

/* One set of arguments for a run. */
typedef struct input_set { cr_inputs *inputs; const cr_arg *args; size_t n; } input_set;
void input_set_dispose(input_set *set);

CR_NODISCARD cr_status inputs_from_npz(const model *m, const char *path, input_set *out);
/* "x=x.npy" each; a number may be written out: "n=3". */
CR_NODISCARD cr_status inputs_from_pairs(const model *m, const char *const *pairs, size_t n, input_set *out);
CR_NODISCARD cr_status inputs_example(const model *m, input_set *out);
CR_NODISCARD cr_status inputs_random(const model *m, uint64_t seed, input_set *out);
/* The example, where there is one, else random numbers; *name says which. */
CR_NODISCARD cr_status inputs_at_hand(const model *m, input_set *out, const char **name);

/* Results as out0, out1, ... in an .npz (or the only one as a .npy): nothing is visible before all of it is written. */
CR_NODISCARD cr_status outputs_write(const cr_arg *results, size_t n, const char *path);
/* A line each: dtype, shape, least, largest, mean. */
CR_NODISCARD cr_status outputs_summary(const model *m, const cr_arg *results, size_t n, cr_str *out);
/* The same as a JSON array of objects. */
CR_NODISCARD cr_status outputs_json(const model *m, const cr_arg *results, size_t n, cr_json_writer *w);

#endif
