"""Random programs of PyTorch's: modules that write to inputs and buffers, give views back, break, keep things in
attributes and containers. Each is called three times, plain and by cresset.compile, in two worlds that begin alike and
are changed alike between the calls; what can be seen after each call is compared."""
import contextlib
import io
import random

import cresset
import torch

nn, F = torch.nn, torch.nn.functional

# ---- the world: a module whose parts programs use; tensors are of sizes [n, 4] ----


class Parts(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin, self.tied, self.norm, self.bn = nn.Linear(4, 4), nn.Linear(4, 4), nn.LayerNorm(4), nn.BatchNorm1d(4)
        self.tied.weight = self.lin.weight
        self.drop, self.seq = nn.Dropout(0.3), nn.Sequential(nn.Linear(4, 6), nn.ReLU(inplace=True), nn.Linear(6, 4))
        self.layers = nn.ModuleList([nn.Linear(4, 4, bias=False), nn.Tanh(), nn.Linear(4, 4)])
        self.emb, self.w = nn.Embedding(5, 4), nn.Parameter(torch.randn(4))
        self.register_buffer("buf", torch.randn(4))
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
        self.calls, self.kept, self.seen, self.table = 0, None, [], {"scale": 1.5}


class Box:
    def __init__(self, a, b):
        self.a, self.b = a, b

    def both(self):
        return self.a + self.b * 0.5


def opaque(a):
    return eval("a * 2")


def helper(a, b=None, *rest, scale=0.5):
    if b is None:
        return a.sin()
    return a * scale + sum(rest, b)


def breaking_helper(a):
    b = a * 0.5
    print("inside")
    return b + a


# ---- statements ----

MAKE = [
    "{a} * {b}", "{a} + {b}.sin()", "({a} * 0.3).exp() - {b}", "{a}.tanh()", "{a} / ({b} * {b} + 2)",
    "{a}.softmax(1) * {b}", "({a} @ {b}.t()).sigmoid() @ {b}", "{a}.cumsum(0) * 0.1",
    "torch.where({a} > {b}, {a}, {b} * 2)", "{a}.detach() * {b}", "torch.cat([{a}[:1], {b}[1:]], 0)",
    "{a}.sum(1, keepdim=True).expand(*{a}.shape) * {b}", "{a}.relu() + 1", "{a}.clone()", "{a} - {a}.mean(0)",
    "F.layer_norm({a}, (4,), self.w) * {b}", "self.lin({a})", "self.tied({a}) + self.lin({b})", "self.norm({a})",
    "self.bn({a})", "self.drop({a})", "self.seq({a})", "self.w * {a}", "{a} + self.buf",
    "F.linear({a}, self.lin.weight.t())", "F.dropout({a}, 0.5, self.training)", "torch.stack([{a}, {b}]).mean(0)",
    "torch.einsum('ij,kj->ik', {a}, {b}) @ {b}", "{a}.masked_fill({b} > 0, 0.5)", "{a}.sort(1).values",
    "{a} - {a}.max(1, keepdim=True).values", "{a} + self.emb({b}.detach().abs().long().clamp(0, 4)).mean(1)",
    "torch.rand_like({a}) * {b}", "{a} + torch.randn({a}.shape[0], 1, dtype={a}.dtype)",
    "{a}.to(torch.float32).to({a}.dtype)",
    "{a}.new_zeros({a}.shape) + {b}", "{a} * torch.arange(4, dtype={a}.dtype)", "helper({a}, {b}, {a})", "helper({a})",
    "Box({a}, {b}).both()", "[{a}, {b}][self.calls % 2] * 1", "{{'a': {a}, 'b': [{b}]}}['b'][0] + {a}",
    "{a} * self.table['scale']", "{a} * {a}.shape[0]", "functools.reduce(torch.add, [{a}, {b}, self.w])",
    "{a}.pow(2).clamp(max=3)", "F.gelu({a}) - F.silu({b})", "{a}.roll(1, 0) + {b}.flip(1)",
    "torch.addmm({a}, {b}, self.lin.weight)", "sum(t.mean() for t in {a}.unbind(1)) + {b}",
    "{a}[torch.arange({a}.shape[0]).flip(0)]", "{a}.gather(1, {b}.argsort(1))", "F.normalize({a}, dim=1, eps=0.1)",
    "{a}.view(-1, 2, 2).transpose(1, 2).reshape(-1, 4)",
    "torch.zeros_like({a}).index_add(0, torch.zeros({a}.shape[0], dtype=torch.long), {b})",
    "F.mse_loss({a}, {b}) + {a}", "self.layers[0]({a}) if self.training else {a} * 3",
    "max([{a}, {b}], key=lambda t: t.dim())",
    "{a} + (lambda q: q * 2)({b})", "torch.lerp({a}, {b}, 0.25)", "{a}.var(1, keepdim=True) + {b}",
    "{a}.logsumexp(0) * {b}", "{a}.round() + {b}", "{a}.sign() * {b}",
]
VIEWS = ["{a}[:]", "{a}.view(-1).view(-1, 4)", "{a}.t().t()", "{a}.view({a}.shape)", "{a}.detach()",
         "{a}.unsqueeze(0)[0]", "{a}.reshape({a}.shape)", "{a}.expand_as({a})", "{a}", "{a}.data", "{a}.contiguous()"]
WRITES = [
    "{a}.mul_({b}.sin())", "{a}.add_({b})", "{a}[0].mul_(2)", "{a}[:, 1].add_({b}[:, 0])", "{a}.t()[1].mul_(3)",
    "{a}.copy_({b}.tanh())", "{a}.detach().mul_(2)", "{a}.view(-1)[1:3].add_(1)", "{a}[1:].sub_({b}[1:])",
    "{a}.clamp_(-1, 1)", "{a}.tanh_()", "{a}[:, :2].t().mul_(2)", "{a}[0] = {b}[0]", "{a}[:, 1] = 3.0",
    "{a}.data.add_(1)", "{a}.zero_()", "{a} += {b}", "F.relu({a}, inplace=True)", "{a}.masked_fill_({b} > 0, 0.25)",
    "self.buf.mul_(0.9).add_({a}.detach().mean(0))", "self.buf.add_(1)", "self.count += 1", "self.count.add_(2)",
    "self.buf = self.buf * 0.5", "self.w.data.mul_(0.5)",
    "{a}.index_add_(0, torch.zeros(1, dtype=torch.long), {b}[:1])",
    "{a}[{b} > 0] = 0.5", "{a}.fill_diagonal_(2)", "{a}.exp_().log_()", "{a}.uniform_()", "{a}, {b} = {b}, {a}",
    "{a}.requires_grad_()",
]
EFFECTS = ["self.calls += 1", "self.kept = {a}", "self.seen.append({a})", "self.seen.append(self.calls)",
           "self.table['last'] = {a}.detach()", "self.table.setdefault('first', {a} * 1)", "self.seen.clear()",
           "self.kept = ({a}, {b}[0])", "self.table['scale'] += 0.25", "more['out'] = {a} + 1", "more.pop('out', None)",
           "self.kept = Box({a}, 3)"]
BREAKS = ["print('value', {a}.shape)", "print(round({a}.sum().item(), 3) + 0.0)", "{v} = opaque({a})",
          "{v} = {a} * {a}.mean().item()", "{v} = {a} * float({b}[0, 0])", "{v} = breaking_helper({a})",
          "{v} = {a} + len({b}.tolist())", "{v} = {a} + {b}[{b} > 0].sum()", "{v} = {a} * torch.tensor(2.0)",
          "{v} = {a} * len(locals())", "{v} = {a} + {b}.nonzero().shape[0]", "{v} = {a} * (id({a}) == id({b}))",
          "{v} = {a} + {a}._version", "{v} = {a} if {a}.is_leaf else {b} * 1"]
RAISES = ["{a}.view(-1, 3)[0, 9]", "raise ValueError({a}.shape[0])", "{a} @ {b}", "self.missing", "[][{a}.shape[0]]",
          "assert {a}.sum() > 0.01", "{a}.reshape(7, 11)"]
SHOWS = ["{a}", "{a}[0]", "{a}.t()", "{a}.view(-1)", "{a}[:, 1:]", "{a}.detach()", "{a} * 2", "{a}.sum()",
         "{a}.argmax(1)", "{a}.split(1)[0]", "{a}.chunk(2, 1)", "{{'k': {a}, 'l': {a}.unsqueeze(1)}}", "{a}.unbind(1)",
         "{a}.shape", "{a}.T", "self.buf", "self.w", "self.calls", "self.kept", "{a}.max(1)", "{a}.requires_grad",
         "more",
         "{a}.dtype", "Box({a}, 1)", "{a}.expand(2, -1, -1)", "{a}.diagonal()"]
INPUTS = ["leaves", "leaves", "leaves", "results", "same", "views", "parts", "detached", "turned"]
CHANGES = ["values", "sizes", "data", "load", "step", "freeze", "thaw", "eval", "train", "no_grad", "grads", "inputs"]


class Program:
    def __init__(self, seed):
        self.seed, self.choice = seed, random.Random(seed)
        choice = self.choice
        self.kind = choice.choice(["module", "module", "function"])
        self.dtype = torch.float32 if choice.random() < 0.3 else torch.float64
        self.breaks = choice.choice([0, 0, 0.1, 0.25])
        self.writes = choice.choice([0, 0.15, 0.3])
        self.inputs = choice.choice(INPUTS)
        self.grads = choice.choice([(True, True), (True, False), (False, False), (False, True)])
        self.no_grad = choice.random() < 0.25
        self.training = choice.random() < 0.7
        self.rows = choice.choice([1, 2, 3, 3, 5, 5])
        self.changes = [choice.sample(CHANGES, choice.randint(1, 2)) for _ in range(2)]
        self.native = seed % 8 == 0
        self.names, self.count = ["x", "y"], 0
        lines = [line for _ in range(choice.randint(2, 7)) for line in self.statement(0)]
        shown = [self.fill(choice.choice(SHOWS)) for _ in range(choice.randint(1, 3))]
        lines.append(f"return [{', '.join(shown)}, {self.names[-1]} * 1]" if choice.random() < 0.8
                     else f"return {shown[0]}")
        head = "def forward(self, x, y, more):" if self.kind == "module" else "def f(self, x, y, more):"
        self.text = head + "\n" + "".join(f"    {line}\n" for line in lines)

    def fill(self, template, **more):
        return template.format(a=self.choice.choice(self.names), b=self.choice.choice(self.names), **more)

    def new(self):
        self.count += 1
        return f"v{self.count}"

    def simple(self, deep):
        choice, kind = self.choice, self.choice.random()
        name = self.new() if not deep else self.choice.choice(self.names)
        if kind < self.breaks:
            template = choice.choice(BREAKS)
            text = self.fill(template, v=name)
            if "{v}" in template and not deep:
                self.names.append(name)
        elif kind < self.breaks + self.writes:
            return self.fill(choice.choice(WRITES))
        elif kind < self.breaks + self.writes + 0.1:
            return self.fill(choice.choice(EFFECTS))
        else:
            text = f"{name} = " + self.fill(choice.choice(VIEWS if choice.random() < 0.15 else MAKE))
            if not deep:
                self.names.append(name)
        return text

    def statement(self, deep):
        choice, kind = self.choice, self.choice.random()
        if kind < 0.8 or deep > 1:
            return [self.simple(deep)]
        body = [line for _ in range(choice.randint(1, 2)) for line in self.statement(deep + 1)]
        inside = ["    " + line for line in body]
        if kind < 0.86:
            return ["with torch.no_grad():", *inside]
        if kind < 0.89:
            return [f"for i in range({choice.randint(1, 3)}):", *inside]
        if kind < 0.91:
            return ["for layer in self.layers:", f"    {self.fill('{a} = layer({b})')}", *inside]
        if kind < 0.93:
            return ["if self.training:", *inside]
        if kind < 0.95:
            return [self.fill("if {a}.shape[0] > 2:"), *inside]
        if kind < 0.97 and self.breaks:
            return [self.fill("if {a}.sum() > 0.01:"), *inside]
        if kind < 0.985:
            return ["try:", *inside, "    " + self.fill(choice.choice(RAISES)),
                    "except (ValueError, IndexError, RuntimeError):", "    " + self.simple(deep + 1)]
        return [self.fill(choice.choice(RAISES))] if choice.random() < 0.3 else ["with torch.enable_grad():", *inside]

    def __str__(self):
        return (f"program {self.seed}: {self.inputs}, grads {self.grads}, rows {self.rows}, {self.dtype}, changes "
                f"{self.changes}{', no_grad' * self.no_grad}{', eval' * (not self.training)}"
                f"{', native' * self.native}\n{self.text}")

    # ---- worlds ----

    def world(self):
        scope = {"torch": torch, "nn": nn, "F": F, "functools": __import__("functools"), "Box": Box, "opaque": opaque,
                 "helper": helper, "breaking_helper": breaking_helper}
        exec(compile(self.text, f"program_{self.seed}", "exec"), scope)
        torch.manual_seed(self.seed)
        kind = type("Model", (Parts,), {"forward": scope["forward"]}) if self.kind == "module" else Parts
        model = kind().to(self.dtype).train(self.training)
        return World(self, model, model if self.kind == "module" else scope["f"])

    def tensors(self, rows, grads):
        """(leaves, x, y)."""
        a, b = (torch.randn(rows, 4, dtype=self.dtype).requires_grad_(g) for g in grads)
        if self.inputs == "leaves":
            return [a, b], a, b
        if self.inputs == "same":
            x = a * 2
            return [a], x, x
        if self.inputs == "turned":
            turned = torch.randn(4, rows, dtype=self.dtype).requires_grad_(grads[0])
            return [turned, b], turned.t(), b
        if self.inputs in ("views", "parts", "detached"):
            wide = torch.randn(rows + 1, 4, dtype=self.dtype).requires_grad_(grads[0])
            x = wide * 2
            if self.inputs == "detached":
                return [wide], x[:rows], x.detach()[:rows]
            return [wide], x[:rows], x[1:] if self.inputs == "views" else x[:rows] * 1
        return [a, b], a * 2, b * 3


class World:
    def __init__(self, program, model, call):
        self.program, self.model, self.call = program, model, call
        self.rows, self.grads, self.no_grad = program.rows, program.grads, program.no_grad
        self.inputs, self.more = None, {}

    def compile(self):
        backend = "native" if self.program.native else "eager"
        self.call = cresset.compile(self.call, backend=backend)

    def compiled(self):
        return self.call._compiled if self.program.kind == "module" else self.call

    def change(self, what, call):
        torch.manual_seed(1000 * self.program.seed + call)
        model = self.model
        parameters = list(model.parameters())
        if what == "sizes":
            self.rows = self.rows % 5 + 1
        elif what == "data":
            for p in parameters[::2]:
                p.data = torch.randn_like(p)
        elif what == "load":
            model.load_state_dict({k: v + 0.1 if v.is_floating_point() else v for k, v in model.state_dict().items()})
        elif what == "step":
            torch.optim.SGD(parameters, lr=0.05).step()
            model.zero_grad()
        elif what in ("freeze", "thaw"):
            model.lin.requires_grad_(what == "thaw")
        elif what in ("train", "eval"):
            model.train(what == "train")
        elif what == "no_grad":
            self.no_grad = not self.no_grad
        elif what == "grads":
            self.grads = self.grads[::-1] if self.grads[0] != self.grads[1] else (not self.grads[0],) * 2

    def step(self, call):
        """What a call and a walk back show: {name: value}."""
        for what in self.program.changes[call - 1] if call else []:
            self.change(what, call)
        torch.manual_seed(17 * self.program.seed + call)
        roots, x, y = self.program.tensors(self.rows, self.grads)
        if call and "inputs" in self.program.changes[call - 1]:
            x = y
        self.model.zero_grad()
        out, shown, result = io.StringIO(), {}, None
        with contextlib.redirect_stdout(out), torch.set_grad_enabled(not self.no_grad):
            try:
                result = self.call(x, y, self.more) if self.program.kind == "module" \
                    else self.call(self.model, x, y, self.more)
            except Exception as error:
                shown["raises"], shown["why"] = type(error).__name__, str(error)
            shown["mode"] = torch.is_grad_enabled()
        shown["printed"], shown["random"] = out.getvalue(), torch.get_rng_state().numpy().tobytes()
        state = [("leaf", roots), ("x", x), ("y", y), ("result", result), ("more", self.more),
                 ("kept", self.model.kept), ("seen", self.model.seen), ("table", self.model.table),
                 ("calls", self.model.calls), *self.model.named_parameters(), *self.model.named_buffers()]
        look(state, shown)
        results = [t for t in flat(result) if isinstance(t, torch.Tensor)]
        self.walk(results, shown)
        shown.update((f"gradient of {name}", t.grad) for name, t in
                     [*((f"leaf {i}", t) for i, t in enumerate(roots)), *self.model.named_parameters()])
        return shown

    def walk(self, results, shown):
        due = [t for t in results if t.requires_grad]
        if not due:
            return
        try:
            sum((t * torch.arange(1, t.numel() + 1, dtype=t.dtype).view(t.shape).cos()).sum() for t in due).backward()
        except Exception as error:
            shown["walk"], shown["why"] = type(error).__name__, str(error)


# ---- what is seen ----

def flat(value, found=None):
    """Leaves of a value, boxes opened; containers leave their class behind."""
    found = [] if found is None else found
    if isinstance(value, Box):
        found.append("Box")
        flat([value.a, value.b], found)
    elif isinstance(value, dict):
        found.append(f"dict {sorted(map(str, value))}")
        for key in value:
            flat(value[key], found)
    elif isinstance(value, (list, tuple)) and not isinstance(value, torch.Size):
        found.append(f"{type(value).__name__} {len(value)}")
        for item in value:
            flat(item, found)
    else:
        found.append(value)
    return found


FORBIDDEN = "its history is forbidden"


def history(t):
    try:
        return t.requires_grad, t.is_leaf
    except RuntimeError:  # a view taken under no_grad() whose base was written
        return (FORBIDDEN,)


def outside(name):
    """Of a tensor that was there before the call."""
    return name != "" and name.partition(".")[0] not in ("result", "kept", "seen", "table", "more")


def look(state, shown):
    """Adds what can be seen of the things in state: values, kinds, which are one object, which share memory."""
    every = [(name if k == 0 else f"{name}.{k}", item) for name, value in state for k, item in enumerate(flat(value))]
    tensors = [(name, t) for name, t in every if isinstance(t, torch.Tensor)]
    first = {}
    for name, t in tensors:
        first.setdefault(id(t), name)
    places = {}
    for name, item in every:
        if not isinstance(item, torch.Tensor):
            shown[name] = item
            continue
        base, memory = item._base, item.untyped_storage()._cdata
        shared = sum(t.untyped_storage()._cdata == memory for t in {id(t): t for _, t in tensors}.values()) > 1
        shown[name] = item.detach().clone()
        shown[name + " is"] = first[id(item)]
        shown[name + " kind"] = (type(item).__name__, item.stride() if item.numel() else (), *history(item))
        shown[name + " shares"] = places.setdefault(memory, name) if item.numel() else None
        if shared:  # a view of what nobody else sees may be memory of its own
            shown[name + " offset"] = item.storage_offset()
            shown[name + " base"] = outside(first.get(id(base), "")) and first[id(base)]
        shown[name + " version"] = item._version


def same(a, b):
    if type(a) is not type(b):
        return False
    if not isinstance(a, torch.Tensor):
        return a == b or (a != a and b != b)
    if (a.dtype, a.shape) != (b.dtype, b.shape):
        return False
    if not a.is_floating_point():
        return torch.equal(a, b)
    near = 1e-8 if a.dtype == torch.float64 else 1e-3
    finite = b[b.isfinite()].abs()
    return torch.allclose(a, b, rtol=near, atol=near * max(1.0, finite.max().item() if finite.numel() else 0),
                          equal_nan=True)


MISSING = "nothing"
# What plain PyTorch refuses and compiled code need not: the graph has no memory that overlaps, and what was overwritten
# between uses is known by value.
LENIENT_CALL, LENIENT_WALK = "refer to a single memory location", "modified by an inplace operation"
# The other way round, where a graph keeps an input and PyTorch something made from it; writes by .data change what is
# kept and leave no trace: gradients are then whatever was kept.
UNTRACED = (".data.",)


def differences(theirs, ours, untraced=False):
    told = []
    lenient = any(LENIENT_WALK in seen.get("why", "") for seen in (theirs, ours))
    for name in dict.fromkeys(["raises", "walk", *theirs, *ours]):
        gradient = name.startswith("gradient of")
        if name == "why" or (lenient and name == "walk") or (gradient and (lenient or untraced)):
            continue
        if not same(theirs.get(name, MISSING), ours.get(name, MISSING)):
            told.append(f"{name}: {theirs.get(name, MISSING)}, here {ours.get(name, MISSING)}"[:300])
    if told and "why" in ours and ours["why"] != theirs.get("why"):
        told.append(f"here: {ours['why'][:300]}")
    return told


def check(seed):
    """(how it was captured: whole, breaks, plain; what differs, or None)."""
    program = Program(seed)
    plain, compiled = program.world(), program.world()
    compiled.compile()
    told = None
    for call in range(3):
        theirs, ours = plain.step(call), compiled.step(call)
        forbidden = any(isinstance(v, tuple) and FORBIDDEN in v for v in theirs.values())
        if forbidden or LENIENT_CALL in theirs.get("why", ""):
            break
        untraced = any(text in program.text for text in UNTRACED)
        told = differences(theirs, ours, untraced)
        if told:
            told = f"{program}call {call}: " + "\n    ".join(told[:8])
        if told or "walk" in theirs or "walk" in ours or untraced:  # what the optimizer gets is no longer alike
            break
        compiled.compiled()._wait()
    entries = compiled.compiled()._entries()
    kind = ("whole" if all(e["reason"] is None for e in entries) else
            "breaks" if any(e["ops"] for e in entries) else "plain")
    return kind, told or None
