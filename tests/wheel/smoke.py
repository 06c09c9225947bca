"""What a wheel must do where nothing else is installed (and, with the word `torch`, beside torch): import, compute,
differentiate, capture, export, compile by package and by tool, run what was compiled. Prints one line."""
import pathlib
import subprocess
import sys
import sysconfig
import tempfile

import cresset


def close(a, b):
    return (a - b).abs().max().item() <= 1e-5


class Net(cresset.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = cresset.nn.Linear(6, 8), cresset.nn.Linear(8, 3)

    def forward(self, x):
        return self.second(self.first(x).relu())


def without_torch(folder):
    assert not [name for name in sys.modules if name.split(".")[0] == "torch"], "import cresset imports torch"
    cresset.manual_seed(0)
    net, x = Net(), cresset.randn(4, 6)
    wanted = net(x)
    wanted.sum().backward()
    assert net.first.weight.grad.abs().sum().item() > 0
    with cresset.no_grad():
        assert close(cresset.compile(net)(x), wanted)
    program = cresset.export.export(net, (x,), dynamic_shapes=({0: cresset.export.Dim("n")},))
    cresset.export.save(program, folder / "net.pt2")
    package = pathlib.Path(cresset.__file__).parent
    assert (package / "lib" / "cresset" / "libcresset_rt.a").exists() and (package / "py.typed").exists()
    tool = [sys.executable, "-m", "cresset"]
    subprocess.run([*tool, "compile", folder / "net.pt2", "-o", folder / "net.so"], check=True, capture_output=True)
    model = cresset.aot_load(str(folder / "net.so"))
    assert close(model(x), wanted) and close(model(x[:1]), wanted[:1])
    script = pathlib.Path(sysconfig.get_path("scripts")) / "cresset"
    if script.exists():
        assert "usage" in subprocess.run([script, "help"], check=True, capture_output=True, text=True).stdout


def beside_torch():
    import torch
    torch.manual_seed(0)
    net, x = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.GELU(), torch.nn.Linear(8, 3)), torch.randn(4, 6)
    compiled = torch.compile(net, backend="cresset")
    assert close(compiled(x), net(x))
    compiled(x).square().mean().backward()
    found = net[0].weight.grad.clone()
    net.zero_grad()
    net(x).square().mean().backward()
    assert close(found, net[0].weight.grad) and found.abs().sum() > 0


def main():
    with tempfile.TemporaryDirectory() as folder:
        without_torch(pathlib.Path(folder))
    torch = "torch" in sys.argv[1:]
    if torch:
        beside_torch()
    where = " beside torch" if torch else ", alone"
    print(f"cresset {cresset.__version__} works on CPython {sys.version.split()[0]}{where}")


if __name__ == "__main__":
    main()
