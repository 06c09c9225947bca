"""X2: the module of a program is exported again: the same calls, names, state and module paths."""
import cresset as torch
from cresset.export import Dim, export


class Inner(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x, scale=1.0, *, shift):
        self.calls.add_(1)
        return self.linear(x) * scale + shift


class Outer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()

    def forward(self, x, shift):
        return self.inner(x, 2.0, shift=shift).relu()


def test_exported_again():
    batch = {"x": {0: Dim("batch", min=1, max=9)}, "shift": None}
    x, shift = torch.randn(4, 4), torch.randn(3)
    first = export(Outer(), (x, shift), dynamic_shapes=batch)
    again = export(first.module(), (x,), {"shift": shift}, dynamic_shapes=batch)
    assert [node.name for node in again.graph.nodes] == [node.name for node in first.graph.nodes]
    assert [spec.target for spec in again.graph_signature.input_specs] == [spec.target
            for spec in first.graph_signature.input_specs]
    paths = [[path for path, _ in node.meta["nn_module_stack"].values()] for node in again.graph.nodes
             if node.op == "call_function"]
    assert ["", "inner", "inner.linear"] in paths
    for n in (1, 4, 9):
        x = torch.randn(n, 4)
        assert torch.equal(again.module()(x, shift=shift), first.module()(x, shift))
    # both run on the same tensors, as PyTorch's do
    assert again.state_dict["inner.calls"] is first.state_dict["inner.calls"]
    assert first.module().inner.calls.item() == 6
