"""The part `archives` of the abuse sweep: mutated archives (mutate.py) through every command of the tool (drive.c).

The seeds are a program for every op of the table (archive_seeds.py) and the archives that the tests have recorded. One
mutant in WHOLE goes through the C compiler, too. A mutant that fails is kept in results/abuse-mutants."""
import hashlib
import pathlib
import queue
import random
import subprocess
import sys
import tempfile
import threading

import mutate

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
WHOLE = 400
MOST_FAILURES = 3  # of one seed; it has been shown then


class Drive:
    """A process of drive.c."""

    def __init__(self, report, scratch):
        environment = report.environment(CRESSET_CACHE=str(scratch / "cache"), TMPDIR=str(scratch))
        del environment["LD_PRELOAD"]  # the program is linked with them, and so are not the compiler and what it makes
        self.process = subprocess.Popen([report.folder / "bin" / "abuse_drive"], env=environment,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        self.scratch = scratch

    def ask(self, path, whole):
        print(path, self.scratch, int(whole), file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"abuse_drive ended with {self.process.wait()}")
        return line.strip()

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def seeds(report):
    """{name: path}, and the ops that have none."""
    folder = ROOT / "results" / f"abuse-seeds-{report.key[:16]}"
    if not (folder / "done").exists():
        made = subprocess.run([sys.executable, HERE / "archive_seeds.py", folder], env=report.environment(),
                              capture_output=True, text=True)
        if made.returncode:
            raise RuntimeError(f"archive_seeds.py: {made.stderr[-3000:]}")
        (folder / "done").write_text(made.stdout)
    missing = (folder / "done").read_text().split()
    print(f"seeds: {len(list(folder.glob('*.pt2')))} ops; without a program that can be exported: {len(missing)}",
          file=report.out, flush=True)
    recorded = [p for name in ("data", "interop/recorded", "recorded") for p in (ROOT / "tests" / name).rglob("*.pt2")]
    recorded += (ROOT / "examples").rglob("*.pt2")
    return {str(p.name if p.parent == folder else p.relative_to(ROOT)): p
            for p in sorted([*folder.glob("*.pt2"), *recorded])}, missing


def attempt(drive, name, path, seed, count, ops):
    """Mutants 0 to count - 1 of one seed: (passed, failures)."""
    members, passed, failures = mutate.read(path), 0, []
    for index in range(count):
        rng = random.Random(f"{seed} {name} {index}")
        # the first one of several is the seed itself
        data = path.read_bytes() if index == 0 and count > 1 else mutate.mutant(rng, members, ops)
        place = drive.scratch / "mutant.pt2"
        place.write_bytes(data)
        answer = drive.ask(place, rng.randrange(WHOLE) == 0)
        if answer == "ok":
            passed += 1
            continue
        kept = ROOT / "results" / "abuse-mutants" / f"{hashlib.sha256(data).hexdigest()[:16]}.pt2"
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_bytes(data)
        failures.append(f"mutant {index} of seed {seed}, kept as {kept.relative_to(ROOT)}: "
                        f"{answer}\n{(drive.scratch / 'stderr').read_text(errors='replace')[-6000:]}")
        if len(failures) == MOST_FAILURES:
            break
    return passed, failures


def work(report, seed, count, ops, names):
    with tempfile.TemporaryDirectory(prefix="cresset-abuse-") as scratch:
        drive = Drive(report, pathlib.Path(scratch))
        while True:
            try:
                name, path = names.get_nowait()
            except queue.Empty:
                return drive.close()
            report.add(f"{name} {count}", *attempt(drive, name, path, seed, count, ops))


def part(budget, seed, report):
    (found, missing), names = seeds(report), queue.Queue()
    ops = [f"torch.ops.{n.replace('::', '.')}" + ("" if "." in n.split("::")[1] else ".default") for n in
           [*(p.stem.replace("-", "::", 1) for p in found.values() if p.parent.name.startswith("abuse-seeds")),
            *missing]]
    count = max(1, -(-budget // len(found)))
    for name, path in found.items():
        if report.wanted(name) and not report.is_done(f"{name} {count}"):
            names.put((name, path))
    workers = [threading.Thread(target=work, args=(report, seed, count, ops, names))
               for _ in range(min(report.jobs, names.qsize()))]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
