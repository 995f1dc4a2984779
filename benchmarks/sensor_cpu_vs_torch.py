#!/usr/bin/python3
"""Preprocessing on one CPU thread: ours beside RoboCache's PyTorch implementation, on the same data, in one run.

usage: sensor_cpu_vs_torch.py SENSOR_CPU_BENCH OUTPUT.json --peer ops_fallback.py [--rounds 15] [--samples 7] [--cases fuse,...]
       sensor_cpu_vs_torch.py ... --quick   2 rounds of 2 calls of the small cases: whether it runs, not how fast

The peer is robocache/python/robocache/ops_fallback.py of github.com/GOATnote-Inc/robogoat, what its package runs on hosts
without CUDA. Rounds of blocks alternate, each round in the other order, so that what else the machine does falls on both. A
time is one call; the table has medians over all calls and the ratio of the medians with its 95 % interval, by bootstrap over
rounds. Before a case is timed the results are compared.

What differs: ours writes into memory it is given, the peer allocates its result in every call; with bf16 the peer's result is
f32 (PyTorch promotes), ours bf16; ours also checks that times do not fall. All targets lie within the times and all points
within the grid, where both mean the same by their operation.

OUTPUT.json gets a Record a case (docs/schema/records.schema.json, kind sensor-peer) with all samples, series "ours" and "peer"
in the order of the rounds, written anew after every case. Exit code 77: PyTorch is not installed.
"""
import argparse
import datetime
import functools
import hashlib
import importlib.util
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import shlex
import tempfile
import time
import warnings

os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1")
try:
    import torch
except ImportError:
    print("skipped: PyTorch is not installed (Debian: python3-torch)", file=sys.stderr)
    sys.exit(77)

VOXELS, EDGE, MINIMUM = 128, 0.0625, -4.0  # a cube of 8 units, divided without rounding
FEATURES = 8
# Largest difference by type or mode. The peer adds 1e-8 to every interval, of which the shortest here is about 2e-4.
ALLOWED = {"f32": 2e-4, "bf16": 0.01, "count": 0, "occupancy": 0, "mean": 1e-5, "max": 0}
TYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


def raw_bytes(tensor):
    if tensor.dtype == torch.bfloat16:
        tensor = tensor.view(torch.int16)
    return tensor.contiguous().numpy().tobytes()


def write(folder, name, tensor):
    with open(os.path.join(folder, name), "wb") as file:
        file.write(raw_bytes(tensor))


def sorted_times(generator, batch, length):
    """Uneven and rising, from 0 to 1."""
    steps = torch.rand(batch, length, generator=generator) + 0.05
    times = torch.cumsum(steps, 1) - steps[:, :1]
    return times / times[:, -1:]


class Case:
    def __init__(self, name, arguments, peer):
        self.name, self.arguments, self.peer = name, arguments, peer


def fuse_case(module, folder, name, element_type, batch, targets, streams):
    generator = torch.Generator().manual_seed(1)
    tensors = []
    for number, (length, width) in enumerate(streams):
        data = torch.randn(batch, length, width, generator=generator).to(TYPES[element_type])
        times = sorted_times(generator, batch, length)
        write(folder, f"data{number}", data)
        write(folder, f"times{number}", times)
        tensors += [data, times]
    target_times = sorted_times(generator, batch, targets)
    write(folder, "targets", target_times)
    operation = module.fuse_multimodal_cpu if len(streams) == 3 else module.resample_single_stream_cpu
    shapes = [str(extent) for stream in streams for extent in stream]
    return Case(name, ["fuse", element_type, str(batch), str(targets)] + shapes,
                functools.partial(operation, *tensors, target_times))


def voxelize_case(module, folder, name, mode, num_points):
    generator = torch.Generator().manual_seed(2)
    points = torch.rand(num_points, 3, generator=generator) * (VOXELS * EDGE) + MINIMUM
    points = torch.clamp(points, max=MINIMUM + VOXELS * EDGE - 1e-5)
    features = torch.randn(num_points, FEATURES, generator=generator)
    write(folder, "points", points)
    write(folder, "features", features)
    peer = functools.partial(module.voxelize_pointcloud_cpu, points, features, (MINIMUM,) * 3, EDGE, (VOXELS,) * 3, mode)
    return Case(name, ["voxelize", mode, str(num_points), str(FEATURES), str(VOXELS), str(EDGE), str(MINIMUM)], peer)


def case_builders():
    """name -> what makes the case in a folder."""
    streams = [(30, 512), (100, 64), (200, 12)]
    builders = {}
    for element_type in TYPES:
        builders[f"fuse {element_type}"] = lambda *a, t=element_type: fuse_case(*a, t, 4, 50, streams)
        builders[f"resample {element_type}"] = lambda *a, t=element_type: fuse_case(*a, t, 32, 256, [(500, 256)])
    for num_points in (100_000, 500_000):
        for mode in ("count", "occupancy", "mean", "max"):
            builders[f"voxelize {mode} {num_points // 1000}k"] = lambda *a, m=mode, n=num_points: voxelize_case(*a, m, n)
    return builders


def our_block(options, folder, case, samples):
    command = [options.bench, folder, case.arguments[0], str(samples)] + case.arguments[1:]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} failed:\n{done.stderr}")
    return json.loads(done.stdout)["us"]


def peer_block(case, samples):
    times = []
    for number in range(-2, samples):
        start = time.perf_counter()
        case.peer()
        if number >= 0:
            times.append((time.perf_counter() - start) * 1e6)
    return times


def largest_difference(folder, case):
    """Of our last result from the peer's; relative to the largest element."""
    theirs = case.peer()
    with open(os.path.join(folder, "result"), "rb") as file:
        raw = bytearray(file.read())
    if case.arguments[1] == "bf16":
        ours = torch.frombuffer(raw, dtype=torch.int16).view(torch.bfloat16).float()
    else:
        ours = torch.frombuffer(raw, dtype=torch.int32 if theirs.dtype == torch.int32 else torch.float32)
    theirs = theirs.reshape(-1)
    if ours.numel() != theirs.numel():
        sys.exit(f"{case.name}: {ours.numel()} elements beside the peer's {theirs.numel()}")
    return float((ours.double() - theirs.double()).abs().max() / theirs.double().abs().max())


def bootstrap_interval(ours, theirs, draws=2000):
    """95 % of the ratio of medians over rounds drawn again, both sides of a round together."""
    generator = random.Random(3)
    pairs = [(statistics.median(a), statistics.median(b)) for a, b in zip(ours, theirs)]
    ratios = []
    for _ in range(draws):
        drawn = generator.choices(pairs, k=len(pairs))
        ratios.append(statistics.median(b for _, b in drawn) / statistics.median(a for a, _ in drawn))
    ratios.sort()
    return ratios[int(0.025 * draws)], ratios[int(0.975 * draws) - 1]


def measure(options, folder, case):
    allowed = ALLOWED[case.arguments[1]]
    our_block(options, folder, case, 1)
    difference = largest_difference(folder, case)
    if not difference <= allowed:
        sys.exit(f"{case.name}: results differ by {difference:.2g} of the largest element, more than {allowed}")
    ours, theirs = [], []
    for number in range(options.rounds):
        sides = [lambda: ours.append(our_block(options, folder, case, options.samples)),
                 lambda: theirs.append(peer_block(case, options.samples))]
        for side in sides if number % 2 == 0 else reversed(sides):
            side()
    flat = [[sample for block in blocks for sample in block] for blocks in (ours, theirs)]
    low, high = bootstrap_interval(ours, theirs)
    record = {"kind": "sensor-peer",
              "axes": {"case": case.name, "op": case.arguments[0], "arguments": " ".join(case.arguments), "devices": 1,
                       "rounds": options.rounds, "samples": options.samples, "cache": "hot",
                       "agreement": f"largest difference {difference:.3g} of the largest element"},
              "status": {"kind": "ok"}, "origin": "measured",
              "series": [{"name": "ours", "unit": "us", "samples": flat[0]},
                         {"name": "peer", "unit": "us", "samples": flat[1]},
                         {"name": "ratio", "unit": "1", "samples": [statistics.median(flat[1]) / statistics.median(flat[0])]},
                         {"name": "ratio_interval_95", "unit": "1", "samples": [low, high]},
                         {"name": "load_average", "unit": "1", "samples": [os.getloadavg()[0]]}]}
    return record


def provenance(options):
    """What a Record says of where it comes from."""
    source = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    git = subprocess.run(["git", "-C", source, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True)
    changed = subprocess.run(["git", "-C", source, "status", "--porcelain", "--untracked-files=no"], capture_output=True,
                             text=True).stdout.strip()
    with open(options.peer, "rb") as file:
        peer = hashlib.sha256(file.read()).hexdigest()
    facts = {"cpu": cpu_name(), "cores": str(os.cpu_count()), "os": platform.platform(), "kernel": platform.release(),
             "threads": "1", "torch": torch.__version__, "python": platform.python_version(), "peer": "RoboCache ops_fallback.py",
             "peer.sha256": peer}
    if changed:
        facts["changed"] = "files of the checkout differ from the commit"
    return {"tool_version": "sensor_cpu_vs_torch", "commit": git.stdout.strip() or "unknown",
            "command_line": shlex.join(sys.argv), "start_time": f"{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%dT%H:%M:%SZ}",
            "host": platform.node(), "device_kind": "cpu-virtual", "seed": 1, "facts": facts}


def save(path, records):
    """Whole or not at all."""
    with open(path + ".part", "w", encoding="utf-8") as file:
        json.dump({"version": 1, "records": records}, file, indent=1)
        file.write("\n")
    os.replace(path + ".part", path)


def cpu_name():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return next(line.split(":", 1)[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or "unknown"


def load_peer(path):
    spec = importlib.util.spec_from_file_location("peer_fallback", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("bench")
    parser.add_argument("output", help="JSON file, for example results/cpu/sensor-vs-torch.json")
    parser.add_argument("--peer", required=True, help="RoboCache's ops_fallback.py")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--samples", type=int, default=7, help="timed calls of a block")
    parser.add_argument("--cases", default="", help="only cases whose name starts so; several with commas")
    parser.add_argument("--quick", action="store_true", help="2 rounds of 2 calls, without the large clouds")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.samples = 2, 2
    if options.rounds < 2 or options.samples < 1:
        parser.error("at least 2 rounds of 1 sample")
    return options


def main():
    options = parse_options()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", message="scatter_reduce")
    module = load_peer(options.peer)
    os.makedirs(os.path.dirname(os.path.abspath(options.output)), exist_ok=True)
    chosen = {name: build for name, build in case_builders().items()
              if name.startswith(tuple(options.cases.split(","))) and not (options.quick and "500k" in name)}
    if not chosen:
        sys.exit(f"no case starts with {options.cases}")
    print(f"{cpu_name()}, PyTorch {torch.__version__}, one thread each, medians over {options.rounds * options.samples} calls")
    print(f"{'case':<24} {'ours us':>10} {'peer us':>10} {'ratio':>7}  95 % interval", flush=True)
    origin = provenance(options)
    records = []
    for name, build in chosen.items():
        with tempfile.TemporaryDirectory() as folder:
            record = measure(options, folder, build(module, folder, name))
        records.append(record | {"provenance": origin})
        save(options.output, records)
        samples = {series["name"]: series["samples"] for series in record["series"]}
        low, high = samples["ratio_interval_95"]
        print(f"{name:<24} {statistics.median(samples['ours']):>10.0f} {statistics.median(samples['peer']):>10.0f} "
              f"{samples['ratio'][0]:>6.2f}x  [{low:.2f}, {high:.2f}]", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
