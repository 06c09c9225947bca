"""One module of CPython's own tests, run in this process: `cpython_child.py MODULE FILE [--captured] [--compiled]
[WORD...]`. Writes {"outcomes": {test: how}, "counts": ...} to FILE; --captured: every function that is called is
captured, unittest's and the standard library's too; --compiled: generator and coroutine functions of the module are
compiled, each by itself. Words choose tests by parts of their names."""
import ast
import faulthandler
import importlib
import importlib.util
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


class Decorated(ast.NodeTransformer):
    """Every function that yields, or is `async def`, gets the decorator; asynchronous generators do not."""

    def visit_FunctionDef(self, node):
        self.generic_visit(node)
        if yields(node) != isinstance(node, ast.AsyncFunctionDef):
            node.decorator_list.append(ast.copy_location(ast.Name("compiled_by_the_test", ast.Load()), node))
        return node
    visit_AsyncFunctionDef = visit_FunctionDef


def yields(node):
    todo = list(node.body)
    while todo:
        part = todo.pop()
        if isinstance(part, (ast.Yield, ast.YieldFrom)):
            return True
        if not isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda, ast.GeneratorExp)):
            todo += ast.iter_child_nodes(part)
    return False


def decorated(name):
    import cresset
    spec = importlib.util.find_spec(name)
    tree = ast.fix_missing_locations(Decorated().visit(ast.parse(spec.loader.get_data(spec.origin))))
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    module.compiled_by_the_test = cresset.compile(backend="eager")
    exec(compile(tree, spec.origin, "exec"), module.__dict__)
    return module


def run(name, words, compiled=False):
    """The module is imported here: what it does at its top level is part of it."""
    module = (decorated if compiled else importlib.import_module)(f"test.{name}")
    suite = unittest.defaultTestLoader.loadTestsFromModule(module)
    outcomes = Outcomes()
    if words:
        suite = unittest.TestSuite(t for t in each(suite) if any(w in str(t) for w in words))
    suite.run(outcomes)
    return outcomes.found


def main():
    faulthandler.enable()
    name, path, *words = sys.argv[1:]
    captured, compiled = "--captured" in words, "--compiled" in words
    words = [w for w in words if not w.startswith("-")]
    warnings.simplefilter("default")
    counts = None
    if captured:
        from cresset import _C
        found, counts = _C._capture_all(run, name, words, compiled)
    else:
        found = run(name, words, compiled)
    with open(path, "w") as file:
        json.dump({"outcomes": found, "counts": counts}, file)


if __name__ == "__main__":
    main()
