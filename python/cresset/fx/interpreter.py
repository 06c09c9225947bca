"""Interpreter: runs a graph node by node; subclasses change what a node does."""
from __future__ import annotations

from typing import Any

from cresset import _C
from cresset.fx.node import Node, map_aggregate, map_arg

__all__ = ["Interpreter"]


class Interpreter:
    """run(*args) gives what the module gives. placeholder(), get_attr(), call_function(), call_method(),
    call_module(), output() each do one kind of node, with (target, args, kwargs); run_node(n) any."""

    def __init__(self, module: Any, garbage_collect_values: bool = True, graph: Any = None):
        self.module, self.graph = module, module.graph if graph is None else graph
        self.garbage_collect_values = garbage_collect_values
        self.env: dict[Node, Any] = {}
        self.args_iter: Any = iter(())

    def _last_uses(self) -> dict[Node, list[Node]]:
        from cresset.fx.code import _last_uses
        return _last_uses(self.graph) if self.garbage_collect_values else {}

    def run(self, *args: Any, initial_env: dict[Node, Any] | None = None, enable_io_processing: bool = True) -> Any:
        """initial_env: values of nodes that are not to be run."""
        self.env = dict(initial_env or {})
        self.args_iter = iter(self.graph.process_inputs(*args) if enable_io_processing else args)
        last = self._last_uses()
        for node in self.graph.nodes:
            if node not in self.env:
                self.env[node] = self._run_named(node)
            for used in last.get(node, ()):
                self.env.pop(used, None)
            if node.op == "output":
                result = self.env[node]
                return self.graph.process_outputs(result) if enable_io_processing else result
        return None

    def _run_named(self, node: Node) -> Any:
        try:
            if node.meta.get("no_grad"):
                from cresset import no_grad
                with no_grad():
                    return self.run_node(node)
            return self.run_node(node)
        except Exception as error:
            where = f"\n{node.stack_trace}" if node.stack_trace else ""
            error.add_note(f"While executing {node.format_node()}{where}")
            raise

    def run_node(self, n: Node) -> Any:
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        return getattr(self, n.op)(n.target, args, kwargs)

    def placeholder(self, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        # unused kwargs: placeholders have none
        if target.startswith("*"):
            return list(self.args_iter)
        try:
            return next(self.args_iter)
        except StopIteration:
            if args:
                return args[0]
            raise RuntimeError(f"Expected positional argument for parameter {target}, but one was not passed in!") \
                from None

    def get_attr(self, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        # unused args, kwargs: such nodes have none
        return self.fetch_attr(target)

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if isinstance(target, _C.OpOverload) and target.namespace == "higher_order":
            args, kwargs = (map_aggregate(given, _graph_of) for given in (args, kwargs))
        return target(*args, **kwargs)

    def call_method(self, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        itself, *rest = args
        return getattr(itself, target)(*rest, **kwargs)

    def call_module(self, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self.fetch_attr(target)(*args, **kwargs)

    def output(self, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        # unused target, kwargs: what is returned is the one argument
        return args[0]

    def fetch_attr(self, target: str) -> Any:
        at = self.module
        for i, part in enumerate(target.split(".")):
            if not hasattr(at, part):
                raise RuntimeError(f"Node referenced nonexistent target {'.'.join(target.split('.')[:i + 1])}")
            at = getattr(at, part)
        return at

    def fetch_args_kwargs_from_env(self, n: Node) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return self.map_nodes_to_values(n.args, n), self.map_nodes_to_values(n.kwargs, n)

    def map_nodes_to_values(self, args: Any, n: Node) -> Any:
        def value(node: Node) -> Any:
            if node not in self.env:
                raise RuntimeError(f"Node {n} referenced nonexistent value {node}! Run Graph.lint() to diagnose such "
                                   "issues")
            return self.env[node]
        return map_arg(args, value)


def _graph_of(value: Any) -> Any:
    """Regions take the graph of a module that shows one."""
    return value.to_graph() if hasattr(value, "to_graph") else value
