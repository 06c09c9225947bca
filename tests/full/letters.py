"""P6, A1: the character transformer of examples/train_in_c, trained for 200 steps with AdamW on the licence texts of
the machine: by PyTorch; by cresset.compile and cresset.optim; and by the compiled library alone. Losses agree to 1e-3
up to step 50 and to 1e-2 up to step 200; seconds of a step, against torch.compile's, are printed. A number N chooses
how many steps.

    ./dev test --full letters
"""
import os
import pathlib
import sys
import tempfile
import time

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # PyTorch's threads would spin through our turns
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "examples" / "train_in_c")]
import cresset  # noqa: E402
import export as letters  # noqa: E402
import results  # noqa: E402
import torch  # noqa: E402

STEPS, RATE, ROWS, LENGTH = 200, 3e-3, 16, letters.CONTEXT + 1
LICENCES = pathlib.Path("/usr/share/common-licenses")


def rows_of(text, step):
    """What train.c takes in that step."""
    random, rows = 0x9e3779b97f4a7c15 * (step + 1) % 2**64, []
    for _ in range(ROWS):
        random = (random * 6364136223846793005 + 1442695040888963407) % 2**64
        at = (random >> 33) % (len(text) - LENGTH)
        rows.append([b & 127 for b in text[at:at + LENGTH]])
    return rows


def by_module(library, run, parameters):
    """A function (rows) -> loss that makes a step with the library's own optimizer."""
    parameters = list(parameters)
    optimizer = library.optim.AdamW(parameters, lr=RATE)

    def step(rows):
        optimizer.zero_grad()
        loss = run(library.tensor(rows))
        loss.backward()
        library.nn.utils.clip_grad_norm_(parameters, 1)
        optimizer.step()
        return loss.item()
    return step


def ways(folder):
    """{name: step}; PyTorch's own first."""
    made = {}
    for name, library in (("torch", torch), ("torch.compile", torch), ("cresset.compile", cresset)):
        (folder / name).mkdir()
        module = letters.export(library, folder / name)
        run = module if name == "torch" else library.compile(module)
        made[name] = by_module(library, run, module.parameters())
    path = cresset.aot_compile({"loss": folder / "torch" / "loss.pt2"}, joint="adamw,clip_norm=1",
                               options={"output_path": str(folder / "letters.so"), "target": "native"})
    alone = cresset.aot_load(path)
    made["library"] = lambda rows: float(alone.step(cresset.tensor(rows), lr=RATE).item())
    return made


def main(argv):
    results.only("letters", argv, str.isdigit)
    count = next((int(a) for a in argv), STEPS)
    text = b"".join(path.read_bytes() for path in sorted(LICENCES.iterdir()) if path.is_file())
    torch.set_num_threads(2)
    with tempfile.TemporaryDirectory() as name:
        made = ways(pathlib.Path(name))
        losses, seconds = {way: [] for way in made}, {way: [] for way in made}
        for step in range(count):
            rows = rows_of(text, step)
            for way, function in made.items():  # in turns
                begin = time.perf_counter()
                losses[way].append(function(rows))
                seconds[way].append(time.perf_counter() - begin)
    failed, report = 0, {}
    for way in list(made)[2:]:
        apart = [abs(a - b) for a, b in zip(losses[way], losses["torch"])]
        early, late = max(apart[:50]), max(apart)
        faster = sorted(seconds["torch.compile"])[count // 2] / sorted(seconds[way])[count // 2]
        report[way] = {"apart_to_50": early, "apart": late, "times_faster_than_torch_compile": round(faster, 2)}
        failed += early > 1e-3 or late > 1e-2
        print(f"{way}: {count} steps, losses {losses[way][0]:.4f} to {losses[way][-1]:.4f}, apart {early:.1e} up to "
              f"step 50, {late:.1e} to the end; {faster:.2f} times as fast as torch.compile", flush=True)
    return results.end("letters", len(report) - failed, failed, ways=report)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
