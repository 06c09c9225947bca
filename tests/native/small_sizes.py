"""Does a program serve every size that PyTorch's serves? One program, every size that can vary in turn at 0, 1, 2 and
two others.

What PyTorch does is measured: the module called eagerly, and the exported program loaded from its file. Where the two
agree, ours must give that answer: exported there or here, from memory and from the file, interpreted and compiled, with
the interpreter's strides. Where PyTorch's program refuses a size, or gives another answer than its module, ours refuses
it or gives the module's answer.
"""
import dataclasses
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / folder) for folder in ("native", "interop", "roundtrip")]
import agreement  # noqa: E402
import both  # noqa: E402
import checking  # noqa: E402
import cresset  # noqa: E402
import library  # noqa: E402
import numpy  # noqa: E402
import programs_native  # noqa: E402
import torch  # noqa: E402
from torch.utils import _pytree as pytree  # noqa: E402

WAYS = ("AUTO", "named")  # every size by Dim.AUTO; as the program's own dynamic_shapes say

# PyTorch itself ends the process.
CRASHES = {("embedding_bag_offsets", 0): "no bags"}

# Rows that are repeated to make an input longer are no input for it.
SHORTER_ONLY = {"embedding_bag_offsets": "offsets never decrease", "sorting": "equal elements have no order"}

# What PyTorch takes and ours does not, and why that is as it should be.
EXPECTED = {
    **{(name, symbol): "values of another length than keys: PyTorch reads beyond them" for name in ("sdpa_causal",
            "sdpa_grouped", "sdpa_masks") for symbol in ("s49", "s69")},
    ("pixel_shuffle", 0): "PyTorch's pixel_unshuffle leaves a tensor without elements as it is, and its own exported "
    "program refuses it",
}

# Compiled code writes these results in rows, where PyTorch's layers give a permuted view.
IN_ROWS = ("lstm", "gru", "rnn", "sdpa", "channels_last")


@dataclasses.dataclass
class Case:
    symbol: str
    size: int
    leaves: list            # of (args, kwargs)
    wanted: object          # the module's results, plain; None: it refuses this size
    exported: str           # the exported program there: "same", "refused" or "differs"


def shapes_of(t, p, way):
    """dynamic_shapes of a program of either library."""
    if way == "named":
        return p.dynamic() if callable(p.dynamic) else p.dynamic
    shapes, flatten = t.export.ShapesCollection(), (pytree if t is torch else cresset.utils._pytree).tree_flatten
    for leaf in flatten(p.example)[0]:
        if isinstance(leaf, t.Tensor) and leaf.dim():
            shapes[leaf] = {d: t.export.Dim.AUTO for d in range(leaf.dim())}
    return shapes


def export(t, p, way):
    """None: no size of it can vary."""
    p.example = args, kwargs = p.calls()[0]
    with t.no_grad():
        exported = t.export.export(p.build(), args, kwargs, dynamic_shapes=shapes_of(t, p, way))
    return exported if any(str(symbol)[0] != "u" for symbol in exported.range_constraints) else None


# ---- PyTorch ----

def attempt(function):
    torch.manual_seed(checking.SEED)
    cresset.manual_seed(checking.SEED)
    try:
        with torch.no_grad():
            return function(), None
    except Exception as error:
        return None, (str(error).splitlines() or [type(error).__name__])[0]


def resized(leaf, shape):
    """The tensor with these sizes; rows are repeated where there are more than it has. Strides keep their order."""
    for d, size in enumerate(shape):
        if size != leaf.size(d):
            leaf = leaf.index_select(d,
                    torch.arange(size) % max(leaf.size(d), 1)) if leaf.size(d) else leaf.new_zeros([*leaf.shape[:d],
                            size, *leaf.shape[d + 1:]])
    return leaf.clone()


def others(example):
    return sorted({0, 1, 2, example + 1, 2 * example + 1} - {example})


def cases(p, exported, loaded):
    """What PyTorch does with the sizes. `loaded`: the exported program, from its file."""
    call = p.calls()[0]
    found, spec = checking.placeholders(exported, call), pytree.tree_flatten(call)[1]
    nodes = {node.name: node.meta["val"] for node in exported.graph.nodes if node.op == "placeholder"}
    texts = [[str(size) for size in nodes[name].shape] if isinstance(leaf, torch.Tensor) else []
             for name, leaf in found]
    examples = {text: leaf.size(d) for row, (_, leaf) in zip(texts, found) for d, text in enumerate(row)
                if text in map(str, exported.range_constraints)}
    symbols = {name: examples.get(name) or 2 for name in {str(s) for e in exported.range_constraints
                                                          for s in e.free_symbols} if name[0] != "u"}
    made, module = [], loaded.module()
    for symbol in sorted(symbols):
        if not any(symbol in text for row in texts for text in row):
            continue
        for size in others(symbols[symbol]):
            if (p.name, size) in CRASHES or (p.name in SHORTER_ONLY and size > symbols[symbol]):
                continue
            values = {**symbols, symbol: size}
            sizes = [[int(eval(text, {}, values)) for text in row] for row in texts]
            if any(number < 0 for row in sizes for number in row):
                continue
            leaves = [resized(leaf, row) if isinstance(leaf, torch.Tensor) else leaf for (_, leaf), row in zip(found,
                    sizes)]
            args, kwargs = pytree.tree_unflatten(leaves, spec)
            wanted, refused = attempt(lambda: agreement.plain(p.build()(*checking.copy(args), **checking.copy(kwargs)),
                                                              torch.Tensor))
            module = loaded.module() if loaded.graph_signature.buffers else module  # calls may change them
            itself, no = attempt(lambda: agreement.plain(module(*checking.copy(args), **checking.copy(kwargs)),
                                                         torch.Tensor))
            same = refused or no or agreement.difference(wanted, itself, p.tolerance, "")
            made.append(Case(symbol, size, leaves, None if refused else wanted, "refused" if no else "same" if not same
                             or p.seed else "differs"))
    return made


# ---- ours ----

class Interpreted:
    """`call`: an example, for the structure of the arguments; `trees`: the library's that it is of."""

    states = {}  # of exported programs before their first run: modules share them

    def __init__(self, exported, call, trees=pytree):
        kept = self.states.setdefault(id(exported),
                                      {name: tensor.detach().clone() for name, tensor in exported.state_dict.items()})
        for name, tensor in exported.state_dict.items():
            tensor.detach().copy_(kept[name])
        self.module, self.trees, self.spec = exported.module(), trees, trees.tree_flatten(call)[1]

    def __call__(self, leaves):
        args, kwargs = self.trees.tree_unflatten([checking.ours(leaf.clone()) if isinstance(leaf, torch.Tensor)
                                                  else leaf for leaf in leaves], self.spec)
        results = cresset.utils._pytree.tree_flatten(self.module(*args, **kwargs))[0]
        self.strides = [result.stride() if isinstance(result, cresset.Tensor) else None for result in results]
        return list(agreement.leaves(agreement.plain(results, cresset.Tensor)))


class Compiled:
    def __init__(self, path):
        self.model = library.Model(path)

    def __call__(self, leaves):
        self.model.seed(checking.SEED)
        # a run may write them
        results = self.model(*[programs_native.array(leaf.clone() if isinstance(leaf, torch.Tensor) else leaf)
                               for leaf in leaves])
        self.strides = [tuple(s // r.itemsize for s in r.strides) if hasattr(r, "strides") else None for r in results]
        return results


def strides_of(run, results):
    """Of dimensions that have one; None for results with gaps, which compiled code packs."""
    found = []
    for strides, result in zip(run.strides, results):
        pairs = [(s, n) for s, n in zip(strides or (), numpy.shape(getattr(result, "array", result))) if n != 1]
        found.append([s for s, _ in pairs]
                if 1 + sum(s * (n - 1) for s, n in pairs) == numpy.prod([n for _, n in pairs], dtype=int) else None)
    return found


def difference(p, case, runs):
    """None, or how ours differs at one size. `runs`: {how: what makes a fresh one}."""
    want = list(agreement.leaves(case.wanted)) if case.wanted is not None else None
    for how, make in runs.items():
        got, refused = attempt(lambda: make()(case.leaves))
        if refused:
            if want is not None and case.exported == "same":
                return f"{how}: {refused}"
            continue
        if want is None or p.seed:
            continue
        if len(want) == len(got):
            got = [agreement.Tensor(w.dtype, getattr(g, "array", g)) if isinstance(w, agreement.Tensor)
                   and not isinstance(g, (int, float, str)) else g
                   for w, g in zip(want, got)]
        problem = agreement.difference(want, got, p.tolerance, how)
        # the archive says something else than the module
        if problem and not (case.exported == "differs" and "there" in how):
            return problem
    return None


def other_strides(p, runs):
    """None, or how strides of compiled results differ from those of the interpreted run before it, at the example. (At
    other sizes they are the example's kind.)"""
    before = None
    for how, make in runs.items():
        run = make()
        got, refused = attempt(lambda: run(checking.flat(p.calls()[0])))
        if refused:
            return f"{how}: {refused}"
        before, strides = strides_of(run, got), before
        if "compiled" in how and not any(word in p.name for word in IN_ROWS) and any(a != b for a, b in zip(before,
                strides) if b):
            return f"{how}: strides {before}, interpreted {strides}"
    return None


def differences(p, made, runs):
    """([(symbol, size, how ours differs)], sizes at which PyTorch agrees with itself)"""
    problem = other_strides(p, runs)
    if problem:
        return [("", "the example", problem)], 0
    judged = [case for case in made if not {(p.name, case.size), (p.name, case.symbol)} & set(EXPECTED)]
    problems = [(case.symbol, case.size, problem) for case in judged if (problem := difference(p, case, runs))]
    return problems, sum(case.exported == "same" and case.wanted is not None for case in made)


def compiled(source, folder, name):
    """A library of an archive, or of a program in memory."""
    path = str(pathlib.Path(folder) / f"{name}.so")
    if isinstance(source, cresset.export.ExportedProgram):
        return cresset.aot_compile(source, options={"output_path": path})
    done = subprocess.run(["cresset", "compile", str(source), "-o", path], capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return path


def from_file(where, path, folder, call, trees=pytree):
    """How an archive is run."""
    library_, program = compiled(path, folder, where), cresset.export.load(path)
    return {f"exported {where}, file, interpreted": lambda: Interpreted(program, call, trees),
            f"exported {where}, file, compiled": lambda: Compiled(library_)}


def example(p):
    """A call and the pytree library that it is of. Classes of arguments are those that were registered here, where the
    program is known here."""
    ours = both.load("cresset").TABLE.get(p.name)
    return (ours.calls()[0], cresset.utils._pytree) if ours else (p.calls()[0], pytree)


def exported_here(p, way, dialect, folder):
    """The same program exported here, and how it is run; None: no size of it can vary."""
    ours, trees = both.load("cresset").TABLE[p.name], cresset.utils._pytree
    ep = export(cresset, ours, way)
    if ep is None:
        return None
    if dialect == "core":
        ep = ep.run_decompositions()
    library_, path = compiled(ep, folder, "memory"), pathlib.Path(folder) / "here.pt2"
    cresset.export.save(ep, path)
    return {"exported here, memory, interpreted": lambda: Interpreted(ep, ours.example, trees),
            "exported here, memory, compiled": lambda: Compiled(library_),
            **from_file("here", path, folder, ours.example, trees)}
