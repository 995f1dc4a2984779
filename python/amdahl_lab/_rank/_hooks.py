"""Optimizers mark the steps of a script that does not do so itself; nothing is imported for scripts without PyTorch."""
import sys

from ._patches import Patches

_OPTIMIZER = "torch.optim.optimizer"
_patches = Patches()
_finder = None


def install(mark):
    """Calls mark(optimizer) at the end of every optimizer step, as soon as the script has imported PyTorch."""
    global _finder
    if _OPTIMIZER in sys.modules:
        _watch(sys.modules[_OPTIMIZER], mark)
        return
    _finder = _AfterImport(_OPTIMIZER, lambda module: _watch(module, mark))
    sys.meta_path.insert(0, _finder)


def installed():
    return _finder is not None or len(_patches) > 0


def remove():
    global _finder
    _patches.remove()
    if _finder is not None:
        _finder.remove()
        _finder = None


def _watch(module, mark):
    """Every optimizer of every version calls this empty method of its base class after a step."""
    def make(original):
        def stepped(optimizer):
            original(optimizer)
            mark(optimizer)
        return stepped
    if not _patches.wrap(module.Optimizer, "_optimizer_step_code", make):
        from . import _job
        _job.fail("this PyTorch does not say when an optimizer has stepped", "mark the step by `with amdahl_lab.step():`")


class _AfterImport:
    """A finder that calls `then(module)` after the module of this name was executed."""

    def __init__(self, name, then):
        self._name, self._then = name, then

    def find_spec(self, name, path=None, target=None):
        if name != self._name:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(name, path, target)
            if spec is not None and spec.loader is not None:
                self._follow(spec.loader)
                return spec
        return None

    def _follow(self, loader):
        execute = loader.exec_module

        def exec_module(module):
            execute(module)
            if self.remove():
                self._then(module)
        loader.exec_module = exec_module

    def remove(self):
        """Whether it was still in use."""
        if self not in sys.meta_path:
            return False
        sys.meta_path.remove(self)
        return True
