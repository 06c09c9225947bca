/* rows.h: loop IR. A fused region as one row program.
 *
 * Parallel outer axes, then a row: a list of *stages*, each one loop over the row, with reductions between them. Values
 * are in single-assignment form. One that *varies* along the row is computed in loops, the others once per row. A value
 * belongs to the first stage in which everything it needs is there; a later stage computes it again if that is cheap,
 * else it is *kept* in a scratch row.
 *
 *     row kernel, 3 stages                       for a domain (r, j) with rows along j
 *       %0 = load p0;  %1 = load p1;  %2 = add %0 %1          kept
 *       %3 = sum %2;   %4 = count;    %5 = div %3 %4          once, before stage 1
 *       ... */
#ifndef CR_LOWER_ROWS_H
#define CR_LOWER_ROWS_H

#include "lower/tables.h"
#include "passes/rows.h"

typedef enum cr_row_kind {
    CR_ROW_LOAD,
    CR_ROW_ROTATE, /* a load: the second half of the row, negated, then the first */
    CR_ROW_LITERAL, CR_ROW_COUNT, CR_ROW_OP, CR_ROW_ROUND, CR_ROW_REDUCE
} cr_row_kind;
typedef enum cr_row_fold { CR_FOLD_SUM, CR_FOLD_MAX, CR_FOLD_MIN } cr_row_fold;
typedef struct cr_row_value {
    uint8_t kind, class;       /* rt_class */
    bool varies, kept;
    uint8_t stage;
    uint8_t dtype;             /* ROUND: to this */
    uint8_t cost;              /* of computing it again in a later stage; 99: too much */
    int16_t op;                /* OP: block instruction; REDUCE: cr_row_fold */
    int16_t in[3];             /* -1 */
    int16_t port;              /* LOAD, ROTATE */
    uint16_t scratch;          /* kept: bytes per element before it */
    int64_t i;                 /* LITERAL: of i64 and b */
    double f;                  /* LITERAL: of f32 and f64 */
} cr_row_value;

typedef enum cr_row_access { CR_ACCESS_UNIT, CR_ACCESS_SAME, CR_ACCESS_STRIDED } cr_row_access; /* along the lanes */
typedef struct cr_row_port {
    uint8_t dtype, access;
    bool varies;
    int16_t value;             /* what is stored; -1: a load */
    int16_t index;             /* operand or result of the region */
    int8_t dim[CR_ROWS_MAX_AXES]; /* for each axis of the domain, in its order, the tensor's dimension; -1: none */
} cr_row_port;

enum { CR_ROW_MAX_VALUES = 400 };
typedef struct cr_row_kernel {
    const char *name;          /* without prefix: "add_gelu" */
    const char *comment;       /* what it computes, line by line; names in it have come through cr__comment_text */
    int naxes, nrow;           /* the last nrow axes are the row's */
    cr_dim size[CR_ROWS_MAX_AXES];
    bool column, reduces;
    bool whole;                /* rows must not be cut or joined though nothing is reduced */
    int nin, nports, nvalues, nstages;
    uint16_t scratch, cost;
    cr_row_port port[RT_ROWS_PORTS];
    cr_row_value *value;
} cr_row_kernel;

/* Loops for a region's body. CR_EUNSUPPORTED when it does not fit into one kernel. Everything is in the arena. */
CR_NODISCARD cr_status cr_row_build(cr_graph *body, cr_arena *arena, cr_row_kernel **out);
/* Stages, scratch rows, cost. */
CR_NODISCARD cr_status cr__row_schedule(cr_row_kernel *k);
/* Is v computed (not loaded from scratch) in the loop of a stage? Marks need[] for all that loop s needs. */
void cr__row_needs(const cr_row_kernel *k, int stage, bool *need);
/* The IR as text, for tests. */
void cr_row_print(const cr_row_kernel *k, cr_str *out);
/* The step of a cresset::rows node. */
CR_NODISCARD cr_status cr__lower_rows(cr__method *m, const cr_node *node);
/* Adds text of strangers to a comment of C: nothing in it ends the comment or continues the line. */
void cr__comment_text(cr_str *out, const char *text);

#endif
