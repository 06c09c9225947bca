"""Names of PyTorch that model code uses and that need little here: typed tensors, settings, a few functions."""
import warnings

from cresset import _C

_op = _C._function
legacy_contiguous_format = _C.contiguous_format


# ---- typed tensors of old: FloatTensor(2, 3), LongTensor([1, 2]), isinstance(x, BoolTensor) ----

class _Typed(type(_C._populated_tensor_type())):
    def __instancecheck__(cls, value):
        return _C.is_tensor(value) and value.dtype is cls.dtype

    def __call__(cls, *args):
        made = _C._populated_tensor_type()(*args)
        if len(args) == 1 and not isinstance(args[0], int) and not isinstance(args[0], _C.Size):
            return args[0].to(cls.dtype) if _C.is_tensor(args[0]) else _C.tensor(args[0], dtype=cls.dtype)
        return _op("empty")(made.shape, dtype=cls.dtype)


def _typed(name, dtype):
    return _Typed(name, (), {"dtype": dtype, "__module__": "cresset",
                             "__doc__": f"The older name of tensors of {dtype}."})


FloatTensor, DoubleTensor, HalfTensor = _typed("FloatTensor", _C.float32), _typed("DoubleTensor",
        _C.float64), _typed("HalfTensor", _C.float16)
BFloat16Tensor, LongTensor, IntTensor = _typed("BFloat16Tensor", _C.bfloat16), _typed("LongTensor",
        _C.int64), _typed("IntTensor", _C.int32)
ShortTensor, CharTensor, ByteTensor = _typed("ShortTensor", _C.int16), _typed("CharTensor",
        _C.int8), _typed("ByteTensor", _C.uint8)
BoolTensor = _typed("BoolTensor", _C.bool)


# ---- settings ----

_precision, _deterministic, _warn_only = "highest", False, False


def get_float32_matmul_precision():
    return _precision


def set_float32_matmul_precision(precision):
    """Kept and returned; products are computed in float32 whatever it says."""
    global _precision
    if precision not in ("highest", "high", "medium"):
        warnings.warn(f"set_float32_matmul_precision takes highest, high or medium, not {precision!r}: it stays "
                      f"{_precision}")
        return
    _precision = precision


def use_deterministic_algorithms(mode, *, warn_only=False):
    """Kept and returned; all algorithms here are deterministic."""
    global _deterministic, _warn_only
    _deterministic, _warn_only = bool(mode), bool(warn_only)


def are_deterministic_algorithms_enabled():
    return _deterministic


def is_deterministic_algorithms_warn_only_enabled():
    return _warn_only


def get_default_device():
    """The CPU, or that of the `with device(...)` around."""
    return _C._function("empty")(0).device


def set_default_device(device):
    if device is not None and _C.device(device).type != "cpu":
        raise NotImplementedError(f"set_default_device: tensors are made on the CPU, not on {device}")


# ---- functions ----

def _assert(condition, message):
    """assert as a function."""
    if not condition:
        raise AssertionError(message)


def asarray(obj, *, dtype=None, device=None, copy=None, requires_grad=False):
    """A tensor of an object: on its memory where that is possible, unless copy=True; copy=False refuses to copy."""
    made = _C.as_tensor(obj, dtype=dtype, device=device)
    shares = hasattr(obj, "__dlpack__") or hasattr(obj, "__array_interface__")
    if copy:
        made = made.clone() if made is obj or shares else made
    elif copy is False and (not shares or made.data_ptr() != _C.as_tensor(obj).data_ptr()):
        raise ValueError("asarray: copy=False, but this object has no memory to share as such a tensor")
    return made.requires_grad_() if requires_grad else made


def chain_matmul(*matrices):
    return _op("linalg_multi_dot")(list(matrices))


def range(start, end, step=1, **kwargs):
    """Like arange, with the end included."""
    kwargs.setdefault("dtype", _C.get_default_dtype())
    return _op("arange")(start, end + (step if (end - start) % step == 0 else 0), step, **kwargs)


def unravel_index(indices, shape):
    """Positions in the flattened tensor as one index tensor per dimension."""
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    found = []
    for n in reversed(shape):
        found.append(indices % n)
        indices = _op("floor_divide")(indices, n)
    return tuple(reversed(found))


def vander(x, N=None, increasing=False):
    """Powers of x in the columns, from the highest down unless increasing."""
    n = x.size(0) if N is None else N
    powers = x.new_ones((x.size(0), n), dtype=_C.promote_types(x.dtype, _C.int64) if not x.is_floating_point()
                        and not x.is_complex() else None)
    if n > 1:
        powers[:, 1:] = x.unsqueeze(-1)
        powers[:, 1:] = powers[:, 1:].cumprod(1)
    return powers if increasing else powers.flip(-1)
