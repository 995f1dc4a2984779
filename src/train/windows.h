// Windows of consecutive rows, the inputs of sequence models.
#pragma once

#include "train/dataset.h"

namespace amdahl {

/// A data set whose row r is the rows [r * stride, r * stride + window) of `rows`, as [window, features], with the
/// target of the last one. Error{usage} for a window longer than the data, or a window or stride below 1;
/// Error{out_of_memory} when the windows exceed the memory of this machine. `origin` names the data in errors.
Dataset slide_windows(const Dataset& rows, int64_t window, int64_t stride, const std::string& origin);

/// Number of windows of `window` values in `values`, one every `stride`; 0 when there is none.
int64_t num_windows(int64_t values, int64_t window, int64_t stride);
/// Number of later windows that have values of a window: Dataset::overlap.
int64_t window_overlap(int64_t window, int64_t stride);

}  // namespace amdahl
