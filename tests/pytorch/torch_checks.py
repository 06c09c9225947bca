"""What tests of PyTorch programs share: comparing results, gradients and shared memory; changes of a model between
calls, some of which leave no trace."""
import torch

TOLERANCE = {torch.float16: 4e-3, torch.bfloat16: 3e-2, torch.float64: 1e-8, torch.complex128: 1e-8}


def leaves(value):
    return torch.utils._pytree.tree_leaves(value)


def assert_same(ours, theirs):
    ours, theirs = leaves(ours), leaves(theirs)
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs):
        assert type(a) is type(b)
        if not isinstance(b, torch.Tensor):
            assert a == b
            continue
        assert (a.dtype, a.shape, a.requires_grad) == (b.dtype, b.shape, b.requires_grad)
        assert a.stride() == b.stride() or not a.numel()
        if not b.dtype.is_floating_point and not b.dtype.is_complex:
            assert torch.equal(a, b)
            continue
        limit = TOLERANCE.get(b.dtype, 1e-4)
        a, b = a.detach(), b.detach()
        assert torch.equal(a.isnan(), b.isnan()) and torch.equal(a.isinf(), b.isinf())
        rest = ~(b.isnan() | b.isinf())
        if rest.any():
            a, b = a[rest], b[rest]
            assert (a - b).abs().max() <= limit * max(b.abs().max().item(), 1e-6)


def sharing(args, results):
    """Which tensors of a call share memory, by number."""
    tensors = [t for t in leaves(args) + leaves(results) if isinstance(t, torch.Tensor) and t.numel()]
    places = [t.untyped_storage().data_ptr() for t in tensors]
    return [places.index(p) for p in places]


def clones(args):
    return tuple(a.detach().clone() if isinstance(a, torch.Tensor) else a for a in args)


def backward(function, args):
    results = [r for r in leaves(function(*args)) if isinstance(r, torch.Tensor) and r.requires_grad]
    weights = [torch.arange(r.numel(), dtype=torch.float32).reshape(r.shape) + 1 for r in results]
    sum((r * w).sum().abs() for r, w in zip(results, weights)).backward()
    return [a.grad for a in args if isinstance(a, torch.Tensor)], results


def with_grad(args):
    return [a.detach().clone().requires_grad_(a.dtype.is_floating_point or a.dtype.is_complex) for a in args]


# ---- changes of a model between two calls ----

def change_data(p):
    p.data = torch.randn_like(p)


def change_strides(p):
    p.data = p.data.t().contiguous().t()


def swap(p):
    torch.utils.swap_tensors(p, torch.nn.Parameter(torch.randn_like(p)))


def resize_storage(p):
    p.untyped_storage().resize_(p.untyped_storage().nbytes() * 2)


def write_numpy(p):
    p.detach().numpy()[0, 0] = 17


def load(p):
    with torch.no_grad():
        p.copy_(torch.randn_like(p))


def freeze(p):
    p.requires_grad_(False)


def reset(p):
    with torch.no_grad():
        p.set_(torch.randn(3, 4))


def transpose_twice(p):
    with torch.no_grad():
        p.t_()
        p.t_()


def vector(p):
    torch.nn.utils.vector_to_parameters(torch.randn(p.numel()), [p])


CHANGES = {
    "data": change_data, "data.t()": change_strides, "swap_tensors": swap, "resize storage": resize_storage,
    "share_memory_": lambda p: p.data.share_memory_(), "numpy": write_numpy, "copy_": load, "requires_grad_": freeze,
    "set_": reset, "t_": transpose_twice, "data.add_": lambda p: p.data.add_(1), "vector_to_parameters": vector,
    "half and back": None, "double": None, "load_state_dict": None,
}


def apply(name, model):
    if name == "half and back":
        model.half().float()
    elif name == "double":
        model.double()
    elif name == "load_state_dict":
        model.load_state_dict({k: torch.randn_like(v) for k, v in model.state_dict().items()})
    else:
        CHANGES[name](model.weight)
