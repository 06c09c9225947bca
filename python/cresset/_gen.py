"""Writes what follows from the op table: type stubs and the page of ops.

    python -m cresset._gen stubs [FILE]    python/cresset/__init__.pyi by default
    python -m cresset._gen docs [FILE]     docs/ops.md by default

`./dev gen` writes both. Run it after the table has changed; tests/py/test_generated.py fails when it was forgotten.
"""
import inspect
import keyword
import pathlib
import re
import sys

import cresset
from cresset import _C

TYPES = {"Tensor": "Tensor", "Scalar": "Number", "int": "int", "float": "float", "bool": "bool", "str": "str",
         "ScalarType": "dtype",
         "Layout": "layout", "Device": "device | str", "MemoryFormat": "memory_format", "Generator": "Generator",
         "Graph": "Any", "Any": "Any"}
# In the stub's module these names are dtypes, so the builtin types need another name there.
BUILTIN = {"int": "_int", "float": "_float", "bool": "_bool"}
RESERVED = {"from": "from_", "lambda": "lambda_"}


def annotation(parameter, result=False):
    text = TYPES[parameter["type"]]
    text = BUILTIN.get(text, text)
    if parameter["list"]:
        item = f"{text} | None" if parameter["item_optional"] else text
        if result:
            text = f"tuple[{item}, ...]"
        else:
            text = f"Sequence[{item}]" + (f" | {text}" if parameter["size"] and parameter["type"] != "Tensor" else "")
    elif parameter["type"] == "Tensor" and not result:
        text = "Tensor"
    return text + (" | None" if parameter["optional"] else "")


def name_of(text):
    return RESERVED.get(text, text + "_" if keyword.iskeyword(text) else text)


def default(parameter):
    text = parameter["default"]
    number = re.fullmatch(r"-?\d[\d.e+-]*", text)
    return {"none": "None", "true": "True", "false": "False"}.get(text, text if number else "...")


def results(parameters):
    texts = [annotation(p, result=True) for p in parameters]
    return "None" if not texts else texts[0] if len(texts) == 1 else f"tuple[{', '.join(texts)}]"


def signature(op, method):
    """The parameter list and result of one overload, as a stub writes them."""
    parameters, returns = _C._signature(op)
    if method:
        parameters = [p for p in parameters if p["name"] != "self"]
    writes_out = _C._row(op)["variant"] == "out"
    if writes_out:  # Python gives all of them under one name
        parameters = parameters[:-len(returns)]
    parts, starred, optional = (["self"] if method else []), False, False
    first = "self" if any(p["name"] == "input" for p in parameters) else "input"  # what functions call "self"
    for p in parameters:
        if p["keyword_only"] and not starred:
            parts.append("*")
            starred = True
        name = first if p["name"] == "self" else name_of(p["name"])
        text = f"{name}: {annotation(p)}"
        if p["default"] is not None or (p["optional"] and p["keyword_only"]):
            text += f" = {default(p) if p['default'] is not None else 'None'}"
            optional = True
        elif optional and not p["keyword_only"]:
            text += " = ..."
        parts.append(text)
    if writes_out:
        outs = "Tensor" if len(returns) == 1 else f"tuple[{', '.join(['Tensor'] * len(returns))}]"
        parts += ([] if starred else ["*"]) + ["out: " + outs]
    positional = [p for p in parameters if not p["keyword_only"]]
    spread = None
    if len(positional) == 1 and positional[0]["list"] and positional[0]["type"] == "int" and not positional[0]["size"]:
        name = name_of(positional[0]["name"])
        rest = [part for part in parts if part != "*" and not part.startswith(name + ":")][method:]
        spread = f"({', '.join(['self'] * method + [f'*{name}: _int', *rest])}) -> {results(returns)}"
    return [f"({', '.join(parts)}) -> {results(returns)}"] + ([spread] if spread else [])


def groups(form):
    """Public op names with their overloads, as Python shows them in this form."""
    found = {}
    for full in _C._op_names():
        namespace, _, rest = full.partition("::")
        name = rest.partition(".")[0]
        if form == "method" and _C._row(full)["variant"] == "out":
            continue
        if namespace == "aten" and _C._shown(full, form) and name.isidentifier():
            found.setdefault(name, []).append(full)
    return dict(sorted(found.items()))


def definitions(form, indent, skip):
    lines = []
    for name, ops in groups(form).items():
        if name in skip or name.startswith("_") or keyword.iskeyword(name):
            continue
        signatures = list(dict.fromkeys(s for op in ops for s in signature(op, form == "method")))
        for s in signatures:
            if len(signatures) > 1:
                lines.append(f"{indent}@overload")
            lines.append(f"{indent}def {name}{s}: ...")
    return lines


OPERATORS = """
    def __add__(self, other: Tensor | Number) -> Tensor: ...
    def __radd__(self, other: Number) -> Tensor: ...
    def __sub__(self, other: Tensor | Number) -> Tensor: ...
    def __rsub__(self, other: Number) -> Tensor: ...
    def __mul__(self, other: Tensor | Number) -> Tensor: ...
    def __rmul__(self, other: Number) -> Tensor: ...
    def __truediv__(self, other: Tensor | Number) -> Tensor: ...
    def __rtruediv__(self, other: Number) -> Tensor: ...
    def __floordiv__(self, other: Tensor | Number) -> Tensor: ...
    def __mod__(self, other: Tensor | Number) -> Tensor: ...
    def __pow__(self, other: Tensor | Number) -> Tensor: ...
    def __rpow__(self, other: Number) -> Tensor: ...
    def __matmul__(self, other: Tensor) -> Tensor: ...
    def __neg__(self) -> Tensor: ...
    def __pos__(self) -> Tensor: ...
    def __abs__(self) -> Tensor: ...
    def __invert__(self) -> Tensor: ...
    def __lt__(self, other: Tensor | Number) -> Tensor: ...
    def __le__(self, other: Tensor | Number) -> Tensor: ...
    def __gt__(self, other: Tensor | Number) -> Tensor: ...
    def __ge__(self, other: Tensor | Number) -> Tensor: ...
    def __eq__(self, other: object) -> Tensor: ...  # type: ignore[override]
    def __ne__(self, other: object) -> Tensor: ...  # type: ignore[override]
    def __getitem__(self, index: Any) -> Tensor: ...
    def __setitem__(self, index: Any, value: Tensor | Number) -> None: ...
    def __len__(self) -> _int: ...
    def __iter__(self) -> Iterator[Tensor]: ...
    def __contains__(self, value: Tensor | Number) -> _bool: ...
    def __bool__(self) -> _bool: ...
    def __int__(self) -> _int: ...
    def __float__(self) -> _float: ...
    def __index__(self) -> _int: ...
    def __complex__(self) -> complex: ...
""".strip("\n").splitlines()

ATTRIBUTES = """
    shape: Size
    dtype: dtype
    device: device
    layout: layout
    ndim: _int
    itemsize: _int
    nbytes: _int
    T: Tensor
    mT: Tensor
    H: Tensor
    mH: Tensor
    real: Tensor
    imag: Tensor
    data: Tensor
    requires_grad: _bool
    grad: Tensor | None
    grad_fn: Any
    is_leaf: _bool
    is_cpu: _bool
    is_cuda: _bool
    is_meta: _bool
""".strip("\n").splitlines()

METHODS = """
    def size(self, dim: _int | None = None) -> Any: ...
    def stride(self, dim: _int | None = None) -> Any: ...
    def dim(self) -> _int: ...
    def ndimension(self) -> _int: ...
    def numel(self) -> _int: ...
    def nelement(self) -> _int: ...
    def element_size(self) -> _int: ...
    def storage_offset(self) -> _int: ...
    def data_ptr(self) -> _int: ...
    def is_contiguous(self, memory_format: memory_format = ...) -> _bool: ...
    def is_floating_point(self) -> _bool: ...
    def is_complex(self) -> _bool: ...
    def item(self) -> Number: ...
    def tolist(self) -> Any: ...
    def numpy(self, *, force: _bool = False) -> Any: ...
    def requires_grad_(self, requires_grad: _bool = True) -> Tensor: ...
    def to(self, *args: Any, **kwargs: Any) -> Tensor: ...
    def cpu(self, memory_format: memory_format = ...) -> Tensor: ...
    def type(self, dtype: dtype | str | None = None, non_blocking: _bool = False) -> Any: ...
    def new_tensor(self, data: Any, dtype: dtype | None = None, device: device | str | None = None,
                   requires_grad: _bool = False) -> Tensor: ...
    def norm(self, p: Number | str = "fro", dim: _int | Sequence[_int] | None = None, keepdim: _bool = False,
             dtype: dtype | None = None) -> Tensor: ...
    def unique(self, sorted: _bool = True, return_inverse: _bool = False, return_counts: _bool = False, dim: _int | None = None) -> Any: ...
    def unique_consecutive(self, return_inverse: _bool = False, return_counts: _bool = False, dim: _int | None = None) -> Any: ...
    def nonzero(self, *, as_tuple: _bool = False) -> Any: ...
""".strip("\n").splitlines()
SHORT = "float double half bfloat16 long int short char byte bool cfloat cdouble chalf".split()


HEAD = '''
# ruff: noqa
"""Types of the package. Written by `python -m cresset._gen stubs`; do not edit."""
import builtins
from collections.abc import Iterator, Sequence
from typing import Any, overload

from . import export as export

_int = builtins.int
_float = builtins.float
_bool = builtins.bool
Number = builtins.int | builtins.float | builtins.bool | complex

class dtype:
    is_floating_point: _bool
    is_complex: _bool
    is_signed: _bool
    itemsize: _int
    def to_real(self) -> dtype: ...
    def to_complex(self) -> dtype: ...

class layout: ...
class memory_format: ...

class device:
    type: str
    index: _int | None
    def __init__(self, type: str | device, index: _int | None = None) -> None: ...

class Size(tuple[_int, ...]):
    def numel(self) -> _int: ...

class Generator:
    device: device
    def __init__(self, device: device | str | None = None) -> None: ...
    def manual_seed(self, seed: _int) -> Generator: ...
    def initial_seed(self) -> _int: ...
    def seed(self) -> _int: ...
    def get_state(self) -> Tensor: ...
    def set_state(self, new_state: Tensor) -> Generator: ...

class SymInt:
    hint: _int | None
    node: Any
class SymFloat:
    hint: _float | None
    node: Any
class SymBool:
    hint: bool | None
    node: Any

class OutOfMemoryError(MemoryError, RuntimeError): ...
class GuardOnDataDependentSymNode(RuntimeError): ...
class UnsupportedError(RuntimeError): ...

strided: layout
contiguous_format: memory_format
preserve_format: memory_format
channels_last: memory_format
channels_last_3d: memory_format
default_generator: Generator
inf: _float
nan: _float
pi: _float
e: _float
newaxis: None
ops: Any
__version__: str
'''.strip("\n").splitlines()
MAKERS = {"tensor", "as_tensor", "from_numpy", "frombuffer", "from_dlpack"}


def stubs():
    dtypes = sorted(n for n in dir(_C) if isinstance(getattr(_C, n), _C.dtype))
    plain = sorted(n for n in dir(_C) if not n.startswith("_") and inspect.isbuiltin(getattr(_C, n)))
    names = lambda block: {re.match(r"\s+(?:def )?(\w+)", line).group(1) for line in block}
    hidden = names(ATTRIBUTES) | names(METHODS) | set(SHORT) | {n for n in dir(_C._populated_tensor_type())
                                                                if n.startswith("__")}
    loose = lambda name: f"def {name}(*args: Any, **kwargs: Any) -> {'Tensor' if name in MAKERS else 'Any'}: ..."
    lines = HEAD + [f"{n}: dtype" for n in dtypes]
    lines += ["", "class Tensor:"] + ATTRIBUTES + METHODS + [f"    def {n}(self) -> Tensor: ..."
                                                             for n in SHORT] + OPERATORS
    lines += definitions("method", "    ", hidden) + [""]
    lines += [loose(n) for n in plain] + [loose(n) for n in sorted(cresset._LAZY) if n not in plain]
    lines += definitions("function", "", {*plain, *dtypes, *cresset._LAZY})
    return "\n".join(lines) + "\n"


def how(row):
    """In words: what computes the op."""
    if row["scalar"]:
        return f"`{row['scalar']}`"
    if row["has_kernel"]:
        return "kernel"
    if "view" in row["tags"]:
        return "view"
    if row["decomp"] or row["has_decomp_fn"]:
        return "other ops"
    return "shape only"


def docs():
    functional, derived = {}, {}
    for full in _C._op_names():
        row = _C._row(full)
        if "internal" in row["tags"]:
            continue
        (derived if row["derived"] else functional)[full] = row
    names = {full.partition("::")[2].partition(".")[0] for full in functional}
    lines = ["# Ops", "",
             "Written from the op table by `python -m cresset._gen docs`; do not edit. Each line is one op: its "
             "schema, its tags, how it",
             "is computed (a pointwise text, a kernel, a view, or other ops) and whether a derivative is written down "
             "(*d*).", "",
             f"{len(functional)} ops under {len(names)} names; {len(derived)} in-place and out forms are derived and "
             f"not listed.", ""]
    bare = lambda full: full.partition("::")[2].lstrip("_")
    last = None
    for full, row in sorted(functional.items(), key=lambda item: (bare(item[0]).lower(), item[0])):
        first = bare(full)[0].upper()
        if first != last:
            lines += ["", f"## {first}", "", "| schema | tags | computed by | |", "|---|---|---|---|"]
            last = first
        cell = lambda text: text.replace("|", "\\|")
        derivative = "d" if row["grad"] or row["has_grad_fn"] else ""
        lines.append(f"| `{cell(row['schema'])}` | {', '.join(row['tags'])} | {cell(how(row))} | {derivative} |")
    return "\n".join(lines) + "\n"


def main(args):
    root = pathlib.Path(__file__).resolve().parent.parent.parent
    targets = {"stubs": (stubs, root / "python" / "cresset" / "__init__.pyi"), "docs": (docs, root / "docs" / "ops.md")}
    if len(args) not in (1, 2) or args[0] not in targets:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    make, path = targets[args[0]]
    path = pathlib.Path(args[1]) if len(args) == 2 else path
    path.write_text(make())
    print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
