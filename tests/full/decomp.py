"""run_decompositions() against PyTorch's: every program of tests/interop is exported by PyTorch, decomposed by both,
and compared call by call (tests/interop/op_agreement.py). Arguments select programs by substring. Writes the counts to
results/decomp.json; a program that differs as stated counts as passed.

    ./dev test --full decomp
"""
import os
import pathlib
import sys
import tempfile
import warnings

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "interop"), str(ROOT / "tests")]
os.environ.setdefault("OMP_NUM_THREADS", "1")
import agreement  # noqa: E402
import cresset  # noqa: E402
import cresset.export  # noqa: E402
import op_agreement  # noqa: E402
import programs  # noqa: E402
import results  # noqa: E402
import torch  # noqa: E402


def archives(p, folder):
    """The program as exported, and as PyTorch decomposes it."""
    exported = programs.export(p)
    paths = [folder / f"{p.name}.{dialect}.pt2" for dialect in ("training", "core")]
    torch.export.save(exported, paths[0])
    torch.export.save(exported.run_decompositions(), paths[1])
    return map(cresset.export.load, paths)


def copied(value):
    return cresset.utils._pytree.tree_map(lambda leaf: leaf.clone() if isinstance(leaf, cresset.Tensor) else leaf,
                                          value)


def run(ep, example):
    args, kwargs = copied(example)
    cresset.manual_seed(7)
    return agreement.plain((ep.module(own_state=True)(*args, **kwargs), list(args), dict(kwargs)), cresset.Tensor)


def compare(p, folder):
    """(what differs in the calls, what differs in the results, is the order the same)"""
    training, core = archives(p, folder)
    ours = training.run_decompositions()
    ours.validate()
    ours._program.graph.verify("functional")
    calls = op_agreement.difference(ours._program.graph._data(), core._program.graph._data())
    example = training.example_inputs
    numbers = None if example is None else agreement.difference(run(training, example), run(ours, example))
    return calls, numbers, calls is None and op_agreement.same_order(ours._program.graph._data(),
                                                                     core._program.graph._data())


def main(argv):
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    chosen = results.chosen("decomp", programs.programs(), argv, lambda p: p.name)
    counts = {"programs": 0, "agree": 0, "same order": 0, "known differences": {}, "other differences": {},
              "other results": {}}
    with tempfile.TemporaryDirectory() as folder:
        for p in chosen:
            calls, numbers, ordered = compare(p, pathlib.Path(folder))
            counts["programs"] += 1
            counts["agree"] += calls is None
            counts["same order"] += ordered
            if calls and p.name in op_agreement.KNOWN:
                counts["known differences"][p.name] = op_agreement.KNOWN[p.name]
            elif calls:
                counts["other differences"][p.name] = calls
                print(f"{p.name}: {calls}")
            if numbers:
                counts["other results"][p.name] = numbers
                print(f"{p.name}: {numbers}")
    failed = len(set(counts["other differences"]) | set(counts["other results"]))
    print(f"decomp: {counts['agree']} of {counts['programs']} programs consist of the same calls "
          f"({counts['same order']} in the same order), {len(counts['known differences'])} differ as stated, "
          f"{len(counts['other differences'])} otherwise; {len(counts['other results'])} give other results")
    return results.end("decomp", counts["programs"] - failed, failed, **counts)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
