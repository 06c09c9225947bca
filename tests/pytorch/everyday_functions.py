"""What functions of tensors do beside models: odd sizes and layouts, inputs that share memory, writes, random numbers,
modes, transforms of functions."""

import collections

import torch
import torch.nn.functional as F
from everyday import calls, leaf, program
from torch import nn

# ---- sizes and layouts ----


@program
def every_batch_size(c):
    model = nn.Sequential(nn.Linear(4, 3), nn.LayerNorm(3), nn.ReLU(), nn.Linear(3, 2))
    yield from calls(c, model, lambda n: leaf(n, 4), sizes=(4, 0, 1, 2, 7, 0, 1, 9))


@program
def every_picture_size(c):
    model = nn.Sequential(
        nn.Conv2d(2, 3, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 2)
    )
    yield from calls(c, model, lambda n: leaf(2, 2, n, n + 1), sizes=(4, 1, 5, 8))


@program
def empty_reductions(c):
    yield from calls(
        c,
        lambda x: (x.sum(), x.sum(0), x.prod(1), x.mean(), torch.cat([x, x]), x.reshape(-1, 4)),
        lambda n: leaf(n, 4),
        sizes=(0, 3, 0, 1),
    )


@program
def zero_dimensional(c):
    yield from calls(
        c,
        lambda x, y: (x * y, x.unsqueeze(0), torch.stack([x, y]), x.expand(3), x.view(1, 1)),
        lambda n: (leaf(()), torch.tensor(float(n))),
    )


@program
def not_contiguous(c):
    yield from calls(
        c,
        lambda x, y: (x + y, x.contiguous().view(-1), x.flatten(), x @ y.t(), x.clone()),
        lambda n: (leaf(4, n).t(), torch.randn(n, 8)[:, ::2]),
    )


@program
def expanded(c):
    yield from calls(c, lambda x: (x * 2, x.sum(0), x.contiguous()), lambda n: leaf(1, 4).expand(n, 4))


@program
def negative_strides_by_flip(c):
    yield from calls(
        c, lambda x: (x.flip(0)[::2], x[..., -1], x[-1], x[1:-1], x[None, :, ::2]), lambda n: leaf(n + 2, 4)
    )


@program
def einops_like(c):
    def f(x, h):
        b, n, (head, d) = *x.shape[:2], (h, x.shape[-1] // h)
        q = x.reshape(b, n, head, d).permute(0, 2, 1, 3)
        k = x.unflatten(-1, (head, d)).movedim(2, 1)
        y = torch.einsum("b h i d, b h j d -> b h i j", q, k).softmax(-1)
        return torch.einsum("bhij,bhjd->bhid", y, k).transpose(1, 2).flatten(2)

    yield from calls(c, f, lambda n: (leaf(2, n, 8), 2 if n < 5 else 4))


@program
def pixel_reshapes(c):
    yield from calls(
        c,
        lambda x: (
            x.view(x.size(0), -1, 2, 2).permute(0, 2, 3, 1).reshape(-1, x.size(1)),
            x.chunk(3, 1),
            x.unfold(1, 2, 1),
            x.swapaxes(0, 1),
        ),
        lambda n: leaf(n, 4),
    )


@program
def indexing_kinds(c):
    def f(x, i):
        return (
            x[i],
            x[:, i % 4],
            x[i, i % 4],
            x[..., None],
            x[[0, 1]],
            x[torch.tensor([0, 1])],
            x[0, 1:3],
            x[i][:, [1]],
            x.take_along_dim(i[:, None], 0),
        )

    yield from calls(c, f, lambda n: (leaf(n, 4), torch.arange(n).flip(0)))


@program
def boolean_mask(c):
    yield from calls(c, lambda x: x[x > 0].sum() + x.masked_select(x < 0).mean(), lambda n: leaf(n, 4))


@program
def writing_by_mask(c):
    def f(x, y):
        z = x.clone()
        z[y > 0] = 0
        z[:, 0] *= 2
        z[..., 1:3] += y[:, :2]
        z[0] = y[0]
        return z

    yield from calls(c, f, lambda n: (leaf(n, 4), torch.randn(n, 4)))


# ---- sharing and writing ----


@program
def input_given_back(c):
    yield from calls(
        c, lambda x, y: (x, [y, x], {"v": x.view(-1), "d": x.detach()}), lambda n: (leaf(n, 4), torch.randn(n))
    )


@program
def views_given_back(c):
    yield from calls(
        c,
        lambda x: (x[0], x.t(), x.split(1), x.unbind(1), x.expand(2, -1, -1), x.view(-1, 2), x.real),
        lambda n: torch.randn(n, 4),
    )


@program
def one_tensor_twice(c):
    g = c(lambda x, y: (x * y, x is y, x.add(y)))
    for n in (3, 3, 4):
        x, y = leaf(n), leaf(n)
        yield g(x, y), g(x, x), g(y, y), g(y, x)


@program
def writes_to_inputs(c):
    def f(x, y):
        x.add_(y)
        y.mul_(2).clamp_(max=1)
        x[0].zero_()
        return x.sum() + y.sum()

    yield from calls(c, f, lambda n: (torch.randn(n, 4), torch.randn(n, 4)))


@program
def writes_to_inputs_that_share(c):
    g = c(lambda x, y: (x.add_(1), y * 2)[1])
    for n in (3, 3, 4):
        x = torch.randn(n, 4)
        yield g(x, x[0]), x, g(x, x), x, g(x[1:], x[:-1]), x, g(x.view(-1), x), x


@program
def relu_in_place(c):
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True), nn.Linear(4, 4), nn.Hardtanh(-1, 1, inplace=True))
    yield from calls(c, model, lambda n: leaf(n, 4))


@program
def out_arguments(c):
    def f(x):
        out = torch.empty(x.shape[0], 4)
        torch.mul(x, 2, out=out)
        torch.add(out, 1, out=out)
        return out

    yield from calls(c, f, lambda n: torch.randn(n, 4), grads=(False,))


@program(breaks=1)
def out_argument_from_outside(c):
    g = c(lambda x, out: torch.matmul(x, x.t(), out=out))
    for n in (3, 3, 4):
        out = torch.empty(n, n)
        yield g(torch.randn(n, 2), out), out


@program
def running_buffers(c):
    class Running(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mean", torch.zeros(4))
            self.register_buffer("seen", torch.tensor(0))
            self.history = collections.deque(maxlen=2)

        def forward(self, x):
            self.mean.lerp_(x.detach().mean(0), 0.1)
            self.seen += x.shape[0]
            return x - self.mean

    yield from calls(c, Running(), lambda n: leaf(n, 4))


@program(breaks=3)
def data_attribute(c):
    w = nn.Parameter(torch.ones(4))

    def f(x):
        w.data.mul_(0.9)
        w.data[0] = x.data.mean()
        return (x * w.data).sum() + (x.data * w).sum()

    yield from calls(c, f, lambda n: leaf(n, 4))


@program(breaks=5)
def requires_grad_inside(c):
    def f(x):
        y = x.detach().clone().requires_grad_(True)
        z = (y * 2).sin()
        return z, y.requires_grad, z.requires_grad, y.is_leaf

    yield from calls(c, f, lambda n: leaf(n))


@program(breaks=5)
def questions_about_tensors(c):
    def f(x):
        return (
            x.shape,
            x.size(0),
            x.dim(),
            x.ndim,
            x.numel(),
            x.dtype,
            x.device,
            x.layout,
            x.is_contiguous(),
            x.stride(),
            len(x),
            x.is_floating_point(),
            x.requires_grad,
            x.element_size(),
            x.nelement(),
            isinstance(x, torch.Tensor),
            torch.is_tensor(x),
            x.is_cuda,
            x.itemsize,
            x.nbytes,
            x.storage_offset(),
            x.type(),
            x.get_device(),
            x.is_sparse,
            x.names,
        )

    yield from calls(c, f, lambda n: leaf(n, 4))


@program
def dtypes_and_devices(c):
    def f(x):
        y = x.to(torch.float64).to("cpu").to(x.device, non_blocking=True).type_as(x).cpu()
        z = (
            torch.zeros(3, device=x.device, dtype=x.dtype)
            + torch.finfo(x.dtype).eps
            + torch.full_like(x, torch.iinfo(torch.int8).max)
        )
        return (
            y,
            z,
            x.new_tensor([1.0, 2.0]),
            x.new_full((2,), 3.0),
            torch.promote_types(x.dtype, torch.int32),
            x.half().dtype.itemsize,
        )

    yield from calls(c, f, lambda n: leaf(n, 3))


@program(breaks=3)
def leaves_made_inside(c):
    def f(x):
        a, b = torch.zeros(3, requires_grad=True), x.new_ones(3, requires_grad=True)
        d = torch.tensor([1.0], requires_grad=False) + torch.full_like(x, 2.0, requires_grad=True)
        return a, b, a * b, d

    yield from calls(c, f, lambda n: leaf(3))


@program(breaks=1)
def sparse_gather(c):
    def f(x, i):
        return x.gather(1, i, sparse_grad=True)

    yield from calls(c, f, lambda n: (leaf(n, 4), torch.zeros(n, 2, dtype=torch.long)))


# ---- random numbers ----


@program
def random_functions(c):
    def f(x):
        return (
            torch.rand(3),
            torch.randn(2, 2),
            torch.rand_like(x),
            torch.randn_like(x),
            torch.randint(0, 5, (3,)),
            torch.randperm(5),
            torch.normal(0.0, 1.0, (3,)),
            torch.bernoulli(x.sigmoid()),
            x.clone().uniform_(),
            x.clone().normal_(1, 2),
            x.clone().bernoulli_(0.3),
            x.clone().exponential_(),
            torch.empty(3).uniform_(-1, 1),
            torch.randint_like(x, 3),
        )

    yield from calls(c, f, lambda n: torch.randn(n, 4))


@program
def normal_with_tensors(c):
    yield from calls(
        c,
        lambda m, s: (torch.normal(m, s), torch.normal(m, 2.0), torch.normal(1.0, s)),
        lambda n: (torch.randn(n, 8), torch.rand(n, 8)),
    )


@program
def gumbel_softmax(c):
    yield from calls(c, lambda x: (F.gumbel_softmax(x, tau=0.5), F.gumbel_softmax(x, hard=True)), lambda n: leaf(n, 4))


@program
def sampling(c):
    yield from calls(
        c,
        lambda x: (
            torch.multinomial(x.softmax(-1), 2),
            torch.poisson(x.exp()),
            x.softmax(-1).multinomial(3, replacement=True),
        ),
        lambda n: torch.randn(n, 4),
    )


@program(breaks=1)
def explicit_generator(c):
    g = torch.Generator().manual_seed(3)
    f = c(lambda n: torch.rand(n, generator=g) + torch.randn(n, generator=g))
    for n in (3, 3, 4):
        yield f(n), g.get_state()


@program(breaks=12)
def seeding_inside(c):
    def f(x):
        torch.manual_seed(7)
        a = torch.rand_like(x)
        with torch.random.fork_rng():
            torch.manual_seed(1)
            b = torch.rand_like(x)
        return a, b, torch.rand_like(x)

    yield from calls(c, f, lambda n: torch.randn(n))


@program
def dropout_kinds(c):
    def f(x):
        return (
            F.dropout(x, 0.4),
            F.dropout2d(x[None], 0.4),
            F.alpha_dropout(x, 0.2, training=True),
            F.feature_alpha_dropout(x[None], 0.2, training=True),
            F.dropout1d(x, 0.5),
        )

    yield from calls(c, f, lambda n: leaf(n, 4, 3))


# ---- modes ----


@program
def inference_mode_around(c):
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)).eval()
    yield from calls(c, model, lambda n: torch.randn(n, 4), mode=torch.inference_mode)


@program(breaks=3)
def inference_mode_inside(c):
    model = nn.Linear(4, 4)

    @torch.inference_mode()
    def f(x):
        return model(x)

    g = c(f)
    for n in (3, 3, 4):
        y = g(torch.randn(n, 4))
        yield y, y.is_inference()


@program
def no_grad_decorated(c):
    lin = nn.Linear(4, 4)

    @torch.no_grad()
    def part(x):
        return lin(x)

    class Teacher(nn.Module):
        @torch.no_grad()
        def forward(self, x):
            return part(x) * 2

    teacher = Teacher()
    yield from calls(c, lambda x: part(x) + x + teacher(x), lambda n: leaf(n, 4))


@program
def gradient_switches(c):
    def f(x):
        with torch.no_grad():
            a = x * 2
            with torch.enable_grad():
                b = x * 3
        with torch.set_grad_enabled(x.shape[0] > 3):
            d = x * 4
        return a, b, d, torch.is_grad_enabled()

    yield from calls(c, f, lambda n: leaf(n), grads=(True,))


@program
def nested_torch_compile(c):
    inner = torch.compile(lambda x: x.sin() + 1, backend="eager")
    yield from calls(c, lambda x: x.cos() * 2 + x.sum(), lambda n: leaf(n))
    yield inner(torch.ones(2))


@program
def nested_compile(c):
    inner = c(lambda x: x.sin() + 1)
    yield from calls(c, lambda x: inner(x) * 2, lambda n: leaf(n))


# ---- transforms of functions ----


@program
def func_grad(c):
    yield from calls(
        c,
        lambda x, w: torch.func.grad(lambda w: (x @ w).tanh().sum())(w),
        lambda n: (torch.randn(n, 4), torch.randn(4, 2)),
    )


@program
def func_grad_of_recorded(c):
    yield from calls(
        c, lambda x, w: torch.func.grad(lambda w: (x @ w).tanh().sum())(w), lambda n: (leaf(n, 4), leaf(4, 2))
    )


@program
def func_vmap(c):
    yield from calls(
        c,
        lambda x, y: torch.func.vmap(torch.dot)(x, y) + torch.vmap(lambda a: a.sin().sum(), in_dims=1)(x[:, :1]),
        lambda n: (leaf(n, 4), leaf(n, 4)),
    )


@program
def func_grad_and_value(c):
    def f(w, x):
        g, (v, aux) = torch.func.grad_and_value(lambda w: ((x @ w).sin().mean(), x.sum()), has_aux=True)(w)
        return g, v, aux

    yield from calls(c, f, lambda n: (torch.randn(4, 2), torch.randn(n, 4)))


@program
def func_jacobians(c):
    def f(x):
        return (
            torch.func.jacrev(torch.sin)(x),
            torch.func.jacfwd(torch.cos)(x),
            torch.func.hessian(lambda t: t.pow(3).sum())(x),
        )

    yield from calls(c, f, lambda n: torch.randn(n))


@program
def func_vjp_jvp(c):
    def f(x, t):
        out, back = torch.func.vjp(torch.sin, x)
        return out, back(t), torch.func.jvp(torch.exp, (x,), (t,))

    yield from calls(c, f, lambda n: (torch.randn(n), torch.randn(n)))


@program
def per_sample_gradients(c):
    model = nn.Linear(4, 2)
    p = {k: v.detach() for k, v in model.named_parameters()}

    def loss(p, x, t):
        return F.mse_loss(torch.func.functional_call(model, p, (x[None],)), t[None])

    yield from calls(
        c,
        lambda x, t: torch.func.vmap(torch.func.grad(loss), (None, 0, 0))(p, x, t),
        lambda n: (torch.randn(n, 4), torch.randn(n, 2)),
    )
