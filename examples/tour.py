"""A tour in Python: each line is shown, then run, then its result printed. `./dev exec python examples/tour.py`"""
import ast

TOUR = """
import cresset
from cresset import ops

x = cresset.arange(6.).reshape(2, 3)
x
x.softmax(-1)
x[:, 1:] @ x.T[1:]
x[x > 2] = -1
x.tolist()

# the op table: every overload has PyTorch's schema, a rule, and a text or a kernel
len(cresset._C._op_names())
cresset._C._schema("aten::silu")
ops.aten.silu.default(cresset.tensor([-1., 0., 1.]))
cresset._C._row("aten::silu")["scalar"]
cresset._C._row("aten::silu")["decomp"]

# a program becomes a graph; a dimension that has a name stays a symbol
def f(x, w): return (x @ w).relu().sum(0)
g = cresset.record(f, (cresset.ones(4, 3), cresset.ones(3, 2)), dynamic=({0: "n"}, None))
g
g.run(cresset.ones(7, 3), cresset.ones(3, 2))

# the same ops without data
mode = cresset.FakeTensorMode()
fake = mode.from_tensor(cresset.ones(4, 3), {0: "n"})
fake
with mode: y = cresset.cat([fake, fake]).T
y.shape, y.stride()

# derivatives are texts, too
cresset._C._row("aten::tanh")["grad"]
cresset._C._derivative("aten::tanh", (cresset.tensor([0., 1., 2.]),), {}, [cresset.ones(3)])

# seeds give PyTorch's numbers
_ = cresset.manual_seed(0)
cresset.randn(4)

# errors name the op, what was expected and what was found
cresset.ones(2, 3) @ cresset.ones(2)  # raises
"""


def run(text, scope):
    for line in text.strip().split("\n"):
        if not line or line.startswith("#"):
            print(line)
            continue
        code, _, note = line.partition("  # ")
        print(">>>", code)
        try:
            if isinstance(ast.parse(code).body[0], ast.Expr):
                print(repr(eval(code, scope)))
            else:
                exec(code, scope)
        except RuntimeError as error:
            if note != "raises":
                raise
            print(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    run(TOUR, {})
