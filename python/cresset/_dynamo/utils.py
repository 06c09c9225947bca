"""Counts and times of captures.

    counters["stats"]["calls_captured"]     ops that were captured
    counters["graph_break"]                 places with reasons, and how often each
    counters["unimplemented"]               the same without the places
    print(compile_times())
"""
from __future__ import annotations

import collections
import re
from typing import Any

from cresset import _C

__all__ = ["compile_times", "counters"]

counters: collections.defaultdict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
_PLACE = re.compile(r"^.*?:\d+ in \S+: ")  # what reasons begin with
_LAST = 64  # times of single captures that are kept
_times: dict[str, collections.deque[float]] = {"capture": collections.deque(maxlen=_LAST),
                                               "compile": collections.deque(maxlen=_LAST)}
_sums = dict.fromkeys(_times, 0.0)
_watchers: list[Any] = []  # called with (compiled, entry, missed) of every entry
_details = 0  # how many of them want graphs and guards


def _spend(what: str, seconds: float) -> None:
    _times[what].append(seconds)
    _sums[what] += seconds


def _observe(compiled: Any, entry: dict[str, Any], missed: list[str] | None) -> Exception | None:
    """What a watcher gives is raised where the function was called, which then keeps nothing; what it raises itself is
    a mistake of its own, and printed."""
    if entry["at"] < 0:
        counters["frames"]["total"] += 1
        counters["frames"]["ok"] += entry["reason"] is None or entry["resumes"]
    if entry["reason"]:
        counters["graph_break"][entry["reason"]] += 1
        counters["unimplemented"][_PLACE.sub("", entry["reason"])] += 1
    counters["stats"]["calls_captured"] += entry["ops"]
    counters["stats"]["unique_graphs"] += entry["ops"] > 0
    if missed:
        counters["recompiles"][missed[0]] += 1
    _spend("capture", entry["capture_seconds"])
    if entry["ops"]:
        _spend("compile", entry["compile_seconds"])
    errors = [watch(compiled, entry, missed or []) for watch in list(_watchers)]
    return next((error for error in errors if error is not None), None)


def watch(function: Any, details: bool) -> None:
    """function(compiled, entry, missed) is called for every entry from now on, and gives None or what is to be raised;
    missed: what did not hold of those before, the last one's first; details: entries have graph and guards."""
    global _details
    _watchers.append(function)
    _details += details
    start()


def unwatch(function: Any, details: bool) -> None:
    global _details
    _watchers.remove(function)
    _details -= details
    start()


def start() -> None:
    if hasattr(_C, "_set_observer"):
        _C._set_observer(_observe, _details > 0)


def reset_counters() -> None:
    counters.clear()
    for name, spent in _times.items():
        spent.clear()
        _sums[name] = 0.0


def compile_times(repr: str = "str", aggregate: bool = False) -> Any:
    """Seconds that were spent capturing and compiling: of the last 64, or (aggregate) of all together. repr "str": a
    text; "csv": (names, values)."""
    if repr not in ("str", "csv"):
        raise ValueError(f"compile_times(): repr is 'str' or 'csv', not {repr!r}")

    def shown(name: str) -> str:
        return ", ".join(f"{seconds:.4f}" for seconds in ([_sums[name]] if aggregate else _times[name]))
    if repr == "csv":
        return list(_times), [shown(name) for name in _times]
    lines = [f"{name}, {shown(name)}" for name in _times]
    return "\n".join(["Compilation metrics:", "Function, Runtimes (s)", *lines])
