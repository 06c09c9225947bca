"""Small functions (tests/behaviour) run compiled and plain: result and which objects are one, what is left of the
arguments and globals, exceptions with the lines of their tracebacks, what is printed. Each with three worlds of other
values and sizes, each twice, and again with every guard missing once, with every graph failing, and with stamps that
are compared with the guards they stand for or say that everything changed; those that are captured whole also under
fullgraph=True. How each is captured (whole, with a break, plain; ops) is compared with
tests/behaviour/recorded.txt, so that a lost capture shows. Writes results/behaviour.json. Words choose programs by
name; --record writes the recorded file. --torch: the same programs on PyTorch's tensors and modules (how they are
captured is not compared), results/behaviour-torch.json."""
import collections
import contextlib
import io
import os
import pathlib
import sys
import traceback
import types
import warnings

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "behaviour")]
if "--torch" in sys.argv:
    os.environ["CRESSET_TESTED_LIBRARY"] = "torch"
import behaviour_programs  # noqa: E402
import behaviour_world as world  # noqa: E402
import results  # noqa: E402

import cresset  # noqa: E402
from cresset import _C  # noqa: E402

RECORDED = ROOT / "tests" / "behaviour" / "recorded.txt"


SWITCHES = ({}, {"miss_once": True}, {"fail_graphs": True}, {"stamps": "compare"}, {"stamps": "lie"})


def recorded(text):
    """What is compared of "kind entries ops" as recorded on 3.11. How many entries there are behind a break depends on
    what CPython calls there; from 3.13 on a comparison whose truth is asked for is in no graph. Later versions may have
    one graph where 3.11 breaks (locks in functools)."""
    if not text or not text.startswith("break"):
        return text
    kind, _, ops = text.split()
    return kind if sys.version_info >= (3, 13) else (kind, ops)


class Near:
    """Elements of PyTorch's, whose sums are in another order here."""

    def __init__(self, t):
        self.t = t.detach().clone()

    def __eq__(self, other):
        return world.cresset.allclose(self.t, other.t, rtol=1e-4, atol=1e-5, equal_nan=True)

    def __repr__(self):
        return str(self.t.tolist())


def elements(t):
    return Near(t) if world.LIBRARY == "torch" and t.is_floating_point() else t.detach().tolist()


def describe(value, seen):
    """A value as something to compare: class, contents, and which objects are one and the same."""
    if value is None or type(value) in (int, bool, float, complex, str, bytes, type(...)):
        return type(value).__name__, repr(value)
    if id(value) in seen:
        return "again", seen[id(value)][0]
    seen[id(value)] = len(seen), value
    if isinstance(value, world.cresset.Tensor):
        return type(value).__name__, str(value.dtype), tuple(value.shape), value.requires_grad, elements(value)
    if isinstance(value, types.FunctionType):
        cells = [describe(c.cell_contents, seen) for c in value.__closure__ or ()]
        return "function", value.__qualname__, describe(value.__defaults__, seen), cells
    if isinstance(value, (type, types.ModuleType)) or callable(value) and not hasattr(value, "__dict__"):
        return "named", getattr(value, "__name__", repr(type(value)))
    parts = []
    if isinstance(value, dict):
        parts = [(describe(k, seen), describe(v, seen)) for k, v in value.items()]
    elif isinstance(value, (list, tuple)):
        parts = [describe(v, seen) for v in value]
    elif isinstance(value, (set, frozenset)):
        parts = sorted(map(repr, value))
    elif isinstance(value, (range, slice)):
        parts = repr(value)
    slots = [(n, describe(getattr(value, n), seen)) for n in getattr(type(value), "__slots__", ()) if hasattr(value, n)]
    own = describe(value.__dict__, seen) if hasattr(value, "__dict__") else None
    return type(value).__name__, parts, slots, own


def chain(error):
    """The class, text and lines of an exception and of those behind it."""
    found = []
    while error is not None and len(found) < 5:
        lines = [(f.name, f.lineno) for f in traceback.extract_tb(error.__traceback__) if f.filename.startswith("<")]
        found.append((type(error).__name__, str(error), lines, error.__suppress_context__))
        error = error.__cause__ or error.__context__
    return found


def outcome(run, function, seed):
    args = world.arguments(seed)
    globals_ = function.__globals__
    globals_["COUNT"] = seed
    globals_["NAMES"] = {"u": 1 + seed}
    printed = io.StringIO()
    seen = {}
    with contextlib.redirect_stdout(printed), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        world.cresset.manual_seed(seed)
        try:
            shown = "returned", describe(run(*args), seen)
        except Exception as error:
            shown = "raised", chain(error)
    left = describe((args, globals_["COUNT"], globals_["NAMES"]), seen)
    return shown, left, sorted(n for n in globals_ if n.isupper()), world.cresset.is_grad_enabled(), printed.getvalue()


def check(function):
    """What it is captured as, and what differs, in words."""
    wrong, kind = [], None
    for switch in SWITCHES:
        _C._capture_switches(**switch)
        compiled = cresset.compile(function, backend="eager")
        for seed in (0, 1, 0, 2):
            plain, found = outcome(function, function, seed), outcome(compiled, function, seed)
            if plain != found:
                wrong.append(f"{function.__name__} {switch} seed {seed}:\n  {found}\n  instead of\n  {plain}")
        if _C._stale_stamps():
            wrong.append(f"{function.__name__} {switch}: stamps let {_C._stale_stamps()} calls pass that guards do not")
        if not switch:
            kind = captured_as(compiled)
    _C._capture_switches()
    if kind[0] == "whole" and not wrong:
        compiled = cresset.compile(function, backend="eager", fullgraph=True)
        for seed in (0, 1):
            if outcome(function, function, seed) != outcome(compiled, function, seed):
                wrong.append(f"{function.__name__} under fullgraph=True, seed {seed}")
    return kind, wrong


def captured_as(compiled):
    entries = compiled._entries()
    reasons = [e["reason"] for e in entries if e["reason"]]
    ops = max((e["ops"] for e in entries), default=0)
    resumed = any(e["resumes"] for e in entries)
    why = reasons[0].split(": ", 1)[1] if reasons else ""
    return ("break" if resumed else "plain") if reasons else "whole", len(entries), ops, why


def main():
    every = behaviour_programs.programs()
    chosen = results.chosen("behaviour", list(every), [a for a in sys.argv[1:] if a not in ("--record", "--torch")])
    compares, suffix = "--record" not in sys.argv and world.LIBRARY == "cresset", "-torch" * ("--torch" in sys.argv)
    known = dict(line.split(" ", 1) for line in RECORDED.read_text().splitlines()) if RECORDED.exists() else {}
    passed, wrong, kinds, reasons, found = 0, [], collections.Counter(), collections.Counter(), {}
    for name in chosen:
        kind, differences = check(every[name])
        kinds[kind[0]] += 1
        if kind[3]:
            reasons[kind[3].split("'")[0].split(":")[0][:60]] += 1
        found[name] = f"{kind[0]} {kind[1]} {kind[2]}"
        whole_later = kind[0] == "whole" and sys.version_info >= (3, 12)
        if compares and recorded(known.get(name)) != recorded(found[name]) and not whole_later:
            differences.append(f"{name} is captured as {found[name]!r}, recorded is {known.get(name)!r}: {kind[3]}")
        wrong += differences
        passed += not differences
    if "--record" in sys.argv:
        known.update(found)
        RECORDED.write_text("".join(f"{name} {known[name]}\n" for name in every if name in known))
    for line in wrong[:20]:
        print(line)
    print(f"{len(chosen)} functions:", ", ".join(f"{n} {k}" for k, n in kinds.most_common()))
    for reason, n in reasons.most_common(25):
        print(f"{n:5}  {reason}")
    return results.end("behaviour" + suffix, passed, len(wrong), functions=len(chosen), captured=dict(kinds),
                       reasons=dict(reasons))


if __name__ == "__main__":
    sys.exit(main())
