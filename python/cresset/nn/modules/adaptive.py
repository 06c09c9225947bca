"""AdaptiveLogSoftmaxWithLoss: a softmax over many classes, where rare classes share clusters with narrower
projections."""
from collections import namedtuple

from cresset import _C
from cresset.nn import functional as F
from cresset.nn.modules.container import ModuleList, Sequential
from cresset.nn.modules.linear import Linear
from cresset.nn.modules.module import Module

__all__ = ["AdaptiveLogSoftmaxWithLoss"]
_ASMoutput = namedtuple("_ASMoutput", ["output", "loss"])


class AdaptiveLogSoftmaxWithLoss(Module):
    """Classes are sorted by frequency. The first `cutoffs[0]` are in the head, which also has one entry per cluster."""

    def __init__(self, in_features, n_classes, cutoffs, div_value=4.0, head_bias=False, device=None, dtype=None):
        made = {"device": device, "dtype": dtype}
        super().__init__()
        cutoffs = list(cutoffs)
        if not cutoffs:
            raise ValueError("AdaptiveLogSoftmaxWithLoss needs at least one cutoff")
        if cutoffs != sorted(cutoffs) or min(cutoffs) <= 0 or max(cutoffs) > n_classes - 1 or len(set(cutoffs)) != len(
                cutoffs) or \
                any(int(c) != c for c in cutoffs):
            raise ValueError(f"cutoffs must be different whole numbers in rising order, from 1 to n_classes - 1 = "
                             f"{n_classes - 1}, not {cutoffs}")
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = cutoffs + [n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = self.cutoffs[0]
        self.n_clusters = len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(self.in_features, self.head_size, bias=self.head_bias, **made)
        self.tail = ModuleList()
        for i in range(self.n_clusters):
            width = int(self.in_features // (self.div_value ** (i + 1)))
            size = self.cutoffs[i + 1] - self.cutoffs[i]
            self.tail.append(Sequential(Linear(self.in_features, width, bias=False, **made),
                                        Linear(width, size, bias=False, **made)))

    def reset_parameters(self):
        self.head.reset_parameters()
        for first, second in self.tail:
            first.reset_parameters()
            second.reset_parameters()

    def forward(self, input_, target_):
        batched = target_.dim() > 0
        if target_.dim() > 1:
            raise RuntimeError(f"AdaptiveLogSoftmaxWithLoss: the target has one class a row, so it is 0D or 1D, not "
                               f"{target_.dim()}D")
        if batched and input_.shape[0] != target_.shape[0]:
            raise RuntimeError(f"the input has {input_.shape[0]} rows, the target {target_.shape[0]}: they must be "
                               f"equal")
        if input_.dim() != (2 if batched else 1):
            raise RuntimeError(f"for this target the input must be {2 if batched else 1}D, not {input_.dim()}D")
        rows = input_ if batched else input_.unsqueeze(0)
        target = target_ if batched else target_.unsqueeze(0)
        used = 0
        output = rows.new_zeros(target.size(0))
        head_index = target.new_empty(target.size(0))
        bounds = [0] + self.cutoffs
        for i in range(len(bounds) - 1):
            low, high = bounds[i], bounds[i + 1]
            mask = (target >= low) & (target < high)
            where = mask.nonzero().squeeze()
            if where.numel() == 0:
                continue
            if i == 0:
                head_index.index_copy_(0, where, target[mask])
            else:
                logprob = F.log_softmax(self.tail[i - 1](rows.index_select(0, where)), dim=1)
                head_index.index_fill_(0, where, self.shortlist_size + i - 1)
                output.index_copy_(0, where, logprob.gather(1, (target[mask] - low).unsqueeze(1)).squeeze(1))
            used += where.numel()
        if used != target.size(0):
            raise RuntimeError(f"the target must have values in [0, {self.n_classes - 1}], but the values are in "
                               f"[{target.min().item()}, {target.max().item()}]")
        output += F.log_softmax(self.head(rows), dim=1).gather(1, head_index.unsqueeze(1)).squeeze()
        loss = (-output).mean()
        return _ASMoutput(output if batched else output.squeeze(0), loss)

    def _get_full_log_prob(self, input, head_output):
        out = input.new_empty((head_output.size(0), self.n_classes))
        head = F.log_softmax(head_output, dim=1)
        out[:, :self.shortlist_size] = head[:, :self.shortlist_size]
        for i, (start, stop) in enumerate(zip(self.cutoffs, self.cutoffs[1:])):
            out[:, start:stop] = F.log_softmax(self.tail[i](input), dim=1) + head[:,
                    self.shortlist_size + i].unsqueeze(1)
        return out

    def log_prob(self, input):
        """Log probabilities of all classes."""
        return self._get_full_log_prob(input, self.head(input))

    def predict(self, input):
        """The most likely class of each row; the clusters are only computed where the head chose one."""
        head_output = self.head(input)
        output = _C._function("argmax")(head_output, dim=1)
        not_in_shortlist = output >= self.shortlist_size
        if not not_in_shortlist.any():
            return output
        if not_in_shortlist.all():
            return _C._function("argmax")(self._get_full_log_prob(input, head_output), dim=1)
        chosen = self._get_full_log_prob(input[not_in_shortlist], head_output[not_in_shortlist])
        output[not_in_shortlist] = _C._function("argmax")(chosen, dim=1)
        return output
