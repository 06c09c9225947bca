"""Cresset: tensors, ops, graphs and compilation. Names and behaviour follow PyTorch: `import cresset as torch`.

The work is done in the extension module `cresset._C`. Importing the package builds nothing: op functions, the Tensor
type's methods and the submodules appear when they are first asked for.
"""
import os as _os

from cresset import _C
from cresset._C import *  # noqa: F401,F403 - dtypes, device, Size, tensor, manual_seed, ...

del Tensor  # noqa: F821 - comes back, with its methods, through __getattr__
inf, pi, e = 1e999, 3.141592653589793, 2.718281828459045
nan = inf - inf
newaxis = None
__version__ = "0.1.0"

# Where the names that are written in Python live.
_LAZY = {
    **dict.fromkeys("no_grad enable_grad set_grad_enabled inference_mode".split(), "_grad_mode"),
    **dict.fromkeys("finfo iinfo".split(), "_numeric"),
    **dict.fromkeys("is_anomaly_enabled is_anomaly_check_nan_enabled".split(), "autograd.anomaly_mode"),
    **dict.fromkeys("FloatTensor DoubleTensor HalfTensor BFloat16Tensor LongTensor IntTensor ShortTensor CharTensor "
                    "ByteTensor BoolTensor legacy_contiguous_format get_float32_matmul_precision "
                    "set_float32_matmul_precision use_deterministic_algorithms are_deterministic_algorithms_enabled "
                    "is_deterministic_algorithms_warn_only_enabled get_default_device set_default_device _assert "
                    "asarray chain_matmul range unravel_index vander".split(), "_legacy"),
    **dict.fromkeys("autocast is_autocast_enabled is_autocast_cpu_enabled set_autocast_enabled "
                    "set_autocast_cpu_enabled get_autocast_dtype get_autocast_cpu_dtype set_autocast_dtype "
                    "set_autocast_cpu_dtype is_autocast_cache_enabled set_autocast_cache_enabled "
                    "clear_autocast_cache GradScaler".split(), "amp"),
    **dict.fromkeys("set_printoptions".split(), "_print"),
    **dict.fromkeys("cond while_loop".split(), "_higher_order"),
    "Tag": "library",
    "vmap": "_vmap",
    **dict.fromkeys("sym_float sym_int sym_ite sym_max sym_min sym_not sym_sqrt sym_sum _check _check_index "
                    "_check_is_size _check_not_implemented _check_tensor_all _check_tensor_all_with _check_type "
                    "_check_value _check_with _constrain_as_size "
                    "_constrain_as_value".split(), "_symbolic"),
    **dict.fromkeys("aot_compile aot_load".split(), "_aot"),
    "compile": "_compile",
    "from_fx": "_torch",
    **dict.fromkeys("save load".split(), "_serialization"),
    **dict.fromkeys("einsum meshgrid broadcast_tensors broadcast_shapes block_diag cartesian_prod atleast_1d "
                    "atleast_2d atleast_3d norm unique unique_consecutive nonzero split stft tensordot "
                    "typename".split(), "functional"),
}
_SUBMODULES = {"amp", "autograd", "func", "nn", "jit", "compiler", "cuda", "backends", "export", "library",
               "functional", "hub", "ops", "linalg", "fft", "special", "random", "return_types", "types", "utils", "fx",
               "optim", "_dynamo", "_logging"}


def __getattr__(name):
    if name[:2] == "__":
        raise AttributeError(f"module 'cresset' has no attribute '{name}'")
    if name == "Tensor":
        value = _C._populated_tensor_type()
    elif name in _LAZY:
        import importlib
        value = getattr(importlib.import_module("cresset." + _LAZY[name]), name)
    elif name in _SUBMODULES:
        import importlib
        value = importlib.import_module("cresset." + name)
    else:
        value = _C._function(name)
    globals()[name] = value
    return value


def __dir__():
    shown = (full for full in _C._op_names() if full.startswith("aten::") and _C._shown(full, "function"))
    names = {full.partition("::")[2].partition(".")[0] for full in shown}
    return sorted(names | set(globals()) | set(_LAZY) | _SUBMODULES | {"Tensor"})


if "CRESSET_LOGS" in _os.environ:
    from cresset._dynamo import logs as _logs
    _logs.from_environment()
