"""cresset.compile(module, options={"freeze": True}): native code made with the weights as they are, and what happens
when they become others."""
import os
import sys
import threading

import pytest

torch = pytest.importorskip("torch", reason="its modules are compiled")

import cresset  # noqa: E402
sys.path.insert(0, os.path.dirname(__file__))
from torch_checks import CHANGES, apply, assert_same  # noqa: E402

FROZEN = "native, with frozen weights"


def compiled(model, *args, **options):
    """Compiled, called twice, native."""
    run = cresset.compile(model, options={"freeze": True}, **options)
    call = getattr(run, "_compiled", run)
    for _ in range(2):
        assert_same(run(*args), model(*args))
        call._wait()
    return run, call


def tiers(call):
    return [entry["tier"] for entry in call._entries() if entry["ops"]]


@pytest.fixture(autouse=True)
def no_grad():
    with torch.no_grad():
        yield


@pytest.mark.parametrize("name", CHANGES)
def test_changes_of_a_weight_are_seen(name):
    model = torch.nn.Linear(4, 3)
    model.eval()
    x = torch.randn(2, 4)
    run, call = compiled(model, x)
    assert tiers(call) == [FROZEN]
    apply(name, model)
    x = x.double() if name == "double" else x
    for _ in range(3):
        assert_same(run(x), model(x))
        call._wait()
    assert tiers(call)[-1] == FROZEN


SILENT = {
    "data.add_": lambda p: p.data.add_(1e-3),
    "numpy": lambda p: p.detach().numpy().__imul__(1.5),
    "fused": None,
}


@pytest.mark.parametrize("name", SILENT)
def test_writes_that_leave_no_trace_in_large_weights(name):
    model = torch.nn.Sequential(torch.nn.Linear(200, 300), torch.nn.ReLU(), torch.nn.Linear(300, 50)).eval()
    x = torch.randn(3, 200)
    run, call = compiled(model, x)
    versions = [p._version for p in model.parameters()]
    if name == "fused":
        with torch.enable_grad():
            optimizer = torch.optim.AdamW(model.parameters(), fused=True, lr=0.1)
            model(x).sum().backward()
        optimizer.step()
    else:
        for p in model.parameters():
            SILENT[name](p)
        assert versions == [p._version for p in model.parameters()]
    for _ in range(2):
        assert_same(run(x), model(x))
        call._wait()
    assert tiers(call) == [FROZEN]


def test_memory_that_was_freed_is_not_mistaken_for_the_weight():
    model = torch.nn.Linear(64, 64, bias=False).eval()
    x = torch.randn(2, 64)
    run, call = compiled(model, x)
    for k in range(3):
        taken = model.weight.data_ptr()
        model.weight.data = torch.full((64, 64), float(k))
        assert model.weight.data_ptr() != taken  # held, so that nobody gets it
        assert_same(run(x), model(x))
        call._wait()


def test_weights_that_keep_changing_are_read_live():
    model = torch.nn.Linear(4, 3).eval()
    x = torch.randn(2, 4)
    run, call = compiled(model, x)
    for k in range(6):
        model.weight.add_(1)
        assert_same(run(x), model(x))
        call._wait()
    assert tiers(call) == ["native"]
    model.weight.data.add_(1)
    assert_same(run(x), model(x))


def test_what_a_call_is_given_is_no_weight():
    given = torch.nn.Parameter(torch.randn(3, 4), requires_grad=False)
    run = cresset.compile(lambda x, w: x @ w.t(), options={"freeze": True})
    x = torch.randn(2, 4)
    for k in range(8):
        given.data[1, 1] = k
        assert_same(run(x, given), x @ given.t())
        run._wait()
    assert tiers(run) == ["native"]


class Broken(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
        self.register_buffer("scale", torch.tensor(2.0))

    def forward(self, x):
        x = self.first(x) * self.scale
        if x.sum().item() > 1e9:
            return x
        return self.second(x)


def test_values_between_two_graphs_are_no_weights():
    model = Broken().eval()
    run, call = compiled(model, torch.randn(2, 4))
    for k in range(3):
        x = torch.randn(2, 4)
        assert_same(run(x), model(x))
        call._wait()
    assert tiers(call).count(FROZEN) >= 2
    model.scale.fill_(3)
    assert_same(run(x), model(x))


def test_buffers_that_the_program_writes_stay_live():
    torch.manual_seed(0)
    models = [torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3)) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    models[0].eval()
    run = cresset.compile(models[0], options={"freeze": True})
    models[0].train()
    for k in range(4):
        x = torch.randn(5, 4)
        assert_same(run(x), models[1](x))
        run._compiled._wait()
    assert_same(list(models[0].state_dict().values()), list(models[1].state_dict().values()))


def test_open_sizes_tied_weights_and_convolutions():
    class Tied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = torch.nn.Conv2d(3, 8, 3, padding=1)
            self.norm = torch.nn.BatchNorm2d(8)
            self.a = torch.nn.Linear(8, 8)
            self.b = torch.nn.Linear(8, 8)
            self.b.weight = self.a.weight

        def forward(self, x):
            return self.b(self.a(self.norm(self.conv(x)).relu().mean((2, 3))))
    model = Tied().eval()
    run, call = compiled(model, torch.randn(2, 3, 8, 8), dynamic=True)
    for n in (1, 3, 5, 3):
        x = torch.randn(n, 3, 8, 8)
        assert_same(run(x), model(x))
        call._wait()
    assert FROZEN in tiers(call)
    model.a.weight.mul_(2)
    assert_same(run(x), model(x))


def test_inference_tensors_as_weights():
    with torch.inference_mode():
        model = torch.nn.Linear(4, 3).eval()
        x = torch.randn(2, 4)
        run, call = compiled(model, x)
        model.weight.add_(1)  # which nothing counts
        assert_same(run(x), model(x))
        assert tiers(call) == ["building"] or tiers(call) == [FROZEN]


def test_gradients_and_training_are_refused():
    model = torch.nn.Linear(4, 3)
    with pytest.raises(RuntimeError, match=r"training mode.*eval\(\)"):
        cresset.compile(model, options={"freeze": True})
    run = cresset.compile(model.eval(), options={"freeze": True})
    x = torch.randn(2, 4)
    with torch.enable_grad(), pytest.raises(RuntimeError, match=r"records gradients.*no_grad\(\)"):
        run(x)
    assert_same(run(x), model(x))
    with pytest.raises(RuntimeError, match="'freeze' is a bool, not 1"):
        cresset.compile(model, options={"freeze": 1})


def test_threads_while_weights_change():
    model = torch.nn.Linear(128, 128).eval()
    x = torch.ones(128, 128)
    run, call = compiled(model, x)
    failed = []

    def work():
        with torch.no_grad():
            for _ in range(30):
                ones = run(x)
                if not torch.isfinite(ones).all():
                    failed.append(ones)
    threads = [threading.Thread(target=work) for _ in range(3)]
    for t in threads:
        t.start()
    for k in range(3):
        model.weight.mul_(1.5)
        call._wait()
    for t in threads:
        t.join()
    assert not failed
    assert_same(run(x), model(x))


@pytest.mark.parametrize("name", ["mlp8", "bert", "resnet18"])
def test_models(name, bench_model):
    model, args = bench_model(name)
    model.eval()
    run, call = compiled(model, *args)
    assert FROZEN in tiers(call)
    with torch.inference_mode(False):
        for p in model.parameters():
            p.data.mul_(1.01)
    assert_same(run(*args), model(*args))
