"""Threads: what one exports, records or runs is what it would be alone. The interpreter changes threads after every
microsecond here."""
import contextlib
import copy
import sys
import threading

import pytest

import cresset as torch
from cresset import _C, nn
from cresset.export import Dim, export

SHARED = torch.arange(6.0).reshape(2, 3)  # every program below that uses it lifts it


@contextlib.contextmanager
def hurried():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def together(works):
    """Every work at once, each in a thread of its own; their results in order."""
    results, errors, gate = [None] * len(works), [], threading.Barrier(len(works))

    def run(i):
        try:
            gate.wait()
            results[i] = works[i]()
        except BaseException as error:  # noqa: BLE001 - shown below
            errors.append((i, error))
    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(works))]
    with hurried():
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if errors:
        raise errors[0][1]
    return results


# ---- modules that differ in ops, names, structure and state ----

class Block(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.linear, self.k = nn.Linear(3, 3), k
        self.register_buffer("seen", torch.zeros(3))

    def forward(self, x):
        self.seen.add_(1)
        for _ in range(self.k):
            x = torch.relu(self.linear(x)) + self.seen
        return x


class Nested(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.blocks = nn.ModuleList(Block(i % 3 + 1) for i in range(k))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        with torch.no_grad():
            y = x * 2
        return y - SHARED.sum() + SHARED[0]


class Sizes(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.k = k

    def forward(self, x):
        n = max(x.shape[0], self.k)
        return x.reshape(-1).sum() + n, torch.max(x, 1), {"wide": x.repeat(self.k, 1)}


class Branches(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3) * k)

    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: (x * self.weight + SHARED.mean()).sin(),
                          lambda x: (x - self.weight).cos(), (x,))


class Items(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.k = k

    def forward(self, x):
        n = x.sum().int().item()
        torch._check(n >= self.k)
        torch._check(n < 100)
        return torch.zeros(n) + torch.tensor([1.0]), x.detach() * SHARED.max()


class Writes(nn.Module):
    """The tensor that all share is written, each time to a copy and to a buffer that is the module's own."""

    def __init__(self, k):
        super().__init__()
        self.register_buffer("own", torch.ones(3) * k)

    def forward(self, x):
        y = SHARED.clone()
        y.mul_(x.sum())
        self.own = self.own + y[1]
        return torch.nn.functional.softmax(y, -1), self.own.exp()


KINDS = [Nested, Sizes, Branches, Items, Writes, Block]


def made(i):
    torch.manual_seed(i)
    return KINDS[i % len(KINDS)](i // len(KINDS) + 1)


def exported(module):
    dynamic = ({0: Dim("batch", min=2, max=64)},) if not isinstance(module, (Items, Branches)) else None
    return export(module, (torch.ones(4, 3),), dynamic_shapes=dynamic)


def recording(k):
    def function(x, y):
        z = x
        for _ in range(k):
            z = z @ y + SHARED.sum()
        return torch.cond(z.sum() > 0, lambda z: z.sin(), lambda z: z.cos() * SHARED.mean(), (z,)), z.sum(0)
    return torch.record(function, (torch.ones(3, 3), torch.ones(3, 3)))


def text(ep):
    """All that a program is: graph, names, signature, ranges, lines and modules of every node."""
    nodes = [(node.name, str(node.target), str(node.args),
              {key: str(node.meta.get(key)) for key in ("stack_trace", "nn_module_stack", "source_fn_stack")})
             for node in ep.graph.nodes]
    return str(ep), nodes, str(ep.range_constraints), ep.guards


# ---- the tests ----

@pytest.mark.parametrize("rounds", range(3))
def test_eight_threads_export(rounds):
    modules = [made(i + 8 * rounds) for i in range(8)]
    alone = [[text(exported(module))] * 4 for module in modules]
    assert together([lambda module=module: [text(exported(module)) for _ in range(4)] for module in modules]) == alone


def test_sixteen_threads_export_record_and_run():
    """Each thread another module or function: exported, recorded, run as it is, and its program or graph run."""
    inputs = torch.arange(12.0).reshape(4, 3) / 7

    def plain(value):
        """Values that == compares, exactly."""
        leaves = torch.utils._pytree.tree_leaves(value)
        return [leaf.detach().tolist() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]

    def export_and_run(module):
        ep = exported(copy.deepcopy(module))
        run = ep.module()
        return text(ep), [plain(run(inputs)) for _ in range(2)]

    def run(module):
        module = copy.deepcopy(module)
        return [plain(module(inputs)) for _ in range(5)], _C.is_grad_enabled(), _C._autocast()

    def record_and_run(k):
        graph = recording(k)
        return str(graph), plain(graph.run(inputs[:3] * k, inputs[1:])), graph == _C.Graph.parse(str(graph))
    works = [lambda module=made(i): export_and_run(module) for i in range(6)]
    works += [lambda k=k: record_and_run(k) for k in range(1, 6)]
    works += [lambda module=made(i): run(module) for i in (0, 1, 4, 5, 6)]
    assert len(works) == 16
    alone = [work() for work in works]
    for _ in range(3):
        assert together(works) == alone


def test_errors_stay_with_their_thread():
    class Refused(nn.Module):
        def forward(self, x):
            if x.sum() > 0:
                return x
            return -x

    def refused():
        with pytest.raises(_C.GuardOnDataDependentSymNode) as caught:
            export(Refused(), (torch.ones(3),))
        return str(caught.value)
    modules = [made(i) for i in range(4)]
    works = [lambda module=module: text(exported(module)) for module in modules] + [refused] * 4
    assert together(works) == [text(exported(module)) for module in modules] + [refused()] * 4


def test_modules_that_share_parts():
    """A module of two others is exported by one thread after the other: neither sees the other's fakes."""
    part = Block(2)
    modules = [nn.Sequential(part, nn.ReLU()), nn.Sequential(nn.Tanh(), part), nn.Sequential(part, part), part]
    before = copy.deepcopy(part.state_dict())
    alone = [text(exported(module)) for module in modules]
    assert [text(ep) for ep in together([lambda module=module: exported(module) for module in modules])] == alone
    assert all(torch.equal(value, before[name]) for name, value in part.state_dict().items())


def test_modes_belong_to_the_thread():
    def inner():
        return (torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.compiler.is_exporting(),
                _C._is_recording())

    class Looks(nn.Module):
        def forward(self, x):
            seen.extend(together([inner]))
            return x + 1
    seen = []
    with torch.no_grad(), torch.inference_mode():
        export(Looks(), (torch.ones(2),))
        assert seen == [(True, False, False, False)]
    assert inner() == (True, False, False, False)


def test_random_numbers_of_other_threads():
    """An export keeps its hands off the generator that the other threads draw from."""
    class Waits(nn.Module):
        def forward(self, x):
            entered.set()
            assert drawn.wait(30)
            return torch.dropout(x, 0.5, True)
    entered, drawn = threading.Event(), threading.Event()
    torch.manual_seed(3)
    expected = [torch.rand(2) for _ in range(3)]

    def draw():
        assert entered.wait(30)
        found = [torch.rand(2), torch.rand(2)]
        drawn.set()
        return found
    torch.manual_seed(3)
    found, _ = together([draw, lambda: export(Waits(), (torch.ones(2),))])
    assert all(torch.equal(a, b) for a, b in zip([*found, torch.rand(2)], expected))


def test_export_inside_forward():
    """The inner export leaves the outer one as it was: modules go on telling their paths."""
    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = Block(1), Block(1)

        def forward(self, x):
            x = self.first(x)
            if nested:
                export(inner, example)
            assert torch.compiler.is_exporting()
            return self.second(x)
    inner, example, texts = Block(1), (torch.ones(1, 3),), []
    for nested in (False, True):
        texts.append([str(node.meta.get("nn_module_stack")) for node in export(Outer(),
                (torch.ones(2, 3),)).graph.nodes])
    assert texts[0] == texts[1]
