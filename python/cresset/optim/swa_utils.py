"""Averages of weights over a training run: AveragedModel keeps them, SWALR sets their learning rate, update_bn
computes the statistics of batch norms again."""
import itertools
import math
from copy import deepcopy

from cresset import _C, nn
from cresset._grad_mode import no_grad
from cresset.optim.lr_scheduler import LRScheduler, for_each_group
from cresset.optim.optimizer import number

__all__ = ["AveragedModel", "update_bn", "SWALR", "get_ema_multi_avg_fn", "get_swa_multi_avg_fn", "get_ema_avg_fn",
           "get_swa_avg_fn"]


def _is_inexact(tensor):
    return tensor.is_floating_point() or tensor.is_complex()


def _check_decay(decay):
    if not 0.0 <= decay <= 1.0:
        raise ValueError(f"the decay of a moving average must be between 0 and 1, found {decay}")


def get_ema_avg_fn(decay=0.999):
    """An exponential moving average: f(average, current, count) -> the new average."""
    _check_decay(decay)

    @no_grad()
    def ema_update(ema_param, current_param, num_averaged):  # unused num_averaged: the weight never changes
        return decay * ema_param + (1 - decay) * current_param
    return ema_update


def get_swa_avg_fn():
    """The mean of all so far: f(average, current, count) -> the new average."""
    @no_grad()
    def swa_update(averaged_param, current_param, num_averaged):
        return averaged_param + (current_param - averaged_param) / (num_averaged + 1)
    return swa_update


def get_ema_multi_avg_fn(decay=0.999):
    """An exponential moving average: f(averages, currents, count) changes the averages."""
    _check_decay(decay)

    @no_grad()
    def ema_update(ema_param_list, current_param_list, num_averaged):  # unused num_averaged: the weight never changes
        for average, current in zip(ema_param_list, current_param_list, strict=True):
            if _is_inexact(average):
                average.lerp_(current, 1 - decay)
            else:
                average.copy_(average * decay + current * (1 - decay))
    return ema_update


def get_swa_multi_avg_fn():
    """The mean of all so far: f(averages, currents, count) changes the averages."""
    @no_grad()
    def swa_update(averaged_param_list, current_param_list, num_averaged):
        for average, current in zip(averaged_param_list, current_param_list, strict=True):
            if _is_inexact(average):
                average.lerp_(current, number(1 / (num_averaged + 1)))
            else:
                average.copy_(average + (current - average) / (num_averaged + 1))
    return swa_update


class AveragedModel(nn.Module):
    """A copy of the model whose parameters are averages; update_parameters(model) takes the present ones in."""

    def __init__(self, model, device=None, avg_fn=None, multi_avg_fn=None, use_buffers=False):
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("AveragedModel: give avg_fn or multi_avg_fn, not both")
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", _C.tensor(0, dtype=_C.int64, device=device))
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers

    def forward(self, *args, **kwargs):
        return self.module(*args, **kwargs)

    def _averaged(self, model):
        return itertools.chain(model.parameters(), model.buffers()) if self.use_buffers else model.parameters()

    @no_grad()
    def update_parameters(self, model):
        averages, currents = (list(self._averaged(m)) for m in (self.module, model))
        currents = [current.detach().to(average.device) for average, current in zip(averages, currents)]
        if self.n_averaged == 0:
            for average, current in zip(averages, currents):
                average.copy_(current)
        elif self.avg_fn is not None:
            for average, current in zip(averages, currents):
                average.copy_(self.avg_fn(average.detach(), current, self.n_averaged))
        else:
            # A function over lists sees one dtype at a time.
            for dtype in dict.fromkeys(average.dtype for average in averages):
                pairs = [(a.detach(), c) for a, c in zip(averages, currents) if a.dtype == dtype]
                (self.multi_avg_fn or get_swa_multi_avg_fn())(*map(list, zip(*pairs)), self.n_averaged)
        if not self.use_buffers:
            for average, current in zip(self.module.buffers(), model.buffers(), strict=True):
                average.copy_(current.detach().to(average.device))
        self.n_averaged += 1


@no_grad()
def update_bn(loader, model, device=None):
    """Computes the running statistics of all batch norms anew, over what the loader gives: inputs, or lists and tuples
    that begin with one."""
    norms = [module for module in model.modules() if isinstance(module, nn.modules.batchnorm._BatchNorm)]
    if not norms:
        return
    momenta, was_training = [module.momentum for module in norms], model.training
    for module in norms:
        module.reset_running_stats()
        module.momentum = None     # the mean over all batches
    model.train()
    for batch in loader:
        batch = batch[0] if isinstance(batch, (list, tuple)) else batch
        model(batch if device is None else batch.to(device))
    for module, momentum in zip(norms, momenta):
        module.momentum = momentum
    model.train(was_training)


class SWALR(LRScheduler):
    """From the present rate to swa_lr in anneal_epochs, by a cosine or in a line."""

    def __init__(self, optimizer, swa_lr, anneal_epochs=10, anneal_strategy="cos", last_epoch=-1):
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"SWALR: anneal_strategy must be 'cos' or 'linear', found {anneal_strategy!r}")
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"SWALR: anneal_epochs must be an integer of at least 0, found {anneal_epochs}")
        for group, lr in zip(optimizer.param_groups, for_each_group("swa_lr", optimizer, swa_lr)):
            group["swa_lr"] = lr
        self._anneal_strategy, self.anneal_epochs = anneal_strategy, anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _weight(self, step):
        """How much of swa_lr the rate of a step has."""
        part = max(0, min(1, step / max(1, self.anneal_epochs)))
        return part if self._anneal_strategy == "linear" else (1 - math.cos(math.pi * part)) / 2

    def get_lr(self):
        self._warn_outside_step()
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now, rates = self._weight(step - 1), self._weight(step), []
        for group in self.optimizer.param_groups:
            lr, last = group["lr"], group["swa_lr"]
            first = last if before == 1 else (lr - before * last) / (1 - before)
            rates.append(last * now + first * (1 - now))
        return rates
