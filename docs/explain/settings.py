"""A module that reads its settings and counts its calls: which guards fail, and how often."""
import cresset
import cresset.nn as nn


class Settings:
    def __init__(self):
        self.scale = 1.0
        self.activation = "relu"


class Block(nn.Module):
    def __init__(self, settings):
        super().__init__()
        self.settings = settings
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        h = self.linear(x) * self.settings.scale
        return h.relu() if self.settings.activation == "relu" else h.tanh()


settings = Settings()
block = cresset.compile(Block(settings), backend="eager")
x = cresset.ones(2, 4)
for scale, activation in ((1.0, "relu"), (1.0, "relu"), (0.5, "relu"), (0.5, "tanh"), (1.0, "relu")):
    settings.scale, settings.activation = scale, activation
    block(x)
block.eval()
block(x)
