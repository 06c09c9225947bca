"""Writes src/ops/table/accepts.inc: for each op of the table the dtypes that PyTorch's CPU kernels accept, found by
trying the op's samples. Ops that accept everything have no line. `./dev record` runs it; torch is needed."""
import contextlib
import os
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "ops"))
import cresset  # noqa: E402
import torch  # noqa: E402
import harness  # noqa: E402
import samples  # noqa: E402
import sweep  # noqa: E402

FILE = ROOT / "src" / "ops" / "table" / "accepts.inc"
# rt_dtype
ORDER = ("uint8 int8 int16 int32 int64 float16 float32 float64 complex32 complex64 complex128 bool bfloat16 uint16 "
         "uint32 uint64").split()


def pure(c, dtype):
    """No other dtype takes part, so that inputs are promoted to this one."""
    def fits(value):
        if isinstance(value, (list, tuple)):
            return all(fits(v) for v in value)
        if isinstance(value, torch.Tensor):
            return value.dtype in (dtype, torch.bool)  # a mask promotes nothing
        if isinstance(value, complex):
            return dtype.is_complex
        if isinstance(value, float):
            return dtype.is_complex or dtype.is_floating_point
        return not isinstance(value, int) or isinstance(value, bool) or dtype != torch.bool
    return all(fits(v) for v in (*c.args, *c.kwargs.values()))


def accepted(name, op, row):
    """Asked with tensors of several elements, since kernels skip checks for few; ops that take no such tensor (item)
    are asked with what they take, and composite ops with all. Pointwise ops are judged by the dtype their inputs are
    promoted to, so those are asked without other dtypes; the rest by their first input's."""
    pointwise, composite = "pointwise" in row["tags"], "composite" in row["tags"]
    for least in (1,) if composite else (2, 1):  # parts of a composite op refuse by themselves
        mask, asked, refused = 0xFFFFFFFF, 0, 0
        for dtype in samples.DTYPES:
            try:
                calls = [c for c in samples.calls_for(row, op, dtype) if all(t.numel() for t in samples.flat(c))
                         and any(t.numel() >= least for t in samples.flat(c))]
            except (RuntimeError, KeyError):  # PyTorch cannot even make the samples
                continue
            if pointwise:
                calls = [c for c in calls if pure(c, dtype)] or calls
            if not calls:
                continue
            asked += 1
            answers = [(c.note, harness.ask(op, c)) for c in calls]
            refusals = [(note, a.error) for note, a in answers if isinstance(a, harness.Refused)]
            plain = [error for note, error in refusals if not note] or [error for _, error in refusals]
            # other classes: the rule says why
            if len(refusals) == len(answers) and all(isinstance(error, RuntimeError) for error in plain):
                mask &= ~(1 << ORDER.index(str(dtype)[6:]))
                refused += 1
        if refused < asked:
            return mask
    return 0xFFFFFFFF


def idle(name, op, row, mask):
    """Refused dtypes that PyTorch lets pass where an input has no elements: its kernel is never reached there."""
    found = 0
    for dtype in samples.DTYPES:
        bit = 1 << ORDER.index(str(dtype)[6:])
        if mask & bit:
            continue
        calls = [c for c in samples.calls_for(row, op, dtype) if any(not t.numel() for t in samples.flat(c))]
        if any(not isinstance(harness.ask(op, c), harness.Refused) for c in calls):
            found |= bit
    return found


def recorded():
    """What the file says now: name -> masks."""
    text = FILE.read_text() if FILE.exists() else ""
    return {name: (int(mask, 16), int(empty or "0", 16))
            for name, mask, empty in re.findall(r'\{ "(.*?)", (0x[0-9a-f]+)(?:, (0x[0-9a-f]+))? \}', text)}


def main(argv):
    """Without arguments all ops are asked; else those whose names contain one, and the other lines stay."""
    lines = recorded() if argv else {}
    with open(os.devnull, "w") as quiet, contextlib.redirect_stderr(quiet):
        for name in sweep.op_names():
            row, op = cresset._C._row(name), sweep.torch_op(name)
            if argv and not any(a in name for a in argv):
                continue
            if op is None or (row["sample"] or "from_schema") not in samples.GENERATORS:
                continue
            lines.pop(name, None)
            mask = accepted(name, op, row)
            if mask != 0xFFFFFFFF:
                lines[name] = mask, idle(name, op, row, mask)
    text = ("/* Dtypes that PyTorch's CPU kernels accept, a bit each (rt_dtype), and those that only empty inputs may "
            "have. Recorded by\n")
    text += " * tools/record_accepts.py. Sorted by name. */\n"
    text += "".join(f'{{ "{name}", 0x{mask:08x}, 0x{empty:08x} }},\n' for name, (mask, empty) in sorted(lines.items()))
    FILE.write_text(text)
    print(f"{len(lines)} ops do not accept every dtype")


if __name__ == "__main__":
    main(sys.argv[1:])
