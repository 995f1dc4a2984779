// Converts nccl-tests' -J to Records of kind "collective".
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "spec/peer_json.h"

namespace amdahl {
namespace {

using nlohmann::json;

constexpr int64_t kNewestVersion = 3;  // version 2 added times of single iterations, 3 the number of skipped ones

struct ProgramRow {
  std::string_view program, collective;
  bool reduces, rooted;  // whether its "redop" and "root" apply
};

constexpr ProgramRow kPrograms[] = {{"all_reduce_perf", "all_reduce", true, false},
                                    {"all_gather_perf", "all_gather", false, false},
                                    {"reduce_scatter_perf", "reduce_scatter", true, false},
                                    {"broadcast_perf", "broadcast", false, true},
                                    {"reduce_perf", "reduce", true, true},
                                    {"sendrecv_perf", "sendrecv", false, false},
                                    {"alltoall_perf", "all_to_all", false, false},
                                    {"gather_perf", "gather", false, true},
                                    {"scatter_perf", "scatter", false, true}};

// nccl-tests' types and amdahl's names for them; other types keep nccl-tests' name.
constexpr std::pair<std::string_view, std::string_view> kTypes[] = {
    {"float", "f32"}, {"double", "f64"}, {"half", "f16"}, {"bfloat16", "bf16"},
    {"int32", "i32"}, {"int64", "i64"},  {"uint8", "u8"}};

constexpr std::pair<const char*, bool> kPlacements[] = {{"out_of_place", false}, {"in_place", true}};

const ProgramRow& program_of(const Fields& document) {
  const std::vector<std::string> words = document.texts("args");
  const std::string name = words.empty() ? "" : std::filesystem::path(words[0]).filename().string();
  for (const ProgramRow& row : kPrograms)  // MPI builds may append a suffix: all_reduce_perf_mpi
    if (name == row.program || name.starts_with(std::string(row.program) + "_")) return row;
  std::vector<std::string> known;
  for (const ProgramRow& row : kPrograms) known.emplace_back(row.program);
  document.fail("args", fmt::format("names the program '{}', which measures no collective known here", name),
                fmt::format("one of {}", fmt::join(known, ", ")));
}

/// Number of ranks of one communicator. nccl-tests lists the first GPU of each process; a process has nthreads * ngpus
/// GPUs.
int64_t ranks_of(const Fields& config) {
  const json& list = config.array("devices");
  std::map<int64_t, int64_t> processes;  // processes per communicator, when the ranks are split into several
  for (size_t i = 0; i < list.size(); ++i) ++processes[config.element(list, "devices", i).integer("group")];
  if (processes.empty()) config.fail("devices", "is empty");
  for (const auto& [group, count] : processes)
    if (count != processes.begin()->second) config.fail("devices", "has groups of different sizes", "one group");
  constexpr int64_t kMost = 1 << 20;
  const int64_t threads = config.integer("nthreads"), gpus = config.integer("ngpus");
  if (threads < 1 || threads > kMost) config.fail("nthreads", "is no number of threads");
  if (gpus < 1 || gpus > kMost) config.fail("ngpus", "is no number of GPUs");
  const int64_t each = threads * gpus;
  return processes.begin()->second * each;
}

std::string version_text(int64_t code) {  // 22809: 2.28.9
  if (code < 10000) return fmt::format("{}.{}.{}", code / 1000, code / 100 % 10, code % 100);
  return fmt::format("{}.{}.{}", code / 10000, code / 100 % 100, code % 100);
}

Provenance provenance_of(const Fields& document, const Fields& config) {
  Provenance p;
  p.tool_version = fmt::format("nccl-tests (JSON version {}, NCCL {})", document.integer("version"),
                               version_text(document.integer("nccl_version")));
  p.command_line = fmt::format("{}", fmt::join(document.texts("args"), " "));
  p.device_kind = "cuda";
  p.facts = {{"tool", "nccl-tests"}, {"nccl", version_text(document.integer("nccl_version"))}};
  p.facts["start_time_local"] = document.text("start_time");  // without a time zone, unlike amdahl's own UTC times
  const json& devices = config.array("devices");
  std::set<std::string> hosts;
  for (size_t i = 0; i < devices.size(); ++i) {
    const Fields device = config.element(devices, "devices", i);
    hosts.insert(device.text("hostname"));
    p.facts[fmt::format("device.{}", device.integer("rank"))] = device.text("device_info");
  }
  p.host = fmt::format("{}", fmt::join(hosts, ", "));
  for (const std::string& variable : document.texts("env"))  // the same variables as in amdahl's own provenance
    if (variable.starts_with("NCCL_") || variable.starts_with("CUDA_"))
      if (const size_t equals = variable.find('='); equals != std::string::npos)
        p.facts["env." + variable.substr(0, equals)] = variable.substr(equals + 1);
  return p;
}

int64_t root_of(const Fields& row) {
  std::string text = row.text("root");  // padded: "    -1"
  text.erase(0, text.find_first_not_of(' '));
  int64_t root = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), root);
  if (error != std::errc() || end != text.data() + text.size()) row.fail("root", "is not a number");
  return root;
}

double positive(const Fields& fields, const char* name) {
  const double value = fields.number(name);
  if (!(value > 0)) fields.fail(name, fmt::format("is {}", value), "a run whose measurements came to an end");
  return value;
}

/// Axes shared by all results.
std::map<std::string, AxisValue> common_axes(const Fields& config, const ProgramRow& program) {
  std::map<std::string, AxisValue> axes{{"collective", std::string(program.collective)}, {"devices", ranks_of(config)}};
  const int64_t graph = config.integer("graph"), together = config.integer("aggregated_iterations");
  axes["launch"] = graph > 0 ? fmt::format("graph of {}", graph) : std::string("eager");
  // Other measurement methods, not comparable with calls that are issued and timed one by one in a stream.
  if (together > 1) axes["aggregated"] = together;
  if (config.text("blocking_collectives") == "true") axes["blocking"] = true;
  return axes;
}

void add_row_axes(std::map<std::string, AxisValue>& axes, const Fields& row, const ProgramRow& program) {
  axes["dtype"] = nccl_type_name(row.text("type"));
  axes["bytes"] = row.integer("size");
  axes["count"] = row.integer("count");
  if (program.reduces) axes["op"] = row.text("redop");
  if (program.rooted) axes["root"] = root_of(row);
}

void add_series(Record& record, const Fields& body, int64_t ranks) {
  if (body.has("cpu_time") && !body.has("time"))
    body.fail("cpu_time", "is the time of the host's calls, not of the collective", "a run without -C 1");
  record.series = collective_series({&body, "time", "alg_bw", "bus_bw"}, ranks);
  if (!body.has("nwrong") || body.value().at("nwrong").is_null()) return;  // not verified
  const double wrong = body.number("nwrong");
  record.series.push_back({"wrong", "1", {wrong}});
  if (wrong > 0) record.status = {Status::Kind::failed, fmt::format("{:.0f} elements are wrong", wrong)};
}

}  // namespace

std::string nccl_type_name(const std::string& type) {
  const auto known = std::find_if(std::begin(kTypes), std::end(kTypes), [&](const auto& t) { return t.first == type; });
  return known == std::end(kTypes) ? type : std::string(known->second);
}

std::vector<Series> collective_series(const CollectiveFields& fields, int64_t ranks) {
  const Fields& body = *fields.body;
  std::vector<Series> series{{"time", "us", {positive(body, fields.time)}},
                             {"algbw", "GB/s", {positive(body, fields.algbw)}}};
  if (ranks != 1 || body.number(fields.busbw) != 0) series.push_back({"busbw", "GB/s", {positive(body, fields.busbw)}});
  return series;
}

std::optional<CollectiveTraits> nccl_tests_traits(std::string_view collective) {
  for (const ProgramRow& row : kPrograms)
    if (row.collective == collective) return CollectiveTraits{row.reduces, row.rooted};
  return std::nullopt;
}

Measurements read_nccl_tests(const Fields& document, const std::string& origin) {
  const int64_t version = document.integer("version");
  if (version < 1 || version > kNewestVersion)
    throw Error(Cause::version_refused,
                fmt::format("{}: field 'version' is {}; versions 1 to {} of nccl-tests' JSON are known here", origin,
                            version, kNewestVersion),
                "nccl-tests 2.17 to 2.19");
  const ProgramRow& program = program_of(document);
  const Fields config = document.object("config");
  const Provenance provenance = provenance_of(document, config);
  Measurements found{"collectives", provenance.tool_version, {}, {}, true};
  const json& results = document.array("results");
  int num_empty = 0;
  for (size_t i = 0; i < results.size(); ++i) {
    const Fields row = document.element(results, "results", i);
    if (row.integer("size") == 0) {  // what gathers write where a size is below one element per rank
      ++num_empty;
      continue;
    }
    for (const auto& [placement, in_place] : kPlacements) {
      if (!row.has(placement) || row.value().at(placement).is_null()) continue;  // not measured
      Record record;
      record.kind = "collective";
      record.provenance = provenance;
      record.source = fmt::format("{}: results[{}].{}", origin, i, placement);
      record.axes = common_axes(config, program);
      record.axes["in_place"] = in_place;
      add_row_axes(record.axes, row, program);
      add_series(record, row.object(placement), std::get<int64_t>(record.axes.at("devices")));
      add_record(found, std::move(record), origin);
    }
  }
  if (found.records.empty()) document.fail("results", "holds no result", "a run that measured something");
  if (num_empty > 0)
    found.notes.push_back(fmt::format("{}: {} result{} of size 0, where nothing is measured, left out", origin,
                                      num_empty, num_empty == 1 ? "" : "s"));
  if (document.has("errors"))
    for (const std::string& error : document.texts("errors"))
      if (!error.empty()) found.notes.push_back(fmt::format("{}: nccl-tests says: {}", origin, error));
  return found;
}

}  // namespace amdahl
