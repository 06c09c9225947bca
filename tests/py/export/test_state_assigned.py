"""What is put into ep.state_dict and ep.constants counts, as in PyTorch, where both are plain dictionaries; and it is
checked."""
import io

import pytest

import cresset


class Scaled(cresset.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = cresset.nn.Parameter(cresset.tensor([1.0, 2.0, 3.0]))
        self.register_buffer("shift", cresset.tensor([0.5, 0.5, 0.5]))
        self.register_buffer("kept", cresset.zeros(3), persistent=False)

    def forward(self, x):
        self.kept.add_(1)
        return x * self.weight + self.shift + self.kept


X = cresset.ones(3)


def program():
    return cresset.export.export(Scaled(), (X,))


def saved(ep):
    content = io.BytesIO()
    cresset.export.save(ep, content)
    content.seek(0)
    return cresset.export.load(content)


def ways(ep):
    """What a first call gives, by every way to run it."""
    runs = {"module": ep.module(own_state=True), "compile": ep.compile(options={"wait": True}),
            "save": saved(ep).module(own_state=True),
            "decomposed": ep.run_decompositions().module(own_state=True),
            "native": cresset.aot_load(cresset.aot_compile(ep))}
    return {way: run(X).tolist() for way, run in runs.items()}


def everywhere(expected):
    return dict.fromkeys(("module", "compile", "save", "decomposed", "native"), expected)


@pytest.mark.parametrize("put", [lambda d, t: d.__setitem__("weight", t), lambda d, t: d.update({"weight": t}),
                                 lambda d, t: d.update(weight=t),
                                 lambda d, t: d.__ior__({"weight": t})])
def test_a_parameter_counts(put):
    ep = program()
    assert ways(ep) == everywhere([2.5, 3.5, 4.5])
    put(ep.state_dict, cresset.tensor([10.0, 20.0, 30.0]))
    assert ways(ep) == everywhere([11.5, 21.5, 31.5])
    assert ep.state_dict["weight"].tolist() == [10, 20, 30] and saved(ep).state_dict["weight"].tolist() == [10, 20, 30]


def test_buffers_and_constants_count():
    ep = program()
    ep.state_dict["shift"] = cresset.zeros(3)
    ep.constants["kept"] = cresset.tensor([4.0, 4.0, 4.0])
    assert ways(ep) == everywhere([6, 7, 8])


def test_archives_count_too():
    ep = saved(program())
    ep.state_dict["weight"] = cresset.zeros(3)
    assert ways(ep) == everywhere([1.5, 1.5, 1.5])


def test_what_was_made_before_stays():
    ep = program()
    before, native = ep.module(own_state=True), ep.compile()
    ep.state_dict["weight"] = cresset.zeros(3)
    assert ep.module(own_state=True)(X).tolist() == [1.5, 1.5, 1.5]
    native.wait()
    assert native.error is None and before(X).tolist() == native(X).tolist() == [2.5, 3.5, 4.5]


def test_the_tensor_itself_is_taken():
    """Not a copy: what is written to it later counts, as in PyTorch."""
    ep, mine = program(), cresset.zeros(3)
    ep.state_dict["shift"] = mine
    run = ep.module(own_state=True)
    mine.fill_(7)
    assert ep.state_dict["shift"] is mine and run(X).tolist() == [9, 10, 11]


@pytest.mark.parametrize("name, tensor, message", [
    ("weight", cresset.zeros(4), r"'weight' is float32 \[4\]; the program was exported with float32 \[3\]"),
    ("weight", cresset.zeros(3, dtype=cresset.float64), r"'weight' is float64 \[3\]; the program was exported with "
     r"float32"),
    ("weight", cresset.zeros(6)[::2], r"'weight' is float32 \[3\] with strides \[2\]; .* with strides \[1\]"),
    ("wight", cresset.zeros(3), r"state_dict has 'wight', which the program has not: it has weight, shift"),
])
def test_what_does_not_fit_is_refused(name, tensor, message):
    ep = program()
    ep.state_dict[name] = tensor
    for use in (ep.module, ep.compile, ep.validate, ep.run_decompositions, lambda: saved(ep),
                lambda: cresset.aot_compile(ep)):
        with pytest.raises(ValueError, match=message):
            use()


def test_what_is_no_tensor_or_missing_is_refused():
    ep = program()
    ep.state_dict["weight"] = [1.0, 2.0, 3.0]
    with pytest.raises(ValueError, match=r"state_dict\['weight'\] is a list, not a Tensor"):
        ep.module()
    del ep.state_dict["weight"]
    with pytest.raises(ValueError, match="state_dict has no 'weight' any more"):
        ep.module()
    ep.state_dict["weight"] = cresset.zeros(3)
    assert ep.module(own_state=True)(X).tolist() == [1.5, 1.5, 1.5]


def test_pytorch_does_the_same():
    torch = pytest.importorskip("torch")

    class Plain(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.tensor([1.0, 2.0]))

        def forward(self, x):
            return x * self.weight
    ep = torch.export.export(Plain(), (torch.ones(2),))
    ep.state_dict["weight"] = torch.nn.Parameter(torch.tensor([5.0, 6.0]))
    content = io.BytesIO()
    torch.export.save(ep, content)
    content.seek(0)
    assert ep.module()(torch.ones(2)).tolist() == [5, 6]
    assert cresset.export.load(content).module()(cresset.ones(2)).tolist() == [5, 6]
