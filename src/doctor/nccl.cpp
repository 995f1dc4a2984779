// Findings about NCCL: its version, its settings, and its choices.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <set>
#include <sstream>

#include "doctor/findings.h"

namespace amdahl {
namespace {

Findings by_transport(const Evidence& evidence, const std::string& family, bool needs_peer_access, Finding pattern) {
  Findings found;
  for (const auto& [pair, transport] : evidence.nccl_transports) {
    if (!transport.starts_with(family)) continue;
    const LinkSpec* link = evidence.machine.link(pair.first, pair.second);
    if (needs_peer_access && !(link && link->peer_access)) continue;
    pattern.where = pair_name(pair.first, pair.second);
    pattern.measured = transport;
    found.push_back(pattern);
  }
  return found;
}

Findings nccl_on_sockets(const Evidence& evidence) {
  return by_transport(evidence, "NET/Socket", false,
                      {"", kFault, "", "", "P2P or SHM within a host",
                       "GPUs of one host talk through TCP sockets: both direct and shared memory are shut off",
                       "unset NCCL_P2P_DISABLE NCCL_SHM_DISABLE; a larger /dev/shm; NCCL_DEBUG=INFO says why"});
}

Findings nccl_through_host(const Evidence& evidence) {
  return by_transport(evidence, "SHM", true,
                      {"", kFault, "", "", "P2P: the pair has peer access",
                       "NCCL copies through host memory although the GPUs reach each other",
                       "unset NCCL_P2P_DISABLE NCCL_P2P_LEVEL; NCCL_DEBUG=INFO says why"});
}

std::string value_of(const Evidence& evidence, const char* name) {
  const auto found = evidence.environment.find(name);
  return found == evidence.environment.end() ? std::string() : found->second;
}

struct Setting {
  const char* name;
  bool (*harms)(const std::string& value);
  const char* expected;
  const char* why;
};
bool is_on(const std::string& value) { return value != "0"; }
constexpr Setting kSettings[] = {
    {"NCCL_P2P_DISABLE", is_on, "unset", "copies between GPUs go through host memory"},
    {"NCCL_SHM_DISABLE", is_on, "unset", "pairs without peer access fall back to sockets"},
    {"NCCL_NTHREADS", [](const std::string& v) { return v != "64" && v != "128" && v != "256" && v != "512"; },
     "64, 128, 256 or 512", "NCCL ignores any other number of threads"},
    {"NCCL_P2P_LEVEL", [](const std::string& v) { return v == "LOC" || v == "0"; }, "unset",
     "LOC lets no pair copy directly"},
    {"NCCL_MAX_NCHANNELS", [](const std::string& v) { return v == "1" || v == "2"; }, "unset",
     "few channels cannot fill NVLink"}};

Findings nccl_settings(const Evidence& evidence) {
  Findings found;
  for (const Setting& setting : kSettings) {
    const std::string value = value_of(evidence, setting.name);
    if (value.empty() || !setting.harms(value)) continue;
    found.push_back({"", kWarning, "environment", fmt::format("{}={}", setting.name, value), setting.expected,
                     setting.why, fmt::format("unset {}", setting.name)});
  }
  return found;
}

/// Settings that serialise launches and so prevent overlap within a step, as DataParallel does.
Findings serial_launches(const Evidence& evidence) {
  const std::string value = value_of(evidence, "CUDA_LAUNCH_BLOCKING");
  if (value.empty() || value == "0") return {};
  return {{"", kWarning, "environment", "CUDA_LAUNCH_BLOCKING=" + value, "unset",
           "every launch waits for its kernel: nothing overlaps, and GPUs driven by one thread take turns",
           "unset CUDA_LAUNCH_BLOCKING"}};
}

using Version = std::array<int, 3>;
bool parse_version(const std::string& text, Version& version) {
  return std::sscanf(text.c_str(), "%d.%d.%d", &version[0], &version[1], &version[2]) == 3;
}

/// Bugs that NCCL's release notes list as fixed in a version. `since`: first version with the feature.
struct KnownFault {
  Version since, fixed;
  Finding::Severity severity;
  const char* what;
};
constexpr KnownFault kKnownFaults[] = {
    {{0, 0, 0}, {2, 12, 7}, kFault, "data corruption when some NVLinks are down (notes of 2.12.7)"},
    {{0, 0, 0}, {2, 15, 5}, kFault, "data corruption with LL128 on unaligned buffers (notes of 2.15.5)"},
    {{0, 0, 0},
     {2, 18, 3},
     kFault,
     "data corruption with Tree/LL128 where a GPU has a NIC of its own (notes of 2.18.3)"},
    {{2, 27, 3},
     {2, 28, 7},
     kNotice,
     "data corruption in symmetric kernels for small or aggregated messages (notes of 2.28.7)"},
    {{2, 28, 0}, {2, 28, 9}, kNotice, "hangs at large scale by the order of main and proxy thread (notes of 2.28.9)"},
    {{2, 27, 3},
     {2, 30, 0},
     kNotice,
     "data corruption in symmetric LL kernels with unaligned buffers (notes of 2.30)"}};

Findings nccl_known_fault(const Evidence& evidence) {
  const auto found_version = evidence.machine.versions.find("nccl");
  Version version{};
  if (found_version == evidence.machine.versions.end() || !parse_version(found_version->second, version)) return {};
  Findings found;
  for (const KnownFault& fault : kKnownFaults)
    if (version >= fault.since && version < fault.fixed)
      found.push_back({"", fault.severity, "NCCL", found_version->second,
                       fmt::format("{}.{}.{} or later", fault.fixed[0], fault.fixed[1], fault.fixed[2]), fault.what,
                       "a newer NCCL, first in LD_LIBRARY_PATH"});
  return found;
}

}  // namespace

std::map<std::pair<int, int>, std::string> parse_nccl_transports(const std::string& log) {
  std::map<std::pair<int, int>, std::string> transports;
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    const size_t channel = line.find("Channel "), colon = line.find(" : ", channel), via = line.find(" via ", colon);
    if (channel == std::string::npos || colon == std::string::npos || via == std::string::npos) continue;
    int from = 0, from_device = 0, to = 0, to_device = 0;
    if (std::sscanf(line.c_str() + colon, " : %d[%d] -> %d[%d]", &from, &from_device, &to, &to_device) != 4) continue;
    const std::string name = line.substr(via + 5, line.find_first_of(" \r", via + 5) - via - 5);
    transports.emplace(std::pair{from, to}, name);
  }
  return transports;
}

std::vector<FindingRow> nccl_findings() {
  const auto log = [](const Evidence& e) { return !e.nccl_transports.empty(); };
  const auto variables = [](const Evidence&) { return true; };
  return {{"nccl-on-sockets", "transports that NCCL chose", nccl_on_sockets, log},
          {"nccl-through-host", "transports that NCCL chose against peer access", nccl_through_host, log},
          {"nccl-settings", "NCCL_* variables", nccl_settings, variables},
          {"serial-launches", "CUDA_LAUNCH_BLOCKING", serial_launches, variables},
          {"nccl-known-fault", "NCCL's version", nccl_known_fault,
           [](const Evidence& e) { return e.machine.versions.contains("nccl"); }}};
}

}  // namespace amdahl
