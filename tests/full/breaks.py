"""Captures that end after every k instructions of the function, for small k and some larger: each call is then a chain
of small captures and single instructions in the function's own frame. The functions of tests/py/capture (cases.py,
reentry_programs.py, test_breaks.py) must show what plain Python shows: result, identity, exceptions with their lines,
what is printed, arguments afterwards; twice each, so that what was kept is used again. Writes results/breaks.json. A
word chooses functions by name."""
import contextlib
import io
import pathlib
import sys
import warnings

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "py" / "capture"), str(ROOT / "tests" / "full")]
import cases  # noqa: E402
import reentry_programs as programs  # noqa: E402
import results  # noqa: E402
import test_breaks  # noqa: E402
import test_capture  # noqa: E402

import cresset  # noqa: E402
from cresset import _C  # noqa: E402


def break_args():
    return cresset.arange(6.0).reshape(2, 3), []


FUNCTIONS = ([(c.function, c.make_args, test_capture.outcome) for c in cases.CASES]
             + [(f, make, programs.outcome) for f, make in programs.PROGRAMS]
             + [(f, break_args, test_capture.outcome) for f in test_breaks.BREAKS])


def shown(run, make_args, outcome):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        result = outcome(run, make_args())
    return result, out.getvalue()


KS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 13, 17, 23, 31, 47)


def check(function, make_args, outcome):
    """(how many calls were right, entries used, the wrong ones in words)."""
    plain = [shown(function, make_args, outcome) for _ in range(2)]
    right, entries, wrong = 0, 0, []
    for k in KS:
        compiled = _C._Compiled(function, None, None, 64)
        _C._capture_switches(every=k)
        try:
            got = [shown(compiled, make_args, outcome) for _ in range(2)]
        finally:
            _C._capture_switches()
        used = compiled._entries()
        entries += len(used)
        if got == plain:
            right += 1
        else:
            wrong.append(f"{function.__name__} every {k}: {got} instead of {plain}")
    return right, entries, wrong


def main():
    warnings.simplefilter("ignore")
    passed, entries, wrong = 0, 0, []
    chosen = results.chosen("breaks", FUNCTIONS, sys.argv[1:], lambda f: f[0].__name__)
    for function, make_args, outcome in chosen:
        right, used, found = check(function, make_args, outcome)
        passed += right
        entries += used
        wrong += found
    for line in wrong[:20]:
        print(line[:2000])
    return results.end("breaks", passed, len(wrong), functions=len(chosen), entries=entries,
                       python=sys.version.split()[0])


if __name__ == "__main__":
    sys.exit(main())
