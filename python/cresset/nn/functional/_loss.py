"""Losses. `reduction` is none, mean or sum; the older pair size_average, reduce still decides when it is given."""
import math
import warnings

from cresset import functional
from cresset._grad_mode import no_grad
from cresset.nn.functional._ops import Tensor, nn, op

_REDUCTIONS = {"none": 0, "mean": 1, "elementwise_mean": 1, "sum": 2}


def reduction_name(size_average, reduce, reduction):
    """What the older two flags mean, when one is given."""
    if size_average is None and reduce is None:
        return reduction
    size_average, reduce = size_average is None or size_average, reduce is None or reduce
    name = ("mean" if size_average else "sum") if reduce else "none"
    warnings.warn(f"size_average and reduce are deprecated: use reduction='{name}'")
    return name


def _number(reduction, size_average=None, reduce=None):
    reduction = reduction_name(size_average, reduce, reduction)
    if reduction == "elementwise_mean":
        warnings.warn("reduction='elementwise_mean' is deprecated: use reduction='mean'")
    if reduction not in _REDUCTIONS:
        raise ValueError(f"reduction is none, mean or sum, not {reduction!r}")
    return _REDUCTIONS[reduction]


def _reduced(loss, reduction):
    return loss.mean() if reduction == "mean" else loss.sum() if reduction == "sum" else loss


def _warn_broadcast(name, input, target):
    if not target.size() == input.size():
        warnings.warn(f"{name}: the target's sizes {tuple(target.shape)} differ from the input's {tuple(input.shape)}: "
                      f"they are broadcast, "
                      "which is rarely meant", stacklevel=4)


# ---- classes ----

def cross_entropy(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean",
                  label_smoothing=0.0):
    return nn("cross_entropy_loss")(input, target, weight, _number(reduction, size_average, reduce), ignore_index,
                                    label_smoothing)


def nll_loss(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean"):
    return nn("nll_loss_nd")(input, target, weight, _number(reduction, size_average, reduce), ignore_index)


def binary_cross_entropy(input, target, weight=None, size_average=None, reduce=None, reduction="mean"):
    number = _number(reduction, size_average, reduce)
    if target.size() != input.size():
        raise ValueError(f"binary_cross_entropy: the target's sizes {tuple(target.shape)} must be the input's "
                         f"{tuple(input.shape)}")
    if weight is not None:
        weight = weight.expand(functional.broadcast_shapes(target.size(), weight.size()))
    return nn("binary_cross_entropy")(input, target, weight, number)


def binary_cross_entropy_with_logits(input, target, weight=None, size_average=None, reduce=None, reduction="mean",
                                     pos_weight=None):
    number = _number(reduction, size_average, reduce)
    if not target.size() == input.size():
        raise ValueError(f"binary_cross_entropy_with_logits: the target's sizes {tuple(target.shape)} must be the "
                         f"input's {tuple(input.shape)}")
    return nn("binary_cross_entropy_with_logits")(input, target, weight, pos_weight, number)


def multi_margin_loss(input, target, p=1, margin=1.0, weight=None, size_average=None, reduce=None, reduction="mean"):
    number = _number(reduction, size_average, reduce)
    if p != 1 and p != 2:
        raise ValueError(f"multi_margin_loss: p must be 1 or 2, not {p}")
    if weight is not None and weight.dim() != 1:
        raise ValueError(f"multi_margin_loss: weight must be one-dimensional, not {weight.dim()}-D")
    return nn("multi_margin_loss")(input, target, p, margin, weight, number)


def multilabel_margin_loss(input, target, size_average=None, reduce=None, reduction="mean"):
    return nn("multilabel_margin_loss")(input, target, _number(reduction, size_average, reduce))


def soft_margin_loss(input, target, size_average=None, reduce=None, reduction="mean"):
    return nn("soft_margin_loss")(input, target, _number(reduction, size_average, reduce))


def multilabel_soft_margin_loss(input, target, weight=None, size_average=None, reduce=None, reduction="mean"):
    reduction = reduction_name(size_average, reduce, reduction)
    log_sigmoid = nn("log_sigmoid")
    loss = -(target * log_sigmoid(input) + (1 - target) * log_sigmoid(-input))
    if weight is not None:
        loss = loss * weight
    last = input.dim() - 1
    classes = input.size(last)
    loss = loss.sum(dim=last) / classes
    _number(reduction)
    return _reduced(loss, reduction)


def ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, reduction="mean", zero_infinity=False):
    return nn("ctc_loss")(log_probs, targets, input_lengths, target_lengths, blank, _number(reduction), zero_infinity)


# ---- numbers ----

def _weighted(name, errors, weight, input, reduction):
    """Errors times weights; the mean divides by the sum of the weights."""
    if weight.size() != input.size():
        raise ValueError(f"{name}: the weights' sizes {tuple(weight.shape)} must be the input's {tuple(input.shape)}")
    errors = errors * weight
    _number(reduction)
    if reduction == "none":
        return errors
    return nn("sum")(errors) if reduction == "sum" else nn("sum")(errors) / nn("sum")(weight)


def mse_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    _warn_broadcast("mse_loss", input, target)
    reduction = reduction_name(size_average, reduce, reduction)
    input_b, target_b = functional.broadcast_tensors(input, target)
    if weight is not None:
        return _weighted("mse_loss", nn("pow")(input_b - target_b, 2), weight, input, reduction)
    return nn("mse_loss")(input_b, target_b, _number(reduction))


def l1_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    _warn_broadcast("l1_loss", input, target)
    reduction = reduction_name(size_average, reduce, reduction)
    input_b, target_b = functional.broadcast_tensors(input, target)
    if weight is not None:
        return _weighted("l1_loss", nn("abs")(input_b - target_b), weight, input, reduction)
    return nn("l1_loss")(input_b, target_b, _number(reduction))


def smooth_l1_loss(input, target, size_average=None, reduce=None, reduction="mean", beta=1.0):
    _warn_broadcast("smooth_l1_loss", input, target)
    number = _number(reduction, size_average, reduce)
    input, target = functional.broadcast_tensors(input, target)
    return nn("l1_loss")(input, target, number) if beta == 0.0 else nn("smooth_l1_loss")(input, target, number, beta)


def huber_loss(input, target, reduction="mean", delta=1.0, weight=None):
    _warn_broadcast("huber_loss", input, target)
    input_b, target_b = functional.broadcast_tensors(input, target)
    number = _number(reduction)
    if weight is None:
        return nn("huber_loss")(input_b, target_b, number, delta)
    errors = _weighted("huber_loss", nn("huber_loss")(input_b, target_b, _number("none"), delta), weight, input, "none")
    return nn("mean")(errors) if reduction == "mean" else _reduced(errors, reduction)


def kl_div(input, target, size_average=None, reduce=None, reduction="mean", log_target=False):
    reduction = reduction_name(size_average, reduce, reduction)
    if reduction == "mean":
        warnings.warn("kl_div: reduction='mean' divides by the number of elements; the divergence itself is "
                      "reduction='batchmean'")
    number = _number("sum" if reduction == "batchmean" else reduction)
    loss = nn("kl_div")(input, target, number, log_target=log_target)
    return loss / input.size()[0] if reduction == "batchmean" and input.dim() != 0 else loss


def poisson_nll_loss(input, target, log_input=True, full=False, size_average=None, eps=1e-8, reduce=None,
                     reduction="mean"):
    return nn("poisson_nll_loss")(input, target, log_input, full, eps, _number(reduction, size_average, reduce))


def gaussian_nll_loss(input, target, var, full=False, eps=1e-6, reduction="mean"):
    """The negative log likelihood of a normal distribution with mean `input` and variance `var` (a tensor, or one
    number)."""
    if not isinstance(var, Tensor):
        if var < 0:
            raise ValueError("gaussian_nll_loss: var has negative elements; a variance is at least 0")
        var = var * nn("ones_like")(input)
    elif nn("any")(var < 0):
        raise ValueError("gaussian_nll_loss: var has negative elements; a variance is at least 0")
    if var.size() != input.size():
        if input.size()[:-1] == var.size():
            var = nn("unsqueeze")(var, -1)
        elif not (input.dim() == var.dim() and all(v == n or v == 1 for v, n in zip(var.size(), input.size()))):
            raise ValueError(f"gaussian_nll_loss: var has the sizes {tuple(var.shape)}, which do not fit the input's "
                             f"{tuple(input.shape)}")
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"reduction is none, mean or sum, not {reduction!r}")
    var = var.clone()
    with no_grad():
        var.clamp_(min=eps)
    loss = 0.5 * (nn("log")(var) + (input - target) ** 2 / var)
    if full:
        loss += 0.5 * math.log(2 * math.pi)
    return _reduced(loss, reduction)


# ---- pairs and triplets ----

def margin_ranking_loss(input1, input2, target, margin=0, size_average=None, reduce=None, reduction="mean"):
    number = _number(reduction, size_average, reduce)
    if input1.dim() != input2.dim() or input1.dim() != target.dim():
        raise RuntimeError(f"margin_ranking_loss: the tensors need one number of dimensions, but their sizes are "
                           f"{tuple(input1.shape)}, {tuple(input2.shape)} and {tuple(target.shape)}")
    return nn("margin_ranking_loss")(input1, input2, target, margin, number)


def hinge_embedding_loss(input, target, margin=1.0, size_average=None, reduce=None, reduction="mean"):
    return nn("hinge_embedding_loss")(input, target, margin, _number(reduction, size_average, reduce))


def cosine_embedding_loss(input1, input2, target, margin=0, size_average=None, reduce=None, reduction="mean"):
    return nn("cosine_embedding_loss")(input1, input2, target, margin, _number(reduction, size_average, reduce))


def triplet_margin_loss(anchor, positive, negative, margin=1.0, p=2, eps=1e-6, swap=False, size_average=None,
                        reduce=None, reduction="mean"):
    number = _number(reduction, size_average, reduce)
    if margin <= 0:
        raise ValueError(f"triplet_margin_loss: margin must be greater than 0, got {margin}")
    return nn("triplet_margin_loss")(anchor, positive, negative, margin, p, eps, swap, number)


def triplet_margin_with_distance_loss(anchor, positive, negative, *, distance_function=None, margin=1.0, swap=False,
                                      reduction="mean"):
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"triplet_margin_with_distance_loss: reduction {reduction!r} is not none, mean or sum")
    if margin <= 0:
        raise ValueError(f"triplet_margin_with_distance_loss: margin must be greater than 0, got {margin}")
    distance = op("pairwise_distance") if distance_function is None else distance_function
    if not anchor.dim() == positive.dim() == negative.dim():
        raise RuntimeError(f"triplet_margin_with_distance_loss: the inputs need one number of dimensions, not "
                           f"{anchor.dim()}, {positive.dim()} and {negative.dim()}")
    to_positive, to_negative = distance(anchor, positive), distance(anchor, negative)
    if swap:
        to_negative = nn("minimum")(to_negative, distance(positive, negative))
    return _reduced(nn("clamp_min")(margin + to_positive - to_negative, 0), reduction)
