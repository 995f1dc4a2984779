#!/usr/bin/env python3
"""Table of the records that sensor_vs_robocache writes: sensor_peer_table.py records.jsonl > table.md."""

import json
import statistics
import sys

HEAD = """# Beside RoboCache, one {device}

Medians of {blocks} alternating blocks; device time by graph replay, hot and cold cache, and one call with its wait by the host's clock.
Ratio: theirs over ours. Results: of the compatible settings against theirs.

| case | ours, hot us | theirs | ratio | cold us | theirs | ratio | one call us | theirs | results |
|---|---:|---:|---:|---:|---:|---:|---:|---:|---|"""


def main(path):
    cases, blocks, devices = {}, set(), set()
    with open(path) as lines:
        for record in map(json.loads, lines):
            axes = record["axes"]
            ours, peer = (next(one["samples"] for one in record["series"] if one["name"] == name) for name in ("ours", "peer"))
            blocks |= {len(ours), len(peer)}
            devices.add(record["provenance"]["facts"]["device.0"])
            case = cases.setdefault(axes["case"], {"agreement": axes["agreement"]})
            case[axes["cache"], axes["launch"]] = statistics.median(ours), statistics.median(peer)
    print(HEAD.format(device=" and one ".join(sorted(devices)), blocks="/".join(map(str, sorted(blocks)))))
    for name, case in cases.items():
        hot, cold, call = case["hot", "graph"], case["cold", "graph"], case["hot", "call"]
        print(f"| {name} | {hot[0]:.2f} | {hot[1]:.2f} | {hot[1] / hot[0]:.2f} | {cold[0]:.2f} | {cold[1]:.2f} "
              f"| {cold[1] / cold[0]:.2f} | {call[0]:.1f} | {call[1]:.1f} | {case['agreement']} |")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
