"""`amdahl report --html --md --open`: the files it writes, several runs, and wrong input. What a browser makes of the
page is looked at in tests/browser."""
import base64
import hashlib
import gzip
import json
import os
import pathlib
import re
import statistics
import xml.etree.ElementTree as ElementTree

import harness
import study_fixture
from harness import Skip

GOLDEN = pathlib.Path(__file__).parent / "golden" / "study_page.md"
NO_PICTURES = {"AMDAHL_CHART_PYTHON": "/nowhere/python"}


def page_of(case, *words, **options):
    case.run("report", *words, "--html", "page.html", **options)
    return case.path("page.html").read_text()


def embedded(page, name):
    return json.loads(re.search(rf'<script type="application/json" id="{name}">(.*?)</script>', page, re.S).group(1))


def check_page_says_what_was_measured(case):
    study_fixture.study(case.path("r"))
    out = case.run("report", "r", "--html", "page.html").stdout
    assert "GPUs are faster by 10 % or more at global batch" in out and out.endswith("report: page.html\n"), out
    page = case.path("page.html").read_text()
    assert page.startswith('<!doctype html>\n<html lang="en">') and "<noscript>" in page or "built without" in page
    assert "CPU virtual" not in page
    for words in ("Skip to the results", "Speedup over one GPU", "Efficiency", "Throughput against the batch",
                  "Where a step&#39;s time goes" if "step&#39;s" in page else "Where a step's time goes", "Every run"):
        assert words in page, words


def check_folder_of_runs(case):
    """A folder stands for the runs below it, at any depth, for text and page; one without any is refused."""
    for name, seed in (("b", 1), ("a", 2)):
        study_fixture.study(case.path(f"runs/{name}"), seed=seed)
    case.path("runs/empty").mkdir()
    before = sorted(path.name for path in case.path("runs").rglob("*"))
    assert case.run("report", "runs").stdout == case.run("report", "runs/a", "runs/b").stdout
    assert sorted(path.name for path in case.path("runs").rglob("*")) == before, "a report left something behind"
    out = case.run("report", "runs", "--write").stdout
    assert out.index("report: runs/a/report.md") < out.index("report: runs/b/report.md"), out
    deep = case.path("deep/one/two")
    deep.mkdir(parents=True)
    deep.joinpath("study.jsonl.gz").write_bytes(gzip.compress(case.path("runs/a/records.jsonl").read_bytes()))
    deep.joinpath("notes.jsonl").write_text('{"text":"no run"}\n')
    assert case.run("report", "deep").stdout == case.run("report", "runs/a").stdout
    assert page_of(case, "runs") == page_of(case, "runs/a", "runs/b")
    case.run("report", "runs", "--md", "page.md", env=NO_PICTURES)
    case.refused(2, "usage", "report", "runs/empty", says=["runs/empty", "no run is stored there or below", "records.jsonl"])
    case.refused(2, "usage", "report", "runs/empty", "--html", "p.html", says=["runs/empty", "no run is stored there or below"])
    case.refused(2, "usage", "report", "runs", "runs/a", "--html", "p.html", says=["runs/a is given twice"])
    case.refused(2, "usage", "report", "runs", "--json", says=["--json of 2 runs"])
    case.refused(2, "usage", "report", "nowhere", says=["nowhere"])
    # One run that cannot be read does not hide the others.
    case.write("runs/a/records.jsonl", "broken\n")
    result = case.refused(5, "store-corrupt", "report", "runs", "--write", says=["runs/a/records.jsonl:1"])
    assert "report: runs/b/report.md" in result.stdout, result.stdout


def check_nothing_else_is_written(case):
    """A page reads run folders and leaves them alone."""
    study_fixture.study(case.path("r"))
    page_of(case, "r")
    assert [file.name for file in case.path("r").iterdir()] == ["records.jsonl"]


def check_policy_admits_exactly_what_is_inside(case):
    study_fixture.study(case.path("r"))
    page = page_of(case, "r")
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page).group(1)
    assert policy.startswith("default-src 'none'; ") and "unsafe" not in policy and "http" not in policy, policy

    def hashes(texts):
        return {"'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'" for text in texts}
    scripts = hashes(re.findall(r"<script>(.*?)</script>", page, re.S))
    assert scripts == set(re.search(r"script-src ([^;]*);", policy).group(1).split())
    styles = hashes(re.findall(r"<style>(.*?)</style>", page, re.S))
    assert styles == set(re.search(r"style-src ([^;]*);", policy).group(1).split())
    assert not re.search(r'\s(src|style|onclick)="', re.sub(r"<script.*?</script>", "", page, flags=re.S))


def check_records_are_inside(case):
    study_fixture.study(case.path("r"))
    records = embedded(page_of(case, "r"), "amdahl-records")
    assert records["version"] == 1 and records["runs"][0]["name"] == "r"
    assert records["runs"][0]["lines"] == harness.lines_of(case.path("r"))


def check_charts_hold_what_the_records_say(case):
    study_fixture.study(case.path("r"))
    charts = {chart["id"].split("-")[0]: chart for chart in embedded(page_of(case, "r"), "amdahl-charts")["charts"]}
    assert set(charts) == {"speedup", "efficiency", "throughput", "account", "samples"}, set(charts)
    rates = {}
    for record in harness.records_of(case.path("r")):
        rates.setdefault((record["axes"]["devices"], record["axes"]["global_batch"]), []).append(
            next(s["samples"][0] for s in record["series"] if s["name"] == "throughput"))
    names = [column["name"] for column in charts["throughput"]["columns"]]
    rows = [dict(zip(names, row)) for row in charts["throughput"]["rows"]]
    assert len(rows) == len(rates)
    for row in rows:
        samples = rates[row["devices"], row["batch"]]
        median = statistics.median(samples)
        assert abs(row["throughput"] - median) < 1e-4 * median and row["num_runs"] == 10, row  # ten runs: between two
        assert row["low"] < row["throughput"] < row["high"]
    outliers = [row for row in charts["samples"]["rows"] if row[4] == "yes"]
    assert len(charts["samples"]["rows"]) == 120 and len(outliers) >= 12, len(outliers)
    steps = {}
    for batch, configuration, _, time, _, step, *_ in charts["account"]["rows"]:
        steps.setdefault((batch, configuration, step), []).append(time)
    assert len(steps) == 12 and all(abs(sum(parts) - key[2]) < 1e-6 * key[2] for key, parts in steps.items())


def check_same_files_same_bytes(case):
    study_fixture.study(case.path("r"))
    first = page_of(case, "r", env={"SOURCE_DATE_EPOCH": "0"})
    assert first == page_of(case, "r", env={"SOURCE_DATE_EPOCH": "2000000000", "TZ": "Asia/Tokyo", "LC_ALL": "C"})


def check_cpu_is_said_in_the_heading(case):
    study_fixture.study(case.path("r"), kind="cpu-virtual")
    page = page_of(case, "r")
    assert "measured on CPU virtual devices, not GPUs" in re.search(r"<header.*?</header>", page, re.S).group(0)
    assert "CPU virtual devices, not GPUs" in re.search(r"<title>(.*?)</title>", page).group(1)


def check_several_models_are_pooled(case):
    study_fixture.study(case.path("a"))
    study_fixture.study(case.path("b"), model="small", parameters=20000, seed=2)
    page = page_of(case, "a", "b")
    assert "Where several devices are faster" in page and "2 run folders of the same machine" in page
    maps = [chart for chart in embedded(page, "amdahl-charts")["charts"] if chart["id"].startswith("map-")]
    assert [chart["id"] for chart in maps] == ["map-2-strong-tf32", "map-4-strong-tf32"]
    assert all(len(chart["rows"]) == 8 for chart in maps)


def check_repeated_runs_are_pooled(case):
    study_fixture.study(case.path("a"), runs=5)
    study_fixture.study(case.path("b"), runs=5, seed=2)
    charts = embedded(page_of(case, "a", "b"), "amdahl-charts")["charts"]
    throughput = next(chart for chart in charts if chart["id"].startswith("throughput"))
    assert all(row[6] == 10 for row in throughput["rows"]), throughput["rows"]


def check_unlike_machines_stand_apart(case):
    study_fixture.study(case.path("a"))
    study_fixture.study(case.path("b"), kind="cpu-virtual")
    page = page_of(case, "a", "b")
    assert "2 studies of large on" in page and "1 of 2 parts measured on CPU virtual devices" in page
    ids = re.findall(r'\sid="([^"]*)"', page)
    assert len(ids) == len(set(ids)), [name for name in ids if ids.count(name) > 1]


def check_one_failed_series(case):
    study_fixture.study(case.path("r"), failed={(4, 32768)})
    page = page_of(case, "r")
    assert "Cells without a result" in page and "out of memory on device 1" in page


def check_one_device_alone(case):
    study_fixture.study(case.path("r"), devices=(1,))
    page = page_of(case, "r")
    assert "One GPU: up to" in page and "Throughput against the batch" in page
    assert "Nothing to decide" not in page and "Speedup over" not in page


def check_names_cannot_leave_their_place(case):
    study_fixture.study(case.path("r"), model="</script><script>alert(1)</script>")
    page = page_of(case, "r")
    assert "<script>alert" not in page and "&lt;/script&gt;" in page


def check_markdown_is_the_golden_file(case):
    study_fixture.study(case.path("r"), batches=(64, 32768), runs=5, failed={(2, 64)})
    case.run("report", "r", "--md", "page.md", env=NO_PICTURES)
    text = case.path("page.md").read_text()
    if os.environ.get("AMDAHL_WRITE_GOLDEN"):
        GOLDEN.parent.mkdir(exist_ok=True)
        GOLDEN.write_text(text)
    assert text == GOLDEN.read_text(), "AMDAHL_WRITE_GOLDEN=1 writes it anew; look at the difference before"


def check_markdown_with_pictures(case):
    study_fixture.study(case.path("r"), runs=5)
    result = case.run("report", "r", "--md", "page.md", timeout=200)
    if "no pictures" in result.stderr:
        raise Skip(result.stderr.strip())
    text = case.path("page.md").read_text()
    pictures = re.findall(r"(?<!\\)\]\((page_charts/[a-z0-9-]+\.svg)\)", text)
    assert len(pictures) == 5, pictures
    for picture in pictures:
        svg = ElementTree.parse(case.path(picture)).getroot()
        marks = [group for group in svg.iter("{http://www.w3.org/2000/svg}g") if "role-mark" in group.get("class", "")]
        assert sum(len(group) for group in marks) > 5, picture


def check_without_pictures_it_says_so(case):
    study_fixture.study(case.path("r"))
    result = case.run("report", "r", "--md", "page.md", env=NO_PICTURES)
    assert "no Python with vl_convert was found" in result.stderr, result.stderr
    assert "Pictures are left out" in case.path("page.md").read_text() and not case.path("page_charts").exists()
    broken = case.path("python")
    broken.write_text("#!/bin/sh\necho 'it broke' >&2\nexit 9\n")
    broken.chmod(0o755)
    result = case.run("report", "r", "--md", "page.md", env={"AMDAHL_CHART_PYTHON": str(broken)})
    assert "could not draw them: it broke" in result.stderr, result.stderr


def check_open(case):
    study_fixture.study(case.path("r"))
    opener = case.path("bin") / "xdg-open"
    opener.parent.mkdir()
    opener.write_text(f"#!/bin/sh\necho \"$1\" > {case.path('opened')}\n")
    opener.chmod(0o755)
    case.run("report", "r", "--open", env={"PATH": str(opener.parent) + ":/usr/bin:/bin"})
    assert case.path("opened").read_text().strip() == str(case.path("r/report.html").resolve())
    assert "</html>" in case.path("r/report.html").read_text()
    case.path("none").mkdir()
    case.refused(3, "environment-missing", "report", "r", "--html", "p.html", "--open",
                 env={"PATH": str(case.path("none"))}, says=["xdg-open", "p.html"])
    assert case.path("p.html").exists()


def check_what_cannot_be_read_is_named(case):
    study_fixture.study(case.path("good"))
    case.path("empty").mkdir()
    case.refused(2, "usage", "report", "empty", "--html", "p.html", says=["empty", "no run is stored there"])
    case.refused(2, "usage", "report", "absent", "--html", "p.html", says=["absent"])
    text = case.path("good/records.jsonl").read_text()
    for name, content, cause, code in (("cut", text[:200] + "\n" + text[900:], "store-corrupt", 5),
                                       ("header", text.split("\n")[0] + "\n", "store-corrupt", 5),
                                       ("tides", text.replace('"kind": "study"', '"kind": "tides"'), "usage", 2)):
        case.path(name).mkdir()
        case.write(f"{name}/records.jsonl", content)
        case.refused(code, cause, "report", name, "--html", "p.html", says=[name])
        assert not case.path("p.html").exists()
        case.refused(code, cause, "report", name, "good", "--html", "p.html", says=[name])
        page = case.path("p.html").read_text()
        assert "Throughput against the batch" in page and f"left out: {name}" in page, name
        case.path("p.html").unlink()
    case.path("new").mkdir()
    case.write("new/records.jsonl", text.replace('"version": 1', '"version": 99'))
    result = case.run("report", "new", "--html", "p.html", code=5)
    harness.check_error(result.stderr, "version-refused", ["99"])


def check_options_that_exclude_each_other(case):
    study_fixture.study(case.path("r"))
    case.refused(2, "usage", "report", "r", "r", "--html", "p.html", says=["given twice"])
    case.refused(2, "usage", "report", "r", "r/records.jsonl", "--html", "p.html", says=["given twice"])
    case.refused(2, "usage", "report", "r", "--json", "--html", "p.html", says=["--json"])
    case.refused(2, "usage", "report", "r", "r", "--json", says=["--json of 2 runs"])
    case.refused(2, "usage", "report", "r", "--html", "absent/p.html", says=["absent"])
    case.refused(2, "usage", "report", "--html", "p.html")


def check_help(case):
    text = case.run("report", "--help").stdout
    for words in ("--html", "--md", "--open", "amdahl report results/my-run --html report.html --open"):
        assert words in text, words


harness.main(globals())
