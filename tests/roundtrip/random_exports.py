"""Random programs with random dynamic sizes, exported here: at sizes inside of its ranges the exported program gives
what the module gives, outside it refuses.

A program comes from its number (tests/native/random_programs.py with `torch` bound to Cresset); a size of an input is
static, left to export (Dim.AUTO), or a named Dim with a range of its own. Where export says that a Dim cannot hold and
what to write instead, that is written and must work.
"""
import copy
import pathlib
import random
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "interop"), str(HERE.parent / "native")]
import agreement  # noqa: E402
import both  # noqa: E402
import cresset  # noqa: E402
from cresset.export import Dim  # noqa: E402

LARGEST, TRIALS = 24, 5


def choose(program, r):
    """A specification of the sizes, by argument name."""
    names = {}

    def one(d, size):
        kind = r.choices(("auto", "static", "named"), (70, 15, 15))[0]
        if kind == "static" or size < 2:
            return None
        if kind == "auto":
            return Dim.AUTO
        return names.setdefault(size, Dim(f"d{len(names)}", min=r.choice((1, 2)), max=r.choice((40, 100))))

    return {f"x{i}": {d: one(d, size) for d, size in enumerate(a.shape)} for i, a in enumerate(program.args)}


def export(program, spec):
    """The exported program and the specification that it accepted."""
    for _ in range(4):
        try:
            return cresset.export.export(copy.deepcopy(program.module), program.args, dynamic_shapes=spec)
        except cresset._dynamo.exc.UserError as error:
            if "Suggested fixes:" not in str(error):
                raise
            spec = cresset.export.dynamic_shapes.refine_dynamic_shapes_from_suggested_fixes(str(error), spec)
    raise AssertionError(f"four suggested fixes in a row were not enough: {spec}")


def sizes(ep):
    """[[number or text of an expression]] of the user's inputs."""
    wanted = set(ep.graph_signature.user_inputs)
    return [[s if isinstance(s, int) else str(s) for s in node.meta["val"].shape] for node in ep.graph.nodes
            if node.op == "placeholder" and node.name in wanted]


def drawn(ep, r):
    """Values for the symbols, each in its range and not large."""
    found = {}
    for symbol, limits in ep.range_constraints.items():
        if str(symbol).isidentifier():
            low = max(0, int(limits.lower))
            found[str(symbol)] = r.randint(low, max(low, min(LARGEST, limits.upper)))
    return found


def arguments(program, shapes, r):
    cresset.manual_seed(r.randrange(1 << 30))

    def one(a, shape):
        if a.is_floating_point():
            return cresset.randn(shape).to(a.dtype)
        return cresset.randint(0, 2 if a.dtype is cresset.bool else 5, shape).to(a.dtype)
    return tuple(map(one, program.args, shapes))


def outcome(module, args):
    """Results and arguments after the call, plain; or the error."""
    args = tuple(a.clone() for a in args)
    try:
        return agreement.plain([list(module(*args)), list(args)], cresset.Tensor)
    except Exception as error:
        return error


def inside(program, ep, r):
    """Sizes that the ranges allow: the same results, or a guard of the program that says no where it must."""
    module, fresh = ep.module(), copy.deepcopy(program.module)
    accepted = 0
    texts = sizes(ep)
    for trial in range(TRIALS + 1):
        values = drawn(ep, r)
        shapes = ([[s if isinstance(s, int) else int(eval(s, {"Max": max, "Min": min, "Mod": lambda a, b: a % b},
                                                          values)) for s in row] for row in texts])
        args = program.args if trial == 0 else arguments(program, shapes, r)
        mine = outcome(module, args)
        if isinstance(mine, RuntimeError) and "holds only where" in str(mine) and trial:
            continue  # a condition between sizes
        wanted = outcome(fresh, args)
        if isinstance(wanted, Exception) and type(mine) is type(wanted):
            continue  # an index that is too large for these sizes
        if isinstance(wanted, Exception) or isinstance(mine, Exception):
            return f"sizes {shapes}: the module gives {wanted!r}, the exported program {mine!r}", accepted
        problem = agreement.difference(wanted, mine, program.tolerance, f"sizes {shapes}")
        if problem:
            return problem, accepted
        accepted += trial > 0
    return None, accepted


def outside(program, ep, r):
    """A size that the program is not for."""
    texts, ranges = sizes(ep), {str(symbol): limits for symbol, limits in ep.range_constraints.items()}
    places = [(i, d) for i, row in enumerate(texts) for d, s in enumerate(row) if isinstance(s, int) or s in ranges
              and ranges[s].upper < 1000]
    if not places:
        return None
    i, d = r.choice(places)
    shapes = [list(a.shape) for a in program.args]
    shapes[i][d] = shapes[i][d] + 1 if isinstance(texts[i][d], int) else int(ranges[texts[i][d]].upper) + 1
    got = outcome(ep.module(), arguments(program, shapes, r))
    if isinstance(got, (AssertionError, RuntimeError, ValueError)) and any(f"x{k}" in str(got)
            for k in range(len(program.args))):
        return None
    return f"sizes {shapes} (size {d} of x{i} is {texts[i][d]}): not refused by name: {got!r}"[:600]


def check(number):
    """(outcome, text): equal, or differs; with the number of sizes that were accepted."""
    program = both.random_programs("cresset").grow(number)
    r = random.Random(number)
    spec = choose(program, r)
    try:
        ep = export(program, spec)
        problem, accepted = inside(program, ep, r)
        problem = problem or outside(program, ep, r)
    except Exception as error:
        problem, accepted = f"{type(error).__name__}: {error}", 0
    if problem:
        return ("differs", f"{problem}\n{program.source}\n{[(tuple(a.shape), a.dtype) for a in program.args]}\n{spec}",
                accepted)
    return "equal", "", accepted
