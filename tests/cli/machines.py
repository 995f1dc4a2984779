"""Machines that are not here: what the driver's library and hwloc would say on them, for the stub and HWLOC_XMLFILE.

A Machine has NUMA nodes; each holds host bridges, each of them PCIe switches or devices. GPUs are named by their address.
"""
import itertools

PCI_GPU = "0302 [10de:2330] [10de:16c1] a1"
PCI_BRIDGE = "0604 [1000:c030] [1000:c030] b0"


class Machine:
    def __init__(self, nodes, gpus, levels=None, peers=(0, 0), links=()):
        """`nodes`: per NUMA node a list of host bridges, each a list of switches, each a list of GPU numbers; a switch
        that is None puts its GPUs straight under the host bridge. `gpus`: (name, generation, lanes, memory MB, capability).
        `levels`: {(a, b): NVML level} or None when the driver does not say. `peers`: NVML status of read and atomics, one
        for all or a dict by ordered pair. `links`: (gpu, link, "up" or "down", version, "switch" or a GPU number)."""
        self.nodes, self.gpus, self.levels, self.peers, self.links = nodes, gpus, levels, peers, links
        self.addresses = {}
        self.bridges = []
        self.xml = self._build_xml()

    def _build_xml(self):
        serial = itertools.count(1)
        node_mask = f"0x{(1 << len(self.nodes)) - 1:08x}"
        core_mask = f"0x{(1 << 2 * len(self.nodes)) - 1:08x}"
        sets = lambda cores, nodes: "".join(f' {kind}cpuset="{cores}" {kind}nodeset="{nodes}"' for kind in ("", "complete_"))
        out = ['<?xml version="1.0" encoding="UTF-8"?>', '<!DOCTYPE topology SYSTEM "hwloc2.dtd">', '<topology version="2.0">',
               f'<object type="Machine" os_index="0"{sets(core_mask, node_mask)} allowed_cpuset="{core_mask}" '
               f'allowed_nodeset="{node_mask}" gp_index="{next(serial)}">']
        bus = itertools.count(0x10)
        for number, bridges in enumerate(self.nodes):
            cores, nodes = f"0x{3 << 2 * number:08x}", f"0x{1 << number:08x}"
            out.append(f'<object type="Package" os_index="{number}"{sets(cores, nodes)} gp_index="{next(serial)}">'
                       '<info name="CPUModel" value="Stub Processor"/>')
            out.append(f'<object type="NUMANode" os_index="{number}"{sets(cores, nodes)} gp_index="{next(serial)}" '
                       'local_memory="64000000000"/>')
            for core in (2 * number, 2 * number + 1):
                one = f"0x{1 << core:08x}"
                out.append(f'<object type="Core" os_index="{core}"{sets(one, nodes)} gp_index="{next(serial)}">'
                           f'<object type="PU" os_index="{core}"{sets(one, nodes)} gp_index="{next(serial)}"/></object>')
            for switches in bridges:
                first = next(bus)
                out.append(f'<object type="Bridge" gp_index="{next(serial)}" bridge_type="0-1" depth="0" '
                           f'bridge_pci="0000:[{first:02x}-ff]">')
                for gpus in switches:
                    self._switch(out, serial, bus, first, gpus)
                out.append("</object>")
            out.append("</object>")
        out.append("</object></topology>")
        return "\n".join(out)

    def _bridge(self, out, serial, depth, address, below):
        self.bridges.append(address)
        out.append(f'<object type="Bridge" gp_index="{next(serial)}" bridge_type="1-1" depth="{depth}" '
                   f'bridge_pci="0000:[{below:02x}-ff]" pci_busid="{address}" pci_type="{PCI_BRIDGE}" pci_link_speed="0"/>'[:-2]
                   + ">")

    def _switch(self, out, serial, bus, above, gpus):
        plain = isinstance(gpus, int)
        if not plain:
            upstream = next(bus)
            self._bridge(out, serial, 1, f"0000:{above:02x}:01.0", upstream)
        for position, gpu in enumerate([gpus] if plain else gpus):
            if not plain:
                port = next(bus)
                self._bridge(out, serial, 2, f"0000:{upstream:02x}:{position:02x}.0", port)
            address = f"0000:{next(bus):02x}:00.0"
            self.addresses[gpu] = address
            out.append(f'<object type="PCIDev" gp_index="{next(serial)}" pci_busid="{address}" pci_type="{PCI_GPU}" '
                       'pci_link_speed="31.5"/>')
            if not plain:
                out.append("</object>")
        if not plain:
            out.append("</object>")

    def facts(self):
        lines = []
        for number, (name, generation, lanes, memory, (major, minor)) in enumerate(self.gpus):
            lines.append(f"gpu {self.addresses[number]} {generation} {lanes} {memory} {major} {minor} {name}")
        for gpu, link, state, version, remote in self.links:
            lines.append(f"link {gpu} {link} {state} {version} {remote if remote == 'switch' else self.addresses[remote]}")
        for (a, b), level in (self.levels or {}).items():
            lines.append(f"level {a} {b} {level}")
        for a, b in itertools.permutations(range(len(self.gpus)), 2):
            read, atomics = self.peers[a, b] if isinstance(self.peers, dict) else self.peers
            lines.append(f"peer {a} {b} {read} {atomics}")
        return "\n".join(lines) + "\n"


NVLINK3, NVLINK4 = 4, 6  # as nvmlNvlinkVersion_t numbers versions 3.0 and 4.0

H100 = ("NVIDIA H100 80GB HBM3", 5, 16, 80000, (9, 0))
A100 = ("NVIDIA A100-SXM4-80GB", 4, 16, 80000, (8, 0))
RTX = ("NVIDIA GeForce RTX 4070 Ti SUPER", 4, 16, 16000, (8, 9))


def all_pairs(count, level):
    return {pair: level for pair in itertools.combinations(range(count), 2)}


def switch_links(count, per_gpu, version, down=()):
    return [(gpu, link, "down" if (gpu, link) in down else "up", version, "switch")
            for gpu in range(count) for link in range(per_gpu)]


MACHINES = {
    "one": Machine([[[0]]], [RTX], {}),
    "host-bridge": Machine([[[0, 1]]], [RTX, RTX], all_pairs(2, 30), peers=(1, 1)),
    "nvswitch": Machine([[[[0, 1], [2, 3]]], [[[4, 5], [6, 7]]]], [H100] * 8, all_pairs(8, 50), links=switch_links(8, 18, NVLINK4)),
    "mixed": Machine([[[0], [1]]], [A100, H100], all_pairs(2, 40), peers=(0, 1)),
    "link-down": Machine([[[[0, 1]]], [[[2, 3]]]], [H100] * 4, all_pairs(4, 50), links=switch_links(4, 18, NVLINK4, {(2, 5)})),
    "two-nodes": Machine([[[[0, 1]]], [[[2, 3]]]], [A100] * 4, None),
    "bridged": Machine([[[[0], [1]]]], [A100, A100], all_pairs(2, 30),
                       links=[(0, i, "up", NVLINK3, 1) for i in range(4)] + [(1, i, "up", NVLINK3, 0) for i in range(4)]),
}
