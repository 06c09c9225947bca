"""Tokens one after the other: the text grows, and its size is left open from the second capture on."""
import cresset
import cresset.nn as nn


class Model(nn.Module):
    def __init__(self, words=50, width=16):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.mix = nn.Linear(width, width)
        self.head = nn.Linear(width, words)

    def forward(self, tokens):
        h = self.embed(tokens)
        h = h + self.mix(h.mean(0, keepdim=True)).tanh()
        return self.head(h[-1])


cresset.manual_seed(0)
model = Model()
step = cresset.compile(model, backend="eager")
tokens = cresset.tensor([1, 2, 3])
with cresset.no_grad():
    for _ in range(5):
        token = step(tokens).argmax()
        tokens = cresset.cat([tokens, token.reshape(1)])
print(tokens.tolist())
