"""Samples of losses."""
import torch
from samples import call, sample

SHAPES = [(), (5,), (3, 4), (2, 3, 4), (0, 3), (600,)]


@sample("loss")
def loss(make):
    for shape in SHAPES:
        for reduction in (0, 1, 2):
            yield call(make.tensor(shape), make.tensor(shape), reduction)
    yield call(make.tensor(3, 4), make.tensor(4))
    yield call(make.tensor(3, 4), make.tensor(5), note="no broadcast")


@sample("loss_with_width")
def loss_with_width(make):
    for shape in SHAPES:
        for reduction in (0, 1, 2):
            yield call(make.tensor(shape), make.tensor(shape), reduction)
    for width in (0.25, 2.0, 0.0, -1.0):
        yield call(make.tensor(3, 4), make.tensor(3, 4), 1, width)
        yield call(make.tensor(3, 4), make.tensor(4), 0, width)


def backward_calls(make, *rest):
    for shape in SHAPES:
        for reduction in (0, 1, 2):
            yield call(make.tensor(shape if reduction == 0 else ()), make.tensor(shape), make.tensor(shape), reduction,
                       *rest)


@sample("loss_backward")
def loss_backward(make):
    yield from backward_calls(make)


@sample("loss_backward_with_width")
def loss_backward_with_width(make):
    # PyTorch divides integers by int(width), which must not be 0
    for width in (1.0, 0.25) if make.is_float else (1.0, 2.0):
        yield from backward_calls(make, width)


@sample("binary_cross_entropy")
def binary_cross_entropy(make):
    for shape in SHAPES:
        for reduction in (0, 1, 2):
            yield call(make.tensor(shape, low=0, high=1), make.tensor(shape, low=0, high=1), None, reduction)
            yield call(make.tensor(shape, low=0, high=1), make.tensor(shape, low=0, high=1), make.tensor(shape),
                       reduction)
    yield call(make.tensor(3, 4, low=0, high=1), make.tensor(3, 4, low=0, high=1), make.tensor(4))
    yield call(make.tensor(3, 4, low=0, high=1), make.tensor(4, low=0, high=1))
    yield call(make.tensor(3, 4, low=0, high=1), make.tensor(5, low=0, high=1), note="no broadcast")
    if make.is_float:
        yield call(make.tensor(3, 4), make.tensor(3, 4, low=0, high=1), note="no probabilities")
        yield call(torch.tensor([0.0, 1.0, 0.0, 1.0]).to(make.dtype),
                   torch.tensor([0.0, 1.0, 1.0, 0.0]).to(make.dtype), None, 0)


@sample("binary_cross_entropy_backward")
def binary_cross_entropy_backward(make):
    for shape in SHAPES:
        for reduction in (0, 1, 2):
            grad = make.tensor(shape if reduction == 0 else ())
            yield call(grad, make.tensor(shape, low=0, high=1), make.tensor(shape, low=0, high=1), None, reduction)
            yield call(grad, make.tensor(shape, low=0, high=1), make.tensor(shape, low=0, high=1), make.tensor(shape),
                       reduction)


@sample("bce_with_logits")
def bce_with_logits(make):
    for shape in SHAPES:
        for reduction in (0, 1, 2):
            yield call(make.tensor(shape), make.tensor(shape, low=0, high=1), None, None, reduction)
    yield call(make.tensor(3, 4), make.tensor(3, 4, low=0, high=1), make.tensor(4))
    yield call(make.tensor(3, 4), make.tensor(3, 4, low=0, high=1), None, make.tensor(4), 2)
    yield call(make.tensor(3, 4), make.tensor(3, 4, low=0, high=1), make.tensor(3, 1), make.tensor(4), 0)


@sample("kl_div")
def kl_div(make):
    for shape in SHAPES:
        for reduction in (0, 1, 2):
            yield call(make.tensor(shape), make.tensor(shape, low=0, high=1), reduction)
            yield call(make.tensor(shape), make.tensor(shape), reduction, log_target=True)


@sample("poisson_nll")
def poisson_nll(make):
    for shape in SHAPES:
        for full in (False, True):
            yield call(make.tensor(shape), make.tensor(shape, low=0, high=5), True, full, 1e-8, 1)
            yield call(make.tensor(shape, low=0, high=5), make.tensor(shape, low=0, high=5), False, full, 1e-8, 0)
    yield call(make.tensor(3, 4), make.tensor((3, 4), low=0, high=5), True, False, 1e-8, 2)


def nll_calls(make, defaults=True):
    for n, c in [(1, 1), (4, 3), (50, 10)]:
        for reduction in (0, 1, 2):
            yield call(make.tensor(n, c), make.index(c, (n,)), None, reduction, -100)
            yield call(make.tensor(n, c), make.index(c, (n,)), make.tensor(c, low=0.1, high=2), reduction, 0)
    yield call(make.tensor(5), make.index(5, ()), None, 1, -100)
    yield call(make.tensor(5), make.index(5, ()), make.tensor(5), 0, -100)
    yield call(make.tensor(0, 3), make.index(3, (0,)), None, 1, -100)
    yield call(make.tensor(0, 3), make.index(3, (0,)), None, 2, -100)
    yield call(make.tensor(0, 3), make.index(3, (0,)), None, 0, -100)
    yield call(make.tensor(4, 3), torch.full((4,), 1), None, 1, 1)  # all ignored
    yield call(make.tensor(4, 3), make.index(3, (4,)).to(torch.uint8), None, 1, -100)
    yield call(make.tensor(4, 3), make.index(3, (4,)).to(torch.int32), None, 1, -100, note="int32 targets")
    yield call(make.tensor(4, 3), torch.tensor([0, 1, 3, 0]), None, 1, -100, note="target out of range")
    yield call(make.tensor(4, 3), torch.tensor([0, 1, -1, 0]), None, 1, -100, note="target out of range")
    yield call(make.tensor(4, 3), make.index(3, (5,)), None, 1, -100, note="another batch")
    yield call(make.tensor(4, 3), make.index(3, (4,)), make.tensor(4), 1, -100, note="too many weights")


def nll2d_calls(make):
    for reduction in (0, 1, 2):
        yield call(make.tensor(2, 3, 4, 5), make.index(3, (2, 4, 5)), None, reduction, -100)
        yield call(make.tensor(2, 3, 4, 5), make.index(3, (2, 4, 5)), make.tensor(3, low=0.1, high=2), reduction, 1)
        yield call(make.tensor(0, 3, 4, 5), make.index(3, (0, 4, 5)), None, reduction, -100)
    yield call(make.tensor(2, 3, 4, 5), make.index(3, (2, 5, 4)), None, 1, -100, note="another size")
    yield call(make.tensor(2, 3, 4, 5), make.index(3, (2, 4, 5)) + 1, None, 1, -100, note="target out of range")
    yield call(make.tensor(2, 3), make.index(3, (2,)), None, 1, -100, note="no image")


@sample("nll_loss")
def nll_loss(make):
    yield from nll_calls(make)
    yield call(make.tensor(4, 3), make.index(3, (4,)))


@sample("nll_loss_forward")
def nll_loss_forward(make):
    yield from nll_calls(make)


@sample("nll_loss2d")
def nll_loss2d(make):
    yield from nll2d_calls(make)


@sample("nll_loss2d_forward")
def nll_loss2d_forward(make):
    yield from nll2d_calls(make)


@sample("nll_loss_nd")
def nll_loss_nd(make):
    yield from nll_calls(make)
    yield from nll2d_calls(make)
    for reduction in (0, 1, 2):
        yield call(make.tensor(2, 3, 4), make.index(3, (2, 4)), None, reduction)
        yield call(make.tensor(2, 3, 4, 2, 2), make.index(3, (2, 4, 2, 2)), make.tensor(3), reduction)
        yield call(make.tensor(0, 3, 4), make.index(3, (0, 4)), None, reduction)
    yield call(make.tensor(2, 3, 4), make.index(3, (2, 5)), note="another size")
    yield call(make.tensor(()), make.index(3, ()), note="no classes")


def with_total(c, make):
    """A backward call out of a forward one."""
    self, target, weight, reduction, ignore = c.args
    none = reduction == 0 and self.dim() > 1
    chosen = torch.ones(target.shape) if weight is None else torch.ones(target.shape)
    total = (chosen * (target != ignore)).sum().to(self.dtype)
    return call(make.tensor(target.shape if none else ()), self, target, weight, reduction, ignore, total, note=c.note)


@sample("nll_loss_backward")
def nll_loss_backward(make):
    for c in nll_calls(make):
        yield with_total(c, make)


@sample("nll_loss2d_backward")
def nll_loss2d_backward(make):
    for c in nll2d_calls(make):
        if c.note != "no image":
            yield with_total(c, make)


@sample("cross_entropy")
def cross_entropy(make):
    for smoothing in (0.0, 0.25):
        for reduction in (0, 1, 2):
            weight = make.tensor(3, low=0.1, high=2)
            yield call(make.tensor(4, 3), make.index(3, (4,)), None, reduction, -100, smoothing)
            yield call(make.tensor(4, 3), make.index(3, (4,)), weight, reduction, 1, smoothing)
            yield call(make.tensor(3), make.index(3, ()), None, reduction, -100, smoothing)
            yield call(make.tensor(2, 3, 5), make.index(3, (2, 5)), weight, reduction, 0, smoothing)
            yield call(make.tensor(2, 3, 4, 5), make.index(3, (2, 4, 5)), None, reduction, 2, smoothing)
            yield call(make.tensor(0, 3), make.index(3, (0,)), None, reduction, -100, smoothing)
            yield call(make.tensor(4, 3), make.tensor(4, 3, low=0, high=1), None, reduction, -100, smoothing)
            yield call(make.tensor(4, 3), make.tensor(4, 3, low=0, high=1), weight, reduction, -100, smoothing)
            yield call(make.tensor(2, 3, 5), make.tensor(2, 3, 5, low=0, high=1), weight, reduction, -100, smoothing)
            yield call(make.tensor(0, 3), make.tensor(0, 3, low=0, high=1), None, reduction, -100, smoothing)
    yield call(make.tensor(4, 3), torch.tensor([0, 1, 3, 0]), note="target out of range")
    yield call(make.tensor(4, 3), make.index(3, (5,)), note="another batch")
    yield call(make.tensor(4, 3), make.index(3, (4, 3)), note="integer probabilities")
    yield call(make.tensor(4, 3), make.index(3, (4,)), None, 1, -100, 1.5, note="smoothing out of range")


@sample("pairwise_distance")
def pairwise_distance(make):
    for p in (2.0, 1.0, 3.0, float("inf")):
        yield call(make.tensor(4, 3), make.tensor(4, 3), p)
        yield call(make.tensor(4, 3), make.tensor(3), p, 1e-3, True)
    yield call(make.tensor(3), make.tensor(3))
    yield call(make.tensor(0, 3), make.tensor(0, 3))


@sample("cosine_similarity")
def cosine_similarity(make):
    yield call(make.tensor(4, 3), make.tensor(4, 3))
    yield call(make.tensor(4, 3), make.tensor(4, 3), 0)
    yield call(make.tensor(4, 3), make.tensor(3), -1)
    yield call(make.tensor(2, 3, 4), make.tensor(3, 1), 1, 1e-3)
    yield call(make.tensor(4, 3), make.tensor(4, 3, dtype=torch.float32))
    yield call(make.tensor(4, 3), make.tensor(4, 3, dtype=torch.int64))
    yield call(make.tensor(4, 3) * 0, make.tensor(4, 3))
    yield call(make.tensor(3), make.tensor(3), 0)
    yield call(make.tensor(4, 3), make.tensor(4, 3), 2, note="dim out of range")


def signs(make, *shape):
    return torch.where(make.mask(*shape), 1, -1).to(make.dtype)


@sample("cosine_embedding")
def cosine_embedding(make):
    for reduction in (0, 1, 2):
        yield call(make.tensor(4, 3), make.tensor(4, 3), signs(make, 4), 0.25, reduction)
        yield call(make.tensor(3), make.tensor(3), signs(make), 0.0, reduction)
    yield call(make.tensor(4, 3), make.tensor(4, 3), signs(make, 4, 1), note="two dims of targets")
    yield call(make.tensor(4), make.tensor(4), signs(make, 4), note="no batch")


@sample("margin_ranking")
def margin_ranking(make):
    for reduction in (0, 1, 2):
        yield call(make.tensor(4, 3), make.tensor(4, 3), signs(make, 4, 3), 0.25, reduction)
        yield call(make.tensor(()), make.tensor(()), signs(make), 0.0, reduction)
    yield call(make.tensor(4, 3), make.tensor(4, 1), signs(make, 3))


@sample("hinge_embedding")
def hinge_embedding(make):
    for reduction in (0, 1, 2):
        yield call(make.tensor(4, 3), signs(make, 4, 3), 1.0, reduction)
        yield call(make.tensor(()), signs(make), 0.5, reduction)
    yield call(make.tensor(4, 3), signs(make, 3))


@sample("triplet_margin")
def triplet_margin(make):
    for reduction in (0, 1, 2):
        for swap in (False, True):
            yield call(make.tensor(4, 3), make.tensor(4, 3), make.tensor(4, 3), 1.0, 2.0, 1e-6, swap, reduction)
    yield call(make.tensor(4, 3), make.tensor(4, 3), make.tensor(4, 3), 0.5, 1.0)
    yield call(make.tensor(3), make.tensor(3), make.tensor(3))
    yield call(make.tensor(4, 3), make.tensor(4, 3), make.tensor(3), note="dims differ")


def margin_calls(make):
    for p in (1, 2):
        for reduction in (0, 1, 2):
            yield call(make.tensor(4, 3), make.index(3, (4,)), p, 1, None, reduction)
            yield call(make.tensor(4, 3), make.index(3, (4,)), p, 0.5, make.tensor(3, low=0.1, high=2), reduction)
    yield call(make.tensor(3), make.index(3, ()), 1, 1, None, 1)
    yield call(make.tensor(3), make.index(3, (1,)), 1, 1, None, 1)
    yield call(make.tensor(0, 3), make.index(3, (0,)), 1, 1, None, 0)  # PyTorch never writes the sum or mean of no rows


@sample("multi_margin")
def multi_margin(make):
    yield from margin_calls(make)
    yield call(make.tensor(4, 3), make.index(3, (4,)), 3, note="p is 3")
    yield call(make.tensor(4, 3), make.index(3, (5,)), note="another batch")
    yield call(make.tensor(4, 3), torch.tensor([0, 1, 3, 0]), note="target out of range")


@sample("multi_margin_backward")
def multi_margin_backward(make):
    for c in margin_calls(make):
        each = c.args[5] == 0 and c.args[1].dim() > 0
        yield call(make.tensor(c.args[1].shape if each else ()), *c.args)


def label_calls(make):
    for reduction in (0, 1, 2):
        yield call(make.tensor(2, 4), torch.tensor([[3, 0, -1, 1], [1, 2, 0, -1]]), reduction)
        yield call(make.tensor(4), torch.tensor([3, 0, -1, 1]), reduction)
        yield call(make.tensor(()), torch.tensor(0), reduction)
    yield call(make.tensor(2, 4), torch.tensor([[3, 0, -1, 4], [1, 2, 0, -1]]), 1, note="target out of range")


@sample("multilabel_margin")
def multilabel_margin(make):
    yield from label_calls(make)
    yield call(make.tensor(2, 4), torch.tensor([[3, 0, -1], [1, 2, 0]]), 1, note="sizes differ")


@sample("multilabel_margin_forward")
def multilabel_margin_forward(make):
    yield from label_calls(make)


@sample("multilabel_margin_backward")
def multilabel_margin_backward(make):
    for c in label_calls(make):
        if c.note:
            continue
        flags = torch.ops.aten.multilabel_margin_loss_forward(c.args[0].double(), *c.args[1:])[1].to(make.dtype)
        each = c.args[2] == 0 and c.args[0].dim() == 2
        yield call(make.tensor(c.args[0].shape[:1] if each else ()), *c.args, flags)


def ctc_calls(make):
    """(log_probs, targets, input lengths, target lengths): of full length, since PyTorch leaves the rest of log_alpha
    unset."""
    for steps, batch, classes, n in [(6, 2, 4, 2), (5, 3, 5, 1), (7, 1, 3, 3), (4, 2, 6, 0)]:
        probs = make.tensor(steps, batch, classes)
        targets = make.index(classes - 1, (batch, n)) + 1
        yield probs, targets, [steps] * batch, [n] * batch
        yield probs, targets.flatten(), [steps] * batch, [n] * batch


def ctc_mixed(make):
    probs, targets = make.tensor(6, 3, 5), make.index(4, (3, 3)) + 1
    yield probs, targets, [6, 5, 3], [3, 1, 2]
    yield probs, torch.cat([targets[0, :3], targets[1, :1], targets[2, :2]]), [6, 5, 3], [3, 1, 2]
    yield probs, torch.ones(3, 3, dtype=torch.int64), [6, 5, 2], [3, 1, 3]  # impossible: repeats need blanks between


@sample("ctc_loss")
def ctc_loss(make):
    for args in [*ctc_calls(make), *ctc_mixed(make)]:
        for reduction in (0, 1, 2):
            yield call(*args, 0, reduction)
        yield call(*args, 0, 1, True)
    yield call(make.tensor(6, 4), make.index(3, (2,)) + 1, [6], [2])
    yield call(make.tensor(6, 2, 4), make.index(3, (2, 2)), [6, 6], [2, 2], 3)
    yield call(make.tensor(6, 2, 4), make.index(3, (2, 2)), [6, 7], [2, 2], note="longer than the input")
    yield call(make.tensor(6, 2, 4), make.index(3, (2, 2)), [6, 6], [2, 2], 4, note="blank out of range")
    yield call(make.tensor(6, 2, 4), make.index(3, (2, 2)), [6], [2, 2], note="a length is missing")


@sample("ctc_loss_tensor")
def ctc_loss_tensor(make):
    for probs, targets, inputs, lengths in [*ctc_calls(make), *ctc_mixed(make)]:
        for reduction in (0, 1, 2):
            yield call(probs, targets, torch.tensor(inputs), torch.tensor(lengths), 0, reduction)
        yield call(probs, targets, torch.tensor(inputs), torch.tensor(lengths), 0, 1, True)


@sample("_ctc_loss")
def _ctc_loss(make):
    for args in ctc_calls(make):
        yield call(*args)
        yield call(*args, 0, True)
        yield call(args[0], args[1].int(), *args[2:])


@sample("_ctc_loss_tensor")
def _ctc_loss_tensor(make):
    for probs, targets, inputs, lengths in ctc_calls(make):
        yield call(probs, targets, torch.tensor(inputs), torch.tensor(lengths))


def ctc_backward_calls(make, as_tensors):
    if make.dtype not in (torch.float32, torch.float64):
        return
    for probs, targets, inputs, lengths in [*ctc_calls(make), *ctc_mixed(make)]:
        loss, alpha = torch.ops.aten._ctc_loss(probs, targets, inputs, lengths)
        some = (torch.tensor(inputs), torch.tensor(lengths)) if as_tensors else (inputs, lengths)
        for zero_infinity in (False, True):
            yield call(make.tensor(probs.shape[1]), probs, targets, *some, loss, alpha, 0, zero_infinity)


@sample("ctc_loss_backward")
def ctc_loss_backward(make):
    yield from ctc_backward_calls(make, False)


@sample("ctc_loss_backward_tensor")
def ctc_loss_backward_tensor(make):
    yield from ctc_backward_calls(make, True)
