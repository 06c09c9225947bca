"""Parameter groups, hooks, errors, and state dicts that pass between the two libraries in files."""
import copy
import importlib
import io
import pathlib
import pickle
import sys
import warnings

import numpy
import pytest

torch = pytest.importorskip("torch", reason="states go to PyTorch's optimizers and come back from them")
sys.path.insert(0, str(pathlib.Path(__file__).parent))
import cresset  # noqa: E402
from agree import lines  # noqa: E402
from optim_twin import LIBRARIES, Run, agree  # noqa: E402

LINES = lines("""
    SGD(lr=0.1, momentum=0.9)
    SGD(lr=0.1)
    RMSprop(lr=0.01, momentum=0.9, centered=True)
    Rprop(lr=0.01)
    Adagrad(lr=0.1)
    Adadelta()
    Adam(lr=0.01, amsgrad=True)
    AdamW(lr=0.01, fused=True)
    Adamax()
    NAdam()
    RAdam()
    ASGD(t0=3)
""")


def through_a_file(state, saver, loader):
    file = io.BytesIO()
    saver.save(state, file)
    file.seek(0)
    return loader.load(file)


def resumed(line, first, second):
    """8 steps in one library, then 12 in the other with what the first one saved."""
    dtypes = ("f32", "f64") if "fused" in line else ("f32", "f64", "c64")
    before, after = (Run(module, line, dtypes, groups=2) for module in (first, second))
    before.steps(8)
    after.random = before.random
    saved = through_a_file({"optimizer": before.optimizer.state_dict(),
                            "params": [p.detach() for p in before.params]}, first, second)
    with second.no_grad():
        for p, value in zip(after.params, saved["params"]):
            p.copy_(value)
    after.optimizer.load_state_dict(saved["optimizer"])
    assert str(after.optimizer.state_dict()["param_groups"]) == str(before.optimizer.state_dict()["param_groups"])
    return after.steps(12).results()


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("saver,loader", [(0, 0), (0, 1), (1, 0)])
def test_training_goes_on_in_the_other_library(line, saver, loader):
    agree(resumed(line, LIBRARIES[saver], LIBRARIES[loader]), resumed(line, torch, torch), 1e-6)


@pytest.mark.parametrize("saver,loader", [(0, 0), (0, 1), (1, 0)])
def test_lbfgs_state_in_a_file(saver, loader):
    states = []
    for module in (LIBRARIES[saver], LIBRARIES[loader]):
        p = module.nn.Parameter(module.tensor([3.0, -2.0, 1.0]))
        optimizer = module.optim.LBFGS([p], max_iter=4, history_size=3, lr=0.3)
        scale = module.tensor([1.0, 2.0, 5.0])

        def closure():
            p.grad = scale * p.detach()
            return (scale * p.detach()**2).sum() / 2

        if states:
            optimizer.load_state_dict(through_a_file(states[0], LIBRARIES[saver], module))
        optimizer.step(closure)
        states.append(optimizer.state_dict())
    assert states[1]["state"][0]["n_iter"] == 8


@pytest.mark.parametrize("line", LINES + ["SGD(lr=tensor(0.1))", "Adam(betas=(tensor(0.5), tensor(0.6)))"])
def test_groups_and_repr(line):
    """Options, their order in the text, and numbers of parameters."""
    mine, theirs = (Run(module, line, groups=2).optimizer for module in LIBRARIES)
    assert repr(mine) == repr(theirs)
    assert list(mine.defaults) == list(theirs.defaults)
    got, want = mine.state_dict()["param_groups"], theirs.state_dict()["param_groups"]
    assert [list(group) for group in got] == [list(group) for group in want]
    assert str(got) == str(want)


def test_old_states_gain_the_options_that_came_later():
    results = []
    for module in LIBRARIES:
        run = Run(module, "Adam(lr=0.01)").steps(3)
        state = copy.deepcopy(run.optimizer.state_dict())
        for group in state["param_groups"]:
            for name in ("amsgrad", "maximize", "foreach", "capturable", "differentiable", "fused",
                         "decoupled_weight_decay"):
                del group[name]
        for entry in state["state"].values():
            entry["step"] = int(entry["step"])
        run.optimizer.load_state_dict(state)
        results.append(run.steps(3).results())
        results.append(sorted(run.optimizer.param_groups[0]))
    agree(results[0], results[2], 1e-6)
    assert results[1] == results[3]


def test_loaded_state_is_cast_to_the_parameter():
    """All but `step` take the parameter's dtype."""
    for module in LIBRARIES:
        state = Run(module, "Adam()").steps(2).optimizer.state_dict()
        other = Run(module, "Adam()", ("f64",))
        other.optimizer.load_state_dict(state)
        loaded = other.optimizer.state_dict()["state"][0]
        assert loaded["exp_avg"].dtype == module.float64 and loaded["step"].dtype == module.float32
        assert state["state"][0]["exp_avg"].dtype == module.float32


def test_copies():
    """A copy goes on by itself; a pickle too; a copy of a model and its optimizer keeps them together."""
    for duplicate in (copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))):
        run = Run(cresset, "AdamW(lr=0.01)").steps(3)
        params, optimizer = duplicate((run.params, run.optimizer))
        assert optimizer.param_groups[0]["params"][0] is params[0] is not run.params[0]
        for p, q in zip(params, run.params):
            p.grad = q.grad
        optimizer.step()
        run.optimizer.step()
        for p, q in zip(params, run.params):
            numpy.testing.assert_array_equal(p.detach().numpy(), q.detach().numpy())
        assert type(optimizer.state).__name__ == "defaultdict"


def test_names_of_parameters():
    for module in LIBRARIES:
        layer = module.nn.Linear(2, 3)
        optimizer = module.optim.SGD(layer.named_parameters())
        assert optimizer.state_dict()["param_groups"][0]["param_names"] == ["weight", "bias"]
        other = module.optim.SGD(module.nn.Linear(2, 3).parameters())
        other.load_state_dict(optimizer.state_dict())
        assert other.param_groups[0]["param_names"] == ["weight", "bias"]


def test_no_gradient_no_step():
    for module in LIBRARIES:
        p = module.nn.Parameter(module.ones(2))
        optimizer = module.optim.AdamW([{"params": []}, {"params": [p]}])
        optimizer.step()
        assert p.tolist() == [1, 1] and not optimizer.state


@pytest.mark.parametrize("set_to_none", [True, False])
def test_zero_grad(set_to_none):
    for module in LIBRARIES:
        p, q = (module.nn.Parameter(module.ones(2)) for _ in range(2))
        p.grad = grad = module.ones(2)
        module.optim.SGD([p, q]).zero_grad(set_to_none)
        assert q.grad is None
        if set_to_none:
            assert p.grad is None and grad.tolist() == [1, 1]
        else:
            assert p.grad.tolist() == [0, 0] == grad.tolist()


def test_hooks():
    seen = {}
    for module in LIBRARIES:
        p = module.nn.Parameter(module.ones(2))
        p.grad = module.ones(2)
        optimizer, calls = module.optim.SGD([p]), []
        common = importlib.import_module(f"{module.__name__}.optim.optimizer")
        handles = [
            common.register_optimizer_step_pre_hook(lambda o, a, k: calls.append("every pre")),
            common.register_optimizer_step_post_hook(lambda o, a, k: calls.append("every post")),
            optimizer.register_step_pre_hook(lambda o, a, k: calls.append(("pre", len(a), sorted(k)))),
            optimizer.register_step_pre_hook(lambda o, a, k: (a, {"closure": lambda: 5.0})),
            optimizer.register_step_post_hook(lambda o, a, k: calls.append(("post", sorted(k)))),
            optimizer.register_state_dict_pre_hook(lambda o: calls.append("save 2")),
            optimizer.register_state_dict_pre_hook(lambda o: calls.append("save 1"), prepend=True),
            optimizer.register_state_dict_post_hook(lambda o, s: {**s, "extra": 1}),
            optimizer.register_load_state_dict_pre_hook(lambda o, s: calls.append(sorted(s))),
            optimizer.register_load_state_dict_post_hook(lambda o: calls.append("loaded"))]
        calls.append(optimizer.step())
        state = optimizer.state_dict()
        optimizer.load_state_dict(state)
        for handle in handles:
            handle.remove()
        calls.append(sorted(optimizer.state_dict()))
        optimizer.register_step_pre_hook(lambda o, a, k: 3)
        with pytest.raises(RuntimeError):
            optimizer.step()
        calls.append(optimizer.state_dict()["param_groups"][0]["params"])
        seen[module] = calls
    assert seen[cresset] == seen[torch]
    assert "every pre" in seen[cresset] and 5.0 in seen[cresset]


def test_an_optimizer_of_ones_own():
    """Its step has hooks too, and runs them once although it calls the base class's."""
    class Twice(cresset.optim.SGD):
        def step(self, closure=None):
            super().step(closure)
            return super().step(closure)

    cresset.optim.SGD([cresset.nn.Parameter(cresset.ones(1))])
    p = cresset.nn.Parameter(cresset.ones(2))
    p.grad = cresset.ones(2)
    optimizer, calls = Twice([p], lr=0.25), []
    optimizer.register_step_post_hook(lambda *_: calls.append(1))
    optimizer.step()
    assert p.tolist() == [0.5, 0.5] and calls == [1]


@pytest.mark.parametrize("line", lines("""
    o.SGD(p)
    o.SGD([])
    o.SGD([3])
    o.SGD([{'params': {p}}])
    o.SGD([{'params': [p]}, {'params': [p]}])
    o.SGD([p]).add_param_group([q])
    o.SGD([p]).add_param_group({'params': [p]})
    o.SGD([p]).add_param_group({})
    o.SGD([('a', p), q])
    o.SGD([('a', p)]).add_param_group({'params': [q]})
    o.SGD([p], lr=-1)
    o.SGD([p], momentum=-1)
    o.SGD([p], weight_decay=-1)
    o.SGD([p], nesterov=True)
    o.SGD([p], momentum=0.9, dampening=0.1, nesterov=True)
    o.SGD([p], lr=t.ones(2))
    o.SGD([p], fused=True, foreach=True)
    o.SGD([z], fused=True).step()
    o.RMSprop([p], alpha=-1)
    o.Rprop([p], etas=(1.2, 0.5))
    o.Adagrad([p], lr_decay=-1)
    o.Adagrad([p], fused=True, foreach=True)
    o.Adadelta([p], rho=2)
    o.Adam([p], betas=(1.0, 0.9))
    o.Adam([p], betas=(0.9, -0.1))
    o.Adam([p], betas=(0, 0.9))
    o.Adam([p], betas=(t.tensor(0.5), 0.9))
    o.Adam([p], eps=-1)
    o.Adam([p], lr=t.tensor(0.1), foreach=True)
    o.Adam([p], betas=(t.tensor(0.5), t.tensor(0.9)), foreach=True)
    o.Adam([p], fused=True, foreach=True)
    o.Adam([z], fused=True).step()
    o.Adam([p], capturable=True).step()
    o.NAdam([p], capturable=True).step()
    o.ASGD([p], capturable=True).step()
    o.Adamax([p], betas=(2.0, 0.9))
    o.NAdam([p], momentum_decay=-1)
    o.RAdam([p], weight_decay=-1)
    o.ASGD([p], lr=-1)
    o.LBFGS([{'params': [p]}, {'params': [q]}])
    o.LBFGS([p], lr=-1)
    o.LBFGS([p], line_search_fn='none').step(lambda: p.sum())
    o.LBFGS([p]).step()
    o.SGD([p]).load_state_dict(o.SGD([p, q]).state_dict())
    o.SGD([p]).load_state_dict(o.SGD([{'params': [p]}, {'params': [q]}]).state_dict())
    o.Optimizer([p], {}).step()
    o.Optimizer([p], {'lr': required})
    o.Adafactors
"""))
def test_refusals(line):
    classes = []
    for module in LIBRARIES:
        p, q, z = (module.nn.Parameter(module.ones(2, dtype=getattr(module, d))) for d in ("float32", "float32",
                                                                                           "complex64"))
        for x in (p, q, z):
            x.grad = module.ones(2, dtype=x.dtype)
        with pytest.raises(Exception) as caught:
            required = importlib.import_module(f"{module.__name__}.optim.optimizer").required
            eval(line, {"o": module.optim, "t": module, "required": required, "p": p, "q": q, "z": z})
        classes.append(caught.type)
    assert classes[0] is classes[1]


def test_what_is_refused_by_name():
    p = cresset.nn.Parameter(cresset.ones(2))
    with pytest.raises(NotImplementedError, match=r"Adam\(differentiable=True\)"):
        cresset.optim.Adam([p], differentiable=True)
    with pytest.raises(NotImplementedError, match="differentiable"):
        cresset.optim.SGD([{"params": [p], "differentiable": True}])
    with pytest.raises(NotImplementedError, match="SparseAdam"):
        cresset.optim.SparseAdam([p])


def test_a_parameter_twice_is_warned_of():
    for module in LIBRARIES:
        p = module.nn.Parameter(module.ones(2))
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            optimizer = module.optim.SGD([p, p])
        assert [w.category for w in seen] == [UserWarning]
        assert optimizer.state_dict()["param_groups"][0]["params"] == [1, 1]


def test_loading_is_lazy():
    """`import cresset` reads nothing of it."""
    import subprocess
    code = "import cresset, sys; assert not [m for m in sys.modules if 'optim' in m]; print(cresset.optim.SGD.__name__)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "SGD\n"
