"""Switches of PyTorch's backends that programs set or read; none of these backends is there."""
import sys
import types


def _off(name, **extra):
    module = types.ModuleType(f"{__name__}.{name}", "A backend that is not there.")
    vars(module).update(enabled=False, is_available=lambda: False, is_built=lambda: False, **extra)
    sys.modules[module.__name__] = module  # `import cresset.backends.cudnn`
    return module


cudnn = _off("cudnn", benchmark=False, deterministic=True, allow_tf32=False, version=lambda: None)
cuda = _off("cuda", matmul=types.SimpleNamespace(allow_tf32=False, allow_fp16_reduced_precision_reduction=False,
                                                 allow_bf16_reduced_precision_reduction=False))
mkldnn = _off("mkldnn")
mkl = _off("mkl")
mps = _off("mps")
openmp = _off("openmp")


def _get_fastpath_enabled():
    """The fused path of attention layers: there is none, the layers are exact compositions."""
    return False


def _set_fastpath_enabled(value):
    if value:
        raise NotImplementedError("attention layers have no fused fast path")


mha = _off("mha", get_fastpath_enabled=_get_fastpath_enabled, set_fastpath_enabled=_set_fastpath_enabled)
