/* rt_rows.h: runs row kernels, the loops that `cresset compile` writes for fused regions.
 *
 * A kernel knows nothing of memory layout but which of its ports have neighbouring elements along the lanes. Here its
 * domain, a box of axes over which all ports are given strides, is brought into the fewest loops (axes that lie one
 * after the other in every port are merged), cut into pieces for the threads, and walked. How it is cut depends on
 * sizes alone, so results do not depend on the number of threads. */
#ifndef CRESSET_RT_ROWS_H
#define CRESSET_RT_ROWS_H

#include "runtime/rt.h"
#include "runtime/rt_rows_call.h"

enum { RT_ISA_PORTABLE, RT_ISA_AVX2, RT_ISA_AVX512, RT_ISA_COUNT };
/* The widest that the processor has and CRESSET_ISA allows. */
int rt_isa_level(void);

struct rt_method;
typedef struct rt_rows {
    rt_rows_fn *fn[RT_ISA_COUNT]; /* NULL: not compiled for it; all of them in a model that was lowered, not emitted */
    uint8_t nports, naxes;        /* operands, then results */
    uint8_t nrow;                 /* the last axes of the domain are a row's, 1 .. RT_ROWS_LEVELS */
    bool column;                  /* lanes run along the last axis before them */
    bool reduces;                 /* a row is more than its elements: it must not be cut or joined with others */
    uint16_t cost;                /* of one element, in additions */
    uint16_t scratch;             /* bytes for each element of a row */
    /* What emission and runs without emission need. */
    int32_t kernel;               /* its number among the lowered kernels */
    const struct rt_method *body; /* the same as steps; its operands (rt_operand_ref) and results (windows) follow */
    int32_t operands, noperands, results, nresults;
} rt_rows;

/* Every port has the domain's sizes; strides of 0 repeat. */
int rt_rows_run(const rt_ctx *ctx, const rt_rows *rows, const rt_view *port);

#endif
