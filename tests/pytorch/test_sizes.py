"""Size([...]) made inside of captured functions, by both front ends: part of the graph, as the sizes of tensors are."""
import pytest

torch = pytest.importorskip("torch", reason="these are PyTorch's programs")
import cresset  # noqa: E402

PROGRAMS = {
    "reshape": lambda lib, x: x.reshape(lib.Size([2, x.shape[0] // 2])) * 2,
    "sum": lambda lib, x: x.new_zeros(lib.Size([2]) + x.shape) + 1,
    "repeated": lambda lib, x: x.expand(lib.Size([1]) * 2 + x.shape),
    "result": lambda lib, x: (x + 1, lib.Size([3, x.shape[0]]), lib.Size()),
    "numel": lambda lib, x: x * lib.Size((2, 3)).numel() + x.shape.numel(),
    "methods": lambda lib, x: x * x.shape.count(4) + lib.Size([1, 4]).index(4),
    "empty": lambda lib, x: x.sum().reshape(lib.Size()),
    "compared": lambda lib, x: x + 1 if x.shape == lib.Size([4]) else x - 1,
    "generated": lambda lib, x: x[:4].reshape(lib.Size(n for n in (2, 2))),
    "unpacked": lambda lib, x: x[:4].reshape(*lib.Size([2, 2])) + lib.Size([4, 5])[-1] + len(lib.Size([1])),
    "key": lambda lib, x: {lib.Size([2]): x + 1}[lib.Size([2])],
    "class": lambda lib, x: (isinstance(lib.Size([2]), lib.Size), type(lib.Size([3])) is lib.Size, x + 1,
                             repr(lib.Size([3])).split(".")[1], hash(lib.Size([3])) == hash((3,))),
    "keyword": lambda lib, x: lib.zeros(size=lib.Size([2, 2])) + x[:2],
}


def shown(value):
    return type(value), str(value)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("lib", [cresset, torch], ids=lambda m: m.__name__)
@pytest.mark.parametrize("name", PROGRAMS)
def test_sizes_are_captured(name, lib, dynamic):
    def program(x):
        return PROGRAMS[name](lib, x)
    compiled = cresset.compile(program, backend="eager", dynamic=dynamic, fullgraph=True)
    for n in (4, 6, 4):
        x = lib.ones(n)
        assert shown(compiled(x)) == shown(program(x))
    assert compiled._counts()["plain"] == 0 and len(compiled._entries()) <= 2


@pytest.mark.parametrize("lib", [cresset, torch], ids=lambda m: m.__name__)
def test_open_sizes_stay_open(lib):
    compiled = cresset.compile(lambda x: (x.reshape(lib.Size([2, x.shape[0] // 2])), lib.Size([x.shape[0] + 1])),
                               backend="eager", dynamic=True, fullgraph=True)
    for n in (4, 6, 8, 100):
        result, size = compiled(lib.ones(n))
        assert result.shape == (2, n // 2) and size == (n + 1,) and type(size) is lib.Size
    assert len(compiled._entries()) == 1


@pytest.mark.parametrize("lib", [cresset, torch], ids=lambda m: m.__name__)
def test_what_is_no_size_raises(lib):
    compiled = cresset.compile(lambda x: x.reshape(lib.Size([2.0, 2])), backend="eager")
    for _ in range(2):
        with pytest.raises(TypeError, match="item 0 is 'float'"):
            compiled(lib.ones(4))
