"""Arguments that PyTorch's functions take: each works, or is refused by its name. tools/lint.py finds those that nobody
reads."""
import contextlib

import pytest

import cresset as torch
from cresset import library, nn
from cresset.export import export, save
from cresset.utils.checkpoint import checkpoint, checkpoint_sequential


def test_aot_compile_refuses_by_name(tmp_path):
    ep = export(nn.ReLU(), (torch.ones(2),))
    save(ep, tmp_path / "relu.pt2")
    for f, given in ((nn.ReLU(), (torch.ones(2),)), (ep, ()), (str(tmp_path / "relu.pt2"), ())):
        with pytest.raises(NotImplementedError, match="remove_runtime_assertions=True"):
            torch.aot_compile(f, given, remove_runtime_assertions=True)
        with pytest.raises(NotImplementedError, match="disable_constraint_solver=True"):
            torch.aot_compile(f, given, disable_constraint_solver=True)
        with pytest.raises(NotImplementedError, match="same_signature=False"):
            torch.aot_compile(f, given, same_signature=False)
    path = torch.aot_compile(ep, remove_runtime_assertions=False, disable_constraint_solver=False, same_signature=True,
                             options={"output_path": str(tmp_path / "relu.so")})
    assert torch.aot_load(path)(torch.tensor([-1.0, 2.0])).tolist() == [0.0, 2.0]


@pytest.mark.parametrize("make", [
    lambda t: t.tensor([1.0], pin_memory=True), lambda t: t.ones(2, pin_memory=True),
    lambda t: t.empty(2, pin_memory=True),
    lambda t: t.zeros_like(t.ones(2), pin_memory=True), lambda t: t.arange(3, pin_memory=True),
    lambda t: t.ones(2).new_full((2,), 1.0, pin_memory=True)])
def test_pin_memory(make, oracle):
    assert oracle(0, lambda torch: _raised(lambda: make(torch))) == "RuntimeError"
    with pytest.raises(RuntimeError, match="pin_memory=True"):
        make(torch)
    assert torch.ones(1, pin_memory=False).tolist() == [1.0]


def _raised(call):
    try:
        call()
    except Exception as error:  # noqa: BLE001 - its class is the answer
        return type(error).__name__
    return None


def test_deterministic_algorithms():
    try:
        torch.use_deterministic_algorithms(True, warn_only=True)
        assert torch.are_deterministic_algorithms_enabled() and torch.is_deterministic_algorithms_warn_only_enabled()
        torch.use_deterministic_algorithms(True)
        assert (torch.are_deterministic_algorithms_enabled()
                and not torch.is_deterministic_algorithms_warn_only_enabled())
    finally:
        torch.use_deterministic_algorithms(False)
    assert not torch.are_deterministic_algorithms_enabled()


def test_print_readable():
    unflattened = torch.export.unflatten(export(nn.Sequential(nn.ReLU()), (torch.ones(2),)))
    assert "relu" in unflattened.print_readable(print_output=False)
    for name in ("include_stride", "include_device", "colored"):
        with pytest.raises(NotImplementedError, match=name):
            unflattened.print_readable(print_output=False, **{name: True})


def test_library_arguments():
    with pytest.raises(NotImplementedError, match="tags"):
        library.define("arguments::tagged", "(Tensor x) -> Tensor", tags=("pt2_compliant_tag",))
    with pytest.raises(NotImplementedError, match="tags"):
        library.custom_op("arguments::tagged", mutates_args=(), tags=("a",))
    owner = library.Library("arguments", "FRAGMENT")
    with pytest.raises(NotImplementedError, match="alias_analysis='CONSERVATIVE'"):
        owner.define("conservative(Tensor x) -> Tensor", alias_analysis="CONSERVATIVE")
    owner.define("f(Tensor x) -> Tensor", alias_analysis="FROM_SCHEMA")
    with pytest.raises(NotImplementedError, match="with_keyset"):
        owner.impl("f", lambda keys, x: x, with_keyset=True)
    with pytest.raises(TypeError, match="lib is a Library"):
        library.impl("arguments::f", "cpu", lambda x: x + 1, lib="arguments")
    library.impl("arguments::f", "cpu", lambda x: x + 1)
    library.register_fake("arguments::f", torch.empty_like)
    with pytest.raises(RuntimeError, match="has a fake rule already"):
        library.register_fake("arguments::f", torch.empty_like, allow_override=False)
    f, x = torch.ops.arguments.f, torch.ones(2)
    assert f(x).tolist() == [2.0, 2.0]
    # what is registered with a library goes with it
    visitor = library.Library("arguments", "IMPL")
    library.register_kernel("arguments::f", "cpu", lambda x: x + 10, lib=visitor)
    library.register_fake("arguments::f", lambda x: x.new_empty(5), lib=visitor)
    assert f(x).tolist() == [11.0, 11.0] and list(f(torch.fake(x)).shape) == [5]
    visitor._destroy()
    assert f(x).tolist() == [2.0, 2.0] and list(f(torch.fake(x)).shape) == [2]


def test_checkpoint_arguments():
    seen = []

    @contextlib.contextmanager
    def context(name):
        seen.append(name)
        yield
        seen.append("-" + name)
    assert checkpoint(lambda a: a + 1, 1, use_reentrant=False,
                      context_fn=lambda: (context("forward"), context("again"))) == 2
    assert seen == ["forward", "-forward"]
    with pytest.raises(ValueError, match="context_fn"):
        checkpoint(lambda a: a, 1, use_reentrant=True, context_fn=lambda: (context("a"), context("b")))
    with pytest.raises(ValueError, match="determinism_check"):
        checkpoint(lambda a: a, 1, use_reentrant=False, determinism_check="sometimes")
    with pytest.raises(ValueError, match="Unexpected keyword arguments: speed"):
        checkpoint_sequential([lambda a: a + 1], 1, 3, True, speed=2)
    with pytest.raises(ValueError, match="1 to 2 segments, not 3"):
        checkpoint_sequential([lambda a: a + 1, lambda a: a * 2], 3, 3, True)


def test_packed_sequence_cpu():
    packed = nn.utils.rnn.pack_sequence([torch.ones(2, 3), torch.ones(1, 3)])
    assert packed.cpu().data.dtype == torch.float32 and packed.cpu(torch.float64).data.dtype == torch.float64
    assert packed.cpu(dtype=torch.float16).data.dtype == torch.float16
