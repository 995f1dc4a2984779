#include "report/fabric/onesided_contests.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "amdahl/error.h"
#include "base/record_values.h"
#include "stats/percentile.h"

namespace amdahl {
namespace {

constexpr const char* kGemmKind = "onesided-gemm";
constexpr const char* kLocalityKind = "onesided-locality";

bool is_pushed(const Record& record) { return text_axis(record, "transport").starts_with("one-sided"); }
double median_us(const Record& record) { return percentile(samples_of(record, "time"), 50); }

/// The methods of one GEMM of one shape, in the order of the records.
struct GemmContest {
  std::string title, gemm;
  int64_t m, n, k;
  std::vector<const Record*> methods;

  /// The fastest method that pushes tiles, or of the collectives; null when none was measured.
  const Record* fastest(bool pushed) const {
    const Record* best = nullptr;
    for (const Record* record : methods)
      if (is_pushed(*record) == pushed && (!best || median_us(*record) < median_us(*best))) best = record;
    return best;
  }
  bool decided() const { return fastest(true) && fastest(false); }
  bool pushed_wins() const { return median_us(*fastest(true)) < median_us(*fastest(false)); }
};

std::vector<GemmContest> gemm_contests(const std::vector<Record>& records) {
  std::vector<GemmContest> contests;
  for (const Record& record : records) {
    if (record.kind != kGemmKind || samples_of(record, "time").empty() || record.status.kind != Status::Kind::ok)
      continue;
    GemmContest key{onesided_title(record),        text_axis(record, "gemm"),     axis<int64_t>(record, "m", 0),
                    axis<int64_t>(record, "n", 0), axis<int64_t>(record, "k", 0), {}};
    auto found = std::find_if(contests.begin(), contests.end(), [&](const GemmContest& each) {
      return std::tie(each.title, each.gemm, each.m, each.n, each.k) ==
             std::tie(key.title, key.gemm, key.m, key.n, key.k);
    });
    if (found == contests.end()) found = contests.insert(contests.end(), std::move(key));
    found->methods.push_back(&record);
  }
  return contests;
}

std::string tiles_text(const Record& record) {
  return record.axes.contains("tiles") ? std::to_string(axis<int64_t>(record, "tiles", 0)) : "-";
}

/// How the best tiles compare with the best collective, at the row that decides.
std::string outcome_text(const GemmContest& contest, const Record* record) {
  if (!contest.decided() || record != contest.fastest(true)) return "";
  const double ratio = median_us(*contest.fastest(false)) / median_us(*record);
  return contest.pushed_wins() ? fmt::format("wins, {:.2f}x", ratio) : fmt::format("loses, {:.2f}x", ratio);
}

struct Locality {
  const Record* record;
  double speedup;  // over the first method with the same data
  bool is_first;
};

std::vector<Locality> localities(const std::vector<Record>& records) {
  std::vector<Locality> found;
  std::map<std::string, double> first_us;
  for (const Record& record : records) {
    if (record.kind != kLocalityKind || samples_of(record, "time").empty()) continue;
    const std::string what = fmt::format("{}|{}|{}|{}", onesided_title(record), axis<int64_t>(record, "passes", 0),
                                         text_axis(record, "placement"), axis<int64_t>(record, "bytes", 0));
    const auto [first, is_first] = first_us.try_emplace(what, median_us(record));
    found.push_back({&record, first->second / median_us(record), is_first});
  }
  return found;
}

}  // namespace

std::string onesided_title(const Record& record) {
  return fmt::format("{} {}, {}{}", axis<int64_t>(record, "devices", 0), text_axis(record, "ranks"),
                     record.provenance.device_kind == "cuda" ? "GPU" : "CPU",
                     record.origin == Origin::emulated ? ", emulated: the ranks share one GPU" : "");
}

std::string gemm_verdict(const std::vector<Record>& records) {
  int wins = 0, all = 0;
  for (const GemmContest& contest : gemm_contests(records))
    if (contest.decided()) ++all, wins += contest.pushed_wins();
  if (all == 0) return {};
  return fmt::format(
      "Tiles that are pushed as they finish are faster than the fastest collective in {} of {} GEMMs with "
      "communication.",
      wins, all);
}

PageTable gemm_contest_table(const std::vector<Record>& records) {
  PageTable table{
      "GEMMs with communication; best tiles: the fastest one-sided method against the fastest collective of the shape",
      {{{"gemm", "GEMM"},
        {"ranks", "Ranks"},
        {"m", "M"},
        {"n", "N"},
        {"k", "K"},
        {"transport", "By"},
        {"tiles", "Tiles"},
        {"time_us", "Time, median (us)"},
        {"p95_us", "95th percentile (us)"},
        {"rate_gflops", "Rate (GFLOP/s)"},
        {"outcome", "Best tiles"}},
       {}}};
  for (const GemmContest& contest : gemm_contests(records))
    for (const Record* record : contest.methods)
      table.table.rows.push_back({contest.gemm, contest.title, contest.m, contest.n, contest.k,
                                  text_axis(*record, "transport"), tiles_text(*record), median_us(*record),
                                  percentile(samples_of(*record, "time"), 95), rate_at_median(*record, "rate", "time"),
                                  outcome_text(contest, record)});
  return table;
}

TableValue rate_at_median(const Record& record, const char* rates, const char* times) {
  const std::vector<double>&rate = samples_of(record, rates), &time = samples_of(record, times);
  if (rate.empty() || time.empty()) return {};
  return rate.front() * time.front() / percentile(time, 50);
}

std::string locality_verdict(const std::vector<Record>& records) {
  int wins = 0, all = 0;
  Locality best{nullptr, 0, false};
  for (const Locality& each : localities(records)) {
    if (each.is_first) continue;
    ++all, wins += each.speedup > 1;
    if (each.speedup > best.speedup) best = each;
  }
  if (all == 0) return {};
  return fmt::format("A kernel whose data is {} is faster in {} of {} cases, at most {:.2f}x: {} bytes of {} memory.",
                     text_axis(*best.record, "method"), wins, all, best.speedup,
                     with_thousands(axis<int64_t>(*best.record, "bytes", 0)), text_axis(*best.record, "placement"));
}

PageTable locality_table(const std::vector<Record>& records) {
  PageTable table{"A kernel that reads its data in several memories",
                  {{{"placement", "Data"},
                    {"ranks", "Ranks"},
                    {"bytes", "Bytes"},
                    {"method", "Method"},
                    {"passes", "Passes"},
                    {"time_us", "Time, median (us)"},
                    {"p95_us", "95th percentile (us)"},
                    {"bandwidth_gbps", "Bandwidth (GB/s)"},
                    {"speedup", "Speedup over the first"}},
                   {}}};
  for (const auto& [record, speedup, is_first] : localities(records))
    table.table.rows.push_back(
        {text_axis(*record, "placement"), onesided_title(*record), axis<int64_t>(*record, "bytes", 0),
         text_axis(*record, "method"), axis<int64_t>(*record, "passes", 0), median_us(*record),
         percentile(samples_of(*record, "time"), 95), rate_at_median(*record, "bandwidth", "time"), speedup});
  return table;
}

}  // namespace amdahl
