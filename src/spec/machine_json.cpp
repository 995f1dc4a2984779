// Serialises MachineSpec and the list of backends. Unknown values (0 bytes, an empty uuid) are omitted.
#include <nlohmann/json.hpp>

#include "spec/json.h"
#include "spec/json_fields.h"

namespace amdahl {
namespace {

using nlohmann::json;

json device_json(const DeviceSpec& device) {
  json object{{"index", device.index}, {"kind", device.kind}, {"name", device.name}};
  if (!device.uuid.empty()) object["uuid"] = device.uuid;
  if (device.memory_bytes > 0) object["memory_bytes"] = device.memory_bytes;
  if (device.sm_count > 0) object["sm_count"] = device.sm_count;
  if (!device.compute_capability.empty()) object["compute_capability"] = device.compute_capability;
  if (!device.pci_bus_id.empty()) object["pci_bus_id"] = device.pci_bus_id;
  if (device.numa_node >= 0) object["numa_node"] = device.numa_node;
  if (device.pcie_generation > 0) {
    object["pcie_generation"] = device.pcie_generation;
    object["pcie_lanes"] = device.pcie_lanes;
  }
  if (device.num_links + device.num_links_down > 0) {
    object["nvlinks_up"] = device.num_links;
    object["nvlinks_down"] = device.num_links_down;
  }
  if (device.copy_gbps > 0) object["copy_gbps"] = finite(device.copy_gbps, "copy_gbps");
  return object;
}

json link_json(const LinkSpec& link) {
  json object{{"source", link.source},
              {"destination", link.destination},
              {"path", to_string(link.path)},
              {"peer_access", link.peer_access},
              {"peer_atomics", link.peer_atomics}};
  if (link.num_links > 0) {
    object["nvlinks"] = link.num_links;
    object["nvlink_version"] = link.nvlink_version;
    object["through_switch"] = link.through_switch;
  }
  if (!link.why_no_peer_access.empty()) object["why_no_peer_access"] = link.why_no_peer_access;
  if (!link.quarantine.empty()) object["quarantine"] = link.quarantine;
  const auto rate = [&](const char* name, double value) {
    if (value > 0) object[name] = finite(value, name);
  };
  rate("raw_gbps", link.raw_gbps);
  rate("expected_gbps", link.expected_gbps);
  rate("measured_gbps", link.measured_gbps);
  rate("latency_us", link.latency_us);
  return object;
}

PathKind read_path(const Fields& fields) {
  const std::string letters = fields.text("path");
  for (int kind = 0; kind <= static_cast<int>(PathKind::host); ++kind)
    if (to_string(static_cast<PathKind>(kind)) == letters) return static_cast<PathKind>(kind);
  fields.fail("path", "is \"" + letters + "\"", "NV, PIX, PXB, PHB, NODE, SYS or HOST");
}

LinkSpec read_link(const Fields& fields) {
  LinkSpec link;
  link.source = static_cast<int>(fields.integer("source"));
  link.destination = static_cast<int>(fields.integer("destination"));
  link.path = read_path(fields);
  link.peer_access = fields.boolean("peer_access");
  link.peer_atomics = fields.boolean("peer_atomics");
  link.num_links = fields.count_or_none("nvlinks", 0);
  link.nvlink_version = fields.count_or_none("nvlink_version", 0);
  link.through_switch = fields.boolean_or("through_switch", false);
  link.why_no_peer_access = fields.text_or("why_no_peer_access", "");
  link.quarantine = fields.text_or("quarantine", "");
  link.raw_gbps = fields.rate_or_none("raw_gbps");
  link.expected_gbps = fields.rate_or_none("expected_gbps");
  link.measured_gbps = fields.rate_or_none("measured_gbps");
  link.latency_us = fields.rate_or_none("latency_us");
  return link;
}

json spread_json(const ProcessSpread& spread) {
  return {{"kind", spread.kind},           {"device_kind", spread.device_kind},
          {"cell", spread.cell},           {"relative_sd", finite(spread.relative_sd, "relative_sd")},
          {"processes", spread.processes}, {"runs", finite(spread.runs, "runs")}};
}

ProcessSpread read_spread(const Fields& fields) {
  ProcessSpread spread{fields.text("kind"),          fields.text("device_kind"),  fields.text("cell"),
                       fields.number("relative_sd"), fields.integer("processes"), fields.number("runs")};
  if (!(spread.relative_sd >= 0)) fields.fail("relative_sd", "is negative");
  if (spread.processes < 2) fields.fail("processes", "is below 2");
  if (!(spread.runs > 0)) fields.fail("runs", "is not positive");
  return spread;
}

DeviceSpec read_device(const Fields& fields) {
  DeviceSpec device;
  device.index = static_cast<int>(fields.integer("index"));
  device.kind = fields.text("kind");
  device.name = fields.text("name");
  device.uuid = fields.text_or("uuid", "");
  device.memory_bytes = fields.natural_or("memory_bytes", 0);
  device.sm_count = fields.count_or_none("sm_count", 0);
  device.compute_capability = fields.text_or("compute_capability", "");
  device.pci_bus_id = fields.text_or("pci_bus_id", "");
  device.numa_node = static_cast<int>(fields.integer_or("numa_node", -1));
  device.pcie_generation = fields.count_or_none("pcie_generation", 0);
  device.pcie_lanes = fields.count_or_none("pcie_lanes", 0);
  device.num_links = fields.count_or_none("nvlinks_up", 0);
  device.num_links_down = fields.count_or_none("nvlinks_down", 0);
  device.copy_gbps = fields.rate_or_none("copy_gbps");
  return device;
}

}  // namespace

std::string machine_to_json(const MachineSpec& machine) {
  json devices = json::array();
  for (const DeviceSpec& device : machine.devices) devices.push_back(device_json(device));
  json object{
      {"version", kSchemaVersion},    {"host", machine.host},           {"os", machine.os},
      {"cpu_name", machine.cpu_name}, {"num_cores", machine.num_cores}, {"num_numa_nodes", machine.num_numa_nodes},
      {"devices", devices},           {"versions", machine.versions}};
  if (machine.cpu_limit > 0) object["cpu_limit"] = finite(machine.cpu_limit, "cpu_limit");
  if (machine.memory_bytes > 0) object["memory_bytes"] = machine.memory_bytes;
  json links = json::array(), nodes = json::array();
  for (const LinkSpec& link : machine.links) links.push_back(link_json(link));
  for (const NumaNode& node : machine.numa_nodes)
    nodes.push_back({{"index", node.index}, {"cores", node.cores}, {"memory_bytes", node.memory_bytes}});
  if (!links.empty()) object["links"] = links;
  if (!nodes.empty()) object["numa_nodes"] = nodes;
  if (!machine.process_spreads.empty()) object["process_spreads"] = json::array();
  for (const ProcessSpread& spread : machine.process_spreads) object["process_spreads"].push_back(spread_json(spread));
  if (!machine.iommu.empty()) object["iommu"] = machine.iommu;
  if (!machine.acs.empty()) object["acs_redirects"] = machine.acs;
  return dump(object, 2);
}

MachineSpec machine_from_json(std::string_view text, std::string_view origin) {
  const json document = parse_document(text, origin, Cause::store_corrupt);
  const Fields fields(document, std::string(origin), "", Cause::store_corrupt);
  fields.require_version();
  MachineSpec machine;
  machine.host = fields.text("host");
  machine.os = fields.text("os");
  machine.cpu_name = fields.text("cpu_name");
  fields.integer("num_cores");
  machine.num_cores = fields.count_or_none("num_cores", 1);
  machine.cpu_limit = fields.rate_or_none("cpu_limit");
  fields.integer("num_numa_nodes");
  machine.num_numa_nodes = fields.count_or_none("num_numa_nodes", 1);
  machine.memory_bytes = fields.natural_or("memory_bytes", 0);
  machine.versions = fields.text_map("versions");
  const json& devices = fields.array("devices");
  for (size_t i = 0; i < devices.size(); ++i)
    machine.devices.push_back(read_device(fields.element(devices, "devices", i)));
  if (fields.has("links")) {
    const json& links = fields.array("links");
    for (size_t i = 0; i < links.size(); ++i) machine.links.push_back(read_link(fields.element(links, "links", i)));
  }
  if (fields.has("numa_nodes")) {
    const json& nodes = fields.array("numa_nodes");
    for (size_t i = 0; i < nodes.size(); ++i) {
      const Fields node = fields.element(nodes, "numa_nodes", i);
      machine.numa_nodes.push_back(
          {static_cast<int>(node.integer("index")), node.text("cores"), node.integer("memory_bytes")});
    }
  }
  if (fields.has("process_spreads")) {
    const json& spreads = fields.array("process_spreads");
    for (size_t i = 0; i < spreads.size(); ++i)
      machine.process_spreads.push_back(read_spread(fields.element(spreads, "process_spreads", i)));
  }
  machine.iommu = fields.text_or("iommu", "");
  machine.acs = fields.text_or("acs_redirects", "");
  return machine;
}

std::string backends_to_json(const std::vector<BackendStatus>& backends) {
  json array = json::array();
  for (const BackendStatus& backend : backends) {
    json object{{"name", backend.name}, {"ok", backend.availability.ok}};
    if (!backend.availability.reason.empty()) object["reason"] = backend.availability.reason;
    if (!backend.availability.remedy.empty()) object["remedy"] = backend.availability.remedy;
    if (!backend.version.empty()) object["version"] = backend.version;
    array.push_back(object);
  }
  return dump({{"version", kSchemaVersion}, {"backends", array}}, 2);
}

std::string info_to_json(const std::string& version, const std::string& commit, const MachineSpec& machine,
                         const std::vector<BackendStatus>& backends) {
  return dump({{"version", kSchemaVersion},
               {"amdahl", version},
               {"commit", commit},
               {"machine", json::parse(machine_to_json(machine))},
               {"backends", json::parse(backends_to_json(backends)).at("backends")}},
              2);
}

std::string links_to_json(const MachineSpec& machine, const std::vector<Record>& records) {
  json object = json::parse(records_to_json(records));
  object["machine"] = json::parse(machine_to_json(machine));
  return dump(object, 2);
}

}  // namespace amdahl
