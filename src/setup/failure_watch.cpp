#include "setup/failure_watch.h"

#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <ctime>

#include "amdahl/machine.h"
#include "base/child_process.h"
#include "comm/flight_recorder.h"
#include "comm/world.h"
#include "report/common/failure.h"
#include "setup/provenance.h"

namespace amdahl {
namespace {

namespace fs = std::filesystem;

std::string utc_of_us(int64_t time_us) { return utc_text(static_cast<std::time_t>(time_us / 1'000'000)); }

/// The shared pages of this process may already be unmapped when its error is recorded.
bool is_this_process(const RankFlight& flight) {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  return flight.process == ::getpid() && flight.host == host.data();
}

/// The calls that show the position of a rank: some before and after its first unfinished one, and its last.
std::vector<RecordedCall> around_the_end(const std::vector<RecordedCall>& calls) {
  constexpr std::ptrdiff_t kBefore = 4, kAfter = 4;
  const auto last_finished =
      std::find_if(calls.rbegin(), calls.rend(), [](const RecordedCall& call) { return call.finished; });
  const std::ptrdiff_t first_unfinished = calls.rend() - last_finished, count = std::ssize(calls);
  std::vector<RecordedCall> kept;
  for (std::ptrdiff_t i = std::max<std::ptrdiff_t>(0, first_unfinished - kBefore); i < count; ++i)
    if (i < first_unfinished + kAfter || i + 1 == count) kept.push_back(calls[static_cast<size_t>(i)]);
  return kept;
}

std::vector<FailureRank> ranks_of(const std::vector<RankFlight>& flights, int64_t at_us) {
  std::vector<FailureRank> ranks;
  for (const RankFlight& flight : flights) {
    FailureRank rank{flight.rank,   flight.host, flight.process, !flight.alive && !is_this_process(flight),
                     flight.signal, {}};
    for (const RecordedCall& call : around_the_end(flight.calls))
      rank.calls.push_back({call.number, call.call.describe(), call.world_size,
                            std::max(0.0, static_cast<double>(at_us - call.issued_us) / 1e6), call.finished});
    ranks.push_back(std::move(rank));
  }
  return ranks;
}

/// Sets the host of the failed rank, and the signal that ended it if known.
void name_rank(Failure& failure) {
  const auto found = std::find_if(failure.ranks.begin(), failure.ranks.end(),
                                  [&](const FailureRank& rank) { return rank.rank == failure.rank; });
  if (found == failure.ranks.end()) return;
  failure.host = found->host;
  if (failure.signal == 0) failure.signal = found->signal;
}

/// Reconstructs the failure of a run whose processes were all killed from their flight recorders.
std::optional<Failure> failure_of_flights(const fs::path& run_dir) {
  const std::vector<RankFlight> flights = read_flights(run_dir / kFlightFolder);
  if (flights.empty() || std::any_of(flights.begin(), flights.end(), [](const RankFlight& f) { return f.alive; }))
    return std::nullopt;
  int64_t last_us = 0;
  for (const RankFlight& flight : flights)
    for (const RecordedCall& call : flight.calls) last_us = std::max(last_us, call.issued_us);
  Failure failure;
  failure.cause = "unknown";
  failure.message = "its processes ended without an error of their own, as when they are killed";
  failure.time = utc_of_us(last_us);
  failure.ranks = ranks_of(flights, last_us);
  if (failure.ranks.size() == 1) failure.rank = failure.ranks.front().rank;
  name_rank(failure);
  return failure;
}

}  // namespace

Failure describe_failure(const fs::path& run_dir, const Error& error) {
  const int64_t now = unix_time_us();
  Failure failure;
  failure.cause = to_string(error.cause());
  failure.message = error.what();
  failure.remedy = error.remedy();
  failure.time = utc_of_us(now);
  failure.rank = error.rank();
  if (const auto* ended = dynamic_cast<const SignalledError*>(&error)) failure.signal = ended->signal();
  failure.ranks = ranks_of(read_flights(run_dir / kFlightFolder), now);
  name_rank(failure);
  return failure;
}

void leave_failure(const fs::path& run_dir, const Error& error) noexcept try {
  std::error_code none;
  if (run_dir.empty() || !fs::is_directory(run_dir, none)) return;
  write_failure(run_dir, describe_failure(run_dir, error));
} catch (...) {  // the user must see the original error
}

std::optional<Failure> failure_of(const fs::path& run_dir) {
  if (auto failure = read_failure(run_dir)) return failure;
  return failure_of_flights(run_dir);
}

std::string failure_note(const fs::path& run_dir) try {
  const std::optional<Failure> failure = failure_of(run_dir);
  return failure ? failure_line(*failure) : std::string();
} catch (const Error& error) {
  return error.what();
}

void require_records(const std::string& run_dir, const RunContents& contents) {
  if (!contents.records.empty()) return;
  const fs::path place(run_dir);
  const std::string note = failure_note(fs::is_directory(place) ? place : place.parent_path());
  throw Error(Cause::store_corrupt,
              fmt::format("{}: nothing was measured in this run{}{}", run_dir, note.empty() ? "" : ": ", note),
              unfinished_remedy(contents.header.kind));
}

void tell_other_ranks(const std::map<std::string, std::string>& environment, const Error& error) noexcept try {
  for (const Cause known : {Cause::launcher_mismatch, Cause::peer_unreachable, Cause::rank_died, Cause::rank_hung})
    if (error.cause() == known) return;  // found while they met
  tell_early_end(detect_launch(environment), error);
} catch (const Error&) {  // variables that contradict each other: there is no job
}

void note_signal(int signal) noexcept { note_signal_in_flights(signal); }

}  // namespace amdahl
