"""Put first on PYTHONPATH by `./dev test --no-torch`: `import torch` fails here, in subprocesses too."""
import importlib.abc
import sys


class _NoTorch(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == "torch" or name.startswith("torch."):
            raise ModuleNotFoundError(f"No module named {name!r} (blocked: this run is without torch)", name=name)
        return None


sys.meta_path.insert(0, _NoTorch())
