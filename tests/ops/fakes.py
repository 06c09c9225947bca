"""The same samples without data: fake runs, static and symbolic, must give the real run's dtype, sizes, strides, offset
and aliasing. `check` compares one call; sizes that depend on data are unknown to a fake run and only their place is
compared."""
import cresset
import harness


def storages(call_args):
    """Cresset tensors among the arguments, in the order the fake run numbers them (each object once)."""
    seen = []
    for t in harness.cresset_tensors(call_args):
        if not any(t is s for s in seen):
            seen.append(t)
    return seen


def flatten(results):
    out = []
    for r in results:
        if isinstance(r, list):
            out.extend(r)
        else:
            out.append(r)
    return out


def check(name, op, c):
    """One real run and two fake ones. Yields an outcome each: "equal", "refused" when both runs refuse, "data", or the
    text of a difference."""
    args, kwargs = harness.ours(harness.twin(tuple(c.args))), {k: harness.ours(harness.twin(v))
                                                               for k, v in c.kwargs.items()}
    fakes = [harness.attempt(cresset._C._fake_call, (name, args, kwargs, symbolic), {}) for symbolic in (False, True)]
    real = harness.attempt(op, args, kwargs)
    for fake, kind in zip(fakes, ("static", "symbolic")):
        try:
            yield compare(f"{name}({harness.describe(c)}) {kind}", args, kwargs, fake, real)
        except harness.Different as error:
            yield str(error)


def compare(where, args, kwargs, fake, real):
    if isinstance(real, harness.Refused):
        if isinstance(fake, harness.Refused):
            return "refused"
        return "data"  # a value was refused (an index out of range): a fake run has no values to look at
    if isinstance(fake, harness.Refused):
        if isinstance(fake.error, cresset.GuardOnDataDependentSymNode):
            return "data"
        raise harness.Different(f"{where}: the fake run refuses: {type(fake.error).__name__}: {fake.error}")
    inputs = storages(list(args) + list(kwargs.values()))
    results = harness.cresset_tensors(list(real) if isinstance(real, (tuple, list)) else [real])
    metas = [m for m in flatten(fake) if m is not None]
    if len(metas) != len(results):
        raise harness.Different(f"{where}: {len(results)} results, {len(metas)} fake")
    for i, (t, (dtype, size, stride, offset, alias)) in enumerate(zip(results, metas)):
        known = [s for s in size if s is not None]
        if dtype is not t.dtype or len(size) != t.dim() or any(a is not None and a != b for a, b in zip(size, t.shape)):
            raise harness.Different(f"{where}[{i}]: real {t.dtype}{list(t.shape)}, fake {dtype}{size}")
        if t.numel() and len(known) == len(size) and any(n > 1 and s is not None and s != r for n, s, r in zip(t.shape,
                stride, t.stride())):
            raise harness.Different(f"{where}[{i}]: strides {tuple(t.stride())}, fake {stride}")
        shared = [k for k, a in enumerate(inputs) if a._storage_id() == t._storage_id()]
        if (alias >= 0) != bool(shared) or (shared and alias not in shared):
            raise harness.Different(f"{where}[{i}]: shares memory with argument {shared}, fake says {alias}")
        if shared and offset is not None and t.numel() and offset != t.storage_offset():
            raise harness.Different(f"{where}[{i}]: offset {t.storage_offset()}, fake {offset}")
    return "equal"
