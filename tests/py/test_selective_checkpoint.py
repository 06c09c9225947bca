"""Selective checkpoints: policies see the ops that PyTorch's do, what they save is not computed again, in eager code
and in graphs that are compiled ahead of time."""
import collections
import functools

import cresset
import pytest

from cresset import _C, nn
from cresset._functorch.aot_autograd import aot_function, default_partition, min_cut_rematerialization_partition
from cresset.utils import checkpoint as ours
from cresset.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

aten = cresset.ops.aten


def selective(policy, fn, *args, **options):
    contexts = functools.partial(create_selective_checkpoint_contexts, policy, **options)
    return checkpoint(fn, *args, use_reentrant=False, context_fn=contexts)


def leaves(*shapes):
    cresset.manual_seed(1)
    return [cresset.rand(shape).requires_grad_() for shape in shapes]


def grads(loss, inputs):
    return [g.tolist() for g in cresset.autograd.grad(loss, inputs)]


def counted(fn):
    """What fn gives, and how often each op was carried out meanwhile."""
    seen = collections.Counter()
    _C._push_watch(lambda op, made, args, kwargs: seen.update([str(op)]), None)
    try:
        return fn(), seen
    finally:
        _C._pop_watch()


def block(x, w):
    return ((x @ w).sin() @ w).exp().sum()


# ---- against PyTorch ----

def layers(m, x, w, b):
    functional = m.nn.functional
    h = functional.layer_norm(functional.gelu(functional.linear(x, w, b)), (8,))
    h = m.matmul(functional.softmax(h @ w, -1).view(2, 4, 8), w.t())
    h = functional.linear(h, w, b).relu()
    return functional.scaled_dot_product_attention(h[None], h[None], h[None]).square().mean()


def test_policies_see_what_pytorchs_do():
    torch = pytest.importorskip("torch", reason="what its policies see is compared")
    import torch.utils.checkpoint as theirs
    start = [torch.rand(8, 8), torch.rand(8, 8), torch.rand(8)]

    def run(m, c):
        seen = []

        def policy(ctx, op, *args, **kwargs):
            assert not ctx.is_recompute and ctx.op_output is not None
            name = str(op)
            view = name in ("aten.view.default", "aten._unsafe_view.default", "aten.reshape.default")
            given = [tuple(a.shape) if isinstance(a, m.Tensor) else a for a in args]
            seen.append(("view" if view else name, given, kwargs))
            return c.CheckpointPolicy.MUST_SAVE if "mm" in name else c.CheckpointPolicy.PREFER_RECOMPUTE
        inputs = [m.tensor(t.tolist()).requires_grad_() for t in start]
        loss = c.checkpoint(functools.partial(layers, m), *inputs, use_reentrant=False,
                            context_fn=functools.partial(c.create_selective_checkpoint_contexts, policy))
        loss.backward()
        return seen, [torch.tensor(t.grad.tolist()) for t in inputs]

    (their_ops, want), (our_ops, got) = run(torch, theirs), run(cresset, ours)
    assert [name for name, *_ in our_ops] == [name for name, *_ in their_ops] and len(our_ops) > 15
    for (name, mine, _), (_, other, _) in zip(our_ops, their_ops):
        assert name == "view" or mine == other, name
    for a, b in zip(got, want):
        assert (a - b).abs().max() <= 1e-4 * b.abs().max()


def test_names_are_pytorchs():
    theirs = pytest.importorskip("torch.utils.checkpoint", reason="its names are compared")
    assert {p.name: p.value for p in theirs.CheckpointPolicy} == {p.name: p.value for p in CheckpointPolicy}
    for name in ("SelectiveCheckpointContext", "create_selective_checkpoint_contexts", "SAC_IGNORED_OPS"):
        assert hasattr(theirs, name) and name in ours.__all__


# ---- what is computed again ----

@pytest.mark.parametrize("policy", [
    [aten.mm.default],
    lambda ctx, op, *args, **kwargs: op == aten.mm.default,
    lambda ctx, op, *args, **kwargs: CheckpointPolicy.PREFER_SAVE if op == aten.mm.default
    else CheckpointPolicy.MUST_RECOMPUTE,
])
def test_what_is_saved_is_not_computed_again(policy):
    x, w = leaves((4, 4), (4, 4))
    plain = block(x, w)
    want, without = counted(lambda: grads(plain, (x, w)))
    whole = checkpoint(block, x, w, use_reentrant=False)
    got, again = counted(lambda: grads(whole, (x, w)))
    assert got == want and again["aten.mm.default"] == without["aten.mm.default"] + 2
    some = selective(policy, block, x, w)
    got, saved = counted(lambda: grads(some, (x, w)))
    assert got == want and saved["aten.sin.default"] == again["aten.sin.default"] > without["aten.sin.default"]
    assert saved["aten.mm.default"] == without["aten.mm.default"]


def test_random_numbers_may_be_saved():
    """Without the generator's state the second run draws others, but for those that are kept."""
    x, = leaves((50,))

    def fn(a):
        return (a * cresset.rand_like(a)).exp().sum()

    for policy in ([aten.rand_like.default], []):
        cresset.manual_seed(3)
        contexts = functools.partial(create_selective_checkpoint_contexts, policy)
        y = checkpoint(fn, x, use_reentrant=False, preserve_rng_state=False, context_fn=contexts)
        got = grads(y, (x,))
        cresset.manual_seed(3)
        assert (got == grads(fn(x), (x,))) == bool(policy)


def test_inside_of_each_other():
    x, w = leaves((3, 3), (3, 3))
    policy = [aten.mm.default]
    inner = lambda a, b: selective(policy, lambda a, b: (a @ b).cos(), a, b)  # noqa: E731
    y = selective(policy, lambda a, b: inner(a.sin(), b).exp() @ b, x, w).sum()
    assert grads(y, (x, w)) == grads((((x.sin() @ w).cos()).exp() @ w).sum(), (x, w))


def test_several_results_and_numbers():
    x, w = leaves((6, 4), (4, 4))

    def fn(a, b):
        top, at = a.topk(2)
        return (top.sin() @ b[at[0]]).sum() * top[0, 0].item()

    y = selective([aten.topk.default, aten.mm.default, aten.item.default], fn, x, w)
    assert grads(y, (x, w)) == grads(fn(x, w), (x, w))


def test_writes_happen_again():
    x, w = leaves((3, 3), (3, 3))

    def fn(a, b):
        y = (a @ b).sin()
        y.mul_(2)
        return (y * y).sum()

    assert grads(selective(lambda ctx, op, *args, **kwargs: op == aten.mm.default, fn, x, w), (x, w)) \
        == grads(fn(x, w), (x, w))


# ---- errors ----

def test_errors():
    x, w = leaves((3, 3), (3, 3))
    with pytest.raises(ValueError, match="aten.mm.default"):
        create_selective_checkpoint_contexts([aten.mm])
    with pytest.raises(ValueError, match="to be an OpOverload but got: mm"):
        create_selective_checkpoint_contexts(["mm"])
    with pytest.raises(TypeError, match="either a function or a list"):
        create_selective_checkpoint_contexts(3)
    y = selective([aten.mm.default], block, x, w)
    y.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="Trying to backward an extra time"):
        y.backward()

    def failing(ctx, op, *args, **kwargs):
        raise KeyError("policy")
    with pytest.raises(KeyError, match="policy"):
        selective(failing, block, x, w)
    assert (x * 2).sum().item() == pytest.approx(2 * x.sum().item())  # nothing watches any more


def test_other_ops_the_second_time():
    x, = leaves((3,))
    runs = []

    def fn(a):
        runs.append(None)
        return (a.sin().cos() if len(runs) == 1 else a.exp().cos()).sum()

    with pytest.raises(RuntimeError, match="aten.exp.default encountered during backward but not found in storage"):
        selective([aten.sin.default], fn, x).backward()


@pytest.mark.parametrize("allowed", [False, True])
def test_saved_and_then_written(allowed):
    x, = leaves((3,))

    def fn(a):
        y = a.sin()
        y.mul_(2)
        return y.sum()

    y = selective([aten.sin.default], fn, x, allow_cache_entry_mutation=allowed)
    if allowed:
        y.backward()
    else:
        with pytest.raises(RuntimeError, match="has been mutated.*allow_cache_entry_mutation"):
            y.backward()


# ---- ahead of time ----

def calls_of(graph, name):
    return sum(str(node.target).startswith(f"aten.{name}.") for node in graph.graph.nodes)


@pytest.mark.parametrize("partition", [default_partition, min_cut_rematerialization_partition])
def test_compiled_ahead_of_time(partition):
    """Of a region a policy keeps the products: those, and nothing else of it, are not in the backward graph again."""
    x, w = leaves((6, 6), (6, 6))
    want = grads(block(x, w), (x, w))
    made = {}
    for name, policy in {"plain": None, "all again": [], "products": [aten.mm.default]}.items():
        seen = []

        def compiler(graph, inputs):
            seen.append(graph)
            return graph
        fn = block if policy is None else functools.partial(selective, policy, block)
        for compile_by in (compiler, "native"):
            got = grads(aot_function(fn, compile_by, partition_fn=partition)(x, w), (x, w))
            assert all(cresset.allclose(cresset.tensor(a), cresset.tensor(b)) for a, b in zip(got, want))
        made[name] = {op: calls_of(seen[1], op) for op in ("mm", "sin")}
    assert made["all again"]["mm"] == made["plain"]["mm"] + 2 and made["products"]["mm"] == made["plain"]["mm"]
    assert made["products"]["sin"] == made["all again"]["sin"] == 1


def test_layers_ahead_of_time():
    """linear is addmm to a policy there, too."""
    x, w, b = leaves((5, 8), (8, 8), (8,))
    seen = set()

    def policy(ctx, op, *args, **kwargs):
        seen.add(op)
        return CheckpointPolicy.MUST_SAVE if op == aten.addmm.default else CheckpointPolicy.PREFER_RECOMPUTE

    def fn(x, w, b):
        return nn.functional.gelu(nn.functional.linear(x, w, b)).square().sum()

    for f in (functools.partial(selective, policy, fn), aot_function(functools.partial(selective, policy, fn), "nop")):
        seen.clear()
        got = grads(f(x, w, b), (x, w, b))
        assert aten.addmm.default in seen and aten.linear.default not in seen
        assert all(cresset.allclose(cresset.tensor(a), cresset.tensor(c)) for a, c in zip(got, grads(fn(x, w, b),
                                                                                                    (x, w, b))))


def test_other_contexts_have_no_second_run():
    class Context:
        def __enter__(self):
            return None

        def __exit__(self, *exception):
            return None

    x, = leaves((3,))
    f = aot_function(lambda x: checkpoint(lambda a: a.sin(), x, use_reentrant=False,
                                          context_fn=lambda: (Context(), Context())), "nop")
    with pytest.raises(NotImplementedError, match="context_fn"):
        f(x)
