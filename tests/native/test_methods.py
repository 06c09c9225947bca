"""P7: several methods in one library: weights once, the KV cache of an instance shared between them, and generation
that goes on as PyTorch's does."""
import json
import pathlib
import shutil
import subprocess
import sys
import threading

import cresset
import numpy as np
import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import gpt_models  # noqa: E402
import library  # noqa: E402

DATA = HERE.parent / "data" / "cli"


def tool(*words, **options):
    return subprocess.run(["cresset", *map(str, words)], capture_output=True, text=True, **options)


@pytest.fixture(scope="module")
def gpt(tmp_path_factory):
    return gpt_models.load(tmp_path_factory.mktemp("gpt"))


@pytest.fixture(scope="module")
def compiled(gpt, tmp_path_factory):
    path = tmp_path_factory.mktemp("methods") / "libgpt.so"
    done = tool("compile", gpt.prefill, gpt.decode, "-o", path, "--verify")
    assert done.returncode == 0, done.stderr
    assert (done.stdout.startswith(f"{path}: 2 methods, ") and "\nprefill against the interpreter, " in done.stdout
            and "\ndecode against the interpreter, " in done.stdout)
    return path


def check(call, steps):
    for i, (tokens, positions, logits) in enumerate(steps):
        np.testing.assert_allclose(call(i, tokens, positions), logits, rtol=1e-4, atol=1e-5)


def test_decode_goes_on_from_prefill(gpt, compiled):
    model = library.Model(compiled)
    check(lambda i, tokens, positions: model(tokens, positions, method=int(i > 0))[0], gpt.steps)


def test_from_python(gpt, compiled):
    model, other = cresset.aot_load(compiled), cresset.aot_load(compiled)
    assert list(model.methods) == ["prefill", "decode"]
    check(lambda i, tokens, positions: (model.decode if i else model.prefill)(tokens, positions).numpy(), gpt.steps)
    # a cache of its own
    check(lambda i, tokens, positions: other.methods["decode" if i else "prefill"](tokens, positions).numpy(),
          gpt.steps)
    with pytest.raises(TypeError, match="several methods, call one of them: prefill, decode"):
        model(gpt.steps[0][0])
    with pytest.raises(AttributeError, match="no method 'forward'; it has prefill, decode"):
        model.forward


def test_compiled_from_python(gpt, tmp_path):
    programs = {"prompt": cresset.export.load(gpt.prefill), "token": gpt.decode}
    model = cresset.aot_load(cresset.aot_compile(programs, options={"output_path": tmp_path / "g.so"}))
    check(lambda i, tokens, positions: (model.token if i else model.prompt)(tokens, positions).numpy(), gpt.steps)
    with pytest.raises(ValueError, match="at least one program"):
        cresset.aot_compile({}, options={"output_path": tmp_path / "h.so"})


def test_instances_in_threads_do_not_meet(gpt, compiled):
    wrong = []

    def work():
        model = cresset.aot_load(compiled, threads=1)
        try:
            for _ in range(3):
                check(lambda i, tokens, positions: (model.decode if i else model.prefill)(tokens, positions).numpy(),
                      gpt.steps)
        except BaseException as error:  # noqa: BLE001 - told below
            wrong.append(error)
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_weights_are_stored_once(gpt, compiled, tmp_path):
    assert tool("compile", gpt.prefill, "-o", tmp_path / "one.so", "--weights", "beside").returncode == 0
    assert tool("compile", gpt.prefill, gpt.decode, "-o", tmp_path / "two.so", "--weights", "beside").returncode == 0
    one, two = ((tmp_path / name).stat().st_size for name in ("one.weights", "two.weights"))
    assert two < 1.1 * one
    data = json.loads(tool("info", compiled, "--name", "decode", "--json").stdout)
    names = [s["name"] for s in data["state"]]
    assert data["programs"] == ["prefill", "decode"] and len(names) == len(set(names))
    assert {s["name"] for s in data["state"] if s["kind"] == "buffer"} == {"seen",
            *(f"blocks.{i}.attention.{c}" for i in range(gpt_models.LAYERS) for c in "kv")}


def test_run_and_info_choose_a_method(gpt, compiled, tmp_path):
    assert "method 'decode'\nmethods     prefill, decode\n" in tool("info", compiled, "--name", "decode").stdout
    tokens, positions, logits = gpt.steps[0]
    np.savez(tmp_path / "in.npz", tokens=tokens, positions=positions)
    done = tool("run", compiled, "--name", "prefill", "--inputs", tmp_path / "in.npz", "-o", tmp_path / "out.npz")
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(np.load(tmp_path / "out.npz")["out0"], logits, rtol=1e-4, atol=1e-5)
    done = tool("run", compiled)
    assert done.returncode == 1 and "several methods: 'prefill', 'decode'; choose one with --name" in done.stderr


def test_info_tells_of_all_methods(compiled):
    text = tool("info", compiled).stdout
    assert text.index("method 'prefill'") < text.index("method 'decode'") < text.index("weights")
    data = json.loads(tool("info", compiled, "--json").stdout)
    assert data["programs"] == ["prefill", "decode"] == [m["program"] for m in data["methods"]]
    for method in data["methods"]:
        alone = json.loads(tool("info", compiled, "--name", method["program"], "--json").stdout)
        assert method == {key: alone[key] for key in method} and method["inputs"] and method["outputs"]


def test_bench_begins_each_round_with_the_state_of_the_library(gpt, compiled):
    """A cache that had to hold the tokens of all rounds would be full."""
    rounds = json.loads(tool("bench", gpt.decode, "--rounds", "3", "--json").stdout)["rows"]
    assert {row["name"] for row in rounds} == {"interpreter", "native"} and all(row["seconds"] > 0 for row in rounds)


def test_an_archive_of_several_programs(tmp_path):
    done = tool("compile", DATA / "pair.pt2", "-o", tmp_path / "pair.so")
    assert done.returncode == 0 and "2 methods" in done.stdout, done.stderr
    assert json.loads(tool("info", tmp_path / "pair.so", "--name", "second", "--json").stdout)["programs"] == ["first",
            "second"]


def test_methods_that_do_not_fit_together(gpt, tmp_path):
    (tmp_path / "a").mkdir()
    shutil.copy(gpt.decode, tmp_path / "a" / "prefill.pt2")
    done = tool("compile", gpt.prefill, tmp_path / "a" / "prefill.pt2", "-o", tmp_path / "x.so")
    assert done.returncode == 1 and "two methods are called 'prefill'" in done.stderr
    weights = tmp_path / "w.safetensors"
    assert tool("convert", gpt.decode, "-o", weights).returncode == 0
    data = bytearray(weights.read_bytes())
    size = int.from_bytes(data[:8], "little")
    begin, end = json.loads(data[8:8 + size])["blocks.0.attention.k"]["data_offsets"]
    data[8 + size + begin] ^= 1
    weights.write_bytes(data)
    assert tool("convert", gpt.decode, "--weights", weights, "-o", tmp_path / "decode.pt2").returncode == 0
    done = tool("compile", gpt.prefill, tmp_path / "decode.pt2", "-o", tmp_path / "x.so")
    assert done.returncode == 1 and "share the buffer 'blocks.0.attention.k', but it starts otherwise" in done.stderr
    done = tool("compile", gpt.prefill, tmp_path / "none.pt2", "-o", tmp_path / "x.so")
    assert done.returncode == 1 and "none.pt2" in done.stderr and not (tmp_path / "x.so").exists()
