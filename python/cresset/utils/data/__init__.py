"""Data for training: datasets, samplers and the loader that makes batches of them.

    loader = DataLoader(TensorDataset(images, labels), batch_size=32, shuffle=True)
    for image, label in loader: ...

Indices are drawn as PyTorch draws them: for one seed, batches are the same. Everything runs in the process that asks:
num_workers is 0.
"""
from cresset import _lazy

_WHERE = {
    **dict.fromkeys("Dataset IterableDataset TensorDataset StackDataset ConcatDataset ChainDataset Subset "
                    "random_split".split(), "dataset"),
    **dict.fromkeys("Sampler SequentialSampler RandomSampler SubsetRandomSampler WeightedRandomSampler "
                    "BatchSampler".split(), "sampler"),
    **dict.fromkeys("DataLoader default_collate default_convert get_worker_info".split(), "dataloader"),
}
__all__ = [*_WHERE]
__getattr__, __dir__ = _lazy.names(globals(), _WHERE, {"dataset", "sampler", "dataloader"})
