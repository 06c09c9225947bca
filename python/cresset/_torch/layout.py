"""Where in a torch tensor's memory its numbers lie: found out with tensors made here, never written down.

Every offset is the one place that has the right number in all samples, which differ in what they are asked about. Then
random tensors and changes to them are read both ways; one difference, and the layout is not used in this process."""
from __future__ import annotations

import ctypes
import random
import warnings
from typing import Any, Callable, Iterable

import torch

from cresset import _C
from cresset._torch import crossing

_WORDS = 24          # of the structure that are looked at: as many as it has, what lies behind may be nothing
_INLINE = 5          # sizes and strides of up to so many dimensions lie in the structure


def _word(address: int) -> int:
    return ctypes.c_uint64.from_address(address).value


def _only(samples: Iterable[tuple[int, int]], step: int = 8, read: Callable[[int], int] = _word,
          size: int = _WORDS * 8) -> int:
    """The offset at which all samples (address, number) have their number; LookupError: none, or several."""
    samples = list(samples)
    found = [at for at in range(0, size, step) if all(read(base + at) == number for base, number in samples)]
    if len(found) != 1:
        raise LookupError(f"{len(found)} places")
    return found[0]


def _keys(t: torch.Tensor) -> int:
    return torch._C._dispatch_keys(t).raw_repr()


def _find() -> tuple[Any, ...]:
    a, b, c = torch.zeros(7, 11, 13), torch.zeros(3, 5, dtype=torch.float64)[1:, 2:], torch.zeros(2).to(torch.int16)
    plain = [a, b, c]
    impl = _only(((id(t), t._cdata) for t in plain), size=64)
    at = [t._cdata for t in plain]
    keyed = [*plain, torch.zeros(3, requires_grad=True), torch._neg_view(torch.zeros(3)), torch.zeros(2, device="meta")]
    keys = _only((t._cdata, _keys(t)) for t in keyed)
    storage = _only((t._cdata, t.untyped_storage()._cdata) for t in plain)
    shifted = [torch.zeros(40)[i:] for i in (17, 23, 29)]
    offset = _only((t._cdata, t.storage_offset()) for t in shifted)
    sizes = _only((base, t.shape[0]) for base, t in zip(at, plain))
    ranked = [torch.zeros(()), torch.zeros(3), a, torch.zeros(1, 2, 3, 4, 5), torch.zeros(1, 1, 1, 1, 1, 1, 2)]
    rank = _only((t._cdata, t.dim()) for t in ranked)
    if any(_word(base + sizes + 8 * d) != t.shape[d] or _word(base + sizes + 8 * (_INLINE + d)) != t.stride(d)
           for base, t in zip(at, plain) for d in range(t.dim())):
        raise LookupError("sizes and strides")
    memory = [(ctypes.c_float * 3)(), (ctypes.c_float * 9)()]
    held = [torch.frombuffer(m, dtype=torch.float32) for m in memory]  # foreign memory: the other pointer is another
    data = next(o for o in range(0, 128, 8) if all(
        _word(t.untyped_storage()._cdata + o) == ctypes.addressof(m) for t, m in zip(held, memory)))
    number = _find_dtype()
    counter, version = _find_version(storage)
    allowed = 0
    for t in (*plain, *held, torch.zeros(3, requires_grad=True), torch.nn.Parameter(torch.zeros(2))):
        allowed |= _keys(t)
    with torch.inference_mode():
        allowed |= _keys(torch.zeros(2))
    for lazy in (torch._neg_view(torch.zeros(2)), torch.zeros(2, dtype=torch.complex64).conj(),
                 torch.zeros(2, device="meta"), torch.zeros(2).to_sparse(), torch._efficientzerotensor((2,))):
        if not _keys(lazy) & ~allowed:
            raise LookupError("lazy tensors look as others do")
    ours = crossing.dtypes()
    numbers = {_half(torch.zeros(1, dtype=d)._cdata + number): mine for mine, d in ours.items()}
    if len(numbers) != len(ours):
        raise LookupError("dtypes")
    return impl, keys, rank, sizes, number, storage, offset, data, counter, version, allowed, numbers


def _find_version(storage: int) -> tuple[int, int]:
    """The pointer that a tensor shares with its views and with no other tensor, that is not its storage's, and that
    inference tensors lack: the counter of writes. And where in that the number is."""
    first, second = torch.zeros(4), torch.zeros(5)
    for t, writes in ((first, 3), (second, 7)):
        for _ in range(writes):
            t.add_(1)
    alike = [(first, first[1:]), (first, first.detach()), (second, second.view(5, 1))]
    with torch.inference_mode():
        uncounted = torch.zeros(3)
    found = [at for at in range(0, _WORDS * 8, 8) if at != storage and not _word(uncounted._cdata + at)
             and all(_word(a._cdata + at) == _word(b._cdata + at) >= 4096 for a, b in alike)
             and _word(first._cdata + at) != _word(second._cdata + at)]
    if len(found) != 1:
        raise LookupError(f"{len(found)} places for the counter of writes")
    counters = [(_word(t._cdata + found[0]), t._version) for t in (first, second)]
    return found[0], _only(counters, 4, lambda address: ctypes.c_uint32.from_address(address).value, 24)


def _half(address: int) -> int:
    return ctypes.c_uint16.from_address(address).value


def _find_dtype() -> int:
    """The half word that is the same for two tensors of a dtype, and another for each dtype."""
    tensors = [[torch.zeros(1, dtype=d) for _ in range(2)] for d in crossing.dtypes().values()]
    pairs = [[t._cdata for t in pair] for pair in tensors]
    found = []
    for at in range(0, _WORDS * 8, 2):
        seen = [(_half(p), _half(q)) for p, q in ((a + at, b + at) for a, b in pairs)]
        if all(p == q and p < 64 for p, q in seen) and len({p for p, _ in seen}) == len(seen):
            found.append(at)
    if len(found) != 1:
        raise LookupError(f"{len(found)} places for the dtype")
    return found[0]


def _samples(n: int) -> Iterable[torch.Tensor]:
    """Random tensors: shapes, strides, offsets, dtypes, flags; and what is done to one between two calls."""
    chance = random.Random(20261116)
    types = list(crossing.dtypes().values())
    for i in range(n):
        rank = chance.randrange(0, 9)
        shape = [chance.choice((0, 1, 1, 2, 3, 4)) for _ in range(rank)]
        t = torch.empty(shape, dtype=chance.choice(types))
        yield t
        if rank:
            t = t.permute(chance.sample(range(rank), rank))
            yield t
            t = t.narrow(0, t.shape[0] // 2, t.shape[0] - t.shape[0] // 2)
            yield t
            yield t[..., None].expand(*t.shape, 3)
        if i % 8 == 0:
            yield torch.nn.Parameter(torch.zeros(i % 5, 2))
            p = torch.zeros(4, 6, requires_grad=True)
            p.data = torch.ones(2, 3).t()
            yield p
            p.data = torch.ones(5, dtype=torch.float32)
            yield p
            q = torch.zeros(3)
            q.set_(torch.zeros(8), 2, (2, 2), (3, 1))
            yield q
            q.resize_(20)
            yield q
            yield torch.zeros(3).share_memory_()
            yield torch.zeros(9).add_(1)[i % 9:].mul_(2)


def _agrees(t: torch.Tensor) -> bool:
    ours = crossing.dtypes()
    address, dtype, sizes, strides, found = _C._torch_read(t)
    if (t.numel() and address != t.data_ptr()) or _C._torch_version(t) != t._version:
        return False
    return found and ours[dtype] is t.dtype and sizes == tuple(t.shape) and strides == t.stride()


def use() -> bool:
    """Finds the layout, verifies it and uses it from now on; False: it is not to be trusted here."""
    try:
        from torch._subclasses.fake_tensor import unset_fake_temporarily
        from torch.utils._python_dispatch import _disable_current_modes
        with warnings.catch_warnings(), unset_fake_temporarily(), _disable_current_modes():
            warnings.simplefilter("ignore")  # of dtypes that are experimental
            _C._torch_layout(*_find())
            good = all(_agrees(t) for t in _samples(100))
            lazy = torch._neg_view(torch.ones(3))
            good = good and not _C._torch_read(lazy)[4] and _C._torch_read(lazy)[0] != lazy.data_ptr()
    except Exception:
        good = False
    if not good:
        _C._torch_layout()
    return good
