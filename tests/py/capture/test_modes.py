"""E1: mode and options of compile(): each makes the code that it stands for. E7: the limit of a code object."""
import re
import warnings

import pytest

import cresset
import cresset._dynamo as dynamo
from cresset import nn
from cresset._dynamo import config, options

pytestmark = pytest.mark.skipif(not dynamo.is_dynamo_supported(), reason="capture does not know this Python")


def mixed(x):
    return (x @ x).relu() + 1


def tier_of(compiled):
    compiled._wait()
    return compiled._entries()[0]["tier"]


# what is given, and what says of the code that it was followed
TIERS = {
    "default": ({"mode": "default"}, "native"),
    "reduce-overhead": ({"mode": "reduce-overhead"}, "native, 1 thread"),
    "max-autotune": ({"mode": "max-autotune"}, r"native, tuned: \d+ threads?"),
    "max-autotune-no-cudagraphs": ({"mode": "max-autotune-no-cudagraphs"}, r"native, tuned: \d+ threads?"),
    "no options": ({"options": {}}, "native"),
    "threads": ({"options": {"cpp.threads": 2}}, "native, 2 threads"),
    "all threads": ({"options": {"cpp.threads": -1}}, "native"),
    "tuned": ({"options": {"max_autotune": True}}, r"native, tuned: \d+ threads?"),
    "alone": ({"options": {"triton.cudagraphs": True}}, "native, 1 thread"),
    "this processor": ({"options": {"target": "native", "cpp.threads": 1}}, "native, 1 thread"),
    "switched off": ({"options": {"max_autotune": False, "triton.cudagraphs": False, "wait": False}}, "native"),
}


@pytest.mark.parametrize("name", TIERS)
def test_modes_and_options(name):
    given, tier = TIERS[name]
    x = cresset.randn(8, 8)
    compiled = cresset.compile(mixed, **given)
    for _ in range(2):
        assert cresset.allclose(compiled(x), mixed(x), rtol=1e-4)
        assert re.fullmatch(tier, tier_of(compiled))


def test_wait_has_native_code_at_the_first_call():
    compiled = cresset.compile(mixed, options={"wait": True})
    compiled(cresset.randn(4, 4))
    assert compiled._entries()[0]["tier"] == "native"


@pytest.mark.parametrize("size", [0, 1, 2])
def test_tuned_code_of_small_sizes_and_gradients(size):
    x, y = (cresset.ones(size, size, requires_grad=True) for _ in range(2))
    compiled = cresset.compile(mixed, mode="max-autotune")
    compiled(x).sum().backward()
    mixed(y).sum().backward()
    assert "native" in tier_of(compiled) and cresset.equal(x.grad, y.grad)


def test_open_sizes_are_not_tuned():
    compiled = cresset.compile(mixed, mode="max-autotune", dynamic=True)
    assert cresset.allclose(compiled(cresset.ones(4, 4)), mixed(cresset.ones(4, 4)))
    assert tier_of(compiled) == "native"


def test_loops_which_zeros_would_not_end_are_not_tuned():
    def doubled(x):
        return cresset.while_loop(lambda v: v.sum() < 100, lambda v: (v * 2,), (x,))[0]

    compiled = cresset.compile(doubled, mode="max-autotune", fullgraph=True)
    assert cresset.equal(compiled(cresset.ones(4)), cresset.full((4,), 32.0))
    assert tier_of(compiled) == "native"


def test_modules_and_copies_keep_their_mode():
    import copy
    compiled = cresset.compile(nn.Linear(4, 4), mode="reduce-overhead")
    for module in (compiled, copy.deepcopy(compiled)):
        module(cresset.ones(2, 4))
        assert tier_of(module.__dict__["_compiled"]) == "native, 1 thread"


def test_backends_in_python_are_given_both():
    seen = []

    def backend(gm, example_inputs, **given):
        seen.append(given)
        return gm
    for given in ({"mode": "quick"}, {"options": {"level": 3}}, {"mode": "default"}, {"options": {}}):
        cresset.compile(lambda x: x + 1, backend=backend, **given)(cresset.ones(1))
    assert seen == [{"mode": "quick"}, {"options": {"level": 3}}, {}, {}]

    def other(gm, example_inputs):
        return gm
    with pytest.raises(dynamo.exc.BackendCompilerFailed, match="'other' raised TypeError.*'mode'"):
        cresset.compile(lambda x: x + 1, backend=other, mode="quick")(cresset.ones(1))


def test_a_backend_without_code_says_that_a_mode_changes_nothing():
    with pytest.warns(RuntimeWarning, match="'eager' makes no code: mode='max-autotune' changes nothing"):
        cresset.compile(mixed, backend="eager", mode="max-autotune")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cresset.compile(mixed, backend="eager", mode="default")


def test_lists():
    assert options.list_mode_options("reduce-overhead") == {"triton.cudagraphs": True}
    assert set(options.list_mode_options()) == {"default", "reduce-overhead", "max-autotune-no-cudagraphs",
                                                "max-autotune"}
    assert all(name in options.list_options() for chosen in options.list_mode_options().values() for name in chosen)


def test_a_code_object_is_captured_so_often_by_all_who_compile_it():
    def counted(x):
        return x + 1
    x = cresset.ones(1)
    with config.patch(accumulated_recompile_limit=3):
        made = [cresset.compile(counted, backend="eager", dynamic=False) for _ in range(5)]
    with pytest.warns(RuntimeWarning, match=r"counted.* 3 times, the limit of its code .*accumulated_recompile_limit"):
        assert [compiled(x).item() for compiled in made] == [2] * 5
    assert [compiled._counts()["captures"] for compiled in made] == [1, 1, 1, 0, 0]
    made[0]._reset()  # which makes room for another
    made[3](x)
    assert made[3]._counts()["captures"] == 1


def test_the_limit_of_a_code_object_holds_for_places_behind_breaks():
    def breaks(x, n):
        for _ in range(n):
            x = x + 1
            dynamo.graph_break()
        return x
    with config.patch(accumulated_recompile_limit=2):
        compiled = cresset.compile(breaks, backend="eager")
    with pytest.warns(RuntimeWarning, match="accumulated_recompile_limit"):
        assert compiled(cresset.ones(1), 5).item() == 6
    assert len([e for e in compiled._entries() if e["code"] is breaks.__code__]) == 2
    assert config.accumulated_cache_size_limit == config.accumulated_recompile_limit == 256
