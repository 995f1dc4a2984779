#!/usr/bin/env python3
"""How often `amdahl compare` is wrong: the same study many times, every pair compared, and a planted slowdown.

    tools/aa_trials.py --studies 15 --out out/aa -- --model medium-258k --batch-sizes 64 --devices 1 --mode single

Each study is `amdahl study --processes P --runs P*R` with the options behind `--`. Prints and writes OUT/trials.json:
  pairs           verdicts of every pair of studies; FASTER and SLOWER are wrong
  planted         verdicts when every time of the second of a pair is made 5 % longer; SLOWER is right
  one_process     the same pairs with the first process of each alone: UNCLEAR is right
  first_samples   first samples of a process that are outliers (modified z above 3.5) among its runs
"""
import argparse
import itertools
import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import time


def lines_of(folder):
    """Without the chain that verifies them: what is written back is another run."""
    lines = [json.loads(line) for line in (folder / "records.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key != "chain"} for line in lines if line["type"] != "end"]


def write_lines(folder, lines):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "records.jsonl").write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))


def is_record(line):
    return line["type"] == "record" and line["status"]["kind"] == "ok"


def scaled(source, folder, factor):
    """A copy whose steps take `factor` times as long."""
    lines = lines_of(source)
    for line in filter(is_record, lines):
        for series in line["series"]:
            if series["name"] == "step_time":
                series["samples"] = [sample * factor for sample in series["samples"]]
            if series["name"] == "throughput":
                series["samples"] = [sample / factor for sample in series["samples"]]
    write_lines(folder, lines)
    return folder


def first_process(source, folder):
    lines = lines_of(source)
    write_lines(folder, [line for line in lines if not is_record(line) or line["axes"].get("process", 0) == 0])
    return folder


def step_times(folder):
    """Step times of each cell and process, in the order of runs."""
    cells = {}
    for line in filter(is_record, lines_of(folder)):
        axes = line["axes"]
        key = (axes["global_batch"], axes["devices"], axes["strategy"], axes.get("process", 0))
        value = next(series["samples"][0] for series in line["series"] if series["name"] == "step_time")
        cells.setdefault(key, []).append((axes["run"], value))
    return {key: [value for _, value in sorted(runs)] for key, runs in cells.items()}


def is_outlier(first, samples):
    median = statistics.median(samples)
    mad = statistics.median(abs(sample - median) for sample in samples)
    return mad > 0 and abs(0.6745 * (first - median) / mad) > 3.5


def verdicts(amdahl, pairs):
    counts = {}
    for a, b in pairs:
        found = json.loads(subprocess.run([amdahl, "compare", str(a), str(b), "--json"], check=True, text=True,
                                          capture_output=True).stdout)
        for cell in found["cells"]:
            verdict = cell["b_over_a_speed"]["verdict"]
            counts[verdict] = counts.get(verdict, 0) + 1
    total = sum(counts.values())
    return {"comparisons": total, "counts": counts,
            "percent": {name: round(100 * count / total, 1) for name, count in counts.items()}}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--amdahl", default="build/release/bin/amdahl")
    parser.add_argument("--studies", type=int, default=15)
    parser.add_argument("--processes", type=int, default=5)
    parser.add_argument("--runs", type=int, default=10, help="of each process")
    parser.add_argument("--factor", type=float, default=1.05, help="of the planted slowdown")
    parser.add_argument("--most-planted", type=int, default=110, help="pairs that get the planted slowdown")
    parser.add_argument("--out", required=True, type=pathlib.Path)
    parser.add_argument("study", nargs="*", help="options of amdahl study, behind --")
    args = parser.parse_args()
    shutil.rmtree(args.out, ignore_errors=True)
    begin = time.time()
    folders = []
    for i in range(args.studies):
        folder = args.out / f"study-{i}"
        subprocess.run([args.amdahl, "study", "-q", "--processes", str(args.processes), "--runs",
                        str(args.processes * args.runs), "-o", str(folder), *args.study], check=True,
                       stdout=subprocess.DEVNULL)
        folders.append(folder)
    seconds = time.time() - begin
    pairs = list(itertools.combinations(folders, 2))
    planted = [scaled(folder, args.out / f"planted-{i}", args.factor) for i, folder in enumerate(folders)]
    ones = [first_process(folder, args.out / f"one-{i}") for i, folder in enumerate(folders)]
    number = {folder: i for i, folder in enumerate(folders)}
    firsts = [is_outlier(runs[0], runs) for folder in folders for runs in step_times(folder).values()]
    cells = {}
    for folder in folders:
        for key, runs in step_times(folder).items():
            cells.setdefault(key[:3], []).append(statistics.median(runs))
    result = {
        "command": "tools/aa_trials.py " + " ".join(sys.argv[1:]),
        "studies": args.studies, "processes": args.processes, "runs_per_process": args.runs,
        "seconds": round(seconds, 1),
        "provenance": next(line for line in lines_of(folders[0]) if line["type"] == "provenance"),
        "pairs": verdicts(args.amdahl, pairs),
        "planted": verdicts(args.amdahl, [(a, planted[number[b]]) for a, b in pairs[:args.most_planted]]),
        "planted_factor": args.factor,
        "one_process": verdicts(args.amdahl, [(ones[number[a]], ones[number[b]]) for a, b in pairs]),
        "first_samples": {"processes": len(firsts), "outliers": sum(firsts),
                          "percent": round(100 * sum(firsts) / len(firsts), 1)},
        "process_medians_us": [
            {"cell": list(key), "processes": len(medians), "median": round(statistics.median(medians), 3),
             "relative_sd_percent": round(100 * statistics.stdev(medians) / statistics.mean(medians), 3),
             "minimum": round(min(medians), 3), "maximum": round(max(medians), 3)} for key, medians in cells.items()],
    }
    text = json.dumps(result, indent=1)
    (args.out / "trials.json").write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
