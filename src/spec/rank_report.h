// What one rank of a user's training script writes about its run: the file between `run_script_study` and the Python
// package.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace amdahl {

/// What a rank is asked to do, by the file that AMDAHL_LAB_JOB names.
struct RankJob {
  int64_t steps = 0, warmup = 0, account_steps = 0;
  std::string wrap;          // how measure() wraps the module; empty: not at all, or a script that does it itself
  int64_t global_batch = 0;  // rows of a step of all ranks; 0: the script's own
  std::string result;        // rank r writes RESULT.r.json
};
std::string rank_job_to_json(const RankJob& job);

/// Parts of a step in us, means over the accounted steps.
struct RankAccount {
  int64_t steps = 0;
  double step_us = 0;
  double forward_us = 0, backward_us = 0;  // no parts of the sum
  double compute_us = 0, exposed_us = 0, launch_gaps_us = 0, input_us = 0, optimizer_us = 0;
  std::vector<double> waits_us;     // of each step, for later ranks in all its communications; empty: not known
  std::vector<double> arrivals_us;  // at the last communication of each step, on the host's monotonic clock
  double total_communication_us = 0, comm_bytes = 0;

  double parts_us() const { return compute_us + exposed_us + launch_gaps_us + input_us + optimizer_us; }
};

struct RankReport {
  int64_t rank = 0, world_size = 1;
  std::string model, optimizer, math, launch;
  int64_t num_parameters = 0;
  int64_t samples = 0;              // of this rank in a step; 0: not known
  std::string device, device_name;  // "cuda", "cpu"
  std::map<std::string, std::string> facts;
  double window_us = 0;  // of the timed steps
  int64_t steps = 0, warmup = 0;
  std::optional<double> loss_first, loss_last, memory_peak_bytes;
  std::optional<RankAccount> account;
  std::vector<std::string> notes;
};
/// Error{data_corrupt} for a file that is no report, or whose numbers cannot be: no positive time, parts that are not
/// the step.
RankReport rank_report_from_json(std::string_view text, std::string_view origin);

}  // namespace amdahl
