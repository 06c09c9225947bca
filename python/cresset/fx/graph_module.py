"""GraphModule: a module whose forward() is a Graph."""
from __future__ import annotations

import copy
import itertools
import linecache
import weakref
from typing import Any

from cresset import _C
from cresset.fx.convert import fill, lower
from cresset.fx.graph import Graph
from cresset.nn import Module

__all__ = ["GraphModule"]

_numbers = itertools.count()


def _attribute(root: Any, path: str) -> Any:
    for part in path.split("."):
        root = getattr(root, part)
    return root


def _place(module: Any, path: str, value: Any) -> None:
    *before, last = path.split(".")
    for part in before:
        if not hasattr(module, part):
            setattr(module, part, Module())
        module = getattr(module, part)
    if isinstance(value, _C.Tensor) and last not in module._parameters and not hasattr(value, "_is_param"):
        module.register_buffer(last, value)
    else:
        setattr(module, last, value)


class GraphModule(Module):
    """graph: edit it, then recompile(). root: a module, or a dict, that has what the graph's get_attr and call_module
    nodes name."""

    def __init__(self, root: Any, graph: Graph, class_name: str = "GraphModule"):
        self._start(None, class_name)
        for node in graph.nodes:
            if node.op in ("get_attr", "call_module"):
                self._copy_attribute(root, node.target)
        if isinstance(root, Module):
            self.training = root.training
            self.meta.update(getattr(root, "meta", {}))
        self.graph = graph

    def _start(self, raw: _C.Graph | None, class_name: str) -> None:
        super().__init__()
        self.__dict__.update(_raw_graph=raw, _raw_edits=0, _graph=None, _class_name=class_name, _compiled=None,
                             _code="")
        self.meta: dict[str, Any] = {}

    def _copy_attribute(self, root: Any, target: str) -> None:
        if isinstance(root, dict):
            if target not in root:
                raise RuntimeError(f"the graph names '{target}', which is not among the attributes given: "
                                   f"{', '.join(root) or 'none'}")
            _place(self, target, root[target])
        else:
            _place(self, target, _attribute(root, target))

    @classmethod
    def from_graph(cls, graph: _C.Graph) -> GraphModule:
        """A module that runs a cresset.Graph, and shows its nodes."""
        made = cls.__new__(cls)
        made._start(graph, "GraphModule")
        for name, sub in graph._subgraphs():
            setattr(made, name, cls.from_graph(sub))
        return made

    def to_graph(self, *example_inputs: Any) -> _C.Graph:
        """The cresset.Graph of this module's graph as it is now, by example inputs, or by meta["val"] of its
        placeholders: runs on the interpreter, compiles to native code."""
        if not example_inputs and self._is_raw():
            return self._raw_graph
        lowered = lower(self, example_inputs)
        if not example_inputs:
            self.__dict__.update(_raw_graph=lowered, _raw_edits=self.graph._edits)
        return lowered

    @property
    def _raw(self) -> _C.Graph:
        return self.to_graph()

    def _is_raw(self) -> bool:
        return self._raw_graph is not None and (self._graph is None or self._graph._edits == self._raw_edits)

    @property
    def graph(self) -> Graph:
        if self._graph is None:
            graph = Graph(self)
            for constant in self._raw_graph._data()["constants"]:
                _place(self, constant["name"], constant["tensor"])
            fill(graph, self._raw_graph, callable=True)
            self.__dict__.update(_graph=graph, _raw_edits=graph._edits)
        return self._graph

    @graph.setter
    def graph(self, graph: Graph) -> None:
        if not isinstance(graph, Graph):
            raise AssertionError(f"GraphModule.graph must be a cresset.fx.Graph, not {type(graph).__name__}")
        graph = copy.deepcopy(graph) if graph.owning_module not in (None, self) else graph
        graph.owning_module = self
        self.__dict__.update(_graph=graph, _raw_graph=None, _raw_edits=-1)
        self.recompile()

    def recompile(self) -> Any:
        """Makes forward() anew from the graph."""
        made = self.graph.python_code("self")
        name = f"<cresset.fx {next(_numbers)}>"
        names = dict(made.globals)
        exec(compile(made.src, name, "exec"), names)
        linecache.cache[name] = (len(made.src), None, made.src.splitlines(keepends=True), name)
        weakref.finalize(names["forward"], linecache.cache.pop, name, None)
        self.__dict__.update(_compiled=names["forward"], _code=made.src)
        return made

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        if self._compiled is not None:
            return self._compiled(self, *args, **kwargs)
        if kwargs:
            self.recompile()
            return self._compiled(self, *args, **kwargs)
        results = self._raw_graph.run(*args)
        return results if isinstance(results, tuple) else (results,)

    def run(self, *args: Any) -> Any:
        """The results, one of them not in a tuple: as cresset.Graph.run()."""
        results = self(*args)
        return results[0] if isinstance(results, tuple) and len(results) == 1 else results

    @property
    def code(self) -> str:
        return self._code or self.graph.python_code("self").src

    def print_readable(self, print_output: bool = True, include_stride: bool = False, include_device: bool = False,
                       colored: bool = False, **options: Any) -> str:
        """The code with the types of values and the lines they come from."""
        if include_stride or include_device or colored or options:
            raise NotImplementedError("print_readable(): print_output is the one option")
        lines = self.graph.python_code("self", verbose=True).src.strip("\n").splitlines()
        text = f"class {self._class_name}(cresset.nn.Module):\n" + "".join(
            f"    {line}".rstrip() + "\n" for line in lines)
        for _, sub in self.named_children():
            if isinstance(sub, GraphModule):
                text += "\n" + "".join(f"    {line}".rstrip() + "\n"
                                       for line in sub.print_readable(False).splitlines())
        if print_output:
            print(text)
        return text

    def add_submodule(self, target: str, m: Module) -> bool:
        _place(self, target, m)
        return True

    def delete_submodule(self, target: str) -> bool:
        *before, last = target.split(".")
        try:
            parent = _attribute(self, ".".join(before)) if before else self
        except AttributeError:
            return False
        if last not in parent._modules:
            return False
        delattr(parent, last)
        return True

    def delete_all_unused_submodules(self) -> None:
        used = {node.target for node in self.graph.nodes if node.op in ("get_attr", "call_module")}
        for name, _ in reversed(list(self.named_modules())):
            below = any(target == name or target.startswith(name + ".") for target in used)
            above = any(name.startswith(target + ".") for target in used)
            if name and not below and not above:
                self.delete_submodule(name)

    def __deepcopy__(self, memo: dict[int, Any]) -> GraphModule:
        nodes = [node for node in self.graph.nodes if node.op in ("get_attr", "call_module")]
        made = GraphModule({node.target: copy.deepcopy(_attribute(self, node.target), memo) for node in nodes},
                           copy.deepcopy(self.graph), self._class_name)
        made.meta, made.training = dict(self.meta), self.training
        return made

    def __copy__(self) -> GraphModule:
        made = GraphModule(self, copy.deepcopy(self.graph), self._class_name)
        made.meta = dict(self.meta)
        return made

    def _get_name(self) -> str:
        return self._class_name

    def __str__(self) -> str:
        return f"{super().__repr__()}\n\n{self.code}"
