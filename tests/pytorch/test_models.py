"""Models of bench/models.py, small, under torch.compile(backend="cresset"): outputs and gradients are PyTorch's."""
import pytest

torch = pytest.importorskip("torch", reason="the backend is for PyTorch's programs")
from cresset._torch import backend  # noqa: E402


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    backend._made.clear()
    torch.manual_seed(11)
    yield


def floating(value):
    return [t for t in torch.utils._pytree.tree_leaves(value) if isinstance(t, torch.Tensor) and t.is_floating_point()]


def agree(ours, theirs, limit):
    scale = max(b.abs().max().item() for b in theirs)
    for a, b in zip(ours, theirs, strict=True):
        assert a.shape == b.shape and a.stride() == b.stride()
        assert (a - b).abs().max() <= limit * max(b.abs().max().item(), 1e-3 * scale)


def gradients(call, model, args):
    model.zero_grad()
    results = floating(call(*args))
    chance = torch.Generator().manual_seed(2)
    sum((r * torch.randn(r.shape, generator=chance)).sum() for r in results).backward()
    return [p.grad.clone() for p in model.parameters() if p.grad is not None]


@pytest.mark.parametrize("name", ["mlp8", "resnet18", "bert", "gpt2"])
def test_outputs_and_gradients(name, bench_model):
    model, args = bench_model(name)
    model.eval()
    run = torch.compile(model, backend="cresset", options={"native": "off"})
    with torch.no_grad():
        agree(floating(run(*args)), floating(model(*args)), 1e-4)
    theirs = gradients(model, model, args)
    agree(gradients(run, model, args), theirs, 1e-3)
    reports = backend.report()
    assert {r["kind"] for r in reports} == {"inference", "forward", "backward"}
    assert not any(r["opaque"] or sum(r["fallbacks"]) for r in reports)
