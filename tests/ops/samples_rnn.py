"""Samples of recurrent layers and cells."""
import torch
from samples import call, sample


def weights(make, gates, layers, directions, inputs, hidden, biases, projected=0):
    out = []
    state = projected or hidden
    for layer in range(layers):
        for _ in range(directions):
            width = inputs if layer == 0 else state * directions
            out += [make.tensor(gates * hidden, width), make.tensor(gates * hidden, state)]
            out += [make.tensor(gates * hidden), make.tensor(gates * hidden)] if biases else []
            out += [make.tensor(projected, hidden)] if projected else []
    return [w * 0.4 if w.is_floating_point() else w * 0.1 if w.is_complex() else w for w in out]


def layers(make, gates, lstm):
    for steps, batch, inputs, hidden, count, both, biases, first in [
            (1, 1, 1, 1, 1, False, True, False), (4, 2, 3, 5, 1, False, True, False),
        (4, 2, 3, 5, 1, True, True, True), (3, 2, 4, 3, 2, False, False, True),
            (3, 2, 4, 3, 2, True, True, False), (5, 0, 3, 4, 1, False, True, False)]:
        d = 2 if both else 1
        shape = (batch, steps, inputs) if first else (steps, batch, inputs)
        h = make.tensor(count * d, batch, hidden)
        state = [h, make.tensor(count * d, batch, hidden)] if lstm else h
        yield call(make.tensor(shape), state, weights(make, gates, count, d, inputs, hidden, biases), biases, count,
                   0.0, False, both, first)
    h = make.tensor(2, 2, 5)
    state = [h, make.tensor(2, 2, 5)] if lstm else h
    params = weights(make, gates, 2, 1, 3, 5, True)
    yield call(make.tensor(4, 2, 3), state, params, True, 2, 0.5, True, False, False, note="with dropout")
    yield call(make.tensor(4, 2, 3), state, params[:-1], True, 2, 0.0, False, False, False, note="a weight is missing")
    if not lstm:  # PyTorch reads beyond its weights there
        yield call(make.tensor(4, 2, 4), state, params, True, 2, 0.0, False, False, False, note="wrong width")
    yield call(make.tensor(0, 2, 3), state, params, True, 2, 0.0, False, False, False, note="no steps")
    if lstm and make.is_float:
        state = [make.tensor(2, 2, 3), make.tensor(2, 2, 5)]
        yield call(make.tensor(4, 2, 3), state, weights(make, 4, 1, 2, 3, 5, True, 3), True, 1, 0.0, False, True,
                   False, note="projected")
        yield call(make.tensor(4, 2, 3), state, weights(make, 4, 2, 1, 3, 5, False, 3), False, 2, 0.0, False, False,
                   False, note="projected")


def packed(make, gates, lstm):
    for sizes, count, both, biases in [([3, 2, 2, 1], 1, False, True), ([3, 2, 2, 1], 1, True, True),
                                       ([2, 2], 2, True, False), ([4, 1], 2, False, True), ([1], 1, True, True)]:
        d = 2 if both else 1
        h = make.tensor(count * d, sizes[0], 4)
        state = [h, make.tensor(count * d, sizes[0], 4)] if lstm else h
        yield call(make.tensor(sum(sizes), 3), torch.tensor(sizes), state,
                   weights(make, gates, count, d, 3, 4, biases), biases, count, 0.0, False, both)


def cells(make, gates, lstm):
    for batch, inputs, hidden, biases in [(2, 3, 5, True), (1, 1, 1, True), (3, 4, 2, False)] + [(0, 3, 2, True)]:
        w = weights(make, gates, 1, 1, inputs, hidden, biases)
        h = make.tensor(batch, hidden)
        yield call(make.tensor(batch, inputs), [h, make.tensor(batch, hidden)] if lstm else h, *w)
    w = weights(make, gates, 1, 1, 3, 5, True)
    h = make.tensor(2, 5)
    yield call(make.tensor(2, 4), [h, make.tensor(2, 5)] if lstm else h, *w, note="wrong width")
    yield call(make.tensor(3, 3), [h, make.tensor(2, 5)] if lstm else h, *w, note="wrong batch")


for name, gates in (("lstm", 4), ("gru", 3), ("rnn", 1)):
    sample(name)(lambda make, gates=gates: layers(make, gates, gates == 4))
    sample(f"{name}_packed")(lambda make, gates=gates: packed(make, gates, gates == 4))
    sample(f"{name}_cell")(lambda make, gates=gates: cells(make, gates, gates == 4))


@sample("pack_padded")
def pack_padded(make):
    for lengths in ([4, 2, 1], [3, 3, 3], [4, 4, 1]):
        yield call(make.tensor(4, 3, 2), torch.tensor(lengths), False)
        yield call(make.tensor(3, 4, 2), torch.tensor(lengths), True)
        yield call(make.tensor(4, 3), torch.tensor(lengths), False)
    yield call(make.tensor(4, 3, 2), torch.tensor([2, 4, 1]), False, note="not sorted")
    yield call(make.tensor(4, 3, 2), torch.tensor([4, 2, 0]), False, note="an empty sequence")
    yield call(make.tensor(4, 3, 2), torch.tensor([4, 2]), False, note="a length is missing")
    yield call(make.tensor(4, 3, 2), torch.tensor([4, 2, 1], dtype=torch.int32), False, note="int32 lengths")


@sample("pack_padded_backward")
def pack_padded_backward(make):
    yield call(make.tensor(7, 2), [4, 3, 2], torch.tensor([3, 2, 1, 1]), False)
    yield call(make.tensor(7, 2), [3, 4, 2], torch.tensor([3, 2, 1, 1]), True)
    yield call(make.tensor(7), [5, 3], torch.tensor([3, 2, 1, 1]), False)


@sample("pad_packed")
def pad_packed(make):
    value = 2 if make.is_number else True
    for total in (-1, 4, 6):
        yield call(make.tensor(7, 2), torch.tensor([3, 2, 1, 1]), False, value, total)
        yield call(make.tensor(7, 2, 3), torch.tensor([3, 2, 1, 1]), True, 0, total)
        yield call(make.tensor(6), torch.tensor([3, 3]), False, 0, -1)
    yield call(make.tensor(7, 2), torch.tensor([3, 2, 1, 1]), False, 0, 3, note="total_length too short")
