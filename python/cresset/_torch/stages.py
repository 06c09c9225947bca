"""Captured graphs with ops that only torch has: parts that are code of ours, and between them torch's calls.

Each part is a graph by itself, differentiated by itself; gradients go from part to part through torch's own nodes."""
from __future__ import annotations

from typing import Any

import torch

from cresset import _C
from cresset._torch import crossing, opaque
from cresset._torch.running import Halves, Plan, Shape, callable_of, drawing_once, values_in


class Part:
    """Nodes first to before last, as code; `inputs` and `outputs` are names of values."""

    def __init__(self, first: int):
        self.first = self.last = first
        self.nodes: list[dict[str, Any]] = []
        self.inputs: list[str] = []
        self.outputs: list[str] = []
        self.run: Any = None
        self.finish: Any = None  # of the last one, if it writes

    def add(self, at: int, node: dict[str, Any]) -> None:
        self.last = at + 1
        self.nodes.append(node)

    def made(self) -> list[str]:
        return [result["name"] for node in self.nodes for result in node["results"]]

    def uses(self) -> list[str]:
        own = set(self.made())
        return [n for n in dict.fromkeys(n for node in self.nodes for n in values_in(node["args"])) if n not in own]

    def __call__(self, values: dict[str, Any]) -> None:
        given = self.run(*[values[name] for name in self.inputs])
        if self.finish is None:
            values.update(zip(self.outputs, given))
        else:
            values[""] = given

    def write(self, values: dict[str, Any]) -> None:
        inputs = [values[name] for name in self.inputs]
        values.update(zip(self.outputs, self.finish(values.pop(""), *inputs)))


def _like(meta: dict[str, Any], wants: bool) -> torch.Tensor:
    """On the meta device; with a history where it wants gradients."""
    t = torch.empty_strided(meta["sizes"], meta["strides"], dtype=getattr(torch, meta["dtype"]), device="meta")
    with torch.enable_grad():
        return t.requires_grad_() * 1 if wants else t


class Stages:
    def __init__(self, graph: Any, examples: tuple[Any, ...], weights: list[int], records: bool, native: int):
        self.graph, self.records, self.native = graph, records, native
        self.shape = shape = Shape(graph)
        if shape.varies or any(node["kind"] == "get_attr" for node in graph.nodes):
            raise NotImplementedError("an op that only torch has is called in a graph of open sizes or constants")
        self.stages: list[Any] = []
        self.weights = {shape.inputs[i] for i in weights}
        for at, node in enumerate(graph.nodes):
            if node["kind"] == "call":
                self._add(at, node)
        self._check_writes()
        self._connect()
        self.codes: list[Any] = []
        self._build(dict(zip(shape.inputs, examples)))

    def _add(self, at: int, node: dict[str, Any]) -> None:
        if node["target"] == opaque.OPAQUE:
            self.stages.append(opaque.Call(node))
            return
        if not self.stages or isinstance(self.stages[-1], opaque.Call):
            self.stages.append(Part(at))
        self.stages[-1].add(at, node)

    def _check_writes(self) -> None:
        """Writes come last, when nothing is left that may fail: where that fails, the call runs plain."""
        for stage in self.stages[:-1]:
            for node in stage.nodes if isinstance(stage, Part) else ():
                for result in node["results"]:
                    if result.get("writes") and self.shape.memory(result["name"]) in self.shape.inputs:
                        raise NotImplementedError("an input is written before an op that only torch has")

    def _connect(self) -> None:
        later = [n for n in self.shape.outputs if n is not None]
        for stage in reversed(self.stages):
            if isinstance(stage, Part):
                stage.inputs = stage.uses()
                made = set(stage.made())
                stage.outputs = [n for n in dict.fromkeys(later) if n in made]
                memories = [self.shape.memory(n) for n in stage.inputs if "meta" in self.shape.values[n]]
                if len(set(memories)) < len(memories):
                    raise NotImplementedError("tensors that share memory go into one part of a graph")
                later += stage.inputs
            else:
                later += stage.inputs()
        self.stages = [s for s in self.stages if not isinstance(s, Part) or s.outputs or self._writes(s)]

    @staticmethod
    def _writes(part: Part) -> bool:
        return any(result.get("writes") for node in part.nodes for result in node["results"])

    def _build(self, examples: dict[str, Any]) -> None:
        """Stage by stage, with examples on the meta device for what the stages before give."""
        metas = {n: _like(self.shape.values[n]["meta"], self.records and t.requires_grad)
                 if isinstance(t, torch.Tensor) else t for n, t in examples.items()}
        for stage in self.stages:
            if isinstance(stage, opaque.Call):
                with torch.set_grad_enabled(self.records):
                    stage(metas)
                examples.update((n, metas[n]) for n in stage.results)
                continue
            part = _C._graph_part(self.graph, stage.first, stage.last, tuple(stage.inputs), tuple(stage.outputs))
            weights = [i for i, name in enumerate(stage.inputs) if name in self.weights]
            plan = Plan(part, tuple(examples[n] for n in stage.inputs), self.records, self.native, weights)
            stage.run, stage.finish = callable_of(plan)
            self.codes += stage.run._codes if hasattr(stage.run, "_codes") else [stage.run]
            for k, name in enumerate(stage.outputs):
                made = _like(self.shape.values[name]["meta"], bool(plan.wanted) and k in plan.live)
                examples[name] = metas[name] = made

    def halves(self) -> Halves:
        """The ops that torch carries out may draw numbers, too."""
        def compute(*inputs: Any) -> dict[str, Any]:
            values: dict[str, Any] = dict(zip(self.shape.inputs, inputs))
            for stage in self.stages:
                stage(values)
            return values

        def run(*inputs: Any) -> list[Any]:
            return self._outputs(compute(*inputs))

        def finish(values: dict[str, Any], *_inputs: Any) -> list[Any]:  # which are among the values
            self.stages[-1].write(values)
            return self._outputs(values)
        writes = any(isinstance(stage, Part) and stage.finish is not None for stage in self.stages)
        first = compute if writes else run
        first._codes = self.codes
        return drawing_once(first), finish if writes else None

    def _outputs(self, values: dict[str, Any]) -> list[Any]:
        return [values[name] for name in self.shape.outputs]


def build(graph: Any, examples: tuple[Any, ...], weights: list[int], records: bool, native: int) -> Halves:
    crossing.prepare()
    return Stages(graph, examples, weights, records, native).halves()
