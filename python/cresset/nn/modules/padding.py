"""Padding layers: a constant, a mirror image, the last value, or the other end."""
from cresset.nn import functional as F
from cresset.nn.modules.module import Module
from cresset.nn.modules.utils import _ntuple, _pair, _quadruple

__all__ = ["CircularPad1d", "CircularPad2d", "CircularPad3d", "ConstantPad1d", "ConstantPad2d", "ConstantPad3d",
           "ReflectionPad1d", "ReflectionPad2d",
           "ReflectionPad3d", "ReplicationPad1d", "ReplicationPad2d", "ReplicationPad3d", "ZeroPad1d", "ZeroPad2d",
           "ZeroPad3d"]
_sextuple = _ntuple(6, "_sextuple")


class _PadNd(Module):
    """`padding` is one number for all sides, or (left, right, top, bottom, front, back) as far as there are
    dimensions."""

    __constants__ = ["padding"]
    _tuple = _mode = None

    def __init__(self, padding):
        super().__init__()
        self.padding = type(self)._tuple(padding)

    def forward(self, input):
        return F.pad(input, self.padding, self._mode)

    def extra_repr(self):
        return f"{self.padding}"


class _ConstantPadNd(_PadNd):
    def __init__(self, padding, value):
        super().__init__(padding)
        self.value = value

    def forward(self, input):
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self):
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPadNd):
    _tuple = staticmethod(_pair)


class ConstantPad2d(_ConstantPadNd):
    _tuple = staticmethod(_quadruple)


class ConstantPad3d(_ConstantPadNd):
    _tuple = staticmethod(_sextuple)


class ZeroPad1d(ConstantPad1d):
    def __init__(self, padding):
        super().__init__(padding, 0.0)

    def extra_repr(self):
        return f"{self.padding}"


class ZeroPad2d(ConstantPad2d):
    def __init__(self, padding):
        super().__init__(padding, 0.0)

    def extra_repr(self):
        return f"{self.padding}"


class ZeroPad3d(ConstantPad3d):
    def __init__(self, padding):
        super().__init__(padding, 0.0)

    def extra_repr(self):
        return f"{self.padding}"


class ReflectionPad1d(_PadNd):
    _tuple, _mode = staticmethod(_pair), "reflect"


class ReflectionPad2d(_PadNd):
    _tuple, _mode = staticmethod(_quadruple), "reflect"


class ReflectionPad3d(_PadNd):
    _tuple, _mode = staticmethod(_sextuple), "reflect"


class ReplicationPad1d(_PadNd):
    _tuple, _mode = staticmethod(_pair), "replicate"


class ReplicationPad2d(_PadNd):
    _tuple, _mode = staticmethod(_quadruple), "replicate"


class ReplicationPad3d(_PadNd):
    _tuple, _mode = staticmethod(_sextuple), "replicate"


class _CircularPadNd(_PadNd):
    _mode = "circular"
    _allowed = ()

    def _check_input_dim(self, input):
        if input.dim() not in self._allowed:
            raise ValueError(f"{type(self).__name__} takes {self._allowed[0]}D or {self._allowed[1]}D inputs, not "
                             f"{input.dim()}D")

    def forward(self, input):
        self._check_input_dim(input)
        return super().forward(input)


class CircularPad1d(_CircularPadNd):
    _tuple, _allowed = staticmethod(_pair), (2, 3)


class CircularPad2d(_CircularPadNd):
    _tuple, _allowed = staticmethod(_quadruple), (3, 4)


class CircularPad3d(_CircularPadNd):
    _tuple, _allowed = staticmethod(_sextuple), (4, 5)
