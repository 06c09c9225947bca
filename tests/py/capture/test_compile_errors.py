"""Error conditions of the lines E1-E12, O5, O7, O10-O12 and X1 that no other file provokes: class, facts, remedy.

The others are in test_compile_api.py (E1, E4-E6, E11, E12, O10, O11), test_dynamo_api.py (E4, E7, E8), test_modules.py
(E2), test_dynamic.py (E9), test_regions.py (O7: side effects), ../export/test_dynamo_export.py (E10),
../export/test_strict.py and ../export/test_export.py (X1), ../test_library.py (O12: registering)."""
import json
import subprocess
import sys
import time
import warnings

import pytest

import cresset
import cresset._dynamo as dynamo
from cresset import nn
from cresset._dynamo import exc
from cresset._higher_order import associative_scan, cond, map, scan, while_loop
from cresset.export import Dim, UserErrorType, export
from cresset.export._trace import patch_forward

pytestmark = pytest.mark.skipif(not dynamo.is_dynamo_supported(), reason="capture does not know this Python")
HERE = "test_compile_errors.py"
UNCAPTURED = exc.UncapturedHigherOrderOpError
PLAIN = ["without it, such calls run plain"]
ONE, OTHER = cresset.ones(3), [cresset.ones(1)]
kept_out = dynamo.disable(lambda x: x * 2, reason="it talks to a server")


@cresset.library.custom_op("compile_errors::unruled", mutates_args=())
def unruled(x: cresset.Tensor) -> cresset.Tensor:
    return x * 2


cresset.library.define("compile_errors::untagged", "(Tensor x) -> Tensor")
cresset.library.impl("compile_errors::untagged", "CompositeImplicitAutograd", lambda x: x * 2)


def strictly(call):
    with dynamo.config.patch(only_allow_pt2_compliant_ops=True):
        return call()


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x):
        return self.layer(x)


def add_one(x):
    return x + 1


def whole(f):
    return lambda: cresset.compile(f, backend="eager", fullgraph=True)(cresset.ones(2, 3))


def generates(x):
    yield x + 1


async def waits(x):
    return x + 1


def asks_the_clock(x):
    return x + time.time()


def calls(x):
    return asks_the_clock(x) * 2


def breaks(x):
    dynamo.graph_break("the queue is read")
    return x + 1


def formats(x):
    return x, f"{x.sum()}"


def switches(x):
    cresset.compiler.set_stance("default")
    return x + 1


def asks_of_data(graph, examples):
    raise cresset._C.GuardOnDataDependentSymNode("u0 == 3")


def skips(graph, examples):
    raise exc.SkipFrame("nothing to gain")


def choose(up, down, pred=lambda x: x.sum() > 0):
    return whole(lambda x: cond(pred(x), up, down, (x,)))


def repeat(test, body):
    return whole(lambda x: while_loop(test, body, (cresset.tensor(0), x)))


def exported(f, *args, **options):
    return lambda: dynamo.export(f, **options)(*args)


X = cresset.ones(2, 3)
# feature line, condition: (program, class, facts, remedy)
ERRORS = {
    "E1 options": (lambda: cresset.compile(add_one, options=3), TypeError, ["options", "int"], ["a dict of names"]),
    "E1 unknown option": (lambda: cresset.compile(add_one, options={"fast": 1}), RuntimeError, ["'fast'"],
                          ["there are 'cpp.threads', 'freeze', 'max_autotune', 'target', 'triton.cudagraphs', 'wait'"]),
    "E1 an option nearly": (lambda: cresset.compile(add_one, options={"max_autotun": True}), RuntimeError,
                            ["'max_autotun'"], ["did you mean 'max_autotune'?"]),
    "E1 an option's value": (lambda: cresset.compile(add_one, options={"max_autotune": 1}), RuntimeError,
                             ["'max_autotune'", "not 1"], ["a bool"]),
    "E1 a number of threads": (lambda: cresset.compile(add_one, options={"cpp.threads": 0}), RuntimeError,
                               ["'cpp.threads'", "not 0"], ["1 to 1024, or -1: all"]),
    "E1 options that contradict": (
        lambda: cresset.compile(add_one, options={"max_autotune": True, "cpp.threads": 2}), RuntimeError,
        ["'max_autotune'", "'cpp.threads'"], ["leave"]),
    "E1 a thread of one's own, and two": (
        lambda: cresset.compile(add_one, options={"triton.cudagraphs": True, "cpp.threads": 2}), RuntimeError,
        ["'triton.cudagraphs'", "'cpp.threads'"], ["leave one out"]),
    "E1 unknown mode": (lambda: cresset.compile(add_one, mode="fast"), RuntimeError, ["'fast'"],
                        ["'default', 'reduce-overhead', 'max-autotune-no-cudagraphs', 'max-autotune'"]),
    "E1 lite": (lambda: cresset.compile(add_one, mode="lite"), RuntimeError, ["'lite'"], ["backend='eager'"]),
    "E1 mode and options": (lambda: cresset.compile(add_one, mode="default", options={}), RuntimeError,
                            ["mode", "options"], ["not both"]),
    "E7 the limit of a code object": (lambda: setattr(dynamo.config, "accumulated_recompile_limit", 0), ValueError,
                                      ["accumulated_recompile_limit", "not 0"], ["1 or more"]),
    "E1 backend": (lambda: cresset.compile(add_one, backend=3), AssertionError, ["backend", "int"],
                   ["a name or a function"]),
    "E1 dynamic": (lambda: cresset.compile(add_one, dynamic="yes"), AssertionError, ["dynamic", "'yes'"],
                   ["True, False or None", "mark_dynamic()"]),
    "E1 no frame: a generator": (whole(generates), exc.Unsupported, [HERE, "in generates", "generator"], PLAIN),
    "E1 no frame: a coroutine": (whole(waits), exc.Unsupported, [HERE, "coroutine waits()"], PLAIN),
    "E1 no frame: a backend that skips": (
        lambda: cresset.compile(add_one, backend=skips, fullgraph=True)(X), RuntimeError,
        ["fullgraph=True", "'skips'", "nothing to gain"], ["give another backend, or leave fullgraph out"]),
    "E2 an attribute": (lambda: cresset.compile(Model(), backend="eager").nope, AttributeError, ["'Model'", "'nope'"],
                        []),
    "E2 a length": (lambda: len(cresset.compile(Model(), backend="eager")), TypeError, ["'Model'", "len()"], []),
    "E4 run": (lambda: dynamo.run(3), AssertionError, ["run()", "int"], ["takes a function"]),
    "E4 a stance in a captured function": (whole(switches), exc.Unsupported, [HERE, "in switches", "_set_stance()"],
                                           PLAIN),
    "E5 what optimize takes": (lambda: dynamo.optimize("eager")(3), AssertionError, ["int"],
                               ["takes a function, a module or a class"]),
    "E5 a hook": (lambda: dynamo.optimize_assert("eager", guard_fn=print), TypeError, ["'guard_fn'"], []),
    "E8 explain": (lambda: dynamo.explain(3)(X), AssertionError, ["int"], ["takes a function, a module or a class"]),
    "E9 no tensor": (lambda: dynamo.mark_static(3, 0), TypeError, ["mark_static()", "int"], ["takes a Tensor"]),
    "E9 a dimension": (lambda: dynamo.maybe_mark_dynamic(X, 2), IndexError, ["maybe_mark_dynamic()", "2"],
                       ["dimensions 0 to 1"]),
    "E9 a dimension by name": (lambda: dynamo.mark_unbacked(X, "rows"), IndexError, ["mark_unbacked()", "'rows'"],
                               ["dimensions 0 to 1"]),
    "E9 bounds": (lambda: dynamo.mark_dynamic(X, 0, min=5, max=2), ValueError, ["min=5", "max=2"], ["larger than"]),
    "E10 allowed inputs": (exported(lambda x, o: x, X, {"k": object()}), exc.UserError, ["o['k']", "builtins.object"],
                           ["tensors, symbolic numbers, int", "register_pytree_node()"]),
    "E10 tensors from elsewhere, all": (
        exported(lambda x: x + ONE + OTHER[0], X), exc.UserError, ["a tensor of [3]", "a tensor of [1]", HERE],
        ["pass each as an argument", "assume_constant_result"]),
    "E10 a name of dynamic_shapes": (exported(add_one, X, dynamic_shapes={"y": {0: Dim("n")}}), exc.UserError,
                                     ["'y'", "['x']"], ["an entry for 'x' is missing"]),
    "E10 too many arguments": (lambda: dynamo.export(add_one)(X).graph_module(X, X), TypeError,
                               ["takes x;", "2 are given"], []),
    "E10 other structure": (lambda: dynamo.export(lambda d: d["a"] + 1)({"a": X}).graph_module(X), TypeError,
                            ["structure", "dict, ['a']"], []),
    "O5 a call": (whole(asks_the_clock), exc.Unsupported, [HERE, "in asks_the_clock", "time() is called"], PLAIN),
    "O5 the user's stack": (whole(calls), exc.Unsupported,
                            [f"{HERE}:{asks_the_clock.__code__.co_firstlineno + 1} in asks_the_clock: time()",
                             f"{HERE}:{calls.__code__.co_firstlineno + 1} in calls"], ["called at", *PLAIN]),
    "O5 a branch on data": (whole(lambda x: x if x.sum() > 0 else -x), exc.Unsupported, [HERE, "branch", "data"],
                            ["cresset.cond(pred, a, b, operands)"]),
    "O5 a number of data": (whole(lambda x: x + int(x.sum())), exc.Unsupported, [HERE, "a number is read"],
                            ["keep it a tensor", "fullgraph=False"]),
    "O5 item()": (whole(lambda x: x * x.sum().item()), exc.Unsupported, [HERE, "'item'"], PLAIN),
    "O5 a size of data": (whole(lambda x: x.nonzero().shape[0]), exc.Unsupported,
                          [HERE, "a size depends on the data", "capture_dynamic_output_shape_ops"], PLAIN),
    "O5 formatting": (whole(formats), exc.Unsupported, [HERE, "in formats", "the text of"], PLAIN),
    "O5 with": (whole(lambda x: open(__file__).close() or x + 1), exc.Unsupported, [HERE, "open() is called"], PLAIN),
    "O5 graph_break": (whole(breaks), exc.Unsupported,
                       [HERE, "in breaks", "graph_break() is called: the queue is read"], PLAIN),
    "O5 a disabled function": (whole(lambda x: kept_out(x) + 1), exc.Unsupported,
                               [HERE, "<lambda>() is called, which disable()", "it talks to a server"], PLAIN),
    "O7 structure": (choose(lambda v: (v + 1,), lambda v: v - 1), UNCAPTURED,
                     ["UncapturedHigherOrderOpError", "cond()", "tuple", "Tensor"], ["the same structure"]),
    "O7 dtype": (choose(lambda v: v + 1, lambda v: v.long()), exc.TorchRuntimeError,
                 ["result 0", "f32[2, 3]", "i64[2, 3]"], ["make them alike"]),
    "O7 shape": (choose(lambda v: v + 1, lambda v: v.sum()), exc.TorchRuntimeError, ["result 0", "f32[2, 3]", "f32[]"],
                 ["make them alike"]),
    "O7 shared memory": (choose(lambda v: v, lambda v: v * 2), UNCAPTURED,
                         ["result 0 of true_fn", "shares memory"], ["Return .clone()"]),
    "O7 an input that is written": (choose(lambda v: v * 2, lambda v: v.add_(1) * 1), UNCAPTURED,
                                    ["false_fn changes its input", "add_"], ["functional form", ".clone()"]),
    "O7 no tensor": (choose(lambda v: "a", lambda v: "b"), UNCAPTURED, ["result 0 of true_fn is 'a'"],
                     ["Return a tensor"]),
    "O7 a body that breaks": (choose(lambda v: v + time.time(), lambda v: v), UNCAPTURED,
                              [HERE, "time() is called", "called at"], PLAIN),
    "O7 a predicate": (choose(lambda v: v, lambda v: v, lambda x: x > 0), UNCAPTURED, ["pred", "[2, 3]"],
                       [".any() or .all()"]),
    "O7 no function": (choose(3, lambda v: v), UNCAPTURED, ["true_fn", "int"], ["must be callable"]),
    "O7 operands": (whole(lambda x: cond(x.sum() > 0, add_one, add_one, x)), UNCAPTURED,
                    ["operands", "a tensor of [2, 3]"], ["must be a tuple of tensors"]),
    "O7 carried": (repeat(lambda i, v: i < 3, lambda i, v: (i + 1, v.sum())), UNCAPTURED,
                   ["while_loop()", "value 1 of carried_inputs", "[2, 3]", "[]"], ["keep dtype and shape"]),
    "O7 carried values": (repeat(lambda i, v: i < 3, lambda i, v: (i + 1,)), UNCAPTURED,
                          ["body_fn gives 1 values for 2"], ["give each of them back"]),
    "O7 a condition": (repeat(lambda i, v: v, lambda i, v: (i + 1, v * 1)), UNCAPTURED, ["cond_fn", "[2, 3]"],
                       [".any() or .all()"]),
    "O7 no end": (repeat(lambda i, v: True, lambda i, v: (i + 1, v * 1)), UNCAPTURED,
                  ["always True", "never ends"], ["compute the condition from what is carried"]),
    "O7 lengths": (whole(lambda x: map(lambda pair: pair[0] + pair[1], (x, x[:1]))), UNCAPTURED,
                   ["map()", "tensor 1 has 1", "tensor 0 has 2"], ["must be equally long"]),
    "O7 a carry alone": (whole(lambda x: scan(lambda carry, row: carry + row, x[0], x)), UNCAPTURED,
                         ["scan()", "combine_fn"], ["`return carry, y`"]),
    "O7 a combined value": (whole(lambda x: associative_scan(lambda a, b: (a + b).sum(), x, 0)), UNCAPTURED,
                            ["associative_scan()", "value 0 of xs", "[3]", "[]"], ["keep dtype and shape"]),
    "O11 data in a whole graph": (lambda: cresset.compile(add_one, backend=asks_of_data, fullgraph=True)(X),
                                  exc.BackendCompilerFailed, ["'asks_of_data'", "u0 == 3"], []),
    "O12 no fake rule": (whole(lambda x: unruled(x + 1)), exc.Unsupported, [HERE, "compile_errors::unruled"],
                         ["no fake rule", "@unruled.register_fake"]),
    "O12 only_allow_pt2_compliant_ops": (
        lambda: strictly(whole(lambda x: cresset.ops.compile_errors.untagged.default(x) + 1)), exc.Unsupported,
        [HERE, "compile_errors::untagged", "only_allow_pt2_compliant_ops"],
        ["custom_op()", "tags=Tag.pt2_compliant_tag"]),
    "O12 a value": (lambda: setattr(dynamo.config, "only_allow_pt2_compliant_ops", 1), ValueError,
                    ["only_allow_pt2_compliant_ops", "not 1"], ["True or False"]),
    "O12 another tag": (lambda: cresset.library.define("compile_errors::other", "(Tensor x) -> Tensor", tags="core"),
                        NotImplementedError, ["'core'"], ["Tag.pt2_compliant_tag", "leave others out"]),
    "O5 reorderable_logging_functions": (
        lambda: setattr(dynamo.config, "reorderable_logging_functions", [print]), ValueError,
        ["reorderable_logging_functions"], ["a set of functions"]),
    "X1 args": (lambda: export(Model(), X), exc.UserError, ["args", "Tensor"], ["a tuple", "write (x,)"]),
    "X1 args of export_for_training": (lambda: cresset.export.export_for_training(Model(), [X]), exc.UserError,
                                       ["args", "list"], ["a tuple", "write (x,)"]),
    "X1 kwargs": (lambda: export(Model(), (X,), [1], strict=True), exc.UserError, ["kwargs", "list"],
                  ["a dict of example inputs by name"]),
    "X1 a function": (lambda: export(add_one, (X,), strict=True), ValueError, ["function"],
                      ["put a function into a module's forward"]),
    "X1 a function before autograd": (lambda: cresset.export.capture_pre_autograd_graph(add_one, (X,)), ValueError,
                                      ["function"], ["put a function into a module's forward"]),
    "X1 dynamic_shapes": (lambda: export(Model(), (X,), dynamic_shapes=3), exc.UserError, ["dynamic_shapes", "int"],
                          ["a dict by argument name, or a tuple or list"]),
    "X1 patch_forward: a name": (lambda: patch_forward(Model(), "other").__enter__(), TypeError, ["str"],
                                 ["such as module.method"]),
    "X1 patch_forward: no module": (lambda: patch_forward(add_one, add_one).__enter__(), TypeError, ["function"],
                                    ["takes a module and one of its methods"]),
}
KINDS = {"X1 args": UserErrorType.INVALID_INPUT, "X1 kwargs": UserErrorType.INVALID_INPUT,
         "X1 args of export_for_training": UserErrorType.INVALID_INPUT,
         "X1 dynamic_shapes": UserErrorType.INVALID_INPUT,
         "E10 allowed inputs": UserErrorType.INVALID_INPUT, "E10 a name of dynamic_shapes": UserErrorType.INVALID_INPUT,
         "E10 tensors from elsewhere, all": UserErrorType.INVALID_INPUT}


@pytest.mark.parametrize("what", ERRORS)
def test_errors_name_facts_and_remedy(what):
    call, kind, facts, remedy = ERRORS[what]
    with pytest.raises(kind) as raised:
        call()
    text = str(raised.value)
    assert not [words for words in facts + remedy if words not in text], text
    if kind is exc.UserError:
        assert raised.value.error_type is KINDS[what]


THEIRS = """
import sys, json, time, torch
from torch._higher_order_ops import associative_scan, cond, map, scan, while_loop
def choose(up, down, pred=lambda x: x.sum() > 0):
    return lambda x: cond(pred(x), up, down, (x,))
def repeat(test, body):
    return lambda x: while_loop(test, body, (torch.tensor(0), x))
PROGRAMS = {
    "dtype": choose(lambda v: v + 1, lambda v: v.long()),
    "shape": choose(lambda v: v + 1, lambda v: v.sum()),
    "shared memory": choose(lambda v: v, lambda v: v * 2),
    "an input that is written": choose(lambda v: v * 2, lambda v: v.add_(1) * 1),
    "no tensor": choose(lambda v: "a", lambda v: "b"),
    "a body that breaks": choose(lambda v: v + time.time(), lambda v: v),
    "a predicate": choose(lambda v: v, lambda v: v, lambda x: x > 0),
    "no function": choose(3, lambda v: v),
    "operands": lambda x: cond(x.sum() > 0, lambda v: v, lambda v: v, x),
    "carried": repeat(lambda i, v: i < 3, lambda i, v: (i + 1, v.sum())),
    "carried values": repeat(lambda i, v: i < 3, lambda i, v: (i + 1,)),
    "a condition": repeat(lambda i, v: v, lambda i, v: (i + 1, v * 1)),
    "lengths": lambda x: map(lambda pair: pair[0] + pair[1], (x, x[:1])),
    "a carry alone": lambda x: scan(lambda carry, row: carry + row, x[0], x),
    "a combined value": lambda x: associative_scan(lambda a, b: (a + b).sum(), x, 0),
}
found = {}
for name, program in PROGRAMS.items():
    torch._dynamo.reset()
    try:
        torch.compile(program, backend="eager", fullgraph=True)(torch.ones(2, 3))
    except Exception as error:
        found[name] = type(error).__name__
print(json.dumps(found))
"""


def test_regions_raise_what_pytorch_raises():
    pytest.importorskip("torch", reason="the classes of errors are PyTorch's")
    done = subprocess.run([sys.executable, "-c", THEIRS], capture_output=True, text=True)
    found = json.loads(done.stdout.splitlines()[-1])
    assert len(found) == 15
    for name, theirs in found.items():
        with pytest.raises(exc.Unsupported) as raised:
            ERRORS[f"O7 {name}"][0]()
        assert theirs in [cls.__name__ for cls in raised.type.__mro__], name


@pytest.mark.parametrize("program", [calls, breaks, formats, lambda x: kept_out(x) + 1, lambda x: unruled(x + 1)],
                         ids=["calls", "breaks", "formats", "disabled", "no fake rule"])
def test_what_is_no_whole_graph_runs(program):
    got = cresset.compile(program, backend="eager")(X)
    want = program(X)
    if program is calls:  # of the clock
        assert got.shape == want.shape and (got > 2).all()
    else:
        assert str(got) == str(want)


def test_unsupported_python_is_said_by_compile(monkeypatch):
    monkeypatch.delattr(cresset._C, "_Compiled")
    assert not dynamo.is_dynamo_supported()
    with pytest.raises(RuntimeError, match=r"compile\(\) needs CPython 3.11 to 3.13"):
        cresset.compile(add_one)


def test_custom_ops_end_captures_unless_they_are_tagged():
    library = cresset.library.Library("compile_errors", "FRAGMENT")
    library.define("tagged(Tensor x) -> Tensor", tags=(cresset.Tag.pt2_compliant_tag,))
    library.impl("tagged", lambda x: x * 2, "CompositeImplicitAutograd")
    made = cresset.library.custom_op("compile_errors::made", lambda x: x * 2, mutates_args=(),
                                     schema="(Tensor x) -> Tensor")
    made.register_fake(cresset.empty_like)
    for on, name, captured in ((False, "untagged", True), (True, "untagged", False), (True, "tagged", True),
                               (True, "made", True)):
        op = getattr(cresset.ops.compile_errors, name)
        with dynamo.config.patch(only_allow_pt2_compliant_ops=on):
            compiled = cresset.compile(lambda x: op(x + 1) * 3, backend="eager")
            assert compiled(cresset.ones(1)).item() == 12
        assert (compiled._counts()["breaks"] == 0) is captured, name


def test_a_backend_that_skips_or_wants_data_leaves_the_graph_as_it_is():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cresset.compile(add_one, backend=skips)(cresset.ones(1)).item() == 2
    compiled = cresset.compile(add_one, backend=asks_of_data)
    with pytest.warns(RuntimeWarning, match="'asks_of_data' raised GuardOnData.*u0 == 3\n.*the graph runs as it is"):
        assert compiled(cresset.ones(1)).item() == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # once
        assert compiled(cresset.ones(1)).item() == 2


def test_compile_takes_what_disable_kept_out():
    compiled = cresset.compile(kept_out, backend="eager", fullgraph=True)
    assert compiled(cresset.ones(1)).item() == 2 and compiled._counts()["captures"] == 1
