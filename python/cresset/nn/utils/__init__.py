"""Helpers around modules: clipping, packing, parametrizations, fusion. Each file loads when it is first asked for."""
from cresset import _lazy

_WHERE = {
    **dict.fromkeys("clip_grad_norm clip_grad_norm_ clip_grads_with_norm_ clip_grad_value_ get_total_norm".split(),
                    "clip_grad"),
    **dict.fromkeys("convert_conv2d_weight_memory_format convert_conv3d_weight_memory_format".split(), "memory_format"),
    **dict.fromkeys("fuse_conv_bn_eval fuse_conv_bn_weights fuse_linear_bn_eval fuse_linear_bn_weights".split(),
                    "fusion"),
    **dict.fromkeys("parameters_to_vector vector_to_parameters".split(), "convert_parameters"),
    **dict.fromkeys("spectral_norm remove_spectral_norm".split(), "_spectral_norm"),
    **dict.fromkeys("weight_norm remove_weight_norm".split(), "_weight_norm"),
    "skip_init": "init",
}
_FILES = {"rnn", "parametrize", "parametrizations", "stateless"}
__all__ = sorted(_WHERE) + sorted(_FILES)
__getattr__, _ = _lazy.names(globals(), _WHERE, _FILES)
