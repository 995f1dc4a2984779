#include "comm/nccl_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <limits>

#include "amdahl/machine.h"

namespace amdahl {
namespace {

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

enum class Kind {
  whole,      // an integer from `least` to `most`
  word,       // one of `words`
  selection,  // list of `words`; ^ excludes them; NAME: restricts a list to a collective
};

/// One variable that NCCL reads. Words are separated by spaces; case does not matter.
struct VariableRow {
  std::string_view name;
  Kind kind;
  std::string_view words;
  int64_t least, most;
};

constexpr std::string_view kFlag = "0 1";
constexpr std::string_view kDistance = "LOC PIX PXB PHB SYS 0 1 2 3 4 5";  // numbers: the older form

// Values from NCCL's user guide, chapter "Environment Variables" (2.28); names from src/graph/tuning.cc.
constexpr std::array<VariableRow, 29> kVariables{{
    {"NCCL_ALGO", Kind::selection, "Tree Ring CollnetDirect CollnetChain NVLS NVLSTree PAT", 0, 0},
    {"NCCL_PROTO", Kind::selection, "LL LL128 Simple", 0, 0},
    {"NCCL_NTHREADS", Kind::word, "64 128 256 512", 0, 0},
    {"NCCL_LL128_NTHREADS", Kind::whole, "", 160, 640},
    {"NCCL_MIN_NCHANNELS", Kind::whole, "", 1, 64},
    {"NCCL_MAX_NCHANNELS", Kind::whole, "", 1, 64},
    {"NCCL_MIN_CTAS", Kind::whole, "", 1, 64},
    {"NCCL_MAX_CTAS", Kind::whole, "", 1, 64},
    {"NCCL_NCHANNELS_PER_NET_PEER", Kind::whole, "", 1, 64},
    {"NCCL_BUFFSIZE", Kind::whole, "", 1, kMost},
    {"NCCL_P2P_NET_CHUNKSIZE", Kind::whole, "", 1, kMost},
    {"NCCL_P2P_DISABLE", Kind::word, kFlag, 0, 0},
    {"NCCL_P2P_LEVEL", Kind::word, "LOC NVL PIX PXB PHB SYS 0 1 2 3 4 5", 0, 0},
    {"NCCL_P2P_DIRECT_DISABLE", Kind::word, kFlag, 0, 0},
    {"NCCL_SHM_DISABLE", Kind::word, kFlag, 0, 0},
    {"NCCL_IB_DISABLE", Kind::word, kFlag, 0, 0},
    {"NCCL_NET_GDR_LEVEL", Kind::word, kDistance, 0, 0},
    {"NCCL_NVLS_ENABLE", Kind::word, "0 1 2", 0, 0},
    {"NCCL_CUMEM_ENABLE", Kind::word, kFlag, 0, 0},
    {"NCCL_CUMEM_HOST_ENABLE", Kind::word, kFlag, 0, 0},
    {"NCCL_WIN_ENABLE", Kind::word, kFlag, 0, 0},
    {"NCCL_LOCAL_REGISTER", Kind::word, kFlag, 0, 0},
    {"NCCL_GRAPH_REGISTER", Kind::word, kFlag, 0, 0},
    {"NCCL_CROSS_NIC", Kind::word, "0 1 2", 0, 0},
    {"NCCL_SOCKET_NTHREADS", Kind::whole, "", 1, 16},
    {"NCCL_NSOCKS_PERTHREAD", Kind::whole, "", 1, 64},
    {"NCCL_LAUNCH_MODE", Kind::word, "PARALLEL GROUP", 0, 0},
    {"NCCL_CHECKS_DISABLE", Kind::word, kFlag, 0, 0},
    {"NCCL_DEBUG", Kind::word, "VERSION WARN INFO ABORT TRACE", 0, 0},
}};

/// Pairs of variables of which the first must not exceed the second.
constexpr std::array<std::array<std::string_view, 2>, 2> kOrdered{
    {{"NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS"}, {"NCCL_MIN_CTAS", "NCCL_MAX_CTAS"}}};

constexpr std::string_view kCollectives = "broadcast reduce allgather reducescatter allreduce";

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts{""};
  for (const char c : text)
    if (c == separator)
      parts.emplace_back();
    else
      parts.back() += c;
  return parts;
}

bool holds(std::string_view words, std::string_view word) {
  const std::vector<std::string> all = split(lower(words), ' ');
  return std::find(all.begin(), all.end(), lower(word)) != all.end();
}

bool selects(std::string_view words, std::string_view value) {
  for (const std::string& part : split(value, ';')) {
    const size_t colon = part.find(':');
    if (colon != std::string::npos && !holds(kCollectives, part.substr(0, colon))) return false;
    std::string list = colon == std::string::npos ? part : part.substr(colon + 1);
    if (list.starts_with('^')) list.erase(0, 1);
    for (const std::string& name : split(list, ','))
      if (name.empty() || !holds(words, name)) return false;
  }
  return true;
}

bool as_whole(std::string_view text, int64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size();
}

bool takes(const VariableRow& row, const std::string& value) {
  int64_t number = 0;
  switch (row.kind) {
    case Kind::whole:
      return as_whole(value, number) && number >= row.least && number <= row.most;
    case Kind::word:
      return !value.empty() && value.find(' ') == std::string::npos && holds(row.words, value);
    case Kind::selection:
      return selects(row.words, value);
  }
  return false;
}

std::string allowed(const VariableRow& row) {
  if (row.kind == Kind::whole && row.most == kMost) return fmt::format("a whole number from {}", row.least);
  if (row.kind == Kind::whole) return fmt::format("a whole number from {} to {}", row.least, row.most);
  return fmt::format("{} {}", row.kind == Kind::word ? "one of" : "a list of", fmt::join(split(row.words, ' '), ", "));
}

const VariableRow* find_row(std::string_view name) {
  const auto row = std::find_if(kVariables.begin(), kVariables.end(), [&](const auto& r) { return r.name == name; });
  return row == kVariables.end() ? nullptr : &*row;
}

}  // namespace

const std::vector<NcclProfile>& nccl_profiles() {
  static const std::vector<NcclProfile> profiles{
      {"pcie-host",
       "GPUs behind a PCIe host bridge without peer access: through host memory, on few channels with large buffers",
       {{"NCCL_ALGO", "Tree"},
        {"NCCL_PROTO", "Simple"},
        {"NCCL_P2P_DISABLE", "1"},
        {"NCCL_SHM_DISABLE", "0"},
        {"NCCL_NET_GDR_LEVEL", "0"},
        {"NCCL_BUFFSIZE", "33554432"},
        {"NCCL_MAX_NCHANNELS", "8"},
        {"NCCL_MIN_NCHANNELS", "4"}}},
  };
  return profiles;
}

void check_nccl_settings(const NcclSettings& variables, std::string_view origin) {
  for (const auto& [name, value] : variables) {
    const VariableRow* row = find_row(name);
    if (row && !takes(*row, value))
      throw Error(Cause::usage, fmt::format("{}={} ({}): NCCL takes {}", name, value, origin, allowed(*row)),
                  "one of these values, or leave the variable out");
  }
  for (const auto& [lower_name, upper_name] : kOrdered) {
    const auto low = variables.find(std::string(lower_name)), high = variables.find(std::string(upper_name));
    if (low == variables.end() || high == variables.end()) continue;
    int64_t least = 0, most = 0;
    if (as_whole(low->second, least) && as_whole(high->second, most) && least > most)
      throw Error(Cause::usage, fmt::format("{}={} is above {}={} ({})", lower_name, least, upper_name, most, origin),
                  "the smaller number for the minimum");
  }
}

bool is_known_nccl_setting(const std::string& name, std::string& hint) {
  if (find_row(name)) return true;
  std::vector<std::string> names;
  for (const VariableRow& row : kVariables) names.emplace_back(row.name);
  hint = nearest_name(name, names);
  return false;
}

NcclSettings nccl_settings(const std::string& profile, const std::vector<std::string>& assignments,
                           const std::map<std::string, std::string>& environment) {
  NcclSettings settings;
  std::vector<std::string> names;
  for (const NcclProfile& row : nccl_profiles()) {
    names.emplace_back(row.name);
    if (row.name == profile) settings = row.settings;
  }
  if (!profile.empty() && settings.empty())
    throw Error(Cause::usage, fmt::format("unknown profile '{}'", profile), choices_hint(profile, names));
  for (const std::string& assignment : assignments) {
    const size_t equals = assignment.find('=');
    const std::string name = assignment.substr(0, equals);
    if (equals == std::string::npos || !name.starts_with("NCCL_"))
      throw Error(Cause::usage, fmt::format("`assignments` {}: not an assignment to a variable of NCCL", assignment),
                  "`assignments` NCCL_ALGO=Ring");
    std::string hint;
    if (!is_known_nccl_setting(name, hint))
      throw Error(Cause::usage, fmt::format("`assignments` knows no rule for {}", name),
                  (hint.empty() ? std::string() : hint + "? or ") + "export it yourself, unchecked");
    settings[name] = assignment.substr(equals + 1);
  }
  check_nccl_settings(settings, "`assignments`");
  NcclSettings all = settings;
  all.insert(environment.begin(), environment.end());  // does not overwrite: assignments take precedence
  check_nccl_settings(all, settings.empty() ? "the environment" : "the environment with `assignments`");
  return settings;
}

}  // namespace amdahl
