"""Runs one archive in the two ways a user has, and compares with what PyTorch gave.

    archive = make(program, "core", folder)     # exports, saves, and keeps PyTorch's results beside it
    problem = by_module(archive)                 # None, or how it differs
    problem = by_tool(archive, folder)

PyTorch's side of a program is its module called eagerly; where it draws random numbers, the exported program called
from the same seed, because decompositions draw in their own order.
"""
import dataclasses
import json
import pathlib
import re
import subprocess

import agreement
import cresset
import numpy
import programs
import torch

SEED = 20240229


@dataclasses.dataclass
class Archive:
    name: str
    dialect: str
    path: pathlib.Path
    calls: list        # [(args, kwargs)], torch's
    wanted: list       # the results of the calls, plain
    written: list      # the calls' tensors after them, plain
    inputs: list       # per call: [(placeholder, value)], the user's inputs that the graph takes
    tolerance: float | None = None
    constant: bool = False
    seed: bool = False


def copy(value):
    """The calls' arguments with tensors of their own."""
    return torch.utils._pytree.tree_map(lambda leaf: leaf.clone() if isinstance(leaf, torch.Tensor) else leaf, value)


def flat(value):
    return torch.utils._pytree.tree_flatten(value)[0]


def make(p, dialect, folder, exported=None):
    """`exported`: the program in the training dialect, where it was exported already."""
    ep = exported or programs.export(p)
    if dialect == "core":
        ep = ep.run_decompositions()
    forget_paths(ep)
    path = pathlib.Path(folder) / f"{p.name}.{dialect}.pt2"
    torch.export.save(ep, path)
    calls = p.calls()
    reference = ep.module() if p.seed else p.build()
    wanted, written = run_torch(reference, calls)
    archive = Archive(p.name, dialect, path, calls, wanted, written, [], p.tolerance, p.constant, p.seed)
    archive.inputs = [placeholders(ep, call) for call in calls]
    return archive


def run_torch(module, calls):
    wanted, written = [], []
    with torch.no_grad():
        for call in calls:
            args, kwargs = copy(call)
            torch.manual_seed(SEED)
            wanted.append(agreement.plain(module(*args, **kwargs), torch.Tensor))
            written.append(agreement.plain(flat((args, kwargs)), torch.Tensor))
    return wanted, written


def placeholders(ep, call):
    specs = [spec for spec in ep.graph_signature.input_specs
             if spec.kind is torch.export.graph_signature.InputKind.USER_INPUT]
    return [(spec.arg.name, leaf) for spec, leaf in zip(specs, flat(call))]


def forget_paths(ep):
    """Stack traces name files of this machine: only the file's own name is kept."""
    for module in ep.graph_module.modules():
        for node in getattr(getattr(module, "graph", None), "nodes", ()):
            trace = node.meta.get("stack_trace")
            if trace:
                node.meta["stack_trace"] = re.sub(r'File "[^"]*/', 'File "', trace)


# ---- by module() ----

def ours(value):
    return torch.utils._pytree.tree_map(lambda leaf: cresset.from_dlpack(leaf) if isinstance(leaf, torch.Tensor)
                                        else leaf, value)


def by_module(archive, ways=None):
    module = (ways or cresset.export.load)(archive.path).module()
    for number, (call, wanted, written) in enumerate(zip(archive.calls, archive.wanted, archive.written)):
        args, kwargs = ours(copy(call))
        cresset.manual_seed(SEED)
        got = agreement.plain(module(*args, **kwargs), cresset.Tensor)
        problem = agreement.difference(wanted, got, archive.tolerance, f"call {number}")
        problem = problem or agreement.difference(written, agreement.plain(flat((args, kwargs)), cresset.Tensor),
                                                  archive.tolerance, f"inputs after call {number}")
        if problem:
            return problem
    return None


def constant_outputs(archive):
    if not archive.constant and not any(map(agreement.varies, archive.wanted)):
        return "every output holds one value only: the program shows nothing (say constant=True where that is meant)"
    return None


# ---- by the tool ----

def save_inputs(path, inputs):
    """Tensors and numbers as arrays (bfloat16 as raw bytes); None and texts are left to the archive, which has them."""
    arrays = {}
    for name, value in inputs:
        if isinstance(value, torch.Tensor):
            value = value.detach().resolve_conj().resolve_neg()
            arrays[name] = (value.contiguous().view(torch.uint16).numpy().view("V2") if value.dtype is torch.bfloat16
                            else value.numpy())
        elif isinstance(value, (bool, int, float)):
            arrays[name] = numpy.array(value)
    numpy.savez(path, **arrays)


def by_tool(archive, folder, tool="cresset"):
    folder = pathlib.Path(folder)
    command = [tool, "run", str(archive.path)]
    for number, inputs in enumerate(archive.inputs):
        path = folder / f"{archive.name}.{archive.dialect}.in{number}.npz"
        save_inputs(path, inputs)
        command += ["--inputs", str(path)]
    out = folder / f"{archive.name}.{archive.dialect}.out_%d.npz"
    for old in folder.glob(out.name.replace("%d", "*")):
        old.unlink()
    done = subprocess.run([*command, "-o", str(out), "--seed", str(SEED)], capture_output=True, text=True, timeout=300)
    if done.returncode:
        return f"exit code {done.returncode}: {done.stderr.strip().splitlines()[-1] if done.stderr.strip() else ''}"
    for number, wanted in enumerate(archive.wanted):
        with numpy.load(str(out) % number, allow_pickle=False) as file:
            problem = tool_difference(wanted, dict(file), archive.tolerance, f"call {number}")
        if problem:
            return problem
    return None


def tool_difference(wanted, arrays, tolerance, where):
    """Outputs are flat: out0, out1, ..., numbers as 0-d arrays, bfloat16 widened; None and texts, which are no arrays,
    are left out but counted."""
    expected = {f"out{i}": leaf for i, leaf in enumerate(agreement.leaves(wanted)) if leaf is not None
                and not isinstance(leaf, str)}
    if set(expected) != set(arrays):
        return f"{where}: the outputs {sorted(expected)} expected, got {sorted(arrays)}"
    for name, want in expected.items():
        array = arrays[name]
        if isinstance(want, agreement.Tensor):
            got = agreement.Tensor("bfloat16" if want.dtype == "bfloat16" else str(array.dtype), array)
            problem = agreement.difference(want, got, tolerance, f"{where} {name}")
        else:
            problem = (None if array.shape == () and array.item() == want
                       else f"{where} {name}: {want!r} expected, got {array!r}")
        if problem:
            return problem
    return None


def described(path, tool="cresset"):
    """What `cresset info --json` says."""
    return json.loads(subprocess.run([tool, "info", "--json", str(path)], capture_output=True, text=True,
                                     check=True).stdout)
