"""Graph: an ordered list of nodes that passes edit.

    with graph.inserting_before(node):
        new = graph.call_function(cresset.ops.aten.gelu.default, node.args)
    node.replace_all_uses_with(new)
    graph.erase_node(node)
    graph.lint()
"""
from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from cresset.fx.node import OPS, Node, _shown, map_arg, target_text

__all__ = ["Graph"]


class _NodeList(Sequence):
    """The nodes of a graph, in order; what is put in or taken out while one walks over them shows."""

    def __init__(self, graph: Graph, backwards: bool = False):
        self._graph, self._backwards = graph, backwards

    def __len__(self) -> int:
        return self._graph._len

    def __iter__(self) -> Iterator[Node]:
        root = self._graph._root
        at = root._prev if self._backwards else root._next
        while at is not root:
            if not at._erased:
                yield at
            at = at._prev if self._backwards else at._next

    def __reversed__(self) -> Iterator[Node]:
        return iter(_NodeList(self._graph, not self._backwards))

    def __getitem__(self, i: Any) -> Any:
        return list(self)[i]


class _InsertPoint:
    """Where new nodes go, from now on or in a `with`."""

    def __init__(self, graph: Graph, insert: Callable[[Node], None]):
        self._graph, self._before = graph, graph._insert
        graph._insert = insert

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: Any) -> None:
        self._graph._insert = self._before


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()


class Graph:
    """Nodes in order. Names are unique in it."""

    def __init__(self, owning_module: Any = None, tracer_cls: type | None = None):
        self.owning_module, self._tracer_cls = owning_module, tracer_cls
        self._root = Node(self, "", "root", "", (), {})
        self._insert: Callable[[Node], None] = self._root.prepend
        self._len = self._edits = 0
        self._names: dict[str, int] = {}  # every name that was given, and the last number behind it

    def _changed(self) -> None:
        self._edits += 1

    # ---- reading ----

    @property
    def nodes(self) -> _NodeList:
        return _NodeList(self)

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)

    def output_node(self) -> Node:
        return next(iter(self.find_nodes(op="output")))

    def find_nodes(self, *, op: str, target: Any = None, sort: bool = True) -> list[Node]:
        # unused sort: they are in order either way
        return [node for node in self.nodes if node.op == op and (target is None or node.target == target)]

    def __str__(self) -> str:
        return "\n".join(["graph():", *("    " + node.format_node() for node in self.nodes)])

    __repr__ = __str__

    def print_tabular(self) -> None:
        rows = [("opcode", "name", "target", "args", "kwargs")] + [
            (n.op, n.name, target_text(n.target), _shown(n.args, ""), _shown(n.kwargs, "")) for n in self.nodes]
        widths = [max(len(row[i]) for row in rows) for i in range(4)]
        for row in rows:
            print("  ".join([*(text.ljust(width) for text, width in zip(row, widths)), row[4]]))

    # ---- making nodes ----

    def _name(self, wish: str) -> str:
        """A name for a new node: the wish, or with a number behind it."""
        wish = re.sub(r"[^0-9a-zA-Z_]+", "_", wish) or "_unnamed"
        wish = f"_{wish}" if wish[0].isdigit() else wish
        stem = re.fullmatch(r"(.*)_(\d+)", wish)
        stem, number = (stem[1], int(stem[2])) if stem else (wish, 0)
        name = wish
        while name in self._names or keyword.iskeyword(name) or hasattr(builtins, name):
            number = max(self._names.get(stem, 0), number) + 1
            name = f"{stem}_{number}"
            self._names[stem] = max(self._names.get(stem, 0), number)
        return name

    def _wish(self, op: str, target: Any) -> str:
        if callable(target):
            return _snake(getattr(target, "__name__", type(target).__name__))
        return _snake(target.lstrip("*") if op == "placeholder" else target)

    def create_node(self, op: str, target: Any, args: tuple[Any, ...] | None = None,
                    kwargs: dict[str, Any] | None = None, name: str | None = None, type_expr: Any = None) -> Node:
        if op not in OPS:
            raise AssertionError(f"there is no op {op!r}: there are {', '.join(OPS)}")
        return self._put(op, self._name(name if name is not None else self._wish(op, target)), target, args or (),
                         kwargs or {}, type_expr=type_expr)

    def _put(self, op: str, name: str, target: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None,
             meta: dict[str, Any] | None = None, type_expr: Any = None) -> Node:
        node = Node(self, name, op, target, args, kwargs or {}, type_expr, meta)
        self._names.setdefault(name, 0)
        self._insert(node)
        self._len += 1
        return node

    def placeholder(self, name: str, type_expr: Any = None, default_value: Any = ...) -> Node:
        """An input; default_value: what it is where a call leaves it out."""
        return self.create_node("placeholder", name, () if default_value is ... else (default_value,),
                                type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr: Any = None) -> Node:
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_function(self, the_function: Callable[..., Any], args: tuple[Any, ...] | None = None,
                      kwargs: dict[str, Any] | None = None, type_expr: Any = None, name: str | None = None) -> Node:
        return self.create_node("call_function", the_function, args, kwargs, name, type_expr)

    def call_method(self, method_name: str, args: tuple[Any, ...] | None = None, kwargs: dict[str, Any] | None = None,
                    type_expr: Any = None) -> Node:
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_module(self, module_name: str, args: tuple[Any, ...] | None = None, kwargs: dict[str, Any] | None = None,
                    type_expr: Any = None) -> Node:
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def output(self, result: Any, type_expr: Any = None) -> Node:
        return self.create_node("output", "output", (result,), type_expr=type_expr)

    def node_copy(self, node: Node, arg_transform: Callable[[Node], Any] = lambda node: node) -> Node:
        """A node of another graph in this one; the function gives what stands for each node that it uses."""
        copied = self.create_node(node.op, node.target, map_arg(node.args, arg_transform),
                                  map_arg(node.kwargs, arg_transform), node.name, node.type)
        copied.meta = dict(node.meta)
        return copied

    def graph_copy(self, g: Graph, val_map: dict[Node, Node], return_output_node: bool = False) -> Any:
        """Copies the nodes that val_map has not yet. What g returns, by nodes of this graph; None without output."""
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                result = map_arg(node.args[0], val_map.__getitem__)
                return (result, node) if return_output_node else result
            val_map[node] = self.node_copy(node, val_map.__getitem__)
        return None

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Graph:
        made = Graph(tracer_cls=self._tracer_cls)
        copies: dict[Node, Node] = {}
        result = made.graph_copy(self, copies, return_output_node=True)
        if result is not None:
            made.output(result[0], result[1].type).meta = dict(result[1].meta)
        return made

    # ---- editing ----

    def inserting_before(self, n: Node | None = None) -> _InsertPoint:
        """New nodes go in front of n; None: of everything."""
        if n is None:
            return self.inserting_after(self._root)
        self._own(n)
        return _InsertPoint(self, n.prepend)

    def inserting_after(self, n: Node | None = None) -> _InsertPoint:
        """New nodes go behind n, the last first; None: behind everything."""
        if n is None:
            return self.inserting_before(self._root)
        self._own(n)
        return _InsertPoint(self, n.append)

    def _own(self, node: Node) -> None:
        if node.graph is not self:
            raise AssertionError(f"{node.name} is not a node of this graph")

    def erase_node(self, to_erase: Node) -> None:
        if to_erase.users:
            raise RuntimeError(f"Tried to erase Node {to_erase} but it still had {len(to_erase.users)} users in the "
                               f"graph: {to_erase.users}: replace_all_uses_with() first")
        if to_erase.graph is not self:
            raise RuntimeError(f"erase_node(): {to_erase} is of another graph")
        if to_erase._erased:
            raise RuntimeError(f"erase_node(): {to_erase} was erased before")
        to_erase.args, to_erase.kwargs = (), {}
        to_erase._unlink()
        to_erase._erased = True
        self._len -= 1

    def eliminate_dead_code(self, is_impure_node: Callable[[Node], bool] | None = None) -> bool:
        """Erases what nobody uses and does nothing else. Was there any?"""
        before = self._len
        for node in reversed(self.nodes):
            impure = node.op == "output" or (is_impure_node(node) if is_impure_node else node.is_impure())
            if not node.users and not impure:
                self.erase_node(node)
        return self._len < before

    def lint(self) -> None:
        """RuntimeError naming the node that is wrong: names that are there twice, nodes of other graphs, erased ones,
        or later ones as arguments, attributes that the module does not have, nodes behind the output."""
        seen: set[Node] = set()
        names: set[str] = set()
        last = None
        for node in self.nodes:
            if node.op not in OPS:
                raise RuntimeError(f"Node {node} has an unknown opcode {node.op}")
            if node.name in names:
                raise RuntimeError(f"Node redefined name {node.name}!")
            if last is not None and last.op == "output":
                raise RuntimeError(f"Node {node} is behind the output node")
            for used in node.all_input_nodes:
                if used not in seen:
                    why = ("of another graph" if used.graph is not self else
                           "erased" if used._erased else "used before it has been defined")
                    raise RuntimeError(f"Argument '{used}' of Node '{node}' was {why}! Please check that Nodes in the "
                                       f"graph are topologically ordered\n{self}")
            self._lint_target(node)
            seen.add(node)
            names.add(node.name)
            last = node

    def _lint_target(self, node: Node) -> None:
        if node.op == "call_function":
            if not callable(node.target):
                raise ValueError(f"Node {node} target {node.target!r} must be a function, for a call_function")
        elif not isinstance(node.target, str):
            raise ValueError(f"Node {node} target {node.target!r} must be a str, for a {node.op}")
        if node.op not in ("get_attr", "call_module") or self.owning_module is None:
            return
        at = self.owning_module
        for part in node.target.split("."):
            if not hasattr(at, part):
                raise RuntimeError(f"Node {node} target {node.target} references nonexistent attribute {part} of "
                                   f"{type(at).__name__}")
            at = getattr(at, part)

    def python_code(self, root_module: str = "self", *, verbose: bool = False) -> Any:
        """`src` and `globals`: the function forward() as text, and the names it needs. verbose: with the types of
        values, and the lines they come from."""
        from cresset.fx.code import python_code
        return python_code(self, root_module, verbose)

    def process_inputs(self, *args: Any) -> Iterable[Any]:
        return args

    def process_outputs(self, out: Any) -> Any:
        return out
