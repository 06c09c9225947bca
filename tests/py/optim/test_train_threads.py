"""Two threads train two models at once: each becomes what it becomes alone, bit for bit. Forward, tape, backward and
optimizer steps meet nowhere. `.ci/run` runs this under ThreadSanitizer, too."""
import copy
import sys
from concurrent.futures import ThreadPoolExecutor

import cresset
import pytest
from cresset import nn, optim

ROWS, WIDTH = 96, 160  # enough for the thread pool to be asked


def make(k):
    cresset.manual_seed(k)
    model = nn.Sequential(nn.Linear(WIDTH, 64), nn.ReLU(), nn.LayerNorm(64), nn.Linear(64, 5))
    return model, cresset.randn(ROWS, WIDTH), cresset.arange(ROWS) % 5


def train(model, x, labels, kind):
    optimizer = {"sgd": lambda p: optim.SGD(p, lr=0.05, momentum=0.9), "adamw": lambda p: optim.AdamW(p, lr=1e-3),
                 "fused": lambda p: optim.Adam(p, lr=1e-3, fused=True)}[kind](model.parameters())
    losses = []
    for _ in range(6):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), labels)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    return losses, [p.detach().clone() for p in model.parameters()]


@pytest.fixture
def hurried():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.parametrize("kinds", [("sgd", "sgd"), ("sgd", "adamw"), ("fused", "adamw")], ids="-".join)
def test_two_models_at_once(kinds, hurried):
    jobs = [(*make(k), kind) for k, kind in enumerate(kinds)]
    alone = [train(*copy.deepcopy(job[:1]), *job[1:]) for job in jobs]
    with ThreadPoolExecutor(len(jobs)) as pool:
        together = [done.result() for done in [pool.submit(train, *job) for job in jobs]]
    for (want, weights), (got, trained) in zip(alone, together):
        assert got == want
        assert all(cresset.equal(a, b) for a, b in zip(weights, trained))
