"""N2: every layer, built in both libraries with one seed: equal parameters, texts, state-dict keys and results."""
import pathlib
import sys

import pytest

torch = pytest.importorskip("torch", reason="layers are compared with PyTorch's; test_module.py needs no oracle")
sys.path.insert(0, str(pathlib.Path(__file__).parent))
import cresset  # noqa: E402
from rows import CONTAINERS, ERRORS, LAYERS  # noqa: E402
from twin import bits, evaluate, ours, same  # noqa: E402

def build(text):
    torch.manual_seed(3)
    theirs = evaluate("nn." + text, torch)
    cresset.manual_seed(3)
    return evaluate("nn." + text, cresset), theirs


def agree_in_state(mine, theirs, exact=True):
    assert repr(mine) == repr(theirs).replace("torch.", "cresset.")
    assert list(mine.state_dict()) == list(theirs.state_dict())
    assert {k: dict(v) for k, v in mine.state_dict()._metadata.items()} == {k: dict(v)
            for k, v in theirs.state_dict()._metadata.items()}
    for (name, a), (other, b) in zip(mine.state_dict().items(), theirs.state_dict().items()):
        bits(a, b, name) if exact else same(a, b, where=name)
    for listing in ("named_parameters", "named_buffers", "named_modules"):
        assert [n for n, _ in getattr(mine, listing)()] == [n for n, _ in getattr(theirs, listing)()]
    assert [p.requires_grad for p in mine.parameters()] == [p.requires_grad for p in theirs.parameters()]


@pytest.mark.parametrize("line", LAYERS)
def test_layer(line):
    text, call, *words = [part.strip() for part in line.split(" | ")]
    mine, theirs = build(text)
    lazy = text.startswith("Lazy")
    if not lazy:
        agree_in_state(mine, theirs)
    torch.manual_seed(5)
    args = evaluate(call, torch)
    for mode in ("train", "eval"):
        if words and mode not in words:
            continue
        getattr(mine, mode)(), getattr(theirs, mode)()
        torch.manual_seed(7), cresset.manual_seed(7)
        copies = [a.clone() if isinstance(a, torch.Tensor) else a for a in args]
        for i, a in enumerate(args):  # what was one object stays one
            copies[i] = copies[next(j for j in range(i + 1) if args[j] is a)]
        mine_args = [ours(a) for a in copies]
        for i, a in enumerate(args):
            mine_args[i] = mine_args[next(j for j in range(i + 1) if args[j] is a)]
        want = theirs(*copies)
        tolerance = 2e-2 if any(isinstance(a, torch.Tensor) and a.dtype is torch.bfloat16 for a in args) else 2e-5
        same(evaluate("layer(*args)", cresset, layer=mine, args=mine_args), want, tolerance, mode)
        same(mine_args, copies, tolerance, f"arguments after {mode}")
        same({k: v for k, v in mine.named_buffers()}, {k: v for k, v in theirs.named_buffers()}, tolerance,
             f"buffers after {mode}")
        if lazy:
            assert type(mine).__name__ == type(theirs).__name__ == text[4:text.index("(")]
            agree_in_state(mine, theirs, exact=False)
        assert cresset.get_rng_state().tolist() == torch.get_rng_state().tolist(), (
            f"{mode}: the generators have drawn differently")


@pytest.mark.parametrize("text", CONTAINERS)
def test_container(text):
    mine, theirs = build(text)
    agree_in_state(mine, theirs)


@pytest.mark.parametrize("line", ERRORS)
def test_error(line):
    with pytest.raises(Exception) as theirs:
        evaluate(line, torch)
    with pytest.raises(theirs.type) as mine:
        evaluate(line, cresset)
    assert str(mine.value)
