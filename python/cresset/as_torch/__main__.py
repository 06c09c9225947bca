"""`python -m cresset.as_torch [--missing] SCRIPT [ARGS]`: runs a script that imports torch, with Cresset in its place.

--missing: at the end, the names of torch that were asked for and are not here, one a line on standard error."""
from __future__ import annotations

import os
import pathlib
import runpy
import sys


def main() -> None:
    from cresset import as_torch
    args = sys.argv[1:]
    lists = args[:1] == ["--missing"]
    args = args[lists:]
    if not args:
        sys.exit("usage: python -m cresset.as_torch [--missing] SCRIPT [ARGS]")
    if not os.path.isfile(args[0]):
        sys.exit(f"cresset: {args[0]}: there is no such file")
    sys.argv = args
    sys.path[0] = str(pathlib.Path(args[0]).resolve().parent)
    try:
        runpy.run_path(args[0], run_name="__main__")
    finally:
        if lists:
            print(*as_torch.missing(), sep="\n", file=sys.stderr)


if __name__ == "__main__":
    main()
