"""P4: factors of matrices in native code. They compute in f64 whatever the tensors are, unless these are large, so
that a library of floats alone must have those loops, too."""
import pytest

import cresset
from cresset.export import export

PROGRAMS = {
    "matrix_exp": lambda a, b: cresset.linalg.matrix_exp(a / 8),
    "qr": lambda a, b: cresset.linalg.qr(a)[1].abs(),
    "inv": lambda a, b: cresset.linalg.inv(a),
    "solve": lambda a, b: cresset.linalg.solve(a, b),
    "det": lambda a, b: cresset.linalg.slogdet(a)[1],
    "cholesky": lambda a, b: cresset.linalg.cholesky(a @ a.T),
    "triangle": lambda a, b: cresset.linalg.solve_triangular(a.triu(), b, upper=True),
    "lu": lambda a, b: cresset.linalg.lu_factor(a)[0],
    "eigh": lambda a, b: cresset.linalg.eigh(a + a.T)[0],
    "eig": lambda a, b: (cresset.linalg.eig(a)[1].abs().sum(1) + cresset.linalg.eigvals(a).abs()).sum(),
    "svd": lambda a, b: cresset.linalg.svd(a)[1],
    "pinv": lambda a, b: cresset.linalg.pinv(a),
    "lstsq": lambda a, b: cresset.linalg.lstsq(a, b)[0],
}


@pytest.mark.parametrize("size", [3, 70])
@pytest.mark.parametrize("name", PROGRAMS)
def test_factors_of_floats(name, size, tmp_path):
    class Module(cresset.nn.Module):
        def forward(self, a, b):
            return PROGRAMS[name](a, b)

    cresset.manual_seed(1)
    a, b = cresset.randn(size, size) + 3 * cresset.eye(size), cresset.randn(size, 2)
    path = cresset.aot_compile(export(Module(), (a, b)), options={"output_path": str(tmp_path / "lib.so")})
    want, got = PROGRAMS[name](a, b), cresset.aot_load(path)(a, b)
    assert got.dtype is cresset.float32 and want.abs().max() > 0
    assert (want - got).abs().max() <= 1e-5 * want.abs().max()
