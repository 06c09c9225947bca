"""P4: as many as there are: long lists, many results, operands of a branch and nodes in one. Bodies are what their
region hands to them."""
import io
import json
import zipfile

import cresset
import pytest


def both(function, *inputs, tmp_path):
    """Interpreted, and as native code."""
    class Module(cresset.nn.Module):
        def forward(self, *args):
            return function(*args)
    program = cresset.export.export(Module(), inputs)
    path = tmp_path / "m.pt2"
    cresset.export.save(program, path)
    native = cresset.aot_load(cresset.aot_compile(str(path), options={"output_path": str(tmp_path / "m.so")}))
    return cresset.export.load(path).module()(*inputs), native(*inputs)


def test_a_list_of_600_and_600_results(tmp_path):
    x = cresset.arange(600.0)
    here, native = (both(lambda x: cresset.cat(cresset.unbind(cresset.cat([x + i for i in range(600)]).reshape(600,
            600), 0)[::-1]), x, tmp_path=tmp_path))
    expected = cresset.cat([x + i for i in range(599, -1, -1)])
    assert (here == expected).all() and (native == expected).all()


def test_a_branch_of_1100_nodes_over_300_operands(tmp_path):
    def long(*tensors):
        total = tensors[0]
        for k in range(1100):
            total = cresset.sin(total + tensors[k % len(tensors)])
        return total

    def program(p, *tensors):
        return cresset.cond(p, long, lambda *tensors: tensors[-1] * 2, tensors)
    tensors = [cresset.full((3,), 0.001 * i) for i in range(300)]
    here, native = both(program, cresset.tensor(True), *tensors, tmp_path=tmp_path)
    assert (here - long(*tensors)).abs().max() <= 1e-5 and (native - here).abs().max() <= 1e-5


def rewritten(path, change):
    """The archive with its program changed."""
    out = io.BytesIO()
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(out, "w") as new:
        for info in old.infolist():
            data = old.read(info)
            if info.filename.endswith("models/model.json"):
                document = json.loads(data)
                change(document)
                data = json.dumps(document).encode()
            new.writestr(zipfile.ZipInfo(info.filename), data)
    return out.getvalue()


@pytest.mark.parametrize("what, change, expected", [
    ("strides", lambda meta: meta.update(strides=[{"as_int": 1}, {"as_int": 2}]), "their strides differ"),
    ("sizes", lambda meta: meta.update(sizes=[{"as_int": 3}, {"as_int": 2}]), "their sizes differ"),
    ("dtype", lambda meta: meta.update(dtype=8), "their dtypes differ"),
    ("rank", lambda meta: meta.update(sizes=[{"as_int": 6}], strides=[{"as_int": 1}]),
     "their numbers of dimensions differ"),
])
def test_a_branch_that_declares_another_input_is_refused(tmp_path, what, change, expected):
    class Module(cresset.nn.Module):
        def forward(self, p, x):
            return cresset.cond(p, lambda x: x.sin(), lambda x: x.cos(), (x,))
    path = tmp_path / "m.pt2"
    cresset.export.save(cresset.export.export(Module(), (cresset.tensor(True), cresset.ones(2, 3))), path)
    assert cresset.export.load(path)

    def spoil(document):
        node, = [n for n in document["graph_module"]["graph"]["nodes"] if n["target"].endswith("cond")]
        body = [i["arg"]["as_graph"]["graph"] for i in node["inputs"] if "as_graph" in i["arg"]][0]
        change(body["tensor_values"][body["inputs"][0]["as_tensor"]["name"]])
    spoilt = tmp_path / "spoilt.pt2"
    spoilt.write_bytes(rewritten(path, spoil))
    with pytest.raises(Exception, match=rf"cond: operand 0, %x, is f32\[2, 3\].*{expected}"):
        cresset.export.load(spoilt)


def test_a_number_where_a_list_belongs(tmp_path):
    class Module(cresset.nn.Module):
        def forward(self, x):
            return x.repeat([2])
    path, spoilt = tmp_path / "m.pt2", tmp_path / "spoilt.pt2"
    cresset.export.save(cresset.export.export(Module(), (cresset.ones(3),)), path)

    def spoil(document):
        node, = document["graph_module"]["graph"]["nodes"]
        node["inputs"][1]["arg"] = {"as_int": 2}
    spoilt.write_bytes(rewritten(path, spoil))
    assert cresset.export.load(spoilt).module()(cresset.ones(3)).shape == (6,)
