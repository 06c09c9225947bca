/* guard.h: the archive's guards, as conditions over a call's inputs. */
#ifndef CR_GUARD_H
#define CR_GUARD_H

#include "export/program.h"

/* What a symbol of a guard stands for: a size of an input, or (dim < 0) the number itself. */
typedef struct cr__guard_input { uint32_t input; int dim; } cr__guard_input;
typedef struct cr__guards {
    cr_env *env;
    CR_VEC(cr__guard_input) inputs; /* the k-th belongs to symbol "gk" */
    CR_VEC(cr_cond) conds;          /* message: the text as saved */
} cr__guards;
/* Reads what can be read: texts beyond sizes and numbers of inputs are left out. */
CR_NODISCARD cr_status cr__guards_init(cr__guards *g, const cr_program *p);
void cr__guards_dispose(cr__guards *g);
/* `user`: the flat user inputs. CR_EGUARD naming the condition and the sizes. Thread-safe. */
CR_NODISCARD cr_status cr__guards_check(const cr__guards *g, const cr_arg *user, size_t n);
/* How Python reads leaf i of the inputs: "args[0]['x']", "kwargs['n']". */
void cr__input_path(const cr_program *p, uint32_t leaf, cr_str *out);

#endif
