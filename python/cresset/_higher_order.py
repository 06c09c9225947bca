"""cond and while_loop: control flow that a graph keeps. On real tensors they simply run; where calls are recorded or
fake, their functions are recorded into subgraphs."""
from cresset import _C


def _region(name):
    return _C._packet("higher_order", name)


def _body(fn, operands):
    """The subgraph of a function; its results side by side, a single one as well."""
    return _C.record(lambda *args: _flat(fn(*args)), tuple(operands), names=tuple(f"arg{i}" for i in range(len(operands))))


def _flat(result):
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)


def cond(pred, true_fn, false_fn, operands=()):
    """true_fn(*operands) where pred holds, else false_fn(*operands); both must give results alike."""
    if not isinstance(operands, (tuple, list)):
        raise TypeError(f"cond(): operands must be a tuple of tensors, not {type(operands).__name__}")
    if not _C._is_recording() and not (_C.is_tensor(pred) and _C.is_fake(pred)):
        return (true_fn if pred else false_fn)(*operands)
    single = []

    def keep(fn):
        def body(*args):
            result = fn(*args)
            single.append(not isinstance(result, (tuple, list)))
            return result
        return body

    results = _region("cond")(pred, _body(keep(true_fn), operands), _body(keep(false_fn), operands), list(operands))
    return results[0] if all(single) else results


def while_loop(cond_fn, body_fn, carried_inputs):
    """Carries the inputs through body_fn for as long as cond_fn holds for them."""
    carried = tuple(carried_inputs)
    if not _C._is_recording():
        while cond_fn(*carried):
            carried = _flat(body_fn(*carried))
        return carried
    return _region("while_loop")(_body(cond_fn, carried), _body(body_fn, carried), list(carried), [])
