"""Do two programs consist of the same calls? Graphs of Cresset on both sides: one decomposed here, one that PyTorch
decomposed and saved.

    problem = difference(ours, theirs)       # None, or what only one of them has

A call is known by its op, all its arguments (defaults filled in; tensors by what made them) and dtype, sizes and
strides of its results, so two graphs agree when they have the same calls equally often and return the same values; the
order of independent calls does not matter (`same_order` tells). Numbers are compared by expression, and the calls that
make them are not counted: which tensor a size is read from, and s0*s1 or s1*s0, say nothing about the program.
Arguments count by what they mean: a dim of -1 is the last one, the size that view and expand are asked for is that of
the result, a slice from 0 or to the end has no such bound, and dtype, device, layout and memory format of what a call
makes are its result's. Strides of dims of size 1 mean nothing.
"""
import collections
import functools
import hashlib
import re

import cresset


def digest(*parts):
    return hashlib.blake2b(repr(parts).encode(), digest_size=12).hexdigest()


def meta_of(result):
    meta = result.get("meta")
    if meta is None:
        return result["type"], result.get("expr")
    strides = [] if 0 in meta["sizes"] else [stride for size, stride in zip(meta["sizes"], meta["strides"])
                                             if size != 1]
    strides = re.sub(r"Max\(1, (\w+)\)", r"\1", str(strides))  # a stride of nothing is anything
    return meta["dtype"], str(meta["sizes"]), re.sub(r"'Min\((\d+), \1\*\w+\)'", r"\1", strides)


# Programs whose calls differ, and why (docs/differences.md says more). Everything else must agree.
KNOWN = {
    "complex_numbers": "a conjugate is computed here where it is asked for; PyTorch has a lazy view, and a clone that "
    "resolves it",
    "linear_systems": "linalg ops check their own errors here; PyTorch has calls of _linalg_check_errors, ordered by a "
    "token that is one more input",
    "lstm_dropout_train": "PyTorch's decomposition of lstm leaves out the dropout between layers; here it stays",
}

FACTORIES = {"full", "arange", "empty", "empty_permuted", "scalar_tensor", "full_like", "rand", "randn", "randint",
             "randperm", "zeros", "ones"}
# The arguments that a region's bodies take, in order; and those of them that free variables join, here in order of
# first use, in PyTorch in another.
OPERANDS = {"higher_order.cond": ["operands"], "higher_order.map_impl": ["xs", "pos_args"],
            "higher_order.scan": ["init", "xs", "additional_inputs"],
            "higher_order.while_loop": ["carried_inputs", "additional_inputs"]}
LIFTED = {"higher_order.cond": "operands", "higher_order.map_impl": "pos_args",
          "higher_order.scan": "additional_inputs", "higher_order.while_loop": "additional_inputs"}
ASIDE = {"device", "layout", "pin_memory", "memory_format", "assert_msg"}
DIMS = {"dim", "dims", "dim0", "dim1"}


class Calls:
    """The calls of a graph; `known` are what its names stand for."""

    def __init__(self, data, operands=None):
        """`operands`: of a region's body, what its inputs stand for; their order is the region's own affair."""
        self.known, self.calls, self.order, self.result, self.rank = {}, {}, [], None, {}
        self.count = collections.Counter()
        self.operands = []
        self.bodies = {sub["name"]: sub for sub in data["subgraphs"]}
        place = 0
        for node in data["nodes"]:
            results = node["results"]
            if node["kind"] == "placeholder":
                self.name(results, digest("input", place if operands is None else operands[place], meta_of(results[0])))
                place += 1
            elif node["kind"] == "get_attr":
                self.name(results, digest("constant", meta_of(results[0])))
            elif node["kind"] == "output":
                self.result = digest([self.argument(argument) for argument in node["args"]])
            else:
                self.call(node, results)

    def name(self, results, key):
        for i, result in enumerate(results):
            self.known[result["name"]] = digest(key, i)
            self.rank[result["name"]] = len(result["meta"]["sizes"]) if result.get("meta") else 0

    def call(self, node, results):
        if results and all(result.get("expr") is not None
                for result in results) and re.match(r"_operator\.|torch\.sym_|math\.|aten\.sym_", node["target"]):
            for result in results:
                self.known[result["name"]], self.rank[result["name"]] = digest("number", result["expr"]), 0
            return
        given = {item["name"]: item["arg"] for item in node["args"]}
        self.operands = [self.argument(value) for name in OPERANDS.get(node["target"], ()) for value in given.get(name,
                {}).get("as_list", ())]
        arguments = {item["name"]: self.argument(self.meaning(node, item)) for item in node["args"]}
        if self.operands and node["target"] in LIFTED:
            arguments[LIFTED[node["target"]]] = str(sorted(self.argument(value)
                                                           for value in given[LIFTED[node["target"]]]["as_list"]))
        arguments = {name: value for name, value in arguments.items() if not is_default(value,
                defaults(node["target"]).get(name))}
        metas = [meta_of(result) for result in results if not result["hidden"]]
        key = digest(node["target"], sorted(arguments.items()), metas[:1])
        given = ", ".join(f"{name}={value[:60]}" for name, value in arguments.items())
        self.calls[key] = f"{node['target']}({given}) -> {metas}"
        self.count[key] += 1
        self.order.append(node["target"])
        self.name(results, key)

    def meaning(self, node, item):
        """The argument without what another spelling of the same call would change."""
        name, op = item["name"], node["target"].split(".")[1]
        if name in ASIDE or name == "dtype" and op in FACTORIES:
            return {"as_none": True}
        if op in ("view", "expand") and name == "size":
            return {"as_string": str(node["results"][0]["meta"]["sizes"])}
        ends = {"start": {"as_int": 0}, "end": {"as_int": (1 << 63) - 1}}
        if op.startswith("slice") and name in ends and item["arg"] == ends[name]:
            return {"as_none": True}
        first = next((self.rank[i["arg"]["as_value"]] for i in flat(node["args"]) if "as_value" in i["arg"]),
                     0) + (op == "unsqueeze")
        if name in DIMS and "as_int" in item["arg"] and first:
            return {"as_int": item["arg"]["as_int"] % first}
        if name in DIMS and "as_list" in item["arg"] and first:
            return {"as_list": [{"as_int": i["as_int"] % first} for i in item["arg"]["as_list"]]}
        return item["arg"]

    def argument(self, argument):
        (kind, value), = argument.items()
        if kind == "as_value":
            return "%" + self.known[value]
        if kind == "as_list":
            return str([self.argument(item) for item in value])
        if kind == "as_graph":
            body = Calls(self.bodies[value], self.operands or None)
            return str(("graph", sorted(body.count.items()), body.result))
        if kind == "as_none":
            return "None"
        if kind == "as_float" and value == int(value if abs(value) < 1e15 else 0):
            return str(int(value))
        return str(int(value)) if isinstance(value, bool) else str(value)


def flat(items):
    """The arguments, and those in lists."""
    for item in items:
        yield item
        yield from ({"arg": inner} for inner in item["arg"].get("as_list", ()))


def is_default(value, default):
    """Also a list of equal numbers where the default is one number for all."""
    return value == default or default is not None and value.startswith("[") and set(value[1:-1].replace("'",
            "").split(", ")) == {default}


@functools.cache
def defaults(target):
    """The parameters of an op that have a default, as argument() would write it."""
    space, _, rest = target.partition(".")
    name, _, overload = rest.partition(".")
    return parse_defaults(getattr(getattr(cresset.ops.aten, name),
                                  overload or "default")._schema) if space == "aten" else {}


def parse_defaults(schema):
    inside = schema[schema.index("(") + 1:schema.rindex(") ->")]
    found, depth, part = {}, 0, ""
    for c in inside + ",":
        if c == "," and depth == 0:
            before, equals, value = part.strip().partition("=")
            if equals:
                found[before.split()[-1]] = canonical(value)
            part = ""
            continue
        depth += (c in "[(") - (c in "])")
        part += c
    return found


def canonical(text):
    words = {"True": "1", "False": "0", "None": "None"}
    if text in words:
        return words[text]
    if text.startswith("["):
        return str([canonical(item.strip()) for item in text[1:-1].split(",") if item.strip()])
    try:
        value = float(text)
        return str(int(value)) if value == int(value) else str(value)
    except ValueError:
        return text.strip("\"'")


def difference(ours, theirs):
    a, b = Calls(ours), Calls(theirs)
    if a.count == b.count:
        return None if a.result == b.result else "the same calls, other outputs"
    only_ours, only_theirs = a.count - b.count, b.count - a.count
    return first_difference(a, b, only_ours, only_theirs)


def first_difference(a, b, only_ours, only_theirs):
    """The calls of one side whose arguments the other side has, too: where the difference begins."""
    lines = []
    for sign, calls, only in (("+", a, only_ours), ("-", b, only_theirs)):
        for key, call in calls.calls.items():
            if key in only:
                lines.append(f"{sign} {only[key]}x {call}")
    ops = collections.Counter(a.order), collections.Counter(b.order)
    return f"ops only here {dict(ops[0] - ops[1])}, only there {dict(ops[1] - ops[0])}\n" + "\n".join(lines[:12])


def same_order(ours, theirs):
    return Calls(ours).order == Calls(theirs).order
