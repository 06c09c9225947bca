"""Writes what follows from the op table: type stubs and the page of ops.

    python -m cresset._gen stubs [FILE]    python/cresset/__init__.pyi by default
    python -m cresset._gen docs [FILE]     docs/ops.md by default

`./dev gen` writes both. Run it after the table has changed; tests/py/test_generated.py fails when it was forgotten.
"""
import collections
import inspect
import keyword
import pathlib
import re
import sys

import cresset
from cresset import _C

ROOT = pathlib.Path(__file__).resolve().parents[2]
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
class GuardError(AssertionError, RuntimeError): ...

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


# ---- the page of ops ----

# Letters for dtypes that are accepted or refused together nearly always.
GROUPS = {"b": "bool", "i": "uint8 int8 int16 int32 int64", "u": "uint16 uint32 uint64", "h": "float16 bfloat16",
          "f": "float32 float64", "k": "complex32", "c": "complex64 complex128"}
# Overloads that are for other kinds of tensors, other devices or lists of parameters: (what they are, how names begin).
OTHERS = [("lists of tensors (`_foreach_*`, `_fused_*`)", "foreach_|fused_"),
          ("sparse and nested tensors", "sparse|to_sparse|nested|coalesce|values|indices|ccol|crow|col_ind|row_ind|"
           "validate_|to_dense|dense_dim|smm|sspaddmm|resize_as_sparse|jagged|padded_|to_padded"),
          ("quantized tensors", "quantize|q_|int_repr|dequantize|fbgemm|choose_q|empty_quantized|wrapped_|dyn_quant|"
           "make_per_|fake_quantize_learn|weight_int|empty_affine|empty_per_channel"),
          ("other devices and libraries", "mkldnn|to_mkldnn|cudnn|miopen|mps_|lstm_mps|cufft|amp_|nnpack|triton|"
           "use_cudnn|is_vulkan|propagate_xla|philox"),
          ("PyTorch's own tests", "test_|foobar")]


def eager(row):
    """What computes the op."""
    if row["scalar"]:
        return "text"
    if "view" in row["tags"]:
        return "view or kernel" if row["has_kernel"] and not row["only_shape"] else "view"
    if "metadata" in row["tags"] or "higher_order" in row["tags"]:
        return "meta" if "metadata" in row["tags"] else "graphs"
    if row["only_shape"]:
        return "rule"
    return "kernel" if row["has_kernel"] else "parts" if row["decomp"] or row["has_decomp_fn"] else ""


def fake(row):
    """What tells the results' sizes and strides of a call without data."""
    if eager(row) == "parts":
        return "parts"
    return "new sizes" if "data_dependent" in row["tags"] else "rule"


def grad(row, theirs):
    """Where the derivative is from. `theirs`: PyTorch has one."""
    text = re.sub(r"\blet [^;]*;", "", row["grad"] or "")
    values = [clause.partition(":")[2] for clause in text.split(";") if ":" in clause
              and not clause.strip().startswith("not_differentiable")]
    refused = r"\s*(none|not_implemented\(\w+\)|\[not_implemented\(\w+\) for .*\])\s*"
    if row["has_grad_fn"] or not all(re.fullmatch(refused, value) for value in values):
        return "formula"
    if row["grad"] is None and (row["decomp"] or row["has_decomp_fn"]):
        return "parts"
    return "missing" if theirs else "none"


def native(row):
    """What a compiled program has for it."""
    way = eager(row)
    if way == "text":
        return "fused"
    if way in ("view", "meta", "rule"):
        return "no code"
    if way == "view or kernel":
        return "no code or kernel"
    if way == "graphs":
        return "graphs"
    return "kernel, fused" if way == "kernel" and row["reduces"] else way


def dtypes(full):
    """In letters of GROUPS; those of a group that is not whole by name."""
    found = {str(d).partition(".")[2] for d in _C._accepts(full)}
    if all(name in found for group in GROUPS.values() for name in group.split()):
        return "all"
    letters, rest = "", []
    for letter, group in GROUPS.items():
        some = [name for name in group.split() if name in found]
        if len(some) == len(group.split()):
            letters += letter
        else:
            rest += some
    return " ".join([letters, *rest] if letters else rest)


def shares(functional, theirs):
    """The table at the top: how many ops have what, by column."""
    n = len(functional)
    part = lambda count: f"{count} ({100 * count / n:.1f}%)"
    columns = {"eager": eager, "fake": fake, "grad": lambda row: grad(row, row["name"] in theirs), "native": native}
    lines = ["| column | ops that have it | how |", "|---|---|---|"]
    for name, cell in columns.items():
        counts = collections.Counter(cell(row) for row in functional.values())
        has = n - counts[""] - counts["missing"] - counts["none"]
        said = ", ".join(f"{word} {count}" for word, count in counts.most_common() if word)
        lines.append(f"| {name} | {part(has)} | {said} |")
    every = sum(dtypes(full) == "all" for full in functional)
    marked = [row for full, row in functional.items() if full in theirs]
    have = sum(grad(row, True) != "missing" for row in marked)
    return lines + [f"| dtypes | {part(every)} | all of them; the others as many as PyTorch's kernels take |", "",
                    f"PyTorch differentiates {len(marked)} of these ops; {have} of them have a derivative here."]


def held_against(recorded):
    """How many of PyTorch's overloads are here, and what the others are for."""
    ours = set(_C._op_names())
    here = [name for name in recorded if name in ours]
    absent = collections.Counter(
        next((what for what, begin in OTHERS if re.match(f"aten::_*(?:{begin})", name)), "")
        for name in recorded if name not in ours)
    plain = len(recorded) - sum(absent[what] for what, _ in OTHERS)
    return [f"**{len(here)} of the {len(recorded)} overloads of PyTorch's `aten` that a CPU carries out are here "
            f"({100 * len(here) / len(recorded):.1f}%)**, in-place and out forms counted; "
            f"{100 * len(here) / plain:.1f}% of the {plain} that are left without those for "
            + ", ".join(f"{what} ({absent[what]})" for what, _ in OTHERS) + ". (PyTorch's names are recorded in "
            "`tools/aten.txt`.)"]


LEGEND = {
    "eager": "what computes it: a pointwise *text* (the one that stands there), a *kernel*, a *view*, a change of the "
             "tensor's own sizes (*meta*), what a *rule* knows of sizes and dtypes, the *graphs* that it is given, or "
             "other ops (*parts*)",
    "fake": "what tells sizes and strides without data, of numbers and of symbols alike: a *rule* of its row (*new "
            "sizes*: some depend on data, and are symbols of their own), or those of its *parts*",
    "grad": "its derivative: a *formula*, or that of its *parts*; *none*: PyTorch has none either (comparisons, "
            "indices, what makes tensors, and where it refuses); *missing*: PyTorch has one",
    "native": "what a compiled program has for it: a loop that joins its neighbours' (*fused*), a *kernel* of the "
              "runtime (*kernel, fused*: or such a loop), *no code* (*meta* where the tensor's memory serves; else "
              "it is refused), or its *parts*",
    "dtypes": "those that it takes, as PyTorch's: "
              + ", ".join(f"`{letter}` {group.replace(' ', ', ')}" for letter, group in GROUPS.items()),
}


def docs():
    functional, derived = {}, {}
    for full in _C._op_names():
        row = _C._row(full)
        if "internal" in row["tags"]:
            continue
        (derived if row["derived"] else functional)[full] = row
    names = {full.partition("::")[2].partition(".")[0] for full in functional}
    recorded = dict((line.split() + [""])[:2] for line in (ROOT / "tools" / "aten.txt").read_text().splitlines())
    theirs = {name for name, mark in recorded.items() if mark}
    lines = ["# Ops", "",
             "Written from the op table by `python -m cresset._gen docs`; do not edit. Each line is one op: its "
             "schema, its tags, and", "", *(f"- **{column}**: {what}" for column, what in LEGEND.items()), "",
             f"{len(functional)} ops under {len(names)} names; {len(derived)} in-place and out forms are derived and "
             f"not listed.", "", *held_against(recorded), "", *shares(functional, theirs), ""]
    bare = lambda full: full.partition("::")[2].lstrip("_")
    last = None
    for full, row in sorted(functional.items(), key=lambda item: (bare(item[0]).lower(), item[0])):
        first = bare(full)[0].upper()
        if first != last:
            lines += ["", f"## {first}", "", "| schema | tags | eager | fake | grad | native | dtypes |",
                      "|---|---|---|---|---|---|---|"]
            last = first
        cell = lambda text: text.replace("|", "\\|")
        way = f"text `{cell(row['scalar'])}`" if row["scalar"] else eager(row)
        lines.append(f"| `{cell(row['schema'])}` | {', '.join(row['tags'])} | {way} | {fake(row)} | "
                     f"{grad(row, full in theirs)} | {native(row)} | {dtypes(full)} |")
    return "\n".join(lines) + "\n"


def main(args):
    targets = {"stubs": (stubs, ROOT / "python" / "cresset" / "__init__.pyi"), "docs": (docs, ROOT / "docs" / "ops.md")}
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
