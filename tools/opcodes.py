"""Writes src/capture/opcodes_XYZ.h: how the opcodes of one CPython version become canonical instructions.

    python3.12 tools/opcodes.py           (the version that runs it; --check: says whether the file is up to date)

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
CANONICAL = {"JUMP_FORWARD": "JUMP", "JUMP_BACKWARD": "JUMP", "JUMP_BACKWARD_NO_INTERRUPT": "JUMP",
             "LOAD_FAST_CHECK": "LOAD_FAST"}
# In the map of opcodes, but in nobody's code: what CPython puts in when it runs, and what its compiler uses before.
NOT_IN_CODE = re.compile(r"INSTRUMENTED_|SETUP_(FINALLY|CLEANUP|WITH)$|RESERVED$|INTERPRETER_EXIT$|EXIT_INIT_CHECK$|"
                         r"ENTER_EXECUTOR$|POP_BLOCK$|JUMP_NO_INTERRUPT$|JUMP$|LOAD_(ZERO_)?SUPER_(METHOD|ATTR)$|"
                         r"LOAD_METHOD$|STORE_FAST_MAYBE_NULL$|LOAD_CLOSURE$")
VERSION = sys.version_info[:2]


def in_code(name):
    real = name == "LOAD_SUPER_ATTR" or VERSION < (3, 12) or VERSION < (3, 13) and name == "LOAD_CLOSURE"
    return real or not NOT_IN_CODE.match(name)


def form(name):
    """How the argument says more than one thing (cr_form of decode.h)."""
    if VERSION < (3, 12):
        return None
    return {"LOAD_ATTR": "METHOD_BIT", "CALL_INTRINSIC_1": "INTRINSIC_1", "CALL_INTRINSIC_2": "INTRINSIC_2",
            "COMPARE_OP": "COMPARISON_12" if VERSION < (3, 13) else "COMPARISON_13"}.get(name)


def caches(name, number):
    table = opcode._inline_cache_entries
    return table.get(name, 0) if isinstance(table, dict) else table[number]


def behind(name):
    """Instructions at its target that a jump passes over: a loop that ends leaves out END_FOR (and POP_TOP)."""
    return {(3, 12): 1, (3, 13): 2}.get(VERSION, 0) if name == "FOR_ITER" else 0


def canonical(name):
    found = re.fullmatch(r"POP_JUMP_(?:FORWARD|BACKWARD)_(IF_\w+)", name)
    return "POP_JUMP_" + found[1] if found else CANONICAL.get(name, name)


def instructions():
    return re.findall(r"^(?:EVALUATED|PLAIN)\((\w+)", (FOLDER / "instructions.def").read_text(), re.M)


def text():
    known = set(instructions())
    version = "{}.{}".format(*VERSION)
    rows = []
    for name, number in sorted(opcode.opmap.items(), key=lambda item: item[1]):
        if name in PREFIXES:
            rows.append(f'    [{number}] = {{ "{name}", .unit = {PREFIXES[name]} }},')
            continue
        if not in_code(name):
            continue
        how = form(name)
        intrinsic = how and how.startswith("INTRINSIC")
        if canonical(name) not in known and not intrinsic:
            sys.exit(f"{name} of CPython {version} is no instruction of src/capture/instructions.def: add a row there")
        jump = -1 if "BACKWARD" in name else 1 if number in opcode.hasjrel else 0
        more = [f".caches = {caches(name, number)}"] if caches(name, number) else []
        more += [f".jump = {jump}"] if jump else []
        more += [f".behind = {behind(name)}"] if behind(name) else []
        more += [f".form = CR_FORM_{how}"] if how else []
        fields = ", ".join(["CR_I_NOP" if intrinsic else f"CR_I_{canonical(name)}", ".unit = CR_UNIT_OWN", *more])
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
