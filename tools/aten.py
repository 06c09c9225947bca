"""Writes tools/aten.txt: the overloads of PyTorch's aten that a CPU carries out, a line each, and behind those of the
op table a d where PyTorch differentiates them. docs/ops.md is held against it, so that the page can be made without
PyTorch. `./dev gen` runs it where PyTorch is installed.

    python tools/aten.py [FILE]
"""
import contextlib
import os
import pathlib
import sys
import warnings

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "ops"))
import cresset  # noqa: E402
import torch  # noqa: E402
import harness  # noqa: E402
import samples  # noqa: E402
import sweep  # noqa: E402

KEYS = ("CPU", "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional", "CompositeImplicitAutograd")
CALLS = 8  # of an op that PyTorch is asked


def overloads():
    """Of the CPU itself, or written with other ops."""
    names = (n.removesuffix(".") for n in torch._C._dispatch_get_all_op_names() if n.startswith("aten::"))
    return sorted(n for n in names if any(torch._C._dispatch_has_kernel_for_dispatch_key(n, key) for key in KEYS))


def tracked(value, leaves):
    """With floating tensors that require grad: copies of leaves, since those must not be written."""
    def track(t):
        if not t.is_floating_point():
            return t
        leaves.append(t.clone().requires_grad_())
        return leaves[-1].clone()
    return harness.mapped(value, track)


def flows(out, leaf):
    back = lambda: torch.autograd.grad(out, leaf, torch.ones_like(out), retain_graph=True, allow_unused=True)[0]
    return isinstance(harness.attempt(back, (), {}), torch.Tensor)


def is_differentiated(name):
    """Does PyTorch know a derivative, of any result for any argument? A few calls tell."""
    row, op = cresset._C._row(name), sweep.torch_op(name)
    for c in [c for c in samples.plain_calls(row, op, torch.float64) if not c.note][:CALLS]:
        leaves = []
        made = harness.attempt(op, tracked(tuple(c.args), leaves), {k: tracked(v, leaves) for k, v in c.kwargs.items()})
        outs = [t for t in harness.tensors([made]) if t.requires_grad] if leaves else []
        if any(flows(out, leaf) for out in outs for leaf in leaves):
            return True
    return False


def text():
    known = {n for n in sweep.op_names() if n.startswith("aten::")}
    return "".join(f"{n}{' d' if n in known and is_differentiated(n) else ''}\n" for n in overloads())


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    with open(os.devnull, "w") as quiet, contextlib.redirect_stderr(quiet):
        made = text()
    pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "tools" / "aten.txt").write_text(made)
