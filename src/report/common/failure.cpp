#include "report/common/failure.h"

#include <fmt/format.h>

#include <algorithm>

#include "amdahl/error.h"
#include "report/common/aligned_table.h"

namespace amdahl {
namespace {

std::string state_text(const FailureRank& rank) {
  std::string text = rank.ended ? "ended" : "running";
  if (rank.signal != 0) text += fmt::format(", signal {}", rank.signal);
  return text;
}

/// The call in which the rank was: the first unfinished one, otherwise its last.
std::vector<std::string> row_of(const FailureRank& rank) {
  std::vector<std::string> row{std::to_string(rank.rank), printable(rank.host, 40), state_text(rank)};
  if (rank.calls.empty()) {
    row.insert(row.end(), {"none", "", "", ""});
    return row;
  }
  const auto unfinished =
      std::find_if(rank.calls.begin(), rank.calls.end(), [](const FailureCall& call) { return !call.finished; });
  const FailureCall& shown = unfinished == rank.calls.end() ? rank.calls.back() : *unfinished;
  row.insert(row.end(),
             {printable(shown.name, 80), shown.finished ? "finished" : "unfinished",
              fmt::format("{:.3f} s", shown.age_seconds), fmt::format("{}", rank.calls.back().number - shown.number)});
  return row;
}

}  // namespace

std::string failure_line(const Failure& failure) {
  std::string text = fmt::format("the run ended early at {}: {}: ", failure.time, failure.cause);
  if (failure.rank >= 0) text += fmt::format("rank {}: ", failure.rank);
  text += printable(failure.message, 400);
  if (failure.signal != 0) text += fmt::format(" (signal {})", failure.signal);
  return text;
}

std::string failure_text(const Failure& failure) {
  std::string text = failure_line(failure) + "\n";
  if (!failure.remedy.empty()) text += fmt::format("try: {}\n", printable(failure.remedy, 400));
  if (failure.ranks.empty()) return text;
  std::vector<std::vector<std::string>> rows{
      {"rank", "host", "process", "collective", "state", "issued before the end", "calls after it"}};
  for (const FailureRank& rank : failure.ranks) rows.push_back(row_of(rank));
  return text + "\n" + aligned_table(rows);
}

}  // namespace amdahl
