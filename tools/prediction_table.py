#!/usr/bin/env python3
"""Predicts several GPUs from the one-GPU cells of finished studies and sets the errors beside what was measured.

usage: prediction_table.py AMDAHL RESULTS_DIR            writes RESULTS_DIR/predictions.md
       prediction_table.py AMDAHL RESULTS_DIR --check    exit code 1 when that file is not what the records give

RESULTS_DIR holds run folders of `amdahl study` with cells on 1, 2 and 4 GPUs over NVLink 4.
"""
import json
import pathlib
import statistics
import subprocess
import sys

STUDIES = ("medium-258k", "large", "large-6.9m", "large-6.9m-zero1")
LINK = "nvlink4"
HEAD = ("model", "strategy", "global batch", "GPUs", "T1(B/n) us", "origin", "all-reduce us", "joins, update us", "predicted us", "measured us",
        "predicted / measured", "predicted speedup", "measured speedup")


def predictions(amdahl, folder):
    words = [amdahl, "report", str(folder), "--assume-devices", "2,4", "--link", LINK, "--json"]
    return json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)["predictions"]


def rows_of(amdahl, results):
    for name in STUDIES:
        for p in predictions(amdahl, results / name):
            terms = {term["name"]: term for term in p["terms"]}
            own = terms["T1(B/n)"]
            link = terms["all-reduce latency"]["us"] + terms["gradient bytes"]["us"]
            after = sum(terms[name]["us"] for name in ("joins of the graph", "update after the all-reduce"))
            for measured in p["measured"]:
                yield {"model": p["single"]["model"], "strategy": measured["strategy"], "batch": p["single"]["global_batch"],
                       "devices": p["devices"], "own": own["us"], "origin": own["origin"], "link": link, "after": after,
                       "predicted": p["step_us"], "measured": measured["step_us"],
                       "ratio": measured["predicted_over_measured"], "speedup": p["speedup"],
                       "measured_speedup": measured["speedup"]}


def line(row):
    cells = (row["model"], row["strategy"], f"{row['batch']:,}", row["devices"], f"{row['own']:.1f}", row["origin"],
             f"{row['link']:.1f}", f"{row['after']:.1f}", f"{row['predicted']:.1f}", f"{row['measured']:.1f}", f"{row['ratio']:.2f}",
             f"{row['speedup']:.2f}", f"{row['measured_speedup']:.2f}")
    return "| " + " | ".join(map(str, cells)) + " |"


def summary(name, rows):
    ratios = [row["ratio"] for row in rows]
    same = sum((row["speedup"] >= 1) == (row["measured_speedup"] >= 1) for row in rows)
    return (f"| {name} | {len(rows)} | {statistics.median(ratios):.2f} | {min(ratios):.2f} | {max(ratios):.2f} | "
            f"{same} of {len(rows)} |")


def document(rows):
    kinds = {"ddp, global batch up to 128": [r for r in rows if r["strategy"] == "ddp" and r["batch"] <= 128],
             "ddp, global batch 1,024": [r for r in rows if r["strategy"] == "ddp" and r["batch"] == 1024],
             "ddp, global batch 8,192": [r for r in rows if r["strategy"] == "ddp" and r["batch"] == 8192],
             "zero1": [r for r in rows if r["strategy"] == "zero1"]}
    return "\n".join([
        "# Two and four H200s, predicted from one", "",
        "Made by `python3 tools/prediction_table.py build/release/bin/amdahl results/h200` from the records beside it:",
        f"`amdahl report results/h200/STUDY --assume-devices 2,4 --link {LINK}` for each study. T1(B/n) is measured",
        "or lies on the line between measured batches (modelled); all-reduce is modelled; nothing is hidden behind backward.",
        "Joins of the graph's streams are from the study `medium`, which is therefore not here. The formula is that of ddp:",
        "zero1 updates within its collective.", "",
        f"Median |predicted / measured - 1| of ddp: {100 * statistics.median(abs(r['ratio'] - 1) for r in rows if r['strategy'] == 'ddp'):.1f} %.",
        "", "| cells | number | median predicted / measured | least | most | same side of speedup 1 |",
        "|---|---:|---:|---:|---:|---:|", *(summary(name, part) for name, part in kinds.items() if part), "",
        "| " + " | ".join(HEAD) + " |", "|---|---|---:|---:|---:|---|" + "---:|" * 7, *map(line, rows), ""])


def main():
    if len(sys.argv) not in (3, 4) or sys.argv[3:] not in ([], ["--check"]):
        sys.exit(__doc__)
    results = pathlib.Path(sys.argv[2])
    text = document(list(rows_of(sys.argv[1], results)))
    path = results / "predictions.md"
    if len(sys.argv) == 3:
        path.write_text(text)
        return
    if not path.exists() or path.read_text() != text:
        sys.exit(f"{path} is not what the records give: python3 tools/prediction_table.py {sys.argv[1]} {results}")


if __name__ == "__main__":
    main()
