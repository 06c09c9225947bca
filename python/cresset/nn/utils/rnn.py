"""Sequences of different lengths in one tensor: padded to the longest, or packed step by step."""
from collections import namedtuple
from collections.abc import Iterable

from cresset import _C

__all__ = ["PackedSequence", "invert_permutation", "pack_padded_sequence", "pad_packed_sequence", "pad_sequence",
           "unpad_sequence", "pack_sequence",
           "unpack_sequence"]
_PackedFields = namedtuple("PackedSequence", ["data", "batch_sizes", "sorted_indices", "unsorted_indices"])
_op = _C._function


def invert_permutation(permutation):
    """The permutation that undoes this one; None stays None."""
    if permutation is None:
        return None
    output = _op("empty_like")(permutation, memory_format=_C.contiguous_format)
    output.scatter_(0, permutation, _op("arange")(0, permutation.numel(), device=permutation.device))
    return output


class PackedSequence(_PackedFields):
    """data: all steps, longest sequence first; batch_sizes: how many sequences each step has. Made by
    pack_padded_sequence."""

    def __new__(cls, data, batch_sizes=None, sorted_indices=None, unsorted_indices=None):
        if isinstance(data, PackedSequence):
            return super().__new__(cls, *data)
        if isinstance(data, (list, tuple)) and batch_sizes is None:
            data, batch_sizes = data
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        if batch_sizes.device.type != "cpu":
            raise ValueError(f"batch_sizes is read on the CPU, but it is on {batch_sizes.device}")
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args, **kwargs):
        """The same with data converted as by Tensor.to."""
        data = self.data.to(*args, **kwargs)
        return self if data is self.data else type(self)(data, self.batch_sizes, self.sorted_indices,
                                                         self.unsorted_indices)

    def cpu(self, *args, **kwargs):
        """The same on the CPU; also converted, where arguments of Tensor.to are given."""
        return self.to(*args, **kwargs) if args or kwargs else self.to("cpu")

    def float(self):
        return self.to(_C.float32)

    def double(self):
        return self.to(_C.float64)

    def half(self):
        return self.to(_C.float16)

    def long(self):
        return self.to(_C.int64)

    def int(self):
        return self.to(_C.int32)

    @property
    def is_cuda(self):
        return self.data.is_cuda

    def is_pinned(self):
        return False


def pack_padded_sequence(input, lengths, batch_first=False, enforce_sorted=True):
    """Packs a padded batch. Unless enforce_sorted, sequences come in any order and are sorted by length."""
    if not _C.is_tensor(lengths):
        lengths = _C.tensor(list(lengths), dtype=_C.int64)
    else:
        lengths = lengths.cpu()
    sorted_indices = None
    if not enforce_sorted:
        lengths, sorted_indices = _op("sort")(lengths, descending=True)
        input = input.index_select(0 if batch_first else 1, sorted_indices)
    data, batch_sizes = _op("_pack_padded_sequence")(input, lengths, batch_first)
    return PackedSequence(data, batch_sizes, sorted_indices, None)


def pad_packed_sequence(sequence, batch_first=False, padding_value=0.0, total_length=None):
    """The inverse of pack_padded_sequence: (padded batch, lengths)."""
    steps = sequence.batch_sizes.size(0)
    if total_length is not None:
        if total_length < steps:
            raise ValueError(f"total_length {total_length} must be at least the length of the longest sequence, which "
                             f"is {steps}")
        steps = total_length
    padded, lengths = _op("_pad_packed_sequence")(sequence.data, sequence.batch_sizes, batch_first, padding_value,
                                                  steps)
    if sequence.unsorted_indices is not None:
        return padded.index_select(0 if batch_first else 1,
                                   sequence.unsorted_indices), lengths[sequence.unsorted_indices]
    return padded, lengths


def pad_sequence(sequences, batch_first=False, padding_value=0.0, padding_side="right"):
    """Tensors of different first sizes as one, filled up with padding_value."""
    if _C.is_tensor(sequences):
        sequences = sequences.unbind(0)
    elif not isinstance(sequences, Iterable):
        raise RuntimeError(f"pad_sequence: expected an iterable of tensors, but got {type(sequences)}")
    if padding_side not in ("left", "right"):
        raise ValueError(f"padding_side must be 'left' or 'right', not {padding_side!r}")
    sequences = list(sequences)
    if not sequences:
        raise RuntimeError("pad_sequence: received an empty list of sequences")
    longest, rest = max(s.size(0) for s in sequences), sequences[0].size()[1:]
    shape = (len(sequences), longest, *rest) if batch_first else (longest, len(sequences), *rest)
    result = sequences[0].new_full(shape, padding_value)
    rows = result if batch_first else result.transpose(0, 1)
    for row, sequence in zip(rows, sequences):
        start = 0 if padding_side == "right" else longest - sequence.size(0)
        row[start:start + sequence.size(0)].copy_(sequence)
    return result


def unpad_sequence(padded_sequences, lengths, batch_first=False):
    """The inverse of pad_sequence: a list of tensors."""
    if not batch_first:
        padded_sequences = padded_sequences.transpose(0, 1)
    return [row[:int(n)] for row, n in zip(padded_sequences, lengths)]


def pack_sequence(sequences, enforce_sorted=True):
    """Packs tensors of different lengths."""
    lengths = _C.tensor([v.size(0) for v in sequences])
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences):
    """The inverse of pack_sequence: a list of tensors."""
    return unpad_sequence(*pad_packed_sequence(packed_sequences))
