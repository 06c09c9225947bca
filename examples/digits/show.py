"""Shows what the digits' program said: a few images as text with its predictions, then the accuracy. Plain Python.

    python3 show.py images.npy labels.npy out.npz
"""
import array
import ast
import math
import sys
import zipfile

RAMP = " .:-=+*#%@"
CODES = {"<f4": "f", "<f8": "d", "<i8": "q", "<i4": "i", "|u1": "B", "|i1": "b"}


def read_npy(data):
    """(shape, flat values) of a .npy file in C order."""
    begin = 10 if data[6] == 1 else 12
    size = int.from_bytes(data[8:begin], "little")
    header = ast.literal_eval(data[begin:begin + size].decode())
    assert data[:6] == b"\x93NUMPY" and not header["fortran_order"]
    values = array.array(CODES[header["descr"]], data[begin + size:])
    assert len(values) == math.prod(header["shape"])
    return header["shape"], values


def picture(pixels, side, most):
    rows = [pixels[i * side:(i + 1) * side] for i in range(side)]
    return ["".join(RAMP[min(9, int(value / most * 9.99))] * 2 for value in row) for row in rows]


def main(images_path, labels_path, results_path):
    shape, images = read_npy(open(images_path, "rb").read())
    _, labels = read_npy(open(labels_path, "rb").read())
    (count,), said = read_npy(zipfile.ZipFile(results_path).read("out0.npy"))
    side = shape[-1]
    wrong = [i for i in range(count) if said[i] != labels[i]]
    shown = ([i for i in range(count) if i not in wrong][:4] + wrong)[:5]
    pictures = [picture(images[i * side * side:(i + 1) * side * side], side, max(images)) for i in shown]
    for lines in zip(*pictures):
        print("  " + "   ".join(lines))
    print()
    words = [f"says {said[i]}" + (f", is {labels[i]}" if i in wrong else "") for i in shown]
    print("  " + "   ".join(word.ljust(2 * side) for word in words).rstrip())
    print()
    print(f"accuracy: {100 * (count - len(wrong)) / count:.1f} % ({count - len(wrong)} of {count} digits)")


if __name__ == "__main__":
    main(*sys.argv[1:])
