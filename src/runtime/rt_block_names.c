/* rt_block_names.c: names, arities and costs of instructions: for whoever writes programs, not for what runs them. */
#include "runtime/rt_block_internal.h"

#include <string.h>

typedef struct op_info { const char *name, *symbol; uint8_t arity, in, cost; } op_info;

#define X(ID, id, type, dtype) class_##id = RT_CLASS_##ID,
enum { RT_CLASSES(X) };
#undef X
/* Costs are coarse: they only decide when work is worth sharing between threads. */
static const op_info ops[RT_OP_COUNT] = {
#define X(name, arity, K, J, ...) [RT_OP_##name##_##J] = { #name, #name "_" #J, arity, class_##J, 1 },
#define S(K) [RT_OP_select_##K] = { "select", "select_" #K, 3, class_##K, 1 },
#define Y(name, arity, K, J, ...) [RT_OP_##name##_##J] = { #name, #name "_" #J, arity, class_##J, 20 },
#define R(name, arity, K, ...) [RT_OP_##name##_##K] = { #name, #name "_" #K, arity, class_##K, 8 },
    RT_BLOCK_FAST(X) RT_BLOCK_RANGED(R) RT_BLOCK_SELECTS(S)
    RT_BLOCK_CALLS(Y) RT_BLOCK_POLYNOMIALS(Y) RT_BLOCK_DIVISIONS(Y)
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
int rt_block_cost(int op) { return ops[op].cost; }
const char *rt_block_op_name(int op) { return ops[op].name; }
const char *rt_block_op_symbol(int op) { return ops[op].symbol; }
