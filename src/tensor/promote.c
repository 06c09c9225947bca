/* promote.c: which dtype do mixed operands meet in?
 *
 * Classes go bool < integers < floats < complex; a higher class wins, and inside a class the wider type. What PyTorch
 * leaves without an answer stays without: any float8 mixed with another type, and the unsigned types it added late
 * (uint16, uint32, uint64) mixed with anything but a float.
 *
 * Operands come in three ranks of authority: tensors with dimensions, 0-d tensors, Python numbers. A lower rank can
 * raise the class of the result, never the width inside a class. */
#include "tensor/tensor.h"

static bool is_float8(int d) { return d >= CR_F8E4M3FN && d <= CR_F8E8M0FNU; }
static bool is_late_unsigned(int d) { return d >= CR_U16 && d <= CR_U64; }

/* Of two ordinary floats. f16 and bf16 are no subsets of each other, so they meet in f32. */
static int wider_float(int a, int b) {
    if (a == b) return a;
    return a == CR_F64 || b == CR_F64 ? CR_F64 : CR_F32;
}

/* Of two types among u8 i8 i16 i32 i64: a signed type holds u8 from 16 bits on. */
static int wider_integer(int a, int b) {
    if (a == CR_U8 && b == CR_I8) return CR_I16;
    if (a == CR_I8 && b == CR_U8) return CR_I16;
    return a > b ? a : b; /* the enumeration ascends by width */
}

int cr_promote_types(int a, int b) {
    if (a < 0 || b < 0 || a >= CR_DTYPE_COUNT || b >= CR_DTYPE_COUNT) return -1;
    if (a == b) return a;
    if (is_float8(a) || is_float8(b)) return -1;
    bool fa = rt_is_float(a), fb = rt_is_float(b), ca = rt_is_complex(a), cb = rt_is_complex(b);
    if (is_late_unsigned(a)) return fb ? b : -1;
    if (is_late_unsigned(b)) return fa ? a : -1;
    if (ca || cb) {
        if (!ca && !fa) return b;
        if (!cb && !fb) return a;
        /* bf16 is as wide as f32 here: it has no complex type of its own */
        int ra = a == CR_BF16 ? CR_F32 : cr_dtype_to_real(a), rb = b == CR_BF16 ? CR_F32 : cr_dtype_to_real(b);
        return cr_dtype_to_complex(wider_float(ra, rb));
    }
    if (fa && fb) return wider_float(a, b);
    if (fa) return a;
    if (fb) return b;
    if (a == CR_BOOL) return b;
    if (b == CR_BOOL) return a;
    return wider_integer(a, b);
}

bool cr_can_cast(int from, int to) {
    if (rt_is_complex(from) && !rt_is_complex(to)) return false;
    if (rt_is_float(from) && cr_dtype_is_integral(to)) return false;
    return from == CR_BOOL || to != CR_BOOL;
}

static int default_dtype = CR_F32;

int cr_default_dtype(void) { return __atomic_load_n(&default_dtype, __ATOMIC_RELAXED); }

cr_status cr_set_default_dtype(int dtype) {
    if (dtype < 0 || dtype >= CR_DTYPE_COUNT || !rt_is_float(dtype) || is_float8(dtype))
        return CR_FAIL(CR_ETYPE, "the default dtype must be float16, bfloat16, float32 or float64, not %s",
                       cr_dtype_name(dtype));
    __atomic_store_n(&default_dtype, dtype, __ATOMIC_RELAXED);
    return CR_OK;
}

/* Two types that do not meet leave a mark below -1 that remembers both, so that the question can be asked later. */
static int pack_failure(int a, int b) { return -2 - (a * CR_DTYPE_COUNT + b); }

static int meet(int a, int b) {
    if (a < -1 || b < -1) return a < -1 ? a : b;
    if (a < 0 || b < 0) return a < 0 ? b : a;
    int both = cr_promote_types(a, b);
    return both < 0 ? pack_failure(a, b) : both;
}

static cr_status check_met(int dtype) {
    if (dtype >= -1) return CR_OK;
    int a = (-2 - dtype) / CR_DTYPE_COUNT, b = (-2 - dtype) % CR_DTYPE_COUNT;
    return CR_FAIL(CR_ERUNTIME, "no dtype is defined for %s together with %s; convert one of them first",
                   cr_dtype_aten(a), cr_dtype_aten(b));
}

void cr_promotion_add_dtype(cr_promotion *p, int dtype, bool wrapped) {
    if (!wrapped) {
        p->zero = meet(p->zero, dtype);
        return;
    }
    /* A number says float or complex, not which one. */
    if (rt_is_float(dtype)) dtype = cr_default_dtype();
    else if (rt_is_complex(dtype)) dtype = cr_dtype_to_complex(cr_default_dtype());
    p->wrapped = meet(p->wrapped, dtype);
}

cr_status cr_promotion_add(cr_promotion *p, const cr_meta *m) {
    if (m->rank) {
        p->dim = meet(p->dim, m->dtype);
        return check_met(p->dim);
    }
    bool wrapped = m->flags & CR_META_WRAPPED;
    cr_promotion_add_dtype(p, m->dtype, wrapped);
    return check_met(wrapped ? p->wrapped : p->zero);
}

/* The higher rank decides the width, the lower one can raise the class. */
static int combine(int high, int low) {
    if (high < -1 || low < -1 || high < 0 || low < 0) return meet(high, low);
    if (rt_is_complex(high)) return high;
    if (rt_is_float(high)) {
        if (!rt_is_complex(low)) return high;
        return is_float8(high) ? pack_failure(high, low) : cr_dtype_to_complex(high);
    }
    if (rt_is_complex(low)) return low; /* also where the table has no answer: uint16 with 1j */
    if (high == CR_BOOL || rt_is_float(low)) return meet(high, low);
    return high;
}

cr_status cr_promotion_result(const cr_promotion *p, int *out) {
    int dtype = combine(p->dim, combine(p->zero, p->wrapped));
    CR_TRY(check_met(dtype));
    if (dtype < 0) return CR_FAIL(CR_ERUNTIME, "a result dtype needs at least one operand");
    *out = dtype;
    return CR_OK;
}
