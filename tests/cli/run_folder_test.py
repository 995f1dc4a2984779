"""A run folder: what a study writes, what is rebuilt from it, and that no ending of the program loses a record."""
import json
import os
import signal

import time
import harness
from harness import TINY, check_error, keys_of, lines_of, num_records, records_of, wait_until

# Two cells whose runs take long enough to be interrupted between them.
LONG = ("study", "--backend", "cpu", "--batch-sizes", "64", "--devices", "1,2", "--warmup", "1", "--steps", "30", "--runs", "24")
LONG_KEYS = sorted((64, devices, strategy, run) for devices, strategy in ((1, "single"), (2, "ddp")) for run in range(24))


def study(case, folder, *words, runs=3, **options):
    return case.run("study", *TINY, "--runs", runs, "-q", "-o", folder, *words, **options)


def check_runs_of_one_second_have_folders_of_their_own(case):
    for _ in range(3):
        case.run("train", "--backend", "cpu", "--batch-size", "1024", "--epochs", "1", "-q")
    folders = os.listdir(case.path("results/local"))
    assert len(folders) == 3 and all(num_records(case.path("results/local") / name) == 1 for name in folders), folders


def check_quick_study_and_report(case):
    result = case.run("study", *TINY, "-o", "r")
    assert "report: r/report.md" in result.stdout, result.stdout
    assert result.stderr.startswith("plan: "), result.stderr
    run = case.path("r")
    assert sorted(os.listdir(run)) == ["records.jsonl", "report.md", "summary.json"], os.listdir(run)
    expected = sorted((16, devices, strategy, run) for devices, strategy in ((1, "single"), (2, "ddp")) for run in range(5))
    assert sorted(keys_of(run)) == expected, keys_of(run)
    lines = lines_of(run)
    assert [line["type"] for line in lines[:3]] == ["run", "provenance", "record"]
    assert "cpu-virtual" == lines[1]["device_kind"]
    before = {name: (run / name).read_bytes() for name in ("report.md", "summary.json", "records.jsonl")}
    os.remove(run / "report.md")
    os.remove(run / "summary.json")
    again = case.run("report", "r", "--write")
    for name, content in before.items():
        assert (run / name).read_bytes() == content, f"{name} differs after report"
    assert again.stdout.strip() in result.stdout, "report prints something else than the study did"
    assert json.loads(case.run("report", "r", "--json").stdout) == json.loads(before["summary.json"])
    case.run("report", "r/records.jsonl")
    for name, content in before.items():
        assert (run / name).read_bytes() == content, f"{name} differs after report of the file"


def check_overwrite(case):
    """The second run of a command replaces the first; one that is refused leaves it."""
    case.run("study", *TINY, "-q", "-o", "r")
    first = case.path("r/records.jsonl").read_bytes()
    case.refused(2, "usage", "study", *TINY, "-q", "-o", "r", says=["already holds a run", "--overwrite"])
    case.refused(2, "usage", "study", *TINY, "-q", "-o", "r", "--overwrite", "--model", "nothing")
    case.run("study", *TINY, "-q", "-o", "r", "--overwrite", "--dry-run")
    assert case.path("r/records.jsonl").read_bytes() == first and os.listdir(case.folder) == ["r"]
    case.run("study", *TINY, "-q", "-o", "r", "--overwrite", "--runs", "2")
    assert len(keys_of(case.path("r"))) == 4 and os.listdir(case.folder) == ["r"], os.listdir(case.folder)
    case.path("notes").mkdir()
    case.write("notes/mine.txt", "kept")
    case.refused(2, "usage", "study", *TINY, "-q", "-o", "notes", "--overwrite", says=["holds no run"])
    case.refused(2, "usage", "study", *TINY, "-q", "--overwrite", says=["--output-dir"])
    assert case.path("notes/mine.txt").read_text() == "kept"


def check_truncated_last_line(case):
    study(case, "r")
    path = case.path("r/records.jsonl")
    text = b"".join(path.read_bytes().splitlines(True)[:-1])  # without the line that ends the run
    path.write_bytes(text[:-30])
    result = case.run("report", "r")
    assert "warning: " in result.stderr and "r/records.jsonl:8: the last line is truncated" in result.stderr, result.stderr
    case.run("report", "r", "--write")
    assert "truncated" in case.path("r/report.md").read_text(), "the report does not say it"
    study(case, "r", "--resume")
    assert sorted(keys_of(case.path("r"))) == sorted((16, n, s, i) for n, s in ((1, "single"), (2, "ddp")) for i in range(3))
    assert "truncated" not in case.path("r/report.md").read_text(), "the resumed run is whole again"


def check_damaged_runs(case):
    study(case, "r")
    path = case.path("r/records.jsonl")
    whole = harness.unchained(path.read_text()).split("\n")

    def damaged(number, line, cause, *says):
        path.write_text("\n".join(whole[:number - 1] + [line] + whole[number:]))
        for words in (("report", "r"), ("compare", "r", "r"), ("study", *TINY, "--runs", "3", "-q", "-o", "r", "--resume"),
                      ("report", "r", "--advise", "--params", "54403", "--batch-size", "16")):
            result = case.run(*words, code=5)
            errors = [text for text in result.stderr.splitlines() if text.startswith("error[")]
            assert len(errors) == 1 and errors[0].startswith(f"error[{cause}]: "), result.stderr
            for text in (f"r/records.jsonl:{number}", *says):
                assert text in errors[0], f"'{text}' is not in {errors[0]}"

    damaged(4, whole[3][:40], "store-corrupt", "JSON")
    damaged(4, "\0" * 20, "store-corrupt", "JSON")
    damaged(5, whole[4].replace('"axes"', '"axis"'), "store-corrupt", "axes")
    damaged(5, whole[4].replace('"provenance":"p1"', '"provenance":"p9"'), "store-corrupt", "p9")
    damaged(1, whole[0].replace('"version":1', '"version":2'), "version-refused", "version 2", "version 1")
    damaged(6, whole[5].replace('"samples":[', '"samples":[null,', 1), "store-corrupt", "samples")
    damaged(1, whole[1], "store-corrupt", "header")
    path.write_text("\n".join(whole[:2]) + "\n")
    case.refused(5, "store-corrupt", "report", "r", says=["r", "nothing was measured"])
    path.write_text("")
    case.refused(5, "store-corrupt", "report", "r", says=["r/records.jsonl", "header"])
    case.path("empty").mkdir()
    case.refused(2, "usage", "report", "empty", says=["empty"])
    case.refused(2, "usage", "report", "nowhere", says=["nowhere"])


def stop_in_the_middle(case, folder, number):
    process = case.start(*LONG, "-o", folder)
    wait_until(lambda: num_records(case.path(folder)) >= 4, "the fourth record")
    process.send_signal(number)
    code = process.wait(20)
    kept = keys_of(case.path(folder))
    assert 4 <= len(kept) < 48, f"{len(kept)} records: not in the middle"
    assert len(set(kept)) == len(kept)
    return code, kept, case.output(process)


def resume(case, folder, kept):
    before = (case.path(folder) / "records.jsonl").read_bytes()
    result = case.run(*LONG, "-o", folder, "--resume")
    assert f"resuming {folder}: {len(kept)} runs are already there" in result.stderr, result.stderr
    assert (case.path(folder) / "records.jsonl").read_bytes().startswith(before[:before.rfind(b"\n") + 1]), "records changed"
    assert sorted(keys_of(case.path(folder))) == LONG_KEYS
    assert case.path(f"{folder}/report.md").exists() and case.path(f"{folder}/summary.json").exists()


def check_interrupt(case):
    code, kept, text = stop_in_the_middle(case, "r", signal.SIGINT)
    assert code == 130, f"exit code {code}"
    check_error(text, "interrupted", ["kept", "--resume"])
    case.run("report", "r")
    resume(case, "r", kept)


def check_terminate(case):
    code, kept, text = stop_in_the_middle(case, "r", signal.SIGTERM)
    assert code == 143, f"exit code {code}"
    check_error(text, "interrupted", ["kept", "--resume"])
    resume(case, "r", kept)


def check_kill(case):
    code, kept, _ = stop_in_the_middle(case, "r", signal.SIGKILL)
    assert code == -signal.SIGKILL
    case.run("report", "r")
    resume(case, "r", kept)


def stop_long(case, words, folder, number, again=0.0):
    """Seconds from the signal to the end, and the exit code."""
    process = case.start(*words, "-o", folder)
    wait_until(lambda: case.path(folder).exists(), "the run folder")
    time.sleep(1)
    process.send_signal(number)
    start = time.monotonic()
    if again:
        time.sleep(again)
        process.send_signal(number)
    code = process.wait(20)
    return time.monotonic() - start, code, case.output(process)


def check_stop_within_a_long_run(case):
    """A run of minutes is left within a few steps, on one device and on two, and the study can go on."""
    for devices, number, code in ((1, signal.SIGTERM, 143), (2, signal.SIGINT, 130)):
        folder = f"r{devices}"
        words = ("study", "--backend", "cpu", "--model", "large", "--devices", devices, "--batch-sizes", "256", "--runs", "2",
                 "--warmup", "1", "--steps", "100000", "-q")
        took, got, text = stop_long(case, words, folder, number)
        assert got == code, f"exit code {got}"
        assert took <= 5, f"{took:.1f} s from the signal to the end"
        check_error(text, "interrupted", ["kept", "--resume"])
        _, got, text = stop_long(case, (*words, "--resume"), folder, number)
        assert got == code, f"the stopped run cannot be resumed: exit code {got}: {text}"


def check_stop_within_a_long_epoch(case):
    case.write("m.json", json.dumps({"version": 1, "name": "m", "input_width": 1000,
                                     "layers": [{"units": 1500}] * 4 + [{"units": 1}]}))
    words = ("train", "--backend", "cpu", "--model", "m.json", "--devices", "2", "--batch-size", "4", "-q")
    took, code, text = stop_long(case, words, "t", signal.SIGINT)
    assert code == 130, f"exit code {code}"
    assert took <= 5, f"{took:.1f} s from the signal to the end"
    check_error(text, "interrupted", ["epochs before are kept"])


def check_second_signal(case):
    """Ends at once, even within one long operation."""
    case.write("m.json", json.dumps({"version": 1, "name": "m", "input_width": 5000, "layers": [{"units": 5000}] * 4}))
    words = ("study", "--backend", "cpu", "--model", "m.json", "--devices", "1", "--batch-sizes", "2000", "-q")
    took, code, _ = stop_long(case, words, "r", signal.SIGINT, again=0.2)
    assert code == 130 and took <= 1.5, f"exit code {code} after {took:.1f} s"


def check_resume_with_other_settings(case):
    rows = "".join(f"{i},{i % 7},{i % 5},{i % 2}\n" for i in range(64))
    case.write("d.csv", "id,a,b,y\n" + rows)
    model = {"version": 1, "name": "m", "input_width": 3, "layers": [{"units": 8, "dropout": 0.1}, {"units": 2}]}
    case.write("m.json", json.dumps(model))
    same = ("--data", "d.csv", "--target", "y", "--model", "m.json")
    study(case, "r", *same, runs=1)
    again = ("study", *TINY, "--runs", "2", "-q", "-o", "r", "--resume", *same)
    for words, name in ((("--lr", "0.01"), "learning_rate"), (("--mode", "auto"), "mode"), (("--data-options", "missing=mean"), "missing"),
                        (("--data-options", "regression",), "regression"), (("--data-options", "ignore=id"), "ignored"), (("--plan", "peer-blocks=2"), "peer_blocks")):
        case.refused(2, "usage", *again, *words, says=["cannot resume", name])
    case.write("d.csv", "id,a,b,y\n" + rows.replace("5,5,0,1", "5,6,0,1", 1))
    case.refused(2, "usage", *again, says=["cannot resume", "data_hash"])
    case.write("d.csv", "id,a,b,y\n" + rows)
    model["layers"][0]["dropout"] = 0.2
    case.write("m.json", json.dumps(model))
    case.refused(2, "usage", *again, says=["cannot resume", "layers"])
    model["layers"][0]["dropout"] = 0.1
    case.write("m.json", json.dumps(model))
    case.run(*again)


def check_folder_with_an_at_sign(case):
    study(case, "a@b=1", runs=3)
    case.run("compare", "a@b=1", "a@b=1")
    case.run("compare", "a@b=1@devices=1", "a@b=1@devices=2")
    case.refused(2, "usage", "compare", "a@b=1@", "a@b=1", says=["does not select"])
    case.refused(2, "usage", "compare", "x@y/run", "a@b=1", says=["x@y/run: no run is stored"])


def check_two_writers(case):
    process = case.start(*LONG, "-q", "-o", "r")
    wait_until(lambda: num_records(case.path("r")) >= 1, "the first record")
    case.refused(2, "usage", *LONG, "-q", "-o", "r", "--resume", says=["being written by another amdahl"])
    process.terminate()
    assert process.wait(20) == 143


def check_interrupted_training(case):
    process = case.start("train", "--backend", "cpu", "--epochs", "5000", "--batch-size", "1000", "-q", "-o", "t")
    wait_until(lambda: num_records(case.path("t")) >= 2, "the second epoch")
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 130
    check_error(case.output(process), "interrupted", ["epoch"])
    epochs = [record["axes"]["epoch"] for record in records_of(case.path("t"))]
    assert epochs == list(range(1, len(epochs) + 1)), epochs


def check_early_stop(case):
    study(case, "r", "--rel-ci", "0.9", runs=40)
    kept = keys_of(case.path("r"))
    assert 10 <= len(kept) < 80 and len(kept) % 2 == 0, f"{len(kept)} records with --rel-ci 0.9"
    study(case, "r", "--rel-ci", "0.9", "--resume", runs=40)
    assert keys_of(case.path("r")) == kept, "a resumed study measured although its intervals were tight"


def check_more_runs_later(case):
    study(case, "r", runs=2)
    study(case, "r", "--resume", runs=4)
    assert len(set(keys_of(case.path("r")))) == len(keys_of(case.path("r"))) == 8


harness.main(globals())
