"""Training steps: forward, loss and backward of the models of models.TRAINED, weights live, against PyTorch eager and
torch.compile in one interleaved run, 2 threads on all sides. A step gives the loss and the gradient of every parameter;
PyTorch's gradients are set to None before each step, as its optimizers do. Beside the times: peak memory of a process
that makes three steps, seconds of a cold compile, and of making the joint graph. CRESSET_BENCH_MODELS="bert llama"
chooses models, CRESSET_BENCH_PEERS="eager" peers."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # PyTorch's threads would spin through our turns
import bench_native  # noqa: E402
import peers  # noqa: E402
from bench_compile import resident  # noqa: E402
from bench_partition import training_archive  # noqa: E402
from measure import row  # noqa: E402

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "native"))
COMPILE_SECONDS, JOINT_SECONDS = 1.5, 0.020

RUN_OURS = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy
from library import Model
inputs = numpy.load(sys.argv[3])
call = Model(sys.argv[2], threads=2).bound(*(inputs[f"arr_{i}"] for i in range(len(inputs.files))))
for _ in range(3):
    call()
"""
RUN_TORCH = """
import sys
sys.path.insert(0, sys.argv[1])
import models, torch
torch.set_num_threads(2)
model, args = models.make_training(sys.argv[2])
for _ in range(3):
    model.zero_grad()
    model(*args).backward()
"""


def library(name, path, cache=None):
    """The step of the model, compiled; what the tool says about it."""
    step = pathlib.Path(os.environ["CRESSET_BUILD"]) / "bin" / "step"
    environment = {**os.environ, **({"CRESSET_CACHE": str(cache)} if cache else {})}
    done = subprocess.run([step, "library", training_archive(name), path], check=True, capture_output=True, text=True,
                          env=environment)
    return json.loads(done.stdout)


def step_inputs(path, model, args):
    """What the compiled step of the archive takes: parameters, buffers and inputs, in its order."""
    import torch
    program = torch.export.load(path)
    user, named = iter(args), {**dict(model.named_parameters()), **dict(model.named_buffers()), **program.constants}
    return [(next(user) if spec.target is None else named[spec.target]).detach().numpy()
            for spec in program.graph_signature.input_specs]


def gradients(model, args):
    model.zero_grad()
    loss = model(*args)
    loss.backward()
    return loss.detach(), [p.grad for p in model.parameters() if p.requires_grad]


def wanted_gradients(model, args):
    """In double precision: PyTorch's own float32 gradients of resnet18 are off by 9e-4."""
    import copy
    wide = [a.double() if a.is_floating_point() else a for a in args]
    return [g for g in gradients(copy.deepcopy(model).double(), wide)[1] if g is not None]


def check(name, results, wanted, tolerance=1e-4):
    """A fast wrong answer is none. The gradients are the last results."""
    import torch
    for number, (a, b) in enumerate(zip(results[len(results) - len(wanted):], wanted)):
        difference, largest = (torch.as_tensor(a) - b).abs().max().item(), b.abs().max().item()
        if not difference <= tolerance * largest + 1e-8:
            raise RuntimeError(f"{name}: gradient {number} differs by {difference:.3g}, its largest is {largest:.3g}")


def stepper(model, args):
    def call():
        for p in model.parameters():
            p.grad = None
        model(*args).backward()
    return call


def measure_model(name, path):
    import models
    import torch
    from library import Model
    torch.set_num_threads(peers.THREADS)
    model, args = models.make_training(name)
    ours, inputs = Model(path, threads=peers.THREADS), step_inputs(training_archive(name), model, args)
    check(name, ours(*inputs), wanted_gradients(model, args))
    chosen = os.environ.get("CRESSET_BENCH_PEERS", "").split() or ["eager", "torch.compile"]
    calls = {"ours": ours.bound(*inputs)}
    if "eager" in chosen:
        calls["eager"] = stepper(model, args)
    if "torch.compile" in chosen:
        calls["torch.compile"] = stepper(torch.compile(model), args)
    for call in calls.values():
        call()
    return bench_native.medians(calls)


def chosen_models():
    import models
    return os.environ.get("CRESSET_BENCH_MODELS", "").split() or [make.__name__ for make in models.TRAINED]


def rows():
    import models
    import numpy
    here = pathlib.Path(__file__).resolve().parent
    abi = here.parent / "tests" / "native"
    ratios = []
    for name in chosen_models():
        with tempfile.TemporaryDirectory(dir=peers.FOLDER) as folder:
            folder = pathlib.Path(folder)
            path = folder / "step.so"
            training_archive(name)
            made = library(name, path, folder / "cache")
            times = measure_model(name, path)
            best = min((side for side in times if side != "ours"), key=times.get, default=None)
            for side in times:
                if side != "ours":
                    yield row(f"train, {name}", times["ours"], times[side], side, goal=0.95 if side == best else 0)
            if best:
                ratios.append(times[best] / times["ours"])
            yield row(f"train, {name}: cold compile, seconds", made["compile_seconds"], COMPILE_SECONDS, "limit")
            yield row(f"train, {name}: joint graph, seconds", made["joint_seconds"], JOINT_SECONDS, "limit")
            model, args = models.make_training(name)
            numpy.savez(folder / "inputs.npz", *step_inputs(training_archive(name), model, args))
            yield row(f"train, {name}: MB resident", resident(RUN_OURS, abi, path, folder / "inputs.npz"),
                      resident(RUN_TORCH, here, name), "eager PyTorch")
    if ratios:
        yield row(f"train, mean of {len(ratios)} models", 1 / bench_native.mean(ratios), 1, "best of PyTorch", goal=1.2)
