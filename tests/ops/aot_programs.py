"""Random differentiable programs: inputs that may share memory, writes through views, in no_grad and through detach(),
views and inputs among the results. Each is run eagerly by PyTorch and through every door of Cresset, and what can be
seen afterwards is compared as the alias matrix compares it (alias_cells.py)."""
import random

import alias_cells

DOORS = {
    "tape": lambda m, f, dynamic: f,
    "nop": lambda m, f, dynamic: _aot(f, "nop", dynamic),
    "native": lambda m, f, dynamic: _aot(f, "native", dynamic),
}


def _aot(f, compiler, dynamic):
    from cresset._functorch.aot_autograd import aot_function, default_partition, min_cut_rematerialization_partition
    partition = min_cut_rematerialization_partition if dynamic is None else default_partition
    return aot_function(f, compiler, partition_fn=partition, dynamic=bool(dynamic))


# ---- one step of a program: a text, made of names of tensors of sizes [n, 3] ----

MAKE = ["{a} * {b}", "{a} + {b}.sin()", "{a}.exp() - {b}", "{a}.tanh()", "{a} / ({b} * {b} + 2)",
        "{a}.softmax(1) * {b}", "({a} @ {b}.t()).sigmoid() @ {b}", "{a}.cumsum(0) * 0.1",
        "m.where({a} > {b}, {a}, {b} * 2)", "{a}.detach() * {b}",
        "m.cat([{a}[:1], {b}[1:]], 0)", "{a}.sum(1, keepdim=True).expand(*{a}.shape) * {b}", "{a}.relu() + 1",
        "{a}.clone()", "{a} - {a}.mean(0)", "m.nn.functional.layer_norm({a}, (3,)) * {b}"]
WRITE = ["{a}.mul_({b}.sin())", "{a}.add_({b})", "{a}[0].mul_(2)", "{a}[:, 1].add_({b}[:, 0])", "{a}.t()[1].mul_(3)",
         "{a}.copy_({b}.tanh())", "{a}.detach().mul_(2)", "{a}.view(-1)[1:3].add_(1)", "{a}[1:].sub_({b}[1:])",
         "{a}.clamp_(-1, 1)", "{a}.tanh_()", "{a}[:, :2].t().mul_(2)"]
SHOW = ["{a}", "{a}[0]", "{a}.t()", "{a}.view(-1)", "{a}[:, 1:]", "{a}.detach()", "{a} * 2", "{a}.sum()",
        "{a}.argmax(1)", "{a}.split(1)[0]"]
INPUTS = ["results", "leaves", "same", "views", "parts", "detached", "one of them"]


class Program:
    def __init__(self, seed):
        self.seed, choice = seed, random.Random(seed)
        self.inputs = choice.choice(INPUTS)
        self.grads = choice.choice([(True, True), (True, True), (True, False), (False, False)])
        self.dynamic = choice.choice([False, False, True, None])
        self.rows = choice.choice([2, 3, 5])
        names, lines = ["x", "y"], []
        for k in range(choice.randint(2, 7)):
            a, b = choice.choice(names), choice.choice(names)
            kind = choice.random()
            if kind < 0.6:
                lines.append(f"v{k} = " + choice.choice(MAKE).format(a=a, b=b))
                names.append(f"v{k}")
            elif kind < 0.9:
                lines.append(choice.choice(WRITE).format(a=a, b=b))
            else:
                lines.append(f"with m.no_grad(): {choice.choice(WRITE).format(a=a, b=b)}")
        shown = [choice.choice(SHOW).format(a=choice.choice(names)) for _ in range(choice.randint(1, 3))]
        lines.append(f"return [{', '.join(shown)}, {names[-1]} * 1]")
        self.text = "def f(x, y):\n" + "".join(f"    {line}\n" for line in lines)

    def __str__(self):
        return f"program {self.seed}: {self.inputs}, grads {self.grads}, dynamic {self.dynamic}\n{self.text}"

    def function(self, m):
        scope = {"m": m}
        exec(self.text, scope)
        return scope["f"]

    def make(self, m):
        """(leaves, x, y)."""
        n, (first, second) = self.rows, self.grads
        a = alias_cells.numbers(m, n, 3, 1.0, first)
        b = alias_cells.numbers(m, n, 3, 2.0, second)
        if self.inputs == "leaves":
            return [a, b], a, b
        if self.inputs == "same":
            x = a * 2
            return [a], x, x
        if self.inputs in ("views", "parts", "detached"):
            wide = alias_cells.numbers(m, n + 1, 3, 1.0, first)
            x = wide * 2
            if self.inputs == "detached":
                return [wide], x[:n], x.detach()[:n]
            return [wide], x[:n], x[1:] if self.inputs == "views" else x[:n] * 1
        return [a, b], a * 2, b if self.inputs == "one of them" and not second else b * 3


def run(m, program, door):
    tape = alias_cells.Tape()
    m.set_grad_enabled(True)
    tape.leaves, tape.x, tape.y = program.make(m)
    tape.versions = [t._version for t in (*tape.leaves, tape.x, tape.y)]
    call = door(m, program.function(m), program.dynamic)
    tape.outs = alias_cells.attempt(tape, "call", lambda: call(tape.x, tape.y)) or []
    m.set_grad_enabled(True)
    if tape.outs:
        alias_cells.attempt(tape, "walk", lambda: alias_cells.walk(m, tape.outs))
    return tape


# What eager code refuses and compiled code computes: the program is recorded without memory that overlaps, and what was
# overwritten between uses is known by value. Such programs say nothing.
LENIENT = ("refer to a single memory location", "modified by an inplace operation", "leaf Variable that requires grad")


def check(torch, cresset, seed, doors):
    """[(door, what differs)]; None: PyTorch refuses the program where compiled code need not."""
    program, found = Program(seed), []
    theirs = run(torch, program, lambda m, f, dynamic: f)
    if theirs.error and any(text in theirs.message for text in LENIENT):
        return None
    for door in doors:
        ours = run(cresset, program, DOORS[door])
        if theirs.error and theirs.error[0][0] == "call":  # compiled code refuses before it writes anything
            told = [] if theirs.error == ours.error else [f"{theirs.error}, here {ours.error}"]
        else:
            told = alias_cells.differences(alias_cells.seen_of(torch, theirs), alias_cells.seen_of(cresset, ours))
        if told:
            said = [f"{who}: {t.message}" for who, t in (("there", theirs), ("here", ours)) if t.error]
            found.append((door, f"{program}{'; '.join([*told, *said])[:600]}"))
    return found
