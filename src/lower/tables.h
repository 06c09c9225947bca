/* tables.h: the tables of one method while they grow. Internal to src/lower.
 *
 * Sizes are expressions of the graph's environment; cr__slot gives the slot that holds one, making constants, entry
 * numbers and late numbers as needed: an expression over symbols that inputs bind is computed once before the first
 * step, one over symbols that a step finds is computed right before the step that needs it. */
#ifndef CR_LOWER_TABLES_H
#define CR_LOWER_TABLES_H

#include "lower/lower.h"

enum { CR__SLOT_CONSTANT, CR__SLOT_ENTRY, CR__SLOT_LATE };

typedef struct cr__weights { cr_lowered *l; CR_VEC(cr_weight) all; cr_map by_storage; uint64_t bytes; } cr__weights;

typedef struct cr__method {
    cr_lowered *l;
    cr__weights *weights;
    const cr_graph *g;
    cr_env *env;
    CR_VEC(int64_t) constants;   /* one per slot */
    CR_VEC(uint8_t) when;        /* one per slot */
    cr_map slots;                /* constants by type and bits, expressions by address */
    cr_map coming;               /* symbols that steps give: until then nothing else stands for them */
    CR_VEC(rt_number) entry, pending;
    CR_VEC(rt_buffer) buffers;
    CR_VEC(cr_dim) extents; /* of each buffer, in bytes: no window may reach further */
    CR_VEC(rt_window) windows;
    CR_VEC(int32_t) dims, lists;
    CR_VEC(rt_operand_ref) args;
    CR_VEC(rt_step) steps;
    CR_VEC(rt_input) inputs;
    CR_VEC(rt_bind) binds;
    CR_VEC(rt_output) outputs;
    CR_VEC(const char *) texts, origins;
    cr_map storages;             /* storage identity -> buffer + 1 */
    int32_t *window;             /* per value: its window, -1 */
    size_t first_cond;           /* conditions of the environment from here on must be checked */
    CR_VEC(size_t) waiting;      /* conditions whose symbols only data gives: checked once they are known */
    bool writes_state;
    int32_t origin;
} cr__method;

cr_status cr__method_init(cr__method *m, cr_lowered *l, cr__weights *w, const cr_graph *g);
void cr__method_dispose(cr__method *m);
/* The finished tables, in the lowered programs' arena. */
cr_status cr__method_finish(cr__method *m, rt_method **out);

/* ---- numbers ---- */
cr_status cr__slot_bits(cr__method *m, int type, int64_t bits, int32_t *out); /* a constant; type: cr_sym_type */
cr_status cr__slot(cr__method *m, cr_sym e, int32_t *out);
cr_status cr__slot_dim(cr__method *m, cr_dim d, int32_t *out);
/* A fresh slot for the symbol: bound by an input (ENTRY) or found by a step (LATE). */
cr_status cr__slot_define(cr__method *m, cr_sym symbol, int when, int32_t *out);
cr_status cr__slot_new(cr__method *m, int when, int64_t bits, int32_t *out);
/* The slot that the symbol has already; -1: none. */
int32_t cr__slot_find(const cr__method *m, cr_sym symbol);
/* Numbers that wait for a step of their own become one. */
cr_status cr__flush_numbers(cr__method *m);

/* ---- memory ---- */
/* The buffer of a storage; a new one is scratch whose size covers `meta` (a root's). */
cr_status cr__buffer_of(cr__method *m, const cr_meta *meta, int32_t *out);
cr_status cr__buffer_add(cr__method *m, rt_buffer b, uint64_t storage, cr_dim bytes, int32_t *out);
/* Bytes from the storage's start to the end of the meta's last element. */
cr_dim cr__bytes_of(cr__method *m, const cr_meta *meta);
/* The view lies within its buffer: known, or a check of the model. */
cr_status cr__check_reach(cr__method *m, const cr_meta *meta);
cr_status cr__buffer_weight(cr__method *m, const cr_tensor *t, int32_t *out);
cr_status cr__window(cr__method *m, int32_t buffer, const cr_meta *meta, int32_t *out);
/* The window of a tensor value; made when first asked for. */
cr_status cr__window_of(cr__method *m, uint32_t v, int32_t *out);
/* Scratch of its own for a dense tensor like `meta`. */
cr_status cr__scratch(cr__method *m, const cr_meta *meta, int32_t *window);
/* Offset of a tensor's storage in the weights. */
cr_status cr__weight_add(cr__weights *w, const cr_tensor *t, uint64_t *offset);

/* ---- steps ---- */
cr_status cr__text(cr__method *m, const char *text, int32_t *out);
cr_status cr__arg_add(cr__method *m, rt_operand_ref a);
cr_status cr__list_add(cr__method *m, int32_t item);
/* Appends the step; pending numbers go first. Lifetimes of the buffers it names are extended. */
cr_status cr__step_add(cr__method *m, rt_step s);
cr_status cr__copy_step(cr__method *m, int32_t from, int32_t to);
cr_status cr__zero_step(cr__method *m, int32_t window);
cr_status cr__check_step(cr__method *m, cr_sym condition, const char *message);

/* ---- program.c ---- */
cr_status cr__lowered_create(cr_lowered **out);
/* The programs as the methods of an empty `l`, which holds whatever they need. */
cr_status cr__lower(cr_lowered *l, cr_program *const *programs, size_t n, const cr_lower_options *options);

/* ---- lower.c ---- */
/* Steps for every node of m->g; placeholders have their windows already. */
cr_status cr__lower_nodes(cr__method *m);
/* The body of a region as a method of its own; `symbols`: outer numbers it needs, passed after its operands. */
typedef CR_VEC(cr_sym) cr__symbols;
cr_status cr__lower_body(cr__method *outer, cr_graph *body, const cr__symbols *symbols, rt_method **out);
/* Numbers of the outer graph that the body's sizes mention. */
cr_status cr__outer_symbols(cr__method *m, const cr_graph *body, cr__symbols *all);
/* The window of a tensor value; made when first asked for. */
cr_status cr__window_of(cr__method *m, uint32_t v, int32_t *out);
/* Binds the sizes of input `index`, whose meta is given, to symbols. */
cr_status cr__bind_sizes(cr__method *m, int32_t index, const cr_meta *meta);
/* Everything else about the inputs' sizes, once all are bound: constants and expressions. values: one per input. */
cr_status cr__check_all_sizes(cr__method *m, const uint32_t *values);
/* Of a program's own inputs: after the sizes, which give symbols, too. */
cr_status cr__check_all_numbers(cr__method *m, const uint32_t *values);
/* Conditions of the environment since m->first_cond, and those that had to wait. */
cr_status cr__check_conditions(cr__method *m);
cr_status cr__find_coming(cr__method *m); /* once inputs have their slots */
/* After the last output. */
void cr__outputs_finish(cr__method *m);
/* The output becomes a buffer of its own that the caller gets. */
cr_status cr__output(cr__method *m, const cr_arg *a);

#endif
