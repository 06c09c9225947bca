"""What a user downloads: the stripped library against its limit."""
import os
import pathlib
import subprocess
import tempfile

from measure import row

LIMIT = 6_000_000


def rows():
    library = pathlib.Path(os.environ["CRESSET_BUILD"]) / "libcresset.so"
    with tempfile.TemporaryDirectory() as folder:
        stripped = pathlib.Path(folder) / "libcresset.so"
        subprocess.run(["strip", "--strip-unneeded", "-o", stripped, library], check=True)
        yield row("libcresset.so stripped, bytes", stripped.stat().st_size, LIMIT, "limit")
