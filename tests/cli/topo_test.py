"""`amdahl topo` on machines that are not here, and on CPU virtual devices."""
import json
import re
import struct
import xml.etree.ElementTree

import harness
from machines import MACHINES

STUBS = harness.BINARY / "tests" / "stubs"


def environment(case, name):
    machine = MACHINES[name]
    case.write(name + ".txt", machine.facts())
    case.write(name + ".xml", machine.xml)
    return {"LD_LIBRARY_PATH": str(STUBS), "AMDAHL_NVML_STUB": str(case.path(name + ".txt")),
            "HWLOC_XMLFILE": str(case.path(name + ".xml"))}


def topo(case, name, *words):
    return case.run("info", *(words if any("topology" in word for word in words) else ("--topology", *words)), env=environment(case, name)).stdout


def machine_of(case, name, *words):
    return json.loads(topo(case, name, "--topology=json", *words))


def letters(matrix, rows):
    """The rows GPU0.. of the matrix, as lists of letters."""
    return [line.split()[1:rows + 1] for line in matrix.splitlines() if re.match(r"GPU\d+  +(X|NV|P|N|S)", line)][:rows]


def has_hwloc(case):
    backends = json.loads(case.run("info", "--json").stdout)["backends"]
    return next(backend for backend in backends if backend["name"] == "hwloc")["ok"]


def check_one_gpu(case):
    matrix = topo(case, "one")
    assert letters(matrix, 1) == [["X"]] and "RTX 4070" in matrix and "driver: 999.1" in matrix, matrix
    assert "links" not in machine_of(case, "one")


def check_two_gpus_on_a_host_bridge(case):
    matrix = topo(case, "host-bridge")
    assert letters(matrix, 2) == [["X", "PHB"], ["PHB", "X"]], matrix
    assert "NO peer access (the chipset does not support it)" in matrix, matrix
    link = machine_of(case, "host-bridge")["links"][0]
    assert link["peer_access"] is False and abs(link["raw_gbps"] - 31.5) < 0.1, link


def check_nvswitch(case):
    matrix = topo(case, "nvswitch")
    assert letters(matrix, 8) == [["X" if a == b else "NV18" for b in range(8)] for a in range(8)], matrix
    assert "NV18, NVLink 4 through NVSwitch, 450 GB/s a direction nominal, peer access: all pairs" in matrix, matrix
    machine = machine_of(case, "nvswitch")
    assert len(machine["links"]) == 56 and {device["nvlinks_up"] for device in machine["devices"]} == {18}
    if has_hwloc(case):
        assert [device["numa_node"] for device in machine["devices"]] == [0] * 4 + [1] * 4, machine["devices"]


def check_mixed_generations(case):
    matrix = topo(case, "mixed")
    assert letters(matrix, 2) == [["X", "NODE"], ["NODE", "X"]], matrix
    assert "without atomics" in matrix and "PCIe 4 x16" in matrix and "PCIe 5 x16" in matrix, matrix
    rates = {link["raw_gbps"] for link in machine_of(case, "mixed")["links"]}
    assert len(rates) == 1 and abs(rates.pop() - 31.5) < 0.1, "the slower of two slots counts"


def check_one_link_down(case):
    matrix = topo(case, "link-down")
    assert letters(matrix, 4)[2] == ["NV17", "NV17", "X", "NV17"] and letters(matrix, 4)[0] == ["X", "NV18", "NV17", "NV18"], matrix
    assert matrix.count("1 NVLink DOWN") == 1, matrix


def check_paths_when_the_driver_does_not_say(case):
    if not has_hwloc(case):
        raise harness.Skip("this build has no hwloc, which would know the paths")
    assert letters(topo(case, "two-nodes"), 4) == [["X", "PIX", "SYS", "SYS"], ["PIX", "X", "SYS", "SYS"],
                                                   ["SYS", "SYS", "X", "PIX"], ["SYS", "SYS", "PIX", "X"]]


def check_links_without_a_switch(case):
    assert letters(topo(case, "bridged"), 2) == [["X", "NV4"], ["NV4", "X"]]
    assert "NVLink 3, 100 GB/s a direction nominal" in topo(case, "bridged")
    dot = topo(case, "bridged", "--topology=dot")
    assert 'd0 -- d1 [label="NV4"]' in dot and "nvswitch" not in dot, dot


def acs_space(control):
    """Configuration space of a bridge: an unrelated capability, then access control."""
    space = bytearray(4096)
    struct.pack_into("<I", space, 0x100, 0x0001 | 1 << 16 | 0x140 << 20)
    struct.pack_into("<I", space, 0x140, 0x000D | 1 << 16)
    struct.pack_into("<H", space, 0x146, control)
    return bytes(space)


def check_isolation(case):
    if not has_hwloc(case):
        raise harness.Skip("this build has no hwloc, which finds the bridges")
    bridges = MACHINES["two-nodes"].bridges
    for position, bridge in enumerate(bridges):
        folder = case.path(f"sys/bus/pci/devices/{bridge}")
        folder.mkdir(parents=True)
        # Redirects peer requests; redirects nothing; cut short, as for users who are not root.
        (folder / "config").write_bytes((acs_space(0x1D), acs_space(0x01), acs_space(0x1D)[:64])[position % 3])
    (case.path("sys/class/iommu/dmar0")).mkdir(parents=True)
    for group, kind in (("0", "identity"), ("1", "identity")):
        case.path(f"sys/kernel/iommu_groups/{group}").mkdir(parents=True)
        case.path(f"sys/kernel/iommu_groups/{group}/type").write_text(kind + "\n")
    machine = machine_of(case, "two-nodes", "--sysfs", "sys")
    assert machine["iommu"] == "passthrough", machine
    assert machine["acs_redirects"].split() == sorted(bridges[::3]), machine["acs_redirects"]
    case.path("sys/kernel/iommu_groups/1/type").write_text("DMA-FQ\n")
    assert machine_of(case, "two-nodes", "--sysfs", "sys")["iommu"] == "translated"
    (case.path("sys/class/iommu/dmar0")).rmdir()
    assert machine_of(case, "two-nodes", "--sysfs", "sys")["iommu"] == "off"
    case.path("empty").mkdir()
    assert "iommu" not in machine_of(case, "two-nodes", "--sysfs", "empty")
    case.refused(2, "usage", "info", "--topology", "--sysfs", "nowhere", says=["--sysfs nowhere"])
    case.refused(2, "usage", "doctor", "--sysfs", "nowhere", says=["--sysfs nowhere"])


def check_drawings(case):
    for name, machine in MACHINES.items():
        root = xml.etree.ElementTree.fromstring(topo(case, name, "--topology=svg"))
        classes = [element.get("class") for element in root.iter()]
        assert classes.count("device") == len(machine.gpus), f"{name}: {classes}"
        assert classes.count("switch") == (1 if any(link[4] == "switch" for link in machine.links) else 0), name
        dot = topo(case, name, "--topology=dot")
        assert dot.count("{") == dot.count("}") and dot.count("[label=\"GPU") == len(machine.gpus), dot


def check_documents(case):
    try:
        import jsonschema
    except ImportError:
        raise harness.Skip("jsonschema is not installed (Debian: python3-jsonschema)") from None
    schema = json.loads((harness.SOURCE / "docs" / "schema" / "machine.schema.json").read_text())
    for name in MACHINES:
        jsonschema.Draft7Validator(schema).validate(machine_of(case, name))
    jsonschema.Draft7Validator(schema).validate(json.loads(case.run("info", "--topology=json", "--virtual", "3").stdout))


def check_virtual_devices(case):
    text = case.run("info", "--topology", "--virtual", "3").stdout
    assert text.startswith("CPU virtual devices, not GPUs.") and text.count("HOST") > 6, text
    assert len(json.loads(case.run("info", "--topology=json", "--virtual", "3").stdout)["devices"]) == 3


def check_output_file(case):
    case.run("info", "--topology=svg", "--virtual", "2", "-o", "m.svg")
    assert case.path("m.svg").read_text().startswith("<svg")
    case.refused(2, "usage", "info", "--topology", "--virtual", "2", "-o", "missing/m.txt", says=["missing"])


def check_bad_input(case):
    case.refused(2, "usage", "info", "--topology=png", says=["'png'", "svg"])
    case.refused(2, "usage", "info", "--topology", "--virtual", "0", says=["--virtual"])
    case.refused(2, "usage", "info", "--topology", "--virtual", "-1", says=["--virtual"])
    case.refused(2, "usage", "info", "--topology", "--virtual", "100000", says=["--virtual"])


def check_json_flag(case):
    wanted = json.loads(case.run("info", "--topology=json", "--virtual", "3").stdout)
    assert json.loads(case.run("info", "--topology", "--virtual", "3", "--json").stdout) == wanted
    assert json.loads(case.run("info", "--topology=json", "--virtual", "3", "--json").stdout) == wanted
    case.run("info", "--topology", "--virtual", "3", "--json", "--output", "machine.json")
    assert json.loads(case.path("machine.json").read_text()) == wanted
    case.refused(2, "usage", "info", "--topology=svg", "--virtual", "3", "--json", says=["--json"])


harness.main(globals())
