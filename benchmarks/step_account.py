#!/usr/bin/python3
"""Is the step account of the step that was measured? Ratio of the two for every cell of one device.

usage: step_account.py AMDAHL_BINARY OUTPUT_DIR [--backend cuda] [--models medium-258k,large-6.9m] [--batch-sizes 64,8192]
       [--launches graph,eager] [--math tf32] [--runs 5] [--steps 100] [--tolerance 0.05]

Studies each model on one device in each launch mode into OUTPUT_DIR/MODEL-LAUNCH, and prints a row per cell: measured and
accounted step in us, accounted / measured, the accounts' noise in one run, and the parts; medians over the runs. Ends with
exit code 1 when a cell is out of tolerance or its parts do not add up.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys

PARTS = ("compute", "exposed_communication", "waiting", "launch_gaps", "input", "optimizer")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("amdahl")
    parser.add_argument("output", type=pathlib.Path)
    parser.add_argument("--backend", default="cuda")
    parser.add_argument("--models", default="medium-258k,large-6.9m")
    parser.add_argument("--batch-sizes", default="64,8192")
    parser.add_argument("--launches", default="graph,eager")
    parser.add_argument("--math", default="tf32")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--tolerance", type=float, default=0.05)
    return parser.parse_args()


def study(arguments, model, launch):
    """The runs' series by global batch."""
    folder = arguments.output / f"{model}-{launch}"
    subprocess.run([arguments.amdahl, "study", "--quiet", "--mode", "single", "--backend", arguments.backend, "--devices", "1",
                    "--model", model, "--launch", launch, "--math", arguments.math, "--batch-sizes", arguments.batch_sizes,
                    "--variants", "none", "--runs", str(arguments.runs), "--steps", str(arguments.steps),
                    "--output-dir", str(folder)],
                   check=True, stdout=subprocess.DEVNULL)
    cells = {}
    for line in (folder / "records.jsonl").read_text().splitlines():
        record = json.loads(line)
        if record.get("type") == "record" and record["status"]["kind"] == "ok":
            values = {series["name"]: series["samples"][0] for series in record["series"]}
            cells.setdefault(record["axes"]["global_batch"], []).append(values)
    return sorted(cells.items())


def main():
    arguments = parse_arguments()
    head = ("model", "launch", "batch", "measured", "accounted", "ratio", "noise", "forward", "backward", "optimizer",
            "gaps", "floor (kernels)")
    print(("{:<12} {:<6} {:>6}" + " {:>9}" * 8 + "  {}").format(*head))
    failed = cells = 0
    for model in arguments.models.split(","):
        for launch in arguments.launches.split(","):
            for batch, runs in study(arguments, model, launch):
                names = set.intersection(*map(set, runs))  # the warm-up's are of the first run only
                cell = {name: statistics.median(run[name] for run in runs) for name in names}
                ratio = statistics.median(run["account_step"] / run["step_time"] for run in runs)
                added = all(abs(sum(run[part] for part in PARTS) / run["account_step"] - 1) < 1e-6 for run in runs)
                good = abs(ratio - 1) <= arguments.tolerance and added
                cells += 1
                failed += not good
                print(f"{model:<12} {launch:<6} {batch:>6} {cell['step_time']:9.2f} {cell['account_step']:9.2f} "
                      f"{ratio:9.3f} {cell['account_noise']:9.2f} {cell['forward']:9.2f} {cell['backward']:9.2f} "
                      f"{cell['optimizer']:9.2f} {cell['launch_gaps']:9.2f}  {cell.get('launch_floor', 0):.2f} "
                      f"({cell.get('launch_kernels', 0):.0f}){'' if good else '  <- out of tolerance'}", flush=True)
    print(f"{cells - failed} of {cells} cells within {100 * arguments.tolerance:g} %")
    return 1 if failed or not cells else 0


if __name__ == "__main__":
    sys.exit(main())
