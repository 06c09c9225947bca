"""What `import cresset` adds to starting Python, against its limit."""
import statistics
import subprocess
import sys
import time

from measure import row

LIMIT = 0.050


def start_seconds(statement):
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-c", statement], check=True)
    return time.perf_counter() - begin


def rows():
    start_seconds("import cresset")  # fills the file cache
    with_import, without = [], []
    for _ in range(15):
        without.append(start_seconds("pass"))
        with_import.append(start_seconds("import cresset"))
    added = statistics.median(with_import) - statistics.median(without)
    yield row("import cresset, seconds added", max(added, 1e-6), LIMIT, "limit")
