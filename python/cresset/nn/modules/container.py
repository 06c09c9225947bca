"""Containers: modules and parameters in lists and dictionaries; Sequential calls its modules one after the other."""
import operator
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from itertools import chain, islice

from cresset.nn.modules.module import Module, _addindent
from cresset.nn.parameter import Parameter, Tensor

__all__ = ["Container", "Sequential", "ModuleList", "ModuleDict", "ParameterList", "ParameterDict"]


class Container(Module):
    def __init__(self, **kwargs):
        super().__init__()
        for name, module in kwargs.items():
            self.add_module(name, module)


def _position(length, index):
    """An index into `length` items, counted from either end."""
    index = operator.index(index)
    if not -length <= index < length:
        raise IndexError(f"index {index} is out of range: there are {length} items")
    return index + length if index < 0 else index


class Sequential(Module):
    """Sequential(a, b, ...) or Sequential(OrderedDict(name=a, ...)): each takes what the one before returned."""

    def __init__(self, *args):
        super().__init__()
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            for name, module in args[0].items():
                self.add_module(name, module)
        else:
            for i, module in enumerate(args):
                self.add_module(str(i), module)

    def _key(self, index):
        return next(islice(self._modules, _position(len(self), index), None))

    def _renumber(self):
        self._modules = {str(i): module for i, module in enumerate(self._modules.values())}

    def __getitem__(self, index):
        if isinstance(index, slice):
            return type(self)(OrderedDict(list(self._modules.items())[index]))
        return self._modules[self._key(index)]

    def __setitem__(self, index, module):
        setattr(self, self._key(index), module)

    def __delitem__(self, index):
        for key in list(self._modules)[index] if isinstance(index, slice) else [self._key(index)]:
            delattr(self, key)
        self._renumber()

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules.values())

    def __dir__(self):
        return [name for name in super().__dir__() if not name.isdigit()]

    def __add__(self, other):
        if not isinstance(other, Sequential):
            raise ValueError(f"a Sequential can only be added to a Sequential, not to a {type(other).__name__}")
        result = Sequential()
        for module in chain(self, other):
            result.append(module)
        return result

    def __iadd__(self, other):
        if not isinstance(other, Sequential):
            raise ValueError(f"a Sequential can only be added to a Sequential, not to a {type(other).__name__}")
        offset = len(self)
        for i, module in enumerate(other):
            self.add_module(str(i + offset), module)
        return self

    def __mul__(self, other):
        result = Sequential()
        for module in self._times(other) * other:
            result.append(module)
        return result

    __rmul__ = __mul__

    def __imul__(self, other):
        for module in self._times(other) * (other - 1):
            self.append(module)
        return self

    def _times(self, n):
        if not isinstance(n, int):
            raise TypeError(f"a Sequential can be multiplied by an int, not by a {type(n).__name__}")
        if n <= 0:
            raise ValueError(f"a Sequential can be repeated 1 or more times, not {n}")
        return list(self)

    def pop(self, key):
        module = self[key]
        del self[key]
        return module

    def append(self, module):
        self.add_module(str(len(self)), module)
        return self

    def insert(self, index, module):
        if not isinstance(module, Module):
            raise AssertionError(f"Sequential.insert takes a Module, not a {type(module).__name__}")
        n = len(self)
        if not -n <= index <= n:
            raise IndexError(f"Index out of range: {index}")
        items = list(self)
        items.insert(index + n if index < 0 else index, module)
        self._modules = {str(i): m for i, m in enumerate(items)}
        return self

    def extend(self, sequential):
        for module in sequential:
            self.append(module)
        return self

    def forward(self, input):
        for module in self:
            input = module(input)
        return input


def _grouped(texts):
    """Runs of equal texts as (first index, last index, text)."""
    runs = []
    for i, text in enumerate(texts):
        if runs and runs[-1][2] == text:
            runs[-1][1] = i
        else:
            runs.append([i, i, text])
    return runs


class ModuleList(Module):
    """Modules in a list."""

    def __init__(self, modules=None):
        super().__init__()
        if modules is not None:
            self += modules

    def _key(self, index):
        return str(_position(len(self), index))

    def __getitem__(self, index):
        if isinstance(index, slice):
            return type(self)(list(self._modules.values())[index])
        return self._modules[self._key(index)]

    def __setitem__(self, index, module):
        setattr(self, self._key(index), module)

    def __delitem__(self, index):
        for key in [str(i) for i in range(len(self))[index]] if isinstance(index, slice) else [self._key(index)]:
            delattr(self, key)
        self._modules = {str(i): module for i, module in enumerate(self._modules.values())}

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules.values())

    def __iadd__(self, modules):
        return self.extend(modules)

    def __add__(self, other):
        combined = ModuleList()
        for i, module in enumerate(chain(self, other)):
            combined.add_module(str(i), module)
        return combined

    def __repr__(self):
        if len(self) == 0:
            return self._get_name() + "()"
        lines = []
        for first, last, text in _grouped([repr(item) for item in self]):
            lines.append(f"({first}): " + _addindent(text, 2) if first == last
                         else f"({first}-{last}): {last - first + 1} x " + _addindent(text, 2))
        return f"{self._get_name()}(\n  " + "\n  ".join(lines) + "\n)"

    def __dir__(self):
        return [name for name in super().__dir__() if not name.isdigit()]

    def insert(self, index, module):
        for i in range(len(self._modules), index, -1):
            self._modules[str(i)] = self._modules[str(i - 1)]
        self._modules[str(index)] = module

    def append(self, module):
        self.add_module(str(len(self)), module)
        return self

    def pop(self, key):
        module = self[key]
        del self[key]
        return module

    def extend(self, modules):
        if not isinstance(modules, Iterable):
            raise TypeError(f"ModuleList.extend takes an iterable of modules, not a {type(modules).__name__}")
        offset = len(self)
        for i, module in enumerate(modules):
            self.add_module(str(offset + i), module)
        return self


def _pairs(owner, values):
    """(key, value) pairs of a mapping or of an iterable of pairs."""
    if isinstance(values, (OrderedDict, ModuleDict, ParameterDict, Mapping)):
        return list(values.items())
    if not isinstance(values, Iterable):
        raise TypeError(f"{owner}.update takes key/value pairs, not a {type(values).__name__}")
    pairs = []
    for i, item in enumerate(values):
        if not isinstance(item, Iterable):
            raise TypeError(f"{owner} update sequence element #{i} should be Iterable; is {type(item).__name__}")
        if len(item) != 2:
            raise ValueError(f"{owner} update sequence element #{i} has length {len(item)}; 2 is required")
        pairs.append(tuple(item))
    return pairs


class ModuleDict(Module):
    """Modules by name."""

    def __init__(self, modules=None):
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key):
        return self._modules[key]

    def __setitem__(self, key, module):
        self.add_module(key, module)

    def __delitem__(self, key):
        del self._modules[key]

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules)

    def __contains__(self, key):
        return key in self._modules

    def clear(self):
        self._modules.clear()

    def pop(self, key):
        return self._modules.pop(key)

    def keys(self):
        return self._modules.keys()

    def items(self):
        return self._modules.items()

    def values(self):
        return self._modules.values()

    def update(self, modules):
        for key, module in _pairs("ModuleDict", modules):
            self[key] = module


class ParameterList(Module):
    """Parameters in a list. A plain tensor becomes a Parameter; other objects are kept as they are."""

    def __init__(self, values=None):
        super().__init__()
        self._size = 0
        if values is not None:
            self += values

    def __getitem__(self, index):
        if isinstance(index, slice):
            return type(self)(getattr(self, str(i)) for i in range(len(self))[index])
        return getattr(self, str(_position(len(self), index)))

    def __setitem__(self, index, param):
        if isinstance(param, Tensor) and not isinstance(param, Parameter):
            param = Parameter(param)
        setattr(self, str(_position(len(self), index)), param)

    def __len__(self):
        return self._size

    def __iter__(self):
        return iter(self[i] for i in range(len(self)))

    def __iadd__(self, parameters):
        return self.extend(parameters)

    def __dir__(self):
        return [name for name in super().__dir__() if not name.isdigit()]

    def append(self, value):
        index = len(self)
        self._size += 1
        self[index] = value
        return self

    def extend(self, values):
        if not isinstance(values, Iterable) or isinstance(values, Tensor):
            raise TypeError(f"ParameterList.extend takes an iterable, not a {type(values).__name__}")
        for value in values:
            self.append(value)
        return self

    def extra_repr(self):
        return "\n".join(f"  ({i}): {_entry(value)}" for i, value in enumerate(self))

    def __call__(self, *args, **kwargs):
        raise RuntimeError("a ParameterList holds parameters and has no forward")


def _entry(value, old_name=False):
    if not isinstance(value, Tensor):
        return f"Object of type: {type(value).__name__}"
    sizes = "x".join(str(n) for n in value.size())
    kind = "Parameter" if isinstance(value, Parameter) else "Tensor"
    return f"{kind} containing: [{value.type() if old_name else value.dtype} of size {sizes}]"


class ParameterDict(Module):
    """Parameters by name. A plain tensor becomes a Parameter; other objects are kept as they are."""

    def __init__(self, parameters=None):
        super().__init__()
        self._keys = {}
        if parameters is not None:
            self.update(parameters)

    def _attribute(self, key):
        if not isinstance(key, str):
            raise TypeError(f"the keys of a ParameterDict are str, not {type(key).__name__}: {key!r}")
        return key

    def __getitem__(self, key):
        return getattr(self, self._attribute(key))

    def __setitem__(self, key, value):
        name = self._attribute(key)
        self._keys[key] = None
        if isinstance(value, Tensor) and not isinstance(value, Parameter):
            value = Parameter(value)
        setattr(self, name, value)

    def __delitem__(self, key):
        del self._keys[key]
        delattr(self, self._attribute(key))

    def __len__(self):
        return len(self._keys)

    def __iter__(self):
        return iter(self._keys)

    def __reversed__(self):
        return reversed(list(self._keys))

    def __contains__(self, key):
        return key in self._keys

    def __or__(self, other):
        copy = self.copy()
        copy.update(other)
        return copy

    def __ror__(self, other):
        copy = other.copy()
        copy.update(self)
        return copy

    def __ior__(self, other):
        self.update(other)
        return self

    def copy(self):
        return ParameterDict(OrderedDict((key, self[key]) for key in self._keys))

    def setdefault(self, key, default=None):
        if key not in self:
            self[key] = default
        return self[key]

    def clear(self):
        for key in list(self._keys):
            del self[key]

    def pop(self, key):
        value = self[key]
        del self[key]
        return value

    def popitem(self):
        key, _ = self._keys.popitem()
        self._keys[key] = None
        return key, self.pop(key)

    def get(self, key, default=None):
        return self[key] if key in self else default

    def fromkeys(self, keys, default=None):
        return ParameterDict((key, default) for key in keys)

    def keys(self):
        return self._keys.keys()

    def items(self):
        return ((key, self[key]) for key in self._keys)

    def values(self):
        return (self[key] for key in self._keys)

    def update(self, parameters):
        for key, value in _pairs("ParameterDict", parameters):
            self[key] = value

    def extra_repr(self):
        return "\n".join(f"  ({key}): {_entry(value, True)}" for key, value in self.items())

    def __call__(self, input):
        raise RuntimeError("a ParameterDict holds parameters and has no forward")
