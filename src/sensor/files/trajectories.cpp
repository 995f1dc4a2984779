// Selects the reader by the name of a trajectory file, and reads streams from .npz files.
#include "sensor/files/trajectories.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "files/npz.h"
#include "sensor/files/file_options.h"

namespace amdahl {
namespace {

constexpr std::string_view kTimes = "times", kTimesEnding = "_times";
constexpr const char* kExpected = "times [S] or [B, S] and values [S, D] or [B, S, D]";

[[noreturn]] void refuse(const std::string& origin, const std::string& what) {
  throw Error(Cause::data_corrupt, fmt::format("{}: {}", origin, what), kExpected);
}

const NpzEntry* find(const std::vector<NpzEntry>& entries, std::string_view name) {
  const auto found = std::find_if(entries.begin(), entries.end(), [&](const NpzEntry& e) { return e.name == name; });
  return found == entries.end() ? nullptr : &*found;
}

void set_shape(Trajectories& stream, const NpyArray& times, const NpyArray& values) {
  const std::vector<int64_t>& shape = values.shape;
  const size_t dims = shape.size();
  if (dims < 1 || dims > 3) refuse(values.origin, fmt::format("its shape is {}", values.shape_text()));
  stream.batch = dims == 3 ? shape[0] : 1;
  stream.length = dims == 3 ? shape[1] : shape[0];
  stream.width = dims == 1 ? 1 : shape.back();
  const bool shared = times.shape == std::vector<int64_t>{stream.length};
  const bool own = times.shape == std::vector<int64_t>{stream.batch, stream.length};
  if (!shared && !own)
    refuse(times.origin, fmt::format("its shape is {}, and the values' {}", times.shape_text(), values.shape_text()));
  if (stream.batch == 0 || stream.length == 0 || stream.width == 0)
    refuse(values.origin, fmt::format("its shape is {}: there is no sample", values.shape_text()));
}

Trajectories make_stream(const std::string& name, const NpyArray& times, const NpyArray& values) {
  Trajectories stream;
  stream.name = name;
  set_shape(stream, times, values);
  stream.values.reserve(values.num_elements());
  std::vector<FloatLoss> losses(static_cast<size_t>(stream.width));
  const size_t in_trajectory = static_cast<size_t>(stream.length * stream.width);
  for_each_element(values, [&](double value) {
    const size_t at = stream.values.size();
    FloatLoss& loss = losses[at % losses.size()];
    if (at % in_trajectory < losses.size()) loss.restart();
    loss.add(value);
    stream.values.push_back(static_cast<float>(value));
  });
  for (size_t i = 0; i < losses.size(); ++i)
    warn_of_loss(losses[i], fmt::format("{}, value {}", values.origin, i), stream);
  const auto num_times = static_cast<size_t>(stream.batch * stream.length);
  stream.times.reserve(num_times);
  for_each_element(times, [&](double time) { stream.times.push_back(time); });
  while (stream.times.size() < num_times)  // one row of times for all trajectories
    stream.times.push_back(stream.times[stream.times.size() - static_cast<size_t>(stream.length)]);
  check_times(stream,
              [&](int64_t b, int64_t s) { return fmt::format("{}, trajectory {}, sample {}", times.origin, b, s); });
  return stream;
}

std::vector<Trajectories> load_npz_trajectories(const std::string& path) {
  const std::vector<NpzEntry> entries = read_npz(path);
  std::vector<Trajectories> streams;
  for (const NpzEntry& entry : entries) {
    const bool lone = (entry.name == "values" || entry.name == "data") && find(entries, kTimes) != nullptr;
    const NpzEntry* times = find(entries, lone ? std::string(kTimes) : entry.name + std::string(kTimesEnding));
    if (times != nullptr) {
      streams.push_back(make_stream(lone ? "" : entry.name, times->array, entry.array));
      continue;
    }
    const bool is_times = entry.name == kTimes || entry.name.ends_with(kTimesEnding);
    if (is_times) {
      const std::string_view of = std::string_view(entry.name).substr(0, entry.name.size() - kTimesEnding.size());
      if (entry.name == kTimes ? find(entries, "values") == nullptr && find(entries, "data") == nullptr
                               : find(entries, of) == nullptr)
        refuse(entry.array.origin, "there are no values of these times");
    } else if (entry.array.shape.size() > 1) {
      refuse(entry.array.origin, fmt::format("there are no times of it, '{}{}'", entry.name, kTimesEnding));
    }
  }
  if (streams.empty()) refuse(path, "there is no stream in it");
  if (streams.size() > 1)
    for (const Trajectories& stream : streams)
      if (stream.name.empty()) refuse(path, "'times' stands beside streams with names, or both values and data do");
  return streams;
}

}  // namespace

void warn_of_loss(const FloatLoss& loss, const std::string& where, Trajectories& stream) {
  if (loss.is_visible())
    stream.warnings.push_back(
        fmt::format("{}: values change by up to {:.3g} by becoming floats, and differ by about {:.3g} from sample to "
                    "sample: subtract an offset in the file",
                    where, loss.largest(), loss.usual_step()));
}

std::vector<Trajectories> load_trajectories(const std::string& path, const SensorFileOptions& options) {
  refuse_options_without_effect({path}, options);
  const std::string ending = std::filesystem::path(path).extension();
  if (ending == ".npz") return load_npz_trajectories(path);
  if (ending == ".csv" || ending == ".tsv" || ending == ".txt") return {load_csv_trajectories(path, options)};
  throw Error(Cause::usage, fmt::format("'{}' has no ending of trajectories", path),
              ".npz (times and values) or .csv, .tsv, .txt (one row per sample)");
}

}  // namespace amdahl
