"""What was captured, as data: one description behind explain's text, JSON and page.

    {"kind": "explain", "title", "facts": [text],
     "graphs": [{"function", "file", "line", "ops", "text", "tier", "hits", "capture_seconds", "compile_seconds",
                 "run_seconds", "reason", "guards": [{"text", "held", "failed"}]}],
     "breaks": [{"file", "line", "function", "reason"}],
     "plain": [text],
     "sections": [{"id", "file", "lines": [{"n", "text", "graphs": [{"graph", "ops"}], "breaks": [text]}]}]}

A guard's `failed` counts the calls in which it was the one that did not hold; `held`, those in which it was asked and
did. Entries are what `_Compiled._entries()` gives.
"""
from __future__ import annotations

import ast
import itertools
import json
import linecache
import os
import re
from typing import Any, Iterable

from cresset import _C

__all__ = ["describe", "to_html", "to_json"]

_FRAME = re.compile(r'File "(.*)", line (\d+), in (.*)')
_PLACE = re.compile(r"(.*?):(\d+) in (.*?): (.*)", re.DOTALL)
_PATH = re.compile(r"^(.*?)(?=:\d+ in )")
_WHOLE_FILE = 200  # lines: a file that is no longer is shown whole


def _shown(path: str) -> str:
    """Below the working folder, from site-packages on, or the name alone: where a user keeps programs is nobody else's
    business, and pages are sent around."""
    below = os.path.relpath(path) if os.path.isabs(path) else path
    if not below.startswith(".."):
        return below
    packages = re.search(r"(?:site|dist)-packages/(.*)", path)
    return packages[1] if packages else os.path.basename(path)


def _shown_reason(reason: str | None) -> str | None:
    return reason and _PATH.sub(lambda found: _shown(found[1]), reason, count=1)


def _guards(entry: dict[str, Any]) -> list[dict[str, Any]]:
    # a guard is asked when those before it held: in every use of the entry, and where a later one failed
    later = list(itertools.accumulate(reversed(entry["misses"]), initial=0))[:-1][::-1]
    return [{"text": text, "held": entry["hits"] + after, "failed": failed}
            for text, failed, after in zip(entry["guards"], entry["misses"], later)]


def _break_of(entry: dict[str, Any]) -> dict[str, Any] | None:
    found = _PLACE.fullmatch(entry["reason"] or "")
    if not found:
        return None
    return {"file": found[1], "line": int(found[2]), "function": found[3], "reason": found[4]}


def _ops_by_line(graph: Any) -> dict[tuple[str, int], list[str]]:
    lines: dict[tuple[str, int], list[str]] = {}
    for node in graph.nodes:
        if node["kind"] != "call":
            continue
        places = {(file, int(line)) for file, line, _ in _FRAME.findall(node["origin"][0] or "")}
        for place in places:
            lines.setdefault(place, []).append(node["target"].removeprefix("aten."))
    return lines


def _shown_lines(source: list[str], wanted: set[int]) -> list[int]:
    """The whole of a short file; else the functions around the lines."""
    if len(source) <= _WHOLE_FILE:
        return list(range(1, len(source) + 1))
    spans = [(line - 3, line + 3) for line in wanted]
    try:
        functions = [node for node in ast.walk(ast.parse("".join(source)))
                     if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    except SyntaxError:
        functions = []
    spans += [(f.lineno, f.end_lineno or f.lineno) for f in functions
              if any(f.lineno <= line <= (f.end_lineno or f.lineno) for line in wanted)]
    return sorted({n for first, last in spans for n in range(max(first, 1), min(last, len(source)) + 1)})


def _sections(nodes: list[dict[tuple[str, int], list[str]]], breaks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    files: dict[str, dict[int, dict[str, Any]]] = {}
    for i, lines in enumerate(nodes):
        for (file, line), ops in sorted(lines.items()):
            files.setdefault(file, {}).setdefault(line, {}).setdefault("graphs", []).append({"graph": i, "ops": ops})
    for each in breaks:
        files.setdefault(each["file"], {}).setdefault(each["line"], {}).setdefault("breaks", []).append(each["reason"])
    sections = []
    for number, (file, marked) in enumerate(files.items(), 1):
        source = linecache.getlines(file)
        shown = _shown_lines(source, set(marked)) if source else sorted(marked)
        lines = [{"n": n, "text": source[n - 1].rstrip("\n") if n <= len(source) else "", **marked.get(n, {})}
                 for n in shown]
        sections.append({"id": number, "file": _shown(file), "lines": lines})
    return sections


def _plain(entry: dict[str, Any]) -> bool:
    return bool(entry["reason"]) and not entry["resumes"]


def describe(entries: Iterable[dict[str, Any]], title: str, facts: Iterable[str] = ()) -> dict[str, Any]:
    """The data of a report on these entries."""
    entries = list(entries)
    with_ops = [entry for entry in entries if entry["graph"] is not None and entry["ops"]]
    broken = [found for entry in entries if (found := _break_of(entry))]
    breaks = list({(b["file"], b["line"], b["reason"]): b for b in broken}.values())
    nodes = [_ops_by_line(entry["graph"]) for entry in with_ops]
    graphs = [{**{key: entry[key] for key in ("function", "file", "line", "ops", "tier", "hits", "capture_seconds",
                                              "compile_seconds", "run_seconds", "reason")},
               "text": str(entry["graph"]), "guards": _guards(entry)} for entry in with_ops]
    spent = sum(entry["capture_seconds"] + entry["compile_seconds"] for entry in entries)
    counted = [f"{len(graphs)} graph{'s' * (len(graphs) != 1)}", f"{len(breaks)} break{'s' * (len(breaks) != 1)}",
               f"{sum(entry['ops'] for entry in entries)} ops", f"{spent * 1e3:.1f} ms to capture and compile"]
    for graph in graphs:
        graph["file"], graph["reason"] = _shown(graph["file"]), _shown_reason(graph["reason"])
    plain = list(dict.fromkeys(_shown_reason(entry["reason"]) for entry in entries if _plain(entry)))
    sections = _sections(nodes, breaks)
    for each in breaks:
        each["file"] = _shown(each["file"])
    return {"kind": "explain", "title": title, "facts": [*facts, *counted], "graphs": graphs, "breaks": breaks,
            "plain": plain, "sections": sections}


def to_json(data: dict[str, Any]) -> str:
    return json.dumps(data, indent=2, ensure_ascii=False)


def to_html(data: dict[str, Any], path: Any = None) -> str | None:
    """The page as a text; with `path`, in that file, which is there whole or not at all."""
    text = json.dumps(data)  # ASCII: lone surrogates of file names stay readable
    return _C._page(data["title"], text) if path is None else _C._page(data["title"], text, path)
