"""Programs as people write them (everyday_*.py), plain and compiled: equal results, gradients, buffers, arguments
afterwards, versions, exceptions, prints, random numbers; and captures that end where they ended when this was written.
"""

import os
import sys

import pytest

torch = pytest.importorskip("torch", reason="these are PyTorch's programs")
sys.path.insert(0, os.path.dirname(__file__))
import cresset  # noqa: E402
import everyday  # noqa: E402
import everyday_functions  # noqa: E402, F401
import everyday_language  # noqa: E402, F401
import everyday_lives  # noqa: E402, F401
import everyday_loops  # noqa: E402, F401
import everyday_methods  # noqa: E402, F401
import everyday_models  # noqa: E402, F401
import everyday_modules  # noqa: E402, F401
import everyday_numbers  # noqa: E402, F401
import everyday_objects  # noqa: E402, F401
import everyday_pictures  # noqa: E402, F401
import everyday_policies  # noqa: E402, F401
import everyday_python  # noqa: E402, F401
import everyday_sound  # noqa: E402, F401
import everyday_training  # noqa: E402, F401
import everyday_views  # noqa: E402, F401
from cresset._torch import running  # noqa: E402


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def check(name, compile):
    function, _ = everyday.PROGRAMS[name]
    compiler = everyday.Compiler(compile)
    theirs, ours = everyday.run(function, everyday.Compiler()), everyday.run(function, compiler)
    told = everyday.differences(theirs, ours)
    assert not told, "\n".join(told[:6])
    return compiler


@pytest.mark.parametrize("name", everyday.PROGRAMS)
def test_captured(name):
    broken, expected = check(name, everyday.eager).broken(), everyday.PROGRAMS[name][1]
    if expected == 0 or sys.version_info[:2] == (3, 11):  # later versions go on elsewhere behind a break
        assert bool(broken) == bool(expected) and len(broken) <= expected, "\n".join(broken)


# Native code from the first call on; those in which it has most to do.
NATIVE = [
    "gpt_training",
    "gpt_with_dropout",
    "gpt_one_token_at_a_time",
    "static_cache",
    "rotary_lazily",
    "grouped_query",
    "swiglu_bf16",
    "experts_dense",
    "lstm_states",
    "cells_in_a_loop",
    "embedding_kinds",
    "unet",
    "vae",
    "vae_with_distributions",
    "vector_quantised",
    "channels_last",
    "graph_attention",
    "weight_norm",
    "siamese",
    "spectral_convolution",
    "autocast_inside",
    "checkpointed",
    "frozen_backbone",
    "ppo",
    "byol",
    "every_batch_size",
    "not_contiguous",
    "expanded",
    "indexing_kinds",
    "writing_by_mask",
    "views_given_back",
    "writes_to_inputs",
    "running_buffers",
    "inference_mode_around",
    "tied_weights",
    "norms",
    "integer_programs",
    "llama_cache_objects",
    "nucleus_sampling",
    "packed_sequences_mask",
    "label_smoother",
    "four_bit_weights",
    "lovasz_hinge",
    "ancestral_sampler",
    "heun_sampler",
    "yolo_decoding",
    "long_convolution",
    "value_distribution",
    "momentum_contrast",
    "ppo_loop",
    "lion",
    "dies_with_its_owner",
    "arguments_are_let_go",
    "advanced_writes",
    "views_of_one_buffer",
    "hooks_added_and_removed",
    "integers_overflow",
]


@pytest.mark.parametrize("name", NATIVE)
def test_native(name):
    check(name, everyday.waiting)


# torch.compile takes its time.
BY_TORCH = [
    "gpt_one_token_at_a_time",
    "swiglu",
    "vae",
    "embedding_sparse",
    "tied_weights",
    "input_given_back",
    "gpt_fast_sampling",
    "packed_sequences_mask",
    "four_bit_weights",
]


@pytest.mark.parametrize("name", BY_TORCH)
def test_backend_of_torch(name):
    torch._dynamo.reset()
    check(name, everyday.by_torch)


def test_an_embedding_with_sparse_gradients_is_exported():
    model, index = torch.nn.Embedding(5, 3, sparse=True), torch.tensor([1, 4])
    made = cresset.export.export(model, (index,)).module()(cresset.tensor([1, 4]))
    torch.testing.assert_close(torch.from_dlpack(made.detach()), model(index).detach())


def test_a_call_that_fails_behind_its_graph_draws_the_same_numbers(monkeypatch):
    def f(x):
        return x[:1], x + torch.rand_like(x)

    for grad in (False, True):
        run, x = cresset.compile(f, backend="eager"), torch.randn(3).requires_grad_(grad)
        torch.manual_seed(1)
        with monkeypatch.context() as patch:
            patch.setattr(running, "_take", divmod)  # a function in C that raises, so it is no handler of the program's
            ours = run(x)
        torch.manual_seed(1)
        theirs = f(x)
        assert run._counts()["failed"] == 1
        torch.testing.assert_close(ours[1], theirs[1])
