"""`amdahl links` on CPU virtual devices: tests, records, machine, heat map, and wrong input."""
import json
import xml.etree.ElementTree as ElementTree

import harness
from harness import records_of

QUICK = ("links", "--backend", "cpu", "-q", "-b", "256K", "--copies", "1", "-i", "2")


def found(case, *words):
    return json.loads(case.run(*QUICK, "--json", *words).stdout)


def check_list(case):
    text = case.run("links", "-l").stdout
    for name in ("device_to_device_memcpy_read_ce", "all_to_all", "integrity", "host_device_latency_sm"):
        assert f"  {name} " in text, name


def check_pairs_of_three(case):
    result = found(case, "-t", "device_to_device_memcpy_write_ce", "--devices", "3")
    assert result["version"] == 1 and len(result["records"]) == 6
    ends = {(record["axes"]["source"], record["axes"]["destination"]) for record in result["records"]}
    assert len(ends) == 6 and all(a != b for a, b in ends), ends
    for record in result["records"]:
        series = {s["name"]: s for s in record["series"]}
        assert series["bandwidth"]["unit"] == "GB/s" and len(series["bandwidth"]["samples"]) == 2
        assert record["provenance"]["device_kind"] == "cpu-virtual"
    assert all(link["measured_gbps"] > 0 for link in result["machine"]["links"])


def check_text_says_what_it_is(case):
    text = case.run(*QUICK, "-t", "pairs", "device_to_device_latency_sm").stdout
    assert text.startswith("CPU virtual devices: threads"), text
    assert "device_to_device_latency_sm: us a load, median of 2" in text


def check_integrity(case):
    text = case.run(*QUICK, "-t", "integrity", "--inject-faults", "300").stdout
    assert "300 of 300 injected corruptions were found" in text and ", 0 bytes wrong" in text, text


def check_run_folder_and_files(case):
    case.run(*QUICK, "-t", "default", "--output-dir", "r", "--heat-map", "map.svg", "--machine", "machine.json")
    kinds = {record["kind"] for record in records_of(case.path("r"))}
    assert kinds == {"link", "integrity"}, kinds
    ElementTree.parse(case.path("map.svg"))
    ElementTree.parse(case.path("r/heat-map.svg"))
    machine = json.loads(case.path("machine.json").read_text())
    assert machine == json.loads(case.path("r/machine.json").read_text())
    assert case.path("r/report.txt").read_text().startswith("CPU virtual devices")
    case.refused(2, "usage", *QUICK, "-t", "ring", "--output-dir", "r", says=["r"])


def check_a_slow_pair_fails(case):
    result = case.run(*QUICK, "-t", "device_to_device_memcpy_read_ce", "--min-gbps", "1e6", code=1)
    assert result.stdout.count("SLOW ") == 2 and "at least 1000000.0 was asked for" in result.stdout, result.stdout


def check_memory_that_is_not_there(case):
    """A cell without room is a failed record; the others keep their results."""
    result = case.run("links", "--backend", "cpu", "-q", "-t", "ring,device_local_copy,host_device_latency_sm", "-b", "1T",
                      "--output-dir", "r", code=1)
    assert "FAILED" in result.stdout, result.stdout
    kinds = [record["status"]["kind"] for record in records_of(case.path("r"))]
    assert kinds.count("failed") == 3 and kinds.count("ok") == 2, kinds


def variables_of(folder):
    lines = [line for line in harness.lines_of(folder) if line["type"] == "provenance"]
    return {line["facts"].get("env.NCCL_P2P_DISABLE") for line in lines}


def check_quarantine_is_heeded(case):
    """A machine file with a pair that corrupts: later commands say so and keep NCCL from direct copies."""
    case.run(*QUICK, "-t", "ring", "--machine", "m.json")
    machine = json.loads(case.path("m.json").read_text())
    study = ("study", "--backend", "cpu", "--model", "medium", "--devices", "1,2", "--batch-sizes", "64", "--runs", "2",
             "--warmup", "1", "--steps", "2")
    collectives = ("collectives", "--backend", "cpu", "-e", "8", "-q", "-n", "2")
    case.run(*collectives, "--machine", "m.json", "--output-dir", "clean")
    assert variables_of(case.path("clean")) == {None}
    machine["links"][0]["quarantine"] = "kernel read: 4 bytes differ"
    case.write("bad.json", json.dumps(machine))
    for run, words in (("s", study), ("c", collectives)):
        result = case.run(*words, "--machine", "bad.json", "--output-dir", run)
        assert "0 to 1 is quarantined: kernel read: 4 bytes differ" in result.stderr, result.stderr
        assert variables_of(case.path(run)) == {"1"}, run
    case.write("other.json", json.dumps({**machine, "host": "elsewhere"}))
    case.refused(2, "usage", *collectives, "--machine", "other.json", says=["elsewhere"])
    case.refused(2, "usage", *collectives, "--machine", "none.json", says=["none.json"])


def check_bad_input(case):
    for words, says in (
            (("-t", "latencys"), ["'latencys'", "latency?"]),
            (("-b", "12Q"), ["--buffer-size"]),
            (("-b", "10"), ["--buffer-size is 10"]),
            (("-i", "0"), ["--samples is 0"]),
            (("-i", "x"), ["--samples", "'x'"]),
            (("--devices", "0"), ["--devices is 0"]),
            (("--min-gbps", "-3"), ["--min-gbps is -3"]),
            (("--heat-map", "m.svg", "-t", "ring"), ["--heat-map has nothing to draw"]),
            (("--gpus", "0,0"), ["--gpus"]),
    ):
        case.refused(2, "usage", "links", "--backend", "cpu", "-q", *words, says=says)


def check_launched_processes_are_refused(case):
    variables = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
                 "MASTER_PORT": "29511"}
    case.refused(2, "usage", *QUICK, env=variables, says=["one process"])


harness.main(globals())
