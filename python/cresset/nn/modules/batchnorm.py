"""Batch normalization. In training the statistics are the batch's, and running ones are kept; in eval the running ones
are used."""
from cresset import _C
from cresset.nn import functional as F, init
from cresset.nn.modules.lazy import LazyModuleMixin
from cresset.nn.modules.module import Module
from cresset.nn.parameter import Parameter, UninitializedBuffer, UninitializedParameter, is_lazy

__all__ = ["BatchNorm1d", "LazyBatchNorm1d", "BatchNorm2d", "LazyBatchNorm2d", "BatchNorm3d", "LazyBatchNorm3d",
           "SyncBatchNorm"]
_empty, _zeros, _ones, _tensor = _C._function("empty"), _C._function("zeros"), _C._function("ones"), _C.tensor


class _NormBase(Module):
    """Parameters, running statistics and their initial values; shared with instance normalization."""

    _version = 2  # 2: num_batches_tracked is part of the state
    __constants__ = ["track_running_stats", "momentum", "eps", "num_features", "affine"]

    def __init__(self, num_features, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True, device=None,
                 dtype=None, *, bias=True):
        made = {"device": device, "dtype": dtype}
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        if self.affine:
            self.weight = Parameter(_empty(num_features, **made))
            if bias:
                self.bias = Parameter(_empty(num_features, **made))
            else:
                self.register_parameter("bias", None)
        else:
            self.register_parameter("weight", None)
            self.register_parameter("bias", None)
        if self.track_running_stats:
            self.register_buffer("running_mean", _zeros(num_features, **made))
            self.register_buffer("running_var", _ones(num_features, **made))
            self.register_buffer("num_batches_tracked",
                                 _tensor(0, dtype=_C.int64, **({} if device is None else {"device": device})))
        else:
            for name in ("running_mean", "running_var", "num_batches_tracked"):
                self.register_buffer(name, None)
        self.reset_parameters()

    def reset_running_stats(self):
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self):
        self.reset_running_stats()
        if self.affine:
            init.ones_(self.weight)
            if self.bias is not None:
                init.zeros_(self.bias)

    def _check_input_dim(self, input):
        raise NotImplementedError(f"{type(self).__name__} does not say which inputs it takes")

    def extra_repr(self):
        return (f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
                f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}")

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
                              error_msgs):
        version, key = local_metadata.get("version", None), prefix + "num_batches_tracked"
        if (version is None or version < 2) and self.track_running_stats and key not in state_dict:
            count = self.num_batches_tracked
            state_dict[key] = count if count is not None and not count.is_meta else _tensor(0, dtype=_C.int64)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
                                      error_msgs)


class _BatchNorm(_NormBase):
    def forward(self, input):
        self._check_input_dim(input)
        factor = 0.0 if self.momentum is None else self.momentum
        if self.training and self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            factor = 1.0 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
        of_batch = self.training or (self.running_mean is None and self.running_var is None)
        keep = not self.training or self.track_running_stats
        return F.batch_norm(input, self.running_mean if keep else None, self.running_var if keep else None,
                            self.weight, self.bias, of_batch, factor,
                            self.eps)


def _ranks(*allowed):
    """A check for the given numbers of dimensions."""
    text = " or ".join(f"{n}D" for n in allowed)

    def check(self, input):
        if input.dim() not in allowed:
            raise ValueError(f"{type(self).__name__} takes {text} inputs, not {input.dim()}D")
    return check


class BatchNorm1d(_BatchNorm):
    _check_input_dim = _ranks(2, 3)


class BatchNorm2d(_BatchNorm):
    _check_input_dim = _ranks(4)


class BatchNorm3d(_BatchNorm):
    _check_input_dim = _ranks(5)


class SyncBatchNorm(_BatchNorm):
    """Batch statistics over several processes; with one process, as here, the same as BatchNorm."""

    def __init__(self, num_features, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True, process_group=None,
                 device=None, dtype=None, *,
                 bias=True):
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
        if process_group is not None:
            raise NotImplementedError("SyncBatchNorm: there are no process groups")
        self.process_group = None

    def _check_input_dim(self, input):
        if input.dim() < 2:
            raise ValueError(f"the input must have 2 or more dimensions, not {input.dim()}")

    @classmethod
    def convert_sync_batchnorm(cls, module, process_group=None):
        """The module with every BatchNorm in it replaced."""
        result = module
        if isinstance(module, _BatchNorm) and not isinstance(module, SyncBatchNorm):
            result = cls(module.num_features, module.eps, module.momentum, module.affine, module.track_running_stats,
                         process_group,
                         bias=not module.affine or module.bias is not None)
            result._parameters.update(module._parameters)
            result._buffers.update(module._buffers)
            result.training = module.training
        for name, child in module.named_children():
            result.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return result


# ---- lazy forms: num_features comes from the first input ----

class _LazyNormBase(LazyModuleMixin, _NormBase):
    def __init__(self, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True, device=None, dtype=None, *,
                 bias=True):
        made = {"device": device, "dtype": dtype}
        super().__init__(0, eps, momentum, False, False, **made)
        self.affine = affine
        self.track_running_stats = track_running_stats
        if self.affine:
            self.weight = UninitializedParameter(**made)
            if bias:
                self.bias = UninitializedParameter(**made)
        if self.track_running_stats:
            self.running_mean = UninitializedBuffer(**made)
            self.running_var = UninitializedBuffer(**made)
            self.num_batches_tracked = _tensor(0, dtype=_C.int64)

    def reset_parameters(self):
        if not self.has_uninitialized_params() and self.num_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input):
        if not self.has_uninitialized_params():
            return
        self.num_features = input.shape[1]
        for tensor in (self.weight, self.bias, self.running_mean, self.running_var):
            if tensor is not None and is_lazy(tensor):
                tensor.materialize((self.num_features,))
        self.reset_parameters()


class LazyBatchNorm1d(_LazyNormBase, _BatchNorm):
    cls_to_become = BatchNorm1d
    _check_input_dim = BatchNorm1d._check_input_dim


class LazyBatchNorm2d(_LazyNormBase, _BatchNorm):
    cls_to_become = BatchNorm2d
    _check_input_dim = BatchNorm2d._check_input_dim


class LazyBatchNorm3d(_LazyNormBase, _BatchNorm):
    cls_to_become = BatchNorm3d
    _check_input_dim = BatchNorm3d._check_input_dim
