"""Compiled PyTorch programs in workers of a DataLoader, in threads, at the end of a process, and called many times."""
import os
import subprocess
import sys
import threading

import pytest

torch = pytest.importorskip("torch", reason="these are PyTorch's programs")
import cresset  # noqa: E402
from training_loop import resident  # noqa: E402

nn, F = torch.nn, torch.nn.functional


def scale(x):
    return (x * 2 + 1).relu()


def whole(run):
    return [e["reason"] for e in run._entries()] == [None]


# ---- a DataLoader's workers, which are forks ----

class Scaled(torch.utils.data.Dataset):
    """Its items are of a few elements: no op on them is run in parallel, which torch cannot do in a fork."""

    def __init__(self, run):
        self.run = run

    def __len__(self):
        return 12

    def __getitem__(self, i):
        return self.run(torch.full((5,), float(i - 6)))


class Stack:
    def __init__(self, run):
        self.run = run

    def __call__(self, items):
        return self.run(torch.stack(items)), os.getpid(), whole(self.run)


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("backend", ["eager", "native"])
def test_workers_of_a_data_loader(backend, persistent):
    """Captured before the fork and after it; the parent goes on with both while the workers live and afterwards."""
    before, after = (cresset.compile(scale, backend=backend) for _ in range(2))
    before(torch.ones(5))
    before._wait()
    rows = torch.arange(-6.0, 6.0)[:, None].expand(12, 5)
    loader = torch.utils.data.DataLoader(Scaled(before), batch_size=3, collate_fn=Stack(after), num_workers=2,
                                         multiprocessing_context="fork", persistent_workers=persistent, timeout=60)
    for _ in range(2):
        seen, workers = [], set()
        for batch, worker, captured in loader:
            assert captured and torch.equal(after(batch), scale(batch))
            seen.append(batch)
            workers.add(worker)
        assert torch.equal(torch.cat(seen), scale(scale(rows)))
        assert len(workers) == 2 and os.getpid() not in workers
    assert whole(before) and torch.equal(before(rows[:1]), scale(rows[:1]))


# ---- threads ----

def together(n, work):
    """work(0), ..., work(n - 1), begun at once; what one of them raises."""
    start, failed = threading.Barrier(n), []

    def run(i):
        try:
            start.wait()
            work(i)
        except BaseException as error:
            failed.append(error)
    threads = [threading.Thread(target=run, args=(i,)) for i in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


@pytest.mark.parametrize("backend", ["eager", "native"])
def test_threads_that_capture_and_call(backend):
    """Every thread captures other sizes of the same function, each in its own gradient mode."""
    model = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 3))
    run = cresset.compile(model, backend=backend)

    def work(i):
        x = torch.arange(4.0 * (i + 1)).view(i + 1, 4) / 10
        with torch.set_grad_enabled(i % 2 == 0):
            for _ in range(20):
                ours, theirs = run(x), model(x)
                assert ours.requires_grad == theirs.requires_grad == (i % 2 == 0)
                assert torch.allclose(ours, theirs, atol=1e-5)
    together(4, work)
    run._compiled._wait()
    together(4, work)


def test_threads_that_train():
    """Forward and backward of one compiled module, every thread with weights and gradients of its own."""
    def loss(x, w):
        return torch.tanh(x @ w).square().mean()
    run = cresset.compile(loss, backend="eager")

    def work(i):
        x = torch.full((3, 4), 0.1 * (i + 1))
        w = torch.ones(4, 2, requires_grad=True)
        for _ in range(20):
            assert torch.allclose(*(torch.autograd.grad(f(x, w), w)[0] for f in (run, loss)), atol=1e-6)
    together(4, work)
    assert whole(run)


# ---- the end of a process ----

ENDS = """
{imports}
w = torch.ones(64, 64, requires_grad=True)
run = cresset.compile(lambda x: torch.tanh(x @ w), backend="{backend}")
x = torch.eye(64)
live = [run(x), run(x)[0], run(x).sum()]            # with graphs of gradients that nobody has run
live[2].backward(retain_graph=True)
with torch.no_grad():
    live += [run(x), run(x).t()]
class Last:                                         # called when the module's names are cleared
    def __del__(self):
        try:
            self.run(self.x)
        except BaseException:
            pass
last = Last()
last.run, last.x, last.self = run, x, last
assert torch.allclose(live[3], torch.tanh(x @ w))
print("good")
"""


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("imports", ["import torch, cresset", "import cresset, torch"],
                         ids=["torch first", "torch last"])
def test_a_process_ends_with_live_results(imports, backend):
    """Results, graphs of gradients, a build under way, a call from a destructor: it ends without a word."""
    done = subprocess.run([sys.executable, "-c", ENDS.format(imports=imports, backend=backend)], capture_output=True,
                          text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "good\n", "")


# ---- many calls ----

def trained(run):
    x, w = torch.ones(64), torch.ones(64, requires_grad=True)

    def step():
        run(x, w).sum().backward()
        w.grad = None
    return step


def inferred(run):
    x, w = torch.ones(64), torch.ones(64)
    return lambda: run(x, w)


def viewed(run):
    x, w = torch.ones(8, 64), torch.ones(64)
    return lambda: run(x, w)[0]


def refused(run):
    """Given what is not captured: plain runs keep nothing, either."""
    x, w = torch.ones(64), torch._neg_view(torch.ones(64))
    return lambda: run(x, w)


@pytest.mark.parametrize("make", [inferred, trained, viewed, refused], ids=lambda f: f.__name__)
def test_many_calls_keep_nothing(make):
    """20,000 calls: 256 bytes kept at each, one tensor's, would be 5 MB."""
    call = make(cresset.compile(lambda x, w: (x * w).sin() + 1, backend="eager"))
    for _ in range(500):
        call()
    before = resident()
    for _ in range(20000):
        call()
    assert resident() - before < 2 << 20
