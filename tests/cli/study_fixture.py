"""Writes the records of studies that never ran, for tests of reports. The same arguments give the same bytes."""
import json
import random


def step_time_us(devices, batch, parameters):
    """A model of a step: work that is shared, and communication that is not."""
    work = 20 + batch * parameters * 2e-8
    return work / devices + (0 if devices == 1 else 25 + 4 * devices)


def provenance(kind="cuda", host="node-7", devices=1):
    facts = {"cuda": "13.0", "math": "tf32"} if kind == "cuda" else {"cpu": "Test CPU"}
    names = {f"device.{i}": "NVIDIA Test" for i in range(devices)} if kind == "cuda" else {}
    return {"type": "provenance", "id": "p1", "command_line": "amdahl study --model large", "commit": "0123456789ab",
            "device_kind": kind, "facts": {**facts, **names}, "host": host, "seed": 42,
            "start_time": "2026-01-02T03:04:05Z", "tool_version": "0.1.0"}


def record(devices, batch, run, time_us, model="large", parameters=2021379, kind="cuda", status=None, joule=None):
    def series(name, unit, value):
        return {"name": name, "unit": unit, "samples": [value]}
    communication = 0 if devices == 1 else 20.0 + 4 * devices
    compute = time_us - communication - 8
    values = [series("step_time", "us", time_us), series("throughput", "samples/s", batch / time_us * 1e6),
              series("account_step", "us", time_us), series("forward", "us", 0.4 * compute),
              series("backward", "us", 0.6 * compute), series("compute", "us", compute),
              series("exposed_communication", "us", communication * 0.75), series("waiting", "us", communication * 0.25),
              series("launch_gaps", "us", 0.0), series("input", "us", 0.0), series("optimizer", "us", 8.0),
              series("total_communication", "us", communication), series("comm_bytes", "bytes", 8.0e6),
              series("memory_peak", "bytes", 1.0e8)]
    if joule is not None:  # of the timed steps
        values.append(series("energy", "J", joule))
    status = status or {"kind": "ok"}
    return {"type": "record", "provenance": "p1", "kind": "study-run", "origin": "measured",
            "axes": {"accumulate": 1, "backend": "cuda" if kind == "cuda" else "cpu", "bucket_bytes": 26214400,
                     "data": "synthetic", "devices": devices, "global_batch": batch, "launch": "graph", "math": "tf32",
                     "model": model, "num_parameters": parameters, "optimizer": "adam", "overlap": True, "run": run,
                     "scaling": "strong", "steps": 100, "strategy": "single" if devices == 1 else "ddp", "warmup": 10},
            "series": values if status["kind"] == "ok" else [], "status": status}


def study(folder, devices=(1, 2, 4), batches=(64, 512, 4096, 32768), runs=10, model="large", parameters=2021379,
          kind="cuda", failed=(), host="node-7", seed=1, watt=None):
    """A run folder. `failed` has (devices, batch) whose every run ran out of memory. With `watt` a device's meter was read."""
    folder.mkdir(parents=True)
    chance = random.Random(seed)
    lines = [{"config": {"model": model}, "kind": "study", "type": "run", "version": 1},
             provenance(kind, host, max(devices, default=1))]
    for batch in batches:
        for count in devices:
            for run in range(runs):
                time_us = step_time_us(count, batch, parameters) * (1 + 0.004 * chance.gauss(0, 1))
                if run == 3:
                    time_us *= 1.05  # an outlier a cell
                status = {"kind": "failed", "reason": "out of memory on device 1"} if (count, batch) in failed else None
                lines.append(record(count, batch, run, round(time_us, 4), model, parameters, kind, status,
                                    None if watt is None else watt * count * 100 * time_us * 1e-6))
    (folder / "records.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder
