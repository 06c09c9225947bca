"""ExportedModule: a program as an nn.Module, which ExportedProgram.module() gives.

Parameters, buffers and constants are the program's own tensors, in submodules at the paths they had; each call runs the
program on the tensors that are there now, so that load_state_dict(), to(), hooks and assignments count as they do for
any module. The program is run as a whole; node by node, with the lines and modules that its nodes tell, where another
export records it or its dtypes were converted.
"""
from __future__ import annotations

import copy
import threading
from typing import Any

import cresset
from cresset import _C, nn
from cresset.export.exported_program import ExportedProgram
from cresset.export.graph_view import Graph
from cresset.export.unflatten import UnflattenedModule, _Builder, _paths

_SHARED = ("_exported", "_instance", "_structure")  # what copies of a module have in common: nothing changes it
_filling = threading.RLock()
_TABLES = ("_parameters", "_buffers", "_modules")
_STATE = ("PARAMETER", "BUFFER", "CONSTANT_TENSOR")


class _Places:
    """Where a module keeps the tensors of these names: tables, and the submodules on the way to them."""

    def __init__(self, root: nn.Module, targets: list[str]):
        self.tables: list[tuple[dict[str, Any], str]] = []
        self.way: list[tuple[dict[str, Any], str, Any]] = []
        known = {"": root}
        for target in targets:
            path, _, name = target.rpartition(".")
            at = ""
            for part in path.split(".") if path else ():
                parent, at = known[at], f"{at}.{part}" if at else part
                if at not in known:
                    known[at] = parent.get_submodule(part)
                    self.way.append((parent._modules, part, known[at]))
            owner = known[path]
            table = next((table for table in (owner._parameters, owner._buffers, owner.__dict__) if name in table),
                         None)
            if table is None:
                raise AttributeError(f"the program uses '{target}', which the module does not have any more")
            self.tables.append((table, name))

    def tensors(self) -> list[Any] | None:
        """None: somebody has put something else in their places."""
        for table, name, module in self.way:
            if table.get(name) is not module:
                return None
        try:
            return [table[name] for table, name in self.tables]
        except KeyError:
            return None


class ExportedModule(UnflattenedModule):
    """One running instance of a program. It is in the mode that it was exported in: train() and eval() raise."""

    def __init__(self, program: ExportedProgram, own_state: bool = False):
        self._prepare()
        self.__dict__.update(_exported=program, _instance=_C._ProgramModule(program._program, own_state),
                             _structure=program._call_structure(), _places=None,
                             _filled=False)
        if program._state is None and program._constants is None:
            # nobody has seen a tensor of the program yet: submodules and parameters are made when somebody asks
            for table in _TABLES:
                del self.__dict__[table]
        else:
            self._fill()

    def __getattr__(self, name: str) -> Any:
        if "_instance" in self.__dict__ and "_modules" not in self.__dict__:
            with _filling:
                if "_modules" not in self.__dict__:
                    self.__dict__.update({table: {} for table in _TABLES})
                    self._fill()
            if name in self.__dict__:
                return self.__dict__[name]
        return super().__getattr__(name)

    def __setattr__(self, name: str, value: Any) -> None:
        self._modules  # noqa: B018 - nn.Module looks for the tables in __dict__
        super().__setattr__(name, value)

    def _fill(self) -> None:
        self._add_modules(_paths(self._exported))
        self._add_state(self._exported, self._own_tensor)
        self.__dict__["_filled"] = True

    def _own_tensor(self, name: str, tensor: Any, parameter: bool) -> Any:
        """What the instance runs with, where that is not the program's: its copy of what calls write. What was put into
        state_dict counts, too."""
        known, own = self._exported._program_tensor(name), self._instance.tensor(name)
        if known is not None and own is not None and own is not known and known.data_ptr() == tensor.data_ptr():
            tensor = own
        wraps = parameter and not isinstance(tensor, nn.Parameter)
        return nn.Parameter(tensor, requires_grad=tensor.requires_grad) if wraps else tensor

    def _find_parts(self) -> None:
        self._take(_Builder(self._exported))

    def _tensors(self) -> list[Any]:
        """The parameters, buffers and constants that the program takes, in its order."""
        found = self._places.tensors() if self._places is not None else None
        if found is None:
            self.__dict__["_places"] = _Places(self, [target for kind, _, target, *_ in self._exported._data["inputs"]
                                                      if kind in _STATE])
            found = self._places.tensors()
        return found

    # ---- calls ----

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        if not self._filled and _C._exporting() is None:
            return self._structure.result(self._instance.run(self._structure.bind(args, kwargs)))
        tensors = self._tensors()
        if _C._exporting() is not None or not self._instance.fits(tensors):
            return super().forward(*args, **kwargs)
        return self._structure.result(self._instance.run(self._structure.bind(args, kwargs), tensors))

    def process_forward_inputs(self, *args: Any, **kwargs: Any) -> list[Any]:
        """The flat inputs of a call, checked; by the ops alone, where the module was converted to other dtypes."""
        if self._instance.fits(self._tensors()):
            return super().process_forward_inputs(*args, **kwargs)
        return self._structure.bind(args, kwargs)

    def train(self, mode: bool = True) -> ExportedModule:
        raise NotImplementedError("train() of an exported program: its mode was settled when it was exported; export "
                                  "the module in training mode, or say what train() is to do: module.train = lambda "
                                  "mode=True: module")

    def eval(self) -> ExportedModule:
        raise NotImplementedError("eval() of an exported program: its mode was settled when it was exported; export "
                                  "the module in evaluation mode, or say what eval() is to do: module.eval = lambda: "
                                  "module")

    @property
    def graph(self) -> Graph:
        return self._exported.graph

    # ---- copies ----

    def __deepcopy__(self, memo: dict[int, Any]) -> ExportedModule:
        self._modules  # noqa: B018 - a copy has tensors of its own
        made = memo[id(self)] = type(self).__new__(type(self))
        for name, value in self.__dict__.items():
            made.__dict__[name] = value if name in _SHARED else None if name == "_places" else copy.deepcopy(value,
                    memo)
        return made

    def __reduce_ex__(self, protocol: Any) -> Any:
        """The program as an archive, and what was changed since."""
        fresh = ExportedModule(self._exported)
        tensors = {name: tensor for name, tensor in [*self.named_parameters(remove_duplicate=False),
                                                     *self.named_buffers(remove_duplicate=False)]}
        same = {name: tensor for name, tensor in [*fresh.named_parameters(remove_duplicate=False),
                                                  *fresh.named_buffers(remove_duplicate=False)]}
        if tensors.keys() != same.keys() or [*self._own] != [*fresh._own] or any(self.get_submodule(path) is not module
                for path, module in self._own.items()):
            raise TypeError("a module of an exported program that parameters, buffers or submodules were added to or "
                            "taken from cannot be pickled: save the program, and build the module around it again")
        rest = {name: value for name, value in self.__dict__.items() if name not in fresh.__dict__
                or name.endswith("_hooks") or "_hooks_" in name}
        return _rebuild, (self._exported,
                          {name: tensor for name, tensor in tensors.items() if tensor is not same[name]}, rest)


def _rebuild(program: ExportedProgram, tensors: dict[str, cresset.Tensor], rest: dict[str, Any]) -> ExportedModule:
    made = ExportedModule(program)
    for name, tensor in tensors.items():
        path, _, attribute = name.rpartition(".")
        owner = made.get_submodule(path)
        (owner._parameters if attribute in owner._parameters else owner._buffers)[attribute] = tensor
    made.__dict__.update(rest)
    return made
