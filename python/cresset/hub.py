"""Files of weights from the network: torch.hub's cache folder and its two ways of filling it."""
from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
import urllib.request
from typing import Any
from urllib.parse import urlparse

__all__ = ["download_url_to_file", "get_dir", "load_state_dict_from_url", "set_dir"]
HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")  # model-1a2b3c4d.pth: the file's digest begins so
_chosen: list[str] = []  # process: what set_dir() said


def _get_torch_home() -> str:
    cache = os.environ.get("XDG_CACHE_HOME", "~/.cache")
    return os.path.expanduser(os.environ.get("TORCH_HOME", os.path.join(cache, "torch")))


def get_dir() -> str:
    return _chosen[-1] if _chosen else os.path.join(_get_torch_home(), "hub")


def set_dir(d: str | os.PathLike[str]) -> None:
    _chosen[:] = [os.path.expanduser(os.fspath(d))]


# unused progress: a library prints nothing
def download_url_to_file(url: str, dst: str, hash_prefix: str | None = None, progress: bool = True) -> None:
    """The file appears under its name when it is whole and its SHA-256 begins with hash_prefix."""
    folder = os.path.dirname(os.path.abspath(os.path.expanduser(dst)))
    digest = hashlib.sha256()
    with tempfile.NamedTemporaryFile(dir=folder, delete=False) as part:
        try:
            with urllib.request.urlopen(url) as source:
                while block := source.read(1 << 20):
                    part.write(block)
                    digest.update(block)
            if hash_prefix and not digest.hexdigest().startswith(hash_prefix):
                raise RuntimeError(f"hub: the digest of {url} is {digest.hexdigest()}, expected one that begins with "
                                   f"{hash_prefix}: the file was damaged on its way or is another one; try again")
            part.close()
            shutil.move(part.name, os.path.expanduser(dst))
        finally:
            if os.path.exists(part.name):
                os.unlink(part.name)


def load_state_dict_from_url(url: str, model_dir: str | None = None, map_location: Any = None, progress: bool = True,
                             check_hash: bool = False, file_name: str | None = None, weights_only: bool = False) -> Any:
    """cresset.load() of the file at url, which is fetched once into model_dir (get_dir()/checkpoints). The reader only
    builds tensors and plain values, with weights_only or without."""
    from cresset import _serialization
    folder = model_dir or os.path.join(get_dir(), "checkpoints")
    os.makedirs(folder, exist_ok=True)
    name = file_name or os.path.basename(urlparse(url).path)
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        found = HASH_REGEX.search(name) if check_hash else None
        download_url_to_file(url, path, found.group(1) if found else None, progress)
    return _serialization.load(path, map_location=map_location, weights_only=weights_only or None)
