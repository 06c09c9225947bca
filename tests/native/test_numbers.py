"""Arithmetic on sizes and on numbers read from data in native code: what the interpreter and Python give, at every
size."""
import cresset
import number_cases as cases

LINES = cases.lines("""
n & 3
n | 4
n ^ 1
n & m
~n
u & 3
u | 4
u ^ n
n << 1
1000 >> m
round(n / 4)
round((n - 10) / 4)
round(uf)
(n / 4).is_integer()
t.sym_not(ub)
ub & b
b ^ (m > 4)
n // -4
-n % 4
(n - 8) // m
n // 0.1
n % 0.1
-n % 2.5
u // 2
uf // 0.5
t.sym_ite(ub, n, m)
abs(u)
n ** 2
2 ** n
math.ceil(n / 4)
""")


def test_numbers_in_native_code(tmp_path):
    """One program with all of them, so that one compilation serves."""
    line = "[" + ", ".join(LINES) + "]"
    eager = cases.runs(cresset, cases.program(cresset, line))
    ep = cases.export(cresset, line)
    assert cases.runs(cresset, ep.module()) == eager
    native = cresset.aot_load(cresset.aot_compile(ep, options={"output_path": tmp_path / "numbers.so"}))
    assert cases.runs(cresset, native) == eager
