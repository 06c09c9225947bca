"""Functions compiled ahead of time where no code can stand for them: they run as recorded, or themselves, on the tape,
for that way of calling them alone, and the report says why. And gradients of compiled gradients."""
import re

import pytest

import cresset
from cresset._functorch.aot_autograd import aot_function

torch = pytest.importorskip("torch", reason="eager PyTorch is the oracle")

DOORS = ["nop", "native"]


# ---- inputs that share memory otherwise than those it was compiled for ----

def writes_x(x, y):
    x.mul_(2)
    return y * 1


PLACES = [(slice(0, 3), slice(1, 4)), (slice(1, 4), slice(0, 3)), (slice(0, 3), slice(3, 6)),
          (slice(0, 3), slice(0, 3)), (slice(0, 6, 2), slice(1, 4)), (slice(5, 8), slice(4, 7))]


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("dynamic", [False, True])
def test_other_places_in_one_memory_are_other_calls(door, dynamic):
    compiled = aot_function(writes_x, door, dynamic=dynamic)
    for first, second in PLACES * 2:
        memory, wanted = cresset.arange(8.0), torch.arange(8.0)
        given = compiled(memory[first], memory[second])
        assert given.tolist() == writes_x(wanted[first], wanted[second]).tolist(), (first, second)
        assert memory.tolist() == wanted.tolist(), (first, second)
    apart = cresset.arange(3.0), cresset.arange(3.0)
    assert compiled(*apart).tolist() == [0.0, 1.0, 2.0] and apart[0].tolist() == [0.0, 2.0, 4.0]


@pytest.mark.parametrize("door", DOORS)
def test_other_strides_are_other_calls(door):
    compiled = aot_function(lambda x: x.t() * 1, door)
    for make in (lambda m: m.arange(9.0).reshape(3, 3), lambda m: m.arange(9.0).reshape(3, 3).t(),
                 lambda m: m.arange(18.0).reshape(3, 6)[:, ::2], lambda m: m.arange(3.0).expand(3, 3)):
        ours, theirs = compiled(make(cresset)), make(torch).t() * 1
        assert (ours.tolist(), ours.stride()) == (theirs.tolist(), theirs.stride())


@pytest.mark.parametrize("door", DOORS)
def test_conjugates_are_other_calls(door):
    compiled = aot_function(lambda x: x * 2j, door)
    z = cresset.tensor([1 + 2j, 3 - 1j])
    for x in (z, z.conj(), z):
        assert compiled(x).tolist() == (x * 2j).tolist()


def test_native_code_of_compile_follows_what_is_shared():
    compiled = cresset.compile(writes_x)
    for first, second in PLACES * 2:
        memory, wanted = cresset.arange(8.0), torch.arange(8.0)
        assert compiled(memory[first], memory[second]).tolist() == writes_x(wanted[first], wanted[second]).tolist()
        assert memory.tolist() == wanted.tolist()


# ---- programs without a functional form ----

def state(t):
    return t.tolist(), tuple(t.stride()), t._version, t.requires_grad, t.is_leaf, t.retains_grad


PROGRAMS = {
    "as_strided": (lambda m, x, y: [x.as_strided((2, 2), (3, 1)).mul_(2), x * y], "no functional form"),
    "other dtype": (lambda m, x, y: [x.view(m.int32).zero_(), x + y], "no functional form"),
    "set_": (lambda m, x, y: [x.set_(y), x * 2], "set_.* changes the memory"),
    "resize_ to more": (lambda m, x, y: [x.resize_(4, 4).zero_(), y * 2], "resize_ changes the memory"),
    ".data =": (lambda m, x, y: [setattr(x, "data", y * 2), x * 3][1:], "data of a tensor is set"),
    "requires_grad_": (lambda m, x, y: [x.requires_grad_(), x * y], "requires_grad of a tensor cannot be changed"),
    "caught": (lambda m, x, y: [caught(lambda: x.requires_grad_()), x * y][1:], "has caught an UnsupportedError"),
}


def caught(call):
    try:
        call()
    except RuntimeError:
        pass


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_runs_on_the_tape_and_says_why(name, door):
    function, why = PROGRAMS[name]
    compiled = aot_function(lambda x, y: function(cresset, x, y), door)
    for _ in range(2):
        made = [(m.arange(9.0).reshape(3, 3) * 1, m.ones(3, 3)) for m in (torch, cresset)]
        wanted, given = function(torch, *made[0]), compiled(*made[1])
        assert [state(t) for t in given] == [state(t) for t in wanted]
        assert [state(t) for t in made[1]] == [state(t) for t in made[0]]
        assert [t is made[1][0] for t in given] == [t is made[0][0] for t in wanted]
    assert re.match(f"call 0: runs on the tape, (as|not) recorded: .*{why}", compiled._compiled.explain(), re.DOTALL)


def test_other_ways_of_calling_it_are_compiled():
    def f(x, y):
        x.mul_(2)
        return y * 1

    compiled = aot_function(f, "nop")
    z = cresset.tensor([1 + 2j, 3 - 1j])
    compiled(z.real, z)  # two dtypes in one memory
    assert z.tolist() == [2 + 2j, 6 - 1j]
    x, y = cresset.ones(2), cresset.ones(2)
    assert compiled(x, y).tolist() == [1.0, 1.0] and x.tolist() == [2.0, 2.0]
    shared, apart = compiled._compiled.explain().split("call 1: ")
    assert "runs on the tape" in shared and "runs on the tape" not in apart


def test_retained_gradients_of_what_a_function_makes():
    def f(m, x):
        h = x * 3
        h.retain_grad()
        return h, h.sin().sum()

    found = []
    for m, door in ((torch, lambda g: g), (cresset, lambda g: aot_function(g, "nop"))):
        x = m.tensor([0.5, 1.0], requires_grad=True)
        h, total = door(lambda x: f(m, x))(x)
        total.backward()
        found.append([h.grad.tolist(), x.grad.tolist(), h.retains_grad])
    assert found[1][2] and found[1][0] == pytest.approx(found[0][0]) and found[1][1] == pytest.approx(found[0][1])


@pytest.mark.parametrize("m, door", [(torch, None), (cresset, "nop"), (cresset, "native")])
def test_what_was_done_before_an_error_is_done(m, door):
    """An error of a call, of a write that gradients forbid, and of the function's own."""
    def bad_call(x, y):
        x.mul_(2)
        return x @ y

    def bad_write(x, y):
        x.mul_(2)
        return y.mul_(3)

    def own(x, y):
        x.mul_(2)
        raise KeyError("mine")

    for function, error in ((bad_call, RuntimeError), (bad_write, RuntimeError), (own, KeyError)):
        x, y = m.ones(2), m.ones(3, requires_grad=True)
        with pytest.raises(error):
            (aot_function(function, door) if door else function)(x, y)
        assert x.tolist() == [2.0, 2.0] and x._version == 1


def test_what_fails_because_it_is_recorded_leaves_nothing_behind():
    def asks(x):
        x.mul_(2)
        return x if x.sum() > 0 else -x

    x = cresset.ones(2)
    with pytest.raises(cresset.GuardOnDataDependentSymNode):
        aot_function(asks, "nop")(x)
    assert x.tolist() == [1.0, 1.0]


# ---- gradients of gradients ----

def cubes(m):
    class Cube(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x * x

        @staticmethod
        def backward(ctx, grad):
            x, = ctx.saved_tensors
            return grad * 4.5 * x * x  # not the derivative: it must be asked

    return Cube


def hidden(m, x):
    with m.no_grad():
        x.mul_(2)
    return x


TWICE = {
    "pointwise": lambda m, x, y: (x.exp() * y.sin()).tanh(),
    "products": lambda m, x, y: m.nn.functional.gelu(x @ y) @ x,
    "softmax": lambda m, x, y: m.softmax(x * 2, -1) * m.log_softmax(y, 0),
    "one of two results": lambda m, x, y: (x * y * y, (x * x * y).sum())[0],
    "written": lambda m, x, y: [x.mul_(y), x.sin() * y][1],
    "written unseen": lambda m, x, y: hidden(m, x).sin() * y,
    "detached": lambda m, x, y: x.sin() * y.detach() + y.square(),
    "function": lambda m, x, y: cubes(m).apply(x) * y,
    "unused": lambda m, x, y: y.square() * y,
}


def derivatives(m, function):
    leaves = [m.tensor(values, dtype=m.float64, requires_grad=True) for values in (
        [[0.3, 0.5, 0.7], [0.2, -0.4, 0.6], [-0.9, 0.1, 0.8]], [[0.4, 0.1, 0.7], [0.6, -0.3, 0.2], [-0.5, 0.4, 0.9]])]
    found, total = [], function(leaves[0] * 2, leaves[1] * 1).square().sum()
    for order in range(3):
        grads = m.autograd.grad(total, leaves, create_graph=order < 2, allow_unused=True)
        found += [grad if grad is None else grad.detach() for grad in grads]
        total = sum(grad.square().sum() for grad in grads if grad is not None)
    return found


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("name", TWICE)
def test_three_derivatives(name, door):
    for dynamic in (False, True):
        wanted = derivatives(torch, lambda x, y: TWICE[name](torch, x, y))
        compiled = aot_function(lambda x, y: TWICE[name](cresset, x, y), door, dynamic=dynamic)
        for given in (derivatives(cresset, compiled) for _ in range(2)):
            for a, b in zip(wanted, given, strict=True):
                assert (a is None) == (b is None)
                if a is not None:
                    b = torch.tensor(b.tolist(), dtype=a.dtype)
                    assert (a - b).abs().max() <= 1e-9 * a.abs().max().clamp(min=1)


def test_what_second_derivatives_read_may_not_be_written():
    """The first ones do not read it: they can still be had."""
    leaf = cresset.tensor([0.5, 1.0], requires_grad=True)
    x = leaf * 1
    out = aot_function(lambda x: x.exp(), "nop")(x)
    x.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation: input 0 of a compiled function.*clone"):
        cresset.autograd.grad(out.sum(), leaf, create_graph=True)
    assert cresset.autograd.grad(out.sum(), leaf)[0].tolist() == out.tolist()


def test_programs_that_draw_have_first_derivatives_alone():
    x = cresset.ones(4, requires_grad=True)
    out = aot_function(lambda x: cresset.nn.functional.dropout(x.exp(), 0.5), "nop")(x)
    grad, = cresset.autograd.grad(out.sum(), x, create_graph=True)
    assert grad.tolist() == out.tolist() and grad.requires_grad
    with pytest.raises(RuntimeError, match="double backward of programs that draw random numbers.*call the function "):
        grad.sum().backward()


# ---- what a function asks its tensors ----

def answers(m, x, told):
    h = x * 3
    row = h[0]
    for t in (x, h, row, h.detach(), m.ones(2)):
        told.append((t.requires_grad, t.is_leaf, t.retains_grad, t._is_view()))
    with m.no_grad():
        told.append((x.is_leaf, (x * 2).is_leaf))
    y = m.ones(2, 2)
    y.mul_(h)
    told.append((y.is_leaf, y.requires_grad))
    return h + 1 if h.is_leaf else row * 2


INPUTS = {"leaf": lambda m, a: a, "result": lambda m, a: a * 2, "view": lambda m, a: (a * 2).t(),
          "plain": lambda m, a: a.detach()}


@pytest.mark.parametrize("by", ["nop", "compile"])
@pytest.mark.parametrize("name", INPUTS)
def test_tensors_answer_as_eager_ones(name, by):
    found = []
    for m in (torch, cresset):
        told = []
        x = INPUTS[name](m, m.ones(2, 2, requires_grad=True))
        call = answers if m is torch else cresset.compile(answers) if by == "compile" else None
        if call is None:
            out = aot_function(lambda x: answers(cresset, x, told), "nop")(x)
        else:
            out = call(m, x, told)
        found.append((told, out.tolist(), out.is_leaf))
    assert found[1] == found[0]


def without(m, call):
    with m.no_grad():
        return call()


ASKS = {
    "grad_fn": lambda m, x: (x * 2, (x * 2).grad_fn.name()),
    "output_nr": lambda m, x: (x * 2, x.unbind(0)[1].output_nr),
    "_version": lambda m, x: (x.mul_(2), x._version),
    "_base": lambda m, x: (x * 2, x._base is None),
    "grad": lambda m, x: (x * 2, x.grad is None),
    "view of no_grad": lambda m, x: (x * 2, without(m, x.t).is_leaf),
    "hook": lambda m, x: (x * 2, x.register_hook(lambda g: g * 5) is None),
    "a walk": lambda m, x: (m.autograd.grad((x * x).sum(), x)[0], 0),
}


@pytest.mark.parametrize("name", ASKS)
def test_what_only_a_tape_knows_is_asked_of_the_tape(name):
    found = []
    for m, door in ((torch, lambda f: f), (cresset, lambda f: aot_function(f, "nop"))):
        leaf = m.ones(2, 2, requires_grad=True)
        x = leaf * 3 if name in ("_version", "hook") else (leaf * 3)[0:1] if name == "_base" else leaf
        leaf.grad = m.ones(2, 2) if name == "grad" else None
        compiled = door(lambda x: ASKS[name](m, x))
        out, said = compiled(x)
        if out.requires_grad:
            out.sum().backward()
        found.append((out.tolist(), said, leaf.grad is not None and leaf.grad.tolist()))
    assert found[1] == found[0]
    assert "runs on the tape, not recorded" in compiled._compiled.explain()
