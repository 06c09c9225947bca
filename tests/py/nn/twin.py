"""The same thing in both libraries: layers built from one line of text, tensors carried over, results compared."""
import warnings

import numpy
import torch

import cresset


def tensor(value):
    """A torch tensor as a cresset tensor with the same sizes, strides and elements (bfloat16 through float32)."""
    value = value.detach()
    if value.dtype is torch.bfloat16:
        return cresset.from_numpy(value.float().numpy().copy()).to(cresset.bfloat16)
    if 0 in value.stride():
        value = value.contiguous()
    if not value.is_contiguous():
        flat = torch.empty_strided(value.size(), value.stride(), dtype=value.dtype).copy_(value)
        whole = torch.as_strided(flat, (flat.untyped_storage().nbytes() // flat.element_size(),), (1,), 0)
        return cresset.from_numpy(whole.numpy().copy()).as_strided(tuple(value.shape), tuple(value.stride()))
    return cresset.from_numpy(value.numpy().copy())


def ours(value):
    """Nested torch values as nested cresset values."""
    if isinstance(value, torch.Tensor):
        return tensor(value)
    if isinstance(value, torch.nn.utils.rnn.PackedSequence):
        return cresset.nn.utils.rnn.PackedSequence(*map(ours, value))
    if isinstance(value, (list, tuple)):
        return type(value)(list(map(ours, value)))
    if isinstance(value, dict):
        return {key: ours(item) for key, item in value.items()}
    if isinstance(value, torch.dtype):
        return getattr(cresset, str(value).removeprefix("torch."))
    return value


def evaluate(text, module, **names):
    """The value of `text` with torch bound to `module`; warnings are of no interest here."""
    scope = {"torch": module, "nn": module.nn, "F": module.nn.functional, "inf": float("inf"), **names}
    for name in "randn rand zeros ones tensor arange randint full eye empty".split():
        scope[name] = getattr(module, name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return eval(text, scope)


def array(value):
    value = value.detach()
    half = (torch.bfloat16, cresset.bfloat16)
    return numpy.asarray((value.float() if value.dtype in half else value).numpy())


def same(mine, theirs, tolerance=2e-5, where="result"):
    """Asserts that nested results agree: structure, dtypes, sizes and elements (relative to the largest one)."""
    if isinstance(theirs, torch.Tensor):
        assert isinstance(mine, cresset.Tensor), f"{where}: {type(mine)}"
        assert str(mine.dtype).split(".")[-1] == str(theirs.dtype).split(".")[-1], where
        a, b = array(mine), array(theirs)
        assert a.shape == b.shape, f"{where}: {a.shape} and {b.shape}"
        if a.dtype.kind in "fc" and a.size:
            finite = numpy.isfinite(b)
            assert (numpy.isfinite(a) == finite).all(), f"{where}: infinities or NaNs differ"
            assert numpy.array_equal(a[~finite], b[~finite], equal_nan=True), where
            scale = max(1e-3, float(numpy.abs(b[finite]).max(initial=0)))
            worst = float(numpy.abs(a[finite] - b[finite]).max(initial=0))
            assert worst <= tolerance * scale, f"{where}: differs by {worst} of {scale}"
        else:
            assert (a == b).all(), where
    elif isinstance(theirs, (list, tuple)):
        assert len(mine) == len(theirs), f"{where}: {len(mine)} and {len(theirs)} items"
        for i, (a, b) in enumerate(zip(mine, theirs)):
            same(a, b, tolerance, f"{where}[{i}]")
    elif isinstance(theirs, dict):
        assert list(mine) == list(theirs), where
        for key in theirs:
            same(mine[key], theirs[key], tolerance, f"{where}[{key!r}]")
    else:
        assert mine == theirs, f"{where}: {mine!r} and {theirs!r}"


def bits(mine, theirs, where):
    """Asserts that two tensors are equal bit for bit; normal numbers may differ in the last place."""
    a, b = array(mine), array(theirs)
    assert str(mine.dtype).split(".")[-1] == str(theirs.dtype).split(".")[-1] and a.shape == b.shape, where
    if not numpy.array_equal(a, b):
        numpy.testing.assert_array_max_ulp(a, b, maxulp=1)


def ops(graph):
    """The ops of one of PyTorch's graphs by name, without the questions about sizes."""
    names = []
    for node in graph.nodes:
        if node.op != "call_function":
            continue
        name = str(node.target)
        if (name.startswith("aten.") and not name.startswith("aten.sym_")
            and name != "aten._assert_tensor_metadata.default"):
            names.append(name)
    return names
