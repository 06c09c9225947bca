"""Training and evaluation of one module as two methods of one library: what one writes, the other reads."""
import subprocess

import cresset
import numpy as np
import pytest


def tool(*words):
    return subprocess.run(["cresset", *map(str, words)], capture_output=True, text=True)


def network(nn):
    """Statistics that schemas do not mark (batch and instance norm), a counter, activations in place on the results of
    layers."""
    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.norm = nn.Conv1d(2, 4, 3), nn.BatchNorm1d(4)
            self.instance = nn.InstanceNorm1d(4, affine=True, track_running_stats=True)
            self.relu, self.last = nn.ReLU(inplace=True), nn.Linear(6, 6)

        def forward(self, x):
            return self.relu(self.last(self.instance(self.relu(self.norm(self.first(x))))))
    return Network()


def check(model, eager, inputs, rng):
    for i in range(5):  # two steps, a look, a step, a look
        x = rng.standard_normal((3, 2, 8), dtype=np.float32)
        train = i in (0, 1, 3)
        (eager.train if train else eager.eval)()
        want = eager(inputs(x)).detach().numpy() if hasattr(inputs(x), "detach") else eager(inputs(x)).numpy()
        got = (model.train if train else model.eval)(cresset.from_numpy(x)).numpy()
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def compiled(save, folder):
    save(folder / "train.pt2", folder / "eval.pt2")
    done = tool("compile", folder / "train.pt2", folder / "eval.pt2", "-o", folder / "lib.so")
    assert done.returncode == 0, done.stderr
    return cresset.aot_load(folder / "lib.so")


def test_train_and_eval_of_one_module(tmp_path):
    module, x = network(cresset.nn), cresset.randn(3, 2, 8)

    def save(train, evaluation):
        cresset.export.save(cresset.export.export(module.train(), (x,)), train)
        cresset.export.save(cresset.export.export(module.eval(), (x,)), evaluation)
    with cresset.no_grad():
        check(compiled(save, tmp_path), module, cresset.from_numpy, np.random.default_rng(1))


def test_train_and_eval_of_pytorchs_archives(tmp_path):
    torch = pytest.importorskip("torch")
    module, x = network(torch.nn), torch.randn(3, 2, 8)

    def save(train, evaluation):
        torch.export.save(torch.export.export(module.train(), (x,)), train)
        torch.export.save(torch.export.export(module.eval(), (x,)), evaluation)
    with torch.no_grad():
        check(compiled(save, tmp_path), module, torch.from_numpy, np.random.default_rng(2))


def test_a_write_through_what_may_be_a_view(tmp_path):
    """One method writes a buffer through dropout, which hands its input on; the other reads it."""
    class Both(cresset.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("kept", cresset.zeros(3))

        def forward(self, x):
            cresset.nn.functional.dropout(self.kept, 0.5, False).add_(x)
            return self.kept * 1

        def read(self, x):
            return self.kept + x
    module, x = Both(), cresset.ones(3)
    write = cresset.export.export(module, (x,))
    module.forward = module.read
    read = cresset.export.export(module, (x,))
    for name, program in (("write", write), ("read", read)):
        cresset.export.save(program, tmp_path / f"{name}.pt2")
    done = tool("compile", tmp_path / "write.pt2", tmp_path / "read.pt2", "-o", tmp_path / "lib.so")
    assert done.returncode == 0, done.stderr
    model = cresset.aot_load(tmp_path / "lib.so")
    model.write(x), model.write(x)
    assert model.read(x).tolist() == [3, 3, 3]


def test_running_statistics_are_an_instances_own():
    """compile() and module() see what a composite op writes, though its schema does not say so."""
    module, x = network(cresset.nn).train(), cresset.randn(3, 2, 8)
    program = cresset.export.export(module, (x,))
    before = program.state_dict["norm.running_mean"].clone()
    one = cresset._C._ProgramModule(program._program, True)
    assert one.is_stateful
    one.run([x])
    assert program.state_dict["norm.running_mean"].tolist() == before.tolist()
