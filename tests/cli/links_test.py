"""`amdahl links` on CPU virtual devices: tests, records, machine, heat map, and wrong input."""
import json
import shutil
import signal
import subprocess
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
    assert "\nMeasured on CPU virtual devices, not GPUs.\n" in text, text
    assert "device_to_device_latency_sm: us a load, median of 2" in text


def check_integrity(case):
    text = case.run(*QUICK, "-t", "integrity", "--inject-faults", "300").stdout
    assert "300 of 300 corruptions made on purpose were found" in text and "- 0 bytes wrong" in text, text


def check_run_folder_and_files(case):
    case.run(*QUICK, "-t", "default", "--output-dir", "r", "--machine", "machine.json")
    kinds = {record["kind"] for record in records_of(case.path("r"))}
    assert kinds == {"link", "integrity"}, kinds
    ElementTree.parse(case.path("r/heat-map.svg"))
    machine = json.loads(case.path("machine.json").read_text())
    assert machine == json.loads(case.path("r/machine.json").read_text())
    assert case.path("r/report.txt").read_text().startswith("Between 2 CPU virtual devices, data moves at ")
    case.refused(2, "usage", *QUICK, "-t", "ring", "--output-dir", "r", says=["r"])


def check_report_is_what_the_run_printed(case):
    printed = case.run(*QUICK, "-t", "pairs,latency,sweep,integrity", "--inject-faults", "20", "--min-gbps", "1e6",
                       "--output-dir", "r", code=1).stdout
    written = {name: case.path(f"r/{name}").read_bytes() for name in ("report.txt", "heat-map.svg", "machine.json")}
    assert printed == written["report.txt"].decode() + "run: r\n" and "SLOW 0 -> 1" in printed, printed
    for name in ("report.txt", "heat-map.svg"):
        case.path(f"r/{name}").unlink()
    result = case.run("report", "r", "--write")
    assert result.stdout == written["report.txt"].decode() + "report: r/report.txt\n" and result.stderr == "", result
    assert written == {name: case.path(f"r/{name}").read_bytes() for name in written}
    shown = json.loads(case.run("report", "r", "--json").stdout)
    assert shown["machine"] == json.loads(written["machine.json"])
    assert len(shown["records"]) == len(records_of(case.path("r")))


def check_report_without_the_machine(case):
    """records.jsonl alone: the same text, and a warning that nothing is known of the links."""
    case.run(*QUICK, "-t", "pairs,integrity", "--output-dir", "r")
    case.path("alone").mkdir()
    shutil.copy(case.path("r/records.jsonl"), case.path("alone"))
    result = case.run("report", "alone", "--write")
    assert result.stdout == case.path("r/report.txt").read_text() + "report: alone/report.txt\n", result.stdout
    assert "alone/machine.json is not there" in result.stderr, result.stderr
    assert case.path("alone/heat-map.svg").read_bytes() == case.path("r/heat-map.svg").read_bytes()
    assert "machine" not in json.loads(case.run("report", "alone", "--json").stdout)


def check_report_of_a_stopped_run(case):
    """The machine is written before anything is measured, so that what was measured has a report."""
    process = case.start("links", "--backend", "cpu", "-q", "-t", "all", "-b", "16M", "-i", "100", "--output-dir", "r")
    harness.wait_until(lambda: harness.num_records(case.path("r")) >= 2, "two records")
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=30) == 130
    assert not case.path("r/report.txt").exists()
    result = case.run("report", "r", "--write")
    assert "host_to_device_memcpy_ce: GB/s" in result.stdout, result
    assert result.stderr.count("\n") == 2 and "has no line that ends the run" in result.stderr, result
    assert "the run ended early" in result.stdout and "the run ended early" in result.stderr, result
    assert result.stdout == case.path("r/report.txt").read_text() + "report: r/report.txt\n"


def check_report_quarantines_what_records_say(case):
    case.run(*QUICK, "-t", "integrity", "--output-dir", "r")
    lines = harness.lines_of(case.path("r"))
    bad = next(line for line in lines if line.get("axes", {}).get("source") == "cpu 1")
    bad["status"] = {"kind": "failed", "reason": "4 of 9 bytes differ"}
    case.write("r/records.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    text = case.run("report", "r").stdout
    assert "FAILED integrity by " in text and "QUARANTINED cpu 1 -> cpu 0: " in text and "4 of 9 bytes differ" in text, text
    assert "QUARANTINED cpu 0 -> cpu 1" not in text, text


def check_report_of_damaged_files(case):
    case.run(*QUICK, "-t", "ring", "--output-dir", "r")
    records = harness.unchained(case.path("r/records.jsonl").read_text())
    assert '"bytes":262144' in records
    case.write("r/records.jsonl", records.replace('"bytes":262144', '"bytes":"many"'))
    assert "ring: GB/s" in case.run("report", "r").stdout
    case.write("r/machine.json", "{")
    case.refused(5, "store-corrupt", "report", "r", says=["r/machine.json"])
    case.write("r/records.jsonl", records.replace('"kind":"links"', '"kind":"tides"'))
    case.refused(2, "usage", "report", "r", says=["tides run"])


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


def check_machine_file_keeps_its_quarantines(case):
    """A run that sees no fault does not lift the quarantine of one that did; the user does, in the file."""
    links = (*QUICK, "-t", "ring")
    case.run(*links, "--machine", "m.json")
    machine = json.loads(case.path("m.json").read_text())
    machine["links"][1]["quarantine"] = "kernel read: 4 bytes differ"
    case.write("m.json", json.dumps(machine))
    result = case.run(*links, "--machine", "m.json")
    assert "1 to 0 stays quarantined: kernel read: 4 bytes differ" in result.stderr, result.stderr
    kept = json.loads(case.path("m.json").read_text())["links"]
    assert [link.get("quarantine") for link in kept] == [None, "kernel read: 4 bytes differ"], kept
    case.path("doctor.json").write_text(case.path("m.json").read_text())
    result = subprocess.run([harness.AMDAHL, "doctor", "--backend", "cpu", "-q", "--machine", "doctor.json"],
                                    cwd=case.folder, env=harness.ENVIRONMENT, capture_output=True, text=True, timeout=120)
    assert "stays quarantined" in result.stderr, result
    assert json.loads(case.path("doctor.json").read_text())["links"][1]["quarantine"] == "kernel read: 4 bytes differ"
    machine["devices"].append({**machine["devices"][1], "index": 2})
    machine["links"].append({**machine["links"][1], "source": 2})
    case.write("m.json", json.dumps(machine))
    case.refused(2, "usage", *links, "--machine", "m.json", says=["m.json: 2 to 0 is quarantined there", "another file"])
    assert json.loads(case.path("m.json").read_text()) == machine
    case.write("m.json", "")  # as mktemp makes it
    assert case.run(*links, "--machine", "m.json").stderr == ""


def check_only_machine_files_are_replaced(case):
    """Refused before anything is measured."""
    case.run(*QUICK, "-t", "ring", "--machine", "good.json", "--output-dir", "r")
    machine = json.loads(case.path("good.json").read_text())
    texts = {"thesis.tex": "years of work\n", "data.json": '{"version": 1, "rows": [1, 2]}', "half.json": json.dumps(machine)[:-9],
             "elsewhere.json": json.dumps({**machine, "host": "elsewhere"})}
    for name, text in texts.items():
        case.write(name, text)
        for words in ((*QUICK, "-t", "ring"), ("doctor", "--backend", "cpu")):
            result = case.refused(2, "usage", *words, "--machine", name, says=[name, "another"])
            assert result.stderr.count("\n") == 1 and not result.stdout, result
        assert case.path(name).read_text() == text, f"{name} was replaced"
    case.write("newer.json", json.dumps({**machine, "version": 2}))
    case.refused(5, "version-refused", *QUICK, "-t", "ring", "--machine", "newer.json", says=["newer.json"])
    case.refused(2, "usage", "calibrate", "r", "--machine", "elsewhere.json", says=["elsewhere"])


def check_bad_input(case):
    for words, says in (
            (("-t", "latencys"), ["'latencys'", " latency"]),
            (("-b", "12Q"), ["--buffer-size"]),
            (("-b", "10"), ["--buffer-size is 10"]),
            (("-i", "0"), ["--samples is 0"]),
            (("-i", "x"), ["--samples", "'x'"]),
            (("--devices", "0"), ["--devices is 0"]),
            (("--min-gbps", "-3"), ["--min-gbps: '-3' is no rate"]),
            (("--gpus", "0,0"), ["--gpus"]),
    ):
        case.refused(2, "usage", "links", "--backend", "cpu", "-q", *words, says=says)


def check_launched_processes_are_refused(case):
    variables = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
                 "MASTER_PORT": "29511"}
    case.refused(2, "usage", *QUICK, env=variables, says=["one process"])


harness.main(globals())
