#!/usr/bin/env python3
"""Table of the records that sensor_vs_robocache writes: sensor_peer_table.py records.jsonl > table.md."""

import gzip
import json
import statistics
import sys

HEAD = """# Beside RoboCache, one {device}

Medians of {blocks} alternating blocks; device time by graph replay, hot and cold cache, and one call with its wait by the host's clock.
Ratio: theirs over ours. Of the copy: the bytes of a call's inputs and outputs, by its hot time, in per cent of what a copy within
the device read and wrote in the same run ({copy:,.0f} GB/s); beyond 100 where fewer targets than samples need not all of them.
Results: of the compatible settings against theirs.

| case | ours, hot us | theirs | ratio | of the copy | cold us | theirs | ratio | one call us | theirs | results |
|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|"""


def main(path):
    cases, blocks, devices, copy = {}, set(), set(), 0
    with gzip.open(path, "rt") if path.endswith(".gz") else open(path) as lines:
        for record in map(json.loads, lines):
            axes, samples = record["axes"], {one["name"]: one["samples"] for one in record["series"]}
            medians = {name: statistics.median(one) for name, one in samples.items()}
            if axes["op"] == "copy":
                copy = medians["bandwidth"]
                continue
            blocks |= {len(samples["ours"]), len(samples["peer"])}
            devices.add(record["provenance"]["facts"]["device.0"])
            case = cases.setdefault(axes["case"], {"agreement": axes["agreement"]})
            case[axes["cache"], axes["launch"]] = medians
    print(HEAD.format(device=" and one ".join(sorted(devices)), blocks="/".join(map(str, sorted(blocks))), copy=copy))
    for name, case in cases.items():
        hot, cold, call = case["hot", "graph"], case["cold", "graph"], case["hot", "call"]
        print(f"| {name} | {hot['ours']:.2f} | {hot['peer']:.2f} | {hot['peer'] / hot['ours']:.2f} | {hot['bandwidth'] / copy:.0%} "
              f"| {cold['ours']:.2f} | {cold['peer']:.2f} | {cold['peer'] / cold['ours']:.2f} | {call['ours']:.1f} "
              f"| {call['peer']:.1f} | {case['agreement']} |")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
