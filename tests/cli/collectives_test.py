"""`amdahl collectives` on CPU virtual devices: options of nccl-tests, its table, records, and wrong input."""
import json
import os
import re
import shutil
import xml.etree.ElementTree as ElementTree

import harness
from harness import lines_of, records_of

QUICK = ("collectives", "--backend", "cpu", "-q", "-n", "3", "-w", "1")
ALL = "all_reduce,all_gather,reduce_scatter,broadcast,reduce,sendrecv,all_to_all,gather,scatter"


def records(case, *words):
    return json.loads(case.run(*QUICK, "--json", *words).stdout)["records"]


def check_every_collective(case):
    found = records(case, "--collective", ALL, "-b", "1K", "-e", "64K", "-f", "8", "--devices", "3")
    assert {record["axes"]["collective"] for record in found} == set(ALL.split(","))
    for record in found:
        series = {s["name"]: s["samples"] for s in record["series"]}
        assert record["status"]["kind"] == "ok" and series["wrong"] == [0] and len(series["call_time"]) == 3, record
        assert record["provenance"]["device_kind"] == "cpu-virtual"
        bytes_per_us = record["axes"]["bytes"] / series["time"][0]
        assert abs(series["algbw"][0] - bytes_per_us * 1e-3) <= 1e-9 * bytes_per_us
    placements = {record["axes"]["collective"]: 0 for record in found}
    for record in found:
        placements[record["axes"]["collective"]] += 1
    assert placements["all_reduce"] == 6 and placements["sendrecv"] == 3, placements


def check_types_and_operations(case):
    for dtype in ("float", "double", "half", "bfloat16", "int32", "int64", "uint8"):
        for op in ("sum", "prod", "min", "max", "avg"):
            found = records(case, "-d", dtype, "--op", op, "-b", "4K", "-e", "4K")
            assert len(found) == 2 and all(r["status"]["kind"] == "ok" for r in found), found


def check_several_types_and_operations_in_one_call(case):
    found = records(case, "-d", "f32,f16,float", "--op", "sum,max", "--collective", "all_reduce,broadcast", "-b", "1K", "-e", "1K")
    sweeps = [(r["axes"]["collective"], r["axes"]["dtype"], r["axes"].get("op")) for r in found if not r["axes"]["in_place"]]
    assert sweeps == [("all_reduce", "f32", "sum"), ("all_reduce", "f32", "max"), ("all_reduce", "f16", "sum"),
                      ("all_reduce", "f16", "max"), ("broadcast", "f32", None), ("broadcast", "f16", None)], sweeps
    found = records(case, "-d", "all", "--op", "all", "--collective", "all", "-b", "256", "-e", "256")
    out = [r for r in found if not r["axes"]["in_place"]]
    assert len(out) == 8 * (3 * 5 + 6) and all(r["status"]["kind"] == "ok" for r in found), len(out)


def check_sizes_without_a_share_are_left_out(case):
    sizes = {r["axes"]["bytes"] for r in records(case, "--collective", "all_gather", "-b", "8", "-e", "512")}
    assert sizes == {128, 256, 512}, sizes
    case.refused(2, "usage", *QUICK, "--collective", "all_gather", "-b", "8", "-e", "64",
                 says=["all_gather of at most 64 bytes has no share for each of 2 ranks", "--max-bytes 128"])


def check_table_of_nccl_tests(case):
    text = case.run(*QUICK, "-b", "8", "-e", "128", "-f", "4", "-g", "4", "--format", "nccl-tests").stdout
    rows = [line.split() for line in text.splitlines() if line and not line.startswith("#")]
    assert [row[0] for row in rows] == ["8", "32", "128"], text
    for row in rows:
        assert len(row) == 13 and row[2:5] == ["float", "sum", "-1"] and row[8] == "0" and row[12] == "0", row
        size, count = int(row[0]), int(row[1])
        assert count * 4 == size
    assert re.search(r"# Out of bounds values : 0 OK\n# Avg bus bandwidth    : [0-9.e-]+", text), text
    assert "over 4 CPU virtual devices" in text


def check_steps_between_sizes(case):
    sizes = [r["axes"]["bytes"] for r in records(case, "-b", "1024", "-e", "4096", "-i", "1024") if not r["axes"]["in_place"]]
    assert sizes == [1024, 2048, 3072, 4096], sizes


def check_without_verification(case):
    assert all(s["name"] != "wrong" for r in records(case, "-c", "0", "-b", "64", "-e", "64") for s in r["series"])


def check_run_folder(case):
    printed = case.run(*QUICK, "-b", "64", "-e", "1K", "-f", "4", "--output-dir", "r", "--json").stdout
    assert len(records_of(case.path("r"))) == 6 and lines_of(case.path("r"))[0]["kind"] == "collectives"
    assert len(json.loads(printed)["records"]) == 6
    text = case.run("report", "r").stdout
    assert "all_reduce, f32, sum over 2 CPU virtual devices" in text and "not GPUs" in text, text
    case.refused(2, "usage", *QUICK, "--output-dir", "r", says=["r"])
    case.refused(2, "usage", "report", "r", "--advise", "--model", "medium", says=["collectives run"])


def marks_of(path):
    """How many elements of each class an SVG has."""
    counts = {}
    for element in ElementTree.parse(path).iter():
        kind = element.get("class")
        counts[kind] = counts.get(kind, 0) + 1
    return counts


def check_curves(case):
    """A mark a record, a line a collective and placement, the limit only where one is known."""
    case.run(*QUICK, "--collective", "all_reduce,sendrecv", "--devices", "3", "-b", "1K", "-e", "256K", "-f", "4",
             "--output-dir", "r")
    case.run("report", "r")
    found = records_of(case.path("r"))
    lines = {(record["axes"]["collective"], record["axes"]["in_place"]) for record in found}
    assert len(found) == 15 and len(lines) == 3
    marks = marks_of(case.path("r/curves.svg"))
    assert marks["mark"] == len(found) and marks["curve"] == len(lines), marks
    assert "limit" not in marks and "failed" not in marks, marks
    words = "".join(ElementTree.parse(case.path("r/curves.svg")).getroot().itertext())
    for text in ("bus bandwidth, GB/s", "size: bytes", "not GPUs", "mean of 3 calls", "sendrecv", "64 KiB"):
        assert text in words, text


def check_curves_leave_out_what_has_no_rate(case):
    case.run(*QUICK, "-b", "64", "-e", "1T", "-f", "131072", "-c", "0", "--output-dir", "r", code=1)
    measured = sum(record["status"]["kind"] == "ok" for record in records_of(case.path("r")))
    assert marks_of(case.path("r/curves.svg"))["mark"] == measured > 0
    assert "1 record without a bandwidth, not drawn" in case.path("r/curves.svg").read_text()


def check_report_is_what_the_run_printed(case):
    """From records.jsonl alone, in another folder, with the limit and the failure that were written into it."""
    printed = case.run(*QUICK, "--collective", "all_reduce", "-b", "1K", "-e", "64K", "-f", "8", "--output-dir", "r").stdout
    assert printed == case.path("r/report.txt").read_text() + "run: r\n"
    case.path("alone").mkdir()
    shutil.copy(case.path("r/records.jsonl"), case.path("alone"))
    rebuilt = case.run("report", "alone", "--write").stdout
    assert rebuilt == case.path("r/report.txt").read_text() + "report: alone/report.txt\n", rebuilt
    for name in ("report.txt", "curves.svg"):
        assert case.path(f"alone/{name}").read_bytes() == case.path(f"r/{name}").read_bytes(), name
    lines = lines_of(case.path("r"))
    last = lines[-1]
    last["status"] = {"kind": "failed", "reason": "3 elements are wrong <&>"}
    last["series"].append({"name": "peak", "unit": "GB/s", "samples": [450]})
    case.write("alone/records.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    assert ": 3 elements are wrong <&>" in case.run("report", "alone", "--write").stdout
    marks = marks_of(case.path("alone/curves.svg"))
    assert (marks["mark"], marks["failed"], marks["limit"]) == (len(records_of(case.path("r"))) - 1, 1, 1), marks
    assert "physical limit, 450 GB/s" in case.path("alone/curves.svg").read_text()


def check_one_rank_is_waived(case):
    assert case.run(*QUICK, "--devices", "1", code=77).stdout == "waived: 1 rank: a collective needs at least 2 devices\n"


def check_memory_that_is_not_there(case):
    """A size without room ends the sweep; the sizes before it keep their rows."""
    result = case.run(*QUICK, "-b", "64", "-e", "1T", "-f", "131072", "-c", "0", "--output-dir", "r",
                      code=1)
    assert "FAILED" in result.stdout and "asked" in result.stdout, result.stdout
    kinds = [record["status"]["kind"] for record in records_of(case.path("r"))]
    assert kinds[0] == "ok" and kinds[-1] == "failed", kinds


def check_bad_input(case):
    for words, says in (
            (("--collective", "all_reduse"), ["'all_reduse'", " all_reduce"]),
            (("--comm", "pvm"), ["pvm", "symmetric"]),
            (("-d", "float8"), ["'float8'"]),
            (("-d", "u8", "--op", "avg", "--devices", "256"), ["avg of u8", "256 ranks"]),
            (("--op", "plus"), ["'plus'"]),
            (("-b", "8Q"), ["--min-bytes"]),
            (("-e", "much"), ["--max-bytes"]),
            (("-b", "64K", "-e", "1K"), ["--min-bytes", "--max-bytes"]),
            (("-b", "0"), ["--min-bytes"]),
            (("-f", "1"), ["--step-factor"]),
            (("-n", "0"), ["--samples"]),
            (("-w", "-1"), ["--warmup"]),
            (("-r", "2"), ["--root", "2 ranks"]),
            (("-g", "0"), ["--devices"]),
            (("--devices", "0"), ["--devices"]),
            (("--format", "csv"), ["'csv'", "table"]),
            (("-T", "0"), ["--timeout"]),
            (("-G", "2"), ["graph"]),
            (("-R", "3"), ["--local-register"]),
            (("-R", "2"), ["-R 2", "CPU"]),
            (("-d", "f32,f23"), ["'f23'", " f32"]),
            (("--op", "sum,"), ["operation ''"]),
            (("--nccl", "NCCL_NTHREADS=16"), ["NCCL_NTHREADS=16", "64, 128, 256, 512"]),
            (("--nccl", "NCCL_ALOG=Ring"), ["NCCL_ALOG", " NCCL_ALGO"]),
            (("--nccl", "NCCL_ALGO=Rign"), ["NCCL_ALGO=Rign", "Ring"]),
            (("--nccl", "NCCL_MIN_NCHANNELS=9", "--nccl", "NCCL_MAX_NCHANNELS=8"), ["9 is above", "NCCL_MAX_NCHANNELS=8"]),
            (("--nccl", "pcie-hots"), ["'pcie-hots'", " pcie-host"]),
            (("--nccl", "pcie-host"), ["NCCL", "CPU virtual devices"]),
            (("--arena", "--nccl", "pcie-host"), ["NCCL", "no transport here"]),
            (("--arena=gluu",), ["'gluu'", " gloo"]),
            (("--arena=nccl",), ["nccl", "backend cpu"]),
            (("--arena", "-R", "1"), ["-R", "--arena"]),
            (("--arena", "--format", "nccl-tests"), ["nccl-tests", "--arena"]),
            (("--arena", "--transport-timeout", "0"), ["--transport-timeout"]),
            (("--arena", "-b", "64K", "-e", "1K"), ["--min-bytes", "--max-bytes"]),
            (("--arena", "-d", "f33"), ["'f33'"]),
            (("--env-file", "e"), ["--arena"]),
            (("--collective", ""), ["collective"])):
        case.refused(2, "usage", *QUICK, *words, says=says)


def check_settings_of_the_environment(case):
    """What NCCL would misread is refused with the reason, wherever it comes from."""
    case.refused(2, "usage", *QUICK, "-b", "64", "-e", "64", env={"NCCL_NTHREADS": "16"},
                 says=["NCCL_NTHREADS=16", "the environment", "64, 128, 256, 512"])
    case.run(*QUICK, "-b", "64", "-e", "64", env={"NCCL_NTHREADS": "128"})


ARENA = ("collectives", "--backend", "cpu", "-q", "-n", "3", "-w", "1", "--arena")


def check_arena_of_threads_and_gloo(case):
    """Both transports measure every size; the table marks the fastest, and the records can be reported again."""
    result = case.run(*ARENA[:-1], "-b", "1K", "-e", "64K", "-f", "64", "--collective", "all_reduce,sendrecv", "--devices", "3",
                      "--arena=threads,gloo", "--output-dir", "a", "--env-file", "nccl.sh", timeout=120)
    found = records_of(case.path("a"))
    assert found == [r for r in found if r["kind"] == "collective"] and len(found) == 2 * 6, found
    by_transport = {name: [r for r in found if r["axes"]["transport"] == name] for name in ("threads", "gloo")}
    for name, rows in by_transport.items():
        keys = [(r["axes"]["collective"], r["axes"]["bytes"], r["axes"]["in_place"]) for r in rows]
        assert keys == [("all_reduce", 1024, False), ("all_reduce", 1024, True), ("all_reduce", 65536, False),
                        ("all_reduce", 65536, True), ("sendrecv", 1024, False), ("sendrecv", 65536, False)], (name, keys)
        assert all(r["status"]["kind"] == "ok" and r["axes"]["devices"] == 3 for r in rows), rows
    provenance = {line["id"]: line for line in lines_of(case.path("a")) if line["type"] == "provenance"}
    launches = {name: {provenance[r["provenance"]]["facts"]["processes"] for r in rows} for name, rows in by_transport.items()}
    assert launches == {"threads": {"plain launch"}, "gloo": {"torchrun launch"}}, launches
    assert "\nMeasured on CPU virtual devices, not GPUs.\n" in result.stdout, result.stdout
    tables = [table for table in result.stdout.split("\n\n") if "Bus (GB/s)" in table]
    assert [sum(line.endswith("  fastest") for line in table.splitlines()) for table in tables] == [2, 2, 2], result.stdout
    for table in tables:
        rows = [line.replace(",", "").split() for line in table.splitlines() if " threads " in line or " gloo " in line]
        for size in {row[0] for row in rows}:
            times = {row[1]: float(row[2]) for row in rows if row[0] == size}
            behind = {row[1]: row[4] for row in rows if row[0] == size}
            fastest, slowest = sorted(times, key=times.get)
            assert behind[fastest] == "fastest", table
            ratio = times[slowest] / times[fastest]  # of times with four digits
            assert abs(float(behind[slowest]) - 100 * (ratio - 1)) < 0.2 * ratio, table
    assert re.search(r"times? the fastest: .*sizes and placements over CPU virtual devices", result.stdout), result.stdout
    assert result.stdout.split("environment:")[0] in case.run("report", "a").stdout
    written = case.path("nccl.sh").read_text()
    assert written.startswith("# NCCL was not measured") and "export" not in written, written


def check_transports_that_are_not_here_are_rows(case):
    if json.loads(case.run("info", "--json").stdout)["machine"]["devices"]:
        raise harness.Skip("this machine has a GPU")
    words = ("collectives", "-q", "-n", "1", "-b", "64", "-e", "64", "--arena")
    found = json.loads(case.run(*words, "--json").stdout)["records"]
    absent = {r["axes"]["transport"]: r["status"] for r in found if r["kind"] == "transport"}
    assert {"nccl", "nccl ring ll", "nccl symmetric"} <= set(absent), absent
    assert all(status["kind"] == "waived" and status["reason"] for status in absent.values()), absent
    backends = json.loads(case.run("info", "--json").stdout)["backends"]
    mpi = any(b["name"] == "mpi" and b["ok"] for b in backends) and os.access("/usr/bin/mpirun", os.X_OK)
    assert ("mpi" in absent) == (not mpi), absent
    measured = {r["axes"]["transport"] for r in found if r["kind"] == "collective"}
    symmetric = {"symmetric", "symmetric threads", "symmetric ll", "symmetric one-shot", "symmetric two-shot"}
    assert measured == {"threads", "gloo"} | symmetric | ({"mpi"} if mpi else set()), measured
    assert all(r["status"]["kind"] == "ok" for r in found if r["kind"] == "collective"), found
    case.refused(3, "environment-missing", *words[:-1], "--arena=nccl", says=["transport nccl"])


def check_a_transport_that_fails_is_told(case):
    """The others have their rows, and the exit code says that one has none."""
    backends = json.loads(case.run("info", "--json").stdout)["backends"]
    if not (any(b["name"] == "mpi" and b["ok"] for b in backends) and os.access("/usr/bin/mpirun", os.X_OK)):
        raise harness.Skip("no MPI to break")
    result = case.refused(1, "check-failed", *ARENA[:-1], "-b", "64", "-e", "64", "--arena=threads,mpi", "--output-dir", "a",
                          env={"OPAL_PREFIX": "/nowhere", "MPIR_CVAR_CH4_NETMOD": "nowhere"}, says=["a transport"])
    assert "mpi" in result.stdout and "FAILED" in result.stdout and "threads" in result.stdout, result.stdout
    ends = {(r["axes"]["transport"], r["kind"], r["status"]["kind"]) for r in records_of(case.path("a"))}
    assert ends == {("threads", "collective", "ok"), ("mpi", "transport", "failed")}, ends


def check_arena_inside_a_launched_job(case):
    case.refused(2, "usage", *ARENA, env={"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"},
                 says=["arena", "mpirun"])


def check_arena_of_one_rank_is_waived(case):
    assert case.run(*ARENA, "--devices", "1", code=77).stdout == "waived: 1 rank: a collective needs at least 2 devices\n"


def check_arena_between_gpus(case):
    """Every transport of NCCL on this machine gives rows or its reason, and NCCL says what it chose."""
    devices = json.loads(case.run("info", "--json").stdout)["machine"]["devices"]
    if len(devices) < 2:
        raise harness.Skip(f"NCCL needs two GPUs, here is {len(devices)}")
    case.run("collectives", "--backend", "cuda", "-q", "-n", "20", "-b", "1K", "-e", "16M", "-f", "16", "--arena", "--devices",
             "2", "--output-dir", "a", "--env-file", "nccl.sh", timeout=280)
    found = records_of(case.path("a"))
    measured = {r["axes"]["transport"] for r in found if r["kind"] == "collective"}
    assert {"nccl", "nccl ring simple", "nccl tree ll", "nccl registered", "nccl graph"} <= measured, found
    chosen = [r["axes"].get("nccl_chose") for r in found if r["axes"]["transport"] == "nccl"]
    assert chosen and all(chosen), chosen
    for line in case.path("nccl.sh").read_text().splitlines():
        assert line.startswith(("#", "export NCCL_")), line


def check_gpu_asked_for_without_one(case):
    if json.loads(case.run("info", "--json").stdout)["machine"]["devices"]:
        raise harness.Skip("this machine has a GPU")
    case.refused(3, "environment-missing", "collectives", "--backend", "cuda", says=["cuda"])
    case.refused(3, "environment-missing", "collectives", "--gpus", "0,1", says=["cuda"])


harness.main(globals())
