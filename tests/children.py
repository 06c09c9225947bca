"""Parts of a sweep in processes of their own: a crash or a hang is a result like any other."""
import multiprocessing.pool
import os
import pickle
import signal
import traceback

LIMIT_SECONDS = 300


def in_child(function, seconds=LIMIT_SECONDS):
    """What function() returns, run in a process of its own: a crash or a hang is a result like any other."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        try:
            signal.alarm(seconds)
            try:
                answer = function()
            except Exception as error:
                answer = f"{type(error).__name__}: {error}".splitlines()[0]
                if os.environ.get("CRESSET_TRACE"):
                    traceback.print_exc()
            with os.fdopen(write, "wb") as pipe:
                pickle.dump(answer, pipe)
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        data = pipe.read()
    _, status = os.waitpid(child, 0)
    return pickle.loads(data) if data else f"the process ended by signal {status & 127}"


def in_order(function, items):
    """(item, function(item)) in their order, CRESSET_JOBS at a time; the function works in a child of its own."""
    with multiprocessing.pool.ThreadPool(int(os.environ.get("CRESSET_JOBS") or 1)) as pool:
        yield from zip(items, pool.imap(function, items))
