"""T1, T2: a million calls of compiled PyTorch functions leave nothing behind and do not become slower: inference, a
module with parameters, a break in each call, sizes that change, a hundred thousand training steps, and the code of
torch.compile(backend="cresset"). A process may have grown by less than 1 MiB after the first hundredth; the quotient of
the last and the second tenth's seconds is printed. Words choose by name, a number N how many calls.

    ./dev test --full torch_calls
    ./dev test --full torch_calls training 1000
"""
import gc
import pathlib
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
import cresset  # noqa: E402
import results  # noqa: E402
import torch  # noqa: E402
from training_loop import resident  # noqa: E402

CALLS, LIMIT = 1_000_000, 1 << 20


def no_grad(f, *args):
    def call(i):
        with torch.no_grad():
            return f(*args)
    return call


def inference():
    return no_grad(cresset.compile(lambda x, w: (x * w).sin() + 1), torch.ones(64), torch.ones(64))


def module():
    net = torch.nn.Sequential(*[layer for _ in range(3) for layer in (torch.nn.Linear(4, 4), torch.nn.Tanh())])
    return no_grad(cresset.compile(net), torch.ones(2, 4))


def breaks():
    @cresset.compile
    def f(x):
        y = x * 2
        return y + 1 if y[0] > 0 else y - 1
    return no_grad(f, torch.ones(4))


def sizes():
    f, given = cresset.compile(lambda x: x.sum(0) * x.shape[0]), [torch.ones(n, 3) for n in range(2, 12)]

    def call(i):
        with torch.no_grad():
            return f(given[i % 10])
    return call


def training():
    net = cresset.compile(torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)))
    optimizer, data = torch.optim.SGD(net.parameters(), lr=0.01), torch.randn(16, 4)

    def call(i):
        optimizer.zero_grad()
        net(data).square().mean().backward()
        optimizer.step()
    return call


def backend():
    return no_grad(torch.compile(lambda x, w: (x * w).sin() + 1, backend="cresset"), torch.ones(64), torch.ones(64))


def check(make, calls):
    """(grown bytes, the last tenth's seconds by the second's)"""
    call, seconds = make(), []
    for i in range(max(calls // 100, 200)):
        call(i)
    time.sleep(2)  # native code is built beside, and takes over
    call(0)
    gc.collect()
    before = resident()
    for _ in range(10):
        begin = time.thread_time()
        for i in range(calls // 10):
            call(i)
        seconds.append(time.thread_time() - begin)
    gc.collect()
    return resident() - before, seconds[-1] / seconds[1]


def main(argv):
    kinds = {f.__name__: f for f in (inference, module, breaks, sizes, training, backend)}
    results.only("torch_calls", argv, lambda word: word.isdigit() or word in kinds)
    total = next((int(a) for a in argv if a.isdigit()), CALLS)
    report = {}
    for name in [a for a in argv if a in kinds] or kinds:
        calls = total // 10 if name == "training" else total
        grown, slower = check(kinds[name], calls)
        report[name] = {"calls": calls, "grown": grown, "last_by_second_tenth": round(slower, 2)}
        print(f"{name}: {calls} calls, {grown} bytes more, last tenth {slower:.2f} of the second", flush=True)
    failed = sum(one["grown"] >= LIMIT for one in report.values())
    return results.end("torch_calls", len(report) - failed, failed, kinds=report)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
