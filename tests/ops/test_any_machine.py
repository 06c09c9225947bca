"""The oracle's answer does not depend on the processor it runs on (harness.any_machine)."""
import os
import sys

import pytest

sys.path.insert(0, os.path.dirname(__file__))
torch = pytest.importorskip("torch", reason="the oracle is what is tested")

import harness  # noqa: E402


@pytest.mark.parametrize("dtype, path", ((torch.float16, False), (torch.complex32, False), (torch.float32, True)))
def test_onednn_is_off_for_halves_alone(dtype, path, monkeypatch):
    monkeypatch.setattr(harness, "halves_have_a_path", lambda: True)
    seen = harness.attempt(lambda x, y: torch.backends.mkldnn.enabled, (torch.ones(2, dtype=dtype),), {"y": [1]})
    assert seen is path
    assert torch.backends.mkldnn.enabled
    assert isinstance(harness.attempt(lambda x: 1 // 0, (torch.ones(2, dtype=dtype),), {}), harness.Refused)
    assert torch.backends.mkldnn.enabled


def test_strides_of_float16_convolutions():
    x = torch.randn(2, 3, 4, 5, 6).half().to(memory_format=torch.channels_last_3d)
    w = torch.randn(4, 3, 2, 2, 2).half()
    answer = harness.attempt(torch.ops.aten.conv3d.default, (x, w), {})
    ours = harness.cresset.ops.aten.conv3d(harness.ours(x), harness.ours(w))
    assert answer.stride() == tuple(ours.stride()) == (240, 60, 20, 5, 1)
