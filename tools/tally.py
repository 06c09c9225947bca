"""Adds up the counts of a test run and prints the one line that every run ends with: `N passed, N failed`.

    tally.py FOLDER...      reads ctest's and pytest's JUnit files (*.xml) and the sweeps' counts (*.json)

Exit code 1 when something failed or nothing ran.
"""
import json
import pathlib
import sys
import xml.etree.ElementTree as ElementTree


def count_junit(path):
    passed = failed = skipped = 0
    for case in ElementTree.parse(path).iter("testcase"):
        outcomes = {child.tag for child in case}
        if outcomes & {"failure", "error"} or case.get("status") == "fail":
            failed += 1
        elif "skipped" in outcomes or case.get("status") in ("notrun", "disabled"):
            skipped += 1
        else:
            passed += 1
    return passed, failed, skipped


def count_sweep(path):
    counts = json.loads(path.read_text())
    return int(counts["passed"]), int(counts["failed"]), int(counts.get("skipped", 0))


def main(folders):
    total = [0, 0, 0]
    for folder in map(pathlib.Path, folders):
        for path in sorted(folder.glob("*.xml")) + sorted(folder.glob("*.json")):
            counts = count_junit(path) if path.suffix == ".xml" else count_sweep(path)
            total = [a + b for a, b in zip(total, counts)]
    passed, failed, skipped = total
    if skipped:
        print(f"not run: {skipped} (each says why above)")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
