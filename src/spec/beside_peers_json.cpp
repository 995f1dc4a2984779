// Converts nccl-tests.jsonl of benchmarks/fabric_vs_peers.py to Records of kind "collective": one line per collective
// and size with the times of both programs, which ran alternately; each round is a separate process.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "spec/peer_json.h"

namespace amdahl {
namespace {

using nlohmann::json;

struct ToolRow {
  const char* key;   // key in a line
  const char* tool;  // value of axis kToolAxis
};
constexpr ToolRow kTools[] = {{"nccl_tests_us", "nccl-tests"}, {"amdahl_us", "amdahl"}};

/// Axes that the script leaves at the defaults of both programs: out of place, f32, sum, root 0, one call at a time.
std::map<std::string, AxisValue> axes_of(const Fields& line) {
  const std::string collective = line.text("collective");
  const auto traits = nccl_tests_traits(collective);
  if (!traits) line.fail("collective", fmt::format("is '{}', which is not known here", collective));
  std::map<std::string, AxisValue> axes{{"collective", collective},
                                        {"devices", line.integer("devices")},
                                        {"bytes", line.integer("bytes")},
                                        {"dtype", std::string("f32")},
                                        {"in_place", false},
                                        {"launch", std::string("eager")}};
  if (traits->reduces) axes["op"] = std::string("sum");
  if (traits->rooted) axes["root"] = int64_t{0};
  return axes;
}

void add_line(const Fields& line, const std::string& where, Measurements& found) {
  for (const ToolRow& row : kTools) {
    const json& rounds = line.array(row.key);
    for (size_t i = 0; i < rounds.size(); ++i) {
      if (!rounds[i].is_number() || !(rounds[i].get<double>() > 0))
        line.fail(row.key, fmt::format("has {} as round {}", rounds[i].dump().substr(0, 40), i + 1), "microseconds");
      Record record;
      record.kind = "collective";
      record.source = where;
      record.axes = axes_of(line);
      record.axes[kToolAxis] = std::string(row.tool);
      record.axes[kProcessAxis] = static_cast<int64_t>(i);
      record.provenance.tool_version = row.tool;
      record.provenance.device_kind = "cuda";
      record.provenance.host = line.text_or("host", "");
      record.provenance.facts = {{"tool", row.tool}};
      record.series = {{"time", "us", {rounds[i].get<double>()}}};
      add_record(found, std::move(record), where);
    }
  }
}

}  // namespace

bool is_beside_peers(const json& line) {
  return line.is_object() &&
         std::all_of(std::begin(kTools), std::end(kTools), [&](const ToolRow& row) { return line.contains(row.key); });
}

Measurements read_beside_peers(const std::string& text, const std::string& origin) {
  Measurements found{"collectives", kTools[0].tool, {}, {}, true};
  std::istringstream lines(text);
  size_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::string where = fmt::format("{}:{}", origin, ++number);
    const json document = parse_document(line, where, Cause::usage);
    add_line(Fields(document, where, "", Cause::usage), where, found);
  }
  return found;
}

}  // namespace amdahl
