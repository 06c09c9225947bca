"""RemovableHandle: what registering a hook returns; `remove()` (or leaving a `with`) takes the hook out again."""
import itertools
import weakref

__all__ = ["RemovableHandle"]

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
