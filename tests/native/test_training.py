"""P6: libraries that train. Steps, accumulated gradients, files and errors, against PyTorch's optimizers."""
import json
import os
import pathlib
import struct
import subprocess
import sys

import numpy as np
import pytest

import cresset

torch = pytest.importorskip("torch", reason="steps are compared with PyTorch's; test_training_alone.py needs none")
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "examples" / "train_in_c"))
import export as letters  # noqa: E402


class Net(torch.nn.Module):
    """Dropout draws numbers, the norm changes buffers, one parameter is frozen, one never used, one weight is tied."""

    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(12, 8)
        self.hidden = torch.nn.Linear(8, 12, bias=False)
        self.norm = torch.nn.BatchNorm1d(12)
        self.head = torch.nn.Linear(8, 12, bias=False)
        self.head.weight = self.embed.weight
        self.back = torch.nn.Linear(12, 8)
        self.frozen = torch.nn.Parameter(torch.ones(8) * 0.5, requires_grad=False)
        self.unused = torch.nn.Parameter(torch.ones(3))
        self.register_buffer("scale", torch.full((12,), 2.0))

    def forward(self, ids, target):
        x = self.embed(ids).mean(1) * self.frozen
        x = torch.nn.functional.dropout(torch.relu(self.norm(self.hidden(x))), 0.25, self.training)
        scores = self.head(self.back(x)) * self.scale
        return torch.nn.functional.cross_entropy(scores, target), scores


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.05),
    "sgd,momentum=0.9,nesterov=1,weight_decay=0.01":
        lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.01),
    "adam,beta1=0.8,beta2=0.95,eps=1e-6": lambda p: torch.optim.Adam(p, lr=0.05, betas=(0.8, 0.95), eps=1e-6),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.05),
    "adamw,amsgrad=1,maximize=1,weight_decay=0.1":
        lambda p: torch.optim.AdamW(p, lr=0.05, amsgrad=True, maximize=True, weight_decay=0.1),
    "adagrad,lr_decay=0.1": lambda p: torch.optim.Adagrad(p, lr=0.05, lr_decay=0.1),
}


def make(seed=0):
    torch.manual_seed(seed)
    return Net().train()


def batch(i, n):
    generator = torch.Generator().manual_seed(100 + i)
    return (torch.randint(0, 12, (n, 4), generator=generator), torch.randint(0, 12, (n,), generator=generator))


def ours(tensors):
    return [cresset.tensor(t.numpy()) for t in tensors]


def export_loss(module, path):
    n = torch.export.Dim("n", min=2, max=64)
    torch.export.save(torch.export.export(module, batch(0, 6), dynamic_shapes=({0: n}, {0: n})), path)


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    path = tmp_path_factory.mktemp("training") / "loss.pt2"
    export_loss(make(), path)
    return path


def compile_library(archive, optimizer, tmp_path, **programs):
    path = str(tmp_path / "train.so")
    return cresset.aot_compile({"loss": archive, **programs} if programs else archive, joint=optimizer,
                               options={"output_path": path, "target": "native"})


@pytest.fixture(scope="module")
def adamw(archive, tmp_path_factory):
    return compile_library(archive, "adamw", tmp_path_factory.mktemp("adamw"))


def check_weights(library, module, tolerance=1e-5):
    have, want = library.state_dict(), module.state_dict()
    assert sorted(have) == sorted(want)
    for name, value in want.items():
        got, value = have[name].numpy(), value.numpy()
        assert got.dtype == value.dtype and got.shape == value.shape, name
        np.testing.assert_allclose(got, value, rtol=tolerance, atol=tolerance, err_msg=name)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_steps(archive, tmp_path, optimizer):
    """One library call is one step of PyTorch, dropout and running statistics included, at every batch size."""
    module, library = make(), cresset.aot_load(compile_library(archive, optimizer, tmp_path))
    steps = OPTIMIZERS[optimizer]([p for p in module.parameters() if p.requires_grad])
    torch.manual_seed(7)
    library.manual_seed(7)
    for i in range(8):
        inputs = batch(i, (2, 3, 6, 17)[i % 4])
        steps.zero_grad()
        loss, scores = module(*inputs)
        loss.backward()
        steps.step()
        got = library.step(*ours(inputs), lr=0.05)
        np.testing.assert_allclose(got[0].item(), loss.item(), rtol=1e-4)
        np.testing.assert_allclose(got[1].numpy(), scores.detach().numpy(), rtol=1e-3, atol=2e-3)
    check_weights(library, module, 2e-3 if optimizer[:4] == "adam" else 1e-4)  # which grows what is nearly zero
    assert not np.array_equal(library.state_dict()["hidden.weight"].numpy(), make().hidden.weight.detach().numpy())


@pytest.mark.parametrize("joint", [
    {"optimizer": "adamw", "weight_decay": 0.3, "no_decay": ["*.bias", "norm.*"], "clip_norm": 0.5},
    "sgd,momentum=0.9,weight_decay=0.3,clip_norm=0.5,no_decay=*.bias,no_decay=norm.*"], ids=["adamw", "sgd"])
def test_some_do_not_decay(archive, tmp_path, joint):
    """As two parameter groups of PyTorch; the norm is that of all gradients."""
    module, library = make(), cresset.aot_load(compile_library(archive, joint, tmp_path))
    groups = {False: [], True: []}
    for name, p in module.named_parameters():
        if p.requires_grad:
            groups[name.endswith(".bias") or name.startswith("norm.")].append(p)
    groups = [{"params": groups[False]}, {"params": groups[True], "weight_decay": 0.0}]
    sgd = isinstance(joint, str)
    steps = (torch.optim.SGD(groups, lr=0.05, momentum=0.9, weight_decay=0.3) if sgd else
             torch.optim.AdamW(groups, lr=0.05, weight_decay=0.3))
    torch.manual_seed(7)
    library.manual_seed(7)
    for i in range(6):
        steps.zero_grad()
        inputs = batch(i, 6)
        module(*inputs)[0].backward()
        torch.nn.utils.clip_grad_norm_([p for group in groups for p in group["params"]], 0.5)
        steps.step()
        library.step(*ours(inputs), lr=0.05)
    check_weights(library, module, 1e-4 if sgd else 2e-3)


def test_patterns_that_say_nothing(archive, tmp_path):
    for joint, said in [("adamw,no_decay=*.bais", "no_decay=.*bais names no parameter that is trained; the first of "
                                                  "those is '"),
                        ("adamw,no_decay=", "expected a pattern of names")]:
        with pytest.raises(ValueError, match=said):
            compile_library(archive, joint, tmp_path)


def test_added_gradients(archive, tmp_path):
    """backward() adds, update() applies and clears, clipping is clip_grad_norm_'s; a step leaves what was added."""
    module = make()
    library = cresset.aot_load(compile_library(archive, {"optimizer": "adamw", "betas": (0.9, 0.99), "clip_norm": 0.5},
                                               tmp_path))
    trained = [p for p in module.parameters() if p.requires_grad]
    steps = torch.optim.AdamW(trained, lr=0.05, betas=(0.9, 0.99))
    torch.manual_seed(7)
    library.manual_seed(7)
    for i in range(4):
        steps.zero_grad()
        for k in range(3):
            inputs = batch(3 * i + k, 5)
            module(*inputs)[0].backward()
            library.backward(*ours(inputs))
        norm = torch.nn.utils.clip_grad_norm_(trained, 0.5)
        steps.step()
        assert library.update(lr=0.05) == ()
        np.testing.assert_allclose(library._native.get_state("@grad_norm").item(), norm.item(), rtol=1e-5)
        assert not library._native.get_state("hidden.weight@grad").numpy().any()
    check_weights(library, module, 1e-4)
    assert library._native.get_state("@step").item() == 4
    library.backward(*ours(batch(0, 5)))
    added = library._native.get_state("hidden.weight@grad").numpy().copy()
    library.step(*ours(batch(1, 5)), lr=0.05)
    np.testing.assert_array_equal(library._native.get_state("hidden.weight@grad").numpy(), added)
    assert added.any()


def test_goes_on_to_the_bit(adamw, tmp_path):
    first, path = cresset.aot_load(adamw), tmp_path / "all.safetensors"
    first.manual_seed(3)
    for i in range(3):
        first.step(*ours(batch(i, 5)), lr=0.05)
    first.backward(*ours(batch(3, 5)))
    first.save(path)
    second = cresset.aot_load(adamw)
    second.load(path)
    for library in (first, second):
        library.update(lr=0.05)
    for i in range(4, 8):
        one, two = (library.step(*ours(batch(i, 5)), lr=0.05) for library in (first, second))
        assert one[0].item() == two[0].item()
    for name, value in first.state_dict().items():
        np.testing.assert_array_equal(value.numpy(), second.state_dict()[name].numpy())
    assert os.listdir(tmp_path) == ["all.safetensors"]


def test_weights_there_and_back(adamw, tmp_path):
    """PyTorch loads our weights, strictly; we load PyTorch's."""
    safetensors = pytest.importorskip("safetensors.torch")
    library, module, path = cresset.aot_load(adamw), make(1), tmp_path / "weights.safetensors"
    library.step(*ours(batch(0, 5)), lr=0.05)
    library.save(path, "weights")
    module.load_state_dict(safetensors.load_file(path))
    check_weights(library, module, 0)
    other = make(2)
    safetensors.save_file({k: v.clone() for k, v in other.state_dict().items()}, path)
    library.load(path)
    check_weights(library, other, 0)


def test_an_eval_program_shares_the_weights(tmp_path):
    module = make()
    export_loss(module, tmp_path / "loss.pt2")
    torch.export.save(torch.export.export(module.eval(), batch(0, 5)), tmp_path / "eval.pt2")
    library = cresset.aot_load(compile_library(tmp_path / "loss.pt2", "sgd", tmp_path, judge=tmp_path / "eval.pt2"))
    inputs = batch(0, 5)
    for _ in range(3):
        library.step(*ours(batch(9, 7)), lr=0.5)
    module.load_state_dict({k: torch.tensor(v.numpy()) for k, v in library.state_dict().items()})
    np.testing.assert_allclose(library.judge(*ours(inputs))[0].item(), module(*inputs)[0].item(), rtol=1e-5)


# ---- files that do not fit ----

def parts(path):
    data = path.read_bytes()
    n = struct.unpack("<Q", data[:8])[0]
    return json.loads(data[8:8 + n]), data[8 + n:]


def join(header, data):
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def test_files_that_do_not_fit(adamw, tmp_path):
    library, good, bad = cresset.aot_load(adamw), tmp_path / "good.safetensors", tmp_path / "bad.safetensors"
    library.step(*ours(batch(0, 5)), lr=0.05)
    library.save(good)
    before = {k: v.numpy().copy() for k, v in library.state_dict().items()}
    library.step(*ours(batch(1, 5)), lr=0.05)
    now = {k: v.numpy().copy() for k, v in library.state_dict().items()}
    header, data = parts(good)

    def refuses(content, *words):
        bad.write_bytes(content)
        with pytest.raises(OSError) as caught:
            library.load(bad)
        assert all(word in str(caught.value) for word in words), str(caught.value)

    whole = good.read_bytes()
    for n in [*range(0, 40), len(whole) // 2, len(whole) - 1]:
        refuses(whole[:n], "bad.safetensors")
    without = {k: v for k, v in header.items() if k != "back.bias"}
    refuses(join(without, data), "no 'back.bias'")
    refuses(join({**header, "other": header["back.bias"]}, data), "'other'", "another model")
    refuses(join({**header, "back.bias": {**header["back.bias"], "shape": [2, 4]}}, data), "'back.bias'", "F32 [8]")
    refuses(join({**header, "back.bias": {**header["back.bias"], "dtype": "F16"}}, data), "'back.bias'")
    refuses(join({**header, "back.bias": {**header["back.bias"], "data_offsets": [1 << 62, (1 << 62) + 32]}}, data))
    refuses(join({**header, "scale": header["norm.running_mean"]}, data), "'scale' is a constant")
    refuses(join({**header, "embed.weight": header["head.weight@exp_avg"]}, data), "one tensor in the model")
    refuses(b"\xff" * 100)
    refuses(good.read_bytes() + b"\0")
    for name in now:
        np.testing.assert_array_equal(library.state_dict()[name].numpy(), now[name])
    library.load(good)
    for name in now:
        np.testing.assert_array_equal(library.state_dict()[name].numpy(), before[name])
    for path in (tmp_path / "no folder" / "x", tmp_path):
        with pytest.raises(OSError, match="cannot be written"):
            library.save(path)
    with pytest.raises(OSError, match="cannot be read"):
        library.load(tmp_path)
    with pytest.raises(ValueError, match="'weights' or 'all'"):
        library.save(good, "moments")


def test_names_of_any_letters(tmp_path):
    class Odd(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_parameter('weight "ä"\\', torch.nn.Parameter(torch.ones(3)))

        def forward(self, x):
            return (x * next(self.parameters())).sum()

    torch.export.save(torch.export.export(Odd(), (torch.ones(3),)), tmp_path / "odd.pt2")
    library = cresset.aot_load(compile_library(tmp_path / "odd.pt2", "sgd", tmp_path))
    assert library.step(cresset.ones(3), lr=0.5).item() == 3
    library.save(tmp_path / "odd.safetensors")
    assert 'weight "ä"\\' in parts(tmp_path / "odd.safetensors")[0]
    library.step(cresset.ones(3), lr=0.5)
    library.load(tmp_path / "odd.safetensors")
    np.testing.assert_array_equal(library.state_dict()['weight "ä"\\'].numpy(), [0.5, 0.5, 0.5])


def test_batch_of_one(tmp_path):
    """Derivatives decide nothing by the example's sizes, and the program stays as it was: batch 1 trains, and runs."""
    class Recurrent(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.gru = torch.nn.GRU(3, 4, batch_first=True)

        def forward(self, x):
            return torch.nn.functional.smooth_l1_loss(self.gru(x)[0], x.new_ones(x.shape[0], 5, 4))

    torch.manual_seed(0)
    module, n = Recurrent(), torch.export.Dim("n", min=1, max=64)
    program = torch.export.export(module, (torch.randn(4, 5, 3),), dynamic_shapes=({0: n},))
    torch.export.save(program, tmp_path / "loss.pt2")
    loaded = cresset.export.load(tmp_path / "loss.pt2")
    library = cresset.aot_load(compile_library(loaded, "sgd", tmp_path))
    steps = torch.optim.SGD(module.parameters(), 0.5)
    for rows in (1, 2, 1, 5):
        x = torch.randn(rows, 5, 3)
        assert loaded.module()(*ours([x])).item() > 0
        steps.zero_grad()
        loss = module(x)
        loss.backward()
        steps.step()
        np.testing.assert_allclose(library.step(*ours([x]), lr=0.5).item(), loss.item(), rtol=1e-5)
    check_weights(library, module)


def test_an_input_called_lr(tmp_path):
    """Is another input than the rate, unless it is a keyword, too: then one of them needs another name."""
    class Scaled(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(torch.ones(2))

        def forward(self, lr):
            return (self.w * lr).sum()

    torch.export.save(torch.export.export(Scaled(), (torch.ones(2),)), tmp_path / "a.pt2")
    library = cresset.aot_load(compile_library(tmp_path / "a.pt2", "sgd", tmp_path))
    assert library.backward(cresset.ones(2)).item() == 2
    assert library.step(cresset.ones(2), lr=0.5).item() == 2
    np.testing.assert_array_equal(library.state_dict()["w"].numpy(), [0.5, 0.5])
    torch.export.save(torch.export.export(Scaled(), (), {"lr": torch.ones(2)}), tmp_path / "b.pt2")
    with pytest.raises(ValueError, match="argument 'lr' already"):
        compile_library(tmp_path / "b.pt2", "sgd", tmp_path)


# ---- what cannot be trained ----

@pytest.mark.parametrize("optimizer, words", [
    ("lion", ["'lion'", "sgd, adam, adamw, adagrad"]), ("", ["there is no optimizer ''"]),
    ("adamw,lr=3", ["no option 'lr'", "input of every step"]), ("sgd,momentum", ["KEY=NUMBER"]),
    ("sgd,momentum=x", ["momentum is 'x'"]), ("sgd,momentum=-1", ["not negative"]), ("adam,beta1=1", ["beta1 is 1"]),
    ("adam,amsgrad=2", ["0 or 1"]), ("sgd,nesterov=1", ["momentum=0.9"]), ("sgd,loss=2", ["result 2", "gives 2"]),
    ("sgd,loss=1", ["result 1", "no loss"]), ("sgd,loss=0.5", ["index"]),
    ("sgd,clip_norm=0", ["clip_norm is 0", "leave it out"])])
def test_bad_optimizers(archive, tmp_path, optimizer, words):
    with pytest.raises(ValueError) as caught:
        compile_library(archive, optimizer, tmp_path)
    assert all(word in str(caught.value) for word in words), str(caught.value)
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("rate", [float("nan"), float("inf"), -1.0, -0.1])
def test_rates_that_would_spoil_the_weights(adamw, rate):
    library = cresset.aot_load(adamw)
    library.backward(*ours(batch(1, 5)))
    before = {name: value.numpy().copy() for name, value in library.state_dict().items()}
    for call in (lambda: library.step(*ours(batch(0, 5)), lr=rate), lambda: library.update(lr=rate)):
        with pytest.raises(RuntimeError, match="lr must be a finite number that is not negative"):
            call()
    for name, value in library.state_dict().items():
        np.testing.assert_array_equal(value.numpy(), before[name])
    library.update(lr=0)


def test_nothing_to_train(tmp_path):
    module = torch.nn.Linear(2, 1)
    module.requires_grad_(False)
    torch.export.save(torch.export.export(module, (torch.ones(1, 2),)), tmp_path / "a.pt2")
    with pytest.raises(ValueError, match="depends on no parameter that requires grad"):
        compile_library(tmp_path / "a.pt2", "sgd", tmp_path)


def test_memory_that_cannot_be_trained(tmp_path):
    module = torch.nn.Linear(2, 2, bias=False)
    module.weight = torch.nn.Parameter(torch.arange(4.0).reshape(2, 2).t())

    class Sum(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = module

        def forward(self, x):
            return self.inner(x).sum()

    torch.export.save(torch.export.export(Sum(), (torch.ones(1, 2),)), tmp_path / "b.pt2")
    with pytest.raises(ValueError, match="'inner.weight' is not row-major"):
        compile_library(tmp_path / "b.pt2", "sgd", tmp_path)
    module.weight = torch.nn.Parameter(torch.ones(2, 2))
    shared = Sum()
    shared.again = torch.nn.Parameter(module.weight.detach())
    shared.forward = lambda x: (module(x) * shared.again).sum()
    torch.export.save(torch.export.export(shared, (torch.ones(1, 2),)), tmp_path / "c.pt2")
    with pytest.raises(ValueError, match="share memory and are both read"):
        compile_library(tmp_path / "c.pt2", "sgd", tmp_path)


def test_other_libraries_do_not_train(tmp_path, archive):
    library = cresset.aot_load(cresset.aot_compile(archive, options={"output_path": str(tmp_path / "plain.so")}))
    assert not library.trains
    for call in (lambda: library.save(tmp_path / "x"), lambda: library.load(tmp_path / "x")):
        with pytest.raises(ValueError, match="does not train"):
            call()
    with pytest.raises(RuntimeError, match="does not train"):
        library.state_dict()


# ---- the tool, and the example in C ----

def run(*words, **options):
    return subprocess.run([*map(str, words)], capture_output=True, text=True, **options)


def test_the_tool(archive, tmp_path):
    done = run("cresset", "compile", "--train", archive, "--optimizer", "sgd,momentum=0.9", "--json", "-o",
               tmp_path / "t.so", "--target", "native")
    assert done.returncode == 0 and json.loads(done.stdout)["methods"] == ["step", "backward", "update"], done.stderr
    shown = run("cresset", "info", tmp_path / "t.so").stdout
    assert "trains with sgd" in shown and "method 'update'" in shown
    for words, message in ((["--optimizer", "sgd"], "--train"), (["--train", "--verify"], "--verify"),
                           (["--train", "--optimizer", "foo"], "no optimizer 'foo'")):
        done = run("cresset", "compile", archive, "-o", tmp_path / "u.so", *words)
        assert done.returncode and message in done.stderr and not (tmp_path / "u.so").exists()


def test_letters(tmp_path):
    """examples/train_in_c: libc alone; losses are PyTorch's; stopped and resumed to the bit; weights load there."""
    text, source = ROOT / "docs" / "native.md", ROOT / "examples" / "train_in_c" / "train.c"
    module = letters.export(torch, tmp_path)
    built = run("cresset", "compile", "--train", "loss.pt2", "next.pt2", "--optimizer", "adamw,clip_norm=1", "-o",
                "libletters.so", cwd=tmp_path)
    assert built.returncode == 0, built.stderr
    built = run("cc", "-std=gnu99", "-Wall", "-Wextra", "-Werror", source, "-I", ROOT / "include",
                tmp_path / "libletters.so", "-o", tmp_path / "train")
    assert built.returncode == 0, built.stderr
    needed = {line.split()[0] for line in run("ldd", tmp_path / "libletters.so").stdout.splitlines()}
    assert {name for name in needed if name.startswith("lib")} <= {"libc.so.6", "libm.so.6"}

    def train(steps, folder):
        folder.mkdir(exist_ok=True)
        done = run(tmp_path / "train", text, steps, cwd=folder)
        assert done.returncode == 0, done.stderr
        return done.stdout

    whole = train(12, tmp_path / "whole")
    train(5, tmp_path / "parts")
    again = train(12, tmp_path / "parts")
    assert whole.partition("loss")[2] == again.partition("loss")[2] and "after step 12" in again
    for name in ("letters.checkpoint", "letters.safetensors"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "parts" / name).read_bytes()

    bytes_, steps = text.read_bytes(), torch.optim.AdamW(module.parameters(), lr=3e-3)
    for step in range(12):
        random, rows = 0x9e3779b97f4a7c15 * (step + 1) % 2**64, []
        for _ in range(16):
            random = (random * 6364136223846793005 + 1442695040888963407) % 2**64
            at = (random >> 33) % (len(bytes_) - 65)
            rows.append([b & 127 for b in bytes_[at:at + 65]])
        steps.zero_grad()
        loss = module(torch.tensor(rows))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(module.parameters(), 1)
        steps.step()
    assert abs(float(whole.partition("loss ")[2].split()[0]) - loss.item()) < 1e-3
    header, data = parts(tmp_path / "whole" / "letters.safetensors")
    weights = {name: torch.frombuffer(bytearray(data[slice(*row["data_offsets"])]), dtype=torch.float32).reshape(
        row["shape"]) for name, row in header.items() if name != "__metadata__"}
    for name, value in module.state_dict().items():
        assert (weights[name] - value).abs().max() < 1e-3, name
    module.load_state_dict(weights)
