"""The optimizers whose step is a formula for each parameter: `_fresh` is the state before the first step, `_update` the
formula. Hyperparameters that are tensors stay tensors until an op takes them as a number, so that they round as
PyTorch's do.
"""
from cresset import _C
from cresset.optim.optimizer import GroupwiseOptimizer, Tensor, as_scalar, number, scalar_dtype

__all__ = ["SGD", "RMSprop", "Rprop", "Adagrad", "Adadelta", "Adam", "AdamW", "Adamax", "NAdam", "RAdam", "ASGD",
           "SparseAdam"]


def _check(self, lr, betas=(), **at_least_zero):
    """Refuses hyperparameters that are out of range."""
    name = type(self).__name__
    if isinstance(lr, Tensor) and lr.numel() != 1:
        raise ValueError(f"{name}: a tensor as lr must have one element, this one has {lr.numel()}")
    for option, value in {"lr": lr, **at_least_zero}.items():
        if not value >= 0:
            raise ValueError(f"{name}: {option} must be 0 or more, found {value}")
    for i, beta in enumerate(betas):
        if not 0 <= beta < 1:
            raise ValueError(f"{name}: betas[{i}] must be at least 0 and below 1, found {beta}")


def _count(group):
    return _C.tensor(0.0, dtype=scalar_dtype(group.get("fused")))


def _zeros(p):
    return _C._function("zeros_like")(p, memory_format=_C.preserve_format)


class SGD(GroupwiseOptimizer):
    """Gradient descent, with momentum and Nesterov's momentum."""
    _old_options = {"nesterov": False}
    _over_reals = False     # the formula is linear

    def __init__(self, params, lr=1e-3, momentum=0, dampening=0, weight_decay=0, nesterov=False, *, maximize=False,
                 foreach=None, differentiable=False, fused=None):
        _check(self, lr, momentum=momentum, weight_decay=weight_decay)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError(f"SGD(nesterov=True): momentum must be above 0 and dampening 0, found {momentum} and "
                             f"{dampening}")
        super().__init__(params, dict(lr=lr, momentum=momentum, dampening=dampening, weight_decay=weight_decay,
                                      nesterov=nesterov, maximize=maximize, foreach=foreach,
                                      differentiable=differentiable, fused=fused))

    def _work(self, group):
        momentum = group["momentum"] != 0
        return [(p, p.grad, self.state[p] if momentum else {}) for p in group["params"] if p.grad is not None]

    def _fused_step(self, group, params, grads, states, steps, **numbers):  # unused steps: SGD counts none
        # The op knows one first step for all of a list.
        first = [group["momentum"] != 0 and state.get("momentum_buffer") is None for state in states]
        for is_first in set(first):
            chosen = [i for i, value in enumerate(first) if value == is_first]
            buffers = []
            for i in chosen if group["momentum"] != 0 else ():
                if is_first:
                    states[i]["momentum_buffer"] = _C._function("empty_like")(grads[i])
                buffers.append(states[i]["momentum_buffer"])
            _C._function("_fused_sgd_")([params[i] for i in chosen], [grads[i] for i in chosen], buffers,
                                        momentum=group["momentum"], dampening=group["dampening"],
                                        nesterov=group["nesterov"], is_first_step=is_first, **numbers)

    def _update(self, group, p, grad, state):
        momentum = group["momentum"]
        if momentum != 0:
            buffer = state.get("momentum_buffer")
            if buffer is None:
                buffer = state["momentum_buffer"] = grad.detach().clone()
            else:
                buffer.mul_(momentum).add_(grad, alpha=1 - group["dampening"])
            grad = grad.add(buffer, alpha=momentum) if group["nesterov"] else buffer
        p.add_(grad, alpha=-number(group["lr"]))


class RMSprop(GroupwiseOptimizer):
    """Divides by the root of a running mean of squares."""
    _old_options = {"momentum": 0, "centered": False}

    def __init__(self, params, lr=1e-2, alpha=0.99, eps=1e-8, weight_decay=0, momentum=0, centered=False,
                 capturable=False, foreach=None, maximize=False, differentiable=False):
        _check(self, lr, eps=eps, momentum=momentum, weight_decay=weight_decay, alpha=alpha)
        super().__init__(params, dict(lr=lr, momentum=momentum, alpha=alpha, eps=eps, centered=centered,
                                      weight_decay=weight_decay, capturable=capturable, foreach=foreach,
                                      maximize=maximize, differentiable=differentiable))

    def _fresh(self, group, p):
        state = {"step": _count(group), "square_avg": _zeros(p)}
        if group["momentum"] > 0:
            state["momentum_buffer"] = _zeros(p)
        if group["centered"]:
            state["grad_avg"] = _zeros(p)
        return state

    def _update(self, group, p, grad, state):
        alpha, momentum, lr = group["alpha"], group["momentum"], number(group["lr"])
        mean = state["square_avg"].mul_(alpha).addcmul_(grad, grad, value=1 - alpha)
        if group["centered"]:
            average = state["grad_avg"].lerp_(grad, 1 - alpha)
            mean = mean.addcmul(average, average, value=-1)
        root = mean.sqrt().add_(group["eps"])
        if momentum > 0:
            p.add_(state["momentum_buffer"].mul_(momentum).addcdiv_(grad, root), alpha=-lr)
        else:
            p.addcdiv_(grad, root, value=-lr)


class Rprop(GroupwiseOptimizer):
    """Steps by the sign of the gradient; each element's step grows while the sign stays and shrinks when it turns."""

    def __init__(self, params, lr=1e-2, etas=(0.5, 1.2), step_sizes=(1e-6, 50), *, capturable=False, foreach=None,
                 maximize=False, differentiable=False):
        _check(self, lr)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Rprop: etas must be a number between 0 and 1 and one above 1, found {etas}")
        super().__init__(params, dict(lr=lr, etas=etas, step_sizes=step_sizes, foreach=foreach, maximize=maximize,
                                      differentiable=differentiable, capturable=capturable))

    def _fresh(self, group, p):
        lr = number(group["lr"])
        step_size = _C._function("full_like")(p.grad, complex(lr, lr) if p.is_complex() else lr)
        return {"step": _count(group), "prev": _zeros(p), "step_size": step_size}

    def _update(self, group, p, grad, state):
        minus, plus = group["etas"]
        sign = grad.mul(state["prev"]).sign()
        turned, still = sign.lt(0), sign.eq(0)
        factor = sign.masked_fill_(sign.gt(0), plus).masked_fill_(turned, minus).masked_fill_(still, 1)
        step_size = state["step_size"].mul_(factor).clamp_(*group["step_sizes"])
        grad = grad.masked_fill(turned, 0)
        p.addcmul_(grad.sign(), step_size, value=-1)
        state["prev"].copy_(grad)


class Adagrad(GroupwiseOptimizer):
    """Divides by the root of the sum of all squares so far."""

    def __init__(self, params, lr=1e-2, lr_decay=0, weight_decay=0, initial_accumulator_value=0, eps=1e-10,
                 foreach=None, *, maximize=False, differentiable=False, fused=None):
        _check(self, lr, lr_decay=lr_decay, weight_decay=weight_decay,
               initial_accumulator_value=initial_accumulator_value, eps=eps)
        super().__init__(params, dict(lr=lr, lr_decay=lr_decay, eps=eps, weight_decay=weight_decay,
                                      initial_accumulator_value=initial_accumulator_value, foreach=foreach,
                                      maximize=maximize, differentiable=differentiable, fused=fused))
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p] = self._fresh(group, p)

    def _fresh(self, group, p):
        value = self.defaults["initial_accumulator_value"]
        value = complex(value, value) if p.is_complex() else value
        return {"step": _count(group), "sum": _C._function("full_like")(p, value, memory_format=_C.preserve_format)}

    def _fused_step(self, group, params, grads, states, steps, **numbers):
        _C._function("_fused_adagrad_")(params, grads, [state["sum"] for state in states], steps, eps=group["eps"],
                                        lr_decay=group["lr_decay"], **numbers)

    def share_memory(self):
        raise NotImplementedError("Adagrad.share_memory(): tensors are not shared between processes here")

    def _update(self, group, p, grad, state):
        lr = as_scalar(group["lr"]) / (1 + (state["step"].item() - 1) * group["lr_decay"])
        root = state["sum"].addcmul_(grad, grad).sqrt().add_(group["eps"])
        p.addcdiv_(grad, root, value=-number(lr))


class Adadelta(GroupwiseOptimizer):
    """The step is the gradient times the ratio of two running roots: of past steps and of gradients."""

    def __init__(self, params, lr=1.0, rho=0.9, eps=1e-6, weight_decay=0, foreach=None, *, capturable=False,
                 maximize=False, differentiable=False):
        _check(self, lr, rho=rho, eps=eps, weight_decay=weight_decay)
        if rho > 1:
            raise ValueError(f"Adadelta: rho must be between 0 and 1, found {rho}")
        super().__init__(params, dict(lr=lr, rho=rho, eps=eps, weight_decay=weight_decay, maximize=maximize,
                                      capturable=capturable, foreach=foreach, differentiable=differentiable))

    def _fresh(self, group, p):
        return {"step": _count(group), "square_avg": _zeros(p), "acc_delta": _zeros(p)}

    def _update(self, group, p, grad, state):
        rho, eps = group["rho"], group["eps"]
        root = state["square_avg"].mul_(rho).addcmul_(grad, grad, value=1 - rho).add(eps).sqrt_()
        delta = state["acc_delta"].add(eps).sqrt_().div_(root).mul_(grad)
        state["acc_delta"].mul_(rho).addcmul_(delta, delta, value=1 - rho)
        p.add_(delta, alpha=-number(group["lr"]))


class Adam(GroupwiseOptimizer):
    """Running means of the gradient and of its square, both corrected for their start at zero."""
    _old_options = {"amsgrad": False, "decoupled_weight_decay": False}

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, amsgrad=False, *, foreach=None,
                 maximize=False, capturable=False, differentiable=False, fused=None, decoupled_weight_decay=False):
        _check(self, lr, betas, eps=eps, weight_decay=weight_decay)
        tensors = [isinstance(beta, Tensor) for beta in betas]
        if any(tensors) != all(tensors) or not all(isinstance(beta, (float, Tensor)) for beta in betas):
            raise ValueError(f"{type(self).__name__}: betas must be two floats or two tensors, found {betas}")
        if any(tensors) and any(beta.numel() != 1 for beta in betas):
            raise ValueError(f"{type(self).__name__}: tensors as betas must have one element each")
        if foreach and not capturable and (tensors[0] or isinstance(lr, Tensor)):
            raise ValueError(f"{type(self).__name__}(foreach=True) takes lr and betas as numbers, not as tensors; "
                             f"leave foreach out")
        betas = tuple(map(as_scalar, betas))
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, amsgrad=amsgrad,
                                      maximize=maximize, foreach=foreach, capturable=capturable,
                                      differentiable=differentiable, fused=fused,
                                      decoupled_weight_decay=decoupled_weight_decay))

    def _check_step(self, group, work):
        super()._check_step(group, work)
        if group["foreach"] and not group["capturable"] and isinstance(group["lr"], Tensor):
            raise RuntimeError(f"{type(self).__name__}(foreach=True) takes lr as a number, not as a tensor")

    def _fresh(self, group, p):
        state = {"step": _count(group), "exp_avg": _zeros(p), "exp_avg_sq": _zeros(p)}
        if group["amsgrad"]:
            state["max_exp_avg_sq"] = _zeros(p)
        return state

    def _fused_step(self, group, params, grads, states, steps, **numbers):
        op = _C._function("_fused_adamw_" if group["decoupled_weight_decay"] else "_fused_adam_")
        most = [state["max_exp_avg_sq"] for state in states] if group["amsgrad"] else []
        beta1, beta2 = map(number, group["betas"])
        op(params, grads, [state["exp_avg"] for state in states], [state["exp_avg_sq"] for state in states], most,
           steps, beta1=beta1, beta2=beta2, eps=group["eps"], amsgrad=group["amsgrad"], **numbers)

    def _update(self, group, p, grad, state):
        (beta1, beta2), step = group["betas"], state["step"].item()
        weight = 1 - (beta1.to(p.dtype) if isinstance(beta1, Tensor) else beta1)
        mean = state["exp_avg"].lerp_(grad, number(weight))
        square = state["exp_avg_sq"].mul_(beta2).addcmul_(grad, grad, value=number(1 - beta2))
        step_size = as_scalar(group["lr"]) / (1 - beta1**step)
        if group["amsgrad"]:
            largest = state["max_exp_avg_sq"]
            square = _C._function("maximum")(largest, square, out=largest)
        root = (square.sqrt() / (1 - beta2**step)**0.5).add_(group["eps"])
        p.addcdiv_(mean, root, value=-number(step_size))


class AdamW(Adam):
    """Adam whose weight decay shrinks the parameter itself, not the gradient."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2, amsgrad=False, *,
                 maximize=False, foreach=None, capturable=False, differentiable=False, fused=None):
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, foreach=foreach, maximize=maximize,
                         capturable=capturable, differentiable=differentiable, fused=fused,
                         decoupled_weight_decay=True)

    def __setstate__(self, state):
        super().__setstate__(state)
        for group in self.param_groups:
            group["decoupled_weight_decay"] = True


class Adamax(GroupwiseOptimizer):
    """Adam with the largest gradient in place of the mean square."""

    def __init__(self, params, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, foreach=None, *, maximize=False,
                 differentiable=False, capturable=False):
        _check(self, lr, betas, eps=eps, weight_decay=weight_decay)
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, foreach=foreach,
                                      maximize=maximize, differentiable=differentiable, capturable=capturable))

    def _fresh(self, group, p):
        return {"step": _count(group), "exp_avg": _zeros(p), "exp_inf": _zeros(p)}

    def _update(self, group, p, grad, state):
        beta1, beta2 = group["betas"]
        mean, largest = state["exp_avg"].lerp_(grad, 1 - beta1), state["exp_inf"].mul_(beta2)
        _C._function("maximum")(largest, grad.abs().add_(group["eps"]), out=largest)
        p.addcdiv_(mean, largest, value=-number(as_scalar(group["lr"]) / (1 - beta1**state["step"].item())))


class NAdam(GroupwiseOptimizer):
    """Adam with Nesterov's momentum, whose weight grows with the steps."""
    _old_options = {"decoupled_weight_decay": False}

    def __init__(self, params, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, momentum_decay=4e-3,
                 decoupled_weight_decay=False, *, foreach=None, maximize=False, capturable=False,
                 differentiable=False):
        _check(self, lr, betas, eps=eps, weight_decay=weight_decay, momentum_decay=momentum_decay)
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay,
                                      momentum_decay=momentum_decay, decoupled_weight_decay=decoupled_weight_decay,
                                      maximize=maximize, foreach=foreach, capturable=capturable,
                                      differentiable=differentiable))

    def _fresh(self, group, p):
        return {"step": _count(group), "mu_product": _C.tensor(1.0, dtype=scalar_dtype()), "exp_avg": _zeros(p),
                "exp_avg_sq": _zeros(p)}

    def _update(self, group, p, grad, state):
        (beta1, beta2), step, lr = group["betas"], state["step"].item(), as_scalar(group["lr"])
        mu, mu_next = (beta1 * (1.0 - 0.5 * 0.96**(s * group["momentum_decay"])) for s in (step, step + 1))
        state["mu_product"] *= mu
        product = state["mu_product"].item()
        mean = state["exp_avg"].lerp_(grad, 1 - beta1)
        square = state["exp_avg_sq"].mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        root = square.div(1 - beta2**step).sqrt_().add_(group["eps"])
        p.addcdiv_(grad, root, value=number(-lr * (1.0 - mu) / (1.0 - product)))
        p.addcdiv_(mean, root, value=number(-lr * mu_next / (1.0 - product * mu_next)))


class RAdam(GroupwiseOptimizer):
    """Adam that goes without the division by the root while the mean square is too uncertain."""
    _old_options = {"decoupled_weight_decay": False}

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, decoupled_weight_decay=False, *,
                 foreach=None, maximize=False, capturable=False, differentiable=False):
        _check(self, lr, betas, eps=eps, weight_decay=weight_decay)
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, maximize=maximize,
                                      foreach=foreach, capturable=capturable,
                                      decoupled_weight_decay=decoupled_weight_decay, differentiable=differentiable))

    def _fresh(self, group, p):
        return {"step": _count(group), "exp_avg": _zeros(p), "exp_avg_sq": _zeros(p)}

    def _update(self, group, p, grad, state):
        (beta1, beta2), step = group["betas"], state["step"].item()
        mean = state["exp_avg"].lerp_(grad, 1 - beta1)
        square = state["exp_avg_sq"].mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        update = mean / (1 - beta1**step) * as_scalar(group["lr"])
        correction = 1 - beta2**step
        rho_inf = 2 / (1 - beta2) - 1
        rho = rho_inf - 2 * step * beta2**step / correction
        if rho > 5.0:
            rectified = ((rho - 4) * (rho - 2) * rho_inf / ((rho_inf - 4) * (rho_inf - 2) * rho))**0.5
            update = update * (correction**0.5 / square.sqrt().add_(group["eps"])) * rectified
        p.sub_(update)


class ASGD(GroupwiseOptimizer):
    """Gradient descent with a falling rate, and the running mean `ax` of the parameters."""

    def __init__(self, params, lr=1e-2, lambd=1e-4, alpha=0.75, t0=1e6, weight_decay=0, foreach=None, maximize=False,
                 differentiable=False, capturable=False):
        _check(self, lr, weight_decay=weight_decay)
        super().__init__(params, dict(lr=lr, lambd=lambd, alpha=alpha, t0=t0, weight_decay=weight_decay,
                                      foreach=foreach, maximize=maximize, differentiable=differentiable,
                                      capturable=capturable))

    def _fresh(self, group, p):
        return {"step": _count(group), "eta": _C.tensor(number(group["lr"]), dtype=scalar_dtype()),
                "mu": _C.tensor(1.0, dtype=scalar_dtype()), "ax": _zeros(p)}

    def _update(self, group, p, grad, state):
        eta, mean, lambd = state["eta"].item(), state["ax"], group["lambd"]
        p.mul_(1 - lambd * eta).add_(grad, alpha=-eta)
        if state["mu"].item() == 1:
            mean.copy_(p)
        else:
            mean.add_(p.sub(mean).mul_(state["mu"]))
        step, lr = state["step"].item(), as_scalar(group["lr"])
        state["eta"].fill_(lr / (1 + lambd * lr * step)**group["alpha"])
        state["mu"].fill_(1 / max(1, step - group["t0"]))


class SparseAdam(GroupwiseOptimizer):
    """Adam for sparse gradients, which Cresset does not have."""

    def __init__(self, *args, **kwargs):  # unused args, kwargs: the signature is PyTorch's, the answer one
        raise NotImplementedError("SparseAdam: gradients are dense here, so there is nothing for it to skip; use Adam")
