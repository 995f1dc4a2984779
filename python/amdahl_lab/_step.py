"""`with amdahl_lab.step():` marks one training step of a script."""
from ._rank import _job, _session


class _Nothing:
    def __enter__(self):
        return None

    def __exit__(self, *exception):
        return False


class _Step:
    def __init__(self, session, samples):
        self._session, self._samples = session, samples

    def __enter__(self):
        self._session.enter(self._samples)

    def __exit__(self, kind, problem, trace):
        if kind is None:
            self._session.leave()
        return False


_NOTHING = _Nothing()


def step(samples=None):
    """Marks one training step: forward, backward and optimizer belong inside, what fetches the batch outside.

        for batch in batches:
            with amdahl_lab.step():
                loss = model(batch).mean()
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()

    samples: rows of this rank in the step; without it the first dimension of the first tensor that the model gets.

    Started by `amdahl run`, warm-up steps and then timed steps only count. Some steps with time stamps follow, the account.
    After the last of them every rank writes its result, and all end together with exit code 0: no code after the loop runs,
    so nothing that it would save is saved. The time between two steps is the step's input.

    Started otherwise it does nothing but its body and may stay in the script. There is no PyTorch needed: without, the result
    has the time of the steps and no account.
    """
    if not _job.active():
        return _NOTHING
    return _Step(_session.current(), samples)
