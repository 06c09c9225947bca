"""Entering frames in the middle: every function of tests/py/capture/reentry_programs.py is left before each of its
instructions and entered again in a frame of its own, with locals, stack, instruction pointer and the exception being
handled written back (`_C._reenter`). What it shows (result, exception, traceback lines, arguments afterwards) must be
plain Python's. Writes results/reentry.json. A word chooses functions by name."""
import dis
import functools
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "py" / "capture")]
import reentry_programs as programs  # noqa: E402
import results  # noqa: E402

from cresset import _C  # noqa: E402


@functools.lru_cache(maxsize=None)
def depths(code):
    """{unit: entries on the stack before it}, by following every way through the code."""
    instructions = list(dis.get_instructions(code))
    at = {i.offset: (i, following) for i, following in zip(instructions, instructions[1:] + [None])}
    found, todo = {}, [(0, 0)]
    handlers = dis._parse_exception_table(code)
    while todo:
        offset, depth = todo.pop()
        if offset in found:
            assert found[offset] == depth, (code.co_name, offset)
            continue
        found[offset] = depth
        todo += [(h.target, h.depth + h.lasti + 1) for h in handlers if h.start <= offset < h.end]
        i, following = at[offset]
        jumps = i.opcode in dis.hasjrel or i.opcode in dis.hasjabs
        if jumps:
            todo.append((i.argval, depth + dis.stack_effect(i.opcode, i.arg, jump=True)))
        ends = i.opname in ("RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE") or (
            i.opname.startswith("JUMP_") and "_IF_" not in i.opname)
        if following and not ends:
            todo.append((following.offset, depth + dis.stack_effect(i.opcode, i.arg, jump=False if jumps else None)))
    return {offset // 2: depth for offset, depth in found.items()}


def reenter(function, args, kwargs, n, entered, error=None):
    """function(*args, **kwargs), its frame left and entered again before its n-th instruction, if there is one."""
    return _C._reenter(function, args, kwargs, n, entered, depths(function.__code__), error)


def entered(function, make_args):
    """[(n, outcome)] of entering before the n-th instruction, for all there are."""
    found, n, taken = [], 0, [True]
    while taken and n < 3000:
        args, taken = make_args(), []

        def run(*args):
            return reenter(function, args, {}, n, taken)
        found.append((n, programs.outcome(run, args)))
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
