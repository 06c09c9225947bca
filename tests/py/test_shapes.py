"""S4, X3: the dynamic_shapes language, and the fakes that follow from it."""
import math

import pytest

import cresset as torch
from cresset import _C
from cresset._dynamo.exc import UserError, UserErrorType
from cresset.export import Dim, _shapes, dims


def settle(f, args, dynamic_shapes, kwargs=None):
    mode = _C.FakeTensorMode()
    plan = _shapes.plan(f, args, kwargs or {}, dynamic_shapes)
    fake_args, fake_kwargs = plan.fakes(mode)
    with mode:
        f(*fake_args, **fake_kwargs)
    return fake_args, fake_kwargs, plan.settle(mode)


def test_symbols_have_the_names_pytorch_gives_them():
    x, y = torch.randn(4, 6), torch.randn(8, 6)
    d = Dim("d")
    (a, b), _, settled = settle(lambda x, y: (x.sum(), y.sum()), (x, y), {"x": {0: d}, "y": {0: 2 * d}})
    assert [repr(size) for size in (*a.shape, *b.shape)] == ["s77", "6", "2*s77", "6"]
    assert settled.ranges == {"s77": (0, math.inf), "2*s77": (0, math.inf)}
    assert settled.replacements == {"s17": "2*s77"}


def test_the_same_tensor_is_the_same_fake():
    x = torch.randn(4, 6)
    (a, b), _, _ = settle(lambda x, y: x + y, (x, x), {"x": {0: Dim.AUTO}, "y": {0: Dim.AUTO}})
    assert a is b


def test_int_inputs_may_vary():
    x = torch.randn(4)
    (a, n), _, settled = settle(lambda x, n: x + n, (x, 3), (None, Dim.DYNAMIC))
    assert isinstance(n, torch.SymInt) and repr(n) == "s86"
    (a, n), _, settled = settle(lambda x, n: x + n, (x, 3), None)
    assert n == 3 and settled.ranges == {}


def test_dims_and_their_arithmetic():
    batch, length = dims("batch", "length", min=2, max=8)
    assert repr(batch) == "Dim('batch', max=8)" and repr(2 * length + 1) == "2*length + 1"
    assert (2 * length + 1).min == 5 and (2 * length + 1).max == 17
    assert repr(Dim.AUTO(min=3)) == "DimHint(AUTO, min=3)"
    for wrong in (lambda: batch * 0, lambda: batch * length, lambda: 3 - batch, lambda: batch + 1.5):
        with pytest.raises(NotImplementedError, match="positive integer times a Dim plus an integer"):
            wrong()
    with pytest.raises(AssertionError, match="identifier"):
        Dim("a b")
    with pytest.raises(AssertionError, match="min=5 is larger than max=3"):
        Dim("a", min=5, max=3)
    with pytest.raises(AssertionError, match=r"Dim\('a', min=1\)"):
        (Dim("a") - 1).min


X = torch.randn(4, 6)
WRONG = [
    ((X,), {"z": None}, UserErrorType.INVALID_INPUT, r"no argument 'z'; an entry for 'x' is missing"),
    ((X,), {"x": {2: Dim("b")}}, UserErrorType.INVALID_INPUT, r"\['x'\] has an entry for dimension 2; the tensor has 2 "
     r"dimensions"),
    ((X,), {"x": (Dim("b"),)}, UserErrorType.INVALID_INPUT, r"has 1 entries for a tensor of 2 dimensions"),
    ((X,), {"x": Dim.AUTO}, UserErrorType.INVALID_INPUT, r"\['x'\] is DimHint\(AUTO\); expected a dict"),
    ((X,), {"x": {0: "b"}}, UserErrorType.INVALID_INPUT, r"\['x'\]\[0\] is 'b'; a size is a Dim"),
    ((X,), ({0: Dim("b")}, None), UserErrorType.INVALID_INPUT, r"1 inputs \(x\), dynamic_shapes has 2 entries"),
    (([X, X],), {"x": [None]}, UserErrorType.INVALID_INPUT,
     r"inputs\['x'\] has 2 elements, dynamic_shapes\['x'\] has 1"),
    (([X],), {"x": (None,)}, UserErrorType.INVALID_INPUT, r"inputs\['x'\] is a list, dynamic_shapes\['x'\] is a tuple"),
    (({"a": X},), {"x": {"b": None}}, UserErrorType.INVALID_INPUT, r"has the keys \['a'\], dynamic_shapes\['x'\] has "
     r"\['b'\]"),
    ((X,), {"x": {0: Dim("b", min=2), 1: Dim("b", min=3)}}, UserErrorType.INVALID_INPUT,
     r"'b' has two definitions: Dim\('b'\) and Dim\('b', min=3\)"),
    ((3.5,), {"x": Dim.AUTO}, UserErrorType.INVALID_INPUT, r"inputs\['x'\] is of type float, which has no sizes"),
    ((X,), 3, UserErrorType.INVALID_INPUT, r"a dict by argument name, or a tuple or list by position, not int"),
    ((X,), {"x": {0: Dim("b", min=5)}}, UserErrorType.CONSTRAINT_VIOLATION,
     r"inputs\['x'\].shape\[0\] is 4 in the example input, .* bounds 5\.\.inf of b"),
    ((X,), {"x": {0: 5}}, UserErrorType.CONSTRAINT_VIOLATION, r"inputs\['x'\].shape\[0\] is always 5; the example "
     r"input has 4"),
    ((X,), {"x": {0: 3 * Dim("b")}}, UserErrorType.CONSTRAINT_VIOLATION, r"not of the form 3\*b for any integer b"),
    ((X,), {"x": {0: Dim("b"), 1: Dim("b")}}, UserErrorType.CONSTRAINT_VIOLATION,
     r"is 6 and inputs\['x'\].shape\[0\] is 4 .* of one b"),
]


@pytest.mark.parametrize("args,spec,kind,text", WRONG, ids=range(len(WRONG)))
def test_wrong_specifications(args, spec, kind, text):
    with pytest.raises(UserError, match=text) as error:
        settle(lambda x: x, args, spec)
    assert error.value.error_type is kind


# ---- what the program asks about its inputs: S2, S3, S5 ----

def record(f, args, dynamic_shapes=None):
    mode = _C.FakeTensorMode()
    plan = _shapes.plan(f, args, {}, dynamic_shapes)
    fake_args, _ = plan.fakes(mode)
    _C.record(f, fake_args)
    return plan.settle(mode)


def test_a_violation_names_the_line_and_the_fix():
    def f(x, y):
        if x.shape[0] > 3:
            return x + 1
        return x

    with pytest.raises(UserError) as error:
        record(f, (X, X.clone()), {"x": {0: Dim("batch")}, "y": None})
    assert error.value.error_type is UserErrorType.CONSTRAINT_VIOLATION
    text = error.value.msg
    assert ("Constraints violated (batch)!" in text and "batch = L['x'].size()[0]" in text
            and "the program needs at least 4" in text)
    assert "test_shapes.py" in text and "if x.shape[0] > 3:" in text
    assert text.endswith("Suggested fixes:\n  batch = Dim('batch', min=4)\n")


def test_a_relation_names_both_dimensions():
    with pytest.raises(UserError,
                       match=r"c = L\['y'\]\.size\(\)\[0\] is always 2\*b, where b = L\['x'\]\.size\(\)\[0\]") as error:
        record(lambda x, y: torch.cat([x, x]) + y, (torch.randn(4), torch.randn(8)),
               {"x": {0: Dim("b")}, "y": {0: Dim("c")}})
    assert "  c = 2*b\n" in error.value.msg


def test_bounds_of_hints_may_conflict():
    with pytest.raises(ValueError, match=r"the bounds 0\.\.3 in dynamic_shapes .* needs 4\.\.inf"):
        record(lambda x: x + 1 if x.shape[0] > 3 else x, (X,), {"x": {0: Dim.DYNAMIC(max=3)}})
    with pytest.raises(ValueError, match="sizes 0 and 1 never vary"):
        record(lambda x: x + 1, (torch.randn(1, 3),), {"x": {0: Dim.DYNAMIC}})
    with pytest.warns(UserWarning, match="so it stays 1"):
        record(lambda x: x + 1, (torch.randn(1, 3),), {"x": {0: Dim.AUTO}})


def test_guards_are_python():
    settled = record(lambda x: x + 1 if x.shape[0] % 2 == 0 and x.shape[0] < 3 * x.shape[1] else x, (X,),
                     {"x": {0: Dim.AUTO, 1: Dim.AUTO}})
    assert settled.guards == ["(L['x'].size()[0] % 2) == 0", "L['x'].size()[0] < (3*L['x'].size()[1])"]

    class Sized:
        def __init__(self, *sizes):
            self.sizes = sizes

        def size(self):
            return self.sizes
    assert all(eval(guard, {"L": {"x": Sized(4, 6)}}) for guard in settled.guards)
    assert not eval(settled.guards[0], {"L": {"x": Sized(3, 6)}})


def test_conditions_may_be_deferred():
    f = lambda x: x + 1 if x.shape[0] % 2 == 0 else x  # noqa: E731
    mode = _C.FakeTensorMode()
    plan = _shapes.plan(f, (X,), {}, {"x": {0: Dim("b")}})
    f(*plan.fakes(mode)[0])
    settled = plan.settle(mode, prefer_deferred_runtime_asserts_over_guards=True)
    assert [repr(condition) for condition in settled.asserts] == ["Eq(Mod(s77, 2), 0)"] and settled.guards == []
    assert settled.ranges == {"s77": (0, math.inf)}


def test_undecided_questions_say_what_to_do():
    def f(x, y):
        n = x.item()
        return y + 1 if n > 2 else y

    def g(x, y):
        z = y.nonzero()
        return y + 1 if z.shape[0] > 0 else y

    args = (torch.tensor([3]), torch.randn(8))
    with pytest.raises(torch.fx.experimental.symbolic_shapes.GuardOnDataDependentSymNode) as error:
        record(f, args)
    text = str(error.value)
    assert "cannot decide u0 >= 3" in text and "n = x.item()" in text and "return y + 1 if n > 2 else y" in text
    assert "_check(n >= 3) or _check(n <= 2)" in text
    with pytest.raises(RuntimeError, match=r"_check\(z\.shape\[0\] >= 1\)"):
        record(g, args)
    with pytest.raises(RuntimeError, match="no fixed value of u0"):
        record(lambda x, y: y + int(x.item()), args)


def test_checks_decide_questions():
    def f(x, y):
        n = x.item()
        torch._check(n > 2, lambda: "more than two")
        torch._check_is_size(n, max=y.shape[0])
        return y[:n] + 1 if n > 1 else y

    settled = record(f, (torch.tensor([3]), torch.randn(8)))
    assert settled.ranges == {"u0": (3, 8)}
    with pytest.raises(RuntimeError, match="this check fails: .*: never"):
        record(lambda x, y: torch._check(y.shape[0] > 20, lambda: "never"), (torch.tensor([3]), torch.randn(8)),
               {"x": None, "y": {0: Dim.AUTO}})
    for check, kind in ((torch._check, RuntimeError), (torch._check_value, ValueError),
                        (torch._check_index, IndexError), (torch._check_type, TypeError),
                        (torch._check_not_implemented, NotImplementedError)):
        with pytest.raises(kind, match="why"):
            check(False, lambda: "why")
        check(True)
    with pytest.raises(TypeError, match="about a bool"):
        torch._check(3)
    with pytest.raises(TypeError, match="a function that gives it"):
        torch._check(True, "text")
    torch._check_tensor_all(torch.tensor([True, True]))
    for kind, cond in ((RuntimeError, torch.tensor([True, False])), (TypeError, torch.tensor([1])), (TypeError, True)):
        with pytest.raises(kind):
            torch._check_tensor_all(cond)
    with pytest.raises(KeyError, match="why"):
        torch._check_tensor_all_with(KeyError, torch.tensor([False]), lambda: "why")
    with pytest.raises(KeyError, match="why"):
        torch._check_with(KeyError, False, lambda: "why")


def test_constrain_as_size_and_value():
    def f(x):
        n, m = x[0].item(), x[1].item()
        torch._constrain_as_size(n, 2, 8)
        torch._constrain_as_value(m, -3, 5)
        return torch.ones(n) + m

    assert record(f, (torch.tensor([3, 4]),)).ranges == {"u0": (2, 8), "u1": (-3, 5)}
    with pytest.raises(ValueError, match="min=3 is larger"):
        torch._constrain_as_value(4, 3, 2)


def test_numbers_that_may_be_symbolic():
    from cresset._symbolic import symbolic_builtins
    assert torch.sym_max(3, 4) == 4 and torch.sym_int(3.7) == 3
    assert torch.sym_not(True) is False and torch.sym_ite(True, 1, 2) == 1
    assert repr(torch.sym_min(2, 3.0)) == "2.0" and torch.sym_float(3) == 3.0
    assert torch.sym_sum([1, 2]) == 3 and torch.sym_sqrt(4) == 2.0
    seen = []

    def f(x):
        n, m = x.shape
        seen.extend(map(repr, (torch.sym_max(n, m), torch.sym_min(n, 3), torch.sym_not(n > 5),
                               torch.sym_ite(n > m, n, m), abs(n - m), n.node.expr)))
        with symbolic_builtins():
            seen.extend(map(repr, (max(n, m), min(n, m, 3), max(1, 2), max([n, 4]))))
        return x

    assert record(f, (X,), {"x": {0: Dim.AUTO, 1: Dim.AUTO}}).guards == []
    assert seen == ["Max(s27, s77)", "Min(3, s77)", "s77 <= 5", "Where(s27 < s77, s77, s27)",
                    "Max(-s27 + s77, s27 - s77)", "s77", "Max(s27, s77)",
                    "Min(3, s27, s77)", "2", "Max(4, s77)"]


def test_asking_without_deciding():
    from cresset.fx.experimental.symbolic_shapes import (guard_or_false, guard_or_true, guard_size_oblivious,
                                                         statically_known_true)
    answers = []

    def f(x, y):
        n = x.item()
        z = y.nonzero().shape[0]
        answers.append((guard_or_false(n == 3), guard_or_true(n == 3), statically_known_true(n == 3),
                        guard_size_oblivious(z == 1), guard_size_oblivious(z >= 2),
                        statically_known_true(y.shape[0] > 1), statically_known_true(y.shape[0] > 3),
                        guard_or_false(y.shape[0] > 3)))
        return y

    settled = record(f, (torch.tensor([3]), torch.randn(8)), {"x": None, "y": {0: Dim.AUTO}})
    assert answers == [(False, True, False, False, True, True, False, True)]
    assert settled.guards == ["L['y'].size()[0] >= 4"]


def test_collections_give_specifications():
    from cresset.export import AdditionalInputs, ShapesCollection
    x, y = torch.randn(4, 6), torch.randn(4, 6)
    shapes = ShapesCollection()
    shapes[x] = {0: Dim("b")}
    shapes[y][0] = Dim.AUTO
    found = shapes.dynamic_shapes(lambda x, rest: x, (x, [y]))
    assert repr(found) == "{'x': {0: Dim('b', min=0)}, 'rest': [{0: DimHint(AUTO)}]}"
    with pytest.raises(ValueError, match="1 tensors that were given sizes are not among the inputs"):
        shapes.dynamic_shapes(lambda x: x, (x,))
    more = AdditionalInputs()
    more.add((torch.randn(5, 6), 3))
    assert repr(more.dynamic_shapes(lambda x, n: x, (x, 2))) == "{'x': (DimHint(DYNAMIC), None), 'n': DimHint(DYNAMIC)}"
    assert record(lambda x, n: x + n, (x, 2), more).ranges == {"s77": (2, math.inf), "s86": (0, math.inf)}
    with pytest.raises(AssertionError, match="a tuple"):
        more.add([x])


def test_refining_by_suggested_fixes():
    from cresset.export.dynamic_shapes import refine_dynamic_shapes_from_suggested_fixes as refine
    text = "...Suggested fixes:\n  b = Dim('b', min=3, max=9)\n  c = 2*b + 1\n  d = 4\n\nmore"
    b, c, d = dims("b", "c", "d")
    found = refine(text, {"x": {0: b, 1: c}, "y": [{0: d}, (2 * b, None)]})
    assert repr(found) == "{'x': {0: Dim('b', min=3, max=9), 1: 2*b + 1}, 'y': [{0: 4}, (2*b, None)]}"
    assert found["x"][1].root is found["x"][0]
    with pytest.raises(UserError, match="no part 'Suggested fixes:'"):
        refine("nothing", {})
    with pytest.raises(UserError, match="for 'b', which is no dimension"):
        refine("Suggested fixes:\n  b = 3", {"x": None})


def test_duck_sizes_and_zero_one():
    x, y = torch.zeros(4, 4, 1), torch.zeros(4, 0)

    def sizes(**options):
        mode = _C.FakeTensorMode(**options)
        return [list(map(repr, mode.from_tensor(t, range(t.dim())).shape)) for t in (x, y)]

    assert sizes() == [["s0", "s1", "s2"], ["s3", "s4"]]
    assert sizes(duck_sizes=True) == [["s0", "s0", "s1"], ["s0", "s2"]]
    assert sizes(specialize_zero_one=True) == [["s0", "s1", "1"], ["s2", "0"]]
    assert sizes(duck_sizes=True, specialize_zero_one=True) == [["s0", "s0", "1"], ["s0", "0"]]


def test_a_root_that_is_no_input_is_read_off_a_derived_size():
    def f(x, y):
        return x + 1 if x.shape[0] % 3 == 2 else x

    b = Dim("b")
    with pytest.raises(UserError,
                       match=r"\(\(L\['x'\]\.size\(\)\[0\] // 2\) % 3|\(2\*\(L\['x'\]\.size\(\)\[0\] // 2\)"):
        record(f, (torch.zeros(8), torch.zeros(13)), {"x": {0: 2 * b}, "y": {0: 3 * b + 1}})
    settled = record(lambda x, y: x + y[1:] if x.shape[0] * 3 > -7 else x, (torch.zeros(8), torch.zeros(9)),
                     {"x": {0: 2 * b}, "y": {0: 2 * b + 1}})
    assert settled.guards == []     # what derived sizes are to each other, the sizes say


def test_additional_inputs_are_checked():
    from cresset.export import AdditionalInputs, export

    class Program(torch.nn.Module):
        def forward(self, x):
            return x * 2 if x.shape[0] > 3 else x

    x = torch.zeros(4, 6)
    more = AdditionalInputs()
    more.add((torch.zeros(5, 6),))
    assert repr(export(Program(), (x,), dynamic_shapes=more).range_constraints) == "{s77: VR[4, int_oo]}"
    more.add((torch.zeros(3, 6),))
    with pytest.raises((RuntimeError, ValueError, AssertionError)):
        export(Program(), (x,), dynamic_shapes=more)


def test_compiled_code_checks_what_rules_assumed(tmp_path):
    """A rule that assumed that a size is not 1 must not give another answer where it is."""
    from cresset.export import export, load, save

    class Program(torch.nn.Module):
        def forward(self, x):
            return x[x > 3].squeeze(0) * 2

    ep = export(Program(), (torch.arange(10.0),))
    save(ep, tmp_path / "program.pt2")
    for program in (ep, load(tmp_path / "program.pt2")):
        compiled = torch.aot_load(torch.aot_compile(program))
        assert compiled(torch.arange(10.0)).tolist() == [8, 10, 12, 14, 16, 18]
        with pytest.raises(RuntimeError, match=r"must fulfil Ne\(u0, 1\)"):
            compiled(torch.tensor([0.0] * 9 + [9.0]))


class Halves(torch.nn.Module):
    def forward(self, x):
        return x.chunk(2)[0] * 2


def test_a_batch_of_one_runs_where_the_dim_allows_it():
    """X3: the example had two rows, and Dim says from one on."""
    ep = torch.export.export(torch.nn.Linear(3, 2), (torch.ones(2, 3),),
                             dynamic_shapes=({0: torch.export.Dim("batch", min=1, max=9)},))
    assert [ep.module()(torch.ones(n, 3)).shape[0] for n in (1, 2, 9)] == [1, 2, 9]
    with pytest.raises(RuntimeError, match=r"input.*is 10, expected .* in \[0, 9\]"):
        ep.module()(torch.ones(10, 3))


def test_a_condition_that_holds_at_every_value_is_no_violation():
    """S5: chunk asks something that no rule proves; between 2 and 40 it holds throughout."""
    ep = torch.export.export(Halves(), (torch.ones(7, 3),),
                             dynamic_shapes={"x": {0: torch.export.Dim("rows", min=2, max=40)}})
    assert [ep.module()(torch.ones(n, 3)).shape[0] for n in (2, 7, 40)] == [1, 4, 20]


# ---- marks on tensors ----

class Adds(torch.nn.Module):
    def forward(self, x):
        return x + 1


class Branches(torch.nn.Module):
    def forward(self, x):
        return x + 1 if x.shape[0] > 3 else x


class Fixes(torch.nn.Module):
    def forward(self, x):
        return x + 1 if x.shape[0] == 4 else x


MARKS = {
    "dynamic": lambda d, x: d.mark_dynamic(x, 0),
    "dynamic_both": lambda d, x: d.mark_dynamic(x, [0, 1]),
    "maybe": lambda d, x: d.maybe_mark_dynamic(x, 0),
    "static": lambda d, x: d.mark_static(x, 0),
    "static_then_dynamic": lambda d, x: (d.mark_static(x), d.mark_dynamic(x, 1)),
    "unbacked": lambda d, x: d.mark_unbacked(x, 0),
}
SPECS = {"none": lambda D: None, "auto": lambda D: ({0: D.AUTO},), "static": lambda D: ({0: D.STATIC},),
         "other": lambda D: ({1: D.AUTO},)}


def marked(library, module, mark, spec):
    """The sizes that the export of a marked tensor keeps open, or the kind of error."""
    import importlib
    import warnings
    x = library.zeros(4, 6)
    dynamo = importlib.import_module(f"{library.__name__}._dynamo")
    if mark != "unbacked":
        MARKS[mark](dynamo, x)
    else:
        MARKS[mark](importlib.import_module(f"{library.__name__}._dynamo.decorators"), x)
    Program = type("Program", (library.nn.Module,), {"forward": module.forward})
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ep = library.export.export(Program(), (x,), dynamic_shapes=SPECS[spec](library.export.Dim), strict=False)
    except Exception as error:
        return [type(error).__name__]
    value = next(node.meta["val"] for node in ep.graph.nodes if node.op == "placeholder")
    return [str(size) for size in value.shape]


@pytest.mark.parametrize("module", [Adds, Branches, Fixes])
@pytest.mark.parametrize("spec", list(SPECS))
@pytest.mark.parametrize("mark", list(MARKS))
def test_marks_are_honoured_as_pytorch_does(module, mark, spec, oracle):
    assert marked(torch, module, mark, spec) == oracle("sizes", lambda live: marked(live, module, mark, spec),
                                                       stored=True)


def test_the_bounds_of_a_mark_count():
    x = torch.zeros(4, 6)
    torch._dynamo.mark_dynamic(x, 0, min=3, max=9)
    ep = torch.export.export(Adds(), (x,))
    assert [(r.lower, r.upper) for r in ep.range_constraints.values()] == [(3, 9)]
    with pytest.raises(IndexError, match="dimensions 0 to 1; 2 is none"):
        torch._dynamo.mark_dynamic(x, 2)
    with pytest.raises(TypeError, match="takes a Tensor, not int"):
        torch._dynamo.mark_static(3)


# ---- suggestions that can be pasted ----

def suggested(f, sizes, names):
    """The names after the fixes are pasted: Python reads them from the top."""
    Program = type("Program", (torch.nn.Module,), {"forward": lambda self, *xs: f(*xs)})
    Dim, args = torch.export.Dim, tuple(torch.zeros(n) for n in sizes)
    pasted = {"Dim": Dim, **{name: Dim(name) for name in names}}
    shapes = lambda: (tuple({0: pasted[name]} for name in names),)
    with pytest.raises(torch._dynamo.exc.UserError) as error:
        torch.export.export(Program(), args, dynamic_shapes=shapes())
    for line in str(error.value).partition("Suggested fixes:\n")[2].splitlines():
        exec(line.strip(), pasted)
    torch.export.export(Program(), args, dynamic_shapes=shapes())


def test_a_derived_dim_is_suggested_after_its_refined_root():
    suggested(lambda x, y: x + 1 if x.shape[0] == 2 * y.shape[0] and y.shape[0] > 3 else x, (10, 5), "ab")


def test_several_derived_dims_of_a_root_that_is_refined_to_even_numbers():
    def f(x, y, w):
        return x + 1 if x.shape[0] == y.shape[0] + 1 and y.shape[0] % 2 == 0 and w.shape[0] == 2 * y.shape[0] + 1 else x
    suggested(f, (7, 6, 13), "abc")


def undecided(forward):
    Program = type("Program", (torch.nn.Module,), {"forward": forward})
    with pytest.raises(torch._C.GuardOnDataDependentSymNode) as error:
        torch.export.export(Program(), (torch.tensor([5, 6]), torch.ones(3)))
    return str(error.value)


def test_a_check_names_the_variable_only_where_it_is_the_number():
    def named(self, k, x):
        n = k[0].item()
        return x + 1 if n > 2 else x

    def shifted(self, k, x):
        n = k[0].item() + 1
        return x + 1 if n > 2 else x

    def unnamed(self, k, x):
        return x + 1 if k[0].item() > k[1].item() else x
    assert "_check(n >= 3) or _check(n <= 2)" in undecided(named) and "where n is" not in undecided(named)
    text = undecided(shifted)
    assert ("_check(n >= 2) or _check(n <= 1)" in text
            and "where n is u0: give that number a name where it is made" in text)
    text = undecided(unnamed)
    assert "where n is u" in text and "where m is u" in text and "_check(u" not in text
