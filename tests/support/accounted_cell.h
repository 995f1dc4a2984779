// Runs one cell of a study on job devices and returns the measurements of all ranks.
#pragma once

#include <vector>

#include "comm/world.h"
#include "measure/study/cell.h"
#include "small_job.h"

namespace amdahl::test {

/// `runs[run][rank]` of one cell, with its step account in up to 10 of them.
inline std::vector<std::vector<RankRun>> run_cell(JobDevices& job, const TrainerOptions& options, int runs, int steps) {
  StudySettings settings;
  settings.model = options.model;
  settings.trainer = options;
  settings.runs = runs;
  settings.warmup = 3;
  settings.steps = steps;
  const Dataset data =
      make_study_dataset(4 * options.plan.global_batch, options.model.input_width, options.model.output_width(), 3);
  const int world = options.plan.num_devices();
  std::vector<std::vector<RankRun>> result(static_cast<size_t>(runs));
  run_rank_threads(
      world,
      [&](int index) {
        const auto r = static_cast<size_t>(index);
        job.devices[r]->bind_thread();
        RankContext rank{index, world, *job.devices[r], *job.ops[r], *job.communicators[r]};
        StudyCellRank cell(rank, options, data, settings);
        for (auto& run : result) {
          const RankRun mine = cell.run();
          std::vector<RankRun> all = gather_runs(rank.communicator, mine, Deadline::after_seconds(60));
          if (index == 0) run = std::move(all);
        }
      },
      [&](const Error& cause) {
        for (auto& communicator : job.communicators) communicator->abort(cause);
      });
  return result;
}

}  // namespace amdahl::test
