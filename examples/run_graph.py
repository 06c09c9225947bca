"""Shows a graph file as it is written, as the library prints it back with every size filled in, and what it gives when run.

    ./dev exec python examples/run_graph.py examples/scores.crg

The file's `# input:` lines are its inputs. The work is done by the graph driver `crg`, which the tests in tests/text use.
"""
import pathlib
import subprocess
import sys
import tempfile


def driver(text, command):
    """What the driver's command gives for a graph text."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "graph.crg"
        path.write_text(text.replace("# run: run\n", f"# run: {command}\n"))
        done = subprocess.run(["crg", "--update", str(path)], capture_output=True, text=True)
        if done.returncode:
            sys.exit(done.stdout + done.stderr)
        return path.read_text().partition("# expect:\n")[2].rstrip()


def main():
    path = pathlib.Path(sys.argv[1])
    whole = path.read_text()
    text, mark, expected = whole.partition("# expect:\n")
    if not mark:
        sys.exit(f"{path}: no '# expect:' line: add one at the end")
    print(text.rstrip())
    print("\nprinted back:\n")
    print(driver(text + mark, "parse"))
    result = driver(text + mark, "run")
    print("\nrun:\n")
    print(result)
    if expected.strip() and result != expected.rstrip():
        print("\n(the file expects other results)")


if __name__ == "__main__":
    main()
