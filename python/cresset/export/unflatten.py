"""Unflattened programs: the hierarchy of modules that was exported, rebuilt around the flat graph.

    module = cresset.export.unflatten(ep)
    module.encoder = MyEncoder()                    # a submodule swapped for another one
    y = module(x)

Every node of the graph knows the modules in whose calls it was recorded. A run of nodes inside one call becomes the
body of an `InterpreterModule` at that module's path; what it uses from outside are its inputs, what is used outside are
its outputs. Where the program was exported with `preserve_module_call_signature`, the body is called as the module was,
with its nested arguments and results, and may be swapped for any module that is called that way; otherwise with flat
tensors. A module that is called several times has a body for each call, under one name: state is there once, and a swap
counts for all of them.
"""
from __future__ import annotations

import abc
import inspect
import itertools
import operator
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import cresset
from cresset import _C, nn
from cresset.export import graph_signature as signatures
from cresset.export._call_structure import CallStructure
from cresset.export.exported_program import ExportedProgram, ModuleCallEntry, ModuleCallSignature
from cresset.fx.node import Node, OpaqueTarget, target_text
from cresset.utils._pytree import TreeSpec, tree_flatten

__all__ = ["FlatArgsAdapter", "InterpreterModule", "UnflattenedModule", "unflatten"]

_NO_STACK = "_empty_nn_module_stack_from_metadata_hook"


class FlatArgsAdapter(abc.ABC):
    """Fits the leaves of a call with another structure to the structure that was exported."""

    @abc.abstractmethod
    def adapt(self, target_spec: TreeSpec, input_spec: TreeSpec, input_args: list[Any],
              metadata: dict[str, Any] | None = None, obj: Any | None = None) -> list[Any]:
        """The leaves in the order of `target_spec`; `input_args` are those of the call, in the order of
        `input_spec`."""


def unflatten(module: ExportedProgram, flat_args_adapter: FlatArgsAdapter | None = None) -> UnflattenedModule:
    """The program as a module with the original submodules, parameters and buffers, all of them copies of the program's
    own."""
    if not isinstance(module, ExportedProgram):
        raise TypeError(f"unflatten() takes an ExportedProgram, not {type(module).__name__}")
    return UnflattenedModule(module, flat_args_adapter)


# ---- bodies ----

class _Body:
    """What one call of a module does. `steps` are nodes of the flat graph and calls of other bodies; `inputs` and
    `outputs` are nodes, and with a signature the constants among them; `more_in` and `more_out` are nodes that the
    signature does not mention, handed over beside it."""

    def __init__(self, key: str, path: str, parent: _Body | None):
        self.key, self.path, self.parent = key, path, parent
        self.depth: int = parent.depth + 1 if parent else 0
        self.index = 0
        self.steps: list[Node | _Call] = []
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []
        self.more_in: list[Node] = []
        self.more_out: list[Node] = []
        self.state: dict[Node, str] = {}
        self.signature: ModuleCallSignature | None = None
        self.structure: CallStructure | None = None

    def __deepcopy__(self, memo: dict[int, Any]) -> _Body:
        return self  # nothing changes it any more

    def takes(self, node: Node) -> None:
        if node not in self.inputs and node not in self.more_in:
            (self.more_in if self.signature else self.inputs).append(node)

    def gives(self, node: Node) -> None:
        if node not in self.outputs and node not in self.more_out:
            (self.more_out if self.signature else self.outputs).append(node)


class _Call:
    """A step that calls a submodule."""

    def __init__(self, body: _Body):
        self.body = body


class _Builder:
    """Finds the bodies of a program."""

    def __init__(self, ep: ExportedProgram):
        self.nodes, self.subgraphs = ep.graph.nodes, ep.graph_module
        self.structure, self.in_spec = ep._call_structure(), ep.in_spec
        self.graph_signature, self.module_call_graph, self.range_constraints = (ep.graph_signature,
                ep.module_call_graph, ep.range_constraints)
        self.specs = dict(zip((node for node in self.nodes if node.op == "placeholder"),
                              ep.graph_signature.input_specs))
        self.fqns = {node: spec.target for node, spec in self.specs.items() if spec.target is not None}
        self.signatures = {entry.fqn: entry.signature for entry in ep.module_call_graph if entry.signature
                           and entry.fqn}
        self.root = _Body("", "", None)
        self.bodies: dict[str, list[_Body]] = {"": [self.root]}
        self.home: dict[Node, _Body] = {}
        self.types: dict[str, str] = {}  # the class of the module at each path
        self.same: dict[Node, Node] = {}
        self.by_name = {node.name: node for node in self.nodes}
        self._nest()
        self._connect()
        self.users = [node for node, spec in self.specs.items() if spec.kind is signatures.InputKind.USER_INPUT]

    def __deepcopy__(self, memo: dict[int, Any]) -> _Builder:
        return self

    def resolve(self, node: Node) -> Node:
        """The node that makes the tensor: a call in place gives its argument back."""
        while node in self.same:
            node = self.same[node]
        return node

    def _nest(self) -> None:
        stack = [self.root]
        for node in self.nodes:
            if node.op in ("placeholder", "output"):
                self.home[node] = self.root
                continue
            for path, kind in node.meta.get("nn_module_stack", {}).values():
                self.types.setdefault(path, kind)
            entries = [(key, path) for key, (path, _) in node.meta.get("nn_module_stack", {}).items()
                       if key != _NO_STACK and path]
            if (node.op == "call_function" and node.meta.get("nn_module_stack")
                and _NO_STACK not in node.meta["nn_module_stack"]):
                common = 1
                while common < len(stack) and common <= len(entries) and stack[common].key == entries[common - 1][0]:
                    common += 1
                del stack[common:]
                for key, path in entries[common - 1:]:
                    stack.append(self._open(key, path, stack[-1]))
            home = stack[-1]
            if node.op == "call_function" and node.target is operator.getitem and isinstance(node.args[0],
                    Node) and node.args[0] in self.home:
                home = self.home[node.args[0]]  # parts stay with their whole
            self.home[node] = home
            home.steps.append(node)
            if _is_in_place(node):
                self.same[node] = node.args[0]

    def _open(self, key: str, path: str, parent: _Body) -> _Body:
        body = _Body(key, path, parent)
        calls = self.bodies.setdefault(path, [])
        body.index = len(calls)
        calls.append(body)
        parent.steps.append(_Call(body))
        number = re.search(r"@(\d+)$", key)
        body.signature = self.signatures.get(path + (number[0] if number else ""))
        if body.signature:
            body.structure = CallStructure(body.signature.in_spec, body.signature.out_spec,
                                           body.signature.forward_arg_names)
            body.inputs = [self._named(argument) for argument in body.signature.inputs]
            body.outputs = [self._named(argument) for argument in body.signature.outputs]
        return body

    def _named(self, argument: signatures.ArgumentSpec) -> Any:
        return argument.value if isinstance(argument, signatures.ConstantArgument) else self.by_name[argument.name]

    def _connect(self) -> None:
        for body in [body for calls in self.bodies.values() for body in calls if body.signature]:
            body.inputs = [self.resolve(value) if isinstance(value, Node) else value for value in body.inputs]
            body.outputs = [self.resolve(value) if isinstance(value, Node) else value for value in body.outputs]
        for node in self.nodes:
            for used in node.all_input_nodes:
                self._use(self.home[node], self.resolve(used))
        for calls in self.bodies.values():
            for body in calls:
                if body.signature and body.parent:
                    for value in body.inputs:
                        if isinstance(value, Node):
                            self._use(body.parent, value)
                    for value in body.outputs:
                        if isinstance(value, Node):
                            self._use(body, value)

    def _use(self, user: _Body, node: Node) -> None:
        if node in self.fqns:
            while user.parent and not self.fqns[node].startswith(user.path + "."):
                user.takes(node)
                user = user.parent
            user.state[node] = self.fqns[node][len(user.path) + 1 if user.path else 0:]
            return
        maker = self.home[node]
        while user is not maker:
            if user.depth >= maker.depth:
                user.takes(node)
                user = user.parent
            else:
                maker.gives(node)
                maker = maker.parent


def _is_made_again(node: Any, following: Any) -> bool:
    """Is it the check that an export puts before every conversion?"""
    return (isinstance(node, Node) and isinstance(following, Node)
            and str(node.target) == "aten._assert_tensor_metadata.default"
            and str(following.target).startswith("aten.to.") and node.args[0] is following.args[0])


def _is_in_place(node: Node) -> bool:
    """Is its result the tensor that it wrote?"""
    name = str(getattr(node.target, "__name__", node.target)).split(".")[0].split("::")[-1]
    return (node.op == "call_function" and name.endswith("_") and not name.endswith("__") and bool(node.args)
            and isinstance(node.args[0], Node)
            and not isinstance(node.meta.get("val"), tuple))


# ---- modules ----

class InterpreterModule(nn.Module):
    """A submodule of an unflattened program, which runs its part of the graph. `code` is what it does, as Python."""

    _bodies: list[_Body]
    _builder: list[_Builder]
    _root: list[UnflattenedModule]
    _path: str
    _more: tuple[Any, ...]
    _next: int

    def __init__(self, path: str = ""):
        super().__init__()
        # past __setattr__, which looks for parameters; builder and root are in lists, so that they are no submodules
        self.__dict__.update(_bodies=[], _builder=[], _root=[], _path=path, _more=(), _next=0)

    def type_name(self) -> str:
        """Its class in the exported module, where the graph says it."""
        return self._parts().types.get(self._path) or f"{type(self).__module__}.{type(self).__qualname__}"

    def _parts(self) -> _Builder:
        """What the program consists of; found when it is needed first."""
        if not self._builder:
            self._root[0]._find_parts()
        return self._builder[0]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        index, self._next, more, self._more = self._next, 0, self._more, ()
        builder = self._parts()
        if not self._bodies:
            raise NotImplementedError(f"module '{self._path}' was not called while the program was exported: it has "
                                      f"nothing to run")
        body = self._bodies[index]
        env: dict[Node, Any] = dict(zip(body.more_in, more))
        if body.structure:
            leaves, expected = _adapted(body.structure, body.signature.in_spec, args, kwargs, _adapter_of(self),
                                        self), body.inputs
        else:
            leaves, expected = list(args), body.inputs
            if kwargs or len(leaves) != len(expected):
                raise TypeError(f"module '{self._path}' takes the {len(expected)} tensors "
                                f"{', '.join(node.name for node in expected)}; {len(leaves)} were "
                                f"given{' and keywords' if kwargs else ''}. Export with "
                                f"preserve_module_call_signature=('{self._path}',) to keep how it was called")
        for node, leaf in zip(expected, leaves):
            if isinstance(node, Node):
                env[node] = leaf
        run = _Run(self, body, builder, env)
        run.steps()
        self._more = tuple(run.value(node) for node in body.more_out)
        results = [run.value(value) if isinstance(value, Node) else value for value in body.outputs]
        if body.structure:
            return body.structure.result(results)
        return results[0] if len(results) == 1 else None if not results else tuple(results)

    @property
    def code(self) -> str:
        builder = self._parts()
        return "\n\n".join(_code(builder, body) for body in self._bodies)

    @property
    def graph(self) -> str:
        """The body as text, one line a node."""
        return self.code

    def print_readable(self, print_output: bool = True, include_stride: bool = False, include_device: bool = False,
                       colored: bool = False) -> str:
        """The classes of this module and of its submodules, as Python."""
        for name, given in (("include_stride", include_stride), ("include_device", include_device),
                            ("colored", colored)):
            if given:
                raise NotImplementedError(f"print_readable({name}=True): the text has neither strides, devices nor "
                                          f"colours; print(ep.graph) shows strides and devices")
        text = _readable(self, type(self).__name__)
        if print_output:
            print(text)
        return text


def _paths(ep: ExportedProgram, called: Iterable[str] = ()) -> list[str]:
    """Of the modules that the program knows of, called or not."""
    calls = [fqn for fqn, *_ in ep._data["calls"] if fqn and "@" not in fqn]
    return [*calls, *called, *(target.rpartition(".")[0] for _, _, target, *_ in ep._data["inputs"] if target)]


def _copied(_name: str, tensor: Any, parameter: bool) -> Any:
    copy = tensor.detach().clone()
    return nn.Parameter(copy, requires_grad=tensor.requires_grad) if parameter else copy


class UnflattenedModule(InterpreterModule):
    """The root. Called with the arguments that were exported, it checks them as the exported program does."""

    def __init__(self, ep: ExportedProgram, flat_args_adapter: FlatArgsAdapter | None = None):
        self._prepare(flat_args_adapter)
        builder = _Builder(ep)
        self._add_modules(_paths(ep, builder.bodies))
        self._add_state(ep, _copied)
        self._take(builder)

    def _prepare(self, flat_args_adapter: FlatArgsAdapter | None = None) -> None:
        InterpreterModule.__init__(self)
        self._own: dict[str, InterpreterModule]
        self.__dict__.update(_root=[self], _own={"": self}, flat_args_adapter=flat_args_adapter,
                             check_input_constraints=True)

    def _take(self, builder: _Builder) -> None:
        for path, calls in builder.bodies.items():
            if path not in self._own:
                self._module_at(path)
            self._own[path]._bodies = calls
        for module in self._own.values():
            module._builder = [builder]

    @property
    def _forward_signature(self) -> inspect.Signature | None:
        """The arguments as the exported module had them."""
        root = self.module_call_graph[0].signature
        names = root.forward_arg_names if root else None
        if not names:
            return None
        positional = len(self._parts().in_spec.children()[0].children())
        kinds = [inspect.Parameter.POSITIONAL_OR_KEYWORD if i < positional else inspect.Parameter.KEYWORD_ONLY
                 for i in range(len(names))]
        return inspect.Signature([inspect.Parameter(name, kind) for name, kind in zip(names, kinds)])

    @property
    def graph_signature(self) -> signatures.ExportGraphSignature:
        return self._parts().graph_signature

    @property
    def module_call_graph(self) -> list[ModuleCallEntry]:
        return self._parts().module_call_graph

    @property
    def range_constraints(self) -> dict[Any, Any]:
        return self._parts().range_constraints

    def _add_modules(self, paths: list[str]) -> None:
        for path in paths:
            self._module_at(path)

    def _module_at(self, path: str) -> nn.Module:
        if path not in self._own:
            parent, _, name = path.rpartition(".")
            made = self._own[path] = InterpreterModule(path)
            made.__dict__["_root"] = self._root
            self._module_at(parent)._modules[name] = made
        return self._own[path]

    def _add_state(self, ep: ExportedProgram, made: Callable[[str, Any, bool], Any]) -> None:
        """Tied names share one tensor, as the program's own do. made(name, tensor, is_parameter): what stands for it
        here."""
        known: dict[tuple[int, bool], Any] = {}
        kinds = {target: (kind, persistent) for kind, _, target, persistent, _, _ in ep._data["inputs"] if target}
        for name, tensor in [*ep.state_dict.items(), *ep.constants.items()]:
            kind, persistent = kinds.get(name, (None, True))
            parameter = kind == "PARAMETER"
            key = (id(tensor), parameter)
            if key not in known:
                known[key] = made(name, tensor, parameter)
            owner, _, attribute = name.rpartition(".")
            module = self._module_at(owner)
            if parameter:
                module._parameters[attribute] = known[key]
            elif kind == "BUFFER" or name in ep.state_dict:
                module._buffers[attribute] = known[key]
                if not persistent:
                    module._non_persistent_buffers_set.add(attribute)
            else:
                module.__dict__[attribute] = known[key]

    def process_forward_inputs(self, *args: Any, **kwargs: Any) -> list[Any]:
        """The flat inputs of a call, checked."""
        builder = self._parts()
        leaves = _adapted(builder.structure, builder.in_spec, args, kwargs, self.flat_args_adapter, self)
        if self.check_input_constraints:
            _check_inputs(builder.users, leaves, self.graph_signature, self.range_constraints)
        return leaves

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        leaves = self.process_forward_inputs(*args, **kwargs)
        builder, body = self._parts(), self._bodies[0]
        run = _Run(self, body, builder, dict(zip(builder.users, leaves)))
        run.steps()
        output = builder.nodes[-1].args[0]
        results = []
        for value, spec in zip(output, self.graph_signature.output_specs):
            if spec.kind is signatures.OutputKind.TOKEN:
                continue  # the order of effects is that of the steps
            found = run.value(builder.resolve(value)) if isinstance(value, Node) else value
            if spec.kind in (signatures.OutputKind.USER_OUTPUT, signatures.OutputKind.LOSS_OUTPUT):
                results.append(found)
            else:
                self._write_back(spec, found, leaves)
        return builder.structure.result(results)

    def _write_back(self, spec: signatures.OutputSpec, value: Any, leaves: list[Any]) -> None:
        """New values of buffers, parameters and inputs, where the graph gives them as outputs."""
        kind = spec.kind
        if kind in (signatures.OutputKind.BUFFER_MUTATION, signatures.OutputKind.PARAMETER_MUTATION):
            old = _attribute(self, spec.target)
        elif kind is signatures.OutputKind.USER_INPUT_MUTATION:
            old = next(leaf for node, leaf in zip(self._builder[0].users, leaves) if node.name == spec.target)
        else:
            return
        with cresset.no_grad():
            old.copy_(value)


# ---- running ----

class _Run:
    """One call of a body: what its nodes have given so far."""

    def __init__(self, module: InterpreterModule, body: _Body, builder: _Builder, env: dict[Node, Any]):
        self.module, self.body, self.builder, self.env = module, body, builder, env
        if body.state:
            for node, name in body.state.items():
                env[node] = _attribute(module, name)

    def value(self, node: Node) -> Any:
        node = self.builder.resolve(node)
        if node not in self.env:
            raise RuntimeError(f"module '{self.module._path}' did not get '{node.name}': a module that was swapped "
                               f"does not hand on what others inside the graph "
                               "use of it; keep the signature of its call (preserve_module_call_signature) and return "
                               "the same values")
        return self.env[node]

    def argument(self, value: Any) -> Any:
        if isinstance(value, Node):
            return self.value(value)
        if isinstance(value, (list, tuple)):
            return type(value)(self.argument(item) for item in value)
        return value

    def steps(self) -> None:
        exporting = _C._exporting() is not None
        for step, following in itertools.zip_longest(self.body.steps, self.body.steps[1:]):
            if exporting and _is_made_again(step, following):
                continue
            if isinstance(step, _Call):
                self.call(step.body)
            elif step.op == "get_attr":
                self.env[step] = getattr(self.builder.subgraphs, step.target)._raw
            else:
                self.node(step)

    def node(self, step: Node) -> None:
        if isinstance(step.target, OpaqueTarget):
            raise NotImplementedError(f"there is no op '{step.target.name}' here, which node '{step.name}' calls")
        args, kwargs = [self.argument(value) for value in step.args], {key: self.argument(value)
                for key, value in step.kwargs.items()}
        tracer = _C._exporting()
        if tracer is None:
            self.env[step] = step.target(*args, **kwargs)
            return
        tracer.replay(step.meta.get("stack_trace"), *step.meta.get("torch_fn", (None, None)))
        try:
            self.env[step] = step.target(*args, **kwargs)
        finally:
            tracer.replay(None, None, None)

    def call(self, body: _Body) -> None:
        """Calls whatever module is at the path now."""
        relative = body.path[len(self.body.path) + 1:] if self.body.path and body.path.startswith(self.body.path
                + ".") else body.path
        start = self.module if relative != body.path or not self.body.path else self.module._root[0]
        module = start.get_submodule(relative)
        inputs = [self.value(value) if isinstance(value, Node) else value for value in body.inputs]
        ours = (isinstance(module, InterpreterModule) and module._bodies and module._builder
                and module._builder[0] is self.builder and body in module._bodies)
        if ours:
            module._next, module._more = body.index, tuple(self.value(node) for node in body.more_in)
        if body.structure:
            args, kwargs = body.signature.in_spec.unflatten(inputs)
            results = body.signature.out_spec.flatten(module(*args, **kwargs), f"the result of '{body.path}'")
        else:
            result = module(*inputs)
            results = [result] if len(body.outputs) == 1 else list(result or ())
            if len(results) != len(body.outputs):
                raise RuntimeError(f"module '{body.path}' gave {len(results)} values where the graph uses "
                                   f"{len(body.outputs)}: {', '.join(node.name for node in body.outputs)}")
        for node, result in zip(body.outputs, results):
            if isinstance(node, Node):
                self.env[node] = result
        if ours:
            self.env.update(zip(body.more_out, module._more))
            module._more = ()


def _attribute(module: nn.Module, name: str) -> Any:
    for part in name.split("."):
        module = getattr(module, part)
    return module


def _adapter_of(module: InterpreterModule) -> FlatArgsAdapter | None:
    return getattr(module._root[0], "flat_args_adapter", None) if module._root else None


def _adapted(structure: CallStructure, spec: TreeSpec, args: tuple[Any, ...], kwargs: dict[str, Any],
             adapter: FlatArgsAdapter | None, module: nn.Module) -> list[Any]:
    try:
        return structure.bind(args, kwargs)
    except (TypeError, ValueError):
        if adapter is None:
            raise
    leaves, given = tree_flatten((args, kwargs))
    adapted = adapter.adapt(target_spec=spec, input_spec=given, input_args=leaves, metadata=None, obj=module)
    if len(adapted) != spec.num_leaves:
        raise TypeError(f"the adapter gave {len(adapted)} leaves, the exported program takes {spec.num_leaves}")
    return list(adapted)


def _check_inputs(nodes: list[Node], leaves: list[Any], signature: signatures.ExportGraphSignature,
                  ranges: dict[Any, Any]) -> None:
    """Kinds, ranks, sizes and specialised values, by the names of the arguments."""
    constants = {spec.arg.name: spec.arg.value for spec in signature.input_specs if isinstance(spec.arg,
            signatures.ConstantArgument)}
    symbols: dict[str, int] = {}
    for node, leaf in zip(nodes, leaves):
        if node.name in constants:
            if leaf != constants[node.name] or type(leaf) is not type(constants[node.name]):
                raise ValueError(f"input '{node.name}' was specialised to {constants[node.name]!r} when the program "
                                 f"was exported; {leaf!r} was given")
            continue
        wanted = node.meta.get("val")
        if not _C._is_tensor(wanted):
            continue
        if not _C._is_tensor(leaf):
            raise TypeError(f"input '{node.name}' is a tensor, not {type(leaf).__name__}")
        if leaf.dtype != wanted.dtype or leaf.dim() != wanted.dim():
            raise RuntimeError(f"input '{node.name}': a {wanted.dtype} tensor of {wanted.dim()} dimensions expected, "
                               f"{leaf.dtype} of {leaf.dim()} given")
        for axis, (size, given) in enumerate(zip(wanted.shape, leaf.shape)):
            text = str(size)
            if not re.fullmatch(r"[A-Za-z_]\w*", text):
                if isinstance(size, int) and size != given:
                    raise RuntimeError(f"input '{node.name}': size {size} expected in dimension {axis}, {given} given")
                continue
            if symbols.setdefault(text, given) != given:
                raise RuntimeError(f"input '{node.name}': size {symbols[text]} expected in dimension {axis} as "
                                   f"elsewhere ({text}), {given} given")
            bounds = next((interval for symbol, interval in ranges.items() if str(symbol) == text), None)
            if bounds is not None and given not in bounds:
                raise RuntimeError(f"input '{node.name}': dimension {axis} is {given}, outside {bounds!r} ({text})")


# ---- code ----

def _shown(value: Any) -> str:
    if isinstance(value, Node):
        return value.name
    if isinstance(value, (list, tuple)):
        inner = ", ".join(map(_shown, value))
        return f"[{inner}]" if isinstance(value, list) else f"({inner},)" if len(value) == 1 else f"({inner})"
    return repr(value)


def _attribute_text(owner: str, path: str) -> str:
    for part in path.split("."):
        owner = f"{owner}.{part}" if part.isidentifier() else f'getattr({owner}, "{part}")'
    return owner


def _lines(builder: _Builder, body: _Body) -> Iterator[str]:
    name = lambda value: builder.resolve(value).name if isinstance(value, Node) else repr(value)
    for node, attribute in body.state.items():
        yield f"{node.name} = {_attribute_text('self', attribute)}"
    for step in body.steps:
        if isinstance(step, _Call):
            called = step.body
            relative = called.path[len(body.path) + 1 if body.path else 0:]
            if called.structure:
                args, kwargs = called.signature.in_spec.unflatten(list(called.inputs))
                given = ", ".join([*map(_shown, args), *(f"{key}={_shown(value)}" for key, value in kwargs.items())])
            else:
                given = ", ".join(map(name, called.inputs))
            targets = ", ".join(node.name if isinstance(node, Node) else "_" for node in called.outputs)
            yield f"{targets + ' = ' if targets else ''}{_attribute_text('self', relative)}({given})"
        elif step.op == "get_attr":
            yield f"{step.name} = self.{step.target}"
        else:
            given = [_text(builder, value) for value in step.args] + [f"{key}={_text(builder, value)}"
                                                                      for key, value in step.kwargs.items()]
            if step.target is operator.getitem:
                yield f"{step.name} = {given[0]}[{given[1]}]"
            else:
                yield f"{step.name} = {target_text(step.target)}({', '.join(given)})"


def _text(builder: _Builder, value: Any) -> str:
    if isinstance(value, Node):
        return builder.resolve(value).name
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_text(builder, item) for item in value) + "]"
    return repr(value)


def _code(builder: _Builder, body: _Body) -> str:
    if body.parent is None:
        inputs = [node.name for node in builder.users]
        outputs = [_text(builder, value) for value in builder.nodes[-1].args[0]]
    else:
        inputs = [node.name if isinstance(node, Node) else "_" for node in body.inputs]
        outputs = [_text(builder, value) for value in body.outputs]
    returned = outputs[0] if len(outputs) == 1 and body.parent is not None else "(" + ", ".join(outputs) + (","
            if len(outputs) == 1 else "") + ")"
    lines = [*_lines(builder, body), f"return {returned}" if outputs else "return None"]
    return f"def forward({', '.join(['self', *inputs])}):\n" + "\n".join("    " + line for line in lines)


def _readable(module: nn.Module, name: str) -> str:
    parts = []
    if isinstance(module, InterpreterModule) and module._bodies:
        parts.append(module.code)
    for child, sub in module._modules.items():
        if isinstance(sub, InterpreterModule):
            parts.append(_readable(sub, child if child.isidentifier() else "_" + child))
    inner = "\n\n".join(parts) or "pass"
    return f"class {name}(cresset.nn.Module):\n" + "\n".join("    " + line if line else ""
                                                             for line in inner.splitlines())
