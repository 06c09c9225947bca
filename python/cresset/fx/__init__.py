"""Names that PyTorch programs import from `torch.fx`."""
from cresset.fx import experimental

__all__ = ["experimental"]
