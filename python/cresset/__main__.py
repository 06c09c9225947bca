"""`python -m cresset` and the `cresset` of an installed wheel: the tool in the package, with these arguments."""
from __future__ import annotations

import os
import pathlib
import sys


def main() -> None:
    package = pathlib.Path(__file__).absolute().parent
    # a wheel has it beside this file; a build tree, whose package is made of links, in its bin/
    os.environ.setdefault("CRESSET_PYTHON", sys.executable)  # what the tool asks Python for, it asks this one
    for tool in (package / "bin" / "cresset", package.parents[1] / "bin" / "cresset"):
        if tool.exists():
            os.execv(tool, [str(tool), *sys.argv[1:]])
    sys.exit(f"cresset: the tool is not in this package ({package / 'bin'}): install the wheel again")


if __name__ == "__main__":
    main()
