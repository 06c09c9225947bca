"""Padding, resizing, sampling, folding and shuffling of images and sequences."""
import warnings

from cresset import ops
from cresset._symbolic import sym_float
from cresset.nn.functional._ops import nn, op, repeated

pixel_shuffle, pixel_unshuffle, channel_shuffle, native_channel_shuffle = map(op,
        "pixel_shuffle pixel_unshuffle channel_shuffle native_channel_shuffle".split())


def pad(input, pad, mode="constant", value=None):
    """`pad` counts from the last dimension: (before, after) each. mode: constant, reflect, replicate or circular."""
    return nn("pad")(input, pad, mode, value)


def fold(input, output_size, kernel_size, dilation=1, padding=0, stride=1):
    return nn("col2im")(input, repeated(output_size, 2), repeated(kernel_size, 2), repeated(dilation, 2),
                        repeated(padding, 2), repeated(stride, 2))


def unfold(input, kernel_size, dilation=1, padding=0, stride=1):
    return nn("im2col")(input, repeated(kernel_size, 2), repeated(dilation, 2), repeated(padding, 2),
                        repeated(stride, 2))


# ---- resizing ----

_RESIZE = {
    (3, "nearest"): "upsample_nearest1d", (4, "nearest"): "upsample_nearest2d", (5, "nearest"): "upsample_nearest3d",
    (3, "nearest-exact"): "_upsample_nearest_exact1d", (4, "nearest-exact"): "_upsample_nearest_exact2d",
    (5, "nearest-exact"): "_upsample_nearest_exact3d",
    (3, "linear"): "upsample_linear1d", (4, "bilinear"): "upsample_bilinear2d",
    (5, "trilinear"): "upsample_trilinear3d", (4, "bicubic"): "upsample_bicubic2d",
}
_MODES = ("nearest", "nearest-exact", "linear", "bilinear", "bicubic", "trilinear", "area")


def _per_dimension(name, value, input, dims):
    if not isinstance(value, (list, tuple)):
        return [value] * dims
    if len(value) != dims:
        raise ValueError(f"interpolate: {name} has {len(value)} numbers, but the input of size {tuple(input.shape)} "
                         f"has {dims} spatial dimensions")
    return list(value)


def interpolate(input, size=None, scale_factor=None, mode="nearest", align_corners=None, recompute_scale_factor=None,
                antialias=False):
    """Resizes the spatial dimensions to `size`, or by `scale_factor`."""
    if mode in ("nearest", "area", "nearest-exact"):
        if align_corners is not None:
            raise ValueError(f"interpolate: align_corners goes with linear, bilinear, bicubic and trilinear, not with "
                             f"{mode!r}")
    elif align_corners is None:
        align_corners = False
    dims = input.dim() - 2
    if size is not None and scale_factor is not None:
        raise ValueError("interpolate: give size or scale_factor, not both")
    if size is None and scale_factor is None:
        raise ValueError("interpolate: give size or scale_factor")
    scales, sizes = None, None
    if size is not None:
        sizes = _per_dimension("size", size, input, dims)
    else:
        scales = _per_dimension("scale_factor", scale_factor, input, dims)
    if recompute_scale_factor and size is not None:
        raise ValueError("interpolate: recompute_scale_factor goes with scale_factor, not with size")
    if mode == "area" and sizes is None:
        recompute_scale_factor = True
    if recompute_scale_factor:
        sizes = [_whole(sym_float(n) * s) for n, s in zip(input.shape[2:], scales)]
        scales = None
    if antialias and not (mode in ("bilinear", "bicubic") and input.dim() == 4):
        raise ValueError(f"interpolate: antialias goes with 4-D inputs and bilinear or bicubic, not with "
                         f"{input.dim()}-D and {mode!r}")
    if mode == "area":
        pools = {3: "adaptive_avg_pool1d", 4: "adaptive_avg_pool2d", 5: "adaptive_avg_pool3d"}
        if input.dim() in pools:
            return nn(pools[input.dim()])(input, sizes)
    name = _RESIZE.get((input.dim(), mode))
    if name is None:
        if mode in _MODES and input.dim() in (3, 4, 5):
            raise NotImplementedError(f"interpolate: {mode} is for another number of dimensions than {input.dim()}")
        raise NotImplementedError(f"interpolate: inputs of 3, 4 or 5 dimensions and the modes {' | '.join(_MODES)} are "
                                  f"possible, not {input.dim()}-D and {mode!r}")
    op = getattr(ops.aten, f"_upsample_{mode}2d_aa" if antialias else name).vec
    return op(input, sizes, scales) if mode.startswith("nearest") else op(input, sizes, align_corners, scales)


def _whole(value):
    """The whole part of a float or of a symbolic float."""
    return int(value) if isinstance(value, (int, float)) else value.__trunc__()


def upsample(input, size=None, scale_factor=None, mode="nearest", align_corners=None):
    warnings.warn("upsample is deprecated: use interpolate", stacklevel=2)
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input, size=None, scale_factor=None):
    warnings.warn("upsample_nearest is deprecated: use interpolate", stacklevel=2)
    return interpolate(input, size, scale_factor, mode="nearest")


def upsample_bilinear(input, size=None, scale_factor=None):
    warnings.warn("upsample_bilinear is deprecated: use interpolate", stacklevel=2)
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


# ---- sampling ----

_SAMPLE_MODES = {"bilinear": 0, "nearest": 1, "bicubic": 2}
_BORDERS = {"zeros": 0, "border": 1, "reflection": 2}


def grid_sample(input, grid, mode="bilinear", padding_mode="zeros", align_corners=None):
    if mode not in _SAMPLE_MODES:
        raise ValueError(f"grid_sample: mode must be bilinear, nearest or bicubic, not {mode!r}")
    if padding_mode not in _BORDERS:
        raise ValueError(f"grid_sample: padding_mode must be zeros, border or reflection, not {padding_mode!r}")
    if align_corners is None:
        warnings.warn("grid_sample: align_corners is False unless given, which changed long ago")
        align_corners = False
    return nn("grid_sampler")(input, grid, _SAMPLE_MODES[mode], _BORDERS[padding_mode], align_corners)


def affine_grid(theta, size, align_corners=None):
    if align_corners is None:
        warnings.warn("affine_grid: align_corners is False unless given, which changed long ago")
        align_corners = False
    if not theta.is_floating_point():
        raise ValueError(f"affine_grid: theta must be floating point, not {theta.dtype}")
    n = len(size) - 2
    if n not in (2, 3):
        raise NotImplementedError(
                f"affine_grid: sizes (N, C, H, W) and (N, C, D, H, W) are possible, not {tuple(size)}")
    if theta.dim() != 3 or theta.shape[-2] != n or theta.shape[-1] != n + 1:
        raise ValueError(f"affine_grid: expected a batch of {n}x{n + 1} matrices for size {tuple(size)}, got "
                         f"{tuple(theta.shape)}")
    if any(isinstance(s, int) and s <= 0 for s in size):
        raise ValueError(f"affine_grid: all sizes must be positive, but they are {tuple(size)}")
    return nn("affine_grid_generator")(theta, size, align_corners)
