"""X2, A11: one source, run with `torch` bound to either library: exported and decomposed, the programs consist of the
same calls."""
import pathlib
import sys
import textwrap
import warnings

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
torch = pytest.importorskip("torch", reason="the programs are exported by PyTorch, too")

import cresset  # noqa: E402
import cresset.export  # noqa: E402
import op_agreement  # noqa: E402

# name: (members, arguments, dynamic_shapes or None, the body of forward)
SOURCES = {
    "classifier": ("s.c, s.b, s.l = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.Linear(128, 5)",
                   "torch.ones(2, 3, 8, 8)", None,
                   "return s.l(torch.flatten(F.max_pool2d(F.relu(s.b(s.c(x))), 2), 1))"),
    "encoder": ("s.e = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True); s.eval()", "torch.ones(3, 4, 16)",
                "{0: torch.export.Dim('b', min=2, max=64)}", "return s.e(x)"),
    "attention": ("s.a = nn.MultiheadAttention(8, 2)", "torch.ones(4, 2, 8)", None, "return s.a(x, x, x)"),
    "recurrent": ("s.r = nn.GRU(4, 3, 2, batch_first=True)", "torch.ones(2, 4, 4)", None, "return s.r(x)"),
    "state": ("s.register_buffer('n', torch.zeros(())); s.register_buffer('m', torch.zeros(3))", "torch.ones(2, 3)",
              None,
              "s.n.add_(1); s.m.mul_(0.9).add_(x.mean(0), alpha=0.1); return x * s.n + s.m"),
    "writes": ("pass", "torch.ones(3, 3)", None, "y = x.clone(); y.mul_(2); y[0].add_(1); y.t().relu_(); "
               "y.view(-1)[1:3].zero_(); x.add_(1); return y, x[y > 0]"),
    "activations": ("pass", "torch.ones(2, 4)", None,
                    "return F.elu(x), F.celu(x), F.softplus(x), F.mish(x), F.hardswish(x), F.logsigmoid(x), F.gelu(x), "
                    "F.glu(x), F.silu(x), F.softshrink(x)"),
    "sizes": ("pass", "torch.ones(3, 4)", "{0: torch.export.Dim('b', min=2, max=64)}",
              "return x.view(x.shape[0], -1) * 2, x.reshape(-1), torch.cat([x, x]), x.shape[0] * 2, x[:2], "
              "x.unsqueeze(0).expand(3, -1, -1)"),
}


def program(library, name):
    """(module, args, dynamic_shapes)"""
    members, args, dynamic, body = SOURCES[name]
    scope = {"torch": library, "nn": library.nn, "F": library.nn.functional}
    exec(textwrap.dedent(f"""
        class {name.title()}(nn.Module):
            def __init__(s):
                super().__init__()
                {members}

            def forward(s, x):
                {body}
    """), scope)
    return scope[name.title()](), (eval(args, scope),), None if dynamic is None else (eval(dynamic, scope),)


@pytest.mark.parametrize("name", SOURCES)
def test_the_same_calls(name, tmp_path):
    module, args, dynamic = program(torch, name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.export.save(torch.export.export(module, args, dynamic_shapes=dynamic).run_decompositions(),
                          tmp_path / "there.pt2")
    there = cresset.export.load(tmp_path / "there.pt2")
    module, args, dynamic = program(cresset, name)
    here = cresset.export.export(module, args, dynamic_shapes=dynamic).run_decompositions()
    assert op_agreement.difference(here._program.graph._data(), there._program.graph._data()) is None
    assert [(spec.kind.name, spec.arg.name, spec.target) for spec in here.graph_signature.input_specs] == \
        [(spec.kind.name, spec.arg.name, spec.target) for spec in there.graph_signature.input_specs]
    assert [(spec.kind.name, spec.target) for spec in here.graph_signature.output_specs] == [(spec.kind.name,
            spec.target) for spec in there.graph_signature.output_specs]


def test_decomposed_here_loads_there(tmp_path):
    """P1: PyTorch loads and runs what was exported, decomposed and saved here."""
    module, args, _ = program(cresset, "state")
    program_here = cresset.export.export(module, args).run_decompositions()
    cresset.export.save(program_here, tmp_path / "here.pt2")
    loaded = torch.export.load(tmp_path / "here.pt2").module()
    ours = program_here.module()
    for _ in range(2):
        assert loaded(torch.ones(2, 3)).flatten().tolist() == pytest.approx(ours(*args).flatten().tolist())
