"""Averaged models and batch norm statistics equal PyTorch's."""
import pathlib
import sys

import numpy
import pytest

torch = pytest.importorskip("torch", reason="averages are compared with PyTorch's")
sys.path.insert(0, str(pathlib.Path(__file__).parent))
from optim_twin import LIBRARIES, array  # noqa: E402


def model_of(module):
    random = numpy.random.RandomState(0)
    model = module.nn.Sequential(module.nn.Linear(3, 4), module.nn.BatchNorm1d(4), module.nn.Linear(4, 2).double())
    shake(module, model, random)
    return model, random


def shake(module, model, random):
    with module.no_grad():
        for value in [*model.parameters(), *model.buffers()]:
            value.copy_(module.from_numpy(numpy.asarray(10 * random.rand(*value.shape))))


@pytest.mark.parametrize("options", ["", "use_buffers=True, avg_fn=s.get_swa_avg_fn()", "avg_fn=s.get_ema_avg_fn(0.7)",
                                     "multi_avg_fn=s.get_ema_multi_avg_fn(0.9)", "device='cpu'",
                                     "multi_avg_fn=s.get_ema_multi_avg_fn(0.5), use_buffers=True",
                                     "multi_avg_fn=s.get_swa_multi_avg_fn()"])
def test_averages(options):
    found = []
    for module in LIBRARIES:
        model, random = model_of(module)
        averaged = eval(f"s.AveragedModel(m, {options})", {"s": module.optim.swa_utils, "m": model})
        for _ in range(5):
            averaged.update_parameters(model)
            shake(module, model, random)
        found.append(averaged.state_dict())
    mine, theirs = found
    assert list(mine) == list(theirs)
    for key in theirs:
        numpy.testing.assert_allclose(array(mine[key]), array(theirs[key]), rtol=1e-6, err_msg=key)


def test_the_average_runs():
    for module in LIBRARIES:
        model = module.nn.Linear(2, 1)
        averaged = module.optim.swa_utils.AveragedModel(model)
        averaged.update_parameters(model)
        assert averaged(module.ones(1, 2)).tolist() == model(module.ones(1, 2)).tolist()


@pytest.mark.parametrize("batched", [False, True])
def test_update_bn(batched):
    found = []
    for module in LIBRARIES:
        random = numpy.random.RandomState(1)
        model = module.nn.Sequential(module.nn.BatchNorm1d(3), module.nn.BatchNorm1d(3, momentum=0.3))
        model.eval()
        data = [module.from_numpy(random.randn(6, 3).astype(numpy.float32)) for _ in range(4)]
        module.optim.swa_utils.update_bn([(x, 0) for x in data] if batched else data, model, device="cpu")
        assert not model.training and (model[0].momentum, model[1].momentum) == (0.1, 0.3)
        found.append(model.state_dict())
    for key in found[1]:
        numpy.testing.assert_allclose(array(found[0][key]), array(found[1][key]), rtol=1e-5, atol=1e-6, err_msg=key)


@pytest.mark.parametrize("line", ["s.AveragedModel(m, avg_fn=min, multi_avg_fn=min)", "s.get_ema_avg_fn(2)",
                                  "s.get_ema_multi_avg_fn(-1)"])
def test_refusals(line):
    classes = []
    for module in LIBRARIES:
        with pytest.raises(Exception) as caught:
            eval(line, {"s": module.optim.swa_utils, "m": module.nn.Linear(1, 1)})
        classes.append(caught.type)
    assert classes[0] is classes[1]
