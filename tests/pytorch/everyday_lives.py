"""The lives of compiled modules: copies, pickles, reloads, changes between calls, odd layouts and sizes, threads,
exceptions in the middle, states of torch around calls."""

import asyncio
import concurrent.futures
import copy
import gc
import itertools
import pickle
import threading
import types
import weakref

import numpy as np
import torch
import torch.nn.functional as F
from everyday import calls, leaf, program
from torch import nn


def net():
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))


def grads(module):
    found = {n: None if p.grad is None else p.grad.clone() for n, p in module.named_parameters()}
    module.zero_grad()
    return found


def caught(f, *args, **kwargs):
    try:
        return f(*args, **kwargs)
    except Exception as e:
        return type(e).__name__, str(e).partition("\n")[0][:80]


@program
def dies_with_its_owner(c):
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    f = c(model)
    f(torch.randn(2, 3)).sum().backward()
    with torch.no_grad():
        f(torch.randn(2, 3))
    refs = weakref.ref(model), weakref.ref(model[0].weight), weakref.ref(model[1].running_mean)
    del model, f
    gc.collect()
    if getattr(c, "made", None):
        c.made.clear()
    gc.collect()
    yield [r() is None for r in refs]


@program
def arguments_are_let_go(c):
    model = net()
    f = c(model)
    x = torch.randn(2, 3)
    f(x).sum().backward()
    y = f(x)
    ref, ref2 = weakref.ref(x), weakref.ref(y)
    del x, y
    gc.collect()
    yield ref() is None, ref2() is None


@program
def no_cycles_are_left(c):
    model = net()
    f = c(model)
    for _ in range(3):
        f(torch.randn(2, 3)).sum().backward()
    gc.collect()
    gc.disable()
    try:
        out = f(torch.randn(2, 3))
        ref = weakref.ref(out)
        out.sum().backward()
        del out
        yield ref() is None
    finally:
        gc.enable()


@program
def copied_after_calls(c):
    model = net()
    f = c(model)
    f(torch.ones(2, 3))
    other = copy.deepcopy(f)
    with torch.no_grad():
        for p in other.parameters():
            p.add_(1)
    yield f(torch.ones(2, 3)), other(torch.ones(2, 3)), type(other) is type(f)


class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(3, 2), nn.Linear(2, 2)
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x):
        self.seen += 1
        return self.b(self.a(x).relu()) * self.seen


@program
def pickled_original(c):
    model = Plain()
    f = c(model)
    f(torch.ones(1, 3))
    other = pickle.loads(pickle.dumps(getattr(f, "_orig_mod", f)))
    g = c(other)
    yield f(torch.ones(1, 3)), g(torch.ones(1, 3)), other.seen


@program
def state_dicts_between_calls(c):
    model, other = net(), net()
    f = c(model)
    out = [f(torch.ones(1, 3))]
    model.load_state_dict(other.state_dict())
    out.append(f(torch.ones(1, 3)))
    model.load_state_dict(net().state_dict(), assign=True)
    out.append(f(torch.ones(1, 3)))
    out[-1].sum().backward()
    yield out, grads(model)
    yield caught(model.load_state_dict, {"0.weight": torch.ones(4, 3)})


@program(breaks=1)
def dtypes_changed(c):
    model = net()
    f = c(model)
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float32, torch.float16):
        model.to(dtype)
        out = f(torch.ones(2, 3, dtype=dtype))
        out.sum().backward()
        yield out, grads(model)
    yield caught(f, torch.ones(2, 3))


@program
def devices_as_texts(c):
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.device, self.l = "cpu", nn.Linear(3, 2)

        def forward(self, x):
            x = x.to(self.device)
            y = torch.zeros(x.shape[0], 2, device=self.device, dtype=x.dtype)
            z = torch.arange(2, device=torch.device(self.device))
            assert x.is_cpu and x.device.type == "cpu" and str(x.device) == "cpu" and x.device == torch.device("cpu")
            return self.l(x.to("cpu", non_blocking=True)) + y.cpu() + z, y.device

    model = M()
    yield from calls(
        c, model, lambda n: leaf(n, 3), step=lambda n: setattr(model, "device", torch.device("cpu") if n % 2 else "cpu")
    )


@program
def modules_added_and_replaced(c):
    model = nn.Sequential(nn.Linear(3, 3))
    f = c(model)
    for k in range(5):
        out = f(torch.ones(2, 3))
        out.sum().backward()
        yield out, grads(model)
        if k == 0:
            model.append(nn.Tanh())
        if k == 1:
            model.insert(1, nn.Linear(3, 3))
        if k == 2:
            model[0] = nn.Linear(3, 3, bias=False)
        if k == 3:
            del model[1]


@program
def attributes_of_modules_changed(c):
    model = nn.ModuleDict({"drop": nn.Dropout(0.5), "norm": nn.BatchNorm1d(3), "act": nn.LeakyReLU(0.1)})
    f = c(lambda x: model["act"](model["norm"](model["drop"](x))))
    for k in range(6):
        yield f(torch.ones(4, 3) + torch.arange(4)[:, None]), dict(model.named_buffers())
        if k == 0:
            model["drop"].p = 0.25
        if k == 1:
            model["norm"].momentum = 0.5
        if k == 2:
            model["act"].negative_slope = 0.3
        if k == 3:
            model["norm"].eval()
        if k == 4:
            model["norm"].track_running_stats = False


@program(breaks=2)
def batch_norm_modes(c):
    for options in (
        {"momentum": None},
        {"affine": False},
        {"track_running_stats": False},
        {"eps": 0.1, "momentum": 0.3},
    ):
        model = nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3, **options), nn.ReLU())
        f = c(model)
        for k in range(4):
            model.train(k != 2)
            out = f(torch.randn(2, 2, 5, 5))
            out.sum().backward()
            yield out, grads(model), dict(model.named_buffers()), [b._version for b in model.buffers()]


@program(breaks=2)
def one_sample_in_batch_norm(c):
    model = nn.BatchNorm1d(3)
    f = c(model)
    yield f(torch.randn(4, 3)), caught(f, torch.randn(1, 3)), dict(model.named_buffers())
    yield f(torch.randn(3, 3, 2)), caught(f, torch.randn(4)), dict(model.named_buffers())


@program(breaks=2)
def exceptions_in_the_middle(c):
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.l, self.calls, self.log = nn.Linear(3, 2), 0, []
            self.register_buffer("count", torch.zeros(2))

        def forward(self, x, fail=False):
            self.calls += 1
            self.log.append(x.shape[0])
            self.count += 1
            y = self.l(x)
            if fail:
                raise ValueError(f"call {self.calls} of {tuple(x.shape)}")
            self.count[0] = y.shape[0]
            return y

    model = M()
    f = c(model)
    for fail in (False, True, False, True, False):
        yield caught(f, torch.ones(2, 3), fail), model.calls, model.log, model.count


@program(breaks=7)
def shapes_that_do_not_fit(c):
    model = net()
    f = c(model)
    for x in (
        torch.ones(2, 3),
        torch.ones(2, 4),
        torch.ones(3),
        torch.ones(0, 3),
        torch.ones(2, 3, dtype=torch.int64),
        torch.ones(2, 2, 3),
    ):
        yield caught(f, x)
    yield caught(f), caught(f, 1), caught(f, torch.ones(2, 3), 2)


@program
def indices_out_of_range(c):
    table = nn.Embedding(4, 3)
    f = c(lambda i: table(i).sum(-1))
    for i in ([0, 3], [0, 4], [-1, 2], [1, 2]):
        out = caught(f, torch.tensor(i))
        yield out[0] if isinstance(out, tuple) else out


@program
def odd_batches(c):
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.norm, self.head = nn.Conv1d(2, 3, 3, padding=1), nn.GroupNorm(1, 3), nn.Linear(3, 2)

        def forward(self, x):
            x = self.norm(self.conv(x)).relu()
            return self.head(x.amax(-1)), x.mean(), x.std()

    yield from calls(c, M(), lambda n: leaf(n, 2, 5), sizes=(4, 0, 1, 2, 0, 1, 7))


@program
def layouts_of_arguments(c):
    model = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.AvgPool2d(2))
    f = c(model)
    base = torch.randn(2, 6, 6, 3)
    for x in (
        base.permute(0, 3, 1, 2),
        base.permute(0, 3, 1, 2).contiguous(),
        torch.randn(2, 3, 6, 6).to(memory_format=torch.channels_last),
        torch.randn(4, 3, 6, 6)[::2],
        torch.randn(2, 3, 12, 12)[:, :, ::2, 1::2],
        torch.randn(1, 3, 6, 6).expand(2, -1, -1, -1),
        torch.randn(2 * 3 * 36 + 5)[5:].view(2, 3, 6, 6),
        torch.randn(2, 3, 6, 6).transpose(2, 3),
    ):
        out = f(x)
        out.sum().backward()
        yield out, out.is_contiguous(memory_format=torch.channels_last), grads(model)


@program
def channels_last_model(c):
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3),
        nn.BatchNorm2d(4),
        nn.Hardswish(),
        nn.Conv2d(4, 4, 1),
        nn.Upsample(scale_factor=2, mode="bilinear"),
        nn.PixelShuffle(2),
    ).to(memory_format=torch.channels_last)
    yield from calls(
        c,
        model,
        lambda n: torch.randn(n, 3, 6, 6).to(memory_format=torch.channels_last).requires_grad_(),
        sizes=(2, 2, 3, 1),
    )


@program
def views_of_one_buffer(c):
    def f(a, b):
        return a * 2 + b.sum(), a[1:], b.t()

    base = torch.randn(20)
    g = c(f)
    for a, b in ((base[:6], base[6:18].view(3, 4)), (base[:6], base[:12].view(3, 4)), (base[2:8], base[8:].view(3, 4))):
        out = g(a, b)
        yield out, base, out[1].data_ptr() - base.data_ptr(), out[2]._base is base


@program
def writes_through_views(c):
    def f(x):
        rows = x.view(-1, 2)
        rows[0] = 7
        x[..., -1].mul_(3)
        x.t()[1] += 1
        d = x.diagonal()
        d.zero_()
        return rows.sum()

    g = c(f)
    for k in (2, 2, 4):
        x = torch.randn(k, 2) if k != 2 else torch.randn(2, 2)
        out = caught(g, x)
        yield out, x, x._version


@program
def advanced_writes(c):
    def f(x, i, j, m, v):
        x[i, j] = v
        x[m] += 1
        x.index_put_((i,), v[:, None].expand(-1, x.shape[1]), accumulate=True)
        x[:, [0, -1]] = x[:, [-1, 0]]
        x[..., None][0] = 5
        x.masked_fill_(x > 4, 4.0).clamp_(min=-1)
        x[1:, 0], x[:-1, 0] = x[:-1, 0].clone(), x[1:, 0].clone()
        return x * 2

    g = c(f)
    for n in (3, 3, 4):
        x = torch.randn(n, 3)
        yield (
            g(x, torch.tensor([0, 2, 0]), torch.tensor([1, 1, 2]), torch.rand(n, 3) > 0.5, torch.randn(3)),
            x,
            x._version,
        )


@program
def advanced_reads(c):
    def f(x, i, m):
        return (
            x[i],
            x[:, i],
            x[i, i],
            x[..., i, :],
            x[m],
            x[m[:, 0]],
            x[None, ::2, -1],
            x[i][:, m[0]],
            x[[0, 1], ..., None],
            x[i[:, None], i],
            x[torch.tensor(1)],
            x[1, i],
        )

    yield from calls(
        c,
        f,
        lambda n: (leaf(n, 4), torch.tensor([0, 1, 1, n - 1]).clamp(max=1), torch.ones(n, 4, dtype=torch.bool)),
        sizes=(2, 2, 3),
    )


@program
def threads_at_once(c):
    model = net()
    f = c(model)
    data = [torch.full((k % 3 + 1, 3), float(k)) for k in range(12)]

    def work(x):
        x = x.clone().requires_grad_()
        (g,) = torch.autograd.grad(f(x).sum(), x)
        with torch.no_grad():
            return f(x), g

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        yield list(pool.map(work, data))


@program
def served_by_asyncio(c):
    model = net().eval()
    f = c(model)

    async def handle(k):
        await asyncio.sleep(0)
        with torch.inference_mode():
            out = f(torch.full((1, 3), float(k)))
        await asyncio.sleep(0)
        return out.tolist()

    async def main():
        return await asyncio.gather(*(handle(k) for k in range(5)))

    yield [[round(v, 4) for v in row[0]] for row in asyncio.run(main())]


@program
def backward_on_another_thread(c):
    model = net()
    f = c(model)
    out = f(torch.ones(2, 3))
    t = threading.Thread(target=lambda: out.sum().backward())
    t.start()
    t.join()
    yield grads(model)


@program
def retained_and_in_parts(c):
    model = net()
    f = c(model)
    x = torch.ones(2, 3, requires_grad=True)
    out = f(x)
    out[0].sum().backward(retain_graph=True)
    out[1].sum().backward(retain_graph=True)
    (g,) = torch.autograd.grad(out.sum(), x)
    yield grads(model), x.grad, g, caught(lambda: out.sum().backward())[0]


@program
def weights_written_before_backward(c):
    model = net()
    f = c(model)
    out = f(torch.ones(2, 3))
    with torch.no_grad():
        model[2].weight.add_(1)
    yield caught(lambda: out.sum().backward())[:1]


@program
def two_outputs_one_used(c):
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(3, 2), nn.Linear(3, 2)

        def forward(self, x):
            return {
                "a": self.a(x),
                "b": self.b(x),
                "both": (self.a(x) + self.b(x)).detach(),
                "n": x.shape[0],
                "x": x,
                "none": None,
            }

    model = M()
    f = c(model)
    for name in ("a", "b", "a"):
        out = f(torch.ones(2, 3))
        out[name].sum().backward()
        yield out, grads(model)


@program
def inference_then_training(c):
    model = net()
    f = c(model)
    with torch.inference_mode():
        a = f(torch.ones(2, 3))
    yield a, a.is_inference()
    b = f(torch.ones(2, 3))
    b.sum().backward()
    yield b, b.is_inference(), grads(model)
    with torch.inference_mode():
        x = torch.ones(2, 3)
    yield caught(lambda: f(x).sum().backward())


@program
def rng_of_dropout(c):
    model = nn.Sequential(
        nn.Linear(3, 8),
        nn.Dropout(0.3),
        nn.AlphaDropout(0.2),
        nn.Linear(8, 8),
        nn.RReLU(),
        nn.Dropout1d(0.5),
        nn.FeatureAlphaDropout(0.1),
    )
    f = c(model)
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        out = f(torch.ones(2, 4, 3))
        out.sum().backward()
        yield out, grads(model), torch.rand(1)
    with torch.random.fork_rng():
        yield f(torch.ones(2, 4, 3))
    yield torch.rand(2)


@program(breaks=1)
def generators_of_their_own(c):
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.g = torch.Generator().manual_seed(3)

        def forward(self, x):
            return x + torch.randn(x.shape, generator=self.g), torch.rand(2), torch.randperm(4, generator=self.g)

    f = c(M())
    for n in (2, 2, 3):
        yield f(torch.ones(n))


@program(breaks=2)
def around_by_context(c):
    f = c(lambda x, w: (x @ w).relu())
    x, w = torch.randn(2, 3), torch.randn(3, 4, requires_grad=True)
    yield f(x, w)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        yield f(x, w)
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.float16):
        yield f(x, w)
    with torch.autograd.set_detect_anomaly(True):
        f(x, w).sum().backward()
    yield w.grad
    with torch.autograd.graph.save_on_cpu():
        f(x, w).sum().backward()
    yield w.grad
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.numpy(force=True), torch.from_numpy):
        f(x, w).sum().backward()
    yield w.grad
    with torch.device("cpu"):
        yield f(x, w)
    torch.set_default_dtype(torch.float64)
    try:
        yield f(x, w), c(lambda: torch.ones(2) * 1.5)()
    finally:
        torch.set_default_dtype(torch.float32)
    with torch.random.fork_rng(), torch.autograd.set_grad_enabled(False):
        yield f(x, w)
    with torch.autograd.profiler.profile():
        yield f(x, w)


@program(breaks=1)
def deterministic_algorithms(c):
    f = c(lambda x, i: torch.zeros(4).index_add(0, i, x).cumsum(0))
    torch.use_deterministic_algorithms(True)
    try:
        yield f(torch.randn(6), torch.randint(0, 4, (6,)))
    finally:
        torch.use_deterministic_algorithms(False)
    yield f(torch.randn(6), torch.randint(0, 4, (6,)))


@program
def module_properties_and_getattr(c):
    class Wrapper(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner
            self._gain = 1.0

        def __getattr__(self, name):
            try:
                return super().__getattr__(name)
            except AttributeError:
                return getattr(self.inner, name)

        @property
        def gain(self):
            return self._gain

        @gain.setter
        def gain(self, value):
            self._gain = value * 2

        def forward(self, x):
            self.gain = self.gain + 0.25
            return F.linear(x, self.weight * self.gain, self.bias), self.in_features

    model = Wrapper(nn.Linear(3, 2))
    f = c(model)
    for _ in range(4):
        yield f(torch.ones(1, 3)), model.gain, caught(lambda: f.nothing)[0]


@program
def parameter_lists_and_dicts(c):
    class Mixture(nn.Module):
        def __init__(self):
            super().__init__()
            self.ws = nn.ParameterList([torch.randn(3) for _ in range(3)])
            self.ds = nn.ParameterDict({"a": torch.randn(3), "b": nn.Parameter(torch.randn(3))})
            self.heads = nn.ModuleDict({"x": nn.Linear(3, 2), "y": nn.Linear(3, 1)})

        def forward(self, x, task):
            for k, w in enumerate(self.ws):
                x = x * w if k % 2 else x + w
            x = x * sum(self.ds.values()) + len(self.ds) + ("c" in self.ds)
            return self.heads[task](x), {k: h(x) for k, h in self.heads.items() if k != task}

    model = Mixture()
    turn = itertools.cycle("xy")

    def step(n):
        if n == 5:
            model.ds["c"] = nn.Parameter(torch.ones(3))
            model.ws.append(torch.full((3,), 0.5))

    yield from calls(c, model, lambda n: (leaf(n, 3), next(turn)), step=step)


@program(breaks=2)
def hooks_added_and_removed(c):
    model = net()
    f = c(model)
    told = []
    handles = []
    for k in range(5):
        out = f(torch.ones(2, 3))
        out.sum().backward()
        yield out, grads(model), list(told)
        if k == 0:
            handles.append(model[0].register_forward_hook(lambda m, i, o: o * 2))
        if k == 1:
            handles.append(model.register_full_backward_hook(lambda m, gi, go: told.append(tuple(go[0].shape))))
        if k == 2:
            handles.append(model[2].register_forward_pre_hook(lambda m, i: (i[0] + 1,)))
        if k == 3:
            for h in handles:
                h.remove()


@program(breaks=9)
def numpy_arguments(c):
    f = c(lambda x, n, k: x * float(n) + k)
    for n in (np.float32(1.5), np.float64(2.5), np.int64(3), 4):
        yield f(torch.ones(2), n, 1)
    g = c(lambda a: torch.from_numpy(a) * 2)
    yield g(np.ones(3, dtype=np.float32))
    h = c(lambda x: x.numpy() + 1)
    yield torch.as_tensor(h(torch.ones(3)))


@program(breaks=14)
def uninitialised_and_meta(c):
    lazy = nn.Sequential(nn.LazyLinear(4), nn.ReLU(), nn.LazyLinear(2))
    f = c(lazy)
    yield f(torch.ones(2, 3)), [tuple(p.shape) for p in lazy.parameters()]
    yield f(torch.ones(3, 3))
    with torch.device("meta"):
        meta = nn.Linear(3, 2)
    g = c(meta)
    out = g(torch.ones(2, 3, device="meta"))
    yield tuple(out.shape), out.device.type


class Custom(torch.Tensor):
    pass


@program(breaks=1)
def subclasses(c):
    f = c(lambda x, p: (x * 2 + p).relu())
    yield f(torch.ones(2), nn.Parameter(torch.ones(2)))
    out = f(torch.ones(2).as_subclass(Custom), nn.Parameter(torch.ones(2)))
    yield type(out).__name__, out.as_subclass(torch.Tensor)


@program
def compiled_inside_compiled(c):
    inner = c(net())

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.head = inner, nn.Linear(2, 1)

        def forward(self, x):
            return self.head(self.inner(x)).squeeze(-1)

    model = Outer()
    f = c(model)
    for n in (2, 2, 3):
        out = f(torch.ones(n, 3))
        out.sum().backward()
        yield out, {k.replace("_orig_mod.", ""): v for k, v in grads(model).items()}


@program
def method_replaced(c):
    model = net()
    f = c(model)
    yield f(torch.ones(1, 3))
    model.forward = lambda x: x.sum(-1)
    yield f(torch.ones(1, 3))
    del model.forward
    yield f(torch.ones(1, 3))
    model[1].forward = types.MethodType(lambda self, x: x * 10, model[1])
    yield f(torch.ones(1, 3))


@program
def functions_patched(c):
    model = net()
    f = c(model)
    yield f(torch.ones(1, 3))
    kept = F.relu
    try:
        F.relu = lambda x, inplace=False: x * 3
        yield f(torch.ones(1, 3))
    finally:
        F.relu = kept
    yield f(torch.ones(1, 3))


@program
def gradients_of_inputs_that_are_views(c):
    f = c(lambda x: (x * x).sum(-1))
    base = torch.randn(4, 3, requires_grad=True)
    out = f(base[::2].t().t())
    out.sum().backward()
    yield out, base.grad
    x = torch.randn(3, requires_grad=True)
    out = f(x.expand(2, 3))
    out.sum().backward()
    yield out, x.grad


@program
def in_place_on_inputs_with_history(c):
    def f(x):
        x.mul_(2)
        x[0].add_(1)
        return x.sum()

    g = c(f)
    for _ in range(2):
        w = torch.randn(2, 3, requires_grad=True)
        x = w * 3
        out = g(x)
        out.backward()
        yield out, x, x._version, w.grad
    yield caught(g, torch.randn(2, 3, requires_grad=True))


@program
def split_and_written(c):
    def f(x):
        a, b = x.chunk(2, -1)
        a = a.clone()
        a += b
        b = b.sigmoid_() if not x.requires_grad else b.sigmoid()
        parts = list(torch.split(x, [1, x.shape[0] - 1]))
        parts[0] = parts[0] * 2
        return a, b, torch.cat(parts), torch.hsplit(x, 2), x.unbind(0)[0], torch.vstack(parts).T

    yield from calls(c, f, lambda n: leaf(n, 4), sizes=(2, 3))
    yield from calls(c, f, lambda n: torch.randn(n, 4), sizes=(2, 3))


@program
def properties_of_other_classes(c):
    class Documented(property):
        unit = 3

    class Thing:
        def __init__(self):
            self._a, self._b = 1.0, 1.0

        @Documented
        def a(self):
            return self._a

        @a.setter
        def a(self, value):
            self._a = value + 1

    thing = Thing()

    def f(x):
        thing.a = thing.a * 2
        return x * thing.a + type(thing).a.unit

    g = c(f)
    for _ in range(4):
        yield g(torch.ones(2)), thing.a
