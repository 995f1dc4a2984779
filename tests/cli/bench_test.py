"""`amdahl bench`: commands in turns, the verdict, its files, and what is refused by one line."""
import csv
import io
import json

import harness
import schema_support

FAST = ("--runs", 12, "--warmup", 1, "-q")


def check_a_slower_command_is_called_slower(case):
    result = case.run("bench", "sleep 0.01", "sleep 0.1", *FAST, "-o", "run")
    assert result.stdout.startswith("sleep 0.1 is slower than sleep 0.01: 0."), result.stdout
    assert "SLOWER" in result.stdout
    records = harness.records_of(case.path("run"))
    assert len(records) == 24
    for record in records:
        values = {s["name"]: s["samples"][0] for s in record["series"]}
        least = 1e4 if record["axes"]["command"] == "sleep 0.01" else 1e5
        assert least <= values["time"] < least + 1e6, values
        assert values["exit_code"] == 0 and values["peak_memory"] > 1e5
    order = [record["axes"]["command"] for record in records]
    assert {tuple(order[i:i + 2]) for i in range(0, 24, 2)} == {("sleep 0.01", "sleep 0.1"), ("sleep 0.1", "sleep 0.01")}


def check_the_result_in_every_form(case):
    words = ("bench", "sleep 0.01", "echo $((1 + 1)) | cat", "--names", "nap,sum", *FAST)
    document = json.loads(case.run(*words, "--json", "-o", "json").stdout)
    schema_support.valid("bench.schema.json", document)
    nap, total = document["commands"]
    assert (nap["name"], total["name"]) == ("nap", "sum") and "against_first" not in nap
    ratio = nap["time_us"]["process_median"] / total["time_us"]["process_median"]
    assert abs(total["against_first"]["ratio"] / ratio - 1) < 1e-9
    low, high = (total["against_first"]["ci"][end] for end in ("low", "high"))
    assert low < ratio < high, (low, ratio, high)
    assert document["records"][0]["provenance"]["facts"]["command.sum"] == "echo $((1 + 1)) | cat"
    rows = list(csv.DictReader(io.StringIO(case.run(*words, "--csv", "-", "-o", "csv").stdout)))
    assert {row["axis.command"] for row in rows} == {"nap", "sum"}
    assert sum(row["series"] == "time" for row in rows) == 24
    case.run(*words, "--csv", "runs.csv", "--md", "runs.md", "--html", "page.html", "-o", "all")
    assert case.path("runs.csv").read_bytes().count(b"\n") == len(rows) + 1
    assert "| nap" in case.path("runs.md").read_text()
    assert "nap" in case.path("page.html").read_text()
    assert "speed over the first" in case.run("report", "all").stdout


def check_runs_of_two_days_compare(case):
    for folder, seconds in (("before", 0.01), ("after", 0.1)):
        case.run("bench", f"sleep {seconds}", "--names", "nap", *FAST, "-o", folder)
    result = case.run("compare", "before", "after", "--json")
    cell, = json.loads(result.stdout)["cells"]
    assert cell["axes"] == {"command": "nap"} and cell["b_over_a_speed"]["ratio"] < 0.5, cell
    case.run("bench", "sleep 0.01", "sleep 0.1", "--names", "short,long", *FAST, "-o", "both")
    assert "command short:long" in case.run("compare", "both", "both", "--pair", "command=short:long").stdout


def check_the_gate(case):
    case.run("bench", "sleep 0.01", "sleep 0.1", *FAST, "--fail-on-regression", "50%", "-o", "a", code=1)
    case.run("bench", "sleep 0.1", "sleep 0.01", *FAST, "--fail-on-regression", "0%", "-o", "b")
    case.run("bench", "sleep 0.1", "sleep 0.11", *FAST, "--fail-on-regression", "100%", "-o", "c")


def check_few_runs_have_no_verdict(case):
    assert "too few runs" in case.run("bench", "sleep 0.01", "sleep 0.02", "--runs", 3, "-q", "-o", "run").stdout


def check_prepare_runs_before_every_run(case):
    case.run("bench", "test -f made", "rm made", "--prepare", "touch made", *FAST, "-o", "run")
    case.run("bench", "true", "--prepare", "false", *FAST, "-o", "bad", code=1)


def check_failures(case):
    result = case.run("bench", "true", "echo first >&2; echo the reason >&2; exit 3", "--names", "good,bad", *FAST,
                      "-o", "run", code=1)
    assert "error[check-failed]: 'bad', warm-up, ended with code 3: the reason; try: " in result.stderr, result.stderr
    result = case.run("bench", "(exit 3)", *FAST, "--ignore-failure", "-o", "ignored")
    assert "12 of 12 runs ended with another code than 0" in result.stdout
    result = case.run("bench", "kill -9 $$", *FAST, "--ignore-failure", "-o", "killed", code=1)
    assert "ended by signal 9" in result.stderr
    result = case.run("bench", "sleep 20", "--timeout", "0.3", *FAST, "-o", "late", code=6)
    assert "takes more than 0.3 s" in result.stderr
    for words, text in ((("nosuchprogram",), "is not in PATH"), ((), "no command is given"), (("true", "true"), "given twice"),
                        (("true", "--names", "a,b"), "2 names for 1 command"), (("  ",), "a command is empty"),
                        (("true", "--runs", "-1"), "--runs")):
        result = case.run("bench", *words, "-q", code=2)
        assert text in result.stderr and result.stderr.count("\n") == 1, result.stderr
        assert not case.path("results").exists(), "a refused command left a folder"


def check_what_was_measured_is_kept(case):
    program = case.start("bench", "sleep 0.05", "--runs", 500, "-o", "run")
    harness.wait_until(lambda: case.path("run/records.jsonl").exists() and harness.num_records(case.path("run")) > 3, "four runs")
    program.send_signal(2)
    assert program.wait(20) == 130
    assert "sleep 0.05 takes" in case.run("report", "run").stdout


if __name__ == "__main__":
    harness.main(globals())
