"""Trains the digits network with PyTorch and writes what the demo runs: digits.pt2, images.npy, labels.npy.

    pip install -c constraints.txt torch scikit-learn
    python examples/digits/train.py

The data are the UCI "optical recognition of handwritten digits" test set that scikit-learn carries: 1797 images of 8x8
pixels. 200 of them, chosen by a fixed shuffle, are held back and become images.npy; the network never sees them. Runs
in well under a minute, and gives the same weights each time on one machine.
"""
import pathlib
import time

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

HERE = pathlib.Path(__file__).resolve().parent
EPOCHS, BATCH, HELD_BACK = 40, 64, 200


class Digits(nn.Module):
    """Two convolutions, normalised; a pooling; two linear layers. Input (batch, 8, 8) of gray levels from 0 to 16."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
            nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2))
        self.classify = nn.Sequential(nn.Flatten(), nn.Dropout(0.3), nn.Linear(32 * 4 * 4, 64), nn.ReLU(),
                                      nn.Linear(64, 10))

    def forward(self, image):
        scores = self.classify(self.features(image.unsqueeze(1) / 16))
        return {"digit": scores.argmax(1), "probability": scores.softmax(1)}


def main():
    begin = time.perf_counter()
    torch.manual_seed(1)
    torch.use_deterministic_algorithms(True)
    data = load_digits()
    order = np.random.default_rng(1).permutation(len(data.images))
    images = torch.tensor(data.images[order], dtype=torch.float32)
    labels = torch.tensor(data.target[order])
    train_images, train_labels = images[HELD_BACK:], labels[HELD_BACK:]

    model = Digits()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-2)
    steps = EPOCHS * (len(train_images) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=steps)
    for epoch in range(EPOCHS):
        shuffled = torch.randperm(len(train_images))
        for i in range(len(train_images) // BATCH):
            chosen = shuffled[i * BATCH:(i + 1) * BATCH]
            batch = train_images[chosen]
            # moved sideways by up to one pixel (the outer columns are empty), so that the network learns shapes and not
            # places
            batch = torch.roll(batch, int(torch.randint(-1, 2, ())), 2)
            scores = model.classify(model.features(batch.unsqueeze(1) / 16))
            loss = nn.functional.cross_entropy(scores, train_labels[chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
        if epoch % 10 == 9:
            print(f"epoch {epoch + 1:2}: loss {loss.item():.4f}")

    model.eval()
    held_images, held_labels = images[:HELD_BACK], labels[:HELD_BACK]
    with torch.no_grad():
        right = (model(held_images)["digit"] == held_labels).sum().item()
    program = torch.export.export(model, (held_images[:2].clone(),),
                                  dynamic_shapes={"image": {0: torch.export.Dim("batch", min=1, max=1024)}})
    packages = pathlib.Path(torch.__file__).parent.parent
    for node in program.graph.nodes:  # source lines that read the same on every machine
        if "stack_trace" in node.meta:
            node.meta["stack_trace"] = node.meta["stack_trace"].replace(f"{HERE}/",
                    "examples/digits/").replace(f"{packages}/", "")
    torch.export.save(program, HERE / "digits.pt2")
    np.save(HERE / "images.npy", held_images.numpy())
    np.save(HERE / "labels.npy", held_labels.numpy())
    sizes = {name: (HERE / name).stat().st_size for name in ("digits.pt2", "images.npy", "labels.npy")}
    print(f"{right} of {HELD_BACK} held-back images right; {time.perf_counter() - begin:.1f} s; bytes: {sizes}")


if __name__ == "__main__":
    main()
