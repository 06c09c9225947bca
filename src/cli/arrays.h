/* arrays.h: inputs of a run out of array files, and its results into them (inputs.c, outputs.c). */
#ifndef CR_CLI_ARRAYS_H
#define CR_CLI_ARRAYS_H

#include "archive/json.h"
#include "archive/npy.h"
#include "cli/model.h"

/* One set of arguments for cr_module_run, a reference each. */
typedef struct input_set { cr_arg *args; size_t n; } input_set;
void input_set_dispose(input_set *set);

/* Every array is checked against the program by name: CR_EVALUE with the input's name, what was expected, what came. */
CR_NODISCARD cr_status inputs_from_npz(model *m, const char *path, input_set *out);
/* "x=x.npy" each; a number may be written out: "n=3". */
CR_NODISCARD cr_status inputs_from_pairs(model *m, const char *const *pairs, size_t n, input_set *out);
CR_NODISCARD cr_status inputs_example(model *m, input_set *out);
/* Normal numbers for floats; for integers, numbers from 0 to the example input's largest (or 1). Sizes are the
 * example's. */
CR_NODISCARD cr_status inputs_random(model *m, uint64_t seed, input_set *out);

/* Results as out0.npy, ... in an .npz (or the only one as a .npy): nothing is visible before all of it is written. */
CR_NODISCARD cr_status outputs_write(const model *m, const cr_arg *results, size_t n, const char *path);
/* A line each: dtype, shape, least, largest, mean. */
CR_NODISCARD cr_status outputs_summary(const model *m, const cr_arg *results, size_t n, cr_str *out);
/* The same as a JSON array of objects. */
CR_NODISCARD cr_status outputs_json(const model *m, const cr_arg *results, size_t n, cr_json_writer *w);

#endif
