"""Archives that the part `archives` mutates: a program for every op of the table, with arguments of a recorded call.

    python archive_seeds.py FOLDER [WORD...]

Needs the package and the recorded calls, not torch. Prints the ops of which no recorded call can be exported: these
occur where mutants name another op than their seed."""
import pathlib
import sys
import warnings

import cresset
import nonsense
from call_child import functional_forms, our_op

MOST_CALLS = 12  # that are tried until one can be exported
LARGEST = 4096   # elements of an input: mutants are to be quick


class Calls(cresset.nn.Module):
    """One call, whose tensors are the inputs."""

    def __init__(self, op, args, kwargs):
        super().__init__()
        self.op, self.args, self.kwargs = op, args, kwargs

    def forward(self, *tensors):
        left = iter(tensors)

        def put(v):
            if isinstance(v, cresset.Tensor):
                return next(left)
            return [put(item) for item in v] if isinstance(v, list) else v
        results = self.op(*[put(v) for v in self.args], **{k: put(v) for k, v in self.kwargs.items()})
        return results if isinstance(results, (cresset.Tensor, int, float, bool)) or results is None else list(results)


def tensors_in(v):
    if isinstance(v, cresset.Tensor):
        return [v]
    return [t for item in v for t in tensors_in(item)] if isinstance(v, list) else []


def program(name):
    base = functional_forms().get(name, name)
    op, out = our_op(name), cresset._C._row(name)["variant"] == "out"
    parameters = cresset._C._signature(name)[0]
    for args, kwargs in nonsense.recorded(base)[:MOST_CALLS]:
        inputs = tensors_in(list(args) + list(kwargs.values()))
        if any(isinstance(v, cresset.Generator) for v in kwargs.values()) or any(t.numel() > LARGEST for t in inputs):
            continue
        if out:
            made = our_op(base)(*args, **kwargs)
            made = [made] if isinstance(made, cresset.Tensor) else list(made)
            names = [p["name"] for p in parameters if p.get("writes") or p["name"].startswith("out")]
            kwargs = {**kwargs, **{n: cresset.empty_like(t) for n, t in zip(names, made)}}
            inputs = tensors_in(list(args) + list(kwargs.values()))
        try:
            return cresset.export.export(Calls(op, args, kwargs), tuple(inputs))
        except Exception:  # whatever it is: another call may do
            continue
    return None


def main(folder, words):
    warnings.filterwarnings("ignore")
    cresset.set_num_threads(1)
    folder.mkdir(parents=True, exist_ok=True)
    names = [n for n in cresset._C._op_names() if not any(p["type"] == "Graph" for p in cresset._C._signature(n)[0])]
    missing = []
    for name in names:
        path = folder / (name.replace("::", "-") + ".pt2")
        if path.exists() or (words and not any(w in name for w in words)):
            continue
        try:
            exported = program(name)
            if exported is not None:
                cresset.export.save(exported, str(path))
                continue
        except Exception:
            pass
        missing.append(name)
    print(" ".join(missing))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), sys.argv[2:])
