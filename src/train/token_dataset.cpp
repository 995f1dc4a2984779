#include "train/token_dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "amdahl/error.h"
#include "files/token_file.h"
#include "files/whole_file.h"
#include "train/windows.h"

namespace amdahl {
namespace {

constexpr int64_t kMostTokens = int64_t{1} << 24;  // every smaller integer is exact in f32

void check_token_rows(const TokenSequence& sequence, const TokenRows& rows) {
  if (rows.steps < 1)
    throw Error(Cause::usage, fmt::format("{}: rows of {} tokens", sequence.origin, rows.steps),
                "`window` of at least 1");
  if (rows.stride < 0) throw Error(Cause::usage, fmt::format("`stride` is {}", rows.stride), "at least 1");
  if (rows.vocabulary < 0 || rows.vocabulary > kMostTokens)
    throw Error(Cause::usage, fmt::format("`vocabulary` is {}", rows.vocabulary), "at most 16,777,216 tokens");
  const auto present = static_cast<int64_t>(sequence.tokens.size());
  if (present < rows.steps + 1)
    throw Error(Cause::usage,
                fmt::format("{}: a row takes {} tokens and the one after, and the file has {}", sequence.origin,
                            rows.steps, present),
                present > 1 ? fmt::format("`window` of at most {}", present - 1) : "a longer file");
}

std::string position_of(const TokenSequence& sequence, size_t index) {
  if (sequence.token_bytes == 0) return fmt::format("token {}", index);
  return fmt::format("token {} (byte {})", index, sequence.first_byte + index * sequence.token_bytes);
}

int64_t checked_vocabulary(const TokenSequence& sequence, int64_t wanted) {
  const auto largest = std::max_element(sequence.tokens.begin(), sequence.tokens.end());
  if (static_cast<int64_t>(*largest) >= kMostTokens)
    throw Error(Cause::data_corrupt,
                fmt::format("{}, {}: {} is no token", sequence.origin,
                            position_of(sequence, static_cast<size_t>(largest - sequence.tokens.begin())), *largest),
                "tokens below 16,777,216; or `bin_type` with their width");
  if (wanted == 0) return std::max<int64_t>({2, sequence.vocabulary, static_cast<int64_t>(*largest) + 1});
  if (static_cast<int64_t>(*largest) < wanted) return wanted;
  const auto first = std::find_if(sequence.tokens.begin(), sequence.tokens.end(),
                                  [&](uint32_t token) { return static_cast<int64_t>(token) >= wanted; });
  throw Error(Cause::data_corrupt,
              fmt::format("{}, {}: {} is beyond the vocabulary of {} tokens", sequence.origin,
                          position_of(sequence, static_cast<size_t>(first - sequence.tokens.begin())), *first,
                          with_thousands(wanted)),
              fmt::format("a model with a vocabulary of at least {}, or the file of its tokenizer",
                          static_cast<int64_t>(*largest) + 1));
}

}  // namespace

Dataset make_token_dataset(const TokenSequence& sequence, const TokenRows& rows) {
  check_token_rows(sequence, rows);
  const int64_t steps = rows.steps, stride = rows.stride == 0 ? steps : rows.stride;
  Dataset data;
  data.name = std::filesystem::path(sequence.origin).stem().string();
  data.vocabulary = checked_vocabulary(sequence, rows.vocabulary);
  data.num_rows = num_windows(static_cast<int64_t>(sequence.tokens.size()), steps + 1, stride);
  data.input_width = steps;
  data.input_shape = {steps};
  data.targets_per_row = steps;
  data.overlap = window_overlap(steps, stride);
  data.loss = LossKind::softmax_cross_entropy;
  data.output_width = data.vocabulary;
  if (static_cast<int64_t>(sequence.words.size()) == data.vocabulary) data.class_names = sequence.words;
  require_memory(2.0 * static_cast<double>(data.num_rows) * static_cast<double>(steps) * sizeof(float),
                 fmt::format("{}: {} rows of {} tokens and as many targets", sequence.origin, data.num_rows, steps),
                 "a larger `stride`, or a part of the file");
  const auto floats = static_cast<size_t>(data.num_rows * steps);
  data.features.reserve(floats);
  data.targets.reserve(floats);
  for (int64_t row = 0; row < data.num_rows; ++row) {
    const uint32_t* token = sequence.tokens.data() + row * stride;
    for (int64_t step = 0; step < steps; ++step) {
      data.features.push_back(static_cast<float>(token[step]));
      data.targets.push_back(static_cast<float>(token[step + 1]));
    }
  }
  return data;
}

TokenSequence load_token_file(const std::string& path, size_t width) {
  TokenFile file = read_token_file(path, width);
  return {path, std::move(file.tokens), 0, {}, file.header_bytes, file.token_bytes};
}

}  // namespace amdahl
