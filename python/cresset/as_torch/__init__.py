"""Cresset in torch's place, for programs that were written for PyTorch, on machines without it. See docs/as_torch.md.

    python -m cresset.as_torch script.py [ARGS]
    import cresset.as_torch     # before anything that imports torch

From then on `import torch`, `torch.nn.functional` and all the rest give Cresset's modules. Names only: what a name does
is written where Cresset has it. finder.py answers imports, quiet.py has the names at which nothing is due, `missing()`
lists the names that a program asked for and that are not here.
"""
from __future__ import annotations

from cresset.as_torch.finder import VERSION, install, missing

__all__ = ["VERSION", "missing"]
install()
