"""Learning rates that change: a scheduler sets `lr` of its optimizer's groups at each step().

`get_lr` goes from one epoch's rates to the next one's, so that schedulers can be chained; `_get_closed_form_lr` gives
those of any epoch. A rate that is a tensor is filled in place. The attributes are those of PyTorch's state dicts.
"""
import math
import types
import warnings
from bisect import bisect_right
from collections import Counter

from cresset.optim.optimizer import Optimizer, Tensor, as_scalar

__all__ = ["LambdaLR", "MultiplicativeLR", "StepLR", "MultiStepLR", "ConstantLR", "LinearLR", "ExponentialLR",
           "SequentialLR", "CosineAnnealingLR", "ChainedScheduler", "ReduceLROnPlateau", "CyclicLR",
           "CosineAnnealingWarmRestarts", "OneCycleLR", "PolynomialLR", "LRScheduler"]


def _copied(value):
    return value.clone() if isinstance(value, Tensor) else value


def _values(optimizer, key="lr"):
    """What each group has for the key, safe from later changes in place."""
    return [_copied(group[key]) for group in optimizer.param_groups]


def _set(group, key, value):
    if isinstance(group[key], Tensor):
        group[key].fill_(as_scalar(value))
    else:
        group[key] = value


def for_each_group(name, optimizer, value):
    """A value for each group: the given list, or copies of the one that is given."""
    groups = len(optimizer.param_groups)
    if isinstance(value, (list, tuple)) and len(value) != groups:
        raise ValueError(f"{name} has {len(value)} values, but the optimizer has {groups} parameter groups; give one "
                         f"for each, or one number for all")
    return [_copied(v) for v in (value if isinstance(value, (list, tuple)) else [value] * groups)]


def _require_optimizer(optimizer):
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"a scheduler needs an Optimizer, found {type(optimizer).__name__}")


def _function_of(step):
    return getattr(step, "__func__", step)


def _warn_of_epoch():
    warnings.warn("step(epoch) is deprecated: call step() once for each epoch. With an epoch, the closed form of the "
                  "schedule is used where there is one", UserWarning, stacklevel=3)


class LRScheduler:
    """LRScheduler(optimizer, last_epoch=-1). Subclasses define get_lr(), the rates at self.last_epoch."""
    _get_lr_called_within_step = False
    _is_initial = False

    def __init__(self, optimizer, last_epoch=-1):
        _require_optimizer(optimizer)
        self.optimizer = optimizer
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", _copied(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(f"{type(self).__name__}(last_epoch={last_epoch}): parameter group {i} has no "
                               f"'initial_lr'; load the optimizer's state dict first, or leave last_epoch out")
        self.base_lrs = _values(optimizer, "initial_lr")
        self.last_epoch = last_epoch
        optimizer._scheduled_step = _function_of(optimizer.step)
        self._initial_step()

    def _initial_step(self):
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def state_dict(self):
        return {key: value for key, value in self.__dict__.items() if key != "optimizer"}

    def load_state_dict(self, state_dict):
        self.__dict__.update(state_dict)

    def get_last_lr(self):
        """The rates that the last step() set, one for each group."""
        return self._last_lr

    def get_lr(self):
        raise NotImplementedError(f"{type(self).__name__} has no get_lr(); a subclass of LRScheduler defines it")

    def _warn_outside_step(self):
        if not self._get_lr_called_within_step:
            warnings.warn("get_lr() computes the rates of the step that is being made; for the present ones, call "
                          "get_last_lr()", UserWarning, stacklevel=3)

    def _warn_of_order(self):
        """The first rate is lost when the scheduler steps before the optimizer does."""
        optimizer = self.optimizer
        if _function_of(optimizer.step) is not getattr(optimizer, "_scheduled_step", None):
            warnings.warn("optimizer.step has been replaced since the scheduler was made; make sure that "
                          "optimizer.step() is called before lr_scheduler.step()", UserWarning, stacklevel=3)
        elif not getattr(optimizer, "_opt_called", False):
            warnings.warn("lr_scheduler.step() was called before optimizer.step(), so the first learning rate is "
                          "skipped; call optimizer.step() first", UserWarning, stacklevel=3)

    def step(self, epoch=None):
        if self._step_count == 1:
            self._warn_of_order()
        self._step_count += 1
        if epoch is not None:
            _warn_of_epoch()
        self._update_lr(epoch)

    def _update_lr(self, epoch=None):
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        closed = epoch is not None and hasattr(self, "_get_closed_form_lr")
        self._apply(self._get_closed_form_lr if closed else self.get_lr)

    def _apply(self, rates):
        self._get_lr_called_within_step = True
        try:
            rates = rates()
        finally:
            self._get_lr_called_within_step = False
        for group, lr in zip(self.optimizer.param_groups, rates, strict=True):
            _set(group, "lr", lr)
        self._last_lr = _values(self.optimizer)

    def _same(self):
        return _values(self.optimizer)

    def _times(self, factor):
        return [group["lr"] * factor for group in self.optimizer.param_groups]

    def _base_times(self, factor):
        return [lr * factor for lr in self.base_lrs]


class _LRScheduler(LRScheduler):
    """The old name of the base class."""


class _Lambdas(LRScheduler):
    """A function of the epoch for each group. State dicts hold what callable objects hold, and no functions."""

    def __init__(self, optimizer, lr_lambda, last_epoch=-1):
        given = lr_lambda if isinstance(lr_lambda, (list, tuple)) else [lr_lambda] * len(optimizer.param_groups)
        if len(given) != len(optimizer.param_groups):
            raise ValueError(f"{type(self).__name__}: {len(given)} functions for {len(optimizer.param_groups)} "
                             f"parameter groups; give one for each, or one for all")
        self.lr_lambdas = list(given)
        super().__init__(optimizer, last_epoch)

    def state_dict(self):
        held = [None if isinstance(fn, types.FunctionType) else fn.__dict__.copy() for fn in self.lr_lambdas]
        return {**super().state_dict(), "lr_lambdas": held}

    def load_state_dict(self, state_dict):
        self.__dict__.update({key: value for key, value in state_dict.items() if key != "lr_lambdas"})
        for fn, held in zip(self.lr_lambdas, state_dict["lr_lambdas"]):
            if held is not None:
                fn.__dict__.update(held)


class LambdaLR(_Lambdas):
    """The initial rate times lr_lambda(epoch)."""

    def get_lr(self):
        self._warn_outside_step()
        return [lr * fn(self.last_epoch) for fn, lr in zip(self.lr_lambdas, self.base_lrs, strict=True)]


class MultiplicativeLR(_Lambdas):
    """The last rate times lr_lambda(epoch)."""

    def __init__(self, optimizer, lr_lambda, last_epoch=-1):
        for fn in lr_lambda if isinstance(lr_lambda, (list, tuple)) else [lr_lambda]:
            if not callable(fn):
                raise TypeError(f"MultiplicativeLR: lr_lambda must be a function, found {type(fn).__name__}")
        super().__init__(optimizer, lr_lambda, last_epoch)

    def get_lr(self):
        self._warn_outside_step()
        if self._is_initial:
            return self._same()
        groups = self.optimizer.param_groups
        return [group["lr"] * fn(self.last_epoch) for fn, group in zip(self.lr_lambdas, groups, strict=True)]


class StepLR(LRScheduler):
    """Times gamma every step_size epochs."""

    def __init__(self, optimizer, step_size, gamma=0.1, last_epoch=-1):
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        self._warn_outside_step()
        if self.last_epoch == 0 or self.last_epoch % self.step_size != 0:
            return self._same()
        return self._times(self.gamma)

    def _get_closed_form_lr(self):
        return self._base_times(self.gamma**(self.last_epoch // self.step_size))


class MultiStepLR(LRScheduler):
    """Times gamma at each of the milestones."""

    def __init__(self, optimizer, milestones, gamma=0.1, last_epoch=-1):
        self.milestones, self.gamma = Counter(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        self._warn_outside_step()
        if self.last_epoch not in self.milestones:
            return self._same()
        return self._times(self.gamma**self.milestones[self.last_epoch])

    def load_state_dict(self, state_dict):
        super().load_state_dict({**state_dict, "milestones": Counter(state_dict["milestones"])})

    def _get_closed_form_lr(self):
        return self._base_times(self.gamma**bisect_right(sorted(self.milestones.elements()), self.last_epoch))


class ConstantLR(LRScheduler):
    """Times factor until total_iters."""

    def __init__(self, optimizer, factor=1.0 / 3, total_iters=5, last_epoch=-1):
        if factor > 1.0 or factor < 0:
            raise ValueError(f"ConstantLR: factor must be between 0 and 1, found {factor}")
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        self._warn_outside_step()
        if self.last_epoch == 0:
            return self._times(self.factor)
        return self._same() if self.last_epoch != self.total_iters else self._times(1.0 / self.factor)

    def _get_closed_form_lr(self):
        return self._base_times(self.factor + (self.last_epoch >= self.total_iters) * (1 - self.factor))


class LinearLR(LRScheduler):
    """From start_factor to end_factor of the initial rate in total_iters equal steps."""

    def __init__(self, optimizer, start_factor=1.0 / 3, end_factor=1.0, total_iters=5, last_epoch=-1):
        if start_factor > 1.0 or start_factor <= 0:
            raise ValueError(f"LinearLR: start_factor must be above 0 and at most 1, found {start_factor}")
        if end_factor > 1.0 or end_factor < 0:
            raise ValueError(f"LinearLR: end_factor must be between 0 and 1, found {end_factor}")
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        self._warn_outside_step()
        if self.last_epoch == 0:
            return self._times(self.start_factor)
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._same()
        rise = self.end_factor - self.start_factor
        return self._times(1.0 + rise / (self.total_iters * self.start_factor + (self.last_epoch - 1) * rise))

    def _get_closed_form_lr(self):
        rise = self.end_factor - self.start_factor
        return self._base_times(self.start_factor + rise * min(self.total_iters, self.last_epoch) / self.total_iters)


class ExponentialLR(LRScheduler):
    """Times gamma at every epoch."""

    def __init__(self, optimizer, gamma, last_epoch=-1):
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        self._warn_outside_step()
        return self._same() if self._is_initial else self._times(self.gamma)

    def _get_closed_form_lr(self):
        return self._base_times(self.gamma**self.last_epoch)


class PolynomialLR(LRScheduler):
    """(1 - epoch / total_iters) ** power of the initial rate."""

    def __init__(self, optimizer, total_iters=5, power=1.0, last_epoch=-1):
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        self._warn_outside_step()
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._same()
        now, before = (1.0 - epoch / self.total_iters for epoch in (self.last_epoch, self.last_epoch - 1))
        return self._times((now / before)**self.power)

    def _get_closed_form_lr(self):
        return self._base_times((1.0 - min(self.total_iters, self.last_epoch) / self.total_iters)**self.power)


class CosineAnnealingLR(LRScheduler):
    """Half a cosine from the initial rate to eta_min in T_max epochs, and back."""

    def __init__(self, optimizer, T_max, eta_min=0.0, last_epoch=-1):
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        self._warn_outside_step()
        epoch, groups = self.last_epoch, self.optimizer.param_groups
        if self._is_initial:
            return self._same()
        if self._step_count == 1 and epoch > 0:
            return self._get_closed_form_lr()
        if (epoch - 1 - self.T_max) % (2 * self.T_max) == 0:     # at the lowest point a ratio would divide by zero
            rise = (1 - math.cos(math.pi / self.T_max)) / 2
            return [group["lr"] + (lr - self.eta_min) * rise for lr, group in zip(self.base_lrs, groups, strict=True)]
        now, before = (1 + math.cos(math.pi * e / self.T_max) for e in (epoch, epoch - 1))
        return [now / before * (group["lr"] - self.eta_min) + self.eta_min for group in groups]

    def _get_closed_form_lr(self):
        height = 1 + math.cos(math.pi * self.last_epoch / self.T_max)
        return [self.eta_min + (lr - self.eta_min) * height / 2 for lr in self.base_lrs]


class CosineAnnealingWarmRestarts(LRScheduler):
    """A falling half cosine that starts again after T_0 epochs, each time T_mult times as long."""

    def __init__(self, optimizer, T_0, T_mult=1, eta_min=0.0, last_epoch=-1):
        if not isinstance(T_0, int) or T_0 <= 0:
            raise ValueError(f"CosineAnnealingWarmRestarts: T_0 must be an integer above 0, found {T_0}")
        if not isinstance(T_mult, int) or T_mult < 1:
            raise ValueError(f"CosineAnnealingWarmRestarts: T_mult must be an integer of at least 1, found {T_mult}")
        if not isinstance(eta_min, (float, int)):
            raise ValueError(f"CosineAnnealingWarmRestarts: eta_min must be a number, found {type(eta_min).__name__}")
        self.T_0 = self.T_i = T_0
        self.T_mult, self.eta_min, self.T_cur = T_mult, eta_min, last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        self._warn_outside_step()
        height = 1 + math.cos(math.pi * self.T_cur / self.T_i)
        return [self.eta_min + (lr - self.eta_min) * height / 2 for lr in self.base_lrs]

    def step(self, epoch=None):
        """An epoch may be given, also a fraction of one."""
        if epoch is None and self.last_epoch >= 0:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur, self.T_i = self.T_cur % self.T_i, self.T_i * self.T_mult
        else:
            epoch = 0 if epoch is None else epoch
            if epoch < 0:
                raise ValueError(f"CosineAnnealingWarmRestarts.step: the epoch must be 0 or more, found {epoch}")
            self._place(epoch)
        self.last_epoch = math.floor(epoch)
        self._apply(self.get_lr)

    def _place(self, epoch):
        """Which cycle the epoch is in, and where."""
        if epoch < self.T_0:
            self.T_i, self.T_cur = self.T_0, epoch
        elif self.T_mult == 1:
            self.T_cur = epoch % self.T_0
        else:
            cycle = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
            self.T_cur = epoch - self.T_0 * (self.T_mult**cycle - 1) / (self.T_mult - 1)
            self.T_i = self.T_0 * self.T_mult**cycle


class _WithMomentum(LRScheduler):
    """A schedule of the rate and, against it, of the momentum: SGD's, or the first of Adam's betas."""

    def _cycle(self, optimizer, base_momentum, max_momentum, last_epoch):
        if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
            raise ValueError(f"{type(self).__name__}: {type(optimizer).__name__} has neither momentum nor betas; set "
                             f"cycle_momentum=False")
        self.use_beta1 = "betas" in optimizer.defaults
        lowest = for_each_group("base_momentum", optimizer, base_momentum)
        highest = for_each_group("max_momentum", optimizer, max_momentum)
        if last_epoch == -1:
            for group, low, high in zip(optimizer.param_groups, lowest, highest):
                self._set_momentum(group, high)
                group["max_momentum"], group["base_momentum"] = high, low
        return lowest, highest

    def _set_momentum(self, group, value):
        if self.use_beta1:
            group["betas"] = (value, *group["betas"][1:])
        else:
            group["momentum"] = value


class CyclicLR(_WithMomentum):
    """Up from base_lr to max_lr and down again, over and over; `mode` or scale_fn says how the height changes."""

    def __init__(self, optimizer, base_lr, max_lr, step_size_up=2000, step_size_down=None, mode="triangular",
                 gamma=1.0, scale_fn=None, scale_mode="cycle", cycle_momentum=True, base_momentum=0.8,
                 max_momentum=0.9, last_epoch=-1):
        _require_optimizer(optimizer)
        self.optimizer = optimizer
        base_lrs = for_each_group("base_lr", optimizer, base_lr)
        if last_epoch == -1:
            for lr, group in zip(base_lrs, optimizer.param_groups):
                _set(group, "lr", lr)
        self.max_lrs = for_each_group("max_lr", optimizer, max_lr)
        up = float(step_size_up)
        self.total_size = up + (up if step_size_down is None else float(step_size_down))
        self.step_ratio = up / self.total_size
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError(f"CyclicLR: mode must be 'triangular', 'triangular2' or 'exp_range', found {mode!r}; for "
                             f"another shape give scale_fn")
        self.mode, self.gamma, self._scale_fn_custom = mode, gamma, scale_fn
        self.scale_mode = scale_mode if scale_fn else "iterations" if mode == "exp_range" else "cycle"
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.base_momentums, self.max_momentums = self._cycle(optimizer, base_momentum, max_momentum, last_epoch)
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def scale_fn(self, x):
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        return {"triangular": lambda: 1.0, "triangular2": lambda: 1 / 2.0**(x - 1),
                "exp_range": lambda: self.gamma**x}[self.mode]()

    def get_lr(self):
        self._warn_outside_step()
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        at = 1.0 + self.last_epoch / self.total_size - cycle
        part = at / self.step_ratio if at <= self.step_ratio else (at - 1) / (self.step_ratio - 1)

        def height(low, high):
            return (high - low) * part * self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)

        if self.cycle_momentum:
            for group, low, high in zip(self.optimizer.param_groups, self.base_momentums, self.max_momentums,
                                        strict=True):
                self._set_momentum(group, high - height(low, high))
        return [low + height(low, high) for low, high in zip(self.base_lrs, self.max_lrs, strict=True)]

    def state_dict(self):
        fn = self._scale_fn_custom
        held = None if fn is None or isinstance(fn, types.FunctionType) else fn.__dict__.copy()
        return {**super().state_dict(), "_scale_fn_custom": held}

    def load_state_dict(self, state_dict):
        super().load_state_dict({key: value for key, value in state_dict.items() if key != "_scale_fn_custom"})
        if state_dict["_scale_fn_custom"] is not None:
            self._scale_fn_custom.__dict__.update(state_dict["_scale_fn_custom"])


def _phase(end, lr, momentum):
    return {"end_step": end, "start_lr": f"{lr[0]}_lr", "end_lr": f"{lr[1]}_lr",
            "start_momentum": f"{momentum[0]}_momentum", "end_momentum": f"{momentum[1]}_momentum"}


class OneCycleLR(_WithMomentum):
    """One rise to max_lr and one long fall far below the first rate, in total_steps."""

    def __init__(self, optimizer, max_lr, total_steps=None, epochs=None, steps_per_epoch=None, pct_start=0.3,
                 anneal_strategy="cos", cycle_momentum=True, base_momentum=0.85, max_momentum=0.95, div_factor=25.0,
                 final_div_factor=1e4, three_phase=False, last_epoch=-1):
        _require_optimizer(optimizer)
        self.optimizer = optimizer
        if total_steps is None and (epochs is None or steps_per_epoch is None):
            raise ValueError("OneCycleLR: give total_steps, or epochs and steps_per_epoch")
        given = {"epochs": epochs, "steps_per_epoch": steps_per_epoch} if total_steps is None else {
            "total_steps": total_steps}
        for name, value in given.items():
            if not isinstance(value, int) or value <= 0:
                raise ValueError(f"OneCycleLR: {name} must be an integer above 0, found {value}")
        if not isinstance(pct_start, float) or not 0 <= pct_start <= 1:
            raise ValueError(f"OneCycleLR: pct_start must be a float between 0 and 1, found {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"OneCycleLR: anneal_strategy must be 'cos' or 'linear', found {anneal_strategy!r}")
        self.total_steps = math.prod(given.values())
        self._anneal_func_type = anneal_strategy
        rise = _phase(float(pct_start * self.total_steps) - 1, ("initial", "max"), ("max", "base"))
        last = self.total_steps - 1
        self._schedule_phases = [rise, _phase(last, ("max", "min"), ("base", "max"))] if not three_phase else [
            rise, _phase(float(2 * pct_start * self.total_steps) - 2, ("max", "initial"), ("base", "max")),
            _phase(last, ("initial", "min"), ("max", "max"))]
        highest = for_each_group("max_lr", optimizer, max_lr)
        if last_epoch == -1:
            for group, high in zip(optimizer.param_groups, highest):
                group["initial_lr"], group["max_lr"] = high / div_factor, high
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._cycle(optimizer, base_momentum, max_momentum, last_epoch)
        super().__init__(optimizer, last_epoch)

    def _between(self, start, end, part):
        if self._anneal_func_type == "linear":
            return (end - start) * part + start
        return end + (start - end) / 2.0 * (math.cos(math.pi * part) + 1)

    def get_lr(self):
        self._warn_outside_step()
        step, phases = self.last_epoch, self._schedule_phases
        if step > self.total_steps:
            raise ValueError(f"OneCycleLR: this is step {step}, but the schedule has {self.total_steps}; make it with "
                             f"more total_steps")
        i = next((i for i, phase in enumerate(phases) if step <= phase["end_step"]), len(phases) - 1)
        start, phase = phases[i - 1]["end_step"] if i else 0.0, phases[i]
        part, rates = (step - start) / (phase["end_step"] - start), []
        for group in self.optimizer.param_groups:
            rates.append(self._between(group[phase["start_lr"]], group[phase["end_lr"]], part))
            if self.cycle_momentum:
                ends = group[phase["start_momentum"]], group[phase["end_momentum"]]
                self._set_momentum(group, self._between(*ends, part))
        return rates


class _Several(LRScheduler):
    """Schedulers of one optimizer, as one."""

    def _take(self, schedulers, optimizer):
        name = type(self).__name__
        if len(schedulers) < 1:
            raise ValueError(f"{name} needs at least one scheduler")
        optimizer = optimizer or schedulers[0].optimizer
        for i, scheduler in enumerate(schedulers):
            if not hasattr(scheduler, "optimizer"):
                raise TypeError(f"{name}: schedulers[{i}] has no optimizer; it is a {type(scheduler).__name__}")
            if isinstance(scheduler, ReduceLROnPlateau):
                raise ValueError(f"{name}: schedulers[{i}] is a ReduceLROnPlateau, whose step() needs a metric; step "
                                 f"it by itself")
            if scheduler.optimizer is not optimizer:
                raise ValueError(f"{name}: schedulers[{i}] belongs to another optimizer; all must have the same one")
        self._schedulers, self.optimizer = schedulers, optimizer

    def state_dict(self):
        return {**super().state_dict(), "_schedulers": [scheduler.state_dict() for scheduler in self._schedulers]}

    def load_state_dict(self, state_dict):
        self.__dict__.update({key: value for key, value in state_dict.items() if key != "_schedulers"})
        for scheduler, state in zip(self._schedulers, state_dict["_schedulers"]):
            scheduler.load_state_dict(state)


class SequentialLR(_Several):
    """One scheduler after the other, changing at the milestones."""

    def __init__(self, optimizer, schedulers, milestones, last_epoch=-1):
        self._take(schedulers, optimizer)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(f"SequentialLR: {len(schedulers)} schedulers need {len(schedulers) - 1} milestones, "
                             f"found {len(milestones)}")
        self._milestones = milestones
        self.last_epoch = last_epoch + 1
        for group in optimizer.param_groups:
            _set(group, "lr", group["initial_lr"])
        self.recursive_undo()     # each scheduler made its first step when it was made
        first = schedulers[bisect_right(milestones, 0)]
        first._initial_step()
        self._last_lr = first.get_last_lr()

    def recursive_undo(self, sched=None):
        """Takes one step back from the counts of all schedulers inside."""
        sched = self if sched is None else sched
        for inner in getattr(sched, "_schedulers", ()):
            self.recursive_undo(inner)
        if not hasattr(sched, "_schedulers") and hasattr(sched, "last_epoch"):
            sched.last_epoch -= 1

    def step(self):
        self.last_epoch += 1
        i = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[i]
        if i > 0 and self._milestones[i - 1] == self.last_epoch:
            scheduler._update_lr(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()


class ChainedScheduler(_Several):
    """All schedulers at every step, each on what the one before it left."""

    def __init__(self, schedulers, optimizer=None):
        self._take(schedulers, optimizer)
        self._last_lr = _values(self.optimizer)

    def step(self):
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = _values(self.optimizer)


class ReduceLROnPlateau(LRScheduler):
    """Times factor when the metric given to step() has not become better for `patience` epochs."""

    def __init__(self, optimizer, mode="min", factor=0.1, patience=10, threshold=1e-4, threshold_mode="rel",
                 cooldown=0, min_lr=0, eps=1e-8):
        if factor >= 1.0:
            raise ValueError(f"ReduceLROnPlateau: factor must be below 1, found {factor}")
        _require_optimizer(optimizer)
        self.factor, self.optimizer = factor, optimizer
        self.default_min_lr = None if isinstance(min_lr, (list, tuple)) else min_lr
        self.min_lrs = for_each_group("min_lr", optimizer, min_lr)
        self.patience, self.cooldown, self.eps, self.last_epoch = patience, cooldown, eps, 0
        self._last_lr = _values(optimizer)
        self._init_is_better(mode, threshold, threshold_mode)
        self._reset()

    def _init_is_better(self, mode, threshold, threshold_mode):
        if mode not in ("min", "max"):
            raise ValueError(f"ReduceLROnPlateau: mode must be 'min' or 'max', found {mode!r}")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError(f"ReduceLROnPlateau: threshold_mode must be 'rel' or 'abs', found {threshold_mode!r}")
        self.mode, self.threshold, self.threshold_mode = mode, threshold, threshold_mode
        self.mode_worse = math.inf if mode == "min" else -math.inf

    def _reset(self):
        self.best, self.cooldown_counter, self.num_bad_epochs = self.mode_worse, 0, 0

    @property
    def in_cooldown(self):
        return self.cooldown_counter > 0

    def _is_better(self, value, best):
        change = -self.threshold if self.mode == "min" else self.threshold
        bound = best * (1.0 + change) if self.threshold_mode == "rel" else best + change
        return value < bound if self.mode == "min" else value > bound

    def step(self, metrics, epoch=None):
        metric = float(metrics)
        if epoch is not None:
            _warn_of_epoch()
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        better = self._is_better(metric, self.best)
        self.best = metric if better else self.best
        self.num_bad_epochs = 0 if better else self.num_bad_epochs + 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce_lr()
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
        self._last_lr = _values(self.optimizer)

    def _reduce_lr(self):
        groups = self.optimizer.param_groups
        if len(groups) != len(self.min_lrs):
            if self.default_min_lr is None:
                raise RuntimeError(f"ReduceLROnPlateau: the optimizer has {len(groups)} parameter groups now, but "
                                   f"min_lr was given for {len(self.min_lrs)}; extend scheduler.min_lrs")
            self.min_lrs = [self.default_min_lr] * len(groups)
        for group, least in zip(groups, self.min_lrs):
            old = float(group["lr"])
            new = max(old * self.factor, least)
            if old - new > self.eps:
                _set(group, "lr", new)

    def load_state_dict(self, state_dict):
        self.__dict__.update(state_dict)
        self._init_is_better(self.mode, self.threshold, self.threshold_mode)
