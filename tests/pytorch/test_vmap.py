"""torch.vmap() inside of captured programs: part of the graph, with PyTorch's results and errors."""
import pytest

torch = pytest.importorskip("torch", reason="these are PyTorch's programs")
import cresset  # noqa: E402

F = torch.nn.functional


def nested(x):
    return torch.vmap(torch.vmap(lambda r, s: r * s, in_dims=(0, None)), in_dims=(None, 0), out_dims=1)(x[0], x[:, 0])


def per_example(x):
    return torch.func.vmap(torch.func.grad(lambda r: (r ** 2).sum()))(x)


def closed_over(x):
    w = x.sum(0)
    return torch.vmap(lambda r: (r @ w, w * r))(x)


def by_keyword(x):
    return torch.vmap(lambda r, scale: r * scale)(x, scale=3.0)


def given_to_a_library(x):
    return torch.vmap(F.layer_norm, in_dims=(0, None))(x, (3,))


def mask(x):
    n = x.shape[0]
    where = torch.vmap(lambda i, j: (i >= j) & (i - j < 2), in_dims=(None, 0))
    return torch.vmap(where, in_dims=(0, None))(torch.arange(n), torch.arange(n))


def weights(x):
    def loss(w, r):
        return F.linear(r, w).square().sum()
    return torch.vmap(torch.func.grad(loss), in_dims=(None, 0))(x, x)


WHOLE = {
    "rows": lambda x: torch.vmap(lambda r: r * 2 + 1)(x),
    "columns": lambda x: torch.vmap(lambda r: (r * r).sum().sqrt(), in_dims=1)(x),
    "with another": lambda x: torch.vmap(lambda r, s: r @ s, in_dims=(0, None))(x, x[0]),
    "products of columns": lambda x: torch.vmap(lambda r: torch.dot(r, r).sqrt(), in_dims=1)(x),
    "in C": lambda x: torch.vmap(torch.dot)(x, x),
    "an index of all": lambda x: torch.vmap(lambda i: x[i, 2 - i])(torch.arange(2)),
    "out": lambda x: torch.vmap(lambda r: r.cumsum(0), out_dims=1)(x),
    "dicts": lambda x: torch.vmap(lambda d: {"a": d["x"] * 2, "b": (d["x"].sum(),)})({"x": x}),
    "softmax": lambda x: torch.vmap(lambda r: torch.where(r > 0, r, 0.0).softmax(-1))(x),
    "written": lambda x: torch.vmap(lambda r: r.clone().add_(1))(x),
    "sizes": lambda x: torch.vmap(lambda r: r.reshape(r.shape[0], 1).expand(-1, 2))(x),
    "nested": nested, "per_example": per_example, "by_keyword": by_keyword, "mask": mask,
    "closed_over": closed_over, "given_to_a_library": given_to_a_library, "weights": weights,
    "an index": lambda x: torch.vmap(lambda i: x[i])(torch.arange(2)),
    "an index of columns": lambda x: torch.vmap(lambda i: x[:, i])(torch.arange(3)),
    "random, the same": lambda x: torch.vmap(lambda r: r + torch.rand(3), randomness="same")(x),
    "random, different": lambda x: torch.vmap(lambda r: r + torch.rand(3), randomness="different")(x),
    "chunks": lambda x: torch.vmap(lambda r: r * 2, chunk_size=1)(x),
    "product": lambda x: torch.vmap(lambda r: r.reshape(1, 3) @ x.T)(x),
}
OTHERWISE = {"an index of columns", "weights"}  # torch lays these out in another way


def written_outside(x):
    total = torch.zeros(3)
    torch.vmap(lambda r: total.add_(1))(x)
    return total


def noted(x):
    seen = []

    def function(r):
        seen.append(len(seen))
        return r * 2
    return torch.vmap(function)(x), seen


BROKEN = {
    "random": lambda x: torch.vmap(lambda r: r + torch.rand(3))(x),
    "dropout": lambda x: torch.vmap(lambda r: F.dropout(r, 0.5))(x),
    "written by examples": lambda x: torch.vmap(lambda r: torch.zeros(3).copy_(r))(x),
    "branch": lambda x: torch.vmap(lambda r: r if r.sum() > 0 else -r)(x),
    "item": lambda x: torch.vmap(lambda r: r.sum().item())(x),
    "no tensor": lambda x: torch.vmap(lambda r: 3.0)(x),
    "no such dimension": lambda x: torch.vmap(lambda r: r * 2, in_dims=5)(x),
    "other sizes": lambda x: torch.vmap(lambda r, s: r + s)(x, x.T),
    "mask": lambda x: torch.vmap(lambda r: r[r > 0])(x),
    "written_outside": written_outside, "noted": noted,
}


def shown(value, laid_out):
    if isinstance(value, torch.Tensor):
        numbers = [round(n, 4) for n in value.detach().double().reshape(-1).tolist()]
        return value.dtype, tuple(value.shape), laid_out and value.stride(), numbers, value.requires_grad
    if isinstance(value, (tuple, list)):
        return type(value), [shown(part, laid_out) for part in value]
    if isinstance(value, dict):
        return {key: shown(part, laid_out) for key, part in value.items()}
    return value


def outcome(function, rows=2, records=False, laid_out=True):
    torch.manual_seed(7)
    x = torch.randn(rows, 3, requires_grad=records)
    try:
        result = function(x)
    except Exception as error:
        return type(error), str(error).split("0x")[0]
    grad = None
    if records:
        leaves = [t for t in torch.utils._pytree.tree_leaves(result) if isinstance(t, torch.Tensor) and t.requires_grad]
        if leaves:
            sum(t.sum() for t in leaves).backward()
        grad = None if x.grad is None else [round(n, 4) for n in x.grad.reshape(-1).tolist()]
        return [tuple(t.shape) for t in leaves], grad
    return shown(result, laid_out)


@pytest.mark.parametrize("name", [*WHOLE, *BROKEN])
def test_as_plain(name):
    function = {**WHOLE, **BROKEN}[name]
    compiled = cresset.compile(function, backend="eager")
    for rows in (2, 2, 4, 5, 1):
        for records in (False, True):
            how = rows, records, name not in OTHERWISE
            assert outcome(compiled, *how) == outcome(function, *how), how


@pytest.mark.parametrize("name", WHOLE)
def test_one_graph(name):
    compiled = cresset.compile(WHOLE[name], backend="native", fullgraph=True)
    for _ in range(2):
        how = 2, False, name not in OTHERWISE
        assert outcome(compiled, *how) == outcome(WHOLE[name], *how)
        compiled._wait()


@pytest.mark.parametrize("name", BROKEN)
def test_ends(name):
    compiled = cresset.compile(BROKEN[name], backend="eager")
    outcome(compiled)
    assert any(entry["reason"] for entry in compiled._entries())
