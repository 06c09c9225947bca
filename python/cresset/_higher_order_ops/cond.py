"""`cond` where PyTorch programs import it from."""
from cresset._higher_order import cond

__all__ = ["cond"]
