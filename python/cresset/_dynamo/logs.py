"""CRESSET_LOGS=graph_breaks,recompiles: what captures say while they work, by the names of PyTorch's TORCH_LOGS.

    CRESSET_LOGS=graph_breaks,recompiles python train.py
    cresset._logging.set_logs(graph_code=True)

A name may have a + (more) or - (errors alone) before it; the names here know no levels, - leaves one out. The lines go
to the loggers `cresset.NAME` of Python's logging, which print to standard error unless the program has handlers.
"""
from __future__ import annotations

import difflib
import dis
import io
import logging
import os
import re
import sys
from typing import Any, Callable

from cresset._json import _SHORT

__all__ = ["NAMES", "set_logs"]


def _place(entry: dict[str, Any]) -> str:
    return f"{entry['file']}:{entry['line']} in {entry['function']}"


def _calls(entry: dict[str, Any]) -> list[dict[str, Any]]:
    return [node for node in entry["graph"].nodes if node["kind"] == "call"] if entry["graph"] is not None else []


def _dynamo(entry: dict[str, Any]) -> str:
    what = "runs plain" if entry["reason"] and not entry["resumes"] else f"{entry['ops']} ops"
    return (f"{_place(entry)}: {what}, captured in {entry['capture_seconds'] * 1e3:.2f} ms, compiled in "
            f"{entry['compile_seconds'] * 1e3:.2f} ms")


def _graph(entry: dict[str, Any]) -> str | None:
    rows = [("kind", "name", "target")]
    for node in entry["graph"].nodes if entry["graph"] is not None else ():
        rows.append((node["kind"], ", ".join(r["name"] for r in node["results"]), node["target"] or ""))
    if len(rows) == 1:
        return None
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    table = "\n".join("  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip() for row in rows)
    return f"{_place(entry)}:\n{table}"


def _graph_code(entry: dict[str, Any]) -> str | None:
    return f"{_place(entry)}:\n{entry['graph']}" if entry["ops"] else None


def _sizes(graph: Any) -> list[str]:
    """A line for each tensor, and one more where sizes are open: what they were in this call. Bodies come behind."""
    lines = []
    for result in (result for node in graph.nodes for result in node["results"] if result["type"] == "tensor"):
        value, name = graph._value(result["name"]), result["name"]
        short, sizes = _SHORT.get(result["meta"]["dtype"], result["meta"]["dtype"]), result["meta"]["sizes"]
        lines.append(f"{name}: {short}[{', '.join(map(str, sizes))}]")
        if any(hasattr(n, "node") for n in value.shape):
            numbers = ", ".join(str(n.node.hint if hasattr(n, "node") else n) for n in value.shape)
            lines.append(f"{name} (concrete): {short}[{numbers}]")
    return lines + [line for _, body in graph._subgraphs() for line in _sizes(body)]


def _graph_sizes(entry: dict[str, Any]) -> str | None:
    if not entry["ops"]:
        return None
    return f"{_place(entry)}:\n" + "\n".join(_sizes(entry["graph"]))


def _guards(entry: dict[str, Any]) -> str:
    return f"{_place(entry)}: {len(entry['guards'])} guards\n" + "\n".join(f"- {text}" for text in entry["guards"])


def _recompiles(entry: dict[str, Any]) -> str | None:
    last, *others = entry["missed"] or [None]
    before = f"; of those before: {'; '.join(others)}" if others else ""
    return last and f"{_place(entry)} is captured again; what did not hold of the last: {last}{before}"


def _graph_breaks(entry: dict[str, Any]) -> str | None:
    return entry["reason"] and f"graph break at {entry['reason']}"


def _bytecode(entry: dict[str, Any]) -> str:
    text = io.StringIO()
    dis.dis(entry["code"], file=text)
    return f"{_place(entry)}:\n{text.getvalue()}"


def _trace_call(entry: dict[str, Any]) -> str | None:
    lines = []
    for node in _calls(entry):
        frame = re.findall(r'File "(.*)", line (\d+), in (.*)', node["origin"][0] or "")
        lines.append(f"{node['target']} from {':'.join(frame[-1][:2])} in {frame[-1][2]}" if frame else node["target"])
    return "\n".join(lines) or None


NAMES: dict[str, Callable[[dict[str, Any]], str | None]] = {
    "bytecode": _bytecode, "dynamo": _dynamo, "graph": _graph, "graph_breaks": _graph_breaks,
    "graph_code": _graph_code, "graph_sizes": _graph_sizes, "guards": _guards, "recompiles": _recompiles,
    "trace_call": _trace_call}
_on: set[str] = set()


def _write(compiled: Any, entry: dict[str, Any], missed: list[str]) -> None:
    # unused compiled: the entry says whose it is
    for name in sorted(_on):
        text = NAMES[name]({**entry, "missed": missed})
        if text:
            logging.getLogger(f"cresset.{name}").debug("[%s] %s", name, text)


def _check(names: Any) -> None:
    for name in names:
        if name not in NAMES:
            near = difflib.get_close_matches(name, NAMES, 1)
            hint = f", did you mean {near[0]!r}?" if near else ":"
            raise ValueError(f"CRESSET_LOGS: there is no log {name!r}{hint} there are all, {', '.join(sorted(NAMES))}")


def _prepare(name: str, on: bool) -> None:
    logger = logging.getLogger(f"cresset.{name}")
    logger.setLevel(logging.DEBUG if on else logging.NOTSET)
    if on and not logger.handlers and not logging.getLogger().handlers:
        logger.addHandler(logging.StreamHandler(sys.stderr))


def set_logs(*, all: bool = False, **names: bool) -> None:
    """Which logs are written from now on: these and no others."""
    from cresset._dynamo import utils
    _check(names)
    wanted = {name for name in NAMES if names.get(name, all)}
    if _write in utils._watchers:
        utils.unwatch(_write, details=True)
    _on.clear()
    _on.update(wanted)
    for name in NAMES:
        _prepare(name, name in wanted)
    if wanted:
        utils.watch(_write, details=True)


def from_environment() -> None:
    words = [word.strip() for word in os.environ.get("CRESSET_LOGS", "").split(",") if word.strip()]
    names = {word.lstrip("+-"): not word.startswith("-") for word in words}
    everything = names.pop("all", False)
    _check(names)
    if words:
        set_logs(all=everything, **names)
