/* dtype.c: the names of element types.
 *
 * Numbers and sizes come from RT_DTYPES; the one thing added here is how PyTorch's messages call each type, and the
 * aliases that users may write. */
#include "tensor/tensor.h"

static const struct { const char *name, *brief; } names[CR_DTYPE_COUNT] = {
#define X(ID, id, bytes, name) [CR_##ID] = { #name, #id },
    RT_DTYPES(X)
#undef X
};

static const char *const aten_names[CR_DTYPE_COUNT] = {
    [CR_U8] = "Byte", [CR_I8] = "Char", [CR_I16] = "Short", [CR_I32] = "Int", [CR_I64] = "Long", [CR_F16] = "Half",
    [CR_F32] = "Float", [CR_F64] = "Double", [CR_C32] = "ComplexHalf", [CR_C64] = "ComplexFloat",
    [CR_C128] = "ComplexDouble", [CR_BOOL] = "Bool", [CR_BF16] = "BFloat16", [CR_U16] = "UInt16", [CR_U32] = "UInt32",
    [CR_U64] = "UInt64", [CR_F8E4M3FN] = "Float8_e4m3fn", [CR_F8E5M2] = "Float8_e5m2",
    [CR_F8E4M3FNUZ] = "Float8_e4m3fnuz", [CR_F8E5M2FNUZ] = "Float8_e5m2fnuz", [CR_F8E8M0FNU] = "Float8_e8m0fnu",
};

static const struct { const char *name; int dtype; } aliases[] = {
    { "half", CR_F16 }, { "float", CR_F32 }, { "double", CR_F64 }, { "short", CR_I16 }, { "int", CR_I32 },
    { "long", CR_I64 }, { "chalf", CR_C32 }, { "cfloat", CR_C64 }, { "cdouble", CR_C128 },
};

static bool valid(int dtype) { return dtype >= 0 && dtype < CR_DTYPE_COUNT; }

const char *cr_dtype_name(int dtype) { return valid(dtype) ? names[dtype].name : "undefined"; }
const char *cr_dtype_short(int dtype) { return valid(dtype) ? names[dtype].brief : "undefined"; }
const char *cr_dtype_aten(int dtype) { return valid(dtype) ? aten_names[dtype] : "Undefined"; }

bool cr_dtype_find(const char *name, int *out) {
    for (int d = 0; d < CR_DTYPE_COUNT; d++) {
        if (!strcmp(name, names[d].name) || !strcmp(name, names[d].brief) || !strcmp(name, aten_names[d])) {
            *out = d;
            return true;
        }
    }
    for (size_t i = 0; i < CR_COUNT(aliases); i++) {
        if (!strcmp(name, aliases[i].name)) {
            *out = aliases[i].dtype;
            return true;
        }
    }
    return false;
}

int cr_dtype_to_real(int dtype) {
    switch (dtype) {
    case CR_C32: return CR_F16;
    case CR_C64: return CR_F32;
    case CR_C128: return CR_F64;
    default: return dtype;
    }
}

int cr_dtype_to_complex(int dtype) {
    switch (dtype) {
    case CR_F16: return CR_C32;
    case CR_F64: return CR_C128;
    case CR_BF16: case CR_F32: return CR_C64; /* there is no complex type of bfloat16's range but this one */
    default: return dtype;
    }
}
