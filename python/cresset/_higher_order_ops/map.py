"""`map` where PyTorch programs import it from."""
from cresset._higher_order import map  # noqa: A004 - PyTorch's name

__all__ = ["map"]
