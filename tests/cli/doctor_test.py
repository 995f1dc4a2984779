"""`amdahl doctor`: faults planted by stubs, files and variables are named; a healthy machine is; wrong input."""
import json
import os
import shutil
import struct
import subprocess
import tempfile

import harness
from machines import MACHINES

STUBS = harness.BINARY / "tests" / "stubs"


def environment(case, machine, states=()):
    """The stub's machine; `states`: lines "GPU KEY VALUE" of readings."""
    case.write("gpus.txt", machine.facts() + "".join(f"state {state}\n" for state in states))
    case.write("pci.xml", machine.xml)
    return {"LD_LIBRARY_PATH": str(STUBS), "AMDAHL_NVML_STUB": str(case.path("gpus.txt")),
            "HWLOC_XMLFILE": str(case.path("pci.xml"))}


def has_cuda(case):
    backends = json.loads(case.run("info", "--json").stdout)["backends"]
    return next(backend for backend in backends if backend["name"] == "cuda")["ok"]


def examine(case, name, states=(), words=(), variables=None, code=None):
    """Findings by name of a machine of the stub, whose sysfs is empty unless `words` name one."""
    if has_cuda(case):
        raise harness.Skip("real GPUs are here: the stub would be mixed with them")
    empty = case.path("empty-sys")
    empty.mkdir(exist_ok=True)
    env = {**environment(case, MACHINES[name], states), **(variables or {})}
    words = [str(word) for word in words]
    if "--sysfs" not in words:
        words += ["--sysfs", str(empty)]
    process = subprocess.run([str(harness.AMDAHL), "doctor", "--json", "-q", *words],
                             cwd=case.folder, env={**harness.ENVIRONMENT, **env}, capture_output=True, text=True, timeout=60)
    assert process.returncode in (0, 1), process.stderr
    document = json.loads(process.stdout)
    failing = any(finding["severity"] != "notice" for finding in document["findings"])
    assert process.returncode == (1 if failing else 0) and document["healthy"] == (not failing), process.stdout
    assert code is None or process.returncode == code, process.stdout
    for finding in document["findings"]:
        for key in ("name", "where", "measured", "expected", "why", "remedy"):
            assert finding[key], finding
    found = {}
    for finding in document["findings"]:
        found.setdefault(finding["name"], []).append(finding)
    return found, document


def check_a_healthy_machine(case):
    states = [f"{gpu} {reading}" for gpu in range(8) for reading in
              ("temperature 35", "slowdown 90", "power 80", "power_limit 700", "processes 0", "utilisation 0",
               "pcie_lanes 16", "pcie_generation 1", "throttle 1")]
    found, document = examine(case, "nvswitch", states, code=0)
    assert not found, found
    assert {"no-peer-access", "links-down", "busy-gpu", "throttled", "low-pcie"} <= set(document["checked"])
    assert any(line.startswith("links, integrity, collectives and speed: ") for line in document["not_looked_at"])


def expect(found, name, where, *texts, severity=None):
    """A finding of that name and place that has all the texts."""
    assert name in found, (name, found)
    fits = [f for f in found[name] if where in f["where"] and all(text in json.dumps(f) for text in texts)]
    assert fits, (where, texts, found[name])
    assert severity is None or fits[0]["severity"] == severity, fits


def check_no_peer_access(case):
    found, _ = examine(case, "host-bridge", code=1)
    expect(found, "no-peer-access", "gpu 0 -> gpu 1", "the chipset does not support it", severity="fault")
    expect(found, "no-peer-access", "gpu 1 -> gpu 0")


def check_link_down(case):
    found, _ = examine(case, "link-down", code=1)
    expect(found, "links-down", "gpu 2", "17 NVLinks up, 1 down", "18 up", severity="fault")
    assert set(found) == {"links-down"}, found


def check_mixed_generations(case):
    found, _ = examine(case, "mixed", code=1)
    expect(found, "mixed-generations", "machine", "A100", "H100")


def check_busy_gpu(case):
    found, _ = examine(case, "nvswitch", ["3 processes 2", "3 utilisation 97", "5 used_mb 30000", "6 processes 0"], code=1)
    expect(found, "busy-gpu", "gpu 3", "2 programs, 97 % busy", severity="warning")
    expect(found, "busy-gpu", "gpu 5", "28610 MiB")
    assert len(found["busy-gpu"]) == 2, found


def check_hot_gpu(case):
    found, _ = examine(case, "nvswitch", ["1 temperature 88", "1 slowdown 90", "2 temperature 84", "2 slowdown 90"], code=1)
    expect(found, "hot-gpu", "gpu 1", "88 C", "below 85 C")
    assert len(found["hot-gpu"]) == 1


def check_throttled(case):
    found, _ = examine(case, "nvswitch", [f"0 throttle {0x40 | 0x08}", f"1 throttle {0x20}", "2 throttle 1"], code=1)
    expect(found, "throttled", "gpu 0", "hardware thermal slowdown")
    expect(found, "throttled", "gpu 1", "software thermal slowdown")
    assert len(found["throttled"]) == 3, found


def check_a_power_cap_is_a_notice(case):
    found, _ = examine(case, "nvswitch", [f"4 throttle {0x04}"], code=0)
    expect(found, "throttled", "gpu 4", "power cap", severity="notice")


def check_narrow_slot(case):
    found, _ = examine(case, "nvswitch", ["7 pcie_lanes 8", "6 pcie_lanes 16"], code=1)
    expect(found, "low-pcie", "gpu 7", "x8", "PCIe 5.0 x16", severity="fault")
    assert len(found["low-pcie"]) == 1


def check_settings(case):
    for variable, value, says in (("NCCL_P2P_DISABLE", "1", "host memory"), ("NCCL_SHM_DISABLE", "1", "sockets"),
                                  ("NCCL_NTHREADS", "16", "64, 128, 256 or 512"), ("NCCL_P2P_LEVEL", "LOC", "LOC")):
        found, _ = examine(case, "nvswitch", variables={variable: value}, code=1)
        expect(found, "nccl-settings", "environment", f"{variable}={value}", says, f"unset {variable}")
        assert len(found["nccl-settings"]) == 1
    found, _ = examine(case, "nvswitch", variables={"NCCL_NTHREADS": "256", "NCCL_P2P_DISABLE": "0"}, code=0)
    assert not found, found


def check_serial_launches(case):
    found, _ = examine(case, "nvswitch", variables={"CUDA_LAUNCH_BLOCKING": "1"}, code=1)
    expect(found, "serial-launches", "environment", "CUDA_LAUNCH_BLOCKING=1")


def plant_iommu(case, kind):
    case.path("sys/class/iommu/dmar0").mkdir(parents=True, exist_ok=True)
    group = case.path("sys/kernel/iommu_groups/0")
    group.mkdir(parents=True, exist_ok=True)
    (group / "type").write_text(kind + "\n")
    return case.path("sys")


def check_iommu(case):
    words = ("--sysfs", plant_iommu(case, "DMA"))
    found, _ = examine(case, "two-nodes", words=words, code=1)
    expect(found, "iommu-translation", "host", "iommu=pt", severity="warning")
    found, _ = examine(case, "nvswitch", words=words, code=0)
    expect(found, "iommu-translation", "host", severity="notice")
    found, _ = examine(case, "nvswitch", words=("--sysfs", plant_iommu(case, "identity")), code=0)
    assert not found, found


def check_acs(case):
    bridge = MACHINES["two-nodes"].bridges[0]
    folder = case.path(f"sys/bus/pci/devices/{bridge}")
    folder.mkdir(parents=True)
    space = bytearray(4096)  # access control alone, redirecting peer requests
    struct.pack_into("<IHH", space, 0x100, 0x000D | 1 << 16, 0, 0x1D)
    (folder / "config").write_bytes(bytes(space))
    found, document = examine(case, "two-nodes", words=("--sysfs", case.path("sys")))
    if not document["machine"]["numa_nodes"]:
        raise harness.Skip("this build has no hwloc, which finds the bridges")
    expect(found, "acs-redirect", bridge, "setpci", severity="warning")
    struct.pack_into("<H", space, 0x106, 0x01)
    (folder / "config").write_bytes(bytes(space))
    found, _ = examine(case, "two-nodes", words=("--sysfs", case.path("sys")))
    assert "acs-redirect" not in found, found


def check_wrong_numa_binding(case):
    if len(os.sched_getaffinity(0)) < 2 or not shutil.which("taskset"):
        raise harness.Skip("binding to fewer cores needs two cores and taskset")
    core = min(os.sched_getaffinity(0))
    if core > 1:
        raise harness.Skip("the stub's first NUMA node has cores 0 and 1, this process has neither")
    os.sched_setaffinity(0, {core})
    try:
        found, _ = examine(case, "two-nodes")
    finally:
        os.sched_setaffinity(0, set(range(os.cpu_count())))
    for gpu in (2, 3):
        expect(found, "wrong-numa-binding", f"gpu {gpu}", "bound to NUMA node 0", "node 1, where the GPU is",
               "numactl --cpunodebind=1")
    assert len(found["wrong-numa-binding"]) == 2, found


def check_small_shm(case):
    """A file system of 8 MiB stands for /dev/shm."""
    where = tempfile.mkdtemp(prefix="amdahl-shm-")
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "none", where], capture_output=True).returncode != 0:
        os.rmdir(where)
        raise harness.Skip("mounting a small file system needs root")
    try:
        found, _ = examine(case, "nvswitch", words=("--shm", where), code=1)
        expect(found, "small-shm", "host", "/dev/shm has 8 MiB", "--shm-size=1g", severity="warning")
    finally:
        subprocess.run(["umount", where], check=True)
        os.rmdir(where)


def check_virtual_devices(case):
    result = case.run("doctor", "--backend", "cpu", "-q", "--output-dir", "r", "--machine", "m.json", timeout=120)
    assert "Measured on CPU virtual devices" in result.stdout and "- 0 faults: " in result.stdout, result.stdout
    kinds = {record["kind"] for record in harness.records_of(case.path("r"))}
    assert kinds == {"link", "integrity", "collective", "device-speed"}, kinds
    document = json.loads(case.path("r/doctor.json").read_text())
    assert "failed-memory-pattern" in document["checked"] and "no-peer-access" not in document["checked"]
    assert json.loads(case.path("m.json").read_text())["links"][0]["measured_gbps"] > 0
    written = case.path("r/report.txt").read_text()
    reported = case.run("report", "r", "--write").stdout
    assert reported == written + "report: r/report.txt\n" and case.path("r/report.txt").read_text() == written, reported
    assert json.loads(case.run("report", "r", "--json").stdout)["checked"] == document["checked"]


def check_a_study_shows_how_training_is_set_up(case):
    names = {"data-parallel", "small-batch", "missing-overlap", "much-communication"}
    document = json.loads(case.run("doctor", "--backend", "cpu", "-q", "--json", timeout=120).stdout)
    assert not names & set(document["checked"]), document["checked"]
    case.run("study", "--backend", "cpu", "--model", "medium", "--batch-sizes", "8,16", "--devices", "1,2", "--plan", "dp",
             "--warmup", "1", "--steps", "2", "--runs", "5", "-q", "-o", "study", timeout=120)
    times = {(8, 1): 100, (16, 1): 110, (8, 2): 150, (16, 2): 150}  # nearly all of a step of 8 rows is fixed
    lines = harness.lines_of(case.path("study"))
    for line in lines:
        if line["type"] != "record":
            continue
        axes = line["axes"]
        step = times[axes["global_batch"], axes["devices"]] + axes["run"] / 100
        values = {"step_time": step, "throughput": axes["global_batch"] / step * 1e6}
        if axes["devices"] == 2:
            values.update(account_step=step, compute=step / 2, exposed_communication=step / 2, total_communication=step / 2)
        for series in line["series"]:
            series["samples"] = [values.get(series["name"], series["samples"][0])]
    case.write("study/records.jsonl", "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))
    document = json.loads(case.run("doctor", "--backend", "cpu", "-q", "--json", "--from", "study", timeout=120).stdout)
    found = {finding["name"]: finding for finding in document["findings"]}
    assert {"data-parallel", "small-batch"} <= set(document["checked"]) & set(found), document
    assert found["data-parallel"]["severity"] == "notice" and "ddp" in found["data-parallel"]["remedy"]
    assert "batch of 8 per device" in found["small-batch"]["measured"], found["small-batch"]
    if "much-communication" in document["checked"]:  # where this build's step account has communication
        assert "50 % of the step" in found["much-communication"]["measured"] and "missing-overlap" in found, found
    case.run("report", "study", "--write")
    text = case.path("study/report.md").read_text()
    assert "strategy dp (DataParallel), which gathers gradients" in text and "batch of 8 per device" in text, text


def check_document_matches_the_schema(case):
    try:
        import jsonschema
    except ImportError:
        raise harness.Skip("python3-jsonschema is not here")
    _, document = examine(case, "host-bridge", ["0 throttle 8"])
    schema = json.loads((harness.SOURCE / "docs" / "schema" / "doctor.schema.json").read_text())
    jsonschema.validate(document, schema)
    document["findings"][0]["severity"] = "odd"
    try:
        jsonschema.validate(document, schema)
    except jsonschema.ValidationError:
        return
    raise AssertionError("the schema takes any severity")


def check_bad_input(case):
    for words, says in ((("--devices", "0"), ["--devices is 0"]), (("--min-gbps", "-1"), ["--min-gbps: '-1' is no rate"]),
                        (("--backend", "tpu"), ["'tpu'"]), (("--timeout", "0"), ["timeout"])):
        case.refused(2, "usage", "doctor", "-q", *words, says=says)
    case.refused(2, "usage", "doctor", "-q", "--from", "nowhere", "-o", "r", says=["nowhere", "no run is stored"])
    assert not case.path("r").exists(), "refused before a run folder is made"
    case.refused(2, "usage", "doctor", env={"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2",
                                            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29511"}, says=["one process"])
    if not has_cuda(case):
        case.refused(3, "environment-missing", "doctor", "--backend", "cuda", says=["cuda"])


harness.main(globals())
