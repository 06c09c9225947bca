"""`scan` where PyTorch programs import it from."""
from cresset._higher_order import scan

__all__ = ["scan"]
