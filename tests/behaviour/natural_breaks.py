"""Functions in which captures end by themselves: what ends one, in every place where it may stand. `programs()` gives
{name: function}, in the form of the behaviour suite (`f(a, log, o)`)."""
import behaviour_programs

PRELUDE = """
import logging, re, warnings
@cresset._dynamo.disable
def aside(x):
    return x * 3
def drive(coroutine):
    try:
        while True:
            coroutine.send(None)
    except StopIteration as end:
        return end.value
def every(asynchronous):
    found = []
    async def collect():
        async for x in asynchronous:
            found.append(x)
    drive(collect())
    return found
"""

# expressions; what they give is not used, or only logged
ENDS = {
    "print": "print('here', o.k)",
    "branch": "(1 if a.sum() > 0 else log.append('negative'))",
    "item": "log.append(a.sum().item())",
    "float": "float(a.abs().max())",
    "truth": "bool((a > 0).any())",
    "list": "log.append(a.tolist())",
    "opaque": "log.append(id(a) == id(a))",
    "iterator": "log.append(next(re.finditer('m', o.name)).start())",
    "locals": "log.append(len(locals()))",
    "logging": "logging.getLogger('nobody').debug('%s', a.shape)",
    "asked": "cresset._dynamo.graph_break()",
    "disabled": "log.append(aside(a))",
    "key": "sorted([a.sum(), a.max()], key=lambda t: t.item())",
}

PLACES = {
    "straight": "b = a * 2\n<end>\nreturn b + 1",
    "twice": "b = a * 2\n<end>\nb = b + 1\n<end>\nreturn b - 1",
    "stack": "return [a * 2, (a + 1, <end>, a - 1)], {'k': a * 3}",
    "argument": "b = append_to([a + 1], (<end>, a * 2)[1])\nreturn b, b[1] - 1",
    "keyword": "return items_of(a + 1, *[2], u=(<end>, a * 2)[1], **{'v': a - 1})",
    "returned": "b = a + 1\nreturn b, (<end>, b * 2)[1]",
    "condition": "b = a + 1\nif (<end>, o.k)[1] > 2:\n    return b * 2\nreturn b * 3",
    "assertion": "b = a + 1\nassert (<end>, 1)[1]\nreturn b * 2",
    "format": 'b = a + 1\nreturn f"{(<end>, o.k)[1]:>4}", b * 2',
    "for_range": "for k in range(3):\n    a = a * 2\n    <end>\nreturn a + 1",
    "for_items": "t = a * 0\nfor n in o.items:\n    t = t + a * n\n    <end>\nelse:\n    log.append('else')\nreturn t",
    "for_zip": "t = a * 0\nfor i, (n, c) in enumerate(zip(o.items, 'abc')):\n    t = t + n\n    <end>\nreturn t, i, c",
    "for_generator": "t = a * 0\nfor n in (k * 2 for k in o.items):\n    t = t + n\n    <end>\nreturn t",
    "for_object": "t = a * 0\nfor n in Countdown(3):\n    t = t + n\n    <end>\nreturn t",
    "while_count": "n = 0\nwhile n < 3:\n    a = a + n\n    <end>\n    n += 1\nreturn a",
    "while_data": "while a.sum() < 50:\n    a = a.abs() + 1\n    <end>\nreturn a * 2",
    "loop_in_loop": """
        for i in range(2):
            b = a + i
            for j in range(3):
                if j == 1:
                    continue
                b = b * 2
                <end>
                if i:
                    break
        return b
        """,
    "branch_on_number": "if o.k > 2:\n    b = a + 1\n    <end>\nelse:\n    b = a - 1\n    <end>\nreturn b * 2",
    "branch_on_data": "if a.sum() > 0:\n    b = a + 1\n    <end>\nelse:\n    b = a - 1\n    <end>\nreturn b * 2",
    "try_body": """
        try:
            b = a * 2
            <end>
            b = b + int('x')
        except ValueError as error:
            log.append(str(error))
            b = a - 1
        return b * 3
        """,
    "try_whole": """
        try:
            b = a * 2
            <end>
            b = b + 1
        except ValueError:
            b = a
        else:
            b = b * 2
        return b
        """,
    "handler": """
        try:
            int('x')
        except ValueError:
            b = a * 2
            <end>
            b = b + 1
        return b - 1
        """,
    "finally_": """
        try:
            b = a * 2
        finally:
            <end>
            log.append('finally')
        return b + 1
        """,
    "returns_in_try": """
        try:
            b = a * 2
            <end>
            return b + 1
        finally:
            log.append('left')
        """,
    "with_manager": "with Manager(log) as m:\n    b = a * 2\n    <end>\n    b = b + 1\nreturn b - 1, m.swallow",
    "with_swallowed": """
        with Manager(log, (KeyError,)):
            b = a * 2
            <end>
            raise KeyError('swallowed')
        return b - 1
        """,
    "with_generator": "with managed(log, o.k) as n:\n    b = a * n\n    <end>\n    b = b + 1\nreturn b - 1",
    "with_two": "with Manager(log), managed(log) as n:\n    b = a * n\n    <end>\n    b = b + 1\nreturn b - 1",
    "without_gradients": "with cresset.no_grad():\n    b = a * 2\n    <end>\n    b = b + 1\nreturn b - 1",
    "comprehension": "return [(a * k, <end>)[0] for k in range(3)]",
    "dict_comprehension": "return {k: (a * k, <end>)[0] for k in range(3)}",
    "comprehension_in_loop": "b = []\nfor n in o.items:\n    b += [(a * k, <end>)[0] for k in range(2)]\nreturn b",
    "generator": """
        def g():
            for k in range(3):
                b = a * k
                <end>
                yield b
        return list(g())
        """,
    "generator_waits": """
        def g():
            yield a + 1
            yield a * 2
        it = g()
        b = next(it)
        <end>
        return b, next(it), list(it)
        """,
    "expression_waits": "it = (a * k for k in range(3))\nb = next(it)\n<end>\nreturn [b, *it]",
    "generator_sent": """
        def g():
            n = yield a
            <end>
            m = yield a * n
            return a + m
        it = g()
        b = next(it), it.send(2)
        try:
            it.send(3)
        except StopIteration as stop:
            return b, stop.value
        """,
    "yield_from": """
        def inner():
            yield a + 1
            <end>
            return a + 2
        def g():
            b = yield from inner()
            yield b
        return list(g())
        """,
    "callee": "def inner(x):\n    y = x * 2\n    <end>\n    return y + 1\nreturn inner(a - 1) * 3",
    "deep_callee": """
        def inner(x):
            y = x * 2
            <end>
            return y + 1
        def outer(x):
            y = inner(x + 1)
            return inner(y) - 1
        return outer(a) * 3
        """,
    "callback": "def inner(x):\n    <end>\n    return x * 2\nreturn list(map(inner, [a, a + 1]))",
    "lambda_": "f = lambda x: (x * 2, <end>)[0]\nreturn f(a) + f(a + 1)",
    "closure": """
        n = o.k
        def inner(x):
            nonlocal n
            n += 1
            <end>
            return x + n
        return inner(a) * 2, n
        """,
    "recursion": """
        def inner(x, n):
            <end>
            return inner(x * 2, n - 1) + 1 if n else x
        return inner(a, 2)
        """,
    "coroutine": """
        async def inner(x):
            y = x * 2
            <end>
            return y + 1
        async def outer():
            return await inner(a) - 1
        return drive(outer())
        """,
    "async_generator": """
        async def g():
            yield a * 2
            <end>
            yield a + 1
        return every(g())
        """,
    "async_with": """
        class Door:
            async def __aenter__(self):
                log.append('in')
            async def __aexit__(self, *exc):
                log.append('out')
        async def inner():
            async with Door():
                b = a * 2
                <end>
            return b + 1
        return drive(inner())
        """,
    "class_body": "class Made:\n    x = a * 2\n    y = (<end>, 1)[1]\nreturn Made.x + 1, Made.y",
    "exec_": "space = {'a': a}\nexec('b = a * 2', space)\n<end>\nreturn space['b'] + 1",
    "eval_": "b = a + 1\n<end>\nreturn eval('b * 2', {'b': b}) - 1",
    "writes": "a.add_(1)\n<end>\na.mul_(2)\nreturn a",
    "lists": "out = [a + 1]\nsame = out\n<end>\nsame.append(a * 2)\nreturn out, same is out",
    "object": "p = Point(a * 2, 1)\n<end>\np.x = p.x + 1\nreturn p, p.total",
    "outside": "o.child.x = a * 2\n<end>\no.child.y = a + 1\nreturn o.child.total",
    "globals_": "global COUNT\nCOUNT = COUNT + 1\n<end>\nCOUNT = COUNT * 2\nreturn a + COUNT",
    "module": "b = o.net(a)\n<end>\nreturn o.net(b)",
    "pattern": """
        match o.items:
            case [first, *rest]:
                b = a * first
                <end>
                return b + len(rest)
        return a
        """,
    "deleted": "b = a * 2\nc = b + 1\ndel b\n<end>\nreturn c",
    "raises": "b = a * 2\n<end>\nlog.append(b)\nraise KeyError('later')",
    "raises_from": """
        try:
            b = a * 2
            <end>
            raise KeyError('first')
        except KeyError as error:
            raise ValueError(o.k) from error
        """,
}


def programs():
    import behaviour_cases
    texts = behaviour_programs.crossed(PLACES, ENDS, "end")
    return behaviour_programs.family(behaviour_cases, "breaks", texts, behaviour_programs.PRELUDE + PRELUDE)
