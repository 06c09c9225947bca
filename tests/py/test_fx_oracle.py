"""cresset.fx beside torch.fx: the same edits on the same graphs give the same nodes, names, errors and code."""
import operator

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is what they are compared with")

import cresset  # noqa: E402
import cresset.fx  # noqa: E402


def built(t):
    g = t.fx.Graph()
    x, y = g.placeholder("x"), g.placeholder("y", default_value=2)
    a = g.call_function(t.ops.aten.relu.default, (x,))
    b = g.call_function(t.ops.aten.relu.default, (a,))
    c = g.call_function(operator.add, (a, b))
    d = g.call_method("sum", (c,), {"dim": 0})
    e = g.call_function(t.ops.aten.add.Tensor, (d, y), {"alpha": 3})
    g.output((e, [c]))
    return g


def insert_before(t, g):
    add = g.find_nodes(op="call_function", target=operator.add)[0]
    with g.inserting_before(add):
        g.call_function(t.ops.aten.sin.default, (add.args[0],))
        g.call_function(t.ops.aten.cos.default, (add.args[0],))


def insert_after(t, g):
    x = next(iter(g.nodes))
    with g.inserting_after(x):
        g.call_function(t.ops.aten.sin.default, (x,))
        g.call_function(t.ops.aten.cos.default, (x,))


def insert_first(t, g):
    with g.inserting_before():
        g.placeholder("x")


def swap(t, g):
    for node in list(g.nodes):
        if node.target is t.ops.aten.relu.default:
            with g.inserting_after(node):
                new = g.call_function(t.ops.aten.gelu.default, node.args)
            node.replace_all_uses_with(new)
            g.erase_node(node)


def kept_user(t, g):
    first, second = [n for n in g.nodes if n.target is t.ops.aten.relu.default]
    first.replace_all_uses_with(next(iter(g.nodes)), delete_user_cb=lambda user: user is not second)


def dead(t, g):
    insert_before(t, g)
    assert g.eliminate_dead_code() is True and g.eliminate_dead_code() is False


def erase_used(t, g):
    g.erase_node(next(iter(g.nodes)))


def misplaced(t, g):
    nodes = list(g.nodes)
    nodes[-1].append(nodes[2])
    g.lint()


def foreign(t, g):
    g.call_function(t.ops.aten.sin.default, (t.fx.Graph().placeholder("z"),))
    g.lint()


def unknown_op(t, g):
    g.create_node("call", "x")


def changed_list(t, g):
    g.output_node().args[0][1].append(3)


def unknown_attribute(t, g):
    t.fx.GraphModule({}, t.fx.Graph()).graph.owning_module.graph.get_attr("w")
    t.fx.GraphModule({}, g).graph.inserting_before(None)
    g.get_attr("no.such")
    t.fx.GraphModule({}, g)


def arguments(t, g):
    add = g.find_nodes(op="call_function", target=operator.add)[0]
    add.update_arg(0, 4)
    add.insert_arg(1, 5)
    add.update_kwarg("k", add.all_input_nodes[0])
    add.args = add.args[:1] + add.args[2:]
    add.kwargs = {}


def copied(t, g):
    other = t.fx.Graph()
    other.output(other.graph_copy(g, {}))
    assert str(other) == str(g)
    g.node_copy(next(iter(g.nodes)))


EDITS = [insert_before, insert_after, insert_first, swap, kept_user, dead, erase_used, misplaced, foreign, unknown_op,
         changed_list, unknown_attribute, arguments, copied]


def outcome(t, edit):
    g = built(t)
    try:
        edit(t, g)
        error = None
    except Exception as raised:
        error = type(raised).__name__
    users = [(n.name, [user.name for user in n.users], [used.name for used in n.all_input_nodes]) for n in g.nodes]
    return error, users, str(g).replace("torch.ops", "cresset.ops").replace("_operator.", "operator.")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.__name__)
def test_same_edits(edit):
    assert outcome(cresset, edit) == outcome(torch, edit)


def test_same_code():
    codes = [t.fx.GraphModule({}, built(t)).code for t in (cresset, torch)]
    assert codes[0].split("def ")[1].replace("cresset", "torch").split() == codes[1].split("def ")[1].split()


def test_same_results():
    results = []
    for t in (cresset, torch):
        g = built(t)
        swap(t, g)
        gm = t.fx.GraphModule({}, g)
        x = t.arange(6.0).reshape(2, 3) - 2
        results += [[gm(x)[0].tolist(), gm(x, 5)[1][0].tolist(), t.fx.Interpreter(gm).run(x, 1)[0].tolist()]]
    flat = [[v for part in result for row in part for v in (row if isinstance(row, list) else [row])]
            for result in results]
    assert flat[0] == pytest.approx(flat[1], rel=1e-5)
