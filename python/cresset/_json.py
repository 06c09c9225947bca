"""Graphs as JSON: the same information as their text, in dicts and lists.

    data = to_json(graph)              # json.dumps(data) works
    assert from_json(data) == graph

A value's type is {"dtype", "sizes", "strides", "offset", "device", ...} with symbolic sizes as texts; an argument is a
dict of one key: {"as_value": "x"}, {"as_int": 3}, {"as_list": [...]}, ...; "of" names the earlier value whose memory a
value shares. Symbols and the conditions on them are kept as the lines of the text.
"""
import json

from cresset import _C

_SHORT = {"bool": "b8", "bfloat16": "bf16", **{f"{kind}{bits}": f"{kind[0]}{bits}" for kind, all_bits in (
    ("uint", (8, 16, 32, 64)), ("int", (8, 16, 32, 64)), ("float", (16, 32, 64)), ("complex", (32, 64, 128)))
                                               for bits in all_bits}}
_DECLARATIONS = ("symbol ", "guard ", "assert ", "assume ")


def to_json(graph):
    data = _plain(graph._data())
    lines = (line.strip() for line in str(graph).splitlines())
    data["declarations"] = [line for line in lines if line.startswith(_DECLARATIONS)]
    return data


def from_json(data):
    lines = []
    _write_graph(data, lines, "")
    return _C.Graph.parse("\n".join(lines))


def _plain(data):
    data["constants"] = [{**constant, "tensor": _elements(constant["tensor"])} for constant in data["constants"]]
    data["subgraphs"] = [_plain(sub) for sub in data["subgraphs"]]
    return data


def _elements(tensor):
    """The numbers of a small constant; None for those whose text leaves them out."""
    if _C.is_fake(tensor) or tensor.numel() > 64:
        return None
    return [_number(value) for value in _C._function("flatten")(tensor).tolist()]


def _number(value):
    if isinstance(value, complex):
        return {"complex": [_number(value.real), _number(value.imag)]}
    if isinstance(value, bool):
        return int(value)
    return value if isinstance(value, int) or abs(value) < float("inf") else repr(value)


def _element_text(value):
    if isinstance(value, dict):
        return "({}, {}j)".format(*map(_element_text, value["complex"]))
    return value if isinstance(value, str) else repr(value)


def _meta_text(meta, of=None):
    text = _SHORT.get(meta["dtype"], meta["dtype"]) + "[" + ", ".join(map(str, meta["sizes"])) + "]"
    text += "(" + ", ".join(map(str, meta["strides"])) + ")"
    if meta["offset"] != 0:
        text += f"+{meta['offset']}" if isinstance(meta["offset"], int) else f"+({meta['offset']})"
    if meta["device"] != "cpu":
        text += "@" + meta["device"]
    text += " conj" * meta["conj"] + " neg" * meta["neg"]
    return text + (f" of %{of}" if of else "")


def _type_text(value):
    if "meta" in value:
        return _meta_text(value["meta"], value["of"])
    return value["type"] + ("{" + value["expr"] + "}" if "expr" in value else "")


_ARGUMENTS = {
    "as_none": lambda value: "none",
    "as_value": lambda value: "%" + value,
    "as_int": str,
    "as_float": repr,
    "as_bool": lambda value: "true" if value else "false",
    "as_complex": lambda value: f"({value[0]!r}, {value[1]!r}j)",
    "as_string": lambda value: _quoted(value),
    "as_scalar_type": lambda value: _SHORT.get(value, value),
    "as_layout": str,
    "as_memory_format": str,
    "as_device": lambda value: f'device("{value}")',
    "as_graph": lambda value: "@" + value,
    "as_list": lambda value: "[" + ", ".join(map(_argument_text, value)) + "]",
}


def _quoted(text):
    return json.dumps(text, ensure_ascii=False)


def _argument_text(argument):
    (kind, value), = argument.items()
    return _ARGUMENTS[kind](value)


def _results_text(results):
    parts, at = [], 0
    while at < len(results):
        end = at
        while end < len(results) and results[end]["listed"]:
            end += 1
        if end > at:
            names, types = (", ".join(f(r) for r in results[at:end]) for f in (lambda r: "%" + r["name"], _type_text))
            parts.append(f"[{names}]: [{types}]")
            at = end
        else:
            result = results[at]
            parts.append(f"%{result['name']}{'!' * result['hidden']}: {_type_text(result)}")
            at += 1
    return ", ".join(parts) + (" = " if parts else "")


def _write_node(node, lines, indent):
    if node["kind"] == "output":
        lines.append(f"{indent}return " + ", ".join(map(_argument_text, node["args"])))
        return
    text = indent + _results_text(node["results"])
    if node["kind"] == "get_attr":
        text += "get_attr " + _quoted(node["target"])
    else:
        given = (_argument_text(a["arg"]) if a["kind"] == "positional" else f"{a['name']}={_argument_text(a['arg'])}"
                 for a in node["args"])
        text += f"{node['target']}({', '.join(given)})"
    for key, origin in zip(("stack", "module", "fn"), node["origin"]):
        if origin is not None:
            text += f" {key}={_quoted(origin)}"
    lines.append(text)


def _write_graph(data, lines, indent):
    inputs = [node["results"][0] for node in data["nodes"] if node["kind"] == "placeholder"]
    name = " " + data["name"] if data["name"] else ""
    lines.append(f"{indent}graph{name}(" + ", ".join(f"%{value['name']}: {_type_text(value)}" for value in inputs)
                 + ") {")
    inner = indent + "  "
    lines += (inner + line for line in data.get("declarations", ()))
    for constant in data["constants"]:
        text = f"{inner}constant {_quoted(constant['name'])}: {_meta_text(constant['meta'])}"
        if constant["tensor"] is not None:
            text += " = [" + ", ".join(map(_element_text, constant["tensor"])) + "]"
        lines.append(text)
    for sub in data["subgraphs"]:
        _write_graph(sub, lines, inner)
    for node in data["nodes"]:
        if node["kind"] != "placeholder":
            _write_node(node, lines, inner)
    lines.append(indent + "}")
