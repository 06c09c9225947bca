"""16 threads that call shared compiled functions for 60 s, with sizes, dtypes, numbers and globals that change and with
everything captured forgotten now and then, so that they capture, recompile and run entries at the same time: graphs
whole, loops that break, callees, generators, modules, exceptions. Every result must be what the function itself gives;
a deadlock ends the sweep with the stacks of all threads. Writes results/threads.json. `--seconds=N`; under TSan:
`./dev exec --preset tsan python tests/full/threads.py --seconds=20`."""
import faulthandler
import pathlib
import random
import sys
import threading
import time
import warnings

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests")]
import results  # noqa: E402

import cresset  # noqa: E402

THREADS = 16
SCALE = [1.0]


class Net(cresset.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = cresset.nn.Linear(3, 3)

    def forward(self, x):
        y = self.inner(x).relu()
        id(y)
        return y * 2


NET = Net().eval()


def whole(x, n):
    return (x * 2 + n).sum() * SCALE[0]


def loops(x, n):
    for k in range(n % 4):
        x = x + k
        id(x)
    return x * 2


def branches(x, n):
    while x.sum() < 20:
        x = x.abs() + 1
    return x - n if x.max() > 5 else x + n


def callee(x, n):
    def inner(y):
        z = y * n
        id(z)
        return z + 1
    return inner(x) + inner(x - 1)


def generates(x, n):
    return sum(x * k for k in (k + 1 for k in range(n % 3 + 1))) + 1


def raises(x, n):
    try:
        y = x + 1
        id(y)
        return y * [1, 2][n % 3]
    except IndexError as error:
        return y - len(str(error))


def module(x, n):
    with cresset.no_grad():
        return NET(x.float()) + n


FUNCTIONS = (whole, loops, branches, callee, generates, raises, module)


def work(number, until, compiled, wrong, calls):
    choose = random.Random(number)
    while time.monotonic() < until and not wrong:
        function = choose.choice(FUNCTIONS)
        n = choose.randrange(7)
        x = cresset.full((choose.randrange(1, 4), 3), float(choose.randrange(4)),
                         dtype=choose.choice((cresset.float32, cresset.float64)))
        if choose.random() < 0.01:
            compiled[function]._reset()
        if choose.random() < 0.01:
            NET.train(choose.random() < 0.5)
        found, expected = compiled[function](x, n), function(x, n)
        if found.tolist() != expected.tolist():
            wrong.append(f"{function.__name__}({x}, {n}): {found} instead of {expected}")
        calls[number] += 1


def run(seconds, threads=THREADS):
    """(calls, what was wrong)."""
    compiled = {f: cresset.compile(f, backend="eager") for f in FUNCTIONS}
    wrong, calls, interval = [], [0] * threads, sys.getswitchinterval()
    until = time.monotonic() + seconds
    faulthandler.dump_traceback_later(seconds * 4 + 120, exit=True)
    sys.setswitchinterval(1e-5)
    try:
        started = [threading.Thread(target=work, args=(k, until, compiled, wrong, calls)) for k in range(threads)]
        for thread in started:
            thread.start()
        for thread in started:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
        faulthandler.cancel_dump_traceback_later()
    assert all(calls) or wrong
    return sum(calls), wrong


def main(argv):
    warnings.simplefilter("ignore")
    results.only("threads", argv, lambda word: word.startswith("--seconds="))
    seconds = next((float(a.partition("=")[2]) for a in argv), 60)
    calls, wrong = run(seconds)
    for line in wrong[:5]:
        print(line)
    print(f"{calls} calls in {seconds:.0f} s by {THREADS} threads")
    return results.end("threads", calls, len(wrong), seconds=seconds, threads=THREADS)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
