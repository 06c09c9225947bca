"""The language of `dynamic_shapes`: which sizes of the inputs may vary, and how they hang together.

    batch = Dim("batch", max=64)
    export(model, (x, y), dynamic_shapes={"x": {0: batch}, "y": {0: 2 * batch, 1: Dim.AUTO}})

A specification follows the inputs: a dict by argument name, or a tuple or list by position; inside, containers as in
the inputs. A tensor's entry is a dict {dimension: size} or one size for each dimension; what is not mentioned is
static. A size is a `Dim`, an expression of one (2*batch + 1), an int (static, and checked), None, or one of the hints
`Dim.AUTO` (found out: varies where the program lets it), `Dim.DYNAMIC` (must vary), `Dim.STATIC`; a hint takes bounds:
`Dim.DYNAMIC(min=4, max=64)`. An int input takes a hint.
"""
from __future__ import annotations

import dataclasses
import enum
import inspect
import math
import re
from typing import Any, Callable

import cresset
from cresset import _C
from cresset.export._errors import UserError, UserErrorType
from cresset.utils import _pytree as pytree

__all__ = ["AdditionalInputs", "Dim", "ShapesCollection", "dims", "refine_dynamic_shapes_from_suggested_fixes"]

_CASE = "dynamic_shapes_validation"
_LINEAR = "a derived Dim is a positive integer times a Dim plus an integer"


class _DimHintType(enum.Enum):
    AUTO = enum.auto()
    STATIC = enum.auto()
    DYNAMIC = enum.auto()


@dataclasses.dataclass(frozen=True)
class _DimHint:
    type: _DimHintType
    min: int | None = None
    max: int | None = None

    def __call__(self, min: int | None = None, max: int | None = None) -> _DimHint:
        if min is not None and min < 0:
            raise AssertionError(f"Dim.{self.type.name}: a size has no negative bound, found min={min}")
        if min is not None and max is not None and min > max:
            raise AssertionError(f"Dim.{self.type.name}: min={min} is larger than max={max}")
        return _DimHint(self.type, min, max)

    def __repr__(self) -> str:
        bounds = [f"{name}={value}" for name, value in (("min", self.min), ("max", self.max)) if value is not None]
        return f"DimHint({', '.join([self.type.name, *bounds])})"


class Dim:
    """A size that may vary, with a name: the same Dim in two places says that the sizes are equal.

    min, max: its bounds (default: any size). Arithmetic with integers gives derived sizes: 2*batch, batch + 1.
    """

    AUTO = _DimHint(_DimHintType.AUTO)
    DYNAMIC = _DimHint(_DimHintType.DYNAMIC)
    STATIC = _DimHint(_DimHintType.STATIC)

    def __init__(self, name: str, *, min: int | None = None, max: int | None = None):
        low, high = 0 if min is None else min, math.inf if max is None else max
        if low > high:
            raise AssertionError(f"Dim('{name}'): min={low} is larger than max={high}")
        if not isinstance(name, str) or not name.isidentifier():
            raise AssertionError(f"a Dim's name is a Python identifier, found {name!r}")
        self.__name__ = name
        self.min, self.max = low, high

    # root, scale and shift: every Dim is scale * root + shift
    @property
    def root(self) -> Dim:
        return self

    _scale, _shift = 1, 0

    def _linear(self, scale: int, shift: int) -> Dim:
        return _DerivedDim(self.root, self._scale * scale, self._shift * scale + shift)

    def __add__(self, other: int) -> Dim:
        if type(other) is not int:
            raise NotImplementedError(f"{self.__name__} + {other}: {_LINEAR}")
        return self._linear(1, other)

    __radd__ = __add__

    def __sub__(self, other: int) -> Dim:
        if type(other) is not int:
            raise NotImplementedError(f"{self.__name__} - {other}: {_LINEAR}")
        return self._linear(1, -other)

    def __rsub__(self, other: int) -> Dim:
        raise NotImplementedError(f"{other} - {self.__name__}: {_LINEAR}")

    def __mul__(self, other: int) -> Dim:
        if type(other) is not int or other <= 0:
            raise NotImplementedError(f"{other} * {self.__name__}: {_LINEAR}")
        return self._linear(other, 0)

    __rmul__ = __mul__

    @staticmethod
    def _readable(name: str, low: float, high: float) -> str:
        bounds = [f"min={low}"] if low != 2 else []
        if high != math.inf:
            bounds.append(f"max={high}")
        return f"Dim({', '.join([repr(name), *bounds])})"

    def __repr__(self) -> str:
        return self._readable(self.__name__, self.min, self.max)


class _DerivedDim(Dim):
    """scale * root + shift."""

    def __init__(self, root: Dim, scale: int, shift: int):
        term = root.__name__ if scale == 1 else f"{scale}*{root.__name__}"
        self.__name__ = term if not shift else f"{term} {'+' if shift > 0 else '-'} {abs(shift)}"
        self._root, self._scale, self._shift = root, scale, shift

    @property
    def root(self) -> Dim:
        return self._root

    @property
    def fn(self) -> Callable[[Any], Any]:
        return lambda value: value * self._scale + self._shift

    @property
    def min(self) -> float:
        low = self._root.min * self._scale + self._shift
        if low < 0:
            needed = -(self._shift // self._scale)
            raise AssertionError(f"{self.__name__} can be {low}, which is no size: give {self._root.__name__} a lower "
                                 f"bound: Dim('{self._root.__name__}', min={needed})")
        return low

    @property
    def max(self) -> float:
        return self._root.max * self._scale + self._shift

    def __repr__(self) -> str:
        return self.__name__


def dims(*names: str, min: int | None = None, max: int | None = None) -> tuple[Dim, ...]:
    """Several Dims with the same bounds."""
    return tuple(Dim(name, min=min, max=max) for name in names)


# ---- inputs by argument name, and specifications that follow them ----

class _IntWrapper:
    """An int input with an identity, so that a ShapesCollection can hold an entry for it."""

    def __init__(self, val: int):
        self.val = val
        self.dynamism: Any = None


def _signature(f: Any) -> inspect.Signature:
    if isinstance(f, inspect.Signature):
        return f
    if hasattr(f, "module") and not callable(f):  # an exported program
        f = f.module()
    return signature_of(f)


def signature_of(f: Any) -> inspect.Signature:
    """Of a module's forward or of a function. A module that was made of a program says it by itself."""
    said = getattr(f, "_forward_signature", None)
    forward = getattr(f, "forward", None)
    return said or inspect.signature(forward if callable(forward) else f)


def _combine_args(f: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> dict[str, Any]:
    """The inputs by parameter name, as the body of f sees them; f: a module, a function, a signature, or parameter
    names."""
    kwargs = kwargs or {}
    if isinstance(f, (list, tuple)):
        combined = dict(zip(f, args))
        return combined | {name: value for name, value in kwargs.items() if name not in combined}
    return _signature(f).bind(*args, **kwargs).arguments


def _is_leaf(value: Any) -> bool:
    """Containers that Python has are walked as they are; classes of the user are walked by their children."""
    opened = _open(value)
    return opened is None or opened[1] not in pytree.BUILTIN_TYPES


def _open(value: Any) -> Any:
    return cresset._C._tree_open(value)


def _mismatch(what: str) -> UserError:
    return UserError(UserErrorType.INVALID_INPUT,
                     f"`dynamic_shapes` does not have the structure of the inputs: {what}", case_name=_CASE)


def _kind_name(kind: Any) -> str:
    return getattr(kind, "__name__", str(kind))


def _walk(function: Callable[..., Any], path: tuple[Any, ...], inputs: Any, spec: Any, out: list[Any]) -> None:
    """Calls function(path, leaf, its entry) for every leaf of the inputs. UserError where the structures differ."""
    opened = _open(inputs)
    if opened is None or isinstance(inputs, cresset.Size):
        out.append(function(path, inputs, spec))
        return
    children, kind, context = opened
    where = pytree.keystr(path)
    if spec is None:  # None for a whole container: nothing in it varies
        for key, child in pytree._children_with_keys(inputs):
            _walk(function, (*path, key), child, None, out)
        return
    if kind not in pytree.BUILTIN_TYPES:  # a class of the user: its entry is a sequence or a dict of its children's
        keyed = pytree._children_with_keys(inputs)
        entries = list(spec.values()) if isinstance(spec, dict) else spec
        same = _open(spec)
        if same is not None and same[1] is kind:
            entries = list(same[0])
        if not isinstance(entries, (list, tuple)) or len(entries) != len(keyed):
            raise _mismatch(f"inputs{where} is a {_kind_name(kind)} with {len(keyed)} children, so "
                            f"dynamic_shapes{where} must be a list of {len(keyed)} entries, found {spec!r}")
        for (key, child), entry in zip(keyed, entries):
            _walk(function, (*path, key), child, entry, out)
        return
    other = _open(spec)
    if other is None:
        raise _mismatch(f"inputs{where} is a {_kind_name(kind)}, dynamic_shapes{where} is {spec!r}")
    spec_children, spec_kind, spec_context = other
    if spec_kind is not kind and not (isinstance(inputs, dict) and isinstance(spec, dict)):
        raise _mismatch(f"inputs{where} is a {_kind_name(kind)}, dynamic_shapes{where} is a {_kind_name(spec_kind)}")
    keyed, spec_keyed = pytree._children_with_keys(inputs), pytree._children_with_keys(spec)
    if len(keyed) != len(spec_keyed):
        raise _mismatch(f"inputs{where} has {len(keyed)} elements, dynamic_shapes{where} has {len(spec_keyed)}")
    if isinstance(inputs, dict):
        if set(inputs) != set(spec):
            raise _mismatch(f"inputs{where} has the keys {list(inputs)}, dynamic_shapes{where} has {list(spec)}")
        for key, child in keyed:
            _walk(function, (*path, key), child, key.get(spec), out)
        return
    for (key, child), (_, entry) in zip(keyed, spec_keyed):
        _walk(function, (*path, key), child, entry, out)


def _check_names(combined: dict[str, Any], dynamic_shapes: dict[str, Any]) -> None:
    names, given = list(combined), list(dynamic_shapes)
    if sorted(names) == sorted(map(str, given)) and all(isinstance(name, str) for name in given):
        return
    unknown = [name for name in given if name not in names]
    absent = [name for name in names if name not in given]
    text = f"`dynamic_shapes` names the arguments {given}; the inputs are {names}"
    if unknown:
        text += f": there is no argument {', '.join(map(repr, unknown))}"
    if absent:
        text += f"{';' if unknown else ':'} an entry for {', '.join(map(repr, absent))} is missing (None: static)"
    if len(combined) == 1 and isinstance(combined[names[0]], dict):
        text += ". The one input is a dict: enclose `dynamic_shapes` in a tuple to describe it by position"
    else:
        text += ". A tuple or list with one entry an argument works without names"
    raise UserError(UserErrorType.INVALID_INPUT, text, case_name=_CASE)


def _flat_specs(combined: dict[str, Any], dynamic_shapes: Any, function: Callable[..., Any]) -> list[Any]:
    """function(path, leaf, entry) of every leaf. Paths begin with the argument's name, whatever the specification
    is."""
    out: list[Any] = []
    if dynamic_shapes is None or (isinstance(dynamic_shapes, (dict, tuple, list)) and not dynamic_shapes):
        dynamic_shapes = dict.fromkeys(combined)
    if isinstance(dynamic_shapes, dict):
        _check_names(combined, dynamic_shapes)
        entries = [dynamic_shapes[name] for name in combined]
    elif isinstance(dynamic_shapes, (tuple, list)):
        entries = list(dynamic_shapes)
        if len(entries) != len(combined):
            raise _mismatch(f"there are {len(combined)} inputs ({', '.join(combined)}), dynamic_shapes has "
                            f"{len(entries)} entries")
    else:
        raise UserError(UserErrorType.INVALID_INPUT,
                f"`dynamic_shapes` is a dict by argument name, or a tuple or list by position, not "
                f"{type(dynamic_shapes).__name__}", case_name=_CASE)
    for name, entry in zip(combined, entries):
        _walk(function, (pytree.MappingKey(name),), combined[name], entry, out)
    return out


def _tensor_entries(path: tuple[Any, ...], tensor: Any, spec: Any) -> dict[int, Any]:
    """{dimension: size} of one tensor's entry; dimensions count from 0."""
    where, rank = f"dynamic_shapes{pytree.keystr(path)}", tensor.dim()
    if spec is None:
        return {}
    if isinstance(spec, (tuple, list)):
        if len(spec) != rank:
            raise UserError(UserErrorType.INVALID_INPUT,
                    f"{where} has {len(spec)} entries for a tensor of {rank} dimensions (sizes {list(tensor.shape)}): "
                    f"give {rank}, or a dict with the dimensions that vary", case_name=_CASE)
        found = dict(enumerate(spec))
    elif isinstance(spec, dict):
        found = {}
        for at, size in spec.items():
            if type(at) is not int or not -rank <= at < rank:
                raise UserError(UserErrorType.INVALID_INPUT,
                        f"{where} has an entry for dimension {at!r}; the tensor has {rank} dimensions (sizes "
                        f"{list(tensor.shape)})", case_name=_CASE)
            found[at % rank] = size
    else:
        raise UserError(UserErrorType.INVALID_INPUT,
                f"{where} is {spec!r}; expected a dict {{dimension: size}}, one size for each of the {rank} "
                f"dimensions, "
                        "or None", case_name=_CASE)
    for at, size in found.items():
        if size is not None and not isinstance(size, (Dim, _DimHint)) and type(size) is not int:
            raise UserError(UserErrorType.INVALID_INPUT,
                    f"{where}[{at}] is {size!r}; a size is a Dim, an expression of a Dim, an int, None, Dim.AUTO, "
                            "Dim.DYNAMIC or Dim.STATIC", case_name=_CASE)
    return found


def _check_leaf(path: tuple[Any, ...], leaf: Any, spec: Any) -> Any:
    if _C._is_tensor(leaf):
        return _tensor_entries(path, leaf, spec)
    where = pytree.keystr(path)
    if isinstance(leaf, _IntWrapper) or (isinstance(leaf, int) and not isinstance(leaf, bool)):
        if isinstance(spec, Dim):
            raise ValueError(f"dynamic_shapes{where}: an int input takes Dim.AUTO or Dim.DYNAMIC; a named Dim is for "
                             f"the sizes of tensors")
        if spec is not None and not isinstance(spec, _DimHint):
            value = leaf.val if isinstance(leaf, _IntWrapper) else leaf
            if type(spec) is not int or spec != value:
                raise UserError(UserErrorType.INVALID_INPUT,
                        f"dynamic_shapes{where} is {spec!r}; an int input takes Dim.AUTO, Dim.DYNAMIC, Dim.STATIC or "
                        f"None",
                                case_name=_CASE)
        return spec
    if spec is not None:
        raise UserError(UserErrorType.INVALID_INPUT,
                f"dynamic_shapes{where} is {spec!r}, but inputs{where} is of type {type(leaf).__name__}, which has no "
                        "sizes: use None", case_name=_CASE)
    return None


def _check_bounds(entries: list[Any]) -> None:
    bounds: dict[str, Dim] = {}
    for entry in entries:
        for size in entry.values() if isinstance(entry, dict) else ():
            for dim in {id(size): size, id(size.root): size.root}.values() if isinstance(size, Dim) else ():
                first = bounds.setdefault(dim.__name__, dim)
                if (first.min, first.max) != (dim.min, dim.max):
                    raise UserError(UserErrorType.INVALID_INPUT, f"the dimension '{dim.__name__}' has two definitions: "
                                    f"{Dim._readable(dim.__name__, first.min, first.max)} and "
                                    f"{Dim._readable(dim.__name__, dim.min, dim.max)}; use one Dim object, "
                                    "or two names")


def _check_dynamic_shapes(combined: dict[str, Any], dynamic_shapes: Any) -> list[tuple[tuple[Any, ...], Any, Any]]:
    """[(path, leaf, entry)] of every input, the entry of a tensor as {dimension: size}. UserError: the specification is
    wrong."""
    flat = _flat_specs(combined, dynamic_shapes, lambda path, leaf, spec: (path, leaf, _check_leaf(path, leaf, spec)))
    _check_bounds([entry for _, _, entry in flat])
    return flat


# ---- specifications made from tensors ----

def _map_inputs(function: Callable[[Any], Any], tree: Any) -> Any:
    """The inputs with every leaf replaced; a class of the user becomes the tuple of its children."""
    opened = _open(tree)
    if opened is None or isinstance(tree, cresset.Size):
        return function(tree)
    children, kind, _ = opened
    mapped = [_map_inputs(function, child) for child in children]
    if kind not in pytree.BUILTIN_TYPES:
        return tuple(mapped)
    return pytree.tree_unflatten(mapped, pytree.tree_structure(tree, is_leaf=lambda value: value is not tree))


class ShapesCollection:
    """dynamic_shapes by tensor: assign the entry of a tensor to the tensor itself.

        shapes = ShapesCollection()
        shapes[x] = {0: Dim.DYNAMIC}
        export(model, (x,), dynamic_shapes=shapes)
    """

    def __init__(self) -> None:
        self._shapes: dict[int, Any] = {}
        self._kept: list[Any] = []

    def __setitem__(self, t: Any, shape: Any) -> None:
        if not (_C._is_tensor(t) or isinstance(t, _IntWrapper)):
            raise AssertionError(f"a ShapesCollection holds entries for tensors and wrapped ints, not for "
                                 f"{type(t).__name__}")
        if id(t) in self._shapes and self._shapes[id(t)] != shape:
            raise AssertionError(f"the input has the entry {self._shapes[id(t)]} already, and now {shape}")
        self._shapes[id(t)] = shape
        self._kept.append(t)

    def __getitem__(self, t: Any) -> Any:
        if id(t) not in self._shapes:
            self._shapes[id(t)] = {}
            self._kept.append(t)
        return self._shapes[id(t)]

    def __len__(self) -> int:
        return len(self._shapes)

    def dynamic_shapes(self, m: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> Any:
        """The specification for these inputs."""
        seen: set[int] = set()

        def find(t: Any) -> Any:
            seen.add(id(t))
            return self._shapes.get(id(t))

        found = {name: _map_inputs(find, value) for name, value in _combine_args(m, args, kwargs).items()}
        if not set(self._shapes) <= seen:
            raise ValueError(f"{len(set(self._shapes) - seen)} tensors that were given sizes are not among the inputs: "
                             f"pass the same tensor objects, not "
                             "copies, and register the classes that hold them with the pytree module")
        return found


class AdditionalInputs:
    """dynamic_shapes from examples: what differs between them varies.

        shapes = AdditionalInputs()
        shapes.add((another_x,))
        export(model, (x,), dynamic_shapes=shapes)
    """

    def __init__(self) -> None:
        self._examples: list[tuple[tuple[Any, ...], dict[str, Any] | None]] = []

    def add(self, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> None:
        if type(args) is not tuple:
            raise AssertionError(f"example inputs are a tuple, found {type(args).__name__}")
        if kwargs is not None and type(kwargs) is not dict:
            raise AssertionError(f"example keyword inputs are a dict or None, found {type(kwargs).__name__}")
        self._examples.append((args, kwargs))

    def dynamic_shapes(self, m: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> Any:
        """The specification for these inputs."""
        def sizes(tree: Any) -> Any:
            return _map_inputs(lambda leaf: tuple(leaf.shape) if _C._is_tensor(leaf) else leaf, tree)

        first, *others = ({name: sizes(value) for name, value in _combine_args(m, *example).items()}
                          for example in [(args, kwargs), *self._examples])

        def mark(value: Any, *rest: Any) -> Any:
            if any(type(value) is not type(other) for other in rest):
                raise ValueError(f"examples of one input have different types, so it cannot vary: {(value, *rest)}")
            same = all(value == other for other in rest)
            if isinstance(value, int) and not isinstance(value, bool):
                return None if same else Dim.DYNAMIC
            if not same:
                raise ValueError(f"examples of one input have different values, and only sizes and ints can vary: "
                                 f"{(value, *rest)}")
            return None

        return pytree.tree_map(mark, first, *others, is_leaf=lambda value: type(value) is int)

    def verify(self, ep: Any) -> None:
        """Runs the input checks of the exported program on every example."""
        module = ep.module()
        check = getattr(module, "_check_inputs", None)
        for args, kwargs in self._examples:
            if check is not None:
                check(args, kwargs or {})
            else:
                module(*args, **(kwargs or {}))


# ---- suggested fixes ----

_RANGE = re.compile(r"(\w+) = Dim\('\w+'(?:, min=(\d+))?(?:, max=(\d+|oo|int_oo))?\)")
_LINEAR_FIX = re.compile(r"(?:(\d+)\*)?([A-Za-z_]\w*)(?: ([+-]) (\d+))?")


def _read_fixes(message: str) -> dict[str, Any]:
    """{name: a Dim, an int, or (root's name, scale, shift)}"""
    _, found, text = message.partition("Suggested fixes:")
    if not found:
        raise UserError(UserErrorType.INVALID_INPUT,
                        "the message has no part 'Suggested fixes:'; give the text of the error that export raised")
    fixes: dict[str, Any] = {}
    for line in text.split("\n"):
        line = line.partition("#")[0].strip()
        if not line and fixes:
            break
        if not line:
            continue
        if match := _RANGE.fullmatch(line):
            name, low, high = match.groups()
            fixes[name] = Dim(name, min=int(low) if low else None, max=int(high) if high and high.isdigit() else None)
            continue
        name, _, value = line.partition(" = ")
        if value.isdigit():
            fixes[name] = int(value)
        elif match := _LINEAR_FIX.fullmatch(value):
            scale, root, sign, shift = match.groups()
            fixes[name] = (root, int(scale or 1), int(shift or 0) * (-1 if sign == "-" else 1))
        else:
            raise UserError(UserErrorType.INVALID_INPUT, f"this suggested fix is not one that export writes: {line!r}")
    return fixes


def _named_dims(dynamic_shapes: Any) -> dict[str, Dim]:
    found = {}
    for dim in pytree.tree_leaves(dynamic_shapes, is_leaf=lambda value: isinstance(value, Dim)):
        if isinstance(dim, Dim):
            found[dim.__name__] = dim
            found.setdefault(dim.root.__name__, dim.root)
    return found


def refine_dynamic_shapes_from_suggested_fixes(msg: str, dynamic_shapes: Any) -> Any:
    """The specification with the suggested fixes of a 'constraints violated' error applied.

        try:
            ep = export(model, args, dynamic_shapes=shapes)
        except UserError as error:
            shapes = refine_dynamic_shapes_from_suggested_fixes(error.msg, shapes)
            ep = export(model, args, dynamic_shapes=shapes)
    """
    fixes, named = _read_fixes(msg), _named_dims(dynamic_shapes)
    roots = {fix[0] for fix in fixes.values() if isinstance(fix, tuple)}
    for name in fixes:
        if name not in named and name not in roots:
            raise UserError(UserErrorType.INVALID_INPUT,
                    f"the suggested fixes are for '{name}', which is no dimension of these dynamic_shapes "
                    f"({', '.join(named)})")
    made: dict[str, Any] = {}

    def resolve(name: str) -> Any:
        if name not in made:
            fix = fixes.get(name, named.get(name))
            if isinstance(fix, tuple):
                root, scale, shift = fix
                value = resolve(root)
                fix = value * scale + shift if isinstance(value, int) else value
                if not isinstance(value, int) and scale != 1:
                    fix = fix * scale
                if not isinstance(value, int) and shift:
                    fix = fix + shift
            made[name] = fix
        return made[name]

    def apply(size: Any) -> Any:
        if not isinstance(size, Dim):
            return size
        if size.__name__ in fixes:
            return resolve(size.__name__)
        if isinstance(size, _DerivedDim) and size.root.__name__ in fixes:
            key = size.__name__
            if key not in made:
                value = resolve(size.root.__name__)
                made[key] = value * size._scale + size._shift
            return made[key]
        return size

    return pytree.tree_map(apply, dynamic_shapes, is_leaf=lambda value: isinstance(value, Dim))
