"""P1: archives of the first layout, whose files of tensors were called .json, are read with a warning."""
import io
import pathlib
import warnings
import zipfile

import cresset
import numpy as np
import pytest

DATA = pathlib.Path(__file__).resolve().parents[1] / "data" / "cli"


def test_tensors_in_files_called_json():
    out = io.BytesIO()
    with zipfile.ZipFile(DATA / "affine_old.pt2") as old, zipfile.ZipFile(out, "w") as new:
        names = old.namelist()
        assert "serialized_state_dict.pt" in names
        for name in names:
            to = name.replace("state_dict.pt", "state_dict.json").replace("constants.pt", "constants.json")
            new.writestr(zipfile.ZipInfo(to), old.read(name))
    out.seek(0)
    with pytest.warns(UserWarning, match="serialized_state_dict.json: this layout of archives is deprecated"):
        program = cresset.export.load(out)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        expected = cresset.export.load(DATA / "affine_old.pt2").state_dict
    assert sorted(program.state_dict) == sorted(expected) and expected
    for name, tensor in expected.items():
        np.testing.assert_array_equal(program.state_dict[name].detach().numpy(), tensor.detach().numpy())
