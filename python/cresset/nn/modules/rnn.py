"""Recurrent layers and cells. A layer is one op (rnn_tanh, lstm, gru) over all steps, directions and layers."""
import math
import numbers
import warnings

from cresset import _C
from cresset.nn import init
from cresset.nn.modules.module import Module
from cresset.nn.parameter import Parameter
from cresset.nn.utils.rnn import PackedSequence

__all__ = ["RNNBase", "RNN", "LSTM", "GRU", "RNNCellBase", "RNNCell", "LSTMCell", "GRUCell"]
_empty, _zeros = _C._function("empty"), _C._function("zeros")
_GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}
_OPS = {mode: _C._function(name) for mode, name in {"RNN_TANH": "rnn_tanh", "RNN_RELU": "rnn_relu", "LSTM": "lstm",
                                                    "GRU": "gru"}.items()}


def _permuted(tensor, permutation, dim=1):
    return tensor.index_select(dim, permutation)


class RNNBase(Module):
    __constants__ = ["mode", "input_size", "hidden_size", "num_layers", "bias", "batch_first", "dropout",
                     "bidirectional", "proj_size"]

    def __init__(self, mode, input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0,
                 bidirectional=False, proj_size=0,
                 device=None, dtype=None):
        made = {"device": device, "dtype": dtype}
        super().__init__()
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        directions = 2 if bidirectional else 1
        if not isinstance(dropout, numbers.Number) or not 0 <= dropout <= 1 or isinstance(dropout, bool):
            raise ValueError(f"dropout is a probability, a number from 0 to 1, not {dropout!r}")
        if dropout > 0 and num_layers == 1:
            warnings.warn(f"dropout={dropout} does nothing with num_layers=1: it is between layers, not after the last "
                          f"one")
        if not isinstance(hidden_size, int):
            raise TypeError(f"hidden_size must be an int, not a {type(hidden_size).__name__}")
        if hidden_size <= 0:
            raise ValueError(f"hidden_size must be positive, not {hidden_size}")
        if num_layers <= 0:
            raise ValueError(f"num_layers must be positive, not {num_layers}")
        if proj_size < 0:
            raise ValueError(f"proj_size is 0 (no projection) or positive, not {proj_size}")
        if proj_size >= hidden_size:
            raise ValueError(f"a projection makes the state smaller: proj_size {proj_size} must be below hidden_size "
                             f"{hidden_size}")
        if mode not in _GATES:
            raise ValueError(f"mode is one of {', '.join(_GATES)}, not {mode!r}")
        rows = _GATES[mode] * hidden_size
        self._flat_weights_names = []
        self._all_weights = []
        for layer in range(num_layers):
            for direction in range(directions):
                real_hidden = proj_size if proj_size > 0 else hidden_size
                width = input_size if layer == 0 else real_hidden * directions
                sizes = {"weight_ih": (rows, width), "weight_hh": (rows, real_hidden)}
                if bias:
                    sizes.update(bias_ih=(rows,), bias_hh=(rows,))
                if proj_size > 0:
                    sizes["weight_hr"] = (proj_size, hidden_size)
                suffix = f"_l{layer}" + ("_reverse" if direction else "")
                names = [name + suffix for name in sizes]
                for name, size in zip(names, sizes.values()):
                    setattr(self, name, Parameter(_empty(size, **made)))
                self._flat_weights_names.extend(names)
                self._all_weights.append(names)
        self.reset_parameters()

    @property
    def _flat_weights(self):
        """The parameters in the op's order; asked for at each call, so that whoever replaces a parameter is heard."""
        return [getattr(self, name) for name in self._flat_weights_names]

    @property
    def all_weights(self):
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    def flatten_parameters(self):
        """Nothing: the op takes its weights wherever they are."""

    def reset_parameters(self):
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def check_input(self, input, batch_sizes):
        first = self._flat_weights[0]
        if input.dtype is not first.dtype:
            raise ValueError(f"the input is {input.dtype}, the weights are {first.dtype}: convert one of them")
        expected = 2 if batch_sizes is not None else 3
        if input.dim() != expected:
            raise RuntimeError(f"the input must have {expected} dimensions here, not {input.dim()}")
        if self.input_size != input.size(-1):
            raise RuntimeError(f"the input's last size is {input.size(-1)}, but input_size is {self.input_size}")

    def _batch(self, input, batch_sizes):
        if batch_sizes is not None:
            return int(batch_sizes[0])
        return input.size(0) if self.batch_first else input.size(1)

    def get_expected_hidden_size(self, input, batch_sizes):
        width = self.proj_size if self.proj_size > 0 else self.hidden_size
        return (self.num_layers * (2 if self.bidirectional else 1), self._batch(input, batch_sizes), width)

    def get_expected_cell_size(self, input, batch_sizes):
        return (self.num_layers * (2 if self.bidirectional else 1), self._batch(input, batch_sizes), self.hidden_size)

    def check_hidden_size(self, hx, expected_hidden_size, msg="the hidden state must have the sizes {}, but it has {}"):
        if hx.size() != expected_hidden_size:
            raise RuntimeError(msg.format(expected_hidden_size, list(hx.size())))

    def check_forward_args(self, input, hidden, batch_sizes):
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden, self.get_expected_hidden_size(input, batch_sizes))

    def permute_hidden(self, hx, permutation):
        return hx if permutation is None else _permuted(hx, permutation)

    def extra_repr(self):
        text = f"{self.input_size}, {self.hidden_size}"
        if self.proj_size != 0:
            text += f", proj_size={self.proj_size}"
        if self.num_layers != 1:
            text += f", num_layers={self.num_layers}"
        if self.bias is not True:
            text += f", bias={self.bias}"
        if self.batch_first is not False:
            text += f", batch_first={self.batch_first}"
        if self.dropout != 0:
            text += f", dropout={self.dropout}"
        if self.bidirectional is not False:
            text += f", bidirectional={self.bidirectional}"
        return text

    def _initial(self, count, input, batch, width):
        return _zeros(count, batch, width, dtype=input.dtype, device=input.device)

    def _prepare(self, input, hx):
        """(input, hx, batch_sizes, sorted_indices, unsorted_indices, batched): a batch dimension everywhere, hx in
        sorted order."""
        name = type(self).__name__
        lstm = self.mode == "LSTM"
        count = self.num_layers * (2 if self.bidirectional else 1)
        width = self.proj_size if self.proj_size > 0 else self.hidden_size
        widths = (width, self.hidden_size) if lstm else (width,)
        if isinstance(input, PackedSequence):
            input, batch_sizes, sorted_indices, unsorted_indices = input
            if hx is None:
                batch = batch_sizes[0]
                states = tuple(self._initial(count, input, int(batch), w) for w in widths)
            else:
                states = tuple(self.permute_hidden(h, sorted_indices) for h in (hx if lstm else (hx,)))
            return input, states, batch_sizes, sorted_indices, unsorted_indices, True
        if input.dim() not in (2, 3):
            raise ValueError(f"{name} takes (steps, features) or a batch of those, not {input.dim()}D inputs")
        batched = input.dim() == 3
        batch_dim = 0 if self.batch_first else 1
        if not batched:
            input = input.unsqueeze(batch_dim)
        batch = input.size(0) if self.batch_first else input.size(1)
        if hx is None:
            return input, tuple(self._initial(count, input, batch, w) for w in widths), None, None, None, batched
        states = tuple(hx) if lstm else (hx,)
        if any(h.dim() != (3 if batched else 2) for h in states):
            ranks = ", ".join(f"{h.dim()}-D" for h in states)
            kind = "batched 3-D" if batched else "unbatched 2-D"
            raise RuntimeError(f"the input is {kind}, so the initial state must be {3 if batched else 2}-D, but it is "
                               f"{ranks}")
        if not batched:
            states = tuple(h.unsqueeze(1) for h in states)
        return input, states, None, None, None, batched

    def _finish(self, output, hidden, batch_sizes, sorted_indices, unsorted_indices, batched):
        if batch_sizes is not None:
            return PackedSequence(output, batch_sizes, sorted_indices, unsorted_indices), tuple(self.permute_hidden(h,
                    unsorted_indices) for h in hidden)
        if not batched:
            output = output.squeeze(0 if self.batch_first else 1)
            hidden = tuple(h.squeeze(1) for h in hidden)
        return output, hidden

    def _run(self, input, hx, batch_sizes):
        """The op: over padded steps (`input` overload), or over packed ones (`data`)."""
        op = _OPS[self.mode]
        if batch_sizes is None:
            return op(input, hx, self._flat_weights, self.bias, self.num_layers, self.dropout, self.training,
                      self.bidirectional, self.batch_first)
        return op(input, batch_sizes, hx, self._flat_weights, self.bias, self.num_layers, self.dropout, self.training,
                  self.bidirectional)

    def forward(self, input, hx=None):
        input, (hx,), batch_sizes, sorted_indices, unsorted_indices, batched = self._prepare(input, hx)
        self.check_forward_args(input, hx, batch_sizes)
        output, hidden = self._run(input, hx, batch_sizes)
        output, (hidden,) = self._finish(output, (hidden,), batch_sizes, sorted_indices, unsorted_indices, batched)
        return output, hidden


class RNN(RNNBase):
    """RNN(input_size, hidden_size, num_layers=1, nonlinearity='tanh', bias=True, batch_first=False, dropout=0.0,
    bidirectional=False)"""

    def __init__(self, *args, **kwargs):
        if "proj_size" in kwargs:
            raise ValueError(f"{type(self).__name__} has no proj_size; LSTM has")
        if len(args) > 3:
            self.nonlinearity = args[3]
            args = args[:3] + args[4:]
        else:
            self.nonlinearity = kwargs.pop("nonlinearity", "tanh")
        modes = {"tanh": "RNN_TANH", "relu": "RNN_RELU"}
        if self.nonlinearity not in modes:
            raise ValueError(f"nonlinearity is 'tanh' or 'relu', not {self.nonlinearity!r}")
        super().__init__(modes[self.nonlinearity], *args, **kwargs)


class GRU(RNNBase):
    """GRU(input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0, bidirectional=False)"""

    def __init__(self, *args, **kwargs):
        if "proj_size" in kwargs:
            raise ValueError(f"{type(self).__name__} has no proj_size; LSTM has")
        super().__init__("GRU", *args, **kwargs)


class LSTM(RNNBase):
    """LSTM(input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0, bidirectional=False,
    proj_size=0)"""

    def __init__(self, *args, **kwargs):
        super().__init__("LSTM", *args, **kwargs)

    def check_forward_args(self, input, hidden, batch_sizes):
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden[0], self.get_expected_hidden_size(input, batch_sizes),
                               "hx[0], the hidden state, must have the sizes {}, but it has {}")
        self.check_hidden_size(hidden[1], self.get_expected_cell_size(input, batch_sizes),
                               "hx[1], the cell state, must have the sizes {}, but it has {}")

    def permute_hidden(self, hx, permutation):
        if permutation is None:
            return hx
        return tuple(_permuted(h, permutation) for h in hx) if isinstance(hx, tuple) else _permuted(hx, permutation)

    def forward(self, input, hx=None):
        input, hx, batch_sizes, sorted_indices, unsorted_indices, batched = self._prepare(input, hx)
        self.check_forward_args(input, hx, batch_sizes)
        output, hidden, cell = self._run(input, hx, batch_sizes)
        return self._finish(output, (hidden, cell), batch_sizes, sorted_indices, unsorted_indices, batched)


# ---- cells ----

class RNNCellBase(Module):
    __constants__ = ["input_size", "hidden_size", "bias"]

    def __init__(self, input_size, hidden_size, bias, num_chunks, device=None, dtype=None):
        made = {"device": device, "dtype": dtype}
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        self.weight_ih = Parameter(_empty((num_chunks * hidden_size, input_size), **made))
        self.weight_hh = Parameter(_empty((num_chunks * hidden_size, hidden_size), **made))
        if bias:
            self.bias_ih = Parameter(_empty(num_chunks * hidden_size, **made))
            self.bias_hh = Parameter(_empty(num_chunks * hidden_size, **made))
        else:
            self.register_parameter("bias_ih", None)
            self.register_parameter("bias_hh", None)
        self.reset_parameters()

    def reset_parameters(self):
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def extra_repr(self):
        text = f"{self.input_size}, {self.hidden_size}"
        if self.bias is not True:
            text += f", bias={self.bias}"
        if "nonlinearity" in self.__dict__ and self.nonlinearity != "tanh":
            text += f", nonlinearity={self.nonlinearity}"
        return text

    def _check(self, input, states):
        name = type(self).__name__
        for what, tensor in (("input", input), *(("hidden", state) for state in states or ())):
            if tensor.dim() not in (1, 2):
                raise ValueError(f"{name}: {what} is one vector or a batch of them, not {tensor.dim()}D")

    def _weights(self):
        return self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh

    def _state(self, input):
        return _zeros(input.size(0), self.hidden_size, dtype=input.dtype, device=input.device)


class RNNCell(RNNCellBase):
    def __init__(self, input_size, hidden_size, bias=True, nonlinearity="tanh", device=None, dtype=None):
        super().__init__(input_size, hidden_size, bias, num_chunks=1, device=device, dtype=dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input, hx=None):
        self._check(input, None if hx is None else (hx,))
        batched = input.dim() == 2
        input = input if batched else input.unsqueeze(0)
        hx = self._state(input) if hx is None else hx if batched else hx.unsqueeze(0)
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"nonlinearity is 'tanh' or 'relu', not {self.nonlinearity!r}")
        result = _C._function(f"rnn_{self.nonlinearity}_cell")(input, hx, *self._weights())
        return result if batched else result.squeeze(0)


class LSTMCell(RNNCellBase):
    def __init__(self, input_size, hidden_size, bias=True, device=None, dtype=None):
        super().__init__(input_size, hidden_size, bias, num_chunks=4, device=device, dtype=dtype)

    def forward(self, input, hx=None):
        self._check(input, hx)
        batched = input.dim() == 2
        input = input if batched else input.unsqueeze(0)
        if hx is None:
            state = self._state(input)
            hx = (state, state)
        elif not batched:
            hx = (hx[0].unsqueeze(0), hx[1].unsqueeze(0))
        hidden, cell = _C._function("lstm_cell")(input, hx, *self._weights())
        return (hidden, cell) if batched else (hidden.squeeze(0), cell.squeeze(0))


class GRUCell(RNNCellBase):
    def __init__(self, input_size, hidden_size, bias=True, device=None, dtype=None):
        super().__init__(input_size, hidden_size, bias, num_chunks=3, device=device, dtype=dtype)

    def forward(self, input, hx=None):
        self._check(input, None if hx is None else (hx,))
        batched = input.dim() == 2
        input = input if batched else input.unsqueeze(0)
        hx = self._state(input) if hx is None else hx if batched else hx.unsqueeze(0)
        result = _C._function("gru_cell")(input, hx, *self._weights())
        return result if batched else result.squeeze(0)
