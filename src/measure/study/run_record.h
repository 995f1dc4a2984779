// What a study's Record holds of one run.
#pragma once

#include <vector>

#include "amdahl/record.h"
#include "measure/study/cell.h"

namespace amdahl {

/// Sets the series of `record` from the measurements of every rank. `modelled`: bytes of one device.
void fill_record(Record& record, const std::vector<RankRun>& ranks, const ModelSpec& model, const ParallelPlan& plan,
                 int64_t modelled);

}  // namespace amdahl
