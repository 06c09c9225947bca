"""Control flow that a graph keeps: cond, while_loop, map, scan, associative_scan.

On real tensors they simply run. Where calls are recorded or fake, their functions are recorded into subgraphs; tensors
and symbolic numbers that a function uses from outside become operands, once each, in order of first use. PyTorch has
them as `torch.cond` and in `torch._higher_order_ops`; here they are in both places as well.
"""
from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from cresset import _C
from cresset._dynamo.exc import TorchRuntimeError, UncapturedHigherOrderOpError
from cresset.utils._pytree import tree_flatten, tree_unflatten

_SYMBOLIC = (_C.SymInt, _C.SymFloat, _C.SymBool)
_KEEP = "keep dtype and shape of what is carried from step to step"


def _is_mapped(value: Any) -> bool:
    """Does it stand for many examples, under vmap?"""
    return _C.is_tensor(value) and _C._vmap_value(value) is not None


def _is_fake(*values: Any) -> bool:
    """Is there anything to record, or without data?"""
    return _C._is_recording() or any(isinstance(v, _SYMBOLIC) or (_C.is_tensor(v) and _C.is_fake(v)
                                                                  and not _is_mapped(v)) for v in values)


def _region(name: str, advice: str, error: type[RuntimeError], *args: Any) -> list[Any]:
    """The region op, which finds what its bodies give: an error where they do not fit each other."""
    try:
        result = _C._packet("higher_order", name)(*args)
    except RuntimeError as e:
        if type(e) is not RuntimeError:
            raise
        raise error(f"{e}; {advice}") from None
    return list(result) if isinstance(result, (tuple, list)) else [result]


def _shown(value: Any) -> str:
    return f"a tensor of {list(value.shape)}" if _C.is_tensor(value) else repr(value)


# ---- recording bodies ----

_bodies = threading.local()  # depth: how many are being recorded, in each other


def is_in_body() -> bool:
    """Is the body of a region being recorded, by this thread?"""
    return getattr(_bodies, "depth", 0) > 0


class _Recorded:
    """A function recorded as the body of a region: its results as they were, flat, and its graph."""

    def __init__(self, op: str, role: str, fn: Callable[..., Any], operands: tuple[Any, ...], numbered: bool,
                 lifts: tuple[Any, ...] = ()):
        self.op, self.role, self.fn = op, role, fn
        self.body = _C._Body(operands, numbered)
        self.lifts = lifts

    def run(self, args: tuple[Any, ...]) -> _Recorded:
        self.body.lift(self.lifts)
        _bodies.depth = depth = getattr(_bodies, "depth", 0) + 1
        try:
            result = self.body.run(self.fn, args)
        finally:
            _bodies.depth = depth - 1
        self.leaves, self.spec = tree_flatten(result)
        self.whole = result
        return self

    def check_leaves(self, ints: bool) -> None:
        for i, leaf in enumerate(self.leaves):
            number = ints and isinstance(leaf, (int, *_SYMBOLIC)) and not isinstance(leaf, bool)
            if not _C.is_tensor(leaf) and not number:
                raise UncapturedHigherOrderOpError(
                    f"{self.op}: result {i} of {self.role} is {leaf!r}; a body returns "
                    f"tensors{' and ints' if ints else ''}, in tuples, lists or dicts. Return a tensor (for instance "
                    f"cresset.tensor(...)), or compute {type(leaf).__name__} values outside of {self.op}")

    def finish(self, stem: str, leaves: list[Any] | None = None, alone: bool = False) -> Any:
        graph = self.body.finish(tuple(self.leaves if leaves is None else leaves), stem, alone)
        problem = self.body.problem
        if problem and problem[0] == "writes":
            raise UncapturedHigherOrderOpError(
                f"{self.op}: {self.role} changes its input '{problem[2]}' with {problem[1]}; a body must leave what it "
                f"is given as it was. Use the functional form, or .clone() the input first and return the new value")
        if problem:
            other = f"its input '{problem[2]}'" if isinstance(problem[2], str) else f"result {problem[2]}"
            raise UncapturedHigherOrderOpError(
                f"{self.op}: result {problem[1]} of {self.role} shares memory with {other}; results must be tensors of "
                f"their own. Return .clone() of it")
        return graph


def _check_callable(op: str, **functions: Any) -> None:
    for name, fn in functions.items():
        if not callable(fn):
            raise RuntimeError(f"{op}: {name} must be callable, not a {type(fn).__name__}")


def _describe(value: Any) -> str:
    if not _C.is_tensor(value):
        return f"the number {value}"
    return f"{value.dtype} of shape {list(value.shape)}"


def _check_carried(op: str, role: str, before: list[Any], after: list[Any], what: str) -> None:
    """What is carried must come back as it went in."""
    if len(before) != len(after):
        raise UncapturedHigherOrderOpError(f"{op}: {role} gives {len(after)} values for {len(before)} in {what}; give "
                                           f"each of them back")
    for i, (old, new) in enumerate(zip(before, after)):
        alike = _C.is_tensor(old) == _C.is_tensor(new)
        if alike and _C.is_tensor(old):
            alike = (old.dtype == new.dtype and old.dim() == new.dim() and old.device == new.device
                     and _same_sizes(old.shape, new.shape))
        if not alike:
            raise UncapturedHigherOrderOpError(f"{op}: value {i} of {what} goes into {role} as {_describe(old)} and "
                                               f"comes out as {_describe(new)}; {_KEEP}")


def _same_sizes(a: Any, b: Any) -> bool:
    """As far as both are plain: what is symbolic is compared, by what is known of it, when the region is made."""
    return all(p == q for p, q in zip(a, b) if isinstance(p, int) and isinstance(q, int))


# ---- cond ----

def cond(pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: Any = ()) -> Any:
    """true_fn(*operands) where pred holds, else false_fn(*operands); both must give results alike.

    pred is a bool, a symbolic bool or a tensor of one element. In a recording both functions are recorded; the branch
    is taken when the program runs. Sizes in which the branches differ are known from then on only as some size between
    both."""
    _check_callable("cond()", true_fn=true_fn, false_fn=false_fn)
    if not isinstance(operands, (tuple, list)) or not all(_C.is_tensor(v) or isinstance(v, _SYMBOLIC)
                                                          for v in tree_flatten(operands)[0]):
        raise RuntimeError(f"cond(): operands must be a tuple of tensors (nested in tuples, lists and dicts if need "
                           f"be), not {_shown(operands)}; "
                           "other values can be used directly in the functions")
    if not _C.is_tensor(pred) and not isinstance(pred, (bool, int, float, *_SYMBOLIC)):
        raise RuntimeError(f"cond(): pred must be a bool or a tensor of one element, not {pred!r}")
    if _C.is_tensor(pred) and pred.dim() and any(isinstance(n, int) and n != 1 for n in pred.shape):
        raise RuntimeError(f"cond(): pred must be a bool or a tensor of one element, not {_shown(pred)}; reduce it "
                           f"with .any() or .all()")
    if _is_mapped(pred):
        return _cond_each(pred, true_fn(*operands), false_fn(*operands))
    if isinstance(pred, (bool, int, float)) or not (_is_fake(pred, *tree_flatten(operands)[0])):
        return (true_fn if pred else false_fn)(*operands)
    flat = (pred, *tree_flatten(operands)[0])
    yes = _Recorded("cond()", "true_fn", true_fn, flat, False).run(tuple(operands))
    no = _Recorded("cond()", "false_fn", false_fn, flat, False, yes.body.lifted).run(tuple(operands))
    yes.check_leaves(True)
    no.check_leaves(True)
    if yes.spec != no.spec:
        raise UncapturedHigherOrderOpError(f"cond(): true_fn returns {_structure(yes)} and false_fn {_structure(no)}; "
                                           f"both must return the same structure")
    graphs = yes.finish("true_graph"), no.finish("false_graph")
    yes.body.lift(no.body.lifted)
    no.body.lift(yes.body.lifted)
    advice = "true_fn and false_fn must agree in dtype, number of dimensions and order of strides"
    return tree_unflatten(_region("cond", advice, TorchRuntimeError, pred, *graphs, list(yes.body.lifted)), yes.spec)


def _chosen(pred: Any, yes: list[Any], no: list[Any]) -> list[Any]:
    """Of each example what its predicate says."""
    import cresset
    return [cresset.where(pred.reshape(()), a, b) for a, b in zip(yes, no)]


def _cond_each(pred: Any, yes: Any, no: Any) -> Any:
    """Under vmap, with a predicate of each example: both functions have run for all."""
    (yes, spec), (no, other) = tree_flatten(yes), tree_flatten(no)
    if spec != other:
        raise UncapturedHigherOrderOpError("cond(): true_fn and false_fn must return the same structure")
    for i, (a, b) in enumerate(zip(yes, no)):
        if not _C.is_tensor(a) or not _C.is_tensor(b) or (a.dtype, a.shape) != (b.dtype, b.shape):
            raise UncapturedHigherOrderOpError(
                f"cond(): under vmap each example has what its predicate says, so result {i} of both functions must be "
                f"a tensor of one dtype and shape; true_fn gives {_describe(a)} and false_fn {_describe(b)}")
    return tree_unflatten(_chosen(pred, yes, no), spec)


def _structure(recorded: _Recorded) -> str:
    return f"{len(recorded.leaves)} tensors as {type(recorded.whole).__name__}"


# ---- while_loop ----

def while_loop(cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: Any) -> Any:
    """Carries the inputs (tensors, ints, bools; nested) through body_fn for as long as cond_fn holds for them."""
    _check_callable("while_loop()", cond_fn=cond_fn, body_fn=body_fn)
    if not isinstance(carried_inputs, (tuple, list)):
        raise RuntimeError(f"while_loop(): carried_inputs must be a tuple of what cond_fn and body_fn take, not "
                           f"{_shown(carried_inputs)}")
    flat, spec = tree_flatten(tuple(carried_inputs))
    for i, value in enumerate(flat):
        if not _C.is_tensor(value) and not isinstance(value, (int, _C.SymInt, _C.SymBool)):
            raise TypeError(f"while_loop(): value {i} that is carried is {value!r}; tensors, ints and bools can be")
    if not _is_fake(*flat):
        return _while_real(cond_fn, body_fn, tuple(carried_inputs), spec)
    test = _Recorded("while_loop()", "cond_fn", cond_fn, tuple(flat), True)
    inputs = [test.body.input(v) for v in flat]
    test.run(tree_unflatten(inputs, spec))
    _check_test(test)
    step = _Recorded("while_loop()", "body_fn", body_fn, tuple(flat), True)
    inputs = [step.body.input(v if _C.is_tensor(v) else known, same=not _C.is_tensor(v)) for v, known in zip(flat,
            inputs)]
    step.lifts = test.body.lifted
    step.run(tree_unflatten(inputs, spec))
    after = step.leaves
    _check_carried("while_loop()", "body_fn", inputs, after, "carried_inputs")
    graphs = test.finish("while_loop_cond_graph", alone=True), step.finish("while_loop_body_graph", after)
    test.body.lift(step.body.lifted)
    step.body.lift(test.body.lifted)
    return tree_unflatten(_region("while_loop", _KEEP, UncapturedHigherOrderOpError, *graphs, flat,
                                  list(test.body.lifted)), spec)


def _check_test(test: _Recorded) -> None:
    value = test.leaves[0] if len(test.leaves) == 1 else None
    if isinstance(value, (bool, int)) and not isinstance(value, _SYMBOLIC):
        raise UncapturedHigherOrderOpError(f"while_loop(): cond_fn is always {value}, so the loop "
                                           f"{'never ends' if value else 'does nothing'}; "
                                           "compute the condition from what is carried")
    if isinstance(value, _C.SymBool) or (_C.is_tensor(value) and value.dtype == _C.bool and not value.dim()):
        return
    found = f"{len(test.leaves)} values" if value is None else _describe(value)
    raise UncapturedHigherOrderOpError(f"while_loop(): cond_fn must return a bool or a bool tensor without dimensions, "
                                       f"not {found}; reduce it with .any() or .all()")


def _while_real(cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried: tuple[Any, ...], spec: Any) -> Any:
    going = None  # under vmap: which examples go on
    while True:
        again = cond_fn(*carried)
        if _is_mapped(again):
            going = again if going is None else going & again
            again = _C._vmap_value(going).any()
        elif _C.is_tensor(again) and again.numel() != 1:
            raise RuntimeError(f"while_loop(): cond_fn must return a bool or a bool tensor without dimensions, not "
                               f"{_describe(again)}")
        if not again:
            return carried
        flat = tree_flatten(body_fn(*carried))[0]
        before = tree_flatten(carried)[0]
        if len(flat) != len(before):
            raise RuntimeError(f"while_loop(): body_fn gives {len(flat)} values for {len(before)} carried_inputs; give "
                               f"each of them back")
        carried = tree_unflatten(flat if going is None else _chosen(going, flat, before), spec)


# ---- along a dimension ----

def _sequence(op: str, xs: Any) -> tuple[list[Any], Any]:
    flat, spec = tree_flatten(xs)
    for i, x in enumerate(flat):
        if not _C.is_tensor(x):
            raise RuntimeError(f"{op}: xs must hold tensors only; value {i} is {x!r}")
    return flat, spec


def _lengths(op: str, flat: list[Any]) -> None:
    for i, x in enumerate(flat):
        if not x.dim():
            raise IndexError(f"{op}: tensor {i} of xs has no dimension to go along")
        if str(x.shape[0]) != str(flat[0].shape[0]):
            raise RuntimeError(f"{op}: the tensors of xs must be equally long; tensor {i} has {x.shape[0]} entries and "
                               f"tensor 0 has {flat[0].shape[0]}")


def _stacked(parts: list[list[Any]]) -> list[Any]:
    import cresset
    return [cresset.stack(column) for column in zip(*parts)]


def map(f: Callable[..., Any], xs: Any, *args: Any) -> Any:
    """f(x, *args) for every slice x of the first dimension of xs (nested tensors, equally long), stacked."""
    _check_callable("map()", f=f)
    flat, spec = _sequence("map()", xs)
    if not flat:
        raise RuntimeError("map(): xs holds no tensors")
    _lengths("map()", flat)
    if not _is_fake(*flat, *tree_flatten(args)[0]) and flat[0].shape[0]:
        results = [tree_flatten(f(tree_unflatten([x[i] for x in flat], spec), *args)) for i in range(flat[0].shape[0])]
        return tree_unflatten(_stacked([leaves for leaves, _ in results]), results[0][1])
    body = _Recorded("map()", "f", f, tuple(flat), False)
    body.run((tree_unflatten([body.body.input(x, sliced=True) for x in flat], spec), *args))
    body.check_leaves(False)
    graph = body.finish("body_graph")
    return tree_unflatten(_region("map_impl", "see f", UncapturedHigherOrderOpError, graph, flat,
                                  list(body.body.lifted)), body.spec)


def _along(dim: int, reverse: bool, flat: list[Any]) -> list[Any]:
    import cresset
    if dim:
        flat = [cresset.movedim(x, dim, 0) for x in flat]
    return [cresset.flip(x, [0]) for x in flat] if reverse else flat


def _back(dim: int, reverse: bool, flat: list[Any]) -> list[Any]:
    import cresset
    if reverse:
        flat = [cresset.flip(x, [0]) for x in flat]
    return [cresset.movedim(x, 0, dim) for x in flat] if dim else flat


def _wrapped(op: str, dim: int, flat: list[Any]) -> int:
    if not isinstance(dim, int):
        raise RuntimeError(f"{op}: dim must be an int, not {dim!r}")
    rank = flat[0].dim()
    if not -rank <= dim < rank:
        raise IndexError(f"{op}: there is no dimension {dim} in tensors of {rank} dimensions")
    return dim % rank


def scan(combine_fn: Callable[..., Any], init: Any, xs: Any, *, dim: int = 0, reverse: bool = False) -> Any:
    """carry, y = combine_fn(carry, x) for every slice x along `dim`; gives the last carry and all y, stacked."""
    _check_callable("scan()", combine_fn=combine_fn)
    flat, spec = _sequence("scan()", xs)
    first, init_spec = tree_flatten(init)
    if not first or not all(_C.is_tensor(v) for v in first):
        raise RuntimeError("scan(): init must hold one tensor or more, and nothing else")
    if not flat:
        return init, []
    dim = _wrapped("scan()", dim, flat)
    flat = _along(dim, reverse, flat)
    _lengths("scan()", flat)
    if not _is_fake(*flat, *first) and flat[0].shape[0]:
        return _scan_real(combine_fn, init, flat, spec, dim, reverse)
    body = _Recorded("scan()", "combine_fn", combine_fn, (*first, *flat), True)
    carried = [body.body.input(v) for v in first]
    body.run((tree_unflatten(carried, init_spec), tree_unflatten([body.body.input(x, sliced=True) for x in flat],
                                                                 spec)))
    next_carry, y = _pair(body.whole)
    carry_leaves, carry_spec = tree_flatten(next_carry)
    ys, y_spec = tree_flatten(y)
    if carry_spec != init_spec:
        raise UncapturedHigherOrderOpError("scan(): combine_fn gives the carry back in another structure than init "
                                           "has; return it as it came")
    _check_carried("scan()", "combine_fn", carried, carry_leaves, "init")
    body.check_leaves(False)
    graph = body.finish("scan_combine_graph", [*carry_leaves, *ys])
    results = _region("scan", _KEEP, UncapturedHigherOrderOpError, graph, first, flat, list(body.body.lifted))
    return tree_unflatten(results[:len(first)], init_spec), tree_unflatten(_back(dim, reverse, results[len(first):]),
            y_spec)


def _pair(result: Any) -> tuple[Any, Any]:
    if not isinstance(result, (tuple, list)) or len(result) != 2:
        raise UncapturedHigherOrderOpError("scan(): combine_fn must return two things, the next carry and the slice of "
                                           "the result: `return carry, y`")
    return result[0], result[1]


def _scan_real(combine_fn: Callable[..., Any], carry: Any, flat: list[Any], spec: Any, dim: int, reverse: bool) -> Any:
    parts = []
    for i in range(flat[0].shape[0]):
        before = tree_flatten(carry)[0]
        carry, y = _pair(combine_fn(carry, tree_unflatten([x[i] for x in flat], spec)))
        _check_carried("scan()", "combine_fn", before, tree_flatten(carry)[0], "init")
        leaves, y_spec = tree_flatten(y)
        parts.append(leaves)
    return carry, tree_unflatten(_back(dim, reverse, _stacked(parts)), y_spec)


def associative_scan(combine_fn: Callable[..., Any], xs: Any, dim: int, reverse: bool = False,
                     combine_mode: str = "pointwise") -> Any:
    """The running combination along `dim`: y[0] = x[0], y[i] = combine_fn(y[i - 1], x[i]). combine_fn must be
    associative."""
    _check_callable("associative_scan()", combine_fn=combine_fn)
    if combine_mode not in ("pointwise", "generic"):
        raise ValueError(f"associative_scan(): combine_mode must be 'pointwise' or 'generic', not {combine_mode!r}")
    flat, spec = _sequence("associative_scan()", xs)
    if not flat:
        raise ValueError("associative_scan(): xs holds no tensors")
    dim = _wrapped("associative_scan()", dim, flat)
    flat = _along(dim, reverse, flat)
    _lengths("associative_scan()", flat)
    if not _is_fake(*flat) and flat[0].shape[0]:
        return _associative_real(combine_fn, flat, spec, dim, reverse)
    body = _Recorded("associative_scan()", "combine_fn", combine_fn, tuple(flat), True)
    pairs = [[body.body.input(x, sliced=True) for x in flat] for _ in range(2)]
    body.run(tuple(tree_unflatten(p, spec) for p in pairs))
    _check_combined(body, pairs[0], spec)
    graph = body.finish("associative_scan_combine_graph")
    results = _region("associative_scan", _KEEP, UncapturedHigherOrderOpError, graph, flat, list(body.body.lifted))
    return tree_unflatten(_back(dim, reverse, results), spec)


def _check_combined(body: _Recorded, before: list[Any], spec: Any) -> None:
    if body.spec != spec:
        raise UncapturedHigherOrderOpError("associative_scan(): combine_fn returns another structure than the one it "
                                           "is given; return what is like xs")
    _check_carried("associative_scan()", "combine_fn", before, body.leaves, "xs")


def _associative_real(combine_fn: Callable[..., Any], flat: list[Any], spec: Any, dim: int, reverse: bool) -> Any:
    now = [x[0] for x in flat]
    parts = [now]
    for i in range(1, flat[0].shape[0]):
        leaves, found = tree_flatten(combine_fn(tree_unflatten(now, spec), tree_unflatten([x[i] for x in flat], spec)))
        if found != spec:
            raise RuntimeError("associative_scan(): combine_fn returns another structure than the one it is given; "
                               "return what is like xs")
        _check_carried("associative_scan()", "combine_fn", now, leaves, "xs")
        now = leaves
        parts.append(now)
    return tree_unflatten(_back(dim, reverse, _stacked(parts)), spec)


for _op in (cond, while_loop, map, scan, associative_scan):
    _op._cresset_rule = "region"  # type: ignore[attr-defined]  # captures do not look into them (capture/rules.c)
