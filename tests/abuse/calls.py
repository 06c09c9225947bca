"""The part `calls` of the abuse sweep: every op of the table with bad arguments (nonsense.py), in batches of one op."""
import json
import pathlib
import queue
import subprocess
import sys
import threading

HERE = pathlib.Path(__file__).resolve().parent
MOST_FAILURES = 5  # of one op; it has been shown then


class Child:
    """A process of call_child.py; ask() gives its answer to one line."""

    def __init__(self, report):
        self.process = subprocess.Popen([sys.executable, HERE / "call_child.py", str(report.SECONDS)],
                                        env=report.environment(),
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, *words):
        print(*words, file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the child that forks ended with {self.process.wait()}, asked for {words}")
        return json.loads(line)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def attempt(child, op, seed, count):
    """Calls 0 to count - 1 of one op: (passed, failures)."""
    at, passed, failures = 0, 0, []
    while at < count and len(failures) < MOST_FAILURES:
        answer = child.ask(op, seed, at, count - at)
        passed += answer["done"]
        if answer["report"] is None:
            break
        at += answer["done"]
        failures.append(f"call {at} of seed {seed}: "
                        f"{op}({child.ask('describe', op, seed, at).strip()})\n{answer['report']}")
        at += 1
    return passed, failures


def work(report, seed, count, ops):
    child = Child(report)
    while True:
        try:
            op = ops.get_nowait()
        except queue.Empty:
            return child.close()
        report.add(f"{op} {count}", *attempt(child, op, seed, count))


def part(budget, seed, report):
    child = Child(report)
    names = child.ask("names")
    child.close()
    count, ops = max(1, -(-budget // len(names))), queue.Queue()
    for op in names:
        if report.wanted(op) and not report.is_done(f"{op} {count}"):
            ops.put(op)
    workers = [threading.Thread(target=work, args=(report, seed, count, ops))
               for _ in range(min(report.jobs, ops.qsize()))]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
