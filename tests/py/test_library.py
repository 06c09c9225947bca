"""O12: operators of one's own: schema, fake rule, implementation, recording, export, archives, decomposition, and what
is refused."""
import gc
import subprocess
import sys
from typing import List, Optional, Sequence, Tuple, Union  # noqa: UP035 - as users write them

import pytest

import cresset
import cresset.export
import cresset.library as library
from cresset import Tensor, nn

ops = cresset.ops


@library.custom_op("tests::scaled", mutates_args=())
def scaled(x: Tensor, factor: float, *, shift: int = 0) -> Tensor:
    return x * factor + shift


@scaled.register_fake
def _(x, factor, *, shift=0):
    return cresset.empty_like(x)


@library.custom_op("tests::counted", mutates_args={"count"})
def counted(x: Tensor, count: Tensor) -> Tensor:
    count.add_(1)
    return x + count


counted.register_fake(lambda x, count: cresset.empty_like(x))


@library.custom_op("tests::parts", mutates_args=())
def parts(xs: List[Tensor], which: Optional[Tensor] = None) -> Tuple[Tensor, Tensor]:  # noqa: UP006, UP007, UP045
    return cresset.cat(xs), (xs[0] if which is None else which).clone()


parts.register_fake(lambda xs, which=None: (cresset.cat(xs), cresset.empty_like(xs[0] if which is None else which)))


def graph_ops(ep):
    return [node["target"] for node in ep._program.graph.nodes if node["kind"] == "call"]


# ---- schemas ----

def test_schemas_from_annotations():
    def f(x: Tensor, xs: Sequence[Tensor], o: Optional[Tensor], n: int, ns: List[int], s: Union[int, float],
          t: str = "a", b: bool = True, *, k: Optional[int] = None) -> Tensor:  # noqa: UP006, UP007, UP045
        pass
    assert library.infer_schema(f, mutates_args=()) == (
        '(Tensor x, Tensor[] xs, Tensor? o, SymInt n, SymInt[] ns, Scalar s, str t="a", bool b=True, *, '
        'SymInt? k=None) -> Tensor')
    assert library.infer_schema(f, mutates_args="unknown",
            op_name="a::b").startswith("a::b(Tensor(a0!) x, Tensor(a1!)[] xs, Tensor(a2!)? o, SymInt n")

    def g(x: Tensor | None, y: "Tensor") -> None:
        pass
    assert library.infer_schema(g, mutates_args={"y"}) == "(Tensor? x, Tensor(a0!) y) -> ()"

    def h(x: Tensor) -> Tuple[Tensor, int]:  # noqa: UP006
        pass
    assert library.infer_schema(h, mutates_args=()) == "(Tensor x) -> (Tensor, SymInt)"


def no_annotation(x) -> Tensor: ...
def no_return(x: Tensor): ...
def bad_type(x: dict) -> Tensor: ...
def bad_return(x: Tensor) -> dict: ...
def varargs(*xs: Tensor) -> Tensor: ...
def bad_default(x: Tensor, n: List[int] = (1,)) -> Tensor: ...  # noqa: UP006
def fine(x: Tensor) -> Tensor: ...


@pytest.mark.parametrize("function, mutates, says", [
    (no_annotation, (), "'x' needs a type annotation"), (no_return, (), "needs a return annotation"),
    (bad_type, (), "'x' has the type <class 'dict'>"),
    (bad_return, (), "returns <class 'dict'>"), (varargs, (), "'xs' is positional-only"),
    (bad_default, (), "default of type tuple"), (fine, {"y"}, "mutates_args names 'y'"),
])
def test_what_has_no_schema(function, mutates, says):
    with pytest.raises(ValueError, match="infer_schema") as error:
        library.infer_schema(function, mutates_args=mutates)
    assert says in str(error.value)


# ---- calls ----

def test_it_is_an_op_like_others():
    x = cresset.ones(3)
    assert scaled(x, 2.0).tolist() == ops.tests.scaled(x, 2.0).tolist() == ops.tests.scaled.default(x,
            factor=2.0).tolist() == [2.0] * 3
    assert ops.tests.scaled(x, 2, shift=1).tolist() == [3.0] * 3
    assert (ops.tests.scaled.default._schema == "tests::scaled(Tensor x, float factor, *, SymInt shift=0) -> Tensor"
            and repr(scaled) == "<CustomOpDef(tests::scaled)>")
    joined, first = parts([x, x * 2])
    assert joined.tolist() == [1, 1, 1, 2, 2, 2] and first.tolist() == [1, 1, 1]
    assert parts([x], cresset.zeros(1))[1].tolist() == [0]


def test_what_a_schema_says_is_written_is():
    count = cresset.zeros(2)
    before = count._version
    assert counted(cresset.ones(2), count).tolist() == [2, 2] and count.tolist() == [1, 1] and count._version > before


def test_exceptions_of_the_implementation_come_through():
    @library.custom_op("tests::failing", mutates_args=())
    def failing(x: Tensor) -> Tensor:
        raise KeyError("of its own")
    with pytest.raises(KeyError, match="of its own"):
        failing(cresset.ones(1))


@pytest.mark.parametrize("result, says", [
    (lambda x: x, "shares memory with an argument"), (lambda x: x[:1], "shares memory"),
    (lambda x: 3, "must be a tensor"), (lambda x: None, "must be a tensor"),
    (lambda x: (x, x), "must be a tensor"), (lambda x: {}, "returned a dict"),
])
def test_results_that_are_refused(result, says):
    op = library.custom_op(f"tests::bad_{abs(hash(says + str(result.__code__.co_code)))}", result, mutates_args=(),
                           schema="(Tensor x) -> Tensor")
    with pytest.raises(RuntimeError, match=says):
        op(cresset.ones(2))


def test_wrong_arguments_name_the_schema():
    with pytest.raises((RuntimeError, TypeError), match="factor"):
        scaled(cresset.ones(1))
    with pytest.raises(AttributeError, match="tests::nothing"):
        ops.tests.nothing


def test_kernels_by_device():
    @library.custom_op("tests::elsewhere", mutates_args=(), device_types="cuda")
    def elsewhere(x: Tensor) -> Tensor:
        return x.clone()
    with pytest.raises(NotImplementedError,
                       match="tests::elsewhere has no implementation for tensors of the CPU .*cuda"):
        elsewhere(cresset.ones(1))
    elsewhere.register_kernel("cpu")(lambda x: x * 5)
    assert elsewhere(cresset.ones(1)).item() == 5


def test_defined_twice():
    library.custom_op("tests::twice", lambda x: x + 1, mutates_args=(), schema="(Tensor x) -> Tensor")
    again = library.custom_op("tests::twice", lambda x: x + 2, mutates_args=(), schema="(Tensor x) -> Tensor")
    assert again(cresset.zeros(1)).item() == 2
    with pytest.raises(RuntimeError, match="with another schema"):
        library.custom_op("tests::twice", lambda x: x, mutates_args=(), schema="(Tensor x, int n) -> Tensor")


@pytest.mark.parametrize("name", ["plain", "a::b::c", "::x", "a::", "a b::c"])
def test_names_that_are_refused(name):
    with pytest.raises(ValueError, match="namespace::name"):
        library.custom_op(name, lambda x: x, mutates_args=(), schema="(Tensor x) -> Tensor")


def test_namespaces_that_are_taken():
    with pytest.raises(ValueError, match="aten"):
        library.custom_op("aten::mine", lambda x: x, mutates_args=(), schema="(Tensor x) -> Tensor")


# ---- Library ----

def test_a_library_defines_and_implements():
    mine = library.Library("tests_lib", "DEF")
    assert mine.define("tripled(Tensor x) -> Tensor") == "tripled"
    with pytest.raises(NotImplementedError, match="has no implementation"):
        ops.tests_lib.tripled(cresset.ones(1))
    mine.impl("tripled", lambda x: x * 3, "CPU")
    assert ops.tests_lib.tripled(cresset.ones(1)).item() == 3
    with pytest.raises(RuntimeError, match="no fake rule"):
        cresset.record(lambda x: ops.tests_lib.tripled(x), (cresset.ones(1),))
    mine.impl(ops.tests_lib.tripled.default, lambda x: cresset.empty_like(x), "Meta")
    assert "tests_lib.tripled" in str(cresset.record(lambda x: ops.tests_lib.tripled(x), (cresset.ones(1),)))
    more = library.Library("tests_lib", "FRAGMENT")
    more.define("whole(Tensor x) -> Tensor")
    more.impl("whole", lambda x: x.sum() + x, "CompositeImplicitAutograd")
    assert "tests_lib.whole" in str(cresset.record(lambda x: ops.tests_lib.whole(x), (cresset.ones(2),)))
    library.define("tests_lib::added", "(Tensor x, int n) -> Tensor")
    library.impl("tests_lib::added", "default")(lambda x, n: x + n)
    library.register_fake("tests_lib::added", lambda x, n: cresset.empty_like(x))
    assert ops.tests_lib.added(cresset.ones(1), 4).item() == 5


def test_what_a_library_refuses():
    library.Library("tests_once", "DEF")
    with pytest.raises(RuntimeError, match="has a library of kind 'DEF' already; use 'FRAGMENT'"):
        library.Library("tests_once", "DEF")
    with pytest.raises(RuntimeError, match="'aten' has a library"):
        library.Library("aten", "DEF")
    with pytest.raises(ValueError, match="not 'X'"):
        library.Library("tests_other", "X")
    fragment = library.Library("tests_once", "FRAGMENT")
    fragment.define("one(Tensor x) -> Tensor")
    with pytest.raises(RuntimeError, match="tests_once::one is defined already"):
        fragment.define("one(Tensor x) -> Tensor")
    with pytest.raises(RuntimeError, match="name without a schema"):
        fragment.define("two")
    with pytest.raises(ValueError, match="expected"):
        fragment.define("three(Tensor x")
    with pytest.raises(RuntimeError, match="there is no custom operator tests_once::four"):
        fragment.impl("four", lambda x: x)
    with pytest.raises(ValueError, match="no dispatch key 'XLA'"):
        fragment.impl("one", lambda x: x, "XLA")
    with pytest.raises(RuntimeError, match="there is no custom operator"):
        library.register_fake("tests_once::five", lambda x: x)


# ---- recording, export, archives ----

def test_one_node_with_symbolic_sizes():
    graph = cresset.record(lambda x: scaled(x, 2.0, shift=1) + 1, (cresset.ones(3),), dynamic=((0,),))
    assert "tests.scaled(%x, 2.0, shift=1)" in str(graph)
    assert graph.run(cresset.ones(5)).tolist() == [4.0] * 5
    assert cresset.Graph.parse(str(graph)) == graph


def test_without_a_fake_rule_recording_says_what_to_write():
    op = library.custom_op("tests::unruled", lambda x: x + 1, mutates_args=(), schema="(Tensor x) -> Tensor")
    with pytest.raises(RuntimeError, match=r"tests::unruled has no fake rule.*@unruled.register_fake"):
        cresset.record(lambda x: op(x), (cresset.ones(1),))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", cresset.zeros(2))

    def forward(self, x):
        return scaled(counted(x, self.count), 2.0)


def test_exported_decomposed_and_run():
    ep = cresset.export.export(Model(), (cresset.ones(2),))
    assert graph_ops(ep) == ["tests.counted", "tests.scaled"]
    module = ep.module()
    assert [module(cresset.ones(2)).tolist() for _ in range(2)] == [[4.0, 4.0], [6.0, 6.0]]
    core = cresset.export.export(Model(), (cresset.ones(2),)).run_decompositions()
    # it writes a copy, which is the buffer's new value
    assert graph_ops(core) == ["aten.clone", "tests.counted", "tests.scaled"]
    assert [(spec.kind.name, spec.target) for spec in core.graph_signature.output_specs] == [("BUFFER_MUTATION",
            "count"), ("USER_OUTPUT", None)]
    core.validate()
    module = core.module()
    assert [module(cresset.ones(2)).tolist() for _ in range(2)] == [[4.0, 4.0], [6.0, 6.0]]
    plain = ep.run_decompositions({ops.tests.scaled.default: lambda x, factor, shift=0: x * factor + shift})
    assert "tests.scaled" not in graph_ops(plain) and "aten.mul.Tensor" in graph_ops(plain)


def test_archives_name_it(tmp_path):
    path = tmp_path / "m.pt2"
    cresset.export.save(cresset.export.export(Model(), (cresset.ones(2),)), path)
    loaded = cresset.export.load(path)
    assert loaded.unsupported_ops == [] and loaded.module()(cresset.ones(2)).tolist() == [4.0, 4.0]
    code = f"import cresset.export\nep = cresset.export.load({str(path)!r})\nprint(ep.unsupported_ops)\nep.module()"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert other.stdout == "['tests::counted', 'tests::scaled']\n" and "tests::scaled" in other.stderr.splitlines()[-1]


def test_native_code_calls_it():
    ep = cresset.export.export(Model(), (cresset.ones(2),))
    run = ep.compile(options={"wait": True})
    assert run.tier == "native" and run(cresset.ones(2)).tolist() == ep.module(own_state=True)(cresset.ones(2)).tolist()


def test_derivatives_are_kept():
    def backward(ctx, grad):
        return grad * ctx.factor, None
    scaled.register_autograd(backward, setup_context=lambda ctx, inputs, output: setattr(ctx, "factor", inputs[1]))
    entry = library._entries["tests::scaled"]
    assert entry.backward is backward
    with pytest.raises(RuntimeError, match="writes to its arguments"):
        counted.register_autograd(backward)


# ---- opcheck ----

def test_opcheck_finds_what_is_wrong():
    assert library.opcheck(scaled, (cresset.ones(2), 3.0)) == dict.fromkeys(("test_schema", "test_faketensor",
            "test_recording"), "SUCCESS")
    assert set(library.opcheck(counted, (cresset.ones(2), cresset.zeros(2))).values()) == {"SUCCESS"}

    @library.custom_op("tests::liar", mutates_args=())
    def liar(x: Tensor) -> Tensor:
        x.add_(1)
        return x.sum()
    liar.register_fake(lambda x: cresset.empty_like(x))
    with pytest.raises(library.OpCheckError, match="tests::liar.*test_schema failed.*'Tensor x' was changed"):
        library.opcheck(liar, (cresset.ones(2),))
    found = library.opcheck(liar, (cresset.ones(2),), raise_exception=False)
    assert "the fake rule gives the shape" in found["test_faketensor"]


def test_nothing_is_leaked():
    gc.collect()
    x = cresset.ones(1000)
    for _ in range(50):
        scaled(x, 2.0)
    count = sys.getrefcount(x)
    for _ in range(50):
        scaled(x, 2.0)
    assert sys.getrefcount(x) == count


def test_library_declares_an_operator_that_the_table_has():
    """Hugging Face's library registers the operator that its archives name: the table's row goes on carrying it out."""
    schema = "(Tensor input, Tensor weight, Tensor offs) -> Tensor"
    made = library.custom_op("transformers::grouped_mm_fallback", lambda input, weight, offs: None, mutates_args=(),
                             schema=schema)
    library.register_fake("transformers::grouped_mm_fallback", lambda input, weight, offs: None)
    x, w = cresset.randn(3, 2), cresset.randn(2, 2, 4)
    found = made(x, w, cresset.tensor([1, 3], dtype=cresset.int32))
    assert cresset.allclose(found, cresset.cat([x[:1] @ w[0], x[1:] @ w[1]]))
    with pytest.raises(RuntimeError, match="with another schema"):
        library.custom_op("transformers::grouped_mm_fallback", lambda x: x, mutates_args=(),
                          schema="(Tensor x) -> Tensor")
