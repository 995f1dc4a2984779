"""Ends a rank: its account, communication alone, its result, a barrier, exit code 0."""
from . import _alone, _describe, _job, _summary

DEADLINE_S = 120


def finish(session, torch):
    """Does not return. Every rank gets here after the same number of steps, or the deadline ends those that wait."""
    timer = _job.deadline(DEADLINE_S, "the end of all ranks together")
    group = torch is not None and torch.distributed.is_available() and torch.distributed.is_initialized()
    result = _result(session, torch)
    if session.account is not None:
        _add_account(session, torch, group, result)
    _job.write_result(session.job, result)
    if group:
        torch.distributed.barrier()
    timer.cancel()
    _job.end_process(0)


def _result(session, torch):
    job, window = session.job, session.window
    on_gpu = torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized()
    result = {"schema": _job.SCHEMA, "rank": job.rank, "world_size": job.world_size, "model": "", "num_parameters": 0,
              "optimizer": type(session.marker).__name__ if session.marker is not None else "",
              "math": "", "launch": _describe.launch(session.account), "samples": session.samples or 0,
              "device": "cuda" if on_gpu else "cpu", "device_name": _describe.device_name(torch),
              "facts": _describe.facts(torch, on_gpu), "window_us": window.end_us - window.start_us, "steps": job.steps,
              "warmup": job.warmup, "memory_peak_bytes": window.memory_peak_bytes, "notes": _describe.notes()}
    for name, loss in (("loss_first", session.first_loss), ("loss_last", session.last_loss)):
        if loss is not None:
            result[name] = float(loss.detach())
    recompiles = window.graphs_after - window.graphs_before
    if recompiles:
        result["notes"].append(f"torch.compile compiled {recompiles} graphs in the timed steps: more --warmup, or fixed shapes.")
    return result


def _add_account(session, torch, group, result):
    account, model = session.account, session.account.model()
    result.update(_describe.model_fields(account))
    result["optimizer"] = _describe.optimizer_names(account) or result["optimizer"]
    result["math"] = _describe.math(torch, model, account.forward.math, account.on_gpu)
    result["facts"]["wrap"] = _describe.wrappers(account)
    if session.samples is None:
        result["samples"] = _summary.rows(account)
    parts, notes = _summary.account(account, session.kernels)
    result["notes"] += notes
    if group:
        parts["waits_us"] = _summary.waits_us(torch, account)
        parts["total_communication_us"] = _alone.total_us(torch, _summary.bytes_of_step(account))
    result["account"] = parts
