// Compares predictions with a file of measured iterations, each left out of the fit that predicts it.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "amdahl/planner.h"

namespace amdahl {

/// Rows of a CSV with the columns gpus, global_batch, micro_batch, hidden, heads, layers, sequence, tp, dp, pp and
/// iteration_ms, in any order. Error{data_corrupt} names the line and column.
std::vector<MeasuredIteration> parse_iterations(std::string_view text, const std::string& name);

/// The GPT model of a row: vocabulary 50,257, tied.
ModelSpec model_of(const MeasuredIteration& row);
ParallelPlan plan_of(const MeasuredIteration& row);

/// Fits to `rows` and predicts them: in the sample, and leaving out each value of each grouping. `also`: rows that take
/// part in no fit. `progress` is told what is left out next, as one of so many fits.
PlanValidation validate_planner(const std::vector<MeasuredIteration>& rows, const std::vector<MeasuredIteration>& also,
                                bool sizes,
                                const std::function<void(int done, int total, const std::string& left_out)>& progress);
/// Errors of another tool's predictions of the same iterations, in the same order. Error{usage} for other iterations.
ErrorSummary errors_of_tool(const std::string& name, const std::vector<MeasuredIteration>& measured,
                            const std::vector<MeasuredIteration>& predicted);

}  // namespace amdahl
