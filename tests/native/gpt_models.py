"""A small GPT with a static KV cache, exported as two programs: `prefill` takes a prompt of any length, `decode` one
token. Both write the same buffers. Exported live where torch is installed, read from tests/data/gpt where it is not;
`CRESSET_RECORD=1` (./dev record) writes those files.

    case = load(folder)     # case.prefill, case.decode: paths; case.steps: (tokens, position, PyTorch's logits), in
    order, on one instance
"""
import dataclasses
import os
import pathlib

import numpy

RECORDED = pathlib.Path(__file__).resolve().parents[1] / "data" / "gpt"
try:
    import torch
except ImportError:
    torch = None

WIDTH, HEADS, LAYERS, VOCABULARY, CONTEXT = 32, 2, 2, 48, 24


@dataclasses.dataclass
class Case:
    prefill: pathlib.Path
    decode: pathlib.Path
    steps: list


def modules():
    from torch import nn

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
            self.register_buffer("k", torch.zeros(1, HEADS, CONTEXT, WIDTH // HEADS))
            self.register_buffer("v", torch.zeros(1, HEADS, CONTEXT, WIDTH // HEADS))

        def forward(self, x, positions, mask):
            split = lambda t: t.view(1, -1, HEADS, WIDTH // HEADS).transpose(1, 2)  # noqa: E731
            q, k, v = map(split, self.qkv(x).split(WIDTH, dim=-1))
            self.k.index_copy_(2, positions, k)
            self.v.index_copy_(2, positions, v)
            y = nn.functional.scaled_dot_product_attention(q, self.k, self.v, attn_mask=mask)
            return self.out(y.transpose(1, 2).reshape(1, -1, WIDTH))

    class GPT(nn.Module):
        def __init__(self):
            super().__init__()
            self.token, self.place = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(CONTEXT, WIDTH)
            self.blocks = nn.ModuleList(nn.ModuleDict({
                "norm1": nn.LayerNorm(WIDTH), "attention": Attention(), "norm2": nn.LayerNorm(WIDTH),
                "mlp": nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))})
                                        for _ in range(LAYERS))
            self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)
            self.register_buffer("seen", torch.zeros((), dtype=torch.int64))

        def forward(self, tokens, positions):
            x = self.token(tokens) + self.place(positions)
            mask = torch.arange(CONTEXT)[None, :] <= positions[:, None]
            for block in self.blocks:
                x = x + block["attention"](block["norm1"](x), positions, mask)
                x = x + block["mlp"](block["norm2"](x))
            self.seen.add_(tokens.shape[1])
            return self.head(self.norm(x[:, -1]))

    return GPT


def scrub(ep):
    """Stack traces without the folders of this machine."""
    here, library = str(pathlib.Path(__file__).parent) + "/", str(pathlib.Path(torch.__file__).parent.parent) + "/"
    for node in ep.graph.nodes:
        if trace := node.meta.get("stack_trace"):
            node.meta["stack_trace"] = trace.replace(here, "").replace(library, "site-packages/")


def export(folder):
    torch.manual_seed(4)
    model = modules()().eval()
    length = torch.export.Dim("length", min=2, max=CONTEXT)
    prompt = torch.randint(VOCABULARY, (1, 7))
    programs = {"prefill": torch.export.export(model, (prompt, torch.arange(7)),
                                               dynamic_shapes=({1: length}, {0: length})),
                "decode": torch.export.export(model, (prompt[:, :1], torch.tensor([3])))}
    for name, ep in programs.items():
        scrub(ep)
        torch.export.save(ep, folder / f"{name}.pt2")
    steps, tokens, at = {}, prompt, 0
    with torch.no_grad():
        for i in range(8):
            logits = model(tokens, torch.arange(at, at + tokens.shape[1]))
            steps |= {f"tokens{i}": tokens.numpy(), f"positions{i}": numpy.arange(at, at + tokens.shape[1]),
                      f"logits{i}": logits.numpy()}
            at += tokens.shape[1]
            tokens = logits.argmax(-1, keepdim=True)
    numpy.savez(folder / "steps.npz", **steps)


def load(folder):
    if torch is None:
        folder = RECORDED
    else:
        folder = RECORDED if os.environ.get("CRESSET_RECORD") else folder
        folder.mkdir(parents=True, exist_ok=True)
        export(folder)
    steps = numpy.load(folder / "steps.npz")
    return Case(folder / "prefill.pt2", folder / "decode.pt2",
            [(steps[f"tokens{i}"], steps[f"positions{i}"], steps[f"logits{i}"]) for i in range(len(steps.files) // 3)])
