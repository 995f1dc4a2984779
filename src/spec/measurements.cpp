#include "spec/measurements.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "spec/json_fields.h"
#include "spec/peer_json.h"
#include "spec/run_folder.h"

namespace amdahl {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// Kinds of records and the kinds of runs that contain them.
constexpr std::pair<std::string_view, std::string_view> kRunKinds[] = {{"bench-run", "bench"},
                                                                       {"collective", "collectives"},
                                                                       {"link", "links"},
                                                                       {"integrity", "links"},
                                                                       {"onesided", "onesided"},
                                                                       {"onesided-pattern", "onesided"},
                                                                       {"onesided-gemm", "onesided"},
                                                                       {"onesided-norm", "onesided"},
                                                                       {"onesided-locality", "onesided"},
                                                                       {"sensor", "sensor"},
                                                                       {"plan-verification", "plan-verification"},
                                                                       {"study-run", "study"},
                                                                       {"train-epoch", "train"}};

std::string tool_of(const std::vector<Record>& records) {
  return records.empty() ? "amdahl" : "amdahl " + records.front().provenance.tool_version;
}

Measurements read_own(const Fields& document, const std::string& origin) {
  if (document.has("version")) document.require_version();
  Measurements found;
  const json& list = document.array("records");
  for (size_t i = 0; i < list.size(); ++i) {
    const Fields fields = document.element(list, "records", i);
    found.records.push_back(read_record(fields, read_provenance(fields.object("provenance"))));
    found.records.back().source = fmt::format("{}: records[{}]", origin, i);
  }
  if (found.records.empty()) document.fail("records", "is empty", "a run that measured something");
  for (const auto& [kind, run] : kRunKinds)
    if (found.records.front().kind == kind) found.kind = run;
  if (found.kind.empty())
    document.fail("records", fmt::format("holds records of kind \"{}\"", found.records.front().kind),
                  "records of collectives, links or sensors");
  found.tool = tool_of(found.records);
  return found;
}

struct FormatRow {
  const char* key;  // top-level key that only this format has
  Measurements (*read)(const Fields& document, const std::string& origin);
};

constexpr FormatRow kFormats[] = {{"nvbandwidth", read_nvbandwidth},
                                  {"nccl_version", read_nccl_tests},
                                  {"records", read_own},
                                  {"multimodal_fusion", read_robocache}};

Measurements read_document(const std::string& text, const std::string& origin) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin != std::string::npos && text[begin] != '{' && text[begin] != '[')
    throw Error(Cause::usage, fmt::format("{} is no run of amdahl, and not valid JSON of a tool", origin),
                "a run folder, or the JSON of nccl-tests, rccl-tests, nvbandwidth or RoboCache");
  json document;
  try {
    document = parse_document(text, origin, Cause::usage);
  } catch (const Error& error) {
    throw Error(error.cause(), error.what(), "a file that its tool wrote to the end, or a run folder");
  }
  if (document.is_array() && !document.empty() && is_rccl_tests(document[0])) return read_rccl_tests(document, origin);
  if (document.is_array()) return read_published_study(document, origin);
  const Fields fields(document, origin, "", Cause::usage);
  for (const FormatRow& row : kFormats)
    if (fields.has(row.key)) return row.read(fields, origin);
  if (fields.has("cells") && fields.has("conclusion")) return read_study_summary(text, origin);
  throw Error(Cause::usage,
              fmt::format("{}: not the JSON of amdahl (no key 'records'), a study's summary ('cells'), nccl-tests "
                          "('nccl_version'), rccl-tests (lines with 'busBw'), nvbandwidth ('nvbandwidth') or RoboCache "
                          "('multimodal_fusion')",
                          origin),
              "the output of `collectives json` or `sensor bench json`, all_reduce_perf -J FILE or nvbandwidth "
              "-j > FILE");
}

Measurements of_run(RunContents run) {
  if (run.header.kind == "arena") run.header.kind = "collectives";  // sweeps over several transports
  return {run.header.kind, tool_of(run.records), std::move(run.records), std::move(run.notes), false};
}

/// The first line of a JSON Lines file; null when it is not JSON.
json first_line(std::string_view text) {
  try {
    return parse_document(text.substr(0, text.find('\n')), "", Cause::usage);
  } catch (const Error&) {
    return nullptr;
  }
}

}  // namespace

void add_record(Measurements& found, Record record, const std::string& origin) {
  require_provenance((found.records.size() + 1) * num_bytes(record.provenance), origin, Cause::usage);
  found.records.push_back(std::move(record));
}

Measurements read_measurements(const fs::path& path) {
  std::error_code error;
  if (fs::is_directory(path, error) || !fs::exists(path, error)) return of_run(read_run(path));
  const std::string text = read_text_file(path, Cause::usage, kMostRunBytes);
  const json line = first_line(text);
  if (is_rccl_tests(line)) return read_rccl_test_lines(text, path.string());
  if (is_beside_peers(line)) return read_beside_peers(text, path.string());
  const bool run = unpacked_name(path).extension() == ".jsonl" || (line.is_object() && line.contains("type"));
  return run ? of_run(run_from_text(text, path)) : read_document(text, path.string());
}

}  // namespace amdahl
