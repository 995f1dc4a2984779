#!/usr/bin/env python3
"""Links beside nvbandwidth and collectives beside nccl-tests, both built from source, in one session and in turns.

Usage: fabric_vs_peers.py AMDAHL OUTPUT_DIR [--nvbandwidth PROGRAM] [--nccl-tests FOLDER_OF_PROGRAMS] [--devices N]
                          [--collectives a,b] [--sizes "-b 8 -e 128M -f 16"] [--rounds 2]

OUTPUT_DIR gets our run folders, the peers' figures (nvbandwidth.json, nccl-tests.jsonl) and table.md. A ratio above 1 is
ours ahead. nccl-tests averages a collective's time over the ranks, we take the slowest rank's: rooted collectives, whose
ranks end apart, therefore show below what they would by its rule.
"""
import argparse
import json
import pathlib
import platform
import re
import statistics
import subprocess
import sys

LINK_TESTS = ("device_to_device_memcpy_read_ce device_to_device_memcpy_write_ce device_to_device_memcpy_read_sm "
              "device_to_device_memcpy_write_sm device_to_device_latency_sm host_device_latency_sm device_local_copy "
              "host_to_device_memcpy_ce device_to_host_memcpy_ce all_to_one_write_ce one_to_all_read_ce").split()
COLLECTIVES = "all_reduce all_gather reduce_scatter broadcast reduce sendrecv all_to_all gather scatter".split()
PROGRAMS = {"all_to_all": "alltoall"}  # of nccl-tests, where the name is another


def run(words, timeout=300):
    result = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=timeout)
    if result.returncode != 0:
        sys.exit(f"{words[0]} ended with {result.returncode}: {(result.stderr or result.stdout)[-600:]}")
    return result.stdout


def cells_of_nvbandwidth(text):
    """Figures of each test, GB/s or ns, without the cells that do not apply."""
    document = json.loads(text[text.index("{"):])
    tests = {}
    for test in document["nvbandwidth"]["testcases"]:
        matrix = test.get("bandwidth_matrix") or test.get("latency_matrix") or []
        tests[test["name"]] = [float(cell) for row in matrix for cell in row if cell != "N/A"]
    return tests


def links(arguments, table):
    peer_text = run([arguments.nvbandwidth, "-j", "-t", *LINK_TESTS])
    (arguments.output / "nvbandwidth.json").write_text(peer_text[peer_text.index("{"):])
    peer = cells_of_nvbandwidth(peer_text)
    ours = {}
    document = json.loads(run([arguments.amdahl, "links", "-q", "-j", "-o", arguments.output / "links-beside-peer", "-t",
                               ",".join(LINK_TESTS)]))
    for record in document["records"]:
        series = {s["name"]: statistics.median(s["samples"]) for s in record["series"]}
        figure = series.get("bandwidth", series.get("latency", 0) * 1000)
        ours.setdefault(record["axes"]["test"], []).append(figure)
    table.append("| test | nvbandwidth, mean | amdahl, mean | amdahl / nvbandwidth |\n|---|---:|---:|---:|")
    for test in LINK_TESTS:
        if peer.get(test) and ours.get(test):
            a, b = statistics.mean(peer[test]), statistics.mean(ours[test])
            unit = "ns" if "latency" in test else "GB/s"
            table.append(f"| {test} | {a:.1f} {unit} | {b:.1f} {unit} | {b / a:.3f} |")
    table.append("")


def peer_times(arguments, name):
    """Out-of-place microseconds by bytes."""
    text = run([pathlib.Path(arguments.nccl_tests) / f"{PROGRAMS.get(name, name)}_perf", *arguments.sizes.split(), "-t",
                arguments.devices, "-g", 1])
    rows = [line.split() for line in text.splitlines() if re.match(r"\s+\d+\s+\d+\s+\w+", line)]
    return {int(row[0]): float(row[5]) for row in rows if int(row[0]) > 0}


def our_times(arguments, name, folder):
    words = [arguments.amdahl, "collectives", "-q", "--json", "--collective", name, *arguments.sizes.split(),
             "--devices", arguments.devices] + (["--output-dir", folder] if folder else [])
    records = json.loads(run(words))["records"]
    return {record["axes"]["bytes"]: next(s["samples"][0] for s in record["series"] if s["name"] == "time")
            for record in records if not record["axes"]["in_place"] and record["status"]["kind"] == "ok"}


def collectives(arguments, table):
    table.append("| collective | bytes | nccl-tests us | amdahl us | nccl-tests / amdahl |\n|---|---:|---:|---:|---:|")
    with open(arguments.output / "nccl-tests.jsonl", "w") as out:
        for name in arguments.collectives.split(","):
            peer, ours = [], []
            for turn in range(arguments.rounds):
                folder = arguments.output / name if turn == arguments.rounds - 1 else None
                peer.append(peer_times(arguments, name))
                ours.append(our_times(arguments, name, folder))
            for size in sorted(peer[0]):
                a, b = [times.get(size) for times in peer], [times.get(size) for times in ours]
                if None in a or None in b:
                    continue
                out.write(json.dumps({"host": platform.node(), "collective": name, "devices": arguments.devices,
                                      "bytes": size, "nccl_tests_us": a, "amdahl_us": b}) + "\n")
                table.append(f"| {name} | {size} | {min(a):.2f} | {min(b):.2f} | {min(a) / min(b):.2f} |")
    table.append("")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("amdahl")
    parser.add_argument("output", type=pathlib.Path)
    parser.add_argument("--nvbandwidth")
    parser.add_argument("--nccl-tests")
    parser.add_argument("--devices", type=int, default=2)
    parser.add_argument("--collectives", default=",".join(COLLECTIVES))
    parser.add_argument("--sizes", default="-b 8 -e 128M -f 16 -n 50 -w 10")
    parser.add_argument("--rounds", type=int, default=2)
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    table = []
    if arguments.nvbandwidth:
        links(arguments, table)
    if arguments.nccl_tests:
        collectives(arguments, table)
    (arguments.output / "table.md").write_text("\n".join(table) + "\n")
    print("\n".join(table))


if __name__ == "__main__":
    main()
