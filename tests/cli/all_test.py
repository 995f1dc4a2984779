"""`amdahl all`: every part in order, by the functions of its own command; one folder, one page; a part that fails is told and
the others go on."""
import fcntl
import json
import os
import re
import signal
import struct
import subprocess
import termios
import time

import harness
from harness import lines_of

PARTS = ("topology", "doctor", "links", "collectives", "study", "sensor bench")
FOLDERS = {"topology": "topology", "sensor bench": "sensor"}
KINDS = {"doctor": "doctor", "links": "links", "collectives": "collectives", "study": "study", "sensor bench": "sensor"}
QUICK = ("all", "--quick", "--backend", "cpu")


def rows(stdout):
    """End and result of each part, by name, as they were printed."""
    return {name: (end, result) for name, end, result in
            re.findall(r"^(topology|doctor|links|collectives|study|sensor bench) +(\S+) +(.*)$", stdout, re.MULTILINE)}


def folder_of(part):
    return FOLDERS.get(part, part)


def check_quick_run_of_everything(case):
    start = time.monotonic()
    process = case.start(*QUICK, "--output-dir", "x")
    code = process.wait(timeout=60)
    spent = time.monotonic() - start
    out, err = case.output(process, "out"), case.output(process)
    found = rows(out)
    assert tuple(found) == PARTS, out
    problems = [part for part, (end, _) in found.items() if end == "PROBLEMS"]  # this host's, or slow virtual links
    assert {end for end, _ in found.values()} <= {"done", "PROBLEMS"} and set(problems) <= {"doctor", "links"}, out
    assert code == (1 if problems else 0), (code, out, err)
    assert not problems or all(part in err.splitlines()[-1] for part in problems), err
    for part in PARTS:  # where each Record went
        folder = f"x/{folder_of(part)}"
        assert re.search(rf"^ +[0-9.]+ s, {folder}$", out, re.MULTILINE), (part, out)
        if part == "topology":
            assert len(json.loads(case.path(f"{folder}/machine.json").read_text())["devices"]) == 2
            continue
        lines = lines_of(case.path(folder))
        assert lines[0]["kind"] == KINDS[part] and any(line["type"] == "record" for line in lines), part
        assert (case.path(folder) / ("report.md" if part == "study" else "report.txt")).exists(), part
    assert case.path("x/command.txt").read_text() == "amdahl all --quick --backend cpu --output-dir x\n"
    assert spent < 45, f"{spent:.0f} s"
    # One page about all runs, the same as report makes of the folder.
    assert out.endswith("page: x/report.html\n"), out
    page = case.path("x/report.html").read_text()
    embedded = json.loads(re.search(r'<script type="application/json" id="amdahl-records">(.*?)</script>', page, re.S).group(1))
    assert {run["lines"][0]["kind"] for run in embedded["runs"]} == set(KINDS.values()), embedded["runs"]
    title = re.search(r"<title>(.*?)</title>", page, re.S).group(1)
    for words in ("study of medium", "link test", "collective sweep", "health check", "sensor benchmark"):
        assert words in title, title
    assert title.count("measured on CPU virtual devices, not GPUs") == 1, title
    case.run("report", "x", "--html", "again.html")
    assert case.path("again.html").read_text().count("<section") == page.count("<section")
    case.refused(2, "usage", *QUICK, "--output-dir", "x", says=["x/topology is already there"])


def check_one_device(case):
    result = case.run(*QUICK, "--devices", "1", "-q", "-o", "x")
    found = rows(result.stdout)
    assert found["collectives"] == ("skipped", "1 rank: a collective needs at least 2 devices"), found
    assert found["study"][0] == "done" and found["study"][1].startswith("One virtual device"), found
    assert not result.stderr and not case.path("x/collectives").exists(), result.stderr


def check_a_part_that_fails_does_not_stop_the_others(case):
    process = case.start(*QUICK, "--devices", "1", "-q", "-o", "x")
    harness.wait_until(case.path("x/topology").exists, "the first part")
    case.write("x/study", "in the way")  # while the parts before it are measured
    assert process.wait(timeout=60) == 1
    out, err = case.output(process, "out"), case.output(process)
    found = rows(out)
    assert found["study"][0] == "FAILED" and "x/study: cannot" in found["study"][1] and "; try: " in found["study"][1], out
    assert found["sensor bench"][0] == "done" and out.endswith("page: x/report.html\n"), out
    harness.check_error(err, "check-failed", ["of 6 parts found problems or failed", "study"])


def check_a_signal_ends_it_and_keeps_what_was_measured(case):
    process = case.start(*QUICK, "-o", "x")
    harness.wait_until(lambda: harness.num_records(case.path("x/links")) > 3, "records of links")
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=20) == 130
    harness.check_error(case.output(process), "interrupted", ["stopped by the user in links", "amdahl report x --html FILE"])
    case.run("report", "x", "--html", "p.html")


def check_on_a_terminal_of_80_columns(case):
    """Progress is one line that renews itself, in percent of all parts, and never goes back; no line is wider than the terminal."""
    main, other = os.openpty()
    fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 80, 0, 0))
    process = subprocess.Popen([harness.AMDAHL, *QUICK, "--devices", "1", "-o", "x" * 30], cwd=case.folder, stdout=other,
                               stderr=other, env={**harness.ENVIRONMENT, "TERM": "xterm", "NO_COLOR": "1"})
    os.close(other)
    text = harness.read_terminal(main)
    process.communicate()
    os.close(main)
    printed = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text).replace("\r\n", "\n").replace("\r", "\n")
    long = [line for line in printed.splitlines() if len(line) > 80]
    assert not long, f"{len(long)} lines wider than 80 columns:\n" + "\n".join(long)
    assert re.search(r"^study +done +One virtual device", printed, re.MULTILINE), printed
    shown = [(int(done), int(total), what) for done, total, what in re.findall(r"\[(\d+)/(\d+)\] ([a-z ]+)", text)]
    assert {total for _, total, _ in shown} == {100} and [done for done, _, _ in shown] == sorted(done for done, _, _ in shown)
    for part in PARTS:
        assert any(what.startswith(part) for _, _, what in shown), (part, shown)
    assert shown[0][0] == 0 and shown[-1][0] == 100, shown


def check_refused_before_anything_is_measured(case):
    usage = (2, "usage")
    case.refused(*usage, *QUICK, "--devices", "0", says=["--devices is 0"])
    case.refused(*usage, *QUICK[:2], "--backend", "cudda", says=["--backend cuda,"])
    case.write("file", "")
    case.refused(*usage, *QUICK, "-o", "file/x", says=["file/x", "Not a directory"])
    case.refused(*usage, *QUICK, says=["torchrun"],
                 env={"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29556"})
    assert not case.path("results").exists(), "a refused command leaves a folder"


harness.main(globals())
