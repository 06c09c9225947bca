"""Calls that draw only where an argument says so (dropout of attention and of recurrent layers): they are never made
one, dropped, folded or computed again, and every door draws PyTorch's numbers for the same seed."""
import numpy as np
import pytest

import cresset
from cresset._functorch.aot_autograd import aot_function, min_cut_rematerialization_partition

torch = pytest.importorskip("torch", reason="PyTorch's own numbers are the oracle")


def attention(m, x):
    q = x.view(2, 2, 4, 6)
    return m.nn.functional.scaled_dot_product_attention(q, q, q, dropout_p=0.4).reshape(4, 4, 6)


def recurrent(m, x):
    h = m.zeros(2, 4, 6)
    weights = [m.full((6, 6), 0.1), m.eye(6)] * 2
    return m.rnn_tanh(x, h, weights, False, 2, 0.4, True, False, False)[0]


LAYERS = {"attention": attention, "recurrent": recurrent}
PROGRAMS = {
    "once": lambda m, f, x: f(m, x),
    "twice": lambda m, f, x: f(m, x) - f(m, x),
    "unused": lambda m, f, x: (f(m, x), x + m.rand_like(x))[1],
    "unused and not differentiated": lambda m, f, x: (f(m, x.detach()), x * m.rand_like(x))[1],
    "a factor": lambda m, f, x: x * f(m, x.detach()),
    "of constants": lambda m, f, x: x + f(m, m.ones(4, 4, 6)),
}


def numbers():
    return torch.randn(4, 4, 6, generator=torch.Generator().manual_seed(1))


def eager(program, layer):
    x = numbers().requires_grad_()
    torch.manual_seed(5)
    y = PROGRAMS[program](torch, LAYERS[layer], x)
    y.sin().sum().backward()
    return y.detach().numpy(), x.grad.numpy()


def close(got, wanted):
    np.testing.assert_allclose(got.detach().numpy(), wanted, rtol=1e-4, atol=1e-5)


def model(m, program, layer):
    class Model(m.nn.Module):
        def forward(self, x):
            return PROGRAMS[program](m, LAYERS[layer], x)
    return Model()


CASES = [(program, layer) for program in PROGRAMS for layer in LAYERS]


@pytest.mark.parametrize("program, layer", CASES)
def test_programs(program, layer, tmp_path):
    wanted, _ = eager(program, layer)
    exported = torch.export.export(model(torch, program, layer), (numbers(),))
    torch.export.save(exported, tmp_path / "m.pt2")
    own = cresset.export.export(model(cresset, program, layer), (cresset.from_dlpack(numbers()),))
    read = cresset.export.load(tmp_path / "m.pt2")
    x = cresset.from_dlpack(numbers())
    cresset.manual_seed(5)
    close(model(cresset, program, layer)(x), wanted)
    for door in (read.module(), own.module()):
        cresset.manual_seed(5)
        close(door(x), wanted)
    library = cresset.aot_load(cresset.aot_compile(tmp_path / "m.pt2"))
    library.manual_seed(5)
    close(library(x), wanted)


@pytest.mark.parametrize("compiler", ("nop", "native"))
@pytest.mark.parametrize("program, layer", CASES)
def test_gradients(program, layer, compiler):
    wanted, slope = eager(program, layer)
    compiled = aot_function(lambda x: PROGRAMS[program](cresset, LAYERS[layer], x), compiler,
                            partition_fn=min_cut_rematerialization_partition)
    x = cresset.from_dlpack(numbers()).requires_grad_()
    cresset.manual_seed(5)
    y = compiled(x)
    y.sin().sum().backward()
    close(y, wanted)
    close(x.grad, slope)


@pytest.mark.parametrize("program, layer", CASES)
def test_captured(program, layer):
    wanted, _ = eager(program, layer)
    compiled = cresset.compile(model(cresset, program, layer).forward)
    for _ in range(2):
        cresset.manual_seed(5)
        close(compiled(cresset.from_dlpack(numbers())), wanted)
