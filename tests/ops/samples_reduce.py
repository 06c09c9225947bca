"""Samples of reductions."""
from samples import call, sample

SHAPES = [(), (7,), (3, 4), (2, 3, 4), (0,), (2, 0, 3), (3, 300), (300, 3), (1, 1)]


@sample("reduce_all")
def reduce_all(make):
    for shape in SHAPES:
        yield call(make.tensor(shape, special=shape == (3, 300)))
    if make.schema.arguments[-1].name == "dtype":
        import torch
        if not make.dtype.is_complex:
            yield call(make.tensor(3, 4), dtype=torch.float64)
            yield call(make.tensor(3, 4), dtype=torch.float32)


def dims_of(shape):
    return [0, -1] if len(shape) < 2 else [0, -1, 1]


@sample("reduce_dim")
def reduce_dim(make):
    for shape in SHAPES:
        for dim in dims_of(shape):
            yield call(make.tensor(shape, special=shape == (3, 300)), dim)
            yield call(make.tensor(shape), dim, True)
    yield call(make.tensor(3, 4), 2, note="dim out of range")
    yield call(make.tensor(2, 3).expand(4, 2, 3), 0)


@sample("reduce_dim_optional")
def reduce_dim_optional(make):
    keepdim = len(make.schema.arguments) > 2
    for shape in SHAPES:
        yield call(make.tensor(shape))
        for dim in dims_of(shape):
            yield call(make.tensor(shape), dim)
            if keepdim:
                yield call(make.tensor(shape), dim, True)
    if keepdim:
        yield call(make.tensor(3, 4), None, True)


@sample("reduce_dims")
def reduce_dims(make):
    import torch
    for shape in SHAPES:
        yield call(make.tensor(shape), None)
        yield call(make.tensor(shape), [])
        for dim in dims_of(shape):
            yield call(make.tensor(shape, special=shape == (3, 300)), [dim])
            yield call(make.tensor(shape), [dim], True)
    yield call(make.tensor(2, 3, 4), [0, 2])
    yield call(make.tensor(2, 3, 4), [-1, 0], True)
    yield call(make.tensor(2, 3, 4), [0, 0], note="dim twice")
    yield call(make.tensor(2, 3, 4), [3], note="dim out of range")
    if make.schema.arguments[-1].name == "dtype":
        yield call(make.tensor(2, 3, 4), [1], dtype=torch.float64)
        yield call(make.tensor(2, 3, 4), [1], dtype=torch.float32)
        yield call(make.tensor(2, 3, 4), [1], dtype=torch.int32)


@sample("reduce_dims_list")
def reduce_dims_list(make):
    for shape in SHAPES:
        yield call(make.tensor(shape))
        for dim in dims_of(shape):
            yield call(make.tensor(shape, special=shape == (3, 300)), [dim])
            yield call(make.tensor(shape), [dim], True)
    yield call(make.tensor(2, 3, 4), [0, 2])
    yield call(make.tensor(2, 3, 4), [0, 1, 2], True)
    yield call(make.tensor(2, 3, 4), [0, 0], note="dim twice")


@sample("aminmax")
def aminmax(make):
    for shape in SHAPES:
        yield call(make.tensor(shape))
        yield call(make.tensor(shape), dim=-1)
        yield call(make.tensor(shape), dim=0, keepdim=True)


@sample("count_nonzero_dims")
def count_nonzero_dims(make):
    yield call(make.tensor(2, 3, 4), [0, 2])
    yield call(make.tensor(2, 3, 4), [-1])
    yield call(make.tensor(2, 0, 4), [0])


@sample("variance_dim")
def variance_dim(make):
    for shape in [(7,), (3, 4), (2, 3, 4), (3, 300), (2, 0, 3)]:
        yield call(make.tensor(shape), [0])
        yield call(make.tensor(shape), [-1], False)
        yield call(make.tensor(shape), None, True, True)
    yield call(make.tensor(()), None, False)


@sample("variance")
def variance(make):
    for shape in [(7,), (3, 4), (2, 3, 4), (3, 300), (2, 0, 3)]:
        yield call(make.tensor(shape))
        yield call(make.tensor(shape), [0])
        yield call(make.tensor(shape), [-1], correction=0)
        yield call(make.tensor(shape), [-1], correction=2.5, keepdim=True)
    yield call(make.tensor(()), correction=0)


@sample("logsumexp")
def logsumexp(make):
    for shape in SHAPES:
        for dim in dims_of(shape):
            yield call(make.tensor(shape), [dim])
            yield call(make.tensor(shape), [dim], True)
    yield call(make.tensor(2, 3, 4), [0, 2])
    if make.is_float:
        yield call(make.tensor(3, 4) * float("-inf"), [1])


@sample("vector_norm")
def vector_norm(make):
    import torch
    for order in (2, 1, 0, 3, 0.5, -1, float("inf"), float("-inf")):
        yield call(make.tensor(3, 4), order)
        yield call(make.tensor(3, 4), order, [1])
        yield call(make.tensor(2, 3, 4), order, [0, 2], True)
        yield call(make.tensor(2, 0), order, [1])
    yield call(make.tensor(()))
    yield call(make.tensor(600))
    yield call(make.tensor(3, 4), dtype=torch.float64)


@sample("dist")
def dist(make):
    for p in (2, 1, 3, float("inf")):
        yield call(make.tensor(3, 4), make.tensor(3, 4), p)
        yield call(make.tensor(3, 4), make.tensor(4), p)


@sample("value_selecting")
def value_selecting(make):
    yield call(make.tensor(3), 1, make.index(4, (3,)), [3, 4], False)
    yield call(make.tensor(3, 1), 1, make.index(4, (3, 1)), [3, 4], True)
    yield call(make.tensor(()), 0, make.index(4, ()), [4], False)
