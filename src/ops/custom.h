/* custom.h: ops that are added at run time by whoever embeds the library: from Python (cresset.library), or from C
 * through cresset/library.h (src/ops/library.c).
 *
 * A custom op is a row like any other to binding, recording, graphs, archives and the interpreter: one node. What it
 * computes and what its results look like are two functions of the registrant's. Compiled models call the first one
 * through abi.h (cr_custom_function). */
#ifndef CR_CUSTOM_H
#define CR_CUSTOM_H

#include "cresset/abi.h"
#include "ops/op.h"

typedef struct cr_custom {
    cr_row row; /* .schema is set by the registrant; the rest by cr_custom_register */
    /* Real tensors in, real tensors out; what the schema says is written may be. `results` own what they hold, as
     * cr_call's do. */
    cr_status (*run)(void *user, const cr_op *op, const cr_arg *args, cr_arg *results);
    /* The same without data: fake tensors in and out; factories called inside give fakes of `env`. */
    cr_status (*fake)(void *user, const cr_op *op, cr_env *env, const cr_arg *args, cr_arg *results);
    /* Real tensors of which some require grad: the same with a history of the registrant's. *done false: there is no
     * derivative, nothing was run. NULL: there never is. */
    cr_status (*derive)(void *user, const cr_op *op, const cr_arg *args, cr_arg *results, bool *done);
    void *user;
    bool compliant; /* the registrant says that it may be captured (pt2_compliant_tag) */
} cr_custom;

/* Adds the op. `custom` must outlive the process. CR_EFORMAT: the schema's text; CR_EVALUE: the name is taken, or the
 * namespace is aten, prim, cresset or one of Python's. */
CR_NODISCARD cr_status cr_custom_register(cr_custom *custom, const cr_op **out);
/* By .derive, with the checks of every other call. *done false: there is none. */
CR_NODISCARD cr_status cr_custom_derive(const cr_op *op, const cr_arg *args, cr_arg *results, bool *done);
/* The registration behind an op, NULL when it is none. */
cr_custom *cr_custom_get(const cr_op *op);
/* What a compiled model calls for the op of this name: the C function that was registered, or one that makes tensors
 * and calls what was. It holds as long as the process. false: there is no such custom op. */
bool cr_custom_function(const char *name, cresset_op_function *out);

/* Is a tensor among the arguments (lists too) fake? *env becomes the symbols of the last that has some. */
bool cr_args_have_fake(const cr_arg *args, size_t n, cr_env **env);
/* The tensor among them that t shares its memory with; NULL: none. */
const cr_tensor *cr_args_find_shared(const cr_arg *args, size_t n, const cr_tensor *t);

#endif
