"""Names that PyTorch programs import from `torch.fx.experimental`."""
from cresset.fx.experimental import symbolic_shapes

__all__ = ["symbolic_shapes"]
