"""N2: nn.init and nn.utils against PyTorch's: the same numbers, keys, texts and error classes."""
# ruff: noqa: E501 - one case is one line
import pathlib
import sys
import warnings

import pytest

torch = pytest.importorskip("torch", reason="results are compared with PyTorch's; test_module.py needs no oracle")
sys.path.insert(0, str(pathlib.Path(__file__).parent))
import cresset  # noqa: E402
from agree import lines  # noqa: E402
from twin import bits, evaluate, ours, same  # noqa: E402

INIT = lines("""
    uniform_(x, -2, 3)
    normal_(x, 1.0, 0.5)
    trunc_normal_(x, std=2.0)
    trunc_normal_(x, 0.5, 0.1, 0.3, 0.9)
    trunc_normal_(x, std=5.0)
    trunc_normal_(x, 0.0, 1.0, 1.5, 4.0)
    constant_(x, 3.5)
    ones_(x)
    zeros_(x)
    eye_(x)
    xavier_uniform_(x)
    xavier_uniform_(x, gain=2.0)
    xavier_normal_(x)
    kaiming_uniform_(x)
    kaiming_uniform_(x, a=0.3, mode='fan_out')
    kaiming_uniform_(x, nonlinearity='relu')
    kaiming_normal_(x, mode='fan_out', nonlinearity='relu')
    orthogonal_(x)
    orthogonal_(x.t(), gain=2)
    sparse_(x, 0.3)
    dirac_(x.view(6, 5, 1, 4))
    dirac_(x.view(6, 5, 2, 2), 2)
    dirac_(x.view(6, 5, 4), 3)
""")


@pytest.mark.parametrize("line", INIT)
def test_init(line):
    """Normal numbers go through other functions of the C library, so those agree within rounding."""
    torch.manual_seed(1), cresset.manual_seed(1)
    size = "zeros(6, 20)"
    got, want = (evaluate(f"[x := {size}, nn.init.{line}][0]", module) for module in (cresset, torch))
    if "normal" in line or "orthogonal" in line or "sparse" in line:
        same(got, want, 1e-5)
    else:
        bits(got, want, line)
    assert cresset.get_rng_state().tolist() == torch.get_rng_state().tolist()


@pytest.mark.parametrize("line", lines("""
    calculate_gain('linear')
    calculate_gain('tanh')
    calculate_gain('relu')
    calculate_gain('selu')
    calculate_gain('leaky_relu')
    calculate_gain('leaky_relu', 0.2)
    _calculate_fan_in_and_fan_out(zeros(3, 4, 5))
"""))
def test_init_numbers(line):
    assert evaluate("nn.init." + line, cresset) == evaluate("nn.init." + line, torch)


@pytest.mark.parametrize("line", lines("""
    calculate_gain('nothing')
    calculate_gain('leaky_relu', True)
    eye_(zeros(3))
    dirac_(zeros(3, 3))
    dirac_(zeros(4, 3, 3), 3)
    xavier_uniform_(zeros(3))
    kaiming_uniform_(zeros(3, 3), mode='fan')
    orthogonal_(zeros(3))
    sparse_(zeros(3), 0.5)
"""))
def test_init_errors(line):
    with pytest.raises(Exception) as theirs:
        evaluate("nn.init." + line, torch)
    with pytest.raises(theirs.type):
        evaluate("nn.init." + line, cresset)


# (what is built; then calls of it in training, in training again, in eval; text and keys are compared too)
REPARAMETRIZED = lines("""
    nn.utils.parametrizations.weight_norm(nn.Linear(4, 3))
    nn.utils.parametrizations.weight_norm(nn.Linear(4, 3), dim=None)
    nn.utils.parametrizations.weight_norm(nn.Linear(4, 3), dim=1)
    nn.utils.parametrizations.spectral_norm(nn.Linear(4, 3))
    nn.utils.parametrizations.spectral_norm(nn.Linear(4, 3), n_power_iterations=3, dim=1)
    nn.utils.parametrizations.spectral_norm(nn.Linear(4, 3), name='bias')
    nn.utils.weight_norm(nn.Linear(4, 3))
    nn.utils.weight_norm(nn.Linear(4, 3), dim=None)
    nn.utils.spectral_norm(nn.Linear(4, 3))
    nn.utils.spectral_norm(nn.Linear(4, 3), n_power_iterations=2)
    nn.utils.remove_weight_norm(nn.utils.weight_norm(nn.Linear(4, 3)))
    nn.utils.remove_spectral_norm(nn.utils.spectral_norm(nn.Linear(4, 3)))
    nn.utils.parametrize.register_parametrization(nn.Linear(4, 4), 'weight', Symmetric())
    nn.utils.parametrize.register_parametrization(nn.utils.parametrize.register_parametrization(nn.Linear(4, 4), 'weight', Symmetric()), 'weight', Twice())
    nn.utils.parametrize.register_parametrization(nn.utils.parametrize.register_parametrization(nn.Linear(4, 4), 'weight', Symmetric()), 'bias', Twice())
    nn.utils.parametrize.remove_parametrizations(nn.utils.parametrize.register_parametrization(nn.Linear(4, 4), 'weight', Symmetric()), 'weight')
    nn.utils.parametrize.remove_parametrizations(nn.utils.parametrize.register_parametrization(nn.Linear(4, 4), 'weight', Symmetric()), 'weight', leave_parametrized=False)
    nn.utils.parametrize.remove_parametrizations(nn.utils.parametrizations.weight_norm(nn.Linear(4, 3)), 'weight')
    nn.utils.parametrize.transfer_parametrizations_and_params(nn.utils.parametrize.register_parametrization(nn.Linear(4, 4), 'weight', Symmetric()), nn.Linear(4, 4))
    nn.utils.fuse_linear_bn_eval(nn.Linear(4, 3).eval(), nn.BatchNorm1d(3).eval())
""")


def parts(module):
    class Symmetric(module.nn.Module):
        def forward(self, x):
            return x.triu() + x.triu(1).transpose(-1, -2)

        def right_inverse(self, x):
            return x.triu()

    class Twice(module.nn.Module):
        def forward(self, x):
            return 2 * x

        def right_inverse(self, x):
            return x / 2

    return {"Symmetric": Symmetric, "Twice": Twice}


@pytest.mark.parametrize("line", REPARAMETRIZED)
def test_reparametrized(line):
    torch.manual_seed(2), cresset.manual_seed(2)
    theirs, mine = evaluate(line, torch, **parts(torch)), evaluate(line, cresset, **parts(cresset))
    assert repr(mine) == repr(theirs)
    assert list(mine.state_dict()) == list(theirs.state_dict())
    same(dict(mine.state_dict()), dict(theirs.state_dict()))
    assert mine.state_dict()._metadata == theirs.state_dict()._metadata
    x = torch.randn(2, 4)
    for step in ("train", "train", "eval"):
        getattr(mine, step)(), getattr(theirs, step)()
        same(mine(ours(x)), theirs(x).detach(), where=step)
        same(dict(mine.state_dict()), dict(theirs.state_dict()))
    same(mine.weight.detach(), theirs.weight.detach())


def test_parametrized_tensors_are_assigned_and_cached():
    module = cresset.nn.Linear(3, 3)
    p = cresset.nn.utils.parametrize
    p.register_parametrization(module, "weight", parts(cresset)["Twice"]())
    module.weight = cresset.ones(3, 3)
    assert module.parametrizations.weight.original.tolist() == [[0.5] * 3] * 3
    assert module.weight.tolist() == [[1.0] * 3] * 3
    with p.cached():
        assert module.weight is module.weight
    assert module.weight is not module.weight
    assert p.is_parametrized(module, "weight") and not p.is_parametrized(module, "bias")
    assert p.type_before_parametrizations(module) is cresset.nn.Linear
    with pytest.raises(ValueError, match="no_such"):
        p.register_parametrization(module, "no_such", cresset.nn.Identity())


def grads(module, parameters, seed=4):
    for i, p in enumerate(parameters):
        torch.manual_seed(seed + i)
        grad = torch.randn(tuple(p.shape))
        p.grad = grad if module is torch else ours(grad)


@pytest.mark.parametrize("line", lines("""
    nn.utils.clip_grad_norm_(ps, 1.0)
    nn.utils.clip_grad_norm_(ps, 1.0, norm_type=inf)
    nn.utils.clip_grad_norm_(ps[0], 100.0, 1)
    nn.utils.clip_grad_value_(ps, 0.1)
    nn.utils.get_total_norm([p.grad for p in ps], 3.0)
"""))
def test_clipping(line):
    torch.manual_seed(0), cresset.manual_seed(0)
    results = []
    for module in (cresset, torch):
        layer = module.nn.Linear(4, 3)
        grads(module, layer.parameters())
        ps = list(layer.parameters())
        results.append((evaluate(line, module, ps=ps), [p.grad for p in ps]))
    same(*results)


def test_zero_grad():
    layer = cresset.nn.Linear(2, 2)
    grads(cresset, layer.parameters())
    layer.zero_grad(set_to_none=False)
    assert layer.weight.grad.tolist() == [[0.0, 0.0], [0.0, 0.0]]
    layer.zero_grad()
    assert layer.weight.grad is None
    with pytest.raises(RuntimeError, match="sizes"):
        layer.weight.grad = cresset.ones(3)


def test_vectors_and_fusion():
    torch.manual_seed(0), cresset.manual_seed(0)
    nets = [evaluate("nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3))", module) for module in (cresset, torch)]
    x = torch.randn(4, 2, 5, 5)
    nets[0](ours(x)), nets[1](x)
    same(cresset.nn.utils.parameters_to_vector(nets[0].parameters()).detach(),
         torch.nn.utils.parameters_to_vector(nets[1].parameters()).detach())
    fused = cresset.nn.utils.fuse_conv_bn_eval(nets[0].eval()[0], nets[0][1])
    same(fused(ours(x)), nets[1].eval()(x).detach())
    total = sum(p.numel() for p in nets[0].parameters())
    cresset.nn.utils.vector_to_parameters(cresset.arange(total, dtype=cresset.float32), nets[0].parameters())
    assert nets[0][1].bias.tolist() == [total - 3, total - 2, total - 1]


def test_functional_call():
    layer = cresset.nn.Linear(2, 2)
    before = layer.weight
    x = cresset.ones(1, 2)
    from cresset.nn.utils.stateless import functional_call
    assert functional_call(layer, {"weight": cresset.zeros(2, 2), "bias": cresset.ones(2)},
                           (x,)).tolist() == [[1.0, 1.0]]
    assert layer.weight is before
    with pytest.raises(RuntimeError, match="bias"):
        functional_call(layer, {"weight": cresset.zeros(2, 2)}, x, strict=True)


@pytest.mark.parametrize("line", lines("""
    nn.utils.rnn.pad_sequence([x[:3], x[:1], x])
    nn.utils.rnn.pad_sequence([x[:3], x[:1], x], True, 2.0, 'left')
    tuple(nn.utils.rnn.pack_padded_sequence(x.expand(4, 5, 2).transpose(0, 1).contiguous(), [5, 5, 2, 1]))
    tuple(nn.utils.rnn.pack_padded_sequence(torch.stack([x, x + 1, x + 2]), tensor([2, 5, 3]), True, False))
    nn.utils.rnn.pad_packed_sequence(nn.utils.rnn.pack_sequence([x[:2], x, x[:3]], enforce_sorted=False), True, -1.0, 7)
    nn.utils.rnn.unpack_sequence(nn.utils.rnn.pack_sequence([x, x[:2]]))
    nn.utils.rnn.unpad_sequence(torch.stack([x, x + 1], 1), tensor([3, 4]))
    nn.utils.rnn.invert_permutation(tensor([2, 0, 1]))
"""))
def test_packing(line):
    x = torch.arange(10.0).view(5, 2)
    same(evaluate(line, cresset, x=ours(x)), evaluate(line, torch, x=x))


def test_warnings_and_skip_init():
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        cresset.nn.utils.weight_norm(cresset.nn.Linear(2, 2))
    assert any(issubclass(w.category, FutureWarning) for w in seen)
    made = cresset.nn.utils.skip_init(cresset.nn.Linear, 3, 2)
    assert made.weight.shape == (2, 3) and made.weight.device.type == "cpu" and isinstance(made.weight,
            cresset.nn.Parameter)
