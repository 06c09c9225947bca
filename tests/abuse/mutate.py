"""Archives that are nearly right: one or a few things of the JSON, of the order of its lists or of the bytes are
changed.

Everything follows from the random.Random that is given; needs Python alone."""
import copy
import io
import json
import zipfile

NUMBERS = [0, 1, 2, 3, 4, 5, 7, 8, 13, 16, 17, 64, 65, 255, 1000, -1, -2, -3, -100, 2**15, 2**31 - 1, 2**31, 2**32,
           2**40, 2**53, 2**61, 2**62, 2**63 - 1,
           2**63, -2**31, -2**62, -2**63, -2**63 - 1, 10**30, 0.5, -0.5, 1e300, -1e300, 1e19]
TEXTS = ["", "x", "mean", "Infinity", "NaN", "s0", "s0 + 1", "Symbol('s0')", "2**62", "Max(1, s0)", "cpu", "cuda",
         "a" * 3000, "é", "../x", "\u0000"]
DTYPES = range(0, 40)


def read(path):
    """[(name, bytes)] of the members."""
    with zipfile.ZipFile(path) as z:
        return [(i.filename, z.read(i)) for i in z.infolist()]


def pack(members):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        for name, data in members:
            z.writestr(zipfile.ZipInfo(name), data)
    return out.getvalue()


def places(value, found=None):
    """Every (container, key) below the value."""
    found = [] if found is None else found
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, below in items:
        found.append((value, key))
        places(below, found)
    return found


def odd_number(rng, v):
    kind = rng.randrange(4)
    return v + rng.choice([-1, 1]) if kind == 0 else v * 2 if kind == 1 and abs(v) < 2**40 else rng.choice(NUMBERS)


def change_list(rng, v):
    kind = rng.randrange(7)
    if not v or kind == 0:
        v.extend(copy.deepcopy(v) or [None])
    elif kind == 1:
        del v[rng.randrange(len(v))]
    elif kind == 2:
        rng.shuffle(v)
    elif kind == 3:
        del v[rng.randrange(len(v)):]
    elif kind == 4:
        v.insert(rng.randrange(len(v) + 1), copy.deepcopy(rng.choice(v)))
    elif kind == 5 and len(json.dumps(v[0])) < 300:
        v.extend(copy.deepcopy(v[0]) for _ in range(rng.choice([17, 70, 600])))
    else:
        a, b = rng.randrange(len(v)), rng.randrange(len(v))
        v[a], v[b] = v[b], v[a]


def change_dict(rng, v):
    keys = list(v)
    if not keys:
        v["as_int"] = 3
    elif rng.random() < 0.3:
        del v[rng.choice(keys)]
    elif rng.random() < 0.5 and len(keys) > 1:
        a, b = rng.sample(keys, 2)
        v[a], v[b] = v[b], v[a]
    else:
        key = rng.choice(keys)
        v[rng.choice(["as_int", "as_tensor", "as_ints", "as_float", "as_none", "as_sym_int", "as_string", "as_graph",
                      "as_tensors"])] = v.pop(key)


def change(rng, where, others, ops):
    container, key = where
    v = container[key]
    if isinstance(v, bool) or v is None:
        container[key] = rng.choice([True, False, None, 0, 1, []])
    elif isinstance(v, (int, float)):
        container[key] = rng.choice(DTYPES) if key == "dtype" else odd_number(rng, v)
    elif isinstance(v, str):
        if key == "target" and rng.random() < 0.9:
            container[key] = rng.choice(ops)
        else:
            texts = [c[k] for c, k in rng.choices(others, k=6) if isinstance(c[k], str)]
            container[key] = rng.choice(texts or TEXTS) if rng.random() < 0.8 else rng.choice(TEXTS)
    elif rng.random() < 0.3:
        container[key] = copy.deepcopy(rng.choice(others)[0])
    elif isinstance(v, list):
        change_list(rng, v)
    else:
        change_dict(rng, v)


def spots(document):
    """Where changes go, by what they hit: arguments of nodes, metas of tensors, the rest."""
    graphs, nodes, metas = [document], [], []
    while graphs:
        g = graphs.pop()
        for container, key in places(g):
            if key == "nodes" and isinstance(container[key], list):
                nodes += places(container[key])
            elif key == "tensor_values":
                metas += places(container[key])
    return nodes, metas, places(document)


def mutated_json(rng, data, ops):
    document = json.loads(data)
    for _ in range(rng.choice([1, 1, 1, 2, 2, 3, 5])):
        nodes, metas, everything = spots(document)
        kind = rng.random()
        chosen = nodes if kind < 0.5 and nodes else metas if kind < 0.8 and metas else everything
        if chosen:
            change(rng, rng.choice(chosen), everything, ops)
    return json.dumps(document).encode()


def mutated_bytes(rng, data):
    data = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 4, 16])):
        if not data:
            break
        at, kind = rng.randrange(len(data)), rng.randrange(4)
        if kind == 0:
            data[at] = rng.randrange(256)
        elif kind == 1:
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 2:
            del data[at:at + rng.choice([1, 2, 8, 100])]
        else:
            data[at:at] = bytes(data[rng.randrange(len(data)):][:rng.choice([1, 4, 64])])
    return bytes(data)


def mutant(rng, members, ops):
    """The bytes of an archive."""
    members = list(members)
    kind = rng.random()
    if kind < 0.05:
        return mutated_bytes(rng, pack(members))
    texts = [i for i, (name, data) in enumerate(members) if name.endswith(".json")]
    programs = [i for i in texts if "models/" in members[i][0] or "serialized_exported_program" in members[i][0]]
    if kind < 0.15 or not texts:
        at = rng.randrange(len(members))
        members[at] = (members[at][0], mutated_bytes(rng, members[at][1]))
    else:
        at = rng.choice(programs if programs and kind < 0.9 else texts)
        try:
            members[at] = (members[at][0], mutated_json(rng, members[at][1], ops))
        except ValueError:  # not JSON
            members[at] = (members[at][0], mutated_bytes(rng, members[at][1]))
    if rng.random() < 0.02:
        del members[rng.randrange(len(members))]
    return pack(members)
