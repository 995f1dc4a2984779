"""`amdahl collectives --onesided` between threads and processes: records, table, report, comparison, and the file that `--comm`
reads."""
import json
import resource

import harness
from harness import lines_of
from schema_support import valid

REST = ("--backend", "cpu", "-q", "--samples", "3", "--least-sample-us", "3000", "-b", "8", "-e", "16")
QUICK = ("collectives", "--onesided", *REST)
OPERATIONS = {"put", "get", "put_signal", "put_packets", "put_fence", "put_quiet", "send_recv", "all_reduce", "signal", "fetch_add",
              "contended_add", "barrier"}


def check_run(case):
    text = case.run(*QUICK, "--output-dir", "r", "--table", "table.json", timeout=240).stdout
    for words in ("2 threads, CPU", "2 processes, CPU", "all_reduce", "fixed rules", "always one-sided",
                  "one-sided up to 1,024 bytes", "measured:"):
        assert words in text, words
    assert "FAILED" not in text
    records = [line for line in lines_of(case.path("r")) if line["type"] == "record"]
    for record in lines_of(case.path("r")):
        valid("record.schema.json", record)
    assert {record["axes"]["operation"] for record in records} == OPERATIONS
    for ranks, other in (("threads", "threads"), ("processes", "gloo")):
        own = [record["axes"] for record in records if record["axes"]["ranks"] == ranks]
        assert {axes["transport"] for axes in own if axes["operation"] == "all_reduce"} == \
            {"symmetric ll", "symmetric one-shot", "symmetric two-shot", other}
        assert {axes["bytes"] for axes in own if axes["operation"] == "put"} == {8, 16}
    table = json.loads(case.path("table.json").read_text())
    valid("onesided.schema.json", table)
    assert table == json.loads((case.path("r") / "onesided.json").read_text())
    assert {choice["ranks"] for choice in table["choices"]} == {"threads", "processes"}
    report = (case.path("r") / "report.txt").read_text()
    assert text.startswith(report), "the text of the run is not its report"
    assert case.run("report", "r").stdout.startswith(report), "another report from the records"
    case.run("report", "r", "--html", "r.html", "-q")
    page = case.path("r.html").read_text()
    assert "What fixed rules lose" in page and "put_signal" in page
    assert "put_signal" in case.run("compare", "r", "r").stdout
    assert "axis.operation" in case.run("report", "r", "--csv", "-").stdout


def check_table(case):
    case.run(*QUICK, "--operations", "all_reduce,put_signal,send_recv", "--ranks", "threads", "--table", "table.json", timeout=120)
    train = ("train", "--backend", "cpu", "--model", "medium", "--devices", "2", "--epochs", "1", "-q")
    weights = set()
    for comm in ("auto", "symmetric", "table.json", "symmetric-two-shot"):
        case.run(*train, "--comm", comm, "--output-dir", f"t-{comm}", "--save", f"w-{comm}.safetensors")
        weights.add(case.path(f"w-{comm}.safetensors").read_bytes())
    assert len(weights) == 1, "the collectives change the weights"
    case.path("bad.json").write_text('{"version": 1, "choices": [{"device_kind": "cpu-virtual"}]}')
    case.refused(2, "usage", *train, "--comm", "bad.json")
    case.refused(2, "usage", *train, "--comm", "none.json", says=["none.json"])
    case.refused(2, "usage", *train, "--comm", "symmetrical")


def check_gemm(case):
    shapes = ("--shapes", "8x8x8,24x8x16", "--tiles", "1,3")
    text = case.run("collectives", "--onesided=gemm", *REST, *shapes, "--ranks", "threads", "--output-dir", "g").stdout
    assert "FAILED" not in text and "of 4 GEMMs with communication" in text, text
    records = [line for line in lines_of(case.path("g")) if line["type"] == "record"]
    for record in records:
        valid("record.schema.json", record)
    cells = {(axes["gemm"], axes["m"], axes["transport"], axes.get("tiles", 0))
             for axes in (record["axes"] for record in records)}
    collectives = {("threads", 0), ("symmetric", 0)}
    column = collectives | {("one-sided", 1), ("one-sided", 3)}
    row = column | {("one-sided direct", 1), ("one-sided direct", 3)}
    assert cells == {("all_gather_gemm", m, *method) for m in (8, 24) for method in column} | \
        {("gemm_reduce_scatter", m, *method) for m in (8, 24) for method in row}, cells
    report = (case.path("g") / "report.txt").read_text()
    assert text.startswith(report) and case.run("report", "g").stdout.startswith(report), text
    case.run("report", "g", "--html", "g.html", "-q")
    assert "GEMMs with communication" in case.path("g.html").read_text()
    assert "gemm_reduce_scatter" in case.run("compare", "g", "g").stdout
    case.refused(2, "usage", "collectives", "--onesided=gemm", *REST, "--shapes", "9x8x8", says=("M is 9",))
    for words in (("--shapes", "8x8"), ("--shapes", "8x8x8x8"), ("--shapes", "0x8x8"), ("--tiles", "0")):
        case.refused(2, "usage", "collectives", "--onesided=gemm", *REST, *words)


def check_norm(case):
    for ranks, other in (("threads", "threads"), ("processes", "gloo")):
        text = case.run("collectives", "--onesided=norm", *REST, "--shapes", "4x64,7x13", "--ranks", ranks, "--output-dir", ranks).stdout
        assert "FAILED" not in text and "of 2 shapes" in text, text
        records = [line for line in lines_of(case.path(ranks)) if line["type"] == "record"]
        for record in records:
            valid("record.schema.json", record)
        cells = {(axes["transport"], axes["rows"], axes["width"]) for axes in (record["axes"] for record in records)}
        assert cells == {(by, *shape) for by in (other, "symmetric", "one-sided") for shape in ((4, 64), (7, 13))}, cells
    report = (case.path("threads") / "report.txt").read_text()
    assert case.run("report", "threads").stdout.startswith(report)
    case.run("report", "threads", "--html", "n.html", "-q")
    assert "All-reduce and normalisation" in case.path("n.html").read_text()
    assert "one-sided" in case.run("compare", "threads", "threads").stdout
    for words in (("--shapes", "8x8x8"), ("--shapes", "8"), ("--shapes", "0x8")):
        case.refused(2, "usage", "collectives", "--onesided=norm", *REST, *words)


def check_locality(case):
    words = ("collectives", "--onesided=locality", "--backend", "cpu", "-q", "--samples", "2", "-e", "256K")
    text = case.run(*words, "--ranks", "processes", "--output-dir", "l").stdout
    assert "FAILED" not in text
    records = [line for line in lines_of(case.path("l")) if line["type"] == "record"]
    for record in records:
        valid("record.schema.json", record)
    assert {(axes["placement"], axes["method"], axes["bytes"]) for axes in (record["axes"] for record in records)} == \
        {(place, method, size) for place in ("local", "peer", "host") for method in ("in place", "copied first")
         for size in (1 << 18,)}
    case.refused(2, "usage", *words[:-1], "100K")


def check_memory(case):
    """A heap that does not fit is refused in one line."""
    limit = 1 << 30
    case.refused(3, "out-of-memory", "collectives", "--onesided", "--backend", "cpu", "-q", "-e", "1G", "--ranks", "threads",
                 preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))


def check_refusals(case):
    for words in (("--peers", "nvshmem"), ("--peers", "shmem"), ("--operations", "puts"), ("--ranks", "fibers"),
                  ("--devices", "1"), ("--devices", "17"), ("-b", "2K", "-e", "1K"), ("-e", "2G"), ("--partitions", "2"), ("--samples", "0")):
        case.refused(2, "usage", *QUICK, *words)


harness.main(globals())
