#include "report/fabric/onesided_contests.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "base/record_values.h"
#include "stats/percentile.h"

namespace amdahl {
namespace {

constexpr const char* kOneKernel = "one-sided";

double norm_us(const Record& record) { return percentile(samples_of(record, "time"), 50); }

/// The methods of one shape, in the order of the records.
struct NormContest {
  std::string title;
  int64_t rows, width;
  std::vector<const Record*> methods;

  const Record* one_kernel() const {
    for (const Record* record : methods)
      if (text_axis(*record, "transport") == kOneKernel) return record;
    return nullptr;
  }
  /// The faster of the collectives; null when none was measured.
  const Record* two_operations() const {
    const Record* best = nullptr;
    for (const Record* record : methods)
      if (text_axis(*record, "transport") != kOneKernel && (!best || norm_us(*record) < norm_us(*best))) best = record;
    return best;
  }
  bool decided() const { return one_kernel() && two_operations(); }
  double gain() const { return norm_us(*two_operations()) / norm_us(*one_kernel()); }
};

std::vector<NormContest> norm_contests(const std::vector<Record>& records) {
  std::vector<NormContest> contests;
  for (const Record& record : records) {
    if (record.kind != "onesided-norm" || samples_of(record, "time").empty() || record.status.kind != Status::Kind::ok)
      continue;
    NormContest key{onesided_title(record), axis<int64_t>(record, "rows", 0), axis<int64_t>(record, "width", 0), {}};
    auto found = std::find_if(contests.begin(), contests.end(), [&](const NormContest& each) {
      return std::tie(each.title, each.rows, each.width) == std::tie(key.title, key.rows, key.width);
    });
    if (found == contests.end()) found = contests.insert(contests.end(), std::move(key));
    found->methods.push_back(&record);
  }
  return contests;
}

std::string gain_text(const NormContest& contest, const Record* record) {
  return contest.decided() && record == contest.one_kernel() ? fmt::format("{:.2f}x", contest.gain()) : "";
}

}  // namespace

std::string norm_verdict(const std::vector<Record>& records) {
  int wins = 0, all = 0;
  double most = 0;
  for (const NormContest& contest : norm_contests(records))
    if (contest.decided()) ++all, wins += contest.gain() > 1, most = std::max(most, contest.gain());
  if (all == 0) return {};
  return fmt::format(
      "All-reduce and normalisation in one kernel are faster than the fastest collective and a kernel after it in {} "
      "of {} shapes, at most {:.2f}x.",
      wins, all, most);
}

PageTable norm_table(const std::vector<Record>& records) {
  PageTable table{"By the communicator of the all-reduce before a normalisation; one-sided: one kernel",
                  {{{"ranks", "Ranks"},
                    {"rows", "Rows"},
                    {"width", "Width"},
                    {"type", "Type"},
                    {"launch", "Launch"},
                    {"transport", "By"},
                    {"time_us", "Time, median (us)"},
                    {"p95_us", "95th percentile (us)"},
                    {"gain", "Gain of one kernel"}},
                   {}}};
  for (const NormContest& contest : norm_contests(records))
    for (const Record* record : contest.methods)
      table.table.rows.push_back({contest.title, contest.rows, contest.width, text_axis(*record, "type"),
                                  text_axis(*record, "launch"), text_axis(*record, "transport"), norm_us(*record),
                                  percentile(samples_of(*record, "time"), 95), gain_text(contest, record)});
  return table;
}

}  // namespace amdahl
