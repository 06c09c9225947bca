"""P1, X2, X10: archives that PyTorch writes run here. A seeded part of the sweep; `./dev test --full interop` runs all
of it."""
import collections
import pathlib
import random
import subprocess
import sys
import warnings

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
torch = pytest.importorskip("torch", reason="without the oracle, test_recorded_archives.py replays recorded archives")

import checking  # noqa: E402
import programs  # noqa: E402

COUNT = 25
SAMPLE = random.Random(4).sample([(p.name, dialect) for p in programs.programs() for dialect in p.dialects], COUNT)


@pytest.fixture(scope="module", params=SAMPLE, ids=[".".join(pair) for pair in SAMPLE])
def archive(request, tmp_path_factory):
    name, dialect = request.param
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return checking.make(programs.TABLE[name], dialect, tmp_path_factory.mktemp("archives"))


def test_module(archive):
    assert checking.constant_outputs(archive) is None
    assert checking.by_module(archive) is None


def test_tool(archive, tmp_path):
    assert checking.by_tool(archive, tmp_path) is None


def test_there_are_enough_programs():
    assert len(programs.programs()) >= 90


def test_info_names_the_inputs_that_run_takes(archive):
    described = checking.described(archive.path)
    assert described["unsupported"] == []
    assert [entry["name"] for entry in described["inputs"]] == [name for name, _ in archive.inputs[0]]
    shapes = [list(value.shape) for _, value in archive.inputs[0] if isinstance(value, torch.Tensor)]
    shown = [entry["shape"] for entry, (_, value) in zip(described["inputs"], archive.inputs[0]) if isinstance(value,
            torch.Tensor)]
    assert [len(shape) for shape in shown] == [len(shape) for shape in shapes]


def test_the_tool_says_what_is_missing(archive, tmp_path):
    if not any(isinstance(value, torch.Tensor) for _, value in archive.inputs[0]):
        return
    checking.save_inputs(tmp_path / "none.npz", [])
    done = subprocess.run(["cresset", "run", str(archive.path), "--inputs", str(tmp_path / "none.npz"), "-o",
                           str(tmp_path / "o.npz")], capture_output=True, text=True)
    first = next(name for name, value in archive.inputs[0] if isinstance(value, torch.Tensor))
    assert done.returncode == 1 and first in done.stderr and not (tmp_path / "o.npz").exists()


class Containers(torch.nn.Module):
    def forward(self, mapping, items, named):
        return collections.defaultdict(list, z=mapping["k"] * items[0]), collections.deque([items[1] + named["a"]])


def test_example_inputs_in_every_container(tmp_path):
    """X10: the pickled example inputs come back in the containers of the call."""
    import cresset.export
    example = (collections.defaultdict(list, k=torch.ones(2, 3)), collections.deque([torch.ones(3), torch.ones(1)],
            maxlen=2),
               collections.OrderedDict(a=torch.ones(1)))
    torch.export.save(torch.export.export(Containers(), example), tmp_path / "m.pt2")
    program = cresset.export.load(str(tmp_path / "m.pt2"))
    args, kwargs = program.example_inputs
    assert [type(value) for value in args] == [collections.defaultdict, collections.deque,
                                               collections.OrderedDict] and kwargs == {}
    assert args[0].default_factory is list and args[1].maxlen == 2 and args[0]["k"].tolist() == [[1.0] * 3] * 2
    first, second = program.module()(*args)
    assert type(first) is collections.defaultdict
    assert first["z"].tolist() == [[1.0] * 3] * 2 and second[0].tolist() == [2.0]
