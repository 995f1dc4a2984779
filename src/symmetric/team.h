// The ranks that share symmetric memory.
#pragma once

#include <string>

#include "amdahl/error.h"
#include "comm/rank_group.h"
#include "symmetric/team_view.h"

namespace amdahl {

/// Ranks of a job in the order of their ranks in the team, and which one this is.
using Team = RankGroup;

/// Error{rank_hung} with the job's rank of `team_rank`, which did not reach `what` in time.
Error late_rank_error(const Team& team, int team_rank, const std::string& what, double timeout_seconds);
/// Error{usage} for a team of no rank or more than kMaxTeamRanks, or a rank that is not in it.
void check_team(const Team& team);

}  // namespace amdahl
