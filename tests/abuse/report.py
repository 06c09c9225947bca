"""What the parts of the abuse sweep (tests/full/abuse.py) share: the environment of their children, what was done
already, and the counts."""
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
LARGEST = 256  # MB: a larger request fails, so that giant results must be refused


def build(folder=None):
    """The folder of the sanitized build, brought up to date unless it was named."""
    if folder:
        return pathlib.Path(folder).resolve()
    subprocess.run([ROOT / "dev", "build", "--preset", "debug"], check=True)
    return ROOT / "build" / "debug"


def fingerprint(folder, seed):
    """Of all that an outcome depends on."""
    digest = hashlib.sha256(str(seed).encode())
    for path in sorted([*(folder / "python").rglob("*.so*"), *(ROOT / "tests" / "abuse").glob("*.py"),
                        *(folder / "bin").glob("cresset")]):
        digest.update(path.read_bytes())
    return digest.hexdigest()


class Report:
    SECONDS = 10  # that one case may take

    def __init__(self, result, words=(), jobs=2, folder=None, fresh=False, seed=0, out=sys.stdout):
        self.result, self.words, self.jobs, self.out = result, list(words), jobs, out
        self.folder = build(folder)
        self.key = fingerprint(self.folder, seed)
        kept = json.loads(result.read_text()) if result.exists() and not fresh else {}
        self.units = kept.get("units", {}) if kept.get("fingerprint") == self.key else {}  # unit: [passed, failed]
        self.kept = {unit for unit, (_, failed) in self.units.items() if not failed}
        self.seen, self.part, self.written, self.lock = set(), "", time.monotonic(), threading.Lock()

    def environment(self, **more):
        """Of a child that uses the sanitized package or tool. Every report ends the child with exit code 99."""
        libraries = [subprocess.run(["gcc", f"-print-file-name=lib{name}.so"], capture_output=True, text=True,
                                    check=True).stdout.strip()
                     for name in ("asan", "ubsan")]
        rules = ("detect_leaks=0:allocator_may_return_null=1:exitcode=99:abort_on_error=0:handle_abort=1:"
                 f"detect_stack_use_after_return=0:max_allocation_size_mb={LARGEST}:soft_rss_limit_mb=2048:"
                 "quarantine_size_mb=16:malloc_context_size=12")
        paths = [str(self.folder / "python"), str(ROOT / "tests" / "abuse"),
                 *filter(None, [os.environ.get("PYTHONPATH")])]
        return {**os.environ, "LD_PRELOAD": ":".join(libraries), "ASAN_OPTIONS": rules, "PYTHONPATH": ":".join(paths),
                "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1:exitcode=99", "CRESSET_BUILD": str(self.folder),
                "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1",
                "OPENBLAS_NUM_THREADS": "1", **more}

    def begin(self, part):
        self.part = part

    def wanted(self, subject):
        return not self.words or any(word in subject for word in self.words)

    def is_done(self, unit):
        key = f"{self.part} {unit}"
        self.seen.add(key)
        return key in self.kept

    def add(self, unit, passed, failures=()):
        """A finished unit; may be called from several threads."""
        with self.lock:
            key = f"{self.part} {unit}"
            self.seen.add(key)
            self.units[key] = [passed, len(failures)]
            for text in failures:
                print(f"{key}:\n    " + text.strip().replace("\n", "\n    "), file=self.out, flush=True)
            if time.monotonic() - self.written > 5:
                self.write()

    def counts(self):
        """(passed, failed) of the units that this run asked for."""
        chosen = [self.units[key] for key in self.seen if key in self.units]
        return sum(p for p, _ in chosen), sum(f for _, f in chosen)

    def write(self):
        passed, failed = self.counts()
        self.result.parent.mkdir(parents=True, exist_ok=True)
        partial = self.result.with_suffix(".part")
        partial.write_text(json.dumps({"passed": passed, "failed": failed, "fingerprint": self.key,
                                       "units": self.units}, indent=0))
        partial.replace(self.result)  # a run that is stopped leaves a whole file
        self.written = time.monotonic()

    def end(self):
        self.write()
        passed, failed = self.counts()
        failing = sorted(key for key in self.seen if self.units.get(key, [0, 0])[1])
        print(f"{len(self.seen)} units, {len(self.seen & self.kept)} of them kept from before"
              + (f"; failing: {', '.join(failing)}" if failing else ""), file=self.out)
        print(f"{passed} passed, {failed} failed", file=self.out, flush=True)
        return 1 if failed or not passed else 0
