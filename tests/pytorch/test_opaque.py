"""Ops that only PyTorch has (torch.library, vendors) are part of captured graphs: torch carries them out in between."""
import copy

import pytest

torch = pytest.importorskip("torch", reason="these are PyTorch's programs")
import cresset  # noqa: E402

nn, F = torch.nn, torch.nn.functional
library = torch.library.Library("cresset_test", "DEF")
library.define("twist(Tensor x, float by, Tensor? y=None) -> Tensor")
library.define("pair(Tensor[] xs, *, int n) -> (Tensor, Tensor)")
library.define("odd(Tensor x) -> Tensor")
library.define("fill(Tensor(a!) x) -> ()")
library.impl("twist", lambda x, by, y=None: x.flip(0) * by + (0 if y is None else y), "CompositeImplicitAutograd")
library.impl("pair", lambda xs, *, n: (torch.stack(xs).sum(0), xs[n] * 2), "CompositeImplicitAutograd")
library.impl("odd", lambda x: x[x > 0].sum() + x, "CPU")          # nothing is known of it without data
library.impl("fill", lambda x: (x.fill_(1), None)[1], "CPU")


@torch.library.custom_op("cresset_test::scale", mutates_args=())
def scale(x: torch.Tensor, by: float) -> torch.Tensor:
    if by < 0:
        raise ValueError("by is negative")
    return torch.from_numpy(x.detach().numpy() * by)


@scale.register_fake
def _(x, by):
    return torch.empty_like(x)


scale.register_autograd(lambda ctx, g: (g * ctx.by, None),
                        setup_context=lambda ctx, inputs, output: setattr(ctx, "by", inputs[1]))


@torch.library.custom_op("cresset_test::lies", mutates_args=())
def lies(x: torch.Tensor) -> torch.Tensor:
    return x.t().clone(memory_format=torch.contiguous_format).t()


@lies.register_fake
def _(x):
    return torch.empty(x.shape)


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(20261119)
    yield


ops = torch.ops.cresset_test
of_aten = torch.ops.aten._test_autograd_multiple_dispatch.fullcoverage  # for torch's own tests: never a row here
ops.twist, ops.pair, ops.odd, ops.fill, ops.twist.default  # found once
PROGRAMS = {
    "middle": lambda x, w: torch.relu(scale(x @ w + 1, 2.0) * 3),
    "first": lambda x, w: ops.twist(x, 0.5) @ w,
    "last": lambda x, w: ops.twist(x @ w, by=0.5),
    "alone": lambda x, w: ops.twist.default(x, 2.0, w),
    "keywords": lambda x, w: ops.twist(x @ w, by=0.5, y=w) + x,
    "several": lambda x, w: [t.sin() for t in ops.pair([x, w, x * w], n=1)],
    "twice": lambda x, w: scale(scale(x, 2.0) @ w, 3.0).sum(),
    "views": lambda x, w: (lambda y: (y, y.t(), scale(y.t(), 2.0)[1:], x[0]))(x @ w),
    "quiet": lambda x, w: _quiet(x, w),
    "dropout": lambda x, w: F.dropout(scale(F.dropout(x, 0.5), 2.0), 0.5) @ w,
    "aten": lambda x, w: of_aten(x @ w) * x,
    "inplace": lambda x, w: scale((x @ w).relu_(), 2.0).mul_(3).add_(x),
}


def _quiet(x, w):
    y = x @ w
    with torch.no_grad():
        z = scale(y, 2.0)
    return y * z


def outcome(function, x, w, grad=True):
    x, w = (t.detach().clone().requires_grad_(grad) for t in (x, w))
    torch.manual_seed(5)
    results = torch.utils._pytree.tree_leaves(function(x, w))
    if any(r.requires_grad for r in results):
        sum((r * (k + 1)).sum() for k, r in enumerate(results) if r.requires_grad).backward()
    return [(r.detach(), r.stride(), r.requires_grad) for r in results] + [x.grad, w.grad]


def assert_alike(ours, theirs):
    for a, b in zip(ours, theirs, strict=True):
        if isinstance(b, tuple):
            assert a[1:] == b[1:]
            a, b = a[0], b[0]
        assert (a is None) == (b is None) and (b is None or torch.allclose(a, b, rtol=1e-4, atol=1e-4))


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name, grad, backend):
    function = PROGRAMS[name]
    run = cresset.compile(function, backend=backend)
    for _ in range(3):
        x, w = torch.randn(4, 4), torch.randn(4, 4)
        assert_alike(outcome(run, x, w, grad), outcome(function, x, w, grad))
        run._wait()
    (entry,) = run._entries()
    assert entry["reason"] is None and "cresset.opaque" in str(entry["graph"]) and run._counts()["failed"] == 0


def test_a_model_with_one_in_the_middle_trains():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(4, 8), nn.Linear(8, 2)

        def forward(self, x):
            return self.second(scale(F.gelu(self.first(x)), 0.5))
    model = Model()
    other = copy.deepcopy(model)
    run = cresset.compile(model, backend="eager")
    pairs = [(m, torch.optim.SGD(m.parameters(), 0.1)) for m in (model, other)]
    for _ in range(4):
        x = torch.randn(5, 4)
        for call, (_m, optimizer) in zip((run, other), pairs):
            optimizer.zero_grad()
            call(x).square().sum().backward()
            optimizer.step()
    for a, b in zip(model.parameters(), other.parameters()):
        assert torch.allclose(a, b, atol=1e-5)
    assert [e["reason"] for e in run._compiled._entries()] == [None]


def test_what_is_not_followed_ends_a_capture():
    def written_before(x):
        x.add_(1)
        return scale(x, 2.0) + 1
    cases = [lambda x: ops.odd(x + 1) * 2, lambda x: (ops.fill(x), x + 1)[1], written_before,
             lambda x: (x + 1).to_sparse().to_dense() * 2, lambda x: lies(x + 1) * 2]
    for function in cases:
        run = cresset.compile(function, backend="eager")
        for _ in range(2):
            x = torch.randn(3, 4)
            other = x.clone()
            a, b = run(x), function(other)
            assert torch.allclose(a, b) and torch.equal(x, other) and a.stride() == b.stride()


def test_an_exception_of_an_op_is_the_programs():
    def f(x, by):
        try:
            return scale(x + 1, by)
        except ValueError as error:
            return str(error)
    run = cresset.compile(f, backend="eager")
    x = torch.randn(3)
    for by in (2.0, -1.0, -2.0, 3.0):
        a, b = run(x, by), f(x, by)
        assert a == b if isinstance(b, str) else torch.equal(a, b)


def test_other_sizes_and_numbers():
    def f(x, by):
        return scale(x * 2, by).sum(0) + by
    run = cresset.compile(f, backend="eager")
    for n, by in ((3, 1.0), (4, 2.0), (5, 3.0), (5, 4.0)):
        x = torch.randn(n, 4)
        assert torch.allclose(run(x, by), f(x, by), atol=1e-5)


def test_explain_counts_them():
    told = cresset._dynamo.explain(PROGRAMS["twice"])(torch.randn(4, 4), torch.randn(4, 4))
    assert told.opaque_ops == {"cresset_test::scale": 2} and told.graph_count == 1 and told.graph_break_count == 0
    assert "Opaque op: cresset_test::scale, 2 of them" in str(told)


def test_backends_in_python_see_torchs_ops():
    seen = []

    def backend(gm, inputs):
        seen.extend(n.target for n in gm.graph.nodes if n.op == "call_function")
        return gm
    x, w = torch.randn(4, 4), torch.randn(4, 4)
    function = PROGRAMS["keywords"]
    assert_alike(outcome(cresset.compile(function, backend=backend), x, w), outcome(function, x, w))
    assert ops.twist in seen or ops.twist.default in seen


def test_ops_of_torch_ops_that_the_table_has():
    def f(x, y):
        return torch.ops.aten.add.Tensor(x, y, alpha=2), torch.ops.aten.relu.default(x), torch.ops.aten.mul(x, 3)
    x, y = torch.randn(3), torch.randn(3)
    f(x, y)
    run = cresset.compile(f, backend="eager")
    for a, b in zip(run(x, y), f(x, y)):
        assert torch.equal(a, b)
    (entry,) = run._entries()
    assert entry["reason"] is None and "opaque" not in str(entry["graph"])


def test_aot_compile_refuses_them_by_name(tmp_path):
    class Model(nn.Module):
        def forward(self, x):
            return scale(x + 1, 2.0) * 3
    path = str(tmp_path / "scaled.pt2")
    torch.export.save(torch.export.export(Model(), (torch.randn(3),)), path)
    program = cresset.export.load(path)
    with pytest.raises(RuntimeError, match="cresset_test::scale has no row"):
        cresset.aot_compile(program)
