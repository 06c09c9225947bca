"""Bad input raises the class that PyTorch raises, with a message that names the op and the argument; never a crash."""
# ruff: noqa: E501 - one case is one line
import pytest

import cresset
from agree import agree, lines

CLASSES = lines("""
    t.ones(2, 3) @ t.ones(2, 3)
    t.ones(2) + t.ones(3)
    t.ops.aten.scaled_dot_product_attention(x, x, x) | x = t.ones(1, 2, 3, 4, dtype=t.int64)
    t.ops.aten.scaled_dot_product_attention(x, x, x, is_causal=True) | x = t.ones(3, 4, dtype=t.uint8)
    t.ops.aten.lstm.input(t.ones(0, 2, 4), [h, h], [t.ones(12, 4), t.ones(12, 3), t.ones(12), t.ones(12)], True, 1, 0.0, False, False, False) | h = t.ones(1, 2, 3)
    t.ops.aten.gru.input(t.ones(0, 2, 4), h, [t.ones(9, 4), t.ones(9, 3), t.ones(9), t.ones(9)], True, 1, 0.0, False, False, False) | h = t.ones(1, 2, 3)
    t.ones(2).view(3)
    t.ones(2).reshape(3)
    t.ones(2).sum(1)
    t.ones(2).sum(-2)
    t.ones(2).transpose(0, 1)
    t.ones(2)[2]
    t.ones(2)[-3]
    t.ones(2)[0, 0]
    t.ones(2)[[2]]
    t.ones(2)[t.tensor([True])]
    t.ones(2)[1.5]
    t.ones(2)[::-1]
    t.ones(2).expand(3)
    t.ones(2).squeeze(5)
    t.cat([t.ones(2), t.ones(2, 2)])
    t.stack([t.ones(2), t.ones(3)])
    t.ones(2).add_(t.ones(3))
    t.ones(2).expand(3, 2).add_(1)
    x.add_(x[:-1].new_ones(2)) | x = t.ones(3)
    x[1:].copy_(x[:-1]), x | x = t.arange(3)
    x[1:].add_(x[:-1]) | x = t.arange(3)
    t.ones(2, dtype=t.int64).add_(1.5)
    t.add(t.ones(2), 1, out=t.empty(2, dtype=t.int64))
    t.ones(2, dtype=t.bool) - True
    -t.ones(2, dtype=t.bool)
    ~t.ones(2)
    t.ones(2).bitwise_and(1)
    t.zeros(2**62, 2**62)
    t.zeros(2**50)
    t.zeros(-1)
    t.empty(2, -3)
    t.full((2,), 1.5, dtype=t.int64), t.full((2,), 2**31, dtype=t.int64)
    t.arange(0, 3, 0)
    t.arange(3, 0, 1)
    t.mean(t.ones(2, dtype=t.int64))
    t.ones(2).max(3)
    t.ones(0).max()
    t.ones(2, 2).diagonal(0, 0, 0)
    t.ones(2).index_select(0, t.tensor([5]))
    t.ones(2).gather(0, t.tensor([5]))
    t.ones(2).to([])
    t.eye(-1)
    t.linspace(0, 1, -1)
    t.where(t.ones(2), 1, 0)
    t.sin('a')
    t.sin()
    t.sin(t.ones(1), t.ones(1))
    t.cat(t.ones(2), 'a')
    x.real | x = t.ones(2)[0:0]
    t.ones(2).copy_(t.ones(3))
    t.ones(2).resize_(3).shape
    t.randint(5, 2, (2,))
    t.ones(2).softmax(3)
    t.ones(2)[0][0]
    t.tensor(1)[0]
    t.tensor(1)[:]
""")


@pytest.mark.parametrize("line", CLASSES)
def test_same_class(oracle, line):
    agree(oracle, line)


def message(f):
    with pytest.raises(Exception) as caught:
        f()
    return str(caught.value)


def test_messages_name_the_op_and_the_argument():
    x = cresset.ones(2, 3)
    assert "add" in message(lambda: cresset.add(x, "a")) and "aten::add.Tensor(" in message(lambda: cresset.add(x, "a"))
    assert "dict" in message(lambda: cresset.add(x, {})) and "argument 2" in message(lambda: cresset.add(x, {}))
    assert "nonsense" in message(lambda: x.sum(nonsense=1))
    text = message(lambda: x + cresset.ones(2))
    assert "2" in text and "3" in text
    text = message(lambda: x.view(4))
    assert "[4]" in text and ("6" in text or "[2, 3]" in text)
    text = message(lambda: x[5])
    assert "index 5" in text and "dimension 0" in text and "size 2" in text
    assert "to(dtype)" in message(lambda: x.to({}))
    assert "cresset.tensor" in message(lambda: x.__setitem__(0, [1, 2, 3]))


def test_out_of_memory_is_a_memory_error_and_a_runtime_error():
    for kind in (MemoryError, RuntimeError, cresset.OutOfMemoryError):
        with pytest.raises(kind):
            cresset.zeros(2**50)


def test_classes_of_our_own():
    assert issubclass(cresset.GuardOnDataDependentSymNode, RuntimeError) and issubclass(cresset.UnsupportedError,
            RuntimeError)
    assert cresset.OutOfMemoryError.__module__ == "cresset"


def test_arguments_that_fight_back():
    """Objects whose conversion raises, lies or changes the list it is in."""
    class Raises:
        def __index__(self): raise ZeroDivisionError("no")
    class Lies:
        def __index__(self): return "one"
    class Shrinks:
        def __init__(self, items): self.items = items
        def __index__(self):
            self.items.clear()
            return 1
    x = cresset.ones(2, 2)
    with pytest.raises(ZeroDivisionError):
        x.sum(Raises())
    with pytest.raises(ZeroDivisionError):
        x[Raises()]
    with pytest.raises(TypeError):
        x.view(Lies())
    items = []
    items += [Shrinks(items), 2, 3]
    with pytest.raises((RuntimeError, TypeError)):
        x.view(items)
    items = []
    items += [Shrinks(items), 2, 3]
    with pytest.raises((RuntimeError, ValueError, TypeError)):
        cresset.tensor(items)
    deep = []
    deep.append(deep)
    with pytest.raises(ValueError):
        cresset.tensor(deep)
    with pytest.raises((TypeError, RecursionError)):
        x.view(deep)
    with pytest.raises(TypeError):
        cresset.add(*[x] * 50)
    with pytest.raises((OverflowError, ValueError, RuntimeError)):
        x.sum(2**70)
    with pytest.raises(TypeError):
        del x[0]


SWEPT = lines("""
    x + 1
    x.sum(0)
    x[0, 1:]
    x[[0, 1], None]
    x[x > 1]
    x.__setitem__(0, 5.)
    x.__setitem__([0, 1], y)
    x.max(0)
    t.cat([x, y, x])
    x.chunk(2)
    t.tensor([[1, 2], [3, 4]])
    t.tensor([t.tensor(1.), 2.])
    t.from_numpy(a)
    t.from_dlpack(x)
    np.from_dlpack(x)
    x.T.contiguous()
    x.to(t.float64)
    t.zeros(3, 4)
    t.Generator()
    t.get_rng_state()
    copy.deepcopy([x, x[0]])
    pickle.loads(pickle.dumps(x))
    x.view(4, 1).expand(4, 3)
    t.where(x > 1, x, 0)
    x.add_(1).mul_(y)
    x.layer_norm((2,)) if hasattr(x, 'layer_norm') else t.layer_norm(x, (2,))
    x.mm(y)
    x.tolist()
    x @ y + x
    repr(x)
""")


@pytest.mark.parametrize("expression", SWEPT)
def test_memory_may_run_out_anywhere(expression):
    """Every allocation of the expression fails in turn: an OutOfMemoryError each time, and nothing is left behind."""
    import copy
    import gc
    import pickle

    import numpy as np
    names = {"t": cresset, "np": np, "copy": copy, "pickle": pickle, "a": np.ones((2, 2)),
             "x": cresset.tensor([[1., 2.], [3., 4.]]), "y": cresset.tensor([[5., 6.], [7., 8.]])}
    code = compile(expression, expression, "eval")
    for _ in range(3):
        eval(code, names)  # what is made once (types, caches) is made now
    message(lambda: cresset.zeros(2**50))  # the last error is out of memory already
    gc.collect()
    before, n = cresset._C._alloc_live(), 0
    while True:
        n += 1
        start = cresset._C._alloc_fail_at(n)
        try:
            eval(code, names)
            failed = False
        except MemoryError:
            failed = True
        finally:
            reached = cresset._C._alloc_fail_at(0) - start >= n
        gc.collect()
        assert cresset._C._alloc_live() == before, (
            f"allocation {n}: {cresset._C._alloc_live() - before} blocks are left")
        if not reached:
            assert not failed
            break
        assert failed, f"allocation {n} failed and nobody said so"
