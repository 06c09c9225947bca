"""N2: a layer records the ops, with the arguments, that torch.export records for it; also on fakes with symbolic
sizes."""
import logging
import pathlib
import sys

import pytest

torch = pytest.importorskip("torch", reason="the ops that PyTorch's export records are found with it")
sys.path.insert(0, str(pathlib.Path(__file__).parent))
import cresset  # noqa: E402
from cresset import _C  # noqa: E402
from rows import LAYERS  # noqa: E402
from twin import evaluate, ours  # noqa: E402

# What torch.export itself refuses: branches on values, ops without a fake rule, and inputs that are no plain tensors.
REFUSED = ("BatchNorm1d(4, momentum=None)", "GaussianNLLLoss(full=True)", "CTCLoss", "AdaptiveLogSoftmaxWithLoss",
           "Lazy")
SKIPPED = ("aten.sym_", "_operator.", "aten._assert_tensor_metadata", "aten.detach")
# train() matters
MODAL = ("BatchNorm", "InstanceNorm", "Dropout", "RReLU", "RNN(", "LSTM(", "GRU(", "Transformer", "Multihead",
         "Sequential")


def exportable(line):
    values = "generate_square_subsequent_mask" in line and not line.startswith("TransformerDecoderLayer")
    return not (values or line.startswith(REFUSED) or "pack_" in line)


def literal(value):
    if isinstance(value, torch.fx.Node):
        return "%"
    return [literal(v) for v in value] if isinstance(value, (list, tuple)) else value


def theirs(layer, args):
    """[(op, {argument: literal})] of PyTorch's export, defaults filled in."""
    logging.disable(logging.ERROR)
    try:
        graph = torch.export.export(layer, args).graph
    finally:
        logging.disable(logging.NOTSET)
    found = []
    for node in graph.nodes:
        name = str(node.target)
        if node.op != "call_function" or not name.startswith("aten.") or name.startswith(SKIPPED):
            continue
        given = {}
        for i, parameter in enumerate(node.target._schema.arguments):
            if i < len(node.args):
                given[parameter.name] = literal(node.args[i])
            elif parameter.name in node.kwargs:
                given[parameter.name] = literal(node.kwargs[parameter.name])
        found.append((name, given, {p.name: literal(p.default_value) for p in node.target._schema.arguments
                                    if p.has_default_value()}))
    return found


def plain(arg):
    (kind, value), = arg.items() if arg else (("as_none", None),)
    if kind == "as_value":
        return "%"
    return [plain(v) for v in value] if kind == "as_list" else None if kind == "as_none" else value


def called(graph):
    """[(op, {argument: literal})] of one of our graphs."""
    found = []
    for node in graph.nodes:
        name = str(node["target"]).replace("::", ".")
        name += ".default" if name.count(".") == 1 else ""
        if node["kind"] == "call" and not name.startswith(SKIPPED):
            found.append((name, {a["name"]: plain(a["arg"]) for a in node["args"]}))
    return found


def leaves(value, found):
    if isinstance(value, cresset.Tensor):
        if not any(value is other for other in found):
            found.append(value)
    elif isinstance(value, (list, tuple)):
        for item in value:
            leaves(item, found)
    return found


def rebuilt(value, tensors, replacements):
    if isinstance(value, cresset.Tensor):
        return next(new for old, new in zip(tensors, replacements) if old is value)
    return type(value)(rebuilt(v, tensors, replacements) for v in value) if isinstance(value, (list, tuple)) else value


def record(layer, args, symbolic):
    """The graph of layer(*args) on fakes; symbolic: with the first size of every input as a symbol."""
    slots = [(table, name) for module in layer.modules() for table in (module._parameters, module._buffers)
             for name, tensor in table.items() if tensor is not None]
    state = [table[name] for table, name in slots]
    tensors = leaves(args, [])

    def run(*inputs):
        for (table, name), tensor in zip(slots, inputs):
            table[name] = tensor
        return tuple(leaves(layer(*rebuilt(args, tensors, inputs[len(state):])), []))

    dynamic = (None,) * len(state) + tuple((0,) if symbolic and t.dim() and t.shape[0] > 1 else None for t in tensors)
    try:
        return _C.record(run, (*state, *tensors), dynamic=dynamic)
    finally:
        for (table, name), tensor in zip(slots, state):
            table[name] = tensor


def twin_args(call):
    torch.manual_seed(5)
    args = tuple(evaluate(call, torch))
    mine = [ours(a) for a in args]
    return args, tuple(mine[next(j for j in range(i + 1) if args[j] is args[i])] for i in range(len(args)))


@pytest.mark.parametrize("line", [line for line in LAYERS if exportable(line)])
def test_ops_of(line):
    text, call, *_ = [part.strip() for part in line.split(" | ")]
    args, mine_args = twin_args(call)
    for mode in ("train", "eval") if any(word in text for word in MODAL) else ("eval",):
        layer, twin = evaluate("nn." + text, cresset), evaluate("nn." + text, torch)
        getattr(layer, mode)(), getattr(twin, mode)()
        mine, want = called(record(layer, mine_args, symbolic=False)), theirs(twin, args)
        assert [name for name, _ in mine] == [name for name, _, _ in want], mode
        for (name, got), (_, given, defaults) in zip(mine, want):
            for key in {*got, *given} - {"dtype", "device", "layout", "pin_memory", "memory_format", "generator"}:
                assert got.get(key, defaults.get(key)) == given.get(key, defaults.get(key)), f"{mode}: {name}: {key}"


@pytest.mark.parametrize("line", [line for line in LAYERS if exportable(line)])
def test_symbolic(line):
    text, call, *_ = [part.strip() for part in line.split(" | ")]
    layer = evaluate("nn." + text, cresset)
    _, args = twin_args(call)
    assert [name for name, _ in called(record(layer, args, symbolic=True))] == [name
            for name, _ in called(record(layer, args, symbolic=False))]
