"""`cresset explain SCRIPT [ARGS]`: runs a script and writes what compile() made of it. The tool starts Python with this
(src/cli/explain.c)."""
from __future__ import annotations

import os
import pathlib
import runpy
import sys
from typing import Any

from cresset import _C, _compile
from cresset._dynamo import report

__all__ = ["main", "run"]


def _run_script(script: str, args: list[str]) -> BaseException | None:
    """What ended it early; None: it came to its end."""
    sys.argv = [script, *args]
    sys.path[0] = str(pathlib.Path(script).resolve().parent)
    try:
        runpy.run_path(script, run_name="__main__")
    except BaseException as error:  # the page is of most use for scripts that fail
        return error
    return None


def run(script: str, args: list[str]) -> tuple[dict[str, Any], BaseException | None]:
    """The report on a script, and what ended it early."""
    _compile._kept = []
    _C._time_entries(True)
    try:
        ended = _run_script(script, args)
        made = _compile._kept
        entries = [entry for compiled in made for entry in compiled._entries()]
    finally:
        _C._time_entries(False)
        _compile._kept = None
    facts = [] if made else ["no function was compiled: put @cresset.compile before one"]
    return report.describe(entries, pathlib.Path(script).name, facts), ended


def main() -> None:
    output, kind, script, *args = sys.argv[1:]
    if not hasattr(_C, "_Compiled"):
        sys.exit("cresset: compile() does not know this version of Python: see docs/capture.md, Versions")
    if not os.path.isfile(script):
        sys.exit(f"cresset: {script}: there is no such file")
    output = output or f"{pathlib.Path(script).stem}.{kind}"
    data, ended = run(script, args)
    if kind == "json":
        pathlib.Path(output).write_text(report.to_json(data) + "\n")
    else:
        report.to_html(data, output)
    print(f"cresset: wrote {output}: {', '.join(data['facts'])}", file=sys.stderr)
    if ended is not None:
        raise ended
