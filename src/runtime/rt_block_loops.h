/* rt_block_loops.h: the instruction loops of one instruction set. Included once by each rt_block_*.c, which defines
 * RT_LOOPS_FAST or RT_LOOPS_CALLS (the table's name) and RT_LOOP (a loop's name), and so gets a table of functions in
 * the order of the opcodes. The loops are visible outside, and the tables weak, so that a compiled model can bring
 * tables of its own, with no other loops than it uses (src/emit/choices.c): the linker then leaves out the rest.
 *
 * Loops are told to ignore loop-carried dependences: an instruction's result may be the very memory of an operand, but
 * never overlaps it otherwise. */
#include "runtime/rt_block_internal.h"
#include "runtime/rt_math.h"

#if defined(__clang__)
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif

#define X(ID, id, type, dtype) typedef type t_##id;
RT_CLASSES(X)
#undef X

#define LOOP1(name, arity, K, J, ...)                                                                                  \
    int RT_LOOP(name##_##J)(int64_t n, void *out, const void *pa, const void *pb, const void *pc) {                    \
        (void)pb, (void)pc;                                                                                            \
        t_##K *o = out;                                                                                                \
        const t_##J *x = pa;                                                                                           \
        INDEPENDENT for (int64_t i = 0; i < n; i++) {                                                                  \
            const t_##J a = x[i];                                                                                      \
            o[i] = (__VA_ARGS__);                                                                                      \
        }                                                                                                              \
        return RT_OK;                                                                                                  \
    }
#define LOOP2(name, arity, K, J, ...)                                                                                  \
    int RT_LOOP(name##_##J)(int64_t n, void *out, const void *pa, const void *pb, const void *pc) {                    \
        (void)pc;                                                                                                      \
        t_##K *o = out;                                                                                                \
        const t_##J *x = pa, *y = pb;                                                                                  \
        INDEPENDENT for (int64_t i = 0; i < n; i++) {                                                                  \
            const t_##J a = x[i], b = y[i];                                                                            \
            o[i] = (__VA_ARGS__);                                                                                      \
        }                                                                                                              \
        return RT_OK;                                                                                                  \
    }
#define LOOP3(name, arity, K, J, ...)                                                                                  \
    int RT_LOOP(name##_##J)(int64_t n, void *out, const void *pa, const void *pb, const void *pc) {                    \
        t_##K *o = out;                                                                                                \
        const t_##J *x = pa, *y = pb, *z = pc;                                                                         \
        INDEPENDENT for (int64_t i = 0; i < n; i++) {                                                                  \
            const t_##J a = x[i], b = y[i], c = z[i];                                                                  \
            o[i] = (__VA_ARGS__);                                                                                      \
        }                                                                                                              \
        return RT_OK;                                                                                                  \
    }
#define LOOP(name, arity, K, J, ...) LOOP##arity(name, arity, K, J, __VA_ARGS__)
#define ENTRY(name, arity, K, J, ...) [RT_OP_##name##_##J] = RT_LOOP(name##_##J),

#ifdef RT_LOOPS_FAST
RT_BLOCK_FAST(LOOP)
#define SELECT(K)                                                                                                      \
    int RT_LOOP(select_##K)(int64_t n, void *out, const void *pa, const void *pb, const void *pc) {                    \
        t_##K *o = out;                                                                                                \
        const uint8_t *c = pa;                                                                                         \
        const t_##K *x = pb, *y = pc;                                                                                  \
        INDEPENDENT for (int64_t i = 0; i < n; i++) {                                                                  \
            const t_##K a = x[i], b = y[i];                                                                            \
            o[i] = c[i] ? a : b;                                                                                       \
        }                                                                                                              \
        return RT_OK;                                                                                                  \
    }
RT_BLOCK_SELECTS(SELECT)
#undef SELECT
#define OPERANDS1(K) const t_##K a = x[i]
#define OPERANDS2(K) const t_##K a = x[i], b = y[i]
#define RANGED(name, arity, K, inside, fast, any)                                                                      \
    int RT_LOOP(name##_##K)(int64_t n, void *out, const void *pa, const void *pb, const void *pc) {                    \
        (void)pc;                                                                                                      \
        t_##K *o = out;                                                                                                \
        const t_##K *x = pa, *y = pb;                                                                                  \
        (void)y;                                                                                                       \
        int outside = 0;                                                                                               \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            OPERANDS##arity(K);                                                                                        \
            outside |= !(inside);                                                                                      \
        }                                                                                                              \
        if (outside) {                                                                                                 \
            INDEPENDENT for (int64_t i = 0; i < n; i++) {                                                              \
                OPERANDS##arity(K);                                                                                    \
                o[i] = (any);                                                                                          \
            }                                                                                                          \
            return RT_OK;                                                                                              \
        }                                                                                                              \
        INDEPENDENT for (int64_t i = 0; i < n; i++) {                                                                  \
            OPERANDS##arity(K);                                                                                        \
            o[i] = (fast);                                                                                             \
        }                                                                                                              \
        return RT_OK;                                                                                                  \
    }
RT_BLOCK_RANGED(RANGED)
#undef RANGED
#define SELECT(K) [RT_OP_select_##K] = RT_LOOP(select_##K),
#define RANGED(name, arity, K, ...) [RT_OP_##name##_##K] = RT_LOOP(name##_##K),
RT_CHOICE rt_block_fn *const RT_LOOPS_FAST[RT_OP_COUNT] = { RT_BLOCK_FAST(ENTRY) RT_BLOCK_RANGED(RANGED)
                                                                RT_BLOCK_SELECTS(SELECT) };
#undef SELECT
#undef RANGED
#endif

#ifdef RT_LOOPS_CALLS
#include "runtime/rt_special.h"
RT_BLOCK_CALLS(LOOP)
#define POLYNOMIAL(name, arity, K, J)                                                                                  \
    int RT_LOOP(name##_##J)(int64_t n, void *out, const void *pa, const void *pb, const void *pc) {                    \
        (void)pc;                                                                                                      \
        rt_##name##_block_##K(n, out, pa, pb);                                                                         \
        return RT_OK;                                                                                                  \
    }
RT_BLOCK_POLYNOMIALS(POLYNOMIAL)
#define DIVISION(name, arity, K, J, ...)                                                                               \
    int RT_LOOP(name##_##J)(int64_t n, void *out, const void *pa, const void *pb, const void *pc) {                    \
        (void)pc;                                                                                                      \
        t_##K *o = out;                                                                                                \
        const t_##J *x = pa, *y = pb;                                                                                  \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            const t_##J a = x[i], b = y[i];                                                                            \
            if (b == 0) return RT_ERUNTIME;                                                                            \
            o[i] = (__VA_ARGS__);                                                                                      \
        }                                                                                                              \
        return RT_OK;                                                                                                  \
    }
RT_BLOCK_DIVISIONS(DIVISION)
RT_CHOICE rt_block_fn *const RT_LOOPS_CALLS[RT_OP_COUNT] = { RT_BLOCK_CALLS(ENTRY) RT_BLOCK_POLYNOMIALS(ENTRY)
                                                          RT_BLOCK_DIVISIONS(ENTRY) };
#endif
