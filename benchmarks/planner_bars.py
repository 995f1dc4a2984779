#!/usr/bin/env python3
"""How good the planner is on the machine at hand: pairs of predicted and measured steps that calibration did not see.

usage: planner_bars.py AMDAHL MACHINE_FILE OUTPUT_DIR [--seconds N] [--devices N] [WORDS]   measures, about 5 minutes on two cores
       planner_bars.py --pack OUTPUT_DIR FILE.jsonl.gz                  the records of all run folders in one file
       planner_bars.py --summary FILE.jsonl.gz                          the tables of such a file

MACHINE_FILE is that of `amdahl calibrate`. OUTPUT_DIR gets a run folder of `amdahl plan --verify` for each model and batch,
which `amdahl report` prints. WORDS go to `amdahl plan`, for example --math bf16.
"""
import argparse
import gzip
import json
import pathlib
import statistics
import subprocess
import sys

DATA_PLANS = ("dp1", "dp2", "dp4")
MUCH = 0.05  # of the processors, taken by other programs: as `amdahl calibrate` warns
# Model, batches and seconds of each, in units of --seconds, for the first table; the second one has 10 plans of one model.
CELLS = [("medium", (48, 192, 768), 1), ("medium-258k", (48, 192, 768), 1), ("large", (48, 192), 1.7), ("large-6.9m", (32, 96), 2.5),
         ("transformer", (8, 16), 1.7), ("lstm", (8, 32), 1.7), ("gru", (8, 32), 1.7)]
CHOICES = [("medium", 512, 2), ("large", 256, 4), ("transformer", 16, 4)]


def verify(given, words, folder, model, batch, seconds):
    command = [given.amdahl, "plan", "--verify", "--model", model, "--batch-size", str(batch), "--machine", given.machine, "--devices",
               str(given.devices), "--no-refit", "--seconds", str(seconds), "-o", str(given.output / folder), *words]
    print(" ".join(command), flush=True)
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        print(f"  left out: {done.stderr.strip().splitlines()[-1]}", flush=True)


def records_of(output):
    """All records of the run folders, each with the name of its run."""
    for folder in sorted(output.iterdir()):
        for line in (folder / "records.jsonl").read_text().splitlines():
            record = json.loads(line)
            if record.get("type") == "record":
                yield dict(record, run=folder.name)


def pack(output, path):
    with open(path, "wb") as raw, gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0) as file:
        for record in records_of(output):
            file.write((json.dumps(record, sort_keys=True) + "\n").encode())


def pair(record):
    series = {s["name"]: s["samples"] for s in record["series"]}
    measured = statistics.median(series["step_time"])
    predicted = series["predicted_step"][0]
    return dict(run=record["run"], model=record["axes"]["model"], plan=record["axes"]["plan"], measured=measured, predicted=predicted,
                error=abs(predicted / measured - 1), inside=series["predicted_low"][0] <= measured <= series["predicted_high"][0],
                disturbance=series.get("disturbance", [0])[0], memory=series["memory_modelled"][0] / series["memory_peak"][0] - 1)


def percent(value):
    return f"{100 * value:.1f} %"


def summary(records):
    every = [pair(record) for record in records]
    held_out = [p for p in every if p["run"].startswith("data-")]
    choices = {name: [p for p in every if p["run"] == name] for name in dict.fromkeys(p["run"] for p in every) if name.startswith("choice-")}
    lines = ["| devices | steps | median error | 90th percentile | worst |", "|---|---:|---:|---:|---:|"]
    for plan in DATA_PLANS + (None,):
        errors = sorted(p["error"] for p in held_out if plan in (p["plan"], None))
        if errors:
            lines.append(f"| {plan or 'all'} | {len(errors)} | {percent(statistics.median(errors))} | "
                         f"{percent(errors[int(0.9 * (len(errors) - 1))])} | {percent(errors[-1])} |")
    quiet = [p for p in held_out if p["disturbance"] < MUCH]
    if quiet and len(quiet) < len(held_out):
        by_plan = [f"{name} {percent(statistics.median(errors))}" for name in DATA_PLANS
                   if (errors := [p["error"] for p in quiet if p["plan"] == name])]
        lines += ["", f"Steps from which other programs took less than {percent(MUCH)} of the processors: {len(quiet)} of {len(held_out)}, median error "
                  f"{percent(statistics.median(p['error'] for p in quiet))} ({', '.join(by_plan)}), "
                  f"{percent(sum(p['inside'] for p in quiet) / len(quiet))} inside the interval."]
    lines += ["", "| model | steps | median error | worst |", "|---|---:|---:|---:|"]
    for model in dict.fromkeys(p["model"] for p in held_out):
        errors = sorted(p["error"] for p in held_out if p["model"] == model)
        lines.append(f"| {model} | {len(errors)} | {percent(statistics.median(errors))} | {percent(errors[-1])} |")
    lines += ["", "| choice | plans measured | predicted best | best measured | loss |", "|---|---:|---|---|---:|"]
    for name, rows in choices.items():
        first, best = min(rows, key=lambda p: p["predicted"]), min(rows, key=lambda p: p["measured"])
        lines.append(f"| {name.removeprefix('choice-')} | {len(rows)} | {first['plan']} | {best['plan']} | "
                     f"{percent(first['measured'] / best['measured'] - 1)} |")
    lines += ["", f"Inside the 95 % interval: {percent(sum(p['inside'] for p in held_out) / len(held_out))} of the {len(held_out)} steps of the first "
              f"table, {percent(sum(p['inside'] for p in every) / len(every))} of all {len(every)}.",
              f"Memory of the fullest device, modelled against counted: worst {percent(max(abs(p['memory']) for p in every))} over {len(every)} "
              "steps."]
    return "\n".join(lines) + "\n"


def main():
    words = sys.argv[1:]
    if len(words) == 3 and words[0] == "--pack":
        return pack(pathlib.Path(words[1]), words[2])
    if len(words) == 2 and words[0] == "--summary":
        with gzip.open(words[1], "rt") as file:
            return print(summary(json.loads(line) for line in file), end="")
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("amdahl")
    parser.add_argument("machine")
    parser.add_argument("output", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--devices", type=int, default=4)
    given, words = parser.parse_known_args(words)
    data_plans = [plan for plan in DATA_PLANS if int(plan[2:]) <= given.devices]
    for model, batches, times in CELLS:
        for batch in batches:
            verify(given, [*words, "--plan", *data_plans], f"data-{model}-b{batch}", model, batch, given.seconds * times)
    for model, batch, times in CHOICES:
        verify(given, [*words, "--best", "4", "--random", "6"], f"choice-{model}-b{batch}", model, batch, given.seconds * times)
    print(summary(records_of(given.output)), end="")


if __name__ == "__main__":
    main()
