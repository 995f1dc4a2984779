"""Time of PyTorch's operations that a script calls outside of its module, as the loss, on the host's clock."""


def watch(torch, timeline):
    """A watcher whose `resume` and `pause` nest with the user's own function modes."""
    overrides = torch.overrides

    class OperationWatch(overrides.TorchFunctionMode):
        """Adds a compute span for each outermost call."""

        def __torch_function__(self, func, types, args=(), kwargs=None):
            begin = timeline.clock.stamp()
            try:
                return func(*args, **(kwargs or {}))
            finally:
                timeline.add("compute", begin, timeline.clock.stamp())

        def resume(self):
            if not self._active:
                self._active = True
                self.__enter__()

        def pause(self):
            """Nothing if a mode of the user was entered since: the order has to stay."""
            if self._active and overrides._get_current_function_mode() is self:
                self._active = False
                self.__exit__(None, None, None)

        _active = False

    return OperationWatch()


class NoWatch:
    """On GPUs, and where code is compiled: a function mode would compile it again."""

    def resume(self):
        pass

    def pause(self):
        pass
