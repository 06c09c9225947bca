"""Compiled forward and backward code is found again on disk by a second process."""
import json
import os
import subprocess
import sys

STEP = """
import json, cresset
from cresset._functorch.aot_autograd import aot_function, cache_info
x = (cresset.arange(6).reshape(2, 3) / 7).requires_grad_()
f = aot_function(lambda x: (x.OP() * 3).exp(), "native")
f(x).sum().backward()
print(json.dumps([x.grad.tolist(), *cache_info()]))
"""


def step(folder, op="sin"):
    ran = subprocess.run([sys.executable, "-c", STEP.replace("OP", op)], capture_output=True, text=True,
                         check=True, env={**os.environ, "CRESSET_CACHE": str(folder)})
    return json.loads(ran.stdout)


def test_second_process(tmp_path):
    folder = tmp_path / "cache"
    grad, hits, misses, bypassed = step(folder)
    assert (hits, misses, bypassed) == (0, 2, None)
    assert step(folder) == [grad, 2, 0, None]
    other = step(folder, "tan")
    assert other[0] != grad and other[1:3] == [0, 2]
    for path in [p for p in folder.rglob("*") if p.is_file()]:
        path.chmod(0o666)  # anybody could have written it
    assert step(folder) == [grad, 0, 2, None]
    assert step("off") == [grad, 0, 0, "CRESSET_CACHE is off"]
