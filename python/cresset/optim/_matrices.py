"""The optimizers that look at a parameter as a matrix: Adafactor, which keeps second moments of rows and columns only,
and Muon, whose update is a nearly orthogonal matrix."""
import math

import cresset
from cresset import _C
from cresset.optim._rules import _check, _count, _zeros
from cresset.optim.optimizer import GroupwiseOptimizer, number

__all__ = ["Adafactor", "Muon"]


def _refuse_complex(self, p):
    if p.is_complex():
        raise RuntimeError(f"{type(self).__name__} does not support complex parameters; one has the dtype {p.dtype}: "
                           "give it to another optimizer")


class Adafactor(GroupwiseOptimizer):
    """Second moments as the product of a row and a column; updates are relative to the size of the parameter."""

    def __init__(self, params, lr=1e-2, beta2_decay=-0.8, eps=(None, 1e-3), d=1.0, weight_decay=0.0, *, foreach=None,
                 maximize=False):
        _check(self, lr, weight_decay=weight_decay)
        if not beta2_decay <= 0:
            raise ValueError(f"Adafactor: beta2_decay must be 0 or less, found {beta2_decay}")
        for i, value in enumerate(eps):
            if not (value is None and i == 0) and not value >= 0:
                raise ValueError(f"Adafactor: eps[{i}] must be 0 or more, found {value}")
        if not d >= 1:
            raise ValueError(f"Adafactor: d, the largest size of an update, must be 1 or more, found {d}")
        super().__init__(params, dict(lr=lr, beta2_decay=beta2_decay, eps=eps, d=d, weight_decay=weight_decay,
                                      foreach=foreach, maximize=maximize))

    def _fresh(self, group, p):
        _refuse_complex(self, p)
        if p.dim() < 2:
            return {"step": _count(group), "variance": _zeros(p.grad)}
        rows, columns = list(p.shape), list(p.shape)
        rows[-1] = columns[-2] = 1
        return {"step": _count(group), "row_var": p.grad.new_zeros(rows), "col_var": p.grad.new_zeros(columns)}

    def _plain_step(self, group, p, grad, state):
        grad = -grad if group["maximize"] else grad
        lr, smallest = number(group["lr"]), group["eps"][0]
        smallest = cresset.finfo(p.dtype).eps if smallest is None else smallest
        state["step"] += 1
        step = state["step"].item()
        fresh = step ** group["beta2_decay"]  # the share of the new square
        size = p.norm(2).item() / math.sqrt(p.numel()) if p.numel() else 0.0
        rate = max(group["eps"][1], size) * min(lr, 1 / math.sqrt(step))
        if group["weight_decay"] != 0:
            p.mul_(1 - lr * number(group["weight_decay"]))
        if grad.dim() > 1:
            rows, columns = state["row_var"], state["col_var"]
            rows.lerp_(grad.norm(2, dim=-1, keepdim=True).square_().div_(grad.size(-1)), fresh)
            columns.lerp_(grad.norm(2, dim=-2, keepdim=True).square_().div_(grad.size(-2)), fresh)
            moments = (rows @ columns).div_(rows.mean(dim=-2, keepdim=True).clamp_(min=smallest))
        else:
            moments = state["variance"].lerp_(grad * grad, fresh).clone()
        update = moments.clamp_(min=smallest * smallest).rsqrt_().mul_(grad)
        largest = update.norm(2).item() / (math.sqrt(update.numel()) * group["d"]) if update.numel() else 0.0
        p.add_(update, alpha=-rate / max(1.0, largest))


class Muon(GroupwiseOptimizer):
    """Momentum whose matrix is made nearly orthogonal by Newton and Schulz's iteration, in bfloat16. For matrices: give
    other parameters to AdamW."""

    def __init__(self, params, lr=1e-3, weight_decay=0.1, momentum=0.95, nesterov=True,
                 ns_coefficients=(3.4445, -4.7750, 2.0315), eps=1e-7, ns_steps=5, adjust_lr_fn=None):
        _check(self, lr, momentum=momentum, weight_decay=weight_decay)
        if adjust_lr_fn not in (None, "original", "match_rms_adamw"):
            raise ValueError(f"Muon: adjust_lr_fn is 'original' or 'match_rms_adamw', not {adjust_lr_fn!r}")
        super().__init__(params, dict(lr=lr, weight_decay=weight_decay, momentum=momentum, nesterov=nesterov,
                                      ns_coefficients=ns_coefficients, eps=eps, ns_steps=ns_steps,
                                      adjust_lr_fn=adjust_lr_fn))

    def _check_group(self, group):
        super()._check_group(group)
        for p in group["params"]:
            if p.dim() != 2:
                raise ValueError(f"Muon only supports 2D parameters whereas we found a parameter with size: "
                                 f"{list(p.shape)}; give it to AdamW")

    def _fresh(self, group, p):  # unused group: the state is the same whatever it says
        _refuse_complex(self, p)
        return {"momentum_buffer": _zeros(p.grad)}

    def _plain_step(self, group, p, grad, state):
        momentum, lr = group["momentum"], number(group["lr"])
        mean = state["momentum_buffer"].lerp_(grad, 1 - momentum)
        update = _orthogonal(grad.lerp(mean, momentum) if group["nesterov"] else mean, group)
        rows, columns = p.shape
        if group["adjust_lr_fn"] == "match_rms_adamw":
            ratio = 0.2 * math.sqrt(max(rows, columns))
        else:
            ratio = math.sqrt(max(1, rows / columns))
        p.mul_(1 - lr * number(group["weight_decay"]))
        p.add_(update, alpha=-lr * ratio)


def _orthogonal(update, group):
    """The matrix with singular values near 1: an odd polynomial of degree five, applied again and again."""
    steps, coefficients = group["ns_steps"], group["ns_coefficients"]
    if steps >= 100:
        raise ValueError(f"Muon: ns_steps must be below 100, found {steps}")
    if len(coefficients) != 3:
        raise ValueError(f"Muon: ns_coefficients are three numbers, found {len(coefficients)}")
    a, b, c = coefficients
    tall = update.size(0) > update.size(1)
    x = update.to(_C.bfloat16)
    x = x.t() if tall else x
    x = x / x.norm().clamp(min=group["eps"])
    addmm = _C._function("addmm")
    for _ in range(steps):
        gram = x @ x.t()
        x = addmm(x, addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.t() if tall else x
