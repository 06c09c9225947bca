/* trace.h: fake tensors, and the recorder that turns a program into a graph while it runs.
 *
 *     cr_fakes fakes; cr_fakes_init(&fakes, env);
 *     CR_TRY(cr_fake_from(&fakes, real, 1u << 0, NULL, &x));          -- f32[s0, 3], s0 as large as it is now
 *     CR_TRY(cr_trace_create(env, &trace));
 *     CR_TRY(cr_trace_input(trace, "x", x));
 *     cr_trace_begin(trace, true);
 *     ... the program: every op called on this thread is recorded ...
 *     cr_trace_end(trace);
 *     CR_TRY(cr_trace_finish(trace, &result, 1, &graph));
 *
 * Only calls at depth 0 are recorded: a composite op is one node. Which value a tensor is, is written in the tensor.
 * All of this belongs to one thread at a time. */
#ifndef CR_TRACE_H
#define CR_TRACE_H

#include "graph/graph.h"

/* ---- fake tensors ---- */

/* The fakes of one trace: tensors on one storage get fakes on one storage, and one name is one symbol. Caller-owned. */
typedef struct cr_fakes {
    cr_env *env;
    cr_map storages, sizes; /* sizes: with `duck`, size -> the symbol it has */
    int next;
    bool duck;              /* sizes without a name that are equal share a symbol */
    bool zero_one;          /* sizes 0 and 1 without a name stay numbers */
} cr_fakes;
void cr_fakes_init(cr_fakes *f, cr_env *env); /* env: retained */
void cr_fakes_dispose(cr_fakes *f);
/* A fake with t's dtype, sizes, strides and aliasing. Dimension d is symbolic where bit d of `dynamic` is set: the
 * symbol names[d] (where given), else a fresh s0, s1, ...; its hint is the present size, its range [2, inf) (from 0 on
 * when the size is 0 or 1). Strides follow the symbolic sizes where they are their products. CR_EVALUE when a name
 * stands for two different sizes. */
CR_NODISCARD cr_status cr_fake_from(cr_fakes *f, const cr_tensor *t, uint32_t dynamic, const char *const *names,
                                    cr_tensor **out);
/* The same with the sizes given: each is the tensor's own, or an expression whose hint (where it has one) is.
 * CR_EVALUE. */
CR_NODISCARD cr_status cr_fake_sized(cr_fakes *f, const cr_tensor *t, const cr_dim *size, cr_tensor **out);
/* From a specification alone: dtype and sizes that may be symbolic; dense. */
CR_NODISCARD cr_status cr_fake_dense(cr_env *env, int dtype, cr_device device, int rank, const cr_dim *size,
                                     cr_tensor **out);

/* ---- recording ---- */

typedef struct cr_trace cr_trace; /* refcounted; retains its graph */
CR_NODISCARD cr_status cr_trace_create(cr_env *env, cr_trace **out); /* env NULL: a fresh one */
void cr_trace_release(cr_trace *t);
cr_graph *cr_trace_graph(const cr_trace *t); /* borrowed; grows while recording */
/* An input of the graph. The tensor stands for it from here on. CR_EVALUE: it is an input already. */
CR_NODISCARD cr_status cr_trace_input(cr_trace *t, const char *name, cr_tensor *tensor);
CR_NODISCARD cr_status cr_trace_input_number(cr_trace *t, const char *name, cr_type type, cr_sym expr);
/* From begin to end the calls of this thread are recorded, on fake tensors (factories included) when `fake` is set.
 * Traces nest; the inner one alone records. */
void cr_trace_begin(cr_trace *t, bool fake);
void cr_trace_end(cr_trace *t);
/* What the owner of a trace decides. Both may be NULL. `origin`: where the call that is being recorded comes from; *out
 * is empty before, its texts are copied. `lift`: the value of a real tensor from outside, made an input of the graph by
 * whatever name; without it the tensor becomes a constant of the graph. */
typedef struct cr_trace_hooks {
    cr_status (*origin)(void *user, const cr_op *op, cr_origin *out);
    cr_status (*lift)(void *user, cr_trace *t, cr_tensor *tensor, uint32_t *value);
    void *user;
} cr_trace_hooks;
void cr_trace_set_hooks(cr_trace *t, const cr_trace_hooks *hooks);
/* From here on the calls are written the way exported programs have them: arguments equal to their defaults are left
 * out, factories name device and pinning, a tensor that a call wrote and returned goes on under the result's name. */
void cr_trace_export(cr_trace *t, const cr_trace_hooks *hooks);
bool cr_trace_find(const cr_trace *t, const cr_tensor *tensor, uint32_t *value); /* false: it is none of the graph's */
/* A number that the program computed from others: a node of its own, unless the graph has the number. For recorders
 * that are no exporting trace it does nothing. */
CR_NODISCARD cr_status cr_trace_number(cr_recorder *r, const cr_op *op, const cr_arg *args, const cr_arg *result);
/* Says that `tensor` is `value` of the graph from now on. A real tensor is retained. */
CR_NODISCARD cr_status cr_trace_bind(cr_trace *t, cr_tensor *tensor, uint32_t value);
/* The number that the graph already read from the tensor, which nothing wrote since; false: none. */
bool cr_trace_known_item(const cr_trace *t, const cr_tensor *tensor, cr_arg *out);
/* The origin of nodes that are made outside of calls, until the next one; NULL: none. The texts must last as long. */
CR_NODISCARD cr_status cr_trace_set_origin(cr_trace *t, const cr_origin *origin);
/* An argument in the graph's terms: a tensor's value (a real tensor from outside becomes a constant of the graph), the
 * value of a symbolic number, anything else itself. Lists are in the graph's arena. */
CR_NODISCARD cr_status cr_trace_arg(cr_trace *t, const cr_arg *from, cr_arg *to);
/* Sets the outputs and hands the graph out. */
CR_NODISCARD cr_status cr_trace_finish(cr_trace *t, const cr_arg *outputs, size_t n, cr_graph **out);

/* ---- bodies of regions (body.c) ---- */

/* The innermost trace that records on this thread; NULL: none. */
cr_trace *cr_trace_current(void);
/* A trace for the body of a region, inside the current one (whose environment it shares; `env` where there is none). A
 * tensor or symbolic number from outside that the body uses becomes a placeholder behind its inputs, once, in order of
 * first use. `numbered`: placeholders are called arg0_1, arg1_1, ..., else as the enclosing graph calls what they stand
 * for. */
CR_NODISCARD cr_status cr_trace_create_body(cr_env *env, bool numbered, cr_trace **out);
/* Inputs; before anything from outside is used. `tensor` stands in the body for `outer`, or for a slice of it. */
CR_NODISCARD cr_status cr_trace_body_input(cr_trace *t, cr_tensor *outer, cr_tensor *tensor);
CR_NODISCARD cr_status cr_trace_body_number(cr_trace *t, cr_type type, cr_sym expr);
/* An operand that the program gives to the body: where the body needs one of its sizes, it is read off the operand. */
CR_NODISCARD cr_status cr_trace_body_may_use(cr_trace *t, cr_tensor *outer);
/* Makes it a free variable, used or not. */
CR_NODISCARD cr_status cr_trace_lift(cr_trace *t, const cr_arg *outer, uint32_t *value);
size_t cr_trace_lifted_count(const cr_trace *t);
cr_arg cr_trace_lifted(const cr_trace *t, size_t i); /* the tensor or SYM of outside; borrowed */
/* As cr_trace_finish; may add free variables that assertions in the body need. */
CR_NODISCARD cr_status cr_trace_body_finish(cr_trace *t, const cr_arg *outputs, size_t n, cr_graph **out);
/* Does a call write to memory of an input? The first such call, and the input's name; *input NULL: none does. */
CR_NODISCARD cr_status cr_body_writes(const cr_graph *g, const cr_op **op, const char **input);
/* Does result `*result` share memory with an input (its name), or else with result `*other` (*input is NULL)? */
bool cr_body_aliases(const cr_graph *g, uint32_t *result, const char **input, uint32_t *other);

#endif
