"""Switches of PyTorch's backends that programs set or read; none of these backends is there."""
import types


def _off(name, **extra):
    module = types.SimpleNamespace(enabled=False, is_available=lambda: False, **extra)
    module.__name__ = f"cresset.backends.{name}"
    return module


cudnn = _off("cudnn", benchmark=False, deterministic=True, allow_tf32=False, version=lambda: None)
cuda = _off("cuda", matmul=types.SimpleNamespace(allow_tf32=False, allow_fp16_reduced_precision_reduction=False,
                                                 allow_bf16_reduced_precision_reduction=False))
mkldnn = _off("mkldnn")
mkl = _off("mkl")
mps = _off("mps", is_built=lambda: False)
openmp = _off("openmp")


class mha:
    """The fused path of attention layers: there is none, the layers are exact compositions."""

    @staticmethod
    def get_fastpath_enabled():
        return False

    @staticmethod
    def set_fastpath_enabled(value):
        if value:
            raise NotImplementedError("attention layers have no fused fast path")
