// Images with class labels from .npy files.
#pragma once

#include <string>

#include "train/dataset.h"

namespace amdahl {

/// `images`: [rows, height, width, channels], u8 (divided by 255) or f32 (as they are). `labels`: [rows] of i32, i64 or
/// u8, class indices from 0; the largest determines the number of classes.
///
/// Error{usage}: a file that cannot be read. Error{data_corrupt}: files, shapes, types and labels of other kinds.
/// Error{non_finite}: a NaN or infinity, with its row.
Dataset load_images(const std::string& images, const std::string& labels);

}  // namespace amdahl
