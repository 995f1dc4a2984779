// Drawings of a machine: devices within NUMA nodes; NVLinks are drawn, the other connections are PCIe.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "report/common/words.h"
#include "report/fabric/topology.h"

namespace amdahl {
namespace {

bool through_switch(const MachineSpec& machine) {
  return std::any_of(machine.links.begin(), machine.links.end(),
                     [](const LinkSpec& link) { return link.through_switch; });
}

/// Links of a device to the switches: the maximum over its pairs.
int links_to_switch(const MachineSpec& machine, int device) {
  int most = 0;
  for (const LinkSpec& link : machine.links)
    if (link.source == device && link.through_switch) most = std::max(most, link.num_links);
  return most;
}

/// Pairs that get their own edge: NVLinks without a switch, and every other pair once.
std::vector<const LinkSpec*> own_edges(const MachineSpec& machine) {
  std::vector<const LinkSpec*> edges;
  for (const LinkSpec& link : machine.links)
    if (link.source < link.destination && !link.through_switch) edges.push_back(&link);
  return edges;
}

/// Devices by NUMA node, -1 where it is unknown.
std::map<int, std::vector<const DeviceSpec*>> by_node(const MachineSpec& machine) {
  std::map<int, std::vector<const DeviceSpec*>> nodes;
  for (const DeviceSpec& device : machine.devices) nodes[device.numa_node].push_back(&device);
  return nodes;
}

std::string node_label(int node) { return node < 0 ? "host" : fmt::format("NUMA node {}", node); }

std::string dot_quoted(const std::string& text) {
  std::string escaped = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') escaped += '\\';
    escaped += c;
  }
  return escaped + '"';
}

// All in pixels.
constexpr int kBoxWidth = 150, kBoxHeight = 64, kGap = 24, kNodePadding = 20, kSwitchTop = 40, kSwitchHeight = 36,
              kDeviceTop = 190, kHeight = 330;

struct Place {
  int x = 0;  // of the left edge of the box
  int middle() const { return x + kBoxWidth / 2; }
};

std::string box(const char* kind, int x, int y, int width, int height) {
  return fmt::format("<rect class=\"{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"6\"/>\n", kind, x, y, width,
                     height);
}

std::string words(const char* kind, int x, int y, const std::string& text) {
  return fmt::format("<text class=\"{}\" x=\"{}\" y=\"{}\">{}</text>\n", kind, x, y, escape_xml(text));
}

std::string device_drawing(const DeviceSpec& device, const Place& place) {
  constexpr size_t kMostLetters = 20;  // letters of 12 px that fit into the box
  const std::string maker = "NVIDIA ";
  const std::string name = device.name.starts_with(maker) ? device.name.substr(maker.size()) : device.name;
  std::string text = box("device", place.x, kDeviceTop, kBoxWidth, kBoxHeight);
  text += words("name", place.middle(), kDeviceTop + 26, device_label(device));
  text += words("small", place.middle(), kDeviceTop + 46, name.substr(0, kMostLetters));
  return text;
}

std::string edge_drawing(const LinkSpec& link, const Place& from, const Place& to) {
  // Edges between adjacent boxes are lower than those between distant ones, so that labels do not overlap.
  const int height = std::min(130, 30 + (to.x - from.x) / 6);
  const char* kind = !link.quarantine.empty() ? "bad" : link.path == PathKind::nvlink ? "nvlink" : "pcie";
  const int middle = (from.middle() + to.middle()) / 2;
  return fmt::format("<path class=\"{}\" d=\"M{} {} Q{} {} {} {}\"/>\n", kind, from.middle(), kDeviceTop, middle,
                     kDeviceTop - 2 * height, to.middle(), kDeviceTop) +
         words("small", middle, kDeviceTop - height - 4, path_label(link));
}

std::string style() {
  return R"(<style>
text{font-family:sans-serif;text-anchor:middle;fill:#1b1f24}.name{font-size:16px;font-weight:600}.small{font-size:12px}
.title{font-size:14px;text-anchor:start}.device{fill:#e7f0e3;stroke:#4a7c2c}.node{fill:none;stroke:#8b949e;stroke-dasharray:4 3}
.switch{fill:#dbe9fb;stroke:#2f6fb5}path,line{fill:none;stroke-width:2}.nvlink{stroke:#4a7c2c}.pcie{stroke:#8b949e}
.bad{stroke:#c0362c;stroke-width:3}
@media (prefers-color-scheme:dark){text{fill:#e6edf3}.device{fill:#22361a}.switch{fill:#16304d}}
</style>
)";
}

std::string switch_drawing(const MachineSpec& machine, const std::map<int, Place>& places, int width) {
  std::string text = box("switch", kNodePadding, kSwitchTop, width - 2 * kNodePadding, kSwitchHeight);
  text += words("name", width / 2, kSwitchTop + 24, "NVSwitch");
  for (const auto& [device, place] : places) {
    const int links = links_to_switch(machine, device);
    if (links == 0) continue;
    text += fmt::format("<line class=\"nvlink\" x1=\"{0}\" y1=\"{1}\" x2=\"{0}\" y2=\"{2}\"/>\n", place.middle(),
                        kSwitchTop + kSwitchHeight, kDeviceTop);
    text +=
        words("small", place.middle() + 22, (kSwitchTop + kSwitchHeight + kDeviceTop) / 2, fmt::format("NV{}", links));
  }
  return text;
}

}  // namespace

std::string topology_dot(const MachineSpec& machine) {
  std::string text = "graph machine {\n  node [shape=box];\n";
  for (const auto& [node, devices] : by_node(machine)) {
    text += fmt::format("  subgraph \"cluster_{}\" {{\n    label={};\n", node, dot_quoted(node_label(node)));
    for (const DeviceSpec* device : devices)
      text +=
          fmt::format("    d{} [label={}];\n", device->index, dot_quoted(device_label(*device) + "\n" + device->name));
    text += "  }\n";
  }
  if (through_switch(machine)) text += "  nvswitch [label=\"NVSwitch\"];\n";
  for (const DeviceSpec& device : machine.devices)
    if (const int links = links_to_switch(machine, device.index))
      text += fmt::format("  d{} -- nvswitch [label=\"NV{}\"];\n", device.index, links);
  for (const LinkSpec* link : own_edges(machine))
    text += fmt::format("  d{} -- d{} [label=\"{}\"{}];\n", link->source, link->destination, path_label(*link),
                        link->path == PathKind::nvlink ? "" : ", style=dashed");
  return text + "}\n";
}

std::string topology_svg(const MachineSpec& machine) {
  std::map<int, Place> places;
  std::string boxes;
  int x = kNodePadding;
  for (const auto& [node, devices] : by_node(machine)) {
    const int left = x;
    x += kNodePadding;
    for (const DeviceSpec* device : devices) {
      places[device->index] = {x};
      boxes += device_drawing(*device, places[device->index]);
      x += kBoxWidth + kGap;
    }
    x += kNodePadding - kGap;
    boxes += box("node", left, kDeviceTop - kNodePadding, x - left, kBoxHeight + 2 * kNodePadding + 24);
    boxes += words("small", (left + x) / 2, kDeviceTop + kBoxHeight + kNodePadding + 14, node_label(node));
    x += kGap;
  }
  const int width = std::max(x - kGap + kNodePadding, 320);
  std::string edges = through_switch(machine) ? switch_drawing(machine, places, width) : "";
  for (const LinkSpec* link : own_edges(machine))
    edges += edge_drawing(*link, places[link->source], places[link->destination]);
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
             "role=\"img\" aria-label=\"Devices of {2} and the links between them\">\n",
             width, kHeight, escape_xml(machine.host)) +
         style() + words("title", kNodePadding, 22, machine.host + ", " + machine.cpu_name) + edges + boxes +
         "</svg>\n";
}

}  // namespace amdahl
