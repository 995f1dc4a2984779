#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "amdahl/error.h"
#include "report/fabric/topology.h"

namespace amdahl {
namespace {

using Row = std::vector<std::string>;

std::string aligned(const std::vector<Row>& rows) {
  std::vector<size_t> widths;
  for (const Row& row : rows)
    for (size_t i = 0; i < row.size(); ++i) {
      if (i >= widths.size()) widths.push_back(0);
      widths[i] = std::max(widths[i], row[i].size());
    }
  std::string text;
  for (const Row& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) line += fmt::format("{:<{}}  ", row[i], widths[i]);
    text += line.substr(0, line.find_last_not_of(' ') + 1) + '\n';
  }
  return text;
}

std::string cores_near(const MachineSpec& machine, const DeviceSpec& device) {
  for (const NumaNode& node : machine.numa_nodes)
    if (node.index == device.numa_node) return node.cores;
  return "";
}

std::vector<Row> matrix_rows(const MachineSpec& machine) {
  std::vector<Row> rows{{""}};
  for (const DeviceSpec& device : machine.devices) rows[0].push_back(device_label(device));
  rows[0].insert(rows[0].end(), {"CPU affinity", "NUMA"});
  for (const DeviceSpec& from : machine.devices) {
    Row row{device_label(from)};
    for (const DeviceSpec& to : machine.devices) {
      const LinkSpec* link = machine.link(from.index, to.index);
      row.push_back(from.index == to.index ? "X" : link ? path_label(*link) : "?");
    }
    row.push_back(cores_near(machine, from));
    row.push_back(from.numa_node < 0 ? "" : std::to_string(from.numa_node));
    rows.push_back(row);
  }
  return rows;
}

std::string device_line(const DeviceSpec& device) {
  std::string line = fmt::format("{}  {}", device_label(device), device.name);
  if (!device.pci_bus_id.empty()) line += ", " + device.pci_bus_id;
  if (device.pcie_generation > 0) line += fmt::format(", PCIe {} x{}", device.pcie_generation, device.pcie_lanes);
  if (device.memory_bytes > 0) line += ", " + format_bytes(static_cast<double>(device.memory_bytes));
  if (device.num_links > 0) line += fmt::format(", {} NVLinks up", device.num_links);
  if (device.num_links_down > 0)
    line += fmt::format(", {} NVLink{} DOWN", device.num_links_down, device.num_links_down == 1 ? "" : "s");
  return line + '\n';
}

/// Groups pairs with equal properties: the properties, then the pairs.
std::string pair_lines(const MachineSpec& machine) {
  std::map<std::string, std::vector<std::string>> pairs;
  for (const LinkSpec& link : machine.links) {
    std::string what = path_label(link);
    if (link.nvlink_version > 0) what += fmt::format(", NVLink {}", link.nvlink_version);
    if (link.through_switch) what += " through NVSwitch";
    if (link.raw_gbps > 0) what += fmt::format(", {:.0f} GB/s a direction nominal", link.raw_gbps);
    what += link.peer_access ? ", peer access" : ", NO peer access";
    if (!link.peer_access && !link.why_no_peer_access.empty()) what += " (" + link.why_no_peer_access + ")";
    if (link.peer_access && !link.peer_atomics) what += " without atomics";
    if (!link.quarantine.empty()) what += ", QUARANTINED: " + link.quarantine;
    pairs[what].push_back(fmt::format("{}->{}", link.source, link.destination));
  }
  std::string text;
  for (const auto& [what, names] : pairs)
    text += fmt::format("{}: {}\n", what,
                        names.size() == machine.links.size() ? "all pairs" : fmt::format("{}", fmt::join(names, " ")));
  return text;
}

std::string legend(const MachineSpec& machine) {
  static const std::map<PathKind, std::string> kMeanings{
      {PathKind::nvlink, "NV#   # NVLinks"},
      {PathKind::pix, "PIX   one PCIe switch at most"},
      {PathKind::pxb, "PXB   several PCIe switches, not the host bridge"},
      {PathKind::phb, "PHB   the PCIe host bridge (the processor)"},
      {PathKind::node, "NODE  between host bridges of one NUMA node"},
      {PathKind::sys, "SYS   between NUMA nodes"},
      {PathKind::host, "HOST  memory of the host: virtual devices are threads"}};
  std::set<PathKind> seen;
  for (const LinkSpec& link : machine.links) seen.insert(link.path);
  std::string text;
  for (const PathKind kind : seen)
    if (const auto found = kMeanings.find(kind); found != kMeanings.end()) text += "  " + found->second + '\n';
  return text;
}

}  // namespace

std::string device_label(const DeviceSpec& device) {
  return fmt::format("{}{}", device.kind == "cuda" ? "GPU" : "CPU", device.index);
}

std::string path_label(const LinkSpec& link) {
  if (link.path != PathKind::nvlink) return std::string(to_string(link.path));
  return fmt::format("NV{}", link.num_links);
}

std::string topology_matrix(const MachineSpec& machine) {
  std::string text;
  if (!machine.devices.empty() && machine.devices.front().kind != "cuda") text += "CPU virtual devices, not GPUs.\n";
  text += aligned(matrix_rows(machine)) + '\n';
  for (const DeviceSpec& device : machine.devices) text += device_line(device);
  text += pair_lines(machine);
  for (const NumaNode& node : machine.numa_nodes)
    text += fmt::format("NUMA node {}: cores {}, {}\n", node.index, node.cores,
                        format_bytes(static_cast<double>(node.memory_bytes)));
  if (!machine.iommu.empty()) text += "IOMMU: " + machine.iommu + '\n';
  if (!machine.acs.empty()) text += "ACS redirects peer traffic at: " + machine.acs + '\n';
  for (const char* name : {"driver", "cuda", "nccl"})
    if (const auto found = machine.versions.find(name); found != machine.versions.end())
      text += fmt::format("{}: {}\n", name, found->second);
  const std::string letters = legend(machine);
  return letters.empty() ? text : text + "Legend\n" + letters;
}

}  // namespace amdahl
