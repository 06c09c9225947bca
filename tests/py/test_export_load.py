"""X2, X10, P1 (loading): cresset.export.load and the objects it gives, on archives that PyTorch wrote
(tests/interop/recorded)."""
import io
import pathlib
import shutil
import zipfile

import cresset
import pytest
from cresset.export.graph_signature import ConstantArgument, InputKind, OutputKind, TensorArgument

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "interop" / "recorded"


def load(archive, **options):
    return cresset.export.load(FOLDER / f"{archive}.pt2", **options)


# ---- loading ----

def test_paths_and_file_objects(tmp_path):
    path = FOLDER / "linear.core.pt2"
    x = cresset.ones(3, 8)
    with open(path, "rb") as file:
        programs = [cresset.export.load(str(path)), cresset.export.load(path), cresset.export.load(file),
                    cresset.export.load(io.BytesIO(path.read_bytes()))]
    results = [ep.module()(x).tolist() for ep in programs]
    assert results[0] == results[1] == results[2] == results[3]


def test_what_cannot_be_loaded(tmp_path):
    with pytest.raises(TypeError, match="path or a binary file object"):
        cresset.export.load(3)
    with pytest.raises(OSError, match="nowhere.pt2"):
        cresset.export.load(tmp_path / "nowhere.pt2")
    with pytest.raises(TypeError, match="binary"):
        cresset.export.load(io.StringIO("text"))
    with pytest.raises(ValueError):
        cresset.export.load(io.BytesIO(b"this is no archive"))
    whole = (FOLDER / "linear.core.pt2").read_bytes()
    with pytest.raises(ValueError):
        cresset.export.load(io.BytesIO(whole[: len(whole) // 2]))


def test_extra_files(tmp_path):
    path = tmp_path / "m.pt2"
    shutil.copy(FOLDER / "linear.core.pt2", path)
    with zipfile.ZipFile(path, "a") as archive:
        top = archive.namelist()[0].partition("/")[0]
        archive.writestr(f"{top}/extra/notes.txt", "héllo")
    wanted = {"notes.txt": "", "absent.txt": "kept"}
    cresset.export.load(path, extra_files=wanted)
    assert wanted == {"notes.txt": "héllo", "absent.txt": "kept"}


def test_opset_version():
    load("linear.core", expected_opset_version={"aten": 10})
    with pytest.raises(ValueError, match="version 10 of the op set 'aten', expected 3"):
        load("linear.core", expected_opset_version={"aten": 3})


def test_another_program_name():
    with pytest.raises(KeyError, match="model"):
        load("linear.core", name="absent")


def test_checksums_on_request(tmp_path):
    path = tmp_path / "m.pt2"
    data = bytearray((FOLDER / "linear.core.pt2").read_bytes())
    with zipfile.ZipFile(FOLDER / "linear.core.pt2") as archive:
        info = next(i for i in archive.infolist() if "weights/weight_0" in i.filename)
        header = data[info.header_offset:info.header_offset + 30]
        start = info.header_offset + 30 + int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30],
                "little")
    data[start] ^= 1
    path.write_bytes(data)
    cresset.export.load(path)
    with pytest.raises(ValueError, match="weight_0"):
        cresset.export.load(path, check=True)



# ---- what is in it ----

def test_signature_in_the_training_dialect():
    signature = load("counting.training").graph_signature
    assert [(spec.kind, spec.arg, spec.target, spec.persistent) for spec in signature.input_specs] == [
        (InputKind.BUFFER, TensorArgument("b_calls_buffer"), "calls_buffer", True),
        (InputKind.BUFFER, TensorArgument("b_mean_buffer"), "mean_buffer", True),
        (InputKind.USER_INPUT, TensorArgument("x"), None, None)]
    assert [spec.kind for spec in signature.output_specs] == [OutputKind.USER_OUTPUT, OutputKind.USER_OUTPUT]
    assert signature.user_inputs == ("x",) and signature.buffers == ("calls_buffer",
                                                                     "mean_buffer") and signature.parameters == ()
    assert signature.inputs_to_buffers == {"b_calls_buffer": "calls_buffer", "b_mean_buffer": "mean_buffer"}
    assert signature.buffers_to_mutate == {}


def test_signature_after_decomposition():
    signature = load("counting.core").graph_signature
    assert sorted(signature.buffers_to_mutate.values()) == ["calls_buffer", "mean_buffer"]
    assert ([spec.kind for spec in signature.output_specs] == [OutputKind.BUFFER_MUTATION] * 2
            + [OutputKind.USER_OUTPUT] * 2)
    assert len(signature.user_outputs) == 2


def test_signature_of_constants():
    signature = load("plain_arguments.core").graph_signature
    assert [spec.arg for spec in signature.input_specs][1:] == [ConstantArgument("n", 2),
            ConstantArgument("scale", 0.5), ConstantArgument("flip", True),
                                                                 ConstantArgument("mask", None),
                                                                ConstantArgument("how", "mean")]
    assert signature.user_inputs == ("x", 2, 0.5, True, None, "mean")
    signature = load("constant_outputs.training").graph_signature
    assert signature.user_outputs[1:6] == (3, 2.5, None, True, "text")


def test_signature_prints_as_pytorchs(oracle):
    for name in ("counting.core", "conv_bn_relu_train.training", "plain_arguments.core"):
        path = FOLDER / f"{name}.pt2"
        wanted = oracle(name, lambda torch: str(torch.export.load(path).graph_signature))
        assert str(load(name).graph_signature) == wanted


def test_state():
    ep = load("conv_bn_relu_train.training")
    assert list(ep.state_dict) == ["0.weight", "0.bias", "1.weight", "1.bias", "1.running_mean", "1.running_var",
                                   "1.num_batches_tracked"]
    assert [name for name, _ in ep.named_parameters()] == ["0.weight", "0.bias", "1.weight",
                                                           "1.bias"] == list(ep.graph_signature.parameters)
    assert [name for name, _ in ep.named_buffers()] == ["1.running_mean", "1.running_var", "1.num_batches_tracked"]
    assert tuple(next(ep.parameters()).shape) == (6, 3, 3, 3) and len(list(ep.buffers())) == 3
    assert ep.state_dict["1.num_batches_tracked"].dtype is cresset.int64


def test_tied_weights_are_one_tensor():
    state = load("tied_weights.training").state_dict
    assert list(state) == ["table.weight",
                           "head.weight"] and state["table.weight"].data_ptr() == state["head.weight"].data_ptr()


def test_views_in_the_state_share_their_storage():
    state = load("buffers_that_are_views.training").state_dict
    whole, part = state["whole_buffer"], state["part_buffer"]
    assert part.tolist() == whole[1:3, ::2].tolist()
    assert tuple(state["wide_buffer"].shape) == (4, 3) and tuple(state["flipped_buffer"].stride()) == (1, 4)


def test_ranges():
    constraints = load("dynamic_batch_and_length.core").range_constraints
    assert sorted((r.lower, r.upper) for r in constraints.values()) == [(1, 128), (2, 256)]
    assert all(str(symbol).startswith("s") and symbol.name == str(symbol) for symbol in constraints)
    assert repr(next(iter(constraints.values()))).startswith("VR[")


def test_call_structure():
    ep = load("nested_dict.training")
    assert (repr(ep.in_spec.children_spec[0].children_spec[0]) == "TreeSpec(dict, ['image', 'extra'], [*, "
            "TreeSpec(dict, ['scale', 'ids'], [*, TreeSpec(list, None, [*, *])])])")
    assert ep.call_spec.in_spec == ep.in_spec and ep.in_spec.num_leaves == 4
    entry = ep.module_call_graph[0]
    assert (entry.fqn == "" and entry.signature.forward_arg_names == ["batch"] and entry.signature.out_spec
            == ep.out_spec)
    assert ep.in_spec.paths("call") == ["call[0][0]['image']", "call[0][0]['extra']['scale']",
                                        "call[0][0]['extra']['ids'][0]", "call[0][0]['extra']['ids'][1]"]


def test_example_inputs():
    args, kwargs = load("nested_dict.training").example_inputs
    assert tuple(args[0]["image"].shape) == (2, 3) and [t.tolist() for t in args[0]["extra"]["ids"]] == [[1, 0],
            [0, 1]] and kwargs == {}
    args, kwargs = load("keyword_arguments.training").example_inputs
    assert len(args) == 1 and sorted(kwargs) == ["scale", "shift"]


def test_dialects():
    assert load("linear.core").dialect != load("counting.training").dialect == "TRAINING"
    ep = load("counting.training")
    ep.validate()
    assert ep.verifier.dialect == "TRAINING" and ep.unsupported_ops == [] and ep.torch_version.startswith("2.")


def test_printing(oracle):
    for name in ("linear.core", "counting.training", "dynamic_batch.training"):
        path = FOLDER / f"{name}.pt2"
        wanted = oracle(name, lambda torch: str(torch.export.load(path)))
        text = str(load(name))
        assert "ExportedProgram:" in text and "Graph signature:" in text and "Range constraints:" in text
        calls = [line.split(" = ")[0].split(":")[0].strip() for line in wanted.splitlines() if " = torch.ops." in line]
        assert calls and all(call in text for call in calls)


# ---- the graph ----

def test_graph_nodes(oracle):
    for name in ("conv_bn_relu_train.core", "dynamic_batch_and_length.core", "counting.training",
                 "lstm_two_layers.training", "cond_tensor.training"):
        path = FOLDER / f"{name}.pt2"
        wanted = oracle(name,
                lambda torch: [[n.op, n.name, [m.name for m in n.users]] for n in torch.export.load(path).graph.nodes])
        got = [[n.op, n.name, [m.name for m in n.users]] for n in load(name).graph.nodes]
        assert [n[:2] for n in got if n[0] == "placeholder"] == [n[:2] for n in wanted if n[0] == "placeholder"]
        assert [n[0] for n in got] == [n[0] for n in wanted]
        singles = {n[1] for n in wanted} & {n[1] for n in got}
        assert {n[1]: len(n[2]) for n in got if n[1] in singles} == {n[1]: len(n[2]) for n in wanted if n[1] in singles}


def test_node_attributes():
    ep = load("dynamic_batch.training")
    nodes = {node.name: node for node in ep.graph.nodes}
    linear = nodes["linear"]
    assert linear.op == "call_function" and linear.target is cresset.ops.aten.linear.default
    assert [a.name for a in linear.args] == ["x", "p_a_weight", "p_a_bias"] and linear.kwargs == {}
    assert (linear.meta["val"].dtype is cresset.float32 and linear.meta["val"].shape[1] == 4
            and str(linear.meta["val"].shape[0]).startswith("s"))
    assert "forward" in linear.meta["stack_trace"] and linear in nodes["x"].users
    assert linear.prev.next is linear and ep.graph.output_node().op == "output"
    assert ep.graph.find_nodes(op="call_function", target=cresset.ops.aten.layer_norm.default)[0].args[0] is linear
    call = "call_function[target=cresset.ops.aten.linear.default](args = (%x, %p_a_weight, %p_a_bias), kwargs = {})"
    assert call in str(ep.graph)


def test_subgraphs():
    module = load("cond_tensor.training").graph_module
    (name, sub), *_ = list(module.named_modules())[1:]
    assert name.startswith("true_graph") and getattr(module, name) is sub
    assert any(node.target is cresset.ops.aten.linear.default for node in sub.graph.nodes)
    with pytest.raises(AttributeError, match="true_graph"):
        module.absent


def test_graph_module_runs_the_lifted_graph():
    ep = load("linear.core")
    x = cresset.ones(3, 8)
    results = ep.graph_module(ep.state_dict["weight"], ep.state_dict["bias"], x)
    assert results[0].tolist() == ep.module()(x).tolist()


# ---- calls ----

def test_keyword_arguments_in_any_order():
    module = load("keyword_arguments.training").module()
    x, scale, shift = cresset.ones(2, 3), cresset.arange(3.0), cresset.ones(2, 1)
    assert module(x, scale=scale, shift=shift).tolist() == module(x, shift=shift,
            scale=scale).tolist() == module(shift=shift, x=x, scale=scale).tolist()


def test_arguments_that_are_missing_or_too_many():
    module = load("keyword_arguments.training").module()
    x = cresset.ones(2, 3)
    for call, words in ((lambda: module(), ["missing 'x'", "'shift'", "'scale'"]),
                        (lambda: module(x, x), ["positional arguments too many", "1 expected, 2 given"]),
                        (lambda: module(x, scale=x), ["missing keyword arguments 'shift'"]),
                        (lambda: module(x, scale=x, shift=x, power=x, other=x),
                         ["unexpected keyword arguments 'power', 'other'"])):
        with pytest.raises(ValueError) as caught:
            call()
        assert all(word in str(caught.value) for word in words), str(caught.value)


def test_structures_that_differ():
    module = load("nested_dict.training").module()
    ids = [cresset.tensor([1, 0]), cresset.tensor([0, 1])]
    good = {"image": cresset.ones(2, 3), "extra": {"scale": cresset.ones(3), "ids": ids}}
    assert list(module(good)) == ["y", "picked"] and len(module(good)["picked"]) == 2
    for batch, words in (({**good, "other": 1}, ["args[0]", "'other'"]),
                         ({"image": good["image"]}, ["args[0]", "'extra'"]),
                         ({**good, "extra": {"scale": cresset.ones(3), "ids": ids[:1]}},
                          ["args[0]['extra']['ids']", "a list of 2", "a list of 1"]),
                         ({**good, "image": [1]}, ["args[0]['image']", "one value"])):
        with pytest.raises(ValueError) as caught:
            module(batch)
        assert all(word in str(caught.value) for word in words), str(caught.value)


def test_inputs_are_checked_by_name():
    module = load("dynamic_batch.training").module()
    for bad, words in ((cresset.ones(3, 9), ["x", "8", "9"]), (cresset.ones(3, 8, dtype=cresset.float64),
                                                               ["x", "float"]), (cresset.ones(8), ["x"]),
                       (cresset.ones(129, 8), ["x", "128", "129"]), (3, ["x"]), (None, ["x"])):
        with pytest.raises((ValueError, TypeError, RuntimeError)) as caught:
            module(bad)
        assert all(word in str(caught.value) for word in words), str(caught.value)


def test_other_values_for_constants_are_refused():
    module = load("plain_arguments.core").module()
    x = cresset.ones(2, 3)
    module(x, 2, 0.5, True, None, "mean")
    for args, name in (((x, 3, 0.5, True, None, "mean"), "n"), ((x, 2, 0.25, True, None, "mean"), "scale"),
                       ((x, 2, 0.5, True, None, "sum"), "how"), ((x, 2, 0.5, True, x, "mean"), "mask")):
        with pytest.raises((ValueError, TypeError, RuntimeError), match=name):
            module(*args)


def test_results_are_structures():
    ep = load("namedtuple_argument.training")
    pair = (cresset.ones(2, 3), cresset.ones(3))
    kind = ep.call_spec.in_spec.children()[0].children()[0].context  # another test may have registered a class of it
    result = ep.module()(kind(*pair))
    assert type(result).__name__ == "Pair" and list(result.right) == ["sum"]
    assert result.left.tolist() == cresset.ones(2, 3).tolist()


def test_modules_share_the_programs_buffers_unless_asked():
    ep = load("counting.training")
    x = cresset.ones(3, 4)
    first, second, own = ep.module(), ep.module(), ep.module(own_state=True)
    assert [first(x)[1].item(), second(x)[1].item()] == [1.0, 2.0] and ep.state_dict["calls_buffer"].item() == 2.0
    own = ep.module(own_state=True)
    assert own(x)[1].item() == 3.0 and own(x)[1].item() == 4.0 and ep.state_dict["calls_buffer"].item() == 2.0


def test_arrays_of_others_are_taken_without_copying():
    import numpy
    module = load("input_mutation.core").module()
    x = numpy.ones((3, 4), dtype="float32")
    module(x)
    assert x[0].tolist() == [4.0] * 4 and x[1].tolist() == [2.0] * 4


def test_what_a_module_refuses():
    module = load("linear.core").module()
    for call in (module.train, module.eval):
        with pytest.raises(NotImplementedError, match="was exported"):
            call()
    with pytest.raises(RuntimeError, match="module"):
        load("linear.core")(cresset.ones(3, 8))
    assert sorted(module.state_dict()) == ["bias", "weight"]
    assert [name for name, _ in module.named_parameters()] == ["weight", "bias"]


def test_one_module_in_many_threads():
    """N3, P2: runs that change nothing go side by side; those that count do so one after the other."""
    import threading
    ep = load("counting.training")
    module, plain = ep.module(), load("linear.core").module()
    x, y = cresset.ones(3, 4), cresset.ones(3, 8)
    wanted, seen, wrong = plain(y).tolist(), [], []

    def work():
        for _ in range(25):
            seen.append(module(x)[1].item())
            if plain(y).tolist() != wanted:
                wrong.append(1)
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and sorted(seen) == [float(i + 1) for i in range(100)]
