"""export(..., report=True): every problem of an export at once, each with its line and a fix."""
from __future__ import annotations

import dataclasses
import json
from typing import Any

_FIXES = {
    "data-dependent": "say what always holds with cresset._check(...) before the line, or write the branch with "
    "cresset.cond() or cresset.where()",
    "missing-rule": "register a fake implementation (cresset.library.register_fake), or write the step with ops that "
    "have one",
    "specialized": "change dynamic_shapes as suggested, or write the program so that it does not depend on the size",
    "assigned-attribute": "register the attribute with register_buffer()",
    "error": "see the message",
}


@dataclasses.dataclass(frozen=True)
class Problem:
    """`kind` is data-dependent, missing-rule, specialized, assigned-attribute or error."""
    kind: str
    message: str
    location: str | None
    fix: str

    def __str__(self) -> str:
        place = f" at {self.location}" if self.location else ""
        return f"{self.kind}{place}\n    {self.message}\n    fix: {self.fix}"


@dataclasses.dataclass
class ExportReport:
    """`problems` in the order in which they were met; `program` is what was exported when there were none, else None.

    After a branch that cannot be decided the report goes on as if the condition did not hold: `problems` beyond it are
    those of that path. `complete` is False where the rest of forward could not be looked at."""
    problems: list[Problem]
    program: Any = None
    complete: bool = True

    @property
    def success(self) -> bool:
        return not self.problems

    def to_json(self) -> str:
        return json.dumps({"success": self.success, "complete": self.complete,
                           "problems": [dataclasses.asdict(problem) for problem in self.problems]}, indent=1)

    def __str__(self) -> str:
        if self.success:
            return "The export has no problems."
        several = "s" if len(self.problems) > 1 else ""
        rest = "" if self.complete else "; the rest of forward was not reached"
        head = f"The export has {len(self.problems)} problem{several}{rest}:"
        return "\n".join([head, *(f"  {i + 1}. {problem}" for i, problem in enumerate(self.problems))])

    __repr__ = __str__


def problem(kind: str, message: str, location: str | None = None) -> Problem:
    first, _, rest = message.partition("Suggested fixes:")
    fix = " ".join(rest.split("\n\n")[0].split()) if rest else ""
    return Problem(kind, " ".join(first.split()) if len(first) < 2000 else first[:2000], location, fix or _FIXES[kind])
