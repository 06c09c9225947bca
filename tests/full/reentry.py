"""Entering frames in the middle: every function of tests/py/capture/programs.py is left before each of its instructions
and entered again in its own frame, with locals, stack, instruction pointer and the exception being handled written back
(`_C._reenter`). What it shows (result, exception, traceback lines, arguments afterwards) must be plain Python's.
Writes results/reentry.json. A word chooses functions by name."""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "py" / "capture")]
import reentry_programs as programs  # noqa: E402
import results  # noqa: E402

from cresset import _C  # noqa: E402


def entered(function, make_args):
    """[(n, outcome)] of entering before the n-th instruction, for all there are."""
    found, n, taken = [], 0, [True]
    while taken and n < 3000:
        args, taken = make_args(), []

        def reenter(*args):
            return _C._reenter(function, args, {}, n, taken)
        found.append((n, programs.outcome(reenter, args)))
        n += 1
    return found


def check(function, make_args):
    """How many entries were right, and the wrong ones in words."""
    plain = programs.outcome(function, make_args())
    every = entered(function, make_args)
    wrong = [f"{function.__name__} entered before instruction {n}: {shown} instead of {plain}"
             for n, shown in every if shown != plain]
    return len(every) - len(wrong), wrong


def main():
    passed, wrong = 0, []
    chosen = results.chosen("reentry", programs.PROGRAMS, sys.argv[1:], lambda p: p[0].__name__)
    for function, make_args in chosen:
        right, found = check(function, make_args)
        passed += right
        wrong += found
    for line in wrong[:20]:
        print(line)
    return results.end("reentry", passed, len(wrong), functions=len(chosen), python=sys.version.split()[0])


if __name__ == "__main__":
    sys.exit(main())
