/* rt_block.h: pointwise programs over blocks of elements.
 *
 * A program is a list of typed instructions over slots. A slot holds one block (up to RT_BLOCK elements) of one class.
 * The evaluator walks all operands together in blocks; an instruction is one tight loop over a block that stays in the
 * first cache, so a chain of n instructions reads and writes memory once. An operand that already is a run of its
 * class's own dtype is used where it lies, and the last instruction writes straight into such an output.
 *
 * Few classes serve all dtypes: elements are converted when loaded and when stored. Three dtypes are at work: an input
 * is rounded to its port's `round` (the dtype the inputs were promoted to), computed in the slot's class, stored as the
 * output view's dtype.
 *
 * Programs are plain data that may be constant and shared by any number of threads. */
#ifndef CRESSET_RT_BLOCK_H
#define CRESSET_RT_BLOCK_H

#include "runtime/rt.h"

/* Classes: id, short name, C type, the dtype with the same bits. */
#define RT_CLASSES(X)                                                                                                  \
    X(B, b, uint8_t, RT_BOOL) X(F32, f32, float, RT_F32) X(F64, f64, double, RT_F64) X(I64, i64, int64_t, RT_I64)      \
    X(U64, u64, uint64_t, RT_U64) X(C64, c64, rt_c64, RT_C64) X(C128, c128, rt_c128, RT_C128)
typedef enum rt_class {
#define X(ID, id, type, dtype) RT_CLASS_##ID,
    RT_CLASSES(X)
#undef X
    RT_CLASS_COUNT
} rt_class;
/* The class that computes values of a dtype: integers in i64 (u64 in u64), half and smaller floats in f32. */
int rt_class_of(int dtype);
int rt_class_dtype(int class);
const char *rt_class_name(int class);

enum {
    RT_BLOCK = RT_LIMIT(512, 16), /* elements of a block; fewer when many wide slots would not fit the cache */
    RT_BLOCK_MAX_SLOTS = 96,
    RT_BLOCK_MAX_PORTS = 16 /* inputs and outputs together */
};
typedef struct rt_instr { uint16_t op; uint8_t out, in[3]; } rt_instr; /* slots */
enum { RT_PORT_WIDE = 1 }; /* an input that is one number (all strides 0) is not rounded, only converted to the class */
typedef struct rt_port { uint8_t slot, class, round, flags; } rt_port;
typedef struct rt_literal { uint8_t slot, class; int64_t i; double re, im; } rt_literal; /* i: integer classes and b */
/* Slots of inputs, constants and literals are written by nobody else. The first `nprologue` instructions depend on
 * constants and literals alone and run once. */
typedef struct rt_program {
    uint8_t nin, nout, nconstants, nliterals, nslots;
    uint8_t width;      /* bytes of the widest class in use */
    uint16_t ninstr, nprologue;
    uint16_t cost;      /* of one element, in additions */
    const rt_instr *code;
    const rt_port *in, *out, *constant;
    const rt_literal *literal;
} rt_program;

/* The instruction of this name on operands of class `in`; -1 when there is none. */
int rt_block_find(const char *name, int in);
int rt_block_arity(int op);
int rt_block_out_class(int op);
int rt_block_cost(int op);  /* of one element, in additions */
const char *rt_block_op_name(int op);
const char *rt_block_op_symbol(int op); /* "add_f32": RT_OP_add_f32 */

/* A view whose sizes and strides lie elsewhere: programs run for single elements, too, where copying views would
 * show. */
typedef struct rt_operand { void *p; const int64_t *size, *stride; int32_t rank, dtype; } rt_operand;
static inline rt_operand rt_operand_of(const rt_view *v) {
    return (rt_operand){ v->p, v->size, v->stride, v->rank, v->dtype };
}

/* Fills the outputs (all of one shape, to which every input broadcasts). `operand`: inputs, then outputs. An output may
 * be exactly the same view as an input; other overlaps are not allowed. RT_ERUNTIME "ZeroDivisionError" for an integer
 * division by zero. */
int rt_block_run(const rt_ctx *ctx, const rt_program *program, const rt_operand *operand, const rt_scalar *constants);

#endif
