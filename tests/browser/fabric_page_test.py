"""Pages of links, collectives, arena, sensor, train and doctor runs in a browser, which must have nothing to complain
about, and their charts through vl-convert, which must draw the same marks."""
import json
import xml.etree.ElementTree as ElementTree

import browser
import fabric_fixture
from browser import Opened, Skip, report

ROWS = "JSON.parse(document.getElementById('amdahl-charts').textContent).charts.find((c) => c.id === '%s')"


def rows_of(page, chart):
    """The rows of a chart's table by column."""
    found = page.value(ROWS % chart)
    names = [column["name"] for column in found["columns"]]
    return [dict(zip(names, row)) for row in found["rows"]]


def opened(case, kind, **options):
    fabric_fixture.run(case.path(kind), kind, **options)
    return Opened(report(case, kind))


def converted_marks(chart, config):
    """How many symbols vl-convert draws of a chart."""
    try:
        import vl_convert
    except ImportError as missing:
        raise Skip(missing)
    names = [column["name"] for column in chart["columns"]]
    spec = {**chart["spec"], "data": {"name": "table"}, "config": config,
            "datasets": {"table": [dict(zip(names, row)) for row in chart["rows"]]}}
    version = vl_convert.get_vegalite_versions()[-1]
    svg = ElementTree.fromstring(vl_convert.vegalite_to_svg(json.dumps(spec), vl_version=version, allowed_base_urls=[]))
    return sum(len(group) for group in svg.iter() if "mark-symbol role-mark" in group.get("class", ""))


def expect_sound(page):
    page.draw_all()
    page.check_quiet()
    page.check_accessible()


def check_converted_charts(case):
    for kind in fabric_fixture.KINDS:
        with opened(case, kind) as page:
            page.draw_all()
            document = page.value("JSON.parse(document.getElementById('amdahl-charts').textContent)")
            for chart in document["charts"]:
                drawn = page.marks(chart["id"], "symbol")
                assert converted_marks(chart, document["config"]["light"]) == drawn, (kind, chart["id"], drawn)


def check_links(case):
    with opened(case, "links", slow=(1, 2)) as page:
        expect_sound(page)
        assert page.marks("pair-bandwidth", "rect") == 12 and page.marks("pair-bandwidth", "text") == 12
        slow = [row for row in rows_of(page, "pair-bandwidth") if row["judgement"] == "below the expected bandwidth"]
        assert [(row["source"], row["destination"]) for row in slow] == [("gpu 1", "gpu 2")], slow
        assert page.marks("device-to-device-sweep", "symbol") == 48  # 4 sizes of 12 ways
        assert page.marks("host-bandwidth", "rect") == 4
        assert page.value("document.querySelector('#topology img').naturalWidth") > 300
        text = page.value("document.body.innerText")
        assert "1 of 12 pairs" in text and "<out> of memory" in text, text
        page.picture("links")


def check_collectives(case):
    with opened(case, "collectives") as page:
        expect_sound(page)
        assert page.marks("bus-bandwidth", "symbol") == page.marks("call-time", "symbol") == 10
        assert page.marks("call-time", "rule") == 10  # an interval a point
        assert page.marks("bus-bandwidth", "rule") == 1  # the physical limit
        page.picture("collectives")


def check_arena(case):
    with opened(case, "arena") as page:
        expect_sound(page)
        charts = page.value("[...document.querySelectorAll('figure.chart')].map((figure) => figure.id)")
        behind = next(chart for chart in charts if chart.startswith("behind-"))
        assert page.marks(behind, "rect") == page.marks(behind, "text") == 12
        assert sum(row["judgement"] == "fastest" for row in rows_of(page, behind)) == 4
        page.picture("arena")


def check_sensor(case):
    with opened(case, "sensor") as page:
        expect_sound(page)
        assert page.marks("fuse-rate-against-batch", "symbol") == page.marks("fuse-rate-against-devices", "symbol") == 9
        kinds = [row["kind"] for row in rows_of(page, "fuse-rate-against-batch")]
        assert kinds.count("crossing") == 1, kinds
        shares = page.value("document.querySelector('figure.chart[id^=shares]').id")
        assert page.marks(shares, "rect") == 6
        assert page.value(f"document.getElementById('{shares}').className") == "chart emulated"
        assert "some numbers are emulated" in page.value("document.body.innerText")
        page.picture("sensor")


def check_training(case):
    with opened(case, "train", device_kind="cpu-virtual", devices=1) as page:
        expect_sound(page)
        assert page.marks("loss", "symbol") == 12 and page.marks("throughput", "symbol") == 6
        assert "not GPUs" in page.value("document.querySelector('.qualifier').textContent")
        page.picture("train")


def check_doctor(case):
    with opened(case, "doctor") as page:
        expect_sound(page)
        assert page.marks("matrix-rate", "rect") == 4
        text = page.value("document.querySelector('#findings').innerText")
        assert "warning: can slow work down" in text and "--shm-size 1g" in text and "<slow>" in text, text
        page.picture("doctor")


def check_all_kinds_on_one_page(case):
    for kind in fabric_fixture.KINDS:
        fabric_fixture.run(case.path(kind), kind)
    with Opened(report(case, *fabric_fixture.KINDS)) as page:
        expect_sound(page)
        ids = page.value("[...document.querySelectorAll('[id]')].map((node) => node.id)")
        assert len(ids) == len(set(ids)), sorted(i for i in ids if ids.count(i) > 1)


def check_dark_and_narrow(case):
    fabric_fixture.run(case.path("links"), "links", slow=(0, 1))
    file = report(case, "links")
    with Opened(file, scheme="dark") as page:
        expect_sound(page)
        page.picture("links-dark")
    with Opened(file, width=400) as page:
        expect_sound(page)
        assert page.value("document.documentElement.scrollWidth") <= 400


browser.main(globals())
