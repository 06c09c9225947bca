"""cresset.func: functions of functions: vmap, and derivatives: grad, vjp, jvp, jacrev, jacfwd, hessian.

    dloss = func.grad(loss)                 # a function of the same arguments
    per_second = func.hessian(loss)(x)
    per_example = func.vmap(func.grad(loss), in_dims=(None, 0))

Derivatives are the tape: inside, arguments are copies that require grad, so functions may branch on their values.
Nested transforms are tapes of their own tensors; what an outer one, or backward(), needs of an inner one is recorded
exactly when something outside is involved. Derivatives forwards are transposes of vjp (autograd.functional.jvp).
Inside of vmap the tape records all examples at once: what a transform differentiates by is a tensor of its own for
each of them.
"""
from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from cresset import _C, autograd
from cresset._vmap import check_chunk_size, check_randomness, over_basis, vmap
from cresset.autograd.function import transposing
from cresset.nn.utils.stateless import functional_call
from cresset.utils import _pytree as pytree

__all__ = ["vmap", "grad", "grad_and_value", "vjp", "jvp", "jacrev", "jacfwd", "hessian", "linearize",
           "functional_call", "stack_module_state", "replace_all_batch_norm_modules_"]

_op = _C._function
Argnums = int | tuple[int, ...]


class _Level:
    """One run of a function under one transform."""

    def __init__(self, forwards: bool = False) -> None:
        self.forwards = forwards  # no_grad() inside does not end its derivatives
        self.given: list[Any] = []
        self.entered: list[Any] = []  # in their place
        self.own: list[Any] = []  # leaves that nobody else knows: entered ones without a history, seeds
        self.outside = False  # is anything recorded around the transform?
        # In a program that is recorded nobody knows yet who wants gradients: everything that may be wanted is linked.
        self.open = _C._is_recording()

    def __enter__(self) -> _Level:
        self.outside = self.before = _C._quiet_grad(True)
        if self.open:
            _C._transform(True)
            if self.forwards:
                _C._forwards(True)
        return self

    def __exit__(self, *error: object) -> None:
        _C._quiet_grad(self.before)
        if self.open:
            _C._transform(False)
            if self.forwards:
                _C._forwards(False)

    def enter(self, tree: Any, what: str) -> Any:
        """The tree with tensors that this level differentiates by."""
        def one(t: Any) -> Any:
            if not _C._is_tensor(t):
                raise ValueError(f"{what} contains a {type(t).__name__}: Expected all elements of it to be Tensors")
            linked = self.outside and t.requires_grad
            self.given.append(t)
            t = _C._vmap_lower_all(t)
            made = t.view_as(t) if linked or (self.open and self.outside) else t.detach()
            self.entered.append(made if linked else _C._vmap_require(made))
            if not linked:
                self.own.append(self.entered[-1])
            return self.entered[-1]
        return pytree.tree_map(one, tree)

    def needs(self, tensors: Sequence[Any]) -> bool:
        """Is something outside interested in the derivative of these?"""
        return self.outside and (self.open or any(t.requires_grad and _C._depends(t, self.own) for t in tensors))

    def leave(self, tree: Any) -> Any:
        """What the level gives back: without its own history, with the history outside; an argument is itself."""
        def one(t: Any) -> Any:
            for given, entered in zip(self.given, self.entered):
                if t is entered:
                    return given
            return t if not _C._is_tensor(t) or not t.requires_grad or self.needs([t]) else t.detach()
        return pytree.tree_map(one, tree)

    def pull(self, outputs: Sequence[Any], inputs: Sequence[Any], seeds: Any, graph: bool) -> list[Any]:
        """Gradients of outputs, zeros where nothing flows; the graph stays."""
        pairs = [(o, s) for o, s in zip(outputs, seeds) if o.requires_grad]
        found = autograd.grad([o for o, _ in pairs], inputs, [s for _, s in pairs], retain_graph=True,
                              create_graph=graph, allow_unused=True) if pairs and inputs else [None] * len(inputs)
        return [_op("zeros_like")(t.detach()) if g is None else g for g, t in zip(found, inputs)]


def _split_aux(result: Any, has_aux: bool, name: str) -> tuple[Any, Any]:
    if not has_aux:
        return result, None
    if not isinstance(result, tuple) or len(result) != 2:
        raise RuntimeError(f"{name}(f, has_aux=True): output of function f should be a tuple: (output, aux) if has_aux "
                           f"is True, got {type(result).__name__}")
    return result


def _tensors(tree: Any, name: str) -> tuple[list[Any], Any]:
    leaves, spec = pytree.tree_flatten(tree)
    if not leaves:
        raise RuntimeError(f"{name}: Expected f to be a function that has non-empty output (got output = {tree})")
    for leaf in leaves:
        if not _C._is_tensor(leaf):
            raise RuntimeError(f"{name}: Expected f(*args) to return only tensors, got unsupported type "
                               f"{type(leaf).__name__}")
    return leaves, spec


def _check_floats(outputs: Sequence[Any], name: str) -> None:
    for out in outputs:
        if not out.is_floating_point() and not out.is_complex():
            raise RuntimeError(f"{name}: All outputs of f must be floating-point or complex Tensors, got Tensor with "
                               f"dtype {out.dtype}; return others as aux (has_aux=True)")


def _places(argnums: Any, args: tuple[Any, ...]) -> tuple[int, ...]:
    """The positions that argnums means."""
    given = argnums if isinstance(argnums, tuple) else (argnums,)
    if not given:
        raise RuntimeError("argnums must be non-empty")
    for i in given:
        if not isinstance(i, int):
            raise RuntimeError(f"argnum must be int or Tuple[int, ...], got: {argnums}")
        if not -len(args) <= i < len(args):
            raise RuntimeError(f"Got argnum={i}, but only {len(args)} positional inputs")
    places = tuple(i % len(args) for i in given)
    if len(set(places)) != len(places):
        raise RuntimeError(f"argnums elements must be unique, got {argnums}")
    return places


def _replaced(args: tuple[Any, ...], places: tuple[int, ...], values: Sequence[Any]) -> list[Any]:
    made = list(args)
    for i, value in zip(places, values):
        made[i] = value
    return made


def _shaped(argnums: Argnums, values: Sequence[Any]) -> Any:
    """One per position: a tuple where argnums is one."""
    return tuple(values) if isinstance(argnums, tuple) else values[0]


def _unflatten(leaves: Sequence[Any], trees: Sequence[Any]) -> list[Any]:
    """Leaves in the shapes of several trees, one after the other."""
    at, made = 0, []
    for tree in trees:
        spec = pytree.tree_structure(tree)
        made.append(pytree.tree_unflatten(list(leaves[at:at + spec.num_leaves]), spec))
        at += spec.num_leaves
    return made


# ---- backwards ----

def grad_and_value(func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that returns (gradient, value), with has_aux (gradient, (value, aux))."""
    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return _grad_and_value(func, argnums, has_aux, args, kwargs)
    return wrapper


def _grad_and_value(func: Any, argnums: Argnums, has_aux: bool, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    places = _places(argnums, args)
    with _Level() as level:
        chosen = [level.enter(args[i], f"argument {i}") for i in places]
        output, aux = _split_aux(func(*_replaced(args, places, chosen), **kwargs), has_aux, "grad_and_value")
        if not _C._is_tensor(output):
            raise RuntimeError(f"Expected f(*args) to return a Tensor, got {type(output).__name__}")
        if output.dim():
            raise RuntimeError(f"Expected f(*args) to return a scalar Tensor, got tensor with {output.dim()} dims. "
                               "Maybe you wanted to use the vjp or jacrev APIs instead?")
        if output.is_complex():
            raise RuntimeError(f"grad can be implicitly created only for real scalar outputs but got {output.dtype}; "
                               "return its real part, or use vjp")
        found = level.pull([output], level.entered, [_op("ones_like")(output.detach())], level.needs([output]))
        gradient = _shaped(argnums, _unflatten(found, [args[i] for i in places]))
        gradient, output, aux = level.leave(gradient), level.leave(output), level.leave(aux)
    return (gradient, (output, aux)) if has_aux else (gradient, output)


def grad(func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that returns the gradient of `func`, which returns one number, with respect to some arguments; with
    has_aux `func` returns (number, aux), and the function (gradient, aux)."""
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        gradient, value = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient
    return wrapper


class _Run:
    """A function that was run, and how to go back through it, or along it."""

    def __init__(self, func: Any, primals: tuple[Any, ...], argnums: Argnums | None, has_aux: bool, name: str) -> None:
        places = tuple(range(len(primals))) if argnums is None else _places(argnums, primals)
        self.primals = tuple(primals[i] for i in places)
        with _Level(forwards=name == "linearize") as level:
            chosen = [level.enter(primals[i], f"primal {i}") for i in places]
            output, aux = _split_aux(func(*_replaced(primals, places, chosen)), has_aux, name)
            self.outputs, self.spec = _tensors(output, f"{name}(f, *primals)")
            if name == "vjp":
                _check_floats(self.outputs, "vjp(f, *primals)")
            self.level, self.transposed = level, None
            if name == "linearize":
                self.transposed = _Transposed(level, self.outputs)
            self.left, self.left_aux = level.leave(output), level.leave(aux)


def _run(func: Any, primals: tuple[Any, ...], argnums: Argnums | None, has_aux: bool, name: str) -> tuple[Any, Any,
                                                                                                          Any]:
    run = _Run(func, primals, argnums, has_aux, name)
    return run.left, run.left_aux, _C._Held(run)


def _pull(held: Any, cotangents: Any, create_graph: bool | None) -> Any:
    run: _Run = held.value
    seeds, given = pytree.tree_flatten(cotangents)
    if given != run.spec:
        raise RuntimeError("Expected pytree structure of cotangents to be the same as pytree structure of outputs "
                           f"to the function. cotangents: {given}, primal output: {run.spec}")
    for i, (seed, out) in enumerate(zip(seeds, run.outputs)):
        if not _C._is_tensor(seed) or seed.shape != out.shape:
            raise RuntimeError(f"Expected cotangent {i} to be a Tensor of the output's shape {list(out.shape)}, "
                               f"got {list(seed.shape) if _C._is_tensor(seed) else type(seed).__name__}")
    with _Level() as now:
        now.own = run.level.own
        now.outside = now.before if create_graph is None else create_graph
        found = run.level.pull(run.outputs, run.level.entered, seeds, now.needs([*run.outputs, *seeds]))
        return tuple(now.leave(_unflatten(found, run.primals)))


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """(func(*primals), f) where f(cotangents) is a tuple with a gradient for each primal; with has_aux a third: aux."""
    left, left_aux, held = _run(func, primals, None, has_aux, "vjp")

    def pull(cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        # unused retain_graph: the graph goes with this function
        return _pull(held, cotangents, create_graph)
    return (left, pull, left_aux) if has_aux else (left, pull)


def _nothing(outputs: Sequence[Any], entered: Sequence[Any]) -> list[list[Any]]:
    return [[_op("zeros")((*out.shape, *t.shape), dtype=t.dtype) for t in entered] for out in outputs]


def _rows(level: _Level, outputs: Sequence[Any], graph: bool, chunk_size: int | None) -> list[list[Any]]:
    """[output][entered tensor]: [*output.shape, *tensor.shape]. The rows of all outputs are those of one matrix, one
    after the other, whatever order they were computed in, each element with a place of its own."""
    found = over_basis(lambda *seeds: tuple(level.pull(outputs, level.entered, seeds, graph)), outputs, chunk_size)
    if found is None:
        return _nothing(outputs, level.entered)
    sizes = [out.numel() for out in outputs]
    each = [rows.contiguous().split(sizes) for rows in found]
    return [[parts[o].reshape(*out.shape, *t.shape) for parts, t in zip(each, level.entered)]
            for o, out in enumerate(outputs)]


def jacrev(func: Callable[..., Any], argnums: Argnums = 0, *, has_aux: bool = False,
           chunk_size: int | None = None) -> Callable[..., Any]:
    """A function that returns the Jacobian, its rows by vmap of vjp: for each output, for each argument chosen,
    [*output.shape, *argument.shape]. chunk_size: at most so many rows at a time."""
    check_chunk_size(chunk_size, "jacrev")

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return _jacobian(func, argnums, has_aux, "jacrev", chunk_size, args, kwargs)
    return wrapper


def _drawn(recorded: bool) -> Any:
    """Where random numbers are: the state of the generator, or how many calls draw some of those that are recorded."""
    from cresset import random
    return sum(draws for _, draws, _ in _C._recorded_calls()) if recorded else random.get_rng_state()


def _check_not_drawn(before: Any) -> None:
    """Random numbers were drawn since: an error, and they are as if they had not been."""
    recorded = isinstance(before, int)
    if before is None or (before == _drawn(True) if recorded else _op("equal")(before, _drawn(False))):
        return
    if not recorded:
        from cresset import random
        random.set_rng_state(before)
    raise RuntimeError("vmap: called random operation while in randomness error mode. Please either use the 'same' or "
                       "'different' randomness flags on jacfwd or perform the randomness operation out of it")


def _jacobian(func: Any, argnums: Argnums, has_aux: bool, name: str, chunk_size: int | None, args: tuple[Any, ...],
              kwargs: dict[str, Any], no_random: bool = False) -> Any:
    places = _places(argnums, args)
    with _Level(forwards=name == "jacfwd") as level:
        chosen = [level.enter(args[i], f"argument {i}") for i in places]
        before = _drawn(level.open) if no_random else None
        output, aux = _split_aux(func(*_replaced(args, places, chosen), **kwargs), has_aux, name)
        _check_not_drawn(before)
        outputs, spec = _tensors(output, f"{name}(f)")
        if name == "jacrev":
            _check_floats(outputs, "jacrev(f)")
        graph = level.needs(outputs)
        trees = [args[i] for i in places]
        each = (_rows(level, outputs, graph, chunk_size) if name == "jacrev" else
                _columns(_Transposed(level, outputs), outputs, graph))
        made = [_shaped(argnums, _unflatten(one, trees)) for one in each]
        made, aux = level.leave(made), level.leave(aux)
    made = pytree.tree_unflatten(made, spec)
    return (made, aux) if has_aux else made


# ---- forwards ----

class _Transposed:
    """Gradients for dummy seeds: linear in them, so that pulling tangents back gives the derivative forwards. Ones:
    some linear maps are computed by steps that are not smooth at 0 (logcumsumexp's by logarithms)."""

    def __init__(self, level: _Level, outputs: Sequence[Any]) -> None:
        self.level, self.outputs = level, outputs
        self.seeds = [_C._vmap_require(_op("ones_like")(o.detach())) if o.is_floating_point() or o.is_complex() else
                      _op("zeros_like")(o) for o in outputs]
        with transposing():
            self.pulled = level.pull(outputs, level.entered, self.seeds, True)
        level.own += [s for s in self.seeds if s.requires_grad]

    def push(self, tangents: Sequence[Any], graph: bool) -> list[Any]:
        floats = [s for s in self.seeds if s.requires_grad]
        found = iter(self.level.pull(self.pulled, floats, tangents, graph))
        pushed = [next(found) if s.requires_grad else s for s in self.seeds]
        return [_laid_out(t, out) for t, out in zip(pushed, self.outputs)]


def _laid_out(t: Any, like: Any) -> Any:
    """A derivative forwards lies as what it is of, whatever order it was computed in; several of them, along a first
    dimension, one after the other."""
    if like.is_contiguous() or 0 in like.stride():
        return t.contiguous()
    several = t.dim() - like.dim()
    order = [*range(several), *(d + several for d in sorted(range(like.dim()), key=like.stride, reverse=True))]
    return t.permute(order).contiguous().permute([order.index(d) for d in range(t.dim())])


def _check_tangents(primals: Any, tangents: Any, name: str) -> list[Any]:
    for value, what in ((primals, "primals"), (tangents, "tangents")):
        if not isinstance(value, tuple):
            raise RuntimeError(f"{name}: Expected {what} to be a tuple. E.g. it should be valid to call f(*primals).")
        other = next((v for v in pytree.tree_leaves(value) if not _C._is_tensor(v)), value)
        if other is not value:
            raise RuntimeError(f"{name}: Expected {what} to only contain Tensors, got {type(other).__name__}")
    ours, spec = pytree.tree_flatten(primals)
    theirs, other = pytree.tree_flatten(tangents)
    if spec != other:
        raise RuntimeError(f"{name}: Expected primals and tangents to have the same python structure. For example, if "
                           "primals is a tuple of 3 tensors, tangents also must be. Got primals with structure "
                           f"{spec} and tangents with structure {other}")
    for i, (p, t) in enumerate(zip(ours, theirs)):
        if not _C._is_tensor(t) or p.shape != t.shape:
            raise RuntimeError(f"{name}: Expected tangent {i} to be a Tensor of the primal's shape {list(p.shape)}, "
                               f"got {list(t.shape) if _C._is_tensor(t) else type(t).__name__}")
    return theirs


def jvp(func: Callable[..., Any], primals: tuple[Any, ...], tangents: tuple[Any, ...], *, strict: bool = False,
        has_aux: bool = False) -> Any:
    """(func(*primals), its derivative along the tangents); with has_aux a third: aux. strict: an output that does not
    depend on the primals is an error."""
    return _jvp(func, primals, tangents, None, strict, has_aux)


def _jvp(func: Any, primals: tuple[Any, ...], tangents: tuple[Any, ...], argnums: Argnums | None, strict: bool,
         has_aux: bool) -> Any:
    chosen = primals if argnums is None else tuple(primals[i] for i in _places(argnums, primals))
    vectors = _check_tangents(chosen, tangents, "jvp(f, primals, tangents)")
    places = tuple(range(len(primals))) if argnums is None else _places(argnums, primals)
    with _Level(forwards=True) as level:
        chosen = [level.enter(primals[i], f"primal {i}") for i in places]
        output, aux = _split_aux(func(*_replaced(primals, places, chosen)), has_aux, "jvp")
        outputs, spec = _tensors(output, "jvp(f, primals, tangents)")
        for i, out in enumerate(outputs if strict else ()):
            if not out.requires_grad:
                raise RuntimeError(f"jvp(f, primals, tangents, strict=True): The output of f at index {i} is "
                                   "independent of the inputs. This is not allowed when strict=True.")
        graph = level.needs([*outputs, *vectors])
        transposed = _Transposed(level, outputs)
        pushed = level.leave(transposed.push(vectors, graph))
        output, aux = level.leave(output), level.leave(aux)
    pushed = pytree.tree_unflatten(pushed, spec)
    return (output, pushed, aux) if has_aux else (output, pushed)


def _push(held: Any, tangents: tuple[Any, ...]) -> Any:
    run: _Run = held.value
    vectors = _check_tangents(run.primals, tangents, "linearize(f, *primals)")
    with _Level() as now:
        now.own = run.level.own
        found = run.transposed.push(vectors, now.needs([*run.outputs, *vectors]))
        return pytree.tree_unflatten(now.leave(found), run.spec)


def linearize(func: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """(func(*primals), f) where f(*tangents) is the derivative along them: the function runs once for all tangents."""
    left, _, held = _run(func, primals, None, False, "linearize")

    def push(*tangents: Any) -> Any:
        return _push(held, tangents)
    return left, push


def _columns(transposed: _Transposed, outputs: Sequence[Any], graph: bool) -> list[list[Any]]:
    """[output][entered tensor]: [*output.shape, *tensor.shape]. The columns of all tensors are those of one matrix."""
    entered = transposed.level.entered
    found = over_basis(lambda *units: tuple(transposed.push(units, graph)), entered)
    if found is None:
        return _nothing(outputs, entered)
    sizes = [t.numel() for t in entered]
    each = [_op("movedim")(_laid_out(columns, out), 0, -1).split(sizes, -1) for columns, out in zip(found, outputs)]
    return [[part.reshape(*out.shape, *t.shape) for part, t in zip(parts, entered)]
            for parts, out in zip(each, outputs)]


def jacfwd(func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, *,
           randomness: str = "error") -> Callable[..., Any]:
    """A function that returns the Jacobian, its columns by vmap of jvp; shapes as jacrev's. randomness: may the
    function draw random numbers? It runs once: they are the same for all columns."""
    check_randomness(randomness)

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return _jacobian(func, argnums, has_aux, "jacfwd", None, args, kwargs, randomness == "error")
    return wrapper


def hessian(func: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]:
    """A function that returns the second derivatives, forwards over backwards."""
    return jacfwd(jacrev(func, argnums), argnums)


for _transform, _name in ((_grad_and_value, "grad"), (_run, "vjp"), (_pull, "vjp"), (_jacobian, "jacrev"),
                          (_jvp, "jvp"), (_push, "linearize")):
    _transform._cresset_rule = "transform"  # type: ignore[attr-defined]  # captures run them (capture/rules.c)
    _transform.__qualname__ = _name  # for their reasons


# ---- models ----

def stack_module_state(models: Sequence[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """(parameters, buffers) of models of one class, by name, stacked along a new first dimension."""
    models = list(models)
    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if any(m.training != models[0].training for m in models):
        raise RuntimeError("stack_module_state: Expected all models to have the same training/eval mode.")
    if any(type(m) is not type(models[0]) for m in models):
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")

    def stacked(named: list[dict[str, Any]]) -> dict[str, Any]:
        return {key: _op("stack")([n[key].detach() for n in named]).requires_grad_(named[0][key].requires_grad)
                for key in named[0]}
    return stacked([dict(m.named_parameters()) for m in models]), stacked([dict(m.named_buffers()) for m in models])


def replace_all_batch_norm_modules_(root: Any) -> Any:
    """The module, whose batch norms, itself included, keep no statistics from now on: vmap cannot write them."""
    from cresset.nn.modules.batchnorm import _BatchNorm
    for module in root.modules():
        if isinstance(module, _BatchNorm):
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False
    return root
