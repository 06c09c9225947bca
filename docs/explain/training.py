"""A training step that prints its loss: the number is read from a tensor in the middle of the step."""
import cresset
import cresset.nn as nn

model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = cresset.optim.SGD(model.parameters(), lr=0.05)


@cresset.compile(backend="eager")
def loss_of(x, y, step):
    predicted = model(x).squeeze(-1)
    loss = ((predicted - y) ** 2).mean()
    if step % 2 == 0:
        print(f"step {step}: loss {loss.item():.4f}")
    penalty = sum((p * p).sum() for p in model.parameters())
    return loss + 1e-4 * penalty


cresset.manual_seed(0)
x = cresset.randn(64, 16)
y = x[:, 0] - 2 * x[:, 1]
for step in range(4):
    optimizer.zero_grad()
    loss_of(x, y, step).backward()
    optimizer.step()
