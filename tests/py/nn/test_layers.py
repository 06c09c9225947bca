"""N2: every layer, built in both libraries with one seed: equal parameters, texts, state-dict keys and results."""
# ruff: noqa: E501 - one layer is one line
import pathlib
import sys

import pytest

torch = pytest.importorskip("torch", reason="layers are compared with PyTorch's; test_module.py needs no oracle")
sys.path.insert(0, str(pathlib.Path(__file__).parent))
import cresset  # noqa: E402
from agree import lines  # noqa: E402
from twin import bits, evaluate, ours, same  # noqa: E402

# layer | arguments of the call. Words after a second bar: `eval` (only in eval mode), `train` (only in training mode).
LAYERS = lines("""
    Identity(54, unused=1) | (randn(3),)
    Linear(5, 3) | (randn(4, 5),)
    Linear(5, 3, bias=False) | (randn(2, 4, 5),)
    Linear(5, 3, dtype=torch.float64) | (randn(5, dtype=torch.float64),)
    Linear(5, 3, dtype=torch.bfloat16) | (randn(4, 5).to(torch.bfloat16),)
    Bilinear(5, 4, 3) | (randn(2, 5), randn(2, 4))
    Bilinear(5, 4, 3, bias=False) | (randn(2, 5), randn(2, 4))

    Conv1d(4, 6, 3) | (randn(2, 4, 9),)
    Conv1d(4, 6, 3, stride=2, padding=1, dilation=2, groups=2, bias=False) | (randn(2, 4, 9),)
    Conv1d(4, 6, 3, padding='same', padding_mode='circular') | (randn(2, 4, 9),)
    Conv2d(3, 4, 3) | (randn(2, 3, 8, 8),)
    Conv2d(3, 4, (3, 1), stride=(2, 1), padding=(1, 0)) | (randn(3, 8, 8),)
    Conv2d(4, 4, 3, groups=4, padding='valid') | (randn(2, 4, 8, 8),)
    Conv2d(3, 4, 3, padding='same', dilation=2) | (randn(2, 3, 8, 8),)
    Conv2d(3, 4, 3, padding=1, padding_mode='reflect') | (randn(2, 3, 8, 8),)
    Conv2d(3, 4, 3, padding=(1, 2), padding_mode='replicate') | (randn(2, 3, 8, 8),)
    Conv3d(2, 4, 3, padding=1) | (randn(2, 2, 5, 5, 5),)
    ConvTranspose1d(4, 6, 3, stride=2) | (randn(2, 4, 9),)
    ConvTranspose1d(4, 6, 3, stride=2) | (randn(2, 4, 9), [20])
    ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1) | (randn(2, 4, 5, 5),)
    ConvTranspose2d(4, 6, 3, groups=2, dilation=2, bias=False) | (randn(2, 4, 5, 5),)
    ConvTranspose3d(4, 6, 2, stride=2) | (randn(2, 4, 3, 3, 3),)

    BatchNorm1d(4) | (randn(6, 4),)
    BatchNorm1d(4, momentum=None) | (randn(6, 4, 3),)
    BatchNorm2d(4) | (randn(2, 4, 3, 3),)
    BatchNorm2d(4, bias=False) | (randn(2, 4, 3, 3),)
    BatchNorm2d(4, affine=False, track_running_stats=False) | (randn(2, 4, 3, 3),)
    BatchNorm3d(4, eps=1e-3, momentum=0.3) | (randn(2, 4, 3, 3, 2),)
    InstanceNorm1d(4) | (randn(2, 4, 5),)
    InstanceNorm1d(4) | (randn(4, 5),)
    InstanceNorm2d(4, affine=True, track_running_stats=True) | (randn(2, 4, 5, 5),)
    InstanceNorm3d(4, affine=True, bias=False) | (randn(2, 4, 3, 3, 3),)
    LayerNorm(6) | (randn(3, 6),)
    LayerNorm((3, 6), eps=1e-3, bias=False) | (randn(2, 3, 6),)
    LayerNorm(6, elementwise_affine=False) | (randn(2, 3, 6),)
    RMSNorm(6) | (randn(2, 3, 6),)
    RMSNorm([3, 6], eps=1e-3, elementwise_affine=False) | (randn(2, 3, 6),)
    GroupNorm(2, 6) | (randn(2, 6, 5),)
    GroupNorm(3, 6, affine=False) | (randn(2, 6, 4, 4),)
    GroupNorm(3, 6, bias=False) | (randn(2, 6, 4, 4),)
    LocalResponseNorm(2) | (randn(2, 4, 5),)
    LocalResponseNorm(3, alpha=1e-2, beta=0.5, k=2.0) | (randn(2, 4, 5, 5),)
    LocalResponseNorm(2) | (randn(2, 4, 3, 4, 5),)

    Threshold(0.1, 20) | (randn(9),)
    Threshold(0.1, 20, inplace=True) | (randn(9),)
    ReLU() | (randn(9),)
    ReLU(inplace=True) | (randn(9),)
    RReLU() | (randn(9),)
    RReLU(0.1, 0.2, True) | (randn(9),)
    Hardtanh() | (randn(9),)
    Hardtanh(-2, 0.5, inplace=True) | (randn(9),)
    ReLU6() | (randn(9) * 5,)
    ReLU6(True) | (randn(9) * 5,)
    Sigmoid() | (randn(9),)
    Hardsigmoid() | (randn(9) * 3,)
    Hardsigmoid(True) | (randn(9) * 3,)
    Tanh() | (randn(9),)
    SiLU() | (randn(9),)
    SiLU(True) | (randn(9),)
    Mish() | (randn(9),)
    Mish(True) | (randn(9),)
    Hardswish() | (randn(9) * 3,)
    Hardswish(True) | (randn(9) * 3,)
    ELU() | (randn(9),)
    ELU(0.5, True) | (randn(9),)
    CELU() | (randn(9),)
    CELU(0.5, True) | (randn(9),)
    SELU() | (randn(9),)
    SELU(True) | (randn(9),)
    GLU() | (randn(3, 8),)
    GLU(0) | (randn(4, 3),)
    GELU() | (randn(9),)
    GELU('tanh') | (randn(9),)
    Hardshrink() | (randn(9),)
    LeakyReLU() | (randn(9),)
    LeakyReLU(0.3, True) | (randn(9),)
    LogSigmoid() | (randn(9),)
    Softplus() | (randn(9),)
    Softplus(2, 3.0) | (randn(9),)
    Softshrink() | (randn(9),)
    PReLU() | (randn(2, 3, 4),)
    PReLU(3, 0.1) | (randn(2, 3, 4),)
    Softsign() | (randn(9),)
    Tanhshrink() | (randn(9),)
    Softmin(1) | (randn(3, 4),)
    Softmax(dim=0) | (randn(3, 4),)
    Softmax() | (randn(3, 4),)
    Softmax2d() | (randn(2, 3, 4, 4),)
    LogSoftmax(-1) | (randn(3, 4),)

    MultiheadAttention(8, 2) | (q := randn(5, 2, 8), q, q)
    MultiheadAttention(8, 2, bias=False, batch_first=True) | (q := randn(2, 5, 8), q, q)
    MultiheadAttention(8, 4, dropout=0.5, batch_first=True) | (randn(2, 5, 8), k := randn(2, 6, 8), k)
    MultiheadAttention(8, 2, kdim=5, vdim=6) | (randn(5, 2, 8), randn(4, 2, 5), randn(4, 2, 6))
    MultiheadAttention(8, 2, add_bias_kv=True, add_zero_attn=True) | (q := randn(5, 2, 8), q, q)
    MultiheadAttention(8, 2) | (q := randn(5, 8), q, q)
    MultiheadAttention(8, 2) | (q := randn(5, 2, 8), q, q, None, False)
    MultiheadAttention(8, 2) | (q := randn(3, 2, 8), q, q, tensor([[False, False, True], [False, False, False]]), True, tensor([[False, True, True], [False, False, True], [False, False, False]]))
    MultiheadAttention(8, 2) | (q := randn(3, 2, 8), q, q, tensor([[False, False, True], [False, False, False]]), False, torch.triu(full((3, 3), -inf), 1))
    MultiheadAttention(8, 2) | (q := randn(3, 2, 8), q, q, None, True, torch.triu(full((3, 3), -inf), 1), False)

    Dropout() | (randn(40),)
    Dropout(0.2, inplace=True) | (randn(40),)
    Dropout1d(0.3) | (randn(2, 4, 5),)
    Dropout1d(0.3) | (randn(4, 5),)
    Dropout2d(0.3) | (randn(2, 4, 5, 5),)
    Dropout3d(0.3) | (randn(2, 4, 3, 3, 3),)
    Dropout3d(0.3, inplace=True) | (randn(4, 3, 3, 3),)
    AlphaDropout(0.3) | (randn(40),)
    FeatureAlphaDropout(0.3) | (randn(2, 4, 5),)

    Flatten() | (randn(2, 3, 4),)
    Flatten(0, 1) | (randn(2, 3, 4),)
    Unflatten(1, (2, 3)) | (randn(2, 6),)
    Unflatten(-1, [3, 2]) | (randn(2, 6),)

    Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Dropout(0.5), nn.Linear(4, 2)) | (randn(3, 4),)
    Sequential(*[nn.Sequential(nn.Conv2d(2, 2, 3, padding=1), nn.BatchNorm2d(2)) for _ in range(2)]) | (randn(2, 2, 5, 5),)
""")

# Built and printed, never called.
CONTAINERS = lines("""
    ModuleList([nn.Linear(2, 2) for _ in range(3)] + [nn.ReLU(), nn.Linear(2, 3)])
    ModuleList()
    ModuleDict({'a': nn.Linear(2, 2), 'b': nn.ModuleDict()})
    ModuleDict([['x', nn.ReLU()], ['y', nn.Conv1d(1, 1, 1)]])
    ParameterList([nn.Parameter(randn(2, 3)), randn(4), nn.Parameter(randn(()))])
    ParameterDict({'a': nn.Parameter(randn(2, 3)), 'b': randn(4)})
    ParameterDict()
    Sequential()
    ModuleList([nn.ModuleList([nn.Linear(1, 1)] * 2)] * 2)
""")


def build(text):
    torch.manual_seed(3)
    theirs = evaluate("nn." + text, torch)
    cresset.manual_seed(3)
    return evaluate("nn." + text, cresset), theirs


def agree_in_state(mine, theirs):
    assert repr(mine) == repr(theirs).replace("torch.", "cresset.")
    assert list(mine.state_dict()) == list(theirs.state_dict())
    assert {k: dict(v) for k, v in mine.state_dict()._metadata.items()} == {k: dict(v) for k, v in theirs.state_dict()._metadata.items()}
    for (name, a), (other, b) in zip(mine.state_dict().items(), theirs.state_dict().items()):
        bits(a, b, name)
    for listing in ("named_parameters", "named_buffers", "named_modules"):
        assert [n for n, _ in getattr(mine, listing)()] == [n for n, _ in getattr(theirs, listing)()]
    assert [p.requires_grad for p in mine.parameters()] == [p.requires_grad for p in theirs.parameters()]


@pytest.mark.parametrize("line", LAYERS)
def test_layer(line):
    text, call, *words = [part.strip() for part in line.split(" | ")]
    mine, theirs = build(text)
    agree_in_state(mine, theirs)
    torch.manual_seed(5)
    args = evaluate(call, torch)
    for mode in ("train", "eval"):
        if words and mode not in words:
            continue
        getattr(mine, mode)(), getattr(theirs, mode)()
        torch.manual_seed(7), cresset.manual_seed(7)
        copies = [a.clone() if isinstance(a, torch.Tensor) else a for a in args]
        for i, a in enumerate(args):  # what was one object stays one
            copies[i] = copies[next(j for j in range(i + 1) if args[j] is a)]
        mine_args = [ours(a) for a in copies]
        for i, a in enumerate(args):
            mine_args[i] = mine_args[next(j for j in range(i + 1) if args[j] is a)]
        want = theirs(*copies)
        tolerance = 2e-2 if any(isinstance(a, torch.Tensor) and a.dtype is torch.bfloat16 for a in args) else 2e-5
        same(evaluate("layer(*args)", cresset, layer=mine, args=mine_args), want, tolerance, mode)
        same(mine_args, copies, tolerance, f"arguments after {mode}")
        same({k: v for k, v in mine.named_buffers()}, {k: v for k, v in theirs.named_buffers()}, tolerance, f"buffers after {mode}")
        assert cresset.get_rng_state().tolist() == torch.get_rng_state().tolist(), f"{mode}: the generators have drawn differently"


@pytest.mark.parametrize("text", CONTAINERS)
def test_container(text):
    mine, theirs = build(text)
    agree_in_state(mine, theirs)
