"""Means over the steps of an account, as the result has them."""
from collections import Counter

from . import _kernels


def account(recorded, kernels):
    """(the account's fields, notes) of the recorded steps; `kernels` is None on CPUs."""
    timeline, notes = recorded.timeline, []
    steps = timeline.steps
    mean = Counter()
    for step in steps:
        mean.update(timeline.parts(step))
    parts = {kind: value / len(steps) for kind, value in mean.items()}
    step_us = sum(timeline.length_us(step) for step in steps) / len(steps)
    rest = parts.pop("rest")
    parts["launch_gaps"] = 0.0
    if recorded.on_gpu:
        parts["compute"] += rest
        if kernels is not None and kernels.busy_us is not None:
            _kernels.divide(parts, step_us, kernels.busy_us, kernels.optimizer_busy_us)
        else:
            notes.append("The profiler saw no kernels: launch gaps are inside compute.")
    elif recorded.forward.outermost:
        parts["launch_gaps"] = rest
    else:
        parts["compute"] += rest
        notes.append("No module's forward was seen: what is neither input, communication nor optimizer counts as compute.")
    fields = {"steps": len(steps), "step_us": step_us,
              "forward_us": _mean(timeline, "forward"), "backward_us": _mean(timeline, "backward")}
    fields.update({f"{kind}_us": value for kind, value in parts.items()})
    fields["arrivals_us"] = [moment for moment in (_arrival(timeline, step) for step in steps) if moment is not None]
    fields["total_communication_us"] = 0.0
    fields["comm_bytes"] = sum(bytes_of_step(recorded).values())
    return fields, notes


def _mean(timeline, kind):
    return sum(timeline.covered_us(step, kind) for step in timeline.steps) / len(timeline.steps)


def _arrival(timeline, step):
    """When the rank was ready for the step's last communication: DDP's, or the last that it started."""
    stamp = step.gradients_ready or (step.arrivals[-1] if step.arrivals else None)
    return None if stamp is None else timeline.clock.microseconds(stamp)


def waits_us(torch, recorded):
    """Of each step: the sum over its communications of the last rank's readiness minus this one's.

    Empty if the ranks did not communicate equally often.
    """
    timeline, distributed = recorded.timeline, torch.distributed
    own = [[timeline.clock.microseconds(stamp) for stamp in step.arrivals] for step in timeline.steps]
    everyone = [None] * distributed.get_world_size()
    distributed.all_gather_object(everyone, own)
    if len({tuple(len(moments) for moments in steps) for steps in everyone}) != 1:
        return []
    return [sum(max(others) - moment for moment, *others in zip(mine, *(steps[index] for steps in everyone)))
            for index, mine in enumerate(own)]


def bytes_of_step(recorded):
    """{kind of communication: bytes} of this rank in a step, mean."""
    total = Counter()
    for step in recorded.timeline.steps:
        total.update(step.bytes)
    return {kind: round(size / len(recorded.timeline.steps)) for kind, size in total.items()}


def rows(recorded):
    """Rows of this rank in a step: of all calls of the model, which are micro-batches, with one optimizer; else of the first."""
    model = recorded.forward.model()
    if model is None:
        return 0
    steps = recorded.timeline.steps
    one = all(len(step.optimizers) <= 1 for step in steps)
    counts = [step.rows.get(id(model), [0]) for step in steps]
    return round(sum(sum(calls) if one else calls[0] for calls in counts) / len(counts))
