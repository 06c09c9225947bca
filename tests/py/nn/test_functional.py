"""N2: nn.functional against PyTorch's: results, error classes, and the signatures of everything in nn."""
# ruff: noqa: E501 - one case is one line
import inspect
import pathlib
import sys
import types

import pytest

torch = pytest.importorskip("torch", reason="results are compared with PyTorch's; test_module.py needs no oracle")
sys.path.insert(0, str(pathlib.Path(__file__).parent))
import cresset  # noqa: E402
from agree import lines  # noqa: E402
from twin import evaluate, ours, same  # noqa: E402

# x: (4, 6) normal numbers, i: (2, 3, 6, 6), v: (2, 3, 4, 5, 6), s: (2, 3, 8), y: (4,) class numbers of x, p: (4, 6) in
# (0, 1)
CALLS = lines("""
    adaptive_avg_pool1d(s, 3)
    adaptive_avg_pool2d(i, (None, 2))
    adaptive_avg_pool3d(v, 2)
    adaptive_max_pool1d(s, 3)
    adaptive_max_pool1d(s, 3, return_indices=True)
    adaptive_max_pool1d_with_indices(s, 2)
    adaptive_max_pool2d(i, (3, None), True)
    adaptive_max_pool2d_with_indices(i, 3)
    adaptive_max_pool3d(v, (1, 2, 3))
    adaptive_max_pool3d_with_indices(v, 2)
    affine_grid(x.view(2, 3, 4)[:, :2, :3], (2, 1, 4, 5), align_corners=False)
    affine_grid(x.view(2, 3, 4), (2, 1, 2, 3, 4), align_corners=True)
    alpha_dropout(x, 0.3, True)
    avg_pool1d(s, 2)
    avg_pool2d(i, (2, 3), stride=1, padding=(1, 0), ceil_mode=True)
    avg_pool3d(v, 2)
    batch_norm(i, torch.zeros(3), torch.ones(3))
    batch_norm(i, None, None, training=True, momentum=0.5, eps=1e-3)
    bilinear(x, x, torch.ones(2, 6, 6))
    conv_tbc(s, torch.ones(2, 8, 5), torch.ones(5), 1)
    grouped_mm(s[0], torch.ones(2, 8, 4), offs=torch.tensor([1, 3], dtype=torch.int32))
    binary_cross_entropy(p, p)
    binary_cross_entropy(p, p, weight=torch.ones(6), reduction='sum')
    binary_cross_entropy_with_logits(x, p, pos_weight=torch.full((6,), 2.0))
    celu(x)
    celu(x, 0.5, True)
    channel_shuffle(i, 3)
    conv1d(s, torch.ones(2, 3, 3), padding=1)
    conv2d(i, torch.ones(2, 3, 3, 3), None, 2, 'valid')
    conv2d(i, torch.ones(3, 1, 2, 2), torch.ones(3), 1, 'same', 1, 3)
    conv3d(v, torch.ones(2, 3, 1, 1, 1))
    conv_transpose1d(s, torch.ones(3, 2, 3))
    conv_transpose2d(i, torch.ones(3, 2, 3, 3), stride=2, output_padding=1)
    conv_transpose3d(v, torch.ones(3, 2, 1, 1, 1))
    cosine_embedding_loss(x, x.flip(1), torch.tensor([1, -1, 1, -1]), 0.2)
    cosine_similarity(x, x.flip(1), dim=1)
    cross_entropy(x, y)
    cross_entropy(x, y, torch.ones(6), ignore_index=1, reduction='sum', label_smoothing=0.2)
    cross_entropy(x, p)
    cross_entropy(x, y, size_average=False)
    cross_entropy(x, y, reduce=False)
    ctc_loss(torch.log_softmax(s.permute(2, 0, 1), 2), torch.tensor([[1, 2], [2, 1]]), torch.tensor([8, 8]), torch.tensor([2, 1]))
    dropout(x, 0.3)
    dropout(x, 0.3, False)
    dropout(x, 0.3, True, True)
    dropout1d(s, 0.3)
    dropout2d(i, 0.3)
    dropout2d(s, 0.3)
    dropout3d(v, 0.3)
    dropout3d(i, 0.3)
    elu(x, 2.0)
    elu_(x)
    embedding(y, x.t(), padding_idx=-1)
    embedding(y, x.t(), max_norm=0.5)
    embedding_bag(y.view(2, 2), x.t().contiguous())
    embedding_bag(y, x.t().contiguous(), torch.tensor([0, 3]), mode='max')
    embedding_bag(y, x.t().contiguous(), torch.tensor([0, 3]), mode='sum', per_sample_weights=p[:, 0].contiguous())
    feature_alpha_dropout(s, 0.3, True)
    fold(x.view(1, 8, 3), (4, 2), (2, 2), padding=0, stride=(1, 1))
    fractional_max_pool2d(i, 2, output_size=(3, 4))
    fractional_max_pool2d(i, 2, output_ratio=(0.5, 0.5), return_indices=True)
    fractional_max_pool2d_with_indices(i, 2, (3, 3))
    fractional_max_pool3d(v, 2, output_ratio=(0.5, 0.5, 0.5))
    gaussian_nll_loss(x, p, p, full=True)
    gaussian_nll_loss(x, p, 0.5)
    gelu(x)
    gelu(x, approximate='tanh')
    glu(x, 1)
    grid_sample(i, torch.tanh(i.reshape(2, 9, 12)[:, :, :2].reshape(2, 3, 3, 2)), align_corners=True)
    grid_sample(i, torch.tanh(i.reshape(2, 9, 12)[:, :, :2].reshape(2, 3, 3, 2)), 'bicubic', 'reflection', False)
    group_norm(i, 3)
    group_norm(s, 1, torch.ones(3), torch.ones(3), 1e-3)
    gumbel_softmax(x, tau=0.5)
    gumbel_softmax(x, hard=True)
    hardshrink(x, 0.3)
    hardsigmoid(x)
    hardsigmoid(x, True)
    hardswish(x)
    hardswish(x, True)
    hardtanh(x, -0.5, 0.5)
    hardtanh_(x)
    hinge_embedding_loss(x, torch.sign(x))
    huber_loss(x, p, delta=0.4)
    huber_loss(x, p, weight=p)
    huber_loss(x, p, 'sum', 0.3, weight=p)
    instance_norm(i)
    instance_norm(i, torch.zeros(3), torch.ones(3), use_input_stats=False)
    interpolate(i, scale_factor=2)
    interpolate(i, (3, 4), mode='bilinear', align_corners=True)
    interpolate(i, scale_factor=(0.5, 1.5), mode='bicubic', antialias=True)
    interpolate(i, scale_factor=0.7, mode='area')
    interpolate(s, 5, mode='linear')
    interpolate(s, 5, mode='area')
    interpolate(v, scale_factor=1.5, mode='trilinear', recompute_scale_factor=True)
    interpolate(v, (2, 3, 4), mode='nearest-exact')
    kl_div(x, p)
    kl_div(x, p, reduction='batchmean', log_target=True)
    l1_loss(x, p)
    l1_loss(x, p, weight=p)
    layer_norm(x, (6,))
    layer_norm(i, [6, 6], torch.ones(6, 6), None, 1e-3)
    leaky_relu(x, 0.3)
    leaky_relu(x, inplace=True)
    leaky_relu_(x)
    linear(x, torch.ones(2, 6), torch.ones(2))
    linear(input=x, weight=torch.ones(2, 6))
    local_response_norm(i, 2)
    log_softmax(x, 1)
    log_softmax(x, dim=0, dtype=torch.float64)
    logsigmoid(x)
    lp_pool1d(s, 2, 3)
    lp_pool2d(i, 2, (2, 3), 1, True)
    lp_pool3d(v, 2, 2)
    margin_ranking_loss(x[0], x[1], torch.sign(x[2]), 0.1)
    max_pool1d(s, 2)
    max_pool1d(s, 3, 2, 1, 1, True, return_indices=True)
    max_pool2d(i, 2, stride=1)
    max_pool2d(i, kernel_size=(2, 3), padding=1, return_indices=True)
    max_pool2d_with_indices(i, 2)
    max_pool3d(v, 2)
    max_unpool1d(*max_pool1d(s, 2, return_indices=True), 2)
    max_unpool2d(*max_pool2d(i, 2, return_indices=True), 2, output_size=(2, 3, 6, 6))
    max_unpool3d(*max_pool3d(v, 2, return_indices=True), 2, output_size=(4, 5, 6))
    mish(x)
    mish(x, True)
    mse_loss(x, p)
    mse_loss(x, p, reduction='none')
    mse_loss(x, p, weight=p)
    mse_loss(x, p, reduction='sum', weight=p)
    multi_margin_loss(x, y, p=2, margin=0.5)
    multilabel_margin_loss(x, torch.tensor([[1, 2, -1, 0, 0, 0]] * 4))
    multilabel_soft_margin_loss(x, p, weight=torch.ones(6), reduction='none')
    nll_loss(x, y)
    nll_loss(i, torch.ones(2, 6, 6, dtype=torch.int64), ignore_index=1, reduction='sum')
    normalize(x)
    normalize(x, p=1, dim=0, eps=1e-3)
    one_hot(y, 7)
    one_hot(y)
    pad(x, (1, 2))
    pad(i, (1, 1, 0, 2), 'reflect')
    pad(i, [1, 1, 0, 2], mode='replicate')
    pad(i, (1, 1, 2, 2), mode='circular')
    pad(x, (1, -1), value=2.5)
    pairwise_distance(x, p, keepdim=True)
    pdist(x)
    pdist(x, p=1)
    pixel_shuffle(i[:, :, :, :].reshape(1, 4, 9, 6), 2)
    pixel_unshuffle(i, 2)
    poisson_nll_loss(x, p)
    poisson_nll_loss(p, p, log_input=False, full=True, reduction='sum')
    prelu(x, torch.full((6,), 0.2))
    relu(x)
    relu(x, inplace=True)
    relu6(x * 4)
    relu6(x * 4, True)
    relu_(x)
    rms_norm(x, (6,))
    rms_norm(x, [6], torch.ones(6), 1e-3)
    rrelu(x)
    rrelu(x, training=True)
    rrelu(x, 0.1, 0.2, True, True)
    scaled_dot_product_attention(i, i, i)
    scaled_dot_product_attention(i, i, i, is_causal=True)
    scaled_dot_product_attention(i, i, i, torch.ones(6, 6).tril().bool(), scale=0.3)
    selu(x)
    selu(x, True)
    sigmoid(x)
    silu(x)
    silu(x, inplace=True)
    smooth_l1_loss(x, p, beta=0.3)
    smooth_l1_loss(x, p, beta=0.0)
    soft_margin_loss(x, torch.sign(x))
    softmax(x, 0)
    softmax(x)
    softmax(s)
    softmin(x, 1, dtype=torch.float64)
    softplus(x, 2, 1.0)
    softshrink(x, 0.3)
    softsign(x)
    tanh(x)
    tanhshrink(x)
    threshold(x, 0.1, -3)
    threshold_(x, 0.1, -3)
    triplet_margin_loss(x, p, x.flip(0), margin=0.5, swap=True)
    triplet_margin_with_distance_loss(x, p, x.flip(0), swap=True, reduction='none')
    unfold(i, 3, padding=1, stride=2)
    upsample(i, scale_factor=2)
    upsample_bilinear(i, size=8)
    upsample_nearest(i, size=(4, 8))
    multi_head_attention_forward(s, s, s, 8, 2, torch.ones(24, 8) / 9, torch.zeros(24), None, None, False, 0.0, torch.ones(8, 8), None)
    native_channel_shuffle(i, 3)
""")

# Each raises the same class in both libraries.
ERRORS = lines("""
    alpha_dropout(x, 1.5)
    batch_norm(x[:1], None, None, training=True)
    binary_cross_entropy(p, p[:2])
    binary_cross_entropy_with_logits(x, p[:2])
    cross_entropy(x, y, reduction='average')
    dropout(x, -0.1)
    dropout1d(i)
    embedding(y, x.t(), padding_idx=9)
    embedding_bag(y, x.t().contiguous())
    embedding_bag(y.view(2, 2), x.t().contiguous(), torch.tensor([0]))
    embedding_bag(y, x.t().contiguous(), torch.tensor([0]), mode='median')
    fractional_max_pool2d(i, 2)
    gaussian_nll_loss(x, p, -p)
    gaussian_nll_loss(x, p, p[:, :3])
    glu(x[0, 0])
    grid_sample(i, i, mode='cubic', align_corners=True)
    grid_sample(i, i, padding_mode='wrap', align_corners=True)
    group_norm(x[0], 2)
    hardtanh(x, 1.0, 0.5)
    instance_norm(i[:, :, :1, :1])
    interpolate(i)
    interpolate(i, 3, 2.0)
    interpolate(i, (3, 3, 3))
    interpolate(i, 3, mode='linear')
    interpolate(i, 3, mode='nothing')
    interpolate(i, 3, mode='nearest', align_corners=True)
    interpolate(i, 3, mode='nearest', antialias=True)
    interpolate(i, 3, recompute_scale_factor=True)
    local_response_norm(x, 2)
    margin_ranking_loss(x, x[0], x)
    max_unpool2d(i, i.long(), 2, output_size=(50, 50))
    mse_loss(x, p, weight=p[0])
    multi_margin_loss(x, y, p=3)
    triplet_margin_loss(x, p, x, margin=0)
    triplet_margin_with_distance_loss(x, p, x[0])
    affine_grid(x, (2, 1, 4, 5), align_corners=False)
    affine_grid(x.view(2, 3, 4), (2, 1, 4), align_corners=False)
    pad(x, (1, 2, 3))
    linear(x, torch.ones(2, 5))
""")


def inputs():
    torch.manual_seed(11)
    found = {"x": torch.randn(4, 6), "i": torch.randn(2, 3, 6, 6), "v": torch.randn(2, 3, 4, 5, 6),
             "s": torch.randn(2, 3, 8), "y": torch.tensor([0, 5, 1, 3])}
    return {**found, "p": torch.rand(4, 6)}


def call(line, module, values):
    names = {name: getattr(module.nn.functional, name) for name in ("max_pool1d", "max_pool2d", "max_pool3d")}
    return evaluate("F." + line, module, **values, **names)


@pytest.mark.parametrize("line", CALLS)
def test_function(line):
    theirs, mine = inputs(), {name: ours(value) for name, value in inputs().items()}
    torch.manual_seed(3), cresset.manual_seed(3)
    want = call(line, torch, theirs)
    same(call(line, cresset, mine), want)
    same(mine, theirs, where="arguments")
    assert cresset.get_rng_state().tolist() == torch.get_rng_state().tolist()


@pytest.mark.parametrize("line", ERRORS)
def test_error(line):
    with pytest.raises(Exception) as theirs:
        call(line, torch, inputs())
    with pytest.raises(theirs.type):
        call(line, cresset, {name: ours(value) for name, value in inputs().items()})


# What is not there; docs/nn.md has the same list.
MISSING = set("""scaled_mm scaled_grouped_mm linear_cross_entropy assert_int_or_pair boolean_dispatch has_torch_function
    has_torch_function_unary has_torch_function_variadic handle_torch_function""".split())


def functions(module, public):
    return {name for name, value in vars(module).items() if not name.startswith("_") and callable(value)
            and not isinstance(value, type)
            and isinstance(value, public)}


def test_nothing_is_missing():
    python = (types.FunctionType, types.BuiltinFunctionType, types.BuiltinMethodType)
    theirs = functions(torch.nn.functional, python)
    assert {name for name in theirs if not hasattr(cresset.nn.functional, name)} <= MISSING
    classes = {name for name, value in vars(torch.nn).items() if isinstance(value, type)}
    assert {name for name in classes if not hasattr(cresset.nn, name)} == {"DataParallel", "LinearCrossEntropyLoss",
            "LinearCrossEntropyOptions"}
    assert {name for name in functions(torch.nn.init, types.FunctionType) if not hasattr(cresset.nn.init,
            name)} == set()
    assert {name for name in torch.nn.utils.__all__ if not hasattr(cresset.nn.utils, name)} == set()


def parameters(function):
    """[(name, kind, default)]; functions as defaults by name."""
    found = []
    for p in inspect.signature(function).parameters.values():
        default = getattr(p.default, "__name__", p.default)
        found.append((p.name, p.kind, "none" if p.default is p.empty else str(default)))
    return found


def pairs():
    for name in dir(torch.nn):
        value, mine = getattr(torch.nn, name), getattr(cresset.nn, name, None)
        if mine is None or not isinstance(value, type) or name.startswith("_"):
            continue
        yield f"nn.{name}", mine.__init__, value.__init__
        if hasattr(value, "forward") and value.forward is not torch.nn.Module.forward:
            yield f"nn.{name}.forward", mine.forward, value.forward
    for where in ("nn.functional", "nn.init", "nn.utils", "nn.utils.rnn", "nn.utils.parametrize",
                  "nn.utils.parametrizations"):
        theirs, mine = evaluate("torch." + where, torch), evaluate("torch." + where, cresset)
        for name, value in vars(theirs).items():
            if isinstance(value, types.FunctionType) and hasattr(mine,
                    name) and not name.startswith("_") and "boolean_dispatch" not in value.__qualname__:
                yield f"{where}.{name}", getattr(mine, name), value
    for name, value in vars(torch.nn.Module).items():
        if isinstance(value, types.FunctionType) and not name.startswith("_") and hasattr(cresset.nn.Module, name):
            yield f"nn.Module.{name}", getattr(cresset.nn.Module, name), value


SAME_WORK_OTHER_FORM = {"nn.utils.rnn.PackedSequence", "nn.Buffer", "nn.Parameter"}


def test_signatures():
    different = []
    for name, mine, theirs in pairs():
        if name in SAME_WORK_OTHER_FORM or type(mine).__name__ not in ("function", "method"):
            continue
        a, b = parameters(mine), parameters(theirs)
        if a != b:
            different.append(f"{name}\n    {[x[0::2] for x in a]}\n    {[x[0::2] for x in b]}")
    assert not different, "\n" + "\n".join(different)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("channels", [1, 2, 15, 16, 17, 40])
def test_batch_norm_of_rows(channels, dtype):
    """[batch, channels], whose channels are columns: some side by side, and what is left of them."""
    for rows, affine in ((2, True), (7, False), (300, True)):
        torch.manual_seed(rows)
        given = [torch.randn(rows, channels), *torch.randn(3, channels), torch.rand(channels) + 0.5]
        found = []
        for m in (cresset, torch):
            kind = getattr(m, dtype)
            x, weight, bias, mean, var = (m.tensor(t.tolist(), dtype=kind) for t in given)
            x.requires_grad_()
            for training in (True, False):
                y = m.nn.functional.batch_norm(x, mean, var, weight if affine else None, bias if affine else None,
                                               training)
                y.square().sum().backward()
                # differences of near numbers have no digits in the smallest
                seen = [y.detach(), mean, var, *([x.grad] if dtype != "bfloat16" else [])]
                found.append([t.double().tolist() for t in seen])
        near = {"float32": 1e-4, "float64": 1e-9, "bfloat16": 6e-2}[dtype]
        for here, there in zip(found[:2], found[2:]):
            for a, b in zip(here, there):
                torch.testing.assert_close(torch.tensor(a), torch.tensor(b), rtol=near, atol=near * 4)
