"""Tensors as text, laid out as PyTorch lays them out.

A tensor is first reduced to nested lists of Python numbers, in which `...` stands for what a long dimension leaves out.
One look at the numbers that remain decides how all of them are written (plain, with decimals, or scientific) and how
wide.
"""
import math

from cresset import _C


class _Options:
    precision = 4
    threshold = 1000
    edgeitems = 3
    linewidth = 80
    sci_mode = None


_PROFILES = {"default": (4, 1000, 3, 80), "short": (2, 1000, 2, 80), "full": (4, math.inf, 3, 80)}


def set_printoptions(precision=None, threshold=None, edgeitems=None, linewidth=None, profile=None, sci_mode=None):
    """How tensors print: digits after the point, elements before summarising, elements kept at each end, columns."""
    if profile is not None:
        if profile not in _PROFILES:
            raise ValueError(f"set_printoptions(): profile must be one of {', '.join(_PROFILES)}, not {profile!r}")
        _Options.precision, _Options.threshold, _Options.edgeitems, _Options.linewidth = _PROFILES[profile]
    for name, value in (("precision", precision), ("threshold", threshold), ("edgeitems", edgeitems),
                        ("linewidth", linewidth)):
        if value is not None:
            setattr(_Options, name, value)
    _Options.sci_mode = sci_mode


def _nested(tensor, summarize):
    """Nested lists; a dimension too long keeps its ends around an Ellipsis."""
    if not summarize or tensor.dim() == 0:
        return tensor.tolist()
    edge, n = _Options.edgeitems, tensor.shape[0]
    if n <= 2 * edge:
        return tensor.tolist() if tensor.dim() == 1 else [_nested(tensor[i], True) for i in range(n)]
    if not edge:
        return [...]
    if tensor.dim() == 1:
        return [*tensor[:edge].tolist(), ..., *tensor[n - edge:].tolist()]
    return [*(_nested(tensor[i], True) for i in range(edge)), ...,
            *(_nested(tensor[i], True) for i in range(n - edge, n))]


def _leaves(data):
    if isinstance(data, list):
        for item in data:
            yield from _leaves(item)
    elif data is not ...:
        yield data


def _plain_style(values):
    """(width, text of a number) for ints and bools."""
    width = max((len(str(v)) for v in values), default=1)
    return width, lambda v: str(v).rjust(width)


def _float_style(values):
    """(width, text of a number) for floats. Zeros and non-finite numbers follow what the others need."""
    digits = _Options.precision
    finite = [v for v in values if v and math.isfinite(v)]
    if not finite:
        return 1, lambda v: f"{v:.0f}" + ("." if math.isfinite(v) else "")
    whole = all(v == math.floor(v) for v in finite)
    low, high = min(map(abs, finite)), max(map(abs, finite))
    scientific = _Options.sci_mode
    if scientific is None:
        scientific = high / low > 1000 or high > 1e8 or (not whole and low < 1e-4)
    if scientific:
        text = lambda v: f"{v:.{digits}e}"
    elif whole:
        text = lambda v: f"{v:.0f}" + ("." if math.isfinite(v) else "")
    else:
        text = lambda v: f"{v:.{digits}f}"
    width = max(len(text(v)) for v in finite)
    return width, lambda v: text(v).rjust(width)


def _style(values, floating, is_complex):
    if not is_complex:
        return (_float_style if floating else _plain_style)(values)
    real_width, real = _float_style([v.real for v in values])
    imaginary_width, imaginary = _float_style([v.imag for v in values])

    def text(v):
        part = imaginary(v.imag).lstrip() + "j"
        return real(v.real) + (part if part[0] in "+-" else "+" + part)
    return real_width + imaginary_width + 1, text


def _layout(data, indent, width, text):
    if data == [...]:
        return "[...]"
    if not isinstance(data, list):
        return text(data).lstrip() if isinstance(data, complex) else text(data)
    if all(isinstance(item, list) or item is ... for item in data) and any(isinstance(item, list) for item in data):
        depth = _depth(data)
        rows = ["..." if item is ... else _layout(item, indent + 1, width, text) for item in data]
        return "[" + ("," + "\n" * (depth - 1) + " " * (indent + 1)).join(rows) + "]"
    per_line = max(1, (_Options.linewidth - indent) // (width + 2))
    items = [" ..." if item is ... else text(item) for item in data]
    lines = [", ".join(items[i:i + per_line]) for i in range(0, len(items), per_line)] or [""]
    return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"


def _depth(data):
    depth = 0
    while isinstance(data, list):
        depth += 1
        data = next((item for item in data if item is not ...), None)
    return depth


def _contents(tensor, indent):
    summarize = tensor.numel() > _Options.threshold
    data = _nested(tensor, summarize)
    width, text = _style(list(_leaves(data)), tensor.dtype.is_floating_point, tensor.dtype.is_complex)
    return _layout(data, indent, width, text)


def _has_default_dtype(dtype):
    default = _C.get_default_dtype()
    return dtype in (default, _C.complex128 if default is _C.float64 else _C.complex64, _C.int64, _C.bool)


def tensor_text(tensor):
    """repr(tensor)."""
    prefix, suffixes = "tensor(", []
    if tensor.device.type != "cpu":
        suffixes.append(f"device='{tensor.device}'")
    if tensor._is_fake():
        prefix, text = "FakeTensor(", "..."
        suffixes.append(f"size={tuple(tensor.shape)}")
        if not _has_default_dtype(tensor.dtype):
            suffixes.append(f"dtype={tensor.dtype}")
    elif tensor.numel() == 0:
        text = "[]"
        if tensor.dim() != 1:
            suffixes.append(f"size={tuple(tensor.shape)}")
        if tensor.dtype is not _C.get_default_dtype():
            suffixes.append(f"dtype={tensor.dtype}")
    else:
        text = _contents(tensor.detach() if tensor.requires_grad else tensor, len(prefix))
        if not _Options.edgeitems:  # nothing else would show the size
            suffixes.append(f"size={tuple(tensor.shape)}")
        if not _has_default_dtype(tensor.dtype):
            suffixes.append(f"dtype={tensor.dtype}")
    if tensor.requires_grad:
        node = tensor.grad_fn
        suffixes.append("requires_grad=True" if node is None else f"grad_fn=<{node.name()}>")
    text = prefix + text
    used = len(text) - text.rfind("\n") + 1
    for suffix in suffixes:
        if used + len(suffix) + 2 > _Options.linewidth:
            text += ",\n" + " " * len(prefix) + suffix
            used = len(prefix) + len(suffix)
        else:
            text += ", " + suffix
            used += len(suffix) + 2
    return text + ")"
