"""Where PyTorch has its control flow: `from cresset._higher_order_ops import while_loop`, `..._higher_order_ops.scan
import scan`."""
from cresset._higher_order_ops.associative_scan import associative_scan
from cresset._higher_order_ops.cond import cond
from cresset._higher_order_ops.map import map  # noqa: A004 - PyTorch's name
from cresset._higher_order_ops.scan import scan
from cresset._higher_order_ops.while_loop import while_loop

__all__ = ["associative_scan", "cond", "map", "scan", "while_loop"]
