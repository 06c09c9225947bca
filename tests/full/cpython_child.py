"""One module of CPython's own tests, run in this process: `cpython_child.py MODULE FILE [--captured] [WORD...]`. Writes
{"outcomes": {test: how}, "counts": ...} to FILE; --captured: every function that is called is captured, unittest's and
the standard library's too. Words choose tests by parts of their names."""
import faulthandler
import importlib
import json
import sys
import unittest
import warnings


class Outcomes(unittest.TestResult):
    """How each test ended, with its subtests."""

    def __init__(self):
        super().__init__()
        self.found = {}

    def note(self, test, how, error=None):
        self.found[str(test)] = how if error is None else f"{how}: {self._exc_info_to_string(error, test)}"

    def startTest(self, test):
        super().startTest(test)
        self.note(test, "passed")

    def addSuccess(self, test):
        pass

    def addError(self, test, error):
        self.note(test, "error", error)

    def addFailure(self, test, error):
        self.note(test, "failure", error)

    def addSubTest(self, test, subtest, error):
        if error is not None:
            self.note(subtest, "failure", error)

    def addSkip(self, test, reason):
        self.note(test, "skipped")

    def addExpectedFailure(self, test, error):
        self.note(test, "expected failure")

    def addUnexpectedSuccess(self, test):
        self.note(test, "unexpected success")


def each(suite):
    for test in suite:
        yield from each(test) if isinstance(test, unittest.TestSuite) else [test]


def run(name, words):
    """The module is imported here: what it does at its top level is part of it."""
    module = importlib.import_module(f"test.{name}")
    suite = unittest.defaultTestLoader.loadTestsFromModule(module)
    outcomes = Outcomes()
    if words:
        suite = unittest.TestSuite(t for t in each(suite) if any(w in str(t) for w in words))
    suite.run(outcomes)
    return outcomes.found


def main():
    faulthandler.enable()
    name, path, *words = sys.argv[1:]
    captured = "--captured" in words
    words = [w for w in words if not w.startswith("-")]
    warnings.simplefilter("default")
    counts = None
    if captured:
        from cresset import _C
        found, counts = _C._capture_all(run, name, words)
    else:
        found = run(name, words)
    with open(path, "w") as file:
        json.dump({"outcomes": found, "counts": counts}, file)


if __name__ == "__main__":
    main()
