"""explain(f)(*args): what compile() makes of a call: graphs, where they break, and why.

    print(cresset._dynamo.explain(f)(x))
"""
from __future__ import annotations

import collections
import re
import time
import traceback
import warnings
from dataclasses import dataclass, field
from typing import Any, Callable

from cresset import _C
from cresset._dynamo import report

__all__ = ["BreakReason", "ExplainOutput", "explain"]


class BreakReason(str):
    """File, line, function and reason of a break, as one text; `reason`: that alone; `user_stack`: where, as
    traceback.FrameSummary."""
    reason: str
    user_stack: list[traceback.FrameSummary]

    def __new__(cls, text: str) -> BreakReason:
        self = super().__new__(cls, text)
        found = re.match(r"(.*?):(\d+) in (\S+): (.*)", text, re.DOTALL)
        self.reason = found[4] if found else text
        self.user_stack = [traceback.FrameSummary(found[1], int(found[2]), found[3])] if found else []
        return self


@dataclass
class ExplainOutput:
    """What one call needed. `break_reasons`: file, line and reason of each place where a graph ends early;
    `ops_per_graph`: the ops that each graph calls, in order; `compile_times`: a table; `seconds`: of the whole call."""
    graphs: list[Any]
    graph_count: int
    graph_break_count: int
    break_reasons: list[BreakReason]
    op_count: int
    ops_per_graph: list[list[str]]
    out_guards: list[str]
    compile_times: str
    seconds: float
    lines: list[tuple[str, int]] = field(default_factory=list)  # function and first line of each graph
    opaque_ops: dict[str, int] = field(default_factory=dict)  # ops that another library carries out, inside of graphs
    data: dict[str, Any] = field(default_factory=dict, repr=False)  # all of it: report.py says what is in there

    def json(self) -> str:
        """All of it as JSON."""
        return report.to_json(self.data)

    def html(self, path: Any = None) -> str | None:
        """One page that needs nothing else: source, graphs and breaks beside it, guards, times. In a file, or (path
        None) as a text."""
        return report.to_html(self.data, path)

    def __str__(self) -> str:
        text = [f"Graph count: {self.graph_count}", f"Graph break count: {self.graph_break_count}",
                f"Op count: {self.op_count}"]
        text += [f"Graph {i}: {len(ops)} ops, from line {line} of {function}"
                 for i, (ops, (function, line)) in enumerate(zip(self.ops_per_graph, self.lines), 1)]
        text += [f"Opaque op: {name}, {count} of them" for name, count in self.opaque_ops.items()]
        text += [f"Break reason {i}: {reason}" for i, reason in enumerate(self.break_reasons, 1)]
        return "\n".join(text)


def _ops(graph: Any) -> list[str]:
    return [node["target"] for node in graph.nodes if node["kind"] == "call"]


def _times(entries: list[dict[str, Any]]) -> str:
    rows = [f"{what}, " + ", ".join(f"{entry[f'{what}_seconds']:.4f}" for entry in entries)
            for what in ("capture", "compile")]
    return "\n".join(["Compilation metrics:", "Function, Runtimes (s)", *rows])


def _opaque(graph: Any) -> list[str]:
    return [node["args"][0]["arg"]["as_string"] for node in graph.nodes if node["target"] == "cresset.opaque"]


def _explain(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> ExplainOutput:
    from cresset import _compile
    from cresset._dynamo import reset
    reset()
    compiled = _C._Compiled(_compile._code_owner(fn), None, None)
    timed = _C._time_entries(True)
    begin = time.perf_counter()
    try:
        compiled(*args, **kwargs)
        spent = time.perf_counter() - begin
        entries = compiled._entries()
    finally:
        _C._time_entries(timed)
        compiled._reset()
        reset()
    graphs = [entry for entry in entries if entry["graph"] is not None and entry["ops"]]
    reasons = [BreakReason(text) for text in dict.fromkeys(entry["reason"] for entry in entries if entry["reason"])]
    return ExplainOutput(graphs=[entry["graph"] for entry in graphs], graph_count=len(graphs),
                         graph_break_count=max(len(graphs) - 1, 0), break_reasons=reasons,
                         op_count=sum(entry["ops"] for entry in graphs),
                         ops_per_graph=[_ops(entry["graph"]) for entry in graphs],
                         out_guards=[guard for entry in entries for guard in entry["guards"]],
                         compile_times=_times(entries), seconds=spent,
                         opaque_ops=dict(collections.Counter(n for entry in graphs for n in _opaque(entry["graph"]))),
                         lines=[(entry["function"], entry["line"]) for entry in graphs],
                         data=report.describe(entries, f"explain({getattr(fn, '__name__', type(fn).__name__)})"))


def explain(f: Callable[..., Any], *extra_args: Any, **extra_kwargs: Any) -> Any:
    """A function that runs f once and says what compile() makes of that call. Everything captured is forgotten before
    and after. The old form explain(f, *args) works, with a FutureWarning."""
    if extra_args or extra_kwargs:
        warnings.warn("explain(f, *args) is the old form: call explain(f)(*args)", FutureWarning, stacklevel=2)
        return _explain(f, extra_args, extra_kwargs)
    return lambda *args, **kwargs: _explain(f, args, kwargs)
