"""A program as model libraries write it: many names of torch at which nothing is due, a model that trains and exports.
tests/py/test_as_torch.py runs it with PyTorch and with Cresset in its place: results() must be equal."""
import copy
import io
import json
import math
from typing import Dict, List, Optional, Tuple

import torch
import torch.distributed as dist
import torch.fx
import torch.nn as nn
import torch.nn.functional as F
import torch.utils.checkpoint
from torch import Tensor
from torch.hub import load_state_dict_from_url  # noqa: F401 - as libraries do
from torch.jit import Final
from torch.nn.init import trunc_normal_
from torch.nn.modules.utils import _pair
from torch.nn.parallel import DistributedDataParallel
from torch.overrides import has_torch_function_unary
from torch.profiler import record_function
from torch.utils.data import DataLoader, Dataset  # noqa: F401


@torch.fx.wrap
def heads_first(x: Tensor, heads: int) -> Tensor:
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


@torch.jit.script
def gated(x: Tensor, gate: Tensor) -> Tensor:
    return x * torch.sigmoid(gate)


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        x, = ctx.saved_tensors
        return 2 * x * grad


class Attention(nn.Module):
    fused: Final[bool]

    def __init__(self, dim: int, heads: int = 2) -> None:
        super().__init__()
        self.heads, self.fused = heads, hasattr(F, "scaled_dot_product_attention")
        self.qkv = nn.Linear(dim, dim * 3)
        self.proj = nn.Linear(dim, dim)
        self.register_buffer("scale", torch.tensor(dim ** -0.5), persistent=False)

    @torch.jit.ignore
    def no_weight_decay(self) -> List[str]:
        return ["scale"]

    def forward(self, x: Tensor, mask: Optional[Tensor] = None) -> Tensor:
        q, k, v = (heads_first(t, self.heads) for t in self.qkv(x).chunk(3, dim=-1))
        if self.fused and not torch.jit.is_scripting():
            out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        else:
            out = (q @ k.transpose(-2, -1) * self.scale).softmax(dim=-1) @ v
        return self.proj(out.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.RMSNorm(dim)
        self.attn = Attention(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Dropout(0.1), nn.Linear(2 * dim, dim))
        self.gamma = nn.Parameter(torch.full((dim,), 0.5))

    def forward(self, x: Tensor) -> Tensor:
        with record_function("attention"):
            x = x + self.gamma * self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Model(nn.Module):
    def __init__(self, classes: int = 5, dim: int = 16, depth: int = 2) -> None:
        super().__init__()
        torch._C._log_api_usage_once("tests.as_torch")
        self.stem = nn.Sequential(nn.Conv2d(3, dim, _pair(4), stride=4, bias=False), nn.BatchNorm2d(dim),
                                  nn.Hardswish(inplace=True))
        self.pos = nn.Parameter(torch.zeros(1, 16, dim))
        self.words = nn.Embedding(10, dim, padding_idx=0)
        self.blocks = nn.ModuleList(Block(dim) for _ in range(depth))
        self.rnn = nn.GRU(dim, dim, batch_first=True)
        self.head = nn.ModuleDict({"a": nn.Linear(dim, classes), "b": nn.Linear(dim, classes, bias=False)})
        self.grad_checkpointing = False
        trunc_normal_(self.pos, std=0.02)
        self.apply(self._init)

    def _init(self, m: nn.Module) -> None:
        if isinstance(m, nn.Linear):
            nn.init.xavier_uniform_(m.weight)
            if m.bias is not None:
                nn.init.normal_(m.bias, std=1e-2)
        elif isinstance(m, (nn.Conv2d, nn.BatchNorm2d)) and m.weight.dim() > 1:
            fan_in, _ = nn.init._calculate_fan_in_and_fan_out(m.weight)
            nn.init.uniform_(m.weight, -1 / math.sqrt(fan_in), 1 / math.sqrt(fan_in))

    def forward(self, image: Tensor, words: Tensor) -> Tuple[Tensor, Dict[str, Tensor]]:
        torch._assert(image.dim() == 4, "a batch of images")
        x = self.stem(image).flatten(2).transpose(1, 2) + self.pos
        x = torch.cat([x, self.words(words)], dim=1)
        for block in self.blocks:
            if self.grad_checkpointing and self.training:
                x = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)
            else:
                x = block(x)
        x, last = self.rnn(x)
        pooled = gated(x.mean(1), last[0])
        return Square.apply(pooled).mean(-1), {name: head(pooled) for name, head in self.head.items()}


def state_of_the_machine():
    return [torch.cuda.is_available(), dist.is_available() and dist.is_initialized(), torch.jit.is_tracing(),
            torch.compiler.is_compiling(), torch.backends.mps.is_available(), torch.onnx.is_in_onnx_export(),
            isinstance(nn.Linear(1, 1), DistributedDataParallel), torch.version.cuda is None,
            has_torch_function_unary(torch.zeros(1)),
            torch.backends.cudnn.version(), hasattr(torch, "no_such_name"), torch.__version__.split("+")[0]]


def results():
    torch.manual_seed(7)
    model = Model()
    image, words = torch.randn(2, 3, 16, 16), torch.randint(0, 10, (2, 3))
    model.eval()
    found = {"machine": state_of_the_machine(), "keys": list(model.state_dict()),
             "initial": [p.double().abs().sum().item() for p in model.parameters()]}
    with torch.inference_mode():
        found["eval"] = model(image, words)[1]["a"].tolist()
    exported = torch.export.export(model, (image, words)).module()
    found["exported"] = exported(image, words)[1]["b"].tolist()
    model.train()
    model.grad_checkpointing = True
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 3)
    losses = []
    for _ in range(3):
        optimizer.zero_grad(set_to_none=True)
        energy, logits = model(image, words)
        target = torch.tensor([1, 3])
        loss = energy.mean() + sum(F.cross_entropy(x, target, label_smoothing=0.1) for x in logits.values())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    found["losses"] = losses
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    other = copy.deepcopy(model).eval()
    other.load_state_dict(torch.load(file, map_location="cpu", weights_only=True))
    found["trained"] = other(image, words)[0].tolist()
    return found


if __name__ == "__main__":
    print(json.dumps(results()))
