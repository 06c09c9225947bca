"""A failing backend and its graph as a script that stands alone (config.repro_after), and that script made small.

    python repro_0.py            fails as the call did
    minimise(graph, inputs, fails)   the smallest graph found for which fails(graph, inputs) still holds
"""
from __future__ import annotations

import itertools
import pathlib
import re
import sys
from typing import Any, Callable

from cresset import _C

__all__ = ["minimise", "real_inputs", "write"]

_LINE = re.compile(r"  (%\S+?: \S.*?) = (.*)")  # results, call
_RESULT = re.compile(r"(%[\w.]+)!?: (\w+(?:\[[^\]]*\]|\{[^}]*\})?)")
_NAME = re.compile(r"%[A-Za-z0-9_.]+")


def _inputs_of(text: str) -> list[tuple[str, str]]:
    inside = text[text.index("(") + 1:text.index(") {")]
    found = re.findall(r"(%[\w.]+): ([^%]*?)(?:, (?=%)|$)", inside)
    return [(name, kind) for name, kind in found]


def _made(line: str) -> dict[str, str]:
    """{name: type} of what a call gives."""
    return dict(_RESULT.findall(_LINE.fullmatch(line)[1]))


def _parse(inputs: list[tuple[str, str]], lines: list[str], results: list[str]) -> Any | None:
    taken = ", ".join(f"{name}: {kind}" for name, kind in inputs)
    text = (f"graph({taken}) {{\n" + "".join(f"{line}\n" for line in lines) + f"  return {', '.join(results)}\n}}\n")
    try:
        return _C.Graph.parse(text)
    except RuntimeError:
        return None


def _example(kind: str) -> Any:
    """A tensor of a type as graphs write it, `f32[2, 3]`."""
    return _C.Graph.parse(f"graph(%x: {kind}) {{\n  return %x\n}}\n")._value("x")


def _random_like(kind: str) -> Any:
    import cresset
    fake = _example(kind)
    if fake.dtype.is_floating_point or fake.dtype.is_complex:
        return cresset.randn(fake.shape, dtype=fake.dtype)
    return cresset.zeros(fake.shape, dtype=fake.dtype)


def real_inputs(graph: Any) -> list[Any]:
    """Tensors for the inputs of a graph that was made of fakes: random, integers zero."""
    return [_random_like(kind) for _, kind in _inputs_of(str(graph))]


def minimise(graph: Any, inputs: list[Any], fails: Callable[[Any, list[Any]], bool]) -> tuple[Any, list[Any]]:
    """Ends the graph after the first call that makes it fail, then turns calls before it into inputs where it still
    fails. Graphs whose text has more than calls (symbols, constants, subgraphs) stay as they are."""
    text = str(graph)
    body = text[text.index(") {") + 4:].splitlines()
    lines = [line for line in body if _LINE.fullmatch(line)]
    if len(lines) + 2 < len([line for line in body if line.strip()]):
        return graph, inputs
    given = dict(zip((name for name, _ in _inputs_of(text)), inputs))
    kinds = dict(_inputs_of(text))

    def attempt(kept: list[str], result: str) -> tuple[Any, list[Any]] | None:
        made = {name for line in kept for name in _made(line)}
        used = dict.fromkeys(name for line in kept for name in _NAME.findall(_LINE.fullmatch(line)[2]))
        needed = [(name, kinds.get(name)) for name in used if name not in made]
        smaller = None if None in dict(needed).values() else _parse(needed, kept, [result])
        if smaller is None:
            return None
        values = [given[name] if name in given else _random_like(kind) for name, kind in needed]
        try:
            return (smaller, values) if fails(smaller, values) else None
        except Exception:
            return None

    for line in lines:
        kinds.update(_made(line))
    best, kept, result = (graph, inputs), lines, ""
    for n in range(1, len(lines) + 1):
        result = next(iter(_made(lines[n - 1])))
        if found := attempt(lines[:n], result):
            best, kept = found, lines[:n]
            break
    else:
        return best
    for line in kept[:-1]:
        without = [other for other in kept if other is not line]
        if found := attempt(without, result):
            best, kept = found, without
    return best


def _input_source(value: Any) -> str:
    if not hasattr(value, "shape"):
        return repr(value)
    dtype = str(value.dtype).split(".")[-1]
    make = "randn" if value.dtype.is_floating_point or value.dtype.is_complex else "zeros"
    return f"cresset.{make}({list(value.shape)}, dtype=cresset.{dtype}, requires_grad={bool(value.requires_grad)})"


def _backend_source(backend: Any) -> str:
    from cresset._dynamo.backends import registry
    for name, known in registry._backends.items():
        if known is backend and getattr(backend, "__module__", "").startswith("cresset."):
            return f"backend = cresset._dynamo.lookup_backend({name!r})"
    module, name = getattr(backend, "__module__", None), getattr(backend, "__qualname__", "")
    importable = module and module != "__main__" and name.isidentifier()
    if importable and getattr(sys.modules.get(module), name, None) is backend:
        return f"from {module} import {name} as backend"
    return ("backend = None  # put the backend here: it cannot be imported\n"
            "assert backend is not None, 'put the backend into this script'")


def write(graph: Any, inputs: list[Any], backend: Any, why: str) -> pathlib.Path:
    """Writes the script into config.debug_dir_root; with config.repro_level 2 or more of the smallest graph that fails
    with an error of the same class."""
    from cresset._dynamo import config
    if config.repro_level >= 2:
        graph, inputs = minimise(graph, list(inputs), lambda g, values: _fails(backend, g, values))
    folder = pathlib.Path(config.debug_dir_root)
    folder.mkdir(parents=True, exist_ok=True)
    path = next(p for n in itertools.count() if not (p := folder / f"repro_{n}.py").exists())
    heading = why.splitlines()[0].replace("\\", "\\\\").replace('"""', "'''")
    path.write_text(f'"""{heading}"""\nimport cresset\n\n{_backend_source(backend)}\n\n'
                    f"graph = cresset.Graph.parse({str(graph)!r})\n"
                    f"inputs = [{', '.join(map(_input_source, inputs))}]\n"
                    "compiled = backend(cresset.fx.GraphModule.from_graph(graph), inputs)\n"
                    "assert callable(compiled), f'the backend returned a {type(compiled).__name__}'\n"
                    "from cresset._dynamo.backends.calling import differs\n"
                    "assert (wrong := differs(graph.run, compiled, inputs)) is None, wrong\n")
    return path


def _fails(backend: Any, graph: Any, inputs: list[Any]) -> bool:
    from cresset._dynamo.backends.calling import differs
    from cresset.fx.graph_module import GraphModule
    try:
        made = backend(GraphModule.from_graph(graph), inputs)
    except Exception:
        return True
    return not callable(made) or differs(graph.run, made, inputs) is not None
