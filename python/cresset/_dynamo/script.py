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


def _refusal(script: str, output: str) -> str | None:
    """Why nothing is run; None: nothing is wrong."""
    folder = os.path.dirname(output) or "."
    if os.path.isdir(script):
        return f"{script}: is a folder; give a Python script, cresset explain SCRIPT [ARGS]"
    if not os.path.isfile(script):
        return f"{script}: there is no such file; give a Python script, cresset explain SCRIPT [ARGS]"
    if script.endswith((".pt2", ".so")):
        return f"{script}: is no Python script; 'cresset view' shows archives, 'cresset info' libraries, too"
    if not os.access(script, os.R_OK):
        return f"{script}: may not be read; look at its permissions"
    if os.path.exists(output) and os.path.samefile(output, script):
        return f"{output}: the report would replace the script; name another file with -o, before the script"
    if os.path.isdir(output):
        return f"{output}: is a folder; name a file with -o, before the script"
    if not os.path.isdir(folder):
        return f"{output}: there is no folder {folder}; make it, or name another file with -o"
    if not os.access(folder, os.W_OK):
        return f"{output}: nothing may be written to {folder}; name another file with -o, before the script"
    return None


def _hide_own_frames(script: str) -> None:
    """What ends the script is shown as without this tool: from its own first line on."""
    show = sys.excepthook

    def shown(kind: type[BaseException], error: BaseException, traceback: Any) -> None:
        while traceback is not None and traceback.tb_frame.f_code.co_filename != script:
            traceback = traceback.tb_next
        show(kind, error.with_traceback(traceback), traceback)
    sys.excepthook = shown


def main() -> None:
    output, kind, script, *args = sys.argv[1:]
    if not hasattr(_C, "_Compiled"):
        sys.exit("cresset: compile() does not know this version of Python: see docs/capture.md, Versions")
    output = output or f"{pathlib.Path(script).stem}.{kind}"
    if refusal := _refusal(script, output):
        sys.exit(f"cresset: {refusal}")
    data, ended = run(script, args)
    try:
        if kind == "json":
            pathlib.Path(output).write_text(report.to_json(data) + "\n")
        else:
            report.to_html(data, output)
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else error
        said = f"{output}: {why}; name another file with -o, before the script"
    else:
        said = f"wrote {output}: {', '.join(data['facts'])}"
    print(f"cresset: {said}", file=sys.stderr)
    if ended is not None:
        _hide_own_frames(script)
        raise ended
    if not said.startswith("wrote "):
        sys.exit(1)
