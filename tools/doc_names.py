"""Names in the documentation against the tree: a file, a C name or a row of a table of functions that is not there any
more is a finding. Prints `file:line: what`; `./dev lint` and tests/py/test_docs.py run it.

What is looked at, between backticks:
    `src/lower/lower.c`, `pipeline.c`, `tests/full/NAME.py`   a file (capitals and * stand for anything)
    `cr_lower`, `rt_api_run`, `CRESSET_CACHE`                  a word of the sources
    `run_steps` in CLOSE                                       a word of the sources, whatever its prefix
    | `run_steps` | `src/runtime/rt_method.c` | ...            a function and its file, in tables that begin so
"""
import fnmatch
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Pages that explain the code: every name in them that looks like C must be there.
CLOSE = {"docs/architecture.md", "docs/adding-an-op.md", "docs/writing-a-pass.md"}
SOURCES = (".c", ".h", ".inc", ".py", ".pyi", ".txt", ".toml", ".crg", "")
FILE = re.compile(r"[\w.*/-]*\w\.(?:c|h|inc|py|pyi|md|crg|jsonl|txt|toml)")
PREFIXED = re.compile(r"(?:cr|rt|cli|cresset|CR|RT|CRESSET)_\w+")
PLAIN = re.compile(r"[a-z]\w*_\w+")
ELSEWHERE = {"Python.h", "model.c", "x.c", "digits.c"}  # Python's, and what a reader makes
PLANS = {"docs/features.md"}  # what there is to be, too
ROW = re.compile(r"^\| `(\w+)` \| `([\w/]+\.\w+)` \|")


def tracked():
    command = ["git", "ls-files", "-co", "--exclude-standard"]
    listing = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [name for name in listing.splitlines() if (ROOT / name).is_file()]


def words_of(names):
    """Every word of the sources."""
    words = set()
    for name in names:
        path = pathlib.PurePath(name)
        if path.suffix in SOURCES and not {"docs", "corpus", "recorded"} & set(path.parts):
            words.update(re.findall(r"[A-Za-z_]\w*", (ROOT / name).read_text(errors="ignore")))
    return words


def pattern_of(name):
    """`tests/full/NAME.py` -> `tests/full/*.py`"""
    return re.sub(r"(?<![A-Za-z])[A-Z]{2,}(?![A-Za-z])", "*", name)


def file_is_there(name, names):
    pattern = pattern_of(name).removeprefix("./").removeprefix("../")
    return name in ELSEWHERE or any(fnmatch.fnmatch(n, pattern) or fnmatch.fnmatch(n, f"*/{pattern}") for n in names)


def word_is_there(part, name, words):
    """`cresset_model_NAME`, `cr_dim_*`: any word that begins so."""
    start = re.match(r"(\w*_)(?:[A-Z]{2,}$|\*)", part)
    return name in words or (start and any(w.startswith(start[1]) for w in words))


def defines(path, function):
    """Does a file have the function, not only a call of it?"""
    text = (ROOT / path).read_text() if (ROOT / path).is_file() else ""
    return re.search(rf"^(?:RT_KERNEL\(|\w[^;=(]*?\b){function}\b", text, re.MULTILINE) is not None


def findings(page, text, names, words):
    """(line, message) of one page. `names`: all files, `words`: all words of the sources."""
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            fenced = not fenced
        if fenced:
            continue
        row = ROW.match(line)
        if row and not defines(row[2], row[1]):
            yield number, f"{row[2]} has no `{row[1]}`: name the function that is there now"
        for quoted in re.findall(r"`([^`]+)`", line):
            for part in quoted.split():
                part = part.strip("(),;:")
                if FILE.fullmatch(part):
                    if not file_is_there(part, names):
                        yield number, f"there is no file `{part}`"
                    continue
                name = re.match(r"\w+", part)
                name = name[0] if name else ""
                looks = PREFIXED.fullmatch(name) or (page in CLOSE and PLAIN.fullmatch(name))
                if looks and page not in PLANS and not word_is_there(part, name, words):
                    yield number, f"no source has the name `{name}`"


def main():
    names = tracked()
    words, found = words_of(names), 0
    for name in names:
        if name.endswith(".md"):
            for number, message in findings(name, (ROOT / name).read_text(), names, words):
                print(f"{name}:{number}: {message}")
                found += 1
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
