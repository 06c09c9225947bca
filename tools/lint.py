"""The rules of the code base that a machine can check. Prints `file:line: what is wrong and what to do`.

    ./dev lint          (exit code 1 when something was found)
"""
import ast
import io
import pathlib
import re
import subprocess
import sys
import tokenize

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Bottom up: a folder includes only itself and the folders before it.
LAYERS = ("runtime base sym archive tensor ops graph trace passes autograd export lower emit api python capture "
          "cli").split()
PYTHON_LAYERS = {"capture", "python"}
# The files that make up Cresset's own tensors in Python; the others serve tensors of any library, through frontend.h.
OWN_TENSORS = {f"{name}.c" for name in ("autograd_type buffer data dlpack frontend_cresset index node_type operators "
               "random safetensors saved_type state table tensor_attributes tensor_methods tensor_type "
               "torch_file vmap").split()}
STANDALONE = {"abi.h"}  # public headers that compiled code reads: include/cresset/abi.h stands alone

MAX_LINES = 1200
MAX_COLUMNS = 120
TEXT = {".c", ".h", ".def", ".inc", ".py", ".pyi", ".md", ".txt", ".toml", ".cmake", ".json", ".sh", ".crg", ""}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
# A comparison of a raw size in a rule: sizes may be symbolic, so the rule must say what the comparison means.
SIZE_COMPARISON = re.compile(r"(?:\.|->)sizes?\[[^]]*\]\s*(?:[=!<>]=|[<>](?![<>=]))|"
                             r"(?:[=!<>]=|[^-<>][<>])\s*[\w.>-]*(?:\.|->)sizes?\[")
MACHINE_PATH = re.compile(r"(?<![\w.$}])/(?:root|work|home/\w+|Users/\w+)(?:/|\b)")
TODO = re.compile(r"\b(?:TODO|FIXME|XXX)\b(.*)")
POINTER = re.compile(r"^\s*(?:static |const |extern )*(?:char|void|int|float|double|u?int\d+_t|size_t|"
                     r"(?:cr|rt)_\w+)\* \w")
# Variables of these folders would be shared by threads, each of which exports and records for itself: src/ops/op.h,
# cr_ambient.
THREADED = {("src", "python"), ("src", "trace")}
GLOBAL = r"(?!extern\b|typedef\b|return\b|struct\b|enum\b|union\b)\w[\w ]*[ *]+cr_\w+\s*(?:\[\w*\]\s*)?[;=]"
SIGNATURE = r".*\)\s*(?:\{|;|\{.*\})?[\s\\]*$|[^=]*\([^=]*,$"  # whole, or its first line
VARIABLE = re.compile(rf"(?:\s*static\b|_Thread_local\b|{GLOBAL})(?!{SIGNATURE})")
CONSTANT = re.compile(r"static const (?!\w+ \*(?!const))|\*const \w|static char \*\w+\[\] = ")
# Tables that Python reads, and ops that are looked up when they are needed first.
PYTHON_TABLES = ("MethodDef|GetSetDef|MemberDef|TypeObject|SequenceMethods|MappingMethods|NumberMethods|BufferProcs|"
                 "ModuleDef")
TABLE = re.compile(rf"^\s*(?:static )?(?:struct )?(?:Py(?:{PYTHON_TABLES})|op_slot|op_attribute|const cr_op) "
                   r"(?!\*\*)(?!\*cr_py)")
UNUSED = re.compile(r"# unused (\w+(?:, \w+)*): \S")
SHARED = re.compile(r"/\* (?:once|process)\b")
SPACING = re.compile(r"\b(?:if|for|while|switch)\(")


def tracked_files():
    listing = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True,
                             text=True, check=True)
    for name in listing.stdout.splitlines():
        path = ROOT / name
        if path.is_file() and not path.is_symlink():
            yield path.relative_to(ROOT)


def check_paths(path):
    """In every file, archives and recorded answers too: what PyTorch saves holds stack traces."""
    text = (ROOT / path).read_text(encoding="latin-1")
    for found in MACHINE_PATH.finditer(text) if path.name != "lint.py" else ():
        line = text.count("\n", 0, found.start()) + 1
        yield line, "a path of one machine: name it relative to the repository, or by a variable"


def check_include(path, system, target):
    parts = path.parts
    if target == "Python.h" or target.startswith("structmember.h"):
        if parts[0] == "src" and parts[1] not in PYTHON_LAYERS:
            yield f"{target} belongs to src/capture and src/python alone; move the Python part there"
        return
    if parts[0] not in ("src", "include") or system == "<":
        return
    if parts[0] == "include":
        if path.name in STANDALONE:
            yield f"{path.name} stands alone (compiled models read it): no include of ours"
        elif not target.startswith("cresset/"):
            yield f'a public header includes only "cresset/...", found "{target}"'
        return
    layer = parts[1]
    if layer not in LAYERS:
        yield f"src/{layer} is not in the order of layers in tools/lint.py: add it there and to docs/architecture.md"
        return
    if layer == "runtime":
        alone = {f"cresset/{name}" for name in STANDALONE}
        if "/" in target and not target.startswith("runtime/") and target not in alone:
            yield f'src/runtime includes nothing of ours, found "{target}": compiled models link these files alone'
        return
    if target == "python/tensor.h" and path.name not in OWN_TENSORS:
        yield "what a tensor is, is asked of python/frontend.h: this file may not know one library's"
    used = target.split("/")[0]
    if layer == "cli" and used not in ("cresset", "cli"):
        yield f'the tool uses the C API alone (include/cresset), found "{target}": add there what is of general use'
    if used in LAYERS and LAYERS.index(used) > LAYERS.index(layer):
        yield f'src/{layer} is below src/{used} and may not include "{target}"; move what both need to the lower folder'


def measured_lines(path, text):
    """The lines whose width counts: code. Tables of ops, and texts over several lines inside Python (tables of cases,
    programs to run), keep one row a line."""
    every = range(1, text.count("\n") + 2)
    if path.suffix in (".c", ".h", ".def"):
        return every
    if path.suffix != ".py":
        return ()
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    documentation = {node.body[0].lineno for node in ast.walk(ast.parse(text))
                     if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)}
    rows = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        is_text = tokenize.tok_name[token.type] in ("STRING", "FSTRING_MIDDLE")
        if is_text and token.start[0] != token.end[0] and token.start[0] not in documentation:
            rows.update(range(token.start[0], token.end[0] + 1))
    return set(every) - rows


def check_file(path):
    try:
        text = (ROOT / path).read_text()
    except UnicodeDecodeError:
        return
    lines = text.splitlines()
    measured = measured_lines(path, text)
    is_c = path.suffix in (".c", ".h", ".def", ".inc")
    is_code = is_c or path.suffix == ".py"
    is_lint = path.name == "lint.py"
    if is_code and len(lines) > MAX_LINES:
        yield 1, f"{len(lines)} lines; a file is one idea and at most {MAX_LINES} lines: split it"
    in_rules = path.parts[:2] == ("src", "ops") and path.name.startswith("rules")
    for number, line in enumerate(lines, 1):
        if is_code and line.rstrip() != line:
            yield number, "spaces at the end of the line"
        if is_code and "\t" in line:
            yield number, "a tab: indent with spaces"
        if len(line) > MAX_COLUMNS and number in measured:
            yield number, f"{len(line)} columns; {MAX_COLUMNS} is the limit: wrap it (./dev fmt wraps C)"
        if is_code and not is_lint:
            todo = TODO.search(line)
            if todo and not re.search(r"\b(?:until|when)\b", todo.group(1)):
                yield number, "a TODO names the condition that ends it: 'until ...' or 'when ...'"
        if not is_c:
            continue
        include = INCLUDE.match(line)
        if include:
            for message in check_include(path, *include.groups()):
                yield number, message
        code = line.split("/*")[0]
        code = re.sub(r'"(?:\\.|[^"\\])*"', '""', code)
        if code.lstrip().startswith("*"):
            continue
        if POINTER.match(code):
            yield number, "write pointers as `T *x`"
        if (path.parts[:2] in THREADED and VARIABLE.match(code) and not CONSTANT.search(code) and not TABLE.match(code)
            and not SHARED.search(line)):
            yield (number, "a variable that threads share: put it into cr_ambient (ops/op.h), or say /* once */ (set "
                           "once) or /* process: why */ beside it")
        if SPACING.search(code):
            yield number, "write `if (x)`: a space before the parenthesis"
        if in_rules and SIZE_COMPARISON.search(code):
            yield (number, "a raw comparison of a size, which may be symbolic: use cr_dim_known, cr_dim_decide or "
                           "cr_dim_require")


def refuses_all(function):
    """Is there nothing in it but a text, or an error?"""
    rest = [part for part in function.body if not (isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant))
            and not isinstance(part, ast.Pass)]
    return all(isinstance(part, ast.Raise) for part in rest)


def check_parameters(path):
    """An argument that is accepted and ignored is a wrong answer: it works, is refused, or a comment says why nothing
    depends on it."""
    text = (ROOT / path).read_text()
    lines = text.splitlines()
    for function in ast.walk(ast.parse(text)):
        if not isinstance(function, ast.FunctionDef) or refuses_all(function):
            continue
        # Python says what those take
        if function.name.startswith("__") and function.name not in ("__init__", "__call__"):
            continue
        given = function.args
        names = [one.arg for one in [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
                 if one is not None]
        read = {name.id for part in function.body for name in ast.walk(part) if isinstance(name, ast.Name)}
        excused = set()
        for line in lines[max(function.lineno - 2, 0):function.end_lineno]:
            excuse = UNUSED.search(line)
            excused |= set(excuse.group(1).split(", ")) if excuse else set()
        for name in names:
            if name not in read | excused | {"self", "cls"} and not name.startswith("_"):
                yield (function.lineno, f"{function.name}() never reads '{name}': let it work, refuse it, or say '# "
                       f"unused {name}: why nothing depends on it'")


def check(path):
    """What is wrong with one file: (line, message) pairs."""
    yield from check_paths(path)
    if path.suffix == ".py" and path.parts[:2] == ("python", "cresset"):
        yield from check_parameters(path)
    if path.suffix in TEXT and not path.is_relative_to("tests/fuzz/corpus"):
        yield from check_file(path)


def main():
    found = 0
    for folder in sorted((ROOT / "src").iterdir()):
        if folder.is_dir() and not (folder / "README.md").is_file() and any(folder.glob("*.[ch]")):
            print(f"src/{folder.name}: no README.md: one paragraph on what it does, may use, and where to begin "
                  "reading")
            found += 1
    for path in tracked_files():
        for number, message in check(path):
            print(f"{path}:{number}: {message}")
            found += 1
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
