"""Operators of your own: they run, record, export, save and load like those of Cresset, as one node each.

    @cresset.library.custom_op("mylib::scaled", mutates_args=())
    def scaled(x: cresset.Tensor, factor: float) -> cresset.Tensor:
        return cresset.from_dlpack(my_code(x.numpy(), factor))

    @scaled.register_fake
    def _(x, factor):
        return cresset.empty_like(x)

Names and arguments as in torch.library. docs/custom-ops.md has the whole story.
"""
from __future__ import annotations

import collections.abc
import enum
import inspect
import os
import re
import types
import typing
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

import cresset
from cresset import _C

__all__ = ["CustomOpDef", "Library", "OpCheckError", "custom_op", "define", "impl", "infer_schema", "load_library",
           "opcheck",
           "register_autograd", "register_fake", "register_kernel"]


def load_library(path: str | os.PathLike[str]) -> None:
    """Loads a shared library of operators written in C (include/cresset/library.h) and registers them; it stays loaded.
    Programs with them are recorded, exported, run and compiled from then on. It is code: loading one that somebody else
    made runs what they wrote."""
    _C._load_ops(path)


_CPU_KEYS = {"CPU", "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional", ""}
_KEYS = _CPU_KEYS | {"Meta", "CompositeImplicitAutograd", "CUDA", "Autograd", "AutogradCPU", "AutogradCUDA"}


class Tag(enum.Enum):
    """What a library says of its operators, as torch.Tag: the one that something here goes by."""
    pt2_compliant_tag = enum.auto()


class _Entry:
    """What is registered for one overload."""

    def __init__(self, name: str):
        self.name = name
        self.kernels: dict[str, Callable[..., Any]] = {}  # by device type; "" for all
        self.fake: Callable[..., Any] | None = None
        self.composite = False                            # the kernel consists of ops, so that it is its own fake rule
        self.backward: Callable[..., Any] | None = None
        self.setup_context: Callable[..., Any] | None = None
        self.opaque = False                               # of custom_op(): what is inside is nobody's business
        self.function: Any = None                         # the autograd.Function of the derivative, made when needed

    def copy(self) -> dict[str, Any]:
        return {**self.__dict__, "kernels": dict(self.kernels)}


_entries: dict[str, _Entry] = {}
_namespaces: set[str] = {"aten", "prim", "prims", "cresset"}  # those that a DEF library has


def _short(name: str) -> str:
    return name.partition("::")[2].partition(".")[0]


def _is_list(a: Any) -> bool:
    return isinstance(a, (list, tuple)) and any(isinstance(item, cresset.Tensor) for item in a)


def _gather(flat: Sequence[Any], counts: Sequence[int | None]) -> list[Any]:
    """One entry for each count: the next item, or a list of so many."""
    items = iter(flat)
    return [next(items) if n is None else [next(items) for _ in range(n)] for n in counts]


def _spread(values: Sequence[Any], counts: Sequence[int | None]) -> list[Any]:
    """The other way round; None for a list: as many."""
    flat: list[Any] = []
    for value, n in zip(values, counts, strict=True):
        flat += [value] if n is None else [None] * n if value is None else value
    return flat


def _function(entry: _Entry) -> Any:
    """The operator with the derivative that was registered, as a function of flat arguments."""
    namespace, _, short = entry.name.partition("::")
    short, _, overload = short.partition(".")
    op = getattr(getattr(getattr(cresset.ops, namespace), short), overload or "default")
    listed = str(op._schema).rpartition("->")[2].strip() == "Tensor[]"

    def forward(ctx: Any, counts: Any, kwargs: dict[str, Any], *flat: Any) -> Any:
        inputs = tuple(_gather(flat, counts))
        output = op(*inputs, **kwargs)
        ctx._counts = counts
        ctx.needs_input_grad = tuple(_gather(ctx.needs_input_grad[2:], counts))
        if entry.setup_context is not None:
            extra = {"keyword_only_inputs": kwargs} if kwargs else {}
            entry.setup_context(ctx=ctx, inputs=inputs, output=output, **extra)
        return tuple(output) if listed else output

    def backward(ctx: Any, *grads: Any) -> Any:
        made = entry.backward(ctx, list(grads)) if listed else entry.backward(ctx, *grads)  # type: ignore[misc]
        made = made if isinstance(made, tuple) else (made,)
        if len(made) != len(ctx._counts):
            raise RuntimeError(f"{entry.name}: the derivative gave {len(made)} gradients for {len(ctx._counts)} "
                               f"arguments; return one, or None, for each")
        return (None, None, *_spread(made, ctx._counts))
    return type(f"GeneratedBackwardFor_{namespace}_{short}_{overload or 'default'}", (cresset.autograd.Function,),
                {"forward": staticmethod(forward), "backward": staticmethod(backward), "listed": listed})


def _derive(entry: _Entry, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if entry.backward is None:  # of a Library: what the implementation calls is differentiated
        return NotImplemented if entry.opaque else _dispatch(entry.name, "run", args, kwargs)
    if entry.function is None:
        entry.function = _function(entry)
    counts = [len(a) if _is_list(a) else None for a in args]
    output = entry.function.apply(counts, kwargs, *_spread(args, counts))
    return list(output) if entry.function.listed else output


def _dispatch(name: str, how: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """how: "run", "fake" or "derive"."""
    entry = _entries[name]
    if how == "derive":
        return _derive(entry, args, kwargs)
    if how == "fake":
        rule = entry.fake or (next(iter(entry.kernels.values())) if entry.composite and entry.kernels else None)
        if rule is None:
            raise RuntimeError(f"{name} has no fake rule, which recording and export need: write a function that takes "
                               f"the operator's arguments and returns tensors like its results "
                               f"(cresset.empty_like(x)), and register it with @{_short(name)}.register_fake or "
                               f"cresset.library.register_fake({name!r}, function)")
        return rule(*args, **kwargs)
    kernel = entry.kernels.get("cpu") or entry.kernels.get("")
    if kernel is None:
        there = ", ".join(sorted(entry.kernels)) or "none"
        raise NotImplementedError(f"{name} has no implementation for tensors of the CPU (those there are: {there}): "
                                  f"register one with register_kernel('cpu') or Library.impl(name, function, 'CPU')")
    return kernel(*args, **kwargs)


def _entry(op: Any) -> _Entry:
    name = op if isinstance(op, str) else op._qualname if isinstance(op, CustomOpDef) else _C._resolve(op)
    if name is None:
        raise ValueError(f"expected the name of a custom operator, the operator itself or its overload, not {op!r}")
    name = name.removesuffix(".default")
    if name not in _entries:
        raise RuntimeError(f"there is no custom operator {name}: define it first, with custom_op() or Library.define()")
    return _entries[name]


def _define(schema: str, compliant: bool) -> str:
    name = _C._define_op(_letters(schema), _dispatch, compliant)
    _entries[name] = _Entry(name)
    return name


def _letters(schema: str) -> str:
    """Alias sets as single letters: (a0!) (a1!) -> (a!) (b!)."""
    seen: dict[str, str] = {}
    return re.sub(r"\((a\d+)(!?)\)", lambda m: f"({seen.setdefault(m[1], chr(ord('a') + len(seen)))}{m[2]})", schema)


# ---- schemas from annotations ----

_ATOMS = {int: "SymInt", float: "float", bool: "bool", str: "str", complex: "complex"}
_NUMBERS = {int, float, bool}


def _type_text(annotation: Any) -> str | None:
    """The schema's name for a type; None: it has none."""
    if annotation is cresset.Tensor:
        return "Tensor"
    if annotation is cresset.dtype:
        return "ScalarType"
    if annotation is cresset.device:
        return "Device"
    if annotation in _ATOMS:
        return _ATOMS[annotation]
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        rest = [arg for arg in args if arg is not type(None)]
        if len(rest) < len(args):
            inner = _type_text(rest[0]) if len(rest) == 1 else _type_text(typing.Union[tuple(rest)])
            return inner and inner + "?"
        return "Scalar" if set(rest) <= _NUMBERS and len(rest) > 1 else None
    if origin in (list, collections.abc.Sequence) and len(args) == 1:
        inner = _type_text(args[0])
        return inner and inner + "[]"
    return None


def _return_text(annotation: Any) -> str | None:
    if annotation is None or annotation is type(None):
        return "()"
    if typing.get_origin(annotation) is tuple:
        parts = [_type_text(arg) for arg in typing.get_args(annotation)]
        return None if None in parts or not parts else "(" + ", ".join(map(str, parts)) + ")"
    text = _type_text(annotation)
    return None if text is None or text.endswith("?") else text


def _default_text(value: Any) -> str | None:
    if value is None or isinstance(value, (bool, int, float)):
        return str(value)
    return f'"{value}"' if isinstance(value, str) and '"' not in value else None


def infer_schema(prototype_function: Callable[..., Any], /, *, mutates_args: str | Iterable[str],
                 op_name: str | None = None) -> str:
    """The schema of a function from its annotations. mutates_args: the names of the tensors that it writes, or
    "unknown" (all of them)."""
    signature = inspect.signature(prototype_function)

    def fail(problem: str) -> typing.NoReturn:
        raise ValueError(f"infer_schema(): {problem}. The function is "
                         f"{getattr(prototype_function, '__name__', 'f')}{signature}")
    try:
        hints = typing.get_type_hints(prototype_function)
    except Exception as error:
        fail(f"its annotations cannot be read ({error})")
    if not isinstance(mutates_args, str) or mutates_args != "unknown":
        mutates_args = {mutates_args} if isinstance(mutates_args, str) else set(mutates_args)
        unknown = mutates_args - set(signature.parameters)
        if unknown:
            fail(f"mutates_args names {', '.join(map(repr, sorted(unknown)))}, which is no parameter")
    parts, keywords, written = [], False, 0
    for name, parameter in signature.parameters.items():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            fail(f"parameter {name!r} is positional-only, *args or **kwargs, which schemas do not have")
        if parameter.annotation is parameter.empty:
            fail(f"parameter {name!r} needs a type annotation")
        if parameter.kind is parameter.KEYWORD_ONLY and not keywords:
            parts.append("*")
            keywords = True
        text = _type_text(hints[name])
        if text is None:
            fail(f"parameter {name!r} has the type {hints[name]!r}, which schemas do not have: "
                 f"use Tensor, int, float, bool, str, dtype, device, numbers, and lists or Optional of them")
        if (mutates_args == "unknown" and text.startswith("Tensor") or name in mutates_args
            and mutates_args != "unknown"):
            if not text.startswith("Tensor"):
                fail(f"mutates_args names {name!r}, which is no tensor")
            text = text.replace("Tensor", f"Tensor(a{written}!)", 1)
            written += 1
        default = ""
        if parameter.default is not parameter.empty:
            default = _default_text(parameter.default)
            if default is None:
                fail(f"parameter {name!r} has a default of type {type(parameter.default).__name__}, which schemas do "
                     f"not have: use numbers, texts, bools or None")
            default = "=" + default
        parts.append(f"{text} {name}{default}")
    if signature.return_annotation is signature.empty:
        fail("it needs a return annotation (-> Tensor, or -> None)")
    result = _return_text(hints.get("return"))
    if result is None:
        fail(f"it returns {hints.get('return')!r}, which schemas do not have: use Tensor, a list or tuple of tensors, "
             f"numbers, or None")
    return f"{op_name or ''}({', '.join(parts)}) -> {result}"


# ---- custom_op ----

class CustomOpDef:
    """A custom operator: call it, and register what belongs to it."""

    def __init__(self, namespace: str, name: str, schema: str, fn: Callable[..., Any]):
        self._namespace, self._name, self._qualname = namespace, name, f"{namespace}::{name}"
        self._schema, self._init_fn = schema, fn
        self.__name__ = name
        self.__doc__ = fn.__doc__

    @property
    def _opoverload(self) -> Any:
        return getattr(getattr(cresset.ops, self._namespace), self._name).default

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._opoverload(*args, **kwargs)

    def register_fake(self, fn: Callable[..., Any], /) -> Callable[..., Any]:
        """Decorator: the function gives the results' dtypes and sizes, by returning tensors like them; it runs on
        tensors without data."""
        _entries[self._qualname].fake = fn
        return fn

    def register_kernel(self, device_types: str | Sequence[str] | None, fn: Callable[..., Any] | None = None,
                        /) -> Callable[..., Any]:
        """Decorator: the implementation for tensors of these devices (None: all)."""
        def add(function: Callable[..., Any]) -> Callable[..., Any]:
            for device in ([""] if device_types is None else
                           [device_types] if isinstance(device_types, str) else device_types):
                _entries[self._qualname].kernels[device] = function
            return function
        return add if fn is None else add(fn)

    register_impl = register_kernel

    def register_autograd(self, backward: Callable[..., Any], /, *,
                          setup_context: Callable[..., Any] | None = None) -> None:
        """backward(ctx, *grads) gives the gradients of the arguments; setup_context(ctx, inputs, output) saves what it
        needs."""
        entry = _entries[self._qualname]
        if "!" in self._schema:
            raise RuntimeError(f"{self._qualname} writes to its arguments: a derivative can only be registered for "
                               f"operators that do not")
        entry.backward, entry.setup_context, entry.function = backward, setup_context, None

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"


def custom_op(name: str, fn: Callable[..., Any] | None = None, /, *, mutates_args: str | Iterable[str],
              device_types: str | Sequence[str] | None = None,
              schema: str | None = None, tags: Any = None) -> Any:
    """Decorator: the function becomes the operator "namespace::name". schema: instead of the one inferred from
    annotations, without the name."""
    _is_compliant("custom_op", tags)
    namespace, colons, short = name.partition("::")
    if not colons or not namespace.isidentifier() or not short.isidentifier():
        raise ValueError(f"custom_op(): the name is 'namespace::name', not {name!r}")

    def make(function: Callable[..., Any]) -> CustomOpDef:
        text = infer_schema(function, mutates_args=mutates_args) if schema is None else schema.strip()
        full = name + text if text.startswith("(") else text
        there = _schema_there(namespace, short)
        if there:  # once more, in a notebook: the same operator with another implementation; or a row of the table, for
            # archives that name a library's operator: the row goes on carrying it out
            if there != _C._schema_text(_letters(full)):
                raise RuntimeError(f"the operator {name} is defined already, with another schema: {there}")
            _entries[name] = _Entry(name)
        else:
            _define(full, True)  # as PyTorch tags it
        made = CustomOpDef(namespace, short, text, function)
        made.register_kernel(device_types, function)
        _entries[name].opaque = True
        return made
    return make if fn is None else make(fn)


def _schema_there(namespace: str, short: str) -> str | None:
    packet = getattr(getattr(cresset.ops, namespace), short, None)
    overload = getattr(packet, "default", None)
    return overload._schema if overload else None


# ---- Library ----

class Library:
    """A namespace of operators. kind: "DEF" (its one owner), "FRAGMENT" (adds operators to it) or "IMPL"
    (implementations only)."""

    def __init__(self, ns: str, kind: Literal["DEF", "FRAGMENT", "IMPL"], dispatch_key: str = ""):
        if kind not in ("DEF", "FRAGMENT", "IMPL"):
            raise ValueError(f"Library(): the kind is 'DEF', 'FRAGMENT' or 'IMPL', not {kind!r}")
        if not ns.isidentifier() or ns in ("prim", "prims"):
            raise ValueError(f"Library(): {ns!r} cannot be a namespace")
        if kind == "DEF":
            if ns in _namespaces:
                raise RuntimeError(f"the namespace {ns!r} has a library of kind 'DEF' already; use 'FRAGMENT' to add "
                                   f"operators to it, or 'IMPL' for implementations")
            _namespaces.add(ns)
        _key(dispatch_key)
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key
        self._defined: list[str] = []
        # what was registered for an operator before this library added to it
        self._before: dict[str, dict[str, Any]] = {}

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """Adds the operator of a schema "name(Tensor x) -> Tensor"; gives its name."""
        compliant = _is_compliant("define", tags)
        if alias_analysis not in ("", "FROM_SCHEMA"):
            raise NotImplementedError(f"define(alias_analysis={alias_analysis!r}): what an operator writes and returns "
                                      f"is what its schema says, 'FROM_SCHEMA'")
        if self.kind == "IMPL":
            raise RuntimeError(f"a library of kind 'IMPL' defines no operators; make Library({self.ns!r}, 'FRAGMENT')")
        if "(" not in schema:
            raise RuntimeError(f"define(): {schema!r} is a name without a schema; write the arguments and results: "
                               f"'{schema}(Tensor x) -> Tensor'")
        name = schema.partition("(")[0].strip()
        if f"{self.ns}::{name}" in _entries:
            raise RuntimeError(f"the operator {self.ns}::{name} is defined already")
        _define(f"{self.ns}::{schema.strip()}", compliant)
        self._defined.append(name)
        return name

    def impl(self, op_name: Any, fn: Callable[..., Any], dispatch_key: str = "", *, with_keyset: bool = False) -> None:
        """The implementation of an operator; key "Meta" is its fake rule, "CompositeImplicitAutograd" one that consists
        of other operators."""
        if not callable(fn):
            raise TypeError(f"impl(): expected a function, not {type(fn).__name__}")
        if with_keyset:
            raise NotImplementedError("impl(with_keyset=True): there are no dispatch key sets here; the function takes "
                                      "the operator's arguments alone")
        name = op_name if isinstance(op_name, str) else op_name.name()
        entry = _entry(name if "::" in name else f"{self.ns}::{name}")
        _keep(self, entry)
        _put(entry, dispatch_key or self.dispatch_key or "CompositeExplicitAutograd", fn)

    def _destroy(self) -> None:
        """What it registered is taken back. Operators stay: graphs may name them."""
        for name, before in self._before.items():
            _entries[name].__dict__.update(before)
        self._before.clear()
        if self.kind == "DEF":
            _namespaces.discard(self.ns)

    def __repr__(self) -> str:
        return f"Library(kind={self.kind}, ns={self.ns}, dispatch_key={self.dispatch_key})"


def _key(key: str) -> str:
    if key not in _KEYS:
        raise ValueError(f"there is no dispatch key {key!r} here: use 'CPU', 'Meta', 'CompositeExplicitAutograd' or "
                         f"'CompositeImplicitAutograd'")
    return key


def _put(entry: _Entry, key: str, fn: Callable[..., Any]) -> None:
    _key(key)
    if key == "Meta":
        entry.fake = fn
    elif key.startswith("Autograd"):
        raise NotImplementedError(f"{entry.name}: derivatives are registered with register_autograd(), not as an "
                                  f"implementation for {key}")
    else:
        entry.composite = entry.composite or key == "CompositeImplicitAutograd"
        entry.kernels["cpu" if key == "CPU" else "cuda" if key == "CUDA" else ""] = fn


def _is_compliant(function: str, tags: Any) -> bool:
    given = list(tags) if isinstance(tags, (list, tuple, set)) else [tags] if tags else []
    if any(tag is not Tag.pt2_compliant_tag for tag in given):
        raise NotImplementedError(f"{function}(tags={tags!r}): Tag.pt2_compliant_tag is the one tag that operators "
                                  "have here; leave others out")
    return bool(given)


def _keep(lib: Library | None, entry: _Entry) -> None:
    """What is registered now, for the day when the library goes."""
    if lib is not None and not isinstance(lib, Library):
        raise TypeError(f"lib is a Library, not {type(lib).__name__}")
    if lib is not None:
        lib._before.setdefault(entry.name, entry.copy())


def define(qualname: str, schema: str, *, lib: Library | None = None, tags: Any = ()) -> None:
    """Adds an operator: define("mylib::f", "(Tensor x) -> Tensor")."""
    if "::" not in qualname:
        raise ValueError(f"define(): the name is 'namespace::name', not {qualname!r}")
    namespace, _, name = qualname.partition("::")
    (lib or Library(namespace, "FRAGMENT")).define(name + schema, tags=tags)


def impl(qualname: str, types: str | Sequence[str], func: Callable[..., Any] | None = None, *,
         lib: Library | None = None) -> Any:
    """Registers an implementation: for device types ("cpu", "default") or dispatch keys. A decorator without `func`.
    With `lib`, as long as that library is there."""
    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        _keep(lib, _entry(qualname))
        for kind in [types] if isinstance(types, str) else types:
            _put(_entry(qualname), {"cpu": "CPU", "cuda": "CUDA", "default": "CompositeExplicitAutograd"}.get(kind,
                    kind), function)
        return function
    return add if func is None else add(func)


def register_kernel(op: Any, device_types: str | Sequence[str] | None, func: Callable[..., Any] | None = None, /, *,
                    lib: Library | None = None) -> Any:
    """The implementation of an operator for tensors of these devices (None: all). A decorator without `func`."""
    return impl(_entry(op).name, "default" if device_types is None else device_types, func, lib=lib)


def register_fake(op: Any, func: Callable[..., Any] | None = None, /, *, lib: Library | None = None,
                  allow_override: bool = True) -> Any:
    """The fake rule of an operator. A decorator without `func`."""
    entry = _entry(op)

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        if entry.fake is not None and not allow_override:
            raise RuntimeError(f"{entry.name} has a fake rule already; register_fake(allow_override=True) replaces it")
        _keep(lib, entry)
        entry.fake = function
        return function
    return add if func is None else add(func)


def register_autograd(op: Any, backward: Callable[..., Any], /, *, setup_context: Callable[..., Any] | None = None,
                      lib: Library | None = None) -> None:
    """The derivative of an operator, kept with it."""
    entry = _entry(op)
    _keep(lib, entry)
    entry.backward, entry.setup_context, entry.function = backward, setup_context, None


# ---- opcheck ----

class OpCheckError(Exception):
    """An operator does not do what was registered about it."""


_CHECKS = ("test_schema", "test_faketensor", "test_recording")


def opcheck(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None, *,
            test_utils: str | Sequence[str] = _CHECKS, raise_exception: bool = True) -> dict[str, str]:
    """Tests an operator on these arguments: does it write only what its schema says (test_schema), is the fake rule
    right (test_faketensor), does a recording of it give the same (test_recording)? OpCheckError says what is wrong;
    with raise_exception=False the problems are in the result."""
    entry, kwargs = _entry(op), kwargs or {}
    namespace, _, name = entry.name.partition("::")
    packet, _, overload = name.partition(".")
    call = getattr(getattr(getattr(cresset.ops, namespace), packet), overload or "default")
    tests = {"test_schema": _check_schema, "test_faketensor": _check_fake, "test_recording": _check_recording}
    found = {}
    for test in [test_utils] if isinstance(test_utils, str) else test_utils:
        if test not in tests:
            raise ValueError(f"opcheck(): there is no test {test!r}: use {', '.join(_CHECKS)}")
        problem = tests[test](call, args, kwargs)
        if problem and raise_exception:
            raise OpCheckError(f"opcheck({entry.name}): {test} failed: {problem}")
        found[test] = problem or "SUCCESS"
    return found


def _copy(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(map(_copy, value))
    return value.clone() if isinstance(value, cresset.Tensor) else value


def _tensors(value: Any) -> list[Any]:
    if isinstance(value, (list, tuple)):
        return [leaf for item in value for leaf in _tensors(item)]
    return [value] if isinstance(value, cresset.Tensor) else []


def _attempt(function: Callable[[], Any]) -> tuple[Any, str | None]:
    try:
        return function(), None
    except Exception as error:
        return None, f"{type(error).__name__}: {error}"


def _check_schema(call: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str | None:
    given, named = _copy(args), {key: _copy(value) for key, value in kwargs.items()}
    _, problem = _attempt(lambda: call(*given, **named))
    if problem:
        return problem
    text = call._schema.partition("(")[2]
    parameters = [part.strip() for part in text[:text.rindex(") ->")].split(",") if part.strip() != "*"]
    for part, before, after in zip(parameters, [*args, *kwargs.values()], [*given, *named.values()]):
        changed = any(not bool((a == b).all()) for a, b in zip(_tensors(before), _tensors(after)))
        if changed and "!" not in part:
            return f"the argument '{part}' was changed, and the schema does not say so; name it in mutates_args"
    return None


def _check_fake(call: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str | None:
    mode = cresset.FakeTensorMode()

    def fakes(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return type(value)(map(fakes, value))
        return mode.from_tensor(value) if isinstance(value, cresset.Tensor) else value
    real, problem = _attempt(lambda: call(*_copy(args), **{key: _copy(value) for key, value in kwargs.items()}))
    fake, fake_problem = (None, None) if problem else _attempt(lambda: call(*fakes(args),
            **{key: fakes(value) for key, value in kwargs.items()}))
    if problem or fake_problem:
        return problem or fake_problem
    ours, theirs = _tensors([real]), _tensors([fake])
    if len(ours) != len(theirs):
        return f"the fake rule gives {len(theirs)} tensors, the implementation {len(ours)}"
    for i, (a, b) in enumerate(zip(ours, theirs)):
        for what in ("dtype", "shape"):
            if getattr(a, what) != getattr(b, what):
                return (f"result {i}: the fake rule gives the {what} {getattr(b, what)}, the implementation "
                        f"{getattr(a, what)}")
        if a.stride() != b.stride():
            return f"result {i}: the fake rule gives the strides {b.stride()}, the implementation {a.stride()}"
    return None


def _check_recording(call: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str | None:
    tensors = _tensors([*args, *kwargs.values()])

    def function(*given: Any) -> Any:
        rest = iter(given)

        def put(value: Any) -> Any:
            if isinstance(value, (list, tuple)):
                return type(value)(map(put, value))
            return next(rest) if isinstance(value, cresset.Tensor) else value
        result = call(*put(args), **{key: put(value) for key, value in kwargs.items()})
        return tuple(_tensors([result])) + given
    graph, problem = _attempt(lambda: cresset.record(function, tuple(tensors)))
    if problem:
        return problem
    copies = [tensor.clone() for tensor in tensors]
    wanted, problem = _attempt(lambda: function(*copies))
    got, run_problem = (None, None) if problem else _attempt(lambda: graph.run(*[tensor.clone() for tensor in tensors]))
    if problem or run_problem:
        return problem or run_problem
    got = got if isinstance(got, tuple) else (got,)
    same = len(wanted) == len(got) and all(bool(((a == b) | ((a != a) & (b != b))).all()) for a, b in zip(wanted, got))
    return None if same else "the recorded graph gives other values than the call"
