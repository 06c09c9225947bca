"""Names that PyTorch programs import from `torch.fx.experimental`."""
from cresset._lazy import names as _names

__all__ = ["proxy_tensor", "symbolic_shapes"]
__getattr__, __dir__ = _names(globals(), {}, set(__all__))
