"""Attributes and hooks that are replaced for some steps and restored afterwards."""
import functools

_MISSING = object()


class Patches:
    """Remembers what it replaced. `remove` restores all of it in reverse order."""

    def __init__(self):
        self._undo = []

    def __len__(self):
        return len(self._undo)

    def wrap(self, owner, name, make):
        """Replaces `owner.name` by make(original). False if there is no such attribute."""
        original = getattr(owner, name, None)
        if original is None:
            return False
        own = vars(owner).get(name, _MISSING)
        replacement = make(original)
        try:
            functools.update_wrapper(replacement, original)
        except (AttributeError, TypeError):  # a method of a compiled class has no dictionary
            pass
        setattr(owner, name, replacement)
        self._undo.append(lambda: delattr(owner, name) if own is _MISSING else setattr(owner, name, own))
        return True

    def keep(self, handle):
        """Removes the hook of this handle with the others."""
        self._undo.append(handle.remove)

    def remove(self):
        while self._undo:
            self._undo.pop()()
