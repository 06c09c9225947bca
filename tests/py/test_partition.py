"""Joint graphs in two parts: flows against networkx, what the five training models save, and that both parts compute
what the joint graph does. tests/unit/test_partition.c has the cases by hand."""
import json
import os
import pathlib
import random
import subprocess
import sys

import cresset
import pytest
from cresset import _C

torch = pytest.importorskip("torch", reason="networkx comes with it, and the models are its")

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
import models  # noqa: E402

STEP = pathlib.Path(os.environ["CRESSET_BUILD"]) / "bin" / "step"
NAMES = [make.__name__ for make in models.TRAINED]
# Megabytes that the cut may save: what a cut without products, convolutions, attention and pooling saves.
LARGEST = dict(pointwise=0, mlp8=2.10, resnet18=12.35, bert=47.65, llama=38.57)
HEAVY = ("linear", "mm", "bmm", "addmm", "convolution", "attention")


def step(*words, text=None):
    done = subprocess.run([STEP, *map(str, words)], input=text, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def archive(bench_model, folder, name, small):
    model, args = bench_model(name, small, training=True)
    program = torch.export.export(model, args)
    if not small:  # sizes are all that counts: weights of one number each
        for key, tensor in program.state_dict.items():
            one = torch.zeros((), dtype=tensor.dtype).expand(tensor.shape)
            program.state_dict[key] = torch.nn.Parameter(one) if isinstance(tensor, torch.nn.Parameter) else one
    path = folder / f"{name}.pt2"
    torch.export.save(program, path)
    return path


def test_flows_equal_networkx():
    networkx = pytest.importorskip("networkx")
    choose = random.Random(7)
    graphs = []
    for number in range(500):
        n = choose.randint(2, 40)
        chance = choose.choice([0.08, 0.3, 0.8])
        graphs.append([(i, k, choose.randint(0, 50)) for i in range(n) for k in range(n)
                       if i != k and choose.random() < chance])
        graphs[-1].insert(0, n)
    text = "\n".join(f"{n} {len(edges)}\n" + "\n".join(f"{i} {k} {c}" for i, k, c in edges) for n, *edges in graphs)
    found = list(map(int, step("flow", text=text)))
    wanted = []
    for n, *edges in graphs:
        graph = networkx.DiGraph()
        graph.add_nodes_from(range(n))
        graph.add_weighted_edges_from(edges, weight="capacity")
        wanted.append(networkx.maximum_flow_value(graph, 0, n - 1))
    assert len(found) == 500 and found == wanted


@pytest.mark.parametrize("name", NAMES)
def test_models_save_no_more_than_the_bar(bench_model, tmp_path, name):
    budgets = [0.8, 0.6, 0.4, 0.2, 0]
    path = archive(bench_model, tmp_path, name, small=False)
    joint, plain, *curve = map(json.loads, step("partition", path, "default", "1", *budgets))
    report = curve[0]["report"]
    assert report["saved_bytes"] <= LARGEST[name] * 1e6 + 5e3  # the bar has two digits
    assert report["saved_bytes"] < plain["report"]["saved_bytes"]
    assert not [node for node in report["recomputed"] if any(word in node["op"] for word in HEAVY)]
    assert report["recomputed_flops"] == 0
    for more, less, budget in zip(curve, curve[1:], budgets):
        assert less["report"]["saved_bytes"] <= more["report"]["saved_bytes"]
        assert less["report"]["recomputed_flops"] >= more["report"]["recomputed_flops"]
        assert less["report"]["saved_bytes"] <= budget * report["saved_bytes"]


@pytest.mark.parametrize("name", NAMES)
def test_parts_compute_the_joint_graph(bench_model, tmp_path, name):
    assert len(step("check", archive(bench_model, tmp_path, name, small=True), "default", "1", "0.5", "0")) == 4


def test_parts_of_a_recorded_function_run_one_after_the_other():
    def fn(x, w):
        return cresset.nn.functional.layer_norm((x @ w).sigmoid() * x[:, :3], (3,)).exp()

    x, w = cresset.randn(5, 4), cresset.randn(4, 3)
    graph, _ = _C._functionalize(_C.record(fn, (x, w), None))
    joint, primals, results, of = _C._differentiate(graph)
    tangent = cresset.randn(5, 3)
    wanted = joint.run(x, w, tangent)
    bytes_saved = []
    for how in (dict(kind="default"), dict(), dict(budget=0.0), dict(recompute=[(0, 1000)])):
        forward, backward, saved, numbers, report = _C._partition(joint, primals, results, **how)
        first = forward.run(x, w)
        kept = first[results:]
        assert len(kept) == saved + numbers
        second = backward.run(*kept[saved:], *kept[:saved], tangent)
        assert all(cresset.equal(a, b) for a, b in zip((*first[:results], *second), wanted))
        bytes_saved.append(json.loads(report)["saved_bytes"])
    assert bytes_saved[0] > bytes_saved[1] > bytes_saved[2] == bytes_saved[3] == 0
    with pytest.raises(ValueError, match="activation_memory_budget is 2"):
        _C._partition(joint, primals, results, budget=2.0)
    with pytest.raises(ValueError, match="'min_cut' or 'default'"):
        _C._partition(joint, primals, results, kind="best")
    with pytest.raises(ValueError, match="3 inputs"):
        _C._partition(joint, 7, results)
