"""Exported graphs against PyTorch's: the same programs (programs.py), the same text. Features X1, X2, X5, X6, X8,
O13."""
import re
import warnings

import export_programs as programs
import pytest

import cresset


def _shown(library, name):
    """print(ep) without source lines, and what it does not show."""
    library.manual_seed(0)
    module, args, kwargs, dynamic_shapes = programs.PROGRAMS[name](library)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ep = library.export.export(module, args, kwargs, dynamic_shapes=dynamic_shapes)
    text = re.sub(r"\n *\n( *# (File|No stack)[^\n]*\n)", "\n", str(ep))
    text = re.sub(r"\n *# (File|No stack)[^\n]*", "", text)
    # the attribute's own name is not kept here
    text = re.sub(r"submod_\d+( = self\.submod|,|  =|)", lambda found: "submod" + found[1], text)
    calls = [(entry.fqn, entry.signature and list(entry.signature.forward_arg_names)) for entry in ep.module_call_graph]
    stacks = [[list(place) for place in node.meta["nn_module_stack"].values()] for node in ep.graph.nodes
              if node.op == "call_function" and "sym_size" not in node.name]
    traces = [re.findall(r'line \d+, in (\w+)\n +(.*)', node.meta.get("stack_trace") or "")[:1]
              for node in ep.graph.nodes if node.op == "call_function"]
    lines = text.replace("cresset.", "torch.").splitlines()
    return {"text": lines, "constants": list(ep.constants), "state": list(ep.state_dict),
            "calls": [list(call) for call in calls],
            "stacks": [[[path, kind.replace("cresset.", "torch.")] for path, kind in stack] for stack in stacks],
            "traces": [[list(line) for line in trace] for trace in traces]}


@pytest.mark.parametrize("name", list(programs.PROGRAMS))
def test_the_same_program_gives_the_same_graph(name, oracle):
    ours, theirs = _shown(cresset, name), oracle("program", lambda torch: _shown(torch, name))
    for part in ("text", "constants", "state", "calls"):
        assert ours[part] == theirs[part], part
    if name != "tied_modules":  # PyTorch follows the attribute that was read, here a module has one path
        assert ours["stacks"] == theirs["stacks"]
    if name != "no_grad_region":
        assert ours["traces"] == theirs["traces"]


@pytest.mark.parametrize("name", [name for name in programs.PROGRAMS if name not in ("factories", "sequential")])
def test_the_program_computes_what_the_module_does(name):
    module, args, kwargs, dynamic_shapes = programs.PROGRAMS[name](cresset)
    ep = cresset.export.export(module, args, kwargs, dynamic_shapes=dynamic_shapes)
    cresset.manual_seed(0)
    state = {key: value.clone() for key, value in ep.state_dict.items()}
    copies = cresset.utils._pytree.tree_map_only(cresset.Tensor, lambda tensor: tensor.clone(), (args, kwargs or {}))
    got = cresset.utils._pytree.tree_leaves(ep.module()(*args, **(kwargs or {})))
    got = [leaf.clone() if isinstance(leaf, cresset.Tensor) else leaf for leaf in got]
    for key, value in state.items():
        with cresset.no_grad():
            ep.state_dict[key].copy_(value)
    cresset.manual_seed(0)
    expected = cresset.utils._pytree.tree_leaves(module(*copies[0], **copies[1]))
    assert len(got) == len(expected)
    for ours, theirs in zip(got, expected):
        if isinstance(ours, cresset.Tensor):
            assert cresset.allclose(ours.float(), theirs.float()) and ours.dtype == theirs.dtype
        else:
            assert ours == theirs
