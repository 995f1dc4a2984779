"""Time stamps on the timeline of a rank: of the host, or of a GPU's compute stream."""
import time


def now_us():
    """CLOCK_MONOTONIC, which all processes of a host share."""
    return time.monotonic_ns() / 1e3


class HostClock:
    """Stamps by the host: a CPU computes while the host's thread does."""
    device = "cpu"

    def stamp(self):
        return time.monotonic_ns()

    def anchor(self):
        return self.stamp()

    def on_compute_stream(self):
        return True

    def synchronize(self):
        pass

    def microseconds(self, stamp):
        return stamp / 1e3


class StreamClock:
    """Stamps by events in the stream that computes, converted to CLOCK_MONOTONIC.

    Differences are taken from the event of the step's begin: the float that CUDA returns has too few digits for longer ones.
    """
    device = "cuda"

    def __init__(self, torch):
        self._cuda = torch.cuda
        self._stream = torch.cuda.current_stream()
        self._anchors = []
        self._anchor_us = []

    def anchor(self):
        """A stamp that later ones are measured from."""
        event = self._event()
        if not self._anchors:
            event.synchronize()
            self._anchor_us.append(now_us())
        self._anchors.append(event)
        return len(self._anchors) - 1, event

    def stamp(self):
        return len(self._anchors) - 1, self._event()

    def on_compute_stream(self):
        """Whether what this thread enqueues now goes to the stream that computes."""
        return self._cuda.current_stream(self._stream.device) == self._stream

    def is_compute_stream(self, stream):
        return stream == self._stream

    def synchronize(self):
        self._cuda.synchronize()

    def microseconds(self, stamp):
        """After synchronize()."""
        index, event = stamp
        while len(self._anchor_us) < len(self._anchors):
            last = len(self._anchor_us) - 1
            self._anchor_us.append(self._anchor_us[last] + self._anchors[last].elapsed_time(self._anchors[last + 1]) * 1e3)
        if event is self._anchors[index]:
            return self._anchor_us[index]
        return self._anchor_us[index] + self._anchors[index].elapsed_time(event) * 1e3

    def _event(self):
        event = self._cuda.Event(enable_timing=True)
        event.record(self._stream)
        return event
