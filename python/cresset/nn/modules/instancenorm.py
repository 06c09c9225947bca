"""Instance normalization: statistics of each channel of each sample."""
import warnings

from cresset.nn import functional as F
from cresset.nn.modules.batchnorm import _LazyNormBase, _NormBase, _ranks

__all__ = ["InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d", "LazyInstanceNorm1d", "LazyInstanceNorm2d",
           "LazyInstanceNorm3d"]


class _InstanceNorm(_NormBase):
    _no_batch_dim = 0

    def __init__(self, num_features, eps=1e-5, momentum=0.1, affine=False, track_running_stats=False, device=None,
                 dtype=None, *, bias=True):
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def _get_no_batch_dim(self):
        return self._no_batch_dim

    def _apply_instance_norm(self, input):
        return F.instance_norm(input, self.running_mean, self.running_var, self.weight, self.bias,
                               self.training or not self.track_running_stats,
                               self.momentum if self.momentum is not None else 0.0, self.eps)

    def forward(self, input):
        self._check_input_dim(input)
        dim = input.dim() - self._get_no_batch_dim()
        if input.size(dim) != self.num_features:
            if self.affine:
                raise ValueError(f"the input has {input.size(dim)} channels at dim={dim}, but num_features is "
                                 f"{self.num_features}")
            warnings.warn(f"the input has {input.size(dim)} channels at dim={dim}, num_features is "
                          f"{self.num_features}; without affine that is not used")
        if input.dim() == self._get_no_batch_dim():
            return self._apply_instance_norm(input.unsqueeze(0)).squeeze(0)
        return self._apply_instance_norm(input)

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
                              error_msgs):
        # checkpoints of old have running statistics although nobody asked for them
        if local_metadata.get("version", None) is None and not self.track_running_stats:
            old = [name for name in ("running_mean", "running_var") if prefix + name in state_dict]
            if old:
                names = " and ".join(f'"{prefix + name}"' for name in old)
                error_msgs.append(f"{names} in state_dict, but {type(self).__name__} has track_running_stats=False: "
                                  f"delete them, or set it to True")
                for name in old:
                    state_dict.pop(prefix + name)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
                                      error_msgs)


class InstanceNorm1d(_InstanceNorm):
    _no_batch_dim = 2
    _check_input_dim = _ranks(2, 3)


class InstanceNorm2d(_InstanceNorm):
    _no_batch_dim = 3
    _check_input_dim = _ranks(3, 4)


class InstanceNorm3d(_InstanceNorm):
    _no_batch_dim = 4
    _check_input_dim = _ranks(4, 5)


class LazyInstanceNorm1d(_LazyNormBase, _InstanceNorm):
    cls_to_become, _no_batch_dim, _check_input_dim = InstanceNorm1d, 2, _ranks(2, 3)


class LazyInstanceNorm2d(_LazyNormBase, _InstanceNorm):
    cls_to_become, _no_batch_dim, _check_input_dim = InstanceNorm2d, 3, _ranks(3, 4)


class LazyInstanceNorm3d(_LazyNormBase, _InstanceNorm):
    cls_to_become, _no_batch_dim, _check_input_dim = InstanceNorm3d, 4, _ranks(4, 5)
