"""LBFGS: a quasi-Newton method over all parameters as one vector, with a line search on request.

Numbers that PyTorch keeps as tensors of rank 0 are kept so here: they round to the parameters' dtype, and with them the
path that the search takes.
"""
from collections import namedtuple

from cresset import _C
from cresset._grad_mode import enable_grad, no_grad
from cresset.optim.optimizer import Optimizer, Tensor, as_scalar, number

__all__ = ["LBFGS"]

# A step t along the direction d, the loss there, its gradient, and the gradient's part along d.
_Point = namedtuple("_Point", "t loss grad slope")
_ENOUGH, _FLAT = 1e-4, 0.9     # how much the loss must fall with t, and the slope's size, for Wolfe's conditions


def _cubic_minimum(a, b, low, high):
    """Where the cubic through both points is least, between low and high; the middle where it has no minimum."""
    if a.t > b.t:
        a, b = b, a
    middle = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.t - b.t)
    square = middle**2 - a.slope * b.slope
    if not square >= 0:
        return (low + high) / 2.0
    root = square.sqrt()
    at = b.t - (b.t - a.t) * ((b.slope + root - middle) / (b.slope - a.slope + 2 * root))
    return min(max(at, low), high)


def _bracket(evaluate, start, t, tries, is_too_high, is_flat):
    """Goes further along the direction until a minimum lies between two points. Returns them, or the one that will do,
    and how many evaluations that took."""
    before, point, spent = start, evaluate(t), 0
    while spent < tries:
        if is_too_high(point) or (spent > 1 and point.loss >= before.loss):
            return [before, point], spent
        if is_flat(point):
            return [point], spent
        if point.slope >= 0:
            return [before, point], spent
        t = _cubic_minimum(before, point, point.t + 0.01 * (point.t - before.t), point.t * 10)
        before, point, spent = point, evaluate(t), spent + 1
    return [start, point], spent


def _inside(ends, stuck):
    """A step between two points, kept off the ends, and whether the next one must be."""
    low, high = min(ends[0].t, ends[1].t), max(ends[0].t, ends[1].t)
    t = _cubic_minimum(*ends, low, high)
    margin = 0.1 * (high - low)
    if min(high - t, t - low) >= margin:
        return t, False
    if not stuck and low < t < high:
        return t, True
    return (high - margin if abs(t - high) < abs(t - low) else low + margin), False


def _strong_wolfe(evaluate, start, t, d, tries):
    """A point where the loss has fallen enough and the slope is flat enough, and the number of evaluations."""
    def is_too_high(point):
        return point.loss > start.loss + _ENOUGH * point.t * start.slope

    def is_flat(point):
        return abs(point.slope) <= -_FLAT * start.slope

    ends, spent = _bracket(evaluate, start, t, tries, is_too_high, is_flat)
    low = 0 if ends[0].loss <= ends[-1].loss else 1
    largest, stuck, done = d.abs().max(), False, len(ends) == 1
    while not done and spent < tries and not abs(ends[1].t - ends[0].t) * largest < 1e-9:
        t, stuck = _inside(ends, stuck)
        point, spent = evaluate(t), spent + 1
        if is_too_high(point) or point.loss >= ends[low].loss:
            ends[1 - low] = point
            low = 0 if ends[0].loss <= ends[1].loss else 1
            continue
        done = bool(is_flat(point))
        if not done and point.slope * (ends[1 - low].t - ends[low].t) >= 0:
            ends[1 - low] = ends[low]
        ends[low] = point
    return ends[low], spent + 1


class LBFGS(Optimizer):
    """LBFGS(params, line_search_fn=None or "strong_wolfe"). step(closure) evaluates the loss many times."""

    def __init__(self, params, lr=1, max_iter=20, max_eval=None, tolerance_grad=1e-7, tolerance_change=1e-9,
                 history_size=100, line_search_fn=None):
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError(f"LBFGS: a tensor as lr must have one element, this one has {lr.numel()}")
        if not lr >= 0:
            raise ValueError(f"LBFGS: lr must be 0 or more, found {lr}")
        max_eval = max_iter * 5 // 4 if max_eval is None else max_eval
        super().__init__(params, dict(lr=lr, max_iter=max_iter, max_eval=max_eval, tolerance_grad=tolerance_grad,
                                      tolerance_change=tolerance_change, history_size=history_size,
                                      line_search_fn=line_search_fn))
        if len(self.param_groups) != 1:
            raise ValueError(f"LBFGS takes one parameter group, found {len(self.param_groups)}: its direction is one "
                             f"vector over all parameters")

    @property
    def _params(self):
        return self.param_groups[0]["params"]

    def _parts(self):
        """Real views of the parameters."""
        return [_C._function("view_as_real")(p) if p.is_complex() else p for p in self._params]

    def _flat_grad(self):
        parts = []
        for p in self._params:
            grad = _C._function("zeros_like")(p) if p.grad is None else p.grad
            parts.append((_C._function("view_as_real")(grad) if p.is_complex() else grad).reshape(-1))
        return _C._function("cat")(parts)

    def _move(self, t, d):
        at = 0
        for p in self._parts():
            p.add_(d[at:at + p.numel()].view(p.shape), alpha=number(t))
            at += p.numel()

    def _direction(self, grad, state, history_size):
        """Minus the inverse curvature times the gradient, the curvature being that of the remembered steps."""
        if state["n_iter"] == 1:
            state.update(old_dirs=[], old_stps=[], ro=[], H_diag=1)
            return grad.neg()
        y, s = grad.sub(state["prev_flat_grad"]), state["d"].mul(state["t"])
        old_y, old_s, ro = state["old_dirs"], state["old_stps"], state["ro"]
        ys = y.dot(s)
        if ys > 1e-10:
            for memory, entry in ((old_y, y), (old_s, s), (ro, 1.0 / ys)):
                if len(memory) == history_size:
                    memory.pop(0)
                memory.append(entry)
            state["H_diag"] = ys / y.dot(y)
        al, direction = state.setdefault("al", [None] * history_size), grad.neg()
        for i in reversed(range(len(old_y))):
            al[i] = old_s[i].dot(direction) * ro[i]
            direction.add_(old_y[i], alpha=-number(al[i]))
        direction = direction.mul(state["H_diag"])
        for i in range(len(old_y)):
            direction.add_(old_s[i], alpha=number(al[i] - old_y[i].dot(direction) * ro[i]))
        return direction

    def _search(self, closure, start, t, d, tries):
        """The point that the line search finds; the parameters are moved there."""
        origin = [p.clone() for p in self._params]

        def evaluate(t):
            self._move(t, d)
            loss, grad = float(closure()), self._flat_grad()
            for p, value in zip(self._params, origin):
                p.copy_(value)
            return _Point(t, loss, grad, grad.dot(d))

        point, evaluations = _strong_wolfe(evaluate, start, t, d, tries)
        self._move(point.t, d)
        return point, evaluations

    @no_grad()
    def step(self, closure):
        """Up to max_iter updates; returns the loss from before them."""
        group = self.param_groups[0]
        search, most, change = group["line_search_fn"], group["max_eval"], group["tolerance_change"]
        if search not in (None, "strong_wolfe"):
            raise RuntimeError(f"LBFGS: line_search_fn must be 'strong_wolfe' or None, found {search!r}")
        closure, lr = enable_grad()(closure), as_scalar(group["lr"])
        state = self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        first_loss = closure()
        loss, grad, evaluations = float(first_loss), self._flat_grad(), 1
        state["func_evals"] += 1
        if grad.abs().max() <= group["tolerance_grad"]:
            return first_loss
        for i in range(group["max_iter"]):
            state["n_iter"] += 1
            d = self._direction(grad, state, group["history_size"])
            t = lr if state["n_iter"] > 1 else min(1.0, 1.0 / grad.abs().sum()) * lr
            state.update(d=d, t=t, prev_flat_grad=grad, prev_loss=loss)
            slope, before, spent = grad.dot(d), loss, 0
            if slope > -change:
                break
            last = i + 1 == group["max_iter"]
            if search:
                point, spent = self._search(closure, _Point(0, loss, grad, slope), t, d, most - evaluations)
                state["t"], loss, grad = point.t, point.loss, point.grad
            else:
                self._move(t, d)
                if not last:
                    loss, grad, spent = float(closure()), self._flat_grad(), 1
            evaluations += spent
            state["func_evals"] += spent
            if last or evaluations >= most or grad.abs().max() <= group["tolerance_grad"]:
                break
            if d.mul(state["t"]).abs().max() <= change or abs(loss - before) < change:
                break
        return first_loss
