"""What cresset.compile() makes of a torch.nn.Module: a module of torch's, whose calls are captured."""
from __future__ import annotations

import torch
from torch.nn.modules import module as modules

from cresset._dynamo.eval_frame import Optimized


class TorchModule(Optimized, torch.nn.Module):
    """A module of torch's whose calls are captured; the original is its submodule `_orig_mod`."""

    _global_hooks = (modules._global_forward_pre_hooks, modules._global_forward_hooks,
                     modules._global_backward_pre_hooks, modules._global_backward_hooks)
