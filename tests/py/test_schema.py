"""The schema parser against PyTorch's own list: every op of the dispatcher whose types Cresset has prints back
exactly."""
import re

import pytest

from cresset import _C

# Types of values that no op of Cresset takes.
FOREIGN = re.compile(r"\b(?:QScheme|Storage|Stream|Dict|__torch__[\w.]*)")


def dispatcher_schemas(torch):
    """All schemas of the dispatcher in the namespace aten."""
    ops = {name.removesuffix(".") for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::")}
    found = {}
    for schema in torch._C._jit_get_all_schemas():
        name = schema.name + ("." + schema.overload_name if schema.overload_name else "")
        if name in ops:
            found[name] = str(schema)
    text = "\n".join(found[name] for name in sorted(found))
    return torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8)  # bytes: the record is compressed


def test_all_of_pytorch(oracle):
    schemas = oracle("schemas", dispatcher_schemas).array.tobytes().decode().splitlines()
    assert len(schemas) > 2500
    read, foreign, wrong = 0, 0, []
    for text in schemas:
        try:
            again = _C._schema_text(text)
        except ValueError as error:
            if "unknown type" in str(error) and FOREIGN.search(text):
                foreign += 1
            else:
                wrong.append(f"{text}: {error}")
            continue
        read += 1
        if again != text:
            wrong.append(f"{text} prints {again}")
    assert not wrong, "\n".join(wrong[:10])
    print(f"{read} schemas read, {foreign} with foreign types")
    assert read > 3000 and foreign < 20


@pytest.mark.parametrize("text, message", [("aten::f(Tensr x) -> Tensor", "schema 1:9: unknown type"),
                                           ("aten::f(", "schema 1:9: expected a name")])
def test_faults(text, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        _C._schema_text(text)
