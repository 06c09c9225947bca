"""Random numbers are drawn in the memory order of what an op reads: whatever passes make of layouts, compiled programs
draw PyTorch's numbers for the same seed, at every batch size."""
import numpy as np
import pytest

import cresset

torch = pytest.importorskip("torch", reason="PyTorch's own numbers are the oracle")
nn, F = torch.nn, torch.nn.functional


class Recurrent(nn.Module):
    def __init__(self, kind, **options):
        super().__init__()
        self.layers = kind(8, 8, batch_first=True, bidirectional=True, **options)
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        return self.drop(self.layers(x)[0])


class Convolutions(nn.Module):
    def __init__(self, between, channels_last):
        super().__init__()
        self.first, self.last = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 8, 3, padding=1)
        self.between, self.channels_last = between, channels_last

    def forward(self, x):
        if self.channels_last:
            x = x.contiguous(memory_format=torch.channels_last)
        return self.last(self.between(torch.relu(self.first(x))))


class Plain(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.forward = function


DRAWS = {
    "dropout": lambda x: F.dropout(x, 0.5, True),
    "dropout_": lambda x: F.dropout(x * 1, 0.5, True, inplace=True),
    "alpha_dropout": lambda x: F.alpha_dropout(x, 0.5, True),
    "rand_like": lambda x: x + torch.rand_like(x),
    "randint_like": lambda x: x + torch.randint_like(x, 10),
    "bernoulli": lambda x: torch.bernoulli(torch.sigmoid(x)),
    "bernoulli_": lambda x: x + torch.empty_like(x).bernoulli_(0.3),
    "normal": lambda x: torch.normal(x, 1.0) + torch.normal(x, torch.sigmoid(x)),
    "normal_": lambda x: x + torch.zeros_like(x).normal_(),
    "rrelu": lambda x: F.rrelu(x, training=True),
    "multinomial": lambda x: x * torch.multinomial(x.flatten(1).abs() + 0.01, 3, True).sum(),
}
FILLS = {
    "normal_": lambda view: view.normal_(),
    "bernoulli_": lambda view: view.bernoulli_(0.4),
    "bernoulli_(tensor)": lambda view: view.bernoulli_(torch.full((view.shape[-1],), 0.3)),
    "exponential_": lambda view: view.exponential_(),
}
PARTS = {
    "a slice": lambda y: y[:, :, ::2],
    "a transposed slice": lambda y: y[:, 1:, ::2].transpose(1, 2),
    "transposed": lambda y: y.transpose(1, 2),
    "batch inside": lambda y: y.transpose(0, 2),
}


def of_part(part, fill):
    def function(x):
        y = torch.zeros(x.shape[0], 8, 40) + x.sum()
        fill(part(y))
        return y
    return function


def programs():
    rows = {"gru": (Recurrent(nn.GRU), (4, 8)), "lstm": (Recurrent(nn.LSTM), (4, 8)),
            "gru that drops itself": (Recurrent(nn.GRU, num_layers=2, dropout=0.3), (4, 8))}
    for name, draw in DRAWS.items():
        if name in ("dropout", "normal_"):
            rows[f"conv {name}"] = Convolutions(draw, False), (3, 8, 8)
        rows[f"channels-last conv {name}"] = Convolutions(draw, True), (3, 8, 8)
        rows[f"transposed {name}"] = Plain(lambda x, draw=draw: draw(x.transpose(1, 2) * 2)), (5, 6)
    for name, fill in FILLS.items():
        for where, part in PARTS.items():
            rows[f"{name} of {where}"] = Plain(of_part(part, fill)), (3,)
    return rows


def ours(t):
    return cresset.from_dlpack(t)


def numbers(n, *shape):
    return torch.randn(n, *shape, generator=torch.Generator().manual_seed(n))


def check(module, library, inputs):
    torch.manual_seed(3)
    with torch.no_grad():
        wanted = module(inputs).numpy()
    library.manual_seed(3)
    np.testing.assert_allclose(library(ours(inputs)).numpy(), wanted, rtol=1e-4, atol=1e-4 * abs(wanted).max())


@pytest.mark.parametrize("name", programs())
def test_compiled_programs_draw_the_same_numbers(name, tmp_path):
    torch.manual_seed(0)
    module, shape = programs()[name]
    dims = {0: torch.export.Dim("n", min=1, max=64)}
    exported = torch.export.export(module.train(), (numbers(2, *shape),), dynamic_shapes=(dims,))
    torch.export.save(exported, tmp_path / "m.pt2")
    library = cresset.aot_load(cresset.aot_compile(tmp_path / "m.pt2"))
    for n in (2, 1, 5):
        check(module, library, numbers(n, *shape))


def test_inputs_of_other_strides(tmp_path):
    module = Plain(DRAWS["dropout"])
    image = numbers(2, 3, 4, 5).transpose(1, 3)
    torch.export.save(torch.export.export(module, (image,)), tmp_path / "m.pt2")
    check(module, cresset.aot_load(cresset.aot_compile(tmp_path / "m.pt2")), image)


class Loss(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x).square().mean()


@pytest.mark.parametrize("name", ("gru", "lstm", "conv dropout", "channels-last conv dropout"))
def test_training_steps_draw_the_same_numbers(name, tmp_path):
    torch.manual_seed(0)
    inner, shape = programs()[name]
    module = Loss(inner).train()
    torch.export.save(torch.export.export(module, (numbers(2, *shape),), dynamic_shapes=({0: torch.export.Dim("n")},)),
                      tmp_path / "m.pt2")
    library = cresset.aot_load(cresset.aot_compile(tmp_path / "m.pt2", joint="sgd"))
    steps = torch.optim.SGD(module.parameters(), lr=0.5)
    torch.manual_seed(3)
    library.manual_seed(3)
    for n in (2, 5, 3):
        steps.zero_grad()
        loss = module(numbers(n, *shape))
        loss.backward()
        steps.step()
        np.testing.assert_allclose(library.step(ours(numbers(n, *shape)), lr=0.5).item(), loss.item(), rtol=1e-4)


@pytest.mark.parametrize("compiler", ("nop", "native"))
@pytest.mark.parametrize("where", PARTS)
@pytest.mark.parametrize("name", FILLS)
def test_compiled_functions_fill_parts_in_memory_order(name, where, compiler):
    from cresset._functorch.aot_autograd import aot_function

    def function(m, x):
        y = m.zeros(x.shape[0], 8, 40) + x.sum()
        part = PARTS[where](y)
        part.bernoulli_(m.full((part.shape[-1],), 0.3)) if "tensor" in name else FILLS[name](part)
        return y * x.sum()

    x = numbers(2, 3)
    torch.manual_seed(3)
    wanted = function(torch, x)
    compiled = aot_function(lambda x: function(cresset, x), compiler)
    cresset.manual_seed(3)
    np.testing.assert_allclose(compiled(ours(x.clone()).requires_grad_()).detach().numpy(), wanted.numpy(), rtol=1e-5)
