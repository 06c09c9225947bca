"""Joint graphs of the training models in two parts: bytes saved between forward and backward against the smallest cut
without products (the bar that the project set itself, and PyTorch's own minimum cut), seconds of partitioning, and the
curve of bytes and work over budgets, drawn into docs/partition.svg."""
import json
import os
import pathlib
import subprocess

import peers
from measure import row

# Megabytes: PyTorch 2.13's min_cut_rematerialization_partition, and the bar.
PYTORCH = dict(pointwise=0.01, mlp8=3.93, resnet18=16.93, bert=75.98, llama=51.10)
BAR = dict(pointwise=0.005, mlp8=2.10, resnet18=12.35, bert=47.65, llama=38.57)
SECONDS = 0.010
BUDGETS = [i / 20 for i in range(20, -1, -1)]
COLOURS = dict(pointwise="#777777", mlp8="#1f77b4", resnet18="#d62728", bert="#2ca02c", llama="#9467bd")
FIGURE = pathlib.Path(__file__).resolve().parents[1] / "docs" / "partition.svg"


def training_archive(name):
    import models
    return peers.archive(f"{name}.training", lambda: models.make_training(name), grad=True)


def partitions(name, *how):
    step = pathlib.Path(os.environ["CRESSET_BUILD"]) / "bin" / "step"
    done = subprocess.run([step, "partition", training_archive(name), *map(str, how)], check=True, capture_output=True,
                          text=True)
    return [json.loads(line) for line in done.stdout.splitlines()][1:]


def draw(curves):
    """Relative bytes and extra work over the budget, side by side."""
    width, height, margin, gap = 300, 220, 46, 40
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{2 * width + 2 * margin + gap + 20}" '
             f'height="{height + 2 * margin}" font-family="sans-serif" font-size="11">',
             '<rect width="100%" height="100%" fill="white"/>']
    panels = [("saved, of the bytes at budget 1", lambda p, first: p["saved_bytes"] / max(first["saved_bytes"], 1)),
              ("computed again, of the forward FLOPs",
               lambda p, first: p["recomputed_flops"] / max(p["forward_flops"], 1))]
    for number, (title, value) in enumerate(panels):
        left, top = margin + number * (width + gap), margin
        parts.append(f'<rect x="{left}" y="{top}" width="{width}" height="{height}" fill="none" stroke="#999999"/>')
        parts.append(f'<text x="{left + width / 2}" y="{top - 10}" text-anchor="middle">{title}</text>')
        parts.append(f'<text x="{left + width / 2}" y="{top + height + 32}" text-anchor="middle">'
                     'activation_memory_budget</text>')
        for tick in (0, 0.25, 0.5, 0.75, 1):
            x, y = left + tick * width, top + (1 - tick) * height
            parts.append(f'<text x="{x}" y="{top + height + 15}" text-anchor="middle">{tick:g}</text>')
            parts.append(f'<text x="{left - 5}" y="{y + 4}" text-anchor="end">{tick:g}</text>')
        for line, (name, reports) in enumerate(curves.items()):
            points = " ".join(f"{left + b * width:.1f},{top + (1 - value(p, reports[0])) * height:.1f}"
                              for b, p in zip(BUDGETS, reports))
            parts.append(f'<polyline points="{points}" fill="none" stroke="{COLOURS[name]}" stroke-width="1.5"/>')
            if number == 0:
                parts.append(f'<text x="{left + 8}" y="{top + 16 + 14 * line}" fill="{COLOURS[name]}">{name}, '
                             f'{reports[0]["saved_bytes"] / 1e6:.2f} MB at 1</text>')
    FIGURE.write_text("\n".join([*parts, "</svg>"]) + "\n")


def rows():
    import models
    curves = {}
    for name in [make.__name__ for make in models.TRAINED]:
        cuts = partitions(name, *["1"] * 5, *BUDGETS)
        report = cuts[0]["report"]
        megabytes = max(report["saved_bytes"], 1) / 1e6
        yield row(f"partition, {name}: MB saved", megabytes, BAR[name] + 0.005, "plain cut")
        yield row(f"partition, {name}: MB saved", megabytes, PYTORCH[name], "PyTorch 2.13")
        yield row(f"partition, {name}: seconds", min(cut["seconds"] for cut in cuts[:5]), SECONDS, "limit")
        if report["saved_bytes"] > 1e5:
            curves[name] = [cut["report"] for cut in cuts[5:]]
    draw(curves)
