"""Thirteen ops through everything: they were chosen because each needs something that a simple design lacks.

    add.Tensor                 broadcasting, promotion, a keyword-only number
    add_.Tensor                a written argument: the value "after"
    where.self                 an argument of another dtype than the result
    sum.dim_IntList            optional lists, a dtype argument
    max.dim                    two results of different dtypes
    split_with_sizes           a list of results, all views
    reshape                    a view or a copy, which the sizes decide
    index_put_                 a list of optional tensors, and a write
    native_layer_norm          three results, symbolic sizes as arguments
    convolution                many arguments, sizes that are computed
    _native_batch_norm_legit   writes its running statistics without an underscore in its name
    nonzero                    a size that only data gives
    cond                       subgraphs

Each is bound, run, run fake, run symbolically, recorded, printed and parsed, and taken through JSON. The graph that the
recorder must make is written out beside each probe.
"""
import dataclasses
import json
import re

import cresset
import numpy
import pytest

from cresset import _C
from cresset._json import from_json, to_json


@dataclasses.dataclass
class Probe:
    name: str
    call: object        # call(t, *tensors): t is cresset, or torch where the oracle is asked
    inputs: object      # inputs(n): arrays whose dynamic dimensions have size n
    dynamic: tuple      # per input: which dimensions have that size
    graph: str          # what recording inputs(4) gives, symbolically


def floats(*size):
    return (numpy.arange(numpy.prod(size, dtype=int)).reshape(size) % 7 - 3).astype("float32") / 2


PROBES = [
    Probe("add.Tensor", lambda t, x, y: t.ops.aten.add.Tensor(x, y, alpha=2),
          lambda n: (floats(n, 3), numpy.arange(3, dtype="int64")), ({0: "n"}, None), """
graph(%x: f32[n, 3], %y: i64[3]) {
  symbol n in [2, inf] hint 4
  %add: f32[n, 3] = aten.add.Tensor(%x, %y, alpha=2)
  return %add
}
"""),
    Probe("add_.Tensor", lambda t, x, y: t.ops.aten.add_.Tensor(x, y),
          lambda n: (floats(n, 3), floats(3)), ({0: "n"}, None), """
graph(%x: f32[n, 3], %y: f32[3]) {
  symbol n in [2, inf] hint 4
  %add_: f32[n, 3] of %x, %x_1!: f32[n, 3] of %x = aten.add_.Tensor(%x, %y)
  return %x_1
}
"""),
    Probe("where.self", lambda t, x, y: t.ops.aten.where.self(x, y, y),
          lambda n: (floats(n, 3) > 0, floats(n, 3)), ({0: "n"}, {0: "n"}), """
graph(%x: b8[n, 3], %y: f32[n, 3]) {
  symbol n in [2, inf] hint 4
  %where: f32[n, 3] = aten.where.self(%x, %y, %y)
  return %where
}
"""),
    Probe("sum.dim_IntList", lambda t, x: t.ops.aten.sum.dim_IntList(x, [0, -1], True, dtype=t.float64),
          lambda n: (floats(2, n, 3),), ({1: "n"},), """
graph(%x: f32[2, n, 3]) {
  symbol n in [2, inf] hint 4
  %sum: f64[1, n, 1] = aten.sum.dim_IntList(%x, [0, -1], true, dtype=f64)
  return %sum
}
"""),
    Probe("max.dim", lambda t, x: tuple(t.ops.aten.max.dim(x, 1)),
          lambda n: (floats(n, 3),), ({0: "n"},), """
graph(%x: f32[n, 3]) {
  symbol n in [2, inf] hint 4
  %max: f32[n], %max_1: i64[n] = aten.max.dim(%x, 1)
  return %max, %max_1
}
"""),
    Probe("split_with_sizes", lambda t, x: tuple(t.ops.aten.split_with_sizes(x, [1, 2], 1)),
          lambda n: (floats(n, 3),), ({0: "n"},), """
graph(%x: f32[n, 3]) {
  symbol n in [2, inf] hint 4
  [%split_with_sizes, %split_with_sizes_1]: [f32[n, 1](3, 1) of %x, f32[n, 2](3, 1)+1 of %x] = aten.split_with_sizes(%x, [1, 2], 1)
  return %split_with_sizes, %split_with_sizes_1
}
"""),
    Probe("reshape", lambda t, x: t.ops.aten.reshape(x, [x.shape[0] * 3, 2]),
          lambda n: (floats(n, 6),), ({0: "n"},), """
graph(%x: f32[n, 6]) {
  symbol n in [2, inf] hint 4
  %sym_size: int{n} = aten.sym_size.int(%x, 0)
  %mul: int{3*n} = _operator.mul(3, %sym_size)
  %reshape: f32[3*n, 2] of %x = aten.reshape(%x, [%mul, 2])
  return %reshape
}
"""),
    Probe("index_put_", lambda t, x, i, v: t.ops.aten.index_put_(x, [None, i], v, True),
          lambda n: (floats(n, 3), numpy.array([0, 2, 0]), floats(n, 3)), ({0: "n"}, None, {0: "n"}), """
graph(%x: f32[n, 3], %i: i64[3], %v: f32[n, 3]) {
  symbol n in [2, inf] hint 4
  %index_put_: f32[n, 3] of %x, %x_1!: f32[n, 3] of %x = aten.index_put_(%x, [none, %i], %v, true)
  return %x_1
}
"""),
    Probe("native_layer_norm", lambda t, x, w, b: tuple(t.ops.aten.native_layer_norm(x, [x.shape[1]], w, b, 1e-5)),
          lambda n: (floats(3, n), floats(n), floats(n)), ({1: "n"}, {0: "n"}, {0: "n"}), """
graph(%x: f32[3, n], %w: f32[n], %b: f32[n]) {
  symbol n in [2, inf] hint 4
  %sym_size: int{n} = aten.sym_size.int(%x, 1)
  %native_layer_norm: f32[3, n], %native_layer_norm_1: f32[3, 1], %native_layer_norm_2: f32[3, 1] = \
aten.native_layer_norm(%x, [%sym_size], %w, %b, 1e-05)
  return %native_layer_norm, %native_layer_norm_1, %native_layer_norm_2
}
"""),
    Probe("convolution", lambda t, x, w, b: t.ops.aten.convolution(x, w, b, [2, 1], [1, 0], [1, 1], False, [0, 0], 1),
          lambda n: (floats(1, 2, n, 5), floats(3, 2, 2, 3), floats(3)), ({2: "n"}, None, None), """
graph(%x: f32[1, 2, n, 5], %w: f32[3, 2, 2, 3], %b: f32[3]) {
  symbol n in [2, inf] hint 4
  %convolution: f32[1, 3, n//2 + 1, 3] = aten.convolution(%x, %w, %b, [2, 1], [1, 0], [1, 1], false, [0, 0], 1)
  return %convolution
}
"""),
    Probe("_native_batch_norm_legit",
          lambda t, x, m, v: (*t.ops.aten._native_batch_norm_legit(x, None, None, m, v, True, 0.1, 1e-5), m, v),
          lambda n: (floats(n, 3, 2), floats(3), floats(3) + 2), ({0: "n"}, None, None), """
graph(%x: f32[n, 3, 2], %m: f32[3], %v: f32[3]) {
  symbol n in [2, inf] hint 4
  %_native_batch_norm_legit: f32[n, 3, 2], %_native_batch_norm_legit_1: f32[3], %_native_batch_norm_legit_2: f32[3], \
%m_1!: f32[3] of %m, %v_1!: f32[3] of %v = aten._native_batch_norm_legit(%x, none, none, %m, %v, true, 0.1, 1e-05)
  return %_native_batch_norm_legit, %_native_batch_norm_legit_1, %_native_batch_norm_legit_2, %m_1, %v_1
}
"""),
    Probe("nonzero", lambda t, x: t.ops.aten.nonzero(x),
          lambda n: (floats(n, 3),), ({0: "n"},), """
graph(%x: f32[n, 3]) {
  symbol n in [2, inf] hint 4
  symbol u0 in [0, inf]
  %nonzero: i64[u0, 2](1, Max(1, u0)) = aten.nonzero(%x)
  return %nonzero
}
"""),
    Probe("cond", lambda t, p, x: t.cond(p, lambda x: x + 1, lambda x: x * 2, (x,)) if t is cresset
          else (x + 1 if p else x * 2),
          lambda n: (numpy.array(n % 2 == 0), floats(n, 3)), (None, {0: "n"}), """
graph(%p: b8[], %x: f32[n, 3]) {
  symbol n in [2, inf] hint 4
  graph true_graph_0(%x: f32[n, 3]) {
    %add: f32[n, 3] = aten.add.Tensor(%x, 1)
    return %add
  }
  graph false_graph_0(%x: f32[n, 3]) {
    %mul: f32[n, 3] = aten.mul.Tensor(%x, 2)
    return %mul
  }
  %cond: f32[n, 3] = higher_order.cond(%p, @true_graph_0, @false_graph_0, [%x])
  return %cond
}
"""),
]
every_probe = pytest.mark.parametrize("probe", PROBES, ids=[probe.name for probe in PROBES])


def tensors(t, arrays):
    make = cresset.tensor if t is cresset else t.tensor
    return [make(array) for array in arrays]


def flat(result):
    return list(result) if isinstance(result, (tuple, list)) else [result]


def parameters(probe):
    """A function with as many named parameters as the probe, so that the recorder finds their names."""
    code = probe.call.__code__
    names = code.co_varnames[1:code.co_argcount]
    return eval(f"lambda {', '.join(names)}: call(cresset, {', '.join(names)})",
                {"call": probe.call, "cresset": cresset})


def record(probe, n, symbolic=True, fake=True):
    return _C.record(parameters(probe), tuple(tensors(cresset, probe.inputs(n))),
                     dynamic=probe.dynamic if symbolic else None, fake=fake)


def after(t, probe, n):
    """The results of a run, then its inputs as the run left them."""
    inputs = tensors(t, probe.inputs(n))
    return flat(probe.call(t, *inputs)) + inputs


def assert_same(ours, wanted):
    assert len(ours) == len(wanted)
    for mine, want in zip(ours, wanted):
        assert str(mine.dtype).removeprefix("cresset.") == want.dtype
        assert list(mine.shape) == want.shape and list(mine.stride()) == want.stride
        numpy.testing.assert_allclose(mine.numpy(), want.array, rtol=1.3e-6, atol=1e-5)


def assert_equal(ours, wanted):
    assert len(ours) == len(wanted)
    for mine, want in zip(ours, wanted):
        assert mine.dtype == want.dtype and mine.shape == want.shape and mine.stride() == want.stride()
        numpy.testing.assert_array_equal(mine.numpy(), want.numpy())


@every_probe
def test_bind(probe, oracle):
    """The schema is PyTorch's, and recording a call gives a node of that op with its arguments in the schema's
    order."""
    node = [n for n in record(probe, 4).nodes if n["kind"] == "call"][-1]
    if probe.name == "cond":
        assert node["target"] == "higher_order.cond"
        return
    assert node["target"] == "aten." + probe.name
    packet, _, overload = probe.name.partition(".")
    wanted = oracle("schema",
                    lambda torch: str(getattr(getattr(torch.ops.aten, packet), overload or "default")._schema))
    assert _C._schema("aten::" + probe.name) == wanted
    places = [re.search(rf" {a['name']}[=,)]", wanted).start() for a in node["args"]]
    assert places == sorted(places)


@every_probe
def test_eager(probe, oracle):
    assert_same(after(cresset, probe, 4), oracle("run", lambda torch: after(torch, probe, 4)))
    assert_same(after(cresset, probe, 5), oracle("another size", lambda torch: after(torch, probe, 5)))


@every_probe
def test_fake(probe):
    """Recorded on fakes and on real tensors it is the same graph: dtypes, sizes, strides, aliasing, writes."""
    if probe.name == "nonzero":  # but for the size that only data gives
        mode = cresset.FakeTensorMode()
        fake = cresset.ops.aten.nonzero(mode.from_tensor(cresset.tensor(floats(4, 3))))
        assert (str(fake.shape[0]) == "u0" and fake.shape[1] == 2 and fake.dtype == cresset.int64
                and cresset.is_fake(fake))
        with pytest.raises(cresset.GuardOnDataDependentSymNode, match="u0"):
            int(fake.shape[0])
        return
    on_fakes, on_real = record(probe, 4, symbolic=False), record(probe, 4, symbolic=False, fake=False)
    assert on_fakes.difference(on_real) is None


@every_probe
def test_symbolic(probe):
    """Recorded with a symbolic size, it computes what eager does at the recorded size and at others."""
    graph = record(probe, 4)
    assert str(graph) == probe.graph.lstrip("\n")
    for n in (4, 5, 9):
        inputs = tensors(cresset, probe.inputs(n))
        assert_equal(flat(graph.run(*inputs)) + inputs, after(cresset, probe, n))


@every_probe
def test_symbolic_run(probe):
    """A graph runs on fake tensors of another set of symbols, and gives their sizes."""
    mode = cresset.FakeTensorMode()
    specs = [d and {dim: "rows" for dim in d} for d in probe.dynamic]
    inputs = [mode.from_tensor(t, dynamic=d) for t, d in zip(tensors(cresset, probe.inputs(6)), specs)]
    results = flat(record(probe, 4).run(*inputs))
    assert all(cresset.is_fake(result) for result in results)
    wanted = after(cresset, probe, 6)
    for result, want in zip(results, wanted):
        assert result.dtype == want.dtype
        hints = [getattr(size, "hint", size) for size in result.shape]
        assert hints == [None if probe.name == "nonzero" and d == 0 else size for d, size in enumerate(want.shape)]


@every_probe
def test_record(probe):
    graph = record(probe, 4)
    graph.verify("metas")
    with pytest.raises((RuntimeError, TypeError), match="graph input"):
        graph.run(*(cresset.tensor(numpy.zeros((2, 2, 2, 2, 2), "float32")) for _ in probe.dynamic))


@every_probe
def test_text(probe):
    graph = record(probe, 4)
    parsed = cresset.Graph.parse(str(graph))
    assert graph.difference(parsed) is None and str(parsed) == str(graph)
    inputs = tensors(cresset, probe.inputs(5))
    assert_equal(flat(parsed.run(*inputs)) + inputs, after(cresset, probe, 5))


@every_probe
def test_json(probe):
    graph = record(probe, 4)
    text = json.dumps(to_json(graph))
    read = from_json(json.loads(text))
    assert graph.difference(read) is None
    assert json.dumps(to_json(read)) == text
