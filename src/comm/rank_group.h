// A group of ranks of a job, in the order of their ranks in the group.
#pragma once

#include <string>
#include <vector>

namespace amdahl {

struct RankGroup {
  std::vector<int> members;  // rank in the job by rank in the group
  int rank = 0;              // rank in the group of this thread or process

  int size() const { return static_cast<int>(members.size()); }
  /// Rank in the job of the group's rank `rank_in_group`.
  int job_rank(int rank_in_group) const { return members[static_cast<size_t>(rank_in_group)]; }
  int own_job_rank() const { return job_rank(rank); }
  std::vector<int> job_ranks(const std::vector<int>& ranks_in_group) const;
  /// Whether the members are ranks 0 to size() - 1, in that order.
  bool is_first() const;
  /// Converts a group whose members are ranks of `outer` to a group of the job.
  RankGroup within(const RankGroup& outer) const { return {outer.job_ranks(members), rank}; }

  /// The first `size` ranks of the job; this rank is `rank`.
  static RankGroup first(int size, int rank);
};

/// The group of `rank` in a split: ranks with the same color form a group, ordered by key, then by rank. `said`: the
/// split_message() of every rank. Empty for a color below 0.
RankGroup group_of_split(const std::vector<std::string>& said, int rank);
std::string split_message(int color, int key);

}  // namespace amdahl
