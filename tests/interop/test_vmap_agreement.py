"""vmap() by this library, and torch.vmap taken apart while an archive is read: two batchings, which agree with
PyTorch's and so with each other."""
import warnings

import pytest

torch = pytest.importorskip("torch", reason="archives are written by PyTorch")
import cresset  # noqa: E402

BODIES = {  # of one example, of sizes 3 and 4
    "add": lambda L, a: a + 2, "mul_self": lambda L, a: a * a.sum(), "div_int": lambda L, a: a / 3,
    "pow": lambda L, a: a.abs() ** 0.5, "clamp": lambda L, a: a.clamp(-0.5, 0.5),
    "where": lambda L, a: L.where(a > 0, a, -1.0), "relu": lambda L, a: L.nn.functional.relu(a),
    "gelu": lambda L, a: L.nn.functional.gelu(a), "softmax": lambda L, a: a.softmax(0),
    "log_softmax": lambda L, a: a.log_softmax(-1), "sum0": lambda L, a: a.sum(0), "sum_all": lambda L, a: a.sum(),
    "sum_keep": lambda L, a: a.sum((0, 1), keepdim=True), "mean": lambda L, a: a.mean(),
    "mean_d": lambda L, a: a.mean(-2), "prod": lambda L, a: a.prod(), "prod_d": lambda L, a: a.prod(1),
    "var": lambda L, a: a.var(), "std_d": lambda L, a: a.std(0), "var_mean": lambda L, a: L.var_mean(a, 1),
    "amax": lambda L, a: a.amax(), "max_all": lambda L, a: a.max(), "max_d": lambda L, a: a.max(0),
    "min_d": lambda L, a: a.min(-1), "argmax": lambda L, a: a.argmax(),
    "argmax_d": lambda L, a: a.argmax(1, keepdim=True), "argmin": lambda L, a: a.argmin(0),
    "any": lambda L, a: (a > 0).any(), "all_d": lambda L, a: (a > 0).all(0), "cumsum": lambda L, a: a.cumsum(0),
    "cumprod": lambda L, a: a.cumprod(-1), "cummax": lambda L, a: a.cummax(0),
    "logsumexp": lambda L, a: a.logsumexp(0), "norm": lambda L, a: a.norm(), "norm_d": lambda L, a: a.norm(dim=1),
    "lnorm": lambda L, a: L.linalg.vector_norm(a, dim=0), "sort": lambda L, a: a.sort(0),
    "sort_desc": lambda L, a: a.sort(-1, descending=True), "argsort": lambda L, a: a.argsort(0),
    "topk": lambda L, a: a.topk(2), "topk_d": lambda L, a: a.topk(2, 0), "kthvalue": lambda L, a: a.kthvalue(2),
    "median": lambda L, a: a.median(0), "mode": lambda L, a: a.round().mode(0),
    "reshape": lambda L, a: a.reshape(4, 3), "reshape-1": lambda L, a: a.reshape(-1),
    "view": lambda L, a: a.reshape(2, -1), "t": lambda L, a: a.t(), "transpose": lambda L, a: a.transpose(-1, 0),
    "permute": lambda L, a: a.permute(1, 0), "movedim": lambda L, a: a.movedim(0, -1),
    "unsqueeze": lambda L, a: a.unsqueeze(1), "unsqueeze-1": lambda L, a: a.unsqueeze(-1),
    "squeeze": lambda L, a: a[:1].squeeze(), "squeeze_d": lambda L, a: a[:1].squeeze(0),
    "expand": lambda L, a: a.unsqueeze(0).expand(2, -1, 4), "flatten": lambda L, a: a.flatten(),
    "unflatten": lambda L, a: a.unflatten(1, (2, 2)), "flip": lambda L, a: a.flip(0),
    "flip2": lambda L, a: a.flip((0, 1)), "roll": lambda L, a: a.roll(1, 0), "roll_all": lambda L, a: a.roll(2),
    "rot90": lambda L, a: L.rot90(a, 1, (0, 1)), "tile": lambda L, a: a.tile(2), "repeat": lambda L, a: a.repeat(2, 1),
    "repeat_more": lambda L, a: a.repeat(2, 1, 1), "repeat_interleave": lambda L, a: a.repeat_interleave(2, 0),
    "narrow": lambda L, a: a.narrow(1, 1, 2), "select": lambda L, a: a.select(0, -1), "slice": lambda L, a: a[1:, ::2],
    "index": lambda L, a: a[:, 1], "int_index": lambda L, a: a[-1, 2], "split": lambda L, a: a.split(2, 1),
    "chunk": lambda L, a: a.chunk(2, 0), "unbind": lambda L, a: a.unbind(0), "diagonal": lambda L, a: a.diagonal(),
    "diag_off": lambda L, a: a.diagonal(1), "diag_embed": lambda L, a: L.diag_embed(a),
    "trace": lambda L, a: a[:, :3].trace(), "tril": lambda L, a: a.tril(), "triu": lambda L, a: a.triu(1),
    "pad": lambda L, a: L.nn.functional.pad(a, (1, 2)),
    "pad2": lambda L, a: L.nn.functional.pad(a, (1, 0, 0, 2), value=3.0), "cat": lambda L, a: L.cat([a, a * 2], 1),
    "cat_const": lambda L, a: L.cat([a, L.ones(1, 4)]), "stack": lambda L, a: L.stack([a, a + 1], -1),
    "hstack": lambda L, a: L.hstack([a, a]), "mm": lambda L, a: a @ a.t(), "mv": lambda L, a: a @ a[0],
    "dot": lambda L, a: L.dot(a[0], a[1]), "outer": lambda L, a: L.outer(a[0], a[:, 1]),
    "matmul_const": lambda L, a: a @ L.ones(4, 2), "const_matmul": lambda L, a: L.ones(2, 3) @ a,
    "einsum": lambda L, a: L.einsum("ij,kj->ik", a, a),
    "linear": lambda L, a: L.nn.functional.linear(a, L.ones(5, 4), L.ones(5)),
    "addmm": lambda L, a: L.addmm(L.ones(5), a, L.ones(4, 5)),
    "bmm": lambda L, a: L.bmm(a.unsqueeze(0), a.t().unsqueeze(0)),
    "baddbmm": lambda L, a: L.baddbmm(L.ones(1, 3, 3), a[None], a.t()[None]),
    "layer_norm": lambda L, a: L.nn.functional.layer_norm(a, (4,)),
    "layer_norm_w": lambda L, a: L.nn.functional.layer_norm(a, (4,), L.ones(4) * 2, L.ones(4)),
    "rms": lambda L, a: L.nn.functional.rms_norm(a, (4,)),
    "group_norm": lambda L, a: L.nn.functional.group_norm(a[None], 3),
    "batch_norm": lambda L, a: L.nn.functional.batch_norm(a, None, None, training=True),
    "normalize": lambda L, a: L.nn.functional.normalize(a, dim=0),
    "conv1d": lambda L, a: L.nn.functional.conv1d(a, L.ones(2, 3, 2)),
    "conv1d_b": lambda L, a: L.nn.functional.conv1d(a[None], L.ones(2, 3, 2), L.ones(2), padding=1),
    "avg_pool1d": lambda L, a: L.nn.functional.avg_pool1d(a, 2),
    "max_pool1d": lambda L, a: L.nn.functional.max_pool1d(a, 2),
    "adaptive": lambda L, a: L.nn.functional.adaptive_avg_pool1d(a, 2),
    "interp": lambda L, a: L.nn.functional.interpolate(a[None], scale_factor=2.0),
    "unfold": lambda L, a: a.unfold(1, 2, 1), "gather": lambda L, a: a.gather(0, L.tensor([[0, 1, 2, 0]])),
    "index_select": lambda L, a: a.index_select(0, L.tensor([2, 0])), "adv_index": lambda L, a: a[L.tensor([0, 2])],
    "adv_index2": lambda L, a: a[L.tensor([0, 2]), L.tensor([1, 3])],
    "adv_mid": lambda L, a: a[:, L.tensor([0, 2, 2])], "take": lambda L, a: a.take(L.tensor([0, 5, 11])),
    "scatter": lambda L, a: a.scatter(0, L.tensor([[0, 1, 2, 0]]), 9.0),
    "scatter_add": lambda L, a: a.scatter_add(0, L.tensor([[0, 1, 2, 0]]), a[:1]),
    "index_add": lambda L, a: a.index_add(0, L.tensor([0, 0]), a[:2]),
    "index_fill": lambda L, a: a.index_fill(1, L.tensor([1]), 7.0),
    "masked_fill": lambda L, a: a.masked_fill(a > 0, -1.0),
    "select_scatter": lambda L, a: a.select_scatter(a[0] * 2, 0, 1),
    "slice_scatter": lambda L, a: a.slice_scatter(a[:, :2] * 0, 1, 0, 2),
    "embedding": lambda L, a: L.nn.functional.embedding((a > 0).long(), L.ones(2, 3) * 3),
    "one_hot": lambda L, a: L.nn.functional.one_hot((a > 0).long(), 3),
    "bucketize": lambda L, a: L.bucketize(a, L.tensor([-1.0, 0.0, 1.0])),
    "searchsorted": lambda L, a: L.searchsorted(L.tensor([-1.0, 0.0, 1.0]), a),
    "new_zeros": lambda L, a: a.new_zeros(2) + a.sum(), "zeros_like": lambda L, a: L.zeros_like(a) + 1,
    "ones": lambda L, a: L.ones(3, 4) + a, "full_like": lambda L, a: L.full_like(a, 2.0) * a,
    "arange": lambda L, a: a + L.arange(4), "to_int": lambda L, a: a.to(L.int64), "to_double": lambda L, a: a.double(),
    "clone": lambda L, a: a.clone(), "contig": lambda L, a: a.t().contiguous(), "detach": lambda L, a: a.detach(),
    "lerp": lambda L, a: L.lerp(a, a * 2, 0.5), "addcmul": lambda L, a: L.addcmul(a, a, a, value=2.0),
    "atan2": lambda L, a: L.atan2(a, a + 1), "fmod": lambda L, a: a.fmod(0.3),
    "remainder": lambda L, a: a.remainder(0.3), "floor_div": lambda L, a: a // 0.3, "sign": lambda L, a: a.sign(),
    "isnan": lambda L, a: a.isnan(), "logical": lambda L, a: (a > 0) & (a < 1),
    "maximum": lambda L, a: L.maximum(a, a[0]), "bcast": lambda L, a: a + a[0], "bcast_col": lambda L, a: a * a[:, :1],
    "bcast_rank": lambda L, a: a + a[:, 0].unsqueeze(-1).unsqueeze(0), "scalar_t": lambda L, a: a * a[0, 0],
    "cross": lambda L, a: L.linalg.cross(a[:, 0], a[:, 1]), "cdist": lambda L, a: L.cdist(a, a),
    "dist": lambda L, a: L.dist(a, a * 2), "det": lambda L, a: L.linalg.det(a[:, :3]),
    "inv": lambda L, a: L.linalg.inv(a[:, :3] + 3 * L.eye(3)),
    "solve": lambda L, a: L.linalg.solve(a[:, :3] + 3 * L.eye(3), a[:, 3]),
    "cholesky": lambda L, a: L.linalg.cholesky(a @ a.t() + L.eye(3)),
    "ce": lambda L, a: L.nn.functional.cross_entropy(a, L.tensor([0, 1, 2])),
    "nll": lambda L, a: L.nn.functional.nll_loss(a, L.tensor([0, 1, 2])),
    "bce": lambda L, a: L.nn.functional.binary_cross_entropy_with_logits(a, L.ones(3, 4)),
    "sdpa": lambda L, a: L.nn.functional.scaled_dot_product_attention(a[None], a[None], a[None]),
    "count_nz": lambda L, a: L.count_nonzero(a), "diff": lambda L, a: a.diff(),
    "kron": lambda L, a: L.kron(a[:2, :2], a[:2, :2]), "trapz": lambda L, a: L.trapezoid(a),
    "logcumsumexp": lambda L, a: L.logcumsumexp(a, 0), "fft": lambda L, a: L.fft.rfft(a).abs(),
    "glu": lambda L, a: L.nn.functional.glu(a), "std_all": lambda L, a: L.std_mean(a),
    "aminmax": lambda L, a: L.aminmax(a, dim=0), "nan_to_num": lambda L, a: a.nan_to_num(),
    "addmv": lambda L, a: L.addmv(L.ones(3), a, a[0]), "addr": lambda L, a: L.addr(L.ones(3, 4), a[:, 0], a[0]),
    "swapaxes": lambda L, a: a.swapaxes(0, 1), "broadcast_to": lambda L, a: a.broadcast_to(2, 3, 4),
    "ravel": lambda L, a: a.ravel(), "tensordot": lambda L, a: L.tensordot(a, a, dims=([1], [1])),
    "view_as": lambda L, a: a.view_as(a), "expand_as": lambda L, a: a[:1].expand_as(a),
    "cumulative": lambda L, a: L.cumulative_trapezoid(a),
}
PLACES = {"second": (1, (3, 5, 4)), "one example": (0, (1, 3, 4))}


def flat(value):
    return [item for part in value for item in flat(part)] if isinstance(value, (tuple, list)) else [value]


def as_torch(value):
    return torch.from_dlpack(value.contiguous().detach()) if isinstance(value, cresset.Tensor) else value


def run(lib, name, dim, x):
    def body(a):
        made = BODIES[name](lib, a * 1)
        return tuple(flat(made)) if isinstance(made, (tuple, list)) else made
    return tuple(flat(lib.vmap(body, in_dims=dim)(x)))


def difference(ours, theirs):
    if len(ours) != len(theirs):
        return f"{len(ours)} results, not {len(theirs)}"
    for a, b in zip(map(as_torch, ours), theirs):
        if a.dtype != b.dtype or a.shape != b.shape:
            return f"{a.dtype}{list(a.shape)}, not {b.dtype}{list(b.shape)}"
        if not torch.allclose(a.double(), b.double(), atol=1e-4, rtol=1e-4, equal_nan=True):
            return "other values"
    return None


@pytest.mark.parametrize("place", PLACES)
def test_both_are_pytorchs(place, tmp_path):
    dim, sizes = PLACES[place]
    torch.manual_seed(20261118)
    x = torch.randn(sizes)
    want = {name: run(torch, name, dim, x) for name in BODIES}

    class Program(torch.nn.Module):
        def forward(self, x):
            return tuple(item for name in BODIES for item in run(torch, name, dim, x))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.export.save(torch.export.export(Program(), (x,)), tmp_path / "p.pt2")
    given = cresset.from_dlpack(x)
    results = list(cresset.export.load(str(tmp_path / "p.pt2")).module()(given))
    wrong = {}
    for name, theirs in want.items():
        by_archive, results = results[:len(theirs)], results[len(theirs):]
        wrong[name] = difference(by_archive, theirs), difference(run(cresset, name, dim, given), theirs)
    assert not results and {name: found for name, found in wrong.items() if any(found)} == {}
