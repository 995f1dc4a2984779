// Serialises MachineSpec and the list of backends. Unknown values (0 bytes, an empty uuid) are omitted.
#include <nlohmann/json.hpp>

#include "spec/json.h"
#include "spec/json_visitor.h"

namespace amdahl {

using nlohmann::json;

template <class Visitor>
void visit_fields(Visitor& f, DeviceSpec& d) {
  f("index", d.index), f("kind", d.kind), f("name", d.name);
  f.known("uuid", d.uuid), f.known("memory_bytes", d.memory_bytes), f.known("sm_count", d.sm_count);
  f.known("compute_capability", d.compute_capability), f.known("pci_bus_id", d.pci_bus_id);
  f.when(d.numa_node >= 0, "numa_node", d.numa_node);
  f.known("pcie_generation", d.pcie_generation);
  f.known("pcie_lanes", d.pcie_lanes, d.pcie_generation > 0);
  const bool has_links = d.num_links + d.num_links_down > 0;
  f.known("nvlinks_up", d.num_links, has_links), f.known("nvlinks_down", d.num_links_down, has_links);
  f.known("copy_gbps", d.copy_gbps);
}

template <class Visitor>
void visit_fields(Visitor& f, LinkSpec& link) {
  f("source", link.source), f("destination", link.destination), f("path", link.path);
  f("peer_access", link.peer_access), f("peer_atomics", link.peer_atomics);
  const bool has_links = link.num_links > 0;
  f.known("nvlinks", link.num_links), f.known("nvlink_version", link.nvlink_version, has_links);
  f.when(has_links, "through_switch", link.through_switch);
  f.known("why_no_peer_access", link.why_no_peer_access), f.known("quarantine", link.quarantine);
  f.known("raw_gbps", link.raw_gbps), f.known("expected_gbps", link.expected_gbps);
  f.known("measured_gbps", link.measured_gbps), f.known("latency_us", link.latency_us);
}

template <class Visitor>
void visit_fields(Visitor& f, NumaNode& node) {
  f("index", node.index), f("cores", node.cores), f("memory_bytes", node.memory_bytes);
}

template <class Visitor>
void visit_fields(Visitor& f, ProcessSpread& s) {
  f("kind", s.kind), f("device_kind", s.device_kind), f("cell", s.cell);
  f("relative_sd", s.relative_sd), f("processes", s.processes), f("runs", s.runs);
  if constexpr (Visitor::kReads) {
    if (!(s.relative_sd >= 0)) f.fields().fail("relative_sd", "is negative");
    if (s.processes < 2) f.fields().fail("processes", "is below 2");
    if (!(s.runs > 0)) f.fields().fail("runs", "is not positive");
  }
}

template <class Visitor>
void visit_fields(Visitor& f, MachineSpec& m) {
  f("host", m.host), f("os", m.os), f("cpu_name", m.cpu_name);
  f("num_cores", m.num_cores), f("num_numa_nodes", m.num_numa_nodes);
  f.known("cpu_limit", m.cpu_limit), f.known("memory_bytes", m.memory_bytes);
  f("devices", m.devices), f("versions", m.versions);
  f.when(!m.links.empty(), "links", m.links);
  f.when(!m.numa_nodes.empty(), "numa_nodes", m.numa_nodes);
  f.when(!m.process_spreads.empty(), "process_spreads", m.process_spreads);
  f.known("iommu", m.iommu), f.known("acs_redirects", m.acs);
  if constexpr (Visitor::kReads) {
    f.fields().natural_or("num_cores", 1, INT32_MAX);
    f.fields().natural_or("num_numa_nodes", 1, INT32_MAX);
  }
}

std::string machine_to_json(const MachineSpec& machine) { return versioned(machine); }

MachineSpec machine_from_json(std::string_view text, std::string_view origin) {
  const json document = parse_document(text, origin, Cause::store_corrupt);
  const Fields fields(document, std::string(origin), "", Cause::store_corrupt);
  fields.require_version();
  return read_fields<MachineSpec>(fields);
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
