"""`amdahl report --html --md` of links, collectives, arena, sensor, train and doctor runs: the files and wrong input. What
a browser makes of the pages is looked at in tests/browser."""
import json
import re
import xml.etree.ElementTree as ElementTree

import fabric_fixture
import harness

NO_PICTURES = {"AMDAHL_CHART_PYTHON": "/nowhere/python"}


def charts_of(case, *runs):
    case.run("report", *runs, "--html", "page.html")
    page = case.path("page.html").read_text()
    found = re.search(r'<script type="application/json" id="amdahl-charts">(.*?)</script>', page, re.S)
    return {chart["id"]: chart for chart in json.loads(found.group(1))["charts"]}


def check_every_kind_has_a_page(case):
    for kind in fabric_fixture.KINDS:
        fabric_fixture.run(case.path(kind), kind)
        charts = charts_of(case, kind)
        assert charts, kind
        for chart in charts.values():
            columns = [column["name"] for column in chart["columns"]]
            fields = set(re.findall(r'"field": ?"(\w+)"', json.dumps(chart["spec"])))
            calculated = re.findall(r'"as": ?(?:"(\w+)"|\["(\w+)", "(\w+)"\])', json.dumps(chart["spec"]))
            fields -= {field for names in calculated for field in names}
            assert fields <= set(columns) and "origin" in columns, (kind, fields, columns)
            assert all(len(row) == len(columns) for row in chart["rows"])


def check_cells_are_the_records(case):
    fabric_fixture.run(case.path("r"), "links")
    medians = {(r["axes"]["source"], r["axes"]["destination"]): r["series"][0]["samples"][0]
               for r in harness.records_of(case.path("r")) if r["axes"]["test"] == "device_to_device_memcpy_write_ce"}
    chart = charts_of(case, "r")["pair-bandwidth"]
    assert {(row[0], row[1]): row[2] for row in chart["rows"]} == medians


def check_missing_machine_is_a_note(case):
    fabric_fixture.run(case.path("r"), "links")
    case.path("r/machine.json").unlink()
    case.run("report", "r", "--html", "page.html")
    assert "machine.json is not there" in case.path("page.html").read_text()


def check_missing_findings_are_a_note(case):
    fabric_fixture.run(case.path("r"), "doctor")
    case.path("r/doctor.json").unlink()
    case.run("report", "r", "--html", "page.html")
    assert "doctor.json is not there" in case.path("page.html").read_text()
    case.refused(5, "store-corrupt", "report", "r", says=["doctor.json is not there", "--html"])


def check_damaged_files_beside_the_records(case):
    for kind, file in (("links", "machine.json"), ("doctor", "doctor.json")):
        fabric_fixture.run(case.path(kind), kind)
        case.path(kind).joinpath(file).write_text('{"version": 1, "findings": 3}')
        case.refused(5, "store-corrupt", "report", kind, "--html", "page.html", says=[file])
    fabric_fixture.run(case.path("newer"), "doctor")
    case.path("newer/doctor.json").write_text('{"version": 2}')
    case.refused(5, "version-refused", "report", "newer", "--html", "page.html", says=["newer/doctor.json", "version 2"])


def check_markdown_has_the_topology(case):
    fabric_fixture.run(case.path("r"), "links")
    case.run("report", "r", "--md", "page.md", env=NO_PICTURES)
    text = case.path("page.md").read_text()
    assert "![" in text and "page_charts/topology.svg" in text, text[:2000]
    assert ElementTree.parse(case.path("page_charts/topology.svg")).getroot().tag.endswith("svg")


def check_documents_are_runs_too(case):
    case.write("bench.json", case.run("sensor", "bench", "--op", "fuse", "--backend", "cpu", "--devices", "1,2", "--mode", "data",
                                      "--batch-sizes", "4,8", "--samples", "3", "--calls", "1", "--quiet", "-o", "bench",
                                      "--json").stdout)
    document, folder = charts_of(case, "bench.json"), charts_of(case, "bench")
    assert document and {id: chart["rows"] for id, chart in document.items()} == {
        id: chart["rows"] for id, chart in folder.items()}
    case.refused(2, "usage", "report", "bench.json", says=["bench.json", "--html FILE"])
    case.write("other.json", json.dumps({"version": 1, "records": []}))
    case.refused(2, "usage", "report", "other.json", "--html", "page.html", says=["other.json", "empty"])


harness.main(globals())
