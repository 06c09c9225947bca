"""Weights of convolutions in another memory format."""
from cresset import _C

__all__ = ["convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"]


def _convert(module, memory_format, classes):
    if isinstance(module, classes):
        module.weight.data = (module.weight.detach().clone().contiguous(memory_format=_C.contiguous_format).to(
                memory_format=memory_format))
    for child in module.children():
        _convert(child, memory_format, classes)
    return module


def convert_conv2d_weight_memory_format(module, memory_format):
    from cresset.nn.modules import conv
    return _convert(module, memory_format, (conv.Conv2d, conv.ConvTranspose2d))


def convert_conv3d_weight_memory_format(module, memory_format):
    from cresset.nn.modules import conv
    return _convert(module, memory_format, (conv.Conv3d, conv.ConvTranspose3d))
