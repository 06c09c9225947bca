"""The same model in other hands: PyTorch eager, torch.compile, AOTInductor, ONNX Runtime and OpenVINO at their default
settings, each as a call without arguments. What takes long to make is kept in build/bench: archives, AOTInductor's
packages (with the seconds that making one took), ONNX files. A peer that is not installed or cannot take the model is
None, and said on standard error."""
import json
import os
import pathlib
import sys
import time
import warnings

FOLDER = pathlib.Path(os.environ.get("CRESSET_ROOT", pathlib.Path(__file__).resolve().parents[1])) / "build" / "bench"
FOLDER.mkdir(parents=True, exist_ok=True)
THREADS = 2


def kept(name, make):
    """The file of that name; `make(path)` writes it when it is not there yet."""
    path = FOLDER / name
    if not path.is_file():
        part = path.with_name("part-" + name)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            make(part)
        part.rename(path)
    return path


def archive(name, make, grad=False):
    """The archive of that name; `make` gives the module and its arguments, `grad` the mode it is exported in."""
    import torch

    def write(path):
        model, args = make()
        with torch.set_grad_enabled(grad):
            torch.export.save(torch.export.export(model, args), path)
    return kept(f"{name}.pt2", write)


def model_archive(name):
    import models
    return archive(name, lambda: models.make(name))


def inductor_package(name):
    """AOTInductor's library of the model, and the seconds it took to make: without its caches, as the first time on a
    machine."""
    import torch
    import torch._inductor

    def write(path):
        with torch.no_grad(), torch._inductor.utils.fresh_cache():
            program = torch.export.load(model_archive(name))
            begin = time.perf_counter()
            torch._inductor.aoti_compile_and_package(program, package_path=str(path))
            took = time.perf_counter() - begin
        (FOLDER / f"{name}.aoti.json").write_text(json.dumps({"seconds": took}))
    path = kept(f"{name}.aoti.pt2", write)
    return path, json.loads((FOLDER / f"{name}.aoti.json").read_text())["seconds"]


def eager(name, model, args):
    return lambda: model(*args)


def compiled(name, model, args):
    import torch
    function = torch.compile(model)
    return lambda: function(*args)


def inductor(name, model, args):
    import torch._inductor
    function = torch._inductor.aoti_load_package(str(inductor_package(name)[0]))
    return lambda: function(*args)


def onnx_file(name, model, args):
    import torch

    def write(path):
        torch.onnx.export(model, args, str(path), dynamo=True, external_data=False, verbose=False)
    return kept(f"{name}.onnx", write)


def onnxruntime(name, model, args):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    session = onnxruntime.InferenceSession(str(onnx_file(name, model, args)), options,
                                           providers=["CPUExecutionProvider"])
    feed = {given.name: a.numpy() for given, a in zip(session.get_inputs(), args)}
    return lambda: session.run(None, feed)


def openvino(name, model, args):
    import openvino
    core = openvino.Core()
    settings = {"INFERENCE_NUM_THREADS": THREADS, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}
    function = core.compile_model(core.read_model(onnx_file(name, model, args)), "CPU", settings)
    request, feed = function.create_infer_request(), [a.numpy() for a in args]
    return lambda: request.infer(feed)[0]


ALL = {"eager": eager, "torch.compile": compiled, "AOTInductor": inductor, "ONNX Runtime": onnxruntime,
       "OpenVINO": openvino}
PYTORCH = ("eager", "torch.compile", "AOTInductor")


def make(names, name, model, args):
    """{peer: call or None}; each has been called once."""
    calls = {}
    for peer in names:
        try:
            calls[peer] = ALL[peer](name, model, args)
            calls[peer]()
        except Exception as error:
            calls[peer] = None
            print(f"{name}: no {peer}: {type(error).__name__}: {str(error).splitlines()[0][:200]}", file=sys.stderr)
    return calls
