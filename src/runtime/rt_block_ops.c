/* rt_block_ops.c: what running programs ask about classes and instructions; the rest is in rt_block_names.c. */
#include "runtime/rt_block_internal.h"
#include "runtime/rt_math.h"

#include <string.h>

#define X(ID, id, type, dtype) class_##id = RT_CLASS_##ID,
enum { RT_CLASSES(X) };
#undef X
static const uint8_t out_class[RT_OP_COUNT] = {
#define X(name, arity, K, J, ...) [RT_OP_##name##_##J] = class_##K,
#define S(K) [RT_OP_select_##K] = class_##K,
#define R(name, arity, K, ...) [RT_OP_##name##_##K] = class_##K,
    RT_BLOCK_FAST(X) RT_BLOCK_RANGED(R) RT_BLOCK_SELECTS(S)
    RT_BLOCK_CALLS(X) RT_BLOCK_POLYNOMIALS(X) RT_BLOCK_DIVISIONS(X)
#undef X
#undef S
#undef R
};

int rt_block_out_class(int op) { return out_class[op]; }

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
