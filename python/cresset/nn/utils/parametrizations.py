"""Parametrizations that are there: weight_norm and spectral_norm."""
from cresset import _C
from cresset._grad_mode import no_grad
from cresset.nn import functional as F
from cresset.nn.modules.module import Module
from cresset.nn.utils import parametrize

__all__ = ["spectral_norm", "weight_norm"]
_op = _C._function


class _WeightNorm(Module):
    """A weight as a length (original0) times a direction (original1)."""

    def __init__(self, dim=0):
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g, weight_v):
        return _op("_weight_norm")(weight_v, weight_g, self.dim)

    def right_inverse(self, weight):
        return _op("norm_except_dim")(weight, 2, self.dim), weight


def weight_norm(module, name="weight", dim=0):
    parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def load_old_keys(state_dict, prefix, *_):
        old = [f"{prefix}{name}_g", f"{prefix}{name}_v"]  # what nn.utils.weight_norm stores
        if all(key in state_dict for key in old):
            for i, key in enumerate(old):
                state_dict[f"{prefix}parametrizations.{name}.original{i}"] = state_dict.pop(key)

    module._register_load_state_dict_pre_hook(load_old_keys)
    return module


class _SpectralNorm(Module):
    """A weight divided by its largest singular value, which power iteration follows while training."""

    def __init__(self, weight, n_power_iterations=1, dim=0, eps=1e-12):
        super().__init__()
        rank = weight.ndim
        if dim >= rank or dim < -rank:
            raise IndexError(f"dimension {dim} is out of range for a weight of {rank} dimensions")
        if n_power_iterations <= 0:
            raise ValueError(f"n_power_iterations must be positive, not {n_power_iterations}")
        self.dim = dim if dim >= 0 else dim + rank
        self.eps = eps
        if rank > 1:
            self.n_power_iterations = n_power_iterations
            matrix = self._reshape_weight_to_matrix(weight)
            h, w = matrix.size()
            u = matrix.new_empty(h).normal_(0, 1)
            v = matrix.new_empty(w).normal_(0, 1)
            self.register_buffer("_u", F.normalize(u, dim=0, eps=self.eps))
            self.register_buffer("_v", F.normalize(v, dim=0, eps=self.eps))
            self._power_method(matrix, 15)

    def _reshape_weight_to_matrix(self, weight):
        if self.dim != 0:
            weight = weight.permute(self.dim, *(d for d in range(weight.dim()) if d != self.dim))
        return weight.flatten(1)

    def _power_method(self, matrix, iterations):
        with no_grad():
            for _ in range(iterations):
                self._u = F.normalize(_op("mv")(matrix, self._v), dim=0, eps=self.eps, out=self._u)
                self._v = F.normalize(_op("mv")(matrix.H, self._u), dim=0, eps=self.eps, out=self._v)

    def forward(self, weight):
        if weight.ndim == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = self._reshape_weight_to_matrix(weight)
        if self.training:
            self._power_method(matrix, self.n_power_iterations)
        u = self._u.clone(memory_format=_C.contiguous_format)
        v = self._v.clone(memory_format=_C.contiguous_format)
        return weight / _op("vdot")(u, _op("mv")(matrix, v))

    def right_inverse(self, value):
        return value


def spectral_norm(module, name="weight", n_power_iterations=1, eps=1e-12, dim=None):
    weight = getattr(module, name, None)
    if not _C.is_tensor(weight):
        raise ValueError(f"{module._get_name()} has no tensor named '{name}' to normalize")
    if dim is None:
        dim = 1 if type(module).__name__ in ("ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d") else 0
    parametrize.register_parametrization(module, name, _SpectralNorm(weight, n_power_iterations, dim, eps))
    return module
