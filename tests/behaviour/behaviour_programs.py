"""The programs of the behaviour suite: `programs()` gives {name: (function, namespace)}. They are texts, made into
functions family by family, so that a family may cross its parts: what raises x how it is handled, what is changed x
in which way, which class x what is done with its object."""
import itertools
import textwrap

import behaviour_library as library
import behaviour_transforms as transforms
import behaviour_world as world

PRELUDE = """
import collections, contextlib, copy, functools, itertools, math, operator
import cresset
from behaviour_world import *
COUNT = 0
NAMES = {"u": 1}
def helper(n, d=1, *rest, key=2, **more):
    return n * d + key + len(rest) + len(more)
def raise_from_below(kind):
    raise kind("below")
def append_to(items, value):
    items.append(value)
    return items
def set_x(p, value):
    p.x = value
def items_of(*args, **kwargs):
    return args, kwargs
"""


def fill(frame, **parts):
    """The frame with its places filled, each part indented as its place is."""
    out = []
    for line in textwrap.dedent(frame).strip("\n").split("\n"):
        stripped = line.strip()
        name = stripped[1:-1] if stripped.startswith("{") and stripped.endswith("}") else None
        if name in parts:
            indent = line[:len(line) - len(line.lstrip())]
            out += [indent + inner for inner in textwrap.dedent(parts[name]).strip("\n").split("\n")]
            continue
        for name, part in parts.items():
            line = line.replace("<" + name + ">", part)
        out.append(line)
    return "\n".join(out)


def of_library(text):
    """The same of the library that is tested."""
    return text.replace("cresset", world.LIBRARY)


def family(cases, name, texts, prelude=PRELUDE):
    """{name: text} of functions -> {name: function}; a function is `def f(a, log, o):` and its text."""
    made = {}
    for key, text in texts.items():
        space, text = {"__name__": f"behaviour_{name}"}, of_library(text)
        exec(compile(of_library(prelude), "<prelude>", "exec"), space)
        if name in ("library", "transforms"):
            exec(compile(of_library(globals()[name].PRELUDE), "<prelude>", "exec"), space)
        if name in ("modules", "layers"):
            exec(compile(of_library(cases.MODULE_PRELUDE), "<prelude>", "exec"), space)
            space["LAYERS"] = {kind: eval(of_library(f"cresset.nn.{kind}{args}"), space)
                               for kind, args in cases.LAYERS.items()}
        source = "def f(a, log, o):\n" + textwrap.indent(textwrap.dedent(text).strip("\n"), "    ") + "\n"
        full = f"{name}.{key}"
        exec(compile(source, f"<{full}>", "exec"), space)
        function = space["f"]
        function.__name__ = function.__qualname__ = full
        made[full] = function
    return made


def crossed(frames, parts, place):
    """Every part in every frame."""
    return {f"{part}.{frame}": fill(frames[frame], **{place: parts[part]})
            for part, frame in itertools.product(parts, frames)}


def programs():
    import behaviour_cases as cases
    assert world.Point
    found = {}
    more = {"library": library.LIBRARY, "transforms": transforms.TRANSFORMS}
    for name, texts in {**cases.FAMILIES, **more}.items():
        found.update(family(cases, name, texts))
    return found
