"""N2: cresset.Tensor and the functions around it behave as PyTorch's: operators, attributes, conversions, call
forms."""
# ruff: noqa: E501 - one case is one line
import copy
import gc
import pickle
import subprocess
import sys
import threading
import weakref

import numpy as np
import pytest

import cresset
from agree import agree, lines

OPERATORS = lines("""
    f + f | f = t.tensor([1., -2., 3.])
    f + 2 | f = t.tensor([1., -2., 3.])
    2 + f | f = t.tensor([1., -2., 3.])
    f - 2 | f = t.tensor([1., -2., 3.])
    2 - f | f = t.tensor([1., -2., 3.])
    f * 3 | f = t.tensor([1., -2., 3.])
    3 * f | f = t.tensor([1., -2., 3.])
    f / 4 | f = t.tensor([1., -2., 3.])
    4 / f | f = t.tensor([1., -2., 3.])
    i / 4 | i = t.tensor([1, -2, 3])
    4 / i | i = t.tensor([1, -2, 3])
    i // 2 | i = t.tensor([5, -5, 3])
    7 // i | i = t.tensor([5, -5, 3])
    i % 3 | i = t.tensor([5, -5, 3])
    7 % i | i = t.tensor([5, -5, 3])
    i ** 2 | i = t.tensor([5, -5, 3])
    2 ** i | i = t.tensor([5, 4, 3])
    f ** 0.5 | f = t.tensor([4., 9.])
    2.0 ** f | f = t.tensor([4., 9.])
    f @ f | f = t.tensor([4., 9.])
    i & 3 | i = t.tensor([5, -5, 3])
    3 & i | i = t.tensor([5, -5, 3])
    i | 8 | i = t.tensor([5, -5, 3])
    i ^ 1 | i = t.tensor([5, -5, 3])
    1 ^ i | i = t.tensor([5, -5, 3])
    i << 2 | i = t.tensor([5, -5, 3])
    1 << i | i = t.tensor([5, 2, 3])
    i >> 1 | i = t.tensor([5, -5, 3])
    64 >> i | i = t.tensor([5, 2, 3])
    ~i | i = t.tensor([5, -5, 3])
    ~b | b = t.tensor([True, False])
    b & True | b = t.tensor([True, False])
    True | b | b = t.tensor([True, False])
    -f, +f, abs(f), (+f) is f | f = t.tensor([4., -9.])
    +b | b = t.tensor([True])
    i < 3, i <= 3, i == 3, i != 3, i > 3, i >= 3 | i = t.tensor([5, -5, 3])
    3 < i, 3 <= i, 3 == i, 3 != i, 3 > i, 3 >= i | i = t.tensor([5, -5, 3])
    f == None, f != None, f == 'a' | f = t.ones(2)
    f < None | f = t.ones(2)
    f + 'a' | f = t.ones(2)
    'a' + f | f = t.ones(2)
    f + None | f = t.ones(2)
    f + [1, 2] | f = t.ones(2)
    2 @ f | f = t.ones(2)
    divmod(f, 2) | f = t.ones(2)
    f & 1 | f = t.ones(2)
    f + np.float32(2), np.float32(2) + f, np.float64(2) * f, np.int64(2) - f, f * np.int16(3), f * np.bool_(True) | f = t.ones(2)
    i + np.float32(2), i * np.int8(2) | i = t.ones(2, dtype=t.int32)
    f + 2j, 2j * f, i + 2j | f = t.ones(2); i = t.ones(2, dtype=t.int64)
    i + 1.5, b + 1, b + 1.5, b * True | i = t.ones(2, dtype=t.int8); b = t.tensor([True, False])
    f + z, z + i, i + f | f = t.ones(2); z = t.tensor(2.5, dtype=t.float64); i = t.tensor([1, 2])
    x | x = t.ones(2); x += 1
    x | x = t.ones(2); x -= t.tensor([1., 2.])
    x | x = t.ones(2); x *= 3
    x | x = t.ones(2); x /= 4
    x | x = t.tensor([5, -5]); x //= 2
    x | x = t.tensor([5, -5]); x %= 3
    x | x = t.tensor([5, -5]); x **= 2
    x | x = t.tensor([5, -5]); x &= 3
    x | x = t.tensor([5, -5]); x |= 8
    x | x = t.tensor([5, -5]); x ^= 3
    x | x = t.tensor([5, -5]); x <<= 1
    x | x = t.tensor([5, -5]); x >>= 1
    x | x = t.ones(2, 2); x @= x + 1
    y is x | x = t.ones(2); y = x; y += 1
    x | x = t.ones(2, dtype=t.int64); x += 1.5
    x | x = t.ones(2, dtype=t.int64); x /= 2
    x | x = t.ones(2); x += t.ones(3, 2)
""")


@pytest.mark.parametrize("line", OPERATORS)
def test_operators(oracle, line):
    agree(oracle, line)


NUMBERS = lines("""
    bool(t.tensor(2.)), bool(t.tensor([0])), bool(t.tensor([[True]])), bool(t.tensor(0j)), bool(t.tensor(nan))
    bool(t.ones(2))
    bool(t.ones(0))
    int(t.tensor(2.7)), int(t.tensor([[3]])), int(t.tensor(True))
    int(t.ones(2))
    int(t.tensor(nan))
    int(t.tensor(1j))
    float(t.tensor(2)), float(t.tensor([2.5])), float(t.tensor(1.5, dtype=t.float16))
    float(t.tensor(1j))
    float(t.ones(2))
    complex(t.tensor(1.5)), complex(t.tensor(1 + 2j)), complex(t.tensor([3]))
    [10, 20, 30][t.tensor(1)], [10, 20, 30][t.tensor([2])], range(3)[t.tensor(True)]
    [1][t.tensor(0.)]
    t.ones(2).__index__()
    len(t.ones(3, 2))
    len(t.tensor(1))
    list(t.arange(3)), [r.shape for r in t.ones(2, 3)]
    list(t.tensor(1))
    1.0 in f, 5 in f, t.tensor(1.) in f, True in f | f = t.ones(2)
    'a' in f | f = t.ones(2)
    t.tensor(2.5).item(), t.tensor([2]).item(), t.tensor(True).item(), t.tensor(1 + 2j).item(), t.tensor(1.1).item()
    t.tensor(2.5, dtype=t.bfloat16).item(), t.tensor(250, dtype=t.uint8).item(), t.tensor(2**63, dtype=t.uint64).item()
    t.ones(2).item()
    t.ones(2, 3).tolist(), t.tensor(1).tolist(), t.ones(0).tolist(), t.ones(2, 0).tolist(), t.tensor([True, False]).tolist()
    t.arange(6).view(2, 3).T.tolist(), t.tensor([1j, 2.]).tolist(), t.ones(2, 2, dtype=t.float16).tolist()
    f'{t.tensor(1.2345):.2f}', f'{t.tensor(7):04d}'
    f'{t.ones(2):.2f}'
    round(t.ones(2))
""")


@pytest.mark.parametrize("line", NUMBERS)
def test_tensors_as_python_numbers(oracle, line):
    agree(oracle, line)


ATTRIBUTES = lines("""
    y.shape, y.dtype, y.device, y.layout, y.ndim, y.itemsize, y.nbytes | y = t.ones(2, 3)
    y.size(), y.size(0), y.size(-1), y.size(dim=1), y.stride(), y.stride(0), y.stride(-1) | y = t.ones(2, 3).T
    y.size(2) | y = t.ones(2, 3)
    y.stride(-3) | y = t.ones(2, 3)
    t.tensor(1).size(0)
    y.dim(), y.ndimension(), y.numel(), y.nelement(), y.element_size(), y.storage_offset() | y = t.ones(2, 3, dtype=t.int16)[1:]
    y.is_contiguous(), y.T.is_contiguous(), y.is_floating_point(), y.is_complex(), y.is_signed() | y = t.ones(2, 3)
    y.is_contiguous(memory_format=t.channels_last), y.is_contiguous(memory_format=t.contiguous_format) | y = t.ones(2, 3, 4, 5).to(memory_format=t.channels_last)
    y.T, y.mT, y.H, y.mH | y = t.arange(6).view(2, 3)
    y.real, y.imag, y.H | y = t.tensor([[1 + 2j, 3.]])
    t.ones(2).imag
    t.ones(2).mT
    t.ones(2).H
    t.ones(2).real
    x | x = t.zeros(2, dtype=t.complex64); x.real = 1; x.imag = t.tensor([2., 3.])
    x.requires_grad, x.is_leaf, x.grad, x.grad_fn | x = t.ones(2)
    x.requires_grad, y.requires_grad | x = t.ones(2); x.requires_grad = True; y = x.detach()
    t.ones(2, requires_grad=True).requires_grad, t.tensor([1.], requires_grad=True).requires_grad
    t.ones(2).requires_grad_().requires_grad, t.ones(2).requires_grad_(False).requires_grad
    t.ones(2, dtype=t.int64).requires_grad_()
    x._version | x = t.ones(2); x.add_(1); x.mul_(2)
    x._version | x = t.ones(2); x[0].zero_()
    x[0]._base is x, x._base, x[0]._is_view() | x = t.ones(2)
    x.is_cpu, x.is_cuda, x.is_meta, x.get_device(), x.is_conj(), x.is_neg() | x = t.ones(2)
    x.data.requires_grad, x.data.data_ptr() == x.data_ptr() | x = t.ones(2, requires_grad=True)
    x | x = t.ones(2); x.data = t.zeros(3)
    x.foo
    x.foo | x = t.ones(1); x.foo = 'bar'
    t.foo
    t.float32.is_floating_point, t.float32.is_complex, t.complex64.is_complex, t.uint8.is_signed, t.int8.is_signed, t.bool.itemsize
    t.float32.itemsize, t.complex64.to_real(), t.float32.to_complex(), t.float16.to_complex(), t.int64.to_real()
    t.float is t.float32, t.double is t.float64, t.half is t.float16, t.long is t.int64, t.int is t.int32, t.short is t.int16, t.cfloat is t.complex64
    str(t.float32), repr(t.bfloat16), str(t.strided), str(t.channels_last), repr(t.Size([2, 3]))
    t.device('cpu'), str(t.device('cuda:1')), t.device('cuda', 1).index, t.device('cpu').type, t.device('cpu').index, repr(t.device('cuda:1'))
    t.device('cpu') == t.device('cpu:0'), t.device('cpu') == t.device(type='cpu'), t.device('cpu', 0), t.device(t.device('cpu')), t.device('cpu') == 'cpu'
    hash(t.device('cpu')) == hash(t.device('cpu')), t.device('cpu') != t.device('cuda')
    t.device('foo')
    t.device('cuda:-1')
    t.device(1.5)
    t.Size([2, 3]), t.Size([2, 3])[0], t.Size([2, 3])[:1], t.Size([2, 3]) + (1,), (1,) + t.Size([2, 3]), t.Size([2, 3]) * 2, t.Size([2, 3]).numel(), t.Size([])
    t.Size([2, 3]) == (2, 3), hash(t.Size([2, 3])) == hash((2, 3)), t.Size(t.ones(2, 3).shape)
    t.Size(['a'])
    t.finfo(t.float32).eps, t.finfo(t.float64).max, t.finfo(t.float16).tiny, t.finfo(t.bfloat16).min, t.finfo(t.float32).bits, t.finfo().dtype, t.finfo(t.complex64).dtype
    [(t.finfo(d).max, t.finfo(d).min, t.finfo(d).eps, t.finfo(d).tiny, t.finfo(d).resolution, repr(t.finfo(d))) for d in (t.float16, t.bfloat16, t.float32, t.float64)]
    [(t.finfo(d).max, t.finfo(d).min, t.finfo(d).eps, t.finfo(d).tiny, t.finfo(d).bits) for d in (t.float8_e4m3fn, t.float8_e5m2)]
    [(t.iinfo(d).max, t.iinfo(d).min, t.iinfo(d).bits, repr(t.iinfo(d))) for d in (t.uint8, t.int8, t.int16, t.int32, t.int64)]
    t.iinfo(t.float32)
    t.finfo(t.int32)
    t.promote_types(t.int32, t.float16), t.promote_types(t.uint8, t.int8), t.promote_types(t.bool, t.complex64), t.promote_types(t.float16, t.bfloat16)
    t.result_type(t.ones(2), 1.0), t.result_type(t.ones(2, dtype=t.int8), 1.5), t.result_type(t.tensor(1), t.tensor([1], dtype=t.int8)), t.result_type(1, True)
    t.can_cast(t.float32, t.int32), t.can_cast(t.int32, t.float32), t.can_cast(t.complex64, t.float32), t.can_cast(t.bool, t.int8)
    t.is_tensor(t.ones(1)), t.is_tensor(1), t.is_floating_point(t.ones(1)), t.is_complex(t.ones(1)), t.numel(t.ones(2, 3))
    t.get_default_dtype()
    t.ones(1).dtype, t.tensor(1.).dtype, t.tensor(1j).dtype, t.get_default_dtype() | t.set_default_dtype(t.float64); t.set_default_dtype(t.float32)
    r | t.set_default_dtype(t.float64); r = (t.tensor(1.).dtype, t.tensor(1j).dtype); t.set_default_dtype(t.float32)
    t.set_default_dtype(t.int32)
    t.set_num_threads(0)
    t.inf, t.pi, t.e, t.nan, t.newaxis
""")


@pytest.mark.parametrize("line", ATTRIBUTES)
def test_attributes_and_types(oracle, line):
    agree(oracle, line)


DATA = lines("""
    t.tensor(1), t.tensor(1.5), t.tensor(True), t.tensor(1j), t.tensor([]), t.tensor([[]]), t.tensor([[], []])
    t.tensor([True, 2, 3.0]), t.tensor([True, 2]), t.tensor([1, 2j]), t.tensor(range(3)), t.tensor(((1, 2), [3, 4]))
    t.tensor([1.5], dtype=t.int32), t.tensor([-1], dtype=t.uint8), t.tensor([1e40]), t.tensor([70000.], dtype=t.float16), t.tensor(1.5, dtype=t.bool), t.tensor([3], dtype=t.float64)
    t.tensor([2**63, 1], dtype=t.uint64), t.tensor([-2**63]), t.tensor([0.1], dtype=t.bfloat16), t.tensor([1, 0, 2], dtype=t.bool), t.tensor([1, 2], dtype=t.complex128)
    t.tensor([300], dtype=t.uint8)
    t.tensor([-256], dtype=t.uint8)
    t.tensor([2**40], dtype=t.int32)
    t.tensor([-129], dtype=t.int8)
    t.tensor(2**63)
    t.tensor(2**64)
    t.tensor([1j], dtype=t.float32)
    t.tensor([nan], dtype=t.int32)
    t.tensor([[1, 2], [3]])
    t.tensor([1, [2]])
    t.tensor([[1], 2])
    t.tensor('a')
    t.tensor(['a'])
    t.tensor(None)
    t.tensor([None])
    t.tensor({})
    t.tensor([1], dtype='float32')
    t.tensor([1], device='foo')
    t.tensor(np.float64(1)), t.tensor(np.float32(1)), t.tensor([np.int8(1)]), t.tensor([np.int8(1), 2.0]), t.tensor(np.bool_(True)), t.tensor(np.complex64(1j))
    t.tensor([t.tensor(1.0), 2]), t.tensor([t.tensor([1.0]), t.tensor([[2]])]), t.tensor([[t.tensor(1), 2], [3, 4]])
    t.tensor([t.ones(2), t.ones(2)])
    t.tensor(t.arange(3)), t.tensor(t.arange(3), dtype=t.float32)
    t.tensor(np.arange(6).reshape(2, 3)), t.tensor(np.arange(6.).reshape(2, 3).T), t.tensor(np.array(5)), t.tensor([np.arange(2), np.arange(2)])
    t.tensor(bytearray(b'ab')), t.tensor(memoryview(b'ab'))
    t.as_tensor([1, 2]), t.as_tensor(3.), t.as_tensor(np.arange(3.)), t.as_tensor(np.arange(3), dtype=t.float32)
    t.as_tensor(x) is x, t.as_tensor(x, dtype=t.float64) is x | x = t.ones(2)
    t.frombuffer(bytearray(range(8)), dtype=t.int16), t.frombuffer(bytearray(range(8)), dtype=t.uint8, count=3, offset=2)
    t.frombuffer(bytearray(7), dtype=t.int16)
    t.frombuffer(bytearray(7), dtype=t.int16, count=9)
    t.frombuffer(bytearray(8), dtype=t.int16, offset=8)
    t.Tensor([2, 3]), t.Tensor().shape, t.Tensor(2, 3).shape, t.Tensor(t.Size([2])).shape, t.Tensor([[1, 2]]).dtype
    t.Tensor(3.0)
    x.new_tensor([1, 2]), x.new_tensor(1.5), x.new_tensor([1], dtype=t.int8) | x = t.ones(2, dtype=t.float64)
""")


@pytest.mark.parametrize("line", DATA)
def test_making_tensors(oracle, line):
    agree(oracle, line)


FORMS = lines("""
    y.view(3, 2), y.view((3, 2)), y.view([3, 2]), y.view(-1), y.view(size=(3, 2)), y.view(t.Size([6])) | y = t.arange(6).view(2, 3)
    y.view(t.tensor(3), 2), y.view(np.int64(3), 2) | y = t.arange(6).view(2, 3)
    y.view(3, [2]) | y = t.ones(2, 3)
    y.view() | y = t.ones(2, 3)
    y.view(4) | y = t.ones(2, 3)
    y.view(t.int32) | y = t.ones(2, 3)
    y.permute(1, 0), y.permute((1, 0)), y.permute([1, 0]), y.permute(dims=(1, 0)) | y = t.arange(6).view(2, 3)
    y.permute(range(2)) | y = t.ones(2, 3)
    y.expand(2, 2, 3), y.expand([2, 2, 3]), y.expand(-1, 3) | y = t.arange(6).view(2, 3)
    y.reshape(3, -1), y.reshape((6,)), y.repeat(2, 1), y.repeat((1, 2)), y.tile(2), y.flip(0, 1), y.flip([0]) | y = t.arange(6).view(2, 3)
    y.squeeze(0, 1), y.squeeze(0), y.squeeze(), y.squeeze((0, 1)), y.unsqueeze(-1) | y = t.ones(1, 3, 1)
    t.zeros(2, 3), t.zeros((2, 3)), t.zeros([2]), t.zeros(()), t.zeros(size=(2,)), t.zeros(2, dtype=t.int8), t.zeros(np.int64(2), 3)
    t.zeros()
    t.zeros(2.0)
    t.zeros(-1)
    t.zeros(2, dtype=float), t.zeros(2, dtype=bool), t.zeros(2, dtype=int)
    t.zeros(2, dtype='float32')
    t.zeros(2, dtype=np.float32)
    t.zeros(2, device='cpu').device, t.zeros(2, device=t.device('cpu')).device, t.zeros(2, layout=t.strided).layout
    t.zeros(2, device='foo')
    t.zeros(2, device=1.5)
    t.ones(2, 2), t.empty(2, 0).shape, t.full((2,), 1), t.full((2,), True), t.full((2,), 1.5), t.full((2,), 1, dtype=t.float16), t.eye(2), t.eye(2, 3)
    t.arange(3), t.arange(3.), t.arange(0, 3, 0.5), t.arange(1, 4), t.arange(np.int64(3)), t.arange(3, dtype=t.float64), t.arange(5, 0, -2), t.linspace(0, 1, 3)
    y.sum(), y.sum(0), y.sum((0, 1)), y.sum([0]), y.sum(dim=0, keepdim=True), y.sum(axis=0), y.sum(0, keepdims=True), t.sum(y, axis=1), y.sum(dtype=t.float64) | y = t.ones(2, 3)
    y.sum(2) | y = t.ones(2, 3)
    y.sum('a') | y = t.ones(2, 3)
    t.add(f, f), t.add(f, 2), t.add(2, f), t.add(f, f, alpha=2), t.add(input=f, other=f), f.add(f, alpha=3) | f = t.ones(2)
    t.add(1, 2)
    t.sin(x=f), t.add(f, x2=f), t.add(x1=f, x2=f), t.abs(a=f) | f = t.ones(2)
    t.add()
    t.add(f) | f = t.ones(2)
    t.add(f, f, f, f) | f = t.ones(2)
    t.add(f, f, foo=1) | f = t.ones(2)
    t.add(f, 'a') | f = t.ones(2)
    t.add(f, {}) | f = t.ones(2)
    t.add(f, np.ones(2)) | f = t.ones(2)
    t.add(f, f, out=o), o | f = t.ones(2); o = t.empty(2)
    t.add(f, f, out=o) is o | f = t.ones(2); o = t.empty(2)
    t.add(f, f, out=None) | f = t.ones(2)
    list(t.max(y, 0)), t.max(y, 0).values, t.max(y, 0).indices, t.max(y), y.max(dim=1, keepdim=True)[0], y.max(1)[1] | y = t.tensor([[1., 5., 2.], [4., 3., 9.]])
    repr(t.max(y, 0)) | y = t.tensor([[1., 5., 2.], [4., 3., 9.]])
    list(t.max(y, 0, out=(v, i))), v, i | y = t.tensor([[1., 5., 2.], [4., 3., 9.]]); v = t.empty(0); i = t.empty(0, dtype=t.long)
    t.add(h, h, out=t.empty(0)), t.mul(h, h, out=t.empty(0)), t.div(h, 3, out=t.empty(0)) | h = t.arange(1, 9).to(t.float16) / 7
    t.mul(h, h, out=t.empty(0)), t.sub(h, 3, out=t.empty(0, dtype=t.float64)) | h = t.arange(1, 9).to(t.bfloat16) / 7
    t.mean(h, 0, out=t.empty(0)), t.nansum(h, 0, out=t.empty(0)), t.sum(h, 0, out=t.empty(0)) | h = t.arange(1, 9).to(t.float16) / 7
    t.mean(f, 0, out=t.empty(0, dtype=t.float64)), t.nansum(f, 0, out=t.empty(0, dtype=t.float64)) | f = t.arange(1., 9.) / 7
    t.mean(t.ones(3, dtype=t.int64), 0, out=t.empty(0))
    t.max(y, 0, out=(v,)) | y = t.ones(2, 2); v = t.empty(0)
    v, i | v, i = t.sort(t.tensor([3, 1, 2]))
    y.chunk(2), y.unbind(), y.split(1), y.split([1, 1]), t.split(y, 1, dim=1), t.split(y, [1, 2], 1) | y = t.arange(6).view(2, 3)
    type(y.chunk(2)).__name__, type(t.ops.aten.split.Tensor(y, 1)).__name__, type(t.ops.aten.max.dim(y, 0)).__name__ | y = t.ones(2, 3)
    t.where(f > 0, 1, 0), t.where(f > 0, 1., f), f.where(f > 0, 2), t.where(f > 0, f, 0) | f = t.tensor([1., -1.])
    t.cat([f, f]), t.cat((f, f), dim=0), t.cat([f, f], 0), t.stack([f, f], 1), t.cat(tensors=[f, f]) | f = t.ones(2)
    t.cat([]) | f = t.ones(2)
    t.cat((f, 1)) | f = t.ones(2)
    t.cat(f) | f = t.ones(2)
    f.to(t.float64), f.to('cpu'), f.to('cpu', t.float64), f.to(t.device('cpu'), t.int8), f.to(t.ones(1, dtype=t.int64)), f.to(dtype=t.float64, copy=True), f.to(device='cpu') | f = t.ones(2)
    f.to(t.float32) is f, f.to('cpu') is f, f.to() is f, f.to(t.float32, copy=True) is f, f.to(t.float32, False, True) is f, f.float() is f, f.cpu() is f | f = t.ones(2)
    f.to(t.float64, t.float32) | f = t.ones(2)
    f.to('float64') | f = t.ones(2)
    f.to(foo=1) | f = t.ones(2)
    f.to(memory_format=t.channels_last).stride(), f.contiguous(memory_format=t.channels_last).stride() | f = t.ones(2, 3, 4, 5)
    f.float(), f.double(), f.half(), f.bfloat16(), f.long(), f.int(), f.short(), f.char(), f.byte(), f.bool(), f.cfloat(), f.cdouble() | f = t.tensor([0., 1.5, 2.])
    f.type(), f.type(t.float64), f.type('torch.DoubleTensor'), t.ones(1, dtype=t.bool).type(), f.type_as(t.ones(1, dtype=t.int8)) | f = t.ones(2)
    f.type('foo') | f = t.ones(2)
    f.new_zeros(2, 3), f.new_zeros((2,)), f.new_full((2,), 3), f.new_ones(2, dtype=t.int8), f.new_empty(2, 3).shape | f = t.ones(2, dtype=t.float64)
    t.meshgrid(f, f, indexing='ij'), t.broadcast_tensors(f, t.ones(2, 1)), t.broadcast_shapes((2, 1), (3,), 1), t.atleast_2d(f), t.atleast_1d(f, t.tensor(1.)) | f = t.tensor([1., 2.])
    t.broadcast_shapes((2,), (3,))
    t.nonzero(t.tensor([[1, 0], [0, 2]])), t.tensor([[1, 0], [0, 2]]).nonzero(as_tuple=True), t.where(t.tensor([1, 0, 3]) > 0)
    t.norm(f), f.norm(1), f.norm(dim=0), f.norm(p=2, dim=0, keepdim=True), t.norm(f, inf) | f = t.tensor([3., 4.])
    t.view_as_real(t.stft(f, 4, 2, window=t.ones(4), return_complex=True)), f.stft(4, return_complex=True).shape, f.stft(4, center=False, return_complex=True).shape | f = t.arange(9.)
    t.tensordot(f, f, dims=1), t.tensordot(t.ones(2, 3), t.ones(3, 2), dims=([1], [0])) | f = t.tensor([3., 4.])
    t.equal(f, f), f.equal(f + 1) | f = t.tensor([3., 4.])
    f.clamp(0.5), f.clamp(min=0.5), f.clamp(max=np.float32(0.5)), f.clamp(0, 1) | f = t.tensor([0., 4.])
    y.transpose(0, 2) | y = t.ones(2, 3)
    y.transpose(0, 1), t.transpose(y, 0, 1), y.t() | y = t.arange(6).view(2, 3)
    f.add(t.ones(3)) | f = t.ones(2)
    f.expand(3, 2).add_(1) | f = t.ones(2)
    f.sin_() is f, f.zero_() is f, f.fill_(2) is f, f | f = t.ones(2)
    t.Tensor.add(f, 1), t.Tensor.sum(f) | f = t.ones(2)
    t.Tensor.add(1, 2)
    t.linalg.vector_norm(f), t.special.expit(f) | f = t.tensor([3., 4.])
""")


@pytest.mark.parametrize("line", FORMS)
def test_call_forms(oracle, line):
    agree(oracle, line)


OPS = lines("""
    t.ops.aten.add.Tensor(f, 1), t.ops.aten.add(f, 1), t.ops.aten.add.Tensor(f, f, alpha=2), t.ops.aten.relu.default(f), t.ops.aten.relu(f) | f = t.ones(2)
    str(t.ops.aten.add.Tensor), str(t.ops.aten.add), t.ops.aten.add.Tensor.name(), t.ops.aten.relu.default.name(), repr(t.ops.aten.add.Tensor)
    str(t.ops.aten.add.Tensor._schema), t.ops.aten.add.Tensor.namespace, t.ops.aten.relu.default.__name__
    t.ops.aten.add.Tensor is t.ops.aten.add.Tensor, t.ops.aten.add.Tensor.overloadpacket is t.ops.aten.add
    t.ops.aten.foo
    t.ops.aten.add.foo
    t.ops.aten.add.Tensor(f) | f = t.ones(2)
    t.ops.aten.add.Tensor(f, 1, 2) | f = t.ones(2)
    t.ops.aten.add.Tensor(f, 1, foo=2) | f = t.ones(2)
    t.ops.aten.add.Tensor('a', 1)
    t.ops.aten.view.default(y, 3, 2) | y = t.ones(2, 3)
    t.ops.aten.zeros.default([2], dtype=t.float64), t.ops.aten.view.default(t.ones(2, 3), [3, 2]).shape
    t.ops.aten.max.dim(y, 0) | y = t.ones(2, 3)
    t.ops.aten.add.out(f, f, out=o) is o | f = t.ones(2); o = t.empty(2)
    t.ops.aten.add_.Tensor(f, 1) is f | f = t.ones(2)
""")


@pytest.mark.parametrize("line", OPS)
def test_ops_namespace(oracle, line):
    agree(oracle, line)


RANDOM = lines("""
    t.rand(3), t.rand(2, 2, dtype=t.float64), t.randint(0, 10, (5,)), t.randint(10, (3,)), t.randperm(5) | t.manual_seed(7)
    t.initial_seed() | t.manual_seed(2**64 - 1)
    t.initial_seed() | t.manual_seed(-1)
    t.manual_seed(2**64)
    g.initial_seed(), g.manual_seed(3) is g, g.initial_seed(), g.device | g = t.Generator()
    t.rand(3, generator=g), t.rand(3, generator=g) | g = t.Generator().manual_seed(5)
    a, t.rand(2) | t.manual_seed(1); s = t.get_rng_state(); a = t.rand(2); t.set_rng_state(s)
    t.get_rng_state().shape, t.get_rng_state().dtype, (t.get_rng_state() == t.default_generator.get_state()).all()
    t.rand(2, generator=h) | g = t.Generator().manual_seed(9); t.rand(3, generator=g); h = t.Generator(); h.set_state(g.get_state())
    t.set_rng_state(t.zeros(3, dtype=t.uint8))
    t.Generator().set_state(t.zeros(3))
    t.rand(2, generator=1)
    t.empty(2).uniform_(1, 2), t.zeros(3).bernoulli_(0.5) | t.manual_seed(3)
""")


@pytest.mark.parametrize("line", RANDOM)
def test_random(oracle, line):
    agree(oracle, line)


def test_seed_gives_its_seed():
    seed = cresset.seed()
    assert cresset.initial_seed() == seed
    first = cresset.rand(3)
    cresset.manual_seed(seed)
    assert cresset.equal(cresset.rand(3), first)
    generator = cresset.Generator()
    assert generator.seed() == generator.initial_seed()


def test_one_object_per_tensor():
    x = cresset.ones(2)
    assert x.add_(1) is x and x.contiguous() is x and x.to(cresset.float32) is x
    view = x[:1]
    assert view._base is x
    assert len({x: 1, view: 2}) == 2 and {x: 1}[x] == 1


def test_objects_die_with_their_last_reference():
    x = cresset.ones(2)
    x.note = [x]  # a cycle through the tensor's own attributes
    ref = weakref.ref(x)
    del x
    gc.collect()
    assert ref() is None


def test_subclasses():
    class Marked(cresset.Tensor):
        pass
    x = cresset.Tensor._make_subclass(Marked, cresset.ones(2), True)
    assert type(x) is Marked and x.requires_grad and isinstance(x, cresset.Tensor)
    assert (x + 1).tolist() == [2, 2] and type(Marked([1., 2.])) is Marked


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_pickle_and_copy(protocol):
    x = cresset.arange(12.).view(3, 4).T[1:]
    for y in (pickle.loads(pickle.dumps(x, protocol)), copy.deepcopy(x)):
        assert y is not x and cresset.equal(x, y) and y.data_ptr() != x.data_ptr()
        assert y.stride() == x.stride() and y.dtype is x.dtype
    values = (cresset.float16, cresset.device("cuda:1"), cresset.Size([1, 2]), cresset.channels_last, cresset.strided,
              cresset.ops.aten.add.Tensor, cresset.add)
    again = pickle.loads(pickle.dumps(values, protocol))
    assert [repr(a) for a in again] == [repr(v) for v in values]
    assert (again[0] is values[0] and again[3] is values[3] and again[5] is values[5]
            and copy.deepcopy(values[0]) is values[0])


def test_deepcopy_keeps_shared_memory_shared():
    x = cresset.zeros(4)
    a, b = copy.deepcopy([x, x[1:]])
    a[2] = 5
    assert b.tolist() == [0, 5, 0] and x.tolist() == [0, 0, 0, 0]
    a, b = pickle.loads(pickle.dumps([x, x[1:]]))
    a[2] = 5
    assert b.tolist() == [0, 5, 0]
    assert b.untyped_storage().data_ptr() == a.untyped_storage().data_ptr() != x.untyped_storage().data_ptr()
    same, again = copy.deepcopy([x, x])
    assert same is again
    assert copy.copy(x).data_ptr() == x.data_ptr()


def test_storage():
    x = cresset.ones(2, 3)
    storage = x.untyped_storage()
    assert (storage.nbytes() == len(storage) == 24 and storage is x[1].untyped_storage()
            and storage.data_ptr() == x.data_ptr())
    storage.resize_(48)
    assert storage.nbytes() == 48 and x.tolist() == [[1, 1, 1]] * 2
    ref = weakref.ref(storage)
    del storage
    assert ref() is None and x.untyped_storage().nbytes() == 48
    with pytest.raises(RuntimeError):
        x.untyped_storage().resize_(0)  # x would end outside of it


def test_grad_mode():
    assert cresset.is_grad_enabled()
    with cresset.no_grad():
        assert not cresset.is_grad_enabled()
        with cresset.enable_grad():
            assert cresset.is_grad_enabled()
        with cresset.set_grad_enabled(True):
            assert cresset.is_grad_enabled()
        assert not cresset.is_grad_enabled()
    assert cresset.is_grad_enabled()
    mode = lambda: cresset.is_grad_enabled()
    assert not cresset.no_grad()(mode)() and not cresset.no_grad(mode)() and not cresset.set_grad_enabled(False)(mode)()
    assert cresset.is_grad_enabled()
    with cresset.inference_mode():
        assert cresset.is_inference_mode_enabled() and not cresset.is_grad_enabled()
    assert not cresset.is_inference_mode_enabled() and cresset.is_grad_enabled()
    cresset.set_grad_enabled(False)
    assert not cresset.is_grad_enabled()
    cresset.set_grad_enabled(True)
    seen = []
    with cresset.no_grad():
        thread = threading.Thread(target=lambda: seen.append(cresset.is_grad_enabled()))
        thread.start()
        thread.join()
    assert seen == [True]  # the flag is each thread's own


def test_threads_run_big_ops_side_by_side():
    x = cresset.ones(300, 300)
    results = []
    work = lambda: results.extend(float((x + i).sum()) for i in range(20))
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == sorted(90000. * (1 + i) for i in range(20) for _ in range(4))


def test_lists_may_change_while_an_op_runs():
    parts = [cresset.ones(200000) for _ in range(4)]
    done = threading.Event()

    def churn():
        while not done.is_set():
            parts[:] = [cresset.ones(200000) for _ in range(4)]
    thread = threading.Thread(target=churn)
    thread.start()
    try:
        for _ in range(20):
            assert float(cresset.cat(parts).sum()) == 800000
    finally:
        done.set()
        thread.join()


def test_import_is_light():
    """Neither NumPy nor torch is loaded, and the op table is not built."""
    code = ("import sys, cresset; loaded = [m for m in ('numpy', 'torch', 'importlib.metadata', 'inspect', 're') if m "
            "in sys.modules]; assert not loaded, loaded; x = cresset.tensor([[1.5, 2.]]); print(x, (x + 1).tolist()); "
            "assert 'numpy' not in sys.modules")
    out = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True)
    assert out.returncode == 0 and out.stdout == "tensor([[1.5000, 2.0000]]) [[2.5, 3.0]]\n", out.stderr


def test_the_table_is_shown():
    names = cresset._C._op_names()
    assert "aten::add.Tensor" in names and len(set(names)) == len(names)
    row = cresset._C._row("aten::add.Tensor")
    assert (row["schema"] == cresset._C._schema("aten::add.Tensor") and "pointwise" in row["tags"]
            and row["variant"] == "functional")
    assert cresset._C._row("aten::add_.Tensor")["derived"]
    assert cresset.float32 in cresset._C._accepts("aten::add.Tensor")
    parameters, results = cresset._C._signature("aten::add.Tensor")
    assert [p["name"] for p in parameters] == ["self", "other",
                                               "alpha"] and parameters[2]["default"] == "1" and len(results) == 1
    with pytest.raises(KeyError):
        cresset._C._row("aten::no_such_op")
    assert "add" in dir(cresset) and "add" in dir(cresset.Tensor) and "add" in dir(cresset.ops.aten)


def test_stubs_and_docs_follow_the_table(tmp_path):
    for what, expected in (("stubs", "def add(self, other: Tensor, *, alpha: Number = 1) -> Tensor: ..."),
                           ("docs", "`aten::add.Tensor(Tensor self, Tensor other")):
        path = tmp_path / what
        out = subprocess.run([sys.executable, "-m", "cresset._gen", what, str(path)], capture_output=True, text=True)
        assert out.returncode == 0, out.stderr
        text = path.read_text()
        assert expected in text
        if what == "stubs":
            compile(text, "stubs", "exec")


def test_constructor_of_old_takes_arrays():
    for array in (np.linspace(0, 1, 3), np.array([True, False]), np.zeros((0, 2)), np.arange(6).reshape(2, 3).T):
        made = cresset.Tensor(array)
        assert made.dtype is cresset.float32 and made.shape == array.shape and (made.numpy() == array).all()
    assert cresset.Tensor(np.int64(2), 3).shape == (2, 3)
