"""autograd.Function: a function with a backward of its own.

    class Scale(Function):
        @staticmethod
        def forward(ctx, x, factor):
            ctx.factor = factor
            return x * factor

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.factor, None

    y = Scale.apply(x, 3.0)

The context is the grad_fn of the results (src/python/node_type.c): apply() asks for a node before forward runs, with
grad mode off, and makes the results those of the node afterwards. What save_for_backward() was given is kept with its
version; a result is kept without its history, which it gets back when it is read.
"""
from __future__ import annotations

import contextlib
import functools
import inspect
import threading
import warnings
from typing import Any

from cresset import _C

__all__ = ["Function", "FunctionCtx", "BackwardCFunction", "FunctionMeta", "InplaceFunction", "once_differentiable"]

_is_tensor = _C._is_tensor
_compiling = threading.local()  # .on: a function is being recorded with its derivative, on this thread
_transposing = threading.local()  # .on: a walk back is recorded for its transpose, the derivative forwards


class _Saved:
    """One tensor of save_for_backward()."""
    __slots__ = ("tensor", "version", "result", "unpack", "edge")

    def __init__(self, tensor, result, hooks):
        self.result = result  # of the function; None: an input, or made on the way
        self.unpack = None
        if hooks is not None:
            pack, self.unpack = hooks
            self.edge = _C._edge(tensor) if result is None else None
            self.tensor = pack(tensor)
            return
        self.tensor = tensor.detach() if result is not None else tensor
        self.version = tensor._version

    def get(self, ctx):
        tensor = self.tensor
        if self.unpack is not None:
            tensor = self.unpack(tensor)
            if not _is_tensor(tensor):
                raise TypeError("Output of saved tensor unpack_hook expected to be a Tensor but got result of type "
                                f"{type(tensor).__name__}; return what the derivative is to read")
            if self.result is not None:
                return _C._as_result(tensor, ctx, self.result)
            return tensor if self.edge is None else _C._as_result(tensor, *self.edge[:2])
        if tensor._version != self.version:
            raise RuntimeError(
                "one of the variables needed for gradient computation has been modified by an inplace operation: a "
                f"tensor of shape {list(tensor.shape)} that {ctx.name()} saved is at version {tensor._version}; "
                f"expected version {self.version} instead. Write to a copy (.clone()), or after backward()")
        return tensor if self.result is None else _C._as_result(tensor, ctx, self.result)


class FunctionCtx:
    """What forward, setup_context and backward share."""

    def save_for_backward(self, *tensors: Any) -> None:
        self._to_save = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        self.saved_for_forward = tensors

    def mark_dirty(self, *args: Any) -> None:
        self._dirty = args

    def mark_shared_storage(self, *pairs: Any) -> None:  # unused pairs: which tensors share memory is known
        warnings.warn("mark_shared_storage is deprecated: tensors that share storage are found without it",
                      FutureWarning, stacklevel=2)

    def mark_non_differentiable(self, *args: Any) -> None:
        self._constant = args

    def set_materialize_grads(self, value: bool) -> None:
        self._materialize = bool(value)


class BackwardCFunction(_C._FunctionBase, FunctionCtx):
    """The context, which is the node of its results."""
    _to_save = _dirty = _constant = ()
    _materialize = True
    _saved = None
    _freed = False
    _metas = ()
    _inputs = ()  # of a function with a jvp: shape, dtype and device of its arguments, None for what is no tensor
    needs_input_grad = ()
    saved_for_forward: Any = None
    _runs_jvp = False
    _forward_cls: Any = None

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        if self._runs_jvp and self.saved_for_forward is not None:
            return tuple(self.saved_for_forward)
        if self._saved is None:
            if self._freed:
                raise RuntimeError(
                    f"Trying to backward through the graph a second time (or directly access saved tensors after they "
                    f"have already been freed): what {self.name()} saved was freed by the first backward(). Specify "
                    "retain_graph=True there")
            return tuple(self._to_save)
        return tuple(None if saved is None else saved.get(self) for saved in self._saved)

    @property
    def to_save(self):
        return self._to_save

    @property
    def dirty_tensors(self):
        return self._dirty

    @property
    def non_differentiable(self):
        return self._constant

    @property
    def materialize_grads(self):
        return self._materialize

    def apply(self, *grads: Any) -> Any:
        """Runs backward, or vjp, of the function."""
        function = self._forward_cls
        own, other = function.backward is not Function.backward, function.vjp is not Function.vjp
        if own and other:
            raise RuntimeError(f"{function.__name__}: implementing both 'backward' and 'vjp' for a custom Function is "
                               "not allowed: they are two names of one method. Keep one of them")
        return (function.vjp if other else function.backward)(self, *grads)

    def _call(self, grads):
        """For the node: one gradient, or None, for each tensor that apply() was given."""
        if self._inputs and getattr(_transposing, "on", False):
            return _transposed(self, grads)
        if self._materialize:
            grads = tuple(_zeros(meta) if grad is None and meta else grad for grad, meta in zip(grads, self._metas))
        made = self.apply(*grads)
        made = made if isinstance(made, tuple) else (made,)
        given = self._given
        if len(made) > len(given) and all(g is None for g in made[len(given):]):
            made = made[:len(given)]
        if len(made) != len(given):
            raise RuntimeError(f"function {self.name()} returned an incorrect number of gradients (expected "
                               f"{len(given)}, one for each argument of forward, None for those without; got "
                               f"{len(made)})")
        for i, (grad, is_tensor) in enumerate(zip(made, given)):
            if grad is not None and not is_tensor:
                raise RuntimeError(f"function {self.name()} returned a gradient different than None at position "
                                   f"{i + 1}, but the corresponding forward input was not a Variable; return None "
                                   "there")
            if grad is not None and not _is_tensor(grad):
                raise RuntimeError(f"function {self.name()} returned a {type(grad).__name__} as gradient {i + 1}: "
                                   "expected Variable or None")
        return tuple(grad for grad, is_tensor in zip(made, given) if is_tensor)

    def _forget(self):
        """For the node: it was walked, and the graph is not kept."""
        if self._saved:
            self._saved, self._freed = None, True


def _zeros(meta):
    shape, dtype, device = meta
    return _C._function("zeros")(shape, dtype=dtype, device=device)


@contextlib.contextmanager
def transposing():
    """Walks inside are recorded for their transpose: functions that have a jvp are walked by that."""
    before, _transposing.on = getattr(_transposing, "on", False), True
    try:
        yield
    finally:
        _transposing.on = before


def _transposed(ctx, grads):
    """Gradients that nobody reads: they are linear in `grads`, and the transpose of that map is the function's jvp."""
    seeds = [_zeros(meta) if grad is None and meta else grad for grad, meta in zip(grads, ctx._metas)]
    made = _Transposed.apply(ctx, *seeds)
    return tuple(grad for grad, given in zip(made, ctx._given) if given)


class FunctionMeta(type):
    """Gives every Function the class of its contexts: MyFunction has MyFunctionBackward."""

    def __init__(cls, name, bases, attributes):
        cls._backward_cls = type(name + "Backward", (BackwardCFunction,), {"_forward_cls": cls})
        super().__init__(name, bases, attributes)


def _bind(function, args, kwargs):
    """Arguments by position, defaults filled in."""
    signature = inspect.signature(function)
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.args


def _check_saved(tensors):
    for i, tensor in enumerate(tensors):
        if tensor is not None and not _is_tensor(tensor):
            raise TypeError(f"save_for_backward can only save variables, but argument {i} is of type "
                            f"{type(tensor).__name__}; keep other values as attributes of ctx")


def _as_constant(tensor, is_input, dirty):
    """An output that no gradient flows through."""
    if not tensor.requires_grad:
        return tensor.view_as(tensor) if is_input and not dirty else tensor
    if is_input:
        return tensor.detach()
    return tensor if tensor._is_view() else tensor.detach_()


def _finish(ctx, args, outputs, recorded, setup):
    """The outputs as those of the node; runs with grad mode off."""
    inputs = {id(a) for a in args if _is_tensor(a)}
    dirty, constant = {id(t) for t in ctx._dirty}, {id(t) for t in ctx._constant}
    missing = [t for t in ctx._dirty if not any(t is o for o in outputs)]
    if missing:
        raise RuntimeError("Some elements marked as dirty during the forward method were not returned as output. The "
                           "inputs that are modified inplace must all be outputs of the Function.")
    for tensor in ctx._dirty:
        _C._increment_version(tensor)
    saved_ids = {id(t) for t in ctx._to_save}
    places, wrapped = {}, []
    for i, out in enumerate(outputs):
        if not _is_tensor(out):
            wrapped.append(out)
            continue
        is_input, is_dirty = id(out) in inputs, id(out) in dirty
        if not recorded or id(out) in constant or not (out.is_floating_point() or out.is_complex()):
            wrapped.append(_as_constant(out, is_input, is_dirty))
            continue
        if is_dirty and not is_input:
            warnings.warn("ctx.mark_dirty() received a tensor that was not an input. Only input Tensors that have been "
                          "mutated should be passed to ctx.mark_dirty().", stacklevel=4)
        made = out
        if is_input and not is_dirty:
            if setup and id(out) in saved_ids:
                raise RuntimeError("A input that has been returned as-is as output is being saved for backward. This "
                                   "is not supported if you override setup_context. You should return and save a view "
                                   "of the input instead, e.g. with x.view_as(x) or setup ctx inside the forward "
                                   "function itself.")
            made = out.view_as(out)
        _C._function_result(ctx, i, made, is_dirty and is_input)
        if not is_input or is_dirty:
            places[id(out)] = i
        wrapped.append(made)
    if recorded:
        ctx._metas = tuple((t.shape, t.dtype, t.device) if _is_tensor(t) else None for t in outputs)
        _check_saved(ctx._to_save)
        hooks = _C._top_saved_hooks()
        ctx._saved = [None if t is None else _Saved(t, places.get(id(t)), hooks) for t in ctx._to_save]
        ctx._to_save = ()
    return wrapped


# ---- in a program that is compiled ahead of time ----

def _has_gradient(value):
    return _is_tensor(value) and (value.is_floating_point() or value.is_complex())


def _fitting(grad, tensor):
    """A gradient with the sizes and dtype of what it is of, as the engine makes it."""
    if list(map(str, grad.shape)) != list(map(str, tensor.shape)):
        grad = grad.sum_to_size(tensor.shape)
    return grad if grad.dtype == tensor.dtype else grad.to(tensor.dtype)


def _record(cls, args, setup):
    """Forward is recorded without gradients, backward as a body beside it: the results are those of a call that has
    that body for its derivative (cresset::function)."""
    from cresset._higher_order import _Recorded
    ctx = cls._backward_cls()
    ctx._given = tuple(map(_is_tensor, args))
    ctx.needs_input_grad = tuple(map(_has_gradient, args))
    before = _C._quiet_grad(False)
    try:
        raw = cls.forward(*args) if setup else cls.forward(ctx, *args)
        if setup:
            cls.setup_context(ctx, args, raw)
    finally:
        _C._quiet_grad(before)
    if ctx._dirty:
        raise NotImplementedError(f"{cls.__name__}: mark_dirty() in a function that is compiled ahead of time: its "
                                  "results are new tensors there; compute a new value and return it")
    outputs = list(raw) if isinstance(raw, tuple) else [raw]
    constant = {id(t) for t in ctx._constant}
    places = [i for i, out in enumerate(outputs) if _has_gradient(out) and id(out) not in constant]
    inputs = [a for a in args if _is_tensor(a)]
    if places and any(map(_has_gradient, inputs)):
        ctx._metas = tuple((t.shape, t.dtype, t.device) if _is_tensor(t) else None for t in outputs)
        _check_saved(ctx._to_save)
        reached = []

        def backward(*grads):
            each = [None] * len(outputs)
            for i, grad in zip(places, grads):
                each[i] = grad
            made = ctx._call(tuple(each))
            reached.extend(i for i, (grad, x) in enumerate(zip(made, inputs)) if grad is not None and _has_gradient(x))
            return [_fitting(made[i], inputs[i]) for i in reached]

        body = _Recorded(f"{cls.__name__}.apply()", "backward", backward, (), True)
        body.run(tuple(body.body.input(outputs[i]) for i in places))
        graph = body.body.finish(tuple(body.leaves), "backward_graph", False)
        results = _C._packet("cresset", "function")(graph, [inputs[i] for i in reached], [outputs[i] for i in places],
                                                    list(body.body.lifted))
        for i, made in zip(places, results if isinstance(results, (tuple, list)) else [results]):
            outputs[i] = made
    return tuple(outputs) if isinstance(raw, tuple) else outputs[0]


class Function(metaclass=FunctionMeta):
    """Subclass it, write forward and backward as static methods, and call apply()."""
    generate_vmap_rule = False

    def __init__(self, *args, **kwargs):
        raise RuntimeError(f"{type(self).__name__} should not be instantiated: methods on autograd functions are all "
                           f"static. Call {type(self).__name__}.apply(...)")

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """forward(ctx, *args), or forward(*args) beside a setup_context(ctx, inputs, output)."""
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        """Saves what backward needs, when forward takes no ctx."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """A gradient, or None, for each argument of forward, of the gradients of its outputs."""
        raise NotImplementedError("You must implement either the backward or vjp method for your custom "
                                  "autograd.Function to use it with backward mode AD.")

    vjp = backward

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:
        """The derivative forwards."""
        raise NotImplementedError("You must implement the jvp function for custom autograd.Function to use it with "
                                  "forward mode AD.")

    @staticmethod
    def vmap(info: Any, in_dims: Any, *args: Any) -> Any:
        """The function over a batch."""
        raise NotImplementedError("To use autograd.Function with vmap, please either override the vmap staticmethod or "
                                  "set generate_vmap_rule=True.")

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Runs forward; what requires grad afterwards has this function's backward."""
        setup = cls.setup_context is not Function.setup_context
        if setup:
            args = _bind(cls.forward, args, kwargs)
        elif kwargs:
            args = _bind(cls.forward, (None, *args), kwargs)[1:]
        if _C._vmap_depth() and any(map(_C._vmap_maps, args)):
            from cresset.autograd import _function_vmap
            return _function_vmap.call(cls, args)
        if getattr(_compiling, "on", False) and _C.is_grad_enabled():
            return _record(cls, args, setup)
        ctx = cls._backward_cls()
        ctx._given = tuple(map(_is_tensor, args))
        ctx.needs_input_grad = tuple(given and a.requires_grad for a, given in zip(args, ctx._given))
        if cls.jvp is not Function.jvp:
            ctx._inputs = tuple((a.shape, a.dtype, a.device) if given else None for a, given in zip(args, ctx._given))
        holder = _C._function_begin(ctx, [a for a, given in zip(args, ctx._given) if given])
        before = _C._quiet_grad(False)
        try:
            if setup:
                raw = cls.forward(*args)
                cls.setup_context(ctx, args, raw)
            else:
                raw = cls.forward(ctx, *args)
            outputs = raw if isinstance(raw, tuple) else (raw,)
            if holder is not None:
                _C._function_results(ctx, len(outputs))
            wrapped = _finish(ctx, args, outputs, holder is not None, setup)
        finally:
            _C._quiet_grad(before)
        return tuple(wrapped) if isinstance(raw, tuple) else wrapped[0]


class _Transposed(Function):
    @staticmethod
    def forward(ctx, of, *seeds):  # unused seeds: only the way from them matters
        ctx.of, ctx.seeds = of, len(seeds)
        return tuple(None if meta is None else _zeros(meta) for meta in of._inputs)

    @staticmethod
    def backward(ctx, *tangents):
        of = ctx.of
        of._runs_jvp = True
        try:
            made = of._forward_cls.jvp(of, *tangents)
        finally:
            of._runs_jvp = False
        made = made if isinstance(made, tuple) else (made,)
        if len(made) != ctx.seeds:
            raise RuntimeError(f"{of._forward_cls.__name__}.jvp() returned {len(made)} tangents; it returns one for "
                               f"each output of forward: {ctx.seeds}")
        for i, (tangent, meta) in enumerate(zip(made, of._metas)):
            if tangent is not None and (not _is_tensor(tangent) or not meta or tangent.shape != meta[0]):
                raise RuntimeError(f"{of._forward_cls.__name__}.jvp() returned "
                                   f"{list(tangent.shape) if _is_tensor(tangent) else type(tangent).__name__} as "
                                   f"tangent {i + 1}: a Tensor with the shape of that output is needed")
        return None, *made


class InplaceFunction(Function):
    """A Function that may write to its first input: only a name, for code that has it."""


class _Once(Function):
    @staticmethod
    def forward(ctx, *tensors):  # unused ctx: backward only raises
        return tuple(t.detach() for t in tensors)

    @staticmethod
    def backward(ctx, *grads):
        raise RuntimeError("trying to differentiate twice a function that was marked with @once_differentiable")


def once_differentiable(fn):
    """For a backward that has no derivative itself: to differentiate it is an error."""
    @functools.wraps(fn)
    def inner(ctx, *grads):
        before = _C._set_grad_enabled(False)
        try:
            made = fn(ctx, *grads)
        finally:
            _C._set_grad_enabled(before)
        if not before or not any(_is_tensor(g) and g.requires_grad for g in grads):
            return made
        each = made if isinstance(made, tuple) else (made,)
        tensors = [t.detach().requires_grad_() for t in each if t is not None]
        marked = iter(_Once.apply(*tensors) if tensors else ())
        each = tuple(None if t is None else next(marked) for t in each)
        return each if isinstance(made, tuple) else each[0]
    return inner
