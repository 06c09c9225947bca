"""How a line of the user's program is shown."""
from __future__ import annotations

import linecache


def text(path: str, line: int, name: str) -> str:
    """"model.py:12 in forward: if x.sum() > 0:"."""
    return f"{path}:{line} in {name}: {linecache.getline(path, line).strip()}"
