"""What export says about a case, in a form that both libraries share."""
import re

OO = "oo"


def bound(value):
    text = str(value)
    return int(value) if text.lstrip("-").isdigit() else OO if not text.startswith("-") else "-oo"


def read_fixes(message):
    """{name: what the suggested fix makes of it}, with a root that is new written as such."""
    _, found, text = message.partition("Suggested fixes:")
    fixes = {}
    for line in text.strip("\n").split("\n") if found else ():
        line = line.partition("#")[0].strip()
        if not line or " = " not in line:
            break
        name, _, value = line.partition(" = ")
        match = re.fullmatch(r"Dim\('\w+'(?:, min=(\d+))?(?:, max=(\w+))?\)", value)
        if match:
            value = [int(match.group(1) or 0), int(match.group(2)) if (match.group(2) or OO).isdigit() else OO]
            if value[0] <= 2:
                value[0] = 0        # 0 and 1 are never part of it
        fixes[name] = value
    return fixes


def refused(error):
    kind = type(error).__name__
    if kind == "UserError":
        kind = error.error_type.name
    if isinstance(error, ValueError):
        kind = "ValueError"
    message = str(error)
    found = re.search(r"[Cc]onstraints violated \(([^)]*\)?[^)]*)\)!", message)
    named = sorted(name for name in found.group(1).split(", ")) if found else []
    return {"verdict": "refused", "kind": kind, "dims": named, "fixes": read_fixes(message), "text": message}


def of(torch, build):
    """The verdict of `torch`, either library."""
    import logging
    import warnings
    logging.getLogger("torch").setLevel(logging.ERROR)
    f, args, spec, options = build(torch)

    class Program(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.program = f

        def forward(self, *xs):
            return self.program(*xs)

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ep = torch.export.export(Program(), args, dynamic_shapes=(spec,) if spec is not None else None,
                                     strict=False, **options)
    except Exception as error:
        return refused(error)
    sizes = []
    for node in ep.graph.nodes:
        if node.op == "placeholder" and node.name.startswith("xs"):
            value = node.meta["val"]
            sizes.append([str(size) for size in value.shape] if hasattr(value, "shape") else str(value))
    ranges = {str(symbol): [bound(r.lower), bound(r.upper)] for symbol, r in ep.range_constraints.items()}
    return {"verdict": "accepted", "sizes": sizes, "ranges": ranges}


def facts(verdict):
    """Without the message: what counts are the facts in it."""
    return {key: value for key, value in verdict.items() if key != "text"}
