"""gradcheck, gradgradcheck: derivatives against finite differences.

Complex numbers are pairs of real ones throughout: the gradient of a real number L with respect to z = x + iy is
dL/dx + i dL/dy, so rows of both Jacobians compare as real numbers.
"""
from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from cresset import _C

__all__ = ["gradcheck", "gradgradcheck", "GradcheckError"]

_op = _C._function


class GradcheckError(RuntimeError):
    """The derivative is not that of the function."""


def _tuple(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def _differentiable(values: Any) -> list[Any]:
    return [t for t in _tuple(values) if _C._is_tensor(t) and t.requires_grad]


def _real(tensor: Any) -> Any:
    """The elements as one row of real numbers."""
    tensor = tensor.detach()
    tensor = _op("view_as_real")(tensor.resolve_conj()) if tensor.is_complex() else tensor
    return tensor.reshape(-1).to(_C.float64)


def _check_inputs(inputs: Sequence[Any]) -> None:
    for i, tensor in enumerate(inputs):
        if not _C._is_tensor(tensor) or not tensor.requires_grad:
            continue
        if tensor.dtype not in (_C.float64, _C.complex128):
            warnings.warn(f"Input #{i} requires gradient and is not a double precision floating point or complex. This "
                          "check will likely fail if all the inputs are not of double precision floating point or "
                          "complex. ", stacklevel=3)
        if any(stride == 0 and size > 1 for size, stride in zip(tensor.shape, tensor.stride())):
            raise RuntimeError(f"The {i}th input has a dimension with stride 0. gradcheck only supports inputs that "
                               "are non-overlapping to be able to compute the numerical gradients correctly. You "
                               "should call .contiguous on the input before passing it to gradcheck.")
    if not _differentiable(inputs):
        raise ValueError("gradcheck expects at least one input tensor to require gradient, but none of the them have "
                         "requires_grad=True.")


# ---- the two Jacobians: [output][input], a row for each real number of the output ----

def _numbers(call: Callable[[], Any]) -> list[Any]:
    return [_real(t).clone() for t in _tuple(call()) if _C._is_tensor(t) and _is_float(t)]


def _is_float(tensor: Any) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def _numerical(call: Callable[[], Any], tensor: Any, eps: float) -> list[list[Any]]:
    """Per output, columns for each real number of the input."""
    data = tensor.data
    places = _op("view_as_real")(data) if data.is_complex() else data
    columns: list[list[Any]] = []
    for index in _indices(tuple(places.shape)):
        value = places[index].item()
        places[index] = value + eps
        above = _numbers(call)
        places[index] = value - eps
        below = _numbers(call)
        places[index] = value
        columns.append([(a - b) / (2 * eps) for a, b in zip(above, below)])
    return [list(each) for each in zip(*columns)] if columns else []


def _indices(shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    found: list[tuple[int, ...]] = [()]
    for size in shape:
        found = [(*head, i) for head in found for i in range(size)]
    return found


def _seeds(output: Any) -> list[Any]:
    """A gradient for each real number of the output."""
    found = []
    for index in _indices(tuple(output.shape)):
        for unit in (1, 1j) if output.is_complex() else (1,):
            seed = _op("zeros")(output.shape, dtype=output.dtype)
            seed[index] = unit
            found.append(seed)
    return found


def _gradients(output: Any, inputs: Sequence[Any], seed: Any) -> list[Any]:
    from cresset import autograd
    return list(autograd.grad(output, inputs, seed, retain_graph=True, allow_unused=True))


def _analytical(output: Any, inputs: Sequence[Any], check_dtypes: bool) -> list[list[Any]]:
    """Per input, a row for each real number of the output."""
    rows: list[list[Any]] = [[] for _ in inputs]
    for seed in _seeds(output):
        for i, (tensor, grad) in enumerate(zip(inputs, _gradients(output, inputs, seed))):
            if check_dtypes and grad is not None and grad.dtype != tensor.dtype:
                raise GradcheckError(f"Gradient has dtype mismatch: the gradient of input {i} is {grad.dtype}, the "
                                     f"input {tensor.dtype}")
            if grad is not None and grad.shape != tensor.shape:
                raise GradcheckError(f"Gradient has incorrect size: the gradient of input {i} is {list(grad.shape)}, "
                                     f"the input {list(tensor.shape)}")
            rows[i].append(_op("zeros_like")(_real(tensor)) if grad is None else _real(grad))
    return rows


def _pushing(call: Callable[..., Any], inputs: Sequence[Any], wanted: Sequence[Any]) -> Callable[..., tuple[Any, ...]]:
    """A function of tangents of the wanted inputs that gives those of the outputs."""
    from cresset import func
    places = [next(i for i, t in enumerate(inputs) if t is w) for w in wanted]

    def of(*tensors: Any) -> Any:
        args = list(inputs)
        for place, tensor in zip(places, tensors):
            args[place] = tensor
        return tuple(t for t in _tuple(call(*args)) if _C._is_tensor(t) and _is_float(t))
    return lambda *tangents: func.jvp(of, tuple(t.detach() for t in wanted), tangents)[1]


def _forward(push: Callable[..., tuple[Any, ...]], wanted: Sequence[Any]) -> list[list[list[Any]]]:
    """The same by jvp: [output][input], columns for each real number of the input."""
    found: list[list[list[Any]]] = []
    for k, tensor in enumerate(wanted):
        for seed in _seeds(tensor):
            tangents = tuple(seed if i == k else _op("zeros_like")(t.detach()) for i, t in enumerate(wanted))
            columns = push(*tangents)
            if not found:
                found = [[[] for _ in wanted] for _ in columns]
            for output, column in enumerate(columns):
                found[output][k].append(_real(column))
    return found


def _matrix(rows: Sequence[Any], width: int) -> Any:
    return _op("stack")(list(rows)) if rows else _op("zeros")(0, width, dtype=_C.float64)


def _compare(numerical: Any, analytical: Any, output: int, index: int, atol: float, rtol: float, what: str) -> None:
    if not _op("allclose")(analytical, numerical, rtol, atol):
        raise GradcheckError(f"Jacobian mismatch for output {output} with respect to input {index},\n"
                             f"numerical:{numerical}\nanalytical:{analytical}\n({what}; each row is a real number of "
                             "the input, each column one of the output, complex ones are pairs)")


def _compare_batches(one: Callable[..., Sequence[Any]], all_of: Callable[..., Sequence[Any]], like: Sequence[Any],
                     atol: float, rtol: float, what: str) -> None:
    """Two random directions, one after the other and both at once."""
    pairs = [[_op("randn_like")(t.detach()) for _ in range(2)] for t in like]
    expected = zip(*(one(*(pair[i] for pair in pairs)) for i in range(2)))
    for i, (each, found) in enumerate(zip(expected, all_of(*(_op("stack")(pair) for pair in pairs)))):
        if each[0] is None:
            continue
        if not _op("allclose")(found, _op("stack")(list(each)), rtol, atol):
            raise GradcheckError(f"{what} {i}: vmap over two directions gives other numbers than a loop over them\n"
                                 f"loop:{_op('stack')(list(each))}\nvmap:{found}")


def _check(func: Callable[..., Any], inputs: tuple[Any, ...], eps: float, atol: float, rtol: float, nondet_tol: float,
           check_grad_dtypes: bool, check_forward_ad: bool, check_backward_ad: bool, batched: bool,
           batched_forward: bool) -> None:
    _check_inputs(inputs)
    wanted = _differentiable(inputs)
    numerical = [_numerical(lambda: func(*inputs), tensor, eps) for tensor in wanted]
    outputs = [t for t in _tuple(func(*inputs)) if _C._is_tensor(t) and _is_float(t)]
    for k, output in enumerate(outputs):
        width = _real(output).shape[0]
        expected = [_matrix(of[k] if of else [], width) for of in numerical]
        if not output.requires_grad:
            if any(bool((e != 0).any()) for e in expected):
                raise GradcheckError("Numerical gradient for function expected to be zero: output "
                                     f"{k} does not require grad, yet it depends on the inputs")
            continue
        if not check_backward_ad:
            continue
        rows = _analytical(output, wanted, check_grad_dtypes)
        again = _analytical(output, wanted, False)
        for i, tensor in enumerate(wanted):
            size = _real(tensor).shape[0]
            _compare(expected[i], _matrix(rows[i], size).t(), k, i, atol, rtol, "by backward")
            if rows[i] and float((_matrix(rows[i], size) - _matrix(again[i], size)).abs().sum()) > nondet_tol:
                raise GradcheckError("Backward is not reentrant, i.e., running backward with same input and "
                                     "grad_output multiple times gives different values, although analytical gradient "
                                     f"matches numerical gradient. The tolerance for nondeterminism was {nondet_tol}.")
        if batched:
            from cresset import autograd
            _compare_batches(lambda seed, out=output: _gradients(out, wanted, seed),
                             lambda seeds, out=output: autograd.grad(out, wanted, seeds, retain_graph=True,
                                                                     allow_unused=True, is_grads_batched=True),
                             [output], atol, rtol, "gradient of input")
    push = _pushing(func, inputs, wanted)
    if batched_forward and outputs and wanted:
        from cresset.func import vmap
        _compare_batches(push, vmap(push), wanted, atol, rtol, "tangent of output")
    for k, columns in enumerate(_forward(push, wanted) if check_forward_ad and outputs else []):
        for i in range(len(wanted)):
            width = _real(outputs[k]).shape[0]
            _compare(_matrix(numerical[i][k] if numerical[i] else [], width), _matrix(columns[i], width), k, i, atol,
                     rtol, "by jvp")


def gradcheck(func: Callable[..., Any], inputs: Any, *, eps: float = 1e-6, atol: float = 1e-5, rtol: float = 1e-3,
              raise_exception: bool = True, nondet_tol: float = 0.0, check_undefined_grad: bool = True,
              check_grad_dtypes: bool = False, check_batched_grad: bool = False,
              check_batched_forward_grad: bool = False, check_forward_ad: bool = False,
              check_backward_ad: bool = True, fast_mode: bool = False, masked: bool | None = None) -> bool:
    """Are the gradients of func(*inputs) those of finite differences, for every input that requires grad?"""
    # unused check_undefined_grad: each row is made of one output's gradient, the others being undefined
    # unused fast_mode, masked: the whole Jacobian is compared, and no tensor is sparse
    if not check_forward_ad and not check_backward_ad:
        raise AssertionError("Expected at least one of check_forward_ad and check_backward_ad to be True")
    if check_batched_grad and not check_backward_ad:
        raise AssertionError("Setting check_batched_grad=True requires check_backward_ad to be True")
    if check_batched_forward_grad and not check_forward_ad:
        raise AssertionError("Setting check_batched_forward_grad=True requires check_forward_ad to be True")
    try:
        _check(func, _tuple(inputs), eps, atol, rtol, nondet_tol, check_grad_dtypes, check_forward_ad,
               check_backward_ad, check_batched_grad, check_batched_forward_grad)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def gradgradcheck(func: Callable[..., Any], inputs: Any, grad_outputs: Any = None, *, eps: float = 1e-6,
                  atol: float = 1e-5, rtol: float = 1e-3, gen_non_contig_grad_outputs: bool = False,
                  raise_exception: bool = True, nondet_tol: float = 0.0, check_undefined_grad: bool = True,
                  check_grad_dtypes: bool = False, check_batched_grad: bool = False, check_fwd_over_rev: bool = False,
                  check_rev_over_rev: bool = True, fast_mode: bool = False, masked: bool = False) -> bool:
    """Are the second derivatives, with respect to inputs and grad_outputs (random ones by default), right?"""
    from cresset import autograd
    inputs = _tuple(inputs)
    if grad_outputs is None:
        outputs = _differentiable(func(*inputs))
        grads = tuple(_strided(_op("randn_like")(t.detach()), gen_non_contig_grad_outputs).requires_grad_()
                      for t in outputs)
    else:
        grads = _tuple(grad_outputs)
    count = len(grads)

    def first(*args: Any) -> Any:
        values, seeds = args[:-count] if count else args, args[-count:] if count else ()
        wanted = _differentiable(values)
        made = autograd.grad(_differentiable(func(*values)), wanted, seeds, create_graph=True, allow_unused=True)
        return tuple(g for g in made if g is not None)
    return gradcheck(first, inputs + grads, eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception,
                     nondet_tol=nondet_tol, check_undefined_grad=check_undefined_grad,
                     check_grad_dtypes=check_grad_dtypes, check_batched_grad=check_batched_grad, fast_mode=fast_mode,
                     check_forward_ad=check_fwd_over_rev, check_backward_ad=check_rev_over_rev, masked=masked)


def _strided(tensor: Any, apart: bool) -> Any:
    """The same numbers, with `apart` in a tensor whose elements do not touch."""
    return _op("stack")([tensor, tensor], -1)[..., 0] if apart else tensor
