"""cresset.as_torch: programs that import torch, on a Python that has none; docs/as_torch.md."""
import importlib.util
import json
import os
import pathlib
import runpy
import subprocess
import sys

import numpy
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "tests" / "data" / "as_torch_program.py"


def run(*args, fails=False):
    """What a Python prints, in which nobody has imported torch yet."""
    done = subprocess.run([sys.executable, *map(str, args)], capture_output=True, text=True, timeout=120,
                          env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)})
    assert (done.returncode != 0) == fails, done.stderr
    return done.stderr if fails else done.stdout


def said(code):
    return run("-c", "import cresset.as_torch\n" + code).strip()


def agree(ours, theirs, where):
    if isinstance(theirs, list) and theirs and isinstance(theirs[0], (list, float)):
        ours, theirs = numpy.array(ours), numpy.array(theirs)
        assert ours.shape == theirs.shape, where
        assert numpy.abs(ours - theirs).max() <= 1e-4 * numpy.abs(theirs).max(), where
    else:
        assert ours == theirs, where


@pytest.mark.filterwarnings("ignore:The tensor attributes self.rnn")
def test_program_gives_pytorchs_numbers(oracle):
    """Built from a seed, run, exported, trained with checkpoints and dropout, saved and loaded."""
    theirs = oracle("results", lambda torch: runpy.run_path(str(PROGRAM))["results"]())
    ours = json.loads(run("-m", "cresset.as_torch", PROGRAM))
    assert ours.keys() == theirs.keys()
    for key, value in theirs.items():
        agree(ours[key], value, key)
    assert len(set(ours["losses"])) == 3


@pytest.mark.parametrize("name", ["torchvision_resnet18", "timm_vit", "transformers_bert"])
def test_library_models_give_pytorchs_numbers(name):
    pytest.importorskip("torch", reason="compared with PyTorch")
    if importlib.util.find_spec(name.partition("_")[0]) is None:
        pytest.skip(f"NOT TESTED: {name} needs its package: ./dev setup --bench")
    script = ROOT / "tests" / "data" / "as_torch_library.py"
    ours, theirs = json.loads(run("-m", "cresset.as_torch", script, name)), json.loads(run(script, name))
    assert len({round(value, 6) for value in numpy.array(theirs).flatten().tolist()}) > 1
    agree(ours, theirs, name)


def test_compile_captures_in_torchs_place():
    assert said("""
import torch
model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU())
compiled = torch.compile(model, fullgraph=True)
x = torch.randn(2, 3)
print(torch.equal(compiled(x), model(x)), type(compiled).__module__)
""") == "True cresset._dynamo.eval_frame"


def test_modules_are_cressets_own():
    assert said("""
import cresset, torch, torch.nn.functional as F, torch.utils.checkpoint
from torch.nn import functional, Module
import importlib.metadata
print(torch.nn is cresset.nn, F is functional is cresset.nn.functional, Module is cresset.nn.Module,
      torch.Tensor is cresset.Tensor, cresset.nn.__spec__.name, importlib.metadata.version("torch"))
torch._dynamo.config.recompile_limit = 3
print(cresset._dynamo.config.recompile_limit)
""") == "True True True True cresset.nn 2.13.0\n3"


@pytest.mark.parametrize("code, name", [
    ("import torch; torch.no_such", "torch.no_such"),
    ("import torch; torch.nn.NoSuch", "torch.nn.NoSuch"),
    ("import torch; torch.jit.no_such", "torch.jit.no_such"),
    ("import torch; torch.distributed.no_such", "torch.distributed.no_such"),
    ("import torch.no_such", "torch.no_such"),
    ("from torch import no_such", "torch.no_such"),
    ("from torch.nn import no_such", "torch.nn.no_such"),
    ("from torch.nn.functional import no_such", "torch.nn.functional.no_such"),
    ("import torch.nn.no_such", "torch.nn.no_such"),
])
def test_missing_name_is_named(code, name):
    assert said(f"""
import cresset.as_torch
try:
    exec({code!r})
except (AttributeError, ImportError) as error:
    print(type(error).__name__, str(error).startswith({name + " is not in Cresset"!r}), "docs/names.md" in str(error))
print({name!r} in cresset.as_torch.missing())
""") in [f"{kind} True True\nTrue" for kind in ("AttributeError", "ModuleNotFoundError")]


def test_what_is_named_but_not_there_refuses_when_called():
    assert said("""
import torch
from torch.nn.parallel import DistributedDataParallel
for call in (lambda: DistributedDataParallel(torch.nn.Linear(1, 1)), lambda: torch.distributed.get_rank(),
             lambda: torch.jit.trace(abs, 1)):
    try:
        call()
    except NotImplementedError as error:
        print(str(error).split(" is not in Cresset")[0])
""").split() == ["torch.nn.parallel.DistributedDataParallel", "torch.distributed.get_rank", "torch.jit.trace"]


def test_script_sees_its_own_arguments(tmp_path):
    script = tmp_path / "script.py"
    (tmp_path / "beside.py").write_text("import torch\nvalue = torch.ones(2).sum().item()\n")
    script.write_text("import sys, beside\nprint(sys.argv[1:], __name__, beside.value)\n")
    assert run("-m", "cresset.as_torch", script, "--a", "b") == "['--a', 'b'] __main__ 2.0\n"
    assert "no such file" in run("-m", "cresset.as_torch", tmp_path / "none.py", fails=True)
    script.write_text("import torch\nhasattr(torch, 'nosuch')\nraise SystemExit(1)\n")
    assert run("-m", "cresset.as_torch", "--missing", script, fails=True) == "torch.nosuch\n"


def test_after_torch_it_refuses():
    pytest.importorskip("torch", reason="PyTorch itself is imported here")
    assert said("") == ""
    message = run("-c", "import torch, cresset.as_torch", fails=True)
    assert "ImportError: cresset.as_torch: torch has been imported already" in message


def test_hub_reads_a_file_by_its_address(tmp_path):
    assert said(f"""
import hashlib, pathlib, torch
from torch.hub import load_state_dict_from_url
folder = pathlib.Path({str(tmp_path)!r})
torch.hub.set_dir(folder / "hub")
torch.save({{"w": torch.arange(3)}}, folder / "a.pth")
digest = hashlib.sha256((folder / "a.pth").read_bytes()).hexdigest()[:8]
for name in (f"a-{{digest}}.pth", "a-00000000.pth"):
    (folder / name).write_bytes((folder / "a.pth").read_bytes())
    try:
        print(load_state_dict_from_url((folder / name).as_uri(), check_hash=True)["w"].tolist())
    except RuntimeError as error:
        print("expected one that begins with 00000000" in str(error))
print(sorted(p.name for p in (folder / "hub" / "checkpoints").iterdir()) == [f"a-{{digest}}.pth"])
""") == "[0, 1, 2]\nTrue\nTrue"
