"""One expression, evaluated with PyTorch and with Cresset: both must give the same, or raise the same class.

    @pytest.mark.parametrize("line", lines('''t.ones(2) + 1
                                              t.zeros(2, 3).T.stride()'''))
    def test_add(oracle, line): agree(oracle, line)

In a line, `t` is the module and `np` is NumPy. `|` starts the statements that go before the expression: `x[0] = 1; | x`
is written `x | x = t.zeros(2); x[0] = 1`. Lines are also the keys of recorded answers.
"""
import warnings

import numpy

import cresset
from oracle import Answer, Raised

UNSTORABLE = {"bfloat16": "float32", "complex32": "complex64"}


def lines(text):
    return [line.strip() for line in text.strip().splitlines() if line.strip() and not line.strip().startswith("#")]


def run(line, module):
    expression, _, before = line.partition(" | ")
    names = {"t": module, "np": numpy, "nan": float("nan"), "inf": float("inf")}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(before.strip(), names)
        return eval(expression.strip(), names)


def plain(value, module):
    """Values of either module in common terms; tensors stay."""
    if isinstance(value, (module.dtype, module.layout, module.memory_format)):
        return repr(value).rpartition(".")[2]
    if isinstance(value, module.device):
        return str(value)
    if isinstance(value, module.Size):
        return ["Size", *value]
    if isinstance(value, (list, tuple)):
        return [plain(v, module) for v in value]
    if isinstance(value, dict):
        return {k: plain(v, module) for k, v in value.items()}
    if isinstance(value, numpy.ndarray):
        return ["ndarray", str(value.dtype), list(value.shape), value.tolist()]
    if isinstance(value, numpy.generic):
        return value.item()
    if isinstance(value, str):
        return value.replace("torch.", "cresset.")
    return value


def answer_of(tensor):
    """A Cresset tensor as the oracle's Answer."""
    name = repr(tensor.dtype).removeprefix("cresset.")
    wide = name.startswith("float8") or name in UNSTORABLE
    shown = tensor.to(getattr(cresset, UNSTORABLE.get(name, "float32"))) if wide else tensor
    array = numpy.array(shown.tolist(), dtype=UNSTORABLE.get(name, "float32") if wide
                        else name).reshape(tuple(tensor.shape))
    return Answer(name, list(tensor.shape), list(tensor.stride()), array)


def same(want, got, where):
    if isinstance(want, Answer):
        assert isinstance(got, cresset.Tensor), f"{where}: expected a tensor, got {got!r}"
        got = answer_of(got)
        assert (got.dtype, got.shape) == (want.dtype, want.shape), where
        if all(want.shape):
            steps = lambda a: [s for n, s in zip(a.shape, a.stride) if n > 1]
            assert steps(got) == steps(want), f"{where}: strides {want.stride} expected, got {got.stride}"
        numpy.testing.assert_allclose(got.array, want.array, rtol=2e-6, atol=0, equal_nan=True, err_msg=where)
    elif isinstance(want, list):
        assert isinstance(got, list) and len(want) == len(got), f"{where}: expected {want}, got {got}"
        for i, (w, g) in enumerate(zip(want, got)):
            same(w, g, f"{where}[{i}]")
    elif isinstance(want, float):
        close = type(got) is float and (got == want or abs(got - want) <= 2e-6 * abs(want)
                                        or (got != got and want != want))
        assert close, f"{where}: expected {want}, got {got!r}"
    else:
        assert type(got) is type(want) and got == want, f"{where}: expected {want!r}, got {got!r}"


def agree(oracle, line):
    want = oracle(line, lambda torch: plain(run(line, torch), torch), raises=True)
    if isinstance(want, Raised):
        try:
            got = run(line, cresset)
        except Exception as error:
            mine = [cls.__name__ for cls in type(error).__mro__]
            assert want.classes[0] in mine, (
                f"{line}: {want.classes[0]} expected ({want.message}), got {type(error).__name__}: {error}")
            assert str(error), f"{line}: the error says nothing"
            return
        raise AssertionError(f"{line}: expected {want.classes[0]} ({want.message}), got {got!r}")
    same(want, plain(run(line, cresset), cresset), line)
