"""Runs the benchmarks: ./dev bench [--json FILE] [NAME...]

A benchmark is bench/bench_NAME.py with `rows()`, which yields dictionaries made by measure.row; or bench/bench_NAME.c,
a program that prints one such dictionary as JSON a line. A benchmark that fails gives one row that is not met, with the
reason, so that nothing is missing from the table unseen. Exit code 1 when a row is not met.
"""
import argparse
import compileall
import importlib
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import traceback

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import measure  # noqa: E402

FIELDS = ("name", "ours", "peer", "peer_name", "ratio", "goal", "met")


def find_benchmarks():
    return sorted({path.stem[len("bench_"):] for path in HERE.glob("bench_*.*") if path.suffix in (".py", ".c")})


def program_rows(name):
    program = pathlib.Path(os.environ["CRESSET_BUILD"]) / "bench" / f"bench_{name}"
    output = subprocess.run([program], stdout=subprocess.PIPE, text=True, check=True).stdout
    for line in output.splitlines():
        yield json.loads(line)


def benchmark_rows(name):
    """The rows of one benchmark; a failure becomes a row."""
    try:
        if (HERE / f"bench_{name}.py").is_file():
            source = importlib.import_module(f"bench_{name}").rows()
        else:
            source = program_rows(name)
        for row in source:
            missing = [field for field in FIELDS if field not in row]
            if missing:
                raise ValueError(f"a row of bench_{name} has no {', '.join(missing)}: make it with measure.row")
            yield row
    except Exception as error:
        traceback.print_exc()
        yield {**measure.row(name, None, None, ""), "error": f"{type(error).__name__}: {error}"}


def number(value):
    return "-" if value is None else f"{value:.4g}"


def print_row(row):
    print(f"{row['name']:<44} {number(row['ours']):>10} {number(row['peer']):>10} {row['peer_name'][:20]:<20} "
          f"{number(row['ratio']):>8} {number(row['goal']):>6}  {'met' if row['met'] else 'NOT MET'}"
          f"{'  ' + row['error'] if 'error' in row else ''}", flush=True)


def write_bytecode():
    """The package has its modules' bytecode, as pip leaves it, whatever the environment says of writing it."""
    folder = pathlib.Path(importlib.util.find_spec("cresset").origin).parent
    compileall.compile_dir(folder, quiet=2)


def main():
    parser = argparse.ArgumentParser(prog="./dev bench")
    parser.add_argument("--json", metavar="FILE", help="also write the rows as a JSON array")
    parser.add_argument("names", nargs="*", metavar="NAME", help="bench/bench_NAME; all when left out")
    options = parser.parse_args()
    known = find_benchmarks()
    unknown = [name for name in options.names if name not in known]
    if unknown:
        print(f"dev: there is no benchmark '{unknown[0]}'; there are: {' '.join(known)}", file=sys.stderr)
        return 2
    print(f"{'benchmark':<44} {'ours':>10} {'peer':>10} {'':<20} {'ratio':>8} {'goal':>6}")
    write_bytecode()
    rows = []
    for name in options.names or known:
        for row in benchmark_rows(name):
            rows.append(row)
            print_row(row)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(rows, file, indent=1)
            file.write("\n")
    missed = [row for row in rows if not row["met"]]
    if missed and len(rows) > len(missed):
        print("below their goals:")
        for row in sorted(missed, key=lambda row: row["ratio"] or 0):
            print(f"  {number(row['ratio']):>8}  {row['name']}")
    met = len(rows) - len(missed)
    print(f"{met} of {len(rows)} goals met")
    return 0 if met == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
