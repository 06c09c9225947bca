"""A graph of torch's cut into parts: runs of nodes that the op table carries out, and between them nodes that torch
does (opaque: ops without a row, ops that write to their arguments, higher-order ops). The order of nodes stays.

A value that leaves its part and is a view is made again by torch, from the tensor it is a view of: so what shares
memory in torch shares it here. What a part cannot carry out after all (an error while it runs), torch does, too:
answers and exceptions are then torch's."""
from __future__ import annotations

import operator
from typing import Any, Callable

import torch
from torch import fx

from cresset import _C
from cresset._torch import crossing, targets
from cresset._torch.importer import PLAIN, Importer, attribute, is_tensor, refusal
from cresset._torch.targets import Unsupported

_OURS = {theirs: ours for ours, theirs in crossing.dtypes().items()}


# ---- what a node is ----

def viewed(node: fx.Node) -> fx.Node | None:
    """The value whose memory the node's result shares; None: its memory is its own."""
    if node.op != "call_function":
        return None
    if node.target is operator.getitem:
        parent = node.args[0]
        return parent if isinstance(parent, fx.Node) and viewed(parent) is not None else None
    place = targets.of(node.target).viewed
    given = _given(node, *place) if place is not None else None
    return given if isinstance(given, fx.Node) else None


def _given(node: fx.Node, at: int, name: str, default: Any = None) -> Any:
    return node.args[at] if at < len(node.args) else node.kwargs.get(name, default)


def draws(node: fx.Node) -> bool:
    target = targets.of(node.target)
    if target.dropout is None:
        return target.may_draw
    given = _given(node, *target.dropout)
    return not (isinstance(given, (int, float)) and given == 0)


def _is_plain(value: Any) -> bool:
    """Can a part take or give it?"""
    if is_tensor(value):
        return type(value) in PLAIN and refusal(value) is None
    if isinstance(value, (list, tuple)):
        return all(_is_plain(v) for v in value)
    return value is None or isinstance(value, (bool, int, float, torch.SymInt, torch.SymFloat, torch.SymBool))


# ---- parts ----

class Part:
    """Nodes in a row. `compiled` takes a list of the values of `inputs` and gives those of `results`."""

    def __init__(self, nodes: list[fx.Node]):
        self.nodes = nodes
        self.members = set(nodes)
        self.inputs: list[fx.Node] = []
        self.results: list[Any] = []
        self.replayed: list[fx.Node] = []
        self.compiled: Any = None
        self.generator = torch.default_generator if any(draws(n) for n in nodes) else None

    def find_results(self, wanted: set[fx.Node]) -> None:
        """wanted: the part's nodes that others use. Views among them are replayed, in the graph's order."""
        needed, replayed = set(), set()
        queue = list(wanted)
        while queue:
            node = queue.pop()
            if node not in self.members or node in needed or node in replayed:
                continue
            if viewed(node) is None:
                needed.add(node)
                continue
            replayed.add(node)
            queue += node.all_input_nodes
        self.results = [n for n in self.nodes if n in needed]
        self.replayed = [n for n in self.nodes if n in replayed]

    def find_inputs(self) -> None:
        seen: dict[fx.Node, None] = {}
        for node in self.nodes:
            for used in node.all_input_nodes:
                if used not in self.members:
                    seen[used] = None
        self.inputs = list(seen)


def _hint(size: Any, otherwise: int) -> int:
    if not isinstance(size, torch.SymInt):
        return size
    return int(size.node.hint) if size.node.has_hint() else otherwise


def _order(dtype: torch.dtype, sizes: tuple[Any, ...], strides: tuple[Any, ...]) -> tuple[Any, ...]:
    """(dtype, dimensions with the outermost in memory first): what a new tensor's layout is made from."""
    hints = [_hint(s, 1) for s in strides]
    lengths = [_hint(s, 2) for s in sizes]
    # a dimension of one element lies where it stands
    order = [d for d, length in enumerate(lengths) if length != 1]
    order.sort(key=lambda d: -hints[d])
    for d, length in enumerate(lengths):
        if length == 1:
            at = next((k for k, other in enumerate(order) if hints[other] <= hints[d] and other > d), len(order))
            order.insert(at, d)
    return (_OURS[dtype], *order)


def import_part(part: Part, given: set[fx.Node]) -> tuple[Any, ...]:
    """(graph, results as _TorchGraph takes them). given: results that only the backward pass gets."""
    importer = Importer(is_checked=True)
    inputs = [importer.input(n, n.meta["val"]) for n in part.inputs]
    for node in part.nodes:
        importer.call(node)
    results = []
    for i, node in enumerate(part.results):
        value = node.meta["val"]
        if not is_tensor(value):
            results.append(("number", i))
        elif node in given:
            results.append(("given", i))
        else:
            sizes, strides = tuple(value.shape), value.stride()
            fixed = {int}.issuperset(map(type, sizes + strides))
            results.append(("new", i, _order(value.dtype, sizes, strides)) + ((sizes, strides) if fixed else ()))
    return importer.finish(inputs, part.results), tuple(results)


# ---- the whole ----

class Plan:
    """What became of a graph module: `call`, and what `report` says."""

    def __init__(self, gm: fx.GraphModule, given: set[fx.Node], strict: bool):
        self.gm = gm
        self.strict = strict
        self.opaque: dict[str, int] = {}
        self.parts: list[Part] = []
        self.graphs: list[Any] = []
        self.nodes = 0
        self.given = given
        self.output = next(n for n in gm.graph.nodes if n.op == "output")
        self.constants: dict[fx.Node, Any] = {}
        self.crossing: dict[fx.Node, bool] = {}
        self.steps = self._cut()
        self.call = self._direct() or self._written()

    # -- cutting --

    def _reason(self, node: fx.Node, host: set[fx.Node]) -> str | None:
        if node.target is operator.getitem and isinstance(node.args[0], fx.Node):
            return "" if node.args[0] in host else None
        target = targets.of(node.target)
        if target.refusal is not None:
            return target.refusal
        for used in (node, *node.all_input_nodes):
            crosses = self.crossing.get(used)
            if crosses is None:
                crosses = self.crossing[used] = "val" in used.meta and _is_plain(used.meta["val"])
            if not crosses:
                return f"{target.name}: a value that cannot cross"
        return None

    def _cut(self) -> list[Any]:
        """Parts and nodes for torch, in order."""
        steps: list[Any] = []
        host: set[fx.Node] = set()
        for node in self.gm.graph.nodes:
            if node.op == "get_attr":
                self.constants[node] = value = attribute(self.gm, node.target)
                if isinstance(value, torch.Tensor):
                    node.meta.setdefault("val", value)
            elif node.op == "call_function":
                reason = self._reason(node, host)
                if reason is None:
                    if not steps or not isinstance(steps[-1], Part):
                        steps.append(Part([]))
                    steps[-1].nodes.append(node)
                    continue
                host.add(node)
                steps.append(node)
                self._note(reason)
            elif node.op not in ("placeholder", "output"):
                raise NotImplementedError(f"{node.op} {node.target}: only graphs of aten ops can be compiled")
        return self._settle(steps)

    def _note(self, reason: str) -> None:
        if not reason:
            return
        if self.strict:
            raise NotImplementedError(f"strict: {reason}")
        self.opaque[reason] = self.opaque.get(reason, 0) + 1

    def _settle(self, steps: list[Any]) -> list[Any]:
        """Inputs and results of all parts, which are then made; one that cannot be made is torch's."""
        settled: list[Any] = []
        for step in steps:
            if not isinstance(step, Part):
                settled.append(step)
                continue
            part = Part(step.nodes)
            part.find_inputs()
            part.find_results({n for n in part.nodes if not part.members.issuperset(n.users)})
            if not part.results:  # views alone, or nothing that anybody uses
                settled += part.replayed
                continue
            try:
                graph, results = import_part(part, self.given)
            except (Unsupported, NotImplementedError, ValueError, RuntimeError) as error:
                for node in part.nodes:
                    self._note(f"{targets.of(node.target).name}: {error}")
                settled += part.nodes
                continue
            part.graph, part.kinds = graph, results
            self.parts.append(part)
            self.nodes += len(part.nodes)
            settled += [part, *part.replayed]
        return settled

    # -- calling --

    def _direct(self) -> Any:
        """One part and nothing else is called without Python in between."""
        leaves = self.output.args[0]
        if len(self.steps) != 1 or len(self.parts) != 1 or not isinstance(leaves, (list, tuple)):
            return None
        part = self.parts[0]
        arguments = {n: i for i, n in enumerate(n for n in self.gm.graph.nodes if n.op == "placeholder")}
        constants = [n for n in part.inputs if n in self.constants]
        kinds: list[Any] = []
        seen = set()
        for leaf in leaves:
            if not isinstance(leaf, fx.Node):
                kinds.append(("object", leaf))
            elif leaf in seen or leaf in self.constants:
                return None
            elif leaf in arguments:
                kinds.append(("argument", arguments[leaf]))
            else:
                seen.add(leaf)
                kinds.append(part.kinds[part.results.index(leaf)])
        inputs = tuple(~constants.index(n) if n in self.constants else arguments[n] for n in part.inputs)
        part.compiled = _C._TorchGraph(part.graph, len(arguments), inputs, tuple(self.constants[n] for n in constants),
                                       tuple(kinds), part.generator, lambda args: list(self.gm(*args)))
        return part.compiled

    def _written(self) -> Callable[[list[Any]], list[Any]]:
        """A Python function that carries out the steps, written as text."""
        call = _Writer(self).function()
        call._plan = self  # as long as it is called
        return call

    def compile_part(self, part: Part) -> None:
        rows = tuple(range(len(part.inputs)))
        part.compiled = _C._TorchGraph(part.graph, len(rows), rows, (), part.kinds, part.generator,
                                       _Writer(self).alone(part))


class _Writer:
    """Writes steps as the text of a Python function: one name for each value, dropped after its last use."""

    def __init__(self, plan: Plan):
        self.plan = plan
        self.names: dict[Any, str] = {}
        self.globals: dict[str, Any] = {}
        self.lines: list[str] = []
        self.last: dict[fx.Node, int] = {}

    def name(self, node: fx.Node) -> str:
        if node in self.plan.constants and node not in self.names:
            self.names[node] = self.hold(self.plan.constants[node])
        return self.names.setdefault(node, f"v{len(self.names)}")

    def hold(self, value: Any) -> str:
        key = f"c{len(self.globals)}"
        self.globals[key] = value
        return key

    def text(self, value: Any) -> str:
        if isinstance(value, fx.Node):
            return self.name(value)
        if isinstance(value, slice):
            return f"slice({self.text(value.start)}, {self.text(value.stop)}, {self.text(value.step)})"
        if isinstance(value, tuple):
            return "(" + "".join(self.text(v) + ", " for v in value) + ")"
        if isinstance(value, list):
            return "[" + ", ".join(self.text(v) for v in value) + "]"
        if isinstance(value, dict):
            return "{" + ", ".join(f"{k!r}: {self.text(v)}" for k, v in value.items()) + "}"
        if value is None or type(value) in (bool, int, str):
            return repr(value)
        return self.hold(value)

    def call(self, node: fx.Node) -> str:
        args = [self.text(a) for a in node.args]
        args += [f"{k}={self.text(v)}" for k, v in node.kwargs.items()]
        return f"{self.name(node)} = {self.hold(node.target)}({', '.join(args)})"

    def assemble(self, inputs: list[fx.Node], lines: list[tuple[str, list[fx.Node]]], result: str,
                 kept: set[fx.Node]) -> Any:
        """lines: text and the values it uses."""
        last: dict[fx.Node, int] = {}
        for i, (_, used) in enumerate(lines):
            for node in used:
                last[node] = i
        text = ["def call(args):"]
        if inputs:
            text.append(f"    {''.join(self.name(n) + ', ' for n in inputs)} = args")
        text.append("    args.clear()")
        for i, (line, used) in enumerate(lines):
            text.append("    " + line)
            dead = sorted({self.name(n) for n in used if last[n] == i and n not in kept
                           and n not in self.plan.constants})
            if dead:
                text.append(f"    del {', '.join(dead)}")
        text.append(f"    return {result}")
        exec("\n".join(text), self.globals)
        call = self.globals["call"]
        call._boxed_call = True
        return call

    def alone(self, part: Part) -> Any:
        """The part, by torch."""
        made: list[Any] = []

        def run(args: list[Any]) -> list[Any]:
            if not made:
                lines = [(self.call(n), n.all_input_nodes) for n in part.nodes]
                result = "[" + ", ".join(self.name(n) for n in part.results) + "]"
                made.append(self.assemble(part.inputs, lines, result, set(part.results)))
            return made[0](args)
        return run

    def function(self) -> Any:
        plan = self.plan
        arguments = [n for n in plan.gm.graph.nodes if n.op == "placeholder"]
        lines: list[tuple[str, list[fx.Node]]] = []
        for step in plan.steps:
            if isinstance(step, Part):
                plan.compile_part(step)
                given = ", ".join(self.name(n) for n in step.inputs)
                results = "".join(self.name(n) + ", " for n in step.results)
                lines.append((f"{results} = {self.hold(step.compiled)}([{given}])", list(step.inputs)))
            else:
                lines.append((self.call(step), step.all_input_nodes))
        leaves = plan.output.args[0]
        kept = set(plan.output.all_input_nodes)
        result = self.text(list(leaves) if isinstance(leaves, (list, tuple)) else leaves)
        return self.assemble(arguments, lines, result, kept)
