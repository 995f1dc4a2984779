// Makes a Dataset from arrays in memory.
#pragma once

#include "amdahl/tensor.h"
#include "train/dataset.h"

namespace amdahl {

/// Copies the arrays, which must be dense and in host memory. `features` [rows, width] f32; `labels` [rows, outputs]
/// f32 for regression, or [rows] i32 or i64 class indices from 0; the largest index determines the number of classes.
/// Error{usage} names the array and the defect, Error{non_finite} the row and column of a NaN or infinity.
Dataset make_array_dataset(const ConstTensor& features, const ConstTensor& labels);

}  // namespace amdahl
