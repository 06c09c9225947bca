"""A small language model over bytes, exported twice: loss.pt2 is what is trained, next.pt2 what is used afterwards.

    python examples/train_in_c/export.py FOLDER [cresset | torch]

The library that builds and exports it may be Cresset or PyTorch: the code is the same.
"""
import importlib
import os
import sys

CONTEXT, WIDTH, HEADS, LAYERS, LETTERS = 64, 64, 4, 2, 128


def make_module(torch):
    nn, F = torch.nn, torch.nn.functional

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.before, self.after = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
            self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
            self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

        def forward(self, x):
            n, t, _ = x.shape
            q, k, v = (part.reshape(n, t, HEADS, WIDTH // HEADS).transpose(1, 2)
                       for part in self.qkv(self.before(x)).chunk(3, dim=-1))
            seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(seen.transpose(1, 2).reshape(n, t, WIDTH))
            return x + self.down(F.gelu(self.up(self.after(x))))

    class Letters(nn.Module):
        def __init__(self):
            super().__init__()
            self.letter, self.place = nn.Embedding(LETTERS, WIDTH), nn.Embedding(CONTEXT, WIDTH)
            self.blocks = nn.ModuleList([Block() for _ in range(LAYERS)])
            self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, LETTERS, bias=False)

        def forward(self, x):
            x = self.letter(x) + self.place(torch.arange(x.shape[1]))
            for block in self.blocks:
                x = block(x)
            return self.head(self.norm(x))

    class Loss(nn.Module):
        """What comes next is the input itself, one letter later."""

        def __init__(self):
            super().__init__()
            self.model = Letters()

        def forward(self, text):
            guess = self.model(text[:, :-1])
            return F.cross_entropy(guess.reshape(-1, LETTERS), text[:, 1:].reshape(-1))

    class Next(nn.Module):
        """The scores of the letter after the last one; parameters have the names that they have in Loss."""

        def __init__(self, model):
            super().__init__()
            self.model = model

        def forward(self, text):
            return self.model(text)[:, -1]

    return Loss, Next


def export(torch, folder, seed=0):
    Loss, Next = make_module(torch)
    torch.manual_seed(seed)
    loss = Loss()
    save, run, Dim = torch.export.save, torch.export.export, torch.export.Dim
    text = torch.zeros(4, CONTEXT + 1, dtype=torch.int64)
    save(run(loss, (text,), dynamic_shapes=({0: Dim("batch", min=1, max=1024)},)), os.path.join(folder, "loss.pt2"))
    save(run(Next(loss.model), (text[:1, :CONTEXT],), dynamic_shapes=({1: Dim("length", min=1, max=CONTEXT)},)),
         os.path.join(folder, "next.pt2"))
    return loss


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit("usage: python export.py FOLDER [cresset | torch]")
    export(importlib.import_module(sys.argv[2] if len(sys.argv) == 3 else "cresset"), sys.argv[1])
