"""amdahl beside PyTorch on the same GPUs in one run: a study of amdahl and the peer of torch_gpu_peer.py, peer before and
after, so that drift of the machine shows.

    python3 benchmarks/gpu_vs_torch.py BINARY OUTPUT_DIR --devices 1,2,4 [--models ...] [--batches 64,8192] [--strategy ddp]

Writes OUTPUT_DIR/<model>/ (run folders of amdahl), OUTPUT_DIR/torch.jsonl and OUTPUT_DIR/table.md, and prints the table.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).parent


def peer(devices, options, out):
    command = [sys.executable]
    if devices > 1:
        command += ["-m", "torch.distributed.run", f"--nproc_per_node={devices}"]
    command += [str(HERE / "torch_gpu_peer.py"), "--models", options.models, "--batches", options.batches]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if done.returncode:
        sys.exit(done.stderr[-2000:])
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    with open(out / "torch.jsonl", "a") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    return rows


def ours(model, options, out):
    folder = out / model
    command = [options.binary, "study", "-q", "--model", model, "--devices", options.devices,
               "--batch-sizes", options.our_batches or options.batches,
               "--plan", f"{options.strategy},bucket-mb={options.bucket_mb}", "--launch", "graph", "--math", "tf32", "--runs", str(options.runs),
               "-o", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if done.returncode:
        sys.exit(done.stderr)
    times = {}
    for line in open(folder / "records.jsonl"):
        record = json.loads(line)
        if record.get("type") != "record":
            continue
        axes = record["axes"]
        step = [s["samples"][0] for s in record.get("series", []) if s["name"] == "step_time"]  # absent when it failed
        times.setdefault((axes["global_batch"], axes["devices"]), []).extend(step)
    return {cell: statistics.median(samples) for cell, samples in times.items() if samples}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("output", type=pathlib.Path)
    parser.add_argument("--devices", default="1")
    parser.add_argument("--models", default="medium,medium-258k,large,large-6.9m")
    parser.add_argument("--batches", default="64,8192")
    parser.add_argument("--our-batches", help="batches of amdahl's study, when more than the peer's")
    parser.add_argument("--peer-rounds", type=int, default=2, choices=(1, 2), help="2: the peer runs before and after")
    parser.add_argument("--strategy", default="ddp")
    parser.add_argument("--bucket-mb", default="25")
    parser.add_argument("--runs", type=int, default=10)
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    counts = [int(n) for n in options.devices.split(",")]
    before = {n: peer(n, options, options.output) for n in counts}
    mine = {model: ours(model, options, options.output) for model in options.models.split(",")}
    after = {n: peer(n, options, options.output) for n in counts} if options.peer_rounds == 2 else {}

    theirs = {}
    for rows in list(before.values()) + list(after.values()):
        for row in rows:
            theirs.setdefault((row["model"], row["batch"], row["devices"], row["mode"]), []).append(row["us"])
    lines = ["| model | global batch | devices | amdahl us | own speedup | torch eager us | torch graph us | torch DDP us | "
             "amdahl against the best of these |", "|---|---:|---:|---:|---:|---:|---:|---:|---:|"]
    for model, cells in mine.items():
        for (batch, devices), us in sorted(cells.items()):
            peers = {mode: statistics.median(theirs[key]) for mode in ("eager", "graph", "ddp")
                     if (key := (model, batch, devices, mode)) in theirs}
            ratio = f"{min(peers.values()) / us:.2f}x" if peers else ""
            shown = [f"{peers[mode]:.0f}" if mode in peers else "" for mode in ("eager", "graph", "ddp")]
            lines.append(f"| {model} | {batch} | {devices} | {us:.1f} | {cells[(batch, 1)] / us:.2f}x | " + " | ".join(shown) +
                         f" | {ratio} |")
    table = "\n".join(lines) + "\n"
    (options.output / "table.md").write_text(table)
    print(table)


if __name__ == "__main__":
    main()
