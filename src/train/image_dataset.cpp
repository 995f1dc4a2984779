#include "train/dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <string_view>

#include "files/npy.h"
#include "files/whole_file.h"

namespace amdahl {
namespace {

constexpr double kMostImageClasses = 1'000'000;

NpyArray load_typed(const std::string& path, size_t dimensions, std::initializer_list<std::string_view> types,
                    const char* wanted) {
  NpyArray array = parse_npy(read_file(path, Cause::usage, kMostDataBytes), path);
  const std::string_view type = std::string_view(array.type).substr(1);  // after the byte order
  const bool fits = array.shape.size() == dimensions && std::find(types.begin(), types.end(), type) != types.end();
  if (!fits)
    throw Error(Cause::data_corrupt, fmt::format("{}: it is {} of type '{}'", path, array.shape_text(), array.type),
                wanted);
  if (array.num_elements() == 0) throw Error(Cause::data_corrupt, fmt::format("{}: it is empty", path), wanted);
  return array;
}

void read_pixels(const NpyArray& array, Dataset& data) {
  require_memory(static_cast<double>(array.num_elements()) * sizeof(float), array.origin, "a part of the images");
  const bool bytes = array.element_bytes == 1;
  data.features.reserve(array.num_elements());
  for_each_element(array, [&](double value) {
    if (!std::isfinite(value))
      throw Error(Cause::non_finite,
                  fmt::format("{}: image {} has the value {}", array.origin,
                              static_cast<int64_t>(data.features.size()) / data.input_width, value),
                  "finite numbers");
    data.features.push_back(static_cast<float>(bytes ? value / 255.0 : value));
  });
}

void read_labels(const NpyArray& array, Dataset& data) {
  double largest = 1;  // at least two classes
  for_each_element(array, [&](double label) {
    if (label < 0 || label >= kMostImageClasses)
      throw Error(Cause::data_corrupt, fmt::format("{}: row {} is class {}", array.origin, data.targets.size(), label),
                  "class indices from 0 to 999,999");
    largest = std::max(largest, label);
    data.targets.push_back(static_cast<float>(label));
  });
  data.output_width = static_cast<int64_t>(largest) + 1;
  for (int64_t c = 0; c < data.output_width; ++c) data.class_names.push_back(fmt::format("{}", c));
}

}  // namespace

Dataset load_images(const std::string& images, const std::string& labels) {
  const NpyArray pixels = load_typed(images, 4, {"u1", "f4"}, "images of [rows, height, width, channels] as u8 or f32");
  const NpyArray classes = load_typed(labels, 1, {"u1", "i4", "i8"}, "labels of [rows] as i32, i64 or u8");
  if (classes.shape[0] != pixels.shape[0])
    throw Error(Cause::data_corrupt,
                fmt::format("{}: {} labels for the {} images of {}", labels, classes.shape[0], pixels.shape[0], images),
                "a label for each image");
  if (pixels.shape[0] > std::numeric_limits<int32_t>::max())
    throw Error(Cause::data_corrupt, fmt::format("{}: more than 2,147,483,647 images", images), "split the file");
  Dataset data;
  data.name = std::filesystem::path(images).stem().string();
  data.num_rows = pixels.shape[0];
  data.input_shape.assign(pixels.shape.begin() + 1, pixels.shape.end());
  data.input_width = static_cast<int64_t>(pixels.num_elements()) / data.num_rows;
  data.loss = LossKind::softmax_cross_entropy;
  data.target_names = {"label"};
  read_pixels(pixels, data);
  read_labels(classes, data);
  return data;
}

}  // namespace amdahl
