"""Names for annotations, as torch.types has them: Number, Device, FileLike, and those that signatures use."""
import builtins as _builtins
import os as _os
from collections.abc import Sequence as _Sequence
from typing import IO as _IO, Union as _Union

import cresset as _cresset
from cresset import SymBool, SymFloat, SymInt

__all__ = ["Number", "Device", "FileLike", "Storage"]

_int, _float, _bool, _complex = _builtins.int, _builtins.float, _builtins.bool, _builtins.complex
_str, _bytes = _builtins.str, _builtins.bytes
_dtype, _device, _layout = _cresset.dtype, _cresset.device, _cresset.layout
_size = _Union[_cresset.Size, list[int], tuple[int, ...]]
_symsize = _Union[_cresset.Size, _Sequence[_Union[int, SymInt]]]
_TensorOrTensors = _Union[_cresset.Tensor, _Sequence[_cresset.Tensor]]
_TensorOrOptionalTensors = _Union[_cresset.Tensor, _Sequence[_Union[_cresset.Tensor, None]]]

Number = _Union[int, float, bool]
_Number = (int, float, bool)
Device = _Union[_cresset.device, str, int, None]
FileLike = _Union[str, _os.PathLike[str], _IO[bytes]]
Storage = _cresset.UntypedStorage
IntLikeType, FloatLikeType, BoolLikeType = _Union[int, SymInt], _Union[float, SymFloat], _Union[bool, SymBool]
py_sym_types = (SymInt, SymFloat, SymBool)
PySymType = _Union[SymInt, SymFloat, SymBool]
