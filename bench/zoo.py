"""./dev zoo [--seconds N] [--again] [--steps LIST] [WORD...]: architectures people use, one small model of each.

For each (whose name has one of the WORDs): does PyTorch's archive load, run and compile here with matching outputs; is
torch.compile(backend="cresset") right, in inference and for gradients? A model runs in a child process, with a limit,
CRESSET_JOBS at a time; results/zoo.json is written after each and a second run goes on where the first ended (--again:
from the start); at the end docs/zoo.md is written from it."""
import argparse
import copy
import json
import os
import pathlib
import random
import re
import select
import signal
import sys
import tempfile
import time
import traceback

ROOT = pathlib.Path(__file__).resolve().parents[1]
RESULTS, PAGE = ROOT / "results" / "zoo.json", ROOT / "docs" / "zoo.md"
STEPS = {"archive": "archive loads and runs", "native": "archive compiles", "inference": "backend, inference",
         "training": "backend, gradients", "whole": "compile(), one graph", "captured": "compile(), inference",
         "captured_training": "compile(), gradients"}
LIMIT, TOLERANCE, JOBS = 300, 1e-3, int(os.environ.get("CRESSET_JOBS", 1))
sys.path.insert(0, str(ROOT / "bench"))
import zoo_as_torch  # noqa: E402 - of the line above


def compare(ours, theirs, tolerance=TOLERANCE):
    """None, or how they differ."""
    import torch
    if len(ours) != len(theirs):
        return f"{len(ours)} results for {len(theirs)}"
    worst = 0.0
    # what is zero but for rounding (the gradient of a key's bias) is measured by what is not
    sizes = [b.detach().abs().max().item() for b in theirs if b is not None and b.numel()]
    floor = 1e-4 * max([s for s in sizes if s < float("inf")], default=0)
    for a, b in zip(ours, theirs):
        if (a is None) != (b is None):
            return "a gradient is missing"
        if a is None:
            continue
        a, b = torch.as_tensor(a).detach().double(), b.detach().double()
        if a.shape != b.shape:
            return f"sizes {tuple(a.shape)} for {tuple(b.shape)}"
        if b.numel():
            if not torch.equal(a.isfinite(), b.isfinite()):
                return "other infinities or NaNs"
            a, b = a[b.isfinite()], b[b.isfinite()]
        if b.numel():
            worst = max(worst, ((a - b).abs().max() / b.abs().max().clamp(min=max(floor, 1e-30))).item())
    return None if worst <= tolerance else f"differs by {worst:.1e}"


def referee(model, args, ours):
    """"ok", or how ours are wrong. Gradients of deep nets amplify rounding, and PyTorch's own capture draws other
    numbers than its eager code where NumPy draws (masks of speech models). So where ours differ, they are compared
    with those of PyTorch's capture alone (aot_eager): in double precision they must agree, and in single precision be
    no further from that than ten times what PyTorch's are."""
    import torch

    def by(backend, double, **options):
        mine = copy.deepcopy(model).double() if double else copy.deepcopy(model)
        given = tuple(a.double() if double and a.is_floating_point() else a for a in args)
        torch._dynamo.reset()
        return gradients(torch.compile(mine, backend=backend, **options), mine, given)

    exact = by("aot_eager", True)
    wrong = compare(by("cresset", True, options={"native": "wait"}), exact)
    if wrong:
        return f"in double precision: {wrong}"
    error = compare(by("aot_eager", False), exact, 0) or "differs by 0"
    if not error.startswith("differs"):
        return f"PyTorch's in double precision: {error}"
    return compare(ours, exact, max(TOLERANCE, 10 * float(error.split()[-1]))) or "ok"


def archive_steps(model, args, expected, row):
    import cresset
    import torch
    with tempfile.TemporaryDirectory() as folder:
        path = folder + "/model.pt2"
        try:
            with torch.no_grad():
                torch.export.save(torch.export.export(model, args), path)
        except Exception as error:
            row["refused"] = f"{type(error).__name__}"
            return
        given = tuple(cresset.from_dlpack(a) for a in args)
        try:
            program = cresset.export.load(path)
            with cresset.no_grad():
                results = program.module()(*given)
            row["archive"] = compare([torch.from_dlpack(t.detach()) for t in results], expected) or "ok"
        except Exception as error:
            row["archive"] = said(error)
        try:
            compiled = cresset.aot_load(cresset.aot_compile(program, options={"output_path": folder + "/libmodel.so"}))
            row["native"] = compare([torch.from_dlpack(t) for t in compiled(*given)], expected) or "ok"
        except Exception as error:
            row["native"] = said(error)


def said(error):
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:200]


def seed():
    """All generators: NumPy's draws the masks of speech models."""
    import numpy
    import torch
    torch.manual_seed(1)
    numpy.random.seed(1)
    random.seed(1)


def gradients(run, model, args):
    import torch
    seed()
    model.zero_grad()
    results = [r for r in run(*args) if r.requires_grad]
    # by random weights: of squares after a layer norm the gradient is zero but for rounding
    chance = torch.Generator().manual_seed(2)
    sum((r * torch.randn(r.shape, generator=chance)).mean() for r in results).backward()
    return [None if p.grad is None else p.grad.clone() for p in model.parameters()]


def set_training(model):
    """Training, but for batch norms: of one or two values the gradient is noise."""
    import torch
    model.train(not any(isinstance(m, torch.nn.modules.batchnorm._BatchNorm) for m in model.modules()))


def captured(model, **how):
    """A function (*args) -> tensors that runs the model through cresset.compile() and waits for native code."""
    import cresset
    from zoo_models import floats
    compiled = cresset.compile(model.model, **how)

    def run(*args):
        out = floats(compiled(*args, **model.fixed))
        compiled._compiled._wait()
        return out
    return run


def capture_steps(model, args, expected, row):
    """cresset.compile(): as one graph, with breaks, and its gradients; what is compared is native where it can be."""
    import torch
    try:
        with torch.no_grad():
            captured(copy.deepcopy(model), fullgraph=True, backend="eager")(*args)
        row["whole"] = "ok"
    except Exception as error:
        row["whole"] = said(error)
    try:
        run = captured(model)
        with torch.no_grad():
            run(*args)
            seed()
            row["captured"] = compare(run(*args), expected) or "ok"
            if row["captured"].startswith("differs"):
                # some take another way while they are captured, by whomever
                seed()
                row["captured"] = compare(run(*args), torch.compile(model, backend="aot_eager")(*args)) or "ok"
    except Exception as error:
        row["captured"] = said(error)
    set_training(model)
    try:
        theirs = gradients(*[copy.deepcopy(model)] * 2, args)
        mine = copy.deepcopy(model)
        run = captured(mine)
        ours = gradients(run, mine, args)
        try:
            ours = gradients(run, mine, args)  # native
        except RuntimeError as error:  # those that keep what they computed cannot be called twice, compiled or not
            if "second time" not in str(error):
                raise
        row["captured_training"] = compare(ours, theirs) or "ok"
        if row["captured_training"].startswith("differs"):
            row["captured_training"] = referee(model, args, ours)
    except Exception as error:
        row["captured_training"] = said(error)


def backend_steps(model, args, expected, row):
    import torch
    from cresset._torch import backend
    run = torch.compile(model, backend="cresset", options={"native": "wait"})
    try:
        with torch.no_grad():
            seed()
            row["inference"] = compare(run(*args), expected) or "ok"
    except Exception as error:
        row["inference"] = said(error)
    row["breaks"] = max(0, len(backend.report()) - 1)
    set_training(model)
    try:
        # a copy each: some keep what they computed, with its gradient, for the next call
        theirs = gradients(*[copy.deepcopy(model)] * 2, args)
        torch._dynamo.reset()
        mine = copy.deepcopy(model)
        ours = gradients(torch.compile(mine, backend="cresset", options={"native": "wait"}), mine, args)
        row["training"] = compare(ours, theirs) or "ok"
        if row["training"].startswith("differs"):
            row["training"] = referee(model, args, ours)
    except Exception as error:
        row["training"] = said(error)
    opaque = {}
    for report in backend.report():
        for reason, n in report["opaque"].items():
            opaque[reason[:80]] = opaque.get(reason[:80], 0) + n
    row["opaque"] = opaque
    row["fallbacks"] = sum(sum(r["fallbacks"]) for r in backend.report())


PARTS = {"archive": archive_steps, "backend": backend_steps, "capture": capture_steps}


def try_model(_name, make, steps):
    import torch
    row = {}
    torch.manual_seed(0)
    torch.set_num_threads(2 if JOBS == 1 else 1)
    begin = time.time()
    try:
        model, args = make()
        model.eval()
        seed()
        with torch.no_grad():
            expected = model(*args)
        row["parameters"] = sum(p.numel() for p in model.parameters())
    except Exception as error:
        return {"skipped": f"PyTorch does not build or run it so small: {type(error).__name__}"}
    for step in steps:
        model.eval()
        PARTS[step](model, args, expected, row)
    row["seconds"] = round(time.time() - begin, 1)
    return row


class Child:
    """A model tried in a process of its own: whatever happens there, the zoo goes on."""

    def __init__(self, name, make, steps, attempt):
        self.name, self.text = name, b""
        self.reader, writer = os.pipe()
        self.process = os.fork()
        if not self.process:
            os.close(self.reader)
            signal.alarm(LIMIT)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            try:
                row = attempt(name, make, steps)
            except BaseException:
                row = {"crashed": traceback.format_exc()[-300:]}
            os.write(writer, json.dumps(row).encode())
            os._exit(0)
        os.close(writer)

    def row(self):
        """What it wrote, when its pipe has something; None while more is to come."""
        more = os.read(self.reader, 1 << 16)
        self.text += more
        if more:
            return None
        os.close(self.reader)
        _, status = os.waitpid(self.process, 0)
        if self.text:
            return json.loads(self.text)
        number = os.WTERMSIG(status)
        return {"crashed": f"longer than {LIMIT} s" if number == signal.SIGALRM else f"signal {number}"}


def results(todo, until, jobs, attempt=try_model):
    """(name, row) of each model, jobs at a time, as they finish; none is begun after `until`. attempt: (name, make,
    steps) -> row, in a child process."""
    running = {}
    while todo or running:
        while todo and len(running) < jobs and time.time() < until:
            child = Child(*todo.pop(0), attempt)
            running[child.reader] = child
        if not running:
            return
        for reader in select.select(list(running), [], [])[0]:
            row = running[reader].row()
            if row is not None:
                yield running.pop(reader).name, row


def reason_of(text):
    """The kind of a failure: what the same failures of other models have in common."""
    text = re.sub(r"/\S*/(site-packages|sp)/|/\S*/lib/python3[^/]*/", "", text)
    return text if len(text) < 90 else text[:87] + "..."


def due(row, step):
    """Whether a model takes part in a step: there is no archive where torch.export itself refuses."""
    archive, backend = ("archive", "native"), ("inference", "training")
    part = "archive" if step in archive else "backend" if step in backend else "capture"
    return part in row["parts"] and not (part == "archive" and "refused" in row)


def page(rows):
    tried = {name: row for name, row in rows.items() if "skipped" not in row}
    lines = ["# Zoo", "", "Written by `./dev zoo` ([../bench/zoo.py](../bench/zoo.py)): small models of the "
             "architectures that people use, random weights, against PyTorch. Right means that outputs, or all "
             f"gradients, agree: max|a - b| <= {TOLERANCE:g} max|b|; where rounding is amplified or PyTorch's capture "
             "draws other numbers than its eager code, double precision and `aot_eager` are the referee (`referee`).",
             "",
             "| package | models | " + " | ".join(STEPS.values()) + " |", "|---" * (2 + len(STEPS)) + "|"]
    for package in sorted({name.split("/")[0] for name in tried}):
        own = [row for name, row in tried.items() if name.startswith(package + "/")]
        counts = []
        for step in STEPS:
            counted = [row for row in own if due(row, step)]
            counts.append(f"{sum(row.get(step) == 'ok' for row in counted)} of {len(counted)}")
        lines.append(f"| {package} | {len(own)} | " + " | ".join(counts) + " |")
    failures = {}
    for name, row in tried.items():
        for step, title in STEPS.items():
            if due(row, step) and row.get(step) != "ok":
                why = row.get(step) or row.get("crashed") or "did not get so far"
                failures.setdefault((title, reason_of(why)), []).append(name)
    lines += ["", "## What is not right, by reason", ""]
    lines += ["| step | reason | models |", "|---|---|---|"] if failures else ["Nothing."]
    for (title, why), names in sorted(failures.items(), key=lambda item: -len(item[1])):
        lines.append(f"| {title} | {why.replace('|', '/').replace('`', '')} | {', '.join(sorted(names))} |")
    opaque = {}
    for row in tried.values():
        for reason in row.get("opaque") or {}:
            opaque[reason] = opaque.get(reason, 0) + 1
    if opaque:
        lines += ["", "## Called through torch under the backend", "", "| reason | models |", "|---|---|"]
        lines += [f"| {why.replace('|', '/').replace('`', '')} | {n} |"
                  for why, n in sorted(opaque.items(), key=lambda item: -item[1])]
    refused = sorted(name for name, row in tried.items() if "refused" in row)
    if refused:
        lines += ["", "No archive, because torch.export itself refuses: " + ", ".join(refused) + "."]
    skipped = sorted(name for name, row in rows.items() if "skipped" in row)
    if skipped:
        lines += ["", "Not counted, because PyTorch itself does not build or run them with the zoo's small settings: "
                  + ", ".join(skipped) + "."]
    PAGE.write_text("\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser(prog="./dev zoo", description=__doc__.split("\n\n")[0])
    parser.add_argument("--seconds", type=float, default=1e9, help="no new model after so many")
    parser.add_argument("--again", action="store_true", help="also those that were tried before")
    parser.add_argument("--steps", default=",".join((*PARTS, "as_torch")),
                        help="those of archive,backend,capture,as_torch that are due")
    parser.add_argument("words", nargs="*", help="only models with one of these in their name")
    options = parser.parse_args()
    import torch  # noqa: F401 - once, for all children
    import zoo_models
    makers = {name: make for name, make in zoo_models.everything().items()
              if not options.words or any(word in name for word in options.words)}
    steps, until = options.steps.split(","), time.time() + options.seconds
    if "as_torch" in steps:
        steps.remove("as_torch")
        zoo_as_torch.run(makers, until, options.again)
    if steps:
        run(makers, steps, until, options.again)


def run(makers, asked, until, again):
    rows = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    todo = []
    for name, make in makers.items():
        done = [] if again else rows.get(name, {}).get("parts", [])
        steps = [step for step in asked if step not in done]
        todo += [(name, make, steps)] if steps else []
    total = len(todo)
    for number, (name, row) in enumerate(results(todo, until, JOBS), 1):
        parts = [] if again else rows.get(name, {}).get("parts", [])
        rows[name] = (rows[name] if parts else {}) | row
        rows[name]["parts"] = sorted({*parts, *asked})
        shown = {key: row.get(key) for key in (*STEPS, "skipped", "crashed", "seconds") if row.get(key)}
        print(f"{number}/{total}", name, shown, flush=True)
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps(rows, indent=1, sort_keys=True) + "\n")
    page(rows)


if __name__ == "__main__":
    main()
