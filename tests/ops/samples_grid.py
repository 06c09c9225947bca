"""Samples of grids. Places are chosen so that none lies on the border between two pixels, where a derivative jumps."""
import itertools

import torch
from samples import call, sample

IMAGES = [((2, 3, 4, 5), (6, 7)), ((1, 1, 1, 1), (2, 2)), ((2, 2, 3, 3), (0, 4)), ((0, 2, 3, 3), (2, 2))]
VOLUMES = [((2, 3, 4, 5, 3), (2, 3, 4)), ((1, 1, 2, 1, 2), (1, 1, 2))]
MODES = list(itertools.product((0, 1, 2), (0, 1, 2), (False, True)))


def places(make, image, out):
    return make.tensor(image[0], *out, len(out), low=-1.6, high=1.6) if make.is_float else make.tensor(image[0], *out,
            len(out))


def calls(make, shapes, modes, backward=False):
    for image, out in shapes:
        for mode, padding, align in MODES:
            if mode in modes:
                grid = places(make, image, out)
                args = (make.tensor(image), grid, mode, padding, align)
                if not backward:
                    yield call(*args)
                else:
                    for mask in ([True, True], [False, True]) if (mode, padding) == (0, 0) else ([True, True],):
                        yield call(make.tensor(image[0], image[1], *out), *args, mask)


@sample("grid_sampler")
def grid_sampler(make):
    yield from calls(make, IMAGES[:1], (0, 1, 2))
    yield from calls(make, VOLUMES[:1], (0, 1))
    yield call(make.tensor(2, 3, 4, 5), make.tensor(1, 3, 3, 2), 0, 0, False, note="batches differ")
    yield call(make.tensor(2, 3, 4, 5), make.tensor(2, 3, 3, 3), 0, 0, False, note="grid of three axes")
    yield call(make.tensor(2, 3, 4), make.tensor(2, 3, 1), 0, 0, False, note="one axis")
    yield call(make.tensor(2, 3, 4, 5, 6), make.tensor(2, 3, 3, 3, 3), 2, 0, False, note="cubic volume")
    yield call(make.tensor(2, 3, 0, 5), make.tensor(2, 3, 3, 2), 0, 0, False, note="empty image")


@sample("grid_sampler_2d")
def grid_sampler_2d(make):
    yield from calls(make, IMAGES, (0, 1, 2))


@sample("grid_sampler_3d")
def grid_sampler_3d(make):
    yield from calls(make, VOLUMES, (0, 1))


@sample("grid_sampler_2d_backward")
def grid_sampler_2d_backward(make):
    yield from calls(make, IMAGES, (0, 1, 2), backward=True)


@sample("grid_sampler_3d_backward")
def grid_sampler_3d_backward(make):
    yield from calls(make, VOLUMES, (0, 1), backward=True)


@sample("affine_grid")
def affine_grid(make):
    if make.dtype == torch.uint8:  # -1 has no meaning there
        yield call(make.tensor(2, 2, 3), [2, 3, 4], False, note="one axis")
        return
    for align in (False, True):
        yield call(make.tensor(2, 2, 3), [2, 3, 4, 5], align)
        yield call(make.tensor(2, 3, 4), [2, 3, 4, 5, 6], align)
        if make.dtype in (torch.float32, torch.float64):  # PyTorch has a row of one pixel in no other dtype
            yield call(make.tensor(1, 2, 3), [1, 1, 1, 3], align)
    yield call(make.tensor(2, 2, 3), [3, 3, 4, 5], False, note="batches differ")
    yield call(make.tensor(2, 2, 3), [2, 3, 4], False, note="one axis")
