"""What cresset.compile() makes of a torch.nn.Module: a module of torch's, whose calls are captured."""
from __future__ import annotations

from typing import Any

import torch
from torch.nn.modules.module import _has_any_global_hook

from cresset._dynamo.eval_frame import Optimized, tell_twice


class TorchModule(Optimized, torch.nn.Module):
    """A module of torch's whose calls are captured; the original is its submodule `_orig_mod`."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        own = self.__dict__
        if _has_any_global_hook():
            tell_twice()
        elif not (own["_forward_hooks"] or own["_forward_pre_hooks"] or own["_backward_hooks"]
                  or own["_backward_pre_hooks"] or "forward" in own):
            return own["_compiled"](*args, **kwargs)
        return super().__call__(*args, **kwargs)
