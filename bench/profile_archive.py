"""Which ops an exported program spends its time in: python bench/profile_archive.py FILE.pt2 | MODEL [CALLS]

Runs the graph's nodes one by one through cresset.ops and adds up the time per op. With PyTorch installed, the same
nodes run with torch.ops beside it, so that each line has its ratio. On one thread and in processor time, so that
neighbours on the machine hardly matter.
"""
import collections
import pathlib
import sys
import time

import cresset
from cresset.export.graph_view import Node

THREADS = 1


def resolve(value, values):
    if isinstance(value, Node):
        return values[value.name]
    if isinstance(value, (list, tuple)):
        return type(value)(resolve(item, values) for item in value)
    return value


def run(ep, inputs, functions, convert, spent, counts):
    """One call; `functions` maps a target to what runs it, `convert` an argument to its kind of value."""
    values = dict(inputs)
    for node in ep.graph.nodes:
        if node.op != "call_function":
            continue
        args = [convert(resolve(a, values)) for a in node.args]
        kwargs = {key: convert(resolve(a, values)) for key, a in node.kwargs.items()}
        function = functions(node.target)
        begin = time.process_time()
        values[node.name] = function(*args, **kwargs)
        spent[str(node.target)] += time.process_time() - begin
        counts[str(node.target)] += 1


def profile(path, calls):
    ep = cresset.export.load(path)
    args, kwargs = ep.example_inputs
    user = iter(ep.in_spec.flatten((args, kwargs), "call"))
    inputs = {}
    for spec in ep.graph_signature.input_specs:
        inputs[spec.arg.name] = next(user) if spec.target is None else ep.state_dict.get(spec.target,
                ep.constants.get(spec.target))
    ours, theirs, counts = collections.Counter(), collections.Counter(), collections.Counter()
    sides = [(inputs, lambda target: target, lambda value: value, ours)]
    try:
        import torch
        torch.set_num_threads(THREADS)
        sides.append(torch_side(torch, inputs, theirs))
    except ImportError:
        pass
    cresset.set_num_threads(THREADS)
    for number in range(calls + 1):
        for values, functions, convert, spent in sides:
            warming = number == 0
            run(ep, values, functions, convert, collections.Counter() if warming else spent,
                counts if spent is ours and not warming else collections.Counter())
    return ours, theirs, counts


def torch_side(torch, inputs, spent):
    names = {getattr(cresset, n): getattr(torch, n) for n in "float32 float64 float16 bfloat16 int64 int32 uint8 int8 "
             "bool".split()}

    def convert(value):
        if isinstance(value, (list, tuple)):
            return [convert(item) for item in value]
        if isinstance(value, cresset.dtype):
            return names[value]
        if isinstance(value, cresset.device):
            return torch.device(str(value))
        return getattr(torch, repr(value).rpartition(".")[2]) if isinstance(value,
                (cresset.memory_format, cresset.layout)) else value

    def function(target):
        text = str(target)
        if not text.startswith("aten."):
            return target
        _, name, overload = text.split(".")
        return getattr(getattr(torch.ops.aten, name), overload)
    torch.set_grad_enabled(False)
    return {name: torch.from_dlpack(value.detach()) if isinstance(value, cresset.Tensor) else value
            for name, value in inputs.items()}, function, convert, spent


def main():
    name, calls = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 5
    if name.endswith(".pt2"):
        path = pathlib.Path(name)
    else:
        import bench_archive
        path = bench_archive.model_archive(name)
    ours, theirs, counts = profile(path, calls)
    print(f"{path.stem}: {1e3 * sum(ours.values()) / calls:.2f} ms a call, PyTorch "
          f"{1e3 * sum(theirs.values()) / calls:.2f} ms")
    for op, seconds in ours.most_common(15):
        ratio = seconds / theirs[op] if theirs[op] else float("nan")
        print(f"  {op:<52} {counts[op] // calls:>5} calls {1e3 * seconds / calls:>9.3f} ms  "
              f"{100 * seconds / sum(ours.values()):>5.1f} %  {ratio:>6.2f} x PyTorch")


if __name__ == "__main__":
    main()
