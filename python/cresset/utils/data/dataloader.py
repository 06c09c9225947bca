"""DataLoader: batches of a dataset, in the process that asks for them."""
from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from cresset import _C
from cresset.utils.data.dataset import IterableDataset
from cresset.utils.data.sampler import BatchSampler, RandomSampler, SequentialSampler, drawn_seed

__all__ = ["DataLoader", "default_collate", "default_convert", "get_worker_info"]


def get_worker_info() -> None:
    """None: nothing runs in a worker."""


def _is_numpy(value: Any) -> bool:
    return type(value).__module__ == "numpy"


def default_convert(data: Any) -> Any:
    """The value with NumPy's arrays and numbers as tensors, whatever it is nested in."""
    if _C._is_tensor(data) or isinstance(data, (str, bytes)):
        return data
    if _is_numpy(data):
        return data if hasattr(data, "dtype") and data.dtype.kind in "SUO" else _C.as_tensor(data)
    if isinstance(data, Mapping):
        return _like(data, {key: default_convert(item) for key, item in data.items()})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*map(default_convert, data))
    if isinstance(data, tuple):
        return [default_convert(item) for item in data]
    if isinstance(data, Sequence):
        return _like(data, [default_convert(item) for item in data])
    return data


def _like(original: Any, made: Any) -> Any:
    """The same kind of container, where it can be made of a plain one."""
    try:
        return type(original)(made)
    except TypeError:
        return made


def default_collate(batch: Any) -> Any:
    """Examples as one: tensors are stacked, numbers become tensors, containers are taken apart; texts stay lists."""
    first = batch[0]
    if _C._is_tensor(first):
        return _C._function("stack")(list(batch), 0)
    if _is_numpy(first):
        if first.dtype.kind in "SUO":
            raise TypeError(f"default_collate: an array of {first.dtype} is no batch of numbers; give a collate_fn")
        return _C._function("stack")([_C.as_tensor(item) for item in batch], 0) if first.shape else _C.as_tensor(batch)
    if isinstance(first, float):
        return _C.tensor(batch, dtype=_C.float64)
    if isinstance(first, int):
        return _C.tensor(batch)
    if isinstance(first, (str, bytes)):
        return batch
    if isinstance(first, Mapping):
        return _like(first, {key: default_collate([example[key] for example in batch]) for key in first})
    if isinstance(first, Sequence):
        if any(len(example) != len(first) for example in batch):
            raise RuntimeError("each element in list of batch should be of equal size; give a collate_fn that pads")
        columns = [default_collate(column) for column in zip(*batch)]
        if isinstance(first, tuple):
            return type(first)(*columns) if hasattr(first, "_fields") else columns
        return _like(first, columns)
    raise TypeError("default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found "
                    f"{type(first)}: give a collate_fn")


class _Iterator:
    """One pass over the loader."""

    def __init__(self, loader: DataLoader) -> None:
        self._loader = loader
        drawn_seed(loader.generator)  # PyTorch's seed of workers: what is drawn afterwards is the same
        self._batches = loader._pass()

    def __iter__(self) -> _Iterator:
        return self

    def __next__(self) -> Any:
        return next(self._batches)

    def __len__(self) -> int:
        return len(self._loader)


class DataLoader:
    """Batches of a dataset: by index in order, in random order (shuffle) or as a sampler says, or one after the other
    for an IterableDataset. batch_size=None: no batches, each example by itself."""

    _settled = False
    _FIXED = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")

    def __init__(self, dataset: Any, batch_size: int | None = 1, shuffle: bool | None = None, sampler: Any = None,
                 batch_sampler: Any = None, num_workers: int = 0, collate_fn: Callable[[Any], Any] | None = None,
                 pin_memory: bool = False, drop_last: bool = False, timeout: float = 0,
                 worker_init_fn: Callable[[int], None] | None = None, multiprocessing_context: Any = None,
                 generator: Any = None, *, prefetch_factor: int | None = None, persistent_workers: bool = False,
                 pin_memory_device: str = "", in_order: bool = True) -> None:
        # unused pin_memory, pin_memory_device: without an accelerator PyTorch pins nothing, either
        # unused worker_init_fn, in_order: there are no workers
        if num_workers < 0 or timeout < 0:
            raise ValueError("DataLoader: num_workers and timeout must not be negative")
        if num_workers:
            raise NotImplementedError(f"DataLoader(num_workers={num_workers}): examples are read in this process; use "
                                      "num_workers=0")
        for name, value in (("prefetch_factor", prefetch_factor), ("timeout", timeout or None),
                            ("multiprocessing_context", multiprocessing_context),
                            ("persistent_workers", persistent_workers or None)):
            if value is not None:
                raise ValueError(f"DataLoader: {name} is for workers, and num_workers is 0; leave it out")
        iterable = isinstance(dataset, IterableDataset)
        if iterable and shuffle:
            raise ValueError(f"DataLoader with IterableDataset: expected unspecified shuffle option, but got "
                             f"shuffle={shuffle}")
        if iterable and (sampler is not None or batch_sampler is not None):
            raise ValueError("DataLoader with IterableDataset: expected unspecified sampler and batch_sampler options")
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError("batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and "
                                 "drop_last")
            batch_size, drop_last = None, False
        elif batch_size is None and drop_last:
            raise ValueError("batch_size=None option disables auto-batching and is mutually exclusive with drop_last")
        if sampler is None:
            sampler = (itertools.repeat(None) if iterable else
                       RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset))
        if batch_size is not None and batch_sampler is None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.dataset, self.batch_size, self.drop_last = dataset, batch_size, drop_last
        self.sampler, self.batch_sampler, self.generator = sampler, batch_sampler, generator
        self.num_workers, self.pin_memory, self.timeout = num_workers, pin_memory, timeout
        self.pin_memory_device, self.prefetch_factor, self.in_order = pin_memory_device, prefetch_factor, in_order
        self.worker_init_fn, self.persistent_workers = worker_init_fn, persistent_workers
        self.multiprocessing_context = multiprocessing_context
        self.collate_fn = collate_fn if collate_fn is not None else (
            default_convert if batch_sampler is None else default_collate)
        self._settled = True

    def __setattr__(self, name: str, value: Any) -> None:
        if self._settled and name in self._FIXED:
            raise ValueError(f"{name} attribute should not be set after {type(self).__name__} is initialized; make "
                             "another one")
        super().__setattr__(name, value)

    def __iter__(self) -> _Iterator:
        return _Iterator(self)

    def __len__(self) -> int:
        if not isinstance(self.dataset, IterableDataset):
            return len(self.sampler if self.batch_sampler is None else self.batch_sampler)
        length = len(self.dataset)  # type: ignore[arg-type]
        if self.batch_size is None:
            return length
        return length // self.batch_size if self.drop_last else -(-length // self.batch_size)

    def _pass(self) -> Iterator[Any]:
        if isinstance(self.dataset, IterableDataset):
            examples = iter(self.dataset)
            if self.batch_size is None:
                yield from map(self.collate_fn, examples)
                return
            while batch := list(itertools.islice(examples, self.batch_size)):
                if len(batch) < self.batch_size and self.drop_last:
                    return
                yield self.collate_fn(batch)
            return
        if self.batch_sampler is None:
            for index in self.sampler:
                yield self.collate_fn(self.dataset[index])
            return
        many = getattr(self.dataset, "__getitems__", None)
        for indices in self.batch_sampler:
            yield self.collate_fn(many(indices) if callable(many) else [self.dataset[i] for i in indices])
