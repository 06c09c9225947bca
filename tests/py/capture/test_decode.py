"""capture.md 12: every opcode of this CPython has a row, and code decodes to what `dis` says."""
import dis
import pathlib
import subprocess
import sys
import types

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import reentry_programs as programs  # noqa: E402

from cresset import _C  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[3]


def test_table_is_up_to_date():
    done = subprocess.run([sys.executable, ROOT / "tools" / "opcodes.py", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_instruction_says_what_happens():
    table = _C._instruction_table()
    assert len(table) > 90
    assert all(reason is None or len(reason) > 10 for reason in table.values())


def codes(code):
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from codes(constant)


OPERATORS = ["<", "<=", "==", "!=", ">", ">="]


def argument(instruction):
    """The canonical one: from 3.12 on some arguments have bits of other meaning."""
    if instruction.opname == "LOAD_ATTR" and sys.version_info >= (3, 12):
        return instruction.arg >> 1
    if instruction.opname == "COMPARE_OP" and sys.version_info >= (3, 12):
        text = instruction.argval if isinstance(instruction.argval, str) else instruction.argrepr
        truth = instruction.arg & 16 if sys.version_info >= (3, 13) else 0
        return OPERATORS.index(text.removeprefix("bool(").removesuffix(")")) | truth
    return instruction.arg


def test_decoded_as_dis_says():
    prefixes = {"EXTENDED_ARG", "KW_NAMES", "PRECALL", "CACHE"}
    compared = 0
    for module in (programs, dis, subprocess):
        for code in codes(compile(pathlib.Path(module.__file__).read_text(), "x", "exec")):
            ours = _C._instructions(code)
            theirs = [i for i in dis.get_instructions(code) if i.opname not in prefixes]
            assert [row[4] * 2 for row in ours] == [i.offset for i in theirs]
            begins = {row[3] * 2: k for k, row in enumerate(ours)}
            for (name, arg, _, _, _), instruction in zip(ours, theirs):
                if instruction.opname.startswith("CALL_INTRINSIC"):
                    assert name != "NOP"
                    continue
                assert name.split("_")[0] == instruction.opname.split("_")[0]
                if instruction.opcode in dis.hasjrel:
                    behind = ("END_FOR", "POP_TOP")[:arg - begins[instruction.argval]]  # passed over by a loop's end
                    assert [ours[k][0] for k in range(begins[instruction.argval], arg)] == [*behind]
                    assert not behind or instruction.opname == "FOR_ITER"
                elif instruction.arg is not None:
                    assert arg == argument(instruction)
                compared += 1
    assert compared > 5000


def test_keyword_names_belong_to_the_call():
    def f(g):
        return g(1, a=2, b=3)
    calls = [row for row in _C._instructions(f.__code__) if row[0].startswith("CALL")]
    if sys.version_info >= (3, 13):  # the names lie on the stack
        assert [row[0] for row in calls] == ["CALL_KW"]
        return
    assert len(calls) == 1 and f.__code__.co_consts[calls[0][2]] == ("a", "b")
    assert calls[0][3] < calls[0][4]
