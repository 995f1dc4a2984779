#include "amdahl/error.h"

#include <array>
#include <utility>

namespace amdahl {
namespace {

struct CauseRow {
  Cause cause;
  std::string_view name;
  int exit_code;
};

// Exit codes by group: 1 check or internal, 2 usage or input, 3 environment or memory, 4 rank or device, 5 store,
// 6 timeout, 7 disk full, 130 interrupted.
constexpr std::array<CauseRow, 17> kCauses{{
    {Cause::usage, "usage", 2},
    {Cause::check_failed, "check-failed", 1},
    {Cause::environment_missing, "environment-missing", 3},
    {Cause::launcher_mismatch, "launcher-mismatch", 2},
    {Cause::rank_died, "rank-died", 4},
    {Cause::rank_hung, "rank-hung", 6},
    {Cause::collective_mismatch, "collective-mismatch", 4},
    {Cause::peer_unreachable, "peer-unreachable", 4},
    {Cause::device_error, "device-error", 4},
    {Cause::out_of_memory, "out-of-memory", 3},
    {Cause::data_corrupt, "data-corrupt", 2},
    {Cause::store_corrupt, "store-corrupt", 5},
    {Cause::version_refused, "version-refused", 5},
    {Cause::disk_full, "disk-full", 7},
    {Cause::non_finite, "non-finite", 1},
    {Cause::interrupted, "interrupted", 130},
    {Cause::internal, "internal", 1},
}};

const CauseRow& row_of(Cause cause) {
  for (const CauseRow& row : kCauses)
    if (row.cause == cause) return row;
  return kCauses.back();
}

}  // namespace

std::string_view to_string(Cause cause) { return row_of(cause).name; }
int exit_code(Cause cause) { return row_of(cause).exit_code; }

// `named` is idempotent, so with_rank() can pass the message and remedy through it again.
Error::Error(Cause cause, const std::string& message, std::string remedy, int rank)
    : std::runtime_error(named(message)), cause_(cause), remedy_(std::move(remedy)), rank_(rank) {
  remedy_ = named(remedy_);
}

std::string Error::line() const {
  std::string text = "error[" + std::string(to_string(cause_)) + "]: ";
  const std::string who = "rank " + std::to_string(rank_), message = what();
  if (rank_ >= 0 && message.rfind(who + " ", 0) != 0) text += who + ": ";  // "rank 2 died" names the rank already
  // Messages quote files, names and options of any content: escape and shorten them to one readable line.
  constexpr size_t kLongestMessage = 600, kLongestRemedy = 400;
  text += printable(message, kLongestMessage);
  if (!remedy_.empty()) text += "; try: " + printable(remedy_, kLongestRemedy);
  return text;
}

Error Error::with_rank(int rank) const { return Error(cause_, what(), remedy_, rank); }

}  // namespace amdahl
