"""One program exported strictly and not: the graphs are the same.

    difference(ours_strict, ours)                # None, or the first line in which they differ
    decomposed(...)                              # the same after run_decompositions()
"""
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "interop")]
import both  # noqa: E402


def export(library, name, exporter, **options):
    """The program of `library` by exporter.export.export(), on the arguments of its first call."""
    programs = both.load(library)
    p = programs.TABLE[name]
    args, kwargs = p.calls()[0]
    dynamic = p.dynamic() if callable(p.dynamic) else p.dynamic
    with programs.torch.no_grad():
        return exporter.export.export(p.build(), args, kwargs, dynamic_shapes=dynamic, **options)


def lines(ep):
    """Everything that an archive holds of it, but for numbers: graph, signature, ranges, modules and source lines."""
    found = str(ep).splitlines()
    for entry in ep.module_call_graph:
        found.append(f"{entry.fqn}: {entry.signature}")
    for node in ep.graph.nodes:
        if node.op == "call_function":
            found.append(f"{node.name}: {node.meta.get('nn_module_stack')} {node.meta.get('source_fn_stack')} "
                         f"{node.meta.get('stack_trace')}")
    return found


def difference(strict, plain):
    mine, wanted = lines(strict), lines(plain)
    for a, b in zip(mine, wanted):
        if a != b:
            return f"strict has {a.strip()!r}, not strict {b.strip()!r}"
    return None if len(mine) == len(wanted) else f"strict has {len(mine)} lines, not strict {len(wanted)}"


# self.b += 1 of the outermost module: PyTorch's programs, and ours that are not strict, write b once more at the end
WRITTEN_ONCE_MORE = {"counting", "running_sum"}


def decomposed(strict, plain):
    return difference(strict.run_decompositions(), plain.run_decompositions())
