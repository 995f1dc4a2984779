// Ranks of a job that work together, in the order of their ranks among themselves.
#pragma once

#include <string>
#include <vector>

namespace amdahl {

struct RankGroup {
  std::vector<int> members;  // by rank in the group: rank in the job
  int rank = 0;              // of this thread or process in the group

  int size() const { return static_cast<int>(members.size()); }
  /// Rank in the job of the group's rank `rank_in_group`.
  int job_rank(int rank_in_group) const { return members[static_cast<size_t>(rank_in_group)]; }
  int own_job_rank() const { return job_rank(rank); }
  std::vector<int> job_ranks(const std::vector<int>& ranks_in_group) const;
  /// Whether it is ranks 0 to size() - 1, in that order.
  bool is_first() const;
  /// A group of this one's ranks as a group of the job.
  RankGroup within(const RankGroup& outer) const { return {outer.job_ranks(members), rank}; }

  /// The first `size` ranks of the job, of which this is `rank`.
  static RankGroup first(int size, int rank);
};

/// What a rank says in a split: the ranks that say the same color form a group, in the order of their keys, and of
/// equal keys in the order of their ranks. `said`: by rank, as split_message() makes it. Empty for a color below 0.
RankGroup group_of_split(const std::vector<std::string>& said, int rank);
std::string split_message(int color, int key);

}  // namespace amdahl
