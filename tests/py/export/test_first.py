"""export() of modules that are no cresset.nn.Module but have its protocol."""
import cresset as torch


class Parameter(torch.Tensor):
    pass


class Small:
    """Two parameters, a buffer that calls change, a tensor attribute."""
    _modules, _non_persistent_buffers_set = {}, set()

    def __init__(self):
        self._parameters = {"weight": Parameter(torch.ones(3, 3)), "bias": Parameter(torch.zeros(3))}
        self._buffers = {"count": torch.zeros(())}
        self.scale = torch.tensor([1.0, 2.0, 3.0])

    def named_modules(self, remove_duplicate=True):
        return [("", self)]

    def named_parameters(self, remove_duplicate=True):
        return self._parameters.items()

    def named_buffers(self, remove_duplicate=True):
        return self._buffers.items()

    def __call__(self, *args, **kwargs):
        return self.forward(*args, **kwargs)

    def forward(self, x, *, power=2):
        self._buffers["count"].add_(1)
        y = torch.ops.aten.linear(x, self._parameters["weight"], self._parameters["bias"]) * self.scale
        return y ** power, self._buffers["count"]


def test_a_module_becomes_a_program():
    module = Small()
    x = torch.randn(2, 3)
    ep = torch.export.export(module, (x,), {"power": 3})
    ep.validate()
    assert [(spec.kind.name, spec.arg.name, spec.target) for spec in ep.graph_signature.input_specs] == [
        ("PARAMETER", "p_weight", "weight"), ("PARAMETER", "p_bias", "bias"), ("BUFFER", "b_count", "count"), ("CONSTANT_TENSOR", "c_scale", "scale"),
        ("USER_INPUT", "x", None), ("USER_INPUT", "power", None)]
    assert [node.name for node in ep.graph.nodes if node.op == "call_function"] == ["add_", "linear", "mul", "pow_1"]
    assert ep.graph_signature.user_outputs == ("pow_1", "add_")
    assert ep.state_dict["weight"] is module._parameters["weight"]
    assert float(module._buffers["count"]) == 0
    y, count = ep.module()(x, power=3)
    assert float(count) == 1
    assert torch.equal(y, module(x, power=3)[0])


def test_nodes_say_where_they_come_from():
    ep = torch.export.export(Small(), (torch.randn(2, 3),))
    node = next(node for node in ep.graph.nodes if node.name == "linear")
    assert node.meta["stack_trace"].endswith('y = torch.ops.aten.linear(x, self._parameters["weight"], self._parameters["bias"]) * self.scale')
