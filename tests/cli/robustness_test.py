"""What ends a run from outside: closed streams, size limits, deleted folders, signals, another host, read-only folders."""
import ctypes
import json
import os
import resource
import shutil
import signal
import stat
import subprocess
import time

import harness
from harness import TINY, lines_of, num_records, records_of

STUDY = ("study", *TINY, "-q")
LONG = (*STUDY, "--runs", "1000000")
CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, PR_CAPBSET_DROP = 1, 2, 24


def check_closed_streams(case):
    """What is printed must not land in a file that got the number of a closed stream."""
    words = ("study", *TINY, "--runs", "2")
    for closed in ("2>&-", ">&-", "<&-", ">&- 2>&-", "<&- >&- 2>&-"):
        command = f'"$0" "$@" {closed}'
        result = subprocess.run(["bash", "-c", command, harness.AMDAHL, *words, "-o", "r"], cwd=case.folder,
                                env=harness.ENVIRONMENT, capture_output=True, text=True, timeout=60)
        assert result.returncode == 0, (closed, result)
        assert len(records_of(case.path("r"))) == 4, closed
        for file in ("records.jsonl", "summary.json", "report.md"):
            assert "plan: " not in case.path(f"r/{file}").read_text(), (closed, file)
        case.run("report", "r", "--write")
        shutil.rmtree(case.path("r"))
    result = subprocess.run(["bash", "-c", '"$0" info --topology -o t.txt 2>&- >&-', harness.AMDAHL], cwd=case.folder,
                            env=harness.ENVIRONMENT, timeout=60)
    assert result.returncode == 0 and case.path("t.txt").read_text() == case.run("info", "--topology").stdout


def check_progress_that_nobody_can_take(case):
    """A full or closed standard error ends no run."""
    with open("/dev/full", "w") as full:
        for words in (("study", *TINY, "--runs", "2", "-o", "r"), ("report", "r", "--write"), ("report", "nowhere")):
            result = subprocess.run([harness.AMDAHL, *words], cwd=case.folder, env=harness.ENVIRONMENT, stdout=subprocess.PIPE,
                                    stderr=full, text=True, timeout=60)
            assert result.returncode == (2 if "nowhere" in words else 0), (words, result)
    assert len(records_of(case.path("r"))) == 4


def check_file_size_limit(case):
    """With the limit's signal as a shell leaves it: an error with a remedy, and nothing beside the file."""
    case.run(*STUDY, "--runs", "3", "-o", "r")

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500))

    before = sorted(os.listdir(case.path("r")))
    for words in (("report", "r", "--csv", "out.csv"), ("report", "r", "-q", "--html", "out.html"),
                  ("info", "--topology", "--json", "-o", "out.json"), ("report", "r", "--write")):
        case.refused(7, "disk-full", *words, preexec_fn=limit, says=["File too large", "ulimit -f"])
        assert os.listdir(case.folder) == ["r"] and sorted(os.listdir(case.path("r"))) == before, words
    with open(case.path("out.txt"), "w") as out:
        result = subprocess.run([harness.AMDAHL, "report", "r", "--csv", "-"], cwd=case.folder, env=harness.ENVIRONMENT,
                                stdout=out, stderr=subprocess.PIPE, text=True, preexec_fn=limit)
    assert result.returncode == 7, result
    harness.check_error(result.stderr, "disk-full", ["standard output"])


def check_a_folder_that_goes_away(case):
    """The next record ends the study: nobody would find what is written from there on."""
    for number, gone in enumerate((shutil.rmtree, lambda path: path.rename(case.path("moved")))):
        folder = case.path(f"r{number}")
        process = case.start(*LONG, "-o", folder.name)
        harness.wait_until(lambda: num_records(folder) >= 2, "two records")
        gone(folder)
        assert process.wait(timeout=30) == 2
        harness.check_error(case.output(process), "usage", [f"r{number}/records.jsonl was deleted, moved or replaced"])
        assert not folder.exists(), "the folder was made again"
    assert num_records(case.path("moved")) >= 2


def edit_header(case, field, value):
    lines = lines_of(case.path("r"))
    assert field in lines[0]["config"], lines[0]
    lines[0]["config"][field] = value
    case.write("r/records.jsonl", "".join(json.dumps(line) + "\n" for line in lines))


def check_resume_elsewhere(case):
    """Refused before anything is measured: samples of two hosts, builds or devices are not one study."""
    for field in ("host", "commit", "tool_version", "device_names"):
        case.run(*STUDY, "--runs", "2", "-o", "r")
        edit_header(case, field, "another")
        before = case.path("r/records.jsonl").read_bytes()
        case.refused(2, "usage", *STUDY, "--runs", "3", "-o", "r", "--resume",
                     says=["cannot resume", f'{field} was "another" and is now ', "host and build"])
        assert case.path("r/records.jsonl").read_bytes() == before, "a refused command changed the run"
        case.run("report", "r")
        shutil.rmtree(case.path("r"))
    case.run(*STUDY, "--runs", "2", "-o", "r")
    case.run(*STUDY, "--runs", "3", "-o", "r", "--resume")
    assert num_records(case.path("r")) == 6


def stop(case, process, number, seconds):
    """Sends a signal; how long the process took to end, and its standard error."""
    start = time.monotonic()
    process.send_signal(number)
    assert process.wait(timeout=30) == 128 + number
    took = time.monotonic() - start
    assert took < seconds, f"{took:.1f} s until {process.args[1:3]} ended"
    return case.output(process)


def is_waiting_in(process, path):
    """Whether the process has the file open: it reads from there on."""
    try:
        return any(os.path.realpath(f"/proc/{process.pid}/fd/{fd}") == str(path)
                   for fd in os.listdir(f"/proc/{process.pid}/fd"))
    except FileNotFoundError:
        return False


def check_interrupted_while_reading(case):
    """A file that comes slowly: Ctrl-C ends the command at once, and the remedy is not that of a study."""
    fifos = [("cloud.bin", ("sensor", "voxelize", "cloud.bin", "--backend", "cpu", "--voxel-size", "1")),
             ("table.csv", ("train", "--backend", "cpu", "--data", "table.csv", "--target", "y")),
             ("series.csv", ("sensor", "resample", "series.csv", "--rate", "5")),
             ("data.csv", (*STUDY, "--data", "data.csv", "--target", "y"))]
    for name, words in fifos:
        os.mkfifo(case.path(name))
        for number in (signal.SIGINT, signal.SIGTERM):
            process = case.start(*words)
            with open(case.path(name), "wb") as writer:
                writer.write(b"a,y\n1,2\n")
                writer.flush()
                harness.wait_until(lambda: is_waiting_in(process, case.path(name)), "the file is open")
                error = stop(case, process, number, seconds=4)
            harness.check_error(error, "interrupted", ["stopped by the user"])
            assert ("--resume" in error) == (words[0] == "study"), error


def check_grace_has_run_out(case):
    """What the alarm at its end says (sent here at once); only a study can be gone on with."""
    for words, resumes in ((LONG, True), (("train", "--backend", "cpu", "-q", "--epochs", "1000000"), False)):
        folder = case.path(words[0])
        process = case.start(*words, "-o", folder.name)
        harness.wait_until(lambda: num_records(folder) >= 1, "a record")
        process.send_signal(signal.SIGALRM)
        process.wait(timeout=20)
        error = case.output(process)
        harness.check_error(error, "interrupted", ["within a run"])
        assert ("--resume" in error) == resumes, error


def check_interrupted_processes(case):
    """Between its processes too, a study says how to go on."""
    process = case.start(*STUDY, "--runs", "100000", "--processes", "2", "-o", "r")
    harness.wait_until(lambda: num_records(case.path("r")) >= 1, "a record")
    error = stop(case, process, signal.SIGINT, seconds=15)
    harness.check_error(error, "interrupted", ["processes measured so far are kept", "--resume"])


def check_remedies_of_a_full_disk(case):
    """Only a study is told to go on with --resume."""
    case.run(*STUDY, "--runs", "2", "-o", "r")

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))

    train = ("train", "--backend", "cpu", "-q", "--epochs", "50", "--batch-size", "5000", "-o", "t")
    collectives = ("collectives", "--backend", "cpu", "-q", "-n", "1", "-e", "1M", "--output-dir", "c")
    for words in (("report", "r", "--jsonl", "out.jsonl"), ("report", "r", "-q", "--html", "r.html"), train, collectives):
        error = case.refused(7, "disk-full", *words, preexec_fn=limit).stderr
        assert "--resume" not in error, error
    error = case.refused(7, "disk-full", *STUDY, "--runs", "50", "-o", "s", preexec_fn=limit).stderr
    assert "amdahl study --resume" in error and "are kept" in error, error


def without_capabilities():
    """Lets file permissions count for root too."""
    for capability in (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH):
        ctypes.CDLL(None, use_errno=True).prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)


def check_report_of_a_folder_of_others(case):
    case.run(*STUDY, "--runs", "2", "-o", "r")
    text = case.run("report", "r").stdout
    for name in ("report.md", "summary.json"):
        os.unlink(case.path(f"r/{name}"))
    case.path("r").chmod(0o555)
    try:
        assert case.run("report", "r", preexec_fn=without_capabilities).stdout == text
        document = case.run("report", "r", "--json", preexec_fn=without_capabilities)
        assert "cells" in json.loads(document.stdout), document.stdout
        case.run("report", "r/records.jsonl", preexec_fn=without_capabilities)
        case.refused(2, "usage", "report", "r", "--html", "r/page.html", preexec_fn=without_capabilities, says=["r/page.html"])
    finally:
        case.path("r").chmod(0o755)
    assert stat.S_IMODE(case.path("r").stat().st_mode) == 0o755


harness.main(globals())
