"""A step of an optimizer over 50 parameters of mixed sizes, and over 50 small ones, where the calls are what costs:
here with the defaults, there with fused=True (the faster of PyTorch's ways)."""
from measure import compare, row

MIXED = [(256,), (64, 64), (512, 512), (1024,), (1000, 768), (3, 3, 64, 64), (10,), (2048, 512), (128,), (768, 768)] * 5
SMALL = [(64,), (32, 16)] * 25
OPTIMIZERS = [("AdamW", {}), ("Adam", {"amsgrad": True}), ("SGD", {"momentum": 0.9}), ("Adagrad", {})]


def step_of(module, kind, sizes, **options):
    params = [module.nn.Parameter(module.ones(size)) for size in sizes]
    for p in params:
        p.grad = module.ones(p.shape)
    optimizer = getattr(module.optim, kind)(params, **options)
    optimizer.step()
    return optimizer.step


def rows():
    import torch

    import cresset
    for label, sizes in (("mixed", MIXED), ("small", SMALL)):
        for kind, options in OPTIMIZERS:
            ours = step_of(cresset, kind, sizes, **options)
            ours, peer = compare(ours, step_of(torch, kind, sizes, fused=True, **options), rounds=7, pick=min)
            yield row(f"{kind} {label}", ours, peer, "torch fused", 1.0)
