"""autograd.functional: vjp, jvp, jacobian, hessian, vhp, hvp of a function of tensors.

Each runs the function on copies of the inputs that require grad. jvp is the transpose of vjp: the gradients for a dummy
seed are linear in the seed, so pulling the tangents back through them gives the derivative forwards. The seed is 1,
where linear maps that are computed by steps like logarithms are smooth.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cresset import _C, autograd

__all__ = ["vjp", "jvp", "jacobian", "hessian", "hvp", "vhp"]

_op = _C._function


def _tuple(value: Any, what: str, name: str) -> tuple[bool, tuple[Any, ...]]:
    """(was it a tuple?, the tensors)"""
    many = isinstance(value, tuple)
    values = value if many else (value,)
    for i, t in enumerate(values):
        if not _C._is_tensor(t):
            place = f"value at index {i} of the {what}" if many else f"{what}"
            raise TypeError(f"The {place} given to {name} must be either a Tensor or a tuple of Tensors but the given "
                            f"{place} has type {type(t).__name__}.")
    return many, values


def _like(values: tuple[Any, ...], many: bool) -> Any:
    return values if many else values[0]


def _enter(inputs: tuple[Any, ...], create_graph: bool) -> tuple[Any, ...]:
    """The inputs as the function sees them: with create_graph connected to the given ones."""
    if create_graph:
        return tuple(t.view_as(t) if t.requires_grad else t.detach().requires_grad_() for t in inputs)
    return tuple(t.detach().requires_grad_() for t in inputs)


def _leave(values: tuple[Any, ...], create_graph: bool) -> tuple[Any, ...]:
    return values if create_graph else tuple(t.detach() for t in values)


def _check_v(v: Any, other: tuple[Any, ...], many: bool, name: str) -> tuple[Any, ...]:
    given, values = _tuple(v, "v", name)
    if len(values) != len(other):
        raise RuntimeError(f"v is a tuple of invalid length: should be {len(other)} but got {len(values)}.")
    for i, (a, b) in enumerate(zip(values, other)):
        if a.shape != b.shape:
            place = f"Entry {i} in v" if many or given else "v"
            raise RuntimeError(f"{place} has invalid size: should be {list(b.shape)} but got {list(a.shape)}.")
    return values


def _one(outputs: tuple[Any, ...], name: str, what: str) -> None:
    if len(outputs) == 1 and outputs[0].numel() == 1:
        return
    raise RuntimeError(f"The {what} given to {name} should return a single Tensor with a single element; use vjp or "
                       "jvp for others")


def _grad(outputs: tuple[Any, ...], inputs: tuple[Any, ...], seeds: Any, create_graph: bool) -> tuple[Any, ...]:
    """Gradients, None where nothing flows."""
    pairs = [(o, s) for o, s in zip(outputs, seeds or [None] * len(outputs)) if o.requires_grad]
    if not pairs:
        return (None,) * len(inputs)
    return autograd.grad([o for o, _ in pairs], inputs, [s for _, s in pairs], create_graph=create_graph,
                         retain_graph=True, allow_unused=True)


def _fill(grads: tuple[Any, ...], like: tuple[Any, ...], strict: bool, create_graph: bool, stage: str) -> \
        tuple[Any, ...]:
    """Zeros for what does not depend on an input; an error where that is not allowed."""
    for i, g in enumerate(grads) if strict else ():
        if g is None:
            raise RuntimeError(f"{stage} is independent of input {i}. This is not allowed in strict mode.")
        if create_graph and not g.requires_grad:
            raise RuntimeError(f"{stage}: the derivative with respect to input {i} does not require gradients. This is "
                               "not allowed in strict mode when create_graph=True.")
    return tuple(_op("zeros_like")(t.detach()) if g is None else g for g, t in zip(grads, like))


def _run(func: Callable[..., Any], inputs: tuple[Any, ...], name: str, strict: bool) -> tuple[bool, tuple[Any, ...]]:
    many, outputs = _tuple(func(*inputs), "outputs of the user-provided function", name)
    if strict:
        for i, output in enumerate(outputs):
            if not output.requires_grad:
                raise RuntimeError(f"Output {i} of the user-provided function does not require gradients. The outputs "
                                   "must be computed in a differentiable manner from the input when running in strict "
                                   "mode.")
    return many, outputs


class _recorded:
    """Grad mode is on inside."""

    def __enter__(self) -> None:
        self.before = _C._set_grad_enabled(True)

    def __exit__(self, *error: object) -> None:
        _C._set_grad_enabled(self.before)


def vjp(func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """(func(*inputs), v^T J)"""
    with _recorded():
        many_in, given = _tuple(inputs, "inputs", "vjp")
        entered = _enter(given, create_graph)
        many_out, outputs = _run(func, entered, "vjp", strict)
        if v is None:
            if len(outputs) != 1 or outputs[0].numel() != 1:
                raise RuntimeError("The vector v can only be None if the user-provided function returns a single "
                                   "Tensor with a single element.")
            seeds = (_op("ones_like")(outputs[0].detach()),)
        else:
            seeds = _check_v(v, outputs, many_out, "vjp")
        found = _fill(_grad(outputs, entered, seeds, create_graph), entered, strict, create_graph,
                      "The output of the user-provided function")
    return _like(_leave(outputs, create_graph), many_out), _like(_leave(found, create_graph), many_in)


def jvp(func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """(func(*inputs), J v)"""
    with _recorded():
        many_in, given = _tuple(inputs, "inputs", "jvp")
        if v is None:
            if len(given) != 1 or given[0].numel() != 1:
                raise RuntimeError("The vector v can only be None if the input to the user-provided function is a "
                                   "single Tensor with a single element.")
            tangents: tuple[Any, ...] = (_op("ones_like")(given[0].detach()),)
        else:
            tangents = _check_v(v, given, many_in, "jvp")
        entered = _enter(given, create_graph)
        many_out, outputs = _run(func, entered, "jvp", strict)
        seeds = tuple(_op("ones_like")(o.detach()).requires_grad_() for o in outputs)
        pulled = _fill(_grad(outputs, entered, seeds, True), entered, strict, False,
                       "The output of the user-provided function")
        found = _fill(_grad(pulled, seeds, tangents, create_graph), seeds, False, create_graph, "The derivative")
    return _like(_leave(outputs, create_graph), many_out), _like(_leave(found, create_graph), many_out)


def _rows(output: Any, entered: tuple[Any, ...], strict: bool, create_graph: bool, index: int) -> list[Any]:
    """The Jacobian of one output: per input, [*output.shape, *input.shape]."""
    rows: list[list[Any]] = [[] for _ in entered]
    seed = _op("zeros")(output.numel(), dtype=output.dtype)
    for k in range(output.numel()):
        seed = seed.clone()
        seed.zero_()
        seed[k] = 1
        grads = _fill(_grad((output,), entered, (seed.reshape(output.shape),), create_graph), entered, strict,
                      create_graph, f"Output {index} of the user-provided function")
        for row, g in zip(rows, grads):
            row.append(g)
    return [(_op("stack")(row) if row else _op("zeros")(0, *t.shape, dtype=t.dtype)).reshape(*output.shape, *t.shape)
            for row, t in zip(rows, entered)]


def _all_rows(output: Any, entered: tuple[Any, ...], create_graph: bool) -> list[Any]:
    """The same in one walk for all rows."""
    from cresset import _vmap
    pull = lambda seed: tuple(_fill(_grad((output,), entered, (seed,), create_graph), entered, False, create_graph, ""))
    found = _vmap.over_basis(pull, [output])
    return [(_op("zeros")(0, dtype=t.dtype) if found is None else found[i]).reshape(*output.shape, *t.shape)
            for i, t in enumerate(entered)]


def _columns(func: Callable[..., Any], given: tuple[Any, ...], create_graph: bool) -> tuple[bool, list[list[Any]]]:
    """The same by jvp: [output][input]."""
    many, outputs, found = False, (), []
    for i, tensor in enumerate(given):
        columns = []
        for k in range(tensor.numel()):
            tangents = [_op("zeros_like")(t.detach()) for t in given]
            tangents[i].view(-1)[k] = 1
            value, column = jvp(func, given, tuple(tangents), create_graph)
            many, outputs = isinstance(value, tuple), value if isinstance(value, tuple) else (value,)
            columns.append(column if many else (column,))
        found.append([_op("stack")([c[o] for c in columns], -1).reshape(*outputs[o].shape, *tensor.shape)
                      for o in range(len(outputs))])
    return many, [list(each) for each in zip(*found)]


def jacobian(func: Callable[..., Any], inputs: Any, create_graph: bool = False, strict: bool = False,
             vectorize: bool = False, strategy: str = "reverse-mode") -> Any:
    """The derivative of every output element with respect to every input element: [*output.shape, *input.shape]; a
    tuple for several outputs, of a tuple for several inputs."""
    if strategy not in ("reverse-mode", "forward-mode"):
        raise AssertionError('Expected strategy to be either "forward-mode" or "reverse-mode". Hint: If your function '
                             'has more outputs than inputs, "forward-mode" tends to be more performant. Otherwise, '
                             'prefer to use "reverse-mode".')
    if strategy == "forward-mode" and create_graph:
        raise NotImplementedError("torch.autograd.functional.jacobian: `create_graph=True` and "
                                  '`strategy="forward-mode"` are not supported together (yet). Please either set '
                                  '`create_graph=False` or `strategy="reverse-mode"`.')
    if vectorize and strict:
        raise RuntimeError("torch.autograd.functional.jacobian: `strict=True` and `vectorized=True` are not supported "
                           "together. Please either set `strict=False` or `vectorize=False`.")
    if strategy == "forward-mode" and strict:
        raise RuntimeError('torch.autograd.functional.jacobian: `strict=True` and `strategy="forward-mode"` are not '
                           'supported together (yet). Please either set `strict=False` or `strategy="reverse-mode"`.')
    if strategy == "forward-mode" and not vectorize:
        raise NotImplementedError('Computing Jacobian using forward-AD or forward-over-reverse Hessian is only '
                                  'implemented for `vectorize=True`.')
    with _recorded():
        many_in, given = _tuple(inputs, "inputs", "jacobian")
        if strategy == "forward-mode":
            many_out, found = _columns(func, given, create_graph)
        else:
            entered = _enter(given, create_graph)
            many_out, outputs = _run(func, entered, "jacobian", strict)
            found = [_all_rows(output, entered, create_graph) if vectorize else
                     _rows(output, entered, strict, create_graph, i) for i, output in enumerate(outputs)]
    made = tuple(_like(_leave(tuple(rows), create_graph), many_in) for rows in found)
    return made if many_out else made[0]


def hessian(func: Callable[..., Any], inputs: Any, create_graph: bool = False, strict: bool = False,
            vectorize: bool = False, outer_jacobian_strategy: str = "reverse-mode") -> Any:
    """The second derivatives of a function with one number as its result."""
    many, _ = _tuple(inputs, "inputs", "hessian")

    def single(*args: Any) -> Any:
        output = func(*args)
        _one(_tuple(output, "outputs of the user-provided function", "hessian")[1], "hessian", "function")
        return output.squeeze()

    def first(*args: Any) -> Any:
        return jacobian(single, args, create_graph=True, strict=strict)
    made = jacobian(first, inputs if many else (inputs,), create_graph, strict, vectorize, outer_jacobian_strategy)
    return made if many else made[0][0]


def _second(inputs: Any, v: Any, name: str) -> Any:
    """(was it a tuple?, inputs, v)"""
    many, given = _tuple(inputs, "inputs", name)
    if v is None:
        if len(given) != 1 or given[0].numel() != 1:
            raise RuntimeError("The vector v can only be None if the input to the user-provided function is a single "
                               "Tensor with a single element.")
        return many, given, (_op("ones_like")(given[0].detach()),)
    return many, given, _check_v(v, given, many, name)


def _first_of_one(func: Any, given: Any, create_graph: bool, strict: bool, name: str) -> tuple[Any, Any, Any]:
    """(inputs as entered, outputs, gradient of the one output) for a second derivative."""
    entered = _enter(given, create_graph)
    _, outputs = _run(func, entered, name, strict)
    _one(outputs, name, "function")
    return entered, outputs, _fill(_grad(outputs, entered, None, True), entered, strict, True,
                                   "The output of the user-provided function")


def vhp(func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """(func(*inputs), v^T H)"""
    with _recorded():
        many, given, seeds = _second(inputs, v, "vhp")
        entered, outputs, first = _first_of_one(func, given, create_graph, strict, "vhp")
        found = _fill(_grad(first, entered, seeds, create_graph), entered, strict, create_graph, "The jacobian")
    return _like(_leave(outputs, create_graph), False), _like(_leave(found, create_graph), many)


def hvp(func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """(func(*inputs), H v)"""
    with _recorded():
        many, given, tangents = _second(inputs, v, "hvp")
        entered, outputs, first = _first_of_one(func, given, create_graph, strict, "hvp")
        seeds = tuple(_op("ones_like")(t.detach()).requires_grad_() for t in first)
        second = _fill(_grad(first, entered, seeds, True), entered, strict, True, "The jacobian")
        found = _fill(_grad(second, seeds, tangents, create_graph), seeds, False, create_graph, "The hessian")
    return _like(_leave(outputs, create_graph), False), _like(_leave(found, create_graph), many)
