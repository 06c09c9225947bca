"""What the programs of the behaviour suite work on: each is `f(a, log, o)`, with a tensor, an empty list and an object
from outside, all made anew for every run. `World(seed)` makes them; other seeds give other values and sizes."""
import collections
import contextlib
import dataclasses
import enum
import os

LIBRARY = os.environ.get("CRESSET_TESTED_LIBRARY", "cresset")  # whose tensors the programs work on
if LIBRARY == "torch":
    import torch as cresset
else:
    import cresset


class Point:
    """Plain, with a property, a class attribute, static and class methods."""
    kind = "point"

    def __init__(self, x, y=1):
        self.x, self.y = x, y

    @property
    def total(self):
        return self.x + self.y

    @total.setter
    def total(self, value):
        self.x = value - self.y

    def scaled(self, n):
        return Point(self.x * n, self.y * n)

    @classmethod
    def origin(cls):
        return cls(0, 0)

    @staticmethod
    def double(n):
        return n * 2


class Child(Point):
    kind = "child"

    def __init__(self, x, y=1, z=2):
        super().__init__(x, y)
        self.z = z

    def scaled(self, n):
        made = super().scaled(n)
        made.y += self.z
        return made


class Slotted:
    __slots__ = ("x", "y")

    def __init__(self, x, y=1):
        self.x = x
        self.y = y


class Made:
    def __new__(cls, x, y=1):
        self = super().__new__(cls)
        self.x = x
        return self

    def __init__(self, x, y=1):
        self.y = y


@dataclasses.dataclass
class Data:
    x: object
    y: int = 1

    def __post_init__(self):
        self.y = self.y + 0


@dataclasses.dataclass(frozen=True)
class Frozen:
    x: object
    y: int = 1


@dataclasses.dataclass(order=True)
class Ordered:
    y: int
    x: object = dataclasses.field(default=None, compare=False)


Pair = collections.namedtuple("Pair", "x y", defaults=(1,))


class Watched:
    def __init__(self, x, y=1):
        self.x, self.y = x, y

    def __setattr__(self, name, value):
        object.__setattr__(self, name, value)
        object.__setattr__(self, "last", name)


class Lazy:
    def __init__(self, x, y=1):
        self.__dict__["x"] = x

    def __getattr__(self, name):
        if name == "y":
            return 1
        raise AttributeError(name)


class Sized:
    """Its truth is its length's."""

    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n


class Vector:
    def __init__(self, x, y=1):
        self.x, self.y = x, y

    def __add__(self, other):
        return Vector(self.x + other.x, self.y + other.y) if isinstance(other, Vector) else NotImplemented

    def __radd__(self, n):
        return Vector(self.x + n, self.y + n)

    def __neg__(self):
        return Vector(-self.x, -self.y)

    def __eq__(self, other):
        return isinstance(other, Vector) and self.y == other.y

    def __lt__(self, other):
        return self.y < other.y

    def __len__(self):
        return self.y

    def __bool__(self):
        return self.y > 0

    def __getitem__(self, i):
        return (self.x, self.y)[i]

    def __contains__(self, item):
        return item == self.y

    def __iter__(self):
        yield self.x
        yield self.y

    def __call__(self, n):
        return self.y * n


class Table(dict):
    def __init__(self, x, y=1):
        super().__init__(x=x, y=y)

    def __getattr__(self, name):
        return self[name]

    def __missing__(self, key):
        return 7


class Stack(list):
    def __init__(self, x, y=1):
        super().__init__([x, y])

    @property
    def x(self):
        return self[0]

    @property
    def y(self):
        return self[1]


class Positive:
    """A descriptor."""

    def __set_name__(self, owner, name):
        self.name = "_" + name

    def __get__(self, instance, owner=None):
        return self if instance is None else getattr(instance, self.name)

    def __set__(self, instance, value):
        if isinstance(value, int) and value < 0:
            raise ValueError("negative")
        setattr(instance, self.name, value)


class Checked:
    y = Positive()

    def __init__(self, x, y=1):
        self.x, self.y = x, y


class Hidden:
    """What is in its __dict__ is hidden by a property."""

    @property
    def x(self):
        return self.__dict__["x"]

    @x.setter
    def x(self, value):
        self.__dict__["x"] = value + 100


class Failure(ValueError):
    def __init__(self, code):
        super().__init__(f"code {code}")
        self.code = code


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 5


class Manager:
    def __init__(self, log, swallow=()):
        self.log, self.swallow = log, swallow

    def __enter__(self):
        self.log.append("enter")
        return self

    def __exit__(self, kind, value, trace):
        self.log.append(kind.__name__ if kind else "exit")
        return kind is not None and issubclass(kind, self.swallow)


@contextlib.contextmanager
def managed(log, value=1):
    log.append("in")
    try:
        yield value
    except KeyError:
        log.append("seen")
        raise
    finally:
        log.append("out")


class Closed:
    def __init__(self, log):
        self.log = log

    def close(self):
        self.log.append("closed")


class Countdown:
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return self

    def __next__(self):
        if self.n <= 0:
            raise StopIteration
        self.n -= 1
        return self.n


class Net(cresset.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = cresset.nn.Linear(3, 3)
        self.scale = 2.0
        self.calls = 0
        self.register_buffer("seen", cresset.zeros(3))

    def forward(self, x):
        return self.inner(x) * self.scale


class Outside:
    """An object from outside with something of everything in it."""

    def __init__(self, seed):
        self.k = 2 + seed
        self.items = [1, 2, 3 + seed]
        self.table = {"one": 1, "two": 2 + seed}
        self.child = Point(3, 4 + seed)
        self.twin = self.child
        self.slotted = Slotted(5, 6)
        self.pair = Pair(7, 8)
        self.watched = Watched(1, 2)
        self.vector = Vector(1, 2 + seed)
        self.data = Data(3, 4)
        self.color = Color.RED
        self.name = "name"
        self.w = cresset.full((3,), 2.0 + seed)
        self.f = lambda n: n + 1
        self.net = make_net(seed)
        self.empty = None
        self.ordered = collections.OrderedDict(b=1, a=2)


def make_net(seed):
    net = Net()
    with cresset.no_grad():
        for p in net.parameters():
            p.fill_(0.5 + seed)
    return net.eval()


def arguments(seed):
    a = cresset.arange(6.0 if seed != 2 else 12.0).reshape(-1, 3) - 2.5 + seed
    return a, [], Outside(seed)
