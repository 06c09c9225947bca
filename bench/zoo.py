"""./dev zoo [--seconds N] [--again] [--steps LIST] [--take FILE] [WORD...]: one small model of each architecture.

For each (whose name has one of the WORDs): does PyTorch's archive load, run and compile here with matching outputs; is
torch.compile(backend="cresset") right, in inference and for gradients; and cresset.compile()? A model runs in a child
process of at most CRESSET_ZOO_LIMIT seconds (300), CRESSET_JOBS at a time; results/zoo.json is written after each and a
second run goes on where the first ended (--again: from the start); at the end docs/zoo.md is written from it, or, as
long as it has not all models, results/zoo.md. The step `time`, on a quiet machine, is done only where --steps names
it."""
import argparse
import copy
import json
import os
import pathlib
import random
import re
import select
import signal
import statistics
import sys
import tempfile
import time
import traceback

ROOT = pathlib.Path(__file__).resolve().parents[1]
RESULTS, PAGE = ROOT / "results" / "zoo.json", ROOT / "docs" / "zoo.md"
STEPS = {"archive": "archive loads and runs", "native": "archive compiles", "inference": "backend, inference",
         "training": "backend, gradients", "whole": "compile(), one graph", "captured": "compile(), inference",
         "captured_training": "compile(), gradients"}
LIMIT, JOBS = (int(os.environ.get(name, value)) for name, value in (("CRESSET_ZOO_LIMIT", 300), ("CRESSET_JOBS", 1)))
TOLERANCE, TURNS = 1e-3, 20
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


def error_of(ours, exact):
    """How far ours are from what is exact, as a number, or what is wrong in another way."""
    text = compare(ours, exact, 0)
    return 0.0 if text is None else float(text.split()[-1]) if text.startswith("differs") else text


def nudged(model, number):
    """A copy whose parameters are moved by at most one unit in the last place: rounding, made visible."""
    import torch
    near, chance = copy.deepcopy(model), torch.Generator().manual_seed(number)
    with torch.no_grad():
        for p in near.parameters():
            p.mul_(1 + (torch.rand(p.shape, generator=chance) - 0.5) * 2.0 ** -22)
    return near


def as_it_is(model):
    return model


def captured_by_torch(model):
    import torch
    torch._dynamo.reset()
    return torch.compile(model, backend="aot_eager")


def under_backend(model):
    import torch
    torch._dynamo.reset()
    return torch.compile(model, backend="cresset", options={"native": "wait"})


def gradients_by(way, model, args, double=False):
    """Those of a copy, run by way(copy)."""
    mine = copy.deepcopy(model)
    if double:
        mine, args = mine.double(), tuple(a.double() if a.is_floating_point() else a for a in args)
    return gradients(way(mine), mine, args)


def referee(model, args, ours, way):
    """"ok", or how ours, by `way`, are wrong. Deep nets amplify rounding: where a ReLU's argument is zero but for it,
    a gradient is there or not. So where ours differ, they must agree in double precision, and in single precision be
    no further from the exact ones than three times the worst that PyTorch's own show when its parameters are moved by
    one unit in the last place. PyTorch's: of its eager code or of its capture, which draws other numbers where NumPy
    draws (masks of speech models)."""
    try:
        exact = gradients_by(as_it_is, model, args, double=True)
    except RuntimeError:  # code that asks for single precision by name
        peer, exact = as_it_is, gradients_by(as_it_is, model, args)
    else:
        peer, doubles = as_it_is, gradients_by(way, model, args, double=True)
        if compare(doubles, exact):
            peer, exact = captured_by_torch, gradients_by(captured_by_torch, model, args, double=True)
        wrong = compare(doubles, exact)
        if wrong:
            return f"in double precision: {wrong}"
    worst = 0.0
    for number in range(6):
        error = error_of(gradients_by(peer, nudged(model, number), args), exact)
        if isinstance(error, str):
            return f"PyTorch's own: {error}"
        worst = max(worst, error)
        wrong = compare(ours, exact, 3 * worst)
        if not wrong:
            break
    return wrong or "ok"


def judged(ours, expected, model, args, row):
    """"ok", or how ours differ from PyTorch's. Some models take another way while they are captured, by whomever
    (transformers makes another mask): then PyTorch's own capture is the measure, and the row says so."""
    import torch
    wrong = compare(ours, expected)
    if wrong and wrong.startswith("differs"):
        run = captured_by_torch(model)
        seed()
        with torch.no_grad():
            own = run(*args)
        if compare(own, expected) and not compare(ours, own):
            row["other_way"], wrong = compare(own, expected), None
    return wrong or "ok"


def archive_steps(model, args, expected, row):
    import cresset
    import torch
    with tempfile.TemporaryDirectory() as folder:
        path = folder + "/model.pt2"
        try:
            with torch.no_grad():
                exported = torch.export.export(model, args)
            torch.export.save(exported, path)
        except Exception as error:
            row["refused"] = f"{type(error).__name__}"
            return
        seed()
        with torch.no_grad():
            own = exported.module()(*args)
        if compare(own, expected):
            row["other_way"], expected = compare(own, expected), own
        given = tuple(cresset.from_dlpack(a) for a in args)
        try:
            program = cresset.export.load(path)
            seed()
            with cresset.no_grad():
                results = program.module()(*given)
            row["archive"] = compare([torch.from_dlpack(t.detach()) for t in results], expected) or "ok"
        except Exception as error:
            row["archive"] = said(error)
        try:
            compiled = cresset.aot_load(cresset.aot_compile(program, options={"output_path": folder + "/libmodel.so"}))
            seed()
            row["native"] = compare([torch.from_dlpack(t) for t in compiled(*given)], expected) or "ok"
        except Exception as error:
            row["native"] = said(error)


def said(error):
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:300]


def seed():
    """All generators: NumPy's draws the masks of speech models, Cresset's what is drawn inside of archives."""
    import cresset
    import numpy
    import torch
    torch.manual_seed(1)
    cresset.manual_seed(1)
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
            ours = run(*args)
        row["captured"] = judged(ours, expected, model, args, row)
    except Exception as error:
        row["captured"] = said(error)
    train(model, args, captured, "captured_training", row)


def train(model, args, way, step, row):
    set_training(model)
    try:
        theirs = gradients_by(as_it_is, model, args)
    except Exception as error:
        row["untrained"] = said(error)
        return
    try:
        # a copy each: some keep what they computed, with its gradient, for the next call
        mine = copy.deepcopy(model)
        run = way(mine)
        ours = gradients(run, mine, args)
        try:
            ours = gradients(run, mine, args)  # native
        except RuntimeError as error:  # those that keep what they computed cannot be called twice, compiled or not
            if "second time" not in str(error):
                raise
        row[step] = compare(ours, theirs) or "ok"
        if row[step].startswith("differs"):
            row[step] = referee(model, args, ours, way)
    except Exception as error:
        row[step] = said(error)


def backend_steps(model, args, expected, row):
    import torch
    from cresset._torch import backend
    try:
        run = under_backend(model)
        seed()
        with torch.no_grad():
            ours = run(*args)
        row["inference"] = judged(ours, expected, model, args, row)
    except Exception as error:
        row["inference"] = said(error)
    row["breaks"] = max(0, len(backend.report()) - 1)
    train(model, args, under_backend, "training", row)
    opaque = {}
    for report in backend.report():
        for reason, n in report["opaque"].items():
            opaque[reason[:80]] = opaque.get(reason[:80], 0) + n
    row["opaque"] = opaque
    row["fallbacks"] = sum(sum(r["fallbacks"]) for r in backend.report())


def time_steps(model, args, _expected, row):
    """Milliseconds of a call in inference, the best of some, taken in turns."""
    import torch
    ways = {"eager": model, "compile": torch.compile(model), "cresset": captured(model)}
    taken = {name: [] for name in ways}
    with torch.no_grad():
        for turn in range(TURNS + 3):
            for name, run in ways.items():
                begin = time.perf_counter()
                run(*args)
                taken[name] += [1e3 * (time.perf_counter() - begin)] if turn >= 3 else []
    row["ms"] = {name: round(min(times), 3) for name, times in taken.items()}


PARTS = {"archive": archive_steps, "backend": backend_steps, "capture": capture_steps, "time": time_steps}
KEYS = {"archive": ("archive", "native", "refused", "other_way"), "time": ("ms",),
        "backend": ("inference", "training", "breaks", "opaque", "fallbacks", "other_way", "untrained"),
        "capture": ("whole", "captured", "captured_training", "untrained")}  # what they write
ALWAYS = ("archive", "backend", "capture", "as_torch")


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
    """The kind of a failure: what the same failures of other models have in common. Not where, nor what to do."""
    text = re.sub(r"^Unsupported: (\S+:\d+ in \S+: )?", "", text)
    text = re.split(r" fullgraph=|[:;] write it |, which ", text)[0]
    text = re.sub(r"\S*/(site-packages|sp)/|\S*/lib/python3[^/]*/", "", text)
    return text if len(text) < 140 else text[:137] + "..."


def due(row, step):
    """Whether a model takes part in a step: there is no archive where torch.export itself refuses, and no gradient
    where PyTorch itself gives none."""
    archive, backend = ("archive", "native"), ("inference", "training")
    part = "archive" if step in archive else "backend" if step in backend else "capture"
    without = "refused" if part == "archive" else "untrained" if "training" in step else None
    return part in row["parts"] and without not in row


def speed(tried):
    """Lines about the times that were measured."""
    ratios = {}
    for name, row in tried.items():
        if "ms" in row:
            pair = [row["ms"][peer] / row["ms"]["cresset"] for peer in ("eager", "compile")]
            ratios.setdefault(name.split("/")[0], []).append(pair)
    if not ratios:
        return []
    lines = ["", "## Time of a call", "", "How often cresset.compile() goes into PyTorch's time, inference: the median "
             "of the models that were measured, and the smallest.", "",
             "| package | models | eager | torch.compile |", "|---|---|---|---|"]
    for package, pairs in sorted(ratios.items()):
        shown = [f"{statistics.median(column):.2f} ({min(column):.2f})" for column in zip(*pairs)]
        lines.append(f"| {package} | {len(pairs)} | {' | '.join(shown)} |")
    return lines


def note(text, names):
    return ["", f"{text}: {', '.join(sorted(names))}."] if names else []


def page(rows, complete=True):
    tried = {name: row for name, row in rows.items() if "skipped" not in row}
    lines = ["# Zoo", "", "Written by `./dev zoo` ([../bench/zoo.py](../bench/zoo.py)): small models of the "
             "architectures that people use, random weights, against PyTorch. Right means that outputs, or all "
             f"gradients, agree: max|a - b| <= {TOLERANCE:g} max|b|. Where gradients do not, because rounding is "
             "amplified, they must agree in double precision, and in single be no further from that than three times "
             "what PyTorch's own are with parameters moved by one unit in the last place (`referee`).",
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
    lines += note("PyTorch's own export or capture gives something else than its eager code (the model asks whether "
                  "it is being captured, and makes another mask), so that ours is compared with that",
                  [f"{name} ({row['other_way']})" for name, row in tried.items() if "other_way" in row])
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
    lines += speed(tried)
    lines += note("No archive, because torch.export itself refuses",
                  [name for name, row in tried.items() if "refused" in row])
    lines += note("No gradients, because PyTorch itself gives none",
                  [f"{name} ({reason_of(row['untrained'])})" for name, row in tried.items() if "untrained" in row])
    lines += note("Not counted, because PyTorch itself does not build or run them with the zoo's small settings",
                  [name for name, row in rows.items() if "skipped" in row])
    write_page(PAGE, lines, complete)


def write_page(page, lines, complete):
    """The page in docs is of all models: what a run of some gives stands beside its results."""
    path = page if complete else RESULTS.parent / page.name
    path.write_text("\n".join(lines) + "\n")
    print(f"written: {path.relative_to(ROOT) if path.is_relative_to(ROOT) else path}", flush=True)


def main():
    parser = argparse.ArgumentParser(prog="./dev zoo", description=__doc__.split("\n\n")[0])
    parser.add_argument("--seconds", type=float, default=1e9, help="no new model after so many")
    parser.add_argument("--again", action="store_true", help="also those that were tried before")
    parser.add_argument("--steps", default=",".join(ALWAYS),
                        help="those of archive,backend,capture,as_torch,time that are due")
    parser.add_argument("words", nargs="*", help="only models with one of these in their name")
    parser.add_argument("--take", action="append", metavar="FILE",
                        help="run nothing: add the results/zoo.json of a run elsewhere to those here, write the page")
    options = parser.parse_args()
    if options.take:
        return take(options.take)
    import torch  # noqa: F401 - once, for all children
    import zoo_models
    everything = zoo_models.everything()
    makers = {name: make for name, make in everything.items()
              if not options.words or any(word in name for word in options.words)}
    steps, until = options.steps.split(","), time.time() + options.seconds
    if "as_torch" in steps:
        steps.remove("as_torch")
        zoo_as_torch.run(makers, until, options.again, everything)
    if steps:
        run(makers, steps, until, options.again, everything)
    return None


def joined(old, row, steps):
    """An old row with what these steps gave now."""
    gone = {"crashed", "skipped"}.union(*(KEYS[step] for step in steps))
    new = {key: value for key, value in old.items() if key not in gone} | row
    return new | {"parts": sorted({*old.get("parts", []), *steps})}


def kept():
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else {}


def keep(rows):
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(rows, indent=1, sort_keys=True) + "\n")


def take(paths):
    """The results of other runs, into ours."""
    rows = kept()
    for path in paths:
        for name, row in json.loads(pathlib.Path(path).read_text()).items():
            rows[name] = joined(rows.get(name, {}), row, row["parts"])
    keep(rows)
    page(rows)


def run(makers, asked, until, again, everything):
    rows = kept()
    todo = []
    for name, make in makers.items():
        done = [] if again else rows.get(name, {}).get("parts", [])
        steps = [step for step in asked if step not in done]
        todo += [(name, make, steps)] if steps else []
    total, tried_now = len(todo), {name: steps for name, _, steps in todo}
    for number, (name, row) in enumerate(results(todo, until, JOBS), 1):
        rows[name] = joined(rows.get(name, {}), row, tried_now[name])
        shown = {key: row.get(key) for key in (*STEPS, "skipped", "crashed", "seconds") if row.get(key)}
        print(f"{number}/{total}", name, shown, flush=True)
        keep(rows)
    page(rows, everything.keys() <= rows.keys())


if __name__ == "__main__":
    main()
