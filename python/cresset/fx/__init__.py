"""Graphs that Python passes and backends look at and edit, as `torch.fx` has them. See docs/compile.md."""
from cresset._lazy import names as _names

_WHERE = {"Graph": "graph", "GraphModule": "graph_module", "Interpreter": "interpreter", "Node": "node",
          "map_arg": "node", **dict.fromkeys(("Proxy", "Tracer", "symbolic_trace"), "proxy")}
__all__ = [*_WHERE, "experimental"]
__getattr__, __dir__ = _names(globals(), _WHERE, {"convert", "experimental", "graph", "graph_module", "interpreter",
                                                  "node", "proxy"})
