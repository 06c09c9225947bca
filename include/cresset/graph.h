/* graph.h: graphs as text (.crg), passes over them, and running them.
 *
 *     cr_graph *g, *simple;
 *     const char *text = "graph(%x: f32[2]) { %y: f32[2] = aten.mul.Tensor(%x, 1) return %y }";
 *     if (cr_graph_parse(NULL, text, &g)) return fail(cr_error_message());
 *     if (cr_graph_apply(g, "simplify", &simple)) return fail(cr_error_message());
 *     cr_str printed;
 *     cr_str_init(&printed);
 *     cr_graph_print(simple, CR_PRINT_PLAIN, &printed);
 *     printf("%s", cr_str_get(&printed));
 *     cr_str_dispose(&printed);
 *     cr_graph_release(simple);
 *     cr_graph_release(g);
 *
 * Graphs are refcounted. A graph that nobody changes may be read and run from many threads; parsing and passes work
 * with the symbols of its environment, which belongs to one thread at a time. docs/passes.md explains the passes.
 *
 * Stable: the functions here and the text that cr_graph_parse reads (printed texts of later releases may hold more).
 * Which passes there are, and what they make of a graph, changes with every release. */
#ifndef CRESSET_GRAPH_H
#define CRESSET_GRAPH_H

#include "cresset/arg.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cr_graph cr_graph;
typedef struct cr_env cr_env; /* symbolic sizes and what is known of them; graphs may share one */

/* One graph; `env` NULL: a fresh environment is made when symbols occur. CR_EFORMAT with line and column. */
CR_API CR_NODISCARD cr_status cr_graph_parse(cr_env *env, const char *text, cr_graph **out);
CR_API void cr_graph_retain(cr_graph *g);
CR_API void cr_graph_release(cr_graph *g); /* NULL is legal */
/* A deep copy; subgraphs too, constants shared. */
CR_API CR_NODISCARD cr_status cr_graph_copy(const cr_graph *g, cr_graph **out);
CR_API cr_env *cr_graph_env(const cr_graph *g); /* borrowed */

enum { CR_PRINT_PLAIN = 0, CR_PRINT_ORIGINS = 1 };
/* What is printed parses back to the same graph. */
CR_API void cr_graph_print(const cr_graph *g, int flags, cr_str *out);
/* Same nodes, arguments, shapes, constants' shapes, subgraphs, names. *where (may be NULL) gets the first
 * difference. */
CR_API bool cr_graph_equal(const cr_graph *a, const cr_graph *b, cr_str *where);
CR_API uint32_t cr_graph_node_count(const cr_graph *g); /* inputs, calls, attributes and the output */
CR_API size_t cr_graph_input_count(const cr_graph *g);
CR_API size_t cr_graph_result_count(const cr_graph *g);

/* ---- verification: independent properties ---- */
enum {
    CR_VERIFY_SHAPE = 0,           /* always: defined before use, arguments fit schemas, operands fit bodies */
    CR_VERIFY_METAS = 1 << 0,      /* every tensor has a shape, equal to what the op's rule gives */
    CR_VERIFY_FUNCTIONAL = 1 << 1, /* nothing is written */
    CR_VERIFY_CORE = 1 << 2,       /* ops within the core ATen set (and sym_*, asserts, region ops) */
    CR_VERIFY_SIZES = 1 << 3       /* METAS without layouts: strides may be another tracer's */
};
/* CR_EVALUE names node and property. */
CR_API CR_NODISCARD cr_status cr_graph_verify(const cr_graph *g, uint32_t properties);

/* ---- passes: those that native code goes through, in that order; one may stand there twice ---- */
typedef struct cr_pass cr_pass;
CR_API const cr_pass *cr_pass_at(size_t i); /* NULL past the last */
CR_API const cr_pass *cr_pass_find(const char *name);
CR_API const char *cr_pass_name(const cr_pass *pass); /* "simplify" */
CR_API char cr_pass_letter(const cr_pass *pass);      /* what `cresset compile --dump` calls it */
/* A new graph over the same environment; `g` stays as it is. CR_ENOTFOUND: no pass of that name; lists those there are.
 * CR_EVALUE: the graph does not hold what the pass needs; says which passes give it. */
CR_API CR_NODISCARD cr_status cr_graph_apply(const cr_graph *g, const char *pass, cr_graph **out);

/* ---- running ---- */
/* On tensors and numbers, one per placeholder, real or fake (then the results are). `results`: cr_graph_result_count
 * of them, nested lists keep their shape; owned: cr_results_release. Symbols are bound from the inputs' sizes and
 * checked. */
CR_API CR_NODISCARD cr_status cr_graph_run(cr_graph *g, const cr_arg *inputs, size_t n, cr_arg *results,
                                           size_t nresults);
/* For many runs: an immutable plan. Refcounted, thread-safe: each run has its own frame. Retains the graph, which
 * must not be changed any more. */
typedef struct cr_plan cr_plan;
CR_API CR_NODISCARD cr_status cr_plan_create(cr_graph *g, cr_plan **out);
CR_API void cr_plan_retain(cr_plan *p);
CR_API void cr_plan_release(cr_plan *p);
CR_API size_t cr_plan_result_count(const cr_plan *p);
CR_API CR_NODISCARD cr_status cr_plan_run(cr_plan *p, const cr_arg *inputs, size_t ninputs, cr_arg *results,
                                          size_t nresults);

#ifdef __cplusplus
}
#endif
#endif
