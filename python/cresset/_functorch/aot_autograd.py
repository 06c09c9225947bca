"""Ahead-of-time autograd: a function is recorded once, made functional, differentiated, cut into a forward and a
backward graph, and both are given to compilers. What is called afterwards behaves as the function itself does,
gradients, writes to inputs, and results that share memory included.

    f = aot_function(fn, fw_compiler="native")       # or "nop", "print", or compiler(graph_module, inputs)
    f(x).sum().backward()

The work is done in C (src/autograd/aot.h); here are pytrees, modules and the names that PyTorch has for it.
"""
from __future__ import annotations

import functools
import itertools
import logging
import os
import shutil
import tempfile
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import cresset
from cresset import _C
from cresset._decomp import _record, get_decompositions
from cresset.fx.graph_module import GraphModule
from cresset.utils._pytree import tree_flatten, tree_unflatten

from . import config
from ._export import BackwardSignature, GraphSignature, aot_export_joint_simple, aot_export_module
from ._recording import decomposition_table, functional, module_state, with_backwards
from .partitioners import _how, default_partition, min_cut_rematerialization_partition

__all__ = ["BackwardSignature", "CacheInfo", "GraphSignature", "aot_export_joint_simple", "aot_export_module",
           "aot_function", "aot_module", "aot_module_simplified", "cache_info", "compiled_function", "compiled_module",
           "default_partition",
           "get_aot_compilation_context", "get_aot_graph_name", "get_decompositions", "get_graph_being_compiled",
           "make_boxed_compiler", "make_boxed_func", "min_cut_rematerialization_partition", "native", "nop",
           "print_compile", "set_model_name"]

_log = logging.getLogger(__name__)
_numbers = itertools.count()
_now = threading.local()  # what is being compiled on this thread
_model = ["model"]


# ---- compilers ----

def make_boxed_func(f: Callable[..., Any]) -> Callable[[list[Any]], Any]:
    """f as compiled code is called: with a list of its inputs, which it may empty."""
    def boxed(args: list[Any]) -> Any:
        return f(*args)

    boxed._boxed_call = True  # type: ignore[attr-defined]
    return boxed


def make_boxed_compiler(compiler: Callable[..., Any]) -> Callable[..., Any]:
    """The compiler, giving code that is called with a list of its inputs."""
    @functools.wraps(compiler)
    def wrapped(graph: Any, inputs: list[Any]) -> Any:
        made = compiler(graph, inputs)
        return made if getattr(made, "_boxed_call", False) else make_boxed_func(made)

    return wrapped


def nop(graph: Any, inputs: list[Any]) -> Any:
    """A compiler that runs the graph as it is."""
    # unused inputs: the graph takes them when it is called
    return graph


def print_compile(graph: Any, inputs: list[Any]) -> Any:
    """A compiler that prints the graph and runs it as it is."""
    # unused inputs: the graph takes them when it is called
    print(graph.code)
    return graph


def native(graph: Any, inputs: list[Any]) -> Any:
    """A compiler that makes a library of the graph for this machine, and runs that."""
    # unused inputs: sizes and dtypes are the graph's
    folder = tempfile.mkdtemp(prefix="cresset_")
    try:
        path = os.path.join(folder, "code.so")
        _C._compile_graph(graph._raw, path)
        library = _C._Native(path)  # stays loaded when the file is gone
    finally:
        shutil.rmtree(folder, ignore_errors=True)

    draws = _C._graph_draws(graph._raw)  # then the default generator is the library's, too

    def run(args: list[Any]) -> Any:
        return library.run(0, args, draws)

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


class CacheInfo(NamedTuple):
    """What became of the questions that this process asked the disk cache."""
    hits: int
    misses: int
    bypassed: str | None  # why nobody asks


def cache_info() -> CacheInfo:
    """Native code is found again on disk by its whole content (the C text of the graph, options, instruction set,
    compiler, version): a second process compiles nothing. CRESSET_CACHE is the folder, "off" for none."""
    hits, misses, off = _C._cache_counts()
    return CacheInfo(hits, misses, "CRESSET_CACHE is off" if off else None)


_BY_NAME = {"native": native, "nop": nop, "print": print_compile}


def set_model_name(name: str) -> None:
    """The name that graphs are called after from here on."""
    _model[0] = name


def get_aot_compilation_context() -> tuple[list[str], str, int]:
    """(what is being compiled, the model's name, the number of the compilation)."""
    return list(getattr(_now, "graphs", [])), _model[0], getattr(_now, "number", -1)


def get_aot_graph_name() -> str:
    """The name of the graph that is being compiled: model__0_forward."""
    return "_".join([_model[0], "", str(getattr(_now, "number", -1)), *getattr(_now, "graphs", [])])


def get_graph_being_compiled() -> str:
    return get_aot_graph_name()


def _named(compiler: Any) -> Callable[..., Any]:
    found = _BY_NAME.get(compiler, compiler) if isinstance(compiler, str) else compiler
    if not callable(found):
        raise ValueError(f"a compiler is a function of (graph module, inputs) or one of {', '.join(_BY_NAME)}, "
                         f"not {compiler!r}")
    return found


class _Compilers:
    """What makes code of graphs; one number for each program that is compiled."""

    def __init__(self, forward: Any, backward: Any, inference: Any, decompositions: Any, log: bool):
        self.of = {"forward": _named(forward), "backward": _named(forward if backward is None else backward),
                   "inference": _named(forward if inference is None else inference)}
        self.table = decomposition_table(decompositions)
        self.log, self.number = log, next(_numbers)

    def __call__(self, role: str, graph: _C.Graph) -> Any:
        compiler = self.of[role]
        if self.table:
            graph = _C._decompose_graph(graph, self.table, _record)
        before = getattr(_now, "number", -1), getattr(_now, "graphs", [])
        _now.number, _now.graphs = self.number, [role]
        try:
            if self.log:
                _log.debug("%s:\n%s", get_aot_graph_name(), graph)
            if compiler is nop and not self.table:
                return None  # the interpreter, without a way through Python
            inputs = [graph._value(node["results"][0]["name"]) for node in graph.nodes if node["kind"] == "placeholder"]
            return _checked(compiler, role, graph, inputs)
        finally:
            _now.number, _now.graphs = before


def _checked(compiler: Callable[..., Any], role: str, graph: _C.Graph, inputs: list[Any]) -> Any:
    """What the compiler makes of a part; where it fails, or (config.verify_correctness) computes something else, it
    leaves a script as config.repro_after asks."""
    from cresset._dynamo import config as settings
    try:
        made = compiler(GraphModule.from_graph(graph), inputs)
        if settings.verify_correctness and callable(made):
            _compare(compiler, role, graph, made)
        return made
    except Exception as error:
        if settings.repro_after == "aot":
            from cresset._dynamo import repro
            why = f"the {role} graph: compiler {_shown(compiler)!r} raised {type(error).__name__}: {error}"
            path = repro.write(graph, repro.real_inputs(graph), compiler, why)
            error.args = (f"{error}\n  written to reproduce it: {path}",)
        raise


def _shown(compiler: Any) -> str:
    return getattr(compiler, "__name__", type(compiler).__name__)


def _compare(compiler: Any, role: str, graph: _C.Graph, made: Callable[..., Any]) -> None:
    from cresset._dynamo import repro
    from cresset._dynamo.backends.calling import differs
    from cresset._dynamo.exc import BackendCompilerFailed
    wrong = differs(graph.run, made, repro.real_inputs(graph))
    if wrong:
        raise BackendCompilerFailed(f"compiler {_shown(compiler)!r} computes something else than the {role} graph: "
                                    f"{wrong} (config.verify_correctness)", compiler)


# ---- functions ----

def _is_recorded(o: Any) -> bool:
    return isinstance(o, (_C.Tensor, _C.SymInt, _C.SymFloat, _C.SymBool))


class _Call:
    """One way of calling the function: a structure of arguments, which of them share memory or require grad."""

    def __init__(self, fn: Callable[..., Any], leaves: list[Any], spec: Any, compilers: _Compilers,
                 options: dict[str, Any]):
        tensors = [i for i, leaf in enumerate(leaves) if isinstance(leaf, _C.Tensor)]
        first: dict[int, int] = {}
        self.distinct = [i for i in tensors if first.setdefault(id(leaves[i]), i) == i]
        order = {i: k for k, i in enumerate(self.distinct)}
        place = {i: order[first[id(leaves[i])]] for i in tensors}

        def flat(fakes: list[Any]) -> list[Any]:
            given = [fakes[place[i]] if i in place else leaf for i, leaf in enumerate(leaves)]
            args, kwargs = tree_unflatten(given, spec)
            results, self.out_spec = tree_flatten(with_backwards(fn, args, kwargs))
            self.constants = [None if _is_recorded(r) else (r,) for r in results]
            return [r for r in results if _is_recorded(r)]

        names = [f"primals_{k + 1}" for k in range(len(self.distinct))]
        self.aot = _C._aot(flat, [leaves[i] for i in self.distinct], names, compilers, **options)
        self.report, self.fails = self.aot.metadata, self.aot.fails

    def __call__(self, leaves: list[Any]) -> Any:
        made = iter(self.aot.call([leaves[i] for i in self.distinct]))
        return tree_unflatten([next(made) if known is None else known[0] for known in self.constants], self.out_spec)


class _Plain:
    """One way of calling the function that cannot be recorded: the function itself."""

    def __init__(self, fn: Callable[..., Any], spec: Any, why: str):
        self.fn, self.spec, self.fails = fn, spec, False
        self.report = f"runs on the tape, not recorded: {why}\n"

    def __call__(self, leaves: list[Any]) -> Any:
        args, kwargs = tree_unflatten(leaves, self.spec)
        return self.fn(*args, **kwargs)


def _call_of(fn: Callable[..., Any], leaves: list[Any], spec: Any, compilers: _Compilers,
             options: dict[str, Any]) -> _Call | _Plain:
    made: _Call | _Plain
    try:
        made = _Call(fn, leaves, spec, compilers, options)
    except cresset.UnsupportedError as error:
        made = _Plain(fn, spec, str(error))
    if made.report.startswith("runs on the tape"):
        _log.info("%s: this way of calling it %s", getattr(fn, "__name__", fn), made.report.rstrip())
    return made


class _Compiled:
    """The function compiled for each way in which it is called."""

    def __init__(self, fn: Callable[..., Any], make: Callable[[], _Compilers], options: dict[str, Any]):
        self.fn, self.make, self.options = fn, make, options
        self.calls: dict[Any, _Call | _Plain] = {}

    def explain(self) -> str:
        """What each way of calling it became so far: what is done to inputs and what results are, or why it runs on the
        tape."""
        return "".join(f"call {k}: {call.report}" for k, call in enumerate(self.calls.values()))

    def find(self, args: Any, kwargs: Any, called: bool) -> tuple[_Call | _Plain, list[Any]]:
        leaves, spec = tree_flatten((args, kwargs))
        others = tuple((i, type(leaf), leaf) for i, leaf in enumerate(leaves) if not isinstance(leaf, _C.Tensor))
        tensors, options = [leaf for leaf in leaves if isinstance(leaf, _C.Tensor)], self.options
        key = *_C._aot_key(tensors), others, spec
        if options["dynamic"] and key[2]:  # places in shared memory are numbers: compiled for these sizes
            options = {**options, "dynamic": False}
            key = *key, *(tuple(t.shape) for t in tensors)
        call = self.calls.get(key)
        if call is None:
            call = _call_of(self.fn, leaves, spec, self.make(), {**options, "called": called})
            if not call.fails:
                self.calls[key] = call
        return call, leaves

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        call, leaves = self.find(args, kwargs, True)
        return call(leaves)


def _prepare(fn: Callable[..., Any], fw_compiler: Any, bw_compiler: Any, partition_fn: Any, decompositions: Any,
             num_params_buffers: int, keep_inference_input_mutations: bool, inference_compiler: Any, dynamic: bool,
             enable_log: bool) -> _Compiled:
    config.refuse_functional_rng("aot_function()")
    if keep_inference_input_mutations:
        raise NotImplementedError("keep_inference_input_mutations: graphs that are given to compilers are functional; "
                                  "new values of inputs are results, which are copied back")
    options = {"fixed": num_params_buffers, "dynamic": dynamic, **_how(partition_fn)}
    make = functools.partial(_Compilers, fw_compiler, bw_compiler, inference_compiler, decompositions, enable_log)
    for compiler in (fw_compiler, bw_compiler, inference_compiler):
        if compiler is not None:
            _named(compiler)
    return _Compiled(fn, make, options)


def aot_function(fn: Callable[..., Any], fw_compiler: Any, bw_compiler: Any = None,
                 partition_fn: Any = default_partition, decompositions: dict[Any, Any] | None = None,
                 num_params_buffers: int = 0, keep_inference_input_mutations: bool = False,
                 inference_compiler: Any = None, *, dynamic: bool = False,
                 enable_log: bool = True) -> Callable[..., Any]:
    """fn, compiled when it is first called: recorded, made functional, differentiated and cut in two.

    A compiler is called with a graph module and fakes of its inputs, and gives what is called instead; or it is one of
    the names "native" (a library for this machine), "nop" (the graph as it is) and "print". The backward and the
    inference compiler default to fw_compiler; the latter serves where nothing requires grad. Arguments and results may
    be nested. dynamic: sizes are symbols, but for those of the leading `num_params_buffers` tensors. Another structure
    of arguments, other numbers among them, tensors that share memory in another way, have other strides or require grad
    otherwise are another compilation; other sizes of a program that was not compiled for them are an error. What no
    code can stand for runs on the tape, for that way of calling alone: call._compiled.explain() tells."""
    compiled = _prepare(fn, fw_compiler, bw_compiler, partition_fn, decompositions, num_params_buffers,
                        keep_inference_input_mutations, inference_compiler, dynamic, enable_log)

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        return compiled(*args, **kwargs)

    call._compiled = compiled  # type: ignore[attr-defined]
    return call


# ---- modules ----

def aot_module(mod: Any, *args: Any, **kwargs: Any) -> Any:
    """A module that calls `mod` compiled: its parameters and buffers are inputs of what the compilers get, under every
    name that they have. The module itself is `orig_module`. Arguments: as aot_function's."""
    state = module_state(mod)
    compiled = aot_function(functional(mod), *args, num_params_buffers=len({id(t) for t in state.values()}), **kwargs)

    class AOTModule(cresset.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.orig_module = mod

        def forward(self, *inputs: Any, **named: Any) -> Any:
            return compiled(module_state(mod), inputs, named)

    return AOTModule()


def aot_module_simplified(mod: Any, args: Any, fw_compiler: Any, bw_compiler: Any = None,
                          partition_fn: Any = default_partition, decompositions: dict[Any, Any] | None = None,
                          keep_inference_input_mutations: bool = False,
                          inference_compiler: Any = None) -> Callable[..., Any]:
    """A function of the run-time inputs alone, compiled now for `args`: weights are put before them inside."""
    state = module_state(mod)
    compiled = _prepare(functional(mod), fw_compiler, bw_compiler, partition_fn, decompositions,
                        len({id(t) for t in state.values()}), keep_inference_input_mutations, inference_compiler, False,
                        True)
    compiled.find((state, tuple(args), {}), {}, False)

    def forward(*runtime_args: Any) -> Any:
        return compiled(state, runtime_args, {})

    forward.zero_grad = mod.zero_grad  # type: ignore[attr-defined]
    forward.named_parameters = mod.named_parameters  # type: ignore[attr-defined]
    forward.named_buffers = mod.named_buffers  # type: ignore[attr-defined]
    return forward


compiled_function, compiled_module = aot_function, aot_module
