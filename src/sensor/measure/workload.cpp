#include "sensor/measure/workload.h"

#include <fmt/format.h>

#include <algorithm>

namespace amdahl {
namespace {

constexpr size_t kAlign = 256;
size_t aligned(size_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

/// At least as large as any present device's: 50 MiB on H100 and H200, 126 MiB on B200; a host's per socket.
size_t cache_bytes(const Device& device) {
  constexpr size_t kGpuCache = size_t{128} << 20, kHostCache = size_t{64} << 20;
  return device.backend() == BackendKind::cuda ? kGpuCache : kHostCache;
}

/// The parts of a variant's memory, in order: inputs, then the output.
struct VariantLayout {
  std::vector<size_t> inputs;  // bytes: points, features; or data and times of every stream, then the targets
  size_t output = 0;

  size_t total() const {
    size_t sum = aligned(output);
    for (const size_t input : inputs) sum += aligned(input);
    return sum;
  }
};

VoxelizeProblem cloud_problem(const SensorJob& job, int64_t num_items) {
  VoxelizeProblem problem;
  problem.feature_type = job.type;
  problem.num_points = num_items;
  problem.num_features = job.num_features;
  problem.grid = job.grid;
  problem.options = job.options;
  return problem;
}

VariantLayout layout_of(const SensorJob& job, int64_t num_items) {
  VariantLayout layout;
  const auto items = static_cast<size_t>(num_items);
  const size_t element = size_of(job.type);
  if (job.voxelizes()) {
    layout.inputs = {items * 3 * sizeof(float), items * static_cast<size_t>(job.num_features) * element};
    layout.output = voxelize_output_bytes(cloud_problem(job, num_items));
    return layout;
  }
  for (const StreamShape& stream : job.streams) {
    layout.inputs.push_back(items * static_cast<size_t>(stream.length * stream.width) * element);
    layout.inputs.push_back(items * static_cast<size_t>(stream.length) * sizeof(float));
  }
  layout.inputs.push_back(items * static_cast<size_t>(job.num_targets) * sizeof(float));
  layout.output = items * static_cast<size_t>(job.num_targets * job.fused_width()) * element;
  return layout;
}

std::vector<const void*> sources_of(const SensorJob& job, const SensorItems& made) {
  if (job.voxelizes()) return {made.points.data(), made.features.data()};
  std::vector<const void*> sources;
  for (size_t i = 0; i < made.stream_data.size(); ++i) {
    sources.push_back(made.stream_data[i].data());
    sources.push_back(made.stream_times[i].data());
  }
  sources.push_back(made.targets.data());
  return sources;
}

}  // namespace

SensorWorkload::SensorWorkload(const SensorRank& rank, const SensorJob& job, ItemRange items, MergeMethod method,
                               int num_variants, Stream& stream, Deadline deadline)
    : rank_(rank),
      job_(job),
      num_items_(items.count()),
      num_variants_(num_variants),
      memory_(rank.device.allocate(variant_bytes(job, items.count()) * static_cast<size_t>(num_variants))) {
  if (job.voxelizes())
    merge_ = std::make_unique<GridMerge>(rank.device, rank.ops, rank.communicator, cloud_problem(job, num_items_),
                                         job.num_items, method);
  for (int i = 0; i < num_variants; ++i) lay_out(i);
  fill(make_items(job, items), stream, deadline);
}

size_t SensorWorkload::variant_bytes(const SensorJob& job, int64_t num_items) {
  return std::max(layout_of(job, num_items).total(), kAlign);
}

size_t SensorWorkload::output_bytes(const SensorJob& job) { return layout_of(job, job.num_items).output; }

size_t SensorWorkload::shared_bytes(const SensorRank& rank, const SensorJob& job, MergeMethod method) {
  if (!job.voxelizes()) return 0;
  return GridMerge::memory_bytes(rank.ops, cloud_problem(job, job.num_items), rank.communicator.world_size(), method);
}

int SensorWorkload::cold_variants(const Device& device, const SensorJob& job, int64_t num_items) {
  const size_t bytes = variant_bytes(job, num_items);
  return static_cast<int>(std::min((2 * cache_bytes(device) + bytes - 1) / bytes + 1, kMostCopies));
}

bool SensorWorkload::leaves_cache(const Device& device, double copied_bytes) {
  return copied_bytes > 2 * static_cast<double>(cache_bytes(device));
}

void SensorWorkload::lay_out(int variant) {
  const VariantLayout layout = layout_of(job_, num_items_);
  char* at = memory_->as<char>() + layout.total() * static_cast<size_t>(variant);
  std::vector<char*> inputs;
  for (const size_t bytes : layout.inputs) {
    inputs.push_back(at);
    at += aligned(bytes);
  }
  Variant made;
  if (job_.voxelizes()) {
    made.voxelize = cloud_problem(job_, num_items_);
    made.voxelize.points = reinterpret_cast<const float*>(inputs[0]);
    made.voxelize.features = inputs[1];
    made.voxelize.output = at;
  } else {
    for (size_t i = 0; i < job_.streams.size(); ++i)
      made.fuse.streams.push_back({inputs[2 * i], reinterpret_cast<const float*>(inputs[2 * i + 1]),
                                   job_.streams[i].length, job_.streams[i].width});
    made.fuse.targets = reinterpret_cast<const float*>(inputs.back());
    made.fuse.output = at;
    made.fuse.type = job_.type;
    made.fuse.batch = num_items_;
    made.fuse.num_targets = job_.num_targets;
  }
  variants_.push_back(std::move(made));
}

void SensorWorkload::fill(const SensorItems& made, Stream& stream, Deadline deadline) {
  const VariantLayout layout = layout_of(job_, num_items_);
  const std::vector<const void*> sources = sources_of(job_, made);
  char* at = memory_->as<char>();
  for (int variant = 0; variant < num_variants_; ++variant) {
    char* input = at + layout.total() * static_cast<size_t>(variant);
    for (size_t i = 0; i < sources.size(); ++i) {
      if (layout.inputs[i] > 0) rank_.device.copy_in(stream, input, sources[i], layout.inputs[i]);
      input += aligned(layout.inputs[i]);
    }
  }
  stream.synchronize(deadline);
}

void SensorWorkload::compute(Stream& stream, int variant) {
  const Variant& own = variants_[static_cast<size_t>(variant)];
  if (merge_)
    merge_->compute(stream, own.voxelize);
  else if (num_items_ > 0)
    rank_.ops.fuse(stream, own.fuse);
}

void SensorWorkload::merge(Stream& stream, int variant) {
  if (merge_) merge_->merge(stream, variants_[static_cast<size_t>(variant)].voxelize);
}

std::vector<char> SensorWorkload::output(Stream& stream, int variant, Deadline deadline) {
  const VariantLayout layout = layout_of(job_, num_items_);
  const Variant& own = variants_[static_cast<size_t>(variant)];
  std::vector<char> host(layout.output);
  if (host.empty()) return host;
  rank_.device.copy_out(stream, host.data(), job_.voxelizes() ? own.voxelize.output : own.fuse.output, host.size());
  stream.synchronize(deadline);
  return host;
}

const char* throughput_unit(const SensorJob& job) { return job.voxelizes() ? "points/s" : "batches/s"; }

double useful_bytes(const SensorJob& job, int num_outputs) {
  const VariantLayout layout = layout_of(job, job.num_items);
  double bytes = static_cast<double>(layout.output) * num_outputs;
  for (const size_t input : layout.inputs) bytes += static_cast<double>(input);
  return bytes;
}

}  // namespace amdahl
