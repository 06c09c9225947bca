"""functional_call: a module's forward with other parameters and buffers, for one call."""
import contextlib

__all__ = ["functional_call"]


def _slot(module, path):
    owner, _, name = path.rpartition(".")
    owner = module.get_submodule(owner)
    for table in (owner._parameters, owner._buffers):
        if name in table:
            return table, name
    raise KeyError(f"'{path}' is neither a parameter nor a buffer of {module._get_name()}")


@contextlib.contextmanager
def _reparametrize_module(module, parameters_and_buffers, tie_weights=False, strict=False):
    """The module with these tensors in place of its own; names of one tied tensor change together when tie_weights."""
    own = dict([*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False)])
    replacements = {path: value for path, value in parameters_and_buffers.items() if path in own or strict}
    if tie_weights:
        for path, value in list(replacements.items()):
            for other, tensor in own.items():
                if path not in own or tensor is not own[path] or tensor is None or other == path:
                    continue
                if other not in parameters_and_buffers:
                    replacements[other] = value
                elif parameters_and_buffers[other] is not value:
                    raise ValueError(f"functional_call got multiple values for keys {sorted([path, other])}, which are "
                                     "tied. Consider using tie_weights=False")
    if strict:
        missing, unexpected = set(own) - set(replacements), set(replacements) - set(own)
        if missing or unexpected:
            raise RuntimeError(f"strict: missing keys {sorted(missing)}, unexpected keys {sorted(unexpected)}")
    slots = [(*_slot(module, path), path, value) for path, value in replacements.items()]
    before = [(table, name, table[name]) for table, name, _, _ in slots]
    try:
        for table, name, _, value in slots:
            table[name] = value
        yield
    finally:
        for (table, name, value), (_, _, path, given) in zip(before, slots):
            if path in parameters_and_buffers and table.get(name) is not given:
                parameters_and_buffers[path] = table.get(name)  # the module assigned another: the caller's dict has it
            table[name] = value


def functional_call(module, parameters_and_buffers, args=None, kwargs=None, *, tie_weights=True, strict=False):
    """module(*args, **kwargs) with its parameters and buffers replaced by name; the module itself does not change."""
    if isinstance(parameters_and_buffers, (tuple, list)):
        merged = {}
        for part in parameters_and_buffers:
            twice = sorted(merged.keys() & part.keys())
            if twice:
                raise ValueError(f"{twice} appeared in multiple dictionaries; behavior of functional call is ambiguous")
            merged.update(part)
        parameters_and_buffers = merged
    args = () if args is None else args if isinstance(args, tuple) else (args,)
    with _reparametrize_module(module, parameters_and_buffers, tie_weights, strict):
        return module(*args, **(kwargs or {}))
