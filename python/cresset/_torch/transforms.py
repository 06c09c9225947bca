"""torch.func in captured programs: the transforms of cresset.func, on fakes, for those of torch.

What torch's own Python calls once it has made a closure (vmap_impl, grad_and_value_impl, ...) has a row; closures of
jacrev() and jacfwd() that were made outside are known by their code. Ours take more than torch's do: what torch refuses
raises here, whatever, which ends the capture, and torch raises its own error."""
from __future__ import annotations

import importlib
import types
from typing import Any

import cresset
from cresset import _C, _higher_order, _vmap, func
from cresset.utils import _pytree as pytree


def rows() -> dict[Any, Any]:
    """As far as this torch has the names; without one its calls are torch's. Of closures by the address of their code:
    the name of what stands in for them, which takes what they hold first."""
    found: dict[Any, Any] = {}
    for module, names in {"eager_transforms": _REGIONS, "vmap": {"vmap_impl": ("region", _mapped)}}.items():
        try:
            theirs = importlib.import_module(f"torch._functorch.{module}")
        except ImportError:
            continue
        found.update((getattr(theirs, name), row) for name, row in names.items() if hasattr(theirs, name))
        for name, (names_held, row) in _CLOSURES.items() if module == "eager_transforms" else ():
            code = _code_within(getattr(theirs, name, None))
            if code is not None and code.co_freevars == names_held:
                found[id(code)] = row  # which torch keeps
    return found


# torch has no rule for them under vmap, and for most of them none forwards
NOT_MAPPED = ("column_stack gru histogramdd lstm lstm_cell moveaxis rnn_relu rnn_tanh unsafe_split_with_sizes "
              "as_strided_scatter").split()


def _code_within(function: Any) -> Any:
    """The one function that a function makes last, as code."""
    made = [c for c in getattr(getattr(function, "__code__", None), "co_consts", ()) if isinstance(c, types.CodeType)]
    return made[-1] if made else None


def _check(holds: bool, what: str) -> None:
    if not holds:
        raise NotImplementedError(f"torch's own: {what}")


def _is_float(t: Any) -> bool:
    return _C._is_tensor(t) and (t.is_floating_point() or t.is_complex())


def _check_place() -> None:
    """In the body of a region torch looks at the function itself."""
    _check(not _higher_order.is_in_body(), "a transform in the body of a region")


def _check_precision() -> None:
    """Under vmap mixed precision casts for some ops and not for others; forwards it rounds at other places."""
    _check(not cresset.is_autocast_enabled("cpu"), "vmap(), or derivatives forwards, with mixed precision")


def _check_shared(args: Any, results: Any) -> None:
    """Views that torch takes with gradients on have a history where they are off around it."""
    if not cresset.is_grad_enabled():
        leaves = [t for t in pytree.tree_leaves(args) if _C._is_tensor(t)]
        memory = {_memory(t) for t in leaves}
        _check(not any(_C._is_tensor(r) and _memory(r) in memory and not any(r is t for t in leaves)
                       for r in pytree.tree_leaves(results)), "views of arguments, while no gradients are recorded")


def _memory(t: Any) -> Any:
    value = _C._vmap_value(t)
    return (t if value is None else value)._storage_id()


def _each(found: Any) -> Any:
    """Gradients of each example lie one after the other, whatever order they were computed in; repeated ones stay."""
    return pytree.tree_map(lambda t: t if _C._vmap_value(t) is None or 0 in t.stride() else t.contiguous(), found)


def _check_aux(has_aux: bool, aux: Any) -> None:
    _check(not has_aux or all(map(_C._is_tensor, pytree.tree_leaves(aux))), "what is no tensor beside the value")


# ---- vmap ----

def _mapped(function: Any, in_dims: Any, out_dims: Any, randomness: str, chunk_size: Any, *args: Any,
            **kwargs: Any) -> Any:
    """vmap_impl(). Structures are compared by torch's own rule."""
    from torch.utils import _pytree as theirs
    _check_place()
    _check_precision()
    _check(type(in_dims) in (int, tuple), "in_dims that are no int and no tuple")
    leaves, spec = theirs.tree_flatten(args)
    dims = theirs._broadcast_to_and_flatten(in_dims, spec)
    _check(bool(args) and dims is not None, "in_dims that do not fit the inputs")
    size, dims, leaves, flat = _vmap._checked_inputs(function, tuple(dims), tuple(leaves))

    def call(*flat_args: Any) -> Any:
        return function(*theirs.tree_unflatten(list(flat_args), spec), **kwargs)

    def outputs(output: Any) -> tuple[list[Any], list[Any], Any]:
        found, structure = theirs.tree_flatten(output)
        single = _C._is_tensor(output) and type(out_dims) is tuple and len(out_dims) == 1
        places = theirs._broadcast_to_and_flatten(out_dims[0] if single else out_dims, structure)
        _check(places is not None and all(p is None or type(p) is int for p in places), "out_dims that do not fit")
        # PyTorch has the examples of what is the same for all of them first, whatever out_dims say
        first = [p is not None and _C._is_tensor(t) and not _C._vmap_maps(t) for p, t in zip(places, found)]
        _check(chunk_size is None or not any(first), "chunks of results that are the same for all examples")
        return found, [0 if f else p for f, p in zip(first, places)], structure

    before = len(_C._recorded_calls())
    if chunk_size is None:
        found, _, structure = _vmap.mapped(call, size, dims, leaves, flat, outputs, randomness, {})
    else:
        _check(None not in theirs.tree_leaves(out_dims) and isinstance(size, int) and size > 0, "no chunk to join")
        found, structure = _vmap.in_chunks(call, size, chunk_size, dims, leaves, flat, outputs, randomness, {})
    nested = _C._vmap_depth() > 0
    _check(all(not draws or name in _DRAWN_BY_SIZE or (name == "aten::native_dropout" and dense and not nested)
               for name, draws, dense in _C._recorded_calls()[before:]), "numbers drawn in the order of memory")
    return theirs.tree_unflatten(found, structure)


_DRAWN_BY_SIZE = {f"aten::{name}" for name in '''rand randn randint randint.low randperm rand_like randn_like
                  randint_like randint_like.low_dtype normal.float_float bernoulli'''.split()}


# ---- derivatives ----

def _grad_and_value(function: Any, argnums: Any, has_aux: bool, args: Any, kwargs: Any) -> Any:
    _check_place()
    found = func._grad_and_value(function, argnums, has_aux, args, kwargs)
    _check_aux(has_aux, found[1][1] if has_aux else None)
    _check_shared(args, found[1])
    return _each(found[0]), found[1]


def run_vjp(function: Any, primals: tuple[Any, ...], argnums: Any, has_aux: bool) -> tuple[Any, Any, Any]:
    """(results, aux, what pull() goes back through)."""
    _check_place()
    left, aux, held = func._run(function, primals, argnums, has_aux, "vjp")
    _check_aux(has_aux, aux)
    _check_shared(primals, [left, aux])
    _check(all(map(_is_float, pytree.tree_leaves(left))), "vjp() of results that are no floating-point numbers")
    return left, aux, held


def pull(held: Any, cotangents: Any) -> Any:
    """A gradient for each primal."""
    given, results = pytree.tree_leaves(cotangents), held.value.outputs
    _check(len(given) == len(results) and all(_C._is_tensor(g) and g.dtype == r.dtype for g, r in zip(given, results)),
           "cotangents of other dtypes than the results")
    return _each(func._pull(held, cotangents, None))


# of these torch has no derivative forwards; of the last line ours is not a number where torch's is one
_NOT_FORWARDS = {f"aten::{name}" for name in '''
    _cdist_forward _ctc_loss _ctc_loss.Tensor _embedding_bag _embedding_bag_forward_only _euclidean_dist _linalg_eigvals
    _pdist_forward _scaled_dot_product_flash_attention_for_cpu _weight_norm_interface acosh_ asinh_ atanh_ bernoulli.p
    cdist cholesky conv_tbc ctc_loss.IntList ctc_loss.Tensor embedding_bag embedding_bag.padding_idx
    fake_quantize_per_channel_affine fake_quantize_per_channel_affine_cachemask fake_quantize_per_tensor_affine
    fake_quantize_per_tensor_affine.tensor_qparams fake_quantize_per_tensor_affine_cachemask floor_divide
    floor_divide.Scalar geqrf grid_sampler grid_sampler_2d grid_sampler_3d heaviside igamma igammac index_reduce
    linalg_ldl_factor linalg_ldl_factor_ex linalg_ldl_solve multi_margin_loss multilabel_margin_loss
    multilabel_margin_loss_forward native_channel_shuffle ormqr pdist remainder.Scalar_Tensor scatter.reduce
    scatter.value_reduce segment_reduce soft_margin_loss special_gammainc special_gammaincc special_zeta
    special_zeta.other_scalar special_zeta.self_scalar
    logit logit_backward pow.Scalar pow.Tensor_Tensor sinc special_xlog1py special_xlog1py.other_scalar
    special_xlog1py.self_scalar xlogy.Scalar_Other xlogy.Scalar_Self xlogy.Tensor'''.split()}


def _check_forwards(before: int) -> None:
    used = _NOT_FORWARDS & {name for name, _, _ in _C._recorded_calls()[before:]}
    _check(not used, f"the derivative forwards of {', '.join(sorted(used))}")


def _check_pushed(primals: Any, tangents: Any) -> None:
    ours, theirs = pytree.tree_leaves(primals), pytree.tree_leaves(tangents)
    _check(bool(ours) and len(ours) == len(theirs), "tangents of another structure than the primals")
    _check(all(_is_float(p) and _C._is_tensor(t) and t.dtype == p.dtype for p, t in zip(ours, theirs)),
           "tangents of other dtypes than the primals")


def _jvp(function: Any, primals: Any, tangents: Any, argnums: Any = None, *, strict: bool = False,
         has_aux: bool = False) -> Any:
    _check_place()
    _check_precision()
    _check(not strict, "jvp() with strict=True")
    _check(type(primals) is tuple and type(tangents) is tuple, "primals or tangents that are no tuples")
    _check_pushed(primals if argnums is None else [primals[i] for i in func._places(argnums, primals)], tangents)
    before = len(_C._recorded_calls())
    output, pushed, *aux = func._jvp(function, primals, tangents, argnums, False, has_aux)
    _check_aux(has_aux, aux)
    output = pytree.tree_map(lambda t: t.view_as(t), output)  # as torch has it, what is given back, too
    _check_shared(primals, [output, aux])
    _check_forwards(before)
    return (output, pushed, *aux)


def run_linearize(function: Any, primals: tuple[Any, ...]) -> tuple[Any, Any]:
    """(results, what push() goes along)."""
    _check_place()
    _check_precision()
    before = len(_C._recorded_calls())
    left, _, held = func._run(function, primals, None, False, "linearize")
    _check_forwards(before)
    _check(not any(draws for _, draws, _ in _C._recorded_calls()[before:]), "linearize() draws random numbers twice")
    _check_shared(primals, left)
    _check(all(map(_is_float, [*pytree.tree_leaves(left), *pytree.tree_leaves(primals)])), "linearize() of integers")
    return left, held


def push(held: Any, tangents: tuple[Any, ...]) -> Any:
    _check_pushed(held.value.primals, tangents)
    return func._push(held, tangents)


def jacobian(function: Any, argnums: Any, has_aux: bool, name: str, chunk_size: Any, args: tuple[Any, ...]) -> Any:
    """Of jacrev() and jacfwd(), which torch runs under vmap: jacfwd() the function, too."""
    _check_place()
    _check_precision()
    chosen = [args[i] for i in func._places(argnums, args)]
    _check(all(_C._is_tensor(t) and t.is_floating_point() for t in pytree.tree_leaves(chosen)),
           f"{name}() by what is no real number")
    _check(not any(_C._is_tensor(t) and t.is_complex() for t in pytree.tree_leaves(args)), f"{name}() of complex ones")
    before = len(_C._recorded_calls())

    def checked(*values: Any) -> Any:
        output = function(*values)
        results = pytree.tree_leaves(output[0] if has_aux and type(output) is tuple else output)
        _check(all(_C._is_tensor(t) and t.is_floating_point() for t in results), f"{name}() of what is no real number")
        return output
    found = func._jacobian(checked, argnums, has_aux, name, chunk_size, args, {}, name == "jacfwd")
    found, aux = found if has_aux else (found, None)
    _check_aux(has_aux, aux)
    if name == "jacfwd" and has_aux:  # as torch has it: it runs the function as jvp() does
        aux = pytree.tree_map(lambda t: t.view_as(t), aux)
    _check_shared(args, aux)
    if name == "jacfwd":
        _check_forwards(before)
    return (found, aux) if has_aux else found


for _transform in (run_vjp, pull, run_linearize, push, jacobian):
    _transform._cresset_rule = "transform"  # type: ignore[attr-defined]  # captures run them (capture/rules.c)
for _transform, _name in ((_mapped, "vmap"), (_grad_and_value, "grad"), (run_vjp, "vjp"), (pull, "vjp"),
                          (_jvp, "jvp"), (run_linearize, "linearize"), (push, "linearize"), (jacobian, "jacobian")):
    _transform.__qualname__ = _name  # for their reasons

_REGIONS = {"grad_and_value_impl": ("region", _grad_and_value), "_jvp_with_argnums": ("region", _jvp),
            "_vjp_with_argnums": ("stands_in", "vjp"), "linearize": ("unrecorded", "linearize")}
_CLOSURES = {"jacrev": (("_preallocate_and_copy", "argnums", "chunk_size", "func", "has_aux"), "rows_of"),
             "jacfwd": (("argnums", "func", "has_aux", "randomness"), "columns_of")}
