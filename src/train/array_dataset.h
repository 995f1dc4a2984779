// Arrays in memory as a Dataset.
#pragma once

#include "amdahl/tensor.h"
#include "train/dataset.h"

namespace amdahl {

/// Copies. `features` [rows, width] f32; `labels` [rows, outputs] f32 to regress on, or [rows] i32 or i64 class
/// numbers from 0 on, of which the largest says how many classes there are. Both dense and in host memory.
/// Error{usage} names the array and what is wrong with it, Error{non_finite} the row and column of a NaN or infinity.
Dataset make_array_dataset(const ConstTensor& features, const ConstTensor& labels);

}  // namespace amdahl
