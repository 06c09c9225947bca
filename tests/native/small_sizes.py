"""Does a library take every size that its archive's ranges allow? One archive, every symbol in turn at 0 and at 1.

PyTorch exports with sizes of 2 and more and writes "at least 2" where it was asked for nothing else, but runs what it wrote with 1 and with 0 as well.
So does the interpreter where the archive says so. What a compiler decides from the example's sizes would show here: as a range that is narrower than the
archive's, or as a wrong answer."""
import inspect
import json
import pathlib
import subprocess
import zipfile

import agreement
import checking
import cresset
import library
import programs_native
import torch
from torch.utils._pytree import tree_map


def export(p):
    """The program with every size dynamic that can be; None: none can."""
    args, kwargs = p.calls()[0]
    module = p.build()

    def spec(leaf):
        return {d: torch.export.Dim.AUTO for d in range(leaf.dim())} if isinstance(leaf, torch.Tensor) else None
    shapes = dict(tree_map(spec, inspect.signature(module.forward).bind(*args, **kwargs).arguments))
    with torch.no_grad():
        exported = torch.export.export(module, args, kwargs, dynamic_shapes=shapes)
    return exported if exported.range_constraints else None


def save(exported, path, least=0):
    """The archive, with the ranges' default lower end of 2 made `least`."""
    whole = pathlib.Path(path).with_suffix(".whole")
    torch.export.save(exported, whole)
    with zipfile.ZipFile(whole) as old, zipfile.ZipFile(path, "w") as new:
        for item in old.infolist():
            data = old.read(item.filename)
            if item.filename.endswith("models/model.json"):
                model = json.loads(data)
                for bounds in model["range_constraints"].values():
                    bounds["min_val"] = least if bounds["min_val"] == 2 else bounds["min_val"]
                data = json.dumps(model).encode()
            new.writestr(zipfile.ZipInfo(item.filename), data)
    whole.unlink()


def cut(value, symbols, size):
    """The value with `size` wherever one of the symbols stands for the size."""
    if not isinstance(value, torch.Tensor):
        return value
    for d, name in enumerate(symbols):
        if name == size[0]:
            value = value.narrow(d, 0, min(size[1], value.size(d)))
    return value.clone()


def attempt(function):
    try:
        return function(), None
    except Exception as error:
        return None, (str(error).splitlines() or [type(error).__name__])[0]


# What PyTorch takes and the library does not, and why that is as it should be.
EXPECTED = {
    ("index_put", 1): "an index of one row is repeated; the exported program says that the sizes are equal",
    ("in_place_chain", 0): "x[:2] of less than two rows; the exported program says that it has two", ("in_place_chain", 1): "x[:2]",
    ("cumulative", 0): "x[1:] and x[:-1] of nothing",
}


def differences(p, exported, path, sizes=(0, 1)):
    """[(symbol, size, how the library differs)], and the number of sizes compared: those that PyTorch takes as module and as exported program, with the
    same results, and the interpreter, too."""
    compiled = str(path) + ".so"
    done = subprocess.run(["cresset", "compile", str(path), "-o", compiled, "--target", "native"], capture_output=True, text=True, timeout=300)
    if done.returncode:
        return [("", 0, done.stderr.strip().splitlines()[-1])], 0
    call = p.calls()[0]
    found = checking.placeholders(exported, call)
    nodes = {node.name: node.meta["val"] for node in exported.graph.nodes if node.op == "placeholder"}
    shapes = [[str(n) for n in nodes[name].shape] if isinstance(leaf, torch.Tensor) else [] for name, leaf in found]
    problems, compared = [], 0
    for symbol in sorted({n for shape in shapes for n in shape if n in map(str, exported.range_constraints)}):
        for size in sizes:
            leaves = [cut(leaf, shape, (symbol, size)) for (_, leaf), shape in zip(found, shapes)]
            args, kwargs = torch.utils._pytree.tree_unflatten([leaf.clone() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves],
                                                              torch.utils._pytree.tree_flatten(call)[1])
            torch.manual_seed(checking.SEED)
            wanted, refused = attempt(lambda: agreement.plain(p.build()(*checking.copy(args), **checking.copy(kwargs)), torch.Tensor))
            torch.manual_seed(checking.SEED)
            itself, refused_again = attempt(lambda: agreement.plain(exported.module()(*checking.copy(args), **checking.copy(kwargs)), torch.Tensor))
            if refused or refused_again or agreement.difference(wanted, itself, p.tolerance, "PyTorch against itself") or (p.name, size) in EXPECTED:
                continue
            model, program = library.Model(compiled), cresset.export.load(str(path)).module()  # with state of their own
            again, names = torch.utils._pytree.tree_unflatten([checking.ours(leaf.clone()) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves],
                                                              torch.utils._pytree.tree_flatten(call)[1])
            cresset.manual_seed(checking.SEED)
            refused = attempt(lambda: program(*again, **names))[1]
            if refused:
                continue
            compared += 1
            model.seed(checking.SEED)
            got, refused = attempt(lambda: model(*map(programs_native.array, leaves)))
            if refused:
                problems.append((symbol, size, refused))
                continue
            want = list(agreement.leaves(wanted))
            if len(want) == len(got):
                got = [agreement.Tensor(w.dtype, g) if isinstance(w, agreement.Tensor) else g for w, g in zip(want, got)]
            problem = None if p.seed else agreement.difference(want, got, p.tolerance, "result")
            if problem:
                problems.append((symbol, size, problem))
    return problems, compared
