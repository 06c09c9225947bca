"""RemovableHandle: what registering a hook returns; `remove()` (or leaving a `with`) takes the hook out again.
BackwardHook: the backward hooks of one call of a module."""
import functools
import itertools
import warnings
import weakref

__all__ = ["RemovableHandle", "BackwardHook"]

_ids = itertools.count()


class RemovableHandle:
    def __init__(self, hooks_dict, *, extra_dict=None):
        self.id = next(_ids)
        self._dicts = [weakref.ref(hooks_dict)]
        for extra in extra_dict if isinstance(extra_dict, list) else [extra_dict] if extra_dict is not None else []:
            self._dicts.append(weakref.ref(extra))

    def remove(self):
        for ref in self._dicts:
            hooks = ref()
            if hooks is not None:
                hooks.pop(self.id, None)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.remove()


def _tensor_places(values):
    """Where a tuple has tensors."""
    from cresset import _C
    return [i for i, value in enumerate(values) if _C._is_tensor(value)]


def _spread(places, grads, n):
    """Gradients of tensors at the places of a tuple of n, None elsewhere."""
    made = [None] * n
    for place, grad in zip(places, grads):
        made[place] = grad
    return tuple(made)


class BackwardHook:
    """One call of a module, between two identities: of its arguments, and of its results.

    The one behind the results is walked first: it keeps their gradients, after the pre-hooks had a look at them. The
    one before the arguments is walked last, with the gradients of those: there the hooks get both.
    """

    def __init__(self, module, user_hooks, user_pre_hooks):
        self.module, self.user_hooks, self.user_pre_hooks = module, user_hooks, user_pre_hooks
        self.grad_outputs = None
        self.input_places = None  # None: no argument requires grad, hooks run at the results
        self.n_inputs = -1

    def _framed(self, values, set_hook):
        """(the tuple with tensors behind an identity, places of the tensors); the places are None without gradients."""
        from cresset import _C
        places = _tensor_places(values)
        if not _C.is_grad_enabled() or not any(values[i].requires_grad for i in places):
            return values, None
        made = _identity().apply(*(values[i] for i in places))
        set_hook(next(t.grad_fn for t in made if t.requires_grad))
        values = list(values)
        for place, tensor in zip(places, made):
            values[place] = tensor
        return values, places

    def setup_input_hook(self, args):
        self.n_inputs = len(args)

        def set_hook(node):
            def hook(grad_inputs, grad_outputs):  # unused grad_outputs: those of the identity
                if self.grad_outputs is None:
                    return None  # the walk did not come from the results
                given = _spread(self.input_places, grad_inputs, self.n_inputs)
                for each in self.user_hooks:
                    given = self._exchanged(each(self.module, given, self.grad_outputs), given, "hook", "grad_input")
                self.grad_outputs = None
                return tuple(given[i] for i in self.input_places)
            node.register_hook(hook)
        made, self.input_places = self._framed(args, set_hook)
        return tuple(made)

    def setup_output_hook(self, result):
        outputs = result if isinstance(result, tuple) else (result,)

        def set_hook(node):
            def hook(made, grads):  # unused made: an identity's are its grads
                self.grad_outputs = _spread(places, grads, len(outputs))
                for each in self.user_pre_hooks:
                    self.grad_outputs = self._exchanged(each(self.module, self.grad_outputs), self.grad_outputs,
                                                        "pre hook", "grad_output")
                wanted = self.grad_outputs
                if self.input_places is None:
                    self._without_inputs()
                return tuple(wanted[i] for i in places)
            node.register_hook(hook)
        made, places = self._framed(outputs, set_hook)
        if places is None:
            return result
        return type(result)(made) if type(result) is tuple else type(result)(*made) if isinstance(result, tuple) \
            else made[0]

    def _without_inputs(self):
        if self.user_hooks:
            warnings.warn("a full backward hook runs when the gradients of the module's results are there: none of its "
                          "inputs requires gradients", UserWarning, stacklevel=2)
        none = (None,) * self.n_inputs
        for each in self.user_hooks:
            changed = each(self.module, none, self.grad_outputs)
            if changed is not None and not (isinstance(changed, tuple) and all(g is None for g in changed)):
                raise RuntimeError("Backward hook for Modules where no input requires gradient should always return "
                                   "None or None for all gradients.")
        self.grad_outputs = None

    @staticmethod
    def _exchanged(changed, given, kind, what):
        if changed is None:
            return given
        changed = changed if isinstance(changed, tuple) else (changed,)
        if len(changed) != len(given):
            raise RuntimeError(f"Backward {kind} returned an invalid number of {what}, got {len(changed)}, but "
                               f"expected {len(given)}")
        return changed


@functools.cache
def _identity():
    """The function whose nodes the hooks are put on; made when the first one is: it needs autograd."""
    from cresset.autograd import Function

    class BackwardHookFunction(Function):
        @staticmethod
        def forward(ctx, *args):
            ctx.mark_non_differentiable(*(a for a in args if not a.requires_grad))
            return args

        @staticmethod
        def backward(ctx, *grads):  # unused ctx: an identity
            return grads
    return BackwardHookFunction
