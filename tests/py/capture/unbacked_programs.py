"""Programs that read data of tensors: numbers, sizes. Written once for both libraries (`t`): name -> Program.

`calls`: data of the arguments, of one size each, so that one capture serves all of them. `graphs`: how many PyTorch
makes of it with torch.compile(backend="eager") under the same configuration, and how many there are here."""
import sys

SUMS = [[1, 2, 3], [0, 0, 0], [1, 0, 0], [2, 0, 0], [-1, 0, 0], [0, 4, 0]]
FLOATS = [[0.5, 1.25], [0.0, -0.0], [-3.5, 1.0], [float("nan"), 1.0], [float("inf"), 0.0], [2.5, 0.0]]
MASKS = [[1, 0, 1, 1], [0, 0, 0, 0], [0, 1, 0, 0], [1, 0, 0, 1], [1, 1, 1, 1]]


class Program:
    def __init__(self, make, calls, graphs, here=None, records=False):
        self.make, self.calls, self.theirs, self.ours = make, calls, graphs, graphs if here is None else here
        self.records = records  # of floats: gradients, too


class Box:
    def __init__(self):
        self.n = 0


def of(function, calls=SUMS, graphs=1, here=None, records=False):
    """A program that is one function of the library and the tensors."""
    def make(t):
        def program(x):
            return function(t, x)
        return program
    return Program(make, calls, graphs, here, records)


def number(function, calls=SUMS, graphs=1, here=None):
    """... of the number that the tensor's sum is."""
    def make(t):
        def program(x):
            n = x.sum().item()
            return function(t, x, n)
        return program
    return Program(make, calls, graphs, here)


def stored(t):
    box = Box()

    def program(x):
        box.n = x.sum().item()
        box.m = box.n + 1
        return x + box.n, box.n, box.m
    return program


def in_containers(t):
    def program(x):
        n = x.sum().item()
        return {"n": n, "all": [n, (n + 1, x[0])]}
    return program


def behind_a_break(t):
    def program(x):
        n = x.sum().item()
        y = x * n
        print(end="")
        return y + n, n * 2
    return program


def branch(t):
    def program(x):
        n = x.sum().item()
        if n > 3:
            return x + n
        return x - n
    return program


def checked_branch(t):
    def program(x):
        n = x.sum().item()
        t._check(n >= 0)
        if n > -1:
            return x + n
        return x - n
    return program


def checked_with_text(t):
    def program(x):
        n = x.sum().item()
        t._check(n < 5, lambda: "it is large")
        return x + n
    return program


def checked_size(t):
    def program(x):
        n = x.sum().item()
        t._check_is_size(n)
        return t.zeros(n + 1) + 1
    return program


def loop(t):
    def program(x):
        for _ in range(x.sum().item()):
            x = x + 1
        return x
    return program


def twice(t):
    def program(x):
        s = x.sum()
        return s.item() + s.item(), x * s.item()
    return program


def inlined(t):
    def total(x):
        return x.sum().item()

    def program(x):
        return total(x) + total(x * 2)
    return program


def handled(t):
    def program(x):
        n = x.sum().item()
        try:
            m = 12 // n
        except ZeroDivisionError:
            m = -1
        return x + m
    return program


def written(t):
    def program(x):
        y = x * 1
        y.add_(1)
        n = y.sum().item()
        y.mul_(2)
        return n, y.sum().item(), y
    return program


def mask_then_size(t):
    def program(x):
        y = x[x > 0]
        return y * 2, y.shape[0], y.numel() + 1
    return program


def two_masks(t):
    def program(x):
        y, z = x[x > 0], x[x < 1]
        return t.cat([y, z]), y.shape[0] + z.shape[0]
    return program


def same_mask(t):
    def program(x):
        m = x > 0
        return x[m] + x[m].float()
    return program


def branch_on_a_size(t):
    def program(x):
        y = x[x > 0]
        if y.shape[0] == 0:
            return x - 1
        return y.sum()
    return program


def zeros_of_a_size(t):
    def program(x):
        y = x.nonzero()
        return t.ones(y.shape[0], 2) + 1
    return program


def scaled(t):
    def program(x):
        return (x * x.sum().item()).sum() + x.max()
    return program


def masked_mean(t):
    def program(x):
        y = x[x > 0]
        return (y * y).sum()
    return program


PROGRAMS = {
    # ---- numbers ----
    "returned": number(lambda t, x, n: n),
    "of a float": number(lambda t, x, n: (n, n * 2, n + 0.5), FLOATS),
    "of a bool": of(lambda t, x: (x.sum() > 2).item()),
    "argument": number(lambda t, x, n: (x * n, x + n, t.full((2,), n))),
    "clamp": number(lambda t, x, n: x.clamp(max=n)),
    "float argument": number(lambda t, x, n: x * n + t.full((2,), n), FLOATS),
    "arithmetic": number(lambda t, x, n: (n + 1, n - 2, n * 3, -n, +n, n * n, n ** 2, 7 - n)),
    "float arithmetic": number(lambda t, x, n: (n + 1, n - 2, n * 3, -n, n * n, n / 4), FLOATS),
    "divided": number(lambda t, x, n: (n // 2, n % 3, n / 4, divmod(n, 5)), graphs=0, here=1),
    "divides": number(lambda t, x, n: (6 // n, 6 % n, 6 / n)),
    "divides for nothing": number(lambda t, x, n: (6 // n, x)[1]),
    "shifted": number(lambda t, x, n: (1 << n, n << 1, n >> 1)),
    "bits": number(lambda t, x, n: (n & 3, n | 4, n ^ 1)),
    "tensor": number(lambda t, x, n: t.tensor(n) + x),
    "extremes": number(lambda t, x, n: (max(n, 3), min(n, 3), abs(n))),
    "compared": number(lambda t, x, n: n > 2),
    "int()": of(lambda t, x: (int(x.sum()), int(x.sum() > 2))),
    "int() of a float": of(lambda t, x: int(x.sum()), FLOATS),
    "int() for nothing": of(lambda t, x: (int(x.sum()), x)[1], FLOATS),
    "float()": of(lambda t, x: float(x.sum())),
    "bool()": of(lambda t, x: bool(x.sum() > 2)),
    "tolist()": of(lambda t, x: x.tolist()),
    "tolist() of rows": of(lambda t, x: [sum(row) for row in x.reshape(3, 1).tolist()]),
    "twice": Program(twice, SUMS, 1),
    "inlined": Program(inlined, SUMS, 1),
    "stored": Program(stored, SUMS, 1),
    "containers": Program(in_containers, SUMS, 1),
    "behind a break": Program(behind_a_break, SUMS, 3),
    "written between": Program(written, SUMS, 1),
    "is it an int?": number(lambda t, x, n: (isinstance(n, int), isinstance(n, float), n is None, type(n) is int)),
    # ---- questions ----
    # 3.13 compares and asks in one instruction, at which both calls go on: one entry less
    "branch": Program(branch, SUMS, 4, here=5 if sys.version_info < (3, 13) else 4),
    "checked": Program(checked_branch, SUMS, 1),
    "checked with a text": Program(checked_with_text, SUMS, 1),
    "loop": Program(loop, SUMS, 2),
    "handled": Program(handled, SUMS, 1),
    "text": number(lambda t, x, n: f"{n}"),
    "key": number(lambda t, x, n: {n: 1}),
    "item of a list": number(lambda t, x, n: [5, 6, 7, 8, 9, 10, 11][n], graphs=0, here=1),  # PyTorch raises
    # ---- numbers as sizes and indices ----
    "zeros": number(lambda t, x, n: t.zeros(n, 2) + 1),
    "arange": number(lambda t, x, n: t.arange(n) * 2),
    "size": Program(checked_size, SUMS, 1),
    "select": number(lambda t, x, n: t.arange(7)[n] + 1),
    "slice": number(lambda t, x, n: t.arange(7)[:n] + 1),
    "slice from": number(lambda t, x, n: t.arange(7)[n:] + 1),
    "narrow": number(lambda t, x, n: t.arange(7).narrow(0, 0, n)),
    "expand": number(lambda t, x, n: x.unsqueeze(0).expand(n, 3) + 1),
    "view": number(lambda t, x, n: t.zeros(n, 2).reshape(-1)),
    "sum of a size": number(lambda t, x, n: t.ones(n).sum()),
    "its own shape": number(lambda t, x, n: (t.zeros(n, 2).shape[0], t.zeros(n).numel())),
    "repeat": number(lambda t, x, n: x.repeat(n)),
    "broadcast": number(lambda t, x, n: t.ones(n) + x),
    "matrix": number(lambda t, x, n: t.ones(n, 3) @ t.ones(3, 2)),
    "sizes are equal": number(lambda t, x, n: t.ones(n) + t.ones(n)),
    "cat": number(lambda t, x, n: t.cat([t.ones(n), x.float()])),
    "max": number(lambda t, x, n: t.ones(n, 2).amax(0)),
    # ---- sizes of results ----
    "nonzero": of(lambda t, x: x.nonzero() + 1, MASKS),
    "nonzero of a tuple": of(lambda t, x: t.nonzero(x, as_tuple=True)[0] + 1, MASKS),
    "masked_select": of(lambda t, x: x.masked_select(x > 0) * 2, MASKS),
    "mask": of(lambda t, x: x[x > 0] * 2, MASKS),
    "where": of(lambda t, x: t.where(x > 0)[0] * 2, MASKS),
    "argwhere": of(lambda t, x: t.argwhere(x) * 2, MASKS),
    "unique": of(lambda t, x: x.unique() * 2, MASKS),
    "unique and counts": of(lambda t, x: t.unique(x, return_inverse=True, return_counts=True), MASKS),
    "unique_consecutive": of(lambda t, x: t.unique_consecutive(x) + 1, MASKS),
    "repeat_interleave": of(lambda t, x: t.arange(4).repeat_interleave(x) + 1, MASKS),
    "bincount": of(lambda t, x: x.bincount() + 1, MASKS),
    "mask and its size": Program(mask_then_size, MASKS, 1),
    "two masks": Program(two_masks, MASKS, 1),
    "the same mask": Program(same_mask, MASKS, 1),
    "mask, written": of(lambda t, x: (x.masked_fill(x > 0, 7), x[x > 0].sum()), MASKS),
    "ones of a size": Program(zeros_of_a_size, MASKS, 1),
    "branch on a size": Program(branch_on_a_size, MASKS, 5),
    "mean of a mask": of(lambda t, x: x[x > 0].float().mean(), MASKS),
    "max of a mask": of(lambda t, x: x[x > 0].sum() + x[x == 0].numel(), MASKS),
    "sorted mask": of(lambda t, x: x[x > 0].sort()[0], MASKS),
    "mask of a mask": of(lambda t, x: x[x > 0][:2], MASKS),
    "squeezed": of(lambda t, x: x[x > 0].squeeze(0), MASKS),
    "reshaped": of(lambda t, x: x[x > 0].reshape(-1, 1).expand(-1, 2) + 1, MASKS),
    "product": of(lambda t, x: x[x > 0].float() @ x[x > 0].float(), MASKS),
    "index_select": of(lambda t, x: x.index_select(0, x.nonzero().squeeze(1)), MASKS),
    "softmax": of(lambda t, x: x[x > 0].float().softmax(0), MASKS),
    "added to two": of(lambda t, x: x[x > 0] + t.ones(2), MASKS),
    "transposed": of(lambda t, x: x[x > 0].reshape(-1, 1).expand(-1, 3).T.contiguous(), MASKS),
    # ---- gradients ----
    "scaled": Program(scaled, FLOATS[:3], 1, records=True),
    "masked": Program(masked_mean, FLOATS[:3], 1, records=True),
    "indexed": of(lambda t, x: (x[x > 0] * x[x > 0].numel()).sum() + x.sum(), FLOATS[:3], records=True),
}
