"""Convolutions of 1 to 3 dimensions, transposed ones, and their lazy forms."""
import math

from cresset import _C
from cresset.nn import functional as F, init
from cresset.nn.modules.lazy import LazyModuleMixin
from cresset.nn.modules.module import Module
from cresset.nn.modules.utils import _pair, _reverse_repeat_tuple, _single, _triple
from cresset.nn.parameter import Parameter, UninitializedParameter

__all__ = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d", "LazyConv1d",
           "LazyConv2d", "LazyConv3d",
           "LazyConvTranspose1d", "LazyConvTranspose2d", "LazyConvTranspose3d"]
_empty = _C._function("empty")
_PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


class _ConvNd(Module):
    __constants__ = ["stride", "padding", "dilation", "groups", "padding_mode", "output_padding", "in_channels",
                     "out_channels", "kernel_size"]

    def __init__(self, in_channels, out_channels, kernel_size, stride, padding, dilation, transposed, output_padding,
                 groups, bias, padding_mode,
                 device=None, dtype=None):
        super().__init__()
        if groups <= 0:
            raise ValueError(f"groups must be positive, not {groups}")
        if in_channels % groups != 0:
            raise ValueError(f"in_channels {in_channels} cannot be divided into {groups} groups")
        if out_channels % groups != 0:
            raise ValueError(f"out_channels {out_channels} cannot be divided into {groups} groups")
        if isinstance(padding, str):
            if padding not in ("same", "valid"):
                raise ValueError(f"padding as a text is 'same' or 'valid', not {padding!r}")
            if padding == "same" and any(s != 1 for s in stride):
                raise ValueError(f"padding='same' needs a stride of 1, not {stride}")
        if padding_mode not in _PADDING_MODES:
            raise ValueError(f"padding_mode is {', '.join(_PADDING_MODES[:-1])} or {_PADDING_MODES[-1]}, not "
                             f"{padding_mode!r}")
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding
        self.dilation = dilation
        self.transposed = transposed
        self.output_padding = output_padding
        self.groups = groups
        self.padding_mode = padding_mode
        if isinstance(padding, str):
            self._reversed_padding_repeated_twice = [0, 0] * len(kernel_size)
            if padding == "same":
                for d, k, i in zip(dilation, kernel_size, range(len(kernel_size) - 1, -1, -1)):
                    total = d * (k - 1)
                    self._reversed_padding_repeated_twice[2 * i] = total // 2
                    self._reversed_padding_repeated_twice[2 * i + 1] = total - total // 2
        else:
            self._reversed_padding_repeated_twice = _reverse_repeat_tuple(self.padding, 2)
        size = (in_channels, out_channels // groups) if transposed else (out_channels, in_channels // groups)
        self.weight = Parameter(_empty((*size, *kernel_size), device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(_empty(out_channels, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self):
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            if fan_in != 0:
                bound = 1 / math.sqrt(fan_in)
                init.uniform_(self.bias, -bound, bound)

    def extra_repr(self):
        n = len(self.kernel_size)
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        if self.padding != (0,) * len(self.padding):
            text += f", padding={self.padding}"
        if self.dilation != (1,) * n:
            text += f", dilation={self.dilation}"
        if self.output_padding != (0,) * n:
            text += f", output_padding={self.output_padding}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        if self.bias is None:
            text += ", bias=False"
        if self.padding_mode != "zeros":
            text += f", padding_mode={self.padding_mode}"
        return text

    def __setstate__(self, state):
        super().__setstate__(state)
        self.__dict__.setdefault("padding_mode", "zeros")


class _Conv(_ConvNd):
    """A convolution; the classes below say over how many dimensions and with which function."""

    _tuple = _op = None

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True,
                 padding_mode="zeros", device=None,
                 dtype=None):
        each = type(self)._tuple
        super().__init__(in_channels, out_channels, each(kernel_size), each(stride),
                         padding if isinstance(padding, str) else each(padding),
                         each(dilation), False, each(0), groups, bias, padding_mode, device, dtype)

    def _conv_forward(self, input, weight, bias):
        if self.padding_mode != "zeros":
            input = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
            return type(self)._op(input, weight, bias, self.stride, type(self)._tuple(0), self.dilation, self.groups)
        return type(self)._op(input, weight, bias, self.stride, self.padding, self.dilation, self.groups)

    def forward(self, input):
        return self._conv_forward(input, self.weight, self.bias)


class Conv1d(_Conv):
    _tuple, _op = staticmethod(_single), staticmethod(F.conv1d)


class Conv2d(_Conv):
    _tuple, _op = staticmethod(_pair), staticmethod(F.conv2d)


class Conv3d(_Conv):
    _tuple, _op = staticmethod(_triple), staticmethod(F.conv3d)


class _ConvTransposeNd(_ConvNd):
    def __init__(self, in_channels, out_channels, kernel_size, stride, padding, dilation, transposed, output_padding,
                 groups, bias, padding_mode,
                 device=None, dtype=None):
        if padding_mode != "zeros":
            raise ValueError(f"{type(self).__name__} pads with zeros only, not with padding_mode={padding_mode!r}")
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, transposed, output_padding,
                         groups, bias, padding_mode,
                         device, dtype)

    def _output_padding(self, input, output_size, stride, padding, kernel_size, num_spatial_dims, dilation=None):
        """The padding that makes the result `output_size`, which must be within one stride of the smallest possible
        size."""
        if output_size is None:
            return _single(self.output_padding)
        n, has_batch = num_spatial_dims, input.dim() == num_spatial_dims + 2
        extra = 2 if has_batch else 1
        if len(output_size) == extra + n:
            output_size = output_size[extra:]
        if len(output_size) != n:
            raise ValueError(f"{type(self).__name__}: output_size has {n} numbers, or {n + extra} like the input, not "
                             f"{len(output_size)}")
        result = []
        for d in range(n):
            low = (input.size(d + extra) - 1) * stride[d] - 2 * padding[d] + (dilation[d] if dilation is not None
                    else 1) * (kernel_size[d] - 1) + 1
            high = low + stride[d] - 1
            if output_size[d] < low or output_size[d] > high:
                raise ValueError(f"output_size {tuple(output_size)} is not possible: at dimension {d} it is from {low} "
                                 f"to {high} for an input of {tuple(input.shape[2:])}")
            result.append(output_size[d] - low)
        return result


class _ConvTranspose(_ConvTransposeNd):
    _tuple = _op = None
    _rank = 0

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, output_padding=0, groups=1,
                 bias=True, dilation=1,
                 padding_mode="zeros", device=None, dtype=None):
        each = type(self)._tuple
        super().__init__(in_channels, out_channels, each(kernel_size), each(stride), each(padding), each(dilation),
                         True, each(output_padding), groups,
                         bias, padding_mode, device, dtype)

    def forward(self, input, output_size=None):
        output_padding = self._output_padding(input, output_size, self.stride, self.padding, self.kernel_size,
                                              type(self)._rank, self.dilation)
        return type(self)._op(input, self.weight, self.bias, self.stride, self.padding, output_padding, self.groups,
                              self.dilation)


class ConvTranspose1d(_ConvTranspose):
    _tuple, _op, _rank = staticmethod(_single), staticmethod(F.conv_transpose1d), 1


class ConvTranspose2d(_ConvTranspose):
    _tuple, _op, _rank = staticmethod(_pair), staticmethod(F.conv_transpose2d), 2


class ConvTranspose3d(_ConvTranspose):
    _tuple, _op, _rank = staticmethod(_triple), staticmethod(F.conv_transpose3d), 3


# ---- lazy forms: in_channels comes from the first input ----

class _LazyConvXdMixin(LazyModuleMixin):
    _rank = 0

    def reset_parameters(self):
        if not self.has_uninitialized_params() and self.in_channels != 0:
            super().reset_parameters()

    def initialize_parameters(self, input, *_args, **_kwargs):
        if not self.has_uninitialized_params():
            return
        dims = self._rank
        if input.dim() not in (dims + 1, dims + 2):
            raise RuntimeError(f"{type(self).__name__}: expected {dims + 1}D (unbatched) or {dims + 2}D (batched) "
                               f"input, but got {input.dim()}D")
        self.in_channels = input.shape[-dims - 1]
        if self.in_channels % self.groups != 0:
            raise ValueError(f"the input's {self.in_channels} channels cannot be divided into {self.groups} groups")
        pair = (self.in_channels, self.out_channels // self.groups) if self.transposed else (self.out_channels,
                self.in_channels // self.groups)
        self.weight.materialize((*pair, *self.kernel_size))
        if self.bias is not None:
            self.bias.materialize((self.out_channels,))
        self.reset_parameters()

    def _make_lazy(self, out_channels, bias, device, dtype):
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_channels = out_channels
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)


class _LazyConv(_LazyConvXdMixin):
    def __init__(self, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True,
                 padding_mode="zeros", device=None, dtype=None):
        super().__init__(0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode, device, dtype)
        self._make_lazy(out_channels, bias, device, dtype)


class _LazyConvTranspose(_LazyConvXdMixin):
    def __init__(self, out_channels, kernel_size, stride=1, padding=0, output_padding=0, groups=1, bias=True,
                 dilation=1, padding_mode="zeros",
                 device=None, dtype=None):
        super().__init__(0, 0, kernel_size, stride, padding, output_padding, groups, False, dilation, padding_mode,
                         device, dtype)
        self._make_lazy(out_channels, bias, device, dtype)


class LazyConv1d(_LazyConv, Conv1d):
    cls_to_become, _rank = Conv1d, 1


class LazyConv2d(_LazyConv, Conv2d):
    cls_to_become, _rank = Conv2d, 2


class LazyConv3d(_LazyConv, Conv3d):
    cls_to_become, _rank = Conv3d, 3


class LazyConvTranspose1d(_LazyConvTranspose, ConvTranspose1d):
    cls_to_become, _rank = ConvTranspose1d, 1


class LazyConvTranspose2d(_LazyConvTranspose, ConvTranspose2d):
    cls_to_become, _rank = ConvTranspose2d, 2


class LazyConvTranspose3d(_LazyConvTranspose, ConvTranspose3d):
    cls_to_become, _rank = ConvTranspose3d, 3
