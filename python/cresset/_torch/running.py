"""Captured graphs of torch programs, run on torch's tensors.

A graph computes on memory where it lies; its results are torch's own memory. What the program did beside computing
torch does again, on the caller's tensors: results that are views are taken of the input or result they are views of,
and new values of inputs that were written are copied into them. Gradients go through an autograd.Function whose forward
and backward are the two halves of the differentiated graph.

A call has two halves. `run(*inputs)` computes and touches nothing of the caller's, but that its code may write new
values of inputs as the last thing it does: where it fails the call runs plain. `finish(what run gave, *inputs)`, of
graphs that write alone, writes; what it raises is the caller's."""
from __future__ import annotations

import gc
import math
from typing import Any, Callable, Iterable

import torch

import cresset
from cresset import _C
from cresset._torch import crossing


class Shape:
    """A recorded graph by names: values (its results as `nodes` shows them), inputs, outputs (None: no value)."""

    def __init__(self, graph: Any, nodes: Any = None):
        self.values: dict[str, dict[str, Any]] = {}
        self.inputs: list[str] = []
        self.outputs: list[str | None] = []
        self.written: dict[str, int] = {}      # memory -> how often it is written
        self.made: dict[str, dict[str, Any]] = {}   # value -> the node that gives it
        self.loud: set[str] = set()            # values that nodes use which were recorded with gradients on
        self.objects: dict[str, str] = {}      # value -> the one that is the same object, before it was written to
        self.input_set: set[str] = set()
        self.split_writes = False              # is one of several views of a call (unbind) written, with gradients on?
        self.varies = False                    # do sizes differ from call to call?
        for node in graph.nodes if nodes is None else nodes:
            if node["kind"] == "output":
                self.outputs = [arg.get("as_value") for arg in node["args"]]
            elif not node["no_grad"]:
                self.loud.update(values_in(node["args"]))
            for result in node["results"]:
                self.values[result["name"]] = result
                self.varies |= "meta" in result and any(type(n) is str for n in result["meta"]["sizes"])
                self.made[result["name"]] = node
                if node["kind"] == "placeholder":
                    self.inputs.append(result["name"])
                    self.input_set.add(result["name"])
            for result in node["results"]:
                if result.get("writes"):
                    self._note_write(node, result)

    def _note_write(self, node: dict[str, Any], result: dict[str, Any]) -> None:
        memory = result["of"] or result["name"]
        before, after = self.values[memory]["meta"], result["meta"]
        if result["of"] == memory and memory in self.inputs and before["dtype"] != after["dtype"]:
            raise NotImplementedError("the program changes the dtype of a tensor in place")
        given = next((arg["arg"] for arg in node["args"] if arg["name"] == result["writes"]), None)
        name = given.get("as_value") if isinstance(given, dict) else None
        if name is not None:
            self._note_object(node, result, name)
        if node["target"] != "aten.detach_":  # which counts as no write
            self.written[memory] = self.written.get(memory, 0) + 1

    def _note_object(self, node: dict[str, Any], after: dict[str, Any], name: str) -> None:
        """The tensor that a call wrote to; it may return it, too."""
        before, written = self.values[name]["meta"], self.object(name)
        same = [r for r in node["results"] if r is after or (not r["hidden"] and r.get("of") == after["of"]
                                                             and r.get("meta") == after["meta"])]
        self.objects.update((r["name"], written) for r in same)
        changed = any(before[k] != after["meta"][k] for k in ("sizes", "strides", "offset"))
        if changed and written in (*self.inputs, self.memory(written)):
            raise NotImplementedError("the program changes the sizes or strides of a tensor in place")
        if node["target"] == "aten.detach_" and (written in self.inputs or written != self.memory(written)):
            raise NotImplementedError("the program takes the history of an input or a view away in place")
        self.split_writes |= not node["no_grad"] and self.split_of(name) is not None

    def object(self, name: str) -> str:
        return self.objects.get(name, name)

    def memory(self, name: str) -> str:
        return self.values[name].get("of") or name

    def is_column(self, memory: str) -> bool:
        """Is it one of several results of a call that lie side by side, none of them showing the memory of all: those
        of where(c)?"""
        return any(self.memory(result["name"]) == memory and result["name"] != memory
                   for result in self.made[memory]["results"] if result["listed"])

    def is_number(self, name: str) -> bool:
        return self.values[name]["type"] in ("int", "float", "bool")

    def detached(self, name: str) -> str | None:
        """The last detach() on the way from memory to a view of it, which is what the view shows as its base."""
        return next((n for n in self._way(name) if self.made[n]["target"] == "aten.detach"), None)

    def split_of(self, name: str) -> str | None:
        """The last of several views of one tensor that one call gave on that way: PyTorch refuses to write to one while
        gradients are recorded. (Of several tensors, as broadcast_tensors() takes them, each is a view by itself.)"""
        return next((n for n in self._way(name) if self.values[n]["listed"] and self._is_split(self.made[n])), None)

    @staticmethod
    def _is_split(node: dict[str, Any]) -> bool:
        first = node["args"][0]["arg"] if node["args"] else None
        return isinstance(first, dict) and first.get("as_value") is not None

    def source(self, name: str) -> str:
        """What a view was taken of."""
        memory = self.memory(name)
        return next((n for n in values_in(self.made[name]["args"]) if self.memory(n) == memory), memory)

    def _way(self, name: str) -> Iterable[str]:
        """A view, what it was taken of, what that was taken of, ... not the memory itself."""
        while self.values[name]["of"]:
            yield name
            name = self.source(name)


def values_in(arg: Any) -> list[str]:
    """Values in arguments, lists of them included."""
    if isinstance(arg, list):
        return [name for item in arg for name in values_in(item)]
    if not isinstance(arg, dict):
        return []
    return [arg["as_value"]] if arg.get("as_value") is not None else [n for v in arg.values() for n in values_in(v)]


class Sizes:
    """Numbers that differ from call to call, by the texts of their expressions, and those that the program gets, which
    are outputs of the graph (by their place): the code gives each once a call, behind its results."""

    def __init__(self) -> None:
        self.texts: list[str | int] = []

    def number(self, size: int | str) -> Any:
        """An int; or a list of where it is among the numbers of a call."""
        return size if isinstance(size, int) else self.place_of(size)

    def place_of(self, row: str | int) -> list[int]:
        if row not in self.texts:
            self.texts.append(row)
        return [self.texts.index(row)]

    def numbers(self, sizes: Iterable[int | str]) -> tuple[Any, ...]:
        return tuple(self.number(n) for n in sizes)

    def place(self, meta: dict[str, Any]) -> tuple[Any, ...]:
        return self.numbers(meta["sizes"]), self.numbers(meta["strides"]), self.number(meta["offset"])

    def rows(self) -> list[tuple[Any, ...]]:
        return [("size", row) if isinstance(row, str) else ("number", row) for row in self.texts]


def _now(place: Any, numbers: Any) -> Any:
    """A place, or something of one, in this call."""
    if type(place) is tuple:
        return tuple([_now(part, numbers) for part in place])
    return numbers[place[0]] if type(place) is list else place


def _new(at: int, meta: dict[str, Any]) -> tuple[Any, ...]:
    """A result that is new memory, as _TorchGraph takes it: the texts of sizes that differ from call to call."""
    return ("new", at, (getattr(cresset, meta["dtype"]), *range(len(meta["sizes"]))), tuple(meta["sizes"]),
            tuple(meta["strides"]))


def _compile(graph: Any, ninputs: int, results: Iterable[tuple[Any, ...]], native: int,
             written: tuple[int, ...] = (), weights: tuple[int, ...] = (), examples: tuple[Any, ...] = ()) -> Any:
    made = _C._TorchGraph(graph, ninputs, tuple(range(ninputs)), (), tuple(results),
                          torch.default_generator if _C._graph_draws(graph) else None, None, written)
    if native:
        made._build(graph, False, native, weights, examples)
    return made


class Plan:
    """What is done with a graph: `code` gives its own results; `outputs` says what each output of the program is.

    ("result", k) of the code's; ("input", i) itself; ("number", where it is behind the results); ("view", "input" or
    "result", k, place, the detach() it is a view of with that one's place, or None, keeps its history?, how it is
    taken). A place: sizes, strides, offset.
    `weights`: inputs that native code may be made with, as the examples are."""

    def __init__(self, graph: Any, examples: tuple[Any, ...], records: bool, native: int,
                 weights: Iterable[int] = (), nodes: Any = None):
        self.shape = shape = Shape(graph, nodes)
        self.given = len(shape.outputs)  # what the program gets; behind it, what some of that are views of
        self._check_kinds()
        if shape.varies:
            _C._check_layouts(graph, examples)
        self._check_quiet_views(examples, records)
        roots = self._shared_roots()
        if roots:
            graph = _C._graph_giving(graph, roots)
            shape.outputs += roots
        self.native = native
        records = records and not self._is_quiet()
        self.wanted = [i for i, t in enumerate(examples) if records and isinstance(t, torch.Tensor) and t.requires_grad]
        try:
            form = _C._functional_form(graph, bool(self.wanted))
        except RuntimeError as error:
            raise NotImplementedError(f"what the program writes has no functional form: {error}") from None
        self.graph, self.mutated = form or (graph, ())
        self.recorded = graph
        self._check_writes(examples)
        self.examples = examples if weights else ()
        self.weights = tuple(i for i in weights if i not in self.mutated)
        self.functional = Shape(self.graph) if form else shape
        self.live: set[int] = set()
        if self.wanted:
            wrt = tuple(i in set(self.wanted) for i in range(len(examples)))
            self.live = set(_C._differentiate(self.graph, wrt, None)[3])
        self.kept: list[int] = []       # outputs of the functional graph that are the code's results
        self.sizes = Sizes()            # of views; behind the results
        self.objects = [shape.object(name) for name in shape.outputs]
        self.outputs = [self._output(k) for k in range(self.given)]
        written = [(k, shape.written.get(shape.memory(shape.outputs[at]), 0)) for k, at in enumerate(self.kept)]
        self.result_bumps = [(k, n) for k, n in written if n]
        self.new_values = [self._keep(len(shape.outputs) + k) for k in range(len(self.mutated))]
        # versions go up as often as the program writes; statistics of batch norm are written without
        self.bumps = [shape.written.get(shape.inputs[i], 0) for i in self.mutated]
        self.histories = [len(shape.outputs) + k in self.live for k in range(len(self.mutated))]
        self.direct: set[int] = set()   # inputs that the code writes to itself

    # ---- what outputs are ----

    def _check_kinds(self) -> None:
        for name in self.shape.outputs:
            if name is None or not (self.shape.is_number(name) or self.shape.values[name]["type"] == "tensor"):
                raise NotImplementedError("an output of the graph is neither a tensor nor a number")

    def _is_quiet(self) -> bool:
        """All of it is under no_grad(), and nothing that it gives shows an input: leaves may be written, as optimizers
        do, and no result has a history."""
        shape = self.shape
        return not shape.loud and all(shape.memory(name) not in shape.inputs for name in shape.outputs)

    def _check_quiet_views(self, examples: tuple[Any, ...], records: bool) -> None:
        """A view taken under no_grad() of what has a history requires grad in PyTorch and is a leaf of its own. Only
        such views of inputs are taken again, and only where nothing with gradients uses them."""
        shape = self.shape
        still = {n for n, t in zip(shape.inputs, examples) if not isinstance(t, torch.Tensor) or not t.requires_grad}
        quiet = [n for n, made in shape.made.items() if records and made["no_grad"] and shape.values[n].get("of")
                 and not shape.values[n].get("writes") and shape.memory(n) not in still and not shape.detached(n)]
        for name in quiet:
            if name in shape.loud or (name in shape.outputs and shape.memory(name) not in shape.inputs):
                raise NotImplementedError("a view taken under no_grad() is used where gradients are recorded")

    def _shared_roots(self) -> tuple[str, ...]:
        """Memory that outputs are views of, and that is no output itself. Of what a single output shows a part of the
        rest is not kept: that output is memory of its own."""
        shape = self.shape
        views: dict[str, set[str]] = {}
        for name in shape.outputs:
            if not shape.is_number(name):
                views.setdefault(shape.memory(name), set()).add(shape.object(name))
        return tuple(m for m, seen in views.items() if m not in seen and m not in shape.inputs
                     and not shape.is_column(m) and (len(seen) > 1 or self._shows_all(*seen, m)))

    def _shows_all(self, name: str, memory: str) -> bool:
        """Is it a view of all elements, whose base PyTorch would show?"""
        view, whole = self.shape.values[name]["meta"], self.shape.values[memory]["meta"]
        numbers = [*view["sizes"], *whole["sizes"]]
        return (all(type(n) is int for n in numbers) and math.prod(view["sizes"]) == math.prod(whole["sizes"])
                and all(view[k] == whole[k] for k in ("dtype", "conj", "neg")) and not self.shape.detached(name))

    def _check_writes(self, examples: tuple[Any, ...]) -> None:
        if self.shape.split_writes and self.wanted:
            raise NotImplementedError("the program writes to one of several views of a call (unbind, split)")
        for i in self.mutated:
            t = examples[i]
            if t.is_leaf and t.requires_grad and self.wanted:
                raise NotImplementedError("the program writes to a leaf that requires grad")
            if t._is_view() and self.wanted:
                raise NotImplementedError("the program writes to a view, while gradients are recorded")
            if any(s == 0 and n > 1 for s, n in zip(t.stride(), t.shape)):
                raise NotImplementedError("the program writes to an expanded tensor")

    def _keep(self, output: int) -> int:
        if output not in self.kept:
            self.kept.append(output)
        return self.kept.index(output)

    def _output(self, k: int) -> tuple[Any, ...]:
        shape = self.shape
        name = shape.outputs[k]
        if shape.is_number(name):
            return ("number", self.sizes.place_of(k))
        memory, objects = shape.memory(name), self.objects
        value, whole = shape.values[name], shape.values[memory]
        if objects[k] in shape.inputs:
            return ("input", shape.inputs.index(objects[k]))
        if objects[k] in objects[:k]:
            return self._output(objects.index(objects[k]))
        if shape.is_column(memory):
            return self._column(k, memory)
        if objects[k] == memory:
            return ("result", self._keep(k))
        same = value["meta"]["dtype"] == whole["meta"]["dtype"]
        lazy = value["meta"]["conj"] or value["meta"]["neg"]
        if memory in shape.inputs:
            if not same or lazy:
                raise NotImplementedError("an output is a view of an input that is not taken again")
            return self._view("input", shape.inputs.index(memory), value["meta"], k)
        others = {o for o in objects if shape.memory(o) == memory and o != objects[k]}
        if lazy:
            raise NotImplementedError("an output has a minus or conjugation to be carried out")
        if not others:
            return ("result", self._keep(k))   # nobody sees what it is a view of
        if memory in others and same:
            return self._view("result", self._keep(objects.index(memory)), value["meta"], k)
        raise NotImplementedError("several outputs are views of one tensor that is none of them")

    def _column(self, k: int, memory: str) -> tuple[Any, ...]:
        """Each column is memory of its own, as a part of what nobody else sees is."""
        shape = self.shape
        for name in self.objects:
            if shape.memory(name) == memory and (shape.made[name] is not shape.made[memory] or memory in shape.written):
                raise NotImplementedError("an output is a view of, or writes to, one of several results on one memory")
        return ("result", self._keep(k))

    def _view(self, kind: str, at: int, meta: dict[str, Any], k: int) -> tuple[Any, ...]:
        shape, name = self.shape, self.shape.outputs[k]
        detach = shape.detached(name)
        through = (detach, *self.sizes.place(shape.values[detach]["meta"])) if detach else None
        history = not self.wanted or k in self.live
        whole = shape.values[shape.memory(name)]["meta"]
        part = shape.split_of(name) if self.wanted and history and not detach else None
        how = _split_again(shape, part, meta) if part else _cheap_view(whole, meta) if kind == "result" else None
        return ("view", kind, at, self.sizes.place(meta), through, history, how)

    # ---- code ----

    def results(self, shape: Shape) -> list[tuple[Any, ...]]:
        """Laid out as the program has them: the functional form of a write may lay them out otherwise."""
        own = self.shape
        return [_new(at, own.values[own.outputs[at]]["meta"] if at < len(own.outputs)
                     else shape.values[shape.outputs[at]]["meta"]) for at in self.kept]

    def inference(self) -> Any:
        """Code whose new values of inputs are written by itself, as its last act, where no history is recorded and they
        are no inputs themselves (which others may be written into)."""
        rows = self.results(self.functional)
        for i, k, history in zip(self.mutated, self.new_values, self.histories):
            name = self.functional.outputs[self.kept[k]]
            if not history and self.functional.memory(name) not in self.functional.input_set:
                rows[k] = ("into", self.kept[k], i)
                self.direct.add(i)
        rows += self.sizes.rows()
        code = _compile(self.graph, len(self.shape.inputs), rows, self.native, self.mutated, self.weights,
                        self.examples)
        self.examples = ()
        return code

    def is_plain(self) -> bool:
        """Are the code's results the outputs?"""
        if self.mutated or self.result_bumps or self.sizes.texts:
            return False
        return self.outputs == [("result", k) for k in range(len(self.kept))]


def _take(base: torch.Tensor, place: tuple[Any, ...]) -> torch.Tensor:
    sizes, strides, offset = place
    return base.as_strided(sizes, strides, base.storage_offset() + offset)


def _split_again(shape: Shape, part: str, meta: dict[str, Any]) -> Callable[[torch.Tensor], torch.Tensor] | None:
    """One of several views of a call, by that call: PyTorch knows it as such, and refuses to write to it. None: sizes
    differ from call to call."""
    if shape.varies:
        return None
    node, source = shape.made[part], _place(shape.values[shape.source(part)]["meta"])
    at = next(k for k, result in enumerate(node["results"]) if result["name"] == part)
    space, name, *overload = node["target"].split(".")
    op = getattr(getattr(getattr(torch.ops, space), name), overload[0] if overload else "default")
    args = [_constant(arg["arg"]) for arg in node["args"][1:]]
    first, place = _place(shape.values[part]["meta"]), _place(meta)
    offset = place[2] - first[2]

    def take(base: torch.Tensor) -> torch.Tensor:
        found = op(_take(base, source), *args)[at]
        return found if place == first else _take(found, (place[0], place[1], offset))
    return take


def _place(meta: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(meta["sizes"]), tuple(meta["strides"]), meta["offset"]


def _constant(arg: dict[str, Any]) -> Any:
    kind, value = next(iter(arg.items()))
    if kind == "as_list":
        return [_constant(item) for item in value]
    if kind not in ("as_int", "as_ints"):
        raise NotImplementedError("one of several views of a call is given, whose arguments are computed")
    return value


def _cheap_view(whole: dict[str, Any], meta: dict[str, Any]) -> Callable[[torch.Tensor], torch.Tensor] | None:
    """A view of all elements by the call that costs least in a walk back; None: as_strided() it is."""
    sizes, strides = tuple(meta["sizes"]), tuple(meta["strides"])
    axes = list(zip(whole["sizes"], whole["strides"]))
    if not all(type(n) is int for n in (*sizes, *strides, *whole["sizes"])) or math.prod(sizes) != math.prod(
            whole["sizes"]) or meta["offset"] != whole["offset"]:
        return None
    if sorted(axes) == sorted(zip(sizes, strides)) and len(set(axes)) == len(axes):
        order = [axes.index(axis) for axis in zip(sizes, strides)]
        return lambda base: base.permute(order)
    return (lambda base: base.view(sizes)) if _is_dense(axes) and _is_dense(list(zip(sizes, strides))) else None


def _is_dense(axes: list[tuple[int, int]]) -> bool:
    step = 1
    for size, stride in reversed(axes):
        if stride != step or size == 0:
            return False
        step *= size
    return True


def _views(plan: Plan) -> Callable[[Any, Any], list[Any]]:
    """What makes the outputs of the inputs and the code's results."""
    nresults, varies = len(plan.kept), bool(plan.sizes.texts)

    def view(inputs: Any, results: Any, detached: dict[str, Any], row: tuple[Any, ...]) -> Any:
        kind, at, place, through, history, how = _now(row, results[nresults:]) if varies else row
        base = (inputs if kind == "input" else results)[at]
        if through:  # others may be views of the same
            name, *whole = through
            first = detached.get(name)
            if first is None:
                first = detached[name] = _take(base, tuple(whole)).detach()
            if place == tuple(whole):
                return first
            offset = place[2] - whole[2]
            return first.as_strided(*place[:2], first.storage_offset() + offset)
        if how is not None:
            return how(base)
        if history or not base.requires_grad:
            return _take(base, place)
        with torch.no_grad():  # where the program took it, too
            return _take(base, place)

    def take(inputs: Any, results: Any) -> list[Any]:
        detached: dict[str, Any] = {}
        return [results[row[1]] if row[0] == "result" else inputs[row[1]] if row[0] == "input"
                else results[nresults + row[1][0]] if row[0] == "number"
                else view(inputs, results, detached, row[1:]) for row in plan.outputs]
    return take


def _may_write(plan: Plan, inputs: Any) -> None:
    """Raises before anything has happened where torch would refuse to write: the call then runs plain."""
    for i, history in zip(plan.mutated, plan.histories):
        t = inputs[i]
        if t.is_inference() or (history and t.requires_grad and t.is_leaf):
            raise RuntimeError("an input cannot be written")


def _write(plan: Plan, inputs: Any, results: Any) -> None:
    written = []
    for i, k, bumps, history in zip(plan.mutated, plan.new_values, plan.bumps, plan.histories):
        t = inputs[i]
        if history:
            t.copy_(results[k])
            bumps -= 1
        elif i not in plan.direct:
            t.data.copy_(results[k].detach())
        for _ in range(bumps):
            written.append(t)
    torch.autograd.graph.increment_version(written)


def _count_writes(plan: Plan, results: Any) -> None:
    """What the program made and then wrote to has the version that it has in PyTorch."""
    for k, n in plan.result_bumps:
        for _ in range(n):
            torch.autograd.graph.increment_version(results[k])


Halves = tuple[Any, "Callable[..., list[Any]] | None"]  # run, finish


def _with_epilogue(plan: Plan, code: Any) -> Halves:
    def count(_inputs: Any, results: Any) -> None:
        _count_writes(plan, results)

    def counting(*inputs: Any) -> Any:
        results = code(*inputs)
        _count_writes(plan, results)
        return results
    if plan.mutated:  # the code may have written: the rest is not the first half's
        return _halves(plan, code, [code], count if plan.result_bumps else None)
    return _halves(plan, counting if plan.result_bumps else code, [code])


def _halves(plan: Plan, compute: Callable[..., Any], codes: list[Any],
            wrote: Callable[[Any, Any], None] | None = None) -> Halves:
    take = _views(plan)

    def run(*inputs: Any) -> list[Any]:
        return take(inputs, compute(*inputs))

    def run_first(*inputs: Any) -> Any:
        _may_write(plan, inputs)
        return compute(*inputs)

    def finish(results: Any, *inputs: Any) -> list[Any]:
        _write(plan, inputs, results)
        if wrote is not None:
            wrote(inputs, results)
        return take(inputs, results)
    first = run_first if plan.mutated else run
    first._codes = codes
    return first, finish if plan.mutated else None


# ---- gradients ----

def _as(grad: torch.Tensor | None, row: tuple[Any, ...]) -> torch.Tensor:
    """A tangent laid out as the backward graph expects it, zeros where nobody gave one."""
    dtype, sizes, strides = row
    if grad is None:
        return torch.empty_strided(sizes, strides, dtype=_TORCH[dtype]).zero_()
    if grad.stride() == strides and type(grad) is torch.Tensor and not grad._is_zerotensor():
        return grad
    return torch.empty_strided(sizes, strides, dtype=grad.dtype).copy_(grad)


_TORCH: dict[Any, Any] = {}


class Training:
    """The two halves of a differentiated graph."""

    def __init__(self, plan: Plan):
        _TORCH.update(crossing.dtypes())
        self.plan = plan
        ninputs = len(plan.shape.inputs)
        wrt = tuple(i in set(plan.wanted) for i in range(ninputs))
        noutputs = len(plan.functional.outputs)
        through = tuple(k in plan.live and k in plan.kept for k in range(noutputs))
        self.watched: list[int] = []  # inputs that the walk back needs as the program, which writes some, leaves them
        if plan.shape.written:
            spoilt, kept = _C._find_overwritten(plan.recorded, plan.graph, wrt, through)
            if spoilt:
                raise NotImplementedError("the program writes over what a walk back needs, which PyTorch refuses")
            tensors = [plan.shape.values[name]["type"] == "tensor" for name in plan.shape.inputs]
            self.watched = [i for i, needed in enumerate(kept) if needed and plan.mutated and tensors[i]]
        joint, primals, forward_results, tangents = _C._differentiate(plan.graph, wrt, through)
        forward, backward, self.nsaved, self.nnumbers, _ = _C._partition(joint, primals, forward_results,
                                                                             inputs_change=True)
        self.differentiable = [plan.kept.index(k) for k in tangents]
        shape, places = Shape(forward), Shape(backward)
        self.rows = self._tangent_rows(places)
        rows = plan.results(shape) + plan.sizes.rows()
        self.hidden = [k for k in range(len(plan.kept)) if k not in set(self.differentiable)]
        self.nresults = len(rows)
        self.saved, extra = self._find_saved(shape, noutputs)
        self.forward = _compile(forward, ninputs, (*rows, *extra), plan.native, plan.mutated)
        # an input that nothing depends on is none of the node's: the walk would go into what made it
        self.wanted = [i for i in plan.wanted if places.outputs[i] is not None] or plan.wanted
        self.backward = _compile(backward, self.nnumbers + self.nsaved + len(tangents), self._gradients(places),
                                 plan.native)
        self.tangents, self.live_by = tangents, {}
        self.function = _make_function(self)

    def _tangent_rows(self, backward: Shape) -> list[tuple[Any, ...]]:
        """(dtype, sizes, strides) of each tangent, as the backward graph expects it."""
        metas = [backward.values[name]["meta"] for name in backward.inputs[self.nnumbers + self.nsaved:]]
        numbers = self.plan.sizes.numbers
        return [(getattr(cresset, m["dtype"]), numbers(m["sizes"]), numbers(m["strides"])) for m in metas]

    def _find_saved(self, shape: Shape, noutputs: int) -> tuple[list[tuple[str, int]], list[tuple[Any, ...]]]:
        """Of each saved tensor: an input, a result, or another thing that the code gives."""
        where, extra = [], []
        names = [shape.outputs[k] for k in self.plan.kept]
        for at in range(noutputs, noutputs + self.nsaved):
            name = shape.outputs[at]
            if name in shape.inputs:
                where.append(("input", shape.inputs.index(name)))
            elif name in names:
                where.append(("result", names.index(name)))
            else:
                where.append(("extra", self.nresults + len(extra)))
                extra.append(("given", at))
        self.number_at = self.nresults + len(extra)
        extra += [("number", noutputs + self.nsaved + k) for k in range(self.nnumbers)]
        return where, extra

    def without(self, gradients: Any, due: list[Any]) -> list[Any]:
        """None for what zeros alone went into, in the place of tangents that nobody gave. A gradient of zero that leads
        from a given one (sign()) stays, so graphs of gradients do not tell: what has a history by the input does."""
        given = {k for k, g in zip(self.tangents, due) if g is not None}
        return [g if given & self._live_by(i) else None for i, g in zip(self.wanted, gradients)]

    def _live_by(self, i: int) -> set[int]:
        if i not in self.live_by:
            wrt = tuple(k == i for k in range(len(self.plan.shape.inputs)))
            self.live_by[i] = set(_C._differentiate(self.plan.graph, wrt, None)[3])
        return self.live_by[i]

    def _gradients(self, backward: Shape) -> list[tuple[Any, ...]]:
        names = [backward.outputs[i] for i in self.wanted]
        return [("object", None) if name is None else _new(i, backward.values[name]["meta"])
                for i, name in zip(self.wanted, names)]


def _sources(t: Training) -> list[int]:
    """Of each input: which of those that gradients are wanted of, or ~which of the others."""
    wanted = {at: k for k, at in enumerate(t.wanted)}
    others = iter(range(len(t.plan.shape.inputs)))
    return [wanted[i] if i in wanted else ~next(others) for i in range(len(t.plan.shape.inputs))]


def _forward_in_python(t: Training) -> Any:
    """The forward of graphs that write, whose sizes differ from call to call, or of which some results have no
    gradients; and without private names."""
    plan, sources = t.plan, _sources(t)
    mutated, hidden, nresults, number_at, code = set(plan.mutated), t.hidden, t.nresults, t.number_at, t.forward
    saved_of = [(kind == "input", at) for kind, at in t.saved]
    first_size, varies = len(plan.kept), bool(plan.sizes.texts)

    def forward(ctx: Any, others: Any, *wanted: Any) -> Any:
        inputs = [wanted[k] if k >= 0 else others[~k] for k in sources]
        given = code(*inputs)
        if plan.result_bumps:
            _count_writes(plan, given)
        if saved_of:
            ctx.save_for_backward(*[
                (inputs[at].clone() if at in mutated else inputs[at]) if is_input else given[at]
                for is_input, at in saved_of])
        ctx.numbers = given[number_at:]
        if varies:
            ctx.sizes = given[first_size:nresults]
        ctx.set_materialize_grads(False)
        results = tuple(given[:nresults])
        if hidden:
            ctx.mark_non_differentiable(*(results[k] for k in hidden))
        return results
    return staticmethod(forward)


def _forward(t: Training) -> Any:
    base = vars(crossing.private("_C", "_FunctionBase") or object)
    private = "to_save" in base and "materialize_grads" in base
    if not private or t.plan.result_bumps or t.plan.mutated or t.hidden or t.plan.sizes.texts:
        return _forward_in_python(t)
    saved = tuple(~at if kind == "input" else at for kind, at in t.saved)
    return _C._TorchForward(t.forward, tuple(_sources(t)), saved, t.nresults, t.number_at)


def _make_function(t: Training) -> Any:
    varies = bool(t.plan.sizes.texts)

    class Captured(torch.autograd.Function):
        """A captured graph."""
        forward = _forward(t)  # of (context, others, *wanted): torch's engine reads those that are wanted

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            if torch.is_grad_enabled():
                raise RuntimeError("create_graph=True: a function that cresset.compile captured is not differentiated "
                                   "twice; call it under cresset.compiler.set_stance('force_eager')")
            if t.watched:
                _check_unwritten(ctx.watched)
            due = [grads[k] for k in t.differentiable]
            if all(g is None for g in due):
                return (None,) * (1 + len(t.wanted))
            rows = [_now(row, ctx.sizes) for row in t.rows] if varies else t.rows
            tangents = [_as(g, row) for g, row in zip(due, rows)]
            numbers = ctx.numbers if t.nnumbers else ()
            gradients = t.backward([*numbers, *ctx.saved_tensors, *tangents])
            if any(g is None for g in due):
                gradients = t.without(gradients, due)
            return (None, *gradients)

    return Captured


def _watch(t: Training, inputs: Any, results: Any) -> None:
    """Tells the node of inputs that it needs in a walk back as they are now: by a tensor of the same memory and
    version, so that nothing holds itself."""
    nodes = {results[k].grad_fn for k in t.differentiable if results[k].grad_fn is not None}
    for node in nodes:
        node.watched = [(inputs[i].detach(), inputs[i]._version) for i in t.watched if not inputs[i].is_inference()]


def _check_unwritten(watched: Any) -> None:
    for tensor, version in watched:
        if tensor._version != version:
            raise RuntimeError("one of the variables needed for gradient computation has been modified by an inplace "
                               f"operation: an input of a captured function is at version {tensor._version}; expected "
                               f"version {version} instead")


def _quick_apply(function: Any) -> Any:
    """Function.apply without its look for transforms, under which no graph of ours is called."""
    base = crossing.private("_C", "_FunctionBase")
    apply = vars(base).get("apply") if base is not None else None
    return apply.__get__(None, function) if hasattr(apply, "__get__") else function.apply


def _with_gradients(plan: Plan) -> Halves:
    t = Training(plan)
    codes = [t.forward, t.backward]
    apply = _C._TorchApply(_quick_apply(t.function), len(plan.shape.inputs), tuple(t.wanted), codes)
    if plan.is_plain():
        return apply, None
    watch = (lambda inputs, results: _watch(t, inputs, results)) if t.watched else None
    return _halves(plan, apply, codes, watch)


def drawing_once(run: Any) -> Any:
    """A call that fails behind its graph, and before it wrote, runs plain: it draws the same numbers again."""
    generator = torch.default_generator

    def guarded(*inputs: Any) -> Any:
        before = generator.get_state()
        try:
            return run(*inputs)
        except BaseException:
            generator.set_state(before)
            raise
    guarded._codes = run._codes
    return guarded


def callable_of(plan: Plan) -> Halves:
    finish = None
    if plan.wanted and plan.live & set(plan.kept):
        run, finish = _with_gradients(plan)
    else:
        run = plan.inference()
        if not plan.is_plain():
            run, finish = _with_epilogue(plan, run)
    return run if plan.is_plain() or not _C._graph_draws(plan.graph) else drawing_once(run), finish


_OWN = ("cresset._torch.", "torch.autograd.", "torch.utils._contextlib")


def is_failure(error: BaseException) -> bool:
    """Did a graph, or an op that torch carries out in it, raise it, so that the call runs plain? What a handler of
    signals raises, which runs wherever Python does, is the caller's."""
    from cresset._torch import opaque
    at = error.__traceback__
    while at is not None:
        if at.tb_frame.f_code is opaque.carry_out.__code__:
            return True
        if not str(at.tb_frame.f_globals.get("__name__")).startswith(_OWN):
            return False
        at = at.tb_next
    return True


def build(graph: Any, examples: tuple[Any, ...], weights: list[int], records: bool, native: int) -> Halves:
    """The halves of a captured graph: run takes its inputs, and gives a list of its outputs, or what finish makes such
    a list of. NotImplementedError: the call runs plain, for that reason. `weights`: inputs that native code may be
    made with."""
    from cresset._torch import opaque, stages
    collects = gc.isenabled()
    gc.disable()  # of a large graph everything that is made here stays until the end
    try:
        nodes = graph.nodes
        if opaque.names_in(nodes):
            return stages.build(graph, examples, weights, records, native)
        return callable_of(Plan(graph, examples, records, native, weights, nodes))
    except (NotImplementedError, MemoryError):
        raise
    except Exception as error:  # whatever refuses the graph: the program itself is not at fault
        raise NotImplementedError(f"the graph cannot be made code: {error}") from None
    finally:
        if collects:
            gc.enable()
