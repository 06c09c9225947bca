"""P1: an archive of PyTorch's, loaded here and saved here, is for PyTorch the program it was.

    problem = difference(path, copy)      # None, or the first thing that differs; `copy` is where it is written

The members of the two archives are compared, texts by their meaning and everything else byte for byte. Then both are
loaded by PyTorch and compared node by node: name, op, target, arguments, and what `meta` says of the value; signature,
ranges, call structure and guards; the weights byte for byte. Other tests may use the parts: `programs_differ` takes two
programs of PyTorch's.
"""
import json
import logging
import pathlib
import zipfile

import cresset
import cresset.export
import torch


def difference(path, copy):
    before = logging.root.manager.disable
    # PyTorch's warning that it unpickles a class of the user's is malformed and fails
    logging.disable(logging.CRITICAL)
    try:
        return found_difference(path, copy)
    finally:
        logging.disable(before)


def found_difference(path, copy):
    cresset.export.save(cresset.export.load(str(path)), str(copy))
    problem = archives_differ(path, copy)
    try:
        wanted = torch.export.load(path)
    # PyTorch cannot load what it has saved (a text as output): then the archives alone are compared
    except RuntimeError:
        return problem
    return problem or programs_differ(wanted, torch.export.load(copy))


def programs_differ(a, b):
    return (modules_differ(a.graph_module, b.graph_module) or differ("signature", a.graph_signature, b.graph_signature)
            or differ("range constraints", ranges(a), ranges(b)) or differ("module call graph", calls(a), calls(b))
            or differ("dialects", [v.dialect for v in a.verifiers], [v.dialect for v in b.verifiers])
            or differ("guards", getattr(a, "_guards_code", None), getattr(b, "_guards_code", None))
            or tensors_differ("state", a.state_dict, b.state_dict) or tensors_differ("constants", a.constants,
                    b.constants) or examples_differ(a, b))


def differ(what, a, b):
    return None if a == b else f"{what}: {str(a)[:300]} became {str(b)[:300]}"


def ranges(ep):
    return {str(symbol): (str(interval.lower), str(interval.upper))
            for symbol, interval in ep.range_constraints.items()}


def calls(ep):
    return [(entry.fqn, str(entry.signature)) for entry in ep.module_call_graph]


# ---- graphs ----

def modules_differ(a, b):
    names = [name for name, _ in a.named_modules()]
    problem = differ("subgraphs", names, [name for name, _ in b.named_modules()])
    for name in names if not problem else ():
        one, two = a.get_submodule(name), b.get_submodule(name)
        if isinstance(one, torch.fx.GraphModule):
            problem = problem or graphs_differ(one.graph, two.graph)
    return problem


def graphs_differ(a, b):
    one, two = list(a.nodes), list(b.nodes)
    problem = differ("nodes", [n.name for n in one], [n.name for n in two])
    for x, y in zip(one, two):
        problem = problem or node_differs(x, y)
    return problem


def node_differs(x, y):
    where = f"node {x.name}"
    problem = (differ(f"{where}: op", x.op, y.op) or differ(f"{where}: target", str(x.target), str(y.target))
               or differ(f"{where}: args", str(x.args), str(y.args)) or differ(f"{where}: kwargs", str(x.kwargs),
                       str(y.kwargs)))
    for key in ("stack_trace", "nn_module_stack", "torch_fn", "source_fn_stack", "custom"):
        problem = problem or differ(f"{where}: {key}", str(x.meta.get(key)), str(y.meta.get(key)))
    return problem or values_differ(where, x.meta.get("val"), y.meta.get("val"))


def values_differ(where, a, b):
    if isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)) and len(a) == len(b):
        return (next((problem for i, (x, y) in enumerate(zip(a, b)) if (problem := values_differ(f"{where}[{i}]", x,
                y))), None))
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        return (differ(f"{where}: dtype", a.dtype, b.dtype) or differ(f"{where}: device", a.device, b.device)
                or differ(f"{where}: requires_grad", a.requires_grad, b.requires_grad)
                or numbers_differ(f"{where}: shape", a.shape, b.shape)
                or numbers_differ(f"{where}: stride", a.stride(), b.stride()) or numbers_differ(f"{where}: offset",
                        [a.storage_offset()], [b.storage_offset()]))
    return numbers_differ(where, [a], [b])


def numbers_differ(where, a, b):
    """Symbolic ones are equal when their difference is 0: an expression that was simplified in two ways is one."""
    for x, y in zip(a, b):
        x, y = getattr(getattr(x, "node", x), "expr", x), getattr(getattr(y, "node", y), "expr", y)
        if str(x) != str(y) and not (hasattr(x, "expand") and hasattr(y, "expand") and x.expand().equals(y.expand())):
            return f"{where}: {list(a)} became {list(b)}"
    return None if len(a) == len(b) else f"{where}: {list(a)} became {list(b)}"


# ---- tensors ----

def raw(tensor):
    tensor = tensor.detach()
    stored = torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage())
    return (stored.numpy().tobytes(), tensor.dtype, tuple(tensor.shape), tensor.stride(), tensor.storage_offset(),
            type(tensor))


def tensors_differ(what, a, b):
    problem = differ(f"{what}: names", list(a), list(b))
    first = {name: next(other for other in a if a[other].untyped_storage()._cdata == a[name].untyped_storage()._cdata)
             for name in a}
    for name in a if not problem else ():
        problem = problem or (None if raw(a[name]) == raw(b[name]) else f"{what}: '{name}' has other bytes, another "
                              f"layout or class")
        if a[name].numel() and b[name].untyped_storage()._cdata != b[first[name]].untyped_storage()._cdata:
            problem = problem or f"{what}: '{name}' and '{first[name]}' are not tied any more"
        problem = problem or differ(f"{what}: requires_grad of '{name}'", a[name].requires_grad, b[name].requires_grad)
    return problem


def examples_differ(a, b):
    one, spec = torch.utils._pytree.tree_flatten(a.example_inputs)
    two, other = torch.utils._pytree.tree_flatten(b.example_inputs)
    problem = differ("structure of the example inputs", spec, other)
    for x, y in zip(one, two):
        same = raw(x) == raw(y) if isinstance(x, torch.Tensor) else x == y
        problem = problem or (None if same else "the example inputs differ")
    return problem


# ---- containers ----

def members(path):
    """Names below the top folder, in order, with the offset of their data modulo the alignment."""
    with zipfile.ZipFile(path) as file:
        found = {}
        for info in file.infolist():
            file.fp.seek(info.header_offset + 26)
            name, extra = (int.from_bytes(file.fp.read(2), "little") for _ in range(2))
            found[info.filename.split("/", 1)[1]] = (info.compress_type, (info.header_offset + 30 + name + extra) % 64)
        return found


def archives_differ(a, b):
    """The same members in the same order, stored and aligned; the same configs."""
    one, two = members(a), members(b)
    problem = differ("members", list(one), list(two)) or differ("how members are stored", set(one.values()),
                                                                set(two.values()))
    with zipfile.ZipFile(a) as x, zipfile.ZipFile(b) as y:
        tops = [pathlib.PurePath(file.namelist()[0]).parts[0] for file in (x, y)]
        for name in one if not problem else ():
            if name.endswith(".json"):
                was, now = json.loads(x.read(f"{tops[0]}/{name}")), json.loads(y.read(f"{tops[1]}/{name}"))
                problem = problem or texts_differ(name, was, now)
            elif name != ".data/serialization_id":
                problem = problem or (None if x.read(f"{tops[0]}/{name}") == y.read(f"{tops[1]}/{name}")
                                      else f"member {name} differs")
    return problem


def texts_differ(where, a, b):
    """The same JSON, up to the order of keys: where it is not."""
    if isinstance(a, dict) and isinstance(b, dict):
        problem = differ(f"{where}: keys", set(a), set(b))
        return problem or next((found for key in a if (found := texts_differ(f"{where}.{key}", a[key], b[key]))), None)
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        return next((found for i, (x, y) in enumerate(zip(a, b)) if (found := texts_differ(f"{where}[{i}]", x, y))),
                    None)
    return differ(where, a, b)
