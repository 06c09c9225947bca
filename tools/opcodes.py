"""Writes src/capture/opcodes_XYZ.h: how the opcodes of one CPython version become canonical instructions.

    python3.11 tools/opcodes.py           (the version that runs it; --check: says whether the file is up to date)

The canonical instructions are the rows of src/capture/instructions.def. Most opcodes are the instruction of their name;
what differs is in CANONICAL. An opcode without a canonical instruction is an error: every one has a row, if only with
the reason why capture ends there.
"""
import opcode
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / "src" / "capture"
# Units that are no instruction of their own: they belong to the one that follows.
PREFIXES = {"EXTENDED_ARG": "CR_UNIT_EXTENDED_ARG", "KW_NAMES": "CR_UNIT_KW_NAMES", "PRECALL": "CR_UNIT_PRECALL",
            "CACHE": "CR_UNIT_CACHE"}
CANONICAL = {"JUMP_FORWARD": "JUMP", "JUMP_BACKWARD": "JUMP", "JUMP_BACKWARD_NO_INTERRUPT": "JUMP"}


def canonical(name):
    found = re.fullmatch(r"POP_JUMP_(?:FORWARD|BACKWARD)_(IF_\w+)", name)
    return "POP_JUMP_" + found[1] if found else CANONICAL.get(name, name)


def instructions():
    return re.findall(r"^(?:EVALUATED|PLAIN)\((\w+)", (FOLDER / "instructions.def").read_text(), re.M)


def text():
    known = set(instructions())
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    rows = []
    for name, number in sorted(opcode.opmap.items(), key=lambda item: item[1]):
        if name in PREFIXES:
            rows.append(f'    [{number}] = {{ "{name}", .unit = {PREFIXES[name]} }},')
            continue
        if canonical(name) not in known:
            sys.exit(f"{name} of CPython {version} is no instruction of src/capture/instructions.def: add a row there")
        jump = -1 if "BACKWARD" in name else 1 if number in opcode.hasjrel else 0
        more = [f".caches = {opcode._inline_cache_entries[number]}"] if opcode._inline_cache_entries[number] else []
        more += [f".jump = {jump}"] if jump else []
        fields = ", ".join([f"CR_I_{canonical(name)}", ".unit = CR_UNIT_OWN", *more])
        rows.append(f'    [{number}] = {{ "{name}", {fields} }},')
    return (f"/* opcodes_{version.replace('.', '')}.h: the opcodes of CPython {version} as canonical instructions. "
            "Written by tools/opcodes.py; do not edit. */\n"
            "static const cr_opcode opcodes[256] = {\n" + "\n".join(rows) + "\n};\n")


def main():
    path = FOLDER / "opcodes_{}{}.h".format(*sys.version_info)
    if "--check" in sys.argv[1:]:
        return 0 if path.exists() and path.read_text() == text() else f"{path.name} is old: run tools/opcodes.py"
    path.write_text(text())
    return 0


if __name__ == "__main__":
    sys.exit(main())
