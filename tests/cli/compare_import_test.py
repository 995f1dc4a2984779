"""`amdahl compare` with the JSON of nccl-tests and nvbandwidth and with our own: cells, ratios, no verdict from one sample,
and every file that cannot be used refused by one line that names the key. The files in fixtures/ have the shape that the
tools' writers give; the numbers are made up."""
import copy
import json
import statistics

import harness
from harness import lines_of, records_of

FIXTURES = harness.SOURCE / "tests" / "cli" / "fixtures"
NCCL_TEXT = (FIXTURES / "nccl_tests_all_reduce.json").read_text()
NVB_TEXT = (FIXTURES / "nvbandwidth.json").read_text()
QUICK = ("--backend", "cpu", "-q")
USAGE = (2, "usage")


def nccl(case, name, change=lambda document: None):
    return changed(case, name, NCCL_TEXT, change)


def nvb(case, name, change=lambda document: None):
    return changed(case, name, NVB_TEXT, lambda document: change(document["nvbandwidth"]))


def changed(case, name, text, change):
    document = json.loads(text)
    change(document)
    return case.write(name, json.dumps(document))


def on_gpus(document):
    """Our records as if they came from the fixtures' machine."""
    for record in document["records"]:
        record["provenance"].update(device_kind="cuda", host="gpu-host")
        for axis in ("source", "destination"):
            if axis in record["axes"]:
                record["axes"][axis] = record["axes"][axis].replace("cpu", "gpu")
    return document


def own_collectives(case, name="ours.json"):
    text = case.run("collectives", *QUICK, "-n", "2", "-w", "1", "-b", "1M", "-e", "16M", "-f", "4", "--json").stdout
    case.write(name, json.dumps(on_gpus(json.loads(text))))
    return name


def compared(case, *words, **options):
    return json.loads(case.run("compare", "--json", *words, **options).stdout)


def key(cell, *axes):
    return tuple(cell["axes"][axis] for axis in axes)


def values(records, series, *axes):
    """First sample of a series by the axes' values."""
    return {tuple(r["axes"][a] for a in axes): s["samples"][0] for r in records for s in r["series"] if s["name"] == series}


def check_nccl_tests_against_ours(case):
    theirs, ours = nccl(case, "nccl.json"), own_collectives(case)
    for a, b in ((theirs, ours), (ours, theirs)):
        found = compared(case, a, b)
        assert (found["a"], found["b"], found["series"], found["unit"]) == (a, b, "time", "us"), found
        assert found["device_kind"] == "cuda" and len(found["cells"]) == 6 and not found["only_a" if a == ours else "only_b"]
        mine = values(json.loads(case.path(ours).read_text())["records"], "time", "bytes", "in_place")
        other = {(row["size"], placement == "in_place"): row[placement]["time"]
                 for row in json.loads(NCCL_TEXT)["results"] for placement in ("in_place", "out_of_place")}
        for cell in found["cells"]:
            where = key(cell, "bytes", "in_place")
            expected = mine[where] / other[where] if a == theirs else other[where] / mine[where]  # of speeds
            test = cell["a_over_b_speed"]
            assert abs(test["ratio"] - expected) <= 1e-9 * expected, cell
            assert test["verdict"] == "UNCLEAR" and "ci" not in test and (test["n_first"], test["n_second"]) == (1, 1), cell
            assert cell["axes"]["collective"] == "all_reduce" and cell["axes"]["dtype"] == "f32", cell
    assert len(found["only_b"]) == 2 and "64 MiB" in found["only_b"][0], found["only_b"]
    text = case.run("compare", theirs, ours).stdout
    assert "common: n: 1+1; verdict: UNCLEAR (one process per side)\n" in text and "FASTER" not in text and "not judged" in text, text
    for tool in ("nccl-tests (JSON version 3, NCCL 2.28.9)", "amdahl "):
        assert f"was measured by {tool}" in text, text


def check_a_run_folder_and_its_own_json(case):
    case.write("all.json", case.run("collectives", *QUICK, "-n", "2", "-b", "64", "-e", "1K", "-f", "4", "--output-dir", "r",
                                    "--json").stdout)
    for a, b in (("r", "all.json"), ("all.json", "r/records.jsonl")):
        cells = compared(case, a, b)["cells"]
        assert len(cells) == 6 and all(cell["a_over_b_speed"]["ratio"] == 1 for cell in cells), cells
        assert {cell["a_over_b_speed"]["verdict"] for cell in cells} == {"UNCLEAR"}, cells
    cells = compared(case, "r@in_place=true", "all.json@in_place=false")["cells"]
    assert [cell["axes"]["bytes"] for cell in cells] == [64, 256, 1024], cells


def check_nvbandwidth_against_ours(case):
    case.run("links", *QUICK, "-t", "host_to_device_memcpy_ce,device_to_device_memcpy_read_ce,all_to_one_write_ce,"
             "device_to_device_bidirectional_memcpy_write_ce,device_to_device_latency_sm", "-b", "1M", "--output-dir", "r")
    document = on_gpus(json.loads(case.run("links", *QUICK, "-t", "pairs,patterns,host,device_to_device_latency_sm", "-b", "1M",
                                           "--json").stdout))
    case.write("ours.json", json.dumps(document))
    found = compared(case, nvb(case, "nvb.json"), "ours.json")
    theirs = {(cell["series"], *key(cell, "test", "source", "destination")): cell["a"]["mean"] for cell in found["cells"]}
    pair = "device_to_device_bidirectional_memcpy_write_ce"
    expected = {("bandwidth", "host_to_device_memcpy_ce", "host", "gpu 0"): 55.3119,
                ("bandwidth", "host_to_device_memcpy_ce", "host", "gpu 1"): 55.2874,
                # row 0, column 1 of a read is what GPU 0 fetches from GPU 1
                ("bandwidth", "device_to_device_memcpy_read_ce", "gpu 1", "gpu 0"): 396.231,
                ("bandwidth", "device_to_device_memcpy_read_ce", "gpu 0", "gpu 1"): 395.874,
                ("bandwidth", pair, "gpu 0", "gpu 1"): 770, ("bandwidth", pair, "gpu 1", "gpu 0"): 769.6,
                ("bandwidth", "all_to_one_write_ce", "all", "gpu 0"): 396.8,
                ("bandwidth", "all_to_one_write_ce", "all", "gpu 1"): 397.05,
                ("latency", "device_to_device_latency_sm", "gpu 1", "gpu 0"): 0.73145,
                ("latency", "device_to_device_latency_sm", "gpu 0", "gpu 1"): 0.72912}
    assert theirs.keys() == expected.keys(), theirs
    for name, value in expected.items():
        assert abs(theirs[name] - value) <= 1e-12 * value, (name, theirs[name])
    assert {cell["unit"] for cell in found["cells"]} == {"GB/s", "us"}
    assert {cell["a_over_b_speed"]["verdict"] for cell in found["cells"]} == {"UNCLEAR"}, found["cells"]
    for cell in found["cells"]:  # above 1: A is faster, of bandwidths and of latencies
        a, b = cell["a"]["mean"], cell["b"]["mean"]
        expected_ratio = a / b if cell["unit"] == "GB/s" else b / a
        assert abs(cell["a_over_b_speed"]["ratio"] - expected_ratio) <= 1e-9 * expected_ratio, cell
    text = case.run("compare", "ours.json", "nvb.json").stdout
    for words in ("unknown test 'device_to_moon_memcpy_ce' was left out", "device_local_copy has no result: Waived",
                  "was measured by nvbandwidth v0.8", "bandwidth in GB/s", "latency in us"):
        assert words in text, text
    assert len(compared(case, "r", "r")["cells"]) == 10


def check_cells_that_are_not_there(case):
    def without(document):
        document["results"][0]["in_place"] = None
        del document["results"][1]["in_place"]
        document["results"][2]["in_place"]["nwrong"] = None
        document["results"][3]["in_place"]["nwrong"] = 7.0
    ours = own_collectives(case)
    found = compared(case, nccl(case, "nccl.json", without), ours)
    assert len(found["cells"]) == 4 and any("1 record without a result" in note for note in found["notes"]), found

    def holes(document):
        document["testcases"][1]["bandwidth_matrix"][0][1] = "N/A"
    assert len(compared(case, nvb(case, "nvb.json", holes), nvb(case, "whole.json"))["cells"]) == 9


def check_numbers_of_ranks(case):
    """nccl-tests lists the first GPU of each process; a process may have several, and the ranks may be split."""
    def with_processes(groups, ngpus):
        def change(document):
            device = document["config"]["devices"][0]
            document["config"]["ngpus"] = ngpus
            document["config"]["devices"] = [{**device, "rank": i, "group": group} for i, group in enumerate(groups)]
        return change
    for groups, ngpus, ranks in (((0,), 8, 8), ((0, 0, 0), 1, 3), ((0, 0), 4, 8), ((0, 1, 0, 1), 2, 4)):
        name = nccl(case, "n.json", with_processes(groups, ngpus))
        assert {cell["axes"]["devices"] for cell in compared(case, name, name)["cells"]} == {ranks}, (groups, ngpus)
    case.refused(*USAGE, "compare", nccl(case, "n.json", with_processes((0, 0, 1), 1)), "n.json",
                 says=["config.devices", "groups of different sizes"])


def check_other_programs(case):
    for program, collective, axes in (("alltoall_perf", "all_to_all", set()), ("sendrecv_perf", "sendrecv", set()),
                                      ("broadcast_perf_mpi", "broadcast", {"root"}), ("reduce_perf", "reduce", {"op", "root"})):
        def change(document, program=program):
            document["args"][0] = f"build/{program}"
            for row in document["results"]:
                row["root"] = "     0"
        name = nccl(case, "n.json", change)
        for cell in compared(case, name, name)["cells"]:
            assert cell["axes"]["collective"] == collective and axes == cell["axes"].keys() & {"op", "root"}, cell


def check_versions(case):
    ours = own_collectives(case)
    for version in (1, 2, 3):
        assert compared(case, nccl(case, "n.json", lambda d, v=version: d.update(version=v)), ours)["cells"]
    for version in (0, 4):
        case.refused(5, "version-refused", "compare", nccl(case, "n.json", lambda d, v=version: d.update(version=v)), ours,
                     says=["n.json", "version", str(version), "nccl-tests"])


def check_several_runs_of_a_side_are_judged(case):
    """One run is one process, and says nothing about the next; five of a side are judged, ours and of nccl-tests alike."""
    def runs(name, factor):
        def change(i):
            def scale(document):
                for row in document["results"]:
                    for placement in ("in_place", "out_of_place"):
                        row[placement]["time"] *= factor * (1 + 0.001 * i)
            return scale
        return "+".join(nccl(case, f"{name}{i}.json", change(i)) for i in range(5))
    fast, slow = runs("fast", 1), runs("slow", 1.2)
    found = compared(case, fast, slow)
    assert {cell["a_over_b_speed"]["verdict"] for cell in found["cells"]} == {"FASTER"}, found
    assert {cell["a_over_b_speed"]["processes_first"] for cell in found["cells"]} == {5}, found
    case.run("compare", fast, slow, "--fail-on-regression", "3", code=1)
    case.run("compare", slow, fast, "--fail-on-regression", "3")
    single = nccl(case, "single.json")
    case.refused(*USAGE, "compare", single, slow, "--fail-on-regression", "3", says=["--fail-on-regression", "one process"])
    case.refused(*USAGE, "compare", f"{single}+nowhere.json", slow, says=["nowhere.json"])


def check_own_record_of_nccl_tests(case):
    """results/.../nccl-tests.jsonl: nccl-tests and amdahl in turns, two rounds of each, against itself and our runs."""
    for count in (2, 4):
        folder = harness.SOURCE / "results" / "h200" / "fabric" / f"x{count}"
        file = folder / "nccl-tests.jsonl"
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        by_cell = {(line["collective"], line["bytes"]): line for line in lines}
        found = compared(case, file, file)
        assert len(found["cells"]) == len(lines), (len(found["cells"]), len(lines))
        for cell in found["cells"]:
            test = cell["a_over_b_speed"]
            rounds = len(by_cell[key(cell, "collective", "bytes")]["nccl_tests_us"])
            assert test["ratio"] == 1 and (rounds < 2 or test["level"] == "processes"), cell
            assert test["n_first"] == rounds and test.get("processes_first", 1) == rounds, cell
        assert {cell["a_over_b_speed"]["verdict"] for cell in found["cells"]} <= {"SAME", "UNCLEAR"}, found
        found = compared(case, f"{file}@tool=nccl-tests", f"{file}@tool=amdahl")
        assert len(found["cells"]) == len(lines)
        for cell in found["cells"]:  # the ratio of geometric means of the rounds
            line = by_cell[key(cell, "collective", "bytes")]
            a, b = (statistics.geometric_mean(line[tool]) for tool in ("nccl_tests_us", "amdahl_us"))
            assert abs(cell["a_over_b_speed"]["ratio"] - b / a) < 1e-6 * b / a, cell
        for name in ("all_reduce", "broadcast"):
            found = compared(case, file, folder / name)
            assert len(found["cells"]) == sum(line["collective"] == name for line in lines), (name, found)
            assert {cell["a_over_b_speed"]["level"] for cell in found["cells"]} == {"none"}, found
        text = case.run("compare", file, folder / "all_reduce").stdout
        assert "was measured by nccl-tests" in text and f"{file}@tool=amdahl has those of amdahl" in text, text


def check_damaged_lines_beside_peers(case):
    good = {"collective": "all_reduce", "devices": 2, "bytes": 8, "nccl_tests_us": [1, 2], "amdahl_us": [1, 2]}
    for change, says in (({"nccl_tests_us": [1, "x"]}, ["nccl_tests_us", "round 2"]), ({"amdahl_us": [0]}, ["amdahl_us"]),
                         ({"collective": "all_red"}, ["collective", "all_red"]), ({"bytes": "8"}, ["bytes"])):
        case.write("bad.jsonl", json.dumps(good) + "\n" + json.dumps({**good, **change}) + "\n")
        case.refused(*USAGE, "compare", "bad.jsonl", "bad.jsonl", says=["bad.jsonl:2", *says])


def check_repeated_sweeps_gate(case):
    """--processes 5: five fresh processes, tables of their medians, records with the process, a gate that judges."""
    case.run("collectives", *QUICK, "-n", "2", "-b", "64", "-e", "256", "-f", "4", "--processes", "5", "--output-dir", "r", "-q")
    found = records_of(case.path("r"))
    assert {record["axes"]["process"] for record in found} == set(range(5)), found
    assert len(found) == 5 * 4 and case.path("r/report.txt").exists()
    document = json.loads(case.run("collectives", *QUICK, "-n", "2", "-b", "64", "-e", "64", "--processes", "2", "--json").stdout)
    assert len(document["records"]) == 4, document
    for name, factor in (("fast", 1), ("slow", 2)):  # known times: those of a busy machine decide nothing
        lines = copy.deepcopy(lines_of(case.path("r")))
        for line in lines:
            for series in line.get("series", ()):
                if series["name"] == "time":
                    series["samples"] = [factor * (10 + 0.01 * line["axes"]["process"])] * len(series["samples"])
        case.path(name).mkdir()
        case.write(f"{name}/records.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    case.run("compare", "fast", "slow", "--fail-on-regression", "5%", code=1)
    case.run("compare", "slow", "fast", "--fail-on-regression", "5%")
    case.run("links", *QUICK, "-t", "device_to_device_memcpy_read_ce", "-b", "64K", "--processes", "5", "--output-dir", "l", "-q")
    assert len(records_of(case.path("l"))) == 10 and case.path("l/machine.json").exists()
    case.run("compare", "l", "l", "--fail-on-regression", "5%")
    case.refused(*USAGE, "collectives", *QUICK, "--processes", "0", says=["--processes is 0"])
    case.refused(*USAGE, "collectives", *QUICK, "--processes", "5", "--arena", says=["--processes with --arena"])
    case.refused(*USAGE, "collectives", *QUICK, "--processes", "2", env={"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0",
                 "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29555"}, says=["--processes is 2", "one of several"])


def check_guards(case):
    ours, theirs = own_collectives(case), nccl(case, "nccl.json")
    virtual = json.loads(case.path(ours).read_text())
    for record in virtual["records"]:
        record["provenance"]["device_kind"] = "cpu-virtual"
    case.write("virtual.json", json.dumps(virtual))
    for words in ((theirs, "virtual.json"), ("virtual.json", theirs, "--allow-unlike")):
        case.refused(*USAGE, "compare", *words, says=["device kinds", "cpu-virtual", "nccl.json by nccl-tests"])
    elsewhere = nccl(case, "elsewhere.json", lambda d: d["config"]["devices"][0].update(hostname="another"))
    case.refused(*USAGE, "compare", elsewhere, ours, says=["host differs", "another", "by nccl-tests", "--allow-unlike"])
    assert "host differs" in case.run("compare", elsewhere, ours, "--allow-unlike").stdout
    graph = nccl(case, "graph.json", lambda d: d["config"].update(graph=20))
    case.refused(*USAGE, "compare", graph, ours, says=["launch differs", "graph of 20", "eager"])
    case.refused(*USAGE, "compare", nvb(case, "nvb.json"), ours, says=["nvb.json holds links", "ours.json holds collectives"])
    case.refused(*USAGE, "compare", nccl(case, "half.json", lambda d: [r.update(type="half") for r in d["results"]]), ours,
                 says=["no cell with a result in common"])


def check_several_transports(case):
    """nccl-tests does not say which transport it used: one of ours has to be chosen. What NCCL chose tells nothing apart."""
    theirs, ours = nccl(case, "nccl.json"), own_collectives(case)
    document = json.loads(case.path(ours).read_text())
    others = copy.deepcopy(document["records"])
    for record in others:
        record["axes"].update(transport="nccl ring ll", nccl_chose="RING LL 24")
    document["records"] += others
    case.write("arena.json", json.dumps(document))
    case.refused(*USAGE, "compare", theirs, "arena.json", says=["arena.json", "two cells become one", "transport", "@axis=value"])
    assert len(compared(case, theirs, "arena.json@transport=nccl ring ll")["cells"]) == 6
    assert len(compared(case, "arena.json@transport=nccl ring ll", "arena.json@transport=threads")["cells"]) == 6
    assert len(compared(case, "arena.json", "arena.json")["cells"]) == 12


def check_truncated_files(case):
    ours = own_collectives(case)
    for text in (NCCL_TEXT.strip(), NVB_TEXT.strip(), case.path(ours).read_text()):
        for part in (0.0, 0.1, 0.5, 0.9):
            case.write("cut.json", text[:int(len(text) * part)])
            case.refused(*USAGE, "compare", "cut.json", ours, says=["cut.json", "not valid JSON"])
        case.write("cut.json", text[:-1])
        case.refused(*USAGE, "compare", ours, "cut.json", says=["cut.json", "not valid JSON"])


def check_damaged_nccl_tests(case):
    def result(**fields):
        return lambda d: d["results"][1]["in_place"].update(fields)

    def remove(*path):
        def change(document):
            for step in path[:-1]:
                document = document[step]
            del document[path[-1]]
        return change
    for change, says in ((lambda d: d.update(args=["./gemm_perf"]), ["'args'", "gemm_perf", "all_reduce_perf"]),
                         (lambda d: d.update(args=[]), ["'args'"]),
                         (remove("config"), ["'config'", "missing"]),
                         (remove("config", "ngpus"), ["'config.ngpus'", "missing"]),
                         (lambda d: d["config"].update(devices=[]), ["'config.devices'"]),
                         (lambda d: d["config"].update(ngpus=0), ["'config.ngpus'"]),
                         (remove("results"), ["'results'", "missing"]),
                         (lambda d: d.update(results=[]), ["'results'"]),
                         (remove("results", 2, "size"), ["'results[2].size'", "missing"]),
                         (remove("results", 2, "redop"), ["'results[2].redop'", "missing"]),
                         (lambda d: d["results"][0].update(count="many"), ["'results[0].count'"]),
                         (remove("results", 1, "in_place", "bus_bw"), ["'results[1].in_place.bus_bw'", "missing"]),
                         (result(time="nan"), ["'results[1].in_place.time'", "not a number"]),
                         (result(time=0.0), ["'results[1].in_place.time'"]),
                         (result(alg_bw=-1.0), ["'results[1].in_place.alg_bw'"]),
                         (lambda d: d["results"][1].update(in_place={"cpu_time": 3.5, "alg_bw": 1.0, "bus_bw": 1.0}),
                          ["'results[1].in_place.cpu_time'", "-C"]),
                         (lambda d: d["config"]["devices"][0].pop("hostname"), ["'config.devices[0].hostname'"])):
        name = nccl(case, "n.json", change)
        case.refused(*USAGE, "compare", name, name, says=["n.json", *says])
    rooted = nccl(case, "n.json", lambda d: (d.update(args=["broadcast_perf"]), d["results"][0].update(root="zero")))
    case.refused(*USAGE, "compare", rooted, rooted, says=["'results[0].root'"])


def check_damaged_nvbandwidth(case):
    def test(index, **fields):
        return lambda d: d["testcases"][index].update(fields)
    for change, says in ((lambda d: d.pop("testcases"), ["'nvbandwidth.testcases'", "missing"]),
                         (lambda d: d.update(error="no GPU:  found"), ["'nvbandwidth.error'", "no GPU"]),
                         (lambda d: d.update(testcases=d["testcases"][5:]), ["'nvbandwidth.testcases'", "holds no result"]),
                         (lambda d: d["testcases"][0].pop("bandwidth_description"), ["testcases[0].bandwidth_description'"]),
                         (test(0, bandwidth_description="memcpy (GiB/s)"), ["testcases[0].bandwidth_description'", "(GB/s)"]),
                         (test(3, bandwidth_description="latency (us)"), ["testcases[3].bandwidth_description'", "(ns)"]),
                         (lambda d: d["testcases"][0].pop("bandwidth_matrix"), ["testcases[0].bandwidth_matrix'", "missing"]),
                         (test(0, bandwidth_matrix=[]), ["testcases[0].bandwidth_matrix'"]),
                         (test(0, bandwidth_matrix=[["1", "2"], ["1", "2"]]), ["testcases[0].bandwidth_matrix'", "2 rows"]),
                         (test(1, bandwidth_matrix=[["N/A", "2"], ["1"]]), ["testcases[1].bandwidth_matrix[1]'"]),
                         (test(2, bandwidth_matrix=[["N/A", "2"], ["1", "N/A"]]), ["testcases[2].bandwidth_matrix'", "6 rows"]),
                         (test(0, bandwidth_matrix=[["55.3", "fast"]]), ["bandwidth_matrix[0][1]'", "fast"]),
                         (test(0, bandwidth_matrix=[["0", "1"]]), ["bandwidth_matrix[0][0]'"]),
                         (test(0, bandwidth_matrix=[[1, "1"]]), ["bandwidth_matrix[0][0]'", "not a string"]),
                         (lambda d: d.update({"GPU Device list": ["an H200"]}), ["GPU Device list", "an H200"]),
                         (lambda d: d.pop("version"), ["'nvbandwidth.version'", "missing"])):
        name = nvb(case, "n.json", change)
        case.refused(*USAGE, "compare", name, name, says=["n.json", *says])


def check_other_files(case):
    own = own_collectives(case)
    document = json.loads(case.path(own).read_text())
    for text, says in (("{}", ["'records'", "nccl-tests", "nvbandwidth"]), ("[]", ["an empty list"]),
                       (json.dumps({"version": 1, "records": []}), ["'records'", "empty"]),
                       (json.dumps({**document, "records": [{**document["records"][0], "kind": "surprise"}]}), ["surprise"])):
        case.write("f.json", text)
        case.refused(*USAGE, "compare", "f.json", own, says=["f.json", *says])
    case.write("f.json", json.dumps({**document, "version": 9}))
    case.refused(5, "version-refused", "compare", "f.json", own, says=["f.json", "9"])
    case.refused(*USAGE, "compare", "nowhere.json", own, says=["nowhere.json"])


def check_schema(case):
    try:
        import jsonschema
    except ImportError:
        raise harness.Skip("the Python package jsonschema is not installed (Debian: python3-jsonschema)") from None
    schemas = {name: json.loads((harness.SOURCE / "docs" / "schema" / f"{name}.schema.json").read_text())
               for name in ("comparison", "summary")}
    resolver = jsonschema.RefResolver(schemas["comparison"]["$id"], schemas["comparison"],
                                      store={schema["$id"]: schema for schema in schemas.values()})
    check = jsonschema.Draft7Validator(schemas["comparison"], resolver=resolver)
    found = compared(case, nvb(case, "nvb.json"), "nvb.json")
    check.validate(found)
    found["cells"][0]["unit"] = ""
    assert not check.is_valid(found)


harness.main(globals())
