"""Writes the records of links, collectives, arena, sensor, train and doctor runs that never ran, for tests of reports.
The same arguments give the same bytes."""
import json
import random

KINDS = ("links", "collectives", "arena", "sensor", "train", "doctor")


def _provenance(kind, devices):
    facts = {f"device.{i}": "NVIDIA Test" for i in range(devices)} if kind == "cuda" else {"cpu": "Test CPU"}
    return {"type": "provenance", "id": "p1", "command_line": "amdahl", "commit": "0123456789ab", "device_kind": kind,
            "facts": facts, "host": "node-7", "seed": 42, "start_time": "2026-01-02T03:04:05Z", "tool_version": "0.1.0"}


def _record(kind, axes, series, status=None):
    return {"type": "record", "provenance": "p1", "kind": kind, "origin": "measured", "axes": axes,
            "series": [{"name": name, "unit": unit, "samples": samples} for name, unit, samples in series],
            "status": status or {"kind": "ok"}}


def _pairs(devices):
    return [(a, b) for a in range(devices) for b in range(devices) if a != b]


def _link_records(chance, devices, slow):
    records = []
    for a, b in _pairs(devices):
        rate = 90 if (a, b) == slow else chance.uniform(380, 398)
        axes = {"source": f"gpu {a}", "destination": f"gpu {b}", "bytes": 1 << 29, "flows": 1, "mover": "engine"}
        records.append(_record("link", {**axes, "test": "device_to_device_memcpy_write_ce"},
                               [("bandwidth", "GB/s", [rate, rate * 1.001, rate * 0.999])]))
        records.append(_record("link", {**axes, "test": "device_to_device_latency_sm"},
                               [("latency", "us", [chance.uniform(0.8, 0.9) for _ in range(3)])]))
        sizes = [4096 * 16 ** i for i in range(4)]
        times = [2 + size / 380e3 for size in sizes]
        records.append(_record("link", {**axes, "test": "device_to_device_sweep"},
                               [("bytes", "bytes", sizes), ("time", "us", times),
                                ("bandwidth_by_size", "GB/s", [s / t / 1e3 for s, t in zip(sizes, times)]),
                                ("alpha", "us", [2.0]), ("beta", "GB/s", [380.0])]))
    for i in range(devices):
        records.append(_record("link", {"source": "host", "destination": f"gpu {i}", "bytes": 1 << 29, "flows": 1,
                                        "mover": "engine", "test": "host_to_device_memcpy_ce"},
                               [("bandwidth", "GB/s", [chance.uniform(54, 56) for _ in range(3)])]))
    records.append(_record("link", {"source": "host", "destination": "gpu 9", "test": "host_to_device_pageable"}, [],
                           {"kind": "failed", "reason": "<out> of memory"}))
    return records


def _collective(chance, transport, size, in_place, devices, base):
    time = base + size / 1e5 * chance.uniform(0.9, 1.1)
    return _record("collective", {"collective": "all_reduce", "dtype": "f32", "op": "sum", "devices": devices,
                                  "bytes": size, "count": size // 4, "in_place": in_place, "transport": transport,
                                  "launch": "eager"},
                   [("time", "us", [time]), ("call_time", "us", [time * f for f in (1.1, 1.2, 1.4)]),
                    ("algbw", "GB/s", [size / time / 1e3]), ("busbw", "GB/s", [1.5 * size / time / 1e3]),
                    ("peak", "GB/s", [450.0]), ("wrong", "1", [0.0])])


def _sensor_records(chance):
    records = []
    for batch in (4, 256, 4096):
        for devices in (1, 2, 4):
            time = 3 + batch * 0.02 / devices + (devices > 1) * 3
            samples = [time * chance.uniform(0.99, 1.01) for _ in range(8)]
            records.append(_record("sensor", {"op": "fuse", "mode": "data", "scaling": "strong", "devices": devices,
                                              "dtype": "f32", "workload": f"b{batch} 30x512->50", "items": batch,
                                              "batch": batch, "path": "direct", "cache": "hot", "launch": "graph"},
                                   [("time", "us", samples), ("throughput", "batches/s", [batch / t * 1e6 for t in samples]),
                                    ("bandwidth", "GB/s", [1000.0]), ("checked", "1", [100.0])]))
    for policy, items in (("one-device", [256, 0]), ("even", [128, 128]), ("proportional", [180, 76])):
        samples = [max(items) * 0.1 * chance.uniform(0.99, 1.01) for _ in range(8)]
        record = _record("sensor", {"op": "fuse", "mode": "hetero", "policy": policy, "devices": 2, "dtype": "f32",
                                    "workload": "b256 30x512->50", "items": 256, "path": "direct", "cache": "hot",
                                    "launch": "graph", "merge": "none"},
                         [("time", "us", samples), ("throughput", "batches/s", [256 / t * 1e6 for t in samples]),
                          ("device_items", "1", items), ("makespan_bound", "us", [17.0]), ("checked", "1", [100.0])])
        records.append({**record, "origin": "emulated"})
    return records


def _epoch_records(chance, count=6):
    return [_record("train-epoch", {"model": "medium", "num_parameters": 54403, "global_batch": 32, "devices": 1,
                                    "strategy": "single", "epoch": epoch},
                    [("train_loss", "1", [2 / epoch]), ("seconds", "s", [0.5]),
                     ("throughput", "samples/s", [chance.uniform(900, 1000)]), ("validation_loss", "1", [2.2 / epoch]),
                     ("validation_accuracy", "1", [1 - 0.5 / epoch])]) for epoch in range(1, count + 1)]


def _machine(devices):
    spec = {"version": 1, "host": "node-7", "os": "Test OS", "cpu_name": "Test CPU", "num_cores": 8,
            "num_numa_nodes": 1, "memory_bytes": 1 << 36, "versions": {"driver": "1.0"}}
    spec["devices"] = [{"index": i, "kind": "cuda", "name": "NVIDIA Test", "uuid": f"GPU-{i}",
                        "memory_bytes": 1 << 36, "sm_count": 100, "compute_capability": "9.0"} for i in range(devices)]
    spec["links"] = [{"source": a, "destination": b, "path": "NV", "num_links": 18, "nvlink_version": 4,
                      "through_switch": True, "raw_gbps": 450.0, "expected_gbps": 395.0, "peer_access": True,
                      "peer_atomics": True} for a, b in _pairs(devices)]
    return spec


def _doctor():
    return {"version": 1, "healthy": False, "checked": ["no-peer-access", "small-shm"], "not_looked_at": ["IOMMU: hidden"],
            "findings": [{"name": "small-shm", "severity": "warning", "where": "host", "measured": "64 MB",
                          "expected": "1 GB or more", "why": "<slow>", "remedy": "--shm-size 1g"}]}


def run(folder, kind, devices=4, slow=None, device_kind="cuda", seed=3):
    """A run folder of one of KINDS; `slow` is a pair of devices whose link carries too little."""
    folder.mkdir(parents=True)
    chance = random.Random(seed)
    records = {"links": lambda: _link_records(chance, devices, slow),
               "collectives": lambda: [_collective(chance, "nccl", 64 << 4 * i, in_place, devices, 8.0)
                                       for i in range(5) for in_place in (False, True)],
               "arena": lambda: [_collective(chance, name, 1024 << 4 * i, False, devices, base)
                                 for i in range(4) for name, base in (("nccl", 8.0), ("nccl ring", 12.0), ("shm", 5.0))],
               "sensor": lambda: _sensor_records(chance),
               "train": lambda: _epoch_records(chance),
               "doctor": lambda: [*_link_records(chance, devices, slow),
                                  *(_record("device-speed", {"device": i},
                                            [("matrix_rate", "TFLOP/s", [300.0 + i, 301.0 + i]),
                                             ("copy_rate", "GB/s", [4000.0, 4010.0])]) for i in range(devices))]}[kind]()
    lines = [{"config": {}, "kind": kind, "type": "run", "version": 1}, _provenance(device_kind, devices), *records]
    (folder / "records.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    if kind in ("links", "doctor"):
        (folder / "machine.json").write_text(json.dumps(_machine(devices)))
    if kind == "doctor":
        (folder / "doctor.json").write_text(json.dumps(_doctor()))
    return folder
