"""Guards under random changes: a function that reads objects, classes, dicts, lists, cells, defaults, globals and
tensors is called compiled and plain after every change of any of them, objects freed and made again at old addresses
included. A stale guard shows as a different result. A third of the changes is made with stamps (src/capture/stamps.h)
as users have them, a third with stamps that are made at once, used in each of their ways and compared with the guards
that they stand for, a third with stamps that say that everything changed. Writes results/guards.json. A number is how
many changes; CRESSET_SEED chooses others."""
import os
import pathlib
import random
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
import results  # noqa: E402

import cresset  # noqa: E402
from cresset import _C  # noqa: E402

SOURCE = """
def helper(n, d=1, *, k=2):
    return n * d + k

def make(cell):
    def inner(n):
        return n + cell
    def put(value):
        nonlocal cell
        cell = value
    return inner, put

def f(a, o, d, items, inner):
    total = o.x * 2 + len(items) + N + helper(o.y) + inner(3)
    if "flag" in d:
        total += d["flag"]
    if hasattr(o, "extra"):
        total += o.extra
    total += o.method() + o.child.x + sum(items) + len(d) + o.constant
    if o.shared is o.child:
        total += 1000
    return (a * total + o.w.sum(), total, type(o.x), o.w.requires_grad, tuple(o.w.shape), o.w.stride(),
            isinstance(o.child, Base))
"""


STAMPS = ("used", "compare", "lie")


class World:
    """Everything that the function reads, and the ways in which it changes."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.names = {}
        exec("class Base:\n    constant = 1\n    def method(self):\n        return 1\n"
             "class Thing(Base):\n    pass\nclass Other(Base):\n    def method(self):\n        return 5\nN = 1\n"
             + SOURCE, self.names)
        self.a, self.root = cresset.ones(2), cresset.ones(4)
        self.o = self.thing()
        self.o.child, self.o.shared = self.thing(), self.thing()
        self.d, self.items = {"flag": 1, "other": 2}, [1, 2]
        self.inner, self.put = self.names["make"](7)

    def number(self):
        return self.random.choice([0, 1, 2, 3, 1.0, 2.0, True, False, -1])

    def thing(self):
        o = self.names[self.random.choice(["Thing", "Other"])]()
        o.x, o.y, o.w = self.number(), self.number(), cresset.ones(self.random.choice([1, 2]))
        return o

    def again(self):
        """Another object, often where the old one was."""
        child, shared = self.o.child, self.o.shared
        del self.o
        self.o = self.thing()
        self.o.child, self.o.shared = child, shared

    def change(self):
        r, o, n = self.random, self.o, self.names
        kind = r.choice([n["Thing"], n["Other"], n["Base"]])
        changes = [
            lambda: setattr(o, r.choice("xy"), self.number()), lambda: o.__dict__.update(x=self.number()),
            lambda: setattr(o, "extra", self.number()), lambda: o.__dict__.pop("extra", None),
            lambda: setattr(o, "__dict__", dict(o.__dict__)), lambda: setattr(o, "__class__", r.choice([n["Thing"],
                                                                                                    n["Other"]])),
            lambda: setattr(o, "child", self.thing()), lambda: setattr(o, "shared", o.child),
            lambda: setattr(o, "shared", self.thing()), lambda: setattr(o.child, "x", self.number()), self.again,
            lambda: setattr(kind, "constant", self.number()),
            lambda: setattr(kind, "method", lambda self, v=self.number(): v),
            lambda: setattr(o, "method", lambda v=self.number(): v), lambda: o.__dict__.pop("method", None),
            lambda: [delattr(k, "method") for k in (n["Thing"], n["Other"]) if "method" in k.__dict__],
            lambda: self.d.update(flag=self.number()), lambda: self.d.pop("flag", None),
            lambda: self.d.update({f"k{r.randrange(3)}": 1}), lambda: self.d.popitem() if self.d else None,
            lambda: setattr(self, "d", dict(self.d)), lambda: self.d.clear(),
            lambda: self.items.append(self.number()), lambda: self.items.pop() if self.items else None,
            lambda: self.items.reverse(), lambda: setattr(self, "items", list(self.items)),
            lambda: n.__setitem__("N", self.number()), lambda: n.__setitem__("len", lambda v: 9),
            lambda: n.pop("len", None), lambda: n.__setitem__("junk", 1), lambda: n.pop("junk", None),
            lambda: setattr(n["helper"], "__defaults__", (self.number(),)),
            lambda: n["helper"].__kwdefaults__.update(k=self.number()), lambda: self.put(self.number()),
            lambda: setattr(self, "inner", n["make"](self.number())[0]),
            lambda: o.w.add_(1), lambda: o.w.requires_grad_(r.random() < 0.5),
            lambda: setattr(o.w, "data", cresset.full((r.choice([1, 2, 3]),), 2.0)),
            lambda: o.w.resize_(r.choice([1, 2, 4])), lambda: o.w.set_(cresset.ones(r.choice([2, 3]))),
            lambda: o.w.unsqueeze_(r.choice([0, -1])), lambda: o.w.squeeze_(), lambda: o.w.t_(), lambda: o.w.detach_(),
            lambda: o.w.mul_(cresset.ones(1, requires_grad=True)), lambda: setattr(o.w, "tag", 1),
            lambda: cresset.add(cresset.ones(r.choice([1, 2, 3])), 1, out=o.w),
            lambda: setattr(o, "w", (root := cresset.ones(4))[:2]) or setattr(self, "root", root),
            lambda: self.root.requires_grad_(r.random() < 0.5),
            lambda: setattr(o, "w", cresset.ones(2, dtype=r.choice([cresset.float32, cresset.float64]))),
            lambda: setattr(self, "a", cresset.ones(r.choice([1, 2, 3]))),
        ]
        at = r.randrange(len(changes))
        try:
            changes[at]()
        except (AttributeError, TypeError, RuntimeError):
            pass  # not possible just now
        return at


def shown(run, w):
    try:
        a, *rest = run(w.a, w.o, w.d, w.items, w.inner)
    except Exception as error:
        return type(error).__name__, str(error)
    return a.tolist(), str(a.dtype), tuple(a.shape), a.requires_grad, rest


def sweep(changes, seed):
    """(calls, wrong ones in words, hits)"""
    w, wrong, hits, compiled = World(seed), [], 0, None
    for n in range(changes):
        if n % 300 == 0:
            hits += compiled._counts()["hits"] if compiled else 0
            w = World(seed + n)
            compiled = _C._Compiled(w.names["f"], None, None, 1000)
            _C._capture_switches(stamps=STAMPS[n // 300 % len(STAMPS)])
        at = w.change()
        for _ in range(2 + n % 3):  # stamps are made when guards have held some times
            got, want = shown(compiled, w), shown(w.names["f"], w)
            if str(got) != str(want):
                wrong.append(f"seed {seed}, change {n} (of kind {at}): {got} instead of {want}")
    _C._capture_switches()
    if _C._stale_stamps():
        wrong.append(f"seed {seed}: stamps let {_C._stale_stamps()} calls pass that guards do not")
    return 2 * changes, wrong, hits + compiled._counts()["hits"]


def main():
    results.only("guards", sys.argv[1:], str.isdigit)
    changes = next((int(a) for a in sys.argv[1:] if a.isdigit()), 60_000)
    calls, wrong, hits = sweep(changes, int(os.environ.get("CRESSET_SEED", "0")))
    for line in wrong[:20]:
        print(line)
    return results.end("guards", calls - len(wrong), len(wrong), changes=changes, hits=hits)


if __name__ == "__main__":
    sys.exit(main())
