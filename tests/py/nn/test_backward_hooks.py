"""N2: backward hooks of modules: what they see, in which order, and what they may change, as PyTorch's."""
import collections
import warnings

import pytest

import cresset

torch = pytest.importorskip("torch", reason="the oracle")

BOTH = pytest.mark.parametrize("m", [cresset, torch], ids=["cresset", "torch"])
Pair = collections.namedtuple("Pair", "a b")


def numbers(grads):
    return [None if g is None else g.tolist() for g in grads]


def leaf(m):
    return m.ones(2, dtype=m.float64, requires_grad=True)


def times(m, factor=3.0):
    class Times(m.nn.Module):
        def forward(self, x, other=None):
            return x * factor if other is None else x * other
    return Times()


@BOTH
def test_hooks_see_gradients_of_arguments_and_results(m):
    module, x, seen = times(m), leaf(m), []
    module.register_full_backward_pre_hook(lambda mod, out: seen.append(("pre", mod is module, numbers(out))))
    module.register_full_backward_hook(lambda mod, given, out: seen.append((numbers(given), numbers(out))))
    handle = module.register_full_backward_hook(lambda *args: seen.append("first"), prepend=True)
    module(x).sum().backward()
    assert seen == [("pre", True, [[1.0, 1.0]]), "first", ([[3.0, 3.0]], [[1.0, 1.0]])]
    handle.remove()
    module(module(x)).sum().backward()
    assert seen[3:] == [("pre", True, [[1.0, 1.0]]), ([[3.0, 3.0]], [[1.0, 1.0]]),
                        ("pre", True, [[3.0, 3.0]]), ([[9.0, 9.0]], [[3.0, 3.0]])]
    assert x.grad.tolist() == [12.0, 12.0]


@BOTH
def test_hooks_change_gradients(m):
    module, x = times(m), leaf(m)
    module.register_full_backward_pre_hook(lambda mod, out: (out[0] * 2,))
    module.register_full_backward_hook(lambda mod, given, out: (given[0] + out[0],))
    module(x).sum().backward()
    assert x.grad.tolist() == [8.0, 8.0]


@BOTH
def test_places_of_what_is_no_tensor_and_tuples_as_results(m):
    class Module(m.nn.Module):
        def forward(self, x, factor, y):
            return Pair(x * y * factor, 3)
    module, x, seen = Module(), leaf(m), []
    module.register_full_backward_hook(lambda mod, given, out: seen.append((numbers(given), numbers(out))))
    result = module(x, 2, m.ones(2, dtype=m.float64))
    result.a.sum().backward()
    assert type(result) is Pair and result.b == 3
    assert seen == [([[2.0, 2.0], None, [0.0, 0.0]], [[1.0, 1.0], None])]


@BOTH
def test_without_arguments_that_require_grad(m):
    module, seen = m.nn.Linear(2, 1), []
    module.register_full_backward_hook(lambda mod, given, out: seen.append((numbers(given), numbers(out))))
    with pytest.warns(UserWarning):
        module(m.ones(1, 2)).sum().backward()
    assert seen == [([None], [[[1.0]]])]
    module.register_full_backward_hook(lambda mod, given, out: (m.ones(1, 2),))
    with pytest.raises(RuntimeError, match="no input requires gradient"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module(m.ones(1, 2)).sum().backward()
    with m.no_grad():
        assert module(m.ones(1, 2)).shape == (1, 1) and len(seen) == 2


@BOTH
def test_wrong_numbers_and_results_without_place_for_hooks(m):
    for register, change in (("register_full_backward_hook", lambda mod, given, out: given * 2),
                             ("register_full_backward_pre_hook", lambda mod, out: out * 2)):
        module = times(m)
        getattr(module, register)(change)
        with pytest.raises(RuntimeError, match="invalid number"):
            module(leaf(m)).sum().backward()

    class Named(m.nn.Module):
        def forward(self, x):
            return {"a": x * 2}
    module, seen = Named(), []
    module.register_full_backward_hook(lambda *args: seen.append(1))
    with pytest.warns(UserWarning, match="should be a Tensor or a tuple"):
        result = module(leaf(m))
    result["a"].sum().backward()
    assert not seen


@BOTH
def test_what_is_framed_is_not_written(m):
    model = m.nn.Sequential(times(m), m.nn.ReLU(inplace=True))
    model[0].register_full_backward_hook(lambda *args: None)
    with pytest.raises(RuntimeError):
        model(leaf(m)).sum().backward()


@BOTH
def test_hooks_of_all_modules(m):
    from importlib import import_module
    of = import_module(m.__name__ + ".nn.modules.module")
    seen, x = [], leaf(m)
    handles = [of.register_module_full_backward_hook(lambda mod, given, out: seen.append(type(mod).__name__)),
               of.register_module_full_backward_pre_hook(lambda mod, out: seen.append("pre"))]
    try:
        m.nn.Sequential(times(m), m.nn.Tanh())(x).sum().backward()
    finally:
        for handle in handles:
            handle.remove()
    assert seen == ["pre", "pre", "Tanh", "pre", "Times", "Sequential"]
    with pytest.raises(RuntimeError, match="both regular"):
        of.register_module_backward_hook(lambda *args: None)
    of._global_is_full_backward_hook = None


@BOTH
def test_old_hooks_see_the_last_op(m):
    module, x, seen = times(m), leaf(m), []
    module.register_backward_hook(lambda mod, given, out: seen.append(numbers(given)[0]))
    with pytest.warns(FutureWarning, match="non-full"):
        module(x).sum().backward()
    assert seen == [[3.0, 3.0]]
    with pytest.raises(RuntimeError, match="both regular"):
        module.register_full_backward_hook(lambda *args: None)
    other = times(m)
    other.register_full_backward_hook(lambda *args: None)
    with pytest.raises(RuntimeError, match="both regular"):
        other.register_backward_hook(lambda *args: None)


@BOTH
def test_hooks_in_checkpoints_second_derivatives_and_walks_to_weights(m):
    from importlib import import_module
    checkpoint = import_module(m.__name__ + ".utils.checkpoint").checkpoint
    module, x, seen = m.nn.Sequential(times(m), m.nn.Tanh()), leaf(m), []
    module.register_full_backward_hook(lambda mod, given, out: seen.append(numbers(out)))
    checkpoint(module, x, use_reentrant=False).sum().backward()
    first, = m.autograd.grad(module(x).sum(), x, create_graph=True)
    first.sum().backward()
    assert seen == [[[1.0, 1.0]]] * 2
    linear = m.nn.Linear(2, 1)
    linear.register_full_backward_hook(lambda *args: seen.append("linear"))
    m.autograd.grad(linear(m.ones(1, 2, requires_grad=True)).sum(), linear.weight)
    assert "linear" not in seen  # the walk never came to the argument


def test_compiled_modules_run_them():
    for backend in ("eager", "aot_eager", "native"):
        inner, seen = times(cresset), []
        model = cresset.compile(cresset.nn.Sequential(inner, cresset.nn.Tanh()), backend=backend)
        inner.register_full_backward_hook(lambda mod, given, out: seen.append(numbers(given)))
        model.register_full_backward_pre_hook(lambda mod, out: seen.append("outer"))
        x = leaf(cresset)
        for _ in range(2):
            model(x).sum().backward()
        assert len(seen) == 4 and seen[0] == "outer" and seen[1] == [(x.grad / 2).tolist()]
