"""Every number among an op's arguments as a symbolic one, while a program is recorded.

`check(name, call)` takes a sample, and for each int, float or bool in it (in lists, too) exports a program whose number
is the size of an input less a constant. The program must give what the op gives on the plain number: at the example,
and at the next number, where it may refuse instead (then the number was settled). No message may show the tag that
stands for an expression."""
import re
import warnings

import cresset
import harness

BIAS = 40               # sizes are never 0 or 1, and small negative numbers are numbers, too
TAG = re.compile(r"\d{18,}")


def places(value, path=()):
    """Where the numbers are: paths of indices into args or kwargs."""
    if isinstance(value, bool) or (isinstance(value, int) and abs(value) <= 32):
        yield path
    elif isinstance(value, float) and abs(value) <= 32 and (4 * value).is_integer():
        yield path
    elif isinstance(value, (list, tuple)) and not isinstance(value, cresset.Size):
        for i, item in enumerate(value):
            yield from places(item, path + (i,))


def replaced(value, path, new):
    if not path:
        return new
    items = list(value)
    items[path[0]] = replaced(items[path[0]], path[1:], new)
    return type(value)(items)


def at(value, path):
    for i in path:
        value = value[i]
    return value


def of_size(plain, size):
    """The symbolic number that is `plain` at size BIAS + plain: an int, a float in quarters, or a bool."""
    if isinstance(plain, bool):
        return size > BIAS
    return (size - 4 * BIAS) / 4 if isinstance(plain, float) else size - BIAS


def size_for(plain):
    return int(4 * plain) + 4 * BIAS if isinstance(plain, float) else int(plain) + BIAS


def number(plain, step):
    return plain + step / 4 if isinstance(plain, float) else bool(step) != plain if isinstance(plain,
            bool) else plain + step


class Program(cresset.nn.Module):
    def __init__(self, op, args, kwargs, key, path, plain, symbolic=True):
        super().__init__()
        self.op, self.args, self.kwargs, self.key, self.path, self.plain, self.symbolic = (op, args, kwargs, key, path,
                plain, symbolic)

    def forward(self, z, tensors):
        given = iter(tensors)
        put = lambda value: cresset.utils._pytree.tree_map(lambda leaf: next(given) if isinstance(leaf, cresset.Tensor)
                                                           else leaf, value)
        args, kwargs = put(self.args), put(self.kwargs)
        symbolic = of_size(self.plain, z.shape[0]) if self.symbolic else self.plain
        if self.key is None:
            args = replaced(args, self.path, symbolic)
        else:
            kwargs = {**kwargs, self.key: replaced(kwargs[self.key], self.path, symbolic)}
        return [r for r in cresset.utils._pytree.tree_leaves(self.op(*args, **kwargs)) if isinstance(r, cresset.Tensor)]


def equal(want, got, values):
    want = [r for r in cresset.utils._pytree.tree_leaves(want) if isinstance(r, cresset.Tensor)]
    if len(want) != len(got):
        return False
    for a, b in zip(want, got):
        if a.dtype != b.dtype or tuple(a.shape) != tuple(b.shape):
            return False
        if values and a.numel() and not cresset.allclose(a.to(cresset.complex128), b.to(cresset.complex128),
                                                         equal_nan=True, rtol=1e-4, atol=1e-5):
            return False
    return True


def attempt(f, *args, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return harness.attempt(f, args, kwargs)


def check_place(op, args, kwargs, key, path, values):
    """None, or what is wrong."""
    source = args if key is None else kwargs[key]
    plain = at(source, path)
    tensors = [leaf for leaf in cresset.utils._pytree.tree_leaves((args, kwargs)) if isinstance(leaf, cresset.Tensor)]

    def real(step):
        put = lambda value: harness.mapped(value, lambda t: t.clone())
        mine = replaced(source, path, number(plain, step))
        return attempt(op, *(put(mine) if key is None else put(args)),
                       **{k: put(mine) if k == key else put(v) for k, v in kwargs.items()})

    def sized(step):
        return cresset.zeros(size_for(number(plain, step))), [t.clone() for t in tensors]
    want = real(0)
    if isinstance(want, harness.Refused):
        return None

    def export(symbolic):
        return attempt(cresset.export.export, Program(op, args, kwargs, key, path, plain, symbolic), sized(0),
                       dynamic_shapes=({0: cresset.export.Dim.AUTO}, [None] * len(tensors)), strict=False)
    ep = export(True)
    if isinstance(ep, harness.Refused):
        text = f"{type(ep.error).__name__}: {ep.error}"
        if TAG.search(text):
            return f"a tag is shown: {text}"
        marker = plain == -1 and path[1:]  # "infer this one" in a list of sizes: a symbolic number is a size
        return None if marker or isinstance(export(False), harness.Refused) else f"refused: {text}"
    module = ep.module()
    for step in (0, 1):
        got, want = attempt(module, *sized(step)), real(step)
        if isinstance(got, harness.Refused):
            if TAG.search(str(got.error)):
                return f"a tag is shown at step {step}: {got.error}"
            if not step:
                return f"refused at the example: {type(got.error).__name__}: {got.error}"
        elif isinstance(want, harness.Refused):
            return f"step {step} is refused by the op ({want.error}) and not by the program"
        elif not equal(want, got, values):
            return f"step {step} gives another result"
    return None


def check(name, op, c):
    """[(place, what is wrong)] and how many places there were."""
    args, kwargs = tuple(harness.ours(harness.twin(tuple(c.args)))), {k: harness.ours(harness.twin(v))
                                                                      for k, v in c.kwargs.items()}
    found, count = [], 0
    for key, source in [(None, args), *kwargs.items()]:
        for path in places(source):
            count += 1
            wrong = check_place(op, args, kwargs, key, path, "empty" not in name)
            if wrong:
                found.append(f"{name}({harness.describe(c)}), {'argument' if key is None else key} {list(path)}: "
                             f"{wrong}")
    return found, count
