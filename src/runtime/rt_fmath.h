/* rt_fmath.h: the functions of rt_fmath_text.h on single floats, so that loops over them become vector code on any
 * instruction set. */
#ifndef CRESSET_RT_FMATH_H
#define CRESSET_RT_FMATH_H

#include <math.h>
#include <stdint.h>

#define RT_SIN_RANGE 1e6f

static inline float rt__float_of(int32_t i) { union { int32_t i; float f; } x = { i }; return x.f; }
static inline int32_t rt__bits_of(float f) { union { float f; int32_t i; } x = { f }; return x.i; }

#define V float
#define VI int32_t
#define VU uint32_t
#define VD double
#define FN(name) rt_##name##_f32
#define GT(a, b) ((a) > (b))
#define LT(a, b) ((a) < (b))
#define GE(a, b) ((a) >= (b))
#define EQ(a, b) ((a) == (b))
#define PICK(mask, a, b) ((mask) ? (a) : (b))
#define SPLAT(c) (c)
#define AS_INT(x) rt__bits_of(x)
#define AS_FLOAT(x) rt__float_of(x)
#define TO_INT(x) ((int32_t)(x))
#define TO_FLOAT(x) ((float)(x))
#define TO_DOUBLE(x) ((double)(x))
#define NARROW(x) ((float)(x))
#define ABS(x) fabsf(x)
#define COPYSIGN(a, b) copysignf(a, b)
#define ODD(i) ((i) & 1)
#define HALVES(i) ((i) & 2)
#include "runtime/rt_fmath_text.h"
#undef V
#undef VI
#undef VU
#undef VD
#undef FN
#undef GT
#undef LT
#undef GE
#undef EQ
#undef PICK
#undef SPLAT
#undef AS_INT
#undef AS_FLOAT
#undef TO_INT
#undef TO_FLOAT
#undef TO_DOUBLE
#undef NARROW
#undef ABS
#undef COPYSIGN
#undef ODD
#undef HALVES

#endif
