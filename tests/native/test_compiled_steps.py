"""Training steps as compiled libraries: gradients of the five training models, weights live, against PyTorch in double
precision, on every instruction set; the same bits for any number of threads."""
import os
import pathlib
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="the models are PyTorch's")

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
import bench_train  # noqa: E402
import models  # noqa: E402

STEP = pathlib.Path(os.environ["CRESSET_BUILD"]) / "bin" / "step"
# Batch norm over the 4 pixels that are left of a small image makes small differences large.
TOLERANCE = dict(resnet18=2e-3)
RUN = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy
from library import Model
inputs = numpy.load(sys.argv[3])
results = [Model(sys.argv[2], threads=n)(*(inputs[f"arr_{i}"] for i in range(len(inputs.files)))) for n in (1, 2)]
assert all(numpy.array_equal(a, b, equal_nan=True) for a, b in zip(*results))
numpy.savez(sys.argv[4], *results[0])
"""


@pytest.mark.parametrize("name", [make.__name__ for make in models.TRAINED])
def test_gradients_of_compiled_steps(bench_model, tmp_path, name):
    import numpy
    model, args = bench_model(name, training=True)
    archive, library = tmp_path / "model.pt2", tmp_path / "step.so"
    torch.export.save(torch.export.export(model, args), archive)
    subprocess.run([STEP, "library", archive, library, "multi"], check=True, stdout=subprocess.DEVNULL)
    numpy.savez(tmp_path / "inputs.npz", *bench_train.step_inputs(archive, model, args))
    wanted = bench_train.wanted_gradients(model, args)
    for isa in ("portable", "avx2", "avx512"):
        found = tmp_path / f"{isa}.npz"
        subprocess.run([sys.executable, "-c", RUN, pathlib.Path(__file__).parent, library, tmp_path / "inputs.npz",
                        found], check=True, env={**os.environ, "CRESSET_ISA": isa})
        results = numpy.load(found)
        bench_train.check(name, [results[f"arr_{i}"] for i in range(len(results.files))], wanted,
                          TOLERANCE.get(name, 1e-4))
