"""requires_grad_() inside of captured programs: part of the graph where nobody can tell."""
import pytest

torch = pytest.importorskip("torch", reason="these are PyTorch's programs")
import cresset  # noqa: E402


def used(x):
    return torch.zeros_like(x).requires_grad_() + x


def switched_off(x):
    return torch.zeros_like(x).requires_grad_(False) * 2


def by_keyword(x):
    y = torch.ones(3).requires_grad_(requires_grad=True)
    return (y @ y) * x


WHOLE = [used, switched_off, by_keyword]


def given(x):
    return torch.zeros_like(x).requires_grad_()


def view_given(x):
    return torch.zeros_like(x).requires_grad_().view(-1)


def view_before(x):
    y = torch.zeros_like(x)
    z = y.view(-1)
    y.requires_grad_()
    return z, y + 1


def on_and_off(x):
    y = torch.zeros_like(x).requires_grad_()
    y.requires_grad_(False)
    return y


def asked(x):
    y = torch.zeros_like(x).requires_grad_()
    y.add_(1)
    return y.detach() * 2, y.requires_grad


def of_ints(x):
    return torch.zeros(2, dtype=torch.long).requires_grad_() + 1


def of_an_input(x):
    return x.requires_grad_() * 2


def stored(x, box={}):  # noqa: B006
    box["y"] = torch.zeros_like(x).requires_grad_()
    return x + 1, box["y"]


def shown(value):
    if isinstance(value, torch.Tensor):
        return value.requires_grad, value.is_leaf, value.tolist()
    return [shown(part) for part in value] if isinstance(value, tuple) else value


def outcome(function, records, inference):
    x = torch.ones(2)
    with torch.inference_mode() if inference else torch.set_grad_enabled(records):
        try:
            result = shown(function(x))
        except RuntimeError as error:
            result = str(error)
    return result, x.requires_grad


@pytest.mark.parametrize("records, inference", [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("function", [*WHOLE, given, view_given, view_before, on_and_off, asked, of_ints, of_an_input,
                                      stored], ids=lambda f: f.__name__)
def test_as_plain(function, records, inference):
    compiled = cresset.compile(function, backend="eager")
    for _ in range(2):
        assert outcome(compiled, records, inference) == outcome(function, records, inference)


@pytest.mark.parametrize("function", WHOLE, ids=lambda f: f.__name__)
def test_one_graph(function):
    compiled = cresset.compile(function, backend="eager", fullgraph=True)
    assert outcome(compiled, False, False) == outcome(function, False, False)
