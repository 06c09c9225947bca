"""What is checked of a program that is exported by both libraries; each function gives None, or how the two differ.

    ours = export("cresset", name)               # the ExportedProgram of one program; theirs: export("torch", name)
    signature(name, ours, theirs)                # kinds, names and targets of inputs and outputs
    ranges(name, ours, theirs)                   # sizes of the inputs, and the ranges of their symbols
    operations(name, ours, path)                 # the graphs, op for op
    loaded(name, path)                           # the archive saved here, run and exported again by PyTorch
"""
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "interop")]
import agreement  # noqa: E402
import both  # noqa: E402
import checking  # noqa: E402
import cresset  # noqa: E402
import op_agreement  # noqa: E402
import torch  # noqa: E402


def export(library, name):
    """The program in the training dialect; the calls' own random numbers are drawn before."""
    programs = both.load(library)
    return programs.export(programs.TABLE[name])


# ---- signatures ----

def spec(one):
    """One row of a signature, in plain terms."""
    kind, arg = one.kind.name, one.arg
    value = getattr(arg, "value", None)
    return (kind, type(arg).__name__, arg.name if type(arg).__name__ != "ConstantArgument" else repr(value),
            one.target, getattr(one, "persistent", None))


# PyTorch numbers names over values that it drops later on; here these programs give the same outputs under another
# number.
NUMBERED_OTHERWISE = {"symbolic_arithmetic", "boolean_mask", "unique_size", "masks_of_dynamic"}


def signature(name, ours, theirs):
    for what in ("input_specs", "output_specs"):
        mine, wanted = ([spec(one) for one in getattr(ep.graph_signature, what)] for ep in (ours, theirs))
        if what == "output_specs" and name in NUMBERED_OTHERWISE:
            mine, wanted = ([(*row[:2], re.sub(r"_\d+$", "", row[2]), *row[3:]) for row in rows] for rows in (mine,
                    wanted))
        if mine != wanted:
            at = next((i for i, (a, b) in enumerate(zip(mine, wanted)) if a != b), min(len(mine), len(wanted)))
            return (f"{what}[{at}]: {wanted[at:at + 1]} expected, got {mine[at:at + 1]} ({len(wanted)} and {len(mine)} "
                    f"rows)")
    return None


# ---- sizes ----

def shapes(ep):
    """{placeholder: [size]}: numbers, or texts of expressions."""
    found = {}
    for node in ep.graph.nodes:
        value = node.meta.get("val") if node.op == "placeholder" else None
        if hasattr(value, "shape"):
            found[node.name] = [size if isinstance(size, int) else str(size).replace(" ", "") for size in value.shape]
    return found


def ranges(name, ours, theirs):
    """Equal up to the names of symbols, which are numbered in the order of the placeholders."""
    mine, wanted = ({name: (sizes, found) for name, sizes, found in named_sizes(ep)} for ep in (ours, theirs))
    if mine != wanted:
        name = next(name for name in wanted if wanted[name] != mine.get(name))
        return f"sizes of {name}: {wanted[name]} expected, got {mine.get(name)}"
    return None


def named_sizes(ep):
    names = {}
    limits = {str(symbol).replace(" ", ""): (float(r.lower) if abs(r.lower) < 1 << 62 else "-inf",
                                             float(r.upper) if r.upper < 1 << 62 else "inf")
              for symbol, r in ep.range_constraints.items()}
    for name, sizes in shapes(ep).items():
        shown = []
        for size in sizes:
            if isinstance(size, int):
                shown.append(size)
                continue
            for symbol in re.findall(r"[su]\d+", size):
                names.setdefault(symbol, f"n{len(names)}")
            shown.append(re.sub(r"[su]\d+", lambda m: names[m[0]], size))
        yield name, shown, [limits.get(size) for size in sizes if isinstance(size, str)]


# ---- graphs ----

def operations(name, ours, path):
    """`path`: the archive of PyTorch's program. The few programs that differ on purpose are named, with the reason, in
    op_agreement.py and docs/differences.md."""
    if name in op_agreement.KNOWN:
        return None
    return op_agreement.difference(ours._program.graph._data(), cresset.export.load(path)._program.graph._data())


# ---- the archive, there ----

def loaded(name, path, archive):
    """PyTorch loads, runs and exports again what was saved here. `archive`: its own calls and results
    (checking.make)."""
    ep = torch.export.load(path)
    module = ep.module()
    wanted, written = checking.run_torch(module, archive.calls)
    for number, pair in enumerate(zip(archive.wanted, wanted)):
        problem = agreement.difference(*pair, archive.tolerance, f"call {number} there")
        if problem:
            return problem
    problem = agreement.difference(archive.written, written, archive.tolerance, "inputs after the calls there")
    return problem


def exported_again(name, path):
    """torch.export.export of the loaded module."""
    programs = both.load("torch")
    program = programs.TABLE[name]
    args, kwargs = program.calls()[0]
    dynamic = program.dynamic() if callable(program.dynamic) else program.dynamic
    with torch.no_grad():
        again = torch.export.export(torch.export.load(path).module(), args, kwargs, dynamic_shapes=dynamic)
    return None if again.graph_signature.user_inputs else "exported again, it has no inputs"
