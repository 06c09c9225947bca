"""What every sweep of tests/full ends with: results/NAME.json with at least `passed` and `failed`, a line that says so,
and an exit code that is not 0 when something failed or nothing was tried: a sweep that matches nothing has shown
nothing.

    chosen = results.chosen("decomp", programs, argv, lambda p: p.name)     # by substrings; none: the sweep ends
    sys.exit(results.end("decomp", passed, failed, programs=len(chosen)))
"""
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]


def path_of(name):
    return ROOT / "results" / f"{name}.json"


def write(name, passed, failed, **rest):
    """A run that is stopped leaves a whole file."""
    path = path_of(name)
    path.parent.mkdir(exist_ok=True)
    partial = path.with_suffix(".part")
    partial.write_text(json.dumps({"passed": passed, "failed": failed, **rest}, indent=0) + "\n")
    partial.replace(path)


def kept(name, argv):
    """What an earlier run wrote, unless --fresh."""
    path = path_of(name)
    return json.loads(path.read_text()) if path.exists() and "--fresh" not in argv else {}


def end(name, passed, failed, **rest):
    write(name, passed, failed, **rest)
    print(f"{name}: {passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


def chosen(name, items, argv, called=str):
    """Those whose name (`called`) has one of the words of argv in it; all without words. Nothing: the sweep ends."""
    words = [a for a in argv if not a.startswith("-")]
    found = [item for item in items if not words or any(word in called(item) for word in words)]
    if not found:
        sys.exit(f"{name}: nothing has {' or '.join(map(repr, words))} in its name: nothing was tried")
    return found


def only(name, argv, known=lambda word: False):
    """Ends a sweep that would ignore a word; `known`: does it know this one?"""
    unknown = [a for a in argv if not known(a)]
    if unknown:
        sys.exit(f"{name}: cannot choose by {' '.join(map(repr, unknown))}: its first lines say what it takes")


def numbered(name, argv, programs):
    """The first number and how many, of a sweep over numbered programs: `N`, `--from=N`."""
    only(name, argv, lambda word: word.isdigit() or word == "--fresh" or word.startswith("--from="))
    begin = next((int(a.partition("=")[2]) for a in argv if a.startswith("--from=")), 0)
    return begin, next((int(a) for a in argv if a.isdigit()), programs)
