"""The children of the part `calls`: a process that imported everything once and forks for each batch of calls.

It reads lines `OP SEED FIRST COUNT` and answers each with one line of JSON: {"done": n, "report": text or null}. `done`
calls were carried out; with a report, call number FIRST + done was the one that failed (or took longer than
SECONDS)."""
import functools
import json
import mmap
import os
import random
import signal
import struct
import sys
import tempfile
import time
import traceback
import warnings

import cresset
import nonsense

TOUCHED = 1 << 16  # results up to that many elements are read again: a view must lie in its storage


def our_op(name):
    ns, _, rest = name.partition("::")
    packet, _, overload = rest.partition(".")
    return getattr(getattr(getattr(cresset.ops, ns), packet), overload or "default")


@functools.cache
def functional_forms():
    """In-place and out form: the functional op whose recorded calls fit."""
    rows = [cresset._C._row(name) for name in cresset._C._op_names()]
    return {row[form]: row["name"] for row in rows if row["variant"] == "functional" for form in ("inplace", "out")
            if row[form]}


def make(name, seed, index, base, parameters):
    """Call number `index`: always the same one, whatever was called before."""
    return nonsense.arguments(random.Random(f"{seed} {name} {index}"), name, base, parameters)


def touch(value):
    if isinstance(value, cresset.Tensor):
        if value.device.type == "cpu" and 0 < value.numel() <= TOUCHED:
            value.clone()
    elif isinstance(value, (list, tuple)):
        for item in value:
            touch(item)


def is_fake(index):
    """Is it called without data, and with symbols for sizes, as while a program is read? Rules alone run then."""
    return index % 8 == 7


def call(name, op, given, fake):
    try:
        if fake:
            cresset._C._fake_call(name, (), given, True)
        else:
            touch(op(**given))
    except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError, MemoryError, OverflowError,
            AssertionError):
        pass  # refused: what most of these calls should be


def prepared(name):
    """What all calls of an op share: itself, the op whose recorded calls fit, its parameters."""
    return our_op(name), functional_forms().get(name, name), cresset._C._signature(name)[0]


def batch(progress, name, seed, first, count):
    """`progress`: number of the current call, when it began."""
    op, base, parameters = prepared(name)
    for i in range(count):
        progress[:16] = struct.pack("qd", i, time.monotonic())
        call(name, op, make(name, seed, first + i, base, parameters), is_fake(first + i))
    progress[:16] = struct.pack("qd", count, time.monotonic())


def describe(progress, name, seed, index):
    _, base, parameters = prepared(name)
    given = ", ".join(f"{k}={nonsense.describe(v)}" for k, v in make(name, seed, index, base, parameters).items())
    print(("without data: " if is_fake(index) else "") + given, flush=True)


def watch(pid, progress, seconds):
    """Waits for a child: its status, or None when a call took too long."""
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return status
        began, = struct.unpack("d", progress[8:16])
        if began and time.monotonic() - began > seconds:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return None
        time.sleep(0.002)


def in_child(seconds, work, *args):
    """Runs work(progress, *args) in a process of its own: (its status, the number of calls it finished, what it
    printed)."""
    progress = mmap.mmap(-1, 64)
    with tempfile.TemporaryFile() as printed:
        pid = os.fork()
        if not pid:
            code = 1
            try:
                os.dup2(printed.fileno(), 1)
                os.dup2(printed.fileno(), 2)
                work(progress, *args)
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                os._exit(code)
        status = watch(pid, progress, seconds)
        printed.seek(0)
        return status, struct.unpack("q", progress[:8])[0], printed.read(12000).decode(errors="replace")


def run(seconds, *args):
    status, done, text = in_child(seconds, batch, *args)
    if status == 0:
        return {"done": done, "report": None}
    return {"done": done,
            "report": (f"ran for more than {seconds} s" if status is None else f"ended with status {status}")
            + f"\n{text}"}


def main(seconds):
    warnings.filterwarnings("ignore")
    cresset.set_num_threads(1)  # a fork has no threads
    nonsense.records()
    functional_forms()
    for line in sys.stdin:
        word, *rest = line.split()
        if word == "names":
            answer = [n for n in cresset._C._op_names()
                      if not any(p["type"] == "Graph" for p in cresset._C._signature(n)[0])]
        elif word == "describe":
            answer = in_child(seconds, describe, rest[0], *map(int, rest[1:]))[2]
        else:
            answer = run(seconds, word, *map(int, rest))
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(float(sys.argv[1]))
