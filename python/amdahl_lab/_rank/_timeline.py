"""What a rank did in its account steps: spans by kind, moments at which it was ready to communicate, bytes."""
from collections import Counter

from . import _spans


class Step:
    """One step, from the end of the one before to its own."""

    def __init__(self, begin):
        self.begin, self.end = begin, None
        self.spans = []       # (kind, stamp, stamp)
        self.arrivals = []    # a stamp for each communication, in order
        self.gradients_ready = None  # the last of them that is DDP's
        self.bytes = Counter()  # by operation
        self.first_forward = None
        self.used_loader = False
        self.optimizers = {}  # in the order in which they stepped
        self.rows = {}        # by module: rows of each call


class Timeline:
    """Records steps by the clock's stamps. Threads of autograd may add to it."""

    def __init__(self, clock):
        self.clock = clock
        self.steps = []
        self.step = Step(clock.anchor())

    def add(self, kind, begin, end):
        self.step.spans.append((kind, begin, end))

    def arrive(self, stamp):
        self.step.arrivals.append(stamp)

    def next_step(self):
        """Ends this step and begins the next at the same moment."""
        moment = self.clock.anchor()
        self.step.end = moment
        self.steps.append(self.step)
        self.step = Step(moment)

    def restart(self):
        """The step begins now."""
        self.step = Step(self.clock.anchor())

    def drop(self):
        """Forgets the steps so far; the one that has begun stays."""
        self.steps.clear()

    def parts(self, step):
        """{kind: microseconds} of a step, after the clock's synchronize()."""
        at = self.clock.microseconds
        spans = [(kind, at(a), at(b)) for kind, a, b in step.spans]
        return _spans.partition(spans, at(step.begin), at(step.end))

    def length_us(self, step):
        return self.clock.microseconds(step.end) - self.clock.microseconds(step.begin)

    def covered_us(self, step, kind):
        """Length of the union of a kind that may overlap with others."""
        at = self.clock.microseconds
        spans = [(at(a), at(b)) for k, a, b in step.spans if k == kind]
        return _spans.length(_spans.union(spans, at(step.begin), at(step.end)))
