"""What the tape refuses: the class is PyTorch's; the message names the op, the facts and the remedy. Nothing is written
by a call that fails."""
import pytest

import cresset

torch = pytest.importorskip("torch", reason="the classes of errors are PyTorch's")


def unbound(m, x):
    (x * 1).unbind(0)[0].mul_(2)


def split_later(m, x):
    y = x * 1
    first, _ = y.split(2)
    y.mul_(2)
    first.sum()


def view_made_in(mode):
    def program(m, x):
        y = x * 1
        with getattr(m, mode)():
            view = y[0]
        view.add_(1)
    return program


def view_outlived_in(mode, attribute):
    def program(m, x):
        y = x * 1
        with getattr(m, mode)():
            view = y[0]
            y.add_(1)
        getattr(view, attribute)
    return program


def moved_argument(m, x):
    y = x * 1
    z = y.sin()
    y.add_(1).add_(1)
    z.sum().backward()


def moved_result(m, x):
    y = x.exp()
    y.detach().mul_(2)
    y.sum().backward()


def moved_through_a_view(m, x):
    y = x * 1
    z = x * y
    y[0] = 3.0
    z.sum().backward()


def made_in_inference(m):
    with m.inference_mode():
        return m.ones(4)


def inference_factor(m, x):
    y = x * 1
    try:
        y.mul_(made_in_inference(m))
    except RuntimeError:
        assert y.tolist() == x.tolist() and y._version == 0
        raise


# name: (program, facts, remedy)
ERRORS = {
    "leaf": (lambda m, x: x.mul_(2), "mul_: a leaf Variable that requires grad", r"inside of no_grad\(\)"),
    "leaf, copied to": (lambda m, x: x.copy_(x * 2), "copy_: a leaf Variable", r"inside of no_grad\(\)"),
    "view of a leaf": (lambda m, x: x[1:].mul_(2), "mul_: a view of a leaf Variable", r"inside of no_grad\(\)"),
    "flag of a view": (lambda m, x: m.ones(3)[1:].requires_grad_()[0].add_(1), "a view of a leaf Variable",
                       r"inside of no_grad\(\)"),
    "unbind": (unbound, "mul_: the tensor is a view and is being modified.*returns multiple views", "functional form"),
    "split, root written": (split_later, "is a view and its base or another view of its base has been modified.*"
                            "multiple views", "functional form"),
    "view of no_grad": (view_made_in("no_grad"), "add_: a view was created in no_grad mode and is being modified",
                        r"both inside of no_grad\(\), or both outside"),
    "view of no_grad, root written": (view_outlived_in("no_grad", "is_leaf"),
                                      "no_grad mode and its base or another view",
                                      r"both inside of no_grad\(\), or both outside"),
    "moved argument": (moved_argument, r"modified by an inplace operation: an argument of aten::sin, a float32 tensor "
                       r"of shape \[4\], is at version 2; expected version 0",
                       r"a copy \(\.clone\(\)\), or after backward"),
    "moved result": (moved_result, "a result of aten::exp.*is at version 1; expected version 0", r"\.clone\(\)"),
    "moved through a view": (moved_through_a_view, "an argument of aten::mul.Tensor.*version 1; expected version 0",
                             r"\.clone\(\)"),
    "detach_ of a view": (lambda m, x: m.ones(3)[1:].detach_(), "a view cannot be detached in place",
                          r"use detach\(\)"),
    "resize_": (lambda m, x: (x * 1).resize_(2), "resize_: cannot resize variables that require grad", "reshape"),
    "set_ of another dtype": (lambda m, x: m.ones(3).set_(m.ones(3, dtype=m.float64)), "float32.*float64",
                              r"view\(dtype\)"),
    "derivative of set_": (lambda m, x: (x * 1).set_(m.ones(4)).sum().backward(),
                           "derivative for aten::set_.source_Tensor is not implemented", ""),
    "inference, version": (lambda m, x: made_in_inference(m)._version, "do not track version counter", r"\.clone\(\)"),
    "inference, written": (lambda m, x: made_in_inference(m).add_(1), "add_: 'self' was made in inference mode",
                           r"\.clone\(\) it first, or write inside of inference_mode\(\)"),
    "inference, written without grad": (lambda m, x: m.no_grad()(lambda: made_in_inference(m).add_(1))(),
                                        "was made in inference mode", r"\.clone\(\)"),
    "inference, out": (lambda m, x: m.add(m.ones(4), 1, out=made_in_inference(m)), "add: 'out' was made in inference",
                       r"\.clone\(\)"),
    "inference, view written": (lambda m, x: made_in_inference(m)[1:].add_(1), "was made in inference mode",
                                r"\.clone\(\)"),
    "inference, transposed": (lambda m, x: made_in_inference(m).t_(), "t_: 'self' was made in inference mode",
                              r"\.clone\(\)"),
    "inference, saved": (lambda m, x: x * made_in_inference(m), "inference tensors cannot be saved for backward",
                         r"\.clone\(\) it first, or make it inside of no_grad\(\)"),
    "inference, saved in place": (inference_factor, "inference tensors cannot be saved", r"\.clone\(\) it first"),
    "inference, requires_grad": (lambda m, x: made_in_inference(m).requires_grad_(),
                                 "requires_grad=True on an inference", r"\.clone\(\)"),
    "view of inference mode": (view_made_in("inference_mode"),
                               "add_: a view was created in inference mode and is being modified",
                               r"both inside of inference_mode\(\), or both outside"),
    "view of inference mode, root written": (view_outlived_in("inference_mode", "grad_fn"),
                                             "in inference mode and its base or another view",
                                             r"both inside of inference_mode\(\), or both outside"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_class_facts_remedy(name):
    program, facts, remedy = ERRORS[name]
    with pytest.raises(RuntimeError) as there:
        program(torch, torch.arange(4.0).requires_grad_())
    x = cresset.arange(4.0).requires_grad_()
    with pytest.raises(RuntimeError, match=f"(?s){facts}.*{remedy}") as here:
        program(cresset, x)
    assert here.type is there.type
    assert x.tolist() == [0.0, 1.0, 2.0, 3.0] and x._version == 0 and x.grad is None


@pytest.mark.parametrize("m", [cresset, torch], ids=["cresset", "torch"])
def test_inference_tensors(m):
    """What is one, what is a view of an ordinary tensor, and what may be done with them."""
    p = m.ones(4, requires_grad=True)
    with m.inference_mode():
        t = m.ones(3)
        row, part, detached, listed = t[0], p[1:], p.detach(), m.tensor([1.0])
        t.add_(1)
        detached.add_(1)
        with m.enable_grad():
            assert m.is_grad_enabled() and not (p * 2).requires_grad and (p * 2).is_inference()
        with m.inference_mode(False):
            assert (p * 2).requires_grad and not (p * 2).is_inference()
        own = m.ones(3, requires_grad=True)
        assert own.requires_grad and own.is_leaf and not (own * 2).requires_grad
    assert [a.is_inference() for a in (t, row, listed, part, detached)] == [True, True, True, False, False]
    assert not row._is_view() and part._is_view() and part.requires_grad
    assert t.tolist() == [2.0] * 3 and p._version == 1 and detached._version == 1
    assert t[1:].is_inference() and not t[1:]._is_view() and t.detach().is_inference() and t.data.is_inference()
    assert not (t * 2).is_inference() and not t.clone().is_inference()
    (p[:3] + t).sum().backward()  # an addition saves nothing
    assert p.grad.tolist() == [1.0, 1.0, 1.0, 0.0]
    y = p * 1
    y[:3].copy_(t)
    y.sum().backward()
    assert p.grad.tolist() == [1.0, 1.0, 1.0, 1.0]
