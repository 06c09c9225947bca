"""N2: whole models written once for both libraries (bench/twins.py): keys, initial numbers and results; checkpoints
load."""
import pathlib
import sys

import pytest

torch = pytest.importorskip("torch", reason="the models are compared with PyTorch's")
sys.path[:0] = [str(pathlib.Path(__file__).parent), str(pathlib.Path(__file__).parents[3] / "bench")]
import cresset  # noqa: E402
import twins  # noqa: E402
from twin import bits, ours, same  # noqa: E402

NAMES = [make.__name__ for make in twins.ALL]


@pytest.mark.parametrize("name", NAMES)
def test_twin(name):
    (theirs, args), (mine, mine_args) = twins.make(torch, name, small=True), twins.make(cresset, name, small=True)
    assert list(mine.state_dict()) == list(theirs.state_dict())
    for (key, a), b in zip(mine.state_dict().items(), theirs.state_dict().values()):
        bits(a, b, key)
    same(mine_args, args, 1e-6, "arguments")
    with torch.no_grad():
        want = theirs(*args)
    same(mine(*mine_args), want, 1e-4)
    assert repr(mine).count("\n") == repr(theirs).count("\n")


@pytest.mark.parametrize("name", NAMES)
def test_checkpoint(bench_model, name, tmp_path):
    """The state of the model in models.py loads into its twin here, which then computes the same."""
    safetensors = pytest.importorskip("safetensors.torch",
                                      reason="NOT TESTED: safetensors is not installed (./dev setup --bench)")
    from cresset.utils.safetensors import load_file
    theirs, args = bench_model(name)
    state = {key: value.clone() for key, value in theirs.state_dict().items()}
    safetensors.save_file(state, tmp_path / "model.safetensors")
    mine, _ = twins.make(cresset, name, small=True)
    assert sorted(mine.state_dict()) == sorted(state)
    mine.load_state_dict(load_file(tmp_path / "model.safetensors"))
    with torch.no_grad():
        want = theirs(*args)
    same(mine(*map(ours, args)), want, 1e-4)
