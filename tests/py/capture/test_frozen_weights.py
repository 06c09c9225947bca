"""compile(module, options={"freeze": True}) of Cresset's own modules: native code made with the weights as they are."""
import pytest

import cresset
from cresset import nn

FROZEN = "native, with frozen weights"


def made():
    cresset.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 3)).eval()


def compiled(model, x):
    run = cresset.compile(model, options={"freeze": True})
    with cresset.no_grad():
        for _ in range(2):
            same(run(x), model(x))
            run._compiled._wait()
    assert tiers(run) == [FROZEN]
    return run


def tiers(run):
    return [entry["tier"] for entry in run._compiled._entries()]


def same(a, b):
    assert a.shape == b.shape and a.dtype == b.dtype
    assert float((a - b).abs().max()) <= 1e-5 * max(float(b.abs().max()), 1e-6)


def set_data(model):
    model[0].weight.data = cresset.randn(64, 4)


def write_numpy(model):
    model[0].weight.detach().numpy()[:] = 0.5


def step(model):
    optimizer = cresset.optim.SGD(model.parameters(), lr=0.1)
    with cresset.enable_grad():
        model(cresset.ones(2, 4)).sum().backward()
    optimizer.step()


CHANGES = {
    "data": set_data,
    "numpy": write_numpy,
    "data.add_": lambda m: m[2].weight.data.add_(1),
    "add_": lambda m: m[2].bias.add_(1),
    "load_state_dict": lambda m: m.load_state_dict({k: v + 1 for k, v in m.state_dict().items()}),
    "another parameter": lambda m: setattr(m[0], "bias", nn.Parameter(cresset.randn(64))),
    "double": lambda m: m.double(),
    "step": step,
}


@pytest.mark.parametrize("name", CHANGES)
def test_changes_of_a_weight_are_seen(name):
    pytest.importorskip("numpy", reason="a weight is written through it") if name == "numpy" else None
    model, x = made(), cresset.ones(2, 4)
    run = compiled(model, x)
    with cresset.no_grad():
        CHANGES[name](model)
        x = x.double() if name == "double" else x
        for _ in range(2):
            same(run(x), model(x))
            run._compiled._wait()
    assert tiers(run)[-1] == FROZEN


def test_weights_that_keep_changing_are_read_live():
    model, x = made(), cresset.ones(2, 4)
    run = compiled(model, x)
    with cresset.no_grad():
        for _ in range(6):
            model[0].weight.add_(1)
            same(run(x), model(x))
            run._compiled._wait()
        assert tiers(run) == ["native"]
        model[0].weight.data.add_(1)
        same(run(x), model(x))


def test_gradients_and_training_are_refused():
    model = made()
    run = cresset.compile(model, options={"freeze": True})
    with pytest.raises(RuntimeError, match=r"records gradients.*no_grad\(\)"):
        run(cresset.ones(2, 4))
    with pytest.raises(RuntimeError, match=r"training mode.*eval\(\)"):
        cresset.compile(model.train(), options={"freeze": True})


def test_a_function_that_closes_over_a_module():
    model, x = made(), cresset.ones(2, 4)
    run = cresset.compile(lambda x, w: model(x) * w, options={"freeze": True})
    with cresset.no_grad():
        for k in range(3):
            w = cresset.full((3,), float(k))
            same(run(x, w), model(x) * w)
            run._wait()
        assert [entry["tier"] for entry in run._entries()] == [FROZEN]
        model[2].bias.add_(1)
        same(run(x, w), model(x) * w)
