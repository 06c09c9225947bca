"""cresset.compile on PyTorch programs: what capture needs of torch (src/python/frontend_torch.c), told once.

Fakes are Cresset's own tensors. `find` says what a function in C of torch's is to a program: an op of ours by the same
name, an answer that does not change, a question about torch's state. What has no row ends a capture: torch carries it
out itself."""
from __future__ import annotations

import importlib
import operator
import sys
from typing import Any

import torch
import torch.optim
import torch.utils.checkpoint

import cresset
from cresset import _C
from cresset._torch import crossing, lists, opaque, transforms

_ready: list[bool] = []
_ready_to_export: list[bool] = []

# ---- functions ----

_FALSE = ("_is_tracing", "is_vulkan_available", "_cuda_isCurrentStreamCapturing")
_NONE = ("_get_tracing_state", "_log_api_usage_once")
_FLAGS = ("_get_cudnn_enabled", "_get_cudnn_benchmark", "_get_cudnn_deterministic", "_get_cudnn_allow_tf32",
          "_get_mkldnn_enabled", "_get_flash_sdp_enabled", "_get_mem_efficient_sdp_enabled", "_get_math_sdp_enabled",
          "_get_cudnn_sdp_enabled", "_is_autocast_available", "_get_privateuse1_backend_name")
_CASTS = {"enabled": ("is_autocast_enabled", "set_autocast_enabled"),  # of mixed precision; "cpu": without a device
          "cpu enabled": ("is_autocast_cpu_enabled", "set_autocast_cpu_enabled", "_is_any_autocast_enabled"),
          "dtype": ("get_autocast_dtype", "set_autocast_dtype"),
          "cpu dtype": ("get_autocast_cpu_dtype", "set_autocast_cpu_dtype"),
          "cpu cache": ("is_autocast_cache_enabled", "set_autocast_cache_enabled")}
_ASKS = ("is_inference_mode_enabled", "get_default_dtype", "_get_deterministic_algorithms",
         "_get_deterministic_algorithms_warn_only", "_len_torch_dispatch_stack", "_are_functorch_transforms_active")
_MODES = {"_is_torch_function_mode_enabled": "has_modes", "_push_on_torch_function_stack": "push_mode",
          "_pop_torch_function_stack": "pop_mode", "_len_torch_function_stack": "count_modes",
          "_get_function_stack_at": "mode_at"}
_SIZES = {"size", "stride", "dim", "numel", "contiguous", "to", "float", "double", "half", "bfloat16", "long", "int",
          "bool"}
_META = ("is_floating_point", "is_complex", "is_signed", "numel", "is_conj", "is_neg")  # answered from what is guarded
# what looks at data, at memory or at the generator, and what our function of that name takes otherwise
_REFUSED = {"from_numpy", "frombuffer", "from_file", "set_", "resize_", "resize_as_", "data_ptr", "tolist", "item",
            "numpy", "tensor", "asarray", "from_dlpack", "seed", "initial_seed", "backward",
            "requires_grad_", "detach_", "retain_grad", "register_hook", "storage", "untyped_storage", "share_memory_"}


def _rows() -> dict[Any, tuple[str, Any]]:
    rows: dict[Any, tuple[str, Any]] = {}

    def add(kind: str, names: tuple[str, ...], value: Any = None) -> None:
        for name in names:
            for owner in (torch._C, torch):
                function = getattr(owner, name, None)
                if function is not None and not hasattr(function, "__code__"):
                    rows[function] = (kind, value)

    add("gives", _FALSE, False)
    add("gives", _NONE)
    add("constants", _FLAGS)
    add("asks", _ASKS)
    for name, instead in _MODES.items():
        add("stands_in", (name,), instead)
    for name, instead in (("__enter__", "enter_device"), ("__exit__", "leave_device")):
        if hasattr(torch.device, name):
            rows[getattr(torch.device, name)] = ("stands_in", instead)
    for what, names in _CASTS.items():
        add("casts", names, what)
    add("gives", ("autocast_increment_nesting", "autocast_decrement_nesting"), 1)  # 0: what is kept is dropped
    add("gives", ("clear_autocast_cache",))  # casts are made anew for every call
    add("overrides", ("_has_torch_function", "_has_torch_function_unary", "_has_torch_function_variadic"))
    add("get_grad", ("is_grad_enabled",))
    add("set_grad", ("_set_grad_enabled",))
    add("constants", ("finfo", "iinfo", "device", "promote_types", "can_cast", "result_type"))
    rows[torch.Size], rows[torch.Size.numel] = ("op", cresset.Size), ("op", cresset.Size.numel)
    rows[torch.tensor] = ("op", _tensor)
    rows[torch.as_tensor] = ("op", _as_tensor)
    rows.update(_makers())
    rows[torch.einsum] = ("op", cresset.einsum)  # torch's looks for an order of products first
    rows[torch.broadcast_shapes] = ("op", cresset.broadcast_shapes)  # torch's asks its own symbols
    rows[torch.nonzero] = ("op", cresset.nonzero)  # takes as_tuple, which the op does not
    rows[torch.embedding] = ("op", _dense(cresset.embedding, "sparse", 4))
    rows[torch.embedding_bag] = ("op", _dense(cresset.embedding_bag, "sparse", 5))
    rows[torch.autograd.Function.apply.__func__] = ("unrecorded", "apply")
    rows[torch.backends.mha.get_fastpath_enabled] = ("gives", False)  # attention by ops, not by one fused function
    rows.update(_regions())
    rows[torch.utils.checkpoint.checkpoint] = ("stands_in", "checkpoint")
    rows[torch.autograd.profiler.record_function.__init__] = ("stands_in", "mark")
    rows[torch.autograd.profiler.record_function.__enter__] = ("stands_in", "set_mark")
    rows[torch.autograd.profiler.record_function.__exit__] = ("stands_in", "take_mark")
    rows.update(_of_optimizers())
    rows.update(_symbolic())
    for function in _compiling():
        rows[function] = ("compiles", None)
    rows.update(_not_mapped())
    for name in _META:
        if hasattr(cresset, name):
            rows[getattr(torch, name)] = ("op", getattr(cresset, name))
    return rows


def _makers() -> dict[Any, tuple[str, Any]]:
    """Methods of torch's tensors that ours do not have."""
    return {torch.Tensor.new_tensor: ("op", _new_tensor), torch.Tensor.new: ("op", _new)}


def _not_mapped() -> dict[Any, tuple[str, Any]]:
    """Ops that are known, but not under vmap: functions and methods."""
    theirs = [getattr(space, name) for name in transforms.NOT_MAPPED for space in (torch, torch.Tensor, torch._VF)
              if hasattr(space, name)]
    known = {function: find(function) for function in theirs if not hasattr(function, "__code__")}
    return {function: ("unmapped", row[1]) for function, row in known.items() if row is not None and row[0] == "op"}


def _of_optimizers() -> dict[Any, tuple[str, Any]]:
    """Lists of tensors, numbers that stay tensors, and what asks for one; as far as this torch has them."""
    found: dict[Any, tuple[str, Any]] = {}
    for name, (number, at) in lists.SCALED.items():
        for spelling in (name, name + "_"):
            if hasattr(torch.Tensor, spelling) and hasattr(cresset.Tensor, spelling):
                found[getattr(torch.Tensor, spelling)] = ("op", lists.method(spelling))
        if hasattr(torch, name):
            found[getattr(torch, name)] = ("op", lists.scaled(getattr(cresset, name), number, at))
    for name in dir(torch._C._VariableFunctions) if hasattr(torch._C, "_VariableFunctions") else ():
        ours = lists.each(name) if name.startswith(lists.PREFIX) else None
        if ours is not None:
            found[getattr(torch, name)] = ("op", ours)
    found[torch.Tensor.requires_grad_] = ("stands_in", "requires_grad_")
    if hasattr(torch.optim.Optimizer.zero_grad, "__wrapped__"):  # Dynamo does not look into it
        found[torch.optim.Optimizer.zero_grad] = ("stands_in", "zero_grad")
    number_of = getattr(sys.modules[torch.optim.Optimizer.__module__], "_get_value", None)
    if number_of is not None:
        found[number_of] = ("stands_in", "number_of")
    return found


_SYMBOLIC = ("sym_max sym_min sym_int sym_float sym_not sym_ite sym_sqrt _check _check_value _check_index _check_type "
             "_check_not_implemented _check_is_size _constrain_as_size _constrain_as_value").split()
_REGIONS = "cond while_loop map scan associative_scan".split()


def _regions() -> dict[Any, tuple[str, Any]]:
    """torch.cond() and its like, whose bodies are recorded here as those of our functions are."""
    import cresset._higher_order as ours
    found: dict[Any, tuple[str, Any]] = {}
    for name in _REGIONS:
        try:
            module = importlib.import_module(f"torch._higher_order_ops.{name}")
        except ImportError:
            continue
        found[getattr(module, name)] = ("region", getattr(ours, name))
    found.update(transforms.rows())
    return found


def _symbolic() -> dict[Any, tuple[str, Any]]:
    """Functions of torch's in Python about numbers, which in graphs are symbols of ours."""
    import cresset._symbolic as ours
    found = {getattr(torch, name): ("symbolic", getattr(ours, name)) for name in _SYMBOLIC if hasattr(torch, name)}
    return {function: row for function, row in found.items() if hasattr(function, "__code__")}


def _exported() -> dict[Any, Any]:
    """Functions of torch's in Python that an export does not look into: numbers in it are symbols of ours."""
    import cresset.fx.experimental.symbolic_shapes as guards
    import torch.fx.experimental.symbolic_shapes as theirs
    found = {getattr(theirs, name): getattr(guards, name) for name in guards.__all__
             if name.startswith(("guard_", "statically_")) and hasattr(theirs, name)}
    return {function: ours for function, ours in found.items() if hasattr(function, "__code__")}


def _tensor(data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Any:
    """torch.tensor() of numbers and lists of numbers, recorded; whatever else raises, which ends a capture."""
    if requires_grad:
        raise TypeError("tensor() with requires_grad=True is not recorded")
    if _C._is_exporting():
        return cresset.tensor(data, dtype=_pairs.get(dtype, dtype), device=_pairs.get(device, device))
    flat: list[Any] = []
    sizes = _sizes_of(data, flat)
    kinds = {type(item) for item in flat}
    if kinds & _NUMBERS and len(flat) <= _MAX_ITEMS:  # that depend on data, or differ from call to call
        return cresset.tensor(data, dtype=dtype, device=device)
    if not kinds or not kinds <= {bool, int, float} or len(flat) > _MAX_ITEMS:
        raise TypeError("tensor() of something else than a number or a short list of numbers is not recorded")
    if not sizes:
        return cresset.full((), data, dtype=dtype, device=device)
    if dtype is None:
        dtype = cresset.float32 if float in kinds else cresset.int64 if int in kinds else cresset.bool
    items = cresset.stack([cresset.full((), item, dtype=dtype, device=device) for item in flat])
    return items if len(sizes) == 1 else items.reshape(sizes)


def _new_tensor(self: Any, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Any:
    return _tensor(data, dtype=self.dtype if dtype is None else dtype, device=device, requires_grad=requires_grad)


def _new(self: Any, *sizes: Any) -> Any:
    """Tensor.new() of sizes; of a list or a tensor it has its numbers, which is not recorded."""
    if len(sizes) == 1 and isinstance(sizes[0], (cresset.Size, torch.Size)):
        return self.new_empty(sizes[0])
    if not all(type(n) is int for n in sizes):
        raise TypeError("new() of something else than sizes is not recorded")
    return self.new_empty(sizes or (0,))


def _gather(x: Any, indices: list[Any]) -> Any:
    """x[indices] where a mode of torch's makes ints tensors, and all of them one op."""
    made = [i if isinstance(i, cresset.Tensor) else cresset.full((), i, dtype=cresset.int64) for i in indices]
    return cresset.ops.aten.index(x, made)


def _sizes_of(data: Any, flat: list[Any]) -> list[int]:
    """How a list of lists of numbers lies; the numbers go into `flat`."""
    if type(data) not in (list, tuple):
        flat.append(data)
        return []
    parts = [_sizes_of(item, flat) for item in data]
    if any(part != parts[0] for part in parts):
        raise TypeError("tensor() of lists of several lengths is not recorded")
    return [len(data), *(parts[0] if parts else ())]


def _dense(ours: Any, name: str, at: int) -> Any:
    """An op whose argument `name`, the one at `at`, asks for sparse gradients, which Cresset has not."""
    def call(*args: Any, **kwargs: Any) -> Any:
        sparse = args[at] if len(args) > at else kwargs.get(name)
        if sparse and cresset.is_grad_enabled() and not _C._is_exporting():
            raise TypeError(f"{name}=True, which gives sparse gradients, is not recorded")
        return ours(*args, **kwargs)
    return call


def _as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Any:
    """torch.as_tensor() of a tensor, or of what tensor() is recorded of."""
    if not isinstance(data, cresset.Tensor):
        return _tensor(data, dtype=dtype, device=device)
    return data if dtype is None and device is None else data.to(dtype=dtype, device=device)


_MAX_ITEMS = 64
_NUMBERS = {_C.SymInt, _C.SymFloat, _C.SymBool}


def _compiling() -> list[Any]:
    """Functions in Python that ask whether a program is being compiled."""
    found = [getattr(torch.compiler, name, None) for name in ("is_compiling", "is_dynamo_compiling")]
    return [f for f in [*found, getattr(torch._utils, "is_compiling", None)] if f is not None]


_table: dict[Any, tuple[str, Any]] = {}
_documented = {f for space in (torch, torch.nn.functional, torch.special, torch.fft, torch.linalg)
               for f in vars(space).values() if type(f) is type(torch.relu)}
# torch's own Python calls these by their private names; one that is gone ends a capture
_spaces = [getattr(torch._C, name) for name in ("_VariableFunctions", "_nn", "_special", "_fft", "_linalg")
           if hasattr(torch._C, name)]


def _function(name: str) -> Any:
    try:
        return _C._function(name)
    except AttributeError:
        return None


def find(callable: Any) -> tuple[str, Any] | None:
    """What a function in C, or in Python of Dynamo's, is to a captured program; None: nothing that is known."""
    known = _table.get(callable)
    if known is not None:
        return known
    name = getattr(callable, "__name__", None)
    if not isinstance(name, str) or name in _REFUSED or isinstance(callable, type):
        return None
    if hasattr(callable, "__code__"):
        # modules made after a torch.compile() are counted for Dynamo, which looks at none that a captured program makes
        return ("gives", None) if callable.__qualname__ == "GenerationTracker.tag" else None
    if getattr(callable, "__objclass__", None) in torch.Tensor.__mro__[:2]:  # Tensor.NAME
        method = getattr(cresset.Tensor, name, None)  # those that are no ops may tell of memory, which a fake has not
        if type(method) is type(cresset.Tensor.relu) or name in _SIZES:
            return "op", method
        return _opaque_by_name(name) if method is None else None
    if callable not in _documented and not any(getattr(space, name, None) == callable for space in _spaces):
        return _op_of(callable)
    ours = _function(name)
    return _opaque_by_name(name) if ours is None else ("op", ours)


def _op_of(callable: Any) -> tuple[str, Any] | None:
    """What torch.ops.SPACE.NAME or torch.ops.SPACE.NAME.OVERLOAD calls: our op of that name, or torch's own."""
    op = opaque.find(callable)
    if op is None:
        return None
    space, _, name = opaque.name_of(op).partition("::")
    try:
        return "op", operator.attrgetter(name if "." in name else
                                         f"{name}.default" if not hasattr(op, "overloads") else name)(
                                             getattr(cresset.ops, space))
    except AttributeError:
        return opaque.row(op)


def _opaque_by_name(name: str) -> tuple[str, Any] | None:
    """A function or method of torch's that is an op of its own without a row of ours."""
    packet = getattr(torch.ops.aten, name, None)
    return None if packet is None else opaque.row(packet)


# ---- what ops give beside tensors ----

def translate(value: Any) -> Any:
    """A device, layout, memory format, size or structure of ours, as torch has it; None: it has none."""
    if isinstance(value, cresset.Size):
        return torch.Size(value) if all(type(n) is int for n in value) else value
    if isinstance(value, tuple):
        kind = getattr(torch.return_types, type(value).__name__, None)
        return kind(tuple(value)) if kind is not None else value
    for theirs, ours in _pairs.items():
        if type(ours) is type(value) and ours == value:
            return theirs
    return None


_pairs: dict[Any, Any] = {}  # torch's -> ours


def _find_pairs() -> None:
    _pairs.update({theirs: ours for ours, theirs in crossing.dtypes().items()})
    _pairs[torch.strided] = cresset.strided
    for name in ("contiguous_format", "channels_last", "channels_last_3d", "preserve_format"):
        _pairs[getattr(torch, name)] = getattr(cresset, name)
    _pairs[torch.device("cpu")] = cresset.device("cpu")


# ---- the state of torch ----

class _Levels:
    """What of forward-mode derivatives can be asked by public names: a dual tensor is made where there is a level."""

    def __init__(self) -> None:
        self.probe = torch.zeros(1)

    @property
    def _current_level(self) -> int:
        try:
            torch.autograd.forward_ad.make_dual(self.probe, self.probe)
        except RuntimeError:
            return -1
        return 0


def _has_function_mode() -> bool:
    return torch.overrides.has_torch_function((_probe[0],))


_probe: list[Any] = []


def _casting() -> bool:
    return torch.is_autocast_enabled("cpu")


def _casts() -> tuple[Any, bool]:
    """To which dtype mixed precision casts on the CPU, and whether it keeps what it has cast."""
    return _pairs.get(torch.get_autocast_dtype("cpu")), torch.is_autocast_cache_enabled()


def _questions() -> tuple[Any, ...]:
    """Grad mode, inference mode, default dtype, mixed precision; then what must be off for a program to be captured.
    Without private names nothing tells of dispatch modes and transforms: tensors that those make are not plain
    memory."""
    _probe[:] = [torch.zeros(1)]
    asked = (("_C", "_is_any_autocast_enabled"), _casting), \
            (("_C", "_len_torch_function_stack"), _has_function_mode), \
            (("_C", "_len_torch_dispatch_stack"), None), \
            (("_C", "_functorch", "get_dynamic_layer_stack_depth"), None), \
            (("_C", "_get_tracing_state"), torch.jit.is_tracing), \
            (("_C", "_get_deterministic_algorithms"), torch.are_deterministic_algorithms_enabled)
    found = [crossing.private(*path) or public for path, public in asked]
    return (torch.is_grad_enabled, torch.is_inference_mode_enabled, torch.get_default_dtype,
            *(question for question in found if question is not None))


def _set_grad(on: bool) -> None:
    torch.set_grad_enabled(on)


def _no_frames(_callback: Any) -> None:
    """Without the name, torch.compile looks at what is done here if it is at work itself."""


def prepare_export() -> None:
    """Before a program of torch's is exported."""
    if prepare() and not _ready_to_export:
        _table.update((function, ("exports", ours)) for function, ours in _exported().items())
        _C._torch_rows(_table)
        _ready_to_export.append(True)


def prepare() -> bool:
    """Once, when a program is captured and torch has been imported. False: programs of torch run plain."""
    if not _ready:
        from cresset._torch import running
        crossing.prepare()
        _find_pairs()
        _table.update(_rows())
        _C._torch_frontend(tensor=torch.Tensor, parameter=torch.nn.Parameter, size=torch.Size,
                           ours=_pairs,
                           constants=(torch.dtype, torch.device, torch.layout, torch.memory_format, torch.finfo,
                                      torch.iinfo, torch.Size),
                           rows=_table, find=find, build=running.build, is_failure=running.is_failure,
                           translate=translate,
                           set_grad=crossing.private("_C", "_set_grad_enabled") or _set_grad,
                           default_dtype=torch.float32, questions=_questions(),
                           levels=torch.autograd.forward_ad if crossing.allows_private() else _Levels(),
                           set_frames=crossing.private("_C", "_dynamo", "eval_frame", "set_eval_frame") or _no_frames,
                           host=opaque.host, casts=_casts, casting=_casting,
                           methods={f.__name__ for f in (*_makers(), *_of_optimizers(), *_not_mapped())
                                    if hasattr(f, "__objclass__")})
        _ready.append(True)
    return True
