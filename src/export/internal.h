/* internal.h: what the files of src/export share while an archive becomes a program.
 *
 * Everything that lasts goes to the program's arena or to its graph; JSON trees and argument lists live in the reader's
 * scratch arena and are gone when loading ends. A reader belongs to one thread. */
#ifndef CR_EXPORT_INTERNAL_H
#define CR_EXPORT_INTERNAL_H

#include "archive/json.h"
#include "archive/pickle.h"
#include "export/program.h"

typedef CR_VEC(const char *) cr__texts;

typedef struct cr__reader {
    cr_program *p;
    cr_zip *zip;           /* NULL: the JSON text alone (fuzzing) */
    const char *name;      /* of the program */
    int flags;             /* CR_LOAD_* */
    int autocast;          /* dtype + 1 of the region of mixed precision that is being read; 0: none */
    cr_env *env;           /* borrowed from the graph */
    cr_arena scratch;
    cr_map exprs;          /* text of an expression -> cr_sym */
    const char *value;     /* whose meta is being read; NULL: nobody's that is named */
    uint32_t slot;         /* of its sizes, strides and offset, the next */
    cr_map unsupported;    /* names seen already */
    cr__texts missing;     /* ops without a row, in order */
} cr__reader;

/* Which text an expression has at one place: the key in cr_program.exprs. Equal expressions may be written in several
 * ways. */
typedef struct cr__place { cr_sym e; uint64_t value; uint32_t slot, zero; } cr__place;
static inline cr__place cr__place_of(cr_sym e, const char *value, uint32_t slot) {
    return (cr__place){ e, cr_hash(value, strlen(value), 0), slot, 0 };
}

/* A copy that lives as long as the program. */
cr_status cr__keep_text(cr__reader *r, const char *text, const char **out);

/* ---- pt2_meta.c: dtypes, devices, sizes, metas ---- */
cr_status cr__read_dtype(const cr_json *value, int *out);
cr_status cr__read_device(const cr_json *value, cr_device *out);
cr_status cr__read_layout(const cr_json *value);
cr_status cr__read_format(const cr_json *value, cr_memory_format *out);
cr_status cr__read_tensor_meta(cr__reader *r, const cr_json *value, cr_meta *out);
/* One of the unions SymInt, SymFloat, SymBool: an expression of that type; NULL expressions never come out. */
cr_status cr__read_sym(cr__reader *r, const cr_json *value, cr_sym_type type, cr_sym *out);
/* The range of a symbol; NULL: it has none. */
const cr_symbol_range *cr__range_of(const cr_program *p, const char *symbol);
/* Declares the symbols of range_constraints and keeps the ranges. */
cr_status cr__read_ranges(cr__reader *r, const cr_json *constraints);
/* A JSON value without names as a constant argument ({"as_int": 3}); *found = false when it is another kind. */
cr_status cr__read_constant(cr__reader *r, const cr_json_member *value, bool *found, cr_arg *out);

/* ---- pt2_graph.c ---- */
/* The union's key that a list or text argument was read from, by its `type`; "": unknown. */
const char *cr__argument_key(uint16_t pad);
/* Fills the main graph; the input specs are there already. */
cr_status cr__read_graph(cr__reader *r, const cr_json *json, cr_graph *g);

/* ---- signature.c ---- */
cr_status cr__read_signature(cr__reader *r, const cr_json *signature);
cr_status cr__read_calls(cr__reader *r, const cr_json *module);
/* The specs against the graph: counts, names, targets. */
cr_status cr__check_signature(const cr_program *p);

/* The root's call structure against the specs. */
cr_status cr__check_calls(const cr_program *p);

/* ---- derive.c ---- */
/* The row of a new value of this input among the outputs; without a name. */
cr_output_spec cr__mutation_of(const cr_input_spec *in);

/* ---- names.c ---- */
/* Gives every value of the graph but the placeholders its final name. names NULL: those of the graph as it is. */
cr_status cr__name_values(cr_graph *g, const cr_names *names);
/* A node that was made after cr_names_create gets a name; a name is passed over. */
cr_status cr__names_add(cr_names *m, const cr_graph *g, uint32_t node);
cr_status cr__names_skip(cr_names *m, const char *stem);
/* Names for the call of a region that stands for the nodes that gave `outputs`. */
cr_status cr__names_region(cr_names *m, const cr_graph *g, uint32_t node, const uint32_t *outputs, size_t n);
/* The value that Python knows one by: for one that a write left behind, the written argument. */
uint32_t cr__shown_value(const cr_graph *g, uint32_t value);
/* A value's name in Python: for one that a write left behind, the written argument's. */
const char *cr__shown_name(const cr_graph *g, uint32_t value);
/* Is it a keyword or builtin of Python, or a name that generated code uses? */
bool cr__is_reserved(const char *name);
/* Does the call give a tuple or list, whose parts are taken by index? */
bool cr__has_parts(const cr_node *node);

/* ---- program.c ---- */
/* An empty program with an empty graph. */
cr_status cr__program_create(cr_program **out);
/* With the inputs, state, ranges, guards, example and names of `base`, which it keeps alive; the graph is its own. */
cr_status cr__program_create_on(cr_program *base, cr_program **out);
/* Every parameter, buffer and constant of the signature has its tensor, of the placeholder's dtype and sizes. */
cr_status cr__check_state(const cr_program *p);
/* Lets sizes of inputs be 0 and 1 whose range begins at 1 or 2. That is where tracing begins, not what the program
 * needs: what it needs are guards and larger bounds, and PyTorch, too, compares a bound with the inputs only when it is
 * above 2. */
cr_status cr__open_sizes(const cr_program *p);

/* ---- pt2_state.c: weights, constants, example inputs ---- */
/* *n counts up as tensors are made, so that what a failure leaves behind is released with the program. */
cr_status cr__read_payload(cr__reader *r, const char *folder, const cr_json *config, const cr_named_tensor **out,
                           size_t *n);
/* A torch.save member: a dict of tensors by name. */
cr_status cr__read_torch_dict(cr__reader *r, const cr_zip_member *m, const cr_named_tensor **out, size_t *n);
cr_status cr__read_example(cr__reader *r, const cr_zip_member *m);

/* `text` alone as a program without state: what the fuzzer loads. */
CR_NODISCARD cr_status cr__program_from_json(const char *text, size_t size, cr_program **out);

#endif
