"""P3: aot_compile, aot_load and ep.compile(): the original call structure around native code. Archives are recorded
ones, so PyTorch is only needed where its tensors are the inputs."""
import os
import pathlib
import subprocess
import sys
import threading

import cresset
import numpy as np
import pytest

HERE = pathlib.Path(__file__).resolve().parent
RECORDED = HERE.parent / "interop" / "recorded"
DIGITS = HERE.parents[1] / "examples" / "digits"


def load(name):
    return cresset.export.load(RECORDED / f"{name}.pt2")


def native(name, tmp_path, **options):
    path = cresset.aot_compile(RECORDED / f"{name}.pt2", options={"output_path": tmp_path / f"{name}.so", **options})
    return cresset.aot_load(path)


def same(a, b):
    """Equal structures with nearly equal tensors."""
    assert type(a) is type(b) or {type(a), type(b)} <= {int, float}, (type(a), type(b))
    if isinstance(a, dict):
        assert list(a) == list(b)
        a, b = list(a.values()), list(b.values())
    if isinstance(a, (tuple, list)):
        assert len(a) == len(b)
        for x, y in zip(a, b):
            same(x, y)
    elif isinstance(a, cresset.Tensor):
        assert a.dtype == b.dtype and a.shape == b.shape
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-5, atol=1e-6)
    else:
        assert a == b


# ---- aot_compile, aot_load ----

@pytest.mark.parametrize("name", ["keyword_arguments.training", "nested_dict.training", "plain_arguments.core",
                                  "dynamic_batch.training",
                                  "counting.training", "input_mutation.core"])
def test_the_original_call_structure(name, tmp_path):
    ep = load(name)
    args, kwargs = ep.example_inputs
    clone = lambda v: v.clone() if isinstance(v, cresset.Tensor) else v  # noqa: E731 - both may write their inputs
    first, second = (cresset.utils._pytree.tree_map(clone, (args, kwargs)) for _ in range(2))
    want = ep.module(own_state=True)(*first[0], **first[1])
    same(native(name, tmp_path)(*second[0], **second[1]), want)
    same(second, first)


NAMED = """
import cresset, sys
call = (cresset.ones(2, 3), cresset.ones(3))
left, right = cresset.aot_load(cresset.aot_compile(sys.argv[1], options={"output_path": sys.argv[2]}))(call)
assert left.tolist() == cresset.ones(2, 3).tolist() and list(right) == ["sum"]
result = cresset.export.load(sys.argv[1]).compile(options={"wait": True})(call)
assert type(result).__name__ == "Pair" and result.left.tolist() == left.tolist()
"""


def test_named_tuples_keep_their_name(tmp_path):
    """In a process of its own: other tests register a class by that name."""
    done = subprocess.run([sys.executable, "-c", NAMED, RECORDED / "namedtuple_argument.training.pt2",
                           tmp_path / "pair.so"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_program_or_a_path_and_where_the_library_goes(tmp_path):
    ep = cresset.export.load(DIGITS / "digits.pt2")
    images = np.load(DIGITS / "images.npy")
    want = ep.module()(images)["digit"].tolist()
    path = cresset.aot_compile(ep)
    try:
        assert isinstance(path,
                          str) and path.endswith(".so") and cresset.aot_load(path)(images)["digit"].tolist() == want
    finally:
        os.unlink(path)
        os.rmdir(os.path.dirname(path))
    beside = cresset.aot_compile(str(DIGITS / "digits.pt2"),
                                 options={"aot_inductor.output_path": str(tmp_path / "a.so"), "weights": "beside"})
    assert sorted(os.listdir(tmp_path)) == ["a.so",
                                            "a.weights"] and cresset.aot_load(beside)(images)["digit"].tolist() == want
    os.rename(tmp_path / "a.weights", tmp_path / "b")
    with pytest.raises(OSError, match="cannot open the weights"):
        cresset.aot_load(beside)
    assert cresset.aot_load(beside, weights=tmp_path / "b", threads=1)(image=images)["digit"].tolist() == want


def test_arguments_by_name_missing_and_extra(tmp_path):
    model = native("keyword_arguments.training", tmp_path)
    x, scale, shift = cresset.ones(2, 3), cresset.arange(3.0), cresset.ones(2, 1)
    assert model(x, scale=scale, shift=shift).tolist() == model(shift=shift, x=x, scale=scale).tolist()
    for call, words in ((lambda: model(), ["missing 'x'", "'shift'", "'scale'"]),
                        (lambda: model(x, x, shift=x, scale=x), ["1 expected, 2 given"]),
                        (lambda: model(x, scale=x), ["missing keyword arguments 'shift'"]),
                        (lambda: model(x, scale=x, shift=x, power=x), ["unexpected keyword arguments 'power'"])):
        with pytest.raises(ValueError) as caught:
            call()
        assert all(word in str(caught.value) for word in words), str(caught.value)


def test_inputs_are_checked_by_name(tmp_path):
    model = native("dynamic_batch.training", tmp_path)
    for bad, words in ((cresset.ones(3, 9), "input 'x': dimension 1 must be 8, not 9"),
                       (cresset.ones(3, 8, dtype=cresset.float64), "must be float32, not float64"),
                       (cresset.ones(8), "must have 2 dimensions, not 1"), (cresset.ones(129, 8), "between"),
                       (3, "must be a tensor, not an integer"), (None, "not None")):
        with pytest.raises(RuntimeError, match=words):
            model(bad)
    with pytest.raises(TypeError, match="an argument is a set"):
        model({1})


def test_arrays_and_tensors_of_others(tmp_path):
    model = cresset.aot_load(cresset.aot_compile(DIGITS / "digits.pt2", options={"output_path": tmp_path / "d.so"}))
    images = np.load(DIGITS / "images.npy")
    want = model(cresset.tensor(images.tolist()))["digit"].tolist()
    assert model(images)["digit"].tolist() == want and model(np.asfortranarray(images))["digit"].tolist() == want
    if "CRESSET_NO_TORCH" not in os.environ:
        import torch
        cresset.compile(lambda x: x + 1, backend="eager")(torch.ones(2))  # torch's tensors are known from now on
        assert model(torch.from_numpy(images))["digit"].tolist() == want


def test_results_outlive_the_model(tmp_path):
    model = native("nested_dict.training", tmp_path)
    (batch,), _ = load("nested_dict.training").example_inputs
    result, want = model(batch)["y"], model(batch)["y"].tolist()
    del model
    assert result.tolist() == want


def test_state_is_the_instances_own(tmp_path):
    path = cresset.aot_compile(RECORDED / "counting.training.pt2", options={"output_path": tmp_path / "c.so"})
    one, two, x = cresset.aot_load(path), cresset.aot_load(path), cresset.ones(3, 4)
    assert [one(x)[1].item() for _ in range(3)] == [1.0, 2.0, 3.0] and two(x)[1].item() == 1.0


def test_devices_that_are_not_there(tmp_path):
    path = cresset.aot_compile(RECORDED / "linear.core.pt2", options={"output_path": tmp_path / "l.so"})
    for device in ("cuda", "cuda:1", "tpu"):
        with pytest.raises(RuntimeError, match=f"'{device}' is not supported"):
            cresset.aot_load(path, device)
    assert cresset.aot_load(path, cresset.device("cpu"))


def test_what_cannot_be_compiled_or_loaded(tmp_path):
    for f, error, words in ((lambda x: x, cresset._dynamo.exc.UserError, "missing a required argument: 'x'"),
                            (3, TypeError, "load"), (tmp_path / "none.pt2", OSError, "none.pt2")):
        with pytest.raises(error, match=words):
            cresset.aot_compile(f)
    linear = RECORDED / "linear.core.pt2"
    with pytest.raises(ValueError, match="leave args"):
        cresset.aot_compile(linear, (cresset.ones(1),))
    with pytest.raises(ValueError, match="unknown option 'optimize'; there are output_path"):
        cresset.aot_compile(linear, options={"optimize": 3})
    with pytest.raises(ValueError, match="'inside' or 'beside', not 'above'"):
        cresset.aot_compile(linear, options={"weights": "above", "output_path": tmp_path / "x.so"})
    with pytest.raises(RuntimeError, match="pdp-11"):
        cresset.aot_compile(linear, options={"target": "pdp-11", "output_path": tmp_path / "x.so"})
    with pytest.raises(RuntimeError, match="no-such-compiler"):
        cresset.aot_compile(linear, options={"cc": "no-such-compiler", "output_path": tmp_path / "x.so"})
    with pytest.raises(OSError):
        cresset.aot_compile(linear, options={"output_path": tmp_path / "none" / "x.so"})
    with pytest.raises(ValueError, match="is no compiled library"):
        cresset.aot_load(linear)
    with pytest.raises(OSError):
        cresset.aot_load(tmp_path / "none.so")
    assert not list(tmp_path.iterdir())


def test_seeds(tmp_path):
    path = HERE.parent / "data" / "cli" / "noise.pt2"
    ep = cresset.export.load(path)
    model = cresset.aot_load(cresset.aot_compile(path, options={"output_path": tmp_path / "n.so"}))
    args, kwargs = ep.example_inputs or ((cresset.ones(4, 3),), {})
    cresset.manual_seed(11)
    want = ep.module()(*args, **kwargs)
    cresset.manual_seed(11)
    first, second = model(*args, **kwargs), model(*args, **kwargs)
    model.manual_seed(11)
    third = model(*args, **kwargs)
    same(first, want)
    same(third, want)
    leaf = cresset.utils._pytree.tree_leaves
    assert any(a.tolist() != b.tolist() for a, b in zip(leaf(first), leaf(second)) if isinstance(a, cresset.Tensor))


# ---- ep.compile() ----

def test_interpreted_at_once_then_native():
    ep = load("counting.training")
    model, x = ep.compile(), cresset.ones(3, 4)
    seen = [model(x)[1].item()]  # most likely still interpreted
    assert model.wait(60) == "native" and model.error is None
    seen += [model(x)[1].item() for _ in range(2)]
    # state went along; the program's is untouched
    assert seen == [1.0, 2.0, 3.0] and ep.state_dict["calls_buffer"].item() == 0.0
    want = ep.module(own_state=True)(x)
    same(ep.compile(options={"wait": True})(x), want)


def test_the_swap_loses_no_call():
    """Calls from several threads around the swap: every count comes exactly once."""
    for _ in range(3):
        model, x, seen = load("counting.training").compile(), cresset.ones(3, 4), []

        def work():
            tiers = set()
            while len(seen) < 4000 and tiers != {"interpreter", "native"}:
                seen.append(model(x)[1].item())
                tiers.add(model.tier)
            for _ in range(20):
                seen.append(model(x)[1].item())
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(seen) == [float(i + 1) for i in range(len(seen))]


def test_waiting_builds_first():
    model = load("nested_dict.training").compile(options={"wait": True, "threads": 1, "target": "native"})
    assert model.tier == "native"
    with pytest.raises(ValueError, match="args\\[0\\]"):
        model(3)


def test_a_build_that_fails_stays_interpreted():
    ep, x = load("linear.core"), cresset.ones(3, 8)
    model = ep.compile(options={"cc": "no-such-compiler"})
    assert model.wait(60) == "interpreter" and "no-such-compiler" in str(model.error)
    same(model(x), ep.module()(x))
    with pytest.raises(RuntimeError, match="no-such-compiler"):
        ep.compile(options={"cc": "no-such-compiler", "wait": True})
    with pytest.raises(ValueError, match="unknown option 'fast'"):
        ep.compile(options={"fast": 1})


def test_many_builds_and_calls_side_by_side():
    ep, wrong = load("dynamic_batch.training"), []

    def work(n):
        x = cresset.ones(n, 8)
        want, model = ep.module()(x), ep.compile()
        for _ in range(20):
            try:
                same(model(x), want)
            except BaseException as error:  # noqa: BLE001 - told below
                wrong.append(error)
        model.wait(60)
        same(model(x), want)
    threads = [threading.Thread(target=work, args=(n,)) for n in (2, 3, 5, 8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_nothing_is_left_behind(tmp_path):
    code = ("import cresset, sys; ep = cresset.export.load(sys.argv[1])\n"
            "ep.compile(options={'wait': True}); ep.compile()\n")  # the second is still being built at the end
    subprocess.run([sys.executable, "-c", code, RECORDED / "linear.core.pt2"], check=True,
                   env={**os.environ, "TMPDIR": str(tmp_path)}, timeout=60)
    assert not list(tmp_path.iterdir())
