"""`while_loop` where PyTorch programs import it from."""
from cresset._higher_order import while_loop

__all__ = ["while_loop"]
