// The ranks that share symmetric memory.
#pragma once

#include <string>

#include "amdahl/error.h"
#include "comm/rank_group.h"
#include "symmetric/team_view.h"

namespace amdahl {

/// Ranks of a job in the order of their ranks in the team, and which one this is.
using Team = RankGroup;

/// Error{rank_hung}: rank `team_rank` of the team, named by its rank in the job, did not reach `what` in time.
Error late_rank_error(const Team& team, int team_rank, const std::string& what, double timeout_seconds);
/// Throws Error{usage} for an empty team, more than kMaxTeamRanks ranks, or a rank outside the team.
void check_team(const Team& team);

}  // namespace amdahl
