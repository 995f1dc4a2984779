"""The page of a study in a browser: charts, tables, files, print, reading by keyboard and by machine."""
import json
import os

import browser
import harness
import study_fixture
from browser import Opened, report

GROUP = "large-2021379-strong-tf32-synthetic"


def check_charts_are_drawn_with_every_mark(case):
    study_fixture.study(case.path("r"))
    with Opened(report(case, "r")) as page:
        page.draw_all()
        assert page.marks(f"speedup-{GROUP}", "symbol") == 12  # 4 batches on 1, 2 and 4 devices
        assert page.marks(f"speedup-{GROUP}", "rule") == 8     # an interval a comparison
        assert page.marks(f"efficiency-{GROUP}", "symbol") == 12
        assert page.marks(f"throughput-{GROUP}", "symbol") == 12
        charts = {chart["id"]: chart for chart in page.charts()}
        crossings = sum(row[7] is not None for row in charts[f"throughput-{GROUP}"]["rows"])
        assert crossings >= 1 and page.marks(f"throughput-{GROUP}", "rule") == 12 + crossings
        bars = len(charts[f"account-{GROUP}"]["rows"])
        ticks = 12
        assert page.marks(f"account-{GROUP}", "rect") >= bars + ticks, (page.marks(f"account-{GROUP}", "rect"), bars)
        samples = charts[f"samples-{GROUP}"]["rows"]
        outliers = sum(row[4] == "yes" for row in samples)
        assert page.marks(f"samples-{GROUP}", "symbol") == outliers >= 12
        assert page.marks(f"samples-{GROUP}", "rect") == len(samples) - outliers == 120 - outliers
        page.check_quiet()


def check_map_of_several_models(case):
    study_fixture.study(case.path("a"))
    study_fixture.study(case.path("b"), model="small", parameters=20000, seed=2)
    with Opened(report(case, "a", "b")) as page:
        page.draw_all()
        assert page.marks("map-4-strong-tf32", "rect") == 8 and page.marks("map-4-strong-tf32", "text") == 16
        page.check_quiet()


def check_tables_are_the_charts_data(case):
    study_fixture.study(case.path("r"))
    with Opened(report(case, "r")) as page:
        page.check_tables()


def check_buttons_give_files(case):
    study_fixture.study(case.path("r"))
    with Opened(report(case, "r")) as page:
        page.check_buttons()
        page.check_quiet()


def check_accessible_everywhere(case):
    study_fixture.study(case.path("r"), failed={(4, 64)})
    file = report(case, "r")
    for scheme, width in (("light", 1280), ("dark", 1280), ("light", 380), ("dark", 380)):
        with Opened(file, scheme=scheme, width=width) as page:
            page.draw_all()
            page.check_accessible()
            assert page.value("document.documentElement.scrollWidth <= window.innerWidth"), (scheme, width)
            page.check_quiet()
            page.picture(f"study-{scheme}-{width}")


def check_dark_is_dark(case):
    """Page and charts follow the system's colours, also when they change while the page is open."""
    study_fixture.study(case.path("r"))
    file = report(case, "r")
    ink = "document.querySelector('.plot .role-axis-label text').getAttribute('fill')"
    papers = {}
    for scheme, other in (("light", "dark"), ("dark", "light")):
        with Opened(file, scheme=scheme) as page:
            page.draw_all()
            papers[scheme] = (page.value("getComputedStyle(document.body).backgroundColor"), page.value(ink))
            page.page.emulate_media(color_scheme=other)
            page.until(f"document.querySelector('.plot .role-axis-label text') && {ink} !== '{papers[scheme][1]}'")
            page.check_quiet()
    assert papers["light"][0] != papers["dark"][0] and papers["light"][1] != papers["dark"][1], papers


def check_by_keyboard(case):
    study_fixture.study(case.path("r"))
    with Opened(report(case, "r")) as page:
        page.page.keyboard.press("Tab")
        assert page.value("document.activeElement.className") == "skip"
        page.page.keyboard.press("Enter")
        page.until("document.activeElement.id === 'content'", 5)
        reached = set()
        for _ in range(60):
            page.page.keyboard.press("Tab")
            reached.add(page.value("document.activeElement.tagName + (document.activeElement.dataset.file ?? '')"))
        assert {"BUTTONsvg", "BUTTONpng", "BUTTONcsv", "SUMMARY"} <= reached, reached


def check_print_draws_every_chart_in_light(case):
    study_fixture.study(case.path("r"))
    with Opened(report(case, "r"), scheme="dark", height=500) as page:
        pdf = page.page.pdf()
        assert pdf.startswith(b"%PDF") and len(pdf) > 20000, len(pdf)
        assert page.value("[...document.querySelectorAll('.plot')].every((plot) => plot.dataset.state === 'drawn')")
        page.check_quiet()


def check_states_of_a_study(case):
    """One device, a failed series, CPU virtual devices, one run a cell: each opens without a complaint."""
    study_fixture.study(case.path("one"), devices=(1,))
    study_fixture.study(case.path("failed"), failed={(4, batch) for batch in (64, 512, 4096, 32768)})
    study_fixture.study(case.path("cpu"), kind="cpu-virtual", devices=(1, 2), batches=(64, 512))
    study_fixture.study(case.path("single-run"), runs=1)
    for name, plots in (("one", 3), ("failed", 5), ("cpu", 5), ("single-run", 5)):
        with Opened(report(case, name)) as page:
            page.draw_all()
            assert page.value("document.querySelectorAll('.plot').length") == plots, name
            page.check_quiet()
            page.check_accessible()
            said = page.value("document.querySelector('header').textContent")
            assert ("not GPUs" in said) == (name == "cpu"), said
    with Opened(report(case, "failed")) as page:
        assert "out of memory on device 1" in page.value("document.getElementById('missing').textContent")


def check_names_do_no_harm(case):
    study_fixture.study(case.path("r"), model="</script><img src=x onerror=alert(1)>")
    with Opened(report(case, "r")) as page:
        page.draw_all()
        page.check_quiet()
        assert page.value("document.images.length") == 0
        assert "<img src=x" in page.value("document.querySelector('h1').textContent")


def check_ten_thousand_records_open_within_two_seconds(case):
    study_fixture.study(case.path("r"), devices=(1, 2, 4, 8), batches=tuple(2**k for k in range(5, 15)), runs=250)
    assert len(harness.records_of(case.path("r"))) == 10000
    file = report(case, "r")
    data = case.path("r/records.jsonl").stat().st_size
    assert file.stat().st_size < data + 2.5e6, (file.stat().st_size, data)
    seconds, work = [], []
    for _ in range(5):  # other work on the machine makes it slower, never faster
        with Opened(file) as page:
            seconds.append(page.seconds)
            work.append(page.work_seconds)
            if min(seconds) <= 2:
                break
    crowded = os.getloadavg()[0] > os.cpu_count()
    assert min(work) <= 2, work
    assert min(seconds) <= 2 or crowded, seconds
    print(f"10,000 records: first chart after {min(seconds):.2f} s, {min(work):.2f} s of work, "
          f"{file.stat().st_size / 1e6:.1f} MB{'; not judged by the clock: the machine is busy' if crowded else ''}")
    with Opened(file) as page:
        page.draw_all()
        page.page.click(f"#samples-{GROUP} details summary")
        page.until(f"document.querySelectorAll('#samples-{GROUP} tbody tr').length === 10000", 30)
        assert len(page.save(f"samples-{GROUP}", "csv").decode().split("\r\n")) == 10002
        page.check_quiet()


def check_a_page_without_charts_library_is_small_enough(case):
    """What the page is beside its data: at most 1.5 MB."""
    study_fixture.study(case.path("r"))
    text = report(case, "r").read_text()
    inside = sum(len(json.dumps(line)) for line in harness.lines_of(case.path("r")))
    assert len(text.encode()) - inside <= 1.5e6, (len(text), inside)


browser.main(globals())
