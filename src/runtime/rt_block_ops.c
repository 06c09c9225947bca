/* rt_block_ops.c: what there is to know about classes and instructions: names, arities, result classes, costs. */
#include "runtime/rt_block_internal.h"
#include "runtime/rt_math.h"

#include <string.h>

typedef struct op_info { const char *name; uint8_t arity, out, in, cost; } op_info;

#define X(ID, id, type, dtype) class_##id = RT_CLASS_##ID,
enum { RT_CLASSES(X) };
#undef X
/* Costs are coarse: they only decide when work is worth sharing between threads. */
static const op_info ops[RT_OP_COUNT] = {
#define X(name, arity, K, J, ...) [RT_OP_##name##_##J] = { #name, arity, class_##K, class_##J, 1 },
#define S(K) [RT_OP_select_##K] = { "select", 3, class_##K, class_##K, 1 },
#define Y(name, arity, K, J, ...) [RT_OP_##name##_##J] = { #name, arity, class_##K, class_##J, 20 },
#define R(name, K, ...) [RT_OP_##name##_##K] = { #name, 1, class_##K, class_##K, 8 },
    RT_BLOCK_FAST(X) RT_BLOCK_RANGED(R) RT_BLOCK_SELECTS(S) RT_BLOCK_CALLS(Y) RT_BLOCK_DIVISIONS(Y)
#undef X
#undef S
#undef Y
#undef R
};

/* Names are found while programs are compiled, not while they run. */
int rt_block_find(const char *name, int in) {
    for (int op = 0; op < RT_OP_COUNT; op++)
        if (ops[op].in == in && !strcmp(ops[op].name, name)) return op;
    return -1;
}
int rt_block_arity(int op) { return ops[op].arity; }
int rt_block_out_class(int op) { return ops[op].out; }
int rt_block_cost(int op) { return ops[op].cost; }
const char *rt_block_op_name(int op) { return ops[op].name; }

int rt_class_of(int dtype) {
    switch (dtype) {
    case RT_BOOL: return RT_CLASS_B;
    case RT_U64: return RT_CLASS_U64;
    case RT_F64: return RT_CLASS_F64;
    case RT_C32: case RT_C64: return RT_CLASS_C64;
    case RT_C128: return RT_CLASS_C128;
    default: return rt_is_float(dtype) ? RT_CLASS_F32 : RT_CLASS_I64;
    }
}

static const struct { const char *name; uint8_t dtype; } classes[RT_CLASS_COUNT] = {
#define X(ID, id, type, dtype) { #id, dtype },
    RT_CLASSES(X)
#undef X
};
int rt_class_dtype(int class) { return classes[class].dtype; }
const char *rt_class_name(int class) { return classes[class].name; }
