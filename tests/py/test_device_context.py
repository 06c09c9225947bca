"""`with device(...)`: where functions make tensors that are not told."""
import threading

import cresset
import pytest


def places(torch):
    """The devices of what is made inside, and what was drawn from the generator."""
    torch.manual_seed(3)
    found = []

    def note(*tensors):
        found.append([str(t.device) for t in tensors])
    with torch.device("meta") as entered:
        note(torch.empty(2), torch.zeros(0), torch.arange(3), torch.randn(2, 2), torch.tensor([1, 2]), torch.eye(2),
             torch.as_tensor([1.0]), torch.full((2,), 3), torch.linspace(0, 1, 3), torch.nn.Linear(2, 3).weight,
             torch.normal(0.0, 1.0, size=(2,)), torch.nn.BatchNorm2d(3).running_mean)
        note(torch.ones(2, device="cpu"), torch.zeros_like(torch.ones(1, device="cpu")),
             torch.ones(1, device="cpu").new_zeros(2), torch.ones(1, device="cpu") + 1)
        with torch.device("cpu"):
            note(torch.zeros(1))
        note(torch.zeros(1))
        found.append([str(entered), str(torch.get_default_device())])
    try:
        with torch.device("meta"):
            raise KeyError
    except KeyError:
        note(torch.zeros(1))
    return found, torch.rand(2)


def test_equals_pytorch(oracle):
    theirs, drawn = oracle("places", places)
    ours, ours_drawn = places(cresset)
    assert ours == theirs
    assert (ours_drawn.numpy() == drawn.array).all()


def test_belongs_to_the_thread():
    seen = []
    with cresset.device("meta"):
        thread = threading.Thread(target=lambda: seen.append(str(cresset.zeros(1).device)))
        thread.start()
        thread.join()
    assert seen == ["cpu"]


def test_compiled_functions_see_it():
    @cresset.compile
    def f(x):
        return x.sum() + cresset.zeros(3)

    assert f(cresset.ones(2)).tolist() == [2.0, 2.0, 2.0]
    with cresset.device("meta"):
        assert str(f(cresset.ones(2)).device) == "meta"
    assert f(cresset.ones(2)).tolist() == [2.0, 2.0, 2.0]


def test_block_inside_of_a_compiled_function():
    @cresset.compile
    def f(x):
        with cresset.device("meta"):
            y = cresset.zeros(3)
        return x + 1, y, cresset.zeros(2)

    for _ in range(2):
        x, y, z = f(cresset.ones(2))
        assert x.tolist() == [2.0, 2.0] and str(y.device) == "meta" and z.tolist() == [0.0, 0.0]


def test_exported_programs_keep_their_places():
    class M(cresset.nn.Module):
        def forward(self, x):
            return x + cresset.ones(2)

    program = cresset.export.export(M(), (cresset.zeros(2),))
    x = cresset.zeros(2)
    with cresset.device("meta"):
        assert program.module()(x).tolist() == [1.0, 1.0]


def test_errors():
    with pytest.raises(RuntimeError, match="no `with device"):
        cresset.device("cpu").__exit__(None, None, None)
    with pytest.raises((RuntimeError, NotImplementedError)):
        with cresset.device("cuda"):
            cresset.zeros(1)
    assert str(cresset.zeros(1).device) == "cpu"
    with pytest.raises(RuntimeError, match="on the CPU or on 'meta'"):
        cresset.tensor([1], device="cuda")
    assert str(cresset.tensor([1], device="meta").device) == "meta"
