"""What `amdahl run` asks of a script that wants to know."""
from . import _job, _session


def batch_size(default):
    """Rows of this rank in a step: its share of `--batch-sizes`; `default` without, or without a job."""
    job = _session.current().job if _job.active() else None
    if job is None or job.global_batch == 0:
        return default
    return share(job)


def wrap(default="ddp"):
    """"ddp" or "fsdp2", as `--wrap` asks; `default` without, on one device, or without a job."""
    asked = _session.current().job.wrap if _job.active() else ""
    return asked or default


def share(job):
    """This rank's rows of the global batch; ends the process if it cannot be divided."""
    if job.global_batch % job.world_size:
        nearest = max(1, round(job.global_batch / job.world_size)) * job.world_size
        _job.fail(f"a batch of {job.global_batch} cannot be divided by {job.world_size} ranks", f"--batch-sizes {nearest}")
    return job.global_batch // job.world_size
