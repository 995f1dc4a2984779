"""`amdahl compare` of several runs against one, as text, Markdown, JSON and a page; of RoboCache's and the published training
study's files; of summaries; and what cannot be used refused by one line that names file and key. The numbers of the fixtures
are made up, in the shape that the two programs write."""
import copy
import json
import shutil

import harness
from harness import TINY, lines_of, records_of

FIXTURES = harness.SOURCE / "tests" / "cli" / "fixtures"
USAGE = (2, "usage")


def fixture(case, name, change=lambda document: None):
    document = json.loads((FIXTURES / f"{name}.json").read_text())
    change(document)
    return case.write(f"{name}.json", json.dumps(document))


def steady_run(case, folder, factor=1.0, spread=0.002):
    """A run whose step times are made up: 100 us on one device, 200 us on two, times the factor."""
    if not case.path("measured").exists():
        case.run("study", *TINY, "--runs", 8, "-q", "-o", "measured")
    shutil.copytree(case.path("measured"), case.path(folder))
    lines = lines_of(case.path(folder))
    for line in lines:
        if line["type"] != "record":
            continue
        axes = line["axes"]
        axes["process"] = axes["run"] // 2
        step = 100.0 * axes["devices"] * factor * (1 + spread * (axes["run"] % 5))
        values = {"step_time": step, "throughput": axes["global_batch"] / step * 1e6}
        for series in line["series"]:
            series["samples"] = [values.get(series["name"], series["samples"][0])]
    case.write(f"{folder}/records.jsonl", "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))
    case.run("report", folder, "--write")
    return folder


def compared(case, *words, **options):
    return json.loads(case.run("compare", *words, "--json", **options).stdout)


def check_a_cut_tail_is_said(case):
    """As report does: the records that are gone may be what would decide."""
    case.run("study", *TINY, "--runs", 3, "-q", "-o", "whole")
    shutil.copytree(case.path("whole"), case.path("cut"))
    lines = case.path("whole/records.jsonl").read_text().splitlines(True)
    for text, says in (("".join(lines[:-1]), "has no line that ends the run"), ("".join(lines[:-1])[:-20], "truncated")):
        case.write("cut/records.jsonl", text)
        for words in (("whole", "cut"), ("cut", "whole")):
            assert any("cut/records.jsonl" in note and says in note for note in compared(case, *words)["notes"]), says
            assert says in case.run("compare", *words).stdout
    assert not any("records.jsonl" in note for note in compared(case, "whole", "whole")["notes"])


def check_strategies_are_paired(case):
    """ddp against zero1: only the one-device cells have the same axes; compare says how to compare the others."""
    steady_run(case, "ddp")
    steady_run(case, "zero1", 0.5)
    lines = lines_of(case.path("zero1"))
    for line in lines:
        if line["type"] == "record" and line["axes"]["strategy"] == "ddp":
            line["axes"]["strategy"] = "zero1"
    case.write("zero1/records.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    text = case.run("compare", "ddp", "zero1").stdout
    assert "faster in 1 of 1 cell" in text, text
    assert "\n1 cell of each side differs in strategy (ddp in ddp, zero1 in zero1) alone; to compare it: " \
           "--pair strategy=ddp:zero1\n" in text, text
    paired = ("compare", "ddp", "zero1", "--pair", "strategy=ddp:zero1")
    text = case.run(*paired).stdout
    assert "faster in 2 of 2 cells" in text and "\npaired: strategy ddp of ddp with zero1 of zero1\n" in text, text
    assert "ddp:zero1" in text.split("Notes")[0] and "to compare" not in text, text
    assert "ddp:zero1" in case.run(*paired, "--md", "-").stdout
    cells = {cell["axes"]["strategy"]: cell for cell in compared(case, *paired[1:])["cells"]}
    assert set(cells) == {"single", "ddp:zero1"}, cells
    assert abs(cells["ddp:zero1"]["b_over_a_speed"]["ratio"] - 2) < 0.05, cells
    case.refused(*USAGE, "compare", "ddp", "zero1", "--pair", "strategy=zero1:ddp", says=["ddp has no cell with", "ddp, single"])
    case.refused(*USAGE, "compare", "ddp", "zero1", "--pair", "strategy", says=["AXIS=A:B", "--pair strategy=ddp:zero1"])
    case.refused(*USAGE, "compare", "ddp", "zero1", "--pair", "flavour=a:b", says=["flavour"])
    h200 = harness.SOURCE / "results" / "h200"  # whose ddp run has more one-device cells, too
    text = case.run("compare", h200 / "large-6.9m", h200 / "large-6.9m-zero1").stdout
    assert "4 cells of each side differ in strategy" in text and "them: --pair strategy=ddp:zero1\n" in text, text
    # Without a cell in common the error names the same option.
    for name in ("ddp", "zero1"):
        lines = [line for line in lines_of(case.path(name)) if line.get("axes", {}).get("devices") != 1]
        case.write(f"{name}/records.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    case.refused(*USAGE, "compare", "ddp", "zero1", says=["no cell in common", "--pair strategy=ddp:zero1"])
    case.run(*paired)


def check_several_against_one(case):
    for name, factor in (("a", 1), ("b", 1.2), ("c", 0.8)):
        steady_run(case, name, factor)
    found = compared(case, "a", "b", "c")
    assert (found["a"], found["b"], [other["b"] for other in found["others"]]) == ("a", "b", ["c"]), found
    for cells, ratio, verdict in ((found["cells"], 1 / 1.2, "SLOWER"), (found["others"][0]["cells"], 1.25, "FASTER")):
        assert len(cells) == 2
        for cell in cells:
            speed = cell["b_over_a_speed"]
            assert abs(speed["ratio"] - ratio) < 1e-9 and speed["verdict"] == verdict, cell
            assert speed["ci"]["low"] <= ratio <= speed["ci"]["high"], cell
    text = case.run("compare", "a", "b", "c").stdout
    assert text.startswith("B against A: slower in 2 of 2 cells (median speed 0.833x). C against A: faster in 2 of 2"), text
    assert "A (baseline) is a\nB is b\nC is c\n" in text and text.count("FASTER") == 2 and text.count("SLOWER") == 2, text
    markdown = case.run("compare", "a", "b", "c", "--md", "-").stdout
    assert "\n> B against A: slower in 2 of 2 cells" in markdown and "|---" in markdown, markdown
    case.run("compare", "a", "b", "c", "--fail-on-regression", "3%", code=1)
    case.run("compare", "a", "c", "--fail-on-regression", "3%")
    case.run("compare", "a", "c", "b", "--fail-on-regression", "30")


def check_holm_spans_all_cells(case):
    steady_run(case, "a")
    steady_run(case, "b", 1.003, 0.0055)
    alone = compared(case, "a", "b")["cells"][0]["a_over_b_speed"]
    runs = [shutil.copytree(case.path("b"), case.path(f"b{i}")).name for i in range(4)]
    among = compared(case, "a", "b", *runs)["cells"][0]["a_over_b_speed"]
    assert among["p_welch"] == alone["p_welch"] and among["p_holm"] > 1.9 * alone["p_holm"], (alone, among)


def check_page(case):
    steady_run(case, "a")
    steady_run(case, "b", 1.2)
    result = case.run("compare", "a", "b", "--html", "page.html")
    assert "page: page.html" in result.stderr
    page = case.path("page.html").read_text()
    assert "slower in 2 of 2 cells" in page and "speed-1" in page and "http://" not in page.split("<script")[0]
    first = case.path("page.html").read_bytes()
    case.run("compare", "a", "b", "--html", "page.html")
    assert case.path("page.html").read_bytes() == first, "the same runs give the same page"
    case.refused(*USAGE, "compare", "a", "b", "--html", "nowhere/page.html", says=["nowhere"])


def check_summaries(case):
    """mean, sd and number of runs are enough for a verdict; only the rank test is missing."""
    steady_run(case, "a")
    steady_run(case, "b", 1.2)
    records, summaries = compared(case, "a", "b"), compared(case, "a/summary.json", "b/summary.json")
    for mine, other in zip(records["cells"], summaries["cells"]):
        one, two = mine["a_over_b_speed"], other["a_over_b_speed"]
        assert abs(one["p_welch"] - two["p_welch"]) <= 1e-9 and one["level"] == two["level"] == "processes" and one["verdict"] == two["verdict"] == "FASTER", (one, two)
        assert abs(one["ratio"] - two["ratio"]) < 1e-9 and "p_mann_whitney" not in two and "p_mann_whitney" in one
        assert (one["processes_first"], one["n_first"]) == (4, 8), one
        assert abs(one["ci"]["low"] - two["ci"]["low"]) < 0.01 * one["ratio"], (one, two)
        for side in ("a", "b"):
            for key, value in mine[side].items():
                if isinstance(value, float):
                    assert abs(value - other[side][key]) <= 1e-9 * abs(value), (key, mine[side], other[side])
    assert compared(case, "a", "b/summary.json")["cells"][0]["a_over_b_speed"]["verdict"] == "FASTER"
    broken = json.loads(case.path("a/summary.json").read_text())
    del broken["cells"][0]["key"]["model"]
    case.write("broken.json", json.dumps(broken))
    case.refused(5, "store-corrupt", "compare", "broken.json", "b", says=["broken.json", "model"])


def check_robocache_one_gpu(case):
    """Beside our own records of the same job; its mean is one sample, so nothing is judged."""
    document = json.loads(case.run("sensor", "bench", "--backend", "cpu", "--op", "fuse", "--batch-sizes", "4", "--dtype", "bf16",
                                   "--samples", "3", "-q", "--json").stdout)
    for record in document["records"]:
        record["provenance"].update(device_kind="cuda", host="unknown")
    case.write("fuse.json", json.dumps(document))
    found = compared(case, fixture(case, "robocache_single"), "fuse.json")
    assert len(found["cells"]) == 1, found
    cell = found["cells"][0]
    assert cell["axes"]["op"] == "fuse" and cell["axes"]["dtype"] == "bf16" and cell["a"]["mean"] == 50.0, cell
    assert cell["a_over_b_speed"]["verdict"] == "UNCLEAR" and cell["a_over_b_speed"]["n_first"] == 1, cell
    notes = "\n".join(found["notes"])
    for words in ("measured by RoboCache (1 GPU)", "timed one by one", "'memory_bandwidth' was left out",
                  "only robocache_single.json has time of a voxelize"):
        assert words in notes, notes


def check_robocache_several(case):
    slower = fixture(case, "robocache_multi")
    faster = case.write("faster.json", json.dumps(json.loads(case.path(slower).read_text()) |
                                                  {"multimodal_fusion": {"p50_latency_ms": .03, "p99_latency_ms": .05,
                                                                         "mean_latency_ms": .04}}))
    found = compared(case, slower, faster)
    ratios = {cell["axes"]["op"]: cell["b_over_a_speed"]["ratio"] for cell in found["cells"]}
    assert abs(ratios["fuse"] - 2) < 1e-9 and ratios["voxelize"] == 1, ratios
    for cell in found["cells"]:
        assert cell["axes"]["devices"] == 2 and cell["axes"]["scaling"] == "weak", cell
    assert any("a sum of different rows" in note for note in found["notes"])
    case.refused(*USAGE, "compare", slower, fixture(case, "robocache_single"), says=["no cell"])


def check_damaged_robocache(case):
    good = fixture(case, "robocache_single")

    def remove(*path):
        def change(document):
            for step in path[:-1]:
                document = document[step]
            del document[path[-1]]
        return change
    fusion = "multimodal_fusion"
    for change, says in ((remove("device_name"), ["'device_name'", "missing"]),
                         (remove("voxelization"), ["'voxelization'", "missing"]),
                         (remove(fusion, "mean_latency_ms"), [f"'{fusion}.mean_latency_ms'", "missing"]),
                         (lambda d: d[fusion].update(mean_latency_ms=0), [f"'{fusion}.mean_latency_ms'", "is 0"]),
                         (lambda d: d[fusion].update(p50_latency_ms="fast"), ["p50_latency_ms", "not a number"]),
                         (lambda d: d["voxelization"].update(sum={}), ["'voxelization.sum'", "not known"]),
                         (lambda d: d.update(voxelization=[]), ["voxelization", "not a JSON object"])):
        name = case.write("bad.json", json.dumps(json.loads(case.path(good).read_text())))
        document = json.loads(case.path(name).read_text())
        change(document)
        case.write(name, json.dumps(document))
        case.refused(*USAGE, "compare", good, name, says=["bad.json", *says])
    multi = json.loads((FIXTURES / "robocache_multi.json").read_text())
    multi["world_size"] = 3
    case.refused(*USAGE, "compare", good, case.write("bad.json", json.dumps(multi)), says=["'world_size'", "2 devices"])


def check_published_study(case):
    one, several = fixture(case, "published_study_single"), fixture(case, "published_study_multi")
    found = compared(case, f"{one}@devices=1", f"{several}@devices=2")
    assert len(found["cells"]) == 3 and found["series"] == "throughput" and found["unit"] == "samples/s", found
    for cell in found["cells"]:
        test = cell["a_over_b_speed"]  # six runs of one process, so no verdict
        assert test["n_first"] == 6 and test["level"] == "none" and test["verdict"] == "UNCLEAR", cell
        assert cell["axes"]["num_parameters"] == 54403, cell
    batch_64 = next(cell for cell in found["cells"] if cell["axes"]["global_batch"] == 64)
    assert 1.19 < batch_64["a_over_b_speed"]["ratio"] < 1.24, batch_64  # 8234 over 6789
    notes = "\n".join(found["notes"])
    assert "2 are assumed" in notes and "a spread" in notes, notes
    case.refused(*USAGE, "compare", one, several, says=["no cell"])


def check_published_study_against_ours(case):
    case.run("study", "--backend", "cpu", "--model", "medium", "--batch-sizes", "16", "--devices", "1", "--runs", "3",
             "--variants", "none", "--warmup", "1", "--steps", "2", "-q", "-o", "ours")
    lines = lines_of(case.path("ours"))
    for line in lines:
        if line["type"] == "provenance":
            line.update(device_kind="cuda", host="unknown")
    case.write("ours/records.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    found = compared(case, fixture(case, "published_study_single"), "ours")
    assert len(found["cells"]) == 1 and found["cells"][0]["axes"]["global_batch"] == 16, found
    assert (found["cells"][0]["a"]["n"], found["cells"][0]["b"]["n"]) == (6, 3), found
    assert any("only ours knows" in note for note in found["notes"]), found["notes"]
    case.refused(*USAGE, "compare", fixture(case, "published_study_single"), harness.SOURCE / "results/cpu/two-devices",
                 says=["device kinds"])


def check_damaged_published_study(case):
    good = fixture(case, "published_study_single")
    for change, says in ((lambda d: d[0].pop("batch_size"), ["'[0].batch_size'", "missing"]),
                         (lambda d: d[1].update(batch_size=1.5), ["'[1].batch_size'", "1.5"]),
                         (lambda d: d[0].update(multi_gpu="no"), ["'[0].multi_gpu'", "true or false"]),
                         (lambda d: d[2].update(detailed_runs=[]), ["'[2].detailed_runs'", "empty"]),
                         (lambda d: d[0]["detailed_runs"][3].pop("samples_per_second"), ["[3].samples_per_second", "missing"]),
                         (lambda d: d[0]["detailed_runs"][3].update(samples_per_second="[1 2]"), ["samples_per_second", "no number"]),
                         (lambda d: d[0]["detailed_runs"][3].update(samples_per_second=-1), ["samples_per_second", "-1"]),
                         (lambda d: d.clear(), ["empty list"]),
                         (lambda d: d.insert(0, 5), ["[0]", "not a JSON object"])):
        document = copy.deepcopy(json.loads(case.path(good).read_text()))
        change(document)
        case.refused(*USAGE, "compare", good, case.write("bad.json", json.dumps(document)), says=["bad.json", *says])
    twice = json.loads(case.path(good).read_text())
    twice[0]["detailed_runs"].append(twice[0]["detailed_runs"][0])
    case.refused(5, "store-corrupt", "compare", good, case.write("bad.json", json.dumps(twice)), says=["bad.json", "there already"])


def check_modes_of_the_sensor_benchmark(case):
    """Records of pipeline, task and hetero compare like all others."""
    commands = {"pipeline": ("--op", "fuse", "--mode", "pipeline", "--model", "medium", "--batch-sizes", "6",
                             "--shape", "30x16,20x5", "--targets", "12"),
                "task": ("--op", "fuse,voxelize", "--mode", "task", "--devices", "2", "--batch-sizes", "64", "--points", "5000",
                         "--grid", "16", "--voxel-modes", "count"),
                "hetero": ("--op", "voxelize", "--mode", "hetero", "--voxel-modes", "count", "--points", "5000", "--grid", "16",
                           "--device-speeds", "1,0.5")}
    for name, words in commands.items():
        for run in ("a", "b"):
            case.run("sensor", "bench", "--backend", "cpu", *words, "--samples", "4", "--calls", "1", "-q", "-o",
                     f"{name}-{run}")
        records = records_of(case.path(f"{name}-a"))
        found = compared(case, f"{name}-a", f"{name}-b")
        assert found["cells"] and not found["only_a"] and not found["only_b"], found
        assert len(found["cells"]) == len([r for r in records if r["status"]["kind"] == "ok"]), (name, found)
        case.run("compare", f"{name}-a", f"{name}-b", "--md", "-")


def check_bad_words(case):
    steady_run(case, "a")
    for limit in ("3 %", "x", "%", "-1%", "101", "nan", "1e3%", "0x3"):
        case.refused(*USAGE, "compare", "a", "a", "--fail-on-regression", limit, says=["--fail-on-regression"])
    case.refused(*USAGE, "compare", "a", "a", "--md", "-", "--json", says=["--md with --json"])
    case.refused(*USAGE, "compare", "a", says=["compare lacks b"])
    case.refused(*USAGE, "compare", "a", "a", "nowhere", says=["nowhere"])
    case.refused(*USAGE, "compare", "a", case.write("x.json", "{}"), says=["x.json", "RoboCache"])


harness.main(globals())
