/* model.h: an exported program, or a method of a compiled library, as the commands see it: flat, named inputs and
 * outputs.
 *
 * Inputs go by the names of their placeholders, in the order of the call structure's leaves; outputs are out0, out1,
 * ... in that order. A None or a text keeps its number, but is left out of array files. */
#ifndef CR_CLI_MODEL_H
#define CR_CLI_MODEL_H

#include "cli/cli.h"
#include "cresset/compile.h"
#include "export/program.h"

typedef struct model_slot {
    const char *name;     /* of the placeholder or the value; an output that is a constant has its key */
    const char *key;      /* outputs: "out0"; inputs: the name */
    bool left_out;        /* outputs: a None or a text, which array files do not get */
    uint8_t type;         /* cr_type; CR_T_ANY for None */
    const cr_meta *meta;  /* tensors; NULL when the archive does not say */
    cr_sym expr;          /* numbers; NULL for constants */
    bool is_constant;     /* a number, text or None that the export fixed */
    cr_arg constant;
} model_slot;

typedef struct model {
    cr_program *program;      /* of an archive, else NULL */
    cr_library *library;      /* of a compiled library, else NULL */
    int32_t method;           /* of the library */
    cr_env *env;              /* retained */
    cr_tree *in_spec, *out_spec; /* retained; NULL: not known */
    cr_arena arena;
    model_slot *inputs, *outputs;
    size_t ninputs, noutputs;
    const cr_symbol_range *ranges; /* dynamic sizes */
    size_t nranges;
} model;

/* An archive or a compiled library. `name`: which program or method, NULL: the only one, "model" or "forward". `flags`:
 * CR_LOAD_*, for archives. */
/* Registers the operators of --op-library, where that is given. */
CR_NODISCARD cr_status cli_load_ops(const cli_call *call);
CR_NODISCARD cr_status model_open(model *m, const char *path, const char *name, int flags);
void model_dispose(model *m);
/* model_library.c: the library's part of model_open. */
CR_NODISCARD cr_status model_open_library(model *m, const char *path, const char *name);

const char *slot_type(const model_slot *s); /* "float32", "int", "none": as info shows it */
/* "[s77, 3]"; "" for what is no tensor. */
void slot_add_shape(const model *m, const model_slot *s, cr_str *out);
/* The range of a size or number that is not fixed, "2 to 64", "at least 2". */
void model_add_range(cr_range range, cr_str *out);
/* The op that a call names, also where it has no row here. */
const char *model_op_name(const cr_node *node);
/* Where input or output i sits in the call, as Python reads it: "args[0]['image']". */
void model_add_path(const model *m, bool output, size_t i, cr_str *out);
/* Which line of the user's program a node comes from, "model.py:12: y = f(x)"; false: the archive does not say. */
bool model_source(const cr_node *node, cr_str *out);

#endif
