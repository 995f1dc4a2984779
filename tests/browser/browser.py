"""A browser over report pages. Used by the scripts in this folder, which use the harness of tests/cli.

Every page is opened from disk with a listener for whatever must not happen: requests, console messages, exceptions and
violations of the content policy.
"""
import csv
import io
import pathlib
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cli"))
import harness  # noqa: E402
from harness import Skip  # noqa: E402

try:
    import axe_core_python
    from playwright.sync_api import TimeoutError, sync_playwright
except ImportError as missing:
    print(f"SKIP: {missing}; scripts/install_deps.sh test installs it where it can be had")
    sys.exit(harness.SKIPPED)
CHROMIUM = shutil.which("chromium")
if not CHROMIUM:
    print("SKIP: no chromium here; scripts/install_deps.sh test installs it where it can be had")
    sys.exit(harness.SKIPPED)

AXE = (pathlib.Path(axe_core_python.__file__).parent / "axe.min.js").read_text()
LAYOUT = pathlib.Path(__file__).with_name("layout.js").read_text()
WATCH = "window.violations = []; document.addEventListener('securitypolicyviolation', (e) => " \
        "window.violations.push(e.violatedDirective + ': ' + e.blockedURI + ' ' + e.sample));"
PICTURES = harness.BINARY / "pictures"

_playwright = sync_playwright().start()
_browser = _playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])  # as root there is none


class Opened:
    """One page in a window of its own."""

    def __init__(self, file, scheme="light", width=1280, height=900):
        self.context = _browser.new_context(color_scheme=scheme, viewport={"width": width, "height": height},
                                            accept_downloads=True, reduced_motion="reduce")
        self.page = self.context.new_page()
        self.problems, self.requests = [], []
        self.page.on("console", lambda message: self.problems.append(f"console {message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.problems.append(f"exception: {error}"))
        self.page.on("dialog", lambda dialog: self.problems.append(f"dialog: {dialog.message}"))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.add_init_script(WATCH)
        session = self.context.new_cdp_session(self.page)
        session.send("Performance.enable", {"timeDomain": "threadTicks"})
        start = time.monotonic()
        self.page.goto(f"file://{pathlib.Path(file).resolve()}", wait_until="load")
        self.until("document.querySelectorAll('.plot').length === 0 || "
                   "document.querySelector('.plot').dataset.state !== undefined")
        self.seconds = time.monotonic() - start  # until the first chart is there
        metrics = session.send("Performance.getMetrics")["metrics"]
        self.work_seconds = next(m["value"] for m in metrics if m["name"] == "TaskDuration")  # of the page's thread
        self.file = file

    def __enter__(self):
        return self

    def __exit__(self, *problem):
        self.context.close()

    def value(self, script):
        return self.page.evaluate(script)

    def until(self, condition, seconds=60):
        harness.wait_until(lambda: self.value(condition), condition, seconds)

    def draw_all(self):
        self.until("[...document.querySelectorAll('.plot')].every((plot) => plot.dataset.state !== undefined)")
        states = self.value("[...document.querySelectorAll('.plot')].map((plot) => plot.dataset.state)")
        assert set(states) <= {"drawn"}, states

    def expect_laid_out(self):
        """No words over each other, nothing outside of its picture, nothing cut without a scroll bar; see layout.js."""
        faults = self.value(LAYOUT)
        assert not faults, "\n".join(faults)

    def marks(self, chart, kind):
        """How many marks of a kind (symbol, rule, rect, text, path) a chart shows; legends and axes do not count."""
        return self.value(f"document.querySelectorAll('#{chart} .plot .role-mark.mark-{kind} > *').length")

    def check_quiet(self):
        """Nothing was fetched, refused by the policy or complained about."""
        assert not self.problems, self.problems
        assert self.value("window.violations") == [], self.value("window.violations")
        others = [url for url in self.requests if not url.startswith(("file:///", "blob:"))]
        assert not others and sum(url.startswith("file:") for url in self.requests) == 1, self.requests

    def check_accessible(self):
        self.value(AXE + "; 0")
        found = self.value("axe.run(document, {resultTypes: ['violations']}).then((result) => result.violations)")
        bad = [(violation["id"], violation["impact"], violation["nodes"][0]["html"][:200], len(violation["nodes"]))
               for violation in found if violation["impact"] in ("serious", "critical")]
        assert not bad, bad

    def charts(self):
        """What the page was given: columns, rows and specification of each chart."""
        return self.value("JSON.parse(document.getElementById('amdahl-charts').textContent).charts")

    def check_tables(self):
        """Each chart's table shows the chart's data."""
        for chart in self.charts():
            self.page.click(f"#{chart['id']} details summary")
            shown = self.value(f"[...document.querySelectorAll('#{chart['id']} tbody tr')].map((row) => "
                               "[...row.cells].map((cell) => cell.textContent))")
            assert len(shown) == len(chart["rows"]) > 0, chart["id"]
            for cells, values in zip(shown, chart["rows"]):
                for cell, value in zip(cells, values):
                    if value is None:
                        assert cell == "n/a", cell
                    elif isinstance(value, str):
                        assert cell == value, (cell, value)
                    else:
                        assert abs(float(cell.replace(",", "")) - value) <= 0.006 * abs(value), (cell, value)

    def check_buttons(self):
        """Each chart's buttons give a picture in SVG and in PNG, and its data in CSV."""
        self.draw_all()
        for chart in self.charts():
            svg = ElementTree.fromstring(self.save(chart["id"], "svg"))
            assert svg.tag.endswith("svg") and len(list(svg.iter())) > 30, chart["id"]
            png = self.save(chart["id"], "png")
            assert png.startswith(b"\x89PNG\r\n") and len(png) > 5000, (chart["id"], len(png))
            rows = list(csv.reader(io.StringIO(self.save(chart["id"], "csv").decode())))
            assert rows[0] == [column["name"] for column in chart["columns"]]
            assert len(rows) == 1 + len(chart["rows"])
            for cells, values in zip(rows[1:], chart["rows"]):
                for cell, value in zip(cells, values):
                    assert cell == ("" if value is None else value) if isinstance(value, (str, type(None))) \
                        else float(cell) == value, (cell, value)

    def save(self, chart, kind):
        """Presses a button and returns the file that it gives. Chromium drops the 11th download within a second."""
        time.sleep(0.15)
        with self.page.expect_download() as download:
            self.page.click(f"#{chart} button[data-file={kind}]")
        assert download.value.suggested_filename == f"{chart}.{kind}", download.value.suggested_filename
        return pathlib.Path(download.value.path()).read_bytes()

    def picture(self, name):
        PICTURES.mkdir(exist_ok=True)
        self.page.screenshot(path=PICTURES / f"{name}.png")


def dumped(file, *options):
    """The document after a browser without a user has opened it, as `chromium --dump-dom` gives it."""
    result = subprocess.run([CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", *options, "--dump-dom",
                             f"file://{pathlib.Path(file).resolve()}"], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    return result.stdout


def new_context(**options):
    """A window of the one browser, for pages that are not ours."""
    return _browser.new_context(**options)


def report(case, *runs):
    """The page about runs of a case, opened by `Opened`."""
    case.run("report", *runs, "--html", "page.html", timeout=120)
    file = case.path("page.html")
    if "Charts are not drawn" in file.read_text():
        raise Skip("this build has no chart bundle")
    return file


def main(names):
    try:
        harness.main(names)
    finally:
        _browser.close()
        _playwright.stop()
