#!/usr/bin/python3
"""Training step on one CPU thread, ours beside PyTorch's, in one run on one machine.

usage: cpu_vs_torch.py AMDAHL_BINARY OUTPUT_DIR [--rounds 3] [--models medium,...] [--batch-sizes 16,64,256,1024]

Rounds alternate: `amdahl study --mode single` (one virtual device, one thread) and the same model in PyTorch with one
thread, every round in the other order, so that what else the machine does falls on both. One warm step time is the mean
over a block of steps; the table shows medians over blocks, and the ratio of the two fastest blocks, which a busy machine
disturbs least. Same layers, dropout, Adam with learning rate 1e-3, mean squared error, float32 on both sides; the data are
random and resident.

OUTPUT_DIR gets cpu_vs_torch.jsonl (one object per model and batch, with all block times) and our run folders. Ends with
the ratio of two virtual devices to one (large as coded, batch 1024). Exit code 77: PyTorch is not installed.
"""
import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time

# OpenBLAS reads its own variable when it is loaded; torch.set_num_threads does not reach it.
os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1")
try:
    import torch
except ImportError:
    print("skipped: PyTorch is not installed (Debian: python3-torch)", file=sys.stderr)
    sys.exit(77)

# name: input width, hidden widths, dropout, output bias. The presets of `amdahl study --model`.
MODELS = {
    "medium": (50, (256, 128, 64), 0.2, True),
    "medium-258k": (847, (256, 128, 64), 0.2, False),
    "large": (50, (1024, 1024, 512, 512, 256), 0.3, True),
    "large-6.9m": (4800, (1024, 1024, 512, 512, 256), 0.3, False),
}
OUTPUTS = 3


def steps_for(model, batch):
    """Timed steps of a block: about a fifth of a second, at least 3 steps."""
    widths = (MODELS[model][0],) + MODELS[model][1]
    weights = sum(a * b for a, b in zip(widths, widths[1:]))
    seconds = weights * (6 * batch / 60e9 + 30 / 10e9)
    return max(3, min(500, int(0.2 / seconds)))


class TorchModel:
    """One model at one batch, warm, with its data."""

    def __init__(self, name, batch):
        width, hidden, dropout, output_bias = MODELS[name]
        layers = []
        torch.manual_seed(42)
        self.inputs, self.targets = torch.randn(batch, width), torch.randn(batch, OUTPUTS)
        for units in hidden:
            layers += [torch.nn.Linear(width, units), torch.nn.ReLU(), torch.nn.Dropout(dropout)]
            width = units
        self.model = torch.nn.Sequential(*layers, torch.nn.Linear(width, OUTPUTS, bias=output_bias))
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)
        self.loss = torch.nn.MSELoss()

    def step(self):
        self.optimizer.zero_grad(set_to_none=True)
        self.loss(self.model(self.inputs), self.targets).backward()
        self.optimizer.step()

    def block_us(self, steps):
        start = time.perf_counter()
        for _ in range(steps):
            self.step()
        return (time.perf_counter() - start) / steps * 1e6


def torch_block(name, batch, steps):
    model = TorchModel(name, batch)
    model.block_us(max(3, steps // 3))
    return [model.block_us(steps) for _ in range(2)]


def read_lines(folder):
    with open(os.path.join(folder, "records.jsonl"), encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def step_times(records, devices=1):
    return [sample for record in records if record.get("axes", {}).get("devices") == devices
            for series in record["series"] if series["name"] == "step_time" for sample in series["samples"]]


def study(options, folder, name, batch, steps, devices="1", runs=2):
    """The lines of one run of the study: what it ran on, and its records."""
    command = [options.binary, "study", "--backend", "cpu", "--model", name, "--devices", devices,
               "--mode", "single" if devices == "1" else "multi", "--batch-sizes", str(batch), "--runs", str(runs),
               "--warmup", str(max(5, steps // 3)), "--steps", str(steps), "--quiet", "--output-dir", folder]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout}")
    return read_lines(folder)


def cpu_name():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return next(line.split(":", 1)[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or "unknown"


def measure_cell(options, name, batch):
    steps = options.steps or steps_for(name, batch)
    ours, theirs, provenance = [], [], {}
    for number in range(options.rounds):
        folder = os.path.join(options.output, f"{name}-b{batch}-{number + 1}")

        def run_ours():
            records = study(options, folder, name, batch, steps)
            ours.extend(step_times(records))
            provenance.update(next(line for line in records if line["type"] == "provenance"))

        def run_theirs():
            theirs.extend(torch_block(name, batch, steps))

        for side in (run_ours, run_theirs) if number % 2 == 0 else (run_theirs, run_ours):
            side()
    return {"model": name, "batch": batch, "steps": steps, "ours_us": ours, "torch_us": theirs,
            "ratio": statistics.median(theirs) / statistics.median(ours), "ratio_of_best": min(theirs) / min(ours),
            "versions": {"amdahl": provenance["tool_version"], "commit": provenance["commit"], "torch": torch.__version__,
                         "python": platform.python_version(), "facts": provenance["facts"]},
            "cpu": cpu_name(), "threads": 1, "load_average": os.getloadavg()[0]}


def measure_two_devices(options):
    name, batch = "large", 1024
    folder = os.path.join(options.output, "two-devices")
    records = study(options, folder, name, batch, options.steps or 10, "1,2", runs=max(3, 2 * options.rounds))
    one, two = step_times(records, 1), step_times(records, 2)
    return {"model": name, "batch": batch, "one_device_us": one, "two_devices_us": two,
            "ratio": statistics.median(one) / statistics.median(two), "cpu": cpu_name(), "load_average": os.getloadavg()[0]}


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("binary")
    parser.add_argument("output")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=0, help="steps of a block (default: a fifth of a second's worth)")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--batch-sizes", default="16,64,256,1024")
    parser.add_argument("--no-scaling", action="store_true", help="leave out two devices against one")
    return parser.parse_args()


def main():
    options = parse_options()
    torch.set_num_threads(1)
    os.makedirs(options.output, exist_ok=True)
    print(f"{cpu_name()}, PyTorch {torch.__version__}, one thread each, medians over blocks")
    print(f"{'model':<12} {'batch':>5} {'ours us':>10} {'torch us':>10} {'ratio':>7} {'of best':>8}", flush=True)
    with open(os.path.join(options.output, "cpu_vs_torch.jsonl"), "a", encoding="utf-8") as results:
        for name in options.models.split(","):
            for batch in map(int, options.batch_sizes.split(",")):
                cell = measure_cell(options, name, batch)
                results.write(json.dumps(cell) + "\n")
                results.flush()
                ours, theirs = statistics.median(cell["ours_us"]), statistics.median(cell["torch_us"])
                print(f"{name:<12} {batch:>5} {ours:>10.0f} {theirs:>10.0f} {cell['ratio']:>6.2f}x {cell['ratio_of_best']:>7.2f}x", flush=True)
        if not options.no_scaling:
            pair = measure_two_devices(options)
            results.write(json.dumps(pair) + "\n")
            print(f"two virtual devices over one, {pair['model']} at batch {pair['batch']}: {pair['ratio']:.2f}x")
    return 0


if __name__ == "__main__":
    sys.exit(main())
