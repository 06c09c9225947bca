"""CPython's own tests of its language and library, with every function put through capture, the standard library's and
unittest's too: each test must end as it does without. Prints the share of frames that were captured and why others
were not. Modules about generators and coroutines run once more with each such function of theirs compiled by itself and
everything else plain. The tests are the `test` package of the interpreter that runs this; what an installation lacks is
said. Words choose modules by name; --test=WORD chooses tests in them; --times=N seconds for a module (300);
--compiled=only: without the run in which everything is captured. Writes results/cpython.json."""
import collections
import importlib.util
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
import results  # noqa: E402

MODULES = ("test_generators test_yield_from test_generator_stop test_coroutines test_asyncgen test_contextlib "
           "test_with test_exceptions test_dataclasses test_functools test_itertools test_list test_dict test_set "
           "test_scope test_unpack test_call test_descr test_super test_property test_enum test_patma").split()
SUSPENDED = ("test_generators test_yield_from test_generator_stop test_contextlib test_coroutines test_asyncgen "
             "test_contextlib_async test_asyncio.test_tasks test_asyncio.test_taskgroups test_asyncio.test_timeouts "
             "test_asyncio.test_runners test_asyncio.test_locks test_asyncio.test_queues").split()
# Tests of another object than the function that was compiled: one sets the name of what the decorator gave, one hands
# what stands before a generator to a function in C that takes nothing else than CPython's.
ANOTHER = {"test_name (test.test_generators.GeneratorTest.test_name)",
           "test_raise_and_yield_from (test.test_generators.SignalAndYieldFromTest.test_raise_and_yield_from)"}
CHILD = pathlib.Path(__file__).with_name("cpython_child.py")


def is_there(name):
    try:
        return importlib.util.find_spec(f"test.{name}") is not None
    except ModuleNotFoundError:
        return False


def outcomes(name, captured=False, words=(), seconds=300, compiled=False):
    """({test: how it ended}, counts of frames). A process that ends early is one outcome."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "found.json"
        command = [sys.executable, str(CHILD), name, str(file), *["--captured"] * captured, *["--compiled"] * compiled,
                   *words]
        try:
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=seconds,
                                  stdin=subprocess.DEVNULL)
        except subprocess.TimeoutExpired:
            return {name: f"it took longer than {seconds} s"}, None
        if not file.exists():
            return {name: f"the process ended with {done.returncode}: {done.stderr[-2000:]}"}, None
        found = json.loads(file.read_text())
    return found["outcomes"], found["counts"]


def differences(plain, captured):
    """Tests that end otherwise, in words. Texts of failures name addresses and lines: their kind counts."""
    def kind(how):
        return how and how.partition(":")[0]
    if len(captured) == 1 and not set(captured) & set(plain):
        return [f"{test}: {how}" for test, how in captured.items()]
    return [f"{test}: {captured.get(test)}\n  instead of: {plain.get(test)}" for test in sorted({*plain, *captured})
            if kind(plain.get(test)) != kind(captured.get(test))]


def reason(text):
    """Without the place, names and numbers in it."""
    text = text.rpartition(" in ")[2].partition(": ")[2] or text
    return text.split("'")[0].split(": ")[0][:70].strip()


def main():
    options = dict(a[2:].split("=", 1) for a in sys.argv[1:] if a.startswith("--"))
    chosen = results.chosen("cpython", list(dict.fromkeys(MODULES + SUSPENDED)), sys.argv[1:])
    words, seconds = [options["test"]] if "test" in options else [], float(options.get("times", 300))
    total, reasons, passed, wrong, missing = collections.Counter(), collections.Counter(), 0, [], []
    for name in chosen:
        if not is_there(name):
            missing.append(name)
            continue
        plain, _ = outcomes(name, words=words)
        if name in SUSPENDED:
            compiled, _ = outcomes(name, words=words, seconds=seconds, compiled=True)
            found = [line for line in differences(plain, compiled) if line.partition(": ")[0] not in ANOTHER]
            wrong += [f"{name}, compiled: {line}" for line in found]
            passed += len(plain) - len(found)
            print(f"{name}: {len(plain)} tests, its own functions compiled, {len(found)} end otherwise", flush=True)
        if name not in MODULES or options.get("compiled") == "only":
            continue
        captured, counts = outcomes(name, True, words, seconds)
        found = differences(plain, captured)
        wrong += [f"{name}: {line}" for line in found]
        passed += len(plain) - len(found)
        print(f"{name}: {len(plain)} tests, {len(found)} end otherwise", flush=True)
        if counts:
            total.update({key: counts[key] for key in ("frames", "whole", "broken")})
            for text, n in counts["plain"].items():
                reasons[reason(text)] += n
    for line in wrong[:40]:
        print(line[:3000])
    if missing:
        print("this installation of Python does not have:", " ".join(missing))
    frames = max(total["frames"], 1)
    whole, broken = (100 * total[key] / frames for key in ("whole", "broken"))
    print(f"{frames} frames: {whole:.1f} % captured whole, {broken:.1f} % "
          f"with breaks, {100 * sum(reasons.values()) / frames:.1f} % plain:")
    for text, n in reasons.most_common(40):
        print(f"{100 * n / frames:6.1f} %  {text}")
    return results.end("cpython", passed, len(wrong), missing=missing, frames=dict(total), reasons=dict(reasons),
                       python=sys.version.split()[0])


if __name__ == "__main__":
    sys.exit(main())
