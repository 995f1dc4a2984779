"""Commands of the program as functions of amdahl_lab: what they return, how options are written, and how they fail.

usage: verbs_test.py SOURCE_DIR BINARY_DIR
"""
import contextlib
import io
import json
import os
import pickle
import re
import subprocess
import sys

from package_support import SOURCE, TINY, harness, lab, refused
from amdahl_lab import _program

COMMANDS = ("study", "train", "plan", "calibrate", "compare", "bench", "report", "info", "doctor", "links",
            "collectives")


@contextlib.contextmanager
def stderr_of():
    text = io.StringIO()
    with contextlib.redirect_stderr(text):
        yield text


def tiny_study(case, name, **options):
    return lab.study(**TINY, runs=5, quiet=True, output_dir=case.path(name), **options)


def check_words_of_options(case):
    words = _program.option_words
    options = {"batch_sizes": [16, 64], "full": True, "resume": False, "model": None}
    assert words(options) == ["--batch-sizes=16,64", "--full"]
    assert words({"b": "1K", "l": True, "learning_rate": 1e-3}) == ["-b", "1K", "-l", "--learning-rate=0.001"]
    options = {"plan": ["ddp", "pp2,m4"], "devices": range(1, 3)}
    assert words(options) == ["--plan=ddp", "--plan=pp2,m4", "--devices=1,2"]
    assert words({"what_if": {"gpus": 8, "gpu": "h200"}}) == ["--what-if=gpus=8,gpu=h200"]
    assert words({"output_dir": case.path("x")}) == [f"--output-dir={case.path('x')}"]
    refused("usage", words, {"model": b"medium"}, says=["model is bytes"])


def check_repeated_options_are_those_of_the_program(_):
    """An option whose values hold commas must not get a list joined with commas."""
    found = {"nccl"}  # one value at a time, may be repeated
    for command in COMMANDS:
        text = lab.program_help(command)
        found |= {name.replace("-", "_") for name in re.findall(r"--([a-z-]+) (?:VALUE|FILE) \.\.\.", text)}
    assert found == set(_program.REPEATED), found ^ set(_program.REPEATED)


def check_every_command_returns_a_result(case):
    assert lab.info().json["amdahl"] and lab.info().records == []
    assert lab.doctor(devices=2, backend="cpu", quiet=True).json["healthy"]
    links = lab.links(backend="cpu", test="pairs", i=1, b="64K", quiet=True)
    assert {one.kind for one in links.records} and links.run_dir is None
    found = lab.collectives(backend="cpu", b=128, e=256, collective=["all_reduce", "all_gather"], quiet=True)
    assert {one.axes["collective"] for one in found.records} == {"all_reduce", "all_gather"}
    record = found.records[0]
    assert record.ok and record.series["busbw"].unit == "GB/s", record
    assert record.provenance["command_line"].startswith("amdahl coll"), record.provenance
    plans = lab.plan(list=True, model="gpt2", devices=8).json["plans"]
    assert len(plans) > 1
    machine = str(case.path("machine.json"))
    assert lab.calibrate(machine=machine, devices=2, seconds=2, backend="cpu", quiet=True).json["calibration"]
    assert lab.plan(model="medium", batch_size=64, machine=machine, quiet=True).json["ranking"]
    trained = lab.train(backend="cpu", data=harness.DIGITS, target="label", model="medium", epochs=2, quiet=True,
                        output_dir=case.path("t"))
    assert [one.axes["epoch"] for one in trained.records] == [1, 2], trained.records
    timed = lab.bench("true", "sleep 0.01", runs=3, quiet=True, output_dir=case.path("b"))
    assert len(timed.records) == 6 and {one.axes["command"] for one in timed.records} == {"true", "sleep 0.01"}


def check_study_compare_cost_report(case):
    one, two = tiny_study(case, "one"), tiny_study(case, "two")
    assert one.run_dir == str(case.path("one")) and len(one.records) == 10, one
    assert {record.axes["devices"] for record in one.records} == {1, 2}
    assert all(record.provenance["tool_version"] for record in one.records)
    assert "fabric" not in one.text and "medium" in one.text and one.text == lab.report(one).text
    assert lab.compare(one, two).json["verdict"]
    cells = lab.compare(f"{one.run_dir}@devices=1", f"{one.run_dir}@devices=2", allow_unlike=True)
    assert cells.json["cells"], cells.json
    costs = lab.cost(one)
    assert len(costs.json["rows"]) == 2 and costs.json["prices"], costs.json
    page = case.path("page.html")
    lab.report(one, html=page)
    assert "<html" in page.read_text()[:500]


def check_results_without_a_folder_can_be_compared(case):
    runs = [lab.collectives(backend="cpu", b=8, e=8, n=5, quiet=True) for _ in range(2)]
    assert lab.compare(*runs).json["cells"]


def check_failed_threshold_has_its_result(case):
    error = refused("check-failed", lab.bench, "true", "sleep 0.05", runs=10, fail_on_regression=3, code=1, quiet=True,
                    output_dir=case.path("b"))
    assert error.result.json["verdict"] and len(error.result.records) == 20, error.result


def check_faults_of_doctor_are_a_result(_):
    found = lab.doctor(devices=2, backend="cpu", min_gbps=1e6, quiet=True)
    assert not found.json["healthy"] and found.json["findings"], found.json


def check_text_page_table_and_files(case):
    run, loose = tiny_study(case, "one"), lab.collectives(backend="cpu", b=8, e=8, quiet=True)
    shown = run._repr_html_()
    assert shown.startswith("<iframe srcdoc=\"&lt;!") and "<html" not in shown, shown[:200]
    assert "<table>" in loose._repr_html_() and "all_reduce" in loose._repr_html_()
    assert "&lt;b&gt;" in lab.Result("x", {}, "<b>")._repr_html_()
    for result, name in ((run, "run"), (loose, "loose")):
        result.save(case.path(f"{name}.json"))
        assert json.loads(case.path(f"{name}.json").read_text()) == result.json
        result.save(case.path(f"{name}.html"))
    assert "all_reduce" in case.path("loose.html").read_text()
    assert "medium" in case.path("run.html").read_text()
    refused("usage", run.save, case.path("x.txt"), says=[".html"])
    assert repr(loose) == "<amdahl collectives: 2 records>", repr(loose)


def check_default_folder_is_found(case):
    words = "import amdahl_lab as lab; print(lab.train(backend='cpu', batch_size=1024, epochs=1).run_dir)"
    done = run_python(case, words)
    folder = done.stdout.strip()
    assert folder.startswith(str(case.path("results/local/train-"))), (folder, done.stderr)


def run_python(case, words):
    return subprocess.run([sys.executable, "-c", words], cwd=case.folder, capture_output=True, text=True, timeout=60,
                          check=True, env=dict(os.environ, PYTHONPATH=str(SOURCE / "python")))


def check_data_frame(_):
    try:
        import pandas  # noqa: F401
    except ImportError:
        refused("environment-missing", lab.info().to_pandas, says=["pandas"])
        print("   skipped: the content of to_pandas(), pandas is not installed")
        return
    result = lab.collectives(backend="cpu", b=8, e=32, quiet=True)
    frame = result.to_pandas()
    assert len(frame) == len(result.records) and set(frame["bytes"]) == {8, 16, 32} and (frame["wrong"] == 0).all()
    assert frame.attrs["units"]["time"] == "us"


def check_progress_passes_through_and_errors_do_not(case):
    with stderr_of() as said:
        lab.study(**TINY, runs=1, output_dir=case.path("s"))
    assert said.getvalue().startswith("plan: "), said.getvalue()
    with stderr_of() as said:
        refused("usage", lab.study, bogus=1, code=2, says=["--bogus", "study"])
        refused("usage", lab.study, model="medum", code=2, says=["medium"])
    assert "error[" not in said.getvalue(), said.getvalue()
    with stderr_of() as said:
        tiny_study(case, "quiet")
    assert said.getvalue() in ("", f"report: {case.path('quiet/report.md')}\n"), said.getvalue()


def check_errors_keep_their_parts(_):
    error = refused("usage", lab.info, devices="x", code=2)
    again = pickle.loads(pickle.dumps(error))
    assert (again.cause, again.message, again.remedy, again.exit_code) == (error.cause, error.message, error.remedy, 2)
    refused("usage", lab.report, "no/such/run", code=2, says=["no/such/run"])


harness.main(globals())
