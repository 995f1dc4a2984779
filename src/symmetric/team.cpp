#include "symmetric/team.h"

#include <fmt/format.h>

namespace amdahl {

Error late_rank_error(const Team& team, int team_rank, const std::string& what, double timeout_seconds) {
  const int rank = team.job_rank(team_rank);
  return {Cause::rank_hung, fmt::format("rank {} did not reach {} within {:g} s", rank, what, timeout_seconds),
          "look at what that rank is doing, or raise `timeout_seconds` if it is only slow", rank};
}

void check_team(const Team& team) {
  if (team.size() < 1 || team.size() > kMaxTeamRanks)
    throw Error(Cause::usage, fmt::format("symmetric memory of {} ranks", team.size()),
                fmt::format("1 to {} ranks", kMaxTeamRanks));
  if (team.rank < 0 || team.rank >= team.size())
    throw Error(Cause::usage, fmt::format("rank {} of a team of {}", team.rank, team.size()), "a rank of the team");
}

}  // namespace amdahl
