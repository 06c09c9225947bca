"""Names of torch at which nothing is due: what they would switch on is not there, or there is nothing to do.

MODULES: modules that Cresset does not have and whose names are all in this file. NAMES: full name -> value. A class
that model code only names (in annotations, isinstance(), as a base) is there without its work: to make one is an
error."""
from __future__ import annotations

import contextlib
import enum
import types
import typing
from typing import Any, Callable, NoReturn

MODULES: set[str] = set()
NAMES: dict[str, Any] = {}


def _module(name: str, names: dict[str, Any] | None = None, classes: str = "", functions: str = "") -> None:
    """names: what answers; classes, functions: what is named but not there, each an error when it is called."""
    MODULES.add(name)
    _extra(name, names or {}, classes, functions)


def _extra(name: str, names: dict[str, Any], classes: str = "", functions: str = "") -> None:
    NAMES.update({f"{name}.{word}": value for word, value in names.items()})
    NAMES.update({f"{name}.{word}": _class(name, word) for word in classes.split()})
    NAMES.update({f"{name}.{word}": _function(name, word) for word in functions.split()})


def _class(module: str, name: str) -> type:
    def refuse(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(REFUSAL.format(f"{module}.{name}"))
    return type(name, (), {"__module__": module, "__init__": refuse, "__class_getitem__": classmethod(_same),
                           "__cresset_refuses__": True})


def _function(module: str, name: str) -> Callable[..., NoReturn]:
    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(REFUSAL.format(f"{module}.{name}"))
    refuse.__name__ = refuse.__qualname__ = name
    refuse.__module__ = module
    refuse.__cresset_refuses__ = True
    return refuse


REFUSAL = ("{} is not in Cresset, which is in torch's place here (cresset.as_torch): leave out what uses it, or "
           "install PyTorch and do not import cresset.as_torch; docs/names.md lists the names that are there")


def _no(*args: Any, **kwargs: Any) -> bool:  # unused args, kwargs: what is asked about is not there
    return False


def _nothing(*args: Any, **kwargs: Any) -> None:  # unused args, kwargs: there is nothing to do
    return None


def _same(value: Any, *args: Any, **kwargs: Any) -> Any:  # unused args, kwargs: nobody reads what they say of it
    return value


def _decorator(*args: Any, **kwargs: Any) -> Any:
    """Of a function, or of settings: @x and @x(...)."""
    return args[0] if len(args) == 1 and callable(args[0]) and not kwargs else _same


_context = contextlib.nullcontext

# ---- what is asked of the machine ----
_module("torch.version", {"cuda": None, "hip": None, "xpu": None, "debug": False, "git_version": "cresset",
                          "__version__": "2.13.0"})
_module("torch.accelerator", {"is_available": _no, "device_count": lambda: 0, "current_accelerator": _nothing})
_module("torch.xpu", {"is_available": _no, "device_count": lambda: 0})
_module("torch.mps", {"is_available": _no, "device_count": lambda: 0})
_extra("torch.cuda", {"is_current_stream_capturing": _no, "empty_cache": _nothing, "ipc_collect": _nothing},
       "CUDAGraph Stream Event StreamContext", "default_stream current_stream get_device_capability "
       "get_device_properties get_device_name graph mem_get_info memory_allocated max_memory_allocated memory_reserved "
       "reset_peak_memory_stats set_device stream")
_extra("torch", {}, "Event Stream")
_module("torch.distributed",
        {"is_available": _no, "is_initialized": _no, "is_torchelastic_launched": _no},
        "ProcessGroup ReduceOp Work",
        "get_rank get_world_size init_process_group barrier all_reduce all_gather broadcast reduce new_group")
_module("torch.distributed.tensor", None, "DTensor Replicate Shard Partial", "distribute_tensor")
_module("torch.distributed.tensor.placement_types", None, "Shard _StridedShard Replicate Partial")
_module("torch.distributed.device_mesh", None, "DeviceMesh", "init_device_mesh")
_module("torch.distributed.fsdp", None, "FullyShardedDataParallel CPUOffloadPolicy MixedPrecisionPolicy")
_module("torch.nn.parallel", None, "DataParallel DistributedDataParallel")
_extra("torch.nn", {}, "DataParallel")
_module("torch.nn.attention",
        {"SDPBackend": enum.IntEnum("SDPBackend", "ERROR MATH FLASH_ATTENTION EFFICIENT_ATTENTION CUDNN_ATTENTION "
                                    "OVERRIDEABLE", start=-1), "sdpa_kernel": _context})
_module("torch.nn.attention.flex_attention", {"_DEFAULT_SPARSE_BLOCK_SIZE": 128}, "BlockMask AuxRequest AuxOutput",
        "flex_attention create_block_mask create_mask and_masks or_masks")
_module("torch._C._distributed_c10d", None, "ProcessGroup")

# ---- scripts, profiles, overrides: nobody is there to read them ----
_module("torch.jit.annotations", {"List": typing.List, "Dict": typing.Dict, "Optional": typing.Optional,
                                  "Tuple": typing.Tuple,
                                  **{f"BroadcastingList{n}": typing.List for n in range(1, 7)}})
_extra("torch.jit", {"script": _decorator, "_overload_method": _same, "_overload": _same, "_script_if_tracing": _same,
                     "interface": _same}, "ScriptModule ScriptFunction", "trace load save")
_module("torch.profiler", {"record_function": _context}, "profile ProfilerActivity", "schedule")
_module("torch.overrides", {"has_torch_function": _no, "has_torch_function_unary": _no,
                            "has_torch_function_variadic": _no, "is_tensor_like": None},
        "TorchFunctionMode", "handle_torch_function")
_module("torch.onnx", {"is_in_onnx_export": _no, "register_custom_op_symbolic": _nothing}, "ONNXProgram", "export")
_module("torch.onnx.operators", None, "", "shape_as_tensor reshape_from_tensor_shape")
_module("torch.onnx.symbolic_opset11")
_module("torch.onnx.symbolic_helper", {"parse_args": lambda *kinds: _same})
_extra("torch._C", {}, "Value Graph Node")
_module("torch.package")
_module("torch._custom_ops")
_module("torch.ao", None)
_module("torch.ao.quantization", None, "QuantStub DeQuantStub")
_module("torch.backends.opt_einsum", {"is_available": _no, "enabled": False})
_module("torch._dynamo._trace_wrapped_higher_order_op", {"TransformGetItemToIndex": _context})
_extra("torch._dynamo.utils", {"is_compile_supported": _no})
_extra("torch.fx", {"wrap": _same})
_extra("torch.fx.graph_module", {"_USER_PRESERVED_ATTRIBUTES_KEY": "_user_preserved_attributes"}, "_CodeOnlyModule",
       "_copy_attr")
_extra("torch._C", {"_get_tracing_state": _nothing, "_log_api_usage_once": _nothing,
                    "DisableTorchFunctionSubclass": _context, "DisableTorchFunction": _context})
_extra("torch", {"_is_tracing": _no})
_extra("torch._C", {"DispatchKey": types.SimpleNamespace(AutocastCPU="cpu", AutocastCUDA="cuda", AutocastXPU="xpu"),
                    "DispatchKeySet": lambda key: frozenset([key]), "_ExcludeDispatchKeyGuard": _context})

# ---- what is not model code: data, files, distributions ----
_module("torch.utils.data.distributed", None, "DistributedSampler")
_module("torch.utils.model_zoo", {"tqdm": _same}, "", "load_url")
_module("torch.distributions", None, "AffineTransform Distribution Independent NegativeBinomial Normal StudentT "
        "TransformedDistribution Beta Categorical Bernoulli")
_module("torch.distributions.constraints")
