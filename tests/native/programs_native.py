"""Compiles one archive of tests/interop and compares the library's answers with PyTorch's."""
import pathlib
import subprocess
import sys

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "interop")]
import agreement  # noqa: E402
import checking  # noqa: E402
import library  # noqa: E402
import torch  # noqa: E402


def array(value):
    if not isinstance(value, torch.Tensor):
        return value
    value = value.detach().resolve_conj().resolve_neg()
    return (value.view(torch.uint16).numpy(), "bfloat16") if value.dtype is torch.bfloat16 else value.numpy()


def difference(archive, folder, tool="cresset"):
    """None, or how the compiled program differs: results of every call, and what the calls wrote to their inputs."""
    path = pathlib.Path(folder) / f"{archive.name}.{archive.dialect}.so"
    done = subprocess.run([tool, "compile", str(archive.path), "-o", str(path)], capture_output=True, text=True,
                          timeout=300)
    if done.returncode:
        return done.stderr.strip().splitlines()[-1]
    model = library.Model(path)
    for number, (call, wanted, written) in enumerate(zip(archive.calls, archive.wanted, archive.written)):
        leaves = checking.flat(checking.copy(call))
        model.seed(checking.SEED)
        got = model(*map(array, leaves))
        want = list(agreement.leaves(wanted))
        if len(want) != len(got):
            return f"call {number}: {len(want)} results expected, got {len(got)}"
        got = [agreement.Tensor(w.dtype, np.array(g)) if isinstance(w, agreement.Tensor) else g for w, g in zip(want,
                got)]
        problem = agreement.difference(want, got, archive.tolerance, f"call {number}")
        problem = problem or agreement.difference(written, agreement.plain(leaves, torch.Tensor), archive.tolerance,
                                                  f"inputs after call {number}")
        if problem:
            return problem
    return None
