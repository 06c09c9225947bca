"""`associative_scan` where PyTorch programs import it from."""
from cresset._higher_order import associative_scan

__all__ = ["associative_scan"]
