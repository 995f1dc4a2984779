"""failure.json: what ends a run early stands in its folder, is shown by report, and goes when the run goes on."""
import json
import os
import signal

import harness
from harness import TINY, num_records

STUDY = ("study", *TINY, "-q")
LONG = (*STUDY, "--runs", "1000000")


def failure_of(case, run):
    failure = json.loads(case.path(f"{run}/failure.json").read_text())
    try:
        import jsonschema
    except ImportError:
        return failure
    schema = json.loads((harness.SOURCE / "docs" / "schema" / "failure.schema.json").read_text())
    jsonschema.Draft7Validator.check_schema(schema)
    jsonschema.Draft7Validator(schema).validate(failure)
    return failure


def stopped(case, number, words=LONG, run="r"):
    process = case.start(*words, "-o", run)
    harness.wait_until(lambda: num_records(case.path(run)) >= 2, "two records")
    process.send_signal(number)
    process.wait(timeout=30)
    return process


def check_a_run_that_ends_well(case):
    """Nothing of the recorder stays, and no failure is made of it."""
    for words in ((*STUDY, "--runs", "2"), ("train", "--backend", "cpu", "-q", "--epochs", "1", "--devices", "2")):
        case.run(*words, "-o", words[0])
        left = set(os.listdir(case.path(words[0])))
        assert not left & {"failure.json", ".flight"}, left
        result = case.run("report", words[0])
        assert "ended early" not in result.stdout + result.stderr


def check_an_interrupted_study(case):
    process = stopped(case, signal.SIGTERM)
    assert process.returncode == 128 + signal.SIGTERM
    failure = failure_of(case, "r")
    assert failure["cause"] == "interrupted" and failure["message"], failure
    assert [rank["rank"] for rank in failure["ranks"]] == [0, 1], failure
    assert all(rank["process"] == process.pid and rank["signal"] == signal.SIGTERM for rank in failure["ranks"]), failure
    assert any("exchange #" in call["name"] or "all_reduce #" in call["name"] for call in failure["ranks"][1]["calls"])
    result = case.run("report", "r")
    assert "the run ended early at " in result.stdout and "interrupted" in result.stdout, result.stdout
    assert "warning: the run ended early at " in result.stderr, result.stderr
    case.run("report", "r", "--html", "page.html")
    assert "the run ended early" in case.path("page.html").read_text()
    runs = num_records(case.path("r")) // 2 + 2
    case.run(*STUDY, "--runs", runs, "-o", "r", "--resume")
    assert not case.path("r/failure.json").exists() and not case.path("r/.flight").exists()
    assert "ended early" not in case.run("report", "r").stdout


def check_a_killed_study(case):
    """Nobody could write failure.json: the flight recorder tells what it was in."""
    stopped(case, signal.SIGKILL)
    assert not case.path("r/failure.json").exists()
    shown = case.run("report", "r").stdout
    assert "its processes ended without an error of their own" in shown and "ended" in shown, shown
    assert "rank  host" in shown and "exchange #" in shown or "all_reduce #" in shown, shown


def check_a_crashed_process_of_several(case):
    """The study that starts processes knows which signal ended one of them."""
    process = case.start(*LONG, "--processes", "2", "-o", "r")
    harness.wait_until(lambda: num_records(case.path("r")) >= 2, "two records")
    children = [int(pid) for pid in open(f"/proc/{process.pid}/task/{process.pid}/children").read().split()]
    assert children, "no process was started"
    os.kill(children[0], signal.SIGKILL)
    assert process.wait(timeout=30) == 4
    failure = failure_of(case, "r")
    assert failure["cause"] == "rank-died" and failure["signal"] == signal.SIGKILL, failure
    assert failure["ranks"] and all(rank["state"] == "ended" for rank in failure["ranks"]), failure


def check_an_interrupted_arena_and_doctor(case):
    """What starts programs or looks at a machine leaves its failure like any other run."""
    for words in (("collectives", "--arena", "--backend", "cpu", "--devices", "2", "-n", "3000", "-b", "64", "-e", "1M", "-q"),
                  ("doctor", "--backend", "cpu", "-q")):
        run = words[0]
        process = case.start(*words, "--output-dir", run)
        harness.wait_until(lambda: num_records(case.path(run)) >= 1, "a record")
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 128 + signal.SIGTERM, case.output(process)
        assert failure_of(case, run)["cause"] == "interrupted", run


def check_a_run_without_records(case):
    """report says why nothing was measured."""
    case.run(*STUDY, "--runs", "2", "-o", "r")
    lines = case.path("r/records.jsonl").read_text().splitlines(keepends=True)
    case.write("r/records.jsonl", lines[0])
    case.write("r/failure.json", json.dumps(
        {"type": "failure", "version": 1, "cause": "rank-hung", "message": "rank 1 did not come", "remedy": "look at it",
         "time": "2026-01-01T00:00:00Z", "rank": 1, "host": "", "signal": None, "ranks": []}))
    case.refused(5, "store-corrupt", "report", "r", says=["nothing was measured", "rank-hung", "rank 1 did not come"])
    case.write("r/failure.json", "{")
    case.refused(5, "store-corrupt", "report", "r", says=["nothing was measured", "failure.json"])


def check_errors_of_others_leave_nothing(case):
    """A command that is refused is no end of the run that is there already."""
    case.run(*STUDY, "--runs", "2", "-o", "r")
    before = sorted(os.listdir(case.path("r")))
    case.refused(2, "usage", *STUDY, "--runs", "2", "-o", "r", says=["already holds a run"])
    case.refused(2, "usage", *STUDY, "--runs", "2", "--seed", "3", "-o", "r", "--resume", says=["cannot resume"])
    assert sorted(os.listdir(case.path("r"))) == before


def check_automatic_timeout(case):
    case.run(*STUDY, "--runs", "3", "--timeout", "auto", "-o", "study")
    case.run("train", "--backend", "cpu", "-q", "--epochs", "3", "--devices", "2", "-T", "auto", "-o", "train")
    for words in (STUDY, ("train", "--backend", "cpu", "-q")):
        case.refused(2, "usage", *words, "--timeout", "soon", "-o", "refused", says=["'soon'", "or auto"])
        case.refused(2, "usage", *words, "--timeout", "0", "-o", "refused", says=["--timeout is 0"])


harness.main(globals())
