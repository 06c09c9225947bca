"""./dev zoo --steps as_torch: the zoo's models built and run by a Python that has no torch, with Cresset in its place.

First PyTorch's side: each model is built and run from a seed, its outputs are kept in results/as_torch. Then this file
is started without torch,

    python -m cresset.as_torch bench/zoo_as_torch.py UNTIL NAME...

builds each model from the same seed by the libraries' own code, and compares: a line of JSON a model. At the end
docs/zoo-as-torch.md is written. A second run goes on where the first ended; --again: from the start."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import traceback

import numpy

ROOT = pathlib.Path(__file__).resolve().parents[1]
SAVED, RESULTS = ROOT / "results" / "as_torch", ROOT / "results" / "zoo_as_torch.json"
PAGE = ROOT / "docs" / "zoo-as-torch.md"
LEFT_OUT = re.compile(r"(torch|torchgen|functorch|cresset)(-.*)?$|.*\.pth$")
CONSTANT = "its outputs are constant"
GOALS = {"timm": 0.8, "torchvision": 0.75, "transformers": 0.6}


def _file(name):
    return SAVED / (name.replace("/", "-") + ".npz")


def built(make):
    """What a model gives, from the seeds; the same code with torch and without."""
    import torch
    import zoo
    torch.manual_seed(0)
    torch.set_num_threads(2 if zoo.JOBS == 1 else 1)
    model, args = make()
    model.eval()
    zoo.seed()
    with torch.no_grad():
        return model(*args)


def with_torch(name, make, _steps):
    begin = time.time()
    try:
        outputs = built(make)
    except Exception as error:
        return {"skipped": f"PyTorch does not build or run it so small: {type(error).__name__}"}
    if all(t.numel() < 2 or (t == t.flatten()[0]).all() for t in outputs):
        return {"skipped": CONSTANT}
    numpy.savez(_file(name), *[t.detach().float().numpy() for t in outputs])
    return {"seconds": round(time.time() - begin, 1)}


def without_torch(name, make, _steps):
    import torch
    import zoo
    from cresset import as_torch
    begin, row = time.time(), {}
    try:
        outputs = built(make)
        with numpy.load(_file(name)) as saved:
            expected = [torch.from_numpy(saved[key]) for key in saved.files]
        row["as_torch"] = zoo.compare([t.float() for t in outputs], expected) or "ok"
    except BaseException as error:
        while error.__cause__:  # transformers says only which of its modules could not be imported
            error = error.__cause__
        last = traceback.extract_tb(error.__traceback__)[-1]
        row = {"as_torch": zoo.said(error), "at": f"{last.filename}:{last.lineno}"}
    row["missing"] = [name for name in as_torch.missing() if name + " is not in" in row["as_torch"]]
    return row | {"seconds_without": round(time.time() - begin, 1)}


def rows_without(names, until):
    """(name, row) of each, by a Python whose packages are this one's but for torch; none is begun after `until`."""
    with tempfile.TemporaryDirectory() as folder:
        for site in {path for path in sys.path if path.endswith("site-packages")}:
            for entry in pathlib.Path(site).iterdir():
                if not LEFT_OUT.match(entry.name):
                    os.symlink(entry, pathlib.Path(folder) / entry.name)
        ours = [path for path in sys.path if (pathlib.Path(path) / "cresset").is_dir()]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join([*ours[:1], folder])}
        command = [sys._base_executable, "-s", "-m", "cresset.as_torch", __file__, str(until), *names]
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as child:
            for line in child.stdout:
                if line.startswith('["'):  # libraries print, too
                    yield json.loads(line)


def run(makers, until, again, everything):
    """Both sides, for {name: function giving (model, args)}; then the page."""
    import zoo
    rows = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    due = [name for name in makers if again or not {"skipped", "as_torch"} & rows.get(name, {}).keys()]
    SAVED.mkdir(parents=True, exist_ok=True)

    def keep(name, row):
        rows[name] = rows.get(name, {}) | row
        print(name, row, flush=True)
        RESULTS.write_text(json.dumps(rows, indent=1, sort_keys=True) + "\n")

    todo = [(name, makers[name], []) for name in due if again or not _file(name).exists()]
    import transformers.modeling_utils  # noqa: F401 - once, for all children
    for name, row in zoo.results(todo, until, zoo.JOBS, with_torch):
        keep(name, row)
    saved = [name for name in due if _file(name).exists()]
    for name, row in rows_without(saved, until) if saved else ():
        keep(name, {"as_torch": row.get("crashed"), "missing": []} | row)
    page(rows, everything.keys() <= rows.keys())


def reason_of(row):
    return ", ".join(row["missing"]) or re.sub(r"^(\w+): ", r"\1: ", row["as_torch"])[:110]


def page(everything, complete=True):
    import zoo
    rows = {name: row for name, row in everything.items() if "as_torch" in row}
    lines = ["# The zoo without torch", "", "Written by `./dev zoo --steps as_torch` "
             "([../bench/zoo_as_torch.py](../bench/zoo_as_torch.py)): the zoo's models ([zoo.md](zoo.md)), built and "
             "run by the libraries' own code with Cresset in torch's place ([as_torch.md](as_torch.md)) on a Python "
             "that has no torch. Right means: from the same seed PyTorch's outputs, max|a - b| <= 0.001 max|b|; "
             "weights and inputs are drawn anew, so this holds only if every random number is PyTorch's.", "",
             "| package | models | right | share | goal |", "|---|---|---|---|---|"]
    for package, goal in GOALS.items():
        own = [row for name, row in rows.items() if name.startswith(package + "/")]
        if not own:
            continue
        right = sum(row["as_torch"] == "ok" for row in own)
        lines.append(f"| {package} | {len(own)} | {right} | {right / len(own):.1%} | {goal:.0%} |")
    failures = {}
    for name, row in rows.items():
        if row["as_torch"] != "ok":
            failures.setdefault(reason_of(row), []).append(name)
    lines += ["", "## What is not right, by missing name or reason", ""]
    lines += ["| name or reason | models |", "|---|---|"] if failures else ["Nothing."]
    for why, names in sorted(failures.items(), key=lambda item: (-len(item[1]), item[0])):
        lines.append(f"| {why.replace('|', '/').replace('`', '')} | {', '.join(sorted(names))} |")
    constant = sorted(name for name, row in everything.items() if row.get("skipped") == CONSTANT)
    if constant:
        lines += ["", "Not counted, because their weights are made so that PyTorch's outputs are constant: "
                  + ", ".join(constant) + ". What PyTorch itself does not build or run so small is listed in "
                  "[zoo.md](zoo.md)."]
    zoo.write_page(PAGE, lines, complete)


def main():
    sys.path.insert(0, str(ROOT / "bench"))
    import zoo
    import zoo_models
    makers = zoo_models.everything()
    import transformers.modeling_utils  # noqa: F401 - once, for all children
    todo = [(name, makers[name], []) for name in sys.argv[2:]]
    for name, row in zoo.results(todo, float(sys.argv[1]), zoo.JOBS, without_torch):
        print(json.dumps([name, row]), flush=True)


if __name__ == "__main__":
    main()
