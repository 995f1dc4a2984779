// MachineSpec and the list of backends. Unknown values (0 bytes, an empty uuid) are absent.
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
  return object;
}

DeviceSpec read_device(const Fields& fields) {
  DeviceSpec device;
  device.index = static_cast<int>(fields.integer("index"));
  device.kind = fields.text("kind");
  device.name = fields.text("name");
  device.uuid = fields.text_or("uuid", "");
  device.memory_bytes = fields.integer_or("memory_bytes", 0);
  device.sm_count = static_cast<int>(fields.integer_or("sm_count", 0));
  device.compute_capability = fields.text_or("compute_capability", "");
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
  if (machine.memory_bytes > 0) object["memory_bytes"] = machine.memory_bytes;
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
  machine.num_cores = static_cast<int>(fields.integer("num_cores"));
  machine.num_numa_nodes = static_cast<int>(fields.integer("num_numa_nodes"));
  machine.memory_bytes = fields.integer_or("memory_bytes", 0);
  machine.versions = fields.text_map("versions");
  const json& devices = fields.array("devices");
  for (size_t i = 0; i < devices.size(); ++i)
    machine.devices.push_back(read_device(fields.element(devices, "devices", i)));
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

std::vector<BackendStatus> backends_from_json(std::string_view text, std::string_view origin) {
  const json document = parse_document(text, origin, Cause::store_corrupt);
  const Fields fields(document, std::string(origin), "", Cause::store_corrupt);
  fields.require_version();
  std::vector<BackendStatus> backends;
  const json& array = fields.array("backends");
  for (size_t i = 0; i < array.size(); ++i) {
    const Fields f = fields.element(array, "backends", i);
    backends.push_back({f.text("name"),
                        {f.boolean("ok"), f.text_or("reason", ""), f.text_or("remedy", "")},
                        f.text_or("version", "")});
  }
  return backends;
}

}  // namespace amdahl
