"""Activation checkpointing: what a function saves for its derivative is not kept, but computed again by running the
function a second time when backward() asks for it.

    y = checkpoint(block, x, use_reentrant=False)

The plain form rests on saved-tensor hooks (autograd.graph): each saved tensor is a _Place in the order of saving, and
the second run fills the places. Its arguments are saved through the hooks around it, so that nested checkpoints keep
nothing that an outer one can compute. Selective checkpoints (create_selective_checkpoint_contexts) watch the ops of
both runs: what a policy wants saved is kept by the first and given by the second. The reentrant form is an
autograd.Function that runs backward() inside of its own. In a program that is compiled ahead of time (aot_function) the
function is a region, whose values are computed again where the graph is partitioned. In other recordings it simply
runs.
"""
from __future__ import annotations

import collections
import contextlib
import enum
import itertools
import traceback
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from cresset import _C, amp, autograd
from cresset._grad_mode import enable_grad, no_grad
from cresset.autograd.function import Function, _compiling
from cresset.autograd.graph import saved_tensors_hooks
from cresset.utils._pytree import tree_map, tree_unflatten

__all__ = ["checkpoint", "checkpoint_sequential", "CheckpointError", "CheckpointFunction", "check_backward_validity",
           "detach_variable", "noop_context_fn", "set_checkpoint_early_stop", "set_checkpoint_debug_enabled",
           "CheckpointPolicy", "SelectiveCheckpointContext", "create_selective_checkpoint_contexts", "SAC_IGNORED_OPS"]


class CheckpointError(RuntimeError):
    """The second run did not do what the first did."""


class _Stop(BaseException):
    """Everything that was saved has been computed again."""


_early_stop: bool | None = None
_debug: bool | None = None
_outside = itertools.count(-1, -1)  # numbers for reads outside of any backward


@contextlib.contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """Inside of the block second runs stop as soon as all saved tensors are there, or not, whatever checkpoint() was
    told."""
    global _early_stop
    before, _early_stop = _early_stop, enable
    try:
        yield
    finally:
        _early_stop = before


@contextlib.contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Iterator[None]:
    """Inside of the block debug= of checkpoint() is this; None: as it was given."""
    global _debug
    before, _debug = _debug, enabled
    try:
        yield
    finally:
        _debug = before


def noop_context_fn() -> tuple[Any, Any]:
    return contextlib.nullcontext(), contextlib.nullcontext()


# ---- what surrounds a call ----

class _Surroundings:
    """The generator's state and mixed precision of the first run, for the second."""

    def __init__(self, preserve_rng_state: bool) -> None:
        self.state = _C.get_rng_state() if preserve_rng_state else None
        self.autocast = {"enabled": amp.is_autocast_enabled("cpu"), "dtype": amp.get_autocast_dtype("cpu"),
                         "cache_enabled": amp.is_autocast_cache_enabled()}

    @contextlib.contextmanager
    def again(self) -> Iterator[None]:
        now = _C.get_rng_state() if self.state is not None else None
        if self.state is not None:
            _C.set_rng_state(self.state)
        try:
            with amp.autocast("cpu", **self.autocast):
                yield
        finally:
            if now is not None:
                _C.set_rng_state(now)


# ---- what of a function is kept ----

class CheckpointPolicy(enum.Enum):
    """What becomes of an op's results: saved, or computed again. PREFER_... leave it to compilers to do better; here
    they are the same. Nothing is taken off a CPU: ..._CPU_OFFLOAD computes again, as in PyTorch."""
    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4
    PREFER_CPU_OFFLOAD = 5


class SelectiveCheckpointContext:
    """What a policy is told beside the op and its arguments. It is asked in the first run alone."""

    def __init__(self, *, is_recompute: bool, op_output: Any = None) -> None:
        self.is_recompute, self.op_output = is_recompute, op_output


SAC_IGNORED_OPS = {_C._packet("aten", "detach").default}
_AGAIN, _GONE = object(), object()
_MISMATCH = ("This can happen if the operations in the checkpointed region are nondeterministic or depend on global "
             "state that changed between forward and backward.")


class _Kept:
    """A result that was saved: a tensor without its history, or a number."""
    __slots__ = ("value", "version")

    def __init__(self, value: Any) -> None:
        tensor = _C._is_tensor(value)
        self.value, self.version = (value.detach(), value._version) if tensor else (value, None)

    def get(self, mutable: bool) -> Any:
        if self.version is None:
            return self.value
        if self.value._version != self.version and not mutable:
            raise RuntimeError("Tensor cached during selective activation checkpoint has been mutated; write to a "
                               "clone() of it, or pass allow_cache_entry_mutation=True")
        return self.value.detach()


class _Watching:
    """Around a run of the function: sees its ops, which are numbered for each overload."""

    def __init__(self, storage: dict[Any, dict[int, Any]]) -> None:
        self.storage, self.counts = storage, collections.Counter()

    def number(self, op: Any) -> int:
        self.counts[op] += 1
        return self.counts[op] - 1

    def __exit__(self, *exception: Any) -> None:
        _C._pop_watch()


class _First(_Watching):
    def __init__(self, storage: dict[Any, dict[int, Any]], policy: Callable[..., Any]) -> None:
        super().__init__(storage)
        self.policy = policy

    def __enter__(self) -> None:
        _C._push_watch(None, self._after)

    def _after(self, op: Any, made: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool | None:
        if op in SAC_IGNORED_OPS:
            return None
        i = self.number(op)
        policy = self.policy(SelectiveCheckpointContext(is_recompute=False, op_output=made), op, *args, **kwargs)
        save = policy if isinstance(policy, bool) else policy in (CheckpointPolicy.MUST_SAVE,
                                                                  CheckpointPolicy.PREFER_SAVE)
        if not _C._is_recording():
            self.storage.setdefault(op, {})[i] = tree_map(_Kept, made) if save else _AGAIN
        return save


class _Second(_Watching):
    def __init__(self, storage: dict[Any, dict[int, Any]], mutable: bool) -> None:
        super().__init__(storage)
        self.mutable = mutable

    def __enter__(self) -> None:
        self.counts.clear()
        _C._push_watch(self._before, None)

    def _before(self, op: Any, _none: None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        # unused args, kwargs: the op and how often it was called say which call it is
        if op in SAC_IGNORED_OPS:
            return None
        i = self.number(op)
        kept = self.storage.get(op)
        if kept is None:
            raise RuntimeError(f"{op} encountered during backward but not found in storage. {_MISMATCH}")
        if i not in kept:
            raise RuntimeError(f"{op} invocation index {i} encountered during backward but not found in storage. "
                               f"{_MISMATCH}")
        value = kept[i]
        if value is _GONE:
            raise RuntimeError("Trying to backward an extra time. You are only allowed to backward once on any region "
                               "computed under selective activation checkpoint.")
        if value is _AGAIN:
            return None
        kept[i] = _GONE
        return tree_map(lambda each: each.get(self.mutable), value)


def create_selective_checkpoint_contexts(policy_fn_or_list: Any, allow_cache_entry_mutation: bool = False) -> Any:
    """The two contexts of checkpoint(context_fn=functools.partial(create_selective_checkpoint_contexts, policy)): what
    the ops of a list give is saved, and all else computed again; or a function policy(ctx, op, *args, **kwargs) says it
    of each call by a CheckpointPolicy."""
    if isinstance(policy_fn_or_list, list):
        for op in policy_fn_or_list:
            if not isinstance(op, _C.OpOverload):
                more = (" Please update the OpOverloadPacket to a specific OpOverload. For example, if you have "
                        "`torch.ops.aten.mm`, change it to `torch.ops.aten.mm.default`."
                        if isinstance(op, _C.OpOverloadPacket) else "")
                raise ValueError(f"Expected op in `op_list` to be an OpOverload but got: {op} of type "
                                 f"{type(op)}.{more}")
        policy = lambda ctx, op, *args, **kwargs: op in policy_fn_or_list  # noqa: E731
    elif callable(policy_fn_or_list):
        policy = policy_fn_or_list
    else:
        raise TypeError("policy_fn_or_list must be either a function or a list of ops.")
    storage: dict[Any, dict[int, Any]] = {}
    return _First(storage, policy), _Second(storage, allow_cache_entry_mutation)


# ---- the plain form ----

class _Place:
    """One saved tensor: what a node keeps of it."""
    __slots__ = ("values", "region", "__weakref__")

    def __init__(self, region: _Region) -> None:
        self.region = region
        self.values: dict[int, Any] = {}  # number of the backward -> the tensor


def _meta(tensor: Any) -> dict[str, Any]:
    return {"shape": tensor.shape, "dtype": tensor.dtype, "device": tensor.device}


def _here() -> str:
    """The user's line that saves a tensor just now."""
    frame = next((f for f in reversed(traceback.extract_stack()) if f.filename != __file__), None)
    return f"{frame.filename}:{frame.lineno}: {frame.line}" if frame else "?"


class _Arguments:
    """Arguments of the call, tensors saved as the hooks around it want."""

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        hooks = _C._top_saved_hooks()
        self.unpack = None if hooks is None else hooks[1]
        with no_grad():
            self.args = [self._keep(a, hooks) for a in args]
            self.kwargs = {key: self._keep(a, hooks) for key, a in kwargs.items()}

    @staticmethod
    def _keep(value: Any, hooks: Any) -> tuple[Any, ...]:
        """(value,), or for what hooks keep (what they gave, where its gradient goes)."""
        return (value,) if hooks is None or not _C._is_tensor(value) else (hooks[0](value), _C._edge(value))

    def _read(self, kept: tuple[Any, ...]) -> Any:
        if len(kept) == 1:
            return kept[0]
        tensor, edge = self.unpack(kept[0]), kept[1]
        return tensor if edge is None else _C._as_result(tensor, *edge[:2])

    def get(self) -> tuple[list[Any], dict[str, Any]]:
        return [self._read(a) for a in self.args], {key: self._read(a) for key, a in self.kwargs.items()}


class _Region:
    """One call of checkpoint()."""

    def __init__(self, function, arguments, surroundings, context, early_stop, checks, debug):
        self.function, self.arguments, self.surroundings, self.context = function, arguments, surroundings, context
        self.early_stop, self.checks = early_stop, checks
        self.places: list[weakref.ref[_Place]] = []
        self.metas: list[dict[str, Any]] = []
        self.lines: list[str] | None = [] if debug else None
        self.complete = False
        self.runs: set[int] = set()

    def hooks(self) -> saved_tensors_hooks:
        return saved_tensors_hooks(self._pack, self._unpack)

    def _pack(self, tensor: Any) -> _Place:
        place = _Place(self)
        self.places.append(weakref.ref(place))
        self.metas.append(_meta(tensor))
        if self.lines is not None:
            self.lines.append(_here())
        return place

    def _unpack(self, place: _Place) -> Any:
        number = _C._walk_number() or next(_outside)
        if number not in self.runs:
            self._run(number)
        if number not in place.values:
            raise CheckpointError("torch.utils.checkpoint: Unpack is being triggered for a tensor that was either "
                                  "never recomputed, or already unpacked once. If you are calling ctx.saved_tensors in "
                                  "backward, make sure to do so only once. Otherwise pass early_stop=False")
        return place.values.pop(number)

    def _run(self, number: int) -> None:
        metas: list[dict[str, Any]] = []
        lines: list[str] = []

        def pack(tensor):
            i = len(metas)
            metas.append(_meta(tensor))
            if self.lines is not None:
                lines.append(_here())
            place = self.places[i]() if i < len(self.places) else None
            if place is not None:
                place.values[number] = tensor.detach()
            if self.early_stop and self.complete and len(metas) == len(self.places):
                raise _Stop
            return tensor.detach()

        def unpack(tensor):
            raise CheckpointError("torch.utils.checkpoint: backward() runs inside of the second run, on what the first "
                                  "one has already freed; move it out of the checkpointed function")
        args, kwargs = self.arguments.get()
        with contextlib.suppress(_Stop), self.surroundings.again(), enable_grad(), self.context, \
                saved_tensors_hooks(pack, unpack):
            self.function(*args, **kwargs)
        self.runs.add(number)
        if self.complete:
            self._check(metas, lines)

    def _check(self, metas: list[dict[str, Any]], lines: list[str]) -> None:
        debug = "" if self.lines is None else "\n".join(
            ["", "Saved during the forward:", *self.lines, "Saved during the recomputation:", *lines])
        if len(metas) != len(self.metas):
            raise CheckpointError(
                "torch.utils.checkpoint: A different number of tensors was saved during the original forward and "
                f"recomputation.\nNumber of tensors saved during forward: {len(self.metas)}\nNumber of tensors saved "
                f"during recomputation: {len(metas)}.\nThe function must do the same both times; debug=True shows "
                f"where tensors are saved.{debug}")
        different = [(i, a, b) for i, (a, b) in enumerate(zip(self.metas, metas)) if a != b] if self.checks else []
        if different:
            told = "\n".join(f"tensor at position {i}:\nsaved metadata: {a}\nrecomputed metadata: {b}"
                             for i, a, b in different)
            raise CheckpointError(
                "torch.utils.checkpoint: Recomputed values for the following tensors have different metadata than "
                f"during the forward pass.\n{told}\nThe function must do the same both times; debug=True shows where "
                f"tensors are saved.{debug}")


def _region_of(function, args, kwargs):
    """The call as a region that a partitioner computes again. What a region cannot say (writes to tensors from outside,
    results that are its operands) is recorded as it is, without one."""
    from cresset._higher_order import _Recorded
    body = _Recorded("checkpoint()", "function", lambda: function(*args, **kwargs), (), True).run(())
    places = [i for i, leaf in enumerate(body.leaves) if _C._is_tensor(leaf)]
    graph = body.body.finish(tuple(body.leaves[i] for i in places), "wrapped_body", False)
    if body.body.problem or not places:
        return function(*args, **kwargs)
    made = _C._packet("higher_order", "tag_activation_checkpoint")(graph, list(body.body.lifted))
    leaves = list(body.leaves)
    for i, result in zip(places, made if isinstance(made, (tuple, list)) else [made]):
        leaves[i] = result
    return tree_unflatten(leaves, body.spec)


def _plain(function, args, kwargs, preserve, context_fn, checks, debug, early_stop):
    context_fn = noop_context_fn if context_fn is None else context_fn
    if _C.is_grad_enabled() and _C._is_recording() and (getattr(_compiling, "on", False) or _C._is_capturing()):
        forward, again = context_fn()
        if not isinstance(again, (_Second, contextlib.nullcontext)):
            raise NotImplementedError("checkpoint(context_fn=...) in a function that is compiled ahead of time: there "
                                      "is no second run that a context could be around; those of "
                                      "create_selective_checkpoint_contexts() can be, others leave out")

        def inside(*args, **kwargs):
            with forward:
                return function(*args, **kwargs)
        return _region_of(inside, args, kwargs)
    forward, again = context_fn()
    if not _C.is_grad_enabled() or _C._is_recording():
        with forward:
            return function(*args, **kwargs)
    region = _Region(function, _Arguments(args, kwargs), _Surroundings(preserve), again,
                     early_stop if _early_stop is None else _early_stop, checks, debug if _debug is None else _debug)
    with forward, region.hooks():
        result = function(*args, **kwargs)
    region.complete = True
    return result


_plain._cresset_rule = "transform"  # captures run it on what they record (capture/rules.c)
_plain.__qualname__ = "checkpoint"  # for their reasons


# ---- the reentrant form ----

def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The same tensors without their history, which require grad where they did."""
    if not isinstance(inputs, tuple):
        raise RuntimeError(f"Only tuple of tensors is supported. Got Unsupported input type: {type(inputs).__name__}")
    return tuple(a.detach().requires_grad_(a.requires_grad) if _C._is_tensor(a) else a for a in inputs)


def check_backward_validity(inputs: Iterable[Any]) -> None:
    """Warns where no input requires grad."""
    if not any(a.requires_grad for a in inputs if _C._is_tensor(a)):
        warnings.warn("None of the inputs have requires_grad=True. Gradients will be None", stacklevel=4)


class CheckpointFunction(Function):
    @staticmethod
    def forward(ctx, run_function, preserve_rng_state, *args):
        check_backward_validity(args)
        ctx.run_function, ctx.surroundings = run_function, _Surroundings(preserve_rng_state)
        ctx.others = [None if _C._is_tensor(a) else a for a in args]
        ctx.places = [i for i, a in enumerate(args) if _C._is_tensor(a)]
        ctx.save_for_backward(*(args[i] for i in ctx.places))
        return run_function(*args)

    @staticmethod
    def backward(ctx, *grads):
        if _C._walk_has_inputs():
            raise RuntimeError("When use_reentrant=True, torch.utils.checkpoint is incompatible with .grad() or "
                               "passing an `inputs` parameter to .backward(). To resolve this error, you can either "
                               "set use_reentrant=False, or call .backward() without passing the `inputs` argument.")
        args = list(ctx.others)
        for i, tensor in zip(ctx.places, ctx.saved_tensors):
            args[i] = tensor
        args = detach_variable(tuple(args))
        with ctx.surroundings.again(), enable_grad():
            outputs = ctx.run_function(*args)
        outputs = (outputs,) if _C._is_tensor(outputs) else outputs
        pairs = [(out, grad) for out, grad in zip(outputs, grads) if _C._is_tensor(out) and out.requires_grad]
        if not pairs:
            raise RuntimeError("none of output has requires_grad=True, this checkpoint() is not necessary")
        autograd.backward([out for out, _ in pairs], [grad for _, grad in pairs])
        return (None, None, *(a.grad if _C._is_tensor(a) else None for a in args))


# ---- the two together ----

def checkpoint(function: Callable[..., Any], *args: Any, use_reentrant: bool | None = None,
               context_fn: Callable[[], tuple[Any, Any]] = noop_context_fn, determinism_check: str = "default",
               debug: bool = False, early_stop: bool = True, preserve_rng_state: bool = True, **kwargs: Any) -> Any:
    """function(*args, **kwargs), whose saved tensors are computed again in backward().

    use_reentrant: give it; False is the better one (any inputs of backward, keywords, nesting, early stop).
    preserve_rng_state: random numbers are the same in the second run. context_fn: makes two context managers, one
    around each run. determinism_check: "default" compares shapes and dtypes of both runs, "none" does not.
    """
    if use_reentrant is None:
        warnings.warn("checkpoint(): use_reentrant should be passed explicitly; use_reentrant=False is recommended, "
                      "True is what is used now", stacklevel=2)
        use_reentrant = True
    if determinism_check not in ("default", "none"):
        raise ValueError(f"determinism_check should be one of ['default', 'none'] but got {determinism_check!r}")
    if not use_reentrant:
        contexts = None if context_fn is noop_context_fn else context_fn
        return _plain(function, args, kwargs, preserve_rng_state, contexts, determinism_check == "default", debug,
                      early_stop)
    if kwargs:
        raise ValueError(f"Unexpected keyword arguments: {','.join(kwargs)}; the reentrant form takes none: use "
                         "use_reentrant=False")
    if context_fn is not noop_context_fn or debug:
        raise ValueError("Passing `context_fn` or `debug` is only supported when use_reentrant=False.")
    if _C._is_recording():
        compiling = _C.is_grad_enabled() and getattr(_compiling, "on", False)
        return _region_of(function, args, {}) if compiling else function(*args)
    return CheckpointFunction.apply(function, preserve_rng_state, *args)


def checkpoint_sequential(functions: Iterable[Callable[..., Any]], segments: int, input: Any,
                          use_reentrant: bool | None = None, **kwargs: Any) -> Any:
    """The functions one after the other, in checkpointed segments of equal length; the last one is not."""
    if use_reentrant is None:
        warnings.warn("checkpoint_sequential(): use_reentrant should be passed explicitly; use_reentrant=False is "
                      "recommended, True is what is used now", stacklevel=2)
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError(f"Unexpected keyword arguments: {','.join(kwargs)}; checkpoint_sequential() takes "
                         "use_reentrant and preserve_rng_state")
    chain = list(functions.children() if hasattr(functions, "children") else functions)
    if not 1 <= segments <= len(chain):
        raise ValueError(f"checkpoint_sequential(): {len(chain)} functions make 1 to {len(chain)} segments, not "
                         f"{segments}")

    def run(start: int, stop: int) -> Callable[[Any], Any]:
        def segment(value: Any) -> Any:
            for function in chain[start:stop]:
                value = function(value)
            return value
        return segment
    size = len(chain) // segments
    for start in range(0, size * (segments - 1), size):
        input = checkpoint(run(start, start + size), input, use_reentrant=use_reentrant, preserve_rng_state=preserve)
    return run(size * (segments - 1), len(chain))(input)
