// The kinds of pipeline schedules: names, the numbers each is defined for, and the activations it holds. The actions
// of a schedule are in parallel/pipeline/schedule.h.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "amdahl/error.h"

namespace amdahl {

enum class ScheduleKind {
  gpipe,        // all forwards, then all backwards (Huang et al., 2019, arXiv:1811.06965)
  one_f_one_b,  // one forward, one backward, with a flush: PipeDream-flush (Narayanan et al., 2021, arXiv:2006.09503)
  interleaved,  // 1F1B with several chunks of the model per rank (Narayanan et al., 2021, arXiv:2104.04473)
  zb_h1,        // 1F1B with weight gradients in the bubble, same memory (Qi et al., 2023, arXiv:2401.10241, 2.1)
  zb_v,         // two chunks per rank in the shape of a V, no bubble at equal times (the same, section 6)
};

/// Every kind, in the order above.
const std::vector<ScheduleKind>& schedule_kinds();

/// "gpipe", "1f1b", "interleaved", "zb-h1", "zb-v".
std::string_view to_string(ScheduleKind kind);

/// Whether the kind is defined for these numbers. If not, the reason names the nearest numbers that are feasible.
///
/// `chunks` is the number of stages that every rank holds: 1 for gpipe, 1f1b and zb-h1, at least 2 for interleaved
/// (rank r holds stages r, p + r, 2p + r, ... of p ranks; micro-batches must be a multiple of the ranks) and 2 for zb-v
/// (rank r holds stages r and 2p - 1 - r). More than 2^24 forwards of all ranks together are not feasible.
Feasibility schedule_feasible(ScheduleKind kind, int num_ranks, int num_micro_batches, int chunks);

/// Throws Error{usage} with the reason when the numbers are not feasible.
void require_schedule_feasible(ScheduleKind kind, int num_ranks, int num_micro_batches, int chunks);

/// The fewest stages per rank that the kind is defined for: 1, or 2 of interleaved and zb-v.
int least_chunks(ScheduleKind kind);

/// `peak_activations` of `make_schedule`'s schedule on one rank, in activations of one micro-batch in one stage; p
/// ranks, m micro-batches, v chunks:
/// - gpipe: m;
/// - 1f1b: min(m, p - rank) (Narayanan et al., 2021, arXiv:2006.09503);
/// - interleaved: min(v m, 2 (p - 1 - rank) + (v - 1) p + 1), its forwards before the first backward (Narayanan et al.,
///   2021, arXiv:2104.04473);
/// - zb-h1: min(m, p) on every rank, as rank 0 of 1f1b (Qi et al., 2023, arXiv:2401.10241, section 2);
/// - zb-v: min(2m, 2p, m + 1 + rank), of halves of a rank's part, so that for m >= 2p - 1 every rank holds as much as
///   rank 0 of 1f1b (the same, section 6; found for this schedule where m is less).
///
/// Error{usage} where the schedule is not feasible or the rank does not exist.
int peak_activations_formula(ScheduleKind kind, int num_ranks, int num_micro_batches, int chunks, int rank);

/// Whether backward is two passes, of input gradients and of weight gradients.
bool splits_backward(ScheduleKind kind);

/// The rank that holds a stage: stage % num_ranks, or in zb-v down the ranks and back up.
int rank_of_stage(ScheduleKind kind, int num_ranks, int stage);

}  // namespace amdahl
