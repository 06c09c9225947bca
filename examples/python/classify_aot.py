"""The digits model compiled and called from Python, with its original call structure.

    ./dev exec python examples/python/classify_aot.py examples/digits/digits.pt2 examples/digits/images.npy
    examples/digits/labels.npy
"""
import os
import sys
import tempfile

import cresset
import numpy as np


def main(archive, images_path, labels_path):
    images, labels = np.load(images_path), np.load(labels_path)
    with tempfile.TemporaryDirectory() as folder:
        path = cresset.aot_compile(archive, options={"output_path": os.path.join(folder, "libdigits.so")})
        model = cresset.aot_load(path)  # or: cresset.export.load(archive).compile()
    result = model(images)  # {"digit": ..., "probability": ...}, as the module that was exported gave it
    print(f"{(result['digit'].numpy() == labels).sum()} of {len(labels)} digits right")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit("usage: classify_aot.py digits.pt2 images.npy labels.npy")
    main(*sys.argv[1:])
