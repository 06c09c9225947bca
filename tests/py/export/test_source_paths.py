"""X10: what an archive and a library say of where the program came from: files below the working folder, nothing of the
user."""
import json
import re
import subprocess
import sys
import zipfile

PROGRAM = """
import sys
import cresset
sys.path.insert(0, {inside!r})
sys.path.insert(0, {outside!r})
import near, far
for module in (near, far):
    ep = cresset.export.export(module.Model(), (cresset.ones(2),))
    name = module.__name__
    cresset.export.save(ep, name + ".pt2")
    cresset.export.save(ep, name + "_whole.pt2", absolute_paths=True)
    again = cresset.export.load(name + "_whole.pt2")
    cresset.export.save(again, name + "_again.pt2")
    cresset.aot_compile(ep, options={{"output_path": name + ".so"}})
"""
MODEL = "import cresset\nclass Model(cresset.nn.Module):\n    def forward(self, x):\n        return x.sin() + 1\n"


def files(path):
    with zipfile.ZipFile(path) as z:
        nodes = (json.loads(z.read([n for n in z.namelist()
                                    if n.endswith("models/model.json")][0]))["graph_module"]["graph"]["nodes"])
    return {name for node in nodes for name in re.findall(r'File "([^"]*)"', node["metadata"].get("stack_trace", ""))}


def test_paths_of_sources(tmp_path):
    work, outside = tmp_path / "alice" / "work", tmp_path / "alice" / "elsewhere"
    for folder, name in ((work / "models", "near"), (outside, "far")):
        folder.mkdir(parents=True)
        (folder / f"{name}.py").write_text(MODEL)
    code = PROGRAM.format(inside=str(work / "models"), outside=str(outside))
    done = subprocess.run([sys.executable, "-c", code], cwd=work, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert files(work / "near.pt2") == {"models/near.py"} and files(work / "far.pt2") == {"far.py"}
    assert files(work / "far_whole.pt2") == files(work / "far_again.pt2") == {str(outside / "far.py")}
    for name in ("near.pt2", "far.pt2", "near.so", "far.so"):
        assert b"alice" not in (work / name).read_bytes()
