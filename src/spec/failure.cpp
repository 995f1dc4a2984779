#include "spec/failure.h"

#include <fmt/format.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "files/whole_file.h"
#include "spec/json_fields.h"

namespace amdahl {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

json signal_json(int signal) { return signal == 0 ? json(nullptr) : json(signal); }

int signal_of(const Fields& fields) {
  const auto found = fields.value().find("signal");
  return found == fields.value().end() || found->is_null() ? 0 : static_cast<int>(fields.integer("signal"));
}

json rank_json(const FailureRank& rank) {
  json calls = json::array();
  for (const FailureCall& call : rank.calls)
    calls.push_back({{"number", call.number},
                     {"name", call.name},
                     {"ranks", call.ranks},
                     {"age_s", call.age_seconds},
                     {"finished", call.finished}});
  return {{"rank", rank.rank},
          {"host", rank.host},
          {"process", rank.process},
          {"state", rank.ended ? "ended" : "running"},
          {"signal", signal_json(rank.signal)},
          {"calls", calls}};
}

FailureRank rank_from(const Fields& fields) {
  FailureRank rank;
  rank.rank = static_cast<int>(fields.integer("rank"));
  rank.host = fields.text("host");
  rank.process = fields.integer("process");
  rank.ended = fields.text("state") == "ended";
  rank.signal = signal_of(fields);
  const json& calls = fields.array("calls");
  for (size_t i = 0; i < calls.size(); ++i) {
    const Fields call = fields.element(calls, "calls", i);
    rank.calls.push_back({call.natural("number"), call.text("name"), static_cast<int>(call.integer("ranks")),
                          call.number("age_s"), call.boolean("finished")});
  }
  return rank;
}

}  // namespace

std::string failure_to_json(const Failure& failure) {
  json ranks = json::array();
  for (const FailureRank& rank : failure.ranks) ranks.push_back(rank_json(rank));
  return dump({{"type", "failure"},
               {"version", kSchemaVersion},
               {"cause", failure.cause},
               {"message", failure.message},
               {"remedy", failure.remedy},
               {"time", failure.time},
               {"rank", failure.rank < 0 ? json(nullptr) : json(failure.rank)},
               {"host", failure.host},
               {"signal", signal_json(failure.signal)},
               {"ranks", ranks}},
              2);
}

Failure failure_from_json(const std::string& text, const std::string& origin) {
  const json document = parse_document(text, origin, Cause::store_corrupt);
  const Fields fields(document, origin, {}, Cause::store_corrupt);
  fields.require_version();
  Failure failure;
  failure.cause = fields.text("cause");
  failure.message = fields.text("message");
  failure.remedy = fields.text("remedy");
  failure.time = fields.text("time");
  const auto rank = document.find("rank");
  if (rank != document.end() && !rank->is_null()) failure.rank = static_cast<int>(fields.integer("rank"));
  failure.host = fields.text("host");
  failure.signal = signal_of(fields);
  const json& ranks = fields.array("ranks");
  for (size_t i = 0; i < ranks.size(); ++i) failure.ranks.push_back(rank_from(fields.element(ranks, "ranks", i)));
  return failure;
}

std::optional<Failure> read_failure(const fs::path& folder) {
  const fs::path path = folder / kFailureFile;
  std::error_code error;
  if (!fs::exists(path, error)) return std::nullopt;
  return failure_from_json(read_file(path, Cause::store_corrupt), path.string());
}

void write_failure(const fs::path& folder, const Failure& failure) {
  const fs::path path = folder / kFailureFile;
  const fs::path draft = folder / fmt::format(".{}.{}", kFailureFile, ::getpid());
  write_atomic(draft, failure_to_json(failure) + "\n");
  [[maybe_unused]] const int there = ::link(draft.c_str(), path.c_str());  // fails if another process was first
  ::unlink(draft.c_str());
}

void remove_failure(const fs::path& folder) {
  std::error_code error;
  fs::remove(folder / kFailureFile, error);
  fs::remove_all(folder / kFlightFolder, error);
}

}  // namespace amdahl
