"""The alias matrix: a function of two tensors that may share memory, writes to them and gives back views, is called and
differentiated; what can be seen afterwards is the same in both libraries. Eager PyTorch is the only oracle.

A *cell* is one value of each axis below; `cells()` has them all, the matrix first, then lists of what it does not
cross. A *door* is a way to call the function; DOORS has a function for each, which takes the module and the function
and gives what is called instead.
"""
import collections
import itertools
import math

Cell = collections.namedtuple("Cell", "inputs write when outputs then grad")


# ---- inputs: (leaves, x, y) ----

def numbers(m, rows, columns, start, grad, dtype="float64"):
    count = rows * columns
    values = [[math.sin(start + 0.7 * (i * columns + k)) for k in range(columns)] for i in range(rows)]
    return m.tensor(values if count else [], dtype=getattr(m, dtype)).reshape(rows, columns).requires_grad_(grad)


def two(m, grad, size=3):
    return numbers(m, size, size, 1.0, grad), numbers(m, size, size, 2.0, grad)


def of_root(rows, take):
    """x and y are views of one result."""
    def make(m, grad):
        a = numbers(m, rows, 3, 1.0, grad)
        return [a], *take(a * 2)
    return make


def leaves(m, grad):
    a, b = two(m, grad)
    return [a, b], a, b


def results_(size):
    def make(m, grad):
        a, b = two(m, grad, size)
        return [a, b], a * 2, b * 3
    return make


def x_only(m, grad):
    a, b = numbers(m, 3, 3, 1.0, grad), numbers(m, 3, 3, 2.0, False)
    return [a, b], a, b


def expanded(m, grad):
    a, b = numbers(m, 1, 3, 1.0, grad), numbers(m, 3, 3, 2.0, grad)
    return [a, b], (a * 2).expand(3, 3), b * 3


def expanded_other(m, grad):
    leaves_, y, x = expanded(m, grad)
    return leaves_, x, y


def complex_parts(take):
    def make(m, grad):
        a, b = numbers(m, 3, 3, 1.0, grad), numbers(m, 3, 3, 2.0, grad)
        return [a, b], *take(m, m.complex(a * 2, b))
    return make


def as_real(m, c):
    parts = m.view_as_real(c)
    return parts[..., 0], parts[..., 1]


def as_integers(m, grad):
    """Views that show the bytes of another dtype; integers have no gradient."""
    a, b = two(m, grad)
    return [a, b], a * 2, (b * 3).detach().view(m.int64).view(m.float64)


def as_bytes(m, grad):
    a, b = two(m, grad)
    x = a * 2
    return [a, b], x, x.view(m.int64)


def of_complex_leaf(m, grad):
    c = m.complex(numbers(m, 3, 3, 1.0, False), numbers(m, 3, 3, 2.0, False)).requires_grad_(grad)
    z = c * 1
    return [c], m.real(z), m.imag(z)


INPUTS = {
    "leaf": leaves,
    "result": results_(3),
    "x only": x_only,
    "same twice": of_root(3, lambda a: (a, a)),
    "y view of x": of_root(3, lambda a: (a, a.t())),
    "x view of y": of_root(3, lambda a: (a.t(), a)),
    "overlapping": of_root(4, lambda a: (a[:3], a[1:])),
    "disjoint": of_root(6, lambda a: (a[:3], a[3:])),
    "detached": of_root(3, lambda a: (a, a.detach())),
}
MORE_INPUTS = {
    "expanded x": expanded,
    "expanded y": expanded_other,
    "parts of complex": complex_parts(as_real),
    "real and imag": of_complex_leaf,
    "real and whole": complex_parts(lambda m, c: (c.real, c)),
    "whole and imag": complex_parts(lambda m, c: (c, c.imag)),
    "as integers": as_integers,
    "as bytes": as_bytes,
    "diagonals": of_root(3, lambda a: (a.unfold(0, 2, 1)[..., 0].new_zeros(3, 3) + a, a.diagonal().expand(3, 3))),
    "select and view": of_root(9, lambda a: (a.view(3, 3, 3)[1], a.view(3, 3, 3).permute(2, 0, 1)[2])),
    "strided": of_root(9, lambda a: (a.as_strided((3, 3), (1, 3), 2), a[::3])),
    "squeezed": of_root(3, lambda a: (a.unsqueeze(0).squeeze(0), a.flatten().unflatten(0, (3, 3)))),
    "0 rows": results_(0),
    "1 row": results_(1),
    "2 rows": results_(2),
}


PARTS = ["parts of complex", "real and imag", "real and whole", "whole and imag"]


# ---- writes ----

def under_no_grad(m, x, y):
    with m.no_grad():
        x.mul_(2)


def twice(*writes):
    def write(m, x, y):
        for w in writes:
            w(m, x, y)
    return write


def x_twice(m, x, y):
    x.mul_(2)


def into_row(m, x, y):
    x[0].mul_(2)


def transposes(m, x, y):
    x.t_()


def y_thrice(m, x, y):
    y.mul_(3)


WRITES = {
    "none": lambda m, x, y: None,
    "x": x_twice,
    "y": y_thrice,
    "both": twice(x_twice, y_thrice),
    "x[0]": into_row,
    "no_grad": under_no_grad,
    "detach": lambda m, x, y: x.detach().mul_(2),
    "t_": transposes,
    "t_ and data": twice(transposes, x_twice),
    "copy_": lambda m, x, y: x.copy_(y.exp()),
}


def in_view_under_no_grad(m, x, y):
    with m.no_grad():
        row = x[0]
    row.mul_(2)


def views_keep_up(m, x, y):
    """Views of views, some of them taken before the write, some written after."""
    row, column = x[0], x[:, 0]
    part = row[1:]
    part.mul_(2)
    column.add_(y[0] * 1)
    row.mul_(part.sum())


def to_data(m, x, y):
    x.data = y.detach() * 2


def assign(m, x, y):
    x[:, 1] = y[0] * 1
    x[x.detach() > 0.5] = 0


MORE_WRITES = {
    "set_": lambda m, x, y: x.set_(y.detach()),
    "set_ under no_grad": lambda m, x, y: [m.set_grad_enabled(False), x.set_(y.detach()), m.set_grad_enabled(True)],
    "resize_": lambda m, x, y: x.resize_(2, 3),
    "resize_ detached": lambda m, x, y: x.detach().resize_(4, 4).zero_(),
    ".data": lambda m, x, y: x.data.mul_(2),
    ".data row": lambda m, x, y: x.data[0].mul_(2),
    ".data =": to_data,
    "view of no_grad": in_view_under_no_grad,
    "one of unbind": lambda m, x, y: x.unbind(0)[0].mul_(2),
    "one of split": lambda m, x, y: x.split(1)[0].mul_(2),
    "one of chunk, no_grad": twice(lambda m, x, y: m.set_grad_enabled(False), lambda m, x, y: x.chunk(2)[0].mul_(2),
                                   lambda m, x, y: m.set_grad_enabled(True)),
    "detach_": lambda m, x, y: x.detach_(),
    "squeeze_": lambda m, x, y: x.unsqueeze_(0).squeeze_(0),
    "views": views_keep_up,
    "assign": assign,
    "requires_grad_": lambda m, x, y: x.requires_grad_(),
    "zero_": lambda m, x, y: x.zero_(),
    "row of t": lambda m, x, y: x.t()[1:].view(-1, 3).mul_(y[0] * 1),
    "diagonal": lambda m, x, y: x.diagonal().mul_(y[0] * 1),
    "as_strided": lambda m, x, y: x.as_strided((2, 2), (3, 1)).mul_(2),
    "expanded": lambda m, x, y: x[0].expand(3, 3).mul_(2),
    "view as integers": lambda m, x, y: x.view(m.int64).zero_(),
    "view as complex": lambda m, x, y: m.view_as_complex(x[:2, :2]).mul_(2j),
    "retain_grad": lambda m, x, y: x.retain_grad(),
}


WRITES_TO_VIEWS = [w for w in MORE_WRITES if w not in ("zero_", ".data =", "set_", "set_ under no_grad")]


# ---- outputs, out of the inputs and an intermediate w ----

def views_of(take):
    return lambda m, x, y, w: list(take(w * 2))


OUTPUTS = {
    "fresh": lambda m, x, y, w: [w * 2],
    "the input": lambda m, x, y, w: [x],
    "view of input": lambda m, x, y, w: [x.t()],
    "view of intermediate": views_of(lambda v: [v.t()]),
    "intermediate and its view": views_of(lambda v: [v, v[:1]]),
    "two views": views_of(lambda v: [v[:1], v[:, 1:]]),
    "unbind of intermediate": views_of(lambda v: v.unbind(0)),
    "unbind of input": lambda m, x, y, w: list(x.unbind(0)),
    "one tensor twice": views_of(lambda v: [v, v]),
    "with its detach": views_of(lambda v: [v, v.detach()]),
    "an integer one": lambda m, x, y, w: [w * 2, m.isnan(w.detach()).long()],
    "other input and fresh": lambda m, x, y, w: [y, w * 2],
}
# ---- then: what the caller does with the outputs, before (True) and after (False) the walk ----


def written(m, tape, outs):
    outs[0].mul_(2)


def walk(m, outs, **options):
    total = None
    for k, out in enumerate(outs):
        if out.requires_grad:
            part = (out * (k + 2)).abs().square().sum()
            total = part if total is None else total + part
    if total is not None:
        total.backward(**options)
    return total


def second_walk(m, tape, outs):
    total = walk(m, outs, retain_graph=True)
    if total is not None:
        total.backward()


def second_walk_fails(m, tape, outs):
    total = walk(m, outs)
    if total is not None:
        total.backward()


def twice_derived(m, tape, outs):
    total = walk(m, outs, create_graph=True)
    if total is not None:
        sum((leaf.grad * 1).abs().square().sum() for leaf in tape.leaves if leaf.grad is not None).backward()


def hooked(m, tape, outs):
    for i, leaf in enumerate(tape.leaves):
        if leaf.requires_grad:
            leaf.register_hook(lambda g, i=i: tape.seen.append((f"leaf{i}", g)) or g * 2)
    for k, out in enumerate(outs):
        if out.requires_grad:
            out.register_hook(lambda g, k=k: tape.seen.append((f"out{k}", g)) or g + 1)


def hooked_then_written(m, tape, outs):
    hooked(m, tape, outs)
    outs[0].mul_(2)


def retained(m, tape, outs):
    for out in outs:
        if out.requires_grad:
            out.retain_grad()
    outs[0].mul_(2)


def root_written(m, tape, outs):
    """The caller writes to an input after the call."""
    tape.x.mul_(2)


THEN = {"nothing": lambda m, tape, outs: None, "out0 written": written}
MORE_THEN = {
    "second walk": second_walk, "second walk fails": second_walk_fails, "second derivative": twice_derived,
    "hooks": hooked, "hooks, then written": hooked_then_written, "retain_grad": retained, "x written": root_written,
}
WHEN = ["before", "after"]


def cells():
    """The matrix of 8,208, then the lists."""
    writes = [("none", "before"), *itertools.product([w for w in WRITES if w != "none"], WHEN)]
    grads = (True, False)
    for inputs, (write, when), outputs, then, grad in itertools.product(INPUTS, writes, OUTPUTS, THEN, grads):
        yield Cell(inputs, write, when, outputs, then, grad)
    # After x was used, x.data = y makes PyTorch differentiate with numbers that were not, x.detach_() makes it fail;
    # t_() of a part of complex numbers makes it transpose the gradient. The lists have no such cells.
    more = [(w, when) for w, when in itertools.product(MORE_WRITES, WHEN)
            if (w, when) not in ((".data =", "after"), ("detach_", "after"))]
    some_outputs = ["fresh", "the input", "view of input", "intermediate and its view", "other input and fresh"]
    for inputs, (write, when), outputs, grad in itertools.product(INPUTS, more, some_outputs, (True, False)):
        yield Cell(inputs, write, when, outputs, "nothing", grad)
    for inputs, (write, when), outputs, then in itertools.product(MORE_INPUTS, writes, some_outputs, THEN):
        if not (inputs in PARTS and write.startswith("t_")):
            yield Cell(inputs, write, when, outputs, then, True)
    for inputs, write, outputs in itertools.product(MORE_INPUTS, WRITES_TO_VIEWS, some_outputs[:3]):
        yield Cell(inputs, write, "before", outputs, "nothing", True)
    for inputs, write, outputs, then in itertools.product(INPUTS, WRITES, some_outputs, MORE_THEN):
        yield Cell(inputs, write, "before", outputs, then, True)


def name_of(cell):
    return ", ".join([*cell[:5], "grad" if cell.grad else "no grad"])


# ---- doors ----

def by_tape(m, function):
    return function


def by_nop(m, function):
    """Compiled ahead of time; the code is the graph, run as it is."""
    from cresset._functorch.aot_autograd import aot_function
    return aot_function(function, "nop")


LIBRARIES = {}  # text of a graph -> its library: cells differ in what happens around the code more than in the code


def by_native(m, function):
    """The same with libraries of C code, one for all cells whose graphs are the same."""
    from cresset._functorch.aot_autograd import aot_function, native

    def compile_once(graph, inputs):
        text = str(graph._raw)
        if text not in LIBRARIES:
            LIBRARIES[text] = native(graph, inputs)
        return LIBRARIES[text]
    return aot_function(function, compile_once)


DOORS = {"tape": by_tape, "nop": by_nop, "native": by_native}
COMPILED = ["nop", "native"]
CAPTURED = "torch"  # the door of PyTorch's own tensors: cresset.compile, against the same function uncompiled
MATRIX = 8208


# ---- one cell ----

class Tape:
    """What one run of a cell leaves to be seen."""

    def __init__(self):
        self.leaves, self.x, self.y, self.outs, self.seen, self.error, self.versions = [], None, None, [], [], [], []


def function_of(m, cell):
    write, outputs = {**WRITES, **MORE_WRITES}[cell.write], OUTPUTS[cell.outputs]

    def function(x, y):
        if cell.when == "before":
            write(m, x, y)
        w = x * 2 + y.sin()
        if cell.when == "after":
            write(m, x, y)
        return outputs(m, x, y, w)
    return function


def attempt(tape, stage, call):
    try:
        return call()
    except Exception as error:
        tape.error.append((stage, type(error).__name__))
        tape.message = str(error)
        return None


def run(m, cell, door=by_tape):
    tape = Tape()
    m.set_grad_enabled(True)
    made = attempt(tape, "inputs", lambda: {**INPUTS, **MORE_INPUTS}[cell.inputs](m, cell.grad))
    if not made:
        return tape
    tape.leaves, tape.x, tape.y = made
    tape.versions = [t._version for t in (*tape.leaves, tape.x, tape.y)]
    tape.outs = attempt(tape, "call", lambda: door(m, function_of(m, cell))(tape.x, tape.y)) or []
    m.set_grad_enabled(True)
    then = {**THEN, **MORE_THEN}[cell.then]
    if tape.outs:
        attempt(tape, "then", lambda: then(m, tape, tape.outs))
        if "walk" not in cell.then and cell.then != "second derivative":
            attempt(tape, "walk", lambda: walk(m, tape.outs))
    return tape


# ---- what can be seen ----

def plain(m, t):
    if t is None:
        return None
    t = t.detach()
    if t.is_complex():
        t = m.view_as_real(t.resolve_conj())
    return t.resolve_neg().tolist()


def is_leaf(t):
    """A view that was made without grad has no answer once its root was written to."""
    try:
        return t.is_leaf
    except RuntimeError as error:
        return type(error).__name__


def seen_of(m, tape):
    known = [*tape.leaves, tape.x, tape.y, *tape.outs]
    names = [*(f"leaf{i}" for i in range(len(tape.leaves))), "x", "y", *(f"out{i}" for i in range(len(tape.outs)))]
    first, groups, found = {}, {}, {"error": tape.error}
    for t, name in zip(known, names):
        first.setdefault(id(t), name)
    for i, (t, name) in enumerate(zip(known, names)):
        if t is None:
            continue
        base = t._base
        start = tape.versions[i] if i < len(tape.versions) else 0
        found[name] = {
            "is": first[id(t)],
            "values": plain(m, t),
            "dtype": str(t.dtype).rpartition(".")[2],
            "geometry": [list(t.shape), list(t.stride()), t.storage_offset()],
            "storage": groups.setdefault(t.untyped_storage().data_ptr(), len(groups)) if t.numel() else None,
            "leaf": is_leaf(t),
            "requires_grad": t.requires_grad,
            "view": t._is_view(),
            "base": base if base is None else first.get(id(base), "another"),
            "version": t._version - start,
            "conj": [t.is_conj(), t.is_neg()],
            "retains": t.retains_grad,
        }
        if is_leaf(t) is True or t.retains_grad:
            found[name]["grad"] = plain(m, t.grad)
    found["hooks"] = [[where, plain(m, g)] for where, g in tape.seen]
    return found


def near(a, b):
    if isinstance(a, (list, tuple)):
        return isinstance(b, (list, tuple)) and len(a) == len(b) and all(map(near, a, b))
    if isinstance(a, float) and isinstance(b, float):
        return a == b or abs(a - b) <= 1e-7 * max(1.0, abs(a), abs(b)) or (a != a and b != b)
    return a == b


def differences(theirs, ours):
    """Texts, one for each thing that is not the same."""
    found = []
    for name in {**theirs, **ours}:
        a, b = theirs.get(name), ours.get(name)
        if isinstance(a, dict) and isinstance(b, dict):
            found += [f"{name}.{k}: {a.get(k)!r}, here {b.get(k)!r}" for k in {**a, **b}
                      if not near(a.get(k), b.get(k))]
        elif not near(a, b):
            found.append(f"{name}: {a!r}, here {b!r}")
    return found


def forget_between(ours, *tapes):
    """The one limit of compiled functions: they are one node, so a hook on an input that they wrote and handed back
    sees what comes from outside of the call alone; what it changes arrives all the same."""
    written = [t for t, before in zip((*ours.leaves, ours.x, ours.y), ours.versions) if t._version > before]
    names = [f"out{k}" for k, out in enumerate(ours.outs) if any(out is t for t in written)]
    for tape in tapes:
        tape.seen = [(where, g) for where, g in tape.seen if where not in names]


def compared(torch, theirs, m, ours):
    """Texts: what differs, with the messages of what was raised."""
    found = differences(seen_of(torch, theirs), seen_of(m, ours))
    if found and (theirs.error or ours.error):
        found += [f"{who}: {t.message}" for who, t in (("there", theirs), ("here", ours)) if t.error]
    return found


def check(torch, cresset, cell, door="tape"):
    """None, or what differs."""
    if door == CAPTURED:
        return check_captured(torch, cresset, cell)
    theirs = run(torch, cell)
    ours = run(cresset, cell, DOORS[door])
    if door in COMPILED:
        forget_between(ours, theirs, ours)
    return "; ".join(compared(torch, theirs, cresset, ours)) or None


def forget_limits(ours, *tapes):
    """What is said of cresset.compile on PyTorch's tensors (docs/torch.md): hooks of inputs run in another order, a
    hook may be called with None where no gradient comes by, and a second derivative is refused by name. True: so it
    is."""
    for tape in tapes:
        tape.seen.sort(key=lambda row: row[0])
    if ("then", "RuntimeError") in ours.error and ours.message.startswith("create_graph=True"):
        return True
    return ("walk", "TypeError") in ours.error and "'NoneType' and 'int'" in ours.message


def check_captured(torch, cresset, cell):
    """The same of PyTorch's tensors by cresset.compile: the call that is captured, and one that finds it captured."""
    function = cresset.compile(function_of(torch, cell), backend="eager")
    for call in ("captured", "found"):
        theirs, ours = run(torch, cell), run(torch, cell, lambda _m, _function: function)
        forget_between(ours, theirs, ours)
        if forget_limits(ours, theirs, ours):
            return None
        found = compared(torch, theirs, torch, ours)
        if found:
            return f"{call}: " + "; ".join(found)
    return None
