"""finfo and iinfo: the limits of dtypes, worked out from their bit layouts."""
import math

from cresset import _C

# bits of mantissa, largest exponent, smallest normal exponent, and for the float8 kinds that have no infinity the
# largest number
_LAYOUT = {
    "float16": (10, 15, -14, None), "bfloat16": (7, 127, -126, None),
    "float32": (23, 127, -126, None), "float64": (52, 1023, -1022, None),
    "float8_e4m3fn": (3, 8, -6, 448.0), "float8_e5m2": (2, 15, -14, None),
    "float8_e4m3fnuz": (3, 7, -7, 240.0), "float8_e5m2fnuz": (2, 15, -15, None), "float8_e8m0fnu": (0, 127, -127, None),
}


def _name(dtype):
    return repr(dtype).removeprefix("cresset.")


class finfo:
    def __init__(self, type=None):
        dtype = _C.get_default_dtype() if type is None else type
        if not isinstance(dtype, _C.dtype):
            raise TypeError(f"finfo(): expected a dtype, not {dtype.__class__.__name__}")
        if dtype.is_complex:
            dtype = dtype.to_real()
        if not dtype.is_floating_point:
            raise TypeError(f"finfo(): {dtype} is no floating-point dtype; use iinfo")
        self.dtype = _name(dtype)
        mantissa, top, bottom, largest = _LAYOUT[self.dtype]
        self.bits = dtype.itemsize * 8
        self.eps = 2.0**-mantissa
        self.max = (2 - self.eps) * 2.0**top if largest is None else largest
        self.min = -self.max
        self.smallest_normal = self.tiny = 2.0**bottom
        if self.dtype == "float8_e8m0fnu":  # powers of two alone: no sign, no mantissa
            self.max, self.min, self.eps = 2.0**127, 2.0**-127, 1.0
        self.resolution = float(f"1e-{int(mantissa * math.log10(2))}") if mantissa else 1.0

    def __repr__(self):
        number = lambda v: f"{v:g}"
        return (f"finfo(resolution={number(self.resolution)}, min={number(self.min)}, max={number(self.max)}, "
                f"eps={number(self.eps)}, smallest_normal={number(self.smallest_normal)}, tiny={number(self.tiny)}, "
                f"dtype={self.dtype})")

    def __eq__(self, other):
        return isinstance(other, finfo) and self.dtype == other.dtype

    def __hash__(self):
        return hash(("finfo", self.dtype))


class iinfo:
    def __init__(self, type):
        if not isinstance(type, _C.dtype):
            raise TypeError(f"iinfo(): expected a dtype, not {type.__class__.__name__}")
        if type.is_floating_point or type.is_complex or type is _C.bool:
            raise TypeError(f"iinfo(): {type} is no integer dtype; use finfo")
        self.dtype = _name(type)
        self.bits = type.itemsize * 8
        self.max = 2**(self.bits - type.is_signed) - 1
        self.min = -2**(self.bits - 1) if type.is_signed else 0

    def __repr__(self):
        return f"iinfo(min={self.min:g}, max={self.max:g}, dtype={self.dtype})"

    def __eq__(self, other):
        return isinstance(other, iinfo) and self.dtype == other.dtype

    def __hash__(self):
        return hash(("iinfo", self.dtype))
