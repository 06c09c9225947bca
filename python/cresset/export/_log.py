"""What export() did, as JSON lines in a local file when asked for; and statistics of programs."""
from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator
from typing import Any

from cresset.export import config


def get_ep_stats(ep: Any) -> dict[str, Any]:
    """How many calls the graph and its subgraphs have, and of which ops."""
    count, names = 0, set()
    for module in ep.graph_module.modules():
        for node in module.graph.nodes:
            if node.op == "call_function":
                count += 1
                names.add(str(getattr(node.target, "__name__", node.target)) if getattr(node.target, "__module__",
                        "") == "_operator" else str(node.target))
    return {"op_count": count, "op_set": names}


def _write(event: dict[str, Any]) -> None:
    path = config.log_path or os.environ.get("CRESSET_EXPORT_LOG")
    if path:
        with open(path, "a") as file:
            file.write(json.dumps({"time": time.time(), **event}) + "\n")


@contextlib.contextmanager
def events(name: str, flags: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Writes that `name` begins, and how it ends. The block puts its program under "program"."""
    if not (config.log_path or os.environ.get("CRESSET_EXPORT_LOG")):
        yield {}
        return
    _write({"event": "enter", "function": name, "flags": flags})
    begin, result = time.perf_counter(), {}
    try:
        yield result
    except Exception as error:
        kind = getattr(getattr(error, "error_type", None), "name", None)
        _write({"event": "error", "function": name, "seconds": time.perf_counter() - begin,
                "class": type(error).__name__, "type": kind, "message": str(error)})
        raise
    event: dict[str, Any] = {"event": "exit", "function": name, "seconds": time.perf_counter() - begin}
    if "program" in result:
        stats = get_ep_stats(result["program"])
        event.update(op_count=stats["op_count"], op_set=sorted(stats["op_set"]))
    _write(event)
