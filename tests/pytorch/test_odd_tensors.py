"""Tensors that are not plain memory, given to a compiled function before and after plain ones: the answer is PyTorch's,
also where it is an exception. And tensors that count as parameters or buffers by a mark."""
import pytest

torch = pytest.importorskip("torch", reason="these are PyTorch's programs")
import cresset  # noqa: E402

nn = torch.nn


class Own(torch.Tensor):
    pass


class Doubles(torch.Tensor):
    """Its ops are not those of plain tensors."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        made = super().__torch_function__(function, types, args, kwargs)
        return made * 2 if function is torch.Tensor.add else made


def numbers(dtype=torch.float32):
    return torch.arange(1, 5).to(dtype)


def complexes():
    return torch.complex(numbers(), numbers() + 1)


def inference():
    with torch.inference_mode():
        return numbers()


def fake():
    from torch._subclasses.fake_tensor import FakeTensorMode
    return FakeTensorMode().from_tensor(numbers())


def freed():
    x = numbers()
    x.untyped_storage().resize_(0)
    return x


ODD = {
    "conj": lambda: complexes().conj(), "conj().imag": lambda: complexes().conj().imag,
    "conj().real": lambda: complexes().conj().real, "neg": lambda: torch._neg_view(numbers()),
    "subclass": lambda: numbers().as_subclass(Own), "overriding subclass": lambda: numbers().as_subclass(Doubles),
    "parameter of a subclass": lambda: nn.Parameter(numbers().as_subclass(Own)), "fake": fake, "freed": freed,
    "uint4": lambda: numbers(torch.uint8).view(torch.uint4), "uint1": lambda: numbers(torch.uint8).view(torch.uint1),
    "bits8": lambda: numbers(torch.uint8).view(torch.bits8), "inference": inference,
    "zeros": lambda: torch._efficientzerotensor((4,)), "meta": lambda: torch.empty(4, device="meta"),
    "sparse": lambda: numbers().to_sparse(), "mkldnn": lambda: numbers().to_mkldnn(),
    "quantised": lambda: torch.quantize_per_tensor(numbers(), 0.1, 0, torch.quint8),
    "nested": lambda: torch.nested.nested_tensor([numbers(), numbers()[:2]]),
}
PROGRAMS = {
    "arithmetic": lambda x: x + 1, "two": lambda x: x * x.sum(), "view": lambda x: x.view(2, 2),
    "product": lambda x: x.view(2, 2) @ x.view(2, 2), "bytes": lambda x: x.view(torch.uint8),
    "itself": lambda x: x, "write": lambda x: x.add_(1), "new": lambda x: torch.ones_like(x) * 3,
    "facts": lambda x: (type(x), isinstance(x, nn.Parameter), x.dtype, x.is_conj(), x.is_neg(), x.is_inference()),
    "into numbers": lambda x: x.to(torch.float64).tolist(), "gradients": lambda x: (x * 2).requires_grad,
}


def facts(x):
    """All that can be asked of one, its elements as Python's numbers."""
    if not isinstance(x, torch.Tensor):
        return x
    asked = [lambda: tuple(x.shape), x.stride, x.is_conj, x.is_neg, x.is_inference, lambda: x.detach().tolist(),
             lambda: x.to_dense().tolist(), lambda: x.int_repr().tolist()]
    return [type(x), x.dtype, x.device, x.layout, x.requires_grad] + [outcome(ask) for ask in asked]


def outcome(function, *args):
    try:
        return facts(function(*args))
    except Exception as error:
        return type(error)


# storage without memory is read by plain torch, too: only what does not touch its elements is asked
def programs(name):
    return ["view", "facts"] if name == "freed" else PROGRAMS


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("name", ODD)
def test_the_answer_is_torchs(name, grad):
    make = ODD[name]
    with torch.set_grad_enabled(grad):
        for program in programs(name):
            function = PROGRAMS[program]
            for first in (make, numbers):   # an entry of odd ones is not for plain ones, nor the other way round
                run = cresset.compile(function, backend="eager")
                for given in (first, first, make, numbers, make):
                    own, their = given(), given()
                    assert outcome(run, own) == outcome(function, their), program
                    if name != "freed":
                        assert facts(own) == facts(their), program


def test_an_inference_tensor_is_captured():
    run = cresset.compile(lambda x: x + 1, backend="eager")
    for around in (torch.no_grad, torch.inference_mode):
        with around():
            ours = run(inference())
            assert ours.tolist() == [2, 3, 4, 5] and ours.is_inference() == (around is torch.inference_mode)
    assert any(e["reason"] is None for e in run._entries())


# ---- marks ----

@pytest.mark.parametrize("library", [torch, cresset], ids=["torch", "cresset"])
def test_marks_of_parameters_and_buffers(library):
    """Parameter and Buffer count tensors that have a mark: it is a part of what a capture depends on."""
    kinds = library.nn

    def kind(x):
        return isinstance(x, kinds.Parameter), isinstance(x, kinds.Buffer), isinstance(x, (int, kinds.Buffer))
    marked = library.ones(2)
    marked._is_param = True
    tensors = [kinds.Parameter(library.ones(2)), kinds.Buffer(library.ones(2)), library.ones(2), marked]
    for first in tensors:
        run = cresset.compile(kind, backend="eager")
        for x in [first, *tensors, first]:
            assert run(x) == kind(x)
    run = cresset.compile(lambda x: (isinstance(x, kinds.Parameter), x + 1)[0], backend="eager", fullgraph=True)
    assert [run(x) for x in tensors] == [True, False, False, True]
    del marked._is_param
    assert not run(marked)
    marked._is_param = False
    assert not run(marked)


def test_a_modules_marked_tensors():
    class Weighted(nn.Module):
        def __init__(self):
            super().__init__()
            self.w, self.b = nn.Parameter(numbers().as_subclass(Own)), nn.Buffer(numbers())

        def forward(self, x):
            return x + self.b, isinstance(self.w, nn.Parameter), isinstance(self.b, (nn.Buffer, nn.Parameter))
    model = Weighted()
    run = cresset.compile(model, backend="eager")
    for _ in range(2):
        assert run(numbers())[1:] == model(numbers())[1:] == (True, True)
