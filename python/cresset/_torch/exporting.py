"""cresset.export.export() of PyTorch modules: tensors, sizes and structures of torch's as those of ours.

What a module holds is copied: the program has the values that were there when it was exported. Example inputs are read
where they lie."""
from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

import torch

import cresset
from cresset import _C, nn
from cresset._torch import capture
from cresset.export import dynamic_shapes as language
from cresset.utils import _pytree as pytree


class Taken:
    """Tensors of ours in the place of torch's, one for one."""

    def __init__(self) -> None:
        capture.prepare_export()
        self._made: dict[int, Any] = {}
        self._kept: list[Any] = []  # whose addresses the keys are

    def _read(self, tensor: Any, name: str) -> Any:
        plain = type(tensor) in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
        if not plain or tensor.device.type != "cpu" or tensor.layout is not torch.strided:
            raise NotImplementedError(f"export(): {name} is a {type(tensor).__name__} on '{tensor.device}' "
                                      f"({tensor.layout}); programs of PyTorch are exported on dense tensors of the "
                                      "CPU: call .cpu() or .to_dense() first, or export a module without subclasses")
        return cresset.from_dlpack(tensor.detach().resolve_conj().resolve_neg())

    def state(self, tensor: Any, name: str = "a tensor that forward uses") -> Any:
        """A copy; a parameter of a parameter."""
        if id(tensor) not in self._made:
            made = self._read(tensor, name).clone()
            if isinstance(tensor, torch.nn.Parameter):
                made = nn.Parameter(made, requires_grad=tensor.requires_grad)
            self._keep(tensor, made)
        return self._made[id(tensor)]

    def inputs(self, tree: Any) -> Any:
        """The same structure, on the memory of torch's tensors."""
        def take(leaf: Any) -> Any:
            if not isinstance(leaf, torch.Tensor):
                return leaf
            if id(leaf) not in self._made:
                self._keep(leaf, self._read(leaf, "an input"))
            return self._made[id(leaf)]
        adopt(tree)
        return pytree.tree_map(take, tree)

    def _keep(self, tensor: Any, made: Any) -> None:
        self._made[id(tensor)] = made
        self._kept.append(tensor)


def adopt(tree: Any) -> None:
    """Classes in it that are registered with torch.utils._pytree are nodes here, too."""
    theirs = torch.utils._pytree
    waiting = [theirs.tree_flatten(tree)[1]]
    while waiting:
        spec = waiting.pop()
        waiting += spec.children()
        cls = spec.context if pytree.is_namedtuple_class(spec.context) else spec.type
        named = theirs.SUPPORTED_SERIALIZED_TYPES.get(cls)
        name = getattr(named, "serialized_type_name", None)
        if name == theirs.NO_SERIALIZED_TYPE_NAME_FOUND:
            name = None  # torch.return_types.max and others that archives of PyTorch cannot have
        if not isinstance(cls, type) or _C._tree_registered(cls) is not None or cls in _PLAIN:
            continue
        if pytree.is_namedtuple_class(cls):
            if isinstance(name, str):
                pytree._register_namedtuple(cls, serialized_type_name=name)
        elif (node := theirs.SUPPORTED_NODES.get(cls)) is not None:
            pytree.register_pytree_node(
                cls, node.flatten_fn, node.unflatten_fn, serialized_type_name=name if isinstance(name, str) else None,
                to_dumpable_context=getattr(named, "to_dumpable_context", None),
                from_dumpable_context=getattr(named, "from_dumpable_context", None),
                flatten_with_keys_fn=_with_keys(node.flatten_with_keys_fn) if node.flatten_with_keys_fn else None)


_PLAIN = (tuple, list, dict, collections.OrderedDict, collections.defaultdict, collections.deque)


def _with_keys(flatten: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The same, with keys of ours."""
    def key(theirs: Any) -> Any:
        kind = {"SequenceKey": "idx", "MappingKey": "key", "GetAttrKey": "name"}.get(type(theirs).__name__)
        return getattr(pytree, type(theirs).__name__)(getattr(theirs, kind)) if kind else theirs

    def flattened(value: Any) -> Any:
        children, context = flatten(value)
        return [(key(k), child) for k, child in children], context
    return flattened


def shapes(spec: Any, mod: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """dynamic_shapes that may be written with torch.export's names, in ours."""
    if hasattr(spec, "dynamic_shapes"):  # a ShapesCollection, AdditionalInputs: they know torch's tensors
        spec = spec.dynamic_shapes(mod, args, kwargs)
    return _dims(spec, {})


def _dims(spec: Any, known: dict[Any, Any]) -> Any:
    theirs = torch.export.dynamic_shapes
    if isinstance(spec, dict):
        return type(spec)((key, _dims(value, known)) for key, value in spec.items())
    if isinstance(spec, (list, tuple)):
        items = [_dims(value, known) for value in spec]
        return type(spec)(*items) if pytree.is_namedtuple_class(type(spec)) else type(spec)(items)
    if isinstance(spec, theirs._DimHint):
        hint = getattr(language.Dim, spec.type.name)
        return hint(min=spec.min, max=spec.max) if spec.min is not None or spec.max is not None else hint
    if isinstance(spec, theirs._DerivedDim):
        shift = spec.fn(0)
        return _dims(spec.root, known) * (spec.fn(1) - shift) + shift
    if isinstance(spec, theirs.Dim):
        if spec not in known:
            low, high = (bound if isinstance(bound, int) else None for bound in (spec.min, spec.max))
            known[spec] = language.Dim(spec.__name__, min=low, max=high)
        return known[spec]
    return spec
