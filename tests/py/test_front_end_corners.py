"""Corners of the front end: each program runs with PyTorch and with Cresset, and must end alike: the same values,
dtypes and sizes, or an exception of the same class."""
import copy
import importlib
import pickle
import threading
import warnings

import pytest

import cresset

torch = pytest.importorskip("torch", reason="the oracle")

PROGRAMS = []


def corner(program):
    PROGRAMS.append(program)
    return program


def plain(value, m):
    if isinstance(value, m.Tensor):
        name = str(value.dtype).rpartition(".")[2]
        return type(value).__name__, name, tuple(value.shape), value.requires_grad, value.detach().tolist()
    if isinstance(value, dict):
        return {key: plain(item, m) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item, m) for item in value]
    return value


def outcome(program, m):
    m.manual_seed(0)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return plain(program(m), m)
    except Exception as error:
        return error


def near(a, b):
    if isinstance(a, (list, tuple)):
        return isinstance(b, (list, tuple)) and len(a) == len(b) and all(map(near, a, b))
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(near(a[k], b[k]) for k in a)
    if isinstance(a, float) and isinstance(b, float):
        return a == b or abs(a - b) <= 2e-6 * (1 + abs(b)) or (a != a and b != b)
    return type(a) is type(b) and a == b


def leaf(m, *numbers):
    return m.tensor(numbers or (1.0, 2.0, 3.0), dtype=m.float64, requires_grad=True)


def sub(m, name):
    return importlib.import_module(f"{m.__name__}.{name}")


# ---- hooks ----

@corner
def a_hook_removes_itself(m):
    y, seen = leaf(m) * 2, []

    def once(grad):
        seen.append("once")
        handle.remove()
    handle = y.register_hook(once)
    y.register_hook(lambda grad: seen.append("always"))
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    return seen


@corner
def hooks_of_leaves_and_nodes_remove_themselves(m):
    x, seen, handles = leaf(m), [], {}

    def once(name):
        def hook(*args):
            seen.append(name)
            handles.pop(name).remove()
        return hook
    y = x * 2
    for name, register in (("leaf", x.register_hook), ("after", x.register_post_accumulate_grad_hook),
                           ("node", y.grad_fn.register_hook), ("before", y.grad_fn.register_prehook)):
        handles[name] = register(once(name))
        register(lambda *args, name=name: seen.append(name + " always"))
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    return seen


@corner
def a_hook_adds_a_hook(m):
    y, seen = leaf(m) * 2, []
    y.register_hook(lambda grad: (seen.append(1), y.register_hook(lambda grad: seen.append(2)))[2:] or None)
    y.sum().backward(retain_graph=True)
    first = list(seen)
    y.sum().backward()
    return first, seen


@corner
def a_hook_changes_the_dtype(m):
    y = leaf(m) * 2
    y.register_hook(lambda grad: grad.float())
    y.sum().backward()


@corner
def a_hook_of_a_leaf_returns_something(m):
    x = leaf(m)
    x.register_post_accumulate_grad_hook(lambda p: p)
    x.sum().backward()
    return x.grad


@corner
def a_hook_of_a_node_returns_no_tuple(m):
    y = leaf(m) * 2
    y.grad_fn.register_hook(lambda made, given: made[0] * 2)
    y.sum().backward()


@corner
def a_hook_before_a_node_returns_no_tuple(m):
    y = leaf(m) * 2
    y.grad_fn.register_prehook(lambda given: [given[0] * 2])
    y.sum().backward()


# ---- flags, walks ----

@corner
def requires_grad_of_a_result_is_set(m):
    (leaf(m) * 2).requires_grad = True


@corner
def requires_grad_of_a_result_is_asked_for(m):
    return (leaf(m) * 2).requires_grad_()


@corner
def a_tensor_is_its_own_gradient(m):
    x = leaf(m)
    x.grad = x


@corner
def gradients_for_nothing(m):
    return m.autograd.grad(leaf(m).sum(), [])


@corner
def only_inputs(m):
    x = leaf(m)
    return m.autograd.grad((x * x).sum(), x, only_inputs=False)


@corner
def a_complex_loss(m):
    x = m.tensor([1 + 1j], requires_grad=True)
    (x * x).sum().backward()


@corner
def a_complex_loss_of_func_grad(m):
    m.func.grad(lambda x: (x * x).sum())(m.ones(2, dtype=m.complex64))


@corner
def grad_mode_of_a_number(m):
    m.set_grad_enabled(1)


@corner
def generators_without_gradients(m):
    seen = []

    @m.no_grad()
    def steps(x):
        try:
            got = yield m.is_grad_enabled()
            seen.append((got, m.is_grad_enabled()))
            yield (x * 2).requires_grad
        except ValueError:
            seen.append(("thrown", m.is_grad_enabled()))
            yield "caught"
        finally:
            seen.append(("end", m.is_grad_enabled()))
        return 7
    running = steps(leaf(m))
    made = [next(running), m.is_grad_enabled(), running.send("sent"), m.is_grad_enabled()]
    made += list(running)
    other = steps(leaf(m))
    made += [next(other), other.throw(ValueError), m.is_grad_enabled()]
    other.close()

    def outer():
        made.append((yield from steps(leaf(m))))
    return made, list(outer()), made[-1], seen


@corner
def generators_in_inference_mode(m):
    @m.inference_mode()
    def steps():
        yield m.is_inference_mode_enabled()
    running = steps()
    return next(running), m.is_inference_mode_enabled()


@corner
def names_for_old_programs(m):
    x = m.autograd.Variable(m.ones(2), requires_grad=True)
    with m.autograd.set_multithreading_enabled(False):
        x.sum().backward()
    variable = m.autograd.Variable
    return x, x.grad, variable(x), variable(x * 2).is_leaf, isinstance(m.ones(1), variable)


# ---- copies ----

@corner
def a_result_is_copied_deeply(m):
    copy.deepcopy(leaf(m) * 2)


@corner
def gradients_are_copied_deeply(m):
    x = leaf(m)
    x.sum().backward()
    y = copy.deepcopy(x)
    y.grad.add_(1)
    both = copy.deepcopy([x, x])
    return y, y.grad, x.grad, both[0] is both[1], both[1].grad


@corner
def attributes_are_pickled(m):
    x = leaf(m)
    x.note = {"a": [1]}
    y = pickle.loads(pickle.dumps(x))
    return y, y.note, hasattr(pickle.loads(pickle.dumps(m.ones(1))), "note")


# ---- functions with derivatives of their own ----

def product(m):
    class Product(m.autograd.Function):
        """Its jvp is ten times its derivative, so that both can be told apart."""
        generate_vmap_rule = True

        @staticmethod
        def forward(x, y):
            return x * y, x + y

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_forward(*inputs)
            ctx.save_for_backward(*inputs)

        @staticmethod
        def jvp(ctx, a, b):
            x, y = ctx.saved_tensors
            return 10 * (x * b + y * a), 10 * (a + b)

        @staticmethod
        def backward(ctx, g, h):
            x, y = ctx.saved_tensors
            return g * y + h, g * x + h
    return Product.apply


@corner
def dual_numbers_go_by_jvp(m):
    forward = sub(m, "autograd.forward_ad")
    with forward.dual_level():
        x = forward.make_dual(m.tensor([0.2, 0.3]), m.tensor([1.0, 0.5]))
        a, b = product(m)(x.sin(), m.tensor([0.4, 0.5]))
        return list(forward.unpack_dual((a * b).exp()))


@corner
def transforms_forwards_go_by_jvp(m):
    call, f = product(m), m.func
    x, t = m.tensor([2.0, 3.0]), m.tensor([1.0, 0.5])
    return (f.jvp(lambda x, y: call(x.sin(), y)[0].cos(), (x, x + 1), (t, t * 2)), f.jacfwd(lambda x: call(x, x)[0])(x),
            f.jacrev(lambda x: call(x, x)[0])(x), f.hessian(lambda x: call(x, x)[0].sum())(x),
            f.vmap(lambda x, t: f.jvp(lambda x: call(x, x)[0], (x,), (t,))[1])(x, t),
            f.jvp(lambda x: f.vmap(lambda v: call(v, m.tensor(2.0))[0])(x), (x,), (t,)),
            f.grad(lambda x: f.jvp(lambda x: call(x, x)[0].sum(), (x,), (t,))[1])(x),
            f.jvp(f.grad(lambda x: call(x, x)[0].sum()), (x,), (t,)))


@corner
def jvp_beside_other_arguments(m):
    seen = []

    class Scaled(m.autograd.Function):
        @staticmethod
        def forward(ctx, x, k, y):
            ctx.k = k
            ctx.save_for_forward(x, y)
            return x * k * y

        @staticmethod
        def jvp(ctx, a, none, b):
            seen.append((none, b.tolist()))
            x, y = ctx.saved_tensors
            return ctx.k * (a * y + b * x)
    forward = sub(m, "autograd.forward_ad")
    with forward.dual_level():
        x = forward.make_dual(m.ones(2) * 2, m.ones(2))
        return list(forward.unpack_dual(Scaled.apply(x, 3, m.ones(2) * 5))), seen


@corner
def jvp_gives_too_few(m):
    class Two(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2, x * 3

        @staticmethod
        def jvp(ctx, a):
            return a
    forward = sub(m, "autograd.forward_ad")
    with forward.dual_level():
        forward.unpack_dual(Two.apply(forward.make_dual(m.ones(2), m.ones(2)))[0])


@corner
def apply_takes_keywords(m):
    class Scaled(m.autograd.Function):
        @staticmethod
        def forward(ctx, x, k=1):
            ctx.k = k
            return x * k

        @staticmethod
        def backward(ctx, g):
            return g * ctx.k, None
    x = leaf(m)
    Scaled.apply(x, k=3).sum().backward()
    return x.grad


@corner
def apply_does_not_take_every_keyword(m):
    class Same(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x
    Same.apply(leaf(m), k=3)


@corner
def a_gradient_is_a_number(m):
    class Same(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return 1.0
    Same.apply(leaf(m)).sum().backward()


@corner
def gradcheck_forwards_and_in_batches(m):
    check = m.autograd.gradcheck
    x, y = leaf(m), leaf(m)
    options = dict(check_forward_ad=True, check_batched_grad=True, check_batched_forward_grad=True)
    return (check(lambda x, y: x.sin() * y, (x, y), **options),
            check(lambda x, y: product(m)(x, y)[0], (x, y), raise_exception=False),
            check(lambda x, y: product(m)(x, y)[0], (x, y), check_forward_ad=True, raise_exception=False))


@corner
def gradcheck_in_batches_without_backward(m):
    m.autograd.gradcheck(lambda x: x, (leaf(m),), check_backward_ad=False, check_forward_ad=True,
                         check_batched_grad=True)


# ---- transforms ----

@corner
def examples_have_indices_of_their_own(m):
    x, i, j = m.arange(24.0).view(2, 3, 4), m.tensor([0, 2]), m.tensor([1, 3])
    v = m.func.vmap
    return (v(lambda x, i: x[i])(x, i), v(lambda x, i: x[:, i])(x, i), v(lambda x, i, j: x[i, j])(x, i, j),
            v(lambda x, i: x[i, None])(x, i), v(lambda x, i: x[..., i])(x, i), v(lambda x, i: x[i, [0, 1]])(x, i),
            v(lambda i: m.arange(5.0)[i])(i), v(lambda x, i: x[-i])(x, i),
            v(v(lambda x, i: x[i], in_dims=(None, 0)))(x[:, :, 0], m.tensor([[0, 1], [2, 2]])))


@corner
def examples_write_at_indices_of_their_own(m):
    def f(x, i):
        x = x.clone()
        x[i] = 7
        x[:, i] += 1
        return x
    return m.func.vmap(f)(m.arange(24.0).view(2, 3, 4), m.tensor([0, 2]))


@corner
def an_index_of_an_example_is_out_of_range(m):
    m.func.vmap(lambda x, i: x[i])(m.ones(2, 3), m.tensor([0, 5]))


@corner
def jacfwd_of_random_numbers(m):
    m.func.jacfwd(lambda x: x * m.rand(2))(m.ones(2))


@corner
def jacfwd_of_the_same_random_numbers(m):
    return m.func.jacfwd(lambda x: x * m.rand(2), randomness="same")(m.ones(2))


@corner
def jacrev_of_integers(m):
    m.func.jacrev(lambda x: (x > 0).long())(m.ones(2))


@corner
def vjp_of_integers(m):
    m.func.vjp(lambda x: (x, (x > 0).long()), m.ones(2))


@corner
def transforms_of_numbers(m):
    m.func.grad(lambda d: d["a"].sum())({"a": m.ones(2), "b": 3})


@corner
def jvp_of_numbers(m):
    m.func.jvp(lambda x: x, (3,), (3,))


@corner
def batch_norms_without_statistics(m):
    model = m.nn.Sequential(m.nn.BatchNorm1d(2), m.nn.InstanceNorm1d(2, track_running_stats=True))
    same = m.func.replace_all_batch_norm_modules_(model) is model
    return same, list(model.state_dict()), m.func.vmap(model[0])(m.arange(12.0).view(2, 3, 2))


def tied(m):
    class Tied(m.nn.Module):
        def __init__(self):
            super().__init__()
            self.a = m.nn.Parameter(m.ones(2))
            self.b = self.a

        def forward(self, x):
            return self.a * x + self.b
    return Tied()


@corner
def other_weights_for_tied_names(m):
    m.func.functional_call(tied(m), {"a": m.zeros(2), "b": m.ones(2)}, m.ones(2))


@corner
def the_same_weight_for_tied_names(m):
    zero = m.zeros(2)
    return m.func.functional_call(tied(m), {"a": zero, "b": zero}, m.ones(2))


@corner
def a_name_in_two_dicts(m):
    m.func.functional_call(m.nn.Linear(2, 1), ({"weight": m.ones(1, 2)}, {"weight": m.ones(1, 2)}), m.ones(1, 2))


@corner
def buffers_that_a_functional_call_assigns(m):
    class Count(m.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("n", m.zeros(1))

        def forward(self, x):
            self.n = self.n + 1
            return x + self.n
    module, given, two = Count(), {"n": m.ones(1)}, {"n": m.ones(1)}
    return (m.func.functional_call(module, given, m.ones(1)), given, module.n,
            m.func.functional_call(module, (two, {}), m.ones(1)), two)


@corner
def averages_of_integer_buffers(m):
    averaged = sub(m, "optim.swa_utils").AveragedModel(m.nn.BatchNorm1d(2), use_buffers=True)
    model = m.nn.BatchNorm1d(2)
    for _ in range(3):
        model(m.arange(8.0).view(4, 2))
        averaged.update_parameters(model)
    return averaged.state_dict()


# ---- what functions refuse ----

def refusals(m, *calls):
    def one(call):
        try:
            return call()
        except Exception as error:
            return type(error).__name__.lstrip("_")
    return [one(call) for call in calls]


@corner
def numbers_are_no_tensors(m):
    x = m.ones(2)
    return refusals(m, lambda: m.relu(3), lambda: m.sin(0.5), lambda: m.sum(3), lambda: m.maximum(x, 2),
                    lambda: m.clamp(3, 0, 1), lambda: m.reshape(2, (1,)), lambda: x.logical_and(1),
                    lambda: m.nn.functional.gelu(2.0), lambda: m.abs(-3), lambda: m.atan2(x, 1),
                    lambda: m.add(1, 2), lambda: m.mul(2, x), lambda: m.sub(3, x), lambda: m.floor_divide(7, x),
                    lambda: m.where(x > 0, 1, x), lambda: m.pow(2, x), lambda: x.eq(1), lambda: m.div(1, x),
                    lambda: x.copy_(3), lambda: x.masked_fill(x > 0, 2), lambda: m.result_type(2, x) == x.dtype,
                    lambda: m.ops.aten.maximum(x, m.ones(2) * 2))


@corner
def padding_that_is_not_there(m):
    pad, x = m.nn.functional.pad, m.ones(1, 2, 3)
    return refusals(m, lambda: pad(x, (1, 1), "foo"), lambda: pad(x, (1, 1), "reflect", 3.0),
                    lambda: pad(x, (1, 1), "reflect", 0.0), lambda: pad(x[0], (1, 1), "circular", 2.0),
                    lambda: pad(x[0], (1, 1, 1, 1), "reflect"), lambda: pad(x[0, 0], (1, 1), "replicate"),
                    lambda: pad(x[None], (1, 1), "circular"), lambda: pad(x, (1, 1, 1, 1), "circular"),
                    lambda: pad(x, (1,), "reflect"), lambda: pad(x, (1, 2, 3, 4), "constant", 5.0))


@corner
def products_of_what_is_no_vector(m):
    x, y = m.arange(2.0), m.ones(2, 2)
    return refusals(m, lambda: y.outer(x), lambda: m.outer(x, y), lambda: m.outer(x, m.tensor(1.0)),
                    lambda: m.ger(y, x), lambda: x.outer(m.arange(3)))


@corner
def thresholds_below_zero(m):
    soft = m.nn.functional.softshrink
    return refusals(m, lambda: soft(m.ones(3), -1), lambda: soft(m.ones(3), -0.5), lambda: soft(m.ones(3), 0),
                    lambda: m.nn.Softshrink(-0.1)(m.ones(2)), lambda: m.nn.functional.hardshrink(m.ones(3), -1))


@corner
def nothing_moves_out_of_meta(m):
    x = m.ones(2, device="meta")
    return refusals(m, lambda: x.to("cpu"), lambda: x.cpu(), lambda: m.nn.Linear(2, 1, device="meta").to("cpu"),
                    lambda: x.to(m.float64).is_meta, lambda: x.to("meta") is x, lambda: m.ones(2).to("meta").is_meta,
                    lambda: m.nn.Linear(2, 1, device="meta").to_empty(device="cpu").weight.shape == (1, 2))


@corner
def channels_of_inputs_without_batches(m):
    f, made = m.nn.functional, []
    for drop, sizes in ((f.dropout3d, (2, 3, 4)), (f.dropout3d, (2, 3, 4, 1)), (f.dropout3d, (2, 3, 1, 2, 1)),
                        (f.dropout2d, (2, 3, 4)), (f.dropout2d, (2, 3)), (f.dropout1d, (2, 3)),
                        (f.dropout1d, (2, 3, 4))):
        m.manual_seed(1)
        made.append(drop(m.ones(*sizes), 0.5))
    return made


@corner
def memory_that_cannot_be_shared(m):
    import numpy
    array, x = numpy.arange(3.0), m.arange(3)
    return refusals(m, lambda: m.asarray(array, copy=False), lambda: m.asarray(array, dtype=m.float32, copy=False),
                    lambda: m.asarray(x, copy=False) is x, lambda: m.asarray(x, dtype=m.float32, copy=False),
                    lambda: m.asarray([1, 2], copy=False), lambda: m.asarray(array, copy=True))


@corner
def where_files_are_read_to(m):
    import io

    def read(**options):
        file = io.BytesIO()
        m.save({"a": m.arange(3)}, file)
        file.seek(0)
        return m.load(file, **options)
    return [read(map_location=where) for where in (lambda storage, location: storage, {"cuda:0": "cpu"}, "cpu",
                                                   m.device("cpu"), lambda storage, location: None)]


@corner
def capsules(m):
    dlpack = sub(m, "utils.dlpack")
    x = m.arange(3)
    y = dlpack.from_dlpack(dlpack.to_dlpack(x))
    y[0] = 7
    return x, y, m.utils.dlpack is dlpack


@corner
def sizes_of_data_in_one_graph(m):
    def whole(f):
        return m.compile(f, backend="eager", fullgraph=True)(m.tensor([0.0, 2.0, 2.0]))
    return whole(lambda x: x.nonzero() + 1), whole(lambda x: m.nonzero(x) + 1), m.compiler.cudagraph_mark_step_begin()


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_programs(program):
    want, have = outcome(program, torch), outcome(program, cresset)
    if isinstance(want, Exception):
        assert isinstance(have, Exception), f"{have} instead of {want!r}"
        names = [kind.__name__ for kind in type(have).__mro__]
        assert type(want).__name__.lstrip("_") in [name.lstrip("_") for name in names], f"{have!r} instead of {want!r}"
    else:
        assert near(have, want), f"{have!r} instead of {want!r}"


def test_the_grad_of_a_result_is_warned_of():
    for m in (torch, cresset):
        y = leaf(m) * 2
        with pytest.warns(UserWarning, match="leaf"):
            assert y.grad is None
        y.retain_grad()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert y.grad is None and y.detach().grad is None and leaf(m).grad is None


def test_hooks_that_other_threads_remove():
    """A hook is taken out while the walk that would come to it runs."""
    y, seen = leaf(cresset) * 2, []
    handles = []

    def first(grad):
        other = threading.Thread(target=handles[0].remove)
        other.start()
        other.join()
        seen.append("first")
    y.register_hook(first)
    handles.append(y.register_hook(lambda grad: seen.append("second")))
    y.register_hook(lambda grad: seen.append("third"))
    y.sum().backward()
    assert seen in (["first", "third"], ["first", "second", "third"])


def test_jacobians_are_written():
    """Blocks that are the same number everywhere, too, have a place for each."""
    hessian = cresset.func.hessian(lambda x, y: (x * y).sum(), argnums=(0, 1))(cresset.ones(2), cresset.ones(2))
    assert [block.add_(cresset.eye(2)).tolist() for row in hessian for block in row] == [
        [[1.0, 0.0], [0.0, 1.0]], [[2.0, 0.0], [0.0, 2.0]], [[2.0, 0.0], [0.0, 2.0]], [[1.0, 0.0], [0.0, 1.0]]]
    assert cresset.func.jacrev(lambda x: x.sum())(cresset.ones(2)).add_(cresset.arange(2)).tolist() == [1.0, 2.0]
