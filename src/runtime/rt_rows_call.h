/* rt_rows_call.h: what the runtime hands to a row kernel. Stands alone: emitted kernels include no system header.
 *
 * A kernel computes `rows` rows. A row has up to RT_ROWS_LEVELS axes, the last one the fastest; ports are the operands,
 * then the results. In a *row* kernel vector lanes run along the last row axis. In a *column* kernel they run along the
 * rows, and the row axes are walked one element at a time. Byte distances throughout; a distance of 0 repeats an
 * element. */
#ifndef CRESSET_RT_ROWS_CALL_H
#define CRESSET_RT_ROWS_CALL_H

enum { RT_ROWS_PORTS = 24, RT_ROWS_LEVELS = 5, RT_ROWS_LANES = 16 /* of the widest instruction set */ };
typedef struct rt_rows_call {
    char *p[RT_ROWS_PORTS];                              /* the first element of the first row */
    __INT64_TYPE__ step[RT_ROWS_PORTS];                  /* to the next row */
    __INT64_TYPE__ stride[RT_ROWS_LEVELS][RT_ROWS_PORTS]; /* along the row axes, outermost first */
    __INT64_TYPE__ rows, n[RT_ROWS_LEVELS];
    __INT64_TYPE__ count;                                /* elements of a row */
    char *scratch;                                       /* aligned to 64 */
    __INT64_TYPE__ room;                                 /* elements of one scratch row, a multiple of RT_ROWS_LANES */
} rt_rows_call;
/* 0, or an RT_ code. */
typedef int rt_rows_fn(const rt_rows_call *call);

#endif
