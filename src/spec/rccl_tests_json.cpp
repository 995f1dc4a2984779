// Converts the JSON of rccl-tests (-Z json -x FILE) to Records of kind "collective": one object per size, placement and
// cycle, in a list or one a line.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <nlohmann/json.hpp>

#include "amdahl/error.h"
#include "spec/peer_json.h"

namespace amdahl {
namespace {

using nlohmann::json;

/// "AllReduce" and "all_reduce_perf" as "allreduce".
std::string bare_name(std::string_view name) {
  if (name.ends_with("_perf")) name.remove_suffix(5);
  std::string bare;
  for (const char c : name)
    if (c != '_') bare.push_back(static_cast<char>(std::tolower(static_cast<unsigned char>(c))));
  return bare;
}

/// amdahl's name of the collective; empty for one that it does not measure.
std::string collective_of(const std::string& name) {
  for (const std::string_view known : {"all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "sendrecv",
                                       "all_to_all", "gather", "scatter"})
    if (bare_name(known) == bare_name(name)) return std::string(known);
  return {};
}

/// Wrong elements, a number or a text; nullopt where the results were not verified ("N/A").
std::optional<double> wrong_elements(const Fields& line) {
  const json& value = line.value().at("wrong");
  if (value.is_number()) return value.get<double>();
  const std::string text = line.text("wrong");
  if (text == "N/A") return std::nullopt;
  double wrong = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), wrong);
  if (error != std::errc() || end != text.data() + text.size() || !(wrong >= 0)) line.fail("wrong", "is not a number");
  return wrong;
}

std::map<std::string, AxisValue> axes_of_line(const Fields& line, const std::string& collective) {
  std::map<std::string, AxisValue> axes{{"collective", collective},
                                        {"devices", line.integer("ranks")},
                                        {"bytes", line.integer("size")},
                                        {"dtype", nccl_type_name(line.text("type"))},
                                        {"in_place", line.integer("inPlace") != 0}};
  if (nccl_tests_traits(collective)->reduces) axes["op"] = line.text("redop");
  return axes;
}

void read_rccl_line(const Fields& line, const std::string& where, Measurements& found) {
  const std::string name = line.text("name"), collective = collective_of(name);
  if (collective.empty()) {
    found.notes.push_back(
        fmt::format("{}: '{}' is no collective known here and was left out", where, printable(name, 40)));
    return;
  }
  Record record;
  record.kind = "collective";
  record.source = where;
  record.axes = axes_of_line(line, collective);
  if (line.integer("size") == 0) {
    found.notes.push_back(fmt::format("{}: a size of 0 measures nothing and was left out", where));
    return;
  }
  record.provenance.tool_version = "rccl-tests";
  record.provenance.device_kind = "cuda";  // as all GPUs, for which there is no other word
  record.provenance.facts = {{"tool", "rccl-tests"}, {"nodes", fmt::format("{}", line.integer("nodes"))}};
  record.series = collective_series({&line, "time", "algBw", "busBw"}, line.integer("ranks"));
  if (line.has("wrong") && !line.value().at("wrong").is_null())
    if (const std::optional<double> wrong = wrong_elements(line)) {
      record.series.push_back({"wrong", "1", {*wrong}});
      if (*wrong > 0) record.status = {Status::Kind::failed, fmt::format("{:.0f} elements are wrong", *wrong)};
    }
  // a further cycle is a further sample of the same cell
  const auto same = std::find_if(found.records.begin(), found.records.end(),
                                 [&](const Record& other) { return other.axes == record.axes; });
  if (line.integer_or("numCycle", 0) == 0 || same == found.records.end())
    return add_record(found, std::move(record), where);
  for (Series& series : same->series)
    for (const Series& more : record.series)
      if (more.name == series.name) series.samples.push_back(more.samples.front());
  if (record.status.kind == Status::Kind::failed) same->status = record.status;
}

Measurements finished(Measurements found, const std::string& origin) {
  if (found.records.empty())
    throw Error(Cause::usage, fmt::format("{}: there is no result in it", origin),
                "a run of rccl-tests that measured something");
  return found;
}

}  // namespace

bool is_rccl_tests(const json& line) {
  return line.is_object() && line.contains("busBw") && line.contains("algBw") && line.contains("inPlace");
}

Measurements read_rccl_tests(const json& list, const std::string& origin) {
  Measurements found{"collectives", "rccl-tests", {}, {}, true};
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string where = fmt::format("{}: [{}]", origin, i);
    if (!list[i].is_object())
      throw Error(Cause::usage, fmt::format("{} is no object", where), "the JSON of one run of rccl-tests");
    read_rccl_line(Fields(list[i], where, "", Cause::usage), where, found);
  }
  return finished(std::move(found), origin);
}

Measurements read_rccl_test_lines(const std::string& text, const std::string& origin) {
  Measurements found{"collectives", "rccl-tests", {}, {}, true};
  int64_t number = 0;
  for (size_t begin = 0; begin < text.size();) {
    ++number;
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = std::string_view(text).substr(begin, end - begin);
    begin = end + 1;
    while (!line.empty() && (line.back() == ',' || line.back() == ' ' || line.back() == '\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    const std::string where = fmt::format("{}:{}", origin, number);
    const json document = parse_document(line, where, Cause::usage);
    read_rccl_line(Fields(document, where, "", Cause::usage), where, found);
  }
  return finished(std::move(found), origin);
}

}  // namespace amdahl
