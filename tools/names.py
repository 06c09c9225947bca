"""tools/names.py [FILE]: docs/names.md, the names of torch's public namespace that are here with cresset.as_torch.

Needs PyTorch, which is asked for its names; a child process without it is asked which of them Cresset has. `./dev gen`
writes the page where torch is installed."""
import importlib
import inspect
import json
import os
import pathlib
import subprocess
import sys
import types
import warnings

ROOT = pathlib.Path(__file__).resolve().parents[1]
MODULES = """torch torch.Tensor torch.nn torch.nn.functional torch.nn.init torch.nn.utils torch.nn.utils.rnn
torch.nn.utils.parametrize torch.nn.utils.parametrizations torch.nn.utils.stateless torch.nn.attention
torch.nn.attention.flex_attention torch.nn.parameter torch.nn.parallel torch.optim torch.optim.lr_scheduler
torch.optim.swa_utils torch.linalg torch.fft torch.special torch.autograd torch.autograd.function
torch.autograd.functional torch.autograd.forward_ad torch.autograd.graph torch.autograd.profiler torch.func torch.amp
torch.export torch.export.dynamic_shapes torch.fx torch.fx.experimental.symbolic_shapes torch.compiler torch.library
torch.jit torch.hub torch.random torch.utils torch.utils.checkpoint torch.utils.data torch.utils.dlpack torch.backends
torch.backends.cpu torch.backends.cuda torch.backends.cudnn torch.backends.mha torch.backends.mkl torch.backends.mkldnn
torch.backends.mps torch.backends.openmp torch.backends.opt_einsum torch.cpu torch.cuda torch.mps torch.xpu
torch.accelerator torch.distributions torch.sparse torch.masked torch.nested torch.signal.windows torch.testing
torch.profiler torch.overrides torch.package torch.onnx torch.distributed torch.ao.quantization torch.types
torch.version torch.serialization torch.return_types""".split()

ASK = '''
import importlib, json, sys, warnings
from cresset.as_torch import quiet
import torch
warnings.simplefilter("ignore")
found = {}
for module, names in json.load(sys.stdin).items():
    try:
        owner = torch.Tensor if module == "torch.Tensor" else importlib.import_module(module)
    except ImportError:
        continue
    for name in names:
        here = hasattr(owner, name)
        refuses = hasattr(quiet.NAMES.get(f"{module}.{name}"), "__cresset_refuses__")
        found.setdefault(module, {})[name] = "refuses" if here and refuses else here
print(json.dumps(found))
'''


def is_own(value):
    home = getattr(value, "__module__", None) or "torch"
    return str(home).startswith("torch") and not isinstance(value, types.ModuleType)


def public(module):
    """The names that a module means to show: __all__ where it has one; else those that are its own, not imported from
    elsewhere."""
    owner = importlib.import_module(module) if module != "torch.Tensor" else importlib.import_module("torch").Tensor
    names = getattr(owner, "__all__", None) or [name for name, value in inspect.getmembers(owner) if is_own(value)]
    return sorted({name for name in names if not name.startswith("_") and hasattr(owner, name)})


def statuses():
    """{module: {name: True, False or "refuses"}}"""
    wanted = {module: public(module) for module in MODULES}
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", "import cresset.as_torch" + ASK], input=json.dumps(wanted), text=True,
                          stdout=subprocess.PIPE, check=True, env=environment)
    found = json.loads(done.stdout)
    return {module: {name: found.get(module, {}).get(name, False) for name in names}
            for module, names in wanted.items() if names}


def page(found):
    total = [status for names in found.values() for status in names.values()]
    here, refuses = total.count(True), total.count("refuses")
    lines = ["# Names of torch", "",
             "Written by `tools/names.py` (`./dev gen` where PyTorch is installed): the names of PyTorch's public "
             "modules, and which of them are there with Cresset in torch's place ([as_torch.md](as_torch.md)); with "
             "`import cresset as torch` the same ones but for a few at which nothing is due.", "",
             f"**{here} of {len(total)} names are here ({here / len(total):.1%})**, {refuses} more can be named and "
             "refuse when they are called.", "", "| module | names | here | share |", "|---|---|---|---|"]
    for module, names in found.items():
        count = list(names.values()).count(True)
        lines.append(f"| `{module}` | {len(names)} | {count} | {count / len(names):.0%} |")
    for title, status in (("Not here", False), ("Named, but refusing", "refuses"), ("Here", True)):
        lines += ["", f"## {title}", ""]
        for module, names in found.items():
            own = [name for name, value in names.items() if value is status or value == status and status == "refuses"]
            if own:
                lines += [f"**`{module}`**: " + " ".join(f"`{name}`" for name in own), ""]
        lines.pop()
    return "\n".join(lines) + "\n"


def main():
    warnings.simplefilter("ignore")  # some names are deprecated
    sys.path.insert(0, os.environ.get("PYTHONPATH", "").split(os.pathsep)[0])
    path = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "names.md"
    path.write_text(page(statuses()))


if __name__ == "__main__":
    main()
