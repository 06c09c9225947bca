"""A network that stops early when it is sure: a branch that depends on data ends the graph, where() does not."""
import cresset
import cresset.nn as nn


class EarlyExit(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.second = nn.Linear(8, 8)

    def forward(self, x):
        h = self.first(x).relu()
        if h.mean() > 0.5:
            return h
        return self.second(h).relu()


class Selecting(EarlyExit):
    def forward(self, x):
        h = self.first(x).relu()
        return cresset.where(h.mean() > 0.5, h, self.second(h).relu())


cresset.manual_seed(0)
for kind in (EarlyExit, Selecting):
    network = cresset.compile(kind(), backend="eager")
    with cresset.no_grad():
        for scale in (0.1, 10.0):
            network(cresset.randn(4, 8) * scale)
