"""Function modes of PyTorch that a captured program enters: known ones are honoured, others end the capture."""
import pytest

torch = pytest.importorskip("torch", reason="these are PyTorch's programs")
from torch.overrides import BaseTorchFunctionMode, TorchFunctionMode  # noqa: E402

import cresset  # noqa: E402
from cresset import _C  # noqa: E402

modes = pytest.importorskip("torch._dynamo._trace_wrapped_higher_order_op", reason="a mode of torch's own")
TransformGetItemToIndex = modes.TransformGetItemToIndex


def on_the_cpu(x):
    with torch.device("cpu") as device:
        y = torch.zeros(3) + torch.arange(3)
    return x + y, device, torch.ones(2, device="cpu").device


def by_context(x):
    mode = torch.utils._device.DeviceContext("cpu")
    with mode:
        y = torch.ones(3)
    return x + y


def plain_mode(x):
    with BaseTorchFunctionMode():
        return x.add(1) @ x


def nested(x):
    with BaseTorchFunctionMode(), torch.device("cpu"):
        y = torch.ones(3) + x
        counted = torch._C._len_torch_function_stack(), torch._C._is_torch_function_mode_enabled()
        mode = torch.overrides._get_current_function_mode()
        kinds = isinstance(mode, BaseTorchFunctionMode), isinstance(mode, torch.utils._device.DeviceContext)
    return y, counted, kinds, torch._C._len_torch_function_stack(), torch._C._is_torch_function_mode_enabled()


def left_by_an_exception(x):
    try:
        with torch.device("cpu"):
            raise KeyError(1)
    except KeyError:
        return x + torch._C._len_torch_function_stack()


def indexed(x):
    """By tensors and ints alone it is a gather: memory of its own. A list is looked into."""
    i = torch.tensor(1)
    square = x.reshape(3, 1) * x
    with TransformGetItemToIndex():
        found = [x[i], x[1], x[-1], x[[0]], square[i, 0], square[i], square[1, 2], square[[0, 2]]]
        views = [x[0:2], x[None], square[0:1, i], square[..., 0]]
    for one in found:
        one.add_(100)
    return found, views, x


def mapped(x):
    with TransformGetItemToIndex():
        rows = torch.vmap(lambda i: x[i] * 2)(torch.arange(2))
        where = torch.vmap(torch.vmap(lambda i, j: (i >= j) & (x[i] > 0), in_dims=(None, 0)), in_dims=(0, None))
        return rows, where(torch.arange(3), torch.arange(3))


WHOLE = [on_the_cpu, by_context, plain_mode, nested, left_by_an_exception, indexed, mapped]


class Doubles(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        return result * 2 if func is torch.Tensor.add else result


class Ignores(BaseTorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return args[0] if func is torch.Tensor.add else func(*args, **(kwargs or {}))


class Counts(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.calls.append(func.__name__)
        return func(*args, **(kwargs or {}))


def doubles(x):
    with Doubles():
        return x.add(1)


def ignores(x):
    with Ignores():
        return x.add(1)


def counts(x):
    with Counts() as mode:
        y = x.add(1)
    return y, mode.calls


def elsewhere(x):
    with torch.device("meta"):
        y = torch.zeros(3)
    return x + 1, y.device


def behind_a_break(x):
    y = x * 2
    with torch.device("cpu"):
        z = torch.ones(3)
        print(end="")
        z = z + torch.ones(3)
    return y + z


def stays_on(x):
    mode = torch.utils._device.DeviceContext("cpu")
    mode.__enter__()
    return x + torch.ones(3), mode


def left_alone(x):
    return x + 1, torch._C._pop_torch_function_stack()


def by_booleans(x):
    square = x.reshape(3, 1) * x
    with TransformGetItemToIndex():
        return square[True], square[x > 0], x[()]


BROKEN = [doubles, ignores, counts, elsewhere, behind_a_break, stays_on, left_alone, by_booleans]


def shown(value):
    if isinstance(value, torch.Tensor):
        return value.dtype, tuple(value.shape), value.stride(), value.tolist()
    if isinstance(value, (tuple, list)):
        return type(value), [shown(part) for part in value]
    return value if isinstance(value, (int, bool, str, torch.device)) else type(value)


def outcome(function):
    before = torch._C._len_torch_function_stack()
    try:
        result = shown(function(torch.tensor([1.0, -2.0, 3.0])))
    except Exception as error:
        result = type(error), str(error).splitlines()[0]
    left = torch._C._len_torch_function_stack() - before
    for _ in range(left):
        torch._C._pop_torch_function_stack()
    torch.utils._device.CURRENT_DEVICE = None
    return result, left


@pytest.mark.parametrize("switches", [{}, {"miss_once": True}, {"fail_graphs": True}, {"every": 1}, {"every": 4}],
                         ids=str)
@pytest.mark.parametrize("function", WHOLE + BROKEN, ids=lambda f: f.__name__)
def test_as_plain(function, switches):
    compiled = cresset.compile(function, backend="eager")
    _C._capture_switches(**switches)
    try:
        for _ in range(2):
            assert outcome(compiled) == outcome(function)
    finally:
        _C._capture_switches()


@pytest.mark.parametrize("function", WHOLE, ids=lambda f: f.__name__)
def test_one_graph(function):
    compiled = cresset.compile(function, backend="eager", fullgraph=True)
    assert outcome(compiled) == outcome(function)


@pytest.mark.parametrize("function", BROKEN, ids=lambda f: f.__name__)
def test_ends(function):
    compiled = cresset.compile(function, backend="eager")
    outcome(compiled)
    assert any(entry["reason"] for entry in compiled._entries())


@pytest.mark.parametrize("around", [torch.device("meta"), Doubles(), BaseTorchFunctionMode()], ids=str)
def test_modes_around_a_call(around):
    compiled = cresset.compile(by_context, backend="eager")
    for _ in range(2):
        assert outcome(compiled) == outcome(by_context)
        with around:
            assert outcome(compiled) == outcome(by_context)


def test_gradients_under_a_mode():
    def function(x):
        with TransformGetItemToIndex():
            return (torch.vmap(lambda i: x[i] * x[0])(torch.arange(3)) * x[1]).sum()
    compiled, grads = cresset.compile(function, backend="eager", fullgraph=True), []
    for f in (function, compiled):
        x = torch.tensor([1.0, -2.0, 3.0], requires_grad=True)
        f(x).backward()
        grads.append(x.grad.tolist())
    assert grads[0] == grads[1]
