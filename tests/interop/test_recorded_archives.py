"""P1, X2 without torch: archives that PyTorch wrote, committed with the results it gave, run by module() and by
`cresset run`.

`./dev record tests/interop` writes them again. The archives are of both dialects and small; the whole folder stays
under 1 MB.
"""
import json
import os
import pathlib
import subprocess
import sys

import cresset
import numpy
import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import agreement  # noqa: E402
import oracle  # noqa: E402

FOLDER = HERE / "recorded"
LIMIT = 1_000_000
CHOSEN = ["linear.core", "conv_bn_relu_train.training", "conv_bn_relu_train.core", "lstm_two_layers.training",
          "multihead_masked.core", "dynamic_batch.training",
          "dynamic_batch_and_length.core", "nested_dict.training", "keyword_arguments.training",
          "plain_arguments.core", "cond_tensor.training", "while_loop.core",
          "counting.training", "counting.core", "dropout_train.training", "random_numbers.core",
          "item_as_size.training", "tied_weights.training", "bf16_layers.core",
          "transforms.training", "buffers_that_are_views.training", "namedtuple_argument.training",
          "constant_outputs.training", "input_mutation.core"]


def record(name):
    import checking
    import programs
    program, _, dialect = name.rpartition(".")
    programs.programs()
    archive = checking.make(programs.TABLE[program], dialect, FOLDER)
    flat = [checking.flat(call) for call in archive.calls]
    wanted, written = ([[torch_leaf(leaf) for leaf in agreement.leaves(result)] for result in results]
                       for results in (archive.wanted, archive.written))
    data = {"seed": checking.SEED, "names": [[name for name, _ in inputs] for inputs in archive.inputs], "calls": flat,
            "wanted": wanted, "written": written}
    import torch
    (FOLDER / f"{name}.json").write_text(json.dumps(oracle.encode(data, torch), separators=(",", ":")) + "\n")


def torch_leaf(leaf):
    import torch
    return torch.from_numpy(leaf.array).to(getattr(torch, leaf.dtype)) if isinstance(leaf, agreement.Tensor) else leaf


@pytest.fixture(scope="module", params=CHOSEN)
def recorded(request):
    name = request.param
    if os.environ.get("CRESSET_RECORD"):
        record(name)
    return FOLDER / f"{name}.pt2", oracle.decode(json.loads((FOLDER / f"{name}.json").read_text()))


def ours(leaf):
    if not isinstance(leaf, oracle.Answer):
        return leaf
    return cresset.as_tensor(numpy.array(leaf.array)).to(getattr(cresset, leaf.dtype))


def plain(leaf):
    return agreement.Tensor(leaf.dtype, leaf.array) if isinstance(leaf, oracle.Answer) else leaf


def test_module(recorded):
    path, data = recorded
    ep = cresset.export.load(path)
    module = ep.module()
    for number, (call, wanted, written) in enumerate(zip(data["calls"], data["wanted"], data["written"])):
        given = [ours(leaf) for leaf in call]
        args, kwargs = ep.in_spec.unflatten(given)
        cresset.manual_seed(data["seed"])
        results = ep.out_spec.flatten(module(*args, **kwargs), "results")
        for what, want, got in (("call", wanted, results), ("inputs after call", written, given)):
            problem = agreement.difference([plain(leaf) for leaf in want], agreement.plain(got, cresset.Tensor), None,
                                           f"{what} {number}")
            assert problem is None, problem


def test_tool(recorded, tmp_path):
    path, data = recorded
    command = ["cresset", "run", str(path), "--seed", str(data["seed"]), "-o", str(tmp_path / "out_%d.npz")]
    for number, (names, call) in enumerate(zip(data["names"], data["calls"])):
        arrays = {}
        for name, leaf in zip(names, call):
            if isinstance(leaf, oracle.Answer):
                arrays[name] = ((leaf.array.view("u4") >> 16).astype("u2").view("V2") if leaf.dtype == "bfloat16"
                                else leaf.array)
            elif isinstance(leaf, (bool, int, float)):
                arrays[name] = numpy.array(leaf)
        numpy.savez(tmp_path / f"in{number}.npz", **arrays)
        command += ["--inputs", str(tmp_path / f"in{number}.npz")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for number, wanted in enumerate(data["wanted"]):
        with numpy.load(tmp_path / f"out_{number}.npz", allow_pickle=False) as file:
            got = dict(file)
        expected = {f"out{i}": plain(leaf) for i, leaf in enumerate(wanted) if leaf is not None
                    and not isinstance(leaf, str)}
        assert sorted(expected) == sorted(got)
        for key, want in expected.items():
            if isinstance(want, agreement.Tensor):
                dtype = "bfloat16" if want.dtype == "bfloat16" else str(got[key].dtype)
                problem = agreement.difference(want, agreement.Tensor(dtype, got[key]), None, f"call {number} {key}")
                assert problem is None, problem
            else:
                assert got[key].shape == () and got[key].item() == want


def test_the_folder_is_small_and_nothing_is_left_over():
    files = [path for path in FOLDER.iterdir()]
    assert sorted({path.stem for path in files}) == sorted(CHOSEN)
    assert sum(path.stat().st_size for path in files) < LIMIT
