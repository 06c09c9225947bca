"""What exported modules raise for arguments that do not fit is of PyTorch's class."""
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is the oracle")
import cresset  # noqa: E402


def exported(lib):
    class Adds(lib.nn.Module):
        def forward(self, x, *, y):
            return x + y

    class Scales(lib.nn.Module):
        def forward(self, x, n, flag):
            return x * n if flag else x
    rows = lib.export.Dim("rows", min=2, max=10)
    adds = lib.export.export(Adds(), (lib.ones(4, 3),), {"y": lib.ones(4, 3)},
                             dynamic_shapes={"x": {0: rows}, "y": {0: rows}})
    return {"adds": adds.module(), "scales": lib.export.export(Scales(), (lib.ones(3), 2, True)).module()}


def ones(*sizes):
    return lambda lib: lib.ones(*sizes)


FITS = {"y": ones(4, 3)}
ADDS = {  # arguments, keywords, PyTorch's class; None: it runs
    "as it was": ([ones(4, 3)], FITS, None),
    "another size": ([ones(9, 3)], {"y": ones(9, 3)}, None),
    "a size of 1": ([ones(1, 3)], {"y": ones(1, 3)}, None),
    "a wrong size": ([ones(4, 5)], FITS, AssertionError),
    "a size beyond the range": ([ones(11, 3)], {"y": ones(11, 3)}, AssertionError),
    "sizes that are not equal": ([ones(4, 3)], {"y": ones(5, 3)}, AssertionError),
    "a wrong rank": ([ones(4, 3, 1)], FITS, RuntimeError),
    "too few": ([], FITS, ValueError),
    "too many": ([ones(4, 3)] * 3, {}, ValueError),
    "one too many": ([ones(4, 3)] * 2, FITS, ValueError),
    "a keyword by place": ([ones(4, 3)] * 2, {}, ValueError),
    "an unknown keyword": ([ones(4, 3)], {"z": ones(4, 3)}, ValueError),
    "a keyword too many": ([ones(4, 3)], {"y": ones(4, 3), "z": ones(4, 3)}, ValueError),
    "no keyword": ([ones(4, 3)], {}, ValueError),
    "a list": ([lambda lib: [lib.ones(4, 3)]], FITS, ValueError),
}
SCALES = {
    "as it was": ([ones(3), lambda _: 2, lambda _: True], None),
    "an equal number": ([ones(3), lambda _: 2.0, lambda _: True], None),
    "another number": ([ones(3), lambda _: 3, lambda _: True], AssertionError),
    "another truth": ([ones(3), lambda _: 2, lambda _: False], AssertionError),
    "a text": ([ones(3), lambda _: "2", lambda _: True], AssertionError),
    "a tensor": ([ones(3), ones(1), lambda _: True], AssertionError),
}
CASES = [(f"adds: {name}", "adds", *row) for name, row in ADDS.items()] + [
    (f"scales: {name}", "scales", given, {}, error) for name, (given, error) in SCALES.items()]


@pytest.fixture(scope="module", params=[cresset, torch], ids=lambda m: m.__name__)
def modules(request):
    return request.param, exported(request.param)


@pytest.mark.parametrize("which,args,kwargs,error", [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_classes_of_errors(modules, which, args, kwargs, error):
    lib, made = modules
    given, named = [make(lib) for make in args], {name: make(lib) for name, make in kwargs.items()}
    if error is None:
        made[which](*given, **named)
        return
    with pytest.raises(error) as raised:
        made[which](*given, **named)
    if lib is cresset and error is AssertionError:
        assert isinstance(raised.value, cresset.GuardError) and "input '" in str(raised.value)
